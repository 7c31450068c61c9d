"""What earlier answers teach about the next score (public on both sides)."""

import numpy as np

from sklearn_bdp._checks import check_array

__all__ = ["OffsetPredictor"]

# Training-side values this far apart teach each other little.
BANDWIDTH = 0.1
# Weight of the belief that a training-side value needs no correction.
PRIOR = 0.01
# Released pairs that are remembered: each "above" answer costs nats, so there are few.
_REMEMBERED = 512


class OffsetPredictor:
    r"""Predict a holdout score from a training-side value and the answers already released.

    The prediction is the training-side value plus an average of the differences (released minus
    training-side) of earlier "above" answers, clipped to [0, 1]. Scores of similar candidates on
    one holdout move together, so one released difference explains the rest; a candidate that is
    far worse says little about the good ones, so differences count by nearness:

    .. math:: v' = v + \frac{\sum_i K_i d_i}{0.01 + \sum_i K_i}, \quad
              K_i = e^{-(v - v_i)^2 / (2 \cdot 0.1^2)}.

    Parameters
    ----------
    training_values, differences : list of float
        What was learned before (to continue from ``state()``).

    References
    ----------
    Theory G4 (any function of the training data and of released answers is as valid).

    Examples
    --------
    >>> predictor = OffsetPredictor()
    >>> predictor.update(0.95, 0.90)
    >>> predictor.predict([0.93, 0.1]).round(2).tolist()
    [0.88, 0.1]
    """

    def __init__(self, training_values=(), differences=()):
        self._values = list(check_array("training_values", training_values, ndim=1))
        self._differences = list(
            check_array("differences", differences, shape=(len(self._values),))
        )

    def update(self, training_value, released_value):
        """Learn from one "above" answer.

        Parameters
        ----------
        training_value, released_value : float
            Its training-side value and its released value.
        """
        v = float(check_array("training_value", training_value, ndim=0))
        a = float(check_array("released_value", released_value, ndim=0))
        self._values = [*self._values[1 - _REMEMBERED :], v]
        self._differences = [*self._differences[1 - _REMEMBERED :], a - v]

    def predict(self, training_values):
        """Predict the released values of new queries.

        Parameters
        ----------
        training_values : array-like
            Their training-side values.

        Returns
        -------
        ndarray
            Predictions in [0, 1], the shape of ``training_values``.
        """
        values = check_array("training_values", training_values)
        weight, total = np.full(values.shape, PRIOR), np.zeros(values.shape)
        for v, d in zip(self._values, self._differences, strict=True):
            nearness = np.exp(-0.5 * ((values - v) / BANDWIDTH) ** 2)
            weight += nearness
            total += nearness * d
        return np.clip(values + total / weight, 0.0, 1.0)

    def state(self):
        """Return the arguments that rebuild this predictor.

        Returns
        -------
        dict
            JSON-able; public, like the answers it was learned from.
        """
        return {
            "training_values": [float(v) for v in self._values],
            "differences": [float(d) for d in self._differences],
        }
