"""The final report: what is stated, and the closing that comes before anything is computed."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp._checks import check_boolean, check_option
from sklearn_bdp._digests import object_digest
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.holdout._approximate import STATISTICS, approximate
from sklearn_bdp.holdout._around import ask_squares, planned, settle_shares
from sklearn_bdp.holdout._batch import (
    exhausted_error,
    level_spent,
    route,
    scaled_to_spread,
)
from sklearn_bdp.holdout._certificate import target_of
from sklearn_bdp.holdout._inputs import batch_of_evaluations, check_training_value
from sklearn_bdp.holdout._report import READ, FinalReport, ReportRow, check_open
from sklearn_bdp.holdout._settings import final_noise, margins
from sklearn_bdp.ledger import Fact
from sklearn_bdp.metrics import Evaluation, get_metric

COUNTED = "exact (Clopper-Pearson), read from the closed holdout"
# Variance of a paired difference that its squares are first asked for, where the caller knows
# none: a share of .06 of disagreements. Any number is valid (theory G23).
_DISAGREEMENT = 0.015


class _Statement(NamedTuple):
    """One row before it is computed."""

    models: tuple[str, ...]  # one, or the two that are compared
    name: str  # of the metric, or of the statistic
    metric: Any = None  # None: approximate
    expected: float = 0.5  # training-side value in [0, 1]
    variance: float = math.nan

    @property
    def label(self):
        """What the ledger says of it: the metric, its words and range, the model."""
        low, high = float(self.metric.lower), float(self.metric.upper)
        if len(self.models) == 1:
            return self.name, (self.name, low, high), self.models[0]
        words = f"difference of {self.name}"
        return words, (words, low - high, high - low), f"{self.models[1]} minus {self.models[0]}"


class Closing:
    """What closes a holdout: its final report."""

    def __init__(self, holdout):
        self.holdout, self.account = holdout, holdout.account
        self.model, self.settings = holdout.model, holdout.account.settings

    def report(self, estimators, training_values, scoring, compare, interval, training_variance):
        """Report scores and close the holdout; see :meth:`ReusableHoldout.final_report`."""
        self.account.check_home()
        check_boolean("compare", compare)
        check_option("interval", interval, ("exact", "approximate"))
        models = _named(estimators)
        for model in models.values():
            _refuse_selectors(model)
            if isinstance(model, BaseEstimator):
                check_is_fitted(model)
            self.holdout.check_model(model)
        statements = self._statements(models, training_values, scoring, interval, training_variance)
        if compare:
            statements += _differences(models, statements)
        self._begin(statements, models)
        record = self._reported(statements, models)
        shown = None
        if len(models) == 1 and self.settings.information is None and self.settings.tau is None:
            shown = (*models.values(), self.holdout.X, self.holdout.y)
        return dataclasses.replace(self.shown(record), _shown=shown)

    def _statements(self, models, training_values, scoring, interval, variance):
        """Return what is reported of each model, fixed before anything is computed."""
        wanted = list(scoring) if isinstance(scoring, list | tuple) else [scoring]
        given = np.full(len(models), np.nan)
        if training_values is not None:
            given = np.broadcast_to(np.asarray(training_values, dtype=float), (len(models),))
        found = []
        for place, asked in enumerate(wanted):
            for (name, model), value in zip(models.items(), given, strict=True):
                metric, said = self._metric(asked, model, interval)
                first = place == 0 and metric is not None
                known = first and math.isfinite(value)
                prediction = check_training_value(metric, float(value)) if known else 0.5
                spread = math.nan if variance is None or not first else variance
                found.append(_Statement((name,), said, metric, prediction, spread))
        if any(one.metric is None for one in found):
            self._check_approximate(found, models)
        return found

    def _metric(self, scoring, model, interval):
        """Return a metric with a proven interval or None, and the name of what is reported."""
        listed = isinstance(scoring, str) and scoring in STATISTICS
        try:
            metric = get_metric(scoring, estimator=model)
        except (UnboundedMetricError, ValueError):
            if not listed:
                raise
            return None, scoring
        if listed or metric.name in STATISTICS:
            name = scoring if listed else metric.name
            alike = self.model.is_componentwise and not self.model.is_given_rest
            unproven = not (metric.is_mean or alike)
            if interval == "approximate" or unproven:
                return None, name
        elif interval == "approximate":
            raise ValueError(
                f"interval='approximate' is not available for {metric.name}. Use one of "
                f"{', '.join(sorted(STATISTICS))}, or interval='exact'. The holdout was not "
                "queried."
            )
        return metric, metric.measured

    def _check_approximate(self, statements, models):
        """Raise where approximate rows are not given."""
        name = next(one.name for one in statements if one.metric is None)
        if len(models) > 1:
            raise UnboundedMetricError(
                f"scoring={name!r} has an approximate interval only, which is given for one model "
                "per report: nothing may be chosen by it. Report one model, or use metrics with "
                "exact intervals. The holdout was not queried."
            )
        if self.settings.information is not None or self.settings.tau is not None:
            raise UnboundedMetricError(
                f"scoring={name!r} is read from the holdout without noise, which ends its privacy. "
                "A holdout with a numeric epsilon or calibration='zhao2017' gives exact rows only. "
                "The holdout was not queried."
            )

    def _begin(self, statements, models):
        """Record what is going to be reported, durably: from here on nothing else can be asked."""
        plan = {
            "statements": [[list(one.models), one.name, one.metric is not None, repr(one.metric)]
                           for one in statements],
            "models": [[name, _content(model)] for name, model in models.items()],
            "level": self.settings.spending.describe(),
        }  # fmt: skip
        exact = sum(one.metric is not None for one in statements)
        with self.account.writing() as transaction:
            check_open(transaction, plan)
            budget, last = self.settings.budget, transaction.last
            if budget is not None and last.n_rounds + exact > budget:
                raise exhausted_error(self.settings, last, unanswered=exact)
            if not transaction.notes(Fact.CLOSING):
                self.account.note_closing(transaction, Fact.CLOSING, plan)

    def _reported(self, statements, models):
        """Compute the report and record it; return the account that closes the holdout."""
        exact = [one for one in statements if one.metric is not None]
        with self.account.writing() as transaction:
            last, rows, answers = transaction.last, {}, []
            terms = self.account.terms(transaction, fine=True)
            if exact:
                closed = close(self._batch(exact, models), len(statements), terms)
                if closed is None:
                    raise exhausted_error(self.settings, last, unanswered=len(exact))
                record, answers, parts, failure = closed
                for one, answer, part in zip(exact, answers, parts, strict=True):
                    rows[id(one)] = self._exact_row(one, answer, part)
            else:
                record = self._without(terms)
                length = math.log(len(statements)) + record.code_length
                failure = math.log(self.settings.sampling_failure) - length
            for one in statements:
                if one.metric is None:
                    rows[id(one)] = self._approximate_row(one, models, math.exp(failure))
            private = record.dp_epsilon if len(exact) == len(statements) else None
            content = {
                "rows": [rows[id(one)] for one in statements],
                "before": [last.n_answered, last.n_above],
                "nats": record.code_length,
                "level": math.exp(failure),
                "caveats": sorted({one.metric.caveat for one in exact if one.metric.caveat}),
            }
            record = dataclasses.replace(
                record, dp_epsilon=private, cells=record.cells | {"report": content}
            )
            if exact:
                self.account.record(transaction, record, terms, answers)
            else:
                transaction.append(record)
        return record

    def _without(self, terms):
        """Return the account that closes the holdout with approximate rows only."""
        spending, last = self.settings.spending, terms.last
        return dataclasses.replace(
            last,
            number=last.number + 1,
            time=terms.time,
            size=0,
            code_length=route(last, self.settings, report=True)[0],
            code=terms.code.state(after=len(terms.code.pairs)),
            cells={},
            closed=True,
            spending={"name": spending.name, "weight": spending.of_report(last.number)},
        )

    def _batch(self, exact, models):
        """Return the exact statements as one batch; raw scores of each model are made once."""
        made = {}
        for one in exact:
            for name in one.models:
                key = name, repr(one.metric)
                if key not in made:
                    made[key] = self.holdout._evaluate(one.metric, models[name])
        batch = batch_of_evaluations(
            [_difference([made[name, repr(one.metric)] for name in one.models]) for one in exact],
            self.settings.n,
            self.model,
            training_values=[one.expected for one in exact],
            training_variance=[one.variance for one in exact],
            own_cells=np.ones(len(exact)),  # deviations are taken from what was expected of each
        )
        return dataclasses.replace(batch, labels=[one.label for one in exact])

    def _exact_row(self, one, answer, parts):
        """Return a row of the ledger for a statement through the mechanism."""
        span = one.metric.upper - one.metric.lower
        if len(one.models) == 2:
            ends = [
                (2.0 * unit - 1.0) * span for unit in (answer.value, answer.lower, answer.upper)
            ]
            name, span = f"{one.models[1]} minus {one.models[0]}", 2.0 * span
        else:
            ends = [one.metric.from_unit(u) for u in (answer.value, answer.lower, answer.upper)]
            name = one.models[0]
        return [name, one.name, *map(float, ends), "exact", [], (span * parts).tolist()]

    def _approximate_row(self, one, models, level):
        """Return a row of the ledger that is read from the closed holdout."""
        found = approximate(
            one.name,
            models[one.models[0]],
            self.holdout.X,
            self.holdout.y,
            model=self.model,
            level=level,
        )  # fmt: skip
        numbers = [x if math.isfinite(x) else None for x in map(float, found[:3])]
        method = COUNTED if found.exact else READ
        return [one.models[0], one.name, *numbers, method, list(found.notes), []]

    def shown(self, record):
        """Return the report that a closing account holds."""
        content = record.cells["report"]
        target = target_of(self.model, self.settings.n)
        rows = tuple(
            ReportRow(
                model, metric, *(math.nan if x is None else x for x in numbers), method, target,
                tuple(notes), tuple(parts),
            )
            for model, metric, *numbers, method, notes, parts in content["rows"]
        )  # fmt: skip
        assumptions = [*self.holdout.certificate().assumptions, *content["caveats"]]
        if any(row.method != "exact" for row in rows):
            assumptions.append("rows read from the closed holdout end its privacy")
        return FinalReport(
            rows=rows,
            beta=self.holdout.beta,
            n=self.settings.n,
            n_answered=content["before"][0],
            n_above=content["before"][1],
            information_spent=content["nats"],
            level=content["level"],
            spending=self.settings.spending.describe(),
            assumptions=tuple(assumptions),
            time=record.time,
        )


def close(batch, statements, terms):
    """Decide the exact rows of a final report: queries at threshold 0, whose values need no code.

    Theory G16: nothing is asked afterwards, so the report takes all the weight that is left, in
    equal parts for its ``statements``; pre-sampling half-widths are the noise margins alone.
    Returns the account without what follows from it, the :class:`AnswerRecord` of each query, the
    parts of their half-widths (sampling, what was asked before, noise), and the log of the failure
    probability of a statement; ``None`` for all where the budget does not suffice.
    """
    batch, terms = settle_shares(batch, terms)
    if batch is None:
        return None
    batch, ratio = scaled_to_spread(batch, terms)
    last, settings, code = terms.last, terms.settings, terms.code
    length, by = route(last, settings, report=True)
    each = length + math.log(statements)
    failure = np.full(len(batch), math.log(settings.sampling_failure) - each)
    plan = planned(batch, terms, failure[0])
    values, reaches, above = _looked_at(batch, terms)
    rounds = last.n_rounds + int(above.sum())
    chosen = [] if plan is None else np.flatnonzero(plan.eligible).tolist()
    squares = ask_squares(plan, batch, chosen, terms, rounds)
    least, most = _possible(batch, values, reaches, terms.model, settings.n)
    lower, upper = squares.limits(batch, least, most, failure)
    record = terms.record(
        batch,
        code_length=length,
        n_answered=last.n_answered + len(batch),
        n_above=last.n_above + int(above.sum()),
        n_rounds=rounds + squares.n_above,
        released=last.released,
        code=code.state(after=len(code.pairs)),
        cells={"route": by, "squares": squares.cells, "pairs": last.cells.get("pairs", False)},
        widest=max(last.widest, float(np.max([values - lower, upper - values]))),
        n_relaxed=last.n_relaxed,
        dp_epsilon=level_spent(terms, ratio),
        closed=True,
        spending=settings.spending.recorded(settings.spending.of_report(last.number)),
    )
    answers = terms.answers(
        batch, above=above, code_length=np.full(len(batch), each), value=values, lower=lower,
        upper=upper,
    )  # fmt: skip
    once = np.full(len(batch), math.log(settings.parameters["beta"]))
    ends = [squares.limits(batch, values, values, level) for level in (once, failure)]
    halves = [0.5 * (high - low) for low, high in (*ends, (lower, upper))]
    return record, answers, np.diff([np.zeros(len(batch)), *halves], axis=0).T, failure[0]


def _possible(batch, values, reaches, model, n):
    """Return the least and the most that each score may be, given its noisy value.

    A share of records is a whole number of them: noise smaller than one record costs nothing.
    """
    least, most = np.maximum(values - reaches, 0.0), np.minimum(values + reaches, 1.0)
    if model.record_weights(n) is not None:
        return least, most
    shares = np.array([shape["kind"] == "mean" and shape["binary"] for shape in batch.shapes])
    low, high = np.ceil(n * least - 1e-6) / n, np.floor(n * most + 1e-6) / n
    whole = shares[batch.tail_of] & (low <= high)
    return np.where(whole, low, least), np.where(whole, high, most)


def _looked_at(batch, terms):
    """Return the noisy values, their margins, and which came from the holdout."""
    mechanism, settings, n_rounds = terms.mechanism, terms.settings, terms.last.n_rounds
    values, reaches = np.empty((2, len(batch)))
    above = np.zeros(len(batch), dtype=bool)
    # Any public prediction is valid (theory G4): the far end makes it an answer of the holdout.
    ends = np.where(batch.training_values < 0.5, 1.0, 0.0)
    for place, unit in enumerate(batch.sensitivities):
        at = slice(place, place + 1)
        run = mechanism.answer_run(ends[at] / unit, batch.values[at] / unit, thresholds=np.zeros(1))
        below, answer = margins(settings, n_rounds + int(above.sum()))
        above[place] = run.above[0]
        reaches[place] = unit * (answer * final_noise(settings) if above[place] else below)
        values[place] = run.values[0] * unit if above[place] else ends[place]
    return np.clip(values, 0.0, 1.0), reaches, above


def _named(estimators):
    """Return models by name."""
    if isinstance(estimators, Mapping):
        found = {str(name): model for name, model in estimators.items()}
    elif isinstance(estimators, list | tuple):
        kinds = [type(model).__name__ for model in estimators]
        found = {
            kind if kinds.count(kind) == 1 else f"{kind} {place}": model
            for place, (kind, model) in enumerate(zip(kinds, estimators, strict=True), 1)
        }
    else:
        found = {type(estimators).__name__: estimators}
    if not found:
        raise ValueError("estimators must hold at least one model, got none.")
    return found


def _differences(models, statements):
    """Return statements about each pair of models, for every metric that is a mean."""
    by_name = {}
    for one in statements:
        by_name.setdefault(one.name, []).append(one)
    pairs = []
    for name, group in by_name.items():
        if len(models) < 2 or not all(one.metric.is_mean for one in group):
            raise ValueError(
                f"compare=True needs at least two models and a mean over records, got "
                f"{len(models)} with scoring={name!r}. Use 'accuracy', 'neg_brier_score' or an "
                "error of a regression. The holdout was not queried."
            )
        for later, second in enumerate(group):
            for first in group[:later]:
                middle = 0.5 * (second.expected - first.expected + 1.0)
                both = first.models + second.models
                pairs.append(_Statement(both, name, second.metric, middle, _DISAGREEMENT))
    return pairs


def _difference(evaluations):
    """Return the evaluation of one model, or of the paired difference of two (theory G23)."""
    if len(evaluations) == 1:
        return evaluations[0]
    first, second = (each.per_record for each in evaluations)
    halved = 0.5 * (second - first + 1.0)
    return Evaluation(
        per_record=halved, value=float(halved.mean()), sensitivity=evaluations[0].sensitivity
    )


def _refuse_selectors(estimator):
    """Raise for what predicts nothing and has a final report of its own."""
    if callable(getattr(estimator, "final_report", None)) and not hasattr(estimator, "predict"):
        raise TypeError(
            f"estimators must be models that predict, got {type(estimator).__name__}. Call its own "
            "final_report(), as in selector.final_report()."
        )


def _content(model):
    """Return what a model is known by; what has no content is known by nothing, not even later."""
    try:
        return joblib.hash(model)
    except Exception:  # what cannot be pickled
        return object_digest(model) or secrets.token_hex(16)
