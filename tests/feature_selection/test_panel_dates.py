"""Selectors of panels: dates come by ``times=`` as in the search (theory G24)."""

import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from tests.facts import refused, units_of

SHOPS = 10
DAYS = 200


@pytest.fixture(scope="module")
def sales():
    rng = np.random.default_rng(0)
    shock = np.convolve(rng.normal(size=DAYS + 4), np.ones(5) / 2.0, mode="valid")
    X = rng.normal(size=(DAYS * SHOPS, 6))
    y = (2 * X[:, 0] + X[:, 1] + np.repeat(shock, SHOPS) > 0).astype(int)
    return X, y, np.repeat(np.datetime64("2026-01-01") + np.arange(DAYS), SHOPS)


def fit_selector(X, y, *, correlation="time", **fit):
    selector = HoldoutFeatureSelector(LogisticRegression(), correlation=correlation, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return selector.fit(X, y, **fit)


def test_any_order_of_rows_gives_one_selection(sales):
    X, y, days = sales
    by_shop = np.lexsort((days, np.tile(np.arange(SHOPS), DAYS)))
    selector_by_date = fit_selector(X, y, times=days)
    selector_by_shop = fit_selector(X[by_shop], y[by_shop], times=days[by_shop])
    assert units_of(selector_by_date.holdout_) == (50, "dates")
    assert selector_by_date.get_support().tolist() == selector_by_shop.get_support().tolist()
    assert selector_by_date.interval_ == pytest.approx(selector_by_shop.interval_, abs=1e-9)
    training_days = set(days[selector_by_date.train_indices_])
    holdout_days = set(days[selector_by_date.holdout_indices_])
    assert not training_days & holdout_days
    assert "these 50 days" in str(selector_by_date.certificate_).splitlines()[0]


def test_a_horizon_leaves_dates_out(sales):
    X, y, days = sales
    selector = fit_selector(X, y, times=days, horizon=30)
    assert (days[selector.holdout_indices_].min() - days[selector.train_indices_].max()).astype(
        int
    ) > 30


def test_a_recipe_with_weights_is_not_refitted_without_them(sales):
    X, y, days = sales
    selector = fit_selector(X, y, times=days, sample_weight=np.ones(len(y)))
    with refused(ValueError, "refit_every"):
        selector.final_report(refit_every=30)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"times": [1, 2, 3]}, "times"),
        ({"times": "days", "correlation": None}, "correlation='time'"),
        ({"horizon": 5, "correlation": None}, "correlation='time'"),
    ],
)
def test_bad_dates_are_named_before_any_fit(sales, options, fact):
    X, y, days = sales
    options = {**options, **({"times": days} if options.get("times") == "days" else {})}
    with refused(ValueError, fact):
        fit_selector(X, y, **options)


def test_dates_without_a_holdout_are_rejected(sales):
    X, y, days = sales
    with refused(ValueError, "holdout=None", "times=", "horizon="):
        HoldoutFeatureSelector(LogisticRegression(), holdout=None).fit(X, y, times=days)


def test_dates_of_an_index_are_read(sales):
    pd = pytest.importorskip("pandas")
    X, y, days = sales
    frame = pd.DataFrame(X, index=pd.DatetimeIndex(days)).add_prefix("x")
    assert (
        fit_selector(frame, y).holdout_.dependence
        == fit_selector(X, y, times=days).holdout_.dependence
    )


@pytest.mark.parametrize(
    ("scoring", "loss"), [("neg_mean_absolute_error", 1), ("neg_mean_squared_error", 2)]
)
def test_errors_have_one_clip_in_answers_and_report(scoring, loss):
    """Theory G31: from out-of-fold errors of the chosen subset, not the range of the targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    level = np.cumsum(rng.normal(size=400)) / 3.0
    y = 10.0 * X[:, 0] + level + rng.normal(size=400)
    selector = HoldoutFeatureSelector(
        LinearRegression(), scoring=scoring, correlation="time", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selector.fit(X, y)
    stated = {record.metric for record in selector.holdout_.history()}
    assert len(stated) == 1
    clip = float(re.search(r"clipped at errors of ([\d.]+)", stated.pop())[1])
    assert clip < 0.5 * np.ptp(y)
    low, high = selector.interval_
    assert low < selector.score_ < high
    row = selector.final_report().rows[0]
    assert f"clipped at errors of {clip:.4g}" in row.metric
    held = selector.holdout_indices_
    errors = np.abs(y[held] - selector.estimator_.predict(selector.transform(X[held])))
    assert row.value == pytest.approx(-np.mean(np.minimum(errors, clip) ** loss), rel=1e-3)
