"""What stands on both sides of a split is said once, and in the certificate."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
y = (X[:, 0] + RNG.normal(size=400) > 0).astype(int)
DRAWN = RNG.integers(0, 400, 800)
GRID = {"max_depth": [1, 3]}


def search(**params):
    return ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), GRID, random_state=0, **params
    )


def said(fit, what):
    """Return the result of a fit and its warnings that hold some words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit()
    return result, [str(w.message) for w in caught if what in str(w.message)]


@pytest.mark.parametrize(
    "estimator",
    [
        search(),
        HoldoutFeatureSelector(LogisticRegression(), random_state=0),
        HoldoutCorrelationFilter(random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_copies_across_the_own_split_are_said_once_and_certified(estimator):
    fitted, messages = said(lambda: estimator.fit(X[DRAWN], y[DRAWN]), "look like copies")
    assert len(messages) == 1
    assert "of 200 holdout records" in messages[0]
    assert sum("holdout records are no copies" in a for a in fitted.certificate_.assumptions) == 1
    fitted, messages = said(lambda: estimator.fit(X, y), "look like copies")
    assert not messages
    assert "copies" not in str(fitted.certificate_)


def test_copies_held_together_are_no_copies_across_the_split():
    _, messages = said(
        lambda: search(correlation="groups").fit(X[DRAWN], y[DRAWN], groups=DRAWN), "copies"
    )
    assert not messages


def test_copies_in_a_validation_set_and_in_a_holdout_are_said_too():
    A, b = X[DRAWN], y[DRAWN]
    train, held = slice(0, 600), slice(600, None)
    rest = {"X_val": A[held], "y_val": b[held]}
    _, messages = said(lambda: search().fit(A[train], b[train], **rest), "look like copies")
    assert len(messages) == 1
    holdout = ReusableHoldout(A[held], b[held], random_state=0)
    again = search().set_params(holdout=holdout)
    _, messages = said(lambda: again.fit(A[train], b[train]), "look like copies")
    assert len(messages) == 1
    allowed = ReusableHoldout(A[held], b[held], random_state=0, allow_shared_rows=True)
    again = search().set_params(holdout=allowed)
    _, messages = said(lambda: again.fit(A[train], b[train]), "look like copies")
    assert not messages
