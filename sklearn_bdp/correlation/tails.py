"""Concentration of one fixed query: tails and their inverses, pure functions.

Theory H1-H5 (Hoeffding, chains), G5 (Chernoff), G8 (binomial, hinges), G12 (weights). A
*limit* is a mean that the tail rejects; all of them end on the rejected, safe side.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, betaln, rel_entr, xlog1py, xlogy

from sklearn_bdp._typing import Array

_SAFE = 1e-9  # of a value: safety margin of limits; inverted beta functions are off by less
_LARGEST = 10_000_000  # records, up to which hinges are evaluated
_SHIFTS = (0.0, 0.0, 0.0, -1.0, 0.0)  # hinges tried, the last one beside the best
_ROUNDING = 1e-6  # nats: relative error of a hinge, with a margin
_NEWTON = 40  # steps at most; five or six are usual
_LEAST = 1e-12  # of a value: smaller limits on chains are 0
_DEEPEST = -690.0  # e^level may underflow below it
_SMALLEST = math.exp(_DEEPEST)
_QUARTER = math.log(0.25)


def _chain_rate(value, mean, contraction):
    r"""Return the Leon-Perron rate of a stationary chain, in nats per record, and its slope.

    For a stationary chain whose operator on mean-zero functions has norm ``contraction`` in (0, 1),
    ``P[q(X) >= value] <= exp(-n * rate)`` if ``value > mean``; the slope is that by the mean.
    ``contraction`` is the second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`.

    The moment generating function is at most ``prod_i nu(t, mean_i)``, where ``nu`` is the
    largest eigenvalue of ``diag(1, e^t)`` times the two-state kernel
    ``contraction * I + (1 - contraction) * 1 (1-mean, mean)``: reversible chains and one
    function, Leon and Perron 2004, Theorem 1; any chain and functions that differ, Fan, Jiang
    and Sun 2021, Lemmas 5-8. ``ln nu`` is the inverse of ``2 sqrt(contraction e^t) cosh(.)``
    at a point that is affine in the mean, so it is concave and means that differ may be
    averaged. Minimising over ``t`` gives the large-deviation rate of that two-state chain: the
    relative entropy of the pair distribution with marginal ``value`` and flux ``x`` between the
    states, whose minimiser solves a quadratic.
    """
    complement = 1.0 - value
    mixing = 1.0 - contraction
    up, down = mixing * mean, mixing * (1.0 - mean)
    stay_up, stay_down = contraction + up, contraction + down
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = up * down / (stay_up * stay_down)  # < 1 when contraction > 0
        product = odds * value * complement
        # Root of (1 - odds) x^2 + odds x - product, in the form without cancellation.
        root = np.sqrt(odds * odds + 4.0 * (1.0 - odds) * product)
        flux = np.where(product > 0, 2.0 * product / (odds + root), 0.0)
        flux = np.minimum(flux, np.minimum(value, complement))
        rate = rel_entr(value - flux, value * stay_up) + rel_entr(flux, value * down)
        rate += rel_entr(complement - flux, complement * stay_down) + rel_entr(
            flux, complement * up
        )
        # The flux minimises the rate: its own derivative drops out of the slope.
        slope = flux / down - (value - flux) / stay_up
        slope += (complement - flux) / stay_down - flux / up
    return rate, mixing * slope


def hoeffding_lower_limit(values, levels, effective_n):
    """Return the means that Hoeffding's ``-2 n_eff (value - mean)^2`` rejects, or 0."""
    return np.maximum(values - np.sqrt(-levels / (2.0 * effective_n)), 0.0)


def chain_lower_limit(values, rates, contraction):
    """Return means whose rate is at least ``rates``, the largest such or hardly less.

    ``contraction`` is in [0, 1).
    """
    # Rejected: the rate is at least that of n (1 - c)/(1 + c) independent records.
    start = hoeffding_lower_limit(values, -rates, (1.0 - contraction) / (1.0 + contraction))
    smallest = _LEAST * values  # the rate is finite at 0: this mean may not be rejected
    reached = (start > smallest) | (_chain_rate(values, smallest, contraction)[0] > rates)
    limit = _from_the_left(
        lambda mean: _chain_rate(values, mean, contraction),
        np.maximum(start, smallest),
        values,
        rates,
    )
    return np.where(reached, limit, 0.0)


def chernoff_lower_limit(values: Array, rates: Array) -> Array:
    """Return the largest means ``mu`` with ``kl(value || mu)`` at least ``rate``, or hardly less.

    ``rates`` are ``-level / n``, at least 0 (``inf``: nothing is rejected).
    """
    value, rate = np.broadcast_arrays(np.asarray(values, float), np.asarray(rates, float))
    complement = 1.0 - value
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Both starts are rejected: kl >= 2 (v - mu)^2 (Pinsker), kl >= v ln(v/mu) + (1-v) ln(1-v).
        start = value * np.exp((rel_entr(complement, 1.0) - rate) / value)
        start = np.fmax(start, hoeffding_lower_limit(value, -rate, 1.0))

    def kl(mean):
        miss = 1.0 - mean
        rate_at_mean = rel_entr(value, mean) + rel_entr(complement, miss)
        return rate_at_mean, (mean - value) / (mean * miss)

    return _from_the_left(kl, start, value, rate)


def _from_the_left(rate_and_slope, start, value, rate):
    """Return the largest mean of at least that rate, or hardly less; ``start`` has it.

    Newton's method from the left on a convex falling function stays on the left.
    """
    mean = start
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_NEWTON):
            reached, slope = rate_and_slope(mean)
            # No step back, and no step if the rate is NaN.
            previous_mean = mean
            step = np.fmax((rate - reached) / slope, 0.0)
            mean = np.minimum(previous_mean + step, value)
            if not (mean - previous_mean > 1e-7 * mean).any():  # the error is the square of it
                break
    # The smallest doubles hold few digits: limits that small are 0.
    return np.where(np.isfinite(rate) & (mean > _SMALLEST), mean * (1.0 - _SAFE), 0.0)


def binomial_lower_limit(values: Array, levels: Array, n: int) -> Array:
    r"""Return Clopper-Pearson limits for the mean of ``n`` independent 0/1 scores.

    The bits may have different means; the limits are for the average of these. Values are those
    that the mean score has reached or exceeded, in ``[0, 1]``, levels the logs of failure
    probabilities.

    Theory G8. Hoeffding 1956, Theorem 4: among independent bits of average mean :math:`\mu`,
    :math:`P[S \ge k]` is largest for equal means when :math:`k \ge n\mu + 1`. The limit
    at level 1/4 or below has :math:`n\mu \le k - 1` for every :math:`k \ge 2`; at ``k = 1`` the
    union bound :math:`P[S \ge 1] \le n\mu` takes its place.
    """
    value, level = np.broadcast_arrays(np.asarray(values, float), np.asarray(levels, float))
    level = np.minimum(level, _QUARTER)
    counts = np.ceil(n * value - 1e-6)  # rounding must not add a success
    # The mean with ln P[Bin(n, mean) >= counts] at the level; 0 for no success.
    limit = betaincinv(np.maximum(counts, 1), n - counts + 1, np.exp(level)) * (1.0 - _SAFE)
    limit = np.where((counts > 0) & np.isfinite(limit), limit, 0.0)
    limit = np.where(counts == 1, np.exp(level) / n, limit)
    if np.any(level < _DEEPEST):
        limit = np.where(level < _DEEPEST, chernoff_lower_limit(value, -level / n), limit)
    return limit


def _hinge(mean, corner, n):
    r"""Return ``ln E (B - t)_+`` of ``B = Bin(n, mean)``, its slope and ``E[B - t | B > t]``.

    :math:`E(B-t)_+ = n\mu P[B' \ge t] - tP[B > t]` with :math:`B' \sim Bin(n - 1, \mu)`, written
    with the probability of :math:`B' = t`: only a factor of about the squared deviation cancels.
    """
    # Parameters of the beta distribution with P[Beta <= mean] = P[B > t].
    alpha = corner + 1.0
    beta = n - corner
    miss = 1.0 - mean
    expected_hits = n * mean
    log_density = xlogy(corner, mean) + xlog1py(beta - 1.0, -mean) - betaln(alpha, beta)
    density = np.exp(log_density) / n  # of B' at t
    above = betainc(alpha, beta, mean)
    excess = expected_hits * miss * density + (expected_hits - corner) * above
    slope = n * (above + miss * density)  # n P[B' >= t]
    return np.log(np.maximum(excess, 0.0)), slope / excess, excess / above


def bounded_lower_limit(values: Array, levels: Array, n: int) -> Array:
    r"""Return limits for the mean of ``n`` independent scores in ``[0, 1]`` of any distributions.

    Theory G8: :math:`P[S \ge k] \le \min_t E(Bin(n, \mu) - t)_+/(k - t)` over whole
    ``t < k = n value``, Hoeffding's hinges. Each rejects the true mean on a half-line of values, so
    the largest of their limits rejects on the largest half-line only.
    """
    value, level = np.broadcast_arrays(np.asarray(values, float), np.asarray(levels, float))
    limit = chernoff_lower_limit(value, -level / n)
    usable = (level > _DEEPEST) & (level < 0.0) & (value > 0.0) & (n <= _LARGEST)
    if not usable.any():
        return limit
    level = level[usable] - _ROUNDING
    value = value[usable]
    successes = np.maximum(n * value - 1e-6, 0.0)  # rounding must not add a success
    max_corner = np.maximum(np.ceil(successes) - 1.0, 0.0)
    distances = np.full(value.shape, np.inf)  # from the hinges of the last steps
    mean = np.minimum(limit[usable], (1.0 - _SAFE) * value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = successes / n
        odds = np.log(share) - np.log(mean) + np.log1p(-mean) - np.log1p(-share)
        best = successes - 1.0 / odds  # for a geometric tail
        for shift in _SHIFTS:
            # Whole, below ``successes`` (also if the best is NaN), and near: any such corner is
            # valid.
            corner = np.maximum(np.ceil(np.fmin(best, max_corner)), 0.0)
            log_hinge, slope, overshoot = _hinge(mean, corner, n)
            # E (B - t)_+ integrates a beta distribution function: its logarithm is concave in the
            # mean's logarithm, tangents lie above, and Newton's step ends on the rejected side.
            distance = successes - corner
            step = mean * np.exp((level + np.log(distance) - log_hinge) / (slope * mean))
            is_improved = (step > mean) & (step < value)
            np.copyto(distances, distance, where=is_improved)
            np.copyto(mean, step, where=is_improved)
            best = successes - overshoot + shift  # the best of all: k - t = mean excess
        mean *= 1.0 - _SAFE
        # Far out a hinge is not a double and its step may end anywhere: evaluate the bound there.
        reached = _hinge(mean, successes - distances, n)[0] - np.log(distances)
    rejected = (reached > _DEEPEST) & (reached <= level + 0.5 * _ROUNDING)
    limit[usable] = np.where(rejected, mean, limit[usable])
    return limit


def _worst_sums(t, weights, counts, m_values):
    """Return ``S`` where ``M`` has the given values (0 below all), for one exponent (theory G12).

    ``S(nu) = sum w_i mu_i`` and ``M(nu) = sum ln(1 + mu_i (e^{t w_i} - 1))`` of the water-filling
    ``w_i mu_i = clip(nu - a_i, 0, w_i)``, ``a_i = w_i / (e^{t w_i} - 1)``, the worst distribution
    of means. Between neighboring breakpoints ``S`` is ``A nu + B`` and ``M`` is ``A ln nu + C``.
    """
    exponents = t * weights
    log_a = np.log(weights) - exponents - np.log(-np.expm1(-exponents))
    starts = np.exp(log_a)
    points = np.concatenate([starts, starts + weights])
    order = np.argsort(points, kind="stable")
    log_points = np.concatenate([log_a, log_a + np.logaddexp(0.0, np.log(weights) - log_a)])
    signs = np.concatenate([counts, -counts])
    active = np.cumsum(signs[order])
    active[np.abs(active) < 0.5] = 0.0
    offset = -np.cumsum((signs * points)[order])
    log_offset = -np.cumsum((signs * log_points)[order])
    s_at_points = active * points[order] + offset
    m_at_points = active * log_points[order] + log_offset
    interval_index = np.searchsorted(m_at_points, m_values, side="right") - 1
    interval = np.clip(interval_index, 0, len(points) - 1)
    slope = active[interval]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nu = np.exp((m_values - log_offset[interval]) / slope)
        s_values = slope * nu + offset[interval]
    s_values = np.where(slope > 0, s_values, s_at_points[interval])
    return np.where(interval_index < 0, 0.0, np.maximum(s_values, 0.0))


def weighted_lower_limit(values: Array, levels: Array, weights: Array, counts: Array) -> Array:
    r"""Return limits for the mean of independent scores of unequal weight.

    ``counts`` scores in ``[0, 1]`` have each of the distinct ``weights``, whose sum over the scores
    is 1; the limits are for :math:`\sum_i w_i\mu_i`, after :math:`\sum_i w_i\varphi_i` has reached
    or exceeded the values.

    Theory G12. Each exponent ``t`` rejects the means for which
    :math:`-tv + \max_\mu \sum_i\ln(1 + \mu_i(e^{tw_i} - 1))` is at most the level; the bound rises
    with the mean, so the largest limit over a grid of exponents is taken.
    """
    value, level = np.broadcast_arrays(np.asarray(values, float), np.asarray(levels, float))
    weights = np.asarray(weights, float)
    counts = np.asarray(counts, float)
    limit = np.zeros(value.shape)
    finite = np.isfinite(level) & (level < 0.0) & (value > 0.0)
    if not finite.any():
        return limit
    value = value[finite]
    level = level[finite]
    best = np.zeros(value.shape)
    # From exponents of small deviations to those of certainty.
    start = 0.3 * math.sqrt(float(-level.max()) / float(np.sum(counts * weights**2)))
    for t in np.geomspace(start, max(10.0 * start, 60.0 / float(weights.min())), 240):
        best = np.maximum(best, _worst_sums(t, weights, counts, level + t * value))
    limit[finite] = np.minimum(best * (1.0 - _SAFE), value)
    return limit


def component_lower_limit(values, levels, sizes, counts):
    """Return limits for a mean over independent components.

    A component's mean is one score, of weight ``size / n`` (theory G12); ``counts`` components have
    each of the distinct ``sizes``.
    """
    if len(sizes) == 1:
        return bounded_lower_limit(values, levels, int(counts[0]))
    weights = sizes / float(np.sum(sizes * counts))
    return weighted_lower_limit(values, levels, weights, counts)
