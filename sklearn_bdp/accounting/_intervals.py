"""From an answer to an interval for its expectation: concentration, inverted on the safe side."""

import math

import numpy as np

from sklearn_bdp._checks import check_array, check_integer, check_probability, check_real

__all__ = ["answer_intervals", "half_width", "mean_lower_limit"]

_STEPS = 48  # bisections: 2⁻⁴⁸ is far below any grid


def half_width(log_failure, model, n, *, sensitivity=None):
    r"""Smallest ``alpha`` with ``model.log_tail(alpha, n) <= log_failure``.

    Parameters
    ----------
    log_failure : float or array
        Log of the failure probability, at most 0.
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    sensitivity : float or None
        Sensitivity of the query; ``None``: a mean of scores in [0, 1].

    Returns
    -------
    ndarray
        Half-widths, ``inf`` where even 1 is not enough.

    References
    ----------
    Theory, section 5.
    """
    level = np.atleast_1d(np.asarray(log_failure, dtype=float))
    low, high = np.zeros_like(level), np.ones_like(level)
    reached = model.log_tail(high, n, sensitivity=sensitivity) <= level
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        enough = model.log_tail(middle, n, sensitivity=sensitivity) <= level
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return np.where(reached, high, np.inf)  # ``high`` always satisfies the inequality


def mean_lower_limit(values, log_failure, model, n):
    r"""Lower confidence limits for the expectation of fixed queries.

    Parameters
    ----------
    values : array of shape (m,)
        Values the queries may have taken on the holdout, in [0, 1] (the lower ends).
    log_failure : float or array of shape (m,)
        Log of the one-sided failure probability.
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.

    Returns
    -------
    ndarray of shape (m,)
        Largest safe ``mu`` such that means below ``mu`` are rejected.

    References
    ----------
    Theory G5: inversion of the tail ``P[q(X) >= value]`` in the mean.
    """
    value = np.atleast_1d(np.asarray(values, dtype=float))
    level = np.broadcast_to(np.asarray(log_failure, dtype=float), value.shape)
    low, high = np.zeros_like(value), value.copy()
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        rejected = model.log_tail_above(middle, value, n) <= level
        low = np.where(rejected, middle, low)
        high = np.where(rejected, high, middle)
    # ``low`` was rejected itself (or is 0); smaller means are rejected with it (theory G5).
    return low


def answer_intervals(
    values,
    above,
    *,
    thresholds,
    nats,
    failure,
    model,
    n,
    threshold_margin,
    answer_margin,
    resolution,
    sensitivity=None,
):
    r"""Intervals for the expectations of answered queries, all of which hold at once.

    A "below" answer says :math:`|q(X) - v'| \le T + z`, an "above" answer
    :math:`|q(X) - a| \le z_a + \eta/2`; each end is then widened by the sampling error at failure
    probability ``failure * exp(-nats)``.

    Parameters
    ----------
    values : array of shape (m,)
        Released answers, in [0, 1]; NaN where a query was not answered.
    above : array of bool, shape (m,)
        Whether the answer came from the holdout.
    thresholds : float or array of shape (m,)
        Thresholds T.
    nats : float or array of shape (m,)
        Code lengths from :func:`code_length`.
    failure : float
        Failure probability of sampling, over everything ever asked, in (0, 1).
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    threshold_margin : float or array of shape (m,)
        Noise margin z of "below" answers.
    answer_margin : float or array of shape (m,)
        Noise margin z_a of "above" answers.
    resolution : float
        Grid step η of released answers; 0: not rounded.
    sensitivity : float or None
        Sensitivity of the queries; ``None``: means of per-record scores in [0, 1].

    Returns
    -------
    lower, upper : ndarray of shape (m,)
        Ends in [0, 1]; NaN where ``values`` is NaN.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Theory G2′, G5 and section 6.
    """
    answers = np.atleast_1d(np.asarray(values, dtype=float))
    missing = np.isnan(answers)
    answers = check_array("values", np.where(missing, 0.5, answers), ndim=1, low=0.0, high=1.0)
    is_above = np.broadcast_to(np.asarray(above, dtype=bool), answers.shape)
    n = check_integer("n", n, low=1)
    eta = check_real("resolution", resolution, low=0.0, high=1.0)
    beta = check_probability("failure", failure)
    spent = check_array("nats", nats, low=0.0)
    below_reach = check_array("thresholds", thresholds, low=0.0) + check_array(
        "threshold_margin", threshold_margin, low=0.0
    )
    above_reach = check_array("answer_margin", answer_margin, low=0.0) + eta / 2.0
    reach = np.where(is_above, above_reach, below_reach)
    least, most = np.clip(answers - reach, 0.0, 1.0), np.clip(answers + reach, 0.0, 1.0)
    level = np.broadcast_to(math.log(beta) - spent, answers.shape)
    if sensitivity is None or sensitivity * n == 1.0:
        side = level - math.log(2.0)
        lower = mean_lower_limit(least, side, model, n)
        upper = 1.0 - mean_lower_limit(1.0 - most, side, model, n)
    else:
        alpha = half_width(level, model, n, sensitivity=sensitivity)
        lower, upper = np.clip(least - alpha, 0.0, 1.0), np.clip(most + alpha, 0.0, 1.0)
    return np.where(missing, np.nan, lower), np.where(missing, np.nan, upper)
