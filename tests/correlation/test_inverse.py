"""The inverse of a calibration never ends on the unsafe side."""

import math

import pytest

from sklearn_bdp._bisection import safe_inverse


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
