"""Tail bounds against exact tails, by enumeration and by dynamic programming."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import (
    BayesianNetwork,
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    MarkovNetwork,
)
from tests.facts import refused

from .oracle import chain_distribution, edge_diameters, field_distribution, mean_score, mean_tail
from .tails import bernoulli_rate, chain_rate, hoeffding_above, log_tail_above


def exact_chain_counts(matrix, n, score):
    """Distribution of the number of records with score 1 in a stationary chain."""
    k = len(matrix)
    distribution = np.linalg.matrix_power(matrix, 10_000)[0]
    table = np.zeros((n + 1, k))
    for s in range(k):
        table[score[s], s] = distribution[s]
    for _ in range(n - 1):
        next_table = table @ matrix
        table = np.zeros_like(next_table)
        for s in range(k):
            table[score[s] :, s] = next_table[: n + 1 - score[s], s]
    return table.sum(axis=1), float(distribution @ np.asarray(score))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [1, 30, 400])
def test_chain_tail_holds_for_any_stationary_chain(seed, n):
    """Theory H3."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    matrix = rng.dirichlet(np.full(k, 0.5), size=k)
    if seed == 5:  # far from reversible
        matrix = 0.05 / k + 0.95 * np.roll(np.eye(k), 1, axis=1)
    model = MarkovChain(matrix)
    score = np.r_[1, rng.integers(0, 2, size=k - 2), 0].astype(int)
    distribution, mean = exact_chain_counts(matrix, n, score)
    values = np.arange(n + 1) / n
    noise = 1e-10  # of the dynamic programme
    bound = np.exp(log_tail_above(model, mean, values, n))
    assert np.all(distribution[::-1].cumsum()[::-1] <= bound * (1 + 1e-9) + noise)
    bound = np.exp(log_tail_above(model, 1 - mean, 1 - values, n))
    assert np.all(distribution.cumsum() <= bound * (1 + 1e-9) + noise)
    for alpha in np.linspace(0, 1, 21):
        exact = distribution[np.abs(values - mean) >= alpha].sum()
        assert exact <= math.exp(model.log_tail(alpha, n)) + noise


@pytest.mark.parametrize("seed", range(4))
def test_chain_tail_holds_when_records_have_different_functions(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(3, 0.4), size=3)
    n = 8
    emissions = [rng.dirichlet(np.ones(2) * 0.3, size=3) for _ in range(n)]
    model = MarkovChain(matrix)
    scores = [rng.random(2) ** rng.integers(0, 8) for _ in range(n)]
    joint = chain_distribution(matrix, n, emissions=emissions)
    mean = mean_score(joint, scores)
    for value in np.linspace(mean, 1, 12)[1:]:
        exact = mean_tail(joint, scores, value)
        assert exact <= math.exp(log_tail_above(model, mean, value, n)) + 1e-12
        assert exact <= math.exp(model.log_tail(value - mean, n)) + 1e-12


def test_chain_rate_is_the_dual_of_the_largest_eigenvalue():
    # n * sup_t [t v - ln nu(t)] computed without the closed form.
    mean = 0.2
    contraction = 0.6
    t = np.linspace(0, 30, 300_001)
    a = contraction + (1 - contraction) * (1 - mean)
    b = np.exp(t) * (contraction + (1 - contraction) * mean)
    root = np.sqrt((a + b) ** 2 - 4 * contraction * np.exp(t))
    log_nu = np.log((a + b + root) / 2)
    for value in (0.21, 0.5, 0.9, 0.999):
        dual = np.max(t * value - log_nu)
        rate = chain_rate(np.array(value), np.array(mean), contraction)
        assert rate == pytest.approx(dual, rel=1e-5)


def test_chain_rate_limits():
    values = np.linspace(0.3, 1.0, 15)
    assert chain_rate(values, 0.3, 0.0) == pytest.approx(bernoulli_rate(values, np.full(15, 0.3)))
    assert chain_rate(values, 0.3, 1e-12) == pytest.approx(bernoulli_rate(values, 0.3), abs=1e-9)
    assert np.all(chain_rate(values, 0.3, 1.0) == 0)
    assert np.all(chain_rate(np.array([0.1, 0.3]), 0.3, 0.5) == 0)
    # never below the Hoeffding form of Fan, Jiang and Sun
    for contraction in (0.1, 0.7, 0.99):
        ratio = (1 - contraction) / (1 + contraction)
        assert np.all(
            chain_rate(values, 0.3, contraction) >= -hoeffding_above(0.3, values, ratio) - 1e-12
        )


def test_chain_rate_beats_the_bernstein_bound():
    # Jiang, Sun and Fan, arXiv:1805.10721, Theorem 1 with variance at most mean (1 - mean).
    for contraction in (0.2, 0.7, 0.9):
        for mean in (0.02, 0.1, 0.5):
            for value in (mean + 0.01, mean + 0.05, mean + 0.3):
                t = np.linspace(1e-4, (1 - contraction) / 5 * 0.9999, 4000)
                s2 = mean * (1 - mean)
                mgf = s2 * (np.exp(t) - 1 - t)
                mgf = mgf + s2 * contraction * t**2 / (1 - contraction - 5 * t)
                bernstein = np.max(t * (value - mean) - mgf)
                rate = chain_rate(np.array(value), np.array(mean), contraction)
                assert rate >= bernstein - 1e-12


def test_bernoulli_rate_by_hand():
    """Theory H1."""
    assert bernoulli_rate(np.array(1.0), np.array(0.25)) == pytest.approx(math.log(4))
    assert bernoulli_rate(np.array(0.5), np.array(0.25)) == pytest.approx(0.5 * math.log(4 / 3))
    assert bernoulli_rate(np.array(0.2), np.array(0.25)) == 0.0
    assert np.isinf(bernoulli_rate(np.array(0.5), np.array(0.0)))


@pytest.mark.parametrize("groups", [[0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 5]])
def test_component_tails_hold_for_unequal_sizes(groups):
    # Worst components: all records of one are copies of a bit.
    """Theory H2."""
    model = Groups(groups)
    n = len(groups)
    sizes = np.bincount(groups)
    for p in (0.1, 0.4):
        outcomes = np.array(np.meshgrid(*[[0, 1]] * len(sizes))).reshape(len(sizes), -1)
        mass = np.prod(np.where(outcomes == 1, p, 1 - p), axis=0)
        q = sizes @ outcomes / n
        for value in np.unique(q):
            exact = mass[q >= value - 1e-12].sum()
            assert exact <= math.exp(log_tail_above(model, p, value, n)) + 1e-12
            exact_two_sided = mass[np.abs(q - p) >= abs(value - p) - 1e-12].sum()
            assert exact_two_sided <= math.exp(model.log_tail(abs(value - p), n)) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_network_tails_hold(seed):
    """Theory H5."""
    rng = np.random.default_rng(seed)
    edges = [[(0, 1), (0, 2), (2, 3), (2, 4)], [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]][seed % 2]
    tables = {e: np.exp(0.8 * rng.normal(size=(2, 2))) for e in edges}
    unary = {i: rng.random(2) + 0.1 for i in range(5)}
    joint = field_distribution([2] * 5, {**tables, **{(i,): u for i, u in unary.items()}})
    scores = [[0, 1]] * 5
    mean = mean_score(joint, scores)
    model = MarkovNetwork(edge_diameters(tables, 5), influence="data")
    for value in np.arange(6) / 5:
        if value > mean:
            exact = mean_tail(joint, scores, value)
            assert exact <= math.exp(log_tail_above(model, mean, value, 5)) + 1e-12
            assert exact <= math.exp(model.log_tail(value - mean, 5)) + 1e-12


def test_known_effective_numbers():
    """Theory H4."""
    assert Independent().effective_n(100) == 100
    assert Groups([0, 0, 1, 1]).effective_n(4) == pytest.approx(2)
    chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    assert chain.effective_n(900) == pytest.approx(100)
    # of any query, blocks of s = r = 4 records cost (n / 4) (4 + 4)^2
    exponent = np.log(2) - chain.log_tail(0.1, 10**6, sensitivity=1e-6)
    assert exponent == pytest.approx(2 * 0.1**2 * 1e12 / 16e6, rel=1e-4)
    star = BayesianNetwork([[], [0], [0]], [[0.5, 0.5]] + [[[0.75, 0.25], [0.25, 0.75]]] * 2)
    # R_root = 1 + 0.5 + 0.5, leaves 1
    assert star.effective_n(3) == pytest.approx(9 / (4 + 1 + 1))
    cycle = MarkovChain([[0.0, 1.0], [1.0, 0.0]])
    assert cycle.effective_n(50) == pytest.approx(1.0)


def test_weak_loops_keep_most_of_their_records():
    n = 30 * 30
    index = np.arange(n).reshape(30, 30)
    edge_starts = np.r_[index[:, :-1].ravel(), index[:-1].ravel()]
    edge_ends = np.r_[index[:, 1:].ravel(), index[1:].ravel()]
    import scipy.sparse as sp

    grid = sp.coo_array((np.full(len(edge_starts), 0.1), (edge_starts, edge_ends)), shape=(n, n))
    model = MarkovNetwork(grid, influence="data")
    # r <= 1 / (1 - 4 tanh(0.025))
    assert n * (1 - 4 * math.tanh(0.025)) ** 2 <= model.effective_n(n) <= n
    assert DependencyGraph(grid).effective_n(n) == pytest.approx(1.0)


def test_tails_are_vectorised_capped_and_checked():
    model = Independent()
    assert model.log_tail(0.0, 10) == 0.0
    assert model.log_tail([0.1, 0.5], 100).shape == (2,)
    assert model.log_tail(0.1, 1000) == pytest.approx(math.log(2) - 20)
    assert log_tail_above(model, np.full((2, 1), 0.5), np.linspace(0, 1, 3), 10).shape == (2, 3)
    assert log_tail_above(model, 0.5, 0.4, 10) == 0.0
    assert log_tail_above(model, 0.0, 0.5, 10) == -np.inf
    assert log_tail_above(model, 0.5, 1.0, 10) == pytest.approx(10 * math.log(0.5))
    with refused(ValueError, "alpha"):
        model.log_tail(-0.1, 10)


def test_a_sensitivity_admits_bounds_for_any_query_only():
    model = Groups(np.repeat(np.arange(100), 2))
    assert model.log_tail(0.2, 200, sensitivity=1 / 200) == model.log_tail(0.2, 200)
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    assert chain.log_tail(0.2, 1000, sensitivity=1e-3) >= chain.log_tail(0.2, 1000)
    with refused(ValueError, "sensitivity"):
        model.log_tail(0.1, 200, sensitivity=0.0)
