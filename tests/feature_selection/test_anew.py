"""Features chosen anew on all records, after the last word of the holdout."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import HoldoutClosedError, NothingSelectedError
from sklearn_bdp.feature_selection import HoldoutFeatureSelector


def planted(n=400, n_features=200, *, n_true=4, shift=0.9, seed=0):
    """Return data in which the first columns know the label and the rest know nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (y[:, None] - 0.5)
    return X, y


def selector(**params):
    defaults = {"cv": 3, "random_state": 0, "choose_on": "all"}
    return HoldoutFeatureSelector(GaussianNB(), **(defaults | params))


def test_the_way_is_verified_on_a_part_and_gone_again_on_all_records():
    X, y = planted()
    fitted, before = selector().fit(X, y), selector(choose_on="training").fit(X, y)
    np.testing.assert_array_equal(fitted.verified_support_, before.support_)
    np.testing.assert_array_equal(before.verified_support_, before.support_)
    assert {0, 1, 2, 3} <= set(fitted.get_support(indices=True))
    assert fitted.verified_estimator_.n_features_in_ == fitted.verified_support_.sum()
    assert fitted.estimator_.n_features_in_ == fitted.support_.sum()
    report = str(fitted.report())
    assert "chosen anew on all records, by the same ranking" in report
    assert "not verified itself" in report
    assert "of the verified features" in str(fitted.certificate_)
    chosen = fitted.n_features_to_select_
    assert f"{chosen} were then selected on all records" in str(fitted.certificate_)
    assert set(fitted.report().rows["feature"]) == {
        f"x{j}" for j in np.flatnonzero(fitted.support_)
    }


def test_all_records_choose_by_default_where_the_holdout_is_nobody_elses():
    X, y = planted()
    default, told = selector(choose_on="auto").fit(X, y), selector().fit(X, y)
    np.testing.assert_array_equal(default.support_, told.support_)
    assert default.interval_ == told.interval_
    with pytest.raises(HoldoutClosedError):
        default.holdout_.answer([0.5], np.ones((1, 100)))


@pytest.mark.filterwarnings("ignore:No feature was selected")
@pytest.mark.parametrize(
    "params",
    [
        {"direction": "forward", "n_features_to_select": 1},
        {"ledger": "some.sqlite"},
        {"holdout": ReusableHoldout},
        {"correlation": MarkovChain([[0.6, 0.4], [0.4, 0.6]])},
        {"tol": "certified"},
        {"tol": 0.01},
    ],
    ids=str,
)
def test_by_default_a_holdout_that_may_be_asked_again_stays_open(params, tmp_path):
    X, y = planted(n_features=20, shift=2.0)
    if "ledger" in params:
        params = {"ledger": tmp_path / params["ledger"]}
    if "holdout" in params:
        params = {"holdout": ReusableHoldout(X[300:], y[300:], random_state=0)}
    fitted = selector(choose_on="auto", **params).fit(X[:300], y[:300])
    np.testing.assert_array_equal(fitted.support_, fitted.verified_support_)
    assert fitted.estimator_ is fitted.verified_estimator_
    fitted.holdout_.answer([0.5], np.full((1, fitted.holdout_.n), 0.5))


def test_by_default_a_validation_set_stays_open():
    X, y = planted(n_features=20)
    fitted = selector(choose_on="auto").fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    fitted.holdout_.answer([0.5], np.full((1, 100), 0.5))


def test_the_model_at_hand_takes_what_is_handed_on():
    """With as many features on both sides a mix-up would show in no shape."""
    X, y = planted(seed=5)
    fitted = selector(n_features_to_select=8).fit(X, y)
    assert (fitted.support_ != fitted.verified_support_).any()
    whole = GaussianNB().fit(X[:, fitted.support_], y)
    np.testing.assert_array_equal(fitted.estimator_.theta_, whole.theta_)
    part = X[fitted.train_indices_][:, fitted.verified_support_]
    half = GaussianNB().fit(part, y[fitted.train_indices_])
    np.testing.assert_array_equal(fitted.verified_estimator_.theta_, half.theta_)


def test_what_is_chosen_does_not_depend_on_what_was_held_out():
    """All records choose; the split decides only what is verified."""
    X, y = planted()
    found = [selector(random_state=seed).fit(X, y) for seed in range(3)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].support_, other.support_)
        assert (found[0].verified_support_ != other.verified_support_).any() or (
            found[0].train_indices_ != other.train_indices_
        ).any()


def test_the_holdout_is_closed_by_its_last_word_which_is_sharper():
    X, y = planted()
    fitted, before = selector().fit(X, y), selector(choose_on="training").fit(X, y)
    low, high = fitted.interval_
    assert low < fitted.score_ < high
    assert high - low <= np.diff(before.interval_)[0]
    with pytest.raises(HoldoutClosedError, match="closed by its final report"):
        fitted.holdout_.answer([0.5], np.ones((1, 100)))


def test_a_last_word_that_is_no_finer_adds_no_noise():
    """The AUC of sixty groups is known to [0, 1] only: noise is a part of that."""
    X, y = planted(240, 8)
    split = GroupShuffleSplit(1, test_size=0.25, random_state=0)
    found = [
        selector(scoring="roc_auc", correlation="groups", holdout=split, random_state=seed).fit(
            X, y, groups=np.arange(240) // 2
        )
        for seed in range(3)
    ]
    assert {fitted.interval_ for fitted in found} == {(0.0, 1.0)}
    assert len({fitted.score_ for fitted in found}) == 1


def test_without_a_last_word_left_the_holdout_answers_nothing_either():
    X, y = planted(seed=3)
    fitted = selector(budget=1, on_exhausted="training").fit(X, y)
    low, high = fitted.interval_
    assert low <= fitted.score_ <= high


def test_it_chooses_nothing_where_nothing_helps():
    X, y = planted(n_true=0)
    chooser = selector()
    with (
        pytest.warns(UserWarning, match="No feature was selected"),
        pytest.raises(NothingSelectedError),
    ):
        make_pipeline(chooser, GaussianNB()).fit(X, y)
    assert not chooser.support_.any()
    assert chooser.holdout_.remaining_budget is None


def test_a_pipeline_takes_frames_and_groups():
    X, y = planted()
    frame = pd.DataFrame(X).add_prefix("f")
    groups = np.arange(400) // 2
    chooser = selector(correlation="groups")
    chooser.fit(frame, y, groups=groups)
    names = chooser.get_feature_names_out()
    assert {"f0", "f1", "f2", "f3"} <= set(names)
    model = LogisticRegression().fit(chooser.transform(frame), y)
    fresh, labels = planted(4000, seed=9)
    new = pd.DataFrame(fresh).add_prefix("f")
    assert model.score(chooser.transform(new), labels) > 0.75
    verified = new.loc[:, chooser.verified_support_]
    truth = chooser.verified_estimator_.score(verified, labels)
    assert chooser.interval_[0] <= truth <= chooser.interval_[1]


@pytest.mark.parametrize("params", [{"n_features_to_select": 3}, {"tol": 0.05}])
def test_the_same_rule_holds_on_all_records(params):
    X, y = planted()
    fitted = selector(**params).fit(X, y)
    if "tol" in params:
        assert fitted.n_features_to_select_ <= selector().fit(X, y).n_features_to_select_
    else:
        assert fitted.support_.sum() == fitted.verified_support_.sum() == 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"direction": "forward"}, "direction='path'"),
        ({"ledger": "somewhere.sqlite"}, "ledger="),
        ({"holdout": True}, "holdout="),
        ({"correlation": MarkovChain([[0.6, 0.4], [0.4, 0.6]])}, "choose_on='training'"),
        ({"choose_on": "everything"}, "choose_on"),
    ],
    ids=str,
)
def test_what_cannot_be_closed_is_refused_before_anything_is_spent(params, words, tmp_path):
    X, y = planted()
    if params.get("holdout"):
        params = {"holdout": ReusableHoldout(X[300:], y[300:])}
    if "ledger" in params:
        params = {"ledger": tmp_path / params["ledger"]}
    with pytest.raises(ValueError, match=words):
        selector(**params).fit(X[:300], y[:300])
    if "ledger" in params:
        assert not params["ledger"].exists()
    if "holdout" in params:
        assert not params["holdout"].history()


def test_a_validation_set_is_not_ours_to_close():
    X, y = planted()
    with pytest.raises(ValueError, match="X_val="):
        selector().fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])


def test_nothing_raw_is_kept():
    fitted = selector().fit(*planted())
    state = {name: value for name, value in vars(fitted).items() if name != "holdout_"}
    for hidden in (b"Outcome", b"Evaluation", b"Assessment", b"Entry"):
        assert hidden not in pickle.dumps(state)


@pytest.mark.slow
def test_intervals_of_the_last_word_hold():
    missed = 0
    for seed in range(100):
        X, y = planted(200, 50, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = selector(random_state=seed).fit(X, y)
        fresh, labels = planted(4000, 50, seed=1000 + seed)
        truth = fitted.verified_estimator_.score(fresh[:, fitted.verified_support_], labels)
        missed += not fitted.interval_[0] <= truth <= fitted.interval_[1]
    assert missed <= 100 * 0.05 + 3 * np.sqrt(100 * 0.05 * 0.95)
