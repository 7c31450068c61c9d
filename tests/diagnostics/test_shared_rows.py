"""Training records that are holdout records are refused in one word, which is charged."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_bdp import HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import SharedRecordsError
from sklearn_bdp.feature_selection import HoldoutFeatureSelector
from tests.facts import refused

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 4))
Y = RNG.integers(0, 2, size=800)
X[700, 1] = np.nan
TRAIN, HELD = slice(0, 600), slice(600, 800)
XH, YH = X[HELD], Y[HELD]
FULL = np.nan_to_num(X)
NEAREST = KNeighborsClassifier(1)


@pytest.fixture
def holdout():
    return ReusableHoldout(FULL[HELD], YH)


def shared():
    return refused(SharedRecordsError, "X")


def test_a_validation_set_that_was_trained_on_is_refused():
    search = ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]})
    with shared():
        search.fit(FULL, Y, X_val=FULL, y_val=Y)
    with shared():
        search.fit(FULL, Y, X_val=FULL[HELD].tolist(), y_val=YH.tolist())


def test_a_second_fit_with_all_records_is_refused(holdout):
    for owner in (
        ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]}, holdout=holdout),
        HoldoutFeatureSelector(NEAREST, holdout=holdout),
    ):
        with shared():
            owner.fit(FULL, Y)
    assert len(holdout.history()) == 0


def test_a_second_fit_with_the_training_records_goes_on():
    first = ReusableHoldoutSearchCV(NEAREST, {"p": [1]}, random_state=0).fit(FULL, Y)
    again = ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]}, holdout=first.holdout_)
    rows = first.train_indices_
    assert again.fit(FULL[rows], Y[rows]).holdout_ is first.holdout_


def test_cross_validation_over_all_records_is_refused(holdout):
    """It answered .99 where the truth is .5."""
    with shared():
        cross_val_score(NEAREST, FULL, Y, scoring=HoldoutScorer(holdout), error_score="raise")
    assert len(holdout.history()) == 0


DISGUISES = {
    "itself": (XH, YH),
    "reversed": (XH[::-1], YH[::-1]),
    "single precision": (XH.astype(np.float32), YH),
    "lists": (XH.tolist(), YH.tolist()),
    "rows left out": (XH[:150], YH[:150]),
    "frame": (pd.DataFrame(XH), pd.Series(YH)),
}


@pytest.mark.parametrize("name", DISGUISES)
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing values"])
def test_a_scorer_does_not_echo_the_holdout(name, missing):
    data, labels = DISGUISES[name]
    held = XH
    if not missing:
        data = np.nan_to_num(data) if not isinstance(data, list) else np.nan_to_num(data).tolist()
        held = FULL[HELD]
    holdout = ReusableHoldout(held, YH)
    model = LogisticRegression().fit(FULL[TRAIN], Y[TRAIN])
    with shared():
        HoldoutScorer(holdout)(model, data, labels)
    assert len(holdout.history()) == 0


def test_columns_in_another_order_are_recognised_by_name(holdout):
    frame = pd.DataFrame(FULL, columns=list("abcd"))
    named = ReusableHoldout(frame[HELD], YH)
    with shared():
        named.check_training_rows(frame[list("dcba")], Y)


def test_equal_records_of_a_population_pass_and_may_be_allowed():
    data, labels = RNG.integers(0, 3, size=(800, 2)), RNG.integers(0, 2, size=800)
    ReusableHoldout(data[HELD], labels[HELD]).check_training_rows(data[TRAIN], labels[TRAIN])
    iris, kinds = load_iris(return_X_y=True)
    for seed in range(20):
        left, right, left_y, right_y = train_test_split(iris, kinds, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ReusableHoldout(right, right_y).check_training_rows(left, left_y)


def test_what_is_allowed_is_printed_in_the_certificate(path):
    holdout = ReusableHoldout(FULL[HELD], YH, allow_shared_rows=True, ledger=path)
    holdout.check_training_rows(FULL, Y)
    assert "training records that equal holdout records" in str(holdout.certificate())
    again = ReusableHoldout(FULL[HELD], YH, ledger=path)
    assert "equal holdout records" in str(again.certificate())  # once is for good
    with shared():
        again.check_training_rows(FULL, Y)


def test_the_option_is_a_boolean():
    with refused(TypeError, "allow_shared_rows=3"):
        ReusableHoldout(FULL[HELD], YH, allow_shared_rows=3)


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_what_the_caller_passed_and_what_comes_out_do_not_reach_the_holdout():
    rows = [[0.5, "a", ["x"]] for _ in range(30)]
    held = ReusableHoldout(rows, list(range(30)))
    rows[0][2].append("y")
    rows[1][0] = 9.0
    assert held.X[0][2] == ["x"]
    assert held.X[1][0] == 0.5
    array = ReusableHoldout(FULL[HELD], YH)
    with refused(ValueError, "read-only"):
        array.X[0, 0] = 7.0
    with refused(ValueError, "read-only"):
        array.y[0] = 7


# -- models that keep the rows they were fitted on ------------------------------------------------

KEEPERS = [
    KNeighborsClassifier(1),
    SVC(),
    GaussianProcessClassifier(optimizer=None),
    make_pipeline(SimpleImputer(), KNeighborsClassifier(1)),
    VotingClassifier([("near", KNeighborsClassifier(1)), ("support", SVC())]),
    CalibratedClassifierCV(KNeighborsClassifier(1), cv=2),
]


NUMBERS = {
    "fractions": lambda rng: rng.normal(size=(300, 4)),
    "integers": lambda rng: rng.integers(-500, 500, (300, 4)),
    "sparse": lambda rng: sp.csr_array(rng.normal(size=(300, 4))),
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("model", KEEPERS, ids=lambda model: type(model).__name__)
def test_a_model_that_keeps_holdout_records_is_refused_before_anything_is_asked(model, numbers):
    rng = np.random.default_rng(7)
    A, b = NUMBERS[numbers](rng), rng.integers(0, 2, 300)
    if sp.issparse(A) and isinstance(model, GaussianProcessClassifier):
        pytest.skip("it takes no sparse data")
    holdout = ReusableHoldout(A[200:], b[200:], random_state=0)
    everything, part = clone(model).fit(A, b), clone(model).fit(A[:200], b[:200])
    with pytest.raises(SharedRecordsError):
        holdout.score(everything, 0.9)
    with pytest.raises(SharedRecordsError):
        HoldoutScorer(holdout)(everything, A[:200], b[:200])
    with pytest.raises(SharedRecordsError):
        holdout.final_report(everything)
    assert len(holdout.history()) == 0
    holdout.score(part, 0.5)
    HoldoutScorer(holdout)(part, A[:200], b[:200])
    holdout.final_report(part)


def test_a_frozen_model_that_keeps_holdout_records_is_refused(holdout):
    for rows in (HELD, TRAIN):
        frozen = FrozenEstimator(KNeighborsClassifier(1).fit(FULL[rows], Y[rows]))
        with shared() if rows is HELD else contextlib.nullcontext():
            holdout.check_model(CalibratedClassifierCV(frozen, cv=2).fit(FULL[TRAIN], Y[TRAIN]))


@pytest.mark.parametrize("kind", [int, float])
def test_a_model_of_a_discrete_population_may_keep_rows_that_are_equal_by_chance(kind):
    rng = np.random.default_rng(7)
    A, b = rng.integers(0, 2, (600, 4)).astype(kind), rng.integers(0, 2, 600)
    holdout = ReusableHoldout(A[400:], b[400:], random_state=0)
    holdout.score(KNeighborsClassifier().fit(A[:400], b[:400]), 0.5)
    holdout.score(SVC().fit(A[:400], b[:400]), 0.5)


def test_rows_that_were_transformed_are_not_compared():
    """An ordinary search and its final report are charged for no check."""
    search = ReusableHoldoutSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1]})
    search.set_params(random_state=0).fit(FULL, Y)
    spent = search.holdout_.information_spent
    search.holdout_.check_model(search.best_estimator_)
    search.holdout_.check_model(SVC().fit(FULL[search.train_indices_], Y[search.train_indices_]))
    assert search.holdout_.information_spent == spent
