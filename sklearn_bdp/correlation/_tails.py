"""Concentration of one fixed query: pure functions, theory section 5 and G5."""

import numpy as np

__all__ = ["bernoulli_rate", "chain_rate", "hoeffding_above"]


def hoeffding_above(mean, value, effective_n):
    """Return ``-2 n_eff (value - mean)^2``, the one-sided Hoeffding exponent.

    Parameters
    ----------
    mean, value : ndarray
        Expected and reached mean score, in ``[0, 1]``.
    effective_n : float
        Equivalent number of independent records.

    Returns
    -------
    ndarray
        Log-probabilities (0 where ``value <= mean``).
    """
    # Hoeffding 1963, Theorem 2; with martingale differences: Azuma 1967, McDiarmid 1989.
    return -2.0 * effective_n * np.maximum(value - mean, 0.0) ** 2


def _times_log(x, y):
    """``x ln(x / y)`` with ``0 ln 0 = 0`` and ``inf`` where only ``y`` is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, x * (np.log(x) - np.log(y)), 0.0)


def bernoulli_rate(value, mean):
    """Return ``kl(value || mean)`` in nats, elementwise, 0 where ``value <= mean``.

    Parameters
    ----------
    value, mean : ndarray
        Numbers in ``[0, 1]``.

    Returns
    -------
    ndarray
        ``value ln(value/mean) + (1-value) ln((1-value)/(1-mean))``.
    """
    # Chernoff 1952; Hoeffding 1963, Theorem 1 (2.1). Theory G5.
    rate = _times_log(value, mean) + _times_log(1.0 - value, 1.0 - mean)
    return np.where(value > mean, np.maximum(rate, 0.0), 0.0)


def chain_rate(value, mean, contraction):
    r"""Return the Leon-Perron rate of a stationary chain, in nats per record.

    For a stationary chain whose operator on mean-zero functions has norm ``contraction``,
    ``P[q(X) >= value] <= exp(-n * chain_rate(value, mean, contraction))``.

    Parameters
    ----------
    value, mean : ndarray
        Reached and expected mean score, in ``[0, 1]``.
    contraction : float
        Second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`, in ``[0, 1)``.

    Returns
    -------
    ndarray
        The rate, 0 where ``value <= mean``; ``bernoulli_rate`` for ``contraction = 0``.

    Notes
    -----
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
    mean, value = np.broadcast_arrays(np.asarray(mean, float), np.asarray(value, float))
    if contraction <= 0.0:
        return bernoulli_rate(value, mean)
    if contraction >= 1.0:
        return np.zeros(mean.shape)
    up, down = (1.0 - contraction) * mean, (1.0 - contraction) * (1.0 - mean)
    odds = up * down / ((1.0 - up) * (1.0 - down))  # < 1 when contraction > 0
    product = value * (1.0 - value)
    # Root of (1 - odds) x^2 + odds x - odds * product, in the form without cancellation.
    root = np.sqrt(odds * odds + 4.0 * (1.0 - odds) * odds * product)
    with np.errstate(divide="ignore", invalid="ignore"):
        flux = np.where(product > 0, 2.0 * odds * product / (odds + root), 0.0)
    flux = np.minimum(flux, np.minimum(value, 1.0 - value))
    rate = (
        _times_log(value - flux, value * (1.0 - down))
        + _times_log(flux, value * down)
        + _times_log(flux, (1.0 - value) * up)
        + _times_log(1.0 - value - flux, (1.0 - value) * (1.0 - up))
    )
    return np.where(value > mean, np.maximum(rate, 0.0), 0.0)
