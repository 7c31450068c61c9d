"""A batch as a race: coarse cells for all, fine ones for whoever leads (theory G7).

Written as a generator that asks and is told: the holdout's mechanism replies in earnest, and tests
reply with every possibility there is. It sees released cells only.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.accounting._predictive import OUTSIDE, RIM, Cells, place_lengths

if TYPE_CHECKING:
    from sklearn_bdp.accounting._predictive import PredictiveCode

__all__ = [
    "Asked",
    "BatchQueries",
    "FixedCells",
    "Outcome",
    "Pace",
    "Reply",
    "fine_half_width",
    "play_batch",
]

_LONE = 4.0  # lone queries until they are priced like the leader of a search
_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest


@dataclasses.dataclass(frozen=True)
class Pace:
    """How finely queries are asked; chosen by ``benchmarks/simulate_year.py --sweep``.

    Parameters
    ----------
    coarse : float
        Half-width of a coarse cell in deviations of prediction and score.
    price : float
        Deviations of the score that a first nat is worth: it widens every later interval.
    patience : float
        Fine cells of an ordinary life. Towards their end fewer intervals are to come and a nat is
        worth less; beyond, a stream of queries is asked ever more coarsely, so that its cost grows
        like the logarithm of its length.
    """

    coarse: float = 5.5
    price: float = 2.0
    patience: float = 18.0

    def fine(self, known: FloatOrArray, n_fine: int, *, alone: bool = False) -> Any:
        """Return half-widths of the next fine cells, in deviations of the score.

        The sum of half-width and price of the expected code length is least (normal predictions).

        Parameters
        ----------
        known : float or array
            Deviations of the predictions, in deviations of the score.
        n_fine : int
            Fine cells so far.
        alone : bool, default=False
            Whether the batch is one query. The first lone queries are asked more finely: one may
            well be all that is ever asked.

        Returns
        -------
        float or ndarray
            Half-widths.
        """
        age = n_fine / self.patience
        worth = self.price * (1.0 - 1.5 * age + age**2)
        if alone:
            worth *= min(1.0, (1.0 + n_fine) / _LONE)
        return known * np.interp(np.log(known / worth), _STEEPNESS, _BEST)


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


_STEEPNESS, _BEST = _best_halves()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BatchQueries:
    """What is public of a batch of ``m`` queries.

    Parameters
    ----------
    training_values : ndarray of shape (m,)
        Training-side values in [0, 1].
    slacks : ndarray of shape (m,)
        Least thresholds.
    sensitivities : ndarray of shape (m,)
        In units of ``1/n``: what noise margins are multiplied by.
    training_factors : ndarray of shape (m,)
        ``1 + n / training size``: how much the training side adds to the score's variance.
    deviation : callable
        ``deviation(positions, predictions)``: standard deviations of the scores.
    beside : ndarray of bool, shape (m,), optional
        Queries that decide nothing, as other metrics of the same candidates: they come after the
        others, coarsely, and are never refined. By default none.
    sharpness : ndarray of shape (m,), optional
        By how much intervals of leaders are narrower than these deviations say (theory G15).
    """

    training_values: np.ndarray
    slacks: np.ndarray
    sensitivities: np.ndarray
    training_factors: np.ndarray
    deviation: typing.Callable
    beside: Array | None = None
    sharpness: Array | None = None

    def __len__(self) -> int:
        return self.training_values.size


class Asked(typing.NamedTuple):
    """Queries to compare in this order, up to the first "above", released in a cell ``halves``.

    Parameters
    ----------
    positions : ndarray of int, shape (k,)
        Places in the batch.
    predictions, thresholds : ndarray of shape (k,)
        What values are compared with, and from which distance they are "above".
    halves : ndarray of shape (k,)
        Half-widths of the cells that surprises are released in.
    """

    positions: np.ndarray
    predictions: np.ndarray
    thresholds: np.ndarray
    halves: np.ndarray

    def cells(self, place: int, step: float = 0.0) -> Cells:
        """Return the cells of one of these queries.

        Parameters
        ----------
        place : int
            Which of the queries.
        step : float, default=0.0
            Width of fixed cells; 0: cells around the prediction.

        Returns
        -------
        Cells
            Its cells.
        """
        center, threshold, half = (float(part[place]) for part in self[1:])
        return Cells(center, threshold, half, step)


class Reply(typing.NamedTuple):
    """How many were answered, and the cell of the last if it was "above" (else ``None``).

    Parameters
    ----------
    count : int
        Queries answered.
    cell : int or None
        Cell of the last one if it was "above".
    """

    count: int  # type: ignore[assignment]  # shadows tuple.count, which nothing calls
    cell: int | None


class Outcome:
    """What a batch released and what follows from it; grows while it is played.

    Parameters
    ----------
    size : int
        Queries in the batch.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Released values; NaN where not answered.
    least, most : ndarray of shape (m,)
        Ends of the values' cells, noise margins included.
    above, answered, relaxed : ndarray of bool, shape (m,)
        Whether the holdout was looked at, answered at all, left wide on purpose.
    places : ndarray of shape (m,)
        Code lengths of the places, fixed before the first answer.
    released : float
        Code length of what the batch released.
    n_above : int
        "Above" answers, those of refinements included.
    first, fine : list of [int, int or None]
        Position and cell of the "above" answers of the first pass, and of every refinement.
    exhausted : bool
        Whether the budget ended before the batch.
    """

    def __init__(self, size: int) -> None:
        self.values, self.least, self.most = np.full((3, size), np.nan)
        self.above, self.answered, self.relaxed = np.zeros((3, size), dtype=bool)
        self.places = np.zeros(size)
        self.released, self.n_above = 0.0, 0
        self.first: list[Any] = []
        self.fine: list[Any] = []
        self.exhausted = False


def play_batch(
    queries: BatchQueries,
    code: PredictiveCode,
    *,
    margins: Callable[..., Any],
    n_above: int = 0,
    pace: Pace | None = None,
    fixed: FixedCells | None = None,
) -> Generator[Asked, Reply, Outcome]:
    """Yield :class:`Asked` and take :class:`Reply` until the batch is answered.

    Parameters
    ----------
    queries : BatchQueries
        What is public of the batch.
    code : PredictiveCode
        After the batches before; it is advanced.
    margins : callable
        ``margins(n_above)``: noise margins of "below" and "above" in that round.
    n_above : int, default=0
        Rounds of earlier batches.
    pace : Pace, optional
        How finely to ask in a race.
    fixed : FixedCells, optional
        Thresholds and grid of a holdout that does not race: every query is asked once, in order.

    Returns
    -------
    Outcome
        By ``StopIteration.value``.

    Yields
    ------
    Asked
        What to compare next; the reply is sent back.
    """
    game = _Game(queries, code, margins=margins, n_above=n_above)
    if fixed is None:
        yield from game.race(pace or Pace())
        game.settle()
    else:
        yield from game.walk(fixed)
    return game.outcome


@dataclasses.dataclass(frozen=True, eq=False)
class FixedCells:
    """How a holdout asks that does not race.

    Parameters
    ----------
    thresholds : callable
        ``thresholds(positions, predictions)``: thresholds, and whether slack set them.
    resolution : float
        Grid step of released answers, in units in which every query has sensitivity ``1/n``.
    learned : bool
        Whether predictions learn; else the training-side value is compared as it is.
    """

    thresholds: typing.Callable
    resolution: float
    learned: bool


class _Game:
    """One batch on its way."""

    def __init__(self, queries, code, *, margins, n_above):
        self.queries, self.code, self.margins = queries, code, margins
        self.before = n_above
        self.outcome = Outcome(len(queries))
        self.low, self.high = np.full((2, len(queries)), np.nan)  # known cells, no margin
        self.half = np.full(len(queries), np.inf)  # half-widths they were asked with
        self.taught = {}
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
                return
            refined.add(best)
            yield from self._refine(best, pace)

    def _pass(self, order, pace, *, fine):
        done = 0
        while done < order.size:
            positions = order[done : done + _AHEAD]
            centers, drifts, deviations = self._predictions(positions)
            typical = deviations * np.sqrt(self.queries.training_factors[positions])
            # Whoever surprises is released finely: the holdout has been looked at anyway.
            halves = self._fine(pace, positions, deviations, drifts, leads=fine)
            least = halves if fine else np.maximum(halves, pace.coarse * typical)
            thresholds = np.maximum(least, self.queries.slacks[positions])
            asked = Asked(positions, centers, thresholds, halves)
            reply = yield asked
            # Left wide on purpose: far enough behind that no finer cell would be worth its price.
            slack = self.queries.slacks[positions] > halves
            self._take(asked, reply, (typical, drifts), slack, teach=fine)
            done += reply.count
            self.code.n_fine += fine
            if reply.count == 0:
                self.outcome.exhausted = True
                return

    def _fine(self, pace, positions, deviations, drifts, *, leads):
        factors, sharpness = self.queries.training_factors[positions], self.queries.sharpness
        sharp = 1.0 if sharpness is None or not leads else sharpness[positions]
        return fine_half_width(
            pace,
            self.code,
            deviation=deviations,
            factor=factors,
            drift=drifts,
            sharpness=sharp,
            alone=len(self.queries) == 1,
        )

    def _refine(self, best, pace):
        """Ask the leader again with a fine cell, given its coarse one."""
        positions = np.array([best])
        centers, drifts, deviations = self._predictions(positions)
        typical = deviations * np.sqrt(self.queries.training_factors[positions])
        halves = np.maximum(
            self._fine(pace, positions, deviations, drifts, leads=True), self.queries.slacks[best]
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
        done = 0
        while done < len(self.queries):
            positions = np.arange(done, min(done + _AHEAD, len(self.queries)))
            centers, drifts, deviations = self._predictions(positions)
            typical = deviations * np.sqrt(self.queries.training_factors[positions])
            compared = centers if fixed.learned else self.queries.training_values[positions]
            thresholds, slack = fixed.thresholds(positions, compared)
            asked = Asked(positions, compared, thresholds, thresholds)
            reply = yield asked
            self._take(
                asked, reply, (typical, drifts), slack, centers=centers, step=fixed.resolution
            )
            done += reply.count
            if reply.count == 0:
                self.outcome.exhausted = True
                return

    # -- bookkeeping ------------------------------------------------------------------------------

    def _predictions(self, positions):
        centers, drifts = self.code.predict(self.queries.training_values[positions])
        return centers, drifts, self.queries.deviation(positions, centers)

    def _take(self, asked, reply, spreads, slack, *, centers=None, step=0.0, teach=False):
        """Enter a stretch of "below" answers and the "above" that may end it."""
        quiet = reply.count - (reply.cell is not None)
        centers = asked.predictions if centers is None else centers
        if quiet:
            self._quiet(asked, quiet, centers, spreads)
        self.outcome.relaxed[asked.positions[: reply.count]] = slack[: reply.count]
        if reply.cell is not None:
            self.outcome.first.append([int(asked.positions[quiet]), reply.cell])
            last = slice(quiet, quiet + 1)
            one = Asked(*(part[last] for part in asked))
            law = (centers[last], *(part[last] for part in spreads))
            self._settle(one, reply.cell, law, step=step)
            self.outcome.relaxed[asked.positions[quiet]] = False
        elif teach:
            self._teach(int(asked.positions[0]), spreads[0][0])

    def _quiet(self, asked, count, centers, spreads):
        positions, mu, half = (part[:count] for part in asked[:3])
        typical, drifts = (part[:count] for part in spreads)
        inner = (1.0 - RIM) * half
        low = np.where(mu - half <= 0.0, -np.inf, mu - inner)
        high = np.where(mu + half >= 1.0, np.inf, mu + inner)
        mass = lambda a, b: self.code.masses(a, b, centers[:count], typical, drifts)  # noqa: E731
        self.outcome.released += self.code.charge(self.code.price_below(low, high, mass))
        margin = self.margins(self.before + self.outcome.n_above)[0]
        margin = margin * self.queries.sensitivities[positions]
        self._known(positions, mu - half, mu + half, half, margin)
        self.outcome.values[positions] = mu
        self.outcome.answered[positions] = True

    def _settle(self, asked, cell, law, *, step=0.0, known=False):
        """Enter one query: charge its release, narrow what is known, learn from it."""
        position, mu, threshold, half = (part[0] for part in asked)
        centers, typical, drifts = law
        unit = self.queries.sensitivities[position]
        cells = asked.cells(0, step * unit)
        price = self._price(position, centers, typical, drifts, known=known)
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
        elif step > 0:
            self.outcome.values[position] = min((cell + 0.5) * cells.width, 1.0)
        self._teach(int(position), float(np.ravel(typical)[0]))

    def _price(self, position, centers, typical, drifts, *, known):
        """Return the function that prices intervals, given what is known of the query."""

        def mass(low, high):
            return self.code.masses(low, high, centers, typical, drifts)

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
        out = self.outcome
        least = np.clip(np.fmax(out.least[positions], low - margin), 0.0, 1.0)
        most = np.clip(np.fmin(out.most[positions], high + margin), 0.0, 1.0)
        apart = least > most  # the noise has failed; keep what was found last
        out.least[positions] = np.where(apart, np.clip(low - margin, 0.0, 1.0), least)
        out.most[positions] = np.where(apart, np.clip(high + margin, 0.0, 1.0), most)
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        least, most = np.fmax(self.low[positions], low), np.fmin(self.high[positions], high)
        apart = least > most
        self.low[positions] = np.where(apart, low, least)
        self.high[positions] = np.where(apart, high, most)
        self.half[positions] = half

    def _teach(self, position, typical):
        """Let the predictor learn from a released cell."""
        value = 0.5 * (self.low[position] + self.high[position])
        half = 0.5 * (self.high[position] - self.low[position])
        own = (self.code.scale * typical) ** 2
        self.taught[position] = self.code.learn(
            self.queries.training_values[position],
            value,
            own + half**2 / 3.0,
            instead=self.taught.get(position),
        )

    def _current(self):
        """Return the best public guess of every answered value; -inf where unanswered."""
        centers, _ = self.code.predict(self.queries.training_values)
        guess = np.clip(centers, self.low, self.high)
        return np.where(self.outcome.answered, guess, -np.inf)

    def settle(self):
        """Release for every query the best guess inside its cell."""
        guess = self._current()
        self.outcome.values = np.where(self.outcome.answered, guess, np.nan)


def fine_half_width(
    pace: Pace,
    code: PredictiveCode,
    *,
    deviation: FloatOrArray,
    factor: FloatOrArray,
    drift: FloatOrArray,
    sharpness: FloatOrArray = 1.0,
    alone: bool = False,
) -> Any:
    """Return half-widths of fine cells: as fine as the prediction is good.

    Parameters
    ----------
    pace : Pace
        How finely to ask.
    code : PredictiveCode
        It knows how good predictions have been, and how many fine cells there were.
    deviation, factor, drift : float or array
        Deviation of the score, ``1 + n / training size``, deviation of the common offset.
    sharpness : float or array, default=1.0
        Deviation that intervals go by, in deviations of the score.
    alone : bool, default=False
        Whether the batch is one query.

    Returns
    -------
    float or ndarray
        Half-widths, in score units.
    """
    known = np.sqrt((code.scale * deviation) ** 2 * factor + np.square(drift))
    half = pace.fine(known / deviation, code.n_fine, alone=alone)
    return half * deviation * sharpness
