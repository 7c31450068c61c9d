"""Messages of a selector on failed fits, on features that chance may explain, and at the end."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.exceptions import DataConversionWarning, FitFailedWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    NothingConfirmedWarning,
    UninformativeIntervalWarning,
)
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from tests.facts import refused, warned

#: These tests compare fits that each have a holdout of their own, with the same targets.
SEVERAL_HOLDOUTS = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


def make_planted(n=300, n_features=12, *, n_true=3, shift=1.2, seed=0):
    """Return data in which the first columns depend on the label and the rest are noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (y[:, None] - 0.5)
    return X, y


def make_patients(n=300, seed=0):
    """Return a frame with missing values and a column of text, and its labels."""
    X, y = make_planted(n, seed=seed)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < 0.05] = np.nan
    frame = pd.DataFrame(X).add_prefix("m")
    frame.insert(2, "site", np.where(rng.random(n) < 0.3 + 0.4 * y, "north", "south"))
    frame.loc[::17, "site"] = None
    return frame, y


def selector(estimator=None, *, random_state=0, **params):
    estimator = GaussianNB() if estimator is None else estimator
    return HoldoutFeatureSelector(estimator, cv=2, random_state=random_state, **params)


def columns_by_type():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_pipeline(
        make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        ),
        LogisticRegression(),
    )


def test_if_every_fit_fails_the_error_states_the_cause_before_any_query():
    frame, y = make_patients()
    holdout = ReusableHoldout(frame[["site"]][200:], y[200:], random_state=0)
    with refused(ValueError, "ValueError") as error:
        selector(columns_that_lack(), holdout=holdout).fit(frame[["site"]][:200], y[:200])
    (line,) = str(error.value).splitlines()
    assert "ValueError: Some column names" in line
    assert len(holdout.history()) == 0


def columns_that_lack():
    return make_pipeline(ColumnTransformer([("t", "passthrough", ["m0"])]), GaussianNB())


def test_if_some_fits_fail_the_warning_begins_with_the_cause_and_the_report_counts_them():
    frame, y = make_patients()
    named = [("number", SimpleImputer(), ["m0"]), ("text", OneHotEncoder(), ["site"])]
    failing_pipeline = make_pipeline(ColumnTransformer(named), LogisticRegression())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = selector(failing_pipeline).fit(frame, y)
    (message,) = [
        str(warning.message) for warning in caught if warning.category is FitFailedWarning
    ]
    first_line, second_line, *_ = message.splitlines()
    assert first_line.startswith("ValueError")
    assert "column" in first_line
    path = fitted.score_path_
    failed = np.isnan(path["cv_score"]).sum()
    assert failed > 0
    counted_text = f"{failed} of {len(path['selected'])} subsets could not be fitted"
    assert counted_text in second_line
    assert f"{failed} of {len(path['selected'])} subsets could not be fitted" in str(
        fitted.report()
    )


def test_missing_values_and_text_are_not_changed():
    frame, y = make_patients()
    pipeline = make_pipeline(selector(columns_by_type()), columns_by_type()).fit(frame, y)
    X_new, y_new = make_patients(seed=1)
    assert pipeline.score(X_new, y_new) > 0.7
    fitted_selector = pipeline[0]
    selected_columns = fitted_selector.transform(X_new)
    pd.testing.assert_frame_equal(selected_columns, X_new.loc[:, fitted_selector.support_])
    with refused(ValueError, "m0"):
        fitted_selector.transform(X_new.rename(columns={"m0": "other"}))
    with refused(ValueError, "m11"):
        fitted_selector.transform(X_new.drop(columns="m11"))


@SEVERAL_HOLDOUTS
def test_missing_values_in_arrays_and_numeric_frames_are_not_changed():
    frame, y = make_patients()
    numeric_frame = frame.drop(columns="site")
    model = make_pipeline(SimpleImputer(), GaussianNB())
    for X in (numeric_frame, numeric_frame.to_numpy()):
        pipeline = make_pipeline(selector(model), model).fit(X, y)
        selected_columns = pipeline[0].transform(X)
        assert isinstance(selected_columns, np.ndarray)
        np.testing.assert_array_equal(
            selected_columns, numeric_frame.to_numpy()[:, pipeline[0].support_]
        )
    with refused(ValueError, "NaN"):
        selector().fit(numeric_frame.to_numpy(), y)
    frame_selector = selector(model).fit(numeric_frame, y).set_output(transform="pandas")
    pd.testing.assert_frame_equal(
        frame_selector.transform(numeric_frame), numeric_frame.loc[:, frame_selector.support_]
    )


def test_a_column_that_no_estimator_accepts_need_not_be_selected():
    X, y = make_planted()
    text = np.where(np.random.default_rng(0).random(len(y)) < 0.5, "north", "south")
    frame = pd.DataFrame(X).add_prefix("m").assign(site=text)
    with warned(FitFailedWarning, "'north'"):
        holdout_selector = selector().fit(frame, y)
    assert "site" not in holdout_selector.transform(frame).columns


def test_missing_values_are_rejected_alike_in_any_column():
    """Whether the column matters or not, and whether it is in a frame or an array."""
    X, y = make_planted()
    for column in (0, 11):
        X_missing = X.copy()
        X_missing[5, column] = np.nan
        for table in (X_missing, pd.DataFrame(X_missing).add_prefix("m")):
            with refused(ValueError, "NaN"):
                selector().fit(table, y)


@pytest.mark.parametrize("selector_class", [HoldoutFeatureSelector, HoldoutCorrelationFilter])
def test_columns_with_infinite_values_are_named_before_any_fit(selector_class):
    """One in one training row made 21 of 23 subsets fail."""

    class Unfitted(GaussianNB):
        def fit(self, X, y):
            raise AssertionError

    X, y = make_planted()
    X[3, 4] = np.inf
    unfitted_selector = (
        selector_class(Unfitted()) if selector_class is HoldoutFeatureSelector else selector_class()
    )
    for table, name in ((X, "4"), (pd.DataFrame(X).add_prefix("m").assign(t="a"), "m4")):
        with refused(ValueError, "infinity") as error:
            unfitted_selector.fit(table, y)
        assert name in str(error.value)


@pytest.mark.parametrize("holdout_selector", [GaussianNB, None], ids=str)
def test_columns_with_levels_are_rejected_with_a_remedy(holdout_selector):
    X, y = make_planted()
    frame = pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a", "b"], range(6)]))
    unfitted = selector() if holdout_selector else HoldoutCorrelationFilter()
    with refused(ValueError, "MultiIndex"):
        unfitted.fit(frame, y)


def test_a_column_of_text_is_named():
    X, y = make_planted()
    frame = pd.DataFrame(X).add_prefix("m").assign(site="north")
    with refused(ValueError, "site"):
        HoldoutCorrelationFilter().fit(frame, y)
    with warned(FitFailedWarning, "site"):
        selector().fit(frame.assign(site=np.where(X[:, 5] > 0, "n", "s")), y)


def test_columns_that_share_a_name_are_named():
    X, y = make_planted()
    frame = pd.DataFrame(X, columns=[*"abcdefghij", "b", "a"])
    for holdout_selector in (selector(), HoldoutCorrelationFilter(random_state=0)):
        with refused(ValueError, "['a', 'b']"):
            holdout_selector.fit(frame, y)


@pytest.mark.parametrize("fitted_before", [False, True])
def test_after_a_failed_fit_the_selector_is_not_fitted(fitted_before):
    X, y = make_planted()
    holdout_selector = selector()
    if fitted_before:
        holdout_selector.fit(X, y)
    with refused(ValueError, "NaN"):
        holdout_selector.fit(np.where(X > 3, np.nan, X), y)
    for ask in (
        holdout_selector.get_feature_names_out,
        holdout_selector.get_support,
        holdout_selector.report,
    ):
        with pytest.raises(NotFittedError):
            ask()


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.NothingConfirmedWarning")
def test_polars_frames_with_text_are_not_changed():
    polars = pytest.importorskip("polars")
    frame, y = make_patients()
    sites = [None if pd.isna(site) else site for site in frame["site"]]
    table = polars.DataFrame(
        {"m0": frame["m0"].to_numpy(), "m1": frame["m1"].to_numpy(), "site": sites}
    )
    model = make_pipeline(
        make_column_transformer(
            (SimpleImputer(), ["m0"]), (OneHotEncoder(handle_unknown="ignore"), ["site"])
        ),
        LogisticRegression(),
    )
    fitted_selector = selector(model, fixed_features=["m0", "site"]).fit(table, y)
    selected_columns = fitted_selector.transform(table)
    assert selected_columns.equals(table[:, np.flatnonzero(fitted_selector.support_).tolist()])


def test_a_column_of_labels_is_reported_once():
    X, y = make_planted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        selector().fit(X, pd.DataFrame({"label": y}))
    assert len([w for w in caught if w.category is DataConversionWarning]) == 1


def test_the_filter_does_not_change_missing_values():
    frame, y = make_patients()
    numbers = frame.drop(columns="site")
    screen = HoldoutCorrelationFilter(random_state=0, on_empty="keep_best").fit(numbers, y)
    assert np.isnan(screen.transform(numbers)).any()


@pytest.mark.parametrize("n_true", [0, 3])
def test_a_requested_number_of_features_is_kept_and_tested(n_true):
    X, y = make_planted(n_true=n_true, shift=1.6, seed=2)
    n_wanted = 4
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted = selector(n_features_to_select=n_wanted).fit(X, y)
    assert fitted.support_.sum() == n_wanted
    assert fitted.confirmed_ == (n_true > 0)
    phrase = "kept because n_features_to_select asks for them"
    assert (phrase in str(fitted.report())) == (n_true == 0)
    assert fitted.transform(X).shape[1] == n_wanted


def test_tests_of_requested_features_need_no_query():
    X, y = make_planted(n_true=0, seed=2)
    fitted = selector(n_features_to_select=4).fit(X, y)
    assert not fitted.confirmed_
    assert len(fitted.holdout_.history()) <= 2 + 1  # the constant, the subset, once more finely


@pytest.mark.parametrize("n_seeds", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_requested_noise_features_are_rarely_confirmed(n_seeds):
    """A hundred seeds miss a rate of 15% in one case of three, fifteen one of 30% in two."""
    n_confirmed = 0
    for seed in range(n_seeds):
        X, y = make_planted(200, 30, n_true=0, seed=seed)
        model = selector(n_features_to_select=5, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            n_confirmed += model.fit(X, y).confirmed_
    assert n_confirmed <= stats.binom(n_seeds, 0.05).ppf(0.999)


def test_unconfirmed_features_are_not_called_useless():
    X, y = make_planted(n_true=0, seed=2)
    with warned(NothingConfirmedWarning):
        fitted = selector().fit(X, y)
    text = str(fitted.report()) + str(fitted.certificate_)
    assert "This does not prove that features are useless" in text
    assert "othing helps" not in text


def few_groups(caught):
    return [w for w in caught if "groups (patients" in str(w.message)]


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_few_groups_are_reported_before_any_fit(scoring):
    X, y = make_planted(200)

    class Stop(GaussianNB):
        def fit(self, X, y):
            raise KeyboardInterrupt

    groups = np.arange(200) // 4
    unfitted_selector = selector(Stop(), correlation="groups", scoring=scoring)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            unfitted_selector.fit(X, y, groups=groups)
    (warning,) = few_groups(caught)
    assert warning.category is UninformativeIntervalWarning
    assert warning.filename == __file__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator_name", ["selector", "search"])
def test_recorded_answers_of_a_closed_holdout_of_few_groups_are_free(estimator_name, tmp_path):
    X, y = make_planted(400)
    groups = np.arange(400) // 4

    def fit():
        config = HoldoutConfig(ledger=tmp_path / "ledger.sqlite")
        options = {"correlation": "groups", "holdout": config, "random_state": 0}
        if estimator_name == "selector":
            return selector(**options).fit(X, y, groups=groups)
        grid = {"var_smoothing": [1e-9, 1e-3]}
        return ReusableHoldoutSearchCV(GaussianNB(), grid, **options).fit(X, y, groups=groups)

    fitted = fit()
    fitted.final_report()
    repeated = fit()
    assert len(repeated.holdout_.history()) == len(fitted.holdout_.history())


def test_the_final_report_is_on_the_verified_model():
    X, y = make_planted(1200)
    frame = pd.DataFrame(X).add_prefix("m")
    turned = frame[frame.columns[::-1]].assign(extra=0.0)  # columns are found by name
    holdout = ReusableHoldout(turned[800:], y[800:], random_state=0)
    fitted = selector(holdout=holdout, random_state=None)
    fitted.fit(frame[:800], y[:800])
    fitted = pickle.loads(pickle.dumps(fitted))
    with refused(TypeError, "selector.final_report()"):
        holdout.final_report(fitted)
    with refused(TypeError, "selector.final_report()"):
        holdout.final_report(fitted, scoring="accuracy")
    report = fitted.final_report()
    raw = fitted.estimator_.score(frame.loc[800:, fitted.support_], y[800:])
    assert report.value == pytest.approx(raw, abs=0.05)
    assert fitted.interval_[0] <= report.lower < report.value < report.upper
    assert report.upper <= fitted.interval_[1]
    assert f"GaussianNB of {fitted.n_features_to_select_} features" in str(report)
    assert fitted.final_report() == report
    with pytest.raises(HoldoutClosedError):
        fitted.final_report(scoring="f1")


@pytest.mark.parametrize("has_names", [True, False])
def test_the_panel_the_covariate_and_their_difference_are_one_report(has_names):
    X, y = make_planted(1200, n_features=20, shift=1.0)
    X = pd.DataFrame(X).add_prefix("m") if has_names else X
    covariate = ["m0"] if has_names else [0]
    fitted = selector(fixed_features=covariate, scoring="roc_auc").fit(X, y)
    assert fitted.confirmed_
    fitted = pickle.loads(pickle.dumps(fitted))
    report = fitted.final_report(compare="fixed")
    panel = f"GaussianNB of {fitted.n_features_to_select_} features"
    assert [row.model for row in report.rows] == [panel, "fixed", f"{panel} minus fixed"]
    holdout_rows = fitted.holdout_indices_
    X_holdout = X.iloc[holdout_rows] if has_names else X[holdout_rows]
    y_holdout = y[holdout_rows]
    panel_auc = roc_auc_score(
        y_holdout, fitted.estimator_.predict_proba(fitted.transform(X_holdout))[:, 1]
    )
    difference = report.rows[2]
    assert report.rows[0].value == pytest.approx(panel_auc, abs=1e-9)
    assert difference.value == pytest.approx(panel_auc - report.rows[1].value, abs=1e-9)
    assert difference.lower > 0.0


def test_comparison_without_fixed_features_is_rejected():
    fitted = selector().fit(*make_planted())
    with refused(ValueError, "fixed_features"):
        fitted.final_report(compare="fixed")
    assert len(fitted.final_report().rows) == 1
