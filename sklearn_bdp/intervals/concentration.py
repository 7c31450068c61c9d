"""Tails of scores: means under a correlation model, and scores that weigh records by class.

Such a score varies with how many records of each class the holdout has. That is a fact about the
holdout: its mechanism is asked for the shares, once for each set of classes, in cells that are
charged like any release. A cell implies a floor under each count. Theory G12, G20.
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
    """Limits of a query's expectation, once the cell of its value on the holdout is known.

    All limits are one-sided: a two-sided interval of failure probability ``f`` asks both sides at
    ``log(f / 2)``. They are monotone in the value and in the failure probability.
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
            Limits in [0, 1], at most ``values``.
        """

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        """Return upper limits for the expectations of fixed queries.

        Parameters
        ----------
        values, log_failure : float or array-like
            As for `lower_limit`, with upper ends.

        Returns
        -------
        ndarray
            Limits in [0, 1], at least ``values``.
        """
        values = check_array("values", values, low=0.0, high=1.0)
        # One minus the score is a score of the same kind.
        return 1.0 - self.lower_limit(1.0 - values, log_failure)

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        """Return lower and upper limits in one go.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the queries' possible holdout values, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the one-sided failure probability, at most 0.
        expected : ndarray of shape (m,), default=None
            Expected values before any was seen: sharper limits for records that are judged given
            their past (theory G26).

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            Limits in [0, 1].
        """
        count = len(lowest)
        levels = np.concatenate([log_failure, log_failure])
        lower_limits = self.lower_limit(np.concatenate([lowest, 1.0 - highest]), levels)
        return lower_limits[:count], 1.0 - lower_limits[count:]

    @abc.abstractmethod
    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predictive scale of the holdout value.

        Parameters
        ----------
        prediction : float or array-like
            Public predictions of the value, in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations of the value around its expectation, always positive: a public
            guess that prices releases (theory G7), no bound.
        """


@dataclasses.dataclass(frozen=True)
class ModelTail(Tail):
    """The tail of a mean of per-record scores under a correlation model (theory G5, G8, G12).

    ``binary``: every per-record score is 0 or 1, a public fact about the metric.
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
        # Shrunken to 1/2: a score of 1 in cross-validation would expect no miss at all.
        n_dates = scheme.n_units
        shrunken = 0.95 * np.asarray(expected) + 0.025
        lower = martingale_mean_lower_limit(lowest, log_failure, n_dates, expected=shrunken)
        complement = martingale_mean_lower_limit(
            1.0 - highest, log_failure, n_dates, expected=1.0 - shrunken
        )
        return np.minimum(lower, lowest), np.maximum(1.0 - complement, highest)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        effective_n = self._effective_n
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        shrunken = (prediction * effective_n + 1.0) / (effective_n + 2.0)  # slightly towards 1/2
        return np.sqrt(shrunken * (1.0 - shrunken) / effective_n)

    @functools.cached_property
    def _effective_n(self):
        return self.model.effective_n(self.n)  # it takes long in large networks


def half_width(log_failure: FloatOrArray, model: CorrelationModel, n: int) -> Array:
    """Smallest ``alpha`` with ``model.log_tail(alpha, n) <= log_failure`` (theory H1-H5).

    In score units, ``inf`` where even 1 is not enough.
    """
    level = np.atleast_1d(np.asarray(log_failure, dtype=float))
    ones = np.ones_like(level)
    alpha = last_accepted(lambda half: model.log_tail(half, n) <= level, ones, 0.0)
    reached = model.log_tail(ones, n) <= level
    return np.where(reached, alpha, np.inf)


#: Half-width of a share's cell in standard deviations: finer cells cost more nats than higher
#: floors save (20 to 5,000 records, shares from .03 to .5), and a final report reads the counts.
_CELL = 2.5
#: Width of the next cells in standard deviations, for two classes and for more.
_NEXT, _NEXT_OF_MANY = 2.0, 2.5
#: Probability that a share is outside the central cell: predicted from labels, and from nothing.
_SURPRISE, _UNKNOWN = 0.1, 0.75
#: Log odds that a far cell covers: a training table that was balanced is asked coarsely.
_FAR = 0.2
#: Deviations inside groups by which the least share of 64 slices is smaller, and its own variance.
_LEAST, _LEAST_VARIANCE = 2.4, 0.2
#: Part of a share's variance that lies inside groups where nobody knows: a guess, and its error.
_INSIDE, _INSIDE_VARIANCE = 0.25, 0.5
#: Probability that noise says "above" of a share inside the central cell.
_RIM = 0.01


def half_width_at(tail, score, side, known_to=0.0):
    """Return half the distance of the limits for a score that is known up to ``known_to``."""
    low_end = np.array([max(0.0, score - known_to)])
    high_end = np.array([min(1.0, score + known_to)])
    lower, upper = tail.limits(low_end, high_end, np.full(1, side), np.full(1, score))
    return 0.5 * float(upper[0] - lower[0])


@dataclasses.dataclass(frozen=True)
class ProportionGrid:
    """A partition of [0, 1] into cells in which the share of a class is released (theory G20).

    Edges are angles ``arcsin(sqrt(share))``, whose variance is the same for every share. The
    central cell around the prediction is compared with the holdout by the mechanism. The cells next
    to it are as wide as shares vary on the holdout, each twice as wide as the one before up to a
    fifth of a unit of log odds. Cells have whole numbers, the central one 0; ``None`` means that
    the mechanism confirmed the prediction, so that the share counts as in the central cell.
    """

    center: int  # index of the central cell in ``edges``
    edges: tuple[float, ...]  # angles between which cells lie, ascending
    surprise: float  # probability that the share is outside the central cell
    step: float  # least width of the cells beside the central one
    low: float  # by how much the least share of many slices is smaller than that of all
    error: float  # deviation of the difference between the least shares of two classes

    @classmethod
    def around(cls, share, n, n_training, n_classes, *, within_group_fraction=0.0):
        """Return cells around a predicted share of ``n`` records, or groups of them.

        ``n_training``: those that the prediction was read off, ``None`` for a guess; ``inside``:
        the part of a share's variance that lies inside groups (``None``: unknown), of which the
        least share of many slices is asked (theory G19).
        """
        training_variance = 0.0 if n_training is None else 1.0 / n_training
        guess_variance = 0.0
        if within_group_fraction is None:
            within_group_fraction = _INSIDE
            guess_variance = _INSIDE_VARIANCE
        # The deviation of arcsin(sqrt(share)) is 1/2 sqrt(1/n), whatever the share. Between groups
        # shares of slices vary together; inside, the least of them is far down.
        half_deviation = 0.5 * _CELL
        least_variance = _LEAST_VARIANCE * within_group_fraction
        holdout_variance = (1.0 - within_group_fraction + least_variance + guess_variance) / n
        half = half_deviation * math.sqrt(holdout_variance + training_variance)
        step = (_NEXT if n_classes == 2 else _NEXT_OF_MANY) * math.sqrt(1.0 / n)
        low = 0.5 * _LEAST * math.sqrt(within_group_fraction / n)
        angle = max(0.0, math.asin(math.sqrt(share)) - low)
        surprise = _UNKNOWN if n_training is None else _SURPRISE
        error = half_deviation * math.sqrt((2.0 * least_variance + 4.0 * guess_variance) / n)
        center, edges = _edges(angle, half, step)
        return cls(center, edges, surprise, step, low, error)

    def complement(self, low: float, high: float) -> Self:
        """Return the cells of the other of two classes, once this one's share lies between ends."""
        ends = [math.asin(math.sqrt(end)) for end in (low, high)]
        angle = 0.5 * (math.pi - sum(ends)) - 2.0 * self.low
        half = 0.5 * (ends[1] - ends[0])
        center, edges = _edges(max(0.0, angle), half + self.error + 1e-9, self.step)
        return dataclasses.replace(self, center=center, edges=edges, surprise=_SURPRISE)

    def ends(self, cell: int | None) -> tuple[float, float]:
        """Return the shares between which a cell lies."""
        edge_index = self.center + (cell or 0)
        low, high = (math.sin(edge) ** 2 for edge in self.edges[edge_index : edge_index + 2])
        return low, high

    def cell_of(self, value: float) -> int:
        """Return the cell of a value in [0, 1]."""
        angle = math.asin(math.sqrt(min(1.0, max(0.0, value))))
        return bisect.bisect_right(self.edges[1:-1], angle) - self.center

    def code_length(self, cell: int | None) -> float:
        """Return the code length of a release: half of the surprise near the center, half alike."""
        if not cell:
            return -math.log(_RIM if cell == 0 else 1.0 - _RIM - self.surprise)
        by_distance = 0.5 / (abs(cell) * (abs(cell) + 1))
        return -math.log(self.surprise * 0.5 * (by_distance + 1.0 / (len(self.edges) - 2)))


def _edges(angle, half, step):
    """Return the place of the central cell, and the edges of all, outward to both ends."""
    sides = []
    for sign in (-1.0, 1.0):
        edges = [angle + sign * half]
        width = step
        while 0.0 < edges[-1] < 0.5 * math.pi:
            # d(log odds) = 4 d(angle) / sin(2 angle)
            max_width = 0.25 * _FAR * math.sin(2.0 * edges[-1])
            edges.append(edges[-1] + sign * max(step, min(width, max_width)))
            width *= 2.0
        sides.append([min(max(edge, 0.0), 0.5 * math.pi) for edge in edges])
    return len(sides[0]) - 1, (*reversed(sides[0]), *sides[1])


def needed_classes(n_classes, counted_classes, *, sliced):
    """Return the classes whose shares are asked: of two, the second implies the first.

    ``sliced``: shares are the least of many slices (theory G19), which do not add up to 1.
    """
    if n_classes == 2 and not sliced:
        return (1,)
    return tuple(range(n_classes)) if counted_classes is None else tuple(counted_classes)


def min_class_counts(ends, n, n_classes, *, sliced):
    """Return the least counts of all classes that shares between such ends allow."""
    least_shares = {c: low for c, (low, _) in ends.items()}
    if n_classes == 2 and not sliced:
        least_shares[0] = 1.0 - ends[1][1]
    return tuple(max(0, math.ceil(n * least_shares.get(c, 0.0) - 1e-6)) for c in range(n_classes))


def proportion_grids(class_counts, n_classes, model, n, within_group_fractions=None):
    """Return the cells of every class's share, around those of training labels or of equal ones.

    Of dependent records whole groups are counted, in the holdout as in the training data;
    ``inside``: which part of each share's variance lies inside training groups.
    """
    scheme = model.sampling_scheme(n)
    n_training = None
    shares = [1.0 / n_classes] * n_classes
    inside_groups: Sequence[Any] = within_group_fractions or [None] * n_classes
    if scheme.has_independent_records:
        inside_groups = [0.0] * n_classes
    if class_counts is not None:
        n_training = sum(class_counts) * scheme.n_units / n
        shares = [count / sum(class_counts) for count in class_counts]
    return [
        ProportionGrid.around(
            share,
            scheme.n_units,
            n_training,
            n_classes,
            within_group_fraction=within_group_fraction,
        )
        for share, within_group_fraction in zip(shares, inside_groups, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class PairsTail(Tail):
    """The tail of ROC AUC: a mean over pairs of a positive and a negative record (theory G12).

    Given the labels, the score is an average over pairings of means of :math:`m` independent
    pairs, ``m`` the size of the smaller class (Hoeffding 1963, section 5), so it is dominated in
    convex order by :math:`Bin(m, AUC)/m` and by the same of any smaller ``m``: the bound by hinges
    (G8) holds at the floor. An average over slices of independent units is dominated by it, too
    (G19).
    """

    class_floors: tuple

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        value, levels = broadcast_limit_arguments(values, log_failure)
        smallest = min(self.class_floors)
        if smallest < 1:
            return np.zeros(value.shape)
        return np.minimum(bounded_lower_limit(value, levels, smallest), value)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        # Hanley and McNeil 1982 (exponential scores).
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        negative, positive = (float(max(1, floor)) for floor in self.class_floors)
        size = negative + positive
        auc = (prediction * size + 1.0) / (size + 2.0)
        auc = np.maximum(auc, 1.0 - auc)  # the formula is for a ranking better than chance
        first = (positive - 1.0) * (auc / (2.0 - auc) - auc**2)
        second = (negative - 1.0) * (2.0 * auc**2 / (1.0 + auc) - auc**2)
        return np.sqrt((auc * (1.0 - auc) + first + second) / (negative * positive))


@dataclasses.dataclass(frozen=True)
class ClassMeansTail(Tail):
    """The tail of balanced accuracy and of recalls: a mean over classes of means (theory G12).

    Weighted Chernoff with :math:`w_i = 1/(K n_{c(i)})` at the floors of the counted classes, or
    hinges as if every class had the smallest of them; a class that may be missing contributes
    anything between 0 and 1. In convex order, so slices of independent units are covered (G19).
    """

    class_floors: tuple  # of the classes that are counted

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        value, levels = broadcast_limit_arguments(values, log_failure)
        floors = np.array(self.class_floors, float)
        is_present = floors >= 1.0
        present_share = float(np.mean(is_present))
        if present_share == 0.0:
            return np.zeros(value.shape)
        # The other classes have contributed 1 - present_share at most.
        present_value = np.clip((value - (1.0 - present_share)) / present_share, 0.0, 1.0)
        present_floors = floors[is_present]
        n_records = int(len(present_floors) * present_floors.min())
        limit = bounded_lower_limit(present_value, levels, n_records)
        distinct_floors, n_classes = np.unique(present_floors, return_counts=True)
        if len(distinct_floors) > 1:
            weights = 1.0 / (len(present_floors) * distinct_floors)
            weighted = weighted_lower_limit(
                present_value, levels, weights, n_classes * distinct_floors
            )
            limit = np.maximum(limit, weighted)
        return np.minimum(present_share * limit, value)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        sizes = np.maximum(np.array(self.class_floors, float), 1.0)
        shrunken = (prediction * sizes.sum() + 1.0) / (sizes.sum() + 2.0)
        return np.sqrt(shrunken * (1.0 - shrunken) * np.sum(1.0 / sizes)) / len(sizes)


@dataclasses.dataclass(frozen=True)
class ConstantScoreTail(Tail):
    """The tail of a score that is known by construction, as a constant prediction's AUC."""

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
    """Approximate limits of a metric without a proven bound (theory G34)."""

    approximation: ApproximateLimits | MedianLimits

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        value, levels = broadcast_limit_arguments(values, log_failure)
        return self.approximation.limits(value, value, levels)[0]

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        value, levels = broadcast_limit_arguments(values, log_failure)
        return self.approximation.limits(value, value, levels)[1]

    def limits(
        self, lowest: Array, highest: Array, log_failure: Array, expected: Array | None = None
    ) -> tuple[Array, Array]:
        return self.approximation.limits(lowest, highest, log_failure)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        return self.approximation.standard_deviation(prediction)


@dataclasses.dataclass(frozen=True)
class RatioTail(Tail):
    """Exact limits of precision, Jaccard or F1 at a floor under their denominator (theory G34)."""

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
    """Return the tail of a bounded metric, from public quantities.

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
        bound, or a share of hits among records that count (precision, Jaccard, F1).
    binary : bool, default=False
        Whether every per-record score is 0 or 1.
    classes : sequence of str, default=()
        The classes, for means over classes and pairs.
    class_counts : tuple of int, optional
        Records of each class in the training data: a prediction, without any guarantee.
    counted_classes : tuple of int, optional
        Positions of the classes that count; all by default.
    class_floors : tuple of int, optional
        Least counts of all classes in the holdout, which its mechanism was asked for; by default
        those to be expected from ``class_counts``.
    constant_score : float, optional
        The score of kind ``"known"``.
    within_group_fractions : tuple of float, optional
        Part of the variance of each class's share that lies inside groups of the training data.
    family : {"proportion", "loss", "median", "none"} or {"share", "f1"}, optional
        Limits of kind ``"approximate"``; see
        :class:`~sklearn_bdp.intervals.approximate.ApproximateLimits` and
        :class:`~sklearn_bdp.intervals.approximate.MedianLimits`. Scale of kind ``"ratio"``;
        see :class:`~sklearn_bdp.intervals.ratios.RatioLimits`. For this kind ``class_counts`` are
        the training records that do not count and that do, and ``class_floors`` holds the least
        number of holdout records that count.
    spread : sequence of float, optional
        An :class:`~sklearn_bdp.intervals.approximate.InfluenceSpread` of the training set, or
        the numbers of an :class:`~sklearn_bdp.intervals.approximate.ErrorDistribution`.

    Returns
    -------
    Tail
        A frozen value.

    Raises
    ------
    ValueError
        If something needed is missing or outside its range.

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
        return _approximate_tail(family, spread, model.sampling_scheme(n).n_units)
    if kind == "ratio":
        return _ratio_tail(family, class_floors, class_counts, n)
    if kind == "known":
        return ConstantScoreTail(check_real("constant_score", constant_score, low=0.0, high=1.0))
    n_classes = _count_classes(class_floors, class_counts, classes)
    floors = class_floors
    if floors is None:  # those to be expected before the first query
        scheme = model.sampling_scheme(n)
        sliced = not scheme.has_independent_records
        cells = proportion_grids(class_counts, n_classes, model, n, within_group_fractions)
        needed = needed_classes(n_classes, counted_classes, sliced=sliced)
        ends = {c: cells[c].ends(None) for c in needed}
        floors = min_class_counts(ends, scheme.n_units, n_classes, sliced=sliced)
    if kind == "pairs":
        return PairsTail(tuple(floors))
    return ClassMeansTail(
        tuple(floors if counted_classes is None else (floors[c] for c in counted_classes))
    )


def _count_classes(floors, counts, classes):
    """Return the number of classes; fewer than two, or one without a training record, raise."""
    by_class = next((values for values in (floors, counts, classes) if values), ())
    if len(by_class) < 2 or (counts is not None and min(counts) < 1):
        raise ValueError(
            "classes must hold at least two classes, each with a training record, as in "
            f"get_metric('roc_auc', y=y_train), got classes={tuple(classes)} and "
            f"class_counts={counts}."
        )
    return len(by_class)


def _approximate_tail(family, spread, n_units):
    """Return the tail of a score without a proven bound; ``spread``: as a tuple of numbers."""
    known_family: Any = check_option("family", family, FAMILIES)
    if known_family == "median" and spread is not None:
        deviation, n_train_units, *quantiles = map(float, spread)
        errors = ErrorDistribution(deviation, n_train_units, tuple(quantiles))
        return ApproximateTail(MedianLimits(n_units, errors))
    known_spread = None if spread is None else InfluenceSpread(*map(float, spread))
    return ApproximateTail(ApproximateLimits(known_family, n_units, known_spread))


def _ratio_tail(family, floors, class_counts, n):
    """Return the tail of a ratio of counts; None as ``floors``: the floor that is expected."""
    ratio_kind: Any = check_option("family", family, ("share", "f1"))
    cells, n_expected = expected_floor(class_counts, n)
    ratio_floors = floors or (math.ceil(n * cells.ends(None)[0] - 1e-6),)
    return RatioTail(RatioLimits(ratio_kind, int(ratio_floors[0]), n_expected))
