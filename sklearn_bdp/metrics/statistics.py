"""Leave-one-unit-out values and cells of families of metrics, for approximate rows of a report."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from sklearn_bdp.intervals.jackknife import DateFacts, Statistic
from sklearn_bdp.intervals.left_out import all_records, divide, of_sums, ratio

#: Levels down to which shares within a class were simulated: of rows, and of differences.
CLASS_SHARE_TRUST = (0.001, 0.002)
#: The mean over records of numbers that are the predictions.
MEAN_LEFT_OUT = of_sums(lambda y, predictions: (predictions,), lambda count, total: total / count)


#: Nouns of records by outcome; ``{s}`` stands for the plural.
_OUTCOMES = ("true positive{s}", "false negative{s}", "false positive{s}", "true negative{s}")


def class_cells(y, predictions):
    """Return the records of each class."""
    return [("record{s} of the rarest class", y == label) for label in np.unique(y)]


def confusion_cells(y, predictions):
    """Return the records of each class that are predicted rightly, and wrongly."""
    is_hit = predictions == y
    outcomes = (
        ("correctly classified record{s} of one class", is_hit),
        ("misclassified record{s} of one class", ~is_hit),
    )
    return [(noun, (y == label) & outcome) for label in np.unique(y) for noun, outcome in outcomes]


def hit_cells(y, predictions):
    """Return the records that are predicted rightly, and wrongly."""
    is_hit = predictions == y
    return [("correctly classified record{s}", is_hit), ("misclassified record{s}", ~is_hit)]


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

    def hits_and_misses(y, predictions):
        numerator, denominator = terms(y, predictions)
        return numerator > 0, (denominator > 0) & (numerator == 0)

    def cells(y, predictions):
        # The nouns of both follow from one record of each outcome.
        nouns = [
            " or ".join(itertools.compress(_OUTCOMES, is_inside))
            for is_inside in hits_and_misses(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]))
        ]
        return list(zip(nouns, hits_and_misses(y, predictions), strict=True))

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
        is_above = y > predictions
        return [
            ("target{s} above the predicted quantile", is_above),
            ("target{s} below the predicted quantile", ~is_above),
        ]

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
        return [
            (f"record{{s}} whose class is among the {k} likeliest", is_hit),
            (f"record{{s}} whose class is not among the {k} likeliest", ~is_hit),
        ]

    return Statistic("all_chances", ratio(hits), "unit", cells)
