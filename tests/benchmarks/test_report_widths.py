"""The narrowest bets, beside the most powerful test of a share."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.report_widths import best_bets, best_power


@pytest.mark.parametrize("mean", [0.5, 0.55, 0.6])
def test_best_bets_have_nearly_the_power_of_the_binomial_test(mean):
    """Of scores that are 0 or 1 no test is more powerful than the binomial one."""
    level = 0.02
    n_units = 60
    bits = np.repeat([0.0, 1.0], [300, 700])
    power = best_power(bits, np.ones(1000), mean, n_units, level)
    n_hits = np.arange(n_units + 1)
    is_rejected = binom.sf(n_hits - 1, n_units, mean) <= level
    least_power = binom.pmf(n_hits, n_units, 0.7) @ is_rejected
    (boundary,) = n_hits[is_rejected][:1] - 1
    most_power = least_power + binom.pmf(boundary, n_units, 0.7)
    assert 0.95 * least_power < power < most_power


def test_best_bets_are_as_wide_as_one_look_for_many_units_of_even_shares():
    bits = np.repeat([0.0, 1.0], 500)
    assert best_bets(bits, np.ones(1000), 400, 0.05) == pytest.approx(1.0, abs=0.03)
