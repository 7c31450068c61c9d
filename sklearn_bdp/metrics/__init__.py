"""Bounded metrics: scores with a known range and a proved sensitivity.

See ``doc/guide/metrics.md`` for the list and the proofs.
"""

from sklearn_bdp.metrics.base import BoundedMetric
from sklearn_bdp.metrics.per_record import PerRecordScore
from sklearn_bdp.metrics.registry import available_metrics
from sklearn_bdp.metrics.scoring import default_metric, get_metric

__all__ = ["BoundedMetric", "PerRecordScore", "available_metrics", "default_metric", "get_metric"]
