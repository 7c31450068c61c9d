"""Copies are told from the equal records of a discrete population by what is nearly equal."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from sklearn_bdp._digests import count_copies

RNG = np.random.default_rng(0)
N = 1000


def halves(X, y, *, seed=0):
    """Return a table, divided at random as a search divides it."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, held = order[len(X) // 4 :], order[: len(X) // 4]

    def take(data, rows):
        if data is None:
            return None
        return data.iloc[rows] if hasattr(data, "iloc") else data[rows]

    return take(X, train), take(y, train), take(X, held), take(y, held)


def counted(X, y):
    """Return copies by another route: rows as tuples."""
    X, y, X_held, y_held = halves(X, y)
    known = {(*row, label) for row, label in zip(X.tolist(), y.tolist(), strict=True)}
    return sum(
        (*row, label) in known for row, label in zip(X_held.tolist(), y_held.tolist(), strict=True)
    )


def mixed():
    return np.hstack([RNG.normal(size=(N, 3)), np.eye(30)[RNG.integers(0, 30, N)]])


TABLES = {
    "numbers": RNG.normal(size=(N, 20)),
    "two columns": RNG.normal(size=(N, 2)),
    "rounded": RNG.normal(size=(N, 20)).round(1),
    "numbers and categories": mixed(),
    "many binary columns": RNG.integers(0, 2, (N, 60)),
    "digits": load_digits().data[:N],
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_drawn_with_replacement_holds_copies_and_the_table_itself_none(name):
    X, y = TABLES[name], RNG.integers(0, 2, N)
    drawn = np.random.default_rng(1).integers(0, N, 2 * N)
    assert count_copies(*halves(X, y)) == 0
    assert count_copies(*halves(X[drawn], y[drawn])) == counted(X[drawn], y[drawn]) > 300


def test_an_oversampled_class_is_copies_in_frames_and_lists_too():
    X, y = TABLES["numbers"], np.repeat([0, 1], [N - 100, 100])
    rows = np.concatenate([np.arange(N), np.random.default_rng(1).integers(N - 100, N, 500)])
    plain = count_copies(*halves(X[rows], y[rows]))
    assert plain == counted(X[rows], y[rows]) > 100
    frame = pd.DataFrame(X[rows]).assign(kind=np.where(y[rows], "case", "control"))
    assert count_copies(*halves(frame, pd.Series(y[rows]))) == plain
    train, targets, held, held_targets = halves(X[rows], y[rows])
    lists = (train.tolist(), targets.tolist(), held.tolist(), held_targets.tolist())
    assert count_copies(*lists) == plain


def discrete():
    rng = np.random.default_rng(2)
    level = rng.normal(size=(3000, 1))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 3), axis=-1).reshape(-1, 3)
    one_hot = np.hstack(
        [np.eye(10)[rng.integers(0, 10, 3000)], np.eye(8)[rng.integers(0, 8, 3000)]]
    )
    return {
        "binary": rng.integers(0, 2, (3000, 5)),
        "rare marks": (rng.random((3000, 30)) < 0.05) * 1,
        "rare marks, wide": (rng.random((500, 5000)) < 0.001) * 1,
        "categories": rng.integers(0, 6, (3000, 4)),
        "heavy tails": rng.zipf(1.5, (3000, 3)),
        "counts": rng.poisson(0.3, (3000, 20)),
        "answers": np.clip(np.round(1.5 * level + 0.3 * rng.normal(size=(3000, 12))), -2, 2),
        "zeros among numbers": rng.normal(size=(3000, 4)) * (rng.random((3000, 4)) < 0.3),
        "rounded": rng.normal(size=(3000, 2)).round(1),
        "one-hot": one_hot,
        "a grid": grid[rng.integers(0, len(grid), 3000)],
        "repeated measurements": rng.normal(size=(50, 3))[rng.integers(0, 50, 3000)],
        "one column": rng.integers(0, 500, (3000, 1)),
        "constant": np.zeros((3000, 4)),
    }


@pytest.mark.parametrize("name", discrete())
@pytest.mark.parametrize("labels", ["at random", "by the first column"])
def test_equal_records_of_a_discrete_population_are_no_copies(name, labels):
    X = discrete()[name]
    y = np.random.default_rng(3).integers(0, 2, len(X))
    if labels == "by the first column" and name != "repeated measurements":
        y = (X[:, 0] > np.median(X[:, 0])) * 1
    assert count_copies(*halves(X, y)) == 0


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_iris, load_wine])
def test_well_known_tables_hold_none(load):
    X, y = load(return_X_y=True)
    assert all(count_copies(*halves(X, y, seed=seed)) == 0 for seed in range(5))


def test_what_cannot_be_compared_counts_as_none():
    X, y = TABLES["numbers"], RNG.integers(0, 2, N)
    texts = ["same text"] * 40
    assert count_copies(sp.csr_array(X), y, sp.csr_array(X), y) == 0
    assert count_copies(texts, [0, 1] * 20, texts, [0, 1] * 20) == 0
    assert count_copies(X, y, X[:, :4], y) == 0
    assert count_copies([[1, 2], [3]], [0, 1], [[1, 2], [3]], [0, 1]) == 0
