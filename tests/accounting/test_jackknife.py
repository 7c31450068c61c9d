"""Approximate intervals (G22): right by hand, and right about as often as they say."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from scipy.stats import t as student

from sklearn_bdp.accounting import binomial_interval, jackknife_interval, mean_of_shares


def without_each(values):
    return (values.sum() - values) / (values.size - 1)


def test_the_jackknife_of_a_mean_is_its_t_interval():
    """Normal values: pseudo-values are the values, degrees of freedom at most G - 1."""
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    lower, upper = jackknife_interval(values.mean(), without_each(values), 0.05, scale="raw")
    error = values.std(ddof=1) / 20.0
    assert lower < values.mean() < upper
    reach = 0.5 * (upper - lower) / error
    assert student.isf(0.025, 399) - 1e-9 <= reach <= student.isf(0.025, 100)


@pytest.mark.parametrize(("scale", "skewed"), [("loss", False), ("loss", True), ("raw", True)])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_the_jackknife_covers_at_its_level(scale, skewed, level):
    runs, missed = 1500, 0
    rng = np.random.default_rng(1)
    for _ in range(runs):
        values = rng.exponential(size=150)
        lower, upper = jackknife_interval(
            values.mean(), without_each(values), level, scale=scale, skewed=skewed
        )
        missed += not lower <= 1.0 <= upper
    assert missed <= binom.ppf(0.999, runs, 1.3 * level)


def test_no_spread_gives_no_interval():
    assert np.isnan(jackknife_interval(0.5, np.full(30, 0.5), 0.05, scale="unit")).all()
    assert np.isnan(jackknife_interval(1.0, np.full(30, 1.0), 0.05, scale="unit")).all()


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (3, 10), (10, 10)])
def test_shares_have_the_limits_of_clopper_and_pearson(hits, count):
    expected = binomtest(hits, count).proportion_ci(0.98, "exact")
    assert binomial_interval(hits, count, 0.02) == pytest.approx((expected.low, expected.high))


def test_a_mean_of_shares_is_narrower_than_its_parts():
    lower, upper = mean_of_shares(np.array([80, 90]), np.array([100, 100]), 0.05)
    assert lower < 0.85 < upper
    assert upper - lower < np.ptp(binomial_interval(80, 100, 0.05))
