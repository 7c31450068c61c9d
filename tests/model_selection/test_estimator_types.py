"""Searches as real estimators and callers use them."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import UnboundedMetricError
from tests.facts import refused

# Several holdouts of the same records, each for a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

GRID = {"C": [0.1, 1.0]}
X, Y = load_iris(return_X_y=True)


class OneColumn:
    """Predicts a column, as CatBoost does for several classes."""

    def predict(self, X):
        return super().predict(X)[:, None]


class ColumnClassifier(OneColumn, LogisticRegression):
    pass


class ColumnRegressor(OneColumn, LinearRegression):
    pass


# the metric is left to the search
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.DefaultMetricWarning")
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_predictions_of_one_column_are_predictions():
    one_dimensional_search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, random_state=0
    ).fit(X, Y)
    column_search = ReusableHoldoutSearchCV(ColumnClassifier(), GRID, random_state=0).fit(X, Y)
    assert column_search.best_score_ == one_dimensional_search.best_score_ > 0.9
    grid = {"fit_intercept": [True, False]}
    one_dimensional_search = ReusableHoldoutSearchCV(LinearRegression(), grid, random_state=0).fit(
        X, X[:, 0]
    )
    column_search = ReusableHoldoutSearchCV(ColumnRegressor(), grid, random_state=0).fit(X, X[:, 0])
    assert column_search.best_score_ == one_dimensional_search.best_score_


@pytest.mark.parametrize("request_", [False, None, True])
def test_a_scorer_that_declines_weights_needs_none(request_):
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=request_)
        model = LogisticRegression().set_fit_request(sample_weight=True)
        search = ReusableHoldoutSearchCV(model, GRID, scoring=scorer, random_state=0)
        if request_:
            with refused(UnboundedMetricError, "scoring='accuracy'"):
                search.fit(X, Y, sample_weight=np.ones(len(Y)))
        elif request_ is False:
            assert search.fit(X, Y, sample_weight=np.ones(len(Y))).best_score_ > 0.9
        else:
            assert search.fit(X, Y).best_score_ > 0.9


def make_early_stopping():
    return HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0)


def test_without_a_holdout_a_validation_set_is_the_estimators():
    validation_set = {"X_val": X[1::2], "y_val": Y[1::2]}
    grid = {"max_depth": [1, 3]}
    search_without_holdout = ReusableHoldoutSearchCV(make_early_stopping(), grid, holdout=None).fit(
        X[::2], Y[::2], **validation_set
    )
    grid_search = GridSearchCV(make_early_stopping(), grid).fit(X[::2], Y[::2], **validation_set)
    assert search_without_holdout.best_score_ == grid_search.best_score_
    with refused(ValueError, "X_val", "holdout=None", "LogisticRegression.fit"):
        ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=None).fit(
            X, Y, **validation_set
        )


def test_with_a_holdout_a_validation_set_of_two_meanings_is_rejected():
    search = ReusableHoldoutSearchCV(make_early_stopping(), {"max_depth": [1, 3]})
    with refused(ValueError, "X_val", "holdout=ReusableHoldout(X_val, y_val)"):
        search.fit(X[::2], Y[::2], X_val=X[1::2], y_val=Y[1::2])
    search.set_params(holdout=ReusableHoldout(X[1::2], Y[1::2])).fit(X[::2], Y[::2])
    assert search.best_score_ > 0.8


# few records are quick
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
def test_a_ledger_inside_cross_validation_is_rejected_at_the_first_fold(tmp_path):
    path = tmp_path / "holdout.sqlite"
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=HoldoutConfig(ledger=path))
    with refused(ValueError, "ledger"):
        cross_val_score(search, X, Y, cv=3)
    assert not path.exists()
    search_in_memory = search.set_params(holdout=HoldoutConfig())
    assert np.isfinite(cross_val_score(search_in_memory, X, Y, cv=3)).all()
