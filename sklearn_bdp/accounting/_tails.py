"""Tails of fixed queries as frozen values: limits at a coded failure probability, and a scale.

A tail is made of public quantities only (the metric, the declared correlation, ``n``, class
shares of the training data), never of the holdout's values.
"""

import abc
import dataclasses
import math

import numpy as np

from sklearn_bdp._checks import check_array, check_integer, check_option, check_real
from sklearn_bdp.accounting._intervals import half_width
from sklearn_bdp.correlation import CorrelationModel

__all__ = ["ModelTail", "SensitivityTail", "Tail", "score_tail"]


class Tail(abc.ABC):
    """What limits a query's expectation, once its value on the holdout is known to a cell.

    All limits are one-sided: a two-sided interval of failure probability ``f`` asks both sides at
    ``log(f / 2)``. They are monotone in the value and in the failure probability.
    """

    @abc.abstractmethod
    def lower_limit(self, values, log_failure):
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

    def upper_limit(self, values, log_failure):
        """Return upper limits for the expectations of fixed queries.

        Parameters
        ----------
        values : float or array-like
            Upper ends of what the queries' holdout values may be, in [0, 1].
        log_failure : float or array-like
            Log of the one-sided failure probability, at most 0; broadcast against ``values``.

        Returns
        -------
        ndarray
            Limits in [0, 1], at least ``values``.
        """
        values = check_array("values", values, low=0.0, high=1.0)
        # One minus the score is a score of the same kind.
        return 1.0 - self.lower_limit(1.0 - values, log_failure)

    @abc.abstractmethod
    def standard_deviation(self, prediction):
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
    """The tail of a mean of per-record scores under a correlation model.

    Parameters
    ----------
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    binary : bool, default=False
        Whether every per-record score is 0 or 1; a public fact about the metric.

    References
    ----------
    Theory G5, G8 and G12.
    """

    model: CorrelationModel
    n: int
    binary: bool = False

    def lower_limit(self, values, log_failure):
        return self.model.mean_lower_limit(values, log_failure, self.n, binary=self.binary)

    def standard_deviation(self, prediction):
        return _spread(prediction, self.model.effective_n(self.n))


@dataclasses.dataclass(frozen=True)
class SensitivityTail(Tail):
    """The tail of any query of known sensitivity (McDiarmid's inequality and its kin).

    Parameters
    ----------
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    sensitivity : float
        How far one record can move the query.

    References
    ----------
    Theory, section 5.
    """

    model: CorrelationModel
    n: int
    sensitivity: float

    def lower_limit(self, values, log_failure):
        values = check_array("values", values, low=0.0, high=1.0)
        one_sided = check_array("log_failure", log_failure, high=0.0)
        level = np.minimum(one_sided + math.log(2.0), 0.0)  # the tail below has two sides
        level = np.broadcast_to(level, np.broadcast_shapes(values.shape, level.shape))
        reach = half_width(level.ravel(), self.model, self.n, sensitivity=self.sensitivity)
        return np.maximum(values - reach.reshape(level.shape), 0.0)

    def standard_deviation(self, prediction):
        scale = self.sensitivity * self.n
        return _spread(prediction, self.model.effective_n(self.n) / scale**2)


def score_tail(model, n, *, kind="mean", binary=False, class_counts=None, sensitivity=None):
    """Return the tail of a bounded metric from what is public about it.

    Parameters
    ----------
    model : CorrelationModel
        How the records are correlated.
    n : int
        Number of holdout records.
    kind : {"mean", "bounded"}, default="mean"
        A mean over records, or any query of the given ``sensitivity``.
    binary : bool, default=False
        Whether every per-record score is 0 or 1.
    class_counts : tuple of int, optional
        Records of each class in the training data.
    sensitivity : float, optional
        How far one record can move a query that is no mean.

    Returns
    -------
    Tail
        A frozen value.

    Raises
    ------
    ValueError
        If something needed is missing or outside its range.
    """
    n = check_integer("n", n, low=1)
    kind = check_option("kind", kind, ("mean", "bounded"))
    if kind == "mean":
        return ModelTail(model, n, bool(binary))
    if sensitivity is None:
        raise ValueError("sensitivity must be given for kind='bounded', got None.")
    sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
    return SensitivityTail(model, n, sensitivity)
