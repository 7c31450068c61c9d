"""Limits by squared deviations (theory G15): enumeration of every outcome, and their gain."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.correlation.tails import bounded_lower_limit
from sklearn_bdp.intervals.bounds import (
    UnitWeights,
    betting_lower_limit,
    empirical_bernstein_lower_limit,
    plan_bets,
    plan_variance_limits,
    shrunken_variances,
)


def worst_ratio(points, weights, n, center, rate, level):
    """Return the largest P[limit > mean] / failure over profiles of records with these laws."""
    outcomes = np.array(list(itertools.product(range(len(points)), repeat=n)))
    largest_ratio = 0.0
    scores = points[outcomes]
    limits = empirical_bernstein_lower_limit(
        scores.mean(axis=1), level, UnitWeights.from_records(n), center=center,
        squared_deviations=np.mean((scores - center) ** 2, axis=1), rate=rate,
    )  # fmt: skip
    for profile in itertools.combinations_with_replacement(range(len(weights)), n):
        laws = weights[list(profile)]
        probabilities = np.prod(laws[np.arange(n), outcomes], axis=1)
        miss_probability = probabilities[limits > np.mean(laws @ points) + 1e-12].sum()
        largest_ratio = max(largest_ratio, miss_probability / math.exp(level))
    return largest_ratio


@pytest.mark.parametrize("center", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("rate", [0.2, 0.6, 0.97])
def test_no_profile_of_scores_misses_more_often_than_the_level(center, rate):
    """G15: all outcomes of up to four records, alike or not, whatever center and rate."""
    points = np.array([0.0, 0.35, 0.6, 1.0])
    weights = np.array(
        [[0.05, 0.05, 0.1, 0.8], [0.1, 0.6, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1], [0, 0.5, 0.5, 0]]
    )
    for n, level in itertools.product((1, 2, 4), (-0.1, -0.7, -1.6)):
        assert worst_ratio(points, weights, n, center, rate, level) <= 1.0 + 1e-9


@pytest.mark.parametrize("sizes", [(1, 1), (3, 1), (2, 1, 1), (4, 2, 1)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.97])
def test_no_groups_miss_more_often_than_the_level(sizes, rate):
    """G18: all outcomes of up to three groups of unequal size, each with a law of its own."""
    units = UnitWeights.from_sizes(sizes)
    group_weights = np.array(sizes) / sum(sizes)
    squared = group_weights**2 / np.sum(group_weights**2)
    points = np.array([0.0, 0.3, 1.0])
    laws = [np.array(law) for law in ((0.1, 0.1, 0.8), (0.6, 0.2, 0.2), (0.05, 0.9, 0.05))]
    outcomes = list(itertools.product(range(len(points)), repeat=len(sizes)))
    means = points[np.array(outcomes)]
    largest_ratio = 0.0
    for profile, center, level in itertools.product(
        itertools.product(laws, repeat=len(sizes)), (0.15, 0.5, 0.85), (-0.1, -0.7, -1.6)
    ):
        expected_mean = sum(
            group_weight * law @ points
            for group_weight, law in zip(group_weights, profile, strict=True)
        )
        table = [
            math.prod(group_law[i] for group_law, i in zip(profile, outcome, strict=True))
            for outcome in outcomes
        ]
        squares = (means - center) ** 2 @ squared
        limits = empirical_bernstein_lower_limit(
            means @ group_weights,
            level,
            units,
            center=center,
            squared_deviations=squares,
            rate=rate,
        )
        largest_ratio = max(
            largest_ratio, np.array(table)[limits > expected_mean + 1e-12].sum() / math.exp(level)
        )
    assert 0.1 < largest_ratio <= 1.0 + 1e-9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 1), (4, 3, 2, 1)])
def test_no_record_moves_a_mean_square_by_more_than_the_sensitivity(sizes):
    """G18: the noise for squares of groups is scaled by this sensitivity."""
    units = UnitWeights.from_sizes(sizes)
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(len(sizes)), sizes)
    squared = np.array(sizes) ** 2.0
    for center, _ in itertools.product((0.0, 0.4, 1.0), range(40)):
        scores = np.round(rng.random(len(group)))
        for record, score in itertools.product(range(len(group)), (0.0, 1.0)):
            changed_scores = scores.copy()
            changed_scores[record] = score
            mean_squares = [
                squared @ (np.bincount(group, record_scores) / sizes - center) ** 2 / squared.sum()
                for record_scores in (scores, changed_scores)
            ]
            assert abs(mean_squares[0] - mean_squares[1]) <= units.sensitivity + 1e-12


def test_groups_of_one_are_records():
    units_of_groups = UnitWeights.from_sizes(np.ones(70))
    units_of_records = UnitWeights.from_records(70)
    for name in ("n_units", "largest_weight", "sum_of_squares", "effective_n", "sensitivity"):
        assert getattr(units_of_groups, name) == pytest.approx(getattr(units_of_records, name))


def test_limits_rise_with_values_and_fall_with_squares():
    """G15: cells may be entered with their ends, for the limit is monotone in both."""
    values = np.linspace(0.0, 1.0, 41)
    limits = empirical_bernstein_lower_limit(
        values, -5.0, UnitWeights.from_records(200), center=0.7, squared_deviations=0.02, rate=0.3
    )
    assert (np.diff(limits) >= 0.0).all()
    assert (limits <= values).all()
    squares = np.linspace(0.0, 0.3, 41)
    limits = empirical_bernstein_lower_limit(
        0.7, -5.0, UnitWeights.from_records(200), center=0.7, squared_deviations=squares, rate=0.3
    )
    assert (np.diff(limits) <= 0.0).all()


def test_scores_of_small_variance_have_half_the_width():
    """G15: a regression error of deviation .11 at .86, 1,000 records."""
    n = 1000
    level = -7.3
    center = 0.86
    variance = 0.0121
    sizes = np.array([3000.0])
    plan = plan_variance_limits(
        np.array([center]),
        np.array([variance]),
        training_sizes=sizes,
        units=UnitWeights.from_records(n),
        log_failure=level,
    )
    assert plan.is_eligible.all()
    levels = {0: float(plan.tried_limits[0, 0])}
    values = np.array([center])
    log_failures = np.array([level])
    lower, upper = plan.limits(values, values, log_failures, levels)
    bounded_limits = bounded_lower_limit(np.array([center, 1.0 - center]), log_failures, n)
    assert center - lower[0] < 0.5 * (center - bounded_limits[0])
    assert upper[0] - center < 0.5 * (1.0 - center - bounded_limits[1])
    assert plan.limits(values, values, log_failures, {})[0] == 0.0


def test_binary_scores_and_missing_variances_are_not_eligible():
    values = np.array([0.86, 0.86, 0.5])
    variances = np.array([0.86 * 0.14, np.nan, 0.25])
    plan = plan_variance_limits(
        values,
        variances,
        training_sizes=np.full(3, 500.0),
        units=UnitWeights.from_records(200),
        log_failure=-6.0,
    )
    assert not plan.is_eligible.any()
    shares_of_means, by_squares = plan.log_alpha_fractions
    assert (shares_of_means == 0.0).all()
    assert (by_squares == -math.inf).all()


def test_shares_of_both_limits_sum_to_one():
    """G15: one query has a plain limit and a limit by squares."""
    plan = plan_variance_limits(
        np.array([0.8]),
        np.array([0.01]),
        training_sizes=np.array([500.0]),
        units=UnitWeights.from_records(200),
        log_failure=-6.0,
    )
    assert np.exp(np.concatenate(plan.log_alpha_fractions)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kurtosis", [2.0, 21.0, 65.0])
def test_mean_squares_of_a_holdout_rarely_exceed_their_first_limit(kurtosis):
    """G15: scores of two values, as losses of a model that is rarely wrong and then sure."""
    n = 1000
    n_train = 3000
    n_draws = 4000
    error_rate = 0.5 - math.sqrt(0.25 - 1.0 / (kurtosis + 3.0))  # kurtosis is 1 / (p (1 - p)) - 3
    rng = np.random.default_rng(0)
    n_errors = rng.binomial(n, error_rate, n_draws)
    n_training_errors = rng.binomial(n_train, error_rate, n_draws)
    error_size = 0.3  # of an error
    training_share = n_training_errors / n_train
    plan = plan_variance_limits(
        1.0 - error_size * training_share,
        error_size**2 * training_share * (1.0 - training_share),
        training_sizes=np.full(n_draws, float(n_train)),
        units=UnitWeights.from_records(n),
        log_failure=-6.0,
        kurtosis=np.full(n_draws, kurtosis),
    )
    means = 1.0 - error_size * n_errors / n
    squares = 1.0 - (1.0 - (1.0 - error_size) ** 2) * n_errors / n
    deviations = plan.deviations(np.column_stack([means, squares]))
    assert plan.is_eligible.all()
    assert np.mean(deviations > plan.tried_limits[:, 0]) < 0.02


def test_a_variance_of_zero_is_replaced():
    variances = shrunken_variances(np.array([0.0]), np.array([0.2]), np.array([98.0]))
    assert variances == pytest.approx(0.004)


def mean_shortfall(scores, center, stake):
    gains = stake * (scores - center) / center
    return np.mean(gains - np.log1p(gains), axis=-1)


@pytest.mark.parametrize("center", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("stake", [0.1, 0.5, 0.8])
def test_no_profile_of_scores_misses_by_bets_more_often_than_the_level(center, stake):
    """G15: all outcomes of up to four records, alike or not; the exact mean shortfall is known."""
    points = np.array([0.0, 0.35, 0.6, 1.0])
    laws = np.array(
        [[0.05, 0.05, 0.1, 0.8], [0.1, 0.6, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1], [0, 0.5, 0.5, 0]]
    )
    for n, level in itertools.product((1, 2, 4), (-0.1, -0.7, -1.6)):
        outcomes = np.array(list(itertools.product(range(len(points)), repeat=n)))
        scores = points[outcomes]
        limits = betting_lower_limit(
            scores.mean(axis=1),
            level,
            n,
            center=center,
            stake=stake,
            shortfall=mean_shortfall(scores, center, stake),
        )
        for profile in itertools.combinations_with_replacement(range(len(laws)), n):
            profile_laws = laws[list(profile)]
            probabilities = np.prod(profile_laws[np.arange(n), outcomes], axis=1)
            misses = probabilities[limits > np.mean(profile_laws @ points) + 1e-12].sum()
            assert misses <= math.exp(level) * (1.0 + 1e-9)


def test_laws_at_the_worst_end_attain_the_level_of_bets():
    """G15: no sharper limit of this form exists. One record, all mass at both ends."""
    center, stake, level = 0.5, 0.8, math.log(0.6)
    scores = np.array([0.0, 1.0])
    limits = betting_lower_limit(
        scores, level, 1, center=center, stake=stake,
        shortfall=[mean_shortfall(scores[:1], center, stake),
                   mean_shortfall(scores[1:], center, stake)],
    )  # fmt: skip
    # P[limit > mean] = mean for each mean below the limit of a score of 1.
    assert 0.0 < limits[1] <= 0.6 + 1e-12


def test_limits_of_bets_rise_with_values_and_fall_with_shortfalls():
    values = np.linspace(0.0, 1.0, 41)
    limits = betting_lower_limit(values, -5.0, 200, center=0.7, stake=0.3, shortfall=0.02)
    assert (np.diff(limits) >= 0.0).all()
    assert (limits <= values).all()
    shortfalls = np.linspace(0.0, 0.3, 41)
    limits = betting_lower_limit(0.7, -5.0, 200, center=0.7, stake=0.3, shortfall=shortfalls)
    assert (np.diff(limits) <= 0.0).all()


def bets_of(center, variance, *, n, kurtosis=math.nan, log_failure=-7.0):
    plan = plan_bets(
        np.array([center]),
        np.array([variance]),
        training_sizes=np.array([3.0 * n]),
        n=n,
        log_failure=log_failure,
        kurtosis=kurtosis,
        margin=0.001,
    )
    assert plan.is_eligible.all()
    return plan


@pytest.mark.parametrize("center", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("share_of_worst", [0.01, 0.15, 0.6])
def test_no_record_moves_the_statistic_of_bets_by_more_than_one_in_n(center, share_of_worst):
    n = 40
    bets = bets_of(center, share_of_worst * center * (1.0 - center), n=n).bets(0)
    rng = np.random.default_rng(0)
    grid = np.r_[0.0, 1.0, center, rng.random(20)]
    for _ in range(40):
        scores = np.clip(center + 0.2 * rng.normal(size=n), 0.0, 1.0)
        ratios = []
        for score in grid:
            scores[0] = score
            ratios.append(bets.ratio(scores))
        assert max(ratios) - min(ratios) <= 1.0 / n + 1e-12
    for end in (0.0, 1.0):
        assert 0.0 <= bets.ratio(np.full(n, end)) <= 1.0


@pytest.mark.parametrize("center", [0.86, 0.92])
def test_bets_are_narrower_than_squares(center):
    """G15: ``ln(1 + x) >= x - psi x^2``, so that a mean shortfall costs less than a mean square."""
    n = 300
    level = np.array([-7.0])
    values = np.array([center])
    bets = bets_of(center, 0.015, n=n, kurtosis=9.0)
    squares = plan_variance_limits(
        values, np.array([0.015]), training_sizes=np.array([3.0 * n]),
        units=UnitWeights.from_records(n), log_failure=-7.0, kurtosis=9.0, margin=0.001,
    )  # fmt: skip
    widths = []
    for plan in (bets, squares):
        first_level = float(plan.limits_to_try(0)[0]) + 0.001
        lower, upper = plan.limits(values, values, level, {0: first_level})
        widths.append(upper[0] - lower[0])
    assert widths[0] < 0.88 * widths[1]


@pytest.mark.parametrize("kurtosis", [2.0, 21.0, 65.0])
def test_mean_shortfalls_of_a_holdout_rarely_exceed_their_first_limit(kurtosis):
    """G15: the two values of the test of squares above, which are no beta law."""
    n = 1000
    error_rate = 0.5 - math.sqrt(0.25 - 1.0 / (kurtosis + 3.0))
    error_size = 0.3
    rng = np.random.default_rng(0)
    bets = bets_of(
        1.0 - error_size * error_rate,
        error_size**2 * error_rate * (1.0 - error_rate),
        n=n,
        kurtosis=kurtosis,
    )
    first_level = bets.limits_to_try(0)[0]
    n_rejected = 0
    for _ in range(500):
        scores = 1.0 - error_size * (rng.random(n) < error_rate)
        n_rejected += bets.bets(0).ratio(scores) > first_level
    assert n_rejected < 15


@pytest.mark.parametrize("log_failure", [math.log(0.02), math.log(0.2)])
def test_limits_by_bets_hold_where_rare_losses_hide(log_failure):
    """G15: a loss that 60 records show with probability 1/2, and a variance that ignores it."""
    n = 60
    rng = np.random.default_rng(0)
    plan = bets_of(0.9, 0.001, n=n, log_failure=log_failure)
    bets = plan.bets(0)
    levels = plan.limits_to_try(0)
    for rare in (0.005, 0.012, 0.03, 0.06):
        n_draws = 3_000
        n_missed = 0
        for _ in range(n_draws):
            scores = np.clip(rng.normal(0.9, 0.03, n), 0.0, 1.0)
            scores[rng.random(n) < rare] = 0.0
            confirmed = levels[levels >= bets.ratio(scores)]
            if not confirmed.size:
                continue
            value = np.array([scores.mean()])
            lower, upper = plan.limits(
                value, value, np.array([log_failure]), {0: float(confirmed[0])}
            )
            n_missed += not lower[0] <= 0.9 * (1.0 - rare) <= upper[0]
        assert n_missed <= n_draws * 2.0 * math.exp(log_failure)
