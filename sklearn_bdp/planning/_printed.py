"""Published theorems as printed (theory G3), confirmed by G1 for the same mechanism."""

import math

from sklearn_bdp.accounting import zhao_required_n
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._configured import configured_design
from sklearn_bdp.planning._published import dwork_required_n
from sklearn_bdp.planning._task import Design

__all__ = ["printed_design"]


def printed_design(task, route):
    """τ of a published theorem, raised where G1 cannot confirm it for the same mechanism."""
    printed = _printed_tau(task, route)
    if not printed < 1.0:
        return Design(tau=1.0, sampling=1.0, threshold=math.nan), None, printed
    if route == "zhao2017":
        mechanism = Thresholdout.zhao2017(
            printed, task.beta, task.n_queries, task.budget, c=task.c or 0.0
        )
    else:
        mechanism = Thresholdout.dwork2017(printed, task.beta, task.n_queries, task.budget)
    design, _ = configured_design(task, mechanism, "bdp")
    return design, mechanism, printed


def _printed_tau(task, route):
    def required(tau):
        if route == "dwork2017":
            return dwork_required_n(
                tau=tau, n_queries=task.n_queries, budget=task.budget, beta=task.beta
            )
        return zhao_required_n(
            tau=tau, n_queries=task.n_queries, budget=task.budget, beta=task.beta,
            c=task.c or 0.0, model=task.model, n=task.n,
        )  # fmt: skip

    if not required(1.0) <= task.n:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle > 0 and required(middle) <= task.n:
            high = middle
        else:
            low = middle
    return high  # the premise holds at this end
