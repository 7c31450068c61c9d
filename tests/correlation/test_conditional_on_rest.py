"""A connected graph is split by nodes: bounds hold given all other records (theory G13)."""

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import BayesianNetwork, DependencyGraph, MarkovNetwork
from tests.facts import refused

from .oracle import bdp_leakage
from .tails import log_tail_above


def ising(edges, n, rng, *, strength):
    """Return a symmetric matrix of edge diameters and the log weights of all ``2**n`` values."""
    diameters = np.zeros((n, n))
    for i, j in edges:
        diameters[i, j] = diameters[j, i] = rng.uniform(0.05, strength)
    signs = rng.choice([-1.0, 1.0], (n, n))
    signs = np.triu(signs, 1) + np.triu(signs, 1).T
    spins = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    coupling = np.triu(signs * diameters / 4.0, 1)  # edge diameter 4 |J|
    energy = spins @ rng.normal(0, 0.8, n) + np.einsum("si,ij,sj->s", spins, coupling, spins)
    return diameters, spins, energy


def conditionals(spins, energy, inside):
    """Yield the values of the records inside and their distribution, for all values outside."""
    outside = np.setdiff1d(np.arange(spins.shape[1]), inside)
    for outside_values in itertools.product([-1.0, 1.0], repeat=len(outside)):
        rows = np.all(spins[:, outside] == outside_values, axis=1)
        weights = np.exp(energy[rows] - energy[rows].max())
        yield spins[rows][:, inside], weights / weights.sum()


def graphs():
    """Yield graphs of five nodes, and slow ones of six."""
    rng = np.random.default_rng(0)
    for n, marks in ((5, ()), (6, pytest.mark.slow)):
        pairs = list(itertools.combinations(range(n), 2))
        for name, edges in (
            ("path", [(i, i + 1) for i in range(n - 1)]),
            ("ring", [(i, (i + 1) % n) for i in range(n)]),
            ("star", [(0, i) for i in range(1, n)]),
            ("complete", pairs),
            ("random", [pair for pair in pairs if rng.random() < 0.5]),
        ):
            yield pytest.param(edges, n, marks=marks, id=f"{name} of {n}")


@pytest.mark.parametrize("strength", [0.3, 1.5])
@pytest.mark.parametrize(("edges", "n"), list(graphs()))
def test_tails_hold_on_every_split_for_all_training_values(edges, n, strength):
    """Theory G13 by enumeration: all splits, all values of the training nodes, random scores."""
    rng = np.random.default_rng(7)
    diameters, spins, energy = ising(edges, n, rng, strength=strength)
    network = MarkovNetwork(diameters, influence="data")
    n_checked = 0
    for size in range(1, n):
        for inside in map(np.array, itertools.combinations(range(n), size)):
            model = network.conditional_on_rest(inside)
            scores = rng.random((size, 2)) ** rng.choice([0.2, 1.0, 5.0])
            scores[rng.random(size) < 0.5] = [0.0, 1.0]
            for values, weights in conditionals(spins, energy, inside):
                q = scores[np.arange(size), (values > 0).astype(int)].mean(axis=1)
                mean = float(weights @ q)
                thresholds = np.unique(q[q > mean + 1e-9])
                tails = np.log([weights[q >= value - 1e-12].sum() for value in thresholds])
                assert (tails <= log_tail_above(model, mean, thresholds, size) + 1e-9).all()
                n_checked += len(thresholds)
    assert n_checked > 200


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_leakage_holds_for_all_training_values(seed):
    """Theory G13 against the exact worst mechanism (linear programs)."""
    rng = np.random.default_rng(seed)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    diameters, spins, energy = ising(edges, 5, rng, strength=1.5)
    inside = np.sort(rng.permutation(5)[:3])
    bound = (
        MarkovNetwork(diameters, influence="data").conditional_on_rest(inside).bdp_epsilon(0.3, 3)
    )
    for values, weights in conditionals(spins, energy, inside):
        order = np.lexsort(values.T[::-1])
        assert bdp_leakage(weights[order].reshape(2, 2, 2), 0.3) <= bound + 1e-7


def test_tables_of_a_network_are_not_used_given_the_rest():
    """Stationary rows are no bound given an observed child (theory G13: .009 becomes .41)."""
    table = np.array([[0.5, 0.5], [0.01, 0.99]])
    network = BayesianNetwork([[], [0], [1]], [[1e-3, 1 - 1e-3], table, table])
    conditional_network = network.conditional_on_rest([0, 1])
    marginal_network = BayesianNetwork([[], [0]], [[1e-3, 1 - 1e-3], table])
    assert conditional_network.effective_n(2) < marginal_network.effective_n(2)


def test_split_is_by_nodes_if_components_are_too_large():
    network = MarkovNetwork(nx.karate_club_graph(), influence=0.1)
    split = network.split(34, 0.25, random_state=0)
    assert len(split.holdout) == 9
    assert len(split.train) == 25
    model = network.conditional_on_rest(split.holdout)
    assert model.n_records == 9
    assert "given all other records" in model.describe()
    assert any("given the training nodes" in line for line in model.caveats)
    tested_nodes = np.concatenate([test for _, test in network.folds(34, 3)])
    assert sorted(tested_nodes) == list(range(34))


def test_split_keeps_components_whole_if_they_are_small():
    pairs = sparse.kron(sparse.eye_array(20), np.array([[0.0, 1.0], [1.0, 0.0]]))
    network = MarkovNetwork(pairs, influence=0.4)
    split = network.split(40, 0.25, random_state=0)
    assert np.intersect1d(split.train // 2, split.holdout // 2).size == 0
    model = network.conditional_on_rest(split.holdout)
    assert model == network.subset(split.holdout)
    assert model.caveats == ()


def test_conditional_models_differ_from_marginal_models():
    network = MarkovNetwork(nx.path_graph(6), influence=0.4)
    assert network.conditional_on_rest([1, 2, 4]) != MarkovNetwork(
        network.adjacency_[[1, 2, 4]][:, [1, 2, 4]], influence="data"
    )
    assert network.conditional_on_rest([1, 2, 4]).n_components_ == 2


def test_errors_of_graphs_without_strength_name_the_alternative():
    graph = DependencyGraph(nx.karate_club_graph())
    for call in (lambda: graph.split(34, 0.25), lambda: graph.folds(34, 3)):
        with refused(ValueError, "MarkovNetwork(graph, influence='estimate')"):
            call()


def test_infinite_edges_cannot_be_cut():
    network = BayesianNetwork([[], [0], [1]], [[0.5, 0.5], np.eye(2), np.eye(2)])
    with refused(ValueError, "component"):
        network.split(3, 0.34)
