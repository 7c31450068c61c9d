"""Input that numpy would silently turn into numbers raises an error, before any charge."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.metrics import get_metric
from tests.facts import refused
from tests.holdout.planted import X, Y, fitted

N = X.shape[0]


@pytest.fixture
def holdout():
    return ReusableHoldout(X, Y)


INVALID_NUMBERS = {
    "complex": np.full((1, N), 0.5 + 1j),
    "durations": np.zeros((1, N), "m8[s]"),
    "dates": np.zeros((1, N), "M8[s]"),
    "masked": np.ma.masked_array(np.full((1, N), 0.5), mask=np.arange(N) < 3),
    "text": np.full((1, N), "0.5"),
    "text objects": np.full((1, N), "0.5", dtype=object),
    "complex objects": np.full((1, N), 1j, dtype=object),
}


@pytest.mark.parametrize("name", INVALID_NUMBERS)
@pytest.mark.parametrize("argument", ["per_record_scores", "cv_scores", "n_train", "relaxed_to"])
def test_invalid_numbers_are_rejected_by_name(holdout, name, argument):
    arguments = {"cv_scores": [0.5], "per_record_scores": np.full((1, N), 0.5)}
    arguments[argument] = (
        INVALID_NUMBERS[name] if argument == "per_record_scores" else INVALID_NUMBERS[name][0, :1]
    )
    with refused((TypeError, ValueError), argument):
        holdout.answer(**arguments)
    assert len(holdout.history()) == 0


def test_unmasked_arrays_booleans_and_objects_of_numbers_are_valid_scores(holdout):
    holdout.answer([0.5], np.ma.masked_array(np.full((1, N), 0.5)))
    holdout.answer([True], np.ones((1, N), dtype=bool))
    holdout.answer([0.5], np.full((1, N), 0.5, dtype=object))
    assert len(holdout.history()) == 3


def test_sparse_targets_are_rejected_by_name():
    sparse_targets = sp.csr_array(np.eye(N, 2, dtype=int))
    with refused(TypeError, "y", "y.toarray()"):
        ReusableHoldout(X, sparse_targets)
    search = ReusableHoldoutSearchCV(
        OneVsRestClassifier(LogisticRegression()), {}, scoring="f1_micro"
    )
    with refused(TypeError, "y", "y.toarray()"):
        search.fit(X, sparse_targets)


@pytest.mark.parametrize("value", [76.0, 1.01, -0.2])
def test_a_cv_score_beyond_the_metric_is_rejected(holdout, value):
    with refused(ValueError, "cv_score", "[0, 1]"):
        holdout.score(fitted(), value, scoring="accuracy")
    assert len(holdout.history()) == 0


def test_an_error_worse_than_its_bounds_counts_as_the_worst(holdout):
    metric = get_metric("neg_mean_absolute_error", bounds=(0, 1))
    assert holdout.score(fitted(), -3.0, scoring=metric).answered
    with refused(ValueError, "cv_score"):
        holdout.score(fitted(), 0.5, scoring=metric)
