"""A batch as a race: coarse cells for all, fine ones for the leader (theory G7, G17).

Comparisons go through one function: the mechanism of the holdout, or a test that enumerates all its
possible replies. A race reads released cells only.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri_exp

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.accounting.spending import OFFSET, AlphaSpending, PredictiveCode, rank_code_lengths

# Noise may release the central cell as "above": it is priced like the rim of the cell (RIM), and
# every cell has this fraction of its price in addition (CROSSING).
RIM = 0.04
CROSSING = 1e-4
# Noise of a second draw may leave the cell that the first one found.
OUTSIDE = 1e-3

_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest

# Theory G17, all by ``benchmarks/simulate_year.py`` on other seeds than are reported. Target
# half-widths of a leader in batch 1, 2, 5, ..., in deviations, and the finest cell, in deviations
# of the prediction, interpolated over logarithms. A finer first cell would cost the report more
# than "even" does. Finer later cells would cause more surprises than the few remaining intervals
# are worth (``--sweep least``).
_AGES = np.log([1, 2, 5, 10, 20, 50])
_WANTED, _LEAST = (5.1, 7.8, 7.9, 8.0, 8.0, 8.8), (2.6, 2.5, 2.5, 2.6, 3.2, 4.2)
_MOST = 5.0  # coarsest fine cell, in deviations of the prediction
# Finest first cell of nodes given all others, in deviations of the difference between a score and
# its cross-validated score. Weights leave few training nodes behind it: without this limit, one
# honest search in six is corrected (``python -m benchmarks.dependence.node_predictions``).
_FIRST_OF_NODES = 2.0
_FINEST = 0.6  # finest cell, in deviations of the score
_SKEW = 0.12  # excess of limits over the normal quantile
_COARSE = 6.5  # half-width of coarse cells, in deviations of prediction and score
# Cells that surprises are released in: those of a leader in parts of its threshold, from the
# second batch on, and those of others in parts of a fine cell.
_SURPRISED, _OTHERS = 1.0 / 3.0, 0.6
_TOWARD = (1.5, 0.04)  # how far scores may lie toward 1/2: in drifts, and of drifts up to this
_LONE = 4.0  # number of single queries after which they are priced like the leader of a search
_NARROW, _WIDENING = 1.5, 0.9  # coarse cells: of one query, and by how much with the log of m


@dataclasses.dataclass(frozen=True)
class Pace:
    """Cell widths of ``spending="even"``, chosen by ``benchmarks/simulate_year.py``."""

    # Half-width of the coarse cells of a large batch, in deviations of prediction and score.
    coarse: float = 5.5
    # Price of a first nat, in deviations of the score: it widens every later interval.
    price: float = 2.0
    # Typical number of fine cells. Near it fewer intervals are still to come and a nat is worth
    # less. Beyond it the cells of further queries widen, so that the total cost grows like the
    # logarithm of their number.
    patience: float = 18.0

    def coarsely(self, m: int) -> float:
        """Return the half-width of coarse cells in a batch of ``m``, in the same deviations.

        A surprise costs nats, and each of many queries may be one; a few get narrower cells.
        """
        return min(self.coarse, _NARROW + _WIDENING * math.log(m))

    def fine(
        self, relative_deviation: FloatOrArray, n_fine: int, *, alone: bool = False, **_: Any
    ) -> Any:
        """Return half-widths of the next fine cells, in deviations of the score.

        The sum of half-width and price of the expected code length is least (normal predictions).
        ``relative_deviation``: deviations of the predictions, in deviations of the score. The first
        single queries (``alone``: a batch of one) get finer cells, because a holdout may never
        answer more than one query.
        """
        age = n_fine / self.patience
        nat_price = self.price * (1.0 - 1.5 * age + age**2)
        if alone:
            nat_price *= min(1.0, (1.0 + n_fine) / _LONE)
        return relative_deviation * np.interp(
            np.log(relative_deviation / nat_price), *_best_halves()
        )

    def surprised(self, fine: Array, thresholds: Array, **_: Any) -> Array:
        """Return half-widths of the cells of surprises: those of fine cells."""
        return fine


@dataclasses.dataclass(frozen=True)
class FinalPace:
    """Cell widths of ``spending="final"`` in one batch (theory G17), from target interval widths.

    An interim answer shows whether the holdout still agrees with the prediction. A cell is as wide
    as the target interval allows, and never finer than the precision of the prediction justifies.
    """

    wanted: float  # half-width of the leader's interval, in deviations of the score
    log_failure: float  # of one side of an interval, without the rank in the batch
    least: float = _LEAST[0]  # finest cell, in deviations of the prediction
    #: Finest first cell, in deviations of the difference between score and cross-validated score.
    least_first: float = 0.0

    def coarsely(self, m: int) -> float:
        """Return the half-width of coarse cells, in deviations of prediction and score."""
        return _COARSE

    def fine(
        self,
        relative_deviation: FloatOrArray,
        n_fine: int,
        *,
        rank_lengths: FloatOrArray = 0.0,
        cv_deviation: FloatOrArray = 1.0,
        **_: Any,
    ) -> Any:
        """Return half-widths of the next fine cells, in deviations of the score.

        ``relative_deviation``: deviations of the predictions in the same unit, ``cv_deviation``: of
        the differences between scores and cross-validated scores, ``rank_lengths``: code lengths of
        the ranks in the batch.
        """
        sampling = -ndtri_exp(
            np.minimum(self.log_failure - np.asarray(rank_lengths), -math.log(2.0))
        )
        half = self.wanted - sampling - _SKEW
        # Before the first fine cell, no answer has shown how precise predictions are.
        finest = self.least_first * cv_deviation
        if n_fine:
            finest = self.least * relative_deviation
        half = np.maximum(half, finest)
        return np.maximum(np.minimum(half, _MOST * relative_deviation), _FINEST)

    def surprised(self, fine: Array, thresholds: Array, *, leads: bool, first: bool) -> Array:
        """Return half-widths of the cells of surprises.

        A surprise has used a holdout value already, and a narrow cell measures the error of the
        prediction.
        """
        if leads:
            return fine if first else np.minimum(fine, _SURPRISED * thresholds)
        return _OTHERS * fine


def paced(
    spending: AlphaSpending, batch_index: int, log_failure: float, *, given_rest: bool = False
) -> Pace | FinalPace:
    """Return the cell widths of a batch; ``log_failure``: of one side of its intervals.

    ``given_rest``: scores are of nodes given all others.
    """
    if not spending.policy.coarse:
        return Pace()
    # If n_searches is given, the first interval is an interim one.
    age = math.log(batch_index + (spending.n_searches is not None))
    wanted_half_width, finest_half_width = (
        float(np.interp(age, _AGES, row)) for row in (_WANTED, _LEAST)
    )
    least_first = _FIRST_OF_NODES if given_rest else 0.0
    return FinalPace(wanted_half_width, log_failure, finest_half_width, least_first)


@functools.cache
def _best_halves():
    """Return ln(slope) and the half-width x that minimises slope * x + entropy(x)."""
    halves = np.geomspace(0.02, 6.0, 400)
    cells = np.arange(-350.0, 351.0)
    entropy = np.empty(halves.size)
    for index, half in enumerate(halves):
        mass = np.diff(ndtr((2.0 * np.append(cells, 351.0) - 1.0) * half))
        entropy[index] = -(mass * np.log(np.maximum(mass, 1e-300))).sum()
    slopes = np.geomspace(1e-5, 50.0, 300)
    best = halves[np.argmin(slopes[:, None] * halves + entropy, axis=1)]
    return np.log(slopes), best


def fine_half_width(
    pace,
    code,
    *,
    predictions,
    deviation,
    factor,
    drift,
    sharpness=1.0,
    rank_lengths=0.0,
    alone=False,
):
    """Return half-widths of fine cells, in score units, for the precision of the predictions.

    ``code`` has learned that precision, and the number of earlier fine cells. ``deviation`` returns
    the deviation of scores at predictions, ``factor`` is ``1 + n / training size``, ``drift`` the
    deviation of the common offset; ``sharpness`` is the deviation of scores by the training set, in
    these deviations, ``rank_lengths`` code lengths of the ranks in the batch.
    """
    predictions = np.asarray(predictions, dtype=float)
    score_deviation = deviation(predictions) * sharpness
    scale, drift_scale = code.scales()
    drift = drift_scale * np.asarray(drift)
    prediction_deviation = np.hypot(scale * score_deviation * np.sqrt(factor), drift)
    toward = _TOWARD[0] * np.minimum(drift, _TOWARD[1])
    moved = predictions + np.minimum(np.maximum(0.5 - predictions, -toward), toward)
    unit = np.maximum(score_deviation, deviation(moved) * sharpness)
    return unit * pace.fine(
        prediction_deviation / unit,
        code.n_fine,
        rank_lengths=rank_lengths,
        cv_deviation=np.sqrt(factor),
        alone=alone,
    )


class Cells:
    """Possible released cells of a query, and the region of the answer "below".

    Cells have half-width ``half``, one of them centered at ``center``, the prediction. If ``step``
    is positive, they are fixed cells of that width from 0 instead.
    """

    def __init__(
        self, center: float, threshold: float, half: float | None = None, step: float = 0.0
    ) -> None:
        self.center = center
        self.threshold = threshold
        half = threshold if half is None else half
        self.width = step if step > 0 else 2.0 * half
        self.origin = 0.0 if step > 0 else center - half
        self.first = self._place(0.0)
        self.last = self._place(1.0)
        if step > 0 and self.last * self.width >= 1.0 - 1e-9 and self.last > self.first:
            self.last -= 1  # 1 belongs to the last whole cell

    def _place(self, value):
        return math.floor((value - self.origin) / self.width)

    def place(self, value: float) -> int:
        """Return the number of the cell of a value; end cells contain all values beyond."""
        return min(max(self._place(value), self.first), self.last)

    def edges(self, number: int) -> tuple[float, ...]:
        """Return the ends of a cell; those of end cells are infinite."""
        low = self.origin + number * self.width
        return (
            -math.inf if number == self.first else low,
            math.inf if number == self.last else low + self.width,
        )

    def central(self) -> tuple[float, ...]:
        """Return the ends of the region of "below" without its rim, which counts as outside."""
        inner = (1.0 - RIM) * self.threshold
        return (
            -math.inf if self.center - self.threshold <= 0.0 else self.center - inner,
            math.inf if self.center + self.threshold >= 1.0 else self.center + inner,
        )


class Asked(NamedTuple):
    """Queries to compare in this order, up to the first "above"; arrays of shape (k,)."""

    positions: Array  # in the batch
    predictions: Array  # values are compared with them
    thresholds: Array  # smallest distances of "above"
    halves: Array  # half-widths of the cells of surprises
    steps: Array  # widths of fixed cells, if positive

    def cells(self, index: int) -> Cells:
        """Return the cells of the query at ``index``."""
        return Cells(*(float(column[index]) for column in self[1:]))


class Outcome:
    """Released cells of a batch and values derived from them; filled as the batch is answered."""

    def __init__(self, size: int) -> None:
        # Released values, NaN where not answered; ends of their cells, noise margins included.
        self.values, self.least, self.most = np.full((3, size), np.nan)
        # Whether a query was corrected by the holdout, answered at all, relaxed.
        self.above, self.answered, self.relaxed = np.zeros((3, size), dtype=bool)
        self.rank_lengths = np.zeros(size)  # code lengths, fixed before the first answer
        self.released = 0.0  # code length of all released cells
        self.n_above = 0  # "above" answers, those of refinements included
        # Position and cell of the "above" answers of the first pass, and of every refinement.
        self.first: list[Any] = []
        self.fine: list[Any] = []


@dataclasses.dataclass(eq=False, kw_only=True)
class Race:
    """Public state of one batch of ``m`` queries, in arrays of shape (m,).

    It is answered once, by :meth:`run` or :meth:`walk`; both return its :class:`Outcome`.
    """

    code: PredictiveCode  # comes from the batches before and is advanced
    #: Takes :class:`Asked`; returns how many of these were answered, and the cell of the last one
    #: if it was "above", else None.
    ask: Callable[[Asked], tuple[int, int | None]]
    margins: Callable[[int], tuple[float, float]]  # of "below" and "above", after so many rounds
    n_above: int = 0  # rounds before the batch
    cv_scores: Array  # in [0, 1]
    relaxed_to: Array  # least thresholds
    sensitivities: Array  # in units of 1/n: factors of the noise margins
    # 1 + n / training size: increase of the score's variance by cross-validation.
    training_factors: Array
    deviation: Callable[[Array, Array], Array]  # of scores, for positions and predictions
    # Queries without influence on decisions, such as other metrics of the same candidates: they
    # come last, get coarse cells, and are never refined.
    secondary: Any = False  # or an array of bool
    # Deviations of the scores by the training set, in those deviations (theory G15).
    sharpness: Any = 1.0  # or an array of shape (m,)

    def __post_init__(self) -> None:
        m = self.cv_scores.size
        self.outcome = Outcome(m)
        self.sharpness = np.broadcast_to(self.sharpness, m)
        self.low, self.high = np.full((2, m), np.nan)  # known cells, no margin
        self.half = np.full(m, np.inf)  # half-widths they were asked with
        self.taught: dict[int, int] = {}
        # A first surprise measures the start of the offset, not its random walk.
        self.knew = bool(self.code.pairs)
        self.secondary = np.broadcast_to(self.secondary, m)
        self.code.start_batch()
        self.code.observe_cv_scores(self.cv_scores)
        self.order = np.zeros(m, dtype=int)
        if m > 1:
            centers, _ = self.code.predict(self.cv_scores)
            self.order = np.lexsort((-centers, self.secondary))
        # Theory G7, conditions: ranks are fixed here, before the first answer of the batch.
        self.outcome.rank_lengths = rank_code_lengths(-np.argsort(self.order))

    def run(self, pace: Pace | FinalPace) -> Outcome:
        """Pass in the order of predictions, the leader with a fine cell; then refine leaders."""
        m = self.order.size
        leaders = int(not np.all(self.secondary))

        def choose(positions, leads):
            predicted = self._predicted(positions)
            halves = self._fine(pace, positions, predicted, leads=leads)
            min_thresholds = halves
            if not leads:
                plain_deviations = predicted[1] / self.sharpness[positions]
                min_thresholds = np.maximum(halves, pace.coarsely(m) * plain_deviations)
            relaxed_to = self.relaxed_to[positions]
            thresholds = np.maximum(min_thresholds, relaxed_to)
            cells = pace.surprised(halves, thresholds, leads=leads, first=not self.knew)
            comparison = Asked(positions, predicted[0], thresholds, cells, np.zeros(positions.size))
            # Relaxed: the candidate trails so far that a finer cell would not be worth its price.
            return comparison, predicted, relaxed_to > halves

        budget_lasts = self._pass(self.order[:leaders], choose, leads=True)
        budget_lasts = budget_lasts and self._pass(self.order[leaders:], choose, tail=1.0 / m)
        guesses = self._guesses()
        refined = {int(self.order[0])}
        while budget_lasts and leaders and m > 1:
            best = int(np.argmax(np.where(self.secondary, -np.inf, guesses)))
            if best in refined:
                break
            refined.add(best)
            budget_lasts = self._refine(best, pace)
            guesses = self._guesses()
        # For every query the best guess inside its cell is released.
        self.outcome.values = np.where(self.outcome.answered, guesses, np.nan)
        return self.outcome

    def walk(self, thresholds, *, resolution=0.0, learned=False, is_separate=False):
        """Answer every query once, in the order of the batch.

        ``thresholds`` takes positions and predictions and returns thresholds, and which of them are
        relaxed; ``resolution`` is the grid step of answers at sensitivity 1; ``learned``:
        predictions are learned, else cross-validated scores are compared unchanged;
        ``is_separate``: each query is answered by itself, no offset is shared, nothing is learned,
        all ranks have the same code length (any public distribution is valid, theory G7), and the
        score's deviation is taken to be half its threshold.
        """
        all_positions = np.arange(self.order.size)
        if is_separate:
            n_queries = all_positions.size
            self.outcome.rank_lengths = np.full(n_queries, math.log(n_queries))

        def choose(positions, _):
            predicted = self._predicted(positions)
            compared = predicted[0] if learned else self.cv_scores[positions]
            distances, relaxed = thresholds(positions, compared)
            if is_separate:
                deviations = 0.5 * distances * np.sqrt(self.training_factors[positions])
                predicted = (compared, deviations, np.zeros(positions.size))
            steps = resolution * self.sensitivities[positions]
            comparison = Asked(
                positions=positions,
                predictions=compared,
                thresholds=distances,
                halves=distances,
                steps=steps,
            )
            return comparison, predicted, relaxed

        self._pass(all_positions, choose, teaches=not is_separate)
        return self.outcome

    def _pass(self, order, choose, *, leads=False, tail=1.0, teaches=True):
        """Compare queries in this order; return whether the budget lasted.

        ``choose(positions, leads)`` returns the comparison, predictive distributions of the values,
        and a mask of relaxed queries; ``tail`` is the weight of heavy tails (theory G17: queries
        that do not lead share the surprises of a first pass).
        """
        outcome = self.outcome
        code = self.code
        while order.size:
            comparison, predicted, relaxed = choose(order[:_AHEAD], leads)
            count, cell = self.ask(comparison)
            if count == 0:
                return False
            observes_walk = leads and self.knew
            if observes_walk and cell is not None:
                _, deviation, drift = (float(column[0]) for column in predicted)
                scale, drift_scale = code.scales()
                expected_square = (scale * deviation) ** 2 + (drift_scale * drift) ** 2
            self._record(
                comparison, count, cell, predicted, functools.partial(code.masses, tail=tail)
            )
            n_below = count - (cell is not None)
            last_position = int(comparison.positions[count - 1])
            outcome.relaxed[comparison.positions[:n_below]] = relaxed[:n_below]
            if cell is not None:
                outcome.first.append([last_position, cell])
            if teaches and (leads or cell is not None):
                self._learn(last_position)
            if observes_walk:  # theory G17: the common offset walks
                position = comparison.positions[0]
                offset_error = (
                    0.5 * (self.low[position] + self.high[position]) - comparison.predictions[0]
                )
                code.observe_surprise(
                    0.0 if cell is None else max(0.0, offset_error**2 - 2.0 * expected_square)
                )
            code.n_fine += leads
            order = order[count:]
        return True

    def _refine(self, best, pace):
        """Query the leader again with a fine cell, given its coarse one; see :meth:`_pass`."""
        positions = np.array([best])
        outcome = self.outcome
        predicted = self._predicted(positions)
        halves = self._fine(pace, positions, predicted, leads=True)
        halves = np.maximum(halves, self.relaxed_to[best])
        if not halves[0] < 0.6 * self.half[best]:
            return True
        left_end = self.low[best]
        right_end = self.high[best]
        min_distance = max(0.0, min(halves[0], 0.5 * (right_end - left_end)))
        center = np.clip(
            np.clip(predicted[0], left_end + min_distance, right_end - min_distance), 0.0, 1.0
        )
        comparison = Asked(positions, center, halves, halves, np.zeros(1))
        count, cell = self.ask(comparison)
        if count == 0:
            return False
        self.code.n_fine += 1
        outcome.fine.append([best, cell])
        left_end = -math.inf if left_end <= 0.0 else left_end
        right_end = math.inf if right_end >= 1.0 else right_end
        total_mass = self.code.masses(left_end, right_end, *predicted)

        def mass(low, high, *predicted):  # given the coarse cell of the query
            clipped_low = np.maximum(low, left_end)
            clipped_high = np.minimum(high, right_end)
            inside_mass = (
                self.code.masses(clipped_low, clipped_high, *predicted)
                if clipped_low < clipped_high
                else 0.0
            )
            outside_mass = self.code.masses(low, high, *predicted)
            return (1.0 - OUTSIDE) * inside_mass / total_mass + OUTSIDE * outside_mass

        self._record(comparison, count, cell, predicted, mass)
        self._learn(best)
        outcome.relaxed[best] = False
        return True

    def _predicted(self, positions):
        """Return predictions, deviations of the values and of the common offset.

        Scores that vary less than the worst case are predicted more precisely, and their offset is
        smaller: the code prices the cells that :meth:`_fine` chooses.
        """
        sharpness = self.sharpness[positions]
        centers, drifts = self.code.predict(self.cv_scores[positions])
        deviations = self.deviation(positions, centers) * sharpness
        offsets = np.abs(centers - self.cv_scores[positions])
        drifts = np.minimum(drifts, np.maximum(OFFSET * sharpness, offsets))
        return centers, deviations * np.sqrt(self.training_factors[positions]), drifts

    def _fine(self, pace, positions, predicted, *, leads):
        return fine_half_width(
            pace,
            self.code,
            predictions=predicted[0],
            deviation=lambda predictions: self.deviation(positions, predictions),
            factor=self.training_factors[positions],
            drift=predicted[2],
            sharpness=self.sharpness[positions] if leads else 1.0,
            rank_lengths=self.outcome.rank_lengths[positions],
            alone=self.order.size == 1,
        )

    def _record(self, comparison, count, cell, predicted, mass):
        """Record ``count`` answers: "below", but the last one "above" if it has a cell.

        ``mass(low, high, *predicted)`` returns the probability of intervals by component.
        """
        outcome = self.outcome
        n_below = count - (cell is not None)
        rounds = self.n_above + outcome.n_above
        if n_below:
            positions, mu, half = (part[:n_below] for part in comparison[:3])
            inner = (1.0 - RIM) * half
            low = np.where(mu - half <= 0.0, -np.inf, mu - inner)
            high = np.where(mu + half >= 1.0, np.inf, mu + inner)
            masses = mass(low, high, *(part[:n_below] for part in predicted))
            outcome.released += self.code.charge(np.log((1.0 - CROSSING) * masses))
            margin = self.margins(rounds)[0] * self.sensitivities[positions]
            self._narrow(positions, mu - half, mu + half, half, margin)
            outcome.values[positions] = mu
            outcome.answered[positions] = True
        if cell is None:
            return
        position = comparison.positions[n_below:count]
        cells = comparison.cells(n_below)
        low, high = cells.edges(cell)
        central_low, central_high = cells.central()
        last_predicted = [part[n_below:count] for part in predicted]
        cell_mass = mass(low, high, *last_predicted)
        inner_low = max(low, central_low)
        inner_high = min(high, central_high)
        central_mass = (
            mass(inner_low, inner_high, *last_predicted) if inner_low < inner_high else 0.0
        )
        surprise_mass = np.maximum(cell_mass - central_mass, 0.0)
        outcome.released += self.code.charge(
            np.log((1.0 - CROSSING) * surprise_mass + CROSSING * cell_mass)
        )
        margin = self.margins(rounds)[1] * self.sensitivities[position]
        self._narrow(position, low, high, comparison.halves[n_below], margin)
        outcome.n_above += 1
        outcome.above[position] = outcome.answered[position] = True
        fixed = comparison.steps[n_below] > 0.0
        middle = 0.5 * (max(low, 0.0) + min(high, 1.0))
        outcome.values[position] = min((cell + 0.5) * cells.width, 1.0) if fixed else middle

    def _narrow(self, positions, low, high, half, margin):
        """Narrow the cells of these positions, with their noise margins and without, in [0, 1]."""
        outcome = self.outcome
        cells = ((outcome.least, outcome.most, margin), (self.low, self.high, 0.0))
        for lower, upper, slack in cells:
            new_lower = np.minimum(np.maximum(low - slack, 0.0), 1.0)
            new_upper = np.minimum(np.maximum(high + slack, 0.0), 1.0)
            # NaN: the query has no earlier cell.
            common_lower = np.fmax(lower[positions], new_lower)
            common_upper = np.fmin(upper[positions], new_upper)
            # If the intersection is empty, a noise margin has failed: the last cell is kept.
            failed = common_lower > common_upper
            lower[positions] = np.where(failed, new_lower, common_lower)
            upper[positions] = np.where(failed, new_upper, common_upper)
        self.half[positions] = half

    def _learn(self, position):
        """Update the predictive code with a released cell."""
        value = 0.5 * (self.low[position] + self.high[position])
        half = 0.5 * (self.high[position] - self.low[position])
        # The deviation at the released value, not at the prediction.
        deviation = self.deviation(np.array([position]), np.array([value]))[0]
        deviation *= self.sharpness[position]
        score_variance = (self.code.scales()[0] * deviation) ** 2 * self.training_factors[position]
        self.taught[position] = self.code.learn(
            self.cv_scores[position],
            value,
            score_variance + half**2 / 3.0,
            instead=self.taught.get(position),
        )

    def _guesses(self):
        """Return the best public guess of every answered value; -inf where unanswered."""
        centers, _ = self.code.predict(self.cv_scores)
        guess = np.minimum(np.maximum(centers, self.low), self.high)
        return np.where(self.outcome.answered, guess, -np.inf)
