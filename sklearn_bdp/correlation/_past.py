"""Records in time of which nothing is assumed: each is judged given its past (theory G26)."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_integer
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._cutting import check_indices, forward_folds, tail_split


class GivenPast(CorrelationModel):
    """Records in time order, each judged by what was known before it (theory G26).

    Made by ``correlation="time"``. Nothing is assumed about dependence, drift or seasons. Intervals
    refer to the expected score over the holdout's own dates, not to a long run: for that, declare
    a :class:`MarkovChain`.

    Parameters
    ----------
    horizon : int, default=1
        Dates from the last record that a forecaster has to the date its score is known. If it is
        more than 1, so many dates are left out before the holdout: their labels may become known
        after the first forecast.
    step : str, default="date"
        What one step in time is called in certificates, as ``"day"``.

    See Also
    --------
    Panel : Several records per date.
    MarkovChain : The expected score in the long run, for a declared strength of dependence.

    Notes
    -----
    :meth:`log_tail` and :meth:`mean_lower_limit` are the bound of Azuma and Hoeffding, which holds
    for any queries. Searches use sharper limits at stakes that are fixed in advance
    (:func:`~sklearn_bdp.accounting.past_lower_limit`). Undeclared dependence bounds no leakage, so
    that levels of Bayesian differential privacy raise ``ValueError``.

    Examples
    --------
    >>> from sklearn_bdp.correlation import GivenPast
    >>> GivenPast(horizon=7).split(1000, 0.25).gap
    7
    """

    is_sequential = True
    is_given_past = True

    def __init__(self, *, horizon: int = 1, step: str = "date") -> None:
        self.horizon = check_integer("horizon", horizon, low=1)
        self.step = str(step)
        self._freeze()

    def __repr__(self) -> str:
        return f"GivenPast(horizon={self.horizon}, step={self.step!r})"

    def _content(self):
        return (self.horizon, self.step)

    def describe(self) -> str:
        return "each date is judged given its past, nothing is assumed about dependence"

    @property
    def caveats(self) -> tuple[str, ...]:
        return (
            "no training record, and no feature, carries a label that became known on or after "
            "the first holdout date",
        )

    def units(self, n: int) -> tuple[int, str]:
        return self.check_n(n), "dates"

    def _calibration(self) -> NoReturn:
        raise ValueError(
            "no level of privacy can be stated without declared dependence (correlation='time' "
            "assumes nothing). Declare a chain: a transition matrix, MarkovChain.from_scores or "
            "MarkovChain.from_autocorrelation_time."
        )

    def _spread(self, n, statistical):
        # Azuma 1967, Hoeffding 1963: means of scores, minus their means given the past, concentrate
        # as if independent; a query that one record moves later could be moved by all of them.
        return n if statistical else np.inf

    def gap_for(self, failure: float) -> int:
        return self.horizon if self.horizon > 1 else 0

    def _split(self, n, holdout, random_state):
        return tail_split(n, holdout, self.gap_for(0.5))

    def _folds(self, n, n_splits, random_state):
        # Half of the first block at most: cross-validation carries no promise.
        return forward_folds(n, n_splits, min(self.gap_for(0.5), n // (2 * n_splits + 2)))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        places = check_indices(indices, None)
        if not (np.diff(places) > 0).all():
            raise ValueError(f"indices must be ascending for records in time, got {places[:5]}…")
        return self
