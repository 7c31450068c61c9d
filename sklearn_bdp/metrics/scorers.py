"""From ``scoring`` to a metric that ranks candidates, with proven or approximate intervals.

Metrics with a proven bound are preferred, but for instance not for errors without a declared range.
Other scorers of scikit-learn can have approximate intervals (theory G34), which need out-of-fold
predictions of training records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone, is_classifier, is_regressor
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._typing import Array
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics.approximate import (
    ApproximateMetric,
    Predictions,
    TrainingReference,
    approximate_metric,
)
from sklearn_bdp.metrics.base import METRICS, BoundedMetric, as_labels
from sklearn_bdp.metrics.label_checks import check_not_sum
from sklearn_bdp.metrics.means import ClippedError
from sklearn_bdp.metrics.per_record import PerRecordScore
from sklearn_bdp.metrics.registry import available_metrics
from sklearn_bdp.metrics.scoring import final_step, get_metric, parse_scorer, requests_metadata
from sklearn_bdp.utils.sklearn_compat import safe_indexing

#: Default values of the settings that require a proven bound if changed.
_DEFAULTS_WITHOUT_PROOF = {"epsilon": "auto", "calibration": "tight"}
#: Number of folds of training records if the caller passes none.
_N_FOLDS = 5


def scorer_metric(
    scoring: Any,
    *,
    estimator: Any,
    y: ArrayLike | None,
    proof_needed_for: str = "",
    has_class_bounds: bool = True,
    has_dates: bool = False,
) -> BoundedMetric:
    """Return the metric of a scorer, with or without a proven bound.

    Parameters
    ----------
    scoring : object
        An argument of :func:`~sklearn_bdp.metrics.get_metric`, any name of scikit-learn, a scorer,
        or a function ``(estimator, X, y)`` that returns one number. None: for a regressor its score
        if ``y`` is passed, ``proof_needed_for`` is empty and ``has_dates`` is False, otherwise
        :func:`~sklearn_bdp.metrics.default_metric`.
    estimator : estimator
        Determines the metric if ``scoring`` is None. A fitted one can give the classes.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
        *Training* targets: they are public, and can determine the range of losses. A metric without
        a proven bound needs them.
    proof_needed_for : str, default=""
        Text of a setting that needs a metric with a proven bound, for the message; empty if
        approximate metrics are accepted.
    has_class_bounds : bool, default=True
        Whether bounds of scores by class (ROC AUC, balanced accuracy) are valid on the holdout.
        They need identically distributed units. Otherwise these scores are approximate, unless
        ``proof_needed_for`` is set, ``y`` is None or scikit-learn has no such scorer.
    has_dates : bool, default=False
        Whether records are dates given their past. Mean errors then keep their proven interval
        with a clip from training data, also as the default of a regressor, because approximate
        metrics have no interval before the final report.

    Returns
    -------
    BoundedMetric
        An :class:`~sklearn_bdp.metrics.approximate.ApproximateMetric` if no bound is proven or its
        bound is not used, for instance for errors whose range is not declared. Otherwise a metric
        with a proven bound.

    Raises
    ------
    UnboundedMetricError
        If the metric has no proven bound, and one is needed, ``y`` is None or the scorer requests
        metadata. Also if ``scoring`` is None for an estimator without a default metric.
    TypeError, ValueError
        If ``scoring`` is unknown, or does not fit the targets or the estimator.
    """
    keeps_clip = bool(proof_needed_for) or has_dates
    if scoring is None and y is not None and not keeps_clip and _is_regressor(estimator):
        return approximate_metric("r2" if _scores_by_r2(estimator) else own_score, y)
    try:
        metric = get_metric(scoring, estimator=estimator, y=y)
    except ValueError as error:
        if not _is_approximate(scoring, y, error):
            raise
        if proof_needed_for:
            raise _proof_needed_error(
                error, scoring, proof_needed_for, has_class_bounds=has_class_bounds
            ) from None
        if y is None:
            raise
        return approximate_metric(scoring, y)
    if proof_needed_for or y is None:
        return metric
    if _has_undeclared_range(metric, scoring, y) and not has_dates:
        return approximate_metric(scoring, y)
    scorer = metric.name if isinstance(scoring, BoundedMetric) else scoring
    if metric.is_mean or has_class_bounds or not _is_scorer(scorer):
        return metric
    return approximate_metric(scorer, y)


def _is_approximate(scoring, y, error):
    """Return whether a scorer may rank candidates without a proven bound (theory G34).

    ``error`` is the error that :func:`get_metric` raised. It may be about targets of several
    outputs, for which no bound is proven.
    """
    if not _is_scorer(scoring) or requests_metadata(scoring):
        return False
    if isinstance(error, UnboundedMetricError):
        return True
    one_output_types = ("binary", "multiclass", "continuous")
    return y is not None and type_of_target(as_labels(y)) not in one_output_types


def _proof_needed_error(error, scoring, setting, *, has_class_bounds):
    """Return the error for a scorer without a proven bound, if a setting needs one.

    ``error`` is that of :func:`get_metric`. ``setting`` is the text of a parameter and its value.
    """
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", scoring)
    parameter = setting.partition("=")[0]
    advice = ""
    if parameter in _DEFAULTS_WITHOUT_PROOF:
        advice = f" To choose by {name}, leave {parameter}={_DEFAULTS_WITHOUT_PROOF[parameter]!r}."
    if not has_class_bounds:
        names_of_means = [
            metric_name for metric_name in available_metrics() if METRICS[metric_name].is_mean
        ]
        return UnboundedMetricError(
            f"scoring={name!r} has no proven bound. Under {setting}, only means over "
            f"records choose candidates: {', '.join(names_of_means)}.{advice}"
        )
    names_text = "" if advice else f": {', '.join(available_metrics())}"
    return UnboundedMetricError(
        f"{error} Under {setting} only metrics with a proven bound choose candidates{names_text}."
        f"{advice}"
    )


def check_scoring(scoring: Any) -> None:
    """Raise for a ``scoring`` that cannot choose candidates, whatever the estimator and data.

    Parameters
    ----------
    scoring : object
        A name, a scorer, a `PerRecordScore`, a metric or None.

    Raises
    ------
    TypeError, ValueError
        For instance for a name of no metric, a metric of final reports only, a sum over records or
        a scorer that requests metadata.
    """
    if scoring is None or isinstance(scoring, BoundedMetric | PerRecordScore):
        return
    check_not_sum(scoring)
    if not _is_scorer(scoring) or requests_metadata(scoring):
        parse_scorer(scoring)  # raises, except for a name of `available_metrics`


def _is_regressor(estimator):
    """Return whether an object has estimator tags of a regressor."""
    try:
        return is_regressor(estimator)
    except AttributeError:
        return False


def own_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the result of the estimator's ``score`` method.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X, y : array-like
        Records and targets.

    Returns
    -------
    float
        The score.
    """
    return float(estimator.score(X, y))


def _has_undeclared_range(metric, scoring, y):
    """Return whether a scorer of errors of one-dimensional targets has no declared range.

    ``metric`` is the metric with a proven bound for ``scoring``.
    """
    is_undeclared = isinstance(metric, ClippedError) and bool(metric.note)
    return is_undeclared and _is_scorer(scoring) and np.ndim(y) == 1


def _is_scorer(scoring):
    """Return whether an object is callable or a name of a scorer of scikit-learn."""
    return callable(scoring) or (isinstance(scoring, str) and scoring in get_scorer_names())


def _scores_by_r2(estimator):
    """Return whether the estimator's own ``score`` is scikit-learn's for regressors."""
    estimator = final_step(estimator)
    method = getattr(type(estimator), "score", None)
    return _is_regressor(estimator) and getattr(method, "__qualname__", "") == (
        RegressorMixin.score.__qualname__
    )


def cross_validated_reference(
    metric: ApproximateMetric,
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    folds: Any = None,
    **holdout_facts: Any,
) -> tuple[ApproximateMetric, TrainingReference]:
    """Cross-validate an estimator on training records to estimate the spread of its score.

    Parameters
    ----------
    metric : ApproximateMetric
        The metric.
    estimator : estimator
        Cloned for each fold.
    X, y : array-like
        Training records and targets.
    groups : array-like of shape (n_samples,), default=None
        Sampling unit of each record; None if every record is one.
    folds : sequence of pairs of arrays, default=None
        Positions of the records to fit on and to test on. None: five folds, of whole groups if
        ``groups`` are passed.
    **holdout_facts : object
        ``n_holdout_units``, ``n_holdout_records``, ``are_iid`` and ``no_interval_reason`` of
        :meth:`ApproximateMetric.training_reference
        <sklearn_bdp.metrics.approximate.ApproximateMetric.training_reference>`.

    Returns
    -------
    metric : ApproximateMetric
        The metric with its public range: :meth:`ApproximateMetric.with_range
        <sklearn_bdp.metrics.approximate.ApproximateMetric.with_range>` for cross-validated scores.
    reference : TrainingReference
        Score on training records, and its spread or a reason for no interval (theory G34).
        For a scorer that calls the model itself, it has only the mean score of the folds.
    """
    if not folds:
        splitter = check_cv(_N_FOLDS, y, classifier=is_classifier(estimator))
        splitter = splitter if groups is None else GroupKFold(_N_FOLDS)
        folds = list(splitter.split(np.zeros(len(as_labels(y))), y, groups))
    fold_predictions = []
    fold_scores = []
    for train, test in folds:
        model = clone(estimator).fit(safe_indexing(X, train), safe_indexing(y, train))
        X_test = safe_indexing(X, test)
        y_test = safe_indexing(y, test)
        if metric.uses_predictions_only:
            fold_predictions.append(metric.predictions(model, X_test, y_test))
        else:
            fold_scores.append(metric.score_model(model, X_test, y_test))
    if not metric.uses_predictions_only:
        return metric.with_range(fold_scores), TrainingReference(score=float(np.mean(fold_scores)))
    unit_codes = None
    if groups is not None:
        group_codes = np.unique(np.asarray(groups), return_inverse=True)[1]
        unit_codes = np.concatenate([group_codes[test] for _, test in folds])
    predictions = Predictions.concatenate(fold_predictions)
    return reference_of_predictions(metric, predictions, unit_codes=unit_codes, **holdout_facts)


def reference_of_predictions(
    metric: ApproximateMetric,
    predictions: Predictions,
    *,
    unit_codes: Array | None,
    **holdout_facts: Any,
) -> tuple[ApproximateMetric, TrainingReference]:
    """Return the metric with its public range, and its score and spread on training records.

    Parameters
    ----------
    metric : ApproximateMetric
        The metric.
    predictions : Predictions
        Predictions of training records, by models that were not fitted on them unless
        ``from_caller`` is True.
    unit_codes : ndarray of int, shape (n_records,), or None
        Sampling unit of each of these records; None if every record is one.
    **holdout_facts : object
        ``n_holdout_units``, ``n_holdout_records``, ``are_iid`` and ``no_interval_reason`` of
        :meth:`ApproximateMetric.training_reference
        <sklearn_bdp.metrics.approximate.ApproximateMetric.training_reference>`.

    Returns
    -------
    metric : ApproximateMetric
        The metric with its public range: :meth:`ApproximateMetric.with_range
        <sklearn_bdp.metrics.approximate.ApproximateMetric.with_range>` for the score of these
        predictions, which leaves a fixed range as it is. The metric itself if a caller passed the
        predictions, or if their score is undefined.
    reference : TrainingReference
        Score on training records, and its spread or a reason for no interval (theory G34).
    """
    reference = metric.training_reference(predictions, unit_codes=unit_codes, **holdout_facts)
    # Predictions of a caller may be of records that the model was fitted on. Their loss is too
    # small for a range.
    if predictions.from_caller or not math.isfinite(reference.score):
        return metric, reference
    metric = metric.with_range([reference.score])
    return metric, metric.training_reference(predictions, unit_codes=unit_codes, **holdout_facts)
