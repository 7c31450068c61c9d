"""Ratios of two counts of predicted labels, such as precision, which can have exact limits.

A final report reads both counts, so that its limits can be those of a proportion (theory G28). A
search can release a lower bound of the denominator first (theory G34).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.jackknife import Statistic
from sklearn_bdp.intervals.ratios import RatioKind, score_of_share
from sklearn_bdp.metrics import proofs
from sklearn_bdp.metrics.base import Metric, register_metric
from sklearn_bdp.metrics.statistics import count_ratio


class RatioOfCounts:
    """A metric that is a ratio of two counts: its counts, limits and proofs."""

    is_ratio: ClassVar[bool] = True
    is_binary: ClassVar[bool] = True
    #: Whether the denominator does not depend on predictions, so that differences of two models
    #: are means over its records.
    has_fixed_denominator: ClassVar[bool] = False
    #: ``"share"`` if the score is the proportion of hits, ``"f1"`` if it is F1 of that.
    ratio_kind: ClassVar[RatioKind] = "share"
    #: Largest contribution of a record to the denominator.
    record_bound: ClassVar[float] = 1.0
    unit_statistic: ClassVar[Statistic]

    @property
    def counts_negatives(self) -> bool:
        """Whether the score is a share of the other class of two, in which no other label counts.

        A property, because keys of queries contain constants of classes.
        """
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.unit_statistic = count_ratio(cls.counts)

    @classmethod
    def without_range(cls, name: str, options: Any) -> Any:
        """Return the metric with the range [0, 1]; ``options`` have no effect."""
        return cls(name=name, lower=0.0, upper=1.0)  # type: ignore[call-arg] # of the metric

    @staticmethod
    def counts(actual: Array, predicted: Array) -> tuple[Array, Array]:
        """Return the contribution of each record to the numerator and to the denominator.

        Parameters
        ----------
        actual, predicted : ndarray of bool, shape (n,)
            Which records are positive, and which are predicted as positive.

        Returns
        -------
        numerator, denominator : ndarray of shape (n,)
            Numbers from 0 to :attr:`record_bound`.
        """
        raise NotImplementedError

    @classmethod
    def share_counts(cls, actual: Array, predicted: Array) -> tuple[Array, Array]:
        """Return masks of the hits and of the records that count (theory G34).

        Parameters
        ----------
        actual, predicted : ndarray of bool, shape (n,)
            Which records are positive, and which are predicted as positive.

        Returns
        -------
        hits, counted : ndarray of bool, shape (n,)
            All hits count. The score is the proportion of hits among the records that count, or F1
            as a function of it, by :attr:`ratio_kind`.
        """
        return cls.counts(actual, predicted)

    @staticmethod
    def expected_denominator(prevalence: float) -> float:
        """Return the expected contribution of a record to the denominator.

        It is computed as if all predictions were correct.

        Parameters
        ----------
        prevalence : float
            Proportion of positive records.

        Returns
        -------
        float
            From 0 to :attr:`record_bound`.
        """
        return prevalence

    def proof(
        self,
        dependence: str,
        *,
        is_difference: bool = False,
        in_subgroup: bool = False,
        is_private: bool = False,
    ) -> str:
        """Return the name of the method that proves a row of a final report, empty without one.

        Differences of two models need a denominator that does not depend on predictions.
        """
        if not is_difference:
            return proofs.CLASS_SHARE.get(dependence, "")
        return proofs.CLASS_DIFFERENCE.get(dependence, "") if self.has_fixed_denominator else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RatioMetric(RatioOfCounts, Metric):
    """Base of metrics that are ratios of two counts."""

    options: ClassVar[tuple[str, ...]] = ("pos_label",)
    #: Name of scikit-learn's score function; empty without one.
    score_function: ClassVar[str] = ""

    pos_label: Any = 1


@register_metric("precision")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Precision(RatioMetric):
    """Share of the records predicted as positive that are positive."""

    score_function: ClassVar[str] = "precision_score"

    @staticmethod
    def counts(actual, predicted):
        return actual & predicted, predicted


@register_metric("negative_predictive_value")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NegativePredictiveValue(RatioMetric):
    """Share of the records predicted as negative that are negative."""

    @property
    def counts_negatives(self) -> bool:
        """Whether the score is a share of the other class of two: it is."""
        return True

    @staticmethod
    def counts(actual, predicted):
        return ~actual & ~predicted, ~predicted

    @staticmethod
    def expected_denominator(prevalence):
        return 1.0 - prevalence


@register_metric("jaccard")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Jaccard(RatioMetric):
    """True positives as a share of the records that are positive or predicted as positive."""

    score_function: ClassVar[str] = "jaccard_score"

    @staticmethod
    def counts(actual, predicted):
        return actual & predicted, actual | predicted


@register_metric("f1")
@dataclasses.dataclass(frozen=True, kw_only=True)
class F1(RatioMetric):
    """Twice the true positives over the sum of the actual and the predicted positives."""

    score_function: ClassVar[str] = "f1_score"
    ratio_kind: ClassVar[RatioKind] = "f1"
    is_binary: ClassVar[bool] = False
    record_bound: ClassVar[float] = 2.0

    @staticmethod
    def counts(actual, predicted):
        return 2 * (actual & predicted), actual.astype(int) + predicted

    @classmethod
    def share_counts(cls, actual, predicted):
        return Jaccard.counts(actual, predicted)

    @staticmethod
    def expected_denominator(prevalence):
        return 2.0 * prevalence

    @staticmethod
    def count_limits(numerator, denominator, alpha, *, identically_distributed):
        n_hits = 0.5 * numerator
        jaccard_limits = Jaccard.count_limits(
            n_hits, denominator - n_hits, alpha, identically_distributed=identically_distributed
        )
        lower, upper = score_of_share(jaccard_limits, "f1").tolist()
        return lower, upper
