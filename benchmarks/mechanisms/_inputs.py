"""Checks of the inputs of all mechanisms, made before any budget is spent."""

import numpy as np

from sklearn_bdp.utils.validation import check_array

_FAR = 100.0


def check_pair(training_values, holdout_values):
    """Return two 1-d float arrays of equal length, and whether the inputs were scalars."""
    training = check_array("training_values", training_values, low=-_FAR, high=_FAR)
    holdout = check_array("holdout_values", holdout_values, low=0.0, high=1.0)
    if training.shape != holdout.shape or not training.ndim <= 1:
        raise ValueError(
            "training_values and holdout_values must be two numbers or two 1-d arrays of the same "
            f"length, got shapes {training.shape} and {holdout.shape}."
        )
    return np.atleast_1d(training), np.atleast_1d(holdout), training.ndim == 0


def check_thresholds(thresholds, default, shape):
    """Return the thresholds as a 0-d array or an array of the batch's shape."""
    if thresholds is None:
        return np.asarray(default)
    array = check_array("thresholds", thresholds, low=0.0, high=_FAR)
    if array.ndim and array.shape != shape:
        raise ValueError(f"thresholds must have shape {shape}, got {array.shape}.")
    return array
