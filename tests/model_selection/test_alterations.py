"""Recognising what was done to data since a model was last scored on them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sklearn_bdp.model_selection._alterations import (
    Alteration,
    altered_records,
    column_codes,
    find_columns,
    ordered_digests,
    recognise,
)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(40, 3)), rng.integers(0, 2, size=40)])
    return X, rng.integers(0, 2, size=40)


def as_frame(X):
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame.astype({"d": bool}).assign(c=frame["c"].round(1).astype(str).astype("category"))


def shuffled(X, place, seed=1):
    order = np.random.default_rng(seed).permutation(len(X))
    other = X.copy()
    if isinstance(X, pd.DataFrame):
        other.isetitem(place, X.iloc[order, place].set_axis(X.index))
    else:
        other[:, place] = X[order, place]
    return other


@pytest.mark.parametrize("kind", [np.asarray, as_frame])
def test_shuffled_columns_are_found(table, kind):
    X, y = kind(table[0]), table[1]
    for place in range(4):
        found = recognise(X, y, shuffled(X, place), y)
        assert [column for column, _ in found.shuffled] == [place]
        assert found.key("model") != recognise(X, y, shuffled(X, place, 2), y).key("model")
    assert recognise(X, y, X, y) == Alteration()


@pytest.mark.parametrize("kind", [np.asarray, as_frame])
def test_a_shuffled_column_is_found_in_a_sub_sample(table, kind):
    X, y = kind(table[0]), table[1]
    rows = np.random.default_rng(3).choice(40, 15, replace=False)
    part = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
    assert recognise(X, y, part, y[rows]) == Alteration()
    for place in range(3):
        found = recognise(X, y, shuffled(part, place), y[rows])
        assert [column for column, _ in found.shuffled] == [place]


def test_a_copy_in_single_precision_is_the_same_data(table):
    X, y = table
    single = X.astype(np.float32)
    assert recognise(X, y, single, y) == Alteration()
    assert recognise(single, y, X, y) == Alteration()
    assert recognise(X, y, shuffled(single, 2), y).shuffled[0][0] == 2
    assert recognise(X, y, shuffled(single, 2)[:20], y[:20]).shuffled[0][0] == 2


def test_a_column_set_to_one_value_is_found_and_nothing_else_is_carried_over(table):
    X, y = table
    zeroed = X.copy()
    zeroed[:, 1] = 0.0
    found = recognise(X, y, zeroed, y)
    assert [place for place, _ in found.constant] == [1]
    np.testing.assert_array_equal(altered_records(X, zeroed, found)[:, 1], 0.0)
    blank = X.copy()
    blank[:, 0] = np.nan
    assert np.isnan(altered_records(X, blank, recognise(X, y, blank, y))[:, 0]).all()
    shifted = X.copy()
    shifted[:, 1] += 1.0
    for rows in (40, 20):
        with pytest.raises(ValueError, match=r"\[1\]"):
            recognise(X, y, shifted[:rows], y[:rows])
        assert recognise(X, y, zeroed[:rows], y[:rows]).constant[0][0] == 1


def test_other_rows_are_other_rows(table):
    X, y = table
    assert recognise(X, y, X[:20] + 5.0, y[:20]) is None
    assert recognise(X, y, X + 5.0, y) is None
    assert recognise(X, y, shuffled(X, 0), 1 - y) is None
    assert recognise(X[:, :3], y, X, y) is None
    texts = ["a b", "c"] * 20
    assert recognise(texts, y, list(texts), y) == Alteration()
    assert recognise(texts, y, ["z"] * 40, y) is None
    assert recognise(sp.csr_array(X), y, sp.csr_array(X), y) == Alteration()
    assert recognise(sp.csr_array(X), y, sp.csr_array(2 * X), y) is None


def test_records_get_draws_of_the_shuffled_column_and_keep_their_types(table):
    X, y = table
    frame = as_frame(X)
    for place in range(4):
        altered = shuffled(frame, place)
        found = recognise(frame, y, altered, y)
        records = altered_records(frame.iloc[:30], altered, found)
        assert (records.dtypes == frame.dtypes).all()
        assert set(records.iloc[:, place]) <= set(frame.iloc[:, place])
        others = [c for c in range(4) if c != place]
        pd.testing.assert_frame_equal(records.iloc[:, others], frame.iloc[:30, others])
        pd.testing.assert_frame_equal(records, altered_records(frame.iloc[:30], altered, found))
    whole = np.round(X).astype(int)
    found = recognise(X, y, shuffled(X, 0), y)
    assert altered_records(whole, shuffled(X, 0), found).dtype == float


def test_columns_are_found_by_their_values_where_only_one_has_them(table):
    X, _ = table
    seen = ordered_digests(column_codes(X))
    assert find_columns(seen, X[:, [3, 0]]) == [3, 0]
    assert find_columns(seen, X[:, [0]] + 1) is None
    assert find_columns(seen, X[:20, [0]]) is None
    twice = ordered_digests(column_codes(np.column_stack([X, X[:, 0]])))
    assert find_columns(twice, X[:, [0]]) is None
    assert find_columns(twice, X[:, [1]]) == [1]
