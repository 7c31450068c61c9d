"""Dividing the data: sides never share a record, and correlation is obeyed."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, ShuffleSplit, StratifiedShuffleSplit

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovChain, MarkovNetwork
from sklearn_bdp.correlation.cutting import gap_failure_probability
from sklearn_bdp.evaluation import FitData, HoldoutSplit
from tests.facts import refused

CHAIN = [[0.9, 0.1], [0.2, 0.8]]


def divide_example(correlation=None, holdout=0.25, n=200, estimator=None, **params):
    X = np.arange(n)[:, None].astype(float)
    y = params.pop("y", np.repeat([0, 1], [n - n // 10, n // 10]))
    random_state = params.pop("seed", 0)
    data = FitData(X, y, **params)
    if data.X_val is not None:
        return HoldoutSplit.from_validation_set(data, correlation)
    return HoldoutSplit.from_data(
        estimator or LogisticRegression(),
        data,
        test_size=holdout,
        correlation=correlation,
        random_state=random_state,
    )


@pytest.mark.parametrize("correlation", [None, CHAIN, Groups(np.arange(200) // 7)])
def test_no_record_is_on_both_sides(correlation):
    division = divide_example(correlation)
    assert not np.intersect1d(division.train, division.holdout).size
    np.testing.assert_array_equal(division.X[:, 0], division.train)
    np.testing.assert_array_equal(division.X_holdout[:, 0], division.holdout)


def test_the_split_does_not_depend_on_the_labels():
    # Theory G10: the holdout and its size do not depend on labels.
    division = divide_example(seed=3)
    division_of_other_labels = divide_example(
        seed=3, y=np.random.default_rng(1).integers(0, 9, 200)
    )
    np.testing.assert_array_equal(division.holdout, division_of_other_labels.holdout)
    assert isinstance(division.model, Independent)
    assert division.y_holdout.size == divide_example(estimator=Ridge()).y_holdout.size == 50
    n_positive = {int(divide_example(seed=seed).y_holdout.sum()) for seed in range(20)}
    assert len(n_positive) > 3


def test_a_class_only_in_the_holdout_gives_neither_a_warning_nor_another_split():
    y = np.zeros(200, dtype=int)
    y[divide_example(seed=0).holdout[0]] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        division = divide_example(seed=0, y=y)
    np.testing.assert_array_equal(division.holdout, divide_example(seed=0).holdout)


def dependence(list_holdouts):
    """Return the total variation between both sides' labels and independent sides, exactly.

    ``draws(labels)`` lists equally likely holdouts (pairs of positions) of four fair coins.
    """
    joint = np.zeros((4, 4))
    for code in range(16):
        labels = [code >> position & 1 for position in range(4)]
        holdouts = list_holdouts(labels)
        for holdout_positions in holdouts:
            train = [labels[position] for position in range(4) if position not in holdout_positions]
            side_labels = (
                2 * train[0] + train[1],
                2 * labels[holdout_positions[0]] + labels[holdout_positions[1]],
            )
            joint[side_labels] += 1 / 16 / len(holdouts)
    assert joint.sum() == pytest.approx(1.0)
    return np.abs(joint - joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)).sum() / 2


def test_only_a_split_that_ignores_labels_leaves_the_sides_independent():
    # Theory G10, enumerated.
    all_holdouts = list(itertools.combinations(range(4), 2))

    def train(labels, holdout_positions):
        return [labels[position] for position in range(4) if position not in holdout_positions]

    def stratified(labels):
        half_sum = sum(labels) / 2
        return [
            holdout_positions
            for holdout_positions in all_holdouts
            if abs(labels[holdout_positions[0]] + labels[holdout_positions[1]] - half_sum) < 1
        ]

    def with_all_classes(labels):
        return [
            holdout_positions
            for holdout_positions in all_holdouts
            if set(train(labels, holdout_positions)) == set(labels)
        ] or all_holdouts

    assert dependence(lambda labels: all_holdouts) == pytest.approx(0.0, abs=1e-15)
    assert dependence(stratified) == pytest.approx(11 / 128)
    assert dependence(with_all_classes) == pytest.approx(17 / 128)


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
    division = divide_example(holdout=splitter, y=np.arange(200) % 4)
    assert ("class proportions" in division.assumption) == reads


def test_a_chain_is_cut_behind_a_gap_that_pays_for_the_cut():
    division = divide_example(CHAIN)
    assert isinstance(division.model, MarkovChain)
    gap_before, gap_after = division.gap
    assert gap_after is None
    assert gap_before == division.holdout[0] - division.train[-1] - 1
    assert gap_failure_probability(division.model, gap_before) < 0.01


def test_a_splitter_may_cut_the_holdout_out_of_the_middle():
    fold = np.full(200, -1)
    fold[80:120] = 0
    division = divide_example(CHAIN, holdout=PredefinedSplit(fold))
    assert division.gap == (0, 0)
    assert division.train_model is None


def test_a_random_split_of_a_chain_is_rejected():
    with refused(ValueError, "contiguous"):
        divide_example(CHAIN, holdout=ShuffleSplit(n_splits=1, random_state=0))


def test_graph_components_stay_whole():
    n = 40
    graph = np.kron(np.eye(n // 4), np.ones((4, 4))) - np.eye(n)
    division = divide_example(DependencyGraph(csr_array(graph)), n=n)
    assert not set(division.train // 4) & set(division.holdout // 4)
    assert division.model.n_records == division.holdout.size


PAIRS = csr_array(np.kron(np.eye(100), [[0.0, 1.0], [1.0, 0.0]]))
DEPENDENT_RECORDS = {
    "groups": (Groups(np.arange(200) // 2), None),
    "groups by name": ("groups", np.arange(200) // 2),
    "graph": (DependencyGraph(PAIRS), None),
    "network": (MarkovNetwork(PAIRS, influence=0.5), None),
    "list": ([Groups(np.arange(200) // 2), DependencyGraph(PAIRS)], None),
}


@pytest.mark.parametrize("case", DEPENDENT_RECORDS)
def test_a_splitter_that_cuts_groups_is_rejected_with_their_number(case):
    correlation, groups = DEPENDENT_RECORDS[case]
    splitter = ShuffleSplit(n_splits=1, test_size=0.25, random_state=0)
    ((_, test),) = splitter.split(np.zeros(200))
    n_cut_pairs = int((np.bincount(test // 2, minlength=100) == 1).sum())
    with refused(ValueError, "ShuffleSplit", n_cut_pairs, 100):
        divide_example(correlation, holdout=splitter, groups=groups)


@pytest.mark.parametrize("case", DEPENDENT_RECORDS)
def test_a_validation_set_without_ties_to_training_records_divides_the_model(case):
    """An even number of training records cuts no pair of dependent records."""
    correlation, groups = DEPENDENT_RECORDS[case]
    division = divide_example(
        correlation, n=150, groups=groups, X_val=np.ones((50, 1)), y_val=np.zeros(50)
    )
    assert division.model.n_records == 50
    assert division.train_model.n_records == 150


@pytest.mark.parametrize("case", DEPENDENT_RECORDS)
def test_a_validation_set_tied_to_training_records_is_rejected(case):
    """An odd number of training records cuts one of 100 pairs."""
    correlation, groups = DEPENDENT_RECORDS[case]
    with refused(ValueError, "X_val", 1, 100):
        divide_example(
            correlation, n=149, groups=groups, X_val=np.ones((51, 1)), y_val=np.zeros(51)
        )


def test_independence_of_other_validation_sets_is_an_assumption():
    validation_set = {"X_val": np.ones((50, 1)), "y_val": np.zeros(50)}
    assert (
        "validation set" in divide_example(Groups(np.arange(50) // 2), **validation_set).assumption
    )


def test_a_model_of_another_number_of_records_is_rejected():
    with refused(ValueError, "records"):
        divide_example(Groups(np.arange(10)))


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
def test_invalid_arguments_are_rejected(params, fact):
    with refused((ValueError, TypeError), fact):
        divide_example(**params)
