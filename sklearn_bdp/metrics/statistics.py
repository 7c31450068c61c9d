"""Statistics of families of metrics, for approximate rows of a report.

A :class:`~sklearn_bdp.intervals.jackknife.Statistic` computes a score without each sampling unit.
Its outcomes are sets of records, such as false positives. An interval needs records of each.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from sklearn_bdp.intervals.jackknife import DateFacts, Statistic
from sklearn_bdp.intervals.left_out import all_records, divide, of_sums, ratio

#: Smallest failure probabilities at which proportions within a class were simulated: for one model,
#: and for a difference of two.
MIN_TESTED_ALPHAS_OF_CLASS_SHARES = (0.001, 0.002)
#: ``left_out`` function of the mean of numbers that are passed as predictions.
MEAN_LEFT_OUT = of_sums(lambda y, predictions: (predictions,), lambda count, total: total / count)


#: Nouns of records by outcome; ``{s}`` stands for the plural.
_OUTCOME_NOUNS = ("true positive{s}", "false negative{s}", "false positive{s}", "true negative{s}")


def class_outcomes(y, predictions):
    """Return for each class a pair: a noun, and the mask of its records."""
    return [("record{s} of the rarest class", y == label) for label in np.unique(y)]


def confusion_outcomes(y, predictions):
    """Return pairs of a noun and a mask: for each class its hits and its misclassified records."""
    is_hit = predictions == y
    nouns_and_masks = (
        ("correctly classified record{s} of one class", is_hit),
        ("misclassified record{s} of one class", ~is_hit),
    )
    return [(noun, (y == label) & mask) for label in np.unique(y) for noun, mask in nouns_and_masks]


def hit_outcomes(y, predictions):
    """Return pairs of a noun and a mask: records with a correct, then with a wrong prediction."""
    is_hit = predictions == y
    return [("correctly classified record{s}", is_hit), ("misclassified record{s}", ~is_hit)]


#: The proportion of records that are predicted correctly.
HIT_SHARE = Statistic(
    "labels", ratio(np.equal, all_records), "unit", hit_outcomes, min_tested_alphas=(0.005, 0.002)
)


def count_ratio(counts: Any) -> Statistic:
    """Return the statistic of a ratio of two counts.

    ``counts(actual, predicted)`` takes masks of the actual and of the predicted positives, and
    returns the contributions of records to numerator and denominator.
    """

    def ratio_terms(y, predictions):
        return counts(y == 1, predictions == 1)

    def hits_and_misses(y, predictions):
        """Return masks of the records that count in the numerator, and in the denominator only."""
        numerator, denominator = ratio_terms(y, predictions)
        return numerator > 0, (denominator > 0) & (numerator == 0)

    def outcome_masks(y, predictions):
        # The nouns of both sets follow from four records, in the order of `_OUTCOME_NOUNS`.
        nouns = [
            " or ".join(itertools.compress(_OUTCOME_NOUNS, is_inside))
            for is_inside in hits_and_misses(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]))
        ]
        return list(zip(nouns, hits_and_misses(y, predictions), strict=True))

    return Statistic(
        response="labels",
        left_out=of_sums(
            ratio_terms, lambda _, numerator, denominator: divide(numerator, denominator)
        ),
        scale="unit",
        outcome_masks=outcome_masks,
        min_tested_alphas=MIN_TESTED_ALPHAS_OF_CLASS_SHARES,
    )


def mean_loss(loss: Any, response: Any = "values", **statistic_options: Any) -> Statistic:
    """Return the statistic of minus the mean of ``loss(y, predictions)``.

    ``response`` is the kind of predictions, and ``statistic_options`` are other fields of
    `Statistic`.
    """
    return Statistic(
        response=response, left_out=ratio(loss), scale="loss", is_negated=True, **statistic_options
    )


def pinball_statistic(alpha: float) -> Statistic:
    """Return the statistic of minus the mean pinball loss of predicted quantiles ``alpha``."""

    def loss(y, predictions):
        return np.maximum(alpha * (y - predictions), (alpha - 1.0) * (y - predictions))

    def side_outcomes(y, predictions):
        is_above = y > predictions
        return [
            ("target{s} above the predicted quantile", is_above),
            ("target{s} below the predicted quantile", ~is_above),
        ]

    return mean_loss(
        loss,
        min_tested_alphas=(0.001, 0.005),
        corrects_skewness=(True, True),
        dates=DateFacts(min_outcome_dates=10, outcome_masks=side_outcomes),
    )
