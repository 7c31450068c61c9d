"""Digests of data and of queries: the same content gives the same text in every process."""

from __future__ import annotations

import copy
import hashlib
import numbers
import pickle
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

_CONTENT = "content:"
_PLAIN = bool | np.bool_ | numbers.Number


def data_digest(*data):
    """Return the SHA-256 of shapes, types, names, categories in their order, and values."""
    return _digest(data, other=_cell)


def training_digest(*data):
    """Return a digest of training data by value, for keys.

    The layout in memory, the index and the width of floating-point numbers do not count: an
    estimator learns from equal values the same.
    """
    return _digest(data, other=_cell, wide=True)


def query_key(*parts: Any) -> str:
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
    return _digest(parts)


def content_key(*parts):
    """Return the key of a query that is known by its content: the same key is the same model."""
    return _CONTENT + query_key(*parts)


def is_content_key(key):
    """Return whether a key was made of the content of a model (`content_key`).

    A key that callers choose names a query only together with the training-side value it was
    asked with; a digest of the model itself needs no company.
    """
    return key.startswith(_CONTENT)


def copied(X):
    """Return a copy that may be worked on in place, in the same order in memory."""
    if isinstance(X, np.ndarray):
        return X.copy(order="K")  # the last bits of a sum depend on it
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__().asarray(X, copy=True)
    return X.copy() if hasattr(X, "copy") else X


def freeze_data(X):
    """Return a copy of data that neither the caller's changes nor writes through it can reach.

    Arrays are read-only; the lists and objects inside lists, frames and arrays are copied, too.
    """
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return copied(X)
    if getattr(getattr(X, "dtype", None), "hasobject", True) and not sp.issparse(X):
        X = X if hasattr(X, "shape") else list(X)
        try:
            frozen = pickle.loads(pickle.dumps(X, protocol=5))
        except Exception:  # cells of a class that cannot be named
            frozen = copy.deepcopy(X)
    else:
        frozen = X.copy()
    for part in (frozen, *getattr(frozen, "__dict__", {}).values()):  # of sparse data, its arrays
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return frozen


def _digest(parts, **options):
    """Return the digest of some values; the options are those of ``feed``."""
    state = hashlib.sha256()
    for part in parts:
        feed(state, part, **options)
    return state.hexdigest()


def feed(state, value, *, other=None, wide=False):
    """Add one value: its kind, its size, its content; every length precedes what it measures.

    ``other`` gives the digest of an object that is no plain data; without it such objects raise.
    ``wide``: floating-point numbers of single and double precision are one type.
    """
    if wide and isinstance(value, np.ndarray) and value.dtype == np.float32:
        value = value.astype(np.float64)
    kind, size, content = opened(value)
    if kind is None:
        if other is None:
            raise TypeError(
                "data and keys must be made of arrays, frames, sparse matrices, numbers and "
                f"strings, got {type(value).__name__}."
            )
        kind, size = "other", other(value)
    state.update(f"{kind}:{len(size)}:{size};".encode("utf-8", "surrogatepass"))
    if isinstance(content, bytes):
        state.update(content)
        return
    if kind == "objects":
        other = other or _cell
    for part in content:
        feed(state, part, other=other, wide=wide)


def opened(value):
    """Return the kind of a value, its size in words, and its content: bytes, or further values."""
    if isinstance(value, str | bytes):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return type(value).__name__, str(len(data)), data
    if value is None or isinstance(value, _PLAIN):
        # numpy scalars and Python numbers of equal value are the same content
        plain = value.item() if isinstance(value, np.generic) else value
        return type(plain).__name__, repr(plain), b""
    if sp.issparse(value):
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.sort_indices()
        places = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        return "sparse", repr(rows.shape), (*places, rows.data)
    if hasattr(value, "columns") and hasattr(value, "shape"):
        columns = ((name, _column(value, place)) for place, name in enumerate(value.columns))
        parts = [part for name, column in columns for part in (str(name), column)]
        return "frame", repr(value.shape), parts
    if hasattr(value, "iloc"):
        return _opened_series(value)
    if isinstance(value, dict):
        parts = [part for name in sorted(value, key=repr) for part in (name, value[name])]
        return "dict", str(len(value)), parts
    if isinstance(value, list | tuple):
        return "list", str(len(value)), value
    if hasattr(value, "__array__") or hasattr(value, "__array_namespace__"):
        return _opened_array(value if isinstance(value, np.ndarray) else np.asarray(value))
    return None, "", b""


def _column(frame, place):
    """Return a column of a frame of pandas or polars."""
    return frame.iloc[:, place] if hasattr(frame, "iloc") else frame.get_columns()[place]


def _opened_series(series):
    """Return a column; of categories their values and order, and which each record has."""
    categories = getattr(series.dtype, "categories", None)
    if categories is None:
        return "series", "", [np.asarray(series)]  # with its type
    codes = np.asarray(series.cat.codes, dtype=np.int64)
    return "categories", str(series.dtype.ordered), [np.asarray(categories), codes]


def _opened_array(array):
    """Return an array, without what its memory holds beside its values."""
    if array is np.ma.masked:  # it cannot be filled
        return "masked constant", "", b""
    if array.dtype.names:  # there is padding between fields
        names = array.dtype.names
        return "fields", repr((names, array.shape)), [array[name] for name in names]
    if isinstance(array, np.ma.MaskedArray):
        return "masked", repr(array.shape), [np.asarray(array.filled()), np.ma.getmaskarray(array)]
    if array.dtype.hasobject or array.dtype.kind == "T":
        return "objects", repr(array.shape), array.ravel().tolist()
    little = array.dtype.newbyteorder("<")
    data = np.ascontiguousarray(array.astype(little, copy=False)).tobytes()
    return little.str, repr(array.shape), data


def _cell(item):
    """Return the content of an unusual cell (a date, a missing mark, an object of the caller's)."""
    if isinstance(item, set | frozenset):
        return f"set:{sorted(map(_cell, item))}"
    try:
        return f"{type(item).__qualname__}:{joblib.hash(item, hash_name='sha1')}"
    except Exception:  # what cannot be pickled
        pass
    raise TypeError(f"a cell of type {type(item).__name__} has no content to be known by.")
