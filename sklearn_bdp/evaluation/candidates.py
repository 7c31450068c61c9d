"""Fit candidates on the training set, cross-validate them and query the holdout.

Workers fit models and score them; only the main process queries the holdout. The raw holdout
scores that workers return are passed to the holdout and to nothing else. Recorded answers are
free. New queries about several candidates are one batch, or two if the holdout has a budget.
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
        """Return the setup of a search or selector; ``settings``: fields not set here, by name."""
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
        """Return the :class:`FitResult` of the candidate of a :class:`FitTask`.

        If the fit fails, the result has a traceback and no scores, or the error is raised if
        ``error_score`` is "raise". ``memory``: :class:`PrefixMemory` that several candidates share,
        or None.
        """
        setup = self.setup
        start_time = time.perf_counter()
        context = task.context or NullCallbackContext()  # callbacks get no data
        context.call_on_fit_task_begin(estimator=self.caller)
        try:
            model = fit_candidate(setup, task.candidate, memory)
        except Exception as error:
            if setup.error_score == "raise":
                if not hasattr(error, "__notes__"):  # its frames are stripped, this text is not
                    error.add_note(traceback.format_exc())
                raise
            fit_time = time.perf_counter() - start_time
            return FitResult(fit_time=fit_time, error=traceback.format_exc())
        finally:
            context.call_on_fit_task_end(estimator=self.caller)
        fit_time = time.perf_counter() - start_time
        memory = memory or PrefixMemory()
        # Before the model scores the holdout, so that no key depends on the holdout.
        keys = self._query_keys(model, task, memory) if task.needs_model_key else {}
        results = self._evaluate(model, task.candidate.columns, keys, memory)
        ranking_result = results.pop(None)
        return replace(ranking_result, secondary=results, model=model, fit_time=fit_time)

    def _metrics(self):
        """Return the metrics by name; the metric that ranks has the name None."""
        return {None: self.setup.metric, **self.setup.secondary}

    def _query_keys(self, model, task, memory):
        """Return the query keys of a fitted model by name of the metric; None without a digest."""
        columns = task.candidate.columns
        X = select_columns(self.setup.X, columns)
        digest = ModelDigest(model, predictor=memory.cached_predictor(model, X, "training"))
        return {
            name: digest.key(metric, X, columns=columns) for name, metric in self._metrics().items()
        }

    def _evaluate(self, model, columns, keys, memory):
        """Return by metric name a :class:`FitResult` with raw holdout scores and query key.

        ``columns``: of the candidate; ``keys``: query keys by metric name, may be empty. Errors of
        ``evaluate`` are raised, but a secondary metric with another error than ScoreContractError
        is left out.
        """
        X_holdout = select_columns(self.setup.X_holdout, columns)
        results = {}
        for name, metric in self._metrics().items():
            try:
                predictor = memory.cached_predictor(model, X_holdout, "holdout", metric=metric)
                evaluation = metric.evaluate(predictor, X_holdout, self.setup.y_holdout)
                results[name] = FitResult(evaluation, keys.get(name))
            except ScoreContractError:
                raise
            except Exception:
                if name is None:
                    raise
        return results


def fit_candidate(setup, candidate, memory=None):
    """Return the model of a candidate, fitted on the training set.

    ``memory``: :class:`PrefixMemory`, or None.
    """
    # Estimators may change their data in place, so each candidate gets a copy.
    X = copy_data(select_columns(setup.X, candidate.columns))
    y = copy_data(setup.y)
    fit_params = check_method_params(X, setup.fit_params)
    return fit_clone(setup, candidate, X, y, fit_params, memory)


def fit_clone(setup, candidate, X, y, fit_params, memory=None):
    """Return the model of a candidate, fitted on some training records.

    ``X``, ``y``: these records, with the candidate's columns, and their targets. If
    ``candidate.columns`` is an empty tuple, the model is a constant prediction. ``fit_params``:
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
        cache_context = memory.attach(estimator, "training set")
    with cache_context:
        if y is None:
            estimator.fit(X, **fit_params)
        else:
            estimator.fit(X, y, **fit_params)
    return estimator


def fit_fold(setup, candidate, X, fold):
    """Return a candidate's model for a fold, and the test records and targets of the fold.

    ``X``: the candidate's columns of all training records. ``fold``: training and test positions.
    """
    train, test = fold
    fit_params = check_method_params(setup.X, setup.fit_params, indices=train)
    X_train = safe_indexing(X, train)
    y_train = safe_indexing(setup.y, train)
    model = fit_clone(setup, candidate, X_train, y_train, fit_params)
    return model, safe_indexing(X, test), safe_indexing(setup.y, test)


def select_columns(X, columns):
    """Return the columns of ``X`` at some positions.

    None selects all columns. An empty tuple returns one column of zeros.
    """
    if columns is None:
        return X
    if not columns:
        return np.zeros((num_samples(X), 1))
    return safe_indexing(X, np.asarray(columns), axis=1)


def cross_validate_candidate(setup, candidate):
    """Return out-of-fold scores of a candidate in [0, 1], and the effect of clipping on them.

    There is one score per training record, or one per fold if the metric is not a mean over
    records. Records in no test fold have NaN. The effect of clipping is a Clipping summed over the
    folds that have one, or None without any. Errors of fits and scores are raised.
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
            _, test = fold
            scores[test] = evaluation.per_record
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
    the fit, and by the pickles of all earlier steps. The cache is for one worker and one data set
    at a time. It keeps copies of transformed records, so that later steps may work in place. Steps
    with a ``random_state`` that is not an integer, steps that cannot be digested, and all steps
    after them are refitted for each candidate.
    """

    location = "memory"  # a memory with a location makes pipelines clone their transformers

    def __init__(self, max_bytes=MAX_CACHE_BYTES):
        self.max_bytes = max_bytes
        self._fit_data_name = None  # name of the records that the cached steps were fitted on
        #: Digests of the steps of the current pipeline that were fitted so far. None: they cannot
        #: be shared.
        self._step_digests = None
        #: Transformed records and fitted step, by digests of the steps; least recently used first.
        self._cache = OrderedDict()
        self._n_bytes = 0  # of the transformed records in the cache

    @contextlib.contextmanager
    def attach(self, estimator, fit_data_name):
        """Set this cache as the memory of a pipeline inside a block in which it is fitted.

        Estimators of other classes, and pipelines with a memory of their own, are left unchanged.
        ``fit_data_name``: name of the records that the pipeline is fitted on.
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
        """Return ``function``, which fits a step and transforms its records, with this cache.

        Pipelines call this method of their memory, as they call that of a ``joblib.Memory``.
        ``ignore`` has no effect.
        """

        def cached_function(transformer, X, y, *args, **params):
            """Return the result of ``function``, which may come from the cache."""
            digest = _step_digest(transformer)
            if digest is None or self._step_digests is None:
                self._step_digests = None
                return function(transformer, X, y, *args, **params)
            self._step_digests = (*self._step_digests, digest)
            return self.get_or_compute(
                self._step_digests, lambda: function(transformer, X, y, *args, **params)
            )

        return cached_function

    def cached_predictor(self, model, X, X_name, *, metric=None):
        """Return a predictor that takes the transformed records of ``X`` from this cache.

        ``model``: the model that was fitted last with this cache attached. It is returned itself
        unless it is a pipeline with transformers that are all shared, and also if ``metric``, which
        will score the model, uses more than predictions. ``metric`` may be None. ``X_name``: name
        that stands for these records as long as ``fit_data_name`` of :meth:`attach` stays the same.
        """
        is_custom_score = metric is not None and not metric.uses_predictions_only
        if is_custom_score or not self._step_digests or type(model) is not Pipeline:
            return model
        cache_key = (*self._step_digests, ("records", X_name))
        return SharedPipeline(model, self, cache_key, num_samples(X))

    def get_or_compute(self, cache_key, compute):
        """Return transformed records and fitted step from the cache, or compute and cache them.

        ``compute``: function without arguments that returns both; the step is None for records that
        a fitted pipeline transformed. Records that are larger than the cache, or whose size is
        unknown, are not cached.
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

    ``X`` with as many records as this data set must be this data set, and its cached records are
    used. Predictions for other numbers of records, and other attributes, come from the pipeline.
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

        If ``X`` has the number of records of the data set, it must be this data set, and its cached
        transformed records are used.
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
    """Return the digest of an unfitted step.

    None if it cannot be computed, or if a ``random_state`` in the step is not an integer: two fits
    may then differ.
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
    """Return the size in bytes of an array, CSR or CSC matrix or pandas frame, None for others."""
    if isinstance(X, np.ndarray):
        return X.nbytes
    if scipy.sparse.issparse(X) and X.format in ("csr", "csc"):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    if hasattr(X, "memory_usage") and hasattr(X, "iloc"):
        return int(X.memory_usage(deep=False).sum())
    return None


def run_jobs(jobs, on_result, *, n_jobs, pre_dispatch):
    """Run fits, and call ``on_result(job, task, result)`` for each finished fit.

    Workers may return the results of several fits together.

    Parameters
    ----------
    jobs : list of (HoldoutFitJob or CVFitJob, list of FitTask)
        Each job with the fits that it runs.
    on_result : callable
        Receives the results, which may contain fitted models. It is called in this process.
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
            chunks += [(job, tasks[part]) for part in gen_batches(len(tasks), chunk_size)]
    for chunk_index, results in _run_in_parallel(chunks, n_jobs, pre_dispatch):
        job, tasks = chunks[chunk_index]
        for task, result in zip(tasks, results, strict=True):
            on_result(job, task, result)
            messages.count_fit()


class _ProgressMessages:
    """Messages on finished fits and remaining minutes, at most one per ``_MESSAGE_INTERVAL``."""

    def __init__(self, n_fits):
        self._n_fits = n_fits
        self._n_finished = 0
        self._start_time = time.monotonic()
        self._message_time = self._start_time  # of the last message

    def count_fit(self):
        """Count a finished fit; print a message if fits remain and the last one is old enough."""
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
    """Return an iterable of pairs: the index of a finished chunk, and its list of results."""
    calls = (delayed(_run_chunk)(index, job, tasks) for index, (job, tasks) in enumerate(chunks))
    try:
        parallel = Parallel(
            return_as="generator_unordered", n_jobs=n_jobs, pre_dispatch=pre_dispatch
        )
        return parallel(calls)
    except ValueError:  # some backends can return a list only; nothing was run so far
        return Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)(calls)


def _run_chunk(chunk_index, job, tasks):
    """Run the fits of a chunk in a worker; return the index of the chunk and their results."""
    memory = PrefixMemory()
    return chunk_index, [job.run(task, memory) for task in tasks]


class ModelStore:
    """Fitted models of candidates: the best one in memory, the others on disk or to be refitted.

    "Best" refers to the cross-validated score. Only after verification it is clear which model is
    selected. Models other than the best one are dropped if they can be refitted identically, and
    stay in memory if they cannot be pickled. Rows are those of :class:`FitTask`.
    """

    def __init__(self):
        #: Best model so far: cross-validated score, row, whether it can be refitted, and model.
        self._leader = (-math.inf, None, True, None)
        #: By row: position of a pickled model in the file, or the model if it cannot be pickled.
        self._stored = {}
        self._file = None

    def put(self, row, model, *, cv_score, repeatable):
        """Add the model of a row; ``repeatable``: whether a new fit would be identical.

        The better one of this model and the best one so far stays in memory as it is, and the other
        one is stored or dropped. ``cv_score``: in the same units for all models.
        """
        entries = [(cv_score, row, repeatable, model), self._leader]
        worse_entry, self._leader = sorted(entries, key=operator.itemgetter(0))
        _, stored_row, is_repeatable, stored_model = worse_entry
        if is_repeatable:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the store)
            weakref.finalize(self, self._file.close)
        self._stored[stored_row] = self._file.seek(0, 2)
        try:
            pickle.dump(stored_model, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # a third-party object may raise any error when it is pickled
            self._stored[stored_row] = stored_model

    def get(self, row):
        """Return the model of a row, or None if it has to be refitted."""
        _, leader_row, _, leader_model = self._leader
        if row == leader_row:
            return leader_model
        position_or_model = self._stored.get(row)
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
        """Smaller one of the cross-validated score and the answer's value; NaN without a value."""
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

    The range of a metric without a proven bound may have changed since the answer was recorded. The
    record is returned unchanged for a metric with a proven bound, and if it has no range.
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
    """Return the ranks of queries by their selection scores, from 1, the best one first.

    Selection scores are training scores, so the ranks are public. Secondary queries have none, and
    their cross-validated scores are used. The result is None without ranking queries, if
    cross-validated scores order these in the same way, or if one of them has no selection score.
    ``ranking_queries``: queries of the metric that ranks. ``cv_scores``: cross-validated scores of
    these in [0, 1], and of secondary queries after them.
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
        #: Candidate and recipe key. Keys of the dict: id of the candidate (None without parameters)
        #: and name of the metric.
        self._recipes = {}
        self._recipe_contexts = {}  # digest of metric and parameters of fit, by name of the metric
        self._recorded_answers = {}  # AnswerRecord or None, by query keys that were looked up
        #: FitResult of each fit that was not verified yet, by row, with raw holdout scores.
        self.pending_results = {}
        self._models = ModelStore()
        self.row_wise_check = BatchDependenceCheck(setup.dates)

    def key(self, candidate, name=None):
        """Return the query key of a candidate before it is fitted.

        None without a digest, as for an estimator whose fits may differ. The key is a digest of the
        metric, the training set, the estimator with its parameters, the arguments of ``fit`` and
        the columns. ``name``: of a secondary metric, None for the metric that ranks. Secondary
        metrics have separate keys: their answers are coarse, and a search that ranks by such a
        metric needs finer ones.
        """
        # Candidates without parameters share a recipe: the key covers their columns.
        candidate_id = id(candidate) if candidate.params else None
        recipe_id = (candidate_id, name)
        if recipe_id not in self._recipes:
            # The candidate stays in memory, so that no other one gets its id.
            self._recipes[recipe_id] = candidate, self._recipe_key(candidate.params, name)
        _, recipe = self._recipes[recipe_id]
        if recipe is None:
            return None
        key_type = "candidate" if name is None else "secondary"
        return content_key(key_type, recipe, candidate.columns)

    def _recipe_key(self, params, name):
        """Return the key of a fit with these parameters on all columns, or None as :meth:`key`.

        ``params``: of a candidate; ``name``: of a secondary metric, None for the metric that ranks.
        """
        has_only_numbers = all(isinstance(value, Number) for value in params.values())
        if self._has_user_code and has_only_numbers:  # numbers do not replace the user's code
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

        Tasks are left out if all their queries have recorded answers, or if the result of the fit
        is pending. ``needs_model_key`` of the returned tasks states whether :meth:`key` of the
        metric that ranks is None, and their ``context`` is None.
        """
        names = tuple(self._metrics)
        keys_by_task = [[self.key(task.candidate, name) for name in names] for task in tasks]
        recorded_answers = self._look_up([key for task_keys in keys_by_task for key in task_keys])
        return [
            replace(task, needs_model_key=task_keys[0] is None, context=None)
            for task, task_keys in zip(tasks, keys_by_task, strict=True)
            if not all(recorded_answers.get(key) for key in task_keys)
            and task.row not in self.pending_results
        ]

    def add_result(self, task, fit_result, *, cv_score):
        """Add the result of a fit to ``pending_results``, and store its model, if any.

        The model is checked as by :meth:`_check_row_wise`. ``cv_score``: by which the best model is
        kept in memory, in the same units for all candidates; NaN counts as 0.
        """
        if fit_result.model is not None:
            self._check_row_wise(fit_result.model, task.candidate)
            repeatable = self.key(task.candidate) is not None
            cv_score = float(np.nan_to_num(cv_score))
            self._models.put(task.row, fit_result.model, cv_score=cv_score, repeatable=repeatable)
        self.pending_results[task.row] = replace(fit_result, model=None)

    def _check_row_wise(self, model, candidate):
        """Check a model by :class:`~sklearn_bdp.diagnostics.scores.BatchDependenceCheck`.

        The check uses training records. Constant predictions of no columns are not checked.
        """
        if candidate.columns != ():
            X = select_columns(self.setup.X, candidate.columns)
            self.row_wise_check.check_model(model, X)
            for metric in self._metrics.values():
                self.row_wise_check.check_score(metric, model, X, targets(X, self.setup.y))

    @strip_traceback_frames  # the frames hold raw scores
    def fit(self, rows, candidates, cv_scores):
        """Fit the candidates that :meth:`final_fit_tasks` selects, on the whole training set.

        ``rows``: of the candidates, as in :class:`FitTask`; ``cv_scores``: in [0, 1]. If the fits
        are interrupted, :meth:`verify_finished` is called before the error is raised again.
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
        and errors of the queries are suppressed. ``cv_scores_by_row``: in [0, 1], NaN for
        candidates to leave out.
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
            Cross-validated scores in [0, 1]. About a candidate with NaN the holdout is not queried.
        rows : list or None
            Rows of the candidates, if they were passed to :meth:`fit` before. None: they are fitted
            here.
        secondary : dict or None
            Cross-validated scores of each candidate in [0, 1], by name of a secondary metric.
        variances, kurtosis : sequence of float or None
            Variance and kurtosis of the scores of training records, or of dates, in [0, 1], for
            each candidate.
        references : callable or None
            Needed for metrics without a proven bound: takes the index of a candidate in
            ``candidates`` and the name of a secondary metric (None for the metric that ranks), and
            returns the TrainingReference from out-of-fold predictions.
        n_train : float or None
            Number of training records behind a cross-validated score. None: all of them.
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
        # Constant predictions do not fail. They do not count, so an error is raised if all other
        # candidates failed.
        errors = [query.fit_result.error or None for query in queries if query.columns != ()]
        report_failed_fits(
            errors,
            self.setup.error_score,
            estimator=self.setup.estimator,
            X=self.setup.X,
            y=self.setup.y,
            fits_text="the whole training set",
        )
        self._answer_all(queries, secondary or (), n_train)
        for query in queries:
            query.fit_result = replace(query.fit_result, evaluation=None, secondary={})
            for secondary_query in query.secondary.values():
                secondary_query.fit_result = None
        return queries

    def _answer_all(self, queries, secondary_names, n_train):
        """Query the holdout about all candidates with scores, and set the answers of the queries.

        This is at most one batch, or two if the holdout has a budget. ``queries``: of all
        candidates on the metric that ranks; ``n_train``: number of training records behind a
        cross-validated score.
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
        """Set metrics with their public ranges; query keys stay the same."""
        self.setup = replace(self.setup, metric=metric, secondary=secondary)
        self._ranged_metrics = {None: metric, **secondary}

    def _fit_with_score(self, candidates, cv_scores):
        """Fit the candidates with a cross-validated score; return the row of every candidate.

        The row is the ``columns`` of the candidate: candidates of selectors have no row in
        ``cv_results_``. ``cv_scores``: in [0, 1]; NaN: the candidate is not fitted.
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

        If the holdout raises BudgetExhaustedError, a batch with the metric that ranks raises it,
        too, and a batch of secondary metrics stays unanswered. Without a query nothing is done.
        ``n_train``: see :meth:`verify`.
        """
        queries = [*ranking_queries, *secondary_queries]
        if not queries:
            return
        cv_scores = np.array([query.cv_score for query in queries])
        is_secondary = np.arange(len(queries)) >= len(ranking_queries)
        ranks = _selection_ranks(ranking_queries, cv_scores)
        # Cross-validated score of the candidate that training scores select.
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
        """Return the query about a fitted candidate on one metric.

        ``name``: of a secondary metric, None for the metric that ranks. ``fit_result``: of the
        candidate, for all metrics. ``cv_score``: on this metric, in [0, 1]. ``find_reference``:
        None, or a function without arguments that returns the TrainingReference, which a metric
        without a proven bound needs.
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
        """Return the queries of :meth:`verify` about fitted candidates, with recorded answers."""
        queries = []
        for index, (row, candidate) in enumerate(zip(rows, candidates, strict=True)):
            fit_result = self.pending_results.pop(row, FitResult())
            queries_by_name = {}
            for name in (None, *secondary):  # None: the metric that ranks
                scores = cv_scores if name is None else secondary[name]
                find_reference = None
                if references is not None:
                    find_reference = functools.partial(references, index, name)
                queries_by_name[name] = self._make_query(
                    candidate, name, fit_result, scores[index], find_reference
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
        """Set the answers of queries, and of their secondary queries, that the ledger records.

        A query without a cross-validated score gets the recorded one, too. ``ranking_queries``: on
        the metric that ranks.
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
        """Return recorded answers by query key, None for keys without one.

        The dict also has keys of earlier calls, which are not looked up again unless this object
        has queried them since.
        """
        new_keys = {key for key in keys if key is not None} - self._recorded_answers.keys()
        if new_keys:
            answers = self.holdout.find_answers(sorted(new_keys))
            self._recorded_answers |= dict.fromkeys(new_keys) | answers
        return self._recorded_answers

    def model(self, candidate, row=None):
        """Return the model of a candidate, fitted on the training set.

        ``row``: of the candidate in a search, None in a selector. The model is fitted again if it
        was not kept, and checked as by :meth:`_check_row_wise`.
        """
        model = self._models.get(candidate.columns if row is None else row)
        if model is None:
            model = fit_candidate(self.setup, candidate)
        self._check_row_wise(model, candidate)
        return model
