"""Factors: diameters, agreement of tables, rooted kernels."""

import math

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation._networks._factors import (
    collect_values,
    diameter_graph,
    pair_diameter,
    rooted_kernels,
)
from sklearn_bdp.correlation._networks._forest import rooted

from .oracle import field_distribution


def test_diameters_by_hand():
    table = np.array([[3.0, 1.0], [1.0, 3.0]])
    assert pair_diameter(table, 0, 1) == pytest.approx(math.log(9))
    assert pair_diameter(np.outer([1, 2], [3, 4]).astype(float), 0, 1) == pytest.approx(
        0, abs=1e-12
    )
    # parity of three: given the third, the first two have cross-ratio 81
    parity = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]])
    assert pair_diameter(parity, 0, 1) == pytest.approx(math.log(81**1))
    graph = diameter_graph([((0, 1), table), ((1, 0), table)], 2)
    assert graph[0, 1] == graph[1, 0] == pytest.approx(2 * math.log(9))


def test_sums_of_pairs_bound_blocks():
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = np.exp(rng.normal(size=(2, 2, 2)))
        block = pair_diameter(table.reshape(2, 4), 0, 1)
        assert block <= pair_diameter(table, 0, 1) + pair_diameter(table, 0, 2) + 1e-12


def test_values_must_agree():
    assert collect_values([((0, 2), np.ones((2, 3)))], 4).tolist() == [2, 1, 3, 1]
    with pytest.raises(ValueError, match="values of record 0"):
        collect_values([((0,), np.ones(2)), ((0, 1), np.ones((3, 2)))], 2)


def test_rooted_kernels_are_conditional_laws():
    rng = np.random.default_rng(1)
    factors = [
        ((0, 1), rng.random((2, 3)) + 0.1),
        ((2, 1), rng.random((2, 3)) + 0.1),
        ((1, 3), rng.random((3, 2)) + 0.1),
        ((3,), rng.random(2) + 0.1),
        ((0,), rng.random(2) + 0.1),
    ]
    joint = field_distribution([2, 3, 2, 2], dict(factors))
    ends = np.array([scope for scope, _ in factors if len(scope) == 2]).T
    graph = sparse.coo_array((np.ones(3), ends), shape=(4, 4))
    matrix = sparse.csr_array(graph + graph.T)
    order, parent = rooted(matrix, np.zeros(4, dtype=int), np.ones(4, dtype=bool))
    kernels = rooted_kernels(factors, order, parent)
    for k in range(1, 4):
        child, mother = int(order[k]), int(order[parent[k]])
        rest = tuple(v for v in range(4) if v not in (child, mother))
        pair = joint.sum(axis=rest)
        pair = pair if mother < child else pair.T
        assert kernels[k] == pytest.approx(pair / pair.sum(axis=1, keepdims=True))
    assert kernels[0] is None
