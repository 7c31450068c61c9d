"""Splits and folds cut no dependence and leave no side empty."""

import numpy as np
import pytest

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent
from tests.facts import refused


def check_partition(pairs, n):
    assert np.array_equal(np.sort(np.concatenate([test for _, test in pairs])), np.arange(n))
    for train, test in pairs:
        assert len(train)
        assert len(test)
        assert not set(train) & set(test)


@pytest.mark.parametrize("n", [2, 7, 100])
def test_random_split_is_a_partition_of_the_right_size(n):
    for fraction in (0.01, 0.25, 0.5, 0.6):
        size = int(np.ceil(n * fraction - 1e-9))
        if size == n:
            continue  # refused, see below
        split = Independent().split(n, fraction, random_state=0)
        assert len(split.holdout) == size
        assert np.array_equal(np.sort(np.r_[split.train, split.holdout]), np.arange(n))
        assert split.gap == 0


def test_random_state_decides():
    split = Independent().split(50, 0.3, random_state=3)
    assert np.array_equal(split.holdout, Independent().split(50, 0.3, random_state=3).holdout)
    assert not np.array_equal(split.holdout, Independent().split(50, 0.3, random_state=4).holdout)
    generator = np.random.default_rng(3)
    assert np.array_equal(
        split.holdout, Independent().split(50, 0.3, random_state=generator).holdout
    )
    legacy = np.random.RandomState(0)
    assert len(Independent().split(50, 0.3, random_state=legacy).holdout) == 15


@pytest.mark.parametrize("seed", range(5))
def test_groups_stay_whole(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 12, size=200)
    model = Groups(groups)
    split = model.split(200, 0.25, random_state=seed)
    assert not set(groups[split.train]) & set(groups[split.holdout])
    assert abs(len(split.holdout) - 50) <= 20
    pairs = model.folds(200, 4, random_state=seed)
    check_partition(pairs, 200)
    for train, test in pairs:
        assert not set(groups[train]) & set(groups[test])
        assert 35 <= len(test) <= 65


def test_one_giant_group_still_leaves_two_sides():
    split = Groups([0] * 50 + [1]).split(51, 0.25, random_state=0)
    assert {len(split.train), len(split.holdout)} == {1, 50}


def test_independent_folds():
    check_partition(Independent().folds(10, 3), 10)
    check_partition(Independent().folds(10, 3, random_state=0), 10)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: Independent().split(1, 0.5), "holdout=0.5"),
        (lambda: Independent().split(3, 0.9), "holdout=0.9"),
        (lambda: Independent().split(10, 0.0), "holdout=0.0"),
        (lambda: Independent().split(10, 1.0), "holdout=1.0"),
        (lambda: Independent().folds(3, 4), "n_splits=4"),
        (lambda: Independent().folds(3, 1), "n_splits=1"),
        (lambda: Groups([0, 0]).split(2, 0.5), "holdout"),
        (lambda: Groups([0, 0, 1]).folds(3, 3), "n_splits=3"),
        (lambda: DependencyGraph(np.ones((3, 3))).split(3, 0.5), "correlation"),
    ],
)
def test_bad_requests_are_named(call, fact):
    with refused(ValueError, fact):
        call()
