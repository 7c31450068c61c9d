"""Fit candidates on the training set, cross-validate them and query the holdout.

Workers fit and predict; only the coordinating process runs the mechanism. The per-record scores
that workers return go straight to the holdout and nowhere else. Recorded answers are free, and new
queries are one batch.
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
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import gen_batches
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp.accounting.noise_calibration import RELAXED_PART
from sklearn_bdp.diagnostics.scores import BatchDependenceCheck
from sklearn_bdp.exceptions import BudgetExhaustedError, ScoreContractError
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.metrics.error_clips import has_undeclared_range
from sklearn_bdp.utils.hashing import (
    ModelDigest,
    content_key,
    copy_data,
    data_digest,
    has_user_code,
    pickle_digest,
    recipe_context,
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

#: Errors that interrupt a search: by the user or a dead worker. Finished fits are kept.
INTERRUPTIONS = (KeyboardInterrupt, BrokenExecutor)
_EVERY = 60.0  # seconds between two messages about remaining fits
#: Calls per worker, so that workers finish at about the same time.
_CALLS = 16


def targets(X, y):
    """Return ``y``, or zeros if there are no targets."""
    return np.zeros(num_samples(X)) if y is None else y


@dataclass(frozen=True)
class Experiment:
    """Everything that stays the same from candidate to candidate."""

    estimator: object  # cloned for each fit
    X: object = field(repr=False)  # training records
    y: object = field(repr=False)
    X_holdout: object = field(repr=False)
    y_holdout: object = field(repr=False)
    metric: object
    fit_params: dict = field(repr=False)  # passed to ``fit``, for all training records
    error_score: object = math.nan  # "raise", or a number for a failed fit
    folds: Any = field(default=(), repr=False)  # inner cross-validation
    n_effective: float = math.nan  # effective number of training records
    #: Secondary metrics to verify for each candidate; they do not rank candidates.
    secondary: dict = field(default_factory=dict)
    dates: Any = field(default=None, repr=False)  # of training records in time order
    #: Sampling units of the test records of all folds, in order, and the reason if unknown.
    tested_units: tuple[Any, str] = field(default=(None, ""), repr=False)

    @classmethod
    def of(cls, owner, division, **settings):
        """Return the settings that all candidates of a search or selector share."""
        return cls(
            clone(owner.estimator),
            X=division.X,
            y=division.y,
            X_holdout=division.X_holdout,
            y_holdout=division.y_holdout,
            error_score=owner.error_score,
            dates=division.time_ordered_dates(),
            **settings,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """Parameters of the estimator and the columns it is fitted on."""

    params: dict = field(default_factory=dict)  # set on a clone of the estimator
    columns: tuple | None = None  # ``None``: all; an empty tuple: a constant prediction

    @property
    def words(self):
        """Description of the candidate for the ledger."""
        if self.columns is not None:
            return f"{len(self.columns)} columns"
        return ", ".join(f"{name}={value!r:.40}" for name, value in self.params.items()) or None


@dataclass(frozen=True)
class Outcome:
    """Scores, times and errors that a worker returns for a candidate."""

    #: Scores on the holdout: for the mechanism only.
    evaluation: object = field(default=None, repr=False)
    key: str | None = None  # digest of the fitted model, if requested
    model: object = field(default=None, repr=False)  # fitted on the training set
    fit_time: float = math.nan  # seconds
    error: str = ""  # traceback of a failed fit, else empty
    #: Outcomes by the secondary metrics that can score the model.
    secondary: dict = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class NoAnswer:
    """Placeholder for the answer to a query that was not verified."""

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
    fit_key: str | None = None  # identifies a fit on a fold after an interruption
    progress: tuple = (0, 0)  # row among the candidates of this round, for messages
    context: object = field(default=None, repr=False)  # of scikit-learn's callbacks


@dataclass(frozen=True, eq=False)
class WholeJob:
    """Fit on the whole training set and score each holdout record."""

    setting: Experiment = field(repr=False)
    caller: object = field(default=None, repr=False)  # the search, for callbacks

    def run(self, task, memory=None):
        """Return the :class:`Outcome` of one candidate.

        ``memory``: fitted pipeline steps that the candidates of a worker share.
        """
        setting = self.setting
        start = time.perf_counter()
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
        fit_time = time.perf_counter() - start
        memory = memory or PrefixMemory()
        keys = self._keys(model, task, memory) if task.keyed else {}
        outcomes = self._evaluations(model, task.candidate.columns, keys, memory)
        return replace(outcomes.pop(None), secondary=outcomes, model=model, fit_time=fit_time)

    def _metrics(self):
        """Return the metrics by name; None is the name of the metric that ranks."""
        return {None: self.setting.metric, **self.setting.secondary}

    def _keys(self, model, task, memory):
        """Return the keys of a fitted model by name of the metric.

        They are computed before the model sees the holdout, so that nothing of it gets into a key.
        """
        columns = task.candidate.columns
        X = columns_of(self.setting.X, columns)
        digest = ModelDigest(model, predictor=memory.sharing(model, X, "training"))
        return {
            name: digest.key(metric, X, columns=columns) for name, metric in self._metrics().items()
        }

    def _evaluations(self, model, columns, keys, memory):
        """Return an :class:`Outcome` with the scores on the holdout by name of the metric."""
        X_holdout = columns_of(self.setting.X_holdout, columns)
        outcomes = {}
        for name, metric in self._metrics().items():
            try:
                shared = memory.sharing(model, X_holdout, "holdout", metric=metric)
                evaluation = metric.evaluate(shared, X_holdout, self.setting.y_holdout)
                outcomes[name] = Outcome(evaluation, keys.get(name))
            except ScoreContractError:
                raise
            except Exception:  # a secondary metric that cannot score this model
                if name is None:
                    raise
        return outcomes


def fit_candidate(setting, candidate, memory=None):
    """Return the estimator with a candidate's parameters, fitted on the training set."""
    # An estimator may change its data in place, so that each candidate gets a copy.
    X = copy_data(columns_of(setting.X, candidate.columns))
    y = copy_data(setting.y)
    params = check_method_params(X, setting.fit_params)
    return fit_clone(setting, candidate, X, y, params, memory)


def fit_clone(setting, candidate, X, y, fit_params, memory=None):
    """Fit a clone on some records; without columns, the constant that suits the metric."""
    if candidate.columns == ():
        if is_classifier(setting.estimator):
            return DummyClassifier(strategy="prior").fit(X, y)
        strategy = "median" if "absolute" in setting.metric.name else "mean"
        return DummyRegressor(strategy=strategy).fit(X, y)
    estimator = clone(setting.estimator).set_params(**clone(candidate.params, safe=False))
    shared_steps = contextlib.nullcontext() if memory is None else memory.lent(estimator, "whole")
    with shared_steps:
        estimator.fit(X, **fit_params) if y is None else estimator.fit(X, y, **fit_params)
    return estimator


def fit_fold(setting, candidate, X, fold):
    """Return a model of the training rows of a fold, with the records and targets that test it."""
    train, test = fold
    params = check_method_params(setting.X, setting.fit_params, indices=train)
    X_train = safe_indexing(X, train)
    y_train = safe_indexing(setting.y, train)
    model = fit_clone(setting, candidate, X_train, y_train, params)
    return model, safe_indexing(X, test), safe_indexing(setting.y, test)


def columns_of(X, columns):
    """Return some columns of ``X``, all for ``None``; a column of zeros for none."""
    if columns is None:
        return X
    if not columns:
        return np.zeros((num_samples(X), 1))
    return safe_indexing(X, np.asarray(columns), axis=1)


def cross_validated(setting, candidate):
    """Return out-of-fold scores and the effect of clipping.

    One score per training record, or one per fold if the metric is not a mean over records.
    """
    metric = setting.metric
    X = columns_of(setting.X, candidate.columns)
    n_scores = num_samples(X) if metric.is_mean else len(setting.folds)
    scores = np.full(n_scores, np.nan, np.float32)
    clipping = None
    for fold_index, fold in enumerate(setting.folds):
        model, X_test, y_test = fit_fold(setting, candidate, X, fold)
        metric.check_training(model, X_test, y_test)
        evaluation = metric.evaluate(model, X_test, y_test)
        if metric.is_mean:
            _, test = fold
            scores[test] = evaluation.per_record
        else:
            scores[fold_index] = evaluation.value
        fold_clipping = metric.clipping(model, X_test, y_test, evaluation.per_record)
        if fold_clipping is not None:
            clipping = fold_clipping + clipping
        del model  # before the next one is fitted
    return scores, clipping


#: Bytes of transformed records that one worker keeps.
BOUND = 2**28
_PREDICTIONS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class PrefixMemory:
    """Cache for the ``memory`` of a pipeline, for one worker and one part of the data at a time.

    A step is identified by its parameters and by those of the steps before it. The cache returns
    copies of transformed records, so that later steps may work in place. Steps that draw random
    numbers without a seed, and steps that cannot be digested, are refitted for each candidate.
    """

    location = "memory"  # pipelines clone their transformers before they ask a memory

    def __init__(self, bound=BOUND):
        self.bound = bound
        self._part = None
        self._place = None  # names of the steps fitted so far; None: they cannot be shared
        self._kept = OrderedDict()  # transformed records and fitted step, by names of the steps
        self._bytes = 0

    @contextlib.contextmanager
    def lent(self, estimator, part):
        """Serve a pipeline without a memory of its own while it is fitted on ``part``."""
        self._place = None
        if type(estimator) is not Pipeline or estimator.memory is not None:
            yield
            return
        if part != self._part:
            self._part = part
            self._bytes = 0
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
        """Return the last fitted model, with ``X`` transformed once for all models with its steps.

        ``label``: name of ``X``, unique within a part of the data; ``metric``: the metric that
        will score the model. A caller's own score gets the model as it is.
        """
        is_custom_score = metric is not None and not metric.uses_predictions_only
        if is_custom_score or not self._place or type(model) is not Pipeline:
            return model
        return SharedPipeline(model, self, (*self._place, ("records", label)), num_samples(X))

    def recalled(self, step_key, make):
        """Return cached records and fitted step, or compute them and cache a copy if it fits."""
        if step_key in self._kept:
            self._kept.move_to_end(step_key)
            transformed, fitted = self._kept[step_key]
            return copy_data(transformed), fitted
        transformed, fitted = make()
        size = _size(transformed)
        if size is not None and size <= self.bound:
            self._kept[step_key] = copy_data(transformed), fitted
            self._bytes += size
        while self._bytes > self.bound:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)
        return transformed, fitted


class SharedPipeline:
    """Fitted pipeline that takes the transformed records of its data set from a cache.

    It predicts as the pipeline does. Only data of all ``n`` records come from the cache; other
    data and attributes come from the pipeline.
    """

    def __init__(self, pipeline, memory, step_key, n):
        self._pipeline = pipeline
        self._memory = memory
        self._place = step_key
        self._n = n

    def __getattr__(self, name):
        attribute = getattr(self._pipeline, name)
        if name not in _PREDICTIONS:
            return attribute
        # Scorers of scikit-learn read the name of the method.
        return functools.update_wrapper(functools.partial(self._say, name, attribute), attribute)

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._pipeline, memo)

    def _say(self, name, predict, X):
        if num_samples(X) != self._n:
            return predict(X)
        transformed, _ = self._memory.recalled(self._place, lambda: (self._transformed(X), None))
        return getattr(self._pipeline[-1], name)(transformed)

    def _transformed(self, X):
        # Step by step, as the pipeline predicts: as a pipeline of their own they would have to
        # look fitted, which a step that learns nothing does not.
        for _, step in self._pipeline.steps[:-1]:
            X = X if step in (None, "passthrough") else step.transform(X)
        return X


def _name(transformer):
    """Return the digest of an unfitted step, or None if two fits of it may differ."""
    try:
        params = transformer.get_params(deep=True)
        seeds = [value for key, value in params.items() if key.split("__")[-1] == "random_state"]
        if not all(isinstance(seed, int | np.integer) for seed in seeds):
            return None
        return pickle_digest(transformer)
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
    """Run fits and pass each result to ``take`` as soon as it is available.

    Results may hold fitted models, so that none is kept here while the next one is fitted. The
    number of remaining fits is printed once a minute.
    """
    n_fits = sum(len(tasks) for _, tasks in jobs)
    progress = _ProgressMessages(n_fits)
    workers = joblib.effective_n_jobs(n_jobs)
    if workers == 1:
        memory = PrefixMemory()
        for job, tasks in jobs:
            for task in tasks:
                take(job, task, job.run(task, memory))
                progress.count_fit()
        return
    size = max(1, math.ceil(n_fits / (workers * _CALLS)))
    jobs = [(job, tasks) for job, tasks in jobs if tasks]  # all fits of a fold may be known
    chunks = [(job, tasks[rows]) for job, tasks in jobs for rows in gen_batches(len(tasks), size)]
    for chunk_index, results in _run_in_parallel(chunks, n_jobs, pre_dispatch):
        job, tasks = chunks[chunk_index]
        for task, result in zip(tasks, results, strict=True):
            take(job, task, result)
            progress.count_fit()


class _ProgressMessages:
    """Messages on finished fits and the time left, at most one in :data:`_EVERY` seconds."""

    def __init__(self, n_fits):
        self._n_fits = n_fits
        self._n_finished = 0
        self._start = time.monotonic()
        self._last_message = self._start

    def count_fit(self):
        """Count a finished fit, and print a message if it is time for one."""
        self._n_finished += 1
        now = time.monotonic()
        n_left = self._n_fits - self._n_finished
        if n_left > 0 and now - self._last_message >= _EVERY:
            self._last_message = now
            minutes = math.ceil((now - self._start) / self._n_finished * n_left / 60.0)
            counts = f"{self._n_finished:,} of {self._n_fits:,} fits"
            print(f"{counts}, about {minutes:,} min left", file=sys.stderr)


def _run_in_parallel(chunks, n_jobs, pre_dispatch):
    """Return an iterable of the index and the results of each chunk, as they finish."""
    calls = (delayed(_run_chunk)(index, job, tasks) for index, (job, tasks) in enumerate(chunks))
    try:
        parallel = Parallel(
            return_as="generator_unordered", n_jobs=n_jobs, pre_dispatch=pre_dispatch
        )
        return parallel(calls)
    except ValueError:  # ray and multiprocessing return lists only; no call has been dispatched
        return Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)(calls)


def _run_chunk(chunk_index, job, tasks):
    """Run fits that share a part of the data, one after the other, in a worker."""
    memory = PrefixMemory()
    return chunk_index, [job.run(task, memory) for task in tasks]


class ModelStore:
    """Fitted models of a batch: the leader in memory, the rest on disk or to be refitted.

    The best model is known only after all candidates are verified.
    """

    def __init__(self):
        self._leader = (-math.inf, None, True, None)  # score, row, whether repeatable, model
        self._stored = {}  # by row: position in the file, or the model if it cannot be pickled
        self._file = None

    def put(self, row, model, *, guess, repeatable):
        """Keep a model; ``guess`` is its cross-validated score."""
        models = [(guess, row, repeatable, model), self._leader]
        runner_up, self._leader = sorted(models, key=operator.itemgetter(0))
        _, row, repeatable, model = runner_up
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
        """Return the model of a row, or None if it has to be refitted."""
        if row == self._leader[1]:
            return self._leader[3]
        stored = self._stored.get(row)
        if isinstance(stored, int):
            self._file.seek(stored)
            return pickle.load(self._file)
        return stored


@dataclass
class Assessment:
    """Query about a candidate, with its public scores in units of [0, 1]."""

    columns: tuple | None  # the subset of columns; ``None``: all
    cv_score: float
    answer: Any = field(default_factory=NoAnswer)  # of the holdout, with its interval
    variance: float = math.nan  # of a record's score on the training set
    kurtosis: float = math.nan  # of the same scores
    #: Training score in score units that selects confirmed candidates; NaN: ``cv_score`` does.
    selection_score: float = math.nan
    key: str | None = None  # query key
    #: Outcome of the fit. It holds raw scores until the query is answered.
    outcome: object = field(default=None, repr=False)
    about: tuple | None = field(default=None, repr=False)  # metric and model, in words
    #: Assessments by the secondary metrics, by name.
    secondary: dict = field(default_factory=dict)
    #: Reference from out-of-fold predictions, for a metric without a proven bound.
    reference: Any = field(default=None, repr=False)

    @property
    def rank(self):
        """Return the smaller of both scores, by which candidates are ranked.

        Among thousands of candidates some score high on the holdout by chance, and they would win
        if the verified score alone ranked; the smaller one can only lower a score.
        """
        value = self.answer.value
        return min(self.cv_score, value) if math.isfinite(value) else math.nan

    def in_units(self, metric):
        """Return the score that was released and the ends of its interval, in score units."""
        ends = metric.ends_from_unit(self.answer.lower, self.answer.upper)
        return [float(metric.from_unit(self.answer.value)), *map(float, ends)]


def in_units_of(metric, record):
    """Return a recorded answer in [0, 1] by the range of a metric, if its range was another one."""
    if not isinstance(metric, ApproximateMetric) or record.scale is None:
        return record
    in_unit_range = record.in_units()
    names = ("cv_score", "value", "lower", "upper")
    units = {name: metric.to_unit(getattr(in_unit_range, name)) for name in names}
    _, *scale = record.scale
    return replace(
        record, **units, scale=(metric.display_name, metric.lower, metric.upper, *scale[2:])
    )


def _selection_ranks(ranked, values):
    """Return public ranks that select one of the queries; None if their values rank them alike.

    ``ranked``: queries of the metric that ranks. ``values``: cross-validated scores of these, and
    of secondary queries after them.
    """
    selection_scores = np.array([query.selection_score for query in ranked])
    n_ranked = len(ranked)
    if not n_ranked or not np.isfinite(selection_scores).all():
        return None
    by_value = np.argsort(-values[:n_ranked], kind="stable")
    by_selection_score = np.argsort(-selection_scores, kind="stable")
    if np.array_equal(by_value, by_selection_score):
        return None
    return rankdata(np.append(-selection_scores, -values[n_ranked:]), method="ordinal")


def _has_scores(query):
    """Return whether a query has a cross-validated score and scores of holdout records."""
    return query.outcome.evaluation is not None and math.isfinite(query.cv_score)


class Verifier:
    """Verify candidates on the holdout."""

    def __init__(self, setting, holdout, *, n_jobs=None, pre_dispatch="2*n_jobs"):
        self.setting = setting
        self.holdout = holdout
        self.dispatch = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        self._metrics = {None: setting.metric, **setting.secondary}  # None: the metric that ranks
        self._reported = self._metrics  # with their public range, once it is known
        self._own_code = has_user_code(setting.estimator)
        self._data = None  # digest of the training set
        self._recipes = {}
        self._contexts = {}  # digests of metrics by name
        self._recorded = {}
        self.unasked = {}  # outcomes by row, with raw scores
        self._models = ModelStore()
        self.row_wise = BatchDependenceCheck(setting.dates)

    def key(self, candidate, name=None):
        """Return the key of a candidate before it is fitted, or None if fits may differ.

        The key is a digest of everything that a fitted model depends on, and it does not depend
        on the holdout. A secondary metric, by ``name``, has separate keys: its answer is coarse,
        and a search that ranks by that metric needs a finer one.
        """
        recipe_id = None if not candidate.params else id(candidate), name
        if recipe_id not in self._recipes:
            self._recipes[recipe_id] = candidate, self._recipe(candidate.params, name)
        recipe = self._recipes[recipe_id][1]
        if recipe is None:
            return None
        key_type = "candidate" if name is None else "secondary"
        return content_key(key_type, recipe, candidate.columns)

    def _recipe(self, params, name):
        """Return the key of a fit with these parameters on all columns, None if fits may differ."""
        only_numbers = all(isinstance(value, Number) for value in params.values())
        if self._own_code and only_numbers:  # a number cannot replace the user's code
            return None
        setting = self.setting
        if self._data is None:
            self._data = data_digest(setting.X, setting.y)
        if name not in self._contexts:
            self._contexts[name] = recipe_context(self._metrics[name], setting.fit_params)
        return recipe_key(
            clone(setting.estimator).set_params(**clone(params, safe=False)),
            self._contexts[name],
            training=self._data,
            columns=None,
        )

    # -- fits of a search, taken as they finish ------------------------------------------------

    def whole_tasks(self, tasks):
        """Return the tasks with a query that has no recorded answer yet."""
        names = tuple(self._metrics)
        keys = [[self.key(task.candidate, name) for name in names] for task in tasks]
        recorded = self._look_up([key for task_keys in keys for key in task_keys])
        return [
            replace(task, keyed=task_keys[0] is None, context=None)
            for task, task_keys in zip(tasks, keys, strict=True)
            if not all(recorded.get(key) for key in task_keys) and task.row not in self.unasked
        ]

    def take(self, task, outcome, *, guess):
        """Keep a finished fit until its batch is verified; ``guess``: its cross-validated score."""
        if outcome.model is not None:
            self._look_at(outcome.model, task.candidate)
            repeatable = self.key(task.candidate) is not None
            guess = float(np.nan_to_num(guess))
            self._models.put(task.row, outcome.model, guess=guess, repeatable=repeatable)
        self.unasked[task.row] = replace(outcome, model=None)

    def _look_at(self, model, candidate):
        """Check on training rows whether a model predicts each record separately."""
        if candidate.columns != ():
            X = columns_of(self.setting.X, candidate.columns)
            self.row_wise.ask(model, X)
            for metric in self._metrics.values():
                self.row_wise.check_score(metric, model, X, targets(X, self.setting.y))

    @strip_traceback_frames  # the frames hold raw scores
    def fit(self, rows, candidates, cv_scores):
        """Fit the candidates of these rows that are not fitted or recorded yet.

        After an interruption, finished candidates are verified.
        """
        tasks = [Task(row, candidate) for row, candidate in zip(rows, candidates, strict=True)]
        scores_by_row = dict(zip(rows, cv_scores, strict=True))

        def take(job, task, outcome):
            self.take(task, outcome, guess=scores_by_row[task.row])

        jobs = [(WholeJob(self.setting), self.whole_tasks(tasks))]
        try:
            run_jobs(jobs, take, **self.dispatch)
        except INTERRUPTIONS:
            self.ask_finished(tasks, scores_by_row)
            raise

    def _needs_all_folds(self, metric):
        """Return whether the variance, or the largest error that counts, follows from all folds."""
        if isinstance(metric, ApproximateMetric):
            return True
        scheme = self.holdout.dependence.sampling_scheme(self.holdout.n)
        return scheme.calendar is not None and has_undeclared_range(metric)

    def ask_finished(self, tasks, cv_scores):
        """Verify candidates with complete cross-validation and final fit, before an exit."""
        if any(map(self._needs_all_folds, self._metrics.values())):
            return
        rows = {row for row in self.unasked if math.isfinite(cv_scores.get(row, math.nan))}
        finished = [task for task in tasks if task.row in rows]
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            self.assess(
                [task.candidate for task in finished],
                [cv_scores[task.row] for task in finished],
                rows=[task.row for task in finished],
            )

    # -- queries ------------------------------------------------------------------------------

    @strip_traceback_frames  # the frames hold raw scores
    def assess(
        self,
        candidates,
        cv_scores,
        *,
        rows=None,
        secondary=None,
        variances=None,
        kurtosis=None,
        references=None,
        n_train=None,
        selection_scores=None,
    ):
        """Return an :class:`Assessment` of each candidate, from one batch of queries.

        ``rows``: rows of candidates that were fitted before; if None, they are fitted here.
        ``secondary``: cross-validated scores by name of secondary metric. ``variances``,
        ``kurtosis``: of records' scores on the training set. ``references``, for metrics without a
        proven bound: function of the index of a candidate and the name of a secondary metric (None
        for the metric that ranks), which returns the reference from out-of-fold predictions.
        ``n_train``: number of training records behind a cross-validated score, if they have
        different weights. ``selection_scores``: training scores that select confirmed candidates,
        in score units, if they are not the cross-validated ones.
        """
        candidates = [c if isinstance(c, Candidate) else Candidate(columns=c) for c in candidates]
        if rows is None:
            rows = self._fit_with_score(candidates, cv_scores)
        if n_train is None:
            n_train = num_samples(self.setting.X)
        assessments = self._queries(
            candidates, rows, cv_scores, secondary or {}, variances, kurtosis, references
        )
        if selection_scores is not None:
            for assessment, selection_score in zip(assessments, selection_scores, strict=True):
                assessment.selection_score = float(selection_score)
        # A constant prediction never fails, and alone it does not justify a query.
        errors = [query.outcome.error or None for query in assessments if query.columns != ()]
        report_failures([{"fit_error": error} for error in errors], self.setting.error_score)
        self._answer_all(assessments, secondary or (), n_train)
        for assessment in assessments:
            assessment.outcome = replace(assessment.outcome, evaluation=None, secondary={})
            for query in assessment.secondary.values():
                query.outcome = None
        return assessments

    def _answer_all(self, assessments, secondary_names, n_train):
        """Query the holdout about all candidates with scores, in one batch if no budget forbids."""
        ranked = list(filter(_has_scores, assessments))
        with_cv_score = [query for query in assessments if math.isfinite(query.cv_score)]
        secondary_queries = [
            query.secondary[name] for name in secondary_names for query in with_cv_score
        ]
        secondary_queries = list(filter(_has_scores, secondary_queries))
        if self.holdout.remaining_budget is None:
            self._answer(ranked, secondary_queries, n_train)
            return
        # The budget is for the metric that ranks. The secondary metrics are a separate batch, which
        # may exceed the remaining budget.
        self._answer(ranked, [], n_train)
        self._answer([], secondary_queries, n_train)

    def use_metrics(self, metric, secondary):
        """Set metrics with the public range of the candidates' scores; keys do not change."""
        self.setting = replace(self.setting, metric=metric, secondary=secondary)
        self._reported = {None: metric, **secondary}

    def _fit_with_score(self, candidates, cv_scores):
        """Fit candidates with a cross-validated score, which are verified; return rows of all."""
        rows = [candidate.columns for candidate in candidates]
        with_score = np.flatnonzero(np.isfinite(cv_scores))
        self.fit(
            [rows[index] for index in with_score],
            [candidates[index] for index in with_score],
            [cv_scores[index] for index in with_score],
        )
        return rows

    def _answer(self, ranked, secondary_queries, n_train):
        """Query the holdout in one batch; secondary metrics alone may exceed the budget."""
        queries = [*ranked, *secondary_queries]
        if not queries:
            return
        values = np.array([query.cv_score for query in queries])
        is_secondary = np.arange(len(queries)) >= len(ranked)
        leader = values[~is_secondary].max(initial=0.0)
        ranks = _selection_ranks(ranked, values)
        if ranks is not None:
            leader = values[np.argmin(ranks[: len(ranked)])]
        try:
            answers = self.holdout.answer_evaluations(
                values,
                [query.outcome.evaluation for query in queries],
                n_train=n_train,
                keys=[query.key for query in queries],
                relaxed_to=np.where(
                    is_secondary, 0.0, RELAXED_PART * np.maximum(leader - values, 0.0)
                ),
                secondary=is_secondary,
                ranks=ranks,
                training_variance=[query.variance for query in queries],
                training_kurtosis=[query.kurtosis for query in queries],
                about=[query.about for query in queries],
            )
        except BudgetExhaustedError:
            if ranked:
                raise
            return
        for query, answer in zip(queries, answers, strict=True):
            query.answer = answer
            self._recorded.pop(query.key, None)  # it is in the ledger now

    def _query(self, candidate, name, fit_outcome, score, find_reference):
        """Return the query about a fitted candidate and one metric.

        ``name``: of a secondary metric, None for the metric that ranks. ``find_reference``:
        function that returns the reference of a metric without a proven bound.
        """
        outcome = fit_outcome
        if name is not None:
            outcome = fit_outcome.secondary.get(name, Outcome())
        key = self.key(candidate, name)
        if key is None and outcome.key is not None:
            key = outcome.key if name is None else content_key("secondary", outcome.key)
        metric = self._reported[name]
        reference = None
        evaluation = outcome.evaluation
        if isinstance(metric, ApproximateMetric):
            reference = find_reference()
            if evaluation is not None:
                evaluation = metric.finish(evaluation, reference)
        elif metric is not self._metrics[name] and evaluation is not None:
            evaluation = metric.evaluate_errors(evaluation.errors)
        return Assessment(
            candidate.columns,
            math.nan if outcome.error else float(score),
            key=key,
            outcome=replace(outcome, evaluation=evaluation),
            about=(metric, candidate.words),
            reference=reference,
        )

    def _queries(self, candidates, rows, cv_scores, secondary, variances, kurtosis, references):
        """Return the queries about fitted candidates, with their recorded answers."""
        assessments = []
        for index, (row, candidate) in enumerate(zip(rows, candidates, strict=True)):
            fit_outcome = self.unasked.pop(row, Outcome())
            queries = {}
            for name in (None, *secondary):  # None: the metric that ranks
                scores = cv_scores if name is None else secondary[name]
                find_reference = functools.partial(references, index, name) if references else None
                queries[name] = self._query(
                    candidate, name, fit_outcome, scores[index], find_reference
                )
            assessment = queries.pop(None)
            assessment.secondary = queries
            if variances is not None:
                assessment.variance = variances[index]
            if kurtosis is not None:
                assessment.kurtosis = kurtosis[index]
            assessments.append(assessment)
        self._set_recorded_answers(assessments)
        return assessments

    def _set_recorded_answers(self, assessments):
        """Set the answers of queries that the ledger holds."""
        queries = []
        for assessment in assessments:
            queries += [assessment, *assessment.secondary.values()]
        recorded = self._look_up([query.key for query in queries])
        for query in queries:
            record = recorded.get(query.key)
            if record is not None:
                query.answer = in_units_of(query.about[0], record)
                if not math.isfinite(query.cv_score):
                    query.cv_score = query.answer.cv_score

    def _look_up(self, keys):
        """Return the recorded answers by key; each key is looked up once."""
        new_keys = {key for key in keys if key is not None} - self._recorded.keys()
        if new_keys:
            answers = self.holdout.find_answers(sorted(new_keys))
            self._recorded |= dict.fromkeys(new_keys) | answers
        return self._recorded

    def model(self, candidate, row=None):
        """Return the model of a candidate, fitted on the training set and checked row by row."""
        model = self._models.get(candidate.columns if row is None else row)
        if model is None:
            model = fit_candidate(self.setting, candidate)
        self._look_at(model, candidate)
        return model
