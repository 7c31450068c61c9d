"""Strength of dependence read off scores (theory G11)."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.chain import slow_autocorrelation_time
from tests.facts import refused

from .series import autoregressive, regime_time, regimes


def test_swings_by_hand():
    # Squared cosine coefficients by their definition; four swings of 16 scores, ten of 120.
    for n, slow in ((16, 4), (120, 10)):
        scores = regimes(n, 0.8, np.random.default_rng(3))
        positions = (np.arange(n) + 0.5) / n
        squares = np.array(
            [
                2 / n * np.sum((scores - scores.mean()) * np.cos(np.pi * j * positions)) ** 2
                for j in range(1, 25)
            ]
        )
        squares /= scores.var()
        squares[0] = min(squares[0], squares[1:slow].max())
        time = squares[:slow].mean()
        pairs = np.sort((squares[10::2] + squares[11::2]) / 2)
        quantile_time = pairs[3] / (1 / 4 + 1 / 5 + 1 / 6 + 1 / 7) if n == 120 else 0.0
        expected = max(1.0, time, (time + quantile_time) / 2)
        assert slow_autocorrelation_time(scores) == pytest.approx(expected)


@pytest.mark.parametrize("contraction", [0.5, 0.9, 0.97])
def test_estimate_finds_the_time_of_regimes(contraction):
    """Theory G11: slow swings, stretch of 300 autocorrelation times."""
    truth = regime_time(contraction)
    rng = np.random.default_rng(1)
    estimates = [
        slow_autocorrelation_time(regimes(int(300 * truth), contraction, rng)) for _ in range(60)
    ]
    assert 0.85 * truth < np.mean(estimates) < 1.35 * truth
    assert np.mean(np.array(estimates) * 1.5 >= truth) >= 0.8


def test_slow_hidden_regimes_are_not_missed():
    """A windowed sum (theory G11) is not used because it gives less than half of this time."""
    rng = np.random.default_rng(0)
    contraction = 0.995
    scores = (0.93, 0.75)
    truth = regime_time(contraction, scores=scores)
    series = [regimes(30_000, contraction, rng, scores=scores) for _ in range(20)]
    assert truth > 20
    assert np.median([slow_autocorrelation_time(s) for s in series]) > 0.7 * truth


def test_a_season_and_a_steady_drift_are_no_dependence():
    """Theory G11: only swings that a mean over the holdout does not average out count."""
    rng = np.random.default_rng(0)
    n = 6000
    time = np.arange(n)
    season = 0.15 * np.sin(2 * np.pi * time / 250)
    drift = 0.2 * (time / n - 0.5)
    base_time, seasonal_time, drifting_time = (
        np.mean([slow_autocorrelation_time(rng.random(n) < 0.75 + trend) for _ in range(20)])
        for trend in (0.0, season, drift)
    )
    assert max(seasonal_time, drifting_time) < base_time + 0.5


def test_independent_scores_count_one_by_one():
    rng = np.random.default_rng(0)
    estimates = [slow_autocorrelation_time(rng.random(3000)) for _ in range(50)]
    assert np.mean(estimates) < 1.5
    assert slow_autocorrelation_time(np.ones(100)) == 1.0


def test_chain_from_scores_declares_the_estimate_times_the_factor():
    scores = regimes(6000, 0.9, np.random.default_rng(0))
    declared = 1.5 * slow_autocorrelation_time(scores)
    chain = MarkovChain.from_scores(scores)
    time = (1 + chain.contraction_) / (1 - chain.contraction_)
    assert declared * (1 - 1e-12) <= time <= 1.01 * declared
    assert chain.effective_n(10_000) == pytest.approx(10_000 / time)
    assert chain.describe().startswith("assumed chain")
    assert any("Assumed" in line for line in chain.caveats)
    assert any("future" in line for line in chain.caveats)


def test_slowest_candidate_counts_and_missing_scores_are_skipped():
    rng = np.random.default_rng(0)
    slow = regimes(4000, 0.95, rng)
    fast = rng.random(4000)
    candidate_scores = np.stack([fast, slow])
    candidate_scores[:, :500] = np.nan
    assert MarkovChain.from_scores(candidate_scores).effective_n(1000) == pytest.approx(
        MarkovChain.from_scores(slow[500:]).effective_n(1000)
    )
    assert (
        "3500 cross-validated scores, candidates: 2"
        in MarkovChain.from_scores(candidate_scores).describe()
    )


def test_short_series_give_a_caveat():
    chain = MarkovChain.from_scores(autoregressive(800, 0.95, np.random.default_rng(0)))
    assert any("underestimated" in line for line in chain.caveats)


def test_declared_time_is_exact_and_prints_as_code():
    chain = MarkovChain.from_autocorrelation_time(7.0)
    assert chain.effective_n(7000) == pytest.approx(1000.0)
    assert repr(chain) == "MarkovChain.from_autocorrelation_time(7)"
    assert eval(repr(chain)).effective_n(7000) == pytest.approx(1000.0)
    assert MarkovChain.from_autocorrelation_time(1.0).effective_n(50) == pytest.approx(50.0)
    for bad in (0.5, math.nan, math.inf):
        with refused(ValueError, "time"):
            MarkovChain.from_autocorrelation_time(bad)


def test_too_few_scores_are_rejected_by_number():
    with refused(ValueError, "scores", 16):
        MarkovChain.from_scores(np.zeros(10))
