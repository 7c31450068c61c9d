"""Put candidates to the holdout: what is recorded is free, what is new is one batch.

Workers fit and predict; only the coordinating process runs the mechanism. What workers return
(the per-record scores) goes straight to the holdout and nowhere else.
"""

import contextlib
import math
import warnings
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp._digests import (
    content_key,
    data_digest,
    has_own_code,
    recipe_key,
)
from sklearn_bdp._evaluation._candidates import (
    Candidate,
    NoAnswer,
    Outcome,
    Task,
    WholeJob,
    columns_of,
    fit_candidate,
    targets,
)
from sklearn_bdp._evaluation._fits import INTERRUPTIONS, ModelStore, run_jobs
from sklearn_bdp._sklearn_compat import num_samples, report_failures
from sklearn_bdp.accounting import RELAXED_PART
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.guards import RowWiseCheck


@dataclass
class Assessment:
    """One query about a candidate, and what is known of it in public, in units of [0, 1]."""

    columns: tuple | None  # the subset of columns; ``None``: all
    training: float  # training-side score
    answer: Any = field(default_factory=NoAnswer)  # the holdout's, with all its facts
    variance: float = math.nan  # of a record's training-side score
    key: str | None = None  # what the query is known by
    #: What the workers returned. It holds raw scores until the query is asked.
    outcome: object = field(default=None, repr=False)
    about: tuple | None = field(default=None, repr=False)  # metric and model, in words
    #: The same by secondary metrics that the search was asked for.
    secondary: dict = field(default_factory=dict)

    @property
    def rank(self):
        """Return what candidates are ranked by: the smaller of both scores.

        Of thousands of candidates some are lucky on the holdout by chance, and they would win if
        its answers alone counted; bad luck and overfitting may only lower a score.
        """
        value = self.answer.value
        return min(self.training, value) if math.isfinite(value) else math.nan


class Verifier:
    """Ask the holdout about candidates."""

    def __init__(self, setting, holdout, *, n_jobs=None, pre_dispatch, dates=None):
        self.setting = setting
        self.holdout = holdout
        self.dispatch = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        self._metrics = {None: setting.metric, **setting.secondary}  # None: what ranks
        self._own_code, self._data = has_own_code(setting.estimator), None
        self._recipes, self._recorded = {}, {}
        self.unasked = {}  # outcomes by row, with raw scores
        self._models = ModelStore()
        self.row_wise = RowWiseCheck(dates)

    def key(self, candidate, name=None):
        """Return the key of a candidate before it is fitted, or None where fitting may vary.

        It is a digest of all that a fitted model depends on, and nothing in it depends on the
        holdout. A secondary metric, by ``name``, has keys of its own: its answer is coarse, and a
        search that ranks by that metric asks for a finer one.
        """
        place = None if not candidate.params else id(candidate), name
        if place not in self._recipes:
            recipe, setting, params = None, self.setting, candidate.params
            # No number takes the place of code.
            if not self._own_code or not all(isinstance(one, Number) for one in params.values()):
                if self._data is None:
                    self._data = data_digest(setting.X, setting.y)
                estimator = clone(setting.estimator).set_params(**clone(params, safe=False))
                recipe = recipe_key(
                    estimator, self._metrics[name], training=self._data,
                    fit_params=setting.fit_params, columns=None,
                )  # fmt: skip
            self._recipes[place] = candidate, recipe
        recipe = self._recipes[place][1]
        kind = "candidate" if name is None else "secondary"
        return None if recipe is None else content_key(kind, recipe, candidate.columns)

    # -- fits of a search, taken as they finish ------------------------------------------------

    def whole_tasks(self, tasks):
        """Return the tasks that need such a fit: a query of theirs has no recorded answer yet."""
        names = tuple(self._metrics)
        keys = [[self.key(task.candidate, name) for name in names] for task in tasks]
        recorded = self._look_up([key for own in keys for key in own])
        return [
            replace(task, keyed=own[0] is None, context=None)
            for task, own in zip(tasks, keys, strict=True)
            if not all(recorded.get(key) for key in own) and task.row not in self.unasked
        ]

    def take(self, task, outcome, *, guess):
        """Keep a finished fit until the batch is asked; ``guess`` is its training-side score."""
        if outcome.model is not None:
            self._look_at(outcome.model, task.candidate)
            repeatable = self.key(task.candidate) is not None
            self._models.put(task.row, outcome.model, guess=guess, repeatable=repeatable)
        self.unasked[task.row] = replace(outcome, model=None)

    def _look_at(self, model, candidate):
        """Ask a model whether it predicts each record by itself, on training rows."""
        if candidate.columns != ():
            X = columns_of(self.setting.X, candidate.columns)
            self.row_wise.ask(model, X)
            for metric in self._metrics.values():
                self.row_wise.ask_score(metric, model, X, targets(X, self.setting.y))

    @sealed_errors  # the frames hold raw scores
    def fit(self, rows, candidates, training):
        """Fit the candidates of these rows that are not fitted or recorded yet.

        After an interruption, those that are finished are put to the holdout.
        """
        tasks = [Task(row, one) for row, one in zip(rows, candidates, strict=True)]
        job, todo = WholeJob(self.setting), self.whole_tasks(tasks)
        known = {} if training is None else dict(zip(rows, training, strict=True))

        def take(job, task, outcome):
            self.take(
                task, outcome, guess=float(np.nan_to_num(known.get(task.row, outcome.training)))
            )

        try:
            run_jobs([(job, todo)], take, **self.dispatch)
        except INTERRUPTIONS:
            fitted = {row: outcome.training for row, outcome in self.unasked.items()}
            self.ask_finished(tasks, known or fitted)
            raise

    def ask_finished(self, tasks, training):
        """Put the candidates that are finished on both sides to the holdout, before an exit."""
        done = [
            task
            for task in tasks
            if task.row in self.unasked and math.isfinite(training.get(task.row, math.nan))
        ]
        if not done:
            return
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            values = [training[task.row] for task in done]
            self.assess([t.candidate for t in done], values, rows=[t.row for t in done])

    # -- queries ------------------------------------------------------------------------------

    @sealed_errors  # the frames hold raw scores
    def assess(self, candidates, training=None, *, rows=None, secondary=None, variances=None):
        """Return an :class:`Assessment` of each candidate, from one batch of queries.

        ``rows``: of candidates that were fitted before; without them they are fitted here.
        ``secondary`` holds training-side scores by secondary metrics, by name (``None`` where they
        come with the fit), ``variances`` those of records' training scores.
        """
        candidates = [c if isinstance(c, Candidate) else Candidate(columns=c) for c in candidates]
        if rows is None:
            rows = [candidate.columns for candidate in candidates]
            # The holdout sees those with a training-side score.
            shown = np.flatnonzero(np.isfinite(training))
            self.fit(*([part[place] for place in shown] for part in (rows, candidates, training)))
        found = self._queries(candidates, rows, training, secondary or {}, variances)
        # A constant prediction never fails, and alone it is not worth an answer.
        fits = [one.outcome.error or None for one in found if one.columns != ()]
        report_failures([{"fit_error": error} for error in fits], self.setting.error_score)

        def is_ready(query):
            return query.outcome.evaluation is not None and math.isfinite(query.training)

        ranked = list(filter(is_ready, found))
        if ranked:  # a breach of contract ends the search before it is asked
            leader = max(ranked, key=lambda one: one.training)
            self.setting.metric.check_clipping(leader.outcome.clipping)
        scored = [one for one in found if math.isfinite(one.training)]
        others = [one.secondary[name] for name in secondary or () for one in scored]
        others = list(filter(is_ready, others))
        batches = [(ranked, others)]
        if self.holdout.remaining_budget is not None:
            # It is for what ranks: the rest is a batch of its own, which may find none left.
            batches = [(ranked, []), ([], others)]
        for ranked, others in batches:
            queries = [*ranked, *others]
            if not queries:
                continue
            values = np.array([query.training for query in queries])
            is_secondary = np.arange(len(queries)) >= len(ranked)
            leader = values[~is_secondary].max(initial=0.0)
            try:
                answers = self.holdout.answer_evaluations(
                    values,
                    [query.outcome.evaluation for query in queries],
                    training_size=num_samples(self.setting.X),
                    keys=[query.key for query in queries],
                    relaxed_to=np.where(is_secondary, 0.0, RELAXED_PART * (leader - values)),
                    secondary=is_secondary,
                    training_variance=[query.variance for query in queries],
                    about=[query.about for query in queries],
                )
            except BudgetExhaustedError:
                if ranked:
                    raise
                continue
            for query, answer in zip(queries, answers, strict=True):
                query.answer = answer
                self._recorded.pop(query.key, None)  # it is in the ledger now
        for one in found:
            one.outcome = replace(one.outcome, evaluation=None, secondary={})
            for other in one.secondary.values():
                other.outcome = None
        return found

    def _queries(self, candidates, rows, training, secondary, variances):
        """Return the queries about fitted candidates, with answers where these are recorded."""
        found = []
        for place, (row, candidate) in enumerate(zip(rows, candidates, strict=True)):
            outcome, queries = self.unasked.pop(row, Outcome()), {}
            for name in (None, *secondary):  # None: what ranks
                own = outcome if name is None else outcome.secondary.get(name, Outcome())
                scores = training if name is None else secondary[name]
                value = own.training
                if scores is not None and not own.error:
                    value = float(scores[place])
                key = self.key(candidate, name)
                if key is None and own.key is not None:
                    key = own.key if name is None else content_key("secondary", own.key)
                about = self._metrics[name], candidate.words
                queries[name] = Assessment(
                    candidate.columns, value, key=key, outcome=own, about=about
                )
            one = queries.pop(None)
            one.secondary = queries
            if variances is not None:
                one.variance = variances[place]
            found.append(one)
        queries = [each for one in found for each in (one, *one.secondary.values())]
        recorded = self._look_up([each.key for each in queries])
        for each in queries:
            record = recorded.get(each.key)
            if record is not None:
                each.answer = record
                if not math.isfinite(each.training):
                    each.training = record.training_value
        return found

    def _look_up(self, keys):
        """Return the recorded answers by key; each key is looked up once."""
        new = {key for key in keys if key is not None} - self._recorded.keys()
        if new:
            self._recorded |= dict.fromkeys(new) | self.holdout.recorded(sorted(new))
        return self._recorded

    def model(self, candidate, row=None):
        """Return the verified model of a candidate, fitted on the training part."""
        model = self._models.get(candidate.columns if row is None else row)
        if model is None:
            model = fit_candidate(self.setting, candidate)
        self._look_at(model, candidate)
        return model
