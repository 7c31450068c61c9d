"""Approximate intervals (G22, G28): right by hand, and right about as often as they say."""

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student

from sklearn_bdp.intervals.jackknife import (
    GENERIC,
    approximate_row,
    jackknife_interval,
    long_memory,
)
from sklearn_bdp.metrics.registry import statistic_of

AUC = statistic_of("roc_auc")


def without_each(values):
    """Return the mean of all other values, for each value."""
    return (values.sum() - values) / (values.size - 1)


def test_the_jackknife_of_a_mean_is_its_t_interval():
    """Normal values: pseudo-values are the values, degrees of freedom at most G - 1."""
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    lower, upper = jackknife_interval(values.mean(), without_each(values), 0.05, scale="raw")
    error = values.std(ddof=1) / 20.0
    assert lower < values.mean() < upper
    normalized_half_width = 0.5 * (upper - lower) / error
    assert student.isf(0.025, 399) - 1e-9 <= normalized_half_width <= student.isf(0.025, 100)


@pytest.mark.parametrize(("scale", "skewed"), [("loss", False), ("loss", True), ("raw", True)])
@pytest.mark.parametrize(
    ("level", "runs"),
    [(0.05, 400), *(pytest.param(level, 1500, marks=pytest.mark.slow) for level in (0.05, 0.01))],
)
def test_the_jackknife_covers_at_its_level(scale, skewed, level, runs):
    """In 400 runs a level three times as high would be found."""
    n_missed = 0
    rng = np.random.default_rng(1)
    for _ in range(runs):
        values = rng.exponential(size=150)
        lower, upper = jackknife_interval(
            values.mean(), without_each(values), level, scale=scale, corrects_skewness=skewed
        )
        n_missed += not lower <= 1.0 <= upper
    assert n_missed <= binom.ppf(0.999, runs, 1.3 * level)


def test_no_spread_gives_no_interval():
    assert np.isnan(jackknife_interval(0.5, np.full(30, 0.5), 0.05, scale="unit")).all()
    assert np.isnan(jackknife_interval(1.0, np.full(30, 1.0), 0.05, scale="unit")).all()


def records(n, rng, *, prevalence=0.3):
    """Return units, labels, chances of a good model, chances of a worse one."""
    signal, noise = rng.normal(size=(2, n))
    threshold = norm.isf(prevalence) * np.hypot(1.0, 0.8)
    y = (signal + 0.8 * noise > threshold).astype(int)
    worse = 0.9 * signal + np.sqrt(0.19) * rng.normal(size=n)
    return (
        np.arange(n),
        y,
        norm.cdf((signal - threshold) / 0.8),
        norm.cdf((0.9 * worse - threshold) / 0.9),
    )


@pytest.mark.parametrize("runs", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_rows_cover_at_their_level(runs):
    """G28, at .05 a row: single ones, differences of two models, subgroups and gaps.

    30 runs detect a row that misses every second time, 300 one that misses every tenth.
    """
    rng = np.random.default_rng(3)
    rows = {
        "roc_auc": (statistic_of("roc_auc"), lambda p: p),
        "recall": (statistic_of("recall"), lambda p: (p > 0.3).astype(int)),
        "brier": (statistic_of("neg_brier_score"), lambda p: p),
        "slope": (statistic_of("calibration_slope"), lambda p: p),
        "benefit": (statistic_of("net_benefit_0.2"), lambda p: p),
    }

    def predictions_by_model(respond, data):
        in_subgroup = np.arange(len(data[1])) % 2 == 0
        better_predictions = respond(data[2])
        worse_predictions = respond(data[3])
        return {
            "alone": [(better_predictions, None)],
            "difference": [(better_predictions, None), (worse_predictions, None)],
            "subgroup": [(better_predictions, in_subgroup)],
            "gap": [(better_predictions, in_subgroup), (better_predictions, ~in_subgroup)],
        }

    population = records(60_000, rng)
    misses_and_truth = {}
    for run in range(runs):
        data = records(150, rng)
        for name, (statistic, respond) in rows.items():
            for row_type, compared in predictions_by_model(respond, data).items():
                if run == 0:
                    options = {"unit_codes": population[0] * 30 // 60_000, "alpha": 0.05}
                    population_value = approximate_row(
                        statistic,
                        population[1],
                        predictions_by_model(respond, population)[row_type],
                        **options,
                    ).value
                    misses_and_truth[name, row_type] = [
                        0,
                        population_value if row_type != "gap" else 0.0,
                    ]
                row = approximate_row(statistic, data[1], compared, unit_codes=data[0], alpha=0.05)
                if not np.isnan(row.lower):
                    misses_and_truth[name, row_type][0] += (
                        not row.lower <= misses_and_truth[name, row_type][1] <= row.upper
                    )
    max_misses = binom.ppf(0.9999, runs, 0.07)
    assert {key: count for key, (count, _) in misses_and_truth.items() if count > max_misses} == {}


@pytest.fixture
def rare_events():
    """Return units, labels and chances of 200 records with fewer than ten events."""
    units, y, chances, _ = records(200, np.random.default_rng(4), prevalence=0.04)
    assert 5 <= y.sum() < 10
    return units, y, chances


def test_a_row_notes_that_events_are_few(rare_events):
    units, y, chances = rare_events
    row = approximate_row(AUC, y, [(chances, None)], unit_codes=units, alpha=0.05)
    assert row.n_units == 200
    assert any("the rarest class" in note for note in row.notes)


def test_three_events_give_a_score_without_an_interval(rare_events):
    units, y, chances = rare_events
    three_events = y * (np.cumsum(y) < 4)
    row = approximate_row(AUC, three_events, [(chances, None)], unit_codes=units, alpha=0.05)
    assert np.isnan(row.lower)
    assert np.isfinite(row.value)
    assert "at least 5" in row.notes[0]


def test_a_subgroup_of_15_records_has_no_interval(rare_events):
    units, y, chances = rare_events
    in_subgroup = np.arange(200) < 15
    row = approximate_row(AUC, y, [(chances, in_subgroup)], unit_codes=units, alpha=0.05)
    assert np.isnan(row.lower)
    assert row.n_units == 15


def test_a_perfect_model_is_noted(rare_events):
    units, y, chances = rare_events
    row = approximate_row(AUC, y, [(y + 0.5 * chances, None)], unit_codes=units, alpha=0.05)
    assert row.value == 1.0
    assert "end of its range" in row.notes[0]


def test_a_level_below_those_checked_by_simulation_is_noted(rare_events):
    units, y, chances = rare_events
    row = approximate_row(AUC, y, [(chances, None)], unit_codes=units, alpha=1e-4)
    assert any("checked" in note for note in row.notes)


def test_an_error_of_a_metric_is_not_taken_for_a_missing_interval(rare_events):
    units, y, _ = rare_events
    with pytest.raises(ZeroDivisionError):
        approximate_row(GENERIC, y, [(lambda rows: 1 / 0, None)], unit_codes=units, alpha=0.05)


def difference_of_accuracies(y, predictions, other_predictions):
    """Return the approximate row of the difference of two models' accuracies."""
    return approximate_row(
        statistic_of("accuracy"),
        y,
        [(predictions, None), (other_predictions, None)],
        unit_codes=np.arange(y.size),
        alpha=0.05,
    )


def disagreeing_predictions(n_different):
    """Return labels and two models' predictions, which differ for the first records."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 300)
    predictions = np.where(rng.random(300) < 0.8, y, 1 - y)
    other_predictions = predictions.copy()
    other_predictions[:n_different] = 1 - predictions[:n_different]
    return y, predictions, other_predictions


def test_models_that_disagree_on_four_records_have_no_interval():
    row = difference_of_accuracies(*disagreeing_predictions(4))
    assert np.isnan(row.lower)


def test_a_reversed_difference_has_the_mirrored_interval():
    y, predictions, other_predictions = disagreeing_predictions(40)
    row = difference_of_accuracies(y, predictions, other_predictions)
    reversed_row = difference_of_accuracies(y, other_predictions, predictions)
    assert row.value == np.mean(predictions == y) - np.mean(other_predictions == y)
    assert (reversed_row.lower, reversed_row.upper) == pytest.approx((-row.upper, -row.lower))


def test_losses_keep_the_sign_of_their_scorer():
    rng = np.random.default_rng(6)
    y, predictions = rng.normal(size=(2, 100))
    error = statistic_of("neg_mean_absolute_error")
    row = approximate_row(error, y, [(predictions, None)], unit_codes=np.arange(100), alpha=0.05)
    assert row.value == pytest.approx(-np.mean(np.abs(y - predictions)))
    assert row.lower < row.value < row.upper < 0.0


def test_a_record_of_a_patient_counts_once_per_patient():
    units = np.repeat(np.arange(60), np.tile([1, 5], 30))
    y = np.repeat(np.tile([1, 0], 30), np.tile([1, 5], 30))
    predictions = np.ones_like(y)
    predictions[::7] = 0
    accuracy = statistic_of("accuracy")
    per_unit = approximate_row(accuracy, y, [(predictions, None)], unit_codes=units, alpha=0.05)
    per_record = approximate_row(
        accuracy, y, [(predictions, None)], unit_codes=units, alpha=0.05, per_record=True
    )
    means = np.bincount(units, predictions == y) / np.bincount(units)
    assert per_unit.value == pytest.approx(means.mean())
    assert per_record.value == np.mean(predictions == y)


def test_time_needs_blocks_and_long_memory_is_reported():
    rng = np.random.default_rng(7)
    y, predictions = rng.normal(size=(2, 1000))
    error = statistic_of("neg_mean_absolute_error")
    dates = np.arange(1000)
    rows = {
        times: approximate_row(
            error,
            y,
            [(predictions, None)],
            unit_codes=dates,
            alpha=0.05,
            n_autocorrelation_times=times,
        )
        for times in (150.0, 250.0, 1000.0)
    }
    assert np.isnan(rows[150.0].lower)
    losses = np.abs(y - predictions)
    for times, count in ((250.0, 6), (1000.0, 10)):
        means = np.array([losses[dates * count // 1000 != block].mean() for block in range(count)])
        expected = jackknife_interval(
            losses.mean(), means, 0.05, scale="loss", corrects_skewness=True
        )
        assert (-rows[times].upper, -rows[times].lower) == pytest.approx(expected)
    assert not any("memory" in note for note in rows[1000.0].notes)
    assert long_memory(np.cumsum(rng.normal(size=1000)))
    assert not long_memory(rng.normal(size=1000))
