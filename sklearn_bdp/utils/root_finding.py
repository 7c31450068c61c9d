"""Root searches that end on the safe side, for intervals, margins, privacy levels and plans."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

N_HALVINGS = 48  # the last bracket is 2⁻⁴⁸ of the first one


def last_accepted(
    accepted: Callable[[Any], Any],
    safe: Any,
    rejected: Any,
    *,
    steps: int = N_HALVINGS,
    tolerance: float = 0.0,
) -> Any:
    """Return points at or before the last accepted ones on the way from ``safe`` to ``rejected``.

    ``accepted`` takes one or many points and returns whether each is accepted. Points nearer to
    ``safe`` than an accepted one must be accepted, too. The interval between an accepted and a
    rejected point is halved ``steps`` times, or until no interval is longer than ``tolerance``.
    Every point returned is ``safe`` itself or was accepted when tried, whatever the rounding. The
    result is a float if ``safe`` and ``rejected`` are numbers, else an array.
    """
    accepted_points = np.asarray(safe, dtype=float)
    rejected_points = np.asarray(rejected, dtype=float)
    for _ in range(steps):
        if tolerance > 0.0 and np.all(np.abs(accepted_points - rejected_points) <= tolerance):
            break
        midpoints = 0.5 * (accepted_points + rejected_points)
        is_accepted = np.asarray(accepted(midpoints), dtype=bool)
        accepted_points = np.where(is_accepted, midpoints, accepted_points)
        rejected_points = np.where(is_accepted, rejected_points, midpoints)
    return float(accepted_points) if accepted_points.ndim == 0 else accepted_points


def last_whole(
    accepted: Callable[[int], Any], safe: int, rejected: int, *, rtol: float = 0.0
) -> int:
    """Return the last accepted integer on the way from ``safe`` (accepted) to ``rejected``.

    ``accepted`` returns whether an integer is accepted. With ``rtol`` the search may stop earlier,
    at an accepted integer whose distance to a rejected one is at most the fraction ``rtol`` of the
    larger of both.
    """
    while abs(rejected - safe) > max(1.0, rtol * max(safe, rejected)):
        midpoint = (safe + rejected) // 2
        if accepted(midpoint):
            safe = midpoint
        else:
            rejected = midpoint
    return safe


def doubled(accepted: Callable[[Any], Any], start: Any, *, largest: float = math.inf) -> Any:
    """Return the first accepted value of ``start``, twice ``start``, …, and the value before it.

    ``accepted`` returns whether a value is accepted. The value before is 0 if ``start`` is
    accepted. Returns None, not a pair, if no value up to ``largest`` is accepted.
    """
    rejected = 0
    while start <= largest:
        if accepted(start):
            return start, rejected
        rejected = start
        start = 2 * start
    return None


def crossing(
    excess: Callable[[float], float], safe: float, rejected: float, *, rtol: float = 1e-9
) -> float:
    """Return a point with an ``excess`` of at most 0, near a root or nearer to ``safe``.

    ``excess`` is at most 0 at ``safe`` and positive at ``rejected``. Brent's method finds the root
    to about ``rtol`` relative to the larger end. From there, points nearer and nearer to ``safe``
    are tried until one has an ``excess`` of at most 0. If none has, ``safe`` is returned.
    """
    xtol = 0.1 * rtol * max(abs(safe), abs(rejected))
    root = brentq(excess, safe, rejected, xtol=xtol, rtol=rtol)
    for step in (0.0, 2.0, 20.0, 1e3, 1e5, 1e7):  # times rtol: fraction of the way to ``safe``
        point = root + min(step * rtol, 1.0) * (safe - root)
        if excess(point) <= 0.0:
            return point
    return safe


def safe_inverse(increasing, target):
    """Return nearly the largest ``x`` with ``increasing(x) <= target``, not a larger one.

    ``increasing``: increasing function with ``increasing(x) >= x``. If the result is positive, the
    inequality was evaluated there and is true. The result is 0.0 if ``target`` is not positive, or
    if no point tried that is larger than ``2**-120`` times ``target`` satisfies the inequality.
    """
    if not target > 0:
        return 0.0
    if increasing(target) <= target:
        return target
    high = target
    low = target / 2
    while not increasing(low) <= target:
        high = low
        low /= 4
        if not low > target * 2.0**-120:
            return 0.0
    return crossing(lambda x: increasing(x) - target, low, high)
