"""Sweeps over forests and walks on any graph, against small cases and exact leakage."""

import math

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import MarkovNetwork
from sklearn_bdp.correlation.leakage import birkhoff_messages, leakage_bound, leakage_factor
from sklearn_bdp.correlation.network import (
    affected_in_subtrees,
    best_block_costs,
    block_costs,
    breadth_first_forest,
    dobrushin_n_affected,
)

from .oracle import bdp_leakage, edge_diameters, field_distribution


def test_parents_come_first():
    rng = np.random.default_rng(0)
    parent = (rng.random(49) * np.arange(1, 50)).astype(int)
    graph = sparse.coo_array((np.ones(49), (np.arange(1, 50), parent)), shape=(52, 52))
    matrix = sparse.csr_array(graph + graph.T)
    components = np.r_[np.zeros(50, dtype=int), 1, 2]
    order, position = breadth_first_forest(matrix, [0, 50, 51], np.ones(52, dtype=bool))
    assert sorted(order) == list(range(52))
    assert np.all(position < np.arange(52))
    assert np.sum(position == -1) == 3
    for k in np.flatnonzero(position >= 0):
        assert matrix[order[k], order[position[k]]] == 1.0
    tree_order, _ = breadth_first_forest(matrix, [0, 50, 51], components == 0)
    assert len(tree_order) == 50


def test_messages_of_a_star_by_hand():
    upward, from_children, total_messages = birkhoff_messages(
        [-1, 0, 0], np.array([0.0, 2.0, 2.0]), 0.1
    )
    a = 4 * math.atanh(math.tanh(0.5) * math.tanh(0.025))
    assert upward[1:] == pytest.approx([a, a])
    assert from_children == pytest.approx([2 * a, 0, 0])
    downward = 4 * math.atanh(math.tanh(0.5) * math.tanh((0.1 + a) / 4))
    assert total_messages == pytest.approx([2 * a, downward, downward])


def test_infinite_diameters_pass_everything():
    _, _, total_messages = birkhoff_messages([-1, 0, 1], np.array([0.0, math.inf, math.inf]), 400.0)
    assert total_messages == pytest.approx([800.0] * 3)


def test_affected_records_and_blocks_by_hand():
    # a path of three with theta = 1/2: R = 1, 1.5, 1.75 from the leaf up
    n_affected = affected_in_subtrees([-1, 0, 1], [0.0, 0.5, 0.5])
    assert n_affected == pytest.approx([0.0, 0.75, 0.5])
    costs_of_size_1 = block_costs([-1, 0, 1], [0, 0, 0], 1.0, n_affected, 1)
    assert costs_of_size_1 == pytest.approx([1.75**2 + 1.5**2 + 1])
    costs_of_size_3 = block_costs([-1, 0, 1], [0, 0, 0], 1.0, n_affected, 3)
    assert costs_of_size_3 == pytest.approx([9.0])
    costs_of_size_2 = block_costs([-1, 0, 1], [0, 0, 0], 1.0, n_affected, 2)
    assert costs_of_size_2 == pytest.approx([(1 + 0.75) ** 2 + 4])
    assert best_block_costs([-1, 0, 1], [0, 0, 0], 1.0, n_affected) <= costs_of_size_1


def ring(n, diameter):
    index = np.arange(n)
    matrix = sparse.coo_array((np.full(n, diameter), (index, (index + 1) % n)), shape=(n, n))
    return sparse.csr_array(matrix + matrix.T)


def test_numbers_of_affected_records_solve_the_linear_system_from_above():
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((12, 12)) < 0.3, 1) * rng.random((12, 12))
    matrix = sparse.csr_array(dense + dense.T)
    exact = np.linalg.solve(np.eye(12) - np.tanh(matrix.toarray() / 4), np.ones(12))
    n_affected = dobrushin_n_affected(matrix, np.zeros(12, dtype=int))
    assert np.all(n_affected >= exact)
    assert n_affected == pytest.approx(exact, rel=1e-5)
    inverse = np.linalg.inv(np.eye(12) - np.tanh(matrix.toarray() / 4))
    assert np.all(leakage_factor(matrix, n_affected) >= inverse.sum(axis=1) / np.diag(inverse))


def test_strong_components_are_infinite_and_weak_ones_are_not():
    strong = ring(5, 4.0)
    weak = ring(5, 0.1)
    matrix = sparse.csr_array(sparse.block_diag([strong, weak]))
    n_affected = dobrushin_n_affected(matrix, np.repeat([0, 1], 5))
    assert np.all(np.isinf(n_affected[:5]))
    assert np.all(n_affected[5:] < 1.1)


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
    model = MarkovNetwork(edge_diameters(dict.fromkeys(pairs, table), n), influence="data")
    exact = bdp_leakage(joint, epsilon, records=[0])
    factor = leakage_bound(model).leakage_factors().max()
    assert exact <= factor * epsilon + 1e-8
    if coupling == 0.05:
        assert factor * epsilon <= 1.01 * exact
