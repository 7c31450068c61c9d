"""What is wrong with a table: its form, the order of its records.

Of the holdout only the form is looked at: names, number and kind of columns.
"""

import numpy as np
from sklearn.utils import get_tags

from sklearn_bdp._checks import check_order
from sklearn_bdp.correlation import check_order_of_groups, date_numbers, is_dates
from sklearn_bdp.guards._guard import Guard

#: What to do where columns were added since the holdout was made.
ADDED = (
    "Put a feature that was added into a transformer of the pipeline (FunctionTransformer): a new "
    "holdout of the same records is a new account without the answers of the first"
)
FORM = Guard(
    "other form",
    "arguments",
    "before anything is fitted",
    "The holdout must have the form of X and y, got {found}. {fix}. The holdout was not queried.",
    ValueError,
)

#: What to do where ``X`` was narrowed to some columns.
NARROWED = (
    "Pass all columns and keep the selected ones inside the pipeline: "
    "make_pipeline(ColumnTransformer([('kept', 'passthrough', columns)]), model)"
)
#: What dates say of records that are declared independent.
IN_TIME = ", but correlation=None assumes independence. Set correlation='time', or reset the index"

#: Share of about equal steps from which on sorted dates look like a calendar: hours, working days,
#: months.
REGULAR, ABOUT = 0.75, 0.15


def check_agreement(estimator, division):
    """Raise where a model fitted on the training part cannot fit the holdout."""
    X, other = division.X, division.X_holdout
    names, have = _names(X), _names(other)
    if names is not None and have is not None and names != have:
        missing = [name for name in names if name not in have][:5]
        extra = [name for name in have if name not in names][:5]
        if missing:
            raise FORM.error(found=f"no columns {missing}", fix=ADDED)
        if extra:
            raise FORM.error(found=f"columns {extra} besides", fix=NARROWED)
        raise FORM.error(found="columns in another order", fix="Pass X[holdout.X.columns]")
    width, have = _shape(X)[1:], _shape(other)[1:]
    pairwise = get_tags(estimator).input_tags.pairwise
    if len(width) == len(have) and width != have and not pairwise:
        raise FORM.error(found=f"{have[0]} and not {width[0]} columns", fix=ADDED)
    if any(map(_is_text_for_numbers, _columns(X), _columns(other))):
        raise FORM.error(found="text in place of numbers", fix="Pass records of one type")
    if division.y is not None:
        y, held = np.asarray(division.y), np.asarray(division.y_holdout)
        if y.size * len(held) != held.size * len(y):
            raise FORM.error(found="another number of outputs", fix="Pass targets of one form")
        if _is_text_for_numbers(y, held) or _is_text_for_numbers(held, y):
            raise FORM.error(found="labels of another type", fix="Code both sides alike")


def _is_text_for_numbers(values, others):
    return (_kind(values), _kind(others)) == ("number", "text")


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


def _columns(X):
    """Return the columns of a frame as they begin; any other table is one."""
    return [X.iloc[:50, place] for place in range(X.shape[1])] if hasattr(X, "iloc") else [X]


def _kind(values):
    """Return what an array or a column holds; the types of objects are looked at."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind == "O":
        found = np.asarray(values, dtype=object).ravel()[:50].tolist()
        kind = "U" if found and all(isinstance(value, str) for value in found) else kind
    return "number" if kind in "biufc" else "text" if kind in "US" else "other"


def check_orders(owner, X, y, /, *, X_val=None, y_val=None, **beside):
    """Raise where what comes beside the records (groups, weights …) names them in another order."""
    for name, values in {"y": y, **beside}.items():
        check_order(name, values, X)
    check_order("y_val", y_val, X_val, of="X_val")
    for records in (X, X_val):
        check_order_of_groups("correlation", owner.correlation, records)


def _dates(X):
    """Return the dates of a frame's index as numbers, or None."""
    index = getattr(X, "index", None)
    if not is_dates(index) or len(index) < 2 or bool(index.hasnans):
        return None
    return date_numbers(index).astype(np.int64)


def check_sorted(X, name="X"):
    """Raise where records in time come with an index of dates that is not sorted."""
    index = getattr(X, "index", None)
    if is_dates(index) and bool(index.hasnans):
        raise ValueError(
            f"{name} has an index in which {int(index.isna().sum())} dates are missing (NaT). Drop "
            "these rows or fill in their dates."
        )
    if is_dates(index) and not index.is_monotonic_increasing:
        raise ValueError(
            f"correlation='time' and chains need records in time order, got {name} with a date "
            f"index that is not sorted: pass {name}.sort_index(), and its targets in that order."
        )


def check_future(X, X_val):
    """Raise where a series is not sorted, or the validation records do not come last."""
    check_sorted(X)
    check_sorted(X_val, "X_val")
    if _dates(X) is None or _dates(X_val) is None:
        return
    try:
        early = X_val.index.min() <= X.index.max()
    except TypeError:  # dates with and without a zone, or periods of another length
        return
    if early:
        raise ValueError(
            "X_val must come after X if records come in time (correlation='time' or a chain): a "
            "model is verified on the future of what it has seen. Pass the last records as X_val."
        )


def date_hints(X):
    """Return what the index of records that were declared independent says against it."""
    dates = _dates(X)
    if dates is None:
        return ()
    steps = np.diff(dates)
    if (steps >= 0).all() or (steps <= 0).all():
        return ("X is sorted by date" + IN_TIME,)
    found = "The index of X is a shuffled calendar"
    return (found + IN_TIME + ", after X.sort_index()",) if _is_calendar(dates) else ()


def _is_calendar(dates):
    """Return whether sorted dates go in equal steps, each once: a series, and no list of events."""
    steps = np.diff(np.sort(dates))
    typical = float(np.median(steps))
    alike = np.abs(steps - typical) <= ABOUT * typical
    return bool(steps.min() > 0 and alike.mean() >= REGULAR)
