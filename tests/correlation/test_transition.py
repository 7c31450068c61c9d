"""Functions of a transition matrix against hand-computed cases."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import _transition as kernels
from tests.facts import refused

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
    ("matrix", "fact"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "1.1"),
        ([[0.5, 0.5]], "(1, 2)"),
        ([[np.nan, 1.0], [0.5, 0.5]], "nan"),
        ([[1.5, -0.5], [0.5, 0.5]], "-0.5"),
        ([0.5, 0.5], "(2,)"),
        (np.zeros((0, 0)), "(0, 0)"),
    ],
)
def test_bad_transition_matrices_are_named(matrix, fact):
    with refused(ValueError, fact):
        kernels.check_transition(matrix)


def test_text_is_not_a_transition_matrix():
    with refused(TypeError, "transition"):
        kernels.check_transition("weather")
