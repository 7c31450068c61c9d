"""Current guarantee of a holdout, computed from public numbers."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import beta as beta_distribution

from sklearn_bdp.accounting.noise_calibration import auto_threshold, zhao_required_n
from sklearn_bdp.accounting.spending import PredictiveCode, code_length
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.correlation.components import n_independent_units
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.intervals.auc import planned_half_width
from sklearn_bdp.intervals.bounds import UnitMoments, expected_betting_half_width
from sklearn_bdp.intervals.concentration import ModelTail, half_width, half_width_at, score_tail
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.release.batch_context import cell_width_policy, information_spent, next_code_length
from sklearn_bdp.release.certificate import (
    AnswerCounts,
    HoldoutCertificate,
    HoldoutRecords,
    MechanismSettings,
    WidthForecast,
)
from sklearn_bdp.release.graded_release import fine_half_width
from sklearn_bdp.utils.html import GIVEN_PAST
from sklearn_bdp.utils.validation import caller_level, confidence_level

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel
    from sklearn_bdp.release.calibration import Calibration

_MAX_SIMULATED_UNITS = 1000
_GOALS = (0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # half-widths, as fractions of the range


class _SingleQueryWidths(NamedTuple):
    """Widths for a single next query with a score near 1/2, as fractions of the range."""

    threshold: float  # distance from the prediction at which the query is corrected
    cell: float  # half-width of its cell, noise margin included
    sampling: float  # additional half-width by sampling


def _single_query_widths(
    totals: LedgerTotals,
    settings: Calibration,
    model: CorrelationModel,
    code: PredictiveCode | None = None,
) -> _SingleQueryWidths:
    """Return threshold and half-widths of a single next query with a score near 1/2.

    ``totals``: of the ledger. ``model``: dependence of the records. ``code``: predictive code
    after the batches so far; None for a new holdout.
    """
    length, _ = next_code_length(totals, settings)
    margin_confirmed, margin_corrected = settings.noise_margins(totals.n_rounds)
    cell_half_width = settings.resolution / 2.0
    if settings.threshold is not None:
        threshold = settings.threshold
    elif settings.is_adaptive:
        code = PredictiveCode() if code is None else code.copy()
        code.start_batch()
        _, offset_deviations = code.predict(np.array([0.5]))
        half_widths = fine_half_width(
            cell_width_policy(totals, settings, model, length),
            code,
            predictions=0.5,
            deviation_at=lambda _: math.sqrt(0.25 / settings.n_effective),
            training_factor=2.0,
            drift=offset_deviations,
            is_single_query=True,
        )
        threshold = cell_half_width = float(np.max(half_widths))
    else:
        threshold = float(auto_threshold(0.5, settings.n_effective, settings.n))
    log_failure = math.log(settings.sampling_failure) - length
    return _SingleQueryWidths(
        threshold=threshold,
        cell=max(threshold + margin_confirmed, cell_half_width + margin_corrected),
        sampling=float(np.ravel(half_width(log_failure, model, settings.n))[0]),
    )


#: Half-width, as a fraction of the range, for which a warning states the number of units.
_USEFUL_HALF_WIDTH = 0.1


def warn_if_vacuous(settings: Calibration, model: CorrelationModel) -> bool:
    """Warn if the interval of a first score of 1/2 would be [0, 1]; return whether it would.

    ``settings``: of a new holdout. ``model``: dependence of its records.
    """
    widths = _single_query_widths(LedgerTotals(), settings, model)
    first_half_width = widths.cell + widths.sampling
    if first_half_width < 0.5:
        return False
    required_text = ""
    scheme = model.sampling_scheme(settings.n)
    if math.isfinite(first_half_width):  # intervals shrink about with the root of n
        n_required = math.ceil(scheme.n_units * (first_half_width / _USEFUL_HALF_WIDTH) ** 2)
        required_text = (
            f"Bring more, or set a larger holdout=: about {n_required:,} holdout "
            f"{scheme.unit_name} give ±{_USEFUL_HALF_WIDTH:g}. "
        )
    unit_text = scheme.unit_name
    alternative = ""
    if unit_text == "groups":
        unit_text = "groups (patients, users, sites …)"
        alternative = (
            "If you search once, use nested cross-validation for the score, and do not report its "
            "interval. "
        )
    warnings.warn(
        f"The holdout of {scheme.n_units} {unit_text} is too small: a first score near 1/2 is only "
        f"known to ±{min(first_half_width, 0.5):.2g}. {required_text}{alternative}A final report "
        "is narrower: plan_search(half_width=0.1) computes how many it needs.",
        UninformativeIntervalWarning,
        stacklevel=caller_level(),
    )
    return True


def holdout_certificate(account: Any, ledger_state: Any) -> HoldoutCertificate:
    """Return the certificate of a holdout.

    ``account``: HoldoutAccountant. ``ledger_state``: LedgerState of its ledger.
    """
    totals = ledger_state.totals
    settings = account.settings
    model = account.dependence
    scheme = model.sampling_scheme(settings.n)
    widths = _single_query_widths(totals, settings, model, account.code(ledger_state))
    next_half_width = widths.cell + widths.sampling
    n_unfinished = len(ledger_state.notes(SystemNote.CLOSING)) - int(totals.closed)
    advice = ""
    if settings.threshold is None:  # a fixed threshold does not shrink with more records
        # Threshold, sampling error, automatic grid and noise shrink about like 1 / sqrt(n).
        advice = required_records_text(_GOALS, next_half_width, scheme)
        if totals.closed:
            advice = "The final report closed the holdout: it accepts no new query."
    final_half_width = None
    if not totals.closed:
        tail = ModelTail(model, settings.n)
        final_half_width = report_half_width(totals, settings, tail, 0.5, n_attempts=n_unfinished)
    dp_epsilon, bdp_epsilon = _privacy_levels(totals, settings, model)
    return HoldoutCertificate(
        confidence_level=confidence_level(settings.beta),
        half_width=min(1.0, _largest_half_width(totals, next_half_width)),
        dp_epsilon=dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        records=HoldoutRecords(
            n=settings.n,
            n_effective=settings.n_effective,
            correlation=model.describe(),
            target=estimand_text(scheme),
        ),
        answers=_answer_counts(totals, settings, ledger_state),
        mechanism=MechanismSettings(
            arguments=settings.mechanism_arguments(),
            threshold=widths.threshold,
            resolution=settings.resolution,
            n_queries=None if settings.tau is None else settings.parameters["n_queries"],
            budget=settings.budget,
            spending=settings.spending.policy.description,
            states_privacy=states_privacy(settings),
        ),
        forecast=WidthForecast(
            next_query=None if totals.closed else min(1.0, next_half_width),
            final_report=final_half_width,
            sampling=min(1.0, widths.sampling),
            noise=settings.noise_margins(totals.n_rounds)[0],
            advice=advice,
        ),
        assumptions=_assumptions(account, ledger_state),
        notes=_notes(totals, settings=settings, model=model, n_unfinished=n_unfinished),
    )


def _largest_half_width(totals: LedgerTotals, next_half_width: float) -> float:
    """Return the largest half-width of answers, with that of the next query unless none can follow.

    The next query stays included if no width of an answer is recorded.
    """
    if totals.closed and totals.widest > 0.0:
        return totals.widest
    return max(next_half_width, totals.widest)


def _privacy_levels(
    totals: LedgerTotals, settings: Calibration, model: CorrelationModel
) -> tuple[float, float]:
    """Return the DP and the BDP level (epsilon): for life with a budget, else those spent so far.

    Both are infinite if no finite level is valid.
    """
    dp_epsilon = totals.dp_epsilon
    if settings.budget is not None and dp_epsilon is not None:
        dp_epsilon = settings.make_mechanism().dp_epsilon(1.0 / settings.n)
    scheme = model.sampling_scheme(settings.n)
    if dp_epsilon is None or not math.isfinite(dp_epsilon) or scheme.calendar is not None:
        return math.inf, math.inf
    bdp_epsilon = float(model.bdp_epsilon(dp_epsilon, settings.n)) if dp_epsilon else 0.0
    return dp_epsilon, bdp_epsilon


def _answer_counts(totals: LedgerTotals, settings: Calibration, ledger_state: Any) -> AnswerCounts:
    """Return counts of answers and interval types, the information spent, and the next length."""
    interval_types = []
    if totals.has_approximate:
        interval_types = [answer.interval for answer in ledger_state.history()]
    return AnswerCounts(
        n_answers=totals.n_answered,
        n_relaxed=totals.n_relaxed,
        n_approximate=interval_types.count("approximate"),
        n_without_interval=interval_types.count("none"),
        information_spent=information_spent(totals, settings)[0],
        next_code_length=next_code_length(totals, settings)[0],
    )


def report_half_width(
    totals, settings, tail, score, *, n_attempts, unit_variance=math.nan, class_counts=None
):
    """Return the expected half-width of a final report now on one score, in units of [0, 1].

    Parameters
    ----------
    totals : LedgerTotals
        Totals of the ledger before the report.
    settings : Calibration
        Failure probabilities and noise of the holdout.
    tail : Tail
        Concentration bound of the score.
    score : float
        Expected score, in [0, 1].
    n_attempts : int
        Number of earlier final reports that did not finish.
    unit_variance : float, default=nan
        Expected variance of a unit's mean score; NaN if it is not known.
    class_counts : tuple of int, optional
        For ROC AUC, expected numbers of negative and positive units. None for other scores, and
        if units are not independent and exchangeable.
    """
    length, _ = next_code_length(totals, settings, is_report=True, n_attempts=n_attempts)
    log_one_sided = math.log(settings.sampling_failure / 2.0) - length
    if class_counts is not None and not settings.is_private:
        return planned_half_width(class_counts, score, log_one_sided)
    model = getattr(tail, "model", None)
    if model is not None:
        scheme = model.sampling_scheme(settings.n)
        can_bet = scheme.has_independent_units and scheme.exchangeable
        if can_bet and math.isfinite(unit_variance):
            n_units = n_independent_units(model, settings.n)
            return _betting_half_width(score, unit_variance, n_units, -log_one_sided)
        if scheme.has_independent_units and not scheme.has_independent_records:
            # A report uses units, not models: for a list, the groups independent under all models.
            labels = model.components(settings.n)
            tail = dataclasses.replace(tail, model=check_correlation("groups", groups=labels))
    _, margin_corrected = settings.noise_margins(totals.n_rounds)
    return half_width_at(tail, score, log_one_sided, margin_corrected * settings.final_noise_ratio)


def _betting_half_width(mean, variance, n_units, log_inverse_alpha):
    """Return the expected half-width of a betting interval for the mean score of units.

    Scores of at most 1,000 units are simulated by quantiles of a beta distribution. ``mean``,
    ``variance``: expected, of a unit's score. ``log_inverse_alpha``: minus the log of the failure
    probability of one side.
    """
    center = min(max(mean, 1e-6), 1.0 - 1e-6)
    bounded_variance = min(max(variance, 1e-12), 0.99 * center * (1.0 - center))
    concentration = center * (1.0 - center) / bounded_variance - 1.0
    n_simulated = min(n_units, _MAX_SIMULATED_UNITS)
    probabilities = (np.arange(n_simulated) + 0.5) / n_simulated
    unit_scores = beta_distribution.ppf(
        probabilities, center * concentration, (1.0 - center) * concentration
    )
    return expected_betting_half_width(
        np.nan_to_num(unit_scores),
        n_units,
        moments=UnitMoments(center, bounded_variance, 1.0),
        log_inverse_alpha=log_inverse_alpha,
    )


def half_width_components(answer, settings, model):
    """Return three components of the half-width of a recorded answer, in units of [0, 1].

    They are for sampling as if it were the only query, for the other queries, and for resolution
    with noise. None for a query that was not answered, or whose shape was not recorded.
    ``answer``: AnswerRecord with a score in [0, 1]. ``model``: dependence of the records.
    """
    if not answer.answered or answer.shape is None:
        return None
    tail = score_tail(model, settings.n, **answer.shape)
    answer_half_width = 0.5 * (answer.upper - answer.lower)
    log_one_sided = math.log(settings.sampling_failure / 2.0) - answer.code_length
    only_query_half_width = half_width_at(tail, answer.value, math.log(settings.beta / 2.0))
    sampling_half_width = half_width_at(tail, answer.value, log_one_sided)
    if not sampling_half_width > 0.0:  # as for a score that is known by construction
        return 0.0, 0.0, answer_half_width
    # If scores vary little, both components shrink by the same factor (G15).
    shrinkage = min(1.0, answer_half_width / sampling_half_width)
    sampling = shrinkage * only_query_half_width
    adaptivity = shrinkage * (sampling_half_width - only_query_half_width)
    noise = answer_half_width - shrinkage * sampling_half_width
    return sampling, adaptivity, noise


def estimand_text(scheme, forecast_horizon=1):
    """Return text on the records that intervals refer to (theory G26, G27).

    ``scheme``: SamplingScheme of the holdout. ``forecast_horizon``: for records in time order, the
    number of dates from a forecast to its outcome; 1: the calendar of the scheme applies.
    """
    if scheme.calendar is None:
        return "new records like these" if scheme.target == "new records" else scheme.target
    step = scheme.calendar.step
    condition = "before it"
    if scheme.calendar.horizon > 1:
        condition = f"one {step} before the outcome"
    if forecast_horizon > 1:
        condition = f"when the forecast was made, {forecast_horizon} {step}s before the outcome"
    return f"these {scheme.n_units:,} {step}s{GIVEN_PAST} available {condition}"


def states_privacy(settings: Calibration) -> bool:
    """Return whether a numeric ``epsilon`` or ``calibration="zhao2017"`` is set."""
    return settings.parameters["epsilon"] != "auto" or settings.tau is not None


def required_records_text(goals, half_width, scheme, range_length=1.0):
    """Return text on the additional units that reduce a half-width to a goal, or an empty text.

    The goal is the first one of at most 80% of ``half_width``.

    Parameters
    ----------
    goals : sequence of float
        Half-widths as fractions of the range, largest first.
    half_width : float
        Half-width with the present units, as a fraction of the range.
    scheme : SamplingScheme
        Sampling units of the holdout.
    range_length : float, default=1.0
        Length of the range of scores, in score units.
    """
    smaller_goals = [goal for goal in goals if goal <= 0.8 * half_width]
    if not smaller_goals or not math.isfinite(half_width):  # too few records for any bound
        return ""
    goal = smaller_goals[0]
    n_missing = math.ceil(scheme.n_units * (half_width / goal) ** 2) - scheme.n_units
    return f"about {n_missing:,} more holdout {scheme.unit_name} give ±{goal * range_length:.3g}"


def _assumptions(account, ledger_state):
    """Return the assumptions of the certificate, a tuple of texts."""
    totals = ledger_state.totals
    settings = account.settings
    model = account.dependence
    is_judged_by_date = model.sampling_scheme(settings.n).calendar is not None
    assumptions = [
        "rows are in time order, and which dates are held out did not depend on outcomes"
        if is_judged_by_date
        else "the declared correlation is right",
        "training set, models and cross-validated scores are made without the holdout",
        "the queries of one batch are fixed before any of its answers is seen",
        *model.caveats,
    ]
    if account.allows_shared_rows or ledger_state.notes(SystemNote.SHARED_ROWS):
        assumptions.append(
            "training records that equal holdout records are other records that look the same "
            "(allowed by allow_shared_rows)"
        )
    if totals.has_pairs:
        assumptions.append("records of one class are identically distributed (for ROC AUC)")
    if totals.has_ratios:
        assumptions.append("records are identically distributed (for precision, Jaccard and F1)")
    if settings.cut_failure > 0:
        assumptions.append(
            "the holdout was cut from the sequence of the training data with the declared gap "
            f"({settings.cut_failure:.2g} of the failure probability pays for it)"
        )
    if account.path is None:
        assumptions.append(
            _assumption_on_memory(
                has_other_account=bool(ledger_state.notes(SystemNote.ANOTHER_ACCOUNT))
            )
        )
    if account.seed is not None or totals.seeded:
        assumptions.append(
            "fixed random_state, for tests only: no one who queries the holdout knows the seed, "
            "which reveals the noise"
        )
    return tuple(assumptions)


def _assumption_on_memory(*, has_other_account):
    """Return the assumption on a holdout with its ledger in memory, as text.

    ``has_other_account``: whether another holdout of the process, made of the same data, answered
    queries before.
    """
    if has_other_account:
        return (
            "kept in memory only, and another account had answered about the same targets in this "
            "process before: no query here (features, candidates) was chosen from its answers or "
            "on these records (pass holdout= on to keep both in one ledger)"
        )
    return (
        "kept in memory only: no other holdout is made of these records, now or later (give a "
        "ledger to enforce this)"
    )


def _notes(totals, *, settings, model, n_unfinished):
    """Return the notes of a certificate, a tuple of texts.

    ``totals``: of the ledger. ``model``: dependence of the records. ``n_unfinished``: number
    of final reports that did not finish.
    """
    notes = [
        f"charged as used. Answers: {totals.n_answered:,}, batches: {totals.number:,}, corrected "
        f"by the holdout: {totals.n_above:,}. A score near an end of its range has a narrower "
        "interval"
    ]
    if n_unfinished:
        notes.append(
            f"final reports that were begun and did not finish: {n_unfinished:,}. Nothing of them "
            "was released, and how they ended is charged (G35)"
        )
    if settings.information is not None:
        notes.append(_theorem_note(totals, settings))
    if totals.has_approximate:
        notes.append(
            "no level of privacy is stated: one record may change a metric without a proven bound "
            "by any amount. Approximate intervals rest on the spread of out-of-fold predictions of "
            "the training set (G34)"
        )
    elif states_privacy(settings) and settings.budget is None and settings.tau is None:
        continuation = "" if totals.closed else "; without a budget they keep growing"
        notes.append(f"privacy levels are those spent so far{continuation}")
    if settings.tau is not None:
        notes.append(_zhao_note(settings, model=model, n_answered=totals.n_answered))
    return tuple(notes)


def _theorem_note(totals: LedgerTotals, settings: Calibration) -> str:
    """Return the note on the theorem of the next answer, for a holdout with a leakage bound."""
    nats, theorem = next_code_length(totals, settings)
    basis = "leakage, that is Bayesian differential privacy (G1)"
    comparison = ""
    if theorem == "code":
        basis = "the code of released answers (G7)"
    else:
        nats_by_code = code_length(
            released=totals.released, batch_index=totals.number + 1, spending=settings.spending
        ) + math.log(2.0)
        comparison = f" instead of {nats_by_code:.3g} by the code"
    return (
        f"the next answer rests on {basis}, {nats:.3g} nats{comparison}; both hold at half "
        "the failure probability each, and every answer uses the one that makes it sharper (G9)"
    )


def _zhao_note(settings, *, model, n_answered):
    """Return the note on the number of records that Theorem 2 of Zhao 2017 needs.

    ``model``: dependence of the records. ``n_answered``: number of queries answered so far.
    """
    tau = settings.tau
    c = 2.0 * settings.threshold / tau - 1.0
    n_queries = settings.parameters["n_queries"]
    required_n = zhao_required_n(
        tau=tau,
        n_queries=n_queries,
        budget=settings.parameters["budget"],
        beta=settings.parameters["beta"],
        c=c,
        model=model,
        n=settings.n,
    )
    conclusion = f"suffices for n_queries={n_queries}"
    if not settings.n >= required_n:
        conclusion = "is less, so the theorem gives no guarantee here"
    elif n_answered >= n_queries:
        conclusion = f"suffices, but n_queries={n_queries} are used up"
    return (
        f"Zhao 2017, Theorem 2, at tau={tau:.3g} and c={c:.3g}: n_#={required_n:,.4g} records "
        f"asked for, n={settings.n:,} {conclusion}"
    )
