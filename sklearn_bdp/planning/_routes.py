"""One task, one route: the design that proves most, the fewest records. No text, no warnings."""

from __future__ import annotations

import math
from dataclasses import replace

from sklearn_bdp._bisection import crossing, last_whole
from sklearn_bdp._checks import check_beta, check_integer, check_option, check_real
from sklearn_bdp.accounting import least_accuracy, zhao_required_n
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._designs import Design, best_design, configured_design

OURS = ("transcript", "bdp", "posterior")
PRINTED = ("zhao2017", "dwork2017")
UNTOUCHED = ("splitting", "floor")  # no mechanism
ROUTES = ("best", "bdp", "transcript", "posterior", *PRINTED, *UNTOUCHED)
_LARGEST = 10**15


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the best design for a task; no text, no warnings (planners call this often)."""
    # At most m queries can be above.
    task, cap = replace(task, budget=min(task.budget, task.n_queries)), math.inf
    if mechanism is not None:
        return _solve_mechanism(task, route, mechanism)
    if epsilon is not None:
        level = check_real("epsilon", epsilon, low=0.0, closed="neither")
        if route not in ("best", *OURS):
            raise ValueError(f"epsilon needs route 'best' or one of {OURS}, got route={route!r}.")
        cap = float(task.model.dp_epsilon(level, task.n))
        if cap == 0.0:
            note = "No positive DP level gives this Bayesian DP level."
            return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    if route in PRINTED:
        return _solve_printed(task, route)
    first, *others = OURS if route == "best" else (route,)
    route, design = first, best_design(task, first, cap)
    for other in others:
        # A route that is far behind after a rough search is not refined.
        if best_design(task, other, cap, rough=True).tau < 1.3 * design.tau:
            found = best_design(task, other, cap)
            if found.tau < design.tau:
                route, design = other, found
    if route in UNTOUCHED or not design.tau < 1.0:
        return replace(design, route=route)
    names = ("threshold_scale", "query_scale", "answer_scale")
    mechanism = Thresholdout(  # threshold kept, as T1 was charged
        design.threshold,
        **dict(zip(names, design.scales, strict=True)),
        budget=task.budget,
        refresh=False,
        resolution=design.resolution,
    )
    return replace(design, route=route, mechanism=mechanism)


def _solve_mechanism(task, route, mechanism):
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
    check_option("route with mechanism=", route, ("best", "bdp", "transcript"))
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    design, notes = configured_design(task, mechanism, route), []
    if design is None:
        lacking = "a grid of answers (resolution > 0) or a finite DP level"
        if route != "best":
            raise ValueError(f"route={route!r} does not apply to a mechanism without {lacking}.")
        design = Design(tau=1.0, sampling=1.0, route=route)
        notes.append(f"The mechanism is without {lacking}.")
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


def smallest_n(task, tau, route):
    """Smallest ``n`` for a checked task (``task.n`` is ignored)."""
    if route in PRINTED:
        required = _printed_required_n(task, tau, route)
        if not math.isfinite(required):
            raise ValueError(f"no number of records suffices for tau={tau!r} by route={route!r}.")
        return math.ceil(required - 1e-9)
    first, *others = OURS if route == "best" else (route,)
    best = _search_n(task, tau, first)
    for name in others:
        # Another route is worth a search only if it certifies one record less.
        if best > 1 and solve(replace(task, n=best - 1), route=name).tau <= tau:
            best = _search_n(task, tau, name)
    return best


def _search_n(task, tau, route):
    """Search upwards from the floor, then by bisection; the result itself has been certified.

    Routes that optimise noise are resolved to a part in 1,000: each step takes a tenth of a second.
    """

    def error(n):
        return solve(replace(task, n=n), route=route).tau

    # Theory G3: nothing beats the floor.
    share = float(task.model.effective_n(10**6)) / 10**6
    floor = floor_required_n(tau=tau, n_queries=task.n_queries, beta=task.beta) / share
    low, high = 0, max(1, math.ceil(floor))
    while (found := error(high)) > tau:
        low, high = high, math.ceil(1.001 * high * max(1.0, min(found / tau, 10.0)) ** 2) + 1
        if high > _LARGEST:
            raise ValueError(f"no number of records below 1e15 suffices for tau={tau!r}.")
    if low == 0 or route not in ("bdp", "posterior"):
        return last_whole(lambda n: error(n) <= tau, high, low)

    def excess(log_n):
        return error(math.ceil(math.exp(log_n))) / tau - 1.0

    return math.ceil(math.exp(crossing(excess, math.log(high), math.log(low), rtol=3e-5)))


# -- What others would certify, as printed (theory G3), confirmed by G1 for the same mechanism ----

#: Theorem 2 of Zhao 2017 holds for any c in (0, 1). Where honesty is not asked for, the smallest c
#: gives the smallest error; this one is within two parts in a million of the limit.
_LEAST_C = 1e-6


def _printed_required_n(task, tau, route):
    """Return the records that a theorem asks for, not rounded."""
    promise = {"tau": tau, "n_queries": task.n_queries, "budget": task.budget, "beta": task.beta}
    if route == "zhao2017":
        rest = {"model": task.model, "n": task.model.n_records}
        return zhao_required_n(**promise, c=task.c or _LEAST_C, **rest)
    if not task.model.is_independent:
        raise ValueError(
            f"route='dwork2017' holds for independent records only, got {task.model.describe()}."
        )
    # Dwork et al. 2017, Theorem 9, the side of its minimum with B; constants from their Theorem 4
    # at level τ/8 (``benchmarks/papers/dwork.py`` has the side with √B, for thousands of answers).
    sigma = tau / (96.0 * math.log(4.0 * task.n_queries / task.beta))
    sampling = 64.0 * math.log(12.0 * task.n_queries / task.beta) / tau**2
    return max(16.0 * task.budget / (sigma * tau), sampling)


def _solve_printed(task, route):
    printed = least_accuracy(lambda tau: _printed_required_n(task, tau, route), task.n)
    if not printed < 1.0:
        note = "The theorem needs more records than there are for every tau."
        return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    promise = (printed, task.beta, task.n_queries, task.budget)
    if route == "zhao2017":
        mechanism = Thresholdout.zhao2017(*promise, c=task.c or _LEAST_C)
    else:
        mechanism = Thresholdout.dwork2017(*promise)
    design = configured_design(task, mechanism, "bdp")
    note = f"The theorem prints tau = {printed:.4g}; G1 confirms "
    if design.tau <= printed:
        note += "it for the same mechanism."
    else:
        note += f"{design.tau:.4g} only, which is what is certified."
    tau = max(design.tau, printed)
    return replace(design, tau=tau, c=None, route=route, mechanism=mechanism, notes=(note,))


def floor_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Effective records that queries fixed in advance need by Hoeffding, no mechanism (theory G3).

    The effective number, not rounded.
    """
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    m = check_integer("n_queries", n_queries, low=1)
    return math.log(2.0 * m / check_beta(beta)) / (2.0 * tau**2)
