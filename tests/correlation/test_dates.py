"""What is certainly a date is read; anything else is refused with the remedy."""

import datetime
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation.time_order import date_numbers, horizon_in_dates
from tests.facts import refused

pd = pytest.importorskip("pandas")
DAYS = pd.date_range("2015-01-01", periods=600)


def shops(index=None, n_shops=3):
    """Return records of shops, shop after shop, with their dates."""
    rng = np.random.default_rng(0)
    days = DAYS.append([DAYS] * (n_shops - 1))
    X = pd.DataFrame(rng.normal(size=(len(days), 2)), columns=["a", "b"])
    y = (X["a"].to_numpy() + rng.normal(size=len(days)) > 0).astype(int)
    if index is not None:
        X.index = pd.MultiIndex.from_arrays([np.repeat(range(n_shops), len(DAYS)), index(days)])
    return X, y, days


def fitted(X, y, **fit):
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation="time", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y, **fit)


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m", "%d.%m.%Y", "%Y"])
def test_text_that_is_not_certainly_a_date_is_refused(form):
    X, y, days = shops()
    with refused(ValueError, "to_datetime"):
        fitted(X, y, times=days.strftime(form))


@pytest.mark.parametrize(
    "kind",
    [
        lambda d: d,
        lambda d: d.strftime("%Y-%m-%d"),
        lambda d: list(d.date),
        lambda d: d.as_unit("s"),
        lambda d: d.tz_localize("UTC"),
        lambda d: d.to_period("D"),
        lambda d: [v.to_pydatetime().replace(tzinfo=datetime.UTC) for v in d],
        lambda d: [v.to_datetime64() for v in d],
        lambda d: [v.isoformat().encode() for v in d],
    ],
)
def test_what_is_certainly_a_date_is_the_same_date(kind):
    np.testing.assert_array_equal(date_numbers(kind(DAYS)), DAYS.to_numpy().astype("M8[ns]"))


def test_levels_of_an_index_are_dates_or_refused():
    X, y, days = shops()
    wanted = set(days[fitted(X, y, times=days).holdout_indices_])
    for index in (lambda d: d, lambda d: d.date, lambda d: d.to_period("D")):
        named, *_ = shops(index)
        assert set(days[fitted(named, y).holdout_indices_]) == wanted
    uncertain = "%Y-%m-%d", "%Y%m%d", "%Y"
    for index in (lambda d, form=form: d.strftime(form) for form in uncertain):
        with refused(ValueError, "to_datetime"):
            fitted(shops(index)[0], y)
    flat = X.set_axis(days.strftime("%Y%m%d"), axis=0)
    with refused(ValueError, "to_datetime"):
        fitted(flat, y)
    objects = fitted(X.set_axis(days.date, axis=0), y)
    assert set(days[objects.holdout_indices_]) == wanted


def test_a_missing_date_says_so():
    X, y, days = shops()
    for index in (days.where(days != days[5]), days[: len(X)].where(np.arange(len(X)) != 7)):
        with refused(ValueError, "NaT"):
            fitted(X.set_axis(index, axis=0), y)
    one = X[:600].set_axis(DAYS.where(DAYS[5] != DAYS), axis=0)
    with refused(ValueError, "NaT"):
        fitted(one, y[:600])


def test_a_horizon_is_a_number_of_dates_or_a_span_of_time():
    weekdays = pd.bdate_range("2015-01-01", periods=400)
    for span in (pd.Timedelta("7D"), np.timedelta64(7, "D"), datetime.timedelta(7)):
        assert horizon_in_dates(span, date_numbers(DAYS)) == 7
        assert horizon_in_dates(span, date_numbers(weekdays)) == 5
    assert horizon_in_dates(3, None) == 3
    X, y, days = shops()
    one, two = (fitted(X, y, times=days, horizon=h) for h in (7, pd.Timedelta("7D")))
    np.testing.assert_array_equal(one.train_indices_, two.train_indices_)
    series = fitted(X[:600].set_axis(DAYS, axis=0), y[:600], horizon=pd.Timedelta("7D"))
    assert series.holdout_indices_.min() > series.train_indices_.max() + 5
    for bad in ({"horizon": pd.Timedelta("7D")}, {"horizon": pd.Timedelta("-1D"), "times": days}):
        with refused(ValueError, "horizon"):
            fitted(X, y, **bad)


def test_gaps_of_an_index_are_told():
    X, y, days = shops()
    kept = (days < "2015-06-01") | (days > "2015-07-15")
    text = str(fitted(X[kept], y[kept], times=days[kept]).certificate_)
    assert "1 of 554 steps are longer than the usual 1 days, the longest 46 days" in text
    assert "longer than the usual" not in str(fitted(X, y, times=days).certificate_)
