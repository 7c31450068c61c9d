"""Code lengths of answers, and spending of failure probability (theory G2′, G7, G14, G16).

Code lengths obey Kraft's inequality, so they are the weights of a union bound over all queries that
the analyst could have made (theory G2′). The next holdout score is predicted from the
cross-validated score and from earlier releases. A mixture of distributions over scales and tails
around that prediction assigns a code length to each cell that may be released. Functions of this
module read no data: they depend on cross-validated scores and on released cells only.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from typing import Any, Literal, NamedTuple

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

# Prior counts of complaints and checks (theory G21): 20 checks without a finding cost 0.18 nats in
# all, a first complaint about 3 and the log of the number of findings. A larger prior count of
# complaints makes checks without a finding more expensive.
_PRIOR_COMPLAINTS = 0.05
_PRIOR_CHECKS = 1.05
#: What can be seen of a report that does not finish: an interrupt, an error, a process that died.
_UNFINISHED_ENDS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpendingPolicy:
    """Rule of spending failure probability. All weights sum to at most 1 for any numbers."""

    #: a of the weights of batches. A larger one takes from the first batch and gives to later ones:
    #: with 3 the first pays ln 4 and the tenth ln 52, with 1 they pay ln 2 and ln 110.
    batch_offset: float
    #: Part of the failure probability that only a final report may use (theory G17, amended).
    reserve: float
    #: Whether interim queries are as coarse as wanted widths allow (``FinalWidthPolicy`` of
    #: :mod:`sklearn_bdp.release.graded_release`).
    coarse: bool
    #: Text of the certificate.
    description: str


#: Policies by the name that ``spending`` accepts. The final report is the number that users
#: publish: interim intervals of "final" pay ln 10 nats, a fifth of their width.
SPENDING_POLICIES = {
    "final": SpendingPolicy(
        batch_offset=1.0,
        reserve=0.9,
        coarse=True,
        description="final: 90% of the failure probability is reserved for the final report, as "
        "with O'Brien-Fleming boundaries in sequential trials",
    ),
    "even": SpendingPolicy(
        batch_offset=3.0,
        reserve=0.0,
        coarse=False,
        description="even: all batches alike, as with Pocock boundaries in sequential trials",
    ),
}


@dataclasses.dataclass(frozen=True)
class AlphaSpending:
    """Spending of a holdout's failure probability over its life (theory G16).

    ``"final"`` reserves nine tenths of it for the final report and makes interim queries coarse, as
    O'Brien-Fleming boundaries of sequential trials do. ``"even"`` treats all batches alike, as
    Pocock boundaries do. ``n_searches``, the expected number of batches, is a hint: for any value
    the weights of all batches and of a report sum to at most 1.

    Examples
    --------
    >>> round(AlphaSpending("final").batch_weight(1), 6), AlphaSpending("final").report_weight(0)
    (0.05, 1.0)
    """

    name: Literal["final", "even"] = "final"
    n_searches: int | None = None

    def __post_init__(self) -> None:
        check_option("spending", self.name, tuple(SPENDING_POLICIES))
        if self.n_searches is not None:
            check_integer("n_searches", self.n_searches, low=1)

    @property
    def policy(self) -> SpendingPolicy:
        """Rule with the name of this spending."""
        return SPENDING_POLICIES[self.name]

    def batch_weight(self, t: int) -> float:
        """Return the weight of batch ``t = 1, 2, ...``; see :func:`code_length`."""
        a = self._batch_offset
        return (1.0 - self.policy.reserve) * a / ((t + a - 1.0) * (t + a))

    def report_weight(self, n_batches: int) -> float:
        """Return the weight of a final report after ``n_batches``: the rest of the total of 1.

        A holdout gives one report at most, so this weight and those of the batches before it sum
        to 1.
        """
        a = self._batch_offset
        reserve = self.policy.reserve
        # The weights of batches telescope: those after T sum to a / (T + a).
        return reserve + (1.0 - reserve) * a / (n_batches + a)

    @property
    def _batch_offset(self):
        return max(self.policy.batch_offset, float(self.n_searches or 0))


def code_length(
    *, released: float, batch_index: int, spending: AlphaSpending = AlphaSpending()
) -> float:
    r"""Return each query's code length in the next batch, in nats, before its rank's is added.

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = (1 - \rho) \frac{a}{(t+a-1)(t+a)},

    for batch :math:`t = 1, 2, \dots`, with :math:`a = 1` (``"even"``: 3) and the part :math:`\rho`
    that ``spending`` reserves for the final report. With the code lengths of ranks in the batch
    (:func:`rank_code_lengths`), the weights :math:`e^{-\ell}` of all possible queries sum to at
    most 1.

    Parameters
    ----------
    released : float
        Code length of all releases of earlier batches, in nats.
    batch_index : int
        Number of the batch, from 1.
    spending : AlphaSpending, default=AlphaSpending("final")
        Spending of failure probability over the life of a holdout.

    Returns
    -------
    float
        Code length. ``holdout.next_code_length`` is that of its next batch, and
        ``holdout.information_spent`` its part ``released``.

    References
    ----------
    Theory G2′, G7 and G16.

    Examples
    --------
    >>> from sklearn_bdp.accounting import code_length
    >>> [round(code_length(released=0.0, batch_index=t), 2) for t in (1, 2, 100)]
    [3.0, 4.09, 11.52]
    """
    released_nats = check_real("released", released, low=0.0)
    return released_nats - math.log(
        spending.batch_weight(check_integer("batch_index", batch_index, low=1))
    )


def outcome_code_length(
    *, n_checks: int, n_complaints: int, complaint: bool, n_findings: int
) -> float:
    r"""Return the code length of the outcome of one holdout check, in nats (G21).

    After ``j`` complaints in ``i`` checks the next one complains with
    :math:`p = (j + .05)/(i + 1.05)` and names one of ``W`` findings: :math:`-\ln p + \ln W`, or
    :math:`-\ln(1 - p)` without a complaint.
    """
    probability = (n_complaints + _PRIOR_COMPLAINTS) / (n_checks + _PRIOR_CHECKS)
    if complaint:
        return math.log(n_findings) - math.log(probability)
    return -math.log1p(-probability)


def report_attempt_length(*, n_earlier: int, finished: bool) -> float:
    r"""Return the code length of the end of an attempt at a final report, in nats (G35).

    An analyst can make the end depend on the holdout, for instance by a scorer that raises above a
    bound. It is therefore coded as the outcome of a check (:func:`outcome_code_length`): the report
    finishes, or it is interrupted, raises an error or dies with its process. None of the
    ``n_earlier`` attempts has finished, because the first finished one closes the holdout.
    """
    return outcome_code_length(
        n_checks=n_earlier,
        n_complaints=n_earlier,
        complaint=not finished,
        n_findings=_UNFINISHED_ENDS,
    )


def final_code_length(
    *, released: float, n_batches: int, spending: AlphaSpending = AlphaSpending()
) -> float:
    """Return the code length of a final report after ``n_batches``, in nats (theory G16).

    The statements of a report share this length. Each adds its own, as ranks in a batch do.
    """
    released_nats = check_real("released", released, low=0.0)
    return released_nats - math.log(
        spending.report_weight(check_integer("n_batches", n_batches, low=0))
    )


def leakage_code_length(*, information: float, failure: float) -> float:
    r"""Return the nats that all releases count as under a lifetime level of leakage (G1, G9).

    If the noise of a holdout meets one DP level for its whole life, the answers need not be coded.
    They count as

    .. math:: (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta)

    in :func:`code_length` and :func:`final_code_length`. :math:`\beta` is the failure probability
    of sampling, and K, in nats, is ``sequential_information(model, dp_epsilon, n)`` at the lifetime
    level.
    """
    information = check_real("information", information, low=0.0)
    log_inverse_failure = -math.log(check_probability("failure", failure))
    # (√K + √s)² − s, expanded: no cancellation.
    return information + 2.0 * math.sqrt(information * log_inverse_failure)


# -- The predictive code ---------------------------------------------------------------------------

# Theory G7, G17: scales of the predictive distribution in units of the deviation of the score, in
# units of the deviation of the common offset, and heavy tails. The numbers were chosen by
# ``benchmarks/simulate_year.py``.
SCALES = np.array([0.25, 0.5, 1.0, 1.7, 3.0])
SCALES_PRIOR = np.array([0.15, 0.4, 0.4, 0.03, 0.01]) / 0.99  # a miss is rarely several deviations
DRIFTS = np.array([0.1, 1.0, 1.5])
DRIFTS_PRIOR = np.array([0.5, 0.47, 0.03])  # agreement with the first answers sharpens it
# Deviations of the offset by which each component is centered below the prediction before the first
# release: cross-validation is optimistic.
DRIFTS_BELOW = np.array([0.0, 0.4, 0.0])
TAILS = np.array([1e-4, 0.05])
TAILS_PRIOR = np.array([0.95, 0.05])
_SHAPE = (SCALES.size, DRIFTS.size, TAILS.size)
_SCORE_VARIANCES = SCALES[:, None, None] ** 2
_OFFSET_VARIANCES = DRIFTS[:, None] ** 2
# Prior deviation of the common offset between cross-validated and holdout scores.
OFFSET = 0.04
# Cross-validated scores nearer than this share their offset, more distant ones do not (G14).
BANDWIDTH = 0.12
# Number of released pairs that are used: later queries are nearer to the next ones.
REMEMBERED = 64

_GRID = np.linspace(0.0, 1.0, 129)
_MAX_LOCAL = 16  # for up to so many scores, curves are computed at adjacent grid points only
_STUDENT_FREEDOM = 4.0  # of the distribution that weighs released pairs against each other
_N_REWEIGHTINGS = 4
_VARIANCE_GROWTH = 0.05  # relative growth of a pair's variance with each later batch
# The offset is a random walk: prior variance of a step, its weight in batches, decay of earlier
# steps, and largest squared surprise (benchmarks.simulate_year, compare_guarantees).
_PRIOR_STEP_VARIANCE = 0.0012**2
_PRIOR_STEPS = 4.0
_STEP_DECAY = 0.8
_MAX_SQUARED_SURPRISE = 0.015**2
_MAX_DISTANCE = 1.5  # bandwidths beyond which a pair has no influence
_EVEN_WEIGHT = 0.15  # of the weights of ranks is spread evenly, the rest falls with the rank
# Prior probability, worth one earlier query, that the first limit of a mean square does not hold,
# and probability that each further limit does not hold.
_LIMIT_SURPRISE = 0.05
_FURTHER_LIMIT_SURPRISE = 0.3


class ReleasedPair(NamedTuple):
    """A cross-validated score and the value that was released for it."""

    cv_score: float
    difference: float  # released value minus cv_score
    variance: float  # of the difference about the offset shared by all queries
    batch_index: float


@dataclasses.dataclass(eq=False, repr=False)
class PredictiveCode:
    """Sequential code of released cells: a Bayes mixture around public predictions.

    Theory G7 (any public distribution over cells is valid) and G14 (predictions are robust).

    Parameters
    ----------
    log_weights : array of shape (n_components,), optional
        Log weights of the components; None: the prior.
    pairs : list of ReleasedPair
        Of each release, oldest first.
    ceiling : float
        Largest cross-validated or released score so far.
    n_fine : int
        Number of finely answered queries.
    n_batches : int
        Number of batches.
    steps : tuple of float
        Sum and number of the values of :meth:`observe_surprise`, both with decay.
    spreads : dict
        For each metric whose mean squares were limited: the step of the limit that last held, and
        the numbers of queries and of those whose first limit held.

    Examples
    --------
    >>> code = PredictiveCode()
    >>> code.observe_cv_scores([0.95, 0.93])
    >>> _ = code.learn(0.95, 0.90, 1e-4)
    >>> code.predict([0.93, 0.1])[0].round(2).tolist()
    [0.88, 0.1]
    """

    log_weights: Any = None
    pairs: list[ReleasedPair] = dataclasses.field(default_factory=list)
    ceiling: float = 0.0
    n_fine: int = 0
    n_batches: int = 0
    steps: tuple[float, ...] = (0.0, 0.0)
    spreads: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.log_weights is None:
            prior = np.multiply.outer(np.outer(SCALES_PRIOR, DRIFTS_PRIOR), TAILS_PRIOR)
            self.log_weights = np.log(prior.ravel())
        self.log_weights = check_array("log_weights", self.log_weights, shape=(math.prod(_SHAPE),))
        self.pairs = [ReleasedPair(*map(float, pair)) for pair in self.pairs]
        self.steps = tuple(map(float, self.steps))
        self._curves: Any = None  # bytes of the scores (None: any), grid, offsets and deviations

    def state(self, *, after: int = 0) -> dict[str, Any]:
        """Return the arguments that rebuild this code: ready for JSON, as public as the releases.

        Pairs up to number ``after`` are left out: an earlier state holds them.
        """
        state = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        state["pairs"] = [list(pair) for pair in self.pairs[after:]]
        state["log_weights"] = self.log_weights.tolist()
        state["steps"] = list(self.steps)
        return state

    def update_from_state(self, state: dict[str, Any]) -> None:
        """Replace this state by that of a later batch, which holds its own pairs only."""
        later = PredictiveCode(**state)
        later.pairs = [*self.pairs, *later.pairs][-REMEMBERED:]
        vars(self).update(vars(later))

    def copy(self) -> PredictiveCode:
        """Return an independent copy, with the pairs that are used."""
        duplicate = copy.copy(self)
        duplicate.pairs = self.pairs[-REMEMBERED:]  # the only value that is changed in place
        return duplicate

    # -- Predictions ------------------------------------------------------------------------------

    def start_batch(self) -> None:
        """Start another batch: all pairs are one batch older."""
        self.n_batches += 1
        self._curves = None

    def observe_surprise(self, excess_square: float) -> None:
        """Record by how much a first leader's squared error exceeds twice its expected value.

        0 if it does not, or if the answer was "below".
        """
        total, count = self.steps
        # Theory G14: one outlier does not move the offset of all other scores.
        total = _STEP_DECAY * total + min(excess_square, _MAX_SQUARED_SURPRISE)
        self.steps = (total, _STEP_DECAY * count + 1.0)
        self._curves = None

    def observe_cv_scores(self, cv_scores: FloatOrArray) -> None:
        """Record the cross-validated scores of a batch before any of it is answered."""
        self.ceiling = max(self.ceiling, float(np.max(cv_scores)))

    def learn(self, cv_score, released_value, variance, *, instead=None):
        """Learn from a released value; return the index of its :class:`ReleasedPair`.

        ``variance`` is that of the difference about the offset shared by all queries. ``instead``
        is the index of a pair that this one replaces: the same query, released more finely.
        """
        difference = float(released_value - cv_score)
        pair = ReleasedPair(float(cv_score), difference, float(variance), float(self.n_batches))
        self.ceiling = max(self.ceiling, float(released_value))
        self._curves = None
        if instead is not None:
            self.pairs[instead] = pair
            return instead
        self.pairs.append(pair)
        return len(self.pairs) - 1

    def predict(self, cv_scores: FloatOrArray) -> tuple[Array, Array]:
        """Return predictions of holdout scores, and the deviations of their common offset."""
        scores = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return np.minimum(scores, self.ceiling), np.full(scores.shape, OFFSET)
        score_bytes = None if scores.size > _MAX_LOCAL else scores.tobytes()
        if self._curves is None or self._curves[0] not in (None, score_bytes):
            grid = _GRID
            if score_bytes is not None:
                lower = np.minimum((scores * (_GRID.size - 1)).astype(int), _GRID.size - 2)
                grid = _GRID[sorted({*lower.tolist(), *(lower + 1).tolist()})]
            self._curves = score_bytes, grid, *_offset_curves(self._aged_pairs(), grid)
        _, grid, offsets, deviations = self._curves
        # Theory G14: no prediction exceeds the cross-validated and released scores.
        centers = scores + np.interp(scores, grid, offsets)
        centers = np.minimum(np.maximum(centers, 0.0), self.ceiling)
        return centers, np.interp(scores, grid, deviations)

    def _aged_pairs(self):
        """Return cross-validated scores, differences and variances of released pairs.

        Later queries were chosen by means of earlier answers: the offset moves on, and the variance
        of old pairs grows.
        """
        fields = itertools.chain.from_iterable(self.pairs[-REMEMBERED:])
        cv_scores, differences, variances, batch_indices = (
            np.fromiter(fields, float).reshape(-1, 4).T
        )
        age = self.n_batches - batch_indices
        total, count = self.steps
        step_variance = (_PRIOR_STEPS * _PRIOR_STEP_VARIANCE + total) / (_PRIOR_STEPS + count)
        variances = variances * (1.0 + _VARIANCE_GROWTH * age) + step_variance * age
        return cv_scores, differences, variances

    def scales(self) -> tuple[float, float]:
        """Return root mean squares of the mixture's scales, of the score and of the common offset.

        They are in units of the deviation of the score and of that of the offset.
        """
        weights = np.exp(self.log_weights).reshape(_SHAPE)
        score_variance = weights.sum(axis=(1, 2)) @ SCALES**2
        offset_variance = weights.sum(axis=(0, 2)) @ DRIFTS**2
        return math.sqrt(score_variance), math.sqrt(offset_variance)

    # -- Code lengths -----------------------------------------------------------------------------

    def masses(self, low, high, centers, deviations, drifts, *, tail=1.0):
        """Return the mass of intervals under each component, of shape (n_components, m).

        The mass beyond an infinite end is included. ``centers`` are predictions, ``deviations``
        those of scores and ``drifts`` those of the offset. ``tail`` scales the weight of heavy
        tails: many queries share the surprises of one.
        """
        low, high, centers = np.atleast_1d(low, high, centers)
        variances = _SCORE_VARIANCES * np.square(deviations) + _OFFSET_VARIANCES * np.square(drifts)
        spread = np.sqrt(variances)
        if not self.pairs:
            centers = centers - DRIFTS_BELOW[:, None] * np.asarray(drifts, float)
        lower = (low - centers) / spread
        upper = (high - centers) / spread
        flip = lower > 0.0  # differences of small tails, not of numbers near 1
        normal = ndtr(np.where(flip, -lower, upper)) - ndtr(np.where(flip, -upper, lower))
        cauchy = (np.arctan(upper) - np.arctan(lower)) / math.pi
        uniform = np.minimum(high, 1.0) - np.maximum(low, 0.0)
        heavy = 0.5 * np.maximum(cauchy, 0.0) + 0.5 * np.maximum(uniform, 0.0)
        tail_weights = tail * TAILS[:, None]
        masses = (1.0 - tail_weights) * normal[:, :, None] + tail_weights * heavy[:, :, None]
        return masses.reshape(math.prod(_SHAPE), -1)

    def first_limit(self, metric: str) -> int:
        """Return the step of the limit to try first for a mean square: the one that last held."""
        return self.spreads.get(metric, [0, 0, 0])[0]

    def charge_limit(self, metric: str, step: int | None, n_steps: int) -> float:
        """Learn which limit of a mean square was the first to hold; return its code length in nats.

        Limits are tried from :meth:`first_limit` on, up to ``n_steps``; ``step=None``: none of them
        holds. How often the first one holds is learned, so that it soon costs next to nothing.
        """
        first, n_queries, n_held = self.spreads.get(metric, [0, 0, 0])
        probability = (n_held + 1.0 - _LIMIT_SURPRISE) / (n_queries + 1.0)
        if step != first:
            n_failed = (n_steps if step is None else step) - first
            probability = (1.0 - probability) * _FURTHER_LIMIT_SURPRISE ** (n_failed - 1)
            if step is not None:
                probability *= 1.0 - _FURTHER_LIMIT_SURPRISE
        held = n_steps - 1 if step is None else step
        self.spreads = self.spreads | {metric: [held, n_queries + 1, n_held + int(step == first)]}
        return -math.log(probability)

    def charge(self, log_masses: Array) -> float:
        """Update the mixture by releases with log masses; return their code length in nats."""
        log_joint = self.log_weights + log_masses.sum(axis=1)
        log_evidence = float(np.logaddexp.reduce(log_joint))
        self.log_weights = log_joint - log_evidence
        return max(0.0, -log_evidence)


def _offset_curves(pair_columns, grid):
    """Return the offset and its deviation on a grid of cross-validated scores.

    The offset is a local mean of released differences. Pairs with near scores have large weights,
    and differences that the others contradict have small weights (Student's weights, theory G14).
    """
    cv_scores, differences, variances = pair_columns
    distance = np.abs(grid[:, None] - cv_scores) / BANDWIDTH
    # A difference at a distant score is imprecise for the offset, even if it is precise at its own.
    growth = np.exp(np.square(np.square(np.square(np.minimum(distance, _MAX_DISTANCE)))))
    total_variance = growth * (variances + OFFSET**2)
    local_precision = (distance <= _MAX_DISTANCE) / (total_variance - OFFSET**2)
    # The prior is one more difference, of 0, which is weighed like the others.
    precision = local_precision
    prior_weight = np.full(len(grid), 0.01)
    offset = np.zeros(len(grid))
    for iteration in range(_N_REWEIGHTINGS):
        if iteration:
            square = (differences - offset[:, None]) ** 2 / total_variance
            student_weight = (_STUDENT_FREEDOM + 1.0) / (_STUDENT_FREEDOM + square)
            precision = local_precision * np.minimum(1.0, student_weight)
            prior_weight = np.minimum(1.0, 2.0 / (1.0 + (offset / OFFSET) ** 2))
        total_precision = np.add.reduce(precision, axis=1) + prior_weight / OFFSET**2
        offset = np.add.reduce(precision * differences, axis=1) / total_precision
    deviation = 1.0 / np.sqrt(total_precision)
    return offset, np.minimum(deviation, np.maximum(OFFSET, np.abs(offset)))


def rank_code_lengths(predictions: FloatOrArray) -> Array:
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
    Theory G7. Ranks are those before any answer of the batch: ranks that depended on answers would
    change the union.

    Examples
    --------
    >>> from sklearn_bdp.accounting.spending import rank_code_lengths
    >>> rank_code_lengths([0.7, 0.9, 0.8]).round(2).tolist()
    [2.18, 0.39, 1.57]
    """
    predictions = np.asarray(predictions, dtype=float)
    m = predictions.size
    rank = np.empty(m)
    rank[np.argsort(-predictions, kind="stable")] = np.arange(1.0, m + 1.0)
    # The sum of 1/(r(r+1)(r+2)) up to m is 1/4 - 1/(2(m+1)(m+2)).
    total = 0.25 - 0.5 / ((m + 1.0) * (m + 2.0))
    falling_weight = 1.0 / (rank * (rank + 1.0) * (rank + 2.0)) / total
    return -np.log(_EVEN_WEIGHT / m + (1.0 - _EVEN_WEIGHT) * falling_weight)
