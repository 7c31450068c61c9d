"""The founding papers as reference functions, each checked by enumeration or by a second route."""

import importlib
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from tests.correlation.levels import sequential_epsilon
from tests.facts import refused

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks" / "papers").is_dir():
    pytest.skip("benchmarks are not part of an installation", allow_module_level=True)
sys.path.insert(0, str(ROOT))
theorems = importlib.import_module("benchmarks.papers.theorems")
table = importlib.import_module("benchmarks.papers.table")
sys.path.remove(str(ROOT))


def random_joint(seed, shape=(3, 3)):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[0] * shape[1])).reshape(shape)


def bits(n):
    return np.array(list(itertools.product([0, 1], repeat=n)))


def randomized_response(n, epsilon):
    """P(y | x) for all data sets of n bits, each flipped with odds e^−ε: ε-DP."""
    flips = (bits(n)[:, None, :] != bits(n)[None, :, :]).sum(axis=2)
    keep = 1 / (1 + math.exp(-epsilon))
    return keep ** (n - flips) * (1 - keep) ** flips


def noisy_count(n, epsilon):
    """P(y | x) of the number of ones with two-sided geometric noise, cut off at 0 and n: ε-DP."""
    ones = bits(n).sum(axis=1)[:, None]
    noisy_values = np.arange(-60, n + 61)
    weights = np.exp(-epsilon * np.abs(noisy_values[None, :] - ones))
    weights /= weights.sum(axis=1, keepdims=True)
    cells = np.clip(noisy_values, 0, n)
    return np.stack([weights[:, cells == y].sum(axis=1) for y in range(n + 1)], axis=1)


def chain_probabilities(n, stay=0.9):
    x = bits(n)
    n_equal = (x[:, 1:] == x[:, :-1]).sum(axis=1)
    return 0.5 * stay**n_equal * (1 - stay) ** (n - 1 - n_equal)


# -- Definitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.03, 0.2, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_approximate_max_information_by_all_subsets(seed, beta):
    joint = random_joint(seed)
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0)).ravel()
    max_information = -math.inf
    for in_event in itertools.product([False, True], repeat=joint.size):
        in_event = np.array(in_event)
        if joint.ravel()[in_event].sum() > beta:
            gain = joint.ravel()[in_event].sum() - beta
            max_information = max(max_information, math.log(gain / product[in_event].sum()))
    assert theorems.approximate_max_information(joint, beta) == pytest.approx(max_information)


def test_lemma_6_by_enumeration():
    # If the ratio exceeds e^k with probability at most β, the β-approximate information is ≤ k.
    for seed in range(6):
        joint = random_joint(seed, (4, 4))
        ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
        for k in (0.1, 0.4, 0.8):
            beta = joint[ratio >= math.exp(k)].sum()
            if 0 < beta < 1:
                assert theorems.approximate_max_information(joint, beta) <= k + 1e-12


def test_smallest_delta_of_randomized_response():
    p = [0.75, 0.25]
    q = [0.25, 0.75]
    assert theorems.smallest_delta(p, q, math.log(3)) == pytest.approx(0.0, abs=1e-15)
    assert theorems.smallest_delta(p, q, 0.0) == pytest.approx(0.5)  # total variation
    delta = theorems.smallest_delta(p, q, 0.5)
    worst = 0.0
    for event in itertools.product([0, 1], repeat=2):
        a = np.dot(p, event)
        b = np.dot(q, event)
        worst = max(worst, a - math.exp(0.5) * b, b - math.exp(0.5) * a)
    assert delta == pytest.approx(worst)


def test_exponential_mechanism_keeps_its_level():
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = rng.normal(size=5)
        moved = u + rng.uniform(-0.3, 0.3, size=5)
        ratio = theorems.exponential_mechanism(u, 0.7, 0.3) / theorems.exponential_mechanism(
            moved, 0.7, 0.3
        )
        assert np.abs(np.log(ratio)).max() <= 0.7 + 1e-12


# -- Max-information of mechanisms -----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_theorem_8_by_enumeration_with_correlated_records(epsilon):
    n = 5
    for data in (np.full(2**n, 2.0**-n), chain_probabilities(n)):
        for mechanism in (randomized_response(n, epsilon), noisy_count(n, epsilon)):
            exact = theorems.approximate_max_information(data[:, None] * mechanism)
            assert exact <= theorems.dp_information(epsilon, n) + 1e-12


@pytest.mark.parametrize("source", ["dwork2015", "zhao2017", "corrected"])
@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_theorem_3_holds_for_randomized_response_by_enumeration(source, epsilon):
    n = 8
    for mechanism in (randomized_response(n, epsilon), noisy_count(n, epsilon)):
        joint = mechanism / 2**n
        for beta in (0.01, 0.1):
            exact = theorems.approximate_max_information(joint, beta)
            assert exact <= theorems.approximate_information(epsilon, n, beta, source=source)


def test_theorem_3_holds_under_sequential_bdp_on_a_chain():
    n = 6
    level = 0.05
    chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]], observed=True)
    epsilon = sequential_epsilon(chain, level, n)
    joint = chain_probabilities(n)[:, None] * randomized_response(n, level)
    for beta in (0.01, 0.1):
        exact = theorems.approximate_max_information(joint, beta)
        assert exact <= theorems.approximate_information(epsilon, n, beta, source="corrected")


def test_corrected_theorem_3_is_sharper_by_a_factor_of_up_to_16():
    """Theory G0."""
    corrected = theorems.approximate_information(1.0, 10**6, 0.05, source="corrected")
    printed = theorems.approximate_information(1.0, 10**6, 0.05, source="zhao2017")
    assert 15 < printed / corrected < 16.1
    assert theorems.approximate_information(1.0, 10**6, 0.05, source="dwork2015") > corrected
    with refused(ValueError, "source"):
        theorems.approximate_information(1.0, 10, 0.05, source="typo")


@pytest.mark.parametrize("epsilon", [0.5, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 100, 10**8])
def test_theorem_19_is_the_stronger_one_from_one_half_on(epsilon, n):
    weaker = theorems.approximate_information(epsilon, n, 0.05, source="zhao2017")
    assert theorems.dp_information(epsilon, n) < weaker
    small = theorems.approximate_information(0.1, 10**6, 0.05, source="zhao2017")
    assert theorems.dp_information(0.1, 10**6) > small


def test_description_information_by_enumeration():
    # Every function of three bits to four values, uniform data: I∞^β ≤ ln(4/β).
    rng = np.random.default_rng(0)
    for _ in range(200):
        outputs = rng.integers(0, 4, 8)
        joint = np.zeros((8, 4))
        joint[np.arange(8), outputs] = 1 / 8
        for beta in (0.05, 0.3):
            exact = theorems.approximate_max_information(joint, beta)
            assert exact <= theorems.description_information(4, beta) + 1e-12


def test_composition_of_dp_and_description_length_by_enumeration():
    # First randomized response, then any bit of data and first output; and the other way round.
    n = 4
    epsilon = 0.2
    beta = 0.1
    rng = np.random.default_rng(1)
    private = randomized_response(n, epsilon)
    k = theorems.dp_information(epsilon, n)
    for _ in range(30):
        second_bit = rng.integers(0, 2, (2**n, 2**n))
        joint = np.stack([private * (second_bit == b) for b in (0, 1)], axis=2) / 2**n
        exact = theorems.approximate_max_information(joint.reshape(2**n, -1), 2 * beta)
        first_information = theorems.approximate_information(epsilon, n, beta, source="dwork2015")
        stages = [
            (first_information, beta, False),
            (theorems.description_information(2, beta), beta, True),
        ]
        nats, total = theorems.composed_information(stages)
        assert total == pytest.approx(2 * beta)
        assert exact <= nats + 1e-12
        first_bit = rng.integers(
            0, 2, 2**n
        )  # a bit first, randomized response of data xor bit second
        shifted = private[:, np.arange(2**n)]
        joint = np.stack([shifted * (first_bit == b)[:, None] for b in (0, 1)], axis=2) / 2**n
        exact = theorems.approximate_max_information(joint.reshape(2**n, -1), beta)
        stages = [(theorems.description_information(2, beta), beta, True), (k, 0.0, True)]
        assert exact <= theorems.composed_information(stages)[0] + 1e-12


def test_rogers_order_needs_independent_records_first():
    nats, beta = theorems.rogers_information(0.1, 1e-12, 1000)
    assert nats == pytest.approx(0.01 * 1000 + 1000 * math.sqrt(1e-11))
    assert beta == pytest.approx(math.exp(-10) + 1000 * math.sqrt(1e-11))
    with refused(ValueError, "1"):
        theorems.composed_information([(1.0, 0.1, True), (nats, beta, False)])
    with refused(ValueError, "epsilon"):
        theorems.rogers_information(0.6, 1e-12, 1000)


# -- Generalization --------------------------------------------------------------------------------


def test_theorem_6_and_corollary_7_by_enumeration():
    # A mechanism and the worst event for each output: P(X ∈ R(Y)) ≤ e^k max P(R(y)).
    rng = np.random.default_rng(2)
    for seed in range(20):
        joint = random_joint(seed, (6, 3))
        data = joint.sum(axis=1)
        k = theorems.approximate_max_information(joint)
        events = rng.integers(0, 2, (6, 3)).astype(bool)
        happens = joint[events].sum()
        rarest = max(data[events[:, y]].sum() for y in range(3))
        if happens > 0:
            assert (
                math.log(happens)
                <= theorems.log_failure_by_information(math.log(rarest), k) + 1e-12
            )
    tau = 0.05
    n = 2000
    corollary = theorems.log_failure_by_information(-2 * tau**2 * n, tau**2 * n)
    assert corollary == pytest.approx(-(tau**2) * n)


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.1, 0.5])
def test_theorem_4_follows_from_g1(epsilon):
    # Independent records: K = nε²/8, Hoeffding at ε; G1's bound never exceeds 6e^{−ε²n}.
    for n in np.unique(np.geomspace(1, 1e9, 200).astype(int)):
        log_bound = theorems.adaptive_log_failure(
            math.log(2) - 2 * epsilon**2 * n, n * epsilon**2 / 8
        )
        assert (
            min(log_bound, 0.0) <= max(theorems.dwork_log_failure(epsilon, int(n)), -1e-12) + 1e-9
        )


def test_theorem_4_by_enumeration():
    # The worst analyst: after randomized response, the query that overfits most to the responses.
    n = 8
    epsilon = 0.3
    x = bits(n)
    p = randomized_response(n, epsilon) / 2.0**n
    failure_probability = 0.0
    for y, released in enumerate(x):
        overfit = np.abs((x == released).mean(axis=1) - 0.5)  # φ_i: bit i equals the released one
        failure_probability += p[overfit > epsilon, y].sum()
    assert math.log(failure_probability) <= theorems.dwork_log_failure(epsilon, n)


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.4])
def test_lemma_1_follows_from_g1_for_independent_records(tau):
    for n in np.unique(np.geomspace(1, 1e8, 100).astype(int)).tolist():
        log_bound = theorems.adaptive_log_failure(
            math.log(2) - 2 * tau**2 * n, n * (tau / 3) ** 2 / 8
        )
        assert log_bound <= max(theorems.zhao_log_failure(tau, n, tau / 3), 0.0) + 1e-12
    with refused(ValueError, "epsilon", "tau/(3nΔ)"):
        theorems.zhao_log_failure(tau, 100, tau)


def test_lemma_1_is_false_for_two_blocks_of_identical_bits():
    # A constant mechanism is 0-BDP; the mean of two fair bits copied n/2 times is off by 1/2 with
    # probability 1/2, which Lemma 1 puts below e^{−27}.
    n = 1000
    tau = 0.4
    assert theorems.zhao_log_failure(tau, n, 0.0) < -16 < math.log(0.5)


def test_orders_of_theorems_1_and_2():
    order = theorems.multiplicative_weights_order(0.1, 100, 10.0)
    assert theorems.multiplicative_weights_order(0.05, 100, 10.0) == pytest.approx(order * 2**3.5)
    assert theorems.multiplicative_weights_order(0.1, 100, 40.0) == pytest.approx(2 * order)
    order_of_noise_addition = theorems.noise_addition_order(0.1, 100)
    assert theorems.noise_addition_order(0.05, 100) == pytest.approx(
        order_of_noise_addition * 2**2.5
    )
    log_factor = 100 * math.log(10**6) ** 1.5 / math.log(100) ** 1.5
    assert theorems.noise_addition_order(0.1, 10**6) == pytest.approx(
        order_of_noise_addition * log_factor
    )


# -- Steps of Zhao's proof -------------------------------------------------------------------------


def test_equation_14_is_an_inequality():
    # a = q(X) + Lap noise: both events can happen at once, so the sum is strictly larger.
    rng = np.random.default_rng(0)
    sample = rng.normal(0, 0.1, 100_000)
    noise = rng.laplace(0, 0.1, 100_000)
    tau = 0.3
    c = 0.5
    left_side = (np.abs(sample + noise) >= tau).mean()
    right_side = (np.abs(noise) >= (3 + c) / 4 * tau).mean()
    right_side += (np.abs(sample) >= (1 - c) / 4 * tau).mean()
    assert left_side < 0.9 * right_side


@pytest.mark.parametrize("c", [1e-6, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("m", [1, 10, 10**6])
@pytest.mark.parametrize("beta", [1e-4, 0.05, 0.5])
def test_equation_18_is_a_sum_and_fits_into_half_of_beta(m, c, beta):
    assert theorems.theorem_2_noise_failure(m, beta, c) <= beta / 2
    assert theorems.theorem_2_noise_failure(m, beta, c, as_printed=True) == pytest.approx(beta / 2)


def test_equation_18_larger_case_is_not_the_union():
    # Half of the queries above, half below, at a failure probability that can be seen.
    m = 4
    beta = 0.9
    c = 0.01
    rng = np.random.default_rng(0)
    scale = (1 - c) / (12 * math.log(4 * m / beta))  # τ = 1
    above = np.abs(rng.laplace(0, 4 * scale, (400_000, m))) >= (3 + c) / 4
    below = np.abs(rng.laplace(0, scale, (400_000, m)))
    below = below + np.abs(rng.laplace(0, 2 * scale, (400_000, m))) >= (1 - c) / 4
    either = (above | below).any(axis=1).mean()
    assert either > max(above.any(axis=1).mean(), below.any(axis=1).mean())
    assert either <= theorems.theorem_2_noise_failure(m, beta, c)


def test_equation_38_bounds_by_the_larger_term():
    # h ≥ min(1/u, 1/v) implies 1/h ≤ max(u, v); min(u, v) fails as soon as u ≠ v.
    for u, v in ((3.0, 5.0), (7.0, 2.0)):
        h = min(1 / u, 1 / v)
        assert 1 / h == pytest.approx(max(u, v))
        assert 1 / h > min(u, v)


# -- The table -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_rows():
    return table.rows()


def test_every_row_names_a_function_and_a_test_that_exist(all_rows):
    assert len(all_rows) > 40
    for row in all_rows:
        module, _, attribute = row.function.rpartition(".")
        module_file = ROOT / (row.function.replace(".", "/") + ".py")
        if not module_file.exists():
            parent_module, _, class_name = module.rpartition(".")
            try:
                target = getattr(importlib.import_module(module), attribute, None)
            except ModuleNotFoundError:
                target = getattr(
                    getattr(importlib.import_module(parent_module), class_name), attribute
                )
            assert target is not None, row.function
        path, _, name = row.test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), row.test


def test_rows_that_hold_as_printed_agree(all_rows):
    for row in all_rows:
        if row.status != table.AS_PRINTED:
            continue
        if row.label == "Lemma 6":
            assert row.ours <= row.printed
        elif isinstance(row.printed, str) and row.printed[0].isdigit():
            assert row.ours == row.printed, row.label
        elif not isinstance(row.printed, str):
            assert row.ours == pytest.approx(row.printed, abs=1e-12), row.label
