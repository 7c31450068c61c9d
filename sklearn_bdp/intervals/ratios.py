r"""Exact limits of precision, Jaccard and F1 of two classes (theory G34).

A record counts in the denominator if a fixed model predicts it as positive or, for Jaccard and F1,
if it is predicted as positive or is positive. Each record that counts is a hit (a true positive)
with the same probability :math:`J`. Given the number :math:`N` of records that count, the number of
hits is binomial, so that Clopper-Pearson limits for :math:`N` records are valid. The holdout
releases a lower bound of :math:`N` first, the floor. For a fixed proportion of hits, limits narrow
with :math:`N`, so that those for the floor contain those for :math:`N`.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np
from scipy.special import betaincinv

from sklearn_bdp._typing import Array, FloatOrArray

#: ``"share"``: the score is the proportion ``J`` of hits. ``"f1"``: it is ``2 J / (1 + J)``.
RatioKind: TypeAlias = Literal["share", "f1"]

#: Coded fraction of the surprises that noise causes, although the count is above the floor.
_FALSE_SURPRISE_FRACTION = 0.1
#: Standard deviations between a predicted proportion and its floor. They are many because all
#: candidates have the same holdout records: if these are unusual, many candidates are surprising.
_N_DEVIATIONS = 3.3
#: Prior number of surprises (theory G21).
_PRIOR = 0.05


def surprise_probability(n_queries: int, n_surprises: int) -> float:
    """Return the predicted probability of a surprise: a count that is reported below its floor.

    The count is that of the holdout records in the next score's denominator, the floor a lower
    bound of it. The probability is the Krichevsky-Trofimov estimate of theory G21.

    Parameters
    ----------
    n_queries, n_surprises : int
        Number of earlier floors of the holdout, and number of surprises among them.

    Returns
    -------
    float
        Between 0 and 1.
    """
    return (n_surprises + _PRIOR) / (n_queries + 1.0 + _PRIOR)


def score_of_share(share: FloatOrArray, ratio_kind: RatioKind) -> Array:
    """Return the score for a proportion of hits.

    Parameters
    ----------
    share : float or array-like
        Proportion of hits among the records that count, in [0, 1].
    ratio_kind : {"share", "f1"}
        Whether the score is this proportion (precision, Jaccard), or F1.

    Returns
    -------
    ndarray
        Scores in [0, 1].
    """
    share = np.asarray(share, dtype=float)
    return share if ratio_kind == "share" else 2.0 * share / (1.0 + share)


def share_of_score(score: FloatOrArray, ratio_kind: RatioKind) -> Array:
    """Return the proportion of hits for a score: the inverse of :func:`score_of_share`.

    Parameters
    ----------
    score : float or array-like
        Scores in [0, 1].
    ratio_kind : {"share", "f1"}
        Whether the score is the proportion of hits (precision, Jaccard), or F1.

    Returns
    -------
    ndarray
        Proportions in [0, 1].
    """
    score = np.asarray(score, dtype=float)
    return score if ratio_kind == "share" else score / (2.0 - score)


@dataclass(frozen=True)
class FloorGrid:
    """Partition of [0, 1] into cells, as which a proportion of holdout records is released.

    The proportion is that of the records that count in a denominator, the floor a lower bound of
    it. The central cell reaches from the floor to 1. In the angle ``arcsin(sqrt(share))``, the cell
    below it has a fixed width, and each further cell is twice as wide as the one above it, except
    that the lowest one ends at 0. Cells are numbered by integers: 0 is the central one, the others
    are negative. The cell ``None`` means that the mechanism reported no proportion below the floor.

    Parameters
    ----------
    edges : tuple of float
        Angles between which cells lie, ascending.
    """

    edges: tuple[float, ...]

    @classmethod
    def below(cls, share: float, *, n: int, n_train: int) -> Self:
        """Return the cells for a predicted proportion, with a floor below it.

        Parameters
        ----------
        share : float
            Proportion of the training records that count in the denominator.
        n, n_train : int
            Numbers of holdout and training records.

        Returns
        -------
        FloorGrid
            With one cell if the floor is 0.
        """
        # The standard deviation of arcsin(sqrt(share)) is near 1/2 sqrt(1/n). Edges from the floor
        # downward.
        angle_deviation = 0.5 * math.sqrt(1.0 / n + 1.0 / n_train)
        edge_angle = math.asin(math.sqrt(share)) - _N_DEVIATIONS * angle_deviation
        angle_width = 1.0 / math.sqrt(n)
        edge_angles = [0.5 * math.pi]
        while edge_angle > 0.0:  # the first one is the floor
            edge_angles.append(edge_angle)
            edge_angle -= angle_width
            angle_width *= 2.0
        return cls(tuple(reversed([*edge_angles, 0.0])))

    @property
    def is_trivial(self) -> bool:
        """Whether the floor is 0, so that no query is needed."""
        return len(self.edges) == 2

    def ends(self, cell: int | None) -> tuple[float, float]:
        """Return the lower and the upper proportion of a cell.

        Parameters
        ----------
        cell : int or None
            Number of the cell; None: the central cell.

        Returns
        -------
        low, high : float
            Proportions in [0, 1].
        """
        index = len(self.edges) - 2 + (cell or 0)
        return math.sin(self.edges[index]) ** 2, math.sin(self.edges[index + 1]) ** 2

    def cell_of(self, noisy_share: float) -> int:
        """Return the cell of a noisy proportion.

        Parameters
        ----------
        noisy_share : float
            Proportion that the mechanism released. Values beyond [0, 1] belong to the end cells.

        Returns
        -------
        int
            Number of the cell, at most 0.
        """
        angle = math.asin(math.sqrt(min(1.0, max(0.0, noisy_share))))
        return bisect.bisect_right(self.edges[1:-1], angle) - (len(self.edges) - 2)

    def code_length(self, cell: int | None, probability_of_surprise: float) -> float:
        """Return the code length of a released cell in nats.

        Parameters
        ----------
        cell : int or None
            Number of the released cell, None if the floor was confirmed.
        probability_of_surprise : float
            Coded probability of an answer other than None; see :func:`surprise_probability`.

        Returns
        -------
        float
            Length, at least 0; 0 if the grid is trivial. Otherwise the lengths of all cells, and
            of None, satisfy Kraft's inequality.
        """
        if self.is_trivial:
            return 0.0
        if cell is None:
            return -math.log1p(-probability_of_surprise)
        if cell == 0:
            return -math.log(_FALSE_SURPRISE_FRACTION * probability_of_surprise)
        distance = -cell  # in cells below the central one
        falling_weight = 1.0 / (distance * (distance + 1))
        even_weight = 1.0 / (len(self.edges) - 2)  # one over the number of cells below it
        half_probability = 0.5 * (1.0 - _FALSE_SURPRISE_FRACTION) * probability_of_surprise
        return -math.log(half_probability * (falling_weight + even_weight))


@dataclass(frozen=True)
class RatioLimits:
    """Clopper-Pearson limits of a score, given a lower bound of the number of records that count.

    Parameters
    ----------
    ratio_kind : {"share", "f1"}
        Whether the score is the proportion of hits (precision, Jaccard), or F1.
    floor : int
        Lower bound of the number of records that count. With 0, the limits are 0 and 1.
    expected : float
        Expected number of records that count, which may be a fraction. It determines predicted
        standard deviations, not limits.
    """

    ratio_kind: RatioKind
    floor: int
    expected: float

    def lower_limit(self, score: Array, log_failure: Array) -> Array:
        """Return lower limits of the scores of fixed models on new records.

        Parameters
        ----------
        score : ndarray of shape (m,)
            Lower ends of the released holdout scores, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side.

        Returns
        -------
        ndarray of shape (m,)
            Limits in [0, 1], at most ``score``.
        """
        share = share_of_score(score, self.ratio_kind)
        if self.floor < 1:
            return np.zeros(share.shape)
        hits = share * self.floor
        misses = (1.0 - share) * self.floor
        with np.errstate(all="ignore"):
            lower_share = betaincinv(hits, misses + 1.0, np.exp(log_failure))
        lower_share = np.where((share <= 0.0) | ~np.isfinite(lower_share), 0.0, lower_share)
        return np.minimum(score_of_share(lower_share, self.ratio_kind), score)

    def upper_limit(self, score: Array, log_failure: Array) -> Array:
        """Return upper limits of the scores of fixed models on new records.

        Parameters
        ----------
        score : ndarray of shape (m,)
            Upper ends of the released holdout scores, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side.

        Returns
        -------
        ndarray of shape (m,)
            Limits in [0, 1], at least ``score``.
        """
        share = share_of_score(score, self.ratio_kind)
        if self.floor < 1:
            return np.ones(share.shape)
        hits = share * self.floor
        misses = (1.0 - share) * self.floor
        with np.errstate(all="ignore"):
            lower_miss_share = betaincinv(misses, hits + 1.0, np.exp(log_failure))
        lower_miss_share = np.where(
            (share >= 1.0) | ~np.isfinite(lower_miss_share), 0.0, lower_miss_share
        )
        return np.maximum(score_of_share(1.0 - lower_miss_share, self.ratio_kind), score)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predicted standard deviation of the holdout score.

        Parameters
        ----------
        prediction : float or ndarray
            Predicted scores in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations. They are a public guess, not a bound.
        """
        n_counted = max(self.expected, 1.0)
        share = (share_of_score(prediction, self.ratio_kind) * n_counted + 1.0) / (n_counted + 2.0)
        slope = 1.0 if self.ratio_kind == "share" else 2.0 / (1.0 + share) ** 2
        return np.asarray(slope * np.sqrt(share * (1.0 - share) / n_counted))


def expected_floor(counts: tuple[int, int], n: int) -> tuple[FloorGrid, float]:
    """Return the grid of a floor, and the expected number of holdout records in a denominator.

    Parameters
    ----------
    counts : tuple of int
        Number of training records that do not count in the denominator, and of those that do.
    n : int
        Number of holdout records.

    Returns
    -------
    grid : FloorGrid
        Cells of the proportion of holdout records that count in the denominator.
    expected : float
        Expected number of holdout records that count, which may be a fraction.
    """
    n_train = sum(counts)
    share = counts[1] / n_train
    return FloorGrid.below(share, n=n, n_train=n_train), share * n
