"""One function per route: a task in, a certificate's numbers out."""

import math

from scipy.optimize import minimize

from sklearn_bdp.accounting import (
    answer_margin,
    log_transcripts,
    noise_margin,
    sampling_half_width,
    thresholdout_epsilon,
    zhao_required_n,
)
from sklearn_bdp.mechanisms import Thresholdout, n_cells
from sklearn_bdp.planning._designs import (
    Design,
    _margin_units,
    _shares,
    bdp_design,
    half_width_fixed,
    posterior_design,
    transcript_design,
)
from sklearn_bdp.planning._published import dwork_required_n

__all__ = [
    "as_mechanism",
    "mechanism_design",
    "printed_design",
    "route_design",
    "splitting_half_width",
]


def route_design(task, route, cap, *, rough=False):
    """Best design of one of our routes at DP level at most ``cap``."""
    if route == "bdp":
        return bdp_design(task, cap=cap, rough=rough)
    if route == "posterior":
        return posterior_design(task, cap=cap, rough=rough)
    if route == "transcript":
        return transcript_design(task, cap=cap)
    if route == "floor":
        alpha = half_width_fixed(task)
        return Design(tau=alpha, sampling=alpha, threshold=math.nan)
    if route == "splitting":
        alpha = splitting_half_width(task)
        return Design(tau=alpha, sampling=alpha, threshold=math.nan)
    raise ValueError(f"no design for route={route!r}.")


def splitting_half_width(task):
    r"""Half-width when each of m queries gets ``n // m`` fresh records.

    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``;
    parts of grouped records are made of whole components. Infinite when nothing is left.

    References
    ----------
    Theory G3; theory section 5 (gaps).
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


def as_mechanism(design, task):
    """Thresholdout with the scales of a design (threshold kept, as T1 was charged)."""
    if not math.isfinite(design.threshold) or not design.tau < 1.0:
        return None
    return Thresholdout(
        design.threshold,
        threshold_scale=design.threshold_scale,
        query_scale=design.query_scale,
        answer_scale=design.answer_scale,
        budget=task.budget,
        refresh=False,
        resolution=design.resolution,
    )


# -- C3: a mechanism as configured ---------------------------------------------------------------


def mechanism_design(task, mechanism, route):
    """Smallest error certified for Thresholdout as it is configured (theory C3).

    Returns the design and the honesty that could be promised (``task.c`` or ``None``).
    """
    level = math.inf
    if mechanism.noise == "laplace":
        level = thresholdout_epsilon(
            sensitivity=task.sensitivity,
            budget=task.budget,
            threshold_scale=mechanism.threshold_scale,
            query_scale=mechanism.query_scale,
            answer_scale=mechanism.answer_scale,
            refresh=mechanism.refresh,
        )
    widths = _mechanism_widths(task, mechanism, level, route)
    if not widths:
        return Design(tau=math.inf, sampling=math.inf, dp_epsilon=level), None
    found = []
    for width in widths:
        design = None
        if task.c is not None:
            design = _fixed_division(task, mechanism, width, level, task.c)
        if design is not None:
            found.append((design, task.c))
        else:
            found.append((_fixed_division(task, mechanism, width, level, None), None))
    return min(found, key=lambda item: (item[1] is None, item[0].tau))


def _mechanism_widths(task, mechanism, level, route):
    size, widths = task.n_effective, []
    if route in ("best", "bdp") and math.isfinite(level):
        known = math.sqrt(float(task.model.sequential_information(level, task.n)))
        union = math.log(2.0 * task.n_queries)
        widths.append(lambda f: math.sqrt(((known + math.sqrt(-f)) ** 2 + union) / (2.0 * size)))
    if route in ("best", "transcript") and mechanism.resolution > 0:
        count = log_transcripts(task.n_queries, task.budget, n_cells(mechanism.resolution))
        widths.append(lambda f: math.sqrt((count - f + math.log(2.0)) / (2.0 * size)))
    if not widths and route != "best":
        missing = (
            "a grid of answers (resolution > 0)"
            if route == "transcript"
            else "Laplace noise at every place (a finite DP level)"
        )
        raise ValueError(f"route={route!r} needs {missing} in the mechanism.")
    return widths


def _fixed_division(task, mechanism, width, level, c):
    """Divide the failure probability for given scales; ``None`` if ``c`` cannot be promised."""
    log_beta, rounds, m = math.log(task.beta), task.budget, task.n_queries
    s_t, s_q, s_a = mechanism.threshold_scale, mechanism.query_scale, mechanism.answer_scale
    big, small = max(s_t, s_q), min(s_t, s_q)

    def margin(log_failure):
        if big == 0.0 or log_failure > math.log(0.5):
            return 0.0
        if mechanism.noise == "gaussian":
            return noise_margin(
                failure=math.exp(max(log_failure, -700.0)),
                threshold_scale=s_t, query_scale=s_q, noise="gaussian",
            )  # fmt: skip
        return big * _margin_units(log_failure, max(small / big, 1e-150))

    def division(parameters):
        below, answer, sampling, honest = (log_beta + s for s in _shares(parameters))
        z_below = margin(below - math.log(rounds))
        z_honest = margin(honest - math.log(m)) if c is not None else 0.0
        z_answer = 0.0
        if s_a > 0:
            z_answer = answer_margin(
                failure=math.exp(max(answer - math.log(rounds), -700.0)),
                answer_scale=s_a, noise=mechanism.noise,
            )  # fmt: skip
        alpha = width(sampling)
        threshold = max(mechanism.threshold, 0.0)
        tau = max(threshold + z_below + alpha, z_answer + mechanism.resolution / 2.0 + alpha)
        short = 0.0 if c is None else max(0.0, c * tau + z_honest + alpha - mechanism.threshold)
        return short, Design(
            tau=tau, sampling=alpha, below_margin=z_below, honesty_margin=z_honest,
            answer_margin=z_answer, threshold=mechanism.threshold, threshold_scale=s_t,
            query_scale=s_q, answer_scale=s_a, resolution=mechanism.resolution, dp_epsilon=level,
        )  # fmt: skip

    def objective(parameters):
        if max(abs(p) for p in parameters) > 60.0:
            return math.inf
        short, design = division(parameters.tolist())
        return design.tau + 100.0 * short

    options = {"xatol": 1e-4, "fatol": 1e-9, "maxiter": 400}
    start = [0.0, 0.0, 1.0] if c is not None else [4.0, 4.0, 5.0]
    found = minimize(objective, start, method="Nelder-Mead", options=options)
    short, design = division(found.x.tolist())
    return None if short > 0.0 else design


# -- Theorems as printed -------------------------------------------------------------------------


def printed_design(task, route):
    """τ of a published theorem, raised where G1 cannot confirm it for the same mechanism."""
    printed = _printed_tau(task, route)
    if not printed < 1.0:
        return Design(tau=1.0, sampling=1.0, threshold=math.nan), None, printed
    if route == "zhao2017":
        mechanism = Thresholdout.zhao2017(
            printed, task.beta, task.n_queries, task.budget, c=task.c or 0.0
        )
    else:
        mechanism = Thresholdout.dwork2017(printed, task.beta, task.n_queries, task.budget)
    design, _ = mechanism_design(task, mechanism, "bdp")
    return design, mechanism, printed


def _printed_tau(task, route):
    def required(tau):
        if route == "dwork2017":
            return dwork_required_n(
                tau=tau, n_queries=task.n_queries, budget=task.budget, beta=task.beta
            )
        return zhao_required_n(
            tau=tau, n_queries=task.n_queries, budget=task.budget, beta=task.beta,
            c=task.c or 0.0, model=task.model, n=task.n,
        )  # fmt: skip

    if not required(1.0) <= task.n:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle > 0 and required(middle) <= task.n:
            high = middle
        else:
            low = middle
    return high  # the premise holds at this end
