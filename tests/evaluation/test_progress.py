"""What a search keeps while it runs."""

import gc
import warnings

from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp._evaluation import ModelStore


def test_a_store_gives_every_model_back_and_closes_its_file():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        store = ModelStore()
        for row in range(4):
            store.put(row, {"model": row}, guess=row / 4, repeatable=False)
        assert [store.get(row) for row in range(4)] == [{"model": row} for row in range(4)]
        file = store._file
        del store
        gc.collect()
        assert file.closed


def test_a_last_word_forgets_nothing_that_was_known():
    """All intervals hold at once: the report is never wider than the search's own."""
    search = ReusableHoldoutSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, random_state=0)
    search.fit(*make_friedman1(600, random_state=0))
    report = search.final_report()
    assert report.lower >= search.best_interval_[0]
    assert report.upper <= search.best_interval_[1]
