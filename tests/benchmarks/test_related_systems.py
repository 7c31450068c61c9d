"""The comparison with related systems: its output follows from the certificates."""

import math

import pytest

from benchmarks import related_systems


def test_zcdp_composition_is_never_below_the_exact_accountant():
    levels = dict(related_systems.composition())
    assert levels["zCDP (used here)"] < levels["sum of pure levels"] / 10
    exact = levels.get("dp-accounting, privacy loss distribution")
    assert exact is None or 0 < exact <= levels["zCDP (used here)"]


def test_verifying_every_candidate_costs_fewer_fits_than_nesting():
    fits = dict(related_systems.fits())
    n_plain, n_nested, n_verified = fits.values()
    assert n_plain < n_verified < n_nested / 4


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)  # of others
def test_charged_as_used_is_the_narrowest_adaptive_answer():
    widths = dict(related_systems.widths())
    search_width = widths.pop("ReusableHoldout, last search")
    widths.pop("ReusableHoldout, final report")
    floor = widths.pop("queries fixed in advance (not adaptive)")
    assert floor < search_width < min(width for width in widths.values() if not math.isnan(width))
