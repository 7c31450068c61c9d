"""Misfit checks: silent on chains that fit, loud on chains that do not."""

import numpy as np
import pytest

from sklearn_bdp.correlation import (
    Groups,
    Independent,
    MarkovChain,
    check_misfit,
    integrated_autocorrelation,
)

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])


def simulate(matrix, n, seed):
    rng = np.random.default_rng(seed)
    steps, states = matrix.cumsum(axis=1), [0]
    for u in rng.random(n - 1):
        states.append(int(np.searchsorted(steps[states[-1]], u)))
    return np.array(states)


def test_integrated_time_by_hand():
    # deviations -3, -1, 1, 3 over 2: autocorrelations 1, .25, -.3, -.45: one positive pair
    assert integrated_autocorrelation([0.0, 1.0, 2.0, 3.0]) == pytest.approx(2 * 1.25 - 1)
    assert integrated_autocorrelation(np.ones(5)) == pytest.approx(1)
    with pytest.raises(ValueError, match="two records"):
        integrated_autocorrelation([1.0])


def test_integrated_time_of_an_autoregression():
    rng, n, rho = np.random.default_rng(0), 60_000, 0.8
    noise, series = rng.normal(size=n), np.zeros(n)
    for i in range(1, n):
        series[i] = rho * series[i - 1] + noise[i]
    assert integrated_autocorrelation(series) == pytest.approx((1 + rho) / (1 - rho), rel=0.1)
    assert integrated_autocorrelation(noise) == pytest.approx(1.0, abs=0.1)


def test_chains_that_fit_stay_silent():
    loud = 0
    for seed in range(60):
        states = simulate(P1, 2000, seed)
        report = check_misfit(MarkovChain(P1), scores=(states == 1).astype(float))
        loud += report.misfit
        assert report.promised_time == pytest.approx(17 / 3)
    assert loud <= 2


def test_scores_that_remember_longer_are_found():
    slow = simulate(np.array([[0.98, 0.02], [0.04, 0.96]]), 5000, 0).astype(float)
    report = check_misfit(MarkovChain(P1), scores=slow)
    assert report.misfit
    assert report.autocorrelation_time > 15
    assert "by the model 1 record in 5.7 counts" in report.message
    assert check_misfit(Independent(), scores=slow).misfit
    assert not check_misfit(Groups(np.arange(5000) // 100), scores=slow).misfit


def test_short_series_work():
    states = simulate(P1, 400, 0)
    chains = MarkovChain.from_states(states)
    assert not check_misfit(chains, scores=states).misfit
    quiet = check_misfit(MarkovChain(P1), scores=[0.0, 1.0])
    assert not quiet.misfit
    assert quiet.message == ""
    with pytest.raises(ValueError, match="level"):
        check_misfit(MarkovChain(P1), scores=states, level=0.0)
    with pytest.raises(ValueError, match="finite"):
        check_misfit(MarkovChain(P1), scores=[0.0, np.nan])
