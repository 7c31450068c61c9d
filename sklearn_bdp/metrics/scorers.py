"""From a ``scoring`` argument to a metric that may choose models: proven or approximate.

A metric with a proven bound is used where there is one. Any other scorer of scikit-learn is
approximate (theory G34): its interval needs out-of-fold predictions of training records.
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

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics.approximate import (
    ApproximateMetric,
    Predictions,
    TrainingReference,
    approximate_metric,
)
from sklearn_bdp.metrics.base import METRICS, BoundedMetric, as_labels
from sklearn_bdp.metrics.means import ClippedError
from sklearn_bdp.metrics.per_record import PerRecordScore
from sklearn_bdp.metrics.registry import available_metrics
from sklearn_bdp.metrics.scoring import final_step, get_metric, parse_scorer, requests_metadata
from sklearn_bdp.utils.sklearn_compat import safe_indexing

#: Number of folds of training records without folds of a search.
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
    """Return the metric of a scorer, with a proven bound if one is known.

    Parameters
    ----------
    scoring : object
        As for :func:`~sklearn_bdp.metrics.get_metric`, any name of scikit-learn, a scorer, or a
        function ``(estimator, X, y)`` that returns one number. None: the estimator's own score.
    estimator : estimator
        Decides the metric of None.
    y : array-like of shape (n_samples,) or None
        *Training* targets: they are public, and give the range of losses. A metric without a
        proven bound needs them.
    proof_needed_for : str, default=""
        Setting under which only metrics with a proven bound are accepted; empty without one.
    has_class_bounds : bool, default=True
        Whether bounds of scores by class (ROC AUC, balanced accuracy) hold on the holdout. They
        need records that are alike. Otherwise these scores are approximate.
    has_dates : bool, default=False
        Whether records are dates given their past. Then errors keep their proven interval with a
        clip from training data, also as the default of a regressor, because approximate metrics
        have no interval before the final report.

    Returns
    -------
    BoundedMetric
        An :class:`~sklearn_bdp.metrics.approximate.ApproximateMetric` without a proven bound.

    Raises
    ------
    UnboundedMetricError
        If the metric has no proven bound, and one is needed or ``y`` is None.
    TypeError, ValueError
        If ``scoring`` is unknown or does not fit the targets.
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
    """Return whether a scorer without a proven bound may choose candidates (theory G34).

    ``error``: the error of the metric with a proven bound. Targets of several outputs have none.
    """
    if not _is_scorer(scoring) or requests_metadata(scoring):
        return False
    if isinstance(error, UnboundedMetricError):
        return True
    one_output = ("binary", "multiclass", "continuous")
    return y is not None and type_of_target(as_labels(y)) not in one_output


def _proof_needed_error(error, scoring, setting, *, has_class_bounds):
    """Return the error for a scorer without a proven bound under a setting that needs one."""
    if has_class_bounds:
        return UnboundedMetricError(
            f"{error} Under {setting} only metrics with a proven bound choose "
            f"candidates: {', '.join(available_metrics())}."
        )
    means = [name for name in available_metrics() if METRICS[name].is_mean]
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", scoring)
    return UnboundedMetricError(
        f"scoring={name!r} has no proven bound. Under {setting}, only means over "
        f"records choose candidates: {', '.join(means)}."
    )


def check_scoring(scoring: Any) -> None:
    """Raise on a ``scoring`` that no model and no data make sound.

    Parameters
    ----------
    scoring : object
        As for :func:`scorer_metric`.

    Raises
    ------
    TypeError, ValueError
        If neither this package nor scikit-learn knows it.
    """
    if scoring is None or isinstance(scoring, BoundedMetric | PerRecordScore):
        return
    if not _is_scorer(scoring) or requests_metadata(scoring):
        parse_scorer(scoring)


def _is_regressor(estimator):
    """Return whether an object has estimator tags of a regressor."""
    try:
        return is_regressor(estimator)
    except AttributeError:
        return False


def own_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the score by the estimator's own method.

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
    """Return whether errors are clipped at the range of the training targets by default.

    Their interval would be about clipped errors; the approximate one is about the errors.
    """
    is_undeclared = isinstance(metric, ClippedError) and bool(metric.note)
    return is_undeclared and _is_scorer(scoring) and np.ndim(y) == 1


def _is_scorer(scoring):
    """Return whether scikit-learn takes an object as ``scoring``."""
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
    """Cross-validate an estimator on training records for the spread of its score.

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
        Positions for fitting and for testing. None: five folds, of whole groups.
    **holdout_facts : object
        As for :func:`reference_of_predictions`.

    Returns
    -------
    metric : ApproximateMetric
        With the public range that suits the estimator.
    reference : TrainingReference
        Without an interval where theory G34 rules one out.
    """
    if not folds:
        splitter = check_cv(_N_FOLDS, y, classifier=is_classifier(estimator))
        splitter = splitter if groups is None else GroupKFold(_N_FOLDS)
        folds = list(splitter.split(np.zeros(len(as_labels(y))), y, groups))
    predictions, scores = [], []
    for train, test in folds:
        model = clone(estimator).fit(safe_indexing(X, train), safe_indexing(y, train))
        tested = safe_indexing(X, test), safe_indexing(y, test)
        if metric.uses_predictions_only:
            predictions.append(metric.predictions(model, *tested))
        else:
            scores.append(metric.score_model(model, *tested))
    if not metric.uses_predictions_only:
        return metric.with_range(scores), TrainingReference(score=float(np.mean(scores)))
    unit_codes = None
    if groups is not None:
        codes = np.unique(np.asarray(groups), return_inverse=True)[1]
        unit_codes = np.concatenate([codes[test] for _, test in folds])
    pooled = Predictions.concatenate(predictions)
    return reference_of_predictions(metric, pooled, unit_codes=unit_codes, **holdout_facts)


def reference_of_predictions(
    metric: ApproximateMetric, predictions: Predictions, **holdout_facts: Any
) -> tuple[ApproximateMetric, TrainingReference]:
    """Return the metric with its public range, and the spread of out-of-sample predictions.

    Parameters
    ----------
    metric : ApproximateMetric
        The metric.
    predictions : Predictions
        Of records that the model was not fitted on.
    **holdout_facts : object
        ``unit_codes``, ``n_holdout_units``, ``n_holdout_records``, ``are_alike`` and
        ``rule_out`` of :meth:`ApproximateMetric.training_reference
        <sklearn_bdp.metrics.approximate.ApproximateMetric.training_reference>`.

    Returns
    -------
    metric : ApproximateMetric
        With the public range that suits these predictions.
    reference : TrainingReference
        Without an interval where theory G34 rules one out.
    """
    reference = metric.training_reference(predictions, **holdout_facts)
    # A range that suits predictions of records that the model was fitted on is too small.
    if predictions.from_caller or not math.isfinite(reference.score):
        return metric, reference
    metric = metric.with_range([reference.score])
    return metric, metric.training_reference(predictions, **holdout_facts)
