r"""Limits of means that know more than the number of records: squares, bets on units, the past.

*Squares.* For scores that are not 0 or 1 (regression errors, losses) the worst-case variance
:math:`p(1-p)` is far too large. The mean of :math:`(\varphi_i - c)^2` on the holdout is one more
mean over records; a coarse upper limit for it is asked of the mechanism and coded. Theory G15, and
G18 for records that depend on each other inside groups.

*Bets.* Nothing is asked after a final report, so a limit may read every unit of the holdout, one
after the other in a secret order, as bets against a mean that is too large do. Theory G28, after
Voráček and Orabona 2025 (arXiv:2505.22422). Units (records, patients, regions) are pairs
``(S_g, k_g)`` with ``0 <= S_g <= k_g <= bound``; the target is ``E S / E k``: the mean of a score
(``k = 1`` or the records of a patient), a share inside a class or a subgroup (``k`` counts the
records inside and may be 0), F1 (``S`` twice the true positives, ``k`` called plus positive).

*The past.* ``m_t`` is the expectation of the score of date ``t`` given all information before it.
Drift, seasons and any dependence are allowed. The limits are for the mean of the ``m_t`` over the
dates of the holdout, at the models as they are (theory G26). For every fixed stake
:math:`a > 0`, predictable lower ends :math:`l_t \le s_t` and predictable centers
:math:`c_t \le l_t + 0.9/a`,

.. math:: \prod_t \frac{1 + a (s_t - c_t)}{1 + a (m_t - c_t)}

has mean 1, and its denominator is at most :math:`(1 + a(\mu - \bar c))^T` (means of unequal
numbers). Stakes that follow the past, binomial tails and rates chosen after the data are false
here; tests show how.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, xlogy
from scipy.stats import beta as beta_distribution

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.utils.root_finding import last_accepted
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

# -- Squares: scores that vary little (G15, G18) ---------------------------------------------------

#: Part of a limit's failure probability for limits by squares; the rest is for plain ones.
SHARE = 0.8
#: Upper limits that are tried one after the other, in units of the first.
LEVELS = tuple(2.0 ** (0.5 * step) for step in range(7))
#: Deviations by which mean squares may exceed the expected ones at the first limit, and the same
#: for scores whose kurtosis is not known. Limits matter for interim intervals only.
_ALLOWED_DEVIATIONS = 3.0
_LEAST_ALLOWED = 4.0

#: Largest stake of a bet on records: with larger ones, single records decide a mean shortfall.
_MAX_STAKE_OF_RECORD = 0.8
#: Quantiles of the law that scores are expected to follow.
_N_LAW_QUANTILES = 200

_RATES = np.r_[np.geomspace(1e-3, 0.5, 48, endpoint=False), 1.0 - np.geomspace(0.5, 1e-3, 48)]


@dataclasses.dataclass(frozen=True)
class Units:
    """Independent sampling units, records or whole groups, by their weights in a mean (G18)."""

    count: float
    largest: float  # weight
    squares: float  # sum of squared weights
    effective: float  # units that a mean with squared weights is worth
    sensitivity: float  # how far one record can move a mean square

    @classmethod
    def of(cls, sizes: ArrayLike) -> Self:
        """Return groups of so many records each."""
        sizes = np.asarray(sizes, float)
        squared = (sizes / sizes.sum()) ** 2
        total = float(squared.sum())
        sensitivity = float((squared * np.minimum(1.0, 2.0 / sizes)).max()) / total
        largest = math.sqrt(squared.max())
        effective = total**2 / float((squared**2).sum())
        return cls(len(sizes), largest, total, effective, sensitivity)

    @classmethod
    def records(cls, n: int) -> Self:
        """Return independent records."""
        return cls(n, 1.0 / n, 1.0 / n, n, 1.0 / n)


def empirical_bernstein_lower_limit(values, log_failure, units, *, center, squares, rate):
    r"""Return lower limits for the expectation of a mean of independent scores in [0, 1].

    Theory G15, G18, after Fan, Grama and Liu 2015 and Howard et al. 2021. ``center`` :math:`c` and
    ``rate`` :math:`\lambda`, both in (0, 1), are fixed in advance; ``squares`` are upper limits of
    the mean of :math:`(\bar\varphi_g - c)^2`, groups :math:`g` weighted by their squared weights
    :math:`w_g^2`, and ``values`` lower limits of the mean. Limits are at most ``values``.
    """
    values = check_array("values", values, low=0.0, high=1.0)
    level = check_array("log_failure", log_failure, high=0.0)
    center = np.asarray(center, float)
    # G18: exp(r x - psi(r) x^2) <= 1 + r x for x >= -1, here x = (group mean - c) / c and r the
    # rate times w_g / W; psi(r y) <= y^2 psi(r) for y <= 1: one mean of squares serves all rates.
    largest = units.largest
    count = units.count
    stake = np.asarray(rate, float)
    penalty = -np.log1p(-stake) - stake
    spent = penalty * units.squares / largest**2 * np.asarray(squares) / center**2 - level
    grown = np.expm1((stake * (values - center) / (center * largest) - spent) / count)
    limit = center + center * largest * count * grown / stake
    return np.clip(limit, 0.0, values)


@dataclasses.dataclass(frozen=True, eq=False)
class SquaresPlan:
    """Centers, levels and rates of a batch, fixed from public numbers before its queries."""

    centers: Array  # of the deviations
    levels: Array  # upper limits of mean squared deviations that are tried, (m, len(LEVELS))
    margin: float  # of noise: a limit that holds is known up to it
    eligible: Array  # queries whose scores are known to vary little
    log_failure: float  # of the limits that the rates are chosen for
    units: Units

    @property
    def shares(self) -> tuple[Array, Array]:
        """Logs of the parts of a failure probability: for plain limits, for limits by squares."""
        return _log_shares(self.eligible)

    def levels_of(self, query: int) -> Array:
        """Return the upper limits of one query's statistic that are tried."""
        return self.levels[query]

    def deviations(self, moments: Array) -> Array:
        """Return mean squared deviations from the centers; ``moments`` are means and mean squares.

        Of the means of groups, weighted by squared weights; both in columns.
        """
        means, squares = moments.T
        return np.clip(squares - 2.0 * self.centers * means + self.centers**2, 0.0, 1.0)

    def limits(
        self, lowest: Array, highest: Array, side: Array, known: dict[int, float]
    ) -> tuple[Array, Array]:
        """Return lower and upper limits for the eligible queries; 0 and 1 for the others.

        ``lowest`` and ``highest`` are the ends of the possible means, ``side`` the logs of the
        one-sided failure probabilities, ``known`` the upper limits of mean squared deviations that
        the mechanism confirmed, by position.
        """
        lower = np.zeros(len(self.centers))
        upper = np.ones(len(self.centers))
        for query, squares in known.items():
            center = self.centers[query]
            log_failure = side[query] + math.log(SHARE)
            lower[query] = self._lower_limit(query, center, lowest[query], log_failure, squares)
            # One minus the score deviates as much.
            complement = self._lower_limit(
                query, 1.0 - center, 1.0 - highest[query], log_failure, squares
            )
            upper[query] = 1.0 - complement
        return lower, upper

    def _lower_limit(self, query, center, value, log_failure, squares):
        """Return the lower limit of one query, at the best rate if the score is as predicted."""
        predicted_limits = empirical_bernstein_lower_limit(
            np.full(_RATES.shape, center),
            self.log_failure,
            self.units,
            center=center,
            squares=self.levels[query, 0] + self.margin,
            rate=_RATES,
        )
        return empirical_bernstein_lower_limit(
            value,
            log_failure,
            self.units,
            center=center,
            squares=squares,
            rate=float(_RATES[np.argmax(predicted_limits)]),
        )


def plan_squares(
    predictions, variances, *, training_sizes, units, log_failure, kurtosis=math.nan, margin=0.0
):
    """Fix centers, levels and rates from public numbers.

    ``variances`` and ``kurtosis`` are those of a unit's score on the training side, NaN where
    unknown: a mean of squares deviates from ``v`` by ``v * sqrt((kurtosis - 1) / n)``. Eligible
    are queries whose variance is known and clearly below ``p (1 - p)``. ``log_failure`` is about
    the log of the one-sided failure probability that limits will have; any number is valid, the
    right one gives the sharpest limits. ``margin``: of the noise of a comparison with a limit.
    Limits are larger by it, so that noise alone does not reject them.
    """
    log_failure = check_real("log_failure", log_failure, high=0.0)
    centers = np.clip(predictions, 1e-3, 1.0 - 1e-3)
    worst = centers * (1.0 - centers)
    expected = shrunken_variances(variances, worst, training_sizes)
    eligible = np.isfinite(expected) & (expected < 0.7 * worst)
    expected = np.where(eligible, expected, worst)
    allowed = _ALLOWED_DEVIATIONS * np.sqrt(np.fmax(kurtosis, 1.0) - 1.0)
    relative_deviation = np.sqrt(1.0 / units.effective + 1.0 / training_sizes)
    spread = np.fmax(allowed, _LEAST_ALLOWED) * relative_deviation
    levels = (expected * (1.0 + spread) + margin)[:, None] * np.array(LEVELS)
    return SquaresPlan(centers, np.minimum(levels, 1.0), margin, eligible, log_failure, units)


def _log_shares(eligible):
    """Return logs of the parts of a failure probability: of plain limits, and of sharper ones."""
    plain = np.where(eligible, math.log1p(-SHARE), 0.0)
    return plain, np.where(eligible, math.log(SHARE), -math.inf)


def betting_lower_limit(
    values: FloatOrArray,
    log_failure: FloatOrArray,
    n: int,
    *,
    center: float,
    stake: FloatOrArray,
    shortfall: FloatOrArray,
) -> Array:
    r"""Return lower limits for the mean expectation of independent scores in [0, 1] (theory G15).

    .. math:: c + \frac{c}{\lambda}\Bigl(\exp\Bigl\{\frac{\lambda(q - c)}{c} - H - \frac Ln
       \Bigr\} - 1\Bigr)

    Parameters
    ----------
    values : float or array-like
        Lower limits of the mean score :math:`q`, in [0, 1].
    log_failure : float or array-like
        Log of the failure probability, :math:`-L`.
    n : int
        Number of scores.
    center, stake : float or array-like
        :math:`c` and :math:`\lambda`, both in (0, 1), fixed in advance.
    shortfall : float or array-like
        Upper limits of :math:`H`, the mean of :math:`\lambda x_i - \ln(1 + \lambda x_i)` with
        :math:`x_i = (\varphi_i - c)/c`.

    Returns
    -------
    ndarray
        Limits from 0 to ``values``.
    """
    values = check_array("values", values, low=0.0, high=1.0)
    level = check_array("log_failure", log_failure, high=0.0)
    shortfall = check_array("shortfall", shortfall, low=0.0)
    growth = stake * (values - center) / center - shortfall + level / n
    return np.clip(center + center * np.expm1(growth) / stake, 0.0, values)


class Bets(NamedTuple):
    """Bets of one query for both limits: on scores, and on their distances from 1."""

    centers: tuple[float, float]
    stakes: tuple[float, float]
    shortfalls: tuple[float, float]  # largest mean shortfalls at the first limit
    max_ratio: float  # largest shortfall of one record, in units of ``shortfalls``

    def ratio(self, scores: ArrayLike) -> float:
        """Return the larger of both mean shortfalls, in units of the largest one of a record.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores of independent records, in [0, 1].

        Returns
        -------
        float
            In [0, 1]. One record moves it by at most ``1 / n``.
        """
        scores = np.asarray(scores, dtype=float)
        ratios = [
            float(np.mean(_shortfalls(side_scores, center, stake))) / shortfall
            for side_scores, center, stake, shortfall in zip(
                (scores, 1.0 - scores), self.centers, self.stakes, self.shortfalls, strict=True
            )
        ]
        return float(np.clip(max(ratios) / self.max_ratio, 0.0, 1.0))


def _shortfalls(scores, center, stake):
    """Return by how much log wealth grows less than its linear approximation, at least 0."""
    gains = stake * (scores - center) / center
    return gains - np.log1p(gains)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BettingPlan:
    """Bets of a batch about independent records, fixed from public numbers before its queries."""

    predictions: Array  # (m,): expected scores
    expected_variances: Array  # (m,): of a record's score
    kurtosis: Array  # (m,): of a record's score, NaN: unknown
    training_sizes: Array  # (m,): records behind these numbers
    margin: float  # of noise: a limit that holds is known up to it
    eligible: Array  # (m,): queries whose scores are known to vary little
    log_failure: float  # of the limits that the stakes are chosen for
    n: int  # records of the holdout
    _bets: dict[int, Bets] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def shares(self) -> tuple[Array, Array]:
        """Logs of the parts of a failure probability: for plain limits, for limits by bets."""
        return _log_shares(self.eligible)

    def levels_of(self, query: int) -> Array:
        """Return the upper limits of one query's statistic that are tried."""
        first_level = 1.0 / self.bets(query).max_ratio + self.margin
        return np.minimum(first_level * np.array(LEVELS), 1.0)

    def bets(self, query: int) -> Bets:
        """Return the bets of one query; they depend on public numbers only."""
        if query not in self._bets:
            prediction = float(self.predictions[query])
            centers = (prediction, 1.0 - prediction)
            sides = [self._side(query, center) for center in centers]
            stakes, shortfalls, ratios = zip(*sides, strict=True)
            self._bets[query] = Bets(centers, stakes, shortfalls, max(ratios))
        return self._bets[query]

    def _side(self, query, center):
        """Return the stake of one side, its allowed mean shortfall, and a record's largest ratio.

        Scores are expected to follow a beta law. Any numbers are valid, right ones give the
        sharpest limits.
        """
        variance = float(self.expected_variances[query])
        size = center * (1.0 - center) / variance - 1.0
        probabilities = (np.arange(_N_LAW_QUANTILES) + 0.5) / _N_LAW_QUANTILES
        scores = betaincinv(center * size, (1.0 - center) * size, probabilities)
        stakes = _RATES[_RATES <= _MAX_STAKE_OF_RECORD]
        shortfalls = _shortfalls(scores, center, stakes[:, None])
        expected = np.maximum(shortfalls.mean(axis=1), 1e-12)
        relative_deviations = shortfalls.std(axis=1) / expected
        n_deviations = _LEAST_ALLOWED
        if np.isfinite(self.kurtosis[query]):
            n_deviations = _ALLOWED_DEVIATIONS
            law_kurtosis = float(np.mean((scores - scores.mean()) ** 4) / scores.var() ** 2)
            excess = (self.kurtosis[query] - 1.0) / max(law_kurtosis - 1.0, 1e-12)
            relative_deviations *= math.sqrt(max(1.0, excess))
        sampling = math.sqrt(1.0 / self.n + 1.0 / float(self.training_sizes[query]))
        allowed = expected * (1.0 + n_deviations * relative_deviations * sampling)
        ends = np.array([0.0, 1.0])
        largest = _shortfalls(ends, center, stakes[:, None]).max(axis=1)
        limits = betting_lower_limit(
            np.full(stakes.shape, center),
            self.log_failure,
            self.n,
            center=center,
            stake=stakes,
            shortfall=allowed + 2.0 * self.margin * largest,
        )
        best = int(np.argmax(limits))
        return float(stakes[best]), float(allowed[best]), float(largest[best] / allowed[best])

    def limits(
        self, lowest: Array, highest: Array, side: Array, known: dict[int, float]
    ) -> tuple[Array, Array]:
        """Return lower and upper limits for the eligible queries; 0 and 1 for the others.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the possible mean scores.
        side : ndarray of shape (m,)
            Logs of the one-sided failure probabilities.
        known : dict of int to float
            Upper limits of :meth:`Bets.ratio` that the mechanism confirmed, by position.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            In [0, 1].
        """
        lower = np.zeros(len(self.predictions))
        upper = np.ones(len(self.predictions))
        for query, ratio in known.items():
            bets = self.bets(query)
            ends = (lowest[query], 1.0 - highest[query])
            sides = [
                float(
                    betting_lower_limit(
                        end,
                        side[query] + math.log(SHARE),
                        self.n,
                        center=center,
                        stake=stake,
                        shortfall=ratio * bets.max_ratio * shortfall,
                    )
                )
                for end, center, stake, shortfall in zip(
                    ends, bets.centers, bets.stakes, bets.shortfalls, strict=True
                )
            ]
            lower[query] = sides[0]
            upper[query] = 1.0 - sides[1]
        return lower, upper


def plan_bets(
    predictions: ArrayLike,
    variances: ArrayLike,
    *,
    training_sizes: ArrayLike,
    n: int,
    log_failure: float,
    kurtosis: FloatOrArray = math.nan,
    margin: float = 0.0,
) -> BettingPlan:
    """Fix the bets of a batch about ``n`` independent records from public numbers (theory G15).

    Parameters
    ----------
    predictions : array-like of shape (m,)
        Expected scores, in [0, 1].
    variances : array-like of shape (m,)
        Of a record's score on the training side; NaN where unknown.
    training_sizes : array-like of shape (m,)
        Number of records behind these numbers.
    n : int
        Number of holdout records.
    log_failure : float
        About the log of the one-sided failure probability that limits will have.
    kurtosis : float or array-like of shape (m,), default=nan
        Of a record's score on the training side; NaN where unknown.
    margin : float, default=0.0
        Of the noise of a comparison with a limit. Limits are larger by it, so that noise alone does
        not reject them.

    Returns
    -------
    BettingPlan
        Eligible are queries whose variance is known and clearly below the largest possible one. Any
        numbers are valid, right ones give the sharpest limits.
    """
    centers = np.clip(check_array("predictions", predictions), 1e-3, 1.0 - 1e-3)
    sizes = np.broadcast_to(np.asarray(training_sizes, dtype=float), centers.shape)
    worst = centers * (1.0 - centers)
    expected = shrunken_variances(np.asarray(variances, dtype=float), worst, sizes)
    eligible = np.isfinite(expected) & (expected < 0.7 * worst)
    return BettingPlan(
        predictions=centers,
        expected_variances=np.where(eligible, expected, worst),
        kurtosis=np.broadcast_to(np.asarray(kurtosis, dtype=float), centers.shape),
        training_sizes=sizes,
        margin=margin,
        eligible=eligible,
        log_failure=check_real("log_failure", log_failure, high=0.0),
        n=n,
    )


def shrunken_variances(variances: Array, worst: Array, training_sizes: Array) -> Array:
    """Return training-side variances, drawn towards the worst case by two records.

    Positive where ``worst``, the largest they can be, is; NaN stands for unknown ones.
    """
    return (variances * training_sizes + 2.0 * worst) / (training_sizes + 2.0)


# -- Bets on units in a secret order (G28) ---------------------------------------------------------

PRIOR_UNITS = 20.0  # units that the variance of the training side counts for
MAX_STAKE = 0.9  # largest part of the wealth that is staked
#: Part of the stake that is best for normal deviations: skewed ones lose more by high stakes.
CAUTION = 0.9
_STEP, _NEAR, _GROWTH = 0.05, 8.0, 1.03  # grid: in deviations of the mean, up to, then times
_BLOCK = 32  # units whose bets are prepared in one go; rejected points drop out between blocks


class UnitMoments(NamedTuple):
    """Moments of the units' sums S and counts k on the training set, scored out of fold.

    :func:`betting_interval` sets its bets by them.
    """

    center: float  # sum of S over sum of k, drawn toward 1/2
    variance: float  # mean of (S - center * k)^2
    mean_count: float  # mean of k


def unit_moments(sums: ArrayLike, counts: ArrayLike) -> UnitMoments:
    """Return the moments of training units; any numbers are valid, right ones give sharp limits.

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g`` of training units, in the scale of the row, from models that did not
        see them (cross-validation).

    Raises
    ------
    ValueError
        If every count is 0: the row has no training unit.
    """
    sums = check_array("sums", sums, low=0.0)
    counts = check_array("counts", counts, low=0.0)
    total = float(counts.sum())
    if not total > 0.0:
        raise ValueError(f"counts must not all be 0, got {counts.size} units of count 0.")
    center = (float(sums.sum()) + 0.5) / (total + 1.0)
    mean_count = total / counts.size
    variance = np.mean((sums - center * counts) ** 2)
    min_variance = 0.01 * center * (1.0 - center) * mean_count
    return UnitMoments(center, max(min_variance, float(variance)), mean_count)


def betting_interval(sums, counts, *, bound, moments, log_inverse_level):
    r"""Return limits for ``E S / E k`` of units that are independent and identically distributed.

    Each of the two limits fails with probability at most ``exp(-log_inverse_level)``: pass
    :math:`L = \ln(2/\alpha)` for a two-sided interval (theory G28, STaR bets).

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g``, in a secret order that does not depend on their values, drawn once and
        never redrawn. Units with ``k_g = 0`` belong in it. Their number is fixed by design.
    bound : float
        Largest possible ``k_g``, fixed before the split: never the holdout's own maximum.
    moments : UnitMoments
        From training units, by :func:`unit_moments`.
    log_inverse_level : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    lower, upper : float
        In [0, 1]. For paired differences ``d`` in ``[-r, r]`` let ``S`` be the sum of
        ``(1 + d/r)/2``; the limits are ``r (2 mu - 1)``.
    """
    totals, units = _units(sums, counts, bound)
    level = check_real("log_inverse_level", log_inverse_level, low=0.0, closed="neither")
    center, variance, mean_count = moments
    deviation = math.sqrt(variance / len(totals)) / mean_count
    grids = [_grid(side_center, deviation) for side_center in (center, 1.0 - center)]
    # Points are tried upwards, and none above the first that is not rejected is needed: hardly ever
    # a point beyond a deviation below the center.
    low_points = []
    high_points = []
    for grid, end in zip(grids, (center - deviation, 1.0 - center - deviation), strict=True):
        split = np.searchsorted(grid, end)
        low_points.append(grid[:split])
        high_points.append(grid[split:])
    n_rejected = _count_rejected(totals, units, low_points, bound, variance, level)
    remaining_points = [
        high if count == len(low) else high[:0]
        for count, low, high in zip(n_rejected, low_points, high_points, strict=True)
    ]
    if any(map(len, remaining_points)):
        n_further = _count_rejected(totals, units, remaining_points, bound, variance, level)
        n_rejected = [low + high for low, high in zip(n_rejected, n_further, strict=True)]
    # The last point before the first that is not rejected; a limit above the mean needs the first
    # point from the mean on rejected, whose wealth is a supermartingale (Ville). Never bisect.
    lower, complement = (
        float(grid[count - 1]) if count else 0.0
        for grid, count in zip(grids, n_rejected, strict=True)
    )
    return lower, 1.0 - complement


def _units(sums, counts, bound):
    """Return checked arrays of one shape."""
    sums = check_array("sums", sums, low=0.0)
    counts = np.broadcast_to(check_array("counts", counts, low=0.0, high=bound), sums.shape)
    if not (sums.ndim == 1 and sums.size and np.all(sums <= counts * (1.0 + 1e-12))):
        raise ValueError("sums must be one-dimensional, not empty, and at most counts.")
    return np.minimum(sums, counts), counts


def _grid(center, deviation):
    """Return the points that are tried, ascending inside (0, 1)."""
    even_distances = deviation * np.arange(0.0, _NEAR + _STEP / 2.0, _STEP)
    n_steps = max(0.0, math.log(1.0 / even_distances[-1]) / math.log(_GROWTH))
    growing_distances = even_distances[-1] * _GROWTH ** np.arange(1.0, n_steps + 1.0)
    distances = np.concatenate([even_distances, growing_distances])
    points = np.concatenate([center - distances[:0:-1], center + distances])
    return points[(points > 0.0) & (points < 1.0)]


def _count_rejected(sums, counts, points, bound, variance, level):
    """Return for both sides the number of points below the first that no bet rejects.

    Upper limits bet on ``k - S`` at one minus the mean.
    """
    side = np.repeat([0, 1], [len(grid) for grid in points])
    position = np.concatenate([np.arange(len(grid)) for grid in points])
    mean = np.concatenate(points)
    scores = np.column_stack([sums, counts - sums])
    nats_left = np.full(mean.size, level)  # until a point is rejected
    squares = np.full(mean.size, PRIOR_UNITS * variance)
    for start in range(0, len(sums), _BLOCK):
        block = slice(start, start + _BLOCK)
        deviations = scores[block][:, side] - mean * counts[block, None]
        squares_before = np.cumsum(np.vstack([squares, deviations**2]), axis=0)
        squares = squares_before[-1]
        # V_t = (20 v + sum of the squares so far) / (19 + t), for G - t + 1 units still to come.
        number = np.arange(start + 1.0, start + 1.0 + len(deviations))[:, None]
        variance_to_come = squares_before[:-1] * (len(sums) - number + 1.0)
        scale = CAUTION * np.sqrt(2.0 * (PRIOR_UNITS - 1.0 + number) / variance_to_come)
        max_stake = MAX_STAKE / (mean * bound)
        zeros = np.zeros(mean.size)
        for deviation, unit_scale in zip(deviations, scale, strict=True):
            stake = np.minimum(np.sqrt(nats_left) * unit_scale, max_stake)
            # Rejected points have 0 nats left and stake nothing more.
            nats_left = np.maximum(nats_left - np.log(1.0 + stake * deviation), zeros)
        not_rejected = nats_left > 0.0
        side = side[not_rejected]
        position = position[not_rejected]
        mean = mean[not_rejected]
        nats_left = nats_left[not_rejected]
        squares = squares[not_rejected]
    return [int(position[side == i].min(initial=len(grid))) for i, grid in enumerate(points)]


def order_free_interval(sums, counts, *, bound, moments, log_inverse_level):
    r"""Return limits for ``sum E S_g / sum E k_g`` of independent units that need not be alike.

    For stratified holdouts, holdouts given the rest, regimes that are seen. Parameters as in
    :func:`betting_interval`; the order says nothing. A mean ``m`` is rejected where

    .. math:: \sum_g \ln\Bigl(1 + \lambda\frac{S_g - m k_g}{m K}\Bigr) \ge L,

    with :math:`\lambda` in (0, 1) fixed by ``moments``. For equal counts this is the limit
    :math:`c + (c/\lambda)(\exp\{\overline{\ln(1 + \lambda(\varphi - c)/c)} - L/n\} - 1)` at a
    center ``c`` of its own value; theory G28 (order-free form of G15 and G18).
    """
    totals, units = _units(sums, counts, bound)
    level = check_real("log_inverse_level", log_inverse_level, low=0.0, closed="neither")
    centers = (moments.center, 1.0 - moments.center)
    scores = (totals, units - totals)
    ends = []
    for center, score in zip(centers, scores, strict=True):
        # The stake that grows fastest if everything is as on the training side, at the limit
        # that a normal approximation predicts.
        half_width = math.sqrt(2.0 * level * moments.variance / len(totals)) / moments.mean_count
        predicted_limit = center**2 / (center + half_width)
        gain = (center - predicted_limit) * moments.mean_count
        rate = min(0.95, gain * predicted_limit * bound / (gain**2 + moments.variance))

        def rejected(mean, score=score, rate=rate):
            deviations = (score - mean[:, None] * units) / (mean[:, None] * bound)
            return np.log1p(rate * deviations).sum(axis=1) >= level

        ends.append(float(last_accepted(rejected, np.array([1e-300]), np.array([1.0]))[0]))
    return ends[0] if ends[0] > 1e-299 else 0.0, 1.0 - ends[1]


def clopper_pearson_interval(
    hits: int, count: int, level: float, *, alike: bool = True
) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a share of independent records (theory G8).

    Together they fail with probability at most ``level``. Where records are not ``alike`` (means
    differ: stratified, given the rest), one hit needs ``level / (2 count)`` as its lower limit,
    one miss the same, and ``level`` must be at most 1/2 (Hoeffding 1956).
    """
    hits = check_integer("hits", hits, low=0)
    count = check_integer("count", count, low=0)
    level = check_real("level", level, low=0.0, high=0.5, closed="right")
    side = 0.5 * level

    def lower(n_hits):
        if n_hits == 1 and not alike:
            return side / count
        return float(beta_distribution.ppf(side, n_hits, count - n_hits + 1)) if n_hits else 0.0

    return lower(hits), 1.0 - lower(count - hits)


# -- Dates, each given its past (G26) --------------------------------------------------------------

#: Stakes of a mixture, in units of the best one by prediction, and their shares.
STAKES, SHARES = (1.0, 0.25, 0.5, 2.0, 4.0), (0.8, 0.05, 0.05, 0.05, 0.05)
#: Largest part of the stake's inverse by which a center lies above the lower end of a score.
_ROOM = 0.9


def martingale_lower_limit(
    scores: ArrayLike,
    log_failure: float,
    *,
    stakes: ArrayLike,
    shares: ArrayLike = (1.0,),
    center: FloatOrArray = 0.0,
    lowest: FloatOrArray = 0.0,
    horizon: int = 1,
) -> float:
    r"""Return a lower limit for the mean expected score, each date given its past (theory G26).

    With one stake this is

    .. math:: \bar c + \frac1a\Bigl(\exp\Bigl\{\frac1T \Bigl[\sum_t \ln(1 + a(s_t - c_t)) - HL
       \Bigr]\Bigr\} - 1\Bigr).

    Parameters
    ----------
    scores : array-like of shape (T,)
        Score of each date, in any units.
    log_failure : float
        Log of the failure probability, :math:`-L`.
    stakes, shares : array-like of shape (K,)
        Positive stakes, fixed in advance, and their shares, which sum to at most 1.
    center : float or array-like of shape (T,), default=0.0
        Predicted score of each date; lowered to ``lowest + 0.9 / stake`` where it lies above.
    lowest : float or array-like of shape (T,), default=0.0
        Lower end of each possible score, known before it.
    horizon : int, default=1
        Largest number of dates between a forecast and its score. The limit then holds for the mean
        expected score given what was known at forecast time. With 1 it is the day before.

    Returns
    -------
    float
        At least the mean of ``lowest``. An upper limit is minus the lower limit of ``-scores``.
    """
    scores = check_array("scores", scores, shape=(None,))
    size = len(scores)
    level = -check_real("log_failure", log_failure, high=0.0)
    stakes = np.atleast_1d(check_array("stakes", stakes, low=0.0))[:, None]
    log_shares = np.log(check_array("shares", shares, low=0.0, high=1.0))
    span = check_integer("horizon", horizon, low=1)
    lowest = np.broadcast_to(np.asarray(lowest, float), (size,))
    centers = np.minimum(center, lowest + _ROOM / stakes)
    mean_centers = centers.mean(axis=1)
    stake = stakes[:, 0]
    logs = np.log1p(stakes * (scores - centers)).sum(axis=1)

    def limits(lengths):  # of every stake by itself
        return mean_centers + np.expm1((logs - span * lengths) / size) / stake

    # A mean is rejected by the mixture where one stake rejects it alone, and only if one would
    # reject it with all of the level.
    low = float(np.max(limits(level - log_shares)))
    high = float(np.max(limits(level)))
    floor = float(lowest.mean())
    for _ in range(48 if len(stakes) > 1 and high > floor else 0):
        mean = max(0.5 * (low + high), floor)
        with np.errstate(invalid="ignore", divide="ignore"):
            wealth = (logs - size * np.log1p(stake * (mean - mean_centers))) / span
        if np.logaddexp.reduce(wealth + log_shares) >= level:
            low = mean
        else:
            high = mean
    return max(low, floor)


def martingale_interval(
    scores: ArrayLike,
    log_failure: float,
    *,
    expected: float,
    variance: float | None,
    lowest: FloatOrArray = 0.0,
    highest: FloatOrArray = 1.0,
    horizon: int = 1,
    lower_share: float = 0.5,
) -> tuple[float, float]:
    """Return both limits at stakes that are best where the scores are as expected (theory G26).

    Parameters
    ----------
    scores : array-like of shape (T,)
        Score of each date, in order.
    log_failure : float
        Log of half the failure probability of both limits together.
    expected : float
        Score of a date to be expected, by the training set.
    variance : float or None
        Variance of a date's score, by the training set; None: scores are 0 or 1.
    lowest, highest : float or array-like of shape (T,), default=0.0, 1.0
        Ends of each date's possible score, known before it (of a pair: minus and plus the distance
        of the forecasts).
    horizon : int, default=1
        Largest number of holdout dates from a forecast to its known score.
    lower_share : float, default=0.5
        Part of the failure probability that the lower limit takes, fixed in advance. A difference
        that is expected to be positive is shown with less data if the lower limit takes more.

    Returns
    -------
    tuple of float
        Lower and upper limit of the mean conditional expectation, in units of the scores.
    """
    scores = check_array("scores", scores, shape=(None,))
    size = len(scores)
    lower_share = check_real("lower_share", lower_share, low=0.0, high=1.0, closed="neither")
    ends = []
    for sign, low, share in (
        (1.0, np.asarray(lowest, float), lower_share),
        (-1.0, -np.asarray(highest, float), 1.0 - lower_share),
    ):
        log_side = min(-1e-9, log_failure + math.log(2.0 * share))
        if variance is None:
            limit = martingale_lower_limit(
                sign * scores,
                log_side,
                stakes=bit_stake(sign * expected - low.mean(), log_side, size, horizon),
                center=low,
                lowest=low,
                horizon=horizon,
            )
        else:
            best_stake = math.sqrt(-2.0 * horizon * log_side / (size * max(variance, 1e-12)))
            limit = martingale_lower_limit(
                sign * scores,
                log_side,
                stakes=best_stake * np.array(STAKES),
                shares=SHARES,
                center=sign * expected,
                lowest=low,
                horizon=horizon,
            )
        ends.append(sign * limit)
    return ends[0], ends[1]


def bit_stake(share: Any, log_failure: Any, n: int, horizon: int = 1) -> Array:
    r"""Return the stake for scores of 0 and 1 whose mean is about ``share`` (theory G26).

    Chernoff at the fixed rate :math:`\ln(1 + a) = \ln\frac{v(1-p)}{p(1-v)}` with
    :math:`\mathrm{kl}(v \,\|\, p) = HL/T`: the best stake if the mean is as predicted.
    """
    value = np.clip(share, 0.5 / n, 1.0 - 0.5 / n)
    nats = -horizon * np.asarray(log_failure) / n

    def is_within_reach(p):
        with np.errstate(divide="ignore"):
            rate = xlogy(value, value / p) + xlogy(1.0 - value, (1.0 - value) / (1.0 - p))
        return rate <= nats

    p = np.maximum(
        last_accepted(is_within_reach, value * np.ones_like(nats), 0.0, steps=60), 1e-300
    )
    return value * (1.0 - p) / (p * (1.0 - value)) - 1.0


def martingale_mean_lower_limit(
    values: ArrayLike, log_failure: ArrayLike, n: int, *, expected: ArrayLike
) -> Array:
    """Return lower limits from means alone of ``n`` dates with scores in [0, 1] (theory G26).

    Chernoff with the rate of :func:`bit_stake` at the mean ``expected`` before; by concavity it
    holds for all scores in [0, 1]. ``values`` are lower ends of the possible means.
    """
    values = check_array("values", values)
    level = check_array("log_failure", log_failure, high=0.0)
    stake = bit_stake(np.asarray(expected, float), level, n)
    return np.maximum(0.0, np.expm1(values * np.log1p(stake) + level / n) / stake)
