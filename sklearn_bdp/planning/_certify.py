"""The sharpest honest guarantee for a holdout, and the records for one (theory C1-C4)."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    least_accuracy,
    log_transcripts,
    noise_margin,
    posterior_excess,
    sampling_half_width,
    zhao_required_n,
)
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.mechanisms import Thresholdout, n_cells, thresholdout_epsilon
from sklearn_bdp.planning._models import any_size, continued, plain_model
from sklearn_bdp.utils.root_finding import crossing, last_whole
from sklearn_bdp.utils.validation import (
    caller_level,
    check_beta,
    check_integer,
    check_option,
    check_real,
)

OURS = ("transcript", "bdp", "posterior")
PRINTED = ("zhao2017", "dwork2017")
UNTOUCHED = ("splitting", "floor")  # no mechanism
ROUTES = ("best", "bdp", "transcript", "posterior", *PRINTED, *UNTOUCHED)
_LARGEST = 10**15
_SCALES = ("threshold_scale", "query_scale", "answer_scale")

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
    UninformativeIntervalWarning
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
    finite = math.isfinite(design.dp_epsilon)
    certificate = Certificate(
        tau=min(float(design.tau), 1.0),
        beta=task.beta,
        route=design.route,
        dp_epsilon=float(design.dp_epsilon),
        bdp_epsilon=float(model.bdp_epsilon(design.dp_epsilon, task.n)) if finite else math.inf,
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
        correlation=model.describe(),
        notes=design.notes,
        advice=tuple(_advice(task, design, mechanism is not None)),
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


# -- one task, one route: the design that proves most, the fewest records -------------------------


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the best design for a task; no text, no warnings (planners call this often)."""
    # At most m queries can be above.
    task, cap = replace(task, budget=min(task.budget, task.n_queries)), math.inf
    if mechanism is not None:
        return configured_design(task, mechanism, route)
    if epsilon is not None:
        level = check_real("epsilon", epsilon, low=0.0, closed="neither")
        if route not in ("best", *OURS):
            raise ValueError(f"epsilon needs route 'best' or one of {OURS}, got route={route!r}.")
        cap = float(task.model.dp_epsilon(level, task.n))
        if cap == 0.0:
            note = "No positive DP level gives this Bayesian DP level."
            return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    if route in PRINTED:
        return _solve_printed(task, route)
    first, *others = OURS if route == "best" else (route,)
    route, design = first, best_design(task, first, cap)
    for other in others:
        # A route that is far behind after a rough search is not refined.
        if best_design(task, other, cap, rough=True).tau < 1.3 * design.tau:
            found = best_design(task, other, cap)
            if found.tau < design.tau:
                route, design = other, found
    if route in UNTOUCHED or not design.tau < 1.0:
        return replace(design, route=route)
    # Threshold kept, as T1 was charged.
    settings = {"budget": task.budget, "refresh": False, "resolution": design.resolution}
    mechanism = Thresholdout(
        design.threshold, **dict(zip(_SCALES, design.scales, strict=True)), **settings
    )
    return replace(design, route=route, mechanism=mechanism)


def smallest_n(task, tau, route):
    """Smallest ``n`` for a checked task (``task.n`` is ignored)."""
    if route in PRINTED:
        required = _printed_required_n(task, tau, route)
        if not math.isfinite(required):
            raise ValueError(f"no number of records suffices for tau={tau!r} by route={route!r}.")
        return math.ceil(required - 1e-9)
    first, *others = OURS if route == "best" else (route,)
    best = _search_n(task, tau, first)
    for name in others:
        # Another route is worth a search only if it certifies one record less.
        if best > 1 and solve(replace(task, n=best - 1), route=name).tau <= tau:
            best = _search_n(task, tau, name)
    return best


def _search_n(task, tau, route):
    """Search upwards from the floor, then by bisection; the result itself has been certified.

    Routes that optimise noise are resolved to a part in 1,000: each step takes a tenth of a second.
    """

    def error(n):
        return solve(replace(task, n=n), route=route).tau

    # Theory G3: nothing beats the floor.
    share = float(task.model.effective_n(10**6)) / 10**6
    floor = floor_required_n(tau=tau, n_queries=task.n_queries, beta=task.beta) / share
    low, high = 0, max(1, math.ceil(floor))
    while (found := error(high)) > tau:
        low, high = high, math.ceil(1.001 * high * max(1.0, min(found / tau, 10.0)) ** 2) + 1
        if high > _LARGEST:
            raise ValueError(f"no number of records below 1e15 suffices for tau={tau!r}.")
    if low == 0 or route not in ("bdp", "posterior"):
        return last_whole(lambda n: error(n) <= tau, high, low)

    def excess(log_n):
        return error(math.ceil(math.exp(log_n))) / tau - 1.0

    return math.ceil(math.exp(crossing(excess, math.log(high), math.log(low), rtol=3e-5)))


# -- What others would certify, as printed (theory G3), confirmed by G1 for the same mechanism ----

#: Theorem 2 of Zhao 2017 holds for any c in (0, 1). Where honesty is not asked for, the smallest c
#: gives the smallest error; this one is within two parts in a million of the limit.
_LEAST_C = 1e-6


def _printed_required_n(task, tau, route):
    """Return the records that a theorem asks for, not rounded."""
    promise = {"tau": tau, "n_queries": task.n_queries, "budget": task.budget, "beta": task.beta}
    if route == "zhao2017":
        rest = {"model": task.model, "n": task.model.n_records}
        return zhao_required_n(**promise, c=task.c or _LEAST_C, **rest)
    if not task.model.is_independent:
        raise ValueError(
            f"route='dwork2017' holds for independent records only, got {task.model.describe()}."
        )
    # Dwork et al. 2017, Theorem 9, the side of its minimum with B; constants from their Theorem 4
    # at level τ/8 (``benchmarks/papers/dwork.py`` has the side with √B, for thousands of answers).
    sigma = tau / (96.0 * math.log(4.0 * task.n_queries / task.beta))
    sampling = 64.0 * math.log(12.0 * task.n_queries / task.beta) / tau**2
    return max(16.0 * task.budget / (sigma * tau), sampling)


def _solve_printed(task, route):
    printed = least_accuracy(lambda tau: _printed_required_n(task, tau, route), task.n)
    if not printed < 1.0:
        note = "The theorem needs more records than there are for every tau."
        return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    preset, options = Thresholdout.dwork2017, {}
    if route == "zhao2017":
        preset, options = Thresholdout.zhao2017, {"c": task.c or _LEAST_C}
    mechanism = preset(printed, task.beta, task.n_queries, task.budget, **options)
    design = configured_design(task, mechanism, "bdp")
    confirmed = f"{design.tau:.4g} only, which is what is certified."
    if design.tau <= printed:
        confirmed = "it for the same mechanism."
    note = f"The theorem prints tau = {printed:.4g}; G1 confirms {confirmed}"
    return replace(design, tau=max(design.tau, printed), c=None, route=route, notes=(note,))


def floor_required_n(*, tau: float, n_queries: int, beta: float = 0.05) -> float:
    """Effective records that queries fixed in advance need by Hoeffding, no mechanism (theory G3).

    The effective number, not rounded.
    """
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    m = check_integer("n_queries", n_queries, low=1)
    return math.log(2.0 * m / check_beta(beta)) / (2.0 * tau**2)


# -- Designs and the errors they certify (theory C1, C3, C4): noise, threshold, failure shares ----
#
# Every division of the failure probability is a valid certificate; searches decide how good it is.


@dataclass(frozen=True)
class Task:
    """What is to be certified: records, model and promise."""

    n: int
    model: object
    n_queries: int
    budget: int
    beta: float
    c: float | None  # budget honesty; None: not promised

    @classmethod
    def checked(cls, n, model, *, n_queries, budget, beta, c):
        """Check the arguments that certificates and plans share."""
        return cls(
            n=model.check_n(n),
            model=model,
            n_queries=check_integer("n_queries", n_queries, low=1),
            budget=check_integer("budget", budget, low=1),
            beta=check_beta(beta),
            c=None if c is None else check_real("c", c, low=0.0, high=1.0, closed="left"),
        )

    @property
    def n_effective(self):
        """Effective number of records in Hoeffding's exponent."""
        return float(self.model.effective_n(self.n))

    @property
    def sensitivity(self):
        """1/n, and the step of the fine grid that Thresholdout rounds values to."""
        return 1.0 / self.n + 2.0**-44


@dataclass(frozen=True)
class Design:
    """One division, the error it certifies, and what is worth saying about it."""

    tau: float
    sampling: float
    noise: float = 0.0
    threshold: float = math.nan
    scales: tuple = (0.0, 0.0, 0.0)  # of threshold, query and answer
    resolution: float = 0.0
    dp_epsilon: float = math.inf
    c: float | None = None
    route: str = ""
    mechanism: object = None
    notes: tuple = ()


def best_design(task, route, cap=math.inf, *, rough=False):
    """Best design of one of our routes at DP level at most ``cap``; ``rough`` stops early."""
    if route == "transcript":
        return _transcript_design(task, cap)
    if route in UNTOUCHED:
        alpha = splitting_half_width(task, 1 if route == "floor" else task.n_queries)
        return Design(tau=alpha, sampling=alpha)
    # Theory G1, T1 (threshold kept), C1 and C4: minimise over the DP level.
    guess = math.log(math.sqrt(80.0 * task.budget / task.n))
    low, high = guess - 9.0, guess + 6.0
    if math.isfinite(cap):
        high = min(high, math.log(cap))
        low = min(low, high - 9.0)
    start = _START

    def solved(log_level, rough):
        nonlocal start
        level, bias = min(math.exp(log_level), cap), None
        if route == "posterior":
            # Theory G6, after Jung et al. 2020. The accuracy of answers needs leakage only. Budget
            # honesty does not follow from a posterior mean (an "above" may come from either side),
            # so its term uses G1.
            bias = float(task.model.posterior_bias(level, task.n))
        width = adaptive_width(task, level)
        _, design, start = _best_division(task, level, width, start=start, rough=rough, bias=bias)
        return design

    found = minimize_scalar(
        lambda log_level: math.log(solved(log_level, True).tau),
        bounds=(low, high),
        options={"xatol": 0.5 if rough else 0.01},
    )
    levels = [found.x, high] if high - found.x < 0.01 else [found.x]
    return min((solved(level, rough) for level in levels), key=lambda design: design.tau)


def configured_design(task, mechanism, route):
    """Best design for a mechanism whose scales are given (theory C3)."""
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
    check_option("route with mechanism=", route, ("best", "bdp", "transcript"))
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    level, widths, notes = math.inf, [], []
    if mechanism.noise == "laplace":
        level = thresholdout_epsilon(
            sensitivity=task.sensitivity,
            budget=task.budget,
            **{name: getattr(mechanism, name) for name in _SCALES},
            refresh=mechanism.refresh,
        )
    if route in ("best", "transcript") and mechanism.resolution > 0:
        widths.append(("transcript", counted_width(task, n_cells(mechanism.resolution))))
    if route in ("best", "bdp") and math.isfinite(level):
        widths.append(("bdp", adaptive_width(task, level)))
    found = []
    for name, width in widths:
        for c in {task.c, None}:
            start = [4.0, 4.0, 5.0] if c is None else [0.0, 0.0, 1.0]
            short, design, _ = _best_division(
                replace(task, c=c), level, width, given=mechanism, start=start
            )
            if short <= 0.0:
                found.append(replace(design, route=name))
    # A mechanism that keeps the honesty asked for comes before one that does not.
    design = min(found, key=lambda design: (design.c is None, design.tau), default=None)
    if design is None:
        lacking = "a grid of answers (resolution > 0) or a finite DP level"
        if route != "best":
            raise ValueError(f"route={route!r} does not apply to a mechanism without {lacking}.")
        design = Design(tau=1.0, sampling=1.0, route=route)
        notes.append(f"The mechanism is without {lacking}.")
    elif task.c is not None and design.c is None:
        notes.append(
            f"Budget honesty at c = {task.c:g} is not guaranteed: the threshold is too low for it."
        )
    if mechanism.budget is None:
        notes.append(
            "The mechanism has no cap. The guarantee ends when the holdout has answered "
            f"{task.budget:,} queries."
        )
    return replace(design, mechanism=mechanism, notes=tuple(notes))


# -- Sampling ------------------------------------------------------------------------------------


def adaptive_width(task, dp_epsilon):
    """Return the sampling half-width at a log failure (theory G1; as sampling_half_width)."""
    known = math.sqrt(float(task.model.sequential_information(dp_epsilon, task.n)))
    size, union = 2.0 * task.n_effective, math.log(2.0 * task.n_queries)
    return lambda log_failure: math.sqrt(((known + math.sqrt(-log_failure)) ** 2 + union) / size)


def counted_width(task, cells):
    """Return the same by counting transcripts of so many cells (theory G2)."""
    union = log_transcripts(task.n_queries, task.budget, cells) + math.log(2.0)
    size = 2.0 * task.n_effective
    return lambda log_failure: math.sqrt((union - log_failure) / size)


def splitting_half_width(task, parts):
    """Half-width when each of m queries gets one of so many parts of the records (theory G3).

    With one part for all this is Hoeffding's half-width of queries fixed in advance.
    Parts of a chain are separated by a gap whose failure probability is a tenth of ``beta``
    (theory H6); parts of grouped records are made of whole components. Infinite when nothing is
    left.
    """
    model, m, beta = task.model, task.n_queries, task.beta
    if parts == 1:
        return sampling_half_width(task.n_effective, failure=beta, n_queries=m)
    part, gap = task.n // parts, int(model.gap_for(0.1 * beta / (parts - 1)))
    if gap > 0:
        part, beta = part - gap, 0.9 * beta
    if model.is_componentwise:
        # A part of whole components may miss its size by one component, and its components are at
        # most the largest: Σ k_c² ≤ k_max · size.
        largest = model.largest_component(task.n)
        n_effective = (part - (largest - 1)) / largest
    elif part < 1 or model.n_records is not None:
        return math.inf  # connected records: no independent fresh part
    else:
        n_effective = model.effective_n(part)
    if not n_effective > 0:
        return math.inf
    return sampling_half_width(n_effective, failure=beta, n_queries=m)


# -- Divisions -----------------------------------------------------------------------------------


def _shares(parameters):
    """Softmax with the last coordinate fixed: logs of fractions that sum to 1."""
    top = max(0.0, *parameters)
    total = math.log(sum(math.exp(p - top) for p in parameters) + math.exp(-top)) + top
    return [p - total for p in parameters] + [-total]


def _divided(task, level, width, parameters, *, given=None, bias=None, resolution=0.0):
    """Design of one division, and by how much the honesty asked for is missed (theory C1, C3).

    ``width(log_failure)`` is the sampling half-width; ``given``: a mechanism as configured.
    """
    rounds, c, noise = task.budget, task.c, "laplace"
    if given is None:
        # Theory T1, threshold kept: Δ(1/σT + 2B/σq + B/σa) = ε′, the three terms in these shares.
        parts = zip((1, 2 * rounds, rounds), _shares(parameters[:2]), strict=True)
        scales = tuple(count * task.sensitivity / level * math.exp(-part) for count, part in parts)
    else:
        scales = tuple(getattr(given, name) for name in _SCALES)
        noise, resolution = given.noise, given.resolution
    below, answer, sampling, honest = (
        math.log(task.beta) + share for share in _shares(parameters[-3:])
    )

    noisy = {"threshold_scale": scales[0], "query_scale": scales[1], "noise": noise}

    def margin(log_failure, count):
        return noise_margin(failure=math.exp(log_failure) / count, **noisy)

    z_below = margin(below, rounds)
    z_answer = answer_margin(failure=math.exp(answer) / rounds, answer_scale=scales[2], noise=noise)
    alpha = reach_below = reach_above = width(sampling)
    lead = 0.0 if c is None else margin(honest, task.n_queries) + alpha
    if bias is not None:
        # Theory G6: z minimises z + B·TL(z)/(failure); the derivative vanishes at tail = failure/B.
        excess = math.log(rounds) - below + math.log(posterior_excess(z_below, *scales[:2]))
        reach_below, reach_above = bias + math.exp(min(excess, 700.0)), bias + scales[2]
    tau, short = z_answer + resolution / 2.0 + reach_above, 0.0
    if given is None:
        tau = max(tau, (lead + z_below + reach_below) / (1.0 - (c or 0.0)))
        # Slack left by a larger "above" error is best spent on budget honesty: T as large as τ
        # allows, never −0 by rounding.
        threshold = max(0.0, tau - z_below - reach_below)
    else:
        threshold = given.threshold
        tau = max(tau, max(threshold, 0.0) + z_below + alpha)
        short = 0.0 if c is None else max(0.0, c * tau + lead - threshold)
    return short, Design(
        tau=tau,
        sampling=alpha if bias is None else max(reach_below, reach_above),
        noise=max(z_below, z_answer),
        threshold=threshold,
        scales=scales,
        resolution=resolution,
        dp_epsilon=level,
        c=c,
    )


_START = (-0.5, 0.7, -2.0, -2.0, -2.0)


def _best_division(task, level, width, *, start=_START, rough=False, **options):
    """Smallest certified error at one DP level: shortfall of honesty, design, parameters."""

    def objective(parameters):
        if np.abs(parameters).max() > 60.0:
            return math.inf
        short, design = _divided(task, level, width, parameters.tolist(), **options)
        return design.tau + 100.0 * short

    best = np.asarray(start, dtype=float)
    for _ in range(1 if rough else 2):
        limits = {"xatol": 1e-4, "fatol": 1e-7, "maxiter": 150 if rough else 500}
        best = minimize(objective, best, method="Nelder-Mead", options=limits).x
    return *_divided(task, level, width, best.tolist(), **options), tuple(best)


def _transcript_design(task, cap):
    """Smallest error certified by counting transcripts (theory G2).

    Without a cap no noise is needed: the grid is the only parameter.
    """
    start = _START

    def solve(cells, rough):
        nonlocal start
        width = counted_width(task, cells)
        if math.isfinite(cap):
            options = {"start": start, "rough": rough, "resolution": 1.0 / cells}
            _, design, start = _best_division(task, cap, width, **options)
            return design
        alpha = width(math.log(task.beta))
        tau = max(alpha * (1.0 if task.c is None else 2.0 / (1.0 - task.c)), alpha + 0.5 / cells)
        return Design(
            tau=tau, sampling=alpha, threshold=tau - alpha, resolution=1.0 / cells, c=task.c
        )

    # The error falls and then rises with the number of cells; a finer grid than 2^24 is none.
    found = minimize_scalar(
        lambda log_cells: solve(round(math.exp(log_cells)), True).tau,
        bounds=(0.0, 24.0 * math.log(2.0)),
        options={"xatol": 0.01},
    )
    best = round(math.exp(found.x))
    near = (solve(cells, False) for cells in range(max(1, best - 1), best + 2))
    return min(near, key=lambda design: design.tau)
