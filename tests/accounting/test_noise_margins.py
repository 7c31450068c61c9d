import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    noise_margin,
    round_noise_failure,
)
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon
from tests.accounting.routes import noise_tail
from tests.facts import refused


def _tail_by_integration(z, a, b):
    def density(x):
        return math.exp(-abs(x) / a) / (2 * a)

    def upper(x):
        return 0.5 * math.exp(-x / b) if x > 0 else 1 - 0.5 * math.exp(x / b)

    breakpoints = [-60 * a, 0.0, z, z + 60 * a]
    return sum(
        quad(lambda x: density(x) * upper(z - x), lower, upper_end)[0]
        for lower, upper_end in itertools.pairwise(breakpoints)
    )


@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 1), (1, 1), (1, 1.0000004), (0.3, 5), (1, 0.05)])
@pytest.mark.parametrize("z", [0.0, 0.7, 3.0, 12.0])
def test_noise_tail_is_the_convolution(a, b, z):
    """Theory N1."""
    assert noise_tail(z, a, b) == pytest.approx(_tail_by_integration(z, a, b), rel=1e-5)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 0), (0, 3), (1, 1)])
@pytest.mark.parametrize("failure", [0.3, 1e-3, 1e-12])
def test_noise_margin_is_the_smallest_safe_one(noise, a, b, failure):
    z = noise_margin(failure=failure, threshold_scale=a, query_scale=b, noise=noise)
    assert noise_tail(z, a, b, noise) <= failure * (1 + 1e-9)
    assert noise_tail(z * 0.999, a, b, noise) > failure


def test_no_noise_needs_no_margin():
    assert noise_margin(failure=0.01, threshold_scale=0, query_scale=0) == 0.0
    assert answer_margin(failure=0.01, answer_scale=0) == 0.0


def test_answer_margin_is_the_two_sided_quantile():
    z = answer_margin(failure=0.01, answer_scale=2.0)
    assert math.exp(-z / 2.0) == pytest.approx(0.01)
    rng = np.random.default_rng(0)
    z = answer_margin(failure=0.05, answer_scale=2.0, noise="gaussian")
    assert np.mean(np.abs(rng.normal(0, 2, 100_000)) > z) == pytest.approx(0.05, abs=0.003)


def test_noise_shares_sum_to_the_whole():
    """Theory N3."""
    shares = round_noise_failure(0.05, np.arange(100_000))
    assert shares.sum() == pytest.approx(0.05, rel=1e-4)
    assert shares.sum() <= 0.05


def test_cost_of_a_run_matches_the_published_constants():
    s = 0.01
    n = 1000
    b = 3
    scales = {"threshold_scale": s, "query_scale": 2 * s, "answer_scale": 4 * s}
    zhao = thresholdout_epsilon(sensitivity=1 / n, budget=b, **scales)
    assert zhao == pytest.approx(9 * b / (4 * s * n))
    scales = {"threshold_scale": 2 * s, "query_scale": 4 * s, "answer_scale": s}
    dwork = thresholdout_epsilon(sensitivity=1 / n, budget=b, **scales)
    assert dwork == pytest.approx(2 * b / (s * n))
    with_kept_threshold = thresholdout_epsilon(sensitivity=1 / n, budget=b, refresh=False, **scales)
    assert with_kept_threshold == pytest.approx((1 / (2 * s) + 2 * b / (4 * s) + b / s) / n)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf])
def test_bad_scales_raise(bad):
    with refused(ValueError, "threshold_scale"):
        noise_margin(failure=0.01, threshold_scale=bad, query_scale=1.0)
    with refused(ValueError, "answer_scale"):
        answer_margin(failure=0.01, answer_scale=bad)
    with refused(ValueError, "query_scale"):
        thresholdout_epsilon(
            sensitivity=0.1, budget=1, threshold_scale=1.0, query_scale=bad, answer_scale=1.0
        )


@pytest.mark.parametrize("failure", [0.0, 1.0, math.nan, -0.1])
def test_bad_failures_raise(failure):
    with refused(ValueError, "failure"):
        noise_margin(failure=failure, threshold_scale=1.0, query_scale=1.0)


def test_unknown_noise_raises():
    with refused(ValueError, "noise='cauchy'"):
        noise_margin(failure=0.1, threshold_scale=1.0, query_scale=1.0, noise="cauchy")


@pytest.mark.parametrize("refresh", [True, False])
def test_accuracy_costs_the_budget_and_not_the_queries(refresh):
    """Theory N2."""
    # The worst analyst repeats a query that is just too far until one is answered "below" or the
    # budget ends: the failure rate is at most B·tail(z), and close to it.
    from sklearn_bdp.mechanisms import Thresholdout

    budget = 3
    replications = 800
    z = 0.08
    scales = {"threshold_scale": 0.01, "query_scale": 0.02, "answer_scale": 0.01}
    failures = 0
    rng = np.random.default_rng(0)
    for _ in range(replications):
        mechanism = Thresholdout(0.2, **scales, budget=budget, refresh=refresh, random_state=rng)
        answers = mechanism.answer(np.full(budget, 0.3), np.full(budget, 0.3 + 0.2 + z))
        failures += not answers.above.all()
    bound = budget * noise_tail(z, 0.01, 0.02)
    margin = 4 * math.sqrt(bound / replications)
    assert failures / replications <= bound + margin
    assert failures / replications >= 0.5 * bound - margin
