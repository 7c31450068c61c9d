"""Proven limits of scores that weigh records by class: ROC AUC and means over classes.

Limits of a score that depends on the records are computed from one record of each unit, drawn at
random (theory G12, G19, G36).
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
    """Expected mean and variances of the placements of positive and of negative records.

    The placement of a positive record is the fraction of negative records that are ranked below
    it, that of a negative record the fraction of positive records that are ranked below it.
    """

    center: float  # AUC
    variance_positive: float  # of the placements of positive records
    variance_negative: float  # of the placements of negative records

    @classmethod
    def default(cls, center: float | None) -> AucMoments:
        """Return the moments if scores are exponentially distributed (Hanley and McNeil 1982).

        ``center``: expected AUC, clipped to [0.05, 0.95]; None for 0.8.
        """
        auc = min(max(_DEFAULT_AUC if center is None else center, 0.05), 0.95)
        # The formula is for a ranking better than chance.
        mirrored_auc = max(auc, 1.0 - auc)
        return cls(
            center=auc,
            variance_positive=mirrored_auc / (2.0 - mirrored_auc) - mirrored_auc**2,
            variance_negative=2.0 * mirrored_auc**2 / (1.0 + mirrored_auc) - mirrored_auc**2,
        )

    @classmethod
    def from_folds(cls, scores_by_fold: list[tuple[Array, Array]]) -> AucMoments:
        """Return the moments of the placements of out-of-fold scores.

        ``scores_by_fold``: one pair per fold, the scores of positive and those of negative records.
        Folds without records of both classes are left out. Raise ValueError if none remain.
        """
        usable_folds = [
            (positive_scores, negative_scores)
            for positive_scores, negative_scores in scores_by_fold
            if len(positive_scores) and len(negative_scores)
        ]
        positive_placements = np.concatenate(
            [placements(positive, negative) for positive, negative in usable_folds]
        )
        negative_placements = np.concatenate(
            [placements(negative, positive) for positive, negative in usable_folds]
        )
        return cls(
            center=float(positive_placements.mean()),
            variance_positive=float(positive_placements.var()),
            variance_negative=float(negative_placements.var()),
        )


def scores_by_class(by_class: Any, positions: Array) -> tuple[Array, Array]:
    """Return two arrays: the scores of the positive and of the negative records at ``positions``.

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
    by_class: Any, positions: Array, log_alpha: float, moments: AucMoments, *, bets: bool
) -> tuple[float, float]:
    """Return limits of ROC AUC that fail together with probability at most ``exp(log_alpha)``.

    They are computed from pairs of records, or from bets on the placements of the rarer class if
    these are valid and expected to be narrower. Without records of both classes, the limits are 0
    and 1.

    Parameters
    ----------
    by_class : ClassScores
        Scores and classes of all records.
    positions : ndarray of int
        Positions of independent records, in random order.
    log_alpha : float
        Log of the failure probability of both limits.
    moments : AucMoments
        Expected moments of placements.
    bets : bool
        Whether records of a class are identically distributed, so that bets are valid.
    """
    positive_scores, negative_scores = scores_by_class(by_class, positions)
    n_positive = len(positive_scores)
    n_negative = len(negative_scores)
    if min(n_positive, n_negative) == 0:
        return 0.0, 1.0
    log_alpha_one_sided = log_alpha - math.log(2.0)
    pairs_tail = PairsTail((n_negative, n_positive))
    if n_positive <= n_negative:
        expected_moments = PlacementMoments(moments.center, moments.variance_positive)
        rarer_placements = placements(positive_scores, negative_scores)
    else:
        expected_moments = PlacementMoments(moments.center, moments.variance_negative)
        rarer_placements = 1.0 - placements(negative_scores, positive_scores)
    n_other = max(n_positive, n_negative)  # records of the more frequent class
    if bets:
        expected_betting_half_width = expected_half_width(
            len(rarer_placements),
            n_other,
            moments=expected_moments,
            log_inverse_alpha=-log_alpha_one_sided,
        )
        if expected_betting_half_width < half_width_at(
            pairs_tail, moments.center, log_alpha_one_sided
        ):
            return placement_limits(
                rarer_placements,
                n_other,
                moments=expected_moments,
                log_inverse_alpha=-log_alpha_one_sided,
            )
    auc = np.array([rarer_placements.mean()])
    lower, upper = pairs_tail.limits(auc, auc, np.array([log_alpha_one_sided]))
    return float(lower[0]), float(upper[0])


def class_mean_limits(
    evaluation: Any, positions: Array, log_alpha: float, *, dependence: Any, n: int
) -> tuple[float, float]:
    """Return limits in [0, 1] of a mean over classes, or of a score that is always the same.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the model on all records.
    positions : ndarray of int
        Positions of independent records. Not used for a constant score.
    log_alpha : float
        Log of the failure probability of both limits.
    dependence : CorrelationModel
        Dependence of the holdout records.
    n : int
        Number of holdout records.
    """
    tail_options = dataclasses.asdict(evaluation.shape)
    unit_score = evaluation.value
    if evaluation.score_inputs is not None:
        positions_as_row = positions[np.newaxis]
        n_classes = len(evaluation.shape.classes)
        class_counts = evaluation.score_inputs.min_class_counts(n_classes, positions_as_row)
        class_floors = tuple(class_counts.tolist())
        tail_options["class_floors"] = class_floors
        unit_score = evaluation.score_inputs.value(class_floors, positions_as_row)
    tail = score_tail(dependence, n, **tail_options)
    unit_scores = np.array([unit_score])
    lower, upper = tail.limits(unit_scores, unit_scores, np.array([log_alpha - math.log(2.0)]))
    return float(lower[0]), float(upper[0])
