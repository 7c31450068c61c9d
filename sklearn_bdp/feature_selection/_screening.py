"""Associations of single attributes with the target as bounded statistical queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from scipy.special import ndtr, ndtri

from sklearn_bdp._sklearn_compat import safe_indexing
from sklearn_bdp.metrics import Evaluation

__all__ = [
    "Association",
    "HoldoutQueries",
    "TargetScores",
    "associate",
    "critical_level",
    "target_scores",
]

#: Numbers held at a time while columns are looked at (64 MB).
_BLOCK = 2**23


@dataclass(frozen=True)
class TargetScores:
    """How targets become numbers in [-1, 1] whose mean on the training part is 0.

    Centring makes a query answer 1/2 for an attribute that is independent of the target, however
    unbalanced the classes are.

    Attributes
    ----------
    classes : ndarray or None
        Classes with a column each; one column for two classes. ``None``: numbers.
    center, scale : float
        For numbers: what is subtracted, and the unit.
    means : ndarray of shape (n_columns,)
        Means of the raw scores on the training part.
    """

    classes: np.ndarray | None
    center: float
    scale: float
    clip: float | None
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

    Parameters
    ----------
    y : ndarray of shape (n,)
        Training targets.
    classification : bool
        Whether they are classes.
    clip : float or None
        Standard deviations at which numbers are clipped; ``None``: only signs count.
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
    """What the training part says about each attribute.

    Attributes
    ----------
    effect : ndarray of shape (n_features,)
        Mean of the product of the scores of attribute and target, in [-1, 1].
    error : ndarray of shape (n_features,)
        Its standard error.
    column : ndarray of int, shape (n_features,)
        Which column of the target's scores it speaks of (for more than two classes the one with
        the clearest association).
    center, scale : ndarray of shape (n_features,)
        What is subtracted from an attribute, and its unit.
    clip : float or None
        As in :func:`target_scores`.
    n_columns : int
        Columns that were compared.
    """

    effect: np.ndarray
    error: np.ndarray
    column: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    clip: float | None
    n_columns: int

    def p_values(self):
        """Return two-sided p-values, corrected for the choice of a class."""
        ratio = np.divide(
            np.abs(self.effect), self.error, out=np.zeros_like(self.error), where=self.error > 0
        )
        return np.minimum(1.0, 2.0 * ndtr(-ratio) * self.n_columns)

    def smallest(self, level):
        """Return the smallest effect of each attribute that has a p-value of ``level``."""
        return -ndtri(level / (2.0 * self.n_columns)) * self.error


def associate(X, scores, *, clip, n_effective):
    """Return the :class:`Association` of each column of ``X`` with the target.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
        Training part.
    scores : ndarray of shape (n, n_columns)
        Target scores.
    clip : float or None
        Standard deviations at which attributes are clipped; ``None``: only signs count.
    n_effective : float
        Effective number of training records.
    """
    n, width = scores.shape
    parts = []
    for columns in _blocks(X):
        values = dense_columns(X, columns)
        center, scale = _center_and_scale(values, clip)
        bounded = _bounded(values - center, scale, clip)
        effects = bounded.T @ scores / n
        variances = (bounded**2).T @ scores**2 / n - effects**2 + 1.0 / n
        errors = np.sqrt(variances / min(n, n_effective))
        chosen = np.argmax(np.abs(effects) / errors, axis=1)
        rows = np.arange(len(columns))
        parts.append((effects[rows, chosen], errors[rows, chosen], chosen, center, scale))
    effect, error, column, center, scale = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    return Association(effect, error, column, center, scale, clip, width)


def critical_level(p_values, alpha):
    """Return the largest p-value that passes at a false discovery rate of ``alpha``.

    Parameters
    ----------
    p_values : ndarray of shape (n_features,)
        P-values of the training part.
    alpha : float
        Rate.

    Returns
    -------
    float
        The level of Benjamini and Hochberg 1995, the step-up procedure; 0 where nothing passes.
    """
    ordered = np.sort(p_values)
    levels = alpha * np.arange(1, ordered.size + 1) / ordered.size
    below = np.flatnonzero(ordered <= levels)
    return float(levels[below[-1]]) if below.size else 0.0


class HoldoutQueries(Sequence):
    """One bounded query per attribute, computed when it is asked for.

    Ten thousands of attributes times thousands of records would not fit into memory at once.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
        Holdout records.
    scores : ndarray of shape (n, n_columns)
        Their target scores.
    association : Association
        Gives centre, unit and direction of each attribute.
    """

    def __init__(self, X, scores, association):
        self._X, self._scores, self._association = X, scores, association
        self._block = (range(0), None)

    def __len__(self):
        return self._association.effect.size

    def __getitem__(self, place):
        """Return the :class:`Evaluation` of one attribute, oriented as on the training part."""
        if not 0 <= place < len(self):
            raise IndexError(place)
        columns, values = self._block
        if place not in columns:
            columns = next(block for block in _blocks(self._X) if place in block)
            values = dense_columns(self._X, columns)
            self._block = (columns, values)
        found = self._association
        bounded = _bounded(
            values[:, place - columns.start] - found.center[place], found.scale[place], found.clip
        )
        product = bounded * self._scores[:, found.column[place]]
        per_record = (1.0 + np.where(found.effect[place] < 0, -product, product)) / 2.0
        per_record = np.clip(per_record, 0.0, 1.0)
        n = per_record.size
        return Evaluation(per_record=per_record, value=float(per_record.mean()), sensitivity=1 / n)


def dense_columns(X, columns):
    """Return some columns of ``X`` as a dense float array."""
    part = safe_indexing(X, np.asarray(columns), axis=1)
    if scipy.sparse.issparse(part):
        part = part.toarray()
    return np.asarray(part, dtype=float)


def _blocks(X):
    """Yield ranges of columns that are looked at together."""
    n, width = X.shape
    step = max(1, _BLOCK // n)
    for start in range(0, width, step):
        yield range(start, min(start + step, width))


def _center_and_scale(values, clip):
    """Return the middle and the unit of each column, missing values left out."""
    if clip is None:
        return np.nanmedian(values, axis=0), np.ones(values.shape[1])
    scale = np.nanstd(values, axis=0)
    return np.nanmean(values, axis=0), np.where(scale > 0, scale, 1.0)


def _bounded(deviation, scale, clip):
    """Return signs, or clipped standard scores divided by ``clip``; 0 for missing values."""
    deviation = np.nan_to_num(deviation, nan=0.0)
    if clip is None:
        return np.sign(deviation)
    return np.clip(deviation / (scale * clip), -1.0, 1.0)
