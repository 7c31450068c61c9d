"""A batch as a race: coarse cells for all, fine ones for the leader (theory G7, G17).

It has one function to ask with: behind it stands the mechanism of the holdout, or a test that
replies with every possibility there is. A race sees released cells only.
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
from sklearn_bdp.accounting.spending import AlphaSpending, PredictiveCode, rank_code_lengths

# Noise may release the central cell as "above": it is priced like the rim of the cell, and any
# cell at this part of its price besides.
RIM, CROSSING = 0.04, 1e-4
# Noise of a second draw may leave the cell that the first one found.
OUTSIDE = 1e-3

_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest

# Theory G17, all by ``benchmarks/simulate_year.py`` on other seeds than are reported. Half-widths
# that are wanted of a leader in batch 1, 2, 5, ..., in deviations, and the finest cell, in
# deviations of the prediction; by logarithms between them. A first cell that is finer would cost
# the report more than "even" does; later ones that are finer would surprise more often than that
# the few intervals still to come are worth (``--sweep least``).
_AGES = np.log([1, 2, 5, 10, 20, 50])
_WANTED, _LEAST = (5.1, 7.8, 7.9, 8.0, 8.0, 8.8), (2.6, 2.5, 2.5, 2.6, 3.2, 4.2)
_MOST = 5.0  # coarsest fine cell, in deviations of the prediction
_FINEST = 0.6  # finest cell, in deviations of the score
_SKEW = 0.12  # what limits lie beyond the normal quantile
_COARSE = 6.5  # half-width of coarse cells, in deviations of prediction and score
# Cells that surprises are released in: those of a leader in parts of its threshold, from the
# second batch on, and those of others in parts of a fine cell.
_SURPRISED, _OTHERS = 1.0 / 3.0, 0.6
_TOWARD = (1.5, 0.04)  # how far scores may lie toward 1/2: in drifts, and of drifts up to this
_LONE = 4.0  # lone queries until they are priced like the leader of a search
_NARROW, _WIDENING = 1.5, 0.9  # coarse cells: of one query, and by how much with the log of m


@dataclasses.dataclass(frozen=True)
class Pace:
    """How finely ``spending="even"`` asks; chosen by years of ``benchmarks/simulate_year.py``."""

    # Half-width of the coarse cells of a large batch, in deviations of prediction and score.
    coarse: float = 5.5
    # Deviations of the score that a first nat is worth: it widens every later interval.
    price: float = 2.0
    # Fine cells of an ordinary life. Towards their end fewer intervals are to come and a nat is
    # worth less; beyond, a stream of queries is asked ever more coarsely, so that its cost grows
    # like the logarithm of its length.
    patience: float = 18.0

    def coarsely(self, m: int) -> float:
        """Return the half-width of coarse cells in a batch of ``m``, in the same deviations.

        A surprise costs nats, and each of many queries may be one; a few get narrower cells.
        """
        return min(self.coarse, _NARROW + _WIDENING * math.log(m))

    def fine(self, known: FloatOrArray, n_fine: int, *, alone: bool = False, **_: Any) -> Any:
        """Return half-widths of the next fine cells, in deviations of the score.

        The sum of half-width and price of the expected code length is least (normal predictions).
        ``known`` are deviations of the predictions, in deviations of the score. The first lone
        queries (``alone``: a batch of one) are asked more finely: one may well be all that is ever
        asked.
        """
        age = n_fine / self.patience
        worth = self.price * (1.0 - 1.5 * age + age**2)
        if alone:
            worth *= min(1.0, (1.0 + n_fine) / _LONE)
        return known * np.interp(np.log(known / worth), *_best_halves())

    def surprised(self, fine: Array, thresholds: Array, **_: Any) -> Array:
        """Return half-widths of the cells that surprises are released in: fine ones."""
        return fine


@dataclasses.dataclass(frozen=True)
class FinalPace:
    """How finely ``spending="final"`` asks in one batch (theory G17): as widths are wanted.

    An interim answer says whether the holdout still agrees; a cell is as wide as the interval
    that is wanted allows, and never finer than the prediction deserves.
    """

    wanted: float  # half-width of the leader's interval, in deviations of the score
    log_failure: float  # of one side of an interval, the place in the batch apart
    least: float = _LEAST[0]  # finest cell, in deviations of the prediction

    def coarsely(self, m: int) -> float:
        """Return the half-width of coarse cells, in deviations of prediction and score."""
        return _COARSE

    def fine(
        self, known: FloatOrArray, n_fine: int, *, places: FloatOrArray = 0.0, **_: Any
    ) -> Any:
        """Return half-widths of the next fine cells, in deviations of the score.

        ``known`` are deviations of the predictions in the same unit, ``places`` code lengths of
        the places in the batch.
        """
        sampling = -ndtri_exp(np.minimum(self.log_failure - np.asarray(places), -math.log(2.0)))
        half = self.wanted - sampling - _SKEW
        # The first fine cell of a life is as narrow as wanted: nothing is known before it.
        half = np.maximum(half, self.least * known if n_fine else 0.0)
        return np.maximum(np.minimum(half, _MOST * known), _FINEST)

    def surprised(self, fine: Array, thresholds: Array, *, leads: bool, first: bool) -> Array:
        """Return half-widths of the cells that surprises are released in.

        The holdout has been looked at anyway, and narrow cells teach how far off predictions are.
        """
        if leads:
            return fine if first else np.minimum(fine, _SURPRISED * thresholds)
        return _OTHERS * fine


def paced(spending: AlphaSpending, batch_index: int, log_failure: float) -> Pace | FinalPace:
    """Return how finely a batch asks; ``log_failure`` is that of one side of its intervals."""
    if not spending.policy.coarse:
        return Pace()
    # Where n_searches is given, the first interval is one on the way.
    age = math.log(batch_index + (spending.n_searches is not None))
    wanted, least = (float(np.interp(age, _AGES, row)) for row in (_WANTED, _LEAST))
    return FinalPace(wanted, log_failure, least)


@functools.cache
def _best_halves():
    """Return ln(slope) and the half-width x that minimises slope * x + entropy(x)."""
    halves = np.geomspace(0.02, 6.0, 400)
    cells = np.arange(-350.0, 351.0)
    entropy = np.empty(halves.size)
    for place, half in enumerate(halves):
        mass = np.diff(ndtr((2.0 * np.append(cells, 351.0) - 1.0) * half))
        entropy[place] = -(mass * np.log(np.maximum(mass, 1e-300))).sum()
    slopes = np.geomspace(1e-5, 50.0, 300)
    best = halves[np.argmin(slopes[:, None] * halves + entropy, axis=1)]
    return np.log(slopes), best


def fine_half_width(
    pace, code, *, predictions, deviation, factor, drift, sharpness=1.0, places=0.0, alone=False
):
    """Return half-widths of fine cells, in score units: as fine as the prediction is good.

    The code knows how good predictions have been, and how many fine cells there were.
    ``deviation`` gives that of scores at predictions, ``factor`` is ``1 + n / training size``,
    ``drift`` the deviation of the common offset; ``sharpness`` is the deviation that intervals go
    by, in deviations of the score, ``places`` code lengths of the places in the batch.
    """
    predictions, own = np.asarray(predictions, dtype=float), deviation(predictions)
    scale, drift_scale = code.scales()
    drift = drift_scale * np.asarray(drift)
    known = np.hypot(scale * own * np.sqrt(factor), drift)
    toward = _TOWARD[0] * np.minimum(drift, _TOWARD[1])
    moved = predictions + np.minimum(np.maximum(0.5 - predictions, -toward), toward)
    unit = np.maximum(own, deviation(moved)) * sharpness
    return unit * pace.fine(known * sharpness / unit, code.n_fine, places=places, alone=alone)


class Cells:
    """Cells that a query may be released in, and the region that "below" stands for.

    Cells of half-width ``half`` stand around ``center``, the prediction, or are fixed ones of width
    ``step`` that start at 0, where that is positive.
    """

    def __init__(
        self, center: float, threshold: float, half: float | None = None, step: float = 0.0
    ) -> None:
        self.center, self.threshold = center, threshold
        half = threshold if half is None else half
        self.width, self.origin = (step, 0.0) if step > 0 else (2.0 * half, center - half)
        self.first, self.last = self._place(0.0), self._place(1.0)
        if step > 0 and self.last * self.width >= 1.0 - 1e-9 and self.last > self.first:
            self.last -= 1  # 1 belongs to the last whole cell

    def _place(self, value):
        return math.floor((value - self.origin) / self.width)

    def place(self, value: float) -> int:
        """Return the number of the cell of a value; the end cells take what is beyond."""
        return min(max(self._place(value), self.first), self.last)

    def edges(self, number: int) -> tuple[float, ...]:
        """Return the ends of a cell; those of end cells are infinite."""
        low = self.origin + number * self.width
        return (
            -math.inf if number == self.first else low,
            math.inf if number == self.last else low + self.width,
        )

    def central(self) -> tuple[float, ...]:
        """Return the ends of the region of "below", less its rim: that part counts as outside."""
        inner = (1.0 - RIM) * self.threshold
        low, high = self.center - inner, self.center + inner
        return (
            -math.inf if self.center - self.threshold <= 0.0 else low,
            math.inf if self.center + self.threshold >= 1.0 else high,
        )


class Asked(NamedTuple):
    """Queries to compare in this order, up to the first "above"; arrays of shape (k,)."""

    positions: Array  # in the batch
    predictions: Array  # what values are compared with
    thresholds: Array  # from which distance they are "above"
    halves: Array  # half-widths of the cells that surprises are released in
    steps: Array  # widths of fixed cells, where positive

    def cells(self, place: int) -> Cells:
        """Return the cells of the query at ``place``."""
        return Cells(*(float(part[place]) for part in self[1:]))


class Outcome:
    """What a batch released and what follows from it; grows while it is played."""

    def __init__(self, size: int) -> None:
        # Released values, NaN where not answered; ends of their cells, noise margins included.
        self.values, self.least, self.most = np.full((3, size), np.nan)
        # Whether the holdout was looked at, answered at all, relaxed.
        self.above, self.answered, self.relaxed = np.zeros((3, size), dtype=bool)
        self.places = np.zeros(size)  # code lengths, fixed before the first answer
        self.released = 0.0  # code length of what the batch released
        self.n_above = 0  # "above" answers, those of refinements included
        # Position and cell of the "above" answers of the first pass, and of every refinement.
        self.first: list[Any] = []
        self.fine: list[Any] = []


@dataclasses.dataclass(eq=False, kw_only=True)
class Race:
    """One batch of ``m`` queries on its way: what is public of it, in arrays of shape (m,).

    It is played once, by :meth:`run` or :meth:`walk`; both return its :class:`Outcome`.
    """

    code: PredictiveCode  # comes from the batches before and is advanced
    #: Takes :class:`Asked`; returns how many of these were answered, and the cell of the last one
    #: if it was "above", else None.
    ask: Callable[[Asked], tuple[int, int | None]]
    margins: Callable[[int], tuple[float, float]]  # of "below" and "above", after so many rounds
    n_above: int = 0  # rounds before the batch
    cv_scores: Array  # in [0, 1]
    relaxed_to: Array  # least thresholds
    sensitivities: Array  # in units of 1/n: what noise margins are multiplied by
    # 1 + n / training size: how much the training side adds to the score's variance.
    training_factors: Array
    deviation: Callable[[Array, Array], Array]  # of scores, for positions and predictions
    # Queries that decide nothing, as other metrics of the same candidates: they come after the
    # others, coarsely, and are never refined.
    secondary: Any = False  # or an array of bool
    # By how much intervals of leaders are narrower than these deviations say (theory G15).
    sharpness: Array | None = None

    def __post_init__(self) -> None:
        m = self.cv_scores.size
        self.outcome = Outcome(m)
        self.low, self.high = np.full((2, m), np.nan)  # known cells, no margin
        self.half = np.full(m, np.inf)  # half-widths they were asked with
        self.taught: dict[int, int] = {}
        # A first surprise is where the offset starts, not its walk.
        self.knew = bool(self.code.pairs)
        self.secondary = np.broadcast_to(self.secondary, m)
        self.code.start_batch()
        self.code.observe_cv_scores(self.cv_scores)
        self.order = np.zeros(m, dtype=int)
        if m > 1:
            centers, _ = self.code.predict(self.cv_scores)
            self.order = np.lexsort((-centers, self.secondary))
        # Theory G7, conditions: ranks are fixed here, before anything of the batch is known.
        self.outcome.places = rank_code_lengths(-np.argsort(self.order))

    def run(self, pace: Pace | FinalPace) -> Outcome:
        """Pass in the order of predictions, the leader finely; then refine who leads."""
        m, leaders = self.order.size, int(not np.all(self.secondary))

        def choose(positions, leads):
            predicted = self._predicted(positions)
            halves = self._fine(pace, positions, predicted, leads=leads)
            least = halves if leads else np.maximum(halves, pace.coarsely(m) * predicted[1])
            relaxed_to = self.relaxed_to[positions]
            thresholds = np.maximum(least, relaxed_to)
            cells = pace.surprised(halves, thresholds, leads=leads, first=not self.knew)
            asked = Asked(positions, predicted[0], thresholds, cells, np.zeros(positions.size))
            # Relaxed: far enough behind that no finer cell would be worth its price.
            return asked, predicted, relaxed_to > halves

        going = self._pass(self.order[:leaders], choose, leads=True)
        going = going and self._pass(self.order[leaders:], choose, tail=1.0 / m)
        guesses, refined = self._guesses(), {int(self.order[0])}
        while going and leaders and m > 1:
            best = int(np.argmax(np.where(self.secondary, -np.inf, guesses)))
            if best in refined:
                break
            refined.add(best)
            going = self._refine(best, pace)
            guesses = self._guesses()
        # For every query the best guess inside its cell is released.
        self.outcome.values = np.where(self.outcome.answered, guesses, np.nan)
        return self.outcome

    def walk(self, thresholds, *, resolution=0.0, learned=False, own_cells=False):
        """Ask every query once, in the order given.

        ``thresholds`` takes positions and predictions and returns thresholds, and which of them are
        relaxed; ``resolution`` is the grid step of answers where sensitivities are 1; ``learned``:
        predictions learn, else training-side values are compared as they are; ``own_cells``: each
        query is asked by itself, no offset is shared, nothing is taught, places are equal (any
        public distribution is valid, theory G7), and thresholds are two deviations of the score.
        """
        everyone = np.arange(self.order.size)
        if own_cells:
            self.outcome.places = np.full(everyone.size, math.log(everyone.size))

        def choose(positions, _):
            predicted = self._predicted(positions)
            compared = predicted[0] if learned else self.cv_scores[positions]
            chosen, relaxed = thresholds(positions, compared)
            if own_cells:
                typical = 0.5 * chosen * np.sqrt(self.training_factors[positions])
                predicted = compared, typical, np.zeros(positions.size)
            steps = resolution * self.sensitivities[positions]
            return Asked(positions, compared, chosen, chosen, steps), predicted, relaxed

        self._pass(everyone, choose, teaches=not own_cells)
        return self.outcome

    def _pass(self, order, choose, *, leads=False, tail=1.0, teaches=True):
        """Ask in this order; return whether the budget lasted.

        ``choose(positions, leads)`` returns what is asked, predictive distributions of the values,
        and which are relaxed; ``tail`` is the part of heavy tails that is meant (theory G17: the
        surprises of a first pass are shared out among those who do not lead).
        """
        found, code = self.outcome, self.code
        while order.size:
            asked, predicted, relaxed = choose(order[:_AHEAD], leads)
            count, cell = self.ask(asked)
            if count == 0:
                return False
            walks = leads and self.knew
            if walks and cell is not None:
                _, typical, drift = (float(part[0]) for part in predicted)
                scale, drift_scale = code.scales()
                expected = (scale * typical) ** 2 + (drift_scale * drift) ** 2
            self._enter(asked, count, cell, predicted, functools.partial(code.masses, tail=tail))
            quiet, last = count - (cell is not None), int(asked.positions[count - 1])
            found.relaxed[asked.positions[:quiet]] = relaxed[:quiet]
            if cell is not None:
                found.first.append([last, cell])
            if teaches and (leads or cell is not None):
                self._teach(last)
            if walks:  # theory G17: the common offset walks
                at = asked.positions[0]
                off = 0.5 * (self.low[at] + self.high[at]) - asked.predictions[0]
                code.observe_surprise(0.0 if cell is None else max(0.0, off**2 - 2.0 * expected))
            code.n_fine += leads
            order = order[count:]
        return True

    def _refine(self, best, pace):
        """Ask the leader again with a fine cell, given its coarse one; see :meth:`_pass`."""
        positions, found = np.array([best]), self.outcome
        predicted = self._predicted(positions)
        halves = self._fine(pace, positions, predicted, leads=True)
        halves = np.maximum(halves, self.relaxed_to[best])
        if not halves[0] < 0.6 * self.half[best]:
            return True
        left, right = self.low[best], self.high[best]
        room = max(0.0, min(halves[0], 0.5 * (right - left)))
        inside = np.clip(np.clip(predicted[0], left + room, right - room), 0.0, 1.0)
        asked = Asked(positions, inside, halves, halves, np.zeros(1))
        count, cell = self.ask(asked)
        if count == 0:
            return False
        self.code.n_fine += 1
        found.fine.append([best, cell])
        left, right = -math.inf if left <= 0.0 else left, math.inf if right >= 1.0 else right
        whole = self.code.masses(left, right, *predicted)

        def mass(low, high, *predicted):  # given what is known of the query
            least, most = np.maximum(low, left), np.minimum(high, right)
            part = self.code.masses(least, most, *predicted) if least < most else 0.0
            outside = self.code.masses(low, high, *predicted)
            return (1.0 - OUTSIDE) * part / whole + OUTSIDE * outside

        self._enter(asked, count, cell, predicted, mass)
        self._teach(best)
        found.relaxed[best] = False
        return True

    def _predicted(self, positions):
        """Return predictions, deviations of the values and of the common offset."""
        centers, drifts = self.code.predict(self.cv_scores[positions])
        deviations = self.deviation(positions, centers)
        return centers, deviations * np.sqrt(self.training_factors[positions]), drifts

    def _fine(self, pace, positions, predicted, *, leads):
        return fine_half_width(
            pace,
            self.code,
            predictions=predicted[0],
            deviation=lambda predictions: self.deviation(positions, predictions),
            factor=self.training_factors[positions],
            drift=predicted[2],
            sharpness=self.sharpness[positions] if leads and self.sharpness is not None else 1.0,
            places=self.outcome.places[positions],
            alone=self.order.size == 1,
        )

    def _enter(self, asked, count, cell, predicted, mass):
        """Enter so many answers: "below", but the last one "above" where it has a cell.

        ``mass(low, high, *predicted)`` is that of intervals by component.
        """
        found, at = self.outcome, count - (cell is not None)
        rounds = self.n_above + found.n_above
        if at:
            positions, mu, half = (part[:at] for part in asked[:3])
            inner = (1.0 - RIM) * half
            low = np.where(mu - half <= 0.0, -np.inf, mu - inner)
            high = np.where(mu + half >= 1.0, np.inf, mu + inner)
            masses = mass(low, high, *(part[:at] for part in predicted))
            found.released += self.code.charge(np.log((1.0 - CROSSING) * masses))
            margin = self.margins(rounds)[0] * self.sensitivities[positions]
            self._narrow(positions, mu - half, mu + half, half, margin)
            found.values[positions] = mu
            found.answered[positions] = True
        if cell is None:
            return
        one, cells = asked.positions[at:count], asked.cells(at)
        (low, high), central = cells.edges(cell), cells.central()
        last = [part[at:count] for part in predicted]
        whole, least, most = mass(low, high, *last), max(low, central[0]), min(high, central[1])
        rest = np.maximum(whole - (mass(least, most, *last) if least < most else 0.0), 0.0)
        found.released += self.code.charge(np.log((1.0 - CROSSING) * rest + CROSSING * whole))
        margin = self.margins(rounds)[1] * self.sensitivities[one]
        self._narrow(one, low, high, asked.halves[at], margin)
        found.n_above += 1
        found.above[one] = found.answered[one] = True
        fixed, middle = asked.steps[at] > 0.0, 0.5 * (max(low, 0.0) + min(high, 1.0))
        found.values[one] = min((cell + 0.5) * cells.width, 1.0) if fixed else middle

    def _narrow(self, positions, low, high, half, margin):
        """Narrow the cells of these positions, with their noise margins and without, in [0, 1]."""
        found = self.outcome
        cells = ((found.least, found.most, margin), (self.low, self.high, 0.0))
        for least, most, around in cells:
            first = np.minimum(np.maximum(low - around, 0.0), 1.0)
            last = np.minimum(np.maximum(high + around, 0.0), 1.0)
            # NaN: nothing was known before.
            inner, outer = np.fmax(least[positions], first), np.fmin(most[positions], last)
            # Where nothing is left, the noise has failed: what was found last is kept.
            failed = inner > outer
            least[positions] = np.where(failed, first, inner)
            most[positions] = np.where(failed, last, outer)
        self.half[positions] = half

    def _teach(self, position):
        """Let the predictor learn from a released cell."""
        value = 0.5 * (self.low[position] + self.high[position])
        half = 0.5 * (self.high[position] - self.low[position])
        # As scores vary where they are found to be, not where they were predicted.
        deviation = self.deviation(np.array([position]), np.array([value]))[0]
        own = (self.code.scales()[0] * deviation) ** 2 * self.training_factors[position]
        self.taught[position] = self.code.learn(
            self.cv_scores[position], value, own + half**2 / 3.0, instead=self.taught.get(position)
        )

    def _guesses(self):
        """Return the best public guess of every answered value; -inf where unanswered."""
        centers, _ = self.code.predict(self.cv_scores)
        guess = np.minimum(np.maximum(centers, self.low), self.high)
        return np.where(self.outcome.answered, guess, -np.inf)
