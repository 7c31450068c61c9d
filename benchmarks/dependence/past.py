"""Intervals for scores in time given their past (theory G26), beside usual ones of forecasters.

The expectation of each date's score given all dates before it is known. ``covered``: the interval
contains the mean of these expectations over the dates of the holdout. ``outside``: the interval
misses the long-run mean. Beside it are the half-widths of the intervals by Newey-West errors and by
a bootstrap of blocks, and how often they contain the long-run mean, which is their target. All
limits have 3.7 nats a side; stakes use the scores of three times as many earlier dates.
"""

import functools

import numpy as np
from scipy.signal import fftconvolve, lfilter
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import norm

from sklearn_bdp.intervals.bounds import martingale_interval

NATS = 3.7
DATES = (75, 300, 750, 1250)
MEAN = 0.75


def bits(means, rng):
    """Return scores of these expectations, and the expectations."""
    return (rng.random(len(means)) < means).astype(float), means


def thresholded(predicted, spread):
    """Return chances that a normal variable with predicted mean stays below the threshold."""
    return ndtr((ndtri(MEAN) - predicted) / spread)


def independent(n, rng):
    """Return bits of one mean."""
    return *bits(np.full(n, MEAN), rng), MEAN


def autoregression(n, rng, *, phi):
    """Return whether an autoregression of variance 1 is below a threshold."""
    spread = np.sqrt(1.0 - phi**2)
    level = lfilter([spread], [1.0, -phi], rng.normal(size=n + 2000))[-n - 1 :]
    below = (level[1:] < ndtri(MEAN)).astype(float)
    return below, thresholded(phi * level[:-1], spread), MEAN


def long_memory(n, rng, *, d=0.4, terms=20_000):
    """Return whether fractional noise, with innovations of variance 1, is below a threshold."""
    k = np.arange(1, terms)
    weights = np.exp(gammaln(k + d) - gammaln(k + 1) - gammaln(d))
    noise = rng.normal(size=n + terms)
    past = fftconvolve(noise, weights)[terms - 2 : terms - 2 + n]
    now = noise[terms - 1 : terms - 1 + n]
    total = np.sqrt(1.0 + np.sum(weights**2))
    level = ndtri(MEAN) * total
    return (past + now < level).astype(float), ndtr(level - past), MEAN


def regimes(n, rng, *, leave=(0.02, 0.02), scores=(0.95, 0.55)):
    """Return bits whose mean follows two hidden regimes."""
    state = 0
    all_states = []
    for uniform in rng.random(n + 500):
        state = 1 - state if uniform < leave[state] else state
        all_states.append(state)
    states = np.array(all_states[-n:])
    previous_states = np.array(all_states[-n - 1 : -1])
    scores = np.array(scores)
    leave = np.array(leave)
    hits = (rng.random(n) < scores[states]).astype(float)
    leave_chances = leave[previous_states]
    expected_if_stayed = (1.0 - leave_chances) * scores[previous_states]
    expected = expected_if_stayed + leave_chances * scores[1 - previous_states]
    return hits, expected, float(scores @ leave[::-1] / leave.sum())


def drift(n, rng):
    """Return bits whose mean falls from .85 to .65; .85 takes the place of a long-run mean."""
    return *bits(np.linspace(0.85, 0.65, n), rng), 0.85


def losses(n, rng):
    """Return clipped absolute errors as scores, of deviation .14."""
    scores = 1.0 - np.clip(0.232 * np.abs(rng.normal(size=n)), 0.0, 1.0)
    mean = 1.0 - 0.232 * np.sqrt(2.0 / np.pi)
    return scores, np.full(n, mean), mean


def panel(n, rng, *, shock, shops=50):
    """Return means of 50 shops whose accuracy is moved by a shock of the day, partly foreseen."""
    level = lfilter([np.sqrt(0.75)], [1.0, -0.5], rng.normal(size=n + 100))[-n - 1 :]
    share = np.clip(MEAN + shock * level[1:], 0.0, 1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    next_scores = MEAN + shock * (0.5 * level[:-1, None] + np.sqrt(0.75) * nodes)
    expected = np.clip(next_scores, 0.0, 1.0) @ weights / weights.sum()
    mean = np.clip(MEAN + shock * nodes, 0.0, 1.0) @ weights / weights.sum()
    return rng.binomial(shops, share) / shops, expected, float(mean)


def folded(distance, spread):
    """Return the expected absolute value of a normal variable."""
    ratio = distance / spread
    return spread * (2.0 * norm.pdf(ratio) + ratio * (2.0 * ndtr(ratio) - 1.0))


def pair(n, rng, *, horizon, forecast_time=False, phi=0.8):
    """Return differences of absolute errors: the seasonal naive forecast less a better one.

    Also their expectations, given the day before or given the forecast time, their long-run mean,
    and the distances of the forecasts. Sales follow an autoregression; both forecasts are made
    ``horizon`` days ahead.
    """
    spread = np.sqrt(1.0 - phi**2)
    start = 60
    level = lfilter([spread], [1.0, -phi], rng.normal(size=n + start))
    days = np.arange(start, n + start)
    good = phi**horizon * level[days - horizon]
    naive = level[days - 7]
    lag = horizon if forecast_time else 1
    mean = phi**lag * level[days - lag]
    error = np.sqrt(1.0 - phi ** (2 * lag))
    gained = np.abs(level[days] - naive) - np.abs(level[days] - good)
    expected = folded(mean - naive, error) - folded(mean - good, error)
    root = np.sqrt(2.0 / np.pi)
    truth = root * (np.sqrt(2.0 - 2.0 * phi**7) - np.sqrt(1.0 - phi ** (2 * horizon)))
    return gained, expected, truth, np.abs(naive - good)


def newey_west(scores):
    """Return the half-width by Newey-West errors with a usual bandwidth."""
    n = len(scores)
    centered = scores - scores.mean()
    lags = int(np.ceil(4.0 * (n / 100.0) ** (2.0 / 9.0))) + 7
    variance = centered @ centered / n
    for lag in range(1, lags + 1):
        variance += 2.0 * (1.0 - lag / (lags + 1)) * (centered[lag:] @ centered[:-lag]) / n
    return 1.96 * np.sqrt(max(variance, 0.0) / n)


def bootstrapped(scores, rng, *, draws=100):
    """Return the half-width by a bootstrap of moving blocks."""
    length = max(7, round(len(scores) ** (1 / 3)))
    starts = rng.integers(0, len(scores) - length + 1, (draws, -(-len(scores) // length)))
    block_means = scores[starts[..., None] + np.arange(length)].mean(axis=(1, 2))
    low, high = np.quantile(block_means, [0.025, 0.975])
    return (high - low) / 2.0


#: Maker, how the score varies (None: bits), horizon of the limit.
PROCESSES = {
    "iid": (independent, None, 1),
    "autoregression .9": (functools.partial(autoregression, phi=0.9), None, 1),
    "autoregression .98": (functools.partial(autoregression, phi=0.98), None, 1),
    "hidden regimes": (regimes, None, 1),
    "long memory, d = .4": (long_memory, None, 1),
    "rare regime": (functools.partial(regimes, leave=(0.001, 0.03), scores=(0.9, 0.1)), None, 1),
    "drift": (drift, None, 1),
    "losses, sd .14": (losses, "spread", 1),
    "panel, small shocks": (functools.partial(panel, shock=0.03), "spread", 1),
    "panel, large shocks": (functools.partial(panel, shock=0.1), "spread", 1),
    "pair, horizon 1": (functools.partial(pair, horizon=1), "spread", 1),
    "pair, 7, day before": (functools.partial(pair, horizon=7), "spread", 1),
    "pair, 7, forecast": (functools.partial(pair, horizon=7, forecast_time=True), "spread", 7),
}


def results_of_series(name, dates, rng):
    """Return seven results of one series.

    Whether the interval covers the truth, whether it misses the long-run mean, its half-width; and
    for Newey-West and for the bootstrap the half-width and whether it covers the long-run mean.
    """
    make, variance_kind, horizon = PROCESSES[name]
    scores, expected, mean, *bounds = make(4 * dates, rng)
    past_scores = scores[: 3 * dates]
    holdout_scores = scores[3 * dates :]
    score_ranges = {}
    if bounds:
        score_ranges = {"lowest": -bounds[0][3 * dates :], "highest": bounds[0][3 * dates :]}
    low, high = martingale_interval(
        holdout_scores,
        -NATS,
        expected=past_scores.mean(),
        horizon=horizon,
        variance=None if variance_kind is None else float(past_scores.var()),
        **score_ranges,
    )
    peer_results = []
    for half_width in (newey_west(holdout_scores), bootstrapped(holdout_scores, rng)):
        peer_results += [half_width, abs(holdout_scores.mean() - mean) <= half_width]
    truth = expected[3 * dates :].mean()
    return low <= truth <= high, not low <= mean <= high, (high - low) / 2.0, *peer_results


def show_past(replications, rng):
    """Print coverage and half-widths for every process and number of dates."""
    print(f"given the past: {replications} replications, {NATS} nats a side")
    print(f"{'':20} {'dates':>6} {'covered':>8} {'outside':>8} {'±':>7}   Newey-West   blocks")
    for name in PROCESSES:
        for dates in DATES:
            averages = np.mean(
                [results_of_series(name, dates, rng) for _ in range(replications)], axis=0
            )
            covered, outside, half_width, *peer_averages = averages
            newey_west_width, newey_west_covered, block_width, block_covered = peer_averages
            print(
                f"{name:20} {dates:6} {covered:8.3f} {outside:8.2f} {half_width:7.4f}   "
                f"{newey_west_width:.4f} {newey_west_covered:.2f}  "
                f"{block_width:.4f} {block_covered:.2f}",
                flush=True,
            )
