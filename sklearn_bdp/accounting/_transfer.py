"""From leakage to generalization: G1, G2 and G6, one function each, and the theorems of Zhao 2017.

The latter to the letter: Theorem 1's (7) and (8), Theorem 2 (theory G3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from sklearn_bdp._bisection import crossing
from sklearn_bdp._checks import check_integer, check_option, check_probability, check_real
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation import Bound, CorrelationModel


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


def zhao_premise(
    *,
    tau: float,
    budget: int,
    sigma: float,
    beta: float,
    model: CorrelationModel,
    n: int | None = None,
    method: Bound = "quilt",
) -> float:
    r"""Return the records that Theorem 1 of Zhao 2017 needs: (8), or (7) by ``"blanket"``.

    .. math:: n_\# = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i\min_Q
       \frac{9B(|N_i|+1)}{4\sigma(\tau/3 - 4b_i)}\Big\}, \qquad
       n_* = \max\Big\{\frac{9\ln(4/\beta)}{\tau^2},\; \max_i
       \frac{9B}{4\sigma(\tau/3 - 4a_i)}\Big\}

    The second terms are :math:`9B/(4\sigma\varepsilon')` with the DP level :math:`\varepsilon'`
    that Lemma 2 (Lemma 3) gives for the BDP level :math:`\tau/3`; denominators must be positive.
    The theorem concludes ``|q(X) - q(P)| < tau``. It is false as stated: the premise can hold while
    ``q(X)`` does not concentrate at all (see the errata).

    Parameters
    ----------
    tau : float
        Tolerance.
    budget : int
        B.
    sigma : float
        σ of Algorithm 1 (noises σ, 2σ, 4σ).
    beta : float
        Failure probability of one query, in (0, 1).
    model : CorrelationModel
        How the records are correlated.
    n : int or None
        Number of records for models tied to them; ``None``: any, large enough for the lemma.
    method : {"quilt", "blanket", "spectral"}
        Lemma 2 of the paper, that is (8); Lemma 3, that is (7); or Lemma 4, an alternative for
        reversible chains.

    Returns
    -------
    float
        The premise reads ``n >=`` this; not rounded, ``inf`` when no positive level suffices.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range or the lemma does not apply to the model.

    References
    ----------
    Zhao 2017, Theorem 1, (7) and (8), and Lemmas 2-4.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent
    >>> round(zhao_premise(tau=0.1, sigma=0.5, budget=1, beta=0.05, model=Independent()))
    3944
    """
    tau = check_real("tau", tau, low=0.0, closed="neither")
    sigma = check_real("sigma", sigma, low=0.0, closed="neither")
    rounds = check_integer("budget", budget, low=1)
    beta = check_probability("beta", beta)
    check_option("method", method, ("quilt", "blanket", "spectral"))
    # The lemmas do not depend on n beyond n >= 2d.
    size = next(one for one in (n, model.n_records, 10**9) if one is not None)
    level = float(model.dp_epsilon(tau / 3.0, size, method=method))
    if level == 0.0:
        return math.inf
    return max(9.0 * math.log(4.0 / beta) / tau**2, 9.0 * rounds / (4.0 * sigma * level))


def zhao_required_n(
    *,
    tau: float,
    n_queries: int,
    budget: int,
    beta: float = 0.05,
    c: float = 0.5,
    model: CorrelationModel,
    n: int | None = None,
    method: Bound = "quilt",
) -> float:
    r"""Return the records that Theorem 2 of Zhao 2017 needs.

    .. math:: n_\#\Big(B,\; \frac{(1-c)\tau}{12\ln(4m/\beta)},\; \frac{(1-c)\tau}{4},\;
       \frac{\beta}{2m}\Big)

    with :math:`n_\#` of Theorem 1. ((31) of the paper prints this expression without putting the
    arguments in; the theorem's condition is the one meant.)

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1].
    n_queries : int
        Queries m.
    budget : int
        Answers from the holdout, B.
    beta : float
        Failure probability over all answers together.
    c : float
        Budget honesty, any number in (0, 1).
    model, n, method : object
        As for :func:`zhao_premise`.

    Returns
    -------
    float
        :math:`n_\#`, not rounded; ``inf`` when no positive level suffices.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range or the lemma does not apply to the model.

    References
    ----------
    Zhao 2017, Theorem 2 and Lemmas 2-4. Its proof rests on Theorem 1; see the errata.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent, MarkovChain
    >>> round(zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent()))
    1164741
    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> print(f"{zhao_required_n(tau=0.1, n_queries=100, budget=1, model=chain):.3g}")
    7.82e+07
    """
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    m = check_integer("n_queries", n_queries, low=1)
    beta, c = check_probability("beta", beta), check_probability("c", c)
    return zhao_premise(
        tau=(1.0 - c) * tau / 4.0,
        budget=budget,
        sigma=(1.0 - c) * tau / (12.0 * math.log(4.0 * m / beta)),
        beta=beta / (2.0 * m),
        model=model,
        n=n,
        method=method,
    )


def zhao_accuracy(
    n: int,
    *,
    n_queries: int,
    budget: int,
    beta: float,
    model: CorrelationModel,
    c: float = 0.5,
    threshold: float | None = None,
) -> tuple[float, float]:
    r"""Smallest τ that Theorem 2 promises with ``n`` records, and its c.

    :math:`n_\#` depends on :math:`u = (1-c)\tau` only. For a given threshold :math:`T =
    (1+c)\tau/2` the largest c with :math:`n_\# \le n` is the sharpest choice: :math:`c =
    (2T-u)/(2T+u)` at the smallest u; any c in (0, 1) will do without one. τ is infinite where the
    theorem promises nothing up to 1.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent
    >>> common = {"n_queries": 100, "budget": 1, "beta": 0.05, "model": Independent()}
    >>> tau, c = zhao_accuracy(1_164_742, **common)
    >>> print(f"{tau:.3f} {c}")
    0.100 0.5
    >>> tau, c = zhao_accuracy(1_164_742, threshold=0.1, **common)
    >>> print(f"{tau:.3f} {c:.3f}")
    0.125 0.600
    """
    c = check_probability("c", c)
    tiny = 1e-9  # every c gives the same u; this one lets it come near 1
    margin = (1.0 - tiny) * least_accuracy(
        lambda tau: zhao_required_n(
            tau=tau, n_queries=n_queries, budget=budget, beta=beta, c=tiny, model=model,
            n=model.n_records,
        ),
        n,
    )  # fmt: skip
    margin *= 1.0 + 1e-12  # so that rounding in τ and c cannot undo the premise
    if threshold is not None:
        c = (2.0 * threshold - margin) / (2.0 * threshold + margin)
    tau = margin / (1.0 - c) if c > 0.0 else math.inf
    return (tau, c) if tau <= 1.0 else (math.inf, c)


def least_accuracy(required: Callable[..., Any], n: int) -> float:
    r"""Smallest τ for which a theorem asks for at most ``n`` records; ``inf`` if none up to 1.

    ``required(tau)`` falls at least like :math:`\tau^{-2}`. The premise holds at the result.
    """
    largest = required(1.0)
    if not largest <= n:
        return math.inf

    def excess(log_tau):
        return math.log(required(math.exp(log_tau)) / n)

    # The premise falls at least like τ^{−2}: the root lies between √(n(1)/n) and 1.
    low = 0.5 * math.log(largest / n) - 1e-9
    if excess(low) <= 0.0:
        return math.exp(low)
    if excess(0.0) >= 0.0:
        return 1.0
    return math.exp(crossing(excess, 0.0, low))
