"""Dates of records: what certainly is one, how they are ordered, and how far apart they lie."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

from sklearn_bdp._checks import check_integer
from sklearn_bdp._typing import Array

# A day, with or without a time, or a month; '20150101' could as well be a number or a year.
_ISO = (
    re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?|NaT"),
    re.compile(r"\d{4}-\d\d|NaT"),
)
_NAMED = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 7 * 86_400))


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
        found = [
            np.datetime64("NaT") if v is None or v != v
            else v.astimezone(datetime.UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None)
            else v
            for v in listed
        ]  # fmt: skip
        return np.array(found, dtype="M8[ns]").reshape(values.shape)
    texts = all(isinstance(v, str) for v in listed)
    if texts and any(all(map(form.fullmatch, listed)) for form in _ISO):
        return np.array(listed, dtype="M8[ns]").reshape(values.shape)
    shown = next((v for v in present if not _is_iso(v)), listed[0])
    raise ValueError(
        f"{name} must be dates, numbers or ISO text such as '2026-01-31', got {shown!r}. Text "
        "without an order does not tell which date is later. Pass "
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
    if hasattr(index, "levels"):
        levels = [k for k, level in enumerate(index.levels) if is_dates(level)]
        if len(levels) == 1:
            return index.get_level_values(levels[0])
        count = "no level" if not levels else f"{len(levels)} levels"
        raise ValueError(
            f"{name} has a MultiIndex of which {count} certainly holds dates, so that its rows "
            "cannot be put in time order. Pass times=, one date per record, as "
            f"pd.to_datetime({name}.index.get_level_values(…)), or "
            f"{name}.reset_index(drop=True) if its rows are one series in time order."
        )
    if is_dates(index):
        return index
    if getattr(index, "dtype", None) is not None and len(index):
        texts = [v for v in list(index) if isinstance(v, str)]
        if len(texts) == len(index) and all(_is_iso(v) or v.isdigit() for v in texts):
            raise ValueError(
                f"{name} has an index of text, such as {texts[0]!r}, which may be dates. Set "
                f"{name}.index = pd.to_datetime({name}.index), or use "
                f"{name}.reset_index(drop=True) if its rows are one series in time order."
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
            f"horizon must be a number of dates for records without dates, got {horizon!r}. Pass "
            "times=, or records with a DatetimeIndex."
        )
    span = np.timedelta64(horizon).astype("m8[ns]")
    if not span >= np.timedelta64(0, "ns"):
        raise ValueError(f"horizon must be a span of time of at least 0, got {horizon!r}.")
    known = np.unique(dates)
    return int((np.arange(len(known)) - np.searchsorted(known, known - span)).max())


def step_of(dates: Array) -> str:
    """Return what one step in time is called: ``"day"`` … ``"month"``, else ``"date"``."""
    if dates.dtype.kind != "M":
        return "date"
    steps = np.diff(np.unique(dates)) / np.timedelta64(1, "s")
    if not len(steps):
        return "date"
    step = float(np.median(steps))
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
