"""Functions of a transition matrix against hand-computed cases."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain, WorstOf
from sklearn_bdp.correlation import _transition as kernels

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])
CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


def test_two_state_chain_by_hand():
    distribution = kernels.stationary_distribution(P1)
    assert distribution == pytest.approx([2 / 3, 1 / 3])
    assert kernels.spectral_gap(P1, distribution) == pytest.approx(0.3)
    assert kernels.operator_norm(P1, distribution) == pytest.approx(0.7)
    assert kernels.dobrushin(P1) == pytest.approx(0.7)
    assert kernels.projective_diameter(P1) == pytest.approx(math.log(36))
    assert kernels.is_reversible(P1, distribution)
    assert kernels.reversed_kernel(P1, distribution) == pytest.approx(P1)


def test_stationary_distribution_of_a_nearly_decomposed_chain():
    tiny = 1e-13
    matrix = np.array([[1 - tiny, tiny], [3 * tiny, 1 - 3 * tiny]])
    assert kernels.stationary_distribution(matrix) == pytest.approx([0.75, 0.25], rel=1e-3)


def test_periodic_and_directed_chains():
    distribution = kernels.stationary_distribution(CYCLE)
    assert kernels.spectral_gap(CYCLE, distribution) == pytest.approx(0.0, abs=1e-12)
    assert kernels.operator_norm(CYCLE, distribution) == pytest.approx(1.0)
    assert not kernels.is_reversible(CYCLE, distribution)
    assert kernels.reversed_kernel(CYCLE, distribution) == pytest.approx(CYCLE.T)
    assert math.isinf(kernels.projective_diameter(CYCLE))
    assert kernels.is_irreducible(CYCLE)
    assert not kernels.is_irreducible(np.eye(2))


def test_operator_norm_of_a_directed_chain_exceeds_its_second_eigenvalue():
    matrix = 0.1 / 3 + 0.9 * CYCLE
    distribution = kernels.stationary_distribution(matrix)
    assert kernels.operator_norm(matrix, distribution) == pytest.approx(0.9)
    skew = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    distribution = kernels.stationary_distribution(skew)
    assert kernels.operator_norm(skew, distribution) > 1 - kernels.spectral_gap(skew, distribution)


def test_mixing_bounds_never_fall_below_the_truth():
    profile = kernels.mixing_profile(P1, length=5)
    exact = [0.7**k for k in range(1, 101)]
    assert profile == pytest.approx(exact[:5])
    for steps in (1, 3, 5, 6, 23, 100):
        assert kernels.mixing_after(profile, steps) >= exact[steps - 1] * (1 - 1e-12)
        assert kernels.mixing_sum(profile, steps) >= sum(exact[:steps]) * (1 - 1e-12)
    assert kernels.mixing_sum(profile, 10**9) == pytest.approx(0.7 / 0.3)
    assert kernels.mixing_after(profile, 0) == 1.0
    assert kernels.mixing_sum(kernels.mixing_profile(CYCLE), 500) == pytest.approx(500)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "rows that sum to one, got 1.1 in row 0"),
        ([[0.5, 0.5]], "square"),
        ([[np.nan, 1.0], [0.5, 0.5]], "finite"),
        ([[1.5, -0.5], [0.5, 0.5]], "finite numbers in"),
        ([0.5, 0.5], "square"),
        (np.zeros((0, 0)), "square"),
    ],
)
def test_bad_transition_matrices_are_named(matrix, message):
    with pytest.raises(ValueError, match=message):
        kernels.check_transition(matrix)


def test_text_is_not_a_transition_matrix():
    with pytest.raises(TypeError, match="transition must be an array"):
        kernels.check_transition("weather")


def simulate(matrix, n, seed):
    rng = np.random.default_rng(seed)
    steps, states = matrix.cumsum(axis=1), [0]
    for u in rng.random(n - 1):
        states.append(int(np.searchsorted(steps[states[-1]], u)))
    return np.array(states)


def test_intervals_cover_at_their_level():
    failures = 0
    for seed in range(300):
        counts = kernels.transition_counts(simulate(P1, 200, seed))
        lower, upper = kernels.confidence_intervals(counts, 0.2)
        failures += not np.all((lower <= P1) & (upper >= P1))
    assert failures <= 60 + 3 * np.sqrt(300 * 0.2 * 0.8)


def test_unseen_transitions_stay_possible():
    lower, upper = kernels.confidence_intervals(np.array([[0.0, 5.0], [5.0, 0.0]]), 0.05)
    assert lower[0, 0] == 0.0
    assert upper[0, 0] < 1.0
    lower, upper = kernels.confidence_intervals(np.zeros((3, 3)), 0.05)
    assert np.all(lower == 0)
    assert np.all(upper == 1)
    ignorant = MarkovChain.from_states([0, 1], confidence=0.9)
    assert ignorant.bdp_epsilon(0.1, 10) == pytest.approx(1.0)
    assert ignorant.effective_n(10) == pytest.approx(1.0)


@pytest.mark.parametrize("truth", [P1, P1[:, ::-1], np.array([[0.4, 0.6], [0.5, 0.5]])])
def test_two_corners_cover_every_chain_between_the_bounds(truth):
    """No chain that the data do not rule out leaks more, concentrates less or remembers longer."""
    states = simulate(truth, 1500, 0)
    model = MarkovChain.from_states(states, confidence=0.95)
    assert isinstance(model, WorstOf)
    assert model.misspecification == pytest.approx(0.05)
    lower, upper = kernels.confidence_intervals(kernels.transition_counts(states), 0.05)
    rng, n, epsilon = np.random.default_rng(1), 40, 0.1
    for _ in range(60):
        p, q = (lower + rng.random((2, 2)) * (upper - lower))[[0, 1], [1, 0]]
        chain = MarkovChain([[1 - p, p], [q, 1 - q]])
        assert chain.bdp_epsilon(epsilon, n) <= model.bdp_epsilon(epsilon, n) + 1e-9
        for name in ("sequential_epsilon", "sequential_information", "posterior_bias"):
            assert getattr(chain, name)(epsilon, n) <= getattr(model, name)(epsilon, n) + 1e-9
        assert chain.log_tail_above(0.3, 0.6, n) <= model.log_tail_above(0.3, 0.6, n) + 1e-9
        for sensitivity in (None, 1 / n):
            tails = [m.log_tail(0.4, n, sensitivity=sensitivity) for m in (chain, model)]
            assert tails[0] <= tails[1] + 1e-9
        for gap in (0, 3, 10):
            assert chain.cut_failure(gap) <= model.cut_failure(gap) + 1e-9


def test_estimation_error_is_paid_for_and_vanishes():
    levels = []
    for n in (500, 5000, 50_000):
        states = simulate(P1, n, 1)
        levels.append(MarkovChain.from_states(states, confidence=0.99).bdp_epsilon(1e-3, 1000))
    assert levels == sorted(levels, reverse=True)
    assert 6e-3 < levels[-1] < 7.5e-3
    with pytest.raises(ValueError, match="two states, got 3"):
        MarkovChain.from_states([0, 1, 2, 0], confidence=0.99)
    with pytest.raises(ValueError, match="confidence"):
        MarkovChain.from_states([0, 1, 0], confidence=1.0)
