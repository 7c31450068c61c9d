"""The filter: one batch for thousands of attributes, and both sides must agree."""

import cProfile
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy import stats
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sklearn_bdp import HoldoutConfig, ReusableHoldout
from sklearn_bdp.exceptions import (
    NothingConfirmedWarning,
    NothingSelectedError,
    UnknownFeaturesError,
)
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter
from tests.facts import refused, warned

#: These tests compare fits that each have a holdout of their own, with the same targets.
SEVERAL_HOLDOUTS = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


def make_planted(n=2000, n_features=1000, *, n_true=5, shift=0.3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    signs = np.where(np.arange(n_true) % 2, -1, 1)
    X[:, :n_true] += shift * signs * (2 * y - 1)[:, None]
    return X, y


@pytest.fixture(scope="module")
def data():
    return make_planted()


def test_true_attributes_are_kept_with_their_sign(data):
    fitted = HoldoutCorrelationFilter(random_state=0).fit(*data)
    assert set(range(5)) <= set(fitted.get_support(indices=True))
    assert fitted.support_[5:].sum() <= 1
    np.testing.assert_array_equal(np.sign(fitted.verified_associations_[:5]), [1, -1, 1, -1, 1])
    queried = np.isfinite(fitted.verified_associations_)
    assert (fitted.lower_ <= fitted.verified_associations_)[queried].all()
    assert (fitted.verified_associations_ <= fitted.upper_)[queried].all()


def test_only_attributes_that_pass_on_the_training_set_are_queried_in_one_batch(data):
    fitted = HoldoutCorrelationFilter(random_state=0).fit(*data)
    history = fitted.holdout_.history()
    queried = np.isfinite(fitted.verified_associations_)
    assert 5 <= len(history) == queried.sum() < 20
    assert {record.batch for record in history} == {1}
    assert (fitted.lower_[~queried] == -1).all()
    assert (fitted.upper_[~queried] == 1).all()
    assert f"Not verified: the other {1000 - queried.sum()} attributes" in str(fitted.report())


def test_no_attribute_moves_the_answer_about_another():
    """Thirty attributes with an effect of .4: one that was corrected lowered all of them by .1."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 2, 1000)
    X = rng.standard_normal((1000, 1000))
    X[:, :30] += 0.4 * (y[:, None] - 0.5)
    fitted = HoldoutCorrelationFilter(random_state=8).fit(X, y)
    kept_columns = fitted.get_support(indices=True)
    assert (kept_columns < 30).sum() >= 24
    assert (kept_columns >= 30).sum() <= 1
    difference = np.abs(fitted.verified_associations_ - fitted.training_associations_)
    assert np.median(difference[kept_columns]) < 1e-12


@pytest.mark.parametrize("n_seeds", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_intervals_of_associations_hold_together(n_seeds):
    """The truth is computed from many fresh records.

    Eight sets pass a failure rate of 25% (of 5%) with chance .89 and of 70% with chance .06; sixty
    pass 10% with chance .93 and 25% with .05.
    """
    n_missed = 0
    for seed in range(n_seeds):
        X, y = make_planted(600, 200, n_true=8, shift=0.3, seed=seed)
        X_new, y_new = make_planted(40_000, 8, n_true=8, shift=0.3, seed=1000 + seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = HoldoutCorrelationFilter(random_state=seed).fit(X, y)
        training_data = X[fitted.train_indices_], 2 * y[fitted.train_indices_] - 1
        mean_sign = training_data[1].mean()
        signed_new = ((2 * y_new - 1) - mean_sign) / (1 + abs(mean_sign))
        expected_associations = np.zeros(200)
        center = training_data[0][:, :8].mean(axis=0)
        unit = training_data[0][:, :8].std(axis=0)
        expected_associations[:8] = (
            np.clip((X_new - center) / (2 * unit), -1, 1) * signed_new[:, None]
        ).mean(0)
        is_missed = (expected_associations < fitted.lower_ - 0.01) | (
            expected_associations > fitted.upper_ + 0.01
        )
        n_missed += is_missed[np.isfinite(fitted.verified_associations_)].any()
    assert n_missed <= stats.binom(n_seeds, 0.05).ppf(0.999)


def test_an_attribute_with_another_sign_on_the_holdout_is_dropped():
    X, y = make_planted(4000, 20, shift=0.5)
    in_holdout = np.arange(4000) >= 2000
    X[in_holdout, 0] *= -1
    holdout = ReusableHoldout(X[in_holdout], y[in_holdout], random_state=0)
    fitted = HoldoutCorrelationFilter(holdout=holdout).fit(X[~in_holdout], y[~in_holdout])
    assert fitted.get_support(indices=True).tolist() == [1, 2, 3, 4]
    assert fitted.training_associations_[0] > 0 > fitted.verified_associations_[0]


def test_an_attribute_that_fades_on_the_holdout_is_dropped():
    X, y = make_planted(4000, 20, shift=0.5)
    in_holdout = np.arange(4000) >= 2000
    X[in_holdout, 0] = np.random.default_rng(1).standard_normal(2000)
    holdout = ReusableHoldout(X[in_holdout], y[in_holdout], random_state=0)
    fitted = HoldoutCorrelationFilter(holdout=holdout).fit(X[~in_holdout], y[~in_holdout])
    assert fitted.get_support(indices=True).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["nan", "cv"])
def test_attributes_without_an_answer_are_not_verified(mode):
    """The first answer is a correction, and exhausts the budget."""
    X, y = make_planted(400, 30, n_true=10, shift=1.2)
    X_val, y_val = make_planted(400, 30, n_true=10, shift=-3.0, seed=1)
    screen = HoldoutCorrelationFilter(
        random_state=0, holdout=HoldoutConfig(budget=1, on_exhausted=mode)
    )
    with warned(NothingConfirmedWarning):
        screen.fit(X, y, X_val=X_val, y_val=y_val)
    assert not screen.confirmed_
    assert np.isfinite(screen.verified_associations_).sum() == 1
    is_unverified = np.isnan(screen.verified_associations_)
    assert set(screen.lower_[is_unverified]) == {-1.0}
    assert set(screen.upper_[is_unverified]) == {1.0}
    assert "Verified: the association of 1 of the 10 attributes" in str(screen.report())


@SEVERAL_HOLDOUTS
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_missing_values_of_nullable_columns_are_missing_numbers(dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    values = pd.array(y, dtype="Int64")
    values[::5] = pd.NA
    X = pd.DataFrame({"a": values.astype(dtype), "b": rng.normal(size=400) + y})
    nullable = HoldoutCorrelationFilter(random_state=0).fit(X, y)
    floats = HoldoutCorrelationFilter(random_state=0).fit(X.astype(float), y)
    assert nullable.support_.all()
    np.testing.assert_array_equal(nullable.verified_associations_, floats.verified_associations_)
    assert nullable.final_report().to_frame().equals(floats.final_report().to_frame())


def test_noise_leaves_no_attribute_and_gives_a_warning():
    with warned(UserWarning, 300):
        fitted = HoldoutCorrelationFilter(random_state=0).fit(
            *make_planted(1000, 300, n_true=0, seed=1)
        )
    assert not fitted.support_.any()


def test_an_empty_selection_is_a_clear_error_in_a_pipeline():
    X, y = make_planted(600, 50, n_true=0, seed=1)
    screen = HoldoutCorrelationFilter(random_state=0)
    with warned(UserWarning, 50), refused(NothingSelectedError, "on_empty='keep_best'"):
        make_pipeline(screen, GaussianNB()).fit(X, y)


def test_keep_best_keeps_one_attribute_and_gives_a_warning():
    X, y = make_planted(600, 50, n_true=0, seed=1)
    screen = HoldoutCorrelationFilter(random_state=0, on_empty="keep_best")
    with warned(UserWarning, 50):
        make_pipeline(screen, GaussianNB()).fit(X, y)
    assert screen.get_support(indices=True).tolist() == [int(np.argmin(screen.pvalues_))]
    assert not screen.confirmed_
    assert "stopgap" in str(screen.report())
    assert "0 of 50" in screen.report().title


def test_the_report_states_verified_attributes_and_names_final_report(data):
    frame = pd.DataFrame(data[0]).add_prefix("<f").add_suffix(">")
    report = HoldoutCorrelationFilter(random_state=0).fit(frame, data[1]).report()
    assert set(report.rows["attribute"]) >= {f"<f{j}>" for j in range(5)}
    assert "intervals hold together with probability 95%" in str(report)
    assert "final_report() proves single associations" in str(report)
    assert "&lt;f0&gt;" in report._repr_html_()
    assert "<f0>" not in report._repr_html_()


def test_without_a_holdout_attributes_are_kept_and_not_verified(data):
    fitted = HoldoutCorrelationFilter(holdout=None).fit(*data)
    assert set(range(5)) <= set(fitted.get_support(indices=True))
    assert np.isnan(fitted.verified_associations_).all()
    assert fitted.holdout_ is None
    assert "Not verified (holdout=None)" in str(fitted.report())


@pytest.mark.parametrize("container", ["array", "frame", "csr"])
def test_work_is_linear_in_attributes(container):
    """Calls of Python functions, counted: a quadratic step would double the ratio."""

    def count_calls(n_features):
        X, y = make_planted(60, n_features, n_true=0)
        X = {"array": np.asarray, "frame": pd.DataFrame, "csr": scipy.sparse.csr_matrix}[container](
            X
        )
        if container == "frame":
            X = X.add_prefix("f")
        profile = cProfile.Profile()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profile.runcall(HoldoutCorrelationFilter(random_state=0).fit, X, y)
        return sum(entry.callcount for entry in profile.getstats())

    assert count_calls(4000) < 2.2 * count_calls(2000)


def test_numbers_and_several_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 50))
    y = X[:, 0] - X[:, 1] + rng.standard_normal(2000)
    fitted = HoldoutCorrelationFilter(random_state=0).fit(X, y)
    assert {0, 1} <= set(fitted.get_support(indices=True))
    labels = np.digitize(X[:, 2] + 0.5 * rng.standard_normal(2000), [-0.7, 0.7])
    fitted = HoldoutCorrelationFilter(random_state=0).fit(X, np.array(["u", "v", "w"])[labels])
    assert 2 in fitted.get_support(indices=True)


def test_frames_names_pickles_and_clones(data):
    frame = pd.DataFrame(data[0]).add_prefix("f")
    fitted = clone(HoldoutCorrelationFilter(random_state=0)).fit(frame, data[1])
    assert list(fitted.get_feature_names_out()[:5]) == [f"f{j}" for j in range(5)]
    loaded = pickle.loads(pickle.dumps(fitted)).set_output(transform="pandas")
    assert list(loaded.transform(frame).columns[:5]) == [f"f{j}" for j in range(5)]


def test_repeated_queries_are_free(data, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first_filter, second_filter = (
        HoldoutCorrelationFilter(random_state=0, holdout=HoldoutConfig(ledger=ledger)).fit(*data)
        for _ in range(2)
    )
    assert len(second_filter.holdout_.history()) == len(first_filter.holdout_.history())
    np.testing.assert_array_equal(first_filter.support_, second_filter.support_)


@SEVERAL_HOLDOUTS
def test_sparse_data(data):
    sparse = HoldoutCorrelationFilter(random_state=0).fit(scipy.sparse.csc_matrix(data[0]), data[1])
    dense = HoldoutCorrelationFilter(random_state=0).fit(*data)
    np.testing.assert_array_equal(sparse.support_, dense.support_)


def test_groups_and_validation_sets(data):
    X, y = data
    groups = np.arange(2000) // 2
    fitted = HoldoutCorrelationFilter(correlation="groups", random_state=0).fit(X, y, groups=groups)
    assert not set(groups[fitted.train_indices_]) & set(groups[fitted.holdout_indices_])
    fitted = HoldoutCorrelationFilter(random_state=0)
    assert fitted.fit(X[:1500], y[:1500], X_val=X[1500:], y_val=y[1500:]).holdout_.n == 500


def test_columns_without_names_are_not_guessed(data):
    holdout = ReusableHoldout(data[0][:500, :10], data[1][:500], random_state=0)
    with refused(UnknownFeaturesError, "DataFrames"):
        HoldoutCorrelationFilter(holdout=holdout).fit(data[0][500:], data[1][500:])


@pytest.mark.parametrize(
    "params",
    [
        {"alpha": 0.0},
        {"alpha": float("nan")},
        {"clip": 0.0},
        {"on_empty": "typo"},
        {"holdout": 2.0},
    ],
    ids=str,
)
def test_bad_input_is_rejected_before_anything_is_spent(data, params, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    with refused((ValueError, TypeError), next(iter(params))):
        HoldoutCorrelationFilter(**({"holdout": HoldoutConfig(ledger=ledger)} | params)).fit(*data)
    assert not ledger.exists()


@pytest.mark.filterwarnings("ignore")
def test_check_estimator_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Its data are a few dozen records: nothing is confirmed, and some checks must transform.
        screen = HoldoutCorrelationFilter(random_state=0, on_empty="keep_best")
        log = check_estimator(screen, on_fail=None)
    assert [entry["check_name"] for entry in log if entry["status"] == "failed"] == []


@pytest.mark.slow
def test_useless_attributes_are_kept_at_the_declared_rate():
    n_with_kept_attributes = 0
    n_seeds = 100
    for seed in range(n_seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = make_planted(800, 200, n_true=0, seed=seed)
            n_with_kept_attributes += (
                HoldoutCorrelationFilter(random_state=seed).fit(X, y).support_.any()
            )
    assert n_with_kept_attributes <= n_seeds * 0.05 + 3 * np.sqrt(n_seeds * 0.05 * 0.95)


@SEVERAL_HOLDOUTS
@pytest.mark.parametrize("n", [400, 2000])
def test_certificate_forecasts_the_width_of_the_report(n):
    X, y = make_planted(n=n, n_features=30)
    screen = HoldoutCorrelationFilter(random_state=0).fit(X, y)
    forecast = 2.0 * screen.certificate_.forecast.final_report  # the range is 2 wide
    report = screen.final_report()
    half_width = np.median([0.5 * (row.upper - row.lower) for row in report.rows])
    assert forecast == pytest.approx(half_width, rel=1 / 3)
