"""Successive halving: the training side is scikit-learn's, and only survivors are verified."""

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
    return HalvingReusableHoldoutSearchCV(tree(), GRID, **{"random_state": 0, "cv": 2, **options})


@pytest.mark.parametrize("resources", RESOURCES, ids=repr)
def test_rungs_are_those_of_scikit_learn(data, resources):
    search = halving(**resources).fit(*data)
    X, y = (part[search.train_indices_] for part in data)
    plain = HalvingGridSearchCV(tree(), GRID, random_state=0, cv=2, **resources).fit(X, y)
    assert search.n_candidates_ == plain.n_candidates_
    assert search.n_resources_ == plain.n_resources_
    for name in ("iter", "n_resources", "mean_test_score", "params"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])


GRIDS = [
    {"max_depth": [1, 2, 3, 5, 8], "min_samples_leaf": [1, 3, 9]},
    {"max_depth": [1, 2, 3]},
    {"ccp_alpha": list(np.geomspace(1e-4, 0.1, 9))},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
@pytest.mark.parametrize("size", [120, pytest.param(569, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grid", GRIDS, ids=len)
def test_on_its_defaults_it_is_halving_on_the_training_rows(grid, size, seed):
    X, y = (part[:size] for part in load_breast_cancer(return_X_y=True))
    search = HalvingReusableHoldoutSearchCV(tree(), grid, random_state=seed).fit(X, y)
    train = search.train_indices_
    plain = HalvingGridSearchCV(tree(), grid, random_state=seed).fit(X[train], y[train])
    for name in ("iter", "n_resources", "mean_test_score", "params"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])
    last = search.cv_results_["iter"] == search.cv_results_["iter"].max()
    np.testing.assert_array_equal(np.isfinite(search.cv_results_["holdout_score"]), last)
    assert last[search.best_index_]
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
    X, y = (part[search.train_indices_] for part in data)
    again = RandomForestClassifier(random_state=0, **search.best_params_).fit(X, y)
    np.testing.assert_array_equal(again.predict(data[0]), search.predict(data[0]))


def test_an_existing_holdout_and_random_candidates(data):
    X, y = data
    holdout = ReusableHoldout(X[500:], y[500:], random_state=0)
    first = halving(holdout=holdout).fit(X[:500], y[:500])
    spent = holdout.information_spent
    again = halving(holdout=holdout).fit(X[:500], y[:500])
    assert again.best_score_ == first.best_score_
    assert holdout.information_spent == spent
    sampled = halving(holdout=holdout, n_iter=9).fit(X[:500], y[:500])
    assert sampled.n_candidates_[0] == 9


def test_without_a_holdout_it_is_plain_halving(data):
    search = halving(holdout=None).fit(*data)
    plain = HalvingGridSearchCV(tree(), GRID, random_state=0, cv=2).fit(*data)
    assert search.best_params_ == plain.best_params_
    assert search.best_index_ == plain.best_index_
    assert search.n_candidates_ == plain.n_candidates_
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
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
    first = results["iter"] == 0
    kept = {str(p) for p in results["params"][np.flatnonzero(results["iter"] == 1)[0] :]}
    scores = results["mean_test_balanced_accuracy"][first]
    names = [str(p) for p, f in zip(results["params"], first, strict=True) if f]
    worst_kept = min(s for s, name in zip(scores, names, strict=True) if name in kept)
    assert worst_kept >= np.sort(scores)[-len(kept)]


def several(estimator, X, y):
    found = estimator.score(X, y)
    return {"a loss": -found, "accuracy": found}


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UnverifiedWarning")
@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        ({"balanced_accuracy", "accuracy"}, "best_lower"),
        (["accuracy", "balanced_accuracy"], "one_se"),
        (several, "accuracy"),
    ],
)
def test_the_metric_that_ranks_decides_who_survives(data, scoring, refit):
    results = halving(scoring=scoring, refit=refit).fit(*data).cv_results_
    first, names = results["iter"] == 0, np.array([str(one) for one in results["params"]])
    scores = results["mean_test_accuracy"][first]
    kept = np.isin(names[first], names[results["iter"] == 1])
    assert scores[kept].min() >= np.sort(scores)[-kept.sum()]


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
def test_bad_resources_are_rejected_before_anything_is_asked(data, options, fact):
    X, y = data
    holdout = ReusableHoldout(X[500:], y[500:], random_state=0)
    with refused(ValueError, fact):
        halving(holdout=holdout, **options).fit(X[:500], y[:500])
    assert len(holdout.history()) == 0
