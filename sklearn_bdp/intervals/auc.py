r"""Limits of ROC AUC of independent records that use the counts of both classes (theory G36).

Given the labels, the :math:`n_1` records of one class (*bets*) and the :math:`n_0` of the other
are independent. Let :math:`P_i` be the placement of record :math:`i` among the other class: the
share of it that the record beats, ties one half. Given the other class, placements are independent
with the mean :math:`a`, the AUC against just these :math:`n_0` records. The unknown :math:`a` is
itself a mean of :math:`n_0` independent numbers in [0, 1] with the mean AUC :math:`= A`, so that
for every :math:`\lambda > 0`

.. math:: N_m(a) = \frac{e^{\lambda n_0 a}}{(1 - m + m e^\lambda)^{n_0}}

has an expectation of at most 1 for :math:`m \ge A` (Hoeffding 1963: the exponential is convex). For
:math:`b \ge a` a bet against :math:`b` on the placements has the expected wealth of at most 1, and
it aims at the wealth that :math:`N_m` leaves. An AUC :math:`m` is rejected if every :math:`b` of a
grid is: for the grid point next above :math:`a`, the product of :math:`N_m` at the point before it
and of the wealth has an expectation of at most 1. The wider the other class, the nearer the limits
are to those of a mean of :math:`n_1` placements, which vary less than pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.bounds import CAUTION, MAX_STAKE, PRIOR_UNITS
from sklearn_bdp.utils.validation import check_array, check_real

#: Weight of the constant 1 in the mixture with N: it bounds the wealth that any bet must reach.
_CONSTANT_WEIGHT = 0.05
#: Tilt of N, in parts of the one that a normal approximation of both sums would choose.
_TILT = 0.8
#: Grid of AUCs: steps in deviations, up to so many deviations, then growing by a factor.
_STEP, _NEAR, _GROWTH = 0.1, 8.0, 1.1
#: Grid of means of placements: first step in nats of N, and its growth.
_INNER_STEP, _INNER_GROWTH, _N_INNER_STEPS = 0.05, 1.12, 60
_MAX_BETS = 400
_BLOCK = 16  # placements between which rejected points drop out


class PlacementMoments(NamedTuple):
    """Moments of placements that stakes are chosen from: any are valid, right ones are sharp."""

    center: float  # AUC
    variance: float  # of the placements of the records that are bet on


def placements(scores: Array, other_scores: Array) -> Array:
    """Return the share of the other scores below each score, ties one half.

    Parameters
    ----------
    scores, other_scores : ndarray of shape (n,) and (n_other,)
        Scores of both classes; neither is empty.
    """
    ranks = rankdata(np.concatenate([scores, other_scores]))[: len(scores)]
    return (ranks - rankdata(scores)) / len(other_scores)


def placement_limits(
    values: Array, n_other: int, *, moments: PlacementMoments, log_inverse_level: float
) -> tuple[float, float]:
    r"""Return limits of the expected mean of placements among any records of the other class.

    Each of the two limits fails with probability at most ``exp(-log_inverse_level)`` given the
    labels.

    Parameters
    ----------
    values : array-like of shape (n,)
        Placements in an order that does not depend on them.
    n_other : int
        Number of records of the other class.
    moments : PlacementMoments
        From training records, or a guess.
    log_inverse_level : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    lower, upper : float
        In [0, 1].
    """
    values = check_array("values", values, low=0.0, high=1.0)
    # Means of blocks have the same expectation, and fewer of them take less time.
    n_blocks = min(len(values), _MAX_BETS)
    block = np.arange(len(values)) * n_blocks // len(values)
    sizes = np.bincount(block)
    values = np.minimum(np.bincount(block, values) / sizes, 1.0)
    level = check_real("log_inverse_level", log_inverse_level, low=0.0, closed="neither")
    center = min(max(moments.center, 0.01), 0.99)
    variance = max(moments.variance, 1e-4) / sizes.mean()
    lower = _lower_limit(values, n_other, center, variance, level)
    return lower, 1.0 - _lower_limit(1.0 - values, n_other, 1.0 - center, variance, level)


def expected_half_width(
    n: int, n_other: int, *, moments: PlacementMoments, log_inverse_level: float
) -> float:
    """Return the half-width if placements are as expected: the quantiles of a beta distribution.

    Parameters
    ----------
    n, n_other : int
        Records that are bet on, and of the other class.
    moments : PlacementMoments
        From training records, or a guess.
    log_inverse_level : float
        As for :func:`placement_limits`.
    """
    from scipy.stats import beta as beta_distribution

    center = min(max(moments.center, 0.01), 0.99)
    variance = min(max(moments.variance, 1e-4), 0.99 * center * (1.0 - center))
    size = center * (1.0 - center) / variance - 1.0
    quantiles = (np.arange(n) + 0.5) / n
    values = beta_distribution.ppf(quantiles, center * size, (1.0 - center) * size)
    values = np.random.default_rng(0).permutation(np.clip(values, 0.0, 1.0))
    lower, upper = placement_limits(
        values, n_other, moments=moments, log_inverse_level=log_inverse_level
    )
    return 0.5 * (upper - lower)


def _lower_limit(values, n_other, center, variance, level):
    """Return the last AUC of a grid before the first that is not rejected; 0 without one."""
    pair_variance = center * (1.0 - center)
    total_variance = variance / len(values) + pair_variance / n_other
    aucs = _auc_grid(center, math.sqrt(total_variance))
    # How far a may lie above a rejected AUC if the deviations of both sums share the distance.
    half_width = _TILT * math.sqrt(2.0 * level * total_variance)
    other_variance = aucs * (1.0 - aucs) / n_other
    part = other_variance / (other_variance + variance / len(values))
    means = np.minimum(aucs + part * half_width, 0.5 * (1.0 + aucs))
    tilts = np.log(means * (1.0 - aucs) / (aucs * (1.0 - means)))
    log_moments = n_other * np.log1p(aucs * np.expm1(tilts))
    position, points, nats = _means_to_reject(means, tilts, log_moments, n_other, level)
    remaining = _not_rejected(values, points, nats, variance)
    is_rejected = np.ones(len(aucs), bool)
    is_rejected[position[remaining]] = False
    n_rejected = int(np.argmin(np.append(is_rejected, False)))
    return float(aucs[n_rejected - 1]) if n_rejected else 0.0


def _auc_grid(center, deviation):
    """Return the AUCs that are tried, ascending inside (0, 1)."""
    even_distances = deviation * np.arange(0.0, _NEAR, _STEP)
    n_steps = max(0.0, math.log(1.0 / even_distances[-1]) / math.log(_GROWTH))
    growing_distances = even_distances[-1] * _GROWTH ** np.arange(1.0, n_steps + 1.0)
    distances = np.concatenate([even_distances, growing_distances])
    points = np.concatenate([center - distances[:0:-1], center + distances])
    return points[(points > 1e-6) & (points < 1.0 - 1e-6)]


def _means_to_reject(means, tilts, log_moments, n_other, level):
    """Return the grid of means of each AUC: its position, points and the nats that bets must win.

    A point needs what N leaves at the point before it. The last one is 1, which no bet rejects: it
    needs nothing if N rejects at the point before.
    """
    positions = []
    points = []
    nats = []
    log_weights = math.log1p(-_CONSTANT_WEIGHT), math.log(_CONSTANT_WEIGHT)
    for position, (mean, tilt, log_moment) in enumerate(
        zip(means, tilts, log_moments, strict=True)
    ):
        rate = tilt * n_other
        steps = _INNER_STEP / rate * _INNER_GROWTH ** np.arange(_N_INNER_STEPS)
        distances = np.cumsum(steps)
        last = min(1.0, (level - log_weights[0] + log_moment) / rate)  # N alone rejects above it
        grid = np.concatenate([mean - distances, [mean], mean + distances, [0.0, last]])
        grid = np.unique(grid[(grid >= 0.0) & (grid <= last)])
        log_wealth = np.logaddexp(log_weights[0] + rate * grid[:-1] - log_moment, log_weights[1])
        positions.append(np.full(len(grid) - 1, position))
        points.append(grid[1:])
        nats.append(level - log_wealth)
        if last >= 1.0:  # no bet rejects a mean of 1
            nats[-1][-1] = math.inf
    return np.concatenate(positions), np.concatenate(points), np.concatenate(nats)


def _not_rejected(values, points, nats, variance):
    """Return the positions of the points that bets on the values do not reject (theory G28)."""
    remaining = np.arange(len(points))
    squares = np.full(len(points), PRIOR_UNITS * variance)
    max_stakes = MAX_STAKE / points
    for number, value in enumerate(values):
        deviations = value - points
        variance_to_come = squares / (PRIOR_UNITS + number) * (len(values) - number)
        best_stakes = CAUTION * np.sqrt(2.0 * np.maximum(nats, 0.0) / variance_to_come)
        stakes = np.minimum(best_stakes, max_stakes)
        # Rejected points have 0 nats left and stake nothing more.
        nats = np.where(nats > 0.0, nats - np.log1p(stakes * deviations), 0.0)
        squares = squares + deviations**2
        if number % _BLOCK == _BLOCK - 1:
            is_left = nats > 0.0
            remaining = remaining[is_left]
            points = points[is_left]
            nats = nats[is_left]
            squares = squares[is_left]
            max_stakes = max_stakes[is_left]
    return remaining[nats > 0.0]
