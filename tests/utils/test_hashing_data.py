"""Digests of data: equal for equal content, different for different content."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.utils import data_digest
from sklearn_bdp.utils.hashing import (
    bytes_digest,
    keyed_digest,
    query_key,
    records_digest,
    text_code,
    text_digest,
)
from tests.facts import refused

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6) % 2

PINNED_TEXTS = [
    "5310a58788781ab25d5ad7c3f85035824b4eb7bdfa394e0ac2186271472b5492",
    "c08db418c4bfc413a668d200f40db6bb3b1af88dcbc8b5fd688c038dc93f2104",
    "e7fcbc16f826ad96485eaceefe03a0d954616dfabe1f523bd63bb7621b5e0bd5",
]
PINNED_BYTES = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
PINNED_KEYS = [
    "6728523a8a5a02b8",
    "f4af04f3a2445d1f",
    "ee1d96423eebe75f",
    "94ff8ba38a240de5",
    "51833ea2bd684ee9",
    "65c7fe4313e5ab37",
]
PINNED_RECORDS = ["1bfca533d38a0b20", "9499761f1dcf4ffa", "6bfea111abc9c4ad"]


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


def test_digests_of_texts_and_data_are_those_in_stored_ledgers():
    """Recorded before the modules of digests were joined: answers are found by these keys."""
    frame = pd.DataFrame({"a": [1, 2, 3], "c": pd.Categorical(["u", "v", "u"])})
    frame["b"] = pd.Series(["x", "y", "z"], dtype=object)
    data = [X, sp.csr_matrix(X), frame, frame["c"], [1, 2.5, "a", None], {"b": 1, "a": [X]}]
    assert [text_digest("a", "bc"), text_digest("ä", "bc"), keyed_digest(b"k", "t")] == PINNED_TEXTS
    assert bytes_digest([b"ab", b"c"]) == bytes_digest([b"abc"]) == PINNED_BYTES
    assert text_code("abc") == int(PINNED_BYTES[:16], 16)
    assert [query_key("accuracy", content)[:16] for content in data] == PINNED_KEYS
    assert [records_digest(content, Y)[:16] for content in data[:3]] == PINNED_RECORDS
