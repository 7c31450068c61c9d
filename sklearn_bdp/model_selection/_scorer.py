"""A scorer whose answers come from a reusable holdout: it goes wherever ``scoring=`` goes."""

from __future__ import annotations

import copy
import hashlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp.diagnostics.overlap import TrainingData, cell_codes, splitmix64
from sklearn_bdp.diagnostics.scores import BatchDependenceCheck, warn_clipped_score
from sklearn_bdp.exceptions import ScoreContractError, UnknownFeaturesError
from sklearn_bdp.holdout import AnswerRecord
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.metrics.approximate import UNKNOWN_SCORER, ApproximateMetric, TrainingReference
from sklearn_bdp.metrics.base import same_names
from sklearn_bdp.metrics.scorers import (
    check_scoring,
    cross_validated_reference,
    reference_of_predictions,
    scorer_metric,
)
from sklearn_bdp.release.batch import check_overlap
from sklearn_bdp.utils.hashing import (
    ModelDigest,
    content_key,
    copy_data,
    data_digest,
    fingerprint,
    query_key,
)
from sklearn_bdp.utils.sklearn_compat import (
    called_by_validation,
    is_being_fitted,
    num_samples,
    safe_indexing,
)
from sklearn_bdp.utils.validation import (
    as_frame,
    check_supported_values,
    check_targets,
    strip_traceback_frames,
)

#: Types of columns, of pandas and polars, that models take encoded only.
_TEXT = {"object", "str", "string", "category", "String", "Categorical", "Enum"}
_SALT = np.uint64(0xD6E8FEB86659FD93)
_MODELS, _FOLDS = 4, 64  # how much is remembered: data of models, digests of folds


class _Refusal:
    """A refusal that cross-validation cannot mistake for a model that failed.

    What a scorer raises there becomes NaN; what it returns is looked at outside of the ``try``.
    """

    def __init__(self, error):
        self._error = error

    @property
    def item(self):
        """Raise the refusal."""
        raise self._error


class _ModelFailed(Exception):
    """The model could not be scored on the training side; cross-validation may write NaN."""


@dataclass(eq=False)
class _Seen:
    """The first data that a model was scored on."""

    key: str | None
    content: str | None  # digest of what the model has learned
    metric: object
    X: object = field(repr=False)
    y: object = field(repr=False)
    estimator: object = field(repr=False)  # a weak reference: which object it was, in this process
    classes: Any = None  # those of its fingerprint, which is taken when it is met again
    fingerprint: Any = None

    def __getstate__(self):
        return {**vars(self), "estimator": None}

    def is_about(self, estimator):
        """Return whether it was this very object."""
        return self.estimator is not None and self.estimator() is estimator

    def is_unchanged(self, estimator):
        """Return whether the object is known to be as it was, without a walk through it."""
        now = None if self.classes is None else fingerprint((estimator, self.metric), self.classes)
        return now is not None and now == self.fingerprint


@dataclass
class _Memory:
    """What copies of a scorer share: data of the last models, digests of folds, the last answer."""

    models: list = field(default_factory=list)
    folds: dict = field(default_factory=dict)
    answer: AnswerRecord | None = None
    row_wise: BatchDependenceCheck = field(default_factory=BatchDependenceCheck)
    warned: bool = False  # that clipping changes the score

    def __getstate__(self):
        # Workers need the model that was scored last, for permutation importance, and no other.
        return {**vars(self), "models": self.models[-1:]}


class HoldoutScorer:
    """Scorer that verifies fitted models on a reusable holdout.

    ``scorer(estimator, X, y)`` scores ``(X, y)``, which must be training data, and returns what
    the holdout answers when that score is compared with it. Use it as ``scoring=`` in
    :func:`~sklearn.model_selection.cross_val_score`,
    :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.inspection.permutation_importance`, or call it in a loop.

    Parameters
    ----------
    holdout : ReusableHoldout
        Copies, clones and pickles of the scorer refer to the same holdout. In another process it
        works through the holdout's ledger; without one it raises
        :class:`~sklearn_bdp.exceptions.ProcessBoundaryError`.
    scoring : str, callable or None, default=None
        A metric with a proven bound (see :mod:`sklearn_bdp.metrics`), or any other scorer of
        scikit-learn, whose intervals are approximate. ``None``: the estimator's own score.

    Attributes
    ----------
    last_answer_ : AnswerRecord
        The last verified score with its interval, in score units. Copies of the scorer in the same
        process share it; ``holdout.history()`` has every answer, of all processes.

    See Also
    --------
    ReusableHoldoutSearchCV : Search whose every candidate is verified.
    ReusableHoldout.score : Verify one fitted model.

    Notes
    -----
    *Refusals* are errors everywhere: scikit-learn writes NaN for a scorer that fails and goes on,
    but a budget that is used up, columns that cannot be found or a holdout that cannot be asked
    from a worker end the run. A model whose own ``predict`` fails is left to ``error_score``.

    *Training curves*. ``learning_curve``, ``validation_curve`` and ``return_train_score=True``
    score a model on the rows it was trained on after those it was tested on. The holdout has
    nothing to say about these; they get the plain score.

    *Permutation importance* (with all rows, which ``max_samples=1.0`` means): shuffled columns are
    recognized by comparing with the first data that the model was scored on. The query is put to
    the holdout with these columns replaced by draws from the shuffled training columns, which are
    public; a column set to one value is set to it on the holdout.

    *Selectors* that pass arrays without names: in RFECV every fold begins with all columns, so that
    the scorer can find the others by their values. SequentialFeatureSelector begins without, and
    is not supported, nor are equal columns:
    :class:`~sklearn_bdp.feature_selection.HoldoutFeatureSelector` does their work.

    *Metrics without a proven bound* need predictions of records that the model was not fitted on:
    in cross-validation those of the fold that tests it, which has to hold at least as many records
    as the holdout for an interval. A scorer that is called by itself cross-validates clones of the
    model on the rows that it is given, in five folds.

    *Early stopping* is not supported: each iteration would be a query, and their intervals grow
    (``python -m benchmarks.early_stopping``). Stop by training rows, then verify the model.

    *Weights* may go to ``fit``. The score is unweighted on both sides, because a weighted one has
    no known sensitivity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score, train_test_split
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_bdp import HoldoutScorer, ReusableHoldout
    >>> X, X_holdout, y, y_holdout = train_test_split(*load_iris(return_X_y=True), random_state=0)
    >>> scorer = HoldoutScorer(ReusableHoldout(X_holdout, y_holdout, random_state=0))
    >>> cross_val_score(DecisionTreeClassifier(random_state=0), X, y, scoring=scorer).shape
    (5,)
    >>> scorer.last_answer_.lower < scorer.last_answer_.value < scorer.last_answer_.upper
    True
    """

    def __init__(
        self, holdout: ReusableHoldout, scoring: str | Callable[..., Any] | None = None
    ) -> None:
        if not isinstance(holdout, ReusableHoldout):
            name = f"holdout, scoring={holdout!r}" if isinstance(holdout, str) else "holdout"
            raise TypeError(
                f"holdout must be a ReusableHoldout, got {type(holdout).__name__}. Pass the "
                f"holdout first: HoldoutScorer({name})."
            )
        check_scoring(scoring)
        self.holdout = holdout
        self.scoring = scoring
        self._memory = _Memory()

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike | None = None, sample_weight: None = None
    ) -> float:
        """Return the verified score of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            The model to verify.
        X : array-like of shape (n_samples, n_features)
            Training data for the training-side value; never holdout records.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : None
            Weights have no bounded sensitivity and are refused.

        Returns
        -------
        float
            The released score, in score units.

        Raises
        ------
        UnknownFeaturesError
            When the model was fitted on columns that cannot be found in the holdout.
        ValueError, TypeError
            When ``X`` and ``y`` are no training data of the kind that the holdout holds.
        BudgetExhaustedError, ProcessBoundaryError, LedgerError
            As :meth:`ReusableHoldout.answer <sklearn_bdp.ReusableHoldout.answer>`.
        """
        in_validation = called_by_validation()
        try:
            return self._score(estimator, as_frame(X), as_frame(y), sample_weight, in_validation)
        except _ModelFailed as failure:
            error: Any = failure.__cause__
        except Exception as refusal:
            if not in_validation:
                raise
            refused: Any = _Refusal(refusal)
            return refused
        raise error

    def _score(self, estimator, X, y, sample_weight, in_validation):
        """Return the verified score, or the plain one of rows that a fold was trained on."""
        self._check(estimator, X, y, sample_weight)
        columns, records = self._columns(estimator, X, y), self.holdout.X
        if columns is not None:
            records = safe_indexing(records, columns, axis=1)
        kinds = {str(dtype).split("(")[0] for dtype in getattr(records, "dtypes", ())}
        given = getattr(X, "dtypes", [getattr(X, "dtype", "")])
        if kinds & _TEXT and not {"", *_TEXT} & {str(dtype).split("(")[0] for dtype in given}:
            raise ValueError(
                "X has numbers where the holdout has text or categories. Fit one pipeline with the "
                "transformer, then call scorer(pipeline, X, y) with the rows as they were. The "
                "holdout was not queried."
            )
        seen, memory = self._identify(estimator, X, y, in_validation), self._memory
        metric, key, is_new = seen.metric, seen.key, seen not in memory.models
        alteration = Alteration() if is_new else recognise(seen.X, seen.y, X, y)
        if alteration is None and not in_validation and num_samples(X) < num_samples(seen.X):
            raise ValueError(
                f"X must be all {num_samples(seen.X)} rows that this model was scored on before, "
                f"or some of them as they were, got {num_samples(X)} others. In "
                "permutation_importance, set max_samples=1.0. The holdout was not queried."
            )
        if not alteration:
            # Of holdout records the training-side value would hand out the holdout's score.
            check_overlap(self.holdout, TrainingData(((X, y),)))
            self.holdout.check_model(estimator)
        if is_new:  # and neither its rows nor itself was refused
            memory.models = [*memory.models, seen][-_MODELS:]
        if key is not None and columns is not None:  # equal columns here may differ on the holdout
            key = content_key("columns", key, [str(column) for column in columns])
        try:
            per_record, value = metric.training_scores(estimator, X, y)
        except ScoreContractError:
            raise
        except Exception as error:
            raise _ModelFailed from error
        if not alteration:
            memory.row_wise.ask(estimator, X)
            memory.row_wise.check_score(metric, estimator, X, y)
        if alteration is None and in_validation and seen.is_about(estimator):
            return float(metric.from_unit(value))  # rows that the model was trained on
        if alteration:
            records = altered_records(records, X, alteration)
            key = key and query_key("altered", key, alteration.shuffled, alteration.constant)
        if not memory.warned:
            clipping = metric.clipping(estimator, X, y, per_record)
            memory.warned = warn_clipped_score(metric, clipping, f"the {type(estimator).__name__}")
        variance, reference = None, None
        if metric.is_mean and not metric.is_binary:  # where it is of use
            variance = min(float(np.var(metric.evaluate(estimator, X, y).per_record)), 0.25)
        if isinstance(metric, ApproximateMetric):
            try:
                metric, reference = self._reference(
                    metric, estimator, X, y, out_of_sample=in_validation, altered=bool(alteration)
                )
            except Exception as error:  # of a model that cannot be cross-validated
                raise _ModelFailed from error
            value = metric.to_unit(reference.score)
            if np.isnan(value):
                raise _ModelFailed from ValueError(
                    f"{metric.name} is undefined on the training records. The holdout was not "
                    "queried."
                )
        return self._ask(
            estimator, metric, records, value, key, num_samples(X), variance, reference
        )

    def _reference(self, metric, estimator, X, y, *, out_of_sample, altered):
        """Return the metric with its public range, and the spread of its score.

        ``out_of_sample``: whether the model was fitted on other rows, as in cross-validation. Else
        clones of it are cross-validated on these rows.
        """
        if altered or (out_of_sample and not metric.by_predictions):
            score = metric.score_model(estimator, X, y)
            reason = "columns of the training records were altered" if altered else UNKNOWN_SCORER
            return metric.with_range([score]), TrainingReference(score=score, reason=reason)
        dependence = self.holdout.dependence
        holdout_facts = {
            "n_holdout_units": dependence.units(self.holdout.n)[0],
            "n_holdout_records": self.holdout.n,
            "rule_out": ""
            if dependence.is_independent
            else "the groups of the training records are unknown",
        }
        if not out_of_sample:
            return cross_validated_reference(metric, estimator, X, y, **holdout_facts)
        predictions = metric.predictions(estimator, X, y)
        return reference_of_predictions(metric, predictions, unit_codes=None, **holdout_facts)

    @strip_traceback_frames  # the evaluation below is raw
    def _ask(self, model, metric, records, value, key, size, variance, reference):
        """Put one query to the holdout, remember the answer and return the score."""
        evaluation = metric.evaluate(model, records, self.holdout.y)
        if reference is not None:
            evaluation = metric.finish(evaluation, reference)
        (answer,) = self.holdout.answer_evaluations(
            np.array([value]),
            [evaluation],
            n_train=size,
            training_variance=variance,
            keys=[key],
            about=[(metric, type(model).__name__)],
        )
        self._memory.answer = answer.in_units()
        return self._memory.answer.value

    def _content_for_keys(self):
        """Return what a key holds of a scorer inside a model."""
        return (type(self).__name__, self.holdout, self.scoring)

    def _check(self, estimator, X, y, sample_weight):
        """Refuse what is no training data for this holdout, before anything is computed."""
        if is_being_fitted(estimator):
            raise ValueError(
                f"HoldoutScorer cannot stop {type(estimator).__name__} early: each iteration would "
                "be a query. Pass scoring='loss' to stop by a part of the training rows, then "
                "verify the fitted model. The holdout was not queried."
            )
        self.holdout.account.check_home()
        if sample_weight is not None:
            raise ValueError(
                "sample_weight must be None: a weighted score has no known sensitivity. Give "
                "weights to fit only."
            )
        if np.ndim(y) == 0:
            raise ValueError(f"y must be an array of targets, got {type(y).__name__}.")
        check_supported_values("X", X)
        check_targets("y", y)
        have, expected = np.ndim(X), np.ndim(self.holdout.X)
        if have != expected:
            raise ValueError(
                f"X must have ndim={expected} like the holdout, got {have}. With cv=None, RidgeCV "
                "and similar models score predictions instead of a model, which a holdout cannot "
                "verify. Set cv=5."
            )

    def _identify(self, estimator, X, y, in_validation):
        """Return the first data seen of this model, with the metric and the key of the query.

        The first data decide about the metric, too: default bounds of regression errors come from
        the targets, and a sub-sample has others.
        """
        for seen in self._memory.models:
            if seen.is_about(estimator) and seen.is_unchanged(estimator):
                return seen
        metric, known = None, ModelDigest(estimator)
        for seen in reversed(self._memory.models):
            alike = seen.key is not None and seen.content == known.content
            if not alike or seen.key != known.key(seen.metric, seen.X):
                continue
            metric = seen.metric
            if not in_validation and seen.is_about(estimator) and known.classes is not None:
                seen.classes = known.classes  # cross-validation does not ask a third time
                seen.fingerprint = fingerprint((estimator, metric), seen.classes)
            if seen.is_about(estimator) or not in_validation:
                return seen
            break  # an equal model of another fold begins anew
        if metric is None:
            config, dependence = self.holdout.config, self.holdout.dependence
            metric = scorer_metric(
                self.scoring,
                estimator=estimator,
                y=y,
                proof_needed_for=config.proof_needed_for(dependence),
                has_class_bounds=dependence.has_class_bounds,
            )
        key = known.key(metric, X)
        return _Seen(key, known.content, metric, copy_data(X), copy_data(y), weakref.ref(estimator))

    def _columns(self, model, X, y):
        """Return the columns of the holdout that the model needs, or None for all of them."""
        expected = getattr(self.holdout.X, "shape", (0, None))[1:]
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(self.holdout.X, "columns"):
            have = self.holdout.X.columns
            if missing := [name for name in names if name not in set(have)]:
                raise UnknownFeaturesError(
                    f"The estimator was fitted on columns that the holdout lacks: {missing}. "
                    "Nothing was spent."
                )
            return None if same_names(names, have) else list(names)
        fitted_on = getattr(model, "n_features_in_", None)
        if fitted_on is None and len(getattr(X, "shape", ())) == 2:
            fitted_on = X.shape[1]
        if not expected or fitted_on is None:
            return None
        fold, folds = query_key(np.asarray(y)), self._memory.folds
        if fitted_on == expected[0]:
            codes = None if fold in folds else column_codes(X)
            if codes is not None:  # by the digests of all columns some can be found later
                kept = dict(list(folds.items())[-_FOLDS + 1 :])
                self._memory.folds = {**kept, fold: (len(codes), ordered(codes))}
            return None
        found = find_columns(folds[fold], X) if fold in folds else None
        if found is None:
            raise UnknownFeaturesError(
                f"The estimator was fitted on {fitted_on} columns without names, which cannot be "
                f"found (or not each once) among the {expected[0]} of the holdout. Fit it on a "
                "DataFrame with names that the holdout shares. SequentialFeatureSelector strips "
                "them: use HoldoutFeatureSelector. The holdout was not queried."
            )
        return found

    @property
    def last_answer_(self) -> AnswerRecord:
        """Return the last verified score and its interval."""
        if self._memory.answer is None:
            raise AttributeError(
                "last_answer_ is there once the scorer was asked in this process; what workers "
                "asked is in holdout.history()."
            )
        return self._memory.answer

    @property
    def __name__(self):
        """Name the score, for displays that ask a callable for its name."""
        scoring = self.scoring if self.scoring is not None else "score"
        return f"verified_{scoring if isinstance(scoring, str) else type(scoring).__name__}"

    @property
    def _score_func(self):
        """Say why a scorer cannot be taken apart, where scikit-learn asks for its function."""
        raise AttributeError(
            "HoldoutScorer scores models, not predictions: TunedThresholdClassifierCV needs a "
            "plain metric such as scoring='balanced_accuracy' in the training set. Verify the "
            "tuned classifier afterwards: scorer(tuned, X, y)."
        )

    def _accept_sample_weight(self):
        """Tell scikit-learn's searches that weights go to ``fit`` alone."""
        return False

    def __deepcopy__(self, memo):
        return copy.copy(self)  # of the same holdout and memory

    def __repr__(self) -> str:
        scoring = "" if self.scoring is None else f", scoring={self.scoring!r}"
        return f"HoldoutScorer({self.holdout!r}{scoring})"


# Permutation importance and its relatives score one fitted model on altered copies of its data.
# What was altered is recognised by comparing with the first data, and carried over to the holdout.


@dataclass(frozen=True)
class Alteration:
    """Columns whose values were shuffled among rows, or set to one value."""

    shuffled: tuple = ()  # place of a column, digest of its values in their order
    constant: tuple = ()  # place of a column, code of its only value

    def __bool__(self):
        return bool(self.shuffled or self.constant)


def column_codes(X, *, single=False):
    """Return a 64-bit code of each cell, shape (n, n_features); equal values have equal codes.

    ``None`` for data without columns (lists of texts) and for sparse data. With ``single``, numbers
    are rounded to single precision, so that a copy in single precision is recognised.
    """
    if hasattr(X, "tocsr") or len(np.shape(X)) != 2:
        return None
    X = X if hasattr(X, "iloc") else np.asarray(X)
    plain = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
    columns = [X]
    if not plain:
        columns = [np.asarray(safe_indexing(X, at, axis=1)) for at in range(X.shape[1])]
    codes = [cell_codes(column, single=single) for column in columns]
    return splitmix64(np.column_stack(codes), _SALT) if X.shape[1] else None


def recognise(reference, reference_y, X, y):
    """Return what was altered in ``X`` since the reference, ``None`` for other rows.

    Of some of the rows it is only known that none was altered. Raises ValueError where some columns
    are the same and others are not, in a way that cannot be carried over to other records.
    """
    # In the precision of the less precise one.
    single = _is_single(X) != _is_single(reference)
    same_targets = np.array_equal(np.asarray(reference_y), np.asarray(y))
    places = _unequal(reference, X) if same_targets else None
    tables = (reference, X) if places is None else (reference[:, places], X[:, places])
    before, after = (column_codes(table, single=single) for table in tables)
    if before is None or after is None or before.shape[1] != after.shape[1]:
        same = before is None and after is None and data_digest(reference) == data_digest(X)
        return Alteration() if same else None
    if len(before) == len(after) and same_targets:
        shuffled, constant, unexplained = [], [], []
        for at in np.flatnonzero((before != after).any(axis=0)).tolist():
            place, column = at if places is None else int(places[at]), after[:, at]
            if np.array_equal(np.sort(before[:, at]), np.sort(column)):
                shuffled.append((place, int(ordered(column[:, None])[0])))
            elif (column == column[0]).all():
                constant.append((place, int(column[0])))
            else:
                unexplained.append(place)
        if not unexplained:
            return Alteration(tuple(shuffled), tuple(constant))
        if len(unexplained) == X.shape[1]:
            return None
        raise ValueError(
            "X must be the data that this model was scored on before, other rows, or the same rows "
            "with columns shuffled or set to one value, got other values in the columns "
            f"{unexplained} (counted from 0). Columns need unique names. Nothing was spent."
        )
    if len(after) < len(before) and np.isin(ordered(after.T), ordered(before.T)).all():
        return Alteration()
    return None


def _unequal(reference, X):
    """Return the places of columns whose numbers differ; None where all cells must be coded."""
    plain = type(reference) is type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "biuf"
    if not plain or (reference.dtype, reference.shape) != (X.dtype, X.shape):
        return None
    places = np.flatnonzero((reference != X).any(axis=0))
    return places if 0 < places.size < X.shape[1] else None


def find_columns(seen, X):
    """Return the places of the columns of ``X`` among those of data with the same rows, or None.

    Selectors pass arrays without names; a column is found by its values, unless several have the
    same.
    """
    codes = column_codes(X)
    if codes is None or len(codes) != seen[0]:
        return None
    known, places, counts = np.unique(seen[1], return_index=True, return_counts=True)
    alone = dict(zip(known[counts == 1].tolist(), places[counts == 1].tolist(), strict=True))
    found = [alone.get(digest) for digest in ordered(codes).tolist()]
    return None if None in found else found


def altered_records(records, X, alteration):
    """Return holdout records with columns altered as those of ``X`` were.

    Shuffled columns are replaced by draws from the training columns, which are public: one row of
    ``X`` is drawn for each record and gives all of them, seeded by the shuffled data, so that the
    same query always has the same answer. Any row has the one value of the others.
    """
    digest = hashlib.sha256(repr(alteration.shuffled).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    rows = rng.integers(num_samples(X), size=num_samples(records))
    X = X if hasattr(X, "iloc") else np.asarray(X)
    replaced = records.copy() if hasattr(records, "iloc") else np.array(records)
    if not hasattr(replaced, "iloc") and not hasattr(X, "iloc"):
        replaced = replaced.astype(np.result_type(replaced, X), copy=False)
    for place, _ in (*alteration.shuffled, *alteration.constant):
        column = X.iloc[rows, place].array if hasattr(X, "iloc") else X[rows, place]
        if hasattr(replaced, "iloc"):
            replaced.isetitem(place, column)
        else:
            replaced[:, place] = column
    return replaced


def _is_single(X):
    """Return whether numbers are kept in single precision or less."""
    kinds = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", np.dtype(float))]
    return any(getattr(k, "kind", "O") == "f" and k.itemsize < 8 for k in kinds)


def ordered(codes):
    """Return a digest of each column: its values and their order."""
    places = np.arange(1, len(codes) + 1, dtype=np.uint64) * _SALT
    return splitmix64(codes, places[:, None]).sum(axis=0)
