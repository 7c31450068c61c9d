r"""Approximate intervals of any statistic, for a report after which nothing is asked (theory G28).

The level they are made at is exact, the intervals are not: a delete-one jackknife over units
(records, groups, blocks of time) on the scale of the statistic, with degrees of freedom that know
how few units carry it (J*). It needs the statistic without each unit, which
:mod:`sklearn_bdp.intervals.left_out` computes. :class:`Statistic` has the levels down to which its
intervals were simulated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
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


#: Responses that a statistic only reads the order of, or a chance of each class.
_RANK_RESPONSES = ("scores", "all_chances")


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
    statistic, y, sides, *, units, alpha, per_record=False, times=None, unit_name="records"
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
    alpha : float
        Failure probability of both ends together.
    per_record : bool, default=False
        Whether the target is a random record; by default a random record of a random unit.
    times : float, optional
        Of a declared chain: how many autocorrelation times the records are. Dates that are judged
        given their past have intervals of their own (:mod:`sklearn_bdp.intervals.dates`).
    unit_name : str, default="records"
        Name of the units in notes, in the plural.
    """
    sample = _RowSample.of_sides(statistic, y, sides, units, per_record=per_record)
    n_blocks = sample.n_units
    series = np.zeros(0)
    if times is not None:
        series = sample.differences_by_unit()
        n_blocks = next((count for min_times, count in _BLOCKS if times >= min_times), 2)
    try:
        estimates = sample.left_out(sample.units * n_blocks // sample.n_units, n_blocks)
        rarest = sample.rarest_cell()
    except np.linalg.LinAlgError:
        return sample.row(notes=[_NO_FIT])
    value = _difference([side_value for side_value, _ in estimates])
    reason = _refusal(sample, estimates, rarest, unit_name)
    if not reason and times is not None and n_blocks == 2:
        reason = _FEW_TIMES_REASON.format(times)
    if reason:
        return sample.row(value, notes=[reason])
    lower, upper, notes = _ends(sample, value, estimates, alpha)
    if not lower <= upper:
        reason = "The units show no spread. There is no approximate interval."
        return sample.row(value, notes=[reason])
    rarest_count = ""
    if rarest is not None and rarest[0] < statistic.few:
        rarest_count = counted_units(*rarest, unit_name)
    n_units = sample.n_scored_units
    notes += _warnings(statistic, n_units, rarest_count, alpha, sample.is_paired, times)
    if len(series) and long_memory(series):
        notes.append(_REMEMBERED)
    return sample.row(value, (lower, upper), notes)


@dataclasses.dataclass(frozen=True, eq=False)
class _RowSample:
    """Records that a row is about: their units and weights, and one model or subgroup a side."""

    statistic: Statistic
    y: Array
    predictions: Sequence[Any]  # of each side
    masks: Sequence[Array]  # which records are in the subgroup of each side
    units: Array
    weights: Array  # of records: 1, or 1 over the number of records of their unit

    @classmethod
    def of_sides(cls, statistic, y, sides, units, *, per_record):
        """Return the sample of the arguments of :func:`approximate_row`."""
        units = np.asarray(units)
        weights = np.ones(len(units)) if per_record else 1.0 / np.bincount(units)[units]
        masks = [np.ones(len(units), bool) if mask is None else mask for _, mask in sides]
        return cls(statistic, y, [side[0] for side in sides], masks, units, weights)

    @property
    def n_units(self):
        """Units of all records."""
        return int(self.units.max()) + 1

    @property
    def n_scored_units(self):
        """Units that have a record on a side."""
        return _count(self.units, np.logical_or.reduce(self.masks))

    @property
    def is_paired(self):
        """Whether the row is a difference of two sides."""
        return len(self.masks) == 2

    @property
    def has_one_subgroup(self):
        """Whether both sides are about the same records."""
        return np.array_equal(self.masks[0], self.masks[-1])

    @property
    def rests_on_disagreement(self):
        """Whether the row rests on units on which thresholded predictions of two models differ."""
        return self.is_paired and self.has_one_subgroup and self.statistic.response == "labels"

    @property
    def has_disjoint_units(self):
        """Whether no unit is on both sides."""
        if self.has_one_subgroup:
            return False
        first_units, second_units = (self.units[mask] for mask in self.masks)
        return not np.intersect1d(first_units, second_units).size

    def left_out(self, blocks, n_blocks):
        """Return the statistic of each side, and its values without each block of units."""
        return [
            self.statistic.left_out(self.y, predictions, self.weights * mask, blocks, n_blocks)
            for predictions, mask in zip(self.predictions, self.masks, strict=True)
        ]

    def differences_by_unit(self):
        """Return the values of the row without each unit, none if there are none."""
        if self.statistic is GENERIC:
            return np.zeros(0)
        try:
            estimates = self.left_out(self.units, self.n_units)
        except np.linalg.LinAlgError:  # such a row is refused
            return np.zeros(0)
        return _difference([values for _, values in estimates])

    def rarest_cell(self):
        """Return the number of units of the rarest set that needs some, and its noun, or None."""
        if self.statistic.cells is None:
            return None
        if self.rests_on_disagreement:
            first, second = self.predictions
            return _count(self.units, self.masks[0] & (first != second)), DISCORDANT
        return min(
            (_count(self.units, mask & cell), noun)
            for predictions, mask in zip(self.predictions, self.masks, strict=True)
            for noun, cell in self.statistic.cells(self.y, predictions)
        )

    def events(self):
        """Return the units that bound the degrees of freedom of each side (theory G28).

        They are those of the rarer class, or all units without classes.
        """
        if self.statistic.cells is None or self.rests_on_disagreement:
            return [self.n_units] * 2
        return [
            min(_count(self.units, mask & (self.y == label)) for label in np.unique(self.y[mask]))
            for mask in self.masks
        ]

    def row(self, value=math.nan, ends=(math.nan, math.nan), notes=()):
        """Return the row in the direction in which the metric is shown."""
        if self.statistic.negative:
            value = -value
            ends = (-ends[1], -ends[0])
        lower, upper = map(float, ends)
        return ApproximateRow(float(value), lower, upper, self.n_scored_units, tuple(notes))


def _difference(values):
    """Return the first value minus the second, or the only one."""
    return values[0] - values[1] if len(values) == 2 else values[0]


def _refusal(sample, estimates, rarest, unit_name):
    """Return why a row has no interval: few units, or a score undefined or at an end; or ""."""
    if sample.n_scored_units < _LEAST_UNITS:
        return _FEW_UNITS_REASON.format(sample.n_scored_units)
    if rarest is not None and rarest[0] < _LEAST_CELL:
        return too_few_units(*rarest, unit_name, least=_LEAST_CELL)
    values = np.array([side_value for side_value, _ in estimates])
    if np.isnan(values).any():
        return UNDEFINED
    to_scale, _ = _SCALES[sample.statistic.scale]
    with np.errstate(all="ignore"):
        if not np.isfinite(to_scale(values)).all():
            return "The score is at an end of its range, which has no approximate interval."
    return ""


def _ends(sample, value, estimates, alpha):
    """Return the ends of the interval, and its notes."""
    statistic = sample.statistic
    events = sample.events()
    is_rank_statistic = statistic.scale == "unit" and statistic.response in _RANK_RESPONSES
    if is_rank_statistic and sample.has_disjoint_units:
        return *_ends_of_independent_sides(value, estimates, alpha, events), []
    left_out = _difference([values for _, values in estimates])
    scale = "raw" if sample.is_paired else statistic.scale
    lower, upper = jackknife_interval(
        value,
        left_out,
        alpha,
        scale=scale,
        events=min(events),
        skewed=statistic.skewed[sample.is_paired],
    )
    notes = []
    if scale == "raw" and _is_dominated(left_out, alpha):
        notes.append("A few units dominate this row.")
    return lower, upper, notes


def _ends_of_independent_sides(value, estimates, alpha, events):
    """Return the ends of a difference of independent scores: their margins add in squares (MOVER).

    ``events``: units of the rarer class of each side.
    """
    (first, first_left_out), (second, second_left_out) = estimates
    first_lower, first_upper = jackknife_interval(
        first, first_left_out, alpha, scale="unit", events=events[0]
    )
    second_lower, second_upper = jackknife_interval(
        second, second_left_out, alpha, scale="unit", events=events[1]
    )
    lower = value - math.hypot(first - first_lower, second_upper - second)
    upper = value + math.hypot(first_upper - first, second - second_lower)
    return lower, upper


def _is_dominated(left_out, alpha):
    """Return whether a few units carry so much skewness that a normal quantile is too short."""
    deviations = left_out - left_out.mean()
    cubes = abs(float(np.sum(deviations**3)))
    skewness = cubes / max(float(np.sum(deviations**2)) ** 1.5, 1e-300)
    return skewness * norm.isf(0.5 * alpha) ** 3 / 3.0 > 1.0


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


def low_level_note(alpha: float, trust: float) -> str:
    """Return a note on a failure probability below the lowest one that was simulated."""
    return (
        f"The failure probability of this row, {alpha:.2g}, is below {trust:g}, down to which "
        "this method was checked."
    )


def _warnings(statistic, n_units, rarest_count, alpha, paired, times):
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
    if alpha < trust:
        yield low_level_note(alpha, trust)


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


def jackknife_interval(value, left_out, alpha, *, scale, events=None, skewed=False):
    r"""Return the ends of an approximate interval that fails with probability ``alpha``.

    Parameters
    ----------
    value : float
        The statistic of all units.
    left_out : ndarray of shape (G,)
        The statistic without each unit.
    alpha : float
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
    half_width = student.isf(alpha / 2.0, freedom) * math.sqrt((count - 1.0) / count * total)
    lower = float(back(center - half_width))
    upper = float(back(center + half_width))
    if not skewed:
        return lower, upper
    ends = [lower, upper, *_skewness_corrected_ends(value, left_out, alpha, freedom)]
    return min(ends), max(ends)


def _skewness_corrected_ends(value, left_out, alpha, freedom):
    """Return the ends of Hall's interval, whose cubic transformation takes skewness off."""
    count = left_out.size
    influence = np.mean(left_out) - left_out
    error = math.sqrt((count - 1.0) / count * float(np.sum(influence**2)))
    third_moment = float(np.mean(influence**3))
    skew = third_moment / float(np.mean(influence**2)) ** 1.5 / math.sqrt(count)
    ends = []
    for quantile in student.isf([alpha / 2.0, 1.0 - alpha / 2.0], freedom):
        inner = 1.0 + skew * (quantile - skew / 6.0)
        corrected = 3.0 * (np.cbrt(inner) - 1.0) / skew if abs(skew) > 1e-9 else quantile
        ends.append(value - error * float(corrected))
    return ends
