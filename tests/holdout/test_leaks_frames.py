"""Whatever ends a search or a selection half-way, no frame of the traceback holds a raw score."""

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

TRAIN, HELD = slice(0, 400), slice(400, None)
WIDE = np.column_stack([X, np.random.default_rng(3).normal(size=(X.shape[0], 2))])


class Ending(Planted):
    """Different candidates with known scores; some end the run, in fits or on the holdout."""

    calls = 0

    def __init__(self, label=0, ends="nowhere", kind=KeyboardInterrupt):
        self.label = label
        self.ends = ends
        self.kind = kind

    def fit(self, X, y):
        if self.ends == "fit" and self.label == 2:
            raise self.kind("the fit was ended")
        return self._fitted()

    def _fitted(self):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        if self.ends == "holdout" and self.label == 2 and rows.max() >= 400:
            raise self.kind("scoring was ended")
        hits = HITS[rows] ^ (rows % (7 + self.label) == 0)
        return np.where(hits, Y[rows], 1 - Y[rows])


RAW = [(HITS ^ (np.arange(X.shape[0]) % (7 + label) == 0))[HELD] for label in (0, 1, 2)]


@pytest.fixture
def audit():
    return LeakAudit(*[float(row.mean()) for row in RAW], per_record=RAW)


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


MODES = pytest.mark.parametrize("training_score", ["cv", "resubstitution"])


@MODES
@pytest.mark.parametrize("ends", ["fit", "holdout"])
def test_ctrl_c_in_a_search(audit, training_score, ends):
    holdout = ReusableHoldout(X[HELD], Y[HELD])
    owner = search(Ending(ends=ends), holdout, training_score=training_score)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(X[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


@MODES
@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_failing_fit_that_is_raised_by_a_search(audit, training_score, kind):
    holdout = ReusableHoldout(X[HELD], Y[HELD])
    estimator = Ending(ends="fit", kind=kind)
    owner = search(estimator, holdout, training_score=training_score, error_score="raise")
    with refused(kind) as caught:
        owner.fit(X[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


@MODES
def test_warnings_as_errors_in_a_search(audit, training_score):
    holdout = ReusableHoldout(X[HELD], Y[HELD])
    estimator = Ending(ends="fit", kind=ValueError)
    owner = search(estimator, holdout, training_score=training_score)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        with pytest.raises(FitFailedWarning) as caught:
            owner.fit(X[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


@pytest.mark.parametrize("place", ["search", "selector"])
def test_a_ledger_that_fails_when_it_is_asked(audit, path, place):
    backend = FailingBackend(path)
    holdout = ReusableHoldout(X[HELD], Y[HELD], ledger=backend)
    data = X
    owner = search(Ending(), holdout)
    if place == "selector":
        holdout = ReusableHoldout(WIDE[HELD], Y[HELD], ledger=(backend := FailingBackend(None)))
        owner, data = selector(Ending(), holdout), WIDE
    backend.error = LedgerUnavailableError("gone")
    with pytest.raises(LedgerUnavailableError) as caught:
        owner.fit(data[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


def exhausted(data):
    """Return a holdout whose budget is spent."""
    holdout = ReusableHoldout(data[HELD], Y[HELD], budget=1)
    with pytest.raises(BudgetExhaustedError):
        holdout.answer([0.0, 1.0, 0.0], np.array([1.0, 0.0, 1.0])[:, None] * np.ones(609))
    return holdout


def test_a_spent_budget_in_a_selection(audit):
    holdout = exhausted(WIDE)
    owner = selector(Ending(), holdout)
    with pytest.raises(BudgetExhaustedError) as caught:
        owner.fit(WIDE[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


def test_a_spent_budget_in_a_search(audit):
    holdout = exhausted(X)
    owner = search(Ending(), holdout)
    with pytest.raises(BudgetExhaustedError) as caught:
        owner.fit(X[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


@pytest.mark.parametrize("ends", ["fit", "holdout"])
def test_ctrl_c_in_a_selection(audit, ends):
    holdout = ReusableHoldout(WIDE[HELD], Y[HELD])
    owner = selector(Ending(label=2, ends=ends), holdout)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(WIDE[TRAIN], Y[TRAIN])
    check(audit, owner, caught.value, holdout)


def test_ctrl_c_in_a_scorer(audit):
    holdout = ReusableHoldout(X[HELD], Y[HELD])
    scorer = HoldoutScorer(holdout, scoring="accuracy")
    model = Ending(label=2, ends="holdout").fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(KeyboardInterrupt) as caught:
        scorer(model, X[TRAIN], Y[TRAIN])
    check(audit, scorer, caught.value, holdout)


def test_ctrl_c_in_a_correlation_filter(monkeypatch):
    holdout = ReusableHoldout(WIDE[HELD], Y[HELD])
    raw = []

    def interrupted(self, batch, **kwargs):
        raw.extend(np.asarray(batch.values, dtype=float).tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(type(holdout.account), "ask", interrupted)
    owner = HoldoutCorrelationFilter(holdout=holdout, alpha=0.999)
    with pytest.raises(KeyboardInterrupt) as caught:
        owner.fit(WIDE[TRAIN], Y[TRAIN])
    assert raw
    LeakAudit(*raw).check_error(caught.value, callers=[__file__])
