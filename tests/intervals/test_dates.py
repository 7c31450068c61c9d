"""Approximate intervals over dates, each given its past (theory G31)."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import expit
from scipy.stats import binom
from scipy.stats import t as student

from sklearn_bdp.intervals.dates import (
    date_interval,
    date_row,
    date_statistic,
    degrees_of_freedom,
    variance_of_mean,
)
from sklearn_bdp.intervals.jackknife import SKILL, STATISTICS
from tests.facts import refused

LEVELS = (0.05, 0.01)


def left_out_means(values):
    return (values.sum() - values) / (len(values) - 1)


def test_the_center_of_least_squares_counts_by_hand():
    influence = np.array([1.0, 2.0, 4.0, 3.0, 6.0, 5.0])
    squares = [np.sum((influence - influence.mean()) ** 2)]
    for rate in (0.05, 0.2):
        center, total = influence.mean(), 0.0
        for value in influence:
            total += (value - center) ** 2
            center = (1.0 - rate) * center + rate * value
        squares.append(total)
    assert variance_of_mean(influence) == pytest.approx(min(squares) / 30.0)


def test_the_window_of_a_horizon_by_hand():
    influence, horizon = np.random.default_rng(0).normal(size=30), 3
    off, width = influence - influence.mean(), 6.0
    own = np.mean(off**2)
    total = own + 2.0 * sum(
        (1.0 - lag / width) * np.sum(off[lag:] * off[:-lag]) / 30.0 for lag in range(1, 6)
    )
    expected = total / ((1.0 - (3.0 - 1.0 / 3.0) / 18.0) * (1.0 - width / 30.0) * 30.0)
    assert variance_of_mean(influence, horizon) == pytest.approx(max(expected, own / 29.0))


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


def test_an_interval_by_hand_and_what_has_none():
    rng = np.random.default_rng(2)
    hits = (rng.random(100) < 0.8).astype(float)
    value, left_out = hits.mean(), left_out_means(hits)
    logits = np.log(left_out / (1.0 - left_out))
    center = math.log(value / (1.0 - value))
    influence = 99.0 * (center - logits)
    half = student.isf(0.025, degrees_of_freedom(influence)) * math.sqrt(
        variance_of_mean(influence)
    )
    ends = date_interval(value, left_out, 0.05, scale="unit")
    assert ends == pytest.approx((expit(center - half), expit(center + half)))
    assert np.isnan(date_interval(0.5, np.full(40, 0.5), 0.05, scale="unit")).all()
    assert np.isnan(date_interval(1.0, np.full(40, 1.0), 0.05, scale="unit")).all()
    losses = rng.exponential(size=100)
    skewed = date_interval(losses.mean(), left_out_means(losses), 0.05, scale="raw")
    assert skewed[1] - losses.mean() > losses.mean() - skewed[0]


def row(name, y, predictions, **options):
    y, predictions = np.asarray(y), np.asarray(predictions, dtype=float)
    options = {"dates": np.arange(len(y)), "level": 0.05} | options
    metric = date_statistic(name, STATISTICS[name], training_mean=0.0)
    return date_row(metric, y, [(predictions, None)], **options)


RANKED = np.random.default_rng(3).normal(size=100)


@pytest.mark.parametrize(
    ("n", "note"), [(29, "29 dates are too few"), (50, "only 50 dates"), (100, None)]
)
def test_few_dates_are_refused_or_warned_of(n, note):
    found = row("roc_auc", np.arange(n) % 2, RANKED[:n])
    assert math.isnan(found.lower) == (n < 30)
    assert note is None or note in " ".join(found.notes)


@pytest.mark.parametrize(
    ("name", "y", "predictions"),
    [
        ("roc_auc", np.arange(100) < 4, RANKED),
        ("neg_mean_pinball_loss_0.9", RANKED, np.full(100, 2.5)),
        ("neg_mean_absolute_percentage_error", np.r_[0.001, RANKED[1:] + 10.0], RANKED + 10.5),
    ],
)
def test_rare_outcomes_and_targets_near_zero_have_no_interval(name, y, predictions):
    found = row(name, y, predictions)
    assert math.isnan(found.lower)
    assert len(found.notes) == 1


def test_relative_errors_have_an_interval_away_from_zero():
    y = RANKED + 10.0
    found = row("neg_mean_absolute_percentage_error", y, y + np.abs(RANKED[::-1]))
    assert found.lower < found.value < found.upper < 0.0


def test_r2_is_trusted_down_to_a_level_and_needs_a_training_mean():
    notes = row("r2", RANKED, 0.5 * RANKED + 0.1, level=0.001).notes
    assert "0.01" in " ".join(notes)
    assert row("r2", RANKED, RANKED + 0.1 * RANKED[::-1]).upper <= 1.0
    with refused(ValueError, "R²"):
        date_statistic("r2", STATISTICS["r2"])


def test_records_of_a_date_are_one_value():
    """Fifty copies of each record say what one says."""
    rng = np.random.default_rng(4)
    y, scores = rng.integers(0, 2, 80), rng.normal(size=80)
    alone = row("roc_auc", y, scores + y)
    panel = row(
        "roc_auc", np.repeat(y, 50), np.repeat(scores + y, 50), dates=np.repeat(np.arange(80), 50)
    )
    assert panel[:3] == pytest.approx(alone[:3])
    assert panel.n_units == alone.n_units == 80


def test_differences_and_skill():
    rng = np.random.default_rng(5)
    losses = rng.exponential(size=(2, 200))
    metric = date_statistic("neg_mean_absolute_error", STATISTICS["neg_mean_absolute_error"])
    sides = [(-losses[1], None), (-losses[0], None)]
    found = date_row(metric, np.zeros(200), sides, dates=np.arange(200), level=0.05)
    assert found.value == pytest.approx(losses[0].mean() - losses[1].mean())
    assert found.lower < found.value < found.upper
    skill = date_statistic("skill", SKILL)
    found = date_row(skill, np.zeros(200), [(losses, None)], dates=np.arange(200), level=0.05)
    assert found.value == pytest.approx(1.0 - losses[1].mean() / losses[0].mean())
    assert found.lower < found.value < found.upper <= 1.0


# -- level ratios of theory G31, by simulation ----------------------------------------------------


def slow_level(n, phi, rng):
    noise = rng.normal(size=n + 200)
    return lfilter([1.0], [1.0, -phi], noise)[200:] * math.sqrt(1.0 - phi**2)


def accuracy(rng, n=150, phi=0.98):
    chances = expit(1.0 + slow_level(n, phi, rng))
    hits = (rng.random(n) < chances).astype(float)
    events = int(min(hits.sum(), n - hits.sum()))
    return hits.mean(), left_out_means(hits), chances.mean(), {"scale": "unit", "events": events}


def root_mean_square(rng, n=75):
    spread = np.exp(0.5 * slow_level(n, 0.98, rng))
    squares = (spread * rng.standard_t(4, n)) ** 2
    truth = math.sqrt(np.mean(2.0 * spread**2))
    return math.sqrt(squares.mean()), np.sqrt(left_out_means(squares)), truth, {"scale": "loss"}


def absolute_error(rng, n=150):
    """Volatility that clusters: a GARCH process with t4 shocks."""
    shocks, spreads, variance = rng.standard_t(4, n) / math.sqrt(2.0), np.empty(n), 1.0
    for date in range(n):
        spreads[date] = math.sqrt(variance)
        variance = 0.05 + 0.15 * (spreads[date] * shocks[date]) ** 2 + 0.8 * variance
    losses = np.abs(spreads * shocks)
    truth = np.mean(spreads) / math.sqrt(2.0)  # the mean of |t4| is 1
    return losses.mean(), left_out_means(losses), truth, {"scale": "raw"}


def explained(rng, n=75):
    mean = slow_level(n, 0.9, rng)
    y = mean + rng.standard_t(4, n)
    errors, around = (y - 0.8 * mean) ** 2, y**2
    value = 1.0 - errors.sum() / around.sum()
    left_out = 1.0 - (errors.sum() - errors) / (around.sum() - around)
    truth = 1.0 - np.sum((0.2 * mean) ** 2 + 2.0) / np.sum(mean**2 + 2.0)
    return value, left_out, truth, {"scale": "explained"}


def area(rng, n=75, feedback=1.5):
    """Ranking of outcomes that make the next one likelier."""
    scores, chances, y = rng.normal(size=n), np.empty(n), np.zeros(n, dtype=int)
    for date in range(n):
        push = feedback * (2 * y[date - 1] - 1) if date else 0.0
        chances[date] = expit(0.8 * scores[date] + push)
        y[date] = rng.random() < chances[date]
    value, left_out = STATISTICS["roc_auc"].left_out(y, scores, np.ones(n), np.arange(n), n)
    wins = scores[:, None] > scores
    truth = (chances @ wins @ (1.0 - chances)) / (chances.sum() * (1.0 - chances).sum())
    events = int(min(y.sum(), n - y.sum()))
    return value, left_out, truth, {"scale": "unit", "events": events}


def weekly_horizon(rng, n=150, horizon=7):
    """Overlapping errors of forecasts a week ahead, larger on some weekdays."""
    steps = np.cumsum(np.r_[0.0, rng.normal(size=n + horizon)])
    errors = (steps[horizon:] - steps[:-horizon])[:n] / math.sqrt(horizon)
    season = 1.0 + 0.5 * np.sin(2.0 * np.pi * np.arange(n) / 7.0)
    losses = season * np.abs(errors)
    truth = season.mean() * math.sqrt(2.0 / math.pi)
    return losses.mean(), left_out_means(losses), truth, {"scale": "loss", "horizon": horizon}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulate", "ratio"),
    [
        (accuracy, 1.0),
        (root_mean_square, 1.0),
        (absolute_error, 1.3),
        (explained, 1.3),
        (area, 1.0),
        (weekly_horizon, 1.3),
    ],
)
def test_intervals_miss_about_as_often_as_their_level(simulate, ratio):
    """Non-coverage over level at .05 and .01: at most the ratio of theory G31, by 4,000 runs."""
    rng, runs = np.random.default_rng(6), 4000
    missed = dict.fromkeys(LEVELS, 0)
    for _ in range(runs):
        value, left_out, truth, options = simulate(rng)
        options = {{"events": "event_dates"}.get(key, key): each for key, each in options.items()}
        for level in LEVELS:
            lower, upper = date_interval(value, left_out, level, **options)
            missed[level] += not (math.isnan(lower) or lower <= truth <= upper)
    for level in LEVELS:
        assert missed[level] <= binom.isf(0.001, runs, min(1.0, ratio * level))
