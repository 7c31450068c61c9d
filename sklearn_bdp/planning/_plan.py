"""Planning: records for an error, budget for an error, queries for an error (theory C2)."""

from __future__ import annotations

import math
from dataclasses import replace

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_integer, check_option, check_real
from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting import log_transcripts_batched
from sklearn_bdp.planning._replicated import continued
from sklearn_bdp.planning._solve import ROUTES, smallest_n, solve
from sklearn_bdp.planning._task import checked_task, plain_model


def plan_holdout(
    *,
    tau: float,
    n_queries: int,
    budget: int,
    beta: float = 0.05,
    c: float | None = 0.5,
    correlation: Correlation = None,
    route: str = "best",
) -> int:
    r"""Smallest number of holdout records that certifies an error promised in advance (theory C2).

    The default, ``route="best"``, is nearly always carried by the counting of transcripts (G2): no
    noise is calibrated, and ``correlation`` enters through the effective number of records. It is
    ``"bdp"`` (G1) that is calibrated by Bayesian differential privacy, and ``"zhao2017"`` by the
    published theorem. :class:`~sklearn_bdp.ReusableHoldout` promises nothing in advance and
    charges answers as used, which needs far fewer records: see :func:`plan_search`.

    Parameters
    ----------
    tau : float
        Wanted error of every answer, in (0, 1/2).
    n_queries, budget : int
        Queries, and how many of them may be answered from the holdout.
    beta, c : object
        As in :func:`certify`.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        How the records are correlated. A model tied to its records (groups, a graph) is continued
        with more records of the same structure; one that is a single component of unlimited
        dependence is refused.
    route : str, default="best"
        As in :func:`certify`, with the numbers that the theorems of ``"zhao2017"`` and
        ``"dwork2017"`` print.

    Returns
    -------
    int
        Records; ``certify`` with that many certifies ``tau``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, a route does not apply, or no number suffices.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_holdout
    >>> plan_holdout(tau=0.1, n_queries=100, budget=1)
    6636
    """
    task = _checked(tau, 1, continued(correlation), n_queries, budget, beta, c, route)
    return smallest_n(task, tau, route)


def plan_budget(
    *,
    tau: float,
    n: int,
    n_queries: int,
    beta: float = 0.05,
    c: float | None = 0.5,
    correlation: Correlation = None,
    epsilon: float | None = None,
    route: str = "best",
) -> int:
    r"""Largest budget that still certifies an error promised in advance (theory C2).

    As in :func:`plan_holdout` the default counts transcripts (G2), unless ``epsilon`` asks for
    noise of a Bayesian DP level or ``route`` for another argument.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1/2).
    n : int
        Holdout records.
    n_queries : int
        Queries.
    beta, c, correlation, epsilon, route : object
        As in :func:`certify`.

    Returns
    -------
    int
        Answers from the holdout; 0 when not even one is possible.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_budget
    >>> plan_budget(tau=0.1, n=100_000, n_queries=1000)
    18
    """
    task = _checked(tau, n, plain_model(correlation), n_queries, 1, beta, c, route)
    return _most(task, tau, "budget", task.n_queries, route=route, epsilon=epsilon)


def plan_queries(
    *,
    tau: float,
    n: int,
    budget: int,
    beta: float = 0.05,
    c: float | None = 0.5,
    correlation: Correlation = None,
    epsilon: float | None = None,
    route: str = "best",
) -> int:
    r"""Largest number of queries that still certifies an error promised in advance (theory C2).

    As in :func:`plan_holdout` the default counts transcripts (G2), unless ``epsilon`` asks for
    noise of a Bayesian DP level or ``route`` for another argument.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1/2).
    n : int
        Holdout records.
    budget : int
        Answers from the holdout.
    beta, c, correlation, epsilon, route : object
        As in :func:`certify`.

    Returns
    -------
    int
        Queries, at most 1e12; 0 when not even one is possible.
    """
    task = _checked(tau, n, plain_model(correlation), 1, budget, beta, c, route)
    return _most(task, tau, "n_queries", 10**12, route=route, epsilon=epsilon)


def plan_batches(
    *,
    tau: float,
    n: int,
    batch_size: int,
    budget: int,
    beta: float = 0.05,
    c: float | None = 0.5,
    correlation: Correlation = None,
    n_values: int = 100,
) -> int:
    r"""Number of adaptive batches of one size that a holdout supports.

    By counting transcripts of batches fixed in advance (theory G2) on a fixed grid, without noise:
    Bayesian differential privacy plays no part.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1/2).
    n : int
        Holdout records.
    batch_size : int
        Queries in each batch, fixed before any of its answers is seen.
    budget : int
        Answers from the holdout over all batches.
    beta, c, correlation : object
        As in :func:`certify`.
    n_values : int, default=100
        Cells of the grid of released answers.

    Returns
    -------
    int
        Batches, at most 100,000; 0 when not even one is possible.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_batches
    >>> plan_batches(tau=0.1, n=10_000, batch_size=100, budget=1)
    67
    """
    task = _checked(tau, n, plain_model(correlation), 1, budget, beta, c, "transcript")
    size = check_integer("batch_size", batch_size, low=1)
    cells = check_integer("n_values", n_values, low=1)
    n_effective = task.n_effective
    spread = 1.0 if task.c is None else 2.0 / (1.0 - task.c)

    def enough(batches):
        union = log_transcripts_batched([size] * batches, task.budget, cells)
        alpha = math.sqrt((union + math.log(2.0 / task.beta)) / (2.0 * n_effective))
        return max(spread * alpha, alpha + 0.5 / cells) <= tau

    return _largest(enough, 100_000)


def _checked(tau, n, model, n_queries, budget, beta, c, route):
    check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    check_option("route", route, ROUTES)
    return checked_task(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)


def _most(task, tau, field, cap, **how):
    """Largest value of one field of a task that still certifies ``tau``."""
    return _largest(
        lambda count: solve(replace(task, **{field: count}), **how).design.tau <= tau, cap
    )


def _largest(enough, cap):
    """Largest integer up to ``cap`` for which a decreasing property holds; 0 if none."""
    if not enough(1):
        return 0
    over, within = doubled(lambda count: count > cap or not enough(count), 2)
    return last_whole(enough, within, min(over, cap + 1))
