import math

import numpy as np
import pytest

from benchmarks.papers.dwork import dwork_required_n
from sklearn_bdp.accounting import zhao_premise, zhao_required_n
from sklearn_bdp.accounting.noise_calibration import zhao_accuracy
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.planning import certify, floor_required_n, plan_holdout
from tests.facts import refused, warned


def test_zhao_required_n_by_hand():
    # τ = .1, m = 100, B = 1, c = 1/2: σ = .05/(12 ln 8000), ε = .05/12, n_# = 9/(4σε).
    """Theory G3."""
    expected = 9 / (4 * (0.05 / (12 * math.log(8000))) * (0.05 / 12))
    got = zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent())
    assert got == pytest.approx(expected)
    assert got == pytest.approx(1.165e6, rel=1e-3)


P1, P2 = [[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.1, 0.9]]


def test_zhao_premise_8_has_both_terms():
    # First term 9 ln(4/β)/τ² = 3,944 against 9B/(4στ/3) = 135 (Zhao 2017, (8)).
    common = {"tau": 0.1, "sigma": 0.5, "budget": 1, "model": Independent()}
    assert zhao_premise(beta=0.05, **common) == pytest.approx(9 * math.log(80) / 0.01)
    assert pytest.approx(135) == 9 / (4 * 0.5 * 0.1 / 3)
    assert zhao_premise(beta=0.05, **(common | {"sigma": 0.005})) == pytest.approx(13_500)
    assert zhao_premise(beta=0.001, **common) > zhao_premise(beta=0.05, **common)


@pytest.mark.parametrize("observed", [True, False])
def test_zhao_premise_7_is_the_one_by_markov_blankets(observed):
    # (7) by hand: an interior record's blanket is its two neighbours, a_i their max-influence.
    p = np.array([[0.55, 0.45], [0.45, 0.55]])
    left_right = np.array([[[p[x, u] * p[x, v] for v in (0, 1)] for u in (0, 1)] for x in (0, 1)])
    a = np.log((left_right[0] / left_right[1]).max())
    model = MarkovChain(p, observed=observed)
    tau = 3 * (4 * a + 0.3)
    got = zhao_premise(tau=tau, sigma=0.1, budget=2, beta=0.05, model=model, method="blanket")
    assert got == pytest.approx(max(9 * math.log(80) / tau**2, 18 / (0.4 * 0.3)))
    small = zhao_premise(tau=0.1, sigma=0.1, budget=2, beta=0.05, model=model, method="blanket")
    assert small == math.inf  # τ/3 < 4a: the printed denominator is negative


@pytest.mark.parametrize(
    ("tau", "m", "b", "chain", "quilts", "lemma_4"),
    [(0.1, 100, 1, P1, 7.82e7, 2.583e8), (0.05, 1000, 10, P2, 6.48e9, 1.991e10)],
)
def test_zhao_theorem_2_on_chains_by_quilts_and_by_lemma_4(tau, m, b, chain, quilts, lemma_4):
    # (8) minimises over Markov quilts; Lemma 4, which the rate comes from, asks for more.
    common = {"tau": tau, "n_queries": m, "budget": b, "model": MarkovChain(chain, observed=True)}
    assert zhao_required_n(**common) == pytest.approx(quilts, rel=1e-3)
    assert zhao_required_n(method="spectral", **common) == pytest.approx(lemma_4, rel=1e-3)


def test_zhao_quilts_by_brute_force():
    # Lemma 2 on a chain of P1, an interior record: the best of all quilts {i−a, i+c}.
    p = np.array(P1)
    epsilon, best = 0.3, 0.0
    pi = np.array([2 / 3, 1 / 3])
    powers = [np.linalg.matrix_power(p, k) for k in range(60)]
    for a in range(1, 40):
        back = powers[a].T * pi  # P(x_{i−a} | x_i): rows x_i
        back /= back.sum(axis=1, keepdims=True)
        left = np.abs(np.log(back[0] / back[1])).max()
        for c in range(1, 40):
            b = left + np.abs(np.log(powers[c][0] / powers[c][1])).max()
            best = max(best, (epsilon - 4 * b) / (a + c - 1))
    # Conditioning inside N only cuts a side off: L = ∅ is the worst.
    got = MarkovChain(P1, observed=True).dp_epsilon(epsilon, 10_000, method="quilt")
    assert got == pytest.approx(best, rel=1e-6)


def test_equation_31_expands_without_substituting():
    # Printed: τ and β of the theorem inside (8)'s expression; meant: (1−c)τ/4 and β/(2m).
    sigma = 0.05 / (12 * math.log(8000))
    printed = zhao_premise(tau=0.1, sigma=sigma, budget=1, beta=0.05, model=Independent())
    meant = zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent())
    assert (round(printed), round(meant)) == (145_593, 1_164_741)


@pytest.mark.parametrize("c", [-1.0, 0.0, 1.0, math.nan])
def test_zhao_theorem_2_wants_c_between_0_and_1(c):
    with refused(ValueError, "c"):
        zhao_required_n(tau=0.1, n_queries=100, budget=1, c=c, model=Independent())


@pytest.mark.parametrize("c", [0.01, 0.3, 0.9, 0.99])
def test_zhao_theorem_2_for_any_c(c):
    n = plan_holdout(tau=0.1, n_queries=20, budget=1, c=c, route="zhao2017")
    certificate = certify(n, n_queries=20, budget=1, c=c, route="zhao2017")
    assert certificate.tau == pytest.approx(0.1, rel=1e-6)
    assert certificate.mechanism.threshold == pytest.approx((1 + c) * 0.1 / 2, rel=1e-6)


@pytest.mark.parametrize("chain", [None, P1])
@pytest.mark.parametrize("threshold", [0.05, 0.2])
def test_zhao_c_is_the_largest_whose_premise_holds(chain, threshold):
    model = Independent() if chain is None else MarkovChain(chain, observed=True)
    common = {"n_queries": 20, "budget": 2, "beta": 0.05, "model": model}
    n = 5 * 10**6 if chain is None else 3 * 10**8
    tau, c = zhao_accuracy(n, threshold=threshold, **common)
    assert 0 < c < 1
    assert threshold == pytest.approx((1 + c) * tau / 2)
    assert zhao_required_n(tau=tau, c=c, **common) <= n
    larger = c + 0.01 * (1 - c)
    assert zhao_required_n(tau=2 * threshold / (1 + larger), c=larger, **common) > n
    # Without a threshold: the smallest τ at a given c.
    tau, c = zhao_accuracy(n, c=0.3, **common)
    assert zhao_required_n(tau=tau, c=0.3, **common) <= n
    assert zhao_required_n(tau=0.999 * tau, c=0.3, **common) > n
    assert zhao_accuracy(100, **common)[0] == math.inf
    assert zhao_accuracy(100, threshold=threshold, **common)[0] == math.inf


@pytest.mark.parametrize("c", [None, 0.0])
def test_zhao_route_without_honesty_takes_the_smallest_c(c):
    certificate = certify(10**6, n_queries=20, budget=1, c=c, route="zhao2017")
    for other in (0.01, 0.5):
        assert certificate.tau < certify(10**6, n_queries=20, budget=1, c=other,
                                         route="zhao2017").tau  # fmt: skip
    assert plan_holdout(tau=0.1, n_queries=20, budget=1, c=c, route="zhao2017") < plan_holdout(
        tau=0.1, n_queries=20, budget=1, c=0.01, route="zhao2017"
    )


def test_zhao_theorem_1_is_false_for_two_blocks_of_identical_bits():
    # Premise (8) holds, and yet q(X) is 0 or 1 with probability 1/2 while q(P) = 1/2: nothing
    # concentrates, and tau = .4 is exceeded by every answer that follows the holdout.
    n, tau = 1000, 0.4
    model = Groups(np.repeat([0, 1], n // 2))
    premise = zhao_premise(tau=tau, budget=1, sigma=8.44, beta=0.05, model=model, n=n)
    assert premise == pytest.approx(999.7, abs=0.1)
    assert n >= premise
    deviations = [abs((a + b) / 2 - 0.5) for a in (0, 1) for b in (0, 1)]
    assert np.mean(np.array(deviations) > tau) == 0.5
    # Our certificate sees it: two effective records.
    assert model.effective_n(n) == pytest.approx(2.0)
    assert math.exp(model.log_tail(0.5, n)) >= 0.5
    with warned(UserWarning, "vacuous"):
        assert certify(n, correlation=model, n_queries=1, budget=1).is_vacuous


def test_floor_and_splitting_by_hand():
    floor = math.log(4000) / 0.02
    assert floor_required_n(tau=0.1, n_queries=100) == pytest.approx(floor)
    common = {"tau": 0.1, "n_queries": 100, "budget": 1}
    assert plan_holdout(**common, route="floor") == math.ceil(floor)
    assert plan_holdout(**common, route="splitting") == 100 * math.ceil(floor)


def test_dwork_constants_follow_from_theorem_4():
    # 6e^{−(τ/8)²n} ≤ β/2m and 2B/(σn) ≤ τ/8 at the n returned, and at none smaller.
    tau, m, b, beta = 0.1, 100, 1, 0.05
    n = dwork_required_n(tau=tau, n_queries=m, budget=b, beta=beta, branch="pure")
    sigma = tau / (96 * math.log(4 * m / beta))
    assert 2 * b / (sigma * n) <= tau / 8 * (1 + 1e-12)
    assert 6 * math.exp(-((tau / 8) ** 2) * n) <= beta / (2 * m)
    assert n == pytest.approx(16 * b / (sigma * tau))
    assert plan_holdout(tau=tau, n_queries=m, budget=b, route="dwork2017") == math.ceil(n)
    many = dwork_required_n(tau=tau, n_queries=10**60, budget=1, beta=beta, branch="pure")
    assert many >= 64 * math.log(12 * 10**60 / beta) / tau**2
    # The counter-check: at 1 % less the leakage is above τ/8.
    assert 2 * b / (sigma * 0.99 * n) > tau / 8


def test_dwork_approximate_branch_meets_its_theorem_with_equality():
    tau, m, b, beta = 0.1, 10**5, 20_000, 0.05
    n = dwork_required_n(tau=tau, n_queries=m, budget=b, beta=beta, branch="approximate")
    epsilon, each = tau / 104, 2 / (tau / (96 * math.log(4 * m / beta)) * n)
    delta = beta / (2 * m) * epsilon / (2 * math.log(2 / epsilon))
    assert 2 * delta / epsilon * math.log(2 / epsilon) <= beta / (2 * m) * (1 + 1e-12)
    composed = each * math.sqrt(2 * b * math.log(1 / delta)) + b * each * math.expm1(each)
    assert composed == pytest.approx(epsilon, rel=1e-9)
    assert n >= 2 * math.log(8 / delta) / epsilon**2


def test_dwork_minimum_of_b_and_root_b():
    common = {"tau": 0.1, "n_queries": 10**5}
    small = dwork_required_n(budget=1, **common)
    assert dwork_required_n(budget=3, **common) == pytest.approx(3 * small)
    # Far out the square root wins: four times the budget, twice the records.
    large = dwork_required_n(budget=40_000, **common)
    assert large < dwork_required_n(budget=40_000, branch="pure", **common)
    assert dwork_required_n(budget=160_000, **common) == pytest.approx(2 * large, rel=1e-2)
    assert dwork_required_n(budget=1, tau=0.05, n_queries=10**5) == pytest.approx(4 * small)
