"""Tails of scores that weigh records by class, whose counts on the holdout stay unknown.

What is public are the counts of the training data. They bound the class shares of the population
(Clopper-Pearson), those bound the counts of the holdout, and both failures are paid for inside
each limit: a small part of its failure probability. Theory G12.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import bdtr, betaincc

from sklearn_bdp._bisection import last_accepted, last_whole
from sklearn_bdp._checks import check_array, check_integer, check_option, check_real
from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.accounting._tails import ModelTail, SensitivityTail, Tail, WeightedTail
from sklearn_bdp.correlation import (
    CorrelationModel,
    binomial_lower_limit,
    bounded_log_tail,
    bounded_lower_limit,
    chernoff_lower_limit,
    weighted_lower_limit,
)

# Part of a limit's failure probability that pays for the class counts; the rest is left to the
# scores. A smaller part makes the bound on the shares wider, a larger one the limit itself.
_PART = 0.05


def _shares(class_counts, level, largest=1):
    """Return lower limits of all class shares; together they fail with ``_PART``/2 e^level.

    Groups of the training data hold ``largest`` records at most: Chernoff with whole groups.
    """
    total = sum(class_counts)
    each = np.full(len(class_counts), level + math.log(0.5 * _PART / len(class_counts)))
    values = np.array(class_counts) / total
    if largest == 1:
        return binomial_lower_limit(values, each, total)
    return chernoff_lower_limit(values, -each * largest / total)


def _count_limit(share, n, level):
    """Return the largest count that ``n`` independent records miss with probability e^level."""
    # P[Bin(n, share) < count]
    missed = lambda count: betaincc(count, n - count + 1, share) <= math.exp(level)  # noqa: E731
    return last_whole(missed, 0, n + 1)


def _model_count_limit(share, model, n, level):
    """Return a count that the records of any model miss with probability e^level at most."""

    def missed(part):
        # 1 - the share of a class is a mean of 0/1 scores, whatever the correlation.
        return part < share and model.log_tail_above(1.0 - share, 1.0 - part, n) <= level

    return math.floor(n * last_accepted(missed, 0.0, 1.0, steps=30))


def _log_sum(logs):
    """Return ``ln sum exp`` over the last axis."""
    top = logs.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(logs - top).sum(axis=-1))


def _by_level(limit, values, levels):
    """Apply ``limit(values, levels, lowest)`` to levels of one quarter of a nat at a time.

    Class counts are bounded at the lowest level of the quarter, which is safe for all of it.
    """
    result, quarters = np.zeros(values.shape), np.floor(4.0 * levels) / 4.0
    for lowest in np.unique(quarters):
        chosen = (quarters == lowest) & (levels < 0.0)
        if chosen.any():
            result[chosen] = limit(values[chosen], levels[chosen], float(lowest))
    return np.minimum(result, values)


def _smaller_class(share, n, level, floor, step):
    """Return sizes that the smaller class may have, rounded down, and their log probabilities.

    The size is the smaller one of ``Bin(n, share)`` and its complement; ``share`` is the lowest
    that the smaller class may have, which makes it stochastically smallest. Cells are ``step``
    standard deviations wide; sizes below ``floor``, or far rarer than e^level, count as 0.
    """
    share = min(share, 0.5)
    deviation = math.sqrt(n * share * (1.0 - share))
    span = math.sqrt(2.0 * (5.0 - level)) + 2.0
    edges = np.floor(n * share + deviation * np.arange(-span, 2.0, step))
    edges = np.unique(np.clip(edges, max(floor, 1), n // 2))
    # P[size < edge] by union over the two classes, disjoint up to n / 2.
    below = bdtr(edges - 1, n, share) + bdtr(edges - 1, n, 1.0 - share)
    with np.errstate(divide="ignore"):
        masses = np.log(np.maximum(np.diff(np.r_[0.0, np.minimum(below, 1.0), 1.0]), 0.0))
    return np.r_[0.0, edges], masses


@dataclasses.dataclass(frozen=True)
class PairsTail(Tail):
    """The tail of ROC AUC: a mean over pairs of a positive and a negative record (theory G12).

    ``class_counts`` are those of the training data, which were drawn like the holdout; below
    ``class_floors`` in the holdout the score is a constant.

    Given the labels, the score is an average over pairings of means of :math:`m` independent
    pairs, ``m`` the size of the smaller class (Hoeffding 1963, section 5), so it is dominated in
    convex order by :math:`Bin(m, AUC)/m`: the bound by hinges (G8) holds with ``m`` for ``n``. It
    is averaged over the distribution of ``m`` at the lowest class share that the training data
    allow. Records that depend on each other inside groups: McDiarmid's inequality, a group moving
    the score by the sum of its shares of both classes.
    """

    model: CorrelationModel
    n: int
    class_counts: tuple
    class_floors: tuple

    def _lower(self, values, levels):
        limit = self._limit if self.model.is_independent else self._grouped_limit
        return _by_level(limit, values, levels)

    def _limit(self, values, levels, lowest):
        share = min(_shares(self.class_counts, lowest))
        floor, rest = min(self.class_floors), levels + math.log1p(-_PART)
        sizes, masses = _smaller_class(share, self.n, lowest, floor, 0.2)
        low = chernoff_lower_limit(values, _averaged_rate(sizes, masses, rest))
        sizes, masses = _smaller_class(share, self.n, lowest, floor, 0.6)
        high = bounded_lower_limit(values, rest, float(sizes[-1]))

        def rejected(means):
            tails = bounded_log_tail(means[:, None], values[:, None], sizes[1:])
            return _log_sum(masses + np.column_stack([np.zeros(len(values)), tails])) <= rest

        return last_accepted(
            rejected, np.minimum(low, high), np.where(masses[0] < rest, high, low), steps=9
        )

    def _grouped_limit(self, values, levels, lowest):
        counts = _count_limits(self.model, self.n, self.class_counts, lowest)
        smallest = min(counts)
        if smallest < max(1, min(self.class_floors)):
            return np.zeros(values.shape)
        rest = levels + math.log1p(-_PART)
        worst = SensitivityTail(self.model, self.n, 1.0 / smallest)._lower(values, rest)
        return np.maximum(worst, _shared_limit(values, rest, self.model, self.n, counts))

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        # Hanley and McNeil 1982 (exponential scores), at the expected class counts.
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        effective = self.model.effective_n(self.n)
        negative, positive = (
            max(1.0, effective * count / sum(self.class_counts)) for count in self.class_counts
        )
        auc = (prediction * effective + 1.0) / (effective + 2.0)
        auc = np.maximum(auc, 1.0 - auc)  # the formula is for a ranking better than chance
        first = (positive - 1.0) * (auc / (2.0 - auc) - auc**2)
        second = (negative - 1.0) * (2.0 * auc**2 / (1.0 + auc) - auc**2)
        return np.sqrt((auc * (1.0 - auc) + first + second) / (negative * positive))


def _count_limits(model, n, class_counts, level):
    """Return counts of the holdout that fail, with the shares, with ``_PART`` e^level at most."""
    each = level + math.log(0.5 * _PART / len(class_counts))
    if model.is_independent:
        return [_count_limit(share, n, each) for share in _shares(class_counts, level)]
    shares = _shares(class_counts, level, model.largest_component(n))
    return [_model_count_limit(share, model, n, each) for share in shares]


@functools.lru_cache(maxsize=256)
def _squared_shares(model, n, counts):
    r"""Return a limit of ``sum_g (sum_c k_gc / n_c)^2`` over what the classes of groups may be.

    ``k_gc`` records of class ``c`` in group ``g``. The sum is convex, so it is largest where all
    groups but ``K - 1`` are pure: in each class the largest groups, filled up to its count.
    """
    sizes = -np.sort(-np.bincount(np.unique(model.components(n), return_inverse=True)[1]))
    total = (len(counts) - 1) * (float(sizes[0]) / min(counts)) ** 2
    for count in counts:
        filled = np.minimum(np.cumsum(sizes), count)
        total += float(np.sum(np.diff(np.r_[0.0, filled]) ** 2)) / count**2
    return total


def _shared_limit(values, levels, model, n, counts, part=1.0):
    """Return McDiarmid's limits where a group moves a score by its shares of the classes only."""
    if not model.is_componentwise:
        return np.zeros(np.shape(values))
    squares = part**2 * _squared_shares(model, n, tuple(float(count) for count in counts))
    return np.maximum(values - np.sqrt(-0.5 * squares * levels), 0.0)


def _averaged_rate(sizes, masses, levels):
    """Return the rates ``r`` with ``ln E exp(-m r) <= level``, ``inf`` where there is none."""
    enough = lambda rates: _log_sum(masses - sizes * rates[:, None]) <= levels  # noqa: E731
    rates = last_accepted(enough, -2.0 * levels / max(1.0, sizes[1]), np.zeros(levels.shape))
    return np.where(enough(rates), rates, np.inf)


@dataclasses.dataclass(frozen=True)
class ClassMeansTail(Tail):
    """The tail of balanced accuracy: a mean over the classes of means over their records (G12).

    Counts and floors as for `PairsTail`. Weighted Chernoff with :math:`w_i = 1/(K n_{c(i)})` at
    lower limits of the counts; a class that may be missing contributes anything between 0 and 1.
    Records that depend on each other inside groups: McDiarmid's inequality, a group moving the
    score by its mean share of the classes.
    """

    model: CorrelationModel
    n: int
    class_counts: tuple
    class_floors: tuple

    def _lower(self, values, levels):
        return _by_level(self._limit, values, levels)

    def _limit(self, values, levels, lowest):
        counts = np.array(_count_limits(self.model, self.n, self.class_counts, lowest), float)
        sure = counts >= np.maximum(self.class_floors, 1)
        part = float(np.mean(sure))
        if part == 0.0:
            return np.zeros(values.shape)
        rest = levels + math.log1p(-_PART)
        # The other classes have contributed 1 - part at most.
        least = np.clip((values - (1.0 - part)) / part, 0.0, 1.0)
        known = counts[sure]
        if self.model.is_independent:
            distinct, how_many = np.unique(known, return_counts=True)
            weights = 1.0 / (len(known) * distinct)
            limit = weighted_lower_limit(least, rest, weights, how_many * distinct)
        else:
            sensitivity = 1.0 / (len(known) * known.min())
            limit = SensitivityTail(self.model, self.n, sensitivity)._lower(least, rest)
            shared = _shared_limit(least, rest, self.model, self.n, known, 1.0 / len(known))
            limit = np.maximum(limit, shared)
        return part * limit

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        effective, total = self.model.effective_n(self.n), sum(self.class_counts)
        expected = [max(1.0, effective * count / total) for count in self.class_counts]
        drawn = (prediction * effective + 1.0) / (effective + 2.0)
        scale = math.sqrt(sum(1.0 / size for size in expected)) / len(expected)
        return np.sqrt(drawn * (1.0 - drawn)) * scale


@dataclasses.dataclass(frozen=True)
class KnownSizesTail(Tail):
    """The tail of a score by class where lower bounds of the holdout's own counts are paid for.

    ``class_sizes`` are the bounds, 0 for classes that may be missing, and ``price`` the nats that
    they give away: whatever is released from now on pays them, once for the named ``classes``.
    Kinds are ``"pairs"`` and ``"class_means"``; McDiarmid's inequality unless records are
    independent. Theory G10 (what is computed from holdout labels is released) and G12.
    """

    model: CorrelationModel
    n: int
    kind: str
    class_sizes: tuple
    price: float = 0.0
    classes: tuple = ()

    def _lower(self, values, levels):
        smallest = min(self.class_sizes)
        if smallest < 1:
            return np.zeros(values.shape)
        if not self.model.is_independent:
            part = 1.0 if self.kind == "pairs" else 1.0 / len(self.class_sizes)
            tail = SensitivityTail(self.model, self.n, part / smallest)
            shared = _shared_limit(values, levels, self.model, self.n, self.class_sizes, part)
            return np.maximum(tail._lower(values, levels), shared)
        if self.kind == "pairs":
            return np.minimum(bounded_lower_limit(values, levels, smallest), values)
        sizes, how_many = np.unique(np.array(self.class_sizes, float), return_counts=True)
        weights = 1.0 / (len(self.class_sizes) * sizes)
        return weighted_lower_limit(values, levels, weights, how_many * sizes)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        counts = tuple(max(1, size) for size in self.class_sizes)
        tail = PairsTail if self.kind == "pairs" else ClassMeansTail
        return tail(self.model, self.n, counts, counts).standard_deviation(prediction)


_KINDS = ("mean", "weighted", "class_means", "pairs", "bounded")


def score_tail(
    model: CorrelationModel,
    n: int,
    *,
    kind: Literal["mean", "weighted", "class_means", "pairs", "bounded"] = "mean",
    binary: bool = False,
    class_counts: tuple[int, ...] | None = None,
    class_floors: tuple[int, ...] | None = None,
    class_sizes: tuple[int, ...] | None = None,
    price: float = 0.0,
    classes: Sequence[str] = (),
    weights: Sequence[tuple[float, int]] | None = None,
    sensitivity: float | None = None,
) -> Tail:
    """Return the tail of a bounded metric from what is public about it.

    The keywords are the fields of :class:`sklearn_bdp.metrics.ScoreShape`.

    Parameters
    ----------
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    kind : {"mean", "weighted", "class_means", "pairs", "bounded"}, default="mean"
        A mean over records, one with public weights, a mean over classes of means over their
        records, a mean over pairs of records of two classes, or any query of known sensitivity.
    binary : bool, default=False
        Whether every per-record score is 0 or 1.
    class_counts : tuple of int, optional
        Records of each class in the training data, for means over classes and pairs.
    class_floors : tuple of int, optional
        Counts of the holdout below which a class's score is a constant; by default 1 each.
    class_sizes : tuple of int, optional
        Without ``class_counts``: lower bounds of the holdout's own counts.
    price : float, default=0.0
        Nats that they give away.
    classes : sequence of str, default=()
        The classes they were counted for, if they were named.
    weights : tuple of (float, int), optional
        Distinct weights, which sum to 1 over the records, and how many records have each.
    sensitivity : float, optional
        How far one record can move a score of kind ``"bounded"``.

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
    >>> from sklearn_bdp.accounting import score_tail
    >>> from sklearn_bdp.correlation import Independent
    >>> tail = score_tail(Independent(), 1000, binary=True)
    >>> tail.lower_limit([0.9], -3.7).round(3), tail.upper_limit([0.9], -3.7).round(3)
    (array([0.88]), array([0.918]))
    """
    n = check_integer("n", n, low=1)
    kind = check_option("kind", kind, _KINDS)
    if kind == "mean":
        return ModelTail(model, n, bool(binary))
    if kind == "bounded":
        if sensitivity is None:
            raise ValueError("sensitivity must be given for kind='bounded', got None.")
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
        return SensitivityTail(model, n, sensitivity)
    if kind == "weighted":
        if not weights or sum(count for _, count in weights) != n:
            raise ValueError(f"weights must be pairs (weight, count) of n={n} records.")
        return WeightedTail(model, n, tuple(weights))
    if class_counts is None and class_sizes is not None:
        price = check_real("price", price, low=0.0)
        return KnownSizesTail(model, n, kind, tuple(class_sizes), price, tuple(classes))
    if class_counts is None or len(class_counts) < 2 or min(class_counts) < 1:
        raise ValueError(
            "class_counts must hold the records of each class in the training data (at least two "
            "classes): the holdout's own counts would be given away by the width of an interval. "
            "Make the metric with them, as in get_metric('roc_auc', y=training_targets); got "
            f"class_counts={class_counts}."
        )
    floors = (1,) * len(class_counts) if class_floors is None else tuple(class_floors)
    if len(floors) != len(class_counts):
        raise ValueError(f"class_floors must be {len(class_counts)} counts, got {floors}.")
    tail = PairsTail if kind == "pairs" else ClassMeansTail
    return tail(model, n, tuple(class_counts), floors)
