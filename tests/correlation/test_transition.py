"""Quantities that a chain derives from its transition matrix, against hand-computed cases."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.chain import stationary_distribution
from sklearn_bdp.correlation.cutting import gap_failure_probability
from sklearn_bdp.correlation.leakage import leakage_bound
from tests.facts import refused

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])
CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


def test_two_state_chain_by_hand():
    chain = MarkovChain(P1)
    assert chain.stationary_ == pytest.approx([2 / 3, 1 / 3])
    assert chain.spectral_gap_ == pytest.approx(0.3)
    assert chain.contraction_ == pytest.approx(0.7)
    assert chain.dobrushin_ == pytest.approx(0.7)
    assert chain.diameter_ == pytest.approx(math.log(36))
    assert leakage_bound(chain).backward == pytest.approx(P1)


def test_stationary_distribution_of_a_nearly_decomposed_chain():
    small_probability = 1e-13
    matrix = np.array(
        [
            [1 - small_probability, small_probability],
            [3 * small_probability, 1 - 3 * small_probability],
        ]
    )
    assert stationary_distribution(matrix) == pytest.approx([0.75, 0.25], rel=1e-3)


def test_periodic_and_directed_chains():
    chain = MarkovChain(CYCLE)
    assert chain.spectral_gap_ == pytest.approx(0.0, abs=1e-12)
    assert chain.contraction_ == pytest.approx(1.0)
    assert math.isinf(chain.diameter_)
    assert leakage_bound(chain).backward == pytest.approx(CYCLE.T)
    assert chain.effective_n(500) == pytest.approx(1.0, rel=0.01)  # it never loses its phase
    # The second singular value exceeds the second eigenvalue where a chain is not reversible.
    assert MarkovChain(0.1 / 3 + 0.9 * CYCLE).contraction_ == pytest.approx(0.9)
    skew = MarkovChain([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    assert skew.contraction_ > 1 - skew.spectral_gap_


def test_gap_failure_is_never_below_the_exact_value():
    chain = MarkovChain(P1)
    for steps in (1, 3, 5, 6, 23, 60, 150, 1000):
        assert gap_failure_probability(chain, steps - 1) >= 0.7**steps - 1e-15
    assert gap_failure_probability(chain, 22) == pytest.approx(0.7**23)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.5, 0.6], [0.5, 0.5]],
        [[0.5, 0.5]],
        [[np.nan, 1.0], [0.5, 0.5]],
        [[1.5, -0.5], [0.5, 0.5]],
        [0.5, 0.5],
        np.zeros((0, 0)),
        np.eye(2),
        "weather",
    ],
)
def test_bad_transition_matrices_are_named(matrix):
    with refused((ValueError, TypeError), "transition"):
        MarkovChain(matrix)
