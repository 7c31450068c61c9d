"""Searches under correlation="time": each date is judged given its past (theory G26)."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, TimeOrdered, check_correlation
from sklearn_bdp.diagnostics.scores import check_later_rows
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter
from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.metrics import PerRecordScore
from tests.facts import refused, units_of

pd = pytest.importorskip("pandas")


def series(n=1000, seed=0, **index):
    """Return daily records whose labels follow regimes."""
    rng = np.random.default_rng(seed)
    regime = np.cumsum(rng.random(n) < 1 / 40) % 2
    X = rng.normal(size=(n, 3))
    noise = rng.normal(size=n) * np.where(regime, 0.3, 2.0)
    days = pd.date_range("2020-01-01", periods=n, **(index or {"freq": "D"}))
    return pd.DataFrame(X, index=days).add_prefix("x"), (X[:, 0] + noise > 0).astype(int)


def fit_search(X, y, model=None, grid=None, fit=None, **params):
    model = LogisticRegression() if model is None else model
    params = {"correlation": "time", "cv": 3, "random_state": 0} | params
    search = ReusableHoldoutSearchCV(model, {} if grid is None else grid, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y, **(fit or {}))


def test_the_last_dates_are_held_out_without_a_gap():
    X, y = series()
    search = fit_search(X, y)
    assert search.holdout_.dependence == TimeOrdered(step="day")
    np.testing.assert_array_equal(search.holdout_indices_, np.arange(750, 1000))
    np.testing.assert_array_equal(search.train_indices_, np.arange(750))
    report = search.final_report()
    for text in (search.certificate_, report):
        first = str(text).splitlines()[0]
        assert first.startswith("Expected ")
        assert "over these 250 days, each given the information available before it: " in first
        assert "Expected accuracy" in first
        assert "Nothing is assumed about drift or dependence, and next year may differ." in first
    assert "Holdout: 1,500 days." in str(fit_search(*series(6000)).certificate_)
    assert search.dependence_test_ is None


@pytest.mark.parametrize(("freq", "step"), [("h", "hour"), ("7D", "week"), ("MS", "month")])
def test_steps_have_names(freq, step):
    X, y = series(400, freq=freq)
    assert f"these 100 {step}s, each given the information available" in str(
        fit_search(X, y).certificate_
    )
    X.index = range(400)
    assert "these 100 dates, each given the information available before it" in str(
        fit_search(X, y).certificate_
    )


class Counting(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y):
        """Fit."""
        Counting.fits += 1
        return super().fit(X, y)


def test_no_more_fits_than_a_search_of_independent_records():
    X, y = series()
    counts = []
    for correlation in (None, "time"):
        Counting.fits = 0
        fit_search(X, y, Counting(), {"C": [0.01, 0.1, 1.0]}, correlation=correlation)
        counts.append(Counting.fits)
    assert counts[1] <= counts[0]


def test_intervals_are_those_of_independent_dates():
    X, y = series(3000)
    low, high = fit_search(X, y).final_report().interval
    assert 0.5 * (high - low) < 0.055  # 750 dates; with a learned strength .09


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0.1},
        {"calibration": "zhao2017", "expert": ExpertSettings(n_queries=5), "budget": 1},
    ],
)
def test_levels_of_privacy_need_a_declared_chain(parameters):
    X, y = series(300)
    with refused(ValueError, "correlation='time'"):
        fit_search(X, y, holdout=HoldoutConfig(**parameters))
    with refused(ValueError, "correlation='time'"):
        ReusableHoldout(X, y, correlation="time", **parameters)
    for model in (TimeOrdered(), TimeOrdered(np.arange(300) // 3)):
        with refused(ValueError, "correlation='time'"):
            model.bdp_epsilon(0.1, 300)
        with refused(ValueError, "correlation='time'"):
            model.dp_epsilon(0.1, 300)
    with refused(ValueError, "correlation='time'"):
        check_correlation([TimeOrdered(), MarkovChain.from_autocorrelation_time(3.0)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "f1", "average_precision"])
def test_scores_without_a_bound_over_dates_choose_without_an_interval(scoring):
    X, y = series(300)
    search = fit_search(X, y, scoring=scoring)
    assert set(search.cv_results_["holdout_interval"]) == {"none"}
    assert np.isfinite(search.cv_results_["holdout_score"]).all()
    assert "later dates" in str(search.certificate_)
    lower, upper = search.final_report().rows[0].approximate
    assert 0.0 <= lower < upper <= 1.0


@pytest.mark.parametrize("correlation", [MarkovChain.from_autocorrelation_time(2.0)])
def test_scores_by_class_are_rejected_under_a_chain(correlation):
    X, y = series(300)
    with refused(UnboundedMetricError, "roc_auc"):
        fit_search(X, y, scoring="roc_auc", correlation=correlation)


def centered(X):
    return X.rolling(5, center=True, min_periods=1).mean()


def trailing(X):
    return X.rolling(5, min_periods=1).mean()


def less_mean(X):
    return X - X.mean()


@pytest.mark.parametrize("function", [centered, less_mean])
def test_models_that_use_later_rows_are_rejected_before_any_query(function):
    X, y = series()
    model = make_pipeline(FunctionTransformer(function), LogisticRegression())
    with refused(ValueError, "FunctionTransformer"):
        fit_search(X, y, model)
    fit_search(X, y, make_pipeline(FunctionTransformer(trailing), LogisticRegression()))
    declared = MarkovChain.from_autocorrelation_time(50.0)
    fit_search(X, y, model, correlation=declared)


def test_later_rows_are_found_in_few_training_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x0": rng.normal(size=46)}, index=pd.date_range("2026-01-01", periods=46))
    model = make_pipeline(FunctionTransformer(less_mean), LogisticRegression())
    model.fit(X, (X["x0"] > 0).astype(int))
    for n_rows in (16, 30, 46):
        with refused(ValueError, "FunctionTransformer"):
            check_later_rows(model, X[:n_rows], np.arange(n_rows), name="FunctionTransformer")


class WithinDay(ClassifierMixin, BaseEstimator):
    """Compares rows that are handed over together."""

    def __init__(self, later=False):
        self.later = later

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        day_means = X.groupby(X.index)["x0"].transform("mean")
        threshold = day_means.sort_index().iloc[-1] if self.later else 0.0
        return (X["x0"] + 1e-9 * day_means > threshold).astype(int).to_numpy()


def test_models_may_use_rows_of_the_same_date():
    X, y = series(1200)
    X.index = np.repeat(X.index[:300], 4)
    order = np.random.default_rng(0).permutation(len(X))
    assert units_of(fit_search(X.iloc[order], y[order], WithinDay()).holdout_) == (75, "dates")
    with refused(ValueError, "WithinDay"):
        fit_search(X.iloc[order], y[order], WithinDay(later=True))


def test_training_rows_from_after_the_holdout_are_rejected():
    X, y = series()
    first_search = fit_search(X.iloc[:800], y[:800])
    options = {"holdout": first_search.holdout_, "correlation": None}
    fit_search(X.iloc[:600], y[:600], grid={"C": [3.0]}, **options)
    for rows in (slice(800, 1000), slice(500, 650)):
        with refused(ValueError, "X"):
            fit_search(X.iloc[rows], y[rows], **options)
    with refused(ValueError, "correlation='time'", "ShuffleSplit"):
        fit_search(X, y, holdout=ShuffleSplit(1, random_state=0))
    with refused(ValueError, "ShuffleSplit"):
        fit_search(X, y, holdout=ShuffleSplit(1, random_state=0), correlation=TimeOrdered())
    with refused(ValueError, "X_val"):
        fit_search(X[500:], y[500:], fit={"X_val": X[:500], "y_val": y[:500]})
    panel = X.set_axis(np.repeat(X.index[:250], 4), axis=0)
    first_search = fit_search(panel, y)
    with refused(ValueError, "X"):
        fit_search(panel, y, holdout=first_search.holdout_)


def test_a_validation_set_is_conditional_on_the_training_set():
    X, y = series()
    search_with_split = fit_search(X, y)
    fit = {"X_val": X[750:], "y_val": y[750:]}
    search_with_validation_set = fit_search(X[:750], y[:750], fit=fit)
    assert search_with_validation_set.best_interval_ == pytest.approx(
        search_with_split.best_interval_, abs=2e-3
    )
    search_of_arrays = fit_search(
        X[:750].to_numpy(), y[:750], fit={"X_val": X[750:].to_numpy(), "y_val": y[750:]}
    )
    assert "come after all training records" in str(search_of_arrays.certificate_)


def closeness(estimator, X, y):
    return 1.0 / (1.0 + (estimator.predict(X) - y) ** 2)


def test_dates_weigh_equally_and_intervals_follow_their_means():
    """Many alike shops: the score of a date varies far less than that of a record."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, 300)
    days = np.repeat(np.arange(300), counts)
    X = rng.normal(size=(len(days), 2))
    y = X[:, 0] + rng.normal(size=len(days)) + 0.2 * rng.normal(size=300)[days]
    scoring = PerRecordScore(closeness, lower=0.0, upper=1.0)
    search = fit_search(X, y, Ridge(), scoring=scoring, fit={"times": days})
    report = search.final_report()
    holdout_rows = search.holdout_indices_
    record_scores = closeness(search.best_estimator_, X[holdout_rows], y[holdout_rows])
    date_means = np.bincount(days[holdout_rows], record_scores)[225:] / counts[225:]
    assert report.value == pytest.approx(date_means.mean(), abs=2e-3)
    assert 0.5 * (report.upper - report.lower) < 0.1
    assert "75 dates" in str(report).splitlines()[0]


def test_a_horizon_leaves_out_labels_that_are_not_yet_available():
    X, y = series()
    for horizon, gap in ((1, 0), (7, 7), (pd.Timedelta("7D"), 7), ("7D", 7)):
        search = fit_search(X, y, fit={"horizon": horizon})
        assert search.holdout_indices_.min() - search.train_indices_.max() == gap + 1
    with refused(ValueError, "horizon", 0):
        fit_search(X, y, fit={"horizon": 0})


def test_a_filter_of_attributes_needs_no_chain():
    X, y = series()
    screened = HoldoutCorrelationFilter(correlation="time", random_state=0).fit(X, y)
    assert screened.get_support().tolist() == [True, False, False]


@pytest.mark.parametrize("rho", [0.98, pytest.param(0.0, marks=pytest.mark.slow)])
def test_intervals_hold_for_the_period_under_any_dependence(rho):
    """Truth: the mean of the expectations given the past, which are known in a simulation."""
    n_missed = 0
    n = 600
    for seed in range(25):
        rng = np.random.default_rng(seed)
        level = np.zeros(n)
        for t in range(1, n):
            level[t] = rho * level[t - 1] + np.sqrt(1 - rho**2) * rng.normal()
        X = rng.choice([-1.0, 1.0], size=(n, 1))
        probability_correct = 1 / (
            1 + np.exp(-level)
        )  # known the day before up to the step of the level
        y = np.where(rng.random(n) < probability_correct, X[:, 0], -X[:, 0])
        search = fit_search(X, y, cv=2)
        low, high = search.final_report().interval
        is_correct = search.best_estimator_.predict(X) == X[:, 0]
        expected_score = np.where(is_correct, probability_correct, 1 - probability_correct)[
            search.holdout_indices_
        ].mean()
        n_missed += not low <= expected_score <= high
    assert n_missed <= 1
