"""Conversion of the ends of intervals from [0, 1] to the units of a metric."""

import numpy as np

#: Values of ``open_ends``: ends of a public range beyond which scores may lie.
OPEN_ENDS = ("", "lower", "both")


def open_ends_from_unit(low, high, open_ends, lower, upper):
    """Return the ends of intervals in score units.

    Parameters
    ----------
    low, high : float
        Ends of the public range in score units, which is mapped to [0, 1].
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
    lower_ends = low + np.asarray(lower, dtype=float) * (high - low)
    upper_ends = low + np.asarray(upper, dtype=float) * (high - low)
    if open_ends:
        lower_ends = np.where(np.asarray(lower) <= 0.0, -np.inf, lower_ends)
    if open_ends == "both":
        upper_ends = np.where(np.asarray(upper) >= 1.0, np.inf, upper_ends)
    if np.ndim(lower_ends) == 0:
        return float(lower_ends), float(upper_ends)
    return lower_ends, upper_ends
