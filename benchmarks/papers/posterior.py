"""Certificates by posterior means (theory G6), after Jung et al. 2020."""

import math

from scipy.optimize import minimize_scalar

from sklearn_bdp.accounting.noise_calibration import answer_margin, noise_margin
from sklearn_bdp.correlation.levels import posterior_bias
from sklearn_bdp.planning.design import (
    Design,
    leakage_half_width,
    log_fractions,
    minimize_logits,
    noise_scales,
)


def posterior_excess(z: float, threshold_scale: float, query_scale: float) -> float:
    r""":math:`TL(z) = \int_z^\infty P[N_T + N_q > u]\,du` for Laplace noises (theory G6).

    The expected excess over a margin ``z`` of at least 0, in score units. One of the scales is
    positive.
    """
    larger = max(threshold_scale, query_scale)
    smaller = min(threshold_scale, query_scale)
    ratio = smaller / larger
    u = z / larger
    if 1.0 - ratio < 1e-5:
        # Limit σ(3 + u)e^{−u}/4 at the larger scale, which exceeds the value at unequal scales.
        return larger * (3.0 + u) * math.exp(-u) / 4.0
    second_term = 0.0
    if ratio >= 1e-150:
        second_term = ratio**3 * math.exp(-z / smaller)
    return larger * (math.exp(-u) - second_term) / (2.0 * (1.0 - ratio) * (1.0 + ratio))


def posterior_design(task):
    """Return the design with the smallest error by posterior means, over DP levels and noise.

    The accuracy of answers needs leakage only. Budget honesty does not follow from a posterior
    mean (an "above" answer may come from either side), so its term uses G1.
    """
    typical_log_level = math.log(math.sqrt(80.0 * task.budget / task.n))
    bounds = (typical_log_level - 9.0, typical_log_level + 6.0)
    logits = (-0.5, 0.7, -2.0, -2.0, -2.0)

    def design_at(log_level, *, rough):
        nonlocal logits
        level = math.exp(log_level)
        bias = float(posterior_bias(task.model, level, task.n))
        half_width = leakage_half_width(task, level)

        def divided(logits):
            return _divided(task, level, half_width, bias, logits.tolist())

        best_logits = minimize_logits(lambda logits: divided(logits).tau, logits, rough=rough)
        logits = tuple(best_logits)
        return divided(best_logits)

    optimum = minimize_scalar(
        lambda log_level: math.log(design_at(log_level, rough=True).tau),
        bounds=bounds,
        options={"xatol": 0.01},
    )
    log_levels = [optimum.x]
    if bounds[1] - optimum.x < 0.01:
        log_levels.append(bounds[1])
    designs = [design_at(log_level, rough=False) for log_level in log_levels]
    return min(designs, key=lambda design: design.tau)


def _divided(task, level, half_width, bias, logits):
    """Return the design of one division of noise and failure probability."""
    scales = noise_scales(task, level, logits[:2])
    threshold_scale, query_scale, answer_scale = scales
    below_failure, answer_failure, sampling_failure, honesty_failure = (
        math.log(task.beta) + log_share for log_share in log_fractions(logits[2:])
    )

    def comparison_margin(log_failure, n_comparisons):
        return noise_margin(
            failure=math.exp(log_failure) / n_comparisons,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
        )

    below_margin = comparison_margin(below_failure, task.budget)
    corrected_margin = answer_margin(
        failure=math.exp(answer_failure) / task.budget, answer_scale=answer_scale
    )
    honesty_margin = 0.0
    if task.c is not None:
        honesty_margin = comparison_margin(honesty_failure, task.n_queries)
        honesty_margin += half_width(sampling_failure)
    # Theory G6: z minimizes z + B·TL(z)/failure; the derivative vanishes at tail = failure/B.
    log_excess = math.log(task.budget) - below_failure
    log_excess += math.log(posterior_excess(below_margin, threshold_scale, query_scale))
    confirmed_sampling = bias + math.exp(min(log_excess, 700.0))
    corrected_sampling = bias + answer_scale
    tau = max(
        corrected_margin + corrected_sampling,
        (honesty_margin + below_margin + confirmed_sampling) / (1.0 - (task.c or 0.0)),
    )
    return Design(
        tau=tau,
        sampling=max(confirmed_sampling, corrected_sampling),
        noise=max(below_margin, corrected_margin),
        threshold=max(0.0, tau - below_margin - confirmed_sampling),
        scales=scales,
        dp_epsilon=level,
        c=task.c,
    )
