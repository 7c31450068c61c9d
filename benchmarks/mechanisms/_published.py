"""Widths that published theorems would certify for adding noise, as printed (theory G3)."""

import math
from typing import Literal

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from sklearn_bdp.utils.validation import check_integer, check_option, check_probability

__all__ = ["jung_half_width", "rogers_half_width", "rogers_thresholdout_half_width"]


def jung_half_width(
    n: int,
    *,
    n_queries: int,
    beta: float = 0.05,
    noise: Literal["gaussian", "laplace"] = "gaussian",
) -> float:
    r"""Return the half-width of noise addition on independent records by the posterior argument.

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
    size = check_integer("n", n, low=1)
    k = check_integer("n_queries", n_queries, low=1)
    beta = check_probability("beta", beta)
    check_option("noise", noise, ("gaussian", "laplace"))

    def strong(parameters):
        # zCDP of k answers: ρ = k(Δ/σ)²/2 for Gaussian and for Laplace noise of scale σ (Bun,
        # Steinke 2016, Prop. 1.4 and 1.6); ρ-zCDP is (ρ + 2√(ρ ln(1/δ)), δ)-DP (Prop. 1.3).
        rho, log_delta, log_beta0, share = parameters
        rho = math.exp(rho)
        share = 1.0 / (1.0 + math.exp(-share))
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
        epsilon = math.exp(parameters[0])
        log_beta0 = parameters[1]
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
    optimum = minimize(bounded, start, method="Nelder-Mead", options=options)
    return float(minimize(bounded, optimum.x, method="Nelder-Mead", options=options).fun)


def _rogers_information(nats):
    # min over λ in [0, 1) of (nats − ln(1−λ))/λ
    optimum = minimize_scalar(
        lambda x: (nats - math.log1p(-x)) / x, bounds=(1e-9, 1.0 - 1e-12), method="bounded"
    )
    return float(optimum.fun)


def rogers_half_width(n: int, *, n_queries: int, beta: float = 0.05) -> float:
    r"""Return the half-width of Gaussian noise on independent records by mutual information.

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
    size = check_integer("n", n, low=1)
    k = check_integer("n_queries", n_queries, low=1)
    beta = check_probability("beta", beta)

    def width(log_rho):
        rho = math.exp(log_rho)
        sampling = math.sqrt(2.0 / (size * beta) * _rogers_information(2.0 * rho * k * size))
        return max(sampling, 2.0 / size * math.sqrt(math.log(4.0 * k / beta) / rho))

    optimum = minimize_scalar(
        width, bounds=(-3.0 * math.log(size * k) - 5.0, 2.0), method="bounded",
        options={"xatol": 1e-6},
    )  # fmt: skip
    return float(optimum.fun)


def rogers_thresholdout_half_width(
    n: int, *, n_queries: int, budget: int, beta: float = 0.05, seed: int = 0
) -> float:
    r"""Return the half-width of Thresholdout by the mutual-information theorem of Rogers et al.

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
    size = check_integer("n", n, low=1)
    m = check_integer("n_queries", n_queries, low=1)
    rounds = check_integer("budget", budget, low=1)
    beta = check_probability("beta", beta)
    rng = np.random.default_rng(seed)
    largest = rng.laplace(size=(100, m)).max(axis=1) * 4.0
    largest += rng.laplace(size=(100, rounds)).max(axis=1) * 2.0
    second = float((largest**2).mean())

    def width(log_sigma):
        sigma = math.exp(log_sigma)
        information = _rogers_information(2.0 * rounds / (size * sigma**2))
        error = second * sigma**2  # threshold 0 is the most favorable
        total = information / (4.0 * size) + error + math.sqrt(information * error / size)
        return math.sqrt(total / beta)

    optimum = minimize_scalar(width, bounds=(-15.0, 0.0), method="bounded")
    return float(optimum.fun)
