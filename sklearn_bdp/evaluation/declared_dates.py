"""Dates and horizon of records that are declared to be in time order."""

import numpy as np

from sklearn_bdp.correlation.dates import (
    date_text,
    describe_calendar_gaps,
    holds_dates,
    horizon_in_dates,
    index_dates,
    step_name,
)
from sklearn_bdp.correlation.declaration import declares_dates, declares_time_order
from sklearn_bdp.correlation.sequences import is_chain
from sklearn_bdp.correlation.time_order import TimeOrdered
from sklearn_bdp.diagnostics.tables import check_time_sorted, check_validation_is_later
from sklearn_bdp.holdout.config import is_splitter
from sklearn_bdp.utils.sklearn_compat import num_samples

#: Assumption about records without dates, which cannot be checked.
_ROW_ORDER = "rows are in time order: neither times= nor the index holds their dates"
#: Assumption about validation records without dates, which cannot be checked.
_LATER_VALIDATION_SET = (
    "the validation records come after all training records, whose labels were known by then"
)


def resolve_dates(meta_estimator, config, fit_data, *, in_time):
    """Return the correlation of records that may have dates, and an assumption about their dates.

    The correlation is an argument of ``check_correlation``: a :class:`TimeOrdered` model with the
    horizon, and with the dates if it needs them; None if the model of a ReusableHoldout applies;
    otherwise the declared correlation. The assumption, about gaps between dates or the order of
    records without dates, is a text for the certificate, empty if there is none.

    Parameters
    ----------
    meta_estimator : estimator
        Estimator with the parameters ``holdout`` and ``correlation``.
    config : HoldoutConfig or None
        Settings of a new holdout; None if ``holdout`` is a ReusableHoldout.
    fit_data : FitData
        Arguments of ``fit``.
    in_time : bool
        Whether rows are declared to be in time order.

    Raises
    ------
    ValueError
        If dates, groups, a horizon or the holdout contradict the declared correlation or the
        records.
    TypeError
        If the horizon is neither an integer nor a span of time.
    """
    correlation = meta_estimator.correlation
    holdout = meta_estimator.holdout
    # The model of a ReusableHoldout describes the training records, too.
    holdout_model = holdout.dependence if config is None else None
    is_time_name = in_time and isinstance(correlation, str)  # correlation="time"
    if is_time_name and holdout_model is not None:
        _check_holdout_in_time(holdout_model)
        correlation = None
    time_model = holdout_model if correlation is None else correlation
    if declares_dates(time_model):
        _check_groups_are_no_dates(fit_data.groups)
    model_times = fit_data.times  # dates that the model needs, or None
    dates = None  # dates of the records, or None
    horizon = 1
    if in_time:
        model_times, dates, horizon = _find_dates(fit_data)
    if is_time_name and holdout_model is None:
        _check_tail_can_be_held_out(meta_estimator, config, fit_data, model_times)
        step = "date" if dates is None else step_name(dates)
        time_model = TimeOrdered(horizon=horizon, step=step)
        correlation = time_model
    has_dates = declares_dates(time_model)
    if not has_dates:
        _check_no_dates(fit_data, model_times, time_model, in_time=in_time)
    if declares_dates(holdout_model):
        _check_before_holdout(dates, holdout)
    if model_times is not None:
        correlation = TimeOrdered(model_times, horizon=time_model.horizon, step=time_model.step)
    if dates is not None:
        return correlation, describe_calendar_gaps(dates)
    is_ordered_by_rows = has_dates and holdout_model is None
    return correlation, _order_assumption(fit_data) if is_ordered_by_rows else ""


def _check_groups_are_no_dates(groups):
    """Raise ValueError if dates were passed as groups."""
    if holds_dates(groups):
        raise ValueError(
            "groups= holds dates, which correlation='time' takes as times=. Pass times= instead of "
            "groups=. The holdout was not queried."
        )


def _check_no_dates(fit_data, model_times, model, *, in_time):
    """Raise ValueError for ``times``, a horizon or repeated dates under a model without dates.

    ``model_times``: dates from ``times``, or from an index with several rows per date, otherwise
    None. ``model``: the declared correlation, a model of dependence or a name of it, for the
    message. ``in_time``: whether rows are declared to be in time order.
    """
    if model_times is None and in_time and not fit_data.has_horizon:
        return
    cause = "Several records on one date"
    if fit_data.has_horizon:
        cause = "horizon="
    if fit_data.times is not None:
        cause = "times="
    fix = "Set correlation='time'"
    if cause == "horizon=" and model is not None:
        fix = "Leave horizon= out, or set correlation='time'"
    if cause == "times=" and (in_time or is_chain(model)):
        fix = "Sort the records by time and leave times= out, or set correlation='time'"
    raise ValueError(
        f"{cause} has no meaning under correlation={model!r}. {fix}, which assumes nothing about "
        "the dependence of the dates."
    )


def _order_assumption(fit_data):
    """Return the text of the assumption about the time order of records that have no dates."""
    return _ROW_ORDER if fit_data.X_val is None else _LATER_VALIDATION_SET


def _check_holdout_in_time(model):
    """Raise ValueError unless ``model`` declares the holdout records to be in time order."""
    if not declares_time_order(model):
        raise ValueError(
            "correlation='time' cannot change the holdout that was passed in, whose records "
            f"are declared as: {model.describe()}. Make the holdout by a search with "
            "correlation='time', or with correlation=MarkovChain.from_scores(scores)."
        )


def _check_tail_can_be_held_out(meta_estimator, config, fit_data, model_times):
    """Raise ValueError if a splitter draws the holdout, or if ``X_val`` is not later than ``X``.

    ``X_val`` is checked by its index, and only if ``model_times`` is None. ``config``:
    HoldoutConfig of the new holdout.
    """
    if is_splitter(config.test_size):
        raise ValueError(
            "correlation='time' holds out the last records itself, got "
            f"holdout={meta_estimator.holdout!r}. Set holdout=0.25, or pass X_val and y_val."
        )
    if model_times is None and fit_data.X_val is not None:
        check_validation_is_later(fit_data.X, fit_data.X_val)


def _find_dates(fit_data):
    """Return dates for a TimeOrdered model, dates of records, and the horizon as number of dates.

    Dates from ``times``, or from an index with repeated dates, are those of ``X`` followed by
    ``X_val``, and are returned twice. With an index of unique dates in each table, the first result
    is None, and the second one has the dates of ``X`` only. Both are None without ``times`` if a
    table has no dates in its index. Raises ValueError or TypeError for invalid dates or horizons.
    """
    dates = fit_data.times
    tables = (
        {"X": fit_data.X} if fit_data.X_val is None else {"X": fit_data.X, "X_val": fit_data.X_val}
    )
    if dates is None:
        dates_by_table = {name: index_dates(table, name) for name, table in tables.items()}
        if any(table_dates is None for table_dates in dates_by_table.values()):
            return None, None, horizon_in_dates(fit_data.horizon, None)
        dates = np.concatenate(list(dates_by_table.values()))
        has_repeated_dates = any(
            len(np.unique(table_dates)) < len(table_dates)
            for table_dates in dates_by_table.values()
        )
        if not has_repeated_dates:
            for name, table in tables.items():
                check_time_sorted(table, name)
            return None, dates_by_table["X"], horizon_in_dates(fit_data.horizon, dates)
    _check_dates_of_tables(dates, tables)
    return dates, dates, horizon_in_dates(fit_data.horizon, dates)


def _check_dates_of_tables(dates, tables):
    """Raise ValueError unless there is a date per record, and ``X_val`` is later than ``X``.

    ``dates``: array of the dates of ``X`` followed by those of ``X_val``; ``tables``: records by
    name of the table, "X" and perhaps "X_val".
    """
    n_total = sum(map(num_samples, tables.values()))
    if len(dates) != n_total:
        raise ValueError(
            f"times must hold one date for each of the {n_total} records of "
            f"{' followed by '.join(tables)}, got {len(dates)}. Pass the dates of these rows, such "
            "as times=X['date']."
        )
    n = num_samples(tables["X"])
    if "X_val" in tables and dates[n:].min() <= dates[:n].max():
        raise ValueError(
            "X_val must come after X, and rows of one date stay on one side, got X until "
            f"{date_text(dates[:n].max())} and X_val from {date_text(dates[n:].min())}. Pass the "
            "last dates as X_val, y_val."
        )


def _check_before_holdout(train_dates, holdout):
    """Raise ValueError unless all training records have dates before those of the holdout.

    ``train_dates``: array of the dates of the training records, or None. ``holdout``:
    ReusableHoldout. Nothing is compared if either has no dates, or if their dates have
    different kinds of dtypes.
    """
    calendar = holdout.dependence.sampling_scheme(holdout.n).calendar
    holdout_dates = None if calendar is None else calendar.dates
    if holdout_dates is None:
        holdout_dates = index_dates(holdout.X)
    if (
        train_dates is None
        or holdout_dates is None
        or train_dates.dtype.kind != holdout_dates.dtype.kind
    ):
        return
    if not train_dates.max() < holdout_dates.min():
        raise ValueError(
            "X must hold records from before the holdout, whose labels were known before its first "
            f"outcome: the holdout begins at {date_text(holdout_dates.min())}, and X has rows "
            f"until {date_text(train_dates.max())}. Call fit(X[train], y[train]) with train = "
            "search.train_indices_ (.iloc[train] in pandas). The holdout was not queried."
        )
