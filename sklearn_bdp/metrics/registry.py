"""Look up metrics by name. Each metric is defined by one class."""

from __future__ import annotations

from typing import Any

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.intervals.jackknife import Statistic
from sklearn_bdp.metrics import by_class, means, ratios, report_only
from sklearn_bdp.metrics.base import METRICS, BoundedMetric, Metric
from sklearn_bdp.metrics.score_functions import rejected_name
from sklearn_bdp.metrics.similar_names import unknown_metric_error
from sklearn_bdp.utils.validation import check_option

#: Modules whose classes register themselves.
MODULES = (by_class, means, ratios, report_only)


def available_metrics() -> list[str]:
    """Return the names that `get_metric` accepts.

    Returns
    -------
    list of str
        Sorted names.

    See Also
    --------
    get_metric : The metric of a name.

    Examples
    --------
    >>> from sklearn_bdp.metrics import available_metrics
    >>> available_metrics()[:3]
    ['accuracy', 'balanced_accuracy', 'neg_brier_score']
    """
    return sorted(name for name, metric_class in METRICS.items() if metric_class.can_rank)


def check_forecast(scoring: Any) -> None:
    """Raise for a scorer whose interval width cannot be forecast without a model.

    Parameters
    ----------
    scoring : object
        A name, a metric, a scorer or None.

    Raises
    ------
    UnboundedMetricError
        If ``scoring`` is callable, or a name of scikit-learn without a proven bound.
    """
    if scoring is None or isinstance(scoring, BoundedMetric):
        return
    is_scorer = callable(scoring)
    if isinstance(scoring, str):
        is_scorer = scoring not in available_metrics() and bool(rejected_name(scoring))
    if is_scorer:
        function = getattr(scoring, "_score_func", scoring)
        name = scoring if isinstance(scoring, str) else getattr(function, "__name__", "scorer")
        raise UnboundedMetricError(
            f"scoring={name!r} has no forecast before a model is known: out-of-fold predictions "
            "give the spread of its score. After a first search, search.preview() forecasts it. "
            "Before, plan with 'accuracy' for labels, or with 'neg_mean_absolute_error'. The "
            "holdout was not queried."
        )


def planned_metric(scoring: Any) -> BoundedMetric:
    """Return a metric for plans, which have no training targets, with an arbitrary valid range.

    Parameters
    ----------
    scoring : str or BoundedMetric
        A name of :func:`available_metrics`, or a metric.

    Returns
    -------
    BoundedMetric
        The metric of the name. A metric is returned unchanged.

    Raises
    ------
    UnboundedMetricError
        If ``scoring`` is callable, or a name of scikit-learn without a proven bound.
    ValueError
        If no metric with a proven bound has that name, or ``scoring`` is another object.
    """
    check_forecast(scoring)
    if isinstance(scoring, BoundedMetric):
        return scoring
    if isinstance(scoring, str) and scoring not in available_metrics():
        raise unknown_metric_error(scoring, available_metrics())
    name = check_option("scoring", scoring, available_metrics())
    metric_class: Any = METRICS[name]
    options = metric_class.placeholder_options
    return metric_class.build(name, classes=None, y=None, options=options)


def metric_without_range(name: Any) -> Metric | None:
    """Return the metric of a name for approximate rows, which need no range.

    Parameters
    ----------
    name : object
        A name, with or without a number at its end, such as ``net_benefit_0.2``,
        ``neg_mean_pinball_loss_0.9`` or ``top_k_accuracy_3``.

    Returns
    -------
    Metric or None
        None if no metric has that name, or a number is missing or invalid.
    """
    if not isinstance(name, str):
        return None
    name_without_number, _, number_text = name.rpartition("_")
    metric_class = METRICS.get(name) or METRICS.get(name_without_number)
    if metric_class is None:
        return None
    options: dict[str, float] = {}
    if name not in METRICS:
        number = _parse_number(metric_class, number_text)
        if number is None:
            return None
        options[metric_class.number_option] = number
    elif metric_class.needs_number:
        return None
    return metric_class.without_range(name, options)


def _parse_number(metric_class, text):
    """Return the number in a text, or None if it is not a valid number of the metric."""
    try:
        number = metric_class.number_type(text)
    except ValueError:
        return None
    is_valid = number > 0 if metric_class.number_type is int else 0.0 < number < 1.0
    return number if is_valid and metric_class.number_option else None


def statistic_of(name: str) -> Statistic:
    """Return the statistic of the metric of a name.

    Parameters
    ----------
    name : str
        A name, with or without a number at its end, such as ``top_k_accuracy_3``.

    Returns
    -------
    Statistic
        The metric's ``unit_statistic``, for approximate intervals.

    Raises
    ------
    ValueError
        If no metric has that name, or a number is missing or invalid.
    """
    metric = metric_without_range(name)
    if metric is None:
        raise ValueError(f"name must be that of a metric, got {name!r}.")
    return metric.unit_statistic
