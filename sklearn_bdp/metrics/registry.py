"""All metrics of the package by name; each is defined by one class."""

from __future__ import annotations

from typing import Any

from sklearn_bdp.metrics import by_class, means
from sklearn_bdp.metrics.base import METRICS, BoundedMetric
from sklearn_bdp.utils.validation import check_option

#: Modules whose classes register themselves.
MODULES = (by_class, means)


def available_metrics() -> list[str]:
    """Return the names `get_metric` accepts.

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
    return sorted(METRICS)


def planned_metric(scoring: Any) -> BoundedMetric:
    """Return a metric that varies like the named one, with any valid range.

    Parameters
    ----------
    scoring : str or BoundedMetric
        A name, or a metric as it is.

    Returns
    -------
    BoundedMetric
        For plans, which know no training targets.

    Raises
    ------
    ValueError
        If no metric has that name.
    """
    if isinstance(scoring, BoundedMetric):
        return scoring
    name = check_option("scoring", scoring, available_metrics())
    metric_class = METRICS[name]
    options = metric_class.placeholder_options
    return metric_class.build(name, classes=None, y=None, options=options)
