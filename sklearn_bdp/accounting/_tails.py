"""Tails of fixed queries as frozen values: limits at a coded failure probability, and a scale.

A tail is made of public quantities only (the metric, the declared correlation, ``n``, released
floors of class counts), never of the holdout's values.
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_array
from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.correlation import CorrelationModel


class Tail(abc.ABC):
    """What limits a query's expectation, once its value on the holdout is known to a cell.

    All limits are one-sided: a two-sided interval of failure probability ``f`` asks both sides at
    ``log(f / 2)``. They are monotone in the value and in the failure probability.
    """

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        """Return lower limits for the expectations of fixed queries.

        Parameters
        ----------
        values : float or array-like
            Lower ends of what the queries' holdout values may be, in [0, 1].
        log_failure : float or array-like
            Log of the one-sided failure probability, at most 0; broadcast against ``values``.

        Returns
        -------
        ndarray
            Limits in [0, 1], at most ``values``.
        """
        values = check_array("values", values, low=0.0, high=1.0)
        levels = check_array("log_failure", log_failure, high=0.0)
        return self._lower(*np.broadcast_arrays(values, levels))

    @abc.abstractmethod
    def _lower(self, values, levels):
        """Return lower limits for arrays of one shape, which are checked."""

    def upper_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        """Return upper limits for the expectations of fixed queries.

        Parameters
        ----------
        values, log_failure : float or array-like
            As for `lower_limit`, with upper ends.

        Returns
        -------
        ndarray
            Limits in [0, 1], at least ``values``.
        """
        values = check_array("values", values, low=0.0, high=1.0)
        # One minus the score is a score of the same kind.
        return 1.0 - self.lower_limit(1.0 - values, log_failure)

    def limits(self, least: Array, most: Array, log_failure: Array) -> tuple[Array, Array]:
        """Return lower and upper limits in one go.

        Parameters
        ----------
        least, most : ndarray of shape (m,)
            Ends of what the queries' holdout values may be, in [0, 1].
        log_failure : ndarray of shape (m,)
            Log of the one-sided failure probability, at most 0.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            Limits in [0, 1].
        """
        count = len(least)
        both = self.lower_limit(np.concatenate([least, 1.0 - most]), np.tile(log_failure, 2))
        return both[:count], 1.0 - both[count:]

    @abc.abstractmethod
    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        """Return the predictive scale of the holdout value.

        Parameters
        ----------
        prediction : float or array-like
            Public predictions of the value, in [0, 1].

        Returns
        -------
        ndarray
            Standard deviations of the value around its expectation, always positive: a public
            guess that prices releases (theory G7), no bound.
        """


def _spread(prediction, effective_n):
    """Return the deviation of a mean of ``effective_n`` bits, drawn slightly towards 1/2."""
    prediction = check_array("prediction", prediction, low=0.0, high=1.0)
    drawn = (prediction * effective_n + 1.0) / (effective_n + 2.0)
    return np.sqrt(drawn * (1.0 - drawn) / effective_n)


@dataclasses.dataclass(frozen=True)
class ModelTail(Tail):
    """The tail of a mean of per-record scores under a correlation model (theory G5, G8, G12).

    ``binary``: every per-record score is 0 or 1, a public fact about the metric.
    """

    model: CorrelationModel
    n: int
    binary: bool = False

    def lower_limit(self, values: FloatOrArray, log_failure: FloatOrArray) -> Array:
        return self._lower(values, log_failure)  # the model checks them

    def _lower(self, values, levels):
        return self.model.mean_lower_limit(values, levels, self.n, binary=self.binary)

    def standard_deviation(self, prediction: FloatOrArray) -> Array:
        return _spread(prediction, self.model.effective_n(self.n))


def half_width(log_failure: FloatOrArray, model: CorrelationModel, n: int) -> Array:
    """Smallest ``alpha`` with ``model.log_tail(alpha, n) <= log_failure`` (theory H1-H5).

    In score units, ``inf`` where even 1 is not enough.
    """
    level = np.atleast_1d(np.asarray(log_failure, dtype=float))
    most = np.ones_like(level)
    alpha = last_accepted(lambda half: model.log_tail(half, n) <= level, most, 0.0)
    reached = model.log_tail(most, n) <= level
    return np.where(reached, alpha, np.inf)
