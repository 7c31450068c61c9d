"""Markov chains: every calibration against the exact leakage, errors, interface."""

import copy
import math
import pickle

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.leakage import block_information, leakage_bound
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information
from tests.facts import refused

from .levels import sequential_epsilon
from .oracle import bdp_leakage, block_leakage, chain_distribution, leakage, sequential_leakage

P1 = [[0.9, 0.1], [0.2, 0.8]]
P2 = [[0.9, 0.1], [0.1, 0.9]]


def random_chain(seed, k, *, zeros=False):
    matrix = np.random.default_rng(seed).dirichlet(np.full(k, 0.8), size=k)
    if zeros:
        matrix[0, 0 if k == 2 else k - 1] = 0.0
        matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def check_chain(matrix, n, epsilon, *, exact=False):
    """Compare every calibration that applies with the oracle."""
    joint = chain_distribution(matrix, n)
    observed_chain = MarkovChain(matrix, observed=True)
    truth = bdp_leakage(joint, epsilon)
    tight = observed_chain.bdp_epsilon(epsilon, n)
    assert truth <= tight + 1e-7
    assert MarkovChain(matrix).bdp_epsilon(epsilon, n) >= truth - 1e-7
    forward = sequential_leakage(joint, epsilon)
    sequential = min(forward, sequential_leakage(joint, epsilon, order=range(n)[::-1]))
    for method in ("quilt", "blanket", "spectral"):
        try:
            assert observed_chain.bdp_epsilon(epsilon, n, method=method) >= truth - 1e-7
        except ValueError:
            assert method != "quilt"
    assert sequential_epsilon(observed_chain, epsilon, n) >= sequential - 1e-7
    if exact:
        assert tight == pytest.approx(truth, rel=1e-6)
        assert sequential_epsilon(observed_chain, epsilon, n) == pytest.approx(sequential, rel=1e-6)
    bias = posterior_bias(observed_chain, epsilon, n)
    prior_bias = np.mean([math.tanh(leakage(joint, epsilon, i, []) / 4) for i in range(n)])
    assert bias >= prior_bias - 1e-7


@pytest.mark.parametrize(("seed", "epsilon"), [(0, 0.01), (1, 0.3), (2, 2.0)])
def test_two_states_meet_the_exact_leakage(seed, epsilon):
    """Theory B5′."""
    check_chain(random_chain(seed, 2, zeros=seed == 2), 4, epsilon, exact=True)


@pytest.mark.parametrize(
    ("zeros", "epsilon"), [pytest.param(False, 0.05, marks=pytest.mark.slow), (True, 1.0)]
)
def test_three_states_stay_above_the_exact_leakage(zeros, epsilon):
    check_chain(random_chain(3, 3, zeros=zeros), 3, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_chains_stay_above_the_exact_leakage(seed):
    for epsilon in (0.01, 0.1, 0.5, 2.0):
        check_chain(random_chain(seed, 2, zeros=seed % 3 == 0), 5, epsilon, exact=True)
    check_chain(random_chain(seed, 3, zeros=seed % 3 == 0), 4, 0.2)
    check_chain(random_chain(seed, 4), 3, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_hidden_chains_stay_below_the_contraction(seed):
    """Theory B5."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    n = 4
    epsilon = [0.05, 1.0][seed % 2]
    matrix = random_chain(seed, k)
    # sharp emissions at some records, soft evidence at others
    emissions = [rng.dirichlet(np.full(2, [0.1, 3.0][i % 2]), size=k) for i in range(n)]
    joint = chain_distribution(matrix, n, emissions=emissions)
    model = MarkovChain(matrix)
    truth = bdp_leakage(joint, epsilon, records=[0, 1])
    for method in ("tight", "quilt", "blanket"):
        assert truth <= model.bdp_epsilon(epsilon, n, method=method) + 1e-7
    forward = sequential_leakage(joint, epsilon)
    assert (
        forward
        <= epsilon + leakage_bound(model).unknown_side_leakages(epsilon, n)[1][-1].max() + 1e-7
    )


def test_hidden_evidence_can_exceed_the_bridges():
    # Why observed=False is the default: soft evidence between records raises the leakage.
    matrix = np.array([[0.98, 0.01, 0.01], [0.02, 0.49, 0.49], [0.02, 0.49, 0.49]])
    soft = np.array([[0.001], [0.06], [0.06]])
    emissions = [np.eye(3), np.c_[soft, 1 - soft], np.eye(3)]
    joint = chain_distribution(matrix, 3, emissions=emissions)
    epsilon = 0.2
    hidden = leakage(joint, epsilon, 0, [1])
    assert hidden <= MarkovChain(matrix).bdp_epsilon(epsilon, 3)
    assert leakage(chain_distribution(matrix, 3), epsilon, 0, [1]) == pytest.approx(epsilon)
    assert hidden > 1.3 * epsilon


def test_block_leakage_is_its_size_plus_one_side():
    epsilon = 0.3
    n = 4
    joint = chain_distribution(P1, n)
    one_sided_leakage = leakage_bound(MarkovChain(P1)).unknown_side_leakages(epsilon, n)[1]
    exact_leakage = block_leakage(joint, epsilon, [0, 1], [])
    assert exact_leakage <= 2 * epsilon + one_sided_leakage[2].max() + 1e-7
    assert sequential_information(MarkovChain(P1), epsilon, n) <= (n * epsilon) ** 2 / 8 + 1e-12


def test_block_information_beats_single_records():
    # s = a / epsilon is best: (n / s)(2 s e)^2 / 8
    assert block_information(0.001, 0.004, 10**6) == pytest.approx(10**6 * 4 * 4e-6 / 8, rel=1e-3)
    assert block_information(0.1, 0.0, 100) == pytest.approx(100 * 0.01 / 8)


def test_reference_multipliers():
    small_level = 1e-6
    n = 10**6
    for matrix, contraction, sequential in ((P1, 6.0, 10 / 3), (P2, 9.0, 5.0)):
        chain = MarkovChain(matrix)
        assert chain.bdp_epsilon(small_level, n) / small_level == pytest.approx(
            contraction, rel=1e-4
        )
        assert sequential_epsilon(chain, small_level, n) / small_level == pytest.approx(
            sequential, rel=1e-4
        )
        # never above the closed form e' e^{diameter / 2}
        for level in (1e-4, 0.1, 3.0):
            closed = level * math.exp(chain.diameter_ / 2)
            assert chain.bdp_epsilon(level, n) <= closed * (1 + 1e-9)
    for matrix, bridges in ((P1, 5.7), (P2, 9.0)):
        observed = MarkovChain(matrix, observed=True)
        assert observed.bdp_epsilon(0.001, n) / 0.001 == pytest.approx(bridges, abs=0.05)


def test_order_of_the_methods():
    chain = MarkovChain(P1, observed=True)
    levels = [chain.bdp_epsilon(0.001, 10**6, method=m) for m in ("tight", "quilt", "spectral")]
    assert levels == sorted(levels)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("method", ["tight", "quilt", "spectral"])
def test_inverse_is_safe_and_close(observed, method):
    chain = MarkovChain(P1, observed=observed)
    for level in (1e-5, 0.02, 1.0):
        dp = chain.dp_epsilon(level, 5000, method=method)
        assert 0 < dp <= level
        back = chain.bdp_epsilon(dp, 5000, method=method)
        assert back <= level * (1 + 1e-9)
        if method == "tight":
            assert back >= level * (1 - 1e-6)


def test_blanket_by_hand():
    # a = ln max ratio of both neighbors; Zhao 2017, Lemma 3: e' = e - 4 a.
    """Theory B3."""
    chain = MarkovChain(P2, observed=True)
    a = 2 * math.log(9)
    assert chain.dp_epsilon(20.0, 100, method="blanket") == pytest.approx(20 - 4 * a, abs=1e-9)
    assert chain.bdp_epsilon(0.1, 100, method="blanket") == pytest.approx(0.1 + 4 * a)
    assert chain.bdp_epsilon(0.1, 2, method="blanket") == pytest.approx(0.1 + 2 * a)
    assert chain.dp_epsilon(4 * a - 0.1, 100, method="blanket") == 0.0
    assert chain.bdp_epsilon(0.1, 1, method="blanket") == pytest.approx(0.1)


def test_a_deterministic_chain_costs_all_its_records():
    for observed in (False, True):
        cycle = MarkovChain([[0.0, 1.0], [1.0, 0.0]], observed=observed)
        assert sequential_epsilon(cycle, 0.1, 50) == pytest.approx(5.0)
        assert gap_failure_probability(cycle, 10) == 1.0
        with refused(ValueError, "correlation='time'", "X_val"):
            required_gap(cycle, 0.01)
    assert MarkovChain([[0.0, 1.0], [1.0, 0.0]]).bdp_epsilon(0.1, 50) == pytest.approx(5.0)
    assert MarkovChain([[1.0]]).bdp_epsilon(0.1, 50) == pytest.approx(0.1)


def test_zeros_name_the_route_that_works():
    zero = MarkovChain([[0.5, 0.5], [1.0, 0.0]], observed=True)
    with refused(ValueError, "method='blanket'", "method='quilt'"):
        zero.bdp_epsilon(0.1, 10, method="blanket")
    assert zero.bdp_epsilon(0.1, 1000, method="quilt") < 100
    assert zero.bdp_epsilon(0.1, 1000) < 1.0


def test_matrices_without_a_stationary_distribution_are_rejected():
    with refused(ValueError, "irreducible"):
        MarkovChain(np.eye(2))
    with refused(TypeError, "observed"):
        MarkovChain(P1, observed="yes")
    with refused(TypeError, "interpolation"):
        MarkovChain(P1, observed=True, interpolation="no")


def test_gaps_by_hand():
    """Theory H6."""
    chain = MarkovChain(P2)  # theta(P^k) = 0.8^k
    assert gap_failure_probability(chain, 0) == pytest.approx(0.8)
    assert gap_failure_probability(chain, 9) == pytest.approx(0.8**10)
    assert required_gap(chain, 0.8**10 + 1e-9) == 9
    assert required_gap(chain, 0.9) == 0
    assert required_gap(MarkovChain([[0.5, 0.5], [0.5, 0.5]]), 1e-9) == 0
    split = chain.split(1000, 0.25)
    assert list(split.holdout) == list(range(750, 1000))
    assert split.train[-1] == 749 - split.gap
    assert gap_failure_probability(chain, split.gap) <= 1e-3
    with refused(ValueError, 30, 40):
        chain.split(40, 0.3)


def test_folds_are_blocks_with_gaps():
    chain = MarkovChain(P1)
    gap = required_gap(chain, 0.05)
    pairs = chain.folds(100, 4)
    assert np.array_equal(np.concatenate([test for _, test in pairs]), np.arange(100))
    for train, test in pairs:
        distance = np.abs(train[:, None] - test[None, :]).min()
        assert distance == gap + 1
    with refused(ValueError, "n_splits", 8):
        chain.folds(10, 2)


def test_subset_is_contiguous():
    chain = MarkovChain(P1)
    assert chain.subset([3, 4, 5]) == chain
    for bad in ([3, 5], [5, 4], [1, 1]):
        with refused(ValueError, "indices"):
            chain.subset(bad)


def test_transitions_are_estimated_with_one_more_of_each():
    chain = MarkovChain.from_states([0, 0, 1, 0, 0, 1, 1])
    assert chain.transition == pytest.approx(np.array([[3 / 6, 3 / 6], [2 / 4, 2 / 4]]))
    chain_of_three = MarkovChain.from_states([[0, 1], np.array([1, 0, 1])], n_states=3)
    assert chain_of_three.transition[2] == pytest.approx([1 / 3] * 3)


def test_few_transitions_are_a_caveat():
    short = MarkovChain.from_states([0, 0, 1, 0, 0, 1, 1])
    long = MarkovChain.from_states(np.arange(200) // 3 % 2)
    assert "6 transitions" in " ".join(short.caveats)
    assert "transitions" not in " ".join(long.caveats)


@pytest.mark.parametrize(
    ("states", "facts"),
    [
        ([0.5, 1.0], ("integers",)),
        ([0, -1], ("states",)),
        ([1], ("states",)),
        ([0, 1, 0], ("states", 2)),
        ([0, 0, 0], ("states", 2)),
        ([[0, 1], [1, 0]], ("states", 2)),
    ],
)
def test_invalid_or_too_few_states_raise(states, facts):
    with refused(ValueError, *facts):
        MarkovChain.from_states(states)


def test_states_that_never_change_raise():
    with refused(ValueError, "states", 199, "MarkovChain.from_autocorrelation_time(records)"):
        MarkovChain.from_states(np.zeros(200, dtype=int), n_states=2)


def test_states_outside_n_states_raise():
    with refused(ValueError, "n_states"):
        MarkovChain.from_states([0, 5], n_states=2)


def test_a_pickled_chain_is_equal():
    chain = MarkovChain(P1)
    chain.bdp_epsilon(0.1, 10)
    unpickled = pickle.loads(pickle.dumps(chain))
    assert unpickled == chain
    assert hash(unpickled) == hash(chain)
    assert unpickled.fingerprint() == MarkovChain(np.array(P1)).fingerprint()
    assert unpickled.bdp_epsilon(0.1, 10) == chain.bdp_epsilon(0.1, 10)


def test_chains_with_other_transitions_or_observed_states_are_not_equal():
    assert MarkovChain(P1) != MarkovChain(P2)
    assert MarkovChain(P1) != MarkovChain(P1, observed=True)


def test_a_chain_is_frozen():
    chain = MarkovChain(P1)
    assert copy.deepcopy(chain) is chain
    with refused(AttributeError, "frozen"):
        chain.observed = True
    with refused(ValueError, "read-only"):
        pickle.loads(pickle.dumps(chain)).transition[0, 0] = 1.0


def test_descriptions_of_a_chain():
    chain = MarkovChain(P1)
    assert chain.describe() == (
        "stationary two-state Markov chain, spectral gap 0.30, 1 record in 5.7 counts"
    )
    assert "MarkovChain([[0.9, 0.1], [0.2, 0.8]])" in repr(chain)


@pytest.mark.parametrize("observed", [False, True])
def test_levels_grow_with_records_and_level(observed):
    chain = MarkovChain(random_chain(1, 3), observed=observed)
    levels = [chain.bdp_epsilon(0.1, n) for n in (1, 2, 3, 10, 100, 10**6)]
    assert levels[0] == pytest.approx(0.1)
    assert np.all(np.diff(levels) >= -1e-9)
    levels = [chain.bdp_epsilon(e, 50) for e in (0.0, 1e-8, 0.1, 1.0, 30.0, 2000.0)]
    assert np.all(np.diff(levels) > 0)
