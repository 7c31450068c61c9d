"""Tests of a declared correlation on training-side scores: one permutation test (theory G25)."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    Groups,
    Independent,
    MarkovChain,
    MarkovNetwork,
    check_groups,
    check_independence,
    check_misfit,
    check_neighbors,
    ising_spins,
)

from .series import autoregressive, regimes

GRID = nx.to_scipy_sparse_array(nx.grid_2d_graph(16, 16))
P1 = np.array([[0.9, 0.1], [0.2, 0.8]])


def declared(influence):
    return MarkovNetwork(GRID, influence=influence)


# -- independent records --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "maker",
    [
        lambda n, rng: autoregressive(n, 0.65, rng),
        lambda n, rng: autoregressive(n, 0.95, rng),
        lambda n, rng: regimes(n, 0.9, rng),
        lambda n, rng: regimes(n, 0.98, rng),
    ],
)
def test_dependent_rows_are_seen(maker):
    """Also in the three quarters of the rows that a shuffled holdout leaves for training."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(10):
        kept = np.sort(rng.permutation(2000)[:1500])
        seen += check_independence(maker(2000, rng)[kept]).misfit
    assert seen >= 9


def test_independent_rows_are_left_alone():
    rng = np.random.default_rng(1)
    series = [rng.random(400) < rate for rate in (0.5, 0.8, 0.95, 0.99) for _ in range(25)]
    series += [rng.exponential(size=400) ** 3 for _ in range(25)]
    false = sum(check_independence(scores).misfit for scores in series)
    assert false <= 5  # each with probability .005


def test_a_better_model_on_one_fold_is_no_dependence():
    rng = np.random.default_rng(3)
    folds = np.repeat(np.arange(3), 200)
    series = [(rng.random(600) < np.array([0.95, 0.6, 0.8])[folds]) for _ in range(50)]
    assert sum(check_independence(scores).misfit for scores in series) >= 40
    assert sum(check_independence(scores, folds=folds).misfit for scores in series) <= 3


@pytest.mark.parametrize("contiguous", [True, False])
def test_dependent_rows_are_seen_inside_folds(contiguous):
    rng = np.random.default_rng(4)
    for maker in (lambda n: autoregressive(n, 0.65, rng), lambda n: regimes(n, 0.9, rng)):
        series = [maker(2000) for _ in range(10)]
        folds = np.arange(2000) // 400 if contiguous else rng.integers(0, 5, 2000)
        assert sum(check_independence(scores, folds=folds).misfit for scores in series) >= 9


def test_groups_are_seen_whatever_their_order():
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(80), 10))
    ease = rng.choice([0.5, 0.95], 80)
    scores = (rng.random(800) < ease[groups]).astype(float)
    report = check_independence(scores, groups=groups)
    assert report.p_value <= 0.005
    assert "correlation='groups'" in report.message
    assert "neighboring" not in report.message
    assert not check_independence(scores, groups=rng.permutation(groups)).misfit


def test_constant_and_short_series_say_nothing():
    assert not check_independence(np.ones(500)).misfit
    assert not check_independence(np.arange(10.0)).misfit
    assert not check_misfit(Independent(), scores=np.arange(100.0)).misfit
    assert not check_groups(np.full((256, 2), np.nan), np.arange(256) // 4).misfit


def test_message_says_what_to_declare():
    scores = regimes(2000, 0.95, np.random.default_rng(0))
    message = check_independence(scores).message
    for words in ("correlation='time'", "groups="):
        assert words in message
    for words in ("shuffle", "from_autocorrelation_time("):  # no number, and no way round
        assert words not in message
    assert check_independence(scores) == check_independence(scores)


@pytest.mark.parametrize("name", ["groups", "states", "folds"])
def test_labels_must_match_scores(name):
    with pytest.raises(ValueError, match=name):
        check_independence(np.arange(50.0), **{name: np.zeros(49)})


def test_public_states_explain_what_they_explain():
    """Scores that depend on their own state only pass within states; slower ones do not."""
    rng = np.random.default_rng(7)
    states = (np.cumsum(rng.random(2000) < 0.05) % 2).astype(int)
    own = rng.random(2000) < np.array([0.9, 0.5])[states]
    assert check_independence(own).misfit
    assert not check_independence(own, states=states).misfit
    other = rng.random(2000) < np.array([0.9, 0.5])[np.roll(states, 5)]
    assert "states=" in check_independence(other, states=states).message


# -- groups next to each other --------------------------------------------------------------------


def test_groups_next_to_each_other():
    rng = np.random.default_rng(3)
    slow = np.repeat(np.cumsum(rng.normal(size=200)), 4)
    groups = np.repeat(np.arange(200), 4)
    assert "groups" in check_groups(slow + rng.normal(size=800), groups).message
    loud = sum(check_groups(np.repeat(rng.normal(size=200), 4), groups).misfit for _ in range(40))
    assert loud <= 2  # of .2 expected


def test_several_kinds_of_scores_are_tested_at_one_level():
    """Whichever kind shows it; where none does, as often as one kind alone."""
    rng = np.random.default_rng(6)
    spin = ising_spins(declared(1.5).adjacency_, rng, draws=1)[:, 0]
    kinds = np.column_stack([rng.random(256), spin])
    assert check_neighbors(declared(0.1), kinds).misfit
    assert not check_neighbors(declared(0.1), np.column_stack([kinds[:, 0], np.ones(256)])).misfit
    slow = np.repeat(np.cumsum(rng.normal(size=64)), 4)
    assert check_groups(np.column_stack([kinds[:, 0], slow]), np.arange(256) // 4).misfit
    loud = [
        check_groups(rng.normal(size=(160, 3)), np.arange(160) // 4, level=0.05).misfit
        for _ in range(200)
    ]
    assert 1 <= sum(loud) <= 22  # of 10 expected, 4 standard errors


# -- a declared strength --------------------------------------------------------------------------


def test_spins_have_the_declared_diameters():
    """A pair: the probability to agree is that of a two-record Ising model."""
    pair = sparse.csr_array(np.array([[0.0, 1.2], [1.2, 0.0]]))
    spins = ising_spins(pair, np.random.default_rng(0), draws=40_000)
    agree = (spins[0] == spins[1]).mean()
    assert agree == pytest.approx(1 / (1 + np.exp(-0.6)), abs=0.01)


@pytest.mark.parametrize("influence", [1e-9, 1.0])
def test_a_right_declaration_is_left_alone(influence):
    rng = np.random.default_rng(1)
    spins = ising_spins(declared(influence).adjacency_, rng, draws=20)
    loud = 0
    for spin in spins.T:
        scores = (rng.random(256) < 0.7 + 0.2 * spin).astype(float)
        loud += check_neighbors(declared(influence), scores).misfit
    assert loud <= 1


def test_too_weak_a_declaration_is_told():
    rng = np.random.default_rng(2)
    spins = ising_spins(declared(1.5).adjacency_, rng, draws=10)
    reports = [check_neighbors(declared(0.1), (spin > 0).astype(float)) for spin in spins.T]
    assert np.mean([report.misfit for report in reports]) >= 0.9
    assert "influence='estimate'" in next(r.message for r in reports if r.misfit)
    holes = np.where(rng.random(256) < 0.2, np.nan, spins[:, 0])
    assert check_neighbors(declared(0.1), holes).misfit
    assert not check_neighbors(declared(0.1), np.ones(256)).misfit
    assert not check_neighbors(MarkovNetwork(np.eye(3, k=1), influence=0.1), [0, 1, 0]).misfit


# -- a declared chain -----------------------------------------------------------------------------


def chain_states(matrix, n, seed):
    rng = np.random.default_rng(seed)
    steps, states = matrix.cumsum(axis=1), [0]
    for u in rng.random(n - 1):
        states.append(int(np.searchsorted(steps[states[-1]], u)))
    return np.array(states)


def test_chains_that_fit_stay_silent():
    loud = 0
    for seed in range(60):
        loud += check_misfit(MarkovChain(P1), scores=chain_states(P1, 1000, seed)).misfit
        rare = np.random.default_rng(seed).random(1000) < 0.02
        loud += check_misfit(Independent(), scores=rare).misfit
    assert loud <= 2  # of .1 expected


@pytest.mark.parametrize(
    ("contraction", "scores", "model"),
    [(0.99, (0.95, 0.55), MarkovChain(P1)), (0.5, (1.0, 0.0), Independent())],
)
def test_scores_that_remember_longer_are_found(contraction, scores, model):
    """Slow regimes, which few swings see, and weak dependence, which many do."""
    rng = np.random.default_rng(0)
    found = [
        check_misfit(model, scores=regimes(4000, contraction, rng, scores=scores))
        for _ in range(20)
    ]
    assert sum(report.misfit for report in found) >= 18
    assert "declare more dependence" in next(r.message for r in found if r.misfit)


def test_misfit_of_a_chain_needs_records_in_time():
    with pytest.raises(ValueError, match="model"):
        check_misfit(Groups([0, 0, 1]), scores=np.zeros(3))
    with pytest.raises(ValueError, match="level"):
        check_misfit(MarkovChain(P1), scores=np.zeros(3), level=0.0)
    with pytest.raises(ValueError, match="finite"):
        check_misfit(MarkovChain(P1), scores=[0.0, np.nan])
