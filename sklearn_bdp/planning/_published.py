"""What others would certify, as printed: for comparison tables (theory G3).

None of these is used by ``route="best"``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_integer, check_option, check_probability, check_real

__all__ = [
    "dwork_required_n",
    "floor_required_n",
    "jung_half_width",
    "rogers_half_width",
    "rogers_thresholdout_half_width",
    "splitting_required_n",
]


def _check_promise(tau, n_queries, budget, beta):
    return (
        check_real("tau", tau, low=0.0, high=1.0, closed="right"),
        check_integer("n_queries", n_queries, low=1),
        check_integer("budget", budget, low=1),
        check_probability("beta", beta),
    )


def dwork_required_n(
    *, tau: float, n_queries: int, budget: int, beta: float = 0.05, branch: str = "best"
) -> float:
    r"""Records that Dwork et al. ask for: Theorem 9 (2017), Theorem 25 (2015), i.i.d. only.

    The theorem prints :math:`O(\ln(m/\beta)/\tau^2) \cdot
    \min\{B, \sqrt{B\ln(\ln(m/\beta)/\tau)}\}`. Its constants are rebuilt from its argument:
    Thresholdout with :math:`\sigma = \tau/(96\ln(4m/\beta))` (noises 2σ, 4σ, σ) is
    :math:`B\varepsilon_0`-DP with :math:`\varepsilon_0 = 2/(\sigma n)`, and each query may be off
    by :math:`\tau/8` with probability :math:`\beta/(2m)`.

    - ``"pure"``: Theorem 4 at level :math:`\tau/8`, :math:`6e^{-\tau^2 n/64} \le \beta/(2m)`:
      :math:`\max\{16B/(\sigma\tau),\; 64\ln(12m/\beta)/\tau^2\}`.
    - ``"approximate"``: the smallest n for which strong composition,
      :math:`\varepsilon = \varepsilon_0\sqrt{2B\ln(1/\delta)} +
      B\varepsilon_0(e^{\varepsilon_0}-1)`, meets the bound for
      :math:`(\varepsilon, \delta)`-DP that the paper relies on: off by :math:`13\varepsilon` with
      probability :math:`(2\delta/\varepsilon)\ln(2/\varepsilon)` once
      :math:`n \ge 2\ln(8/\delta)/\varepsilon^2`, with :math:`\varepsilon = \tau/104`.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1).
    n_queries : int
        Queries m.
    budget : int
        Answers from the holdout, B.
    beta : float
        Failure probability.
    branch : {"best", "pure", "approximate"}, default="best"
        The two sides of the theorem's minimum, B and √B; ``"best"``: the smaller.

    Returns
    -------
    float
        Records, not rounded.

    References
    ----------
    Dwork et al. 2017, Theorems 4 and 9; Dwork et al. 2015, Theorems 9 and 25 (the former after
    Nissim and Stemmer, arXiv:1504.05800).

    Examples
    --------
    >>> round(dwork_required_n(tau=0.1, n_queries=100, budget=1))
    1380433
    """
    tau, m, rounds, beta = _check_promise(tau, n_queries, budget, beta)
    check_option("branch", branch, ("best", "pure", "approximate"))
    sigma = tau / (96.0 * math.log(4.0 * m / beta))
    found = []
    if branch != "approximate":
        found.append(max(16.0 * rounds / (sigma * tau), 64.0 * math.log(12.0 * m / beta) / tau**2))
    if branch != "pure":
        found.append(_dwork_approximate(tau, m, rounds, beta, sigma))
    return min(found)


def _dwork_approximate(tau, m, rounds, beta, sigma):
    """Return the √B side of Theorem 9, with constants rebuilt (see `dwork_required_n`)."""
    epsilon = tau / (8.0 * 13.0)
    delta = beta / (2.0 * m) * epsilon / (2.0 * math.log(2.0 / epsilon))
    slope = math.sqrt(-2.0 * rounds * math.log(delta))
    level = last_accepted(
        lambda each: each * slope + rounds * each * np.expm1(each) <= epsilon,
        0.0,
        epsilon / slope,
        steps=60,
    )
    return max(2.0 / (sigma * level), 2.0 * math.log(8.0 / delta) / epsilon**2)


def floor_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Effective records that queries fixed in advance need by Hoeffding (no mechanism).

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1).
    n_queries : int
        Queries m.
    beta : float
        Failure probability.

    Returns
    -------
    float
        Effective records, not rounded.

    References
    ----------
    Theory G3.
    """
    tau, m, _, beta = _check_promise(tau, n_queries, 1, beta)
    return math.log(2.0 * m / beta) / (2.0 * tau**2)


def splitting_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Effective records when every query gets fresh ones.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1).
    n_queries : int
        Queries m.
    beta : float
        Failure probability.

    Returns
    -------
    float
        Effective records, not rounded.

    References
    ----------
    Theory G3.
    """
    return n_queries * floor_required_n(tau=tau, n_queries=n_queries, beta=beta)


def jung_half_width(
    n: int,
    *,
    n_queries: int,
    beta: float = 0.05,
    noise: Literal["gaussian", "laplace"] = "gaussian",
) -> float:
    r"""Half-width of noise addition on independent records by the posterior argument.

    A mechanism that is :math:`(\alpha, \beta_0)`-accurate for the sample and
    :math:`(\varepsilon, \delta)`-DP is :math:`(\alpha + e^\varepsilon - 1 + c + 2d,\;
    \beta_0/c + \delta/d)`-accurate for the distribution; noise and split are optimised.

    Parameters
    ----------
    n : int
        Independent records.
    n_queries : int
        Queries, all answered with noise.
    beta : float
        Failure probability.
    noise : {"gaussian", "laplace"}
        Distribution of the noise. Laplace is composed as pure DP or strongly (as zCDP), whichever
        is better.

    Returns
    -------
    float
        Half-width.

    References
    ----------
    Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld, *A new analysis of differential
    privacy's generalization guarantees*, ITCS 2020, Theorem 3.5 (arXiv:1909.03577).
    """
    size, k = check_integer("n", n, low=1), check_integer("n_queries", n_queries, low=1)
    beta = check_probability("beta", beta)
    check_option("noise", noise, ("gaussian", "laplace"))

    def strong(parameters):
        # zCDP of k answers: ρ = k(Δ/σ)²/2 for Gaussian and for Laplace noise of scale σ (Bun,
        # Steinke 2016, Prop. 1.4 and 1.6); ρ-zCDP is (ρ + 2√(ρ ln(1/δ)), δ)-DP (Prop. 1.3).
        rho, log_delta, log_beta0, share = parameters
        rho, share = math.exp(rho), 1.0 / (1.0 + math.exp(-share))
        sigma = math.sqrt(k / (2.0 * rho)) / size
        if noise == "gaussian":
            alpha = sigma * norm.isf(math.exp(log_beta0) / (2.0 * k))
        else:
            alpha = sigma * (math.log(k) - log_beta0)
        epsilon = rho + 2.0 * math.sqrt(max(-rho * log_delta, 0.0))
        c = math.exp(log_beta0) / (share * beta)
        d = math.exp(log_delta) / ((1.0 - share) * beta)
        return alpha + math.expm1(min(epsilon, 50.0)) + c + 2.0 * d

    def pure(parameters):
        epsilon, log_beta0 = math.exp(parameters[0]), parameters[1]
        alpha = k / (size * epsilon) * (math.log(k) - log_beta0)
        return alpha + math.expm1(min(epsilon, 50.0)) + math.exp(log_beta0) / beta

    tiny = math.log(beta) - 8.0
    width = _least(strong, [math.log(math.sqrt(k) / size), tiny, tiny, 0.0])
    if noise == "laplace":
        width = min(width, _least(pure, [0.5 * math.log(k * 10.0 / size), tiny]))
    return width


def _least(target, start):
    """Return the least value of a bound over its free parameters (logs; two passes)."""

    def bounded(parameters):
        if np.abs(parameters).max() > 200.0 or (parameters[1:3] > 0.0).any():
            return 1e9
        return target(parameters.tolist())

    options = {"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-10}
    found = minimize(bounded, start, method="Nelder-Mead", options=options)
    return float(minimize(bounded, found.x, method="Nelder-Mead", options=options).fun)


def _rogers_information(nats):
    # min over λ in [0, 1) of (nats − ln(1−λ))/λ
    found = minimize_scalar(
        lambda x: (nats - math.log1p(-x)) / x, bounds=(1e-9, 1.0 - 1e-12), method="bounded"
    )
    return float(found.fun)


def rogers_half_width(n: int, *, n_queries: int, beta: float = 0.05) -> float:
    r"""Half-width of Gaussian noise addition on independent records by mutual information.

    .. math:: \tau = \max\left\{ \sqrt{\frac{2}{n\beta} \min_\lambda
       \frac{2\rho k n - \ln(1-\lambda)}{\lambda}},\; \frac2n\sqrt{\frac{\ln(4k/\beta)}{\rho}}
       \right\}

    Parameters
    ----------
    n : int
        Independent records.
    n_queries : int
        Queries k.
    beta : float
        Failure probability.

    Returns
    -------
    float
        Half-width, minimised over ρ.

    References
    ----------
    Rogers, Roth, Smith, Srebro, Thakkar and Woodworth, *Guaranteed validity for empirical
    approaches to adaptive data analysis*, AISTATS 2020, Theorem 2.1 (arXiv:1906.09231).
    """
    size, k = check_integer("n", n, low=1), check_integer("n_queries", n_queries, low=1)
    beta = check_probability("beta", beta)

    def width(log_rho):
        rho = math.exp(log_rho)
        sampling = math.sqrt(2.0 / (size * beta) * _rogers_information(2.0 * rho * k * size))
        return max(sampling, 2.0 / size * math.sqrt(math.log(4.0 * k / beta) / rho))

    found = minimize_scalar(
        width, bounds=(-3.0 * math.log(size * k) - 5.0, 2.0), method="bounded",
        options={"xatol": 1e-6},
    )  # fmt: skip
    return float(found.fun)


def rogers_thresholdout_half_width(
    n: int, *, n_queries: int, budget: int, beta: float = 0.05, seed: int = 0
) -> float:
    r"""Half-width of Thresholdout by the mutual-information theorem of Rogers et al.

    The expected squared error is bounded by mutual information and turned into an interval with
    Chebyshev's inequality; the noise is optimised, the threshold is 0 (its best case). Moments of
    the largest noises are simulated with a fixed seed: a reference, not a certificate.

    Parameters
    ----------
    n : int
        Independent holdout records.
    n_queries, budget : int
        m and B.
    beta : float
        Failure probability.
    seed : int
        Seed of the simulated moments.

    Returns
    -------
    float
        Half-width.

    References
    ----------
    Rogers et al. 2020, Theorem B.9.
    """
    size, m = check_integer("n", n, low=1), check_integer("n_queries", n_queries, low=1)
    rounds, beta = check_integer("budget", budget, low=1), check_probability("beta", beta)
    rng = np.random.default_rng(seed)
    largest = rng.laplace(size=(100, m)).max(axis=1) * 4.0
    largest += rng.laplace(size=(100, rounds)).max(axis=1) * 2.0
    second = float((largest**2).mean())

    def width(log_sigma):
        sigma = math.exp(log_sigma)
        information = _rogers_information(2.0 * rounds / (size * sigma**2))
        error = second * sigma**2  # threshold 0 is the most favourable
        total = information / (4.0 * size) + error + math.sqrt(information * error / size)
        return math.sqrt(total / beta)

    found = minimize_scalar(width, bounds=(-15.0, 0.0), method="bounded")
    return float(found.fun)
