"""The smallest number of records that certifies an error (theory C2)."""

import math
from dataclasses import replace

from sklearn_bdp.planning._printed import printed_required_n
from sklearn_bdp.planning._published import floor_required_n
from sklearn_bdp.planning._solve import OURS, solve

__all__ = ["smallest_n"]

_LARGEST = 10**15


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
