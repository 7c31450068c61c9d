"""Dates of records: how they are read, how they order records, and spans of time between them.

The order of records is read from dates and never guessed (theory G26 needs it). An index that may
hold dates in a form that is not certain is rejected with the call that parses it.
"""

from __future__ import annotations

import datetime
import re
import sys
from typing import Any

import numpy as np

from sklearn_bdp._typing import Array
from sklearn_bdp.utils.validation import check_integer

# A day, with or without a time, or a month. '20150101' could as well be a number, '2015' as well.
_TIME_OF_DAY = r"[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"
_ISO = (re.compile(rf"\d{{4}}-\d\d-\d\d({_TIME_OF_DAY})?|NaT"), re.compile(r"\d{4}-\d\d|NaT"))
_ISO_WITH_ZONE = re.compile(rf"\d{{4}}-\d\d-\d\d{_TIME_OF_DAY}(Z|[+-]\d\d:\d\d)")
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
#: Forms of dates in text that are not certain, for the call that parses them.
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
_DIGIT_FORMATS = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d"}
_QUARTER = re.compile(r"\d{4}-?Q[1-4]")
_N_PARSED = 1000  # texts for which formats are tried
_SHOWN = 4  # values of an index that a message shows


# -- dates as numbers -----------------------------------------------------------------------------


def date_numbers(times: Any, name: str = "times") -> Array:
    """Return dates as values that sort as the dates do, one for each record.

    Dates and periods in any container become ``datetime64[ns]`` (in UTC if they have a zone),
    numbers stay numbers. Text is read if all of it is ISO days, times or months.
    """
    _check_one_per_record(times, name)
    values = _date_values(times, name)
    if values.dtype.kind not in "iufM":
        raise ValueError(f"{name} must be dates or numbers, got {values.dtype}.")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must hold one date per record, got shape {values.shape}.")
    missing = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float))
    if missing.any():
        raise ValueError(
            f"{name} must hold a date for every record, {int(missing.sum())} are missing (NaT). "
            "Drop these records."
        )
    return values.astype("M8[ns]") if values.dtype.kind == "M" else values


def _check_one_per_record(times, name):
    """Raise ValueError if dates are the name of a column, or a table."""
    if isinstance(times, str):
        raise ValueError(
            f"{name} must hold one date for each record, got the text {times!r}. Pass the dates "
            f"themselves, such as X[{times!r}]."
        )
    if len(getattr(times, "shape", (0,))) == 2:
        raise ValueError(
            f"{name} must hold one date for each record, got a table of shape {times.shape}. Pass "
            "one column of it, such as X['date']."
        )


def _date_values(times, name):
    """Return dates of any container as an array of dates or numbers."""
    container = getattr(times, "array", times)  # of a pandas series or index
    if hasattr(container, "asi8"):
        container = container.to_timestamp() if hasattr(container, "to_timestamp") else container
        return np.asarray(container.asi8).view(f"M8[{container.unit}]").astype("M8[ns]")
    values = np.asarray(container if isinstance(container, np.ndarray) else list(container))
    return _read_objects(values, name) if values.dtype.kind in "OUS" else values


def _read_objects(values, name):
    """Return text or objects as ``datetime64[ns]``; missing values become NaT.

    Raises ValueError unless all others are dates.
    """
    listed = [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]
    present = [v for v in listed if v is not None and v == v]
    if present and all(isinstance(v, datetime.date | np.datetime64) for v in present):
        dates = [_in_utc(v) for v in listed]
        return np.array(dates, dtype="M8[ns]").reshape(values.shape)
    if _all_iso(listed):
        return _iso_dates(listed, name).reshape(values.shape)
    example = next((v for v in present if not _all_iso([v])), listed[0])
    raise ValueError(
        f"{name} must be dates, numbers or ISO text such as '2026-01-31', got {example!r}. Pass "
        f"{name}={parsing_call(listed, name)}."
    )


def _iso_dates(texts, name):
    """Return dates in ISO text as an array of dates, in UTC where they have a zone."""
    dates = [
        _in_utc(datetime.datetime.fromisoformat(text)) if _ISO_WITH_ZONE.fullmatch(text) else text
        for text in texts
    ]
    try:
        return np.array(dates, dtype="M8[ns]")
    except ValueError as error:  # a month 13
        raise ValueError(f"{name} must be dates, got {texts[0]!r}: {error}.") from error


def _in_utc(date):
    if date is None or date != date:
        return np.datetime64("NaT")
    if getattr(date, "tzinfo", None) is None:
        return date
    return date.astimezone(datetime.UTC).replace(tzinfo=None)


def _all_iso(values):
    """Return whether all values are text of one ISO form."""
    if not values or not all(isinstance(value, str) for value in values):
        return False
    return any(all(map(form.fullmatch, values)) for form in (*_ISO, _ISO_WITH_ZONE))


def parsing_call(values: Any, expression: str) -> str:
    """Return the call that parses dates in text, with all formats that would read all of it.

    ``expression``: how the values are named in the caller's code.
    """
    texts = [value for value in values if isinstance(value, str)][:_N_PARSED]
    if not texts:
        return f"pd.to_datetime({expression}, …)"
    if all(map(_QUARTER.fullmatch, texts)):
        return f"pd.PeriodIndex({expression}, freq='Q')"
    formats = _formats_of(texts)
    if not formats:
        return f"pd.to_datetime({expression}, format=…)"
    calls = [f"pd.to_datetime({expression}, format={form!r})" for form in formats]
    return " or ".join(calls)


def _formats_of(texts):
    """Return all formats that read every one of some dates."""
    lengths = {len(text) for text in texts}
    if all(text.isdigit() for text in texts) and len(lengths) == 1:
        return [_DIGIT_FORMATS[n] for n in lengths if n in _DIGIT_FORMATS]
    return [form for form in _FORMATS if all(_is_of_form(text, form) for text in texts)]


def _is_of_form(text, form):
    try:
        datetime.datetime.strptime(text, form)
    except ValueError:
        return False
    return True


# -- the order of rows ----------------------------------------------------------------------------


def holds_dates(values: Any) -> bool:
    """Return whether an index, a series or a list certainly holds dates, periods or ISO text."""
    if values is None or isinstance(values, str) or not np.iterable(values):
        return False
    dtype = str(getattr(values, "dtype", "object"))
    if dtype.startswith(("datetime64", "period")):
        return True
    if dtype not in ("object", "str", "string") and not dtype.startswith("<U"):
        return False
    listed = list(values)
    is_date = bool(listed) and all(
        isinstance(value, datetime.date | np.datetime64) for value in listed
    )
    return is_date or _all_iso(listed)


def date_level(index: Any) -> Any:
    """Return the index if it certainly holds dates, or its only level that does; None if not."""
    if not hasattr(index, "levels"):
        return index if holds_dates(index) else None
    levels = [i for i, level in enumerate(index.levels) if holds_dates(level)]
    return index.get_level_values(levels[0]) if len(levels) == 1 else None


def index_dates(X: Any, name: str = "X") -> Array | None:
    """Return the dates in the index of a frame as numbers, or None if its rows have no dates.

    Raises
    ------
    ValueError
        If the index orders the records in another way than the rows do, or may hold dates in a
        form that is not certain: rows would be taken in an undeclared order.
    """
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "is_monotonic_increasing"):  # not a frame of pandas
        return None
    dates = date_level(index)
    if dates is not None:
        return _ascending_dates(dates, name)
    is_numeric = not hasattr(index, "levels") and not _holds_text(index)
    if is_numeric and index.is_monotonic_increasing and index.is_unique:
        return None
    raise _undated_index_error(index, name)


def _ascending_dates(dates, name):
    """Return the dates of an index as numbers; missing ones and clocks set back are errors."""
    if getattr(dates, "hasnans", False):
        raise ValueError(
            f"correlation='time' and chains need the date of each record, got dates in the "
            f"index of {name} that are missing (NaT): drop them. Do the same with the targets."
        )
    values = date_numbers(dates, f"{name}.index")
    steps = np.diff(values)
    if len(steps) and np.timedelta64(-1, "h") <= steps.min() < np.timedelta64(0, "ns"):
        raise ValueError(
            f"the index of {name} goes back by at most an hour. If clocks were set back, pass "
            f"{name}.tz_localize('Europe/Berlin', ambiguous='infer') with your zone. "
            f"Otherwise, pass {name}.sort_index() and the targets in the same order."
        )
    return values


def _holds_text(index):
    """Return whether an entry of an index is text."""
    return any(isinstance(value, str) for value in index.tolist())


def _undated_index_error(index, name):
    """Return the error of an index that shows no order in time: levels, text, or other numbers."""
    in_order = f"{name}.reset_index(drop=True) if the rows are one series in time order"
    if hasattr(index, "levels"):
        levels = [i for i, level in enumerate(index.levels) if holds_dates(level)]
        problem = f"{len(levels)} levels of dates" if levels else "no level that must be dates"
        return ValueError(
            f"{name} has a MultiIndex with {problem}. Pass times=, one date per record, such as "
            f"times={_level_call(index, name)}, or pass {in_order}."
        )
    values = index.tolist()
    examples = ", ".join(map(repr, values[:_SHOWN])) + ", …" * (len(values) > _SHOWN)
    if _holds_text(index):
        return ValueError(
            f"{name} has an index of text ({examples}), which does not show the order of its rows. "
            f"If it holds dates, set {name}.index = {parsing_call(values, name + '.index')}. "
            f"Otherwise, pass {in_order}. The holdout was not queried."
        )
    problem = "that repeats" if index.is_monotonic_increasing else "that does not ascend"
    return ValueError(
        f"{name} has an index {problem} ({examples}), so its rows may not be in time order. If it "
        f"counts years, days or other dates, pass times={name}.index. If its order is right, pass "
        f"{name}.sort_index() and the targets in the same order. Otherwise, pass {in_order}. The "
        "holdout was not queried."
    )


def _level_call(index, name):
    """Return a call that reads dates from the most likely level of a MultiIndex."""
    for i, level in enumerate(index.levels):
        values = level.tolist()
        key = level.name if level.name is not None else i
        expression = f"{name}.index.get_level_values({key!r})"
        call = parsing_call(values, expression)
        if values and "…" not in call and all(isinstance(value, str) for value in values):
            return call
        if holds_dates(level) or _are_years(values):
            return expression
    return f"pd.to_datetime({name}.index.get_level_values(…))"


def _are_years(values):
    """Return whether all values look like years."""
    return bool(values) and all(isinstance(v, int) and 1000 <= v < 3000 for v in values)


# -- spans of time --------------------------------------------------------------------------------


def as_time_span(value: Any, name: str) -> Any:
    """Return a span of time as ``timedelta64[ns]`` or a pandas offset, or None for a number.

    Read are timedeltas of Python, numpy and pandas, text such as ``"7D"``, and offsets of pandas.
    """
    pandas = sys.modules.get("pandas")
    rule = (
        f"{name} must be a number of dates, or a positive span of time such as '7D', "
        f"pandas.Timedelta('7D') or pandas.DateOffset(months=1), got {value!r}."
    )
    span: Any = _parse_span(value, pandas, rule) if isinstance(value, str) else value
    if isinstance(span, np.timedelta64) and np.datetime_data(span)[0] in ("generic", "M", "Y"):
        raise ValueError(rule)
    if isinstance(span, datetime.timedelta | np.timedelta64):
        span = np.timedelta64(span).astype("m8[ns]")
        if not span > np.timedelta64(0, "ns"):
            raise ValueError(rule)
        return span
    if pandas is not None and isinstance(span, pandas.tseries.offsets.BaseOffset):
        if not pandas.Timestamp("2024-01-15") + span > pandas.Timestamp("2024-01-15"):
            raise ValueError(rule)
        return span
    return None


def _parse_span(text, pandas, rule):
    """Return a span of time in text, such as "7D", or raise ValueError with the rule."""
    match = _SPAN.fullmatch(text.strip())
    if match is not None:
        return datetime.timedelta(**{_SPAN_UNITS[match[2]]: int(match[1])})
    try:
        return pandas.tseries.frequencies.to_offset(text)
    except (AttributeError, ValueError) as error:
        raise ValueError(rule) from error


def shift_dates(dates: Array, span: Any, *, backwards: bool = False) -> Array:
    """Return dates moved by a span of time from :func:`as_time_span`."""
    if not isinstance(span, np.timedelta64):
        index = sys.modules["pandas"].DatetimeIndex(dates)
        moved = [date - span if backwards else date + span for date in index]
        return np.array([date.to_datetime64() for date in moved], dtype="M8[ns]")
    return dates - span if backwards else dates + span


def horizon_in_dates(horizon: Any, dates: Array | None) -> int:
    """Return a horizon as a number of dates, at least 1: of a span of time, the most dates in it.

    ``dates``: those of the records, in any order. They are needed for a span only.
    """
    span = as_time_span(horizon, "horizon")
    if span is None:
        return check_integer("horizon", horizon, low=1)
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"horizon must be a number of dates for records without dates, got {horizon!r}. Pass "
            "times=, or a number."
        )
    calendar = np.unique(dates)
    first = np.searchsorted(calendar, shift_dates(calendar, span, backwards=True))
    return max(1, int((np.arange(len(calendar)) - first).max()))


def step_name(dates: Array) -> str:
    """Return the name of one step in time: ``"day"`` … ``"month"``, else ``"date"``."""
    if dates.dtype.kind != "M" or dates.min() == dates.max():
        return "date"
    step = float(np.median(np.diff(np.unique(dates)) / np.timedelta64(1, "s")))
    names = [name for name, seconds in _STEP_NAMES if abs(step - seconds) < 1e-6 * seconds]
    return names[0] if names else "month" if 28 <= step / 86_400 <= 31 else "date"


def describe_calendar_gaps(dates: Array) -> str:
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
