"""Bridges to known records: limits, closing bounds, given starts."""

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation._chains._bridges import bridge_sides, started_side

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])
LAW = np.array([2 / 3, 1 / 3])


def test_nothing_known_or_next_known_adds_nothing():
    sides = bridge_sides(P1, 0.1, 1, far=np.ones(2))
    assert sides == pytest.approx(np.zeros((2, 2)))


@pytest.mark.parametrize("epsilon", [1e-4, 0.2])
@pytest.mark.parametrize(("matrix", "far"), [(P1, np.ones(2)), (P1.T, LAW)])
def test_closing_early_only_loosens(matrix, far, epsilon):
    long = bridge_sides(matrix, epsilon, 5000, far=far)
    assert len(long) < 5000
    assert np.all(np.diff(long, axis=0) >= 0)
    for cap in (5, 20):
        short = bridge_sides(matrix, epsilon, 5000, far=far, cap=cap)
        assert np.all(short[-1] >= long[-1] * (1 - 1e-9))
    exact = bridge_sides(matrix, epsilon, len(long) - 5, far=far)
    assert np.all(long[-1] <= exact[-1] * (1 + 1e-4) + 1e-4 * epsilon)


def test_chains_that_never_settle_give_up():
    cycle = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert bridge_sides(cycle, 0.1, 10_000, far=np.ones(2), cap=100) is None
    assert len(bridge_sides(cycle, 0.1, 50, far=np.ones(2))) == 51


def test_a_stationary_start_is_the_reversed_chain():
    given = started_side(P1, LAW, 0.1, 300, stationary=LAW)
    chain = MarkovChain(P1)
    assert given[-1] == pytest.approx(chain._backward(0.1, 301)[-1], rel=1e-4)
    other = started_side(P1, np.array([0.01, 0.99]), 0.1, 300, stationary=LAW)
    assert np.all(other[-1] >= given[-1] * (1 - 1e-6))
