"""Breadth-first layers against distances found by full matrix powers."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from sklearn_bdp.correlation.privacy import _layers as layers_module
from sklearn_bdp.correlation.privacy._layers import search_layers


def random_graph(seed, n=30, p=0.08):
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((n, n)) < p, 1) * rng.random((n, n))
    return sparse.csr_array(dense + dense.T)


def full(matrix):
    n = matrix.shape[0]
    distance = shortest_path(matrix, unweighted=True)
    sizes = np.isfinite(distance).sum(axis=1)
    return distance, sizes, search_layers(matrix, np.arange(n), sizes)


@pytest.mark.parametrize("seed", range(3))
def test_layers_are_distance_classes(seed):
    matrix = random_graph(seed)
    distance, _, layers = full(matrix)
    dense = matrix.toarray()
    for v in range(30):
        for t in range(len(layers.sizes)):
            inner, outer = distance[v] == t, distance[v] == t + 1
            assert layers.sizes[t, v] == outer.sum()
            if outer.any():
                assert layers.diameters[t, v] == pytest.approx(dense[np.ix_(inner, outer)].sum())
    assert np.all(layers.beyond == 0)
    assert np.all(layers.rest == 0)


def test_cutting_the_search_short_only_loosens(monkeypatch):
    matrix = random_graph(1, n=60, p=0.05)
    _, sizes, whole = full(matrix)
    for name, value in (("MEAN_BALL", 3), ("MOST_LAYERS", 1), ("MOST_VISITS", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(layers_module, name, value)
            patch.setattr(layers_module, "CHUNK", 16)
            short = search_layers(matrix, np.arange(60), sizes)
        for epsilon in (0.01, 1.0):
            assert np.all(short.leakage(epsilon) >= whole.leakage(epsilon) - 1e-12)
            assert np.all(
                short.quilted(epsilon, sizes, 4.0) >= whole.quilted(epsilon, sizes, 4.0) - 1e-12
            )


def test_levels_never_exceed_the_component():
    matrix = random_graph(2)
    _, sizes, layers = full(matrix)
    assert np.all(layers.leakage(0.1) <= 0.1 * sizes + 1e-9)
    assert np.all(layers.quilted(0.1, sizes, 4.0) <= 0.1 * sizes + 1e-9)
