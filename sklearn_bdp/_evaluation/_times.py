"""Dates of the records: given as ``times=``, or read from the index of a frame (theory G24)."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._checks import check_integer
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.correlation import CorrelationModel, Panel, date_numbers
from sklearn_bdp.guards import is_dates


@dataclass(frozen=True)
class Times:
    """Dates of the records as numbers: those given to ``fit``, then those of ``X_val``."""

    values: np.ndarray
    n: int  # records given to fit
    horizon: int  # dates until a label is known

    @property
    def codes(self):
        """Number of each date of the records given to fit, in time order."""
        return np.unique(self.values[: self.n], return_inverse=True)[1]

    def panel(self, chain, *, held=False):
        """Return the panel of the records given to fit, or of the validation records."""
        part = self.values[self.n :] if held else self.values[: self.n]
        return Panel(part, chain, horizon=self.horizon)


def check_times(estimator, X, *, X_val, correlation, times, horizon):
    """Return the :class:`Times` of the records, or None where rows are one series in order."""
    model = isinstance(correlation, CorrelationModel) and correlation.is_sequential
    in_time = model or (isinstance(correlation, str) and correlation == "time")
    horizon = check_integer("horizon", horizon, low=0)
    if times is not None and has_fit_parameter(estimator, "times"):
        raise ValueError(
            f"times= is a parameter of {type(estimator).__name__}.fit and of the search. Put dates "
            "into the index of X (a DatetimeIndex or a date level of a MultiIndex) instead."
        )
    if not in_time:
        if times is not None or horizon:
            raise ValueError(
                "times= and horizon= need records in time, got "
                f"correlation={correlation!r}. Set correlation='time'."
            )
        return None
    n = num_samples(X)
    both = [X] if X_val is None else [X, X_val]
    if times is None:
        found = [_of_index(part) for part in both]
        if any(part is None for part in found):
            if not horizon:
                return None
            found = np.split(np.arange(sum(map(num_samples, both))), [n])[: len(both)]
        values = np.concatenate([date_numbers(part) for part in found])
    else:
        values = date_numbers(times)
    total = sum(map(num_samples, both))
    if len(values) != total:
        of = "X" if X_val is None else "X followed by X_val"
        raise ValueError(
            f"times must hold one date per record of {of}, {total}, got {len(values)}."
        )
    if X_val is not None and values[n:].min() <= values[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{values[:n].max()} and X_val from {values[n:].min()}."
        )
    return Times(values, n, horizon)


def _of_index(X):
    """Return the dates of an index where several rows share one, or None."""
    index = getattr(X, "index", None)
    if hasattr(index, "levels"):
        levels = [k for k, level in enumerate(index.levels) if is_dates(level)]
        return index.get_level_values(levels[0]) if len(levels) == 1 else None
    return index if is_dates(index) and index.has_duplicates else None
