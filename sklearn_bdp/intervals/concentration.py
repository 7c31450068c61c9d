"""Limits of scores: means under a correlation model, scores by class, ratios, approximate limits.

A score that weighs records by their class varies with the number of holdout records of each class.
These counts depend on holdout records. The mechanism therefore releases the class proportions once
for each set of classes, as cells: intervals of a public partition of [0, 1]. The cell of a class
implies a lower bound of its count, the floor of the class. Theory G12, G20.
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.correlation.base import CorrelationModel, broadcast_limit_arguments
from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.correlation.tails import bounded_lower_limit, weighted_lower_limit
from sklearn_bdp.intervals.approximate import (
    FAMILIES,
    ApproximateLimits,
    ErrorDistribution,
    InfluenceSpread,
    MedianLimits,
)
from sklearn_bdp.intervals.bounds import martingale_mean_lower_limit
from sklearn_bdp.intervals.ratios import RatioLimits, expected_floor
from sklearn_bdp.utils.root_finding import last_accepted
from sklearn_bdp.utils.validation import check_array, check_integer, check_option, check_real


class Tail(abc.ABC):
    """Limits of the expected score, from the range in which the holdout score was released.

    All limits are one-sided: a two-sided interval with failure probability ``alpha`` takes both at
    ``log(alpha / 2)``. Proven limits are monotone in the holdout score and in the failure
    probability.
    """

    @abc.abstractmethod
    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        """Return lower limits for the expectations of fixed queries.

        Parameters
        ----------
        values : float or array-like
            Lower ends of the queries' possible holdout values, in [0, 1].
        log_failure : float or array-like
            Log of the one-sided failure probability, at most 0; broadcast against ``values``.

        Returns
        -------
        ndarray
            Limits in [0, 1], at most ``values`` unless the score is constant by construction.
        """

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        """Return upper limits for the expectations of fixed queries.

        Parameters
        ----------
        values : float or array-like
            Upper ends of the queries' possible holdout values, in [0, 1].
        log_failure : float or array-like
            Log of the one-sided failure probability, at most 0; broadcast against ``values``.

        Returns
        -------
        ndarray
            Limits in [0, 1], at least ``values`` unless the score is constant by construction.
        """
        values = check_array("values", values, low=0.0, high=1.0)
        # One minus the score is a score of the same kind.
        return 1.0 - self.lower_limit(1.0 - values, log_failure)

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        """Return lower and upper limits for the expectations of fixed queries.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the queries' possible holdout values, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the one-sided failure probability, at most 0.
        expected : ndarray of shape (m,), default=None
            Predictions of the values, fixed before the queries. Only the limits for dates given
            their past depend on them (theory G26).

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            Limits in [0, 1].
        """
        n_queries = len(lowest)
        log_failures = np.concatenate([log_failure, log_failure])
        lower_limits = self.lower_limit(np.concatenate([lowest, 1.0 - highest]), log_failures)
        return lower_limits[:n_queries], 1.0 - lower_limits[n_queries:]

    @abc.abstractmethod
    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predicted standard deviation of the holdout value.

        Parameters
        ----------
        prediction : float or array-like
            Public predictions of the value, in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations of the value around its expectation, always positive. They are a
            public guess, not a bound.
        """


@dataclasses.dataclass(frozen=True)
class ModelTail(Tail):
    """Limits of a mean of per-record scores under a correlation model (theory G5, G8, G12).

    ``n`` is the number of holdout records, ``binary`` whether every per-record score is 0 or 1.
    """

    model: CorrelationModel
    n: int
    binary: bool = False

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        return self.model.mean_lower_limit(values, log_failure, self.n, binary=self.binary)

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        if expected is None:
            return super().limits(lowest, highest, log_failure)
        scheme = self.model.sampling_scheme(self.n)
        if scheme.calendar is None:
            return super().limits(lowest, highest, log_failure)
        # Shrunk towards 1/2: if 1 were expected, a single miss would make the limit useless.
        n_dates = scheme.n_units
        shrunken_expected = 0.95 * np.asarray(expected) + 0.025
        lower = martingale_mean_lower_limit(
            lowest, log_failure, n_dates, expected=shrunken_expected
        )
        complement_lower = martingale_mean_lower_limit(
            1.0 - highest, log_failure, n_dates, expected=1.0 - shrunken_expected
        )
        return np.minimum(lower, lowest), np.maximum(1.0 - complement_lower, highest)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        effective_n = self._effective_n
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        shrunken_prediction = (prediction * effective_n + 1.0) / (effective_n + 2.0)
        return np.sqrt(shrunken_prediction * (1.0 - shrunken_prediction) / effective_n)

    @functools.cached_property
    def _effective_n(self):
        """Effective sample size of the holdout."""
        return self.model.effective_n(self.n)


def half_width(log_failure: FloatOrArray, model: CorrelationModel, n: int) -> Array:
    """Return the smallest half-widths ``h`` with ``model.log_tail(h, n) <= log_failure``.

    They are those of a mean over ``n`` records (theory H1-H5).

    Parameters
    ----------
    log_failure : float or array-like of shape (m,)
        Logs of failure probabilities, each of both sides together.
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of records.

    Returns
    -------
    ndarray of shape (m,)
        Half-widths in [0, 1]; infinite if even 1 is not enough.
    """
    log_failure = np.atleast_1d(np.asarray(log_failure, dtype=float))
    ones = np.ones_like(log_failure)
    half_widths = last_accepted(
        lambda deviation: model.log_tail(deviation, n) <= log_failure, ones, 0.0
    )
    is_one_enough = model.log_tail(ones, n) <= log_failure
    return np.where(is_one_enough, half_widths, np.inf)


#: Half-width of the central cell in standard deviations of a class proportion from its prediction.
#: Narrower cells cost more nats than higher floors save (simulated for 20 to 5,000 records and
#: proportions from 0.03 to 0.5), and a final report reads the counts.
_CENTRAL_DEVIATIONS = 2.5
#: Half the width of the cells next to it in standard deviations of a class proportion, for two
#: classes and for more.
_NEXT_OF_TWO, _NEXT_OF_MANY = 2.0, 2.5
#: Coded probability that a proportion is outside the central cell: if it is predicted from training
#: labels or from the cell of the other class, and if it is not.
_SURPRISE, _SURPRISE_WITHOUT_LABELS = 0.1, 0.75
#: Width in log odds at which cells stop growing; cells of the smallest width may be wider. Cells
#: grow with the distance from the prediction, because a training set that was balanced by design
#: predicts proportions badly.
_MAX_LOG_ODDS = 0.2
#: A slice has one random record of each group. The smallest proportion among 64 slices is this many
#: within-group deviations below the overall one, and has this variance, in units of the
#: within-group variance.
_SLICE_DEVIATIONS, _SLICE_VARIANCE = 2.4, 0.2
#: Fraction of a proportion's variance that lies within groups if it is unknown: a guess, and the
#: variance that its error adds, in units of the proportion's variance.
_GUESSED_FRACTION, _GUESS_VARIANCE = 0.25, 0.5
#: Coded probability that noise rejects the prediction although the noisy proportion is in the
#: central cell.
_FALSE_SURPRISE = 0.01


def half_width_at(tail, score, log_one_sided, margin=0.0):
    """Return half the distance of the limits for a holdout score within ``margin`` of ``score``.

    ``tail`` is the `Tail` of the score. Scores and the half-width are in units of [0, 1];
    ``log_one_sided`` is the log of the one-sided failure probability.
    """
    lowest = np.array([max(0.0, score - margin)])
    highest = np.array([min(1.0, score + margin)])
    lower, upper = tail.limits(lowest, highest, np.full(1, log_one_sided), np.full(1, score))
    return 0.5 * float(upper[0] - lower[0])


@dataclasses.dataclass(frozen=True)
class ProportionGrid:
    """A partition of [0, 1] into cells in which the proportion of a class is released (theory G20).

    Cells are intervals between edges, which are angles ``arcsin(sqrt(proportion))``: their variance
    hardly depends on the proportion. The central cell is around the prediction. Beside it, the
    width doubles from cell to cell until a cell spans 0.2 units of log odds. These cells are not
    narrower than ``min_width``, except at 0 and 1. Cells are numbered by integers, the central one
    0. The cell ``None`` means that the mechanism confirmed the prediction, so that the proportion
    counts as in the central cell.
    """

    center_index: int  # position of the central cell's lower edge in ``edges``
    edges: tuple[float, ...]  # angles between which cells lie, ascending
    surprise_probability: float  # coded probability that the proportion is outside the central cell
    min_width: float  # smallest width of the cells beside the central one, in angles
    slice_shift: float  # angle by which the smallest proportion of 64 slices is below the overall
    complement_error: float  # allowed error of an angle that is predicted from the other class

    @classmethod
    def around(cls, proportion, n, n_training, n_classes, *, within_group_fraction=0.0):
        """Return cells around the predicted proportion of one of ``n_classes`` in the holdout.

        ``n`` is the number of holdout units (records or groups), ``n_training`` that of training
        units behind the prediction (a float), ``None`` for a guess. ``within_group_fraction`` is
        the fraction of the proportion's variance within groups, 0 for independent records and
        ``None`` if unknown. If it is not 0, the cells are around the predicted smallest proportion
        of 64 slices, each with one random record of each group (theory G19).
        """
        training_variance = 0.0 if n_training is None else 1.0 / n_training
        guess_variance = 0.0
        if within_group_fraction is None:
            within_group_fraction = _GUESSED_FRACTION
            guess_variance = _GUESS_VARIANCE
        # The standard deviation of arcsin(sqrt(proportion)) is near 1/2 sqrt(1/n): variances below
        # are 4 times those of angles. The variance between groups is common to all slices. Within
        # groups, the smallest slice is far below the mean.
        half_width_factor = 0.5 * _CENTRAL_DEVIATIONS
        slice_variance = _SLICE_VARIANCE * within_group_fraction
        holdout_variance = (1.0 - within_group_fraction + slice_variance + guess_variance) / n
        half_width = half_width_factor * math.sqrt(holdout_variance + training_variance)
        min_width_factor = _NEXT_OF_TWO if n_classes == 2 else _NEXT_OF_MANY
        min_width = min_width_factor * math.sqrt(1.0 / n)
        slice_shift = 0.5 * _SLICE_DEVIATIONS * math.sqrt(within_group_fraction / n)
        center_angle = max(0.0, math.asin(math.sqrt(proportion)) - slice_shift)
        center_index, edges = _edges(center_angle, half_width, min_width)
        difference_variance = (2.0 * slice_variance + 4.0 * guess_variance) / n
        return cls(
            center_index=center_index,
            edges=edges,
            surprise_probability=_SURPRISE_WITHOUT_LABELS if n_training is None else _SURPRISE,
            min_width=min_width,
            slice_shift=slice_shift,
            complement_error=half_width_factor * math.sqrt(difference_variance),
        )

    def complement(self, low: float, high: float) -> Self:
        """Return the grid of the other one of two classes.

        The proportion of this class lies between ``low`` and ``high``.
        """
        end_angles = [math.asin(math.sqrt(end)) for end in (low, high)]
        center_angle = 0.5 * (math.pi - sum(end_angles)) - 2.0 * self.slice_shift
        half_width = 0.5 * (end_angles[1] - end_angles[0]) + self.complement_error + 1e-9
        center_index, edges = _edges(max(0.0, center_angle), half_width, self.min_width)
        return dataclasses.replace(
            self, center_index=center_index, edges=edges, surprise_probability=_SURPRISE
        )

    def ends(self, cell: int | None) -> tuple[float, float]:
        """Return the lower and the upper proportion of a cell.

        ``cell``: its number counted from the central cell, which is 0 or None.
        """
        edge_index = self.center_index + (cell or 0)
        low, high = (math.sin(edge) ** 2 for edge in self.edges[edge_index : edge_index + 2])
        return low, high

    def cell_of(self, value: float) -> int:
        """Return the number of the cell of a noisy proportion, which is clipped to [0, 1]."""
        angle = math.asin(math.sqrt(min(1.0, max(0.0, value))))
        return bisect.bisect_right(self.edges[1:-1], angle) - self.center_index

    def code_length(self, cell: int | None) -> float:
        """Return the code length in nats of the release of a cell, or of the prediction if None.

        Half of ``surprise_probability`` falls with the distance of a cell from the central one, and
        half is the same for all cells but the central one.
        """
        if cell is None:
            return -math.log(1.0 - _FALSE_SURPRISE - self.surprise_probability)
        if cell == 0:
            return -math.log(_FALSE_SURPRISE)
        falling_weight = 0.5 / (abs(cell) * (abs(cell) + 1))
        even_weight = 1.0 / (len(self.edges) - 2)  # one over the number of cells but the central
        return -math.log(self.surprise_probability * 0.5 * (falling_weight + even_weight))


def _edges(angle, half_width, min_width):
    """Return the position of the central cell's lower edge, and the ascending edges of all cells.

    Edges and arguments are angles in [0, pi/2]. The central cell is ``angle`` plus and minus
    ``half_width``. ``min_width`` is the smallest width of other cells, except at the ends.
    """
    edges_outward = []  # from the central cell to 0, and from it to pi/2
    for sign in (-1.0, 1.0):
        edges = [angle + sign * half_width]
        width = min_width
        while 0.0 < edges[-1] < 0.5 * math.pi:
            # d(log odds) = 4 d(angle) / sin(2 angle)
            max_width = 0.25 * _MAX_LOG_ODDS * math.sin(2.0 * edges[-1])
            edges.append(edges[-1] + sign * max(min_width, min(width, max_width)))
            width *= 2.0
        edges_outward.append([min(max(edge, 0.0), 0.5 * math.pi) for edge in edges])
    edges_below, edges_above = edges_outward
    return len(edges_below) - 1, (*reversed(edges_below), *edges_above)


def needed_classes(n_classes, counted_classes, *, has_slices):
    """Return the positions of the classes whose proportions are released, as a tuple.

    ``counted_classes`` are the positions of the classes that the score counts, None for all. Of two
    classes without slices, only the second is released, because it implies the first. With
    ``has_slices``, proportions are the smallest of 64 slices, so that none implies another.
    """
    if n_classes == 2 and not has_slices:
        return (1,)
    return tuple(range(n_classes)) if counted_classes is None else tuple(counted_classes)


def min_class_counts(proportion_ends, n, n_classes, *, has_slices):
    """Return for each class a lower bound of its count among ``n`` units, as a tuple.

    ``proportion_ends`` has the lower and the upper end of the released proportion by position of
    the class. The bound of a class without them is 0. Of two classes without slices, the second
    class implies the bound of the first.
    """
    min_proportions = {position: low for position, (low, _) in proportion_ends.items()}
    if n_classes == 2 and not has_slices:
        min_proportions[0] = 1.0 - proportion_ends[1][1]
    # 1e-6: a product such as 100 * 0.29 must not be rounded up.
    return tuple(
        max(0, math.ceil(n * min_proportions.get(position, 0.0) - 1e-6))
        for position in range(n_classes)
    )


def proportion_grids(class_counts, n_classes, model, n, within_group_fractions=None):
    """Return the `ProportionGrid` of each class in a holdout of ``n`` records, as a list.

    ``class_counts`` has the number of training records of each class (None: proportions are taken
    to be equal), ``model`` is the correlation model. ``within_group_fractions`` has the fraction of
    each proportion's variance within training groups, None if unknown. It has no effect if records
    are independent.
    """
    n_units = model.sampling_scheme(n).n_units
    return _grids_of_units(class_counts, n_classes, model, n, within_group_fractions, n_units)


def _grids_of_units(class_counts, n_classes, model, n, within_group_fractions, n_units):
    """Return the grids of :func:`proportion_grids` for another number ``n_units`` of units."""
    n_training_units = None
    proportions = [1.0 / n_classes] * n_classes
    fractions: Sequence[Any] = within_group_fractions or [None] * n_classes
    if model.sampling_scheme(n).has_independent_records:
        fractions = [0.0] * n_classes
    if class_counts is not None:
        n_training_units = sum(class_counts) * n_units / n
        proportions = [count / sum(class_counts) for count in class_counts]
    return [
        ProportionGrid.around(
            proportion, n_units, n_training_units, n_classes, within_group_fraction=fraction
        )
        for proportion, fraction in zip(proportions, fractions, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class PairsTail(Tail):
    """Limits of ROC AUC: a mean over pairs of a positive and a negative record (theory G12).

    Given the labels, the score is an average over pairings of means of :math:`m` independent
    pairs, where :math:`m` is the size of the smaller class (Hoeffding 1963, section 5). The score
    is therefore dominated in convex order by :math:`Bin(m, AUC)/m`, and by the same of any smaller
    :math:`m`: the bound by hinges (G8) is valid for a lower bound of :math:`m`. The same is true of
    an average over slices of independent units (G19).
    """

    class_floors: tuple  # lower bounds of the counts of the negative and of the positive class

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        values_array, log_failure_array = broadcast_limit_arguments(values, log_failure)
        smallest_floor = min(self.class_floors)
        if smallest_floor < 1:
            return np.zeros(values_array.shape)
        return np.minimum(
            bounded_lower_limit(values_array, log_failure_array, smallest_floor), values_array
        )

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        # Hanley and McNeil 1982 (exponential scores).
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        n_negative, n_positive = (float(max(1, floor)) for floor in self.class_floors)
        n_records = n_negative + n_positive
        auc = (prediction * n_records + 1.0) / (n_records + 2.0)
        auc = np.maximum(auc, 1.0 - auc)  # the formula is for a ranking better than chance
        excess_of_positives = (n_positive - 1.0) * (auc / (2.0 - auc) - auc**2)
        excess_of_negatives = (n_negative - 1.0) * (2.0 * auc**2 / (1.0 + auc) - auc**2)
        return np.sqrt(
            (auc * (1.0 - auc) + excess_of_positives + excess_of_negatives)
            / (n_negative * n_positive)
        )


@dataclasses.dataclass(frozen=True)
class ClassMeansTail(Tail):
    """Limits of balanced accuracy and of recalls: a mean over classes of means (theory G12).

    The lower limit is the larger one of two: a weighted Chernoff bound with the weights
    :math:`w_i = 1/(K n_{c(i)})` of records :math:`i`, for lower bounds :math:`n_c` of the class
    counts (floors), and the bound by hinges (G8) as if every class had the smallest floor. A class
    that may be missing (floor 0) contributes any number between 0 and 1, and both bounds are for
    the :math:`K` other classes. They are valid in convex order, so that they cover averages over
    slices of independent units (G19).
    """

    class_floors: tuple  # lower bounds of the counts of the classes that the score counts

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        values_array, log_failure_array = broadcast_limit_arguments(values, log_failure)
        floors = np.array(self.class_floors, float)
        is_present = floors >= 1.0
        present_fraction = float(np.mean(is_present))
        if present_fraction == 0.0:
            return np.zeros(values_array.shape)
        # Lower bounds of the means over present classes: others contribute at most
        # 1 - present_fraction.
        present_means = np.clip(
            (values_array - (1.0 - present_fraction)) / present_fraction, 0.0, 1.0
        )
        present_floors = floors[is_present]
        # As if every present class had the smallest floor.
        n_records = int(len(present_floors) * present_floors.min())
        present_limits = bounded_lower_limit(present_means, log_failure_array, n_records)
        distinct_floors, classes_per_floor = np.unique(present_floors, return_counts=True)
        if len(distinct_floors) > 1:
            record_weights = 1.0 / (len(present_floors) * distinct_floors)
            weighted_limits = weighted_lower_limit(
                present_means,
                log_failure_array,
                record_weights,
                classes_per_floor * distinct_floors,
            )
            present_limits = np.maximum(present_limits, weighted_limits)
        return np.minimum(present_fraction * present_limits, values_array)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        class_sizes = np.maximum(np.array(self.class_floors, float), 1.0)
        shrunken_prediction = (prediction * class_sizes.sum() + 1.0) / (class_sizes.sum() + 2.0)
        variance = shrunken_prediction * (1.0 - shrunken_prediction)  # of a score of 0 or 1
        return np.sqrt(variance * np.sum(1.0 / class_sizes)) / len(class_sizes)


@dataclasses.dataclass(frozen=True)
class ConstantScoreTail(Tail):
    """Limits of a score that is constant by construction, such as the AUC of equal predictions."""

    score: float

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        return np.full(broadcast_limit_arguments(values, log_failure)[0].shape, self.score)

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        return np.full(len(lowest), self.score), np.full(len(lowest), self.score)

    upper_limit = lower_limit

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        return np.full(np.shape(prediction), 1e-3)  # the score is the same on every dataset


@dataclasses.dataclass(frozen=True)
class ApproximateTail(Tail):
    """Approximate limits of a metric without a proven bound (theory G34), as a tail."""

    approximation: ApproximateLimits | MedianLimits

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        values_array, log_failure_array = broadcast_limit_arguments(values, log_failure)
        return self.approximation.limits(values_array, values_array, log_failure_array)[0]

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        values_array, log_failure_array = broadcast_limit_arguments(values, log_failure)
        return self.approximation.limits(values_array, values_array, log_failure_array)[1]

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        return self.approximation.limits(lowest, highest, log_failure)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        return self.approximation.standard_deviation(prediction)


@dataclasses.dataclass(frozen=True)
class RatioTail(Tail):
    """Exact limits of precision, Jaccard or F1, given a lower bound of their denominator (G34)."""

    ratio: RatioLimits

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        return self.ratio.lower_limit(*broadcast_limit_arguments(values, log_failure))

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        return self.ratio.upper_limit(*broadcast_limit_arguments(values, log_failure))

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        return self.lower_limit(lowest, log_failure), self.upper_limit(highest, log_failure)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        return self.ratio.standard_deviation(prediction)


_KINDS = ("mean", "class_means", "pairs", "known", "approximate", "ratio")


def score_tail(
    model: CorrelationModel,
    n: int,
    *,
    kind: Literal["mean", "class_means", "pairs", "known", "approximate", "ratio"] = "mean",
    binary: bool = False,
    classes: Sequence[str] = (),
    class_counts: tuple[int, ...] | None = None,
    counted_classes: tuple[int, ...] | None = None,
    class_floors: tuple[int, ...] | None = None,
    constant_score: float | None = None,
    within_group_fractions: tuple[float, ...] | None = None,
    family: str = "",
    spread: Sequence[float] | None = None,
) -> Tail:
    """Return the limits of a bounded metric, from public and released quantities.

    The keywords are the fields of :class:`sklearn_bdp.metrics.ScoreShape`.

    Parameters
    ----------
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    kind : {"mean", "class_means", "pairs", "known", "approximate", "ratio"}, default="mean"
        A mean over records, a mean over classes of means over their records, a mean over pairs of
        records of two classes, a score that is known by construction, a metric without a proven
        bound, or a ratio of hits to the records that count (precision, Jaccard, F1).
    binary : bool, default=False
        Whether every per-record score is 0 or 1.
    classes : sequence of str, default=()
        The classes, for means over classes and pairs.
    class_counts : tuple of int, optional
        Records of each class in the training set, which predict those of the holdout.
    counted_classes : tuple of int, optional
        Positions of the classes that the score counts; all by default.
    class_floors : tuple of int, optional
        Lower bounds of the counts of all classes in the holdout, in sampling units, which the
        mechanism released. By default those expected from ``class_counts``.
    constant_score : float, optional
        The score of kind ``"known"``, in [0, 1].
    within_group_fractions : tuple of float, optional
        Fraction of the variance of each class's proportion that lies within training groups.
    family : {"proportion", "loss", "median", "none"} or {"share", "f1"}, optional
        Limits of kind ``"approximate"``; see
        :class:`~sklearn_bdp.intervals.approximate.ApproximateLimits` and
        :class:`~sklearn_bdp.intervals.approximate.MedianLimits`. Scale of kind ``"ratio"``;
        see :class:`~sklearn_bdp.intervals.ratios.RatioLimits`. For this kind ``class_counts`` are
        the training records that do not count in the denominator and those that do, and
        ``class_floors`` has one entry, the lower bound of the holdout records that count.
    spread : sequence of float, optional
        The numbers of an :class:`~sklearn_bdp.intervals.approximate.InfluenceSpread` of the
        training set or, for the family ``"median"``, those of an
        :class:`~sklearn_bdp.intervals.approximate.ErrorDistribution`. Without them there is no
        approximate interval.

    Returns
    -------
    Tail
        The limits, as an immutable object.

    Raises
    ------
    ValueError
        If an argument is outside its range, or if a mean over classes or pairs has fewer than two
        classes or a class without a training record.
    TypeError
        If ``constant_score`` (kind ``"known"``) or ``class_counts`` (kind ``"ratio"``) is missing.

    Examples
    --------
    >>> from sklearn_bdp.intervals.concentration import score_tail
    >>> from sklearn_bdp.correlation import Independent
    >>> tail = score_tail(Independent(), 1000, binary=True)
    >>> tail.lower_limit([0.9], -3.7).round(3), tail.upper_limit([0.9], -3.7).round(3)
    (array([0.88]), array([0.918]))
    """
    n = check_integer("n", n, low=1)
    kind = check_option("kind", kind, _KINDS)
    if kind == "mean":
        return ModelTail(model, n, bool(binary))
    if kind == "approximate":
        return _approximate_tail(family, spread, n_independent_units(model, n))
    if kind == "ratio":
        return _ratio_tail(family, class_floors, class_counts, n)
    if kind == "known":
        return ConstantScoreTail(check_real("constant_score", constant_score, low=0.0, high=1.0))
    n_classes = _count_classes(class_floors, class_counts, classes)
    floors = class_floors
    if floors is None:
        n_units = n_independent_units(model, n)
        grids = _grids_of_units(class_counts, n_classes, model, n, within_group_fractions, n_units)
        has_slices = not model.sampling_scheme(n).has_independent_records
        floors = _predicted_floors(grids, n_units, counted_classes, has_slices=has_slices)
    if kind == "pairs":
        return PairsTail(tuple(floors))
    if counted_classes is not None:
        floors = tuple(floors[position] for position in counted_classes)
    return ClassMeansTail(tuple(floors))


def _predicted_floors(grids, n_units, counted_classes, *, has_slices):
    """Return for each class a lower bound of its count if predicted proportions are confirmed.

    ``grids`` has the `ProportionGrid` of each class, ``n_units`` is the number of sampling units of
    the holdout, and ``counted_classes`` are the positions of the classes that the score counts,
    None for all. ``has_slices``: whether a unit has one record in each of several slices. The bound
    is 0 for a class whose proportion is neither released nor implied.
    """
    positions = needed_classes(len(grids), counted_classes, has_slices=has_slices)
    proportion_ends = {position: grids[position].ends(None) for position in positions}
    return min_class_counts(proportion_ends, n_units, len(grids), has_slices=has_slices)


def _count_classes(class_floors, class_counts, classes):
    """Return the number of classes: the length of the first argument that is not empty.

    Raise ValueError for fewer than two classes, and for a class without a training record.
    """
    values_by_class = next(
        (values for values in (class_floors, class_counts, classes) if values), ()
    )
    if len(values_by_class) < 2 or (class_counts is not None and min(class_counts) < 1):
        raise ValueError(
            "classes must hold at least two classes, each with a training record, as in "
            f"get_metric('roc_auc', y=y_train), got classes={tuple(classes)} and "
            f"class_counts={class_counts}."
        )
    return len(values_by_class)


def _approximate_tail(family, spread, n_units):
    """Return the limits of a score without a proven bound, as an `ApproximateTail`.

    ``family`` and ``spread`` are those of :func:`score_tail`, ``n_units`` is the number of holdout
    units.
    """
    checked_family: Any = check_option("family", family, FAMILIES)
    if checked_family == "median" and spread is not None:
        deviation, n_train_units, *quantiles = map(float, spread)
        errors = ErrorDistribution(deviation, n_train_units, tuple(quantiles))
        return ApproximateTail(MedianLimits(n_units, errors))
    influence_spread = None if spread is None else InfluenceSpread(*map(float, spread))
    return ApproximateTail(ApproximateLimits(checked_family, n_units, influence_spread))


def _ratio_tail(family, class_floors, class_counts, n):
    """Return the limits of precision, Jaccard or F1 on ``n`` holdout records, as a `RatioTail`.

    ``class_counts`` are the numbers of training records that do not count in the denominator and
    that do. ``class_floors`` has a lower bound of the number of holdout records that count; None:
    the expected one.
    """
    ratio_kind: Any = check_option("family", family, ("share", "f1"))
    floor_grid, n_expected = expected_floor(class_counts, n)
    ratio_floors = class_floors or (math.ceil(n * floor_grid.ends(None)[0] - 1e-6),)
    return RatioTail(RatioLimits(ratio_kind, int(ratio_floors[0]), n_expected))
