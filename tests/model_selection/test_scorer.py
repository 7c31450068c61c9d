"""The scorer: one holdout behind everything that takes ``scoring=``."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_score,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.preprocessing import StandardScaler

from sklearn_bdp import HoldoutScorer, ReusableHoldout
from sklearn_bdp.exceptions import UnknownFeaturesError
from tests.facts import refused


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = pd.DataFrame(StandardScaler().fit_transform(X), columns=X.columns)
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture
def holdout(data):
    _, X, _, y = data
    return ReusableHoldout(X, y, random_state=0)


def model():
    return LogisticRegression()


def test_cross_val_score_queries_once_per_fold(data, holdout):
    X, _, y, _ = data
    scores = cross_val_score(model(), X, y, scoring=HoldoutScorer(holdout))
    assert ((scores > 0.9) & (scores <= 1)).all()
    assert len(holdout.history()) == 5


def test_grid_search_and_curves(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    search = GridSearchCV(model(), {"C": [0.1, 1.0]}, scoring=scorer, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    validation_curve(model(), X, y, param_name="C", param_range=[0.1], scoring=scorer, cv=3)
    learning_curve(model(), X, y, train_sizes=[0.5], scoring=scorer, cv=3)
    assert search.scorer_.holdout is holdout


def test_a_hand_written_loop_and_a_repeated_query(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout)
    fitted = model().fit(X, y)
    first_score = scorer(fitted, X, y)
    spent = holdout.information_spent
    assert scorer(fitted, X, y) == first_score
    assert scorer(pickle.loads(pickle.dumps(fitted)), X, y) == first_score
    assert holdout.information_spent == spent
    assert len(holdout.history()) == 1


def test_copies_refer_to_the_same_holdout(holdout):
    scorer = HoldoutScorer(holdout)
    for scorer_copy in (
        copy.copy(scorer),
        copy.deepcopy(scorer),
        clone(scorer, safe=False),
        pickle.loads(pickle.dumps(scorer)),
    ):
        assert scorer_copy.holdout is holdout


def test_permutation_importance_scores_shuffled_columns(data, holdout):
    X, _, y, _ = data
    fitted = model().fit(X, y)
    fitted.coef_ *= np.arange(X.shape[1]) == 22  # only one column matters
    importances = permutation_importance(
        fitted, X, y, scoring=HoldoutScorer(holdout), n_repeats=2, random_state=0
    )
    assert importances.importances_mean.argmax() == 22
    assert importances.importances_mean[22] > 0.2
    assert abs(np.delete(importances.importances_mean, 22)).max() < 0.05


def test_permutation_importance_on_arrays(data):
    X, X_holdout, y, y_holdout = data
    holdout = ReusableHoldout(X_holdout.to_numpy(), y_holdout, random_state=0)
    fitted = model().fit(X.to_numpy(), y)
    fitted.coef_ *= np.arange(X.shape[1]) == 22
    importances = permutation_importance(
        fitted, X.to_numpy(), y, scoring=HoldoutScorer(holdout), n_repeats=1, random_state=0
    )
    assert importances.importances_mean.argmax() == 22
    np.testing.assert_array_equal(holdout.X, X_holdout.to_numpy())


def test_a_model_on_some_columns_finds_them_by_name(data, holdout):
    X, _, y, _ = data
    names = ["worst radius", "mean texture"]
    fitted = model().fit(X[names], y)
    assert HoldoutScorer(holdout)(fitted, X[names], y) > 0.8


def test_columns_that_the_holdout_lacks_are_rejected(data, holdout):
    X, _, y, _ = data
    renamed_X = X.rename(columns={"worst radius": "something else"})
    fitted = model().fit(renamed_X, y)
    with refused(UnknownFeaturesError, "['something else']"):
        HoldoutScorer(holdout)(fitted, renamed_X, y)
    assert len(holdout.history()) == 0


@pytest.mark.parametrize("as_frame", [True, False])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_selectors_that_strip_names_are_rejected_before_anything_is_spent(
    data, direction, as_frame
):
    X, X_holdout, y, y_holdout = data
    if not as_frame:
        X = X.to_numpy()
        X_holdout = X_holdout.to_numpy()
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    selection = SequentialFeatureSelector(
        model(), scoring=HoldoutScorer(holdout), direction=direction, cv=2
    )
    with refused(UnknownFeaturesError, "HoldoutFeatureSelector"):
        selection.fit(X, y)
    assert len(holdout.history()) == 0


@pytest.mark.slow
def test_two_workers_query_through_the_ledger(data, tmp_path):
    X, X_holdout, y, y_holdout = data
    holdout = ReusableHoldout(
        X_holdout, y_holdout, ledger=tmp_path / "ledger.sqlite", random_state=0
    )
    scores = cross_val_score(model(), X, y, scoring=HoldoutScorer(holdout), n_jobs=2)
    assert np.isfinite(scores).all()
    assert len(holdout.history()) == 5


def test_regression_scores_come_in_units_of_the_target():
    X, y = load_diabetes(return_X_y=True)
    X, X_holdout, y, y_holdout = train_test_split(X, y, random_state=0)
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    scorer = HoldoutScorer(holdout, scoring="neg_mean_absolute_error")
    assert -80 < scorer(Ridge(alpha=0.1).fit(X, y), X, y) < -20


def test_bad_queries_are_rejected_before_anything_is_spent(data, holdout):
    X, X_holdout, y, y_holdout = data
    fitted = model().fit(X, y)
    scorer = HoldoutScorer(holdout)
    with refused(ValueError, "sample_weight"):
        scorer(fitted, X, y, sample_weight=np.ones(len(y)))
    with refused(ValueError, "X"):
        scorer(fitted, X_holdout, y_holdout)
    with refused(ValueError, "y"):
        scorer(fitted, X)
    with refused(ValueError, "f2"):
        HoldoutScorer(holdout, scoring="f2")
    with refused(TypeError, "ReusableHoldout"):
        HoldoutScorer(X_holdout)
    assert len(holdout.history()) == 0


def test_the_metric_may_be_given_by_position(data, holdout):
    X, _, y, _ = data
    scorer = HoldoutScorer(holdout, "balanced_accuracy")
    assert scorer.scoring == "balanced_accuracy"
    assert 0.9 < scorer(model().fit(X, y), X, y) <= 1.0


def test_a_model_is_scored_again_on_frames_with_sparse_columns():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(600, 2)) * (rng.random((600, 2)) < 0.4)
    X = pd.DataFrame(columns).astype(pd.SparseDtype(float, 0.0))
    y = (columns[:, 0] > 0.0).astype(int)
    model = LogisticRegression().fit(X[:300], y[:300])
    scorer = HoldoutScorer(ReusableHoldout(X[300:], y[300:], random_state=0))
    assert scorer(model, X[:300], y[:300]) == scorer(model, X[:300].copy(), y[:300])
