"""The final report: what is stated, and the closing that comes before anything is computed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp._checks import check_boolean, check_option, sealed_errors
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.holdout._approximate import STATISTICS, approximate
from sklearn_bdp.holdout._around import ask_squares, planned, settle_shares
from sklearn_bdp.holdout._asking import Asking
from sklearn_bdp.holdout._batch import (
    exhausted_error,
    finite_level,
    route,
    scaled_queries,
)
from sklearn_bdp.holdout._certificate import target_of
from sklearn_bdp.holdout._inputs import check_evaluations, check_queries, check_training_value
from sklearn_bdp.holdout._report import CLOSING, READ, FinalReport, ReportRow, check_open
from sklearn_bdp.holdout._settings import final_noise, margins
from sklearn_bdp.ledger import BatchRecord, answer_records
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

    def for_ledger(self):
        """Return the model, the metric, and its words and range."""
        low, high = float(self.metric.lower), float(self.metric.upper)
        if len(self.models) == 1:
            return self.models[0], self.name, [self.name, low, high]
        words = f"difference of {self.name}"
        return f"{self.models[1]} minus {self.models[0]}", words, [words, low - high, high - low]


class Reporting(Asking):
    """The part of :class:`ReusableHoldout` that closes it."""

    @sealed_errors
    def final_report(
        self,
        estimators: Any,
        training_values: ArrayLike | None = None,
        *,
        scoring: Any = None,
        compare: bool = False,
        interval: Literal["exact", "approximate"] = "exact",
        training_variance: float | None = None,
    ) -> FinalReport:
        """Report final scores with narrow intervals and close the holdout.

        Nothing is asked afterwards, so the report gets all the failure probability that is left
        (``spending="final"`` reserves half of it). What is reported, and that the holdout is
        closed, is recorded before anything is computed. From then on every new query is refused.
        Recorded answers remain free, and :attr:`report_` shows the report again.

        Parameters
        ----------
        estimators : estimator, list or dict
            Fitted without the holdout; a dict gives names.
        training_values : float or array-like of shape (n_models,), default=None
            Training-side scores of the models, for the first metric. By default the middle of the
            range. They change little.
        scoring : str, BoundedMetric, None or a list of them, default=None
            Metrics; ``None``: the usual one for the estimator. One without a proven interval (F1,
            precision, R², ...) gets an approximate row, if there is one model.
        compare : bool, default=False
            Whether to report the difference of each pair of models, too: the second of a pair
            minus the first. It is known better than either score.
        interval : {"exact", "approximate"}, default="exact"
            ``"approximate"``: narrower intervals, by a jackknife that is read from the closed
            holdout, for one model.
        training_variance : float, default=None
            Variance of a record's training-side score under the first metric, in squared units of
            [0, 1]; see :meth:`answer`.

        Returns
        -------
        FinalReport
            Rows, text, HTML card and pictures.

        Raises
        ------
        HoldoutClosedError
            If there was a final report before, or another one was begun.
        BudgetExhaustedError
            If a declared budget does not suffice for all rows.
        """
        self._require_home()
        check_boolean("compare", compare)
        check_option("interval", interval, ("exact", "approximate"))
        models = _named(estimators)
        for model in models.values():
            _refuse_selectors(model)
            if isinstance(model, BaseEstimator):
                check_is_fitted(model)
            self.check_model(model)
        statements = self._statements(models, training_values, scoring, interval, training_variance)
        if compare:
            statements += _differences(models, statements)
        self._begin(statements, models)
        record = self._reported(statements, models)
        shown = None
        if len(models) == 1 and self._settings.information is None and self._settings.tau is None:
            shown = (*models.values(), self.X, self.y)
        return dataclasses.replace(self._report_of(record), _shown=shown)

    @property
    def report_(self) -> FinalReport:
        """The final report that closed the holdout, from the ledger."""
        with self._reading() as transaction:
            last = transaction.last
        if not last.closed:
            raise AttributeError("There is no final report on this holdout yet.")
        return self._report_of(last)

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
            unproven = not (metric.is_mean or self.model.is_componentwise)
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
        if self._settings.information is not None or self._settings.tau is not None:
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
            "models": [[name, joblib.hash(model)] for name, model in models.items()],
            "level": self._settings.spending.describe(),
        }  # fmt: skip
        exact = sum(one.metric is not None for one in statements)
        with self._writing() as transaction:
            check_open(transaction, plan)
            budget, last = self._settings.budget, transaction.last
            if budget is not None and last.n_rounds + exact > budget:
                raise exhausted_error(self._settings, last, unanswered=exact)
            if not transaction.notes(CLOSING):
                transaction.note(CLOSING, plan)

    def _reported(self, statements, models):
        """Compute the report and record it; return the account that closes the holdout."""
        exact = [one for one in statements if one.metric is not None]
        with self._writing() as transaction:
            last, terms, rows = transaction.last, self._terms(transaction), {}
            mechanism = self._mechanism(transaction.sealed(), last.number + 1, fine=True)
            if exact:
                queries = self._queries(exact, models)
                names = [one.for_ledger() for one in exact]
                closed = close(
                    queries, len(statements), names, mechanism=mechanism, model=self.model, **terms
                )
                if closed is None:
                    raise exhausted_error(self._settings, last, unanswered=len(exact))
                record, answers, parts, failure = closed
                for one, answer, part in zip(exact, answers, parts, strict=True):
                    rows[id(one)] = self._exact_row(one, answer, part)
            else:
                record, answers = self._without(last, terms), []
                length = math.log(len(statements)) + record.code_length
                failure = math.log(self._settings.sampling_failure) - length
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
                self._record(transaction, record, mechanism, answers, terms["seed"])
            else:
                transaction.append(record)
        return record

    def _without(self, last, terms):
        """Return the account that closes the holdout with approximate rows only."""
        spending = self._settings.spending
        return dataclasses.replace(
            last,
            number=last.number + 1,
            time=terms["time"],
            size=0,
            code_length=route(last, self._settings, report=True)[0],
            code=terms["code"].state(after=len(terms["code"].pairs)),
            cells={},
            closed=True,
            spending={"name": spending.name, "weight": spending.of_report(last.number)},
        )

    def _queries(self, exact, models):
        """Return the exact statements as one batch; raw scores of each model are made once."""
        made = {}
        for one in exact:
            for name in one.models:
                key = name, repr(one.metric)
                if key not in made:
                    made[key] = self._evaluate(one.metric, models[name])
        evaluations = [
            _difference([made[name, repr(one.metric)] for name in one.models]) for one in exact
        ]
        scored = check_evaluations(evaluations, self.n, self.model)
        return check_queries(
            [one.expected for one in exact],
            scored,
            model=self.model,
            n=self.n,
            training_size=None,
            keys=None,
            variances=np.array([one.variance for one in exact]),
            own_cells=np.ones(len(exact)),  # deviations are taken from what was expected of each
        )

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
            one.name, models[one.models[0]], self.X, self.y, model=self.model, level=level
        )
        numbers = [x if math.isfinite(x) else None for x in map(float, found[:3])]
        method = COUNTED if found.exact else READ
        return [one.models[0], one.name, *numbers, method, list(found.notes), []]

    def _report_of(self, record):
        """Return the report that a closing account holds."""
        content = record.cells["report"]
        target = target_of(self.model)
        rows = tuple(
            ReportRow(
                model, metric, *(math.nan if x is None else x for x in numbers), method, target,
                tuple(notes), tuple(parts),
            )
            for model, metric, *numbers, method, notes, parts in content["rows"]
        )  # fmt: skip
        assumptions = [*self.certificate().assumptions, *content["caveats"]]
        if any(row.method != "exact" for row in rows):
            assumptions.append("rows read from the closed holdout end its privacy")
        return FinalReport(
            rows=rows,
            beta=self.beta,
            n=self.n,
            n_answered=content["before"][0],
            n_above=content["before"][1],
            information_spent=content["nats"],
            level=content["level"],
            spending=self._settings.spending.describe(),
            assumptions=tuple(assumptions),
            time=record.time,
        )


def close(
    queries, statements, names, *, last, code, mechanism, settings, model, time, seeded, seed=0
):
    """Decide the exact rows of a final report: queries at threshold 0, whose values need no code.

    Theory G16: nothing is asked afterwards, so the report takes all the weight that is left, in
    equal parts for its ``statements``; pre-sampling half-widths are the noise margins alone.
    ``names`` are the model, the metric and its scale of each query, for the ledger.
    Returns the account without what follows from it, the :class:`AnswerRecord` of each query, the
    parts of their half-widths (sampling, what was asked before, noise), and the log of the failure
    probability of a statement; ``None`` for all where the budget does not suffice.
    """
    queries, last = settle_shares(
        queries, last=last, mechanism=mechanism, settings=settings, model=model, seed=seed
    )
    if queries is None:
        return None
    queries, ratio = scaled_queries(queries, last, mechanism, settings, model)
    length, by = route(last, settings, report=True)
    each = length + math.log(statements)
    failure = np.full(len(queries), math.log(settings.sampling_failure) - each)
    plan = planned(queries, code, settings, math.log(settings.sampling_failure) - each)
    values, reaches, above = _looked_at(queries, mechanism, settings, last.n_rounds)
    rounds = last.n_rounds + int(above.sum())
    chosen = [] if plan is None else np.flatnonzero(plan.eligible).tolist()
    squares = ask_squares(plan, queries, chosen, mechanism, settings, rounds)
    least, most = _possible(queries, values, reaches, model, settings.n)
    lower, upper = squares.limits(queries, least, most, failure)
    record = BatchRecord(
        number=last.number + 1,
        time=time,
        size=len(queries),
        code_length=length,
        n_answered=last.n_answered + len(queries),
        n_above=last.n_above + int(above.sum()),
        n_rounds=rounds + squares.n_above,
        released=last.released,
        shares=last.shares,
        code=code.state(after=len(code.pairs)),
        cells={"route": by, "squares": squares.cells, "pairs": last.cells.get("pairs", False)},
        widest=max(last.widest, float(np.max([values - lower, upper - values]))),
        n_relaxed=last.n_relaxed,
        dp_epsilon=finite_level(last, ratio * mechanism.dp_epsilon_used(1.0 / settings.n)),
        seeded=bool(seeded or last.seeded),
        closed=True,
        scales={metric: scale for _, metric, scale in names},
        spending=settings.spending.recorded(settings.spending.of_report(last.number)),
    )
    answers = answer_records(
        len(queries), batch=itertools.repeat(record.number), position=range(len(queries)),
        key=queries.keys, time=itertools.repeat(time),
        code_length=itertools.repeat(each), training_value=(queries.training_values + 0.0).tolist(),
        value=(values + 0.0).tolist(), lower=(lower + 0.0).tolist(), upper=(upper + 0.0).tolist(),
        above=above.tolist(), model=[name[0] for name in names],
        metric=[name[1] for name in names], scale=[tuple(name[2]) for name in names],
    )  # fmt: skip
    once = np.full(len(queries), math.log(settings.parameters["beta"]))
    ends = [squares.limits(queries, values, values, level) for level in (once, failure)]
    halves = [0.5 * (high - low) for low, high in (*ends, (lower, upper))]
    return record, answers, np.diff([np.zeros(len(queries)), *halves], axis=0).T, failure[0]


def _possible(queries, values, reaches, model, n):
    """Return the least and the most that each score may be, given its noisy value.

    A share of records is a whole number of them: noise smaller than one record costs nothing.
    """
    least, most = np.maximum(values - reaches, 0.0), np.minimum(values + reaches, 1.0)
    if model.record_weights(n) is not None:
        return least, most
    shares = np.array([shape["kind"] == "mean" and shape["binary"] for shape in queries.shapes])
    low, high = np.ceil(n * least - 1e-6) / n, np.floor(n * most + 1e-6) / n
    whole = shares[queries.tail_of] & (low <= high)
    return np.where(whole, low, least), np.where(whole, high, most)


def _looked_at(queries, mechanism, settings, n_rounds):
    """Return the noisy values, their margins, and which came from the holdout."""
    values, reaches = np.empty((2, len(queries)))
    above = np.zeros(len(queries), dtype=bool)
    # Any public prediction is valid (theory G4): the far end makes it an answer of the holdout.
    ends = np.where(queries.training_values < 0.5, 1.0, 0.0)
    for place, unit in enumerate(queries.sensitivities):
        at = slice(place, place + 1)
        run = mechanism.answer_run(
            ends[at] / unit, queries.values[at] / unit, thresholds=np.zeros(1)
        )
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
