"""Columns, the units in which they are selected, and their orders from training records alone.

Every ranking is a function of some training records and gives a score per column; it is computed
inside each fold, so that cross-validated scores of its subsets know nothing of the test fold.
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from sklearn_bdp._checks import check_integer, check_option, check_real
from sklearn_bdp._sklearn_compat import holds_numbers, is_frame, safe_indexing

RANKINGS = ("univariate", "l1")

#: Columns that a multivariate ranking looks at: so many per training record, the best univariate.
_LOOKED_AT = 1.0
#: Length and reach of an L1 path: penalties from the largest down to this part of it.
_ALPHAS, _REACH = 40, 0.05
#: Pairs of complementary halves behind a share; few for a caller's score, which may take long.
_PAIRS, _FEW_PAIRS = 25, 3
#: Share of half samples from which on a unit is stable with ``n_features_to_select="stable"``.
STABLE = 0.6
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
        """Return how many units to choose besides the fixed features; None for "auto", or "stable".

        A number of features (groups count as one each) or a fraction of them includes those.
        """
        value, fixed = n_features_to_select, len(self.fixed)
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


def make_units(n_features, names, *, fixed_features, feature_groups):
    """Return the :class:`Units` of the columns; a group with a fixed column is fixed as a whole."""
    fixed = set(_columns("fixed_features", fixed_features, n_features, names))
    groups = [
        _columns("feature_groups", group, n_features, names) for group in feature_groups or ()
    ]
    grouped = [column for group in groups for column in group]
    if len(set(grouped)) != len(grouped) or not all(groups):
        raise ValueError("feature_groups must not be empty or share columns.")
    units = [tuple(sorted(group)) for group in groups]
    taken = set(grouped)
    units += [(column,) for column in range(n_features) if column not in taken]
    for unit in units:
        if fixed & set(unit):
            fixed |= set(unit)
    members = tuple(sorted(unit for unit in units if not fixed & set(unit)))
    return Units(members=members, fixed=tuple(sorted(fixed)), names=names)


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


@dataclass(frozen=True)
class Records:
    """Training records as numbers: what rankings look at."""

    #: (n, n_features): sparse ones by columns. Categories are codes, missing values the mean of
    #: their column.
    X: object = field(repr=False)
    #: (n, n_targets): numbers, or an indicator column for each class.
    targets: np.ndarray = field(repr=False)
    classification: bool  # whether targets are classes
    original: object = field(repr=False)  # the records as the estimator takes them
    y: object = field(repr=False)  # the targets as the estimator takes them
    groups: np.ndarray = field(repr=False)  # (n,): what half samples take as a whole

    @classmethod
    def of(cls, X, y, estimator, model=None):
        """Return the records of a training part; ``model``: how they depend on one another."""
        labels, n = np.asarray(y), len(y)
        alone = model is None or model.is_independent or not model.is_componentwise
        groups = np.arange(n) if alone else np.unique(model.components(n), return_inverse=True)[1]
        if is_classifier(estimator):
            targets = (labels[:, None] == np.unique(labels)[None, :]).astype(float)
            return cls(_numbers(X), targets, True, X, y, groups)
        targets = labels.astype(float).reshape(labels.shape[0], -1)
        return cls(_numbers(X), targets, False, X, y, groups)

    def columns(self, columns, rows):
        """Return some columns of some records as a standardised dense array."""
        part = self.X[:, columns]
        part = part.toarray() if scipy.sparse.issparse(part) else part
        part = part[rows].astype(float)
        part -= part.mean(axis=0)
        scale = part.std(axis=0)
        return part / np.where(scale > 0, scale, 1.0)


def rankings_for(ranking):
    """Return the rankings that were asked for, and those that ``"auto"`` stands for.

    Raises where ``ranking`` is neither a name, a score function nor a list of these.
    """
    if isinstance(ranking, str) and ranking == "auto":
        return RANKINGS
    listed = isinstance(ranking, list | tuple) and len(ranking) > 0
    found = tuple(ranking) if listed else (ranking,)
    if not all(isinstance(one, str) or callable(one) for one in found):
        raise TypeError(
            f"ranking must be a name, a score function or a list of these, got ranking={ranking!r}."
        )
    for name in found:
        if isinstance(name, str):
            check_option("ranking", name, RANKINGS if listed else ("auto", *RANKINGS))
    return found


def order_units(ranking, records, rows, units, univariate, *, most):
    """Return at most ``most`` units in the order of a ranking, best first.

    ``univariate`` are the scores of the ``rows``. A unit counts as its best column; those without
    any score are left out.
    """
    scores = _scores(ranking, records, rows, univariate)
    by_unit = _by_unit(scores, units)
    order = np.argsort(-by_unit, kind="stable")[:most]
    return order[np.isfinite(by_unit[order])]


def _scores(ranking, records, rows, univariate):
    """Return a score of each column, greater is better; -inf where there is none."""
    if ranking == "univariate":
        return univariate
    if callable(ranking):
        X = safe_indexing(records.original, rows)
        found = ranking(X, safe_indexing(records.y, rows))
        found = np.asarray(found[0] if isinstance(found, tuple) else found, dtype=float)
        return np.where(np.isfinite(found), found, -np.inf)
    count = min(univariate.size, max(50, int(_LOOKED_AT * rows.size)))
    columns = np.sort(np.argpartition(-univariate, count - 1)[:count])
    scores = np.full(univariate.size, -np.inf)
    scores[columns] = _l1_scores(records, rows, columns)
    return scores


def as_masks(rows, n):
    """Return which of ``n`` records are in each list of rows, as (n_lists, n) booleans."""
    masks = np.zeros((len(rows), n), dtype=bool)
    for mask, chosen in zip(masks, rows, strict=True):
        mask[chosen] = True
    return masks


def selection_shares(ranking, records, rows, units, size):
    """Return in which share of half samples each unit is among the first ``size`` of a ranking.

    Complementary halves of the ``rows``, whole groups (Shah and Samworth 2013). The halves are
    always the same ones: nothing is drawn that a caller could choose among.
    """
    groups, rng, halves = records.groups[rows], np.random.default_rng(0), []
    known = np.unique(groups)
    for _ in range(_FEW_PAIRS if callable(ranking) else _PAIRS):
        first = np.isin(groups, rng.permutation(known)[: len(known) // 2])
        halves += [rows[first], rows[~first]]
    halves = [half for half in halves if half.size]
    shares = np.zeros(len(units))
    masks = as_masks(halves, len(records.targets))
    for half, scores in zip(halves, univariate_scores(records, masks), strict=True):
        shares[order_units(ranking, records, half, units, scores, most=size)] += 1.0 / len(halves)
    return shares


def useless_bound(size, share, n_units):
    """Return how many units of a low selection probability are expected to reach a share.

    Shah and Samworth (2013), Theorem 1: at most ``q² / ((2τ - 1) p)`` of those that halves choose
    with a probability of at most ``q/p`` come back in a share ``τ`` of complementary halves, where
    each half chooses ``q`` of ``p``. It needs no assumption about the features.
    """
    return size**2 / ((2.0 * share - 1.0) * n_units)


def stable_size(n_units, n_records):
    """Return how many units each half chooses, so that :func:`useless_bound` is at most one."""
    return int(np.clip(np.sqrt((2.0 * STABLE - 1.0) * n_units), 1, max(1, n_records // 4)))


def stable_units(ranking, records, rows, units):
    """Return the units that come back in a share :data:`STABLE` of half samples, oftenest first."""
    shares = selection_shares(ranking, records, rows, units, stable_size(len(units), len(rows)))
    order = np.argsort(-shares, kind="stable")
    return order[shares[order] >= STABLE]


def univariate_scores(records, masks):
    """Return the share of variance that each column explains of the targets, for several masks.

    The correlation ratio of the analysis of variance for classes, the squared correlation for
    numbers; both order columns as the F statistic does; -inf for constant columns. ``masks`` of
    shape (n_masks, n) say which records count; all of them cost one pass over the data.
    """
    n_masks, n = masks.shape
    weights = masks[:, :, None] * records.targets  # (mask, record, target)
    size = masks.sum(axis=1)
    mean = weights.sum(axis=1) / size[:, None]
    if not records.classification:
        weights = weights - masks[:, :, None] * mean[:, None, :]
    flat = np.moveaxis(weights, 1, 0).reshape(n, -1)
    spread = (weights**2).sum(axis=1)  # class sizes, or sums of squares of numbers
    inside = masks.T.astype(float)
    scores = np.empty((n_masks, records.X.shape[1]))
    for block in column_blocks(records.X):
        columns = slice(block.start, block.stop)
        X = records.X[:, columns]
        squares = (X.multiply(X) if scipy.sparse.issparse(X) else X * X).T @ inside
        sums = (X.T @ inside).T
        total = squares.T - sums**2 / size[:, None]
        products = (X.T @ flat).T.reshape(n_masks, -1, sums.shape[1])
        between = products**2 / np.where(spread > 0, spread, np.inf)[:, :, None]
        explained = between.sum(axis=1)
        if records.classification:
            explained -= sums**2 / size[:, None]
        floor = 1e-12 * np.maximum(squares.T, 1e-300)
        scores[:, columns] = np.where(total > floor, explained / np.maximum(total, floor), -np.inf)
    return scores


def _l1_scores(records, rows, columns):
    """Return how early each column enters the L1 path, the larger coefficient first in ties."""
    X = records.columns(columns, rows)
    targets = records.targets[rows]
    if records.classification and targets.shape[1] == 2:
        targets = targets[:, 1:]
    targets = targets - targets.mean(axis=0)
    largest = np.sqrt(((X.T @ targets) ** 2).sum(axis=1)).max() / rows.size
    if not largest > 0:
        return np.full(columns.size, -np.inf)
    penalties = np.geomspace(largest, _REACH * largest, _ALPHAS)
    with warnings.catch_warnings():  # an order needs no more than a rough solution
        warnings.simplefilter("ignore", ConvergenceWarning)
        y = targets[:, 0] if targets.shape[1] == 1 else targets
        _, path, *_ = lasso_path(X, y, alphas=penalties, max_iter=50, tol=1e-2)
    sizes = np.abs(path) if path.ndim == 2 else np.sqrt((path**2).sum(axis=0))
    inside = sizes > 0
    first = inside.argmax(axis=1)
    at_entry = np.take_along_axis(sizes, first[:, None], axis=1)[:, 0]
    scores = -first + at_entry / (1.0 + at_entry.max(initial=0.0))
    return np.where(inside.any(axis=1), scores, -np.inf)


def _by_unit(scores, units):
    """Return the best score of each unit's columns."""
    if len(units) == scores.size:  # every column on its own
        return scores
    starts = np.cumsum([0, *map(len, units.members)])
    if len(units) == 0:
        return np.empty(0)
    flat = np.fromiter((c for unit in units.members for c in unit), dtype=int, count=starts[-1])
    return np.maximum.reduceat(scores[flat], starts[:-1])


def _numbers(X):
    """Return columns as numbers around their middle; it uses no targets."""
    if scipy.sparse.issparse(X):
        return X.tocsc()
    if is_frame(X):
        if holds_numbers(X):
            values = np.asarray(X, dtype=float)
        else:
            columns = [safe_indexing(X, place, axis=1) for place in range(X.shape[1])]
            values = np.column_stack(list(map(_codes, columns)))
    else:
        values = np.asarray(X)
        if values.dtype.kind not in "biuf":
            values = np.column_stack([_codes(column) for column in values.T])
    values = values.astype(float)  # a copy
    with np.errstate(all="ignore"):
        center = np.nanmean(values, axis=0) if np.isnan(values).any() else values.mean(axis=0)
    values -= np.where(np.isfinite(center), center, 0.0)
    np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return values


def _codes(column):
    """Return a column as numbers; categories by their place in alphabetical order."""
    if is_text(column):
        return np.unique(np.asarray(column).astype(str), return_inverse=True)[1].astype(float)
    return np.asarray(column, dtype=float)


def is_text(column):
    """Return whether a column is no numbers."""
    try:
        np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return True
    return False


def text_columns(X):
    """Return the names of the columns of a frame that are no numbers."""
    if not is_frame(X) or holds_numbers(X):
        return []
    return [str(name) for name in X.columns if is_text(X[name])]
