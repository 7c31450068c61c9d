"""Orders of features, best first, from training records alone.

Every ranking is a function of some training records and gives a score per column; it is computed
inside each fold, so that cross-validated scores of its subsets know nothing of the test fold.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, lasso_path
from sklearn.pipeline import Pipeline

from sklearn_bdp._checks import check_option
from sklearn_bdp._sklearn_compat import is_frame, safe_indexing
from sklearn_bdp._typing import Array
from sklearn_bdp.feature_selection._units import column_blocks, make_units

RANKINGS = ("univariate", "l1", "importance", "elimination", "stability")

#: Columns that a multivariate ranking looks at: so many per training record, the best univariate.
_LOOKED_AT = 1.0
#: Subsamples of a stability ranking, in complementary pairs.
_SUBSAMPLES = 50
#: Length and reach of an L1 path: penalties from the largest down to this part of it.
_ALPHAS, _REACH = 40, 0.05
#: Share of the columns that go in one round of elimination.
_ROUND = 0.25


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
    estimator: object = None  # for rankings by its own coefficients or importances

    @classmethod
    def of(cls, X, y, estimator):
        """Return the records of a training part."""
        labels = np.asarray(y)
        if is_classifier(estimator):
            targets = (labels[:, None] == np.unique(labels)[None, :]).astype(float)
            return cls(_numbers(X), targets, True, X, y, estimator)
        targets = labels.astype(float).reshape(labels.shape[0], -1)
        return cls(_numbers(X), targets, False, X, y, estimator)

    def columns(self, columns, rows):
        """Return some columns of some records as a standardised dense array."""
        part = self.X[:, columns]
        part = part.toarray() if scipy.sparse.issparse(part) else part
        part = part[rows].astype(float)
        part -= part.mean(axis=0)
        scale = part.std(axis=0)
        return part / np.where(scale > 0, scale, 1.0)


def check_ranking(ranking):
    """Return whether ``ranking`` names ``"rankings"`` or lists ``"subsets"``; refuse the rest."""
    if callable(ranking):
        return "rankings"
    if isinstance(ranking, str):
        check_option("ranking", ranking, ("auto", *RANKINGS))
        return "rankings"
    if not isinstance(ranking, list | tuple) or len(ranking) == 0:
        raise TypeError(
            "ranking must be a name, a score function, a list of these or a list of subsets, got "
            f"ranking={ranking!r}."
        )
    if all(isinstance(item, str) or callable(item) for item in ranking):
        for item in ranking:
            if isinstance(item, str):
                check_option("ranking", item, RANKINGS)
        return "rankings"
    if any(isinstance(item, str) or not np.iterable(item) for item in ranking):
        raise TypeError(f"ranking must list rankings or subsets, not both, got {ranking!r}.")
    return "subsets"


def rank_features(
    estimator: Any, X: Any, y: ArrayLike, *, ranking: str | Callable[..., Any] = "univariate"
) -> Array:
    """Return the columns of ``X`` in the order of a ranking, best first.

    Parameters
    ----------
    estimator : estimator
        Tells classes from numbers; rankings by coefficients or importances fit it.
    X : array-like of shape (n_samples, n_features)
        Records that may be looked at: training data, never those of a holdout in use.
    y : array-like of shape (n_samples,)
        Targets.
    ranking : str or callable, default="univariate"
        As in :class:`HoldoutFeatureSelector`.

    Returns
    -------
    ndarray of int
        Columns; those without any score (among many more features than records) are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_bdp.feature_selection import rank_features
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    >>> X[:, 3] += y
    >>> int(rank_features(GaussianNB(), X, y)[0])
    3
    """
    if check_ranking(ranking) != "rankings" or not (isinstance(ranking, str) or callable(ranking)):
        raise TypeError(f"ranking must be one name or one score function, got {ranking!r}.")
    if ranking == "auto":
        raise ValueError("ranking='auto' stands for several rankings; name one of them.")
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    records, n = Records.of(X, y, estimator), X.shape[0]
    (univariate,) = univariate_scores(records, np.ones((1, n), dtype=bool))
    p = univariate.size
    units = make_units(p, None, fixed_features=None, feature_groups=None)
    return order_units(ranking, records, np.arange(n), units, univariate, most=p)


def rankings_for(ranking, estimator):
    """Return the rankings that ``ranking="auto"`` stands for, or the ones that were asked for.

    The L1 path takes one of several alike columns where univariate scores take all of them;
    estimators made of trees see what neither sees.
    """
    if ranking == "auto":
        trees = hasattr(type(_last(estimator)), "feature_importances_")
        return ("univariate", "l1", "importance") if trees else ("univariate", "l1")
    return (ranking,) if isinstance(ranking, str) or callable(ranking) else tuple(ranking)


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
    wide = univariate.size > max(50, _LOOKED_AT * rows.size)
    if ranking == "importance" and not wide:
        columns = np.arange(univariate.size)
    else:
        count = min(univariate.size, max(50, int(_LOOKED_AT * rows.size)))
        columns = np.sort(np.argpartition(-univariate, count - 1)[:count])
    inner = {
        "l1": _l1_scores,
        "importance": _importance_scores,
        "elimination": _elimination_scores,
        "stability": _stability_scores,
    }[ranking](records, rows, columns)
    scores = np.full(univariate.size, -np.inf)
    scores[columns] = inner
    return scores


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


def _importance_scores(records, rows, columns):
    """Return importances of the estimator itself where it has some, else of random trees."""
    model = _fitted(records, rows, columns)
    found = _importances(model)
    if found is None or found.size != columns.size:
        kind = ExtraTreesClassifier if records.classification else ExtraTreesRegressor
        trees = kind(100, random_state=0)
        trees.fit(records.columns(columns, rows), np.asarray(records.y)[rows])
        found = trees.feature_importances_
    return found


def _elimination_scores(records, rows, columns):
    """Return in which round each column is eliminated, a quarter of them in each."""
    scores = np.zeros(columns.size)
    left, turn = np.arange(columns.size), 0
    while left.size:
        found = _importances(_fitted(records, rows, columns[left]))
        if found is None or found.size != left.size:
            found = _ridge_importances(records, rows, columns[left])
        order = np.argsort(found, kind="stable")
        out = left[order[: max(1, int(_ROUND * left.size))]]
        # Within a round, the weaker go first.
        scores[out] = turn + np.arange(1, out.size + 1) / (out.size + 1.0)
        left, turn = np.setdiff1d(left, out), turn + 1
    return scores


def _stability_scores(records, rows, columns):
    """Return how often each column is among the first of the L1 path of half the records."""
    rng = np.random.default_rng(0)
    first = min(columns.size, max(5, rows.size // 8, math.isqrt(columns.size)))
    frequency, places = np.zeros((2, columns.size))
    for _ in range(_SUBSAMPLES // 2):
        shuffled = rng.permutation(rows)
        for half in (shuffled[: rows.size // 2], shuffled[rows.size // 2 :]):
            scores = _l1_scores(records, half, columns)
            order = np.argsort(-scores, kind="stable")[:first]
            order = order[np.isfinite(scores[order])]
            frequency[order] += 1.0 / _SUBSAMPLES
            places[order] += 1.0 - np.arange(order.size) / first
    return np.where(frequency > 0, frequency + places / (2.0 * _SUBSAMPLES**2), -np.inf)


def _ridge_importances(records, rows, columns):
    """Return sizes of ridge coefficients, for estimators without coefficients."""
    X = records.columns(columns, rows)
    model = Ridge(alpha=1.0).fit(X, records.targets[rows])
    return (np.atleast_2d(model.coef_) ** 2).sum(axis=0)


def _fitted(records, rows, columns):
    """Return the estimator fitted on some records and columns, or None where it cannot be."""
    last = type(_last(records.estimator))
    if not (hasattr(last, "coef_") or hasattr(last, "feature_importances_") or _is_linear(last)):
        return None
    X = safe_indexing(safe_indexing(records.original, columns, axis=1), rows)
    return clone(records.estimator).fit(X, safe_indexing(records.y, rows))


def _is_linear(kind):
    """Return whether an estimator sets ``coef_`` when it is fitted."""
    return kind.__module__.startswith("sklearn.linear_model")


def _last(estimator):
    """Return the last step of a pipeline, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def _importances(model):
    """Return one importance per column of a fitted model, or None."""
    last = _last(model)
    if hasattr(last, "feature_importances_"):
        return np.asarray(last.feature_importances_, dtype=float)
    if hasattr(last, "coef_"):
        coef = last.coef_
        coef = coef.toarray() if scipy.sparse.issparse(coef) else np.asarray(coef, dtype=float)
        return (np.atleast_2d(coef) ** 2).sum(axis=0)
    return None


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
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        if all(kind in "biuf" for kind in kinds):
            values = np.asarray(X, dtype=float)
        else:
            columns = [safe_indexing(X, place, axis=1) for place in range(X.shape[1])]
            values = np.column_stack(list(map(_codes, columns, kinds)))
    else:
        values = np.asarray(X)
        if values.dtype.kind not in "biuf":
            values = np.column_stack([_codes(column, "O") for column in values.T])
    values = values.astype(float)  # a copy
    with np.errstate(all="ignore"):
        center = np.nanmean(values, axis=0) if np.isnan(values).any() else values.mean(axis=0)
    values -= np.where(np.isfinite(center), center, 0.0)
    np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return values


def _codes(column, kind):
    """Return a column as numbers; categories by their place in alphabetical order."""
    if kind in "biuf":
        return np.asarray(column, dtype=float)
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return np.unique(np.asarray(column).astype(str), return_inverse=True)[1].astype(float)
