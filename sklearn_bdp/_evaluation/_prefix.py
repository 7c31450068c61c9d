"""Fit and apply the transformers that candidates share once for each part of the data."""

import contextlib
import functools
from collections import OrderedDict

import joblib
import numpy as np
import scipy.sparse
from sklearn.pipeline import Pipeline

from sklearn_bdp._digests import copied
from sklearn_bdp._sklearn_compat import num_samples

#: Bytes of transformed records that one worker keeps.
BOUND = 2**28
_PLAIN = {type(None), bool, int, float, str}
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
            if self._place in self._kept:
                self._kept.move_to_end(self._place)
                transformed, fitted = self._kept[self._place]
                return copied(transformed), fitted
            transformed, fitted = function(transformer, X, y, *args, **params)
            self._keep(self._place, transformed, fitted)
            return transformed, fitted

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

    def transformed(self, place, model, X):
        """Return what the steps before the last make of records, as a copy."""
        if place in self._kept:
            self._kept.move_to_end(place)
            return copied(self._kept[place][0])
        found = model[:-1].transform(X)
        self._keep(place, found, None)
        return found

    def _keep(self, place, transformed, fitted):
        """Keep a copy of what a step gave, while there is room."""
        size = _size(transformed)
        if size is None or size > self.bound:
            return
        self._kept[place] = copied(transformed), fitted
        self._bytes += size
        while self._bytes > self.bound:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


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

    def _say(self, name, plain, X):
        if num_samples(X) != self._n:
            return plain(X)
        transformed = self._memory.transformed(self._place, self._pipeline, X)
        return getattr(self._pipeline[-1], name)(transformed)


def _name(transformer):
    """Return what an unfitted step is known by, or None where two fits of it may differ."""
    try:
        given = vars(transformer)
        if all(type(value) in _PLAIN for value in given.values()):
            seeded = isinstance(given.get("random_state", 0), int)
            return (type(transformer), repr(sorted(given.items()))) if seeded else None
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
