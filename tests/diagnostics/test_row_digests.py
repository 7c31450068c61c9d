"""Records are recognized by their values, in any container; other records are not."""

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
X_HOLDOUT = X[:100]
Y_HOLDOUT = Y[:100]
FRAME = pd.DataFrame(X, columns=list("abcde"))

DISGUISES = {
    "reversed": (X_HOLDOUT[::-1], Y_HOLDOUT[::-1]),
    "single precision": (X_HOLDOUT.astype(np.float32), Y_HOLDOUT),
    "lists": (X_HOLDOUT.tolist(), Y_HOLDOUT.tolist()),
    "objects": (X_HOLDOUT.astype(object), Y_HOLDOUT.astype(object)),
    "text": (X_HOLDOUT.astype(str), Y_HOLDOUT.astype(str)),
    "float labels": (X_HOLDOUT, Y_HOLDOUT.astype(float)),
    "frame": (pd.DataFrame(X_HOLDOUT), pd.Series(Y_HOLDOUT)),
    "Fortran order": (np.asfortranarray(X_HOLDOUT), Y_HOLDOUT),
    "labels in a column": (X_HOLDOUT, Y_HOLDOUT[:, None]),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_disguised_records_are_found(name):
    assert count_shared_rows(*DISGUISES[name], X_HOLDOUT, Y_HOLDOUT) == (100, 0)


@pytest.mark.parametrize("rows", [slice(0, 95), slice(40, 60), slice(0, 400)])
def test_subsets_and_supersets_are_found(rows):
    shared, chance = count_shared_rows(X[rows], Y[rows], X_HOLDOUT, Y_HOLDOUT)
    assert shared == len(X[rows][: max(0, 100 - rows.start)])
    assert chance <= 1 < shared


def test_other_records_are_not_found():
    assert count_shared_rows(X[100:], Y[100:], X_HOLDOUT, Y_HOLDOUT) == (0, 1)
    assert count_shared_rows(X_HOLDOUT, 1 - Y_HOLDOUT, X_HOLDOUT, Y_HOLDOUT)[0] == 0
    assert (
        count_shared_rows(X_HOLDOUT + 1e-3, Y_HOLDOUT, X_HOLDOUT, Y_HOLDOUT)[0] <= 1
    )  # a missing value stays


def test_columns_are_matched_by_name_if_both_tables_have_names():
    permuted = FRAME[list("edcba")]
    assert count_shared_rows(permuted[:100], Y_HOLDOUT, FRAME[:100], Y_HOLDOUT)[0] == 100
    assert count_shared_rows(FRAME[["a", "b"]][:100], Y_HOLDOUT, FRAME[:100], Y_HOLDOUT)[0] == 100
    renamed = FRAME.set_axis(list("vwxyz"), axis=1)
    assert count_shared_rows(renamed[:100], Y_HOLDOUT, FRAME[:100], Y_HOLDOUT)[0] == 100
    assert count_shared_rows(permuted.to_numpy()[:100], Y_HOLDOUT, X_HOLDOUT, Y_HOLDOUT)[0] == 0


def test_sparse_records_are_the_dense_ones():
    dense_X = np.where(np.abs(np.nan_to_num(X)) < 1, 0.0, np.nan_to_num(X))
    for sparse_type in (sp.csr_matrix, sp.csc_array, sp.coo_matrix):
        assert np.array_equal(row_digests(sparse_type(dense_X), Y), row_digests(dense_X, Y))
        assert count_shared_rows(sparse_type(dense_X), Y, dense_X[:100], Y_HOLDOUT)[0] >= 100


def test_digests_depend_on_values_and_not_on_types():
    frame = pd.DataFrame(
        {
            "a": pd.Categorical(["x", "y", None]),
            "b": pd.to_datetime(["2020", None, "2022"]),
            "c": pd.array([1, None, 3], dtype="Int64"),
            "d": ["1", 1.0, np.float32(2)],
            "e": [True, False, True],
        }
    )
    digests = row_digests(frame)
    assert len(set(digests)) == 3
    object_frame = frame.astype({"a": object, "c": object, "e": int})
    assert np.array_equal(digests, row_digests(object_frame))
    assert np.array_equal(row_digests([["1", 2]]), row_digests(np.array([[1.0, 2.0]])))
    assert np.array_equal(row_digests(["one", "two"]), row_digests(np.array(["one", "two"])))
    assert row_digests([[0.0]])[0] == row_digests([[-0.0]])[0]


@pytest.mark.parametrize("load", [load_iris, load_digits, load_breast_cancer, load_wine])
def test_ordinary_splits_of_ordinary_data_pass(load):
    """Iris has two equal flowers: one record on either side is chance."""
    data, labels = load(return_X_y=True)
    for seed in range(60):
        X_train, X_holdout, y_train, y_holdout = train_test_split(data, labels, random_state=seed)
        shared, chance = count_shared_rows(X_train, y_train, X_holdout, y_holdout)
        assert shared <= chance


@pytest.mark.parametrize("n_values", [2, 4, 8])
def test_splits_of_populations_with_equal_records_pass(n_values):
    """The rate of equal records inside the training set shows how many are legitimate."""
    rng = np.random.default_rng(n_values)
    n_rejected = 0
    for _ in range(60):
        data = rng.integers(0, n_values, size=(1200, 4))
        labels = rng.integers(0, 2, size=1200)
        shared, chance = count_shared_rows(data[300:], labels[300:], data[:300], labels[:300])
        n_rejected += shared > chance
    assert n_rejected <= 1


def test_the_holdout_itself_is_found_in_populations_with_equal_records():
    rng = np.random.default_rng(5)
    data = rng.integers(0, 2, size=(300, 4))
    labels = rng.integers(0, 2, size=300)
    order = rng.permutation(300)
    assert count_shared_rows(data[order], labels[order], data, labels) == (300, 0)


def test_incomparable_rows_are_not_counted():
    assert count_shared_rows(X[:, :3], Y, X_HOLDOUT, Y_HOLDOUT) == (0, 0)
    assert count_shared_rows([[1, 2], [3]], [0, 1], X_HOLDOUT, Y_HOLDOUT) == (0, 0)


def test_repeated_entries_of_sparse_records_are_added():
    repeated = sp.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    expected = row_digests(repeated.toarray()).tolist()
    assert row_digests(repeated).tolist() == expected
    assert repeated.nnz == 3
