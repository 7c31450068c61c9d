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

    ``accepted`` returns for each of many points whether it is accepted, and is monotone: points
    nearer to ``safe`` than an accepted one are accepted, too. The interval between an accepted and
    a rejected point is halved ``steps`` times, or until no interval is longer than ``tolerance``.
    Every point returned is ``safe`` itself or was accepted when tried. That is the proof of safety:
    whatever rounding does to ``accepted``, no point is returned that it rejected. The result is a
    float for two numbers, else an array.
    """
    accepted_points = np.asarray(safe, dtype=float)
    rejected_points = np.asarray(rejected, dtype=float)
    for _ in range(steps):
        if tolerance > 0.0 and np.all(np.abs(accepted_points - rejected_points) <= tolerance):
            break
        middle = 0.5 * (accepted_points + rejected_points)
        is_accepted = np.asarray(accepted(middle), dtype=bool)
        accepted_points = np.where(is_accepted, middle, accepted_points)
        rejected_points = np.where(is_accepted, rejected_points, middle)
    return float(accepted_points) if accepted_points.ndim == 0 else accepted_points


def last_whole(
    accepted: Callable[[int], Any], safe: int, rejected: int, *, rtol: float = 0.0
) -> int:
    """Return the last accepted whole number between ``safe`` (accepted) and ``rejected``.

    With ``rtol`` the search may stop earlier, at an accepted number whose distance to a rejected
    one is at most the fraction ``rtol`` of the larger of both.
    """
    while abs(rejected - safe) > max(1.0, rtol * max(safe, rejected)):
        middle = (safe + rejected) // 2
        if accepted(middle):
            safe = middle
        else:
            rejected = middle
    return safe


def doubled(accepted: Callable[[Any], Any], start: Any, *, largest: float = math.inf) -> Any:
    """Return the first accepted value of ``start``, twice ``start``, …, and the value before it.

    The value before it was rejected; it is 0 if ``start`` is accepted. Returns None, not a pair, if
    none of these values up to ``largest`` is accepted.
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
    """Return a point with an ``excess`` of at most 0, near the root if one is found there.

    ``excess`` is at most 0 at ``safe`` and positive at ``rejected``. Brent's method stops on either
    side of the root, to about ``rtol`` relative to the larger end. From there, points nearer to
    ``safe`` are tried until one has an ``excess`` of at most 0. If none of these has, ``safe`` is
    returned.
    """
    xtol = 0.1 * rtol * max(abs(safe), abs(rejected))
    root = brentq(excess, safe, rejected, xtol=xtol, rtol=rtol)
    for step in (0.0, 2.0, 20.0, 1e3, 1e5, 1e7):  # times rtol: part of the way
        candidate = root + min(step * rtol, 1.0) * (safe - root)
        if excess(candidate) <= 0.0:
            return candidate
    return safe


def safe_inverse(increasing, target):
    """Return nearly the largest ``x`` with ``increasing(x) <= target``, not a larger one.

    ``increasing(x) >= x`` is assumed, so the answer lies in ``[0, target]``. A positive point that
    is returned has been evaluated and satisfies the inequality. The result is 0.0 if ``target`` is
    not positive, or no point of at least ``2**-120`` times ``target`` that was tried satisfies it.
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
