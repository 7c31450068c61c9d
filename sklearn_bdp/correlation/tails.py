"""Concentration of one fixed query: tails and their inverses, pure functions.

Theory H1-H5 (Hoeffding, chains), G5 (Chernoff), G8 (binomial, hinges), G12 (weights).

In all functions a *value* is one that the mean score has reached or exceeded, a *mean* is a
possible expectation of the mean score, and ``log_failures`` are logs of one-sided failure
probabilities. A *limit* is a mean that the tail rejects: under it, the value has at most the
failure probability. All searches end on the rejected, safe side.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, betaln, rel_entr, xlog1py, xlogy

from sklearn_bdp._typing import Array

#: Safety margin of limits, as a fraction of the limit; inverted beta functions are off by less.
_SAFETY_MARGIN = 1e-9
#: Largest number of records for which hinges are evaluated.
_MAX_HINGE_RECORDS = 10_000_000
#: Distances of the corners tried from the best one so far, in records.
_CORNER_SHIFTS = (0.0, 0.0, 0.0, -1.0, 0.0)
#: Error of the log of a hinge, in nats, with a margin.
_HINGE_ERROR = 1e-6
_MAX_NEWTON_STEPS = 40  # five or six are usual
#: Limits on chains below this fraction of the value are 0.
_MIN_CHAIN_LIMIT = 1e-12
#: Log of the smallest failure probability that does not underflow.
_MIN_LOG_FAILURE = -690.0
_SMALLEST_LIMIT = math.exp(_MIN_LOG_FAILURE)
_LOG_QUARTER = math.log(0.25)


def _chain_rate(value, mean, contraction):
    r"""Return the Leon-Perron rate of a stationary chain, in nats per record, and its slope.

    For a stationary chain whose operator on mean-zero functions has norm ``contraction`` in [0, 1),
    ``P[q(X) >= value] <= exp(-n * rate)`` if ``value > mean``. The slope is the derivative of the
    rate by the mean.
    ``contraction`` is the second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`.

    The moment generating function is at most ``prod_i nu(t, mean_i)``, where ``nu`` is the
    largest eigenvalue of ``diag(1, e^t)`` times the two-state kernel
    ``contraction * I + (1 - contraction) * 1 (1-mean, mean)``: reversible chains and one
    function, Leon and Perron 2004, Theorem 1; any chain and functions that differ, Fan, Jiang
    and Sun 2021, Lemmas 5-8. ``ln nu`` is the inverse of ``2 sqrt(contraction e^t) cosh(.)``
    at a point that is affine in the mean, so it is concave and means that differ may be
    averaged. Minimizing over ``t`` gives the large-deviation rate of that two-state chain: the
    relative entropy of the pair distribution with marginal ``value`` and flux ``x`` between the
    states, whose minimizer solves a quadratic.
    """
    complement = 1.0 - value
    mixing = 1.0 - contraction
    # Transition probabilities of the two-state chain from 0 to 1, from 1 to 0, in 1 and in 0.
    up = mixing * mean
    down = mixing * (1.0 - mean)
    stay_up = contraction + up
    stay_down = contraction + down
    with np.errstate(divide="ignore", invalid="ignore"):
        odds_ratio = up * down / (stay_up * stay_down)  # < 1 when contraction > 0
        product = odds_ratio * value * complement
        # Root x of (1 - odds_ratio) x^2 + odds_ratio x - product, in the form without cancellation.
        discriminant = odds_ratio * odds_ratio + 4.0 * (1.0 - odds_ratio) * product
        flux = 2.0 * product / (odds_ratio + np.sqrt(discriminant))
        flux = np.where(product > 0, flux, 0.0)
        flux = np.minimum(flux, np.minimum(value, complement))
        rate = rel_entr(value - flux, value * stay_up) + rel_entr(flux, value * down)
        rate += rel_entr(complement - flux, complement * stay_down) + rel_entr(
            flux, complement * up
        )
        # The flux minimizes the rate: its own derivative drops out of the slope.
        slope = flux / down - (value - flux) / stay_up
        slope += (complement - flux) / stay_down - flux / up
    return rate, mixing * slope


def hoeffding_lower_limit(values, log_failures, effective_n):
    """Return limits of Hoeffding's tail ``exp(-2 effective_n (value - mean)^2)``, at least 0."""
    return np.maximum(values - np.sqrt(-log_failures / (2.0 * effective_n)), 0.0)


def chain_lower_limit(values, rates, contraction):
    """Return the largest means whose :func:`_chain_rate` is at least ``rates``, or hardly less.

    ``rates`` are logs of inverse failure probabilities per record, ``contraction`` is in [0, 1).
    """
    # Rejected: the rate is at least that of (1 - c)/(1 + c) independent records per record.
    effective_n_per_record = (1.0 - contraction) / (1.0 + contraction)
    hoeffding_limits = hoeffding_lower_limit(values, -rates, effective_n_per_record)
    smallest = _MIN_CHAIN_LIMIT * values  # the rate is finite at 0: this mean may not be rejected
    rate_at_smallest, _ = _chain_rate(values, smallest, contraction)
    is_limit_positive = (hoeffding_limits > smallest) | (rate_at_smallest > rates)
    limits = _newton_from_left(
        lambda mean: _chain_rate(values, mean, contraction),
        np.maximum(hoeffding_limits, smallest),
        values,
        rates,
    )
    return np.where(is_limit_positive, limits, 0.0)


def chernoff_lower_limit(values: Array, rates: Array) -> Array:
    """Return the largest means with ``kl(value || mean)`` at least the rate, or hardly less.

    ``rates`` are ``-log_failure / n``, at least 0 (``inf``: nothing is rejected).
    """
    values, rates = np.broadcast_arrays(np.asarray(values, float), np.asarray(rates, float))
    complements = 1.0 - values
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Both starts are rejected: kl >= 2 (v - mu)^2 (Pinsker), kl >= v ln(v/mu) + (1-v) ln(1-v).
        start = values * np.exp((rel_entr(complements, 1.0) - rates) / values)
        start = np.fmax(start, hoeffding_lower_limit(values, -rates, 1.0))

    def kl_and_slope(mean):
        mean_complement = 1.0 - mean
        kl = rel_entr(values, mean) + rel_entr(complements, mean_complement)
        return kl, (mean - values) / (mean * mean_complement)

    return _newton_from_left(kl_and_slope, start, values, rates)


def _newton_from_left(rate_and_slope, start, values, rates):
    """Return the largest means of at least the given rates, or hardly less.

    ``rate_and_slope(mean)`` returns the rate at a mean, and its derivative. The means ``start``
    must have at least the given rates, else the result has no meaning; no mean exceeds
    ``values``. Newton's method from the left on a convex falling function stays on the left. Means
    that are too small for doubles are 0.
    """
    mean = start
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MAX_NEWTON_STEPS):
            rate_at_mean, slope = rate_and_slope(mean)
            # No step back, and no step if the rate is NaN.
            previous_mean = mean
            step = np.fmax((rates - rate_at_mean) / slope, 0.0)
            mean = np.minimum(previous_mean + step, values)
            if not (mean - previous_mean > 1e-7 * mean).any():  # the error is the square of it
                break
    # The smallest doubles hold few digits: limits that small are 0.
    is_limit_positive = np.isfinite(rates) & (mean > _SMALLEST_LIMIT)
    return np.where(is_limit_positive, mean * (1.0 - _SAFETY_MARGIN), 0.0)


def binomial_lower_limit(values: Array, log_failures: Array, n: int) -> Array:
    r"""Return Clopper-Pearson limits for the mean of ``n`` independent 0/1 scores.

    The scores may have different expectations; the limits are for the average of these. Failure
    probabilities above 1/4 count as 1/4. Limits for those that underflow are Chernoff's.

    Theory G8. Hoeffding 1956, Theorem 4: among independent bits of average mean :math:`\mu`,
    :math:`P[S \ge k]` is largest for equal means when :math:`k \ge n\mu + 1`. The limit
    at a failure probability of 1/4 or less has :math:`n\mu \le k - 1` for every :math:`k \ge 2`; at
    ``k = 1`` the union bound :math:`P[S \ge 1] \le n\mu` takes its place.
    """
    values, log_failures = np.broadcast_arrays(
        np.asarray(values, float), np.asarray(log_failures, float)
    )
    log_failures = np.minimum(log_failures, _LOG_QUARTER)
    failures = np.exp(log_failures)
    successes = np.ceil(n * values - 1e-6)  # rounding must not add a success
    # The mean with P[Bin(n, mean) >= successes] = failure; 0 for no success.
    limits = betaincinv(np.maximum(successes, 1), n - successes + 1, failures)
    limits = limits * (1.0 - _SAFETY_MARGIN)
    limits = np.where((successes > 0) & np.isfinite(limits), limits, 0.0)
    limits = np.where(successes == 1, failures / n, limits)
    underflows = log_failures < _MIN_LOG_FAILURE
    if underflows.any():
        limits = np.where(underflows, chernoff_lower_limit(values, -log_failures / n), limits)
    return limits


def _hinge(mean, corner, n):
    r"""Return ``ln E (B - t)_+`` of ``B = Bin(n, mean)``, its slope and ``E[B - t | B > t]``.

    ``corner`` is the whole number ``t``; the slope is the derivative of this log by the mean.
    :math:`E(B-t)_+ = n\mu P[B' \ge t] - tP[B > t]` with :math:`B' \sim Bin(n - 1, \mu)`, written
    with the probability of :math:`B' = t`: only a factor of about the squared deviation cancels.
    """
    # Parameters of the beta distribution with P[Beta <= mean] = P[B > t].
    alpha = corner + 1.0
    beta = n - corner
    complement = 1.0 - mean
    expected_successes = n * mean
    log_density = xlogy(corner, mean) + xlog1py(beta - 1.0, -mean) - betaln(alpha, beta)
    density = np.exp(log_density) / n  # of B' at t
    above = betainc(alpha, beta, mean)  # P[B > t]
    excess = expected_successes * complement * density + (expected_successes - corner) * above
    slope = n * (above + complement * density)  # of the excess: n P[B' >= t]
    return np.log(np.maximum(excess, 0.0)), slope / excess, excess / above


def bounded_lower_limit(values: Array, log_failures: Array, n: int) -> Array:
    r"""Return limits for the mean of ``n`` independent scores in ``[0, 1]`` of any distributions.

    Theory G8: :math:`P[S \ge k] \le \min_t E(Bin(n, \mu) - t)_+/(k - t)` over whole
    ``t < k = n value``, Hoeffding's hinges. Each rejects the true mean on a half-line of values, so
    the largest of their limits rejects on the largest half-line only.
    """
    values, log_failures = np.broadcast_arrays(
        np.asarray(values, float), np.asarray(log_failures, float)
    )
    limits = chernoff_lower_limit(values, -log_failures / n)
    has_hinges = (log_failures > _MIN_LOG_FAILURE) & (log_failures < 0.0) & (values > 0.0)
    has_hinges &= n <= _MAX_HINGE_RECORDS
    if not has_hinges.any():
        return limits
    # Singular names: the entries that have hinges.
    log_failure = log_failures[has_hinges] - _HINGE_ERROR
    value = values[has_hinges]
    successes = np.maximum(n * value - 1e-6, 0.0)  # rounding must not add a success
    max_corner = np.maximum(np.ceil(successes) - 1.0, 0.0)
    distances = np.full(value.shape, np.inf)  # k - t of the hinges of the last steps
    mean = np.minimum(limits[has_hinges], (1.0 - _SAFETY_MARGIN) * value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rounded_value = successes / n
        log_odds_ratio = (
            np.log(rounded_value) - np.log(mean) + np.log1p(-mean) - np.log1p(-rounded_value)
        )
        best_corner = successes - 1.0 / log_odds_ratio  # for a geometric tail
        for shift in _CORNER_SHIFTS:
            # Whole, below ``successes`` (also if the best is NaN), and near: any such corner is
            # valid.
            corner = np.maximum(np.ceil(np.fmin(best_corner, max_corner)), 0.0)
            log_hinge, slope, overshoot = _hinge(mean, corner, n)
            # E (B - t)_+ integrates a beta distribution function: its logarithm is concave in the
            # mean's logarithm, tangents lie above, and Newton's step ends on the rejected side.
            distance = successes - corner
            log_step = (log_failure + np.log(distance) - log_hinge) / (slope * mean)
            next_mean = mean * np.exp(log_step)
            is_improved = (next_mean > mean) & (next_mean < value)
            np.copyto(distances, distance, where=is_improved)
            np.copyto(mean, next_mean, where=is_improved)
            # At the best corner, k - t is the mean excess.
            best_corner = successes - overshoot + shift
        mean *= 1.0 - _SAFETY_MARGIN
        # Far out a hinge is not a double and its step may end anywhere: evaluate the bound there.
        log_hinge, _, _ = _hinge(mean, successes - distances, n)
        log_bound = log_hinge - np.log(distances)
    is_rejected = (log_bound > _MIN_LOG_FAILURE) & (log_bound <= log_failure + 0.5 * _HINGE_ERROR)
    limits[has_hinges] = np.where(is_rejected, mean, limits[has_hinges])
    return limits


def _worst_sums(t, weights, counts, log_factors):
    """Return the largest mean ``S`` at each value of ``M``, for one exponent ``t`` (theory G12).

    ``counts`` scores have each of the ``weights``. ``S(nu) = sum w_i mu_i`` is the expected mean
    and ``M(nu) = sum ln(1 + mu_i (e^{t w_i} - 1))`` the log of the moment generating function of
    the water-filling ``w_i mu_i = clip(nu - a_i, 0, w_i)``, ``a_i = w_i / (e^{t w_i} - 1)``, the
    worst distribution of means. ``log_factors`` are values of ``M``; for negative ones ``S`` is 0.
    Between neighboring breakpoints ``S`` is ``A nu + B`` and ``M`` is ``A ln nu + C``.
    """
    exponents = t * weights
    log_starts = np.log(weights) - exponents - np.log(-np.expm1(-exponents))  # ln a_i
    starts = np.exp(log_starts)
    # Values of nu at which a score starts to have a positive mean, and at which its mean is 1.
    breakpoints = np.concatenate([starts, starts + weights])
    log_stops = log_starts + np.logaddexp(0.0, np.log(weights) - log_starts)
    log_breakpoints = np.concatenate([log_starts, log_stops])
    signs = np.concatenate([counts, -counts])
    order = np.argsort(breakpoints, kind="stable")
    # A, B and C to the right of each breakpoint.
    slopes = np.cumsum(signs[order])
    slopes[np.abs(slopes) < 0.5] = 0.0
    offsets = -np.cumsum((signs * breakpoints)[order])
    log_offsets = -np.cumsum((signs * log_breakpoints)[order])
    sums_at_breakpoints = slopes * breakpoints[order] + offsets
    factors_at_breakpoints = slopes * log_breakpoints[order] + log_offsets
    index = np.searchsorted(factors_at_breakpoints, log_factors, side="right") - 1
    interval = np.clip(index, 0, len(breakpoints) - 1)
    slope = slopes[interval]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nu = np.exp((log_factors - log_offsets[interval]) / slope)
        sums = slope * nu + offsets[interval]
    sums = np.where(slope > 0, sums, sums_at_breakpoints[interval])
    return np.where(index < 0, 0.0, np.maximum(sums, 0.0))


def weighted_lower_limit(
    values: Array, log_failures: Array, weights: Array, counts: Array
) -> Array:
    r"""Return limits for the mean of independent scores of unequal weight.

    ``counts`` scores in ``[0, 1]`` have each of the distinct ``weights``, whose sum over the scores
    is 1; the limits are for :math:`\sum_i w_i\mu_i`, after :math:`\sum_i w_i\varphi_i` has reached
    or exceeded the values.

    Theory G12. Each exponent ``t`` rejects the means for which
    :math:`-tv + \max_\mu \sum_i\ln(1 + \mu_i(e^{tw_i} - 1))` is at most the log of the failure
    probability. The bound rises with the mean, so the largest limit over a grid of exponents is
    taken.
    """
    values, log_failures = np.broadcast_arrays(
        np.asarray(values, float), np.asarray(log_failures, float)
    )
    weights = np.asarray(weights, float)
    counts = np.asarray(counts, float)
    limits = np.zeros(values.shape)
    is_positive = np.isfinite(log_failures) & (log_failures < 0.0) & (values > 0.0)
    if not is_positive.any():
        return limits
    # Singular names: the entries whose limits may be positive.
    value = values[is_positive]
    log_failure = log_failures[is_positive]
    best = np.zeros(value.shape)  # largest limits so far
    # From exponents of small deviations to those of certainty.
    sum_of_squares = float(np.sum(counts * weights**2))
    first_exponent = 0.3 * math.sqrt(float(-log_failure.max()) / sum_of_squares)
    last_exponent = max(10.0 * first_exponent, 60.0 / float(weights.min()))
    for t in np.geomspace(first_exponent, last_exponent, 240):
        best = np.maximum(best, _worst_sums(t, weights, counts, log_failure + t * value))
    limits[is_positive] = np.minimum(best * (1.0 - _SAFETY_MARGIN), value)
    return limits


def component_lower_limit(values, log_failures, sizes, counts):
    """Return limits for a mean of records that form independent components.

    A component's mean is one score, of weight ``size / n`` (theory G12); ``counts`` components have
    each of the distinct ``sizes``.
    """
    if len(sizes) == 1:
        return bounded_lower_limit(values, log_failures, int(counts[0]))
    weights = sizes / float(np.sum(sizes * counts))
    return weighted_lower_limit(values, log_failures, weights, counts)
