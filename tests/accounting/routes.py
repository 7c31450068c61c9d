"""Second routes: forward computations of the bounds that the package inverts."""

import math

import numpy as np
from scipy.stats import norm


def noise_tail(z, a, b, noise="laplace"):
    """Return ``P[N_T + N_q > z]`` for noises of scales ``a`` and ``b`` (theory N1)."""
    big = max(a, b)
    small = min(a, b)
    if noise == "gaussian":
        return norm.sf(z / math.hypot(a, b))
    if small == 0.0:
        return 0.5 * math.exp(-z / big)
    if big - small < 1e-6 * big:
        return (2.0 + z / big) / 4.0 * math.exp(-z / big)
    difference = big**2 * math.exp(-z / big) - small**2 * math.exp(-z / small)
    return difference / (2.0 * (big**2 - small**2))


def adaptive_failure(log_p0, information):
    """Return the bound of G1 on an event chosen by looking at answers."""
    return math.exp(-(max(math.sqrt(max(-log_p0, 0.0)) - math.sqrt(information), 0.0) ** 2))


def halved(accepted, safe, unsafe):
    """Return the last accepted points between arrays, by halving sixty times."""
    for _ in range(60):
        middle = (safe + unsafe) / 2.0
        is_accepted = np.asarray(accepted(middle), dtype=bool)
        safe = np.where(is_accepted, middle, safe)
        unsafe = np.where(is_accepted, unsafe, middle)
    return safe
