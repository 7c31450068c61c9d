"""Diagnostics of tables: their form and the order of their records.

Of the holdout only the form is read: names, number and kind of columns.
"""

import numpy as np
from sklearn.utils import get_tags

from sklearn_bdp.correlation.components import Groups, check_row_order
from sklearn_bdp.correlation.dates import date_level, date_numbers, holds_dates, index_dates
from sklearn_bdp.correlation.sequences import is_chain
from sklearn_bdp.diagnostics.diagnostic import Diagnostic
from sklearn_bdp.utils.validation import check_index_alignment

#: Fix if columns were added since the holdout was made.
ADDED_COLUMNS_FIX = (
    "Put a feature that was added into a transformer of the pipeline (FunctionTransformer): a new "
    "holdout of the same records is a new account without the answers of the first"
)
DIFFERENT_SCHEMA = Diagnostic(
    "other form",
    "arguments",
    "{table} must have the form of {reference}, got {found}. {fix}. The holdout was not queried.",
    ValueError,
)

#: Fix if ``X`` was narrowed to some columns.
SELECTED_COLUMNS_FIX = (
    "Pass all columns and keep the selected ones inside the pipeline: "
    "make_pipeline(ColumnTransformer([('kept', 'passthrough', columns)]), model)"
)
#: Hints of the arguments.
IN_GROUPS = ", but correlation=None assumes independence. Set correlation='groups', with groups="
UNUSED = "groups= was passed, but neither correlation nor cv uses it. Set correlation='groups'"
GROUPS_ARE_DATES = (
    "groups= holds dates, which depend on each other. Pass them as times= with correlation='time'"
)
#: Hint if records with dates are declared independent.
IN_TIME = ", but correlation=None assumes independence. Set correlation='time', or reset the index"

#: Share of about equal steps from which on sorted dates look like a calendar: hours, working days,
#: months.
REGULAR, ABOUT = 0.75, 0.15


def check_same_schema(estimator, division):
    """Raise if a given holdout differs from the training set in columns, kinds or targets."""
    if division.train is not None:
        return  # both are of one table
    X = division.X
    X_holdout = division.X_holdout
    is_validation_set = division.config is not None  # otherwise an open holdout was passed
    table = "X_val" if is_validation_set else "The holdout"
    columns = list(getattr(X, "columns", []))
    holdout_columns = list(getattr(X_holdout, "columns", []))
    if columns and holdout_columns and columns != holdout_columns:
        raise _columns_error(columns, holdout_columns, table)
    width = _shape(X)[1:]
    holdout_width = _shape(X_holdout)[1:]
    pairwise = get_tags(estimator).input_tags.pairwise
    if len(width) == len(holdout_width) and width != holdout_width and not pairwise:
        raise DIFFERENT_SCHEMA.error(
            table=table,
            reference="X",
            found=f"{holdout_width[0]} columns instead of {width[0]}",
            fix="Pass the same columns in both" if is_validation_set else ADDED_COLUMNS_FIX,
        )
    if ("number", "text") in zip(column_kinds(X), column_kinds(X_holdout), strict=False):
        raise DIFFERENT_SCHEMA.error(
            table=table,
            reference="X",
            found="text in place of numbers",
            fix="Pass records of one type",
        )
    if division.y is not None:
        table = "y_val" if is_validation_set else "The targets of the holdout"
        _check_same_targets(np.asarray(division.y), np.asarray(division.y_holdout), table)


def _columns_error(columns, holdout_columns, table):
    """Return the error of a table with other columns, or with the same in another order."""
    missing = [name for name in columns if name not in holdout_columns][:5]
    extra = [name for name in holdout_columns if name not in columns][:5]
    problem = "its columns in another order"
    if missing:
        problem = f"no columns {missing}"
    elif extra:
        problem = f"columns {extra} besides"
    if table == "X_val":
        fix = "Pass the same columns in both" if missing else "Pass X_val[X.columns]"
    elif missing:
        fix = ADDED_COLUMNS_FIX
    else:
        fix = SELECTED_COLUMNS_FIX if extra else "Pass X[holdout.X.columns]"
    return DIFFERENT_SCHEMA.error(table=table, reference="X", found=problem, fix=fix)


def _check_same_targets(y, y_holdout, table):
    """Raise if holdout targets have another number of outputs, or are text for numbers."""
    if y.size * len(y_holdout) != y_holdout.size * len(y):
        raise DIFFERENT_SCHEMA.error(
            table=table,
            reference="y",
            found="another number of outputs",
            fix="Pass targets of one form",
        )
    if {*column_kinds(y), *column_kinds(y_holdout)} == {"number", "text"}:
        raise DIFFERENT_SCHEMA.error(
            table=table,
            reference="y",
            found="labels of another type (text or numbers)",
            fix="Code both in the same way",
        )


def column_kinds(X):
    """Return "number", "text" or "other" of each column of a frame, or of a whole array."""
    columns = [column for _, column in X.items()] if hasattr(X, "items") else [X]
    return [_column_kind(column) for column in columns]


def _column_kind(column):
    """Return "number", "text" or "other"; the first objects decide about a column of objects."""
    # Arrays of the strict array API hold numbers.
    default_code = "f" if hasattr(column, "__array_namespace__") else "O"
    code = getattr(getattr(column, "dtype", None), "kind", default_code)
    if code == "O":
        values = np.asarray(column[:50], dtype=object).ravel()[:50].tolist()
        is_text = bool(values) and all(isinstance(value, str) for value in values)
        return "text" if is_text else "other"
    if code in "biufc":
        return "number"
    return "text" if code in "UST" else "other"


def same_columns(X, X_other):
    """Return whether two tables have columns that can be compared: by name, else by position."""
    columns = getattr(X, "columns", None)
    other_columns = getattr(X_other, "columns", None)
    if columns is not None and other_columns is not None:
        return set(columns) == set(other_columns)
    return _shape(X)[1:] == _shape(X_other)[1:]


def _shape(X):
    """Return the shape of arrays, frames and matrices; of lists that of their array."""
    try:
        return tuple(np.shape(X))
    except ValueError:  # ragged
        return (len(X),)


def check_row_alignment(owner, X, y, /, *, X_val=None, y_val=None, **others):
    """Raise if groups, weights or other data of the records name them in another order."""
    for name, values in {"y": y, **others}.items():
        check_index_alignment(name, values, X)
    check_index_alignment("y_val", y_val, X_val, of="X_val")
    for records in (X, X_val):
        check_row_order("correlation", owner.correlation, records)


def check_time_sorted(X, name="X"):
    """Raise where records in time come in an order that their index contradicts."""
    values = index_dates(X, name)
    if values is None or (values[1:] >= values[:-1]).all():
        return
    raise ValueError(
        "correlation='time' and chains need records in time order, got dates in the index of "
        f"{name} that are unsorted: pass {name}.sort_index(), and the targets in the same order."
    )


def check_sequences_sorted(X, sequences, name="X"):
    """Raise where the dates of a sequence, in the index of ``X``, do not ascend."""
    dates = date_level(getattr(X, "index", None))
    if dates is None:
        return
    values = date_numbers(dates, f"{name}.index")
    order = np.argsort(sequences, kind="stable")
    codes = np.asarray(sequences)[order]
    back = np.diff(values[order]) < np.zeros(1, dtype=np.diff(values[:1]).dtype)
    if (back & (codes[1:] == codes[:-1])).any():
        raise ValueError(
            "a chain needs the records of each sequence in time order, got dates in the index of "
            f"{name} that are unsorted inside a sequence: pass {name}.sort_index(), with targets "
            "and groups in the same order."
        )


def check_validation_is_later(X, X_val):
    """Raise where a series is not sorted, or the validation records do not come last."""
    check_time_sorted(X)
    check_time_sorted(X_val, "X_val")
    if not _has_dates(X) or not _has_dates(X_val):
        return
    try:
        early = date_level(X_val.index).min() <= date_level(X.index).max()
    except TypeError:  # dates with and without a zone, or periods of another length
        return
    if early:
        raise ValueError(
            "X_val must come after X if records come in time (correlation='time' or a chain): a "
            "model is verified on the future of its training records. Pass the last records as "
            "X_val."
        )


def declaration_hints(X, *, correlation, groups, splitters):
    """Return hints of the arguments at dependence that the declared correlation omits."""
    names = [type(s).__name__ for s in splitters if hasattr(s, "split")]
    if holds_dates(groups):
        return (GROUPS_ARE_DATES,)
    by_group = next((name for name in names if "Group" in name), None)
    if correlation is not None:
        used = by_group or _reads_groups(correlation)
        return () if groups is None or used else (UNUSED,)
    hints = _group_hints(groups, by_group)
    if "TimeSeriesSplit" in names:
        hints.append("TimeSeriesSplit was passed" + IN_TIME)
    elif _has_dates(X):
        hints += _index_hints(X.index)
    return tuple(hints)


def _group_hints(groups, splitter_name):
    """Return hints of groups with several records, or of a splitter by groups without any."""
    if groups is None:
        return [splitter_name + " was passed" + IN_GROUPS] if splitter_name else []
    n_groups = len(np.unique(np.asarray(groups, dtype=str)))
    return ["groups= was passed" + IN_GROUPS] if n_groups < len(groups) else []


def _reads_groups(correlation):
    """Return whether a declared correlation says what groups of records are for."""
    if is_chain(correlation):
        return True
    parts = correlation if isinstance(correlation, list | tuple) else [correlation]
    return any(isinstance(part, Groups | str) and part != "time" for part in parts)


def _index_hints(index):
    """Return hints of an index with dates: its levels, its order or its regular steps."""
    if hasattr(index, "levels"):
        return ["The index of X has a level of dates" + IN_TIME]
    dates = date_numbers(date_level(index)).astype(np.int64)
    steps = np.diff(dates)
    if (steps >= 0).all() or (steps <= 0).all():
        return ["X is sorted by date" + IN_TIME]
    spaces = np.diff(np.sort(dates))
    alike = np.abs(spaces - np.median(spaces)) <= ABOUT * np.median(spaces)
    if spaces.min() > 0 and alike.mean() >= REGULAR:  # a series, and no list of events
        return ["The index of X is a shuffled calendar" + IN_TIME + ", after X.sort_index()"]
    return []


def _has_dates(X):
    """Return whether the index of a frame is one of dates, none of them missing."""
    dates = date_level(getattr(X, "index", None))
    return dates is not None and len(dates) > 1 and not dates.hasnans
