"""Largest errors that count if no range of errors is declared, from the training set (G31).

A proven interval of a mean error needs a largest error. The range of the training targets is far
above all errors of a good model, and a proven interval widens with it. Out-of-fold errors of the
training set give a limit that few errors exceed. It is public and fixed before the holdout is
queried. The target of such an interval is the mean of the clipped errors.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array
from sklearn_bdp.metrics.base import BoundedMetric
from sklearn_bdp.metrics.means import ClippedError, PinballLoss

#: A clip is this many times a quantile of out-of-fold training errors: of absolute errors, and of
#: squared errors.
CLIP_FACTOR, ABSOLUTE_QUANTILE, SQUARED_QUANTILE = 1.5, 0.99, 0.999
#: Note before the clip is known.
CLIP_NOTE = (
    "scoring=None ranks by neg_mean_absolute_error if records come in time, because R² has no "
    "interval there before the final report. Each error counts at most a limit from out-of-fold "
    "errors of the training set. To set the limit, pass "
    "scoring=get_metric('neg_mean_absolute_error', bounds=(low, high))"
)
#: Fewest errors for a quantile.
_MIN_ERRORS = 30


class ErrorClips(NamedTuple):
    """Clips of absolute and squared errors, the same for all models of a holdout.

    Parameters
    ----------
    absolute, squared : float
        Largest absolute error, and largest squared error, that count.
    n_errors : int
        Number of out-of-fold training errors behind the clips.
    n_above_absolute, n_above_squared : int
        Number of these errors beyond each clip.
    """

    absolute: float
    squared: float
    n_errors: int
    n_above_absolute: int
    n_above_squared: int

    @classmethod
    def from_errors(cls, errors: ArrayLike) -> Self | None:
        """Return the clips of out-of-fold errors of one candidate.

        Parameters
        ----------
        errors : array-like of shape (n_errors,)
            Targets minus predictions of training records, or their absolute values.

        Returns
        -------
        ErrorClips or None
            None for fewer than 30 errors, and if nearly all of them are 0.
        """
        sizes = np.abs(np.asarray(errors, dtype=float))
        sizes = sizes[np.isfinite(sizes)]
        if len(sizes) < _MIN_ERRORS:
            return None
        absolute = CLIP_FACTOR * float(np.quantile(sizes, ABSOLUTE_QUANTILE))
        squared = CLIP_FACTOR * float(np.quantile(sizes**2, SQUARED_QUANTILE))
        if not absolute > 0.0:
            return None
        n_above_absolute = int(np.count_nonzero(sizes > absolute))
        n_above_squared = int(np.count_nonzero(sizes**2 > squared))
        return cls(absolute, squared, len(sizes), n_above_absolute, n_above_squared)

    def largest_error(self, metric: ClippedError) -> float:
        """Return the largest absolute error that a metric counts.

        Parameters
        ----------
        metric : ClippedError
            Of absolute, squared or pinball errors.

        Returns
        -------
        float
            In units of the target.
        """
        return math.sqrt(self.squared) if metric.power == 2 else self.absolute

    def clipped_fraction(self, metric: ClippedError) -> float:
        """Return the share of out-of-fold training errors beyond the clip of a metric.

        Parameters
        ----------
        metric : ClippedError
            Of absolute, squared or pinball errors.

        Returns
        -------
        float
            In [0, 1].
        """
        n_above = self.n_above_squared if metric.power == 2 else self.n_above_absolute
        return n_above / self.n_errors

    def apply(self, metric: Any) -> Any:
        """Return a metric with this clip.

        Parameters
        ----------
        metric : BoundedMetric or None
            Any metric.

        Returns
        -------
        BoundedMetric or None
            The same metric unless it is a mean of errors of one output without a declared range,
            and the clip is smaller than the range of the training targets.
        """
        if not has_undeclared_range(metric):
            return metric
        width = self.largest_error(metric)
        if not width < metric.width:
            return metric
        lower = -(width**metric.power)
        if isinstance(metric, PinballLoss):
            lower *= max(metric.alpha, 1.0 - metric.alpha)
        note = (
            f"errors are clipped at {width:.4g}, from out-of-fold errors of the training set; pass "
            "bounds=(low, high) to change it"
        )
        return dataclasses.replace(metric, width=width, lower=lower, note=note)


def has_undeclared_range(metric: BoundedMetric | None) -> bool:
    """Return whether a metric clips errors of one output at a limit that was not declared.

    Parameters
    ----------
    metric : BoundedMetric or None
        Any metric.

    Returns
    -------
    bool
        True if the limit follows from the training set.
    """
    return isinstance(metric, ClippedError) and metric.has_undeclared_range


def errors_of_scores(per_record: Array, metric: ClippedError) -> Array | None:
    """Return the absolute errors behind scores of records, up to the clip of their metric.

    Parameters
    ----------
    per_record : ndarray of shape (n,)
        Scores in [0, 1].
    metric : ClippedError
        Of absolute, squared or pinball errors.

    Returns
    -------
    ndarray of shape (n,) or None
        In units of the target. None for a pinball loss, which is cheaper on one side.
    """
    if isinstance(metric, PinballLoss):
        return None
    losses = 1.0 - np.asarray(per_record, dtype=float)
    return np.asarray(metric.width * losses ** (1.0 / metric.power))
