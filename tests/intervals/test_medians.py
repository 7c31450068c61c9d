"""Limits of the median of a fixed model's errors."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from scipy.stats import t as student
from sklearn.dummy import DummyRegressor
from sklearn.metrics import make_scorer, median_absolute_error

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.intervals.medians import log_wealth, median_error_row, median_limits
from tests.facts import refused

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")

TRUE_MEDIAN = norm.ppf(0.75)


def group_errors(rng, n_groups, largest):
    """Return errors of groups whose records resemble each other, and their group."""
    sizes = rng.integers(1, largest + 1, n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    errors = rng.normal(size=groups.size) + rng.normal(size=n_groups)[groups]
    return np.abs(errors) / np.sqrt(2.0), groups


def assert_covered(n_misses, n_intervals, level):
    """Assert that non-coverage is at most 1.3 times its level."""
    test = binomtest(n_misses, n_intervals, 1.3 * level, alternative="greater")
    assert test.pvalue > 1e-4, (level, n_misses, n_intervals)


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_independent_errors_are_covered(level):
    rng = np.random.default_rng(0)
    n_misses = 0
    for _ in range(2_000):
        errors = np.abs(rng.normal(size=150))
        lower, upper = median_limits(errors, np.ones(150), np.arange(150), level)
        n_misses += not lower <= TRUE_MEDIAN <= upper
    assert_covered(n_misses, 2_000, level)


@pytest.mark.parametrize("weighs_groups_equally", [False, True])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_errors_of_groups_are_covered(level, weighs_groups_equally):
    rng = np.random.default_rng(0)
    n_misses = 0
    for _ in range(2_000):
        errors, groups = group_errors(rng, 60, 8)
        sizes = np.bincount(groups)
        weights = 1.0 / sizes[groups] if weighs_groups_equally else np.ones(groups.size)
        lower, upper = median_limits(errors, weights, groups, level)
        n_misses += not lower <= TRUE_MEDIAN <= upper
    assert_covered(n_misses, 2_000, level)


#: Number of groups, size of the largest, and share of groups in which all errors are large.
SKEWED_GROUPS = [(30, 30, 0.1), (60, 30, 0.1), (60, 30, 0.05), (100, 30, 0.1), (60, 8, 0.1)]


def skewed_sums(rng, n_draws, n_groups, largest, share):
    """Return sums of groups at the true median of errors, and the sizes of the groups.

    Both have shape (n_draws, n_groups). Few groups have errors above the median only.
    """
    sizes = rng.integers(1, largest + 1, (n_draws, n_groups))
    share_below = np.where(rng.random(sizes.shape) < share, 0.0, 0.5 / (1.0 - share))
    return rng.binomial(sizes, share_below) - 0.5 * sizes, sizes


def count_skewed_misses(n_draws, n_groups, largest, share, alphas, *, seed=0):
    """Return how often bets reject the true median, at each failure probability."""
    rng = np.random.default_rng(seed)
    thresholds = 0.5 * student.isf(0.5 * np.array(alphas), n_groups - 1.0) ** 2
    n_misses = np.zeros(len(alphas), dtype=int)
    for sums, sizes in zip(*skewed_sums(rng, n_draws, n_groups, largest, share), strict=True):
        bound = 0.5 * sizes.max()
        n_misses += max(log_wealth(sums, bound), log_wealth(-sums, bound)) > thresholds
    return n_misses


@pytest.mark.parametrize("case", SKEWED_GROUPS)
def test_rare_groups_of_large_errors_are_covered(case):
    """Student's test misses six times as often as stated at .001 in the first case."""
    alphas = (0.05, 0.01, 0.001)
    for n_misses, alpha in zip(count_skewed_misses(3_000, *case, alphas), alphas, strict=True):
        assert_covered(int(n_misses), 3_000, alpha)


@pytest.mark.slow
@pytest.mark.parametrize("case", SKEWED_GROUPS)
def test_rare_groups_of_large_errors_are_covered_in_many_repetitions(case):
    alphas = (0.05, 0.01, 0.001)
    n_draws = 100_000
    for n_misses, alpha in zip(count_skewed_misses(n_draws, *case, alphas), alphas, strict=True):
        assert_covered(int(n_misses), n_draws, alpha)


def test_limits_contain_the_errors_that_no_bet_rejects():
    rng = np.random.default_rng(0)
    for _ in range(20):
        errors, groups = group_errors(rng, 25, 8)
        sizes = np.bincount(groups)
        threshold = 0.5 * student.isf(0.5 * 0.01, sizes.size - 1.0) ** 2
        accepted = []
        for error in np.sort(errors):
            up_to = np.bincount(groups, (errors <= error) - 0.5)
            below = np.bincount(groups, (errors < error) - 0.5)
            wealths = [log_wealth(sums, 0.5 * sizes.max()) for sums in (-up_to, below)]
            accepted += [error] if max(wealths) <= threshold else []
        limits = median_limits(errors, np.ones(errors.size), groups, 0.01)
        assert limits == (accepted[0], accepted[-1])


def test_the_largest_log_wealth_is_that_of_a_grid_of_stakes():
    rng = np.random.default_rng(0)
    stakes = np.linspace(0.0, 0.995, 5_001) / 2.0
    for shift in (-0.5, 0.0, 0.2, 1.5):
        sums = np.clip(rng.normal(shift, 1.0, 40), -2.0, 2.0)
        on_grid = np.log1p(np.outer(stakes, sums)).sum(axis=1).max()
        assert log_wealth(sums, 2.0) == pytest.approx(on_grid, abs=1e-6)


def test_equal_errors_are_covered():
    rng = np.random.default_rng(0)
    for _ in range(500):
        errors = np.abs(np.rint(2.0 * rng.normal(size=150)))
        lower, upper = median_limits(errors, np.ones(150), np.arange(150), 0.01)
        assert lower <= 1.0 <= upper
        groups = np.arange(150) // 2
        lower, upper = median_limits(errors, np.ones(150), groups, 0.01)
        assert lower <= 1.0 <= upper


def test_order_statistics_of_a_sign_test():
    errors = np.arange(1.0, 101.0)
    # P[Bin(100, 1/2) < 40] = .0176 and P[Bin(100, 1/2) < 41] = .0284.
    assert median_limits(errors, np.ones(100), np.arange(100), 0.05) == (40.0, 61.0)


def test_median_limits_of_groups_of_one_record_are_nearly_those_of_records():
    rng = np.random.default_rng(0)
    errors = rng.exponential(size=400)
    by_record = median_limits(errors, np.ones(400), np.arange(400), 0.05)
    weights = np.ones(400)
    weights[0] += 1e-9  # weights that differ have no exact sign test
    by_unit = median_limits(errors, weights, np.arange(400), 0.05)
    assert by_unit == pytest.approx(by_record, rel=0.02)


def test_few_units_have_no_limits():
    errors = np.arange(1.0, 21.0)
    assert median_limits(errors, np.ones(20), np.arange(20), 1e-8) is None
    row = median_error_row(-3.0, [(errors[:6], np.ones(6))], np.arange(6), 0.05, unit_name="groups")
    assert np.isnan(row.lower)
    assert row.notes


def make_holdout(n, seed, correlation=None):
    """Return a holdout of targets without signal, and a constant model."""
    rng = np.random.default_rng(seed)
    holdout = ReusableHoldout(
        rng.normal(size=(n, 1)), rng.normal(size=n), correlation=correlation, random_state=0
    )
    model = DummyRegressor(strategy="constant", constant=0.0).fit([[0.0], [1.0]], [0.0, 1.0])
    return holdout, model


def test_reports_cover_the_median_error():
    n_misses = 0
    for seed in range(60):
        holdout, model = make_holdout(120, seed)
        row = holdout.final_report(model, scoring="neg_median_absolute_error").rows[0]
        lower, upper = row.approximate
        assert lower <= row.value <= upper
        n_misses += not lower <= -TRUE_MEDIAN <= upper
    assert_covered(n_misses, 60, 0.05)


def test_reports_compare_median_errors_of_models_and_subgroups():
    holdout, model = make_holdout(200, 0, Groups(np.arange(200) // 2))
    worse = DummyRegressor(strategy="constant", constant=2.0).fit([[0.0], [1.0]], [0.0, 1.0])
    report = holdout.final_report(
        {"good": model, "worse": worse},
        scoring=["neg_median_absolute_error", "neg_mean_absolute_error"],
        compare=True,
        by={"half": np.arange(200) % 4 // 2},
    )
    rows = [row for row in report.rows if row.metric == "neg_median_absolute_error"]
    for row in rows:
        assert row.approximate[0] <= row.value <= row.approximate[1]
        assert row.method == "order statistics over groups"
    difference = next(row for row in rows if row.model == "worse minus good" and not row.subgroup)
    assert difference.approximate[1] < 0.0


def test_errors_as_scores_have_the_mirrored_interval():
    loss, model = make_holdout(200, 0)
    score, _ = make_holdout(200, 0)
    loss_row = loss.final_report(model, scoring="neg_median_absolute_error").rows[0]
    score_row = score.final_report(model, scoring=make_scorer(median_absolute_error)).rows[0]
    assert score_row.value == -loss_row.value
    assert score_row.approximate == (-loss_row.approximate[1], -loss_row.approximate[0])


def test_the_largest_error_and_medians_of_a_chain_have_no_interval():
    holdout, model = make_holdout(300, 0)
    with refused(ValueError, "neg_max_error"):
        holdout.final_report(model, scoring="neg_max_error")
    rows = holdout.final_report(model, scoring=["neg_max_error", "r2"]).rows
    assert rows[0].approximate is None
    chain = MarkovChain.from_autocorrelation_time(1.2)
    holdout, model = make_holdout(300, 0, chain)
    with refused(ValueError, "neg_median_absolute_error"):
        holdout.final_report(model, scoring="neg_median_absolute_error")
