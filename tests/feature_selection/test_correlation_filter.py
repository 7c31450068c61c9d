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
from sklearn_bdp.exceptions import NothingSelectedError, UnknownFeaturesError
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter
from tests.facts import refused, warned

#: These tests compare fits that each have a holdout of their own, with the same targets.
ANEW = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")


def planted(n=2000, n_features=1000, *, n_true=5, shift=0.3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    signs = np.where(np.arange(n_true) % 2, -1, 1)
    X[:, :n_true] += shift * signs * (2 * y - 1)[:, None]
    return X, y


@pytest.fixture(scope="module")
def data():
    return planted()


def test_true_attributes_are_kept_with_their_sign(data):
    fitted = HoldoutCorrelationFilter(random_state=0).fit(*data)
    assert set(range(5)) <= set(fitted.get_support(indices=True))
    assert fitted.support_[5:].sum() <= 1
    np.testing.assert_array_equal(np.sign(fitted.verified_associations_[:5]), [1, -1, 1, -1, 1])
    asked = np.isfinite(fitted.verified_associations_)
    assert (fitted.lower_ <= fitted.verified_associations_)[asked].all()
    assert (fitted.verified_associations_ <= fitted.upper_)[asked].all()


def test_only_what_passes_on_the_training_side_is_asked_in_one_batch(data):
    fitted = HoldoutCorrelationFilter(random_state=0).fit(*data)
    history = fitted.holdout_.history()
    asked = np.isfinite(fitted.verified_associations_)
    assert 5 <= len(history) == asked.sum() < 20
    assert {record.batch for record in history} == {1}
    assert (fitted.lower_[~asked] == -1).all()
    assert (fitted.upper_[~asked] == 1).all()
    assert f"Not verified: the other {1000 - asked.sum()} attributes" in str(fitted.report())


def test_no_attribute_moves_the_answer_about_another():
    """Thirty attributes with an effect of .4: one that was corrected lowered all of them by .1."""
    rng = np.random.default_rng(8)
    y, X = rng.integers(0, 2, 1000), rng.standard_normal((1000, 1000))
    X[:, :30] += 0.4 * (y[:, None] - 0.5)
    fitted = HoldoutCorrelationFilter(random_state=8).fit(X, y)
    kept = fitted.get_support(indices=True)
    assert (kept < 30).sum() >= 24
    assert (kept >= 30).sum() <= 1
    difference = np.abs(fitted.verified_associations_ - fitted.training_associations_)
    assert np.median(difference[kept]) < 1e-12


@pytest.mark.parametrize("seeds", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_intervals_of_associations_hold_together(seeds):
    """The truth is computed from many fresh records.

    Eight sets pass a failure rate of 25% (of 5%) with chance .89 and of 70% with chance .06; sixty
    pass 10% with chance .93 and 25% with .05.
    """
    missed = 0
    for seed in range(seeds):
        X, y = planted(600, 200, n_true=8, shift=0.3, seed=seed)
        fresh, labels = planted(40_000, 8, n_true=8, shift=0.3, seed=1000 + seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = HoldoutCorrelationFilter(random_state=seed).fit(X, y)
        part = X[fitted.train_indices_], 2 * y[fitted.train_indices_] - 1
        middle = part[1].mean()
        sides = ((2 * labels - 1) - middle) / (1 + abs(middle))
        truth = np.zeros(200)
        center, unit = part[0][:, :8].mean(axis=0), part[0][:, :8].std(axis=0)
        truth[:8] = (np.clip((fresh - center) / (2 * unit), -1, 1) * sides[:, None]).mean(0)
        outside = (truth < fitted.lower_ - 0.01) | (truth > fitted.upper_ + 0.01)
        missed += outside[np.isfinite(fitted.verified_associations_)].any()
    assert missed <= stats.binom(seeds, 0.05).ppf(0.999)


def test_an_attribute_that_turns_around_on_the_holdout_is_dropped():
    X, y = planted(4000, 20, shift=0.5)
    held = np.arange(4000) >= 2000
    X[held, 0] *= -1
    holdout = ReusableHoldout(X[held], y[held], random_state=0)
    fitted = HoldoutCorrelationFilter(holdout=holdout).fit(X[~held], y[~held])
    assert fitted.get_support(indices=True).tolist() == [1, 2, 3, 4]
    assert fitted.training_associations_[0] > 0 > fitted.verified_associations_[0]


def test_an_attribute_that_fades_on_the_holdout_is_dropped():
    X, y = planted(4000, 20, shift=0.5)
    held = np.arange(4000) >= 2000
    X[held, 0] = np.random.default_rng(1).standard_normal(2000)
    holdout = ReusableHoldout(X[held], y[held], random_state=0)
    fitted = HoldoutCorrelationFilter(holdout=holdout).fit(X[~held], y[~held])
    assert fitted.get_support(indices=True).tolist() == [1, 2, 3, 4]


def test_noise_leaves_nothing_and_says_so():
    with warned(UserWarning, 300):
        fitted = HoldoutCorrelationFilter(random_state=0).fit(*planted(1000, 300, n_true=0, seed=1))
    assert not fitted.support_.any()


def test_nothing_to_hand_on_is_a_readable_outcome_in_a_pipeline():
    X, y = planted(600, 50, n_true=0, seed=1)
    screen = HoldoutCorrelationFilter(random_state=0)
    with warned(UserWarning, 50), refused(NothingSelectedError, "on_empty='keep_best'"):
        make_pipeline(screen, GaussianNB()).fit(X, y)


def test_keep_best_hands_on_a_stopgap_and_says_so():
    X, y = planted(600, 50, n_true=0, seed=1)
    screen = HoldoutCorrelationFilter(random_state=0, on_empty="keep_best")
    with warned(UserWarning, 50):
        make_pipeline(screen, GaussianNB()).fit(X, y)
    assert screen.get_support(indices=True).tolist() == [int(np.argmin(screen.pvalues_))]
    assert not screen.confirmed_
    assert "stopgap" in str(screen.report())
    assert "0 of 50" in screen.report().title


def test_the_report_says_what_was_verified_and_leads_to_proofs(data):
    frame = pd.DataFrame(data[0]).add_prefix("<f").add_suffix(">")
    report = HoldoutCorrelationFilter(random_state=0).fit(frame, data[1]).report()
    assert set(report.rows["attribute"]) >= {f"<f{j}>" for j in range(5)}
    assert "intervals hold together with probability 95%" in str(report)
    assert "final_report() proves single associations" in str(report)
    assert "&lt;f0&gt;" in report._repr_html_()
    assert "<f0>" not in report._repr_html_()


def test_without_a_holdout_what_passes_is_kept_and_not_verified(data):
    fitted = HoldoutCorrelationFilter(holdout=None).fit(*data)
    assert set(range(5)) <= set(fitted.get_support(indices=True))
    assert np.isnan(fitted.verified_associations_).all()
    assert fitted.holdout_ is None
    assert "Not verified (holdout=None)" in str(fitted.report())


@pytest.mark.parametrize("kind", ["array", "frame", "csr"])
def test_work_is_linear_in_attributes(kind):
    """Calls of Python functions, counted: a quadratic step would double the ratio."""

    def calls(n_features):
        X, y = planted(60, n_features, n_true=0)
        X = {"array": np.asarray, "frame": pd.DataFrame, "csr": scipy.sparse.csr_matrix}[kind](X)
        if kind == "frame":
            X = X.add_prefix("f")
        profile = cProfile.Profile()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profile.runcall(HoldoutCorrelationFilter(random_state=0).fit, X, y)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(4000) < 2.2 * calls(2000)


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


def test_asking_again_is_free(data, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first, again = (
        HoldoutCorrelationFilter(random_state=0, holdout=HoldoutConfig(ledger=ledger)).fit(*data)
        for _ in range(2)
    )
    assert len(again.holdout_.history()) == len(first.holdout_.history())
    np.testing.assert_array_equal(first.support_, again.support_)


@ANEW
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
def test_useless_attributes_are_kept_at_the_rate_of_the_training_side():
    kept, seeds = 0, 100
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = planted(800, 200, n_true=0, seed=seed)
            kept += HoldoutCorrelationFilter(random_state=seed).fit(X, y).support_.any()
    assert kept <= seeds * 0.05 + 3 * np.sqrt(seeds * 0.05 * 0.95)
