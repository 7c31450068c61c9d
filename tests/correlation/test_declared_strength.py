"""A declared strength of dependence is tested on training scores or labels (theory G33, G25)."""

import networkx as nx
import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import chi2

from sklearn_bdp.correlation import (
    MarkovChain,
    MarkovNetwork,
    TimeOrdered,
    autocorrelation_time_test,
    check_correlation,
)
from sklearn_bdp.correlation.strength import declared_strength_test, influence_test
from tests.facts import refused


def autoregression(n, time, rng, *, has_heavy_tails=False):
    """Return an autoregression with this autocorrelation time."""
    phi = (time - 1.0) / (time + 1.0)
    shocks = rng.standard_t(3, n + 1000) if has_heavy_tails else rng.normal(size=n + 1000)
    return lfilter([1.0], [1.0, -phi], shocks)[1000:]


def test_the_statistic_by_hand():
    scores = np.random.default_rng(0).normal(size=90) + np.repeat([0.0, 3.0, 0.0], 30)
    # Three blocks of ten times two records are too few: only the 15 blocks of six count.
    result = autocorrelation_time_test(scores, 2.0)
    means = scores.reshape(15, 6).mean(axis=1)
    ratio = 6.0 * np.sum((means - means.mean()) ** 2) / (scores.var() * 2.0) / 14.0
    centered = scores - scores.mean()
    excess = np.mean(centered**4) / scores.var() ** 2 - 3.0
    degrees_of_freedom = 2.0 * 14.0 / (2.0 + 2.0 * max(excess, 0.0) * 2.0 / 6.0)
    assert result.p_value == pytest.approx(chi2.sf(ratio * degrees_of_freedom, degrees_of_freedom))
    assert result.misfit
    assert "NOT MET" in result.note


def test_folds_and_sequences_are_compared_inside():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=600)
    folds = np.repeat([0, 1, 2], 200)
    assert autocorrelation_time_test(scores + 2.0 * folds, 1.0).misfit
    assert not autocorrelation_time_test(scores + 2.0 * folds, 1.0, folds=folds).misfit
    sequence_ids = np.arange(600) % 3  # three series, one record of each in turn
    interleaved = np.stack([autoregression(200, 8.0, rng) for _ in range(3)], axis=1).ravel()
    assert autocorrelation_time_test(interleaved, 2.0, sequences=sequence_ids).misfit
    scores[:100] = np.nan
    assert not autocorrelation_time_test(scores, 1.0).misfit


@pytest.mark.parametrize("has_heavy_tails", [False, True])
def test_power_and_false_alarms(has_heavy_tails):
    """If the true time is five times the declared time; theory G33 has 0.94 and at most 0.0053."""
    rng = np.random.default_rng(2)
    n_alarms = [
        sum(
            autocorrelation_time_test(
                autoregression(n, truth, rng, has_heavy_tails=has_heavy_tails), 5.0
            ).misfit
            for _ in range(100)
        )
        for n, truth in ((500, 25.0), (500, 5.0))
    ]
    assert n_alarms[0] >= 75
    assert n_alarms[1] <= 3


def test_too_few_records_are_not_testable():
    result = autocorrelation_time_test(np.arange(100.0), 20.0)
    assert (result.misfit, result.p_value) == (False, None)
    assert "not testable" in result.note
    assert "360" in result.note
    assert "not testable" in autocorrelation_time_test(np.arange(100.0), np.inf).note
    assert autocorrelation_time_test(np.ones(100), 1.0).p_value is None


def test_short_sequences_are_not_testable():
    """Many scores, but no sequence has a block of three autocorrelation times."""
    scores = np.random.default_rng(0).random(600)
    short = autocorrelation_time_test(scores, 5.0, sequences=np.arange(600) // 10)
    assert (short.misfit, short.p_value) == (False, None)
    assert "not testable" in short.note
    long = autocorrelation_time_test(scores, 5.0, sequences=np.arange(600) // 100)
    assert long.p_value is not None
    # Twenty scores are 18 autocorrelation times of 1.1, but only five blocks of four records.
    few = autocorrelation_time_test(scores[:20], 1.1)
    assert few.p_value is None
    assert "at least 24" in few.note


@pytest.mark.parametrize(
    "bad", [{"time": 0.5}, {"scores": np.ones((2, 2))}, {"level": 0.0}, {"sequences": [1, 2]}]
)
def test_bad_arguments_are_named(bad):
    good = {"scores": np.arange(50.0), "time": 1.0}
    with refused(ValueError, next(iter(bad))):
        autocorrelation_time_test(**good | bad)


def test_a_model_is_tested_by_its_slowest_score():
    rng = np.random.default_rng(3)
    slow = autoregression(1500, 20.0, rng)
    weak = [[0.6, 0.4], [0.4, 0.6]]
    strong = [[0.96, 0.04], [0.04, 0.96]]
    for model, misfit in (
        (MarkovChain(weak), True),
        (MarkovChain(strong), False),
        (check_correlation([MarkovChain(weak), MarkovChain(strong)]), False),
        (MarkovChain.from_autocorrelation_time(2.0), True),
    ):
        assert declared_strength_test(model, scores=slow).misfit == misfit
    periodic = MarkovChain([[0.0, 1.0], [1.0, 0.0]])
    assert "not testable" in declared_strength_test(periodic, scores=slow).note
    assert declared_strength_test(TimeOrdered(), scores=slow) is None


def lattice(influence, rng, size=30):
    """Return labels of an Ising model on a lattice, after 60 sweeps."""
    spins = rng.choice([-1, 1], (size, size))
    even = np.add.outer(np.arange(size), np.arange(size)) % 2 == 0
    for is_updated in [even, ~even] * 60:
        padded_spins = np.pad(spins, 1)
        field = (
            padded_spins[2:, 1:-1]
            + padded_spins[:-2, 1:-1]
            + padded_spins[1:-1, 2:]
            + padded_spins[1:-1, :-2]
        )
        is_up = rng.random((size, size)) < 1.0 / (1.0 + np.exp(-influence / 2.0 * field))
        spins = np.where(is_updated, np.where(is_up, 1, -1), spins)
    return spins.ravel()


def test_a_declared_influence_is_tested_by_labels():
    """An influence of .1 that is .8 in truth is found, .1 that is .1 is not."""
    rng = np.random.default_rng(4)
    graph = nx.grid_2d_graph(30, 30)
    network = MarkovNetwork(graph, influence=0.1)
    n_alarms = [
        sum(influence_test(network, lattice(truth, rng)).misfit for _ in range(20))
        for truth in (0.8, 0.1)
    ]
    assert n_alarms[0] >= 17
    assert n_alarms[1] <= 1


def test_networks_without_a_testable_strength():
    graph = nx.grid_2d_graph(30, 30)
    small = MarkovNetwork(nx.path_graph(10), influence=0.1)
    assert "not testable" in influence_test(small, np.arange(10) % 2).note
    rng = np.random.default_rng(5)
    noisy_labels = lattice(0.8, rng) + 0.1 * rng.normal(size=900)
    assert influence_test(MarkovNetwork(graph, influence=0.1), noisy_labels).p_value < 0.05
    assert declared_strength_test(MarkovNetwork(graph), labels=np.zeros(900)) is None
