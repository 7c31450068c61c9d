"""Planning an error promised in advance: records for it, budget for it (theory C2)."""

from __future__ import annotations

from dataclasses import replace

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_option, check_real
from sklearn_bdp._typing import Correlation
from sklearn_bdp.planning._designs import Task
from sklearn_bdp.planning._models import continued, plain_model
from sklearn_bdp.planning._routes import ROUTES, smallest_n, solve


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

    def enough(count):
        of_count = replace(task, budget=count)
        return solve(of_count, route=route, epsilon=epsilon).tau <= tau

    if not enough(1):
        return 0
    over, within = doubled(lambda count: count > n_queries or not enough(count), 2)
    return last_whole(enough, within, min(over, n_queries + 1))


def _checked(tau, n, model, n_queries, budget, beta, c, route):
    check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    check_option("route", route, ROUTES)
    return Task.checked(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
