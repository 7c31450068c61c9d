"""A mechanism as configured (theory C3): its scales are given, the margins are not."""

import math

from scipy.optimize import minimize

from sklearn_bdp.accounting import answer_margin, noise_margin
from sklearn_bdp.mechanisms import n_cells, thresholdout_epsilon
from sklearn_bdp.planning._designs import adaptive_width, counted_width, shares
from sklearn_bdp.planning._task import Design


def configured_design(task, mechanism, route):
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
        honest = task.c is not None and _fixed_division(task, mechanism, width, level, task.c)
        plain = honest or _fixed_division(task, mechanism, width, level, None)
        found.append((plain, task.c if honest else None))
    return min(found, key=lambda item: (item[1] is None, item[0].tau))


def _mechanism_widths(task, mechanism, level, route):
    widths = []
    if route in ("best", "bdp") and math.isfinite(level):
        widths.append(adaptive_width(task, level))
    if route in ("best", "transcript") and mechanism.resolution > 0:
        widths.append(counted_width(task, n_cells(mechanism.resolution)))
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

    def margin(log_failure):
        return noise_margin(
            failure=math.exp(max(log_failure, -700.0)),
            threshold_scale=s_t, query_scale=s_q, noise=mechanism.noise,
        )  # fmt: skip

    def division(parameters):
        below, answer, sampling, honest = (log_beta + s for s in shares(parameters))
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
