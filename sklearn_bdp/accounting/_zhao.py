"""The calibration of Zhao 2017 to the letter: Theorem 1's (7) and (8), Theorem 2 (theory G3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sklearn_bdp._bisection import crossing
from sklearn_bdp._checks import check_integer, check_option, check_probability, check_real
from sklearn_bdp.correlation import Bound, CorrelationModel


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
