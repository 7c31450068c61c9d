"""Dates of records: conversion to arrays, dates in an index, and spans of time.

Text that is not ISO is rejected, and the error shows calls that may parse it.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
import sys
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.utils.validation import check_integer, is_missing

# A day, with or without a time, or a month. '20150101' and '2015' could as well be numbers.
_TIME_OF_DAY = r"[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"
_ISO = (re.compile(rf"\d{{4}}-\d\d-\d\d({_TIME_OF_DAY})?|NaT"), re.compile(r"\d{4}-\d\d|NaT"))
_ISO_WITH_ZONE = re.compile(rf"\d{{4}}-\d\d-\d\d{_TIME_OF_DAY}(Z|[+-]\d\d:\d\d)")
# Names of steps, and their lengths in seconds.
_STEP_NAMES = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 7 * 86_400))
_SPAN = re.compile(r"(\d+)\s*(W|D|d|h|H|min|s)")
_SPAN_UNITS = {
    "W": "weeks",
    "D": "days",
    "d": "days",
    "h": "hours",
    "H": "hours",
    "min": "minutes",
    "s": "seconds",
}
#: Formats of dates in text that is not ISO, for the call that parses them.
_FORMATS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%d/%m/%y",
    "%m/%d/%y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%b %Y",
    "%B %Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M",
)
_DIGIT_FORMATS = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d"}  # by the number of digits
_QUARTER = re.compile(r"\d{4}-?Q[1-4]")
# The range of ``datetime64[ns]`` in whole seconds. numpy does not report an overflow.
_FIRST_DATE = np.datetime64("1677-09-21T00:12:45", "ns")
_LAST_DATE = np.datetime64("2262-04-11T23:47:16", "ns")
_MAX_SPAN_DAYS = 100_000
_MAX_TEXTS = 1000  # texts for which formats are tried
_MAX_EXAMPLES = 4  # values of an index that a message shows


# -- dates as numbers -----------------------------------------------------------------------------


def date_numbers(times: Any, name: str = "times") -> Array:
    """Return the date of each record as an array of ``datetime64[ns]`` or of numbers.

    Numbers are unchanged. Dates with a time zone are converted to UTC. Text must be ISO days, times
    or months, all of one form. Raises ValueError for other values, tables, missing dates, and dates
    outside the range of ``datetime64[ns]``. ``name``: the parameter, for errors.
    """
    _check_one_per_record(times, name)
    values = _date_values(times, name)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must hold one date per record, got shape {values.shape}.")
    if values.dtype.kind not in "iufM":
        raise ValueError(
            f"{name} must be dates or numbers, got {values.dtype}. Pass the date of each record, "
            "such as times=X['date']."
        )
    is_nan = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float))
    if is_nan.any():
        n_missing = int(is_nan.sum())
        raise ValueError(
            f"{name} must hold a date for every record, {n_missing} "
            f"{'is' if n_missing == 1 else 'are'} missing (NaT). Drop these records: "
            f"keep = np.asarray(pd.notna({name})), then pass X[keep], y[keep] and {name}[keep]."
        )
    return _as_nanoseconds(values, name) if values.dtype.kind == "M" else values


def _check_one_per_record(times, name):
    """Raise ValueError if ``times`` is text, such as the name of a column, or a table."""
    if isinstance(times, str):
        raise ValueError(
            f"{name} must hold one date for each record, got the text {times!r}. Pass the dates "
            f"themselves, such as X[{times!r}]."
        )
    if len(getattr(times, "shape", (0,))) == 2:
        raise ValueError(
            f"{name} must hold one date for each record, got a table of shape {times.shape}. Pass "
            f"one column of it, such as {name}{'.iloc' if hasattr(times, 'iloc') else ''}[:, 0]."
        )


def _as_nanoseconds(dates, name):
    """Return a list or an array of dates as ``datetime64[ns]``.

    Raises ValueError for dates that would overflow. ``name``: the parameter, for the error.
    """
    seconds = np.array(dates, dtype="M8[s]")
    is_outside = (seconds < _FIRST_DATE.astype("M8[s]")) | (seconds > _LAST_DATE.astype("M8[s]"))
    if is_outside.any():
        position = int(np.flatnonzero(is_outside)[0])
        raise ValueError(
            f"{name} must have dates from 1677-09-22 to 2262-04-11, got "
            f"{date_text(seconds.flat[position])} at position {position}. If it stands for a "
            "missing date, drop this record. Otherwise, use numbers, such as "
            "np.asarray(dates, dtype='M8[s]').astype('int64')."
        )
    return np.array(dates, dtype="M8[ns]")


def _date_values(times, name):
    """Return the values of any container as an array.

    Dates, periods, text and pandas timedeltas become ``datetime64``. Raises ValueError for text
    that is not ISO, for objects that are not dates, and for dates out of range.
    """
    container = getattr(times, "array", times)  # of a pandas series or index
    if hasattr(container, "asi8"):  # dates, periods or timedeltas of pandas
        dates = container.to_timestamp() if hasattr(container, "to_timestamp") else container
        return _as_nanoseconds(np.asarray(dates.asi8).view(f"M8[{dates.unit}]"), name)
    values = container
    if not isinstance(container, np.ndarray):
        entries = list(container)
        # As an array of text, NaN among text would become "nan". Dates of several units would
        # overflow in the finest one.
        needs_objects = any(isinstance(entry, str | np.datetime64) for entry in entries)
        values = np.asarray(entries, dtype=object if needs_objects else None)
    return _read_objects(values, name) if values.dtype.kind in "OUS" and values.size else values


def _read_objects(values, name):
    """Return an array of text or date objects as ``datetime64[ns]``; missing values become NaT.

    Raises ValueError if all values are missing, if dates are out of range, and unless the others
    are all dates, or all text of one ISO form. ``name``: the parameter, for errors.
    """
    entries = values.ravel().tolist()
    entries = [entry.decode() if isinstance(entry, bytes) else entry for entry in entries]
    # NaT differs from itself.
    missing_flags = [is_missing(entry) or entry != entry for entry in entries]
    present_entries = [
        entry for entry, absent in zip(entries, missing_flags, strict=True) if not absent
    ]
    if present_entries and all(
        isinstance(entry, datetime.date | np.datetime64) for entry in present_entries
    ):
        dates = [
            np.datetime64("NaT") if absent else _in_utc(entry)
            for entry, absent in zip(entries, missing_flags, strict=True)
        ]
        return _as_nanoseconds(dates, name).reshape(values.shape)
    if _all_iso(present_entries):
        texts = [
            "NaT" if absent else entry for entry, absent in zip(entries, missing_flags, strict=True)
        ]
        return _iso_dates(texts, name).reshape(values.shape)
    example = next((entry for entry in present_entries if not _all_iso([entry])), entries[0])
    raise ValueError(
        f"{name} must be dates, numbers or ISO text such as '2026-01-31', got {example!r}. Pass "
        f"{name}={parsing_call(entries, name)}."
    )


def _iso_dates(texts, name):
    """Return dates in ISO text as ``datetime64[ns]``, in UTC if they have a zone.

    Raises ValueError for dates that do not exist or are out of range. ``name``: the parameter, for
    the error.
    """
    if not all(map(_is_iso_date, texts)):  # a month 13
        raise _not_a_date_error(texts, name)
    dates = [
        _in_utc(datetime.datetime.fromisoformat(text)) if _ISO_WITH_ZONE.fullmatch(text) else text
        for text in texts
    ]
    return _as_nanoseconds(dates, name)


def _not_a_date_error(texts, name):
    """Return the ValueError for ISO texts of which one is not an existing date.

    ``name``: the parameter.
    """
    wrong_text = next((text for text in texts if not _is_iso_date(text)), texts[0])
    fix = "Correct it, or drop this record."
    dates = [text for text in texts if text != "NaT"]
    if all(_has_format(text, "%Y-%d-%m") for text in dates):
        fix = f"If the day comes second, pass {name}=pd.to_datetime({name}, format='%Y-%d-%m')."
    return ValueError(f"{name} must be dates, got {wrong_text!r}, which does not exist. {fix}")


def _is_iso_date(text):
    """Return whether ISO text is an existing date."""
    try:
        if _ISO_WITH_ZONE.fullmatch(text):
            datetime.datetime.fromisoformat(text)
        else:
            np.datetime64(text)
    except ValueError:
        return False
    return True


def _in_utc(date):
    """Return a date with a time zone in UTC, without the zone; other dates unchanged."""
    if getattr(date, "tzinfo", None) is None:
        return date
    try:
        return date.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:  # in year 0 or 10000
        return date.replace(tzinfo=None)


def _all_iso(values):
    """Return whether there are values, and all are text of one ISO form (or "NaT")."""
    if not values or not all(isinstance(value, str) for value in values):
        return False
    return any(all(map(pattern.fullmatch, values)) for pattern in (*_ISO, _ISO_WITH_ZONE))


def parsing_call(values: Any, expression: str) -> str:
    """Return code that parses dates in text with pandas, joined by "or" if several formats fit.

    If no known format fits, the format is ``…``. ``expression``: code whose value is ``values``,
    such as ``X.index``.
    """
    texts = [value for value in values if isinstance(value, str)][:_MAX_TEXTS]
    if not texts:
        return f"pd.to_datetime({expression}, …)"
    if all(map(_QUARTER.fullmatch, texts)):
        return f"pd.PeriodIndex({expression}, freq='Q')"
    date_formats = _formats_of(texts)
    if not date_formats:
        return f"pd.to_datetime({expression}, format=…)"
    calls = [
        f"pd.to_datetime({expression}, format={date_format!r})" for date_format in date_formats
    ]
    return " or ".join(calls)


def _formats_of(texts):
    """Return the ``strptime`` formats, from a fixed list, that parse all texts.

    Texts that consist of equally many digits have one format, by this number, or none.
    """
    lengths = {len(text) for text in texts}
    if all(text.isdigit() for text in texts) and len(lengths) == 1:
        n_digits = lengths.pop()
        return [_DIGIT_FORMATS[n_digits]] if n_digits in _DIGIT_FORMATS else []
    return [
        date_format
        for date_format in _FORMATS
        if all(_has_format(text, date_format) for text in texts)
    ]


def _has_format(text, date_format):
    """Return whether ``strptime`` parses a text by a format."""
    try:
        datetime.datetime.strptime(text, date_format)
    except ValueError:
        return False
    return True


# -- the order of rows ----------------------------------------------------------------------------


def holds_dates(values: Any) -> bool:
    """Return whether an index, a series or a list has dates, periods or ISO text only."""
    if values is None or isinstance(values, str) or not np.iterable(values):
        return False
    dtype = str(getattr(values, "dtype", "object"))
    if dtype.startswith(("datetime64", "period")):
        return True
    if dtype not in ("object", "str", "string") and not dtype.startswith("<U"):
        return False
    entries = list(values)
    are_dates = bool(entries) and all(
        isinstance(entry, datetime.date | np.datetime64) for entry in entries
    )
    return are_dates or _all_iso(entries)


def date_level(index: Any) -> Any:
    """Return the values of a pandas index, or of its only level of dates, if they are dates.

    None if they are not, or if several levels are dates. Dates are those of :func:`holds_dates`.
    """
    if not hasattr(index, "levels"):
        return index if holds_dates(index) else None
    date_levels = [i for i, level in enumerate(index.levels) if holds_dates(level)]
    return index.get_level_values(date_levels[0]) if len(date_levels) == 1 else None


def index_dates(X: Any, name: str = "X") -> Array | None:
    """Return the dates in the index of a pandas frame or series, as :func:`date_numbers` does.

    None if ``X`` has no pandas index, or if the index has strictly ascending values, such as
    numbers, instead of dates, text or levels. ``name``: the parameter that holds ``X``.

    Raises
    ------
    ValueError
        If a date is missing, if clocks seem to have been set back, or if the index may hold dates
        without showing the order in time: text, levels, or values that do not ascend strictly.
    """
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "is_monotonic_increasing"):  # not a frame of pandas
        return None
    dates = date_level(index)
    if dates is not None:
        return _dates_of_index(dates, name, index=index)
    has_levels_or_text = hasattr(index, "levels") or _holds_text(index)
    if not has_levels_or_text and index.is_monotonic_increasing and index.is_unique:
        return None
    raise _undated_index_error(index, name)


def date_code(index: Any, name: str) -> str:
    """Return code for the values of an index; for a MultiIndex, of the first level of dates.

    If no level has dates, it is the first level. ``name``: the parameter that holds the frame.
    """
    code = f"{name}.index"
    if not hasattr(index, "levels"):
        return code
    position = next((i for i, level in enumerate(index.levels) if holds_dates(level)), 0)
    level_name = index.names[position]
    return f"{code}.get_level_values({position if level_name is None else level_name!r})"


def sorting_advice(index: Any, name: str, *, others: str = "") -> str:
    """Return a sentence with code that sorts records and their targets by the index.

    Parameters
    ----------
    index : pandas.Index
        Index of dates or numbers, or a MultiIndex with one level of dates.
    name : str
        The parameter that holds the frame.
    others : str, default=""
        Code of further arguments to sort, such as ``" and groups[order]"``.

    Returns
    -------
    str
        Without a period at its end.
    """
    code = date_code(index, name)
    values = date_level(index) if hasattr(index, "levels") else index
    if any(isinstance(value, str) and _ISO_WITH_ZONE.fullmatch(value) for value in values[:1]):
        code = f"pd.to_datetime({code}, utc=True)"  # texts of several zones sort in another way
    targets = name.replace("X", "y")
    return (
        f"order = {code}.argsort(kind='stable'), then pass {name}.iloc[order] and "
        f"{targets}[order]{others} ({targets}.iloc[order] in pandas)"
    )


def _dates_of_index(dates, name, *, index):
    """Return ``dates``, an index, as :func:`date_numbers` does, in the order of the rows.

    Raises ValueError if a date is missing, or if the largest step back is at most an hour, as when
    clocks are set back. ``name``: the parameter that holds the frame. ``index``: index of the
    frame, whose dates are ``dates``.
    """
    code = date_code(index, name)
    if getattr(dates, "hasnans", False):
        raise ValueError(
            f"correlation='time' and chains need the date of each record, got dates in the "
            f"index of {name} that are missing (NaT). Drop these records: keep = {code}.notna(), "
            f"then pass {name}[keep] and {name.replace('X', 'y')}[keep]."
        )
    values = date_numbers(dates, code)
    steps = np.diff(values)
    if len(steps) and np.timedelta64(-1, "h") <= steps.min() < np.timedelta64(0, "ns"):
        raise ValueError(
            f"the index of {name} goes back by at most an hour. If clocks were set back, pass "
            f"{name}.tz_localize('Europe/Berlin', ambiguous='infer') with your zone. "
            f"Otherwise, sort the records: {sorting_advice(index, name)}."
        )
    return values


def _holds_text(index):
    """Return whether any entry of an index is text."""
    return any(isinstance(value, str) for value in index.tolist())


def _undated_index_error(index, name):
    """Return the ValueError for an index without dates that shows no order in time."""
    advice_if_in_order = (
        f"If the rows are already in time order, pass {name}.reset_index(drop=True)"
    )
    if hasattr(index, "levels"):
        n_date_levels = sum(map(holds_dates, index.levels))
        problem = f"with {n_date_levels} levels" if n_date_levels else "without a level"
        return ValueError(
            f"{name} has a MultiIndex {problem} of dates. Pass times=, one date per record, such "
            f"as times={_level_call(index, name)}. {advice_if_in_order}."
        )
    values = index.tolist()
    examples = ", ".join(map(repr, values[:_MAX_EXAMPLES])) + ", …" * (len(values) > _MAX_EXAMPLES)
    if _holds_text(index):
        call = parsing_call(values, name + ".index")
        fix = f"If it holds dates, set {name}.index = {call}."
        if "…" in call:  # no format was recognized
            fix = f"Pass the dates: times={name}['date']."
        return ValueError(
            f"{name} has an index of text ({examples}), which does not show the order of its rows. "
            f"{fix} {advice_if_in_order}. The holdout was not queried."
        )
    problem = "that repeats"
    if not index.is_monotonic_increasing:
        problem = "that does not ascend"
        examples = _first_descent(values) or examples
    sorting = ""
    if index.is_unique:  # otherwise a sorted index is rejected, too
        sorting = (
            f"If its order is the time order, sort the records: {sorting_advice(index, name)}. "
        )
    return ValueError(
        f"{name} has an index {problem} ({examples}), so its rows may not be in time order. If it "
        f"counts years, days or other dates, pass times={name}.index. "
        f"{sorting}{advice_if_in_order}. The holdout was not queried."
    )


def _first_descent(values):
    """Return a text on the first value that is less than the one before it.

    Empty if there is none, or if values before it cannot be compared.
    """
    for i in range(1, len(values)):
        try:
            descends = bool(values[i] < values[i - 1])
        except TypeError:  # values of several types, or missing ones
            return ""
        if descends:
            return f"{values[i]!r} follows {values[i - 1]!r} in row {i}"
    return ""


def _level_call(index, name):
    """Return code for the dates of a MultiIndex: its first level of dates, years or date texts.

    If there is none, the level is ``…``. ``name``: the parameter that holds the frame.
    """
    for i, level in enumerate(index.levels):
        values = level.tolist()
        key = level.name if level.name is not None else i
        expression = f"{name}.index.get_level_values({key!r})"
        call = parsing_call(values, expression)
        is_complete = "…" not in call  # a format was recognized
        if values and is_complete and all(isinstance(value, str) for value in values):
            return call
        if holds_dates(level) or _are_years(values):
            return expression
    return f"pd.to_datetime({name}.index.get_level_values(…))"


def _are_years(values):
    """Return whether there are values, and all are integers from 1000 to 2999."""
    return bool(values) and all(isinstance(v, int) and 1000 <= v < 3000 for v in values)


# -- spans of time --------------------------------------------------------------------------------


def as_time_span(value: Any, name: str) -> Any:
    """Return a span of time as ``timedelta64[ns]`` or a pandas offset; None for any other value.

    Spans are timedeltas of Python, numpy and pandas, text such as ``"7D"``, and offsets of pandas.
    Raises ValueError for other text, for spans that are not positive or overflow, and for numpy's
    spans in months, in years or without a unit. ``name``: the parameter.
    """
    pandas = sys.modules.get("pandas")
    rule = (
        f"{name} must be a number of dates, or a positive span of time such as '7D', "
        f"pandas.Timedelta('7D') or pandas.DateOffset(months=1), got {value!r}. It is the time "
        f"from the last known record to the outcome of a forecast: {name}='7D' for a week."
    )
    span: Any = _parse_span(value, pandas, rule) if isinstance(value, str) else value
    if isinstance(span, np.timedelta64) and np.datetime_data(span)[0] in ("generic", "M", "Y"):
        raise ValueError(rule)
    if isinstance(span, datetime.timedelta | np.timedelta64):
        if abs(np.timedelta64(span).astype("m8[D]")) > np.timedelta64(_MAX_SPAN_DAYS, "D"):
            raise ValueError(
                f"{name} must be at most {_MAX_SPAN_DAYS} days, got {value!r}. Pass a number "
                f"of dates, such as {name}=7."
            )
        span = np.timedelta64(span).astype("m8[ns]")
        if not span > np.timedelta64(0, "ns"):
            raise ValueError(rule)
        return span
    if pandas is not None and isinstance(span, pandas.tseries.offsets.BaseOffset):
        start = pandas.Timestamp("2024-01-15")
        if not start + span + span > start + span > start:  # DateOffset(day=20) moves once only
            raise ValueError(rule)
        return span
    return None


def _parse_span(text, pandas, rule):
    """Return a span of time in text, such as "7D", as a timedelta or a pandas offset.

    Raises ValueError with the message ``rule`` for other text. ``pandas``: the module, or None.
    """
    match = _SPAN.fullmatch(text.strip())
    try:
        if match is not None:
            return datetime.timedelta(**{_SPAN_UNITS[match[2]]: int(match[1])})
        return pandas.tseries.frequencies.to_offset(text)
    except (AttributeError, OverflowError, ValueError) as error:
        raise ValueError(rule) from error


def shift_dates(dates: Array, span: Any, *, backwards: bool = False) -> Array:
    """Return dates plus a span of time from :func:`as_time_span`, or minus it if ``backwards``.

    Results outside the range of ``datetime64[ns]`` become its first or last date, or raise
    ValueError if the span is an offset of pandas.
    """
    if not isinstance(span, np.timedelta64):
        index = sys.modules["pandas"].DatetimeIndex(dates)
        shifted = [date - span if backwards else date + span for date in index]
        return np.array([date.to_datetime64() for date in shifted], dtype="M8[ns]")
    if backwards:
        return np.maximum(dates, _FIRST_DATE + span) - span
    return np.minimum(dates, _LAST_DATE - span) + span


def horizon_in_dates(horizon: Any, dates: Array | None) -> int:
    """Return a horizon as a number of dates, at least 1.

    A span of time becomes the largest number of distinct dates in the span before a date.
    ``dates``: date of each record. Raises ValueError for a span if they are None or numbers.
    """
    span = as_time_span(horizon, "horizon")
    if span is None:
        return _check_number_of_dates(horizon)
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"horizon must be a number of dates for records without dates, got {horizon!r}. Pass "
            "times=, one date per record, or a number of dates, such as horizon=7."
        )
    calendar = np.unique(dates)
    span_starts = shift_dates(calendar, span, backwards=True)
    first_in_span = np.searchsorted(calendar, span_starts)
    n_earlier_in_span = np.arange(len(calendar)) - first_in_span
    return max(1, int(n_earlier_in_span.max()))


def _check_number_of_dates(horizon):
    """Return a horizon as an int of at least 1; raise TypeError or ValueError otherwise."""
    try:
        return check_integer("horizon", horizon, low=1)
    except (TypeError, ValueError) as error:
        fix = "Set horizon=1 if each forecast is for the next date."
        if isinstance(horizon, numbers.Real) and 1.0 < horizon < math.inf:
            fix = f"Round up: horizon={math.ceil(horizon)}. With dates, pass a span such as '36h'."
        raise type(error)(
            f"{error} It counts dates from the last known record to the forecast date. {fix}"
        ) from None


def date_text(date: Any) -> str:
    """Return an element of :func:`date_numbers` as text; a date at midnight has no time of day."""
    is_date = isinstance(date, np.datetime64)
    return str(np.datetime_as_string(date, unit="auto")) if is_date else str(date)


def step_name(dates: Array) -> str:
    """Return the unit equal to the median step of dates, such as ``"day"``, else ``"date"``."""
    if dates.dtype.kind != "M" or dates.min() == dates.max():
        return "date"
    steps = np.diff(np.unique(dates)) / np.timedelta64(1, "s")
    usual_step = float(np.median(steps))  # seconds
    for name, seconds in _STEP_NAMES:
        if abs(usual_step - seconds) < 1e-6 * seconds:
            return name
    return "month" if 28 <= usual_step / 86_400 <= 31 else "date"


def describe_calendar_gaps(dates: Array) -> str:
    """Return a sentence on steps between distinct dates of more than 1.5 times the median step.

    Empty if there are none, or if ``dates`` are numbers.
    """
    if dates.dtype.kind != "M":
        return ""
    steps = np.diff(np.unique(dates)) / np.timedelta64(1, "D")  # days
    usual_step = float(np.median(steps)) if len(steps) else 0.0
    longer_steps = steps[steps > 1.5 * usual_step]
    if not len(longer_steps):
        return ""
    return (
        f"Dates without records are left out, not filled in: {len(longer_steps)} of {len(steps)} "
        f"steps are longer than the usual {usual_step:.3g} days, the longest "
        f"{longer_steps.max():.4g} days"
    )
