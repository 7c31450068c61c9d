"""Numbers of mechanisms: what they are asked, the grids they live on, what they answer.

Two grids with different tasks. The *cells* (width ``resolution``, a few hundred of them) are
what theory G2 counts. The *fine grid* (a power of two near 1e-13) makes every number that
touches the holdout an exact multiple of one step, so that the low-order bits of a floating-point
result carry nothing (Mironov 2012).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_real
from sklearn_bdp._typing import Array

_FINEST = 2.0**-44
_FAR = 100.0  # predictions and thresholds beyond this would leave the exact range of the grid


def check_resolution(resolution):
    """Return a width of cells that is 0 (no cells) or no finer than the fine grid.

    Cells below the fine grid's step would round nothing, and their number is out of range.
    """
    resolution = check_real("resolution", resolution, low=0.0, high=1.0)
    if 0.0 < resolution < _FINEST:
        raise ValueError(
            f"resolution must be 0 (no cells) or at least 2**-44, the step of the grid that all "
            f"noise lives on, got resolution={resolution!r}."
        )
    return resolution


def n_cells(resolution: float) -> int:
    r"""Return the number of answers that can be released, ``V = ceil(1 / resolution)``.

    Parameters
    ----------
    resolution : float in [2**-44, 1]
        Width of a cell, in units of the score.

    Returns
    -------
    int
        The :math:`V` of theory G2.

    Raises
    ------
    ValueError
        If ``resolution`` is outside [2**-44, 1].

    Examples
    --------
    >>> from sklearn_bdp.mechanisms import n_cells
    >>> n_cells(0.1), n_cells(0.3)
    (10, 4)
    """
    if not check_resolution(resolution) > 0.0:
        raise ValueError("resolution must be positive to have cells, got resolution=0.0.")
    # The slack forgives the rounding of 1/resolution: 1/(1/49) must be 49 cells, not 50.
    return math.ceil(1.0 / resolution * (1.0 - 1e-12))


def _midpoint(cells, resolution):
    """Return the value of each cell; the last one may stick out of [0, 1]."""
    return np.minimum((cells + 0.5) * resolution, 1.0)


def to_cell(values: ArrayLike, resolution: float) -> Array:
    r"""Return the index of the cell each value falls into, after clipping to [0, 1].

    Parameters
    ----------
    values : array-like of any shape
        Values in units of the score; they may lie outside [0, 1].
    resolution : float in (0, 1]
        Width of a cell.

    Returns
    -------
    ndarray of int
        Cell ``k`` is :math:`[k\eta, (k+1)\eta)`, released as its midpoint, at most 1. Values
        below 0 fall into the first cell, values of 1 and above into the last one.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms import to_cell
    >>> to_cell([-0.2, 0.24, 0.25, 1.0, 7.0], 0.25)
    array([0, 0, 1, 3, 3])
    """
    last = n_cells(resolution) - 1
    cells = np.floor(np.asarray(values, dtype=float) / resolution)
    return np.clip(cells, 0, last).astype(np.intp)


def fine_step(*magnitudes):
    """Return the fine grid's step for numbers of at most these magnitudes.

    A power of two, so that multiples up to 2**52 steps are exact doubles. 2**-44 unless scales
    beyond 4 ask for more room: noise of 64 scales (probability below 1e-27) must stay exact.
    """
    largest = max(4.0, *magnitudes)
    return _FINEST * 2.0 ** math.ceil(math.log2(largest / 4.0))


def to_grid(values, step):
    """Round values to multiples of the fine grid's step.

    Halves go up everywhere, so that values ``d`` apart are at most ``ceil(d / step)`` steps apart.
    """
    return np.floor(values / step + 0.5) * step


def released_value(noisy, resolution):
    """Return the value to release: the cell's midpoint, or the clipped number without cells."""
    if resolution > 0.0:
        return _midpoint(to_cell(noisy, resolution), resolution)
    return np.clip(noisy, 0.0, 1.0)


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


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What a mechanism released for a batch of queries.

    Scalars when the batch was a scalar pair, read-only arrays of shape ``(m,)`` otherwise.

    Parameters
    ----------
    values : ndarray of shape (m,) or float
        Released values in units of the score in [0, 1]; NaN where not answered.
    above : ndarray of shape (m,) or bool
        Whether the value was taken from the holdout (and spent budget); False where not answered.
    answered : ndarray of shape (m,) or bool
        False where the budget was used up before the query.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms import Answers
    >>> Answers(values=0.8, above=False, answered=True)
    Answers(values=0.8, above=False, answered=True)
    """

    values: Any
    above: Any
    answered: Any

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        """Return the number of queries; a scalar pair has no length."""
        return len(self.values)

    def scalar(self) -> Answers:
        """Return the record of the only query, as Python scalars.

        Returns
        -------
        Answers
            The same record with ``float`` and ``bool`` entries.
        """
        return Answers(
            values=self.values.item(), above=self.above.item(), answered=self.answered.item()
        )
