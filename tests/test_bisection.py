"""The one root search ends on the safe side."""

import math

import numpy as np
import pytest

from sklearn_bdp._bisection import crossing, doubled, last_accepted, last_whole, safe_inverse


@pytest.mark.parametrize("root", [0.0, 1e-9, 0.3, 1.0 / 3.0, 1.0])
def test_the_point_returned_was_accepted_and_is_next_to_the_root(root):
    point = last_accepted(lambda x: x >= root, 1.0, 0.0)
    assert point >= root
    assert point - root < 1e-13


def test_no_point_is_returned_that_was_refused_even_where_rounding_breaks_monotonicity():
    tried = {}

    def accepted(x):
        tried[x] = math.sin(1e6 * x) > 0 or x > 0.5
        return tried[x]

    point = last_accepted(lambda x: accepted(float(x)), 1.0, 0.0)
    assert tried[point]


def test_what_is_never_accepted_stays_at_the_safe_end_and_arrays_are_searched_at_once():
    safe, other, root = np.array([0.0, 0.0, 0.0]), np.ones(3), np.array([-1.0, 0.25, 2.0])
    found = last_accepted(lambda x: x <= root, safe, other)
    assert found.tolist() == [0.0, pytest.approx(0.25), pytest.approx(1.0)]


@pytest.mark.parametrize("root", [1, 2, 3, 17, 1000])
def test_whole_numbers_are_found_exactly_from_either_side(root):
    assert last_whole(lambda k: k >= root, *doubled(lambda k: k >= root, 1)) == root
    assert last_whole(lambda k: k < root, 0, 2048) == root - 1
    assert root <= last_whole(lambda k: k >= root, 4096, 0, fine=0.1) <= 1.15 * root + 1


def test_doubling_ends_where_it_is_told():
    assert doubled(lambda x: x >= 5.0, 1.5) == (6.0, 3.0)
    assert doubled(lambda x: x >= 1, 1) == (1, 0)
    assert doubled(lambda x: False, 1, most=100) is None


@pytest.mark.parametrize("root", [0.1, 1 / 3, 0.999])
@pytest.mark.parametrize(("safe", "other"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_crossing_is_on_the_safe_side(root, safe, other):
    sign = 1.0 if safe < other else -1.0
    tried = {}

    def excess(x):
        tried[x] = sign * (x**3 - root**3)
        return tried[x]

    point = crossing(excess, safe, other)
    assert tried[point] <= 0.0
    assert point == pytest.approx(root, rel=1e-6)


@pytest.mark.parametrize("target", [1e-8, 0.3, 50.0])
def test_smooth_functions_are_inverted_closely(target):
    got = safe_inverse(lambda x: 7 * x, target)
    assert 7 * got <= target
    assert got == pytest.approx(target / 7, rel=1e-6)
    assert safe_inverse(lambda x: x, target) == target


def test_jumps_end_below():
    def steps(x):
        return x + math.floor(10 * x) / 5

    got = safe_inverse(steps, 1.0)
    assert steps(got) <= 1.0
    assert steps(got + 0.11) > 1.0


def test_an_offset_that_cannot_be_met_gives_zero():
    assert safe_inverse(lambda x: x + 2.0, 1.0) == 0.0
    assert safe_inverse(lambda x: x + 2.0, 2.5) == pytest.approx(0.5)
    assert safe_inverse(lambda x: x, 0.0) == 0.0
    assert safe_inverse(lambda x: x, math.nan) == 0.0
