"""Scorer that verifies on a reusable holdout, for ``scoring=`` of scikit-learn."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp.correlation.components import n_independent_units
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

#: Names of dtypes, of pandas and polars, whose columns must be encoded as numbers.
_TEXT_DTYPES = {"object", "str", "string", "category", "String", "Categorical", "Enum"}
_SALT = np.uint64(0xD6E8FEB86659FD93)
_MAX_MODELS = 4  # largest number of scored models that a scorer keeps
_UNKNOWN_GROUPS = "the groups of the training records are unknown"
_MAX_FOLDS = 64  # largest number of folds whose digests a scorer keeps


class _RaisingScore:
    """Return value of a scorer that makes cross-validation raise an error.

    scikit-learn may replace an error of a scorer by NaN, but not one of reading ``item`` of the
    returned value.
    """

    def __init__(self, error):
        self._error = error

    @property
    def item(self):
        """Raise the error."""
        raise self._error


class _ModelFailedError(Exception):
    """Error if a model cannot be scored on training records; its cause is the model's error."""


@dataclass(eq=False)
class _ScoredModel:
    """Model that was scored, with the training records that it was first scored on."""

    key: str | None  # query key, None if the model has no digest
    content_digest: str | None  # of the fitted attributes, None if one cannot be read
    metric: object  # BoundedMetric that scores the model
    X: object = field(repr=False)  # first training records
    y: object = field(repr=False)  # their targets
    estimator_reference: object = field(repr=False)  # weak reference; None in another process
    #: Classes of the objects in the model, which the fingerprint covers; None without fingerprint.
    fingerprint_classes: Any = None
    #: Fingerprint of the model and its metric, cheaper than a digest. None before the second call,
    #: in cross-validation, and if there is none.
    fingerprint: Any = None

    def __getstate__(self):
        return {**vars(self), "estimator_reference": None}

    def is_of(self, estimator):
        """Return whether the scored model is the object ``estimator``."""
        return self.estimator_reference is not None and self.estimator_reference() is estimator

    def is_unchanged(self, estimator):
        """Return whether the estimator has the stored fingerprint; False if none is stored."""
        if self.fingerprint_classes is None:
            return False
        current_fingerprint = fingerprint((estimator, self.metric), self.fingerprint_classes)
        return current_fingerprint is not None and current_fingerprint == self.fingerprint


@dataclass
class _SharedState:
    """State that a scorer shares with its copies and clones; a pickle has a copy of its own."""

    models: list = field(default_factory=list)  # _ScoredModel, latest last
    #: From a digest of the targets of a fold to (number of rows, a digest of each column).
    column_digests_by_fold: dict = field(default_factory=dict)
    last_answer: AnswerRecord | None = None  # in score units
    row_wise_check: BatchDependenceCheck = field(default_factory=BatchDependenceCheck)
    has_warned_of_clipping: bool = False

    def __getstate__(self):
        # Workers need the last scored model only, for permutation importance.
        return {**vars(self), "models": self.models[-1:]}


class HoldoutScorer:
    """Scorer that verifies fitted models on a reusable holdout.

    ``scorer(estimator, X, y)`` scores the estimator on training data ``(X, y)``, compares this
    score with the holdout and returns the verified score. Use it as ``scoring=`` in
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
        scikit-learn, whose intervals are approximate or absent. ``None``: the estimator's own
        score.

    Attributes
    ----------
    last_answer_ : AnswerRecord
        The last verified score with its interval, in score units. Copies and clones of the scorer
        share it, but not pickles; ``holdout.history()`` returns the answers to all processes.

    See Also
    --------
    ReusableHoldoutSearchCV : Search whose every candidate is verified.
    ReusableHoldout.score : Verify one fitted model.

    Notes
    -----
    *Errors* of the holdout end the run. scikit-learn replaces the score by NaN if a scorer fails,
    but an exhausted budget, columns that cannot be found, or a holdout that a worker cannot query
    raise an error also inside cross-validation. A model whose own ``predict`` fails gets
    ``error_score``.

    *Training curves*. ``learning_curve``, ``validation_curve`` and ``return_train_score=True``
    score a model on the rows it was trained on after those it was tested on. The training rows are
    not compared with the holdout; their ordinary score is returned.

    *Permutation importance* (with all rows, that is ``max_samples=1.0``): shuffled columns are
    recognized by comparison with the first data that the model was scored on. On the holdout, these
    columns are replaced by random draws from the shuffled training columns, which are public. A
    column that was set to one value is set to it on the holdout.

    *Selectors* that pass arrays without names: RFECV begins with all columns in every fold, so the
    scorer can find the remaining columns by their values. SequentialFeatureSelector begins with
    few columns and is not supported. Equal columns are not supported either. Use
    :class:`~sklearn_bdp.feature_selection.HoldoutFeatureSelector` in these cases.

    *Metrics without a proven bound* need predictions of records that the model was not fitted on.
    In cross-validation these are the test records of the fold, which must have at least as many
    records as the holdout for an interval. If you call the scorer yourself, it cross-validates
    clones of the model on the rows that you pass, in five folds.

    *Early stopping* is not supported: each iteration would be a query, and their intervals grow
    (``python -m benchmarks.early_stopping``). Stop by training rows, then verify the model.

    *Weights* may be passed to ``fit``. The score is unweighted on training set and holdout, because
    a weighted score has no known sensitivity.

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
            fix = (
                "Pass HoldoutScorer(ReusableHoldout(X_val, y_val)), with records that no model is "
                "fitted on."
            )
            if isinstance(holdout, str):
                fix = f"Pass the holdout first: HoldoutScorer(holdout, scoring={holdout!r})."
            if isinstance(getattr(holdout, "holdout_", None), ReusableHoldout):
                fix = "Pass the holdout of the search: HoldoutScorer(search.holdout_)."
            raise TypeError(
                f"holdout must be a ReusableHoldout, got {type(holdout).__name__}. {fix}"
            )
        check_scoring(scoring)
        self.holdout = holdout
        self.scoring = scoring
        self._shared_state = _SharedState()

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike | None = None, sample_weight: None = None
    ) -> float:
        """Return the verified score of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            The model to verify.
        X : array-like of shape (n_samples, n_features)
            Training records that give the score to compare with the holdout; never holdout records.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : None
            Weighted scores have no bounded sensitivity and are rejected.

        Returns
        -------
        float
            Verified score, in score units. If the budget is exhausted, NaN or the score on ``X``,
            for ``on_exhausted="nan"`` or ``"cv"``. If cross-validation passes the training rows of
            the model, their ordinary score. If an error other than one of the model occurs inside
            cross-validation, an object that raises this error when cross-validation reads it.

        Raises
        ------
        UnknownFeaturesError
            If the model was fitted on columns that cannot be found in the holdout.
        ValueError, TypeError
            If ``X`` and ``y`` are not training data with the columns and targets of the holdout.
        BudgetExhaustedError, ProcessBoundaryError, LedgerError
            As :meth:`ReusableHoldout.answer <sklearn_bdp.ReusableHoldout.answer>`.
        """
        in_validation = called_by_validation()
        try:
            return self._score(estimator, as_frame(X), as_frame(y), sample_weight, in_validation)
        except _ModelFailedError as failure:
            model_error: Any = failure.__cause__
        except Exception as error:
            if not in_validation:
                raise
            raising_score: Any = _RaisingScore(error)
            return raising_score
        raise model_error

    def _score(self, estimator, X, y, sample_weight, in_validation):
        """Return the verified score of a model, in score units.

        ``X``, ``y``: training records and targets, on which the model need not have been fitted;
        ``in_validation``: whether cross-validation of scikit-learn calls the scorer. If it passes
        the rows that the model was fitted on, their ordinary score is returned.
        """
        self._check(estimator, X, y, sample_weight)
        columns = self._holdout_columns(estimator, X, y)
        X_holdout = self.holdout.X
        if columns is not None:
            X_holdout = safe_indexing(X_holdout, columns, axis=1)
        _check_text_columns(X_holdout, X)
        scored_model = self._identify(estimator, X, y, in_validation)
        metric = scored_model.metric
        shared_state = self._shared_state
        # None: other rows. Empty, which is false: rows as they were.
        alteration = self._find_alteration(scored_model, X, y, in_validation)
        if not alteration:
            # The training score of holdout records would release the raw holdout score.
            check_overlap(self.holdout, TrainingData(((X, y),)))
            self.holdout.check_model(estimator)
        # The model is kept after these checks passed.
        if scored_model not in shared_state.models:
            shared_state.models = [*shared_state.models, scored_model][-_MAX_MODELS:]
        metric = clip_errors_in_time(
            self.holdout,
            metric,
            lambda: _out_of_sample_errors(estimator, X, y, is_tested=in_validation),
        )
        per_record, unit_score = _training_scores(metric, estimator, X, y)
        if not alteration:
            shared_state.row_wise_check.check_model(estimator, X)
            shared_state.row_wise_check.check_score(metric, estimator, X, y)
        # In cross-validation, other rows than those that tested a model are its training rows.
        if alteration is None and in_validation and scored_model.is_of(estimator):
            return float(metric.from_unit(unit_score))
        if alteration:
            X_holdout = alter_columns(X_holdout, X, alteration)
        if not shared_state.has_warned_of_clipping:
            clipping = metric.clipping(estimator, X, y, per_record)
            shared_state.has_warned_of_clipping = warn_clipped_score(
                metric, clipping, f"the {type(estimator).__name__}"
            )
        variance = _score_variance(metric, estimator, X, y)
        reference = None
        if isinstance(metric, ApproximateMetric):
            metric, reference = self._finite_reference(
                metric, estimator, X, y, is_out_of_sample=in_validation, is_altered=bool(alteration)
            )
            unit_score = metric.to_unit(reference.score)
        key = _query_key(scored_model.key, columns, alteration)
        return self._verify(
            estimator, metric, X_holdout, unit_score, key, num_samples(X), variance, reference
        )

    def _find_alteration(self, scored_model, X, y, in_validation):
        """Return the :class:`ColumnAlteration` of ``X`` since the model was first scored.

        None for other rows. It is empty for unaltered rows, and for a model that was not scored
        before. Raises ValueError as :func:`detect_alteration` and, outside of cross-validation, if
        fewer rows than at first are not recognized.
        """
        if scored_model not in self._shared_state.models:
            return ColumnAlteration()
        alteration = detect_alteration(scored_model.X, scored_model.y, X, y)
        n_scored = num_samples(scored_model.X)
        if alteration is None and not in_validation and num_samples(X) < n_scored:
            raise ValueError(
                f"X must be all {n_scored} rows that this model was scored on before, or, in a "
                f"dense table, some of them as they were, got {num_samples(X)} rows that cannot "
                "be recognized. In permutation_importance, set max_samples=1.0. The holdout was "
                "not queried."
            )
        return alteration

    def _finite_reference(self, metric, estimator, X, y, *, is_out_of_sample, is_altered):
        """Return the result of :meth:`_reference`, a metric and a :class:`TrainingReference`.

        Raises _ModelFailedError if the model cannot be scored or its score is undefined.
        """
        try:
            metric, reference = self._reference(
                metric, estimator, X, y, is_out_of_sample=is_out_of_sample, is_altered=is_altered
            )
        except Exception as error:  # the model cannot be cross-validated
            raise _ModelFailedError from error
        if np.isnan(metric.to_unit(reference.score)):
            raise _ModelFailedError from ValueError(
                f"{metric.name} is undefined on the training records. The holdout was not queried."
            )
        return metric, reference

    def _reference(self, metric, estimator, X, y, *, is_out_of_sample, is_altered):
        """Return the metric, an open range set from training scores, and a TrainingReference.

        ``metric``: ApproximateMetric; ``is_altered``: whether columns of ``X`` were shuffled or set
        to one value; ``is_out_of_sample``: whether the model is taken as fitted on other rows. In
        both cases the fitted model is scored on ``X``, without an interval if columns were altered
        or the metric needs more than predictions. Otherwise clones of the model are cross-validated
        on ``X``.
        """
        if is_altered or (is_out_of_sample and not metric.uses_predictions_only):
            score = metric.score_model(estimator, X, y)
            no_interval_reason = UNKNOWN_SCORER
            if is_altered:
                no_interval_reason = "columns of the training records were altered"
            reference = TrainingReference(score=score, reason=no_interval_reason)
            return metric.with_range([score]), reference
        scheme = self.holdout.dependence.sampling_scheme(self.holdout.n)
        no_interval_reason = _reason_for_no_interval(scheme)
        if not is_out_of_sample:
            return cross_validated_reference(
                metric,
                estimator,
                X,
                y,
                n_holdout_units=n_independent_units(self.holdout.dependence, self.holdout.n),
                n_holdout_records=self.holdout.n,
                are_iid=scheme.has_iid_records,
                no_interval_reason=no_interval_reason,
            )
        return reference_of_predictions(
            metric,
            metric.predictions(estimator, X, y),
            unit_codes=None,
            n_holdout_units=n_independent_units(self.holdout.dependence, self.holdout.n),
            n_holdout_records=self.holdout.n,
            are_iid=scheme.has_iid_records,
            no_interval_reason=no_interval_reason,
        )

    @strip_traceback_frames  # the evaluation contains raw holdout scores
    def _verify(
        self, model, metric, X_holdout, unit_score, key, n_train, training_variance, reference
    ):
        """Verify a model on the holdout; store the answer and return its value, in score units.

        Parameters
        ----------
        model : estimator
            The model to verify.
        metric : BoundedMetric
            Metric that scores the model.
        X_holdout : array-like
            Holdout records with the columns of the model.
        unit_score : float
            Score on training records, in [0, 1].
        key : str or None
            Query key.
        n_train : int
            Number of training records that were scored.
        training_variance : float or None
            Variance of the scores of these training records, in [0, 1]. None if the mean score
            determines it, or if the metric is not a mean over records.
        reference : TrainingReference or None
            Training scores for a metric without a proven bound; None for others.
        """
        evaluation = metric.evaluate(model, X_holdout, self.holdout.y)
        if reference is not None:
            evaluation = metric.finish(evaluation, reference)
        (answer,) = self.holdout.answer_evaluations(
            np.array([unit_score]),
            [evaluation],
            n_train=n_train,
            training_variance=training_variance,
            keys=[key],
            about=[(metric, type(model).__name__)],
        )
        self._shared_state.last_answer = answer.in_units()
        return self._shared_state.last_answer.value

    def _content_for_keys(self):
        """Return the values that determine the scorer, from which query keys are computed."""
        return (type(self).__name__, self.holdout, self.scoring)

    def _check(self, estimator, X, y, sample_weight):
        """Raise ValueError or TypeError for invalid arguments of a call.

        Raises ProcessBoundaryError if this process cannot query the holdout.
        """
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
        ndim = np.ndim(X)
        holdout_ndim = np.ndim(self.holdout.X)
        if ndim != holdout_ndim:
            raise ValueError(
                f"X must have ndim={holdout_ndim} like the holdout, got {ndim}. With cv=None, "
                "RidgeCV and similar models score predictions instead of a model, which a holdout "
                "cannot verify. Set cv=5."
            )

    def _identify(self, estimator, X, y, in_validation):
        """Return the stored :class:`_ScoredModel` of an estimator, or a new one.

        A new one copies the training records ``X`` and targets ``y``. In cross-validation an equal
        model of another fold gets a new one with the same metric. May set the fingerprint of a
        stored one.
        """
        for scored_model in self._shared_state.models:
            if scored_model.is_of(estimator) and scored_model.is_unchanged(estimator):
                return scored_model
        digest = ModelDigest(estimator)
        equal_model = self._find_equal_model(digest)
        if equal_model is None:
            metric = self._make_metric(estimator, y)
        else:
            metric = equal_model.metric
            is_same_object = equal_model.is_of(estimator)
            # A fingerprint pays off at the third call. Cross-validation calls at most twice.
            if is_same_object and not in_validation and digest.classes is not None:
                equal_model.fingerprint_classes = digest.classes
                equal_model.fingerprint = fingerprint((estimator, metric), digest.classes)
            if is_same_object or not in_validation:
                return equal_model
            # An equal model of another fold is a new model.
        return _ScoredModel(
            key=digest.key(metric, X),
            content_digest=digest.content,
            metric=metric,
            X=copy_data(X),
            y=copy_data(y),
            estimator_reference=weakref.ref(estimator),
        )

    def _find_equal_model(self, digest):
        """Return the latest :class:`_ScoredModel` with the same digest and query key, or None.

        ``digest``: :class:`ModelDigest` of the estimator.
        """
        for scored_model in reversed(self._shared_state.models):
            if scored_model.key is None or scored_model.content_digest != digest.content:
                continue
            if scored_model.key == digest.key(scored_model.metric, scored_model.X):
                return scored_model
        return None

    def _make_metric(self, estimator, y):
        """Return the metric of ``scoring`` for a model; ``y``: training targets."""
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

    def _holdout_columns(self, model, X, y):
        """Return a list of names or positions of the holdout columns that a model needs.

        None if it has as many columns as the holdout (with names: the same ones in order), and if
        the data have no columns. Raises UnknownFeaturesError if the columns of ``X`` cannot be
        found in the holdout. May store digests of the columns of ``X``.
        """
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(self.holdout.X, "columns"):
            return self._check_names(names)
        holdout_shape = getattr(self.holdout.X, "shape", ())
        n_holdout_columns = holdout_shape[1] if len(holdout_shape) > 1 else None
        n_columns = getattr(model, "n_features_in_", None)
        if n_columns is None and len(getattr(X, "shape", ())) == 2:
            n_columns = X.shape[1]
        if n_columns is None or len(holdout_shape) == 1:
            return None
        targets_digest = query_key(np.asarray(y))
        n_rows_and_digests = self._shared_state.column_digests_by_fold.get(targets_digest)
        if n_columns == n_holdout_columns:
            if n_rows_and_digests is None:
                self._store_columns(targets_digest, X)
            return None
        positions = None
        if n_rows_and_digests is not None:
            positions = find_columns(n_rows_and_digests, X)
        if positions is None:
            raise UnknownFeaturesError(
                f"The estimator was fitted on {n_columns} columns without names, which cannot be "
                f"found (or not each once) among the {n_holdout_columns} of the holdout. Fit it "
                "on a DataFrame with names that the holdout shares. SequentialFeatureSelector "
                "strips them: use HoldoutFeatureSelector. The holdout was not queried."
            )
        return positions

    def _check_names(self, names):
        """Return the names as a list, or None if they are all holdout columns in order.

        Raises UnknownFeaturesError if the holdout lacks one of them.
        """
        holdout_names = self.holdout.X.columns
        missing_names = [name for name in names if name not in set(holdout_names)]
        if missing_names:
            raise UnknownFeaturesError(
                f"The estimator was fitted on columns that the holdout lacks: {missing_names}. "
                "Nothing was spent."
            )
        return None if same_names(names, holdout_names) else list(names)

    def _store_columns(self, targets_digest, X):
        """Store the number of rows and a digest of each column of a fold.

        ``targets_digest``: digest of the targets of the fold, under which they are stored. Nothing
        is stored if :func:`column_codes` is None for ``X``.
        """
        codes = column_codes(X)
        if codes is not None:
            stored_items = list(self._shared_state.column_digests_by_fold.items())
            latest_items = dict(stored_items[-_MAX_FOLDS + 1 :])
            self._shared_state.column_digests_by_fold = {
                **latest_items,
                targets_digest: (len(codes), column_digests(codes)),
            }

    @property
    def last_answer_(self) -> AnswerRecord:
        """Last verified score and its interval, in score units.

        Raises AttributeError if the scorer has not verified a model.
        """
        if self._shared_state.last_answer is None:
            raise AttributeError(
                "last_answer_ exists after a call of the scorer in this process. Answers to "
                "workers are in holdout.history()."
            )
        return self._shared_state.last_answer

    @property
    def __name__(self):
        """Name of the score, for displays."""
        scoring = self.scoring if self.scoring is not None else "score"
        return f"verified_{scoring if isinstance(scoring, str) else type(scoring).__name__}"

    @property
    def _score_func(self):
        """Raise AttributeError: the scorer cannot score predictions without their model."""
        raise AttributeError(
            "HoldoutScorer scores models, not predictions: TunedThresholdClassifierCV needs a "
            "plain metric such as scoring='balanced_accuracy' in the training set. Verify the "
            "tuned classifier afterwards: scorer(tuned, X, y)."
        )

    def _accept_sample_weight(self):
        """Return False: scikit-learn's searches pass weights to ``fit`` only."""
        return False

    def __deepcopy__(self, memo):
        return copy.copy(self)  # with the same holdout and shared state

    def __repr__(self) -> str:
        scoring = "" if self.scoring is None else f", scoring={self.scoring!r}"
        return f"HoldoutScorer({self.holdout!r}{scoring})"


# Permutation importance and similar methods score one fitted model on altered copies of its data.
# A comparison with the first data detects the alteration. It is then applied to the holdout.


@dataclass(frozen=True)
class ColumnAlteration:
    """Columns whose values were shuffled among rows, or set to one value. False if empty."""

    shuffled: tuple = ()  # pairs: position of a column, digest of its values in their order
    constant: tuple = ()  # pairs: position of a column, code of its only value

    def __bool__(self):
        return bool(self.shuffled or self.constant)


def column_codes(X, *, single=False):
    """Return a 64-bit code of each value, an array of shape (n, n_features).

    Equal values of a column have equal codes. The result is None for sparse data, for data that are
    not two-dimensional (such as lists of texts), and without columns. With ``single=True`` numbers
    are rounded to single precision, so that a copy in single precision has equal codes.
    """
    if hasattr(X, "tocsr") or len(np.shape(X)) != 2:
        return None
    X = X if hasattr(X, "iloc") else np.asarray(X)
    is_numeric_array = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
    blocks = [X]  # all columns of a numeric array together, others one by one
    if not is_numeric_array:
        blocks = [np.asarray(safe_indexing(X, index, axis=1)) for index in range(X.shape[1])]
    codes = [cell_codes(block, single_precision=single) for block in blocks]
    return splitmix64(np.column_stack(codes), _SALT) if X.shape[1] else None


def detect_alteration(first_X, first_y, X, y):
    """Return the :class:`ColumnAlteration` from ``first_X`` to ``X``; None for other rows.

    ``first_X``, ``first_y``: records and targets that a model was first scored on. The alteration
    is empty if ``X`` has the same rows or, unless :func:`column_codes` are None, some of them.
    Raises ValueError if as many rows have equal targets, and some columns, but not all, have other
    values that are neither shuffled nor constant.
    """
    # If only one of both has single precision, compare in single precision.
    in_single_precision = _is_single(X) != _is_single(first_X)
    has_same_targets = np.array_equal(np.asarray(first_y), np.asarray(y))
    # Positions of the columns that are compared by codes; None: all columns.
    coded_positions = _unequal_columns(first_X, X) if has_same_targets else None
    coded_first_X = first_X
    coded_X = X
    if coded_positions is not None:
        coded_first_X = first_X[:, coded_positions]
        coded_X = X[:, coded_positions]
    first_codes = column_codes(coded_first_X, single=in_single_precision)
    codes = column_codes(coded_X, single=in_single_precision)
    if first_codes is None and codes is None:
        return ColumnAlteration() if data_digest(first_X) == data_digest(X) else None
    if first_codes is None or codes is None or first_codes.shape[1] != codes.shape[1]:
        return None
    if len(first_codes) == len(codes) and has_same_targets:
        if coded_positions is None:
            coded_positions = np.arange(codes.shape[1])
        return _alteration_of_rows(first_codes, codes, coded_positions, np.shape(X)[1])
    # Digests of rows: the columns of the transposed codes.
    are_some_rows = len(codes) < len(first_codes) and bool(
        np.isin(column_digests(codes.T), column_digests(first_codes.T)).all()
    )
    return ColumnAlteration() if are_some_rows else None


def _alteration_of_rows(first_codes, codes, coded_positions, n_columns):
    """Return the :class:`ColumnAlteration`: columns that were shuffled or set to one value.

    None if all ``n_columns`` columns changed in another way. Raises ValueError if only some of them
    did. ``first_codes``, ``codes``: (n, n_coded), codes of values before and after the alteration;
    ``coded_positions``: (n_coded,), positions of these columns. Other columns are equal.
    """
    shuffled = []  # pairs: position of a column, digest of its values in their order
    constant = []  # pairs: position of a column, code of its only value
    unexplained_positions = []
    for index in np.flatnonzero((first_codes != codes).any(axis=0)).tolist():
        position = int(coded_positions[index])
        altered_codes = codes[:, index]
        if np.array_equal(np.sort(first_codes[:, index]), np.sort(altered_codes)):
            (digest,) = column_digests(altered_codes[:, None])
            shuffled.append((position, int(digest)))
        elif (altered_codes == altered_codes[0]).all():
            constant.append((position, int(altered_codes[0])))
        else:
            unexplained_positions.append(position)
    if not unexplained_positions:
        return ColumnAlteration(tuple(shuffled), tuple(constant))
    if len(unexplained_positions) == n_columns:
        return None
    raise ValueError(
        "X must be the data that this model was scored on before, other rows, or the same rows "
        "with columns shuffled or set to one value, got other values in the columns "
        f"{unexplained_positions} (counted from 0). Columns need unique names. Nothing was spent."
    )


def _unequal_columns(first_X, X):
    """Return the positions of the columns in which two numeric arrays differ.

    None if the data are not two numeric arrays of one dtype and shape, and if no column or every
    column differs.
    """
    are_numeric_arrays = (
        type(first_X) is type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "biuf"
    )
    if not are_numeric_arrays or (first_X.dtype, first_X.shape) != (X.dtype, X.shape):
        return None
    positions = np.flatnonzero((first_X != X).any(axis=0))
    return positions if 0 < positions.size < X.shape[1] else None


def find_columns(n_rows_and_digests, X):
    """Return a list of the positions of the columns of ``X`` among stored columns.

    None unless each is found by its values, exactly once. ``n_rows_and_digests``: number of rows of
    the stored columns, and :func:`column_digests` of their codes. None also if ``X`` has another
    number of rows, or if its :func:`column_codes` are None.
    """
    n_rows, stored_digests = n_rows_and_digests
    codes = column_codes(X)
    if codes is None or len(codes) != n_rows:
        return None
    unique_digests, first_positions, counts = np.unique(
        stored_digests, return_index=True, return_counts=True
    )
    occurs_once = counts == 1
    digests = unique_digests[occurs_once].tolist()
    position_by_digest = dict(zip(digests, first_positions[occurs_once].tolist(), strict=True))
    positions = [position_by_digest.get(digest) for digest in column_digests(codes).tolist()]
    return None if None in positions else positions


def _reason_for_no_interval(scheme):
    """Return why a metric without a proven bound has no interval; "" if it may have one.

    ``scheme``: sampling scheme of the holdout records.
    """
    if scheme.calendar is not None:
        return OF_DATES
    return "" if scheme.has_independent_records else _UNKNOWN_GROUPS


def _check_text_columns(X_holdout, X):
    """Raise ValueError if the holdout has columns of text or categories, and ``X`` has none.

    Only a frame of holdout records is checked, and only if ``X`` has a dtype.
    """
    holdout_dtype_names = {str(dtype).split("(")[0] for dtype in getattr(X_holdout, "dtypes", ())}
    dtypes = getattr(X, "dtypes", [getattr(X, "dtype", "")])
    dtype_names = {str(dtype).split("(")[0] for dtype in dtypes}  # "" if X has no dtype
    if holdout_dtype_names & _TEXT_DTYPES and not {"", *_TEXT_DTYPES} & dtype_names:
        raise ValueError(
            "X has numbers where the holdout has text or categories. Fit one pipeline with the "
            "transformer, then call scorer(pipeline, X, y) with the rows as they were. The "
            "holdout was not queried."
        )


def _score_variance(metric, estimator, X, y):
    """Return the variance of the scores of training records in [0, 1], at most 1/4.

    None if the metric is not a mean over records, or a mean of zeros and ones.
    """
    if not metric.is_mean or metric.is_binary:
        return None
    return min(float(np.var(metric.evaluate(estimator, X, y).per_record)), 0.25)


def _training_scores(metric, estimator, X, y):
    """Return the scores of training records (or None) and the score of the model, in [0, 1].

    Raises ScoreContractError as the metric does, and _ModelFailedError for any other error.
    """
    try:
        return metric.training_scores(estimator, X, y)
    except ScoreContractError:
        raise
    except Exception as error:
        raise _ModelFailedError from error


def _out_of_sample_errors(estimator, X, y, *, is_tested):
    """Return out-of-sample prediction errors for ``X``, in units of the target.

    ``is_tested``: whether ``X`` is taken as records that the model was not fitted on. If not, the
    result is that of :func:`out_of_fold_errors`, from clones of the model; it may be None. Raises
    _ModelFailedError if the model cannot be fitted or predict.
    """
    try:
        if is_tested:
            return np.asarray(y, dtype=float) - np.asarray(estimator.predict(X), dtype=float)
        return out_of_fold_errors(estimator, CVData(X, y))
    except Exception as error:
        raise _ModelFailedError from error


def _query_key(model_key, columns, alteration):
    """Return the query key of a model on certain holdout columns; None if ``model_key`` is None.

    ``columns``: names or positions of the columns, or None for all; ``alteration``:
    :class:`ColumnAlteration`, or None.
    """
    if model_key is None:
        return None
    key = model_key
    if columns is not None:
        key = content_key("columns", key, [str(column) for column in columns])
    if alteration:
        key = query_key("altered", key, alteration.shuffled, alteration.constant)
    return key


def alter_columns(X_holdout, X, alteration):
    """Return a copy of the holdout records with the columns altered as those of ``X`` were.

    For each holdout record one row of the training records ``X`` is drawn, which supplies the
    values of all columns that were shuffled or set to one value. The seed is a digest of the
    shuffled columns. ``alteration``: :class:`ColumnAlteration` of ``X``.
    """
    rng = np.random.default_rng(text_code(repr(alteration.shuffled)))
    drawn_rows = rng.integers(num_samples(X), size=num_samples(X_holdout))
    X = X if hasattr(X, "iloc") else np.asarray(X)
    altered_X = X_holdout.copy() if hasattr(X_holdout, "iloc") else np.array(X_holdout)
    if not hasattr(altered_X, "iloc") and not hasattr(X, "iloc"):
        altered_X = altered_X.astype(np.result_type(altered_X, X), copy=False)
    for position, _ in (*alteration.shuffled, *alteration.constant):
        if hasattr(X, "iloc"):
            drawn_values = X.iloc[drawn_rows, position].array
        else:
            drawn_values = X[drawn_rows, position]
        if hasattr(altered_X, "iloc"):
            altered_X.isetitem(position, drawn_values)
        else:
            altered_X[:, position] = drawn_values
    return altered_X


def _is_single(X):
    """Return whether any column of an array or a pandas frame has floats of less than 64 bits."""
    dtypes = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", np.dtype(float))]
    value_dtypes = [getattr(dtype, "subtype", dtype) for dtype in dtypes]  # of sparse columns
    return any(getattr(dtype, "kind", "O") == "f" and dtype.itemsize < 8 for dtype in value_dtypes)


def column_digests(codes):
    """Return a 64-bit digest of each column, (n_columns,), which depends on the order of rows.

    ``codes``: (n_rows, n_columns), codes of the values.
    """
    row_weights = np.arange(1, len(codes) + 1, dtype=np.uint64) * _SALT
    return splitmix64(codes, row_weights[:, None]).sum(axis=0)
