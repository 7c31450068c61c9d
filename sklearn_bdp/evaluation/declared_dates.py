"""Dates of records under ``correlation="time"``: their order, their horizon, their assumption."""

import numpy as np

from sklearn_bdp.correlation.dates import (
    describe_calendar_gaps,
    holds_dates,
    horizon_in_dates,
    index_dates,
    step_name,
)
from sklearn_bdp.correlation.declaration import declares_dates, declares_time_order
from sklearn_bdp.correlation.time_order import TimeOrdered
from sklearn_bdp.diagnostics.tables import check_time_sorted, check_validation_is_later
from sklearn_bdp.holdout.config import is_splitter
from sklearn_bdp.utils.sklearn_compat import num_samples

#: Assumption about records without dates, which cannot be checked.
ROW_ORDER = "rows are in time order: neither times= nor the index holds their dates"
#: Assumption about validation records without dates, which cannot be checked.
LATER = "the validation records come after all training records, whose labels were known by then"


def resolve_dates(meta_estimator, config, data, *, in_time):
    """Return the correlation of records in time, and the assumption about their dates.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout`` and ``correlation``.
    config : HoldoutConfig or None
        Settings of a new holdout; None if ``holdout`` is open.
    data : FitData
        Arguments of ``fit``.
    in_time : bool
        Whether rows are declared to be in time order; dates and a horizon need it.
    """
    correlation = meta_estimator.correlation
    holdout = meta_estimator.holdout
    holdout_model = holdout.dependence if config is None else None  # it describes all records
    is_declared = in_time and isinstance(correlation, str)
    if is_declared and holdout_model is not None:
        _check_holdout_in_time(holdout_model)
        correlation = None
    time_model = holdout_model if correlation is None else correlation
    if declares_dates(time_model):
        _check_groups_are_no_dates(data.groups)
    times = data.times
    dates = None
    horizon = 1
    if in_time:
        times, dates, horizon = _dates(data)
    if is_declared and holdout_model is None:
        _check_tail_can_be_held_out(meta_estimator, config, data, times)
        step = "date" if dates is None else step_name(dates)
        time_model = TimeOrdered(horizon=horizon, step=step)
        correlation = time_model
    is_judged_by_date = declares_dates(time_model)
    if not is_judged_by_date:
        _check_no_dates(data, times, time_model, in_time=in_time)
    if declares_dates(holdout_model):
        _check_before(dates, holdout)
    if times is not None:
        correlation = TimeOrdered(times, horizon=time_model.horizon, step=time_model.step)
    if dates is not None:
        return correlation, describe_calendar_gaps(dates)
    has_row_order = is_judged_by_date and holdout_model is None
    return correlation, _order_assumption(data) if has_row_order else ""


def _check_groups_are_no_dates(groups):
    """Raise ValueError if dates were passed as groups."""
    if holds_dates(groups):
        raise ValueError(
            "groups= holds dates, which correlation='time' takes as times=. Pass times= instead of "
            "groups=. The holdout was not queried."
        )


def _check_no_dates(data, times, model, *, in_time):
    """Raise ValueError if dates or a horizon were passed for a model that judges no dates."""
    if times is None and in_time and not data.has_horizon:
        return
    cause = "Several records on one date"
    if data.has_horizon:
        cause = "horizon="
    if data.times is not None:
        cause = "times="
    raise ValueError(
        f"{cause} has no meaning under correlation={model!r}. Set correlation='time'. It "
        "assumes nothing about the dependence of the dates."
    )


def _order_assumption(data):
    """Return the assumption about the order of records that have no dates."""
    return ROW_ORDER if data.X_val is None else LATER


def _check_holdout_in_time(model):
    """Raise if the records of an open holdout are not declared to be in time order."""
    if not declares_time_order(model):
        raise ValueError(
            "correlation='time' cannot change the holdout that was passed in, whose records "
            f"are declared as: {model.describe()}. Make the holdout by a search with "
            "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
        )


def _check_tail_can_be_held_out(meta_estimator, config, data, times):
    """Raise unless the last records can be held out, or the validation records come last."""
    if is_splitter(config.test_size):
        raise ValueError(
            "correlation='time' cuts the last records itself: give holdout a fraction, or "
            f"X_val and y_val, got holdout={meta_estimator.holdout!r}."
        )
    if times is None and data.X_val is not None:
        check_validation_is_later(data.X, data.X_val)


def _dates(data):
    """Return dates for the model, dates of the records as numbers, and the horizon in dates.

    They are those of ``X`` followed by those of ``X_val``. The model needs none if the rows are one
    series in time order. There are none at all if neither ``times`` nor an index holds dates.
    """
    n = num_samples(data.X)
    values = data.times
    tables = {"X": data.X} if data.X_val is None else {"X": data.X, "X_val": data.X_val}
    if values is None:
        table_dates = {name: index_dates(table, name) for name, table in tables.items()}
        if any(dates is None for dates in table_dates.values()):
            return None, None, horizon_in_dates(data.horizon, None)
        values = np.concatenate(list(table_dates.values()))
        if not any(len(np.unique(dates)) < len(dates) for dates in table_dates.values()):
            for name, table in tables.items():
                check_time_sorted(table, name)
            return None, table_dates["X"], horizon_in_dates(data.horizon, values)
    _check_dates_of_tables(values, n, tables)
    return values, values, horizon_in_dates(data.horizon, values)


def _check_dates_of_tables(values, n, tables):
    """Raise unless each record has a date, and those after the first ``n`` are later."""
    total = sum(map(num_samples, tables.values()))
    if len(values) != total:
        raise ValueError(
            f"times must hold one date per record of {' followed by '.join(tables)}, {total}, got "
            f"{len(values)}."
        )
    if "X_val" in tables and values[n:].min() <= values[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{values[:n].max()} and X_val from {values[n:].min()}."
        )


def _check_before(dates, holdout):
    """Raise if training rows with a known date are not all before a given holdout."""
    calendar = holdout.dependence.sampling_scheme(holdout.n).calendar
    holdout_dates = None if calendar is None else calendar.dates
    if holdout_dates is None:
        holdout_dates = index_dates(holdout.X)
    if dates is None or holdout_dates is None or dates.dtype.kind != holdout_dates.dtype.kind:
        return
    if not dates.max() < holdout_dates.min():
        raise ValueError(
            "X must hold records from before the holdout, whose labels were known before its first "
            f"outcome: the holdout begins at {holdout_dates.min()}, and X has rows until "
            f"{dates.max()}. Pass the training rows: train = search.train_indices_, X[train] "
            "(X.iloc[train] in pandas). The holdout was not queried."
        )
