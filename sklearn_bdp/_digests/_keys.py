"""Keys of models: digests of what is known about a query without the holdout.

A *recipe* is known before anything is fitted: code that is installed under a version, parameters,
training data. It is trusted where these determine the fitted model. For everything else the key
holds the fitted model: all it has learned, the user's code by value, and what it predicts for the
training records, which also shows what no walk through an object can see.
"""

import contextlib
import hashlib
import pickle
import types
import warnings

import numpy as np
import scipy
import sklearn
from sklearn.base import clone

from sklearn_bdp._digests._content import content_key, copied, data_digest, query_key
from sklearn_bdp._digests._objects import Opaque, Walk, foreigners, object_digest


def recipe_key(estimator, metric, *, training, fit_params, columns):
    """Return the key of a model before it is fitted, or None where fitting may vary.

    ``training``: digest of the training data (`data_digest`).
    """
    recipe, about = _recipe(estimator)[0], object_digest((metric, fit_params))
    if recipe is None or about is None:
        return None
    return content_key("recipe", _surroundings(), recipe, about, training, columns)


class KnownModel:
    """A fitted model as keys know it, looked at once for all that is asked about it.

    ``content``: digest of what it has learned; None where something in it cannot be read.
    ``predictor``: predicts what ``estimator`` does, if another object does so faster.
    """

    def __init__(self, estimator, *, predictor=None):
        self._walk, self.content = Walk(fitted=True), None
        with contextlib.suppress(Opaque):
            self.content = self._walk.digest(estimator)
        self._own_code = self._walk.own_code
        self._model = estimator if predictor is None else predictor
        self._said = {}  # id of records: the records, what the model says about them

    @property
    def classes(self):
        """Classes that say with a :func:`fingerprint` what has been walked through; None: nothing
        less than a walk does."""
        whole = self._walk.plain and not self._walk.own_code and self.content is not None
        return list(self._walk.classes) if whole else None

    def key(self, metric, X, *, columns=None):
        """Return the key of the model: what it has learned, how it behaves, what it is asked.

        ``X``: records of the training side, never of the holdout; models with code of the user are
        asked to predict them. Two models that are equal on different ``columns`` are two models.
        None (never recognised again) where something in the model cannot be read.
        """
        self._walk.own_code = self._own_code
        try:
            about = self.content, self._walk.digest(metric)
        except Opaque:
            return None
        if self.content is None:
            return None
        behaviour = ""
        if self._own_code:  # of the model: what a metric does shows in no prediction
            if id(X) not in self._said:
                self._said[id(X)] = X, _behaviour(self._model, X)
            behaviour = self._said[id(X)][1]
        return content_key("model", _surroundings(), about, behaviour, columns)


def fingerprint(model, classes):
    """Return what a pickle of an object and its installed ``classes`` say, in this process.

    Far cheaper than a walk, and no key: a pickle remembers which of its strings are one object.
    None where there is no pickle.
    """
    state = hashlib.sha256()
    pickler = pickle.Pickler(types.SimpleNamespace(write=state.update), protocol=5)
    found = [foreigners(kind) for kind in {base for one in classes for base in one.__mro__}]
    if any(callable(member) for pairs in found for _, member in pairs):
        return None  # code that a session put into an installed class
    try:
        pickler.dump(model)
        return repr(found), sklearn.get_config(), state.hexdigest()
    except Exception:  # whatever a part of it raises
        return None


def has_own_code(estimator):
    """Return whether an estimator holds code of the user: no recipe says what comes out of it."""
    return _recipe(estimator)[1]


def _recipe(estimator):
    """Return the digest of an unfitted estimator, and whether it holds code of the user.

    None for the digest where it does not say what comes out. It does for code that is installed
    under a version, where every ``random_state``, of estimators as of splitters and functions
    inside them, is an integer.
    """
    walk, found = Walk(recipe=True), None
    with contextlib.suppress(Opaque, TypeError, RuntimeError):
        found = walk.digest(clone(estimator))
    return None if walk.varies else found, walk.own_code


def _behaviour(estimator, X):
    """Return a digest of everything a model says about records."""
    found = []
    for name in ("predict", "predict_proba", "decision_function"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                method = getattr(estimator, name, None)
                found.append(None if method is None else _rounded(method(copied(X))))
        except Exception as error:  # a model that fails does so in a certain way
            found.append(type(error).__name__)
    return data_digest(*found)


def _rounded(said):
    """Return what a model said, numbers to single precision.

    Sums of products differ in the last bits with the place of an array in memory; what the model
    has learned is in the key to the last bit already.
    """
    kind = getattr(getattr(said, "dtype", None), "kind", "")
    return np.asarray(said, dtype=np.float32) if kind == "f" else said


def _surroundings():
    """Return versions and settings that change what estimators do."""
    names = ("transform_output", "enable_metadata_routing", "array_api_dispatch")
    config = {name: sklearn.get_config()[name] for name in names}
    return query_key(sklearn.__version__, np.__version__, scipy.__version__, config)
