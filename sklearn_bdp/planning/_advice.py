"""What would make a certificate better, in plain language."""

import math
from dataclasses import replace

from sklearn_bdp.planning._designs import floor_half_width, splitting_half_width
from sklearn_bdp.planning._replicated import sized
from sklearn_bdp.planning._solve import smallest_n

_TARGETS = (0.2, 0.1, 0.05, 0.025, 0.01)


def advice_for(certificate, task, epsilon, *, raw_tau, configured):
    """Return lines of advice; an empty tuple where there is nothing to say."""
    lines = []
    if certificate.route == "floor":
        return ()
    if configured:
        if certificate.is_vacuous:
            lines += _fixed_mechanism(certificate, raw_tau)
    elif certificate.is_vacuous:
        lines += _needed(certificate, task, 0.49, epsilon, raw_tau, "for any statement (± 0.49)")
        lines += _needed(certificate, task, 0.1, epsilon, raw_tau, "for ± 0.1")
    else:
        target = next((t for t in _TARGETS if t < 0.95 * certificate.tau), None)
        if target is not None:
            lines += _needed(certificate, task, target, epsilon, raw_tau, f"give ± {target:g}")
    lines += _compare_splitting(certificate, task)
    return tuple(lines)


def _needed(certificate, task, target, epsilon, raw_tau, purpose):
    route = certificate.route
    if route not in ("bdp", "transcript", "posterior", "splitting", "zhao2017", "dwork2017"):
        return []
    if route in ("bdp", "posterior"):
        return _estimated(certificate, target, raw_tau, purpose, fixed_level=epsilon is not None)
    try:
        n = smallest_n(replace(task, n=1, model=sized(task.model)), target, route, epsilon=epsilon)
    except ValueError:
        return [f"No number of records would be enough {purpose}."]
    if n <= certificate.n:
        return []
    if certificate.is_vacuous:
        return [f"About {n:,} records are needed {purpose}."]
    return [f"{n - certificate.n:,} more records {purpose}."]


def _estimated(certificate, target, raw_tau, purpose, *, fixed_level):
    # Planning by leakage takes seconds. With the level free, τ falls like n^{−1/2}; at a fixed
    # level the sampling part does and the noise falls like 1/n. Accurate enough for a hint.
    if not math.isfinite(raw_tau):
        return [f"No number of records would be enough {purpose}."]
    sampling = raw_tau
    if fixed_level:
        spread = 1.0 if certificate.c is None else 2.0 / (1.0 - certificate.c)
        sampling = min(raw_tau, spread * certificate.sampling)
    # s·x^{−1/2} + (τ − s)/x = target, a quadratic in x^{1/2}.
    root = sampling + math.sqrt(sampling**2 + 4.0 * target * (raw_tau - sampling))
    n = math.ceil(1.02 * certificate.n * (root / (2.0 * target)) ** 2)
    if certificate.is_vacuous:
        return [f"About {n:,} records are needed {purpose}."]
    return [f"About {max(n - certificate.n, 1):,} more records {purpose}."]


def _fixed_mechanism(certificate, raw_tau):
    # The mechanism stays as it is: only the sampling part falls with more records.
    fixed = raw_tau - certificate.sampling
    if not fixed < 0.49:
        return [
            "No number of records would be enough with these scales and this threshold; without "
            "mechanism= the best ones are chosen."
        ]
    n = math.ceil(1.02 * certificate.n * (certificate.sampling / (0.49 - fixed)) ** 2)
    return [f"About {n:,} records are needed for any statement (± 0.49) with this mechanism."]


def _compare_splitting(certificate, task):
    if certificate.route == "splitting":
        return []
    split = splitting_half_width(task)
    if split < certificate.tau and split < 0.5:
        return [
            f"Plain sample splitting is better here: fresh records for each of "
            f"{task.n_queries:,} queries give ± {split:.3g}."
        ]
    fixed = floor_half_width(task)
    if task.n_queries > 1 and fixed < 0.8 * certificate.tau:
        return [
            f"Queries fixed in advance, as one batch, would have ± {fixed:.3g}; as-used "
            "accounting (ReusableHoldout) charges a batch that way."
        ]
    return []
