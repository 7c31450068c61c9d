"""Arguments of ``fit``, and checks of them before any split."""

import numbers
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.utils import check_array as check_values
from sklearn.utils import get_tags

from sklearn_bdp.correlation.components import check_one_kind_of_labels
from sklearn_bdp.correlation.dates import date_numbers
from sklearn_bdp.diagnostics.tables import check_row_alignment
from sklearn_bdp.evaluation.failed_fits import missing_values_text
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import as_frame, check_supported_values


@dataclass(frozen=True)
class FitData:
    """Arguments of ``fit`` of a search or selector, by their names."""

    X: object = field(repr=False)
    y: object = field(repr=False)
    X_val: object = field(default=None, repr=False)
    y_val: object = field(default=None, repr=False)
    groups: object = field(default=None, repr=False)
    groups_val: object = field(default=None, repr=False)
    #: Dates of ``X`` followed by those of ``X_val``; stored as by ``date_numbers``.
    times: object = field(default=None, repr=False)
    horizon: object = 1  # number of dates or span of time
    params: dict = field(default_factory=dict, repr=False)  # for the estimator's ``fit``, by name
    coordinates: object = field(default=None, repr=False)  # array, or names of columns of ``X``

    def __post_init__(self):
        for name in ("X", "y", "X_val", "y_val"):
            object.__setattr__(self, name, as_frame(getattr(self, name)))
        if self.times is not None:
            object.__setattr__(self, "times", date_numbers(self.times))

    @property
    def has_horizon(self):
        """Whether a horizon other than the default was passed."""
        return not (isinstance(self.horizon, numbers.Integral) and self.horizon == 1)

    def values(self):
        """Return a tuple of all arguments in the order of the fields."""
        return tuple(vars(self).values())

    def with_checked_groups(self, meta_estimator):
        """Return the data with groups split into those of ``X`` and of ``X_val``.

        Raises ValueError if groups or sample weights have another number of rows than their
        records, if groups have several types, or if the rows of an argument seem to be in another
        order than its records.
        """
        n = num_samples(self.X)
        n_validation = 0 if self.X_val is None else num_samples(self.X_val)
        groups, groups_val = groups_by_table(n, n_validation, self.groups, self.groups_val)
        check_row_alignment(
            meta_estimator,
            self.X,
            self.y,
            X_val=self.X_val,
            y_val=self.y_val,
            groups=groups,
            **self.params,
        )
        sample_weight = self.params.get("sample_weight")
        if sample_weight is not None and num_samples(sample_weight) != n:
            raise ValueError(
                f"sample_weight must hold one value per record, got {num_samples(sample_weight)} "
                f"for {n} records. Pass the weights of the rows of X."
            )
        return replace(self, groups=groups, groups_val=groups_val)


def check_target_count(X, y, table="X"):
    """Raise ValueError unless ``y`` is None or there are as many targets as records.

    ``table``: name of the records in the message, "X" or "X_val".
    """
    if y is None or num_samples(X) == num_samples(y):
        return
    targets_name = table.replace("X", "y")
    raise ValueError(
        f"{table} has {num_samples(X)} rows, {targets_name} has {num_samples(y)}: pass one target "
        "per row. If rows were dropped from one of them, take both from one table: "
        f"{targets_name} = data.loc[{table}.index, 'target']. The holdout was not queried."
    )


def check_records(estimator, X, y, table="X"):
    """Raise ValueError or TypeError for values that the estimator is known not to support.

    Missing values are not checked if the estimator supports them, if it contains another estimator,
    as pipelines do, or if ``X`` is neither an array nor a frame. ``table``: name of the records in
    messages, "X" or "X_val".
    """
    _check_argument_order(X, y)
    if np.iscomplexobj(X) or (y is not None and np.iscomplexobj(y)):
        raise ValueError("Complex data not supported: X and y must be real.")
    check_supported_values(table, X)
    check_supported_values(table.replace("X", "y"), y)
    is_table = isinstance(X, np.ndarray) or hasattr(X, "iloc")
    tags = get_tags(estimator).input_tags
    if not is_table or tags.allow_nan or _has_nested_estimator(estimator):
        return  # which values a pipeline supports is unknown before its fit
    allows_text = tags.string or tags.categorical or hasattr(X, "iloc")
    try:
        check_values(
            X,
            dtype=None if allows_text else "numeric",
            ensure_2d=False,
            allow_nd=True,
            estimator=estimator,
            input_name=table,
        )
    except ValueError as error:
        missing_text = missing_values_text(X, estimator, table)
        if not missing_text:
            raise
        raise ValueError(f"Input {missing_text}The holdout was not queried.") from error


def _check_argument_order(X, y):
    """Raise ValueError if ``X`` is a vector of numbers and ``y`` has several columns."""
    shape = getattr(X, "shape", ())
    targets_shape = getattr(y, "shape", ())
    dtype = getattr(X, "dtype", None)
    is_numeric_vector = len(shape) == 1 and getattr(dtype, "kind", "O") in "biuf"
    if is_numeric_vector and len(targets_shape) == 2 and targets_shape[1] > 1:
        raise ValueError(
            f"X has one column of numbers, and y has {targets_shape[1]} columns: they seem to be "
            "swapped. Pass fit(X, y), with one record per row of X. The holdout was not queried."
        )


def _has_nested_estimator(estimator):
    """Return whether the value of a parameter, nested ones included, has a method ``fit``."""
    return any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())


def groups_by_table(n, n_validation, groups, groups_val):
    """Return the groups of ``X`` and of ``X_val``, None for a table without groups.

    ``n`` and ``n_validation`` are the numbers of records of ``X`` and ``X_val``. ``groups`` may
    contain the groups of ``X`` followed by those of ``X_val``, if ``groups_val`` is None. Raises
    ValueError for wrong numbers of group labels, and for labels of several types.
    """
    for name, labels in (("groups", groups), ("groups_val", groups_val)):
        if labels is not None:
            check_one_kind_of_labels(name, labels)
    n_total = n + n_validation
    may_contain_both = n_validation and groups is not None and groups_val is None
    if may_contain_both and num_samples(groups) == n_total:
        return np.asarray(groups)[:n], np.asarray(groups)[n:]
    hint = f", and groups_val= for X_val, or all {n_total} as groups=" if n_validation else ""
    _check_n_labels("groups", groups, n, hint)
    _check_n_labels("groups_val", groups_val, n_validation, hint)
    return groups, groups_val


def _check_n_labels(name, labels, n_records, hint):
    """Raise ValueError unless ``labels`` is None or has a label for each record of a table.

    ``name``: argument with the labels, "groups" or "groups_val"; ``hint``: end of the error
    message, may be empty.
    """
    table_name = name.replace("groups", "X")  # X or X_val
    if isinstance(labels, str):
        raise ValueError(
            f"{name} must hold a label for each record, got the text {labels!r}. Pass the column: "
            f"{name}={table_name}[{labels!r}]."
        )
    if labels is not None and num_samples(labels) != n_records:
        raise ValueError(
            f"{name} has {num_samples(labels)} labels for the {n_records} records of {table_name}. "
            f"Pass groups= for X, such as X['patient']{hint}."
        )
