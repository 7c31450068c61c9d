"""Published theorems as printed (theory G3), confirmed by G1 for the same mechanism."""

import math

from sklearn_bdp.accounting import least_accuracy, zhao_required_n
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._configured import configured_design
from sklearn_bdp.planning._published import dwork_required_n
from sklearn_bdp.planning._task import Design

__all__ = ["printed_design", "printed_required_n"]

#: Theorem 2 of Zhao 2017 holds for any c in (0, 1). Where honesty is not asked for, the smallest c
#: gives the smallest error; this one is within two parts in a million of the limit.
_LEAST_C = 1e-6


def printed_required_n(task, tau, route):
    """Return the records that a theorem asks for, not rounded."""
    promise = {"tau": tau, "n_queries": task.n_queries, "budget": task.budget, "beta": task.beta}
    if route == "dwork2017":
        task.check_independent("route='dwork2017' holds for")
        return dwork_required_n(**promise)
    return zhao_required_n(**promise, c=_theorem_c(task), model=task.model, n=task.model.n_records)


def printed_design(task, route):
    """Return what G1 confirms, the theorem's mechanism (or None) and the printed τ."""
    printed = least_accuracy(lambda tau: printed_required_n(task, tau, route), task.n)
    if not printed < 1.0:
        return Design(tau=1.0, sampling=1.0, threshold=math.nan), None, printed
    arguments = (printed, task.beta, task.n_queries, task.budget)
    if route == "zhao2017":
        mechanism = Thresholdout.zhao2017(*arguments, c=_theorem_c(task))
    else:
        mechanism = Thresholdout.dwork2017(*arguments)
    design, _ = configured_design(task, mechanism, "bdp")
    return design, mechanism, printed


def _theorem_c(task):
    return task.c or _LEAST_C  # neither None nor 0 promises anything
