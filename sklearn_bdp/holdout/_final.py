"""The final report: what is stated, the closing that comes before it, and how it reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp._card import card, digits, expected, interval_picture, table
from sklearn_bdp._checks import check_boolean, check_option
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.holdout._approximate import STATISTICS, approximate
from sklearn_bdp.holdout._asking import Asking
from sklearn_bdp.holdout._batch import exhausted_error, route
from sklearn_bdp.holdout._inputs import check_evaluations, check_queries, check_training_value
from sklearn_bdp.holdout._report import CLOSING, check_open, close
from sklearn_bdp.metrics import Evaluation, get_metric

READ = "approximate, read from the closed holdout"
COUNTED = "exact (Clopper-Pearson), read from the closed holdout"
# Variance of a paired difference that its squares are first asked for, where the caller knows
# none: a share of .06 of disagreements. Any number is valid (theory G23).
_DISAGREEMENT = 0.015


class ReportRow(NamedTuple):
    """One statement of a final report, in score units."""

    model: str
    metric: str
    value: float
    lower: float
    upper: float
    method: str  # "exact", or that it is an approximation
    target: str  # what the interval refers to
    notes: tuple[str, ...] = ()
    #: Parts of the half-width: sampling, what was asked before, noise; empty where approximate.
    parts: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class FinalReport:
    """The final scores of one or several models, with which a holdout was closed.

    Parameters
    ----------
    rows : tuple of ReportRow
        Statements: model, metric, value, lower, upper, method and target.
    beta : float
        Probability that any exact interval the holdout ever gave is wrong.
    n : int
        Holdout records.
    n_answered, n_above : int
        Queries answered before, and how many of them were corrected by the holdout.
    information_spent : float
        Nats that everything released before has cost each exact interval.
    level : float
        Failure probability of each row.
    spending : str
        How the failure probability was spent.
    assumptions : tuple of str
        What has to be true.
    time : str
        When the holdout was closed, ISO 8601, UTC.
    """

    rows: tuple[ReportRow, ...]
    beta: float
    n: int
    n_answered: int
    n_above: int
    information_spent: float
    level: float
    spending: str
    assumptions: tuple[str, ...]
    time: str
    _shown: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def value(self) -> float:
        """The first row's score."""
        return self.rows[0].value

    @property
    def lower(self) -> float:
        """Lower end of the first row's interval."""
        return self.rows[0].lower

    @property
    def upper(self) -> float:
        """Upper end of the first row's interval."""
        return self.rows[0].upper

    @property
    def interval(self) -> tuple[float, float]:
        """The first row's interval."""
        return self.lower, self.upper

    def to_frame(self) -> Any:
        """Return the rows as a table (needs pandas).

        Returns
        -------
        pandas.DataFrame
            One row for each statement.
        """
        import pandas as pd  # optional: only for this view

        return pd.DataFrame(self.rows, columns=ReportRow._fields)

    def _title(self):
        row = self.rows[0]
        if not math.isfinite(row.lower):
            return f"{row.metric} of {row.model}: {digits(row.value)}. No interval: {row.notes[0]}"
        said = expected(row.lower, row.upper).replace("new records", row.target)
        return f"{row.metric} of {row.model}: {digits(row.value)}. {said}"

    def _lines(self):
        """Return what holds, in sentences."""
        exact = sum(row.method == "exact" for row in self.rows)
        chance = f"{100 * (1 - self.beta):.6g}%"
        if exact:
            yield (
                f"Confidence: at least {chance} that all exact intervals of this report and all "
                "earlier ones are correct."
            )
        if exact < len(self.rows):
            yield (
                "Other rows are read from the closed holdout. Each is meant to be wrong with "
                f"probability {self.level:.2g}, corrected for everything asked before. "
                "Approximate intervals miss losses that are rare and large."
            )
        yield (
            f"Before it: {self.n_answered:,} queries on {self.n:,} records, {self.n_above:,} "
            f"corrected by the holdout. The holdout was closed on {self.time[:10]} and answers "
            "nothing new."
        )
        if self.rows[0].parts:
            yield split_in_words(self.rows[0].parts)

    def _table(self):
        """Return one line for each row: name, score and interval, method."""
        for row in self.rows:
            ends = "no interval"
            if math.isfinite(row.lower):
                ends = f"{digits(row.lower, math.floor)} to {digits(row.upper, math.ceil)}"
            notes = "".join(f" {note}" for note in row.notes)
            yield f"{row.model}, {row.metric}", f"{digits(row.value)}, {ends} ({row.method}){notes}"

    def __str__(self) -> str:
        lines = [self._title(), *self._lines()]
        if len(self.rows) > 1 or self.rows[0].method != "exact":
            lines += ["", *(f"{label}: {text}" for label, text in self._table())]
        held = "\n".join(f"  - {item}" for item in self.assumptions)
        return "\n".join(lines) + f"\n\nIt holds if\n{held}"

    def _repr_html_(self):
        row = self.rows[0]
        inside = row.lower >= 0.0 and row.upper <= 1.0
        picture = interval_picture(
            row.value, row.lower, row.upper, bounds=(0.0, 1.0) if inside else None
        )
        folded = [("It holds if", self.assumptions)]
        if len(self.rows) > 1 or row.method != "exact":
            picture += table(self._table())
        return card(self._title(), list(self._lines()), picture=picture, folded=folded)

    def plot(
        self,
        kind: Literal["intervals", "roc", "calibration", "confusion"] = "intervals",
        *,
        ax: Any = None,
    ) -> Any:
        """Draw the intervals of all rows, or a curve of the reported model (needs matplotlib).

        Parameters
        ----------
        kind : {"intervals", "roc", "calibration", "confusion"}, default="intervals"
            Curves are read from the closed holdout, by scikit-learn's displays. They need the one
            model of the report, in the process that made it.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        matplotlib Axes
            What was drawn on.
        """
        import matplotlib.pyplot as plt  # optional: only for this view

        check_option("kind", kind, ("intervals", "roc", "calibration", "confusion"))
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        if kind == "intervals":
            return self._draw(ax)
        if self._shown is None:
            raise ValueError(
                f"kind={kind!r} needs the reported model. Curves are drawn for reports on one "
                "model, in the process that made them, and not under a level of privacy."
            )
        from sklearn import calibration, metrics

        display = {
            "roc": metrics.RocCurveDisplay,
            "calibration": calibration.CalibrationDisplay,
            "confusion": metrics.ConfusionMatrixDisplay,
        }[kind]
        display.from_estimator(*self._shown, ax=ax)
        ax.set_title(READ.capitalize(), fontsize="small")
        return ax

    def _draw(self, ax):
        """Draw each row's interval on an axis that shows no more than they need."""
        for place, row in enumerate(self.rows):
            color = "C0" if row.method == "exact" else "C1"
            ax.plot([row.lower, row.upper], [place, place], color=color, linewidth=3, alpha=0.5)
            ax.plot(row.value, place, "o", color=color)
        marks = ["" if row.method == "exact" else f"\n({row.method})" for row in self.rows]
        names = [f"{r.model}, {r.metric}{mark}" for r, mark in zip(self.rows, marks, strict=True)]
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("score and interval")
        return ax


def split_in_words(parts: Sequence[float]) -> str:
    """Return where a half-width comes from, in a sentence."""
    sampling, asked, noise = parts
    return (
        f"Why this wide: ±{digits(sampling)} for one fixed query on so many records, "
        f"{digits(max(asked, 0.0))} more for everything else asked, {digits(max(noise, 0.0))} "
        "for noise."
    )


class _Statement(NamedTuple):
    """One row before it is computed."""

    models: tuple[str, ...]  # one, or the two that are compared
    name: str  # of the metric, or of the statistic
    metric: Any = None  # None: approximate
    expected: float = 0.5  # training-side value in [0, 1]
    variance: float = math.nan


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
                closed = close(
                    queries, len(statements), mechanism=mechanism, model=self.model, **terms
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
        target = f"new {self.model.units(self.n)[1]}"
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
