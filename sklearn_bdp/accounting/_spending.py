"""Code lengths, how failure probability is spent (G16), and how finely a batch asks (G7, G17).

Code lengths obey Kraft's inequality, so they are the weights of a union bound over everything the
analyst could have asked (theory G2′). Nothing here sees data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri_exp

from sklearn_bdp._checks import check_integer, check_option, check_probability, check_real
from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.accounting._predictive import PredictiveCode

# Prior of a complaint among checks (theory G21): 20 silent checks cost .18 nats in all, a first
# complaint about 3 and the log of the number of words. A larger prior makes silence dearer.
_COMPLAINT, _CHECKS = 0.05, 1.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """A way of spending failure probability; whatever its numbers, all weights sum to at most 1."""

    #: a of the weights of batches. A larger one takes from the first batch and gives to later ones:
    #: with 3 the first pays ln 4 and the tenth ln 52, with 1 they pay ln 2 and ln 110.
    level: float
    #: Part of the failure probability that only a final report may use (theory G17, amended).
    reserve: float
    #: Whether interim queries are as coarse as wanted widths allow (:class:`FinalPace`).
    coarse: bool
    words: str


#: By the name that ``spending`` takes. What people publish is the report: interim intervals of
#: "final" pay ln 10 nats, a fifth of their width.
POLICIES = {
    "final": Policy(
        level=1.0, reserve=0.9, coarse=True,
        words="final: 90% of the failure probability is reserved for the final report, as with "
        "O'Brien-Fleming boundaries in sequential trials",
    ),
    "even": Policy(
        level=3.0, reserve=0.0, coarse=False,
        words="even: all batches alike, as with Pocock boundaries in sequential trials",
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Spending:
    """How a holdout spreads its failure probability over its life (theory G16).

    ``"final"`` reserves nine tenths of it for the final report and asks coarsely on the way, as
    O'Brien-Fleming boundaries of sequential trials do; ``"even"`` treats all batches alike, as
    Pocock boundaries do. ``n_searches``, how many batches are expected, is a hint: whatever it is,
    the weights of all batches and of a report sum to at most 1.

    Examples
    --------
    >>> round(Spending("final").of_batch(1), 6), Spending("final").of_report(0)
    (0.05, 1.0)
    """

    name: Literal["final", "even"] = "final"
    n_searches: int | None = None

    def __post_init__(self) -> None:
        check_option("spending", self.name, tuple(POLICIES))
        if self.n_searches is not None:
            check_integer("n_searches", self.n_searches, low=1)

    @property
    def policy(self) -> Policy:
        """The rule of that name."""
        return POLICIES[self.name]

    @property
    def _level(self):
        return max(self.policy.level, float(self.n_searches or 0))

    @property
    def reserve(self) -> float:
        """Weight that batches leave to the final report."""
        return self.policy.reserve

    def of_batch(self, t: int) -> float:
        """Return the weight of batch ``t = 1, 2, ...``; see :func:`code_length`."""
        level = self._level
        return (1.0 - self.reserve) * level / ((t + level - 1.0) * (t + level))

    def recorded(self, weight: float) -> dict[str, str | float]:
        """Return what the account of a batch keeps: the name and what was spent of the whole."""
        return {"name": self.name, "weight": weight}

    def of_report(self, n_batches: int) -> float:
        """Return the weight of a final report after so many batches: all that they left.

        A path holds one report at most, so this and the weights of the batches before it sum to 1.
        """
        # The weights of batches telescope: a / (T + a) is what those after T would have had.
        return self.reserve + (1.0 - self.reserve) * self._level / (n_batches + self._level)

    def describe(self) -> str:
        """Return the way of spending in words."""
        return self.policy.words


def code_length(*, released: float, batch_index: int, spending: Spending = Spending()) -> float:
    r"""Code length of the queries of the next batch, in nats; their places come on top (G2′, G7).

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = (1 - \rho) \frac{a}{(t+a-1)(t+a)},

    for batch :math:`t = 1, 2, \dots`, with :math:`a = 1` (``"even"``: 3) and :math:`\rho` what
    ``spending`` reserves for the final report. With the lengths of the places in the batch
    (:func:`place_lengths`), the weights :math:`e^{-\ell}` of all queries that could ever be asked
    sum to at most 1. ``released`` is the code length of what earlier batches released
    (:class:`PredictiveCode`).
    """
    spent = check_real("released", released, low=0.0)
    return spent - math.log(spending.of_batch(check_integer("batch_index", batch_index, low=1)))


def check_length(*, n_checks: int, n_complaints: int, complaint: bool, n_words: int) -> float:
    r"""Code length of what one check of the holdout says, in nats (G21).

    After ``j`` complaints in ``i`` checks the next one complains with
    :math:`p = (j + .05)/(i + 1.05)` and says one of ``W`` words: :math:`-\ln p + \ln W`, or
    :math:`-\ln(1 - p)` for silence.
    """
    chance = (n_complaints + _COMPLAINT) / (n_checks + _CHECKS)
    return math.log(n_words) - math.log(chance) if complaint else -math.log1p(-chance)


def final_code_length(
    *,
    released: float,
    n_batches: int,
    spending: Spending = Spending(),
) -> float:
    """Return the code length of a final report after ``n_batches``, in nats (theory G16).

    The statements of a report share it: their parts come on top, as places in a batch do.
    """
    spent = check_real("released", released, low=0.0)
    return spent - math.log(spending.of_report(check_integer("n_batches", n_batches, low=0)))


def leaked_length(*, information: float, failure: float) -> float:
    r"""Nats that stand for everything released when a lifetime leakage is fixed (G1, G9).

    For a holdout whose noise meets one DP level for its whole life the answers given so far need
    not be coded at all: they count as

    .. math:: (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta)

    in :func:`code_length` and :func:`final_code_length`, with :math:`\beta` the failure
    probability of sampling and K, in nats, ``model.sequential_information(dp_epsilon, n)`` at the
    lifetime level.
    """
    known = check_real("information", information, low=0.0)
    surprise = -math.log(check_probability("failure", failure))
    # (√K + √s)² − s, expanded: no cancellation.
    return known + 2.0 * math.sqrt(known * surprise)


# Theory G17, all by ``benchmarks/simulate_year.py`` on other seeds than are reported. Half-widths
# that are wanted of a leader in batch 1, 2, 5, ..., in deviations, and the finest cell, in
# deviations of the prediction; by logarithms between them. A first cell that is finer would cost
# the report more than "even" does; later ones that are finer would surprise more often than that
# the few intervals still to come are worth (``--sweep least``).
_TIMES = (1, 2, 5, 10, 20, 50)
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
    """How finely ``spending="even"`` asks; chosen by ``benchmarks/simulate_year.py --sweep``."""

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
        return known * np.interp(np.log(known / worth), _STEEPNESS, _BEST)

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


def paced(spending: Spending, batch_index: int, log_failure: float) -> Pace | FinalPace:
    """Return how finely a batch asks; ``log_failure`` is that of one side of its intervals."""
    if not spending.policy.coarse:
        return Pace()
    # Whoever plans ahead wants no first interval.
    age = math.log(batch_index + (spending.n_searches is not None))
    wanted, least = (float(np.interp(age, np.log(_TIMES), row)) for row in (_WANTED, _LEAST))
    return FinalPace(wanted, log_failure, least)


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


def fine_half_width(
    pace: Pace | FinalPace,
    code: PredictiveCode,
    *,
    predictions: FloatOrArray,
    deviation: Callable[[Any], Any],
    factor: FloatOrArray,
    drift: FloatOrArray,
    sharpness: FloatOrArray = 1.0,
    places: FloatOrArray = 0.0,
    alone: bool = False,
) -> Any:
    """Return half-widths of fine cells, in score units: as fine as the prediction is good.

    The code knows how good predictions have been, and how many fine cells there were.
    ``deviation`` gives that of scores at predictions, ``factor`` is ``1 + n / training size``,
    ``drift`` the deviation of the common offset; ``sharpness`` is the deviation that intervals go
    by, in deviations of the score, ``places`` code lengths of the places in the batch.
    """
    predictions, own = np.asarray(predictions, dtype=float), deviation(predictions)
    drift = code.drift_scale * np.asarray(drift)
    known = np.hypot(code.scale * own * np.sqrt(factor), drift)
    toward = _TOWARD[0] * np.minimum(drift, _TOWARD[1])
    moved = predictions + np.clip(0.5 - predictions, -toward, toward)
    unit = np.maximum(own, deviation(moved)) * sharpness
    return unit * pace.fine(known * sharpness / unit, code.n_fine, places=places, alone=alone)
