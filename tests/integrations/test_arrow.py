"""Tables of pyarrow are taken as scikit-learn takes them: scores are those of the same frame."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV

pyarrow = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.client("pyarrow", "a `Table` as X and a column as y: searches, holdouts, scorers"),
    # The same records as frame and as table are two accounts in memory.
    pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning"),
]
FRAME, TARGETS = load_breast_cancer(return_X_y=True, as_frame=True)
TABLE = pyarrow.Table.from_pandas(FRAME)
COLUMN = pyarrow.chunked_array([TARGETS.to_numpy()])
TREE = DecisionTreeClassifier(random_state=0)


def test_a_search_of_a_table_is_that_of_its_frame():
    frame_search, table_search = (
        ReusableHoldoutSearchCV(TREE, {"max_depth": [1, 2]}, random_state=0).fit(X, y)
        for X, y in ((FRAME, TARGETS), (TABLE, COLUMN))
    )
    for name in ("mean_test_score", "holdout_score", "holdout_lower", "holdout_upper"):
        np.testing.assert_array_equal(
            table_search.cv_results_[name], frame_search.cv_results_[name]
        )
    np.testing.assert_array_equal(table_search.predict(TABLE), frame_search.predict(FRAME))


def test_a_holdout_and_a_scorer_take_parts_of_a_table():
    holdout_rows = np.arange(300, 569)
    holdout = ReusableHoldout(TABLE.take(holdout_rows), COLUMN.take(holdout_rows), random_state=0)
    model = TREE.fit(FRAME[:300], TARGETS[:300])
    table_score = HoldoutScorer(holdout)(model, TABLE.slice(0, 300), COLUMN.slice(0, 300))
    assert table_score == HoldoutScorer(holdout)(model, FRAME[:300], TARGETS[:300])
    assert len(holdout.history()) == 1  # the same model on the same records is known
