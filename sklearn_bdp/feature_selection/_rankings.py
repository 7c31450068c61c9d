"""Units of columns for selection, and their ranking on training records.

A ranking is a function of some training records and gives a score per column; it is computed
inside each fold, so that the subsets of a fold do not depend on its test records.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import is_classifier

from sklearn_bdp.utils.sklearn_compat import holds_numbers, is_frame, num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_integer, check_option, check_real

#: Pairs of complementary halves behind a share; few for a caller's score, which may take long.
_PAIRS, _FEW_PAIRS = 25, 3
#: Share of half samples from which on a unit is stable with ``n_features_to_select="stable"``.
STABLE = 0.6
#: Numbers in a block of columns (8 MB): a block fits into the cache.
_BLOCK = 2**20


def column_blocks(X):
    """Return slices of columns that are processed together."""
    step = max(1, _BLOCK // X.shape[0])
    return [slice(start, start + step) for start in range(0, X.shape[1], step)]


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

    def label(self, columns):
        """Return the names of some columns for messages."""
        return ", ".join(
            f"x{column}" if self.names is None else str(self.names[column]) for column in columns
        )

    def target(self, n_features_to_select):
        """Return how many units to choose besides the fixed features; None for "auto", or "stable".

        A number of features (groups count as one each) or a fraction of them includes those.
        """
        value = n_features_to_select
        fixed = len(self.fixed)
        total = len(self) + fixed
        if isinstance(value, str):
            check_option("n_features_to_select", value, ("auto", "stable"))
            return None if value == "auto" else value
        if isinstance(value, numbers.Integral):
            count = check_integer("n_features_to_select", value, low=max(1, fixed), high=total)
        else:
            share = check_real("n_features_to_select", value, low=0.0, high=1.0, closed="right")
            count = max(1, fixed, int(share * total))
        return count - fixed


def make_units(n_features, names, fixed_features, feature_groups):
    """Return the :class:`Units` of the columns; a group with a fixed column is fixed as a whole."""
    fixed = set(_columns("fixed_features", fixed_features, n_features, names))
    units = _all_units(n_features, names, feature_groups)
    for unit in units:
        fixed |= set(unit) if fixed & set(unit) else set()
    members = tuple(sorted(unit for unit in units if not fixed & set(unit)))
    return Units(members=members, fixed=tuple(sorted(fixed)), names=names)


def _all_units(n_features, names, feature_groups):
    """Return the columns of each group, and each other column as a unit of its own."""
    groups = [
        _columns("feature_groups", group, n_features, names) for group in feature_groups or ()
    ]
    grouped = [column for group in groups for column in group]
    grouped_columns = set(grouped)
    if len(grouped_columns) != len(grouped) or not all(groups):
        raise ValueError("feature_groups must not be empty or share columns.")
    units = [tuple(sorted(group)) for group in groups]
    units += [(column,) for column in range(n_features) if column not in grouped_columns]
    return units


def _columns(parameter, values, n_features, names):
    """Return column numbers for numbers or names."""
    if values is None:
        return []
    if isinstance(values, str) or not np.iterable(values):
        raise TypeError(f"{parameter} must list columns, got {values!r}.")
    index_by_name = {} if names is None else {str(name): index for index, name in enumerate(names)}
    columns = [
        index_by_name.get(value)
        if isinstance(value, str)
        else check_integer(parameter, value, low=0, high=n_features - 1)
        for value in values
    ]
    if None in columns or len(set(columns)) != len(columns):
        raise ValueError(f"{parameter} must name columns of X, each once, got {list(values)!r}.")
    return columns


@dataclass(frozen=True)
class Ranking:
    """Ranking of the units by some of the training records."""

    name: str
    #: A caller's score function ``(X, y) -> scores``; ``None``: univariate scores.
    function: Callable | None = field(repr=False)
    units: Units
    #: (n, n_features): numbers, sparse ones by columns. Categories are codes, missing values the
    #: mean of their column.
    X: Any = field(repr=False)
    targets: np.ndarray = field(repr=False)  # (n, n_targets): numbers, or an indicator per class
    indicators: bool  # whether they are indicators of more than two classes
    original: Any = field(repr=False)  # the records as the estimator takes them
    y: Any = field(repr=False)  # the targets as the estimator takes them
    groups: np.ndarray = field(repr=False)  # (n,): half samples take whole groups

    @classmethod
    def of(cls, ranking, units, X, y, estimator, groups):
        """Return the ranking by some training records; ``groups`` that half samples do not cut.

        ``ranking`` is ``"univariate"`` or a score function; ``groups=None``: records are alone.
        """
        labels = np.asarray(y)
        n = len(y)
        groups = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        targets = labels.reshape(n, -1)
        indicators = False
        if is_classifier(estimator):
            classes = np.unique(labels)
            indicators = classes.size > 2
            targets = labels[:, None] == (classes if indicators else classes[1:])
        function = ranking if callable(ranking) else None
        name = ranking if function is None else getattr(ranking, "__name__", "score_func")
        targets = targets.astype(float)
        return cls(name, function, units, _numbers(X), targets, indicators, X, y, groups)

    def univariate(self, lists):
        """Return the share of variance that each column explains of the targets, for lists of rows.

        The squared correlation for numbers and two classes, the correlation ratio of the analysis
        of variance for more; all order columns as the F statistic does; -inf for constant columns.
        All lists cost one pass over the data.
        """
        n = len(self.targets)
        n_lists = len(lists)
        inside = np.zeros((n, n_lists))
        for list_index, rows in enumerate(lists):
            inside[rows, list_index] = 1.0
        size = inside.sum(axis=0)[:, None]
        mean = inside.T @ self.targets / size
        centered = inside[:, :, None] * (self.targets[:, None, :] - mean)  # (record, list, target)
        spread = size * mean if self.indicators else (centered**2).sum(axis=0)
        scores = np.empty((n_lists, self.X.shape[1]))
        for columns in column_blocks(self.X):
            X = self.X[:, columns]
            squares = ((X.multiply(X) if scipy.sparse.issparse(X) else X * X).T @ inside).T
            total = squares - (X.T @ inside).T ** 2 / size
            products = (X.T @ centered.reshape(n, -1)).T.reshape(n_lists, -1, X.shape[1])
            explained = (products**2 / np.where(spread > 0, spread, np.inf)[:, :, None]).sum(axis=1)
            floor = 1e-12 * np.maximum(squares, 1e-300)
            proportions = explained / np.maximum(total, floor)
            scores[:, columns] = np.where(total > floor, proportions, -np.inf)
        return scores

    def order(self, rows, univariate, *, filled=False):
        """Return the units in the order of some rows, best first; a unit counts as its best column.

        ``univariate`` are the scores of the ``rows``. Units without any score follow in their order
        if they are to be ``filled`` in, else they are left out.
        """
        scores = univariate
        if self.function is not None:
            result = self.function(safe_indexing(self.original, rows), safe_indexing(self.y, rows))
            values = result[0] if isinstance(result, tuple) else result
            values = np.asarray(values, dtype=float)
            scores = np.where(np.isfinite(values), values, -np.inf)
        scores = _by_unit(scores, self.units)
        order = np.lexsort((-_by_unit(univariate, self.units), -scores))
        return order if filled else order[np.isfinite(scores[order])]

    def shares(self, rows, size):
        """Return the proportion of half samples in which each unit is among the first ``size``.

        Complementary halves of the ``rows``, in whole groups (Shah and Samworth 2013). The seed is
        fixed, so that a caller cannot choose among random halves.
        """
        groups = self.groups[rows]
        unique_groups = np.unique(groups)
        rng = np.random.default_rng(0)
        n_pairs = _PAIRS if self.function is None else _FEW_PAIRS
        halves = []
        for _ in range(n_pairs):
            first_half = rng.permutation(unique_groups)[: len(unique_groups) // 2]
            in_first_half = np.isin(groups, first_half)
            halves += [rows[in_first_half], rows[~in_first_half]]
        halves = [half for half in halves if half.size]
        shares = np.zeros(len(self.units))
        for half, scores in zip(halves, self.univariate(halves), strict=True):
            shares[self.order(half, scores)[:size]] += 1.0 / len(halves)
        return shares

    def stable_size(self, n_records):
        """Return the subset size at which :func:`expected_false_selections` is at most one."""
        size = np.sqrt((2.0 * STABLE - 1.0) * len(self.units))
        return int(np.clip(size, 1, max(1, n_records // 4)))

    def stable(self, rows):
        """Return the units that come back in a share :data:`STABLE` of halves, oftenest first."""
        shares = self.shares(rows, self.stable_size(len(rows)))
        order = np.argsort(-shares, kind="stable")
        return order[shares[order] >= STABLE]


def expected_false_selections(size, share, n_units):
    """Return how many units of a low selection probability are expected to reach a share.

    Shah and Samworth (2013), Theorem 1: at most ``q² / ((2τ - 1) p)`` of those that halves choose
    with a probability of at most ``q/p`` come back in a share ``τ`` of complementary halves, where
    each half chooses ``q`` of ``p``. It needs no assumption about the features.
    """
    return size**2 / ((2.0 * share - 1.0) * n_units)


def _by_unit(scores, units):
    """Return the best score of each unit's columns."""
    if len(units) == scores.size:  # every column on its own
        return scores
    starts = np.cumsum([0, *map(len, units.members)])
    flat = np.fromiter((c for unit in units.members for c in unit), dtype=int, count=starts[-1])
    return np.maximum.reduceat(scores[flat], starts[:-1])


def _numbers(X):
    """Return columns as numbers minus their means, without the targets."""
    if scipy.sparse.issparse(X):
        return X.tocsc()
    if is_frame(X) and not holds_numbers(X):
        values = np.empty((num_samples(X), X.shape[1]))
        for index in range(X.shape[1]):
            column = safe_indexing(X, index, axis=1)
            if is_text(column):  # codes in alphabetical order
                column = np.unique(np.asarray(column).astype(str), return_inverse=True)[1]
            values[:, index] = np.asarray(column, dtype=float)
    else:
        values = np.array(X, dtype=float)  # a copy
    with np.errstate(all="ignore"):
        center = np.nanmean(values, axis=0) if np.isnan(values).any() else values.mean(axis=0)
    values -= np.where(np.isfinite(center), center, 0.0)
    np.nan_to_num(values, copy=False)
    return values


def is_text(column):
    """Return whether a column is not numeric."""
    try:
        np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return True
    return False


def text_columns(X):
    """Return the names of the columns of a frame that are not numeric."""
    if not is_frame(X) or holds_numbers(X):
        return []
    return [str(name) for name in X.columns if is_text(X[name])]
