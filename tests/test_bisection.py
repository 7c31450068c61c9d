"""The one root search ends on the safe side."""

import math

import numpy as np
import pytest

from sklearn_bdp._bisection import last_accepted


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
