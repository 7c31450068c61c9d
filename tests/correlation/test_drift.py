"""Drift of training-side scores, in words."""

import numpy as np
import pytest
from scipy.signal import lfilter

from sklearn_bdp.correlation import check_drift

from .series import regimes


def test_a_fall_is_told_with_numbers():
    rng = np.random.default_rng(0)
    scores = rng.random(3000) < np.repeat([0.9, 0.85, 0.7], 1000)
    report = check_drift(scores, names="accuracy")
    assert report.drift
    assert f"{report.first:.3f}" in report.message
    assert f"{report.last:.3f}" in report.message
    assert "future unlike the past" in report.message


def test_dependence_alone_is_no_drift():
    rng = np.random.default_rng(0)
    false = sum(check_drift(regimes(6000, 0.97, rng)).drift for _ in range(60))
    assert false <= 2


def panel(phi, spread, rng, *, n=150, fall=0.0):
    """Return means of fifty series on common dates, which share a shock; a fall at two thirds."""
    shock = lfilter([1.0], [1.0, -phi], rng.normal(size=n + 200) * np.sqrt(1.0 - phi**2))[200:]
    chances = 0.7 + spread * np.tanh(shock) - fall * (np.arange(n) >= 2 * n // 3)
    return rng.binomial(50, chances) / 50.0


@pytest.mark.parametrize("n", [150, 300])
@pytest.mark.parametrize("phi", [0.8, 0.9, 0.95])
def test_a_shock_that_all_series_share_is_no_drift(phi, n):
    """13 of 40 stationary panels were called drifting: thirds of five independent dates each."""
    rng = np.random.default_rng(0)
    false = sum(check_drift(panel(phi, 0.15, rng, n=n)).drift for _ in range(400))
    assert false <= 20


@pytest.mark.parametrize(("phi", "share"), [(0.5, 0.95), (0.8, 0.9), (0.9, 0.75)])
def test_a_fall_beyond_the_shocks_is_drift(phi, share):
    """Twelve autocorrelation times in each third, or silence, found .99, .74 and .44."""
    rng = np.random.default_rng(0)
    found = sum(check_drift(panel(phi, 0.1, rng, n=300, fall=0.2)).drift for _ in range(100))
    assert found >= 100 * share


def test_a_fall_of_a_panel_is_drift_all_the_same():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(20):
        noise = rng.normal(size=300)
        chances = 0.85 + 0.05 * np.tanh(noise + np.r_[0.0, noise[:-1]])
        chances[200:] -= 0.15
        found += check_drift(rng.binomial(50, chances) / 50.0).drift
    assert found >= 18


def test_constant_scores_do_not_drift():
    assert not check_drift(np.ones(60)).drift
    assert check_drift(np.repeat([0.0, 1.0], 60)).drift


def test_short_series_are_refused():
    with pytest.raises(ValueError, match="at least 48"):
        check_drift(np.zeros(20))
