"""Which fits get records of their own to work on."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp._evaluation._candidates import _may_write


class Own(BaseEstimator):
    """Anybody's estimator."""


@pytest.mark.parametrize(
    ("estimator", "params"),
    [
        (StandardScaler(copy=False), {}),
        (LinearRegression(copy_X=False), {}),
        (make_pipeline(StandardScaler(copy=False), SVC()), {}),
        (make_pipeline(StandardScaler(), SVC()), {"standardscaler__copy": False}),
        (make_pipeline(StandardScaler(), SVC()), {"standardscaler": StandardScaler(copy=False)}),
        (make_pipeline(FunctionTransformer(np.exp), SVC()), {}),
        (make_pipeline(SelectKBest(), SVC()), {}),  # a function, whose ever it is
        (BaggingClassifier(Own()), {}),
        (SVC(kernel=lambda a, b: a @ b.T), {}),
        (Own(), {}),
    ],
)
def test_what_may_work_in_place_gets_a_copy(estimator, params):
    assert _may_write({"": estimator}) or _may_write(params)


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(), make_pipeline(StandardScaler(), SVC()), LinearRegression()],
)
def test_what_cannot_is_given_the_records_themselves(estimator):
    assert not _may_write({"": estimator})


def test_a_step_in_place_leaves_the_records_to_the_next_candidate():
    rng = np.random.default_rng(1)
    X = rng.normal(5.0, 3.0, (300, 4))
    y = (X[:, 0] > 5.0).astype(int)
    found = []
    for copy in (True, False):
        search = ReusableHoldoutSearchCV(
            make_pipeline(StandardScaler(copy=copy), LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0, 10.0]},
            cv=3,
        )
        before = X[:225].copy()
        search.fit(before, y[:225], X_val=X[225:], y_val=y[225:])
        np.testing.assert_array_equal(before, X[:225])
        found.append(search.best_estimator_.score(X[225:], y[225:]))
    assert found[0] == found[1]
