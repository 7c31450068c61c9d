"""Numbers of mechanisms: parameters, what they are asked, their grids, what they answer.

Two grids with different tasks. The *cells* (width ``resolution``, a few hundred of them) are
what theory G2 counts. The *fine grid* (a power of two near 1e-13) makes every number that
touches the holdout an exact multiple of one step, so that the low-order bits of a floating-point
result carry nothing (Mironov 2012).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import (
    check_array,
    check_boolean,
    check_integer,
    check_probability,
    check_real,
)
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
        # The last midpoint may stick out of [0, 1].
        return np.minimum((to_cell(noisy, resolution) + 0.5) * resolution, 1.0)
    return np.clip(noisy, 0.0, 1.0)


def check_pair(training_values, holdout_values):
    """Return (training, holdout, scalar): 1-d float arrays of one length."""
    training = check_array("training_values", training_values, low=-_FAR, high=_FAR)
    holdout = check_array("holdout_values", holdout_values, low=0.0, high=1.0)
    if training.shape != holdout.shape or not training.ndim <= 1:
        raise ValueError(
            "training_values and holdout_values must be two numbers or two 1-d arrays of the same "
            f"length, got shapes {training.shape} and {holdout.shape}."
        )
    scalar = training.ndim == 0
    return np.atleast_1d(training), np.atleast_1d(holdout), scalar


def check_thresholds(thresholds, default, shape):
    """Return the thresholds as an array of the batch's shape."""
    given = default if thresholds is None else thresholds
    array = check_array("thresholds", given, low=0.0, high=_FAR)
    if array.ndim and array.shape != shape:
        raise ValueError(f"thresholds must have shape {shape}, got {array.shape}.")
    return np.broadcast_to(array, shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """Answers that a mechanism released for a batch of queries.

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
        for value in vars(self).values():
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


class Presets:
    """Constructors of `Thresholdout` with published parameters."""

    @classmethod
    def zhao2017(
        cls, tau: float, beta: float, n_queries: int, budget: int, c: float = 0.5, **options: Any
    ) -> Self:
        r"""Return Zhao's Algorithm 1 with the parameters of Theorem 2.

        :math:`\sigma = (1-c)\tau / (12 \ln(4m/\beta))`, noise scales σ, 2σ and 4σ, and
        :math:`T = (1+c)\tau/2`.

        Parameters
        ----------
        tau : float in (0, 1]
            Accuracy of the answers.
        beta : float in (0, 1)
            Failure probability.
        n_queries : int
            Number of queries ``m``.
        budget : int
            Number of "above" answers.
        c : float in (0, 1), default=0.5
            Queries that overfit by less than ``c * tau`` do not consume budget.
        **options : object
            ``resolution`` (the paper has none) and ``random_state`` of `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        c = check_probability("c", c)
        tau, log_term = _accuracy(tau, beta, n_queries)
        budget = check_integer("budget", budget, low=1)
        sigma = (1.0 - c) * tau / (12.0 * log_term)
        return cls._scaled((1.0 + c) * tau / 2.0, sigma, (1, 2, 4), budget, options)

    @classmethod
    def dwork2017(
        cls, tau: float, beta: float, n_queries: int, budget: int, **options: Any
    ) -> Self:
        r"""Return Thresholdout of Dwork et al. with the parameters of Theorem 9.

        :math:`\sigma = \tau / (96 \ln(4m/\beta))`, noise scales 2σ, 4σ and σ (Fig. 1), and
        :math:`T = 3\tau/4`. For independent records.

        Parameters
        ----------
        tau, beta, n_queries, budget, **options : object
            As for `zhao2017`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        tau, log_term = _accuracy(tau, beta, n_queries)
        budget = check_integer("budget", budget, low=1)
        return cls._scaled(0.75 * tau, tau / (96.0 * log_term), (2, 4, 1), budget, options)

    @classmethod
    def dwork2017_practical(
        cls,
        threshold: float = 0.04,
        sigma: float = 0.01,
        *,
        budget: int | None = None,
        **options: Any,
    ) -> Self:
        """Return the Gaussian variant of Dwork et al., Section 4.1, which comes without a proof.

        Parameters
        ----------
        threshold : float, default=0.04
            The threshold.
        sigma : float, default=0.01
            Answer noise; threshold and query noise are two and four times that (Fig. 1).
        budget, **options : object
            As for `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        sigma = check_real("sigma", sigma, low=0.0, closed="right")
        options = {"noise": "gaussian", **options}
        return cls._scaled(threshold, sigma, (2, 4, 1), budget, options)

    @classmethod
    def _scaled(cls, threshold, sigma, ratios, budget, options):
        """Return the mechanism whose noise scales are these multiples of ``sigma``."""
        names = ("threshold_scale", "query_scale", "answer_scale")
        scales = {name: ratio * sigma for name, ratio in zip(names, ratios, strict=True)}
        return cls(threshold, **scales, budget=budget, **options)


def _accuracy(tau, beta, n_queries):
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    beta = check_probability("beta", beta)
    n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
    return tau, math.log(4.0 * n_queries / beta)


def thresholdout_epsilon(
    *,
    sensitivity: float,
    budget: int,
    threshold_scale: float,
    query_scale: float,
    answer_scale: float,
    refresh: bool = True,
    n_thresholds: int | None = None,
) -> float:
    r"""Return the pure DP level of a whole transcript of Thresholdout with Laplace noise.

    :math:`\Delta (k_T/\sigma_T + 2B/\sigma_q + B/\sigma_a)` with :math:`k_T` threshold draws that
    queries were compared with and ``B`` "above" answers.

    Parameters
    ----------
    sensitivity : float
        How far one record can move a holdout value, ``1/n`` for a mean of scores in [0, 1].
    budget : int
        Number of "above" answers.
    threshold_scale, query_scale, answer_scale : float
        Laplace scales; 0 means no noise, and the level is infinite once such noise was used.
    refresh : bool, default=True
        Whether the threshold noise is drawn anew after each "above": :math:`k_T = B`, else 1.
    n_thresholds : int or None, default=None
        :math:`k_T` itself, for a transcript that has not ended with its last "above".

    Returns
    -------
    float
        ε′, pure DP for replace-one neighbors.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    See Also
    --------
    Thresholdout : The mechanism.

    References
    ----------
    Theory T1; Zhao 2017, Algorithm 1 and Section 5.2; Lyu, Su and Li 2017, Algorithm 1.

    Examples
    --------
    >>> thresholdout_epsilon(
    ...     sensitivity=0.001, budget=4, threshold_scale=0.01, query_scale=0.02, answer_scale=0.04
    ... )
    0.9
    """
    delta = check_real("sensitivity", sensitivity, low=0.0, closed="neither")
    rounds = check_integer("budget", budget, low=0)
    refresh = check_boolean("refresh", refresh)
    if n_thresholds is None:
        n_thresholds = rounds if refresh else 1
    n_thresholds = check_integer("n_thresholds", n_thresholds, low=0)
    # Theory T1. Moving one record moves every margin by at most Δ. Shift the threshold noise by
    # Δ: all "below" answers of its round are then at least as likely. An "above" query has moved
    # towards or away from the shifted threshold by at most 2Δ, and its released value by Δ.
    terms = (
        (n_thresholds, check_real("threshold_scale", threshold_scale, low=0.0)),
        (2 * rounds, check_real("query_scale", query_scale, low=0.0)),
        (rounds, check_real("answer_scale", answer_scale, low=0.0)),
    )
    if any(count and scale == 0.0 for count, scale in terms):
        return math.inf
    return delta * math.fsum(count / scale for count, scale in terms if count)
