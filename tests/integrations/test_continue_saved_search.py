"""A saved search continues in another process with the same holdout, notes and history."""

import copy
from concurrent.futures import ProcessPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from tests.holdout import workers

CONTINUE_SCRIPT = """
import sys, warnings
import joblib, numpy as np
from sklearn.tree import DecisionTreeClassifier
from sklearn_bdp import ReusableHoldoutSearchCV

saved, data, out = sys.argv[1:]
search, (X, y) = joblib.load(saved), joblib.load(data)
holdout = search.holdout_
attributes = sorted(vars(holdout))
second_search = ReusableHoldoutSearchCV(
    DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3, 4]}, holdout=holdout
).fit(X, y)
results = {
    "attributes": attributes,
    "answered": len(holdout.history()),
    "recorded": second_search.cv_results_["holdout_score"][1],
    "best": second_search.best_score_,
    "certificate": str(second_search.certificate_),
    "repr": repr(holdout) + holdout._repr_html_(),
    "preview": holdout.preview(5).half_width,
    "spent": holdout.information_spent,
    "notes": holdout.notes("nothing"),
    "score": float(holdout.score(second_search.best_estimator_, 0.5)),
    "report": second_search.final_report().value,
}
joblib.dump(results, out)
"""


@pytest.fixture(scope="module")
def data():
    return make_classification(600, 6, random_state=0)


@pytest.fixture
def saved_search(data, path):
    X, y = data
    holdout = ReusableHoldout(X[400:], y[400:], ledger=path)
    tree = DecisionTreeClassifier(random_state=0)
    return ReusableHoldoutSearchCV(tree, {"max_depth": [2, 3]}, holdout=holdout).fit(
        X[:400], y[:400]
    )


def test_a_saved_search_continues_in_another_process(saved_search, data, tmp_path, server):
    X, y = data
    joblib.dump(saved_search, tmp_path / "search")
    joblib.dump((X[:400], y[:400]), tmp_path / "data")
    files = [tmp_path / name for name in ("search", "data", "results")]
    with ProcessPoolExecutor(1, mp_context=server) as pool:
        pool.submit(workers.run_code, CONTINUE_SCRIPT, *files).result(300)
    results = joblib.load(tmp_path / "results")
    assert set(vars(saved_search.holdout_)) <= set(results["attributes"])
    assert results["answered"] == 4  # two were recorded before, one of them is queried again
    assert results["recorded"] == saved_search.cv_results_["holdout_score"][1]
    assert saved_search.holdout_.history()[-1].value == pytest.approx(results["report"])
    assert all(
        np.isfinite(results[name]) for name in ("best", "preview", "spent", "score", "report")
    )


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, lambda search: search])
def test_copies_of_a_search_share_its_holdout(saved_search, data, make_copy):
    X, y = data
    search_copy = make_copy(saved_search)
    assert set(vars(search_copy)) == set(vars(saved_search))
    assert search_copy.holdout_ is saved_search.holdout_
    second_search = ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [3]}, holdout=search_copy.holdout_
    ).fit(X[:400], y[:400])
    assert len(saved_search.holdout_.history()) == 2
    assert second_search.best_score_ == saved_search.cv_results_["holdout_score"][1]
