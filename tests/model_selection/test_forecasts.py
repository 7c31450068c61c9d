"""A search forecasts further queries for its own metric, not for means."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.metrics import get_metric


def fit_search(groups, scoring, n=4000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    labels = None if groups is None else rng.integers(groups, size=n)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1]}, scoring=scoring, random_state=0,
        correlation=None if groups is None else "groups",
        # The next batch is about as wide as the one before it.
        holdout=HoldoutConfig(spending="even"),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y, groups=labels)


@pytest.mark.parametrize("groups", [600, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy"])
def test_forecasts_for_scores_by_class_use_their_metric(groups, scoring):
    search = fit_search(groups, scoring)
    lower, upper = search.best_interval_
    half_width = (upper - lower) / 2
    forecast_half_width = search.preview(2).half_width
    assert 0.8 * half_width < forecast_half_width < 1.3 * half_width
    mean_forecast = search.holdout_.preview(2, score=search.best_score_)
    # Balanced accuracy of nearly equal classes is about a mean.
    assert mean_forecast.half_width < (0.9 if scoring == "roc_auc" else 1.1) * forecast_half_width
    certificate = search.certificate_
    single_half_width = search.preview(1, score=0.5).half_width
    assert certificate.forecast.next_query == pytest.approx(single_half_width, rel=0.05)
    assert certificate.half_width >= certificate.forecast.next_query
    if scoring == "roc_auc":
        assert certificate.forecast.next_query > search.holdout_.certificate().forecast.next_query


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error", "f1_macro", "f1"])
def test_forecasts_are_in_the_units_of_the_metric(scoring):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_200, 3))
    y = 50.0 * X[:, 0] + 50.0 * rng.normal(size=1_200)
    model, grid = Ridge(), {"alpha": [0.1, 1.0]}
    if scoring in ("f1", "f1_macro"):
        y = (y > 0.0).astype(int)
        model, grid = LogisticRegression(), {"C": [0.1, 1.0]}
    config = HoldoutConfig(spending="even")
    search = ReusableHoldoutSearchCV(model, grid, scoring=scoring, holdout=config, random_state=0)
    search.fit(X, y)
    lower, upper = search.best_interval_
    preview = search.preview()
    assert preview.score == pytest.approx(search.best_score_)
    assert 0.6 * (upper - lower) < 2.0 * preview.half_width < 1.5 * (upper - lower)
    assert preview.half_width_final < preview.half_width <= preview.half_width_others


def test_forecasts_for_means_equal_those_of_the_holdout():
    search = fit_search(None, "accuracy")
    holdout = search.holdout_
    holdout_certificate = holdout.certificate()
    assert search.certificate_.forecast.next_query == holdout_certificate.forecast.next_query
    assert search.certificate_.forecast.advice == holdout_certificate.forecast.advice
    n_queries = 2
    score = search.best_score_
    assert search.preview(n_queries, score=score) == holdout.preview(
        n_queries, score=score, n_train=3000
    )


@pytest.mark.parametrize("max_target", [None, 10.0, 200.0])
def test_a_preview_on_a_fresh_holdout_forecasts_the_spending_of_the_first_search(max_target):
    """Accuracy, and errors that vary little: in wide bounds noise alone left the first cell."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6_000, 5))
    y = X @ np.arange(5.0) + rng.normal(size=6_000)
    model = Ridge()
    grid = {"alpha": [0.1, 1.0]}
    metric = "accuracy"
    if max_target is None:
        y = (y > 0.0).astype(int)
        model = LogisticRegression()
        grid = {"C": [0.1, 1.0]}
    else:
        metric = get_metric("neg_mean_absolute_error", bounds=(-max_target, max_target))
    search = ReusableHoldoutSearchCV(model, grid, scoring=metric, random_state=0).fit(X, y)
    n_holdout = search.holdout_indices_.size
    fresh_search = copy.copy(search)
    fresh_search.holdout_ = ReusableHoldout(np.zeros((n_holdout, 1)), np.zeros(n_holdout))
    forecast = fresh_search.preview().expected_spending
    spending = search.holdout_.information_spent
    # Holdout scores are near cross-validated ones. The forecast includes a rare correction.
    assert forecast / 1.5 < spending < 1.5 * forecast
