"""The final report: computation of its rows from the holdout, and content of its closing record."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import get_scorer, max_error, median_absolute_error

from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.intervals.concentration import ModelTail
from sklearn_bdp.intervals.dates import about_training_mean, date_row, median_row, too_few_dates
from sklearn_bdp.intervals.jackknife import SKILL, ApproximateRow, approximate_row, public_refusal
from sklearn_bdp.intervals.medians import median_error_row
from sklearn_bdp.ledger.batch_record import BatchRecord
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.ledger.records import Answers, canonical
from sklearn_bdp.metrics.approximate import approximate_metric
from sklearn_bdp.metrics.base import BoundedMetric, Evaluation
from sklearn_bdp.metrics.means import ClippedError
from sklearn_bdp.metrics.proofs import CLASSES, COUNTS, PAST, TAIL, UNIT_INTERVALS
from sklearn_bdp.release.batch import answer_batch, exhausted_error
from sklearn_bdp.release.batch_context import next_code_length
from sklearn_bdp.release.guarantee import estimand_text, half_width_components
from sklearn_bdp.release.query_batch import make_batch
from sklearn_bdp.report.by_class import auc_limits, class_mean_limits
from sklearn_bdp.report.closing import close_holdout, closing_record
from sklearn_bdp.report.final_report import (
    FEW_ERRORS,
    FIELD_NAMES,
    NO_APPROXIMATE,
    FinalReport,
    ReportRow,
)
from sklearn_bdp.report.in_time import (
    WalkForward,
    calendar,
    clip_notes,
    past_row,
    record_error_clips,
)
from sklearn_bdp.report.measures import (
    PrecomputedPredictions,
    ScoredRecords,
    UndefinedScore,
    compute_score,
    is_label,
)
from sklearn_bdp.report.plan import Plan, Statement, make_report_plan, with_estimated_moments
from sklearn_bdp.utils.hashing import records_digest
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Smaller failure probabilities are too near to the smallest number for Clopper-Pearson limits.
_MIN_ALPHA = 1e-290
#: Functions of errors that no jackknife may judge. Medians have intervals of their own.
_MEDIAN, _LARGEST = median_absolute_error, max_error
_NO_TARGET = "The largest error of new records depends on their number. It has no interval."
_SEVERAL_MEDIANS = "The median error of several outputs has no interval."
_MEDIAN_OF_CHAIN = "The median error of dependent records has no interval."
#: Approximate intervals that cover this part of the range, or more, are left out.
_MAX_RANGE_SHARE = 0.95
#: Approximate intervals that are this many times as wide as the proven one are left out.
_MAX_PROVEN_RATIO = 1.5
#: Calibration is perfect at a slope of 1 and an intercept of 0. Wider intervals are left out.
_CALIBRATION, _MAX_CALIBRATION_WIDTH = ("calibration_slope", "calibration_intercept"), 4.0
_NEEDS_CHAIN = "An approximate row needs a declared chain (a long run)."
#: Weight of the first list of statements on a holdout, and each later list's part of the remainder.
FIRST, NEXT = 0.9, 0.9


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
    """Report scores and close the holdout; see :meth:`ReusableHoldout.final_report`.

    ``variance``: of a record's cross-validated score in the first row, from a search.
    """
    holdout.account.check_process()
    plan = make_report_plan(holdout, estimators, cv_scores, training=training, **report_options)
    return _closing_report(holdout, plan, training, variance)


def _closing_report(holdout, plan, training, variance):
    """Compute, record and return the report of a plan, or return the recorded report."""
    account = holdout.account
    identity = json.loads(canonical(plan.identity()))
    with account.read_transaction() as book:
        record = closing_record(book, identity)  # if a script runs twice
    if record is None:
        _check_intervals(plan, holdout)
        if plan.error_clips is not None:
            record_error_clips(holdout, plan.error_clips, at_closing=True)
        if plan.approximate:
            plan = with_estimated_moments(plan, training, variance, holdout)
    if plan.refit is not None:
        plan = _with_refitted_recipes(plan, holdout)
    if record is None:
        record = close_holdout(
            account,
            identity,
            lambda terms: _computed_report(holdout, plan, terms),
            fixed=[_fixed_values(statement) for statement in plan.statements],
            check=lambda last: _check_budget(holdout, plan, last),
        )
    report = load_report(holdout, record)
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is None or not plan.statements[0].proven:
        return report
    scores = functools.partial(RowEstimator(plan, holdout, seed=0).over_time, holdout)
    return dataclasses.replace(report, _over_time=scores)


def _with_refitted_recipes(plan, holdout):
    """Return a plan whose models are recipes, which are fitted when they first predict."""
    models = {
        name: model
        if isinstance(model, PrecomputedPredictions)
        else WalkForward(model, holdout, plan.refit[0], plan.past_records)
        for name, model in plan.models.items()
    }
    return dataclasses.replace(plan, models=models)


def _fixed_values(statement):
    """Return the expected moments that a row uses, in JSON."""
    moments = statement.moments
    if dataclasses.is_dataclass(moments):
        moments = list(dataclasses.astuple(moments))
    recalls = [_fixed_values(recall) for recall in statement.recalls]
    return [moments, statement.max_difference, statement.expected, *recalls]


def _check_intervals(plan, holdout):
    """Raise ValueError if public facts exclude an interval for every row of a report."""
    estimator = RowEstimator(plan, holdout, seed=0)
    reasons = [estimator.public_refusal(statement) for statement in plan.statements]
    if all(reasons):
        names = ", ".join(dict.fromkeys(statement.measure.name for statement in plan.statements))
        raise ValueError(
            f"scoring={names!r} can have no interval on this holdout. {reasons[0]} Add a metric "
            "with a proven interval, such as 'accuracy' or 'neg_mean_absolute_error', or hold out "
            "more records. The holdout was not queried."
        )


def _check_budget(holdout, plan, last):
    """Raise BudgetExhaustedError if a declared budget does not suffice for all rows."""
    settings = holdout.account.settings
    needed = plan.n_rounds()
    if settings.budget is not None and last.n_rounds + needed > settings.budget:
        raise exhausted_error(settings, last, unanswered=plan.n_proven)


def _computed_report(holdout, plan, terms):
    """Return the record that closes a holdout and holds the rows, and the answers."""
    if plan.approximate:
        closed, answers, results = _exact_report(holdout, plan, terms)
    else:
        closed, answers, results = _private_report(holdout, plan, terms)
    content = {
        "n_answered": terms.last.n_answered,
        "n_above": terms.last.n_above,
        "n_batches": terms.last.number,
        "per": plan.per,
        "joint": plan.joint,
        "baseline": plan.baseline,
        "refit": "" if plan.refit is None else plan.refit[1],
        "assumptions": plan.caveats,
    }
    cells = closed.cells | {"report": content | results}
    return dataclasses.replace(closed, cells=cells), answers


def _exact_report(holdout, plan, terms):
    """Return record, answers and rows of a report that reads the closed holdout, without privacy.

    Theory G28: each family at its own level. Proven rows take the level that G16 leaves.
    Approximate rows take the weight 1 if no interim answer is in their family, else the weight of
    a report, as proven ones do (theory G34).

    The order of units is drawn only once, with the holdout: the ledger's header contains 128
    random bits, protected by the hash chain, and the order is a function of these bits and of the
    records. A restart, a copy of the file and a pickle give the same order. It cannot be computed
    without both the ledger and the records.
    """
    secret = records_digest(plan.order, holdout.y, holdout.X)
    estimator = RowEstimator(plan, holdout, seed=int(secret[:32], 16))
    settings = holdout.account.settings
    last = terms.last
    length, _ = next_code_length(last, settings, report=True, n_attempts=terms.n_attempts)
    levels = row_levels(plan, last, settings, length=length, n_attempts=terms.n_attempts)
    rows = [
        estimator.row(
            statement,
            log_proven=levels.log_proven,
            log_approximate=levels.log_approximate,
            log_alone=levels.log_alone,
        )
        for statement in plan.statements
    ]
    answers = _proven_answers(plan, rows, terms, length) if plan.joint else ()
    record = BatchRecord(
        totals=_closed(terms, n_answers=len(answers)),
        size=len(answers),
        code_length=length,
        code=terms.code.state(after=len(terms.code.pairs)),
        scales={answer.metric: list(answer.scale) for answer in answers},
        spending={
            "name": settings.spending.name,
            "weight": settings.spending.report_weight(last.number),
        },
    )
    recorded_levels = {
        "level": math.exp(levels.log_proven),
        "approximate_level": math.exp(levels.log_approximate),
        "information_spent": length,
    }
    content = recorded_levels | {"rows": rows, "units": [estimator.n_units, estimator.unit_name]}
    return record, answers, content


def _proven_answers(plan, rows, terms, length):
    """Return proven rows over all records as answers for the history; empty without such rows.

    Their intervals hold together with those of the history.
    """
    scales = {}
    proven_rows = []
    for statement, row in zip(plan.statements, rows, strict=True):
        if row["proven"] is None or statement.subgroups or row["value"] is None:
            continue
        metric_name, low, high = statement.ends
        ends = np.array([row["value"], *row["proven"]])
        if len(statement.models) == 2 and not statement.measure.is_sum:
            # No range is declared. That of the history follows from the rows.
            high = max(scales.get(metric_name, statement.ends)[2], float(np.abs(ends).max()))
            low = -high
        scales[metric_name] = metric_name, low, high
        proven_rows.append((metric_name, row["model"], float(statement.expected), ends))
    if not proven_rows:
        return ()
    names = ("metric", "model", "cv_score", "value", "lower", "upper")
    in_unit_range = []
    for *labels, ends in proven_rows:
        _, low, high = scales[labels[0]]
        unit_ends = np.clip((ends - low) / (high - low), 0.0, 1.0).tolist()
        in_unit_range.append((*labels, *unit_ends))
    columns = dict(zip(names, map(list, zip(*in_unit_range, strict=True)), strict=True))
    columns["corrected"] = [1]
    columns["code_length"] = [length + math.log(max(1, plan.n_proven))]
    return Answers(columns, batch=terms.last.number + 1, time=terms.time, scales=scales)


class RowLevels(NamedTuple):
    """Logs of the failure probabilities of rows."""

    log_proven: float
    log_approximate: float
    #: Of a proven row if nothing had been queried before: the rows of its family, and no more.
    log_alone: float


def row_levels(
    plan: Plan, last: Any, settings: Any, *, length: float, n_attempts: int
) -> RowLevels:
    """Return the levels of the rows of a report after the totals ``last``.

    ``length``: code length of the report. Theory G28: each family at its own level. Approximate
    rows take the weight 1 if no interim answer is in their family, else the weight of a report, as
    proven ones do (theory G34).
    """
    # With joint=False, each row has the level of its whole family (theory G32).
    n_proven = max(1, plan.n_proven) if plan.joint else 1
    n_rows = len(plan.statements) if plan.joint else 1
    log_approximate = math.log(settings.beta / n_rows) - last.released
    log_approximate -= report_attempt_length(n_earlier=n_attempts, finished=True)
    if last.has_approximate:
        log_approximate += math.log(settings.spending.report_weight(last.number))
    return RowLevels(
        log_proven=math.log(settings.sampling_failure / n_proven) - length,
        log_approximate=log_approximate,
        log_alone=math.log(settings.beta / n_proven),
    )


def _closed(terms, *, n_answers=0):
    """Return the totals after a report that reads the closed holdout."""
    last = terms.last
    return dataclasses.replace(
        last,
        number=last.number + 1,
        time=terms.time,
        n_answered=last.n_answered + n_answers,
        n_above=last.n_above + n_answers,
        dp_epsilon=None,
        closed=True,
    )


def _private_report(holdout, plan, terms):
    """Return record, answers and rows of a report under a level of privacy."""
    settings = holdout.account.settings
    model = holdout.dependence
    records = ScoredRecords(holdout.X, holdout.y, plan.models)
    evaluations = [
        _private_evaluation(statement, records, holdout.y) for statement in plan.statements
    ]
    expected = [statement.expected for statement in plan.statements]
    half_widths = np.ones(len(evaluations))  # deviations are taken from the expected values
    batch = make_batch(settings.n, model, expected, evaluations=evaluations, own_cells=half_widths)
    scheme = model.sampling_scheme(settings.n)
    units = [scheme.n_units, scheme.unit_name]
    rows = [(statement.ends, statement.row(units[0])) for statement in plan.statements]
    labels = [(ends[0], ends, row["model"], None) for ends, row in rows]
    record, answers = answer_batch(
        dataclasses.replace(batch, labels=labels), terms, n_statements=plan.n_proven
    )
    if record is None:
        raise exhausted_error(settings, terms.last, unanswered=plan.n_proven)
    for ((_, low, high), row), answer in zip(rows, answers, strict=True):
        parts = np.array(half_width_components(answer, settings, model) or (0.0, 0.0, 0.0))
        ends = np.array([answer.value, answer.lower, answer.upper])
        value, *pair = (low + (high - low) * ends).tolist()
        row["value"] = value
        row["proven"] = pair
        row["parts"] = ((high - low) * parts).tolist()
        row["method"] = "through noise"
        row["positive"] = ""
    alpha = settings.sampling_failure * math.exp(-answers[0].code_length)
    levels = {"level": alpha, "approximate_level": None, "information_spent": record.code_length}
    return record, answers, levels | {"rows": [row for _, row in rows], "units": units}


def _private_evaluation(statement, records, y):
    """Return the evaluation of a statement: of its model, or the paired difference (theory G23)."""
    metric = statement.measure.metric
    evaluations = [metric.evaluate(*records.model_and_data(name), y) for name in statement.models]
    if len(evaluations) == 1:
        return evaluations[0]
    first, second = evaluations
    halved = 0.5 * (second.per_record - first.per_record + 1.0)
    return Evaluation(per_record=halved, value=float(halved.mean()), sensitivity=first.sensitivity)


def load_report(holdout: Any, record: Any) -> FinalReport:
    """Return the report in a closing record."""
    content = record.cells["report"]
    settings = holdout.account.settings
    target = estimand_text(holdout.dependence.sampling_scheme(settings.n))
    assumptions = [*holdout.certificate().assumptions, *content["assumptions"]]
    if content["approximate_level"] is not None:
        assumptions.append("reading the closed holdout ended its privacy")
    fields = {FIELD_NAMES.get(name, name): value for name, value in content.items()}
    described = {
        "rows": tuple(ReportRow.of(row, target) for row in content["rows"]),
        "units": tuple(content["units"]),
        "assumptions": tuple(assumptions),
        "spending": settings.spending.policy.description,
    }
    return FinalReport(
        **(fields | described),
        confidence_level=holdout.confidence_level,
        n=settings.n,
        time=record.totals.time,
    )


# -- rows ---------------------------------------------------------------------------------------


class RowEstimator:
    """All rows of a plan, read from the closed holdout.

    Units are in a secret random order that never changes (theory G28). It follows from ``seed``,
    which is secret, too.
    """

    def __init__(self, plan: Plan, holdout: Any, seed: int) -> None:
        n = holdout.n
        self.plan = plan
        self.model = holdout.dependence
        self.records = ScoredRecords(holdout.X, holdout.y, plan.models)
        self.scheme = self.model.sampling_scheme(n)
        self.is_judged_by_date = self.scheme.calendar is not None
        self.unit_name = self.scheme.unit_name  # name of the units, in the plural
        # Effective sample size of a declared chain; None if units are independent or dates.
        self.n_autocorrelation_times: float | None = None
        self.weights = np.ones(n)  # weight of each record
        self.unit_sizes: Any = None  # divisors of the sums over a unit's records
        self._evaluations: dict[Any, Any] = {}  # of metrics by class
        rng = np.random.default_rng([seed, 1])  # slices have a stream of their own (theory G19)
        if plan.dependence in ("dependent", "past"):
            self.units = self.scheme.record_blocks
            self.n_units = int(self.units.max()) + 1
            if self.scheme.weights is not None:
                self.weights = n * self.scheme.weights
            if not self.is_judged_by_date:
                is_chain = self.scheme.in_time_order
                self.n_autocorrelation_times = float(self.model.effective_n(n)) if is_chain else 0.0
            return
        units = np.unique(self.model.components(n), return_inverse=True)[1]
        units = self.units = rng.permutation(int(units.max()) + 1)[units]
        sizes = np.bincount(units)
        self.n_units = len(sizes)
        #: Positions of one record of each unit, in the order of units (theory G19).
        by_unit = np.lexsort((np.random.default_rng([seed, 2]).random(n), units))
        self.one_of_each_unit = by_unit[np.cumsum(sizes) - sizes]
        if self.scheme.has_independent_records:
            self.unit_name = "records"
        elif plan.per == "unit":
            self.unit_sizes = sizes
            self.weights = 1.0 / sizes[units]
        else:  # a larger group keeps ``plan.bound`` records, drawn at random
            order = np.lexsort((rng.random(n), units))
            rank_in_unit = np.empty(n)
            rank_in_unit[order] = np.arange(n) - (np.cumsum(sizes) - sizes)[units[order]]
            self.weights = (rank_in_unit < plan.bound).astype(float)

    def totals(self, values: Any) -> Any:
        """Return the weighted sums of records' values in each unit.

        Sums are divided by sizes: nine times one ninth is more than 1 in floating point, and bounds
        hold for means of at most 1.
        """
        if self.unit_sizes is not None:
            return np.bincount(self.units, values, minlength=self.n_units) / self.unit_sizes
        return np.bincount(self.units, self.weights * values, minlength=self.n_units)

    def means(self, values: Any) -> Any:
        """Return the mean of records' values on each date, which weigh equally."""
        return self.totals(values) * (self.n_units / len(self.units))

    def row(
        self, statement: Statement, *, log_proven: float, log_approximate: float, log_alone: float
    ) -> Any:
        """Return a row in JSON.

        ``log_proven``, ``log_approximate``, ``log_alone``: logs of failure probabilities, which
        may be below the smallest number that floating point holds.
        """
        row = statement.row(self.n_units)
        notes = []
        row["method"] = row["method"] or f"{statement.measure.estimation} over {self.unit_name}"
        if self.is_judged_by_date:
            row["target"] = estimand_text(self.scheme, statement.forecast_horizon)
        in_subgroups = np.any(
            [self._mask(part) > 0.0 for part in statement.subgroups or ("",)], axis=0
        )
        row["n_units"] = np.unique(self.units[in_subgroups]).size
        row["n_events"] = self._n_events(in_subgroups)
        try:
            with np.errstate(all="ignore"):
                row["value"] = self.value(statement)
                if statement.proven:
                    row |= self._proven_fields(statement, row["value"], log_proven, log_alone)
                row["approximate"], reasons = self._approximate_fields(
                    statement, log_approximate, row["proven"]
                )
                notes += reasons
        except UndefinedScore as error:
            notes.append(str(error))
        notes += self._notes(statement, log_proven)
        if row["value"] is None or not math.isfinite(row["value"]):
            row["value"] = None
            notes = notes or ["The score is undefined for these records."]
        row["notes"] = notes
        return row

    def _proven_fields(self, statement, value, log_proven, log_alone):
        """Return the ends of a proven row, and the components of its half-width."""
        ends = self.proven(statement, log_proven)
        if statement.proven == CLASSES:
            # Limits rest on one visit of each patient, the value on all visits.
            ends = min(ends[0], value), max(ends[1], value)
        ends_alone = self.proven(statement, log_alone)
        half = 0.5 * (ends[1] - ends[0])
        # Another method may be chosen at another level: never a negative part.
        half_alone = min(half, 0.5 * (ends_alone[1] - ends_alone[0]))
        return {"proven": _finite(ends), "parts": [half_alone, half - half_alone, 0.0]}

    def _approximate_fields(self, statement, log_failure, proven):
        """Return the ends of an approximate row, None without them, and its notes."""
        if self.n_autocorrelation_times == 0.0:
            return None, [_NEEDS_CHAIN]
        ends, reasons = self._shown_approximate(statement, log_failure, proven)
        if ends is None and statement.proven and reasons:
            reasons[0] = NO_APPROXIMATE + reasons[0]
        return ends, reasons

    def _notes(self, statement, log_proven):
        """Return notes on a row: clips, arguments for a proof, records that a model failed on."""
        notes = []
        if statement.max_difference < 1.0:
            low, high = statement.measure.span
            max_difference = statement.max_difference * (high - low)
            notes.append(
                f"The proven interval counts differences beyond ±{max_difference:.3g} as that."
            )
        if statement.measure.note:
            notes.append(statement.measure.note)
        if statement.proven == PAST and self._unclipped(statement) is not None:
            notes += clip_notes(statement, self.records, self, self.plan, log_proven)
        for name in statement.models:
            failing = self.records.failing.get(name, ())
            if len(failing):
                positions = ", ".join(map(str, failing[:5])) + ", …" * (len(failing) > 5)
                notes.append(
                    f"{name} failed on {len(failing)} of {len(self.records.y)} holdout records "
                    f"(positions {positions}). They count with the worst score."
                )
        return notes

    def public_refusal(self, statement: Statement) -> str:
        """Return the public reason why a row cannot have an interval, or an empty text."""
        if statement.proven:
            return ""
        if self.n_autocorrelation_times == 0.0:
            return _NEEDS_CHAIN
        reason = self._lack_of_jackknife(statement)
        if reason:
            return reason
        if self.is_judged_by_date:
            return too_few_dates(self.n_units)
        return public_refusal(self.n_units, times=self.n_autocorrelation_times)

    def _n_events(self, in_subgroups):
        """Return the number of units with a positive record; None without positives."""
        positive = self.plan.positive
        if positive is None:
            return None
        return np.unique(self.units[in_subgroups & is_label(self.records.y, positive)]).size

    def _shown_approximate(self, statement, log_failure, proven):
        """Return the ends of an approximate interval, None without one, and its notes.

        ``proven``: ends of the proven interval, or None. Rows that are left out because of their
        width stay in the family: the probability that any row fails only shrinks.
        """
        interval = self.approximate(statement, math.exp(log_failure))
        pair = _finite((interval.lower, interval.upper))
        if pair is None:
            return None, list(interval.notes)
        # A skill score has no lower end.
        is_bounded = isinstance(statement.measure.metric, BoundedMetric) and not statement.skill
        if self.is_judged_by_date and is_bounded:
            is_bounded = self._unclipped(statement) is None
        if is_bounded:
            _, low, high = statement.ends
            pair = [max(pair[0], low), min(pair[1], high)]
        reason = _lack_of_information(statement, pair, proven, is_bounded=is_bounded)
        if reason:
            return None, [reason]
        return pair, list(interval.notes)

    def over_time(self, holdout: Any) -> tuple[Any, Any]:
        """Return the dates, and the scores by date of each model on the first metric, by row."""
        first = self.plan.statements[0]
        scores = {}
        for row_index, statement in enumerate(self.plan.statements):
            is_model = (
                len(statement.models) == 1
                and not statement.subgroups
                and statement.forecast_horizon == 1
            )
            if is_model and statement.measure.name == first.measure.name:
                low, high = statement.measure.span
                by_record = self.records.contributions(statement.measure, statement.models[0])[0]
                scores[row_index] = low + (high - low) * self.means(by_record)
        dates = calendar(holdout)
        return np.arange(self.n_units) if dates is None else dates, scores

    # -- values ---------------------------------------------------------------------------------

    def _mask(self, part):
        """Return the weight of each record in a subgroup, or in the holdout without one."""
        return self.weights * (self.plan.masks[part] if part else 1.0)

    def value(self, statement: Statement) -> float:
        """Return the reported value, in score units."""
        if statement.skill:
            losses = [
                self.weights @ self.records.loss(statement.measure, name)
                for name in statement.models
            ]
            return 1.0 - float(losses[1] / losses[0])
        is_about_mean = statement.measure.metric.unit_statistic.dates.left_out_about is not None
        if self.is_judged_by_date and is_about_mean:
            return self._date_row(statement, 0.5).value
        values = [
            compute_score(statement.measure, self.records, name, self._mask(part))
            for name in statement.models
            for part in statement.subgroups or ("",)
        ]
        return float(values[-1] - (values[0] if len(values) == 2 else 0.0))

    # -- proven limits --------------------------------------------------------------------------

    def proven(self, statement: Statement, log_failure: float) -> tuple[float, float]:
        """Return limits in score units; ``log_failure``: the log of their failure probability."""
        if len(statement.subgroups) == 2:  # both limits of each subgroup get half the level
            parts = [statement.in_subgroup(part) for part in statement.subgroups]
            first, second = (self.proven(part, log_failure - math.log(2.0)) for part in parts)
            return second[0] - first[1], second[1] - first[0]
        if statement.recalls:  # each recall gets the same part of the level
            log_part = log_failure - math.log(len(statement.recalls))
            recall_limits = [self.proven(recall, log_part) for recall in statement.recalls]
            lower, upper = np.mean(recall_limits, axis=0).tolist()
            return lower, upper
        if statement.proven == CLASSES:
            return self._by_class(statement, log_failure)
        if statement.proven == PAST:
            return past_row(statement, self.records, self, self.plan.classes, log_failure)
        low, high = statement.measure.span
        span = high - low
        mask = self.plan.masks[statement.subgroups[0]] if statement.subgroups else 1.0
        sums_and_counts = [
            [mask * totals for totals in self.records.contributions(statement.measure, name)]
            for name in statement.models
        ]
        sums, counts = sums_and_counts[-1]
        if len(sums_and_counts) == 2:
            difference = (sums - sums_and_counts[0][0]) / statement.max_difference
            low = -statement.max_difference * span
            span = 2.0 * statement.max_difference * span
            sums = 0.5 * (counts + np.clip(difference, -1.0, 1.0))
        lower, upper = self._unit_limits(statement, sums, counts, log_failure)
        return low + span * lower, low + span * upper

    def _unit_limits(self, statement, sums, counts, log_failure):
        """Return limits in [0, 1] from each record's contribution to numerator and denominator."""
        metric = statement.measure.metric
        if statement.proven == COUNTS:
            alpha = min(math.exp(log_failure), 0.5)
            if alpha < _MIN_ALPHA:
                return 0.0, 1.0
            alike = self.plan.dependence == "records"
            return metric.count_limits(sums.sum(), counts.sum(), alpha, alike=alike)
        if statement.proven == TAIL:
            is_binary = metric.is_binary and len(statement.models) == 1
            tail = ModelTail(self.model, len(sums), binary=is_binary)
            mean = np.array([min(1.0, float(np.mean(self.weights * sums)))])
            limits = tail.limits(mean, mean, np.array([log_failure - math.log(2.0)]))
            return tuple(float(limit[0]) for limit in limits)
        unit_interval = UNIT_INTERVALS[statement.proven]
        return unit_interval(
            self.totals(sums),
            self.totals(counts),
            bound=getattr(metric, "record_bound", 1.0) * self.plan.bound,
            moments=statement.moments,
            log_inverse_level=math.log(2.0) - log_failure,
        )

    def _by_class(self, statement, log_failure):
        """Return limits of ROC AUC or of a mean over classes (theory G12, G19, G36)."""
        name = statement.models[0]
        key = name, repr(statement.measure.metric)
        if key not in self._evaluations:
            self._evaluations[key] = statement.measure.metric.evaluate(
                *self.records.model_and_data(name), self.records.y
            )
        evaluation = self._evaluations[key]
        positions = self.one_of_each_unit
        if statement.subgroups:
            positions = positions[self.plan.masks[statement.subgroups[0]][positions] > 0.0]
        if evaluation.by_class is not None and evaluation.shape.kind == "pairs":
            return auc_limits(
                evaluation.by_class,
                positions,
                log_failure,
                statement.moments,
                bets=not self.plan.dependence.startswith("stratified"),
            )
        return class_mean_limits(
            evaluation, positions, log_failure, model=self.model, n=len(self.records.y)
        )

    # -- approximate limits ---------------------------------------------------------------------

    def approximate(self, statement: Statement, alpha: float) -> Any:
        """Return value, approximate limits and notes, in score units (theory G28, G31).

        ``alpha`` is the failure probability of both limits together.
        """
        if statement.measure.score_function in (_MEDIAN, _LARGEST):
            return self._row_without_jackknife(statement, alpha)
        if self.is_judged_by_date:
            return self._in_score_units(self._date_row(statement, alpha), statement)
        statistic, y, sides = self._statistic(statement)
        row = approximate_row(
            statistic,
            y,
            sides,
            units=self.units,
            level=alpha,
            per_record=self.plan.per == "record",
            times=self.n_autocorrelation_times,
            unit_name=self.unit_name,
        )
        return self._within_range(self._in_score_units(row, statement), statement, alpha)

    def _row_without_jackknife(self, statement, alpha):
        """Return the row of a median error, by order statistics, or of the largest error."""
        is_plain = len(statement.models) == 1 and not statement.subgroups
        value = self.value(statement)
        reason = self._lack_of_jackknife(statement)
        if not reason and self.is_judged_by_date and not is_plain:
            reason = f"{statement.measure.name} has no approximate interval over these dates."
        if reason:
            return ApproximateRow(value, math.nan, math.nan, self.n_units, (reason,))
        parts = statement.subgroups[::-1] or ("",)
        errors = [self.records.errors(name) for name in statement.models[::-1]]
        if self.is_judged_by_date:
            horizon = statement.forecast_horizon
            row = median_row(errors[0], alpha, dates=self.units, horizon=horizon)
        else:
            sides = [(model_errors, self._mask(part)) for model_errors in errors for part in parts]
            row = median_error_row(value, sides, self.units, alpha, unit_name=self.unit_name)
        if statement.measure.metric.scorer._sign > 0:
            row = row._replace(value=value, lower=-row.upper, upper=-row.lower)
        return row

    def _lack_of_jackknife(self, statement):
        """Return the public reason why such a row has no interval, or an empty text."""
        function = statement.measure.score_function
        if function is _LARGEST:
            return _NO_TARGET
        if function is _MEDIAN and self.records.y.ndim > 1:
            return _SEVERAL_MEDIANS
        if function is _MEDIAN and self.n_autocorrelation_times is not None:
            return _MEDIAN_OF_CHAIN
        return ""

    def _in_score_units(self, row, statement):
        """Return a row in score units: a share of records is left out as hits of 0 and 1."""
        metric = statement.measure.metric
        is_one_score = len(statement.models) == 1 and len(statement.subgroups) < 2
        if not (metric.is_mean and metric.is_binary and is_one_score):
            return row  # other statistics are in score units, and so are differences
        low, high = statement.measure.span
        value, lower, upper = (
            low + (high - low) * end for end in (row.value, row.lower, row.upper)
        )
        return row._replace(value=value, lower=lower, upper=upper)

    def _within_range(self, row, statement, alpha):
        """Return the row of a plain score with limits inside the range; other rows unchanged.

        ``alpha`` is the failure probability of both limits together.

        Near the best score few records are wrong: leaving them out one by one shows no spread, or
        one that leads beyond the range. A metric of labels then has the limits of theory G34.
        """
        scorer = _scorer_of_labels(statement.measure.metric)
        is_plain_score = len(statement.models) == 1 and not (statement.subgroups or statement.skill)
        if scorer is None or not is_plain_score or not hasattr(scorer, "_score_func"):
            return row
        metric = approximate_metric(scorer, self.records.y)
        has_ends = math.isfinite(row.lower) and math.isfinite(row.upper)
        if metric.is_open or (has_ends and metric.lower <= row.lower <= row.upper <= metric.upper):
            return row
        has_single_records = np.unique(self.units).size == self.units.size
        if self.n_autocorrelation_times is None and has_single_records:
            limits = self._limits_of_labels(metric, statement.models[0], alpha)
            if limits is not None:
                return row._replace(lower=limits[0], upper=limits[1], notes=(FEW_ERRORS,))
        if not has_ends:
            return row
        ends = np.clip([row.lower, row.upper], metric.lower, metric.upper)
        return row._replace(lower=float(ends[0]), upper=float(ends[1]))

    def _limits_of_labels(self, metric, name, alpha):
        """Return limits from the predicted labels of a model, or None for other metrics."""
        if self.records.y.ndim != 1 or self.records.y.dtype.kind == "f":
            return None
        _, code_of_label = self.records.codes(name)
        labels = np.array(list(code_of_label))
        called = self.records.rows(name, "labels", code_of_label)
        if not (np.isfinite(called) & (called >= 0.0)).all():
            return None
        return metric.limits_of_labels(self.records.y, labels[called.astype(int)], alpha)

    def _date_row(self, statement, alpha):
        """Return limits over these dates, each given its past (theory G31)."""
        unclipped = None if statement.skill else self._unclipped(statement)
        if unclipped is not None:
            statistic, sides = unclipped
            y = self.records.y.astype(float)
        else:
            statistic, y, sides = self._statistic(statement)
        return date_row(
            about_training_mean(statistic, self.plan.training_mean),
            y,
            sides,
            dates=self.units,
            level=alpha,
            horizon=statement.forecast_horizon,
        )

    def _unclipped(self, statement):
        """Return the unclipped statistic of a clipped error and its predictions, or None.

        Approximate rows need no range: they use unclipped errors (theory G31).
        """
        metric = statement.measure.metric
        if not isinstance(metric, ClippedError) or self.records.y.ndim != 1:
            return None
        predictions = [self.records.rows(model, "values") for model in statement.models[::-1]]
        if not np.isfinite(predictions).all():
            return None
        parts = statement.subgroups[::-1] or ("",)
        sides = [(values, self._mask(part) > 0.0) for values in predictions for part in parts]
        return metric.unclipped_statistic, sides

    def _statistic(self, statement):
        """Return the statistic of a row, targets, and the predictions with their record masks."""
        parts = statement.subgroups[::-1] or ("",)
        sides = []
        if statement.skill:
            losses = np.vstack(
                [self.records.loss(statement.measure, name) for name in statement.models]
            )
            statistic = SKILL
            y = np.zeros(losses.shape[1])
            sides = [(losses, self._mask("") > 0.0)]
        for name in () if statement.skill else statement.models[::-1]:
            statistic, y, predictions = self.records.response(statement.measure, name, self.weights)
            # Neither family uses records of weight zero (per="record").
            sides += [(predictions, self._mask(part) > 0.0) for part in parts]
        return statistic, y, sides


def _lack_of_information(statement, pair, proven, *, is_bounded):
    """Return why an approximate interval informs nobody, or an empty text.

    Such an interval covers nearly the range of the metric, is much wider than the proven one, or
    allows any calibration.
    """
    width = pair[1] - pair[0]
    _, low, high = statement.ends
    if is_bounded and width >= _MAX_RANGE_SHARE * (high - low):
        return "The interval would cover nearly every possible value."
    if proven is not None and width >= _MAX_PROVEN_RATIO * (proven[1] - proven[0]):
        return "The interval would be much wider than the proven one."
    if statement.measure.name in _CALIBRATION and width > _MAX_CALIBRATION_WIDTH:
        return (
            f"The interval would be wider than {_MAX_CALIBRATION_WIDTH:g}: so few records do not "
            "determine the calibration."
        )
    return ""


def _scorer_of_labels(metric):
    """Return scikit-learn's scorer of a metric: its own, or that of a metric of labels; or None."""
    statistic = metric.unit_statistic
    if statistic.scale == "signed" and statistic.response == "labels":
        return get_scorer(metric.name)
    return getattr(metric, "scorer", None)


def _finite(ends):
    return [float(end) for end in ends] if all(map(math.isfinite, ends)) else None


# -- statements fixed before the holdout was queried about them (theory G30) ---------------------


def fix_statements(holdout: Any, key: str) -> None:
    """Record that statements are fixed now, with the information released so far.

    ``key`` is computed from all their content. The same statements are recorded once.
    """
    with holdout.account.write_transaction() as book:
        if all(note["key"] != key for note in book.notes(Fact.STATEMENTS)):
            content = {"key": key, "released": book.last.released}
            book.note(Fact.STATEMENTS, content)


def fixed_code_length(notes: list[dict[str, Any]], key: str) -> float:
    r"""Return the code length of statements that were fixed before, in nats (theory G30).

    .. math:: \ell = -\ln P(\text{everything released before they were fixed}) - \ln w_k,
       \quad w_k = .9 \cdot .1^{k-1}

    for the list that was fixed as number :math:`k` on this holdout: later releases cannot have
    changed it.
    """
    rank = [note["key"] for note in notes].index(key)
    return float(notes[rank]["released"]) - math.log(FIRST) - rank * math.log1p(-NEXT)


@strip_traceback_frames  # the frames hold raw scores
def report_statements(holdout: Any, key: str, compute: Callable[[float], Any]) -> Any:
    """Report on statements that were fixed, and close the holdout.

    ``compute`` takes their code length and returns JSON content. It reads the raw holdout and is
    therefore rejected under a level of privacy. A repeated call returns the recorded report.
    """
    account = holdout.account
    identity = {"statements": key}
    account.check_process()
    if account.settings.is_private:
        raise ValueError(
            "final_report() of a filter reads the closed holdout without noise, which ends its "
            "privacy. A numeric epsilon and calibration='zhao2017' forbid it. The holdout was "
            "not queried."
        )
    with account.read_transaction() as book:
        record = closing_record(book, identity)
        notes = book.notes(Fact.STATEMENTS)
    if record is None:
        # Earlier attempts cannot change statements that were fixed before them (theory G35).
        length = fixed_code_length(notes, key)

        def computed(terms):
            cells = {"statements": json.loads(canonical(compute(length)))}
            return BatchRecord(totals=_closed(terms), code_length=length, cells=cells), ()

        record = close_holdout(account, identity, computed)
    return record.cells["statements"]
