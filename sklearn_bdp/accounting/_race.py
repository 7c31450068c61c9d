"""A batch as a race: coarse cells for all, fine ones for whoever leads (theory G7).

One function asks and is told: behind it stands the holdout's mechanism, or a test that replies
with every possibility there is. A race sees released cells only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.accounting._predictive import (
    CROSSING,
    OUTSIDE,
    RIM,
    Cells,
    PredictiveCode,
    place_lengths,
)
from sklearn_bdp.accounting._spending import FinalPace, Pace, fine_half_width

_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest


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
    training_values: Array  # in [0, 1]
    relaxed_to: Array  # least thresholds
    sensitivities: Array  # in units of 1/n: what noise margins are multiplied by
    # 1 + n / training size: how much the training side adds to the score's variance.
    training_factors: Array
    deviation: Callable[[Array, Array], Array]  # of scores, for positions and predictions
    # Queries that decide nothing, as other metrics of the same candidates: they come after the
    # others, coarsely, and are never refined.
    secondary: Array | None = None
    # By how much intervals of leaders are narrower than these deviations say (theory G15).
    sharpness: Array | None = None

    def __post_init__(self) -> None:
        m = self.training_values.size
        self.outcome = Outcome(m)
        self.low, self.high = np.full((2, m), np.nan)  # known cells, no margin
        self.half = np.full(m, np.inf)  # half-widths they were asked with
        self.taught: dict[int, int] = {}
        # A first surprise is where the offset starts, not its walk.
        self.knew = bool(self.code.pairs)
        if self.secondary is None:
            self.secondary = np.zeros(m, dtype=bool)
        self.code.begin()
        self.code.expect(self.training_values)
        centers, _ = self.code.predict(self.training_values)
        self.order = np.lexsort((-centers, self.secondary))
        # Theory G7, conditions: ranks are fixed here, before anything of the batch is known.
        self.outcome.places = place_lengths(-np.argsort(self.order))

    def run(self, pace: Pace | FinalPace) -> Outcome:
        """Pass in the order of predictions, the leader finely; then refine who leads."""
        m, leaders = self.order.size, int(not np.all(self.secondary))

        def choose(positions, leads):
            law = self._law(positions)
            halves = self._fine(pace, positions, law, leads=leads)
            least = halves if leads else np.maximum(halves, pace.coarsely(m) * law[1])
            relaxed_to = self.relaxed_to[positions]
            thresholds = np.maximum(least, relaxed_to)
            cells = pace.surprised(halves, thresholds, leads=leads, first=not self.knew)
            asked = Asked(positions, law[0], thresholds, cells, np.zeros(positions.size))
            # Relaxed: far enough behind that no finer cell would be worth its price.
            return asked, law, relaxed_to > halves

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

    def walk(
        self,
        thresholds: Callable[[Array, Array], tuple[Array, Array]],
        *,
        resolution: float = 0.0,
        learned: bool = False,
        own_cells: bool = False,
    ) -> Outcome:
        """Ask every query once, in the order given.

        ``thresholds`` takes positions and predictions and returns thresholds, and which of them are
        relaxed; ``resolution`` is the grid step of answers where sensitivities are 1; ``learned``:
        predictions learn, else training-side values are compared as they are; ``own_cells``: each
        query is asked by itself, no offset is shared, nothing is taught, places are equal (any
        public law is valid, theory G7), and thresholds are two deviations of the score.
        """
        everyone = np.arange(self.order.size)
        if own_cells:
            self.outcome.places = np.full(everyone.size, math.log(everyone.size))

        def choose(positions, _):
            law = self._law(positions)
            compared = law[0] if learned else self.training_values[positions]
            chosen, relaxed = thresholds(positions, compared)
            if own_cells:
                typical = 0.5 * chosen * np.sqrt(self.training_factors[positions])
                law = compared, typical, np.zeros(positions.size)
            steps = resolution * self.sensitivities[positions]
            return Asked(positions, compared, chosen, chosen, steps), law, relaxed

        self._pass(everyone, choose, teaches=not own_cells)
        return self.outcome

    def _pass(self, order, choose, *, leads=False, tail=1.0, teaches=True):
        """Ask in this order; return whether the budget lasted.

        ``choose(positions, leads)`` returns what is asked, the law of its values, and which are
        relaxed; ``tail`` is the part of heavy tails that is meant (theory G17: the surprises of a
        first pass are shared out among those who do not lead).
        """
        found, code = self.outcome, self.code
        while order.size:
            asked, law, relaxed = choose(order[:_AHEAD], leads)
            count, cell = self.ask(asked)
            if count == 0:
                return False
            walks = leads and self.knew
            if walks and cell is not None:
                _, typical, drift = (float(part[0]) for part in law)
                expected = (code.scale * typical) ** 2 + (code.drift_scale * drift) ** 2
            quiet = count - (cell is not None)
            if quiet:
                stretch = tuple(part[:quiet] for part in law)
                self._below(asked, quiet, lambda a, b, s=stretch: code.masses(a, b, *s, tail=tail))
                found.relaxed[asked.positions[:quiet]] = relaxed[:quiet]
            if cell is not None:
                found.first.append([int(asked.positions[quiet]), cell])
                one = tuple(part[quiet:count] for part in law)
                self._above(
                    asked, quiet, cell, lambda a, b, s=one: code.masses(a, b, *s, tail=tail)
                )
            if teaches and (leads or cell is not None):
                self._teach(int(asked.positions[count - 1]))
            if walks:  # theory G17: the common offset walks
                at = asked.positions[0]
                off = 0.5 * (self.low[at] + self.high[at]) - asked.predictions[0]
                code.surprised(0.0 if cell is None else max(0.0, off**2 - 2.0 * expected))
            code.n_fine += leads
            order = order[count:]
        return True

    def _refine(self, best, pace):
        """Ask the leader again with a fine cell, given its coarse one; see :meth:`_pass`."""
        positions, found = np.array([best]), self.outcome
        law = self._law(positions)
        halves = self._fine(pace, positions, law, leads=True)
        halves = np.maximum(halves, self.relaxed_to[best])
        if not halves[0] < 0.6 * self.half[best]:
            return True
        left, right = self.low[best], self.high[best]
        room = max(0.0, min(halves[0], 0.5 * (right - left)))
        inside = np.clip(np.clip(law[0], left + room, right - room), 0.0, 1.0)
        asked = Asked(positions, inside, halves, halves, np.zeros(1))
        count, cell = self.ask(asked)
        if count == 0:
            return False
        self.code.n_fine += 1
        found.fine.append([best, cell])
        left, right = -math.inf if left <= 0.0 else left, math.inf if right >= 1.0 else right
        whole = self.code.masses(left, right, *law)

        def mass(low, high):  # given what is known of the query
            least, most = np.maximum(low, left), np.minimum(high, right)
            part = self.code.masses(least, most, *law) if least < most else 0.0
            return (1.0 - OUTSIDE) * part / whole + OUTSIDE * self.code.masses(low, high, *law)

        if cell is None:
            self._below(asked, 1, mass)
        else:
            self._above(asked, 0, cell, mass)
        self._teach(best)
        found.relaxed[best] = False
        return True

    def _law(self, positions):
        """Return predictions, deviations of the values and of the common offset."""
        centers, drifts = self.code.predict(self.training_values[positions])
        deviations = self.deviation(positions, centers)
        return centers, deviations * np.sqrt(self.training_factors[positions]), drifts

    def _fine(self, pace, positions, law, *, leads):
        return fine_half_width(
            pace,
            self.code,
            predictions=law[0],
            deviation=lambda predictions: self.deviation(positions, predictions),
            factor=self.training_factors[positions],
            drift=law[2],
            sharpness=self.sharpness[positions] if leads and self.sharpness is not None else 1.0,
            places=self.outcome.places[positions],
            alone=self.order.size == 1,
        )

    def _below(self, asked, count, mass):
        """Enter "below" answers; ``mass(low, high)`` is that of intervals by component."""
        positions, mu, half = (part[:count] for part in asked[:3])
        found, inner = self.outcome, (1.0 - RIM) * half
        low = np.where(mu - half <= 0.0, -np.inf, mu - inner)
        high = np.where(mu + half >= 1.0, np.inf, mu + inner)
        found.released += self.code.charge(np.log((1.0 - CROSSING) * mass(low, high)))
        margin = self.margins(self.n_above + found.n_above)[0] * self.sensitivities[positions]
        self._narrow(positions, mu - half, mu + half, half, margin)
        found.values[positions] = mu
        found.answered[positions] = True

    def _above(self, asked, at, cell, mass):
        """Enter the "above" answer at a place; ``mass`` as in :meth:`_below`."""
        found, position, cells = self.outcome, asked.positions[at], asked.cells(at)
        (low, high), central = cells.edges(cell), cells.central()
        whole = mass(low, high)
        least, most = max(low, central[0]), min(high, central[1])
        rest = np.maximum(whole - (mass(least, most) if least < most else 0.0), 0.0)
        found.released += self.code.charge(np.log((1.0 - CROSSING) * rest + CROSSING * whole))
        margin = self.margins(self.n_above + found.n_above)[1] * self.sensitivities[position]
        one = asked.positions[at : at + 1]
        self._narrow(one, low, high, asked.halves[at], margin)
        found.n_above += 1
        found.above[position] = found.answered[position] = True
        middle = 0.5 * (max(low, 0.0) + min(high, 1.0))
        fixed = asked.steps[at] > 0.0
        found.values[position] = min((cell + 0.5) * cells.width, 1.0) if fixed else middle

    def _narrow(self, positions, low, high, half, margin):
        """Narrow the cells of these positions, with their noise margins and without."""
        found = self.outcome
        found.least[positions], found.most[positions] = _narrowed(
            found.least[positions], found.most[positions], low - margin, high + margin
        )
        self.low[positions], self.high[positions] = _narrowed(
            self.low[positions], self.high[positions], low, high
        )
        self.half[positions] = half

    def _teach(self, position):
        """Let the predictor learn from a released cell."""
        value = 0.5 * (self.low[position] + self.high[position])
        half = 0.5 * (self.high[position] - self.low[position])
        # As scores vary where they are found to be, not where they were predicted.
        deviation = self.deviation(np.array([position]), np.array([value]))[0]
        own = (self.code.scale * deviation) ** 2 * self.training_factors[position]
        self.taught[position] = self.code.learn(
            self.training_values[position],
            value,
            own + half**2 / 3.0,
            instead=self.taught.get(position),
        )

    def _guesses(self):
        """Return the best public guess of every answered value; -inf where unanswered."""
        centers, _ = self.code.predict(self.training_values)
        guess = np.minimum(np.maximum(centers, self.low), self.high)
        return np.where(self.outcome.answered, guess, -np.inf)


def _narrowed(least, most, low, high):
    """Return the part of cells in [0, 1] that lies in others; NaN: nothing was known.

    Where nothing does, the noise has failed: what was found last is kept.
    """
    low, high = np.minimum(np.maximum(low, 0.0), 1.0), np.minimum(np.maximum(high, 0.0), 1.0)
    least, most = np.fmax(least, low), np.fmin(most, high)
    apart = least > most
    return np.where(apart, low, least), np.where(apart, high, most)
