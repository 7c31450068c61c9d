"""Strength of a network read off labels of training nodes."""

import networkx as nx
import numpy as np
import pytest

from benchmarks.dependence.studies import coloring, drawn_again
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork, check_correlation
from tests.facts import refused, scheme_of

GRID = nx.to_scipy_sparse_array(nx.grid_2d_graph(20, 20))


def draw_ising_labels(influence, rng, n_draws):
    """Return draws (columns) of 0/1 labels of an Ising model on the grid."""
    initial_labels = rng.integers(0, 2, (400, n_draws)).astype(float)
    is_free = np.ones(400, dtype=bool)
    fields = np.zeros(400)
    return drawn_again(
        GRID, coloring(GRID), initial_labels, is_free, influence, fields, rng, sweeps=25
    )


def estimate_network(graph, labels, labeled_rows=None):
    network = MarkovNetwork(graph, influence="estimate")
    return network.with_estimated_strength(
        labels, np.arange(len(labels)) if labeled_rows is None else labeled_rows
    )


@pytest.mark.parametrize("influence", [0.0, 0.3, 0.8])
def test_upper_limit_is_above_the_truth_and_not_far(influence):
    rng = np.random.default_rng(0)
    limits = [
        estimate_network(GRID, labels, np.flatnonzero(rng.random(400) < 0.9)).adjacency_.max()
        for labels in draw_ising_labels(influence, rng, 12).T
    ]
    assert np.mean(np.array(limits) >= influence) >= 0.75
    assert np.median(limits) <= influence + 0.6


def test_a_strength_is_estimated_after_the_split_only():
    rng = np.random.default_rng(4)
    labels = draw_ising_labels(1.0, rng, 1)[:, 0].astype(int)
    model = MarkovNetwork(GRID, influence="estimate")
    split = model.split(400, 0.25, random_state=0)
    with refused(ValueError, "with_estimated_strength"):
        model.conditional_on_rest(split.holdout)
    estimated_network = model.with_estimated_strength(labels, split.train)
    changed_labels = labels.copy()
    changed_labels[split.holdout] = 1 - changed_labels[split.holdout]
    assert estimated_network == model.with_estimated_strength(changed_labels, split.train)
    holdout_network = estimated_network.conditional_on_rest(split.holdout)
    assert scheme_of(holdout_network).target == "these nodes, given the training nodes"
    for network in (estimated_network, holdout_network):
        assert network.describe().startswith("assumed from 300 training labels")
        assert any("Assumed" in line for line in network.caveats)
    declared_network = MarkovNetwork(GRID, influence=0.1)
    assert declared_network.with_estimated_strength(labels, split.train) == declared_network


def test_uninformative_labels_are_rejected():
    path = nx.path_graph(6)
    cliques = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(6))
    for graph, labels, labeled_rows, fact in (
        (path, [1] * 6, None, 1),
        (path, [0, 1] * 3, [0, 2, 4], 1),
        (path, [0, 0, 1, 0, 0, 1], [0, 2, 4], "labels"),
        (path, [0.5] * 6, None, "MarkovNetwork(graph)"),
        (path, None, [0, 1], "y=None"),
        (cliques, [0] * 6 + [1] * 6, None, "MarkovNetwork(graph, influence=...)"),
    ):
        with refused(ValueError, fact):
            MarkovNetwork(graph, influence="estimate").with_estimated_strength(
                labels, np.arange(len(labels)) if labeled_rows is None else labeled_rows
            )


def test_a_list_of_networks_is_not_cut():
    networks = [MarkovNetwork(GRID, influence=influence) for influence in (0.1, 0.2)]
    with refused(ValueError, "correlation"):
        check_correlation(networks).split(400, 0.25)


def test_a_component_too_large_to_hold_out_is_named():
    sizes = [40, *[6] * 10]
    graph = nx.disjoint_union_all([nx.path_graph(size) for size in sizes])
    for model in (DependencyGraph(graph), MarkovNetwork(graph, influence=0.3)):
        holdout_model = model.conditional_on_rest(np.arange(40, 64))
        assert "40% of all nodes" in " ".join(holdout_model.caveats)
        assert not any(
            "% of all" in line for line in model.conditional_on_rest(np.arange(40)).caveats
        )
