"""Adaptive attacks on approximate intervals: exact scores, and the share of wrong lives."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import get_scorer

pytest.importorskip("benchmarks.attack_scorers")
from benchmarks.attack_scorers import (
    ATTACKS,
    BETA,
    METRICS,
    VoteClassifier,
    VoteRegressor,
    live,
    score_on_new_records,
)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("signal", [0.0, 0.7])
def test_exact_score_is_the_limit_of_the_sample_score(metric, signal):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=200_000)
    if metric == "r2":
        y = rng.normal(size=noise.size)
        column = signal * y + np.sqrt(1.0 - signal**2) * noise
        model = VoteRegressor(weights=(signal,))
    else:
        y = rng.integers(0, 2, noise.size)
        column = signal * (2.0 * y - 1.0) + noise
        model = VoteClassifier()
    X = column[:, None]
    score = get_scorer(metric)(model.fit(X, y), X, y)
    assert score == pytest.approx(score_on_new_records(metric, signal), abs=0.008)


@pytest.mark.parametrize("attack", ["greedy", "grid"])
def test_adaptive_analyst_finds_no_wrong_interval(attack):
    result = live("f1_macro", attack, seed=0)
    assert not result.is_wrong
    assert 0.0 < result.report_level <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_lives_with_a_wrong_interval_are_rare(metric, attack):
    n_lives = 25
    count = sum(live(metric, attack, seed).is_wrong for seed in range(n_lives))
    # A share of 5 % passes with probability .999 in each of the 20 cases.
    assert count <= binom.ppf(0.999, n_lives, BETA)
