"""How slowly scores forget: the slow swings of training-side scores (theory G11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct

from sklearn_bdp._checks import check_array

#: Swings an estimate averages: more are less noisy, fewer see slower dependence.
SWINGS = 10

#: Pairs of somewhat faster swings whose median corrects an estimate that came out small.
PAIRS = 7

#: Fewest scores of an estimate.
FEWEST = 16

#: What an estimate is multiplied with (theory G11): how far it may well fall short.
SAFETY = 1.5

#: Scores per autocorrelation time below which the estimate itself falls short.
ENOUGH = 100


def slow_autocorrelation_time(scores: ArrayLike) -> float:
    """Return the autocorrelation time of a series by its slow swings.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time, at least 16 of them.

    Returns
    -------
    float
        ``1 + 2 * sum of autocorrelations``, at least 1; 1 for a constant series.

    See Also
    --------
    MarkovChain.from_autocorrelation_time : Declare such a time.

    Notes
    -----
    The mean of the squared cosine coefficients of the ten lowest frequencies, in units of the
    variance: each of them estimates the variance of a long mean. The first one, which a steady
    drift fills, weighs no more than the largest of the others. Where the next frequencies say
    more (by their median, which a season does not move), half of the difference is added. A
    windowed sum of autocorrelations stops where they drown in noise and misses hidden regimes
    altogether (it reads 1.3 for 11.6).

    References
    ----------
    Theory G11; Lazarus, Lewis, Stock and Watson 2018 (equal-weighted cosine estimator).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import slow_autocorrelation_time
    >>> rng = np.random.default_rng(0)
    >>> bool(3 < slow_autocorrelation_time(np.repeat(rng.random(9000), 5)) < 8)
    True
    """
    series = check_array("scores", scores, shape=(None,))
    if not len(series) >= FEWEST:
        raise ValueError(f"scores must hold at least {FEWEST} records, got {len(series)}.")
    squares, faster = _swings(series), 0.0
    count = min(SWINGS, len(series) // 4)
    if count + 1 + 2 * PAIRS <= len(series) // 4:
        pairs = squares[count : count + 2 * PAIRS].reshape(PAIRS, 2).mean(axis=1)
        # The expected median of exponential variables (Renyi 1953).
        expected = sum(1.0 / k for k in range(PAIRS // 2 + 1, PAIRS + 1))
        faster = float(np.median(pairs)) / expected
    squares[0] = min(squares[0], squares[1:count].max())
    time = float(squares[:count].mean())
    return max(1.0, time, 0.5 * (time + faster))


def _swings(series):
    """Return squared cosine coefficients, the slowest first, in units of the variance.

    About independent, with the autocorrelation time as the mean of the slow ones; zeros for a
    constant series.
    """
    centred = series - series.mean()
    variance = float(np.mean(centred**2))
    if not variance > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2:
        return np.zeros(len(series) - 1)
    return dct(centred, norm="ortho")[1:] ** 2 / variance
