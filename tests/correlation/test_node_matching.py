"""Cross-validation of training nodes that predicts the holdout score."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovNetwork
from sklearn_bdp.correlation.cutting import match_nodes
from sklearn_bdp.correlation.node_matching import NodeMatching, effective_number, matching_weights


def matching(graph, seed=0):
    network = MarkovNetwork(graph)
    split = network.split(network.n_records, 0.25, random_state=seed)
    return match_nodes(network, split.train, split.holdout), split, network


GRAPHS = {
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30)),
    "Barabasi-Albert": nx.barabasi_albert_graph(900, 2, seed=0),
    "random": nx.gnm_random_graph(900, 3000, seed=0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_tested_nodes_have_as_many_labeled_neighbors_as_holdout_nodes(name):
    node_matching, split, network = matching(GRAPHS[name])
    edges = network.adjacency_ > 0
    np.testing.assert_array_equal(
        node_matching.n_holdout_neighbors, edges[split.holdout][:, split.train].sum(axis=1)
    )
    folds = node_matching.folds(5)
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(len(split.train)))
    sizes = [len(test) for _, test in folds]
    assert max(sizes) < 1.5 * min(sizes)
    labeled_neighbors = []
    n_tested_together = 0
    for train, test in folds:
        assert not np.intersect1d(train, test).size
        rows = edges[split.train[test]]
        labeled_neighbors.append(rows[:, split.train[train]].sum(axis=1))
        n_tested_together += rows[:, split.train[test]].sum()
    # Fewer than half of the edges that random folds would test together.
    assert n_tested_together < 0.5 * node_matching.adjacency.nnz / 5
    weights = node_matching.weights(folds)
    assert [len(part) for part in weights] == sizes
    weights = np.concatenate(weights)
    labeled_neighbors = np.log1p(np.concatenate(labeled_neighbors))
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
    log_holdout_neighbors = np.log1p(node_matching.n_holdout_neighbors)
    part = (weights @ labeled_neighbors - labeled_neighbors.mean()) / (
        log_holdout_neighbors.mean() - labeled_neighbors.mean()
    )
    assert part == pytest.approx(0.8)
    assert labeled_neighbors.mean() < log_holdout_neighbors.mean() - 0.1


def test_weights_match_two_moments_or_one_or_none():
    counts = np.repeat([0, 1, 2, 3], 50)
    target = np.array([1, 2, 3, 3])
    weights = matching_weights(counts, target)
    for power in (1, 2):
        logs = np.log1p(counts) ** power
        target_moment = (np.log1p(target) ** power).mean()
        assert weights @ logs - logs.mean() == pytest.approx(0.8 * (target_moment - logs.mean()))
    assert effective_number(weights) < 200
    # All at an inner value: no positive weights have its square, too.
    logs = np.log1p(np.repeat([0, 3], 50))
    weights = matching_weights(np.repeat([0, 3], 50), np.full(5, 2))
    assert weights @ logs - logs.mean() == pytest.approx(0.8 * (np.log1p(2) - logs.mean()))
    assert matching_weights(counts, np.full(5, 9)) is None
    assert matching_weights(np.full(40, 2), np.full(5, 3)) is None
    np.testing.assert_allclose(matching_weights(np.full(40, 2), np.full(5, 2)), 1 / 40)
    uniform = matching_weights(counts, counts)
    np.testing.assert_allclose(uniform, 1 / 200)


def test_too_few_nodes_give_no_weights():
    edges = sparse.csr_array(nx.to_scipy_sparse_array(nx.path_graph(60)))
    small_matching = NodeMatching(edges, np.full(10, 2))
    assert small_matching.weights([(np.arange(40), np.arange(40, 60))]) is None
    assert small_matching.weights(small_matching.folds(5)) is not None


def test_folds_of_a_tiny_graph_are_not_empty():
    tiny_matching = NodeMatching(sparse.csr_array(np.ones((4, 4)) - np.eye(4)), np.ones(1))
    assert all(len(test) for _, test in tiny_matching.folds(4))


def test_only_nodes_with_neighbors_on_the_other_side_are_matched():
    path = nx.path_graph(200)
    rows = np.arange(200)
    for model in (Independent(), Groups(rows // 2), DependencyGraph(path, reach="edges")):
        assert match_nodes(model, rows[:150], rows[150:]) is None
    assert match_nodes(MarkovNetwork(path, influence=0.2), rows[::2], rows[1::2]) is not None
    pairs = MarkovNetwork(nx.from_edgelist((k, k + 1) for k in range(0, 200, 2)), influence=0.2)
    assert match_nodes(pairs, rows[:150], rows[150:]) is None  # whole components
