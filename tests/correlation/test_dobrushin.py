"""Walks of dependence on any graph, against matrices inverted in full and exact leakage."""

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import MarkovNetwork
from sklearn_bdp.correlation._networks._dobrushin import dobrushin_reach, reach_factor

from .oracle import bdp_leakage, field_distribution


def ring(n, diameter):
    index = np.arange(n)
    matrix = sparse.coo_array((np.full(n, diameter), (index, (index + 1) % n)), shape=(n, n))
    return sparse.csr_array(matrix + matrix.T)


def test_reach_solves_the_linear_system_from_above():
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((12, 12)) < 0.3, 1) * rng.random((12, 12))
    matrix = sparse.csr_array(dense + dense.T)
    exact = np.linalg.solve(np.eye(12) - np.tanh(matrix.toarray() / 4), np.ones(12))
    reach = dobrushin_reach(matrix, np.zeros(12, dtype=int))
    assert np.all(reach >= exact)
    assert reach == pytest.approx(exact, rel=1e-5)
    inverse = np.linalg.inv(np.eye(12) - np.tanh(matrix.toarray() / 4))
    assert np.all(reach_factor(matrix, reach) >= inverse.sum(axis=1) / np.diag(inverse))


def test_strong_components_are_infinite_and_weak_ones_are_not():
    strong, weak = ring(5, 4.0), ring(5, 0.1)
    matrix = sparse.csr_array(sparse.block_diag([strong, weak]))
    reach = dobrushin_reach(matrix, np.repeat([0, 1], 5))
    assert np.all(np.isinf(reach[:5]))
    assert np.all(reach[5:] < 1.1)


@pytest.mark.parametrize("edges", ["ring", "complete"])
@pytest.mark.parametrize(("coupling", "epsilon"), [(0.05, 0.02), (0.15, 1.0), (0.25, 0.3)])
def test_factor_stays_above_the_exact_leakage(edges, coupling, epsilon):
    """Theory B8."""
    n = 4
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    if edges == "ring":
        pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    table = np.exp(coupling * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    joint = field_distribution([2] * n, dict.fromkeys(pairs, table))
    model = MarkovNetwork(None, pairwise=dict.fromkeys(pairs, table))
    exact = bdp_leakage(joint, epsilon, records=[0])
    factor = model._reach_factor().max()
    assert exact <= factor * epsilon + 1e-8
    if coupling == 0.05:
        assert factor * epsilon <= 1.01 * exact
