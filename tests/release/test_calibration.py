"""Numbers derived from parameters: levels are met, parts of beta add up."""

import numpy as np
import pytest

from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    epsilon_scales,
    noise_margin,
    zhao_required_n,
)
from sklearn_bdp.correlation import Groups, Independent, MarkovChain
from sklearn_bdp.holdout import ExpertSettings, HoldoutConfig, ReusableHoldout
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.release.calibration import Calibration
from tests.facts import refused

N = 1000


def calibrate(model, **options):
    return Calibration.from_config(HoldoutConfig(**options), model=model, n=N)


MODELS = [
    Independent(),
    Groups(np.repeat(np.arange(N // 5), 5)),
    MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("budget", [1, 10])
def test_a_numeric_epsilon_bounds_all_answers_of_a_holdout(model, epsilon, budget):
    calibration = calibrate(model, epsilon=epsilon, budget=budget)
    level = calibration.make_mechanism().dp_epsilon(1 / N)
    assert model.bdp_epsilon(level, N) <= epsilon * (1 + 1e-12)
    assert model.bdp_epsilon(level, N) >= 0.99 * epsilon  # and not by much less than allowed
    assert not calibration.refresh
    assert calibration.budget == budget


def test_the_division_of_epsilon_is_better_than_an_equal_division():
    def largest_margin(scales):
        return max(
            noise_margin(failure=0.01, threshold_scale=scales[0], query_scale=scales[1]),
            answer_margin(failure=0.01, answer_scale=scales[2]),
        )

    calibration = epsilon_scales(1.0, budget=10, model=Independent(), n=N, failure=0.01)
    even_scales = (3 / N, 60 / N, 30 / N)  # a third of epsilon each
    assert largest_margin(calibration) < largest_margin(even_scales)


def test_the_level_counts_the_coarser_grid_of_large_scales():
    n = 10_000
    scales = epsilon_scales(4e-5, budget=10, model=Independent(), n=n, failure=0.01)
    threshold_scale, query_scale, answer_scale = scales
    assert query_scale > 64  # the fine grid of such scales is coarser than 2**-40
    mechanism = Thresholdout(
        0.1,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        answer_scale=answer_scale,
        budget=10,
        refresh=False,
    )
    assert mechanism.dp_epsilon(1 / n) <= 4e-5


def test_an_epsilon_that_no_noise_can_meet_is_rejected():
    """Every record depends on every other: the noise would bury the scores."""
    with refused(ValueError, "epsilon"):
        calibrate(Groups(np.zeros(N)), epsilon=1e-6)


def test_a_level_that_the_correlation_excludes_is_rejected():
    class Hopeless(Independent):
        def dp_epsilon(self, bdp_epsilon, n, *, method="tight"):
            return 0.0

    with refused(ValueError, "epsilon"):
        calibrate(Hopeless(), epsilon=1.0)


def test_auto_noise_costs_a_tenth_of_the_width_at_most():
    calibration = calibrate(Independent())
    alpha = np.sqrt(np.log(2 / 0.05) / (2 * N))
    margin = max(calibration.noise_margins(0))
    assert 0 < margin <= 0.1 * alpha


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
def test_zhao2017_has_the_noise_and_budget_of_theorem_2(model):
    calibration = calibrate(
        model, calibration="zhao2017", expert=ExpertSettings(n_queries=50, threshold=0.3), budget=2
    )
    preset = Thresholdout.zhao2017(calibration.tau, 0.05, 50, 2)
    assert calibration.threshold == pytest.approx(preset.threshold) == 0.3
    for name in ("threshold_scale", "query_scale", "answer_scale", "budget", "refresh"):
        assert getattr(calibration, name) == pytest.approx(getattr(preset, name))
    assert not calibration.learns_offset


def test_zhao2017_takes_the_smallest_accuracy_whose_premise_holds():
    config = HoldoutConfig(
        calibration="zhao2017", budget=1, confidence_level=0.8, expert=ExpertSettings(n_queries=5)
    )
    n = 2_000_000
    calibration = Calibration.from_config(config, model=Independent(), n=n)
    required_n = {
        factor: zhao_required_n(
            tau=factor * calibration.tau, n_queries=5, budget=1, beta=0.2, model=Independent(), n=n
        )
        for factor in (1.0, 0.99)
    }
    assert required_n[1.0] <= n < required_n[0.99]


def test_zhao2017_does_not_round():
    # Algorithm 1 releases q(X) + Lap(4σ): cells are as fine as any holdout's, far below the noise.
    calibration = calibrate(
        MODELS[0],
        calibration="zhao2017",
        expert=ExpertSettings(n_queries=50, threshold=0.3),
        budget=2,
    )
    assert calibration.resolution == 1e-6 < calibration.answer_scale / 1000


def test_zhao2017_chooses_c_for_a_given_threshold():
    # The theorem holds for any c in (0, 1): with many records the sharpest is well above 1/2.
    n = 3_000_000
    holdout = ReusableHoldout(
        np.zeros((n, 1)), np.zeros(n), calibration="zhao2017", budget=1,
        expert=ExpertSettings(n_queries=10, threshold=0.15),
    )  # fmt: skip
    calibration = holdout.account.settings
    c = 2 * 0.15 / calibration.tau - 1
    assert 0.6 < c < 1
    preset = Thresholdout.zhao2017(calibration.tau, 0.05, 10, 1, c)
    assert calibration.answer_scale == pytest.approx(preset.answer_scale)
    required_n = zhao_required_n(
        tau=calibration.tau, n_queries=10, budget=1, c=c, model=Independent()
    )
    assert required_n <= n < 1.001 * required_n


@pytest.mark.parametrize(("n", "verdict"), [(300, "no guarantee"), (3_000_000, "suffices")])
def test_the_certificate_states_whether_the_premise_of_theorem_2_holds(n, verdict):
    holdout = ReusableHoldout(
        np.zeros((n, 1)), np.zeros(n), calibration="zhao2017", budget=1,
        expert=ExpertSettings(n_queries=10, threshold=0.15),
    )  # fmt: skip
    (note,) = [note for note in holdout.certificate().notes if "Theorem 2" in note]
    assert verdict in note


def test_zhao2017_rejects_thresholds_with_a_vacuous_error():
    def derive_at(threshold):
        expert = ExpertSettings(n_queries=1, threshold=threshold)
        return calibrate(Independent(), calibration="zhao2017", budget=1, expert=expert)

    with refused(ValueError, "threshold", "0.75"):
        derive_at(1.0)
    assert derive_at(0.75).tau == pytest.approx(1.0)
