"""Code lengths of answers, and spending of failure probability (theory G2′, G7, G14, G16).

A code length, in nats, is the negative log of a weight. Code lengths obey Kraft's inequality: the
weights of all queries that the analyst could have made sum to at most 1, so they are weights of a
union bound (theory G2′). The next holdout score is predicted from the
cross-validated score and from earlier releases. A mixture of distributions over scales and tails
around that prediction assigns a code length to each cell that may be released. Functions of this
module read no data: they depend on public quantities and on released results only.
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

# Prior counts of complaints and checks of the holdout (theory G21): 20 checks without a complaint
# cost 0.18 nats in all, a complaint at the first check about 3 and the log of the number of
# findings. A larger prior count of complaints makes checks without a complaint more expensive.
_PRIOR_COMPLAINTS = 0.05
_PRIOR_CHECKS = 1.05
#: Number of ways in which a report may not finish: an interrupt, an error, a process that died.
_N_UNFINISHED_ENDS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpendingPolicy:
    """Rule of spending failure probability over batches of queries and a final report.

    The weights of all batches and of the report sum to at most 1 for any ``batch_offset > 0`` and
    any ``reserve`` in [0, 1].
    """

    #: a of the weights of batches. A larger one makes the first batch more expensive and late ones
    #: cheaper: without a reserve, with 3 the first pays ln 4 and the tenth ln 52 nats, with 1 they
    #: pay ln 2 and ln 110.
    batch_offset: float
    #: Fraction of the failure probability that only a final report may use (theory G17, amended).
    reserve: float
    #: Whether interim queries are as coarse as planned widths allow (``FinalWidthPolicy`` of
    #: :mod:`sklearn_bdp.release.graded_release`).
    coarse: bool
    #: Description in certificates.
    description: str


#: Policies by the name that ``spending`` accepts. The final report is the number that users
#: publish: interim intervals of "final" pay ln 10 nats for the reserve.
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

    ``"final"`` reserves nine tenths of it for the final report and makes interim queries coarse,
    similar to O'Brien-Fleming boundaries of sequential trials. ``"even"`` reserves nothing, similar
    to Pocock boundaries. ``n_searches``, the expected number of batches, is a hint: for any value
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
        """Spending policy ``name``."""
        return SPENDING_POLICIES[self.name]

    def batch_weight(self, t: int) -> float:
        """Return the weight of batch ``t = 1, 2, ...``: its fraction of the failure probability."""
        a = self._batch_offset
        return (1.0 - self.policy.reserve) * a / ((t + a - 1.0) * (t + a))

    def report_weight(self, n_batches: int) -> float:
        """Return the weight of a final report after ``n_batches`` batches.

        A holdout gives one report at most, so that this is 1 minus the weights of the batches
        before it.
        """
        a = self._batch_offset
        reserve = self.policy.reserve
        # The weights of batches telescope: those after batch T sum to (1 - reserve) a / (T + a).
        return reserve + (1.0 - reserve) * a / (n_batches + a)

    @property
    def _batch_offset(self):
        return max(self.policy.batch_offset, float(self.n_searches or 0))


def code_length(
    *, released: float, batch_index: int, spending: AlphaSpending = AlphaSpending()
) -> float:
    r"""Return the code length that all queries of the next batch share, in nats.

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = (1 - \rho) \frac{a}{(t+a-1)(t+a)},

    for batch :math:`t = 1, 2, \dots`, with :math:`a = 1` (``"even"``: 3), or ``n_searches`` if it
    is larger, and the fraction :math:`\rho` that ``spending`` reserves for the final report. The
    code length of each query's rank in the batch (:func:`rank_code_lengths`) is added. The weights
    :math:`e^{-\ell}` of all possible queries then sum to at most 1.

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
        Code length. ``holdout.next_code_length`` is that of the next batch of a holdout with
        ``holdout.information_spent`` as ``released``, plus ln 2 if its leakage is bounded.

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
    batch_index = check_integer("batch_index", batch_index, low=1)
    return released_nats - math.log(spending.batch_weight(batch_index))


def outcome_code_length(
    *, n_checks: int, n_complaints: int, complaint: bool, n_findings: int
) -> float:
    r"""Return the code length of the outcome of one holdout check, in nats (theory G21).

    After ``n_complaints`` = ``j`` complaints in ``n_checks`` = ``i`` earlier checks, the predicted
    probability of a complaint is :math:`p = (j + .05)/(i + 1.05)`. A complaint names one of
    ``n_findings`` = ``W`` findings. The code length is :math:`-\ln p + \ln W` with a complaint and
    :math:`-\ln(1 - p)` without.
    """
    probability = (n_complaints + _PRIOR_COMPLAINTS) / (n_checks + _PRIOR_CHECKS)
    if complaint:
        return math.log(n_findings) - math.log(probability)
    return -math.log1p(-probability)


def report_attempt_length(*, n_earlier: int, finished: bool) -> float:
    r"""Return the code length of the end of an attempt at a final report, in nats (theory G35).

    The report finishes, or it is interrupted, raises an error or dies with its process. The length
    is that of a check (:func:`outcome_code_length`) after ``n_earlier`` attempts of which none
    finished.
    """
    return outcome_code_length(
        n_checks=n_earlier,
        n_complaints=n_earlier,
        complaint=not finished,
        n_findings=_N_UNFINISHED_ENDS,
    )


def final_code_length(
    *, released: float, n_batches: int, spending: AlphaSpending = AlphaSpending()
) -> float:
    """Return the code length of a final report after ``n_batches`` batches, in nats (theory G16).

    ``released`` is the code length of all earlier releases. The statements of a report share this
    length, and each adds one of its own.
    """
    released_nats = check_real("released", released, low=0.0)
    n_batches = check_integer("n_batches", n_batches, low=0)
    return released_nats - math.log(spending.report_weight(n_batches))


def leakage_code_length(*, information: float, failure: float) -> float:
    r"""Return the code length of all releases under one DP level, in nats (theory G1, G9).

    If the noise of a holdout meets one DP level for its whole life, the answers need not be coded.
    All of them together have the length

    .. math:: (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta)

    as ``released`` of :func:`code_length` and :func:`final_code_length`. ``failure`` =
    :math:`\beta` is the failure probability of sampling, and ``information`` = K, in nats, is
    ``sequential_information(model, dp_epsilon, n)`` at that level.
    """
    information = check_real("information", information, low=0.0)
    log_inverse_failure = -math.log(check_probability("failure", failure))
    # (√K + √s)² − s, expanded: no cancellation.
    return information + 2.0 * math.sqrt(information * log_inverse_failure)


# -- The predictive code ---------------------------------------------------------------------------

# Theory G7, G17. The predictive distribution of a holdout score about its cross-validated score is
# a mixture. Each component has a scale of the score's own standard deviation, a scale of that of
# the offset that all queries share, and a weight of heavy tails. The numbers were chosen by
# ``benchmarks/simulate_year.py``.
SCORE_SCALES = np.array([0.25, 0.5, 1.0, 1.7, 3.0])
# An error is rarely several deviations.
SCORE_SCALES_PRIOR = np.array([0.15, 0.4, 0.4, 0.03, 0.01]) / 0.99
OFFSET_SCALES = np.array([0.1, 1.0, 1.5])
OFFSET_SCALES_PRIOR = np.array([0.5, 0.47, 0.03])  # first answers that agree make it narrower
# Before the first release, components are centered below the prediction by these multiples of the
# deviation of the offset: cross-validation is optimistic.
OFFSET_SHIFTS = np.array([0.0, 0.4, 0.0])
TAIL_WEIGHTS = np.array([1e-4, 0.05])
TAIL_WEIGHTS_PRIOR = np.array([0.95, 0.05])
_SHAPE = (SCORE_SCALES.size, OFFSET_SCALES.size, TAIL_WEIGHTS.size)  # of the components
_SQUARED_SCORE_SCALES = SCORE_SCALES[:, None, None] ** 2
_SQUARED_OFFSET_SCALES = OFFSET_SCALES[:, None] ** 2
# Prior deviation of the common offset between cross-validated and holdout scores.
OFFSET_DEVIATION = 0.04
# Scale of the distances of cross-validated scores that share their offset (G14).
BANDWIDTH = 0.12
# Number of latest released pairs that are used.
MAX_PAIRS = 64

_GRID = np.linspace(0.0, 1.0, 129)  # cross-validated scores at which the offset is computed
_MAX_LOCAL = 16  # for at most this many scores, only adjacent grid points are computed
_STUDENT_FREEDOM = 4.0  # degrees of freedom of the weights of released pairs
_N_REWEIGHTINGS = 4
_VARIANCE_GROWTH = 0.05  # relative growth of a pair's variance with each later batch
# The offset is a random walk with one step per batch: prior variance of a step, its weight in
# batches, decay of earlier steps, and largest squared surprise (benchmarks.simulate_year,
# compare_guarantees).
_PRIOR_STEP_VARIANCE = 0.0012**2
_PRIOR_STEPS = 4.0
_STEP_DECAY = 0.8
_MAX_SQUARED_SURPRISE = 0.015**2
_MAX_DISTANCE = 1.5  # bandwidths beyond which a pair has no influence
_EVEN_WEIGHT = 0.15  # fraction of the weights of ranks that is spread evenly; the rest falls
# Upper limits of the spread are tried in turn. Prior probability (with the weight of one query)
# that the first limit is too low, and probability that each further limit is.
_LIMIT_SURPRISE = 0.05
_FURTHER_LIMIT_SURPRISE = 0.3
#: The same as the first one if the last limit was not the lowest.
_SURPRISE_OF_RAISED_LIMIT = 0.1


class ReleasedPair(NamedTuple):
    """A cross-validated score, and the difference of the middle of its released range from it."""

    cv_score: float
    difference: float  # middle of the released range minus cv_score
    variance: float  # of the difference about the offset shared by all queries
    batch_index: float  # from 1


@dataclasses.dataclass(eq=False, repr=False)
class PredictiveCode:
    """Predictive distribution of the next released score, whose negative log is a code length.

    It is a Bayes mixture around predictions from public numbers: theory G7 (any public distribution
    is valid) and G14 (predictions are robust).

    Parameters
    ----------
    log_weights : array of shape (n_components,), optional
        Log weights of the components; None: the prior.
    pairs : list of ReleasedPair
        Pairs of earlier releases.
    ceiling : float
        Largest cross-validated or released score so far.
    n_fine : int
        Number of queries so far that were answered with fine cells, not coarse ones.
    n_batches : int
        Number of batches so far.
    steps : tuple of float
        Sum and number of the values of :meth:`observe_surprise`, both with exponential decay.
    spreads : dict
        For each metric of :meth:`charge_limit`, by name: the number of the upper limit that was
        last high enough, or of the highest; the number of queries since a limit other than the
        first one tried was high enough; and the number of those whose first limit was high enough.

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
            prior = np.multiply.outer(
                np.outer(SCORE_SCALES_PRIOR, OFFSET_SCALES_PRIOR), TAIL_WEIGHTS_PRIOR
            )
            self.log_weights = np.log(prior.ravel())
        self.log_weights = check_array("log_weights", self.log_weights, shape=(math.prod(_SHAPE),))
        self.pairs = [ReleasedPair(*map(float, pair)) for pair in self.pairs]
        self.steps = tuple(map(float, self.steps))
        # Cache of `predict`: bytes of the scores that it is for (None: any scores), the grid, and
        # the offsets and their deviations on it.
        self._curves: Any = None

    def state(self, *, n_omitted_pairs: int = 0) -> dict[str, Any]:
        """Return the arguments of the class that rebuild this code, ready for JSON.

        The first ``n_omitted_pairs`` entries of ``pairs`` are left out, for states that add to an
        earlier one.
        """
        state = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        state["pairs"] = [list(pair) for pair in self.pairs[n_omitted_pairs:]]
        state["log_weights"] = self.log_weights.tolist()
        state["steps"] = list(self.steps)
        return state

    def update_from_state(self, state: dict[str, Any]) -> None:
        """Replace this code by that of a later ``state``, with the latest 64 pairs of both."""
        later_code = PredictiveCode(**state)
        later_code.pairs = [*self.pairs, *later_code.pairs][-MAX_PAIRS:]
        vars(self).update(vars(later_code))

    def copy(self) -> PredictiveCode:
        """Return an independent copy, with the latest 64 pairs."""
        duplicate = copy.copy(self)
        duplicate.pairs = self.pairs[-MAX_PAIRS:]  # the only value that is changed in place
        return duplicate

    # -- Predictions ------------------------------------------------------------------------------

    def start_batch(self) -> None:
        """Count another batch, so that all pairs are one batch older."""
        self.n_batches += 1
        self._curves = None

    def observe_surprise(self, excess_square: float) -> None:
        """Record the excess of a batch leader's squared error over twice its expected value.

        ``excess_square``, in squared units of [0, 1], is 0 if the error does not exceed that, or if
        the answer was "below".
        """
        decayed_sum, decayed_number = self.steps
        # Theory G14: one outlier does not move the offset of all other scores.
        excess_square = min(excess_square, _MAX_SQUARED_SURPRISE)
        self.steps = (_STEP_DECAY * decayed_sum + excess_square, _STEP_DECAY * decayed_number + 1.0)
        self._curves = None

    def observe_cv_scores(self, cv_scores: FloatOrArray) -> None:
        """Raise ``ceiling`` to the largest cross-validated score of a batch if it is higher."""
        self.ceiling = max(self.ceiling, float(np.max(cv_scores)))

    def learn(self, cv_score, released_value, variance, *, replaced_pair=None):
        """Learn from a released value; return the index of its :class:`ReleasedPair` in ``pairs``.

        ``released_value`` is the middle of the released range, and ``variance`` that of its
        difference from ``cv_score`` about the offset shared by all queries. ``replaced_pair`` is
        the index of an earlier pair of the same query, which this replaces; None without one.
        """
        difference = float(released_value - cv_score)
        pair = ReleasedPair(float(cv_score), difference, float(variance), float(self.n_batches))
        self.ceiling = max(self.ceiling, float(released_value))
        self._curves = None
        if replaced_pair is not None:
            self.pairs[replaced_pair] = pair
            return replaced_pair
        self.pairs.append(pair)
        return len(self.pairs) - 1

    def predict(self, cv_scores: Array) -> tuple[Array, Array]:
        """Return predictions of holdout scores, and standard deviations of the offsets in them.

        A prediction is the cross-validated score plus an offset, clipped to [0, ``ceiling``]. Both
        arrays have the shape (k,) and the units of ``cv_scores``, which are in [0, 1].
        """
        scores = np.asarray(cv_scores, dtype=float)
        if not self.pairs:
            return np.minimum(scores, self.ceiling), np.full(scores.shape, OFFSET_DEVIATION)
        score_bytes = None if scores.size > _MAX_LOCAL else scores.tobytes()  # None: the full grid
        is_cached = self._curves is not None and self._curves[0] in (None, score_bytes)
        if not is_cached:
            grid = _GRID
            if score_bytes is not None:
                left_indices = np.minimum((scores * (_GRID.size - 1)).astype(int), _GRID.size - 2)
                grid = _GRID[sorted({*left_indices.tolist(), *(left_indices + 1).tolist()})]
            self._curves = score_bytes, grid, *_offset_curves(self._aged_pairs(), grid)
        _, grid, offsets, deviations = self._curves
        # Theory G14: no prediction exceeds the cross-validated and released scores.
        predictions = scores + np.interp(scores, grid, offsets)
        predictions = np.minimum(np.maximum(predictions, 0.0), self.ceiling)
        return predictions, np.interp(scores, grid, deviations)

    def _aged_pairs(self):
        """Return cross-validated scores, differences and current variances of the latest pairs.

        These are three arrays of shape (n_pairs,). The variance of a pair grows with its age in
        batches, because the offset moves.
        """
        fields = itertools.chain.from_iterable(self.pairs[-MAX_PAIRS:])
        cv_scores, differences, variances, batch_indices = (
            np.fromiter(fields, float).reshape(-1, 4).T
        )
        ages = self.n_batches - batch_indices  # in batches
        decayed_sum, decayed_number = self.steps
        step_variance = (_PRIOR_STEPS * _PRIOR_STEP_VARIANCE + decayed_sum) / (
            _PRIOR_STEPS + decayed_number
        )
        variances = variances * (1.0 + _VARIANCE_GROWTH * ages) + step_variance * ages
        return cv_scores, differences, variances

    def scales(self) -> tuple[float, float]:
        """Return the root mean squares of two scales over the components of the mixture.

        They are the factors of the standard deviation of a score, and of that of the common offset.
        """
        weights = np.exp(self.log_weights).reshape(_SHAPE)
        mean_square_score_scale = weights.sum(axis=(1, 2)) @ SCORE_SCALES**2
        mean_square_offset_scale = weights.sum(axis=(0, 2)) @ OFFSET_SCALES**2
        return math.sqrt(mean_square_score_scale), math.sqrt(mean_square_offset_scale)

    # -- Code lengths -----------------------------------------------------------------------------

    def masses(self, low, high, centers, score_deviations, offset_deviations, *, tail_factor=1.0):
        """Return the probability of m intervals under each component, of shape (n_components, m).

        Parameters are arrays of shape (m,) or numbers: the ends ``low`` and ``high`` of intervals,
        which may be infinite, the predicted scores ``centers``, and the standard deviations of
        scores and of the common offset. ``tail_factor`` multiplies the weights of heavy tails.
        """
        low, high, centers = np.atleast_1d(low, high, centers)
        score_variances = _SQUARED_SCORE_SCALES * np.square(score_deviations)
        offset_variances = _SQUARED_OFFSET_SCALES * np.square(offset_deviations)
        deviations = np.sqrt(score_variances + offset_variances)
        if not self.pairs:
            centers = centers - OFFSET_SHIFTS[:, None] * np.asarray(offset_deviations, float)
        z_low = (low - centers) / deviations
        z_high = (high - centers) / deviations
        # Above the center: differences of small upper tails, not of numbers near 1.
        is_above = z_low > 0.0
        larger_probability = ndtr(np.where(is_above, -z_low, z_high))
        normal_mass = larger_probability - ndtr(np.where(is_above, -z_high, z_low))
        cauchy_mass = (np.arctan(z_high) - np.arctan(z_low)) / math.pi
        uniform_mass = np.minimum(high, 1.0) - np.maximum(low, 0.0)
        heavy_mass = 0.5 * np.maximum(cauchy_mass, 0.0) + 0.5 * np.maximum(uniform_mass, 0.0)
        tail_weights = tail_factor * TAIL_WEIGHTS[:, None]
        weighted_normal_mass = (1.0 - tail_weights) * normal_mass[:, :, None]
        masses = weighted_normal_mass + tail_weights * heavy_mass[:, :, None]
        return masses.reshape(math.prod(_SHAPE), -1)

    def first_limit(self, metric: str) -> int:
        """Return the number of the upper limit to try first for the spread of a metric's scores.

        It is the one that was high enough for the last query, or the highest if none was; 0 before
        any query.
        """
        last_limit, _, _ = self.spreads.get(metric, [0, 0, 0])
        return last_limit

    def charge_limit(
        self, metric: str, limit: int | None, n_limits: int, *, first_limit: int = 0
    ) -> float:
        """Record which upper limit of the spread was high enough; return its code length.

        The code length is in nats. Limits are numbered from 0 in ascending order and tried from
        ``first_limit`` or, if it is larger, ``self.first_limit(metric)`` on. ``limit`` is the
        number of the one that was high enough, None if none of the ``n_limits`` was. The
        probability that the first one tried is high enough is learned from earlier queries.
        """
        last_limit, n_queries, n_first_sufficed = self.spreads.get(metric, [0, 0, 0])
        first_tried = max(first_limit, last_limit)
        prior_surprise = _LIMIT_SURPRISE if last_limit == 0 else _SURPRISE_OF_RAISED_LIMIT
        probability = (n_first_sufficed + 1.0 - prior_surprise) / (n_queries + 1.0)
        if limit == first_tried:
            counts = [n_queries + 1, n_first_sufficed + 1]
        else:
            n_too_low = (n_limits if limit is None else limit) - first_tried
            probability = (1.0 - probability) * _FURTHER_LIMIT_SURPRISE ** (n_too_low - 1)
            counts = [n_queries + 1, n_first_sufficed]
            if limit is not None:
                probability *= 1.0 - _FURTHER_LIMIT_SURPRISE
                counts = [0, 0]  # the holdout has shown that this limit is high enough
        last_limit = n_limits - 1 if limit is None else limit
        self.spreads = self.spreads | {metric: [last_limit, *counts]}
        return -math.log(probability)

    def charge(self, log_masses: Array) -> float:
        """Update the mixture by releases; return their code length in nats.

        ``log_masses`` has the log probability of each released interval under each component, shape
        (n_components, n_releases).
        """
        log_joint = self.log_weights + log_masses.sum(axis=1)
        log_evidence = float(np.logaddexp.reduce(log_joint))
        self.log_weights = log_joint - log_evidence
        return max(0.0, -log_evidence)


def _offset_curves(pair_columns, grid):
    """Return the offset and its standard deviation at each point of a grid of scores.

    Scores are cross-validated ones, offsets are holdout scores minus these. ``pair_columns`` are
    cross-validated scores, differences and variances of released pairs. The offset is a local mean
    of the differences. Pairs with near scores have large weights, and differences that the others
    contradict have small weights (Student's weights, theory G14).
    """
    cv_scores, differences, variances = pair_columns
    # Matrices have one row per grid point and one column per pair.
    distances = np.abs(grid[:, None] - cv_scores) / BANDWIDTH  # in bandwidths
    # A difference at a distant score is imprecise for the offset, even if it is precise at its own.
    variance_factors = np.exp(np.square(np.square(np.square(np.minimum(distances, _MAX_DISTANCE)))))
    total_variances = variance_factors * (variances + OFFSET_DEVIATION**2)
    local_precisions = (distances <= _MAX_DISTANCE) / (total_variances - OFFSET_DEVIATION**2)
    # The prior is one more difference, of 0, with a weight of its own.
    precisions = local_precisions
    prior_weights = np.full(len(grid), 0.01)
    offsets = np.zeros(len(grid))
    for iteration in range(_N_REWEIGHTINGS):
        if iteration:
            squared_residuals = (differences - offsets[:, None]) ** 2 / total_variances
            student_weights = (_STUDENT_FREEDOM + 1.0) / (_STUDENT_FREEDOM + squared_residuals)
            precisions = local_precisions * np.minimum(1.0, student_weights)
            prior_weights = np.minimum(1.0, 2.0 / (1.0 + (offsets / OFFSET_DEVIATION) ** 2))
        total_precisions = np.add.reduce(precisions, axis=1) + prior_weights / OFFSET_DEVIATION**2
        offsets = np.add.reduce(precisions * differences, axis=1) / total_precisions
    deviations = 1.0 / np.sqrt(total_precisions)
    return offsets, np.minimum(deviations, np.maximum(OFFSET_DEVIATION, np.abs(offsets)))


def rank_code_lengths(predictions: FloatOrArray) -> Array:
    r"""Return the code length of each public rank in a batch.

    .. math:: w_r = \frac{0.15}{m} + 0.85 \frac{c_m}{r(r+1)(r+2)}

    with the :math:`c_m` by which the weights sum to 1. The leader pays at most 0.6 nats, the
    second at most 2, and no rank more than ``1.9 + ln m``.

    Parameters
    ----------
    predictions : array of shape (m,)
        Predicted scores at the start of the batch, or numbers in the same order. The rank of the
        largest is 1.

    Returns
    -------
    ndarray of shape (m,)
        :math:`-\ln w_r` in nats for each query, in the order of ``predictions``.

    References
    ----------
    Theory G7.

    Examples
    --------
    >>> from sklearn_bdp.accounting.spending import rank_code_lengths
    >>> rank_code_lengths([0.7, 0.9, 0.8]).round(2).tolist()
    [2.18, 0.39, 1.57]
    """
    predictions = np.asarray(predictions, dtype=float)
    m = predictions.size
    ranks = np.empty(m)  # from 1
    ranks[np.argsort(-predictions, kind="stable")] = np.arange(1.0, m + 1.0)
    # The sum of 1/(r(r+1)(r+2)) up to m is 1/4 - 1/(2(m+1)(m+2)).
    total_weight = 0.25 - 0.5 / ((m + 1.0) * (m + 2.0))
    falling_weights = 1.0 / (ranks * (ranks + 1.0) * (ranks + 2.0)) / total_weight
    return -np.log(_EVEN_WEIGHT / m + (1.0 - _EVEN_WEIGHT) * falling_weights)
