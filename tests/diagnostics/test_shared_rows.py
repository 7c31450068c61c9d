"""Training records that are holdout records raise an error without details, which is charged."""

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
TRAINING_ROWS = slice(0, 600)
HOLDOUT_ROWS = slice(600, 800)
X_HOLDOUT = X[HOLDOUT_ROWS]
Y_HOLDOUT = Y[HOLDOUT_ROWS]
X_COMPLETE = np.nan_to_num(X)
NEAREST = KNeighborsClassifier(1)


@pytest.fixture
def holdout():
    return ReusableHoldout(X_COMPLETE[HOLDOUT_ROWS], Y_HOLDOUT)


def shared_rows_error():
    return refused(SharedRecordsError, "X")


def test_a_validation_set_that_was_trained_on_is_rejected():
    search = ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]})
    with shared_rows_error():
        search.fit(X_COMPLETE, Y, X_val=X_COMPLETE, y_val=Y)
    with shared_rows_error():
        search.fit(X_COMPLETE, Y, X_val=X_COMPLETE[HOLDOUT_ROWS].tolist(), y_val=Y_HOLDOUT.tolist())


def test_a_second_fit_with_all_records_is_rejected(holdout):
    for estimator in (
        ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]}, holdout=holdout),
        HoldoutFeatureSelector(NEAREST, holdout=holdout),
    ):
        with shared_rows_error():
            estimator.fit(X_COMPLETE, Y)
    assert len(holdout.history()) == 0


def test_a_second_fit_with_the_training_records_reuses_the_holdout():
    first_search = ReusableHoldoutSearchCV(NEAREST, {"p": [1]}, random_state=0).fit(X_COMPLETE, Y)
    second_search = ReusableHoldoutSearchCV(NEAREST, {"p": [1, 2]}, holdout=first_search.holdout_)
    rows = first_search.train_indices_
    assert second_search.fit(X_COMPLETE[rows], Y[rows]).holdout_ is first_search.holdout_


def test_cross_validation_over_all_records_is_rejected(holdout):
    """It answered .99 where the truth is .5."""
    with shared_rows_error():
        cross_val_score(NEAREST, X_COMPLETE, Y, scoring=HoldoutScorer(holdout), error_score="raise")
    assert len(holdout.history()) == 0


DISGUISES = {
    "itself": (X_HOLDOUT, Y_HOLDOUT),
    "reversed": (X_HOLDOUT[::-1], Y_HOLDOUT[::-1]),
    "single precision": (X_HOLDOUT.astype(np.float32), Y_HOLDOUT),
    "lists": (X_HOLDOUT.tolist(), Y_HOLDOUT.tolist()),
    "rows left out": (X_HOLDOUT[:150], Y_HOLDOUT[:150]),
    "frame": (pd.DataFrame(X_HOLDOUT), pd.Series(Y_HOLDOUT)),
}


@pytest.mark.parametrize("name", DISGUISES)
@pytest.mark.parametrize("has_missing_values", [False, True], ids=["whole", "missing values"])
def test_a_scorer_does_not_echo_the_holdout(name, has_missing_values):
    data, labels = DISGUISES[name]
    holdout_X = X_HOLDOUT
    if not has_missing_values:
        data = np.nan_to_num(data) if not isinstance(data, list) else np.nan_to_num(data).tolist()
        holdout_X = X_COMPLETE[HOLDOUT_ROWS]
    holdout = ReusableHoldout(holdout_X, Y_HOLDOUT)
    model = LogisticRegression().fit(X_COMPLETE[TRAINING_ROWS], Y[TRAINING_ROWS])
    with shared_rows_error():
        HoldoutScorer(holdout)(model, data, labels)
    assert len(holdout.history()) == 0


def test_columns_in_another_order_are_matched_by_name(holdout):
    frame = pd.DataFrame(X_COMPLETE, columns=list("abcd"))
    named_holdout = ReusableHoldout(frame[HOLDOUT_ROWS], Y_HOLDOUT)
    with shared_rows_error():
        named_holdout.check_training_rows(frame[list("dcba")], Y)


def test_equal_records_of_a_population_pass_and_may_be_allowed():
    data = RNG.integers(0, 3, size=(800, 2))
    labels = RNG.integers(0, 2, size=800)
    ReusableHoldout(data[HOLDOUT_ROWS], labels[HOLDOUT_ROWS]).check_training_rows(
        data[TRAINING_ROWS], labels[TRAINING_ROWS]
    )
    iris, species = load_iris(return_X_y=True)
    for seed in range(20):
        X_train, X_holdout, y_train, y_holdout = train_test_split(iris, species, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ReusableHoldout(X_holdout, y_holdout).check_training_rows(X_train, y_train)


def test_the_certificate_reports_allowed_shared_rows(path):
    holdout = ReusableHoldout(
        X_COMPLETE[HOLDOUT_ROWS], Y_HOLDOUT, allow_shared_rows=True, ledger=path
    )
    holdout.check_training_rows(X_COMPLETE, Y)
    assert "training records that equal holdout records" in str(holdout.certificate())
    reopened = ReusableHoldout(X_COMPLETE[HOLDOUT_ROWS], Y_HOLDOUT, ledger=path)
    assert "equal holdout records" in str(reopened.certificate())  # once is for good
    with shared_rows_error():
        reopened.check_training_rows(X_COMPLETE, Y)


def test_the_option_is_a_boolean():
    with refused(TypeError, "allow_shared_rows=3"):
        ReusableHoldout(X_COMPLETE[HOLDOUT_ROWS], Y_HOLDOUT, allow_shared_rows=3)


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_changes_of_inputs_and_attributes_do_not_reach_the_holdout():
    rows = [[0.5, "a", ["x"]] for _ in range(30)]
    list_holdout = ReusableHoldout(rows, list(range(30)))
    rows[0][2].append("y")
    rows[1][0] = 9.0
    assert list_holdout.X[0][2] == ["x"]
    assert list_holdout.X[1][0] == 0.5
    array_holdout = ReusableHoldout(X_COMPLETE[HOLDOUT_ROWS], Y_HOLDOUT)
    with refused(ValueError, "read-only"):
        array_holdout.X[0, 0] = 7.0
    with refused(ValueError, "read-only"):
        array_holdout.y[0] = 7


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
def test_a_model_that_keeps_holdout_records_is_rejected_before_any_query(model, numbers):
    rng = np.random.default_rng(7)
    A = NUMBERS[numbers](rng)
    b = rng.integers(0, 2, 300)
    if sp.issparse(A) and isinstance(model, GaussianProcessClassifier):
        pytest.skip("it takes no sparse data")
    holdout = ReusableHoldout(A[200:], b[200:], random_state=0)
    model_of_all_rows = clone(model).fit(A, b)
    model_of_training_rows = clone(model).fit(A[:200], b[:200])
    with pytest.raises(SharedRecordsError):
        holdout.score(model_of_all_rows, 0.9)
    with pytest.raises(SharedRecordsError):
        HoldoutScorer(holdout)(model_of_all_rows, A[:200], b[:200])
    with pytest.raises(SharedRecordsError):
        holdout.final_report(model_of_all_rows)
    assert len(holdout.history()) == 0
    holdout.score(model_of_training_rows, 0.5)
    HoldoutScorer(holdout)(model_of_training_rows, A[:200], b[:200])
    holdout.final_report(model_of_training_rows)


def test_a_frozen_model_that_keeps_holdout_records_is_rejected(holdout):
    for rows in (HOLDOUT_ROWS, TRAINING_ROWS):
        frozen = FrozenEstimator(KNeighborsClassifier(1).fit(X_COMPLETE[rows], Y[rows]))
        with shared_rows_error() if rows is HOLDOUT_ROWS else contextlib.nullcontext():
            holdout.check_model(
                CalibratedClassifierCV(frozen, cv=2).fit(
                    X_COMPLETE[TRAINING_ROWS], Y[TRAINING_ROWS]
                )
            )


@pytest.mark.parametrize("dtype", [int, float])
def test_a_model_of_a_discrete_population_may_keep_rows_that_are_equal_by_chance(dtype):
    rng = np.random.default_rng(7)
    A = rng.integers(0, 2, (600, 4)).astype(dtype)
    b = rng.integers(0, 2, 600)
    holdout = ReusableHoldout(A[400:], b[400:], random_state=0)
    holdout.score(KNeighborsClassifier().fit(A[:400], b[:400]), 0.5)
    holdout.score(SVC().fit(A[:400], b[:400]), 0.5)


def test_rows_that_were_transformed_are_not_compared():
    """An ordinary search and its final report are charged for no check."""
    search = ReusableHoldoutSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1]})
    search.set_params(random_state=0).fit(X_COMPLETE, Y)
    spent = search.holdout_.information_spent
    search.holdout_.check_model(search.best_estimator_)
    search.holdout_.check_model(
        SVC().fit(X_COMPLETE[search.train_indices_], Y[search.train_indices_])
    )
    assert search.holdout_.information_spent == spent
