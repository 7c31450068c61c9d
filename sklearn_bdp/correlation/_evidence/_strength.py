"""How slowly scores forget: long batch means of training-side scores (theory G11)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from sklearn_bdp._checks import check_array, check_probability, check_real

#: Batches per stretch of scores. Several lengths, of which the largest estimate counts: short
#: batches miss slow dependence, long ones are few.
BATCHES = (30, 15, 8)

#: What an estimate is multiplied with (theory G11): how far ten long batches fall short.
SAFETY = 1.5

#: Scores per autocorrelation time below which the estimate itself falls short.
ENOUGH = 100


@dataclass(frozen=True)
class Strength:
    """How slowly scores forget, as the training side shows it.

    Parameters
    ----------
    time : float
        Autocorrelation time: records that count as one, the largest over the candidates.
    n_scores : int
        Scores of each candidate it was read off.
    n_candidates : int
        Number of candidates.
    safety : float
        Stated factor between ``time`` and what is declared.
    confidence : float or None
        Level of the upper limit that ``time`` is, or None for a plain estimate.
    """

    time: float
    n_scores: int
    n_candidates: int
    safety: float = SAFETY
    confidence: float | None = None

    @property
    def declared(self) -> float:
        """Autocorrelation time to declare: the estimate times the safety factor."""
        return max(1.0, self.safety * self.time)

    @property
    def is_short(self) -> bool:
        """Whether the scores are too few to see as slow a dependence as they show."""
        return self.n_scores < ENOUGH * self.time


def batch_autocorrelation_time(scores, *, confidence: float | None = None) -> float:
    """Return the autocorrelation time of a series by long overlapping batch means.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time, at least 16 of them.
    confidence : float, optional
        Return an upper limit at this level instead of an estimate: the limit of a chi-squared
        variance estimate with the degrees of freedom of the longest batches.

    Returns
    -------
    float
        ``1 + 2 * sum of autocorrelations``, at least 1; 1 for a constant series.

    Notes
    -----
    The largest of the estimates with 30, 15 and 8 batches. A windowed sum of autocorrelations
    stops where they drown in noise and misses hidden regimes altogether (it reads 1.3 for 11.6);
    batch means see whatever is shorter than a batch.

    References
    ----------
    Theory G11; Meketon and Schmeiser 1984 (overlapping batch means, 1.5 degrees of freedom for
    every batch).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import batch_autocorrelation_time
    >>> rng = np.random.default_rng(0)
    >>> bool(3 < batch_autocorrelation_time(np.repeat(rng.random(9000), 5)) < 8)
    True
    """
    series = check_array("scores", scores, ndim=1)
    n = len(series)
    if not n >= 2 * min(BATCHES):
        raise ValueError(f"scores must hold at least {2 * min(BATCHES)} records, got {n}.")
    factors = np.ones(len(BATCHES))
    times, freedom = _batch_times(series)
    if confidence is not None:
        confidence = check_probability("confidence", confidence)
        factors = freedom / chi2.ppf(1.0 - confidence, freedom)
    return max(1.0, float((times * factors).max()))


def least_autocorrelation_time(series, level: float) -> float:
    """Return a lower limit of the autocorrelation time that fails with probability ``level``."""
    times, freedom = _batch_times(series)
    return float((times * freedom / chi2.isf(level / len(BATCHES), freedom)).max())


def _batch_times(series):
    """Return the estimates with each number of batches, and their degrees of freedom."""
    n = len(series)
    centred = series - series.mean()
    variance = float(np.mean(centred**2))
    lengths = np.array([max(1, n // count) for count in BATCHES])
    freedom = 1.5 * n / lengths
    if not variance > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2:
        return np.zeros(len(BATCHES)), freedom
    total = np.r_[0.0, np.cumsum(centred)]
    squares = [float(np.mean((total[k:] - total[:-k]) ** 2)) for k in lengths]
    # The mean of all is known from the same scores, which takes length / n of the variance.
    return np.array(squares) / (lengths * variance * (1.0 - lengths / n)), freedom


def score_strength(scores, *, confidence: float | None = None, safety: float = SAFETY) -> Strength:
    """Return how slowly the scores of one or several candidates forget.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n_candidates, n)
        Per-record training-side scores in time; NaN where a candidate was not scored.
    confidence : float, optional
        As for :func:`batch_autocorrelation_time`.
    safety : float, default=1.5
        Factor of at least 1 between the estimate and what is declared.

    Returns
    -------
    Strength
        The largest over the candidates.

    Raises
    ------
    ValueError
        If there is no candidate with enough scores.
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
    kept = [row for row in kept if len(row) >= 2 * min(BATCHES)]
    if not kept:
        raise ValueError(
            f"scores must hold at least {2 * min(BATCHES)} records of some candidate, got "
            f"{int((~np.isnan(rows)).sum(axis=1).max())}."
        )
    time = max(batch_autocorrelation_time(row, confidence=confidence) for row in kept)
    return Strength(time, min(map(len, kept)), len(kept), safety, confidence)


def contraction_of(time: float) -> float:
    """Return the contraction whose chain has this autocorrelation time (theory G11)."""
    time = check_real("autocorrelation time", time, low=1.0)
    return (time - 1.0) / (time + 1.0)


def two_states(time: float) -> np.ndarray:
    """Return the symmetric two-state transition matrix with this autocorrelation time."""
    stay = (1.0 + contraction_of(time)) / 2.0
    return np.array([[stay, 1.0 - stay], [1.0 - stay, stay]])


def rounded_up(time: float, digits: int = 3) -> float:
    """Return a number rounded up to some digits, so that a printed value suffices."""
    scale = 10.0 ** (math.floor(math.log10(time)) - digits + 1)
    return math.ceil(time / scale - 1e-9) * scale
