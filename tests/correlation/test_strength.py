"""Strength of dependence read off scores (theory G11)."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import (
    MarkovChain,
    check_misfit,
    integrated_autocorrelation,
    score_strength,
    slow_autocorrelation_time,
)

from .series import autoregressive, regime_time, regimes


def test_swings_by_hand():
    # Squared cosine coefficients by their definition; four swings of 16 scores, ten of 120.
    for n, slow in ((16, 4), (120, 10)):
        scores = regimes(n, 0.8, np.random.default_rng(3))
        place = (np.arange(n) + 0.5) / n
        squares = np.array(
            [
                2 / n * np.sum((scores - scores.mean()) * np.cos(np.pi * j * place)) ** 2
                for j in range(1, 25)
            ]
        )
        squares /= scores.var()
        squares[0] = min(squares[0], squares[1:slow].max())
        time = squares[:slow].mean()
        pairs = np.sort((squares[10::2] + squares[11::2]) / 2)
        beside = pairs[3] / (1 / 4 + 1 / 5 + 1 / 6 + 1 / 7) if n == 120 else 0.0
        expected = max(1.0, time, (time + beside) / 2)
        assert slow_autocorrelation_time(scores) == pytest.approx(expected)


@pytest.mark.parametrize("contraction", [0.5, 0.9, 0.97])
def test_estimate_finds_the_time_of_regimes(contraction):
    """Theory G11: slow swings, stretch of 300 autocorrelation times."""
    truth = regime_time(contraction)
    rng = np.random.default_rng(1)
    found = [
        slow_autocorrelation_time(regimes(int(300 * truth), contraction, rng)) for _ in range(60)
    ]
    assert 0.85 * truth < np.mean(found) < 1.35 * truth
    assert np.mean(np.array(found) * 1.5 >= truth) >= 0.8


def test_windowed_sums_miss_hidden_regimes_and_slow_swings_do_not():
    """Why the estimate never uses a windowed sum (theory G11)."""
    rng = np.random.default_rng(0)
    contraction, scores = 0.995, (0.93, 0.75)
    truth = regime_time(contraction, scores=scores)
    series = [regimes(30_000, contraction, rng, scores=scores) for _ in range(20)]
    windowed = np.median([integrated_autocorrelation(s) for s in series])
    swings = np.median([slow_autocorrelation_time(s) for s in series])
    assert truth > 20
    assert windowed < swings
    assert swings > 0.7 * truth


def test_seasons_inside_the_holdout_and_a_steady_drift_are_no_dependence():
    """Theory G11: only swings that a mean over the holdout does not average out count."""
    rng, n = np.random.default_rng(0), 6000
    time = np.arange(n)
    season = 0.15 * np.sin(2 * np.pi * time / 250)
    drift = 0.2 * (time / n - 0.5)
    plain = [rng.random(n) < 0.75 for _ in range(20)]
    seasonal = [rng.random(n) < 0.75 + season for _ in range(20)]
    drifting = [rng.random(n) < 0.75 + drift for _ in range(20)]
    times = [
        np.mean([slow_autocorrelation_time(s, horizon=2000) for s in series])
        for series in (plain, seasonal, drifting)
    ]
    assert np.max(times) < times[0] + 0.5
    # A holdout shorter than two seasons does not average them out.
    assert np.mean([slow_autocorrelation_time(s, horizon=400) for s in seasonal]) > 5.0


def test_horizon_must_be_a_number_of_records():
    for bad in (0, -3, 2.5):
        with pytest.raises((ValueError, TypeError), match="horizon"):
            MarkovChain.from_scores(np.zeros(100), horizon=bad)


def test_independent_scores_count_one_by_one():
    rng = np.random.default_rng(0)
    found = [slow_autocorrelation_time(rng.random(3000)) for _ in range(50)]
    assert np.mean(found) < 1.5
    assert slow_autocorrelation_time(np.ones(100)) == 1.0


def test_chain_from_scores_declares_the_estimate_times_the_factor():
    scores = regimes(6000, 0.9, np.random.default_rng(0))
    strength = score_strength(scores)
    chain = MarkovChain.from_scores(scores)
    time = (1 + chain.contraction_) / (1 - chain.contraction_)
    assert time == pytest.approx(strength.declared, rel=0.01)
    assert time >= strength.declared * (1 - 1e-12)
    assert chain.effective_n(10_000) == pytest.approx(10_000 / time)
    assert chain.describe().startswith("assumed chain")
    assert any("Assumed" in line for line in chain.caveats)
    assert any("future" in line for line in chain.caveats)


def test_slowest_candidate_counts_and_missing_scores_are_skipped():
    rng = np.random.default_rng(0)
    slow, fast = regimes(4000, 0.95, rng), rng.random(4000)
    both = np.stack([fast, slow])
    both[:, :500] = np.nan
    strength = score_strength(both)
    assert strength.time == slow_autocorrelation_time(slow[500:])
    assert (strength.n_candidates, strength.n_scores) == (2, 3500)


def test_short_stretches_say_so():
    chain = MarkovChain.from_scores(autoregressive(800, 0.95, np.random.default_rng(0)))
    assert any("underestimated" in line for line in chain.caveats)


def test_declared_time_is_exact_and_prints_as_code():
    chain = MarkovChain.from_autocorrelation_time(7.0)
    assert chain.effective_n(7000) == pytest.approx(1000.0)
    assert repr(chain) == "MarkovChain.from_autocorrelation_time(7)"
    assert eval(repr(chain)).effective_n(7000) == pytest.approx(1000.0)
    assert MarkovChain.from_autocorrelation_time(1.0).effective_n(50) == pytest.approx(50.0)
    for bad in (0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="time"):
            MarkovChain.from_autocorrelation_time(bad)


def test_what_the_misfit_message_names_fixes_it():
    scores = regimes(4000, 0.95, np.random.default_rng(3))
    report = check_misfit(MarkovChain([[0.6, 0.4], [0.4, 0.6]]), scores=scores)
    assert report.misfit
    assert "correlation='time'" in report.message
    assert not check_misfit(MarkovChain.from_scores(scores), scores=scores).misfit


def test_too_few_scores_are_refused_by_number():
    with pytest.raises(ValueError, match="at least 16"):
        MarkovChain.from_scores(np.zeros(10))
    with pytest.raises(ValueError, match="safety"):
        MarkovChain.from_scores(np.zeros(100), safety=0.5)
