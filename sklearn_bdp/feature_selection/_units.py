"""Columns: the units that a step can add or remove, and blocks that are looked at together."""

import numbers
from dataclasses import dataclass

import numpy as np

from sklearn_bdp._checks import check_integer, check_real

#: Numbers held at a time while columns are looked at (8 MB): a block fits into the cache.
_BLOCK = 2**20


def column_blocks(X):
    """Return ranges of columns that are looked at together."""
    step = max(1, _BLOCK // X.shape[0])
    starts = range(0, X.shape[1], step)
    return [range(start, min(start + step, X.shape[1])) for start in starts]


@dataclass(frozen=True)
class Units:
    """Columns in the units in which they are added and removed."""

    members: tuple  # columns of each unit
    fixed: tuple  # columns that are in every subset
    names: np.ndarray | None  # names of all columns

    def __len__(self):
        return len(self.members)

    def columns(self, chosen):
        """Return the sorted columns of a set of units, with the fixed ones."""
        added = [column for unit in chosen for column in self.members[unit]]
        return tuple(sorted({*self.fixed, *added}))

    def label(self, unit):
        """Return how a unit is called in messages: its column names."""
        return ", ".join(map(self.column_label, self.members[unit]))

    def column_label(self, column):
        """Return how a column is called."""
        return f"x{column}" if self.names is None else str(self.names[column])

    def target(self, n_features_to_select):
        """Return how many units to choose besides the fixed features; None for "auto".

        A number of features (groups count as one each) or a fraction of them includes those.
        """
        value, fixed = n_features_to_select, len(self.fixed)
        total = len(self) + fixed
        if isinstance(value, str):
            if value != "auto":
                raise ValueError(
                    "n_features_to_select must be 'auto', a positive integer or a fraction, got "
                    f"n_features_to_select={value!r}."
                )
            return None
        if isinstance(value, numbers.Integral):
            count = check_integer("n_features_to_select", value, low=max(1, fixed), high=total)
        else:
            share = check_real("n_features_to_select", value, low=0.0, high=1.0, closed="right")
            count = max(1, fixed, int(share * total))
        return count - fixed


def make_units(n_features, names, *, fixed_features, feature_groups):
    """Return the :class:`Units` of the columns; a group with a fixed column is fixed as a whole."""
    fixed = set(_columns("fixed_features", fixed_features, n_features, names))
    groups = [
        _columns("feature_groups", group, n_features, names) for group in feature_groups or ()
    ]
    grouped = [column for group in groups for column in group]
    if len(set(grouped)) != len(grouped):
        twice = sorted({column for column in grouped if grouped.count(column) > 1})
        raise ValueError(f"feature_groups must not share columns, got {twice} in more than one.")
    if not all(groups):
        raise ValueError("feature_groups must not hold an empty group.")
    units = [tuple(sorted(group)) for group in groups]
    taken = set(grouped)
    units += [(column,) for column in range(n_features) if column not in taken]
    for unit in units:
        if fixed & set(unit):
            fixed |= set(unit)
    members = tuple(sorted(unit for unit in units if not fixed & set(unit)))
    return Units(members=members, fixed=tuple(sorted(fixed)), names=names)


def subsets_of_units(units, subsets, n_features, names):
    """Return the units of each subset that the user lists, each set of units once.

    Fixed columns may be left out.
    """
    found = {}
    for subset in subsets:
        columns = set(_columns("ranking", list(subset), n_features, names))
        chosen = [unit for unit, members in enumerate(units.members) if columns & set(members)]
        cut = [unit for unit in chosen if not columns >= set(units.members[unit])]
        if cut:
            raise ValueError(
                "ranking must list whole feature_groups, got a subset with a part of "
                f"({units.label(cut[0])})."
            )
        if chosen:
            found[frozenset(chosen)] = tuple(chosen)
    if not found:
        raise ValueError("ranking must list at least one subset with a column that is not fixed.")
    return list(found.values())


def _columns(parameter, values, n_features, names):
    """Return column numbers for numbers or names."""
    if values is None:
        return []
    if isinstance(values, str) or not np.iterable(values):
        raise TypeError(f"{parameter} must list columns, got {values!r}.")
    known = {} if names is None else {str(name): place for place, name in enumerate(names)}
    columns = []
    for value in values:
        if isinstance(value, str):
            if value not in known:
                raise ValueError(f"{parameter} must name columns of X, got {value!r}.")
            columns.append(known[value])
        else:
            columns.append(check_integer(parameter, value, low=0, high=n_features - 1))
    if len(set(columns)) != len(columns):
        raise ValueError(f"{parameter} must not repeat a column, got {list(values)!r}.")
    return columns
