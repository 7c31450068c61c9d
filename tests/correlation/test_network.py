"""Markov networks: every route against the exact leakage, scale, errors."""

import math
import pickle

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import BayesianNetwork, Groups, MarkovChain, MarkovNetwork
from sklearn_bdp.correlation.leakage import leakage_bound
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from tests.facts import refused

from .levels import records_of_trees, sequential_epsilon
from .oracle import bdp_leakage, edge_diameters, field_distribution, leakage, sequential_leakage

SHAPES = {
    "star": [(0, 1), (0, 2), (0, 3)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "loop": [(0, 1), (1, 2), (2, 3), (0, 3)],
    "triangle with a tail": [(0, 1), (1, 2), (0, 2), (2, 3)],
    "complete": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
    "two pairs": [(0, 1), (2, 3)],
}


def random_tables(edges, n, seed, *, scale=1.0, n_values=2):
    rng = np.random.default_rng(seed)
    pairwise = {e: np.exp(scale * rng.normal(size=(n_values, n_values))) for e in edges}
    unary = {i: rng.random(n_values) + 0.05 for i in range(n)}
    joint = field_distribution([n_values] * n, {**pairwise, **{(i,): u for i, u in unary.items()}})
    return pairwise, joint


def check_network(edges, n, seed, epsilon, **options):
    pairwise, joint = random_tables(edges, n, seed, **options)
    model = MarkovNetwork(edge_diameters(pairwise, n), influence="data")
    truth = bdp_leakage(joint, epsilon)
    for method in ("tight", "quilt", "blanket"):
        assert truth <= model.bdp_epsilon(epsilon, n, method=method) + 1e-7
    trees = records_of_trees(model)
    sequential = sequential_leakage(joint, epsilon, order=trees if len(trees) == n else range(n))
    assert sequential <= sequential_epsilon(model, epsilon, n) + 1e-7
    bias = np.mean([math.tanh(leakage(joint, epsilon, i, []) / 4) for i in range(n)])
    assert bias <= posterior_bias(model, epsilon, n) + 1e-7
    worst = max(sequential_epsilon(model, epsilon, n), model.bdp_epsilon(epsilon, n))
    assert sequential_information(model, epsilon, n) <= (n * epsilon) ** 2 / 8 + 1e-12
    assert sequential_information(model, epsilon, n) <= n * worst**2 / 8 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("shape", "scale", "epsilon"),
    [
        ("star", 1.2, 1.0),
        ("triangle with a tail", 1.2, 1.0),
        ("two pairs", 1.2, 1.0),
        *(pytest.param(shape, 0.3, 0.05, marks=pytest.mark.slow) for shape in SHAPES),
        *(pytest.param(shape, 1.2, 1.0, marks=pytest.mark.slow) for shape in SHAPES),
    ],
)
def test_networks_stay_above_the_exact_leakage(shape, scale, epsilon):
    """Theory B6."""
    check_network(SHAPES[shape], 4, len(shape), epsilon, scale=scale)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_many_networks_stay_above_the_exact_leakage(shape, seed):
    for scale in (0.2, 1.0):
        for epsilon in (0.01, 0.3, 2.0):
            check_network(SHAPES[shape], 4, seed, epsilon, scale=scale)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_binary_tree_and_three_values(seed):
    check_network([(0, 1), (0, 2), (1, 3), (1, 4)], 5, seed, 0.3)
    check_network([(0, 1), (1, 2)], 3, seed, 0.3, n_values=3)


def test_path_by_hand():
    # Two messages of 4 artanh(tanh(D/4) tanh(e/4)) at the middle record.
    model = MarkovNetwork(nx.path_graph(3), influence=2.0)
    message = 4 * math.atanh(math.tanh(0.5) * math.tanh(0.1 / 4))
    assert model.bdp_epsilon(0.1, 3) == pytest.approx(0.1 + 2 * message)
    star = MarkovNetwork(nx.star_graph(3), influence=2.0)
    assert star.bdp_epsilon(0.1, 4) == pytest.approx(0.1 + 3 * message)
    end = 4 * math.atanh(math.tanh(0.5) * math.tanh((0.1 + 2 * message) / 4))
    assert leakage_bound(star).record_levels(0.1)[1] == pytest.approx(0.1 + end)


def test_a_long_path_is_a_chain():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    path = MarkovNetwork(nx.path_graph(500), influence=chain.diameter_)
    for epsilon in (1e-3, 0.5):
        assert path.bdp_epsilon(epsilon, 500) == pytest.approx(chain.bdp_epsilon(epsilon, 500))


def test_quilts_by_hand():
    # Zhao 2017, Lemmas 2 and 3 on a pair: the blanket of 0 is {1}, its influence at most ln 9; the
    # empty quilt costs 2 e'.
    model = MarkovNetwork(nx.path_graph(2), influence=math.log(9))
    blanket = 4 * math.log(9)
    assert model.bdp_epsilon(10.0, 2, method="blanket") == pytest.approx(10 + blanket)
    assert model.bdp_epsilon(10.0, 2, method="quilt") == pytest.approx(10 + blanket)
    assert model.bdp_epsilon(1.0, 2, method="quilt") == pytest.approx(2.0)
    assert model.dp_epsilon(1.0, 2, method="quilt") == pytest.approx(0.5)
    assert model.dp_epsilon(1.0, 2, method="blanket") == 0.0
    assert model.dp_epsilon(10.0, 2, method="blanket") == pytest.approx(10 - blanket)


def test_tables_with_zeros_fall_back_on_components():
    model = BayesianNetwork([[], [0]], [[0.5, 0.5], np.eye(2)])
    assert model.bdp_epsilon(0.1, 2) == pytest.approx(0.2)
    assert sequential_epsilon(model, 0.1, 2) == pytest.approx(0.2)
    with refused(ValueError, "method='blanket'", "method='quilt'"):
        model.bdp_epsilon(0.1, 2, method="blanket")
    table = np.array([[1.0, 0.0], [0.5, 0.5]])
    half = BayesianNetwork([[], [0]], [[0.5, 0.5], table])
    joint = field_distribution([2, 2], {(0, 1): table})
    assert bdp_leakage(joint, 0.5) <= half.bdp_epsilon(0.5, 2) + 1e-9
    assert sequential_epsilon(half, 0.5, 2) < 1.0


def test_containers_agree():
    graph = nx.Graph()
    graph.add_edge(2, 0, influence=0.5, strength=1.5)
    graph.add_edge(0, 1, influence=0.7, strength=2.5)
    matrix = sparse.coo_array(([0.5, 0.7], ([0, 0], [2, 1])), shape=(3, 3))
    order = range(3)
    network = MarkovNetwork(matrix, influence="data")
    assert MarkovNetwork(graph, influence="influence", nodelist=order) == network
    assert network == MarkovNetwork(matrix.toarray(), influence="data")
    strength_network = MarkovNetwork(graph, influence="strength", nodelist=order)
    assert strength_network.adjacency_[0, 1] == 2.5
    assert MarkovNetwork(matrix, influence=2.0).adjacency_[0, 2] == 2.0
    assert MarkovNetwork(matrix, influence=0.0).n_components_ == 3
    assert pickle.loads(pickle.dumps(strength_network)) == strength_network


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ({"graph": nx.path_graph(3), "influence": math.inf}, "influence=inf"),
        (
            {"graph": np.array([[0, np.inf], [np.inf, 0]]), "influence": "data"},
            "MarkovNetwork(graph)",
        ),
        ({"graph": nx.path_graph(3), "influence": -1.0}, "influence=-1.0"),
        ({"graph": nx.path_graph(3), "influence": math.nan}, "influence=nan"),
        ({"graph": nx.path_graph(3), "influence": "w"}, "'w'"),
        ({"graph": np.eye(3), "influence": "x"}, "influence='x'"),
        ({"graph": np.array([[0, -1.0], [-1.0, 0]])}, -1),
        ({"graph": np.ones((2, 3))}, "(2, 3)"),
    ],
)
def test_bad_arguments_are_named(arguments, fact):
    with refused(ValueError, fact):
        MarkovNetwork(**arguments)


def test_graph_must_match_the_records():
    with refused(ValueError, "n=4", 3):
        MarkovNetwork(nx.path_graph(3), influence=1.0).bdp_epsilon(0.1, 4)


def test_subset_keeps_dependence_through_dropped_records():
    pairs = (
        nx.relabel_nodes(nx.path_graph(2), {0: 3, 1: 4}),
        nx.relabel_nodes(nx.path_graph(2), {0: 5, 1: 6}),
    )
    model = MarkovNetwork(nx.union_all([nx.path_graph(3), *pairs]), influence=1.0)
    assert model.subset([0, 2]) == Groups([0, 0])
    assert model.subset([3, 4]) == MarkovNetwork(nx.path_graph(2), influence=1.0)
    # No component holds more than half of the records: whole ones are held out.
    split = model.split(7, 0.4, random_state=0)
    assert sorted(split.holdout) in ([0, 1, 2], [3, 4], [5, 6], [3, 4, 5, 6])
    # A larger one is divided by nodes (theory G13).
    assert MarkovNetwork(nx.path_graph(3), influence=1.0).split(3, 0.4).holdout.size == 2


@pytest.mark.parametrize("shape", ["path", "star", "loop"])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_in_any_order_keep_the_strength_of_their_edges(shape, seed):
    """Node order: a splitter's test indices are in none."""
    make_graph = {
        "path": nx.path_graph,
        "star": lambda n: nx.star_graph(n - 1),
        "loop": nx.cycle_graph,
    }
    rng = np.random.default_rng(seed)
    graph = make_graph[shape](12)
    nx.set_edge_attributes(graph, {edge: rng.uniform(0.1, 1.5) for edge in graph.edges}, "weight")
    matrix = nx.to_scipy_sparse_array(graph, nodelist=range(12), format="csr")
    order = rng.permutation(12)
    subset = MarkovNetwork(matrix, influence="data").subset(order)
    reordered_network = MarkovNetwork(matrix.toarray()[np.ix_(order, order)], influence="data")
    assert subset == reordered_network
    assert subset.effective_n(12) == reordered_network.effective_n(12)
    assert subset.bdp_epsilon(0.1, 12) == reordered_network.bdp_epsilon(0.1, 12)


def test_weak_loops_cost_little():
    # A wide grid: layers around a record grow, walks that reach it do not.
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(40, 40))
    model = MarkovNetwork(grid, influence=0.2)
    assert model.bdp_epsilon(1e-3, 1600) <= 1e-3 / (1 - 4 * math.tanh(0.05))
    assert model.bdp_epsilon(1e-3, 1600, method="quilt") >= model.bdp_epsilon(1e-3, 1600)
