r"""Approximate intervals of any statistic, for a report after which nothing is asked (theory G28).

The level they are made at is exact, the intervals are not: a delete-one jackknife over units
(records, groups, blocks of time) on the scale of the statistic, with degrees of freedom that know
how few units carry it (J*). It needs the statistic without each unit, which
:mod:`sklearn_bdp.intervals.left_out` computes. :class:`Statistic` has the levels down to which its
intervals were simulated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.left_out import of_sums, recomputed

Scale = Literal["unit", "signed", "loss", "explained", "raw"]
# Response of a model that a statistic reads: classes, scores or chances of the second class,
# chances of all classes, values, or a function of the positions of records that computes it.
Response = Literal["labels", "scores", "chances", "all_chances", "values", "function"]


class DateFacts(NamedTuple):
    """Differences of a statistic over dates, each given its past (theory G31)."""

    scale: Scale | None = None  # on which it is about normal, if other than for independent units
    trust: float = 0.001  # level down to which its intervals were simulated
    min_events: int = 5  # dates of the rarest cell that an interval needs
    #: Cells, if other than for independent units.
    cells: Callable[[Any, Any], list[tuple[str, Array]]] | None = None
    divides_by_targets: bool = False
    #: Returns ``left_out`` about the mean of the training targets, which earlier dates fix.
    left_out_about: Callable[[float], Any] | None = None


class Statistic(NamedTuple):
    """A statistic computed without each unit, and the tested range of its intervals (theory G28).

    ``left_out(y, predictions, weights, units, n_units)`` returns its value and that without each
    unit (or block of units). ``cells(y, predictions)`` are the sets of records that each need
    some units: pairs of a noun for such a record, with ``{s}`` for its plural, and a mask.
    """

    response: Response
    left_out: Callable[..., tuple[float, Array]]
    scale: Scale
    cells: Callable[[Any, Any], list[tuple[str, Array]]] | None = None
    #: Levels down to which rows and differences are trusted; below them a reader is warned.
    trust: tuple[float, float] = (0.05, 0.05)
    #: Whether rows and differences get the wider of J* and Hall's interval.
    skewed: tuple[bool, bool] = (False, False)
    few: int = 10  # units of the rarest cell below which a reader is warned
    negative: bool = False  # the value is minus the loss
    heavy: bool = False  # rare large errors, which no sample shows, would make it too narrow
    dates: DateFacts = DateFacts()  # if units are dates, each given its past


#: 1 - the ratio of two mean losses, the second to the first; the predictions are both, as rows.
_EXPLAINED_LOSS = of_sums(
    lambda y, predictions: predictions, lambda n, first, second: 1.0 - second / first
)
SKILL = Statistic(
    "values", _EXPLAINED_LOSS, "raw", skewed=(True, False), dates=DateFacts(scale="explained")
)
#: Any function of the positions of records, by leaving out units in at most 200 blocks.
GENERIC = Statistic("function", recomputed, "raw", skewed=(True, True))


# -- Rows -----------------------------------------------------------------------------------------

# G22: logit for metrics in [0, 1], log for losses, -log(1 - R²); each with its inverse.
_SCALES: dict[str, tuple[Callable, Callable]] = {
    "unit": (logit, expit),
    "signed": (np.arctanh, np.tanh),
    "loss": (np.log, np.exp),
    "explained": (lambda r: -np.log1p(-r), lambda s: -np.expm1(-s)),
    "raw": (lambda x: x, lambda x: x),
}
# Fewest units of an interval, and the counts below which a reader is warned (G22, G28,
# simulation).
_LEAST_UNITS, _FEW_UNITS, _LEAST_CELL = 20, 30, 5
_BLOCKS = ((400.0, 10), (200.0, 6))  # autocorrelation times that so many blocks of time need
_BLOCK_LEVEL, _MANY_UNITS = 0.005, 150  # levels below need so many units, and no blocks

_REMEMBERED = (
    "The scores seem to have long memory, which would make it too narrow. "
    "Intervals given the past (correlation='time') need no such assumption."
)
#: Noun of the records that a difference of predicted classes rests on.
DISCORDANT = "record{s} on which the models disagree"
HEAVY_NOTE = "Rare large errors, which no sample shows, would make it too narrow."
_ROUNDING = 1e-24  # of a value, squared: smaller spreads count as 0

_FEW_UNITS_REASON = "{} units are too few for an interval. At least 20 are needed."
_FEW_TIMES_REASON = "{:.0f} autocorrelation times are too few. 200 are needed."
UNDEFINED = "The score is undefined for these records."
_NO_FIT = "The score is undefined for these records: its equations have no solution."


class ApproximateRow(NamedTuple):
    """One approximate row; ``lower`` and ``upper`` are NaN without an interval."""

    value: float
    lower: float
    upper: float
    n_units: int  # that have a record in it
    notes: tuple[str, ...]  # why it is refused, or what makes it less trustworthy


def public_refusal(n_units: int, *, times: float | None = None) -> str:
    """Return why no scores of so many units have an approximate interval; empty if some do.

    Parameters
    ----------
    n_units : int
        Units of all records.
    times : float or None, default=None
        Of a declared chain: how many autocorrelation times the records are.
    """
    if n_units < _LEAST_UNITS:
        return _FEW_UNITS_REASON.format(n_units)
    if times is not None and times < _BLOCKS[-1][0]:
        return _FEW_TIMES_REASON.format(times)
    return ""


def approximate_row(
    statistic, y, sides, *, units, level, per_record=False, times=None, unit_name="records"
):
    """Return a statistic, a difference of two models or a gap of two subgroups, with an interval.

    A row that has no interval gives the reason. Errors of ``predictions``, if it is a function,
    are raised.

    Parameters
    ----------
    statistic : Statistic
        That of a metric, or :data:`GENERIC`.
    y : ndarray of shape (n,)
        Targets; classes as codes ``0, 1, ...``, of two the one with the event as 1.
    sides : sequence of one or two (predictions, inside)
        Predictions of the model (``statistic.response``), and which records are in the subgroup
        (``None``: all). The row of two sides is the first minus the second.
    units : ndarray of shape (n,)
        Unit of each record, ``0, 1, ...``, numbered in a secret order; in time the dates in
        order.
    level : float
        Failure probability of both ends together.
    per_record : bool, default=False
        Whether the target is a random record; by default a random record of a random unit.
    times : float, optional
        Of a declared chain: how many autocorrelation times the records are. Dates that are judged
        given their past have intervals of their own (:mod:`sklearn_bdp.intervals.dates`).
    unit_name : str, default="records"
        Name of the units in notes, in the plural.
    """
    units = np.asarray(units)
    paired = len(sides) == 2
    n_units = int(units.max()) + 1
    share = np.ones(len(units)) if per_record else 1.0 / np.bincount(units)[units]
    inside = [np.ones(len(units), bool) if mask is None else mask for _, mask in sides]
    n_scored_units = _count(units, np.logical_or.reduce(inside))
    is_same_subgroup = np.array_equal(inside[0], inside[-1])
    # Differences of thresholded predictions rest on the units that disagree.
    discordant = paired and is_same_subgroup and statistic.response == "labels"

    def row(value=math.nan, ends=(math.nan, math.nan), notes=()):
        if statistic.negative:
            value, ends = -value, (-ends[1], -ends[0])
        return ApproximateRow(float(value), *map(float, ends), n_scored_units, tuple(notes))

    def estimates_without(blocks, count):
        return [
            statistic.left_out(y, predictions, share * mask, blocks, count)
            for (predictions, _), mask in zip(sides, inside, strict=True)
        ]

    blocks = units
    n_blocks = n_units
    reason = None
    series = np.zeros(0)
    rarest = None
    if times is not None:
        with contextlib.suppress(np.linalg.LinAlgError):  # refused below
            if statistic is not GENERIC:
                left_out = [values for _, values in estimates_without(units, n_units)]
                series = left_out[0] - left_out[1] if paired else left_out[0]
        n_blocks = next((count for min_times, count in _BLOCKS if times >= min_times), 2)
        if n_blocks == 2:
            reason = _FEW_TIMES_REASON.format(times)
        blocks = units * n_blocks // n_units
    try:
        estimates = estimates_without(blocks, n_blocks)
        if statistic.cells is not None and discordant:
            is_discordant = inside[0] & (sides[0][0] != sides[1][0])
            rarest = (_count(units, is_discordant), DISCORDANT)
        elif statistic.cells is not None:
            rarest = min(
                (_count(units, mask & cell), noun)
                for (predictions, _), mask in zip(sides, inside, strict=True)
                for noun, cell in statistic.cells(y, predictions)
            )
    except np.linalg.LinAlgError:
        return row(notes=[_NO_FIT])
    values = np.array([side_value for side_value, _ in estimates])
    value = estimates[0][0] - estimates[1][0] if paired else estimates[0][0]
    with np.errstate(all="ignore"):
        at_end = not np.isfinite(_SCALES[statistic.scale][0](values)).all()
    if n_scored_units < _LEAST_UNITS:
        reason = _FEW_UNITS_REASON.format(n_scored_units)
    elif rarest is not None and rarest[0] < _LEAST_CELL:
        reason = too_few_units(*rarest, unit_name, least=_LEAST_CELL)
    elif np.isnan(values).any():
        reason = UNDEFINED
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
    is_disjoint = (
        not is_same_subgroup and not np.intersect1d(units[inside[0]], units[inside[1]]).size
    )
    lower, upper, notes = _ends(
        statistic, value, estimates, level, events=events, is_disjoint=is_disjoint
    )
    if not lower <= upper:
        return row(value, notes=["The units show no spread. There is no approximate interval."])
    rarest_count = ""
    if rarest is not None and rarest[0] < statistic.few:
        rarest_count = counted_units(*rarest, unit_name)
    notes += _warnings(statistic, n_scored_units, rarest_count, level, paired, times)
    if len(series) and long_memory(series):
        notes.append(_REMEMBERED)
    return row(value, (lower, upper), notes)


def _ends(statistic, value, estimates, level, *, events, is_disjoint):
    """Return the ends of the interval and its notes; ``is_disjoint``: no unit on both sides."""
    paired = len(estimates) == 2
    if (
        is_disjoint
        and statistic.scale == "unit"
        and statistic.response in ("scores", "all_chances")
    ):
        (first, first_left_out), (second, second_left_out) = estimates
        first_lower, first_upper = jackknife_interval(
            first, first_left_out, level, scale="unit", events=events[0]
        )
        second_lower, second_upper = jackknife_interval(
            second, second_left_out, level, scale="unit", events=events[1]
        )
        # MOVER: margins of both estimates add in squares.
        lower = value - math.hypot(first - first_lower, second_upper - second)
        upper = value + math.hypot(first_upper - first, second - second_lower)
        return lower, upper, []
    left_out = estimates[0][1] - estimates[1][1] if paired else estimates[0][1]
    scale = "raw" if paired else statistic.scale
    skewed = statistic.skewed[paired]
    lower, upper = jackknife_interval(
        value, left_out, level, scale=scale, events=min(events), skewed=skewed
    )
    deviations = left_out - left_out.mean()
    cubes = abs(float(np.sum(deviations**3)))
    skewness = cubes / max(float(np.sum(deviations**2)) ** 1.5, 1e-300)
    is_dominated = scale == "raw" and skewness * norm.isf(0.5 * level) ** 3 / 3.0 > 1.0
    return lower, upper, ["A few units dominate this row."] if is_dominated else []


def _count(units, chosen):
    return int(np.count_nonzero(np.bincount(units[chosen])))


def counted_units(count: int, noun: str, unit_name: str) -> str:
    """Return a number of units in words: those that have a record described by ``noun``.

    Parameters
    ----------
    count : int
        Number of units.
    noun : str
        Noun for a record, with ``{s}`` for its plural.
    unit_name : str
        Name of the units, in the plural.
    """
    plural = "" if count == 1 else "s"
    if unit_name != "records":
        return f"{count} {unit_name.removesuffix('s')}{plural} with a {noun.format(s='')}"
    return f"{count} {noun.format(s=plural)}"


def too_few_units(count: int, noun: str, unit_name: str, *, least: int) -> str:
    """Return why so few units of a cell have no interval; ``least``: the fewest that have one."""
    return f"{counted_units(count, noun, unit_name)}, at least {least} are needed."


def low_level_note(level: float, trust: float) -> str:
    """Return a note on a failure probability below the lowest one that was simulated."""
    return (
        f"The failure probability of this row, {level:.2g}, is below {trust:g}, down to which "
        "this method was checked."
    )


def _warnings(statistic, n_units, rarest_count, level, paired, times):
    """Yield sentences on the reasons to trust an interval less."""
    if n_units < _FEW_UNITS:
        yield f"There are only {n_units} units."
    if rarest_count:
        yield f"Only {rarest_count}."
    if statistic.heavy:
        yield HEAVY_NOTE
    if statistic is GENERIC:
        yield "This metric was not studied. Units were left out in blocks of a secret order."
    trust = statistic.trust[paired]
    if times is not None or n_units < _MANY_UNITS:
        trust = max(trust, _BLOCK_LEVEL)
    if level < trust:
        yield low_level_note(level, trust)


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


def jackknife_interval(value, left_out, level, *, scale, events=None, skewed=False):
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
        NaN if units have no spread or the value is at an end of its range.
    """
    forward, back = _SCALES[scale]
    with np.errstate(all="ignore"):
        left_out = np.asarray(left_out, dtype=float)
        center = float(forward(value))
        transformed = forward(left_out)
        deviations = transformed - transformed.mean()
        total = float(np.sum(deviations**2))
    count = deviations.size
    if not (
        math.isfinite(center) and np.isfinite(deviations).all() and total > _ROUNDING * center**2
    ):
        return math.nan, math.nan
    # G22: few units carry the variance if the kurtosis of the contributions is large.
    excess = float(np.sum(deviations**4)) / total**2 - 1.0 / count
    freedom = min(count - 1.0, 2.0 / max(excess, 1e-12))
    freedom = max(1.0, freedom if events is None else min(freedom, events - 1.0))
    half_width = student.isf(level / 2.0, freedom) * math.sqrt((count - 1.0) / count * total)
    lower = float(back(center - half_width))
    upper = float(back(center + half_width))
    if not skewed:
        return lower, upper
    # Hall 1992: his cubic transformation takes the skewness off.
    influence = np.mean(left_out) - left_out
    error = math.sqrt((count - 1.0) / count * float(np.sum(influence**2)))
    third_moment = float(np.mean(influence**3))
    skew = third_moment / float(np.mean(influence**2)) ** 1.5 / math.sqrt(count)
    for quantile in student.isf([level / 2.0, 1.0 - level / 2.0], freedom):
        inner = 1.0 + skew * (quantile - skew / 6.0)
        corrected = 3.0 * (np.cbrt(inner) - 1.0) / skew if abs(skew) > 1e-9 else quantile
        end = value - error * float(corrected)
        lower = min(lower, end)
        upper = max(upper, end)
    return lower, upper
