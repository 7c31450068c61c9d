"""Approximate intervals of seven metrics over dates of seven processes (theory G31).

Forecasts are fixed functions of the past, so that no model is fitted. The law of each date's target
given its past is known: a level and a spread that are known the day before, and noise. So is the
statistic of the average of these laws, which an interval should contain.

``ratio``: share of intervals that miss it over their level, at .05 and .01. ``width``: median width
over that of a bootstrap of independent dates at the same level. The process with the largest value
is shown.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import binom, norm
from scipy.stats import t as student

from benchmarks.dependence.dates import left_out_means, slow_level, weekly_horizon
from benchmarks.dependence.past import newey_west
from sklearn_bdp.intervals.bounds import martingale_interval
from sklearn_bdp.intervals.dates import (
    about_training_mean,
    date_interval,
    date_row,
    degrees_of_freedom,
    variance_of_mean,
)
from sklearn_bdp.metrics.error_clips import ErrorClips
from sklearn_bdp.metrics.registry import statistic_of

LEVELS = (0.05, 0.01)
DATES = (150, 375)
#: Largest width over that of the bootstrap: of most metrics, and of losses.
WIDEST = 1.5
WIDEST_LOSS = 1.9
CLASS_METRICS = ("roc_auc", "f1")
NUMBER_METRICS = (
    "r2",
    "neg_root_mean_squared_error",
    "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_pinball_loss_0.9",
)
METRICS = (*CLASS_METRICS, *NUMBER_METRICS)
#: Mean of the training targets, and the error of forecasts in deviations of the noise.
CENTER = 20.0
BIAS = 0.3
#: Noise takes the values of 240 quantiles, dense in the tails, so that expectations are exact.
_TAIL = np.geomspace(1e-6, 0.02, 41)
_EDGES = np.concatenate(
    [[0.0], _TAIL[:-1], np.linspace(0.02, 0.98, 159), 1.0 - _TAIL[-2::-1], [1.0]]
)
_CHANCES = np.diff(_EDGES)
_MIDPOINTS = 0.5 * (_EDGES[1:] + _EDGES[:-1])
_NORMAL = norm.ppf(_MIDPOINTS)
_T4 = student.ppf(_MIDPOINTS, 4) / math.sqrt(2.0)


class Path(NamedTuple):
    """Level and spread of each date, known the day before, and the values of the noise."""

    level: np.ndarray
    spread: np.ndarray
    noise: np.ndarray


def independent(n, rng):
    """Return a level that is new on each date."""
    return Path(rng.normal(size=n), np.ones(n), _NORMAL)


def autoregression(n, rng):
    """Return a level that changes slowly."""
    return Path(slow_level(n, 0.98, rng), np.ones(n), _NORMAL)


def regimes(n, rng):
    """Return two regimes of level and spread that last for 50 dates on average."""
    regime = (np.cumsum(rng.random(n) < 0.02) + rng.integers(2)) % 2
    return Path(2.0 * regime - 1.0, 0.6 + 0.8 * regime, _NORMAL)


def drift(n, rng):
    """Return a level and a spread that grow."""
    time = np.linspace(-1.0, 1.0, n)
    return Path(time + 0.5 * rng.normal(size=n), 1.0 + 0.4 * time, _NORMAL)


def weekly_season(n, rng):
    """Return a level and a spread that repeat after seven dates."""
    phase = 2.0 * math.pi * (np.arange(n) + rng.integers(7)) / 7.0
    return Path(np.sin(phase), 1.0 + 0.5 * np.cos(phase), _NORMAL)


def clustered(n, rng):
    """Return spreads that follow a GARCH process with normal shocks."""
    shocks = rng.normal(size=n)
    spreads = np.empty(n)
    variance = 1.0
    for date in range(n):
        spreads[date] = math.sqrt(variance)
        variance = 0.05 + 0.1 * (spreads[date] * shocks[date]) ** 2 + 0.85 * variance
    return Path(slow_level(n, 0.5, rng), spreads, _NORMAL)


def heavy_tails(n, rng):
    """Return noise with a t distribution of 4 degrees of freedom."""
    return Path(slow_level(n, 0.9, rng), np.ones(n), _T4)


PROCESSES = {
    "iid": independent,
    "autoregression .98": autoregression,
    "regimes": regimes,
    "drift": drift,
    "weekly season": weekly_season,
    "GARCH, normal shocks": clustered,
    "t4": heavy_tails,
}


class Sample(NamedTuple):
    """Targets and predictions of some dates, and the statistic of their average law."""

    y: np.ndarray
    predictions: np.ndarray
    truth: float


def draw_classes(path, name, rng):
    """Return classes whose chance follows a score, the level and the spread of a path."""
    n = len(path.level)
    score = rng.choice(path.noise, size=n, p=_CHANCES)
    chance = expit((1.2 * score + 0.8 * path.level - 0.5) / path.spread)
    y = (rng.random(n) < chance).astype(int)
    if name == "roc_auc":
        wins = score[:, None] > score
        wins = wins + 0.5 * (score[:, None] == score)
        truth = (chance @ wins @ (1.0 - chance)) / (chance.sum() * (1.0 - chance).sum())
        return Sample(y, score, float(truth))
    predicted = (score > 0.0).astype(int)
    truth = 2.0 * float(chance @ predicted) / float(chance.sum() + predicted.sum())
    return Sample(y, predicted, truth)


def draw_numbers(path, name, rng):
    """Return numbers with forecasts that miss the level by a part of the noise."""
    n = len(path.level)
    mean = CENTER + 2.0 * path.level
    noise = rng.choice(path.noise, size=n, p=_CHANCES)
    miss = BIAS * rng.normal(size=n)
    shift = np.interp(0.9, _MIDPOINTS, path.noise) if "pinball" in name else 0.0
    forecast = mean + path.spread * (miss + shift)
    y = mean + path.spread * noise
    values = mean[:, None] + path.spread[:, None] * path.noise  # of the law of each date
    return Sample(y, forecast, _statistic_of_law(name, values, forecast))


def _statistic_of_law(name, values, forecast):
    """Return a statistic of the average law; ``values``: possible targets of each date."""

    def expected(losses):
        return float(np.mean(losses @ _CHANCES))

    errors = values - forecast[:, None]
    if name == "r2":
        return 1.0 - expected(errors**2) / expected((values - CENTER) ** 2)
    if name == "neg_root_mean_squared_error":
        return -math.sqrt(expected(errors**2))
    if name == "neg_mean_absolute_percentage_error":
        return -expected(np.abs(errors / values))
    if name.startswith("neg_mean_pinball_loss"):
        return -expected(np.maximum(0.9 * errors, -0.1 * errors))
    return -expected(np.abs(errors))


def draw(process, name, n, rng):
    """Return a sample of a process for a metric."""
    path = PROCESSES[process](n, rng)
    draw_targets = draw_classes if name in CLASS_METRICS else draw_numbers
    return draw_targets(path, name, rng)


def bootstrap_widths(statistic, sample, rng, draws=400):
    """Return the widths of intervals of a bootstrap of independent dates, by level."""
    n = len(sample.y)
    units = np.arange(n) % 2  # values without a unit are not used
    values = np.empty(draws)
    for index in range(draws):
        rows = rng.integers(0, n, n)
        values[index] = statistic.left_out(
            sample.y[rows], sample.predictions[rows], np.ones(n), units, 2
        )[0]
    return {
        level: np.subtract(*np.quantile(values, [1.0 - level / 2.0, level / 2.0]))
        for level in LEVELS
    }


class Comparison(NamedTuple):
    """Misses by level of some runs, and median widths over those of a bootstrap by level.

    A row without an interval misses nothing.
    """

    runs: int
    misses: dict[float, int]
    widths: dict[float, float]


def compare(process, name, n, runs, rng, *, width_runs=200):
    """Return misses of the intervals of a metric, and their widths in the first runs.

    Widths of errors with heavy tails have two modes, so that a median of few runs is either.
    """
    statistic = about_training_mean(statistic_of(name), CENTER)
    misses = dict.fromkeys(LEVELS, 0)
    ratios = {level: [] for level in LEVELS}
    dates = np.arange(n)
    for run in range(runs):
        sample = draw(process, name, n, rng)
        by_bootstrap = {}
        if run < width_runs:
            by_bootstrap = bootstrap_widths(statistic, sample, rng)
        for level in LEVELS:
            row = date_row(
                statistic, sample.y, [(sample.predictions, None)], dates=dates, alpha=level
            )
            if math.isnan(row.lower):  # too few dates with the rarest outcome
                continue
            misses[level] += not row.lower <= sample.truth <= row.upper
            if by_bootstrap:
                ratios[level].append((row.upper - row.lower) / by_bootstrap[level])
    widths = {level: float(np.median(ratios[level])) for level in LEVELS}
    return Comparison(runs, misses, widths)


def intervals_of_rmse(n, runs, rng, *, level=0.05):
    """Return misses and widths of intervals of an RMSE, with and without Hall's correction.

    Errors follow a t distribution with 4 degrees of freedom; the library applies the correction.

    Returns
    -------
    ratios : ndarray of shape (2,)
        Misses over the level.
    widths : ndarray of shape (2, runs)
        Widths over those of a bootstrap of independent dates.
    """
    name = "neg_root_mean_squared_error"
    statistic = about_training_mean(statistic_of(name), CENTER)
    dates = np.arange(n)
    missed = np.zeros(2)
    widths = np.empty((2, runs))
    for run in range(runs):
        sample = draw("t4", name, n, rng)
        value, left_out = statistic.left_out(sample.y, sample.predictions, np.ones(n), dates, n)
        influence = (n - 1.0) * (math.log(value) - np.log(left_out))
        quantile = student.isf(0.5 * level, degrees_of_freedom(influence, is_loss=True))
        half_width = quantile * math.sqrt(variance_of_mean(influence))
        ends = np.array(
            [
                date_interval(value, left_out, level, scale="loss"),
                value * np.exp([-half_width, half_width]),
            ]
        )
        missed += (-sample.truth < ends[:, 0]) | (-sample.truth > ends[:, 1])
        by_bootstrap = bootstrap_widths(statistic, sample, rng)[level]
        widths[:, run] = (ends[:, 1] - ends[:, 0]) / by_bootstrap
    return missed / runs / level, widths


def widths_of_absolute_errors(n, runs, rng):
    """Return the widths of an MAE over those by Newey-West errors: approximate and proven.

    The process is an autoregression of .98. Proven intervals clip errors by those of three times as
    many earlier dates.
    """
    approximate = []
    proven = []
    for _ in range(runs):
        sample = draw("autoregression .98", "neg_mean_absolute_error", 4 * n, rng)
        errors = np.abs(sample.y - sample.predictions)
        earlier = errors[: 3 * n]
        losses = errors[3 * n :]
        by_newey_west = newey_west(losses)
        lower, upper = date_interval(losses.mean(), left_out_means(losses), 0.05, scale="raw")
        approximate.append(0.5 * (upper - lower) / by_newey_west)
        clip = ErrorClips.from_errors(earlier).absolute
        scores = np.minimum(losses, clip) / clip
        training = np.minimum(earlier, clip) / clip
        ends = martingale_interval(
            scores, math.log(0.025), expected=training.mean(), variance=float(training.var())
        )
        proven.append(0.5 * clip * (ends[1] - ends[0]) / by_newey_west)
    return float(np.mean(approximate)), float(np.mean(proven))


def width_of_a_horizon(n, runs, rng):
    """Return the width of an MAE a week ahead over that by Newey-West errors."""
    ratios = []
    for _ in range(runs):
        case = weekly_horizon(rng, n)
        losses = case.value + (n - 1.0) * (case.value - case.left_out)
        lower, upper = date_interval(case.value, case.left_out, 0.05, **case.options)
        ratios.append(0.5 * (upper - lower) / newey_west(losses))
    return float(np.mean(ratios))


def margin(checks, runs, level):
    """Return the most misses of so many runs at 1.3 times a level, over so many checks."""
    return int(binom.isf(0.05 / checks, runs, 1.3 * level))


def show_date_metrics(replications, rng):
    """Print level ratios and widths of all metrics, by process and number of dates."""
    runs = 5 * replications
    checks = len(METRICS) * len(DATES) * len(PROCESSES) * len(LEVELS)
    bounds = [margin(checks, runs, level) / runs / level for level in LEVELS]
    print(f"seven metrics over dates of seven processes: {runs} runs each")
    print(
        f"1.3 times the level plus a margin over {checks} checks: {bounds[0]:.2f}, {bounds[1]:.2f}"
    )
    print(f"{'':34s}       largest ratio at             largest width at")
    print(f"{'':34s} dates    .05 .01                       .05  .01")
    for name in METRICS:
        for n in DATES:
            cells = {
                process: compare(process, name, n, runs, rng, width_runs=max(2, runs // 5))
                for process in PROCESSES
            }
            ratios = [
                max(cell.misses[level] / runs / level for cell in cells.values())
                for level in LEVELS
            ]
            widths = [max(cell.widths[level] for cell in cells.values()) for level in LEVELS]
            misses_most = max(cells, key=lambda process: cells[process].misses[0.05])
            widest = max(cells, key=lambda process: cells[process].widths[0.05])
            print(
                f"{name:34s} {n:5d} {ratios[0]:6.2f} {ratios[1]:4.2f} {misses_most:20s} "
                f"{widths[0]:5.2f} {widths[1]:4.2f} {widest}",
                flush=True,
            )
    rmse_ratios, rmse_widths = intervals_of_rmse(150, runs, rng)
    print(
        "RMSE of t4 errors, 150 dates: misses over level .05, quantiles .25, .5, .75 of the width"
    )
    for name, ratio, of_rule in zip(
        ("rule", "without Hall's correction"), rmse_ratios, rmse_widths, strict=True
    ):
        quantiles = " ".join(f"{value:.2f}" for value in np.quantile(of_rule, [0.25, 0.5, 0.75]))
        print(f"  {name:26s} {ratio:5.2f}   {quantiles}")
    approximate, proven = widths_of_absolute_errors(375, max(4, runs // 20), rng)
    print(f"MAE of 375 dates over Newey-West: approximate {approximate:.2f}, proven {proven:.2f}")
    width = width_of_a_horizon(375, max(4, runs // 20), rng)
    print(f"MAE a week ahead, 375 dates, given the forecast time, over Newey-West: {width:.2f}")
