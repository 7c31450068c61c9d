"""Strength of a network read off labels of training nodes."""

import networkx as nx
import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovNetwork


def potts(graph, coupling, rng, *, sweeps=30):
    """Return labels of a two-class Potts model (Gibbs sampling)."""
    neighbours = [list(graph.neighbors(v)) for v in graph]
    labels = rng.integers(0, 2, len(neighbours))
    for _ in range(sweeps):
        for v, near in enumerate(neighbours):
            ones = labels[near].sum()
            odds = coupling * (2 * ones - len(near))
            labels[v] = rng.random() < 1 / (1 + np.exp(-odds))
    return labels


def hidden(labels, rng, share=0.25):
    shown = labels.astype(object)
    shown[rng.permutation(len(labels))[: int(share * len(labels))]] = None
    return shown


@pytest.mark.parametrize("coupling", [0.0, 0.15, 0.4])
def test_upper_limit_is_above_the_truth_and_not_far(coupling):
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(20, 20))
    rng = np.random.default_rng(0)
    limits = []
    for _ in range(8):
        labels = potts(graph, coupling, rng)
        known = [label if rng.random() < 0.9 else None for label in labels]
        limits.append(MarkovNetwork.from_labels(graph, known).adjacency_.max())
    assert np.mean(np.array(limits) >= 2 * coupling) >= 0.75
    assert np.median(limits) <= 2 * coupling + 0.6


def test_labels_of_the_holdout_are_not_read():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(20, 20))
    rng = np.random.default_rng(1)
    labels = hidden(potts(graph, 0.2, rng), rng)
    as_numbers = np.array([np.nan if label is None else label for label in labels], dtype=float)
    assert MarkovNetwork.from_labels(graph, labels) == MarkovNetwork.from_labels(graph, as_numbers)


def test_model_says_assumed_and_splits_by_nodes():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(20, 20))
    rng = np.random.default_rng(2)
    model = MarkovNetwork.from_labels(graph, hidden(potts(graph, 0.1, rng), rng))
    split = model.split(400, 0.25, random_state=0)
    part = model.given_rest(split.holdout)
    for one in (model, part):
        assert one.describe().startswith("assumed from 300 training labels")
        assert any("Assumed" in line for line in one.caveats)


def test_what_labels_cannot_tell_is_refused():
    graph = nx.path_graph(6)
    with pytest.raises(ValueError, match="two classes"):
        MarkovNetwork.from_labels(graph, [1] * 6)
    with pytest.raises(ValueError, match="without an edge"):
        MarkovNetwork.from_labels(graph, [0, None, 1, None, 0, None])
    with pytest.raises(ValueError, match="one label"):
        MarkovNetwork.from_labels(graph, [0, 1])
    cliques = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(6))
    with pytest.raises(ValueError, match="determine each other"):
        MarkovNetwork.from_labels(cliques, [0] * 6 + [1] * 6)
