"""Searches with progress bars, several outputs and the losses of scikit-learn's users."""

import re

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor, Ridge
from sklearn.metrics import hamming_loss, log_loss, make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


@pytest.fixture(scope="module")
def data():
    return make_classification(500, 6, n_informative=3, flip_y=0.1, random_state=0)


def search(estimator, grid, *, cv=2, **params):
    return ReusableHoldoutSearchCV(estimator, grid, cv=cv, random_state=0, **params)


@pytest.mark.client("rich", "progress bars of scikit-learn 1.9")
@pytest.mark.skipif(not hasattr(GridSearchCV, "set_callbacks"), reason="callbacks came with 1.9")
@pytest.mark.parametrize("holdout", [None, 0.25])
def test_a_progress_bar_shows_candidates_and_verification(data, holdout, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    tree = DecisionTreeClassifier(random_state=0)
    unfitted = search(tree, {"max_depth": [1, 2, 3]}, holdout=holdout)
    unfitted.set_callbacks(ProgressBar(max_propagation_depth=None))
    fitted = unfitted.fit(*data)
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out)
    assert "search" in printed
    assert ("verification" in printed) == (holdout is not None)
    assert "100%" in printed
    if holdout is not None:  # released scores go to cv_results_, not to the screen
        assert f"{fitted.best_score_:.3f}" not in printed


def check_best_interval(fitted, expected_score):
    """Check that the verified scores are near the metric of the model on fresh records."""
    results = fitted.cv_results_
    best = fitted.best_index_
    assert results["holdout_lower"][best] <= expected_score <= results["holdout_upper"][best]
    assert np.isfinite(results["holdout_score"]).all()


def test_several_outputs_of_a_regression():
    X, Y = make_regression(4000, 5, n_targets=3, noise=10.0, random_state=0)
    fitted = search(Ridge(), {"alpha": [0.1, 1000.0]}, scoring="neg_mean_absolute_error")
    fitted.fit(X[:800], Y[:800])
    assert fitted.best_params_ == {"alpha": 0.1}
    check_best_interval(fitted, -np.abs(Y[800:] - fitted.predict(X[800:])).mean())


def test_hamming_loss_of_several_labels():
    X, Y = make_multilabel_classification(4000, 10, random_state=0)
    scorer = make_scorer(hamming_loss, greater_is_better=False)
    for scoring in ("neg_hamming_loss", scorer, ["neg_hamming_loss", "accuracy"]):
        refit = not isinstance(scoring, list) or "accuracy"
        fitted = search(
            KNeighborsClassifier(), {"n_neighbors": [1, 15]}, scoring=scoring, refit=refit
        )
        fitted.fit(X[:800], Y[:800])
        if refit == "accuracy":
            assert np.isfinite(fitted.cv_results_["holdout_score_neg_hamming_loss"]).all()
            assert fitted.scorer_["neg_hamming_loss"](fitted, X[800:], Y[800:]) < 0
            continue
        check_best_interval(fitted, -hamming_loss(Y[800:], fitted.predict(X[800:])))


def test_pinball_loss():
    X, y = make_regression(4000, 4, noise=10.0, random_state=0)
    scorer = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9)
    model = QuantileRegressor(quantile=0.9, solver="highs")
    fitted = search(model, {"alpha": [0.0, 10.0]}, scoring=scorer).fit(X[:600], y[:600])
    assert fitted.best_params_ == {"alpha": 0.0}
    check_best_interval(fitted, -mean_pinball_loss(y[600:], fitted.predict(X[600:]), alpha=0.9))


def test_log_loss_uses_the_labels_of_its_scorer(data):
    X, y = data
    labels = np.array(["no", "yes", "never seen"])
    try:
        scorer = make_scorer(
            log_loss, greater_is_better=False, response_method="predict_proba", labels=[*labels[:2]]
        )
    except TypeError:
        pytest.skip("make_scorer has no response_method")
    fitted = search(LogisticRegression(), {"C": [0.001, 1.0]}, scoring=scorer).fit(X, labels[y])
    assert fitted.best_params_ == {"C": 1.0}
    assert np.isfinite(fitted.cv_results_["holdout_score"]).all()


@pytest.mark.parametrize("cv_type", ["generator", "predefined"])
def test_folds_of_all_data_are_taken_once(data, cv_type):
    X, y = data
    cv = KFold(3).split(X)
    if cv_type == "predefined":
        cv = PredefinedSplit(np.arange(len(y)) % 3)
    fitted = search(LogisticRegression(), {"C": [0.1, 1.0]}, cv=cv).fit(X, y)
    assert fitted.n_splits_ == 3
    assert np.isfinite(fitted.cv_results_["mean_test_score"]).all()
    assert np.isfinite(fitted.cv_results_["holdout_score"]).all()


def test_a_plain_regressor_is_scored_by_r2_by_default():
    X, y = make_regression(400, 3, noise=5.0, random_state=0)
    fitted = search(LinearRegression(), {"fit_intercept": [True, False]}).fit(X, y)
    assert 0.5 < fitted.best_score_ <= 1.0
    assert fitted.cv_results_["holdout_interval"][0] == "approximate"
