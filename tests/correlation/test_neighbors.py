"""A declared strength is checked: Moran's statistic within the declared model (theory G25)."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    DependencyGraph,
    MarkovChain,
    MarkovNetwork,
    WorstOf,
    check_groups,
    check_misfit,
    check_neighbors,
    ising_spins,
)

GRID = nx.to_scipy_sparse_array(nx.grid_2d_graph(16, 16))


def declared(influence):
    return MarkovNetwork(GRID, influence=influence)


def test_spins_have_the_declared_diameters():
    """A pair: the probability to agree is that of a two-record Ising model."""
    pair = sparse.csr_array(np.array([[0.0, 1.2], [1.2, 0.0]]))
    spins = ising_spins(pair, np.random.default_rng(0), draws=40_000)
    agree = (spins[0] == spins[1]).mean()
    assert agree == pytest.approx(1 / (1 + np.exp(-0.6)), abs=0.01)


@pytest.mark.parametrize("influence", [1e-9, 0.5, 1.0])
def test_a_right_declaration_is_left_alone(influence):
    rng = np.random.default_rng(1)
    spins = ising_spins(declared(influence).adjacency_, rng, draws=40)
    loud = 0
    for spin in spins.T:
        scores = (rng.random(256) < 0.7 + 0.2 * spin).astype(float)
        loud += check_neighbors(declared(influence), scores).misfit
    assert loud <= 2


def test_too_weak_a_declaration_is_told():
    rng = np.random.default_rng(2)
    spins = ising_spins(declared(1.5).adjacency_, rng, draws=20)
    reports = [check_neighbors(declared(0.1), (spin > 0).astype(float)) for spin in spins.T]
    assert np.mean([report.misfit for report in reports]) >= 0.9
    assert "influence='estimate'" in next(r.message for r in reports if r.misfit)
    holes = np.where(rng.random(256) < 0.2, np.nan, spins[:, 0])
    assert check_neighbors(declared(0.1), holes).misfit
    assert not check_neighbors(declared(0.1), np.ones(256)).misfit
    assert not check_neighbors(MarkovNetwork(np.eye(3, k=1), influence=0.1), [0, 1, 0]).misfit


def test_groups_next_to_each_other():
    rng = np.random.default_rng(3)
    slow = np.repeat(np.cumsum(rng.normal(size=200)), 4)
    groups = np.repeat(np.arange(200), 4)
    assert "groups" in check_groups(slow + rng.normal(size=800), groups).message
    loud = sum(check_groups(np.repeat(rng.normal(size=200), 4), groups).misfit for _ in range(40))
    assert loud <= 1


def test_several_kinds_of_scores_are_tested_at_one_level():
    """Whichever kind shows it; where none does, as often as one kind alone."""
    rng = np.random.default_rng(6)
    spin = ising_spins(declared(1.5).adjacency_, rng, draws=1)[:, 0]
    kinds = np.column_stack([rng.random(256), spin])
    assert check_neighbors(declared(0.1), kinds).misfit
    assert not check_neighbors(declared(0.1), np.column_stack([kinds[:, 0], np.ones(256)])).misfit
    slow = np.repeat(np.cumsum(rng.normal(size=64)), 4)
    groups = np.arange(256) // 4
    assert check_groups(np.column_stack([kinds[:, 0], slow]), groups).misfit
    assert not check_groups(np.full((256, 2), np.nan), groups).misfit
    loud = [
        check_groups(rng.normal(size=(160, 3)), np.arange(160) // 4, level=0.05).misfit
        for _ in range(400)
    ]
    assert 5 <= sum(loud) <= 35  # of 20 expected


def test_a_strength_is_estimated_after_the_split_only():
    rng = np.random.default_rng(4)
    labels = (ising_spins(declared(1.0).adjacency_, rng, draws=1)[:, 0] > 0).astype(int)
    model = MarkovNetwork(GRID, influence="estimate")
    split = model.split(256, 0.25, random_state=0)
    with pytest.raises(ValueError, match="from_labels"):
        model.given_rest(split.holdout)
    known = model.estimated(labels, split.train)
    other = labels.copy()
    other[split.holdout] = 1 - other[split.holdout]
    assert known == model.estimated(other, split.train)
    part = known.given_rest(split.holdout)
    assert part.target == "these nodes, given the training nodes"
    assert part.describe().startswith("assumed from 192 training labels")
    assert declared(0.1).estimated(labels, split.train) == declared(0.1)
    attributed = nx.Graph([(0, 1, {"estimate": 1.0})])
    with pytest.raises(ValueError, match="reserved word"):
        MarkovNetwork(attributed, influence="estimate")
    with pytest.raises(ValueError, match="y=None"):
        model.estimated(None, split.train)


def test_what_is_no_label_or_no_cut_is_refused_by_name():
    with pytest.raises(ValueError, match="got -1 beside other classes"):
        MarkovNetwork.from_labels(GRID, np.arange(256) % 3 - 1)
    with pytest.raises(ValueError, match="one network with the largest influence"):
        WorstOf([declared(0.1), declared(0.2)]).split(256, 0.25)


def test_a_component_too_large_to_hold_out_is_named():
    sizes = [40, *[6] * 10]
    graph = nx.disjoint_union_all([nx.path_graph(k) for k in sizes])
    for model in (DependencyGraph(graph), MarkovNetwork(graph, influence=0.3)):
        part = model.given_rest(np.arange(40, 64))
        assert "40% of all nodes" in " ".join(part.caveats)
        assert not any("% of all" in line for line in model.given_rest(np.arange(40)).caveats)


def test_misfit_of_a_network_does_not_read_row_order():
    """Stretches of equal scores: the order of nodes is no time."""
    rng = np.random.default_rng(5)
    scores = np.repeat(rng.random(32), 8)
    assert check_misfit(MarkovChain([[0.5, 0.5], [0.5, 0.5]]), scores=scores).misfit
    graph = nx.random_regular_graph(4, 256, seed=0)
    network = MarkovNetwork(nx.to_scipy_sparse_array(graph), influence=0.1)
    assert not check_misfit(network, scores=scores).misfit
    spin = ising_spins(declared(1.5).adjacency_, rng, draws=1)[:, 0]
    assert check_misfit(declared(0.1), scores=spin).misfit
