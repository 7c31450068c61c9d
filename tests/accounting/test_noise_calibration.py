import math

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    auto_resolution,
    auto_scales,
    auto_threshold,
    noise_margin,
)
from tests.facts import refused


def test_threshold_is_smaller_near_the_ends_and_for_more_records():
    t = auto_threshold([0.5, 0.9, 0.98, 1.0], 1000, 3000)
    assert (np.diff(t) < 0).all()
    assert (t > 0).all()
    assert (auto_threshold([0.5, 0.9], 4000, 12000) < t[:2] * 0.52).all()


def test_threshold_is_finite_outside_the_range():
    assert np.isfinite(auto_threshold([-3.0, 7.0], 10, 10)).all()


def test_noise_widens_an_interval_by_less_than_a_tenth():
    n = 1000
    failure = 1e-3
    reference = math.sqrt(math.log(40) / (2 * n))
    s_t, s_q, s_a = auto_scales(n, failure=failure)
    z = noise_margin(failure=failure, threshold_scale=s_t, query_scale=s_q)
    z_a = answer_margin(failure=failure, answer_scale=s_a)
    assert 0 < z <= 0.1 * reference
    assert 0 < z_a <= 0.1 * reference


def test_resolution_is_a_fraction_of_the_half_width():
    assert auto_resolution(1e4) <= 0.5 * math.sqrt(math.log(40) / 2e4)
    assert auto_resolution(0.5) <= 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_values_raise(bad):
    with refused(ValueError, "prediction"):
        auto_threshold([bad], 10, 10)
    with refused(ValueError, "n_effective"):
        auto_resolution(bad)
