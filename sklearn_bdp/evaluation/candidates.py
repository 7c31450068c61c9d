"""Fit candidates on the training set, cross-validate them and query the holdout.

Workers fit models and score them; only the main process queries the holdout. The raw holdout
scores that workers return are passed to the holdout and to nothing else.
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

from sklearn_bdp.accounting.noise_calibration import RELAXED_FRACTION
from sklearn_bdp.diagnostics.scores import BatchDependenceCheck
from sklearn_bdp.evaluation.failed_fits import report_failed_fits
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
    NullCallbackContext,
    check_method_params,
    num_samples,
    safe_indexing,
)
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Errors that interrupt a search: by the user or by a worker that died. Finished fits are kept.
INTERRUPTIONS = (KeyboardInterrupt, BrokenExecutor)
_MESSAGE_INTERVAL = 60.0  # seconds between two messages about remaining fits
#: Intended number of chunks of fits per worker, so that workers finish at about the same time.
_CHUNKS_PER_WORKER = 16


def targets(X, y):
    """Return ``y``, or a zero for each record if there are no targets."""
    return np.zeros(num_samples(X)) if y is None else y


@dataclass(frozen=True)
class SearchSetup:
    """Data and settings that all candidates of a search or selector share."""

    estimator: object  # cloned for each fit
    X: object = field(repr=False)  # training records
    y: object = field(repr=False)  # targets of the training records
    X_holdout: object = field(repr=False)  # holdout records
    y_holdout: object = field(repr=False)  # targets of the holdout records
    metric: object  # metric that ranks the candidates
    #: Arguments of the estimator's ``fit`` on all training records, by name.
    fit_params: dict = field(repr=False)
    error_score: object = math.nan  # "raise", or the training score of a failed fit
    #: Pairs of training and test positions in the training set, for cross-validation.
    folds: Any = field(default=(), repr=False)
    n_effective: float = math.nan  # effective number of training records; NaN in searches
    #: Secondary metrics by name, which do not rank.
    secondary: dict = field(default_factory=dict)
    dates: Any = field(default=None, repr=False)  # date code of each training record, or None
    #: Result of :func:`~sklearn_bdp.evaluation.fits.tested_units` for the folds, in selectors.
    tested_units: tuple[Any, str] = field(default=(None, ""), repr=False)

    @classmethod
    def from_split(cls, meta_estimator, holdout_split, **settings):
        """Return the setup of a search or selector whose data are split.

        ``settings``: fields by name, at least ``metric`` and ``fit_params``.
        """
        return cls(
            clone(meta_estimator.estimator),
            X=holdout_split.X,
            y=holdout_split.y,
            X_holdout=holdout_split.X_holdout,
            y_holdout=holdout_split.y_holdout,
            error_score=meta_estimator.error_score,
            dates=holdout_split.time_ordered_dates(),
            **settings,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """Parameters of the estimator and the columns of ``X`` it is fitted on."""

    params: dict = field(default_factory=dict)  # set on a clone of the estimator
    columns: tuple | None = None  # positions; None: all; an empty tuple: a constant prediction

    @property
    def description(self):
        """Text for the ledger: the number of columns, or the parameters if ``columns`` is None.

        None if ``columns`` is None and there are no parameters.
        """
        if self.columns is not None:
            return f"{len(self.columns)} columns"
        return ", ".join(f"{name}={value!r:.40}" for name, value in self.params.items()) or None


@dataclass(frozen=True)
class FitResult:
    """Result that a worker returns for a candidate: model, raw holdout scores, time and error.

    Results in ``secondary`` have no model, time or error.
    """

    #: Evaluation with raw holdout scores on one metric, which is passed to the holdout only.
    evaluation: object = field(default=None, repr=False)
    key: str | None = None  # query key from the fitted model; None: not requested, or no digest
    model: object = field(default=None, repr=False)  # fitted on the training set
    fit_time: float = math.nan  # seconds
    error: str = ""  # traceback of a failed fit, else empty
    #: FitResults on secondary metrics, by name; some may be missing.
    secondary: dict = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class MissingAnswer:
    """Placeholder for the answer to a query that the holdout did not answer."""

    source: str = "unanswered"  # text in the column ``answered_from``
    interval: str = "none"
    value: float = math.nan
    lower: float = math.nan
    upper: float = math.nan


@dataclass(frozen=True, eq=False)
class FitTask:
    """One fit of a candidate: on the training set, or on the training records of a fold."""

    row: Any  # row of the candidate in ``cv_results_``; in selectors, the candidate's columns
    candidate: Candidate = field(repr=False)
    needs_model_key: bool = False  # whether the query key must come from the fitted model
    fit_key: str | None = None  # identifies a fit on a fold after an interruption
    #: Index of the candidate among those of one round of cross-validation, and their number.
    candidate_progress: tuple = (0, 0)
    context: object = field(default=None, repr=False)  # callback context of scikit-learn, or None


@dataclass(frozen=True, eq=False)
class HoldoutFitJob:
    """Fits of candidates on the whole training set, with raw holdout scores of the models."""

    setup: SearchSetup = field(repr=False)
    caller: object = field(default=None, repr=False)  # the search, for callbacks, or None

    def run(self, task, memory=None):
        """Fit the candidate of a :class:`FitTask`, and return its :class:`FitResult`.

        If the fit fails, the result has only time and traceback, or the error is raised if
        ``error_score`` is "raise". ``memory``: :class:`PrefixMemory` that several candidates share,
        or None.
        """
        setup = self.setup
        start_time = time.perf_counter()
        callback_context = task.context or NullCallbackContext()  # without X and y
        callback_context.call_on_fit_task_begin(estimator=self.caller)
        try:
            model = fit_candidate(setup, task.candidate, memory)
        except Exception as error:
            if setup.error_score == "raise":
                if not hasattr(error, "__notes__"):  # callers remove the frames, but not the notes
                    error.add_note(traceback.format_exc())
                raise
            fit_time = time.perf_counter() - start_time
            return FitResult(fit_time=fit_time, error=traceback.format_exc())
        finally:
            callback_context.call_on_fit_task_end(estimator=self.caller)
        fit_time = time.perf_counter() - start_time
        memory = memory or PrefixMemory()
        # Before the model scores the holdout, so that no key depends on the holdout.
        keys_by_metric = self._query_keys(model, task, memory) if task.needs_model_key else {}
        results_by_metric = self._evaluate(model, task.candidate.columns, keys_by_metric, memory)
        ranking_result = results_by_metric.pop(None)
        return replace(ranking_result, secondary=results_by_metric, model=model, fit_time=fit_time)

    def _metrics(self):
        """Return a dict of the metrics by name; the metric that ranks has the name None."""
        return {None: self.setup.metric, **self.setup.secondary}

    def _query_keys(self, model, task, memory):
        """Return a dict of the query keys of a fitted model by name of the metric.

        A key is None if the model or the metric has no digest. The metric that ranks has the name
        None. ``task``: the FitTask of the model.
        """
        columns = task.candidate.columns
        X = select_columns(self.setup.X, columns)
        digest = ModelDigest(model, predictor=memory.cached_predictor(model, X, "training"))
        return {
            name: digest.key(metric, X, columns=columns) for name, metric in self._metrics().items()
        }

    def _evaluate(self, model, columns, keys_by_metric, memory):
        """Return a dict of FitResults with raw holdout scores and query keys, by metric name.

        The metric that ranks has the name None. A secondary metric that raises an error other than
        ScoreContractError is left out; other errors are raised. ``columns``: positions of the
        candidate's columns, or None for all; ``keys_by_metric``: query key, or None, by metric
        name; may be empty.
        """
        X_holdout = select_columns(self.setup.X_holdout, columns)
        results = {}
        for name, metric in self._metrics().items():
            try:
                predictor = memory.cached_predictor(model, X_holdout, "holdout", metric=metric)
                evaluation = metric.evaluate(predictor, X_holdout, self.setup.y_holdout)
                results[name] = FitResult(evaluation, keys_by_metric.get(name))
            except ScoreContractError:
                raise
            except Exception:
                if name is None:
                    raise
        return results


def fit_candidate(setup, candidate, memory=None):
    """Fit a candidate on the training set, and return the model.

    ``memory``: :class:`PrefixMemory`, or None.
    """
    # Estimators may change their data in place, so each candidate gets a copy.
    X = copy_data(select_columns(setup.X, candidate.columns))
    y = copy_data(setup.y)
    fit_params = check_method_params(X, setup.fit_params)
    return fit_clone(setup, candidate, X, y, fit_params, memory)


def fit_clone(setup, candidate, X, y, fit_params, memory=None):
    """Fit a candidate on some training records, and return the model.

    ``X``, ``y``: the candidate's columns of these records, and their targets or None. If
    ``candidate.columns`` is an empty tuple, the model predicts a constant. ``fit_params``:
    arguments of ``fit`` for these records, by name. ``memory``: :class:`PrefixMemory` for fits on
    the whole training set, or None.
    """
    if candidate.columns == ():
        if is_classifier(setup.estimator):
            return DummyClassifier(strategy="prior").fit(X, y)
        strategy = "median" if "absolute" in setup.metric.name else "mean"
        return DummyRegressor(strategy=strategy).fit(X, y)
    estimator = clone(setup.estimator).set_params(**clone(candidate.params, safe=False))
    cache_context = contextlib.nullcontext()
    if memory is not None:
        # Steps that were fitted on other columns of the training set are no steps of this one.
        cache_context = memory.attach(estimator, ("training set", candidate.columns))
    with cache_context:
        if y is None:
            estimator.fit(X, **fit_params)
        else:
            estimator.fit(X, y, **fit_params)
    return estimator


def fit_fold(setup, candidate, X, fold):
    """Fit a candidate on the training records of a fold; return model, test records and targets.

    ``X``: the candidate's columns of the whole training set. ``fold``: pair of training and test
    positions in it.
    """
    train_positions, test_positions = fold
    fit_params = check_method_params(setup.X, setup.fit_params, indices=train_positions)
    X_train = safe_indexing(X, train_positions)
    y_train = safe_indexing(setup.y, train_positions)
    model = fit_clone(setup, candidate, X_train, y_train, fit_params)
    return model, safe_indexing(X, test_positions), safe_indexing(setup.y, test_positions)


def select_columns(X, columns):
    """Return the columns of ``X`` at the positions ``columns``.

    None selects all columns. For an empty tuple one column of zeros is returned.
    """
    if columns is None:
        return X
    if not columns:
        return np.zeros((num_samples(X), 1))
    return safe_indexing(X, np.asarray(columns), axis=1)


def cross_validate_candidate(setup, candidate):
    """Return out-of-fold scores of a candidate in [0, 1], and a Clipping or None.

    There is one score per training record, or one per fold if the metric is not a mean over
    records. Records in no test fold have NaN. The Clipping, the effect of clipping on the scores,
    is summed over the folds that have one, and None if none has. Errors of fits and scores are
    raised.
    """
    metric = setup.metric
    X = select_columns(setup.X, candidate.columns)
    n_scores = num_samples(X) if metric.is_mean else len(setup.folds)
    scores = np.full(n_scores, np.nan, np.float32)
    clipping = None
    for fold_index, fold in enumerate(setup.folds):
        model, X_test, y_test = fit_fold(setup, candidate, X, fold)
        metric.check_training(model, X_test, y_test)
        evaluation = metric.evaluate(model, X_test, y_test)
        if metric.is_mean:
            _, test_positions = fold
            scores[test_positions] = evaluation.per_record
        else:
            scores[fold_index] = evaluation.value
        fold_clipping = metric.clipping(model, X_test, y_test, evaluation.per_record)
        if fold_clipping is not None:
            clipping = fold_clipping + clipping
        del model  # frees memory before the next fit
    return scores, clipping


#: Largest number of bytes of transformed records in the cache of one worker.
MAX_CACHE_BYTES = 2**28
_PREDICTION_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class PrefixMemory:
    """Cache of the fitted first steps of pipelines, used as the ``memory`` of a pipeline.

    Candidates with the same first steps can share them. A step is identified by its pickle before
    the fit, and by the pickles of all earlier steps. The cache is for one worker and one set of
    training records at a time. It keeps copies of transformed records, so that later steps may
    work in place. Steps with a ``random_state`` that is not an integer, steps that cannot be
    pickled, and all steps after them are refitted for each candidate.
    """

    location = "memory"  # a memory with a location makes pipelines clone their transformers

    def __init__(self, max_bytes=MAX_CACHE_BYTES):
        self.max_bytes = max_bytes
        self._fit_data_name = None  # name of the data that the cached steps were fitted on
        #: Digests of the steps of the current pipeline that were fitted so far. None: they cannot
        #: be shared.
        self._step_digests = None
        #: Transformed records and fitted step, by digests of the steps; least recently used first.
        self._cache = OrderedDict()
        self._n_bytes = 0  # of the transformed records in the cache

    @contextlib.contextmanager
    def attach(self, estimator, fit_data_name):
        """Make this cache the memory of a pipeline within a ``with`` block that fits it.

        Estimators of other classes, and pipelines with a memory of their own, are left unchanged.
        ``fit_data_name``: name of the records and columns that the pipeline is fitted on. Under a
        new name the cache is emptied.
        """
        self._step_digests = None
        if type(estimator) is not Pipeline or estimator.memory is not None:
            yield
            return
        if fit_data_name != self._fit_data_name:
            self._fit_data_name = fit_data_name
            self._n_bytes = 0
            self._cache.clear()
        self._step_digests = ()
        estimator.memory = self
        try:
            yield
        finally:
            estimator.memory = None

    def cache(self, function, ignore=None):
        """Return a version of ``function`` that takes its results from this cache if possible.

        ``function``: fits a transformer of a pipeline, and returns the transformed records and the
        fitted transformer. ``ignore``: not used; ``joblib.Memory.cache`` has this argument.
        """

        def cached_function(transformer, X, y, *args, **params):
            """Return the result of ``function``, which may come from the cache."""
            step_digest = _step_digest(transformer)
            if step_digest is None or self._step_digests is None:
                self._step_digests = None
                return function(transformer, X, y, *args, **params)
            self._step_digests = (*self._step_digests, step_digest)
            return self.get_or_compute(
                self._step_digests, lambda: function(transformer, X, y, *args, **params)
            )

        return cached_function

    def cached_predictor(self, model, X, X_name, *, metric=None):
        """Return ``model``, or a pipeline that takes transformed records of ``X`` from this cache.

        ``model``, the most recently fitted one, is returned itself if ``metric`` (may be None) uses
        more than predictions, or if it is not a pipeline whose transformers all have digests in
        this cache. ``X_name``: name that identifies the records ``X`` in this cache.
        """
        uses_more_than_predictions = metric is not None and not metric.uses_predictions_only
        if uses_more_than_predictions or not self._step_digests or type(model) is not Pipeline:
            return model
        cache_key = (*self._step_digests, ("records", X_name))
        return SharedPipeline(model, self, cache_key, num_samples(X))

    def get_or_compute(self, cache_key, compute):
        """Return transformed records and fitted step from the cache, or compute and cache them.

        ``cache_key``: tuple of the digests of the steps, perhaps with a name of the records.
        ``compute``: function without arguments that returns records and step; the step is None for
        records that a fitted pipeline transformed. Transformed records with more than ``max_bytes``
        bytes, or of unknown size, are not cached.
        """
        if cache_key in self._cache:
            self._cache.move_to_end(cache_key)
            transformed, fitted_step = self._cache[cache_key]
            return copy_data(transformed), fitted_step
        transformed, fitted_step = compute()
        n_bytes = _n_bytes(transformed)
        if n_bytes is not None and n_bytes <= self.max_bytes:
            self._cache[cache_key] = copy_data(transformed), fitted_step
            self._n_bytes += n_bytes
        while self._n_bytes > self.max_bytes:
            _, (removed_records, _) = self._cache.popitem(last=False)
            self._n_bytes -= _n_bytes(removed_records)
        return transformed, fitted_step


class SharedPipeline:
    """Fitted pipeline whose predictions for one data set use cached transformed records.

    Any ``X`` with as many records as this data set is taken to be this data set. Predictions for
    other numbers of records, and other attributes, come from the pipeline.
    """

    def __init__(self, pipeline, memory, cache_key, n):
        self._pipeline = pipeline
        self._memory = memory
        self._cache_key = cache_key
        self._n = n  # number of records of the data set

    def __getattr__(self, name):
        attribute = getattr(self._pipeline, name)
        if name not in _PREDICTION_METHODS:
            return attribute
        # Scorers of scikit-learn read the name of the method.
        return functools.update_wrapper(
            functools.partial(self._predict, name, attribute), attribute
        )

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._pipeline, memo)

    def _predict(self, method_name, pipeline_method, X):
        """Return the response of a prediction method for ``X``.

        If ``X`` has as many records as the data set of this object, it is taken to be that data
        set, and cached transformed records are used.
        """
        if num_samples(X) != self._n:
            return pipeline_method(X)
        transformed, _ = self._memory.get_or_compute(
            self._cache_key, lambda: (self._transform(X), None)
        )
        return getattr(self._pipeline[-1], method_name)(transformed)

    def _transform(self, X):
        """Return ``X`` transformed by all steps but the last."""
        # ``self._pipeline[:-1].transform`` would check that the last of these steps is fitted,
        # which a step that learns nothing may not show.
        for _, step in self._pipeline.steps[:-1]:
            X = X if step in (None, "passthrough") else step.transform(X)
        return X


def _step_digest(transformer):
    """Return the digest of an unfitted transformer, or None.

    None if it cannot be pickled, or if a ``random_state`` in it is not an integer: two fits may
    then differ.
    """
    try:
        params = transformer.get_params(deep=True)
        seeds = [value for key, value in params.items() if key.split("__")[-1] == "random_state"]
        if not all(isinstance(seed, int | np.integer) for seed in seeds):
            return None
        return pickle_digest(transformer)
    except Exception:  # a third-party object may raise any error when it is pickled
        return None


def _n_bytes(X):
    """Return the size of ``X`` in bytes.

    None unless it is an array, a CSR or CSC matrix, or a pandas frame.
    """
    if isinstance(X, np.ndarray):
        return X.nbytes
    if scipy.sparse.issparse(X) and X.format in ("csr", "csc"):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if hasattr(X, "memory_usage") and hasattr(X, "iloc"):
        return int(X.memory_usage(deep=False).sum())
    return None


def run_jobs(jobs, on_result, *, n_jobs, pre_dispatch):
    """Run fits, and call ``on_result(job, task, result)`` for each fit that was run.

    Parameters
    ----------
    jobs : list of (HoldoutFitJob or CVFitJob, list of FitTask)
        Each job with the fits that it runs.
    on_result : callable
        Called in this process with a job, a task, and the FitResult or FoldScores of the task.
    n_jobs, pre_dispatch : object
        As for a search of scikit-learn.
    """
    n_fits = sum(len(tasks) for _, tasks in jobs)
    messages = _ProgressMessages(n_fits)
    n_workers = joblib.effective_n_jobs(n_jobs)
    if n_workers == 1:
        memory = PrefixMemory()
        for job, tasks in jobs:
            for task in tasks:
                on_result(job, task, job.run(task, memory))
                messages.count_fit()
        return
    chunk_size = max(1, math.ceil(n_fits / (n_workers * _CHUNKS_PER_WORKER)))
    chunks = []  # pairs of a job and some of its tasks
    for job, tasks in jobs:
        if tasks:  # a job may have none
            slices = gen_batches(len(tasks), chunk_size)
            chunks += [(job, tasks[task_slice]) for task_slice in slices]
    for chunk_index, results in _run_in_parallel(chunks, n_jobs, pre_dispatch):
        job, tasks = chunks[chunk_index]
        for task, result in zip(tasks, results, strict=True):
            on_result(job, task, result)
            messages.count_fit()


class _ProgressMessages:
    """Messages on finished fits and remaining minutes, at most one per minute."""

    def __init__(self, n_fits):
        self._n_fits = n_fits
        self._n_finished = 0
        self._start_time = time.monotonic()
        self._message_time = self._start_time  # of the last message

    def count_fit(self):
        """Count a finished fit; print a message if fits remain and a minute has passed.

        The minute counts from the previous message, or from the start.
        """
        self._n_finished += 1
        now = time.monotonic()
        n_remaining = self._n_fits - self._n_finished
        if n_remaining > 0 and now - self._message_time >= _MESSAGE_INTERVAL:
            self._message_time = now
            seconds_per_fit = (now - self._start_time) / self._n_finished
            minutes = math.ceil(seconds_per_fit * n_remaining / 60.0)
            counts = f"{self._n_finished:,} of {self._n_fits:,} fits"
            print(f"{counts}, about {minutes:,} min left", file=sys.stderr)


def _run_in_parallel(chunks, n_jobs, pre_dispatch):
    """Return an iterable of pairs: the index of a finished chunk, and its list of results.

    ``chunks``: pairs of a job and a list of its tasks.
    """
    calls = (delayed(_run_chunk)(index, job, tasks) for index, (job, tasks) in enumerate(chunks))
    try:
        parallel = Parallel(
            return_as="generator_unordered", n_jobs=n_jobs, pre_dispatch=pre_dispatch
        )
        return parallel(calls)
    except ValueError:  # some backends can return a list only; nothing was run so far
        return Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)(calls)


def _run_chunk(chunk_index, job, tasks):
    """Run the fits of a chunk; return the index of the chunk and the list of their results."""
    memory = PrefixMemory()
    return chunk_index, [job.run(task, memory) for task in tasks]


class ModelStore:
    """Fitted models of candidates: the best one in memory, the others on disk or to be refitted.

    "Best" refers to the cross-validated score. Models that can be neither pickled nor refitted stay
    in memory. A *row* is the candidate's row in ``cv_results_``, or the tuple of its columns in
    selectors.
    """

    def __init__(self):
        #: Best model so far: cross-validated score, row, whether it can be refitted, and model.
        self._leader = (-math.inf, None, True, None)
        #: By row: position of a pickled model in the file, or the model if it cannot be pickled.
        self._positions_or_models = {}
        self._file = None

    def put(self, row, model, *, cv_score, repeatable):
        """Add the model of a row.

        The better one of this model and the best one so far stays in memory. The other one is
        dropped if it is repeatable, else stored on disk, or in memory if it cannot be pickled.
        ``cv_score``: the model's cross-validated score, in the same units for all models;
        ``repeatable``: whether a new fit would be identical.
        """
        new_and_leader = [(cv_score, row, repeatable, model), self._leader]
        worse_entry, self._leader = sorted(new_and_leader, key=operator.itemgetter(0))
        _, worse_row, is_worse_repeatable, worse_model = worse_entry
        if is_worse_repeatable:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the store)
            weakref.finalize(self, self._file.close)
        self._positions_or_models[worse_row] = self._file.seek(0, 2)
        try:
            pickle.dump(worse_model, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # a third-party object may raise any error when it is pickled
            self._positions_or_models[worse_row] = worse_model

    def get(self, row):
        """Return the model of a row, or None if it is not in the store."""
        _, leader_row, _, leader_model = self._leader
        if row == leader_row:
            return leader_model
        position_or_model = self._positions_or_models.get(row)
        if isinstance(position_or_model, int):
            self._file.seek(position_or_model)
            return pickle.load(self._file)
        return position_or_model


@dataclass
class CandidateQuery:
    """Query about a candidate on one metric, and its answer, with scores in [0, 1].

    The query on the metric that ranks contains those on secondary metrics.
    """

    columns: tuple | None  # positions of the candidate's columns; None: all
    cv_score: float  # cross-validated score; NaN: the holdout is not queried
    answer: Any = field(default_factory=MissingAnswer)  # AnswerRecord or MissingAnswer
    variance: float = math.nan  # of the scores of training records, or of dates; NaN: unknown
    kurtosis: float = math.nan  # of the same scores; NaN: unknown
    #: Training score in score units by which confirmed candidates are selected; NaN: by
    #: ``cv_score``.
    selection_score: float = math.nan
    key: str | None = None  # query key
    #: FitResult of the candidate on this metric, or None. :meth:`Verifier.verify` removes its raw
    #: holdout scores.
    fit_result: object = field(default=None, repr=False)
    #: The metric, and a description of the candidate or None.
    about: tuple | None = field(default=None, repr=False)
    #: Queries about the same candidate on secondary metrics, by name.
    secondary: dict = field(default_factory=dict)
    #: TrainingReference for a metric without a proven bound, else None.
    reference: Any = field(default=None, repr=False)

    @property
    def smaller_score(self):
        """Minimum of the cross-validated score and the answer's value; NaN without a value."""
        value = self.answer.value
        if not math.isfinite(value):
            return math.nan
        return min(self.cv_score, value)

    def in_units(self, metric):
        """Return a list: the answer's value and both ends of its interval, in score units.

        If the holdout did not answer, they are NaN, or with ``on_exhausted="cv"`` the
        cross-validated score and the ends of the range. ``metric``: the metric of the query.
        """
        ends = metric.ends_from_unit(self.answer.lower, self.answer.upper)
        return [float(metric.from_unit(self.answer.value)), *map(float, ends)]


def rescale_to_metric(metric, record):
    """Return a recorded answer with scores in [0, 1] relative to the range of a metric.

    The range of a metric without a proven bound may have changed since the answer was recorded.
    ``record``, an AnswerRecord, is returned unchanged for other metrics, or without a ``scale``.
    """
    if not isinstance(metric, ApproximateMetric) or record.scale is None:
        return record
    record_in_score_units = record.in_units()
    names = ("cv_score", "value", "lower", "upper")
    unit_values = {name: metric.to_unit(getattr(record_in_score_units, name)) for name in names}
    _, _, _, *open_ends = record.scale
    scale = (metric.display_name, metric.lower, metric.upper, *open_ends)
    return replace(record, **unit_values, scale=scale)


def _selection_ranks(ranking_queries, cv_scores):
    """Return the rank of each query by selection score in an array, 1 for the highest, or None.

    ``ranking_queries``: queries on the metric that ranks. ``cv_scores``: cross-validated scores in
    [0, 1] of these, followed by those of secondary queries, for which they replace selection
    scores. None without ranking queries, if cross-validated scores order these in the same way, or
    if a ranking query has no selection score.
    """
    n_ranking = len(ranking_queries)
    selection_scores = np.array([query.selection_score for query in ranking_queries])
    if not n_ranking or not np.isfinite(selection_scores).all():
        return None
    order_of_cv_scores = np.argsort(-cv_scores[:n_ranking], kind="stable")
    order_of_selection_scores = np.argsort(-selection_scores, kind="stable")
    if np.array_equal(order_of_cv_scores, order_of_selection_scores):
        return None
    negative_scores = np.append(-selection_scores, -cv_scores[n_ranking:])
    return rankdata(negative_scores, method="ordinal")


def _has_scores(query):
    """Return whether a query has a cross-validated score and an evaluation on the holdout."""
    return query.fit_result.evaluation is not None and math.isfinite(query.cv_score)


class Verifier:
    """Fits of candidates on the training set, and their queries to the holdout.

    Parameters
    ----------
    setup : SearchSetup
        Data and settings of all candidates.
    holdout : ReusableHoldout
        The holdout.
    n_jobs, pre_dispatch : object
        As for a search of scikit-learn.
    """

    def __init__(self, setup, holdout, *, n_jobs=None, pre_dispatch="2*n_jobs"):
        self.setup = setup
        self.holdout = holdout
        self.dispatch = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        #: Metrics by name, as keys identify them. The metric that ranks has the name None.
        self._metrics = {None: setup.metric, **setup.secondary}
        self._ranged_metrics = self._metrics  # with their public ranges, see use_metrics
        self._has_user_code = has_user_code(setup.estimator)
        self._training_digest = None  # of the training set, computed when it is needed
        #: Pairs of a candidate and its recipe key, by id of the candidate (None without parameters)
        #: and name of the metric.
        self._candidates_and_recipe_keys = {}
        self._recipe_contexts = {}  # digest of metric and parameters of fit, by name of the metric
        self._recorded_answers = {}  # AnswerRecord or None, by query keys that were looked up
        #: FitResult of each fit that was not verified yet, by row, with raw holdout scores.
        self.pending_results = {}
        self._models = ModelStore()
        self.row_wise_check = BatchDependenceCheck(setup.dates)

    def key(self, candidate, name=None):
        """Return the query key of a candidate before it is fitted.

        None if it cannot be computed, as for an estimator whose fits may differ. It is a digest of
        the metric, the training set, the estimator with its parameters, the arguments of ``fit``
        and the columns. ``name``: of a secondary metric, None for the metric that ranks. The key
        for a secondary metric differs from the key for the same metric if it ranks.
        """
        # Candidates without parameters share a recipe key: the query key covers their columns.
        candidate_id = id(candidate) if candidate.params else None
        cache_key = (candidate_id, name)
        if cache_key not in self._candidates_and_recipe_keys:
            # The candidate stays in memory, so that no other one gets its id.
            recipe_key_of_params = self._recipe_key(candidate.params, name)
            self._candidates_and_recipe_keys[cache_key] = candidate, recipe_key_of_params
        _, all_columns_key = self._candidates_and_recipe_keys[cache_key]
        if all_columns_key is None:
            return None
        key_type = "candidate" if name is None else "secondary"
        return content_key(key_type, all_columns_key, candidate.columns)

    def _recipe_key(self, params, name):
        """Return the key of a fit with the parameters ``params`` on all columns, for one metric.

        None without a digest, or if the estimator contains code of the user and ``params`` has no
        values but numbers. ``name``: of a secondary metric, None for the metric that ranks.
        """
        has_only_numbers = all(isinstance(value, Number) for value in params.values())
        if self._has_user_code and has_only_numbers:  # numbers cannot replace the user's code
            return None
        setup = self.setup
        if self._training_digest is None:
            self._training_digest = data_digest(setup.X, setup.y)
        if name not in self._recipe_contexts:
            metric = self._metrics[name]
            self._recipe_contexts[name] = recipe_context(metric, setup.fit_params)
        return recipe_key(
            clone(setup.estimator).set_params(**clone(params, safe=False)),
            self._recipe_contexts[name],
            training=self._training_digest,
            columns=None,
        )

    # -- fits of a search, taken as they finish ------------------------------------------------

    def final_fit_tasks(self, tasks):
        """Return the tasks whose candidate still has to be fitted on the whole training set.

        Tasks are left out if their queries on all metrics have recorded answers, or if
        ``pending_results`` has the result of the fit. ``needs_model_key`` of the returned tasks
        states whether :meth:`key` of the metric that ranks is None, and their ``context`` is None.
        """
        metric_names = tuple(self._metrics)  # the first one is None: the metric that ranks
        keys_of_tasks = [
            [self.key(task.candidate, name) for name in metric_names] for task in tasks
        ]
        recorded_answers = self._look_up([key for task_keys in keys_of_tasks for key in task_keys])
        return [
            replace(task, needs_model_key=task_keys[0] is None, context=None)
            for task, task_keys in zip(tasks, keys_of_tasks, strict=True)
            if not all(recorded_answers.get(key) for key in task_keys)
            and task.row not in self.pending_results
        ]

    def add_result(self, task, fit_result, *, cv_score):
        """Add the result of a fit to ``pending_results``, and store its model, if any.

        The model is checked by :meth:`_check_row_wise`. ``cv_score``: cross-validated score, in the
        same units for all candidates; the model with the highest one stays in memory. NaN counts as
        0.
        """
        if fit_result.model is not None:
            self._check_row_wise(fit_result.model, task.candidate)
            repeatable = self.key(task.candidate) is not None
            cv_score = float(np.nan_to_num(cv_score))
            self._models.put(task.row, fit_result.model, cv_score=cv_score, repeatable=repeatable)
        self.pending_results[task.row] = replace(fit_result, model=None)

    def _check_row_wise(self, model, candidate):
        """Check whether training records change predictions or scores of each other.

        :class:`~sklearn_bdp.diagnostics.scores.BatchDependenceCheck` may warn or raise. A candidate
        with an empty tuple of columns is not checked.
        """
        if candidate.columns != ():
            X = select_columns(self.setup.X, candidate.columns)
            self.row_wise_check.check_model(model, X)
            for metric in self._metrics.values():
                self.row_wise_check.check_score(metric, model, X, targets(X, self.setup.y))

    @strip_traceback_frames  # the frames hold raw scores
    def fit(self, rows, candidates, cv_scores):
        """Fit the candidates that :meth:`final_fit_tasks` selects, on the whole training set.

        ``rows``: rows of the candidates in ``cv_results_``, in selectors their columns;
        ``cv_scores``: cross-validated scores in [0, 1]. If the fits are interrupted,
        :meth:`verify_finished` is called before the error is raised again.
        """
        tasks = [FitTask(row, candidate) for row, candidate in zip(rows, candidates, strict=True)]
        cv_scores_by_row = dict(zip(rows, cv_scores, strict=True))

        def on_result(job, task, fit_result):
            self.add_result(task, fit_result, cv_score=cv_scores_by_row[task.row])

        jobs = [(HoldoutFitJob(self.setup), self.final_fit_tasks(tasks))]
        try:
            run_jobs(jobs, on_result, **self.dispatch)
        except INTERRUPTIONS:
            self.verify_finished(tasks, cv_scores_by_row)
            raise

    def _needs_all_candidates(self, metric):
        """Return whether the public range of a metric may depend on scores of all candidates."""
        if isinstance(metric, ApproximateMetric):
            return True
        scheme = self.holdout.dependence.sampling_scheme(self.holdout.n)
        return scheme.calendar is not None and has_undeclared_range(metric)

    def verify_finished(self, tasks, cv_scores_by_row):
        """Verify the candidates that were fitted and cross-validated before an interruption.

        Nothing is verified if the public range of a metric may depend on all candidates. Warnings
        and errors of the queries are suppressed. ``cv_scores_by_row``: cross-validated scores in
        [0, 1] by row, NaN for candidates to leave out.
        """
        if any(map(self._needs_all_candidates, self._metrics.values())):
            return
        finished_rows = {
            row
            for row in self.pending_results
            if math.isfinite(cv_scores_by_row.get(row, math.nan))
        }
        finished_tasks = [task for task in tasks if task.row in finished_rows]
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            self.verify(
                [task.candidate for task in finished_tasks],
                [cv_scores_by_row[task.row] for task in finished_tasks],
                rows=[task.row for task in finished_tasks],
            )

    # -- queries ------------------------------------------------------------------------------

    @strip_traceback_frames  # the frames hold raw scores
    def verify(
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
        """Query the holdout; return a :class:`CandidateQuery` with its answer for each candidate.

        Parameters
        ----------
        candidates : list of Candidate or tuple
            A tuple is the columns of a candidate.
        cv_scores : sequence of float
            Cross-validated scores in [0, 1]. Candidates with NaN can have recorded answers only.
        rows : list or None
            Row of each candidate, under which ``pending_results`` may have the result of its fit.
            None: the candidates with a cross-validated score are fitted here.
        secondary : dict or None
            Sequence of the cross-validated scores of all candidates in [0, 1], by name of a
            secondary metric.
        variances, kurtosis : sequence of float or None
            For each candidate: variance and kurtosis of its scores in [0, 1] on training records,
            or on dates; NaN: unknown.
        references : callable or None
            Needed for metrics without a proven bound: takes the index of a candidate in
            ``candidates`` and the name of a secondary metric (None for the metric that ranks), and
            returns the TrainingReference from out-of-fold predictions.
        n_train : float or None
            Number of training records that a cross-validated score averages, an effective number
            for weighted scores. None: all of them.
        selection_scores : sequence of float or None
            Training scores in score units by which a confirmed candidate is selected. None: it is
            selected by the cross-validated scores.

        Raises
        ------
        ValueError
            If all candidates were fitted and failed, apart from constant predictions.
        BudgetExhaustedError
            If the budget is too small for the queries on the metric that ranks and
            ``on_exhausted="raise"``.
        """
        candidates = [
            candidate if isinstance(candidate, Candidate) else Candidate(columns=candidate)
            for candidate in candidates
        ]
        if rows is None:
            rows = self._fit_with_score(candidates, cv_scores)
        if n_train is None:
            n_train = num_samples(self.setup.X)
        queries = self._make_queries(
            candidates, rows, cv_scores, secondary or {}, variances, kurtosis, references
        )
        if selection_scores is not None:
            for query, selection_score in zip(queries, selection_scores, strict=True):
                query.selection_score = float(selection_score)
        self._report_failed_fits(queries)
        self._answer_all(queries, secondary or (), n_train)
        for query in queries:  # removes raw holdout scores
            query.fit_result = replace(query.fit_result, evaluation=None, secondary={})
            for secondary_query in query.secondary.values():
                secondary_query.fit_result = None
        return queries

    def _report_failed_fits(self, queries):
        """Warn if fits of candidates failed; raise ValueError if all did.

        Constant predictions do not count. A candidate that was not fitted did not fail.
        ``queries``: CandidateQuery about each candidate on the metric that ranks.
        """
        tracebacks = [query.fit_result.error or None for query in queries if query.columns != ()]
        report_failed_fits(
            tracebacks,
            self.setup.error_score,
            estimator=self.setup.estimator,
            X=self.setup.X,
            y=self.setup.y,
            fits_text="the whole training set",
        )

    def _answer_all(self, queries, secondary_names, n_train):
        """Query the holdout about all candidates with scores, and set the answers of the queries.

        ``queries``: query about each candidate on the metric that ranks, which contains those on
        secondary metrics; ``n_train``: number of training records that a cross-validated score
        averages. If the holdout has a budget, queries on secondary metrics are a second batch.
        """
        ranking_queries = list(filter(_has_scores, queries))
        queries_with_cv_score = [query for query in queries if math.isfinite(query.cv_score)]
        secondary_queries = [
            query.secondary[name] for name in secondary_names for query in queries_with_cv_score
        ]
        secondary_queries = list(filter(_has_scores, secondary_queries))
        if self.holdout.remaining_budget is None:
            self._answer(ranking_queries, secondary_queries, n_train)
            return
        # The budget is for the metric that ranks. The secondary metrics are a separate batch, which
        # may exceed the remaining budget.
        self._answer(ranking_queries, [], n_train)
        self._answer([], secondary_queries, n_train)

    def use_metrics(self, metric, secondary):
        """Replace the metrics of queries by those with public ranges; query keys stay the same.

        ``metric``: the metric that ranks; ``secondary``: dict of secondary metrics by name.
        """
        self.setup = replace(self.setup, metric=metric, secondary=secondary)
        self._ranged_metrics = {None: metric, **secondary}

    def _fit_with_score(self, candidates, cv_scores):
        """Fit the candidates with a cross-validated score; return the list of all rows.

        A row is the ``columns`` of a candidate. ``cv_scores``: in [0, 1]; NaN: the candidate is not
        fitted.
        """
        rows = [candidate.columns for candidate in candidates]
        indices_with_score = np.flatnonzero(np.isfinite(cv_scores))
        self.fit(
            [rows[index] for index in indices_with_score],
            [candidates[index] for index in indices_with_score],
            [cv_scores[index] for index in indices_with_score],
        )
        return rows

    def _answer(self, ranking_queries, secondary_queries, n_train):
        """Query the holdout in one batch, and set the answers of the queries.

        If the holdout raises BudgetExhaustedError and there are no ranking queries, the secondary
        queries stay unanswered. ``n_train``: number of training records that a cross-validated
        score averages.
        """
        queries = [*ranking_queries, *secondary_queries]
        if not queries:
            return
        cv_scores = np.array([query.cv_score for query in queries])
        is_secondary = np.arange(len(queries)) >= len(ranking_queries)
        ranks = _selection_ranks(ranking_queries, cv_scores)
        # Cross-validated score in [0, 1] of the candidate that training scores select.
        if ranks is None:
            leader_cv_score = cv_scores[~is_secondary].max(initial=0.0)
        else:
            leader_cv_score = cv_scores[np.argmin(ranks[: len(ranking_queries)])]
        # Intervals of candidates far behind the leader may be wide.
        distances = np.maximum(leader_cv_score - cv_scores, 0.0)
        # Smallest threshold of each query, in [0, 1]; 0 for secondary metrics.
        thresholds = np.where(is_secondary, 0.0, RELAXED_FRACTION * distances)
        try:
            answers = self.holdout.answer_evaluations(
                cv_scores,
                [query.fit_result.evaluation for query in queries],
                n_train=n_train,
                keys=[query.key for query in queries],
                relaxed_to=thresholds,
                secondary=is_secondary,
                ranks=ranks,
                training_variance=[query.variance for query in queries],
                training_kurtosis=[query.kurtosis for query in queries],
                about=[query.about for query in queries],
            )
        except BudgetExhaustedError:
            if ranking_queries:
                raise
            return
        for query, answer in zip(queries, answers, strict=True):
            query.answer = answer
            self._recorded_answers.pop(query.key, None)  # the next look-up reads the ledger

    def _make_query(self, candidate, name, fit_result, cv_score, find_reference):
        """Return the CandidateQuery about a candidate on one metric.

        ``name``: of a secondary metric, None for the metric that ranks. ``fit_result``: FitResult
        of the candidate, with all metrics; ``FitResult()`` without a fit. ``cv_score``:
        cross-validated score on this metric, in [0, 1], or NaN. After a failed fit the query on the
        metric that ranks has NaN instead. ``find_reference``: function without arguments that
        returns the TrainingReference; may be None for metrics with a proven bound.
        """
        metric_result = fit_result
        if name is not None:
            metric_result = fit_result.secondary.get(name, FitResult())
        key = self.key(candidate, name)
        if key is None and metric_result.key is not None:
            key = metric_result.key
            if name is not None:
                key = content_key("secondary", metric_result.key)
        metric = self._ranged_metrics[name]
        reference = None
        evaluation = metric_result.evaluation
        if isinstance(metric, ApproximateMetric):
            reference = find_reference()
            if evaluation is not None:
                evaluation = metric.finish(evaluation, reference)
        elif metric is not self._metrics[name] and evaluation is not None:
            evaluation = metric.evaluate_errors(evaluation.errors)
        return CandidateQuery(
            candidate.columns,
            math.nan if metric_result.error else float(cv_score),
            key=key,
            fit_result=replace(metric_result, evaluation=evaluation),
            about=(metric, candidate.description),
            reference=reference,
        )

    def _make_queries(
        self, candidates, rows, cv_scores, secondary, variances, kurtosis, references
    ):
        """Return a list of a CandidateQuery for each candidate, with recorded answers, if any.

        The queries are on the metric that ranks, and contain those on secondary metrics. Arguments
        are those of :meth:`verify`, but ``rows`` and ``secondary`` are not None.
        """
        queries = []
        for index, (row, candidate) in enumerate(zip(rows, candidates, strict=True)):
            fit_result = self.pending_results.pop(row, FitResult())
            queries_by_name = {}
            for name in (None, *secondary):  # None: the metric that ranks
                metric_cv_scores = cv_scores if name is None else secondary[name]
                find_reference = None
                if references is not None:
                    find_reference = functools.partial(references, index, name)
                queries_by_name[name] = self._make_query(
                    candidate, name, fit_result, metric_cv_scores[index], find_reference
                )
            query = queries_by_name.pop(None)
            query.secondary = queries_by_name
            if variances is not None:
                query.variance = variances[index]
            if kurtosis is not None:
                query.kurtosis = kurtosis[index]
            queries.append(query)
        self._set_recorded_answers(queries)
        return queries

    def _set_recorded_answers(self, ranking_queries):
        """Set the answers of queries and of their secondary queries from the ledger, if recorded.

        A query with a recorded answer, but without a cross-validated score, gets the recorded one.
        ``ranking_queries``: queries on the metric that ranks.
        """
        queries = []
        for query in ranking_queries:
            queries += [query, *query.secondary.values()]
        recorded_answers = self._look_up([query.key for query in queries])
        for query in queries:
            record = recorded_answers.get(query.key)
            if record is not None:
                metric, _ = query.about
                query.answer = rescale_to_metric(metric, record)
                if not math.isfinite(query.cv_score):
                    query.cv_score = query.answer.cv_score

    def _look_up(self, keys):
        """Return a dict of AnswerRecords by query key, with None for keys without an answer.

        ``keys``: query keys; None is skipped. The dict also contains keys of earlier calls.
        """
        new_keys = {key for key in keys if key is not None} - self._recorded_answers.keys()
        if new_keys:
            answers = self.holdout.find_answers(sorted(new_keys))
            self._recorded_answers |= dict.fromkeys(new_keys) | answers
        return self._recorded_answers

    def model(self, candidate, row=None):
        """Return the model of a candidate, fitted on the training set.

        ``row``: row of the candidate in ``cv_results_``, None in a selector. The model is fitted
        again if it was not kept, and checked by :meth:`_check_row_wise`.
        """
        model = self._models.get(candidate.columns if row is None else row)
        if model is None:
            model = fit_candidate(self.setup, candidate)
        self._check_row_wise(model, candidate)
        return model
