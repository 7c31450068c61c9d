"""`certify`: the sharpest honest guarantee for a holdout, by every route (theory section 6)."""

import math
import warnings
from dataclasses import dataclass, replace

from sklearn_bdp._checks import (
    caller_level,
    check_integer,
    check_option,
    check_probability,
    check_real,
)
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from sklearn_bdp.mechanisms import MultiplicativeWeights, Thresholdout
from sklearn_bdp.planning._designs import Task
from sklearn_bdp.planning._other_mechanisms import certify_other, is_other_mechanism
from sklearn_bdp.planning._routes import (
    as_mechanism,
    mechanism_design,
    printed_design,
    route_design,
)

__all__ = ["ROUTES", "certify"]

ROUTES = (
    "best",
    "bdp",
    "transcript",
    "posterior",
    "zhao2017",
    "dwork2017",
    "splitting",
    "floor",
)
OURS = ("transcript", "bdp", "posterior")


@dataclass(frozen=True)
class Solution:
    """A design together with the route that proves it and what is worth saying about it."""

    design: object
    route: str
    mechanism: object = None
    c: float | None = None
    notes: tuple = ()


def certify(
    n,
    *,
    correlation=None,
    n_queries,
    budget,
    beta=0.05,
    c=0.5,
    mechanism=None,
    epsilon=None,
    route="best",
):
    r"""Certify the answers of a reusable holdout of ``n`` records.

    Parameters
    ----------
    n : int
        Number of holdout records.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        How the records are correlated; ``None``: independent. A list means the worst of its
        models.
    n_queries : int
        Queries that will be asked, m.
    budget : int
        Answers from the holdout ("above" answers), B. The promise covers the queries up to and
        including the one that spends the last of it.
    beta : float, default=0.05
        Failure probability over all answers together, in (0, 1).
    c : float or None, default=0.5
        Budget honesty, in [0, 1): a training-side value off by less than ``c * tau`` spends no
        budget. ``None``: not promised.
    mechanism : object or None
        A configured mechanism (``Thresholdout`` or another of
        :mod:`sklearn_bdp.mechanisms`): certify it as it is. ``None``: the best scales.
    epsilon : float or None
        Bayesian DP level that the whole interaction must meet. ``None``: none asked.
    route : str, default="best"
        The argument: one of ``"best"``, ``"bdp"``, ``"transcript"``, ``"posterior"``,
        ``"zhao2017"``, ``"dwork2017"``, ``"splitting"``, ``"floor"``. ``"best"`` takes the best
        of ``"transcript"``, ``"bdp"`` and ``"posterior"``, before any answer is seen.
        ``"zhao2017"`` and ``"dwork2017"`` are the theorems as printed; where leakage (G1) cannot
        confirm the printed error for the same mechanism, the larger, confirmed one is returned.
        ``"splitting"`` uses fresh records for every query; ``"floor"`` is what queries fixed in
        advance would need, a yardstick.

    Returns
    -------
    Certificate
        The guarantee. An error of 1/2 or more is vacuous and is reported with a warning.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range or a route does not apply.

    Warns
    -----
    VacuousGuaranteeWarning
        If the holdout is too small for any statement.

    References
    ----------
    Theory, section 6: C1 (neither ``mechanism`` nor ``epsilon``), C3 (``mechanism``) and C4
    (``epsilon``).

    Examples
    --------
    >>> from sklearn_bdp.planning import certify
    >>> certificate = certify(10_000, n_queries=1000, budget=10, route="transcript")
    >>> round(certificate.tau, 3)
    0.232
    """
    task = checked_task(
        n, correlation=correlation, n_queries=n_queries, budget=budget, beta=beta, c=c
    )
    check_option("route", route, ROUTES)
    if mechanism is not None and epsilon is not None:
        raise ValueError(
            "mechanism and epsilon exclude each other: a configured mechanism has its own level, "
            f"got epsilon={epsilon!r}."
        )
    wrapper = None
    if isinstance(mechanism, MultiplicativeWeights):
        # Its hypothesis is made of released answers only: a prediction like any other (G4).
        wrapper, mechanism = mechanism, mechanism.mechanism
    if is_other_mechanism(mechanism):
        certificate = certify_other(task, mechanism, route)
    else:
        solution = solve(task, route=route, mechanism=mechanism, epsilon=epsilon)
        certificate = _build(task, solution, epsilon, configured=mechanism is not None)
    if wrapper is not None:
        certificate = replace(certificate, mechanism=wrapper)
    if certificate.is_vacuous:
        warnings.warn(
            _vacuous_message(certificate), VacuousGuaranteeWarning, stacklevel=caller_level()
        )
    return certificate


def remaining_failure(beta, model):
    """Return what an estimated model leaves of the failure probability ``beta``."""
    left = check_probability("beta", beta) - model.misspecification
    if not left > 0.0:
        raise ValueError(
            f"beta must exceed {model.misspecification:.3g}, the probability that the correlation "
            f"was estimated wrongly, got beta={beta!r}."
        )
    return left


def checked_task(n, *, correlation, n_queries, budget, beta, c):
    """Check the arguments that every planner shares and return a `Task`."""
    size = check_integer("n", n, low=1)
    model = check_correlation(correlation)
    model.check_n(size)
    return Task(
        n=size,
        model=model,
        n_queries=check_integer("n_queries", n_queries, low=1),
        budget=check_integer("budget", budget, low=1),
        beta=remaining_failure(beta, model),
        c=None if c is None else check_real("c", c, low=0.0, high=1.0, closed="left"),
    )


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the best `Solution` for a task; no text, no warnings (planners call this often)."""
    # At most m queries can be above.
    task = replace(task, budget=min(task.budget, task.n_queries))
    if mechanism is not None:
        return _solve_mechanism(task, route, mechanism)
    cap = math.inf
    if epsilon is not None:
        level = check_real("epsilon", epsilon, low=0.0, closed="neither")
        if route not in ("best", *OURS):
            raise ValueError(f"epsilon needs route 'best' or one of {OURS}, got route={route!r}.")
        cap = float(task.model.dp_epsilon(level, task.n))
        if cap == 0.0:
            return _nothing(task, route, "No positive DP level gives this Bayesian DP level.")
    if route in ("zhao2017", "dwork2017"):
        return _solve_printed(task, route)
    if route != "best":
        design = route_design(task, route, cap)
        return _solution(task, design, route)
    return _solution(task, *_best_design(task, cap))


def _best_design(task, cap):
    """Best of our routes; one that is far behind after a rough search is not refined."""
    best, name = route_design(task, "transcript", cap), "transcript"
    for other in ("bdp", "posterior"):
        if route_design(task, other, cap, rough=True).tau < 1.3 * best.tau:
            design = route_design(task, other, cap)
            if design.tau < best.tau:
                best, name = design, other
    return best, name


def _solution(task, design, route):
    mechanism = None if route in ("splitting", "floor") else as_mechanism(design, task)
    notes = ()
    if route == "floor":
        notes = (
            "A yardstick: it holds for queries fixed before any answer, not for adaptive ones.",
        )
    c = None if route in ("splitting", "floor") else task.c
    return Solution(design=design, route=route, mechanism=mechanism, c=c, notes=notes)


def _nothing(task, route, note):
    design = route_design(task, "floor", math.inf)
    vacuous = replace(design, tau=1.0, sampling=1.0, threshold=math.nan)
    return Solution(design=vacuous, route=route, notes=(note,))


def _solve_mechanism(task, route, mechanism):
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(
            "mechanism must be a mechanism of sklearn_bdp.mechanisms, got "
            f"{type(mechanism).__name__}."
        )
    if route not in ("best", "bdp", "transcript"):
        raise ValueError(
            "a configured Thresholdout is certified by route 'best', 'bdp' or 'transcript', got "
            f"route={route!r}."
        )
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    design, c = mechanism_design(task, mechanism, route)
    used = route
    if route == "best":
        used = "transcript"
        if mechanism.resolution == 0 or not math.isclose(
            design.tau, _tau_or_inf(task, mechanism, "transcript")
        ):
            used = "bdp"
    notes = []
    if not math.isfinite(design.tau):
        notes.append(
            "No route applies: the mechanism has neither a grid of answers nor a finite DP level."
        )
    if task.c is not None and c is None:
        notes.append(
            f"Budget honesty at c = {task.c:g} is not promised: the threshold is too low for it."
        )
    if mechanism.budget is None:
        notes.append(
            f"The mechanism has no cap; the promise ends with its {task.budget:,}. answer from "
            "the holdout."
        )
    return Solution(design=design, route=used, mechanism=mechanism, c=c, notes=tuple(notes))


def _tau_or_inf(task, mechanism, route):
    try:
        return mechanism_design(task, mechanism, route)[0].tau
    except ValueError:
        return math.inf


def _solve_printed(task, route):
    if route == "dwork2017" and not task.model.is_independent:
        raise ValueError(
            f"route='dwork2017' holds for independent records only, got {task.model.describe()}."
        )
    design, mechanism, printed = printed_design(task, route)
    if mechanism is None:
        note = "The theorem needs more records than there are for every tau."
        return Solution(design=design, route=route, notes=(note,))
    if design.tau <= printed:
        notes = (f"The theorem prints tau = {printed:.4g}; G1 confirms it for the same mechanism.",)
        design = replace(design, tau=printed)
    else:
        notes = (
            f"The theorem prints tau = {printed:.4g}; G1 confirms {design.tau:.4g} only, which is "
            "what is certified.",
        )
    return Solution(design=design, route=route, mechanism=mechanism, c=None, notes=notes)


def _build(task, solution, epsilon, *, configured):
    design, model = solution.design, task.model
    tau = min(float(design.tau), 1.0) if not math.isnan(design.tau) else 1.0
    dp = float(design.dp_epsilon)
    bdp = float(model.bdp_epsilon(dp, task.n)) if math.isfinite(dp) else math.inf
    noise = max(design.below_margin, design.answer_margin)
    certificate = Certificate(
        tau=tau,
        beta=task.beta + task.model.misspecification,
        route=solution.route,
        dp_epsilon=dp,
        bdp_epsilon=bdp,
        n=task.n,
        n_effective=task.n_effective,
        sampling=min(float(design.sampling), 1.0),
        noise=float(noise),
        threshold=float(design.threshold) if math.isfinite(design.threshold) else None,
        mechanism=solution.mechanism,
        assumptions=_assumptions(task, solution),
        n_queries=task.n_queries,
        budget=None if solution.route in ("splitting", "floor") else task.budget,
        c=solution.c,
        resolution=float(design.resolution),
        correlation=model.describe(),
        notes=solution.notes,
    )
    from sklearn_bdp.planning._advice import advice_for  # planning certifies: late on purpose

    lines = advice_for(certificate, task, epsilon, raw_tau=float(design.tau), configured=configured)
    return replace(certificate, advice=lines)


def _assumptions(task, solution):
    lines = [
        "Training data and training-side values do not depend on the holdout, other than through "
        "its answers.",
        f"The holdout's records follow the declared correlation: {task.model.describe()}.",
        "Every query is a mean over the holdout of per-record scores in [0, 1] (after rescaling).",
    ]
    if solution.route == "floor":
        lines.append("All queries were fixed before any answer.")
    elif solution.route == "splitting":
        lines.append(f"Each of {task.n_queries:,} queries gets its own part of the holdout.")
    else:
        lines.append(
            f"At most {task.n_queries:,} queries, at most {task.budget:,} answered from the "
            "holdout."
        )
    if task.model.cut_failure(0) > 0:
        gap = task.model.gap_for(0.1 * task.beta)
        lines.append(
            "The holdout's first record follows the stationary distribution. Cut from the sequence "
            f"of the training data it does not: leave out {gap:,} records on each side and add "
            f"{0.1 * task.beta:.3g} to the failure probability per side."
        )
    mechanism = solution.mechanism
    if isinstance(mechanism, Thresholdout) and solution.route in ("bdp", "posterior"):
        lines.append("The noise is secret: a mechanism with a fixed random_state is for tests.")
    return tuple(lines)


def _vacuous_message(certificate):
    needed = next((line for line in certificate.advice if "records" in line), "")
    return (
        f"The guarantee is vacuous: with n={certificate.n} records the certified error is "
        f"{certificate.tau:.3g}, and 0.5 or more says nothing. {needed}"
    ).strip()
