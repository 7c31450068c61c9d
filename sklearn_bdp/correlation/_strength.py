"""How slowly scores forget: the slow swings of training-side scores (theory G11)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct
from scipy.stats import chi2

from sklearn_bdp._checks import check_array, check_integer, check_real

#: Swings an estimate averages at least: more are less noisy, fewer see slower dependence.
SWINGS = 10

#: Pairs of somewhat faster swings whose median corrects an estimate that came out small.
PAIRS = 7

#: Fewest scores of an estimate.
FEWEST = 16

#: What an estimate is multiplied with (theory G11): how far it may well fall short.
SAFETY = 1.5

#: Scores per autocorrelation time below which the estimate itself falls short.
ENOUGH = 100


@dataclass(frozen=True)
class Strength:
    """How slowly scores forget, as the training side shows it."""

    time: float  # records that count as one, the largest over the candidates
    n_scores: int  # of each candidate it was read off
    n_candidates: int
    safety: float = SAFETY  # stated factor between the time and what is declared

    @property
    def declared(self) -> float:
        """Autocorrelation time to declare: the estimate times the safety factor."""
        return max(1.0, self.safety * self.time)

    @property
    def is_short(self) -> bool:
        """Whether the scores are too few to see as slow a dependence as they show."""
        return self.n_scores < ENOUGH * self.time


def slow_autocorrelation_time(scores: ArrayLike, *, horizon: int | None = None) -> float:
    """Return the autocorrelation time of a series by its slow swings.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time, at least 16 of them.
    horizon : int, optional
        Records whose mean is wanted, the size of a holdout: swings that repeat within half of
        it (seasons) average out and are left aside. By default about half of ``n``.

    Returns
    -------
    float
        ``1 + 2 * sum of autocorrelations``, at least 1; 1 for a constant series.

    See Also
    --------
    integrated_autocorrelation : The same by a sum of autocorrelations.
    MarkovChain.from_autocorrelation_time : Declare such a time.

    Notes
    -----
    The mean of the squared cosine coefficients of the lowest frequencies, in units of the
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
    swings = slow_swings(series, horizon=horizon)
    time = float(swings.mean())
    beside = _faster_swings(series, len(swings))
    return max(1.0, time, 0.5 * (time + beside))


def least_autocorrelation_time(series, level: float) -> float:
    """Return a lower limit of the autocorrelation time that fails with probability ``level``."""
    swings = slow_swings(series)
    return float(swings.sum() / chi2.isf(level, len(swings)))


def slow_swings(series, *, horizon: int | None = None) -> np.ndarray:
    """Return squared cosine coefficients of the slowest swings, in units of the variance.

    About independent, with the autocorrelation time as their mean; zeros for a constant series.
    Swings with periods below half of ``horizon`` records are left out.
    """
    n = len(series)
    count = SWINGS
    if horizon is not None:
        # The coefficient j swings with period 2 n / j.
        count = max(SWINGS, 4 * n // check_integer("horizon", horizon, low=1))
    count = max(1, min(count, n // 4))
    squares = _squared_swings(series)[1 : count + 1]
    if count > 1:
        squares[0] = min(squares[0], float(squares[1:].max()))
    return squares


def _faster_swings(series, count):
    """Return the autocorrelation time by the median of the swings after the slowest ``count``."""
    end = count + 1 + 2 * PAIRS
    if end > len(series) // 4:
        return 0.0
    pairs = _squared_swings(series)[count + 1 : end].reshape(PAIRS, 2).mean(axis=1)
    # The expected median of exponential variables (Renyi 1953).
    expected = sum(1.0 / k for k in range(PAIRS // 2 + 1, PAIRS + 1))
    return float(np.median(pairs)) / expected


def _squared_swings(series):
    centred = series - series.mean()
    variance = float(np.mean(centred**2))
    if not variance > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2:
        return np.zeros(len(series))
    return dct(centred, norm="ortho") ** 2 / variance


def score_strength(
    scores: ArrayLike,
    *,
    horizon: int | None = None,
    safety: float = SAFETY,
) -> Strength:
    """Return how slowly the scores of one or several candidates forget: the slowest of them.

    Scores in time, of shape (n,) or (n_candidates, n), NaN where a candidate was not scored;
    ``horizon`` as for :func:`slow_autocorrelation_time`; ``safety`` is a factor of at
    least 1 between the estimate and what is declared.
    """
    safety = check_real("safety", safety, low=1.0)
    array = np.asarray(scores, dtype=float)
    rows = array[None] if array.ndim == 1 else array
    if rows.ndim != 2 or not rows.size:
        raise ValueError(
            "scores must be a series or an array of shape (n_candidates, n), got shape "
            f"{array.shape}."
        )
    kept = [row[~np.isnan(row)] for row in rows]
    kept = [row for row in kept if len(row) >= FEWEST]
    if not kept:
        raise ValueError(
            f"scores must hold at least {FEWEST} records of some candidate, got "
            f"{int((~np.isnan(rows)).sum(axis=1).max())}."
        )
    time = max(slow_autocorrelation_time(row, horizon=horizon) for row in kept)
    return Strength(time, min(map(len, kept)), len(kept), safety)


def two_states(time: float) -> np.ndarray:
    """Return the symmetric two-state transition matrix with this autocorrelation time (G11)."""
    time = check_real("autocorrelation time", time, low=1.0)
    stay = (1.0 + (time - 1.0) / (time + 1.0)) / 2.0
    return np.array([[stay, 1.0 - stay], [1.0 - stay, stay]])


def rounded_up(time: float, digits: int = 3) -> float:
    """Return a number rounded up to some digits, so that a printed value suffices."""
    scale = 10.0 ** (math.floor(math.log10(time)) - digits + 1)
    return math.ceil(time / scale - 1e-9) * scale
