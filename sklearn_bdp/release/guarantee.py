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
    """Widths of a next single query with a score near 1/2, as fractions of the range."""

    threshold: float  # distance from the prediction at which the query is corrected
    cell: float  # half-width of its cell, noise margin included
    sampling: float  # half-width for sampling


def _single_query_widths(
    totals: LedgerTotals,
    settings: Calibration,
    model: CorrelationModel,
    code: PredictiveCode | None = None,
) -> _SingleQueryWidths:
    """Return the widths of a next single query with a score near 1/2.

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
        _, drifts = code.predict(np.array([0.5]))
        half_widths = fine_half_width(
            cell_width_policy(totals, settings, model, length),
            code,
            predictions=0.5,
            deviation=lambda _: math.sqrt(0.25 / settings.n_effective),
            training_factor=2.0,
            drift=drifts,
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
    """Warn if even the interval of a first score near 1/2 is [0, 1]; return whether it is.

    ``model``: dependence of the records.
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
    """Return the current guarantee of the holdout of a :class:`HoldoutAccountant`.

    ``ledger_state``: :class:`LedgerState` of its ledger.
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
    n_approximate, n_without_interval = _count_intervals(totals, ledger_state)
    dp_epsilon, bdp_epsilon = _privacy_levels(totals, settings, model)
    return HoldoutCertificate(
        confidence_level=confidence_level(settings.beta),
        half_width=min(1.0, max(next_half_width, totals.widest)),
        dp_epsilon=dp_epsilon,
        bdp_epsilon=bdp_epsilon,
        records=HoldoutRecords(
            n=settings.n,
            n_effective=settings.n_effective,
            correlation=model.describe(),
            target=estimand_text(scheme),
        ),
        answers=AnswerCounts(
            n_answers=totals.n_answered,
            n_relaxed=totals.n_relaxed,
            n_approximate=n_approximate,
            n_without_interval=n_without_interval,
            information_spent=information_spent(totals, settings)[0],
            next_code_length=next_code_length(totals, settings)[0],
        ),
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


def _privacy_levels(
    totals: LedgerTotals, settings: Calibration, model: CorrelationModel
) -> tuple[float, float]:
    """Return the DP and the BDP level: for life with a budget, else those spent so far.

    Both are infinite if no finite level holds.
    """
    dp_epsilon = totals.dp_epsilon
    if settings.budget is not None and dp_epsilon is not None:
        dp_epsilon = settings.make_mechanism().dp_epsilon(1.0 / settings.n)
    scheme = model.sampling_scheme(settings.n)
    if dp_epsilon is None or not math.isfinite(dp_epsilon) or scheme.calendar is not None:
        return math.inf, math.inf
    bdp_epsilon = float(model.bdp_epsilon(dp_epsilon, settings.n)) if dp_epsilon else 0.0
    return dp_epsilon, bdp_epsilon


def _count_intervals(totals: LedgerTotals, ledger_state: Any) -> tuple[int, int]:
    """Return the number of answers with an approximate interval, and of those without any."""
    if not totals.has_approximate:
        return 0, 0
    interval_types = [answer.interval for answer in ledger_state.history()]
    return interval_types.count("approximate"), interval_types.count("none")


def report_half_width(
    totals, settings, tail, score, *, n_attempts, unit_variance=math.nan, class_counts=None
):
    """Return the expected half-width of a final report on one score, if it were given now.

    It is a fraction of the range of scores.

    Parameters
    ----------
    totals : LedgerTotals
        Totals of the latest record in the ledger.
    settings : Calibration
        Failure probabilities and noise of the holdout.
    tail : Tail
        Concentration of the score.
    score : float
        Expected score, in [0, 1].
    n_attempts : int
        Number of earlier final reports that did not finish.
    unit_variance : float, default=nan
        Expected variance of a unit's mean score; NaN if it is not known.
    class_counts : tuple of int, optional
        Of ROC AUC, the expected numbers of independent units of both classes. None for other
        scores, and if units are not alike.
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
            return _betting_half_width(score, unit_variance, scheme.n_units, -log_one_sided)
        if scheme.has_independent_units and not scheme.has_independent_records:
            # A report uses units, not models: for a list, the groups independent under all models.
            labels = model.components(settings.n)
            tail = dataclasses.replace(tail, model=check_correlation("groups", groups=labels))
    _, margin_corrected = settings.noise_margins(totals.n_rounds)
    return half_width_at(tail, score, log_one_sided, margin_corrected * settings.final_noise_ratio)


def _betting_half_width(mean, variance, n_units, log_inverse_alpha):
    """Return the half-width of a mean by bets on units whose scores have a beta distribution.

    Bets of at most 1,000 units are simulated. ``mean`` and ``variance``: expected of a unit's
    score. ``log_inverse_alpha``: minus the log of the failure probability of one side.
    """
    center = min(max(mean, 1e-6), 1.0 - 1e-6)
    bounded_variance = min(max(variance, 1e-12), 0.99 * center * (1.0 - center))
    concentration = center * (1.0 - center) / bounded_variance - 1.0
    n_simulated = min(n_units, _MAX_SIMULATED_UNITS)
    probabilities = (np.arange(n_simulated) + 0.5) / n_simulated
    scores = beta_distribution.ppf(
        probabilities, center * concentration, (1.0 - center) * concentration
    )
    return expected_betting_half_width(
        np.nan_to_num(scores),
        n_units,
        moments=UnitMoments(center, bounded_variance, 1.0),
        log_inverse_alpha=log_inverse_alpha,
    )


def half_width_components(answer, settings, model):
    """Return the components of the half-width of an answer in [0, 1], from its own record.

    They are for sampling (one fixed query), for all other queries (mainly its code length), and for
    resolution with noise, as fractions of the range. None for a query that was not answered, or
    whose shape was not recorded. ``model``: dependence of the records.
    """
    if not answer.answered or answer.shape is None:
        return None
    tail = score_tail(model, settings.n, **answer.shape)
    answer_half_width = 0.5 * (answer.upper - answer.lower)
    log_one_sided = math.log(settings.sampling_failure / 2.0) - answer.code_length
    half_width_of_one_query = half_width_at(tail, answer.value, math.log(settings.beta / 2.0))
    half_width_after_queries = half_width_at(tail, answer.value, log_one_sided)
    if not half_width_after_queries > 0.0:  # as for a score that is known by construction
        return 0.0, 0.0, answer_half_width
    # If scores vary little, both components shrink by the same factor (G15).
    shrinkage = min(1.0, answer_half_width / half_width_after_queries)
    sampling = shrinkage * half_width_of_one_query
    adaptivity = shrinkage * (half_width_after_queries - half_width_of_one_query)
    noise = answer_half_width - shrinkage * half_width_after_queries
    return sampling, adaptivity, noise


def estimand_text(scheme, forecast_horizon=1):
    """Return the target of intervals as text, such as new records or these dates (theory G26, G27).

    ``forecast_horizon``: for dates, the number of dates from the forecast to
    its outcome. With 1, the calendar determines the condition in the text.
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
    """Return whether a level of privacy was asked for."""
    return settings.parameters["epsilon"] != "auto" or settings.tau is not None


def required_records_text(goals, half_width, scheme, range_length=1.0):
    """Return a text on the additional units for a clearly smaller half-width, or an empty text.

    Parameters
    ----------
    goals : sequence of float
        Half-widths as fractions of the range, largest first.
    half_width : float
        Half-width with the present units, as a fraction of the range.
    scheme : SamplingScheme
        Units of the holdout.
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
    lines = [
        "rows are in time order, and which dates are held out did not depend on outcomes"
        if is_judged_by_date
        else "the declared correlation is right",
        "training set, models and cross-validated scores are made without the holdout",
        "the queries of one batch are fixed before any of its answers is seen",
        *model.caveats,
    ]
    if account.allows_shared_rows or ledger_state.notes(SystemNote.SHARED_ROWS):
        lines.append(
            "training records that equal holdout records are other records that look the same "
            "(allowed by allow_shared_rows)"
        )
    if totals.has_pairs:
        lines.append("records of one class are identically distributed (for ROC AUC)")
    if totals.has_ratios:
        lines.append("records are identically distributed (for precision, Jaccard and F1)")
    if settings.cut_failure > 0:
        lines.append(
            "the holdout was cut from the sequence of the training data with the declared gap "
            f"({settings.cut_failure:.2g} of the failure probability pays for it)"
        )
    if account.path is None:
        lines.append(
            _assumption_on_memory(
                has_other_account=bool(ledger_state.notes(SystemNote.ANOTHER_ACCOUNT))
            )
        )
    if account.seed is not None or totals.seeded:
        lines.append(
            "fixed random_state, for tests only: no one who queries the holdout knows the seed, "
            "which reveals the noise"
        )
    return tuple(lines)


def _assumption_on_memory(*, has_other_account):
    """Return the assumption on a holdout without a ledger."""
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
    """Return further notes for the reader of a certificate, in a tuple.

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
        notes.append(_zhao_line(settings, model=model, n_answered=totals.n_answered))
    return tuple(notes)


def _theorem_note(totals: LedgerTotals, settings: Calibration) -> str:
    """Return the note on the theorem that the next answer rests on; leakage must be bounded."""
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


def _zhao_line(settings, *, model, n_answered):
    """Return the note on the premises of Zhao's Theorem 2.

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
