"""Does a chain visibly misfit? Pure functions; the search warns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_probability
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._neighbors import check_neighbors
from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation._strength import least_autocorrelation_time, slow_autocorrelation_time

LEAST_LEVEL = 0.005  # of a comparison with 199 simulated networks
SHORTEST = 160  # scores that slow swings need for their limits to hold


@dataclass(frozen=True)
class MisfitReport:
    """What the training set shows about a correlation model.

    Parameters
    ----------
    misfit : bool
        Whether some check failed.
    message : str
        One sentence per failed check; empty when none failed.
    promised_time : float or None
        Records per effective record that the model guarantees.
    autocorrelation_time : float or None
        Records per effective record that the scores show.
    autocorrelation_error : float or None
        Standard error of the latter.
    """

    misfit: bool
    message: str
    promised_time: float | None = None
    autocorrelation_time: float | None = None
    autocorrelation_error: float | None = None


def autocorrelation(scores):
    """Return the autocorrelation of scores in time at lags ``0, 1, …, n - 1``.

    1 at lag 0; zeros beyond when the series is constant.
    """
    series = check_array("scores", scores, shape=(None,))
    n = len(series)
    if n < 2:
        raise ValueError(f"scores must hold at least two records, got {n}.")
    centred = series - series.mean()
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    covariance = np.fft.irfft(spectrum, size)[:n]
    if not covariance[0] > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2 * n:
        return np.r_[1.0, np.zeros(n - 1)]
    return covariance / covariance[0]


def integrated_autocorrelation(scores: ArrayLike) -> float:
    """Return the integrated autocorrelation time of a series: the records that count as one.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time.

    Returns
    -------
    float
        ``1 + 2 * sum of autocorrelations``, at least ``1 / n``; 1 for independent records.

    See Also
    --------
    slow_autocorrelation_time : The same by slow swings.

    Notes
    -----
    The sum stops where neighboring pairs of autocorrelations stop being positive and decreasing
    (initial monotone sequence, Geyer 1992, Section 3.3).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import integrated_autocorrelation
    >>> rng = np.random.default_rng(0)
    >>> bool(integrated_autocorrelation(np.repeat(rng.random(4000), 5)) > 4)
    True
    """
    return _integrated(scores)[0]


def _integrated(scores):
    """Return the integrated time and the number of lags it sums."""
    rho = autocorrelation(scores)
    even = len(rho) // 2 * 2
    pairs = rho[:even].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    pairs = np.minimum.accumulate(pairs[:stop]) if stop else np.zeros(0)
    return max(1.0 / len(rho), 2.0 * float(pairs.sum()) - 1.0), max(1, 2 * stop)


def check_misfit(
    model: CorrelationModel,
    *,
    scores: ArrayLike,
    level: float = 0.001,
) -> MisfitReport:
    """Compare a correlation model with what the training set shows.

    Parameters
    ----------
    model : CorrelationModel
        The declared model.
    scores : array-like of shape (n,)
        Per-record scores of the training set in time, for example cross-validation errors.
    level : float, default=0.001
        Each check fails at this significance.

    Returns
    -------
    MisfitReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    MisfitReport : What it returns.
    check_independence : The test without a declared chain.

    Notes
    -----
    The integrated autocorrelation of *any* per-record score is at most what the model guarantees,
    so a time that is larger by more than its error shows too little dependence in the model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import Independent, check_misfit
    >>> scores = np.repeat(np.random.default_rng(0).random(300), 10)
    >>> print(check_misfit(Independent(), scores=scores).message)
    by the model 1 record in 1.0 counts, by the scores 1 in 9.0 ± 1.1: declare more
    dependence, or set correlation='time', which assumes nothing about it
    """
    level = check_probability("level", level)
    if isinstance(model, NetworkModel):  # the order of rows means nothing
        found = check_neighbors(model, scores, level=max(level, LEAST_LEVEL))
        return MisfitReport(found.misfit, found.message)
    time, lags = _integrated(scores)
    n, message = len(np.asarray(scores)), ""
    promised = _promised_time(model, n)
    # Standard error of a windowed sum: Madras and Sokal 1988, (2.19).
    error = time * math.sqrt(2.0 * (2.0 * lags + 1.0) / n)
    if time - 3.0 * error > promised:
        message = _more_dependence(promised, f"{time:.1f} ± {error:.1f}")
    elif n >= SHORTEST and least_autocorrelation_time(np.asarray(scores), level) > promised:
        time = slow_autocorrelation_time(scores)  # hidden regimes, which windows miss
        message = _more_dependence(promised, f"{time:.1f} by their slow swings")
    return MisfitReport(bool(message), message, promised, time, error)


def _more_dependence(promised, shown):
    """Return the warning together with what fixes it."""
    return (
        f"by the model 1 record in {promised:.1f} counts, by the scores 1 in {shown}: declare more "
        "dependence, or set correlation='time', which assumes nothing about it"
    )


def _promised_time(model, n):
    """Return ``n / effective_n``, of a long stretch when the model allows any length."""
    model = getattr(model, "chain", model)  # of the dates of a panel, whose means are the scores
    n = model.n_records if model.n_records is not None else max(n, 100_000)
    return n / model.effective_n(n)
