"""Designs and the errors they certify (theory C1, C3, C4): noise, threshold, failure shares.

Every division of the failure probability is a valid certificate. Searches decide how good it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    log_transcripts,
    noise_margin,
    sampling_half_width,
)
from sklearn_bdp.correlation.levels import sequential_information
from sklearn_bdp.mechanisms.thresholdout import Thresholdout, n_cells, thresholdout_epsilon
from sklearn_bdp.utils.root_finding import crossing, last_whole
from sklearn_bdp.utils.validation import check_beta, check_integer, check_real

ROUTES = ("best", "transcript", "bdp")

_MAX_RECORDS = 10**15
_NOISE_SCALES = ("threshold_scale", "query_scale", "answer_scale")

#: Initial division: logits of the cost of threshold and query noise beside that of answers, and of
#: the failure probability of "below" answers, answers and sampling beside that of budget honesty.
_INITIAL_LOGITS = (-0.5, 0.7, -2.0, -2.0, -2.0)
_MAX_LOGIT = 60.0


@dataclass(frozen=True)
class Task:
    """Certification task: records, dependence and promise."""

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
    """Division of the failure probability with the error that it certifies."""

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


# -- One task, one route: the design that proves most, the fewest records -------------------------


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the best design for a task; no text, no warnings (planners call this often)."""
    task = replace(task, budget=min(task.budget, task.n_queries))  # an answer for each query
    if mechanism is not None:
        return configured_design(task, mechanism, route)
    max_dp_epsilon = math.inf
    if epsilon is not None:
        bdp_epsilon = check_real("epsilon", epsilon, low=0.0, closed="neither")
        max_dp_epsilon = float(task.model.dp_epsilon(bdp_epsilon, task.n))
        if max_dp_epsilon == 0.0:
            note = "No positive DP level gives this Bayesian DP level."
            return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    if route == "best":
        route, design = _best_of_routes(task, max_dp_epsilon)
    else:
        design = best_design(task, route, max_dp_epsilon)
    if not design.tau < 1.0:
        return replace(design, route=route)
    threshold_scale, query_scale, answer_scale = design.scales
    mechanism = Thresholdout(
        design.threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        answer_scale=answer_scale,
        budget=task.budget,
        refresh=False,  # the threshold is kept, as its cost was computed (T1)
        resolution=design.resolution,
    )
    return replace(design, route=route, mechanism=mechanism)


def _best_of_routes(task, max_dp_epsilon):
    """Return the name and the design of the route with the smaller error."""
    counted = best_design(task, "transcript", max_dp_epsilon)
    # Leakage is refined only if a rough search brings it near the other route.
    rough = best_design(task, "bdp", max_dp_epsilon, rough=True)
    if rough.tau < 1.3 * counted.tau:
        leaking = best_design(task, "bdp", max_dp_epsilon)
        if leaking.tau < counted.tau:
            return "bdp", leaking
    return "transcript", counted


def smallest_n(task, tau, route):
    """Return the smallest ``n`` for a checked task (``task.n`` is ignored)."""

    def error(n, route):
        return solve(replace(task, n=n), route=route).tau

    n = math.inf
    if route in ("best", "transcript"):
        n = search_n(lambda n: error(n, "transcript"), task, tau)
    # In "best" leakage is searched only if it certifies one record less.
    if route == "bdp" or (route == "best" and n > 1 and error(n - 1, "bdp") <= tau):
        n = search_n(lambda n: error(n, "bdp"), task, tau, rtol=3e-5)
    return n


def search_n(error, task, tau, *, rtol=0.0):
    """Return the smallest number of records whose ``error(n)`` is at most ``tau``.

    The search goes upwards from the floor, then by bisection. ``rtol`` is the resolution of the
    log of the number: a route that optimizes noise takes a tenth of a second for each step.
    ``error`` has been evaluated at the returned number.
    """
    # Theory G3: no route needs fewer effective records than queries fixed in advance (Hoeffding).
    floor = math.log(2.0 * task.n_queries / task.beta) / (2.0 * tau**2)
    effective_fraction = float(task.model.effective_n(10**6)) / 10**6
    n_too_few = 0
    n_enough = max(1, math.ceil(floor / effective_fraction))
    while (current_error := error(n_enough)) > tau:
        n_too_few = n_enough
        growth = max(1.0, min(current_error / tau, 10.0)) ** 2
        n_enough = math.ceil(1.001 * n_too_few * growth) + 1
        if n_enough > _MAX_RECORDS:
            raise ValueError(f"no number of records below 1e15 suffices for tau={tau!r}.")
    if n_too_few == 0 or rtol == 0.0:
        return last_whole(lambda n: error(n) <= tau, n_enough, n_too_few)

    def excess(log_n):
        return error(math.ceil(math.exp(log_n))) / tau - 1.0

    log_n = crossing(excess, math.log(n_enough), math.log(n_too_few), rtol=rtol)
    return math.ceil(math.exp(log_n))


def best_design(task, route, max_dp_epsilon=math.inf, *, rough=False):
    """Return the best design of a route; a ``rough`` search stops early."""
    if route == "transcript":
        return _transcript_design(task, max_dp_epsilon)
    if route == "bdp":
        return _leakage_design(task, max_dp_epsilon, rough)
    raise ValueError(f"route must be 'transcript' or 'bdp', got route={route!r}.")


def _leakage_design(task, max_dp_epsilon, rough):
    """Return the smallest error certified by leakage (theory G1, T1, C1, C4).

    The error is minimized over the DP level.
    """
    typical_log_level = math.log(math.sqrt(80.0 * task.budget / task.n))
    lower = typical_log_level - 9.0
    upper = typical_log_level + 6.0
    if math.isfinite(max_dp_epsilon):
        upper = min(upper, math.log(max_dp_epsilon))
        lower = min(lower, upper - 9.0)
    logits = _INITIAL_LOGITS

    def design_at(log_level, rough):
        nonlocal logits
        level = min(math.exp(log_level), max_dp_epsilon)
        half_width = leakage_half_width(task, level)
        _, design, logits = _best_division(task, level, half_width, initial=logits, rough=rough)
        return design

    optimum = minimize_scalar(
        lambda log_level: math.log(design_at(log_level, True).tau),
        bounds=(lower, upper),
        options={"xatol": 0.5 if rough else 0.01},
    )
    log_levels = [optimum.x]
    if upper - optimum.x < 0.01:
        log_levels.append(upper)
    designs = [design_at(log_level, rough) for log_level in log_levels]
    return min(designs, key=lambda design: design.tau)


def _transcript_design(task, max_dp_epsilon):
    """Return the smallest error certified by counting transcripts (theory G2).

    Without a largest DP level no noise is needed: the grid of answers is the only parameter.
    """
    logits = _INITIAL_LOGITS

    def design_at(n_values, rough):
        nonlocal logits
        half_width = transcript_half_width(task, n_values)
        resolution = 1.0 / n_values
        if math.isfinite(max_dp_epsilon):
            _, design, logits = _best_division(
                task, max_dp_epsilon, half_width, initial=logits, rough=rough, resolution=resolution
            )
            return design
        sampling = half_width(math.log(task.beta))
        honesty_factor = 1.0 if task.c is None else 2.0 / (1.0 - task.c)
        tau = max(sampling * honesty_factor, sampling + 0.5 / n_values)
        return Design(
            tau=tau, sampling=sampling, threshold=tau - sampling, resolution=resolution, c=task.c
        )

    # The error falls and then rises with the number of values. A finer grid than 2^24 never helps.
    optimum = minimize_scalar(
        lambda log_n_values: design_at(round(math.exp(log_n_values)), True).tau,
        bounds=(0.0, 24.0 * math.log(2.0)),
        options={"xatol": 0.01},
    )
    n_values = round(math.exp(optimum.x))
    designs = [design_at(k, False) for k in range(max(1, n_values - 1), n_values + 2)]
    return min(designs, key=lambda design: design.tau)


def configured_design(task, mechanism, route):
    """Return the best design for a mechanism whose scales are given (theory C3)."""
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    design = _best_configured_division(task, mechanism, route)
    notes = []
    if design is None:
        missing = "a grid of answers (resolution > 0) or a finite DP level"
        if route != "best":
            raise ValueError(f"route={route!r} does not apply to a mechanism without {missing}.")
        design = Design(tau=1.0, sampling=1.0, route=route)
        notes.append(f"The mechanism is without {missing}.")
    elif task.c is not None and design.c is None:
        notes.append(
            f"Budget honesty at c = {task.c:g} is not guaranteed: the threshold is too low for it."
        )
    if mechanism.budget is None:
        notes.append(
            "The mechanism has no cap. The guarantee ends when the holdout has answered "
            f"{task.budget:,} queries."
        )
    return replace(design, mechanism=mechanism, notes=tuple(notes))


def _best_configured_division(task, mechanism, route):
    """Return the best design over the routes that apply to a mechanism; None if none applies.

    A design with the honesty asked for comes before one without it.
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
    half_widths = {}
    if route in ("best", "transcript") and mechanism.resolution > 0:
        half_widths["transcript"] = transcript_half_width(task, n_cells(mechanism.resolution))
    if route in ("best", "bdp") and math.isfinite(level):
        half_widths["bdp"] = leakage_half_width(task, level)
    designs = []
    for name, half_width in half_widths.items():
        for design in _divisions_within_reach(task, level, half_width, mechanism):
            designs.append(replace(design, route=name))
    return min(designs, key=lambda design: (design.c is None, design.tau), default=None)


def _divisions_within_reach(task, level, half_width, mechanism):
    """Yield the designs that a mechanism meets, with the honesty of the task and without any."""
    for c in {task.c, None}:
        initial = [4.0, 4.0, 5.0] if c is None else [0.0, 0.0, 1.0]
        shortfall, design, _ = _best_division(
            replace(task, c=c), level, half_width, mechanism=mechanism, initial=initial
        )
        if shortfall <= 0.0:
            yield design


# -- Sampling ------------------------------------------------------------------------------------


def leakage_half_width(task, dp_epsilon):
    """Return the sampling half-width as a function of a log failure probability (theory G1)."""
    information = float(sequential_information(task.model, dp_epsilon, task.n))
    n_effective = task.n_effective
    return lambda log_failure: sampling_half_width(
        n_effective, log_failure=log_failure, n_queries=task.n_queries, information=information
    )


def transcript_half_width(task, n_values):
    """Return the same by counting transcripts of answers with ``n_values`` values (theory G2)."""
    log_union = log_transcripts(task.n_queries, task.budget, n_values) + math.log(2.0)
    n_effective = task.n_effective
    return lambda log_failure: math.sqrt((log_union - log_failure) / (2.0 * n_effective))


# -- Divisions -----------------------------------------------------------------------------------


def log_shares(logits):
    """Return logs of fractions that sum to 1: softmax with a last logit of 0."""
    max_logit = max(0.0, *logits)
    total = sum(math.exp(logit - max_logit) for logit in logits) + math.exp(-max_logit)
    log_total = math.log(total) + max_logit
    return [*(logit - log_total for logit in logits), -log_total]


def noise_scales(task, level, logits):
    """Return the scales of threshold, query and answer that cost ``level`` in shares (T1)."""
    # Theory T1, threshold kept: Δ(1/σT + 2B/σq + B/σa) = ε′, the three terms in these shares.
    counts = (1, 2 * task.budget, task.budget)
    return tuple(
        count * task.sensitivity / level * math.exp(-log_share)
        for count, log_share in zip(counts, log_shares(logits), strict=True)
    )


def _divided(task, level, half_width, logits, *, mechanism=None, resolution=0.0):
    """Return the shortfall of budget honesty and the design of one division (theory C1, C3).

    ``half_width(log_failure)`` is that of sampling. A mechanism fixes noise and threshold.
    """
    noise = "laplace"
    if mechanism is None:
        scales = noise_scales(task, level, logits[:2])
    else:
        scales = tuple(getattr(mechanism, name) for name in _NOISE_SCALES)
        noise = mechanism.noise
        resolution = mechanism.resolution
    threshold_scale, query_scale, answer_scale = scales
    below_failure, answer_failure, sampling_failure, honesty_failure = (
        math.log(task.beta) + log_share for log_share in log_shares(logits[-3:])
    )

    def comparison_margin(log_failure, n_comparisons):
        return noise_margin(
            failure=math.exp(log_failure) / n_comparisons,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            noise=noise,
        )

    sampling = half_width(sampling_failure)
    below_margin = comparison_margin(below_failure, task.budget)
    corrected_margin = answer_margin(
        failure=math.exp(answer_failure) / task.budget, answer_scale=answer_scale, noise=noise
    )
    honesty_margin = 0.0
    if task.c is not None:
        honesty_margin = comparison_margin(honesty_failure, task.n_queries) + sampling
    tau = corrected_margin + resolution / 2.0 + sampling
    shortfall = 0.0
    if mechanism is None:
        honest_tau = (honesty_margin + below_margin + sampling) / (1.0 - (task.c or 0.0))
        tau = max(tau, honest_tau)
        # Slack left by a larger "above" error is best spent on budget honesty: T as large as τ
        # allows, never −0 by rounding.
        threshold = max(0.0, tau - below_margin - sampling)
    else:
        threshold = mechanism.threshold
        tau = max(tau, max(threshold, 0.0) + below_margin + sampling)
        if task.c is not None:
            shortfall = max(0.0, task.c * tau + honesty_margin - threshold)
    return shortfall, Design(
        tau=tau,
        sampling=sampling,
        noise=max(below_margin, corrected_margin),
        threshold=threshold,
        scales=scales,
        resolution=resolution,
        dp_epsilon=level,
        c=task.c,
    )


def _best_division(
    task, level, half_width, *, initial, rough=False, mechanism=None, resolution=0.0
):
    """Return the smallest certified error at one DP level: shortfall, design and logits."""

    def divided(logits):
        return _divided(
            task, level, half_width, logits.tolist(), mechanism=mechanism, resolution=resolution
        )

    def objective(logits):
        shortfall, design = divided(logits)
        return design.tau + 100.0 * shortfall

    logits = minimize_logits(objective, initial, rough=rough)
    return *divided(logits), tuple(logits)


def minimize_logits(objective, initial, *, rough):
    """Return bounded logits that minimize a function, by Nelder-Mead."""

    def bounded_objective(logits):
        if np.abs(logits).max() > _MAX_LOGIT:
            return math.inf
        return objective(logits)

    logits = np.asarray(initial, dtype=float)
    n_restarts = 1 if rough else 2
    options = {"xatol": 1e-4, "fatol": 1e-7, "maxiter": 150 if rough else 500}
    for _ in range(n_restarts):
        logits = minimize(bounded_objective, logits, method="Nelder-Mead", options=options).x
    return logits
