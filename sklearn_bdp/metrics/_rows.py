"""Row-wise evaluation: ask the model once, find the rows it fails on by bisection, say nothing."""

import contextlib
import numbers
import re
import threading
import warnings
from typing import Any

import numpy as np
import scipy.sparse

from sklearn_bdp._typing import Array

_lock = threading.Lock()
_depth = 0
_saved = None


def n_rows(X):
    """Return the number of records of an array, sparse matrix, data frame or list."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def check_schema(estimator, X, y):
    """Raise ValueError where columns or label types are not those the model was fitted with.

    Facts about the form of the records, not about their values: they may be told, and nothing is
    asked before.
    """
    fitted, given = getattr(estimator, "n_features_in_", None), getattr(X, "shape", (0,))[1:2]
    if fitted is not None and given and given[0] != fitted:
        raise ValueError(
            f"the model was fitted with {fitted} columns, got records of {given[0]} columns."
        )
    names, columns = getattr(estimator, "feature_names_in_", None), getattr(X, "columns", None)
    if names is not None and columns is not None and not same_names(names, columns):
        raise ValueError(
            "the model was fitted with other columns, or in another order, than the records have: "
            f"{list(names)[:5]}… and {list(columns)[:5]}…"
        )
    classes = np.asarray(getattr(estimator, "classes_", []))
    if classes.ndim == 1 and classes.size and y is not None and y.ndim == 1:
        of_model, of_records = _is_text(classes), _is_text(y)
        if of_model != of_records:
            kinds = ("numbers", "text")
            raise ValueError(
                f"the model was fitted with labels that are {kinds[of_model]}, got records whose "
                f"labels are {kinds[of_records]}."
            )


def same_names(first, second):
    """Return whether columns have the same names, but for marks that LightGBM replaces by "_"."""
    first, second = ([re.sub(r"\W", "_", str(name)) for name in names] for names in (first, second))
    return first == second


def _is_text(labels):
    return labels.dtype.kind in "US" or (labels.dtype == object and isinstance(labels[0], str))


def take_rows(X, start, stop):
    """Return a copy of a contiguous part of the records, of the same type.

    A copy, because models may work in place (``StandardScaler(copy=False)``): the holdout must be
    the same for the next query, and for the second attempt at this one.
    """
    if hasattr(X, "iloc"):
        return X.iloc[start:stop].copy()
    if scipy.sparse.issparse(X) and X.format in ("coo", "dia", "bsr"):
        X = X.tocsr()
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        return X.__array_namespace__().asarray(X[start:stop, ...], copy=True)
    part = X[start:stop]
    return part.copy() if hasattr(part, "copy") else part


def as_labels(y: Any) -> Array:
    """Return targets as an array; a single column becomes one-dimensional."""
    y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
    if y.dtype == object:
        # Numbers in an object array (nullable columns of older pandas) are numbers.
        plain = np.array(y.tolist()) if all(isinstance(v, numbers.Real) for v in y.flat) else y
        y = plain if plain.dtype.kind in "iufb" else y
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def score_rows(score, estimator, X, y):
    """Return one number per row, NaN for rows on which the model fails (with any `Exception`)."""
    rows = np.full(len(y), np.nan)
    pending = [(0, len(y))]
    while pending:
        start, stop = pending.pop()
        part = take_rows(X, start, stop)
        try:
            scores = np.asarray(score(estimator, part, y[start:stop].copy()), dtype=float)
            if scores.shape != (stop - start,):
                raise ValueError("The model did not give one prediction per record.")
        except Exception:
            if stop - start > 1:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        else:
            rows[start:stop] = scores
    return rows


def respond(estimator, X, methods):
    """Return the prediction of the first method the estimator has; a single column as a vector."""
    for method in methods:
        if hasattr(estimator, method):
            response = getattr(estimator, method)(X)
            array = response.toarray() if scipy.sparse.issparse(response) else np.asarray(response)
            return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    raise TypeError(f"estimator must have one of the methods {', '.join(methods)}.")


def equal(first, second):
    """Compare labels element by element; labels of different types are different."""
    if first.shape != second.shape:
        raise ValueError("Predictions and targets must have the same shape.")
    if first.dtype.kind != second.dtype.kind and "U" in (first.dtype.kind, second.dtype.kind):
        first, second = first.astype(object), second.astype(object)
    return np.asarray(first == second, dtype=bool)


def class_probabilities(estimator, X):
    """Return (classes, probabilities of shape (n, n_classes)), invalid rows set to NaN."""
    classes = np.asarray(estimator.classes_)
    probabilities = np.asarray(estimator.predict_proba(X), dtype=float)
    if probabilities.ndim == 1 and len(classes) == 2:
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    if probabilities.shape != (n_rows(X), len(classes)):
        raise ValueError("predict_proba must give one column per class.")
    valid = (probabilities >= 0.0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1.0) <= 1e-3)
    return classes, np.where(valid[:, None], probabilities, np.nan)


@contextlib.contextmanager
def silenced():
    """Ignore all warnings inside the block.

    ``warnings.catch_warnings`` alone would not do: filters are global, and when blocks of several
    threads overlap the first one to leave would switch the warnings of the others back on. Here
    the first block to enter saves the filters and the last one to leave restores them.
    """
    global _depth, _saved
    with _lock:
        if _depth == 0:
            _saved = warnings.catch_warnings()
            _saved.__enter__()
            warnings.simplefilter("ignore")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _saved.__exit__(None, None, None)
