"""Whether the holdout has the form of the training part: names, number and kind of columns."""

import numpy as np
from sklearn.utils import get_tags

from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.guards._guard import Guard

#: What to do where columns were added since the holdout was made.
ADDED = (
    "Put a feature that was added into a transformer of the pipeline (FunctionTransformer), so "
    "that the records stay as they are: a new holdout of the same records is a new account that "
    "knows nothing of the first"
)
FORM = Guard(
    "other form",
    "arguments",
    "before anything is fitted",
    "The holdout must have {expected}, got {found}. {fix}. The holdout was not queried.",
    ValueError,
)

#: What to do where ``X`` was narrowed to some columns.
NARROWED = (
    "Pass all columns and keep the selected ones inside the pipeline: "
    "make_pipeline(ColumnTransformer([('kept', 'passthrough', columns)]), model)"
)


def check_agreement(estimator, division):
    """Raise where a model fitted on the training part cannot fit the holdout."""
    X, other = division.X, division.X_holdout
    names, have = _names(X), _names(other)
    if names is not None and have is not None and names != have:
        missing = [name for name in names if name not in have][:5]
        extra = [name for name in have if name not in names][:5]
        found = f"columns {extra} besides" if extra else "the same columns in another order"
        found = f"no columns {missing}" if missing else found
        fix = NARROWED if extra else "Pass X[holdout.X.columns]"
        fix = ADDED if missing else fix
        raise FORM.error(expected="the columns of X, in their order", found=found, fix=fix)
    if len(_shape(X)) == len(_shape(other)) == 2:
        _check_table(get_tags(estimator).input_tags.pairwise, X, other)
    if division.y is not None:
        _check_targets(np.asarray(division.y), np.asarray(division.y_holdout))


def _check_table(pairwise, X, other):
    """Compare number and kind of columns."""
    width, have = num_samples(X) if pairwise else _shape(X)[1], _shape(other)[1]
    if have != width:
        raise FORM.error(expected=f"{width} columns, as many as X", found=str(have), fix=ADDED)
    kinds = enumerate(zip(_kinds(X), _kinds(other), strict=False))
    wrong = [place for place, pair in kinds if pair == ("number", "text")][:5]
    if wrong:
        fix = "Pass records of one type"
        raise FORM.error(expected="numbers where X does", found=f"text in columns {wrong}", fix=fix)


def _check_targets(labels, held):
    """Compare the shape and the kind of targets."""
    outputs, other = (1 if one.ndim == 1 else one.shape[1] for one in (labels, held))
    if outputs != other:
        fix = "Pass targets of one form"
        raise FORM.error(expected=f"{outputs} outputs as y has", found=str(other), fix=fix)
    kinds = _kind(labels), _kind(held)
    if "text" in kinds and kinds[0] != kinds[1]:
        expected, fix = f"labels of the kind of y, {kinds[0]}", "Code both sides alike"
        raise FORM.error(expected=expected, found=kinds[1], fix=fix)


def same_columns(X, other):
    """Return whether two tables have columns that can be compared: by name, else by place."""
    names, have = _names(X), _names(other)
    if names is not None and have is not None:
        return set(names) == set(have)
    return _shape(X)[1:] == _shape(other)[1:]


def _names(X):
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
    """Return what an array or a column holds; the types of objects are looked at."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind == "O":
        found = np.asarray(values, dtype=object).ravel()[:50].tolist()
        kind = "U" if found and all(isinstance(value, str) for value in found) else kind
    return "number" if kind in "biufc" else "text" if kind in "US" else "other"
