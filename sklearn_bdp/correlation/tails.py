"""Lower confidence limits for the expectation of one fixed mean of scores.

Theory H1-H5 (Hoeffding, chains), G5 (Chernoff), G8 (binomial, hinges), G12 (weights).

In all functions, ``values`` are in [0, 1], and the mean score has reached or exceeded them. A
``mean`` is a possible expectation of the mean score. ``log_failures`` are logs of one-sided failure
probabilities. A limit is a mean that is rejected: if it is the expectation, the value is reached
with at most the failure probability.
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
#: Differences of the corners to try from the best corner so far, in records.
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

    If the mean of ``n`` scores in [0, 1] has expectation ``mean < value``, it reaches ``value``
    with a probability of at most ``exp(-n * rate)`` (Leon and Perron 2004, Theorem 1; Fan, Jiang
    and Sun 2021, Lemmas 5-8). The slope is the derivative of the rate by ``mean``. ``contraction``:
    second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`, in [0, 1).
    """
    # The moment generating function is at most that of a two-state chain with the kernel
    # contraction * I + (1 - contraction) * 1 (1-mean, mean). Its large-deviation rate is the
    # relative entropy of the pair distribution with marginal `value` and flux x between the states.
    # The minimizer x solves a quadratic.
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
    """Return the lower limits for a mean by Hoeffding's bound, at least 0.

    They are the means with ``exp(-2 effective_n (value - mean)^2)`` equal to the failure
    probability. ``values``: numbers that the mean score has reached or exceeded. ``log_failures``:
    logs of one-sided failure probabilities.
    """
    return np.maximum(values - np.sqrt(-log_failures / (2.0 * effective_n)), 0.0)


def chain_lower_limit(values, rates, contraction):
    """Return lower limits for the mean of scores on a stationary Markov chain.

    Each limit is at most the largest mean whose :func:`_chain_rate` is at least the rate, and close
    to it. ``values``: numbers that the mean score has reached or exceeded. ``rates``:
    ``-log_failure / n``. ``contraction``: as for :func:`_chain_rate`.
    """
    # These limits are rejected: the rate is at least that of (1 - c)/(1 + c) independent records.
    effective_n_per_record = (1.0 - contraction) / (1.0 + contraction)
    hoeffding_limits = hoeffding_lower_limit(values, -rates, effective_n_per_record)
    # The rate is finite at 0, so that this mean may not be rejected.
    smallest_mean = _MIN_CHAIN_LIMIT * values
    rate_at_smallest, _ = _chain_rate(values, smallest_mean, contraction)
    is_limit_positive = (hoeffding_limits > smallest_mean) | (rate_at_smallest > rates)
    limits = _newton_from_left(
        lambda mean: _chain_rate(values, mean, contraction),
        np.maximum(hoeffding_limits, smallest_mean),
        values,
        rates,
    )
    return np.where(is_limit_positive, limits, 0.0)


def chernoff_lower_limit(values: Array, rates: Array) -> Array:
    """Return lower limits for the mean of ``n`` independent scores by Chernoff's bound.

    Each limit is at most the largest ``mean`` at which the relative entropy ``kl(value || mean)``
    of 0/1 variables is at least the rate, and close to it. ``values``: numbers that the mean score
    has reached or exceeded. ``rates``: ``-log_failure / n``, at least 0; the limit for ``inf`` is
    0.
    """
    values, rates = np.broadcast_arrays(np.asarray(values, float), np.asarray(rates, float))
    complements = 1.0 - values
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Both starting points are rejected: kl >= 2 (v - mu)^2 (Pinsker) and
        # kl >= v ln(v/mu) + (1-v) ln(1-v).
        start = values * np.exp((rel_entr(complements, 1.0) - rates) / values)
        start = np.fmax(start, hoeffding_lower_limit(values, -rates, 1.0))

    def kl_and_slope(mean):
        mean_complement = 1.0 - mean
        kl = rel_entr(values, mean) + rel_entr(complements, mean_complement)
        return kl, (mean - values) / (mean * mean_complement)

    return _newton_from_left(kl_and_slope, start, values, rates)


def _newton_from_left(rate_and_slope, start, values, rates):
    """Return means, as large as possible up to a tolerance, at which a rate is at least ``rates``.

    ``rate_and_slope(mean)`` returns the rate at each mean, a convex decreasing function, and its
    derivative. ``start``: means whose rate is at least ``rates``. No result exceeds ``values``.
    Means too small for floats, and those for an infinite rate, are 0.
    """
    # From the left, Newton's method on a convex decreasing function stays on the left.
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
    """Return Clopper-Pearson lower limits for the mean of ``n`` independent 0/1 scores (theory G8).

    The scores may have different expectations; the limits are for the average of these. ``values``:
    numbers that the mean score has reached or exceeded. ``log_failures``: logs of one-sided failure
    probabilities; those above 1/4 count as 1/4. If they underflow, limits are Chernoff's.
    """
    # Hoeffding 1956, Theorem 4: P[S >= k] of independent bits is largest for equal means if k is at
    # least n mu + 1. Limits at a failure probability of 1/4 or less have this property for k >= 2.
    # At k = 1, the union bound P[S >= 1] <= n mu takes their place.
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
    """Return ``ln E (B - t)_+`` of ``B ~ Bin(n, mean)``, its slope and ``E[B - t | B > t]``.

    ``corner``: the whole numbers ``t``. The slope is the derivative of the logarithm by ``mean``.
    """
    # E (B - t)_+ is n mu P[B' >= t] - t P[B > t] with B' ~ Bin(n - 1, mu). Written with P[B' = t],
    # only a factor of about the squared deviation cancels.
    # Parameters of the beta distribution with P[Beta <= mean] = P[B > t].
    alpha = corner + 1.0
    beta = n - corner
    complement = 1.0 - mean
    expected_successes = n * mean
    log_density = xlogy(corner, mean) + xlog1py(beta - 1.0, -mean) - betaln(alpha, beta)
    density = np.exp(log_density) / n  # P[B' = t]
    tail = betainc(alpha, beta, mean)  # P[B > t]
    excess = expected_successes * complement * density + (expected_successes - corner) * tail
    slope = n * (tail + complement * density)  # of the excess: n P[B' >= t]
    return np.log(np.maximum(excess, 0.0)), slope / excess, excess / tail


def bounded_lower_limit(values: Array, log_failures: Array, n: int) -> Array:
    r"""Return lower limits for the mean of ``n`` independent scores in [0, 1] (theory G8).

    Each is the largest of several limits by Hoeffding's hinges
    :math:`P[S \ge k] \le E(Bin(n, \mu) - t)_+/(k - t)` with whole ``t < k = n * value``, and by
    Chernoff's bound. Scores may have different distributions. ``values``: numbers that the mean
    score has reached or exceeded. ``log_failures``: logs of one-sided failure probabilities.
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
            # Any whole number below ``successes`` is valid. NaN becomes the largest of these.
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
            # At the best corner t, k - t is E[B - t | B > t].
            best_corner = successes - overshoot + shift
        mean *= 1.0 - _SAFETY_MARGIN
        # A hinge that underflows has a meaningless step: evaluate the bound at the result.
        log_hinge, _, _ = _hinge(mean, successes - distances, n)
        log_bound = log_hinge - np.log(distances)
    is_rejected = (log_bound > _MIN_LOG_FAILURE) & (log_bound <= log_failure + 0.5 * _HINGE_ERROR)
    limits[has_hinges] = np.where(is_rejected, mean, limits[has_hinges])
    return limits


def _worst_sums(t, weights, counts, log_factors):
    """Return the largest weighted sums of expectations that a moment generating function allows.

    For each entry of ``log_factors``, this is the largest ``S`` such that all expectations ``mu_i``
    in [0, 1] of scores with ``sum w_i mu_i = S`` have ``sum ln(1 + mu_i (e^{t w_i} - 1))`` of at
    most this entry (theory G12). It is 0 for negative entries. ``counts[k]`` scores have the weight
    ``weights[k]``.
    """
    # The maximum M of the logarithm at a given S is at w_i mu_i = clip(nu - a_i, 0, w_i) with
    # a_i = w_i / (e^{t w_i} - 1). Between neighboring breakpoints of nu, S is A nu + B and M is
    # A ln nu + C.
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
    log_factors_at_breakpoints = slopes * log_breakpoints[order] + log_offsets
    index = np.searchsorted(log_factors_at_breakpoints, log_factors, side="right") - 1
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
    """Return lower limits for the expected weighted mean of independent scores (theory G12).

    ``counts[k]`` scores in [0, 1] have the weight ``weights[k]``; weights sum to 1 over all scores.
    ``values``: numbers that the weighted mean has reached or exceeded. ``log_failures``: logs of
    one-sided failure probabilities.
    """
    # Each exponent t rejects the means for which -t v + max_mu sum_i ln(1 + mu_i (e^{t w_i} - 1))
    # is at most the log of the failure probability. The largest of these limits is used.
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
    largest_limits = np.zeros(value.shape)  # over the exponents so far
    # From exponents for small deviations to those for values near 1.
    sum_of_squares = float(np.sum(counts * weights**2))
    first_exponent = 0.3 * math.sqrt(float(-log_failure.max()) / sum_of_squares)
    last_exponent = max(10.0 * first_exponent, 60.0 / float(weights.min()))
    for t in np.geomspace(first_exponent, last_exponent, 240):
        sums = _worst_sums(t, weights, counts, log_failure + t * value)
        largest_limits = np.maximum(largest_limits, sums)
    limits[is_positive] = np.minimum(largest_limits * (1.0 - _SAFETY_MARGIN), value)
    return limits


def component_lower_limit(values, log_failures, sizes, counts):
    """Return lower limits for the mean of scores in [0, 1] of records in independent components.

    ``counts[k]`` components have ``sizes[k]`` records. ``values``: numbers that the mean score has
    reached or exceeded. ``log_failures``: logs of one-sided failure probabilities. The mean of a
    component is one score, of weight ``size / n`` (theory G12).
    """
    if len(sizes) == 1:
        return bounded_lower_limit(values, log_failures, int(counts[0]))
    weights = sizes / float(np.sum(sizes * counts))
    return weighted_lower_limit(values, log_failures, weights, counts)
