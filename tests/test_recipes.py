"""Recipes of CONTRIBUTING, followed here: what they name is all that must be written."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import HoldoutConfig, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.accounting.spending import POLICIES, Policy, Spending
from sklearn_bdp.correlation import CorrelationModel
from sklearn_bdp.correlation.components import ComponentModel
from sklearn_bdp.metrics import get_metric
from tests.facts import refused

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
Y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
GRID = {"C": [0.1, 1.0]}


class Floors(ComponentModel):
    """Records of one floor may depend on each other."""

    def __init__(self, floors):
        self.floors = np.asarray(floors)
        self.n_records = len(self.floors)
        self._freeze(self.floors)

    def components(self, n):
        return np.unique(self.floors, return_inverse=True)[1]

    def subset(self, indices):
        return Floors(self.floors[indices])

    def describe(self):
        return f"{len(set(self.floors.tolist()))} floors"


class Pairs(CorrelationModel):
    """A mean varies at most as much as one of half as many independent records."""

    def __init__(self):
        self._freeze()

    def subset(self, indices):
        return self

    def describe(self):
        return "every record may stand twice"

    def _spread(self, n, statistical):
        return 2.0 * n

    def split(self, n, holdout, *, random_state=None):
        return Floors(np.arange(n) // 2).split(n, holdout, random_state=random_state)

    def folds(self, n, n_splits, *, random_state=None):
        return Floors(np.arange(n) // 2).folds(n, n_splits, random_state=random_state)


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.AnotherAccountWarning")  # a level, too
@pytest.mark.parametrize("model", [Floors(np.arange(600) // 3), Pairs()], ids=["floors", "pairs"])
def test_a_correlation_model_divides_answers_and_is_certified(model):
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=model, random_state=0, holdout=0.4
    ).fit(X, Y)
    holdout = search.holdout_
    low, high = search.best_interval_
    assert low < search.best_score_ < high
    certificate = holdout.certificate()
    assert model.subset(search.holdout_indices_).describe() in str(certificate)
    assert certificate.dp_epsilon <= certificate.bdp_epsilon <= holdout.n * certificate.dp_epsilon
    assert holdout.preview(3).half_width < 1.0
    private = ReusableHoldout(X, Y, correlation=model, epsilon=5000.0)
    metric = get_metric("accuracy")
    private.answer_evaluations([0.7], [metric.evaluate(search.best_estimator_, X, Y)])
    assert private.certificate().bdp_epsilon <= 5000.0


def test_a_spending_policy_answers_reports_and_is_certified(monkeypatch, path):
    halves = Policy(level=2.0, reserve=0.5, coarse=True, words="halves: half for the final report")
    with refused(ValueError, "spending"):
        HoldoutConfig(spending="halves")
    monkeypatch.setitem(POLICIES, "halves", halves)
    spending = Spending("halves")
    spent = sum(spending.of_batch(t) for t in range(1, 8)) + spending.of_report(7)
    assert spent == pytest.approx(1.0)  # a path holds one report, and weights of batches telescope
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, holdout=HoldoutConfig(spending="halves", ledger=path)
    ).fit(X, Y)
    low, high = search.best_interval_
    assert low < search.best_score_ < high
    assert "half for the final report" in str(search.holdout_.certificate())
    again = search.fit(X, Y)  # from the ledger, which has the name
    assert len(again.holdout_.history()) == 2
    report = again.final_report()
    assert report.lower < report.value < report.upper
