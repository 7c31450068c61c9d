"""Bisection that ends on the safe side: the one root search of intervals and margins."""

import numpy as np

__all__ = ["last_accepted"]

STEPS = 48  # 2⁻⁴⁸ of the bracket is far below any grid


def last_accepted(accepted, safe, other, *, steps=STEPS):
    """Return points at or next to the last accepted ones on the way from ``safe`` to ``other``.

    Parameters
    ----------
    accepted : callable
        Takes points of the shape of ``safe`` and says for each whether it is accepted. Monotone:
        what is nearer to ``safe`` than an accepted point would be accepted, too.
    safe, other : float or array
        Ends of the search; ``safe`` is taken for granted.
    steps : int
        Halvings of the distance.

    Returns
    -------
    float or ndarray
        Points that are ``safe`` themselves or were accepted when tried. That is the proof of
        safety: whatever rounding does to ``accepted``, no point is returned that it refused.
    """
    good, bad = np.asarray(safe, dtype=float), np.asarray(other, dtype=float)
    for _ in range(steps):
        middle = 0.5 * (good + bad)
        passed = np.asarray(accepted(middle), dtype=bool)
        good, bad = np.where(passed, middle, good), np.where(passed, bad, middle)
    return float(good) if good.ndim == 0 else good
