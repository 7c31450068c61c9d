"""Limits by bets (G28): their assumptions, and guaranteed failure rates for all small laws."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from sklearn_bdp.intervals.bounds import (
    UnitMoments,
    betting_interval,
    clopper_pearson_interval,
    order_free_interval,
    unit_moments,
)
from tests.facts import refused

POINT_MASS_AT_ONE = (1.0, 1.0)


def miss_probabilities_of(laws, limits, target):
    """Return how probable it is that each limit misses, by all outcomes of independent units.

    ``laws``: of each unit the probability of every pair (S, k).
    """
    miss_probabilities = np.zeros(2)
    for outcome in itertools.product(*(law.items() for law in laws)):
        probability = math.prod(pair_probability for _, pair_probability in outcome)
        sums, counts = np.array([pair for pair, _ in outcome], dtype=float).T
        lower, upper = limits(sums, counts)
        miss_probabilities += probability * np.array([lower > target, upper < target])
    return miss_probabilities


# Laws of one unit: bits, three scores, shares among units of which some do not count, patients.
EQUAL_LAWS = [
    ({POINT_MASS_AT_ONE: 0.5, (0.0, 1.0): 0.5}, 1.0, 10),
    ({POINT_MASS_AT_ONE: 0.9, (0.0, 1.0): 0.1}, 1.0, 10),
    ({(0.1, 1.0): 0.7, (0.4, 1.0): 0.2, POINT_MASS_AT_ONE: 0.1}, 1.0, 6),
    ({POINT_MASS_AT_ONE: 0.4, (0.0, 1.0): 0.2, (0.0, 0.0): 0.4}, 1.0, 6),
    ({(2.0, 2.0): 0.2, POINT_MASS_AT_ONE: 0.3, (0.0, 1.0): 0.5}, 2.0, 6),
    ({(0.0, 3.0): 0.3, POINT_MASS_AT_ONE: 0.6, (0.5, 1.0): 0.1}, 3.0, 6),
]


@pytest.mark.parametrize(
    ("level", "moment_guess", "n_fewer_units"),
    [(0.2, "right", 2), (0.1, "far off", 2)]
    + [pytest.param(*case, 0, marks=pytest.mark.slow)
       for case in ((0.2, "right"), (0.05, "right"), (0.1, "far off"))],
)  # fmt: skip
def test_no_small_law_fails_more_often_than_the_level(level, moment_guess, n_fewer_units):
    """G28: every outcome of up to ten units, for any reference from the training set."""
    worst_rate = 0.0
    for law, bound, count in EQUAL_LAWS:
        count = count - n_fewer_units
        pairs = np.array(list(law))
        probabilities = np.array(list(law.values()))
        target = probabilities @ pairs[:, 0] / (probabilities @ pairs[:, 1])
        moments = unit_moments(*np.repeat(pairs, (100 * probabilities).astype(int), axis=0).T)
        if moment_guess == "far off":
            moments = UnitMoments(1.0 - moments.center, 3.0 * moments.variance, moments.mean_count)

        def limits(sums, counts, bound=bound, moments=moments):
            return betting_interval(
                sums, counts, bound=bound, moments=moments, log_inverse_alpha=-math.log(level)
            )

        worst_rate = max(worst_rate, miss_probabilities_of([law] * count, limits, target).max())
    assert worst_rate <= level
    assert moment_guess == "far off" or worst_rate > 0.4 * level  # not for nothing


def test_units_must_be_equal_in_a_secret_order():
    """Counterexample: means of .7, then of .3, in the order of the file."""
    rng = np.random.default_rng(0)
    n_missed = 0
    moments = UnitMoments(0.5, 0.25, 1.0)
    for _ in range(60):
        bits = (rng.random(200) < np.repeat([0.7, 0.3], 100)).astype(float)
        limits = betting_interval(bits, 1.0, bound=1.0, moments=moments, log_inverse_alpha=3.7)
        shuffled = rng.permutation(bits)
        order_free = order_free_interval(
            shuffled, 1.0, bound=1.0, moments=moments, log_inverse_alpha=3.7
        )
        n_missed += limits[0] > 0.5
        assert order_free[0] < 0.5 < order_free[1]
    assert n_missed > 10 * 60 * math.exp(-3.7)


def test_the_bound_is_fixed_before_the_split():
    """Counterexample: the largest count that the holdout happens to show as bound."""
    law = {POINT_MASS_AT_ONE: 0.93, (0.0, 20.0): 0.07}
    target = 0.93 / (0.93 + 20 * 0.07)
    moments = UnitMoments(target, 1.0, 2.33)

    def limits(sums, counts, bound):
        return betting_interval(sums, counts, bound=bound, moments=moments, log_inverse_alpha=3.0)

    promised = math.exp(-3.0)
    assert (
        miss_probabilities_of([law] * 8, lambda s, k: limits(s, k, 20.0), target).max() <= promised
    )
    assert (
        miss_probabilities_of([law] * 8, lambda s, k: limits(s, k, k.max()), target).max()
        > 5 * promised
    )


def test_a_redrawn_order_is_invalid():
    """Counterexample: the best of 20 orders."""
    rng = np.random.default_rng(1)
    level = 0.1
    n_missed = np.zeros(2)
    options = {"bound": 1.0, "moments": UnitMoments(0.7, 0.21, 1.0)}
    for _ in range(60):
        bits = (rng.random(16) < 0.7).astype(float)
        limits = [
            betting_interval(
                rng.permutation(bits), 1.0, log_inverse_alpha=-math.log(level), **options
            )
            for _ in range(20)
        ]
        n_missed += [limits[0][0] > 0.7, max(limits)[0] > 0.7]
    assert n_missed[0] <= 60 * level + 3 * math.sqrt(60 * level)
    assert n_missed[1] > 1.8 * 60 * level


def test_the_method_is_not_chosen_after_the_data():
    """Counterexample: the larger of the limits by bets and by Clopper and Pearson."""
    level = 0.1
    mean = 0.59
    moments = UnitMoments(0.3, 0.21, 1.0)

    def bets(sums, counts):
        return betting_interval(
            sums, counts, bound=1.0, moments=moments, log_inverse_alpha=-math.log(level)
        )

    def exact(sums, counts):
        return clopper_pearson_interval(int(sums.sum()), sums.size, 2.0 * level)

    def larger(sums, counts):
        return max(bets(sums, counts)[0], exact(sums, counts)[0]), 1.0

    law = {POINT_MASS_AT_ONE: mean, (0.0, 1.0): 1.0 - mean}
    assert miss_probabilities_of([law] * 8, bets, mean)[0] < level
    assert (
        miss_probabilities_of([law] * 8, exact, mean)[0]
        < level
        < miss_probabilities_of([law] * 8, larger, mean)[0]
    )


def scores(name, rng, n):
    """Return units of one record (S, k = 1)."""
    if name == "brier":
        probability = 1.0 / (1.0 + np.exp(-1.5 * rng.normal(size=n)))
        return (probability - (rng.random(n) < probability)) ** 2
    if name == "difference":
        u = rng.random(n)
        return 0.5 * (1.0 + np.where(u < 0.03, 1.0, np.where(u < 0.05, -1.0, 0.0)))
    return (rng.random(n) < float(name)).astype(float)


@pytest.mark.parametrize(
    ("name", "max_ratio"), [("0.75", 1.08), ("0.95", 1.16), ("brier", 1.11), ("difference", 1.22)]
)
def test_limits_are_nearly_those_of_the_normal_approximation(name, max_ratio):
    """G28's table at 5 nats: 1.02, 1.09, 1.05 and 1.17."""
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(6):
        values = scores(name, rng, 1000)
        moments = unit_moments(scores(name, rng, 3000), np.ones(3000))
        options = {"bound": 1.0, "moments": moments, "log_inverse_alpha": 5.0}
        width = np.ptp(betting_interval(values, np.ones(1000), **options))
        ratios.append(width / (2.0 * norm.isf(math.exp(-5.0)) * values.std() / math.sqrt(1000)))
        assert width < np.ptp(order_free_interval(values, np.ones(1000), **options))
    assert np.mean(ratios) < max_ratio


PROFILES = [(0.9, 0.5, 0.1, 0.5), (1.0, 1.0, 0.05, 0.05), (0.3, 0.3, 0.3, 0.0), (0.5,) * 4]


@pytest.mark.parametrize(
    ("counts", "center", "n_copies"),
    [((1.0, 3.0, 2.0, 1.0), 0.2, 1)]
    + [pytest.param(*case, 2, marks=pytest.mark.slow)
       for case in (((1.0, 1.0, 1.0, 1.0), 0.5), ((1.0, 3.0, 2.0, 1.0), 0.2))],
)  # fmt: skip
def test_order_free_limits_hold_for_unequal_units(counts, center, n_copies):
    """G28: S is k or 0 with another probability in each of four or eight units."""
    level = 0.3 / n_copies
    for profile in PROFILES:
        unit_counts = np.tile(counts, n_copies)
        probabilities = np.tile(profile, n_copies)
        laws = [
            {(count, count): probability, (0.0, count): 1.0 - probability}
            for count, probability in zip(unit_counts, probabilities, strict=True)
        ]
        moments = UnitMoments(center, 0.25 * np.mean(unit_counts**2), unit_counts.mean())

        def limits(sums, counts, moments=moments):
            return order_free_interval(
                sums, counts, bound=3.0, moments=moments, log_inverse_alpha=-math.log(level)
            )

        assert (
            miss_probabilities_of(
                laws, limits, unit_counts @ probabilities / unit_counts.sum()
            ).max()
            <= level
        )


def test_order_free_limits_are_at_least_those_of_a_fixed_center():
    """The formula with its logarithm inside, at the center where the stakes agree."""
    values = np.random.default_rng(3).beta(8.0, 2.0, 60)
    level = 3.0
    moments = UnitMoments(0.8, 0.02, 1.0)
    lower = order_free_interval(values, 1.0, bound=1.0, moments=moments, log_inverse_alpha=level)[0]
    rates = np.linspace(0.01, 0.99, 99)
    grown = np.log1p(rates[:, None] * (values - lower) / lower).mean(axis=1) - level / 60
    by_formula = lower + lower / rates * np.expm1(grown)
    assert np.min(np.abs(by_formula - lower)) < 2e-3  # the rate that was used is one of these
    assert by_formula.max() < lower + 0.01  # and is nearly the best


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (3, 10), (10, 10)])
def test_shares_have_the_limits_of_clopper_and_pearson(hits, count):
    expected = binomtest(hits, count).proportion_ci(0.98, "exact")
    assert clopper_pearson_interval(hits, count, 0.02) == pytest.approx(
        (expected.low, expected.high)
    )


def test_one_hit_among_unequal_records_has_a_valid_limit():
    """G8: bits (mu * n, 0, ..., 0) reach one hit more often than equal ones."""
    count = 5
    level = 0.4
    lower, upper = clopper_pearson_interval(1, count, level, identically_distributed=False)
    assert lower == pytest.approx(0.5 * level / count)
    assert lower < clopper_pearson_interval(1, count, level)[0]
    assert clopper_pearson_interval(count - 1, count, level, identically_distributed=False)[
        1
    ] == pytest.approx(1.0 - lower)
    assert upper == clopper_pearson_interval(1, count, level)[1]
    mean = 0.5 * (lower + clopper_pearson_interval(1, count, level)[0])
    assert count * mean > 0.5 * level  # the chance that the one uneven bit hits


def test_a_row_without_training_units_has_the_whole_range():
    with refused(ValueError, "counts"):
        unit_moments([0.0, 0.0], [0.0, 0.0])
    with refused(ValueError, "sums"):
        betting_interval(
            [2.0], [1.0], bound=1.0, moments=UnitMoments(0.5, 0.2, 1.0), log_inverse_alpha=3
        )
