"""Bounded metrics: scores with a known range and a proved sensitivity.

See ``doc/metrics.md`` for the list and the proofs.
"""

from sklearn_bdp.metrics._base import (
    BoundedMetric,
    Evaluation,
    MeanMetric,
    ScoreShape,
    as_labels,
    check_schema,
    same_names,
    score_rows,
    silenced,
)
from sklearn_bdp.metrics._by_class import ClassMetric
from sklearn_bdp.metrics._means import Clipping, PerRecordScore
from sklearn_bdp.metrics._registry import (
    available_metrics,
    check_scoring,
    default_metric,
    forecast_metric,
    get_metric,
)

__all__ = ["BoundedMetric", "PerRecordScore", "available_metrics", "default_metric", "get_metric"]
