import math

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import zhao_accuracy, zhao_premise, zhao_required_n
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.planning import certify
from tests.facts import refused, warned


def test_zhao_required_n_by_hand():
    """Theory G3."""
    # τ = .1, m = 100, B = 1, c = 1/2: σ = .05/(12 ln 8000), ε = .05/12, n_# = 9/(4σε).
    expected = 9 / (4 * (0.05 / (12 * math.log(8000))) * (0.05 / 12))
    required_n = zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent())
    assert required_n == pytest.approx(expected)
    assert required_n == pytest.approx(1.165e6, rel=1e-3)


P1 = [[0.9, 0.1], [0.2, 0.8]]
P2 = [[0.9, 0.1], [0.1, 0.9]]


def test_zhao_premise_8_has_both_terms():
    # First term 9 ln(4/β)/τ² = 3,944 against 9B/(4στ/3) = 135 (Zhao 2017, (8)).
    common = {"tau": 0.1, "sigma": 0.5, "budget": 1, "model": Independent()}
    assert zhao_premise(beta=0.05, **common) == pytest.approx(9 * math.log(80) / 0.01)
    assert pytest.approx(135) == 9 / (4 * 0.5 * 0.1 / 3)
    assert zhao_premise(beta=0.05, **(common | {"sigma": 0.005})) == pytest.approx(13_500)
    assert zhao_premise(beta=0.001, **common) > zhao_premise(beta=0.05, **common)


@pytest.mark.parametrize("observed", [True, False])
def test_zhao_premise_7_is_the_one_by_markov_blankets(observed):
    # (7) by hand: an interior record's blanket is its two neighbors, a_i their max-influence.
    p = np.array([[0.55, 0.45], [0.45, 0.55]])
    left_right = np.array([[[p[x, u] * p[x, v] for v in (0, 1)] for u in (0, 1)] for x in (0, 1)])
    a = np.log((left_right[0] / left_right[1]).max())
    model = MarkovChain(p, observed=observed)
    tau = 3 * (4 * a + 0.3)
    required_n = zhao_premise(
        tau=tau, sigma=0.1, budget=2, beta=0.05, model=model, method="blanket"
    )
    assert required_n == pytest.approx(max(9 * math.log(80) / tau**2, 18 / (0.4 * 0.3)))
    unbounded = zhao_premise(tau=0.1, sigma=0.1, budget=2, beta=0.05, model=model, method="blanket")
    assert unbounded == math.inf  # τ/3 < 4a: the printed denominator is negative


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
    epsilon = 0.3
    best = 0.0
    pi = np.array([2 / 3, 1 / 3])
    powers = [np.linalg.matrix_power(p, k) for k in range(60)]
    for a in range(1, 40):
        back = powers[a].T * pi  # P(x_{i−a} | x_i): rows x_i
        back /= back.sum(axis=1, keepdims=True)
        left_influence = np.abs(np.log(back[0] / back[1])).max()
        for c in range(1, 40):
            b = left_influence + np.abs(np.log(powers[c][0] / powers[c][1])).max()
            best = max(best, (epsilon - 4 * b) / (a + c - 1))
    # Conditioning inside N only cuts a side off: L = ∅ is the worst.
    level = MarkovChain(P1, observed=True).dp_epsilon(epsilon, 10_000, method="quilt")
    assert level == pytest.approx(best, rel=1e-6)


def test_equation_31_expands_without_substituting():
    # Printed: τ and β of the theorem inside (8)'s expression; meant: (1−c)τ/4 and β/(2m).
    sigma = 0.05 / (12 * math.log(8000))
    printed = zhao_premise(tau=0.1, sigma=sigma, budget=1, beta=0.05, model=Independent())
    meant = zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent())
    assert (round(printed), round(meant)) == (145_593, 1_164_741)


@pytest.mark.parametrize("c", [-1.0, 0.0, 1.0, math.nan])
def test_zhao_theorem_2_requires_c_between_0_and_1(c):
    with refused(ValueError, "c"):
        zhao_required_n(tau=0.1, n_queries=100, budget=1, c=c, model=Independent())


TWENTY_QUERIES = {"n_queries": 20, "budget": 2, "beta": 0.05}
#: Models with numbers of records that suffice for twenty queries.
MODELS_AND_SIZES = pytest.mark.parametrize(
    ("model", "n"),
    [(Independent(), 5 * 10**6), (MarkovChain(P1, observed=True), 3 * 10**8)],
    ids=["independent", "chain"],
)


@MODELS_AND_SIZES
@pytest.mark.parametrize("threshold", [0.05, 0.2])
def test_zhao_c_is_the_largest_whose_premise_holds(model, n, threshold):
    tau, c = zhao_accuracy(n, model=model, threshold=threshold, **TWENTY_QUERIES)
    assert 0 < c < 1
    assert threshold == pytest.approx((1 + c) * tau / 2)
    assert zhao_required_n(tau=tau, c=c, model=model, **TWENTY_QUERIES) <= n
    larger_c = c + 0.01 * (1 - c)
    smaller_tau = 2 * threshold / (1 + larger_c)
    assert zhao_required_n(tau=smaller_tau, c=larger_c, model=model, **TWENTY_QUERIES) > n


@MODELS_AND_SIZES
def test_zhao_tau_is_the_smallest_at_a_given_c(model, n):
    tau, _ = zhao_accuracy(n, c=0.3, model=model, **TWENTY_QUERIES)
    assert zhao_required_n(tau=tau, c=0.3, model=model, **TWENTY_QUERIES) <= n
    assert zhao_required_n(tau=0.999 * tau, c=0.3, model=model, **TWENTY_QUERIES) > n


@pytest.mark.parametrize("model", [Independent(), MarkovChain(P1, observed=True)])
@pytest.mark.parametrize("threshold", [None, 0.05, 0.2])
def test_zhao_tau_is_infinite_for_100_records(model, threshold):
    assert zhao_accuracy(100, model=model, threshold=threshold, **TWENTY_QUERIES)[0] == math.inf


def test_zhao_theorem_1_is_false_for_two_blocks_of_identical_bits():
    # Premise (8) holds, and yet q(X) is 0 or 1 with probability 1/2 while q(P) = 1/2: nothing
    # concentrates, and tau = .4 is exceeded by every answer that follows the holdout.
    n = 1000
    tau = 0.4
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
