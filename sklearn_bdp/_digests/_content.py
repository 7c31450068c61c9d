"""Digests of data and of queries: the same content gives the same text in every process."""

from __future__ import annotations

import copy
import hashlib
import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

_CONTENT = "content:"


def data_digest(X, y):
    """Return the SHA-256 of shapes, types, names, categories in their order, and values."""
    state = hashlib.sha256()
    feed(state, X, other=_cell)
    feed(state, y, other=_cell)
    return state.hexdigest()


def training_digest(*data):
    """Return a digest of training data by value, for keys.

    The layout in memory, the index and the width of floating-point numbers do not count: an
    estimator learns from equal values the same.
    """
    state = hashlib.sha256()
    for each in data:
        feed(state, _widened(each), other=_cell)
    return state.hexdigest()


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
    state = hashlib.sha256()
    for part in parts:
        feed(state, part)
    return state.hexdigest()


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

    Arrays are read-only; the lists and objects inside lists and object arrays are copied, too.
    """
    if sp.issparse(X):
        frozen = X.copy()
        for name in ("data", "indices", "indptr", "row", "col", "offsets"):
            if isinstance(getattr(frozen, name, None), np.ndarray):
                getattr(frozen, name).setflags(write=False)
        return frozen
    if isinstance(X, np.ndarray):
        frozen = copy.deepcopy(X) if X.dtype.hasobject else X.copy()
        frozen.setflags(write=False)
        return frozen
    if hasattr(X, "iloc"):
        return _frozen_frame(X)
    if hasattr(X, "get_columns"):  # a polars frame, whose columns cannot be written to
        return X.clone()
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__().asarray(X, copy=True)
    if hasattr(X, "copy") and not isinstance(X, list | dict):
        return X.copy()
    return copy.deepcopy(list(X))


def feed(state, value, *, other=None):
    """Add one value: its kind, its size, its content; every length precedes what it measures.

    ``other`` gives the digest of an object that is no plain data; without it such objects raise.
    """
    if sp.issparse(value):
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.sort_indices()
        _tag(state, "sparse", repr(rows.shape))
        for array in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            feed(state, array, other=other)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):
        _tag(state, "frame", repr(value.shape))
        for position, name in enumerate(value.columns):
            feed(state, str(name), other=other)
            feed(state, value.iloc[:, position], other=other)
    elif hasattr(value, "iloc"):
        _feed_series(state, value, other)
    elif isinstance(value, np.ndarray):
        _feed_array(state, value, other)
    elif hasattr(value, "get_columns"):
        _tag(state, "frame", repr(value.shape))
        for column in value.get_columns():
            feed(state, column.name, other=other)
            feed(state, column.to_numpy(), other=other)
    elif hasattr(value, "__array_namespace__"):
        _feed_array(state, np.asarray(value), other)
    elif isinstance(value, str | bytes):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        _tag(state, type(value).__name__, str(len(data)))
        state.update(data)
    elif value is None or isinstance(value, bool | np.bool_ | numbers.Number):
        # numpy scalars and Python numbers of equal value are the same content
        plain = value.item() if isinstance(value, np.generic) else value
        _tag(state, type(plain).__name__, repr(plain))
    elif hasattr(value, "__array__"):  # a tensor: its repr leaves values out
        _feed_array(state, np.asarray(value), other)
    elif isinstance(value, dict):
        _tag(state, "dict", str(len(value)))
        for name in sorted(value, key=repr):
            feed(state, name, other=other)
            feed(state, value[name], other=other)
    elif isinstance(value, list | tuple):
        _tag(state, "list", str(len(value)))
        for item in value:
            feed(state, item, other=other)
    elif other is not None:
        _tag(state, "other", other(value))
    else:
        raise TypeError(
            f"data and keys must be made of arrays, frames, sparse matrices, numbers and strings, "
            f"got {type(value).__name__}."
        )


def _feed_series(state, series, other):
    """Add a column; of categories their values and order, and which each record has."""
    _tag(state, "series", str(series.dtype))
    categories = getattr(series.dtype, "categories", None)
    if categories is None:
        _feed_array(state, np.asarray(series), other)
        return
    _tag(state, "ordered", str(series.dtype.ordered))
    _feed_array(state, np.asarray(categories), other)
    _feed_array(state, np.asarray(series.cat.codes, dtype=np.int64), other)


def _feed_array(state, array, other):
    if array.dtype == object or array.dtype.hasobject or array.dtype.kind == "T":
        _tag(state, "objects", repr(array.shape))
        for item in array.ravel().tolist():
            feed(state, item, other=other or _cell)
    else:
        _tag(state, array.dtype.newbyteorder("<").str, repr(array.shape))
        little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        state.update(little.tobytes())


def _cell(item):
    """Return the content of an unusual cell (a date, a missing mark, an object of the caller's)."""
    kind = f"{type(item).__module__}.{type(item).__qualname__}"
    if isinstance(item, set | frozenset):
        return f"{kind}:{sorted(map(_cell, item))}"
    if type(item).__repr__ is not object.__repr__:
        return f"{kind}:{item!r}"
    # The default repr is an address: equal objects would differ, and changed ones would not.
    return f"{kind}:{query_key(_attributes(item))}"


def _attributes(item):
    """Return what an object consists of, as plain data."""
    content = dict(getattr(item, "__dict__", {}))
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(item, name):
                content[name] = getattr(item, name)
    if not content:
        raise TypeError(f"a cell of type {type(item).__name__} has no content to be known by.")
    return {name: _plain(value) for name, value in content.items()}


def _plain(value):
    simple = isinstance(value, str | bytes | numbers.Number | np.ndarray | None.__class__)
    return value if simple else _cell(value)


def _widened(data):
    """Return data with floating-point numbers of single and double precision in one type."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        narrow = {name for name, kind in enumerate(data.dtypes) if str(kind) == "float32"}
        if not narrow:
            return data
        data = data.copy()
        for place in narrow:
            data.isetitem(place, data.iloc[:, place].astype(np.float64))
        return data
    if getattr(data, "dtype", None) == np.float32:
        return data.astype(np.float64)
    return data


def _frozen_frame(frame):
    """Return a deep copy of a frame or series, objects in its cells included."""
    frozen = frame.copy()
    if hasattr(frozen, "columns"):
        for place, kind in enumerate(frozen.dtypes):
            if kind.kind == "O":
                column = frozen.iloc[:, place]
                frozen.isetitem(place, copy.deepcopy(column))
        return frozen
    return copy.deepcopy(frozen) if frozen.dtype == object else frozen


def _tag(state, kind, content):
    text = f"{kind}:{len(content)}:{content};"
    state.update(text.encode("utf-8", "surrogatepass"))
