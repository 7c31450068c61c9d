"""Inversion of tails in the mean, for each model (theory G5)."""

import functools
import math

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.correlation.tails import chain_lower_limit, chernoff_lower_limit
from sklearn_bdp.intervals.concentration import half_width
from tests.accounting.routes import halved
from tests.correlation.tails import chain_rate, log_tail_above

N = 600
MODELS = {
    "independent": Independent(),
    "groups": Groups(np.arange(N) // 4),
    "uneven groups": Groups(np.concatenate([np.zeros(100, int), 1 + np.arange(N - 100)])),
    "chain": MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
    "fast chain": MarkovChain([[0.6, 0.4], [0.4, 0.6]]),
    "cycle": MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]),
}


class Bernoulli:
    """Independent records, from the definitions and without package code."""

    def log_tail(self, alpha, n):
        return np.minimum(0.0, math.log(2) - 2 * n * np.asarray(alpha) ** 2)

    def log_tail_above(self, mean, value, n):
        p = np.clip(mean, 1e-300, 1 - 1e-16)
        x = np.asarray(value, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(x > 0, x * np.log(x / p), 0.0) + np.where(
                x < 1, (1 - x) * np.log((1 - x) / (1 - p)), 0.0
            )
        return np.where(x > p, -n * kl, 0.0)


def inverted(values, level, tail, n):
    """Return the largest means that an upper tail rejects at a log level."""
    values = np.asarray(values, dtype=float)
    levels = np.full(values.shape, level)
    return halved(lambda means: tail(means, values, n) <= levels, 0.0 * values, values)


def test_limits_cover_by_exact_enumeration():
    """G5: for every mean the probability that the limit exceeds it is at most the level."""
    n = 60
    level = 0.03
    limits = inverted(np.arange(n + 1) / n, math.log(level), Bernoulli().log_tail_above, n)
    for p in np.linspace(0.01, 0.99, 99):
        assert binom.pmf(np.arange(n + 1), n, p)[limits > p].sum() <= level


def test_half_width_is_the_smallest_safe_one():
    alpha = half_width(math.log(0.01), Bernoulli(), 500)[0]
    assert alpha == pytest.approx(math.sqrt(math.log(200) / 1000), rel=1e-9)
    assert Bernoulli().log_tail(alpha, 500) <= math.log(0.01)
    assert half_width(-1e9, Bernoulli(), 500)[0] == math.inf


@pytest.mark.parametrize("name", MODELS)
def test_tail_rises_with_the_mean_and_falls_with_the_value(name):
    model = MODELS[name]
    grid = np.linspace(0.0, 1.0, 101)
    # The inversion evaluates no mean of exactly 0, at which a bound may not apply.
    mean, value = np.meshgrid(np.maximum(grid, 1e-6), grid, indexing="ij")
    tail = log_tail_above(model, mean, value, N)
    slack = 1e-6 * (1.0 + np.abs(np.where(np.isfinite(tail), tail, 0.0)))
    finite = np.where(np.isfinite(tail), tail, -1e6)
    assert (np.diff(finite, axis=0) >= -slack[1:]).all()
    assert (np.diff(finite, axis=1) <= slack[:, 1:]).all()


@pytest.mark.parametrize("name", MODELS)
def test_limit_is_rejected_and_hardly_more_is(name):
    model = MODELS[name]
    values = np.array([0.02, 0.3, 0.5, 0.9, 0.99, 1.0])
    limits = inverted(values, -6.0, functools.partial(log_tail_above, model), N)
    assert (limits <= values).all()
    for value, limit in zip(values, limits, strict=True):
        # Smaller means are rejected with it: raising scores pointwise raises mean and tail.
        if limit > 0:
            assert log_tail_above(model, limit, value, N) <= -6.0
        if limit < value:
            above = min(limit + 1e-6, value)
            assert log_tail_above(model, above, value, N) > -6.0


@pytest.mark.parametrize("contraction", [0.0, 1e-9, 0.3, 0.9, 0.999, 1.0 - 1e-7])
@pytest.mark.parametrize("n", [1, 30, 4000, 10**6])
def test_chain_limits_are_those_of_bisection(contraction, n):
    """G5: Newton's method from the left against 48 halvings of the chain's rate."""
    values = np.r_[np.linspace(0.0, 1.0, 21), 1e-7, 1.0 - 1e-7]
    for rate in np.array([0.7, 4.0, 15.0, 300.0]) / n:
        limits = chain_lower_limit(values, np.full(values.shape, rate), contraction)
        expected = halved(
            lambda m, rate=rate: chain_rate(values, m, contraction) >= rate, 0.0 * values, values
        )
        reached = chain_rate(values, limits, contraction)
        assert (reached[limits > 0] >= rate * (1.0 - 1e-9)).all()
        np.testing.assert_allclose(limits, expected, rtol=1e-7, atol=1e-11)


def test_a_perfect_score_has_the_limit_of_a_perfect_score():
    """G5: kl(1 || mu) = -ln mu; the start of Newton's method is the root, however it rounds."""
    rates = np.geomspace(1e-9, 5.0, 2000)
    limits = chernoff_lower_limit(np.ones(2000), rates)
    np.testing.assert_allclose(limits, np.exp(-rates), rtol=2e-9)
    assert (limits <= np.exp(-rates)).all()


def test_chain_intervals_cover_by_simulation():
    # States of a slow chain as scores: the empirical rate of misses against the level.
    stay = 0.9
    replications = 4000
    level = 0.05
    rng = np.random.default_rng(0)
    moves = rng.random((replications, N)) > stay
    moves[:, 0] = rng.random(replications) < 0.5
    means = (np.cumsum(moves, axis=1) % 2).mean(axis=1)
    model = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    limits = inverted(means, np.log(level), functools.partial(log_tail_above, model), N)
    assert np.mean(limits > 0.5) <= level
