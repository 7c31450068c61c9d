"""Each fit has records of its own to work on."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_bdp import ReusableHoldoutSearchCV

RNG = np.random.default_rng(1)
X = RNG.normal(5.0, 3.0, (300, 4))
Y = (X[:, 0] > 5.0).astype(int)


class ZeroesRecords(TransformerMixin, BaseEstimator):
    """Writes into the records that it is fitted on."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y=None):
        X[: len(X) // 2] = 0.0
        return self

    def transform(self, X):
        return self.scale * X


class ShufflesTargets(ClassifierMixin, BaseEstimator):
    """Shuffles the targets that it is fitted on."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.model_.classes_
        y[:] = y[::-1].copy()
        return self

    def predict(self, X):
        return self.model_.predict(X)


def double_in_place(X):
    X *= 2.0
    return X


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (make_pipeline(StandardScaler(copy=False), LogisticRegression()), {}),
        (make_pipeline(FunctionTransformer(double_in_place), LogisticRegression()), {}),
        (
            make_pipeline(ZeroesRecords(), LogisticRegression()),
            {"zeroesrecords__scale": [1.0, 2.0]},
        ),
        (make_pipeline(StandardScaler(), LogisticRegression()), {"standardscaler__copy": [False]}),
        (BaggingClassifier(ShufflesTargets(), n_estimators=2, random_state=0), {}),
        (ShufflesTargets(), {"C": [0.1, 1.0]}),
    ],
)
def test_estimators_that_work_in_place_do_not_change_the_records(estimator, grid):
    X_train = X[:225].copy()
    y_train = Y[:225].copy()
    search = ReusableHoldoutSearchCV(estimator, grid, cv=3)
    search.fit(X_train, y_train, X_val=X[225:], y_val=Y[225:])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(X_train, X[:225])
    np.testing.assert_array_equal(y_train, Y[:225])


# each round makes its holdout anew
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_a_transformer_that_works_in_place_does_not_change_scores_of_the_search():
    test_scores = []
    for copy in (True, False):
        search = ReusableHoldoutSearchCV(
            make_pipeline(StandardScaler(copy=copy), LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0, 10.0]},
            cv=3,
        )
        search.fit(X[:225].copy(), Y[:225], X_val=X[225:], y_val=Y[225:])
        test_scores.append(search.best_estimator_.score(X[225:], Y[225:]))
    assert test_scores[0] == test_scores[1]
