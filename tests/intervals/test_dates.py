"""Approximate intervals over dates, each given its past (theory G31)."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm
from scipy.stats import t as student

from benchmarks.dependence import date_metrics
from benchmarks.dependence.dates import (
    LEVELS,
    METRICS,
    PROCESSES,
    left_out_means,
    missed,
    relative_widths,
    slow_level,
)
from sklearn_bdp.intervals.dates import (
    about_training_mean,
    date_interval,
    date_row,
    degrees_of_freedom,
    median_row,
    variance_of_mean,
)
from sklearn_bdp.intervals.jackknife import SKILL
from sklearn_bdp.metrics.registry import statistic_of
from tests.facts import refused


def test_the_center_of_least_squares_counts_by_hand():
    influence = np.array([1.0, 2.0, 4.0, 3.0, 6.0, 5.0])
    squares = [np.sum((influence - influence.mean()) ** 2)]
    for rate in (0.05, 0.2):
        center = influence.mean()
        total = 0.0
        for value in influence:
            total += (value - center) ** 2
            center = (1.0 - rate) * center + rate * value
        squares.append(total)
    assert variance_of_mean(influence) == pytest.approx(min(squares) / 30.0)


def test_the_window_of_a_horizon_by_hand():
    influence = np.random.default_rng(0).normal(size=30)
    horizon = 3
    deviations = influence - influence.mean()
    width = 6.0
    variance = np.mean(deviations**2)
    total = variance + 2.0 * sum(
        (1.0 - lag / width) * np.sum(deviations[lag:] * deviations[:-lag]) / 30.0
        for lag in range(1, 6)
    )
    expected = total / ((1.0 - (3.0 - 1.0 / 3.0) / 18.0) * (1.0 - width / 30.0) * 30.0)
    assert variance_of_mean(influence, horizon) == pytest.approx(max(expected, variance / 29.0))


def test_a_weekly_season_does_not_subtract_its_own_variance():
    """Equal weights over seven lags do: the lags of a season of seven days sum to -1."""
    rng = np.random.default_rng(1)
    season = np.sin(2.0 * np.pi * np.arange(350) / 7.0)
    noise = 0.05 * rng.normal(size=350)
    assert variance_of_mean(season + noise, 7) >= np.var(season + noise) / 349.0


def test_degrees_of_freedom_follow_kurtosis_and_events():
    flat = np.tile([1.0, -1.0], 50)
    assert degrees_of_freedom(flat) == 99.0
    assert degrees_of_freedom(flat, 12) == 11.0
    assert degrees_of_freedom(flat, 1) == 2.0
    one_large = np.r_[100.0, flat]
    assert degrees_of_freedom(one_large) == 3.0
    assert degrees_of_freedom(flat, horizon=5) == pytest.approx(1.5 * 100.0 / 10.0 - 1.0)


def test_an_interval_by_hand_and_none_without_spread():
    rng = np.random.default_rng(2)
    hits = (rng.random(100) < 0.8).astype(float)
    value = hits.mean()
    left_out = left_out_means(hits)
    logits = np.log(left_out / (1.0 - left_out))
    center = math.log(value / (1.0 - value))
    influence = 99.0 * (center - logits)
    half_width = student.isf(0.025, degrees_of_freedom(influence)) * math.sqrt(
        variance_of_mean(influence)
    )
    interval = date_interval(value, left_out, 0.05, scale="unit")
    assert interval == pytest.approx((expit(center - half_width), expit(center + half_width)))
    assert np.isnan(date_interval(0.5, np.full(40, 0.5), 0.05, scale="unit")).all()
    assert np.isnan(date_interval(1.0, np.full(40, 1.0), 0.05, scale="unit")).all()
    losses = rng.exponential(size=100)
    skewed = date_interval(losses.mean(), left_out_means(losses), 0.05, scale="raw")
    assert skewed[1] - losses.mean() > losses.mean() - skewed[0]


def row_of(name, y, predictions, **options):
    y = np.asarray(y)
    predictions = np.asarray(predictions, dtype=float)
    options = {"dates": np.arange(len(y)), "alpha": 0.05} | options
    statistic = about_training_mean(statistic_of(name), 0.0)
    return date_row(statistic, y, [(predictions, None)], **options)


RANKED = np.random.default_rng(3).normal(size=100)


@pytest.mark.parametrize(
    ("n", "note"), [(29, "29 dates are too few"), (50, "only 50 dates"), (100, None)]
)
def test_few_dates_give_no_interval_or_a_note(n, note):
    row_of_scores = row_of("roc_auc", np.arange(n) % 2, RANKED[:n])
    assert math.isnan(row_of_scores.lower) == (n < 30)
    assert note is None or note in " ".join(row_of_scores.notes)


@pytest.mark.parametrize(
    ("name", "y", "predictions"),
    [
        ("roc_auc", np.arange(100) < 4, RANKED),
        ("neg_mean_pinball_loss_0.9", RANKED, np.full(100, 2.5)),
        ("neg_mean_absolute_percentage_error", np.r_[0.001, RANKED[1:] + 10.0], RANKED + 10.5),
    ],
)
def test_rare_outcomes_and_targets_near_zero_have_no_interval(name, y, predictions):
    row_of_scores = row_of(name, y, predictions)
    assert math.isnan(row_of_scores.lower)
    assert len(row_of_scores.notes) == 1


def test_relative_errors_have_an_interval_away_from_zero():
    y = RANKED + 10.0
    row_of_scores = row_of("neg_mean_absolute_percentage_error", y, y + np.abs(RANKED[::-1]))
    assert row_of_scores.lower < row_of_scores.value < row_of_scores.upper < 0.0


def test_r2_is_trusted_down_to_a_level_and_needs_a_training_mean():
    notes = row_of("r2", RANKED, 0.5 * RANKED + 0.1, alpha=0.001).notes
    assert "0.01" in " ".join(notes)
    assert row_of("r2", RANKED, RANKED + 0.1 * RANKED[::-1]).upper <= 1.0
    with refused(ValueError, "R²"):
        about_training_mean(statistic_of("r2"), None)


def test_records_of_a_date_are_one_value():
    """Fifty copies of each record have the interval of one copy."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 80)
    scores = rng.normal(size=80)
    row_of_single_records = row_of("roc_auc", y, scores + y)
    row_of_copies = row_of(
        "roc_auc", np.repeat(y, 50), np.repeat(scores + y, 50), dates=np.repeat(np.arange(80), 50)
    )
    assert row_of_copies[:3] == pytest.approx(row_of_single_records[:3])
    assert row_of_copies.n_units == row_of_single_records.n_units == 80


def test_differences_and_skill():
    rng = np.random.default_rng(5)
    losses = rng.exponential(size=(2, 200))
    error = statistic_of("neg_mean_absolute_error")
    predictions_by_model = [(-losses[1], None), (-losses[0], None)]
    row_of_losses = date_row(
        error, np.zeros(200), predictions_by_model, dates=np.arange(200), alpha=0.05
    )
    assert row_of_losses.value == pytest.approx(losses[0].mean() - losses[1].mean())
    assert row_of_losses.lower < row_of_losses.value < row_of_losses.upper
    row_of_losses = date_row(
        SKILL, np.zeros(200), [(losses, None)], dates=np.arange(200), alpha=0.05
    )
    assert row_of_losses.value == pytest.approx(1.0 - losses[1].mean() / losses[0].mean())
    assert row_of_losses.lower < row_of_losses.value < row_of_losses.upper <= 1.0


def test_the_median_has_order_statistics_as_limits():
    errors = np.arange(1.0, 101.0)
    median_of_errors = median_row(errors, 0.05, dates=np.arange(100))
    assert (median_of_errors.value, median_of_errors.lower, median_of_errors.upper) == (
        -50.5,
        -61.0,
        -40.0,
    )


@pytest.mark.parametrize(
    ("n", "options"), [(100, {"dates": np.arange(100) // 2}), (100, {"horizon": 7}), (74, {})]
)
def test_medians_without_an_interval(n, options):
    median_of_range = median_row(np.arange(float(n)), 0.05, **({"dates": np.arange(n)} | options))
    assert math.isnan(median_of_range.lower)
    assert median_of_range.n_units == (50 if "dates" in options else n)


def test_the_median_is_covered_when_spreads_change_slowly():
    """The truth: the median of the average of 300 normal laws."""
    rng = np.random.default_rng(8)
    missed_medians = 0
    for _ in range(200):
        spreads = np.exp(slow_level(300, 0.98, rng))
        errors = np.abs(spreads * rng.normal(size=300))
        median_of_errors = median_row(errors, 0.05, dates=np.arange(300))
        share_below, share_above = (
            np.mean(2.0 * norm.cdf(-limit / spreads) - 1.0) for limit in median_of_errors[2:0:-1]
        )
        missed_medians += not share_below <= 0.5 <= share_above
    assert missed_medians <= binom.isf(0.001, 200, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES)
def test_intervals_miss_about_as_often_as_their_level(process):
    """Non-coverage over level at .05 and .01: at most the ratio of theory G31, by 4,000 runs."""
    simulate, ratio = PROCESSES[process]
    counts = missed(simulate, 4000, np.random.default_rng(6))
    for level in LEVELS:
        assert counts[level] <= binom.isf(0.001, 4000, min(1.0, ratio * level))


@pytest.mark.parametrize("name", METRICS)
def test_intervals_are_little_wider_than_a_bootstrap_of_independent_dates(name):
    by_bootstrap, by_newey_west = relative_widths(name, 150, 3, np.random.default_rng(7))
    assert by_bootstrap < 1.5
    assert not by_newey_west > 1.5


# -- seven metrics over dates of seven processes --------------------------------------------------


@pytest.mark.parametrize("process", date_metrics.PROCESSES)
@pytest.mark.parametrize("name", date_metrics.METRICS)
def test_processes_know_the_statistic_of_their_average_law(process, name):
    """Two routes: expectations over the noise, and the statistic of many targets."""
    sample = date_metrics.draw(process, name, 4000, np.random.default_rng(8))
    statistic = about_training_mean(statistic_of(name), date_metrics.CENTER)
    halves = np.arange(4000) % 2
    value = statistic.left_out(sample.y, sample.predictions, np.ones(4000), halves, 2)[0]
    value = -value if statistic.is_negated else value
    error = 0.05 * abs(sample.truth) + 0.01
    assert value == pytest.approx(sample.truth, abs=2.0 * error if process == "t4" else error)


def test_absolute_errors_are_little_wider_than_newey_west():
    rng = np.random.default_rng(9)
    approximate, proven = date_metrics.widths_of_absolute_errors(375, 8, rng)
    assert approximate < 1.5
    assert proven < 3.0
    assert date_metrics.width_of_a_horizon(375, 8, rng) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("process", date_metrics.PROCESSES)
@pytest.mark.parametrize("n", date_metrics.DATES)
@pytest.mark.parametrize("name", date_metrics.METRICS)
def test_seven_metrics_miss_about_as_often_as_their_level(name, n, process):
    """1,000 runs: 1.3 times the level and a margin over all 196 checks; widths at .05."""
    rng = np.random.default_rng(10)
    cell = date_metrics.compare(process, name, n, 1000, rng)
    for level in date_metrics.LEVELS:
        assert cell.misses[level] <= date_metrics.margin(196, 1000, level)
    widest = date_metrics.WIDEST
    if name.startswith("neg_"):
        widest = date_metrics.WIDEST_LOSS
    assert cell.widths[0.05] <= widest


@pytest.mark.slow
def test_an_rmse_with_heavy_tails_needs_a_correction_for_skewness():
    """Two intervals in five are three times as wide as a bootstrap; without it too many miss."""
    ratios, widths = date_metrics.intervals_of_rmse(150, 2000, np.random.default_rng(11))
    assert ratios[0] < 1.3 < ratios[1]
    assert np.median(widths[0]) < date_metrics.WIDEST_LOSS
    assert 0.3 < np.mean(widths[0] > 2.5) < 0.5
    assert np.median(widths[1]) < 1.3
