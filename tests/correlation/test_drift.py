"""Drift of training-side scores, in words."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("phi", [0.8, 0.9, 0.95])
def test_a_shock_that_all_series_share_is_no_drift(phi):
    """13 of 40 stationary panels were called drifting: thirds of five independent dates each."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(40):
        shock = np.zeros(350)
        for t in range(1, 350):
            shock[t] = phi * shock[t - 1] + np.sqrt(1.0 - phi**2) * rng.normal()
        chances = 0.7 + 0.15 * np.tanh(shock[-150:])
        false += check_drift(rng.binomial(50, chances) / 50.0).drift
    assert false <= 2


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
