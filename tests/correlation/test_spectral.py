"""Zhao 2017, Lemma 4, against the printed formula evaluated on a grid of c."""

import math

import numpy as np
import pytest

from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.correlation._chains._spectral import spectral_dp_epsilon, spectral_smallest_n


def printed(e, g, rho, n, c):
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
    got = spectral_dp_epsilon(e, g, rho, n)
    best = max(printed(e, g, rho, n, c) for c in np.linspace(1e-6, 1 / 6 - 1e-9, 20_001))
    assert got >= best * (1 - 1e-9)
    assert got == pytest.approx(best, rel=2e-3, abs=1e-12)


def test_hand_computed_case():
    # g = 1/2, rho = 1/2, e = 6: c = 0.1 gives d = ceil(2 ln(2 coth 0.3)) = 4,
    # s = floor(2 ln(2 coth 0.5)) = 2, h = min(2.4 / 7, 0.8 / 6).
    assert printed(6.0, 0.5, 0.5, 100, 0.1) == pytest.approx(0.8 / 6)
    assert spectral_dp_epsilon(6.0, 0.5, 0.5, 100) >= 0.8 / 6


def test_reference_multipliers():
    # Prototype values: 222 and 340 at the levels of the reference table.
    first = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    second = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    level = first.dp_epsilon(0.004, 10**7, method="spectral")
    assert 0.004 / level == pytest.approx(222, abs=0.5)
    level = second.dp_epsilon(0.0021, 10**7, method="spectral")
    assert 0.0021 / level == pytest.approx(340, abs=0.5)


def test_refusals_name_what_is_missing():
    skew = [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]
    with pytest.raises(ValueError, match=r"reversible.*B5"):
        MarkovChain(skew).dp_epsilon(0.1, 1000, method="spectral")
    with pytest.raises(ValueError, match="aperiodic"):
        MarkovChain([[0.0, 1.0], [1.0, 0.0]]).dp_epsilon(0.1, 1000, method="spectral")
    with pytest.raises(ValueError, match="at least 8 records, got n=7"):
        MarkovChain([[0.9, 0.1], [0.2, 0.8]]).dp_epsilon(0.1, 7, method="spectral")
    lazy = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]
    with pytest.raises(ValueError, match="observed=True"):
        MarkovChain(lazy).dp_epsilon(0.1, 1000, method="spectral")
    assert MarkovChain(lazy, observed=True).dp_epsilon(0.1, 1000, method="spectral") > 0


def test_too_few_records_for_this_level_but_not_for_all():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    assert spectral_smallest_n(0.3, 1 / 3) == 8
    assert chain.dp_epsilon(1e-6, 8, method="spectral") == 0.0
    assert chain.dp_epsilon(50.0, 8, method="spectral") > 0
    level = chain.bdp_epsilon(0.1, 8, method="spectral")
    assert chain.dp_epsilon(level, 8, method="spectral") >= 0.1
