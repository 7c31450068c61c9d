"""Graded answers to a batch: a fine cell for the leader, coarse ones for others (G7, G17).

In names and comments, a deviation of a random quantity is its standard deviation.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtr, ndtri_exp

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.accounting.spending import (
    OFFSET_DEVIATION,
    AlphaSpending,
    PredictiveCode,
    rank_code_lengths,
)

# With noise, a reply "above" may release the central cell. Its probability is that of the rim, this
# part of the half-width of the region of "below" ...
_RIM = 0.04
# ... and, as for every cell, this part of the probability of the whole cell in addition.
_CROSSING = 1e-4
# Weight in a refinement of the code of any value: the noise of the second draw may lead outside of
# the cell of the first pass.
_OUTSIDE = 1e-3

#: Most queries in one comparison. A reply "above" may change the predictions of the remaining ones.
_MAX_COMPARED = 8192

# Theory G17, all by ``benchmarks/simulate_year.py`` on other seeds than are reported. Wanted
# half-widths of a leader's interval in batch 1, 2, 5, ..., in deviations of the score, and
# half-widths of the finest cell, in deviations of the prediction, interpolated over log numbers of
# batches. A finer first cell would cost the report more than "even" does. Finer later cells would
# cause more surprises than the few remaining intervals are worth (``--sweep finest``).
_LOG_BATCH_NUMBERS = np.log([1, 2, 5, 10, 20, 50])
_LEADER_HALF_WIDTHS = (5.1, 7.8, 7.9, 8.0, 8.0, 8.8)
_FINEST_CELLS = (2.6, 2.5, 2.5, 2.6, 3.2, 4.2)
# Largest half-width of a fine cell, in deviations of the prediction.
_COARSEST_FINE_CELL = 5.0
# Half-width of the finest first cell of nodes given all others, in deviations of the difference
# between a score and its cross-validated score. Weights leave few training nodes behind a
# cross-validated score: without this limit, one honest search in six is corrected (``python -m
# benchmarks.dependence.node_predictions``).
_FINEST_FIRST_CELL_OF_NODES = 2.0
_MIN_FINE_CELL = 0.6  # half-width of the finest cell, in deviations of the score
_SKEW = 0.12  # excess of limits over the normal quantile, in deviations of the score
# Half-width of coarse cells, in deviations of the difference between a score and its
# cross-validated score.
_COARSE_CELL = 6.5
# Half-widths of the cells that surprises are released in: for a leader in parts of its threshold,
# from the second batch on, and for others in parts of the half-width of a fine cell.
_LEADER_SURPRISE_CELL = 1.0 / 3.0
_OTHER_SURPRISE_CELL = 0.6
# Scores may lie nearer to 1/2 than predicted, by this many deviations of the offset. A deviation of
# the offset above ``_MAX_SHIFTING_DRIFT``, in units of [0, 1], counts as that.
_SHIFT_IN_DRIFTS = 1.5
_MAX_SHIFTING_DRIFT = 0.04
#: Number, from 1, of the fine cell from which on single queries are priced like the leader of a
#: search.
_N_CHEAP_SINGLE_QUERIES = 4.0
# Half-width of coarse cells of one query with ``spending="even"``, in deviations as above, and its
# growth with the log of the number of queries.
_COARSE_CELL_OF_ONE = 1.5
_COARSE_CELL_GROWTH = 0.9


class CellWidthPolicy(Protocol):
    """Public rule for the widths of the cells of one batch."""

    def coarse_half_width(self, n_queries: int) -> float:
        """Return the half-width of coarse cells in a batch of ``n_queries`` queries.

        Its unit is the standard deviation of score minus cross-validated score.
        """

    def fine_half_widths(
        self,
        prediction_deviation: FloatOrArray,
        n_fine: int,
        *,
        rank_lengths: FloatOrArray = 0.0,
        cv_deviation: FloatOrArray = 1.0,
        is_single_query: bool = False,
    ) -> Any:
        """Return the half-widths of the next fine cells, in standard deviations of the score.

        Parameters
        ----------
        prediction_deviation : float or ndarray
            Standard deviation of each prediction's error, in standard deviations of the score.
        n_fine : int
            Number of earlier fine cells of the holdout.
        rank_lengths : float or ndarray, default=0.0
            Code length of each query's rank in the batch, in nats.
        cv_deviation : float or ndarray, default=1.0
            Standard deviation of score minus cross-validated score, in standard deviations of the
            score.
        is_single_query : bool, default=False
            Whether the batch has one query.
        """

    def surprise_half_widths(
        self, fine_half_widths: Array, thresholds: Array, *, is_leader: bool, is_first: bool
    ) -> Array:
        """Return the half-widths of the cells of corrected queries, in units of [0, 1].

        Parameters
        ----------
        fine_half_widths : ndarray of shape (k,)
            Half-width of a fine cell of each query, in units of [0, 1].
        thresholds : ndarray of shape (k,)
            For each query, the distance from its prediction at which it is corrected, in units of
            [0, 1].
        is_leader : bool
            Whether the only query (k = 1) is the leader of the batch. If False, no query is.
        is_first : bool
            Whether the predictive code has learned no value of an earlier batch.
        """


@dataclasses.dataclass(frozen=True)
class EvenWidthPolicy(CellWidthPolicy):
    """Cell widths of ``spending="even"``, chosen by ``benchmarks/simulate_year.py``."""

    # Half-width of the coarse cells of a large batch, in deviations of the difference between a
    # score and its cross-validated score.
    coarse: float = 5.5
    # Price of a first nat, in deviations of the score: it widens every later interval.
    nat_price: float = 2.0
    # Typical number of fine cells. Near this number, fewer intervals are still to come and a nat is
    # worth less. Beyond it, the cells of further queries widen.
    typical_n_fine: float = 18.0

    def coarse_half_width(self, n_queries: int) -> float:
        # A surprise costs nats, and each of many queries may be one; a few get narrower cells.
        return min(self.coarse, _COARSE_CELL_OF_ONE + _COARSE_CELL_GROWTH * math.log(n_queries))

    def fine_half_widths(
        self,
        prediction_deviation: FloatOrArray,
        n_fine: int,
        *,
        rank_lengths: FloatOrArray = 0.0,
        cv_deviation: FloatOrArray = 1.0,
        is_single_query: bool = False,
    ) -> Any:
        # The sum of half-width and price of the expected code length is least, for normal
        # predictions. The first single queries get finer cells, because a holdout may never answer
        # more than one query.
        n_fine_ratio = n_fine / self.typical_n_fine
        nat_price = self.nat_price * (1.0 - 1.5 * n_fine_ratio + n_fine_ratio**2)
        if is_single_query:
            nat_price *= min(1.0, (1.0 + n_fine) / _N_CHEAP_SINGLE_QUERIES)
        log_slopes, half_widths = _cheapest_half_widths()
        log_slope = np.log(prediction_deviation / nat_price)
        return prediction_deviation * np.interp(log_slope, log_slopes, half_widths)

    def surprise_half_widths(
        self, fine_half_widths: Array, thresholds: Array, *, is_leader: bool, is_first: bool
    ) -> Array:
        return fine_half_widths


@dataclasses.dataclass(frozen=True)
class FinalWidthPolicy(CellWidthPolicy):
    """Cell widths of ``spending="final"`` in one batch (theory G17), from planned interval widths.

    An interim answer shows whether the holdout still agrees with the prediction. A fine cell is as
    wide as the planned interval allows, within limits from the precision of the prediction.
    """

    leader_half_width: float  # planned half-width of its interval, in deviations of the score
    # Log of the failure probability of one side of an interval, without the rank in the batch.
    log_failure: float
    # Half-width of the finest cell after the first one, in deviations of the prediction.
    finest: float = _FINEST_CELLS[0]
    #: Half-width of the finest first cell, in deviations of the difference between score and
    #: cross-validated score.
    finest_first: float = 0.0

    def coarse_half_width(self, n_queries: int) -> float:
        return _COARSE_CELL

    def fine_half_widths(
        self,
        prediction_deviation: FloatOrArray,
        n_fine: int,
        *,
        rank_lengths: FloatOrArray = 0.0,
        cv_deviation: FloatOrArray = 1.0,
        is_single_query: bool = False,
    ) -> Any:
        # All half-widths are in standard deviations of the score.
        log_failure_at_rank = self.log_failure - np.asarray(rank_lengths)
        log_failure_at_rank = np.minimum(log_failure_at_rank, -math.log(2.0))
        sampling_half_width = -ndtri_exp(log_failure_at_rank)
        half_widths = self.leader_half_width - sampling_half_width - _SKEW
        # The first fine cell has a limit of its own.
        min_half_widths = self.finest_first * cv_deviation
        if n_fine:
            min_half_widths = self.finest * prediction_deviation
        half_widths = np.maximum(half_widths, min_half_widths)
        half_widths = np.minimum(half_widths, _COARSEST_FINE_CELL * prediction_deviation)
        return np.maximum(half_widths, _MIN_FINE_CELL)

    def surprise_half_widths(
        self, fine_half_widths: Array, thresholds: Array, *, is_leader: bool, is_first: bool
    ) -> Array:
        # A surprise has used a holdout value already, and a narrow cell measures the error of the
        # prediction.
        if not is_leader:
            return _OTHER_SURPRISE_CELL * fine_half_widths
        if is_first:
            return fine_half_widths
        return np.minimum(fine_half_widths, _LEADER_SURPRISE_CELL * thresholds)


def make_width_policy(
    spending: AlphaSpending, batch_index: int, log_failure: float, *, given_rest: bool = False
) -> EvenWidthPolicy | FinalWidthPolicy:
    """Return the rule for the cell widths of a batch.

    Parameters
    ----------
    spending : AlphaSpending
        Spending of failure probability over the life of the holdout.
    batch_index : int
        Number of the batch, from 1.
    log_failure : float
        Log of the failure probability of one side of an interval, without the rank in the batch.
    given_rest : bool, default=False
        Whether scores are of nodes, given the values of all other nodes.
    """
    if not spending.policy.coarse:
        return EvenWidthPolicy()
    # If n_searches is given, the first interval is an interim one.
    log_batch_number = math.log(batch_index + (spending.n_searches is not None))
    return FinalWidthPolicy(
        leader_half_width=float(
            np.interp(log_batch_number, _LOG_BATCH_NUMBERS, _LEADER_HALF_WIDTHS)
        ),
        log_failure=log_failure,
        finest=float(np.interp(log_batch_number, _LOG_BATCH_NUMBERS, _FINEST_CELLS)),
        finest_first=_FINEST_FIRST_CELL_OF_NODES if given_rest else 0.0,
    )


@functools.cache
def _cheapest_half_widths():
    """Return log slopes, and for each the x in a grid that minimizes slope * x + entropy(x).

    ``entropy(x)`` is the entropy in nats of the number of the cell that a standard normal variable
    falls in, for cells of half-width x around multiples of 2x. Both arrays have shape (300,).
    """
    half_widths = np.geomspace(0.02, 6.0, 400)
    edges_in_half_widths = 2.0 * np.arange(-350.0, 352.0) - 1.0  # of 701 adjacent cells
    entropies = np.empty(half_widths.size)
    for index, half_width in enumerate(half_widths):
        masses = np.diff(ndtr(edges_in_half_widths * half_width))
        entropies[index] = -(masses * np.log(np.maximum(masses, 1e-300))).sum()
    slopes = np.geomspace(1e-5, 50.0, 300)
    costs = slopes[:, None] * half_widths + entropies
    return np.log(slopes), half_widths[np.argmin(costs, axis=1)]


def fine_half_width(
    policy,
    code,
    *,
    predictions,
    deviation_at,
    training_factor,
    drift,
    relative_deviation=1.0,
    rank_lengths=0.0,
    is_single_query=False,
):
    """Return half-widths of fine cells, in units of [0, 1].

    Parameters
    ----------
    policy : CellWidthPolicy
        Widths of the cells of the batch.
    code : PredictiveCode
        Code before the cells, with the scales of prediction errors and the number of fine cells.
    predictions : float or ndarray of shape (k,)
        Predicted scores, in [0, 1].
    deviation_at : callable
        Takes predictions; returns the standard deviations of scores there, in units of [0, 1].
    training_factor : float or ndarray of shape (k,)
        ``1 + n / training size``: ratio of the variance of score minus cross-validated score to
        that of the score.
    drift : float or ndarray of shape (k,)
        Standard deviation of the offset that scores share, in units of [0, 1].
    relative_deviation : float or ndarray of shape (k,), default=1.0
        Ratio of the expected standard deviation of a score to the one by ``deviation_at``.
    rank_lengths : float or ndarray of shape (k,), default=0.0
        Code lengths of the ranks in the batch, in nats.
    is_single_query : bool, default=False
        Whether the batch has one query.
    """
    predictions = np.asarray(predictions, dtype=float)
    score_deviation = deviation_at(predictions) * relative_deviation
    score_scale, drift_scale = code.scales()
    scaled_drift = drift_scale * np.asarray(drift)
    prediction_deviation = np.hypot(
        score_scale * score_deviation * np.sqrt(training_factor), scaled_drift
    )
    max_shift = _SHIFT_IN_DRIFTS * np.minimum(scaled_drift, _MAX_SHIFTING_DRIFT)
    shift = np.minimum(np.maximum(0.5 - predictions, -max_shift), max_shift)
    # Deviations are usually larger near 1/2.
    shifted_deviation = deviation_at(predictions + shift) * relative_deviation
    max_deviation = np.maximum(score_deviation, shifted_deviation)
    return max_deviation * policy.fine_half_widths(
        prediction_deviation / max_deviation,
        code.n_fine,
        rank_lengths=rank_lengths,
        cv_deviation=np.sqrt(training_factor),
        is_single_query=is_single_query,
    )


class Cells:
    """Possible released cells of a query, and the region around its prediction that confirms it.

    Cells are numbered by integers and have half-width ``half_width``, by default the threshold. The
    cell 0 is centered at ``center``, the prediction. If ``grid_step`` is positive, they are fixed
    cells of this width instead, and the cell 0 begins at 0. ``threshold``: half-width of the
    confirming region.
    """

    def __init__(
        self,
        center: float,
        threshold: float,
        half_width: float | None = None,
        grid_step: float = 0.0,
    ) -> None:
        self.center = center
        self.threshold = threshold
        half_width = threshold if half_width is None else half_width
        self.width = grid_step if grid_step > 0 else 2.0 * half_width
        self.origin = 0.0 if grid_step > 0 else center - half_width
        #: Numbers of the end cells, which contain 0 and 1.
        self.first_number = self._unbounded_number(0.0)
        self.last_number = self._unbounded_number(1.0)
        if (
            grid_step > 0
            and self.last_number * self.width >= 1.0 - 1e-9
            and self.last_number > self.first_number
        ):
            self.last_number -= 1  # 1 belongs to the last whole cell

    def _unbounded_number(self, value):
        """Return the number of a value's cell, not limited to the cells that meet [0, 1]."""
        return math.floor((value - self.origin) / self.width)

    def cell_of(self, value: float) -> int:
        """Return the number of the cell of a value; values outside [0, 1] are in the end cells."""
        return min(max(self._unbounded_number(value), self.first_number), self.last_number)

    def edges(self, number: int) -> tuple[float, float]:
        """Return the ends of a cell; the outer end of an end cell is infinite."""
        low = self.origin + number * self.width
        return (
            -math.inf if number == self.first_number else low,
            math.inf if number == self.last_number else low + self.width,
        )

    def central_edges(self) -> tuple[float, float]:
        """Return the ends of the region that confirms the prediction, narrowed by 4% per side.

        An end is infinite if the region reaches 0 or 1 there.
        """
        inner_distance = (1.0 - _RIM) * self.threshold
        return (
            -math.inf if self.center - self.threshold <= 0.0 else self.center - inner_distance,
            math.inf if self.center + self.threshold >= 1.0 else self.center + inner_distance,
        )


class Comparison(NamedTuple):
    """Queries to compare in this order, up to the first corrected one; arrays of shape (k,)."""

    positions: Array  # in the batch
    predictions: Array  # values are compared with them
    thresholds: Array  # distances from the predictions from which queries are corrected
    # Half-widths of the cells around the prediction in which corrected scores are released; without
    # effect on queries with fixed cells.
    surprise_half_widths: Array
    grid_steps: Array  # widths of fixed cells; 0 for cells around the prediction

    def cells(self, index: int) -> Cells:
        """Return the cells of the query at ``index`` of the comparison."""
        return Cells(
            center=float(self.predictions[index]),
            threshold=float(self.thresholds[index]),
            half_width=float(self.surprise_half_widths[index]),
            grid_step=float(self.grid_steps[index]),
        )


class Prediction(NamedTuple):
    """Predictive distribution of the holdout scores of some queries; arrays of shape (k,)."""

    centers: Array
    deviations: Array  # of the difference between score and cross-validated score
    drifts: Array  # deviations of the common offset

    def take(self, selection: slice) -> Prediction:
        """Return the distributions of a slice of the queries."""
        return Prediction(*(column[selection] for column in self))


class BatchRelease:
    """Released cells and values of a batch of ``n_queries`` queries, initially unanswered."""

    def __init__(self, n_queries: int) -> None:
        # Released values, NaN where not answered; ends of their cells, noise margins included.
        self.values, self.lower, self.upper = np.full((3, n_queries), np.nan)
        # Whether a query was corrected by the holdout (reply "above"), answered at all, relaxed.
        self.above, self.answered, self.relaxed = np.zeros((3, n_queries), dtype=bool)
        # Code lengths of the ranks in nats, fixed before the first answer.
        self.rank_lengths = np.zeros(n_queries)
        self.released_nats = 0.0  # code length of all released cells, in nats
        self.n_replies_above = 0  # those of refinements included
        #: Position and number of the cell of each reply "above" in the first pass.
        self.first_pass_cells: list[list[int]] = []
        #: Position and number of the cell of each refinement; None for "below".
        self.refined_cells: list[list[int | None]] = []


def leading_position(values: Array, corrected: Array, ranks: Array | None = None) -> int:
    """Return the position of the query that is selected by the released values.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Released values; -inf where a query cannot be selected.
    corrected : ndarray of bool, shape (m,)
        Whether the holdout corrected the prediction from cross-validation.
    ranks : ndarray of shape (m,), default=None
        Public ranks by cross-validation, smallest for the best candidate. If None, values decide.

    Returns
    -------
    int
        The query with the highest value. With ranks: the query with the best rank (of equal ranks,
        the one with the highest value) among those that can be selected and were not corrected.
        But if there is none, or a corrected query has a higher value, the corrected query with the
        highest value (of equal values, the one with the best rank). If no query can be selected,
        the one with the best rank.
    """
    if ranks is None:
        return int(np.argmax(values))
    is_confirmed = np.isfinite(values) & ~corrected
    # Of equal values, the one with the best rank.
    highest_corrected = int(np.lexsort((ranks, -np.where(corrected, values, -np.inf)))[0])
    if not is_confirmed.any():
        return highest_corrected
    # Of equal ranks, the one with the highest value.
    best_confirmed = int(np.lexsort((-values, np.where(is_confirmed, ranks, np.inf)))[0])
    is_raised = corrected[highest_corrected] and values[highest_corrected] > values[best_confirmed]
    return highest_corrected if is_raised else best_confirmed


@dataclasses.dataclass(eq=False, kw_only=True)
class GradedRelease:
    """Public state of one batch of ``m`` queries, in arrays of shape (m,).

    The batch is answered once, by :meth:`run_leader_first` or :meth:`run_sequential`.
    """

    code: PredictiveCode  # after the batches before; updated in place
    #: Takes a :class:`Comparison`; returns the number of its queries that were answered (0 if the
    #: budget is spent), and the number of the cell of the last one of these if it was "above", else
    #: None.
    compare: Callable[[Comparison], tuple[int, int | None]]
    #: Noise margins of "below" and "above" at sensitivity ``1/n``, in units of [0, 1], after a
    #: number of rounds (earlier replies "above").
    noise_margins: Callable[[int], tuple[float, float]]
    n_rounds: int = 0  # rounds before the batch
    cv_scores: Array  # in [0, 1]
    min_thresholds: Array  # smallest thresholds, in units of [0, 1]
    noise_scales: Array  # factors of the noise and of its margins
    # 1 + n / training size: variance of the difference between score and cross-validated score, in
    # variances of the score.
    training_factors: Array
    #: Takes positions and predictions; returns the worst-case deviations of scores there.
    score_deviations_at: Callable[[Array, Array], Array]
    # Queries without influence on decisions, such as other metrics of the same candidates. In
    # :meth:`run_leader_first` they come last, get coarse cells, and are never refined.
    is_secondary: Any = False  # or an array of bool
    # Ratios of expected deviations of scores to ``score_deviations_at`` (theory G15).
    deviation_ratios: Any = 1.0  # or an array of shape (m,)
    #: Public ranks that select a query unless another one is corrected upward (theory G34); None:
    #: released values select.
    ranks: Array | None = None

    def __post_init__(self) -> None:
        m = self.cv_scores.size
        self.release = BatchRelease(m)
        self.deviation_ratios = np.broadcast_to(self.deviation_ratios, m)
        # Ends of the released cells without noise margins (NaN: not answered), and the half-width
        # with which each query was compared last (infinite: not compared).
        self.cell_lower, self.cell_upper = np.full((2, m), np.nan)
        self.cell_half_widths = np.full(m, np.inf)
        #: Index of the pair that the code has learned for a position.
        self.learned_pairs: dict[int, int] = {}
        # A first surprise measures the start of the offset, not its random walk.
        self.has_earlier_pairs = bool(self.code.pairs)
        self.is_secondary = np.broadcast_to(self.is_secondary, m)
        self.code.start_batch()
        self.code.observe_cv_scores(self.cv_scores)
        self.rank_order = np.zeros(m, dtype=int)
        if m > 1:
            centers, _ = self.code.predict(self.cv_scores)
            order_key = -centers if self.ranks is None else self.ranks
            self.rank_order = np.lexsort((order_key, self.is_secondary))
        # Theory G7, conditions: ranks (argsort of the order) are fixed here, before any answer.
        self.release.rank_lengths = rank_code_lengths(-np.argsort(self.rank_order))

    def run_leader_first(self, policy: CellWidthPolicy) -> BatchRelease:
        """Compare all queries, the leader first with a fine cell; then refine new leaders.

        The order is that of public ranks, or of predictions without ranks, with secondary queries
        last. The first query is the leader, unless all are secondary. ``policy`` gives the widths
        of the cells. Return the :class:`BatchRelease`. Queries stay unanswered once the budget is
        spent.
        """
        m = self.rank_order.size
        n_leaders = int(not np.all(self.is_secondary))

        def prepare(positions):
            return self._graded_comparison(policy, positions, is_leader=False)

        def prepare_leader(positions):
            return self._graded_comparison(policy, positions, is_leader=True)

        leader_positions, other_positions = np.split(self.rank_order, [n_leaders])
        budget_lasts = self._compare_in_order(leader_positions, prepare_leader, is_leader=True)
        budget_lasts = budget_lasts and self._compare_in_order(
            other_positions, prepare, tail_factor=1.0 / m
        )
        if budget_lasts and n_leaders and m > 1:
            self._refine_leaders(policy)
        # For every answered query the best guess inside its cell is released.
        self.release.values = np.where(self.release.answered, self._best_guesses(), np.nan)
        return self.release

    def _graded_comparison(
        self, policy: CellWidthPolicy, positions: Array, *, is_leader: bool
    ) -> tuple[Comparison, Prediction, Array]:
        """Return the comparison of queries, their prediction, and which are relaxed if confirmed.

        ``positions``: of the queries in the batch. ``is_leader``: whether the only one is the
        leader.
        """
        prediction = self._predict(positions)
        fine_half_widths = self._fine_half_widths(
            policy, positions, prediction, is_leader=is_leader
        )
        unrelaxed_thresholds = fine_half_widths
        if not is_leader:
            worst_case_deviations = prediction.deviations / self.deviation_ratios[positions]
            coarse_half_widths = (
                policy.coarse_half_width(self.rank_order.size) * worst_case_deviations
            )
            unrelaxed_thresholds = np.maximum(fine_half_widths, coarse_half_widths)
        min_thresholds = self.min_thresholds[positions]
        thresholds = np.maximum(unrelaxed_thresholds, min_thresholds)
        comparison = Comparison(
            positions=positions,
            predictions=prediction.centers,
            thresholds=thresholds,
            surprise_half_widths=policy.surprise_half_widths(
                fine_half_widths,
                thresholds,
                is_leader=is_leader,
                is_first=not self.has_earlier_pairs,
            ),
            grid_steps=np.zeros(positions.size),
        )
        # Relaxed: the candidate trails so far that a fine cell would not be worth its price.
        return comparison, prediction, min_thresholds > fine_half_widths

    def _refine_leaders(self, policy: CellWidthPolicy) -> None:
        """Compare newly selected queries again with fine cells, while the budget lasts.

        Stop when the selected query is the first of the order, or was selected before. Queries with
        cells that are fine enough are not compared again.
        """
        finest_positions = {int(self.rank_order[0])}
        budget_lasts = True
        while budget_lasts:
            values = np.where(self.is_secondary, -np.inf, self._best_guesses())
            leader = leading_position(values, self.release.above, self.ranks)
            if leader in finest_positions:
                return
            finest_positions.add(leader)
            budget_lasts = self._refine(leader, policy)

    def run_sequential(
        self, choose_thresholds, *, resolution=0.0, learns_offset=False, is_separate=False
    ):
        """Answer every query once, in the order of the batch; return the :class:`BatchRelease`.

        Queries stay unanswered once the budget is spent.

        Parameters
        ----------
        choose_thresholds : callable
            Takes positions and predictions; returns thresholds, and a mask of the queries that are
            relaxed if confirmed.
        resolution : float, default=0.0
            Grid step of answers at sensitivity ``1/n``, in units of [0, 1]; 0 for cells around the
            predictions.
        learns_offset : bool, default=False
            Whether values are compared with predictions that learn from earlier answers. If False,
            they are compared with cross-validated scores.
        is_separate : bool, default=False
            Whether each query is answered by itself: no offset is shared, no released value is
            learned, all ranks have the same code length (any public distribution is valid, theory
            G7), and the score's deviation is taken to be half its threshold.
        """
        m = self.rank_order.size
        if is_separate:
            self.release.rank_lengths = np.full(m, math.log(m))

        def prepare(positions):
            """Return a comparison, its prediction, and which queries are relaxed if confirmed."""
            prediction = self._predict(positions)
            centers = prediction.centers if learns_offset else self.cv_scores[positions]
            thresholds, is_relaxed = choose_thresholds(positions, centers)
            if is_separate:
                deviations = 0.5 * thresholds * np.sqrt(self.training_factors[positions])
                prediction = Prediction(centers, deviations, np.zeros(positions.size))
            comparison = Comparison(
                positions=positions,
                predictions=centers,
                thresholds=thresholds,
                surprise_half_widths=thresholds,
                grid_steps=resolution * self.noise_scales[positions],
            )
            return comparison, prediction, is_relaxed

        self._compare_in_order(np.arange(m), prepare, learns=not is_separate)
        return self.release

    def _compare_in_order(self, order, prepare, *, is_leader=False, tail_factor=1.0, learns=True):
        """Compare and record queries in an order of positions; return whether the budget lasted.

        ``prepare(positions)`` returns the comparison, the prediction, and a mask of the queries
        that are relaxed if confirmed. ``is_leader``: whether the order contains the leader of the
        batch only. ``tail_factor`` multiplies the weights of the heavy-tailed components of the
        code (theory G17). ``learns``: whether the code learns the released values of corrected
        queries and of the leader.
        """
        release = self.release
        code = self.code
        while order.size:
            comparison, prediction, is_relaxed = prepare(order[:_MAX_COMPARED])
            n_answered, cell = self.compare(comparison)
            if n_answered == 0:
                return False
            expected_squared_error = self._expected_squared_error(prediction) if is_leader else 0.0
            cell_masses = functools.partial(code.masses, tail_factor=tail_factor)
            self._record(comparison, n_answered, cell, prediction, cell_masses)
            n_below = n_answered - (cell is not None)
            release.relaxed[comparison.positions[:n_below]] = is_relaxed[:n_below]
            last_position = int(comparison.positions[n_answered - 1])
            if cell is not None:
                release.first_pass_cells.append([last_position, cell])
            if learns and (is_leader or cell is not None):
                self._learn(last_position)
            if is_leader and self.has_earlier_pairs:  # theory G17: the common offset walks
                excess_square = 0.0
                if cell is not None:
                    error = self._middle(last_position) - comparison.predictions[0]
                    excess_square = max(0.0, error**2 - 2.0 * expected_squared_error)
                code.observe_surprise(excess_square)
            code.n_fine += is_leader
            order = order[n_answered:]
        return True

    def _expected_squared_error(self, prediction: Prediction) -> float:
        """Return the expected squared error of one predicted score, in squared units of [0, 1].

        ``prediction``: its first item is used.
        """
        score_scale, drift_scale = self.code.scales()
        deviation = score_scale * float(prediction.deviations[0])
        drift = drift_scale * float(prediction.drifts[0])
        return deviation**2 + drift**2

    def _refine(self, position: int, policy: CellWidthPolicy) -> bool:
        """Compare one query again, with a fine cell; return whether the budget lasted.

        No comparison is made, and the result is True, if the fine cell would have at least 60% of
        the half-width of the latest comparison of the query.
        """
        positions = np.array([position])
        release = self.release
        prediction = self._predict(positions)
        half_widths = self._fine_half_widths(policy, positions, prediction, is_leader=True)
        half_widths = np.maximum(half_widths, self.min_thresholds[position])
        if not half_widths[0] < 0.6 * self.cell_half_widths[position]:
            return True
        coarse_lower = self.cell_lower[position]
        coarse_upper = self.cell_upper[position]
        min_distance = max(0.0, min(half_widths[0], 0.5 * (coarse_upper - coarse_lower)))
        centers = np.clip(
            prediction.centers, coarse_lower + min_distance, coarse_upper - min_distance
        )
        comparison = Comparison(
            positions=positions,
            predictions=np.clip(centers, 0.0, 1.0),
            thresholds=half_widths,
            surprise_half_widths=half_widths,
            grid_steps=np.zeros(1),
        )
        n_answered, cell = self.compare(comparison)
        if n_answered == 0:
            return False
        self.code.n_fine += 1
        release.refined_cells.append([position, cell])
        cell_masses = self._masses_given_cell(coarse_lower, coarse_upper, prediction)
        self._record(comparison, n_answered, cell, prediction, cell_masses)
        self._learn(position)
        release.relaxed[position] = False
        return True

    def _masses_given_cell(self, cell_lower, cell_upper, prediction):
        """Return a function for probabilities of intervals, given that a score lies in a cell.

        It takes ends and a predictive distribution, as ``code.masses`` does, and returns an array
        of shape (n_components, 1). Scores outside of the cell have a small weight.
        ``cell_lower``, ``cell_upper``: ends of the cell. ``prediction``: of the score.
        """
        cell_lower = -math.inf if cell_lower <= 0.0 else cell_lower
        cell_upper = math.inf if cell_upper >= 1.0 else cell_upper
        cell_mass = self.code.masses(cell_lower, cell_upper, *prediction)

        def masses(low, high, *distribution):
            inner_low = np.maximum(low, cell_lower)
            inner_high = np.minimum(high, cell_upper)
            inner_mass = 0.0
            if inner_low < inner_high:
                inner_mass = self.code.masses(inner_low, inner_high, *distribution)
            mass_of_any_value = self.code.masses(low, high, *distribution)
            return (1.0 - _OUTSIDE) * inner_mass / cell_mass + _OUTSIDE * mass_of_any_value

        return masses

    def _predict(self, positions: Array) -> Prediction:
        """Return the predictive distributions of the scores at these positions."""
        deviation_ratios = self.deviation_ratios[positions]
        cv_scores = self.cv_scores[positions]
        centers, drifts = self.code.predict(cv_scores)
        score_deviations = self.score_deviations_at(positions, centers) * deviation_ratios
        max_drifts = np.maximum(OFFSET_DEVIATION * deviation_ratios, np.abs(centers - cv_scores))
        deviations = score_deviations * np.sqrt(self.training_factors[positions])
        return Prediction(centers, deviations, np.minimum(drifts, max_drifts))

    def _fine_half_widths(self, policy, positions, prediction, *, is_leader):
        """Return the half-widths of fine cells at these positions, in units of [0, 1].

        They are at least the noise margins. ``prediction``: of the scores. ``is_leader``: whether
        to use expected standard deviations of scores; otherwise those of the worst case.
        """
        half_widths = fine_half_width(
            policy,
            self.code,
            predictions=prediction.centers,
            deviation_at=lambda predictions: self.score_deviations_at(positions, predictions),
            training_factor=self.training_factors[positions],
            drift=prediction.drifts,
            relative_deviation=self.deviation_ratios[positions] if is_leader else 1.0,
            rank_lengths=self.release.rank_lengths[positions],
            is_single_query=self.rank_order.size == 1,
        )
        margin, _ = self.noise_margins(self.n_rounds + self.release.n_replies_above)
        return np.maximum(half_widths, margin * self.noise_scales[positions])

    def _record(self, comparison, n_answered, cell, prediction, cell_masses):
        """Record the replies to the first ``n_answered`` queries of a comparison.

        They were confirmed, but the last one was corrected if ``cell``, the number of its cell, is
        not None. ``prediction``: of the scores. ``cell_masses(low, high, *prediction)`` returns
        probabilities of intervals, of shape (n_components, n_intervals).
        """
        n_below = n_answered - (cell is not None)
        n_rounds = self.n_rounds + self.release.n_replies_above
        margin_below, margin_above = self.noise_margins(n_rounds)
        if n_below:
            self._record_below(comparison, n_below, prediction, cell_masses, margin_below)
        if cell is not None:
            self._record_above(comparison, n_below, cell, prediction, cell_masses, margin_above)

    def _record_below(self, comparison, n_below, prediction, cell_masses, margin):
        """Record that the first ``n_below`` queries of a comparison were confirmed.

        ``prediction``: of the scores. ``cell_masses(low, high, *prediction)`` returns probabilities
        of intervals, of shape (n_components, n_below). ``margin``: of the noise, in units of
        [0, 1], at sensitivity ``1/n``.
        """
        release = self.release
        positions = comparison.positions[:n_below]
        predictions = comparison.predictions[:n_below]
        thresholds = comparison.thresholds[:n_below]
        lower = predictions - thresholds
        upper = predictions + thresholds
        inner_distances = (1.0 - _RIM) * thresholds
        inner_lower = np.where(lower <= 0.0, -np.inf, predictions - inner_distances)
        inner_upper = np.where(upper >= 1.0, np.inf, predictions + inner_distances)
        masses = cell_masses(inner_lower, inner_upper, *prediction.take(slice(n_below)))
        release.released_nats += self.code.charge(np.log((1.0 - _CROSSING) * masses))
        self._narrow(positions, lower, upper, thresholds, margin * self.noise_scales[positions])
        release.values[positions] = predictions
        release.answered[positions] = True

    def _record_above(self, comparison, index, cell, prediction, cell_masses, margin):
        """Record that the query at ``index`` of a comparison was corrected.

        ``cell``: number of its cell. ``prediction``: of the scores. ``cell_masses(low, high,
        *prediction)`` returns probabilities of intervals, of shape (n_components, 1). ``margin``:
        of the noise, in units of [0, 1], at sensitivity ``1/n``.
        """
        release = self.release
        one_query = slice(index, index + 1)
        positions = comparison.positions[one_query]
        possible_cells = comparison.cells(index)
        low, high = possible_cells.edges(cell)
        central_low, central_high = possible_cells.central_edges()
        distribution = prediction.take(one_query)
        cell_mass = cell_masses(low, high, *distribution)
        inner_low = max(low, central_low)
        inner_high = min(high, central_high)
        central_mass = 0.0
        if inner_low < inner_high:
            central_mass = cell_masses(inner_low, inner_high, *distribution)
        surprise_mass = np.maximum(cell_mass - central_mass, 0.0)
        release.released_nats += self.code.charge(
            np.log((1.0 - _CROSSING) * surprise_mass + _CROSSING * cell_mass)
        )
        half_width = comparison.surprise_half_widths[index]
        self._narrow(positions, low, high, half_width, margin * self.noise_scales[positions])
        release.n_replies_above += 1
        release.above[positions] = release.answered[positions] = True
        value = 0.5 * (max(low, 0.0) + min(high, 1.0))
        if comparison.grid_steps[index] > 0.0:
            value = min((cell + 0.5) * possible_cells.width, 1.0)
        release.values[positions] = value

    def _narrow(self, positions, low, high, half_width, margin):
        """Intersect the cells of these positions, with and without noise margins, with new ones.

        A new cell replaces an earlier one that it does not meet. ``low``, ``high``: ends of the new
        cells, without noise margins. ``half_width``: their nominal half-widths. ``margin``: noise
        margins, in units of [0, 1].
        """
        release = self.release
        stored_ends = (
            (release.lower, release.upper, margin),
            (self.cell_lower, self.cell_upper, 0.0),
        )
        for lower, upper, added_margin in stored_ends:
            new_lower = np.minimum(np.maximum(low - added_margin, 0.0), 1.0)
            new_upper = np.minimum(np.maximum(high + added_margin, 0.0), 1.0)
            # NaN: the query has no earlier cell.
            common_lower = np.fmax(lower[positions], new_lower)
            common_upper = np.fmin(upper[positions], new_upper)
            # If noise makes the intersection empty, the new cell replaces it.
            is_empty = common_lower > common_upper
            lower[positions] = np.where(is_empty, new_lower, common_lower)
            upper[positions] = np.where(is_empty, new_upper, common_upper)
        self.cell_half_widths[positions] = half_width

    def _middle(self, position):
        """Return the middle of the released cell of the query at a position."""
        return 0.5 * (self.cell_lower[position] + self.cell_upper[position])

    def _learn(self, position):
        """Update the predictive code with the released cell of the query at a position."""
        value = self._middle(position)
        half_width = 0.5 * (self.cell_upper[position] - self.cell_lower[position])
        # The deviation at the released value, not at the prediction.
        deviation = self.score_deviations_at(np.array([position]), np.array([value]))[0]
        deviation *= self.deviation_ratios[position]
        score_scale, _ = self.code.scales()
        difference_variance = (score_scale * deviation) ** 2 * self.training_factors[position]
        rounding_variance = half_width**2 / 3.0  # of a uniform distribution over the cell
        self.learned_pairs[position] = self.code.learn(
            self.cv_scores[position],
            value,
            difference_variance + rounding_variance,
            replaced_pair=self.learned_pairs.get(position),
        )

    def _best_guesses(self):
        """Return predicted scores, clipped to their cells; -inf for unanswered queries."""
        centers, _ = self.code.predict(self.cv_scores)
        guesses = np.minimum(np.maximum(centers, self.cell_lower), self.cell_upper)
        return np.where(self.release.answered, guesses, -np.inf)
