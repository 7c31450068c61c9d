"""Paired gains on the training side: exact values, and how often chance passes."""

import math

import numpy as np
import pytest
from scipy import stats

from sklearn_bdp._evaluation import paired_gain


def test_gain_is_what_is_won_minus_what_is_lost():
    first, second = np.array([1.0, 1.0, 0.0, 1.0, np.nan]), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    found = paired_gain(first, second, is_mean=True, n_effective=5)
    assert (found.wins, found.losses, found.gain) == (0.5, 0.25, 0.25)
    # variance of (1, 0, -1, 1) and one record more: 3/4 - 1/16 + 1/4
    assert found.error == pytest.approx(math.sqrt((0.75 - 0.0625 + 0.25) / 4))


def test_gain_of_folds_is_judged_by_students_t():
    found = paired_gain(np.array([0.8, 0.9]), np.array([0.7, 0.6]), is_mean=False, n_effective=9)
    assert found.gain == pytest.approx(0.2)
    assert found.error == pytest.approx(0.1)
    assert found.chance(4, 0.2) == pytest.approx(0.1 * stats.t(1).isf(0.05))


def test_one_fold_is_no_evidence():
    found = paired_gain(np.array([0.9]), np.array([0.1]), is_mean=False, n_effective=9)
    assert found.chance(1, 0.2) == math.inf


def test_correlated_records_are_fewer():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (2, 400)).astype(float)
    plain = paired_gain(first, second, is_mean=True, n_effective=400)
    grouped = paired_gain(first, second, is_mean=True, n_effective=100)
    assert grouped.error == pytest.approx(2 * plain.error)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_the_best_of_useless_candidates_exceeds_chance_as_rarely_as_promised(rate):
    rng = np.random.default_rng(1)
    passed, repetitions, m, n = 0, 300, 20, 500
    for _ in range(repetitions):
        signs = rng.choice([-1.0, 0.0, 1.0], size=(m, n), p=[rate / 2, 1 - rate, rate / 2])
        gains = [paired_gain(s, np.zeros(n), is_mean=True, n_effective=n) for s in signs]
        passed += any(gain.gain > gain.chance(m, 0.2) for gain in gains)
    assert passed <= stats.binom(repetitions, 0.2).ppf(0.999)
