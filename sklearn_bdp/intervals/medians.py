r"""Limits of the median of a fixed model's errors, from the errors of a holdout (theory G28).

A jackknife does not estimate the variance of a median. The share of errors up to the true median is
1/2: an error is a limit if the share of errors up to it differs from 1/2 by no more than chance
allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.jackknife import ApproximateRow, public_refusal

_NO_LIMITS = "So few {} have no interval of a median at this level."


def median_limits(
    errors: Array, weights: Array, units: Array, alpha: float
) -> tuple[float, float] | None:
    r"""Return limits of the median error of new records.

    Parameters
    ----------
    errors : ndarray of shape (n_records,)
        Absolute errors.
    weights : ndarray of shape (n_records,)
        Positive weights of records.
    units : ndarray of int, shape (n_records,)
        Sampling unit of each record.
    alpha : float
        Failure probability of both limits together.

    Returns
    -------
    tuple of float or None
        For independent records of equal weight the order statistics of a sign test, which hold for
        any distribution. Otherwise all errors :math:`a` at which the sums of units, :math:`\sum_i
        w_i (1[e_i \le a] - \tfrac12)`, pass a Student test of mean 0. None if there are too few
        units for limits at this failure probability.
    """
    order = np.argsort(errors, kind="stable")
    errors, weights = errors[order], weights[order]
    _, units = np.unique(units[order], return_inverse=True)
    n_units = int(units.max()) + 1
    if n_units == errors.size and np.ptp(weights) == 0.0:
        # P[Bin(n, 1/2) < n_below] < alpha / 2: the order statistics with this rank from both ends.
        n_below = int(binom.ppf(0.5 * alpha, n_units, 0.5))
        return (errors[n_below - 1], errors[n_units - n_below]) if n_below >= 1 else None
    total, squares = _sums_up_to_each_error(errors, weights, units, n_units)
    variance = np.maximum(squares - total**2 / n_units, 0.0) * n_units / (n_units - 1.0)
    half_width = student.isf(0.5 * alpha, n_units - 1.0) * np.sqrt(variance)
    # A median has at least half of all errors up to it, and at most half of them below it.
    may_be_below = np.flatnonzero(total <= half_width)
    may_be_above = np.flatnonzero(total >= -half_width)
    if may_be_above[0] == 0 or may_be_below[-1] == total.size - 1:
        return None
    distinct_errors = np.unique(errors)
    return distinct_errors[may_be_above[0] - 1], distinct_errors[may_be_below[-1]]


def _sums_up_to_each_error(errors, weights, units, n_units):
    """Return sums over units, and sums of squares, before the first error and up to each.

    Errors are in ascending order. A unit's sum is that of its weights times the excess of "up to
    this error" over 1/2. Equal errors are counted together.
    """
    unit_starts = -0.5 * np.bincount(units, weights)
    by_unit = np.argsort(units, kind="stable")
    weights_so_far = np.cumsum(weights[by_unit]) - weights[by_unit]
    first_of_unit = np.searchsorted(units[by_unit], np.arange(n_units))
    unit_sum_before = np.empty(errors.size)
    unit_sum_before[by_unit] = (
        unit_starts[units[by_unit]] + weights_so_far - weights_so_far[first_of_unit][units[by_unit]]
    )
    # Each error changes the sum of one unit.
    total = unit_starts.sum() + np.cumsum(weights)
    squares = np.sum(unit_starts**2) + np.cumsum(weights * (2.0 * unit_sum_before + weights))
    is_last = np.append(errors[1:] > errors[:-1], True)
    return (
        np.append(unit_starts.sum(), total[is_last]),
        np.append(np.sum(unit_starts**2), squares[is_last]),
    )


def median_error_row(
    value: float,
    sides: Sequence[tuple[Array, Array]],
    units: Array,
    alpha: float,
    *,
    unit_name: str,
) -> ApproximateRow:
    """Return minus the median error, or the difference of two of them, with an interval.

    Parameters
    ----------
    value : float
        Minus the median error, or the difference of two of them.
    sides : sequence of one or two (errors, weights)
        Absolute errors and weights of records; a weight of 0 is outside of the subgroup. The row of
        two sides is the first minus the second, whose limits each get half of ``alpha``.
    units : ndarray of int, shape (n_records,)
        Sampling unit of each record.
    alpha : float
        Failure probability of both ends together.
    unit_name : str
        Name of the units in notes, in the plural.

    Returns
    -------
    ApproximateRow
        Value, ends and notes.
    """
    ends = []
    inside = np.zeros(units.size, dtype=bool)
    reason = ""
    for errors, weights in sides:
        kept = weights > 0.0
        inside |= kept
        refusal = public_refusal(np.unique(units[kept]).size)
        limits = None
        if not refusal:
            limits = median_limits(errors[kept], weights[kept], units[kept], alpha / len(sides))
        if limits is None:
            reason = reason or refusal or _NO_LIMITS.format(unit_name)
        else:
            ends.append((-limits[1], -limits[0]))
    n_units = np.unique(units[inside]).size
    if reason:
        return ApproximateRow(value, math.nan, math.nan, n_units, (reason,))
    lower, upper = ends[0]
    if len(sides) == 2:
        lower -= ends[1][1]
        upper -= ends[1][0]
    return ApproximateRow(value, lower, upper, n_units, ())
