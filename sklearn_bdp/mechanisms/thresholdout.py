"""Thresholdout: answer from the training set unless the holdout disagrees by more than a threshold.

Two grids have different tasks. Answers from the holdout are released as midpoints of *cells* of
width ``resolution``, whose number theory G2 counts. Before that, values and the noise of thresholds
and answers are exact multiples of the step of the *fine grid*, a power of two (2**-44 for noise
scales up to 4). So the low-order bits of a floating-point result carry no information (Mironov
2012).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.mechanisms.noise import (
    FINEST_STEP,
    Exponentials,
    Pool,
    bit_sources,
    fine_step,
    gaussian,
    grid_gaussian,
    grid_laplace,
    to_grid,
)
from sklearn_bdp.utils.validation import (
    check_array,
    check_boolean,
    check_integer,
    check_option,
    check_probability,
    check_real,
)

_MAX_MAGNITUDE = 100.0  # larger predictions and thresholds would leave the grid's exact range
_POOL_SIZE = 256  # largest number of variates of threshold or answer noise per draw
# Variates of query noise per draw: a small first block for few queries, later blocks large enough
# to hide call overhead and small enough for the cache.
_FIRST_BLOCK_SIZE = 64
_BLOCK_SIZE = 4096
_MAX_COUNT = 2**53  # counts up to here are exact in every arithmetic they enter
_STATE_VERSION = 1
_SETTINGS = (
    "threshold", "threshold_scale", "query_scale", "answer_scale", "budget", "refresh",
    "resolution", "noise",
)  # fmt: skip


def check_resolution(resolution):
    """Return the width of cells of answers as a float: 0 (no cells), or from 2**-44 to 1.

    Raise TypeError or ValueError for other values.
    """
    resolution = check_real("resolution", resolution, low=0.0, high=1.0)
    if 0.0 < resolution < FINEST_STEP:
        raise ValueError(
            "resolution must be 0 (no cells) or at least 2**-44, the smallest step of the grid of "
            f"noise, got resolution={resolution!r}."
        )
    return resolution


def n_cells(resolution: float) -> int:
    r"""Return the number of possible answers from the holdout, ``V = ceil(1 / resolution)``.

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
    TypeError, ValueError
        If ``resolution`` is not a number in [2**-44, 1].

    Examples
    --------
    >>> from sklearn_bdp.mechanisms.thresholdout import n_cells
    >>> n_cells(0.1), n_cells(0.3)
    (10, 4)
    """
    if not check_resolution(resolution) > 0.0:
        raise ValueError("resolution must be positive to have cells, got resolution=0.0.")
    # The slack forgives the rounding of 1/resolution: 1/(1/49) must be 49 cells, not 50.
    return math.ceil(1.0 / resolution * (1.0 - 1e-12))


def to_cell(values: ArrayLike, resolution: float) -> Array:
    r"""Return the index of the cell that contains each value, after clipping to [0, 1].

    Parameters
    ----------
    values : array-like of any shape
        Values in units of the score; they may lie outside [0, 1].
    resolution : float in [2**-44, 1]
        Width :math:`\eta` of a cell.

    Returns
    -------
    ndarray of int
        Cell ``k`` is :math:`[k\eta, (k+1)\eta)`, released as its midpoint, at most 1. Values
        below 0 are in the first cell, values of 1 and above in the last cell.

    Raises
    ------
    TypeError, ValueError
        If ``resolution`` is out of range.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms.thresholdout import to_cell
    >>> to_cell([-0.2, 0.24, 0.25, 1.0, 7.0], 0.25)
    array([0, 0, 1, 3, 3])
    """
    max_cell = n_cells(resolution) - 1
    cells = np.floor(np.asarray(values, dtype=float) / resolution)
    return np.clip(cells, 0, max_cell).astype(np.intp)


def released_values(noisy_values, resolution):
    """Return midpoints of the cells of noisy values, at most 1.

    With a resolution of 0, return values clipped to [0, 1].
    """
    if resolution > 0.0:
        # The last midpoint may exceed 1.
        return np.minimum((to_cell(noisy_values, resolution) + 0.5) * resolution, 1.0)
    return np.clip(noisy_values, 0.0, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """Answers that a mechanism released for a batch of queries.

    Fields are scalars for a scalar pair, and read-only arrays of shape ``(m,)`` otherwise.

    Parameters
    ----------
    values : ndarray of shape (m,) or float
        Released values: training values, or values in [0, 1] from the holdout; NaN for queries
        without an answer.
    above : ndarray of shape (m,) or bool
        Whether the value was taken from the holdout; False for queries without an answer.
    answered : ndarray of shape (m,) or bool
        Whether the query was answered; False if the budget was used up before it.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms.thresholdout import Answers
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
        """Return the answer to a batch of one query as Python scalars.

        Returns
        -------
        Answers
            The same answer with ``float`` and ``bool`` fields.
        """
        return Answers(self.values.item(), self.above.item(), self.answered.item())


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
    r"""Return the pure DP level, in nats, of a transcript of Thresholdout with Laplace noise.

    :math:`\Delta (k_T/\sigma_T + 2B/\sigma_q + B/\sigma_a)` with :math:`k_T` noisy thresholds that
    queries were compared with and ``B`` "above" answers.

    Parameters
    ----------
    sensitivity : float
        Largest change of a holdout value by one record: ``1/n`` for a mean of scores in [0, 1].
    budget : int
        Number ``B`` of "above" answers.
    threshold_scale, query_scale, answer_scale : float
        Laplace scales. 0 means no noise: the level is infinite once such noise was used.
    refresh : bool, default=True
        Whether the threshold noise is drawn anew after each "above" answer: then
        :math:`k_T = B`, otherwise 1.
    n_thresholds : int or None, default=None
        :math:`k_T` itself, for a transcript that does not end with its last "above" answer. By
        default computed from ``budget`` and ``refresh``.

    Returns
    -------
    float
        ε′ in nats, pure DP for replace-one neighbors.

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
    sensitivity = check_real("sensitivity", sensitivity, low=0.0, closed="neither")
    budget = check_integer("budget", budget, low=0)
    refresh = check_boolean("refresh", refresh)
    if n_thresholds is None:
        n_thresholds = budget if refresh else 1
    n_thresholds = check_integer("n_thresholds", n_thresholds, low=0)
    # Theory T1. Changing one record changes every margin by at most Δ. With the threshold noise
    # shifted by Δ, all "below" answers of its round are at least as likely. An "above" margin
    # changes by at most 2Δ relative to the shifted threshold, and the released value by Δ.
    counts_and_scales = (
        (n_thresholds, check_real("threshold_scale", threshold_scale, low=0.0)),
        (2 * budget, check_real("query_scale", query_scale, low=0.0)),
        (budget, check_real("answer_scale", answer_scale, low=0.0)),
    )
    if any(count and scale == 0.0 for count, scale in counts_and_scales):
        return math.inf
    return sensitivity * math.fsum(count / scale for count, scale in counts_and_scales if count)


class Thresholdout:
    r"""Mechanism that answers from the training set unless the holdout disagrees.

    The state machine of theory T1 [1]_ [2]_. A query has a training value ``v`` and a holdout value
    ``q``. If ``|q - v| + noise`` exceeds the noisy threshold, the query is *above*: the budget
    drops by one, and the answer is ``q`` plus noise, rounded to a grid and clipped to [0, 1].
    Otherwise the answer is ``v``. Queries are answered while budget is left.

    Parameters
    ----------
    threshold : float
        :math:`T`, in units of the score in [0, 1]; not negative.
    threshold_scale, query_scale, answer_scale : float
        Noise scales :math:`\sigma_T, \sigma_q, \sigma_a` (Laplace scale, or standard deviation of
        Gaussian noise). Zero means no noise: then the DP level is infinite once it was used, and
        only theory G2 applies to the answers.
    budget : int or None, default=None
        Largest number of "above" answers. None: no limit.
    refresh : bool, default=True
        Whether to draw new threshold noise after every "above".
    resolution : float in [0, 1], default=0.0
        Width of the cells of released answers (see `to_cell`); 0: no cells. Even then answers from
        the holdout are multiples of the step of a fine grid (see Notes), so that the low-order bits
        carry no information [3]_.
    noise : {"laplace", "gaussian"}, default="laplace"
        Laplace noise is exact (see Notes). Gaussian noise has no finite pure DP level.
    random_state : None, int, numpy.random.Generator or bytes, default=None
        None: the operating system's cryptographic generator. A seed makes the noise reproducible,
        which voids the protection: for tests only. Secret random bytes make it reproducible for
        their owner only.

    Attributes
    ----------
    n_answered : int
        Queries answered so far.
    n_above : int
        Number of these that were above.
    remaining_budget : int or None
        "Above" answers left; None without a budget.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks its rule.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : A holdout behind this mechanism.
    thresholdout_epsilon : Its pure DP level.

    Notes
    -----
    Query values are rounded to multiples of a step :math:`g` (2**-44 for scales up to 4). The
    threshold and answer noise is discrete Laplace on that grid and sampled exactly. The comparison
    with the threshold uses an exact real Laplace variate (given by as many random bits as the
    comparison needs). Hence `dp_epsilon` is valid for the program, not only for the formula.
    Rounding to the grid adds :math:`g` to the sensitivity.

    References
    ----------
    .. [1] J. Zhao, "Adaptive statistical learning with Bayesian differential privacy", WPES 2017,
       Algorithm 1.
    .. [2] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60 (2017), Fig. 1.
    .. [3] I. Mironov, "On significance of the least significant bits for differential privacy",
       CCS 2012.

    Examples
    --------
    >>> from sklearn_bdp.mechanisms import Thresholdout
    >>> mechanism = Thresholdout(
    ...     0.1, threshold_scale=1e-3, query_scale=2e-3, answer_scale=1e-3,
    ...     budget=1, resolution=0.05, random_state=0,
    ... )
    >>> mechanism.answer([0.90, 0.95, 0.80], [0.91, 0.71, 0.81])
    Answers(values=array([0.9  , 0.725,   nan]), above=array([False,  True, False]),
            answered=array([ True,  True, False]))
    >>> mechanism.remaining_budget
    0
    """

    def __init__(
        self,
        threshold: float,
        *,
        threshold_scale: float,
        query_scale: float,
        answer_scale: float,
        budget: int | None = None,
        refresh: bool = True,
        resolution: float = 0.0,
        noise: Literal["laplace", "gaussian"] = "laplace",
        random_state: Seed | bytes = None,
    ) -> None:
        self.threshold = check_real("threshold", threshold, low=0.0, high=_MAX_MAGNITUDE)
        self.threshold_scale = _check_scale("threshold_scale", threshold_scale)
        self.query_scale = _check_scale("query_scale", query_scale)
        self.answer_scale = _check_scale("answer_scale", answer_scale)
        self.budget = budget
        if budget is not None:
            self.budget = check_integer("budget", budget, low=1, high=_MAX_COUNT)
        self.refresh = check_boolean("refresh", refresh)
        self.resolution = check_resolution(resolution)
        self.noise = check_option("noise", noise, ("laplace", "gaussian"))
        self._step = fine_step(self.threshold_scale, self.query_scale, self.answer_scale)
        # Largest error of a noisy margin in doubles: the scale (at most 4 * 2**44 steps g) times
        # the variate's error 2**-50 (1 + E), E < 2**7, is 8 g; the roundings of product and sum add
        # at most 1 g each. Margins this close to the noisy threshold are compared exactly.
        is_exact = noise == "laplace" and self.query_scale > 0.0
        self._margin_error = 16.0 * self._step if is_exact else 0.0
        self.n_answered = 0
        self.n_above = 0
        # Whether a query was compared with the threshold noise in use.
        self._is_threshold_used = False
        self._start_noise(random_state, key=(0, 0))

    # -- Noise -----------------------------------------------------------------------------------

    def _start_noise(self, random_state, *, key):
        """Set the sources of all noise, and discard the blocks of noise drawn so far.

        ``random_state`` and ``key`` are those of `bit_sources`.
        """
        self._query_bits, threshold_bits, answer_bits = bit_sources(random_state, 3, key=key)
        self._threshold_pool = self._make_pool(threshold_bits, self.threshold_scale)
        self._answer_pool = self._make_pool(answer_bits, self.answer_scale)
        self._query_noise = np.empty(0)
        self._n_used = 0  # variates of the query noise
        self._block_size = _FIRST_BLOCK_SIZE
        self._owner = os.getpid()  # process that drew the query noise

    def _make_pool(self, bits, scale):
        """Return a `Pool` of noise of a scale, as multiples of the fine grid's step."""
        sampler = grid_laplace if self.noise == "laplace" else grid_gaussian
        if scale == 0.0:
            return Pool(lambda: np.zeros(_POOL_SIZE))
        return Pool(lambda: sampler(bits, _POOL_SIZE, scale=scale, step=self._step))

    @functools.cached_property
    def _threshold_noise(self):
        """Noise of the threshold in use.

        It is drawn when it is first needed, or set by `from_state`. With ``refresh`` it is replaced
        after each "above" answer.
        """
        return self._threshold_pool.take(1).item()

    def _refill_query_noise(self):
        """Draw a block of query noise if needed; return its number of unused variates.

        Query noise is drawn in blocks of fixed sizes and used in order, one variate per query.
        """
        # A forked child draws a new block: parent and child must not share noise.
        if self._n_used == self._query_noise.size or self._owner != os.getpid():
            self._exponentials = Exponentials(self._query_bits, self._block_size)
            if self.noise == "gaussian":
                standard_noise = gaussian(self._exponentials, self._query_bits)
            else:
                standard_noise = self._exponentials.signs * self._exponentials.values
            self._query_noise = self.query_scale * standard_noise
            self._n_used = 0
            self._owner = os.getpid()
            self._block_size = _BLOCK_SIZE
        return self._query_noise.size - self._n_used

    def _compare(self, margins, max_above):
        """Compare margins plus query noise with the threshold noise until ``max_above`` exceed it.

        Return the list of indices of margins above it, and the number of compared margins: up to
        and including the last allowed one above, or all. If ``max_above`` is None, all are
        compared. Margins ``|q - v| - T`` are multiples of the fine grid's step, at most as many as
        there are unused variates of query noise.
        """
        noisy_margins = margins + self._query_noise[self._n_used : self._n_used + margins.size]
        # All margins are compared at once, and a few at a time after one above: if these are dense,
        # the threshold changes soon.
        above_indices = []
        start = 0
        n_at_once = margins.size
        while start < margins.size and len(above_indices) != max_above:
            self._is_threshold_used = True
            lowest_threshold = self._threshold_noise - self._margin_error
            is_possible = noisy_margins[start : start + n_at_once] > lowest_threshold
            for index in (start + np.flatnonzero(is_possible)).tolist():
                if self._is_above(index, margins[index], noisy_margins[index]):
                    above_indices.append(index)
                    start = index + 1
                    n_at_once = 32
                    if self.refresh:
                        self._threshold_noise = self._threshold_pool.take(1).item()
                        self._is_threshold_used = False
                    break
            else:
                start += n_at_once
                n_at_once *= 4
        n_compared = min(start, margins.size)
        self._n_used += n_compared
        return above_indices, n_compared

    def _is_above(self, index, margin, noisy_margin):
        """Return whether a margin is above the noisy threshold.

        ``noisy_margin`` is the margin plus its query noise in doubles. It must not be clearly below
        the noise of the threshold. ``index`` is the position of the margin among those of
        `_compare`.
        """
        if not self._margin_error or noisy_margin > self._threshold_noise + self._margin_error:
            return True
        # Within the rounding error of doubles: compare the exact Laplace variate.
        required_noise = Fraction(self._threshold_noise) - Fraction(float(margin))
        required_variate = required_noise / Fraction(self.query_scale)
        variate_index = self._n_used + index
        if self._exponentials.signs[variate_index] > 0:
            return self._exponentials.exceeds(variate_index, required_variate)
        if not required_variate < 0:
            return False
        return not self._exponentials.exceeds(variate_index, -required_variate)

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
            Largest error of the answers, in units of [0, 1].
        beta : float in (0, 1)
            Failure probability.
        n_queries : int
            Number of queries ``m``.
        budget : int
            Largest number of "above" answers.
        c : float in (0, 1), default=0.5
            Budget honesty: a query whose training value differs from the query's expectation by
            less than ``c * tau`` spends no budget.
        **options : object
            ``resolution`` (the paper has none) and ``random_state`` of `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        c = check_probability("c", c)
        tau, log_term = _check_theorem_parameters(tau, beta, n_queries)
        sigma = (1.0 - c) * tau / (12.0 * log_term)
        return cls(
            (1.0 + c) * tau / 2.0,
            threshold_scale=sigma,
            query_scale=2 * sigma,
            answer_scale=4 * sigma,
            budget=check_integer("budget", budget, low=1),
            **options,
        )

    @classmethod
    def dwork2017(
        cls, tau: float, beta: float, n_queries: int, budget: int, **options: Any
    ) -> Self:
        r"""Return Thresholdout of Dwork et al. with the parameters of Theorem 9.

        :math:`\sigma = \tau / (96 \ln(4m/\beta))`, noise scales 2σ, 4σ and σ (Fig. 1), and
        :math:`T = 3\tau/4`. For independent records.

        Parameters
        ----------
        tau : float in (0, 1]
            Largest error of the answers, in units of [0, 1].
        beta : float in (0, 1)
            Failure probability.
        n_queries, budget : int
            Number of queries ``m``, and largest number of "above" answers.
        **options : object
            ``resolution`` and ``random_state`` of `Thresholdout`.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        tau, log_term = _check_theorem_parameters(tau, beta, n_queries)
        sigma = tau / (96.0 * log_term)
        return cls(
            0.75 * tau,
            threshold_scale=2 * sigma,
            query_scale=4 * sigma,
            answer_scale=sigma,
            budget=check_integer("budget", budget, low=1),
            **options,
        )

    @classmethod
    def dwork2017_practical(
        cls,
        threshold: float = 0.04,
        sigma: float = 0.01,
        *,
        budget: int | None = None,
        **options: Any,
    ) -> Self:
        """Return the Gaussian variant of Dwork et al., Section 4.1, which has no proof.

        Parameters
        ----------
        threshold : float, default=0.04
            The threshold, in units of [0, 1].
        sigma : float, default=0.01
            Standard deviation of answer noise; those of threshold and query noise are two and four
            times that (Fig. 1).
        budget : int or None, default=None
            Largest number of "above" answers. None: no limit.
        **options : object
            Other parameters of `Thresholdout`; ``noise`` is Gaussian by default.

        Returns
        -------
        Thresholdout
            The configured mechanism.
        """
        sigma = check_real("sigma", sigma, low=0.0, closed="right")
        options.setdefault("noise", "gaussian")
        return cls(
            threshold,
            threshold_scale=2 * sigma,
            query_scale=4 * sigma,
            answer_scale=sigma,
            budget=budget,
            **options,
        )

    # -- Answers ---------------------------------------------------------------------------------

    @property
    def remaining_budget(self) -> int | None:
        """Number of "above" answers left; None without a budget."""
        return None if self.budget is None else self.budget - self.n_above

    def answer(
        self,
        training_values: ArrayLike,
        holdout_values: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
    ) -> Answers:
        """Answer a batch of queries, or a scalar pair.

        Parameters
        ----------
        training_values : array-like of shape (m,) or float
            Training values ``v``: any public predictions of the holdout values, in [-100, 100].
        holdout_values : array-like of shape (m,) or float
            Holdout values ``q(X)`` in [0, 1].
        thresholds : array-like of shape (m,) or float, optional
            Thresholds that replace the mechanism's own: not negative, and chosen from public
            quantities.

        Returns
        -------
        Answers
            Released values, whether each was above, and whether it was answered. Once the budget
            is used, ``answered`` is False and the value NaN.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range. No budget is spent then.
        """
        return self._answer(training_values, holdout_values, thresholds, stop_at_above=False)

    def answer_run(
        self,
        training_values: ArrayLike,
        holdout_values: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
    ) -> Answers:
        """Answer up to and including the first "above" query.

        A caller that learns from released values (theory G4) calls this, changes its predictions
        for later queries of the batch and calls again with these.

        Parameters
        ----------
        training_values, holdout_values : array-like of shape (m,) or float
            Public predictions in [-100, 100], and holdout values in [0, 1].
        thresholds : array-like of shape (m,) or float, optional
            Thresholds that replace the mechanism's own: not negative, and chosen from public
            quantities.

        Returns
        -------
        Answers
            Answers to the first queries of the batch, up to and including the first "above" one;
            to all queries if none was above. If no budget is left, no query is answered.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range. No budget is spent then.
        """
        return self._answer(training_values, holdout_values, thresholds, stop_at_above=True)

    def _answer(self, training_values, holdout_values, thresholds, *, stop_at_above):
        """Return the answers to a batch, or up to its first "above" query if ``stop_at_above``.

        Raise TypeError or ValueError for bad input, before a query is answered.
        """
        training = check_array(
            "training_values", training_values, low=-_MAX_MAGNITUDE, high=_MAX_MAGNITUDE
        )
        holdout = check_array("holdout_values", holdout_values, low=0.0, high=1.0)
        if training.shape != holdout.shape or not training.ndim <= 1:
            raise ValueError(
                "training_values and holdout_values must be two numbers or two 1-d arrays of the "
                f"same length, got shapes {training.shape} and {holdout.shape}."
            )
        is_scalar = training.ndim == 0
        training = np.atleast_1d(training)
        holdout = np.atleast_1d(holdout)
        thresholds = self._check_thresholds(thresholds, training.shape)
        is_above, n_compared = self._decide(training, holdout, thresholds, stop_at_above)
        if stop_at_above and is_above.any():
            is_above = is_above[:n_compared]
            training = training[:n_compared]
            holdout = holdout[:n_compared]
        is_answered = np.arange(training.size) < n_compared
        values = np.where(is_answered, training, np.nan)
        if is_above.any():
            answer_noise = self._answer_pool.take(int(is_above.sum()))
            noisy_values = to_grid(holdout[is_above], self._step) + answer_noise
            values[is_above] = released_values(noisy_values, self.resolution)
        answers = Answers(values, is_above, is_answered)
        return answers.scalar() if is_scalar else answers

    def _check_thresholds(self, thresholds, shape):
        """Return thresholds as an array of ``shape``; None: the threshold of the mechanism."""
        if thresholds is None:
            thresholds = self.threshold
        thresholds = check_array("thresholds", thresholds, low=0.0, high=_MAX_MAGNITUDE)
        if thresholds.ndim == 0:
            return np.full(shape, thresholds)
        if thresholds.shape != shape:
            raise ValueError(f"thresholds must have shape {shape}, got {thresholds.shape}.")
        return thresholds

    def _decide(self, training, holdout, thresholds, stop_at_above):
        """Return a mask of the queries that are above, and the number of compared queries.

        The first three arguments are arrays with one value per query, in units of [0, 1]. Add the
        numbers of compared and of "above" queries to the counts of the mechanism. Compare while
        budget is left, or up to the first "above" query if ``stop_at_above``.
        """
        is_above = np.zeros(training.size, dtype=bool)
        n_compared = 0
        max_above = self.remaining_budget  # None: no limit
        if stop_at_above and max_above != 0:
            max_above = 1
        while n_compared < training.size and max_above != 0:
            stop = min(n_compared + self._refill_query_noise(), training.size)
            block = slice(n_compared, stop)
            block_values = np.array([holdout[block], training[block], thresholds[block]])
            q, v, t = to_grid(block_values, self._step)
            # Margins |q - v| - t are exact multiples of the grid's step.
            above_indices, n_compared_in_block = self._compare(np.abs(q - v) - t, max_above)
            if above_indices:
                is_above[n_compared + np.array(above_indices)] = True
            if max_above is not None:
                max_above -= len(above_indices)
            n_compared += n_compared_in_block
            self.n_answered += n_compared_in_block
            self.n_above += len(above_indices)
        return is_above, n_compared

    # -- Cost ------------------------------------------------------------------------------------

    def dp_epsilon(self, sensitivity: float, *, rounds: int | None = None) -> float:
        r"""Return the DP level of the whole transcript, in nats (theory T1).

        :math:`\Delta B (1/\sigma_T + 2/\sigma_q + 1/\sigma_a)` with a refreshed threshold,
        :math:`\Delta (1/\sigma_T + 2B/\sigma_q + B/\sigma_a)` without.

        Parameters
        ----------
        sensitivity : float
            :math:`\Delta`: largest change of a holdout value by one record (``1/n`` for a mean).
        rounds : int, optional
            Number of "above" answers to account for instead of the budget, up to and including the
            last of them. If the threshold was drawn anew and used after it, add one threshold: see
            `dp_epsilon_used`.

        Returns
        -------
        float
            Level for replace-one neighbors, with the rounding to the fine grid; infinite if noise
            that it accounts for is Gaussian or of scale zero.

        Raises
        ------
        TypeError, ValueError
            If there is neither a budget nor ``rounds``, or if an argument is out of range.
        """
        if rounds is None and self.budget is None:
            raise ValueError(
                "dp_epsilon without a budget needs rounds=: an uncapped mechanism has no level "
                "for its whole life."
            )
        if rounds is None:
            rounds = self.budget
        else:
            rounds = check_integer("rounds", rounds, low=0, high=_MAX_COUNT)
        n_thresholds = rounds if self.refresh else 1
        return self._dp_level(sensitivity, n_thresholds=n_thresholds, n_above=rounds)

    def dp_epsilon_used(self, sensitivity: float) -> float:
        """Return the DP level of all answers so far, in nats.

        The level is the sum over finished rounds plus the threshold in use. It is a valid odometer,
        because the privacy loss of a transcript under pure DP adds up along the transcript.

        Parameters
        ----------
        sensitivity : float
            Largest change of a holdout value by one record.

        Returns
        -------
        float
            Level for replace-one neighbors; infinite if a scale that was used is zero, or if noise
            is Gaussian and was used.
        """
        n_thresholds = min(self.n_answered, 1)
        if self.refresh:
            n_thresholds = self.n_above + int(self._is_threshold_used)
        return self._dp_level(sensitivity, n_thresholds=n_thresholds, n_above=self.n_above)

    def _dp_level(self, sensitivity, *, n_thresholds, n_above):
        """Return the DP level of a transcript in nats, with the rounding to the fine grid.

        ``n_thresholds``: noisy thresholds that queries were compared with. ``n_above``: answers
        "above". The level is infinite if a query was compared and noise is Gaussian or
        ``threshold_scale`` is 0, or if there is an answer "above" and one of the two other scales
        is 0.
        """
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
        if self.noise != "laplace" and n_thresholds:
            return math.inf
        dp_epsilon = thresholdout_epsilon(
            sensitivity=sensitivity,
            budget=n_above,
            threshold_scale=self.threshold_scale,
            query_scale=self.query_scale,
            answer_scale=self.answer_scale,
            n_thresholds=n_thresholds,
        )
        # Rounding to the fine grid changes a value by up to half a step at either neighbor.
        return dp_epsilon * (1.0 + self._step / sensitivity)

    # -- State -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the state on which future answers depend, without the source of randomness.

        Returns
        -------
        dict
            Ready for JSON. It contains the noise of the threshold: never show it to the analyst.
        """
        return {
            "version": _STATE_VERSION,
            **{name: getattr(self, name) for name in _SETTINGS},
            "threshold_noise": self._threshold_noise,
            "level_used": self._is_threshold_used,  # whether a query was compared with that noise
            "n_answered": self.n_answered,
            "n_above": self.n_above,
        }

    @classmethod
    def from_state(
        cls, state: dict[str, Any], *, random_state: Seed | bytes = None
    ) -> Thresholdout:
        """Return a mechanism that continues from a recorded state.

        Parameters
        ----------
        state : dict
            From `state`.
        random_state : None, int, numpy.random.Generator or bytes, default=None
            Source of all further noise, as for the class. The same seed does not replay the noise
            of earlier answers.

        Returns
        -------
        Thresholdout
            A mechanism with the recorded threshold noise and counts.

        Raises
        ------
        TypeError, ValueError
            If the state is incomplete, contradictory, of wrong types or of an unknown version.
        """
        keys = {*_SETTINGS, "version", "n_answered", "n_above", "level_used", "threshold_noise"}
        if set(state) != keys or state["version"] != _STATE_VERSION:
            raise ValueError(
                f"state must be one of Thresholdout.state(), version {_STATE_VERSION}."
            )
        mechanism = cls(**{name: state[name] for name in _SETTINGS})
        mechanism.n_answered = check_integer("n_answered", state["n_answered"], low=0)
        max_above = min(mechanism.n_answered, mechanism.budget or mechanism.n_answered)
        mechanism.n_above = check_integer("n_above", state["n_above"], low=0, high=max_above)
        # Keyed by position: the same seed before and after an interruption must give new noise.
        mechanism._start_noise(random_state, key=(mechanism.n_answered + 1, mechanism.n_above))
        mechanism._threshold_noise = check_real("threshold_noise", state["threshold_noise"])
        mechanism._is_threshold_used = bool(state["level_used"])
        return mechanism

    def __reduce__(self):
        # A copy continues from the state with new noise: two copies that share drawn but unused
        # noise would answer with the same noise.
        return (type(self).from_state, (self.state(),))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in _SETTINGS[1:])
        return f"Thresholdout({self.threshold!r}, {settings})"


def _check_scale(name, scale):
    """Return a noise scale as a float from 0 to 2**20."""
    return check_real(name, scale, low=0.0, high=2.0**20)


def _check_theorem_parameters(tau, beta, n_queries):
    """Return ``tau`` and ln(4m/β) after checking the parameters of a theorem."""
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    beta = check_probability("beta", beta)
    n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
    return tau, math.log(4.0 * n_queries / beta)
