"""Dividing the data: sides never share a record, and correlation is obeyed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, ShuffleSplit

from sklearn_bdp._evaluation._division import divide
from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovChain

CHAIN = [[0.9, 0.1], [0.2, 0.8]]


def parts(correlation=None, holdout=0.25, n=200, estimator=None, **params):
    X = np.arange(n)[:, None].astype(float)
    y = np.repeat([0, 1], [n - n // 10, n // 10])
    params = {"groups": None, "X_val": None, "y_val": None, "random_state": 0, **params}
    return divide(
        estimator or LogisticRegression(),
        X,
        y,
        holdout=holdout,
        correlation=correlation,
        **params,
    )


@pytest.mark.parametrize("correlation", [None, CHAIN, Groups(np.arange(200) // 7)])
def test_no_record_is_on_both_sides(correlation):
    division = parts(correlation)
    assert not np.intersect1d(division.train, division.holdout).size
    np.testing.assert_array_equal(division.X[:, 0], division.train)
    np.testing.assert_array_equal(division.X_holdout[:, 0], division.holdout)


def test_independent_classes_are_stratified_and_regression_is_not():
    assert parts().y_holdout.sum() == 5
    assert isinstance(parts().model, Independent)
    assert parts(estimator=Ridge()).y_holdout.size == 50


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


def test_a_random_split_of_a_chain_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        parts(CHAIN, holdout=ShuffleSplit(n_splits=1, random_state=0))


def test_graph_components_stay_whole():
    n = 40
    graph = np.kron(np.eye(n // 4), np.ones((4, 4))) - np.eye(n)
    from scipy.sparse import csr_array

    division = parts(DependencyGraph(csr_array(graph)), n=n)
    assert not set(division.train // 4) & set(division.holdout // 4)
    assert division.model.n_records == division.holdout.size


def test_a_model_of_another_number_of_records_is_refused():
    with pytest.raises(ValueError, match="records"):
        parts(Groups(np.arange(10)))


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"holdout": 0.001}, "record"),
        ({"holdout": "half"}, "holdout"),
        ({"holdout": True}, "holdout"),
        ({"X_val": np.ones((3, 1))}, "y_val"),
        ({"y_val": np.ones(3)}, "X_val"),
        ({"X_val": np.ones((0, 1)), "y_val": np.ones(0)}, "at least one"),
        ({"correlation": "groups", "X_val": np.ones((3, 1)), "y_val": np.ones(3)}, "Groups"),
    ],
)
def test_what_is_refused(params, match):
    with pytest.raises((ValueError, TypeError), match=match):
        parts(**params)
