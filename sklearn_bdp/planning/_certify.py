"""`certify`: the sharpest honest guarantee for a holdout, by every route (theory C1, C3, C4)."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from sklearn_bdp._checks import caller_level, check_option
from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.planning._advice import advice_for
from sklearn_bdp.planning._solve import ROUTES, solve
from sklearn_bdp.planning._task import checked_task, plain_model


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
    r"""Certify the answers of a reusable holdout of ``n`` records, before any is given.

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
        Answers from the holdout ("above" answers), B. The promise covers the queries up to and
        including the one that spends the last of it.
    beta : float, default=0.05
        Failure probability over all answers together, in (0, 1).
    c : float or None, default=0.5
        Budget honesty, in [0, 1): a training-side value off by less than ``c * tau`` spends no
        budget. ``None``: not promised.
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
    task = checked_task(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    check_option("route", route, ROUTES)
    if mechanism is not None and epsilon is not None:
        raise ValueError(
            "mechanism and epsilon exclude each other: a configured mechanism has its own level, "
            f"got epsilon={epsilon!r}."
        )
    solution = solve(task, route=route, mechanism=mechanism, epsilon=epsilon)
    certificate = _build(task, solution, epsilon, configured=mechanism is not None)
    if certificate.is_vacuous:
        warnings.warn(
            _vacuous_message(certificate), VacuousGuaranteeWarning, stacklevel=caller_level()
        )
    return certificate


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
    lines = advice_for(certificate, task, epsilon, raw_tau=float(design.tau), configured=configured)
    return replace(certificate, advice=lines)


def _assumptions(task, solution):
    lines = [
        "Training data and training-side values do not depend on the holdout, other than through "
        "its answers.",
        f"The holdout's records follow the declared correlation: {task.model.describe()}.",
        *task.model.caveats,
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
    if solution.mechanism is not None and solution.route in ("bdp", "posterior"):
        lines.append("The noise is secret: a mechanism with a fixed random_state is for tests.")
    return tuple(lines)


def _vacuous_message(certificate):
    needed = next((line for line in certificate.advice if "records" in line), "")
    return (
        f"The guarantee is vacuous: with n={certificate.n} records the certified error is "
        f"{certificate.tau:.3g}, and 0.5 or more says nothing. {needed}"
    ).strip()
