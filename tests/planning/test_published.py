import math

import numpy as np
import pytest

from sklearn_bdp.accounting import zhao_premise, zhao_required_n
from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.planning import (
    certify,
    dwork_required_n,
    floor_required_n,
    jung_half_width,
    rogers_half_width,
    rogers_thresholdout_half_width,
    splitting_required_n,
)


def test_zhao_required_n_by_hand():
    # τ = .1, m = 100, B = 1, c = 1/2: σ = .05/(12 ln 8000), ε = .05/12, n_# = 9/(4σε).
    expected = 9 / (4 * (0.05 / (12 * math.log(8000))) * (0.05 / 12))
    got = zhao_required_n(tau=0.1, n_queries=100, budget=1, model=Independent())
    assert got == pytest.approx(expected)
    assert got == pytest.approx(1.165e6, rel=1e-3)


def test_zhao_theorem_1_is_false_for_two_blocks_of_identical_bits():
    # Premise (8) holds, and yet q(X) is 0 or 1 with probability 1/2 while q(P) = 1/2: nothing
    # concentrates, and tau = .4 is exceeded by every answer that follows the holdout.
    n, tau = 1000, 0.4
    model = Groups(np.repeat([0, 1], n // 2))
    premise = zhao_premise(tau=tau, budget=1, sigma=8.44, model=model, n=n)
    assert premise == pytest.approx(999.7, abs=0.1)
    assert n >= premise
    deviations = [abs((a + b) / 2 - 0.5) for a in (0, 1) for b in (0, 1)]
    assert np.mean(np.array(deviations) > tau) == 0.5
    # Our certificate sees it: two effective records.
    assert model.effective_n(n) == pytest.approx(2.0)
    assert math.exp(model.log_tail(0.5, n)) >= 0.5
    with pytest.warns(UserWarning, match="vacuous"):
        assert certify(n, correlation=model, n_queries=1, budget=1).is_vacuous


def test_floor_and_splitting_by_hand():
    assert floor_required_n(tau=0.1, n_queries=100) == pytest.approx(math.log(4000) / 0.02)
    assert splitting_required_n(tau=0.1, n_queries=100) == pytest.approx(
        100 * math.log(4000) / 0.02
    )


def test_dwork_grows_with_the_budget_and_like_the_inverse_square():
    small = dwork_required_n(tau=0.1, n_queries=100, budget=1)
    assert dwork_required_n(tau=0.1, n_queries=100, budget=3) == pytest.approx(3 * small)
    assert dwork_required_n(tau=0.05, n_queries=100, budget=1) == pytest.approx(4 * small)


def test_published_noise_addition_needs_more_than_transcripts():
    # 400 queries, all answered from the holdout, n = 100,000.
    ours = certify(100_000, n_queries=400, budget=400, c=None).tau
    assert ours < rogers_half_width(100_000, n_queries=400)
    assert ours < jung_half_width(100_000, n_queries=400)


def test_published_thresholdout_is_far_from_the_as_used_width():
    published = rogers_thresholdout_half_width(10_000, n_queries=1000, budget=10)
    assert published > 0.3
    assert certify(10_000, n_queries=1000, budget=10, c=None).tau < 0.1 < published


def test_widths_shrink_with_records_and_grow_with_queries():
    for width in (rogers_half_width, jung_half_width):
        assert width(10_000, n_queries=100) > width(100_000, n_queries=100)
        assert width(100_000, n_queries=400) > width(100_000, n_queries=100)


def test_unknown_noise_raises():
    with pytest.raises(ValueError, match="noise"):
        jung_half_width(100, n_queries=1, noise="cauchy")
