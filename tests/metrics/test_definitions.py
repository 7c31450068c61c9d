"""The registry of metrics: each class states its facts, and the documentation shows them."""

import numpy as np
import pytest

from sklearn_bdp.intervals.jackknife import GENERIC
from sklearn_bdp.metrics import available_metrics
from sklearn_bdp.metrics.base import METRICS, MeanMetric, register_metric
from sklearn_bdp.metrics.means import Accuracy
from sklearn_bdp.metrics.registry import metric_without_range, statistic_of
from sklearn_bdp.metrics.table import metric_table
from tests.facts import refused

RATIOS = {
    "precision": (2.0 / 3.0, 0.5),
    "negative_predictive_value": (0.5, 0.5),
    "f1": (2.0 / 3.0, 1.0),
    "jaccard": (0.5, 0.5),
    "recall": (2.0 / 3.0, 0.5),
    "specificity": (0.5, 0.5),
}


def test_the_table_of_the_documentation_has_a_line_for_each_metric():
    lines = metric_table().splitlines()
    for name in METRICS:
        assert sum(f"`{name}`" in line or f"`{name}_0.2`" in line for line in lines) == 1


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_has_a_range_a_summary_and_rows(name):
    metric_class = METRICS[name]
    lower, upper = metric_class.score_range
    assert lower < upper
    assert metric_class.__doc__.strip()
    metric = metric_without_range(f"{name}_0.2" if metric_class.needs_number else name)
    has_rows = metric.unit_statistic is not GENERIC or metric_class.is_mean
    assert has_rows
    assert (name in available_metrics()) == metric_class.can_rank


@pytest.mark.parametrize("name", RATIOS)
def test_a_ratio_counts_records_once(name):
    """Two true positives, one false positive, one false negative, one true negative."""
    actual = np.array([True, True, False, True, False])
    predicted = np.array([True, True, True, False, False])
    value, denominator_part = RATIOS[name]
    metric = metric_without_range(name)
    numerator, denominator = metric.counts(actual, predicted)
    assert numerator.sum() / denominator.sum() == pytest.approx(value)
    assert metric.expected_denominator(0.5) == denominator_part
    assert denominator.max() <= metric.record_bound
    lower, upper = metric.count_limits(
        numerator.sum(), denominator.sum(), 0.05, identically_distributed=True
    )
    assert 0.0 <= lower < value < upper <= 1.0


def test_a_subclass_does_not_inherit_bounds_of_differences():
    """It may score equal predictions differently (theory G31)."""

    class Weighted(Accuracy):
        pass

    assert Accuracy(name="accuracy", lower=0.0, upper=1.0).has_bounded_differences
    assert not Weighted(name="weighted", lower=0.0, upper=1.0).has_bounded_differences


def test_a_name_belongs_to_one_class():
    class Copy(MeanMetric):
        def record_scores(self, estimator, X, y):
            return np.ones(len(y))

    with refused(ValueError, "accuracy"):
        register_metric("accuracy")(Copy)
    assert METRICS["accuracy"] is Accuracy
    with refused(ValueError, "no_metric"):
        statistic_of("no_metric")
