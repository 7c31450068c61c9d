"""Designs of a mechanism and the errors that they certify (theory C1, C3, C4).

A design has noise scales, a threshold and a division of the failure probability between noise,
sampling and budget honesty. Numerical searches minimize its error. A certificate is valid also if
they miss the minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    log_transcripts,
    noise_margin,
    sampling_half_width,
)
from sklearn_bdp.correlation.levels import sequential_information
from sklearn_bdp.mechanisms.thresholdout import Thresholdout, n_cells, thresholdout_epsilon
from sklearn_bdp.utils.root_finding import crossing, last_whole
from sklearn_bdp.utils.validation import check_beta, check_integer, check_real

ROUTES = ("best", "transcript", "bdp")

_MAX_RECORDS = 10**15
_NOISE_SCALES = ("threshold_scale", "query_scale", "answer_scale")

#: Initial logits (:func:`log_fractions`) of two divisions. The first two logits divide the DP level
#: between threshold noise, query noise and answer noise. The others divide the failure probability
#: between "below" answers, "above" answers, sampling and budget honesty. The last part of each
#: division has logit 0, which is not in the tuple.
_INITIAL_LOGITS = (-0.5, 0.7, -2.0, -2.0, -2.0)
_MAX_LOGIT = 60.0


@dataclass(frozen=True)
class Task:
    """Records, their dependence, and the required guarantee, for which a design is sought."""

    n: int  # number of holdout records
    model: object  # CorrelationModel, or a continuation of one
    n_queries: int  # largest number of queries
    budget: int  # largest number of "above" answers
    beta: float  # failure probability of all answers together
    #: Budget honesty: queries with smaller deviations than ``c`` times the error spend no budget.
    #: None: not guaranteed.
    c: float | None

    @classmethod
    def checked(cls, n, model, *, n_queries, budget, beta, c):
        """Return a task; raise TypeError or ValueError for an invalid argument.

        ``model``: CorrelationModel of the ``n`` records.
        """
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
        """Effective number of holdout records, for Hoeffding's inequality."""
        return float(self.model.effective_n(self.n))

    @property
    def sensitivity(self):
        """Largest change of a rounded mean of scores in [0, 1] if one record changes."""
        return 1.0 / self.n + 2.0**-44


@dataclass(frozen=True)
class Design:
    """Noise scales and threshold of a mechanism with the error that they certify.

    Errors, threshold, scales and resolution are in units of [0, 1].
    """

    tau: float  # certified error; 1 or more certifies nothing
    sampling: float  # component of the error for sampling
    noise: float = 0.0  # component of the error for noise
    threshold: float = math.nan  # NaN without a threshold
    scales: tuple = (0.0, 0.0, 0.0)  # noise scales of threshold, query and answer
    resolution: float = 0.0  # width of cells; 0 without cells
    dp_epsilon: float = math.inf  # DP level of the whole transcript, in nats
    c: float | None = None  # budget honesty of the task; None: not guaranteed
    route: str = ""  # name of the route that certifies the error; empty until it is known
    mechanism: object = None  # Thresholdout, or None
    notes: tuple = ()  # sentences for the certificate


# -- Designs of a task, and numbers of records ----------------------------------------------------


def solve(task, *, route, mechanism=None, epsilon=None):
    """Return the :class:`Design` of a task with the smallest certified error that a search finds.

    ``route``, ``mechanism`` and ``epsilon`` are those of :func:`~sklearn_bdp.planning.certify`. If
    ``mechanism`` is None, the design has a mechanism only if its error is below 1.
    """
    task = replace(task, budget=min(task.budget, task.n_queries))  # an answer for each query
    if mechanism is not None:
        return configured_design(task, mechanism, route)
    max_dp_epsilon = math.inf
    if epsilon is not None:
        bdp_epsilon = check_real("epsilon", epsilon, low=0.0, closed="neither")
        max_dp_epsilon = float(task.model.dp_epsilon(bdp_epsilon, task.n))
        if max_dp_epsilon == 0.0:
            note = "No positive DP level gives this Bayesian DP level."
            return Design(tau=1.0, sampling=1.0, route=route, notes=(note,))
    if route == "best":
        route, design = _best_of_routes(task, max_dp_epsilon)
    else:
        design = best_design(task, route, max_dp_epsilon)
    if not design.tau < 1.0:
        return replace(design, route=route)
    threshold_scale, query_scale, answer_scale = design.scales
    mechanism = Thresholdout(
        design.threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        answer_scale=answer_scale,
        budget=task.budget,
        refresh=False,  # the threshold is kept, as its cost was computed (T1)
        resolution=design.resolution,
    )
    return replace(design, route=route, mechanism=mechanism)


def _best_of_routes(task, max_dp_epsilon):
    """Return the route with the smaller error ("transcript" or "bdp"), and its :class:`Design`.

    ``max_dp_epsilon``: largest DP level in nats, infinite without a limit.
    """
    transcript_design = best_design(task, "transcript", max_dp_epsilon)
    # The design by leakage is refined only if a rough search comes near the other route.
    rough_design = best_design(task, "bdp", max_dp_epsilon, rough=True)
    if rough_design.tau < 1.3 * transcript_design.tau:
        leakage_design = best_design(task, "bdp", max_dp_epsilon)
        if leakage_design.tau < transcript_design.tau:
            return "bdp", leakage_design
    return "transcript", transcript_design


def smallest_n(task, tau, route):
    """Return the smallest number of records with which a route certifies the error ``tau``.

    ``task.n`` has no effect. A result of the route "bdp" has a tolerance. Raises ValueError if no
    number of records below 1e15 is found.
    """

    def error(n, route):
        """Return the error that a route certifies with ``n`` records; 1 or more for none."""
        return solve(replace(task, n=n), route=route).tau

    n = math.inf
    if route in ("best", "transcript"):
        n = search_n(lambda n: error(n, "transcript"), task, tau)
    # In "best" leakage is searched only if it certifies one record less.
    if route == "bdp" or (route == "best" and n > 1 and error(n - 1, "bdp") <= tau):
        n = search_n(lambda n: error(n, "bdp"), task, tau, rtol=3e-5)
    return n


def search_n(error, task, tau, *, rtol=0.0):
    """Return the smallest number of records ``n`` with ``error(n) <= tau``.

    The error is taken to fall with ``n``. ``task``: gives a lower bound from which the search goes
    upwards; ``rtol``: relative tolerance of the log of the result. Raises ValueError if no number
    below 1e15 is found.
    """
    # Theory G3: no route certifies with fewer effective records than Hoeffding's bound needs for
    # queries that are fixed in advance.
    min_n_effective = math.log(2.0 * task.n_queries / task.beta) / (2.0 * tau**2)
    effective_fraction = float(task.model.effective_n(10**6)) / 10**6
    n_too_few = 0
    n_enough = max(1, math.ceil(min_n_effective / effective_fraction))
    while (current_error := error(n_enough)) > tau:
        n_too_few = n_enough
        growth = max(1.0, min(current_error / tau, 10.0)) ** 2
        n_enough = math.ceil(1.001 * n_too_few * growth) + 1
        if n_enough > _MAX_RECORDS:
            raise ValueError(f"no number of records below 1e15 suffices for tau={tau!r}.")
    if n_too_few == 0 or rtol == 0.0:
        return last_whole(lambda n: error(n) <= tau, n_enough, n_too_few)

    def excess(log_n):
        """Return ``error(n) / tau - 1``, from the log of the number of records."""
        return error(math.ceil(math.exp(log_n))) / tau - 1.0

    log_n = crossing(excess, math.log(n_enough), math.log(n_too_few), rtol=rtol)
    return math.ceil(math.exp(log_n))


def best_design(task, route, max_dp_epsilon=math.inf, *, rough=False):
    """Return the :class:`Design` with the smallest error that a search finds for a route.

    ``route``: "transcript" or "bdp", otherwise ValueError is raised; ``max_dp_epsilon``: largest DP
    level in nats, infinite without a limit; ``rough``: whether to search less for "bdp".
    """
    if route == "transcript":
        return _transcript_design(task, max_dp_epsilon)
    if route == "bdp":
        return _leakage_design(task, max_dp_epsilon, rough)
    raise ValueError(f"route must be 'transcript' or 'bdp', got route={route!r}.")


def _leakage_design(task, max_dp_epsilon, rough):
    """Return a :class:`Design` certified by Bayesian differential privacy (theory G1, T1, C1, C4).

    Its error is minimized over the DP level, and over the divisions of DP level and failure
    probability. ``max_dp_epsilon``: largest DP level in nats; ``rough``: whether to search less.
    """
    typical_log_level = math.log(math.sqrt(80.0 * task.budget / task.n))
    min_log_level = typical_log_level - 9.0
    max_log_level = typical_log_level + 6.0
    if math.isfinite(max_dp_epsilon):
        max_log_level = min(max_log_level, math.log(max_dp_epsilon))
        min_log_level = min(min_log_level, max_log_level - 9.0)
    logits = _INITIAL_LOGITS  # of the last division, from which the next search starts

    def design_at(log_level, is_rough):
        """Return the :class:`Design` with the smallest error at the log of a DP level in nats."""
        nonlocal logits
        dp_epsilon = min(math.exp(log_level), max_dp_epsilon)
        half_width = leakage_half_width(task, dp_epsilon)
        _, design, logits = _best_division(
            task, dp_epsilon, half_width, initial=logits, rough=is_rough
        )
        return design

    optimum = minimize_scalar(
        lambda log_level: math.log(design_at(log_level, True).tau),
        bounds=(min_log_level, max_log_level),
        options={"xatol": 0.5 if rough else 0.01},
    )
    log_levels = [optimum.x]
    if max_log_level - optimum.x < 0.01:
        log_levels.append(max_log_level)
    designs = [design_at(log_level, rough) for log_level in log_levels]
    return min(designs, key=lambda design: design.tau)


def _transcript_design(task, max_dp_epsilon):
    """Return a :class:`Design` certified by counting transcripts (theory G2).

    Its error is minimized over the number of possible values of an answer. If ``max_dp_epsilon`` is
    infinite, the design adds no noise. Otherwise it has this DP level (nats), and the error is also
    minimized over the divisions of DP level and failure probability.
    """
    logits = _INITIAL_LOGITS  # of the last division, from which the next search starts

    def design_at(n_answer_values, is_rough):
        """Return the :class:`Design` if an answer has one of ``n_answer_values`` values."""
        nonlocal logits
        half_width = transcript_half_width(task, n_answer_values)
        resolution = 1.0 / n_answer_values
        if math.isfinite(max_dp_epsilon):
            _, design, logits = _best_division(
                task,
                max_dp_epsilon,
                half_width,
                initial=logits,
                rough=is_rough,
                resolution=resolution,
            )
            return design
        sampling = half_width(math.log(task.beta))
        honesty_factor = 1.0 if task.c is None else 2.0 / (1.0 - task.c)
        tau = max(sampling * honesty_factor, sampling + 0.5 / n_answer_values)
        return Design(
            tau=tau, sampling=sampling, threshold=tau - sampling, resolution=resolution, c=task.c
        )

    # The error is taken to fall and then rise with the number of values, which is at most 2^24 + 1.
    optimum = minimize_scalar(
        lambda log_n_values: design_at(round(math.exp(log_n_values)), True).tau,
        bounds=(0.0, 24.0 * math.log(2.0)),
        options={"xatol": 0.01},
    )
    n_values = round(math.exp(optimum.x))
    near_n_values = range(max(1, n_values - 1), n_values + 2)
    designs = [design_at(n_answer_values, False) for n_answer_values in near_n_values]
    return min(designs, key=lambda design: design.tau)


def configured_design(task, mechanism, route):
    """Return the :class:`Design` of a mechanism that the caller has configured (theory C3).

    If no route applies, the result for ``route="best"`` has the error 1. Raises ValueError if
    another ``route`` does not apply, and if the budget of the task is below that of the mechanism
    and the number of queries. Raises TypeError for a mechanism that is not a Thresholdout.
    """
    if not isinstance(mechanism, Thresholdout):
        raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
    if task.budget < min(mechanism.budget or 0, task.n_queries):
        raise ValueError(
            f"budget must cover the mechanism's own, budget={mechanism.budget}, got "
            f"budget={task.budget}."
        )
    design = _best_configured_division(task, mechanism, route)
    notes = []
    if design is None:
        requirement = "a grid of answers (resolution > 0) or a finite DP level"
        if route != "best":
            raise ValueError(
                f"route={route!r} does not apply to a mechanism without {requirement}."
            )
        design = Design(tau=1.0, sampling=1.0, route=route)
        notes.append(f"The mechanism is without {requirement}.")
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


def _best_configured_division(task, mechanism, route):
    """Return the :class:`Design` of a mechanism with the smallest error; None if no route applies.

    Designs that guarantee budget honesty at ``task.c`` are preferred to designs that do not.
    ``route``: "best" (all routes), "transcript" or "bdp".
    """
    dp_epsilon = math.inf
    if mechanism.noise == "laplace":
        dp_epsilon = thresholdout_epsilon(
            sensitivity=task.sensitivity,
            budget=task.budget,
            threshold_scale=mechanism.threshold_scale,
            query_scale=mechanism.query_scale,
            answer_scale=mechanism.answer_scale,
            refresh=mechanism.refresh,
        )
    # By route: function from a log failure probability to the half-width for sampling.
    half_width_by_route = {}
    if route in ("best", "transcript") and mechanism.resolution > 0:
        n_answer_values = n_cells(mechanism.resolution)
        half_width_by_route["transcript"] = transcript_half_width(task, n_answer_values)
    if route in ("best", "bdp") and math.isfinite(dp_epsilon):
        half_width_by_route["bdp"] = leakage_half_width(task, dp_epsilon)
    designs = []
    for route_name, half_width in half_width_by_route.items():
        for design in _possible_divisions(task, dp_epsilon, half_width, mechanism):
            designs.append(replace(design, route=route_name))
    return min(designs, key=lambda design: (design.c is None, design.tau), default=None)


def _possible_divisions(task, dp_epsilon, half_width, mechanism):
    """Yield one :class:`Design` of a mechanism that guarantees budget honesty, one that does not.

    The former is left out if the threshold of the mechanism is too low for it, or if the task asks
    for none. ``dp_epsilon``: DP level of the mechanism in nats, infinite for none; ``half_width``:
    function from a log failure probability to the half-width for sampling.
    """
    for c in {task.c, None}:
        initial_logits = [4.0, 4.0, 5.0] if c is None else [0.0, 0.0, 1.0]
        shortfall, design, _ = _best_division(
            replace(task, c=c), dp_epsilon, half_width, mechanism=mechanism, initial=initial_logits
        )
        if shortfall <= 0.0:
            yield design


# -- Sampling ------------------------------------------------------------------------------------


def leakage_half_width(task, dp_epsilon):
    """Return a function from a log failure probability to a half-width for sampling (theory G1).

    Half-widths are those of scores in [0, 1]. ``dp_epsilon``: DP level of the transcript, in nats.
    """
    information = float(sequential_information(task.model, dp_epsilon, task.n))  # in nats
    n_effective = task.n_effective
    return lambda log_failure: sampling_half_width(
        n_effective, log_failure=log_failure, n_queries=task.n_queries, information=information
    )


def transcript_half_width(task, n_values):
    """Return a function from a log failure probability to a half-width for sampling (theory G2).

    Half-widths are those of scores in [0, 1]. ``n_values``: number of possible values of an answer
    from the holdout.
    """
    log_union = log_transcripts(task.n_queries, task.budget, n_values) + math.log(2.0)
    n_effective = task.n_effective
    return lambda log_failure: math.sqrt((log_union - log_failure) / (2.0 * n_effective))


# -- Divisions -----------------------------------------------------------------------------------


def log_fractions(logits):
    """Return a list of logs of fractions that sum to 1: log softmax of ``logits`` and a last 0."""
    max_logit = max(0.0, *logits)
    total = sum(math.exp(logit - max_logit) for logit in logits) + math.exp(-max_logit)
    log_total = math.log(total) + max_logit
    return [*(logit - log_total for logit in logits), -log_total]


def noise_scales(task, dp_epsilon, logits):
    """Return the Laplace scales of threshold, query and answer noise for a DP level (theory T1).

    ``dp_epsilon``: DP level in nats; ``logits``: two, which divide it between the three kinds of
    noise (:func:`log_fractions`).
    """
    # Theory T1, one threshold: Δ(1/σT + 2B/σq + B/σa) = ε′, with these fractions of the sum.
    counts = (1, 2 * task.budget, task.budget)
    return tuple(
        count * task.sensitivity / dp_epsilon * math.exp(-log_fraction)
        for count, log_fraction in zip(counts, log_fractions(logits), strict=True)
    )


def _shortfall_and_design(task, dp_epsilon, half_width, logits, *, mechanism=None, resolution=0.0):
    """Return a shortfall, and the :class:`Design` of one division (theory C1, C3).

    The shortfall is the amount by which the threshold of a configured ``mechanism`` is too low for
    budget honesty, 0 without a mechanism and if honesty is not guaranteed. ``half_width``: function
    from a log failure probability to the half-width for sampling; ``logits``: the last three divide
    the failure probability, two before them the DP level (without a mechanism). A mechanism fixes
    noise, threshold and ``resolution``, the distance of possible answers.
    """
    noise = "laplace"
    if mechanism is None:
        scales = noise_scales(task, dp_epsilon, logits[:2])
    else:
        scales = tuple(getattr(mechanism, name) for name in _NOISE_SCALES)
        noise = mechanism.noise
        resolution = mechanism.resolution
    threshold_scale, query_scale, answer_scale = scales
    # Logs of failure probabilities.
    log_below_failure, log_answer_failure, log_sampling_failure, log_honesty_failure = (
        math.log(task.beta) + log_fraction for log_fraction in log_fractions(logits[-3:])
    )

    def comparison_margin(log_failure, n_comparisons):
        """Return a limit for the noise of each comparison.

        ``log_failure``: log of the probability that the noise of any comparison exceeds it.
        """
        return noise_margin(
            failure=math.exp(log_failure) / n_comparisons,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            noise=noise,
        )

    # Largest errors in units of [0, 1]: of sampling, and of noise in "below" and "above" answers.
    sampling = half_width(log_sampling_failure)
    below_margin = comparison_margin(log_below_failure, task.budget)
    corrected_margin = answer_margin(
        failure=math.exp(log_answer_failure) / task.budget, answer_scale=answer_scale, noise=noise
    )
    honesty_margin = 0.0
    if task.c is not None:
        honesty_margin = comparison_margin(log_honesty_failure, task.n_queries) + sampling
    tau = corrected_margin + resolution / 2.0 + sampling
    shortfall = 0.0
    if mechanism is None:
        honest_tau = (honesty_margin + below_margin + sampling) / (1.0 - (task.c or 0.0))
        tau = max(tau, honest_tau)
        # The threshold is as large as τ allows. Rounding cannot make it negative.
        threshold = max(0.0, tau - below_margin - sampling)
    else:
        threshold = mechanism.threshold
        tau = max(tau, max(threshold, 0.0) + below_margin + sampling)
        if task.c is not None:
            shortfall = max(0.0, task.c * tau + honesty_margin - threshold)
    return shortfall, Design(
        tau=tau,
        sampling=sampling,
        noise=max(below_margin, corrected_margin),
        threshold=threshold,
        scales=scales,
        resolution=resolution,
        dp_epsilon=dp_epsilon,
        c=task.c,
    )


def _best_division(
    task, dp_epsilon, half_width, *, initial, rough=False, mechanism=None, resolution=0.0
):
    """Return the shortfall, the :class:`Design` and the logits of the division with minimal error.

    The shortfall is the amount by which the threshold of a configured ``mechanism`` is too low for
    budget honesty, 0 without a mechanism and if honesty is not guaranteed. ``half_width``: function
    from a log failure probability to the half-width for sampling; ``initial``: logits at which the
    search starts; a ``rough`` search has fewer iterations; ``resolution``: distance of possible
    answers, 0 for any answer.
    """

    def shortfall_and_design(logits):
        """Return the result of :func:`_shortfall_and_design` for an array of logits."""
        return _shortfall_and_design(
            task,
            dp_epsilon,
            half_width,
            logits.tolist(),
            mechanism=mechanism,
            resolution=resolution,
        )

    def objective(logits):
        """Return the certified error, plus a penalty for a shortfall."""
        shortfall, design = shortfall_and_design(logits)
        return design.tau + 100.0 * shortfall

    logits = minimize_logits(objective, initial, rough=rough)
    return *shortfall_and_design(logits), tuple(logits)


def minimize_logits(objective, initial, *, rough):
    """Return the array of logits that minimizes ``objective``, by Nelder-Mead from ``initial``.

    ``objective``: function of an array of logits; a ``rough`` search has fewer iterations.
    """

    def bounded_objective(logits):
        """Return the objective, infinite if a logit is too large."""
        if np.abs(logits).max() > _MAX_LOGIT:
            return math.inf
        return objective(logits)

    logits = np.asarray(initial, dtype=float)
    n_runs = 1 if rough else 2
    options = {"xatol": 1e-4, "fatol": 1e-7, "maxiter": 150 if rough else 500}
    for _ in range(n_runs):
        logits = minimize(bounded_objective, logits, method="Nelder-Mead", options=options).x
    return logits
