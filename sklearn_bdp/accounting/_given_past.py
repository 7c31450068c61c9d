r"""Limits for means of scores that are judged given the past; nothing else is assumed (theory G26).

``m_t``, the expectation of the score of date ``t`` given all that was known before it, is whatever
it is: drift, seasons and any dependence are allowed. What is limited is the mean of the ``m_t``
over the dates of the holdout, at the models as they are. For every fixed stake :math:`a > 0`,
predictable lower ends :math:`l_t \le s_t` and predictable centers :math:`c_t \le l_t + .9/a`,

.. math:: \prod_t \frac{1 + a (s_t - c_t)}{1 + a (m_t - c_t)}

has mean 1, and its denominator is at most :math:`(1 + a(\mu - \bar c))^T` (means of unequal
numbers). Stakes that follow the past, binomial tails and rates chosen after the data are false
here; tests show how.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from sklearn_bdp._checks import check_array, check_integer, check_real
from sklearn_bdp._typing import Array, FloatOrArray

#: Stakes of a mixture, in units of the best one by prediction, and their shares.
STAKES, SHARES = (1.0, 0.25, 0.5, 2.0, 4.0), (0.6, 0.1, 0.1, 0.1, 0.1)
#: Largest part of the stake's inverse by which a center lies above the lower end of a score.
_ROOM = 0.9


def past_lower_limit(
    scores: ArrayLike,
    log_failure: float,
    *,
    stakes: ArrayLike,
    shares: ArrayLike = (1.0,),
    center: FloatOrArray = 0.0,
    least: FloatOrArray = 0.0,
    horizon: int = 1,
) -> float:
    r"""Return a lower limit for the mean expected score, each date given its past (theory G26).

    With one stake this is

    .. math:: \bar c + \frac1a\Bigl(\exp\Bigl\{\frac1T \Bigl[\sum_t \ln(1 + a(s_t - c_t)) - HL
       \Bigr]\Bigr\} - 1\Bigr).

    Parameters
    ----------
    scores : array-like of shape (T,)
        Score of each date, in any units.
    log_failure : float
        Log of the failure probability, :math:`-L`.
    stakes, shares : array-like of shape (K,)
        Positive stakes, fixed in advance, and their shares, which sum to at most 1.
    center : float or array-like of shape (T,), default=0.0
        Predicted score of each date; lowered to ``least + 0.9 / stake`` where it lies above.
    least : float or array-like of shape (T,), default=0.0
        Lower ends of what each score may be, known before it.
    horizon : int, default=1
        Largest number of dates between a forecast and its score. The limit then holds for the mean
        expected score given what was known at forecast time. With 1 it is the day before.

    Returns
    -------
    float
        At least the mean of ``least``. An upper limit is minus the lower limit of ``-scores``.
    """
    scores = check_array("scores", scores, shape=(None,))
    size, level = len(scores), -check_real("log_failure", log_failure, high=0.0)
    stakes = np.atleast_1d(check_array("stakes", stakes, low=0.0))[:, None]
    log_shares = np.log(check_array("shares", shares, low=0.0, high=1.0))
    span = check_integer("horizon", horizon, low=1)
    least = np.broadcast_to(np.asarray(least, float), (size,))
    centers = np.minimum(center, least + _ROOM / stakes)
    middles, part = centers.mean(axis=1), stakes[:, 0]
    logs = np.log1p(stakes * (scores - centers)).sum(axis=1)

    def limits(lengths):  # of every stake by itself
        return middles + np.expm1((logs - span * lengths) / size) / part

    # A mean is rejected by the mixture where one stake rejects it alone, and only if one would
    # reject it with all of the level.
    low, high = float(np.max(limits(level - log_shares))), float(np.max(limits(level)))
    floor = float(least.mean())
    for _ in range(48 if len(stakes) > 1 and high > floor else 0):
        mean = max(0.5 * (low + high), floor)
        with np.errstate(invalid="ignore", divide="ignore"):
            wealth = (logs - size * np.log1p(part * (mean - middles))) / span
        low, high = (
            (mean, high) if np.logaddexp.reduce(wealth + log_shares) >= level else (low, mean)
        )
    return max(low, floor)


def past_limits(
    scores: ArrayLike,
    log_failure: float,
    *,
    expected: float,
    variance: float | None,
    least: FloatOrArray = 0.0,
    most: FloatOrArray = 1.0,
    horizon: int = 1,
) -> tuple[float, float]:
    """Return both limits at stakes that are best where the scores are as expected (theory G26).

    Parameters
    ----------
    scores : array-like of shape (T,)
        Score of each date, in order.
    log_failure : float
        Log of the failure probability of one side.
    expected : float
        Score of a date to be expected, by the training set.
    variance : float or None
        Variance of a date's score, by the training set; None: scores are 0 or 1.
    least, most : float or array-like of shape (T,), default=0.0, 1.0
        Ends of what each date's score may be, known before it (of a pair: minus and plus the
        distance of the forecasts).
    horizon : int, default=1
        Largest number of holdout dates from a forecast to its known score.

    Returns
    -------
    tuple of float
        Lower and upper limit of the mean conditional expectation, in units of the scores.
    """
    scores = check_array("scores", scores, shape=(None,))
    size, ends = len(scores), []
    for sign, low in ((1.0, np.asarray(least, float)), (-1.0, -np.asarray(most, float))):
        asked: Any = {"least": low, "horizon": horizon}
        if variance is None:
            stakes = bit_stake(sign * expected - low.mean(), log_failure, size, horizon)
            end = past_lower_limit(sign * scores, log_failure, stakes=stakes, center=low, **asked)
        else:
            best = math.sqrt(-2.0 * horizon * log_failure / (size * max(variance, 1e-12)))
            end = past_lower_limit(
                sign * scores, log_failure, stakes=best * np.array(STAKES), shares=SHARES,
                center=sign * expected, **asked,
            )  # fmt: skip
        ends.append(sign * end)
    return ends[0], ends[1]


def bit_stake(share: Any, log_failure: Any, n: int, horizon: int = 1) -> Array:
    r"""Return the stake for scores of 0 and 1 whose mean is about ``share`` (theory G26).

    Chernoff at the fixed rate :math:`\ln(1 + a) = \ln\frac{v(1-p)}{p(1-v)}` with
    :math:`\mathrm{kl}(v \,\|\, p) = HL/T`: what is best where the mean is as predicted.
    """
    value = np.clip(share, 0.5 / n, 1.0 - 0.5 / n)
    nats = -horizon * np.asarray(log_failure) / n
    low, high = np.zeros(np.broadcast(value, nats).shape), value * np.ones_like(nats)
    for _ in range(60):
        p = 0.5 * (low + high)
        with np.errstate(divide="ignore"):
            rate = xlogy(value, value / p) + xlogy(1.0 - value, (1.0 - value) / (1.0 - p))
        low, high = np.where(rate > nats, p, low), np.where(rate > nats, high, p)
    p = np.maximum(high, 1e-300)
    return value * (1.0 - p) / (p * (1.0 - value)) - 1.0


def past_mean_limit(
    values: ArrayLike, log_failure: ArrayLike, n: int, *, expected: ArrayLike
) -> Array:
    """Return lower limits from means alone of ``n`` dates with scores in [0, 1] (theory G26).

    Chernoff with the rate of :func:`bit_stake` at what was ``expected`` before; by concavity it
    holds for all scores in [0, 1]. ``values`` are lower ends of what the means may be.
    """
    values, level = check_array("values", values), check_array("log_failure", log_failure, high=0.0)
    stake = bit_stake(np.asarray(expected, float), level, n)
    return np.maximum(0.0, np.expm1(values * np.log1p(stake) + level / n) / stake)
