"""Certificates of declared designs, and the number of records that one requires (theory C1-C4)."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.mechanisms.thresholdout import Thresholdout
from sklearn_bdp.planning.design import ROUTES, Task, smallest_n, solve
from sklearn_bdp.planning.models import any_size, continued, model_of_plan
from sklearn_bdp.utils.validation import caller_level, check_option, check_real

#: Errors for which advice gives the required number of records.
_ADVISED_ERRORS = (0.1, 0.05, 0.025, 0.01)


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

    The default route takes the argument that proves the smaller error. This is nearly always the
    counting of transcripts (G2), with a mechanism that adds no noise. ``epsilon`` and
    ``route="bdp"`` calibrate noise by Bayesian differential privacy. The answers of a
    :class:`~sklearn_bdp.ReusableHoldout` are certified by its own ``certificate()``, as used.

    Parameters
    ----------
    n : int
        Number of holdout records.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        Dependence of the records; ``None``: independent. Of a list of models, the worst counts.
    n_queries : int
        Number m of queries.
    budget : int
        Largest number B of answers from the holdout ("above" answers). The guarantee covers the
        queries up to and including the one that spends the last of it.
    beta : float, default=0.05
        Upper limit of the probability that any answer has a larger error, in (0, 0.5].
    c : float or None, default=0.5
        Budget honesty, in [0, 1): a query whose training value differs from the expectation by less
        than ``c * tau`` spends no budget. ``None``: not guaranteed.
    mechanism : Thresholdout or None
        Configured mechanism to certify. ``None``: one with the best threshold and noise scales.
    epsilon : float or None
        Bayesian DP level, in nats, that the whole interaction must meet. ``None``: no level.
    route : {"best", "transcript", "bdp"}, default="best"
        Argument of the proof: ``"transcript"`` counts transcripts (G2), ``"bdp"`` bounds leakage by
        Bayesian differential privacy (G1), and ``"best"`` takes the one with the smaller error,
        before any answer is known.

    Returns
    -------
    Certificate
        The guarantee. An error of 1/2 or more is vacuous and is reported with a warning.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, if ``route`` does not apply to ``mechanism``, or if
        ``mechanism`` and ``epsilon`` are both given.

    Warns
    -----
    UninformativeIntervalWarning
        If the certified error is 1/2 or more.

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
    model = model_of_plan(correlation)
    task = Task.checked(n, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    check_option("route", route, ROUTES)
    if mechanism is not None and epsilon is not None:
        raise ValueError(
            "mechanism and epsilon exclude each other: a configured mechanism has its own level, "
            f"got epsilon={epsilon!r}."
        )
    design = solve(task, route=route, mechanism=mechanism, epsilon=epsilon)
    bdp_epsilon = math.inf
    if math.isfinite(design.dp_epsilon):
        bdp_epsilon = float(model.bdp_epsilon(design.dp_epsilon, task.n))
    certificate = Certificate(
        tau=min(float(design.tau), 1.0),
        beta=task.beta,
        route=design.route,
        dp_epsilon=float(design.dp_epsilon),
        bdp_epsilon=bdp_epsilon,
        n=task.n,
        n_effective=task.n_effective,
        sampling=min(float(design.sampling), 1.0),
        noise=float(design.noise),
        threshold=float(design.threshold) if math.isfinite(design.threshold) else None,
        mechanism=design.mechanism,
        assumptions=_assumptions(task, design),
        n_queries=task.n_queries,
        budget=task.budget,
        c=design.c,
        resolution=float(design.resolution),
        correlation=model.describe(),
        notes=design.notes,
        advice=_advice(task, design, mechanism is not None),
    )
    if certificate.is_vacuous:
        warnings.warn(
            f"With n={n} records the certified error is {certificate.tau:.3g}, which is vacuous "
            f"(0.5 or more). {' '.join(certificate.advice[:1])}".strip(),
            UninformativeIntervalWarning,
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

    The default, ``route="best"``, nearly always counts transcripts (G2): no noise is calibrated,
    and ``correlation`` enters through the effective number of records. ``route="bdp"`` (G1)
    calibrates noise by Bayesian differential privacy. :class:`~sklearn_bdp.ReusableHoldout` gives
    no guarantee in advance. It charges answers as used, which usually needs far fewer records: see
    :func:`plan_search`.

    Parameters
    ----------
    tau : float
        Wanted error of every answer, in (0, 1/2), for scores in [0, 1].
    n_queries, budget : int
        Number of queries, and largest number of answers from the holdout.
    beta, c : object
        As in :func:`certify`.
    correlation : None, array, sparse matrix, graph, CorrelationModel or list
        Dependence of the records. A model tied to its records (groups, a graph) is continued with
        more records of the same structure. One with a single component of unlimited dependence is
        rejected.
    route : {"best", "transcript", "bdp"}, default="best"
        As in :func:`certify`.

    Returns
    -------
    int
        Number of records for which the route certifies an error of at most ``tau``. If noise is
        calibrated, it is the smallest one up to a small tolerance.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or no number of records suffices.

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
    try:
        check_real("tau", tau, low=0.0, high=0.5, closed="neither")
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{error} It is the largest error of an answer, in score units, such as tau=0.05."
        ) from None
    check_option("route", route, ROUTES)
    model = continued(correlation)
    task = Task.checked(1, model, n_queries=n_queries, budget=budget, beta=beta, c=c)
    return smallest_n(task, tau, route)


def _assumptions(task, design):
    """Return a tuple of sentences that must be true for the certificate of a design to apply."""
    model = task.model
    sentences = [
        "Training set and cross-validated scores depend on the holdout only through its answers.",
        f"The holdout's records follow the declared correlation: {model.describe()}.",
        *model.caveats,
        "Every query is a mean over the holdout of per-record scores in [0, 1] (after rescaling).",
        f"At most {task.n_queries:,} queries, at most {task.budget:,} answered from the holdout.",
    ]
    if gap_failure_probability(model, 0) > 0:
        gap_failure = 0.1 * task.beta
        sentences.append(
            "The holdout's first record follows the stationary distribution. Cut from the sequence "
            "of the training data it does not: leave out "
            f"{required_gap(model, gap_failure):,} records on each side and add "
            f"{gap_failure:.3g} to the failure probability per side."
        )
    if design.mechanism is not None and design.route == "bdp":
        sentences.append("The noise is secret: a mechanism with a fixed random_state is for tests.")
    return tuple(sentences)


def _advice(task, design, is_configured):
    """Return a tuple of at most one sentence on how the error of a design could be smaller.

    ``is_configured``: whether the caller has configured the mechanism.
    """
    is_vacuous = not design.tau < 0.5
    if is_configured:
        if is_vacuous:
            return ("Without mechanism=, the best noise scales and threshold are chosen.",)
        return ()
    smaller_errors = [error for error in _ADVISED_ERRORS if error < 0.95 * design.tau]
    if not smaller_errors or not math.isfinite(design.tau):
        return ()
    error = smaller_errors[0]
    n_required = _required_n(task, design, error)
    if is_vacuous:
        return (f"About {n_required:,} holdout records are needed for ±{error:g}.",)
    return (f"About {n_required - task.n:,} more records give ±{error:g}.",)


def _required_n(task, design, tau):
    """Return approximately the number of records with which the error would be ``tau``.

    ``design``: design of the task with ``task.n`` records.
    """
    # With noise the error is taken to be proportional to n^{−1/2}.
    approximate_n = math.ceil(1.02 * task.n * (design.tau / tau) ** 2)
    if design.route != "transcript" or math.isfinite(design.dp_epsilon):
        return approximate_n
    try:
        return smallest_n(replace(task, model=any_size(task.model)), tau, "transcript")
    except ValueError:  # no number of records is enough
        return approximate_n
