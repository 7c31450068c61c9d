"""Forms of one graph: the same model from each, and no other order or size of the records."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import DependencyGraph, MarkovNetwork
from tests.facts import refused

pd = pytest.importorskip("pandas")

# A holdout of each form for the same records.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

N = 200
LOCATIONS = np.random.default_rng(0).random((N, 2))
MATRIX = kneighbors_graph(LOCATIONS, 4)  # directed, as scikit-learn gives it
GRAPH = nx.Graph(nx.from_scipy_sparse_array(MATRIX))
PAIRS = np.array(GRAPH.edges)
NAMES = [f"plot {k}" for k in np.random.default_rng(1).permutation(N)]
NAMED = nx.relabel_nodes(GRAPH, dict(enumerate(NAMES)))
MULTIGRAPH = nx.MultiGraph(GRAPH)
MULTIGRAPH.add_edges_from(GRAPH.edges)
NAMED_PAIRS = pd.DataFrame(list(NAMED.edges), columns=["source", "target"])


def neighbors(graph):
    return {node: sorted(graph[node]) for node in graph}


#: A model of the graph from each form, and the index of the rows of a table that suits it.
FORMS = {
    "scipy.sparse": (lambda: MarkovNetwork(MATRIX), range(N)),
    "distances": (lambda: MarkovNetwork(kneighbors_graph(LOCATIONS, 4, mode="distance")), range(N)),
    "dense array": (lambda: MarkovNetwork(MATRIX.toarray()), range(N)),
    "dense table": (
        lambda: MarkovNetwork(pd.DataFrame(MATRIX.toarray(), index=NAMES, columns=NAMES)),
        NAMES,
    ),
    "networkx": (lambda: MarkovNetwork(GRAPH), range(N)),
    "networkx with names": (lambda: MarkovNetwork(NAMED, nodelist=NAMES), NAMES),
    "MultiGraph": (lambda: MarkovNetwork(MULTIGRAPH), range(N)),
    "dict of neighbors": (lambda: MarkovNetwork(neighbors(NAMED)), NAMES),
    "spatial weights": (lambda: MarkovNetwork(SimpleNamespace(neighbors=neighbors(NAMED))), NAMES),
    "list of neighbors": (lambda: MarkovNetwork([*neighbors(GRAPH).values()]), range(N)),
    "edge index": (lambda: MarkovNetwork.from_edges(PAIRS.T, n_nodes=N), range(N)),
    "edge list": (lambda: MarkovNetwork.from_edges(PAIRS), range(N)),
    "list of pairs": (lambda: MarkovNetwork.from_edges([*NAMED.edges], nodelist=NAMES), NAMES),
    "table of edges": (lambda: MarkovNetwork.from_edges(NAMED_PAIRS, nodelist=NAMES), NAMES),
}


def search(model):
    return ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation=model, random_state=0
    )


def records(index):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=list(index))
    return X, (X[0] > 0).astype(int)


def test_there_are_fourteen_forms():
    assert len(FORMS) == 14


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_same_network(form):
    make, index = FORMS[form]
    model = make()
    assert model == MarkovNetwork(MATRIX)
    X, y = records(index)
    holdout_rows = search(model).fit(X, y).holdout_indices_
    assert len(holdout_rows) >= 20
    assert not (MATRIX + MATRIX.T)[holdout_rows][:, holdout_rows].nnz


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_another_order_are_rejected_before_any_fit(form):
    make, index = FORMS[form]
    X, y = records(index)
    order = np.random.default_rng(3).permutation(N)
    with refused(ValueError, "correlation", "index", "X"):
        search(make()).fit(X.iloc[order], y.iloc[order])
    with refused(ValueError, "correlation", "index", "X"):
        ReusableHoldout(X.iloc[order], y.iloc[order], correlation=make())


@pytest.mark.parametrize("form", FORMS)
def test_another_number_of_rows_is_rejected(form):
    make, index = FORMS[form]
    X, y = records([*index][:-1])
    with refused(ValueError, f"n={N - 1}", N):
        search(make()).fit(X, y)


def test_the_remedy_in_the_message_reorders_the_graph():
    order = np.random.default_rng(3).permutation(N)
    permuted_network = MarkovNetwork(sparse.csr_array(MATRIX)[order][:, order])
    X, y = (table.iloc[order] for table in records(range(N)))
    with refused(ValueError, "scipy.sparse.csr_array(graph)[X.index][:, X.index]"):
        search(MarkovNetwork(MATRIX)).fit(X, y)
    reordered = MarkovNetwork(sparse.csr_array(MATRIX)[X.index][:, X.index])
    assert reordered == permuted_network
    search(reordered).fit(X.reset_index(drop=True), y.reset_index(drop=True))
    X, y = (table.iloc[order] for table in records(NAMES))
    with refused(ValueError, "nodelist=X.index"):
        search(MarkovNetwork(NAMED)).fit(X, y)
    named_network = MarkovNetwork(NAMED, nodelist=X.index)
    assert named_network == permuted_network
    search(named_network).fit(X, y)


# -- graphs without a known order of nodes ---------------------------------------------------------


def test_names_need_an_index_or_a_declared_order():
    X, y = records(range(N))
    for model in (MarkovNetwork(NAMED), MarkovNetwork(neighbors(NAMED)), DependencyGraph(NAMED)):
        for table in (X, X.to_numpy()):
            with refused(ValueError, "nodelist=list(graph)", "plot"):
                search(model).fit(table, y)
    X.index = [*NAMES[:-1], "plot x"]
    with refused(ValueError, "'plot x'"):
        search(MarkovNetwork(NAMED)).fit(X, y.to_numpy())
    declared = MarkovNetwork(NAMED, nodelist=list(NAMED))
    search(declared).fit(X.to_numpy(), y)
    mask = MarkovNetwork(NAMED, labeled=np.arange(N) < N)
    search(mask).fit(X.to_numpy(), y)


def test_a_graph_passed_as_it_is_has_its_order_checked():
    X, y = records(NAMES)
    circles = nx.relabel_nodes(nx.caveman_graph(N // 5, 5), dict(enumerate(NAMES)))
    with refused(ValueError, "nodelist=X.index"):
        search(circles).fit(X[::-1], y[::-1])
    with refused(ValueError, "nodelist=X.index"):
        search([circles, circles]).fit(X[::-1], y[::-1])


# Few components are quick.
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_validation_records_follow_the_training_records():
    X, y = records(range(N))
    network = DependencyGraph(nx.to_scipy_sparse_array(nx.caveman_graph(N // 5, 5)))
    search(network).fit(X[:120], y[:120], X_val=X[120:], y_val=y[120:])
    with refused(ValueError, "correlation", "reset_index"):
        search(network).fit(X[:120], y[:120], X_val=X[120:][::-1], y_val=y[120:][::-1])


def test_the_first_integer_that_does_not_ascend_is_named():
    edges = pd.DataFrame({"source": [0, 1, 2, 3, 9], "target": [1, 2, 3, 9, 4]})
    with refused(ValueError, "[9, 4]", "nodelist="):
        MarkovNetwork(nx.from_pandas_edgelist(edges))


# -- edges of weight zero -------------------------------------------------------------------------


def test_records_at_one_location_are_neighbors():
    locations = np.repeat(np.random.default_rng(0).random((100, 2)), 2, axis=0)
    for graph in (
        kneighbors_graph(locations, 4, mode="distance"),
        radius_neighbors_graph(locations, 0.05, mode="distance"),
    ):
        model = MarkovNetwork(graph)
        even_rows = np.arange(0, 200, 2)
        assert (model.adjacency_[even_rows, even_rows + 1] > 0).all()
        holdout_rows = model.split(200, 0.25, random_state=0).holdout
        assert len(np.unique(holdout_rows // 2)) == len(holdout_rows)
        assert DependencyGraph(graph).components_[0] == DependencyGraph(graph).components_[1]
    strengths = sparse.csr_array(([0.0, 0.0], ([0, 1], [1, 0])), shape=(3, 3))
    assert MarkovNetwork(strengths, influence="data").n_components_ == 3


# -- edges ----------------------------------------------------------------------------------------

PATH = MarkovNetwork(nx.path_graph(4))


@pytest.mark.parametrize(
    "edges",
    [
        np.array([[0, 1], [1, 2], [2, 3]]),
        np.array([[0, 1, 2], [1, 2, 3]]),
        [(0, 1), (1, 2), (2, 3)],
        [[0, 1, 2], [1, 2, 3]],
        (np.arange(3), np.arange(1, 4)),
        nx.path_graph(4).edges,
        pd.DataFrame({"a": [0, 1, 2], "b": [1, 2, 3]}),
        zip(range(3), range(1, 4), strict=True),
    ],
)
def test_edges_in_any_shape(edges):
    assert MarkovNetwork.from_edges(edges) == PATH


def test_two_edges_of_two_nodes_are_not_guessed():
    for edges in (np.array([[0, 1], [2, 3]]), [[0, 1], [2, 3]]):
        with refused(ValueError, "edges", "(2, 2)"):
            MarkovNetwork.from_edges(edges)
    pairs = MarkovNetwork.from_edges([(0, 1), (2, 3)])
    assert pairs.components_.tolist() == [0, 0, 1, 1]
    assert MarkovNetwork.from_edges(np.array([[0, 1], [1, 0]])).n_components_ == 1


def test_nodes_without_an_edge_are_counted_or_named():
    assert MarkovNetwork.from_edges([(0, 1)], n_nodes=4).n_components_ == 3
    assert MarkovNetwork.from_edges([], n_nodes=4).n_records == 4
    assert DependencyGraph.from_edges([], nodelist=["a", "b"]).n_components_ == 2
    named_graph = DependencyGraph.from_edges(
        [("a", "b"), ("b", "z")], nodelist=["z", "x", "b", "a"]
    )
    assert named_graph == DependencyGraph.from_edges([(3, 2), (2, 0)], n_nodes=4)
    integer_network = MarkovNetwork.from_edges([(700, 300)], nodelist=[300, 500, 700])
    assert integer_network.components_.tolist() == [0, 1, 0]
    assert DependencyGraph.from_edges([(0, 1)], reach="edges").reach == "edges"
    weak_network = MarkovNetwork.from_edges([(0, 1)], n_nodes=3, influence=0.5)
    assert weak_network.adjacency_[0, 1] == 0.5


def test_from_edges_accepts_nodes_without_a_record():
    edges = [("a", "b"), ("b", "c")]
    model = MarkovNetwork.from_edges(edges, labeled=["c", "a", "lone"])
    graph = nx.Graph(edges)
    graph.add_node("lone")
    assert model == MarkovNetwork(graph, labeled=["c", "a", "lone"])
    assert model.conditional_on_rest([0, 1, 2]).components(3).tolist() == [0, 0, 1]
    by_position = MarkovNetwork.from_edges([(0, 1), (1, 2)], n_nodes=4, labeled=[2, 0, 3])
    assert by_position == model
    masked = MarkovNetwork.from_edges([(0, 1), (1, 2)], labeled=[True, False, True])
    assert masked == MarkovNetwork(nx.path_graph(3), labeled=[0, 2])


@pytest.mark.parametrize(
    ("edges", "options", "facts"),
    [
        ([(0, 5)], {"n_nodes": 3}, ["n_nodes=3", 5]),
        ([(0, -1)], {}, ["edges", -1]),
        ([(0, 10**9)], {}, [10**9, "nodelist=X.index"]),
        ([(0.0, 1.0)], {}, ["edges", "float64"]),
        (np.array([[0.0, np.nan], [1, 2], [2, 3]]), {}, ["edges", "float64"]),
        (np.zeros((3, 3), dtype=int), {}, ["(3, 3)"]),
        ([(0, 1, 2), (1, 2, 3), (2, 3, 4)], {}, ["edges", 3]),
        (pd.DataFrame(np.zeros((2, 3))), {}, ["edges", 3]),
        ([("a", "b")], {"nodelist": ["a", "c"]}, ["nodelist"]),
        ([("a", "b")], {"n_nodes": 3}, ["n_nodes=3"]),
        (["ab", "cd"], {}, ["edges", "'ab'", "[('a', 'b'), ('b', 'c')]"]),
        (np.array(["ab", "cd"]), {}, ["edges", "(2,)"]),
        ([b"ab", b"cd"], {}, ["edges", "b'ab'"]),
        ([("a", np.nan), ("b", "c")], {}, ["edges", "nan", "dropna"]),
        ([(1, 2), (2, None)], {}, ["edges", "None", "dropna"]),
        ([("a", pd.NA), ("b", "c")], {"nodelist": ["a", "b", "c"]}, ["edges", "dropna"]),
        (pd.DataFrame({"a": ["x", None], "b": ["y", "z"]}), {}, ["edges", "dropna"]),
        ([("a", "b")], {"nodelist": ["a", "b", None]}, ["nodelist", "None"]),
    ],
)
def test_invalid_edges_are_named(edges, options, facts):
    with refused(ValueError, *facts):
        DependencyGraph.from_edges(edges, **options)


@pytest.mark.parametrize("edges", [None, "ab", 3, {0: [1]}, MATRIX, GRAPH])
def test_graphs_are_rejected_as_edges(edges):
    with refused(TypeError, "edges"):
        MarkovNetwork.from_edges(edges)


# -- other forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("influence", [None, 1.0, "data", "estimate"])
@pytest.mark.parametrize("graph", [None, 3, "graph", [1, 2, 3]])
def test_invalid_graphs_are_named(graph, influence):
    with refused((TypeError, ValueError), "graph"):
        MarkovNetwork(graph, influence=influence)


@pytest.mark.parametrize(
    ("graph", "facts"),
    [
        ({"a": ["b"]}, ["'b'", "'a'"]),
        ({"a": "b", "b": "a"}, ["'b'"]),
        (nx.Graph([("a", "b"), ("b", np.nan)]), ["graph", "nan", "dropna"]),
        ([[1], [0], [7]], [7, 2]),
        ([[1, 2], [0, 2], [0, 1], [0, 1]], ["from_edges", "dict(enumerate(graph))"]),
        (PAIRS, ["from_edges", str(PAIRS.shape)]),
        (NAMED_PAIRS, ["from_edges"]),
        (pd.DataFrame(np.eye(2), index=["a", "b"], columns=["b", "a"]), ["'a'", "'b'"]),
        ([], ["graph"]),
        ({}, ["graph"]),
    ],
)
def test_ambiguous_or_incomplete_graphs_are_named(graph, facts):
    with refused((TypeError, ValueError), *facts):
        DependencyGraph(graph)


def test_neighbors_of_each_record_as_an_array_of_arrays():
    from sklearn.neighbors import NearestNeighbors

    neighbor_lists = (
        NearestNeighbors(radius=0.1).fit(LOCATIONS).radius_neighbors(return_distance=False)
    )
    graph = radius_neighbors_graph(LOCATIONS, 0.1)
    assert MarkovNetwork(neighbor_lists) == MarkovNetwork(graph)  # each is its own neighbor, too
    assert DependencyGraph(dict(enumerate(neighbor_lists))) == DependencyGraph(graph)


def test_strengths_are_read_from_matrices_only():
    for graph in (neighbors(GRAPH), [*neighbors(GRAPH).values()]):
        with refused(ValueError, "influence='data'"):
            MarkovNetwork(graph, influence="data")
    nested = [[0, 0.5], [0.5, 0]]
    assert MarkovNetwork(nested, influence="data").adjacency_[0, 1] == 0.5
