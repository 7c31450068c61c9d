"""A batch as a race: coarse cells for all, fine ones for whoever leads (theory G7).

Written as a generator that asks and is told: the holdout's mechanism replies in earnest, and tests
reply with every possibility there is. It sees released cells only.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from sklearn_bdp.accounting._predictive import OUTSIDE, RIM, PredictiveCode, place_lengths
from sklearn_bdp.accounting._spending import (
    Asked,
    BatchQueries,
    FinalPace,
    Outcome,
    Pace,
    Reply,
    fine_half_width,
)

_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest


def play_batch(
    queries: BatchQueries,
    code: PredictiveCode,
    *,
    margins: Callable[..., Any],
    n_above: int = 0,
    pace: Pace | FinalPace | None = None,
    fixed: FixedCells | None = None,
) -> Generator[Asked, Reply, Outcome]:
    """Yield :class:`Asked` and take :class:`Reply` until the batch is answered; return `Outcome`.

    ``code`` comes from the batches before and is advanced; ``margins(n_above)`` are the noise
    margins of "below" and "above" in that round. With ``fixed`` thresholds and grid there is no
    race: every query is asked once, in order; otherwise ``pace`` says how finely.
    """
    game = _Game(queries, code, margins=margins, n_above=n_above)
    if fixed is None:
        yield from game.race(pace or Pace())
    else:
        yield from game.walk(fixed)
    return game.outcome


@dataclasses.dataclass(frozen=True, eq=False)
class FixedCells:
    """How a holdout asks that does not race."""

    thresholds: typing.Callable  # (positions, predictions) to thresholds, and which are relaxed
    resolution: float  # grid step of answers, where every query has sensitivity 1/n
    learned: bool  # whether predictions learn; else training-side values are compared as they are
    #: Whether each query is asked by itself: no offset is shared, nothing is taught, places are
    #: equal (any public law is valid, theory G7), and thresholds are two deviations of the score.
    own_cells: bool = False


class _Game:
    """One batch on its way."""

    def __init__(self, queries, code, *, margins, n_above):
        self.queries, self.code, self.margins = queries, code, margins
        self.before = n_above
        self.outcome = Outcome(len(queries))
        self.low, self.high = np.full((2, len(queries)), np.nan)  # known cells, no margin
        self.half = np.full(len(queries), np.inf)  # half-widths they were asked with
        self.taught = {}
        self.own_cells = False  # whether queries have nothing in common
        self.knew = bool(code.pairs)  # a first surprise is where the offset starts, not its walk
        code.begin()
        code.expect(queries.training_values)
        centers, _ = code.predict(queries.training_values)
        none = np.zeros(len(queries), dtype=bool)
        self.beside = none if queries.beside is None else queries.beside
        self.order = np.lexsort((-centers, self.beside))
        # Theory G7, conditions: ranks are fixed here, before anything of the batch is known.
        self.outcome.places = place_lengths(-np.argsort(self.order))

    # -- the race ---------------------------------------------------------------------------------

    def race(self, pace):
        """First pass in the order of predictions, the leader finely; then refine who leads."""
        leader = int(not self.beside.all())
        yield from self._pass(self.order[:leader], pace, fine=True)
        yield from self._pass(self.order[leader:], pace, fine=False)
        refined = {int(self.order[0])}
        while leader and len(self.order) > 1 and not self.outcome.exhausted:
            best = int(np.argmax(np.where(self.beside, -np.inf, self._current())))
            if best in refined:
                break
            refined.add(best)
            yield from self._refine(best, pace)
        # For every query the best guess inside its cell is released.
        self.outcome.values = np.where(self.outcome.answered, self._current(), np.nan)

    def _pass(self, order, pace, *, fine):
        done = 0
        while done < order.size:
            positions = order[done : done + _AHEAD]
            centers, drifts, deviations = self._predictions(positions)
            typical = deviations * np.sqrt(self.queries.training_factors[positions])
            halves = self._fine(pace, positions, centers, drifts, leads=fine)
            coarse = pace.coarsely(len(self.queries))
            least = halves if fine else np.maximum(halves, coarse * typical)
            thresholds = np.maximum(least, self.queries.relaxed_to[positions])
            cells = pace.surprised(halves, thresholds, leads=fine, first=not self.knew)
            asked = Asked(positions, centers, thresholds, cells)
            reply = yield asked
            # Far enough behind that no finer cell would be worth its price.
            relaxed = self.queries.relaxed_to[positions] > halves
            self._take(asked, reply, (typical, drifts), relaxed, leads=fine)
            done += reply.count
            self.code.n_fine += fine
            if reply.count == 0:
                self.outcome.exhausted = True
                return

    def _fine(self, pace, positions, centers, drifts, *, leads):
        sharpness = self.queries.sharpness
        return fine_half_width(
            pace,
            self.code,
            predictions=centers,
            deviation=lambda predictions: self.queries.deviation(positions, predictions),
            factor=self.queries.training_factors[positions],
            drift=drifts,
            sharpness=1.0 if sharpness is None or not leads else sharpness[positions],
            places=self.outcome.places[positions],
            alone=len(self.queries) == 1,
        )

    def _refine(self, best, pace):
        """Ask the leader again with a fine cell, given its coarse one."""
        positions = np.array([best])
        centers, drifts, deviations = self._predictions(positions)
        typical = deviations * np.sqrt(self.queries.training_factors[positions])
        halves = np.maximum(
            self._fine(pace, positions, centers, drifts, leads=True), self.queries.relaxed_to[best]
        )
        if not halves[0] < 0.6 * self.half[best]:
            return
        room = max(0.0, min(halves[0], 0.5 * (self.high[best] - self.low[best])))
        inside = np.clip(centers, self.low[best] + room, self.high[best] - room)
        asked = Asked(positions, np.clip(inside, 0.0, 1.0), halves, halves)
        reply = yield asked
        if reply.count == 0:
            self.outcome.exhausted = True
            return
        self.code.n_fine += 1
        self.outcome.fine.append([best, reply.cell])
        self._settle(asked, reply.cell, (centers, typical, drifts), known=True)
        self.outcome.relaxed[best] = False

    # -- one pass in order ------------------------------------------------------------------------

    def walk(self, fixed):
        """Ask every query once, in the order given."""
        done, self.own_cells = 0, fixed.own_cells
        if self.own_cells:
            self.outcome.places = np.full(len(self.queries), math.log(len(self.queries)))
        while done < len(self.queries):
            positions = np.arange(done, min(done + _AHEAD, len(self.queries)))
            centers, drifts, deviations = self._predictions(positions)
            typical = deviations * np.sqrt(self.queries.training_factors[positions])
            compared = centers if fixed.learned else self.queries.training_values[positions]
            thresholds, relaxed = fixed.thresholds(positions, compared)
            if self.own_cells:
                centers, drifts = compared, np.zeros(positions.size)
                typical = 0.5 * thresholds * np.sqrt(self.queries.training_factors[positions])
            asked = Asked(positions, compared, thresholds, thresholds)
            reply = yield asked
            self._take(
                asked, reply, (typical, drifts), relaxed, centers=centers, step=fixed.resolution
            )
            done += reply.count
            if reply.count == 0:
                self.outcome.exhausted = True
                return

    # -- bookkeeping ------------------------------------------------------------------------------

    def _predictions(self, positions):
        centers, drifts = self.code.predict(self.queries.training_values[positions])
        return centers, drifts, self.queries.deviation(positions, centers)

    def _take(self, asked, reply, spreads, relaxed, *, centers=None, step=0.0, leads=None):
        """Enter a stretch of "below" answers and the "above" that may end it.

        ``leads``: whether this is the leader of a race, or the rest of it; ``None``: no race.
        """
        quiet = reply.count - (reply.cell is not None)
        centers = asked.predictions if centers is None else centers
        # Theory G17: the surprises of a first pass are shared out among those who do not lead.
        tail = 1.0 / len(self.queries) if leads is False else 1.0
        typical, drifts = spreads
        if quiet:
            self._quiet(asked, quiet, centers, spreads, tail)
        self.outcome.relaxed[asked.positions[: reply.count]] = relaxed[: reply.count]
        if reply.cell is not None:
            self.outcome.first.append([int(asked.positions[quiet]), reply.cell])
            expected = (self.code.scale * typical) ** 2 + (self.code.drift_scale * drifts) ** 2
            last = slice(quiet, quiet + 1)
            one = Asked(*(part[last] for part in asked))
            law = (centers[last], *(part[last] for part in spreads))
            self._settle(one, reply.cell, law, step=step, tail=tail)
            self.outcome.relaxed[asked.positions[quiet]] = False
        elif leads:
            self._teach(int(asked.positions[0]))
        if leads and reply.count and self.knew:  # theory G17: the common offset walks
            position = asked.positions[0]
            off = 0.5 * (self.low[position] + self.high[position]) - asked.predictions[0]
            square = 0.0 if reply.cell is None else max(0.0, off**2 - 2.0 * expected[0])
            self.code.surprised(square)

    def _quiet(self, asked, count, centers, spreads, tail):
        positions, mu, half = (part[:count] for part in asked[:3])
        typical, drifts = (part[:count] for part in spreads)
        inner = (1.0 - RIM) * half
        low = np.where(mu - half <= 0.0, -np.inf, mu - inner)
        high = np.where(mu + half >= 1.0, np.inf, mu + inner)
        law = (centers[:count], typical, drifts)
        mass = lambda a, b: self.code.masses(a, b, *law, tail=tail)  # noqa: E731
        self.outcome.released += self.code.charge(self.code.price_below(low, high, mass))
        margin = self.margins(self.before + self.outcome.n_above)[0]
        margin = margin * self.queries.sensitivities[positions]
        self._known(positions, mu - half, mu + half, half, margin)
        self.outcome.values[positions] = mu
        self.outcome.answered[positions] = True

    def _settle(self, asked, cell, law, *, step=0.0, known=False, tail=1.0):
        """Enter one query: charge its release, narrow what is known, learn from it."""
        position, mu, threshold, half = (part[0] for part in asked)
        unit = self.queries.sensitivities[position]
        cells = asked.cells(0, step * unit)
        price = self._price(position, law, known=known, tail=tail)
        below, above = self.margins(self.before + self.outcome.n_above)
        if cell is None:
            logs = self.code.price_below(*cells.central(), price)
            half = threshold
            low, high, margin = mu - half, mu + half, below
        else:
            logs = self.code.price_above(cells.edges(cell), cells.central(), price)
            low, high = cells.edges(cell)
            margin = above
            self.outcome.n_above += 1
            self.outcome.above[position] = True
        self.outcome.released += self.code.charge(logs)
        at = np.array([position])
        self._known(at, np.array([low]), np.array([high]), np.array([half]), margin * unit)
        self.outcome.answered[position] = True
        if cell is None:
            self.outcome.values[position] = mu
        elif self.own_cells:
            self.outcome.values[position] = 0.5 * (max(low, 0.0) + min(high, 1.0))
        elif step > 0:
            self.outcome.values[position] = min((cell + 0.5) * cells.width, 1.0)
        if not self.own_cells:
            self._teach(int(position))

    def _price(self, position, law, *, known, tail):
        """Return the function that prices intervals, given what is known of the query."""

        def mass(low, high):
            return self.code.masses(low, high, *law, tail=tail)

        if not known:
            return mass
        left, right = self.low[position], self.high[position]
        left = -math.inf if left <= 0.0 else left
        right = math.inf if right >= 1.0 else right
        whole = mass(left, right)

        def conditional(low, high):
            inner = (max(low, left), min(high, right))
            inside = mass(*inner) if inner[0] < inner[1] else 0.0
            return (1.0 - OUTSIDE) * inside / whole + OUTSIDE * mass(low, high)

        return conditional

    def _known(self, positions, low, high, half, margin):
        """Narrow the cells of these positions, with their noise margins and without."""
        found = self.outcome
        ends = _narrowed(found.least[positions], found.most[positions], low - margin, high + margin)
        found.least[positions], found.most[positions] = ends
        ends = _narrowed(self.low[positions], self.high[positions], low, high)
        self.low[positions], self.high[positions] = ends
        self.half[positions] = half

    def _teach(self, position):
        """Let the predictor learn from a released cell."""
        value = 0.5 * (self.low[position] + self.high[position])
        half = 0.5 * (self.high[position] - self.low[position])
        # As scores vary where they are found to be, not where they were predicted.
        deviation = self.queries.deviation(np.array([position]), np.array([value]))[0]
        own = (self.code.scale * deviation) ** 2 * self.queries.training_factors[position]
        self.taught[position] = self.code.learn(
            self.queries.training_values[position],
            value,
            own + half**2 / 3.0,
            instead=self.taught.get(position),
        )

    def _current(self):
        """Return the best public guess of every answered value; -inf where unanswered."""
        centers, _ = self.code.predict(self.queries.training_values)
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
