"""Quilts on chains against a scan of all quilts of all records with influences by enumeration."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation._chains._quilts import chain_influences, quilt_leakage

from .oracle import chain_distribution


def influence(joint, record, quilt, inside):
    """``max over L in N`` of the influence, straight from the joint distribution."""
    worst = 0.0
    for size in range(len(inside) + 1):
        for known in itertools.combinations(inside, size):
            axes = (record, *known, *quilt)
            rest = tuple(a for a in range(joint.ndim) if a not in axes)
            table = joint.sum(axis=rest)
            table = np.moveaxis(table, np.argsort(np.argsort(axes)), range(len(axes)))
            shape = table.shape[: 1 + size]
            table = table.reshape(*shape, -1)
            with np.errstate(divide="ignore", invalid="ignore"):
                distribution = table / table.sum(axis=-1, keepdims=True)
                worst = max(
                    worst,
                    float(np.nanmax(np.log(distribution.max(axis=0) / distribution.min(axis=0)))),
                )
    return worst


def scan(matrix, n, epsilon, factor):
    """Lemma 2 as printed: every record, every quilt, every conditioning set."""
    joint, worst = chain_distribution(matrix, n), 0.0
    for i in range(n):
        best = n * epsilon
        for a in [None, *range(i)]:
            for c in [None, *range(i + 1, n)]:
                quilt = [q for q in (a, c) if q is not None]
                low, high = -1 if a is None else a, n if c is None else c
                inside = [j for j in range(low + 1, high) if j != i]
                if quilt:
                    b = influence(joint, i, quilt, inside)
                    best = min(best, (len(inside) + 1) * epsilon + factor * b)
        worst = max(worst, best)
    return worst


def ours(matrix, n, epsilon, factor):
    chain = MarkovChain(matrix, observed=True)
    tables = [chain_influences(k, n - 1, epsilon / factor) for k in (chain._reverse, matrix)]
    return quilt_leakage(*tables, epsilon, n, factor=factor)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_equals_the_scan_of_all_quilts(epsilon, factor):
    """Theory B2."""
    fast = np.array([[0.6, 0.4], [0.5, 0.5]])
    for matrix, n in (
        (fast, 6),
        (np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]), 5),
    ):
        want = scan(matrix, n, epsilon, factor)
        assert ours(matrix, n, epsilon, factor) == pytest.approx(want, rel=1e-9)
    assert MarkovChain(fast, observed=True).bdp_epsilon(epsilon, 6, method="quilt") == (
        pytest.approx(scan(fast, 6, epsilon, 4.0), rel=1e-9)
    )


def test_hand_computed_quilt():
    # Two states, flip .4: P^k(0,0)/P^k(1,0) = (1 + .2^k)/(1 - .2^k). With e' = .1 the middle of
    # a long chain is best with a = c = 3: 5 records and 4 * 2 ln((1 + .008)/(1 - .008)) nats.
    matrix = np.array([[0.6, 0.4], [0.4, 0.6]])

    def side(k):
        return math.log((1 + 0.2**k) / (1 - 0.2**k))

    want = min(
        (a + c - 1) * 0.1 + 4 * (side(a) + side(c)) for a in range(1, 9) for c in range(1, 9)
    )
    assert want == pytest.approx(0.5 + 8 * side(3))
    model = MarkovChain(matrix, observed=True)
    assert model.bdp_epsilon(0.1, 1000, method="quilt") == pytest.approx(want)
    assert model.dp_epsilon(want, 1000, method="quilt") == pytest.approx(0.1)


def test_long_chains_do_not_depend_on_their_length():
    model = MarkovChain([[0.9, 0.1], [0.2, 0.8]], observed=True)
    levels = [model.bdp_epsilon(0.01, n, method="quilt") for n in (2000, 10**5, 10**7)]
    assert levels == pytest.approx([levels[0]] * 3)


def test_many_states_use_separate_sides():
    matrix = np.random.default_rng(0).dirichlet(np.full(60, 0.3), size=60)
    model = MarkovChain(matrix, observed=True)
    assert model.bdp_epsilon(0.01, 500, method="quilt") <= 5.0
