"""Approximate intervals of any statistic, for a report after which nothing is asked (theory G28).

The level they are made at is exact, the intervals are not: a delete-one jackknife over units
(records, groups, blocks of time) on the scale of the statistic, with degrees of freedom that know
how few units carry it (J*). How statistics are left out, and down to which level each is trusted,
stands in :data:`STATISTICS`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

from sklearn_bdp._typing import Array
from sklearn_bdp.accounting._left_out import GENERIC, Statistic
from sklearn_bdp.correlation import slow_autocorrelation_time

# G22: logit for metrics in [0, 1], log for losses, -log(1 - R²); each with its inverse.
_SCALES: dict[str, tuple[Callable, Callable]] = {
    "unit": (logit, expit),
    "signed": (np.arctanh, np.tanh),
    "loss": (np.log, np.exp),
    "explained": (lambda r: -np.log1p(-r), lambda s: -np.expm1(-s)),
    "raw": (lambda x: x, lambda x: x),
}
# What units must show, and below which counts a reader is warned (G22, G28, simulation).
_LEAST_UNITS, _FEW_UNITS, _LEAST_CELL = 20, 30, 5
_BLOCKS = ((400.0, 10), (200.0, 6))  # autocorrelation times that so many blocks of time need
_BLOCK_LEVEL, _MANY_UNITS = 0.005, 150  # levels below need so many units, and no blocks

_REMEMBERED = (
    "The scores seem to have long memory, which would make it too narrow. "
    "Intervals given the past (correlation='time') need no such assumption."
)
_ROUNDING = 1e-24  # of a value, squared: less is no spread


class ApproximateRow(NamedTuple):
    """One approximate row; ``lower`` and ``upper`` are NaN where it is refused."""

    value: float
    lower: float
    upper: float
    n_units: int  # that have a record in it
    notes: tuple[str, ...]  # why it is refused, or what makes it less trustworthy


def approximate_row(
    statistic: Statistic,
    y: Array,
    sides: Sequence[tuple[Any, Array | None]],
    *,
    units: Array,
    level: float,
    per_record: bool = False,
    times: float | None = None,
) -> ApproximateRow:
    """Return a statistic, a difference of two models or a gap of two subgroups, with an interval.

    What cannot be computed is refused in the row: after closing nothing may raise.

    Parameters
    ----------
    statistic : Statistic
        One of :data:`STATISTICS`, or :data:`GENERIC`.
    y : ndarray of shape (n,)
        Targets; classes as codes ``0, 1, ...``, of two the one with the event as 1.
    sides : sequence of one or two (said, inside)
        What the model says (``statistic.response``), and which records are in the subgroup
        (``None``: all). The row of two sides is the first minus the second.
    units : ndarray of shape (n,)
        Unit of each record, ``0, 1, ...``, numbered in a secret order; in time the dates in
        order.
    level : float
        Failure probability of both ends together.
    per_record : bool, default=False
        Whether the target is a random record; by default a random record of a random unit.
    times : float, optional
        In time: how many autocorrelation times the dates are. NaN: read off the scores, by their
        slow swings.
    """
    units, paired = np.asarray(units), len(sides) == 2
    n_units = int(units.max()) + 1
    share = np.ones(len(units)) if per_record else 1.0 / np.bincount(units)[units]
    inside = [np.ones(len(units), bool) if mask is None else mask for _, mask in sides]
    shown, same = _count(units, np.logical_or.reduce(inside)), np.array_equal(inside[0], inside[-1])
    # Differences of thresholded predictions rest on the units that disagree.
    discordant = paired and same and statistic.response == "labels"

    def row(value=math.nan, ends=(math.nan, math.nan), notes=()):
        value, ends = (-value, (-ends[1], -ends[0])) if statistic.negative else (value, ends)
        return ApproximateRow(float(value), *map(float, ends), shown, tuple(notes))

    def without(blocks, count):
        return [
            statistic.left_out(y, said, share * mask, blocks, count)
            for (said, _), mask in zip(sides, inside, strict=True)
        ]

    blocks, n_blocks, reason, series, rarest = units, n_units, None, np.zeros(0), None
    if times is not None:
        with contextlib.suppress(Exception):  # refused below
            if statistic is not GENERIC:
                each = [left_out for _, left_out in without(units, n_units)]
                series = each[0] - each[1] if paired else each[0]
        n_blocks, reason = _blocks_in_time(n_units, times, series)
        blocks = units * n_blocks // n_units
    try:
        found = without(blocks, n_blocks)
        if statistic.cells is not None and discordant:
            rarest = _count(units, inside[0] & (sides[0][0] != sides[1][0]))
        elif statistic.cells is not None:
            rarest = min(
                _count(units, mask & cell)
                for (said, _), mask in zip(sides, inside, strict=True)
                for cell in statistic.cells(y, said)
            )
    except Exception:  # the words of the error could be about records
        return row(notes=["It could not be computed."])
    value = found[0][0] - found[1][0] if paired else found[0][0]
    with np.errstate(all="ignore"):
        at_end = not np.isfinite(_SCALES[statistic.scale][0](np.array([v for v, _ in found]))).all()
    if shown < _LEAST_UNITS:
        reason = f"{shown} units are too few for an interval. At least 20 are needed."
    elif rarest is not None and rarest < _LEAST_CELL:
        reason = f"Only {rarest} units have the rarer outcome. An interval needs at least 5."
    elif at_end:
        reason = "The score is at an end of its range, which has no approximate interval."
    if reason:
        return row(value, notes=[reason])
    # G28: units of the rarer class bound the degrees of freedom.
    events: list[Any] = [n_units, n_units]
    if statistic.cells is not None and not discordant:
        events = [
            min(_count(units, mask & (y == c)) for c in np.unique(y[mask])) for mask in inside
        ]
    apart = not same and not np.intersect1d(units[inside[0]], units[inside[1]]).size
    lower, upper, notes = _interval(statistic, value, found, events, level, apart=apart)
    if not lower <= upper:
        return row(value, notes=["The units show no spread. There is no approximate interval."])
    notes += _warned(statistic, shown, rarest, level, paired, times)
    if len(series) and long_memory(series):
        notes.append(_REMEMBERED)
    return row(value, (lower, upper), notes)


def _count(units, chosen):
    return int(np.count_nonzero(np.bincount(units[chosen])))


def _blocks_in_time(n_units, times, series):
    """Return how many blocks of time are left out, and why there is no interval, or None."""
    if math.isnan(times):
        known = len(series) >= 16 and np.all(np.isfinite(series))
        times = n_units / slow_autocorrelation_time(series) if known else 0.0
    for least, count in _BLOCKS:
        if times >= least:
            return count, None
    return 2, f"{times:.0f} autocorrelation times are too few. 200 are needed."


def _interval(statistic, value, found, events, level, *, apart):
    """Return both ends of a row or a difference, and what makes them less trustworthy."""
    paired = len(found) == 2
    if apart and statistic.scale == "unit" and statistic.response in ("scores", "all_chances"):
        (low, high), (least, most) = (
            jackknife_interval(whole, rest, level, scale="unit", events=few)
            for (whole, rest), few in zip(found, events, strict=True)
        )
        lower = value - math.hypot(found[0][0] - low, most - found[1][0])  # MOVER
        return lower, value + math.hypot(high - found[0][0], found[1][0] - least), []
    left_out = found[0][1] - found[1][1] if paired else found[0][1]
    scale, skewed = "raw" if paired else statistic.scale, statistic.skewed[paired]
    ends = jackknife_interval(
        value, left_out, level, scale=scale, events=min(events), skewed=skewed
    )
    off = left_out - left_out.mean()
    third = abs(float(np.sum(off**3))) / max(float(np.sum(off**2)) ** 1.5, 1e-300)
    few = scale == "raw" and third * norm.isf(0.5 * level) ** 3 / 3.0 > 1.0
    return *ends, ["A few units dominate this row."] if few else []


def _warned(statistic, shown, rarest, level, paired, times):
    """Yield what makes an interval less trustworthy, in sentences."""
    if shown < _FEW_UNITS:
        yield f"There are only {shown} units."
    if rarest is not None and rarest < statistic.few:
        yield f"Only {rarest} units have the rarer outcome."
    if statistic.heavy:
        yield "Rare large errors, which no sample shows, would make it too narrow."
    if statistic is GENERIC:
        yield "This metric was not studied. Units were left out in blocks of a secret order."
    trust = statistic.trust[paired]
    if times is not None or shown < _MANY_UNITS:
        trust = max(trust, _BLOCK_LEVEL)
    if level < trust:
        yield f"Its level, {level:.2g}, is below {trust:g}, down to which this method was checked."


def long_memory(series: Array) -> bool:
    r"""Return whether a series seems to have long memory: local Whittle, ``m = sqrt(T)`` (G28)."""
    count = math.isqrt(len(series))
    frequencies = 2.0 * math.pi * np.arange(1, count + 1) / len(series)
    power = np.abs(np.fft.rfft(series - np.mean(series))[1 : count + 1]) ** 2
    if not np.all(np.isfinite(power)) or not power.sum() > 0.0:
        return False

    def contrast(d):
        return math.log(np.mean(frequencies ** (2.0 * d) * power)) - 2.0 * d * np.mean(
            np.log(frequencies)
        )

    return bool(minimize_scalar(contrast, bounds=(-0.5, 1.0), method="bounded").x > count**-0.5)


def jackknife_interval(
    value: float,
    left_out: Array,
    level: float,
    *,
    scale: str,
    events: int | None = None,
    skewed: bool = False,
) -> tuple[float, float]:
    r"""Return the ends of an approximate interval that fails with probability ``level``.

    Parameters
    ----------
    value : float
        The statistic of all units.
    left_out : ndarray of shape (G,)
        The statistic without each unit.
    level : float
        Failure probability of both sides together.
    scale : {"unit", "signed", "loss", "explained", "raw"}
        Where its distribution is nearest to a normal one.
    events : int, optional
        Units of the rarer class: they bound the degrees of freedom.
    skewed : bool, default=False
        Whether the wider of this and Hall's skewness-corrected interval is meant.

    Returns
    -------
    lower, upper : float
        NaN where units say nothing: no spread, or a value at an end of its range.
    """
    forward, back = _SCALES[scale]
    with np.errstate(all="ignore"):
        center, moved = float(forward(value)), forward(np.asarray(left_out, dtype=float))
        off = moved - moved.mean()
        total = float(np.sum(off**2))
    count = off.size
    if not (math.isfinite(center) and np.isfinite(off).all() and total > _ROUNDING * center**2):
        return math.nan, math.nan
    # G22: kurtosis of the contributions says how few of them the variance rests on.
    spread = float(np.sum(off**4)) / total**2 - 1.0 / count
    freedom = min(count - 1.0, 2.0 / max(spread, 1e-12))
    freedom = max(1.0, freedom if events is None else min(freedom, events - 1.0))
    half = student.isf(level / 2.0, freedom) * math.sqrt((count - 1.0) / count * total)
    lower, upper = float(back(center - half)), float(back(center + half))
    if not skewed:
        return lower, upper
    ends = _hall(value, np.asarray(left_out, dtype=float), level, freedom)
    return min(lower, ends[0]), max(upper, ends[1])


def _hall(value, left_out, level, freedom):
    """Return Hall's interval: his cubic transformation takes the skewness off (Hall 1992)."""
    pull = -(left_out - left_out.mean())
    count = pull.size
    error = math.sqrt((count - 1.0) / count * float(np.sum(pull**2)))
    skew = float(np.mean(pull**3)) / float(np.mean(pull**2)) ** 1.5 / math.sqrt(count)
    ends = []
    for quantile in student.isf([level / 2.0, 1.0 - level / 2.0], freedom):
        inner = 1.0 + skew * (quantile - skew / 6.0)
        turned = 3.0 * (np.cbrt(inner) - 1.0) / skew if abs(skew) > 1e-9 else quantile
        ends.append(value - error * float(turned))
    return min(ends), max(ends)
