"""Many series on common dates: the unit is the date (theory G24)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_integer
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._cutting import Split, check_indices, tail_split
from sklearn_bdp.correlation._dates import date_numbers


class Panel(CorrelationModel):
    r"""Records of many series on common dates, in any order of rows (theory G24).

    Records of one date may depend on each other in any way, and dates follow a chain or are judged
    given their past. Dates weigh equally: the score is that of a random record of a random date.

    Parameters
    ----------
    times : array-like of shape (n,)
        Date of every record: dates, periods, numbers or ISO text.
    chain : MarkovChain, GivenPast or list of chains
        How *dates* depend on each other; a date is one step.
    horizon : int, default=0
        Dates until the label of a date is known: as many are left out before the holdout.

    Attributes
    ----------
    dates_ : ndarray
        The dates, ascending.
    codes_ : ndarray of int, shape (n,)
        Number of each record's date, in time order.
    counts_ : ndarray of int, shape (n_dates,)
        Records of each date.

    Raises
    ------
    ValueError
        If a date is missing or has no order, or ``chain`` is tied to a number of records.

    See Also
    --------
    MarkovChain : One series.

    Examples
    --------
    >>> from sklearn_bdp.correlation import MarkovChain, Panel
    >>> days = MarkovChain.from_autocorrelation_time(5.0)
    >>> panel = Panel(list(range(100)) * 50, days)  # a hundred days of fifty shops, shop by shop
    >>> panel.units(5000), round(panel.effective_n(5000), 6)
    ((100, 'dates'), 20.0)
    """

    is_sequential = True

    def __init__(self, times: ArrayLike, chain: CorrelationModel, *, horizon: int = 0) -> None:
        if not chain.is_sequential or chain.n_records is not None:
            raise ValueError(
                "chain must describe how any number of dates follow each other, as "
                f"MarkovChain.from_autocorrelation_time(dates) does, got {chain!r}."
            )
        self.dates_, self.codes_ = np.unique(date_numbers(times), return_inverse=True)
        self.counts_ = np.bincount(self.codes_, minlength=len(self.dates_))
        self.chain, self.horizon = chain, check_integer("horizon", horizon, low=0)
        self.is_given_past = chain.is_given_past
        if np.ptp(self.counts_):
            self._record_weights = 1.0 / (len(self.dates_) * self.counts_[self.codes_])
        self._freeze()

    def __repr__(self) -> str:
        return f"Panel(<{len(self.codes_)} records on {len(self.counts_)} dates>, {self.chain!r})"

    def _content(self):
        return (self.codes_.astype(np.int64), self.chain.fingerprint(), self.horizon)

    @property
    def n_records(self) -> int:
        return len(self.codes_)

    def units(self, n: int) -> tuple[int, str]:
        self.check_n(n)
        return len(self.counts_), "dates"

    def describe(self) -> str:
        days = self.chain.describe().replace("record", "date")
        return f"panel of {self.n_records} records on {len(self.counts_)} dates, {days}"

    @property
    def caveats(self) -> tuple[str, ...]:
        kept = tuple(line.replace("record", "date") for line in self.chain.caveats)
        if self._record_weights is None:
            return kept
        return (*kept, "Dates weigh equally: scores are those of a random record of a random date.")

    @property
    def target(self) -> str:
        return "new dates"

    def unit_means(self, scores: ArrayLike) -> Array:
        """Return the mean score of each date.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Score of every record; NaN where none was scored.

        Returns
        -------
        ndarray of shape (n_dates,)
            In time order; NaN for dates without a score.
        """
        series = np.asarray(scores, dtype=float)
        known = ~np.isnan(series)
        size = len(self.counts_)
        counts = np.bincount(self.codes_[known], minlength=size)
        sums = np.bincount(self.codes_[known], weights=series[known], minlength=size)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    # -- concentration: means of dates are scores of the chain (Fan, Jiang, Sun 2021) -------------

    def _spread(self, n, statistical):
        dates = len(self.counts_)
        if statistical:
            return n * (n / self.chain.effective_n(dates))
        return float(self.counts_.max()) ** 2 * self.chain._spread(dates, False)

    def _lower_limit(self, values, levels, n, binary):
        return self.chain._lower_limit(values, levels, len(self.counts_), False)

    # -- cutting: whole dates, gaps counted in dates ----------------------------------------------

    def cut_failure(self, gap: int) -> float:
        return self.chain.cut_failure(gap)

    def gap_for(self, failure: float) -> int:
        return max(self.horizon, self.chain.gap_for(failure))

    def _rows(self, dates):
        return np.flatnonzero(np.isin(self.codes_, dates))

    def _split(self, n, holdout, random_state):
        cut = self.chain._split(len(self.counts_), holdout, random_state)
        if cut.gap < self.horizon:
            cut = tail_split(len(self.counts_), holdout, self.horizon)
        return Split(self._rows(cut.train), self._rows(cut.holdout), cut.gap)

    def _folds(self, n, n_splits, random_state):
        folds = self.chain._folds(len(self.counts_), n_splits, random_state)
        return [
            (self._rows(train[~self._near(train, test)]), self._rows(test)) for train, test in folds
        ]

    def _near(self, train, test):
        """Return which training dates have labels that reach into the test dates, or beyond."""
        return (train < test.min()) & (train + self.horizon >= test.min())

    def gaps(self, train: Array, holdout: Array) -> tuple[int | None, int | None]:
        return super().gaps(np.unique(self.codes_[train]), np.unique(self.codes_[holdout]))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        codes = self.codes_[indices]
        kept = np.bincount(codes, minlength=len(self.counts_))
        dates = np.flatnonzero(kept)
        if (kept[dates] < self.counts_[dates]).any() or (np.diff(dates) > 1).any():
            raise ValueError(
                "rows of one date must stay together, and dates without a hole: cut by date, as "
                "holdout=0.25 does."
            )
        return Panel(self.dates_[codes], self.chain, horizon=self.horizon)
