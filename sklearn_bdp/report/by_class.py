"""Proven limits of scores that weigh records by class: ROC AUC and means over classes.

Limits are computed from one record of each unit, drawn at random. Given the labels of these
records, their scores are independent, and the counts of the classes can be read (theory G12, G19,
G36).
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
    """Expected moments of placements: those of positive records, and of negative ones.

    The placement of a record is the fraction of the other class that it is ranked above.
    """

    center: float  # AUC
    variance_positive: float  # of the placements of positive records
    variance_negative: float  # of the placements of negative records

    @classmethod
    def default(cls, center: float | None) -> AucMoments:
        """Return the moments of exponential scores with an AUC (Hanley and McNeil 1982).

        ``center``: the AUC, moved to 0.05 or 0.95 if it is beyond them; None for 0.8.
        """
        auc = min(max(_DEFAULT_AUC if center is None else center, 0.05), 0.95)
        # The formula is for a ranking better than chance.
        better = max(auc, 1.0 - auc)
        return cls(
            center=auc,
            variance_positive=better / (2.0 - better) - better**2,
            variance_negative=2.0 * better**2 / (1.0 + better) - better**2,
        )

    @classmethod
    def from_folds(cls, scores_by_fold: list[tuple[Array, Array]]) -> AucMoments:
        """Return the moments of the placements of out-of-fold scores.

        ``scores_by_fold``: of each fold, the scores of its positive and of its negative records.
        Folds without records of a class are left out; ValueError if no other fold exists.
        """
        usable_folds = [
            (positive_scores, negative_scores)
            for positive_scores, negative_scores in scores_by_fold
            if len(positive_scores) and len(negative_scores)
        ]
        of_positives = np.concatenate(
            [placements(positives, negatives) for positives, negatives in usable_folds]
        )
        of_negatives = np.concatenate(
            [placements(negatives, positives) for positives, negatives in usable_folds]
        )
        return cls(
            center=float(of_positives.mean()),
            variance_positive=float(of_positives.var()),
            variance_negative=float(of_negatives.var()),
        )


def scores_by_class(by_class: Any, positions: Array) -> tuple[Array, Array]:
    """Return the scores of positive and of negative records, from some positions.

    A record that the model failed on has the worst rank: the lowest score if it is positive, else
    the highest.

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

    They are computed from pairs of records, or from bets on the placements of the rarer class. If
    bets are valid, the class counts and the expected moments decide which. Without records of a
    class, the limits are 0 and 1.

    Parameters
    ----------
    by_class : ClassScores
        Scores and classes of all records.
    positions : ndarray of int
        Positions of independent records, in random order.
    log_failure : float
        Log of the failure probability of both limits.
    moments : AucMoments
        Expected moments.
    bets : bool
        Whether records of a class are alike, so that bets are valid.
    """
    positive_scores, negative_scores = scores_by_class(by_class, positions)
    n_positive = len(positive_scores)
    n_negative = len(negative_scores)
    if min(n_positive, n_negative) == 0:
        return 0.0, 1.0
    log_one_sided = log_failure - math.log(2.0)
    tail = PairsTail((n_negative, n_positive))
    if n_positive <= n_negative:
        expected = PlacementMoments(moments.center, moments.variance_positive)
        rarer_placements = placements(positive_scores, negative_scores)
    else:
        expected = PlacementMoments(moments.center, moments.variance_negative)
        rarer_placements = 1.0 - placements(negative_scores, positive_scores)
    n_other = max(n_positive, n_negative)  # records of the more frequent class
    if bets:
        half_width = expected_half_width(
            len(rarer_placements), n_other, moments=expected, log_inverse_alpha=-log_one_sided
        )
        if half_width < half_width_at(tail, moments.center, log_one_sided):
            return placement_limits(
                rarer_placements, n_other, moments=expected, log_inverse_alpha=-log_one_sided
            )
    auc = np.array([rarer_placements.mean()])
    lower, upper = tail.limits(auc, auc, np.array([log_one_sided]))
    return float(lower[0]), float(upper[0])


def class_mean_limits(
    evaluation: Any, positions: Array, log_failure: float, *, model: Any, n: int
) -> tuple[float, float]:
    """Return limits of a mean over classes, or of a score that is constant by construction.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the model on all records.
    positions : ndarray of int
        Positions of independent records.
    log_failure : float
        Log of the failure probability of both limits.
    model : CorrelationModel
        Dependence of the holdout records.
    n : int
        Number of holdout records.
    """
    shape = dataclasses.asdict(evaluation.shape)
    value = evaluation.value
    if evaluation.score_inputs is not None:
        single_slice = positions[np.newaxis]
        n_classes = len(evaluation.shape.classes)
        class_counts = evaluation.score_inputs.min_class_counts(n_classes, single_slice)
        class_floors = tuple(class_counts.tolist())
        shape["class_floors"] = class_floors
        value = evaluation.score_inputs.value(class_floors, single_slice)
    tail = score_tail(model, n, **shape)
    values = np.array([value])
    lower, upper = tail.limits(values, values, np.array([log_failure - math.log(2.0)]))
    return float(lower[0]), float(upper[0])
