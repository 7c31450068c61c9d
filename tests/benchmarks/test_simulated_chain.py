"""Transition matrices and simulated states."""

import numpy as np
import pytest

from examples.simulated import simulate_states
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.chain import stationary_distribution

CYCLE = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
THREE = [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.3, 0.3, 0.4]]


def test_stationary_distribution_by_hand():
    distribution = stationary_distribution(MarkovChain([[0.9, 0.1], [0.2, 0.8]]).transition)
    np.testing.assert_allclose(distribution, [2 / 3, 1 / 3], rtol=1e-12)


@pytest.mark.parametrize("matrix", [THREE, CYCLE, [[1.0]]])
def test_stationary_distribution_is_a_fixed_point(matrix):
    matrix = MarkovChain(matrix).transition
    distribution = stationary_distribution(matrix)
    np.testing.assert_allclose(distribution @ matrix, distribution, atol=1e-12)
    assert distribution.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 99, 100, 101])
def test_any_length_can_be_simulated(n):
    states = simulate_states(MarkovChain(THREE).transition, n, np.random.default_rng(0))
    assert states.shape == (n,)
    assert set(np.unique(states)) <= {0, 1, 2}


def test_moves_follow_the_matrix_also_across_blocks():
    matrix = MarkovChain(THREE).transition
    n = 400 * 400
    states = simulate_states(matrix, n, np.random.default_rng(0))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (states[:-1], states[1:]), 1)
    np.testing.assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), matrix, atol=0.01)
    joints = np.arange(400, n, 400)  # first record of each block
    assert (matrix[states[joints - 1], states[joints]] > 0).all()


def test_cycle_is_walked_without_a_slip():
    states = simulate_states(MarkovChain(CYCLE).transition, 1000, np.random.default_rng(3))
    assert (np.diff(states) % 3 == 1).all()


def test_first_state_is_stationary():
    matrix = MarkovChain([[0.9, 0.1], [0.2, 0.8]]).transition
    rng = np.random.default_rng(1)
    first = [simulate_states(matrix, 1, rng)[0] for _ in range(3000)]
    assert abs(np.mean(first) - 1 / 3) < 4 * np.sqrt(2 / 9 / 3000)
