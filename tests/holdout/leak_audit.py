"""Find a planted raw holdout score wherever it could have been kept or shown.

Give the audit the number that must not get out (and, if there are any, the per-record scores
behind it); then let it look at objects, text, files, pickles and tracebacks:

    audit = LeakAudit(738 / 1009, per_record=hits)
    with audit.watch() as output:          # stdout, stderr, logging, warnings
        search.fit(X, y)
    audit.check(output, search, pickle.dumps(search), path_of_ledger)

The audit finds a number if a float lies within 1e-9 of it or of its complement, if a text contains
its digits, or if binary data contain its bytes. Released answers lie on a coarse grid, so
a planted value with many digits does not occur among them by chance.
"""

import array
import collections
import contextlib
import dataclasses
import io
import logging
import pathlib
import pickle
import sqlite3
import struct
import types
import warnings

import numpy as np

__all__ = ["CapturedOutput", "Finding", "LeakAudit"]

_SKIPPED = (
    types.NoneType,
    int,
    complex,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
)
_DIGITS = 7  # of a decimal expansion: enough to exclude chance, few enough to meet rounded text


@dataclasses.dataclass(frozen=True)
class Finding:
    """Location and form of a raw score that the audit found."""

    where: str
    what: str


@dataclasses.dataclass
class CapturedOutput:
    """Output, logs and warnings of a block of code."""

    stdout: str = ""
    stderr: str = ""
    logs: str = ""
    warnings: str = ""


def _packed_records(row):
    """Return the bytes of per-record scores as floats and, if all are 0 or 1, as integers."""
    is_binary = row.dtype == bool or np.isin(row, (0, 1)).all()
    dtypes = (float, np.uint8, np.int64) if is_binary else (float,)
    return [np.ascontiguousarray(row, dtype=dtype).tobytes() for dtype in dtypes]


class LeakAudit:
    """Search for raw scores.

    Parameters
    ----------
    *scores : float
        The planted scores. They need at least ``_DIGITS`` digits that do not occur otherwise.
    per_record : array of shape (m, n) or None
        Per-record scores whose very array must not be kept either.
    """

    def __init__(self, *scores, per_record=None):
        values = {float(score) for score in scores} | {1.0 - float(score) for score in scores}
        self.values = np.array(sorted(values))
        self.rows = [] if per_record is None else [np.asarray(row) for row in per_record]
        fractions = {f"{value:.{_DIGITS}f}"[1:] for value in values}
        representations = {repr(value)[1 : _DIGITS + 2] for value in values}
        percentages = {f"{100 * value:.{_DIGITS - 2}f}"[1:] for value in values}
        self.texts = fractions | representations | percentages
        self.packs = [struct.pack(code, value) for value in values for code in ("<d", ">d")]
        for row in self.rows:
            self.packs += _packed_records(row)

    # -- searching -------------------------------------------------------------------------------

    def check(self, *items):
        """Raise AssertionError if any of the things holds a raw score."""
        findings = self.find(*items)
        assert not findings, "raw holdout scores found:\n" + "\n".join(map(str, findings))

    def find(self, *items):
        """Return all findings in objects, texts, bytes, paths, exceptions and output."""
        findings = []
        for number, item in enumerate(items):
            name = f"{number}:{type(item).__name__}"
            findings += list(self._walk(item, name, set(), 0))
            for label, text in _representations(item):
                findings += self._in_text(text, f"{name} {label}")
            with contextlib.suppress(Exception):
                findings += self._in_bytes(pickle.dumps(item), f"{name} pickled")
        return findings

    @contextlib.contextmanager
    def watch(self):
        """Record everything that is printed, logged (at any level) or warned about."""
        output = CapturedOutput()
        out_stream = io.StringIO()
        err_stream = io.StringIO()
        log_stream = io.StringIO()
        handler = logging.StreamHandler(log_stream)
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(0)
        try:
            with (
                contextlib.redirect_stdout(out_stream),
                contextlib.redirect_stderr(err_stream),
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always")
                yield output
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            output.stdout = out_stream.getvalue()
            output.stderr = err_stream.getvalue()
            output.logs = log_stream.getvalue()
            output.warnings = "\n".join(str(entry.message) for entry in caught)

    def check_error(self, error, *, callers=()):
        """Raise AssertionError if an exception, its causes or their frames hold a raw score.

        ``callers`` are the files whose own frames are excused: the test that holds the scores.
        """
        excused = {str(pathlib.Path(caller)) for caller in callers}
        findings = []
        visited_ids = set()
        while error is not None and id(error) not in visited_ids:
            visited_ids.add(id(error))
            findings += self._in_text(f"{error!r} {error}", f"message of {type(error).__name__}")
            findings += list(self._walk(vars(error), "attributes of the error", set(), 0))
            findings += list(self._walk(error.args, "arguments of the error", set(), 0))
            trace = error.__traceback__
            while trace is not None:
                frame = trace.tb_frame
                if frame.f_code.co_filename not in excused:
                    location = f"frame of {frame.f_code.co_qualname}"
                    findings += list(self._walk(dict(frame.f_locals), location, set(), 0))
                trace = trace.tb_next
            error = error.__cause__ or error.__context__
        assert not findings, "raw holdout scores found:\n" + "\n".join(map(str, findings))

    # -- looking ----------------------------------------------------------------------------------

    def _walk(self, item, location, visited_ids, depth):
        """Look at an object and everything it refers to."""
        if depth > 40 or isinstance(item, _SKIPPED) or id(item) in visited_ids:
            return
        if isinstance(item, str):
            yield from self._in_text(item, location)
        elif isinstance(item, bytes | bytearray | memoryview):
            yield from self._in_bytes(bytes(item), location)
        elif isinstance(item, float | np.floating):
            yield from self._in_numbers(np.array([float(item)]), location)
        elif isinstance(item, pathlib.PurePath):
            yield from self._in_files(pathlib.Path(item), location)
        else:
            visited_ids.add(id(item))
            self._alive = item  # ids of collected objects would be used again
            for name, part in self._parts(item, location):
                yield from self._walk(part, name, visited_ids, depth + 1)
            if isinstance(item, np.ndarray | array.array) or hasattr(item, "__array__"):
                yield from self._in_array(item, location)

    def _parts(self, item, location):
        """Yield names and parts of an object."""
        if isinstance(item, collections.abc.Mapping):
            for key, part in list(item.items()):
                yield f"{location}[key]", key
                yield f"{location}[{key!r:.40}]", part
        elif isinstance(item, list | tuple | set | frozenset | collections.deque):
            yield from ((f"{location}[{index}]", part) for index, part in enumerate(item))
        elif isinstance(item, sqlite3.Connection):
            yield f"{location} database", _database(item)
        elif isinstance(item, types.FunctionType | types.MethodType):
            yield from _function_parts(item, location)
        elif isinstance(item, np.ndarray) and item.dtype.hasobject:
            yield f"{location} elements", item.ravel().tolist()
        elif isinstance(item, BaseException):
            yield f"{location} args", item.args
        yield from _attributes(item, location)

    def _in_array(self, item, location):
        with contextlib.suppress(Exception):
            numbers = np.asarray(item)
            if numbers.dtype.kind in "fiub":
                for row in self.rows:
                    if numbers.size == row.size and np.array_equal(numbers.ravel(), row):
                        yield Finding(location, "per-record scores")
                if numbers.dtype.kind == "f":
                    yield from self._in_numbers(numbers.ravel().astype(float), location)

    def _in_numbers(self, numbers, location):
        insertion_points = np.searchsorted(self.values, numbers)
        for shift in (-1, 0):
            nearest_values = self.values[np.clip(insertion_points + shift, 0, self.values.size - 1)]
            if np.any(np.abs(numbers - nearest_values) <= 1e-9):
                yield Finding(location, "number")
                return

    def _in_text(self, text, location):
        return [
            Finding(location, f"digits {digits}") for digits in sorted(self.texts) if digits in text
        ]

    def _in_bytes(self, data, location):
        findings = [Finding(location, "bytes") for pack in self.packs if pack in data]
        for digits in sorted(self.texts):
            if digits.encode() in data or digits.encode("utf-16-le") in data:
                findings.append(Finding(location, f"digits {digits}"))
        return findings

    def _in_files(self, path, location):
        files = [path, *path.parent.glob(f"{path.name}*")] if path.name else []
        for file in files:
            if file.is_file():
                yield from self._in_bytes(file.read_bytes(), f"{location} {file.name}")


def _representations(item):
    """Yield the label and text of each representation of an object."""
    for label, represent in (("repr", repr), ("str", str)):
        with contextlib.suppress(Exception):
            yield label, represent(item)
    for label in ("_repr_html_", "_repr_mimebundle_"):
        with contextlib.suppress(Exception):
            yield label, str(getattr(item, label)())


def _function_parts(item, location):
    """Yield names and parts of a function: its object, its defaults and its closure."""
    function = getattr(item, "__func__", item)
    yield f"{location} self", getattr(item, "__self__", None)
    yield f"{location} defaults", (function.__defaults__, function.__kwdefaults__)
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield f"{location} closure", cell.cell_contents


def _attributes(item, location):
    """Yield names and values of attributes, also of those in slots."""
    with contextlib.suppress(TypeError):
        yield from ((f"{location}.{name}", part) for name, part in list(vars(item).items()))
    for base_class in type(item).__mro__:
        for name in _slots(base_class):
            if hasattr(item, name):
                yield f"{location}.{name}", getattr(item, name)


def _slots(base_class):
    slots = base_class.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


def _database(connection):
    """Return the bytes of a database, in memory or in a file."""
    try:
        return connection.serialize()
    except sqlite3.Error:
        return b""
