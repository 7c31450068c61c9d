"""Scorer that verifies on a reusable holdout, for every ``scoring=`` of scikit-learn."""

from __future__ import annotations

import copy
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
from sklearn_bdp.metrics.approximate import (
    OF_DATES,
    UNKNOWN_SCORER,
    ApproximateMetric,
    TrainingReference,
)
from sklearn_bdp.metrics.base import same_names
from sklearn_bdp.metrics.scorers import (
    check_scoring,
    cross_validated_reference,
    reference_of_predictions,
    scorer_metric,
)
from sklearn_bdp.release.context import CVData
from sklearn_bdp.release.overlap_check import check_overlap
from sklearn_bdp.report.in_time import clip_errors_in_time
from sklearn_bdp.report.plan import out_of_fold_errors
from sklearn_bdp.utils.hashing import (
    ModelDigest,
    content_key,
    copy_data,
    data_digest,
    fingerprint,
    query_key,
    text_code,
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

#: Types of columns, of pandas and polars, that models need encoded.
_TEXT = {"object", "str", "string", "category", "String", "Categorical", "Enum"}
_SALT = np.uint64(0xD6E8FEB86659FD93)
_MODELS = 4  # number of models whose data are stored
_UNKNOWN_GROUPS = "the groups of the training records are unknown"
_FOLDS = 64  # number of folds whose digests are stored


class _Refusal:
    """Return value of a scorer that makes cross-validation raise an error.

    Cross-validation turns errors of a scorer into NaN, but it reads the returned value outside of
    the ``try``.
    """

    def __init__(self, error):
        self._error = error

    @property
    def item(self):
        """Raise the error."""
        raise self._error


class _ModelFailed(Exception):
    """The model could not be scored on training records; cross-validation may write NaN."""


@dataclass(eq=False)
class _ScoredModel:
    """Model with the first data that it was scored on."""

    key: str | None
    content: str | None  # digest of the fitted attributes
    metric: object
    X: object = field(repr=False)
    y: object = field(repr=False)
    estimator: object = field(repr=False)  # a weak reference in this process
    classes: Any = None  # of the fingerprint, which is computed at the second call
    fingerprint: Any = None

    def __getstate__(self):
        return {**vars(self), "estimator": None}

    def is_about(self, estimator):
        """Return whether the scored model is this object."""
        return self.estimator is not None and self.estimator() is estimator

    def is_unchanged(self, estimator):
        """Return whether the object is known to be unchanged, without a digest of all its parts."""
        if self.classes is None:
            return False
        current = fingerprint((estimator, self.metric), self.classes)
        return current is not None and current == self.fingerprint


@dataclass
class _Memory:
    """State that copies of a scorer share: last models, digests of folds, the last answer."""

    models: list = field(default_factory=list)
    folds: dict = field(default_factory=dict)
    answer: AnswerRecord | None = None
    row_wise: BatchDependenceCheck = field(default_factory=BatchDependenceCheck)
    warned: bool = False  # about the effect of clipping on the score

    def __getstate__(self):
        # Workers need only the last scored model, for permutation importance.
        return {**vars(self), "models": self.models[-1:]}


class HoldoutScorer:
    """Scorer that verifies fitted models on a reusable holdout.

    ``scorer(estimator, X, y)`` scores ``(X, y)``, which must be training data, and returns
    the verified score, the holdout's answer when that score is compared with it. Use it as
    ``scoring=`` in :func:`~sklearn.model_selection.cross_val_score`,
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
            If ``X`` and ``y`` are not training data of the kind that the holdout contains.
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
        """Return the verified score, or the plain score of rows that a fold was trained on."""
        self._check(estimator, X, y, sample_weight)
        columns = self._columns(estimator, X, y)
        records = self.holdout.X
        if columns is not None:
            records = safe_indexing(records, columns, axis=1)
        _check_text_columns(records, X)
        scored_model = self._identify(estimator, X, y, in_validation)
        metric = scored_model.metric
        memory = self._memory
        alteration = self._alteration(scored_model, X, y, in_validation)
        if not alteration:
            # The training score of holdout records would release the raw holdout score.
            check_overlap(self.holdout, TrainingData(((X, y),)))
            self.holdout.check_model(estimator)
        if scored_model not in memory.models:  # and all checks of its rows and of the model passed
            memory.models = [*memory.models, scored_model][-_MODELS:]
        metric = clip_errors_in_time(
            self.holdout,
            metric,
            lambda: _out_of_sample_errors(estimator, X, y, is_tested=in_validation),
        )
        per_record, value = _training_scores(metric, estimator, X, y)
        if not alteration:
            memory.row_wise.ask(estimator, X)
            memory.row_wise.check_score(metric, estimator, X, y)
        if alteration is None and in_validation and scored_model.is_about(estimator):
            return float(metric.from_unit(value))  # training rows of the model
        if alteration:
            records = altered_records(records, X, alteration)
        if not memory.warned:
            clipping = metric.clipping(estimator, X, y, per_record)
            memory.warned = warn_clipped_score(metric, clipping, f"the {type(estimator).__name__}")
        variance = _record_variance(metric, estimator, X, y)
        reference = None
        if isinstance(metric, ApproximateMetric):
            metric, reference = self._compared_reference(
                metric, estimator, X, y, out_of_sample=in_validation, altered=bool(alteration)
            )
            value = metric.to_unit(reference.score)
        key = _query_key(scored_model.key, columns, alteration)
        return self._ask(
            estimator, metric, records, value, key, num_samples(X), variance, reference
        )

    def _alteration(self, scored_model, X, y, in_validation):
        """Return how the rows of a scored model were altered; None for other rows.

        The alteration of a model that was not scored before is empty.
        """
        if scored_model not in self._memory.models:
            return ColumnAlteration()
        alteration = detect_alteration(scored_model.X, scored_model.y, X, y)
        n_scored = num_samples(scored_model.X)
        if alteration is None and not in_validation and num_samples(X) < n_scored:
            raise ValueError(
                f"X must be all {n_scored} rows that this model was scored on before, or some of "
                f"them as they were, got {num_samples(X)} others. In permutation_importance, set "
                "max_samples=1.0. The holdout was not queried."
            )
        return alteration

    def _compared_reference(self, metric, estimator, X, y, *, out_of_sample, altered):
        """Return the metric with its public range, and the reference with a finite score."""
        try:
            metric, reference = self._reference(
                metric, estimator, X, y, out_of_sample=out_of_sample, altered=altered
            )
        except Exception as error:  # the model cannot be cross-validated
            raise _ModelFailed from error
        if np.isnan(metric.to_unit(reference.score)):
            raise _ModelFailed from ValueError(
                f"{metric.name} is undefined on the training records. The holdout was not queried."
            )
        return metric, reference

    def _reference(self, metric, estimator, X, y, *, out_of_sample, altered):
        """Return the metric with its public range, and the reference with its variance.

        ``out_of_sample``: whether the model was fitted on other rows, as in cross-validation. If
        not, clones of it are cross-validated on these rows.
        """
        if altered or (out_of_sample and not metric.uses_predictions_only):
            score = metric.score_model(estimator, X, y)
            reason = "columns of the training records were altered" if altered else UNKNOWN_SCORER
            return metric.with_range([score]), TrainingReference(score=score, reason=reason)
        scheme = self.holdout.dependence.sampling_scheme(self.holdout.n)
        rule_out = _lack_of_interval(scheme)
        if not out_of_sample:
            return cross_validated_reference(
                metric,
                estimator,
                X,
                y,
                n_holdout_units=scheme.n_units,
                n_holdout_records=self.holdout.n,
                are_alike=scheme.has_alike_records,
                rule_out=rule_out,
            )
        return reference_of_predictions(
            metric,
            metric.predictions(estimator, X, y),
            unit_codes=None,
            n_holdout_units=scheme.n_units,
            n_holdout_records=self.holdout.n,
            are_alike=scheme.has_alike_records,
            rule_out=rule_out,
        )

    @strip_traceback_frames  # the evaluation below is raw
    def _ask(self, model, metric, records, value, key, size, variance, reference):
        """Verify one score on the holdout, store the answer and return its value."""
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
        """Return the content of a scorer inside a model, for keys."""
        return (type(self).__name__, self.holdout, self.scoring)

    def _check(self, estimator, X, y, sample_weight):
        """Raise if the data are not training data for this holdout, before any computation."""
        if is_being_fitted(estimator):
            raise ValueError(
                f"HoldoutScorer cannot stop {type(estimator).__name__} early: each iteration would "
                "be a query. Pass scoring='loss' to stop by a part of the training rows, then "
                "verify the fitted model. The holdout was not queried."
            )
        self.holdout.account.check_process()
        if sample_weight is not None:
            raise ValueError(
                "sample_weight must be None: a weighted score has no known sensitivity. Give "
                "weights to fit only."
            )
        if np.ndim(y) == 0:
            raise ValueError(f"y must be an array of targets, got {type(y).__name__}.")
        check_supported_values("X", X)
        check_targets("y", y)
        have = np.ndim(X)
        expected = np.ndim(self.holdout.X)
        if have != expected:
            raise ValueError(
                f"X must have ndim={expected} like the holdout, got {have}. With cv=None, RidgeCV "
                "and similar models score predictions instead of a model, which a holdout cannot "
                "verify. Set cv=5."
            )

    def _identify(self, estimator, X, y, in_validation):
        """Return the model with its first data, the metric and the key of the query.

        The first data determine the metric, too: default bounds of regression errors come from the
        targets, and a subsample has other bounds.
        """
        for scored_model in self._memory.models:
            if scored_model.is_about(estimator) and scored_model.is_unchanged(estimator):
                return scored_model
        digest = ModelDigest(estimator)
        equal_model = self._find_equal(digest)
        if equal_model is None:
            metric = self._make_metric(estimator, y)
        else:
            metric = equal_model.metric
            is_same_object = equal_model.is_about(estimator)
            if is_same_object and not in_validation and digest.classes is not None:
                equal_model.classes = digest.classes  # cross-validation calls at most twice
                equal_model.fingerprint = fingerprint((estimator, metric), equal_model.classes)
            if is_same_object or not in_validation:
                return equal_model
            # An equal model of another fold is a new model.
        key = digest.key(metric, X)
        return _ScoredModel(
            key, digest.content, metric, copy_data(X), copy_data(y), weakref.ref(estimator)
        )

    def _find_equal(self, digest):
        """Return the last scored model with this content and behavior, or None."""
        for scored_model in reversed(self._memory.models):
            has_same_content = (
                scored_model.key is not None and scored_model.content == digest.content
            )
            if has_same_content and scored_model.key == digest.key(
                scored_model.metric, scored_model.X
            ):
                return scored_model
        return None

    def _make_metric(self, estimator, y):
        """Return the metric of ``scoring`` for a model and training targets."""
        config = self.holdout.config
        dependence = self.holdout.dependence
        scheme = dependence.sampling_scheme(self.holdout.n)
        return scorer_metric(
            self.scoring,
            estimator=estimator,
            y=y,
            proof_needed_for=config.proof_needed_for(dependence, self.holdout.n),
            has_class_bounds=scheme.exchangeable,
            has_dates=scheme.calendar is not None,
        )

    def _columns(self, model, X, y):
        """Return the holdout columns that the model needs, or None for all of them."""
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(self.holdout.X, "columns"):
            return self._named_columns(names)
        n_holdout_columns = getattr(self.holdout.X, "shape", (0, None))[1:]
        n_columns = getattr(model, "n_features_in_", None)
        if n_columns is None and len(getattr(X, "shape", ())) == 2:
            n_columns = X.shape[1]
        if not n_holdout_columns or n_columns is None:
            return None
        fold_key = query_key(np.asarray(y))
        folds = self._memory.folds
        if n_columns == n_holdout_columns[0]:
            if fold_key not in folds:
                self._remember_columns(fold_key, X)
            return None
        columns = find_columns(folds[fold_key], X) if fold_key in folds else None
        if columns is None:
            raise UnknownFeaturesError(
                f"The estimator was fitted on {n_columns} columns without names, which cannot be "
                f"found (or not each once) among the {n_holdout_columns[0]} of the holdout. Fit it "
                "on a DataFrame with names that the holdout shares. SequentialFeatureSelector "
                "strips them: use HoldoutFeatureSelector. The holdout was not queried."
            )
        return columns

    def _named_columns(self, names):
        """Return the holdout columns of these names, or None if they are all columns in order."""
        holdout_names = self.holdout.X.columns
        missing = [name for name in names if name not in set(holdout_names)]
        if missing:
            raise UnknownFeaturesError(
                f"The estimator was fitted on columns that the holdout lacks: {missing}. "
                "Nothing was spent."
            )
        return None if same_names(names, holdout_names) else list(names)

    def _remember_columns(self, fold_key, X):
        """Store the digests of all columns of a fold, which identify some of them later."""
        codes = column_codes(X)
        if codes is not None:
            recent_folds = dict(list(self._memory.folds.items())[-_FOLDS + 1 :])
            self._memory.folds = {**recent_folds, fold_key: (len(codes), column_digests(codes))}

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
        """Return the name of the score, for displays."""
        scoring = self.scoring if self.scoring is not None else "score"
        return f"verified_{scoring if isinstance(scoring, str) else type(scoring).__name__}"

    @property
    def _score_func(self):
        """Raise an error with the reason why a scorer has no function of predictions."""
        raise AttributeError(
            "HoldoutScorer scores models, not predictions: TunedThresholdClassifierCV needs a "
            "plain metric such as scoring='balanced_accuracy' in the training set. Verify the "
            "tuned classifier afterwards: scorer(tuned, X, y)."
        )

    def _accept_sample_weight(self):
        """Return False: scikit-learn's searches pass weights to ``fit`` only."""
        return False

    def __deepcopy__(self, memo):
        return copy.copy(self)  # with the same holdout and memory

    def __repr__(self) -> str:
        scoring = "" if self.scoring is None else f", scoring={self.scoring!r}"
        return f"HoldoutScorer({self.holdout!r}{scoring})"


# Permutation importance and similar methods score one fitted model on altered copies of its data.
# A comparison with the first data detects the alteration, which is applied to the holdout.


@dataclass(frozen=True)
class ColumnAlteration:
    """Columns whose values were shuffled among rows, or set to one value."""

    shuffled: tuple = ()  # pairs: index of a column, digest of its values in their order
    constant: tuple = ()  # pairs: index of a column, code of its only value

    def __bool__(self):
        return bool(self.shuffled or self.constant)


def column_codes(X, *, single=False):
    """Return a 64-bit code of each cell, shape (n, n_features); equal values have equal codes.

    ``None`` for data without columns (lists of texts) and for sparse data. With ``single``, numbers
    are rounded to single precision, so that a copy in single precision has equal codes.
    """
    if hasattr(X, "tocsr") or len(np.shape(X)) != 2:
        return None
    X = X if hasattr(X, "iloc") else np.asarray(X)
    is_numeric_array = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
    columns = [X]
    if not is_numeric_array:
        columns = [np.asarray(safe_indexing(X, index, axis=1)) for index in range(X.shape[1])]
    codes = [cell_codes(column, single=single) for column in columns]
    return splitmix64(np.column_stack(codes), _SALT) if X.shape[1] else None


def detect_alteration(reference, reference_y, X, y):
    """Return the :class:`ColumnAlteration` of ``X`` since the reference, ``None`` for other rows.

    Some of the reference's rows count as unaltered. Raises ValueError if some columns are equal and
    others differ in a way that cannot be applied to other records.
    """
    # Compare in the lower precision of both.
    single = _is_single(X) != _is_single(reference)
    same_targets = np.array_equal(np.asarray(reference_y), np.asarray(y))
    unequal_columns = _unequal(reference, X) if same_targets else None
    tables = (
        (reference, X)
        if unequal_columns is None
        else (reference[:, unequal_columns], X[:, unequal_columns])
    )
    reference_codes, codes = (column_codes(table, single=single) for table in tables)
    if reference_codes is None and codes is None:
        return ColumnAlteration() if data_digest(reference) == data_digest(X) else None
    if reference_codes is None or codes is None or reference_codes.shape[1] != codes.shape[1]:
        return None
    if len(reference_codes) == len(codes) and same_targets:
        if unequal_columns is None:
            unequal_columns = np.arange(codes.shape[1])
        return _explained_alteration(reference_codes, codes, unequal_columns, np.shape(X)[1])
    are_some_rows = len(codes) < len(reference_codes) and bool(
        np.isin(column_digests(codes.T), column_digests(reference_codes.T)).all()
    )
    return ColumnAlteration() if are_some_rows else None


def _explained_alteration(reference_codes, codes, column_indices, n_columns):
    """Return how the columns of the same rows were altered, None if all hold other values.

    ``column_indices``: positions of the coded columns among all ``n_columns``.
    """
    shuffled = []
    constant = []
    unexplained = []
    for index in np.flatnonzero((reference_codes != codes).any(axis=0)).tolist():
        column_index = int(column_indices[index])
        column = codes[:, index]
        if np.array_equal(np.sort(reference_codes[:, index]), np.sort(column)):
            shuffled.append((column_index, int(column_digests(column[:, None])[0])))
        elif (column == column[0]).all():
            constant.append((column_index, int(column[0])))
        else:
            unexplained.append(column_index)
    if not unexplained:
        return ColumnAlteration(tuple(shuffled), tuple(constant))
    if len(unexplained) == n_columns:
        return None
    raise ValueError(
        "X must be the data that this model was scored on before, other rows, or the same rows "
        "with columns shuffled or set to one value, got other values in the columns "
        f"{unexplained} (counted from 0). Columns need unique names. Nothing was spent."
    )


def _unequal(reference, X):
    """Return the indices of columns whose numbers differ; None if all cells need codes."""
    are_numeric_arrays = (
        type(reference) is type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "biuf"
    )
    if not are_numeric_arrays or (reference.dtype, reference.shape) != (X.dtype, X.shape):
        return None
    unequal_columns = np.flatnonzero((reference != X).any(axis=0))
    return unequal_columns if 0 < unequal_columns.size < X.shape[1] else None


def find_columns(reference, X):
    """Return the indices of the columns of ``X`` among those of the reference, or None.

    ``reference``: number of rows and digests of the columns of data with the same rows. Selectors
    pass arrays without names; a column is identified by its values, unless several are equal.
    """
    n_rows, digests = reference
    codes = column_codes(X)
    if codes is None or len(codes) != n_rows:
        return None
    unique_digests, first_indices, counts = np.unique(
        digests, return_index=True, return_counts=True
    )
    is_unique = counts == 1
    unique_index = dict(
        zip(unique_digests[is_unique].tolist(), first_indices[is_unique].tolist(), strict=True)
    )
    column_indices = [unique_index.get(digest) for digest in column_digests(codes).tolist()]
    return None if None in column_indices else column_indices


def _lack_of_interval(scheme):
    """Return why a metric without a proven bound has no interval, or an empty text."""
    if scheme.calendar is not None:
        return OF_DATES
    return "" if scheme.has_independent_records else _UNKNOWN_GROUPS


def _check_text_columns(records, X):
    """Raise an error if numbers are scored where the holdout has text or categories."""
    holdout_dtypes = {str(dtype).split("(")[0] for dtype in getattr(records, "dtypes", ())}
    dtypes = getattr(X, "dtypes", [getattr(X, "dtype", "")])
    known_dtypes = {str(dtype).split("(")[0] for dtype in dtypes}
    if holdout_dtypes & _TEXT and not {"", *_TEXT} & known_dtypes:
        raise ValueError(
            "X has numbers where the holdout has text or categories. Fit one pipeline with the "
            "transformer, then call scorer(pipeline, X, y) with the rows as they were. The "
            "holdout was not queried."
        )


def _record_variance(metric, estimator, X, y):
    """Return the variance of a training record's score, None if the score determines it."""
    if not metric.is_mean or metric.is_binary:
        return None
    return min(float(np.var(metric.evaluate(estimator, X, y).per_record)), 0.25)


def _training_scores(metric, estimator, X, y):
    """Return the scores of training records and their value; errors are those of the model."""
    try:
        return metric.training_scores(estimator, X, y)
    except ScoreContractError:
        raise
    except Exception as error:
        raise _ModelFailed from error


def _out_of_sample_errors(estimator, X, y, *, is_tested):
    """Return errors on records that a model was not fitted on, or None if there are none.

    ``is_tested``: whether cross-validation tests the model on these records. If not, clones of it
    are cross-validated on them.
    """
    try:
        if is_tested:
            return np.asarray(y, dtype=float) - np.asarray(estimator.predict(X), dtype=float)
        return out_of_fold_errors(estimator, CVData(X, y))
    except Exception as error:
        raise _ModelFailed from error


def _query_key(key, columns, alteration):
    """Return the key of a query about some columns, or about altered ones.

    Columns that are equal on the training records may differ on the holdout.
    """
    if key is None:
        return None
    if columns is not None:
        key = content_key("columns", key, [str(column) for column in columns])
    if alteration:
        key = query_key("altered", key, alteration.shuffled, alteration.constant)
    return key


def altered_records(records, X, alteration):
    """Return holdout records with columns altered as those of ``X`` were.

    Shuffled columns are replaced by draws from the training columns, which are public: for each
    record one row of ``X`` is drawn and supplies the values of all these columns. The draws are
    seeded by the shuffled data, so that the same query always has the same answer. A column with
    one value has this value in every row.
    """
    rng = np.random.default_rng(text_code(repr(alteration.shuffled)))
    rows = rng.integers(num_samples(X), size=num_samples(records))
    X = X if hasattr(X, "iloc") else np.asarray(X)
    replaced = records.copy() if hasattr(records, "iloc") else np.array(records)
    if not hasattr(replaced, "iloc") and not hasattr(X, "iloc"):
        replaced = replaced.astype(np.result_type(replaced, X), copy=False)
    for column_index, _ in (*alteration.shuffled, *alteration.constant):
        column = X.iloc[rows, column_index].array if hasattr(X, "iloc") else X[rows, column_index]
        if hasattr(replaced, "iloc"):
            replaced.isetitem(column_index, column)
        else:
            replaced[:, column_index] = column
    return replaced


def _is_single(X):
    """Return whether numbers are stored in single precision or less."""
    dtypes = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", np.dtype(float))]
    return any(getattr(dtype, "kind", "O") == "f" and dtype.itemsize < 8 for dtype in dtypes)


def column_digests(codes):
    """Return a digest of each column: its values and their order."""
    row_weights = np.arange(1, len(codes) + 1, dtype=np.uint64) * _SALT
    return splitmix64(codes, row_weights[:, None]).sum(axis=0)
