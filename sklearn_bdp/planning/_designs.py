"""Best designs (theory C1 and C4): noise scales and failure shares, chosen.

Every candidate division is a valid certificate; the searches below only decide how good it is.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_bdp.accounting import (
    laplace_margin,
    log_transcripts,
    posterior_excess,
    sampling_half_width,
)
from sklearn_bdp.planning._task import Design


def best_design(task, route, cap, *, rough=False):
    """Best design of one of our routes at DP level at most ``cap``."""
    if route == "bdp":
        return bdp_design(task, cap=cap, rough=rough)
    if route == "posterior":
        return posterior_design(task, cap=cap, rough=rough)
    if route == "transcript":
        return transcript_design(task, cap=cap)
    if route in ("floor", "splitting"):
        alpha = (floor_half_width if route == "floor" else splitting_half_width)(task)
        return Design(tau=alpha, sampling=alpha, threshold=math.nan)
    raise ValueError(f"no design for route={route!r}.")


def shares(parameters):
    """Softmax with the last coordinate fixed: logs of fractions that sum to 1."""
    top = max(0.0, *parameters)
    total = math.log(sum(math.exp(p - top) for p in parameters) + math.exp(-top)) + top
    return [p - total for p in parameters] + [-total]


def _evaluate(task, dp_epsilon, width, parameters, *, posterior_bias=None, resolution=0.0):
    """Design of one division: two noise shares, three failure shares.

    ``width(log_failure)`` is the sampling half-width. The threshold is not refreshed.
    """
    delta, rounds, c = task.sensitivity, task.budget, task.c
    log_beta = math.log(task.beta)
    log_noise = shares(parameters[:2])
    below, honest, answer, sampling = (log_beta + s for s in shares(parameters[2:5]))
    # Theory T1, kept threshold: Δ(1/σT + 2B/σq + B/σa) = ε′, the three terms in these shares.
    unit = delta / dp_epsilon
    scale_t = unit * math.exp(-log_noise[0])
    scale_q = 2.0 * rounds * unit * math.exp(-log_noise[1])
    scale_a = rounds * unit * math.exp(-log_noise[2])
    big, small = max(scale_t, scale_q), min(scale_t, scale_q)
    z_below = laplace_margin(below - math.log(rounds), big, small)
    z_honest = 0.0
    if c is not None:
        z_honest = laplace_margin(honest - math.log(task.n_queries), big, small)
    z_answer = scale_a * (math.log(rounds) - answer)
    alpha = width(sampling)
    reach_below = reach_above = alpha
    if posterior_bias is not None:
        # Theory G6: z minimises z + B·TL(z)/(failure); the derivative vanishes at tail = failure/B.
        excess = math.log(rounds) - below + math.log(posterior_excess(z_below, scale_t, scale_q))
        reach_below = posterior_bias + math.exp(min(excess, 700.0))
        reach_above = posterior_bias + scale_a
    base = 0.0 if c is None else c
    lead = z_honest + alpha if c is not None else 0.0
    tau_below = (lead + z_below + reach_below) / (1.0 - base)
    tau = max(tau_below, z_answer + resolution / 2.0 + reach_above)
    # Slack left by a larger "above" error is best spent on budget honesty: T as large as τ allows.
    threshold = max(0.0, tau - z_below - reach_below)  # never −0 by rounding
    return Design(
        tau=tau,
        sampling=alpha if posterior_bias is None else max(reach_below, reach_above),
        below_margin=z_below,
        honesty_margin=z_honest,
        answer_margin=z_answer,
        threshold=threshold,
        threshold_scale=scale_t,
        query_scale=scale_q,
        answer_scale=scale_a,
        resolution=resolution,
        dp_epsilon=dp_epsilon,
    )


_START = (-0.5, 0.7, -2.0, -2.0, -2.0)


def _best_division(task, dp_epsilon, width, *, start=_START, rough=False, **options):
    """Smallest certified error at one DP level, and the parameters that reach it."""

    def objective(parameters):
        if np.abs(parameters).max() > 60.0:
            return math.inf
        return _evaluate(task, dp_epsilon, width, parameters.tolist(), **options).tau

    best = np.asarray(start, dtype=float)
    for _ in range(1 if rough else 2):
        found = minimize(
            objective,
            best,
            method="Nelder-Mead",
            options={"xatol": 1e-4, "fatol": 1e-7, "maxiter": 150 if rough else 500},
        )
        best = found.x
    return _evaluate(task, dp_epsilon, width, best.tolist(), **options), tuple(best)


def _search_level(task, solve, cap, rough):
    """Minimise over the DP level, at most ``cap`` (theory C1 and C4)."""
    guess = math.sqrt(80.0 * task.budget / task.n)
    low, high = math.log(guess) - 9.0, math.log(guess) + 6.0
    if math.isfinite(cap):
        high = min(high, math.log(cap))
        low = min(low, high - 9.0)
    state = {"start": _START}

    def objective(log_level):
        design, state["start"] = solve(math.exp(log_level), state["start"], True)
        return math.log(design.tau)

    found = minimize_scalar(
        objective, bounds=(low, high), method="bounded", options={"xatol": 0.5 if rough else 1e-4}
    )
    designs = [solve(math.exp(found.x), state["start"], rough)[0]]
    if math.isfinite(cap) and found.x > high - 0.01:
        designs.append(solve(cap, state["start"], rough)[0])
    return min(designs, key=lambda design: design.tau)


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


def bdp_design(task, *, cap=math.inf, rough=False):
    """Smallest error certified by leakage, over all noise scales of level at most ``cap``.

    Theory G1, T1 (threshold kept), C1 and C4. ``rough`` stops the search early; the design is still
    valid.
    """

    def solve(level, start, rough):
        return _best_division(task, level, adaptive_width(task, level), start=start, rough=rough)

    return _search_level(task, solve, cap, rough)


def posterior_design(task, *, cap=math.inf, rough=False):
    """Smallest error certified by the posterior argument (theory G6, after Jung et al. 2020).

    The accuracy of answers needs leakage only. Budget honesty does not follow from a posterior
    mean (an "above" may come from either side), so its term uses G1.
    """

    def solve(level, start, rough):
        bias = float(task.model.posterior_bias(level, task.n))
        return _best_division(
            task,
            level,
            adaptive_width(task, level),
            start=start,
            rough=rough,
            posterior_bias=bias,
        )

    return _search_level(task, solve, cap, rough)


def transcript_design(task, *, cap=math.inf):
    """Smallest error certified by counting transcripts (theory G2).

    Without a cap no noise is needed: the grid is the only parameter.
    """
    state = {"start": _START}

    def solve(cells, rough=True):
        width = counted_width(task, cells)
        if math.isfinite(cap):
            design, state["start"] = _best_division(
                task, cap, width, start=state["start"], rough=rough, resolution=1.0 / cells
            )
            return design
        alpha = width(math.log(task.beta))
        spread = 1.0 if task.c is None else 2.0 / (1.0 - task.c)
        tau = max(spread * alpha, alpha + 0.5 / cells)
        design = Design(tau=tau, sampling=alpha, resolution=1.0 / cells)
        return replace(design, threshold=max(0.0, tau - alpha))

    cells = _best_grid(lambda count: solve(count).tau)
    return min(solve(cells), solve(cells, rough=False), key=lambda design: design.tau)


def _best_grid(error):
    """Number of cells with the smallest error, which falls and then rises (integer search)."""
    known = {}

    def tau(cells):
        if cells not in known:
            known[cells] = error(cells)
        return known[cells]

    high = 1
    # A finer grid must pay: where cells cost nothing the error would fall for ever.
    while high < 2**24 and tau(2 * high) < 0.999 * tau(high):
        high *= 2
    low, high = max(1, high // 2), 2 * high
    while high - low > 2:
        left = low + (high - low) // 3
        right = max(left + 1, high - (high - low) // 3)
        if tau(left) <= tau(right):
            high = right
        else:
            low = left
        if high - low <= max(2, high // 50) and len(known) > 20:
            break  # within two percent of the best grid: the error is flat there
    return min((cells for cells in known if low <= cells <= high), key=tau)


def floor_half_width(task):
    """Return Hoeffding's half-width of queries fixed in advance, no mechanism."""
    return sampling_half_width(task.n_effective, failure=task.beta, n_queries=task.n_queries)


def splitting_half_width(task):
    """Half-width when each of m queries gets ``n // m`` fresh records (theory G3).

    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``
    (theory H6); parts of grouped records are made of whole components. Infinite when nothing is
    left.
    """
    model, m = task.model, task.n_queries
    beta = task.beta
    part = task.n // m
    if m > 1:
        gap_failure = 0.1 * beta / (m - 1)
        gap = int(model.gap_for(gap_failure))
        if gap > 0:
            part, beta = part - gap, 0.9 * beta
    if part < 1:
        return math.inf
    if model.is_componentwise and m > 1:
        # A part of whole components may miss its size by one component, and its components are at
        # most the largest: Σ k_c² ≤ k_max · size.
        largest = model.largest_component(task.n)
        size = part - (largest - 1)
        n_effective = size / largest
    elif model.n_records is not None and m > 1:
        return math.inf  # connected records: no independent fresh part
    elif m > 1:
        n_effective = model.effective_n(part)
    else:
        n_effective = model.effective_n(task.n)
    if not n_effective > 0:
        return math.inf
    return sampling_half_width(n_effective, failure=beta, n_queries=m)
