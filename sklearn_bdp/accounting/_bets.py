r"""Limits of means and shares, proven by bets on units in a secret order, for a final report.

Nothing is asked after a report, so a limit may read every unit of the holdout, one after the
other, as bets against a mean that is too large do. Theory G28, after Voráček and Orabona 2025
(arXiv:2505.22422). Units (records, patients, regions) are pairs ``(S_g, k_g)`` with
``0 <= S_g <= k_g <= bound``; the target is ``E S / E k``: the mean of a score (``k = 1`` or the
records of a patient), a share inside a class or a subgroup (``k`` counts the records inside and
may be 0), F1 (``S`` twice the true positives, ``k`` called plus positive).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta as beta_distribution

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_array, check_integer, check_real

_PRIOR = 20.0  # units that the variance of the training side counts for
_MOST = 0.9  # largest part of the wealth that is staked
_STEP, _NEAR, _GROWTH = 0.05, 8.0, 1.03  # grid: in deviations of the mean, up to, then times
_BLOCK = 32  # units whose bets are prepared in one go; rejected points drop out between blocks


class UnitMoments(NamedTuple):
    """What bets know in advance: moments of *training* units, scored out of fold."""

    center: float  # sum of S over sum of k, drawn toward 1/2
    variance: float  # mean of (S - center * k)^2
    mean_count: float  # mean of k


def unit_moments(sums: ArrayLike, counts: ArrayLike) -> UnitMoments:
    """Return the moments of training units; any numbers are valid, right ones give sharp limits.

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g`` of training units, in the scale of the row, from models that did not
        see them (cross-validation).

    Raises
    ------
    ValueError
        If every count is 0: nothing is known of the row.
    """
    sums, counts = check_array("sums", sums, low=0.0), check_array("counts", counts, low=0.0)
    total = float(counts.sum())
    if not total > 0.0:
        raise ValueError(f"counts must not all be 0, got {counts.size} units of count 0.")
    center = (float(sums.sum()) + 0.5) / (total + 1.0)
    mean_count = total / counts.size
    least = 0.01 * center * (1.0 - center) * mean_count
    return UnitMoments(
        center, max(least, float(np.mean((sums - center * counts) ** 2))), mean_count
    )


def star_limits(
    sums: ArrayLike,
    counts: ArrayLike,
    *,
    bound: float,
    moments: UnitMoments,
    log_inverse_level: float,
) -> tuple[float, float]:
    r"""Return limits for ``E S / E k`` of units that are independent and identically distributed.

    Each of the two limits fails with probability at most ``exp(-log_inverse_level)``: pass
    :math:`L = \ln(2/\alpha)` for a two-sided interval (theory G28, STaR bets).

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g``, in a secret order that does not depend on their values, drawn once and
        never redrawn. Units with ``k_g = 0`` belong in it. Their number is fixed by design.
    bound : float
        Largest possible ``k_g``, fixed before the split: never the holdout's own maximum.
    moments : UnitMoments
        From training units, by :func:`unit_moments`.
    log_inverse_level : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    lower, upper : float
        In [0, 1]. For paired differences ``d`` in ``[-r, r]`` let ``S`` be the sum of
        ``(1 + d/r)/2``; the limits are ``r (2 mu - 1)``.
    """
    totals, units = _units(sums, counts, bound)
    level = check_real("log_inverse_level", log_inverse_level, low=0.0, closed="neither")
    center, variance, mean_count = moments
    deviation = math.sqrt(variance / len(totals)) / mean_count
    grids = [_grid(one, deviation) for one in (center, 1.0 - center)]
    # Points are tried upwards, and none above the first that stands is needed: hardly ever one
    # beyond a deviation below the center.
    parts = [np.split(one, [np.searchsorted(one, one_center - deviation)])
             for one, one_center in zip(grids, (center, 1.0 - center), strict=True)]  # fmt: skip
    first = _first_standing(totals, units, [low for low, _ in parts], bound, variance, level)
    rest = [
        high if at == len(low) else high[:0] for at, (low, high) in zip(first, parts, strict=True)
    ]
    if any(map(len, rest)):
        more = _first_standing(totals, units, rest, bound, variance, level)
        first = [at + further for at, further in zip(first, more, strict=True)]
    # The last point before the first that is not rejected; a limit above the mean needs the first
    # point from the mean on rejected, whose wealth is a supermartingale (Ville). Never bisect.
    lower, turned = (
        float(grid[at - 1]) if at else 0.0 for grid, at in zip(grids, first, strict=True)
    )
    return lower, 1.0 - turned


def _units(sums, counts, bound):
    """Return checked arrays of one shape."""
    sums = check_array("sums", sums, low=0.0)
    counts = np.broadcast_to(check_array("counts", counts, low=0.0, high=bound), sums.shape)
    if not (sums.ndim == 1 and sums.size and np.all(sums <= counts * (1.0 + 1e-12))):
        raise ValueError("sums must be one-dimensional, not empty, and at most counts.")
    return np.minimum(sums, counts), counts


def _grid(center, deviation):
    """Return the points that are tried, ascending inside (0, 1)."""
    near = deviation * np.arange(0.0, _NEAR + _STEP / 2.0, _STEP)
    steps = max(0.0, math.log(1.0 / near[-1]) / math.log(_GROWTH))
    far = near[-1] * _GROWTH ** np.arange(1.0, steps + 1.0)
    apart = np.concatenate([near, far])
    points = np.concatenate([center - apart[:0:-1], center + apart])
    return points[(points > 0.0) & (points < 1.0)]


def _first_standing(sums, counts, points, bound, variance, level):
    """Return for both sides the position of the first point that no bet rejects, or their number.

    Upper limits bet on ``k - S`` at one minus the mean.
    """
    side = np.repeat([0, 1], [len(one) for one in points])
    place, mean = np.concatenate([np.arange(len(one)) for one in points]), np.concatenate(points)
    scores = np.column_stack([sums, counts - sums])
    left, squares = np.full(mean.size, level), np.full(mean.size, _PRIOR * variance)
    for start in range(0, len(sums), _BLOCK):
        block = slice(start, start + _BLOCK)
        off = scores[block][:, side] - mean * counts[block, None]
        before = np.cumsum(np.vstack([squares, off**2]), axis=0)
        squares = before[-1]
        # V_t = (20 v + sum of the squares so far) / (19 + t), for G - t + 1 units still to come.
        number = np.arange(start + 1.0, start + 1.0 + len(off))[:, None]
        scale = np.sqrt(2.0 * (_PRIOR - 1.0 + number) / (before[:-1] * (len(sums) - number + 1.0)))
        most, stake, none = _MOST / (mean * bound), np.empty(mean.size), np.zeros(mean.size)
        for row, size in zip(off, scale, strict=True):
            np.sqrt(left, out=stake)
            np.multiply(stake, size, out=stake)
            np.minimum(stake, most, out=stake)
            np.multiply(stake, row, out=stake)
            np.add(stake, 1.0, out=stake)
            np.log(stake, out=stake)
            np.subtract(left, stake, out=left)
            np.maximum(left, none, out=left)  # rejected: nothing is staked any more
        standing = left > 0.0
        side, place, mean = side[standing], place[standing], mean[standing]
        left, squares = left[standing], squares[standing]
    return [int(place[side == one].min(initial=len(points[one]))) for one in (0, 1)]


def order_free_limits(
    sums: ArrayLike,
    counts: ArrayLike,
    *,
    bound: float,
    moments: UnitMoments,
    log_inverse_level: float,
) -> tuple[float, float]:
    r"""Return limits for ``sum E S_g / sum E k_g`` of independent units that need not be alike.

    For stratified holdouts, holdouts given the rest, regimes that are seen. Parameters as in
    :func:`star_limits`; the order says nothing. A mean ``m`` is rejected where

    .. math:: \sum_g \ln\Bigl(1 + \lambda\frac{S_g - m k_g}{m K}\Bigr) \ge L,

    with :math:`\lambda` in (0, 1) fixed by ``moments``. For equal counts this is the limit
    :math:`c + (c/\lambda)(\exp\{\overline{\ln(1 + \lambda(\varphi - c)/c)} - L/n\} - 1)` at a
    center ``c`` of its own value; theory G28 (order-free form of G15 and G18).
    """
    totals, units = _units(sums, counts, bound)
    level = check_real("log_inverse_level", log_inverse_level, low=0.0, closed="neither")
    centers, scores = (moments.center, 1.0 - moments.center), (totals, units - totals)
    ends = []
    for center, score in zip(centers, scores, strict=True):
        # The stake that grows fastest if everything is as on the training side, at the limit
        # that a normal approximation predicts.
        half = math.sqrt(2.0 * level * moments.variance / len(totals)) / moments.mean_count
        least = center**2 / (center + half)
        gain = (center - least) * moments.mean_count
        rate = min(0.95, gain * least * bound / (gain**2 + moments.variance))

        def rejected(mean, score=score, rate=rate):
            off = (score - mean[:, None] * units) / (mean[:, None] * bound)
            return np.log1p(rate * off).sum(axis=1) >= level

        ends.append(float(last_accepted(rejected, np.array([1e-300]), np.array([1.0]))[0]))
    return ends[0] if ends[0] > 1e-299 else 0.0, 1.0 - ends[1]


def share_limits(hits: int, count: int, level: float, *, alike: bool = True) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a share of independent records (theory G8).

    Together they fail with probability at most ``level``. Where records are not ``alike`` (means
    differ: stratified, given the rest), one hit needs ``level / (2 count)`` as its lower limit,
    one miss the same, and ``level`` must be at most 1/2 (Hoeffding 1956).
    """
    hits, count = check_integer("hits", hits, low=0), check_integer("count", count, low=0)
    level = check_real("level", level, low=0.0, high=0.5, closed="right")
    side = 0.5 * level
    ends = []
    for found in (hits, count - hits):
        if not found:
            ends.append(0.0)
        elif found == 1 and not alike:
            ends.append(side / count)
        else:
            ends.append(float(beta_distribution.ppf(side, found, count - found + 1)))
    return ends[0], 1.0 - ends[1]
