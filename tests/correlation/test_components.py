"""Independent records, groups and graphs without strengths."""

import copy
import math
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from tests.facts import refused, scheme_of

from .levels import sequential_epsilon
from .oracle import bdp_leakage


def test_independent_records_cost_nothing_more():
    model = Independent()
    for method in ("tight", "quilt", "blanket"):
        assert model.bdp_epsilon(0.3, 7, method=method) == 0.3
        assert model.dp_epsilon(0.3, 7, method=method) == 0.3
    assert sequential_epsilon(model, 0.3, 7) == 0.3
    assert sequential_information(model, 0.3, 8) == pytest.approx(0.09)
    assert posterior_bias(model, 0.4, 5) == pytest.approx(math.tanh(0.1))
    assert scheme_of(model, 7).has_independent_units
    assert model.describe() == "independent records"
    assert model == Independent()


def test_groups_cost_their_largest():
    model = Groups(["a", "b", "a", "a", "c"])
    assert model.bdp_epsilon(0.1, 5) == pytest.approx(0.3)
    assert model.dp_epsilon(0.3, 5) == pytest.approx(0.1)
    assert model.bdp_epsilon(0.1, 5, method="quilt") == pytest.approx(0.3)
    assert sequential_information(model, 0.2, 5) == pytest.approx((9 + 1 + 1) * 0.04 / 8)
    bias = (3 * math.tanh(0.15) + 2 * math.tanh(0.05)) / 5
    assert posterior_bias(model, 0.2, 5) == pytest.approx(bias)
    copies = np.zeros((2, 2, 2))
    copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    assert bdp_leakage(copies, 0.1) == pytest.approx(model.bdp_epsilon(0.1, 5), abs=1e-7)


def test_labels_do_not_matter_only_the_partition():
    assert Groups(["x", "y", "x"]) == Groups([5, 2, 5]) == Groups((("a", 1), None, ("a", 1)))
    assert Groups([0, 0, 1]) != Groups([0, 1, 1])
    assert Groups(np.array([3, 1, 3])).codes_.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("groups", "error", "fact"),
    [
        ([], ValueError, "groups"),
        ([1.0, float("nan")], ValueError, "NaN"),
        (pd.Series(["a", None], dtype="string"), ValueError, "NaN"),
        ([[1], [2]], TypeError, "[1]"),
        (np.ones((2, 2)), ValueError, "(2, 2)"),
        ("abc", TypeError, "'abc'"),
        (3, TypeError, "3"),
        ({1, 2, 3}, TypeError, "{1, 2, 3}"),
    ],
)
def test_bad_groups_are_named(groups, error, fact):
    with refused(error, fact):
        Groups(groups)


@pytest.mark.parametrize("model", [Independent(), Groups([0, 0, 1]), DependencyGraph(np.eye(3))])
def test_values_are_frozen_comparable_and_picklable(model):
    assert pickle.loads(pickle.dumps(model)) == model
    assert copy.deepcopy(model) == model
    assert hash(copy.copy(model)) == hash(model)
    assert len(model.fingerprint()) == 64
    with refused(AttributeError, "frozen"):
        model.codes_ = None
    assert model != "model"
    assert repr(model).startswith(type(model).__name__)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_levels_that_are_negative_or_not_finite_raise(epsilon):
    model = Groups([0, 0, 1])
    with refused(ValueError, "dp_epsilon"):
        model.bdp_epsilon(epsilon, 3)
    with refused(ValueError, "bdp_epsilon"):
        model.dp_epsilon(epsilon, 3)
    with refused(ValueError, "dp_epsilon"):
        sequential_epsilon(model, epsilon, 3)


def test_a_level_that_is_text_raises():
    with refused(TypeError, "dp_epsilon"):
        Groups([0, 0, 1]).bdp_epsilon("0.1", 3)


def test_levels_of_zero_stay_zero():
    model = Groups([0, 0, 1])
    assert model.bdp_epsilon(0.0, 3) == 0.0
    assert model.dp_epsilon(0.0, 3) == 0.0


def test_wrong_numbers_of_records_raise():
    with refused(ValueError, "n=4", 3):
        Groups([0, 0, 1]).bdp_epsilon(0.1, 4)
    with refused(ValueError, "n=0"):
        Independent().bdp_epsilon(0.1, 0)


@pytest.mark.parametrize(
    ("method", "facts"),
    [("best", ()), ("blanket", ("MarkovNetwork",)), ("spectral", ("MarkovChain",))],
)
def test_methods_of_other_models_raise(method, facts):
    with refused(ValueError, f"method='{method}'", *facts):
        Groups([0, 0, 1]).bdp_epsilon(0.1, 3, method=method)


def test_nodes_of_a_graph_need_not_be_0_to_n_minus_1():
    assert DependencyGraph(nx.Graph([(0, 2), (3, 4)])).n_records == 4


@pytest.mark.parametrize(
    ("edges", "nodelist", "components"),
    [
        ([(2, 0), (1, 3)], range(4), [0, 1, 0, 1]),
        ([(2, 0), (1, 3)], [2, 0, 1, 3], [0, 0, 1, 1]),
        ([("b", "a"), ("c", "d")], list("acbd"), [0, 1, 0, 1]),
    ],
)
def test_nodelist_assigns_records_to_nodes(edges, nodelist, components):
    model = DependencyGraph(nx.Graph(edges), nodelist=nodelist)
    assert model.components_.tolist() == components


def test_numbered_nodes_in_another_order_need_a_nodelist():
    with refused(ValueError, "[2, 0, 1, 3]", "nodelist="):
        DependencyGraph(nx.Graph([(2, 0), (1, 3)]))


def test_nodelist_must_have_all_nodes_of_a_graph():
    with refused(ValueError, "nodelist", 3, 4):
        DependencyGraph(nx.Graph([(2, 0), (1, 3)]), nodelist=[0, 1, 2])
    with refused(ValueError, "nodelist=", "ndarray"):
        DependencyGraph(np.zeros((2, 2)), nodelist=[0, 1])


def test_a_stored_zero_of_a_matrix_is_an_edge():
    """Such as the distance between records at one location."""
    matrix = sparse.coo_array(([7.0, 0.0], ([0, 1], [2, 3])), shape=(4, 4))
    assert DependencyGraph(matrix).n_components_ == 2
    assert DependencyGraph(matrix) == DependencyGraph(matrix.T)


def test_the_level_of_a_graph_grows_with_its_largest_component():
    assert DependencyGraph(nx.DiGraph([(0, 1)])).bdp_epsilon(0.1, 2) == pytest.approx(0.2)
    assert DependencyGraph(sparse.csr_matrix((3, 3))).bdp_epsilon(0.1, 3) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("graph", "error", "fact"),
    [
        (np.ones((2, 3)), ValueError, "(2, 3)"),
        (np.ones(3), ValueError, "(3,)"),
        (np.array([[0, np.nan], [0, 0]]), ValueError, "NaN"),
        (nx.Graph(), ValueError, "(0, 0)"),
        ("graph", TypeError, "graph"),
    ],
)
def test_bad_graphs_are_named(graph, error, fact):
    with refused(error, fact):
        DependencyGraph(graph)


def test_subset_of_a_graph_keeps_dependence_through_dropped_records():
    model = DependencyGraph(
        nx.union(nx.path_graph(3), nx.relabel_nodes(nx.path_graph(2), {0: 3, 1: 4}))
    )
    assert model.subset([0, 2, 3]) == Groups([0, 0, 1])
    assert model.subset([4, 3]) == DependencyGraph(nx.path_graph(2))
    for bad in ([], [0, 0], [7], [-1], [0.5], np.zeros(5, dtype=bool)):
        with refused(ValueError, "indices"):
            model.subset(bad)
    mask = np.array([True, False, True, False, False])
    assert model.subset(mask) == Groups([0, 0])


def test_sampling_units_are_groups_or_records():
    for model, n_units, name in (
        (Groups(["ann", "ann", "bob"]), 2, "groups"),
        (Groups([0, 1, 2]), 3, "records"),
        (Independent(), 3, "records"),
    ):
        scheme = scheme_of(model, 3)
        assert (scheme.n_units, scheme.unit_name) == (n_units, name)


@pytest.mark.parametrize(
    ("labels", "pair"),
    [
        (np.array([1, "1", 2], dtype=object), ("1", "'1'")),
        ([1.0, "7", "1 "], ("1.0", "'1 '")),
        (["a", 3], ("3", "'a'")),
        (pd.Series([np.int64(4), "4"], dtype=object), ("4", "'4'")),
    ],
)
def test_labels_that_mix_numbers_and_text_are_rejected(labels, pair):
    with refused(ValueError, "groups", "astype", *pair):
        Groups(labels)


@pytest.mark.parametrize("labels", [["1", "2"], [1, 2.5], [("a", 1), ("b", 2)], [None, "a"]])
def test_labels_of_one_type_are_groups(labels):
    assert Groups(labels).codes_.tolist() == [0, 1]
