r"""Limits of ROC AUC of independent records that use the counts of both classes (theory G36).

Given the labels, the :math:`n_1` records of one class and the :math:`n_0` records of the other are
independent. Let :math:`P_i` be the placement of record :math:`i` of the first class: the fraction
of the other class whose scores are below its score, ties one half. Given the other class,
placements are independent with the mean :math:`a`, the AUC against exactly these :math:`n_0`
records. The unknown :math:`a` is itself a mean of :math:`n_0` independent numbers in [0, 1] with
the mean :math:`A`, the AUC, so that for every :math:`\lambda > 0`

.. math:: N_m(a) = \frac{e^{\lambda n_0 a}}{(1 - m + m e^\lambda)^{n_0}}

has an expectation of at most 1 for :math:`m \ge A` (Hoeffding 1963: the exponential is convex). For
:math:`b \ge a`, the wealth of a bet on the placements against the mean :math:`b` has an expectation
of at most 1. Together, :math:`N_m` and the wealth must reach :math:`1/\alpha`. An AUC :math:`m` is
rejected if every :math:`b` of a grid is: for the grid point next above :math:`a`, the product of
the wealth and of :math:`N_m` at the point before it has an expectation of at most 1. The larger the
other class, the nearer the limits are to those of a mean of :math:`n_1` placements, which vary less
than pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp, owens_t
from scipy.stats import rankdata

from sklearn_bdp._typing import Array
from sklearn_bdp.intervals.bounds import CAUTION, MAX_STAKE, PRIOR_UNITS
from sklearn_bdp.intervals.concentration import PairsTail, half_width_at
from sklearn_bdp.utils.validation import check_array, check_real

#: Weight of the constant 1 in the mixture with N: it bounds the wealth that any bet must reach.
_CONSTANT_WEIGHT = 0.05
#: The tilt lambda of N, relative to the one from a normal approximation of both sums.
_TILT = 0.8
#: Grid of AUCs, in standard deviations from the center: step, the distance up to which steps are
#: equal, and the factor by which distances grow beyond.
_STEP, _NEAR, _GROWTH = 0.1, 8.0, 1.1
#: Grid of conditional AUCs on each side of its center: first step in nats of N, growth factor of
#: steps, number of steps.
_INNER_STEP, _INNER_GROWTH, _N_INNER_STEPS = 0.05, 1.12, 60
#: Largest number of bets: more placements are averaged in blocks.
_MAX_BETS = 400
#: Smallest number of quantiles of placements between which an expected half-width interpolates.
_N_COMPUTED_QUANTILES = 1000
#: Distance of a planned AUC from 0 and 1.
_MIN_AUC = 1e-4
_BETS_PER_BLOCK = 16  # rejected points are dropped after each block of bets


class PlacementMoments(NamedTuple):
    """Predicted moments of placements, which determine the stakes of bets on them.

    Limits are valid for all predictions, and narrow if these are near the true moments.
    """

    center: float  # mean of the placements: the AUC
    variance: float  # variance of the placements


def binormal_moments(auc: float) -> PlacementMoments:
    r"""Return the moments of placements for normal scores of equal variance in both classes.

    They are the same for both classes: with :math:`h = \Phi^{-1}(A)`, two records of the other
    class are both below a record with probability :math:`\Phi(h) - 2 T(h, 1/\sqrt3)`, with Owen's
    function :math:`T`.

    Parameters
    ----------
    auc : float
        The AUC :math:`A`, in (0, 1).

    Returns
    -------
    PlacementMoments
        Its center is ``auc``.
    """
    quantile = float(ndtri(auc))
    mean_square = float(ndtr(quantile) - 2.0 * owens_t(quantile, 1.0 / math.sqrt(3.0)))
    return PlacementMoments(auc, max(0.0, mean_square - auc**2))


def placements(scores: Array, other_scores: Array) -> Array:
    """Return the fraction of the other scores below each score, ties one half.

    Parameters
    ----------
    scores, other_scores : ndarray of shape (n,) and (n_other,)
        Scores of the records of one class, and of those of the other; neither is empty.

    Returns
    -------
    ndarray of shape (n,)
        Placements in [0, 1].
    """
    ranks = rankdata(np.concatenate([scores, other_scores]))[: len(scores)]
    return (ranks - rankdata(scores)) / len(other_scores)


def placement_limits(
    values: Array, n_other: int, *, moments: PlacementMoments, log_inverse_alpha: float
) -> tuple[float, float]:
    r"""Return limits of the expected placement, which is the AUC for new records of both classes.

    Each of the two limits fails with probability at most ``exp(-log_inverse_alpha)`` given the
    labels.

    Parameters
    ----------
    values : array-like of shape (n,)
        Placements, in an order that does not depend on their values.
    n_other : int
        Number of records of the other class.
    moments : PlacementMoments
        From training records, or a guess.
    log_inverse_alpha : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    lower, upper : float
        In [0, 1].
    """
    values = check_array("values", values, low=0.0, high=1.0)
    # Means of blocks have the expectation of a placement, and there are at most _MAX_BETS.
    n_blocks = min(len(values), _MAX_BETS)
    block_codes = np.arange(len(values)) * n_blocks // len(values)
    block_sizes = np.bincount(block_codes)
    block_means = np.minimum(np.bincount(block_codes, values) / block_sizes, 1.0)
    nats_needed = check_real("log_inverse_alpha", log_inverse_alpha, low=0.0, closed="neither")
    center = min(max(moments.center, 0.01), 0.99)
    variance = max(moments.variance, 1e-4) / block_sizes.mean()  # of a block's mean
    lower = _lower_limit(block_means, n_other, center, variance, nats_needed)
    complement_lower = _lower_limit(1.0 - block_means, n_other, 1.0 - center, variance, nats_needed)
    return lower, 1.0 - complement_lower


def expected_half_width(
    n: int, n_other: int, *, moments: PlacementMoments, log_inverse_alpha: float
) -> float:
    """Return the half-width to expect from moments of the placements.

    Placements are simulated as the quantiles of a beta distribution with about these moments.

    Parameters
    ----------
    n, n_other : int
        Number of placements (records of one class), and of records of the other class.
    moments : PlacementMoments
        From training records, or a guess.
    log_inverse_alpha : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    float
        Half the distance of the limits of the AUC.
    """
    from scipy.stats import beta as beta_distribution

    center = min(max(moments.center, 0.01), 0.99)
    variance = min(max(moments.variance, 1e-4), 0.99 * center * (1.0 - center))
    parameter_sum = center * (1.0 - center) / variance - 1.0  # of both beta parameters
    probabilities = (np.arange(n) + 0.5) / n
    # Quantiles take long to compute: between many of them, the others are interpolated.
    computed_probabilities = probabilities[:: max(1, n // _N_COMPUTED_QUANTILES)]
    computed_quantiles = beta_distribution.ppf(
        computed_probabilities, center * parameter_sum, (1.0 - center) * parameter_sum
    )
    all_quantiles = np.interp(probabilities, computed_probabilities, computed_quantiles)
    simulated_placements = np.random.default_rng(0).permutation(np.clip(all_quantiles, 0.0, 1.0))
    lower, upper = placement_limits(
        simulated_placements, n_other, moments=moments, log_inverse_alpha=log_inverse_alpha
    )
    return 0.5 * (upper - lower)


def planned_half_width(
    class_counts: tuple[int, int], auc: float, log_one_sided: float, *, goal: float = math.inf
) -> float:
    """Return the half-width to expect for ROC AUC in a final report, from class counts.

    It is the smaller one of two half-widths: of limits from pairs of records (theory G12), and of
    limits from bets on placements of normal scores with equal variances.

    Parameters
    ----------
    class_counts : tuple of int
        Expected number of independent records of each of the two classes.
    auc : float
        Expected AUC, in [0, 1].
    log_one_sided : float
        Log of the failure probability of one side.
    goal : float, default=inf
        Half-width of interest. Bets, which take long, are simulated only if a normal approximation
        does not exceed it. Otherwise, a result above the goal may be too small.

    Returns
    -------
    float
        Half-width in [0, 1/2].
    """
    half_width_by_pairs = half_width_at(PairsTail(class_counts), auc, log_one_sided)
    moments = binormal_moments(min(max(auc, _MIN_AUC), 1.0 - _MIN_AUC))
    # Intervals by bets are hardly narrower than by a normal approximation.
    auc_deviation = math.sqrt(moments.variance * sum(1.0 / count for count in class_counts))
    normal_half_width = -auc_deviation * float(ndtri_exp(log_one_sided))
    if not normal_half_width <= goal:
        return min(half_width_by_pairs, normal_half_width)
    half_width_by_bets = expected_half_width(
        min(class_counts), max(class_counts), moments=moments, log_inverse_alpha=-log_one_sided
    )
    return min(half_width_by_pairs, half_width_by_bets)


def _lower_limit(values, n_other, center, variance, nats_needed):
    """Return a lower confidence limit of the AUC, in [0, 1).

    It is the largest AUC of an ascending grid up to which bets reject every AUC, or 0. ``values``
    are placements, or means of blocks of them, and ``center`` and ``variance`` their predicted mean
    and variance. ``n_other`` is the number of records of the other class, and ``nats_needed`` minus
    the log of the failure probability.
    """
    pair_variance = center * (1.0 - center)
    total_variance = variance / len(values) + pair_variance / n_other
    aucs = _auc_grid(center, math.sqrt(total_variance))
    # If an AUC m is barely rejected, the observed mean lies about a half-width above it. The AUC a
    # given the records of the other class is expected between them, by the ratio of variances.
    half_width = _TILT * math.sqrt(2.0 * nats_needed * total_variance)
    conditional_variances = aucs * (1.0 - aucs) / n_other
    variance_fractions = conditional_variances / (conditional_variances + variance / len(values))
    conditional_aucs = np.minimum(aucs + variance_fractions * half_width, 0.5 * (1.0 + aucs))
    # N = exp(tilt n a) / (1 - m + m exp(tilt))^n with n = n_other: the tilt that maximizes it at
    # the expected a, and the log of the denominator.
    tilts = np.log(conditional_aucs * (1.0 - aucs) / (aucs * (1.0 - conditional_aucs)))
    log_denominators = n_other * np.log1p(aucs * np.expm1(tilts))
    auc_indices, points, nats_to_win = _points_to_reject(
        conditional_aucs, tilts, log_denominators, n_other, nats_needed
    )
    remaining_positions = _not_rejected(values, points, nats_to_win, variance)
    is_rejected = np.ones(len(aucs), bool)
    is_rejected[auc_indices[remaining_positions]] = False
    n_rejected = int(np.argmin(np.append(is_rejected, False)))  # before the first that is not
    return float(aucs[n_rejected - 1]) if n_rejected else 0.0


def _auc_grid(center, deviation):
    """Return an ascending grid of AUCs inside (0, 1) around the predicted AUC ``center``.

    ``deviation`` is the standard error of an estimated AUC.
    """
    even_distances = deviation * np.arange(0.0, _NEAR, _STEP)
    n_steps = max(0.0, math.log(1.0 / even_distances[-1]) / math.log(_GROWTH))
    growing_distances = even_distances[-1] * _GROWTH ** np.arange(1.0, n_steps + 1.0)
    distances = np.concatenate([even_distances, growing_distances])
    aucs = np.concatenate([center - distances[:0:-1], center + distances])
    return aucs[(aucs > 1e-6) & (aucs < 1.0 - 1e-6)]


def _points_to_reject(conditional_aucs, tilts, log_denominators, n_other, nats_needed):
    """Return the conditional AUCs b that bets must reject to reject each AUC m of a grid.

    A conditional AUC is the AUC given the ``n_other`` records of the other class. The first three
    arguments have one entry for each AUC m: the center of its points b, and the ``tilt`` and the
    log of the denominator of N(b) = exp(tilt n_other b) / (1 - m + m exp(tilt))^n_other. To reject
    b, the log wealth of bets must reach ``nats_needed`` minus the log of a mixture of a constant
    and N at the next smaller point. Points end where N alone rejects m, or at 1.

    Returns
    -------
    auc_indices : ndarray of int, shape (n_points,)
        Position of the AUC m that each point belongs to.
    points : ndarray of shape (n_points,)
        The conditional AUCs b.
    nats_to_win : ndarray of shape (n_points,)
        Log wealth that bets against each point must reach; infinite at 1.
    """
    auc_indices = []
    points = []
    nats_to_win = []
    log_weight = math.log1p(-_CONSTANT_WEIGHT)
    log_constant_weight = math.log(_CONSTANT_WEIGHT)
    for index, (conditional_auc, tilt, log_denominator) in enumerate(
        zip(conditional_aucs, tilts, log_denominators, strict=True)
    ):
        log_n_slope = tilt * n_other
        steps = _INNER_STEP / log_n_slope * _INNER_GROWTH ** np.arange(_N_INNER_STEPS)
        distances = np.cumsum(steps)
        # N alone rejects the AUC from this point on.
        first_rejected_point = (nats_needed - log_weight + log_denominator) / log_n_slope
        last_point = min(1.0, first_rejected_point)
        grid = np.concatenate(
            [
                conditional_auc - distances,
                [conditional_auc],
                conditional_auc + distances,
                [0.0, last_point],
            ]
        )
        grid = np.unique(grid[(grid >= 0.0) & (grid <= last_point)])
        log_n = log_n_slope * grid[:-1] - log_denominator  # at the next smaller point
        log_mixture = np.logaddexp(log_weight + log_n, log_constant_weight)
        auc_indices.append(np.full(len(grid) - 1, index))
        points.append(grid[1:])
        nats_to_win.append(nats_needed - log_mixture)
        if last_point >= 1.0:  # no bet rejects a mean of 1
            nats_to_win[-1][-1] = math.inf
    return np.concatenate(auc_indices), np.concatenate(points), np.concatenate(nats_to_win)


def _not_rejected(values, points, nats_to_win, variance):
    """Return the positions of the points that bets on the values do not reject (theory G28).

    Bets against a point win if the values exceed it on average. A point is rejected if the log
    wealth of the bets against it reaches its entry in ``nats_to_win``. ``variance`` is the
    predicted variance of the values.
    """
    remaining_positions = np.arange(len(points))
    sums_of_squares = np.full(len(points), PRIOR_UNITS * variance)
    max_stakes = MAX_STAKE / points
    for n_past_bets, value in enumerate(values):
        deviations = value - points
        mean_squares = sums_of_squares / (PRIOR_UNITS + n_past_bets)
        n_future_bets = len(values) - n_past_bets  # including this one
        variance_to_come = mean_squares * n_future_bets  # of the sum of their deviations
        best_stakes = CAUTION * np.sqrt(2.0 * np.maximum(nats_to_win, 0.0) / variance_to_come)
        stakes = np.minimum(best_stakes, max_stakes)
        # Rejected points have 0 nats left and stake nothing more.
        nats_to_win = np.where(nats_to_win > 0.0, nats_to_win - np.log1p(stakes * deviations), 0.0)
        sums_of_squares = sums_of_squares + deviations**2
        if n_past_bets % _BETS_PER_BLOCK == _BETS_PER_BLOCK - 1:
            is_remaining = nats_to_win > 0.0
            remaining_positions = remaining_positions[is_remaining]
            points = points[is_remaining]
            nats_to_win = nats_to_win[is_remaining]
            sums_of_squares = sums_of_squares[is_remaining]
            max_stakes = max_stakes[is_remaining]
    return remaining_positions[nats_to_win > 0.0]
