"""Approximate intervals of any statistic, for a report after which nothing is asked (theory G22).

The level they are made at is exact, the intervals are not: a delete-one jackknife over units
(records, groups, blocks of time) on the scale of the statistic, with degrees of freedom that know
how few units carry it. Nothing here sees data: values of the statistic come in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta as beta_distribution
from scipy.stats import t as student

from sklearn_bdp._typing import Array

Scale = Literal["unit", "loss", "explained", "raw"]

# G22: logit for metrics in [0, 1], log for losses, -log(1 - R²); each with its inverse.
_SCALES: dict[str, tuple[Callable, Callable]] = {
    "unit": (logit, expit),
    "loss": (np.log, np.exp),
    "explained": (lambda r: -np.log1p(-r), lambda s: -np.expm1(-s)),
    "raw": (lambda x: x, lambda x: x),
}


class approximation:
    """What units must show, and below which counts a reader is warned (G22, simulation)."""

    LEAST_UNITS, FEW_UNITS = 20, 30
    LEAST_EVENTS, FEW_EVENTS, FEW_RANKED = 5, 10, 30  # units with an event; for a ranking
    BLOCKS = 10  # of time: fewer have too few degrees of freedom, more depend on each other
    LEAST_TIMES, FEW_TIMES = 100, 200  # autocorrelation times
    LEAST_CELL = 5  # units in a cell of the confusion matrix
    SMALL_LEVEL, MANY_UNITS = 0.005, 150  # tails below this need so many units


def jackknife_interval(
    value: float,
    left_out: Array,
    level: float,
    *,
    scale: Scale,
    events: int | None = None,
    skewed: bool = False,
) -> tuple[float, float]:
    r"""Return the ends of an approximate interval that fails with probability ``level``.

    Parameters
    ----------
    value : float
        The statistic of all units.
    left_out : ndarray of shape (G,)
        The statistic without each unit.
    level : float
        Failure probability of both sides together.
    scale : {"unit", "loss", "explained", "raw"}
        Where its distribution is nearest to a normal one.
    events : int, optional
        Units with an event: they bound the degrees of freedom.
    skewed : bool, default=False
        Whether the wider of this and Hall's skewness-corrected interval is meant.

    Returns
    -------
    lower, upper : float
        NaN where units say nothing: no spread, or a value at an end of its range.
    """
    forward, back = _SCALES[scale]
    with np.errstate(all="ignore"):
        center, moved = float(forward(value)), forward(np.asarray(left_out, dtype=float))
    off = moved - moved.mean()
    count = off.size
    total = float(np.sum(off**2))
    if not (math.isfinite(center) and np.isfinite(off).all() and total > 0.0):
        return math.nan, math.nan
    # G22: kurtosis of the contributions says how few of them the variance rests on.
    spread = float(np.sum(off**4)) / total**2 - 1.0 / count
    freedom = min(count - 1.0, 2.0 / max(spread, 1e-12))
    freedom = max(1.0, freedom if events is None else min(freedom, events - 1.0))
    reach = student.isf(level / 2.0, freedom) * math.sqrt((count - 1.0) / count * total)
    lower, upper = float(back(center - reach)), float(back(center + reach))
    if not skewed:
        return lower, upper
    ends = _hall(value, np.asarray(left_out, dtype=float), level, freedom)
    return min(lower, ends[0]), max(upper, ends[1])


def _hall(value, left_out, level, freedom):
    """Return Hall's interval: his cubic transformation takes the skewness off (Hall 1992)."""
    pull = -(left_out - left_out.mean())
    count = pull.size
    error = math.sqrt((count - 1.0) / count * float(np.sum(pull**2)))
    skew = float(np.mean(pull**3)) / float(np.mean(pull**2)) ** 1.5 / math.sqrt(count)
    ends = []
    for quantile in student.isf([level / 2.0, 1.0 - level / 2.0], freedom):
        inner = 1.0 + skew * (quantile - skew / 6.0)
        turned = 3.0 * (np.cbrt(inner) - 1.0) / skew if abs(skew) > 1e-9 else quantile
        ends.append(value - error * float(turned))
    return min(ends), max(ends)


def binomial_interval(hits: int, count: int, level: float) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a share, which fail with probability ``level`` at most."""
    side = level / 2.0
    lower = beta_distribution.ppf(side, hits, count - hits + 1) if hits else 0.0
    upper = beta_distribution.isf(side, hits + 1, count - hits) if hits < count else 1.0
    return float(lower), float(upper)


def mean_of_shares(hits: Array, counts: Array, level: float) -> tuple[float, float]:
    """Return approximate limits of a mean of shares from their own limits (MOVER; G22)."""
    shares = np.asarray(hits) / np.asarray(counts)
    ends = np.array(
        [binomial_interval(int(h), int(c), level) for h, c in zip(hits, counts, strict=True)]
    )
    reach = np.sqrt(np.sum((ends - shares[:, None]) ** 2, axis=0)) / shares.size
    center = float(shares.mean())
    return max(0.0, center - float(reach[0])), min(1.0, center + float(reach[1]))
