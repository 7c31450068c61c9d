"""Records in time: their dates, and what describes how they depend (theory G24, G26)."""

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.correlation import (
    GivenPast,
    date_numbers,
    gaps_in_words,
    horizon_in_dates,
    index_dates,
    step_of,
)
from sklearn_bdp.guards import check_future, check_sorted
from sklearn_bdp.holdout import is_splitter

#: What nobody can check of validation records without dates.
LATER = "the validation records come after all training records, whose labels were known by then"


def correlation_in_time(owner, config, estimator, data, *, in_time):
    """Return the correlation of records in time, and what the certificate says of their dates.

    Dates and a horizon need records ``in_time``.
    """
    correlation, X, X_val = owner.correlation, data.X, data.X_val
    given = owner.holdout.model if config is None else None  # it describes all records
    if data.times is not None and has_fit_parameter(estimator, "times"):
        raise ValueError(
            f"times= is a parameter of {type(estimator).__name__}.fit and of the search. Put dates "
            "into the index of X (a DatetimeIndex or a date level of a MultiIndex) instead."
        )
    if not in_time:
        raise ValueError(
            "times= and horizon= need records in time, got "
            f"correlation={given if correlation is None else correlation!r}. Set "
            "correlation='time'."
        )
    times, horizon = _dates(data)
    known = times
    if times is None and (dates := index_dates(X)) is not None:
        known = date_numbers(dates, "X.index")
    if given is not None and given.is_given_past:
        _check_before(known, owner.holdout)
    if isinstance(correlation, str):
        if given is not None and not given.is_sequential:
            raise ValueError(
                "correlation='time' cannot change the holdout that was passed in, whose records "
                f"are declared as: {given.describe()}. Make the holdout by a search with "
                "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
            )
        if given is None and is_splitter(config.test_size):
            raise ValueError(
                "correlation='time' cuts the last records itself: give holdout a fraction, or "
                f"X_val and y_val, got holdout={owner.holdout!r}."
            )
        if times is None and X_val is not None:
            check_future(X, X_val)
        correlation = None
        if given is None:
            step = "date" if known is None else step_of(known)
            correlation = GivenPast(horizon=max(1, horizon), step=step)
    if times is not None:
        past = given if correlation is None else correlation
        if not getattr(past, "is_given_past", False):
            raise ValueError(
                "times=, horizon= and several records on one date need correlation='time'. A chain "
                "describes rows in time order, one record at each step, got "
                f"correlation={past!r}."
            )
        correlation = GivenPast(times, horizon=past.horizon, step=past.step)
    if known is not None:
        return correlation, gaps_in_words(known)
    return correlation, LATER if X_val is not None and isinstance(owner.correlation, str) else ""


def _dates(data):
    """Return dates of the records as numbers, those of ``X`` then of ``X_val``, and the horizon.

    No dates, and no horizon, where rows are one series in order.
    """
    n, times = num_samples(data.X), data.times
    both = {"X": data.X} if data.X_val is None else {"X": data.X, "X_val": data.X_val}
    total = sum(map(num_samples, both.values()))
    if times is None:
        found = {name: index_dates(part, name) for name, part in both.items()}
        dated = all(dates is not None for dates in found.values())
        if not (dated and any(dates.has_duplicates for dates in found.values())):
            for name, part in both.items():
                check_sorted(part, name)
            if not data.horizon:
                return None, 0
            if not dated:
                return np.arange(total), horizon_in_dates(data.horizon, None)
        values = [date_numbers(dates, f"{name}.index") for name, dates in found.items()]
        values = np.concatenate(values)
    else:
        values = date_numbers(times)
    if len(values) != total:
        of = " followed by ".join(both)
        raise ValueError(
            f"times must hold one date per record of {of}, {total}, got {len(values)}."
        )
    if data.X_val is not None and values[n:].min() <= values[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{values[:n].max()} and X_val from {values[n:].min()}."
        )
    return values, horizon_in_dates(data.horizon, values)


def _check_before(dates, holdout):
    """Raise where training rows of a known date are not all before a given holdout."""
    first = getattr(holdout.model, "dates_", None)
    if first is None and (found := index_dates(holdout.X)) is not None:
        first = date_numbers(found, "X.index")
    if dates is None or first is None or dates.dtype.kind != first.dtype.kind:
        return
    if not dates.max() < first.min():
        raise ValueError(
            "X must hold records from before the holdout, whose labels were known before its first "
            f"outcome: the holdout begins at {first.min()}, and X has rows until {dates.max()}. "
            "Pass the training rows, such as X[search.train_indices_]. The holdout was not queried."
        )
