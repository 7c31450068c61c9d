"""Errors for a misspelled correlation name the value that was probably meant."""

import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import check_correlation
from tests.facts import refused


@pytest.mark.parametrize(
    ("correlation", "facts"),
    [
        (5, ["MarkovChain.from_autocorrelation_time(5)"]),
        (2.5, ["MarkovChain.from_autocorrelation_time(2.5)"]),
        ("Time", ["correlation='Time'", "'time'?"]),
        ("group", ["correlation='group'", "'groups'?"]),
        ("markov", ["correlation='markov'."]),
        (["time", None], ["correlation='time'"]),
    ],
)
def test_the_message_names_the_probable_value(correlation, facts):
    X, y = make_classification(100, random_state=0)
    search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1]}, correlation=correlation)
    for call in (lambda: search.fit(X, y), lambda: check_correlation(correlation)):
        with refused(ValueError, *facts):
            call()
    assert not hasattr(search, "holdout_")


def test_a_mean_is_proposed_for_scores_by_class():
    X, y = make_classification(400, random_state=0)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [1]}, scoring="roc_auc", correlation=[[0.7, 0.3], [0.3, 0.7]]
    )
    with refused(ValueError, "scoring='neg_brier_score'"):
        search.fit(X, y)


@pytest.mark.parametrize("correlation", [None, "time"])
def test_the_cause_is_named_if_all_candidates_fail(correlation):
    X, y = make_classification(400, random_state=0)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"penalty": ["none of these"]}, correlation=correlation, cv=2
    )
    with refused(ValueError, "penalty"):
        search.fit(X, y)
