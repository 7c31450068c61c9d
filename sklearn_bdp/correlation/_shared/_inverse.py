"""Inverse of a calibration, ending on the safe side."""

from sklearn_bdp._bisection import crossing


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
    return crossing(lambda x: increasing(x) - target, low, high)
