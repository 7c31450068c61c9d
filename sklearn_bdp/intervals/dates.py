r"""Approximate intervals of any statistic over dates, each date given its past (theory G31).

The target is that of the proven limits (theory G26): the statistic of the average conditional
distribution of the holdout dates, each given the information available before it. Let :math:`J_t`
be the influence of date ``t``. The error :math:`g(\bar S) - \theta \approx \frac1T \sum_t (J_t -
E[J_t \mid F_{t-1}])` of the statistic is a mean of martingale differences, so that nothing is
assumed about dependence between dates. The influence is computed from all dates, not from the past
alone. The intervals are approximate for this reason, too.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.jackknife import (
    _NO_FIT,
    _SCALES,
    DISCORDANT,
    GENERIC,
    HEAVY_NOTE,
    UNDEFINED,
    ApproximateRow,
    Scale,
    Statistic,
    _count,
    counted_units,
    low_alpha_note,
    skewness_corrected_quantile,
    too_few_units,
)

#: Fewest dates of an interval.
FEWEST_DATES = 30
#: Below these numbers of dates, and of dates with the rarest outcome, an interval gets a note. A
#: median has no interval with fewer dates than FEW_DATES.
FEW_DATES, FEW_OUTCOME_DATES = 75, 30
#: Absolute targets below this fraction of their median are near 0: relative errors then have no
#: interval.
NEAR_ZERO = 0.01
#: Rates of exponential moving averages of past influence.
RATES = (0.05, 0.2)
_ABOUT_TRAINING_MEAN = (
    "R² is about the mean of the training targets, where scikit-learn takes that of these dates."
)


def too_few_dates(n_dates: int) -> str:
    """Return why so few dates have no approximate interval, or an empty text if they are enough."""
    if n_dates >= FEWEST_DATES:
        return ""
    return f"{n_dates} dates are too few for an interval. At least {FEWEST_DATES} are needed."


def date_row(
    statistic: Statistic, y: Array, sides: Any, *, dates: Array, alpha: float, horizon: int = 1
) -> ApproximateRow:
    """Return a statistic over dates, or a difference of two, with its approximate interval.

    A row without an interval states the reason in its notes.

    Parameters
    ----------
    statistic : Statistic
        The statistic. For R², pass the one that :func:`about_training_mean` returns.
    y : ndarray of shape (n,)
        Targets; classes as codes 0, 1, ..., of two classes 1 is the positive one.
    sides : sequence of one or two (predictions, mask)
        Predictions of a model, in the form of ``statistic.response``, and the mask of its subgroup
        (None: all records). The row of two sides is the first minus the second.
    dates : ndarray of shape (n,)
        Number 0, 1, ... of each record's date, in time order.
    alpha : float
        Failure probability of both ends together.
    horizon : int, default=1
        Largest number of dates from a forecast to its score; with 1, forecasts are made on the date
        before.

    Returns
    -------
    ApproximateRow
        The statistic, the ends of its interval, and notes. Numbers are in units of the statistic,
        where a loss has a changed sign.
    """
    is_difference = len(sides) == 2
    n_dates = int(dates.max()) + 1
    masks = [np.ones(len(dates), bool) if mask is None else mask for _, mask in sides]
    n_scored_dates = _count(dates, np.logical_or.reduce(masks))
    make_row = functools.partial(_row, statistic, n_scored_dates)
    try:
        value, left_out = _difference(statistic, y, sides, masks, dates)
        rarest = _rarest_outcome(statistic, y, sides, masks, dates)
    except np.linalg.LinAlgError:
        return make_row(math.nan, reason=_NO_FIT)
    scale: Scale = "raw" if is_difference else statistic.dates.scale or statistic.scale
    reason = _refusal(statistic, y, value, scale, n_dates=n_scored_dates, rarest=rarest)
    if reason:
        return make_row(value, reason=reason)
    if horizon > 1 and len(left_out) < n_dates:  # blocks of dates
        horizon = 1 + math.ceil(horizon * len(left_out) / n_dates)
    n_outcome_dates = None if rarest is None else rarest[0]
    lower, upper = date_interval(
        value, left_out, alpha, scale=scale, n_outcome_dates=n_outcome_dates, horizon=horizon
    )
    if not lower <= upper:
        return make_row(value, reason="The dates show no spread. There is no approximate interval.")
    if statistic.is_negated and not is_difference:  # a loss
        lower = max(lower, 0.0)
    notes = _warnings(
        statistic, n_scored_dates, rarest, alpha, left_out, scale=scale, is_difference=is_difference
    )
    return make_row(value, lower, upper, notes=notes)


def _row(statistic, n_dates, value, lower=math.nan, upper=math.nan, *, reason="", notes=()):
    """Return a row, in which a loss changes its sign, and its ends their order.

    ``value``, ``lower`` and ``upper`` are those of the statistic, ``n_dates`` is the number of
    dates with a record of the row. ``reason`` is why the row has no interval, or an empty text; it
    replaces the notes.
    """
    notes = (reason,) if reason else tuple(notes)
    if statistic.is_negated:
        return ApproximateRow(-float(value), -float(upper), -float(lower), n_dates, notes)
    return ApproximateRow(float(value), float(lower), float(upper), n_dates, notes)


def _difference(statistic, y, sides, masks, dates):
    """Return the statistic of one side, or that of the first minus that of the second side.

    Also return an array of its values without each date (or block of dates). ``sides`` has the
    predictions and the subgroup of each side, ``masks`` the masks of the subgroups, and ``dates``
    the number of each record's date. All dates weigh equally, in a subgroup by the fraction of
    their records in it.
    """
    n_dates = int(dates.max()) + 1
    record_weights = 1.0 / np.bincount(dates)[dates]
    estimates = [
        statistic.left_out(y, predictions, record_weights * mask, dates, n_dates)
        for (predictions, _), mask in zip(sides, masks, strict=True)
    ]
    value, left_out = estimates[0]
    if len(estimates) == 1:
        return value, left_out
    second_value, second_left_out = estimates[1]
    return value - second_value, left_out - second_left_out


def _refusal(statistic, y, value, scale, *, n_dates, rarest):
    """Return why a statistic of these dates has no interval, or an empty text.

    ``y`` has the targets of all records, ``value`` is the statistic or the difference of two,
    ``scale`` the name of the scale on which the interval is computed, and ``n_dates`` the number of
    dates with a record of the row.
    ``rarest`` is the number of dates with the rarest outcome and the noun of its records, or None.
    """
    date_facts = statistic.dates
    with np.errstate(all="ignore"):
        is_at_range_end = not np.isfinite(_SCALES[scale][0](np.array([value]))).all()
    if n_dates < FEWEST_DATES:
        return too_few_dates(n_dates)
    min_count = date_facts.min_outcome_dates
    if rarest is not None and rarest[0] < min_count:
        return too_few_units(*rarest, "dates", min_count=min_count)
    if date_facts.divides_by_targets and np.abs(y).min() < NEAR_ZERO * np.median(np.abs(y)):
        return "Some targets are near 0, where an error relative to them has no interval."
    if math.isnan(value):
        return UNDEFINED
    if is_at_range_end:
        return "The score is at an end of its range, which has no approximate interval."
    return ""


def median_row(errors: Array, alpha: float, *, dates: Array, horizon: int = 1) -> ApproximateRow:
    r"""Return minus the median error over dates, and an interval by order statistics, if any (G31).

    The number of errors up to a value less its conditional expectation is a martingale of variance
    at most :math:`T/4` after :math:`T` dates, so that the limits are the order statistics with
    ranks :math:`T/2 \pm z \sqrt T/2`.

    Parameters
    ----------
    errors : ndarray of shape (n,)
        Absolute error of each record.
    alpha : float
        Failure probability of both ends together.
    dates : ndarray of shape (n,)
        Number of each record's date. An interval needs one record for each date.
    horizon : int, default=1
        Largest number of dates from a forecast to its score. An interval needs 1.

    Returns
    -------
    ApproximateRow
        Minus the median error, the ends of its interval, and notes.
    """
    n_errors = len(errors)
    n_dates = len(np.unique(dates))
    value = -float(np.median(errors))
    reason = ""
    if n_dates < n_errors:
        reason = "The median of several records on one date has no interval."
    elif horizon > 1:
        reason = "The median has no interval given what was known when the forecast was made."
    elif n_errors < FEW_DATES:
        reason = (
            f"{n_errors} dates are too few for an interval of a median. {FEW_DATES} are needed."
        )
    rank_half_width = 0.5 * norm.isf(0.5 * alpha) * math.sqrt(n_errors)
    lower_rank = math.floor(0.5 * n_errors - rank_half_width)
    upper_rank = math.ceil(0.5 * n_errors + rank_half_width) + 1
    if not reason and not 1 <= lower_rank < upper_rank <= n_errors:
        reason = "So few dates have no interval of a median at this level."
    if reason:
        return ApproximateRow(value, math.nan, math.nan, n_dates, (reason,))
    sorted_errors = np.sort(errors)
    lower = -float(sorted_errors[upper_rank - 1])
    upper = -float(sorted_errors[lower_rank - 1])
    return ApproximateRow(value, lower, upper, n_dates, ())


def _rarest_outcome(statistic, y, sides, masks, dates):
    """Return the number of dates with the rarest outcome, and the noun of its records.

    For predicted labels of two models on the same records, a disagreement is the only outcome.
    Return None for a statistic whose interval needs no outcome. ``sides`` has the predictions and
    the subgroup of each side, ``masks`` the masks of the subgroups, and ``dates`` the number of
    each record's date.
    """
    outcome_masks = statistic.dates.outcome_masks or statistic.outcome_masks
    if outcome_masks is None:
        return None
    has_same_records = len(sides) == 2 and np.array_equal(masks[0], masks[1])
    if has_same_records and statistic.response == "labels":  # only disagreements matter
        return _count(dates, masks[0] & (sides[0][0] != sides[1][0])), DISCORDANT
    return min(
        (_count(dates, mask & has_outcome), noun)
        for (predictions, _), mask in zip(sides, masks, strict=True)
        for noun, has_outcome in outcome_masks(y, predictions)
    )


def about_training_mean(statistic: Statistic, training_mean: float | None) -> Statistic:
    """Return R² about the mean of the training targets; other statistics are returned unchanged.

    Parameters
    ----------
    statistic : Statistic
        The statistic of a metric. R² is about the mean of the targets that it is computed on.
    training_mean : float or None
        Mean of the training targets; None only if the statistic is not R².

    Returns
    -------
    Statistic
        A statistic for :func:`date_row`.

    Raises
    ------
    ValueError
        If the statistic is R² and ``training_mean`` is None.
    """
    if statistic.dates.left_out_about is None:
        return statistic
    if training_mean is None:
        raise ValueError("R² needs the mean of the training targets.")
    return statistic._replace(left_out=statistic.dates.left_out_about(training_mean))


def date_interval(
    value: float,
    left_out: Array,
    alpha: float,
    *,
    scale: Scale,
    n_outcome_dates: int | None = None,
    horizon: int = 1,
) -> tuple[float, float]:
    r"""Return the ends of an interval of a statistic over dates (theory G31).

    It fails with probability about ``alpha``.

    Parameters
    ----------
    value : float
        The statistic of all dates.
    left_out : ndarray of shape (T,)
        The statistic without each of T dates (or blocks of dates), in time order.
    alpha : float
        Failure probability of both ends together.
    scale : {"unit", "signed", "loss", "explained", "raw"}
        Scale on which the statistic is nearly normal. On ``"loss"``, ``"explained"`` and ``"raw"``,
        each end is the wider one of Student's interval and of Hall's, which corrects for skewness.
    n_outcome_dates : int, optional
        Number of dates with the rarest outcome, which bounds the degrees of freedom.
    horizon : int, default=1
        Largest number of dates from a forecast to its score. With more than 1, the variance is that
        of overlapping forecasts.

    Returns
    -------
    lower, upper : float
        NaN if the dates show no spread, or if the statistic of all dates or without a date is
        undefined or at an end of its range.

    Notes
    -----
    With a horizon of 1, the variance is :math:`\min_c \sum_t (J_t - c_t)^2 / (T(T-1))` over three
    centers: the mean of all dates, and two moving averages of the influence of earlier dates, which
    begin with it. The degrees of freedom are then
    :math:`\min(T - 1, \max(3, 2T/(\hat k - 1)), \text{outcome dates} - 1)`, at least 2, with the
    kurtosis :math:`\hat k` of :math:`J`.
    """
    to_scale, from_scale = _SCALES[scale]
    n_dates = len(left_out)
    with np.errstate(all="ignore"):
        scaled_value = float(to_scale(value))
        influence = (n_dates - 1.0) * (scaled_value - to_scale(np.asarray(left_out, dtype=float)))
    raw_influence = (n_dates - 1.0) * (value - np.asarray(left_out, dtype=float))
    if not (math.isfinite(scaled_value) and np.isfinite(influence).all()):
        return math.nan, math.nan
    if not np.ptp(influence) > 1e-12 * max(1.0, abs(scaled_value)):
        return math.nan, math.nan
    is_loss = scale in ("loss", "explained")
    df = degrees_of_freedom(influence, n_outcome_dates, horizon=horizon, is_loss=is_loss)
    quantile = student.isf(0.5 * alpha, df)
    half_width = quantile * math.sqrt(variance_of_mean(influence, horizon))
    lower = float(from_scale(scaled_value - half_width))
    upper = float(from_scale(scaled_value + half_width))
    if scale in ("unit", "signed"):
        return lower, upper
    ends = [lower, upper, *_skewness_corrected_ends(value, raw_influence, alpha, df, horizon)]
    return min(ends), min(max(ends), 1.0) if scale == "explained" else max(ends)


def _skewness_corrected_ends(value, influence, alpha, df, horizon):
    """Return the lower and the upper end of Hall's skewness-corrected interval, as a list.

    ``value`` is the statistic, ``influence`` that of each date in time order, ``alpha`` the failure
    probability of both ends, ``df`` the degrees of freedom of Student's quantile, and ``horizon``
    the largest number of dates from a forecast to its score.
    """
    standard_error = math.sqrt(variance_of_mean(influence, horizon))
    centered = influence - influence.mean()
    moment_ratio = float(np.mean(centered**3)) / float(np.mean(centered**2)) ** 1.5
    skewness = moment_ratio / math.sqrt(len(influence))  # of the mean
    return [
        value - standard_error * skewness_corrected_quantile(float(quantile), skewness)
        for quantile in student.isf([0.5 * alpha, 1.0 - 0.5 * alpha], df)
    ]


def variance_of_mean(influence: Array, horizon: int = 1) -> float:
    """Return the estimated variance of the mean influence, each date given its past (theory G31).

    Parameters
    ----------
    influence : ndarray of shape (T,)
        Influence of each date, in time order.
    horizon : int, default=1
        Largest number of dates from a forecast to its score; with 1, forecasts are made on the date
        before.

    Returns
    -------
    float
        Variance of the mean over dates.
    """
    from scipy.signal import lfilter  # it takes longer to import than this package

    n_dates = len(influence)
    if horizon > 1:
        return _bartlett_variance(influence, horizon)
    sums_of_squares = [np.sum((influence - influence.mean()) ** 2)]
    for rate in RATES:
        filter_state = [(1.0 - rate) * influence.mean()]
        moving_averages, _ = lfilter([rate], [1.0, rate - 1.0], influence, zi=filter_state)
        # Of earlier dates, except that each average begins with the mean of all dates.
        centers = np.concatenate([[influence.mean()], moving_averages[:-1]])
        sums_of_squares.append(np.sum((influence - centers) ** 2))
    return float(min(sums_of_squares)) / (n_dates * (n_dates - 1.0))


def _bartlett_variance(influence, horizon):
    """Return the estimated variance of the mean influence for a ``horizon`` above 1.

    Autocovariances have the weights of Bartlett's window (theory G31).
    """
    n_dates = len(influence)
    centered = influence - influence.mean()
    bandwidth = _bartlett_bandwidth(n_dates, horizon)
    lags = np.arange(1, math.ceil(bandwidth))
    variance = float(centered @ centered) / n_dates
    covariances = np.array([centered[lag:] @ centered[:-lag] for lag in lags]) / n_dates
    long_run_variance = variance + 2.0 * float(np.sum((1.0 - lags / bandwidth) * covariances))
    shrinkage = 1.0 - (horizon - 1.0 / horizon) / (3.0 * bandwidth)
    mean_variance = long_run_variance / (shrinkage * (1.0 - bandwidth / n_dates) * n_dates)
    return max(mean_variance, variance / (n_dates - 1.0))


def _bartlett_bandwidth(n_dates, horizon):
    """Return the lag, in dates, at which the weights of Bartlett's window reach 0."""
    return min(2.0 * horizon, n_dates / 3.0)


def degrees_of_freedom(
    influence: Array, n_outcome_dates: int | None = None, *, horizon: int = 1, is_loss: bool = False
) -> float:
    """Return the degrees of freedom of the estimated variance of a statistic over dates.

    They follow from the kurtosis of the influence, and from upper bounds.

    Parameters
    ----------
    influence : ndarray of shape (T,)
        Influence of each date.
    n_outcome_dates : int, optional
        Number of dates with the rarest outcome, which bounds the degrees of freedom. If None, there
        is no such bound.
    horizon : int, default=1
        Largest number of dates from a forecast to its score; with 1, forecasts are made on the date
        before.
    is_loss : bool, default=False
        Whether the statistic is a loss or a skill, whose large losses cluster in time. It has an
        effect for horizons above 1.

    Returns
    -------
    float
        At least 2.
    """
    n_dates = len(influence)
    centered = influence - influence.mean()
    kurtosis = float(np.mean(centered**4)) / float(np.mean(centered**2)) ** 2
    df_by_kurtosis = 2.0 * n_dates / max(kurtosis - 1.0, 1e-12)
    if horizon > 1:
        n_bandwidths = n_dates / _bartlett_bandwidth(n_dates, horizon)
        df = min(df_by_kurtosis, 1.5 * n_bandwidths - 1.0)
        if is_loss:
            # 2 n / (kurtosis - 1) for n = 1.5 n_bandwidths and two thirds of the excess kurtosis.
            df_of_clusters = 3.0 * n_bandwidths / (max(kurtosis - 3.0, 0.0) / 1.5 + 2.0)
            df = min(df, df_of_clusters)
    else:
        df = min(n_dates - 1.0, max(3.0, df_by_kurtosis))
    if n_outcome_dates is not None:
        df = min(df, n_outcome_dates - 1.0)
    return max(2.0, df)


def _warnings(statistic, n_dates, rarest, alpha, left_out, *, scale, is_difference):
    """Return the notes of a row with an interval, as a list of sentences.

    ``n_dates`` is the number of dates with a record of the row, ``left_out`` has the values of the
    statistic without each date of the holdout, or each block of its dates, and ``alpha`` is the
    failure probability of the row. ``rarest`` is the number of dates with the rarest outcome and
    the noun of its records, or None. ``scale`` is the name of the interval's scale,
    ``is_difference`` whether the row is a difference.
    """
    notes = [] if statistic.dates.left_out_about is None else [_ABOUT_TRAINING_MEAN]
    if n_dates < FEW_DATES:
        notes.append(f"There are only {n_dates} dates.")
    if rarest is not None and rarest[0] < FEW_OUTCOME_DATES:
        notes.append(f"Only {counted_units(*rarest, 'dates')}.")
    if statistic.is_heavy_tailed and not is_difference:
        notes.append(HEAVY_NOTE)
    if statistic is GENERIC:
        notes.append("This metric was not studied over dates.")
    if scale == "raw":
        centered = left_out - left_out.mean()
        sum_of_cubes = abs(float(np.sum(centered**3)))
        skewness = sum_of_cubes / max(float(np.sum(centered**2)) ** 1.5, 1e-300)
        if skewness * norm.isf(0.5 * alpha) ** 3 / 3.0 > 1.0:
            notes.append("A few dates dominate this row.")
    min_tested_alpha = statistic.dates.min_tested_alpha
    if alpha < min_tested_alpha:
        notes.append(low_alpha_note(alpha, min_tested_alpha))
    return notes
