"""Metrics of final reports without a proven interval, such as rankings, calibration and errors.

Their intervals come from scores without each sampling unit (theory G28). Searches support those
that scikit-learn has, too, with approximate limits (:mod:`sklearn_bdp.metrics.approximate`).
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
from sklearn_bdp.metrics.statistics import class_outcomes, confusion_outcomes, mean_loss

# -- labels and rankings --------------------------------------------------------------------------


def _matthews_terms(y, predictions):
    """Yield the mask of correct predictions, then two for each class: by target, by prediction."""
    yield y == predictions
    for label in np.unique([*np.unique(y), *np.unique(predictions)]):
        yield from (y == label, predictions == label)


def _matthews_of_sums(n, n_hits, *sums):
    """Return Matthews' correlation from weighted sums over records.

    They are the weights of all records, of correct predictions, and then for each class those of
    its targets and of its predictions.
    """
    actual = np.array(sums[0::2])
    predicted = np.array(sums[1::2])
    covariance = n_hits * n - np.sum(actual * predicted, axis=0)
    actual_variance = n**2 - np.sum(actual**2, axis=0)
    predicted_variance = n**2 - np.sum(predicted**2, axis=0)
    return divide(covariance, np.sqrt(actual_variance * predicted_variance))


@register_metric("matthews_corrcoef")
@dataclasses.dataclass(frozen=True, kw_only=True)
class MatthewsCorrcoef(Metric):
    """Correlation between actual and predicted classes."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "labels", of_sums(_matthews_terms, _matthews_of_sums), "signed", confusion_outcomes
    )


@register_metric("average_precision")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragePrecision(Metric):
    """Mean precision over thresholds, weighted by the increase in recall at each."""

    options: ClassVar[tuple[str, ...]] = ("pos_label",)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "scores",
        average_precision_by_unit,
        "unit",
        class_outcomes,
        min_tested_alphas=(0.005, 0.005),
        few_outcome_units=30,
        dates=DateFacts(min_tested_alpha=0.01),
    )


@register_metric("roc_auc_ovr")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAucOvr(Metric):
    """Mean over classes of the area under the ROC curve of the class against all others."""

    unit_statistic: ClassVar[Statistic] = Statistic(
        "all_chances", functools.partial(mean_auc_left_out, by_pairs=False), "unit", class_outcomes
    )


@register_metric("roc_auc_ovo")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAucOvo(Metric):
    """Mean over pairs of classes of the area under the ROC curve of one against the other."""

    unit_statistic: ClassVar[Statistic] = Statistic(
        "all_chances", functools.partial(mean_auc_left_out, by_pairs=True), "unit", class_outcomes
    )


# -- probabilities --------------------------------------------------------------------------------


@register_metric("calibration_slope")
@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationSlope(Metric):
    """Slope of a logistic regression of the targets on the predicted log odds."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "chances",
        functools.partial(calibration_left_out, with_slope=True),
        "raw",
        class_outcomes,
        min_tested_alphas=(0.005, 0.005),
        dates=DateFacts(min_tested_alpha=0.05),
    )


@register_metric("calibration_intercept")
@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationIntercept(Metric):
    """Intercept of a logistic regression of the targets with the predicted log odds as offset."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "chances",
        functools.partial(calibration_left_out, with_slope=False),
        "raw",
        class_outcomes,
        min_tested_alphas=(0.002, 0.002),
        dates=DateFacts(min_tested_alpha=0.01),
    )


@register_metric("net_benefit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NetBenefit(Metric):
    """Rate of true positives minus weighted false positives at a threshold of the probability.

    A false positive has the weight ``threshold / (1 - threshold)``, as in decision curves.
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
        """Statistic of the net benefit, from targets of 0 and 1 and probabilities of 1."""
        threshold = self.threshold
        # Contribution of a record that is predicted as positive, by its actual class.
        benefit_by_class = np.array([-threshold / (1.0 - threshold), 1.0])

        def benefit(y, predictions):
            return benefit_by_class[y] * (predictions >= threshold)

        def outcome_masks(y, predictions):
            return [("true positive{s}", (y == 1) & (predictions >= threshold))]

        return Statistic(
            response="chances",
            left_out=ratio(benefit),
            scale="raw",
            outcome_masks=outcome_masks,
            min_tested_alphas=(0.001, 0.002),
            corrects_skewness=(True, True),
        )


# -- errors ---------------------------------------------------------------------------------------


def _squared_errors(y, predictions):
    """Return the squared error of each record."""
    return (y - predictions) ** 2


def _r2_of_sums(n, y_sum, y_squared_sum, squared_error_sum):
    """Return R² from weighted sums over records; ``n`` is the sum of the weights."""
    total_sum_of_squares = y_squared_sum - divide(y_sum**2, n)
    return 1.0 - divide(squared_error_sum, total_sum_of_squares)


def _r2_about(center):
    """Return the function that computes R² about the mean training target without each unit.

    ``center`` is that mean.
    """
    return of_sums(
        lambda y, predictions: ((y - center) ** 2, _squared_errors(y, predictions)),
        lambda _, squared_deviations, squared_errors: 1.0 - squared_errors / squared_deviations,
    )


@register_metric("r2")
@dataclasses.dataclass(frozen=True, kw_only=True)
class R2(Metric):
    """Coefficient of determination: proportion of the variance of the targets that is explained."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values",
        of_sums(lambda y, predictions: (y, y**2, _squared_errors(y, predictions)), _r2_of_sums),
        "explained",
        min_tested_alphas=(0.02, 0.02),
        corrects_skewness=(True, True),
        is_heavy_tailed=True,
        dates=DateFacts(min_tested_alpha=0.01, left_out_about=_r2_about),
    )


def _root_mean(n, squared_error_sum):
    """Return the root mean squared error from the sum of weights ``n`` and of squared errors."""
    return np.sqrt(divide(np.maximum(squared_error_sum, 0.0), n))


@register_metric("neg_root_mean_squared_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RootMeanSquaredError(Metric):
    """Minus the root of the mean squared error."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values",
        of_sums(lambda y, predictions: (_squared_errors(y, predictions),), _root_mean),
        "loss",
        is_negated=True,
        min_tested_alphas=(0.002, 0.005),
        corrects_skewness=(True, True),
        is_heavy_tailed=True,
    )


def _relative_error(y, predictions):
    """Return each record's absolute error divided by its absolute target (at least epsilon)."""
    return np.abs(y - predictions) / np.maximum(np.abs(y), np.finfo(float).eps)


@register_metric("neg_mean_absolute_percentage_error")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AbsolutePercentageError(Metric):
    """Minus the mean absolute error, relative to the target."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _relative_error,
        corrects_skewness=(True, True),
        is_heavy_tailed=True,
        dates=DateFacts(divides_by_targets=True),
    )


def _poisson_deviance(y, predictions):
    """Return the Poisson deviance of each record."""
    return 2.0 * (xlogy(y, y / predictions) - y + predictions)


@register_metric("neg_mean_poisson_deviance")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PoissonDeviance(Metric):
    """Minus the mean Poisson deviance, for counts."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    needs_positive_predictions: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _poisson_deviance, corrects_skewness=(True, True), is_heavy_tailed=True
    )


def _gamma_deviance(y, predictions):
    """Return the gamma deviance of each record."""
    return 2.0 * (np.log(predictions / y) + y / predictions - 1.0)


@register_metric("neg_mean_gamma_deviance")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GammaDeviance(Metric):
    """Minus the mean gamma deviance, for positive targets with errors in proportion to them."""

    score_range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    needs_positive_predictions: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = mean_loss(
        _gamma_deviance, corrects_skewness=(True, True), is_heavy_tailed=True
    )


@register_metric("gini")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Gini(Metric):
    """Normalized Gini coefficient: that of the ranking by predictions over that by targets."""

    score_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    unit_statistic: ClassVar[Statistic] = Statistic(
        "values", gini_left_out, "signed", corrects_skewness=(True, True), is_heavy_tailed=True
    )
