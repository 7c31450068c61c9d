r"""Limits of means from squared deviations, from bets on units, and of dates given their past.

*Squares.* For scores that are not 0 or 1 (regression errors, losses) the worst-case variance
:math:`p(1-p)` is often far too large. The mean of :math:`(\varphi_i - c)^2` on the holdout is one
more mean over records. The mechanism confirms a coarse upper limit of it, which is coded. Theory
G15, and G18 for records that depend on each other inside groups.

*Bets.* No query follows a final report, so its limits may read every unit of the holdout. They bet
on the units, one after the other in a secret order, against possible values of the mean. Theory
G28, after Voráček and Orabona 2025 (arXiv:2505.22422). Units (records, patients, regions) are pairs
``(S_g, k_g)`` with ``0 <= S_g <= k_g <= bound``; the target is ``E S / E k``: the mean of a score
(``k`` is 1 or the number of records of a patient), a proportion in a class or a subgroup (``k`` is
the number of records in it, which may be 0, or their fraction of the unit's records), F1 (``S`` is
twice the true positives, ``k`` the predicted positives plus the positives).

*The past.* ``m_t`` is the expectation of the score of date ``t`` given all information before it.
Drift, seasons and any dependence are allowed. The limits are for the mean of the ``m_t`` over the
dates of the holdout (theory G26). For every fixed stake
:math:`a > 0`, predictable lower ends :math:`l_t \le s_t` and predictable centers
:math:`c_t \le l_t + 0.9/a`,

.. math:: \prod_t \frac{1 + a (s_t - c_t)}{1 + a (m_t - c_t)}

has mean 1, and its denominator is at most :math:`(1 + a(\mu - \bar c))^T` with the mean
:math:`\mu` of the :math:`m_t` (the geometric mean is at most the arithmetic one).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, xlogy
from scipy.stats import beta as beta_distribution

from sklearn_bdp._typing import Array, FloatOrArray
from sklearn_bdp.utils.root_finding import last_accepted
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

# -- Limits from a confirmed variance: scores that vary little (G15, G18) --------------------------

#: Fraction of the failure probability for limits that use a confirmed upper limit of the variance
#: or of the shortfall of bets. The rest is for limits from the mean alone.
VARIANCE_LIMIT_FRACTION = 0.8
#: Upper limits (of a variance, or of `Bets.ratio`) that are tried one after the other, as multiples
#: of the first. A limit above 1 is replaced by 1.
RELATIVE_LIMITS = tuple(2.0 ** (0.5 * step) for step in range(7))
#: The first limit allows a mean square to exceed the expected one by this many of its standard
#: deviations.
_ALLOWED_DEVIATIONS = 3.0
#: Smallest allowed excess of a mean square, in units of the expected mean square over the root of
#: the number of units. It is used if the kurtosis is unknown. For bets and an unknown kurtosis: the
#: number of standard deviations by which the mean shortfall may exceed the expected one.
_MIN_ALLOWED_DEVIATIONS = 4.0

#: Largest stake of a bet on records. With larger ones, single records decide a mean shortfall.
_MAX_STAKE_OF_RECORD = 0.8
#: Number of quantiles of the beta distribution that scores are expected to follow.
_N_LAW_QUANTILES = 200

#: Rates (or stakes of bets) among which the one with the highest predicted limit is taken.
_RATES = np.r_[np.geomspace(1e-3, 0.5, 48, endpoint=False), 1.0 - np.geomspace(0.5, 1e-3, 48)]


@dataclasses.dataclass(frozen=True)
class UnitWeights:
    """Weights of independent sampling units (records or groups) in a mean over records (G18).

    The weight of a unit is its fraction of all records. Weights sum to 1.
    """

    n_units: float
    largest_weight: float
    sum_of_squares: float  # sum of the squared weights
    effective_n: float  # effective number of units in a mean that weighs by squared weights
    sensitivity: float  # bound of the change of such a mean of squares if one record is replaced

    @classmethod
    def from_sizes(cls, sizes: ArrayLike) -> Self:
        """Return the weights of groups; ``sizes`` are their numbers of records."""
        sizes = np.asarray(sizes, float)
        squared_weights = (sizes / sizes.sum()) ** 2
        sum_of_squares = float(squared_weights.sum())
        largest_change = float((squared_weights * np.minimum(1.0, 2.0 / sizes)).max())
        return cls(
            n_units=len(sizes),
            largest_weight=math.sqrt(squared_weights.max()),
            sum_of_squares=sum_of_squares,
            effective_n=sum_of_squares**2 / float((squared_weights**2).sum()),
            sensitivity=largest_change / sum_of_squares,
        )

    @classmethod
    def from_records(cls, n: int) -> Self:
        """Return the weights of ``n`` independent records."""
        return cls(n, 1.0 / n, 1.0 / n, n, 1.0 / n)


def empirical_bernstein_lower_limit(
    values, log_failure, units, *, center, squared_deviations, rate
):
    r"""Return lower limits of the expectation of a mean of independent scores (theory G15, G18).

    After Fan, Grama and Liu 2015 and Howard et al. 2021. All arguments but ``units`` broadcast
    against each other.

    Parameters
    ----------
    values : float or array-like
        Means over records on the holdout, or lower limits of them, in [0, 1].
    log_failure : float or array-like
        Log of the one-sided failure probability, at most 0.
    units : UnitWeights
        Independent units that the scores are averaged over.
    center : float or array-like
        Center :math:`c` in (0, 1) of the deviations, fixed in advance.
    squared_deviations : float or array-like
        Upper limits of the mean of :math:`(\bar\varphi_g - c)^2` over units :math:`g` with the
        mean score :math:`\bar\varphi_g`, weighted by squared weights :math:`w_g^2`.
    rate : float or array-like
        Rate :math:`\lambda` in (0, 1), fixed in advance.

    Returns
    -------
    ndarray
        Limits in [0, 1], at most ``values``.
    """
    values = check_array("values", values, low=0.0, high=1.0)
    log_failure = check_array("log_failure", log_failure, high=0.0)
    center = np.asarray(center, float)
    rate = np.asarray(rate, float)
    # G18: exp(r x - psi(r) x^2) <= 1 + r x for x >= -1, here x = (group mean - c) / c and r the
    # rate times w_g / W with the largest weight W; psi(r y) <= y^2 psi(r) for y <= 1: one mean of
    # squares serves all rates.
    largest_weight = units.largest_weight
    psi = -np.log1p(-rate) - rate
    squared_deviations = np.asarray(squared_deviations)
    variance_penalty = (
        psi * units.sum_of_squares / largest_weight**2 * squared_deviations / center**2
    )
    penalty = variance_penalty - log_failure
    gain = rate * (values - center) / (center * largest_weight)
    growth = np.expm1((gain - penalty) / units.n_units)
    limit = center + center * largest_weight * units.n_units * growth / rate
    return np.clip(limit, 0.0, values)


@dataclasses.dataclass(frozen=True, eq=False)
class VarianceLimitPlan:
    """Plan of the limits of m queries from confirmed upper limits of their variances.

    It follows from public numbers (predictions and training scores), and is fixed before the
    queries.
    """

    centers: Array  # center of the squared deviations of each query, shape (m,)
    tried_limits: Array  # ascending upper limits of each variance, (m, len(RELATIVE_LIMITS))
    margin: float  # noise margin by which a variance may exceed a confirmed limit
    is_eligible: Array  # which queries have training scores that vary little, shape (m,)
    log_failure: float  # one-sided log failure probability for which the rates are chosen
    units: UnitWeights

    @property
    def log_alpha_fractions(self) -> tuple[Array, Array]:
        """Logs of two fractions of a failure probability, both of shape (m,).

        The first fraction is for limits from the mean alone, the second for limits from the
        variance.
        """
        return _log_alpha_fractions(self.is_eligible)

    def limits_to_try(self, i: int) -> Array:
        """Return ascending upper limits of the variance of query ``i``, to be tried in turn."""
        return self.tried_limits[i]

    def deviations(self, moments: Array) -> Array:
        """Return the mean squared deviation from the center of each of the m queries, shape (m,).

        ``moments`` of shape (m, 2) has the mean and the mean square of the units' mean scores,
        both weighted by squared unit weights.
        """
        means, mean_squares = moments.T
        return np.clip(mean_squares - 2.0 * self.centers * means + self.centers**2, 0.0, 1.0)

    def limits(
        self,
        lowest: Array,
        highest: Array,
        log_alpha_one_sided: Array,
        confirmed_limits: dict[int, float],
    ) -> tuple[Array, Array]:
        """Return lower and upper limits of the expectations of m queries, both of shape (m,).

        ``lowest`` and ``highest`` are the ends of the possible holdout means,
        ``log_alpha_one_sided`` the logs of one-sided failure probabilities, all of shape (m,).
        ``confirmed_limits`` has, by position of the query, the upper limit of its mean squared
        deviation that the mechanism confirmed, noise margin included. Limits of other queries are 0
        and 1.
        """
        lower = np.zeros(len(self.centers))
        upper = np.ones(len(self.centers))
        for i, deviation_limit in confirmed_limits.items():
            center = self.centers[i]
            log_failure = log_alpha_one_sided[i] + math.log(VARIANCE_LIMIT_FRACTION)
            lower[i] = self._lower_limit(i, center, lowest[i], log_failure, deviation_limit)
            # One minus the score has the same squared deviations from one minus the center.
            complement_lower = self._lower_limit(
                i, 1.0 - center, 1.0 - highest[i], log_failure, deviation_limit
            )
            upper[i] = 1.0 - complement_lower
        return lower, upper

    def _lower_limit(self, i, center, lowest_mean, log_failure, deviation_limit):
        """Return a lower limit of the expectation of query ``i``, or of 1 minus it.

        ``center`` is the center of squared deviations, ``lowest_mean`` the lower end of the
        possible holdout means, ``log_failure`` the log of the one-sided failure probability, and
        ``deviation_limit`` the confirmed upper limit of the mean squared deviation. The rate is the
        best one for a holdout mean at the center and the lowest of the upper limits to try.
        """
        predicted_limits = empirical_bernstein_lower_limit(
            np.full(_RATES.shape, center),
            self.log_failure,
            self.units,
            center=center,
            squared_deviations=self.tried_limits[i, 0] + self.margin,
            rate=_RATES,
        )
        return empirical_bernstein_lower_limit(
            lowest_mean,
            log_failure,
            self.units,
            center=center,
            squared_deviations=deviation_limit,
            rate=float(_RATES[np.argmax(predicted_limits)]),
        )


def plan_variance_limits(
    predictions, variances, *, training_sizes, units, log_failure, kurtosis=math.nan, margin=0.0
):
    """Return the plan of a batch: centers and limits of variances, from public numbers.

    Queries are eligible if their training variance is known and clearly below ``p (1 - p)``, the
    largest possible one for the prediction ``p``.

    Parameters
    ----------
    predictions : ndarray of shape (m,)
        Predicted scores in [0, 1].
    variances : ndarray of shape (m,)
        Variances of a unit's score on the training set; NaN if unknown.
    training_sizes : float or ndarray of shape (m,)
        Number of training units behind each variance.
    units : UnitWeights
        Units of the holdout.
    log_failure : float
        Approximate log of the one-sided failure probability of the limits. It determines their
        rates. Limits are valid for all values, and narrow if it is near the true one.
    kurtosis : float or ndarray of shape (m,), default=nan
        Kurtosis of a unit's score on the training set; NaN if unknown.
    margin : float, default=0.0
        Noise margin of a comparison with the holdout, in units of the mean square. It is added to
        the lowest upper limit to try, so that noise alone does not reject that.

    Returns
    -------
    VarianceLimitPlan
        Fixed before the queries.
    """
    log_failure = check_real("log_failure", log_failure, high=0.0)
    centers = np.clip(predictions, 1e-3, 1.0 - 1e-3)
    worst_variances = centers * (1.0 - centers)
    expected_variances = shrunken_variances(variances, worst_variances, training_sizes)
    is_eligible = np.isfinite(expected_variances) & (expected_variances < 0.7 * worst_variances)
    expected_variances = np.where(is_eligible, expected_variances, worst_variances)
    # Relative to v / sqrt(n); fmax ignores NaN, the unknown kurtosis.
    allowed_deviations = _ALLOWED_DEVIATIONS * np.sqrt(np.fmax(kurtosis, 1.0) - 1.0)
    allowed_deviations = np.fmax(allowed_deviations, _MIN_ALLOWED_DEVIATIONS)
    relative_excess = allowed_deviations * np.sqrt(1.0 / units.effective_n + 1.0 / training_sizes)
    first_limits = expected_variances * (1.0 + relative_excess) + margin
    tried_limits = np.minimum(first_limits[:, None] * np.array(RELATIVE_LIMITS), 1.0)
    return VarianceLimitPlan(centers, tried_limits, margin, is_eligible, log_failure, units)


def _log_alpha_fractions(is_eligible):
    """Return the logs of two fractions of a failure probability, both of shape (m,).

    The first fraction is for limits from the mean alone, the second for limits from the variation
    of scores. Their logs are 0 and minus infinity for queries that are not eligible. The argument
    is a mask of the m queries.
    """
    log_mean_fraction = np.where(is_eligible, math.log1p(-VARIANCE_LIMIT_FRACTION), 0.0)
    log_variation_fraction = np.where(is_eligible, math.log(VARIANCE_LIMIT_FRACTION), -math.inf)
    return log_mean_fraction, log_variation_fraction


def betting_lower_limit(
    values: FloatOrArray,
    log_failure: FloatOrArray,
    n: int,
    *,
    center: FloatOrArray,
    stake: FloatOrArray,
    shortfall: FloatOrArray,
) -> Array:
    r"""Return lower limits for the mean expectation of independent scores in [0, 1] (theory G15).

    .. math:: c + \frac{c}{\lambda}\Bigl(\exp\Bigl\{\frac{\lambda(q - c)}{c} - H - \frac Ln
       \Bigr\} - 1\Bigr)

    Parameters
    ----------
    values : float or array-like
        Mean scores :math:`q`, or lower limits of them, in [0, 1].
    log_failure : float or array-like
        Log of the one-sided failure probability, :math:`-L`, at most 0.
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
    log_failure = check_array("log_failure", log_failure, high=0.0)
    shortfall = check_array("shortfall", shortfall, low=0.0)
    growth = stake * (values - center) / center - shortfall + log_failure / n
    return np.clip(center + center * np.expm1(growth) / stake, 0.0, values)


class Bets(NamedTuple):
    """Two bets on the records of one query, fixed before it.

    In each pair, the first number is of a bet on the scores, for the lower limit, and the second of
    a bet on 1 minus the scores, for the upper limit. The shortfall of a bet with the gain ``x`` is
    ``x - ln(1 + x)``.
    """

    centers: tuple[float, float]  # predicted means
    stakes: tuple[float, float]
    allowed_shortfalls: tuple[float, float]  # mean shortfalls that the lowest limit to try allows
    max_ratio: float  # largest possible ratio of a record's shortfall to an allowed one

    def ratio(self, scores: ArrayLike) -> float:
        """Return the larger ratio of the mean shortfall of a bet to its allowed one.

        The ratio is relative to ``max_ratio``, the largest one that a record can have.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores of independent records, in [0, 1].

        Returns
        -------
        float
            Ratio in [0, 1]. One record changes it by at most ``1 / n``.
        """
        scores = np.asarray(scores, dtype=float)
        ratios = [
            float(np.mean(_shortfalls(side_scores, center, stake))) / allowed_shortfall
            for side_scores, center, stake, allowed_shortfall in zip(
                (scores, 1.0 - scores),
                self.centers,
                self.stakes,
                self.allowed_shortfalls,
                strict=True,
            )
        ]
        return float(np.clip(max(ratios) / self.max_ratio, 0.0, 1.0))


def _shortfalls(scores, center, stake):
    """Return the shortfall ``x - log(1 + x)`` of a bet on each score, at least 0.

    The gain ``x`` of the bet is ``stake * (score - center) / center``.
    """
    gains = stake * (scores - center) / center
    return gains - np.log1p(gains)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BettingPlan:
    """Bets on independent records for the m queries of a batch.

    They follow from public numbers, and are fixed before the queries.
    """

    predictions: Array  # expected score of each query, shape (m,)
    expected_variances: Array  # variance of a record's score, shape (m,)
    kurtosis: Array  # kurtosis of a record's score, shape (m,); NaN if unknown
    training_sizes: Array  # number of training records behind these numbers, shape (m,)
    margin: float  # noise margin by which a ratio may exceed a confirmed limit
    is_eligible: Array  # which queries have training scores that vary little, shape (m,)
    log_failure: float  # one-sided log failure probability for which the stakes are chosen
    n: int  # number of holdout records
    #: Computed bets by position of the query.
    _bets: dict[int, Bets] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def log_alpha_fractions(self) -> tuple[Array, Array]:
        """Logs of two fractions of a failure probability, both of shape (m,).

        The first fraction is for limits from the mean alone, the second for limits by bets.
        """
        return _log_alpha_fractions(self.is_eligible)

    def limits_to_try(self, i: int) -> Array:
        """Return ascending upper limits of `Bets.ratio` of query ``i``, to be tried in turn."""
        first_limit = 1.0 / self.bets(i).max_ratio + self.margin
        return np.minimum(first_limit * np.array(RELATIVE_LIMITS), 1.0)

    def bets(self, i: int) -> Bets:
        """Return the bets of query ``i``, which depend on public numbers only."""
        if i not in self._bets:
            prediction = float(self.predictions[i])
            centers = (prediction, 1.0 - prediction)
            bets_by_side = [self._best_bet(i, center) for center in centers]
            stakes, allowed_shortfalls, max_ratios = zip(*bets_by_side, strict=True)
            self._bets[i] = Bets(centers, stakes, allowed_shortfalls, max(max_ratios))
        return self._bets[i]

    def _best_bet(self, i, center):
        """Return the stake of a bet on query ``i``, and the shortfalls that belong to it.

        ``center`` is the predicted mean of the scores or, for the upper limit, of 1 minus them. Of
        stakes up to 0.8, the chosen one has the highest limit if scores follow a beta distribution.
        Limits are valid for all distributions.

        Returns
        -------
        stake : float
            Stake in (0, 1).
        allowed_shortfall : float
            Mean shortfall that the lowest limit to try allows if comparisons have no noise.
        max_ratio : float
            Largest possible shortfall of a record over ``allowed_shortfall``.
        """
        variance = float(self.expected_variances[i])
        parameter_sum = center * (1.0 - center) / variance - 1.0  # of both beta parameters
        probabilities = (np.arange(_N_LAW_QUANTILES) + 0.5) / _N_LAW_QUANTILES
        scores = betaincinv(center * parameter_sum, (1.0 - center) * parameter_sum, probabilities)
        stakes = _RATES[_RATES <= _MAX_STAKE_OF_RECORD]
        shortfalls = _shortfalls(scores, center, stakes[:, None])
        expected_shortfalls = np.maximum(shortfalls.mean(axis=1), 1e-12)
        relative_deviations = shortfalls.std(axis=1) / expected_shortfalls
        n_deviations = _MIN_ALLOWED_DEVIATIONS
        if np.isfinite(self.kurtosis[i]):
            n_deviations = _ALLOWED_DEVIATIONS
            beta_kurtosis = float(np.mean((scores - scores.mean()) ** 4) / scores.var() ** 2)
            excess_ratio = (self.kurtosis[i] - 1.0) / max(beta_kurtosis - 1.0, 1e-12)
            relative_deviations *= math.sqrt(max(1.0, excess_ratio))
        sampling_factor = math.sqrt(1.0 / self.n + 1.0 / float(self.training_sizes[i]))
        allowed_excess = n_deviations * relative_deviations * sampling_factor
        allowed_shortfalls = expected_shortfalls * (1.0 + allowed_excess)
        extreme_scores = np.array([0.0, 1.0])
        largest_shortfalls = _shortfalls(extreme_scores, center, stakes[:, None]).max(axis=1)
        predicted_limits = betting_lower_limit(
            np.full(stakes.shape, center),
            self.log_failure,
            self.n,
            center=center,
            stake=stakes,
            shortfall=allowed_shortfalls + 2.0 * self.margin * largest_shortfalls,
        )
        best_index = int(np.argmax(predicted_limits))
        allowed_shortfall = float(allowed_shortfalls[best_index])
        max_ratio = float(largest_shortfalls[best_index]) / allowed_shortfall
        return float(stakes[best_index]), allowed_shortfall, max_ratio

    def limits(
        self,
        lowest: Array,
        highest: Array,
        log_alpha_one_sided: Array,
        confirmed_limits: dict[int, float],
    ) -> tuple[Array, Array]:
        """Return lower and upper limits of the expectations of m queries.

        Parameters
        ----------
        lowest, highest : ndarray of shape (m,)
            Ends of the possible holdout means.
        log_alpha_one_sided : ndarray of shape (m,)
            Logs of one-sided failure probabilities.
        confirmed_limits : dict of int to float
            Upper limits of :meth:`Bets.ratio` that the mechanism confirmed, noise margins included,
            by position of the query.

        Returns
        -------
        lower, upper : ndarray of shape (m,)
            In [0, 1]; 0 and 1 for a query without a confirmed limit.
        """
        lower = np.zeros(len(self.predictions))
        upper = np.ones(len(self.predictions))
        for i, ratio_limit in confirmed_limits.items():
            bets = self.bets(i)
            log_failure = log_alpha_one_sided[i] + math.log(VARIANCE_LIMIT_FRACTION)
            lower_limits = [  # of the mean, and of 1 minus it
                float(
                    betting_lower_limit(
                        lowest_mean,
                        log_failure,
                        self.n,
                        center=center,
                        stake=stake,
                        shortfall=ratio_limit * bets.max_ratio * allowed_shortfall,
                    )
                )
                for lowest_mean, center, stake, allowed_shortfall in zip(
                    (lowest[i], 1.0 - highest[i]),
                    bets.centers,
                    bets.stakes,
                    bets.allowed_shortfalls,
                    strict=True,
                )
            ]
            lower[i], complement_lower = lower_limits
            upper[i] = 1.0 - complement_lower
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
    """Return the bets of a batch on ``n`` independent records, from public numbers (theory G15).

    Queries are eligible if their training variance is known and clearly below the largest possible
    one. Limits are valid for all predictions, variances and kurtoses, and narrow if these are near
    the true ones.

    Parameters
    ----------
    predictions : array-like of shape (m,)
        Expected scores, in [0, 1].
    variances : array-like of shape (m,)
        Variance of a record's score on the training set; NaN if unknown.
    training_sizes : float or array-like of shape (m,)
        Number of training records behind each variance.
    n : int
        Number of holdout records.
    log_failure : float
        Approximate log of the one-sided failure probability of the limits. It determines the
        stakes.
    kurtosis : float or array-like of shape (m,), default=nan
        Kurtosis of a record's score on the training set; NaN if unknown.
    margin : float, default=0.0
        Noise margin of a comparison with the holdout, in units of :meth:`Bets.ratio`. It is added
        to the lowest upper limit to try, so that noise alone does not reject that.

    Returns
    -------
    BettingPlan
        Fixed before the queries.
    """
    centers = np.clip(check_array("predictions", predictions), 1e-3, 1.0 - 1e-3)
    sizes = np.broadcast_to(np.asarray(training_sizes, dtype=float), centers.shape)
    worst_variances = centers * (1.0 - centers)
    variances = np.asarray(variances, dtype=float)
    expected_variances = shrunken_variances(variances, worst_variances, sizes)
    is_eligible = np.isfinite(expected_variances) & (expected_variances < 0.7 * worst_variances)
    return BettingPlan(
        predictions=centers,
        expected_variances=np.where(is_eligible, expected_variances, worst_variances),
        kurtosis=np.broadcast_to(np.asarray(kurtosis, dtype=float), centers.shape),
        training_sizes=sizes,
        margin=margin,
        is_eligible=is_eligible,
        log_failure=check_real("log_failure", log_failure, high=0.0),
        n=n,
    )


def shrunken_variances(
    variances: Array, worst_variances: Array, training_sizes: FloatOrArray
) -> Array:
    """Return variances shrunk towards the largest possible ones, as if by two more training units.

    Unknown variances are NaN and stay NaN. ``training_sizes`` are the numbers of training units
    that variances were estimated from.
    """
    return (variances * training_sizes + 2.0 * worst_variances) / (training_sizes + 2.0)


def relative_deviation(
    worst_variance: FloatOrArray, variance: FloatOrArray, training_size: FloatOrArray
) -> Array:
    """Return the expected standard deviation of scores as a fraction of the largest possible one.

    Parameters
    ----------
    worst_variance : float or ndarray
        Largest possible variance of a unit's score.
    variance : float or ndarray
        Variance of a unit's score on the training set.
    training_size : float or ndarray
        Number of training records, or units, that ``variance`` was estimated from.

    Returns
    -------
    float or ndarray
        Ratio of two standard deviations, at most 1.
    """
    worst_variance = np.asarray(worst_variance, dtype=float)
    variance = np.asarray(variance, dtype=float)
    expected_variance = shrunken_variances(variance, worst_variance, training_size)
    return np.minimum(np.sqrt(expected_variance / worst_variance), 1.0)


# -- Bets on units in a secret order (G28) ---------------------------------------------------------

PRIOR_UNITS = 20.0  # prior number of units with the variance of the training set
MAX_STAKE = 0.9  # largest fraction of the wealth that one bet may lose
#: Stakes relative to those that are best for normal deviations. Skewed deviations lose more if the
#: stakes are high.
CAUTION = 0.9
#: Grid of means, in standard deviations from the center: step, the distance up to which steps are
#: equal, and the factor by which distances grow beyond.
_STEP, _NEAR, _GROWTH = 0.05, 8.0, 1.03
#: Units whose bets are prepared together. Rejected points are dropped after each block.
_UNITS_PER_BLOCK = 32


class UnitMoments(NamedTuple):
    """Predicted moments of the sums S and k of units or dates, which determine the bets on them.

    Limits are valid for all predictions. S and k are those of :func:`betting_interval`.
    """

    center: float  # expectation of S over that of k; inside (0, 1), except for dates
    variance: float  # expectation of (S - center * k)^2, positive
    mean_count: float  # mean of k


def unit_moments(sums: ArrayLike, counts: ArrayLike) -> UnitMoments:
    """Return the moments of training units for :func:`betting_interval`.

    Limits are valid for all moments, and narrow if they are near those of the holdout.

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g`` of units, as for :func:`betting_interval`. They are from models that
        were not fitted on the units (cross-validation), or expected ones.

    Returns
    -------
    UnitMoments
        The total of sums over that of counts, shrunk towards 1/2, the mean square of
        ``S_g - center * k_g``, bounded from below, and the mean count.

    Raises
    ------
    ValueError
        If every count is 0, or a number is negative or not finite.
    """
    sums = check_array("sums", sums, low=0.0)
    counts = check_array("counts", counts, low=0.0)
    total_count = float(counts.sum())
    if not total_count > 0.0:
        raise ValueError(f"counts must not all be 0, got {counts.size} units of count 0.")
    center = (float(sums.sum()) + 0.5) / (total_count + 1.0)
    mean_count = total_count / counts.size
    variance = np.mean((sums - center * counts) ** 2)
    min_variance = 0.01 * center * (1.0 - center) * mean_count
    return UnitMoments(center, max(min_variance, float(variance)), mean_count)


def betting_interval(sums, counts, *, bound, moments, log_inverse_alpha):
    r"""Return limits for ``E S / E k`` of units that are independent and identically distributed.

    Each of the two limits fails with probability at most ``exp(-log_inverse_alpha)``: pass
    :math:`L = \ln(2/\alpha)` for a two-sided interval (theory G28, STaR bets).

    Parameters
    ----------
    sums, counts : array-like of shape (n_units,)
        ``S_g`` and ``k_g``: sums of the numerators and of the denominators of the records of unit
        ``g``, both divided by the number of its records if all units weigh equally, so that
        ``k_g`` may be a fraction. ``0 <= S_g <= k_g <= bound``. The order is secret, does not
        depend on the values, and is drawn once and never again. Units with ``k_g = 0`` are
        included. The number of units is fixed by design. ``counts`` may be one number for all
        units.
    bound : float
        Largest possible ``k_g``, fixed before the split: never the holdout's own maximum.
    moments : UnitMoments
        From training units, by :func:`unit_moments`.
    log_inverse_alpha : float
        Minus the log of the failure probability of one side, in nats.

    Returns
    -------
    lower, upper : float
        In [0, 1]. For paired differences ``d`` in ``[-r, r]``, pass the sums of ``(1 + d/r)/2``.
        A limit ``mu`` is then ``r (2 mu - 1)`` in units of the differences.
    """
    unit_sums, unit_counts = _check_sums_and_counts(sums, counts, bound)
    nats_needed = check_real("log_inverse_alpha", log_inverse_alpha, low=0.0, closed="neither")
    center, variance, mean_count = moments
    center_deviation = math.sqrt(variance / len(unit_sums)) / mean_count
    grids = [_grid(side_center, center_deviation) for side_center in (center, 1.0 - center)]
    # Only points up to the first that is not rejected are needed. Points above one standard
    # deviation below the center are tried only if all below are rejected.
    low_points = []
    high_points = []
    for grid, side_center in zip(grids, (center, 1.0 - center), strict=True):
        n_low_points = np.searchsorted(grid, side_center - center_deviation)
        low_points.append(grid[:n_low_points])
        high_points.append(grid[n_low_points:])
    n_rejected = _count_rejected(unit_sums, unit_counts, low_points, bound, variance, nats_needed)
    remaining_points = [
        high if count == len(low) else high[:0]
        for count, low, high in zip(n_rejected, low_points, high_points, strict=True)
    ]
    if any(map(len, remaining_points)):
        n_rejected_above = _count_rejected(
            unit_sums, unit_counts, remaining_points, bound, variance, nats_needed
        )
        n_rejected = [
            below + above for below, above in zip(n_rejected, n_rejected_above, strict=True)
        ]
    # The limit is the last point before the first that is not rejected. It exceeds the true mean
    # only if the first grid point from the mean on is rejected, whose wealth is a supermartingale
    # (Ville). Bisection would look at other points, too, and is not valid.
    lower, complement_lower = (
        float(grid[count - 1]) if count else 0.0
        for grid, count in zip(grids, n_rejected, strict=True)
    )
    return lower, 1.0 - complement_lower


def expected_betting_half_width(
    scores: ArrayLike,
    n_units: int,
    *,
    moments: UnitMoments,
    log_inverse_alpha: float,
    interval: Callable[..., tuple[float, float]] = betting_interval,
    n_orders: int = 1,
) -> float:
    """Return the expected half-width of limits of the mean score of units, by simulation.

    Parameters
    ----------
    scores : array-like of shape (n_quantiles,)
        Quantiles of the expected distribution of unit scores at evenly spaced probabilities,
        ascending in [0, 1]. ``min(n_quantiles, n_units)`` units are simulated, in fixed random
        orders. Half-widths are taken to fall like 1 over the root of the number of units.
    n_units : int
        Number of units that the half-width is for.
    moments : UnitMoments
        Expected moments of a unit's score, each with a count of 1.
    log_inverse_alpha : float
        Minus the log of the failure probability of one side, in nats.
    interval : callable, default=betting_interval
        A function with the parameters of :func:`betting_interval`.
    n_orders : int, default=1
        Number of simulated orders. The order matters if few units have scores far from the mean.

    Returns
    -------
    float
        Half the distance of the limits for ``n_units`` units, averaged over the orders.
    """
    quantiles = check_array("scores", scores, low=0.0, high=1.0)
    n_simulated = min(n_units, len(quantiles))
    probabilities = (np.arange(n_simulated) + 0.5) / n_simulated
    unit_scores = quantiles[(probabilities * len(quantiles)).astype(int)]
    half_widths = []
    for order_index in range(n_orders):
        shuffled_scores = np.random.default_rng(order_index // 2).permutation(unit_scores)
        # Every second order is the reverse of the one before it: early scores come late.
        lower, upper = interval(
            shuffled_scores[::-1] if order_index % 2 else shuffled_scores,
            np.ones(n_simulated),
            bound=1.0,
            moments=moments,
            log_inverse_alpha=log_inverse_alpha,
        )
        half_widths.append(0.5 * (upper - lower))
    return float(np.mean(half_widths)) * math.sqrt(n_simulated / n_units)


def _check_sums_and_counts(sums, counts, bound):
    """Return sums and counts as float arrays of shape (n_units,), with sums at most counts.

    Both may be fractions. Sums that exceed their counts by a rounding error are lowered to them.
    Raise ValueError without units, or unless ``0 <= sums <= counts <= bound``.
    """
    sums = check_array("sums", sums, low=0.0)
    counts = np.broadcast_to(check_array("counts", counts, low=0.0, high=bound), sums.shape)
    if not (sums.ndim == 1 and sums.size and np.all(sums <= counts * (1.0 + 1e-12))):
        raise ValueError("sums must be one-dimensional, not empty, and at most counts.")
    return np.minimum(sums, counts), counts


def _grid(center, deviation):
    """Return an ascending grid of means inside (0, 1) around the predicted mean ``center``.

    ``deviation`` is the standard error of a mean.
    """
    even_distances = deviation * np.arange(0.0, _NEAR + _STEP / 2.0, _STEP)
    n_steps = max(0.0, math.log(1.0 / even_distances[-1]) / math.log(_GROWTH))
    growing_distances = even_distances[-1] * _GROWTH ** np.arange(1.0, n_steps + 1.0)
    distances = np.concatenate([even_distances, growing_distances])
    means = np.concatenate([center - distances[:0:-1], center + distances])
    return means[(means > 0.0) & (means < 1.0)]


def _count_rejected(sums, counts, points, bound, variance, nats_needed):
    """Return for both sides the number of points before the first one that bets do not reject.

    ``points`` are two ascending arrays: means for the lower limit, and 1 minus means for the upper
    limit, which bets on counts minus sums. ``sums`` and ``counts`` are those of units (counts may
    be fractions), ``bound`` is the largest possible count, ``variance`` the predicted one of
    ``sum - mean * count``, and ``nats_needed`` the log wealth that rejects a point.
    """
    # Arrays over all points of both sides: side (0: lower limit, 1: upper limit), position among
    # the points of the side, and the mean to reject (for the upper limit, 1 minus it).
    side_index = np.repeat([0, 1], [len(side_points) for side_points in points])
    point_index = np.concatenate([np.arange(len(side_points)) for side_points in points])
    means = np.concatenate(points)
    sums_by_side = np.column_stack([sums, counts - sums])
    nats_left = np.full(means.size, nats_needed)  # until a point is rejected
    sums_of_squares = np.full(means.size, PRIOR_UNITS * variance)
    for start in range(0, len(sums), _UNITS_PER_BLOCK):
        block = slice(start, start + _UNITS_PER_BLOCK)
        # Shapes (units of the block, points).
        block_deviations = sums_by_side[block][:, side_index] - means * counts[block, None]
        squares_before = np.cumsum(np.vstack([sums_of_squares, block_deviations**2]), axis=0)
        sums_of_squares = squares_before[-1]
        # V_t = (20 v + sum of the squares so far) / (19 + t), for G - t + 1 units still to come.
        unit_number = np.arange(start + 1.0, start + 1.0 + len(block_deviations))[:, None]
        variance_to_come = squares_before[:-1] * (len(sums) - unit_number + 1.0)
        # The best stake for n nats left is this factor times sqrt(n).
        block_factors = CAUTION * np.sqrt(
            2.0 * (PRIOR_UNITS - 1.0 + unit_number) / variance_to_come
        )
        max_stakes = MAX_STAKE / (means * bound)
        zeros = np.zeros(means.size)
        for deviations, factors in zip(block_deviations, block_factors, strict=True):
            stakes = np.minimum(np.sqrt(nats_left) * factors, max_stakes)
            # Rejected points have 0 nats left and stake nothing more.
            nats_left = np.maximum(nats_left - np.log(1.0 + stakes * deviations), zeros)
        is_remaining = nats_left > 0.0
        side_index = side_index[is_remaining]
        point_index = point_index[is_remaining]
        means = means[is_remaining]
        nats_left = nats_left[is_remaining]
        sums_of_squares = sums_of_squares[is_remaining]
    return [
        int(point_index[side_index == side].min(initial=len(side_points)))
        for side, side_points in enumerate(points)
    ]


def order_free_interval(sums, counts, *, bound, moments, log_inverse_alpha):
    r"""Return limits for ``sum E S_g / sum E k_g`` of independent units with any distributions.

    It is for stratified holdouts, for nodes of a network given all other nodes, and for observed
    regimes. ``sums`` and ``counts`` have ``S_g`` and ``k_g`` of each unit in any order, as for
    :func:`betting_interval`, ``moments`` are their predicted moments, and ``log_inverse_alpha`` is
    :math:`L`, minus the log of the failure probability of one side. The upper limit is 1 minus the
    lower limit for the sums ``k_g - S_g``. A mean ``m`` is below the lower limit if

    .. math:: \sum_g \ln\Bigl(1 + \lambda\frac{S_g - m k_g}{m K}\Bigr) \ge L,

    with the ``bound`` :math:`K` and with :math:`\lambda` in (0, 1), which does not depend on sums
    and counts. Theory G28 (order-free form of G15 and G18).
    """
    unit_sums, unit_counts = _check_sums_and_counts(sums, counts, bound)
    nats_needed = check_real("log_inverse_alpha", log_inverse_alpha, low=0.0, closed="neither")
    centers = (moments.center, 1.0 - moments.center)
    sums_by_side = (unit_sums, unit_counts - unit_sums)
    lower_limits = []  # of the mean and of 1 minus it
    for center, side_sums in zip(centers, sums_by_side, strict=True):
        # About the rate with the fastest growth if the units have these moments, for the mean at
        # the limit that a normal approximation predicts.
        half_width = (
            math.sqrt(2.0 * nats_needed * moments.variance / len(unit_sums)) / moments.mean_count
        )
        predicted_limit = center**2 / (center + half_width)
        mean_excess = (center - predicted_limit) * moments.mean_count  # of S_g - m k_g
        mean_square = mean_excess**2 + moments.variance
        rate = min(0.95, mean_excess * predicted_limit * bound / mean_square)

        def is_rejected(means, side_sums=side_sums, rate=rate):
            deviations = (side_sums - means[:, None] * unit_counts) / (means[:, None] * bound)
            return np.log1p(rate * deviations).sum(axis=1) >= nats_needed

        largest_rejected = last_accepted(is_rejected, np.array([1e-300]), np.array([1.0]))
        lower_limits.append(float(largest_rejected[0]))
    lower, complement_lower = lower_limits
    return lower if lower > 1e-299 else 0.0, 1.0 - complement_lower


def clopper_pearson_interval(
    hits: int, count: int, alpha: float, *, identically_distributed: bool = True
) -> tuple[float, float]:
    """Return Clopper-Pearson limits of a proportion of independent records (theory G8).

    Parameters
    ----------
    hits, count : int
        Number of hits, and of records.
    alpha : float
        Failure probability of both limits together, at most 1/2.
    identically_distributed : bool, default=True
        Whether all records have the same probability of a hit. If not (stratified records, nodes
        given all others), the limits are for the mean probability. The lower limit for one hit is
        then ``alpha / (2 count)``, and the upper limit for one miss is 1 minus that (Hoeffding
        1956).

    Returns
    -------
    lower, upper : float
        In [0, 1]; 0 and 1 if ``count`` is 0.
    """
    hits = check_integer("hits", hits, low=0)
    count = check_integer("count", count, low=0)
    alpha = check_real("alpha", alpha, low=0.0, high=0.5, closed="right")
    alpha_one_sided = 0.5 * alpha

    def lower_limit(n_hits):
        if n_hits == 0:
            return 0.0
        if n_hits == 1 and not identically_distributed:
            return alpha_one_sided / count
        return float(beta_distribution.ppf(alpha_one_sided, n_hits, count - n_hits + 1))

    return lower_limit(hits), 1.0 - lower_limit(count - hits)


# -- Dates, each given its past (G26) --------------------------------------------------------------

#: Stakes of a mixture, as multiples of the best stake for the predicted variance.
RELATIVE_STAKES = (1.0, 0.25, 0.5, 2.0, 4.0)
#: Weight of each stake in the mixture.
STAKE_WEIGHTS = (0.8, 0.05, 0.05, 0.05, 0.05)
#: Largest distance of a center from the lower end of a score, times the stake.
_MAX_CENTER_STAKE = 0.9


def martingale_lower_limit(
    scores: ArrayLike,
    log_failure: float,
    *,
    stakes: ArrayLike,
    stake_weights: ArrayLike = (1.0,),
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
    stakes : float or array-like of shape (K,)
        Positive stakes :math:`a`, fixed in advance.
    stake_weights : array-like of shape (K,), default=(1.0,)
        Weights of the stakes in a mixture, which sum to at most 1.
    center : float or array-like of shape (T,), default=0.0
        Predicted score :math:`c_t` of each date, fixed before it. It is lowered to
        ``lowest + 0.9 / stake`` if it is above.
    lowest : float or array-like of shape (T,), default=0.0
        Smallest possible score of each date, fixed before it.
    horizon : int, default=1
        Largest number :math:`H` of dates from a forecast to its score. The limit is for the mean
        expected score given the information at forecast time. With 1, forecasts are made on the
        date before.

    Returns
    -------
    float
        At least the mean of ``lowest``. An upper limit is minus the lower limit of ``-scores``, for
        which ``lowest`` is minus the largest possible score.
    """
    scores = check_array("scores", scores, shape=(None,))
    n_dates = len(scores)
    nats_needed = -check_real("log_failure", log_failure, high=0.0)
    stakes = np.atleast_1d(check_array("stakes", stakes, low=0.0))[:, None]
    log_stake_weights = np.log(check_array("stake_weights", stake_weights, low=0.0, high=1.0))
    horizon = check_integer("horizon", horizon, low=1)
    lowest = np.broadcast_to(np.asarray(lowest, float), (n_dates,))
    centers = np.minimum(center, lowest + _MAX_CENTER_STAKE / stakes)
    mean_centers = centers.mean(axis=1)
    stake = stakes[:, 0]
    log_numerators = np.log1p(stakes * (scores - centers)).sum(axis=1)

    def single_stake_limits(nats):
        """Return each stake's lower limit, shape (K,), if ``nats`` of log wealth reject a mean."""
        growth = np.expm1((log_numerators - horizon * nats) / n_dates)
        return mean_centers + growth / stake

    # The mixture rejects a mean if one stake rejects it alone with its weight, and only if one
    # stake would reject it with a weight of 1. The limit is between the two, found by bisection.
    low = float(np.max(single_stake_limits(nats_needed - log_stake_weights)))
    high = float(np.max(single_stake_limits(nats_needed)))
    floor = float(lowest.mean())
    for _ in range(48 if len(stakes) > 1 and high > floor else 0):
        mean = max(0.5 * (low + high), floor)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_denominators = n_dates * np.log1p(stake * (mean - mean_centers))
            log_wealth = (log_numerators - log_denominators) / horizon
        if np.logaddexp.reduce(log_wealth + log_stake_weights) >= nats_needed:
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
    """Return a lower and an upper limit for the mean expected score of dates (theory G26).

    Stakes are chosen for the expected mean and variance of the scores. Limits are valid for all
    means and variances.

    Parameters
    ----------
    scores : array-like of shape (T,)
        Score of each date, in order.
    log_failure : float
        Log of half the failure probability of both limits together.
    expected : float
        Expected score of a date, fixed in advance.
    variance : float or None
        Expected variance of a date's score, fixed in advance. If None, stakes are chosen for
        scores of 0 and 1.
    lowest, highest : float or array-like of shape (T,), default=0.0, 1.0
        Smallest and largest possible score of each date, fixed before it. For a difference of two
        absolute errors: minus and plus the distance of the forecasts.
    horizon : int, default=1
        Largest number of holdout dates from a forecast to its score; with 1, forecasts are made on
        the date before.
    lower_share : float, default=0.5
        Fraction of the failure probability for the lower limit, fixed in advance. If a difference
        is expected to be positive, a larger fraction shows it with fewer dates.

    Returns
    -------
    lower, upper : float
        Limits of the mean conditional expectation, in units of the scores.
    """
    scores = check_array("scores", scores, shape=(None,))
    lower_share = check_real("lower_share", lower_share, low=0.0, high=1.0, closed="neither")
    limits = []
    # The upper limit is minus the lower limit of minus the scores.
    for sign, lower_ends, alpha_fraction in (
        (1.0, np.asarray(lowest, float), lower_share),
        (-1.0, -np.asarray(highest, float), 1.0 - lower_share),
    ):
        log_alpha_one_sided = min(-1e-9, log_failure + math.log(2.0 * alpha_fraction))
        signed_limit = _lower_limit_for_moments(
            sign * scores,
            log_alpha_one_sided,
            expected=sign * expected,
            variance=variance,
            lowest=lower_ends,
            horizon=horizon,
        )
        limits.append(sign * signed_limit)
    lower, upper = limits
    return lower, upper


def _lower_limit_for_moments(scores, log_alpha_one_sided, *, expected, variance, lowest, horizon):
    """Return a lower limit for the mean expected score of dates, with stakes for expected moments.

    ``expected`` and ``variance`` are the expected mean and variance of a date's score. If
    ``variance`` is None, stakes are for scores with two possible values at a distance of 1.
    ``lowest`` has the smallest possible score of each date, or of all, and ``horizon`` is the
    largest number of dates from a forecast to its score.
    """
    n_dates = len(scores)
    if variance is None:
        expected_distance = expected - lowest.mean()
        return martingale_lower_limit(
            scores,
            log_alpha_one_sided,
            stakes=binary_score_stake(expected_distance, log_alpha_one_sided, n_dates, horizon),
            center=lowest,
            lowest=lowest,
            horizon=horizon,
        )
    best_stake = math.sqrt(-2.0 * horizon * log_alpha_one_sided / (n_dates * max(variance, 1e-12)))
    return martingale_lower_limit(
        scores,
        log_alpha_one_sided,
        stakes=best_stake * np.array(RELATIVE_STAKES),
        stake_weights=STAKE_WEIGHTS,
        center=expected,
        lowest=lowest,
        horizon=horizon,
    )


def binary_score_stake(
    predicted_mean: FloatOrArray, log_failure: FloatOrArray, n: int, horizon: int = 1
) -> Array:
    r"""Return the best stake for scores of 0 and 1 if their mean is the predicted one (theory G26).

    The stake :math:`a` is that of Chernoff's bound at the rate
    :math:`\ln(1 + a) = \ln\frac{v(1-p)}{p(1-v)}`, for the predicted mean :math:`v` and the
    solution :math:`p < v` of :math:`\mathrm{kl}(v \,\|\, p) = HL/T`, with the horizon :math:`H`,
    :math:`L` minus the log of the one-sided failure probability and :math:`T` dates (``n``).
    """
    mean = np.clip(predicted_mean, 0.5 / n, 1.0 - 0.5 / n)
    nats_per_date = -horizon * np.asarray(log_failure) / n

    def is_divergence_small(p):
        with np.errstate(divide="ignore"):
            divergence = xlogy(mean, mean / p) + xlogy(1.0 - mean, (1.0 - mean) / (1.0 - p))
        return divergence <= nats_per_date

    p = np.maximum(
        last_accepted(is_divergence_small, mean * np.ones_like(nats_per_date), 0.0, steps=60),
        1e-300,
    )
    return mean * (1.0 - p) / (p * (1.0 - mean)) - 1.0


def martingale_mean_lower_limit(
    values: ArrayLike, log_failure: ArrayLike, n: int, *, expected: ArrayLike
) -> Array:
    """Return lower limits for the mean expected score of dates, from means alone (theory G26).

    They are Chernoff's limits, with the stake of :func:`binary_score_stake`. By concavity they are
    valid for all scores in [0, 1], not only for 0 and 1.

    Parameters
    ----------
    values : array-like of shape (m,)
        Means of the scores, or lower limits of them, in [0, 1].
    log_failure : array-like of shape (m,)
        Log of the one-sided failure probability, at most 0.
    n : int
        Number of dates.
    expected : array-like of shape (m,)
        Predicted mean of the scores, fixed before the first date.

    Returns
    -------
    ndarray of shape (m,)
        Limits in [0, 1].
    """
    values = check_array("values", values)
    log_failure = check_array("log_failure", log_failure, high=0.0)
    stake = binary_score_stake(np.asarray(expected, float), log_failure, n)
    return np.maximum(0.0, np.expm1(values * np.log1p(stake) + log_failure / n) / stake)
