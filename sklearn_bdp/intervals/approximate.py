r"""Approximate limits of metrics without a proven bound, for interim intervals (theory G34).

The code length of a release accounts for adaptive queries, for any statistic. An approximate
interval therefore needs limits for a *fixed* model whose non-coverage stays near the failure
probability, also if that is small. The spread of the metric is public: it is estimated from pooled
predictions of training records by the same candidate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv, ndtri_exp, stdtrit

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.utils.validation import check_array

#: Families of :class:`ApproximateLimits`.
Family: TypeAlias = Literal["proportion", "loss", "none"]
#: All families of approximate limits, as ledgers name them. Medians have :class:`MedianLimits`.
FAMILIES = ("proportion", "loss", "median", "none")
#: Largest number of steps in a table of quantiles of errors.
_MAX_STEPS = 200

#: Smallest degrees of freedom, for heavy-tailed influence values.
_MIN_DF = 3.0
#: Proportions in released ranges narrower than this many standard deviations of the score get
#: wider limits, because the width of the range does not compensate for the error of the estimated
#: spread.
_NARROW_DEVIATIONS = 0.6
#: Assumed standard deviation of one sampling unit's score without an estimate, in units of [0, 1].
_UNKNOWN_DEVIATION = 0.5
#: Smallest one-sided failure probability at which the formulas were simulated. Below it, rare
#: large values decide the coverage for losses without an upper end.
TESTED_ALPHA = 1e-3
#: The same for metrics of the confusion matrix and of clipped squared errors.
SMALLEST_TESTED_ALPHA = 1e-4


class InfluenceSpread(NamedTuple):
    """Spread of a metric's influence values on some records, in units of [0, 1].

    Parameters
    ----------
    center : float
        Score of pooled predictions of these records, at which the spread was estimated. For
        metrics of a confusion matrix, it is computed with added pseudo records.
    deviation : float
        Standard deviation of the influence of one sampling unit, or a larger number.
    kurtosis : float
        Kurtosis of the influence of one sampling unit, at least 1.
    n_units : float
        Number of sampling units (records or groups) with a pooled prediction.
    max_df : float
        Upper limit of the degrees of freedom: the number of blocks minus 1, or at least 1e9 if the
        influence of each unit is known.
    """

    center: float
    deviation: float
    kurtosis: float
    n_units: float
    max_df: float


def influence_spread(
    center: float,
    influence: Array,
    *,
    units_per_block: float = 1.0,
    multiplicities: Array | None = None,
    n_units: float | None = None,
) -> InfluenceSpread:
    """Return the spread of the influence of one sampling unit, from that of units or of blocks.

    Parameters
    ----------
    center : float
        Score in [0, 1] at which the influence values were taken.
    influence : ndarray of shape (n_values,)
        Influence of each unit, with a mean near 0. For blocks: the mean influence of the units of
        each block.
    units_per_block : float, default=1.0
        Mean number of units in a block, at least 1. The variance and the excess kurtosis of one
        unit are those of a block's mean times this number.
    multiplicities : ndarray of shape (n_values,), default=None
        Number of units (or blocks) that have each influence value, which may be a fraction because
        of pseudo records. If None, 1.
    n_units : float, default=None
        Number of units. If None, the sum of ``multiplicities`` times ``units_per_block``.

    Returns
    -------
    InfluenceSpread
        Deviation and kurtosis of one unit.
    """
    influence = np.asarray(influence, dtype=float)
    multiplicities = (
        np.ones(influence.size)
        if multiplicities is None
        else np.asarray(multiplicities, dtype=float)
    )
    n_blocks = float(multiplicities.sum())  # blocks of one unit if units_per_block is 1
    centered = influence - float(multiplicities @ influence) / n_blocks
    variance = float(multiplicities @ centered**2) / max(n_blocks - 1.0, 1.0)
    kurtosis = 3.0
    if variance > 0.0:
        kurtosis = float(multiplicities @ centered**4) / n_blocks / variance**2
    max_df = math.inf
    if units_per_block > 1.0:
        kurtosis = 3.0 + units_per_block * (kurtosis - 3.0)
        max_df = n_blocks - 1.0
    return InfluenceSpread(
        center=float(center),
        deviation=math.sqrt(variance * units_per_block),
        kurtosis=max(1.0, kurtosis),
        n_units=n_blocks * units_per_block if n_units is None else float(n_units),
        max_df=max_df,
    )


@dataclass(frozen=True)
class ApproximateLimits:
    """Approximate limits of a metric whose spread was estimated on the training set.

    Parameters
    ----------
    family : {"proportion", "loss", "none"}
        ``"proportion"``: scores in [0, 1], by Korn-Graubard limits at the effective sample size.
        ``"loss"``: the score is 1 minus a loss in units of [0, 1], with Student limits of the
        logarithm of the loss. ``"none"``: no interval; the score still ranks candidates.
    n_units : int
        Sampling units of the holdout.
    spread : InfluenceSpread or None
        Spread on the training set. Without one there is no interval.
    """

    family: Family
    n_units: int
    spread: InfluenceSpread | None = None

    def degrees_of_freedom(self, spread: InfluenceSpread) -> float:
        """Return the degrees of freedom of the estimated standard deviation of the influence.

        They follow from the kurtosis and from the smaller one of two numbers of units, that of the
        holdout and that of the training set.

        Parameters
        ----------
        spread : InfluenceSpread
            Spread on the training set.

        Returns
        -------
        float
            At most ``spread.max_df``, but never less than 3.
        """
        n_units = min(float(self.n_units), spread.n_units)
        df = 2.0 * n_units / max(spread.kurtosis - 1.0, 1e-12)
        return float(max(_MIN_DF, min(df, spread.max_df)))

    def limits(self, lowest: Array, highest: Array, log_failure: Array) -> tuple[Array, Array]:
        """Return lower and upper limits of the metric of new records.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the released range of each holdout score, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side, at most 0.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            In [0, 1]. The limits are 0 and 1 if ``lowest`` is 0: a score that is undefined on the
            holdout counts as 0, and nothing is claimed about it. They are also 0 and 1 without an
            interval (no spread, or the family ``"none"``), and if a limit is not finite.
        """
        lowest, highest, log_failure = np.broadcast_arrays(
            *(np.asarray(values, dtype=float) for values in (lowest, highest, log_failure))
        )
        if self.spread is None or self.family == "none":
            return np.zeros(lowest.shape), np.ones(lowest.shape)
        if self.family == "proportion":
            lower, upper = self._proportion_limits(self.spread, lowest, highest, log_failure)
        else:
            lower, upper = self._loss_limits(self.spread, lowest, highest, log_failure)
        is_unknown = (lowest <= 0.0) | ~np.isfinite(lower) | ~np.isfinite(upper)
        lower = np.where(is_unknown, 0.0, np.clip(np.minimum(lower, lowest), 0.0, 1.0))
        upper = np.where(is_unknown, 1.0, np.clip(np.maximum(upper, highest), 0.0, 1.0))
        return lower, upper

    def _proportion_limits(self, spread, lowest, highest, log_failure):
        """Return lower and upper Korn-Graubard limits of proportions, both of shape (m,).

        They are Clopper-Pearson limits at the effective sample size. ``lowest`` and ``highest`` are
        the ends of released scores, ``log_failure`` the logs of failure probabilities of one side,
        and ``spread`` is the `InfluenceSpread`.
        """
        alpha_one_sided = np.exp(log_failure)
        normal_quantile = -ndtri_exp(np.minimum(log_failure, math.log(0.49)))
        df = self.degrees_of_freedom(spread)
        max_narrow_width = _NARROW_DEVIATIONS * spread.deviation / math.sqrt(self.n_units)
        is_narrow = highest - lowest < max_narrow_width
        student_quantile = np.where(
            is_narrow, -stdtrit(df / 2.0, alpha_one_sided), -stdtrit(df, alpha_one_sided)
        )
        variance_inflation = (student_quantile / normal_quantile) ** 2 * np.where(
            is_narrow, 1.0 + 2.0 / df, 1.0
        )
        influence_variance = max(spread.deviation**2, 1e-300)
        binomial_variance = spread.center * (1.0 - spread.center)
        effective_n = (
            binomial_variance
            * self.n_units
            / influence_variance
            / np.maximum(variance_inflation, 1.0)
        )
        hits_at_lowest = lowest * effective_n
        misses_at_lowest = (1.0 - lowest) * effective_n
        hits_at_highest = highest * effective_n
        misses_at_highest = (1.0 - highest) * effective_n
        with np.errstate(all="ignore"):
            lower = betaincinv(hits_at_lowest, misses_at_lowest + 1.0, alpha_one_sided)
            lower_miss_rate = betaincinv(misses_at_highest, hits_at_highest + 1.0, alpha_one_sided)
        # The upper limit of a score of 1 is 1.
        upper = 1.0 - np.where(highest >= 1.0, 0.0, lower_miss_rate)
        return lower, upper

    def _loss_limits(self, spread, lowest, highest, log_failure):
        """Return lower and upper limits of scores of one minus a loss, both of shape (m,).

        They come from Student limits of the loss's logarithm. ``lowest`` and ``highest`` are the
        ends of released scores, ``log_failure`` the logs of failure probabilities of one side, and
        ``spread`` is the `InfluenceSpread`.
        """
        alpha_one_sided = np.exp(log_failure)
        df = self.degrees_of_freedom(spread)
        student_quantile = -stdtrit(df, alpha_one_sided)
        if spread.n_units < 2 * self.n_units:
            student_quantile = -stdtrit(df / 2.0, alpha_one_sided) * math.sqrt(1.0 + 2.0 / df)
        center_loss = max(1.0 - spread.center, 1e-300)
        log_half_width = student_quantile * spread.deviation / center_loss / math.sqrt(self.n_units)
        lower = 1.0 - (1.0 - lowest) * np.exp(log_half_width)
        upper = 1.0 - (1.0 - highest) * np.exp(-log_half_width)
        return lower, upper

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predicted standard deviation of the holdout score.

        Parameters
        ----------
        prediction : float or array-like
            Public predictions of the score, in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations, of the shape of ``prediction``. They are a public guess, not a
            bound.
        """
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        root_n_units = math.sqrt(self.n_units)
        spread = self.spread
        if spread is None or not spread.deviation > 0.0:
            return np.full(prediction.shape, _UNKNOWN_DEVIATION / root_n_units)
        if self.family == "proportion":
            center = spread.center
            design_effect = spread.deviation**2 / max(center * (1.0 - center), 1e-12)
            effective_n = self.n_units / design_effect
            shrunken_prediction = (prediction * effective_n + 1.0) / (effective_n + 2.0)
            return np.sqrt(shrunken_prediction * (1.0 - shrunken_prediction) / effective_n)
        predicted_loss = np.maximum(1.0 - prediction, 1e-3 * (1.0 - spread.center) + 1e-12)
        return spread.deviation / max(1.0 - spread.center, 1e-12) * predicted_loss / root_n_units


class ErrorDistribution(NamedTuple):
    """Distribution of the absolute errors of a candidate's pooled training predictions.

    Parameters
    ----------
    deviation : float
        Standard deviation, for one sampling unit, of the proportion of errors up to the median: at
        least 1/2, and exactly 1/2 if every record is a unit.
    n_units : float
        Number of sampling units with a pooled prediction.
    quantiles : tuple of float
        Quantiles of the absolute errors at equally spaced probabilities from 0 to 1. An error is
        measured in lengths of the public range of targets.
    """

    deviation: float
    n_units: float
    quantiles: tuple[float, ...]

    @classmethod
    def of_errors(cls, errors: Array, unit_codes: Array) -> ErrorDistribution:
        """Return the distribution of errors of pooled training predictions.

        Parameters
        ----------
        errors : ndarray of shape (n_records,)
            Absolute errors, in lengths of the public range.
        unit_codes : ndarray of int, shape (n_records,)
            Sampling unit of each record.

        Returns
        -------
        ErrorDistribution
            The distribution, as at most 201 quantiles.
        """
        _, unit_index = np.unique(unit_codes, return_inverse=True)
        n_units = int(unit_index.max()) + 1
        centered_indicator = (errors <= np.median(errors)) - 0.5
        # In units of the mean number of records: the mean of a unit if all have the same number.
        relative_unit_sums = (
            np.bincount(unit_index, weights=centered_indicator) * n_units / errors.size
        )
        n_steps = min(_MAX_STEPS, errors.size)
        probabilities = np.arange(n_steps + 1) / n_steps
        return cls(
            deviation=max(0.5, float(np.sqrt(np.mean(relative_unit_sums**2)))),
            n_units=float(n_units),
            quantiles=tuple(np.quantile(errors, probabilities).tolist()),
        )


@dataclass(frozen=True)
class MedianLimits:
    r"""Limits of 1 minus a median error, from the distribution of training errors (theory G34).

    The proportion :math:`F(a)` of new errors below the holdout's median :math:`a` differs from 1/2
    by a sampling deviation. The distribution of the training errors is an estimate of :math:`F`,
    whose variance is added. If many errors equal the median, the limits are valid for the
    proportion of errors below it and for that of errors up to it.

    Parameters
    ----------
    n_units : int
        Sampling units of the holdout.
    errors : ErrorDistribution
        Distribution of the candidate's errors on the training set, out of fold if possible.
    """

    n_units: int
    errors: ErrorDistribution

    def _half_width(self, log_failure):
        """Return the half-width of limits for the proportion of errors up to the median.

        ``log_failure`` has the logs of failure probabilities of one side, shape (m,), as the return
        value.
        """
        n_train_units = self.errors.n_units
        df = min(self.n_units, n_train_units) - 1.0
        deviation = self.errors.deviation * math.sqrt(1.0 / self.n_units + 1.0 / n_train_units)
        # Proportions of records have normal tails, proportions of few groups do not.
        if self.errors.deviation == 0.5:
            return -ndtri_exp(np.minimum(log_failure, math.log(0.49))) * deviation
        return -stdtrit(df, np.exp(log_failure)) * deviation

    def limits(self, lowest: Array, highest: Array, log_failure: Array) -> tuple[Array, Array]:
        """Return lower and upper limits of 1 minus the median error of new records.

        Errors are in lengths of the public range.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the released range of each holdout score, 1 minus the median error, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side, at most 0.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            In [0, 1]. The limits are 0 and 1 if ``lowest`` is 0. Beyond the table of quantiles, the
            lower limit is 0 and the upper limit 1.
        """
        lowest, highest, log_failure = np.broadcast_arrays(
            *(np.asarray(values, dtype=float) for values in (lowest, highest, log_failure))
        )
        quantiles = np.asarray(self.errors.quantiles)
        n_steps = quantiles.size - 1
        half_width = self._half_width(log_failure)
        # Steps in the table of quantiles: those of both ends of the released range, rounded
        # outward, and then moved outward by the half-width.
        low_range_step = np.searchsorted(quantiles, 1.0 - highest, side="left") - 1.0
        high_range_step = np.searchsorted(quantiles, 1.0 - lowest, side="right")
        low_step = np.floor((low_range_step / n_steps - half_width) * n_steps).astype(int)
        high_step = np.ceil((high_range_step / n_steps + half_width) * n_steps).astype(int)
        smallest_error = np.where(low_step < 0, 0.0, quantiles[np.clip(low_step, 0, n_steps)])
        largest_error = np.where(
            high_step > n_steps, 1.0, quantiles[np.clip(high_step, 0, n_steps)]
        )
        is_unknown = (lowest <= 0.0) | (high_step > n_steps)
        lower = np.where(
            is_unknown, 0.0, np.clip(np.minimum(1.0 - largest_error, lowest), 0.0, 1.0)
        )
        upper = np.where(
            lowest <= 0.0, 1.0, np.clip(np.maximum(1.0 - smallest_error, highest), 0.0, 1.0)
        )
        return lower, upper

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predicted standard deviation of the holdout score.

        Parameters
        ----------
        prediction : float or array-like
            Public predictions of the score, in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations, the same for all predictions. They are a public guess, not a bound.
        """
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        proportion_deviation = min(0.45, self.errors.deviation / math.sqrt(self.n_units))
        probabilities = np.linspace(0.0, 1.0, len(self.errors.quantiles))
        lower_error, upper_error = np.interp(
            [0.5 - proportion_deviation, 0.5 + proportion_deviation],
            probabilities,
            self.errors.quantiles,
        )
        return np.full(prediction.shape, max(0.5 * float(upper_error - lower_error), 1e-6))
