"""Unambiguous dates are read; any other value raises an error with the remedy."""

import datetime
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import TimeOrdered
from sklearn_bdp.correlation.dates import as_time_span, date_numbers, horizon_in_dates, index_dates
from sklearn_bdp.exceptions import DependenceWarning
from tests.facts import refused, units_of, warned

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


def fit_search(X, y, **fit_parameters):
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1.0]}, correlation="time", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, y, **fit_parameters)


@pytest.mark.parametrize("date_format", ["%Y%m%d", "%Y%m", "%d.%m.%Y", "%Y"])
def test_ambiguous_date_text_is_rejected(date_format):
    X, y, days = shops()
    with refused(ValueError, "to_datetime"):
        fit_search(X, y, times=days.strftime(date_format))


@pytest.mark.parametrize(
    "convert",
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
def test_unambiguous_dates_of_any_type_are_equal(convert):
    np.testing.assert_array_equal(date_numbers(convert(DAYS)), DAYS.to_numpy().astype("M8[ns]"))


def test_levels_of_an_index_are_dates_or_rejected():
    X, y, days = shops()
    expected_dates = set(days[fit_search(X, y, times=days).holdout_indices_])
    iso = "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"
    text = (lambda d, date_format=date_format: d.strftime(date_format) for date_format in iso)
    for index in (lambda d: d, lambda d: d.date, lambda d: d.to_period("D"), *text):
        X_with_index, *_ = shops(index)
        assert set(days[fit_search(X_with_index, y).holdout_indices_]) == expected_dates
    uncertain = "%d/%m/%Y", "%Y%m%d", "%Y"
    for index in (
        lambda d, date_format=date_format: d.strftime(date_format) for date_format in uncertain
    ):
        with refused(ValueError, "to_datetime"):
            fit_search(shops(index)[0], y)
    flat = X.set_axis(days.strftime("%Y%m%d"), axis=0)
    with refused(ValueError, "to_datetime"):
        fit_search(flat, y)
    search_by_objects = fit_search(X.set_axis(days.date, axis=0), y)
    assert set(days[search_by_objects.holdout_indices_]) == expected_dates


def test_a_missing_date_is_named():
    X, y, days = shops()
    for index in (days.where(days != days[5]), days[: len(X)].where(np.arange(len(X)) != 7)):
        with refused(ValueError, "NaT"):
            fit_search(X.set_axis(index, axis=0), y)
    one_shop = X[:600].set_axis(DAYS.where(DAYS[5] != DAYS), axis=0)
    with refused(ValueError, "NaT"):
        fit_search(one_shop, y[:600])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_date_among_text_is_named(missing):
    X, y, _ = shops()
    texts = [str(day.date()) for day in DAYS]
    with refused(ValueError, "NaT"):
        fit_search(X[:600], y[:600], times=[missing, *texts[1:]])


@pytest.mark.parametrize(
    "span", [pd.Timedelta("7D"), np.timedelta64(7, "D"), datetime.timedelta(7)]
)
def test_a_span_of_time_is_the_most_dates_in_it(span):
    weekdays = pd.bdate_range("2015-01-01", periods=400)
    assert horizon_in_dates(span, date_numbers(DAYS)) == 7
    assert horizon_in_dates(span, date_numbers(weekdays)) == 5


def test_a_horizon_is_a_number_of_dates_or_a_span_of_time():
    X, y, days = shops()
    search_by_count, search_by_span = (
        fit_search(X, y, times=days, horizon=horizon) for horizon in (7, pd.Timedelta("7D"))
    )
    np.testing.assert_array_equal(search_by_count.train_indices_, search_by_span.train_indices_)
    series = fit_search(X[:600].set_axis(DAYS, axis=0), y[:600], horizon=pd.Timedelta("7D"))
    assert series.holdout_indices_.min() > series.train_indices_.max() + 5


@pytest.mark.parametrize("fit_parameters", [{"horizon": pd.Timedelta("7D")}, {"horizon": -1}])
def test_a_span_without_dates_and_a_negative_horizon_are_rejected(fit_parameters):
    X, y, _ = shops()
    with refused(ValueError, "horizon"):
        fit_search(X, y, **fit_parameters)


def test_gaps_of_an_index_are_reported():
    X, y, days = shops()
    is_kept = (days < "2015-06-01") | (days > "2015-07-15")
    text = str(fit_search(X[is_kept], y[is_kept], times=days[is_kept]).certificate_)
    assert "1 of 554 steps are longer than the usual 1 days, the longest 46 days" in text
    assert "longer than the usual" not in str(fit_search(X, y, times=days).certificate_)


def test_the_order_of_zoned_stamps_is_that_of_instants():
    autumn = pd.date_range("2025-10-20", periods=600, freq="h", tz="Europe/Berlin")
    spring = pd.date_range("2025-03-20", periods=600, freq="h", tz="Europe/Berlin")
    X, y, _ = shops(n_shops=1)
    for zoned in (autumn, spring):
        split = fit_search(X.set_axis(zoned, axis=0), y)
        assert len(split.train_indices_) == 450
        np.testing.assert_array_equal(split.holdout_indices_, np.arange(450, 600))
        iso = [stamp.isoformat() for stamp in zoned]  # another offset from UTC in each half
        np.testing.assert_array_equal(date_numbers(iso), date_numbers(zoned))


def test_a_stamp_that_comes_twice_is_one_date_and_clocks_set_back_are_rejected():
    X, y, _ = shops(n_shops=1)
    hours = pd.date_range("2025-10-20", periods=600, freq="h", tz="Europe/Berlin")
    hours = hours.tz_localize(None)  # 02:00 comes twice, and counts as one date
    assert units_of(fit_search(X.set_axis(hours, axis=0), y).holdout_) == (150, "dates")
    halves = pd.date_range("2025-10-20", periods=600, freq="30min", tz="Europe/Berlin")
    with refused(ValueError, "ambiguous='infer'"):
        fit_search(X.set_axis(halves.tz_localize(None), axis=0), y)


@pytest.mark.parametrize(
    "dates",
    [
        ["2020-01-01", "9999-12-31", "2022-01-01"],
        ["2020-01-01T00:00:00+01:00", "9999-12-31T23:59:00-05:00"],
        [datetime.date(2020, 1, 1), datetime.date(9999, 12, 31)],
        [np.datetime64("2020-01-01", "ns"), np.datetime64("9999-12-31")],
        np.array(["2020-01-01", "9999-12-31"], dtype="M8[D]"),
        pd.Series(np.array(["2020-01-01", "9999-12-31"], dtype="M8[s]")),
        pd.DatetimeIndex(np.array(["2020-01-01", "9999-12-31"], dtype="M8[s]"), tz="UTC"),
    ],
)
def test_dates_that_nanoseconds_cannot_hold_are_rejected(dates):
    """They wrapped around, so that the sentinel of an open end came first."""
    with refused(ValueError, "times", "9999", "position 1", "drop", "numbers"):
        TimeOrdered(dates)
    seconds = np.asarray(["2020-01-01", "9999-12-31", "2022-01-01"], dtype="M8[s]")
    assert TimeOrdered(seconds.astype("int64")).split(3, 0.25).holdout.tolist() == [1]
    extremes = [pd.Timestamp.max, pd.Timestamp("1677-09-22")]
    np.testing.assert_array_equal(date_numbers(extremes), np.array(extremes, dtype="M8[ns]"))


def test_an_index_that_nanoseconds_cannot_hold_is_rejected_in_time_order_only():
    X, y, _ = shops(n_shops=1)
    dates = DAYS.to_numpy().astype("M8[s]")
    dates[-1] = np.datetime64("9999-12-31")
    X.index = pd.DatetimeIndex(dates)
    with refused(ValueError, "X.index", "9999-12-31", "position 599"):
        fit_search(X, y)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, random_state=0)
    assert search.fit(X, y).best_params_ == {"C": 1.0}


@pytest.mark.parametrize("span", ["200000D", np.timedelta64(-1_000_000, "D"), "999999999999D"])
def test_spans_that_nanoseconds_cannot_hold_are_rejected(span):
    with refused(ValueError, "horizon"):
        TimeOrdered(DAYS, horizon=span)


def test_a_span_that_starts_before_all_dates_of_nanoseconds_has_all_earlier_dates():
    """The start wrapped around to a late date, and the horizon was 1."""
    early_dates = np.datetime64("1700-01-01") + np.arange(50)
    assert TimeOrdered(early_dates, horizon="20000D").horizon == 49


def test_irregular_dates_are_cut_in_their_order():
    X, y, _ = shops(n_shops=1)
    irregular = DAYS[np.sort(np.random.default_rng(0).permutation(600)[:300])]
    split = fit_search(X[:300].set_axis(irregular, axis=0), y[:300])
    assert irregular[split.train_indices_].max() < irregular[split.holdout_indices_].min()


def test_a_level_of_dates_is_read_without_a_declaration_too():
    X, y, _ = shops(lambda d: d)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]}, random_state=0)
    with warned(DependenceWarning, "correlation='time'"):
        search.fit(X, y)


@pytest.mark.parametrize(
    "span", ["7D", "1W", pd.Timedelta("7D"), pd.offsets.Day(7), pd.DateOffset(days=7)]
)
def test_spans_of_time_are_read_in_every_form(span):
    assert horizon_in_dates(span, date_numbers(DAYS)) == 7
    assert TimeOrdered(DAYS, horizon=span).horizon == 7


def test_spans_of_months_follow_the_calendar():
    monthly = pd.date_range("2015-01-01", periods=60, freq="MS")
    assert horizon_in_dates(pd.DateOffset(months=3), date_numbers(monthly)) == 3


@pytest.mark.parametrize("span", ["7D", pd.offsets.Day(7), pd.DateOffset(days=7)])
def test_recipes_are_refitted_at_spans_in_every_form(span):
    X, y, _ = shops(n_shops=1)
    search = fit_search(X.set_axis(DAYS, axis=0), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = search.final_report(refit_every=span)
    assert report.rows[0].proven is not None


def test_forecasts_with_dates_are_aligned_by_date():
    X, y, _ = shops(n_shops=1)
    dated = X.set_axis(DAYS, axis=0)
    reports = []
    forecasts = pd.Series(np.random.default_rng(1).integers(0, 2, 600), DAYS)
    for order in (slice(450, None), slice(None), slice(None, None, -1)):
        holdout = fit_search(dated, y).holdout_
        report = holdout.final_report({"forecast": forecasts[order]}, scoring="accuracy")
        reports.append(report.value)
    assert reports == [pytest.approx(np.mean(forecasts[450:].to_numpy() == y[450:]))] * 3
    holdout = fit_search(dated, y).holdout_
    answer = holdout.answer_predictions(forecasts.sample(frac=1.0, random_state=0))
    by_position = fit_search(dated, y).holdout_.answer_predictions(forecasts[450:].to_numpy())
    assert (answer.value, answer.lower) == (by_position.value, by_position.lower)
    with refused(ValueError, "y_pred", 150):
        holdout.answer_predictions(forecasts[:150])


def test_an_offset_that_does_not_move_on_is_rejected():
    """Such as the 20th of the month, which would never leave the first date."""
    with refused(ValueError, "horizon"):
        as_time_span(pd.DateOffset(day=20), "horizon")
    assert as_time_span(pd.DateOffset(months=1), "horizon") is not None


def test_an_index_with_missing_numbers_that_descends_is_rejected():
    index = pd.Index(pd.array([1, None, 0], dtype="Int64"))
    with refused(ValueError, "ascend"):
        index_dates(pd.DataFrame({"x": [0, 1, 2]}, index=index))
