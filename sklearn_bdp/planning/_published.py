"""What others would certify, as printed (theory G3), confirmed by G1 for the same mechanism.

None of these is used by ``route="best"``.
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_beta, check_integer, check_option, check_real
from sklearn_bdp.accounting import least_accuracy, zhao_required_n
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._configured import configured_design
from sklearn_bdp.planning._task import Design


def _check_promise(tau, n_queries, budget, beta):
    return (
        check_real("tau", tau, low=0.0, high=1.0, closed="right"),
        check_integer("n_queries", n_queries, low=1),
        check_integer("budget", budget, low=1),
        check_beta(beta),
    )


def dwork_required_n(
    *, tau: float, n_queries: int, budget: int, beta: float = 0.05, branch: str = "best"
) -> float:
    r"""Records that Dwork et al. ask for: Theorem 9 (2017), Theorem 25 (2015), i.i.d. only.

    The theorem prints :math:`O(\ln(m/\beta)/\tau^2) \cdot
    \min\{B, \sqrt{B\ln(\ln(m/\beta)/\tau)}\}`. Its constants are rebuilt from its argument:
    Thresholdout with :math:`\sigma = \tau/(96\ln(4m/\beta))` (noises 2σ, 4σ, σ) is
    :math:`B\varepsilon_0`-DP with :math:`\varepsilon_0 = 2/(\sigma n)`, and each query may be off
    by :math:`\tau/8` with probability :math:`\beta/(2m)`.

    - ``"pure"``: Theorem 4 at level :math:`\tau/8`, :math:`6e^{-\tau^2 n/64} \le \beta/(2m)`:
      :math:`\max\{16B/(\sigma\tau),\; 64\ln(12m/\beta)/\tau^2\}`.
    - ``"approximate"``: the smallest n for which strong composition,
      :math:`\varepsilon = \varepsilon_0\sqrt{2B\ln(1/\delta)} +
      B\varepsilon_0(e^{\varepsilon_0}-1)`, meets the bound for
      :math:`(\varepsilon, \delta)`-DP that the paper relies on: off by :math:`13\varepsilon` with
      probability :math:`(2\delta/\varepsilon)\ln(2/\varepsilon)` once
      :math:`n \ge 2\ln(8/\delta)/\varepsilon^2`, with :math:`\varepsilon = \tau/104`.

    Parameters
    ----------
    tau : float
        Wanted error, in (0, 1).
    n_queries : int
        Queries m.
    budget : int
        Answers from the holdout, B.
    beta : float
        Failure probability.
    branch : {"best", "pure", "approximate"}, default="best"
        The two sides of the theorem's minimum, B and √B; ``"best"``: the smaller.

    Returns
    -------
    float
        Records, not rounded.

    References
    ----------
    Dwork et al. 2017, Theorems 4 and 9; Dwork et al. 2015, Theorems 9 and 25 (the former after
    Nissim and Stemmer, arXiv:1504.05800).

    Examples
    --------
    >>> round(dwork_required_n(tau=0.1, n_queries=100, budget=1))
    1380433
    """
    tau, m, rounds, beta = _check_promise(tau, n_queries, budget, beta)
    check_option("branch", branch, ("best", "pure", "approximate"))
    sigma = tau / (96.0 * math.log(4.0 * m / beta))
    found = []
    if branch != "approximate":
        found.append(max(16.0 * rounds / (sigma * tau), 64.0 * math.log(12.0 * m / beta) / tau**2))
    if branch != "pure":
        found.append(_dwork_approximate(tau, m, rounds, beta, sigma))
    return min(found)


def _dwork_approximate(tau, m, rounds, beta, sigma):
    """Return the √B side of Theorem 9, with constants rebuilt (see `dwork_required_n`)."""
    epsilon = tau / (8.0 * 13.0)
    delta = beta / (2.0 * m) * epsilon / (2.0 * math.log(2.0 / epsilon))
    slope = math.sqrt(-2.0 * rounds * math.log(delta))
    level = last_accepted(
        lambda each: each * slope + rounds * each * np.expm1(each) <= epsilon,
        0.0,
        epsilon / slope,
        steps=60,
    )
    return max(2.0 / (sigma * level), 2.0 * math.log(8.0 / delta) / epsilon**2)


def floor_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Effective records that queries fixed in advance need by Hoeffding, no mechanism (theory G3).

    The effective number, not rounded.
    """
    tau, m, _, beta = _check_promise(tau, n_queries, 1, beta)
    return math.log(2.0 * m / beta) / (2.0 * tau**2)


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
