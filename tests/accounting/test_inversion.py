"""Inversion of tails in the mean, for every model (theory G5)."""

import numpy as np
import pytest

from sklearn_bdp.accounting import mean_lower_limit
from sklearn_bdp.correlation import Groups, Independent, MarkovChain

N = 600
MODELS = {
    "independent": Independent(),
    "groups": Groups(np.arange(N) // 4),
    "uneven groups": Groups(np.concatenate([np.zeros(100, int), 1 + np.arange(N - 100)])),
    "chain": MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
    "fast chain": MarkovChain([[0.6, 0.4], [0.4, 0.6]]),
    "cycle": MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]),
}


@pytest.mark.parametrize("name", MODELS)
def test_tail_rises_with_the_mean_and_falls_with_the_value(name):
    model, grid = MODELS[name], np.linspace(0.0, 1.0, 101)
    # The inversion never asks for a mean of exactly 0, where a bound may stop applying.
    mean, value = np.meshgrid(np.maximum(grid, 1e-6), grid, indexing="ij")
    tail = model.log_tail_above(mean, value, N)
    slack = 1e-6 * (1.0 + np.abs(np.where(np.isfinite(tail), tail, 0.0)))
    finite = np.where(np.isfinite(tail), tail, -1e6)
    assert (np.diff(finite, axis=0) >= -slack[1:]).all()
    assert (np.diff(finite, axis=1) <= slack[:, 1:]).all()


@pytest.mark.parametrize("name", MODELS)
def test_limit_is_rejected_and_hardly_more_is(name):
    model = MODELS[name]
    values = np.array([0.02, 0.3, 0.5, 0.9, 0.99, 1.0])
    limits = mean_lower_limit(values, -6.0, model, N)
    assert (limits <= values).all()
    for value, limit in zip(values, limits, strict=True):
        # Smaller means are rejected with it: raising scores pointwise raises mean and tail.
        if limit > 0:
            assert model.log_tail_above(limit, value, N) <= -6.0
        if limit < value:
            above = min(limit + 1e-6, value)
            assert model.log_tail_above(above, value, N) > -6.0


def test_chain_intervals_cover_by_simulation():
    # States of a slow chain as scores: the empirical rate of misses against the level.
    stay, replications, level = 0.9, 4000, 0.05
    rng = np.random.default_rng(0)
    moves = rng.random((replications, N)) > stay
    moves[:, 0] = rng.random(replications) < 0.5
    means = (np.cumsum(moves, axis=1) % 2).mean(axis=1)
    model = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    limits = mean_lower_limit(means, np.log(level), model, N)
    assert np.mean(limits > 0.5) <= level
