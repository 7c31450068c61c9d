"""What an index of dates tells about the order of records; values are never looked at."""

import numpy as np

#: What a split does to records in time that are declared independent.
DRAWN = ", and the holdout is drawn at random"

#: Share of about equal steps from which on sorted dates look like a calendar: hours, working days,
#: months.
REGULAR, ABOUT = 0.75, 0.15


def is_dates(index):
    """Return whether an index of a frame holds dates or periods."""
    return str(getattr(index, "dtype", "")).startswith(("datetime64", "period"))


def _dates(X):
    """Return the dates of a frame's index as numbers, or None."""
    index = getattr(X, "index", None)
    if not is_dates(index) or len(index) < 2 or bool(index.hasnans):
        return None
    return np.asarray(index.asi8)


def check_sorted(X, name="X"):
    """Raise where records in time come with an index of dates that is not sorted."""
    index = getattr(X, "index", None)
    if is_dates(index) and not index.is_monotonic_increasing:
        y = "y_val" if name == "X_val" else "y"
        raise ValueError(
            f"correlation='time' and chains need records in time order, got {name} with a date "
            f"index that is not sorted: pass {name}.sort_index(), with {y} in the same order."
        )


def check_future(X, X_val):
    """Raise where a series is not sorted, or the validation records do not come last."""
    check_sorted(X)
    check_sorted(X_val, "X_val")
    if _dates(X) is None or _dates(X_val) is None:
        return
    try:
        early = X_val.index.min() <= X.index.max()
    except TypeError:  # dates with and without a zone, or periods of another length
        return
    if early:
        raise ValueError(
            "X_val must come after X if records come in time (correlation='time' or a chain): a "
            "model is verified on the future of what it has seen. Pass the last records as X_val."
        )


def date_hints(X, *, apart):
    """Yield what the index of records that were declared independent says against it."""
    dates = _dates(X)
    if dates is None:
        return
    drawn = "" if apart else DRAWN
    steps = np.diff(dates)
    if (steps >= 0).all() or (steps <= 0).all():
        yield (
            f"X is sorted by date, but correlation=None assumes independence{drawn}. Set "
            "correlation='time', or reset the index if the order means nothing"
        )
    elif _is_calendar(dates):
        yield (
            f"The index of X is a shuffled calendar, but correlation=None assumes independence"
            f"{drawn}: neighboring dates are on both sides. Pass X.sort_index(), with y in the "
            "same order, and set correlation='time', or reset the index if dates mean nothing"
        )


def _is_calendar(dates):
    """Return whether sorted dates go in equal steps, each once: a series, and no list of events."""
    steps = np.diff(np.sort(dates))
    typical = float(np.median(steps))
    alike = np.abs(steps - typical) <= ABOUT * typical
    return bool(steps.min() > 0 and alike.mean() >= REGULAR)
