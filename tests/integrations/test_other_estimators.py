"""Estimators and pipelines of other libraries: searched, verified, saved, scored."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import HoldoutScorer, ReusableHoldoutSearchCV


def fit_search(estimator, grid, X, y, **params):
    """Return a search on a small holdout, with the warnings of other libraries left out."""
    search = ReusableHoldoutSearchCV(estimator, grid, cv=2, random_state=0, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y)


def check_search(search, X, y):
    """Check that candidates were verified, that repeating is free, and that a scorer goes on."""
    assert np.isfinite(search.cv_results_["holdout_score"]).all()
    assert search.best_score_ > 0.8
    holdout = search.holdout_
    train = search.train_indices_
    n_answers = len(holdout.history())
    X_train, y_train = (
        table.iloc[train] if hasattr(table, "iloc") else table[train] for table in (X, y)
    )
    second_search = ReusableHoldoutSearchCV(
        search.estimator, search.param_grid, cv=2, holdout=holdout
    ).fit(X_train, y_train)
    assert len(holdout.history()) == n_answers
    assert second_search.best_score_ == search.best_score_
    assert pickle.loads(pickle.dumps(search)).predict(X[:3]).shape[0] == 3
    score = HoldoutScorer(holdout)(search.best_estimator_, X_train, y_train)
    assert score > 0.8


@pytest.mark.client("lightgbm", "classifiers in a search and in `HoldoutScorer`")
def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=10, random_state=0, verbose=-1, n_jobs=1)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    check_search(fit_search(model, {"num_leaves": [3, 7]}, X, y), X, y)


@pytest.mark.client(
    "xgboost-cpu", "classifiers in a search and in `HoldoutScorer`, missing values and categories"
)
@pytest.mark.parametrize("data_type", ["numbers", "missing", "categories"])
def test_xgboost(data_type):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(
        n_estimators=10, random_state=0, n_jobs=1, enable_categorical=data_type == "categories"
    )
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    if data_type == "missing":
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    if data_type == "categories":
        X["mean radius"] = pd.cut(X["mean radius"], 4, labels=list("abcd"))
    check_search(fit_search(model, {"max_depth": [1, 2]}, X, y), X, y)


@pytest.mark.client("catboost", "classifiers of two and of three classes, whose labels are columns")
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_catboost(load, tmp_path):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(
        iterations=10, random_state=0, verbose=False, train_dir=str(tmp_path), thread_count=1
    )
    X, y = load(return_X_y=True)
    search = fit_search(model, {"depth": [2, 3]}, X, y)
    assert np.isfinite(search.cv_results_["holdout_score"]).all()
    assert search.best_score_ > 0.8


@pytest.mark.client(
    "imbalanced-learn", "resampling inside a pipeline; the holdout is left as it is"
)
def test_imbalanced_learn():
    pipeline = pytest.importorskip("imblearn.pipeline")
    sampling = pytest.importorskip("imblearn.over_sampling")
    X, y = load_breast_cancer(return_X_y=True)
    steps = [("more", sampling.RandomOverSampler(random_state=0)), ("lr", LogisticRegression())]
    grid = {"lr__C": [0.01, 1.0]}
    search = fit_search(pipeline.Pipeline(steps), grid, X / X.std(axis=0), y)
    assert search.holdout_.n == len(search.holdout_indices_)
    check_search(search, X / X.std(axis=0), y)


@pytest.mark.client("skrub", "`tabular_pipeline` on frames")
def test_skrub():
    skrub = pytest.importorskip("skrub")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = skrub.tabular_pipeline(LogisticRegression(random_state=0))
    check_search(fit_search(model, {"logisticregression__C": [0.01, 1.0]}, X, y), X, y)
