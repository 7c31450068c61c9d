"""Keys of models: digests of what is known about a query without the holdout."""

import io
import pickle

import joblib
import numpy as np
import sklearn

__all__ = ["is_reproducible", "model_key", "object_digest"]


def is_reproducible(estimator):
    """Return whether fitting is a function of data and parameters, as far as can be known.

    Only scikit-learn's own estimators whose every ``random_state`` is an integer count; for the
    rest the key is computed from the fitted model (:func:`model_key`).

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    bool
        Whether a recipe says all about the fitted model.
    """
    for name, value in {"estimator": estimator, **estimator.get_params(deep=True)}.items():
        if name.split("__")[-1] == "random_state" and not isinstance(value, int | np.integer):
            return False
        if hasattr(value, "get_params") or hasattr(value, "fit"):
            if not type(value).__module__.startswith("sklearn."):
                return False
        elif callable(value):
            return False
    return True


class _Pickler(pickle.Pickler):
    """Write holdouts by their identity, and masked arrays (which joblib cannot hash) as two."""

    def reducer_override(self, obj):
        if not isinstance(obj, np.ma.MaskedArray):
            return NotImplemented
        mask, values = np.ma.getmaskarray(obj), np.array(obj.data)
        values[mask] = np.zeros(1, values.dtype)[0]  # what a mask hides is no content
        return tuple, ((values, mask),)

    def persistent_id(self, obj):
        return getattr(type(obj), "key_identity", lambda _: None)(obj)


class _Unpickler(pickle.Unpickler):
    """Read identities as they are: text."""

    def persistent_load(self, pid):
        return pid


def object_digest(parts):
    """Return a digest of picklable objects that survives copies and processes, or None.

    A pickle of a fresh object remembers which strings and arrays are one object in memory; after
    one round trip it no longer does. What has a ``key_identity`` (a holdout, whose account changes
    with every answer) counts as that.

    Parameters
    ----------
    parts : object
        Anything that can be pickled.

    Returns
    -------
    str or None
        Hexadecimal digest; ``None`` where pickling fails.
    """
    try:
        pickled = io.BytesIO()
        _Pickler(pickled, protocol=pickle.HIGHEST_PROTOCOL).dump(parts)
        pickled.seek(0)
        return joblib.hash(_Unpickler(pickled).load(), hash_name="sha1")
    except Exception:  # whatever a third-party object raises when pickled
        return None


def model_key(estimator, metric):
    """Return the key of a fitted model: a digest of all it has learned, and of the metric.

    It is stricter than a digest of predictions, which two models may share on the training part
    and not elsewhere.

    Parameters
    ----------
    estimator : fitted estimator
        The model.
    metric : BoundedMetric
        What it is asked for.

    Returns
    -------
    str or None
        ``None`` (never recognised again) where a model cannot be pickled.
    """
    kind = type(estimator).__qualname__
    return object_digest(("model", sklearn.__version__, kind, estimator, repr(metric)))
