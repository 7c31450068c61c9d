"""Scorers without a proven bound have no forecast before a model is known."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, make_scorer

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.planning import plan_search
from tests.facts import refused


def any_score(estimator, X, y):
    """Return a number of which nothing is known."""
    return 0.5


SCORERS = {
    "f1_macro": "f1_macro",
    "r2": "r2",
    "any_score": any_score,
    "f1_score": make_scorer(f1_score, average="macro"),
}


@pytest.mark.parametrize("name", SCORERS)
def test_plans_and_previews_of_scorers_without_a_bound_refer_to_search_preview(name):
    holdout = ReusableHoldout(np.zeros((60, 1)), np.arange(60) % 2, random_state=0)
    for forecast in (holdout.preview, lambda scoring: plan_search(0.1, scoring=scoring)):
        with refused(UnboundedMetricError, name, "search.preview"):
            forecast(scoring=SCORERS[name])
    assert holdout.information_spent == 0.0


def test_unknown_names_are_rejected_with_those_that_have_a_forecast():
    with refused(ValueError, "accuracy", "nonsense"):
        plan_search(0.1, scoring="nonsense")
