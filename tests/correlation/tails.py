"""Upper tails of means of scores by a second route, which limits are compared with.

``log_tail_above(model, mean, value, n)`` bounds ``ln P[q(X) >= value]`` for one fixed mean of
scores; the package computes the inverse only (``mean_lower_limit``).
"""

import numpy as np
from scipy.special import rel_entr

from sklearn_bdp.correlation import MarkovChain, WorstOf
from sklearn_bdp.correlation._tails import (
    _DEEPEST,
    _LARGEST,
    _ROUNDING,
    _chain_rate,
    _exponents,
    _hinges,
    _WorstMeans,
)


def log_tail_above(model, mean, value, n):
    """Return ``ln`` of the smallest bound that holds under the model, at most 0."""
    mean, value = np.broadcast_arrays(np.asarray(mean, float), np.asarray(value, float))
    if isinstance(model, WorstOf):
        return np.max([log_tail_above(part, mean, value, n) for part in model.models], axis=0)
    result = np.minimum(hoeffding_above(mean, value, model.effective_n(n)), 0.0)
    result = np.minimum(result, _sharper(model, mean, value, n))
    return np.where(value > mean, result, 0.0)


def _sharper(model, mean, value, n):
    if model.record_weights(n) is not None:
        weights, counts = np.unique(model.record_weights(n), return_counts=True)
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

    It is 0 where ``value <= mean``, and `bernoulli_rate` for ``contraction = 0``; ``contraction``
    is the second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`.

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
    mean, value = np.asarray(mean, float), np.asarray(value, float)
    if contraction <= 0.0:
        return bernoulli_rate(value, mean)
    if contraction >= 1.0:
        return np.zeros(np.broadcast_shapes(mean.shape, value.shape))
    rate, _ = _chain_rate(value, mean, contraction)
    return np.where(value > mean, np.maximum(rate, 0.0), 0.0)


def bounded_log_tail(mean, value, n):
    r"""Return ``ln`` of a bound on ``P[mean of n scores >= value]``: Hoeffding's hinges.

    Theory G8: :math:`\min_t E(Bin(n, \mu) - t)_+/(k - t)` over whole ``t < k = n value``. Never
    above Chernoff's bound nor Bentkus' interpolated one; any ``t`` is valid.
    """
    best = -n * bernoulli_rate(value, mean)  # Chernoff, where no hinge can be evaluated

    def keep(mean, log_hinge, _, distance):
        nonlocal best
        bound = log_hinge - np.log(distance) + _ROUNDING
        best = np.where((bound > _DEEPEST) & (n <= _LARGEST), np.fmin(best, bound), best)
        return mean

    # Rounding must not add a success.
    _hinges(keep, mean, np.maximum(n * value - 1e-6, 0.0), n)
    return np.where(value > mean, np.minimum(best, 0.0), 0.0)


def weighted_log_tail(mean, value, weights, counts):
    """Return ``ln`` of a bound on the upper tail of a weighted mean of independent scores.

    Weights and counts as for ``weighted_lower_limit``; 0 where ``value <= mean``.
    """
    mean, value = np.broadcast_arrays(np.asarray(mean, float), np.asarray(value, float))
    weights, counts = np.asarray(weights, float), np.asarray(counts, float)
    result = np.zeros(mean.shape)
    for t in _exponents(weights, counts, 1e-2):
        worst = logs_at(_WorstMeans(t, weights, counts), mean)
        result = np.minimum(result, worst - t * value)
    result = np.where((mean <= 0.0) & (value > 0.0), -np.inf, result)
    return np.where(value > mean, result, 0.0)


def logs_at(worst, sums):
    """Return ``M`` where ``S`` of the worst means has the given values (0 below all of them)."""
    place = np.searchsorted(worst.sums, sums, side="right") - 1
    segment = np.clip(place, 0, len(worst.points) - 1)
    active = worst.active[segment]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = active * np.log((sums - worst.shift[segment]) / active) + worst.log_shift[segment]
    found = np.where(active > 0, found, worst.logs[segment])
    return np.where(place < 0, 0.0, np.maximum(found, 0.0))
