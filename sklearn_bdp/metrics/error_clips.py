"""Limits at which errors are clipped, from out-of-fold errors of the training set (theory G31).

A proven interval of a mean error needs a largest error, and widens with it. If none is declared,
the range of the training targets is one, but it can be much larger than the errors of a good model.
A limit from out-of-fold errors can be smaller. It is public and fixed before the holdout is
queried. The interval is then about the mean of the clipped errors.
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

#: A clip is the factor times a quantile of out-of-fold training errors. The quantile has the first
#: probability for absolute errors, the second one for squared errors.
CLIP_FACTOR, ABSOLUTE_QUANTILE, SQUARED_QUANTILE = 1.5, 0.99, 0.999
#: Note of a metric before the clip is computed.
CLIP_NOTE = (
    "scoring=None ranks by neg_mean_absolute_error if records come in time, because R² has no "
    "interval there before the final report. Each error counts at most a limit from out-of-fold "
    "errors of the training set. To set the limit, pass "
    "scoring=get_metric('neg_mean_absolute_error', bounds=(low, high))"
)
#: Fewest errors for a quantile.
_MIN_ERRORS = 30


class ErrorClips(NamedTuple):
    """Clips of absolute and of squared errors, from out-of-fold errors of the training set.

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
            Targets minus predictions of training records, or their absolute values, which may be
            clipped.

        Returns
        -------
        ErrorClips or None
            None for fewer than 30 finite errors, and if the 99% quantile of their absolute values
            is 0.
        """
        absolute_errors = np.abs(np.asarray(errors, dtype=float))
        absolute_errors = absolute_errors[np.isfinite(absolute_errors)]
        if len(absolute_errors) < _MIN_ERRORS:
            return None
        absolute_clip = CLIP_FACTOR * float(np.quantile(absolute_errors, ABSOLUTE_QUANTILE))
        squared_clip = CLIP_FACTOR * float(np.quantile(absolute_errors**2, SQUARED_QUANTILE))
        if not absolute_clip > 0.0:
            return None
        return cls(
            absolute=absolute_clip,
            squared=squared_clip,
            n_errors=len(absolute_errors),
            n_above_absolute=int(np.count_nonzero(absolute_errors > absolute_clip)),
            n_above_squared=int(np.count_nonzero(absolute_errors**2 > squared_clip)),
        )

    def largest_error(self, metric: ClippedError) -> float:
        """Return the largest absolute error that counts in a metric with these clips.

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
        """Return the fraction of out-of-fold training errors beyond the clip for a metric.

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
        """Return the metric with errors clipped at these limits, or unchanged.

        Parameters
        ----------
        metric : BoundedMetric or None
            Any metric.

        Returns
        -------
        BoundedMetric or None
            A metric with the clip, if the metric is a mean of errors of one output without a
            declared range and the clip is smaller than that of the metric. Otherwise the metric
            unchanged.
        """
        if not has_undeclared_range(metric):
            return metric
        width = self.largest_error(metric)  # in units of the target
        if not width < metric.width:
            return metric
        lower = -(width**metric.power)  # the worst score
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
        True if the limit follows from the training set; False for other metrics and for None.
    """
    return isinstance(metric, ClippedError) and metric.has_undeclared_range


def errors_of_scores(per_record: Array, metric: ClippedError) -> Array | None:
    """Return the clipped absolute errors that give the scores of records.

    Parameters
    ----------
    per_record : ndarray of shape (n,)
        Scores in [0, 1].
    metric : ClippedError
        Of absolute, squared or pinball errors of one output.

    Returns
    -------
    ndarray of shape (n,) or None
        Errors in units of the target. None for a pinball loss, from which they do not follow.
    """
    if isinstance(metric, PinballLoss):
        return None
    losses = 1.0 - np.asarray(per_record, dtype=float)
    return np.asarray(metric.width * losses ** (1.0 / metric.power))
