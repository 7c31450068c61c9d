"""The sharpest honest guarantee for a holdout, and the records for one (theory C1-C4)."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import replace

from sklearn_bdp._checks import caller_level, check_option, check_real
from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._designs import Task
from sklearn_bdp.planning._models import any_size, continued, plain_model
from sklearn_bdp.planning._routes import ROUTES, UNTOUCHED, smallest_n, solve

#: Errors that advice aims at.
_GOALS = (0.1, 0.05, 0.025, 0.01)


def certify(
    n: int,
    *,
    correlation: Correlation = None,
    n_queries: int,
    budget: int,
    beta: float = 0.05,
    c: float | None = 0.5,
    mechanism: Thresholdout | None = None,
    epsilon: float | None = None,
    route: str = "best",
) -> Certificate:
    r"""Certify the answers of a holdout of ``n`` records in advance.

    The default route takes whichever argument proves most, nearly always the counting of
    transcripts (G2) with a mechanism that adds no noise; ``epsilon`` or ``route="bdp"`` calibrate
    noise by Bayesian differential privacy. What a :class:`~sklearn_bdp.ReusableHoldout` has
    answered is certified by its own ``certificate()``, as used.

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
        Answers from the holdout ("above" answers), B. The guarantee covers the queries up to and
        including the one that spends the last of it.
    beta : float, default=0.05
        Failure probability over all answers together, in (0, 1).
    c : float or None, default=0.5
        Budget honesty, in [0, 1): a training value off by less than ``c * tau`` spends no
        budget. ``None``: not guaranteed.
    mechanism : Thresholdout or None
        A configured mechanism: certify it as it is. ``None``: the best scales.
    epsilon : float or None
        Bayesian DP level that the whole interaction must meet. ``None``: none asked.
    route : str, default="best"
        The argument: one of ``"best"``, ``"bdp"``, ``"transcript"``, ``"posterior"``,
        ``"zhao2017"``, ``"dwork2017"``, ``"splitting"``, ``"floor"``. ``"best"`` takes the best
        of ``"transcript"``, ``"bdp"`` and ``"posterior"``, before any answer is seen.
        ``"zhao2017"`` and ``"dwork2017"`` are the theorems as printed; where leakage (G1) cannot
        confirm the printed error for the same mechanism, the larger, confirmed one is returned.
        ``"splitting"`` uses new records for every query; ``"floor"`` is what queries fixed in
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

    See Also
    --------
    plan_holdout : The smallest holdout for a given error.
    ReusableHoldout : A holdout with intervals charged as used.

    References
    ----------
    Theory C1 (neither ``mechanism`` nor ``epsilon``), C3 (``mechanism``) and C4
    (``epsilon``).

    Examples
    --------
    >>> from sklearn_bdp.planning import certify
    >>> certificate = certify(10_000, n_queries=1000, budget=10, route="transcript")
    >>> round(certificate.tau, 3)
    0.232
    """
    model = plain_model(correlation)
    task = Task.checked(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    check_option("route", route, ROUTES)
    if mechanism is not None and epsilon is not None:
        raise ValueError(
            "mechanism and epsilon exclude each other: a configured mechanism has its own level, "
            f"got epsilon={epsilon!r}."
        )
    design = solve(task, route=route, mechanism=mechanism, epsilon=epsilon)
    certificate = _build(task, design, configured=mechanism is not None)
    if certificate.is_vacuous:
        warnings.warn(
            f"With n={n} records the certified error is {certificate.tau:.3g}, which is vacuous "
            f"(0.5 or more). {' '.join(certificate.advice[:1])}".strip(),
            VacuousGuaranteeWarning,
            stacklevel=caller_level(),
        )
    return certificate


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
    r"""Return the smallest number of holdout records that certifies an error (theory C2).

    The default, ``route="best"``, is nearly always carried by the counting of transcripts (G2): no
    noise is calibrated, and ``correlation`` enters through the effective number of records. It is
    ``"bdp"`` (G1) that is calibrated by Bayesian differential privacy, and ``"zhao2017"`` by the
    published theorem. :class:`~sklearn_bdp.ReusableHoldout` gives no guarantee in advance and
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
        dependence is rejected.
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

    See Also
    --------
    certify : The error for a given holdout.
    plan_search : The same for searches with a final report.

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


def _build(task, design, *, configured):
    finite = math.isfinite(design.dp_epsilon)
    level = float(task.model.bdp_epsilon(design.dp_epsilon, task.n)) if finite else math.inf
    return Certificate(
        tau=min(float(design.tau), 1.0),
        beta=task.beta,
        route=design.route,
        dp_epsilon=float(design.dp_epsilon),
        bdp_epsilon=level,
        n=task.n,
        n_effective=task.n_effective,
        sampling=min(float(design.sampling), 1.0),
        noise=float(design.noise),
        threshold=float(design.threshold) if math.isfinite(design.threshold) else None,
        mechanism=design.mechanism,
        assumptions=_assumptions(task, design),
        n_queries=task.n_queries,
        budget=None if design.route in UNTOUCHED else task.budget,
        c=design.c,
        resolution=float(design.resolution),
        correlation=task.model.describe(),
        notes=design.notes,
        advice=tuple(_advice(task, design, configured)),
    )


def _assumptions(task, design):
    model, gap = task.model, ()
    if model.cut_failure(0) > 0:
        gap = (
            "The holdout's first record follows the stationary distribution. Cut from the sequence "
            "of the training data it does not: leave out "
            f"{model.gap_for(0.1 * task.beta):,} records on each side and add "
            f"{0.1 * task.beta:.3g} to the failure probability per side.",
        )
    asked = {
        "floor": "All queries were fixed before any answer: a yardstick, not for adaptive ones.",
        "splitting": f"Each of {task.n_queries:,} queries gets its own part of the holdout.",
    }
    most = f"At most {task.n_queries:,} queries, at most {task.budget:,} answered from the holdout."
    secret = design.mechanism is not None and design.route in ("bdp", "posterior")
    return (
        "Training set and cross-validated scores depend on the holdout only through its answers.",
        f"The holdout's records follow the declared correlation: {model.describe()}.",
        *model.caveats,
        "Every query is a mean over the holdout of per-record scores in [0, 1] (after rescaling).",
        asked.get(design.route, most),
        *gap,
        *["The noise is secret: a mechanism with a fixed random_state is for tests."] * secret,
    )


def _advice(task, design, configured):
    """Yield what would make a certificate better, in plain language."""
    tau = design.tau
    goal = next((goal for goal in _GOALS if goal < 0.95 * tau), None)
    if configured and not tau < 0.5:
        yield "Without mechanism=, the best noise scales and threshold are chosen."
    elif goal and math.isfinite(tau) and design.route != "floor" and not configured:
        # With noise τ falls at least like n^{−1/2}: near enough, and found at once.
        needed = math.ceil(1.02 * task.n * (tau / goal) ** 2)
        if design.route == "transcript" and math.isinf(design.dp_epsilon):
            with contextlib.suppress(ValueError):  # no number is enough
                needed = smallest_n(replace(task, model=any_size(task.model)), goal, "transcript")
        if tau < 0.5:
            yield f"About {needed - task.n:,} more records give ±{goal:g}."
        else:
            yield f"About {needed:,} records are needed for ±{goal:g}."
