"""Designs and the errors they certify (theory C1, C3, C4): noise, threshold, failure shares.

Every division of the failure probability is a valid certificate; searches decide how good it is.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_bdp._checks import check_beta, check_integer, check_real
from sklearn_bdp.accounting import (
    answer_margin,
    log_transcripts,
    noise_margin,
    posterior_excess,
    sampling_half_width,
)
from sklearn_bdp.mechanisms import n_cells, thresholdout_epsilon


@dataclass(frozen=True)
class Task:
    """What is to be certified: records, model and promise."""

    n: int
    model: object
    n_queries: int
    budget: int
    beta: float
    c: float | None  # budget honesty; None: not promised

    @classmethod
    def checked(cls, n, model, *, n_queries, budget, beta, c):
        """Check the arguments that certificates and plans share."""
        return cls(
            n=model.check_n(n),
            model=model,
            n_queries=check_integer("n_queries", n_queries, low=1),
            budget=check_integer("budget", budget, low=1),
            beta=check_beta(beta),
            c=None if c is None else check_real("c", c, low=0.0, high=1.0, closed="left"),
        )

    @property
    def n_effective(self):
        """Effective number of records in Hoeffding's exponent."""
        return float(self.model.effective_n(self.n))

    @property
    def sensitivity(self):
        """1/n, and the step of the fine grid that Thresholdout rounds values to."""
        return 1.0 / self.n + 2.0**-44


@dataclass(frozen=True)
class Design:
    """One division, the error it certifies, and what is worth saying about it."""

    tau: float
    sampling: float
    noise: float = 0.0
    threshold: float = math.nan
    scales: tuple = (0.0, 0.0, 0.0)  # of threshold, query and answer
    resolution: float = 0.0
    dp_epsilon: float = math.inf
    c: float | None = None
    route: str = ""
    mechanism: object = None
    notes: tuple = ()


def best_design(task, route, cap=math.inf, *, rough=False):
    """Best design of one of our routes at DP level at most ``cap``; ``rough`` stops early."""
    if route == "bdp":
        # Theory G1, T1 (threshold kept), C1 and C4.
        return _search_level(task, lambda level: None, cap, rough)
    if route == "posterior":
        # Theory G6, after Jung et al. 2020. The accuracy of answers needs leakage only. Budget
        # honesty does not follow from a posterior mean (an "above" may come from either side), so
        # its term uses G1.
        return _search_level(
            task, lambda level: float(task.model.posterior_bias(level, task.n)), cap, rough
        )
    if route == "transcript":
        return _transcript_design(task, cap)
    alpha = splitting_half_width(task, 1 if route == "floor" else task.n_queries)
    return Design(tau=alpha, sampling=alpha)


def configured_design(task, mechanism, route):
    """Best design for a mechanism whose scales are given (theory C3); ``None`` if there is none."""
    level, widths = math.inf, []
    if mechanism.noise == "laplace":
        level = thresholdout_epsilon(
            sensitivity=task.sensitivity,
            budget=task.budget,
            threshold_scale=mechanism.threshold_scale,
            query_scale=mechanism.query_scale,
            answer_scale=mechanism.answer_scale,
            refresh=mechanism.refresh,
        )
    if route in ("best", "transcript") and mechanism.resolution > 0:
        widths.append(("transcript", counted_width(task, n_cells(mechanism.resolution))))
    if route in ("best", "bdp") and math.isfinite(level):
        widths.append(("bdp", adaptive_width(task, level)))
    found = []
    for name, width in widths:
        for c in {task.c, None}:
            short, design, _ = _best_division(
                replace(task, c=c), level, width, given=mechanism,
                start=[4.0, 4.0, 5.0] if c is None else [0.0, 0.0, 1.0],
            )  # fmt: skip
            if short <= 0.0:
                found.append(replace(design, route=name))
    # A mechanism that keeps the honesty asked for comes before one that does not.
    return min(found, key=lambda design: (design.c is None, design.tau), default=None)


# -- Sampling ------------------------------------------------------------------------------------


def adaptive_width(task, dp_epsilon):
    """Return the sampling half-width at a log failure (theory G1; as sampling_half_width)."""
    known = math.sqrt(float(task.model.sequential_information(dp_epsilon, task.n)))
    size, union = 2.0 * task.n_effective, math.log(2.0 * task.n_queries)
    return lambda log_failure: math.sqrt(((known + math.sqrt(-log_failure)) ** 2 + union) / size)


def counted_width(task, cells):
    """Return the same by counting transcripts of so many cells (theory G2)."""
    union = log_transcripts(task.n_queries, task.budget, cells) + math.log(2.0)
    size = 2.0 * task.n_effective
    return lambda log_failure: math.sqrt((union - log_failure) / size)


def splitting_half_width(task, parts):
    """Half-width when each of m queries gets one of so many parts of the records (theory G3).

    With one part for all this is Hoeffding's half-width of queries fixed in advance.
    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``
    (theory H6); parts of grouped records are made of whole components. Infinite when nothing is
    left.
    """
    model, m, beta = task.model, task.n_queries, task.beta
    if parts == 1:
        return sampling_half_width(task.n_effective, failure=beta, n_queries=m)
    part, gap = task.n // parts, int(model.gap_for(0.1 * beta / (parts - 1)))
    if gap > 0:
        part, beta = part - gap, 0.9 * beta
    if model.is_componentwise:
        # A part of whole components may miss its size by one component, and its components are at
        # most the largest: Σ k_c² ≤ k_max · size.
        largest = model.largest_component(task.n)
        n_effective = (part - (largest - 1)) / largest
    elif part < 1 or model.n_records is not None:
        return math.inf  # connected records: no independent fresh part
    else:
        n_effective = model.effective_n(part)
    if not n_effective > 0:
        return math.inf
    return sampling_half_width(n_effective, failure=beta, n_queries=m)


# -- Divisions -----------------------------------------------------------------------------------


def _shares(parameters):
    """Softmax with the last coordinate fixed: logs of fractions that sum to 1."""
    top = max(0.0, *parameters)
    total = math.log(sum(math.exp(p - top) for p in parameters) + math.exp(-top)) + top
    return [p - total for p in parameters] + [-total]


def _divided(task, level, width, parameters, *, given=None, bias=None, resolution=0.0):
    """Design of one division, and by how much the honesty asked for is missed (theory C1, C3).

    ``width(log_failure)`` is the sampling half-width; ``given``: a mechanism as configured.
    """
    rounds, c, noise = task.budget, task.c, "laplace"
    if given is None:
        # Theory T1, threshold kept: Δ(1/σT + 2B/σq + B/σa) = ε′, the three terms in these shares.
        parts = zip((1, 2 * rounds, rounds), _shares(parameters[:2]), strict=True)
        scales = tuple(count * task.sensitivity / level * math.exp(-part) for count, part in parts)
    else:
        scales = (given.threshold_scale, given.query_scale, given.answer_scale)
        noise, resolution = given.noise, given.resolution
    below, answer, sampling, honest = (
        math.log(task.beta) + share for share in _shares(parameters[-3:])
    )

    def margin(log_failure, count):
        return noise_margin(
            failure=math.exp(log_failure) / count,
            threshold_scale=scales[0], query_scale=scales[1], noise=noise,
        )  # fmt: skip

    z_below = margin(below, rounds)
    z_answer = answer_margin(failure=math.exp(answer) / rounds, answer_scale=scales[2], noise=noise)
    alpha = reach_below = reach_above = width(sampling)
    lead = 0.0 if c is None else margin(honest, task.n_queries) + alpha
    if bias is not None:
        # Theory G6: z minimises z + B·TL(z)/(failure); the derivative vanishes at tail = failure/B.
        excess = math.log(rounds) - below + math.log(posterior_excess(z_below, *scales[:2]))
        reach_below, reach_above = bias + math.exp(min(excess, 700.0)), bias + scales[2]
    tau, short = z_answer + resolution / 2.0 + reach_above, 0.0
    if given is None:
        tau = max(tau, (lead + z_below + reach_below) / (1.0 - (c or 0.0)))
        # Slack left by a larger "above" error is best spent on budget honesty: T as large as τ
        # allows, never −0 by rounding.
        threshold = max(0.0, tau - z_below - reach_below)
    else:
        threshold = given.threshold
        tau = max(tau, max(threshold, 0.0) + z_below + alpha)
        short = 0.0 if c is None else max(0.0, c * tau + lead - threshold)
    return short, Design(
        tau=tau, sampling=alpha if bias is None else max(reach_below, reach_above),
        noise=max(z_below, z_answer), threshold=threshold, scales=scales, resolution=resolution,
        dp_epsilon=level, c=c,
    )  # fmt: skip


_START = (-0.5, 0.7, -2.0, -2.0, -2.0)


def _best_division(task, level, width, *, start=_START, rough=False, **options):
    """Smallest certified error at one DP level: shortfall of honesty, design, parameters."""

    def objective(parameters):
        if np.abs(parameters).max() > 60.0:
            return math.inf
        short, design = _divided(task, level, width, parameters.tolist(), **options)
        return design.tau + 100.0 * short

    best = np.asarray(start, dtype=float)
    for _ in range(1 if rough else 2):
        limits = {"xatol": 1e-4, "fatol": 1e-7, "maxiter": 150 if rough else 500}
        best = minimize(objective, best, method="Nelder-Mead", options=limits).x
    return *_divided(task, level, width, best.tolist(), **options), tuple(best)


def _search_level(task, bias, cap, rough):
    """Minimise over the DP level, at most ``cap`` (theory C1 and C4)."""
    guess = math.log(math.sqrt(80.0 * task.budget / task.n))
    low, high = guess - 9.0, guess + 6.0
    if math.isfinite(cap):
        high = min(high, math.log(cap))
        low = min(low, high - 9.0)
    start = _START

    def solve(log_level, rough):
        nonlocal start
        level = min(math.exp(log_level), cap)
        _, design, start = _best_division(
            task, level, adaptive_width(task, level), start=start, rough=rough, bias=bias(level)
        )
        return design

    found = minimize_scalar(
        lambda log_level: math.log(solve(log_level, True).tau),
        bounds=(low, high), method="bounded", options={"xatol": 0.5 if rough else 0.01},
    )  # fmt: skip
    levels = [found.x, high] if high - found.x < 0.01 else [found.x]
    return min((solve(level, rough) for level in levels), key=lambda design: design.tau)


def _transcript_design(task, cap):
    """Smallest error certified by counting transcripts (theory G2).

    Without a cap no noise is needed: the grid is the only parameter.
    """
    start = _START

    def solve(cells, rough):
        nonlocal start
        width = counted_width(task, cells)
        if math.isfinite(cap):
            _, design, start = _best_division(
                task, cap, width, start=start, rough=rough, resolution=1.0 / cells
            )
            return design
        alpha = width(math.log(task.beta))
        tau = max(alpha * (1.0 if task.c is None else 2.0 / (1.0 - task.c)), alpha + 0.5 / cells)
        return Design(
            tau=tau, sampling=alpha, threshold=tau - alpha, resolution=1.0 / cells, c=task.c
        )

    # The error falls and then rises with the number of cells; a finer grid than 2^24 is none.
    found = minimize_scalar(
        lambda log_cells: solve(round(math.exp(log_cells)), True).tau,
        bounds=(0.0, 24.0 * math.log(2.0)), method="bounded", options={"xatol": 0.01},
    )  # fmt: skip
    best = round(math.exp(found.x))
    near = (solve(cells, False) for cells in range(max(1, best - 1), best + 2))
    return min(near, key=lambda design: design.tau)
