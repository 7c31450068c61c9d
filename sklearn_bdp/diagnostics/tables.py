"""Diagnostics of tables: their columns, the order of their records, and declared dependence."""

import numpy as np
from sklearn.utils import get_tags

from sklearn_bdp.correlation.components import Groups, check_row_order
from sklearn_bdp.correlation.dates import (
    date_level,
    date_numbers,
    holds_dates,
    index_dates,
    sorting_advice,
)
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

#: Fix if columns of ``X`` were removed since the holdout was made.
SELECTED_COLUMNS_FIX = (
    "Pass all columns and keep the selected ones inside the pipeline: "
    "make_pipeline(ColumnTransformer([('kept', 'passthrough', columns)]), model)"
)
#: Hints about ``groups``, as sentences or as their ends.
GROUPS_HINT = ", but correlation=None assumes independence. Set correlation='groups'"
UNUSED_GROUPS_HINT = (
    "groups= was passed, but neither correlation nor cv uses it. Set correlation='groups'"
)
GROUPS_ARE_DATES_HINT = (
    "groups= holds dates, which depend on each other. Pass them as times= with correlation='time'"
)
#: End of a hint if records in time order are declared independent.
TIME_ORDER_HINT = ", but correlation=None assumes independence. Set correlation='time'"
#: End of a hint if an index of dates does not show an order in time.
NO_ORDER_HINT = ". Only if the records are independent, pass X.reset_index(drop=True)"

#: Sorted dates look like a calendar (hours, working days, months) if at least this fraction of the
#: steps between them is equal, up to this relative difference from the median step.
MIN_REGULAR_FRACTION, STEP_TOLERANCE = 0.75, 0.15


def check_same_schema(estimator, holdout_split):
    """Raise ValueError if a separate holdout has other columns or targets than X and y.

    Compared are names, order and number of columns, the number of outputs, and whether data are
    numbers or text. ``holdout_split``: the `HoldoutSplit` of a fit.
    """
    if holdout_split.train is not None:
        return  # both are rows of the same table
    X = holdout_split.X
    X_holdout = holdout_split.X_holdout
    is_validation_set = holdout_split.config is not None  # otherwise an open holdout was passed
    table_name = "X_val" if is_validation_set else "The holdout"
    column_names = list(getattr(X, "columns", []))
    holdout_column_names = list(getattr(X_holdout, "columns", []))
    if column_names and holdout_column_names and column_names != holdout_column_names:
        raise _columns_error(column_names, holdout_column_names, table_name)
    row_shape = _shape(X)[1:]  # the number of columns, as a tuple
    holdout_row_shape = _shape(X_holdout)[1:]
    is_pairwise = get_tags(estimator).input_tags.pairwise
    if (
        len(row_shape) == len(holdout_row_shape)
        and row_shape != holdout_row_shape
        and not is_pairwise
    ):
        raise DIFFERENT_SCHEMA.error(
            table=table_name,
            reference="X",
            found=f"{holdout_row_shape[0]} columns instead of {row_shape[0]}",
            fix="Pass the same columns in both" if is_validation_set else ADDED_COLUMNS_FIX,
        )
    if ("number", "text") in zip(column_kinds(X), column_kinds(X_holdout), strict=False):
        raise DIFFERENT_SCHEMA.error(
            table=table_name,
            reference="X",
            found="text in place of numbers",
            fix="Pass records of one type",
        )
    if holdout_split.y is not None:
        targets_name = "y_val" if is_validation_set else "The targets of the holdout"
        _check_same_targets(
            np.asarray(holdout_split.y), np.asarray(holdout_split.y_holdout), targets_name
        )


def _columns_error(train_names, holdout_names, table_name):
    """Return the ValueError for a holdout with other column names, or with another order of them.

    ``table_name``: name of the holdout in the message.
    """
    missing_names = [name for name in train_names if name not in holdout_names][:5]
    extra_names = [name for name in holdout_names if name not in train_names][:5]
    problem = "its columns in another order"
    if missing_names:
        problem = f"no columns {missing_names}"
    elif extra_names:
        problem = f"columns {extra_names} besides"
    if table_name == "X_val":
        fix_text = "Pass the same columns in both" if missing_names else "Pass X_val[X.columns]"
    elif missing_names:
        fix_text = ADDED_COLUMNS_FIX
    else:
        fix_text = SELECTED_COLUMNS_FIX if extra_names else "Pass X[holdout.X.columns]"
    return DIFFERENT_SCHEMA.error(table=table_name, reference="X", found=problem, fix=fix_text)


def _check_same_targets(y, y_holdout, targets_name):
    """Raise ValueError for different numbers of outputs, or if one is text and the other numbers.

    ``targets_name``: name of ``y_holdout`` in the message.
    """
    if y.size * len(y_holdout) != y_holdout.size * len(y):
        raise DIFFERENT_SCHEMA.error(
            table=targets_name,
            reference="y",
            found="another number of outputs",
            fix="Pass targets of one form",
        )
    if {*column_kinds(y), *column_kinds(y_holdout)} == {"number", "text"}:
        raise DIFFERENT_SCHEMA.error(
            table=targets_name,
            reference="y",
            found="labels of another type (text or numbers)",
            fix="Code both in the same way",
        )


def column_kinds(X):
    """Return a list with "number", "text" or "other" for each column of a frame.

    An array or list has one such entry.
    """
    columns = [column for _, column in X.items()] if hasattr(X, "items") else [X]
    return [_column_kind(column) for column in columns]


def _column_kind(column):
    """Return "number", "text" or "other" for the values of a column, or of an array or list.

    Of objects, only the first 50 are read.
    """
    # Arrays of the strict array API contain numbers.
    default_dtype_code = "f" if hasattr(column, "__array_namespace__") else "O"
    dtype_code = getattr(getattr(column, "dtype", None), "kind", default_dtype_code)
    if dtype_code == "O":
        values = np.asarray(column[:50], dtype=object).ravel()[:50].tolist()
        is_text = bool(values) and all(isinstance(value, str) for value in values)
        return "text" if is_text else "other"
    if dtype_code in "biufc":
        return "number"
    return "text" if dtype_code in "UST" else "other"


def same_columns(X, X_other):
    """Return whether two tables have the same column names, in any order.

    Unless both have names, return whether they have the same number of columns.
    """
    column_names = getattr(X, "columns", None)
    other_column_names = getattr(X_other, "columns", None)
    if column_names is not None and other_column_names is not None:
        return set(column_names) == set(other_column_names)
    return _shape(X)[1:] == _shape(X_other)[1:]


def _shape(X):
    """Return the shape of an array, frame, sparse matrix or list; ``(length,)`` if it is ragged."""
    try:
        return tuple(np.shape(X))
    except ValueError:  # ragged
        return (len(X),)


def check_row_alignment(owner, X, y, /, *, X_val=None, y_val=None, **values_by_name):
    """Raise ValueError if targets, groups or weights have the rows of ``X`` in another order.

    Only data with an index are compared, see
    :func:`~sklearn_bdp.utils.validation.check_index_alignment`. ``values_by_name``: groups, weights
    and the like. ``owner``: object whose attribute ``correlation`` is checked as well.
    """
    for name, values in {"y": y, **values_by_name}.items():
        check_index_alignment(name, values, X)
    check_index_alignment("y_val", y_val, X_val, of="X_val")
    for records in (X, X_val):
        check_row_order("correlation", owner.correlation, records)


def check_time_sorted(X, name="X"):
    """Raise ValueError if the index of ``X`` has dates that are not in ascending order.

    ``name``: name of ``X`` in the message.
    """
    dates = index_dates(X, name)
    if dates is None or (dates[1:] >= dates[:-1]).all():
        return
    raise ValueError(
        "correlation='time' and chains need records in time order, got dates in the index of "
        f"{name} that are unsorted. Sort the records: {sorting_advice(X.index, name)}."
    )


def check_sequences_sorted(X, sequences, name="X"):
    """Raise ValueError if the index of ``X`` has dates that descend inside a sequence.

    ``sequences``: number of the sequence of each record. ``name``: name of ``X`` in the message.
    """
    dates = date_level(getattr(X, "index", None))
    if dates is None:
        return
    date_values = date_numbers(dates, f"{name}.index")
    sequence_order = np.argsort(sequences, kind="stable")
    sorted_sequences = np.asarray(sequences)[sequence_order]
    sorted_dates = date_values[sequence_order]
    is_descending = sorted_dates[1:] < sorted_dates[:-1]
    if (is_descending & (sorted_sequences[1:] == sorted_sequences[:-1])).any():
        raise ValueError(
            "a chain needs the records of each sequence in time order, got dates in the index of "
            f"{name} that are unsorted inside a sequence. Sort the records: "
            f"{sorting_advice(X.index, name, others=' and groups[order]')}."
        )


def check_validation_is_later(X, X_val):
    """Raise ValueError if an index is not in time order, or if validation dates are not later.

    Tables without dates in the index, and dates with and without a time zone, are not compared.
    """
    check_time_sorted(X)
    check_time_sorted(X_val, "X_val")
    if not _has_dates(X) or not _has_dates(X_val):
        return
    try:
        starts_too_early = date_level(X_val.index).min() <= date_level(X.index).max()
    except TypeError:  # dates of two kinds, such as with and without a time zone
        return
    if starts_too_early:
        raise ValueError(
            "X_val must come after X if records come in time (correlation='time' or a chain): a "
            "model is verified on the future of its training records. Pass the last records as "
            "X_val."
        )


def declaration_hints(X, *, correlation, groups, splitters):
    """Return a tuple of sentences on arguments that suggest an undeclared dependence.

    ``correlation`` and ``groups``: arguments of a fit, None if not passed. ``splitters``: its
    argument ``cv`` and other splitters.
    """
    splitter_names = [
        type(splitter).__name__ for splitter in splitters if hasattr(splitter, "split")
    ]
    if holds_dates(groups):
        return (GROUPS_ARE_DATES_HINT,)
    group_splitter_name = next(
        (splitter_name for splitter_name in splitter_names if "Group" in splitter_name), None
    )
    if correlation is not None:
        uses_groups = group_splitter_name is not None or _uses_groups(correlation)
        return () if groups is None or uses_groups else (UNUSED_GROUPS_HINT,)
    hints = _group_hints(groups, group_splitter_name)
    if "TimeSeriesSplit" in splitter_names:
        hints.append("TimeSeriesSplit was passed" + TIME_ORDER_HINT)
    elif _has_dates(X):
        hints += _index_hints(X.index)
    return tuple(hints)


def _group_hints(groups, group_splitter_name):
    """Return a list with a hint on undeclared groups, or an empty list.

    There is a hint if a group has several records or, if ``groups`` is None, if a splitter splits
    by groups. ``group_splitter_name``: class name of that splitter, None without one.
    """
    if groups is None:
        hint = f"{group_splitter_name} was passed{GROUPS_HINT} and pass groups= to fit"
        return [hint] if group_splitter_name else []
    n_groups = len(np.unique(np.asarray(groups, dtype=str)))
    return ["groups= was passed" + GROUPS_HINT] if n_groups < len(groups) else []


def _uses_groups(correlation):
    """Return whether a declared ``correlation`` is a chain, or is or contains groups."""
    if is_chain(correlation):
        return True
    models = correlation if isinstance(correlation, list | tuple) else [correlation]
    return any(isinstance(model, Groups | str) and model != "time" for model in models)


def _index_hints(index):
    """Return a list with a hint if an index of dates suggests a time order, or an empty list.

    It does if it has levels, is sorted, or has mostly regular steps after sorting. Values that
    :func:`date_numbers` rejects give no hint.
    """
    if hasattr(index, "levels"):
        return ["The index of X has a level of dates" + TIME_ORDER_HINT + NO_ORDER_HINT]
    try:
        dates = date_numbers(date_level(index)).astype(np.int64)
    except ValueError:  # such as 9999-12-31
        return []
    steps = np.diff(dates)
    if (steps >= 0).all() or (steps <= 0).all():
        return ["X is sorted by date" + TIME_ORDER_HINT + NO_ORDER_HINT]
    sorted_steps = np.diff(np.sort(dates))
    median_step = np.median(sorted_steps)
    is_regular_step = np.abs(sorted_steps - median_step) <= STEP_TOLERANCE * median_step
    # Series have regular steps between dates. Dates of events have irregular steps.
    if sorted_steps.min() > 0 and is_regular_step.mean() >= MIN_REGULAR_FRACTION:
        hint = f"The index of X is a shuffled calendar{TIME_ORDER_HINT} and sort the records: "
        return [hint + sorting_advice(index, "X") + NO_ORDER_HINT]
    return []


def _has_dates(X):
    """Return whether the index of a frame has at least two dates, and none is missing."""
    dates = date_level(getattr(X, "index", None))
    return dates is not None and len(dates) > 1 and not dates.hasnans
