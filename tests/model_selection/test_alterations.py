"""Alterations of data since a model's last score on them are applied to the holdout, too."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutScorer, ReusableHoldout


def table():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(800, 3)), rng.integers(0, 2, size=800)])


def as_frame(X):
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame.assign(c=frame["c"].round(0).astype(str).astype("category"), d=frame["d"] > 0.5)


def rows_of(X, rows):
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def shuffled(X, column, seed=1):
    order = np.random.default_rng(seed).permutation(len(X))
    X_shuffled = X.copy()
    if isinstance(X, pd.DataFrame):
        X_shuffled.isetitem(column, X.iloc[order, column].set_axis(X.index))
    else:
        X_shuffled[:, column] = X[order, column]
    return X_shuffled


def verified(X, y, X_holdout, y_holdout, encoder=None):
    """Return a scorer, its holdout, and a tree fitted on the training rows."""
    holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    model = tree if encoder is None else make_pipeline(encoder, tree)
    return HoldoutScorer(holdout), holdout, model.fit(X, y)


@pytest.mark.parametrize("column_index", range(4))
@pytest.mark.parametrize("convert", [np.asarray, as_frame])
def test_a_shuffled_column_is_shuffled_on_the_holdout(convert, column_index):
    X = convert(table())
    column = table()[:, column_index]
    y = (column > (0.5 if column_index == 3 else 0.6)).astype(int)
    encoder = make_column_transformer((OrdinalEncoder(), ["c"]), remainder="passthrough")
    scorer, holdout, model = verified(
        rows_of(X, slice(400)), y[:400], rows_of(X, slice(400, None)), y[400:],
        encoder if convert is as_frame else None,
    )  # fmt: skip
    X = rows_of(X, slice(400))
    y = y[:400]
    assert scorer(model, X, y) > 0.9
    shuffled_score = scorer(model, shuffled(X, column_index), y)
    assert shuffled_score < 0.75
    assert scorer(model, shuffled(X, column_index), y) == shuffled_score
    assert len(holdout.history()) == 2
    scorer(model, shuffled(X, column_index, seed=2), y)
    assert len(holdout.history()) == 3  # drawn in another order


def test_altered_rows_are_scored_on_holdout_records_of_integer_type_without_truncation():
    rng = np.random.default_rng(0)
    y = (rng.random(1_200) < 0.8).astype(int)
    X = np.where(y == 1, 0.6, 0.4)[:, None]
    scorer, _, model = verified(X[:600], y[:600], y[600:, None], y[600:])
    assert scorer(model, X[:600], y[:600]) > 0.95
    assert 0.6 < scorer(model, shuffled(X[:600], 0), y[:600]) < 0.76  # cut off it were .2


@pytest.mark.parametrize("data_type", ["texts", "sparse"])
def test_data_without_columns_have_one_answer(data_type):
    y = np.tile([0, 1], 100)
    if data_type == "texts":
        X = ["a bad day", "a good day"] * 100
        other_X = ["no such day"] * 200
        encoder = CountVectorizer()
    else:
        X = sp.csr_array(np.column_stack([y, 1.0 - y]))
        other_X = 2 * X
        encoder = None
    scorer, holdout, model = verified(X, y, X[::-1] if data_type == "texts" else X * 3, y, encoder)
    answers = {scorer(model, rows, y) for rows in (X, X, other_X)}
    assert len(answers) == len(holdout.history()) == 1
