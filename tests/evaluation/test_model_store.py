"""Models that a search keeps while it runs, and its progress messages."""

import itertools
import time
import weakref

import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.evaluation import ModelStore


def test_a_store_returns_every_model():
    store = ModelStore()
    for row, guess in enumerate([0.5, 0.2, 0.9, 0.1]):
        store.put(row, {"model": row}, cv_score=guess, repeatable=row == 3)
    assert [store.get(row) for row in range(3)] == [{"model": row} for row in range(3)]
    assert store.get(3) is None  # a second fit gives it again


def test_a_final_report_is_never_wider_than_the_interval_of_the_search():
    """All intervals hold at once: the report is never wider than the search's own."""
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, scoring="neg_mean_absolute_error", random_state=0
    )
    search.fit(*make_friedman1(600, random_state=0))
    report = search.final_report()
    assert report.lower >= search.best_interval_[0]
    assert report.upper <= search.best_interval_[1]


class CountsAliveModels(LogisticRegression):
    """A model that counts the fitted ones that are alive when another is to be fitted."""

    alive = weakref.WeakSet()
    most = 0

    def fit(self, X, y, sample_weight=None):
        CountsAliveModels.most = max(CountsAliveModels.most, len(self.alive))
        self.alive.add(self)
        return super().fit(X, y)


def test_only_the_leading_model_is_alive_during_a_fit(monkeypatch):
    """A model may fill the memory: one that trails is gone before the next one is fitted."""
    monkeypatch.setattr(CountsAliveModels, "alive", weakref.WeakSet())
    monkeypatch.setattr(CountsAliveModels, "most", 0)
    search = ReusableHoldoutSearchCV(
        CountsAliveModels(), {"C": [0.01, 0.1, 1.0, 10.0]}, random_state=0
    )
    search.fit(*make_classification(200, random_state=0))
    assert CountsAliveModels.most == 1


@pytest.mark.parametrize(("seconds", "n_lines"), [(1.0, 0), (7.0, 1)])
def test_a_search_of_more_than_a_minute_reports_the_remaining_time(
    monkeypatch, capsys, seconds, n_lines
):
    """Twelve fits: one line at most each minute, none about a search that is done."""
    clock = itertools.count(0.0, seconds)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    X, y = make_classification(400, random_state=0)
    grid = {"C": [0.1, 1.0, 10.0]}
    ReusableHoldoutSearchCV(LogisticRegression(), grid, cv=3, random_state=0).fit(X, y)
    progress_lines = capsys.readouterr().err.splitlines()
    assert progress_lines == ["9 of 12 fits, about 1 min left"] * n_lines
