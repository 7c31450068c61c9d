"""One task, one route: the design that proves most, the fewest records. No text, no warnings."""

import math
from dataclasses import dataclass, replace

from sklearn_bdp._checks import check_real
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._configured import configured_design
from sklearn_bdp.planning._designs import best_design
from sklearn_bdp.planning._published import floor_required_n, printed_design, printed_required_n

ROUTES = (
    "best",
    "bdp",
    "transcript",
    "posterior",
    "zhao2017",
    "dwork2017",
    "splitting",
    "floor",
)
OURS = ("transcript", "bdp", "posterior")
_LARGEST = 10**15


@dataclass(frozen=True)
class Solution:
    """A design together with the route that proves it and what is worth saying about it."""

    design: object
    route: str
    mechanism: object = None
    c: float | None = None
    notes: tuple = ()


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the best `Solution` for a task; no text, no warnings (planners call this often)."""
    # At most m queries can be above.
    task = replace(task, budget=min(task.budget, task.n_queries))
    if mechanism is not None:
        return _solve_mechanism(task, route, mechanism)
    cap = math.inf
    if epsilon is not None:
        level = check_real("epsilon", epsilon, low=0.0, closed="neither")
        if route not in ("best", *OURS):
            raise ValueError(f"epsilon needs route 'best' or one of {OURS}, got route={route!r}.")
        cap = float(task.model.dp_epsilon(level, task.n))
        if cap == 0.0:
            return _nothing(task, route, "No positive DP level gives this Bayesian DP level.")
    if route in ("zhao2017", "dwork2017"):
        return _solve_printed(task, route)
    if route != "best":
        design = best_design(task, route, cap)
        return _solution(task, design, route)
    return _solution(task, *_best_design(task, cap))


def _best_design(task, cap):
    """Best of our routes; one that is far behind after a rough search is not refined."""
    best, name = best_design(task, "transcript", cap), "transcript"
    for other in ("bdp", "posterior"):
        if best_design(task, other, cap, rough=True).tau < 1.3 * best.tau:
            design = best_design(task, other, cap)
            if design.tau < best.tau:
                best, name = design, other
    return best, name


def _solution(task, design, route):
    mechanism = None if route in ("splitting", "floor") else _as_mechanism(design, task)
    notes = ()
    if route == "floor":
        notes = (
            "A yardstick: it holds for queries fixed before any answer, not for adaptive ones.",
        )
    c = None if route in ("splitting", "floor") else task.c
    return Solution(design=design, route=route, mechanism=mechanism, c=c, notes=notes)


def _nothing(task, route, note):
    design = best_design(task, "floor", math.inf)
    vacuous = replace(design, tau=1.0, sampling=1.0, threshold=math.nan)
    return Solution(design=vacuous, route=route, notes=(note,))


def _solve_mechanism(task, route, mechanism):
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
    if route not in ("best", "bdp", "transcript"):
        raise ValueError(
            "a configured Thresholdout is certified by route 'best', 'bdp' or 'transcript', got "
            f"route={route!r}."
        )
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    design, c = configured_design(task, mechanism, route)
    used = route
    if route == "best":
        used = "transcript"
        if mechanism.resolution == 0 or not math.isclose(
            design.tau, _tau_or_inf(task, mechanism, "transcript")
        ):
            used = "bdp"
    notes = []
    if not math.isfinite(design.tau):
        notes.append(
            "No route applies: the mechanism has neither a grid of answers nor a finite DP level."
        )
    if task.c is not None and c is None:
        notes.append(
            f"Budget honesty at c = {task.c:g} is not promised: the threshold is too low for it."
        )
    if mechanism.budget is None:
        notes.append(
            f"The mechanism has no cap; the promise ends with its {task.budget:,}. answer from "
            "the holdout."
        )
    return Solution(design=design, route=used, mechanism=mechanism, c=c, notes=tuple(notes))


def _tau_or_inf(task, mechanism, route):
    try:
        return configured_design(task, mechanism, route)[0].tau
    except ValueError:
        return math.inf


def _solve_printed(task, route):
    design, mechanism, printed = printed_design(task, route)
    if mechanism is None:
        note = "The theorem needs more records than there are for every tau."
        return Solution(design=design, route=route, notes=(note,))
    if design.tau <= printed:
        notes = (f"The theorem prints tau = {printed:.4g}; G1 confirms it for the same mechanism.",)
        design = replace(design, tau=printed)
    else:
        notes = (
            f"The theorem prints tau = {printed:.4g}; G1 confirms {design.tau:.4g} only, which is "
            "what is certified.",
        )
    return Solution(design=design, route=route, mechanism=mechanism, c=None, notes=notes)


def _as_mechanism(design, task):
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


def smallest_n(task, tau, route, *, epsilon=None):
    """Smallest ``n`` for a checked task (``task.n`` is ignored)."""
    if route in ("zhao2017", "dwork2017"):
        return _printed_n(task, tau, route)
    if route != "best":
        return _search_n(task, tau, route, epsilon)
    best = _search_n(task, tau, OURS[0], epsilon)
    for name in OURS[1:]:
        # Another route is worth a search only if it certifies one record less.
        if best > 1 and _tau_at(task, best - 1, name, epsilon) <= tau:
            best = _search_n(task, tau, name, epsilon)
    return best


def _printed_n(task, tau, route):
    required = printed_required_n(task, tau, route)
    if not math.isfinite(required):
        raise ValueError(f"no number of records suffices for tau={tau!r} by route={route!r}.")
    return math.ceil(required - 1e-9)


def _tau_at(task, n, route, epsilon):
    return solve(replace(task, n=n), route=route, epsilon=epsilon).design.tau


def _search_n(task, tau, route, epsilon):
    """Secant steps in log-log coordinates inside a bracket, down to neighbours.

    Routes that optimise noise are resolved to one part in 100,000, finer than their optimum is
    known. The returned ``n`` has itself been certified in every case.
    """
    known = {}
    fine = 1e-5 if route in ("bdp", "posterior") or epsilon is not None else 0.0

    def enough(n):
        if n not in known:
            known[n] = _tau_at(task, n, route, epsilon)
        return known[n] <= tau

    # Theory G3: nothing beats the floor, so start there.
    share = float(task.model.effective_n(10**6)) / 10**6
    floor = floor_required_n(tau=tau, n_queries=task.n_queries, beta=task.beta) / share
    low, high = 0, max(1, math.ceil(floor))
    while not enough(high):
        low = high
        ratio = min(known[high] / tau, 10.0)
        high = math.ceil(high * max(ratio**2, 1.0005) * 1.0005) + 1
        if high > _LARGEST:
            raise ValueError(f"no number of records below 1e15 suffices for tau={tau!r}.")
    step = 1
    while high - low > max(1, fine * high):
        middle = (low + high) // 2
        if low > 0 and high - low > 8 and math.isfinite(known[low]) and step % 4:
            # The chord through the bracket's ends, moved outwards on the side found last, so that
            # the other end follows at once; every fourth step bisects.
            slope = math.log(known[high] / known[low]) / math.log(high / low)
            if slope < 0:
                guess = high * math.exp(math.log(tau / known[high]) / slope)
                margin = max(0.3 * fine * high, 0.01 * min(guess - low, high - guess), 1.0)
                middle = round(guess + (margin if guess - low < high - guess else -margin))
                middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
        step += 1
    return high
