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
    write_flags = []
    transaction = Ledger.transaction

    def count_transaction(self, *, write=False):
        write_flags.append(write)
        return transaction(self, write=write)

    monkeypatch.setattr(Ledger, "transaction", count_transaction)
    return write_flags


@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
def test_a_search_with_one_batch_writes_once(data, transactions, tmp_path, is_file):
    config = HoldoutConfig(ledger=tmp_path / "holdout.sqlite" if is_file else None)
    search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config).fit(*data)
    assert len(transactions) <= 3
    assert transactions.count(True) == 1
    assert len({record.batch for record in search.holdout_.history()}) == 1


def test_the_next_search_writes_once(data, transactions):
    first_search = ReusableHoldoutSearchCV(LogisticRegression(), GRID).fit(*data)
    rows = tuple(table[first_search.train_indices_] for table in data)
    transactions.clear()
    second_search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.5]}, holdout=first_search.holdout_
    )
    second_search.fit(*rows)
    assert len(transactions) <= 3
    assert transactions.count(True) == 1


def test_answers_of_another_process_are_found_before_a_batch_is_written(data, tmp_path):
    """The search does not look at the file on its way; it pays for nothing twice all the same."""
    config = HoldoutConfig(ledger=tmp_path / "holdout.sqlite")
    first_search = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [0.1]}, holdout=config).fit(
        *data
    )
    stale_holdout = first_search.holdout_
    other_search = ReusableHoldoutSearchCV(LogisticRegression(), GRID, holdout=config).fit(*data)
    spent = other_search.holdout_.information_spent
    rows = tuple(table[first_search.train_indices_] for table in data)
    repeated_search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, holdout=stale_holdout
    ).fit(*rows)
    assert repeated_search.holdout_.information_spent == spent
    released = [search.cv_results_["holdout_score"] for search in (other_search, repeated_search)]
    np.testing.assert_array_equal(*released)
