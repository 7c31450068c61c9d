"""Digests of data and of queries: the same content gives the same text in every process."""

import hashlib
import numbers

import numpy as np
import scipy.sparse as sp

__all__ = ["data_digest", "freeze_data", "query_key"]


def data_digest(X, y):
    """Return the SHA-256 of the content of the holdout.

    Parameters
    ----------
    X : array, sparse matrix, DataFrame or list
        Features.
    y : array, Series or list
        Targets.

    Returns
    -------
    str
        Hexadecimal digest of shapes, types, names and values.
    """
    state = hashlib.sha256()
    _feed(state, X)
    _feed(state, y)
    return state.hexdigest()


def query_key(*parts):
    """Return a key for a query: the digest of what is known about it without the holdout.

    Parameters
    ----------
    *parts : str, bytes, number, None, array, list, tuple or dict
        For instance the parameters, the name of the metric, and the fitted model's predictions on
        the training data. Never anything computed from the holdout: a recorded answer is returned
        for an equal key, so the key itself would carry information.

    Returns
    -------
    str
        Hexadecimal SHA-256.

    Raises
    ------
    TypeError
        If a part has no content that is stable from process to process.

    Examples
    --------
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 1.0})
    True
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 2.0})
    False
    """
    state = hashlib.sha256()
    for part in parts:
        _feed(state, part)
    return state.hexdigest()


def freeze_data(X):
    """Return a copy of ``X``, so that changes made by the caller do not reach the holdout."""
    if hasattr(X, "copy"):
        return X.copy()
    return list(X)


def _feed(state, value):
    """Add one value: its kind, its size, its content; every length precedes what it measures."""
    if sp.issparse(value):
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.sort_indices()
        _tag(state, "sparse", repr(rows.shape))
        for array in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            _feed(state, array)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):
        _tag(state, "frame", repr(value.shape))
        for position, name in enumerate(value.columns):
            _feed(state, str(name))
            _feed(state, value.iloc[:, position])
    elif hasattr(value, "iloc"):
        _tag(state, "series", str(value.dtype))
        _feed_array(state, np.asarray(value))
    elif isinstance(value, np.ndarray):
        _feed_array(state, value)
    elif isinstance(value, str | bytes):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        _tag(state, type(value).__name__, str(len(data)))
        state.update(data)
    elif value is None or isinstance(value, bool | np.bool_ | numbers.Number):
        # numpy scalars and Python numbers of equal value are the same content
        plain = value.item() if isinstance(value, np.generic) else value
        _tag(state, type(plain).__name__, repr(plain))
    elif isinstance(value, dict):
        _tag(state, "dict", str(len(value)))
        for name in sorted(value, key=repr):
            _feed(state, name)
            _feed(state, value[name])
    elif isinstance(value, list | tuple):
        _tag(state, "list", str(len(value)))
        for item in value:
            _feed(state, item)
    else:
        raise TypeError(
            f"data and keys must be made of arrays, frames, sparse matrices, numbers and strings, "
            f"got {type(value).__name__}."
        )


def _feed_array(state, array):
    if array.dtype == object or array.dtype.hasobject or array.dtype.kind == "T":
        _tag(state, "objects", repr(array.shape))
        for item in array.ravel().tolist():
            _feed_object(state, item)
    else:
        _tag(state, array.dtype.newbyteorder("<").str, repr(array.shape))
        little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        state.update(little.tobytes())


def _feed_object(state, item):
    """Add an element of an object array; unusual types (dates, missing marks) by their repr."""
    if item is None or isinstance(item, str | bytes | numbers.Number | np.ndarray | list | tuple):
        _feed(state, item)
    else:
        _tag(state, type(item).__name__, repr(item))


def _tag(state, kind, content):
    text = f"{kind}:{len(content)}:{content};"
    state.update(text.encode("utf-8", "surrogatepass"))
