"""Digests of data: equal for equal content, different for different content."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.utils import data_digest
from sklearn_bdp.utils.hashing import query_key
from tests.facts import refused

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6) % 2


@pytest.mark.parametrize(
    "changed",
    [
        X + 1e-15 * (X == 3),
        X.astype(np.float32),
        X.reshape(4, 3),
        X[::-1],
        X.tolist(),
        sp.csr_matrix(X),
        pd.DataFrame(X),
        np.where(X == 3, np.nan, X),
    ],
    ids=["one bit", "type", "shape", "order", "list", "sparse", "frame", "nan"],
)
def test_different_data_have_different_digests(changed):
    assert data_digest(changed, Y) != data_digest(X, Y)


def test_targets_and_column_names_change_the_digest():
    assert data_digest(X, Y) != data_digest(X, 1 - Y)
    assert data_digest(pd.DataFrame(X, columns=["a", "b"]), Y) != data_digest(
        pd.DataFrame(X, columns=["b", "a"]), Y
    )


def test_layout_in_memory_does_not_count():
    assert data_digest(np.asfortranarray(X), Y) == data_digest(X, Y)
    assert data_digest(X.astype(">f8"), Y) == data_digest(X, Y)
    unsorted = sp.csr_matrix((np.ones(3), ([0, 0, 1], [1, 0, 1])), shape=(2, 2))
    sorted_matrix = sp.csc_matrix(unsorted.toarray())
    assert data_digest(unsorted, Y) == data_digest(sorted_matrix, Y)


def test_objects_and_missing_marks_have_content():
    frame = pd.DataFrame({"a": ["x", None, "z"], "b": pd.to_datetime(["2020", None, "2022"])})
    frame["c"] = pd.array([1, None, 3], dtype="Int64")
    assert data_digest(frame, Y) == data_digest(frame.copy(), Y)
    assert data_digest(frame, Y) != data_digest(frame.fillna({"a": "y"}), Y)


def test_boundaries_between_parts_count():
    assert query_key("ab", "c") != query_key("a", "bc")
    assert query_key(["a"], "b") != query_key(["a", "b"])
    assert query_key("1") != query_key(1) != query_key(1.0) != query_key(True)


def test_objects_without_stable_content_raise():
    with refused(TypeError, "object"):
        query_key(object())


@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning")
@pytest.mark.parametrize("data", [X, pd.DataFrame(X), sp.csr_matrix(X), X.tolist()])
def test_frozen_data_are_equal_and_apart(data):
    frozen = ReusableHoldout(data, Y).X
    assert frozen is not data
    assert data_digest(frozen, Y) == data_digest(data, Y)


def test_objects_with_an_array_are_hashed_by_value():
    class Tensor:
        """An object like a tensor of torch, whose text leaves values out."""

        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return self.values

        def __repr__(self):
            return "tensor([0., ..., 0.])"

    first = np.zeros(2000)
    second = np.zeros(2000)
    second[1000] = 1.0
    digests = {data_digest(Tensor(values), None) for values in (first, second, first.copy())}
    assert len(digests) == 2
