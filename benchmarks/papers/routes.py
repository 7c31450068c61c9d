"""Certificates and plans by arguments of the papers, beside those of the package (theory G3, G6).

``"zhao2017"`` and ``"dwork2017"`` are the theorems as printed. If leakage (G1) does not confirm the
printed error for the same mechanism, the larger, confirmed one is certified. ``"posterior"`` uses
posterior means (G6), ``"splitting"`` new records for each query. ``"floor"`` is the number that
queries fixed in advance need: a yardstick, not a guarantee for adaptive queries.
"""

import math
from dataclasses import replace

from benchmarks.papers.dwork import dwork_required_n
from benchmarks.papers.posterior import posterior_design
from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.noise_calibration import (
    sampling_half_width,
    smallest_accuracy,
    zhao_required_n,
)
from sklearn_bdp.correlation.components import largest_component
from sklearn_bdp.correlation.cutting import required_gap
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning import certify, plan_holdout
from sklearn_bdp.planning.design import ROUTES as PACKAGE_ROUTES
from sklearn_bdp.planning.design import Design, Task, search_n
from sklearn_bdp.planning.models import continued, model_of_plan

PRINTED_ROUTES = ("zhao2017", "dwork2017")
COMPARISON_ROUTES = (*PRINTED_ROUTES, "posterior", "splitting", "floor")

#: Theorem 2 of Zhao 2017 holds for any c in (0, 1). Without budget honesty the smallest c gives the
#: smallest error. This one is within two parts in a million of the limit.
_SMALLEST_C = 1e-6


def certify_by_route(
    n, *, n_queries, budget, route, correlation=None, beta=0.05, c=0.5
) -> Certificate:
    """Return the certificate of a holdout of ``n`` records by a route of package or papers.

    Parameters
    ----------
    n, n_queries, budget : int
        As for :func:`sklearn_bdp.certify`.
    route : str
        One of ``"best"``, ``"transcript"``, ``"bdp"``, ``"zhao2017"``, ``"dwork2017"``,
        ``"posterior"``, ``"splitting"`` and ``"floor"``.
    correlation, beta, c : object
        As for :func:`sklearn_bdp.certify`.

    Returns
    -------
    Certificate
        The guarantee.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or the theorem does not apply to the dependence.

    Examples
    --------
    >>> from benchmarks.papers.routes import certify_by_route
    >>> certificate = certify_by_route(10_000, n_queries=100, budget=1, route="floor")
    >>> round(certificate.tau, 4)
    0.0204
    """
    _check_route(route)
    if route in PACKAGE_ROUTES:
        return certify(
            n,
            n_queries=n_queries,
            budget=budget,
            route=route,
            correlation=correlation,
            beta=beta,
            c=c,
        )
    model = model_of_plan(correlation)
    task = Task.checked(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    if route in PRINTED_ROUTES:
        return _printed_certificate(task, route, correlation)
    return _certificate(task, _design(task, route))


def plan_by_route(*, tau, n_queries, budget, route, correlation=None, beta=0.05, c=0.5) -> int:
    """Return the smallest number of holdout records that certifies an error by a route.

    Parameters
    ----------
    tau : float
        Wanted error of every answer, in (0, 1/2).
    n_queries, budget : int
        As for :func:`sklearn_bdp.plan_holdout`.
    route : str
        As for :func:`certify_by_route`. ``"zhao2017"`` and ``"dwork2017"`` return the numbers that
        their theorems print.
    correlation, beta, c : object
        As for :func:`sklearn_bdp.plan_holdout`.

    Returns
    -------
    int
        Number of records.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, the theorem does not apply to the dependence, or no
        number of records suffices.

    Examples
    --------
    >>> from benchmarks.papers.routes import plan_by_route
    >>> plan_by_route(tau=0.1, n_queries=100, budget=1, route="zhao2017")
    1164741
    """
    _check_route(route)
    if route in PACKAGE_ROUTES:
        return plan_holdout(
            tau=tau,
            n_queries=n_queries,
            budget=budget,
            route=route,
            correlation=correlation,
            beta=beta,
            c=c,
        )
    model = continued(correlation)
    task = Task.checked(1, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    if route in PRINTED_ROUTES:
        required_n = _printed_required_n(task, tau, route)
        if not math.isfinite(required_n):
            raise ValueError(f"no number of records suffices for tau={tau!r} by route={route!r}.")
        return math.ceil(required_n - 1e-9)
    return search_n(
        lambda n: _design(replace(task, n=n), route).tau,
        task,
        tau,
        rtol=3e-5 if route == "posterior" else 0.0,
    )


def floor_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Return the effective records that queries fixed in advance need by Hoeffding, not rounded."""
    return math.log(2.0 * n_queries / beta) / (2.0 * tau**2)


def _check_route(route):
    routes = (*PACKAGE_ROUTES, *COMPARISON_ROUTES)
    if route not in routes:
        raise ValueError(f"route must be one of {routes}, got route={route!r}.")


def _printed_required_n(task, tau, route):
    """Return the number of records that a theorem asks for, not rounded."""
    if route == "zhao2017":
        return zhao_required_n(
            tau=tau,
            n_queries=task.n_queries,
            budget=task.budget,
            beta=task.beta,
            c=task.c or _SMALLEST_C,
            model=task.model,
            n=task.model.n_records,
        )
    if not task.model.sampling_scheme(task.n).has_independent_records:
        raise ValueError(
            f"route='dwork2017' holds for independent records only, got {task.model.describe()}."
        )
    # The side of the minimum of Theorem 9 with B. That with √B is for thousands of answers.
    return dwork_required_n(
        tau=tau, n_queries=task.n_queries, budget=task.budget, beta=task.beta, branch="pure"
    )


def _printed_certificate(task, route, correlation):
    """Return the printed error if G1 confirms it for the same mechanism, else the confirmed one."""
    promised = replace(task, budget=min(task.budget, task.n_queries))
    printed_tau = smallest_accuracy(lambda tau: _printed_required_n(promised, tau, route), task.n)
    if not printed_tau < 1.0:
        note = "The theorem needs more records than there are for every tau."
        return _certificate(task, Design(tau=1.0, sampling=1.0, route=route, notes=(note,)))
    if route == "zhao2017":
        mechanism = Thresholdout.zhao2017(
            printed_tau, task.beta, task.n_queries, promised.budget, task.c or _SMALLEST_C
        )
    else:
        mechanism = Thresholdout.dwork2017(printed_tau, task.beta, task.n_queries, promised.budget)
    confirmed = certify(
        task.n,
        correlation=correlation,
        n_queries=task.n_queries,
        budget=task.budget,
        beta=task.beta,
        c=task.c,
        mechanism=mechanism,
        route="bdp",
    )
    if confirmed.tau <= printed_tau:
        conclusion = "it for the same mechanism."
    else:
        conclusion = f"{confirmed.tau:.4g} only, which is certified."
    note = f"The theorem prints tau = {printed_tau:.4g}; G1 confirms {conclusion}"
    return replace(
        confirmed, tau=max(confirmed.tau, printed_tau), c=None, route=route, notes=(note,)
    )


def _design(task, route):
    """Return the design of a route that is not a printed theorem."""
    if route == "posterior":
        task = replace(task, budget=min(task.budget, task.n_queries))
        design = posterior_design(task)
        if not design.tau < 1.0:
            return replace(design, route=route)
        threshold_scale, query_scale, answer_scale = design.scales
        mechanism = Thresholdout(
            design.threshold,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            answer_scale=answer_scale,
            budget=task.budget,
            refresh=False,
        )
        return replace(design, route=route, mechanism=mechanism)
    if route == "splitting":
        half_width = splitting_half_width(task)
    elif route == "floor":
        half_width = sampling_half_width(
            task.n_effective, log_failure=math.log(task.beta), n_queries=task.n_queries
        )
    else:
        raise ValueError(f"route must be one of {COMPARISON_ROUTES}, got route={route!r}.")
    return Design(tau=half_width, sampling=half_width, route=route)


def splitting_half_width(task):
    """Return the half-width if each query gets its own part of the records (theory G3).

    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``
    (theory H6). Parts of grouped records consist of whole components. The half-width is infinite
    if no independent part is left.
    """
    model = task.model
    beta = task.beta
    if task.n_queries == 1:
        return sampling_half_width(task.n_effective, log_failure=math.log(beta), n_queries=1)
    n_part = task.n // task.n_queries
    gap = int(required_gap(model, 0.1 * beta / (task.n_queries - 1)))
    if gap > 0:
        n_part -= gap
        beta *= 0.9
    if model.sampling_scheme(task.n).has_independent_units:
        # A part of whole components may miss its size by one component, and its components are at
        # most the largest: Σ k_c² ≤ k_max · size.
        max_component = largest_component(model, task.n)
        n_effective = (n_part - (max_component - 1)) / max_component
    elif n_part < 1 or model.n_records is not None:
        return math.inf  # connected records: no part is independent of the others
    else:
        n_effective = model.effective_n(n_part)
    if not n_effective > 0:
        return math.inf
    return sampling_half_width(n_effective, log_failure=math.log(beta), n_queries=task.n_queries)


def _certificate(task, design):
    """Return the certificate of a design without the package's text and advice."""
    model = task.model
    has_mechanism = design.route not in ("splitting", "floor")
    dp_epsilon = float(design.dp_epsilon)
    bdp_epsilon = math.inf
    if math.isfinite(dp_epsilon):
        bdp_epsilon = float(model.bdp_epsilon(dp_epsilon, task.n))
    scopes = {
        "splitting": f"Each of {task.n_queries:,} queries gets its own part of the holdout.",
        "floor": "All queries were fixed before any answer: a yardstick, not for adaptive ones.",
    }
    return Certificate(
        tau=min(float(design.tau), 1.0),
        beta=task.beta,
        route=design.route,
        dp_epsilon=dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        n=task.n,
        n_effective=task.n_effective,
        sampling=min(float(design.sampling), 1.0),
        noise=float(design.noise),
        threshold=float(design.threshold) if math.isfinite(design.threshold) else None,
        mechanism=design.mechanism,
        assumptions=(
            f"The holdout's records follow the declared correlation: {model.describe()}.",
            "Every query is a mean over the holdout of per-record scores in [0, 1].",
            scopes.get(design.route, f"At most {task.n_queries:,} queries."),
        ),
        n_queries=task.n_queries,
        budget=task.budget if has_mechanism else None,
        c=design.c,
        correlation=model.describe(),
        notes=design.notes,
    )
