"""Neither score() nor the output that a model prints in scoring shows the raw holdout score."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SharedRecordsError
from sklearn_bdp.model_selection import HalvingReusableHoldoutSearchCV
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

GRID = {"C": [0.01, 1.0]}
SEARCHES = [ReusableHoldoutSearchCV, HalvingReusableHoldoutSearchCV]


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 6, random_state=0)


def fit_search(data, search_class=ReusableHoldoutSearchCV, **options):
    return search_class(LogisticRegression(), GRID, cv=3, random_state=0, **options).fit(*data)


@pytest.mark.parametrize("search_class", SEARCHES)
def test_score_of_held_out_records_is_rejected(data, search_class):
    search = fit_search(data, search_class)
    X, y = data
    holdout_rows = search.holdout_indices_
    spent = search.holdout_.information_spent
    train = search.train_indices_
    one_row = holdout_rows[:1]  # row-by-row calls would reveal every record
    for rows in (
        holdout_rows,
        slice(None),
        holdout_rows[:20],
        np.r_[train, holdout_rows[:9]],
        one_row,
        np.r_[train, one_row],
    ):
        with refused(SharedRecordsError, "final_report"):
            search.score(X[rows], y[rows])
    unpickled = pickle.loads(pickle.dumps(search))
    with pytest.raises(SharedRecordsError):
        unpickled.score(X[holdout_rows], y[holdout_rows])
    search.predict(X), search.decision_function(X)
    assert search.holdout_.information_spent == spent


def test_score_of_other_records_is_scikit_learns(data):
    search = fit_search(data)
    train = search.train_indices_
    new_data = make_classification(300, 6, random_state=1)
    for X, y in ((data[0][train], data[1][train]), new_data):
        assert search.score(X, y) == search.best_estimator_.score(X, y)
    discrete = np.random.default_rng(0).integers(0, 2, (2, 400, 3))
    y = np.random.default_rng(1).integers(0, 2, (2, 400))
    search = fit_search((discrete[0], y[0]))
    assert search.score(discrete[1], y[1]) == search.best_estimator_.score(discrete[1], y[1])
    for row in range(20):  # equal to records on both sides by chance
        assert search.score(discrete[1][[row]], y[1][[row]]) in (0.0, 1.0)


def test_new_records_may_equal_holdout_records_of_a_discrete_population():
    X = np.arange(400.0)[:, None]
    y = np.arange(400) % 2
    X = np.r_[X, [[7.5], [7.5]]]
    y = np.r_[y, 0, 0]
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID)
    search.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert search.score(X[400:401], y[400:401]) in (0.0, 1.0)


def test_frames_other_orders_and_explicit_sets_are_recognized(data):
    X = pd.DataFrame(data[0]).add_prefix("x")
    y = pd.Series(data[1])
    search = fit_search((X, y))
    holdout_rows = np.random.default_rng(0).permutation(search.holdout_indices_)
    with pytest.raises(SharedRecordsError):
        search.score(X.iloc[holdout_rows], y.iloc[holdout_rows])
    train = X.iloc[:300]
    holdout_rows = X.iloc[300:]
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID)
    search.fit(train, y[:300], X_val=holdout_rows, y_val=y[300:])
    with pytest.raises(SharedRecordsError):
        search.score(holdout_rows, y[300:])
    assert search.score(train, y[:300]) == search.best_estimator_.score(train, y[:300])


def test_second_searches_reject_holdout_records_and_foreign_holdouts_are_not_compared(data):
    X, y = data
    first_search = fit_search(data)
    train = first_search.train_indices_
    holdout_rows = first_search.holdout_indices_
    second_search = fit_search((X[train], y[train]), holdout=first_search.holdout_)
    with pytest.raises(SharedRecordsError):
        second_search.score(X[holdout_rows], y[holdout_rows])
    # Records of a separate holdout were not passed to fit: score() does not identify them for free.
    foreign_holdout = ReusableHoldout(X[holdout_rows], y[holdout_rows], random_state=0)
    third_search = fit_search((X[train], y[train]), holdout=foreign_holdout)
    spent = foreign_holdout.information_spent
    third_search.score(X[holdout_rows], y[holdout_rows])
    assert foreign_holdout.information_spent == spent


class PrintingModel(LogisticRegression):
    """Prints, logs and counts whenever it predicts, and fails on large values."""

    calls = 0

    def predict(self, X):
        import logging
        import sys

        print("asked for", len(X), "records")
        print("and says so", file=sys.stderr)
        logging.getLogger("chatty").warning("asked")
        self.calls_ = getattr(self, "calls_", 0) + 1
        if (X[:, 0] > 1e6).any():
            raise ValueError("cannot predict this")
        return super().predict(X)


@pytest.mark.parametrize("n_failing", [1, 3, 10])
def test_output_of_a_model_does_not_reveal_failing_holdout_records(capfd, caplog, n_failing):
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4]

    def shown(failing):
        changed = X[400:].copy()
        changed[:failing, 0] = 1e9
        search = ReusableHoldoutSearchCV(
            PrintingModel(max_iter=5000), {"C": [1.0]}, scoring="accuracy", random_state=0
        )
        search.fit(X[:400], y[:400], X_val=changed, y_val=y[400:])
        caught = capfd.readouterr()
        logged = len(caplog.records)
        caplog.clear()
        return caught.out, caught.err, logged, search.best_estimator_.calls_

    assert shown(n_failing) == shown(0)
