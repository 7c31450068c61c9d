"""Strength of a network read off labels of training nodes."""

import networkx as nx
import numpy as np
import pytest

from benchmarks.dependence.studies import coloring, drawn_again
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork, check_correlation
from tests.facts import refused

GRID = nx.to_scipy_sparse_array(nx.grid_2d_graph(20, 20))


def drawn(influence, rng, draws):
    """Return draws (columns) of 0/1 labels of an Ising model on the grid."""
    start, free = rng.integers(0, 2, (400, draws)).astype(float), np.ones(400, dtype=bool)
    fields = np.zeros(400)
    return drawn_again(GRID, coloring(GRID), start, free, influence, fields, rng, sweeps=25)


def read(graph, labels, known=None):
    network = MarkovNetwork(graph, influence="estimate")
    return network.estimated(labels, np.arange(len(labels)) if known is None else known)


@pytest.mark.parametrize("influence", [0.0, 0.3, 0.8])
def test_upper_limit_is_above_the_truth_and_not_far(influence):
    rng = np.random.default_rng(0)
    limits = [
        read(GRID, labels, np.flatnonzero(rng.random(400) < 0.9)).adjacency_.max()
        for labels in drawn(influence, rng, 12).T
    ]
    assert np.mean(np.array(limits) >= influence) >= 0.75
    assert np.median(limits) <= influence + 0.6


def test_a_strength_is_estimated_after_the_split_only():
    rng = np.random.default_rng(4)
    labels = drawn(1.0, rng, 1)[:, 0].astype(int)
    model = MarkovNetwork(GRID, influence="estimate")
    split = model.split(400, 0.25, random_state=0)
    with refused(ValueError, "estimated"):
        model.given_rest(split.holdout)
    known = model.estimated(labels, split.train)
    other = labels.copy()
    other[split.holdout] = 1 - other[split.holdout]
    assert known == model.estimated(other, split.train)
    part = known.given_rest(split.holdout)
    assert part.target == "these nodes, given the training nodes"
    for one in (known, part):
        assert one.describe().startswith("assumed from 300 training labels")
        assert any("Assumed" in line for line in one.caveats)
    plain = MarkovNetwork(GRID, influence=0.1)
    assert plain.estimated(labels, split.train) == plain


def test_what_labels_cannot_tell_is_rejected():
    path, cliques = nx.path_graph(6), nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(6))
    for graph, labels, known, fact in (
        (path, [1] * 6, None, 1),
        (path, [0, 1] * 3, [0, 2, 4], 1),
        (path, [0, 0, 1, 0, 0, 1], [0, 2, 4], "labels"),
        (path, [0.5] * 6, None, "MarkovNetwork(graph)"),
        (path, None, [0, 1], "y=None"),
        (cliques, [0] * 6 + [1] * 6, None, "MarkovNetwork(graph, influence=...)"),
    ):
        with refused(ValueError, fact):
            MarkovNetwork(graph, influence="estimate").estimated(
                labels, np.arange(len(labels)) if known is None else known
            )


def test_a_list_of_networks_is_not_cut():
    networks = [MarkovNetwork(GRID, influence=one) for one in (0.1, 0.2)]
    with refused(ValueError, "correlation"):
        check_correlation(networks).split(400, 0.25)


def test_a_component_too_large_to_hold_out_is_named():
    sizes = [40, *[6] * 10]
    graph = nx.disjoint_union_all([nx.path_graph(k) for k in sizes])
    for model in (DependencyGraph(graph), MarkovNetwork(graph, influence=0.3)):
        part = model.given_rest(np.arange(40, 64))
        assert "40% of all nodes" in " ".join(part.caveats)
        assert not any("% of all" in line for line in model.given_rest(np.arange(40)).caveats)
