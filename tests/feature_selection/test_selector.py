"""The selector: its selection, its reports, and the values that it never shows."""

import dataclasses
import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import PredefinedSplit, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.feature_selection import naive_steps
from sklearn_bdp import HoldoutConfig, ReusableHoldout
from sklearn_bdp.exceptions import BudgetExhaustedError, UnboundedMetricError, UnknownFeaturesError
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from sklearn_bdp.holdout import ExpertSettings
from tests.facts import refused

#: These tests compare fits that each have a holdout of their own, with the same targets.
SEVERAL_HOLDOUTS = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


def make_planted(n=1200, n_features=8, *, n_true=3, shift=0.6, seed=0):
    """Return data in which the first columns depend on the label and the rest are noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (2 * y - 1)[:, None]
    return X, y


@pytest.fixture(scope="module")
def data():
    return make_planted()


def selector(**params):
    return HoldoutFeatureSelector(GaussianNB(), tol=0.01, cv=2, random_state=0, **params)


def test_the_score_is_that_of_the_stored_model(data):
    fitted = selector().fit(*data)
    training_subset = (
        data[0][fitted.train_indices_][:, fitted.support_],
        data[1][fitted.train_indices_],
    )
    expected = GaussianNB().fit(*training_subset)
    np.testing.assert_allclose(fitted.estimator_.theta_, expected.theta_)
    path = fitted.score_path_
    assert [fitted.score_] == path["holdout_score"][path["selected"]].tolist()
    assert fitted.interval_[0] <= fitted.score_ <= fitted.interval_[1]


@pytest.mark.parametrize(("n_features_to_select", "count"), [(2, 2), (0.5, 4), (7, 7), (8, 8)])
def test_a_number_of_features_is_kept_to(data, n_features_to_select, count):
    assert selector(n_features_to_select=n_features_to_select).fit(*data).support_.sum() == count


@pytest.mark.parametrize(("n_features_to_select", "count"), [(3, 4), (1.0, 8), (0.01, 1)])
def test_targets_count_fixed_features_and_groups(data, n_features_to_select, count):
    """Three of: a group of two columns, five others, and a fixed one, which is always there."""
    constraints = {"fixed_features": [0], "feature_groups": [[1, 2]]}
    fitted = selector(n_features_to_select=n_features_to_select, **constraints).fit(*data)
    assert fitted.support_[0]
    assert fitted.support_[1] == fitted.support_[2]
    assert fitted.support_.sum() == count


def test_fixed_features_and_groups_by_name(data):
    frame = pd.DataFrame(data[0], columns=list("abcdefgh"))
    fitted = selector(fixed_features=["h"], feature_groups=[["a", "b", "g"]]).fit(frame, data[1])
    assert list(fitted.get_feature_names_out()) == ["a", "b", "c", "g", "h"]
    fitted.set_output(transform="pandas")
    assert list(fitted.transform(frame).columns) == ["a", "b", "c", "g", "h"]


def test_repeated_selection_is_free_and_gives_the_same_support(data, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first_selector = selector(holdout=HoldoutConfig(ledger=ledger)).fit(*data)
    n_answers = len(first_selector.holdout_.history())
    spent = first_selector.holdout_.information_spent
    second_selector = selector(holdout=HoldoutConfig(ledger=ledger)).fit(*data)
    assert len(second_selector.holdout_.history()) == n_answers
    assert second_selector.holdout_.information_spent == spent
    np.testing.assert_array_equal(second_selector.support_, first_selector.support_)


def test_models_with_random_fits_have_keys_by_fitted_state(data):
    tree = DecisionTreeClassifier(max_depth=2)  # no seed
    options = {"cv": 2, "random_state": 0}
    fitted = HoldoutFeatureSelector(tree, n_features_to_select=1, **options).fit(*data)
    assert all(record.key for record in fitted.holdout_.history()[:9])
    X_subset = data[0][fitted.train_indices_][:, fitted.support_]
    assert fitted.estimator_.predict(X_subset).shape == (900,)


@SEVERAL_HOLDOUTS
def test_cloned_pickled_and_in_a_pipeline(data):
    pipeline = make_pipeline(StandardScaler(), selector(), LogisticRegression())
    assert clone(pipeline).fit(*data).score(*data) > 0.8
    fitted = selector().fit(*data)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.transform(data[0]), fitted.transform(data[0]))
    assert loaded.holdout_ is fitted.holdout_


def test_filter_and_selector_share_one_holdout_in_a_pipeline():
    X, y = make_planted(1600, 60)
    frame = pd.DataFrame(X).add_prefix("f")
    holdout = ReusableHoldout(frame[1200:], y[1200:], random_state=0)
    pipeline = make_pipeline(
        HoldoutCorrelationFilter(holdout=holdout), selector(holdout=holdout), GaussianNB()
    ).set_output(transform="pandas")
    pipeline.fit(frame[:1200], y[:1200])
    assert list(pipeline[:-1].get_feature_names_out()) == ["f0", "f1", "f2"]
    assert pipeline[1].holdout_ is holdout
    assert len(holdout.history()) >= 3 + 2  # three attributes, a subset and a constant


def test_columns_without_names_are_not_guessed(data):
    holdout = ReusableHoldout(*make_planted(300, seed=1), random_state=0)
    with refused(UnknownFeaturesError, "DataFrames"):
        selector(holdout=holdout).fit(data[0][:, :5], data[1])
    assert len(holdout.history()) == 0


def test_explicit_validation_set_and_splitter(data):
    X, y = data
    fitted = selector().fit(X[:900], y[:900], X_val=X[900:], y_val=y[900:])
    assert fitted.holdout_.n == 300
    assert fitted.train_indices_ is None
    fitted = selector(holdout=ShuffleSplit(1, test_size=200, random_state=0)).fit(X, y)
    assert fitted.holdout_indices_.size == 200


def test_regression_is_verified_by_r2():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 6))
    y = 2 * X[:, 0] + X[:, 1] + rng.standard_normal(1000)
    holdout_selector = HoldoutFeatureSelector(LinearRegression(), tol=0.01, cv=3, random_state=0)
    fitted = holdout_selector.fit(X, y)
    assert fitted.get_support(indices=True).tolist() == [0, 1]
    assert fitted.interval_[0] < 0.83 < fitted.interval_[1]  # 5 / 6 in truth


def test_fit_parameters_reach_every_fit(data):
    weight = np.linspace(0.5, 1.5, 1200)
    fitted = selector(n_features_to_select=1).fit(*data, sample_weight=weight)
    train = fitted.train_indices_
    expected = GaussianNB().fit(
        data[0][train][:, fitted.support_], data[1][train], sample_weight=weight[train]
    )
    np.testing.assert_allclose(fitted.estimator_.theta_, expected.theta_)


@SEVERAL_HOLDOUTS
def test_metadata_is_routed(data):
    weight = np.linspace(0.5, 1.5, 1200)
    with sklearn.config_context(enable_metadata_routing=True):
        routing_selector = HoldoutFeatureSelector(
            GaussianNB().set_fit_request(sample_weight=True),
            cv=3,
            random_state=0,
            n_features_to_select=1,
        )
        routed = make_pipeline(routing_selector).fit(*data, sample_weight=weight)[0]
        with refused(TypeError, "unknown"):
            clone(routing_selector).fit(*data, unknown=weight)
    unrouted = selector(n_features_to_select=1).fit(*data, sample_weight=weight)
    np.testing.assert_array_equal(routed.estimator_.theta_, unrouted.estimator_.theta_)


BAD_PARAMETERS = {
    "shared columns": {"feature_groups": [[0, 1], [1, 2]]},
    "empty group": {"feature_groups": [[]]},
    "column twice": {"feature_groups": [[0, 0]]},
    "no such column": {"fixed_features": [8]},
    "negative column": {"fixed_features": [-1]},
    "columns as text": {"fixed_features": "a"},
    "column as bool": {"fixed_features": [True]},
    "columns as number": {"fixed_features": 3},
    "0 features": {"n_features_to_select": 0},
    "1.5 features": {"n_features_to_select": 1.5},
    "0.0 features": {"n_features_to_select": 0.0},
    "-1 features": {"n_features_to_select": -1},
    "'all' features": {"n_features_to_select": "all"},
    "nan features": {"n_features_to_select": float("nan")},
    "None features": {"n_features_to_select": None},
    "tol word": {"tol": "typo"},
    "tol negative": {"tol": -0.1},
    "tol NaN": {"tol": float("nan")},
    "number of features": {"n_features_to_select": 9},
    "verify": {"verify": 0},
    "holdout fraction": {"holdout": 1.0},
    "unknown metric": {"scoring": "f2"},
    "unknown column": {"fixed_features": ["a"]},
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_input_is_rejected_before_anything_is_spent(data, case, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    (fact,) = BAD_PARAMETERS[case]
    with refused((ValueError, TypeError), fact):
        configured = selector(holdout=HoldoutConfig(ledger=ledger))
        configured.set_params(**BAD_PARAMETERS[case]).fit(*data)
    assert not ledger.exists()


def test_a_reused_holdout_and_a_validation_set_are_rejected(data):
    holdout = ReusableHoldout(*make_planted(300, seed=1), random_state=0)
    with refused(ValueError, "X_val"):
        selector(holdout=holdout).fit(*data, X_val=data[0], y_val=data[1])
    assert len(holdout.history()) == 0


def test_the_selector_has_few_parameters_of_its_own():
    parameters = inspect.signature(HoldoutFeatureSelector).parameters
    assert len(parameters) <= 15
    assert not set(parameters) & {field.name for field in dataclasses.fields(HoldoutConfig)}


def test_metrics_that_are_not_means_need_independent_records(data):
    chain = [[0.9, 0.1], [0.2, 0.8]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with refused(UnboundedMetricError, "scoring"):
            selector(scoring="roc_auc", correlation=chain).fit(*data)


@pytest.mark.parametrize("holdout", [0.25, None])
def test_a_metric_that_is_always_undefined_is_rejected(data, holdout):
    with refused(ValueError, "scoring", "NaN"):
        selector(scoring=lambda estimator, X, y: np.nan, holdout=holdout).fit(*data)


def test_an_exhausted_budget_ends_the_selection(data):
    tight = {"budget": 1, "expert": ExpertSettings(threshold=0.0001), "epsilon": 1000.0}
    with pytest.raises(BudgetExhaustedError):
        selector(holdout=HoldoutConfig(**tight)).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mode in ("nan", "cv"):
            fitted = selector(holdout=HoldoutConfig(**tight, on_exhausted=mode)).fit(*data)
            assert (fitted.score_path_["answered_from"] == "holdout").sum() <= 1
            assert "unanswered" in fitted.score_path_["answered_from"]
            assert not fitted.confirmed_  # the constant was not verified
            again = selector(holdout=fitted.holdout_, n_features_to_select=2)
            train = fitted.train_indices_
            again.fit(data[0][train], data[1][train])
            assert set(again.score_path_["answered_from"]) == {"unanswered"}
            assert not again.confirmed_
            assert "Verified:" not in str(again.report())
            assert "not verified" in str(again.certificate_)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator", [GaussianNB(), pytest.param(LinearRegression(), marks=pytest.mark.slow)], ids=str
)
def test_check_estimator_passes(estimator):
    # Its data are a few dozen records: nothing helps there, and some checks must transform.
    holdout_selector = HoldoutFeatureSelector(estimator, cv=2, random_state=0, on_empty="keep_best")
    log = check_estimator(holdout_selector, on_fail=None)
    assert [entry["check_name"] for entry in log if entry["status"] == "failed"] == []


def test_the_naive_analyst_of_the_benchmark_is_sequential_selection():
    X, y = make_planted(600, 15, shift=0.4)
    columns, score = naive_steps(X[:400], y[:400], X[400:], y[400:])
    split = PredefinedSplit(np.repeat([-1, 0], [400, 200]))
    sequential_selector = SequentialFeatureSelector(GaussianNB(), tol=1e-9, cv=split).fit(X, y)
    assert columns.tolist() == sequential_selector.get_support(indices=True).tolist()
    model = GaussianNB().fit(X[:400][:, columns], y[:400])
    assert score == pytest.approx(model.score(X[400:][:, columns], y[400:]))


class UnsharedPipeline(Pipeline):
    """A pipeline whose fitted steps are not shared: its class is not scikit-learn's."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "params",
    [
        {"verify": "all", "n_features_to_select": "stable", "fixed_features": [7]},
        {"verify": 3, "feature_groups": [[0, 1], [2, 3]], "n_jobs": 2},
    ],
    ids=["stable", "n_jobs"],
)
def test_shared_pipeline_steps_do_not_change_scores(params, tmp_path):
    rng = np.random.default_rng(0)
    y, y_val = rng.integers(0, 2, (2, 400))
    X, X_val = rng.standard_normal((2, 400, 8))
    X[:, :4] += 0.7 * y[:, None]
    X_val[:, :4] -= y_val[:, None]  # differs from the training set: scores are corrected
    tables = []
    for pipeline_class in (Pipeline, UnsharedPipeline):
        selector = HoldoutFeatureSelector(
            pipeline_class([("scale", StandardScaler()), ("model", GaussianNB())]),
            holdout=HoldoutConfig(ledger=tmp_path / pipeline_class.__name__),
            cv=3,
            random_state=0,
            **params,
        )
        tables.append(selector.fit(X, y, X_val=X_val, y_val=y_val).score_path_)
    shared, unshared = tables
    assert "holdout" in shared["answered_from"]
    for name in ("cv_score", "holdout_score", "holdout_lower", "holdout_upper"):
        np.testing.assert_array_equal(shared[name], unshared[name])
