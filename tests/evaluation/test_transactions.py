"""Number of ledger transactions of a search: how often files are locked and read."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.ledger.ledger import Ledger

GRID = {"C": [0.01, 0.1, 1.0, 10.0]}


@pytest.fixture
def data():
    return make_classification(400, random_state=0)


@pytest.fixture
def transactions(monkeypatch):
    """Return a list that grows with every transaction: whether it writes."""
    opened, transaction = [], Ledger.transaction

    def counted(self, *, write=False):
        opened.append(write)
        return transaction(self, write=write)

    monkeypatch.setattr(Ledger, "transaction", counted)
    return opened


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "file"])
def test_a_search_that_asks_one_batch_writes_once(data, transactions, tmp_path, kept):
    config = HoldoutConfig(ledger=tmp_path / "holdout.sqlite" if kept else None)
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config).fit(*data)
    assert len(transactions) <= 3
    assert transactions.count(True) == 1
    assert len({record.batch for record in search.holdout_.history()}) == 1


def test_the_next_search_writes_once(data, transactions):
    first = ReusableHoldoutSearchCV(LogisticRegression(), GRID).fit(*data)
    rows = tuple(part[first.train_indices_] for part in data)
    transactions.clear()
    again = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.5]}, holdout=first.holdout_)
    again.fit(*rows)
    assert len(transactions) <= 3
    assert transactions.count(True) == 1


def test_what_another_process_answered_is_found_when_a_batch_is_written(data, tmp_path):
    """The search does not look at the file on its way; it pays for nothing twice all the same."""
    config = HoldoutConfig(ledger=tmp_path / "holdout.sqlite")
    first = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1]}, holdout=config).fit(*data)
    stale = first.holdout_
    other = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config).fit(*data)
    spent = other.holdout_.information_spent
    rows = tuple(part[first.train_indices_] for part in data)
    again = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=stale).fit(*rows)
    assert again.holdout_.information_spent == spent
    released = [one.cv_results_["holdout_score"] for one in (other, again)]
    np.testing.assert_array_equal(*released)
