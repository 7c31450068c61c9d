"""Limits given the past against the worst adversaries, exactly (theory G26)."""

import functools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp, xlogy
from scipy.stats import beta as beta_distribution
from scipy.stats import binom

from sklearn_bdp.intervals.bounds import (
    martingale_interval,
    martingale_lower_limit,
    martingale_mean_lower_limit,
)
from tests.facts import refused

GRID = 24  # expectations that an adversary may choose for each date: multiples of 1/24


def best_stake(observed_mean, level, dates, horizon=1):
    """Return the stake of Chernoff's rate: ``kl(share, p) = horizon * level / dates``."""

    def excess(p):
        kl = xlogy(observed_mean, observed_mean / p) + xlogy(
            1.0 - observed_mean, (1.0 - observed_mean) / (1.0 - p)
        )
        return kl - horizon * level / dates

    p = brentq(excess, 1e-12, observed_mean)
    return observed_mean * (1.0 - p) / (p * (1.0 - observed_mean)) - 1.0


def worst_failure(limit, dates, grid=GRID):
    """Return the largest probability that a limit lies above the mean expectation of bits.

    The adversary chooses the expectation of every date from all that happened before; dynamic
    programming over the number of ones and the sum of the expectations. ``limit`` is a function
    of the number of ones, or an array.
    """
    bounds = np.array([limit(ones) for ones in range(dates + 1)])
    sums = np.arange(dates * grid + 1) / (grid * dates)
    value = (bounds[:, None] > sums + 1e-12).astype(float)
    for _ in range(dates):
        best_value = np.zeros_like(value)
        for m in range(grid + 1):
            value_after_zero = np.zeros_like(value)
            value_after_zero[:, : value.shape[1] - m] = value[:, m:]
            value_after_one = np.vstack([value_after_zero[1:], np.zeros((1, value.shape[1]))])
            best_value = np.maximum(
                best_value, m / grid * value_after_one + (1 - m / grid) * value_after_zero
            )
        value = best_value
    return value[0, 0]


@pytest.mark.parametrize("dates", [3, 8, 14])
@pytest.mark.parametrize("level", [1.0, 2.5])
@pytest.mark.parametrize("stake", [0.3, 1.5, 6.0])
def test_no_adversary_fails_a_fixed_stake_more_often_than_the_level(dates, level, stake):
    def limit(ones):
        scores = np.repeat([1.0, 0.0], [ones, dates - ones])
        return martingale_lower_limit(scores, -level, stakes=[stake])

    assert worst_failure(limit, dates) <= math.exp(-level)


def test_the_level_is_nearly_attained():
    dates = 14
    level = 2.0
    stake = best_stake(0.9, level, dates)
    by_mean = martingale_mean_lower_limit(
        np.arange(15) / 14, np.full(15, -level), dates, expected=0.9
    )
    failure = worst_failure(lambda ones: by_mean[ones], dates)
    assert 0.5 * math.exp(-level) < failure <= math.exp(-level)
    for ones in range(15):
        scores = np.repeat([1.0, 0.0], [ones, dates - ones])
        assert martingale_lower_limit(scores, -level, stakes=[stake]) == pytest.approx(
            by_mean[ones]
        )


def test_no_adversary_fails_a_mixture_of_stakes_more_often_than_the_level():
    dates = 14
    level = 1.5
    stakes = 1.2 * np.array([1, 0.25, 0.5, 2, 4])
    weights = (0.6, 0.1, 0.1, 0.1, 0.1)

    def limit(ones):
        scores = np.repeat([1.0, 0.0], [ones, dates - ones])
        return martingale_lower_limit(scores, -level, stakes=stakes, stake_weights=weights)

    assert worst_failure(limit, dates) <= math.exp(-level)


def worst_failure_of_any(lower_limit, level, choices, dates):
    """Return the largest failure for scores of any values, predictable centers and lower ends.

    ``choices``: (values, chances, center, least) of a date, chosen given the past.
    """

    @functools.cache
    def value(history):
        if len(history) == dates:
            scores, centers, lower_end, means = np.array(history, float).T
            return float(lower_limit(scores, level, centers, lower_end) > means.mean() + 1e-9)
        largest = 0.0
        for values, probabilities, center, lower_end in choices:
            mean = float(np.dot(values, probabilities))
            expected_value = sum(
                probability * value(tuple(sorted((*history, (score, center, lower_end, mean)))))
                for score, probability in zip(values, probabilities, strict=True)
            )
            largest = max(largest, expected_value)
        return largest

    return value(())


CHOICES = [
    ((1.0, 0.0), (0.5, 0.5), 0.0, 0.0),
    ((1.0, 0.0), (0.2, 0.8), 0.4, 0.0),
    ((0.75, 0.25), (0.5, 0.5), 0.6, 0.25),
    ((0.5, -0.5), (0.3, 0.7), 0.0, -0.5),
    ((0.1, 0.0), (0.9, 0.1), 0.1, 0.0),
]


@pytest.mark.parametrize(
    ("stakes", "weights"), [((0.9,), (1.0,)), ((2.0,), (1.0,)), ((1.0, 0.25, 4.0), (0.6, 0.2, 0.2))]
)
def test_predictable_centers_and_lower_ends_are_safe(stakes, weights):
    def lower_limit(scores, level, centers, lower_ends):
        return martingale_lower_limit(
            scores, -level, stakes=stakes, stake_weights=weights, center=centers, lowest=lower_ends
        )

    assert worst_failure_of_any(lower_limit, 0.7, CHOICES, 4) <= math.exp(-0.7)


def test_a_horizon_needs_its_factor():
    """Two interleaved series whose scores repeat: given the forecast time only one is random."""
    dates = 14
    level = 2.0

    def failure(horizon):  # the score of a pair of dates is drawn once; both forecasts precede it
        limits = [
            martingale_lower_limit(
                np.repeat([1.0, 0.0], [2 * ones, dates - 2 * ones]), -level,
                stakes=[best_stake(0.9, level, dates, horizon)], horizon=horizon,
            )
            for ones in range(dates // 2 + 1)
        ]  # fmt: skip
        return worst_failure(lambda ones: limits[ones], dates // 2)

    assert failure(1) > 1.2 * math.exp(-level)
    assert failure(2) <= math.exp(-level)


# -- limits that are not used (theory G26) ----------------------------------------------------


def test_binomial_tails_are_invalid_given_the_past():
    dates = 14
    failure = math.exp(-3.0)

    def clopper_pearson(ones):
        return beta_distribution.ppf(failure, ones, dates - ones + 1) if ones else 0.0

    assert worst_failure(clopper_pearson, dates) > 1.5 * failure


def test_a_rate_chosen_after_the_data_is_invalid():
    dates = 60
    level = 3.0

    def limit_with_chosen_rate(ones):
        observed_mean = ones / dates
        return float(
            martingale_mean_lower_limit([observed_mean], [-level], dates, expected=[observed_mean])[
                0
            ]
        )

    assert worst_failure(limit_with_chosen_rate, dates, grid=12) > 1.1 * math.exp(-level)


def test_stakes_that_depend_on_the_past_are_invalid():
    """A known season, scores 0, 1, 0, 1: bet only on the dates of ones."""
    scores = np.tile([0.0, 1.0], 100)
    stakes = np.tile([0.0, 0.9], 100)  # predictable: the calendar says which
    grid = np.linspace(0.001, 0.999, 999)
    wealth = np.log1p(stakes * (scores - grid[:, None]) / grid[:, None]).sum(axis=1)
    betting = grid[wealth >= 3.7].max()
    assert betting > 0.9  # the mean expectation is 1/2
    fixed = martingale_lower_limit(scores, -3.7, stakes=[0.9 / 0.5])
    assert fixed < 0.5


def test_optional_stopping_is_invalid():
    """The number of dates is fixed in advance: until three ones in a row it would be missed."""
    rng = np.random.default_rng(0)
    n_missed = 0
    for _ in range(300):
        scores = [*(rng.random(40) < 0.5).astype(float)]
        while sum(scores[-9:]) < 9:
            scores.append(float(rng.random() < 0.5))
        tail = np.array(scores[-9:])
        n_missed += martingale_lower_limit(tail, -3.0, stakes=[best_stake(0.9, 3.0, 9)]) > 0.5
    assert n_missed == 300


# -- values -----------------------------------------------------------------------------------


def test_a_mixture_is_the_root_of_its_wealth():
    rng = np.random.default_rng(0)
    scores = rng.random(50)
    level = 3.0
    stakes = np.array([0.5, 1.0, 4.0])
    weights = np.array([0.2, 0.6, 0.2])
    for horizon in (1, 3):
        mean = martingale_lower_limit(
            scores, -level, stakes=stakes, stake_weights=weights, center=0.2, horizon=horizon
        )
        logs = np.log1p(stakes[:, None] * (scores - 0.2)).sum(axis=1)
        wealth = (logs - 50 * np.log1p(stakes * (mean - 0.2))) / horizon
        assert logsumexp(wealth, b=weights) == pytest.approx(level, abs=1e-6)


def half_widths(draw_scores, dates, level, **expected):
    rng = np.random.default_rng(dates)
    intervals = [
        martingale_interval(draw_scores(rng, dates), -level, **expected) for _ in range(60)
    ]
    return float(np.mean([0.5 * (high - low) for low, high in intervals]))


@pytest.mark.parametrize(
    ("dates", "level", "accuracy", "loss"),
    [
        (75, 3.7, 0.129, 0.051), (75, 5, 0.149, 0.061), (75, 7, 0.175, 0.074),
        (300, 3.7, 0.067, 0.024), (300, 5, 0.078, 0.028), (300, 7, 0.092, 0.033),
        (750, 3.7, 0.043, 0.015), (750, 5, 0.050, 0.017), (750, 7, 0.059, 0.020),
        (1250, 3.7, 0.033, 0.012), (1250, 5, 0.038, 0.013), (1250, 7, 0.045, 0.016),
    ],
)  # fmt: skip
def test_half_widths_are_those_of_the_table(dates, level, accuracy, loss):
    def bits(rng, size):
        return (rng.random(size) < 0.75).astype(float)

    def errors(rng, size):
        return 1.0 - np.clip(0.232 * np.abs(rng.normal(size=size)), 0, 1)

    assert half_widths(bits, dates, level, expected=0.75, variance=None) == pytest.approx(
        accuracy, rel=0.1
    )
    loss_half_width = half_widths(errors, dates, level, expected=0.815, variance=0.14**2)
    assert loss_half_width == pytest.approx(loss, rel=0.1)


def test_a_wrong_prediction_costs_little():
    def bits(rng, size):
        return (rng.random(size) < 0.75).astype(float)

    half_width_of_correct_prediction = half_widths(bits, 300, 5, expected=0.75, variance=None)
    for expected in (0.65, 0.85):
        assert (
            half_widths(bits, 300, 5, expected=expected, variance=None)
            < 1.03 * half_width_of_correct_prediction
        )

    def errors(rng, size):
        return rng.normal(0.5, 0.1, size)

    half_width_of_correct_prediction = half_widths(errors, 300, 5, expected=0.5, variance=0.01)
    for variance in (0.01 / 16, 0.16):
        assert (
            half_widths(errors, 300, 5, expected=0.5, variance=variance)
            < 1.32 * half_width_of_correct_prediction
        )


def test_differences_need_no_declared_range():
    """Differences of two forecasts, limited by their distance, which is known before the score."""
    rng = np.random.default_rng(1)
    distance = rng.exponential(0.05, 300)
    difference = distance * rng.choice([-1, 1], 300, p=[0.3, 0.7])
    moments = {"expected": 0.4 * 0.05, "variance": float(np.var(difference))}
    low, high = martingale_interval(difference, -3.7, lowest=-distance, highest=distance, **moments)
    interval_of_fixed_range = martingale_interval(
        difference, -3.7, lowest=-1.0, highest=1.0, **moments
    )
    mean = 0.4 * distance.mean()
    assert low < mean < high
    assert high - low < 0.85 * (interval_of_fixed_range[1] - interval_of_fixed_range[0])


def test_the_sides_of_an_unequal_division_share_the_level():
    """Each limit is the one-sided limit at its own part of the level."""
    rng = np.random.default_rng(2)
    scores = rng.normal(0.1, 0.5, 200).clip(-1.0, 1.0)
    moments = {"expected": 0.1, "variance": 0.2, "lowest": -1.0, "highest": 1.0}
    log_half = math.log(0.025)
    equal = martingale_interval(scores, log_half, **moments)
    assert equal == martingale_interval(scores, log_half, lower_share=0.5, **moments)
    low, high = martingale_interval(scores, log_half, lower_share=0.8, **moments)
    lower_alone, _ = martingale_interval(scores, math.log(0.04), **moments)
    _, upper_alone = martingale_interval(scores, math.log(0.01), **moments)
    assert (low, high) == pytest.approx((lower_alone, upper_alone))
    assert equal[0] < low < scores.mean() < equal[1] < high
    with refused(ValueError, "lower_share"):
        martingale_interval(scores, log_half, lower_share=1.0, **moments)


@pytest.mark.parametrize("runs", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_an_adversary_who_sees_the_scores_does_not_beat_an_unequal_division(runs):
    """Means follow the past scores: they fall after gains and vanish once the limit is passed."""
    rng = np.random.default_rng(3)
    dates, level = 40, 0.1
    scores = np.zeros((runs, dates))
    means = np.zeros((runs, dates))
    for date in range(dates):
        ahead = (scores - means).sum(axis=1)
        distance = np.where(ahead > 8.0, 0.0, 1.0)  # nothing more happens after a large gain
        means[:, date] = distance * np.where(ahead > 0.0, -0.8, 0.2)
        gains = rng.random(runs) < 0.5 * (1.0 + means[:, date])
        scores[:, date] = distance * np.where(gains, 1.0, -1.0)
    limits = np.array(
        [
            martingale_interval(
                row, math.log(0.5 * level), expected=0.1, variance=0.5, lowest=-1.0,
                lower_share=0.8,
            )
            for row in scores
        ]
    )  # fmt: skip
    truth = means.mean(axis=1)
    missed = np.count_nonzero((truth < limits[:, 0]) | (truth > limits[:, 1]))
    assert missed <= binom.isf(0.001, runs, level)


def test_bad_input_is_named():
    for invalid_argument in (
        {"horizon": 0, "stakes": [1.0]},
        {"stakes": [-1.0]},
        {"stake_weights": [2.0], "stakes": [1.0]},
    ):
        with refused(ValueError, next(iter(invalid_argument))):
            martingale_lower_limit([0.0, 1.0], -1.0, **invalid_argument)
