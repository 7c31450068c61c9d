import math

import pytest

from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import thresholdout_epsilon


def test_thresholdout_epsilon_by_hand():
    level = thresholdout_epsilon(
        sensitivity=0.01,
        budget=2,
        threshold_scale=0.1,
        query_scale=0.2,
        answer_scale=0.4,
        n_thresholds=3,
    )
    assert level == pytest.approx(0.01 * (3 / 0.1 + 4 / 0.2 + 2 / 0.4))


def test_zero_scales_cost_infinitely_much_once_used():
    scales = {"sensitivity": 0.1, "threshold_scale": 0.1, "query_scale": 0.0, "answer_scale": 0.1}
    assert thresholdout_epsilon(**scales, n_thresholds=1, budget=1) == math.inf
    assert thresholdout_epsilon(**scales, n_thresholds=1, budget=0) == pytest.approx(1.0)
    assert thresholdout_epsilon(**scales, n_thresholds=0, budget=0) == 0.0


@pytest.mark.parametrize("c", [0.1, 0.5, 0.9])
def test_zhao2017_noise_and_threshold_fill_the_accuracy(c):
    # Theorem 2 leaves (1 - c) tau / 2 on either side of the threshold, split between noise
    # margins of 6 sigma ln(4m/beta) in all.
    tau, beta, m = 0.1, 0.05, 100
    mechanism = Thresholdout.zhao2017(tau, beta, m, 1, c)
    margin = 6 * mechanism.threshold_scale * math.log(4 * m / beta)
    assert mechanism.threshold + margin == pytest.approx(tau)


def test_dwork2017_scales_have_the_ratios_of_figure_1():
    mechanism = Thresholdout.dwork2017(0.1, 0.05, 100, 1)
    sigma = mechanism.answer_scale
    assert mechanism.threshold_scale == 2 * sigma
    assert mechanism.query_scale == 4 * sigma
