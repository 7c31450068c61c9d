"""Selectors of panels: dates come by ``times=`` as in the search (theory G24)."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from tests.facts import refused, units_of

SHOPS, DAYS = 10, 200


@pytest.fixture(scope="module")
def sales():
    rng = np.random.default_rng(0)
    shock = np.convolve(rng.normal(size=DAYS + 4), np.ones(5) / 2.0, mode="valid")
    X = rng.normal(size=(DAYS * SHOPS, 6))
    y = (2 * X[:, 0] + X[:, 1] + np.repeat(shock, SHOPS) > 0).astype(int)
    return X, y, np.repeat(np.datetime64("2026-01-01") + np.arange(DAYS), SHOPS)


def fitted(X, y, *, correlation="time", **fit):
    selector = HoldoutFeatureSelector(LogisticRegression(), correlation=correlation, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return selector.fit(X, y, **fit)


def test_any_order_of_rows_gives_one_selection(sales):
    X, y, days = sales
    by_shop = np.lexsort((days, np.tile(np.arange(SHOPS), DAYS)))
    one = fitted(X, y, times=days)
    two = fitted(X[by_shop], y[by_shop], times=days[by_shop])
    assert units_of(one.holdout_) == (50, "dates")
    assert one.get_support().tolist() == two.get_support().tolist()
    assert one.interval_ == pytest.approx(two.interval_, abs=1e-9)
    train, held = set(days[one.train_indices_]), set(days[one.holdout_indices_])
    assert not train & held
    assert "these 50 days" in str(one.certificate_).splitlines()[0]


def test_labels_known_later_leave_dates_out(sales):
    X, y, days = sales
    selector = fitted(X, y, times=days, horizon=30)
    assert (days[selector.holdout_indices_].min() - days[selector.train_indices_].max()).astype(
        int
    ) > 30


def test_a_recipe_with_weights_is_not_refitted_without_them(sales):
    X, y, days = sales
    selector = fitted(X, y, times=days, sample_weight=np.ones(len(y)))
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
        fitted(X, y, **options)


def test_without_a_holdout_dates_have_no_place(sales):
    X, y, days = sales
    with refused(ValueError, "holdout=None", "times=", "horizon="):
        HoldoutFeatureSelector(LogisticRegression(), holdout=None).fit(X, y, times=days)


def test_dates_of_an_index_are_read(sales):
    pd = pytest.importorskip("pandas")
    X, y, days = sales
    frame = pd.DataFrame(X, index=pd.DatetimeIndex(days)).add_prefix("x")
    assert fitted(frame, y).holdout_.dependence == fitted(X, y, times=days).holdout_.dependence
