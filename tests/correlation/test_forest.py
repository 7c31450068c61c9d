"""Sweeps over forests against small cases worked by hand."""

import math

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation._networks._forest import (
    best_block_costs,
    birkhoff_messages,
    block_costs,
    couplings,
    rooted,
)


def test_parents_come_first():
    rng = np.random.default_rng(0)
    parent = (rng.random(49) * np.arange(1, 50)).astype(int)
    graph = sparse.coo_array((np.ones(49), (np.arange(1, 50), parent)), shape=(52, 52))
    matrix = sparse.csr_array(graph + graph.T)
    components = np.r_[np.zeros(50, dtype=int), 1, 2]
    order, position = rooted(matrix, components, np.ones(52, dtype=bool))
    assert sorted(order) == list(range(52))
    assert np.all(position < np.arange(52))
    assert np.sum(position == -1) == 3
    for k in np.flatnonzero(position >= 0):
        assert matrix[order[k], order[position[k]]] == 1.0
    fewer, _ = rooted(matrix, components, components == 0)
    assert len(fewer) == 50


def test_messages_of_a_star_by_hand():
    upward, below, total = birkhoff_messages([-1, 0, 0], np.array([0.0, 2.0, 2.0]), 0.1)
    a = 4 * math.atanh(math.tanh(0.5) * math.tanh(0.025))
    assert upward[1:] == pytest.approx([a, a])
    assert below == pytest.approx([2 * a, 0, 0])
    down = 4 * math.atanh(math.tanh(0.5) * math.tanh((0.1 + a) / 4))
    assert total == pytest.approx([2 * a, down, down])


def test_infinite_diameters_pass_everything():
    _, _, total = birkhoff_messages([-1, 0, 1], np.array([0.0, math.inf, math.inf]), 400.0)
    assert total == pytest.approx([800.0] * 3)


def test_couplings_and_blocks_by_hand():
    # a path of three with theta = 1/2: R = 1, 1.5, 1.75 from the leaf up
    passed = couplings([-1, 0, 1], [0.0, 0.5, 0.5])
    assert passed == pytest.approx([0.0, 0.75, 0.5])
    single = block_costs([-1, 0, 1], [0, 0, 0], 1.0, passed, 1)
    assert single == pytest.approx([1.75**2 + 1.5**2 + 1])
    whole = block_costs([-1, 0, 1], [0, 0, 0], 1.0, passed, 3)
    assert whole == pytest.approx([9.0])
    two = block_costs([-1, 0, 1], [0, 0, 0], 1.0, passed, 2)
    assert two == pytest.approx([(1 + 0.75) ** 2 + 4])
    assert best_block_costs([-1, 0, 1], [0, 0, 0], 1.0, passed) <= single
