"""What answers cost: code lengths, and how failure probability is spent (theory G2′, G7, G14, G16).

Code lengths obey Kraft's inequality, so they are the weights of a union bound over everything the
analyst could have asked (theory G2′). The next value on the holdout is predicted from that on the
training set and from what earlier releases taught; a mixture of distributions over scales and tails
around that prediction prices every cell that may be released. Nothing here sees data: all of it is
a function of values of the training set and of released cells.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.utils.validation import (
    check_array,
    check_integer,
    check_option,
    check_probability,
    check_real,
)

# Prior of a complaint among checks (theory G21): 20 silent checks cost .18 nats in all, a first
# complaint about 3 and the log of the number of findings. A larger prior makes silence dearer.
_COMPLAINT, _CHECKS = 0.05, 1.05
#: What can be seen of a report that does not finish: an interrupt, an error, a process that died.
_UNFINISHED_ENDS = 3


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
        level=1.0,
        reserve=0.9,
        coarse=True,
        words="final: 90% of the failure probability is reserved for the final report, as with "
        "O'Brien-Fleming boundaries in sequential trials",
    ),
    "even": Policy(
        level=3.0,
        reserve=0.0,
        coarse=False,
        words="even: all batches alike, as with Pocock boundaries in sequential trials",
    ),
}


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

    def of_batch(self, t: int) -> float:
        """Return the weight of batch ``t = 1, 2, ...``; see :func:`code_length`."""
        level, reserve = self._level, self.policy.reserve
        return (1.0 - reserve) * level / ((t + level - 1.0) * (t + level))

    def of_report(self, n_batches: int) -> float:
        """Return the weight of a final report after so many batches: all that they left.

        A path holds one report at most, so this and the weights of the batches before it sum to 1.
        """
        level, reserve = self._level, self.policy.reserve
        # The weights of batches telescope: a / (T + a) is what those after T would have had.
        return reserve + (1.0 - reserve) * level / (n_batches + level)

    @property
    def _level(self):
        return max(self.policy.level, float(self.n_searches or 0))


def code_length(*, released: float, batch_index: int, spending: Spending = Spending()) -> float:
    r"""Return the code length of the queries of the next batch, in nats, without their places.

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = (1 - \rho) \frac{a}{(t+a-1)(t+a)},

    for batch :math:`t = 1, 2, \dots`, with :math:`a = 1` (``"even"``: 3) and :math:`\rho` what
    ``spending`` reserves for the final report. With the lengths of the places in the batch
    (:func:`place_lengths`), the weights :math:`e^{-\ell}` of all queries that could ever be asked
    sum to at most 1.

    Parameters
    ----------
    released : float
        Code length of everything that earlier batches released, in nats.
    batch_index : int
        Number of the batch, from 1.
    spending : Spending, default=Spending("final")
        How failure probability is spent over the life of a holdout.

    Returns
    -------
    float
        The code length. ``holdout.information_spent`` is that of its next batch.

    References
    ----------
    Theory G2′, G7 and G16.

    Examples
    --------
    >>> from sklearn_bdp.accounting import code_length
    >>> [round(code_length(released=0.0, batch_index=t), 2) for t in (1, 2, 100)]
    [3.0, 4.09, 11.52]
    """
    spent = check_real("released", released, low=0.0)
    return spent - math.log(spending.of_batch(check_integer("batch_index", batch_index, low=1)))


def check_length(*, n_checks: int, n_complaints: int, complaint: bool, n_findings: int) -> float:
    r"""Code length of what one check of the holdout says, in nats (G21).

    After ``j`` complaints in ``i`` checks the next one complains with
    :math:`p = (j + .05)/(i + 1.05)` and names one of ``W`` findings: :math:`-\ln p + \ln W`, or
    :math:`-\ln(1 - p)` for silence.
    """
    chance = (n_complaints + _COMPLAINT) / (n_checks + _CHECKS)
    return math.log(n_findings) - math.log(chance) if complaint else -math.log1p(-chance)


def report_attempt_length(*, n_earlier: int, finished: bool) -> float:
    r"""Code length of how an attempt at a final report ends, in nats (G35).

    An analyst can make it depend on the holdout, as by a scorer that raises above a bound. So it is
    coded as what a check says (:func:`check_length`): it finishes, or it is interrupted, raises an
    error or dies with its process. None of the ``n_earlier`` attempts has finished, because the
    first that does closes the holdout.
    """
    return check_length(
        n_checks=n_earlier,
        n_complaints=n_earlier,
        complaint=not finished,
        n_findings=_UNFINISHED_ENDS,
    )


def final_code_length(*, released: float, n_batches: int, spending: Spending = Spending()) -> float:
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


# -- The predictive code ---------------------------------------------------------------------------

# Theory G7, G17: scales of the predictive distribution in units of the deviation of the score, of
# the deviation of the common offset, and heavy tails; the numbers are the simulation's.
SCALES = np.array([0.25, 0.5, 1.0, 1.7, 3.0])
SCALES_PRIOR = np.array([0.15, 0.4, 0.4, 0.03, 0.01]) / 0.99  # a miss is rarely several deviations
DRIFTS = np.array([0.1, 1.0, 1.5])
DRIFTS_PRIOR = np.array([0.5, 0.47, 0.03])  # agreement with the first answers sharpens it
# Before anything is released, by how many deviations of the offset each is centered below the
# prediction: cross-validation errs upwards.
DRIFTS_BELOW = np.array([0.0, 0.4, 0.0])
TAILS = np.array([1e-4, 0.05])
TAILS_PRIOR = np.array([0.95, 0.05])
_SHAPE = (SCALES.size, DRIFTS.size, TAILS.size)
_OWN, _COMMON = SCALES[:, None, None] ** 2, DRIFTS[:, None] ** 2
# Training-side values are off by a common amount, about this large before anything is known.
OFFSET = 0.04
# Training-side values clearly nearer than this share their offset, farther ones do not (G14).
BANDWIDTH = 0.12
# Released pairs that are remembered; the later ones were chosen nearer to what is asked next.
REMEMBERED = 64

_GRID = np.linspace(0.0, 1.0, 129)
_FEW = 16  # values for which curves are worked out at their own grid points only
_FREEDOM = 4.0  # of Student's distribution that weighs released pairs against each other
_WEIGHINGS = 4
_FADING = 0.05  # relative growth of a pair's variance with each later batch
# The offset walks: variance of a step, as many batches as that is worth, their memory, and the
# largest squared surprise that counts (benchmarks.simulate_year, compare_guarantees).
_STEP, _STEPS, _MEMORY, _LONGEST = 0.0012**2, 4.0, 0.8, 0.015**2
_BEYOND = 1.5  # bandwidths from which on nothing is taught
_EVEN = 0.15  # of the weights of places is spread evenly, the rest falls with the rank


@dataclasses.dataclass(eq=False, repr=False)
class PredictiveCode:
    """Sequential code of released cells: a Bayes mixture around public predictions.

    Theory G7 (any public distribution over cells is valid) and G14 (predictions are robust).
    ``log_weights`` are those of the components; pairs are training-side value, released difference,
    its variance and its batch, oldest first; ``ceiling`` is the largest training-side or released
    value so far, ``n_fine`` the number of queries asked finely, ``n_batches`` that of batches, and
    ``steps`` the sum and the number (both fading) of squared surprises of their first leaders.

    Examples
    --------
    >>> code = PredictiveCode()
    >>> code.expect([0.95, 0.93])
    >>> _ = code.learn(0.95, 0.90, 1e-4)
    >>> code.predict([0.93, 0.1])[0].round(2).tolist()
    [0.88, 0.1]
    """

    log_weights: Any = None
    pairs: list[tuple[float, ...]] = dataclasses.field(default_factory=list)
    ceiling: float = 0.0
    n_fine: int = 0
    n_batches: int = 0
    steps: tuple[float, ...] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if self.log_weights is None:
            prior = np.multiply.outer(np.outer(SCALES_PRIOR, DRIFTS_PRIOR), TAILS_PRIOR)
            self.log_weights = np.log(prior.ravel())
        self.log_weights = check_array("log_weights", self.log_weights, shape=(math.prod(_SHAPE),))
        self.pairs = [tuple(map(float, pair)) for pair in self.pairs]
        self.steps = tuple(map(float, self.steps))
        self._curves: Any = None  # the few values they are for (None: all), then the curves

    def state(self, *, after: int = 0) -> dict[str, Any]:
        """Return the arguments that rebuild this code: ready for JSON, as public as the releases.

        Without the pairs up to number ``after``, where an earlier state holds them.
        """
        state = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        state["pairs"] = [list(pair) for pair in self.pairs[after:]]
        return state | {"log_weights": self.log_weights.tolist(), "steps": list(self.steps)}

    def follow(self, state: dict[str, Any]) -> None:
        """Take over the ``state(after=...)`` after a later batch, whose own pairs it holds."""
        later = PredictiveCode(**state)
        later.pairs = [*self.pairs, *later.pairs][-REMEMBERED:]
        vars(self).update(vars(later))

    def copy(self) -> PredictiveCode:
        """Return an independent copy, with the pairs that count."""
        twin = copy.copy(self)
        twin.pairs = self.pairs[-REMEMBERED:]  # the only value that is changed in place
        return twin

    # -- Predictions ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin another batch: what was learned before is one batch older."""
        self.n_batches += 1
        self._curves = None

    def surprised(self, square: float) -> None:
        """Take note of the squared surprise of a batch's first leader, 0 where there was none."""
        total, count = self.steps
        # Theory G14: one outlier is no walk of all the others.
        self.steps = (_MEMORY * total + min(square, _LONGEST), _MEMORY * count + 1.0)
        self._curves = None

    def expect(self, cv_scores: FloatOrArray) -> None:
        """Take note of the training-side values of a batch before any of it is answered."""
        self.ceiling = max(self.ceiling, float(np.max(cv_scores)))

    def learn(self, cv_score, released_value, variance, *, instead=None):
        """Learn from a released value; return the number of the pair.

        ``variance`` is that of the difference around the common offset; ``instead`` the number of a
        pair that this one replaces: the same query, released more finely.
        """
        difference = float(released_value - cv_score)
        pair = (float(cv_score), difference, float(variance), float(self.n_batches))
        self.ceiling = max(self.ceiling, float(released_value))
        self._curves = None
        if instead is not None:
            self.pairs[instead] = pair
            return instead
        self.pairs.append(pair)
        return len(self.pairs) - 1

    def predict(self, cv_scores: FloatOrArray) -> tuple[Array, Array]:
        """Return predictions of holdout values, and how well their common offset is known."""
        values = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return np.minimum(values, self.ceiling), np.full(values.shape, OFFSET)
        asked, grid = None if values.size > _FEW else values.tobytes(), _GRID
        if self._curves is None or self._curves[0] not in (None, asked):
            if asked is not None:
                left = np.minimum((values * (_GRID.size - 1)).astype(int), _GRID.size - 2).tolist()
                grid = _GRID[sorted({*left, *(place + 1 for place in left)})]
            pairs = itertools.chain.from_iterable(self.pairs[-REMEMBERED:])
            known, differences, variances, batches = np.fromiter(pairs, float).reshape(-1, 4).T
            # What is asked later was chosen by what is known: the offset moves on, old pairs fade.
            age = self.n_batches - batches
            step = (_STEPS * _STEP + self.steps[0]) / (_STEPS + self.steps[1])
            variances = variances * (1.0 + _FADING * age) + step * age
            self._curves = asked, grid, *_offset_curves((known, differences, variances), grid)
        _, grid, offsets, deviations = self._curves
        # Theory G14: no prediction beyond what training-side or released values support.
        centers = values + np.interp(values, grid, offsets)
        centers = np.minimum(np.maximum(centers, 0.0), self.ceiling)
        return centers, np.interp(values, grid, deviations)

    def scales(self) -> tuple[float, float]:
        """Return root mean squares of the mixture's scales: of the score, of the common offset.

        In units of the deviations of either.
        """
        weights = np.exp(self.log_weights).reshape(_SHAPE)
        own, common = weights.sum(axis=(1, 2)) @ SCALES**2, weights.sum(axis=(0, 2)) @ DRIFTS**2
        return math.sqrt(own), math.sqrt(common)

    # -- Prices -----------------------------------------------------------------------------------

    def masses(self, low, high, centers, deviations, drifts, *, tail=1.0):
        """Return the mass of intervals under every component, shape (components, m).

        Infinite ends take the tails; the last three arrays are predictions, deviations of the
        scores and deviations of the offset. ``tail`` is the part of heavy tails that is meant:
        many queries share the surprises of one.
        """
        low, high, centers = np.atleast_1d(low, high, centers)
        spread = np.sqrt(_OWN * np.square(deviations) + _COMMON * np.square(drifts))
        if not self.pairs:
            centers = centers - DRIFTS_BELOW[:, None] * np.asarray(drifts, float)
        left, right = (low - centers) / spread, (high - centers) / spread
        flip = left > 0.0  # differences of small tails, not of numbers near 1
        core = ndtr(np.where(flip, -left, right)) - ndtr(np.where(flip, -right, left))
        angles = (np.arctan(right) - np.arctan(left)) / math.pi
        flat = np.minimum(high, 1.0) - np.maximum(low, 0.0)
        heavy = 0.5 * np.maximum(angles, 0.0) + 0.5 * np.maximum(flat, 0.0)
        tails = tail * TAILS[:, None]
        mixed = (1.0 - tails) * core[:, :, None] + tails * heavy[:, :, None]
        return mixed.reshape(math.prod(_SHAPE), -1)

    def charge(self, log_masses: Array) -> float:
        """Update the mixture by releases of these log masses; return their code length in nats."""
        joint = self.log_weights + log_masses.sum(axis=1)
        total = float(np.logaddexp.reduce(joint))
        self.log_weights = joint - total
        return max(0.0, -total)


def _offset_curves(pairs, grid):
    """Return offset and its deviation on a grid of training-side values.

    A local mean of released differences: near training-side values count, and differences that
    the others contradict count little (Student's weights, theory G14).
    """
    values, differences, variances = pairs
    distance = np.abs(grid[:, None] - values) / BANDWIDTH
    # However precise, a difference says little about the offset of a far training-side value.
    farness = np.exp(np.square(np.square(np.square(np.minimum(distance, _BEYOND)))))
    wide = farness * (variances + OFFSET**2)
    own = (distance <= _BEYOND) / (wide - OFFSET**2)
    # The prior is one more difference, of 0, and as ready to be outvoted.
    precision, prior, offset = own, np.full(len(grid), 0.01), np.zeros(len(grid))
    for weighing in range(_WEIGHINGS):
        if weighing:
            square = (differences - offset[:, None]) ** 2 / wide
            precision = own * np.minimum(1.0, (_FREEDOM + 1.0) / (_FREEDOM + square))
            prior = np.minimum(1.0, 2.0 / (1.0 + (offset / OFFSET) ** 2))
        weight = np.add.reduce(precision, axis=1) + prior / OFFSET**2
        offset = np.add.reduce(precision * differences, axis=1) / weight
    return offset, np.minimum(1.0 / np.sqrt(weight), np.maximum(OFFSET, np.abs(offset)))


def place_lengths(predictions: FloatOrArray) -> Array:
    r"""Return the code length of each public rank in a batch.

    .. math:: w_r = \frac{0.15}{m} + 0.85 \frac{c_m}{r(r+1)(r+2)}

    The leader pays about 0.6 nats, the second 2, and no rank more than ``1.9 + ln m``.

    Parameters
    ----------
    predictions : array of shape (m,)
        Predictions when the batch starts.

    Returns
    -------
    ndarray of shape (m,)
        :math:`-\ln w_r` for the query of rank ``r``; the weights sum to 1.

    References
    ----------
    Theory G7. Ranks are those before any answer of the batch: ranks that moved with the answers
    would make the union a different one.

    Examples
    --------
    >>> from sklearn_bdp.accounting.spending import place_lengths
    >>> place_lengths([0.7, 0.9, 0.8]).round(2).tolist()
    [2.18, 0.39, 1.57]
    """
    predictions = np.asarray(predictions, dtype=float)
    m = predictions.size
    rank = np.empty(m)
    rank[np.argsort(-predictions, kind="stable")] = np.arange(1.0, m + 1.0)
    # The sum of 1/(r(r+1)(r+2)) up to m is 1/4 - 1/(2(m+1)(m+2)).
    steep = 1.0 / (rank * (rank + 1.0) * (rank + 2.0)) / (0.25 - 0.5 / ((m + 1.0) * (m + 2.0)))
    return -np.log(_EVEN / m + (1.0 - _EVEN) * steep)
