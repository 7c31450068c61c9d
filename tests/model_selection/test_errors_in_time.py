"""Final reports on errors in time that vary much less than their range (G22)."""

import numpy as np
import pytest
from scipy.signal import lfilter
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovChain

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


def weather(n, rng):
    """Return yesterday's temperature and the season; errors come in calm and stormy weeks."""
    day = np.arange(n)
    season = 10.0 * np.sin(2.0 * np.pi * day / 365.0)
    today = season + lfilter([3.0], [1.0, -0.7], rng.normal(size=n))
    storm = np.exp(0.5 * lfilter([0.4], [1.0, -0.9], rng.normal(size=n)))
    angle = 2.0 * np.pi * day / 365.0
    X = np.c_[np.r_[today[0], today[:-1]], np.sin(angle), np.cos(angle)]
    return X, today + 2.0 * storm * rng.normal(size=n)


CHAIN = MarkovChain.from_autocorrelation_time(6.0)


def fit_search(n, rng, **options):
    X, y = weather(n, rng)
    options = {"cv": 3, "correlation": CHAIN, "scoring": "neg_mean_absolute_error", **options}
    search = ReusableHoldoutSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, random_state=0, **options)
    return search.fit(X, y)


def test_the_certificate_names_the_approximate_row_which_is_far_narrower():
    search = fit_search(8000, np.random.default_rng(0))
    assert "approximate interval of final_report()" in str(search.certificate_)
    low, high = search.best_interval_
    [row] = search.final_report().rows
    assert row.approximate[1] - row.approximate[0] < (high - low) / 5.0
    assert row.proven[0] <= row.approximate[0]


@pytest.mark.slow
def test_approximate_rows_of_errors_in_time_hold():
    n_missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        search = fit_search(6000, rng)
        new_X, new_y = weather(40_000, rng)
        new_score = -np.abs(search.best_estimator_.predict(new_X) - new_y).mean()
        low, high = search.final_report().rows[0].approximate
        n_missed += not low <= new_score <= high
    assert n_missed <= 3


def test_records_that_are_independent_have_no_such_note():
    search = fit_search(1200, np.random.default_rng(0), correlation=None)
    assert "approximate interval of final_report()" not in str(search.certificate_)


def test_blocks_of_a_panel_are_dates_in_any_order_of_rows():
    """Shop after shop, blocks of rows were blocks of shops: too narrow by the common shock."""
    rng = np.random.default_rng(0)
    days = 2400
    shops = 4
    shock = lfilter([1.0], [1.0, -0.5], rng.normal(size=days))[:, None]
    X = rng.normal(size=(days, shops, 2))
    y = (X[..., 0] + shock + rng.normal(size=(days, shops)) > 0).astype(int)
    day = np.repeat(np.arange(days), shops).reshape(days, shops)
    intervals = []
    for table in ((X, y, day), (X.swapaxes(0, 1), y.T, day.T)):
        rows = table[0].reshape(-1, 2)
        labels = table[1].ravel()
        times = table[2].ravel()
        search = ReusableHoldoutSearchCV(
            LogisticRegression(), {"C": [1.0]}, random_state=0, correlation="time"
        ).fit(rows, labels, times=times)
        intervals.append(search.final_report(scoring="f1").interval)
    assert intervals[0] == pytest.approx(intervals[1], abs=1e-9)
