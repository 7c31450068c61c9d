"""Feature groups (columns that are selected together), and their ranking on training records.

A ranking gives a score per column from some training records. It is computed inside each fold, so
that the subsets of a fold do not depend on its test records.
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

#: Number of pairs of complementary half samples; fewer for a user's score function, which may be
#: slow.
_N_PAIRS, _N_PAIRS_OF_FUNCTION = 25, 3
#: Smallest selection frequency in half samples of a feature group that is stable, with
#: ``n_features_to_select="stable"``.
STABLE_FREQUENCY = 0.6
#: Largest number of values in a block of columns (8 MB), which fits into the processor's cache.
_MAX_BLOCK_SIZE = 2**20


def column_blocks(X):
    """Return a list of slices of columns that fit into a cache, each of at least one column."""
    n_columns = max(1, _MAX_BLOCK_SIZE // X.shape[0])
    return [slice(start, start + n_columns) for start in range(0, X.shape[1], n_columns)]


@dataclass(frozen=True)
class FeatureGroups:
    """Groups of columns that are selected together, and fixed columns.

    A column that is neither fixed nor in a group of the user is a group of its own.
    """

    members: tuple  # for each group a tuple of the positions of its columns
    fixed: tuple  # positions of the columns that are in every subset
    names: np.ndarray | None  # names of all columns, or None

    def __len__(self):
        return len(self.members)

    def columns(self, group_indices):
        """Return the sorted positions of the columns of some groups and of the fixed columns."""
        columns = [column for index in group_indices for column in self.members[index]]
        return tuple(sorted({*self.fixed, *columns}))

    def label(self, columns):
        """Return one text with the names of the columns at some positions, such as "x0, x3"."""
        return ", ".join(
            f"x{column}" if self.names is None else str(self.names[column]) for column in columns
        )

    def n_to_select(self, n_features_to_select):
        """Return the number of groups to select besides the fixed columns; or None or "stable".

        ``n_features_to_select``: parameter of a selector. A number or fraction includes the fixed
        columns, which count one by one, and any other group as one feature. For "auto" the result
        is None.
        """
        n_fixed = len(self.fixed)
        n_selectable = len(self) + n_fixed
        if isinstance(n_features_to_select, str):
            check_option("n_features_to_select", n_features_to_select, ("auto", "stable"))
            return None if n_features_to_select == "auto" else n_features_to_select
        if isinstance(n_features_to_select, numbers.Integral):
            n_selected = check_integer(
                "n_features_to_select", n_features_to_select, low=max(1, n_fixed), high=n_selectable
            )
        else:
            fraction = check_real(
                "n_features_to_select", n_features_to_select, low=0.0, high=1.0, closed="right"
            )
            n_selected = max(1, n_fixed, int(fraction * n_selectable))
        return n_selected - n_fixed


def make_feature_groups(n_features, names, fixed_features, feature_groups):
    """Return the :class:`FeatureGroups` from the parameters of a selector.

    A group with a fixed column is fixed as a whole. ``names``: of the columns, or None.
    """
    fixed_columns = set(_column_positions("fixed_features", fixed_features, n_features, names))
    groups = _complete_groups(n_features, names, feature_groups)
    for group in groups:
        if fixed_columns & set(group):
            fixed_columns |= set(group)
    members = tuple(sorted(group for group in groups if not fixed_columns & set(group)))
    return FeatureGroups(members=members, fixed=tuple(sorted(fixed_columns)), names=names)


def _complete_groups(n_features, names, feature_groups):
    """Return a list of tuples of column positions: each group, then each other column.

    ``names``: of all columns, or None; ``feature_groups``: parameter of a selector or None. Raises
    ValueError for an empty group or a column in two groups.
    """
    groups = [
        _column_positions("feature_groups", group, n_features, names)
        for group in feature_groups or ()
    ]
    grouped_columns = [column for group in groups for column in group]
    distinct_columns = set(grouped_columns)
    if len(distinct_columns) != len(grouped_columns) or not all(groups):
        raise ValueError("feature_groups must not be empty or share columns.")
    complete_groups = [tuple(sorted(group)) for group in groups]
    complete_groups += [(column,) for column in range(n_features) if column not in distinct_columns]
    return complete_groups


def _column_positions(parameter, columns, n_features, names):
    """Return a list of the positions of columns that are given by position or name.

    ``columns``: value of a parameter; None: no columns. ``parameter``: its name, for messages;
    ``names``: of all columns, or None. Raises TypeError unless ``columns`` lists texts or integers,
    and ValueError for an unknown or repeated column.
    """
    if columns is None:
        return []
    if isinstance(columns, str) or not np.iterable(columns):
        raise TypeError(f"{parameter} must list columns, got {columns!r}.")
    position_by_name = {}
    if names is not None:
        position_by_name = {str(name): position for position, name in enumerate(names)}
    positions = [
        position_by_name.get(column)
        if isinstance(column, str)
        else check_integer(parameter, column, low=0, high=n_features - 1)
        for column in columns
    ]
    if None in positions or len(set(positions)) != len(positions):
        raise ValueError(f"{parameter} must name columns of X, each once, got {list(columns)!r}.")
    return positions


@dataclass(frozen=True)
class Ranking:
    """Ranking of the feature groups by scores on given training records."""

    name: str  # for reports only: a function may have the name of another ranking
    #: A user's score function ``(X, y) -> scores``; ``None``: univariate scores.
    function: Callable | None = field(repr=False)
    feature_groups: FeatureGroups
    #: (n, n_features): columns as numbers minus their means, or a sparse matrix without centering.
    #: Texts are codes; missing values are 0, the mean.
    centered_X: Any = field(repr=False)
    targets: np.ndarray = field(repr=False)  # (n, n_targets): numbers, or an indicator per class
    has_indicators: bool  # whether the targets are indicators of more than two classes
    X: Any = field(repr=False)  # training records, as the estimator takes them
    y: Any = field(repr=False)  # targets, as the estimator takes them
    groups: np.ndarray = field(repr=False)  # (n,): code of each record's group

    @classmethod
    def from_data(cls, ranking, feature_groups, X, y, estimator, groups):
        """Return the ranking, prepared for all training records.

        ``ranking``: ``"univariate"`` or a score function ``(X, y) -> scores``; ``groups``: label of
        each record's group, None if records are independent.
        """
        labels = np.asarray(y)
        n = len(y)
        group_codes = np.arange(n)
        if groups is not None:
            _, group_codes = np.unique(groups, return_inverse=True)
        targets = labels.reshape(n, -1)
        has_indicators = False
        if is_classifier(estimator):
            classes = np.unique(labels)
            has_indicators = classes.size > 2
            indicated_classes = classes if has_indicators else classes[1:]
            targets = labels[:, None] == indicated_classes
        function = ranking if callable(ranking) else None
        name = ranking if function is None else getattr(ranking, "__name__", "score_func")
        return cls(
            name=name,
            function=function,
            feature_groups=feature_groups,
            centered_X=_center_numbers(X),
            targets=targets.astype(float),
            has_indicators=has_indicators,
            X=X,
            y=y,
            groups=group_codes,
        )

    def univariate(self, row_lists):
        """Return the proportion of the targets' variance that each column explains.

        It is the squared correlation for numbers and two classes, and the correlation ratio of the
        analysis of variance for more classes. Constant columns have -inf.

        Parameters
        ----------
        row_lists : list of ndarray of int
            Lists of positions of training records.

        Returns
        -------
        ndarray of shape (n_lists, n_features)
            Scores of the columns for each list.
        """
        n = len(self.targets)
        n_lists = len(row_lists)
        in_list = np.zeros((n, n_lists))  # 1 for records in a list, 0 for others
        for list_index, rows in enumerate(row_lists):
            in_list[rows, list_index] = 1.0
        n_rows = in_list.sum(axis=0)[:, None]  # (n_lists, 1)
        means = in_list.T @ self.targets / n_rows  # (n_lists, n_targets)
        # Deviations of the targets from their means, 0 outside of a list: (n, n_lists, n_targets).
        deviations = in_list[:, :, None] * (self.targets[:, None, :] - means)
        # Sums of squares by which squared products are divided: (n_lists, n_targets).
        target_squares = n_rows * means if self.has_indicators else (deviations**2).sum(axis=0)
        divisors = np.where(target_squares > 0, target_squares, np.inf)[:, :, None]
        scores = np.empty((n_lists, self.centered_X.shape[1]))
        for columns in column_blocks(self.centered_X):
            X = self.centered_X[:, columns]
            squared_X = X.multiply(X) if scipy.sparse.issparse(X) else X * X
            raw_squares = (squared_X.T @ in_list).T  # (n_lists, n_columns)
            total_squares = raw_squares - (X.T @ in_list).T ** 2 / n_rows
            products = (X.T @ deviations.reshape(n, -1)).T.reshape(n_lists, -1, X.shape[1])
            explained_squares = (products**2 / divisors).sum(axis=1)
            rounding_error = 1e-12 * np.maximum(raw_squares, 1e-300)
            proportions = explained_squares / np.maximum(total_squares, rounding_error)
            scores[:, columns] = np.where(total_squares > rounding_error, proportions, -np.inf)
        return scores

    def order(self, rows, univariate_scores, *, include_unscored=False):
        """Return the indices of the feature groups, best first, from the records in ``rows``.

        The score of a group is that of its best column. ``rows``: positions of training records;
        ``univariate_scores``: (n_features,), on these records; with a user's score function they
        break ties only. Groups without a finite score come last if ``include_unscored`` is set, and
        are left out otherwise.
        """
        column_scores = univariate_scores
        if self.function is not None:
            result = self.function(safe_indexing(self.X, rows), safe_indexing(self.y, rows))
            # Some score functions return scores and p-values.
            function_scores = result[0] if isinstance(result, tuple) else result
            function_scores = np.asarray(function_scores, dtype=float)
            column_scores = np.where(np.isfinite(function_scores), function_scores, -np.inf)
        scores = _group_scores(column_scores, self.feature_groups)
        tie_breaks = _group_scores(univariate_scores, self.feature_groups)
        order = np.lexsort((-tie_breaks, -scores))
        return order if include_unscored else order[np.isfinite(scores[order])]

    def selection_frequencies(self, rows, size):
        """Return the proportion of half samples that rank each feature group in the first ``size``.

        The records at the positions ``rows`` are repeatedly divided into random halves of whole
        groups of records (Shah and Samworth 2013), with a fixed seed.
        """
        group_codes = self.groups[rows]  # code of each record's group
        unique_codes = np.unique(group_codes)
        rng = np.random.default_rng(0)
        n_pairs = _N_PAIRS if self.function is None else _N_PAIRS_OF_FUNCTION
        half_samples = []
        for _ in range(n_pairs):
            first_half = rng.permutation(unique_codes)[: len(unique_codes) // 2]
            in_first_half = np.isin(group_codes, first_half)
            half_samples += [rows[in_first_half], rows[~in_first_half]]
        half_samples = [half_sample for half_sample in half_samples if half_sample.size]
        univariate_scores = self.univariate(half_samples)
        frequencies = np.zeros(len(self.feature_groups))
        for half_sample, scores in zip(half_samples, univariate_scores, strict=True):
            selected_indices = self.order(half_sample, scores)[:size]
            frequencies[selected_indices] += 1.0 / len(half_samples)
        return frequencies

    def stable_size(self, n_records):
        """Return the largest number of feature groups that each half sample selects.

        It is the largest for which :func:`expected_false_selections` is at most one at the
        frequency ``STABLE_FREQUENCY``, but at most a quarter of ``n_records`` (of both halves), and
        at least 1.
        """
        size = np.sqrt((2.0 * STABLE_FREQUENCY - 1.0) * len(self.feature_groups))
        return int(np.clip(size, 1, max(1, n_records // 4)))

    def stable(self, rows):
        """Return the indices of the stable feature groups, most frequent first.

        A group is stable if the proportion of half samples that select it is at least
        ``STABLE_FREQUENCY``. ``rows``: positions of the training records that are halved.
        """
        frequencies = self.selection_frequencies(rows, self.stable_size(len(rows)))
        order = np.argsort(-frequencies, kind="stable")
        return order[frequencies[order] >= STABLE_FREQUENCY]


def expected_false_selections(size, frequency, n_groups):
    """Return an upper bound on the expected number of useless feature groups that come up often.

    Each half sample selects ``size`` of ``n_groups`` groups. A group comes up often if the
    proportion of half samples that select it is at least ``frequency``, which must exceed 0.5. A
    group is useless if a half sample selects it with a probability of at most ``size / n_groups``.
    The bound is Theorem 1 of Shah and Samworth (2013).
    """
    return size**2 / ((2.0 * frequency - 1.0) * n_groups)


def _group_scores(column_scores, feature_groups):
    """Return the largest score of the columns of each feature group, of shape (n_groups,)."""
    if len(feature_groups) == column_scores.size:  # each group is one column
        return column_scores
    starts = np.cumsum([0, *map(len, feature_groups.members)])
    columns = np.fromiter(
        (column for group in feature_groups.members for column in group),
        dtype=int,
        count=starts[-1],
    )
    return np.maximum.reduceat(column_scores[columns], starts[:-1])


def _center_numbers(X):
    """Return columns as numbers minus their means; a sparse matrix in CSC format, not centered.

    A text column becomes codes in alphabetical order. Missing numbers become 0, the mean.
    """
    if scipy.sparse.issparse(X):
        return X.tocsc()
    if is_frame(X) and not holds_numbers(X):
        values = np.empty((num_samples(X), X.shape[1]))
        for index in range(X.shape[1]):
            column = safe_indexing(X, index, axis=1)
            if is_text(column):
                _, column = np.unique(np.asarray(column).astype(str), return_inverse=True)
            values[:, index] = np.asarray(column, dtype=float)
    else:
        values = np.array(X, dtype=float)  # a copy
    with np.errstate(all="ignore"):
        means = np.nanmean(values, axis=0) if np.isnan(values).any() else values.mean(axis=0)
    values -= np.where(np.isfinite(means), means, 0.0)
    np.nan_to_num(values, copy=False)
    return values


def is_text(column):
    """Return whether a column cannot be converted to numbers."""
    try:
        np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return True
    return False


def text_columns(X):
    """Return a list of the names of text columns of a frame; empty for other data.

    A text column is one that cannot be converted to numbers.
    """
    if not is_frame(X) or holds_numbers(X):
        return []
    return [str(name) for name in X.columns if is_text(X[name])]
