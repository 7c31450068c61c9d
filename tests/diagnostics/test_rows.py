"""Records are recognised by their values, whatever they are kept in, and nothing else is."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from sklearn_bdp.diagnostics.overlap import count_shared_rows, row_digests

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
X[3, 2] = np.nan
Y = RNG.integers(0, 2, size=400)
HELD, LABELS = X[:100], Y[:100]
FRAME = pd.DataFrame(X, columns=list("abcde"))

DISGUISES = {
    "reversed": (HELD[::-1], LABELS[::-1]),
    "single precision": (HELD.astype(np.float32), LABELS),
    "lists": (HELD.tolist(), LABELS.tolist()),
    "objects": (HELD.astype(object), LABELS.astype(object)),
    "text": (HELD.astype(str), LABELS.astype(str)),
    "float labels": (HELD, LABELS.astype(float)),
    "frame": (pd.DataFrame(HELD), pd.Series(LABELS)),
    "Fortran order": (np.asfortranarray(HELD), LABELS),
    "labels in a column": (HELD, LABELS[:, None]),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_disguised_records_are_found(name):
    assert count_shared_rows(*DISGUISES[name], HELD, LABELS) == (100, 0)


@pytest.mark.parametrize("rows", [slice(0, 95), slice(40, 60), slice(0, 400)])
def test_parts_and_wholes_are_found(rows):
    shared, chance = count_shared_rows(X[rows], Y[rows], HELD, LABELS)
    assert shared == len(X[rows][: max(0, 100 - rows.start)])
    assert chance <= 1 < shared


def test_other_records_are_not_found():
    assert count_shared_rows(X[100:], Y[100:], HELD, LABELS) == (0, 1)
    assert count_shared_rows(HELD, 1 - LABELS, HELD, LABELS)[0] == 0
    assert count_shared_rows(HELD + 1e-3, LABELS, HELD, LABELS)[0] <= 1  # a missing value stays


def test_columns_are_known_by_name_where_both_have_names():
    permuted = FRAME[list("edcba")]
    assert count_shared_rows(permuted[:100], LABELS, FRAME[:100], LABELS)[0] == 100
    assert count_shared_rows(FRAME[["a", "b"]][:100], LABELS, FRAME[:100], LABELS)[0] == 100
    renamed = FRAME.set_axis(list("vwxyz"), axis=1)
    assert count_shared_rows(renamed[:100], LABELS, FRAME[:100], LABELS)[0] == 100
    assert count_shared_rows(permuted.to_numpy()[:100], LABELS, HELD, LABELS)[0] == 0


def test_sparse_records_are_the_dense_ones():
    dense = np.where(np.abs(np.nan_to_num(X)) < 1, 0.0, np.nan_to_num(X))
    for form in (sp.csr_matrix, sp.csc_array, sp.coo_matrix):
        assert np.array_equal(row_digests(form(dense), Y), row_digests(dense, Y))
        assert count_shared_rows(form(dense), Y, dense[:100], LABELS)[0] >= 100


def test_every_kind_of_cell_has_a_value():
    frame = pd.DataFrame(
        {
            "a": pd.Categorical(["x", "y", None]),
            "b": pd.to_datetime(["2020", None, "2022"]),
            "c": pd.array([1, None, 3], dtype="Int64"),
            "d": ["1", 1.0, np.float32(2)],
            "e": [True, False, True],
        }
    )
    found = row_digests(frame)
    assert len(set(found)) == 3
    objects = frame.astype({"a": object, "c": object, "e": int})
    assert np.array_equal(found, row_digests(objects))
    assert np.array_equal(row_digests([["1", 2]]), row_digests(np.array([[1.0, 2.0]])))
    assert np.array_equal(row_digests(["one", "two"]), row_digests(np.array(["one", "two"])))
    assert row_digests([[0.0]])[0] == row_digests([[-0.0]])[0]


@pytest.mark.parametrize("load", [load_iris, load_digits, load_breast_cancer, load_wine])
def test_ordinary_splits_of_ordinary_data_pass(load):
    """Iris has two equal flowers: one record on either side is chance."""
    data, labels = load(return_X_y=True)
    for seed in range(60):
        left, right, left_y, right_y = train_test_split(data, labels, random_state=seed)
        shared, chance = count_shared_rows(left, left_y, right, right_y)
        assert shared <= chance


@pytest.mark.parametrize("kinds", [2, 4, 8])
def test_splits_of_populations_with_equal_records_pass(kinds):
    """The rate of equal records inside the training set shows how many are legitimate."""
    rng = np.random.default_rng(kinds)
    refused = 0
    for _ in range(60):
        data, labels = rng.integers(0, kinds, size=(1200, 4)), rng.integers(0, 2, size=1200)
        shared, chance = count_shared_rows(data[300:], labels[300:], data[:300], labels[:300])
        refused += shared > chance
    assert refused <= 1


def test_the_holdout_itself_is_found_in_populations_with_equal_records():
    rng = np.random.default_rng(5)
    data, labels = rng.integers(0, 2, size=(300, 4)), rng.integers(0, 2, size=300)
    order = rng.permutation(300)
    assert count_shared_rows(data[order], labels[order], data, labels) == (300, 0)


def test_rows_that_cannot_be_compared_are_not():
    assert count_shared_rows(X[:, :3], Y, HELD, LABELS) == (0, 0)
    assert count_shared_rows([[1, 2], [3]], [0, 1], HELD, LABELS) == (0, 0)
