"""The final report: the closing that comes before anything is computed, and what it records."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from typing import Any

import numpy as np

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp._digests import data_digest
from sklearn_bdp.holdout._advance import prepared
from sklearn_bdp.holdout._batch import decide, exhausted_error, route
from sklearn_bdp.holdout._certificate import target_of
from sklearn_bdp.holdout._in_time import WalkForward, calendar, past_dates
from sklearn_bdp.holdout._inputs import batch_of_evaluations
from sklearn_bdp.holdout._measures import Predicted, Records
from sklearn_bdp.holdout._plan import CLASSES, Plan, planned_report
from sklearn_bdp.holdout._report import FinalReport, ReportRow, check_open
from sklearn_bdp.holdout._rows import Rows
from sklearn_bdp.holdout._trial import check_plan
from sklearn_bdp.ledger import Answers, Fact, canonical
from sklearn_bdp.metrics import Evaluation


class Closing:
    """What closes a holdout: its final report."""

    def __init__(self, holdout: Any) -> None:
        self.holdout, self.account = holdout, holdout.account
        self.model, self.settings = holdout.model, holdout.account.settings

    @sealed_errors
    def report(
        self, estimators: Any, training_values: Any, *, variance: float | None = None, **asked: Any
    ) -> FinalReport:
        """Report scores and close the holdout; see :meth:`ReusableHoldout.final_report`.

        ``variance``: of a record's training-side score in the first row, as a search has it.
        """
        self.account.check_home()
        plan = planned_report(self.holdout, estimators, training_values, **asked)
        check_plan(plan, self.holdout, asked["training"])
        identity = json.loads(canonical(plan.identity()))
        with self.account.reading() as book:
            last, begun = book.last, book.notes(Fact.CLOSING)
            again = last.closed and begun[0]["asked"] == identity
            if not again:
                check_open(book, identity)
        if not again:  # else a script that is run twice
            if plan.approximate:
                plan = prepared(plan, asked["training"], variance, self.holdout)
            plan = self._begun(plan, identity)
        if plan.refit is not None:  # recipes are fitted once they are asked
            models = dict(plan.models)
            for name, one in models.items():
                if not isinstance(one, Predicted):
                    models[name] = WalkForward(one, self.holdout, plan.refit[0])
            plan = dataclasses.replace(plan, models=models)
        return self._over_time(self.shown(last if again else self._reported(plan)), plan)

    def _begun(self, plan: Plan, identity: Any) -> Plan:
        """Record what is going to be reported, durably: from here on nothing else can be asked.

        What was known in advance is recorded, too: a report that was interrupted is completed with
        the same numbers.
        """
        with self.account.writing() as transaction:
            check_open(transaction, identity)
            budget, last = self.settings.budget, transaction.last
            if budget is not None and last.n_rounds + plan.n_rounds(self.model) > budget:
                raise exhausted_error(self.settings, last, unanswered=plan.n_proven)
            begun = transaction.notes(Fact.CLOSING)
            if begun:
                return plan.informed(begun[0]["advance"])
            known = [[one.moments, one.most, one.expected] for one in plan.statements]
            content = {"asked": identity, "advance": known}
            self.account.note_closing(transaction, Fact.CLOSING, content)
        return plan

    def _reported(self, plan):
        """Compute the report and record it; return the account that closes the holdout."""
        with self.account.writing() as transaction:
            terms = self.account.terms(transaction, fine=True)
            before = terms.last
            content = {  # by the names of a report
                "n_answered": before.n_answered,
                "n_above": before.n_above,
                "n_batches": before.number,
                "per": plan.per,
                "baseline": plan.baseline,
                "refit": "" if plan.refit is None else plan.refit[1],
                "assumptions": plan.caveats,
            }
            if plan.approximate:
                drawn = transaction.notes(Fact.ORDER)[0]
                record, answers = self._read(plan, terms, content, drawn)
            else:
                record, answers = self._through_noise(plan, terms, content)
            self.account.record(transaction, record, terms, answers)
        return record

    def _read(self, plan, terms, content, drawn):
        """Return account and answers of a report that reads the closed holdout, without privacy.

        Theory G28: each family at its own level. Proven rows take what G16 leaves; approximate ones
        take the weight 1, for interim answers are not in their family.

        The order of units is drawn once and for all, with the holdout: 128 random bits stand in
        the header of the ledger, under its chain, and the order is a function of these and of the
        records. A restart, a copy of the file and a pickle find it again, nothing draws another,
        and whoever has not both the ledger and the records cannot know it.
        """
        secret = data_digest(drawn, self.holdout.y, self.holdout.X)
        rows = Rows(plan, self.holdout, seed=int(secret[:32], 16))
        before, beta = terms.last, self.holdout.beta
        terms, by_class = rows.settled(terms)
        last = terms.last
        # Shares of classes that are asked now are paid by the rows that they decide, by no other.
        length, by_shares = (route(one, self.settings, report=True)[0] for one in (before, last))
        share = self.settings.sampling_failure / max(1, plan.n_proven)
        levels = {
            "proven": share * math.exp(-length),
            "approximate": beta * math.exp(-before.released) / len(plan.statements),
            "alone": beta,
        }
        deciding = {"proven": share * math.exp(-by_shares)}
        each = [levels | (deciding if one.proven == CLASSES else {}) for one in plan.statements]
        content |= {
            "rows": [
                rows.row(place, by_class=by_class.get(place), **own)
                for place, own in enumerate(each)
            ],
            "information_spent": length,
            "level": levels["proven"],
            "approximate_level": levels["approximate"],
            "units": [rows.count, rows.words],
        }
        paid = length + math.log(max(1, plan.n_proven))
        answers = _answers(plan, content["rows"], last, terms.time, paid)
        return dataclasses.replace(
            last,
            number=last.number + 1,
            time=terms.time,
            size=len(answers),
            n_answered=last.n_answered + len(answers),
            n_above=last.n_above + len(answers),
            scales={one.metric: list(one.scale) for one in answers},
            code_length=by_shares,
            code=terms.code.state(after=len(terms.code.pairs)),
            cells={"report": content},
            closed=True,
            dp_epsilon=None,
            spending={
                "name": self.settings.spending.name,
                "weight": self.settings.spending.of_report(last.number),
            },
        ), answers

    def _through_noise(self, plan, terms, content):
        """Return the account and the answers of a report under a level of privacy."""
        record, answers = decide(self._batch(plan), terms, statements=plan.n_proven)
        if record is None:
            raise exhausted_error(self.settings, terms.last, unanswered=plan.n_proven)
        rows, units = [], list(self.model.units(self.settings.n))
        for one, answer in zip(plan.statements, answers, strict=True):
            _, low, high = one.ends
            part = np.array(self.account.why_wide(answer) or (0.0, 0.0, 0.0))
            ends = np.array([answer.value, answer.lower, answer.upper])
            value, *pair = (low + (high - low) * ends).tolist()
            rows.append(one.row(units[0]) | {
                "value": value, "proven": pair, "method": "through noise", "positive": "",
                "parts": ((high - low) * part).tolist(),
            })  # fmt: skip
        content |= {
            "rows": rows,
            "information_spent": record.code_length,
            "level": self.settings.sampling_failure * math.exp(-answers[0].code_length),
            "approximate_level": None,
            "units": units,
        }
        return dataclasses.replace(record, cells=record.cells | {"report": content}), answers

    def _batch(self, plan):
        """Return the statements as one batch; raw scores of each model are made once."""
        made, evaluations, labels = {}, [], []
        records = Records(self.holdout.X, self.holdout.y, plan.models)
        for one in plan.statements:
            metric = one.measure.metric
            for name in one.models:
                key = name, repr(metric)
                if key not in made:
                    made[key] = metric.evaluate(*records.asked(name), self.holdout.y)
            evaluations.append(_difference([made[name, repr(metric)] for name in one.models]))
            labels.append((one.ends[0], one.ends, " minus ".join(one.models[::-1]), None))
        batch = batch_of_evaluations(
            evaluations,
            self.settings.n,
            self.model,
            training_values=[one.expected for one in plan.statements],
            own_cells=np.ones(len(evaluations)),  # deviations are taken from what was expected
        )
        return dataclasses.replace(batch, labels=labels)

    def _over_time(self, report, plan):
        """Return a report that can draw its first row over time, in this process."""
        if not self.model.is_given_past or not plan.statements[0].proven:
            return report
        rows = Rows(plan, self.holdout, seed=0)

        def drawn():
            dates = calendar(self.holdout)
            if dates is None:
                dates = np.unique(past_dates(self.model, self.settings.n))
            return dates, rows.over_time()

        return dataclasses.replace(report, _over_time=drawn)

    def shown(self, record: Any) -> FinalReport:
        """Return the report that a closing account holds."""
        content = record.cells["report"]
        target = target_of(self.model, self.settings.n)
        assumptions = [*self.holdout.certificate().assumptions, *content["assumptions"]]
        if content["approximate_level"] is not None:
            assumptions.append("reading the closed holdout ended its privacy")
        known = {
            "rows": tuple(ReportRow.of(row, target) for row in content["rows"]),
            "units": tuple(content["units"]),
            "assumptions": tuple(assumptions),
            "spending": self.settings.spending.describe(),
        }
        return FinalReport(
            **(content | known), beta=self.holdout.beta, n=self.settings.n, time=record.time
        )


def _answers(plan, rows, last, time, length):
    """Return the proven rows about all records as answers, for the history; or nothing."""
    columns, scales = defaultdict(list), {}
    for one, row in zip(plan.statements, rows, strict=True):
        if row["proven"] is None or one.inside or row["value"] is None:
            continue
        words, low, high = scales[one.ends[0]] = one.ends
        ends = np.array([row["value"], *row["proven"]])
        unit = np.clip((ends - low) / (high - low), 0.0, 1.0).tolist()
        known = {"key": None, "metric": words, "model": row["model"], "above": 1,
                 "training_value": float(one.expected), "code_length": length}  # fmt: skip
        unit = dict(zip(("value", "lower", "upper"), unit, strict=True))
        for name, value in (known | unit).items():
            columns[name].append(value)
    if not columns:
        return ()
    return Answers(dict(columns), batch=last.number + 1, time=time, scales=scales)


def report_and_close(
    holdout: Any, estimators: Any, training_value: Any, *, variance: Any, **asked: Any
) -> FinalReport:
    """Report the model that a search or a selection verified; it knows the variance of a record."""
    return Closing(holdout).report(
        estimators, training_value, variance=variance, training=None, **asked
    )


def _difference(evaluations):
    """Return the evaluation of one model, or of the paired difference of two (theory G23)."""
    if len(evaluations) == 1:
        return evaluations[0]
    first, second = (each.per_record for each in evaluations)
    halved = 0.5 * (second - first + 1.0)
    return Evaluation(
        per_record=halved, value=float(halved.mean()), sensitivity=evaluations[0].sensitivity
    )
