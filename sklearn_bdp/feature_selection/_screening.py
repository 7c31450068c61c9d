"""Associations of single attributes with the target as bounded statistical queries."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from scipy.special import ndtr

from sklearn_bdp._sklearn_compat import is_frame, safe_indexing
from sklearn_bdp.feature_selection._rankings import column_blocks
from sklearn_bdp.metrics import Evaluation

#: Of cells, in standard deviations on the holdout: at most, at least, and how far a useless
#: attribute gets in one case of ten.
WIDEST, LEAST, USELESS = 2.0, 0.5, 1.3


@dataclass(frozen=True)
class TargetScores:
    """How targets become numbers in [-1, 1] whose mean on the training part is 0.

    Centring makes a query answer 1/2 for an attribute that is independent of the target, however
    unbalanced the classes are.
    """

    #: Classes with a column each; one column for two classes. ``None``: numbers.
    classes: np.ndarray | None
    center: float  # what is subtracted from numbers; ``scale`` is their unit
    scale: float
    clip: float | None
    #: (n_columns,): means of the raw scores on the training part.
    means: np.ndarray = field(repr=False)

    def raw(self, y):
        """Return scores before centring, of shape (n, n_columns)."""
        y = np.asarray(y)
        if self.classes is not None:
            return np.where(y[:, None] == self.classes[None, :], 1.0, -1.0)
        return _bounded(y.astype(float) - self.center, self.scale, self.clip)[:, None]

    def __call__(self, y):
        """Return scores of shape (n, n_columns), in [-1, 1]."""
        return (self.raw(y) - self.means) / (1.0 + np.abs(self.means))


def target_scores(y, *, classification, clip):
    """Return the :class:`TargetScores` learned from training targets.

    ``clip``: standard deviations at which numbers are clipped; ``None``: only signs count.
    """
    if classification:
        classes = np.unique(y)
        classes = classes[1:] if classes.size == 2 else classes
        blank = TargetScores(classes, 0.0, 1.0, clip, np.zeros(classes.size))
    else:
        center, scale = _center_and_scale(np.asarray(y, dtype=float)[:, None], clip)
        blank = TargetScores(None, float(center[0]), float(scale[0]), clip, np.zeros(1))
    means = blank.raw(y).mean(axis=0)
    return TargetScores(blank.classes, blank.center, blank.scale, clip, means)


@dataclass(frozen=True)
class Association:
    """What the training part says about each attribute."""

    #: (n_features,): mean of the product of the scores of attribute and target, in [-1, 1].
    effect: np.ndarray
    variances: np.ndarray  # (n_features,): of the products
    error: np.ndarray  # (n_features,): the standard error of their mean
    #: (n_features,): which column of the target's scores it speaks of (for more than two classes
    #: the one with the clearest association).
    column: np.ndarray
    center: np.ndarray  # (n_features,): what is subtracted from an attribute
    scale: np.ndarray  # (n_features,): its unit
    clip: float | None  # as in :func:`target_scores`
    n_columns: int  # columns that were compared

    def p_values(self):
        """Return two-sided p-values, corrected for the choice of a class."""
        ratio = np.divide(
            np.abs(self.effect), self.error, out=np.zeros_like(self.error), where=self.error > 0
        )
        return np.minimum(1.0, 2.0 * ndtr(-ratio) * self.n_columns)

    def keys(self, base, names, places):
        """Return a key for each of some attributes: what is asked, its name, units, direction."""
        units = np.column_stack([self.center, self.scale, self.column, self.effect < 0])
        rows = np.ascontiguousarray(units.astype("<f8"))
        start = hashlib.sha256(base.encode())
        keys = []
        for place in places:
            state = start.copy()
            state.update(rows[place].tobytes())
            state.update(str(names[place]).encode("utf-8", "surrogatepass"))
            keys.append(state.hexdigest())
        return keys

    def cells(self, candidates, deviations):
        """Return half-widths of the cells that candidates are asked with.

        At most two standard deviations of their own on the holdout, and no wider than leaves
        outside what useless attributes reach in nine cases of ten: what the cell holds, replicates.
        """
        apart = np.abs(self.effect[candidates]) - USELESS * deviations
        return np.clip(apart, LEAST * deviations, WIDEST * deviations)


def associate(X, scores, *, clip, n_effective, tell=None):
    """Return the :class:`Association` of each column of ``X`` with the target's ``scores``.

    ``tell`` is called with the number of attributes that are done.
    """
    n, width = scores.shape
    parts = []
    for columns in column_blocks(X):
        values = dense_columns(X, columns)
        center, scale = _center_and_scale(values, clip)
        bounded = _bounded(values - center, scale, clip)
        effects = bounded.T @ scores / n
        variances = (bounded**2).T @ scores**2 / n - effects**2 + 1.0 / n
        errors = np.sqrt(variances / min(n, n_effective))
        chosen = np.argmax(np.abs(effects) / errors, axis=1)
        rows = np.arange(len(columns))
        picked = (part[rows, chosen] for part in (effects, variances, errors))
        parts.append((*picked, chosen, center, scale))
        if tell is not None:
            tell(columns.stop)
    return Association(*(np.concatenate(part) for part in zip(*parts, strict=True)), clip, width)


def critical_level(p_values, alpha):
    """Return the largest p-value that passes at a false discovery rate of ``alpha``, or 0.

    The step-up procedure of Benjamini and Hochberg 1995.
    """
    ordered = np.sort(p_values)
    levels = alpha * np.arange(1, ordered.size + 1) / ordered.size
    below = np.flatnonzero(ordered <= levels)
    return float(levels[below[-1]]) if below.size else 0.0


class HoldoutQueries(Sequence):
    """One bounded query per candidate, oriented as on the training part."""

    def __init__(self, X, scores, association, candidates):
        self._X, self._scores = X, scores
        self._association, self._candidates = association, candidates

    def __len__(self):
        return self._candidates.size

    def __getitem__(self, place):
        """Return the :class:`Evaluation` of one candidate."""
        found, column = self._association, self._candidates[place]
        values = dense_columns(self._X, range(column, column + 1))
        bounded = _bounded(values[:, 0] - found.center[column], found.scale[column], found.clip)
        direction = -1.0 if found.effect[column] < 0 else 1.0
        oriented = direction * bounded * self._scores[:, found.column[column]]
        per_record = np.clip((1.0 + oriented) / 2.0, 0.0, 1.0)
        value = float(per_record.mean())
        return Evaluation(per_record=per_record, value=value, sensitivity=1 / per_record.size)


def by_columns(X):
    """Return ``X`` so that taking some of its columns takes time in proportion to them.

    Frames of numbers become arrays (names have done their work), sparse rows become columns.
    """
    if scipy.sparse.issparse(X):
        return X.tocsc()
    return np.asarray(X, dtype=float) if is_frame(X) else X


def dense_columns(X, columns):
    """Return some adjacent columns of ``X`` as a dense float array."""
    if scipy.sparse.issparse(X):
        return np.asarray(X[:, columns.start : columns.stop].toarray(), dtype=float)
    if isinstance(X, np.ndarray):
        return np.asarray(X[:, columns.start : columns.stop], dtype=float)
    return np.asarray(safe_indexing(X, np.asarray(columns), axis=1), dtype=float)


def _center_and_scale(values, clip):
    """Return the middle and the unit of each column, missing values left out."""
    if clip is None:
        return _medians(values), np.ones(values.shape[1])
    scale = np.nanstd(values, axis=0)
    return np.nanmean(values, axis=0), np.where(scale > 0, scale, 1.0)


def _medians(values):
    """Return the median of each column; row by row of the transpose is five times as fast."""
    rows = np.ascontiguousarray(values.T)
    missing = np.isnan(rows).any(axis=1)
    if not missing.any():
        return np.median(rows, axis=1)
    medians = np.empty(rows.shape[0])
    medians[~missing] = np.median(rows[~missing], axis=1)
    medians[missing] = np.nanmedian(rows[missing], axis=1)
    return medians


def _bounded(deviation, scale, clip):
    """Return signs, or clipped standard scores divided by ``clip``; 0 for missing values."""
    bounded = np.sign(deviation) if clip is None else np.clip(deviation / (scale * clip), -1.0, 1.0)
    bounded[np.isnan(bounded)] = 0.0
    return bounded
