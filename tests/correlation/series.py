"""Series of 0/1 scores with known dependence, shared by tests."""

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri


def autoregressive(n, phi, rng, *, mean=0.8):
    """Return a thresholded autoregression (burnt in)."""
    noise = rng.normal(size=n + 2000)
    level = lfilter([1.0], [1.0, -phi], noise)[2000:] * np.sqrt(1.0 - phi**2)
    return (level < ndtri(mean)).astype(float)


def regimes(n, contraction, rng, *, share=0.5, scores=(0.95, 0.55)):
    """Return scores of two hidden regimes; ``share`` is that of the second one."""
    leave = (1.0 - contraction) * np.array([share, 1.0 - share])
    state = int(rng.random() < share)
    states = []
    total = 0
    while total < n:
        length = int(rng.geometric(leave[state]))
        states.append(np.full(length, state))
        total = total + length
        state = 1 - state
    states = np.concatenate(states)[:n]
    return (rng.random(n) < np.asarray(scores)[states]).astype(float)


def regime_time(contraction, *, share=0.5, scores=(0.95, 0.55)):
    """Return the autocorrelation time of :func:`regimes` in closed form."""
    mean = (1 - share) * scores[0] + share * scores[1]
    between_variance = share * (1 - share) * (scores[0] - scores[1]) ** 2
    return 1.0 + 2.0 * between_variance / (mean * (1 - mean)) * contraction / (1.0 - contraction)
