"""Approximate intervals over dates, each given its past (theory G31), beside rivals.

Every process knows the conditional expectations of its dates, and so the true value of the
statistic. ``ratio``: share of intervals that miss it, over their level, at .05 and .01. ``width``:
of intervals at .05 over that of a bootstrap of independent dates, of losses also over Newey-West
errors.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit

from benchmarks.dependence.past import newey_west
from sklearn_bdp.intervals.dates import about_training_mean, date_interval, date_row
from sklearn_bdp.metrics.registry import statistic_of

LEVELS = (0.05, 0.01)


class Simulated(NamedTuple):
    """A statistic of simulated dates, and its true value."""

    value: float
    left_out: np.ndarray  # the statistic without each date
    truth: float
    options: dict[str, Any]  # further arguments of ``date_interval``


def left_out_means(values):
    """Return the mean of all other values, for each value."""
    return (values.sum() - values) / (len(values) - 1)


def slow_level(n, phi, rng):
    """Return an autoregression of variance 1."""
    noise = rng.normal(size=n + 200)
    return lfilter([1.0], [1.0, -phi], noise)[200:] * math.sqrt(1.0 - phi**2)


def accuracy(rng, n=150, phi=0.98):
    """Return a simulated accuracy; the chance of a hit changes slowly."""
    chances = expit(1.0 + slow_level(n, phi, rng))
    hits = (rng.random(n) < chances).astype(float)
    options = {"scale": "unit", "n_outcome_dates": int(min(hits.sum(), n - hits.sum()))}
    return Simulated(hits.mean(), left_out_means(hits), chances.mean(), options)


def root_mean_square(rng, n=75):
    """Return a simulated RMSE of t4 errors whose spread changes slowly."""
    spread = np.exp(0.5 * slow_level(n, 0.98, rng))
    squares = (spread * rng.standard_t(4, n)) ** 2
    truth = math.sqrt(np.mean(2.0 * spread**2))
    value = math.sqrt(squares.mean())
    return Simulated(value, np.sqrt(left_out_means(squares)), truth, {"scale": "loss"})


def absolute_error(rng, n=150):
    """Return a simulated MAE of errors whose volatility clusters: GARCH with t4 shocks."""
    shocks = rng.standard_t(4, n) / math.sqrt(2.0)
    spreads = np.empty(n)
    variance = 1.0
    for date in range(n):
        spreads[date] = math.sqrt(variance)
        variance = 0.05 + 0.15 * (spreads[date] * shocks[date]) ** 2 + 0.8 * variance
    losses = np.abs(spreads * shocks)
    truth = np.mean(spreads) / math.sqrt(2.0)  # the mean of |t4| is 1
    return Simulated(losses.mean(), left_out_means(losses), truth, {"scale": "raw"})


def explained(rng, n=75):
    """Return a simulated R² of t4 errors about a level that changes."""
    mean = slow_level(n, 0.9, rng)
    y = mean + rng.standard_t(4, n)
    errors = (y - 0.8 * mean) ** 2
    squares = y**2
    value = 1.0 - errors.sum() / squares.sum()
    left_out = 1.0 - (errors.sum() - errors) / (squares.sum() - squares)
    truth = 1.0 - np.sum((0.2 * mean) ** 2 + 2.0) / np.sum(mean**2 + 2.0)
    return Simulated(value, left_out, truth, {"scale": "explained"})


def panel(rng, n=75, n_records=10):
    """Return a simulated accuracy of several records of each date; chances change slowly."""
    chances = expit(1.0 + slow_level(n, 0.98, rng) + 0.5 * rng.normal(size=n))
    shares = rng.binomial(n_records, chances) / n_records
    options = {"scale": "unit"}
    return Simulated(shares.mean(), left_out_means(shares), chances.mean(), options)


def outcomes_with_feedback(rng, n, feedback):
    """Return scores, chances and outcomes; each outcome makes an equal next one likelier."""
    scores = rng.normal(size=n)
    chances = np.empty(n)
    y = np.zeros(n, dtype=int)
    for date in range(n):
        push = feedback * (2 * y[date - 1] - 1) if date else 0.0
        chances[date] = expit(0.8 * scores[date] + push)
        y[date] = rng.random() < chances[date]
    return scores, chances, y


def average_precision(rng, n=75, feedback=1.5):
    """Return a simulated average precision of :func:`outcomes_with_feedback`."""
    scores, chances, y = outcomes_with_feedback(rng, n, feedback)
    statistic = statistic_of("average_precision")
    value, left_out = statistic.left_out(y, scores, np.ones(n), np.arange(n), n)
    in_order = chances[np.argsort(-scores)]
    precisions = np.cumsum(in_order) / np.arange(1, n + 1)
    options = {"scale": "unit", "n_outcome_dates": int(min(y.sum(), n - y.sum()))}
    return Simulated(value, left_out, in_order @ precisions / in_order.sum(), options)


def roc_auc(rng, n=75, feedback=1.5):
    """Return a simulated ROC AUC of :func:`outcomes_with_feedback`."""
    scores, chances, y = outcomes_with_feedback(rng, n, feedback)
    value, left_out = statistic_of("roc_auc").left_out(y, scores, np.ones(n), np.arange(n), n)
    wins = scores[:, None] > scores
    truth = (chances @ wins @ (1.0 - chances)) / (chances.sum() * (1.0 - chances).sum())
    options = {"scale": "unit", "n_outcome_dates": int(min(y.sum(), n - y.sum()))}
    return Simulated(value, left_out, truth, options)


def weekly_horizon(rng, n=150, horizon=7):
    """Return a simulated MAE of forecasts a week ahead; errors overlap and have a weekly season."""
    steps = np.cumsum(np.r_[0.0, rng.normal(size=n + horizon)])
    errors = (steps[horizon:] - steps[:-horizon])[:n] / math.sqrt(horizon)
    season = 1.0 + 0.5 * np.sin(2.0 * np.pi * np.arange(n) / 7.0)
    losses = season * np.abs(errors)
    truth = season.mean() * math.sqrt(2.0 / math.pi)
    options = {"scale": "loss", "horizon": horizon}
    return Simulated(losses.mean(), left_out_means(losses), truth, options)


#: Processes, and the ratio that none of them should exceed (theory G31).
PROCESSES = {
    "accuracy, autoregression .98": (accuracy, 1.0),
    "RMSE, t4, autoregression .98": (root_mean_square, 1.0),
    "MAE, t4, GARCH": (absolute_error, 1.3),
    "R², t4": (explained, 1.3),
    "AUC, feedback": (roc_auc, 1.0),
    "average precision, feedback": (average_precision, 1.3),
    "accuracy, panel of 10": (panel, 1.1),
    "MAE, horizon 7, weekly season": (weekly_horizon, 1.3),
}


def missed(simulate, runs, rng):
    """Return how many intervals of ``runs`` simulated cases miss the truth, by level.

    A case without an interval is not a miss.
    """
    counts = dict.fromkeys(LEVELS, 0)
    for _ in range(runs):
        case = simulate(rng)
        for level in LEVELS:
            lower, upper = date_interval(case.value, case.left_out, level, **case.options)
            counts[level] += not (math.isnan(lower) or lower <= case.truth <= upper)
    return counts


#: Metrics whose widths are compared.
METRICS = (
    "roc_auc",
    "f1",
    "r2",
    "neg_root_mean_squared_error",
    "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_pinball_loss_0.9",
)


def sample(name, n, rng):
    """Return targets and predictions of some dates."""
    if name in ("roc_auc", "f1"):
        scores = rng.normal(size=n)
        y = (scores + 0.5 * slow_level(n, 0.98, rng) + rng.normal(size=n) > 0.0).astype(int)
        return y, scores if name == "roc_auc" else (scores > 0.0).astype(int)
    level = 10.0 + 2.0 * slow_level(n, 0.9, rng)
    return level + rng.normal(size=n), level + 0.3 * rng.normal(size=n)


def bootstrap_width(statistic, y, predictions, rng, draws=300):
    """Return the width of the 95 % interval of a bootstrap of independent dates."""
    n = len(y)
    values = []
    for _ in range(draws):
        rows = rng.integers(0, n, n)
        two_blocks = np.arange(n) % 2  # values without either block are not used
        value, _ = statistic.left_out(y[rows], predictions[rows], np.ones(n), two_blocks, 2)
        values.append(value)
    low, high = np.quantile(values, [0.025, 0.975])
    return high - low


def relative_widths(name, n, runs, rng):
    """Return mean widths over those of a bootstrap and, of absolute errors, of Newey-West."""
    by_bootstrap = []
    by_newey_west = []
    statistic = about_training_mean(statistic_of(name), 10.0)
    for _ in range(runs):
        y, predictions = sample(name, n, rng)
        row = date_row(statistic, y, [(predictions, None)], dates=np.arange(n), alpha=0.05)
        width = row.upper - row.lower
        by_bootstrap.append(width / bootstrap_width(statistic, y, predictions, rng))
        if name == "neg_mean_absolute_error":
            by_newey_west.append(0.5 * width / newey_west(np.abs(y - predictions)))
    return np.mean(by_bootstrap), np.mean(by_newey_west or [math.nan])


def show_dates(replications, rng):
    """Print misses over the level, and widths over those of a bootstrap and of Newey-West."""
    runs = 20 * replications
    print(f"dates given the past, any metric: {runs} runs")
    print(f"{'':32s} ratio at .05   .01")
    for name, (simulate, _) in PROCESSES.items():
        counts = missed(simulate, runs, rng)
        ratios = [counts[level] / runs / level for level in LEVELS]
        print(f"{name:32s} {ratios[0]:12.2f} {ratios[1]:5.2f}")
    print(f"{'':38s} dates  bootstrap  Newey-West")
    for n in (150, 375):
        for name in METRICS:
            widths = relative_widths(name, n, max(2, replications // 8), rng)
            print(f"{name:38s} {n:5d} {widths[0]:10.2f} {widths[1]:11.2f}")
