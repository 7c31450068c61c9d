"""Forecast of the holdout size for a year of searches (theory G16, G17)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sklearn_bdp._typing import Correlation
from sklearn_bdp.accounting.noise_calibration import (
    NOISE_FAILURE_FRACTION,
    answer_margin,
    auto_scales,
    round_noise_failure,
)
from sklearn_bdp.accounting.spending import (
    AlphaSpending,
    code_length,
    final_code_length,
    rank_code_lengths,
)
from sklearn_bdp.correlation import Independent
from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.intervals.auc import planned_half_width
from sklearn_bdp.intervals.bounds import (
    expected_betting_half_width,
    plan_bets,
    relative_deviation,
    unit_moments,
)
from sklearn_bdp.intervals.concentration import ModelTail, half_width_at, score_tail
from sklearn_bdp.metrics.base import BoundedMetric
from sklearn_bdp.metrics.proofs import UNIT_INTERVALS, dependence_of_scheme
from sklearn_bdp.metrics.registry import planned_metric
from sklearn_bdp.planning.models import continued
from sklearn_bdp.release.graded_release import make_width_policy
from sklearn_bdp.utils.root_finding import doubled, last_whole
from sklearn_bdp.utils.validation import (
    check_integer,
    check_probability,
    check_real,
    failure_probability,
)

# Information that a year of searches releases. At its start and for each search if the holdout
# confirms cross-validation: 0.5 to 0.8 nats after ten searches of 10 or 100 candidates. For the
# first correction, of a bias that all candidates share, and for each further correction: by
# ``benchmarks/simulate_year.py``.
_NATS_AT_START = 0.5
_NATS_PER_SEARCH = 0.02
_NATS_OF_FIRST_CORRECTION = 4.0
_NATS_PER_CORRECTION = 7.0
#: Standard deviation of the difference between a holdout score and a cross-validated score of three
#: times as many records, as a multiple of that of the holdout score.
_DIFFERENCE_DEVIATION = math.sqrt(4 / 3)
#: Planned half-width of a report over the expected one, which about half of the reports exceed.
_EXPECTED_EXCESS = 1.04
#: A planned class has fewer records than expected by this many standard deviations of its number.
_FEWER_OF_CLASS = 0.5
#: Number of orders of simulated units.
_N_ORDERS = 12
#: Relative accuracy of the planned number of records: for scores of 0 and 1, and for others, whose
#: simulated bets and grids of limits are no more accurate.
_RELATIVE_STEP, _RELATIVE_STEP_OF_OTHERS = 0.001, 0.01


class SearchPlan(int):
    """Number of holdout records, an int whose ``str`` is a sentence about the plan."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"SearchPlan({int(self)}): {self.text}"


def plan_search(
    half_width: float,
    *,
    scoring: str | BoundedMetric | None = None,
    prevalence: float | None = None,
    n_searches: int = 10,
    final: bool = True,
    correlation: Correlation = None,
    n_candidates: int = 100,
    score: float = 0.9,
    n_corrections: int = 0,
    confidence_level: float = 0.95,
) -> SearchPlan:
    r"""Return the smallest holdout whose final report has a given half-width.

    The number is a forecast, not a certificate. :class:`~sklearn_bdp.ReusableHoldout` charges each
    answer as used, so the width of its intervals depends on how often cross-validation is wrong.
    Their coverage does not. The forecast is about the final report on the selected candidate, or
    about its interval in the last search. At the planned number, 55 to 95% of simulated reports
    have the half-width, by metric (``python -m benchmarks.planned_sizes``).

    How far scores of records vary is a guess from ``score``, which the text of the plan states. For
    ROC AUC, scores are normal with equal variances in both classes. Probabilities are calibrated
    and follow from such scores, and errors are normal. Heavier tails, overconfident probabilities,
    and scores below those of chance need more records.

    Parameters
    ----------
    half_width : float
        Wanted half-width, in (0, 0.5): in score units for a metric in [0, 1], otherwise as a
        fraction of its range.
    scoring : str or BoundedMetric, default=None
        The metric, or its name. Accuracy by default.
    prevalence : float, default=None
        Proportion of positive records (events). The width of ROC AUC, balanced accuracy, recall
        and specificity depends on their number, and that of the Brier score and the log loss on
        their proportion. By default 1/2, which the text of a plan by class states.
    n_searches : int, default=10
        Number of searches, each based on the results of the earlier ones.
    final : bool, default=True
        Whether the interval is that of the final report. If False, that of the last search.
    correlation : None, array, sparse matrix, graph, CorrelationModel, list or "time"
        Dependence of the records. None: independent; ``"time"``: in time order.
    n_candidates : int, default=100
        Number of candidates of each search, verified as one batch.
    score : float, default=0.9
        Score of the selected candidate, in [0, 1]: one minus a loss as a fraction of its range.
        Intervals are narrower near 0 and 1.
    n_corrections : int, default=0
        Number of corrected answers in all searches. With 0 the holdout confirms cross-validation,
        as in about seven of eight simulated years without a bias. Pass 1 if cross-validation may be
        biased, for example after features were chosen on the same rows: the first correction
        usually corrects a bias that all candidates share, and takes about 2.4 times as many
        records.
    confidence_level : float, default=0.95
        Minimum probability that all intervals are correct together.

    Returns
    -------
    SearchPlan
        Number of holdout records, at most about 1% above the smallest, an ``int`` with a text.

    Raises
    ------
    TypeError, ValueError
        If a parameter is outside its range, or no number of records up to 10^12 suffices.

    See Also
    --------
    ReusableHoldout.preview : Widths and cost of the next batch of an existing holdout.
    plan_holdout : The same for an error certified in advance.

    References
    ----------
    Theory G16 and G17; compare ``benchmarks/simulate_year.py``.

    Examples
    --------
    >>> from sklearn_bdp.planning import plan_holdout, plan_search
    >>> n = plan_search(0.05, n_searches=10)
    >>> n < plan_holdout(tau=0.05, n_queries=1000, budget=3) / 10
    True
    >>> patients = plan_search(0.08, scoring="roc_auc", prevalence=0.1, score=0.8)
    >>> bool(patients > 4 * plan_search(0.08, score=0.8))
    True
    """
    half_width = check_real("half_width", half_width, low=0.0, high=0.5, closed="neither")
    model = continued(correlation, searched=True)
    metric = planned_metric("accuracy" if scoring is None else scoring)

    def is_enough(n):
        """Return whether the forecast for ``n`` holdout records is at most ``half_width``."""
        forecast = expected_half_width(
            n,
            scoring=scoring,
            prevalence=prevalence,
            n_searches=n_searches,
            final=final,
            correlation=model,
            n_candidates=n_candidates,
            score=score,
            n_corrections=n_corrections,
            confidence_level=confidence_level,
            goal=half_width,
        )
        return forecast <= half_width

    bracket = doubled(is_enough, 2, largest=10**12)
    if bracket is None:
        raise ValueError(f"no number of records suffices for half_width={half_width!r}.")
    n_enough, n_too_few = bracket
    is_proportion = metric.is_mean and metric.is_binary
    rtol = _RELATIVE_STEP if is_proportion else _RELATIVE_STEP_OF_OTHERS
    plan = SearchPlan(last_whole(is_enough, n_enough, n_too_few, rtol=rtol))
    plan.text = _text_of_plan(
        plan,
        half_width,
        metric,
        scheme=model.sampling_scheme(int(plan)),
        prevalence=prevalence,
        n_searches=n_searches,
        final=final,
        n_candidates=n_candidates,
        score=score,
        n_corrections=n_corrections,
    )
    return plan


def _text_of_plan(
    plan,
    half_width,
    metric,
    *,
    scheme,
    prevalence,
    n_searches,
    final,
    n_candidates,
    score,
    n_corrections,
):
    """Return a sentence on a planned number of records, with its units, events and assumptions.

    ``plan``: number of holdout records; ``scheme``: their sampling scheme. The other arguments are
    those of :func:`plan_search`.
    """
    units_text = ""
    if scheme.n_units != int(plan):
        units_text = f" in {scheme.n_units:,} {scheme.unit_name}"
    events_text = ""
    if not metric.is_mean:
        n_events = math.ceil(plan * (prevalence or 0.5))
        prevalence_text = " (prevalence=0.5 is assumed)" if prevalence is None else ""
        events_text = f", {n_events:,} of them events{prevalence_text}"
    variation_text = ""  # assumption on how far the scores of records vary
    if metric.is_mean:
        variation_text = metric.planned_scores(score, prevalence or 0.5).assumption
    elif final and metric.planned_shape(1, (1, 1)).kind == "pairs":
        variation_text = " of normal scores"
    interval_text = "the final report" if final else "the last search"
    return (
        f"{int(plan):,} holdout records{units_text}{events_text}, about {4 * plan:,} in all if a "
        f"quarter is held out: half-width {half_width:g} in {interval_text} of {n_searches:,} "
        f"searches of {n_candidates:,} candidates, at a score of {score:g}{variation_text}"
        f"{', if the holdout confirms cross-validation' * (n_corrections == 0)}."
    )


def expected_half_width(
    n,
    *,
    n_searches,
    score,
    n_corrections=0,
    n_candidates=100,
    scoring=None,
    prevalence=None,
    final=True,
    confidence_level=0.95,
    correlation=None,
    goal=1.0,
):
    """Return the half-width that :func:`plan_search` forecasts for ``n`` holdout records.

    It is a fraction of the metric's range. The other arguments are those of :func:`plan_search`;
    ``correlation`` may also be a CorrelationModel for any number of records. A result above
    ``goal`` may be too small, because bets are simulated only if their half-width may be below.
    """
    n = check_integer("n", n, low=1)
    score = check_real("score", score, low=0.0, high=1.0)
    n_candidates = check_integer("n_candidates", n_candidates, low=1)
    n_searches = check_integer("n_searches", n_searches, low=1)
    n_corrections = check_integer("n_corrections", n_corrections, low=0)
    is_model = hasattr(correlation, "sampling_scheme")
    model = correlation if is_model else continued(correlation, searched=True)
    beta = failure_probability(confidence_level)
    metric = planned_metric("accuracy" if scoring is None else scoring)
    positive_fraction = check_probability("prevalence", 0.5 if prevalence is None else prevalence)
    tail = _metric_tail(metric, model, n, positive_fraction)
    noise_margin = _planned_noise_margin(model, n, tail, beta=beta, n_corrections=n_corrections)
    released_nats = expected_nats(n_searches, n_corrections)
    log_one_sided = math.log((1.0 - NOISE_FAILURE_FRACTION) * beta / 2.0)
    if not final:
        log_one_sided -= code_length(released=released_nats, batch_index=n_searches)
        return _last_search_half_width(
            metric,
            model,
            n,
            tail,
            score=score,
            prevalence=positive_fraction,
            n_searches=n_searches,
            n_candidates=n_candidates,
            log_one_sided=log_one_sided,
            noise_margin=noise_margin,
        )
    log_one_sided -= final_code_length(released=released_nats, n_batches=n_searches)
    half_width = _report_half_width(
        metric,
        model,
        n,
        score=score,
        prevalence=positive_fraction,
        log_one_sided=log_one_sided,
        goal=goal,
    )
    if half_width is None:
        half_width = half_width_at(tail, score, log_one_sided, noise_margin)
    return _EXPECTED_EXCESS * half_width


def _planned_noise_margin(model, n, tail, *, beta, n_corrections):
    """Return a limit of the noise in an answer, as a fraction of the metric's range.

    ``model``: CorrelationModel of the ``n`` holdout records; ``tail``: concentration bound of the
    metric; ``beta``: failure probability of all intervals together; ``n_corrections``: number of
    corrected answers.
    """
    accuracy_tail = score_tail(model, n, binary=True)
    noise_failure = NOISE_FAILURE_FRACTION * beta
    _, _, answer_scale = auto_scales(
        float(model.effective_n(n)), failure=round_noise_failure(noise_failure, 0) / 2.0, beta=beta
    )
    # Noise is scaled with the deviation of the metric's score, relative to accuracy.
    noise_factor = float(tail.standard_deviation(0.5) / accuracy_tail.standard_deviation(0.5))
    one_sided_failure = round_noise_failure(noise_failure, n_corrections) / 2.0
    return answer_margin(failure=one_sided_failure, answer_scale=answer_scale) * noise_factor


def _last_search_half_width(
    metric,
    model,
    n,
    tail,
    *,
    score,
    prevalence,
    n_searches,
    n_candidates,
    log_one_sided,
    noise_margin,
):
    """Return the half-width of the best candidate's interval in the last search.

    ``model``: CorrelationModel of the ``n`` holdout records; ``tail``: concentration bound of the
    metric; ``log_one_sided``: log of the failure probability of one side of the last search's
    intervals; ``noise_margin``: limit of the noise in an answer. Half-widths and margins are
    fractions of the metric's range.
    """
    best_rank_length = float(rank_code_lengths(np.zeros(n_candidates))[0])  # in nats
    scheme = model.sampling_scheme(n)
    policy = make_width_policy(
        AlphaSpending(), n_searches, log_one_sided, given_rest=scheme.is_conditional
    )
    relative_half_width = policy.fine_half_widths(  # in standard deviations of the score
        _DIFFERENCE_DEVIATION,
        n_searches - 1,
        rank_lengths=best_rank_length,
        cv_deviation=_DIFFERENCE_DEVIATION,
    )
    score_deviation = float(tail.standard_deviation(score))
    log_one_sided -= best_rank_length
    half_width = half_width_at(
        tail, score, log_one_sided, noise_margin + relative_half_width * score_deviation
    )
    if metric.is_mean and not metric.is_binary and scheme.has_iid_records:
        half_width_by_bets = _half_width_by_bets(
            metric.planned_scores(score, prevalence),
            n,
            log_one_sided=log_one_sided,
            noise_margin=noise_margin,
            cell_half_width=float(relative_half_width) * score_deviation,
        )
        half_width = min(half_width, half_width_by_bets)
    return half_width


def _half_width_by_bets(planned_scores, n, *, log_one_sided, noise_margin, cell_half_width):
    """Return the half-width of an interval by bets on ``n`` records (theory G15).

    It is 1 if scores vary too much for bets. ``planned_scores``: :class:`PlannedScores` in [0, 1];
    ``log_one_sided``: log of the failure probability of one side; ``noise_margin``: limit of the
    noise in an answer; ``cell_half_width``: half-width of the range that an answer gives for the
    holdout score, if scores of records are 0 and 1.
    """
    mean = float(np.mean(planned_scores.quantiles))
    variance = float(np.var(planned_scores.quantiles))
    n_training = 3.0 * n  # if a quarter is held out
    betting_plan = plan_bets(
        [mean],
        [variance],
        training_sizes=[n_training],
        n=n,
        log_failure=log_one_sided + math.log(2.0),
        margin=noise_margin,
    )
    if not betting_plan.is_eligible[0]:
        return 1.0
    # Scores that vary less have a narrower range.
    cell_half_width *= float(relative_deviation(mean * (1.0 - mean), variance, n_training))
    # Ends of the range of the holdout score, arrays of shape (1,).
    lowest, highest = np.clip(
        mean + (cell_half_width + noise_margin) * np.array([[-1.0], [1.0]]), 0.0, 1.0
    )
    # As if the holdout confirms the lowest limit that is tried for the shortfall of the bets.
    ratio_limit = min(1.0, float(betting_plan.limits_to_try(0)[0]) + noise_margin)
    lower, upper = betting_plan.limits(lowest, highest, np.array([log_one_sided]), {0: ratio_limit})
    return 0.5 * float(upper[0] - lower[0])


def _report_half_width(metric, model, n, *, score, prevalence, log_one_sided, goal):
    """Return the half-width of a final report as a fraction of the metric's range.

    None if a concentration bound is to be used instead. ``model``: CorrelationModel of the ``n``
    holdout records; ``prevalence``: proportion of positive records; ``log_one_sided``: log of the
    failure probability of one side; ``goal``: a result above it may be too small.
    """
    scheme = model.sampling_scheme(n)
    method = metric.proof(dependence_of_scheme(scheme))
    if metric.is_mean:
        if metric.is_binary or method not in UNIT_INTERVALS:
            return None
        scores, _ = metric.planned_scores(score, prevalence)
        return expected_betting_half_width(
            scores,
            n_independent_units(model, n),  # as if the records of a unit were equal
            moments=unit_moments(scores, np.ones(len(scores))),
            log_inverse_alpha=-log_one_sided,
            interval=UNIT_INTERVALS[method],
            n_orders=_N_ORDERS,
        )
    if not method:
        return None
    return _half_width_by_class(
        metric, model, n, score=score, prevalence=prevalence, log_one_sided=log_one_sided, goal=goal
    )


def _half_width_by_class(metric, model, n, *, score, prevalence, log_one_sided, goal):
    """Return the half-width of a final report on a metric that depends on class counts.

    It is a fraction of the metric's range. ``model``: CorrelationModel of the ``n`` holdout
    records; ``prevalence``: proportion of positive records; ``log_one_sided``: log of the failure
    probability of one side; ``goal``: a result above it may be too small.
    """
    n_units = n_independent_units(model, n)
    count_deviation = math.sqrt(n_units * prevalence * (1.0 - prevalence))
    class_counts = tuple(
        max(1, round(n_units * proportion - _FEWER_OF_CLASS * count_deviation))
        for proportion in (1.0 - prevalence, prevalence)
    )
    shape = metric.planned_shape(n, class_counts)
    if shape.kind == "pairs":
        return planned_half_width(class_counts, score, log_one_sided, goal=goal)
    # A report reads the class counts.
    tail = score_tail(model, n, **dataclasses.asdict(shape) | {"class_floors": class_counts})
    half_width = half_width_at(tail, score, log_one_sided)
    counted_classes = (0, 1) if shape.counted_classes is None else shape.counted_classes
    # Limits of the recall of each class, at an equal part of the failure probability.
    recall_half_widths = [
        half_width_at(
            ModelTail(Independent(), class_counts[position], binary=True),
            score,
            log_one_sided - math.log(len(counted_classes)),
        )
        for position in counted_classes
    ]
    return min(half_width, float(np.mean(recall_half_widths)))


def _metric_tail(metric, model, n, positive_fraction):
    """Return the concentration bound of a metric on ``n`` holdout records.

    Metrics by class use the expected class counts of ``3 * n`` training records.
    """
    # If a quarter is held out, three times as many records remain for training.
    class_counts = tuple(
        max(1, round(3 * n * proportion))
        for proportion in (1.0 - positive_fraction, positive_fraction)
    )
    shape = metric.planned_shape(n, class_counts)
    return score_tail(model, n, **dataclasses.asdict(shape))


def expected_nats(n_searches, n_corrections):
    """Return the information in nats that ``n_searches`` searches are expected to release."""
    nats = _NATS_AT_START + _NATS_PER_SEARCH * n_searches + _NATS_PER_CORRECTION * n_corrections
    if n_corrections > 0:
        nats += _NATS_OF_FIRST_CORRECTION - _NATS_PER_CORRECTION
    return nats
