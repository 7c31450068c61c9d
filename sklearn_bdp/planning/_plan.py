"""Planning an error promised in advance: the records for it (theory C2)."""

from __future__ import annotations

from sklearn_bdp._checks import check_option, check_real
from sklearn_bdp._typing import Correlation
from sklearn_bdp.planning._designs import Task
from sklearn_bdp.planning._models import continued
from sklearn_bdp.planning._routes import ROUTES, smallest_n


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
    check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    check_option("route", route, ROUTES)
    model = continued(correlation)
    task = Task.checked(1, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    return smallest_n(task, tau, route)
