"""Records in time: their dates, and what describes how they depend (theory G24, G26)."""

from dataclasses import dataclass

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


def correlation_in_time(owner, config, estimator, X, *, X_val, dates, in_time):
    """Return the correlation of records in time, and what the certificate says of their dates.

    ``dates``: what was given as ``times=`` and ``horizon=``, which need records ``in_time``.
    """
    correlation, said = owner.correlation, []
    own = config is None and correlation is None  # the holdout's own model describes all records
    times = check_times(
        estimator, X, X_val=X_val, correlation=owner.holdout.model if own else correlation,
        times=dates[0], horizon=dates[1], in_time=in_time,
    )  # fmt: skip
    known = times.values if times is not None else _dates_of(X)
    if config is None and owner.holdout.model.is_given_past:
        _check_before(known if times is None else times.values[: times.n], owner.holdout)
    if isinstance(correlation, str):
        correlation = _given_past(owner, config, X, X_val, times, known)
        if X_val is not None and known is None:
            said.append(LATER)
    if times is not None:
        past = owner.holdout.model if correlation is None else correlation
        if not getattr(past, "is_given_past", False):
            raise ValueError(
                "times=, horizon= and several records on one date need correlation='time'. A chain "
                "describes rows in time order, one record at each step, got "
                f"correlation={past!r}."
            )
        correlation = GivenPast(times.values, horizon=past.horizon, step=past.step)
    if known is not None:
        said.append(gaps_in_words(known))
    return correlation, ". ".join(filter(None, said))


def _dates_of(X):
    """Return the dates of a frame's index, or None."""
    dates = index_dates(X)
    return None if dates is None else date_numbers(dates, "X.index")


def _check_before(dates, holdout):
    """Raise where training rows of a known date are not all before a given holdout."""
    first = getattr(holdout.model, "dates_", None)
    first = _dates_of(holdout.X) if first is None else first
    if dates is None or first is None or dates.dtype.kind != first.dtype.kind:
        return
    if not dates.max() < first.min():
        raise ValueError(
            "X must hold records from before the holdout, whose labels were known before its first "
            f"outcome: the holdout begins at {first.min()}, and X has rows until {dates.max()}. "
            "Pass the training rows, such as X[search.train_indices_]. The holdout was not queried."
        )


@dataclass(frozen=True)
class Times:
    """Dates of the records as numbers: those given to ``fit``, then those of ``X_val``."""

    values: np.ndarray
    n: int  # records given to fit
    horizon: int  # dates until a label is known


def check_times(estimator, X, *, X_val, correlation, times, horizon, in_time):
    """Return the :class:`Times` of the records, or None where rows are one series in order."""
    if times is not None and has_fit_parameter(estimator, "times"):
        raise ValueError(
            f"times= is a parameter of {type(estimator).__name__}.fit and of the search. Put dates "
            "into the index of X (a DatetimeIndex or a date level of a MultiIndex) instead."
        )
    if not in_time:
        raise ValueError(
            f"times= and horizon= need records in time, got correlation={correlation!r}. Set "
            "correlation='time'."
        )
    n = num_samples(X)
    both = [("X", X)] if X_val is None else [("X", X), ("X_val", X_val)]
    if times is None:
        found = [index_dates(part, name) for name, part in both]
        dated = all(part is not None for part in found)
        if not (dated and any(part.has_duplicates for part in found)):
            for name, part in both:
                check_sorted(part, name)
            if not horizon:
                return None
            if not dated:
                dates = horizon_in_dates(horizon, None)
                return Times(np.arange(sum(num_samples(part) for _, part in both)), n, dates)
        values = np.concatenate(
            [date_numbers(one, f"{name}.index") for one, (name, _) in zip(found, both, strict=True)]
        )
    else:
        values = date_numbers(times)
    total = sum(num_samples(part) for _, part in both)
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
    return Times(values, n, horizon_in_dates(horizon, values))


def _given_past(owner, config, X, X_val, times, known):
    """Return the model that ``"time"`` stands for; None for that of the holdout passed in."""
    if config is None:
        if owner.holdout.model.is_sequential:
            return None  # the holdout's own model describes the training records, too
        raise ValueError(
            "correlation='time' cannot change the holdout that was passed in, whose records are "
            f"declared as: {owner.holdout.model.describe()}. Make the holdout by a search with "
            "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
        )
    if is_splitter(config.test_size):
        raise ValueError(
            "correlation='time' cuts the last records itself: give holdout a fraction, or X_val "
            f"and y_val, got holdout={owner.holdout!r}."
        )
    if times is None and X_val is not None:
        check_future(X, X_val)
    horizon = 1 if times is None else max(1, times.horizon)
    return GivenPast(horizon=horizon, step="date" if known is None else step_of(known))
