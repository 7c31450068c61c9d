"""Records in time without assumptions on dependence, with bounds given the past (theory G26)."""

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
    """Records in time, with bounds conditional on the past of each date (theory G26).

    ``correlation="time"`` declares this model. Nothing is assumed about dependence, drift or
    seasons. Intervals refer to the expected score over the holdout's own dates, not in the long
    run.

    Parameters
    ----------
    times : array-like of shape (n,), optional
        Date of each record, in any order: dates, periods, numbers or ISO text. Records of one date
        may depend on each other in any way. Dates have equal weight (theory G24): the score is the
        mean over dates of the mean score of their records. By default each record is a date, in row
        order.
    horizon : int or span of time, default=1
        Number of dates from the last record that a forecast may use to the date on which its score
        is known. If it is more than 1, this many dates are left out before the holdout, because
        their labels may become known after the first forecast. With ``times``, also a span such as
        ``"7D"``, a ``Timedelta`` or a pandas offset, which becomes the largest number of dates in
        this span before a date.
    step : str, default="date"
        Name of one time step in certificates, such as ``"day"``.

    Attributes
    ----------
    dates_ : ndarray
        The distinct dates, ascending. This and the other attributes exist only with ``times``.
    codes_ : ndarray of int, shape (n,)
        Position in ``dates_`` of the date of each record.
    counts_ : ndarray of int, shape (n_dates,)
        Number of records of each date.

    Raises
    ------
    TypeError
        If ``horizon`` is neither an integer nor a span of time.
    ValueError
        If ``times`` are not dates or numbers, or if one is missing or outside the range of
        ``datetime64[ns]``, such as 9999-12-31. Also if ``horizon`` is below 1,
        not a positive span, or a span of time without dates.

    See Also
    --------
    MarkovChain : The expected score in the long run, for a declared strength of dependence.

    Notes
    -----
    :meth:`log_tail` and :meth:`mean_lower_limit` use the bound of Azuma and Hoeffding, which is
    valid for all means of scores; for a given ``sensitivity``, there is no bound. Searches use
    sharper limits by betting
    (:func:`~sklearn_bdp.intervals.bounds.martingale_lower_limit`). Without declared dependence,
    leakage has no bound, so that :meth:`bdp_epsilon` and :meth:`dp_epsilon` raise ``ValueError``.

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
    # Weights of the records in a score; None if all dates have the same number of records.
    _weights: Array | None = None

    def __init__(
        self, times: ArrayLike | None = None, *, horizon: Any = 1, step: str = "date"
    ) -> None:
        dates = None if times is None else date_numbers(times)
        self.horizon = horizon_in_dates(horizon, dates)
        self.step = str(step)
        self._has_dates = times is not None
        self.caveats = (
            "no training record carries a label that became known on or after the first holdout "
            "date, and no feature a label that was unknown when its forecast was made",
        )
        if dates is not None:
            self.dates_, self.codes_ = np.unique(dates, return_inverse=True)
            self.counts_ = np.bincount(self.codes_)
            self.n_records = len(self.codes_)
            if np.ptp(self.counts_):
                self._weights = 1.0 / (len(self.counts_) * self.counts_[self.codes_])
                self.caveats += (
                    "Dates weigh equally: scores are those of a random record of a random date.",
                )
        self._freeze(self.horizon, self.step, *([self.codes_] if self._has_dates else []))

    def __repr__(self) -> str:
        summary = ""
        if self._has_dates:
            size, _, _ = self.describe().partition(",")  # numbers of records and dates
            summary = f"<{size}>, "
        return f"TimeOrdered({summary}horizon={self.horizon}, step={self.step!r})"

    def _n_dates(self, n):
        """Return the number of distinct dates of the ``n`` records."""
        n = self.check_n(n)
        return len(self.counts_) if self._has_dates else n

    def sampling_scheme(self, n: int) -> SamplingScheme:
        return SamplingScheme(
            n_records=self.check_n(n),
            n_units=self._n_dates(n),
            unit_name="dates",
            bound=ConcentrationBound.MARTINGALE,
            target="later records of the same process",
            exchangeable=False,
            weights=self._weights,
            block_codes=self.codes_ if self._has_dates else None,
            calendar=Calendar(self.horizon, self.step, self.dates_ if self._has_dates else None),
            in_time_order=True,
        )

    def describe(self) -> str:
        assumption = "each date is judged given its past, nothing is assumed about dependence"
        if not self._has_dates:
            return assumption
        return f"panel of {len(self.codes_)} records on {len(self.dates_)} dates, {assumption}"

    def _variance_proxy(self, n, is_mean):
        # Azuma 1967, Hoeffding 1963: means of scores, minus their means given the past, concentrate
        # as if independent; a query that one record moves later could be moved by all of them.
        return n * n / self._n_dates(n) if is_mean else np.inf

    # -- splits: whole dates, gaps counted in dates -----------------------------------------------

    @property
    def _gap(self):
        """Number of dates to drop before a holdout: the horizon if it is more than 1, else 0."""
        return self.horizon if self.horizon > 1 else 0

    def _records_of(self, date_codes):
        """Return the row numbers of all records of some dates, ascending.

        ``date_codes``: ascending positions of these dates among all dates. If each record is a
        date, they are the row numbers.
        """
        return np.flatnonzero(np.isin(self.codes_, date_codes)) if self._has_dates else date_codes

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        date_split = tail_split(self._n_dates(n), holdout, self._gap)
        train = self._records_of(date_split.train)
        return Split(train, self._records_of(date_split.holdout), date_split.gap)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        # The gap is at most half of the first block: cross-validation needs no guarantee.
        n_dates = self._n_dates(n)
        gap = min(self._gap, n_dates // (2 * n_splits + 2))
        date_folds = block_folds(n_dates, n_splits, gap, forward=True)
        return [(self._records_of(train), self._records_of(test)) for train, test in date_folds]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self._has_dates:
            if not (np.diff(indices) > 0).all():
                raise ValueError(f"indices must be ascending in time, got {indices[:5]}…")
            return self
        codes = self.codes_[indices]
        n_kept = np.bincount(codes, minlength=len(self.counts_))  # records per date
        date_codes = np.flatnonzero(n_kept)  # dates that have records
        has_partial_date = (n_kept[date_codes] < self.counts_[date_codes]).any()
        if has_partial_date or (np.diff(date_codes) > 1).any():
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
