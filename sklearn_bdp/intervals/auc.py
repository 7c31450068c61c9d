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
    """Moments of placements, which determine stakes.

    Limits are valid for all values, and narrow if they are near the true ones.
    """

    center: float  # mean of the placements: the AUC
    variance: float  # variance of the placements


def binormal_moments(auc: float) -> PlacementMoments:
    r"""Return the moments of placements for normal scores of equal variance in both classes.

    They are the same for both classes: with :math:`h = \Phi^{-1}(A)`, two records of the other
    class are both below a record with probability :math:`\Phi(h) - 2 T(h, 1/\sqrt3)`, Owen's
    function :math:`T`.

    Parameters
    ----------
    auc : float
        The AUC, in (0, 1).

    Returns
    -------
    PlacementMoments
        Its center is ``auc``.
    """
    quantile = float(ndtri(auc))
    both_below = float(ndtr(quantile) - 2.0 * owens_t(quantile, 1.0 / math.sqrt(3.0)))
    return PlacementMoments(auc, max(0.0, both_below - auc**2))


def placements(scores: Array, other_scores: Array) -> Array:
    """Return the fraction of the other scores below each score, ties one half.

    Parameters
    ----------
    scores, other_scores : ndarray of shape (n,) and (n_other,)
        Scores of both classes; neither is empty.

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
    r"""Return limits of the expected placement: of the AUC for new records of both classes.

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
    values = np.minimum(np.bincount(block_codes, values) / block_sizes, 1.0)
    nats_needed = check_real("log_inverse_alpha", log_inverse_alpha, low=0.0, closed="neither")
    center = min(max(moments.center, 0.01), 0.99)
    variance = max(moments.variance, 1e-4) / block_sizes.mean()
    lower = _lower_limit(values, n_other, center, variance, nats_needed)
    return lower, 1.0 - _lower_limit(1.0 - values, n_other, 1.0 - center, variance, nats_needed)


def expected_half_width(
    n: int, n_other: int, *, moments: PlacementMoments, log_inverse_alpha: float
) -> float:
    """Return the half-width to expect from moments of the placements.

    Placements are taken to be the quantiles of a beta distribution with about these moments.

    Parameters
    ----------
    n, n_other : int
        Number of placements (records of one class), and of records of the other class.
    moments : PlacementMoments
        From training records, or a guess.
    log_inverse_alpha : float
        As for :func:`placement_limits`.

    Returns
    -------
    float
        Half the distance of the limits.
    """
    from scipy.stats import beta as beta_distribution

    center = min(max(moments.center, 0.01), 0.99)
    variance = min(max(moments.variance, 1e-4), 0.99 * center * (1.0 - center))
    parameter_sum = center * (1.0 - center) / variance - 1.0  # of both beta parameters
    probabilities = (np.arange(n) + 0.5) / n
    # Quantiles take long to compute: between many of them, the others are interpolated.
    computed_at = probabilities[:: max(1, n // _N_COMPUTED_QUANTILES)]
    quantiles = beta_distribution.ppf(
        computed_at, center * parameter_sum, (1.0 - center) * parameter_sum
    )
    values = np.interp(probabilities, computed_at, quantiles)
    values = np.random.default_rng(0).permutation(np.clip(values, 0.0, 1.0))
    lower, upper = placement_limits(
        values, n_other, moments=moments, log_inverse_alpha=log_inverse_alpha
    )
    return 0.5 * (upper - lower)


def planned_half_width(
    class_counts: tuple[int, int], auc: float, log_one_sided: float, *, goal: float = math.inf
) -> float:
    """Return the half-width of a report on ROC AUC to expect from the AUC alone.

    It is the smaller one of that by pairs (theory G12) and of that by bets on placements of normal
    scores with equal variances.

    Parameters
    ----------
    class_counts : tuple of int
        Expected number of independent records of either class.
    auc : float
        Expected AUC, in [0, 1].
    log_one_sided : float
        Log of the failure probability of one side.
    goal : float, default=inf
        Bets, which take long, are simulated only if a normal approximation is below it. A result
        above the goal may be too small otherwise.

    Returns
    -------
    float
        In [0, 1/2].
    """
    half_width_by_pairs = half_width_at(PairsTail(class_counts), auc, log_one_sided)
    moments = binormal_moments(min(max(auc, _MIN_AUC), 1.0 - _MIN_AUC))
    # Bets are hardly narrower than a normal approximation.
    deviation = math.sqrt(moments.variance * sum(1.0 / count for count in class_counts))
    half_width_by_bets = -deviation * float(ndtri_exp(log_one_sided))
    if half_width_by_bets <= goal:
        half_width_by_bets = expected_half_width(
            min(class_counts), max(class_counts), moments=moments, log_inverse_alpha=-log_one_sided
        )
    return min(half_width_by_pairs, half_width_by_bets)


def _lower_limit(values, n_other, center, variance, nats_needed):
    """Return the last AUC of a grid before the first that is not rejected, or 0.

    ``center`` and ``variance`` are the predicted mean and variance of the placements ``values``,
    ``nats_needed`` is minus the log of the failure probability.
    """
    pair_variance = center * (1.0 - center)
    total_variance = variance / len(values) + pair_variance / n_other
    aucs = _auc_grid(center, math.sqrt(total_variance))
    # If an AUC m is barely rejected, the observed mean lies about a half-width above it. The
    # conditional AUC a is expected between them, by the proportion of both variances.
    half_width = _TILT * math.sqrt(2.0 * nats_needed * total_variance)
    other_variance = aucs * (1.0 - aucs) / n_other
    variance_fraction = other_variance / (other_variance + variance / len(values))
    conditional_aucs = np.minimum(aucs + variance_fraction * half_width, 0.5 * (1.0 + aucs))
    # The tilt lambda that maximizes N at this conditional AUC, and the log of N's denominator.
    tilts = np.log(conditional_aucs * (1.0 - aucs) / (aucs * (1.0 - conditional_aucs)))
    log_denominators = n_other * np.log1p(aucs * np.expm1(tilts))
    auc_index, points, nats_to_win = _points_to_reject(
        conditional_aucs, tilts, log_denominators, n_other, nats_needed
    )
    not_rejected = _not_rejected(values, points, nats_to_win, variance)
    is_rejected = np.ones(len(aucs), bool)
    is_rejected[auc_index[not_rejected]] = False
    n_rejected = int(np.argmin(np.append(is_rejected, False)))
    return float(aucs[n_rejected - 1]) if n_rejected else 0.0


def _auc_grid(center, deviation):
    """Return the AUCs that are tried, ascending inside (0, 1).

    ``center`` is the predicted AUC, ``deviation`` the standard deviation of its estimate.
    """
    even_distances = deviation * np.arange(0.0, _NEAR, _STEP)
    n_steps = max(0.0, math.log(1.0 / even_distances[-1]) / math.log(_GROWTH))
    growing_distances = even_distances[-1] * _GROWTH ** np.arange(1.0, n_steps + 1.0)
    distances = np.concatenate([even_distances, growing_distances])
    points = np.concatenate([center - distances[:0:-1], center + distances])
    return points[(points > 1e-6) & (points < 1.0 - 1e-6)]


def _points_to_reject(conditional_aucs, tilts, log_denominators, n_other, nats_needed):
    """Return the conditional AUCs b that bets must reject to reject each AUC m of the grid.

    The first three arguments have one entry for each AUC m: the center of its grid of points b,
    the tilt of its N and the log of N's denominator. A point must win the nats that N (mixed with
    a constant) at the next smaller point lacks. The grid ends where N alone rejects, or at 1, which
    no bet rejects.

    Returns
    -------
    auc_index : ndarray of int, shape (n_points,)
        Position of the AUC that each point belongs to.
    points : ndarray of shape (n_points,)
        The conditional AUCs b.
    nats_to_win : ndarray of shape (n_points,)
        Log wealth that bets against each point must reach; infinite at 1.
    """
    auc_index = []
    points = []
    nats_to_win = []
    log_weight = math.log1p(-_CONSTANT_WEIGHT)
    log_constant_weight = math.log(_CONSTANT_WEIGHT)
    for index, (conditional_auc, tilt, log_denominator) in enumerate(
        zip(conditional_aucs, tilts, log_denominators, strict=True)
    ):
        rate = tilt * n_other
        steps = _INNER_STEP / rate * _INNER_GROWTH ** np.arange(_N_INNER_STEPS)
        distances = np.cumsum(steps)
        rejected_from = (nats_needed - log_weight + log_denominator) / rate  # by N alone
        last_point = min(1.0, rejected_from)
        grid = np.concatenate(
            [
                conditional_auc - distances,
                [conditional_auc],
                conditional_auc + distances,
                [0.0, last_point],
            ]
        )
        grid = np.unique(grid[(grid >= 0.0) & (grid <= last_point)])
        log_n = rate * grid[:-1] - log_denominator
        log_mixture = np.logaddexp(log_weight + log_n, log_constant_weight)
        auc_index.append(np.full(len(grid) - 1, index))
        points.append(grid[1:])
        nats_to_win.append(nats_needed - log_mixture)
        if last_point >= 1.0:  # no bet rejects a mean of 1
            nats_to_win[-1][-1] = math.inf
    return np.concatenate(auc_index), np.concatenate(points), np.concatenate(nats_to_win)


def _not_rejected(values, points, nats_to_win, variance):
    """Return the positions of the points that bets on the values do not reject (theory G28).

    A point is rejected if the log wealth against it reaches its ``nats_to_win``. ``variance`` is
    the predicted variance of the values.
    """
    remaining_positions = np.arange(len(points))
    sums_of_squares = np.full(len(points), PRIOR_UNITS * variance)
    max_stakes = MAX_STAKE / points
    for n_bets, value in enumerate(values):
        deviations = value - points
        mean_squares = sums_of_squares / (PRIOR_UNITS + n_bets)
        variance_to_come = mean_squares * (len(values) - n_bets)  # of the sum of remaining values
        best_stakes = CAUTION * np.sqrt(2.0 * np.maximum(nats_to_win, 0.0) / variance_to_come)
        stakes = np.minimum(best_stakes, max_stakes)
        # Rejected points have 0 nats left and stake nothing more.
        nats_to_win = np.where(nats_to_win > 0.0, nats_to_win - np.log1p(stakes * deviations), 0.0)
        sums_of_squares = sums_of_squares + deviations**2
        if n_bets % _BETS_PER_BLOCK == _BETS_PER_BLOCK - 1:
            is_left = nats_to_win > 0.0
            remaining_positions = remaining_positions[is_left]
            points = points[is_left]
            nats_to_win = nats_to_win[is_left]
            sums_of_squares = sums_of_squares[is_left]
            max_stakes = max_stakes[is_left]
    return remaining_positions[nats_to_win > 0.0]
