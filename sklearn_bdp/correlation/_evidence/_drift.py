"""Does the recent past differ from the earlier one? Drift is no dependence: no interval pays it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike
from scipy.stats import t as student

from sklearn_bdp._checks import check_array, check_option, check_probability
from sklearn_bdp.correlation._evidence._strength import slow_swings


@dataclass(frozen=True)
class DriftReport:
    """How scores of the last part of the training side differ from those of the first.

    Parameters
    ----------
    drift : bool
        Whether they differ by more than dependent chance.
    message : str
        The finding in words; empty without drift.
    first, last : float
        Mean scores of the first and the last third.
    p : float
        p-value of "the thirds have one mean".
    """

    drift: bool
    message: str
    first: float
    last: float
    p: float


#: What drift means for records in time, and for rows that were declared independent.
_MEANING = {
    "time": (
        "the data drift, or later folds learned more. No interval covers a future unlike the "
        "past; keep the holdout recent and verify again on later records"
    ),
    "rows": (
        "the data drift with the order of the rows. A holdout that is drawn at random among all of "
        "them says how well models do on such a mixture of earlier and later rows, not on the "
        "rows to come. If the order is time, declare correlation='time', which holds out the "
        "latest; no interval covers a future unlike the past"
    ),
}


def check_drift(
    scores: ArrayLike,
    *,
    level: float = 0.001,
    names: str | None = None,
    order: Literal["time", "rows"] = "time",
) -> DriftReport:
    """Compare training-side scores of the first and the last third of the time.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record training-side scores in time, at least 48.
    level : float, default=0.001
        Significance at which a difference is called drift.
    names : str, optional
        What the scores are, for the message (``"accuracy"``).
    order : {"time", "rows"}, default="time"
        What the scores are in order of, for the message: ``"rows"`` where records were declared
        independent, with models that were fitted on rows drawn without regard to the order.

    Returns
    -------
    DriftReport
        The outcome; nothing is raised or warned here.

    Notes
    -----
    The standard error is that of means of dependent scores, with the autocorrelation time of the
    thirds themselves (a jump between them must not hide itself), and the distribution Student's,
    since those times are estimates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import check_drift
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(3000) < np.repeat([0.9, 0.8, 0.6], 1000)
    >>> print(check_drift(scores, names="accuracy").message[:72])
    accuracy on the training side moves from 0.904 in the first third of the
    """
    series = check_array("scores", scores, ndim=1)
    if not len(series) >= 48:
        raise ValueError(f"scores must hold at least 48 records, got {len(series)}.")
    level = check_probability("level", level)
    meaning = _MEANING[check_option("order", order, tuple(_MEANING))]
    third = len(series) // 3
    parts = series[:third], series[-third:]
    first, last = (float(part.mean()) for part in parts)
    swings = [slow_swings(part) for part in parts]
    variances = [
        max(1.0, float(s.mean())) * float(part.var()) / third
        for s, part in zip(swings, parts, strict=True)
    ]
    change, variance = abs(last - first), sum(variances)
    p = 1.0 if not change > 0 else 0.0
    if variance > 0:
        # Welch 1947: degrees of freedom of a sum of two estimated variances.
        freedom = variance**2 / sum(v**2 / len(s) for v, s in zip(variances, swings, strict=True))
        p = 2.0 * float(student.sf(change / math.sqrt(variance), freedom))
    message = ""
    if p < level:
        message = (
            f"{names or 'the score'} on the training side moves from {first:.3f} in the first "
            f"third of the {order} to {last:.3f} in the last (p = {p:.1g}): {meaning}"
        )
    return DriftReport(bool(message), message, first, last, p)
