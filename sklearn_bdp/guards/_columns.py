"""Whether the holdout's records look like those of the training part, before anything is asked.

Only what is public is compared: names, number and kind of the columns, and the kind of labels.
"""

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from sklearn_bdp._sklearn_compat import num_samples

#: What to do where columns were added since the holdout was made.
ADDED = (
    "Nothing was asked of it. A feature that was added belongs into a transformer of the pipeline "
    "(FunctionTransformer), so that the records stay as they are; a new holdout of the same "
    "records is a new account that knows nothing of the first."
)


def check_agreement(estimator, division):
    """Raise where a model fitted on the training part cannot fit the holdout."""
    _check_columns(estimator, division.X, division.X_holdout)
    _check_labels(estimator, division.y, division.y_holdout)


def _check_columns(estimator, X, X_holdout):
    """Compare names, number and kind of columns."""
    names, have = _names(X), _names(X_holdout)
    if names is not None and have is not None and names != have:
        missing = [name for name in names if name not in have]
        extra = [name for name in have if name not in names]
        what, then = "the same columns in another order", "Nothing was asked of it."
        if missing or extra:
            then = ADDED
            what = f"no columns {missing[:5]}" if missing else f"columns {extra[:5]} besides"
        raise ValueError(
            f"the holdout must have the columns of X, in their order, but it has {what}. {then}"
        )
    if len(_shape(X)) != 2 or len(_shape(X_holdout)) != 2:
        return
    pairwise = get_tags(estimator).input_tags.pairwise
    width = num_samples(X) if pairwise else _shape(X)[1]
    if _shape(X_holdout)[1] != width:
        raise ValueError(
            f"the holdout must have {width} columns, as many as X, got {_shape(X_holdout)[1]}. "
            f"{ADDED}"
        )
    wrong = [
        place
        for place, (kind, other) in enumerate(zip(_kinds(X), _kinds(X_holdout), strict=False))
        if kind == "number" and other == "text"
    ]
    if wrong:
        raise ValueError(
            f"the holdout must hold numbers where X does, got text in column(s) {wrong[:5]}. "
            "Nothing was asked of it."
        )


def same_columns(X, other):
    """Return whether two tables have columns that can be compared: by name, else by place."""
    names, have = _names(X), _names(other)
    if names is not None and have is not None:
        return set(names) == set(have)
    return _shape(X)[1:] == _shape(other)[1:]


def _check_labels(estimator, y, y_holdout):
    """Compare the shape and the kind of targets."""
    if y is None:
        return
    labels, held = np.asarray(y), np.asarray(y_holdout)
    outputs, other = (1 if a.ndim == 1 else a.shape[1] for a in (labels, held))
    if outputs != other:
        raise ValueError(
            f"the targets of the holdout must have {outputs} output(s) as y has, got {other}."
        )
    kinds = _kind(labels), _kind(held)
    if "text" in kinds and kinds[0] != kinds[1]:
        raise ValueError(
            f"the labels of the holdout must be of the kind of y, {kinds[0]}, got {kinds[1]}. "
            "Nothing was asked of it."
        )
    if not is_classifier(estimator) or outputs != 1 or labels.dtype.kind == "f":
        return
    if not np.isin(np.unique(held.astype(labels.dtype)), labels).any():
        raise ValueError(
            "the holdout must have labels that y has, got none in common: they seem to be coded "
            "in another way. Nothing was asked of it."
        )


def _names(X):
    """Return the column names of a frame."""
    columns = getattr(X, "columns", None)
    return None if columns is None else list(columns)


def _shape(X):
    """Return the shape of arrays, frames and matrices; of lists that of their array."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return tuple(shape)
    try:
        return np.shape(X)
    except ValueError:  # ragged
        return (len(X),)


def _kinds(X):
    """Return "number", "text" or "other" for each column."""
    if hasattr(X, "iloc"):
        return [_kind(X.iloc[:50, place]) for place in range(X.shape[1])]
    kind = _kind(X) if hasattr(X, "dtype") and not hasattr(X, "tocsr") else "other"
    return [kind] * _shape(X)[1]


def _kind(values):
    """Return what an array or a column holds; objects are looked at."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "biufc":
        return "number"
    if kind in "US":
        return "text"
    if kind == "O":
        found = np.asarray(values, dtype=object).ravel()[:50]
        if found.size and all(isinstance(value, str) for value in found):
            return "text"
    return "other"
