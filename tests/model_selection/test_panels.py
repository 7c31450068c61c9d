"""Panels in searches: the date is the unit, for any order of rows (theory G24)."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused, units_of

pd = pytest.importorskip("pandas")
SHOPS = 20
DAYS = 400


def sales(seed=0, rho=0.8):
    """Rows of shops and days with a shock per day that all shops share, date-major."""
    rng = np.random.default_rng(seed)
    shock = np.zeros(DAYS)
    for t in range(1, DAYS):
        shock[t] = rho * shock[t - 1] + rng.normal()
    X = rng.normal(size=(DAYS * SHOPS, 3))
    y = X[:, 0] + np.repeat(shock, SHOPS) + rng.normal(size=DAYS * SHOPS)
    days = np.repeat(np.datetime64("2026-01-01") + np.arange(DAYS), SHOPS)
    return X, y, days, np.tile(np.arange(SHOPS), DAYS)


@pytest.fixture
def scoring():
    def closeness(estimator, X, y):
        return 1.0 / (1.0 + (estimator.predict(X) - y) ** 2)

    return PerRecordScore(closeness, lower=0.0, upper=1.0)


def fit_search(scoring, X, y, **fit):
    model = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 100.0]}, correlation="time", random_state=0, scoring=scoring
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **fit)


def test_any_order_of_rows_gives_one_answer(scoring):
    X, y, days, shop = sales()
    by_shop = np.lexsort((days, shop))
    search_by_date = fit_search(scoring, X, y, times=days)
    search_by_shop = fit_search(scoring, X[by_shop], y[by_shop], times=days[by_shop])
    model = search_by_date.holdout_.dependence
    assert units_of(search_by_date.holdout_) == (100, "dates")
    assert model.effective_n(search_by_date.holdout_.n) == pytest.approx(100)
    for name in ("holdout_score", "holdout_lower", "holdout_upper"):
        assert search_by_date.cv_results_[name] == pytest.approx(
            search_by_shop.cv_results_[name], abs=1e-9
        )
    assert set(days[search_by_date.train_indices_]) == set(
        days[by_shop][search_by_shop.train_indices_]
    )
    assert not set(days[search_by_date.train_indices_]) & set(days[search_by_date.holdout_indices_])
    assert "these 100 days" in str(search_by_date.certificate_).splitlines()[0]


def test_a_date_level_of_the_index_is_read(scoring):
    X, y, days, shop = sales()
    search_by_times = fit_search(scoring, X, y, times=days)
    index = pd.MultiIndex.from_arrays([shop, days])
    frames = (pd.DataFrame(X, index=index), pd.DataFrame(X, index=pd.DatetimeIndex(days)))
    for frame in frames:
        model = fit_search(scoring, frame, y).holdout_.dependence
        assert model == search_by_times.holdout_.dependence


def test_a_chain_describes_one_record_per_date(scoring):
    X, y, days, _ = sales()
    model = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1]}, scoring=scoring, holdout=HoldoutConfig(0.3),
        correlation=MarkovChain.from_autocorrelation_time(9.0),
    )  # fmt: skip
    for fit_parameters in ({"times": days}, {"horizon": 30}):
        with refused(ValueError, "correlation='time'"):
            model.fit(X, y, **fit_parameters)
    with refused(ValueError, "correlation='time'"):
        model.fit(pd.DataFrame(X, index=pd.DatetimeIndex(days)), y)


def test_a_validation_set_of_later_dates(scoring):
    X, y, days, _ = sales()
    n_training = 300 * SHOPS
    options = {"X_val": X[n_training:], "y_val": y[n_training:], "times": days}
    model = fit_search(scoring, X[:n_training], y[:n_training], **options)
    assert units_of(model.holdout_) == (100, "dates")
    with refused(ValueError, "X_val"):
        fit_search(
            scoring,
            X[n_training:],
            y[n_training:],
            X_val=X[:n_training],
            y_val=y[:n_training],
            times=np.roll(days, -n_training),
        )


def test_a_horizon_leaves_dates_out(scoring):
    X, y, days, _ = sales(rho=0.0)
    search_without_horizon = fit_search(scoring, X, y, times=days)
    search_with_horizon = fit_search(scoring, X, y, times=days, horizon=30)
    last_training_day = days[search_with_horizon.train_indices_].max()
    assert last_training_day + 30 < days[search_with_horizon.holdout_indices_].min()
    assert search_without_horizon.train_indices_.size > search_with_horizon.train_indices_.size
    search_of_rows = fit_search(scoring, X[:1000], y[:1000], horizon=40)
    assert search_of_rows.train_indices_.max() + 40 < search_of_rows.holdout_indices_.min()


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda d: {"times": d[:-1]}, 7999),
        (lambda d: {"times": np.where(d == d[0], np.datetime64("NaT"), d)}, "(NaT)"),
        (lambda d: {"times": np.repeat(["Mon", "Tue"], 4000)}, "'Mon'"),
        (lambda d: {"times": d, "horizon": -1}, "horizon=-1"),
    ],
)
def test_bad_dates_are_named_before_any_fit(scoring, change, fact):
    X, y, days, _ = sales()
    with refused(ValueError, fact):
        fit_search(scoring, X, y, **change(days))


def test_dates_need_records_in_time(scoring):
    X, y, days, _ = sales()
    model = ReusableHoldoutSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring)
    with refused(ValueError, "correlation='time'"):
        model.fit(X, y, times=days)
    with refused(ValueError, "holdout=None"):
        model.set_params(holdout=None, scoring=None).fit(X, y, times=days)


class Dated(Ridge):
    """An estimator whose fit has a parameter of that name."""

    def fit(self, X, y, times=None):
        """Fit."""
        return super().fit(X, y)


def test_times_are_passed_to_only_one_argument(scoring):
    X, y, days, _ = sales()
    model = ReusableHoldoutSearchCV(Dated(), {"alpha": [1.0]}, scoring=scoring, correlation="time")
    with refused(ValueError, "times=", "Dated.fit"):
        model.fit(X, y, times=days)
