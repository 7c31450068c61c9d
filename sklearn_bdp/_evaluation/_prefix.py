"""Fit the transformers that candidates share once for each part of the data."""

import contextlib
from collections import OrderedDict

import joblib
import numpy as np
import scipy.sparse
from sklearn.pipeline import Pipeline

#: Bytes of transformed records that one worker keeps.
BOUND = 2**28


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
                return transformed.copy(), fitted
            transformed, fitted = function(transformer, X, y, *args, **params)
            self._keep(transformed, fitted)
            return transformed, fitted

        return remembered

    def _keep(self, transformed, fitted):
        """Keep a copy of what a step gave, while there is room."""
        size = _size(transformed)
        if size is None or size > self.bound:
            return
        self._kept[self._place] = transformed.copy(), fitted
        self._bytes += size
        while self._bytes > self.bound:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


def _name(transformer):
    """Return a digest of an unfitted step, or None where two fits of it may differ."""
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
