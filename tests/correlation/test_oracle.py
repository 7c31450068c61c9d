"""The oracle itself: hand-computed cases, so that other tests can rely on it."""

import math

import numpy as np
import pytest

from .oracle import (
    bdp_leakage,
    block_leakage,
    chain_distribution,
    field_distribution,
    leakage,
    mean_score,
    mean_tail,
    sequential_leakage,
)


def test_leakage_of_independent_records_is_the_epsilon_of_the_mechanism():
    """Theory B0."""
    joint = field_distribution(
        [2, 3, 2], {(0,): np.array([1.0, 2.0]), (1,): np.array([1.0, 1.0, 3.0])}
    )
    assert bdp_leakage(joint, 0.3) == pytest.approx(0.3, abs=1e-7)
    assert sequential_leakage(joint, 0.3) == pytest.approx(0.3, abs=1e-7)


def test_copies_leak_together():
    """Theory B1."""
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[1, 1, 1] = 0.5
    assert bdp_leakage(joint, 0.2) == pytest.approx(0.6, abs=1e-7)


def test_two_record_chain_by_hand():
    # One unknown neighbor: ln[(1 + p(e-1)) / (1 + q(e-1))] more than its own level.
    p = 0.9
    q = 0.2
    e = 0.5
    joint = chain_distribution([[p, 1 - p], [q, 1 - q]], 2)
    t = math.expm1(e)
    expected = max(
        math.log((1 + p * t) / (1 + q * t)), math.log((1 + (1 - q) * t) / (1 + (1 - p) * t))
    )
    assert leakage(joint, e, 0, []) == pytest.approx(e + expected, abs=1e-7)
    assert leakage(joint, e, 0, [1]) == pytest.approx(e, abs=1e-7)
    assert block_leakage(joint, e, [0, 1], []) == pytest.approx(2 * e, abs=1e-7)


def test_distributions_are_laws():
    joint = chain_distribution(
        [[0.9, 0.1], [0.2, 0.8]], 3, emissions=[np.eye(2), np.ones((2, 1)), np.eye(2)]
    )
    assert joint.shape == (2, 1, 2)
    assert joint.sum() == pytest.approx(1.0)
    assert joint[0, 0, 0] == pytest.approx(2 / 3 * (0.81 + 0.02))
    scores = [[0, 1], [0.5], [0, 1]]
    assert mean_score(joint, scores) == pytest.approx((1 / 3 + 0.5 + 1 / 3) / 3)
    assert mean_tail(joint, scores, 2.5 / 3) == pytest.approx(1 / 3 * (0.64 + 0.02))
