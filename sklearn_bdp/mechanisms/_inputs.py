"""Checks of what mechanisms are asked: finite, in range, before anything is spent."""

import numpy as np

from sklearn_bdp._checks import check_array

_FAR = 100.0  # predictions and thresholds beyond this would leave the exact range of the grid


def check_values(name, values, *, low=0.0, high=1.0):
    """Return a finite float array in a range, checked in two passes where all is well."""
    array = np.asarray(values)
    if (
        (
            array.dtype == np.float64
            and array.size
            and not (array.min() >= low and array.max() <= high)
        )
        or array.dtype != np.float64
        or isinstance(values, np.ma.MaskedArray)
    ):
        # The slow check words the error; NaN fails the positive condition and ends here.
        array = check_array(name, values, low=low, high=high)
    return array


def check_pair(training_values, holdout_values):
    """Return (training, holdout, scalar): 1-d float arrays of one length."""
    training = check_values("training_values", training_values, low=-_FAR, high=_FAR)
    holdout = check_values("holdout_values", holdout_values)
    if training.shape != holdout.shape or not training.ndim <= 1:
        raise ValueError(
            "training_values and holdout_values must be two numbers or two 1-d arrays of the same "
            f"length, got shapes {training.shape} and {holdout.shape}."
        )
    scalar = training.ndim == 0
    return np.atleast_1d(training), np.atleast_1d(holdout), scalar


def check_thresholds(thresholds, default, shape):
    """Return the thresholds as a 0-d array or an array of the batch's shape."""
    if thresholds is None:
        return np.asarray(default)
    array = check_values("thresholds", thresholds, low=0.0, high=_FAR)
    if array.ndim and array.shape != shape:
        raise ValueError(f"thresholds must have shape {shape}, got {array.shape}.")
    return array
