"""Arguments of ``fit``, and checks of them before any split."""

import numbers
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.utils import check_array as check_values
from sklearn.utils import get_tags

from sklearn_bdp.correlation.components import check_one_kind_of_labels
from sklearn_bdp.correlation.dates import date_numbers
from sklearn_bdp.diagnostics.tables import check_row_alignment
from sklearn_bdp.utils.sklearn_compat import num_samples
from sklearn_bdp.utils.validation import as_frame, check_supported_values


@dataclass(frozen=True)
class FitData:
    """Arguments of ``fit``, by their names."""

    X: object = field(repr=False)
    y: object = field(repr=False)
    X_val: object = field(default=None, repr=False)
    y_val: object = field(default=None, repr=False)
    groups: object = field(default=None, repr=False)
    groups_val: object = field(default=None, repr=False)
    times: object = field(default=None, repr=False)  # converted to numbers
    horizon: object = 1
    params: dict = field(default_factory=dict, repr=False)  # for the estimator's ``fit``
    coordinates: object = field(default=None, repr=False)  # or the columns that hold them

    def __post_init__(self):
        for name in ("X", "y", "X_val", "y_val"):
            object.__setattr__(self, name, as_frame(getattr(self, name)))
        if self.times is not None:
            object.__setattr__(self, "times", date_numbers(self.times))

    @property
    def has_horizon(self):
        """Return whether a horizon other than the default was passed."""
        return not (isinstance(self.horizon, numbers.Integral) and self.horizon == 1)

    def parts(self):
        """Return the values, for a digest."""
        return tuple(vars(self).values())

    def checked(self, owner):
        """Return the data with groups split by table, after checking that all rows match ``X``."""
        n = num_samples(self.X)
        n_validation = 0 if self.X_val is None else num_samples(self.X_val)
        groups, groups_val = groups_by_table(n, n_validation, self.groups, self.groups_val)
        check_row_alignment(
            owner, self.X, self.y, X_val=self.X_val, y_val=self.y_val, groups=groups, **self.params
        )
        weight = self.params.get("sample_weight")
        if weight is not None and num_samples(weight) != n:
            raise ValueError(
                f"sample_weight must hold one value per record, got {num_samples(weight)} for {n} "
                "records."
            )
        return replace(self, groups=groups, groups_val=groups_val)


def check_records(estimator, X, y):
    """Raise the error that the estimator's ``fit`` would raise for all records.

    ``fit`` gets the training set only. A missing value in the holdout that the estimator does not
    support would otherwise be scored as a wrong prediction.
    """
    if np.iscomplexobj(X) or (y is not None and np.iscomplexobj(y)):
        raise ValueError("Complex data not supported: X and y must be real.")
    check_supported_values("X", X)
    check_supported_values("y", y)
    is_table = isinstance(X, np.ndarray) or hasattr(X, "iloc")
    tags = get_tags(estimator).input_tags
    if not is_table or tags.allow_nan or _has_nested_estimator(estimator):
        return  # only the fit of a pipeline shows which values it supports
    allows_text = tags.string or tags.categorical or hasattr(X, "iloc")
    check_values(
        X,
        dtype=None if allows_text else "numeric",
        ensure_2d=False,
        allow_nd=True,
        estimator=estimator,
        input_name="X",
    )


def _has_nested_estimator(estimator):
    """Return whether a parameter of an estimator is an estimator."""
    return any(hasattr(value, "fit") for value in estimator.get_params(deep=True).values())


def groups_by_table(n, n_validation, groups, groups_val):
    """Return the groups of the training records and of the validation records, None if not given.

    ``groups`` may hold those of ``X`` followed by those of ``X_val``.
    """
    for name, labels in (("groups", groups), ("groups_val", groups_val)):
        if labels is not None:
            check_one_kind_of_labels(name, labels)
    total = n + n_validation
    are_of_both = n_validation and groups is not None and groups_val is None
    if are_of_both and num_samples(groups) == total:
        return np.asarray(groups)[:n], np.asarray(groups)[n:]
    hint = f", and groups_val= for X_val, or all {total} as groups=" if n_validation else ""
    _check_n_labels("groups", groups, n, hint)
    _check_n_labels("groups_val", groups_val, n_validation, hint)
    return groups, groups_val


def _check_n_labels(name, labels, n_records, hint):
    """Raise ValueError unless there are no labels, or one for each record of a table."""
    if isinstance(labels, str):
        records = name.replace("groups", "X")
        raise ValueError(
            f"{name} must hold a label for each record, got the text {labels!r}. Pass the column: "
            f"{name}={records}[{labels!r}]."
        )
    if labels is not None and num_samples(labels) != n_records:
        raise ValueError(
            f"{name} has {num_samples(labels)} labels for the {n_records} records of "
            f"{name.replace('groups', 'X')}. Pass groups= for X, such as X['patient']{hint}."
        )
