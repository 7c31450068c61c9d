"""Leakage through a kernel: the update of Cao et al. and Birkhoff's contraction."""

import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation.leakage import (
    bound_later_terms,
    contract,
    iterate_leakage,
    kernel_leakage,
    two_state_leakage,
)


def enumerated_leakage(kernel, weight):
    """``L_P(w)`` by trying every set of next states."""
    t = math.expm1(weight)
    worst = 0.0
    for size in range(kernel.shape[1] + 1):
        for members in itertools.combinations(range(kernel.shape[1]), size):
            mass = kernel[:, list(members)].sum(axis=1)
            worst = max(worst, math.log((1 + mass.max() * t) / (1 + mass.min() * t)))
    return worst


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_kernel_leakage_equals_enumeration(k):
    """Theory B7."""
    rng = np.random.default_rng(k)
    for weight, zeros in itertools.product((1e-6, 0.1, 3.0, 40.0), (False, True)):
        kernel = rng.dirichlet(np.full(k, 0.4), size=k)
        if zeros:
            kernel[kernel < 0.1] = 0.0
            kernel /= kernel.sum(axis=1, keepdims=True)
        assert kernel_leakage(kernel, weight) == pytest.approx(
            enumerated_leakage(kernel, weight), rel=1e-9
        )


def test_kernel_leakage_keeps_precision_and_survives_huge_weights():
    kernel = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert kernel_leakage(kernel, 1e-12) == pytest.approx(0.7e-12, rel=1e-6)
    assert kernel_leakage(np.eye(2), 5000.0) == pytest.approx(5000.0)
    assert kernel_leakage(kernel, 0.0) == 0.0


def test_two_state_leakage_keeps_directions_apart():
    kernel = np.array([[0.9, 0.1], [0.2, 0.8]])
    rise = 0.7
    fall = 0.1
    up, down = two_state_leakage(kernel, np.array([rise, fall]))

    def ratio(x):
        g = np.array([math.exp(x), 1.0])
        return math.log((kernel[0] @ g) / (kernel[1] @ g))

    assert up == pytest.approx(ratio(rise))
    assert down == pytest.approx(-ratio(-fall))
    symmetric_leakage = two_state_leakage(kernel, np.array([rise, rise]))
    assert symmetric_leakage.max() == pytest.approx(kernel_leakage(kernel, rise))
    flipped = two_state_leakage(kernel[::-1], np.array([rise, fall]))
    assert flipped == pytest.approx([down, up])


def test_two_state_leakage_survives_extremes():
    assert two_state_leakage(np.eye(2), np.array([2000.0, 1.0])) == pytest.approx([2000.0, 1.0])
    assert np.all(
        np.isfinite(two_state_leakage(np.array([[1.0, 0.0], [0.5, 0.5]]), np.full(2, 900.0)))
    )


@pytest.mark.parametrize("diameter", [1e-9, 0.3, 5.0, 60.0, math.inf])
def test_contract_is_birkhoffs_formula(diameter):
    for weight in (1e-9, 0.3, 5.0, 60.0):
        contracted = contract(diameter, weight)
        assert contracted <= min(diameter, weight)
        if max(weight, min(diameter, 50)) <= 5:
            expected = 4 * math.atanh(math.tanh(diameter / 4) * math.tanh(weight / 4))
            assert contracted == pytest.approx(expected, rel=1e-9)


def test_contraction_bounds_every_kernel_of_that_diameter():
    rng = np.random.default_rng(0)
    for _ in range(200):
        kernel = rng.dirichlet(np.ones(3), size=3)
        weight = rng.exponential()
        assert (
            kernel_leakage(kernel, weight)
            <= contract(MarkovChain(kernel).diameter_, weight) + 1e-12
        )


def test_contraction_is_attained():
    # Symmetric two-state kernel with the symmetric function.
    kernel = np.array([[0.9, 0.1], [0.1, 0.9]])
    best = max(
        math.log((np.exp(x) * 0.9 * h + 0.1) / (0.9 * h + 0.1))
        - math.log((np.exp(x) * 0.1 * h + 0.9) / (0.1 * h + 0.9))
        for h in np.geomspace(0.01, 100, 2001)
        for x in (1.0,)
    )
    assert best == pytest.approx(contract(MarkovChain(kernel).diameter_, 1.0), rel=1e-4)


def test_iteration_ends_above_every_later_term():
    def update(weights):
        return 0.9 * weights

    weights = iterate_leakage(update, 1.0, 10**6)
    assert 9.0 <= weights[-1, 0] <= 9.0 * (1 + 1e-9)
    assert len(iterate_leakage(update, 1.0, 5)) == 6
    capped = iterate_leakage(update, 1.0, 10**6, max_iterations=10)
    assert capped[-1, 0] >= 9.0


def test_close_above_returns_a_super_solution_or_the_ceiling():
    assert bound_later_terms(lambda w: w, 1.0, np.array([3.0]), 1.0, 50) == pytest.approx([50.0])
    bound = bound_later_terms(lambda w: 0.5 * w, 1.0, np.array([0.9]), 0.1, 10**6)
    assert 1.0 <= bound[0] < 3.0
