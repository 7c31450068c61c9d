"""A holdout of nodes that are not neighbors: independent given the rest, at any strength (G27)."""

import copy
import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    BayesianNetwork,
    DependencyGraph,
    Groups,
    Independent,
    MarkovNetwork,
    check_correlation,
)
from sklearn_bdp.correlation.components import check_row_order, largest_component
from sklearn_bdp.correlation.cutting import n_split_components
from tests.facts import refused, scheme_of

pd = pytest.importorskip("pandas")


def field(graph, rng, *, values=2):
    """Return a random joint distribution that is Markov on the graph, zeros included."""
    n = len(graph)
    while True:
        joint = np.ones([values] * n)
        for clique in nx.find_cliques(graph):
            table = rng.random([values] * len(clique)) ** rng.choice([1.0, 8.0, 60.0])
            table[rng.random(table.shape) < rng.choice([0.0, 0.3])] = 0.0
            order = np.argsort(clique)
            shape = [values if node in clique else 1 for node in range(n)]
            joint = joint * table.transpose(order).reshape(shape)
        if joint.sum() > 0:
            return joint / joint.sum()


def dependence(joint, holdout_nodes, codes, unlabeled=()):
    """Largest distance between the held nodes' joint and the product over components, given T."""
    n = joint.ndim
    joint = joint.sum(axis=tuple(unlabeled), keepdims=True)
    conditioning_nodes = [
        node for node in range(n) if node not in holdout_nodes and node not in unlabeled
    ]
    max_distance = 0.0
    for values in itertools.product(
        range(joint.shape[holdout_nodes[0]]), repeat=len(conditioning_nodes)
    ):
        index = [slice(None)] * n
        for node, value in zip(conditioning_nodes, values, strict=True):
            index[node] = slice(value, value + 1)
        conditional = joint[tuple(index)]
        if not conditional.sum() > 1e-12:
            continue
        conditional = conditional / conditional.sum()
        product = np.ones([1] * n)
        for code in np.unique(codes):
            other_nodes = [node for node, c in zip(holdout_nodes, codes, strict=True) if c != code]
            product = product * conditional.sum(axis=tuple(other_nodes), keepdims=True)
        max_distance = max(max_distance, float(np.abs(conditional - product).max()))
    return max_distance


@pytest.mark.parametrize("seed", range(12))
def test_components_given_the_rest_are_independent_at_any_strength(seed):
    """Every set of labeled nodes, by enumeration; factors may hold zeros and cliques of three."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(6, 0.4, seed=seed)
    joint = field(graph, rng)
    unlabeled = sorted(rng.permutation(6)[: seed % 3].tolist())
    rows = [node for node in range(6) if node not in unlabeled]
    model = MarkovNetwork(graph, labeled=rows)
    assert model.n_records == len(rows)
    for size in range(1, len(rows) + 1):
        for holdout_rows in itertools.combinations(range(len(rows)), size):
            holdout_model = model.conditional_on_rest(np.array(holdout_rows))
            codes = holdout_model.components(size)
            assert dependence(joint, [rows[k] for k in holdout_rows], codes, unlabeled) < 1e-10


def test_pairwise_independence_is_not_enough():
    """Three equal bits: each pair is independent given the third, and the graph has no edge."""
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[1, 1, 1] = 0.5
    for pair in itertools.combinations(range(3), 2):
        assert dependence(joint, list(pair), [0, 1]) == 0.0
    assert dependence(joint, [0, 1, 2], [0, 1, 2]) == pytest.approx(0.375)


def test_an_unlabeled_hub_ties_its_leaves():
    star = nx.star_graph(100)
    unlabeled_hub_network = MarkovNetwork(star, labeled=range(1, 101))
    assert unlabeled_hub_network.n_records == 100
    assert largest_component(unlabeled_hub_network.conditional_on_rest(np.arange(100)), 100) == 100
    with refused(ValueError, "estimate"):
        unlabeled_hub_network.split(100, 0.25)  # one leaf at most: fewer than 20 units
    labeled_hub_network = MarkovNetwork(star)
    split = labeled_hub_network.split(101, 0.25, random_state=0)
    assert scheme_of(labeled_hub_network.conditional_on_rest(split.holdout)).has_independent_records
    assert 0 in split.train


def test_at_most_one_held_out_node_touches_a_component_without_labels():
    graph = nx.watts_strogatz_graph(600, 4, 0.3, seed=0)
    mask = np.random.default_rng(0).random(600) < 0.8
    model = MarkovNetwork(graph, labeled=mask)
    n = int(mask.sum())
    split = model.split(n, 0.25, random_state=0)
    part = model.conditional_on_rest(split.holdout)
    assert scheme_of(part).has_independent_records
    assert len(split.holdout) >= 20
    rows = np.flatnonzero(mask)
    holdout_nodes = {int(rows[k]) for k in split.holdout}
    unlabeled_nodes = set(np.flatnonzero(~mask).tolist())
    for component in nx.connected_components(graph.subgraph(holdout_nodes | unlabeled_nodes)):
        assert len(component & holdout_nodes) <= 1


def test_a_holdout_of_nodes_counts_as_independent():
    model = MarkovNetwork(nx.barabasi_albert_graph(400, 2, seed=0))
    split = model.split(400, 0.25, random_state=0)
    n = len(split.holdout)
    part = model.conditional_on_rest(split.holdout)
    assert scheme_of(part).has_independent_records
    assert scheme_of(part).is_conditional
    assert scheme_of(part).has_independent_units
    grid = np.linspace(0.0, 1.0, 11)
    np.testing.assert_array_equal(part.log_tail(grid, n), Independent().log_tail(grid, n))
    for binary in (False, True):
        limits = [m.mean_lower_limit(grid, -3.0, n, binary=binary) for m in (part, Independent())]
        np.testing.assert_array_equal(*limits)
    assert part.bdp_epsilon(0.3, n) == part.dp_epsilon(0.3, n) == 0.3
    assert scheme_of(part).target == "these nodes, given the training nodes"
    caveats = " ".join(part.caveats)
    assert "all its labeled neighbors in the training set" in caveats
    assert "of all" in caveats


SHARES = {
    "Watts-Strogatz 4": (nx.watts_strogatz_graph(1500, 4, 0.3, seed=0), 375),
    "Watts-Strogatz 10": (nx.watts_strogatz_graph(1500, 10, 0.3, seed=0), 292),
    "Barabasi-Albert": (nx.barabasi_albert_graph(1500, 2, seed=0), 375),
}


@pytest.mark.parametrize("name", SHARES)
def test_the_set_is_as_large_as_the_reference(name):
    graph, reference_size = SHARES[name]
    model = MarkovNetwork(graph)
    split = model.split(1500, 0.25, random_state=0)
    assert abs(len(split.holdout) - reference_size) <= 0.04 * reference_size
    assert not model.adjacency_[split.holdout][:, split.holdout].nnz
    assert len(split.train) == 1500 - len(split.holdout)
    degree = np.diff(model.adjacency_.indptr)
    assert abs(degree[split.holdout].mean() / degree.mean() - 1.0) < 0.12


def test_a_giant_component_below_half_is_held_out_as_well():
    graph = nx.disjoint_union_all([nx.path_graph(960)] + [nx.path_graph(4) for _ in range(260)])
    for model in (MarkovNetwork(graph), MarkovNetwork(graph, influence=0.5)):
        holdout_nodes = model.split(2000, 0.25, random_state=0).holdout
        assert 0.4 < np.mean(holdout_nodes < 960) < 0.56
        assert scheme_of(model.conditional_on_rest(holdout_nodes)).has_independent_records
    giant_graph = nx.disjoint_union(nx.path_graph(1100), nx.empty_graph(900))
    with refused(ValueError, "MarkovNetwork(graph)"):
        DependencyGraph(giant_graph).split(2000, 0.25)


def test_a_number_takes_random_nodes_only_if_they_are_worth_more():
    graph = nx.random_regular_graph(20, 400, seed=0)
    weak_network = MarkovNetwork(graph, influence=0.01)
    assert len(weak_network.split(400, 0.25, random_state=0).holdout) == 100
    strong_network = MarkovNetwork(graph, influence=5.0)
    holdout_nodes = strong_network.split(400, 0.25, random_state=0).holdout
    assert scheme_of(strong_network.conditional_on_rest(holdout_nodes)).has_independent_records
    assert 20 < len(holdout_nodes) < 100


@pytest.mark.parametrize(
    "copy_model",
    [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
@pytest.mark.parametrize(
    "make",
    [
        MarkovNetwork,
        lambda g: MarkovNetwork(g, influence=0.1),
        DependencyGraph,
        lambda g: DependencyGraph(g, reach="edges"),
    ],
)
def test_copies_keep_the_order_of_nodes(make, copy_model):
    names = [f"node {k}" for k in range(40)]
    graph = nx.relabel_nodes(nx.path_graph(40), dict(enumerate(names)))
    model = copy_model(make(graph))
    holdout_nodes = np.arange(0, 40, 4)
    frame = pd.DataFrame({"x": range(40)}, index=names)
    for part, rows in (
        (model, frame),
        (copy_model(model.conditional_on_rest(holdout_nodes)), frame.iloc[holdout_nodes]),
    ):
        if isinstance(part, Groups) and part.n_records < 40:
            continue  # a component was cut: groups, which have no names
        check_row_order("correlation", part, rows)
        with refused(ValueError, "order"):
            check_row_order("correlation", part, rows[::-1])


def test_rows_are_matched_to_nodes_by_name_mask_or_position():
    graph = nx.path_graph(list("abcdef"))
    by_name = MarkovNetwork(graph, labeled=["f", "a", "c"])
    assert MarkovNetwork(graph, nodelist=pd.Index(["f", "a", "c"])) == by_name
    matrix = nx.to_scipy_sparse_array(graph)
    assert MarkovNetwork(matrix, labeled=[5, 0, 2]) == by_name
    mask = [node in "acf" for node in "abcdef"]
    masked = MarkovNetwork(graph, labeled=mask)
    assert masked == MarkovNetwork(matrix, labeled=np.array(mask))
    assert masked == MarkovNetwork(graph, labeled=["a", "c", "f"])
    assert masked == MarkovNetwork(graph, labeled=mask, nodelist=list("abcdef"))


def test_nodes_without_labels_join_their_labeled_neighbors():
    graph = nx.path_graph(list("abcdef"))
    acf_network = MarkovNetwork(graph, labeled=["a", "c", "f"])
    assert acf_network.conditional_on_rest([0, 1]).components(2).tolist() == [0, 0]  # by node b
    assert MarkovNetwork(graph).conditional_on_rest([0, 2]).components(2).tolist() == [0, 1]


@pytest.mark.parametrize("labeled", [["a", "a"], ["z"], [], [True, False]])
def test_invalid_labeled_nodes_raise(labeled):
    with refused(ValueError, "labeled"):
        MarkovNetwork(nx.path_graph(list("abcdef")), labeled=labeled)


def test_declared_influence_needs_labels_of_all_nodes():
    with refused(ValueError, "influence=None"):
        MarkovNetwork(nx.path_graph(list("abcdef")), influence=1.0, labeled=["a"])


def test_a_matrix_takes_no_nodelist():
    matrix = nx.to_scipy_sparse_array(nx.path_graph(6))
    with refused(ValueError, "nodelist=", "csr_array"):
        MarkovNetwork(matrix, nodelist=[5, 0, 2])


def test_only_holdouts_of_nodes_are_given_the_rest():
    model = MarkovNetwork(nx.cycle_graph(200))
    part = model.conditional_on_rest(model.split(200, 0.25, random_state=0).holdout)
    assert scheme_of(part).is_conditional
    assert not scheme_of(Independent(), 200).is_conditional
    assert not scheme_of(Groups([0, 0, 1])).is_conditional


# -- Sets without an edge between them are independent ------------------------------------------


def test_neighbors_of_the_holdout_are_never_kept():
    graph = nx.watts_strogatz_graph(2000, 4, 0.3, seed=0)
    model = DependencyGraph(graph, reach="edges")
    split = model.split(2000, 0.25, random_state=0)
    edges = model.adjacency_
    assert not edges[split.holdout][:, split.holdout].nnz
    assert not edges[split.holdout][:, split.train].nnz
    assert len(split.holdout) >= 0.24 * (len(split.holdout) + len(split.train))
    assert len(split.train) >= 1000
    part = model.conditional_on_rest(split.holdout)
    assert scheme_of(part).has_independent_records
    assert "buffer" in " ".join(part.caveats)
    assert str(2000 - len(split.train) - len(split.holdout)) in " ".join(part.caveats)
    train = model.training_model(split.train)
    pairs = train.folds(len(split.train), 5, random_state=0)
    tested = np.concatenate([test for _, test in pairs])
    assert sorted(tested) == list(range(len(split.train)))
    for training_nodes, test in pairs:
        assert not train.adjacency_[training_nodes][:, test].nnz
        assert len(training_nodes) >= len(test)


def test_the_xor_chain_is_rejected_if_neighbors_are_kept():
    """Labels are sums of two coins: training neighbors carry information on the holdout."""
    coins = np.array(list(itertools.product([0, 1], repeat=6)))
    labels = coins[:, :-1] ^ coins[:, 1:]
    joint = np.zeros([2] * 5)
    np.add.at(joint, tuple(labels.T), np.where(coins == 1, 0.2, 0.8).prod(axis=1))
    holdout_nodes = [0, 2, 4]  # no common edge: independent, but not given the nodes between them
    assert dependence(joint, holdout_nodes, [0, 1, 2], unlabeled=(1, 3)) < 1e-12
    assert dependence(joint, holdout_nodes, [0, 1, 2]) > 0.02
    joint_of_two = joint.sum(axis=(2, 3, 4))
    np.testing.assert_allclose(
        [joint_of_two[1].sum(), joint_of_two[1, 1] / joint_of_two[:, 1].sum()], [0.32, 0.5]
    )
    model = DependencyGraph(nx.path_graph(400), reach="edges")
    holdout_nodes = np.arange(0, 400, 8)
    training_nodes = np.setdiff1d(np.arange(400), holdout_nodes)
    assert n_split_components(model, training_nodes, holdout_nodes) == len(holdout_nodes)
    neighbor_nodes = np.r_[holdout_nodes + 1, holdout_nodes[1:] - 1]
    assert (
        n_split_components(model, np.setdiff1d(training_nodes, neighbor_nodes), holdout_nodes) == 0
    )
    for train, test in model.folds(400, 4):
        assert n_split_components(model, train, test) == 0


def test_components_declared_as_groups_or_graph_are_one():
    graph = DependencyGraph(nx.caveman_graph(30, 5))
    groups = Groups(np.repeat(np.arange(30), 5))
    assert scheme_of(graph).n_units == scheme_of(groups).n_units == 30
    for seed in range(3):
        graph_split, groups_split = (m.split(150, 0.25, random_state=seed) for m in (graph, groups))
        np.testing.assert_array_equal(graph_split.holdout, groups_split.holdout)
    values = np.linspace(0.0, 1.0, 9)
    limits = [m.mean_lower_limit(values, -3.0, 150) for m in (graph, groups)]
    np.testing.assert_array_equal(*limits)


def test_graphs_with_too_few_separate_nodes_are_rejected():
    dense = DependencyGraph(nx.complete_graph(100), reach="edges")
    with refused(ValueError, "reach='edges'", 20):
        dense.split(100, 0.25)
    with refused(ValueError, "reach"):
        DependencyGraph(nx.path_graph(3), reach="paths")


# -- Words --------------------------------------------------------------------------------------


def test_distances_are_no_strengths():
    from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

    locations = np.random.default_rng(0).random((500, 2))
    nearest_graph = kneighbors_graph(locations, 8, mode="distance")
    radius_graph = radius_neighbors_graph(locations, 0.1, mode="distance")
    for graph in (nearest_graph.maximum(nearest_graph.T), radius_graph):
        with refused(ValueError, "distances"):
            MarkovNetwork(graph, influence="data")
        assert MarkovNetwork(graph).n_records == 500
    nearest_graph.data = np.exp(-40 * nearest_graph.data)
    assert MarkovNetwork(nearest_graph, influence="data").n_records == 500


def test_another_number_of_records_than_nodes_raises_with_a_remedy():
    network = MarkovNetwork(nx.path_graph(30))
    with refused(ValueError, "n=20", 30, "labeled="):
        network.check_n(20)
    with refused(ValueError, "disjoint_union_all"):
        network.check_n(60)


def test_a_list_of_networks_raises_with_a_remedy():
    network = MarkovNetwork(nx.path_graph(30))
    with refused(ValueError, "disjoint_union_all"):
        check_correlation([network, network]).split(30, 0.25)


def test_strength_is_not_estimated_from_real_targets():
    network = MarkovNetwork(nx.path_graph(30), influence="estimate")
    with refused(ValueError, "regression"):
        network.with_estimated_strength(np.linspace(0, 1, 30), np.arange(20))


def test_bayesian_networks_take_integers_of_numpy():
    tables = [[0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]]
    network = BayesianNetwork([[], [0]], tables)
    assert BayesianNetwork({np.int64(1): [np.int64(0)]}, tables) == network
    assert BayesianNetwork([[], np.array([0])], tables) == network


def test_a_large_graph_can_be_split():
    rng = np.random.default_rng(0)
    n = 100_000
    edge_ends = rng.integers(0, n, (2, 10 * n))
    model = MarkovNetwork(sparse.coo_array((np.ones(10 * n), edge_ends), shape=(n, n)))
    split = model.split(n, 0.25, random_state=0)
    assert len(split.holdout) > 14_000
    assert scheme_of(model.conditional_on_rest(split.holdout)).has_independent_records
