import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import n_cells, to_cell
from tests.facts import refused

resolutions = st.floats(1e-3, 1.0)


@given(st.integers(1, 5000))
def test_n_cells_of_one_over_an_integer_is_that_integer(cells):
    assert n_cells(1.0 / cells) == cells


@given(resolutions)
def test_cells_cover_the_unit_interval_and_one_fewer_would_not(resolution):
    cells = n_cells(resolution)
    assert cells * resolution >= 1.0 - 1e-9
    assert (cells - 1) * resolution < 1.0


@given(resolutions)
def test_midpoints_are_their_own_cells_and_lie_in_the_unit_interval(resolution):
    midpoints = np.minimum((np.arange(n_cells(resolution)) + 0.5) * resolution, 1.0)
    assert midpoints.min() > 0.0
    assert midpoints.max() <= 1.0
    assert (np.diff(midpoints) > 0).all()
    np.testing.assert_array_equal(to_cell(midpoints, resolution), np.arange(midpoints.size))


@given(resolutions, st.floats(-50.0, 50.0))
def test_values_out_of_range_are_in_the_end_cells(resolution, value):
    cell = to_cell(value, resolution)
    assert 0 <= cell < n_cells(resolution)
    if value < 0:
        assert cell == 0
    if value >= 1:
        assert cell == n_cells(resolution) - 1


@pytest.mark.parametrize("resolution", [0.0, -0.1, 1.5, math.nan, math.inf])
def test_resolutions_without_cells_raise(resolution):
    with refused(ValueError, "resolution"):
        n_cells(resolution)


@pytest.mark.parametrize("resolution", [6.65e-82, 5e-324, 2.0**-45])
def test_cells_finer_than_the_fine_grid_raise(resolution):
    for use in (n_cells, lambda r: to_cell([0.5], r)):
        with refused(ValueError, "resolution", "2**-44"):
            use(resolution)
    scales = {"threshold_scale": 0.0, "query_scale": 0.0, "answer_scale": 0.0}
    with refused(ValueError, "resolution"):
        Thresholdout(0.1, **scales, resolution=resolution)


def test_finest_cells_are_released_without_listing_them():
    scales = {"threshold_scale": 0.0, "query_scale": 0.0, "answer_scale": 0.0}
    mechanism = Thresholdout(0.1, **scales, resolution=2.0**-44)
    assert mechanism.answer(0.9, 0.25).values == pytest.approx(0.25, abs=2.0**-44)
