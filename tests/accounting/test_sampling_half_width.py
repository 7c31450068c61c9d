import itertools
import math

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import log_transcripts, sampling_half_width
from tests.accounting.routes import adaptive_failure


def _reachable(m, budget, cells):
    """Count the reachable (history, query) pairs by playing every transcript."""

    def visit(n_queries, n_above):
        if n_queries == m or n_above == budget:
            return 0
        return 1 + visit(n_queries + 1, n_above) + cells * visit(n_queries + 1, n_above + 1)

    return visit(0, 0)


@pytest.mark.parametrize(("m", "budget", "cells"), [(1, 1, 3), (5, 2, 3), (8, 8, 2), (9, 3, 1)])
def test_transcripts_are_counted_exactly(m, budget, cells):
    """Theory G2."""
    assert math.exp(log_transcripts(m, budget, cells)) == pytest.approx(
        _reachable(m, budget, cells), rel=1e-9
    )


def test_transcript_bound_for_huge_budgets_is_above_the_sum():
    exact = log_transcripts(20_000, 20_000, 7)
    bound = log_transcripts(20_001, 20_001, 7)
    assert exact < bound < exact + 30


def test_g1_holds_for_randomized_response_by_enumeration():
    # n bits released through randomized response; the event is the most likely set for each
    # output. P[X in E_Y] is computed exactly and compared with the bound.
    """Theory G1."""
    n = 6
    inputs = np.array(list(itertools.product([0, 1], repeat=n)))
    for epsilon in (0.1, 0.5, 1.5):
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        distance = (inputs[:, None, :] != inputs[None, :, :]).sum(axis=2)
        distribution = keep ** (n - distance) * (1 - keep) ** distance  # P[y | x]
        information = n * epsilon**2 / 8
        for size in (1, 4, 16):
            best = np.sort(distribution, axis=0)[::-1][:size].sum(axis=0).mean()
            bound = adaptive_failure(math.log(size / 2**n), information)
            assert best <= bound + 1e-12


def test_sampling_half_width_inverts_the_bound_of_g1():
    alpha = sampling_half_width(500, log_failure=math.log(0.01), n_queries=20, information=1.7)
    log_p0 = math.log(2 * 20) - 2 * 500 * alpha**2
    assert adaptive_failure(log_p0, 1.7) == pytest.approx(0.01)


def test_binomials_stay_exact_for_huge_numbers_of_queries():
    exact = math.log(math.comb(10**15, 4))
    log_count = log_transcripts(10**15, 4, 1)
    assert log_count == pytest.approx(exact, abs=1e-9)
    assert log_count >= exact
