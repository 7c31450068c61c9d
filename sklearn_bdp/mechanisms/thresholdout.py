"""Thresholdout: answer from the training set unless the holdout clearly disagrees.

Two grids with different tasks. The *cells* (width ``resolution``, a few hundred of them) are
what theory G2 counts. The *fine grid* (a power of two near 1e-13) makes every number that
touches the holdout an exact multiple of one step, so that the low-order bits of a floating-point
result carry nothing (Mironov 2012).
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
    FINEST,
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

_FAR = 100.0  # predictions and thresholds beyond this would leave the exact range of the grid
_FEW = 256  # threshold and answer noise per draw
# Query noise per draw: a first one for whoever asks little, later ones large enough to hide call
# overhead and small enough for cache.
_FIRST, _BLOCK = 64, 4096
_MOST = 2**53  # counts up to here are exact in every arithmetic they enter
_STATE_VERSION = 1
_SETTINGS = (
    *("threshold", "threshold_scale", "query_scale", "answer_scale"),
    *("budget", "refresh", "resolution", "noise"),
)


def check_resolution(resolution):
    """Return a width of cells that is 0 (no cells) or no finer than the fine grid.

    Cells below the fine grid's step would round nothing, and their number is out of range.
    """
    resolution = check_real("resolution", resolution, low=0.0, high=1.0)
    if 0.0 < resolution < FINEST:
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
    >>> from sklearn_bdp.mechanisms.thresholdout import n_cells
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
    >>> from sklearn_bdp.mechanisms.thresholdout import to_cell
    >>> to_cell([-0.2, 0.24, 0.25, 1.0, 7.0], 0.25)
    array([0, 0, 1, 3, 3])
    """
    last = n_cells(resolution) - 1
    cells = np.floor(np.asarray(values, dtype=float) / resolution)
    return np.clip(cells, 0, last).astype(np.intp)


def released_value(noisy, resolution):
    """Return the value to release: the cell's midpoint, or the clipped number without cells."""
    if resolution > 0.0:
        # The last midpoint may stick out of [0, 1].
        return np.minimum((to_cell(noisy, resolution) + 0.5) * resolution, 1.0)
    return np.clip(noisy, 0.0, 1.0)


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
        """Return the record of the only query, as Python scalars.

        Returns
        -------
        Answers
            The same record with ``float`` and ``bool`` entries.
        """
        return Answers(*(part.item() for part in (self.values, self.above, self.answered)))


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


class Thresholdout:
    r"""Compare each training value with the holdout's; answer from the holdout if they differ.

    The state machine of theory T1 [1]_ [2]_. For each query with training value ``v``
    and holdout value ``q``, and while budget is left: if ``|q - v| + noise`` exceeds the noisy
    threshold the query is *above*, the budget drops by one and the answer is ``q`` plus noise,
    rounded to a grid and clipped to [0, 1]; otherwise the answer is ``v``.

    Parameters
    ----------
    threshold : float
        :math:`T`, in units of the score in [0, 1]; not negative.
    threshold_scale, query_scale, answer_scale : float
        Noise scales :math:`\sigma_T, \sigma_q, \sigma_a` (Laplace scale, or standard deviation of
        Gaussian noise). Zero means no noise; then no DP level is finite, and only theory G2
        speaks about the answers.
    budget : int or None, default=None
        Number of "above" answers, counted in integers. None: no cap.
    refresh : bool, default=True
        Draw the threshold noise anew after every "above".
    resolution : float in [0, 1], default=0.0
        Width of the cells of released answers (see `to_cell`); 0: no cells. Even then
        answers are multiples of a step near 1e-13, so that the low-order bits carry nothing [3]_.
    noise : {"laplace", "gaussian"}, default="laplace"
        Laplace noise is exact (see Notes). Gaussian noise has no finite pure DP level.
    random_state : None, int or numpy.random.Generator, default=None
        None: the operating system's cryptographic generator. A seed makes the noise known, which
        voids the protection: for tests only.

    Attributes
    ----------
    n_answered : int
        Queries answered so far.
    n_above : int
        Of these, how many were above.
    remaining_budget : int or None
        "Above" answers left; None without a budget.

    Raises
    ------
    TypeError, ValueError
        Where an argument breaks its rule.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : A holdout behind this mechanism.
    thresholdout_epsilon : Its pure DP level.

    Notes
    -----
    Query values are rounded to multiples of a step :math:`g` (2**-44 for scales up to 4), the
    threshold and answer noise is discrete Laplace on that grid and sampled exactly, and the test
    against the threshold compares an exact real Laplace variate (known through random bits, as
    many as the comparison needs). Hence `dp_epsilon` holds for the program, not only for the
    formula; rounding to the grid adds :math:`g` to the sensitivity.

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
        random_state: Seed = None,
    ) -> None:
        self.threshold = check_real("threshold", threshold, low=0.0, high=_FAR)
        self.threshold_scale, self.query_scale, self.answer_scale = (
            check_real(name, scale, low=0.0, high=2.0**20)
            for name, scale in zip(
                _SETTINGS[1:4], (threshold_scale, query_scale, answer_scale), strict=True
            )
        )
        if budget is not None:
            budget = check_integer("budget", budget, low=1, high=_MOST)
        self.budget, self.refresh = budget, check_boolean("refresh", refresh)
        self.resolution = check_resolution(resolution)
        self.noise = check_option("noise", noise, ("laplace", "gaussian"))
        self._step = fine_step(self.threshold_scale, self.query_scale, self.answer_scale)
        # |computed - exact| < 16 steps g: the scale (at most 4 * 2**44 g) times the variate's error
        # 2**-50 (1 + E), E < 2**7, is 8 g; the roundings of product and sum add at most 1 g each.
        # Whatever is closer to the level than that is decided exactly.
        exact = noise == "laplace" and self.query_scale > 0.0
        self._slack = 16.0 * self._step if exact else 0.0
        self.n_answered, self.n_above, self._level_used = 0, 0, False
        self._start_noise(random_state, key=(0, 0))

    # -- Noise -----------------------------------------------------------------------------------

    def _start_noise(self, random_state, *, key):
        self._bits, threshold, answer = bit_sources(random_state, 3, key=key)
        self._levels = self._pool(threshold, self.threshold_scale)
        self._answer_pool = self._pool(answer, self.answer_scale)
        self._query_noise, self._used, self._size = np.empty(0), 0, _FIRST
        self._owner = os.getpid()

    def _pool(self, bits, scale):
        sampler = grid_laplace if self.noise == "laplace" else grid_gaussian
        if scale == 0.0:
            return Pool(lambda: np.zeros(_FEW))
        return Pool(lambda: sampler(bits, _FEW, scale=scale, step=self._step))

    @functools.cached_property
    def _level(self):
        """The noise of the threshold: drawn when it is first needed, or set by a state."""
        return self._levels.take(1).item()

    def _room(self):
        """Return how many queries the current block has noise for; at least 1.

        Query noise is drawn in blocks of fixed sizes and used in order, one variate per query, so
        that the outcome does not depend on how queries are batched.
        """
        # A forked child draws a block of its own: parent and child must not share noise.
        if self._used == self._query_noise.size or self._owner != os.getpid():
            self._block = Exponentials(self._bits, self._size)
            standard = self._block.signs * self._block.values
            if self.noise == "gaussian":
                standard = gaussian(self._block, self._bits)
            self._query_noise = self.query_scale * standard
            self._used, self._owner, self._size = 0, os.getpid(), _BLOCK
        return self._query_noise.size - self._used

    def _scan(self, margins, most):
        """Compare margins with the noisy threshold, in order; stop after ``most`` hits.

        Margins are multiples of the grid's step, at most `_room` of them. Returned are the places
        found above, and how many were compared: up to and including the last allowed hit, or all.
        """
        noisy = margins + self._query_noise[self._used : self._used + margins.size]
        # The whole block first, and after a hit a few at a time: where hits are dense the level
        # will have changed by then.
        hits, start, width = [], 0, margins.size
        while start < margins.size and len(hits) != most:
            self._level_used = True
            near = np.flatnonzero(noisy[start : start + width] > self._level - self._slack)
            for place in (start + near).tolist():
                clear = not self._slack or noisy[place] > self._level + self._slack
                if clear or self._exceeds(place, margins[place]):
                    hits.append(place)
                    start, width = place + 1, 32
                    if self.refresh:
                        self._level, self._level_used = self._levels.take(1).item(), False
                    break
            else:
                start, width = start + width, 4 * width
        compared = min(start, margins.size)
        self._used += compared
        return hits, compared

    def _exceeds(self, place, margin):
        """Return whether a margin with its exact Laplace variate is above the level."""
        gap = (Fraction(self._level) - Fraction(float(margin))) / Fraction(self.query_scale)
        place += self._used
        if self._block.signs[place] > 0:
            return self._block.exceeds(place, gap)
        return gap < 0 and not self._block.exceeds(place, -gap)

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
        scales = (sigma, 2 * sigma, 4 * sigma)
        return cls._scaled((1.0 + c) * tau / 2.0, scales, budget, options)

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
        sigma = tau / (96.0 * log_term)
        return cls._scaled(0.75 * tau, (2 * sigma, 4 * sigma, sigma), budget, options)

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
        return cls._scaled(threshold, (2 * sigma, 4 * sigma, sigma), budget, options)

    @classmethod
    def _scaled(cls, threshold, scales, budget, options):
        """Return the mechanism with these noise scales of threshold, query and answer."""
        named = dict(zip(_SETTINGS[1:4], scales, strict=True))
        return cls(threshold, **named, budget=budget, **options)

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
            Training-side values ``v``: any public predictions of the holdout's values, in
            [-100, 100].
        holdout_values : array-like of shape (m,) or float
            Holdout values ``q(X)`` in [0, 1].
        thresholds : array-like of shape (m,) or float, optional
            Thresholds that override the scalar one, not negative, chosen from public quantities.

        Returns
        -------
        Answers
            Released values, whether each was above, and whether it was answered. Once the budget
            is used, ``answered`` is False and the value NaN.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range. Nothing is spent then.
        """
        return self._answer(training_values, holdout_values, thresholds, run=False)

    def answer_run(
        self,
        training_values: ArrayLike,
        holdout_values: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
    ) -> Answers:
        """Answer up to and including the first "above" query.

        A caller that learns from released values (theory G4) calls this, moves its predictions
        for the rest of the batch and calls again.

        Parameters
        ----------
        training_values, holdout_values, thresholds : array-like of shape (m,)
            As for `answer`.

        Returns
        -------
        Answers
            The record of a prefix of the batch: it ends with the first "above" query, or holds
            all queries if none was above. Without budget all of them are unanswered.

        Raises
        ------
        TypeError, ValueError
            As for `answer`.
        """
        return self._answer(training_values, holdout_values, thresholds, run=True)

    def _answer(self, training_values, holdout_values, thresholds, *, run):
        training = check_array("training_values", training_values, low=-_FAR, high=_FAR)
        holdout = check_array("holdout_values", holdout_values, low=0.0, high=1.0)
        if training.shape != holdout.shape or not training.ndim <= 1:
            raise ValueError(
                "training_values and holdout_values must be two numbers or two 1-d arrays of the "
                f"same length, got shapes {training.shape} and {holdout.shape}."
            )
        scalar = training.ndim == 0
        training, holdout = np.atleast_1d(training), np.atleast_1d(holdout)
        given = self.threshold if thresholds is None else thresholds
        limits = check_array("thresholds", given, low=0.0, high=_FAR)
        if limits.ndim and limits.shape != training.shape:
            raise ValueError(f"thresholds must have shape {training.shape}, got {limits.shape}.")
        limits = limits if limits.ndim else np.full(training.shape, limits)
        n_queries = training.size
        above = np.zeros(n_queries, dtype=bool)
        n_done, most = 0, self.remaining_budget
        if run and most != 0:
            most = 1
        while n_done < n_queries and most != 0:
            part = slice(n_done, min(n_done + self._room(), n_queries))
            # |q - v| - T, exact multiples of the grid's step.
            rows = np.array([holdout[part], training[part], limits[part]])
            q, v, t = to_grid(rows, self._step)
            hits, consumed = self._scan(np.abs(q - v) - t, most)
            if hits:
                above[n_done + np.array(hits)] = True
            most = None if most is None else most - len(hits)
            n_done += consumed
            self.n_answered += consumed
            self.n_above += len(hits)
        if run and above.any():
            above, training, holdout = above[:n_done], training[:n_done], holdout[:n_done]
        answered = np.arange(training.size) < n_done
        values = np.where(answered, training, np.nan)
        if above.any():
            noisy = to_grid(holdout[above], self._step) + self._answer_pool.take(int(above.sum()))
            values[above] = released_value(noisy, self.resolution)
        answers = Answers(values, above, answered)
        return answers.scalar() if scalar else answers

    # -- Cost ------------------------------------------------------------------------------------

    def dp_epsilon(self, sensitivity: float, *, rounds: int | None = None) -> float:
        r"""Return the DP level of the whole transcript (theory T1).

        :math:`\Delta B (1/\sigma_T + 2/\sigma_q + 1/\sigma_a)` with a refreshed threshold,
        :math:`\Delta (1/\sigma_T + 2B/\sigma_q + B/\sigma_a)` without.

        Parameters
        ----------
        sensitivity : float
            :math:`\Delta`: how far one record can move a holdout value (``1/n`` for a mean).
        rounds : int, optional
            Number of "above" answers to account for instead of the budget, up to and including the
            last of them. A round begun after it costs one threshold more: see `dp_epsilon_used`.

        Returns
        -------
        float
            Level for replace-one neighbors; infinite where a scale is zero or noise is Gaussian.

        Raises
        ------
        ValueError
            If there is neither a budget nor ``rounds``.
        """
        if rounds is None and self.budget is None:
            raise ValueError(
                "dp_epsilon without a budget needs rounds=: an uncapped mechanism has no level "
                "for its whole life."
            )
        rounds = (
            self.budget if rounds is None else check_integer("rounds", rounds, low=0, high=_MOST)
        )
        return self._cost(sensitivity, thresholds=rounds if self.refresh else 1, rounds=rounds)

    def dp_epsilon_used(self, sensitivity: float) -> float:
        """Return the DP level of what has been released so far.

        The sum over finished rounds plus the threshold in use; a valid odometer, because the
        privacy loss of a transcript under pure DP adds up along the transcript.

        Parameters
        ----------
        sensitivity : float
            How far one record can move a holdout value.

        Returns
        -------
        float
            Level for replace-one neighbors.
        """
        started = self.n_above + int(self._level_used)
        thresholds = started if self.refresh else min(self.n_answered, 1)
        return self._cost(sensitivity, thresholds=thresholds, rounds=self.n_above)

    def _cost(self, sensitivity, *, thresholds, rounds):
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
        if self.noise != "laplace" and thresholds:
            return math.inf
        level = thresholdout_epsilon(
            sensitivity=sensitivity,
            budget=rounds,
            threshold_scale=self.threshold_scale,
            query_scale=self.query_scale,
            answer_scale=self.answer_scale,
            n_thresholds=thresholds,
        )
        # Rounding to the fine grid moves a value by up to half a step at either neighbour.
        return level * (1.0 + self._step / sensitivity)

    # -- State -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that the future depends on, except the source of randomness.

        Returns
        -------
        dict
            Ready for JSON. It holds the noisy threshold: never show it to the analyst.
        """
        return {
            "version": _STATE_VERSION,
            **{name: getattr(self, name) for name in _SETTINGS},
            "threshold_noise": self._level,
            "level_used": self._level_used,
            "n_answered": self.n_answered,
            "n_above": self.n_above,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], *, random_state: Seed = None) -> Thresholdout:
        """Continue from a recorded state.

        Parameters
        ----------
        state : dict
            From `state`.
        random_state : None, int or numpy.random.Generator, default=None
            Source of all further noise. The same seed does not replay the noise of earlier answers.

        Returns
        -------
        Thresholdout
            A mechanism with the recorded threshold noise and counts.

        Raises
        ------
        ValueError
            If the state is incomplete, contradictory or of an unknown version.
        """
        counts = {"version", "n_answered", "n_above", "level_used", "threshold_noise"}
        if set(state) != {*_SETTINGS, *counts} or state["version"] != _STATE_VERSION:
            raise ValueError(
                f"state must be one of Thresholdout.state(), version {_STATE_VERSION}."
            )
        mechanism = cls(**{name: state[name] for name in _SETTINGS})
        mechanism.n_answered = check_integer("n_answered", state["n_answered"], low=0)
        most = min(mechanism.n_answered, mechanism.budget or mechanism.n_answered)
        mechanism.n_above = check_integer("n_above", state["n_above"], low=0, high=most)
        # Keyed by position: a seed used before and after the interruption must not repeat itself.
        mechanism._start_noise(random_state, key=(mechanism.n_answered + 1, mechanism.n_above))
        mechanism._level = check_real("threshold_noise", state["threshold_noise"])
        mechanism._level_used = bool(state["level_used"])
        return mechanism

    def __reduce__(self):
        # A copy continues from the state with noise of its own: sharing drawn but unused noise
        # would let two copies answer with the same noise.
        return (type(self).from_state, (self.state(),))

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={getattr(self, name)!r}" for name in _SETTINGS[1:])
        return f"Thresholdout({self.threshold!r}, {named})"


def _accuracy(tau, beta, n_queries):
    tau = check_real("tau", tau, low=0.0, high=1.0, closed="right")
    beta = check_probability("beta", beta)
    n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
    return tau, math.log(4.0 * n_queries / beta)
