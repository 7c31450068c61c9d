"""From an answer to an interval for its expectation: concentration, inverted on the safe side."""

import math

import numpy as np

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_array, check_integer, check_probability

__all__ = ["answer_intervals", "cell_intervals", "half_width", "mean_lower_limit"]


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
    Theory H1-H5.
    """
    level = np.atleast_1d(np.asarray(log_failure, dtype=float))
    most = np.ones_like(level)
    alpha = last_accepted(
        lambda half: model.log_tail(half, n, sensitivity=sensitivity) <= level, most, 0.0
    )
    reached = model.log_tail(most, n, sensitivity=sensitivity) <= level
    return np.where(reached, alpha, np.inf)


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
    # 0 is always safe; a mean below a rejected one is rejected with it (theory G5).
    return last_accepted(
        lambda mean: model.log_tail_above(mean, value, n) <= level, np.zeros_like(value), value
    )


def answer_intervals(values, reach, *, code_length, failure, model, n, sensitivity=None):
    r"""Intervals for the expectations of answered queries, all of which hold at once.

    An answer vouches for the value on the holdout up to its *pre-sampling half-width*,
    :math:`|q(X) - a| \le` ``reach``; each end is then widened by the sampling error at failure
    probability ``failure * exp(-code_length)``.

    Parameters
    ----------
    values : array of shape (m,)
        Released answers, in [0, 1]; NaN where a query was not answered.
    reach : float or array of shape (m,)
        Pre-sampling half-widths: threshold or half a cell, plus the noise margin.
    code_length : float or array of shape (m,)
        Code lengths of the queries, in nats.
    failure : float
        Failure probability of sampling, over everything ever asked, in (0, 1).
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
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
    wide = check_array("reach", reach, low=0.0)
    lower, upper = cell_intervals(
        np.clip(answers - wide, 0.0, 1.0),
        np.clip(answers + wide, 0.0, 1.0),
        code_length=code_length,
        failure=failure,
        model=model,
        n=n,
        sensitivity=sensitivity,
    )
    return np.where(missing, np.nan, lower), np.where(missing, np.nan, upper)


def cell_intervals(least, most, *, code_length, failure, model, n, sensitivity=None):
    """Intervals for expectations of queries whose values on the holdout lie in known cells.

    Parameters
    ----------
    least, most : array of shape (m,)
        Ends of the cells, in [0, 1].
    code_length, failure, model, n, sensitivity : object
        As for :func:`answer_intervals`.

    Returns
    -------
    lower, upper : ndarray of shape (m,)
        Ends in [0, 1].

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Theory G5 and G7: the limits are monotone in the ends of the cell, so they hold for whatever
    value in it the query has.
    """
    n = check_integer("n", n, low=1)
    spent = check_array("code_length", code_length, low=0.0)
    low = check_array("least", least, low=0.0, high=1.0)
    high = check_array("most", most, low=0.0, high=1.0)
    level = np.broadcast_to(math.log(check_probability("failure", failure)) - spent, low.shape)
    if sensitivity is None:
        side = level - math.log(2.0)
        lower = mean_lower_limit(low, side, model, n)
        return lower, 1.0 - mean_lower_limit(1.0 - high, side, model, n)
    alpha = half_width(level, model, n, sensitivity=sensitivity)
    return np.clip(low - alpha, 0.0, 1.0), np.clip(high + alpha, 0.0, 1.0)
