"""The simulations of ``benchmarks.dependence`` know their truth."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.dependence import processes, searches


@pytest.mark.parametrize("phi", [0.3, 0.9, 0.99])
def test_thresholded_autoregression_at_the_median_is_the_arcsine(phi):
    lags = phi ** np.arange(1, 6000)
    by_arcsine = 1.0 + 4.0 / math.pi * float(np.arcsin(lags).sum())
    assert processes.threshold_time(phi, 0.5) == pytest.approx(by_arcsine, rel=1e-6)


@pytest.mark.parametrize("maker", [processes.regimes, searches.easy])
def test_declared_times_are_those_of_long_means(maker):
    rng, time, n = np.random.default_rng(0), 5.0, 4000
    sample, mean, _ = maker(time)
    means = np.array([sample(n, rng).mean() for _ in range(400)])
    assert means.mean() == pytest.approx(mean, abs=0.005)
    assert means.var() * n / (mean * (1 - mean)) == pytest.approx(time, rel=0.25)


def test_marginals_of_spins_on_a_path_are_those_of_enumeration():
    rng, n, coupling = np.random.default_rng(0), 8, 0.4
    fields, clamped = rng.normal(size=n), np.full(n, np.nan)
    clamped[[2, 5]] = [1.0, -1.0]
    spins = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    spins = spins[(spins[:, 2] == 1.0) & (spins[:, 5] == -1.0)]
    weights = np.exp(spins @ fields + coupling * (spins[:, 1:] * spins[:, :-1]).sum(axis=1))
    exact = (weights[:, None] * (spins > 0)).sum(axis=0) / weights.sum()
    found = 1.0 / (1.0 + np.exp(-searches._marginals(fields, coupling, clamped)))
    free = np.isnan(clamped)
    assert found[free] == pytest.approx(exact[free])


@pytest.mark.parametrize("name", ["independent, None", "regimes, 'time'", "states seen", "graph"])
def test_a_search_is_played_and_judged(name):
    X, y, correlation, truth, groups = searches.MODES[name](2400, np.random.default_rng(1), 2.0)
    missed, width, warned = searches.play(X, y, correlation, truth, groups=groups)
    assert not missed
    assert 0.0 < width <= 0.5
    assert not warned
