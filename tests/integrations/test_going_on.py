"""A saved search goes on in another process: everything that was there is there again."""

import copy
from concurrent.futures import ProcessPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV
from tests.holdout import workers

NEXT = """
import sys, warnings
import joblib, numpy as np
from sklearn.tree import DecisionTreeClassifier
from sklearn_bdp import ReusableHoldoutSearchCV

saved, data, out = sys.argv[1:]
search, (X, y) = joblib.load(saved), joblib.load(data)
holdout = search.holdout_
before = sorted(vars(holdout))
again = ReusableHoldoutSearchCV(
    DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3, 4]}, holdout=holdout
).fit(X, y)
seen = {
    "attributes": before,
    "answered": len(holdout.history()),
    "recorded": again.cv_results_["holdout_score"][1],
    "best": again.best_score_,
    "certificate": str(again.certificate_),
    "repr": repr(holdout) + holdout._repr_html_(),
    "preview": holdout.preview(5).half_width,
    "spent": holdout.information_spent,
    "notes": holdout.notes("nothing"),
    "score": float(holdout.score(again.best_estimator_, 0.5)),
    "report": again.final_report().value,
}
joblib.dump(seen, out)
"""


@pytest.fixture(scope="module")
def data():
    return make_classification(600, 6, random_state=0)


@pytest.fixture
def saved(data, path):
    X, y = data
    holdout = ReusableHoldout(X[400:], y[400:], ledger=path)
    tree = DecisionTreeClassifier(random_state=0)
    return ReusableHoldoutSearchCV(tree, {"max_depth": [2, 3]}, holdout=holdout).fit(
        X[:400], y[:400]
    )


def test_a_saved_search_goes_on_in_another_process(saved, data, tmp_path, server):
    X, y = data
    joblib.dump(saved, tmp_path / "search")
    joblib.dump((X[:400], y[:400]), tmp_path / "data")
    files = [tmp_path / name for name in ("search", "data", "seen")]
    with ProcessPoolExecutor(1, mp_context=server) as pool:
        pool.submit(workers.run_code, NEXT, *files).result(300)
    seen = joblib.load(tmp_path / "seen")
    assert set(vars(saved.holdout_)) <= set(seen["attributes"])
    assert seen["answered"] == 4  # two were recorded before, one of them is asked again
    assert seen["recorded"] == saved.cv_results_["holdout_score"][1]
    assert saved.holdout_.history()[-1].value == pytest.approx(seen["report"])
    assert all(np.isfinite(seen[name]) for name in ("best", "preview", "spent", "score", "report"))


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda search: search])
def test_copies_of_a_search_go_on_with_the_same_holdout(saved, data, twin):
    X, y = data
    other = twin(saved)
    assert set(vars(other)) == set(vars(saved))
    assert other.holdout_ is saved.holdout_
    again = ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [3]}, holdout=other.holdout_
    ).fit(X[:400], y[:400])
    assert len(saved.holdout_.history()) == 2
    assert again.best_score_ == saved.cv_results_["holdout_score"][1]
