"""Calibration of a reversible chain by its spectral gap: Zhao 2017, Lemma 4 (theory B4)."""

import math

import numpy as np


def spectral_smallest_n(gap, smallest):
    """Return the least ``n`` for which some level satisfies ``n >= 2d``."""
    # d >= (1/g) ln(1/rho) with strict inequality: coth > 1.
    return 2 * (math.floor(-math.log(smallest) / gap) + 1)


def spectral_dp_epsilon(bdp_epsilon, gap, smallest, n):
    """Return the DP level ``h`` that Lemma 4 of Zhao (2017) proves sufficient for a BDP level.

    ``max_c min{(1-6c) e / (2d-1), (1/3-2c) e / (d+s)}`` over ``0 < c < 1/6`` with ``n >= 2d``; 0
    when no ``c`` qualifies. ``gap`` is ``1 - max_{j>=2} |lambda_j|``, ``smallest`` the smallest
    stationary probability ``rho``.

    ``d`` falls in steps as ``c`` grows while both terms fall in ``c``; so the best ``c`` for
    each integer ``d`` is the smallest that reaches it,
    ``c = (2/e) artanh(exp(-g d) / rho)``, and one pass over ``d`` finds the maximum exactly.

    Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, WPES'17,
    Lemma 4; ``s`` is defined in Section 5.3.
    """
    e = bdp_epsilon
    # Zhao 2017, Section 5.3: s = floor((1/g) ln((e^{e/6}+1) / (rho (e^{e/6}-1)))).
    s = math.floor(math.log(1.0 / (smallest * math.tanh(e / 12.0))) / gap)
    first = math.floor(-math.log(smallest) / gap) + 1
    best, start = 0.0, first
    while 2 * start <= n and e / (2 * start - 1) > best:
        d = np.arange(start, min(n // 2, start + 4095) + 1)
        share = np.exp(-gap * d) / smallest
        with np.errstate(divide="ignore"):
            c = np.where(share < 1.0, (2.0 / e) * np.arctanh(np.minimum(share, 1.0)), math.inf)
        # Theory B4; Zhao 2017, Lemma 4.
        h = np.minimum((1.0 - 6.0 * c) * e / (2 * d - 1), (1.0 / 3.0 - 2.0 * c) * e / (d + s))
        best = max(best, float(h.max()))
        start = int(d[-1]) + 1
    return best * (1.0 - 1e-12)  # c = c(d) is approached, not always attained
