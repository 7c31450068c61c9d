"""The final report: the closing that comes before anything is computed, and what it records."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp._digests import data_digest
from sklearn_bdp.holdout._advance import check_plan, prepared
from sklearn_bdp.holdout._batch import decide, exhausted_error, route
from sklearn_bdp.holdout._certificate import check_open, target_of, width_parts
from sklearn_bdp.holdout._in_time import WalkForward
from sklearn_bdp.holdout._inputs import make_batch
from sklearn_bdp.holdout._measures import Predicted, Records
from sklearn_bdp.holdout._plan import CLASSES, Plan, planned_report
from sklearn_bdp.holdout._report import FinalReport, ReportRow
from sklearn_bdp.holdout._rows import Rows
from sklearn_bdp.ledger import Answers, Fact, canonical
from sklearn_bdp.metrics import Evaluation

#: Weight of the first list of statements on a holdout, and what each further list gets of the rest.
FIRST, NEXT = 0.9, 0.9


@sealed_errors
def report_and_close(
    holdout: Any,
    estimators: Any,
    training_values: Any,
    *,
    variance: float | None = None,
    training: Any = None,
    **asked: Any,
) -> FinalReport:
    """Report scores and close the holdout; see :meth:`ReusableHoldout.final_report`.

    ``variance``: of a record's training-side score in the first row, as a search has it.
    """
    account = holdout.account
    account.check_home()
    plan = planned_report(holdout, estimators, training_values, training=training, **asked)
    check_plan(plan, holdout, training)
    identity = json.loads(canonical(plan.identity()))
    with account.reading() as book:
        last, begun = book.last, book.notes(Fact.CLOSING)
        again = last.closed and begun[0]["asked"] == identity  # a script that is run twice
        if not again:
            check_open(book, identity)
    if not again:
        if plan.approximate:
            plan = prepared(plan, training, variance, holdout)
        plan = _begun(holdout, plan, identity)
    if plan.refit is not None:  # recipes are fitted once they are asked
        models = dict(plan.models)
        for name, one in models.items():
            if not isinstance(one, Predicted):
                models[name] = WalkForward(one, holdout, plan.refit[0])
        plan = dataclasses.replace(plan, models=models)
    if not again:
        with account.writing() as transaction:
            terms = account.terms(transaction, fine=True)
            if plan.approximate:
                last, answers = _read(holdout, plan, terms, transaction.notes(Fact.ORDER)[0])
            else:
                last, answers = _through_noise(holdout, plan, terms)
            account.record(transaction, last, terms, answers)
    report = shown_report(holdout, last)
    if not (holdout.model.is_given_past and plan.statements[0].proven):
        return report
    scores = functools.partial(Rows(plan, holdout, seed=0).over_time, holdout)
    return dataclasses.replace(report, _over_time=scores)


def _begun(holdout: Any, plan: Plan, identity: Any) -> Plan:
    """Record what is going to be reported, durably: from here on nothing else can be asked.

    What was known in advance is recorded, too: a report that was interrupted is completed with
    the same numbers.
    """
    settings = holdout.account.settings
    with holdout.account.writing() as transaction:
        check_open(transaction, identity)
        last, begun = transaction.last, transaction.notes(Fact.CLOSING)
        needed = last.n_rounds + plan.n_rounds(holdout.model)
        if settings.budget is not None and needed > settings.budget:
            raise exhausted_error(settings, last, unanswered=plan.n_proven)
        if begun:
            return plan.informed(begun[0]["advance"])
        known = [[one.moments, one.most, one.expected] for one in plan.statements]
        content = {"asked": identity, "advance": known}
        holdout.account.note_closing(transaction, Fact.CLOSING, content)
    return plan


def _read(holdout: Any, plan: Plan, terms: Any, drawn: str) -> Any:
    """Return account and answers of a report that reads the closed holdout, without privacy.

    Theory G28: each family at its own level. Proven rows take what G16 leaves; approximate ones
    take the weight 1, for interim answers are not in their family.

    The order of units is drawn once and for all, with the holdout: 128 random bits stand in
    the header of the ledger, under its chain, and the order is a function of these and of the
    records. A restart, a copy of the file and a pickle find it again, nothing draws another,
    and whoever has not both the ledger and the records cannot know it.
    """
    secret = data_digest(drawn, holdout.y, holdout.X)
    rows = Rows(plan, holdout, seed=int(secret[:32], 16))
    settings, before = holdout.account.settings, terms.last
    terms, by_class = rows.settled(terms)
    last = terms.last
    # Shares of classes that are asked now are paid by the rows that they decide, by no other.
    length, by_shares = (route(one, settings, report=True)[0] for one in (before, last))
    count = max(1, plan.n_proven)
    level = settings.sampling_failure / count * math.exp(-length)
    approximate = holdout.beta * math.exp(-before.released) / len(plan.statements)
    said = []
    for place, one in enumerate(plan.statements):
        shares = math.exp(length - by_shares) if one.proven == CLASSES else 1.0
        levels = {"proven": level * shares, "approximate": approximate, "alone": holdout.beta}
        said.append(rows.row(one, by_class=by_class.get(place), **levels))
    content = _content(plan, before) | {
        "rows": said,
        "information_spent": length,
        "level": level,
        "approximate_level": approximate,
        "units": [rows.count, rows.words],
    }
    answers = _answers(plan, said, last, terms.time, length + math.log(count))
    spending = {
        "name": settings.spending.name,
        "weight": settings.spending.of_report(last.number),
    }
    return _closed(
        terms, size=len(answers), n_answered=last.n_answered + len(answers),
        n_above=last.n_above + len(answers), code_length=by_shares, cells={"report": content},
        scales={one.metric: list(one.scale) for one in answers}, spending=spending,
    ), answers  # fmt: skip


def _closed(terms, **said):
    """Return the account after a report that reads the closed holdout."""
    return dataclasses.replace(
        terms.last, number=terms.last.number + 1, time=terms.time, closed=True, dp_epsilon=None,
        code=terms.code.state(after=len(terms.code.pairs)), **said,
    )  # fmt: skip


def _content(plan, before):
    """Return what a report says besides its rows, by its own names, in JSON."""
    return {
        "n_answered": before.n_answered,
        "n_above": before.n_above,
        "n_batches": before.number,
        "per": plan.per,
        "baseline": plan.baseline,
        "refit": "" if plan.refit is None else plan.refit[1],
        "assumptions": plan.caveats,
    }


def _answers(plan, rows, last, time, length):
    """Return the proven rows about all records as answers, for the history; or nothing."""
    columns, scales = defaultdict(list), {}
    for one, row in zip(plan.statements, rows, strict=True):
        if row["proven"] is None or one.inside or row["value"] is None:
            continue
        words, low, high = scales[one.ends[0]] = one.ends
        ends = np.array([row["value"], *row["proven"]])
        value, lower, upper = np.clip((ends - low) / (high - low), 0.0, 1.0).tolist()
        known = {"key": None, "metric": words, "model": row["model"], "above": 1,
                 "training_value": float(one.expected), "code_length": length,
                 "value": value, "lower": lower, "upper": upper}  # fmt: skip
        for name, said in known.items():
            columns[name].append(said)
    if not columns:
        return ()
    return Answers(dict(columns), batch=last.number + 1, time=time, scales=scales)


def _through_noise(holdout: Any, plan: Plan, terms: Any) -> Any:
    """Return the account and the answers of a report under a level of privacy."""
    settings, model = holdout.account.settings, holdout.model
    records, evaluations = Records(holdout.X, holdout.y, plan.models), []
    for one in plan.statements:
        metric: Any = one.measure.metric
        found = [metric.evaluate(*records.asked(name), holdout.y) for name in one.models]
        if len(found) == 2:  # the paired difference (theory G23)
            halved = 0.5 * (found[1].per_record - found[0].per_record + 1.0)
            mean, sensitivity = float(halved.mean()), found[0].sensitivity
            found = [Evaluation(per_record=halved, value=mean, sensitivity=sensitivity)]
        evaluations += found
    batch = make_batch(
        settings.n, model, [one.expected for one in plan.statements], evaluations=evaluations,
        own_cells=np.ones(len(evaluations)),  # deviations are taken from what was expected
    )  # fmt: skip
    units = list(model.units(settings.n))
    said = [one.row(units[0]) for one in plan.statements]
    labels = [
        (one.ends[0], one.ends, row["model"], None)
        for one, row in zip(plan.statements, said, strict=True)
    ]
    batch = dataclasses.replace(batch, labels=labels)
    record, answers = decide(batch, terms, statements=plan.n_proven)
    if record is None:
        raise exhausted_error(settings, terms.last, unanswered=plan.n_proven)
    for one, row, answer in zip(plan.statements, said, answers, strict=True):
        _, low, high = one.ends
        parts = np.array(width_parts(answer, settings, model) or (0.0, 0.0, 0.0))
        ends = np.array([answer.value, answer.lower, answer.upper])
        value, *pair = (low + (high - low) * ends).tolist()
        row |= {"value": value, "proven": pair, "parts": ((high - low) * parts).tolist()}
        row |= {"method": "through noise", "positive": ""}
    content = _content(plan, terms.last) | {
        "rows": said,
        "information_spent": record.code_length,
        "level": settings.sampling_failure * math.exp(-answers[0].code_length),
        "approximate_level": None,
        "units": units,
    }
    return dataclasses.replace(record, cells=record.cells | {"report": content}), answers


def shown_report(holdout: Any, record: Any) -> FinalReport:
    """Return the report that a closing account holds."""
    content, settings = record.cells["report"], holdout.account.settings
    target = target_of(holdout.model, settings.n)
    assumptions = [*holdout.certificate().assumptions, *content["assumptions"]]
    if content["approximate_level"] is not None:
        assumptions.append("reading the closed holdout ended its privacy")
    known = {
        "rows": tuple(ReportRow.of(row, target) for row in content["rows"]),
        "units": tuple(content["units"]),
        "assumptions": tuple(assumptions),
        "spending": settings.spending.policy.words,
    }
    return FinalReport(**(content | known), beta=holdout.beta, n=settings.n, time=record.time)


# -- statements fixed before the holdout was asked about them (theory G30) -----------------------


def fix_statements(holdout: Any, key: str) -> None:
    """Record that statements are fixed now, with what the holdout has released so far.

    ``key`` is known by all that they say; the same statements are recorded once.
    """
    with holdout.account.writing() as transaction:
        if all(one["key"] != key for one in transaction.notes(Fact.STATEMENTS)):
            content = {"key": key, "released": transaction.last.released}
            transaction.note(Fact.STATEMENTS, content)


def fixed_length(notes: list[dict[str, Any]], key: str) -> float:
    r"""Return the code length of statements that were fixed before, in nats (theory G30).

    .. math:: \ell = -\ln P(\text{everything released before they were fixed}) - \ln w_k,
       \quad w_k = .9 \cdot .1^{k-1}

    for the list that was fixed as number :math:`k` on this holdout: what was released afterwards
    cannot have changed it.
    """
    place = [one["key"] for one in notes].index(key)
    return float(notes[place]["released"]) - math.log(FIRST) - place * math.log1p(-NEXT)


@sealed_errors  # the frames hold raw scores
def report_statements(holdout: Any, key: str, compute: Callable[[float], Any]) -> Any:
    """Report on statements that were fixed, and close the holdout.

    ``compute`` takes their code length and returns what JSON can say. It reads the raw holdout: not
    under a level of privacy. The same report asked again is returned again.
    """
    account, asked = holdout.account, {"statements": key}
    account.check_home()
    if account.settings.information is not None or account.settings.tau is not None:
        raise ValueError(
            "final_report() of a filter reads the closed holdout without noise, which ends its "
            "privacy. A numeric epsilon and calibration='zhao2017' forbid it. The holdout was "
            "not queried."
        )
    with account.writing() as transaction:
        last, begun = transaction.last, transaction.notes(Fact.CLOSING)
        if last.closed and begun[0]["asked"] == asked:
            return last.cells["statements"]
        check_open(transaction, asked)
        length = fixed_length(transaction.notes(Fact.STATEMENTS), key)
        if not begun:
            account.note_closing(transaction, Fact.CLOSING, {"asked": asked})
    content = json.loads(canonical(compute(length)))
    with account.writing() as transaction:
        terms = account.terms(transaction, fine=True)
        cells = {"statements": content}
        transaction.append(_closed(terms, size=0, code_length=length, cells=cells))
    return content
