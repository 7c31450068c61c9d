"""One candidate: fit it on the training part, score it there and on each holdout record, key it.

Runs in worker processes. The holdout's scores go to the mechanism and nowhere else.
"""

import contextlib
import copy
import functools
import math
import time
import traceback
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline

from sklearn_bdp._digests import KnownModel, copied
from sklearn_bdp._sklearn_compat import Nobody, check_method_params, num_samples, safe_indexing
from sklearn_bdp.exceptions import ScoreContractError


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
    part: str = "whole"

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
        fitted, asked, keys = time.perf_counter(), {None: setting.metric, **setting.secondary}, {}
        columns, shares = task.candidate.columns, PrefixMemory() if memory is None else memory
        if task.keyed:
            # Before the model sees the holdout: what it may keep of it must not get into a key.
            X = columns_of(setting.X, columns)
            known = KnownModel(model, predictor=shares.sharing(model, X, "training"))
            for name, metric in asked.items():
                keys[name] = known.key(metric, X, columns=columns)
        outcome = _scored(setting, columns, model, shares, asked, keys)
        took = {"fit_time": fitted - start, "score_time": time.perf_counter() - fitted}
        return replace(outcome, model=model, **took)


def _scored(setting, columns, model, memory, asked, keys):
    """Return what the holdout is asked about a fitted model."""
    X, X_holdout = (columns_of(each, columns) for each in (setting.X, setting.X_holdout))
    y, found = targets(setting.X, setting.y), {}
    for name, metric in asked.items():
        try:
            shared = memory.sharing(model, X_holdout, "holdout", metric=metric)
            evaluation = metric.evaluate(shared, X_holdout, setting.y_holdout)
            value, clipping = math.nan, None
            if setting.resubstitution:
                shared = memory.sharing(model, X, "training", metric=metric)
                metric.check_training(shared, X, y)
                trained = metric.evaluate(shared, X, y)
                value, clipping = trained.value, metric.clipping(shared, X, y, trained.per_record)
            found[name] = Outcome(value, evaluation, keys.get(name), clipping=clipping)
        except ScoreContractError:
            raise
        except Exception:
            if name is None:
                raise
            continue  # a metric that this model cannot be asked about
    return replace(found.pop(None), secondary=found)


def fit_candidate(setting, candidate, memory=None):
    """Return the estimator with a candidate's parameters, fitted on the training part."""
    # What fitting does to its data in place concerns no other candidate.
    X, y = copied(columns_of(setting.X, candidate.columns)), copied(setting.y)
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
    for place, (train, test) in enumerate(setting.folds):
        params = check_method_params(setting.X, setting.fit_params, indices=train)
        part, labels = safe_indexing(X, train), safe_indexing(setting.y, train)
        model = fit_clone(setting, candidate, part, labels, params)
        tested = safe_indexing(X, test), safe_indexing(setting.y, test)
        metric.check_training(model, *tested)
        evaluation = metric.evaluate(model, *tested)
        scores[test if mean else place] = evaluation.per_record if mean else evaluation.value
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
            return copied(transformed), fitted
        transformed, fitted = make()
        size = _size(transformed)
        if size is not None and size <= self.bound:
            self._kept[place] = copied(transformed), fitted
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
        return functools.partial(self._say, name, found) if name in _PREDICTIONS else found

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._pipeline, memo)

    def _say(self, name, plain, X):
        if num_samples(X) != self._n:
            return plain(X)
        pipeline = self._pipeline
        found, _ = self._memory.recalled(self._place, lambda: (pipeline[:-1].transform(X), None))
        return getattr(pipeline[-1], name)(found)


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
