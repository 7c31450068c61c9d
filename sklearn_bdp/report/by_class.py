"""Proven limits of scores that weigh records by class: ROC AUC and means over classes.

Every limit is computed from one record of each unit, drawn at random in secret. Given the labels of
these records, their scores are independent, and the counts of the classes can be read (theory G12,
G19, G36).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.auc import (
    PlacementMoments,
    expected_half_width,
    placement_limits,
    placements,
)
from sklearn_bdp.intervals.concentration import PairsTail, half_width_at, score_tail

#: AUC to be expected if nothing is known.
_DEFAULT_AUC = 0.8


@dataclasses.dataclass(frozen=True)
class AucMoments:
    """Expected moments of placements: those of positive records, and of negative ones."""

    center: float  # AUC
    variance_positive: float
    variance_negative: float

    @classmethod
    def default(cls, center: float | None) -> AucMoments:
        """Return the moments of exponential scores with an AUC (Hanley and McNeil 1982)."""
        auc = min(max(_DEFAULT_AUC if center is None else center, 0.05), 0.95)
        better = max(auc, 1.0 - auc)  # the formula is for a ranking better than chance
        return cls(
            auc, better / (2.0 - better) - better**2, 2.0 * better**2 / (1.0 + better) - better**2
        )

    @classmethod
    def from_folds(cls, scores_by_fold: list[tuple[Array, Array]]) -> AucMoments:
        """Return the moments of out-of-fold scores: of positive and of negative records by fold."""
        both = [pair for pair in scores_by_fold if min(map(len, pair)) > 0]
        of_positive = np.concatenate([placements(winning, losing) for winning, losing in both])
        of_negative = np.concatenate([placements(losing, winning) for winning, losing in both])
        return cls(float(of_positive.mean()), float(of_positive.var()), float(of_negative.var()))


def scores_by_class(by_class: Any, positions: Array) -> tuple[Array, Array]:
    """Return the scores of the positive and of the negative ones of some records.

    A record that the model failed on has the rank that contributes least.

    Parameters
    ----------
    by_class : ClassScores
        Scores and classes of all records.
    positions : ndarray of int
        Positions of the records.
    """
    scores = by_class.record_values[positions]
    is_positive = by_class.class_index[positions] == 1
    scores = np.where(np.isnan(scores), np.where(is_positive, -np.inf, np.inf), scores)
    return scores[is_positive], scores[~is_positive]


def auc_limits(
    by_class: Any, positions: Array, log_failure: float, moments: AucMoments, *, bets: bool
) -> tuple[float, float]:
    """Return limits of ROC AUC that fail together with probability at most ``exp(log_failure)``.

    Pairs of records, or bets on placements of the rarer class: counts of classes and training
    records decide.

    Parameters
    ----------
    by_class : ClassScores
        Scores and classes of all records.
    positions : ndarray of int
        Positions of independent records, in a secret order.
    log_failure : float
        Log of the failure probability of both limits.
    moments : AucMoments
        Expected moments.
    bets : bool
        Whether records of a class are alike, so that bets are valid.
    """
    winning, losing = scores_by_class(by_class, positions)
    if min(len(winning), len(losing)) == 0:
        return 0.0, 1.0
    log_side = log_failure - math.log(2.0)
    tail = PairsTail((len(losing), len(winning)))
    if len(winning) <= len(losing):
        expected = PlacementMoments(moments.center, moments.variance_positive)
        values = placements(winning, losing)
        n_other = len(losing)
    else:
        expected = PlacementMoments(moments.center, moments.variance_negative)
        values = 1.0 - placements(losing, winning)
        n_other = len(winning)
    if bets:
        half_width = expected_half_width(
            len(values), n_other, moments=expected, log_inverse_level=-log_side
        )
        if half_width < half_width_at(tail, moments.center, log_side):
            return placement_limits(values, n_other, moments=expected, log_inverse_level=-log_side)
    value = np.array([values.mean()])
    lower, upper = tail.limits(value, value, np.array([log_side]))
    return float(lower[0]), float(upper[0])


def class_mean_limits(
    evaluation: Any, positions: Array, log_failure: float, *, model: Any, n: int
) -> tuple[float, float]:
    """Return limits of a mean over classes, or of a score that is known by construction.

    Parameters
    ----------
    evaluation : Evaluation
        Of the model on all records.
    positions : ndarray of int
        Positions of independent records.
    log_failure : float
        Log of the failure probability of both limits.
    model : CorrelationModel
        Of the holdout.
    n : int
        Number of holdout records.
    """
    shape = dataclasses.asdict(evaluation.shape)
    value = evaluation.value
    if evaluation.by_class is not None:
        one_slice = positions[np.newaxis]
        n_classes = len(evaluation.shape.classes)
        floors = tuple(evaluation.by_class.min_class_counts(n_classes, one_slice).tolist())
        shape["class_floors"] = floors
        value = evaluation.by_class.value(floors, one_slice)
    tail = score_tail(model, n, **shape)
    values = np.array([value])
    lower, upper = tail.limits(values, values, np.array([log_failure - math.log(2.0)]))
    return float(lower[0]), float(upper[0])
