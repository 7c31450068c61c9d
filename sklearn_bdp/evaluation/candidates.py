"""Fit candidates on the training set, cross-validate them and query the holdout.

Workers fit and predict; only the coordinating process runs the mechanism. What workers return
(the per-record scores) goes straight to the holdout and nowhere else. What is recorded is free,
what is new is one batch.
"""

import contextlib
import copy
import functools
import math
import operator
import pickle
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from collections import OrderedDict
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any

import joblib
import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import gen_batches
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp.accounting.noise_calibration import RELAXED_PART
from sklearn_bdp.diagnostics.scores import BatchDependenceCheck
from sklearn_bdp.exceptions import BudgetExhaustedError, ScoreContractError
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.utils.hashing import (
    ModelDigest,
    content_key,
    copy_data,
    data_digest,
    has_user_code,
    recipe_key,
)
from sklearn_bdp.utils.sklearn_compat import (
    Nobody,
    check_method_params,
    num_samples,
    report_failures,
    safe_indexing,
)
from sklearn_bdp.utils.validation import strip_traceback_frames

#: What ends a search from outside: the user, or the death of a worker. What is finished is kept.
INTERRUPTIONS = (KeyboardInterrupt, BrokenExecutor)
_EVERY = 60.0  # seconds between two lines about what is left
#: Calls per worker, so that none waits long for another at the end.
_CALLS = 16


def targets(X, y):
    """Return ``y``, or zeros in the place of targets that nobody needs."""
    return np.zeros(num_samples(X)) if y is None else y


@dataclass(frozen=True)
class Experiment:
    """Everything that stays the same from candidate to candidate."""

    estimator: object  # cloned for each fit
    X: object = field(repr=False)  # training part
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)
    y_holdout: object = field(repr=False)
    metric: object
    fit_params: dict = field(repr=False)  # what goes to ``fit``, for all training records
    error_score: object = math.nan  # "raise", or a number for a failed fit
    #: Whether the score on the training part comes with a fit; else it is known already.
    resubstitution: bool = False
    folds: Any = field(default=(), repr=False)  # inner cross-validation
    n_effective: float = math.nan  # effective number of training records
    #: Secondary metrics that each candidate is asked about; they decide nothing.
    secondary: dict = field(default_factory=dict)
    dates: Any = field(default=None, repr=False)  # of training records judged given their past
    #: Sampling units of the records that test the folds, in their order, and why these are unknown.
    tested_units: tuple[Any, str] = field(default=(None, ""), repr=False)

    @classmethod
    def of(cls, owner, division, **known):
        """Return what stays the same of the candidates of a search or selector."""
        parts = {name: getattr(division, name) for name in ("X", "y", "X_holdout", "y_holdout")}
        known |= {"error_score": owner.error_score, "dates": division.time_ordered_dates()}
        return cls(clone(owner.estimator), **parts, **known)


@dataclass(frozen=True, eq=False)
class Candidate:
    """What a query is about: parameters of the estimator, and the columns it sees."""

    params: dict = field(default_factory=dict)  # set on a clone of the estimator
    columns: tuple | None = None  # ``None``: all. An empty tuple stands for a constant prediction

    @property
    def words(self):
        """What distinguishes the candidate, for the ledger."""
        if self.columns is not None:
            return f"{len(self.columns)} columns"
        return ", ".join(f"{name}={value!r:.40}" for name, value in self.params.items()) or None


@dataclass(frozen=True)
class Outcome:
    """What a worker found out about a candidate."""

    training: float = math.nan  # score on the training part, in [0, 1]
    #: Scores on the holdout: for the mechanism only.
    evaluation: object = field(default=None, repr=False)
    key: str | None = None  # digest of the fitted model, where it was asked for
    model: object = field(default=None, repr=False)  # fitted on the training part
    fit_time: float = math.nan  # seconds, as the next one
    score_time: float = math.nan
    error: str = ""  # traceback of a failed fit, else empty
    #: The same of the secondary metrics that the model could be asked about.
    secondary: dict = field(default_factory=dict, repr=False)
    clipping: object = None  # what clipping changes on training records, where that was found out


@dataclass(frozen=True)
class NoAnswer:
    """Stands for the answer of a query that was not asked."""

    source: str = "unanswered"
    interval: str = "none"
    value: float = math.nan
    lower: float = math.nan
    upper: float = math.nan


@dataclass(frozen=True, eq=False)
class Task:
    """One fit."""

    row: int  # row of the candidate in ``cv_results_``
    candidate: Candidate = field(repr=False)
    keyed: bool = False  # whether the key comes from the fitted model
    name: str | None = None  # what a fit on a fold is known by after an interruption
    progress: tuple = (0, 0)  # row among the candidates of this round, for messages
    context: object = field(default=None, repr=False)  # of scikit-learn's callbacks


@dataclass(frozen=True, eq=False)
class WholeJob:
    """Fit on the whole training part and score each holdout record."""

    setting: Experiment = field(repr=False)
    caller: object = field(default=None, repr=False)  # the search, for callbacks

    def run(self, task, memory=None):
        """Return the :class:`Outcome` of one candidate.

        ``memory``: steps that candidates of a worker share.
        """
        setting, start = self.setting, time.perf_counter()
        context = task.context or Nobody()  # callbacks are shown no data
        context.call_on_fit_task_begin(estimator=self.caller)
        try:
            model = fit_candidate(setting, task.candidate, memory)
        except Exception as error:
            if setting.error_score == "raise":
                if not hasattr(error, "__notes__"):  # the frames do not survive, their text does
                    error.add_note(traceback.format_exc())
                raise
            return Outcome(fit_time=time.perf_counter() - start, error=traceback.format_exc())
        finally:
            context.call_on_fit_task_end(estimator=self.caller)
        # The time of scores is that of training records: the holdout's could tell of its records.
        fit_time, score_time = time.perf_counter() - start, 0.0
        columns, found, keys = task.candidate.columns, {}, {}
        asked, memory = {None: setting.metric, **setting.secondary}, memory or PrefixMemory()
        X, X_holdout = (columns_of(each, columns) for each in (setting.X, setting.X_holdout))
        y = targets(setting.X, setting.y)
        if task.keyed:
            # Before the model sees the holdout: what it may keep of it must not get into a key.
            known = ModelDigest(model, predictor=memory.sharing(model, X, "training"))
            keys = {name: known.key(each, X, columns=columns) for name, each in asked.items()}
        for name, metric in asked.items():
            try:
                shared = memory.sharing(model, X_holdout, "holdout", metric=metric)
                evaluation = metric.evaluate(shared, X_holdout, setting.y_holdout)
                value, clipping = math.nan, None
                if setting.resubstitution:
                    start = time.perf_counter()
                    shared = memory.sharing(model, X, "training", metric=metric)
                    metric.check_training(shared, X, y)
                    trained = metric.evaluate(shared, X, y)
                    value = trained.value
                    clipping = metric.clipping(shared, X, y, trained.per_record)
                    score_time += time.perf_counter() - start
                found[name] = Outcome(value, evaluation, keys.get(name), clipping=clipping)
            except ScoreContractError:
                raise
            except Exception:  # a secondary metric that this model cannot be asked about
                if name is None:
                    raise
        took = {"fit_time": fit_time, "score_time": score_time}
        return replace(found.pop(None), secondary=found, model=model, **took)


def fit_candidate(setting, candidate, memory=None):
    """Return the estimator with a candidate's parameters, fitted on the training part."""
    # What fitting does to its data in place concerns no other candidate.
    X, y = copy_data(columns_of(setting.X, candidate.columns)), copy_data(setting.y)
    params = check_method_params(X, setting.fit_params)
    return fit_clone(setting, candidate, X, y, params, memory)


def fit_clone(setting, candidate, X, y, fit_params, memory=None):
    """Fit a clone on some records; without columns, the constant that suits the metric."""
    if candidate.columns == ():
        if is_classifier(setting.estimator):
            return DummyClassifier(strategy="prior").fit(X, y)
        middle = "median" if "absolute" in setting.metric.name else "mean"
        return DummyRegressor(strategy=middle).fit(X, y)
    estimator = clone(setting.estimator).set_params(**clone(candidate.params, safe=False))
    shared = contextlib.nullcontext() if memory is None else memory.lent(estimator, "whole")
    with shared:
        estimator.fit(X, **fit_params) if y is None else estimator.fit(X, y, **fit_params)
    return estimator


def fit_fold(setting, candidate, X, fold):
    """Return a model of the training rows of a fold, with the records and targets that test it."""
    train, test = fold
    params = check_method_params(setting.X, setting.fit_params, indices=train)
    part, labels = safe_indexing(X, train), safe_indexing(setting.y, train)
    model = fit_clone(setting, candidate, part, labels, params)
    return model, safe_indexing(X, test), safe_indexing(setting.y, test)


def columns_of(X, columns):
    """Return some columns of ``X``, all for ``None``; a column of zeros for none."""
    if columns is None:
        return X
    if not columns:
        return np.zeros((num_samples(X), 1))
    return safe_indexing(X, np.asarray(columns), axis=1)


def cross_validated(setting, candidate):
    """Return scores of training records, or of folds where the metric is no mean, and clipping."""
    mean = setting.metric.is_mean
    scores = np.full(num_samples(setting.X) if mean else len(setting.folds), np.nan, np.float32)
    X, metric, clipping = columns_of(setting.X, candidate.columns), setting.metric, None
    for place, fold in enumerate(setting.folds):
        model, *tested = fit_fold(setting, candidate, X, fold)
        metric.check_training(model, *tested)
        evaluation = metric.evaluate(model, *tested)
        scores[fold[1] if mean else place] = evaluation.per_record if mean else evaluation.value
        found = metric.clipping(model, *tested, evaluation.per_record)
        clipping = clipping if found is None else found + clipping
        del model  # before the next one is fitted
    return scores, clipping


#: Bytes of transformed records that one worker keeps.
BOUND = 2**28
_PREDICTIONS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class PrefixMemory:
    """What a pipeline takes as ``memory``, for one worker and one part of the data at a time.

    A step is recognised by its parameters and by those of the steps before it; a copy of what it
    gave is handed out, so that later steps may work in place. Steps that draw random numbers
    without a seed, and steps that cannot be digested, are fitted anew for each candidate.
    """

    location = "memory"  # pipelines clone their transformers before they ask a memory

    def __init__(self, bound=BOUND):
        self.bound = bound
        self._part, self._place = None, None
        self._kept, self._bytes = OrderedDict(), 0

    @contextlib.contextmanager
    def lent(self, estimator, part):
        """Serve a pipeline without a memory of its own while it is fitted on ``part``."""
        self._place = None
        if type(estimator) is not Pipeline or estimator.memory is not None:
            yield
            return
        if part != self._part:
            self._part, self._bytes = part, 0
            self._kept.clear()
        self._place = ()
        estimator.memory = self
        try:
            yield
        finally:
            estimator.memory = None

    def cache(self, function, ignore=None):
        """Return ``function`` (it fits one step and transforms) with a memory."""

        def remembered(transformer, X, y, *args, **params):
            name = _name(transformer)
            if name is None or self._place is None:
                self._place = None
                return function(transformer, X, y, *args, **params)
            self._place = (*self._place, name)
            return self.recalled(self._place, lambda: function(transformer, X, y, *args, **params))

        return remembered

    def sharing(self, model, X, label, *, metric=None):
        """Return the model fitted last, with ``X`` transformed once for all that share its steps.

        ``label``: what ``X`` is called; one part of the data has one ``X`` of that name;
        ``metric``: what will be asked; a caller's own score is given the model as it is.
        """
        own = metric is not None and not metric.by_predictions
        if own or not self._place or type(model) is not Pipeline:
            return model
        return SharedPipeline(model, self, (*self._place, ("records", label)), num_samples(X))

    def recalled(self, place, make):
        """Return transformed records and a fitted step, or make them and keep a copy if it fits."""
        if place in self._kept:
            self._kept.move_to_end(place)
            transformed, fitted = self._kept[place]
            return copy_data(transformed), fitted
        transformed, fitted = make()
        size = _size(transformed)
        if size is not None and size <= self.bound:
            self._kept[place] = copy_data(transformed), fitted
            self._bytes += size
        while self._bytes > self.bound:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)
        return transformed, fitted


class SharedPipeline:
    """A fitted pipeline that finds its records transformed; it predicts what the pipeline does.

    Of the ``n`` records of the whole set: a part of them is not shared, and all that is asked
    besides goes to the pipeline.
    """

    def __init__(self, pipeline, memory, place, n):
        self._pipeline, self._memory, self._place, self._n = pipeline, memory, place, n

    def __getattr__(self, name):
        found = getattr(self._pipeline, name)
        if name not in _PREDICTIONS:
            return found
        # Scorers of scikit-learn read the name of the method.
        return functools.update_wrapper(functools.partial(self._say, name, found), found)

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._pipeline, memo)

    def _say(self, name, plain, X):
        if num_samples(X) != self._n:
            return plain(X)
        found, _ = self._memory.recalled(self._place, lambda: (self._transformed(X), None))
        return getattr(self._pipeline[-1], name)(found)

    def _transformed(self, X):
        # Step by step, as the pipeline predicts: as a pipeline of their own they would have to
        # look fitted, which a step that learns nothing does not.
        for _, step in self._pipeline.steps[:-1]:
            X = X if step in (None, "passthrough") else step.transform(X)
        return X


def _name(transformer):
    """Return what an unfitted step is known by, or None where two fits of it may differ."""
    try:
        params = transformer.get_params(deep=True)
        seeds = [value for key, value in params.items() if key.split("__")[-1] == "random_state"]
        if not all(isinstance(seed, int | np.integer) for seed in seeds):
            return None
        return joblib.hash(transformer, hash_name="sha1")
    except Exception:  # whatever a third-party object raises when it is pickled
        return None


def _size(X):
    """Return the bytes of an array, sparse matrix or frame, or None for anything else."""
    if isinstance(X, np.ndarray):
        return X.nbytes
    if scipy.sparse.issparse(X) and X.format in ("csr", "csc"):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if hasattr(X, "memory_usage") and hasattr(X, "iloc"):
        return int(X.memory_usage(deep=False).sum())
    return None


def run_jobs(jobs, take, *, n_jobs, pre_dispatch):
    """Run fits and hand each result to ``take`` as soon as it is there.

    Results may hold fitted models, so that none is kept here while the next one is fitted. Once a
    minute, it is said how many of the fits are left.
    """
    start = last = time.monotonic()
    done, total = 0, sum(len(tasks) for _, tasks in jobs)

    def finish(job, task, result):
        nonlocal done, last
        take(job, task, result)
        done, now = done + 1, time.monotonic()
        if now - last >= _EVERY and done < total:
            last, left = now, math.ceil((now - start) / done * (total - done) / 60.0)
            print(f"{done:,} of {total:,} fits, about {left:,} min left", file=sys.stderr)

    workers = joblib.effective_n_jobs(n_jobs)
    if workers == 1:
        memory = PrefixMemory()
        for job, tasks in jobs:
            for task in tasks:
                finish(job, task, job.run(task, memory))
        return
    size = max(1, math.ceil(total / (workers * _CALLS)))
    jobs = [(job, tasks) for job, tasks in jobs if tasks]  # some fits of a fold are all known
    chunks = [(job, tasks[part]) for job, tasks in jobs for part in gen_batches(len(tasks), size)]
    calls = (delayed(_run_chunk)(place, job, tasks) for place, (job, tasks) in enumerate(chunks))
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    try:
        found = Parallel(return_as="generator_unordered", **options)(calls)
    except ValueError:  # ray and multiprocessing give lists only; nothing has been dispatched
        found = Parallel(**options)(calls)
    for place, results in found:
        job, tasks = chunks[place]
        for task, result in zip(tasks, results, strict=True):
            finish(job, task, result)


def _run_chunk(place, job, tasks):
    """Run fits that share a part of the data, one after the other, in a worker."""
    memory = PrefixMemory()
    return place, [job.run(task, memory) for task in tasks]


class ModelStore:
    """Fitted models of a batch: the leader in memory, the rest on disk or to be fitted again.

    Which one is best is known only when all have been asked about.
    """

    def __init__(self):
        self._leader, self._stored, self._file = (-math.inf, None, True, None), {}, None

    def put(self, row, model, *, guess, repeatable):
        """Keep a model; ``guess`` is its training-side score."""
        both = (guess, row, repeatable, model), self._leader
        behind, self._leader = sorted(both, key=operator.itemgetter(0))
        _, row, repeatable, model = behind
        if repeatable:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the store)
            weakref.finalize(self, self._file.close)
        self._stored[row] = self._file.seek(0, 2)
        try:
            pickle.dump(model, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever a third-party object raises when it is pickled
            self._stored[row] = model

    def get(self, row):
        """Return the model of a row, or None where it has to be fitted again."""
        if row == self._leader[1]:
            return self._leader[3]
        place = self._stored.get(row)
        if isinstance(place, int):
            self._file.seek(place)
            return pickle.load(self._file)
        return place


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
    #: What out-of-fold predictions say, for a metric without a proven bound.
    reference: Any = field(default=None, repr=False)

    @property
    def rank(self):
        """Return what candidates are ranked by: the smaller of both scores.

        Of thousands of candidates some are lucky on the holdout by chance, and they would win if
        its answers alone counted; bad luck and overfitting may only lower a score.
        """
        value = self.answer.value
        return min(self.training, value) if math.isfinite(value) else math.nan

    def in_units(self, metric):
        """Return the score that was released and the ends of its interval, in score units."""
        ends = metric.ends_from_unit(self.answer.lower, self.answer.upper)
        return [float(metric.from_unit(self.answer.value)), *map(float, ends)]


def in_units_of(metric, record):
    """Return a recorded answer in [0, 1] by the range of a metric, which may be another one."""
    if not isinstance(metric, ApproximateMetric) or record.scale is None:
        return record
    known = record.in_units()
    names = ("cv_score", "value", "lower", "upper")
    units = {name: metric.to_unit(getattr(known, name)) for name in names}
    _, *scale = record.scale
    return replace(record, **units, scale=(metric.measured, metric.lower, metric.upper, *scale[2:]))


class Verifier:
    """Ask the holdout about candidates."""

    def __init__(self, setting, holdout, *, n_jobs=None, pre_dispatch="2*n_jobs"):
        self.setting = setting
        self.holdout = holdout
        self.dispatch = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        self._metrics = {None: setting.metric, **setting.secondary}  # None: what ranks
        self._reported = self._metrics  # the same, once their public range is known
        self._own_code, self._data = has_user_code(setting.estimator), None
        self._recipes, self._recorded = {}, {}
        self.unasked = {}  # outcomes by row, with raw scores
        self._models = ModelStore()
        self.row_wise = BatchDependenceCheck(setting.dates)

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
                data = {"training": self._data, "fit_params": setting.fit_params, "columns": None}
                recipe = recipe_key(estimator, self._metrics[name], **data)
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
            guess = float(np.nan_to_num(guess))
            self._models.put(task.row, outcome.model, guess=guess, repeatable=repeatable)
        self.unasked[task.row] = replace(outcome, model=None)

    def _look_at(self, model, candidate):
        """Ask a model whether it predicts each record by itself, on training rows."""
        if candidate.columns != ():
            X = columns_of(self.setting.X, candidate.columns)
            self.row_wise.ask(model, X)
            for metric in self._metrics.values():
                self.row_wise.check_score(metric, model, X, targets(X, self.setting.y))

    @strip_traceback_frames  # the frames hold raw scores
    def fit(self, rows, candidates, training):
        """Fit the candidates of these rows that are not fitted or recorded yet.

        After an interruption, those that are finished are put to the holdout.
        """
        tasks = [Task(row, one) for row, one in zip(rows, candidates, strict=True)]
        job, todo = WholeJob(self.setting), self.whole_tasks(tasks)
        known = {} if training is None else dict(zip(rows, training, strict=True))

        def take(job, task, outcome):
            self.take(task, outcome, guess=known.get(task.row, outcome.training))

        try:
            run_jobs([(job, todo)], take, **self.dispatch)
        except INTERRUPTIONS:
            fitted = {row: outcome.training for row, outcome in self.unasked.items()}
            self.ask_finished(tasks, known or fitted)
            raise

    def ask_finished(self, tasks, training):
        """Put the candidates that are finished on both sides to the holdout, before an exit."""
        if any(isinstance(metric, ApproximateMetric) for metric in self._metrics.values()):
            return  # their spread is known once all folds are
        rows = {row for row in self.unasked if math.isfinite(training.get(row, math.nan))}
        done = [task for task in tasks if task.row in rows]
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            values = [training[task.row] for task in done]
            self.assess([t.candidate for t in done], values, rows=[t.row for t in done])

    # -- queries ------------------------------------------------------------------------------

    @strip_traceback_frames  # the frames hold raw scores
    def assess(
        self,
        candidates,
        training=None,
        *,
        rows=None,
        secondary=None,
        variances=None,
        references=None,
        n_train=None,
    ):
        """Return an :class:`Assessment` of each candidate, from one batch of queries.

        ``rows``: of candidates that were fitted before; without them they are fitted here.
        ``secondary`` holds training-side scores by secondary metrics, by name (``None`` where they
        come with the fit), ``variances`` those of records' training scores. ``references`` takes
        the place of a candidate and a secondary metric (None for what ranks), and returns what
        out-of-fold predictions say; for metrics without a proven bound. ``n_train``: number of
        training records behind a training-side score, if not all count alike.
        """
        candidates = [c if isinstance(c, Candidate) else Candidate(columns=c) for c in candidates]
        if rows is None:
            rows = [candidate.columns for candidate in candidates]
            # The holdout sees those with a training-side score.
            shown = np.flatnonzero(np.isfinite(training))
            self.fit(*([part[place] for place in shown] for part in (rows, candidates, training)))
        found = self._queries(candidates, rows, training, secondary or {}, variances, references)
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
                    n_train=num_samples(self.setting.X) if n_train is None else n_train,
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

    def use_metrics(self, metric, secondary):
        """Take metrics with the public range that suits the candidates; keys stay as they are."""
        self.setting = replace(self.setting, metric=metric, secondary=secondary)
        self._reported = {None: metric, **secondary}

    def _queries(self, candidates, rows, training, secondary, variances, references):
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
                metric = self._reported[name]
                reference = None
                if isinstance(metric, ApproximateMetric):
                    reference = references(place, name)
                    if own.evaluation is not None:
                        own = replace(own, evaluation=metric.finish(own.evaluation, reference))
                queries[name] = Assessment(
                    candidate.columns,
                    value,
                    key=key,
                    outcome=own,
                    about=(metric, candidate.words),
                    reference=reference,
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
                each.answer = in_units_of(each.about[0], record)
                if not math.isfinite(each.training):
                    each.training = each.answer.cv_score
        return found

    def _look_up(self, keys):
        """Return the recorded answers by key; each key is looked up once."""
        new = {key for key in keys if key is not None} - self._recorded.keys()
        if new:
            self._recorded |= dict.fromkeys(new) | self.holdout.find_answers(sorted(new))
        return self._recorded

    def model(self, candidate, row=None):
        """Return the verified model of a candidate, fitted on the training part."""
        model = self._models.get(candidate.columns if row is None else row)
        if model is None:
            model = fit_candidate(self.setting, candidate)
        self._look_at(model, candidate)
        return model
