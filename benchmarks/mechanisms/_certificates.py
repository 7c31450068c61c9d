"""Certificates of the other mechanisms: noise addition, splitting, leaderboards, bits, weights."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from benchmarks.mechanisms._ladder import Ladder, ParameterFreeLadder
from benchmarks.mechanisms._multiplicative_weights import MultiplicativeWeights
from benchmarks.mechanisms._noise_addition import DataSplitting, NoiseAddition
from benchmarks.mechanisms._sparse_validate import SparseValidate
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    log_binomials,
    sampling_half_width,
)
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from sklearn_bdp.mechanisms.thresholdout import n_cells
from sklearn_bdp.planning import certify
from sklearn_bdp.utils.validation import check_integer, check_probability

__all__ = ["certify_mechanism", "ladder_log_transcripts", "sparse_validate_log_transcripts"]


def ladder_log_transcripts(
    n_queries: int, n_values: int, n_releases: int | None = None, *, repeats: bool = False
) -> float:
    r"""Return the log of the number of queries reachable through a leaderboard that never falls.

    A transcript with ``b`` releases is a choice of ``b`` of the earlier submissions and a
    sequence of ``b`` of the ``V`` values. The Ladder's releases increase:
    :math:`N = \sum_b \binom{m}{b+1}\binom{V}{b}`. Those of the parameter-free Ladder can repeat
    (a paired margin may be smaller than the step of the released values):
    :math:`N = \sum_b \binom{m}{b+1}\binom{V+b-1}{b}`.

    Parameters
    ----------
    n_queries : int
        Submissions m.
    n_values : int
        Values V a release can take.
    n_releases : int or None
        Largest number of releases; ``None``: as many as there can be.
    repeats : bool, default=False
        Whether a release can repeat the one before.

    Returns
    -------
    float
        :math:`\ln N`.

    References
    ----------
    Blum and Hardt, *The Ladder*, ICML 2015, Theorem 3.1 (the same count, there bounded by
    :math:`(1/\eta + 2)\ln(4m/\eta)`); theory G2.

    Examples
    --------
    >>> from math import exp
    >>> [round(exp(ladder_log_transcripts(3, 2, repeats=r))) for r in (False, True)]
    [10, 12]
    """
    m = check_integer("n_queries", n_queries, low=1)
    values = check_integer("n_values", n_values, low=1)
    max_releases = m - 1 if repeats else min(values, m - 1)
    if n_releases is not None:
        max_releases = min(max_releases, check_integer("n_releases", n_releases, low=0))
    sequences = log_binomials(values, max_releases + 1)
    if repeats:
        # C(V+b−1, b) = Π_{i<b} (V+i)/(i+1)
        i = np.arange(max_releases, dtype=float)
        sequences = np.concatenate([[0.0], np.cumsum(np.log1p((values - 1.0) / (i + 1.0)))])
    return float(logsumexp(log_binomials(m, max_releases + 2)[1:] + sequences))


def sparse_validate_log_transcripts(n_queries, budget):
    r"""Return the log of the number of validations reachable with at most ``budget`` failures.

    :math:`N = \sum_{b<B}\binom{m}{b+1}`: each answer is one bit, at most B of them are set.

    Parameters
    ----------
    n_queries, budget : int
        m and B.

    Returns
    -------
    float
        :math:`\ln N`.

    References
    ----------
    Dwork et al. 2015, Section 4.2 (SparseValidate, description length); theory G2 with V = 1.
    """
    m = check_integer("n_queries", n_queries, low=1)
    rounds = min(check_integer("budget", budget, low=1), m)
    return float(logsumexp(log_binomials(m, rounds + 1)[1:]))


@dataclass(frozen=True)
class _Task:
    """Task that is certified; ``beta`` is less the failure probability of an estimated model."""

    n: int
    model: object
    n_queries: int
    budget: int
    beta: float

    @property
    def n_effective(self):
        return float(self.model.effective_n(self.n))


def certify_mechanism(
    n: int, mechanism, *, n_queries: int, budget: int, beta: float = 0.05, correlation=None
) -> Certificate:
    r"""Certify the answers of one of these mechanisms.

    Parameters
    ----------
    n : int
        Number of holdout records.
    mechanism : Ladder, ParameterFreeLadder, NoiseAddition, DataSplitting, SparseValidate or \
            MultiplicativeWeights
        As configured.
    n_queries, budget : int
        m and B.
    beta : float, default=0.05
        Failure probability over all answers together.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        How the records are correlated.

    Returns
    -------
    Certificate
        The guarantee.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or the mechanism has another type.
    """
    if isinstance(mechanism, MultiplicativeWeights):
        # Its hypothesis is made of released answers only: a prediction like any other (G4).
        certificate = certify(
            n, correlation=correlation, n_queries=n_queries, budget=budget, beta=beta,
            mechanism=mechanism.mechanism,
        )  # fmt: skip
        return replace(certificate, mechanism=mechanism)
    if type(mechanism) not in _CERTIFIERS:
        raise TypeError(
            "mechanism must be a mechanism of benchmarks.mechanisms, got "
            f"{type(mechanism).__name__}."
        )
    model = check_correlation(correlation)
    task = _Task(
        n=model.check_n(n),
        model=model,
        n_queries=check_integer("n_queries", n_queries, low=1),
        budget=check_integer("budget", budget, low=1),
        beta=check_probability("beta", beta),
    )
    bound = _CERTIFIERS[type(mechanism)](task, mechanism)
    bdp_epsilon = math.inf
    if math.isfinite(bound.dp_epsilon):
        bdp_epsilon = float(model.bdp_epsilon(bound.dp_epsilon, task.n))
    return Certificate(
        tau=min(bound.half_width, 1.0),
        beta=task.beta,
        route=bound.route,
        dp_epsilon=bound.dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        n=task.n,
        n_effective=task.n_effective,
        sampling=min(bound.sampling, 1.0),
        noise=bound.noise,
        threshold=getattr(mechanism, "threshold", None),
        mechanism=mechanism,
        assumptions=(
            "Queries do not depend on the holdout, other than through its answers.",
            f"The holdout's records follow the declared correlation: {model.describe()}.",
            "Every query is a mean over the holdout of per-record scores in [0, 1].",
            bound.scope,
        ),
        n_queries=task.n_queries,
        budget=None,
        resolution=float(getattr(mechanism, "resolution", 0.0)),
        correlation=model.describe(),
    )


class _Bound(NamedTuple):
    """Bound on the error of a mechanism's answers.

    ``half_width`` is that of the answers, ``sampling`` and ``noise`` are its parts, ``scope``
    states the certified answers, and ``dp_epsilon`` is their level of privacy.
    """

    route: str
    half_width: float
    sampling: float
    noise: float
    scope: str
    dp_epsilon: float = math.inf


_LEADERBOARD = "counting of leaderboard transcripts (G2)"


def _union_half_width(task, log_count):
    """Return the half-width of a union over ``exp(log_count)`` fixed queries (theory G2)."""
    log_inverse_alpha = log_count + math.log(2.0 / task.beta)
    return math.sqrt(log_inverse_alpha / (2.0 * task.n_effective))


def _ladder(task, mechanism):
    """Return the bound of the Ladder."""
    # Blum and Hardt 2015: the released best is within one margin of the best score on the holdout.
    n_values = math.ceil(1.0 / mechanism.margin) + 1
    sampling = _union_half_width(task, ladder_log_transcripts(task.n_queries, n_values))
    scope = "The answer certified is the leaderboard's best score, against the best submission."
    return _Bound(_LEADERBOARD, sampling + mechanism.margin, sampling, mechanism.margin, scope)


def _free_ladder(task, mechanism):
    """Return the bound of the Ladder without parameters."""
    # Releases are multiples of 1/n, never fall and can repeat: V = n + 1. A submission that did not
    # move the board may beat it by the largest paired margin, s/√n ≤ 1/√(n−1).
    log_count = ladder_log_transcripts(task.n_queries, task.n + 1, task.budget, repeats=True)
    sampling = _union_half_width(task, log_count)
    margin = 1.0 / math.sqrt(max(task.n - 1, 1)) + 0.5 / task.n
    scope = (
        "The answer certified is the leaderboard's best score, against the best submission, while "
        f"it has moved at most {task.budget:,} times."
    )
    return _Bound(_LEADERBOARD, sampling + margin, sampling, margin, scope)


def _sparse(task, mechanism):
    """Return the bound of SparseValidate."""
    if mechanism.budget > task.budget:
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    log_count = sparse_validate_log_transcripts(task.n_queries, task.budget)
    sampling = _union_half_width(task, log_count)
    scope = "The answers certified are the confirmed training-side values."
    half_width = mechanism.threshold + sampling
    return _Bound("counting of bit strings (G2)", half_width, sampling, 0.0, scope)


def _splitting(task, mechanism):
    """Return the bound of new records for every query."""
    _check_queries(task, mechanism)
    if not task.model.sampling_scheme(task.n).has_independent_records:
        raise ValueError(
            "DataSplitting hands out contiguous parts without gaps: it is certified for "
            f"independent records only, got {task.model.describe()}."
        )
    n_per_query = task.n // mechanism.n_queries
    if n_per_query < 1:
        return _Bound("splitting", math.inf, 1.0, 0.0, "No record is left for a query.")
    sampling = math.sqrt(math.log(2.0 * mechanism.n_queries / task.beta) / (2.0 * n_per_query))
    scope = f"Each of {mechanism.n_queries:,} queries gets its own records."
    half_width = sampling + mechanism.resolution / 2.0
    return _Bound("splitting", half_width, sampling, 0.0, scope)


def _check_queries(task, mechanism):
    if mechanism.n_queries < task.n_queries:
        raise ValueError(
            f"n_queries must be at most the mechanism's own, n_queries={mechanism.n_queries}, got "
            f"n_queries={task.n_queries}."
        )


def _noise_addition(task, mechanism):
    """Return the smallest bound that applies to noise on every answer.

    These are G2 (answers on a grid), G1 and G6 (Laplace noise), and strong composition (independent
    records).
    """
    _check_queries(task, mechanism)
    m = mechanism.n_queries
    scale = mechanism.scale
    resolution = mechanism.resolution
    sensitivity = 1.0 / task.n
    dp_epsilon = m * sensitivity / scale if mechanism.noise == "laplace" else math.inf
    widths = []  # pairs: sampling and noise
    if resolution > 0:
        # Query j is reached by one of V^{j−1} transcripts.
        log_v = math.log(n_cells(resolution))
        log_count = float(logsumexp(log_v * np.arange(m))) if log_v > 0 else math.log(m)
        widths.append(
            _with_noise(task, mechanism, lambda failure: _width(task, log_count, failure))
        )
    if mechanism.noise == "laplace":
        information = float(sequential_information(task.model, dp_epsilon, task.n))
        widths.append(
            _with_noise(
                task,
                mechanism,
                lambda failure: sampling_half_width(
                    task.n_effective,
                    log_failure=math.log(failure),
                    n_queries=m,
                    information=information,
                ),
            )
        )
        # Theory G6: z = σ ln(m/β), c = σ.
        bias = float(posterior_bias(task.model, dp_epsilon, task.n))
        widths.append((bias, scale * (1.0 + math.log(m / task.beta))))
    if task.model.sampling_scheme(task.n).has_independent_records:
        widths.append(_strong_composition(task, mechanism))
    if not widths:
        raise ValueError(
            "Gaussian NoiseAddition without a grid is certified for independent records only, got "
            f"{task.model.describe()}: give it a resolution."
        )
    sampling, noise = min(widths, key=sum)
    scope = f"At most {m:,} queries, each answered with noise."
    half_width = sampling + noise + resolution / 2.0
    return _Bound("noise on every answer", half_width, sampling, noise, scope, dp_epsilon)


def _width(task, log_count, failure):
    return math.sqrt((log_count + math.log(2.0 / failure)) / (2.0 * task.n_effective))


def _with_noise(task, mechanism, width):
    """Return sampling width and noise margin at the best division of beta (a bounded search).

    ``width(failure)`` is the sampling width at a failure probability.
    """

    def widths_at(noise_share):
        noise_margin = answer_margin(
            failure=noise_share * task.beta / mechanism.n_queries,
            answer_scale=mechanism.scale,
            noise=mechanism.noise,
        )
        return width((1.0 - noise_share) * task.beta), noise_margin

    optimum = minimize_scalar(
        lambda noise_share: sum(widths_at(noise_share)), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    return widths_at(optimum.x)


def _strong_composition(task, mechanism):
    """Return sampling width and noise margin by (ε, δ)-DP of all answers together.

    Their sum grows as √m; that by the sum of pure levels grows as m.
    """
    # Jung et al. 2020, Theorem 3.5: α + e^ε − 1 + c + 2d at β0/c + δ/d. ρ = m(Δ/σ)²/2 for Gaussian
    # and for Laplace noise (Bun, Steinke 2016, Prop. 1.6 and 1.4).
    m = mechanism.n_queries
    scale = mechanism.scale
    rho = mechanism.zcdp_rho(1.0 / task.n)

    def widths_at(x):
        log_beta0 = x[0]
        log_delta = x[1]
        share = 1.0 / (1.0 + math.exp(-x[2]))
        if mechanism.noise == "gaussian":
            alpha = scale * norm.isf(math.exp(log_beta0) / (2.0 * m))
        else:
            alpha = scale * (math.log(m) - log_beta0)
        epsilon = rho + 2.0 * math.sqrt(-rho * log_delta)
        c = math.exp(log_beta0) / (share * task.beta)
        d = math.exp(log_delta) / ((1.0 - share) * task.beta)
        return math.expm1(min(epsilon, 50.0)) + c + 2.0 * d, alpha

    def objective(x):
        if max(x[0], x[1]) > -1e-9 or max(abs(v) for v in x) > 300.0:
            return math.inf
        return sum(widths_at(x))

    start = [math.log(task.beta) - 6.0, math.log(task.beta) - 10.0, 0.0]
    options = {"maxiter": 2000, "xatol": 1e-6, "fatol": 1e-10}
    optimum = minimize(objective, start, method="Nelder-Mead", options=options)
    return widths_at(optimum.x.tolist())


_CERTIFIERS = {
    Ladder: _ladder,
    ParameterFreeLadder: _free_ladder,
    SparseValidate: _sparse,
    DataSplitting: _splitting,
    NoiseAddition: _noise_addition,
}
