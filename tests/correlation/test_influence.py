"""Influence over distance against distributions written out in full."""

import itertools

import numpy as np
import pytest

from sklearn_bdp.correlation import BayesianNetwork, CorrelationModel, MarkovNetwork
from sklearn_bdp.correlation.privacy import influence_over_distance


def ising(adjacency, rng):
    """Return the joint distribution of binary records with random fields; edge diameter 4 |J|."""
    n = len(adjacency)
    field = rng.normal(0, 0.7, n)
    states = np.array(list(itertools.product([-1, 1], repeat=n)))
    energy = states @ field + np.einsum("si,ij,sj->s", states, np.triu(adjacency), states) / 4.0
    distribution = np.exp(energy)
    return states, distribution / distribution.sum()


def exact_influence(states, distribution, i, j):
    """Return max ln P[x_i | x_j] / P[x_i | x_j'] by enumeration."""
    kernel = np.array(
        [
            [distribution[(states[:, j] == b) & (states[:, i] == a)].sum() for a in (-1, 1)]
            / distribution[states[:, j] == b].sum()
            for b in (-1, 1)
        ]
    )
    return np.log(kernel.max(axis=0) / kernel.min(axis=0)).max()


def tree(rng, n):
    matrix = np.zeros((n, n))
    for child in range(1, n):
        parent = rng.integers(0, child)
        matrix[child, parent] = matrix[parent, child] = rng.uniform(0.2, 4.0)
    return matrix


def distances(adjacency):
    from scipy.sparse.csgraph import shortest_path

    return shortest_path(adjacency, unweighted=True)


@pytest.mark.parametrize("seed", range(15))
def test_influence_on_a_tree_is_never_understated(seed):
    rng = np.random.default_rng(seed)
    adjacency = tree(rng, 7)
    states, distribution = ising(adjacency, rng)
    bound = influence_over_distance(MarkovNetwork(adjacency), 6)
    apart = distances(adjacency)
    for i, j in itertools.permutations(range(7), 2):
        assert exact_influence(states, distribution, i, j) <= bound[int(apart[i, j]) - 1] + 1e-9
    assert (bound[int(apart.max()) :] == 0).all()


@pytest.mark.parametrize("seed", range(15))
def test_influence_with_loops_is_never_understated(seed):
    rng = np.random.default_rng(seed)
    adjacency = tree(rng, 7)
    for i, j in ((0, 6), (2, 5)):
        adjacency[i, j] = adjacency[j, i] = 0.5
    states, distribution = ising(adjacency, rng)
    bound = influence_over_distance(MarkovNetwork(adjacency), 6)
    apart = distances(adjacency)
    for i, j in itertools.permutations(range(7), 2):
        assert exact_influence(states, distribution, i, j) <= bound[int(apart[i, j]) - 1] + 1e-9


def test_no_edges_no_influence():
    assert influence_over_distance(MarkovNetwork(np.zeros((3, 3))), 4).tolist() == [0.0] * 4


def test_pedigree_is_accepted():
    root, child = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    model = BayesianNetwork([[], [0], [1]], [root, child, child])
    values = influence_over_distance(model, 3)
    assert values[0] > values[1] > values[2] == 0.0


def test_models_without_distance_are_refused():
    class Elsewhere(CorrelationModel):
        def __init__(self):
            pass

    Elsewhere.__abstractmethods__ = frozenset()
    with pytest.raises(TypeError, match="Elsewhere"):
        influence_over_distance(Elsewhere(), 3)
