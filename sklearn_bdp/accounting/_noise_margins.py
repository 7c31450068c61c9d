"""Noise: tails and margins."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from sklearn_bdp._checks import check_option, check_real
from sklearn_bdp._typing import FloatOrArray

_NOISES = ("laplace", "gaussian")


def log_noise_tail(
    z: float,
    threshold_scale: float,
    query_scale: float,
    *,
    noise: Literal["laplace", "gaussian"] = "laplace",
) -> float:
    r""":math:`\ln P[N_T + N_q > z]` for independent noises of the given scales (theory N1).

    The convolution of two Laplace distributions, or of two Gaussian ones, whose scales are standard
    deviations; a scale of 0 means none, and without noise the result is ``-inf``. The margin ``z``
    is at least 0.
    """
    check_option("noise", noise, _NOISES)
    z = check_real("z", z, low=0.0)
    big = max(threshold_scale, query_scale)
    small = min(threshold_scale, query_scale)
    if big == 0.0:
        return -math.inf
    if noise == "gaussian":
        return float(log_ndtr(-z / math.hypot(big, small)))
    return _laplace_tail(z, big, small)


def _laplace_tail(z, big, small):
    ratio = small / big
    if ratio < 1e-150:
        return math.log(0.5) - z / big
    if 1.0 - ratio < 1e-6:
        # (2 + z/σ) e^{−z/σ}/4 with the larger scale: an upper bound, tight to 1e-6.
        return math.log((2.0 + z / big) / 4.0) - z / big
    # (σT² e^{−z/σT} − σq² e^{−z/σq}) / (2(σT² − σq²)), divided through by the larger.
    lead = math.log1p(-(ratio**2) * math.exp(-z / small + z / big))
    return lead - z / big - math.log(2.0 * (1.0 - ratio) * (1.0 + ratio))


def noise_margin(
    *,
    failure: float,
    threshold_scale: float,
    query_scale: float,
    noise: Literal["laplace", "gaussian"] = "laplace",
) -> float:
    r"""Smallest ``z`` with :math:`P[N_T + N_q > z] \le` ``failure`` (theory N1, N2).

    Parameters
    ----------
    failure : float
        Probability that may be spent, in (0, 1).
    threshold_scale, query_scale : float
        Laplace scales, or standard deviations for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin of a "below" answer, in score units.

    Examples
    --------
    >>> noise_margin(failure=0.01, threshold_scale=0.0, query_scale=0.0)
    0.0
    >>> round(noise_margin(failure=0.01, threshold_scale=0.01, query_scale=0.01), 4)
    0.0519
    """
    check_option("noise", noise, _NOISES)
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    s_t = check_real("threshold_scale", threshold_scale, low=0.0)
    s_q = check_real("query_scale", query_scale, low=0.0)
    if max(s_t, s_q) == 0.0 or level >= 0.5:
        return 0.0
    if noise == "gaussian":
        return float(math.hypot(s_t, s_q) * norm.isf(level))
    return laplace_margin(math.log(level), max(s_t, s_q), min(s_t, s_q))


def laplace_margin(log_failure, big, small):
    """Return a margin that Laplace noises of these scales exceed with probability e^log_failure.

    Newton on the log tail, which is concave: from the side where it is at most the level no step
    leaves that side. Rounding may, so that a margin is returned only after it was tried.
    """
    if big == 0.0 or log_failure >= math.log(0.5):
        return 0.0
    ratio = small / big
    if ratio < 1e-150:
        return big * (math.log(0.5) - log_failure)
    even = 1.0 - ratio < 1e-6  # as in `_laplace_tail`, whose formulas these are
    level = log_failure if even else log_failure + math.log(2.0 * (1.0 - ratio) * (1.0 + ratio))
    start = u = 2.0 - 2.0 * level if even else -level
    for _ in range(60):
        if even:
            value, slope = math.log((2.0 + u) / 4.0) - u - level, 1.0 / (2.0 + u) - 1.0
        else:
            part = ratio**2 * math.exp(u - u / ratio)
            value = math.log1p(-part) - u - level
            slope = part * (1.0 / ratio - 1.0) / (1.0 - part) - 1.0
        u -= value / slope
        if abs(value) < 1e-12 * u * -slope:
            break
    for guard in (1e-12, 1e-9, 1e-6):
        margin = big * u * (1.0 + guard)
        if _laplace_tail(margin, big, small) <= log_failure:
            return margin
    return big * start


def answer_margin(
    *, failure: float, answer_scale: float, noise: Literal["laplace", "gaussian"] = "laplace"
) -> float:
    r"""Smallest ``z`` with :math:`P[|N_a| > z] \le` ``failure`` (theory N1).

    Parameters
    ----------
    failure : float
        Probability that may be spent, in (0, 1).
    answer_scale : float
        Laplace scale, or standard deviation for Gaussian noise. 0 means none.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    float
        Margin of an "above" answer, rounding not included, in score units.
    """
    check_option("noise", noise, _NOISES)
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    scale = check_real("answer_scale", answer_scale, low=0.0)
    if scale == 0.0:
        return 0.0
    if noise == "gaussian":
        return float(scale * norm.isf(level / 2.0))
    return -scale * math.log(level)


def noise_share(failure: float, n_above: FloatOrArray) -> Any:
    r"""Failure probability of the round after ``n_above`` spent ones (theory N3).

    The shares ``failure / ((b+1)(b+2))`` of all rounds ``b = 0, 1, ...`` sum to ``failure``, so no
    budget has to be declared.

    Parameters
    ----------
    failure : float
        Failure probability of the noise over the whole life of the holdout, in (0, 1).
    n_above : int or array of int
        Rounds spent, 0 for the first.

    Returns
    -------
    float or ndarray
        The share.
    """
    level = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
    spent = np.asarray(n_above, dtype=float)
    if not (np.isfinite(spent).all() and (spent >= 0).all()):
        raise ValueError(f"n_above must be at least 0, got n_above={n_above!r}.")
    share = level / ((spent + 1.0) * (spent + 2.0))
    return float(share) if share.ndim == 0 else share
