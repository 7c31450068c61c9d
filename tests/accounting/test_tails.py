"""Tails of fixed queries: exact enumeration against every limit (theory G5, G8, G12)."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.accounting import ModelTail
from sklearn_bdp.correlation import Independent

LEVELS = (-1.4, -3.0, -8.0, -20.0, -60.0)


def bits_distribution(means):
    """Distribution of the number of successes among independent bits."""
    table = np.ones(1)
    for mean in means:
        table = np.convolve(table, [1.0 - mean, mean])
    return table


# -- G8: independent records -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 57, 400])
@pytest.mark.parametrize("level", LEVELS)
def test_binomial_limits_invert_the_exact_tail(n, level):
    """G8: at the limit the binomial tail is the level itself."""
    tail = ModelTail(Independent(), n, binary=True)
    counts = np.arange(2, n + 1)
    limits = tail.lower_limit(counts / n, level)
    np.testing.assert_allclose(binom.logsf(counts - 1, n, limits), level, rtol=1e-7, atol=1e-6)
    assert (binom.logsf(counts - 1, n, limits) <= level).all()
    first = tail.lower_limit([0.0, 1 / n], level)
    assert first.tolist() == [0.0, pytest.approx(math.exp(level) / n)]


def test_binomial_limits_hold_for_bits_of_different_means():
    """G8 (Hoeffding 1956): the worst profile of means never misses more often than the level."""
    rng, checked = np.random.default_rng(0), 0
    for n in (2, 3, 4, 6, 9):
        profiles = [rng.random(n) ** rng.integers(0, 6) for _ in range(150)]
        profiles += [
            np.r_[np.zeros(n - k), np.full(k, p)] for k in range(1, n + 1) for p in (0.1, 0.4, 0.8)
        ]
        profiles += [
            np.r_[np.ones(n - k), np.full(k, p)] for k in range(1, n + 1) for p in (0.1, 0.4, 0.8)
        ]
        for level in (math.log(0.25), -2.0, -4.0, -9.0):
            limits = ModelTail(Independent(), n, binary=True).lower_limit(
                np.arange(n + 1) / n, level
            )
            for means in profiles:
                missed = bits_distribution(means)[limits > means.mean()].sum()
                assert missed <= math.exp(level) * (1 + 1e-9)
                checked += 1
    assert checked > 3000


@pytest.mark.parametrize("binary", [True, False])
def test_limits_are_monotone_and_below_their_values(binary):
    tail = ModelTail(Independent(), 300, binary=binary)
    values = np.linspace(0.0, 1.0, 907)
    for level in LEVELS:
        limits = tail.lower_limit(values, level)
        assert (np.diff(limits) >= -1e-12).all()
        assert (limits <= values).all()
        assert (limits <= tail.lower_limit(values, level + 1.0) + 1e-12).all()
        np.testing.assert_allclose(tail.upper_limit(1.0 - values, level), 1.0 - limits, atol=1e-9)
