"""Typical mistakes: what is said of them, before anything is fitted or asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp import HoldoutScorer, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import (
    DefaultMetricWarning,
    SklearnBdpWarning,
)
from sklearn_bdp.metrics import available_metrics
from tests.facts import refused, warned

GRID = {"C": [0.1, 1.0]}


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 6, random_state=0)


def search(grid=None, estimator=None, **options):
    return ReusableHoldoutSearchCV(estimator or LogisticRegression(), grid or GRID, **options)


@pytest.mark.parametrize("scoring", ["acuracy", ["accuracy", "acuracy"]], ids=str)
def test_a_misspelled_metric_gets_the_nearest_name_and_those_that_work(data, scoring):
    with refused(ValueError, "'accuracy'") as error:
        search(scoring=scoring, refit=False).fit(*data)
    said = str(error.value)
    assert ", ".join(available_metrics()) in said
    assert "r2" not in said


def test_more_samples_than_candidates_are_all_of_them(data):
    with warned(UserWarning, "n_iter=10"):
        fitted = search(n_iter=10).fit(*data)
    assert len(fitted.cv_results_["params"]) == 2


def test_a_scorer_wants_its_holdout_first(data):
    with refused(TypeError, "HoldoutScorer(holdout, scoring='accuracy')"):
        HoldoutScorer("accuracy")


@pytest.mark.parametrize("n", [5, 8])
def test_folds_that_tiny_data_cannot_be_divided_into(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    with pytest.warns(SklearnBdpWarning), refused(ValueError, "cv=2"):
        search().fit(X, y)


def test_a_default_metric_is_told_with_its_clip():
    X, y = make_regression(200, 3, noise=5.0, random_state=0)
    with warned(DefaultMetricWarning, "bounds=(low, high)"):
        fitted = search({"alpha": [1.0]}, Ridge(), random_state=0).fit(X, y)
    assert "clipped at" in str(fitted.certificate_)


@pytest.mark.parametrize("frame", [False, True])
def test_columns_without_finite_numbers_are_named_before_any_fit(data, frame):
    class NeverFits(LogisticRegression):
        def fit(self, X, y):
            raise AssertionError("fitted")

    X = data[0].copy()
    X[3, 2], X[7, 5] = np.inf, np.nan
    X = pd.DataFrame(X).add_prefix("x") if frame else X
    with refused(ValueError, "X"):
        search(estimator=NeverFits()).fit(X, data[1])
