"""Inverse of a calibration, ending on the safe side."""

from scipy.optimize import brentq


def safe_inverse(increasing, target):
    """Largest ``x`` (up to rounding) with ``increasing(x) <= target``, never above it.

    ``increasing(x) >= x`` is assumed, so the answer lies in ``[0, target]``. The returned point
    has been evaluated and satisfies the inequality; ``0.0`` means that no positive point does.
    """
    if not target > 0:
        return 0.0
    if increasing(target) <= target:
        return target
    high, low = target, target / 2
    while not increasing(low) <= target:
        high, low = low, low / 4
        if low < target * 2.0**-120:
            return 0.0
    root = brentq(lambda x: increasing(x) - target, low, high, xtol=1e-10 * high, rtol=1e-9)
    # The root finder stops on either side; walk back until the inequality holds.
    for step in (0.0, 2e-9, 2e-8, 1e-6, 1e-4, 1e-2):
        candidate = root * (1 - step)
        if candidate > low and increasing(candidate) <= target:
            return candidate
    return low
