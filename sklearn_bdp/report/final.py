"""The final report: how its rows are computed from the holdout, and what its closing records."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.intervals.bounds import order_free_limits, share_limits, star_limits
from sklearn_bdp.intervals.concentration import ModelTail, score_tail
from sklearn_bdp.intervals.dates import date_row, date_statistic, median_row, too_few_dates
from sklearn_bdp.intervals.jackknife import (
    SKILL,
    STATISTICS,
    ApproximateRow,
    approximate_row,
    public_refusal,
)
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.ledger.records import Answers, canonical
from sklearn_bdp.metrics.base import Evaluation
from sklearn_bdp.release.batch import ask_shares, decide, exhausted_error, route
from sklearn_bdp.release.certificate import target_of, width_parts
from sklearn_bdp.release.query_batch import make_batch
from sklearn_bdp.report.closing import close_holdout, closing_record
from sklearn_bdp.report.final_report import FinalReport, ReportRow
from sklearn_bdp.report.in_time import WalkForward, calendar, past_row
from sklearn_bdp.report.measures import Predicted, Records, UndefinedScore, is_label, reads
from sklearn_bdp.report.plan import (
    BETS,
    CLASSES,
    COUNTS,
    FREE,
    PAST,
    TAIL,
    Plan,
    Statement,
    planned_report,
    prepared,
)
from sklearn_bdp.utils.hashing import records_digest
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Failure probabilities below it are too near to the smallest number for Clopper-Pearson limits.
_LEAST_LEVEL = 1e-290
#: In time, medians have intervals by order statistics, of one model over all records. No average
#: law of the dates has a largest error, or makes a jackknife of a median valid.
_MEDIAN = "neg_median_absolute_error"
_WITHOUT_TARGET = (_MEDIAN, "neg_max_error")
_NEEDS_CHAIN = "An approximate row needs a declared chain (a long run)."
#: Weight of the first list of statements on a holdout, and what each further list gets of the rest.
FIRST, NEXT = 0.9, 0.9


@strip_traceback_frames
def report_and_close(
    holdout: Any,
    estimators: Any,
    cv_scores: Any,
    *,
    variance: float | None = None,
    training: Any = None,
    **asked: Any,
) -> FinalReport:
    """Report scores and close the holdout; see :meth:`ReusableHoldout.final_report`.

    ``variance``: of a record's training-side score in the first row, as a search has it.
    """
    holdout.account.check_home()
    plan = planned_report(holdout, estimators, cv_scores, training=training, **asked)
    return _closing_report(holdout, plan, training, variance)


def _closing_report(holdout, plan, training, variance):
    """Return the report of a plan: begun, computed and recorded; or the one given before."""
    account = holdout.account
    identity = json.loads(canonical(plan.identity()))
    with account.reading() as book:
        record = closing_record(book, identity)  # of a script that is run twice
    if record is None:
        _check_intervals(plan, holdout)
        if plan.approximate:
            plan = prepared(plan, training, variance, holdout)
    if plan.refit is not None:  # recipes are fitted once they are asked
        models = {
            name: model
            if isinstance(model, Predicted)
            else WalkForward(model, holdout, plan.refit[0], plan.past_records)
            for name, model in plan.models.items()
        }
        plan = dataclasses.replace(plan, models=models)
    if record is None:
        record = close_holdout(
            account,
            identity,
            lambda terms: _computed_report(holdout, plan, terms),
            fixed=[[one.moments, one.most, one.expected] for one in plan.statements],
            check=lambda last: _check_budget(holdout, plan, last),
        )
    report = shown_report(holdout, record)
    if not (holdout.dependence.is_time_ordered and plan.statements[0].proven):
        return report
    scores = functools.partial(Rows(plan, holdout, seed=0).over_time, holdout)
    return dataclasses.replace(report, _over_time=scores)


def _check_intervals(plan, holdout):
    """Raise where public facts say that no row of a report can have an interval."""
    rows = Rows(plan, holdout, seed=0)
    reasons = [rows.public_refusal(one) for one in plan.statements]
    if all(reasons):
        names = ", ".join(dict.fromkeys(one.measure.name for one in plan.statements))
        raise ValueError(
            f"scoring={names!r} can have no interval on this holdout. {reasons[0]} Add a metric "
            "with a proven interval, such as 'accuracy' or 'neg_mean_absolute_error', or hold out "
            "more records. The holdout was not queried."
        )


def _check_budget(holdout, plan, last):
    """Raise where a declared budget does not suffice for all rows."""
    settings = holdout.account.settings
    needed = plan.n_rounds(holdout.dependence)
    if settings.budget is not None and last.n_rounds + needed > settings.budget:
        raise exhausted_error(settings, last, unanswered=plan.n_proven)


def _computed_report(holdout, plan, terms):
    """Return the record that closes a holdout and holds the rows, and the answers."""
    if plan.approximate:
        closed, answers, said = _read(holdout, plan, terms)
    else:
        closed, answers, said = _through_noise(holdout, plan, terms)
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
    cells = closed.cells | {"report": content | said}
    return dataclasses.replace(closed, cells=cells), answers


def _read(holdout, plan, terms):
    """Return record, answers and rows of a report that reads the closed holdout, without privacy.

    Theory G28: each family at its own level. Proven rows take what G16 leaves. Approximate ones
    take the weight 1 where no interim answer is in their family, else the weight of a report, as
    proven ones do (theory G34).

    The order of units is drawn once and for all, with the holdout: 128 random bits stand in
    the header of the ledger, under its chain, and the order is a function of these and of the
    records. A restart, a copy of the file and a pickle find it again, nothing draws another,
    and whoever has not both the ledger and the records cannot know it.
    """
    secret = records_digest(plan.order, holdout.y, holdout.X)
    rows = Rows(plan, holdout, seed=int(secret[:32], 16))
    settings, before = holdout.account.settings, terms.last
    terms, by_class = rows.settled(terms)
    last = terms.last
    # Shares of classes that are asked now are paid by the rows that they decide, by no other.
    length, by_shares = (
        route(one, settings, report=True, n_attempts=terms.n_attempts)[0] for one in (before, last)
    )
    # Rows that are read alone do not share the level of their family (theory G32).
    n_proven = max(1, plan.n_proven) if plan.joint else 1
    n_rows = len(plan.statements) if plan.joint else 1
    log_level = math.log(settings.sampling_failure / n_proven) - length
    spending = settings.spending
    log_approximate = math.log(settings.beta / n_rows) - before.released
    log_approximate -= report_attempt_length(n_earlier=terms.n_attempts, finished=True)
    if before.cells.get("approximate"):
        log_approximate += math.log(spending.report_weight(before.number))
    said, proven, scales = [], [], {}
    for place, one in enumerate(plan.statements):
        log_shares = length - by_shares if one.proven == CLASSES else 0.0
        row = rows.row(
            one,
            by_class=by_class.get(place),
            log_proven=log_level + log_shares,
            log_approximate=log_approximate,
            log_alone=math.log(settings.beta),
        )
        said.append(row)
        if row["proven"] is not None and not one.inside and row["value"] is not None:
            words, low, high = scales[one.ends[0]] = one.ends
            ends = np.array([row["value"], *row["proven"]])
            value, lower, upper = np.clip((ends - low) / (high - low), 0.0, 1.0).tolist()
            proven.append((words, row["model"], float(one.expected), value, lower, upper))
    answers: Any = ()
    if proven and plan.joint:  # for the history, whose intervals hold together
        names = ("metric", "model", "cv_score", "value", "lower", "upper")
        columns = dict(zip(names, map(list, zip(*proven, strict=True)), strict=True))
        columns |= {"corrected": [1], "code_length": [length + math.log(n_proven)]}
        answers = Answers(columns, batch=last.number + 1, time=terms.time, scales=scales)
    closed = _closed(
        terms,
        size=len(answers),
        n_answered=last.n_answered + len(answers),
        n_above=last.n_above + len(answers),
        code_length=by_shares,
        cells={},
        scales={one.metric: list(one.scale) for one in answers},
        spending={"name": spending.name, "weight": spending.report_weight(last.number)},
    )
    levels = {
        "level": math.exp(log_level),
        "approximate_level": math.exp(log_approximate),
        "information_spent": length,
    }
    return closed, answers, levels | {"rows": said, "units": [rows.count, rows.words]}


def _closed(terms, **said):
    """Return the record of a report that reads the closed holdout."""
    code = terms.code.state(after=len(terms.code.pairs))
    said |= {"number": terms.last.number + 1, "time": terms.time, "code": code}
    said["checks"] = {}
    return dataclasses.replace(terms.last, closed=True, dp_epsilon=None, **said)


def _through_noise(holdout, plan, terms):
    """Return record, answers and rows of a report under a level of privacy."""
    settings, model = holdout.account.settings, holdout.dependence
    records, evaluations = Records(holdout.X, holdout.y, plan.models), []
    for one in plan.statements:
        metric: Any = one.measure.metric
        found = [metric.evaluate(*records.asked(name), holdout.y) for name in one.models]
        if len(found) == 2:  # the paired difference (theory G23)
            halved = 0.5 * (found[1].per_record - found[0].per_record + 1.0)
            mean, sensitivity = float(halved.mean()), found[0].sensitivity
            found = [Evaluation(per_record=halved, value=mean, sensitivity=sensitivity)]
        evaluations += found
    expected = [one.expected for one in plan.statements]
    own = np.ones(len(evaluations))  # deviations are taken from what was expected
    batch = make_batch(settings.n, model, expected, evaluations=evaluations, own_cells=own)
    units = list(model.units(settings.n))
    rows = [(one.ends, one.row(units[0])) for one in plan.statements]
    labels = [(ends[0], ends, row["model"], None) for ends, row in rows]
    record, answers = decide(
        dataclasses.replace(batch, labels=labels), terms, statements=plan.n_proven
    )
    if record is None:
        raise exhausted_error(settings, terms.last, unanswered=plan.n_proven)
    for ((_, low, high), row), answer in zip(rows, answers, strict=True):
        parts = np.array(width_parts(answer, settings, model) or (0.0, 0.0, 0.0))
        ends = np.array([answer.value, answer.lower, answer.upper])
        value, *pair = (low + (high - low) * ends).tolist()
        row |= {"value": value, "proven": pair, "parts": ((high - low) * parts).tolist()}
        row |= {"method": "through noise", "positive": ""}
    level = settings.sampling_failure * math.exp(-answers[0].code_length)
    levels = {"level": level, "approximate_level": None, "information_spent": record.code_length}
    return record, answers, levels | {"rows": [row for _, row in rows], "units": units}


def shown_report(holdout: Any, record: Any) -> FinalReport:
    """Return the report that a closing record holds."""
    content, settings = record.cells["report"], holdout.account.settings
    target = target_of(holdout.dependence, settings.n)
    assumptions = [*holdout.certificate().assumptions, *content["assumptions"]]
    if content["approximate_level"] is not None:
        assumptions.append("reading the closed holdout ended its privacy")
    known = {
        "rows": tuple(ReportRow.of(row, target) for row in content["rows"]),
        "units": tuple(content["units"]),
        "assumptions": tuple(assumptions),
        "spending": settings.spending.policy.description,
    }
    return FinalReport(
        **(content | known),
        confidence_level=holdout.confidence_level,
        n=settings.n,
        time=record.time,
    )


# -- rows ---------------------------------------------------------------------------------------


class Rows:
    """All rows of a plan, read from the closed holdout.

    Units were drawn independently, in a secret order that never changes (theory G28); ``seed``:
    secret, drawn with it.
    """

    def __init__(self, plan: Plan, holdout: Any, seed: int) -> None:
        self.plan, self.model, n = plan, holdout.dependence, holdout.n
        self.records = Records(holdout.X, holdout.y, plan.models)
        self.words = self.model.units(n)[1]  # what units are called
        # Of a declared chain: how many independent records it is worth.
        self.times: float | None = None
        self.weights = np.ones(n)  # what a record counts
        self.unit_sizes: Any = None  # what the sum over a unit's records is divided by
        rng = np.random.default_rng([seed, 1])  # slices have a stream of their own (theory G19)
        if plan.dependence in ("dependent", "past"):
            weights = self.model.record_weights(n)
            dates = getattr(self.model, "codes_", None)  # of a panel, in order
            self.units = np.arange(n) if dates is None else dates
            self.count = int(self.units.max()) + 1
            self.weights = self.weights if weights is None else n * weights
            if not self.model.is_time_ordered:  # weights of regimes that are seen are no units
                lasting = self.model.is_sequential and (weights is None or dates is not None)
                self.times = float(self.model.effective_n(n)) if lasting else 0.0
            return
        units = np.unique(self.model.components(n), return_inverse=True)[1]
        units = self.units = rng.permutation(int(units.max()) + 1)[units]
        sizes = np.bincount(units)
        self.count = len(sizes)
        if self.model.is_independent:
            self.words = "records"
        elif plan.per == "unit":
            self.unit_sizes = sizes
            self.weights = 1.0 / sizes[units]
        else:  # a larger group keeps so many records, drawn here
            order = np.lexsort((rng.random(n), units))
            place = np.empty(n)
            place[order] = np.arange(n) - (np.cumsum(sizes) - sizes)[units[order]]
            self.weights = (place < plan.bound).astype(float)

    def totals(self, values: Any) -> Any:
        """Return the weighted sums of records' values in each unit.

        Sums are divided by sizes: nine times one ninth is more than 1 in floating point, and bounds
        hold for means of at most 1.
        """
        if self.unit_sizes is not None:
            return np.bincount(self.units, values, minlength=self.count) / self.unit_sizes
        return np.bincount(self.units, self.weights * values, minlength=self.count)

    def means(self, values: Any) -> Any:
        """Return the mean of records' values on each date, which weigh equally."""
        return self.totals(values) * (self.count / len(self.units))

    def settled(self, terms: Any) -> tuple[Any, dict[int, Any]]:
        """Ask shares of classes where groups need them; return terms and settled batches by row.

        Of independent records the counts are read: given the labels, every bound holds with them.
        """
        found: dict[int, Any] = {}
        model, n = self.model, len(self.records.y)
        for place, one in enumerate(self.plan.statements):
            if one.proven != CLASSES:
                continue
            asked = self.records.asked(one.models[0])
            found[place] = one.measure.metric.evaluate(*asked, self.records.y)
            if found[place].by_class is not None and not model.is_independent:
                batch = make_batch(n, model, [one.expected], evaluations=[found[place]])
                found[place], terms = ask_shares(batch, terms)
        return terms, found

    def row(
        self,
        one: Statement,
        *,
        log_proven: float,
        log_approximate: float,
        log_alone: float,
        by_class: Any,
    ) -> Any:
        """Return a row in JSON.

        ``log_proven``, ``log_approximate``, ``log_alone``: logs of failure probabilities, which
        may be below the smallest number that floating point holds.
        """
        row, notes, past = one.row(self.count), [], self.model.is_time_ordered
        row["method"] = row["method"] or f"approximate: leaving out {self.words}"
        if past:
            row["target"] = target_of(self.model, len(self.records.y), one.ahead)
        inside = np.any([self._mask(part) > 0.0 for part in one.inside or ("",)], axis=0)
        row["n_units"] = np.unique(self.units[inside]).size
        row["n_events"] = self._n_events(inside)
        try:
            with np.errstate(all="ignore"):
                row["value"] = self.value(one)
                if one.proven:
                    ends = self.proven(one, log_proven, by_class)
                    once = self.proven(one, log_alone, by_class)
                    half, least = (0.5 * (high - low) for low, high in (ends, once))
                    row |= {"proven": _finite(ends), "parts": [least, half - least, 0.0]}
                if self.times == 0.0:
                    notes.append(_NEEDS_CHAIN)
                else:
                    row["approximate"], reasons = self._shown_approximate(one, log_approximate)
                    if row["approximate"] is None and one.proven and reasons:
                        reasons[0] = f"No approximate interval: {reasons[0]}"
                    notes += reasons
        except UndefinedScore as error:
            notes.append(str(error))
        if one.most < 1.0:
            most = one.most * (one.measure.span[1] - one.measure.span[0])
            notes.append(f"The proven interval counts differences beyond ±{most:.3g} as that.")
        notes += filter(None, [one.measure.note])
        notes += self._clip_notes(one)
        for name in one.models:
            failing = self.records.failing.get(name, ())
            if len(failing):
                places = ", ".join(map(str, failing[:5])) + ", …" * (len(failing) > 5)
                notes.append(
                    f"{name} failed on {len(failing)} of {len(self.records.y)} holdout records "
                    f"(positions {places}). They count with the worst score."
                )
        if row["value"] is None or not math.isfinite(row["value"]):
            row["value"], notes = None, notes or ["The score is undefined for these records."]
        return row | {"notes": notes}

    def public_refusal(self, one: Statement) -> str:
        """Return why a row can have no interval, as far as no record says it; else nothing."""
        if one.proven:
            return ""
        if self.times == 0.0:
            return _NEEDS_CHAIN
        if self.model.is_time_ordered:
            return too_few_dates(self.count)
        return public_refusal(self.count, times=self.times)

    def _n_events(self, inside):
        """Return the number of units with a positive record; None without positives."""
        positive = self.plan.positive
        if positive is None:
            return None
        return np.unique(self.units[inside & is_label(self.records.y, positive)]).size

    def _shown_approximate(self, one, log_level):
        """Return the ends of an approximate interval, None without one, and what to know of it."""
        found = self.approximate(one, math.exp(log_level))
        pair, notes = _finite((found.lower, found.upper)), list(found.notes)
        # A skill score has no lower end.
        is_bounded = one.measure.metric is not None and not one.skill
        if self.model.is_time_ordered and is_bounded:
            is_bounded = self._unclipped(one) is None
        if pair is not None and is_bounded:
            _, low, high = one.ends
            pair = [max(pair[0], low), min(pair[1], high)]
            if pair == [low, high]:
                return None, ["It would cover every possible value."]
        return pair, notes

    def over_time(self, holdout: Any) -> tuple[Any, Any]:
        """Return the dates, and the scores by date of each model on the first metric, by row."""
        first, scores = self.plan.statements[0], {}
        for place, one in enumerate(self.plan.statements):
            is_model = len(one.models) == 1 and not one.inside and one.ahead == 1
            if is_model and one.measure.name == first.measure.name:
                low, high = one.measure.span
                by_record = self.records.contributions(one.measure, one.models[0])[0]
                scores[place] = low + (high - low) * self.means(by_record)
        dates = calendar(holdout)
        return np.arange(self.count) if dates is None else dates, scores

    # -- values ---------------------------------------------------------------------------------

    def _mask(self, part):
        """Return what each record counts in a subgroup; all of them without one."""
        return self.weights * (self.plan.masks[part] if part else 1.0)

    def value(self, one: Statement) -> float:
        """Return what is reported, in score units."""
        if one.skill:
            losses = [self.weights @ self.records.loss(one.measure, name) for name in one.models]
            return 1.0 - float(losses[1] / losses[0])
        if self.model.is_time_ordered and one.measure.statistic == "r2":
            return self._date_row(one, 0.5).value
        found = [
            reads(one.measure, self.records, name, self._mask(part))
            for name in one.models
            for part in one.inside or ("",)
        ]
        return float(found[-1] - (found[0] if len(found) == 2 else 0.0))

    # -- proven limits --------------------------------------------------------------------------

    def proven(self, one: Statement, log_level: float, by_class: Any) -> tuple[float, float]:
        """Return limits in score units; ``log_level``: the log of their failure probability."""
        if len(one.inside) == 2:  # each limit of both may fail with a part of the level
            parts = [dataclasses.replace(one, inside=(part,)) for part in one.inside]
            first, second = (self.proven(part, log_level - math.log(2.0), None) for part in parts)
            return second[0] - first[1], second[1] - first[0]
        low, high = one.measure.span
        span = high - low
        if one.proven == CLASSES:
            return self._by_class(by_class, log_level)
        if one.proven == PAST:
            return past_row(one, self.records, self, self.plan.classes, log_level)
        mask = self.plan.masks[one.inside[0]] if one.inside else 1.0
        found = [
            [mask * each for each in self.records.contributions(one.measure, name)]
            for name in one.models
        ]
        (sums, counts), paired = found[-1], len(found) == 2
        if paired:
            gap = np.clip((sums - found[0][0]) / one.most, -1.0, 1.0)
            low, span, sums = -one.most * span, 2.0 * one.most * span, 0.5 * (counts + gap)
        if one.proven == COUNTS:
            level, alike = min(math.exp(log_level), 0.5), self.plan.dependence == "records"
            if level < _LEAST_LEVEL:
                return low, low + span
            if one.measure.share == "f1":  # by Jaccard's share: F1 = 2 q / (1 + q)
                hits, among = 0.5 * sums.sum(), counts.sum() - 0.5 * sums.sum()
                ends = share_limits(round(hits), round(among), level)
                lower, upper = (2.0 * end / (1.0 + end) for end in ends)
            else:
                hits, among = round(sums.sum()), round(counts.sum())
                lower, upper = share_limits(hits, among, level, alike=alike)
        elif one.proven == TAIL:
            tail = ModelTail(self.model, len(sums), binary=one.measure.is_share and not paired)
            at = np.array([min(1.0, float(np.mean(self.weights * sums)))])
            lower, upper = (
                float(e[0]) for e in tail.limits(at, at, np.array([log_level - math.log(2.0)]))
            )
        else:
            limits = {BETS: star_limits, FREE: order_free_limits}[one.proven]
            known = {"moments": one.moments, "log_inverse_level": math.log(2.0) - log_level}
            bound = (2.0 if one.measure.share == "f1" else 1.0) * self.plan.bound
            lower, upper = limits(self.totals(sums), self.totals(counts), bound=bound, **known)
        return low + span * lower, low + span * upper

    def _by_class(self, found, log_level):
        """Return limits of ROC AUC or balanced accuracy (G12; of groups G19, G20)."""
        if hasattr(found, "tails"):
            lower, upper = found.limits(found.values, found.values, np.array([log_level]))
            return float(lower[0]), float(upper[0])
        shape, value = dataclasses.asdict(found.shape), found.value
        if found.by_class is not None:
            floors = tuple(found.by_class.least_counts(len(found.shape.classes)).tolist())
            shape, value = shape | {"class_floors": floors}, found.by_class.value(floors)
        tail, at = score_tail(self.model, len(self.records.y), **shape), np.array([value])
        lower, upper = tail.limits(at, at, np.array([log_level - math.log(2.0)]))
        return float(lower[0]), float(upper[0])

    # -- approximate limits ---------------------------------------------------------------------

    def approximate(self, one: Statement, level: float) -> Any:
        """Return limits by leaving out units, in score units, and what to know of them (G28)."""
        if self.model.is_time_ordered:
            return self._date_row(one, level)
        statistic, y, sides = self._statistic(one)
        how = {"level": level, "per_record": self.plan.per == "record", "times": self.times}
        return approximate_row(statistic, y, sides, units=self.units, **how)

    def _date_row(self, one, level):
        """Return limits over these dates, each given its past (theory G31)."""
        measure = one.measure
        if measure.name == _MEDIAN and len(one.models) == 1 and not one.inside:
            errors = np.abs(self.records.y - self.records.rows(one.models[0], "values"))
            return median_row(errors, level, dates=self.units, horizon=one.ahead)
        if measure.name in _WITHOUT_TARGET:
            reason = f"{measure.name} has no approximate interval over these dates."
            return ApproximateRow(self.value(one), math.nan, math.nan, self.count, (reason,))
        unclipped = None if one.skill else self._unclipped(one)
        if unclipped is not None:
            name, sides = unclipped
            statistic, y = STATISTICS[name], self.records.y.astype(float)
        else:
            statistic, y, sides = self._statistic(one)
            name = measure.statistic or (measure.metric.name if measure.metric else measure.name)
        metric = date_statistic(name, statistic, training_mean=self.plan.training_mean)
        return date_row(metric, y, sides, dates=self.units, level=level, horizon=one.ahead)

    def _unclipped(self, one):
        """Return the statistic of a clipped error without its clip and what it reads, or None.

        Approximate rows need no range: they are about errors as they are (theory G31).
        """
        metric = one.measure.metric
        if not hasattr(metric, "difference_limits") or self.records.y.ndim != 1:
            return None
        alpha = getattr(metric, "alpha", None)
        name = metric.name if alpha is None else f"{metric.name}_{alpha:g}"
        predictions = [self.records.rows(model, "values") for model in one.models[::-1]]
        if name not in STATISTICS or not np.isfinite(predictions).all():
            return None
        parts = one.inside[::-1] or ("",)
        sides = [(values, self._mask(part) > 0.0) for values in predictions for part in parts]
        return name, sides

    def _clip_notes(self, one):
        """Return how many holdout errors of each model are beyond the clip, in sentences."""
        if not self.model.is_time_ordered or one.skill or self._unclipped(one) is None:
            return []
        notes, metric = [], one.measure.metric
        for name in one.models:
            per_record = self.records.contributions(one.measure, name)[0]
            model, X = self.records.asked(name)
            clipping = metric.clipping(model, X, self.records.y, per_record)
            if clipping is not None and clipping.n_clipped:
                notes.append(
                    f"{clipping.n_clipped} of {clipping.n} holdout errors of {name} are beyond the "
                    "clip. The proven interval is about clipped errors, the approximate one about "
                    "errors as they are."
                )
        return notes

    def _statistic(self, one):
        """Return the statistic of a row, targets, and what the models say of which records."""
        parts, sides = one.inside[::-1] or ("",), []
        if one.skill:
            both = np.vstack([self.records.loss(one.measure, name) for name in one.models])
            statistic, y, sides = SKILL, np.zeros(both.shape[1]), [(both, self._mask("") > 0.0)]
        for name in () if one.skill else one.models[::-1]:
            statistic, y, said = self.records.response(one.measure, name, self.weights)
            # Of records that do not count (per="record"), neither family speaks.
            sides += [(said, self._mask(part) > 0.0) for part in parts]
        return statistic, y, sides


def _finite(ends):
    return [float(end) for end in ends] if all(map(math.isfinite, ends)) else None


# -- statements fixed before the holdout was asked about them (theory G30) -----------------------


def fix_statements(holdout: Any, key: str) -> None:
    """Record that statements are fixed now, with what the holdout has released so far.

    ``key`` is known by all that they say; the same statements are recorded once.
    """
    with holdout.account.writing() as book:
        if all(one["key"] != key for one in book.notes(Fact.STATEMENTS)):
            content = {"key": key, "released": book.last.released}
            book.note(Fact.STATEMENTS, content)


def fixed_length(notes: list[dict[str, Any]], key: str) -> float:
    r"""Return the code length of statements that were fixed before, in nats (theory G30).

    .. math:: \ell = -\ln P(\text{everything released before they were fixed}) - \ln w_k,
       \quad w_k = .9 \cdot .1^{k-1}

    for the list that was fixed as number :math:`k` on this holdout: what was released afterwards
    cannot have changed it.
    """
    place = [one["key"] for one in notes].index(key)
    return float(notes[place]["released"]) - math.log(FIRST) - place * math.log1p(-NEXT)


@strip_traceback_frames  # the frames hold raw scores
def report_statements(holdout: Any, key: str, compute: Callable[[float], Any]) -> Any:
    """Report on statements that were fixed, and close the holdout.

    ``compute`` takes their code length and returns what JSON can say. It reads the raw holdout: not
    under a level of privacy. The same report asked again is returned again.
    """
    account, asked = holdout.account, {"statements": key}
    account.check_home()
    if account.settings.is_private:
        raise ValueError(
            "final_report() of a filter reads the closed holdout without noise, which ends its "
            "privacy. A numeric epsilon and calibration='zhao2017' forbid it. The holdout was "
            "not queried."
        )
    with account.reading() as book:
        record = closing_record(book, asked)
        notes = book.notes(Fact.STATEMENTS)
    if record is None:
        # Statements that were fixed before are the same whatever an attempt released (theory G35).
        length = fixed_length(notes, key)

        def computed(terms):
            cells = {"statements": json.loads(canonical(compute(length)))}
            return _closed(terms, size=0, code_length=length, cells=cells), ()

        record = close_holdout(account, asked, computed)
    return record.cells["statements"]
