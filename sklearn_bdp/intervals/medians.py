r"""Limits of the median error of a fixed model, from its errors on a holdout (theory G28).

A jackknife does not estimate the variance of a median. The proportion of errors up to the true
median is 1/2. The limits enclose all errors for which the observed proportion of errors up to them
differs from 1/2 by no more than chance allows.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.jackknife import ApproximateRow, public_refusal

#: Largest stake of a bet on units, times the largest possible absolute sum of a unit.
_LARGEST_STAKE = 0.995
_MAX_NEWTON_STEPS = 50
_NO_LIMITS = "So few {} have no interval of a median at this level."


def median_limits(
    errors: Array, weights: Array, unit_codes: Array, alpha: float
) -> tuple[float, float] | None:
    r"""Return limits of the median error of new records.

    Parameters
    ----------
    errors : ndarray of shape (n_records,)
        Absolute errors.
    weights : ndarray of shape (n_records,)
        Positive weights of records.
    unit_codes : ndarray of int, shape (n_records,)
        Sampling unit of each record.
    alpha : float
        Failure probability of both limits together.

    Returns
    -------
    tuple of float or None
        Lower and upper limit, or None if there are too few units for this ``alpha``. For
        independent records of equal weight, the limits are the order statistics of a sign test,
        which are valid for any distribution. Otherwise they enclose all errors :math:`a` at which
        no bet on the sums of units, :math:`\sum_i w_i (1[e_i \le a] - \tfrac12)`, wins more than
        :math:`t^2 / 2` nats, with the quantile :math:`t` of Student's distribution.

    Notes
    -----
    The largest log wealth is an empirical likelihood ratio of distributions on the range that the
    largest unit allows.
    """
    order = np.argsort(errors, kind="stable")
    errors = errors[order]
    weights = weights[order]
    _, unit_codes = np.unique(unit_codes[order], return_inverse=True)
    n_units = int(unit_codes.max()) + 1
    if n_units == errors.size and np.ptp(weights) == 0.0:
        # P[Bin(n, 1/2) < rank] < alpha / 2: the order statistics with this rank from both ends.
        rank = int(binom.ppf(0.5 * alpha, n_units, 0.5))
        return (errors[rank - 1], errors[n_units - rank]) if rank >= 1 else None
    max_log_wealth = 0.5 * student.isf(0.5 * alpha, n_units - 1.0) ** 2
    unit_weights = np.bincount(unit_codes, weights)
    bound = 0.5 * float(unit_weights.max())
    if log_wealth(0.5 * unit_weights, bound) <= max_log_wealth:
        return None
    distinct_errors, error_ranks = np.unique(errors, return_inverse=True)

    def may_reach_median(rank):
        """Return whether at least half of new errors may lie up to the error of this rank."""
        sums = np.bincount(unit_codes, weights * (0.5 - (error_ranks <= rank)))
        return log_wealth(sums, bound) <= max_log_wealth

    def is_too_large(rank):
        """Return whether clearly more than half of new errors lie below the error of this rank."""
        sums = np.bincount(unit_codes, weights * ((error_ranks < rank) - 0.5))
        return log_wealth(sums, bound) > max_log_wealth

    # Sums of units are monotone in the error, and so is the wealth of each stake.
    ranks = range(distinct_errors.size)
    lower_rank = bisect.bisect_left(ranks, True, key=may_reach_median)
    upper_rank = bisect.bisect_left(ranks, True, key=is_too_large) - 1
    return distinct_errors[lower_rank], distinct_errors[upper_rank]


def log_wealth(sums: Array, bound: float) -> float:
    r"""Return the largest log wealth of bets that sums of units have a positive expectation.

    Parameters
    ----------
    sums : ndarray of shape (n_units,)
        Sums of independent units.
    bound : float
        Largest absolute value that the sum of a unit can have.

    Returns
    -------
    float
        :math:`\max_\lambda \sum_g \ln(1 + \lambda S_g)` over stakes from 0 to ``0.995 / bound``, in
        nats: 0 if the mean of the sums is not positive.
    """
    largest_stake = _LARGEST_STAKE / bound
    if float(np.sum(sums / (1.0 + largest_stake * sums))) >= 0.0:
        return float(np.log1p(largest_stake * sums).sum())
    if float(sums.sum()) <= 0.0:
        return 0.0
    stake = 0.0
    low_stake, high_stake = 0.0, largest_stake
    for _ in range(_MAX_NEWTON_STEPS):  # the log wealth is concave in the stake
        slope_terms = sums / (1.0 + stake * sums)
        slope = float(slope_terms.sum())
        low_stake, high_stake = (stake, high_stake) if slope > 0.0 else (low_stake, stake)
        newton_stake = stake + slope / float(slope_terms @ slope_terms)
        next_stake = (
            newton_stake
            if low_stake < newton_stake < high_stake
            else 0.5 * (low_stake + high_stake)
        )
        has_converged = abs(next_stake - stake) <= 1e-7 * largest_stake
        stake = next_stake
        if has_converged:
            break
    return float(np.log1p(stake * sums).sum())


def median_error_row(
    value: float,
    sides: Sequence[tuple[Array, Array]],
    unit_codes: Array,
    alpha: float,
    *,
    unit_name: str,
) -> ApproximateRow:
    """Return the row of minus the median error, or of a difference of two, with its interval.

    Parameters
    ----------
    value : float
        Minus the median error, or the difference of two of them.
    sides : sequence of one or two (errors, weights)
        Absolute errors and weights of records. Records outside the subgroup have the weight 0. The
        row of two sides is the first minus the second. Its ends come from the limits of both
        sides, each with the failure probability ``alpha / 2``.
    unit_codes : ndarray of int, shape (n_records,)
        Sampling unit of each record.
    alpha : float
        Failure probability of both ends together.
    unit_name : str
        Name of the units in notes, in the plural.

    Returns
    -------
    ApproximateRow
        The value, ends and notes. If a side has too few units, ends are NaN and a note states it.
    """
    ends = []
    is_counted_on_a_side = np.zeros(unit_codes.size, dtype=bool)
    reason = ""
    for errors, weights in sides:
        is_counted = weights > 0.0
        is_counted_on_a_side |= is_counted
        units_reason = public_refusal(np.unique(unit_codes[is_counted]).size)
        limits = None
        if not units_reason:
            limits = median_limits(
                errors[is_counted], weights[is_counted], unit_codes[is_counted], alpha / len(sides)
            )
        if limits is None:
            reason = reason or units_reason or _NO_LIMITS.format(unit_name)
        else:
            ends.append((-limits[1], -limits[0]))
    n_units = np.unique(unit_codes[is_counted_on_a_side]).size
    if reason:
        return ApproximateRow(value, math.nan, math.nan, n_units, (reason,))
    lower, upper = ends[0]
    if len(sides) == 2:
        lower -= ends[1][1]
        upper -= ends[1][0]
    return ApproximateRow(value, lower, upper, n_units, ())
