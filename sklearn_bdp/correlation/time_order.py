"""Records in time without assumed dependence: each date is judged given its past (theory G26)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import CorrelationModel, Folds, Split, check_indices
from sklearn_bdp.correlation.chain import block_folds, tail_split
from sklearn_bdp.correlation.cutting import gaps_to_training, required_gap
from sklearn_bdp.correlation.dates import date_numbers, horizon_in_dates
from sklearn_bdp.correlation.scheme import Calendar, ConcentrationBound, SamplingScheme


class TimeOrdered(CorrelationModel):
    """Records in time, each date judged by the data known before it (theory G26).

    Made by ``correlation="time"``. Nothing is assumed about dependence, drift or seasons. Intervals
    refer to the expected score over the holdout's own dates, not to a long run: for that, declare
    a :class:`MarkovChain`.

    Parameters
    ----------
    times : array-like of shape (n,), optional
        Date of every record: dates, periods, numbers or ISO text, in any order. Records of one date
        may depend on each other in any way, and dates weigh equally (theory G24): the score is that
        of a random record of a random date. By default each record is a date, in the order of rows.
    horizon : int or span of time, default=1
        Dates from the last record that a forecaster has to the date its score is known. If it is
        more than 1, so many dates are left out before the holdout: their labels may become known
        after the first forecast. With ``times``, also a span such as ``"7D"``, a ``Timedelta`` or
        an offset of pandas: the most dates in such a span.
    step : str, default="date"
        Name of one time step in certificates, such as ``"day"``.

    Attributes
    ----------
    dates_ : ndarray
        The dates, ascending; like the others only with ``times``.
    codes_ : ndarray of int, shape (n,)
        Number of each record's date, in time order.
    counts_ : ndarray of int, shape (n_dates,)
        Records of each date.

    Raises
    ------
    ValueError
        If a date is missing or has no order.

    See Also
    --------
    MarkovChain : The expected score in the long run, for a declared strength of dependence.

    Notes
    -----
    :meth:`log_tail` and :meth:`mean_lower_limit` are the bound of Azuma and Hoeffding, which holds
    for any queries. Searches use sharper limits at stakes that are fixed in advance
    (:func:`~sklearn_bdp.intervals.bounds.martingale_lower_limit`). Undeclared dependence bounds no
    leakage, so that levels of Bayesian differential privacy raise ``ValueError``.

    Examples
    --------
    >>> from sklearn_bdp.correlation import TimeOrdered
    >>> TimeOrdered(horizon=7).split(1000, 0.25).gap
    7
    >>> panel = TimeOrdered(list(range(100)) * 50)  # a hundred days of fifty shops, shop by shop
    >>> panel.sampling_scheme(5000).n_units, round(panel.effective_n(5000), 6)
    (100, 100.0)
    """

    fingerprint_name = "TimeOrdered"
    _weights: Array | None = None  # of records, if dates have different numbers of them

    def __init__(
        self, times: ArrayLike | None = None, *, horizon: Any = 1, step: str = "date"
    ) -> None:
        dates = None if times is None else date_numbers(times)
        self.horizon = horizon_in_dates(horizon, dates)
        self.step = str(step)
        self._dated = times is not None
        self.caveats = (
            "no training record, and no feature, carries a label that became known on or after "
            "the first holdout date",
        )
        if dates is not None:
            self.dates_, self.codes_ = np.unique(dates, return_inverse=True)
            self.counts_ = np.bincount(self.codes_)
            self.n_records = len(self.codes_)
            if np.ptp(self.counts_):
                self._weights = 1.0 / (len(self.counts_) * self.counts_[self.codes_])
                weighted = "scores are those of a random record of a random date."
                self.caveats += ("Dates weigh equally: " + weighted,)
        self._freeze(self.horizon, self.step, *([self.codes_] if self._dated else []))

    def __repr__(self) -> str:
        of = f"<{self.describe().partition(',')[0]}>, " if self._dated else ""
        return f"TimeOrdered({of}horizon={self.horizon}, step={self.step!r})"

    def _n_dates(self, n):
        """Return the number of dates of ``n`` records."""
        n = self.check_n(n)
        return len(self.counts_) if self._dated else n

    def sampling_scheme(self, n: int) -> SamplingScheme:
        return SamplingScheme(
            n_records=self.check_n(n),
            n_units=self._n_dates(n),
            unit_name="dates",
            bound=ConcentrationBound.MARTINGALE,
            target="later records of the same process",
            exchangeable=False,
            weights=self._weights,
            block_codes=self.codes_ if self._dated else None,
            calendar=Calendar(self.horizon, self.step, self.dates_ if self._dated else None),
            in_time_order=True,
        )

    def describe(self) -> str:
        assumption = "each date is judged given its past, nothing is assumed about dependence"
        if not self._dated:
            return assumption
        return f"panel of {len(self.codes_)} records on {len(self.dates_)} dates, {assumption}"

    def _variance_proxy(self, n, is_mean):
        # Azuma 1967, Hoeffding 1963: means of scores, minus their means given the past, concentrate
        # as if independent; a query that one record moves later could be moved by all of them.
        return n * n / self._n_dates(n) if is_mean else np.inf

    # -- cutting: whole dates, gaps counted in dates ----------------------------------------------

    @property
    def _gap(self):
        """Dates to drop before a holdout: their labels may become known after a forecast."""
        return self.horizon if self.horizon > 1 else 0

    def _rows(self, dates):
        """Return the records of some dates."""
        return np.flatnonzero(np.isin(self.codes_, dates)) if self._dated else dates

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        cut = tail_split(self._n_dates(n), holdout, self._gap)
        return Split(self._rows(cut.train), self._rows(cut.holdout), cut.gap)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        # Half of the first block at most: cross-validation needs no guarantee.
        n_dates = self._n_dates(n)
        gap = min(self._gap, n_dates // (2 * n_splits + 2))
        folds = block_folds(n_dates, n_splits, gap, forward=True)
        return [(self._rows(train), self._rows(test)) for train, test in folds]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self._dated:
            if not (np.diff(indices) > 0).all():
                raise ValueError(f"indices must be ascending in time, got {indices[:5]}…")
            return self
        codes = self.codes_[indices]
        counts = np.bincount(codes, minlength=len(self.counts_))
        dates = np.flatnonzero(counts)
        if (counts[dates] < self.counts_[dates]).any() or (np.diff(dates) > 1).any():
            raise ValueError(
                "rows of one date must stay together, and no date may be left out: cut by date, as "
                "holdout=0.25 does."
            )
        return TimeOrdered(self.dates_[codes], horizon=self.horizon, step=self.step)


@required_gap.register
def _horizon(model: TimeOrdered, failure: float) -> int:
    return model.horizon if model.horizon > 1 else 0


@gaps_to_training.register
def _gaps_in_dates(
    model: TimeOrdered, train: Array, holdout: Array
) -> tuple[int | None, int | None]:
    gaps_in_records = gaps_to_training.dispatch(object)
    codes = model.sampling_scheme(model.n_records or 1).block_codes
    if codes is None:
        return gaps_in_records(model, train, holdout)
    return gaps_in_records(model, np.unique(codes[train]), np.unique(codes[holdout]))
