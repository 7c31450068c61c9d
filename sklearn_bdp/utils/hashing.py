"""Content of data and keys of queries: equal values, equal text, in every process."""

from __future__ import annotations

import functools
import hashlib
import numbers
import pickle
import types
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.lib.recfunctions import repack_fields

_CONTENT = "content:"
_PLAIN = {type(None), bool, int, float, bytes, tuple, list}


def digest_of(values, other):
    """Return the SHA-256 of values, taken in as pickle does, but by their content alone.

    ``other`` gives the digest of whatever is no plain value; ``None``: as pickle takes it.
    """
    state = hashlib.sha256()
    pickler = pickle.Pickler(types.SimpleNamespace(write=state.update), protocol=4)
    pickler.fast = True  # it remembers no object
    pickler.persistent_id = lambda value: None if type(value) in _PLAIN else other(value)
    pickler.dump(values)
    return state.hexdigest()


def data_digest(*data):
    """Return the SHA-256 of shapes, types, names, categories in their order, and values."""
    return digest_of(data, functools.partial(_data, odd=_cell))


def query_key(*parts: Any) -> str:
    """Return the key of a query: a digest of what is known without the holdout.

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

    See Also
    --------
    sklearn_bdp.ReusableHoldout.answer : Takes keys.

    Examples
    --------
    >>> from sklearn_bdp.utils.hashing import query_key
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 1.0})
    True
    >>> query_key("accuracy", {"C": 1.0}) == query_key("accuracy", {"C": 2.0})
    False
    """
    plain = [part.item() if isinstance(part, np.generic) else part for part in parts]
    return digest_of(plain, functools.partial(_data, odd=_refused))


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


def _data(value, *, odd):
    """Return the digest of data; ``odd`` gives that of an object that is none."""
    if type(value) is str:
        return None
    if isinstance(value, np.generic | numbers.Number):
        plain = value.item() if isinstance(value, np.generic) else value
        return f"{type(plain).__name__} {plain!r}"
    if isinstance(value, dict):
        made = "dict", sorted(value.items(), key=lambda item: repr(item[0]))
    elif isinstance(value, list | tuple):
        made = "list", list(value)
    else:
        made = table_content(value)
    if isinstance(made, np.ndarray):
        return array_digest(made)
    if isinstance(made, tuple):
        odd = _cell if made[0] == "objects" else odd  # their class may be anything
        return digest_of(made, functools.partial(_data, odd=odd))
    return odd(value)


def array_digest(array):
    """Return the digest of an array of numbers."""
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def as_one_array(table):
    """Return a frame whose columns are numbers of one type as an array; others as they are.

    Thousands of columns take as long as one array then.
    """
    kinds = set(table.dtypes) if hasattr(table, "iloc") and hasattr(table, "columns") else set()
    if len(kinds) != 1 or getattr(next(iter(kinds)), "kind", "") not in "biuf":
        return table
    found = table.to_numpy()
    return found if found.dtype in kinds else table


def table_content(value):
    """Return what a table or a column holds: an array, or its kind, facts and parts.

    Of an array what its memory holds beside its values is left out. None for anything else.
    """
    if sp.issparse(value):
        rows = value.tocsr().copy()
        rows.sum_duplicates()
        rows.sort_indices()
        places = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        return "sparse", repr(rows.shape), [*places, rows.data]
    if hasattr(value, "columns") and hasattr(value, "shape"):  # of pandas, or of polars
        array = as_one_array(value)
        if isinstance(array, np.ndarray):
            return "numbers", repr(array.shape), [repr(list(map(str, value.columns))), array]
        columns = getattr(value, "items", lambda: zip(value.columns, value, strict=True))()
        parts = [part for name, column in columns for part in (str(name), column)]
        return "frame", repr(value.shape), parts
    if hasattr(value, "iloc"):
        categories = getattr(value.dtype, "categories", None)
        if categories is None:
            return "series", "", [np.asarray(value)]  # with its type
        codes = np.asarray(value.cat.codes, dtype=np.int64)
        return "categories", str(value.dtype.ordered), [np.asarray(categories), codes]
    if not hasattr(value, "__array__") and not hasattr(value, "__array_namespace__"):
        return None
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array is np.ma.masked:  # it cannot be filled
        return "masked constant", "", []
    if isinstance(array, np.ma.MaskedArray):
        return "masked", repr(array.shape), [np.asarray(array.filled()), np.ma.getmaskarray(array)]
    if array.dtype.hasobject or array.dtype.kind == "T":
        return "objects", repr(array.shape), array.ravel().tolist()
    little = array.dtype.newbyteorder("<")  # without padding between fields
    little = repack_fields(little, recurse=True) if little.names else little
    return np.asarray(array).astype(little, order="C", copy=False)


def _cell(item):
    """Return the content of an unusual cell (a date, a missing mark, an object of the caller's)."""
    if isinstance(item, set | frozenset):
        return f"set {sorted(map(_cell, item))}"
    try:
        return f"{type(item).__qualname__} {joblib.hash(item, hash_name='sha1')}"
    except Exception:  # what cannot be pickled
        pass
    raise TypeError(f"a cell of type {type(item).__name__} has no content to be known by.")


def _refused(value):
    raise TypeError(
        "data and keys must be made of arrays, frames, sparse matrices, numbers and strings, got "
        f"{type(value).__name__}."
    )
