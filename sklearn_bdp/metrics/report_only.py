"""Metrics of final reports without a proven interval: rankings, calibration and errors.

Their rows rest on leave-one-unit-out values (theory G28). A search takes those that scikit-learn
has, too, with the approximate limits of :mod:`sklearn_bdp.metrics.approximate`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from sklearn_bdp.intervals.jackknife import DateFacts, Statistic
from sklearn_bdp.intervals.left_out import (
    average_precision_by_unit,
    calibration_left_out,
    divide,
    gini_left_out,
    mean_auc_left_out,
    of_sums,
    ratio,
)
from sklearn_bdp.metrics.base import Metric, register_metric
from sklearn_bdp.metrics.statistics import class_cells, confusion_cells, mean_loss

# -- labels and rankings --------------------------------------------------------------------------


def _matthews_terms(y, predictions):
    yield y == predictions
    for label in np.unique([*np.unique(y), *np.unique(predictions)]):
        yield from (y == label, predictions == label)


def _matthews(count, hits, *sums):
    actual = np.array(sums[0::2])
    predicted = np.array(sums[1::2])
    covariance = hits * count - np.sum(actual * predicted, axis=0)
    actual_variance = count**2 - np.sum(actual**2, axis=0)
    predicted_variance = count**2 - np.sum(predicted**2, axis=0)
    return divide(covariance, np.sqrt(actual_variance * predicted_variance))


@register_metric("matthews_corrcoef")
@dataclasses.dataclass(frozen=True, kw_only=True)
class MatthewsCorrcoef(Metric):
    """Correlation between actual and predicted classes."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "labels", of_sums(_matthews_terms, _matthews), "signed", confusion_cells
    )


@register_metric("average_precision")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragePrecision(Metric):
    """Precision, averaged over the recall that is gained at each threshold."""

    options: ClassVar[tuple[str, ...]] = ("pos_label",)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "scores",
        average_precision_by_unit,
        "unit",
        class_cells,
        trust=(0.005, 0.005),
        few=30,
        dates=DateFacts(trust=0.01),
    )


@register_metric("roc_auc_ovr")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAucOvr(Metric):
    """Mean over classes of the area under the ROC curve of each against the rest."""

    unit_statistic: ClassVar[Statistic] = Statistic(
        "all_chances", functools.partial(mean_auc_left_out, pairs=False), "unit", class_cells
    )


@register_metric("roc_auc_ovo")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAucOvo(Metric):
    """Mean over pairs of classes of the area under the ROC curve of one against the other."""

    unit_statistic: ClassVar[Statistic] = Statistic(
        "all_chances", functools.partial(mean_auc_left_out, pairs=True), "unit", class_cells
    )


# -- probabilities --------------------------------------------------------------------------------


@register_metric("calibration_slope")
@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationSlope(Metric):
    """Slope of a logistic regression of the targets on the predicted log odds."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "chances",
        functools.partial(calibration_left_out, slope=True),
        "raw",
        class_cells,
        trust=(0.005, 0.005),
        dates=DateFacts(trust=0.05),
    )


@register_metric("calibration_intercept")
@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationIntercept(Metric):
    """Shift of the predicted log odds that makes them right on average."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "chances",
        functools.partial(calibration_left_out, slope=False),
        "raw",
        class_cells,
        trust=(0.002, 0.002),
        dates=DateFacts(trust=0.01),
    )


@register_metric("net_benefit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NetBenefit(Metric):
    """True positives less weighted false positives of acting on probabilities of a threshold.

    A false positive counts ``threshold / (1 - threshold)``, as in decision curves.
    """

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 1.0)
    options: ClassVar[tuple[str, ...]] = ("threshold",)
    number_option: ClassVar[str] = "threshold"
    needs_number: ClassVar[bool] = True

    threshold: float

    @classmethod
    def build(cls, name, *, classes, y, options):
        threshold = options["threshold"]
        lower, upper = cls.score_range
        return cls(name=name, lower=lower, upper=upper, threshold=threshold)

    @property
    def unit_statistic(self):
        threshold = self.threshold
        benefits = np.array([-threshold / (1.0 - threshold), 1.0])  # of acting on either class

        def benefit(y, predictions):
            return benefits[y] * (predictions >= threshold)

        def cells(y, predictions):
            return [("true positive{s}", (y == 1) & (predictions >= threshold))]

        return Statistic(
            "chances", ratio(benefit), "raw", cells, trust=(0.001, 0.002), skewed=(True, True)
        )


# -- errors ---------------------------------------------------------------------------------------


def _squares(y, predictions):
    return (y - predictions) ** 2


def _explained(count, y, square, loss):
    return 1.0 - divide(loss, square - divide(y**2, count))


def _explained_about(center):
    """Return ``left_out`` for R² about a fixed number: the mean of the training targets."""
    return of_sums(
        lambda y, predictions: ((y - center) ** 2, _squares(y, predictions)),
        lambda _, squares, loss: 1.0 - loss / squares,
    )


@register_metric("r2")
@dataclasses.dataclass(frozen=True, kw_only=True)
class R2(Metric):
    """Share of the variance of the targets that predictions explain."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values",
        of_sums(lambda y, predictions: (y, y**2, _squares(y, predictions)), _explained),
        "explained",
        trust=(0.02, 0.02),
        skewed=(True, True),
        heavy=True,
        dates=DateFacts(trust=0.01, left_out_about=_explained_about),
    )


def _root(count, loss):
    return np.sqrt(divide(np.maximum(loss, 0.0), count))


@register_metric("neg_root_mean_squared_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RootMeanSquaredError(Metric):
    """Minus the root of the mean squared error."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values",
        of_sums(lambda y, predictions: (_squares(y, predictions),), _root),
        "loss",
        negative=True,
        trust=(0.002, 0.005),
        skewed=(True, True),
        heavy=True,
    )


def _relative_error(y, predictions):
    return np.abs(y - predictions) / np.maximum(np.abs(y), np.finfo(float).eps)


@register_metric("neg_mean_absolute_percentage_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AbsolutePercentageError(Metric):
    """Minus the mean absolute error, relative to the target."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _relative_error, skewed=(True, True), heavy=True, dates=DateFacts(divides_by_targets=True)
    )


def _poisson_deviance(y, predictions):
    return 2.0 * (xlogy(y, y / predictions) - y + predictions)


@register_metric("neg_mean_poisson_deviance")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PoissonDeviance(Metric):
    """Minus the mean deviance of counts."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    needs_positive_predictions: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _poisson_deviance, skewed=(True, True), heavy=True
    )


def _gamma_deviance(y, predictions):
    return 2.0 * (np.log(predictions / y) + y / predictions - 1.0)


@register_metric("neg_mean_gamma_deviance")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GammaDeviance(Metric):
    """Minus the mean deviance of positive targets, relative to their size."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    needs_positive_predictions: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _gamma_deviance, skewed=(True, True), heavy=True
    )


@register_metric("gini")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Gini(Metric):
    """Normalized Gini coefficient: the ranking by predictions over that by the targets."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values", gini_left_out, "signed", skewed=(True, True), heavy=True
    )
