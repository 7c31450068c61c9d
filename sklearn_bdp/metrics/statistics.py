"""Leave-one-unit-out values and cells of families of metrics, for approximate rows of a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_bdp.intervals.jackknife import DateFacts, Statistic
from sklearn_bdp.intervals.left_out import all_records, divide, of_sums, ratio

#: Levels down to which shares within a class were simulated: of rows, and of differences.
CLASS_SHARE_TRUST = (0.001, 0.002)
#: The mean over records of numbers that are the predictions.
MEAN_LEFT_OUT = of_sums(lambda y, predictions: (predictions,), lambda count, total: total / count)


def class_cells(y, predictions):
    """Return the records of each class."""
    return [y == label for label in np.unique(y)]


def confusion_cells(y, predictions):
    """Return the records of each class that are predicted rightly, and wrongly."""
    is_hit = predictions == y
    return [(y == c) & (is_hit == outcome) for c in np.unique(y) for outcome in (True, False)]


def hit_cells(y, predictions):
    """Return the records that are predicted rightly, and wrongly."""
    is_hit = predictions == y
    return [is_hit, ~is_hit]


#: The share of records that are predicted rightly.
HIT_SHARE = Statistic(
    "labels", ratio(np.equal, all_records), "unit", hit_cells, trust=(0.005, 0.002)
)


def count_ratio(counts: Any) -> Statistic:
    """Return the statistic of a ratio of two counts.

    ``counts(actual, predicted)`` are contributions of records to numerator and denominator, from
    masks of the actual and of the predicted positives.
    """

    def terms(y, predictions):
        return counts(y == 1, predictions == 1)

    def cells(y, predictions):
        numerator, denominator = terms(y, predictions)
        return [numerator > 0, (denominator > 0) & (numerator == 0)]

    left_out = of_sums(terms, lambda _, numerator, denominator: divide(numerator, denominator))
    return Statistic("labels", left_out, "unit", cells, trust=CLASS_SHARE_TRUST)


def mean_loss(loss: Any, response: Any = "values", **facts: Any) -> Statistic:
    """Return the statistic of minus the mean of ``loss(y, predictions)``."""
    return Statistic(response, ratio(loss), "loss", negative=True, **facts)


def pinball_statistic(alpha: float) -> Statistic:
    """Return the statistic of minus the mean pinball loss of a predicted quantile."""

    def loss(y, predictions):
        return np.maximum(alpha * (y - predictions), (alpha - 1.0) * (y - predictions))

    def side_cells(y, predictions):
        return [y > predictions, y <= predictions]

    return mean_loss(
        loss,
        trust=(0.001, 0.005),
        skewed=(True, True),
        dates=DateFacts(min_events=10, cells=side_cells),
    )


def top_k_statistic(k: int) -> Statistic:
    """Return the statistic of the share of records whose class is among the ``k`` likeliest."""

    def hits(y, predictions):
        probability_of_class = predictions[np.arange(len(y)), y.astype(int)]
        return (predictions > probability_of_class[:, np.newaxis]).sum(axis=1) < k

    def cells(y, predictions):
        is_hit = hits(y, predictions)
        return [is_hit, ~is_hit]

    return Statistic("all_chances", ratio(hits), "unit", cells)
