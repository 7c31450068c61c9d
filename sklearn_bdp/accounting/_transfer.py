"""From leakage to generalization: G1, G2 and G6, one function each."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from sklearn_bdp._checks import check_integer
from sklearn_bdp._typing import Array


def sampling_half_width(
    n_effective: float, *, failure: float, n_queries: float, information: float = 0.0
) -> float:
    """Half-width α at which one of ``n_queries`` adaptive queries fails with small probability.

    ``ln p_0(α) = ln 2 − 2 n_eff α²`` for a fixed query, the union inside; ``information`` is K of
    theory G1 in nats, 0 for queries fixed in advance. In score units, and may exceed 1.
    """
    # √L = √K + √ln(1/failure), then p_0(α) · n_queries = e^{−L}.
    level = math.sqrt(information) + math.sqrt(-math.log(failure))
    return math.sqrt((level**2 + math.log(2.0 * n_queries)) / (2.0 * n_effective))


def log_transcripts(n_queries: int, budget: int, n_values: int) -> float:
    r"""Log of the number of distinct queries an adaptive analyst can reach (theory G2).

    .. math:: N = \sum_{b<B} V^b \binom{m}{b+1}

    for :math:`m` queries, a budget of :math:`B` "above" answers and :math:`V` values that one can
    take. Cf. the description-length argument of Dwork et al. 2015, Section 3.
    """
    m = check_integer("n_queries", n_queries, low=1)
    rounds = min(check_integer("budget", budget, low=1), m)
    values = check_integer("n_values", n_values, low=1)
    if rounds <= 20_000:
        b = np.arange(rounds, dtype=float)
        terms = b * math.log(values) + log_binomials(m, rounds + 1)[1:]
        return float(logsumexp(terms))
    # Many rounds: b V^b C(m, b+1) ≤ (largest term) · rounds; the largest by bisection of the ratio
    # V (m−b−1)/(b+2) ≥ 1, which falls with b.
    turn = min(rounds - 1, max(0, math.ceil((values * (m - 1.0) - 2.0) / (values + 1.0))))
    binomial = gammaln(m + 1.0) - gammaln(turn + 2.0) - gammaln(m - turn + 0.0)
    largest = turn * math.log(values) + binomial + 1e-9 * m  # the last term: rounding of gammaln
    return largest + math.log(rounds)


def posterior_excess(z: float, threshold_scale: float, query_scale: float) -> float:
    r""":math:`TL(z) = \int_z^\infty P[N_T + N_q > u]\,du` for Laplace noises (theory G6).

    The expected excess over a margin ``z`` of at least 0, in score units; one scale is positive.
    """
    big, small = max(threshold_scale, query_scale), min(threshold_scale, query_scale)
    if big == 0.0:
        return 0.0
    ratio = small / big
    u = z / big
    if 1.0 - ratio < 1e-5:
        # Limit σ(3 + u)e^{−u}/4 at the larger scale; larger than the value at unequal scales.
        return big * (3.0 + u) * math.exp(-u) / 4.0
    second = 0.0 if ratio < 1e-150 else ratio**3 * math.exp(-z / small)
    return big * (math.exp(-u) - second) / (2.0 * (1.0 - ratio) * (1.0 + ratio))


def log_binomials(m: int, count: int) -> Array:
    """Return ``ln C(m, b)`` for ``b = 0 … count - 1``, minus infinity where ``b > m``.

    By summation: gamma functions of a large ``m`` would cancel, and too small a count would be
    unsafe.
    """
    i = np.arange(max(count - 1, 0), dtype=float)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(m - i, 0.0)) - np.log(i + 1.0)
    return np.concatenate([[0.0], np.cumsum(steps)])[:count]
