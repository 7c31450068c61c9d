r"""Interim approximate limits of metrics without a proven bound (theory G34).

A released cell is charged by its code length for any statistic, so that an approximate interval
needs no proven tail: it needs limits of a *fixed* model whose non-coverage stays near
their level, down to small levels. The spread of the metric comes from the training set: influence
values of pooled out-of-fold predictions of the same candidate. It is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv, ndtri_exp, stdtrit

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.utils.validation import check_array

Family: TypeAlias = Literal["proportion", "loss", "none"]
#: Families of approximate limits, as ledgers name them.
FAMILIES = ("proportion", "loss", "median", "none")
#: Quantiles of out-of-fold errors that stand for their distribution.
_N_QUANTILES = 200

#: Smallest degrees of freedom that the spread of heavy-tailed influence values leaves.
_MIN_DF = 3.0
#: Cells thinner than this many standard deviations of the score do not absorb the error of the
#: estimated spread.
_THIN_CELL = 0.6
#: Standard deviation of one record where nothing is known, in units of the range.
_UNKNOWN_DEVIATION = 0.5
#: Level of one side below which the formulas were not simulated. Of losses without an upper end,
#: rare large values decide coverage below it.
TESTED_LEVEL = 1e-3
#: The same for metrics of the confusion matrix and of clipped squared errors.
SMALLEST_TESTED_LEVEL = 1e-4


class InfluenceSpread(NamedTuple):
    """Spread of a metric's influence values on the training set, in units of [0, 1].

    Parameters
    ----------
    center : float
        Out-of-fold score at which the spread was estimated; with pseudo records for metrics of a
        confusion matrix.
    deviation : float
        Standard deviation of the influence of one sampling unit.
    kurtosis : float
        Kurtosis of the influence of one sampling unit, at least 1.
    n_units : float
        Sampling units (records or groups) with an out-of-fold prediction.
    max_df : float
        Largest degrees of freedom, such as the number of blocks minus 1.
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
    weights: Array | None = None,
    n_units: float | None = None,
) -> InfluenceSpread:
    """Return the spread of influence values of sampling units or of blocks of them.

    Parameters
    ----------
    center : float
        Score in [0, 1] at which the influence values were taken.
    influence : ndarray of shape (n_values,)
        Influence of each unit, whose mean is about 0. For blocks: the influence of a block, in the
        scale of a mean over its units.
    units_per_block : float, default=1.0
        Units in a block. The variance of one unit is that of the block times this number, its
        excess kurtosis likewise.
    weights : ndarray of shape (n_values,), default=None
        How many units share an influence value. If None, one.
    n_units : float, default=None
        Number of units. If None, the sum of ``weights`` times ``units_per_block``.

    Returns
    -------
    InfluenceSpread
        Deviation and kurtosis of one unit.
    """
    influence = np.asarray(influence, dtype=float)
    counts = np.ones(influence.size) if weights is None else np.asarray(weights, dtype=float)
    total = float(counts.sum())
    centered = influence - float(counts @ influence) / total
    variance = float(counts @ centered**2) / max(total - 1.0, 1.0)
    kurtosis = 3.0
    if variance > 0.0:
        kurtosis = float(counts @ centered**4) / total / variance**2
    max_df = math.inf
    if units_per_block > 1.0:
        kurtosis = 3.0 + units_per_block * (kurtosis - 3.0)
        max_df = total - 1.0
    return InfluenceSpread(
        center=float(center),
        deviation=math.sqrt(variance * units_per_block),
        kurtosis=max(1.0, kurtosis),
        n_units=total * units_per_block if n_units is None else float(n_units),
        max_df=max_df,
    )


@dataclass(frozen=True)
class ApproximateLimits:
    """Limits of a metric whose spread was estimated on the training set.

    Parameters
    ----------
    family : {"proportion", "loss", "none"}
        ``"proportion"``: scores in [0, 1], by Korn-Graubard limits at the effective sample size.
        ``"loss"``: the score is 1 minus a loss, in units of the range; Student limits of the log
        loss. ``"none"``: no interval; the score still chooses candidates.
    n_units : int
        Sampling units of the holdout.
    spread : InfluenceSpread or None
        Spread on the training set; None for ``"none"``.
    """

    family: Family
    n_units: int
    spread: InfluenceSpread | None = None

    def degrees_of_freedom(self, spread: InfluenceSpread) -> float:
        """Return the degrees of freedom of the standard deviation on the training set.

        They follow from the kurtosis and from the smaller number of units, of the holdout and of
        the training set; ``spread.max_df`` caps them.

        Parameters
        ----------
        spread : InfluenceSpread
            Spread on the training set.

        Returns
        -------
        float
            At least 3, also if the cap is lower.
        """
        n_units = min(float(self.n_units), spread.n_units)
        df = 2.0 * n_units / max(spread.kurtosis - 1.0, 1e-12)
        return float(max(_MIN_DF, min(df, spread.max_df)))

    def limits(self, lowest: Array, highest: Array, log_failure: Array) -> tuple[Array, Array]:
        """Return lower and upper limits of the metric of new records.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the cell that holds the holdout score, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side, at most 0.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            The whole range [0, 1] where the cell touches 0: a score that is undefined on the
            holdout counts as 0, and nothing is claimed about it.
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
        unknown = (lowest <= 0.0) | ~np.isfinite(lower) | ~np.isfinite(upper)
        lower = np.where(unknown, 0.0, np.clip(np.minimum(lower, lowest), 0.0, 1.0))
        upper = np.where(unknown, 1.0, np.clip(np.maximum(upper, highest), 0.0, 1.0))
        return lower, upper

    def _proportion_limits(self, spread, lowest, highest, log_failure):
        failure = np.exp(log_failure)
        normal = -ndtri_exp(np.minimum(log_failure, math.log(0.49)))
        df = self.degrees_of_freedom(spread)
        thin = highest - lowest < _THIN_CELL * spread.deviation / math.sqrt(self.n_units)
        student = np.where(thin, -stdtrit(df / 2.0, failure), -stdtrit(df, failure))
        inflation = (student / normal) ** 2 * np.where(thin, 1.0 + 2.0 / df, 1.0)
        variance = max(spread.deviation**2, 1e-300)
        binomial_variance = spread.center * (1.0 - spread.center)
        effective_size = binomial_variance * self.n_units / variance / np.maximum(inflation, 1.0)
        low_hits = lowest * effective_size
        low_misses = (1.0 - lowest) * effective_size
        high_hits = highest * effective_size
        high_misses = (1.0 - highest) * effective_size
        with np.errstate(all="ignore"):
            lower = betaincinv(low_hits, low_misses + 1.0, failure)
            misses_limit = betaincinv(high_misses, high_hits + 1.0, failure)
        # The score at an end of its range leaves nothing beyond it.
        upper = 1.0 - np.where(highest >= 1.0, 0.0, misses_limit)
        return lower, upper

    def _loss_limits(self, spread, lowest, highest, log_failure):
        failure = np.exp(log_failure)
        df = self.degrees_of_freedom(spread)
        quantile = -stdtrit(df, failure)
        if spread.n_units < 2 * self.n_units:
            quantile = -stdtrit(df / 2.0, failure) * math.sqrt(1.0 + 2.0 / df)
        center_loss = max(1.0 - spread.center, 1e-300)
        log_half_width = quantile * spread.deviation / center_loss / math.sqrt(self.n_units)
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
            Standard deviations: a public guess that prices releases (theory G7), no bound.
        """
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        root = math.sqrt(self.n_units)
        spread = self.spread
        if spread is None or not spread.deviation > 0.0:
            return np.full(prediction.shape, _UNKNOWN_DEVIATION / root)
        if self.family == "proportion":
            center = spread.center
            ratio = (spread.deviation**2) / max(center * (1.0 - center), 1e-12)
            size = self.n_units / ratio
            shrunken = (prediction * size + 1.0) / (size + 2.0)
            return np.sqrt(shrunken * (1.0 - shrunken) / size)
        loss = np.maximum(1.0 - prediction, 1e-3 * (1.0 - spread.center) + 1e-12)
        return spread.deviation / max(1.0 - spread.center, 1e-12) * loss / root


class ErrorDistribution(NamedTuple):
    """Distribution of the out-of-fold errors of one candidate.

    Parameters
    ----------
    deviation : float
        Standard deviation of the share of errors up to the median, for one sampling unit: 1/2 where
        every record is one.
    n_units : float
        Sampling units with an out-of-fold prediction.
    quantiles : tuple of float
        Quantiles at equally spaced probabilities from 0 to 1, in units of the public range.
    """

    deviation: float
    n_units: float
    quantiles: tuple[float, ...]

    @classmethod
    def of_errors(cls, errors: Array, unit_codes: Array) -> ErrorDistribution:
        """Return the distribution of some errors.

        Parameters
        ----------
        errors : ndarray of shape (n_records,)
            Absolute errors, in units of the public range.
        unit_codes : ndarray of int, shape (n_records,)
            Sampling unit of each record.

        Returns
        -------
        ErrorDistribution
            With at most 201 quantiles.
        """
        _, unit = np.unique(unit_codes, return_inverse=True)
        n_units = int(unit.max()) + 1
        excess = (errors <= np.median(errors)) - 0.5
        by_unit = np.bincount(unit, weights=excess) * n_units / errors.size
        n_quantiles = min(_N_QUANTILES, errors.size)
        probabilities = np.arange(n_quantiles + 1) / n_quantiles
        return cls(
            deviation=max(0.5, float(np.sqrt(np.mean(by_unit**2)))),
            n_units=float(n_units),
            quantiles=tuple(np.quantile(errors, probabilities).tolist()),
        )


@dataclass(frozen=True)
class MedianLimits:
    r"""Limits of a median of errors, through the distribution of out-of-fold errors (theory G34).

    If a share :math:`F(a)` of new errors lies below the holdout's median :math:`a`, it differs from
    1/2 by its binomial deviation. The distribution :math:`F_D` of the training errors stands for
    :math:`F`, and its own deviation is added. At a jump both of its sides are used.

    Parameters
    ----------
    n_units : int
        Sampling units of the holdout.
    errors : ErrorDistribution
        Of the candidate.
    """

    n_units: int
    errors: ErrorDistribution

    def _half_width(self, log_failure):
        """Return half-widths in shares of errors."""
        n_train_units = self.errors.n_units
        df = min(self.n_units, n_train_units) - 1.0
        deviation = self.errors.deviation * math.sqrt(1.0 / self.n_units + 1.0 / n_train_units)
        # Shares of records have normal tails, shares of few groups do not.
        if self.errors.deviation == 0.5:
            return -ndtri_exp(np.minimum(log_failure, math.log(0.49))) * deviation
        return -stdtrit(df, np.exp(log_failure)) * deviation

    def limits(self, lowest: Array, highest: Array, log_failure: Array) -> tuple[Array, Array]:
        """Return lower and upper limits of minus the median error of new records.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the cell that holds the holdout score, in [0, 1]; the error is 1 minus it.
        log_failure : ndarray of shape (m,)
            Log of the failure probability of one side, at most 0.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            The whole range where the cell touches 0, as for :class:`ApproximateLimits`.
        """
        lowest, highest, log_failure = np.broadcast_arrays(
            *(np.asarray(values, dtype=float) for values in (lowest, highest, log_failure))
        )
        quantiles = np.asarray(self.errors.quantiles)
        n_steps = quantiles.size - 1
        half_width = self._half_width(log_failure)
        # Shares of training errors below the cell, rounded outward to the steps of the table.
        below = (
            np.searchsorted(quantiles, 1.0 - highest, side="left") - 1.0
        ) / n_steps - half_width
        above = np.searchsorted(quantiles, 1.0 - lowest, side="right") / n_steps + half_width
        low_step = np.floor(below * n_steps).astype(int)
        high_step = np.ceil(above * n_steps).astype(int)
        smallest = np.where(low_step < 0, 0.0, quantiles[np.clip(low_step, 0, n_steps)])
        largest = np.where(high_step > n_steps, 1.0, quantiles[np.clip(high_step, 0, n_steps)])
        is_unknown = (lowest <= 0.0) | (high_step > n_steps)
        lower = np.where(is_unknown, 0.0, np.clip(np.minimum(1.0 - largest, lowest), 0.0, 1.0))
        upper = np.where(lowest <= 0.0, 1.0, np.clip(np.maximum(1.0 - smallest, highest), 0.0, 1.0))
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
            Standard deviations: a public guess, no bound. The same for all predictions.
        """
        prediction = check_array("prediction", prediction, low=0.0, high=1.0)
        share = min(0.45, self.errors.deviation / math.sqrt(self.n_units))
        steps = np.linspace(0.0, 1.0, len(self.errors.quantiles))
        low, high = np.interp([0.5 - share, 0.5 + share], steps, self.errors.quantiles)
        return np.full(prediction.shape, max(0.5 * float(high - low), 1e-6))
