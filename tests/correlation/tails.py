"""Upper tails of means of scores by a second route, which limits are compared with.

``log_tail_above(model, mean, value, n)`` bounds ``ln P[q(X) >= value]`` for one fixed mean of
scores; the package computes the inverse only (``mean_lower_limit``).
"""

import numpy as np
from scipy.special import betainc, betaln, rel_entr, xlog1py, xlogy

from sklearn_bdp.correlation import MarkovChain


def log_tail_above(model, mean, value, n):
    """Return ``ln`` of the smallest bound that holds under the model, at most 0."""
    mean, value = np.broadcast_arrays(np.asarray(mean, float), np.asarray(value, float))
    if hasattr(model, "models"):
        return np.max(
            [log_tail_above(component_model, mean, value, n) for component_model in model.models],
            axis=0,
        )
    result = np.minimum(hoeffding_above(mean, value, model.effective_n(n)), 0.0)
    result = np.minimum(result, _sharper(model, mean, value, n))
    return np.where(value > mean, result, 0.0)


def _sharper(model, mean, value, n):
    record_weights = model.sampling_scheme(n).weights
    if record_weights is not None:
        weights, counts = np.unique(record_weights, return_counts=True)
        return independent_log_tail(mean, value, weights, counts)
    if isinstance(model, MarkovChain):
        return -n * chain_rate(value, mean, model.contraction_)
    # A component's mean is one score, of weight size / n (theory G12).
    sizes, counts = np.unique(np.bincount(model.components(n)), return_counts=True)
    return independent_log_tail(mean, value, sizes / n, counts)


def independent_log_tail(mean, value, weights, counts):
    """Return ``ln`` of a bound on the upper tail of a weighted mean of independent scores."""
    if len(weights) == 1:
        return bounded_log_tail(mean, value, int(counts[0]))
    return weighted_log_tail(mean, value, weights, counts)


def hoeffding_above(mean, value, effective_n):
    """Return ``-2 n_eff (value - mean)^2``, one-sided: Hoeffding's exponent."""
    # Hoeffding 1963, Theorem 2; with martingale differences: Azuma 1967, McDiarmid 1989.
    return -2.0 * effective_n * np.maximum(value - mean, 0.0) ** 2


def bernoulli_rate(value, mean):
    """Return ``kl(value || mean)`` in nats, elementwise, 0 where ``value <= mean``.

    ``value ln(value/mean) + (1-value) ln((1-value)/(1-mean))``.
    """
    # Chernoff 1952; Hoeffding 1963, Theorem 1 (2.1). Theory G5.
    rate = rel_entr(value, mean) + rel_entr(1.0 - value, 1.0 - mean)
    return np.where(value > mean, np.maximum(rate, 0.0), 0.0)


def chain_rate(value, mean, contraction):
    r"""Return the Leon-Perron rate of a stationary chain, in nats per record.

    For a stationary chain whose operator on mean-zero functions has norm ``contraction``,
    ``P[q(X) >= value] <= exp(-n * chain_rate(value, mean, contraction))``.

    It is 0 where ``value <= mean``, and `bernoulli_rate` for ``contraction = 0``. Relative entropy
    of the pair distribution with marginal ``value`` and flux ``x`` between the two states; the
    minimiser solves a quadratic.
    """
    mean = np.asarray(mean, float)
    value = np.asarray(value, float)
    if contraction <= 0.0:
        return bernoulli_rate(value, mean)
    if contraction >= 1.0:
        return np.zeros(np.broadcast_shapes(mean.shape, value.shape))
    complement = 1.0 - value
    up_rate = (1.0 - contraction) * mean
    down_rate = (1.0 - contraction) * (1.0 - mean)
    odds = up_rate * down_rate / ((contraction + up_rate) * (contraction + down_rate))
    product = odds * value * complement
    root = np.sqrt(odds * odds + 4.0 * (1.0 - odds) * product)
    with np.errstate(divide="ignore", invalid="ignore"):
        flux = np.where(product > 0, 2.0 * product / (odds + root), 0.0)
        flux = np.minimum(flux, np.minimum(value, complement))
        rate = rel_entr(value - flux, value * (contraction + up_rate)) + rel_entr(
            flux, value * down_rate
        )
        rate += rel_entr(complement - flux, complement * (contraction + down_rate)) + rel_entr(
            flux, complement * up_rate
        )
    return np.where(value > mean, np.maximum(rate, 0.0), 0.0)


def bounded_log_tail(mean, value, n):
    r"""Return ``ln`` of a bound on ``P[mean of n scores >= value]``: Hoeffding's hinges.

    Theory G8: :math:`\min_t E(Bin(n, \mu) - t)_+/(k - t)` over whole ``t < k = n value``. Never
    above Chernoff's bound nor Bentkus' interpolated one; any ``t`` is valid.
    """
    best = -n * bernoulli_rate(value, mean)
    successes = np.maximum(n * value - 1e-6, 0.0)  # rounding must not add a success
    max_corner = np.maximum(np.ceil(successes) - 1.0, 0.0)

    def to_integer(corner):
        corner = np.where(np.isfinite(corner), corner, max_corner)
        return np.minimum(np.maximum(np.ceil(corner), 0.0), max_corner)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fraction = successes / n
        odds = np.log(fraction) - np.log(mean) + np.log1p(-mean) - np.log1p(-fraction)
        corner = to_integer(successes - 1.0 / odds)  # the best for a geometric tail
        for shift in (0.0, 0.0, 0.0, -1.0, 0.0):
            # E (B - t)_+ with the probability that Bin(n - 1, mean) is t.
            log_density = xlogy(corner, mean) + xlog1py(n - 1.0 - corner, -mean)
            density = np.exp(log_density - betaln(corner + 1.0, n - corner)) / n
            above = betainc(corner + 1.0, n - corner, mean)
            excess = n * mean * (1.0 - mean) * density + (n * mean - corner) * above
            bound = np.log(np.maximum(excess, 0.0)) - np.log(successes - corner) + 1e-6
            best = np.where(bound > -690.0, np.fmin(best, bound), best)  # further out no double
            corner = to_integer(successes - excess / above + shift)  # k - t is the mean excess
    return np.where(value > mean, np.minimum(best, 0.0), 0.0)


def weighted_log_tail(mean, value, weights, counts):
    """Return ``ln`` of a bound on the upper tail of a weighted mean of independent scores.

    Weights and counts as for ``weighted_lower_limit``; 0 where ``value <= mean``.
    """
    mean, value = np.broadcast_arrays(np.asarray(mean, float), np.asarray(value, float))
    weights = np.asarray(weights, float)
    counts = np.asarray(counts, float)
    result = np.zeros(mean.shape)
    start = 0.03 / np.sqrt(np.sum(counts * weights**2))
    for t in np.geomspace(start, max(10.0 * start, 60.0 / weights.min()), 240):
        result = np.minimum(result, worst_logs(t, weights, counts, mean) - t * value)
    result = np.where((mean <= 0.0) & (value > 0.0), -np.inf, result)
    return np.where(value > mean, result, 0.0)


def worst_logs(t, weights, counts, mean):
    """Return the largest ``sum ln(1 + mu_i (e^{t w_i} - 1))`` with ``sum w_i mu_i = mean`` (G12).

    Water-filling ``w_i mu_i = clip(nu - a_i, 0, w_i)`` with ``a_i = w_i / (e^{t w_i} - 1)``.
    """
    log_a = np.log(weights) - t * weights - np.log(-np.expm1(-t * weights))
    starts = np.exp(log_a)
    weights = np.asarray(weights, float)
    points = np.sort(np.concatenate([starts, starts + weights]))

    def filled(level):
        return np.clip(np.asarray(level)[..., None] - starts, 0.0, weights)

    share = filled(np.interp(mean, filled(points) @ counts, points)) / weights
    with np.errstate(divide="ignore"):
        logs = np.logaddexp(np.log1p(-share), np.log(share) + t * weights)
    return logs @ counts
