"""Records in time of which nothing is assumed: each date is judged given its past (theory G26).

Then dates of records: what certainly is one, how they are ordered, and how far apart they lie.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import CorrelationModel, Folds, Split, check_indices
from sklearn_bdp.correlation.chain import block_folds, tail_split
from sklearn_bdp.utils.validation import check_integer

# A day, with or without a time, or a month; '20150101' could as well be a number or a year.
_ISO = (
    re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?|NaT"),
    re.compile(r"\d{4}-\d\d|NaT"),
)
_NAMED = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 7 * 86_400))


class TimeOrdered(CorrelationModel):
    """Records in time, each date judged by what was known before it (theory G26).

    Made by ``correlation="time"``. Nothing is assumed about dependence, drift or seasons. Intervals
    refer to the expected score over the holdout's own dates, not to a long run: for that, declare
    a :class:`MarkovChain`.

    Parameters
    ----------
    times : array-like of shape (n,), optional
        Date of every record: dates, periods, numbers or ISO text, in any order. Records of one date
        may depend on each other in any way, and dates weigh equally (theory G24): the score is that
        of a random record of a random date. By default each record is a date, in the order of rows.
    horizon : int, default=1
        Dates from the last record that a forecaster has to the date its score is known. If it is
        more than 1, so many dates are left out before the holdout: their labels may become known
        after the first forecast.
    step : str, default="date"
        What one step in time is called in certificates, as ``"day"``.

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
    (:func:`~sklearn_bdp.intervals.past_lower_limit`). Undeclared dependence bounds no leakage, so
    that levels of Bayesian differential privacy raise ``ValueError``.

    Examples
    --------
    >>> from sklearn_bdp.correlation import TimeOrdered
    >>> TimeOrdered(horizon=7).split(1000, 0.25).gap
    7
    >>> panel = TimeOrdered(list(range(100)) * 50)  # a hundred days of fifty shops, shop by shop
    >>> panel.units(5000), round(panel.effective_n(5000), 6)
    ((100, 'dates'), 100.0)
    """

    is_sequential = True
    is_time_ordered = True
    target = "later records of the same process"

    def __init__(
        self, times: ArrayLike | None = None, *, horizon: int = 1, step: str = "date"
    ) -> None:
        self.horizon = check_integer("horizon", horizon, low=1)
        self.step, self._dated = str(step), times is not None
        self.caveats = (
            "no training record, and no feature, carries a label that became known on or after "
            "the first holdout date",
        )
        if times is not None:
            self.dates_, self.codes_ = np.unique(date_numbers(times), return_inverse=True)
            self.counts_, self.n_records = np.bincount(self.codes_), len(self.codes_)
            if np.ptp(self.counts_):
                self._record_weights = 1.0 / (len(self.counts_) * self.counts_[self.codes_])
                weighted = "scores are those of a random record of a random date."
                self.caveats += ("Dates weigh equally: " + weighted,)
        self._freeze(self.horizon, self.step, *([self.codes_] if self._dated else []))

    def __repr__(self) -> str:
        of = f"<{self.describe().partition(',')[0]}>, " if self._dated else ""
        return f"TimeOrdered({of}horizon={self.horizon}, step={self.step!r})"

    def units(self, n: int) -> tuple[int, str]:
        n = self.check_n(n)
        return (len(self.counts_) if self._dated else n), "dates"

    def describe(self) -> str:
        said = "each date is judged given its past, nothing is assumed about dependence"
        if not self._dated:
            return said
        return f"panel of {len(self.codes_)} records on {len(self.dates_)} dates, {said}"

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
        if not self._dated:
            return series
        known, size = ~np.isnan(series), len(self.counts_)
        counts = np.bincount(self.codes_[known], minlength=size)
        sums = np.bincount(self.codes_[known], weights=series[known], minlength=size)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def _calibration(self) -> NoReturn:
        raise ValueError(
            "no level of privacy can be stated under correlation='time'. Declare a chain: a "
            "transition matrix, MarkovChain.from_scores or MarkovChain.from_autocorrelation_time."
        )

    def _spread(self, n, statistical):
        # Azuma 1967, Hoeffding 1963: means of scores, minus their means given the past, concentrate
        # as if independent; a query that one record moves later could be moved by all of them.
        return n * n / self.units(n)[0] if statistical else np.inf

    # -- cutting: whole dates, gaps counted in dates ----------------------------------------------

    def gap_for(self, failure: float) -> int:
        return self.horizon if self.horizon > 1 else 0

    def _rows(self, dates):
        """Return the records of some dates."""
        return np.flatnonzero(np.isin(self.codes_, dates)) if self._dated else dates

    def gaps(self, train: Array, holdout: Array) -> tuple[int | None, int | None]:
        if not self._dated:
            return super().gaps(train, holdout)
        return super().gaps(np.unique(self.codes_[train]), np.unique(self.codes_[holdout]))

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        cut = tail_split(self.units(n)[0], holdout, self.gap_for(0.5))
        return Split(self._rows(cut.train), self._rows(cut.holdout), cut.gap)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        # Half of the first block at most: cross-validation carries no promise.
        dates = self.units(n)[0]
        gap = min(self.gap_for(0.5), dates // (2 * n_splits + 2))
        folds = block_folds(dates, n_splits, gap, forward=True)
        return [(self._rows(train), self._rows(test)) for train, test in folds]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        places = check_indices(indices, self.n_records)
        if not self._dated:
            if not (np.diff(places) > 0).all():
                raise ValueError(f"indices must be ascending in time, got {places[:5]}…")
            return self
        codes = self.codes_[places]
        kept = np.bincount(codes, minlength=len(self.counts_))
        dates = np.flatnonzero(kept)
        if (kept[dates] < self.counts_[dates]).any() or (np.diff(dates) > 1).any():
            raise ValueError(
                "rows of one date must stay together, and no date may be left out: cut by date, as "
                "holdout=0.25 does."
            )
        return TimeOrdered(self.dates_[codes], horizon=self.horizon, step=self.step)


def date_numbers(times: Any, name: str = "times") -> Array:
    """Return dates as values that sort as the dates do, one for each record.

    Dates and periods of any container become ``datetime64[ns]`` (in UTC if they have a zone),
    numbers stay numbers. Text is taken if all of it is an ISO day or month.
    """
    held = getattr(times, "array", times)  # of a pandas series or index
    if hasattr(held, "asi8"):
        held = held.to_timestamp() if hasattr(held, "to_timestamp") else held
        values = np.asarray(held.asi8).view(f"M8[{held.unit}]").astype("M8[ns]")
    else:
        values = np.asarray(held if isinstance(held, np.ndarray) else list(held))
        if values.dtype.kind in "OUS":
            values = _certain(values, name)
    if values.dtype.kind not in "iufM":
        raise ValueError(f"{name} must be dates or numbers, got {values.dtype}.")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must hold one date per record, got shape {values.shape}.")
    missing = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float))
    if missing.any():
        raise ValueError(
            f"{name} must hold a date for every record, {int(missing.sum())} are missing (NaT)."
        )
    return values.astype("M8[ns]") if values.dtype.kind == "M" else values


def _certain(values, name):
    """Return text and objects as dates, if each certainly is one."""
    listed = [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]
    present = [v for v in listed if v is not None and v == v]
    if present and all(isinstance(v, datetime.date | np.datetime64) for v in present):

        def in_utc(v):
            if v is None or v != v:
                return np.datetime64("NaT")
            return v.astimezone(datetime.UTC).replace(tzinfo=None) if getattr(v, "tzinfo", 0) else v

        return np.array([in_utc(v) for v in listed], dtype="M8[ns]").reshape(values.shape)
    texts = all(isinstance(v, str) for v in listed)
    if texts and any(all(map(form.fullmatch, listed)) for form in _ISO):
        return np.array(listed, dtype="M8[ns]").reshape(values.shape)
    shown = next((v for v in present if not _is_iso(v)), listed[0])
    raise ValueError(
        f"{name} must be dates, numbers or ISO text such as '2026-01-31', got {shown!r}: pass "
        f"{name}=pd.to_datetime(…), with format= where needed."
    )


def _is_iso(value):
    return isinstance(value, str) and any(form.fullmatch(value) for form in _ISO)


def is_dates(index: Any) -> bool:
    """Return whether an index of a frame, or a level of it, certainly holds dates or periods."""
    kind = str(getattr(index, "dtype", ""))
    return kind.startswith(("datetime64", "period")) or (
        kind == "object" and len(index) > 0 and all(isinstance(v, datetime.date) for v in index)
    )


def index_dates(X: Any, name: str = "X") -> Any:
    """Return the dates in the index of a frame of records in time, or None where it has none.

    An index that may be dates, or that several series share without certain dates, is refused:
    rows would be taken as one series.
    """
    index: Any = getattr(X, "index", None)
    anew = f"{name}.reset_index(drop=True) if its rows are one series in time order"
    if hasattr(index, "levels"):
        levels = [k for k, level in enumerate(index.levels) if is_dates(level)]
        if len(levels) == 1:
            return index.get_level_values(levels[0])
        count = "no level" if not levels else f"{len(levels)} levels"
        raise ValueError(
            f"{name} has a MultiIndex of which {count} certainly holds dates: pass times=, one "
            f"date per record, as pd.to_datetime({name}.index.get_level_values(…)), or {anew}."
        )
    if is_dates(index):
        return index
    texts = list(index) if getattr(index, "dtype", None) is not None else []
    if texts and all(isinstance(v, str) and (_is_iso(v) or v.isdigit()) for v in texts):
        raise ValueError(
            f"{name} has an index of text, such as {texts[0]!r}, which may be dates. Set "
            f"{name}.index = pd.to_datetime({name}.index), or use {anew}."
        )
    return None


def horizon_in_dates(horizon: Any, dates: Array | None) -> int:
    """Return a horizon as a number of dates: of a span of time, the most dates in it.

    ``dates``: those of the records, without any order; needed for a span only.
    """
    if not isinstance(horizon, datetime.timedelta | np.timedelta64):
        return check_integer("horizon", horizon, low=0)
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"horizon must be a number for records without dates, got {horizon!r}: pass times=."
        )
    span = np.timedelta64(horizon).astype("m8[ns]")
    if not span >= np.timedelta64(0, "ns"):
        raise ValueError(f"horizon must be a span of time of at least 0, got {horizon!r}.")
    known = np.unique(dates)
    return int((np.arange(len(known)) - np.searchsorted(known, known - span)).max())


def step_of(dates: Array) -> str:
    """Return what one step in time is called: ``"day"`` … ``"month"``, else ``"date"``."""
    if dates.dtype.kind != "M" or dates.min() == dates.max():
        return "date"
    step = float(np.median(np.diff(np.unique(dates)) / np.timedelta64(1, "s")))
    named = [name for name, seconds in _NAMED if abs(step - seconds) < 1e-6 * seconds]
    return named[0] if named else "month" if 28 <= step / 86_400 <= 31 else "date"


def gaps_in_words(dates: Array) -> str:
    """Return a sentence on dates that are missing from a regular calendar, or nothing."""
    if dates.dtype.kind != "M":
        return ""
    steps = np.diff(np.unique(dates)) / np.timedelta64(1, "D")
    usual = float(np.median(steps)) if len(steps) else 0.0
    longer = steps[steps > 1.5 * usual]
    if not len(longer):
        return ""
    return (
        f"Dates without records are left out, not filled in: {len(longer)} of {len(steps)} steps "
        f"are longer than the usual {usual:.3g} days, the longest {longer.max():.4g} days"
    )
