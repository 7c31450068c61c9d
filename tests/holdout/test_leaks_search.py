"""Searches and scorers hold no raw score either: not in results, messages, callbacks or pickles."""

import pickle

import cloudpickle
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.model_selection import HoldoutScorer
from tests.holdout.leak_audit import LeakAudit
from tests.holdout.planted import HITS, SCORE, Planted, X, Y

TRAIN = slice(0, 400)


class ShiftedHits(Planted):
    """The planted model; a parameter makes different candidates with the same predictions."""

    def __init__(self, fails=False, label=0):
        super().__init__(fails=fails)
        self.label = label

    def predict(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        hits = HITS[rows] ^ (rows % (7 + self.label) == 0)
        return np.where(hits, Y[rows], 1 - Y[rows])


RAW_HITS = [(HITS ^ (np.arange(X.shape[0]) % (7 + label) == 0)) for label in (0, 1, 2)]


@pytest.fixture
def audit():
    # Rows of the holdout are the records after the first 400.
    holdout_hits = [row[400:] for row in RAW_HITS]
    return LeakAudit(*[float(row.mean()) for row in holdout_hits], per_record=holdout_hits)


def test_the_planted_scores_are_distinctive(audit):
    assert len(set(audit.values.round(6))) == 6
    assert SCORE not in audit.values


@pytest.mark.parametrize("verbose", [0, 1, 3, 10])
def test_a_search_keeps_and_shows_no_raw_score(audit, path, verbose, capfd):
    callback_results = []

    def select_best(results):
        callback_results.append(results)
        return int(np.nanargmax(results["holdout_score"]))

    holdout = ReusableHoldout(X[400:], Y[400:], ledger=path)
    search = ReusableHoldoutSearchCV(
        ShiftedHits(), {"label": [0, 1, 2]}, scoring="accuracy", holdout=holdout, refit=select_best,
        verbose=verbose,
    )  # fmt: skip
    with audit.watch() as output:
        search.fit(X[TRAIN], Y[TRAIN])
    printed = capfd.readouterr()
    assert np.isfinite(search.cv_results_["holdout_score"]).all()
    audit.check(
        output, printed.out, printed.err, vars(search), search.cv_results_, callback_results, path
    )
    audit.check(
        cloudpickle.dumps(search), repr(search), search._repr_html_(), str(search.certificate_)
    )


def test_a_search_with_an_exhausted_budget_reveals_no_raw_score(audit):
    holdout = ReusableHoldout(X[400:], Y[400:], budget=1)
    with pytest.raises(BudgetExhaustedError):
        holdout.answer([0.0, 1.0, 0.0], np.array([1.0, 0.0, 1.0])[:, None] * np.ones(609))
    search = ReusableHoldoutSearchCV(ShiftedHits(), {"label": [0, 1, 2]}, holdout=holdout)
    with pytest.raises(BudgetExhaustedError) as caught:
        search.fit(X[TRAIN], Y[TRAIN])
    audit.check(search, str(caught.value))
    audit.check_error(caught.value, callers=[__file__])


def test_a_scorer_keeps_and_shows_no_raw_score(audit):
    holdout = ReusableHoldout(X[400:], Y[400:])
    scorer = HoldoutScorer(holdout, scoring="accuracy")
    with audit.watch() as output:
        scores = cross_val_score(ShiftedHits(), X[TRAIN], Y[TRAIN], scoring=scorer, cv=3, verbose=3)
    audit.check(output, scores, scorer, pickle.dumps(scorer), repr(scorer), holdout)
