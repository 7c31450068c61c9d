"""Bayesian networks against the exact leakage, and their errors."""

import numpy as np
import pytest

from sklearn_bdp.correlation import BayesianNetwork, MarkovChain
from sklearn_bdp.correlation.levels import sequential_information
from tests.facts import refused

from .levels import sequential_epsilon
from .oracle import bdp_leakage, field_distribution, sequential_leakage


def random_network(seed, n=4, *, zeros=False):
    rng = np.random.default_rng(seed)
    parents = []
    tables = []
    for i in range(n):
        n_parents = min(i, int(rng.integers(0, 3)))
        node_parents = (
            sorted(rng.choice(i, size=n_parents, replace=False).tolist()) if n_parents else []
        )
        parents.append(node_parents)
        tables.append(
            rng.dirichlet(np.ones(2), size=[2] * n_parents) if n_parents else np.array([0.3, 0.7])
        )
    if zeros:
        tables[-1][(0,) * len(parents[-1])] = [1.0, 0.0]
    joint = field_distribution([2] * n, {(*parents[i], i): tables[i] for i in range(n)})
    return parents, tables, joint


def check_bayes(seed, epsilon, *, zeros=False):
    parents, tables, joint = random_network(seed, zeros=zeros)
    model = BayesianNetwork(parents, tables)
    truth = bdp_leakage(joint, epsilon)
    assert truth <= model.bdp_epsilon(epsilon, 4) + 1e-7
    assert truth <= model.bdp_epsilon(epsilon, 4, method="quilt") + 1e-7
    if not zeros:
        assert truth <= model.bdp_epsilon(epsilon, 4, method="blanket") + 1e-7
    assert sequential_leakage(joint, epsilon) <= sequential_epsilon(model, epsilon, 4) + 1e-7


@pytest.mark.parametrize(("seed", "epsilon"), [(0, 0.05), (3, 1.0)])
def test_random_networks_stay_above_the_exact_leakage(seed, epsilon):
    check_bayes(seed, epsilon, zeros=seed == 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 24))
def test_many_random_networks_stay_above_the_exact_leakage(seed):
    for epsilon in (0.01, 0.3, 2.0):
        check_bayes(seed, epsilon, zeros=seed % 3 == 0)


def test_conditioning_inside_a_quilt_can_raise_the_influence():
    # A common effect joins its parents: dropping max over L would give zero for {1}.
    xor = [[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]]
    model = BayesianNetwork([[], [], [0, 1]], [[0.5, 0.5], [0.5, 0.5], xor])
    joint = field_distribution([2, 2, 2], {(0, 1, 2): np.array(xor)})
    for epsilon in (0.05, 1.0):
        truth = bdp_leakage(joint, epsilon)
        assert truth > epsilon * 1.01
        assert truth <= model.bdp_epsilon(epsilon, 3) + 1e-9


def test_a_path_of_parents_is_a_chain():
    kernel = np.array([[0.9, 0.1], [0.2, 0.8]])
    n = 300
    model = BayesianNetwork(
        [[]] + [[i] for i in range(n - 1)], [[2 / 3, 1 / 3]] + [kernel] * (n - 1)
    )
    chain = MarkovChain(kernel)
    assert model.bdp_epsilon(0.01, n) == pytest.approx(chain.bdp_epsilon(0.01, n))
    assert sequential_epsilon(model, 0.01, n) == pytest.approx(
        sequential_epsilon(chain, 0.01, n), rel=1e-3
    )
    assert sequential_information(model, 0.01, n) == pytest.approx(
        sequential_information(chain, 0.01, n), rel=0.05
    )


def test_parents_of_one_child_are_married():
    model = BayesianNetwork({2: [0, 1]}, [[0.5, 0.5], [0.5, 0.5], np.full((2, 2, 2), 0.5)])
    assert model.adjacency_.nnz == 6
    assert model.n_components_ == 1


@pytest.mark.parametrize(
    ("parents", "tables", "fact"),
    [
        ([[1], [0]], [np.full((2, 2), 0.5)] * 2, "parents"),
        ([[], [0]], [[0.5, 0.5], [[0.5, 0.6], [0.5, 0.5]]], "tables[1]"),
        ([[], [0]], [[0.5, 0.5], [0.5, 0.5]], "(2,)"),
        ([[], [0]], [[0.5, 0.5], np.full((3, 2), 0.5)], "record 0"),
        ([[]], [[0.5, 0.5]] * 2, "parents"),
        ([[], [2]], [[0.5, 0.5], np.full((2, 2), 0.5)], "parents[1]=2"),
        ([[0]], [np.full((2, 2), 0.5)], "parents[0]"),
        ({5: [0]}, [[0.5, 0.5]], "5"),
        ([], [], "tables"),
        ([[]], [[0.5, np.nan]], "tables[0]"),
        ([[], [0]], {1: np.full((2, 2), 0.5), 2: [0.5, 0.5]}, "record 0"),
    ],
)
def test_bad_arguments_are_named(parents, tables, fact):
    with refused(ValueError, fact):
        BayesianNetwork(parents, tables)


def test_diameters_by_hand():
    # parity of three: given the third, the first two have cross-ratio 81
    parity = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]])
    model = BayesianNetwork([[], [], [0, 1]], [[0.5, 0.5], [0.5, 0.5], parity])
    assert model.adjacency_.toarray()[0, 1] == pytest.approx(np.log(81))
    pair = BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]]])
    assert pair.adjacency_[1, 0] == pair.adjacency_[0, 1] == pytest.approx(np.log(9))


def test_trees_use_tables_from_root_to_leaf_for_any_numbering():
    """The first record is a leaf here: tables still lead away from records without parents."""
    kernel = np.array([[0.9, 0.1], [0.4, 0.6]])
    model = BayesianNetwork([[1], [2], []], [kernel, kernel, [0.3, 0.7]])
    ordered = BayesianNetwork([[], [0], [1]], [[0.3, 0.7], kernel, kernel])
    assert model.effective_n(3) == pytest.approx(ordered.effective_n(3))
    assert model.bdp_epsilon(0.1, 3) == pytest.approx(ordered.bdp_epsilon(0.1, 3))
    information = sequential_information(ordered, 0.1, 3)
    assert sequential_information(model, 0.1, 3) == pytest.approx(information)
