"""No frame of the traceback of an unfinished search or selection holds a raw score."""

import gc
import warnings

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning

from sklearn_bdp import HoldoutScorer, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import BudgetExhaustedError, LedgerUnavailableError
from sklearn_bdp.feature_selection import HoldoutCorrelationFilter, HoldoutFeatureSelector
from sklearn_bdp.holdout import ReusableHoldout
from tests.facts import refused
from tests.holdout.leak_audit import LeakAudit
from tests.holdout.planted import HITS, Planted, X, Y
from tests.ledger.failing import FailingBackend

TRAINING_ROWS = slice(0, 400)
HOLDOUT_ROWS = slice(400, None)
WIDE = np.column_stack([X, np.random.default_rng(3).normal(size=(X.shape[0], 2))])


class EndsRun(Planted):
    """Different candidates with known scores; some end the run, in fits or on the holdout."""

    calls = 0

    def __init__(self, label=0, failing_step="nowhere", error_class=KeyboardInterrupt):
        self.label = label
        self.failing_step = failing_step
        self.error_class = error_class

    def fit(self, X, y):
        if self.failing_step == "fit" and self.label == 2:
            raise self.error_class("the fit was ended")
        return self._fitted()

    def _fitted(self):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        if self.failing_step == "holdout" and self.label == 2 and rows.max() >= 400:
            raise self.error_class("scoring was ended")
        hits = HITS[rows] ^ (rows % (7 + self.label) == 0)
        return np.where(hits, Y[rows], 1 - Y[rows])


RAW_HITS = [
    (HITS ^ (np.arange(X.shape[0]) % (7 + label) == 0))[HOLDOUT_ROWS] for label in (0, 1, 2)
]


@pytest.fixture
def audit():
    return LeakAudit(*[float(row.mean()) for row in RAW_HITS], per_record=RAW_HITS)


def search(estimator, holdout, **options):
    options = {"scoring": "accuracy", "cv": 2, **options}
    return ReusableHoldoutSearchCV(estimator, {"label": [0, 1, 2]}, holdout=holdout, **options)


def selector(estimator, holdout, **options):
    options = {"scoring": "accuracy", "cv": 2, "fixed_features": [0], **options}
    return HoldoutFeatureSelector(estimator, holdout=holdout, **options)


def check(audit, owner, error, holdout):
    gc.collect()
    audit.check_error(error, callers=[__file__])
    audit.check(vars(owner), str(error), repr(error), getattr(error, "__notes__", []))
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("failing_step", ["fit", "holdout"])
def test_ctrl_c_in_a_search(audit, failing_step):
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    owner = search(EndsRun(failing_step=failing_step), holdout)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


@pytest.mark.parametrize("error_class", [ValueError, SystemExit])
def test_a_failing_fit_that_is_raised_by_a_search(audit, error_class):
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    estimator = EndsRun(failing_step="fit", error_class=error_class)
    owner = search(estimator, holdout, error_score="raise")
    with refused(error_class) as caught:
        owner.fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


def test_warnings_as_errors_in_a_search(audit):
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    estimator = EndsRun(failing_step="fit", error_class=ValueError)
    owner = search(estimator, holdout)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        with pytest.raises(FitFailedWarning) as caught:
            owner.fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


@pytest.mark.parametrize("interface", ["search", "selector"])
def test_a_ledger_that_fails_during_a_query(audit, path, interface):
    backend = FailingBackend(path)
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS], ledger=backend)
    data = X
    owner = search(EndsRun(), holdout)
    if interface == "selector":
        holdout = ReusableHoldout(
            WIDE[HOLDOUT_ROWS], Y[HOLDOUT_ROWS], ledger=(backend := FailingBackend(None))
        )
        owner = selector(EndsRun(), holdout)
        data = WIDE
    backend.error = LedgerUnavailableError("gone")
    with pytest.raises(LedgerUnavailableError) as caught:
        owner.fit(data[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


def exhausted(data):
    """Return a holdout whose budget is spent."""
    holdout = ReusableHoldout(data[HOLDOUT_ROWS], Y[HOLDOUT_ROWS], budget=1)
    with pytest.raises(BudgetExhaustedError):
        holdout.answer([0.0, 1.0, 0.0], np.array([1.0, 0.0, 1.0])[:, None] * np.ones(609))
    return holdout


def test_a_spent_budget_in_a_selection(audit):
    holdout = exhausted(WIDE)
    owner = selector(EndsRun(), holdout)
    with pytest.raises(BudgetExhaustedError) as caught:
        owner.fit(WIDE[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


def test_a_spent_budget_in_a_search(audit):
    holdout = exhausted(X)
    owner = search(EndsRun(), holdout)
    with pytest.raises(BudgetExhaustedError) as caught:
        owner.fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


@pytest.mark.parametrize("failing_step", ["fit", "holdout"])
def test_ctrl_c_in_a_selection(audit, failing_step):
    holdout = ReusableHoldout(WIDE[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    owner = selector(EndsRun(label=2, failing_step=failing_step), holdout)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(WIDE[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, owner, caught.value, holdout)


def test_ctrl_c_in_a_scorer(audit):
    holdout = ReusableHoldout(X[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    scorer = HoldoutScorer(holdout, scoring="accuracy")
    model = EndsRun(label=2, failing_step="holdout").fit(X[TRAINING_ROWS], Y[TRAINING_ROWS])
    with pytest.raises(KeyboardInterrupt) as caught:
        scorer(model, X[TRAINING_ROWS], Y[TRAINING_ROWS])
    check(audit, scorer, caught.value, holdout)


def test_ctrl_c_in_a_correlation_filter(monkeypatch):
    holdout = ReusableHoldout(WIDE[HOLDOUT_ROWS], Y[HOLDOUT_ROWS])
    raw_scores = []

    def interrupted(self, batch, **kwargs):
        raw_scores.extend(np.asarray(batch.values, dtype=float).tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(type(holdout.account), "answer", interrupted)
    owner = HoldoutCorrelationFilter(holdout=holdout, alpha=0.999)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(WIDE[TRAINING_ROWS], Y[TRAINING_ROWS])
    assert raw_scores
    LeakAudit(*raw_scores).check_error(caught.value, callers=[__file__])
