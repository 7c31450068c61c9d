"""Simulated scores whose autocorrelation time and expectation are known."""

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import norm

from sklearn_bdp.correlation import MarkovChain

BETA = 0.05
TIMES = (2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


@functools.lru_cache
def threshold_weights(mean, terms=20_000):
    """Return how much of the variance of a thresholded Gaussian each Hermite polynomial carries.

    The tetrachoric series: the autocovariance at lag ``k`` of ``level < q`` is
    ``sum_j (He_{j-1}(q) pdf(q))^2 / j! phi^{jk}``.
    """
    threshold = float(ndtri(mean))
    previous = 0.0
    current = 1.0  # He_{j-1}(threshold) / sqrt((j-1)!)
    squares = np.empty(terms)
    for j in range(1, terms + 1):
        squares[j - 1] = current**2 / j
        following = (threshold * current - math.sqrt(j - 1) * previous) / math.sqrt(j)
        previous = current
        current = following
    return squares * norm.pdf(threshold) ** 2 / (mean * (1.0 - mean))


def threshold_time(phi, mean):
    """Return the autocorrelation time of a thresholded Gaussian autoregression."""
    weights = threshold_weights(mean)
    powers = phi ** np.arange(1, len(weights) + 1)
    return 1.0 + 2.0 * float(np.sum(weights * powers / (1.0 - powers)))


@functools.lru_cache
def autoregression(time, mean=0.5):
    """Return a sampler of scores, the expected score, and the right chain to declare.

    Scores tell whether a Gaussian autoregression is below a threshold; ``time`` is their
    autocorrelation time.
    """
    phi = brentq(lambda x: threshold_time(x, mean) - time, 1e-6, 1 - 1e-5)
    threshold = float(ndtri(mean)) / math.sqrt(1.0 - phi**2)

    def sample(n, rng):
        level = lfilter([1.0], [1.0, -phi], rng.normal(size=n + 4000))[4000:]
        return (level < threshold).astype(float)

    return sample, mean, MarkovChain.from_autocorrelation_time(time)


@functools.lru_cache
def regimes(time, share=0.5, scores=(0.95, 0.45)):
    """Return the same for scores of two hidden regimes; ``share`` is that of the second one."""
    mean = (1 - share) * scores[0] + share * scores[1]
    ratio = share * (1 - share) * (scores[0] - scores[1]) ** 2 / (mean * (1 - mean))
    odds = (time - 1.0) / (2.0 * ratio)
    contraction = odds / (1.0 + odds)
    leave = (1.0 - contraction) * np.array([share, 1.0 - share])

    def sample(n, rng):
        state = int(rng.random() < share)
        stays = []
        n_states = 0
        while n_states < n:
            length = int(rng.geometric(leave[state]))
            stays.append(np.full(length, state))
            n_states += length
            state = 1 - state
        states = np.concatenate(stays)[:n]
        return (rng.random(n) < np.asarray(scores)[states]).astype(float)

    chain = MarkovChain([[1 - leave[0], leave[0]], [leave[1], 1 - leave[1]]])
    return sample, mean, chain


def interval(model, scores):
    """Return the interval of one fixed query at ``BETA``."""
    n = len(scores)
    value = float(scores.mean())
    level = math.log(BETA / 2.0)
    low = float(model.mean_lower_limit(value, level, n))
    return low, 1.0 - float(model.mean_lower_limit(1.0 - value, level, n))
