"""Rows that change with their order, and evidence in an index of dates, if correlation=None."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain, independence_test
from sklearn_bdp.exceptions import DependenceWarning, SharedRecordsError
from tests.facts import refused

pd = pytest.importorskip("pandas")


def fit_with_warnings(X, y, **params):
    fit_parameters = {name: params.pop(name) for name in ("X_val", "y_val") if name in params}
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, random_state=0, **params
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y, **fit_parameters)
    return search, [
        str(warning.message) for warning in caught if warning.category is DependenceWarning
    ]


def drifting_table(n=4000, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    weight = np.linspace(1.5, -0.5, n)
    return X, (X[:, 0] * weight + rng.normal(size=n) > 0).astype(int)


def test_a_steady_drift_is_reported_under_independence():
    X, y = drifting_table()
    search, (message,) = fit_with_warnings(X, y)
    assert search.dependence_test_.misfit
    assert "correlation='time'" in message


def test_shuffled_or_class_sorted_rows_give_no_warning():
    X, y = drifting_table()
    order = np.random.default_rng(0).permutation(len(X))
    assert fit_with_warnings(X[order], y[order])[1] == []
    by_class = np.argsort(y, kind="stable")
    assert fit_with_warnings(X[by_class], y[by_class])[1] == []


class WorseWithFirstRow(ClassifierMixin, BaseEstimator):
    """Much worse where the first row that it is fitted on is the first of all."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.seen_ = X[:, -1].min()
        return self

    def predict(self, X):
        return (X[:, 0] > (2 if self.seen_ == 0 else 0)).astype(int)


# the model of the whole training set is the worse one
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.OptimisticScoreWarning")
def test_a_worse_model_of_the_last_folds_gives_no_dependence_warning():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(2000, 2)), np.arange(2000)]
    y = (X[:, 0] > 0).astype(int)
    search = ReusableHoldoutSearchCV(WorseWithFirstRow(), {}, random_state=0, cv=KFold(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependenceWarning)
        search.fit(X[:1500], y[:1500], X_val=X[1500:], y_val=y[1500:])
    assert not search.dependence_test_.misfit


def test_the_dependence_message_states_its_false_alarm_rate():
    scores = np.repeat(np.random.default_rng(0).random(300), 5)
    message = independence_test(scores).message
    assert "one of 200 tables of independent records" in message
    assert "so the records are not independent" not in message


@pytest.mark.parametrize(
    ("n_tables", "max_warnings"), [(300, 6), pytest.param(1000, 14, marks=pytest.mark.slow)]
)
def test_false_alarms_are_as_rare_as_the_message_states(n_tables, max_warnings):
    """One in 200, and four standard errors. A rate of 4% would pass 300 tables with chance .04."""
    rng = np.random.default_rng(3)
    assert sum(independence_test(rng.random(60)).misfit for _ in range(n_tables)) <= max_warnings


def dated_table(n=600, **calendar):
    rng = np.random.default_rng(0)
    index = pd.date_range("2015-03-01", periods=n, **(calendar or {"freq": "D"}))
    X = pd.DataFrame(rng.normal(size=(n, 3)), index=index)
    return X, pd.Series((X[0].values + rng.normal(size=n) > 0).astype(int), index=index)


@pytest.mark.parametrize("freq", ["h", "B", "MS", "7D"])
def test_a_shuffled_calendar_is_reported(freq):
    X, y = dated_table(freq=freq)
    order = np.random.default_rng(1).permutation(len(X))
    (message,) = fit_with_warnings(X.iloc[order], y.iloc[order])[1]
    assert "shuffled calendar" in message
    assert "correlation='time'" in message


def test_dates_of_random_events_give_no_warning():
    X, y = dated_table()
    rng = np.random.default_rng(2)
    days = pd.Timestamp("2020") + pd.to_timedelta(rng.random(len(X)) * 1000, unit="D")
    assert fit_with_warnings(X.set_axis(days, axis=0), y.values)[1] == []
    assert fit_with_warnings(X.set_axis(days.floor("D"), axis=0), y.values)[1] == []


def test_the_message_about_a_given_holdout_does_not_mention_random_splits():
    X, y = dated_table()
    validation_set = {"X_val": X[400:], "y_val": y[400:]}
    (message,) = fit_with_warnings(X[:400], y[:400], **validation_set)[1]
    assert "sorted by date" in message
    assert "at random" not in message


CHAINS = ["time", MarkovChain.from_autocorrelation_time(2), [[0.7, 0.3], [0.3, 0.7]]]


@pytest.mark.parametrize("correlation", CHAINS)
@pytest.mark.parametrize("index_type", ["dates", "periods"])
def test_a_series_is_verified_on_its_sorted_future(correlation, index_type):
    X, y = dated_table(900)
    if index_type == "periods":
        X = X.to_period("D")
        y = y.to_period("D")
    early_rows = slice(0, 600)
    late_rows = slice(600, 900)
    with refused(ValueError, "X_val"):
        fit_with_warnings(
            X[late_rows],
            y[late_rows],
            X_val=X[early_rows],
            y_val=y[early_rows],
            correlation=correlation,
        )
    with refused(ValueError, "X_val"):
        fit_with_warnings(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2], correlation=correlation)
    order = np.random.default_rng(0).permutation(300)
    shuffled_validation = {"X_val": X[late_rows].iloc[order], "y_val": y[late_rows].iloc[order]}
    with refused(ValueError, "X_val.iloc[order]"):
        fit_with_warnings(
            X[early_rows], y[early_rows], **shuffled_validation, correlation=correlation
        )
    with refused(ValueError, "X.iloc[order]"):
        fit_with_warnings(X[::-1], y[::-1], correlation=correlation)
    fit_result = fit_with_warnings(
        X[early_rows],
        y[early_rows],
        X_val=X[late_rows],
        y_val=y[late_rows],
        correlation=correlation,
    )
    assert fit_result[1] == []


@pytest.mark.parametrize("ledger", [False, True])
def test_rows_of_the_gap_are_not_training_rows(ledger, tmp_path):
    X, y = dated_table(2000, freq="h", tz="Europe/Paris")
    chain = MarkovChain.from_autocorrelation_time(5)
    path = tmp_path / "a.sqlite" if ledger else None
    first_search = fit_with_warnings(X, y, correlation=chain, holdout=HoldoutConfig(ledger=path))[0]
    train = first_search.train_indices_
    start = first_search.holdout_indices_[0]

    def refit(rows):
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [3]}, holdout=first_search.holdout_
        )
        search.fit(X.iloc[rows], y.iloc[rows])

    with warnings.catch_warnings():
        warnings.simplefilter("error", DependenceWarning)
        refit(train)
    with refused(SharedRecordsError, "first.train_indices_", "X[train]"):
        refit(np.arange(start))


def standard_table(seed):
    """Return one of the tables that people have: independent rows of ten kinds."""
    rng = np.random.default_rng(seed)
    table_kind = seed % 10
    n = (120, 300, 800)[seed % 3]
    X = rng.normal(size=(n, 4))
    if table_kind in (1, 2):
        X = np.round(X)
    if table_kind == 3:
        X = X[np.argsort(X[:, 3])]  # sorted by a column that means nothing
    if table_kind == 4:
        X = rng.standard_t(2, size=(n, 4))
    positive_fraction = (0.5, 0.9, 0.05 + 0.9 * rng.random())[table_kind % 3]
    signal = X[:, 0] + rng.normal(size=n) * (1 + (table_kind == 5) * np.abs(X[:, 1]))
    y = (signal > np.quantile(signal, positive_fraction)).astype(int)
    order = np.argsort(y, kind="stable") if table_kind == 6 else np.arange(n)  # sorted by class
    return X[order], y[order]


@pytest.mark.parametrize("n_tables", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_standard_tables_give_no_warning(n_tables):
    """Half a warning of dependence is expected in a hundred tables."""
    n_warned = 0
    for seed in range(n_tables):
        X, y = standard_table(seed)
        search = ReusableHoldoutSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X, y)
        n_warned += any(issubclass(warning.category, DependenceWarning) for warning in caught)
    assert n_warned <= 3
