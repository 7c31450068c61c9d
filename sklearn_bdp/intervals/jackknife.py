r"""Approximate intervals of any statistic, for a final report that closes the holdout (theory G28).

The intervals come from a delete-one jackknife over sampling units (records, groups, blocks of
time), on a scale on which the statistic is nearly normal. The degrees of freedom of Student's
quantile fall if few units carry most of the variance. The comments call this interval J*. It needs
the values of the statistic without each unit, which :mod:`sklearn_bdp.intervals.left_out` computes.
A :class:`Statistic` has the smallest failure probabilities at which its intervals were simulated.
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
# The predictions that a statistic takes. "labels": codes of the predicted classes. "scores" and
# "chances": scores and probabilities of the second of two classes. "all_chances": probabilities of
# all classes, shape (n, n_classes). "values": predicted numbers. "function": a callable that takes
# positions of records and returns the statistic of these records.
Response = Literal["labels", "scores", "chances", "all_chances", "values", "function"]


class DateFacts(NamedTuple):
    """Facts about a statistic over dates that differ from those over independent units (G31)."""

    scale: Scale | None = None  # on which it is nearly normal; None: as for independent units
    min_tested_alpha: float = 0.001  # smallest failure probability that was simulated
    min_outcome_dates: int = 5  # fewest dates with the rarest outcome for an interval
    #: Outcomes that each need some dates, as in :class:`Statistic`; None: those for independent
    #: units.
    outcome_masks: Callable[[Any, Any], list[tuple[str, Array]]] | None = None
    divides_by_targets: bool = False  # whether errors are relative to the targets
    #: Takes the mean of the training targets and returns a ``left_out`` that replaces the mean of
    #: the holdout targets by it. None if the statistic is not about a mean.
    left_out_about: Callable[[float], Any] | None = None


class Statistic(NamedTuple):
    """A statistic computed without each unit, and the tested range of its intervals (theory G28).

    ``left_out(y, predictions, weights, unit_codes, n_units)`` returns its value and an array of
    its values without each unit (or block of units). ``outcome_masks(y, predictions)`` returns a
    list of outcomes of records, such as false positives: an interval needs some units with a record
    of each outcome. An outcome is a pair of a noun for such a record, with ``{s}`` for its plural,
    and a mask of shape (n_records,).
    """

    response: Response
    left_out: Callable[..., tuple[float, Array]]
    scale: Scale
    outcome_masks: Callable[[Any, Any], list[tuple[str, Array]]] | None = None
    #: Smallest failure probabilities that were simulated: of one score, and of a difference of two.
    #: Intervals at smaller ones get a note.
    min_tested_alphas: tuple[float, float] = (0.05, 0.05)
    #: Whether the ends are the wider ones of J* and of Hall's skewness-corrected interval: for one
    #: score, and for a difference of two.
    corrects_skewness: tuple[bool, bool] = (False, False)
    few_outcome_units: int = 10  # with fewer units of the rarest outcome, an interval gets a note
    is_negated: bool = False  # ``left_out`` returns losses, and the score is minus the loss
    is_heavy_tailed: bool = False  # whether a sample may lack rare large errors that matter
    dates: DateFacts = DateFacts()  # used instead if units are dates, each given its past


#: One minus the second mean loss over the first; ``predictions`` are both losses, shape (2, n).
_EXPLAINED_LOSS = of_sums(
    lambda y, predictions: predictions, lambda n, first, second: 1.0 - second / first
)
#: Skill score, with the losses of the baseline first.
SKILL = Statistic(
    "values",
    _EXPLAINED_LOSS,
    "raw",
    corrects_skewness=(True, False),
    dates=DateFacts(scale="explained"),
)
#: Any function of the positions of records, computed without each of at most 200 blocks of units.
GENERIC = Statistic("function", recomputed, "raw", corrects_skewness=(True, True))


# -- Rows -----------------------------------------------------------------------------------------

# G22: the transformation to the scale, and its inverse. Logit for metrics in [0, 1], arctanh for
# those in [-1, 1], log for losses, -log(1 - R²) for explained variance.
_SCALES: dict[str, tuple[Callable, Callable]] = {
    "unit": (logit, expit),
    "signed": (np.arctanh, np.tanh),
    "loss": (np.log, np.exp),
    "explained": (lambda r: -np.log1p(-r), lambda s: -np.expm1(-s)),
    "raw": (lambda x: x, lambda x: x),
}
# From G22, G28 and simulation. Fewest units of an interval, and fewest with its rarest outcome.
_MIN_UNITS, _MIN_OUTCOME_UNITS = 20, 5
_FEW_UNITS = 30  # with fewer units an interval gets a note
#: Pairs: the fewest autocorrelation times, and the number of blocks that the series is cut into.
_BLOCKS = ((400.0, 10), (200.0, 6))
#: Smallest failure probability that was tested for blocks of time and for fewer than 150 units, and
#: this number of units.
_MIN_ALPHA_OF_BLOCKS, _MANY_UNITS = 0.005, 150

_LONG_MEMORY_NOTE = (
    "The scores seem to have long memory, which would make it too narrow. "
    "Intervals given the past (correlation='time') need no such assumption."
)
#: Noun of the records that a difference of predicted classes rests on.
DISCORDANT = "record{s} on which the models disagree"
HEAVY_NOTE = "Rare large errors, which no sample shows, would make it too narrow."
_ROUNDING = 1e-24  # sums of squares below this multiple of the squared value are rounding errors

_FEW_UNITS_REASON = "{} units are too few for an interval. At least 20 are needed."
_FEW_AUTOCORRELATION_TIMES_REASON = "{:.0f} autocorrelation times are too few. 200 are needed."
UNDEFINED = "The score is undefined for these records."
_NO_FIT = "The score is undefined for these records: its equations have no solution."


#: Responses of rank statistics such as ROC AUC.
RANK_RESPONSES = ("scores", "all_chances")


class ApproximateRow(NamedTuple):
    """One approximate row of a report: a value and its interval, both in the same units."""

    value: float
    lower: float  # NaN without an interval
    upper: float  # NaN without an interval
    n_units: int  # number of units with a record of the row, or of all units
    notes: tuple[str, ...]  # why the row has no interval, or remarks on its interval


def public_refusal(n_units: int, *, n_autocorrelation_times: float | None = None) -> str:
    """Return why scores of this many units have no approximate interval, or an empty text.

    Parameters
    ----------
    n_units : int
        Number of units.
    n_autocorrelation_times : float or None, default=None
        Number of records over the autocorrelation time, for a declared chain.

    Returns
    -------
    str
        A sentence, or an empty text if a score may have an interval.
    """
    if n_units < _MIN_UNITS:
        return _FEW_UNITS_REASON.format(n_units)
    if n_autocorrelation_times is not None and n_autocorrelation_times < _BLOCKS[-1][0]:
        return _FEW_AUTOCORRELATION_TIMES_REASON.format(n_autocorrelation_times)
    return ""


def approximate_row(
    statistic,
    y,
    sides,
    *,
    unit_codes,
    alpha,
    per_record=False,
    n_autocorrelation_times=None,
    unit_name="records",
):
    """Return a score, a difference of two models or of two subgroups, with its interval.

    A row without an interval states the reason in its notes. Errors of the functions in
    ``statistic`` and of predictions that are a function propagate, except LinAlgError.

    Parameters
    ----------
    statistic : Statistic
        The statistic of a metric, or :data:`GENERIC`.
    y : ndarray of shape (n,)
        Targets; classes as codes ``0, 1, ...``, of two classes 1 is the positive one.
    sides : sequence of one or two (predictions, mask)
        Predictions of a model, in the form of ``statistic.response``, and the mask of its subgroup
        (``None``: all records). The row of two sides is the first minus the second.
    unit_codes : ndarray of int, shape (n,)
        Unit of each record, ``0, 1, ...``, numbered in a secret order. For a chain the codes are
        in time order.
    alpha : float
        Failure probability of both ends together.
    per_record : bool, default=False
        Whether all records weigh equally. By default all units do, in a subgroup by the fraction
        of their records in it. The target is then the score of a random record of a random unit.
    n_autocorrelation_times : float, optional
        Number of records over the autocorrelation time, for a declared chain.
    unit_name : str, default="records"
        Name of the units in notes, in the plural.

    Returns
    -------
    ApproximateRow
        The score or difference, the ends of its interval, and notes. Numbers are in units of the
        statistic, where a loss has a changed sign.
    """
    sample = _RowSample.of_sides(statistic, y, sides, unit_codes, per_record=per_record)
    n_blocks = sample.n_units
    values_without_unit = np.zeros(0)
    if n_autocorrelation_times is not None:
        values_without_unit = sample.values_without_unit()
        n_blocks = _count_time_blocks(n_autocorrelation_times)
    try:
        estimates = sample.left_out(sample.unit_codes * n_blocks // sample.n_units, n_blocks)
        rarest = sample.rarest_outcome()
    except np.linalg.LinAlgError:
        return sample.make_row(notes=[_NO_FIT])
    value = _difference([side_value for side_value, _ in estimates])
    reason = _refusal(sample, estimates, rarest, unit_name)
    if not reason and n_autocorrelation_times is not None and n_blocks == 2:
        reason = _FEW_AUTOCORRELATION_TIMES_REASON.format(n_autocorrelation_times)
    if reason:
        return sample.make_row(value, notes=[reason])
    lower, upper, notes = _ends(sample, value, estimates, alpha)
    if not lower <= upper:
        reason = "The units show no spread. There is no approximate interval."
        return sample.make_row(value, notes=[reason])
    rarest_text = ""
    if rarest is not None and rarest[0] < statistic.few_outcome_units:
        rarest_text = counted_units(*rarest, unit_name)
    n_units = sample.n_scored_units
    notes += _warnings(
        statistic, n_units, rarest_text, alpha, sample.is_difference, n_autocorrelation_times
    )
    if len(values_without_unit) and long_memory(values_without_unit):
        notes.append(_LONG_MEMORY_NOTE)
    return sample.make_row(value, (lower, upper), notes)


def _count_time_blocks(n_autocorrelation_times):
    """Return the number of blocks of a chain that are left out in turn; 2 if it is too short."""
    n_blocks = 2
    for min_times, count in reversed(_BLOCKS):
        if n_autocorrelation_times >= min_times:
            n_blocks = count
    return n_blocks


@dataclasses.dataclass(frozen=True, eq=False)
class _RowSample:
    """Records of a row: their units and weights, and predictions and subgroup of each side.

    A row has one side, or two for a difference: a side is one model on one subgroup.
    """

    statistic: Statistic
    y: Array
    predictions: Sequence[Any]  # one entry for each side
    masks: Sequence[Array]  # for each side the mask of its subgroup, shape (n,)
    unit_codes: Array  # unit of each record, 0, 1, ...
    weights: Array  # of each record: 1, or 1 over the number of records of its unit

    @classmethod
    def of_sides(cls, statistic, y, sides, unit_codes, *, per_record):
        """Return the sample for arguments of :func:`approximate_row`."""
        unit_codes = np.asarray(unit_codes)
        weights = (
            np.ones(len(unit_codes)) if per_record else 1.0 / np.bincount(unit_codes)[unit_codes]
        )
        masks = [
            np.ones(len(unit_codes), bool) if mask_or_none is None else mask_or_none
            for _, mask_or_none in sides
        ]
        return cls(statistic, y, [side[0] for side in sides], masks, unit_codes, weights)

    @property
    def n_units(self):
        """Number of units of all records."""
        return int(self.unit_codes.max()) + 1

    @property
    def n_scored_units(self):
        """Number of units with a record on at least one side."""
        return _count(self.unit_codes, np.logical_or.reduce(self.masks))

    @property
    def is_difference(self):
        """Whether the row is a difference of two sides."""
        return len(self.masks) == 2

    @property
    def has_one_subgroup(self):
        """Whether the row has one side, or two of the same records."""
        return np.array_equal(self.masks[0], self.masks[-1])

    @property
    def rests_on_disagreement(self):
        """Whether only records matter on which the predicted classes of two models differ."""
        return self.is_difference and self.has_one_subgroup and self.statistic.response == "labels"

    @property
    def has_disjoint_units(self):
        """Whether the row has two sides without a common unit."""
        if self.has_one_subgroup:
            return False
        first_units, second_units = (self.unit_codes[mask] for mask in self.masks)
        return not np.intersect1d(first_units, second_units).size

    def left_out(self, block_codes, n_blocks):
        """Return for each side a pair: its statistic, and the values without each block of units.

        ``block_codes`` has the number of each record's block, from 0.
        """
        return [
            self.statistic.left_out(self.y, predictions, self.weights * mask, block_codes, n_blocks)
            for predictions, mask in zip(self.predictions, self.masks, strict=True)
        ]

    def values_without_unit(self):
        """Return the values of the row without each unit, or without each block of units.

        The array is empty for :data:`GENERIC`, and if the equations of the statistic have no
        solution.
        """
        if self.statistic is GENERIC:
            return np.zeros(0)
        try:
            estimates = self.left_out(self.unit_codes, self.n_units)
        except np.linalg.LinAlgError:  # approximate_row states the reason
            return np.zeros(0)
        return _difference([left_out for _, left_out in estimates])

    def rarest_outcome(self):
        """Return the number of units with the rarest outcome, and the noun of its records.

        If the row rests on disagreements, a disagreement of the models is the only outcome. Return
        None for a statistic whose interval needs no outcome.
        """
        if self.statistic.outcome_masks is None:
            return None
        if self.rests_on_disagreement:
            first_predictions, second_predictions = self.predictions
            is_discordant = self.masks[0] & (first_predictions != second_predictions)
            return _count(self.unit_codes, is_discordant), DISCORDANT
        return min(
            (_count(self.unit_codes, mask & has_outcome), noun)
            for predictions, mask in zip(self.predictions, self.masks, strict=True)
            for noun, has_outcome in self.statistic.outcome_masks(self.y, predictions)
        )

    def rare_class_units(self):
        """Return for each side the number of units with a record of the rarest class (theory G28).

        It is the number of all units for a statistic without outcomes, and for a difference that
        rests on disagreements.
        """
        if self.statistic.outcome_masks is None or self.rests_on_disagreement:
            return [self.n_units] * len(self.masks)
        return [
            min(
                _count(self.unit_codes, mask & (self.y == label))
                for label in np.unique(self.y[mask])
            )
            for mask in self.masks
        ]

    def make_row(self, value=math.nan, ends=(math.nan, math.nan), notes=()):
        """Return the row, in which a loss changes its sign, and its ends their order."""
        if self.statistic.is_negated:
            value = -value
            ends = (-ends[1], -ends[0])
        lower, upper = map(float, ends)
        return ApproximateRow(float(value), lower, upper, self.n_scored_units, tuple(notes))


def _difference(values):
    """Return the first of two values minus the second, or the only value."""
    return values[0] - values[1] if len(values) == 2 else values[0]


def _refusal(sample, estimates, rarest, unit_name):
    """Return why a row has no interval, or an empty text.

    ``estimates`` has for each side its statistic and the values without each block of units.
    ``rarest`` is the number of units with the rarest outcome and the noun of its records, or None.
    """
    if sample.n_scored_units < _MIN_UNITS:
        return _FEW_UNITS_REASON.format(sample.n_scored_units)
    if rarest is not None and rarest[0] < _MIN_OUTCOME_UNITS:
        return too_few_units(*rarest, unit_name, min_count=_MIN_OUTCOME_UNITS)
    side_values = np.array([side_value for side_value, _ in estimates])
    if np.isnan(side_values).any():
        return UNDEFINED
    to_scale, _ = _SCALES[sample.statistic.scale]
    with np.errstate(all="ignore"):
        if not np.isfinite(to_scale(side_values)).all():
            return "The score is at an end of its range, which has no approximate interval."
    return ""


def _ends(sample, value, estimates, alpha):
    """Return the lower and the upper end of a row's interval, and a list of notes.

    Ends are NaN without an interval. ``value`` is the statistic, or the difference of two.
    ``estimates`` has for each side its statistic and the values without each block of units.
    """
    statistic = sample.statistic
    n_rare_class_units = sample.rare_class_units()
    is_rank_statistic = statistic.scale == "unit" and statistic.response in RANK_RESPONSES
    if is_rank_statistic and sample.has_disjoint_units:
        return *_ends_of_independent_sides(value, estimates, alpha, n_rare_class_units), []
    left_out = _difference([side_left_out for _, side_left_out in estimates])
    scale = "raw" if sample.is_difference else statistic.scale
    lower, upper = jackknife_interval(
        value,
        left_out,
        alpha,
        scale=scale,
        n_rare_class_units=min(n_rare_class_units),
        corrects_skewness=statistic.corrects_skewness[sample.is_difference],
    )
    notes = []
    if scale == "raw" and _is_dominated(left_out, alpha):
        notes.append("A few units dominate this row.")
    return lower, upper, notes


def _ends_of_independent_sides(value, estimates, alpha, n_rare_class_units):
    """Return the lower and the upper end for a difference of two independent scores (MOVER).

    ``value`` is the difference. ``estimates`` has for each score its value and the values without
    each block of units, and ``n_rare_class_units`` the number of units of its rarest class.
    ``alpha`` is the failure probability of both ends together.
    """
    (first_value, first_left_out), (second_value, second_left_out) = estimates
    first_lower, first_upper = jackknife_interval(
        first_value, first_left_out, alpha, scale="unit", n_rare_class_units=n_rare_class_units[0]
    )
    second_lower, second_upper = jackknife_interval(
        second_value, second_left_out, alpha, scale="unit", n_rare_class_units=n_rare_class_units[1]
    )
    lower = value - math.hypot(first_value - first_lower, second_upper - second_value)
    upper = value + math.hypot(first_upper - first_value, second_value - second_lower)
    return lower, upper


def _is_dominated(left_out, alpha):
    """Return whether a few units make a statistic so skewed that a normal quantile is too small.

    ``left_out`` has the values without each unit.
    """
    deviations = left_out - left_out.mean()
    sum_of_cubes = abs(float(np.sum(deviations**3)))
    skewness = sum_of_cubes / max(float(np.sum(deviations**2)) ** 1.5, 1e-300)
    return skewness * norm.isf(0.5 * alpha) ** 3 / 3.0 > 1.0


def _count(unit_codes, is_chosen):
    """Return the number of units with a chosen record; ``is_chosen`` is a mask of records."""
    return int(np.count_nonzero(np.bincount(unit_codes[is_chosen])))


def counted_units(count: int, noun: str, unit_name: str) -> str:
    """Return a text such as ``"3 patients with a true positive"``.

    Parameters
    ----------
    count : int
        Number of units with a record that the noun names.
    noun : str
        Noun for a record, with ``{s}`` for its plural.
    unit_name : str
        Name of the units, in the plural.

    Returns
    -------
    str
        The count with its noun. Units other than records are named.
    """
    plural = "" if count == 1 else "s"
    if unit_name != "records":
        return f"{count} {unit_name.removesuffix('s')}{plural} with a {noun.format(s='')}"
    return f"{count} {noun.format(s=plural)}"


def too_few_units(count: int, noun: str, unit_name: str, *, min_count: int) -> str:
    """Return a sentence: ``count`` units have a record, and an interval needs ``min_count``.

    ``noun`` is that of the record with ``{s}`` for its plural, ``unit_name`` the plural name of
    units.
    """
    return f"{counted_units(count, noun, unit_name)}, at least {min_count} are needed."


def low_alpha_note(alpha: float, min_tested_alpha: float) -> str:
    """Return a note on a failure probability below the smallest one that was simulated."""
    return (
        f"The failure probability of this row, {alpha:.2g}, is below {min_tested_alpha:g}, down to "
        "which this method was checked."
    )


def _warnings(statistic, n_units, rarest_text, alpha, is_difference, n_autocorrelation_times):
    """Yield sentences on the reasons to trust an interval less.

    ``n_units`` is the number of units with a record of the row. ``rarest_text`` states the number
    of units with the rarest outcome, or is empty. ``n_autocorrelation_times`` is None unless the
    records are a chain.
    """
    if n_units < _FEW_UNITS:
        yield f"There are only {n_units} units."
    if rarest_text:
        yield f"Only {rarest_text}."
    if statistic.is_heavy_tailed:
        yield HEAVY_NOTE
    if statistic is GENERIC:
        yield "This metric was not studied. Units were left out in blocks of a secret order."
    min_tested_alpha = statistic.min_tested_alphas[1 if is_difference else 0]
    if n_autocorrelation_times is not None or n_units < _MANY_UNITS:
        min_tested_alpha = max(min_tested_alpha, _MIN_ALPHA_OF_BLOCKS)
    if alpha < min_tested_alpha:
        yield low_alpha_note(alpha, min_tested_alpha)


def long_memory(series: Array) -> bool:
    r"""Return whether a series in time order seems to have long memory (theory G28).

    The memory parameter is the local Whittle estimate from the ``sqrt(T)`` lowest frequencies of
    the series of length T. False if a number is not finite.
    """
    n_frequencies = math.isqrt(len(series))
    frequencies = 2.0 * math.pi * np.arange(1, n_frequencies + 1) / len(series)
    periodogram = np.abs(np.fft.rfft(series - np.mean(series))[1 : n_frequencies + 1]) ** 2
    if not np.all(np.isfinite(periodogram)) or not periodogram.sum() > 0.0:
        return False

    mean_log_frequency = np.mean(np.log(frequencies))

    def whittle_objective(d):
        scaled_power = np.mean(frequencies ** (2.0 * d) * periodogram)
        return math.log(scaled_power) - 2.0 * d * mean_log_frequency

    memory = minimize_scalar(whittle_objective, bounds=(-0.5, 1.0), method="bounded").x
    return bool(memory > n_frequencies**-0.5)


def jackknife_interval(
    value, left_out, alpha, *, scale, n_rare_class_units=None, corrects_skewness=False
):
    r"""Return the ends of a jackknife interval that fails with probability about ``alpha``.

    Parameters
    ----------
    value : float
        The statistic of all units.
    left_out : ndarray of shape (n_units,)
        The statistic without each unit (or block of units).
    alpha : float
        Failure probability of both ends together.
    scale : {"unit", "signed", "loss", "explained", "raw"}
        Scale on which the distribution of the statistic is nearest to a normal one.
    n_rare_class_units : int, optional
        Number of units of the rarest class, which bounds the degrees of freedom.
    corrects_skewness : bool, default=False
        Whether the ends are the wider ones of Student's interval and of Hall's skewness-corrected
        one.

    Returns
    -------
    lower, upper : float
        NaN if units have no spread, or if the statistic of all units or without a unit is undefined
        or at an end of its range.
    """
    to_scale, from_scale = _SCALES[scale]
    with np.errstate(all="ignore"):
        left_out = np.asarray(left_out, dtype=float)
        scaled_value = float(to_scale(value))
        scaled_left_out = to_scale(left_out)
        deviations = scaled_left_out - scaled_left_out.mean()
        sum_of_squares = float(np.sum(deviations**2))
    n_units = deviations.size
    if not (
        math.isfinite(scaled_value)
        and np.isfinite(deviations).all()
        and sum_of_squares > _ROUNDING * scaled_value**2
    ):
        return math.nan, math.nan
    # G22: few units carry the variance if the kurtosis of the contributions is large.
    # The fourth moment of equal deviations is 1 / n_units, so that the excess is 0 for them.
    excess_concentration = float(np.sum(deviations**4)) / sum_of_squares**2 - 1.0 / n_units
    df = min(n_units - 1.0, 2.0 / max(excess_concentration, 1e-12))
    df = max(1.0, df if n_rare_class_units is None else min(df, n_rare_class_units - 1.0))
    half_width = student.isf(alpha / 2.0, df) * math.sqrt(
        (n_units - 1.0) / n_units * sum_of_squares
    )
    lower = float(from_scale(scaled_value - half_width))
    upper = float(from_scale(scaled_value + half_width))
    if not corrects_skewness:
        return lower, upper
    ends = [lower, upper, *_skewness_corrected_ends(value, left_out, alpha, df)]
    return min(ends), max(ends)


def _skewness_corrected_ends(value, left_out, alpha, df):
    """Return the lower and the upper end of Hall's skewness-corrected interval, as a list.

    ``value`` is the statistic, ``left_out`` has the values without each unit, ``alpha`` is the
    failure probability of both ends, and ``df`` the degrees of freedom of Student's quantile.
    """
    n_units = left_out.size
    influence = np.mean(left_out) - left_out
    standard_error = math.sqrt((n_units - 1.0) / n_units * float(np.sum(influence**2)))
    third_moment = float(np.mean(influence**3))
    skewness = third_moment / float(np.mean(influence**2)) ** 1.5 / math.sqrt(n_units)
    ends = []
    for quantile in student.isf([alpha / 2.0, 1.0 - alpha / 2.0], df):
        ends.append(value - standard_error * skewness_corrected_quantile(float(quantile), skewness))
    return ends


def skewness_corrected_quantile(quantile: float, skewness: float) -> float:
    """Return the quantile of a standardized mean whose distribution is skewed.

    It is Hall's (1992) cubic transformation of the quantile of a symmetric distribution.

    Parameters
    ----------
    quantile : float
        Quantile of a symmetric distribution, such as Student's.
    skewness : float
        Skewness of the mean.

    Returns
    -------
    float
        The corrected quantile: ``quantile`` itself if the skewness is nearly 0.
    """
    if abs(skewness) < 1e-9:
        return quantile
    cubed_term = 1.0 + skewness * (quantile - skewness / 6.0)
    return 3.0 * (float(np.cbrt(cubed_term)) - 1.0) / skewness
