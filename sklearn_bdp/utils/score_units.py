"""Scores and ends of intervals, from [0, 1] to the units of a metric."""

import numpy as np

#: Ends of a public range beyond which scores may lie.
OPEN_ENDS = ("", "lower", "both")


def open_ends_from_unit(low, high, open_ends, lower, upper):
    """Return the ends of intervals in score units.

    Parameters
    ----------
    low, high : float
        Public range in score units that is mapped to [0, 1].
    open_ends : {"", "lower", "both"}
        Ends of the range beyond which scores may lie. An interval that reaches such an end has no
        limit there.
    lower, upper : float or ndarray
        Ends of intervals in [0, 1].

    Returns
    -------
    lower, upper : float or ndarray
        Ends in score units, minus or plus infinity without a limit.
    """
    first = low + np.asarray(lower, dtype=float) * (high - low)
    last = low + np.asarray(upper, dtype=float) * (high - low)
    if open_ends:
        first = np.where(np.asarray(lower) <= 0.0, -np.inf, first)
    if open_ends == "both":
        last = np.where(np.asarray(upper) >= 1.0, np.inf, last)
    if np.ndim(first) == 0:
        return float(first), float(last)
    return first, last
