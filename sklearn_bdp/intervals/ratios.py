r"""Exact limits of precision, Jaccard and F1 of two classes (theory G34).

Of the records that a fixed model calls positive (Jaccard and F1: calls positive or that are
positive), each one is a hit with the same probability :math:`J`. Given their number :math:`N`, the
number of hits is binomial, so Clopper-Pearson limits at :math:`(hits, N)` hold for every :math:`N`.
The holdout is asked for a floor under :math:`N` first. At a given share of hits the limits narrow
with :math:`N`, so that those at the floor contain them.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np
from scipy.special import betaincinv

from sklearn_bdp._typing import Array, FloatOrArray

#: ``"share"``: the score is the share of hits. ``"f1"``: it is ``2 J / (1 + J)`` of the share.
RatioKind: TypeAlias = Literal["share", "f1"]

#: Part of the surprises that noise is expected to cause, which moves a number across the floor.
_CROSSING = 0.1
#: Standard deviations between a predicted share and its floor. Candidates share the records of a
#: holdout, so that one unusual holdout surprises many of them.
_N_DEVIATIONS = 3.3
#: Prior number of surprises (theory G21).
_PRIOR = 0.05


def surprise_probability(n_queries: int, n_surprises: int) -> float:
    """Return the coded probability that the next number of records lies below its floor.

    The Krichevsky-Trofimov form of theory G21: silence costs .3 nats for 100 queries in all, and a
    holdout that differs from the training set teaches the code that surprises are usual.

    Parameters
    ----------
    n_queries, n_surprises : int
        Earlier floors of the holdout, and those that were surprises.

    Returns
    -------
    float
        Between 0 and 1.
    """
    return (n_surprises + _PRIOR) / (n_queries + 1.0 + _PRIOR)


def score_of_share(share: FloatOrArray, ratio_kind: RatioKind) -> Array:
    """Return the score at a share of hits.

    Parameters
    ----------
    share : float or array-like
        Share of hits, in [0, 1].
    ratio_kind : {"share", "f1"}
        Whether the score is the share of hits, or F1 of it.

    Returns
    -------
    ndarray
        Scores in [0, 1].
    """
    share = np.asarray(share, dtype=float)
    return share if ratio_kind == "share" else 2.0 * share / (1.0 + share)


def share_of_score(score: FloatOrArray, ratio_kind: RatioKind) -> Array:
    """Return the share of hits at a score: the inverse of :func:`score_of_share`.

    Parameters
    ----------
    score : float or array-like
        Scores in [0, 1].
    ratio_kind : {"share", "f1"}
        Whether the score is the share of hits, or F1 of it.

    Returns
    -------
    ndarray
        Shares in [0, 1].
    """
    score = np.asarray(score, dtype=float)
    return score if ratio_kind == "share" else score / (2.0 - score)


@dataclass(frozen=True)
class FloorCells:
    """Partition of [0, 1] in which a floor under a share is released.

    The central cell reaches from the floor to 1. Cells below it double their width, in
    ``arcsin(sqrt(share))``, down to 0. Cells have whole numbers, the central one 0; ``None`` means
    that the mechanism saw no share below the floor.

    Parameters
    ----------
    edges : tuple of float
        Angles between which cells lie, ascending.
    """

    edges: tuple[float, ...]

    @classmethod
    def below(cls, share: float, *, n: int, n_train: int) -> Self:
        """Return cells whose floor lies below a predicted share.

        Parameters
        ----------
        share : float
            Share of the training records that count in the denominator.
        n, n_train : int
            Numbers of holdout and training records.

        Returns
        -------
        FloorCells
            With one cell if the floor is 0.
        """
        # The deviation of arcsin(sqrt(share)) is 1/2 sqrt(1/n), whatever the share is.
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
        """Return the shares between which a cell lies.

        Parameters
        ----------
        cell : int or None
            Number of the cell.

        Returns
        -------
        low, high : float
            Shares in [0, 1].
        """
        index = len(self.edges) - 2 + (cell or 0)
        return math.sin(self.edges[index]) ** 2, math.sin(self.edges[index + 1]) ** 2

    def cell_of(self, value: float) -> int:
        """Return the cell of a share.

        Parameters
        ----------
        value : float
            Noisy share; values beyond [0, 1] belong to the end cells.

        Returns
        -------
        int
            At most 0.
        """
        angle = math.asin(math.sqrt(min(1.0, max(0.0, value))))
        return bisect.bisect_right(self.edges[1:-1], angle) - (len(self.edges) - 2)

    def code_length(self, cell: int | None, surprise: float) -> float:
        """Return the code length of a release in nats.

        Parameters
        ----------
        cell : int or None
            Number of the cell.
        surprise : float
            Coded probability of an answer other than None; see :func:`surprise_probability`.

        Returns
        -------
        float
            Lengths of all releases satisfy Kraft's inequality.
        """
        if self.is_trivial:
            return 0.0
        if cell is None:
            return -math.log1p(-surprise)
        if cell == 0:
            return -math.log(_CROSSING * surprise)
        distance = -cell
        by_distance = 1.0 / (distance * (distance + 1))
        n_below = len(self.edges) - 2
        return -math.log(0.5 * (1.0 - _CROSSING) * surprise * (by_distance + 1.0 / n_below))


@dataclass(frozen=True)
class RatioLimits:
    """Clopper-Pearson limits of a score at a floor under the number of records that count.

    Parameters
    ----------
    ratio_kind : {"share", "f1"}
        Whether the score is the share of hits, or F1 of it.
    floor : int
        Fewest records that count. Nothing is claimed at 0.
    expected : float
        Expected number of records that count: prices releases, and is no bound.
    """

    ratio_kind: RatioKind
    floor: int
    expected: float

    def lower_limit(self, score: Array, log_failure: Array) -> Array:
        """Return lower limits.

        Parameters
        ----------
        score : ndarray of shape (m,)
            Least holdout scores, in [0, 1].
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
        hits, misses = share * self.floor, (1.0 - share) * self.floor
        with np.errstate(all="ignore"):
            lower = betaincinv(hits, misses + 1.0, np.exp(log_failure))
        lower = np.where((share <= 0.0) | ~np.isfinite(lower), 0.0, lower)
        return np.minimum(score_of_share(lower, self.ratio_kind), score)

    def upper_limit(self, score: Array, log_failure: Array) -> Array:
        """Return upper limits.

        Parameters
        ----------
        score : ndarray of shape (m,)
            Largest holdout scores, in [0, 1].
        log_failure : ndarray of shape (m,)
            As for :meth:`lower_limit`.

        Returns
        -------
        ndarray of shape (m,)
            Limits in [0, 1], at least ``score``.
        """
        share = share_of_score(score, self.ratio_kind)
        if self.floor < 1:
            return np.ones(share.shape)
        hits, misses = share * self.floor, (1.0 - share) * self.floor
        with np.errstate(all="ignore"):
            above = betaincinv(misses, hits + 1.0, np.exp(log_failure))
        above = np.where((share >= 1.0) | ~np.isfinite(above), 0.0, above)
        return np.maximum(score_of_share(1.0 - above, self.ratio_kind), score)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predicted standard deviation of the holdout score.

        Parameters
        ----------
        prediction : float or ndarray
            Predicted scores in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations: a public guess that prices releases, no bound.
        """
        size = max(self.expected, 1.0)
        share = (share_of_score(prediction, self.ratio_kind) * size + 1.0) / (size + 2.0)
        slope = 1.0 if self.ratio_kind == "share" else 2.0 / (1.0 + share) ** 2
        return np.asarray(slope * np.sqrt(share * (1.0 - share) / size))


def expected_floor(counts: tuple[int, int], n: int) -> tuple[FloorCells, float]:
    """Return the cells of a floor, and the expected number of holdout records that count.

    Parameters
    ----------
    counts : tuple of int
        Training records that do not count, and that do.
    n : int
        Number of holdout records.

    Returns
    -------
    cells : FloorCells
        Cells of the floor.
    expected : float
        Expected number of records.
    """
    n_train = sum(counts)
    share = counts[1] / n_train
    return FloorCells.below(share, n=n, n_train=n_train), share * n
