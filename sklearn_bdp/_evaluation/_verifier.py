"""Put candidates to the holdout: what is recorded is free, what is new is one batch.

Workers fit and predict; only the coordinating process runs the mechanism. What workers return
(the per-record scores) goes straight to the holdout and nowhere else.
"""

import contextlib
import functools
import math
import warnings
from dataclasses import dataclass, field, replace
from numbers import Number

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._digests import (
    content_key,
    has_own_code,
    recipe_key,
    settled_classes,
    training_digest,
)
from sklearn_bdp._evaluation._candidates import (
    Candidate,
    Outcome,
    columns_of,
    evaluate,
    fit_candidate,
)
from sklearn_bdp._evaluation._failures import all_failed, warn_some_failed
from sklearn_bdp._evaluation._fits import INTERRUPTIONS, Task, WholeJob, run_jobs
from sklearn_bdp._evaluation._gains import Gain, paired_gain
from sklearn_bdp._evaluation._opening import CONTEST
from sklearn_bdp._evaluation._progress import ModelStore
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.guards import RowWiseCheck
from sklearn_bdp.holdout import query_key


@dataclass(frozen=True)
class Assessment:
    """A candidate and what is known of it in public, in units of [0, 1]."""

    columns: tuple | None  # the subset of columns; ``None``: all
    training: float  # training-side score
    #: The holdout's answer and its interval; NaN where it was not asked or gave none.
    released: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    source: str = "unanswered"  # where the answer came from
    key: str | None = None  # what the query is known by
    #: What the workers returned. It holds raw scores: never kept beyond ``fit``.
    outcome: object = field(default=None, repr=False)
    #: The same by further metrics that the search was asked for.
    beside: dict = field(default_factory=dict)

    @property
    def rank(self):
        """Return what candidates are ranked by: the smaller of both scores.

        Of thousands of candidates some are lucky on the holdout by chance, and they would win if
        its answers alone counted; bad luck and overfitting may only lower a score.
        """
        return min(self.training, self.released) if math.isfinite(self.released) else math.nan


class Verifier:
    """Ask the holdout about candidates.

    ``verify``: "all", or how many of a batch it sees, by their training-side score.
    """

    def __init__(self, setting, holdout, *, verify="all", n_jobs=None, pre_dispatch, verbose=0):
        self.setting = setting
        self.holdout = holdout
        self.verify = verify
        self.verbose = verbose
        self.n_recorded = 0
        self._dispatch = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        self._training_size = num_samples(setting.X)
        self._data = None
        self._recipes = {}
        self._ready, self._models = {}, ModelStore()
        self._told = set()  # causes of failed fits
        self.row_wise = RowWiseCheck()

    def key(self, candidate, name=None):
        """Return the key of a candidate before it is fitted, or None where fitting may vary.

        What is asked beside, by the further metric ``name``, has a key of its own: its answer is
        coarse, and a search that ranks by that metric asks for a finer one.
        """
        place = None if not candidate.params else id(candidate), name
        if place not in self._recipes:
            metric = self.setting.metric if name is None else self.setting.beside[name]
            self._recipes[place] = (candidate, self._recipe(candidate.params, metric))
        recipe = self._recipes[place][1]
        kind = "candidate" if name is None else "beside"
        return None if recipe is None else content_key(kind, recipe, candidate.columns)

    @functools.cached_property
    def _own_code(self):
        return has_own_code(self.setting.estimator)

    def _recipe(self, params, metric):
        """Return a digest of all that a fitted model depends on besides its columns.

        Nothing in it depends on the holdout.
        """
        setting = self.setting
        if self._own_code and all(isinstance(each, Number) for each in params.values()):
            return None  # no number takes the place of code
        estimator = clone(setting.estimator).set_params(**clone(params, safe=False))
        if self._data is None:
            self._data = training_digest(setting.X, setting.y)
        return recipe_key(
            estimator,
            metric,
            training=self._data,
            fit_params=setting.fit_params,
            columns=None,
        )

    # -- fits of a search, taken as they finish ------------------------------------------------

    def whole_job(self, caller=None):
        """Return what fits on the whole training part and scores holdout records."""
        return WholeJob(self.setting, caller if getattr(caller, "_skl_callbacks", None) else None)

    def whole_tasks(self, tasks):
        """Return the tasks that need such a fit: a query of theirs has no recorded answer yet."""
        names = (None, *self.setting.beside)
        with settled_classes():
            keys = [[self.key(task.candidate, name) for name in names] for task in tasks]
        recorded = self.holdout.recorded([key for own in keys for key in own if key is not None])
        return [
            replace(task, keyed=own[0] is None, context=None)
            for task, own in zip(tasks, keys, strict=True)
            if not all(key in recorded for key in own) and task.row not in self._ready
        ]

    def take(self, task, outcome, *, guess):
        """Keep a finished fit until the batch is asked; ``guess`` is its training-side score."""
        if outcome.model is not None:
            self._look_at(outcome.model, task.candidate)
            repeatable = self.key(task.candidate) is not None
            self._models.put(task.row, outcome.model, guess=guess, repeatable=repeatable)
        self._ready[task.row] = replace(outcome, model=None)

    def _look_at(self, model, candidate):
        """Ask a model whether it predicts each record by itself, on training rows."""
        if candidate.columns != ():
            X = columns_of(self.setting.X, candidate.columns)
            self.row_wise.ask(model, X, candidate.params)

    @sealed_errors  # the frames hold raw scores
    def fit(self, rows, candidates, training):
        """Fit the candidates of these rows that are not fitted or recorded yet.

        After an interruption, those that are finished are put to the holdout.
        """
        tasks = [Task(row, one) for row, one in zip(rows, candidates, strict=True)]
        job, todo = self.whole_job(), self.whole_tasks(tasks)

        def take(job, task, outcome):
            value = outcome.training
            self.take(task, outcome, guess=value if math.isfinite(value) else 0.0)

        try:
            run_jobs([(job, todo)], take, **self._dispatch)
        except INTERRUPTIONS:
            values = {row: outcome.training for row, outcome in self._ready.items()}
            if training is not None:
                values = dict(zip(rows, training, strict=True))
            self.ask_finished(tasks, values)
            raise

    def ask_finished(self, tasks, training):
        """Put the candidates that are finished on both sides to the holdout, before an exit."""
        done = [
            task
            for task in tasks
            if task.row in self._ready and math.isfinite(training.get(task.row, math.nan))
        ]
        if not done:
            return
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            values = [training[task.row] for task in done]
            self.assess([t.candidate for t in done], values, rows=[t.row for t in done])

    def forget(self):
        """Drop every raw score that has not been asked about."""
        self._ready.clear()

    # -- queries ------------------------------------------------------------------------------

    @sealed_errors  # the frames hold raw scores
    def assess(self, candidates, training=None, *, rows=None, beside=None, variances=None):
        """Return an :class:`Assessment` of each candidate, from one batch of queries.

        ``beside`` holds training-side scores by the further metrics that are asked about, by name
        (``None`` where they come with the fit), ``variances`` those of records' training scores.
        """
        candidates = [c if isinstance(c, Candidate) else Candidate(columns=c) for c in candidates]
        keys = [self.key(candidate) for candidate in candidates]
        recorded = self.holdout.recorded([key for key in keys if key is not None])
        known = [key in recorded for key in keys]
        self.n_recorded = sum(known)
        if rows is not None:
            outcomes = self._taken(rows, training, variances)
        else:
            outcomes = self._outcomes(candidates, training, known)
        _report_failures(candidates, outcomes, known, self._told)
        keys = [key or outcome.key for key, outcome in zip(keys, outcomes, strict=True)]
        asked = [
            place
            for place, outcome in enumerate(outcomes)
            if outcome.evaluation is not None and math.isfinite(outcome.training)
        ]
        found = [
            self._recorded(candidate, outcome, recorded.get(key))
            for candidate, outcome, key in zip(candidates, outcomes, keys, strict=True)
        ]
        if rows is not None and asked:  # a breach of contract ends the search before it is asked
            leader = max((outcomes[place] for place in asked), key=lambda one: one.training)
            self.setting.metric.check_clipping(leader.clipping)
        further = self._further(candidates, outcomes, beside)
        ranked = [(outcomes[p], keys[p]) for p in asked]
        answers, more = self._ask(ranked, [(outcome, key) for _, _, outcome, key in further])
        for row, place in enumerate(asked):
            outcome = outcomes[place]
            if rows is not None:  # gains need the evaluation, a search does not
                outcome = replace(outcome, evaluation=None, beside={})
            found[place] = _answered(candidates[place], outcome, keys[place], answers[row])
        self._enter(found, candidates, beside)
        for row, (place, name, outcome, key) in enumerate(further):
            outcome = Outcome(training=outcome.training)
            found[place].beside[name] = _answered(candidates[place], outcome, key, more[row])
        return found

    def _further(self, candidates, outcomes, beside):
        """Return what is asked by further metrics: (place, name, outcome, key)."""
        result = []
        for name in self.setting.beside if beside is not None else ():
            for place, whole in enumerate(outcomes):
                outcome = whole.beside.get(name)
                if outcome is None or not math.isfinite(whole.training):
                    continue
                if beside.get(name) is not None:
                    outcome = replace(outcome, training=float(beside[name][place]))
                if math.isfinite(outcome.training):
                    key = self.key(candidates[place], name)
                    if key is None and outcome.key is not None:
                        key = content_key("beside", outcome.key)
                    result.append((place, name, outcome, key))
        return result

    def _enter(self, found, candidates, beside):
        """Enter recorded answers of further metrics, for candidates that were not fitted again."""
        for name in self.setting.beside if beside is not None else ():
            keys = [self.key(candidate, name) for candidate in candidates]
            recorded = self.holdout.recorded([key for key in keys if key is not None])
            for place, key in enumerate(keys):
                known = Outcome() if beside.get(name) is None else Outcome(beside[name][place])
                record = recorded.get(key)
                found[place].beside[name] = self._recorded(candidates[place], known, record)

    def _taken(self, rows, training, variances):
        """Return the finished fits of a search, with their training side."""
        outcomes = [self._ready.pop(row, Outcome()) for row in rows]
        if training is None:
            return outcomes
        variances = [math.nan] * len(rows) if variances is None else variances
        return [
            replace(outcome, training=math.nan if outcome.error else float(value), variance=known)
            for outcome, value, known in zip(outcomes, training, variances, strict=True)
        ]

    def _variance(self, outcome):
        """Return the variance of a record's training score, as far as it is known."""
        if outcome.scores is None or not self.setting.metric.is_mean:
            return outcome.variance
        return min(float(np.nanvar(outcome.scores.astype(float))), 0.25)

    def _outcomes(self, candidates, training, known):
        """Return the training side of all candidates, with the holdout side of those to ask."""
        everything = self.verify == "all"
        if training is None:
            outcomes = self._work(
                (candidate, True, everything and not before)
                for candidate, before in zip(candidates, known, strict=True)
            )
        else:
            outcomes = [Outcome(training=float(value)) for value in training]
        chosen = [
            place
            for place in self._leaders(outcomes)
            if not known[place] and outcomes[place].evaluation is None and not outcomes[place].error
        ]
        seen = self._work((candidates[place], False, True) for place in chosen)
        for place, other in zip(chosen, seen, strict=True):
            outcomes[place] = _with_holdout(outcomes[place], other)
        return outcomes

    def _leaders(self, outcomes):
        """Return the places of the candidates that the holdout sees, in their order."""
        finite = [place for place, o in enumerate(outcomes) if math.isfinite(o.training)]
        if self.verify == "all":
            return finite
        return sorted(sorted(finite, key=lambda p: -outcomes[p].training)[: self.verify])

    def _ask(self, ranked, further):
        """Return the holdout's answers to one batch: to what ranks, and to further metrics.

        A declared budget is for what ranks: the rest is a batch of its own, which may find none.
        """
        if self.holdout.remaining_budget is None:
            answers = self._answers(ranked, further)
            return answers[: len(ranked)], answers[len(ranked) :]
        answers = self._answers(ranked, [])
        try:
            return answers, self._answers([], further)
        except BudgetExhaustedError:
            return answers, [None] * len(further)

    def _answers(self, ranked, further):
        """Return one answer for each query."""
        queries = [*ranked, *further]
        if not queries:
            return []
        values = np.array([outcome.training for outcome, _ in queries])
        beside = np.arange(len(queries)) >= len(ranked)
        leader = values[~beside].max(initial=0.0)
        found = self.holdout.answer_evaluations(
            values,
            [outcome.evaluation for outcome, _ in queries],
            training_size=self._training_size,
            keys=[key for _, key in queries],
            slack=np.where(beside, 0.0, CONTEST * (leader - values)),
            beside=beside,
            training_variance=[self._variance(outcome) for outcome, _ in queries],
        )
        return list(found)

    def _work(self, tasks):
        """Evaluate candidates, given as (candidate, training side?, holdout?)."""
        calls = [
            delayed(evaluate)(
                self.setting,
                candidate,
                training=training,
                holdout=holdout,
                keyed=holdout and self.key(candidate) is None,
                keep=self.key(candidate) is None,
            )
            for candidate, training, holdout in tasks
        ]
        return Parallel(verbose=max(0, self.verbose - 1), **self._dispatch)(calls) if calls else []

    def _recorded(self, candidate, outcome, record):
        """Return the assessment of a candidate whose answer was recorded before."""
        if record is None:
            return Assessment(candidate.columns, outcome.training, outcome=outcome)
        found = _answered(candidate, outcome, record.key, record)
        training = outcome.training if math.isfinite(outcome.training) else record.training_value
        return replace(found, training=training)

    def paired(self, first, second):
        """Return the :class:`PairedGain` of two assessments; it costs nothing."""
        return paired_gain(
            first.outcome.scores,
            second.outcome.scores,
            is_mean=self.setting.metric.is_mean,
            n_effective=self.setting.n_effective,
        )

    def over(self, assessment, columns):
        """Return the :class:`PairedGain` over a subset that is not asked about, and its score.

        Both are of the training side alone.
        """
        (other,) = self._work([(Candidate(columns=columns), True, False)])
        return self.paired(assessment, Assessment(columns, other.training, outcome=other)), (
            other.training
        )

    @sealed_errors  # the differences below are raw scores
    def gain(self, first, second, paired):
        """Return the :class:`Gain` that the holdout confirms.

        For a mean over records it is asked as two queries, what is won and what is lost: both
        are small numbers, whose intervals are far narrower than those of the two scores.
        """
        if not self.setting.metric.is_mean:
            return Gain(
                released=first.released - second.released,
                lower=first.lower - second.upper,
                upper=first.upper - second.lower,
                floor=self._grid(("holdout" in (first.source, second.source)) * 1),
            )
        keys = None
        if first.key and second.key:
            keys = [query_key("gain", side, first.key, second.key) for side in ("won", "lost")]
        known = self.holdout.recorded(keys or [])
        if keys and all(key in known for key in keys):
            won, lost = (known[key] for key in keys)
        else:
            difference = self.evaluation(first).per_record - self.evaluation(second).per_record
            won, lost = self.holdout.answer(
                [paired.wins, paired.losses],
                np.stack([np.maximum(difference, 0.0), np.maximum(-difference, 0.0)]),
                training_size=self._training_size,
                keys=keys,
            )
        return Gain(
            released=won.value - lost.value,
            lower=won.lower - lost.upper,
            upper=won.upper - lost.lower,
            floor=self._grid(int(won.above) + int(lost.above)),
        )

    def model(self, assessment, candidate=None, *, row=None):
        """Return the verified model of a candidate, fitted on the training part."""
        model = self._models.get(row)
        if model is None and assessment is not None and assessment.outcome is not None:
            model = assessment.outcome.model
        candidate = Candidate(columns=assessment.columns) if candidate is None else candidate
        if model is None:
            model = fit_candidate(self.setting, candidate)
        self._look_at(model, candidate)
        return model

    def evaluation(self, assessment):
        """Return the raw evaluation of a subset; of one answered before it is computed now."""
        known = assessment.outcome.evaluation
        if known is None:
            (outcome,) = self._work([(Candidate(columns=assessment.columns), False, True)])
            known = outcome.evaluation
        return known

    def _grid(self, n_above):
        """Return what rounding and noise can explain: about half a cell each per answer."""
        return n_above * float(self.holdout.certificate().resolution)


def _answered(candidate, outcome, key, answer):
    """Return the assessment after an answer, new or recorded; ``None``: it could not be asked."""
    known = Assessment(candidate.columns, outcome.training, key=key, outcome=outcome)
    if answer is None:
        return known
    value, lower, upper, source = answer.value, answer.lower, answer.upper, answer.source
    return replace(known, released=value, lower=lower, upper=upper, source=source)


def _with_holdout(outcome, other):
    """Return the training side of one outcome with the holdout side of another."""
    training = math.nan if other.error else outcome.training
    return replace(other, training=training, scores=outcome.scores, clipping=outcome.clipping)


def _report_failures(candidates, outcomes, known, told):
    """Warn about fits that failed, once, or raise when nothing is left to verify.

    A constant prediction (no columns) never fails, and nobody came for it alone. ``known``: which
    candidates have a recorded answer.
    """
    for outcome in outcomes:
        if outcome.misfit:
            raise ValueError(outcome.misfit)
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if not errors:
        return
    left = any(
        candidate.columns != () and (before or not (outcome.error or _was_left_out(outcome)))
        for candidate, outcome, before in zip(candidates, outcomes, known, strict=True)
    )
    if not left:
        raise all_failed(
            errors,
            f"All the {len(errors)} fits failed on the training part; nothing was asked of the "
            "holdout about them.",
        )
    warn_some_failed(
        errors,
        f"{len(errors)} of {len(outcomes)} fits failed on the training part; these candidates "
        "were not shown to the holdout.",
        told,
    )


def _was_left_out(outcome):
    """Return whether nothing is known of a candidate: it failed before, and was told then."""
    return outcome.evaluation is None and not math.isfinite(outcome.training)
