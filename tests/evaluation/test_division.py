"""Dividing the data: sides never share a record, and correlation is obeyed."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, ShuffleSplit, StratifiedShuffleSplit

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovChain, MarkovNetwork
from sklearn_bdp.evaluation import FitData, divide
from tests.facts import refused

CHAIN = [[0.9, 0.1], [0.2, 0.8]]


def parts(correlation=None, holdout=0.25, n=200, estimator=None, **params):
    X = np.arange(n)[:, None].astype(float)
    y = params.pop("y", np.repeat([0, 1], [n - n // 10, n // 10]))
    how = {"correlation": correlation, "random_state": params.pop("seed", 0)}
    data = FitData(X, y, **params)
    return divide(estimator or LogisticRegression(), data, test_size=holdout, **how)


@pytest.mark.parametrize("correlation", [None, CHAIN, Groups(np.arange(200) // 7)])
def test_no_record_is_on_both_sides(correlation):
    division = parts(correlation)
    assert not np.intersect1d(division.train, division.holdout).size
    np.testing.assert_array_equal(division.X[:, 0], division.train)
    np.testing.assert_array_equal(division.X_holdout[:, 0], division.holdout)


def test_the_split_does_not_look_at_the_labels():
    # Theory G10: same records held out whatever their labels are, and always as many.
    first = parts(seed=3)
    other = parts(seed=3, y=np.random.default_rng(1).integers(0, 9, 200))
    np.testing.assert_array_equal(first.holdout, other.holdout)
    assert isinstance(first.model, Independent)
    assert first.y_holdout.size == parts(estimator=Ridge()).y_holdout.size == 50
    shares = {int(parts(seed=seed).y_holdout.sum()) for seed in range(20)}
    assert len(shares) > 3


def test_a_class_that_only_the_holdout_has_is_neither_told_nor_drawn_again():
    y = np.zeros(200, dtype=int)
    y[parts(seed=0).holdout[0]] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        division = parts(seed=0, y=y)
    np.testing.assert_array_equal(division.holdout, parts(seed=0).holdout)


def dependence(draws):
    """Return the total variation between both sides' labels and independent sides, exactly.

    ``draws(labels)`` lists equally likely holdouts (pairs of positions) of four fair coins.
    """
    joint = np.zeros((4, 4))
    for code in range(16):
        labels = [code >> place & 1 for place in range(4)]
        sets = draws(labels)
        for held in sets:
            train = [labels[place] for place in range(4) if place not in held]
            side = 2 * train[0] + train[1], 2 * labels[held[0]] + labels[held[1]]
            joint[side] += 1 / 16 / len(sets)
    assert joint.sum() == pytest.approx(1.0)
    return np.abs(joint - joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)).sum() / 2


def test_only_a_split_that_ignores_labels_leaves_the_sides_independent():
    # Theory G10, enumerated.
    every = list(itertools.combinations(range(4), 2))

    def train(labels, held):
        return [labels[place] for place in range(4) if place not in held]

    def stratified(labels):
        half = sum(labels) / 2
        return [held for held in every if abs(labels[held[0]] + labels[held[1]] - half) < 1]

    def redrawn(labels):
        return [held for held in every if set(train(labels, held)) == set(labels)] or every

    assert dependence(lambda labels: every) == pytest.approx(0.0, abs=1e-15)
    assert dependence(stratified) == pytest.approx(11 / 128)
    assert dependence(redrawn) == pytest.approx(17 / 128)


class ByLabel:
    """A splitter of the caller's that looks at labels without saying so."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y=None, groups=None):
        order = np.argsort(y, kind="stable")
        yield np.sort(np.r_[order[:70], order[90:]]), np.sort(order[70:90])


@pytest.mark.parametrize(
    ("splitter", "reads"),
    [
        (StratifiedShuffleSplit(n_splits=1, random_state=0), True),
        (StratifiedShuffleSplit(n_splits=1), True),
        (ByLabel(), True),
        (ShuffleSplit(n_splits=1, random_state=0), False),
        (ShuffleSplit(n_splits=1), False),
        (PredefinedSplit(np.repeat([-1, 0], 100)), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_splitter_that_reads_labels_is_named_as_an_assumption(splitter, reads):
    division = parts(holdout=splitter, y=np.arange(200) % 4)
    assert ("class proportions" in division.assumption) == reads


def test_a_chain_is_cut_behind_a_gap_that_pays_for_the_cut():
    division = parts(CHAIN)
    assert isinstance(division.model, MarkovChain)
    before, after = division.gap
    assert after is None
    assert before == division.holdout[0] - division.train[-1] - 1
    assert division.model.cut_failure(before) < 0.01


def test_a_splitter_may_cut_the_holdout_out_of_the_middle():
    fold = np.full(200, -1)
    fold[80:120] = 0
    division = parts(CHAIN, holdout=PredefinedSplit(fold))
    assert division.gap == (0, 0)
    assert division.train_model is None


def test_a_random_split_of_a_chain_is_rejected():
    with refused(ValueError, "contiguous"):
        parts(CHAIN, holdout=ShuffleSplit(n_splits=1, random_state=0))


def test_graph_components_stay_whole():
    n = 40
    graph = np.kron(np.eye(n // 4), np.ones((4, 4))) - np.eye(n)
    division = parts(DependencyGraph(csr_array(graph)), n=n)
    assert not set(division.train // 4) & set(division.holdout // 4)
    assert division.model.n_records == division.holdout.size


PAIRS = csr_array(np.kron(np.eye(100), [[0.0, 1.0], [1.0, 0.0]]))
TIED = {
    "groups": (Groups(np.arange(200) // 2), None),
    "groups by name": ("groups", np.arange(200) // 2),
    "graph": (DependencyGraph(PAIRS), None),
    "network": (MarkovNetwork(PAIRS, influence=0.5), None),
    "list": ([Groups(np.arange(200) // 2), DependencyGraph(PAIRS)], None),
}


@pytest.mark.parametrize("case", TIED)
def test_a_splitter_that_cuts_groups_is_rejected_with_their_number(case):
    correlation, groups = TIED[case]
    splitter = ShuffleSplit(n_splits=1, test_size=0.25, random_state=0)
    ((_, test),) = splitter.split(np.zeros(200))
    cut = int((np.bincount(test // 2, minlength=100) == 1).sum())
    with refused(ValueError, "ShuffleSplit", cut, 100):
        parts(correlation, holdout=splitter, groups=groups)


@pytest.mark.parametrize("case", TIED)
def test_a_validation_set_tied_to_training_records_is_rejected(case):
    correlation, groups = TIED[case]
    known = np.arange(150)[:, None].astype(float)
    sides = {"X_val": np.ones((50, 1)), "y_val": np.zeros(50)}
    made = parts(correlation, n=150, groups=groups, **sides)  # 150 is even: no pair is cut
    assert made.model.n_records == 50
    assert made.train_model.n_records == known.shape[0]
    sides = {"X_val": np.ones((51, 1)), "y_val": np.zeros(51)}
    with refused(ValueError, "X_val", 1, 100):
        parts(correlation, n=149, groups=groups, **sides)


def test_of_another_validation_set_independence_is_assumed():
    sides = {"X_val": np.ones((50, 1)), "y_val": np.zeros(50)}
    assert "validation set" in parts(Groups(np.arange(50) // 2), **sides).assumption


def test_a_model_of_another_number_of_records_is_rejected():
    with refused(ValueError, "records"):
        parts(Groups(np.arange(10)))


@pytest.mark.parametrize(
    ("params", "fact"),
    [
        ({"holdout": 0.001}, "holdout=0.001"),
        ({"X_val": np.ones((3, 1))}, "y_val"),
        ({"y_val": np.ones(3)}, "X_val"),
        ({"X_val": np.ones((0, 1)), "y_val": np.ones(0)}, "X_val"),
        ({"correlation": "groups", "X_val": np.ones((3, 1)), "y_val": np.ones(3)}, "groups_val"),
    ],
)
def test_what_is_rejected(params, fact):
    with refused((ValueError, TypeError), fact):
        parts(**params)
