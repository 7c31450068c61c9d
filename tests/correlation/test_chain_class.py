"""Classes of chains: the truth is inside, and every bound covers all members."""

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain, MarkovChainClass
from sklearn_bdp.correlation._chains._counts import confidence_intervals, transition_counts

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])


def simulate(matrix, n, seed):
    rng = np.random.default_rng(seed)
    steps, states = matrix.cumsum(axis=1), [0]
    for u in rng.random(n - 1):
        states.append(int(np.searchsorted(steps[states[-1]], u)))
    return np.array(states)


def members(model, seed, count=40):
    """Random matrices between the bounds."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        draw = model.lower + rng.random(model.lower.shape) * (model.upper - model.lower)
        low, high = model.lower.sum(axis=1), draw.sum(axis=1)
        # move towards the bound that restores the row sums
        share = np.where(high > 1, (1 - low) / np.maximum(high - low, 1e-300), 1.0)
        matrix = model.lower + share[:, None] * (draw - model.lower)
        rest, room = 1 - matrix.sum(axis=1), (model.upper - matrix).sum(axis=1)
        matrix = matrix + (rest / np.maximum(room, 1e-300))[:, None] * (model.upper - matrix)
        yield matrix / matrix.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("k", [2, 3])
def test_bounds_cover_every_member(k):
    truth = P1 if k == 2 else np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    model = MarkovChain.from_states(simulate(truth, 2000, 0), confidence=0.95)
    assert isinstance(model, MarkovChainClass)
    n, epsilon = 40, 0.1
    for matrix in members(model, k):
        chain = MarkovChain(matrix)
        assert chain.diameter_ <= model.diameter_ + 1e-9
        assert chain.dobrushin_ <= model.dobrushin_ + 1e-9
        assert chain.bdp_epsilon(epsilon, n) <= model.bdp_epsilon(epsilon, n) + 1e-9
        assert chain._forward(epsilon, n)[-1].max() <= model._forward(epsilon, n)[-1].max() + 1e-9
        assert chain._spread(n, False) <= model._spread(n, False) + 1e-6
        for gap in (0, 3, 10):
            assert chain.cut_failure(gap) <= model.cut_failure(gap) + 1e-9


def test_estimation_error_is_paid_for_and_vanishes():
    levels = []
    for n in (500, 5000, 50_000):
        states = simulate(P1, n, 1)
        levels.append(MarkovChain.from_states(states, confidence=0.99).bdp_epsilon(1e-3, 1000))
    assert levels == sorted(levels, reverse=True)
    assert 6e-3 < levels[-1] < 7.5e-3


def test_intervals_cover_at_their_level():
    failures = 0
    for seed in range(300):
        lower, upper = confidence_intervals(transition_counts(simulate(P1, 200, seed)), 0.2)
        failures += not np.all((lower <= P1) & (upper >= P1))
    assert failures <= 60 + 3 * np.sqrt(300 * 0.2 * 0.8)


def test_unseen_transitions_stay_possible():
    lower, upper = confidence_intervals(np.array([[0.0, 5.0], [5.0, 0.0]]), 0.05)
    assert lower[0, 0] == 0.0
    assert upper[0, 0] < 1.0
    lower, upper = confidence_intervals(np.zeros((3, 3)), 0.05)
    assert np.all(lower == 0)
    assert np.all(upper == 1)
    ignorant = MarkovChain.from_states([0, 1], confidence=0.9)
    assert ignorant.bdp_epsilon(0.1, 10) == pytest.approx(1.0)
    assert ignorant.effective_n(10) == pytest.approx(1.0)


def test_interface():
    model = MarkovChain.from_states(simulate(P1, 3000, 2), confidence=0.99)
    assert "confidence 0.99" in model.describe()
    assert model == MarkovChain.from_states(simulate(P1, 3000, 2), confidence=0.99)
    assert model.split(1000, 0.25).gap >= MarkovChain(P1).split(1000, 0.25).gap
    assert model.sequential_information(1e-3, 1000) > 0
    assert 0 < model.posterior_bias(1e-3, 1000) < 1
    assert model.subset([1, 2]) is model
    with pytest.raises(ValueError, match="needs one transition matrix"):
        model.bdp_epsilon(0.1, 10, method="spectral")
    with pytest.raises(ValueError, match="confidence"):
        MarkovChain.from_states([0, 1, 0], confidence=1.0)
    with pytest.raises(ValueError, match="enclose"):
        MarkovChainClass(P1, lower=P1 + 0.1, upper=np.ones((2, 2)), confidence=0.9)
