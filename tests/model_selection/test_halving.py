"""Successive halving: scikit-learn's on the training set; only survivors are verified."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 (makes the import below work)
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.inspection import HoldoutSearchDisplay
from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV
from tests.facts import refused

GRID = {"max_depth": [1, 2, 3, 5, 8, 13], "min_samples_leaf": [1, 3, 9]}
RESOURCES = [
    {},
    {"factor": 2},
    pytest.param({"min_resources": "smallest"}, marks=pytest.mark.slow),
    {"min_resources": 60, "max_resources": 500},
    {"min_resources": "smallest", "max_resources": 300, "aggressive_elimination": True},
]


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    return X[y < 4], y[y < 4]


def tree():
    return DecisionTreeClassifier(random_state=0)


def halving(**options):
    return HalvingReusableHoldoutSearchCV(tree(), GRID, random_state=0, cv=2, **options)


@pytest.mark.parametrize("resources", RESOURCES, ids=repr)
def test_rungs_are_those_of_scikit_learn(data, resources):
    search = halving(**resources).fit(*data)
    X, y = (table[search.train_indices_] for table in data)
    halving_grid_search = HalvingGridSearchCV(tree(), GRID, random_state=0, cv=2, **resources).fit(
        X, y
    )
    assert search.n_candidates_ == halving_grid_search.n_candidates_
    assert search.n_resources_ == halving_grid_search.n_resources_
    for name in ("iter", "n_resources", "mean_test_score", "params"):
        np.testing.assert_array_equal(
            search.cv_results_[name], halving_grid_search.cv_results_[name]
        )


GRIDS = [
    {"max_depth": [1, 2, 3, 5, 8], "min_samples_leaf": [1, 3, 9]},
    {"max_depth": [1, 2, 3]},
    {"ccp_alpha": list(np.geomspace(1e-4, 0.1, 9))},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
@pytest.mark.parametrize("n_records", [120, pytest.param(569, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grid", GRIDS, ids=len)
def test_defaults_are_those_of_halving_on_the_training_rows(grid, n_records, seed):
    X, y = (table[:n_records] for table in load_breast_cancer(return_X_y=True))
    search = HalvingReusableHoldoutSearchCV(tree(), grid, random_state=seed).fit(X, y)
    train = search.train_indices_
    halving_grid_search = HalvingGridSearchCV(tree(), grid, random_state=seed).fit(
        X[train], y[train]
    )
    for name in ("iter", "n_resources", "mean_test_score", "params"):
        np.testing.assert_array_equal(
            search.cv_results_[name], halving_grid_search.cv_results_[name]
        )
    is_last_rung = search.cv_results_["iter"] == search.cv_results_["iter"].max()
    np.testing.assert_array_equal(np.isfinite(search.cv_results_["holdout_score"]), is_last_rung)
    assert is_last_rung[search.best_index_]
    assert (
        search.dependence_test_scores_ is None
        or search.dependence_test_scores_.shape == train.shape
    )


def test_only_the_last_rung_is_verified_as_one_batch(data):
    search = halving().fit(*data)
    results = search.cv_results_
    last = results["iter"] == results["iter"].max()
    assert np.isfinite(results["holdout_score"][last]).all()
    assert np.isnan(results["holdout_score"][~last]).all()
    assert (results["answered_from"][~last] == "unanswered").all()
    history = search.holdout_.history()
    assert len(history) <= last.sum() < len(last) / 2
    assert {record.batch for record in history} == {1}
    assert last[search.best_index_]
    low, high = search.best_interval_
    assert low <= search.best_score_ <= high
    assert HoldoutSearchDisplay.from_search(search).best == 0


def test_the_verified_model_has_all_training_records_and_resources(data):
    search = HalvingReusableHoldoutSearchCV(
        RandomForestClassifier(random_state=0),
        {"max_depth": [1, 2, 3, 4]},
        resource="n_estimators",
        max_resources=12,
        factor=2,
        cv=2,
        random_state=0,
    ).fit(*data)
    assert search.n_resources_ == [3, 6, 12]
    assert search.best_estimator_.n_estimators == 12
    X, y = (table[search.train_indices_] for table in data)
    refitted = RandomForestClassifier(random_state=0, **search.best_params_).fit(X, y)
    np.testing.assert_array_equal(refitted.predict(data[0]), search.predict(data[0]))


def test_an_existing_holdout_and_random_candidates(data):
    X, y = data
    holdout = ReusableHoldout(X[500:], y[500:], random_state=0)
    first_search = halving(holdout=holdout).fit(X[:500], y[:500])
    spent = holdout.information_spent
    second_search = halving(holdout=holdout).fit(X[:500], y[:500])
    assert second_search.best_score_ == first_search.best_score_
    assert holdout.information_spent == spent
    sampled_search = halving(holdout=holdout, n_iter=9).fit(X[:500], y[:500])
    assert sampled_search.n_candidates_[0] == 9


def test_without_a_holdout_it_is_plain_halving(data):
    search = halving(holdout=None).fit(*data)
    halving_grid_search = HalvingGridSearchCV(tree(), GRID, random_state=0, cv=2).fit(*data)
    assert search.best_params_ == halving_grid_search.best_params_
    assert search.best_index_ == halving_grid_search.best_index_
    assert search.n_candidates_ == halving_grid_search.n_candidates_
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], halving_grid_search.cv_results_["mean_test_score"]
    )


def test_folds_obey_the_chain(data):
    chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]])
    search = halving(correlation=chain).fit(*data)
    assert search.n_iterations_ > 1
    assert np.diff(search.holdout_indices_).max() == 1


def test_it_is_a_grid_search_of_several_metrics(data):
    assert isinstance(halving(), GridSearchCV)
    search = halving(scoring=["accuracy", "balanced_accuracy"], refit="balanced_accuracy")
    results = search.fit(*data).cv_results_
    is_first_rung = results["iter"] == 0
    surviving_names = {
        str(params) for params in results["params"][np.flatnonzero(results["iter"] == 1)[0] :]
    }
    scores = results["mean_test_balanced_accuracy"][is_first_rung]
    first_rung_names = [
        str(params)
        for params, is_first in zip(results["params"], is_first_rung, strict=True)
        if is_first
    ]
    lowest_surviving_score = min(
        score
        for score, name in zip(scores, first_rung_names, strict=True)
        if name in surviving_names
    )
    assert lowest_surviving_score >= np.sort(scores)[-len(surviving_names)]


def accuracy_and_loss(estimator, X, y):
    accuracy = estimator.score(X, y)
    return {"a loss": -accuracy, "accuracy": accuracy}


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UnverifiedWarning")
@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        ({"balanced_accuracy", "accuracy"}, "best_lower"),
        (["accuracy", "balanced_accuracy"], "one_se"),
        (accuracy_and_loss, "accuracy"),
    ],
)
def test_candidates_survive_by_the_metric_that_ranks(data, scoring, refit):
    results = halving(scoring=scoring, refit=refit).fit(*data).cv_results_
    is_first_rung = results["iter"] == 0
    names = np.array([str(params) for params in results["params"]])
    scores = results["mean_test_accuracy"][is_first_rung]
    survives = np.isin(names[is_first_rung], names[results["iter"] == 1])
    assert scores[survives].min() >= np.sort(scores)[-survives.sum()]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"factor": 1}, "factor"),
        ({"factor": np.nan}, "factor"),
        ({"min_resources": "all"}, "min_resources"),
        ({"min_resources": 0}, "min_resources"),
        ({"min_resources": 500, "max_resources": 400}, "max_resources_=400"),
        ({"max_resources": 10**6}, "max_resources"),
        ({"resource": "n_trees"}, "n_trees"),
        ({"resource": "max_leaf_nodes"}, "max_resources"),
        ({"resource": "max_depth", "max_resources": 9}, "max_depth"),
    ],
)
def test_bad_resources_are_rejected_before_any_query(data, options, fact):
    X, y = data
    holdout = ReusableHoldout(X[500:], y[500:], random_state=0)
    with refused(ValueError, fact):
        halving(holdout=holdout, **options).fit(X[:500], y[:500])
    assert len(holdout.history()) == 0
