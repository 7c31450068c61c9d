"""The final report: computation of its rows from the holdout, and content of its closing record."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Any

import numpy as np

from sklearn_bdp._version import __version__
from sklearn_bdp.ledger.batch_record import BatchRecord, LedgerTotals
from sklearn_bdp.ledger.records import Answers, canonical
from sklearn_bdp.metrics.base import Evaluation
from sklearn_bdp.release.batch import answer_batch, exhausted_error
from sklearn_bdp.release.batch_context import BatchContext, next_code_length
from sklearn_bdp.release.guarantee import estimand_text, half_width_components
from sklearn_bdp.release.query_batch import QueryDescription, make_query_batch
from sklearn_bdp.report.closing import close_holdout, closing_record
from sklearn_bdp.report.final_report import FIELD_NAMES, FinalReport, ReportRow
from sklearn_bdp.report.in_time import WalkForward, record_error_clips
from sklearn_bdp.report.measures import PrecomputedPredictions, ScoredRecords, is_label
from sklearn_bdp.report.plan import make_report_plan, with_estimated_moments
from sklearn_bdp.report.rows import RowEstimator, row_log_alphas
from sklearn_bdp.utils.hashing import records_digest
from sklearn_bdp.utils.validation import strip_traceback_frames


@strip_traceback_frames
def report_and_close(
    holdout: Any,
    estimators: Any,
    cv_scores: Any,
    *,
    variance: float | None = None,
    training: Any = None,
    **report_options: Any,
) -> FinalReport:
    """Close the holdout and return its final report; see :meth:`ReusableHoldout.final_report`.

    ``cv_scores``: cross-validated score of each model in score units, or one for all; None or NaN
    if unknown. ``variance``: variance over records of the first row's cross-validated score, for
    scores in [0, 1]; None if unknown. ``training``: training records as ``(X, y)`` or
    ``(X, y, groups)``, or None.
    """
    holdout.account.check_process()
    plan = make_report_plan(holdout, estimators, cv_scores, training=training, **report_options)
    return _closing_report(holdout, plan, training, variance)


def _closing_report(holdout, plan, training, variance):
    """Compute, record and return the report of a plan, or return it if it is recorded already.

    Raise ValueError if no row can have an interval. ``training``: training records as ``(X, y)`` or
    ``(X, y, groups)``, or None. ``variance``: variance over records of the first row's
    cross-validated score, for scores in [0, 1], or None.
    """
    account = holdout.account
    identity = json.loads(canonical(plan.identity()))
    with account.read_transaction() as ledger_state:
        record = closing_record(ledger_state, identity)  # if a script runs twice
    if record is None:
        _check_intervals(plan, holdout)
        if plan.error_clips is not None:
            record_error_clips(holdout, plan.error_clips, at_closing=True)
        if not plan.is_private:
            plan = with_estimated_moments(plan, training, variance, holdout)
    if plan.refit is not None:
        plan = _with_refitted_recipes(plan, holdout)
    if record is None:
        record = close_holdout(
            account,
            identity,
            lambda context: _computed_report(holdout, plan, context),
            fixed=[_fixed_values(statement) for statement in plan.statements],
            check=lambda totals: _check_budget(holdout, plan, totals),
        )
    report = load_report(holdout, record)
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is None or not plan.statements[0].proven:
        return report
    get_dates_and_scores = functools.partial(RowEstimator(plan, holdout, seed=0).over_time, holdout)
    return dataclasses.replace(report, _over_time=get_dates_and_scores)


def _with_refitted_recipes(plan, holdout):
    """Return a plan in which each estimator is refitted before every block of dates.

    Precomputed predictions stay the same.
    """
    models = {}
    for name, model in plan.models.items():
        if not isinstance(model, PrecomputedPredictions):
            model = WalkForward(model, holdout, plan.refit.first_dates, plan.past_records)
        models[name] = model
    return dataclasses.replace(plan, models=models)


def _fixed_values(statement):
    """Return a list of the values of a row that are fixed before the holdout is read, in JSON.

    They are the expected moments, the limit at which differences are clipped, the expected score or
    rescaled difference, and such a list for each class whose recall may prove the row.
    """
    moments = statement.moments
    if dataclasses.is_dataclass(moments):
        moments = list(dataclasses.astuple(moments))
    recalls = [_fixed_values(recall) for recall in statement.recalls]
    return [moments, statement.difference_clip, statement.expected, *recalls]


def _check_intervals(plan, holdout):
    """Raise ValueError if it is known before models are scored that no row has an interval."""
    estimator = RowEstimator(plan, holdout, seed=0)
    reasons = [estimator.public_refusal(statement) for statement in plan.statements]
    if all(reasons):
        names = ", ".join(dict.fromkeys(statement.measure.name for statement in plan.statements))
        raise ValueError(
            f"scoring={names!r} can have no interval on this holdout. {reasons[0]} Add a metric "
            "with a proven interval, such as 'accuracy' or 'neg_mean_absolute_error', or hold out "
            "more records. The holdout was not queried."
        )


def _check_budget(holdout, plan, totals):
    """Raise BudgetExhaustedError if a declared budget does not suffice for all proven rows.

    ``totals``: :class:`LedgerTotals` before the report.
    """
    settings = holdout.account.settings
    n_rounds = totals.n_rounds + plan.n_rounds()
    if settings.budget is not None and n_rounds > settings.budget:
        raise exhausted_error(settings, totals, n_unanswered=plan.n_proven)


def _computed_report(holdout, plan, context):
    """Return the ledger record that contains the report, and the answers that the ledger keeps.

    ``context``: :class:`BatchContext` of the report.
    """
    if plan.is_private:
        record, answers, results = _private_report(holdout, plan, context)
    else:
        record, answers, results = _exact_report(holdout, plan, context)
    shared_fields = {
        "n_answered": context.totals_before.n_answered,
        "n_above": context.totals_before.n_above,
        "n_batches": context.totals_before.number,
        "per": plan.per,
        "joint": plan.joint,
        "baseline": plan.baseline,
        "refit": "" if plan.refit is None else plan.refit.frequency,
        "assumptions": plan.caveats,
    }
    cells = record.cells | {"report": shared_fields | results}  # dict that the ledger keeps
    return dataclasses.replace(record, cells=cells), answers


def _exact_report(holdout, plan, context):
    """Return record, answers and results of a report that reads the closed holdout without noise.

    They are the ledger record without the report, the proven rows that the ledger keeps as answers,
    and a dict of report fields. The order of units is a function of the ledger's secret bits and of
    the records.
    """
    secret_digest = records_digest(plan.order_bits, holdout.y, holdout.X)
    estimator = RowEstimator(plan, holdout, seed=int(secret_digest[:32], 16))
    settings = holdout.account.settings
    totals = context.totals_before
    code_length, _ = next_code_length(
        totals, settings, is_report=True, n_attempts=context.n_attempts
    )
    log_alphas = row_log_alphas(
        plan, totals, settings, code_length=code_length, n_attempts=context.n_attempts
    )
    rows = [estimator.row(statement, log_alphas) for statement in plan.statements]
    answers = _proven_answers(plan, rows, context, code_length) if plan.joint else ()
    record = BatchRecord(
        totals=closed_totals(context, answers),
        size=len(answers),
        code_length=code_length,
        code=context.code.state(n_omitted_pairs=len(context.code.pairs)),
        scales={answer.metric: list(answer.scale) for answer in answers},
        spending={
            "name": settings.spending.name,
            "weight": settings.spending.report_weight(totals.number),
        },
    )
    results = {
        "level": math.exp(log_alphas.proven),
        "approximate_level": math.exp(log_alphas.approximate),
        "information_spent": code_length,
        "rows": rows,
        "units": [estimator.units.n_units, estimator.units.name],
        "positives": _text_and_count_of_events(
            plan.event_class, estimator.records.y, target_name=getattr(holdout.y, "name", None)
        ),
        "version": __version__,
    }
    return record, answers, results


def _text_and_count_of_events(event_class, y, *, target_name):
    """Return a list of two: the event class as text, and its number of records.

    The result is None if ``event_class`` is None. ``target_name``: name of the targets, or None.
    """
    if event_class is None:
        return None
    text = f"class {event_class}" if target_name is None else f"{target_name} = {event_class}"
    return [text, int(np.count_nonzero(is_label(y, event_class)))]


def _proven_answers(plan, rows, context, code_length):
    """Return proven rows over all records as answers for the ledger, rescaled to [0, 1].

    Rows without a value are left out. Without any row the result is ``()``. ``rows``: report rows
    in JSON, one per statement of the plan. ``code_length``: code length of the report, in nats.
    """
    proven_rows = [
        (statement, row)
        for statement, row in zip(plan.statements, rows, strict=True)
        if row["proven"] is not None and row["value"] is not None and not statement.subgroups
    ]
    if not proven_rows:
        return ()
    scales = _scale_by_quantity_name(proven_rows)
    score_names = ("value", "lower", "upper")
    columns: dict[str, list[Any]] = {
        name: [] for name in ("metric", "model", "cv_score", *score_names)
    }
    for statement, row in proven_rows:
        metric_name, low, high = scales[statement.quantity.name]
        columns["metric"].append(metric_name)
        columns["model"].append(row["model"])
        columns["cv_score"].append(float(statement.expected))  # in [0, 1]
        scores = np.array([row["value"], *row["proven"]])
        unit_scores = np.clip((scores - low) / (high - low), 0.0, 1.0).tolist()
        for name, unit_score in zip(score_names, unit_scores, strict=True):
            columns[name].append(unit_score)
    # Columns of one element apply to all answers.
    columns["corrected"] = [1]
    columns["code_length"] = [code_length + math.log(max(1, plan.n_proven))]
    return Answers(
        columns, batch=context.totals_before.number + 1, time=context.time, scales=scales
    )


def _scale_by_quantity_name(proven_rows):
    """Return the tuple (name, low, high) of each quantity by its name; ends are in score units.

    ``proven_rows``: pairs of a statement and its row in JSON. The range of a difference of scores
    that are neither means nor ratios is widened to contain all its rows and their intervals.
    """
    scales: dict[str, tuple[str, float, float]] = {}
    for statement, row in proven_rows:
        metric_name, low, high = statement.quantity
        if len(statement.models) == 2 and not statement.measure.is_ratio_of_sums:
            max_absolute_score = float(np.abs([row["value"], *row["proven"]]).max())
            _, _, earlier_high = scales.get(metric_name, statement.quantity)
            high = max(earlier_high, max_absolute_score)
            low = -high
        scales[metric_name] = metric_name, low, high
    return scales


def closed_totals(context: BatchContext, answers: Any = ()) -> LedgerTotals:
    """Return the totals of the ledger after a report that reads the closed holdout.

    ``answers``: rows that the ledger adds as corrected answers, with scores in [0, 1].
    """
    totals = context.totals_before
    n_answers = len(answers)
    half_widths = [
        max(answer.value - answer.lower, answer.upper - answer.value) for answer in answers
    ]
    return dataclasses.replace(
        totals,
        number=totals.number + 1,
        time=context.time,
        n_answered=totals.n_answered + n_answers,
        n_above=totals.n_above + n_answers,
        widest=max([totals.widest, *half_widths]),
        dp_epsilon=None,
        closed=True,
    )


def _private_report(holdout, plan, context):
    """Return record, answers and results of a report whose rows pass through noise.

    They are the ledger record without the report, the released answers, and a dict of report
    fields. Raise BudgetExhaustedError if the budget does not suffice for all rows.
    """
    settings = holdout.account.settings
    scheme = holdout.dependence.sampling_scheme(settings.n)
    rows = [statement.row(scheme.n_units) for statement in plan.statements]
    batch = _private_batch(holdout, plan, rows)
    record, answers = answer_batch(batch, context, n_proven=plan.n_proven)
    if record is None:
        raise exhausted_error(settings, context.totals_before, n_unanswered=plan.n_proven)
    for statement, row, answer in zip(plan.statements, rows, answers, strict=True):
        _, low, high = statement.quantity
        components = half_width_components(answer, settings, holdout.dependence)
        unit_scores = np.array([answer.value, answer.lower, answer.upper])
        value, *ends = (low + (high - low) * unit_scores).tolist()
        row["value"] = value
        row["proven"] = ends
        row["parts"] = ((high - low) * np.array(components or (0.0, 0.0, 0.0))).tolist()
        row["method"] = "through noise"
        row["positive"] = ""
    results = {
        "level": settings.sampling_failure * math.exp(-answers[0].code_length),
        "approximate_level": None,
        "information_spent": record.code_length,
        "rows": rows,
        "units": [scheme.n_units, scheme.unit_name],
        "version": __version__,
    }
    return record, answers, results


def _private_batch(holdout, plan, rows):
    """Return the batch with one query for the row of each statement.

    ``rows``: report rows in JSON, of which only the names of the models are read.
    """
    records = ScoredRecords(holdout.X, holdout.y, plan.models)
    batch = make_query_batch(
        holdout.account.settings.n,
        holdout.dependence,
        [statement.expected for statement in plan.statements],
        evaluations=[
            _private_evaluation(statement, records, holdout.y) for statement in plan.statements
        ],
        # With fixed half-widths, squared deviations are centered at the expected values.
        fixed_half_widths=np.ones(len(plan.statements)),
    )
    descriptions = [
        QueryDescription(statement.quantity.name, tuple(statement.quantity), row["model"])
        for statement, row in zip(plan.statements, rows, strict=True)
    ]
    return dataclasses.replace(batch, descriptions=descriptions)


def _private_evaluation(statement, records, y):
    """Return the :class:`Evaluation` of a row: its model's, or the paired difference (theory G23).

    The difference of scores in [0, 1] is rescaled from [-1, 1] to [0, 1]. ``y``: holdout targets.
    """
    metric = statement.measure.metric
    evaluations = [metric.evaluate(*records.model_and_data(name), y) for name in statement.models]
    if len(evaluations) == 1:
        return evaluations[0]
    baseline_evaluation, model_evaluation = evaluations
    unit_differences = 0.5 * (model_evaluation.per_record - baseline_evaluation.per_record + 1.0)
    return Evaluation(
        per_record=unit_differences,
        value=float(unit_differences.mean()),
        sensitivity=baseline_evaluation.sensitivity,
    )


def load_report(holdout: Any, record: Any) -> FinalReport:
    """Return the report that a closing record of the ledger contains."""
    content = record.cells["report"]
    settings = holdout.account.settings
    target = estimand_text(holdout.dependence.sampling_scheme(settings.n))
    assumptions = [*holdout.certificate().assumptions, *content["assumptions"]]
    if content["approximate_level"] is not None:
        assumptions.append("reading the closed holdout ended its privacy")
    fields = {
        FIELD_NAMES.get(stored_name, stored_name): value for stored_name, value in content.items()
    }
    fields["rows"] = tuple(ReportRow.of(row, target) for row in content["rows"])
    fields["units"] = tuple(content["units"])
    if fields.get("positives") is not None:
        fields["positives"] = tuple(fields["positives"])
    fields["assumptions"] = tuple(assumptions)
    return FinalReport(
        **fields,
        spending=settings.spending.policy.description,
        confidence_level=holdout.confidence_level,
        n=settings.n,
        time=record.totals.time,
    )
