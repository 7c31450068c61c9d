"""Tables of pyarrow are refused by name, with what to pass, and without a value of theirs."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.client("pyarrow", "a `Table` as X is refused: pass `X.to_pandas()`")


@pytest.mark.parametrize("where", ["search", "holdout", "scorer"])
def test_tables_are_refused_with_the_remedy(where):
    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    table = pyarrow.Table.from_pandas(frame)
    train = np.arange(300)
    holdout = ReusableHoldout(frame.drop(index=train), y.drop(index=train))
    model = DecisionTreeClassifier(random_state=0).fit(frame.iloc[train], y.iloc[train])
    calls = {
        "search": lambda: ReusableHoldoutSearchCV(model, {"max_depth": [1]}).fit(table, y),
        "holdout": lambda: ReusableHoldout(table, y),
        "scorer": lambda: HoldoutScorer(holdout)(model, table, y),
    }
    with pytest.raises(
        TypeError, match=r"^X must be .* Table\. Pass X\.to_pandas\(\)\.$"
    ) as caught:
        calls[where]()
    assert "17.99" not in str(caught.value)
    assert len(holdout.history()) == 0
