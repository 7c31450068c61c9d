"""Sides of a record on a chain: bridges, quilts by enumeration, Lemma 4 as printed."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.leakage import (
    chain_influences,
    leakage_bound,
    quilt_leakage,
    side_leakage_by_bridges,
    spectral_dp_epsilon,
    spectral_smallest_n,
)
from tests.facts import refused

from .oracle import chain_distribution

P1 = np.array([[0.9, 0.1], [0.2, 0.8]])
LAW = np.array([2 / 3, 1 / 3])


def test_an_observed_neighbor_adds_no_leakage():
    sides = side_leakage_by_bridges(P1, 0.1, 1, column_limits=np.ones(2))
    assert sides == pytest.approx(np.zeros((2, 2)))


@pytest.mark.parametrize("epsilon", [1e-4, 0.2])
@pytest.mark.parametrize(("matrix", "far_weights"), [(P1, np.ones(2)), (P1.T, LAW)])
def test_closing_early_only_loosens(matrix, far_weights, epsilon):
    long = side_leakage_by_bridges(matrix, epsilon, 5000, column_limits=far_weights)
    assert len(long) < 5000
    assert np.all(np.diff(long, axis=0) >= 0)
    for cap in (5, 20):
        short = side_leakage_by_bridges(
            matrix, epsilon, 5000, column_limits=far_weights, max_iterations=cap
        )
        assert np.all(short[-1] >= long[-1] * (1 - 1e-9))
    exact = side_leakage_by_bridges(matrix, epsilon, len(long) - 5, column_limits=far_weights)
    assert np.all(long[-1] <= exact[-1] * (1 + 1e-4) + 1e-4 * epsilon)


def test_chains_that_never_settle_give_up():
    cycle = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert (
        side_leakage_by_bridges(cycle, 0.1, 10_000, column_limits=np.ones(2), max_iterations=100)
        is None
    )
    assert len(side_leakage_by_bridges(cycle, 0.1, 50, column_limits=np.ones(2))) == 51


def influence(joint, record, quilt, inside):
    """``max over L in N`` of the influence, straight from the joint distribution."""
    max_influence = 0.0
    for size in range(len(inside) + 1):
        for conditioning_set in itertools.combinations(inside, size):
            axes = (record, *conditioning_set, *quilt)
            summed_axes = tuple(a for a in range(joint.ndim) if a not in axes)
            table = joint.sum(axis=summed_axes)
            table = np.moveaxis(table, np.argsort(np.argsort(axes)), range(len(axes)))
            shape = table.shape[: 1 + size]
            table = table.reshape(*shape, -1)
            with np.errstate(divide="ignore", invalid="ignore"):
                distribution = table / table.sum(axis=-1, keepdims=True)
                max_influence = max(
                    max_influence,
                    float(np.nanmax(np.log(distribution.max(axis=0) / distribution.min(axis=0)))),
                )
    return max_influence


def scan(matrix, n, epsilon, factor):
    """Lemma 2 as printed: every record, every quilt, every conditioning set."""
    joint = chain_distribution(matrix, n)
    worst = 0.0
    for i in range(n):
        best = n * epsilon
        for a in [None, *range(i)]:
            for c in [None, *range(i + 1, n)]:
                quilt = [q for q in (a, c) if q is not None]
                low = -1 if a is None else a
                high = n if c is None else c
                inside = [j for j in range(low + 1, high) if j != i]
                if quilt:
                    b = influence(joint, i, quilt, inside)
                    best = min(best, (len(inside) + 1) * epsilon + factor * b)
        worst = max(worst, best)
    return worst


def package_leakage(matrix, n, epsilon, factor):
    chain = MarkovChain(matrix, observed=True)
    backward_influences = chain_influences(leakage_bound(chain).backward, n - 1, epsilon / factor)
    forward_influences = chain_influences(matrix, n - 1, epsilon / factor)
    return quilt_leakage(backward_influences, forward_influences, epsilon, n, factor=factor)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_equals_the_scan_of_all_quilts(epsilon, factor):
    """Theory B2."""
    fast = np.array([[0.6, 0.4], [0.5, 0.5]])
    for matrix, n in (
        (fast, 6),
        (np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]), 5),
    ):
        expected = scan(matrix, n, epsilon, factor)
        assert package_leakage(matrix, n, epsilon, factor) == pytest.approx(expected, rel=1e-9)
    assert MarkovChain(fast, observed=True).bdp_epsilon(epsilon, 6, method="quilt") == (
        pytest.approx(scan(fast, 6, epsilon, 4.0), rel=1e-9)
    )


def test_hand_computed_quilt():
    # Two states, flip .4: P^k(0,0)/P^k(1,0) = (1 + .2^k)/(1 - .2^k). With e' = .1 the middle of
    # a long chain is best with a = c = 3: 5 records and 4 * 2 ln((1 + .008)/(1 - .008)) nats.
    matrix = np.array([[0.6, 0.4], [0.4, 0.6]])

    def side(k):
        return math.log((1 + 0.2**k) / (1 - 0.2**k))

    expected = min(
        (a + c - 1) * 0.1 + 4 * (side(a) + side(c)) for a in range(1, 9) for c in range(1, 9)
    )
    assert expected == pytest.approx(0.5 + 8 * side(3))
    model = MarkovChain(matrix, observed=True)
    assert model.bdp_epsilon(0.1, 1000, method="quilt") == pytest.approx(expected)
    assert model.dp_epsilon(expected, 1000, method="quilt") == pytest.approx(0.1)


def test_long_chains_do_not_depend_on_their_length():
    model = MarkovChain([[0.9, 0.1], [0.2, 0.8]], observed=True)
    levels = [model.bdp_epsilon(0.01, n, method="quilt") for n in (2000, 10**5, 10**7)]
    assert levels == pytest.approx([levels[0]] * 3)


def test_a_long_chain_costs_no_more_than_a_short_one():
    """Quilts are considered at its ends and its middle only: peaks of memory agree."""
    peaks = []
    for n in (10**4, 10**6):
        model = MarkovChain([[0.9, 0.1], [0.2, 0.8]], observed=True)
        tracemalloc.start()
        for method in ("quilt", "tight"):
            model.bdp_epsilon(0.01, n, method=method)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 1.1 * peaks[0]
    assert peaks[1] < 10**6  # bytes: less than one per record


def test_many_states_use_separate_sides():
    matrix = np.random.default_rng(0).dirichlet(np.full(60, 0.3), size=60)
    model = MarkovChain(matrix, observed=True)
    assert model.bdp_epsilon(0.01, 500, method="quilt") <= 5.0


def lemma_4(e, g, rho, n, c):
    """The right-hand side of Lemma 4 for one c, letter by letter."""
    d = math.ceil(math.log((math.exp(c * e) + 1) / (rho * (math.exp(c * e) - 1))) / g)
    s = math.floor(math.log((math.exp(e / 6) + 1) / (rho * (math.exp(e / 6) - 1))) / g)
    if n < 2 * d:
        return 0.0
    return min((1 - 6 * c) * e / (2 * d - 1), (1 / 3 - 2 * c) * e / (d + s))


@pytest.mark.parametrize("e", [0.01, 0.3, 2.0])
@pytest.mark.parametrize(("g", "rho"), [(0.3, 1 / 3), (0.2, 0.5), (0.9, 0.05)])
@pytest.mark.parametrize("n", [60, 10**6])
def test_equals_the_printed_formula_maximised_over_c(e, g, rho, n):
    """Theory B4."""
    dp_epsilon = spectral_dp_epsilon(e, g, rho, n)
    best = max(lemma_4(e, g, rho, n, c) for c in np.linspace(1e-6, 1 / 6 - 1e-9, 20_001))
    assert dp_epsilon >= best * (1 - 1e-9)
    assert dp_epsilon == pytest.approx(best, rel=2e-3, abs=1e-12)


def test_hand_computed_case():
    # g = 1/2, rho = 1/2, e = 6: c = 0.1 gives d = ceil(2 ln(2 coth 0.3)) = 4,
    # s = floor(2 ln(2 coth 0.5)) = 2, h = min(2.4 / 7, 0.8 / 6).
    assert lemma_4(6.0, 0.5, 0.5, 100, 0.1) == pytest.approx(0.8 / 6)
    assert spectral_dp_epsilon(6.0, 0.5, 0.5, 100) >= 0.8 / 6


def test_reference_multipliers():
    # Prototype values: 222 and 340 at the levels of the reference table.
    first = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    second = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    level = first.dp_epsilon(0.004, 10**7, method="spectral")
    assert 0.004 / level == pytest.approx(222, abs=0.5)
    level = second.dp_epsilon(0.0021, 10**7, method="spectral")
    assert 0.0021 / level == pytest.approx(340, abs=0.5)


LAZY = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("transition", "n", "facts"),
    [
        ([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], 1000, ("method='spectral'", "B5")),
        ([[0.0, 1.0], [1.0, 0.0]], 1000, ("aperiodic",)),
        ([[0.9, 0.1], [0.2, 0.8]], 7, (8, "n=7")),
        (LAZY, 1000, ("observed=True",)),
    ],
    ids=["not reversible", "periodic", "too few records", "hidden states"],
)
def test_the_spectral_method_raises_with_the_missing_condition(transition, n, facts):
    with refused(ValueError, *facts):
        MarkovChain(transition).dp_epsilon(0.1, n, method="spectral")


def test_the_spectral_method_applies_to_an_observed_lazy_chain():
    assert MarkovChain(LAZY, observed=True).dp_epsilon(0.1, 1000, method="spectral") > 0


def test_too_few_records_for_this_level_but_not_for_all():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    assert spectral_smallest_n(0.3, 1 / 3) == 8
    assert chain.dp_epsilon(1e-6, 8, method="spectral") == 0.0
    assert chain.dp_epsilon(50.0, 8, method="spectral") > 0
    level = chain.bdp_epsilon(0.1, 8, method="spectral")
    assert chain.dp_epsilon(level, 8, method="spectral") >= 0.1
