"""Find a planted raw holdout score wherever it could have been kept or shown.

Give the audit the number that must not get out (and, if there are any, the per-record scores
behind it); then let it look at objects, text, files, pickles and tracebacks:

    audit = LeakAudit(738 / 1009, per_record=hits)
    with audit.watch() as seen:           # stdout, stderr, logging, warnings
        search.fit(X, y)
    audit.check(seen, search, pickle.dumps(search), path_of_ledger)

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

__all__ = ["Finding", "LeakAudit", "Seen"]

_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)
_DIGITS = 7  # of a decimal expansion: enough to exclude chance, few enough to meet rounded text


@dataclasses.dataclass(frozen=True)
class Finding:
    """Location and form of a raw score that the audit found."""

    where: str
    what: str


@dataclasses.dataclass
class Seen:
    """Output, logs and warnings of a block of code."""

    stdout: str = ""
    stderr: str = ""
    logs: str = ""
    warnings: str = ""


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
        self.texts = {f"{value:.{_DIGITS}f}"[1:] for value in values}
        self.texts |= {repr(value)[1 : _DIGITS + 2] for value in values}
        self.texts |= {f"{100 * value:.{_DIGITS - 2}f}"[1:] for value in values}
        self.packs = [struct.pack(code, value) for value in values for code in ("<d", ">d")]
        for row in self.rows:
            self.packs.append(np.ascontiguousarray(row, dtype=float).tobytes())
            if row.dtype == bool or np.isin(row, (0, 1)).all():
                self.packs.append(np.ascontiguousarray(row, dtype=np.uint8).tobytes())
                self.packs.append(np.ascontiguousarray(row, dtype=np.int64).tobytes())

    # -- searching -------------------------------------------------------------------------------

    def check(self, *things):
        """Raise AssertionError if any of the things holds a raw score."""
        findings = self.find(*things)
        assert not findings, "raw holdout scores found:\n" + "\n".join(map(str, findings))

    def find(self, *things):
        """Return all findings in objects, texts, bytes, paths, exceptions and ``Seen``."""
        findings = []
        for number, thing in enumerate(things):
            name = f"{number}:{type(thing).__name__}"
            findings += list(self._walk(thing, name, set(), 0))
            for label, shown in _shown(thing):
                findings += self._in_text(shown, f"{name} {label}")
            with contextlib.suppress(Exception):
                findings += self._in_bytes(pickle.dumps(thing), f"{name} pickled")
        return findings

    @contextlib.contextmanager
    def watch(self):
        """Record everything that is printed, logged (at any level) or warned about."""
        seen = Seen()
        out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
        handler = logging.StreamHandler(log)
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(0)
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always")
                yield seen
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            seen.stdout, seen.stderr, seen.logs = out.getvalue(), err.getvalue(), log.getvalue()
            seen.warnings = "\n".join(str(entry.message) for entry in caught)

    def check_error(self, error, *, callers=()):
        """Raise AssertionError if an exception, its causes or their frames hold a raw score.

        ``callers`` are the files whose own frames are excused: the test that holds the scores.
        """
        excused = {str(pathlib.Path(caller)) for caller in callers}
        findings, known = [], set()
        while error is not None and id(error) not in known:
            known.add(id(error))
            findings += self._in_text(f"{error!r} {error}", f"message of {type(error).__name__}")
            findings += list(self._walk(vars(error), "attributes of the error", set(), 0))
            findings += list(self._walk(error.args, "arguments of the error", set(), 0))
            trace = error.__traceback__
            while trace is not None:
                frame = trace.tb_frame
                if frame.f_code.co_filename not in excused:
                    where = f"frame of {frame.f_code.co_qualname}"
                    findings += list(self._walk(dict(frame.f_locals), where, set(), 0))
                trace = trace.tb_next
            error = error.__cause__ or error.__context__
        assert not findings, "raw holdout scores found:\n" + "\n".join(map(str, findings))

    # -- looking ----------------------------------------------------------------------------------

    def _walk(self, thing, where, known, depth):
        """Look at an object and everything it refers to."""
        if depth > 40 or isinstance(thing, _SKIPPED) or id(thing) in known:
            return
        if isinstance(thing, str):
            yield from self._in_text(thing, where)
        elif isinstance(thing, bytes | bytearray | memoryview):
            yield from self._in_bytes(bytes(thing), where)
        elif isinstance(thing, bool | int | complex | None.__class__):
            return
        elif isinstance(thing, float | np.floating):
            yield from self._in_numbers(np.array([float(thing)]), where)
        elif isinstance(thing, pathlib.PurePath):
            yield from self._in_files(pathlib.Path(thing), where)
        else:
            known.add(id(thing))
            self._alive = thing  # ids of collected objects would be used again
            for name, part in self._parts(thing, where):
                yield from self._walk(part, name, known, depth + 1)
            if isinstance(thing, np.ndarray | array.array) or hasattr(thing, "__array__"):
                yield from self._in_array(thing, where)

    def _parts(self, thing, where):
        """Yield names and parts of an object."""
        if isinstance(thing, collections.abc.Mapping):
            for key, part in list(thing.items()):
                yield f"{where}[key]", key
                yield f"{where}[{key!r:.40}]", part
        elif isinstance(thing, list | tuple | set | frozenset | collections.deque):
            yield from ((f"{where}[{index}]", part) for index, part in enumerate(thing))
        elif isinstance(thing, sqlite3.Connection):
            yield f"{where} database", _database(thing)
        elif isinstance(thing, types.FunctionType | types.MethodType):
            function = getattr(thing, "__func__", thing)
            yield f"{where} self", getattr(thing, "__self__", None)
            yield f"{where} defaults", (function.__defaults__, function.__kwdefaults__)
            for cell in function.__closure__ or ():
                with contextlib.suppress(ValueError):
                    yield f"{where} closure", cell.cell_contents
        elif isinstance(thing, np.ndarray) and thing.dtype.hasobject:
            yield f"{where} elements", thing.ravel().tolist()
        elif isinstance(thing, BaseException):
            yield f"{where} args", thing.args
        with contextlib.suppress(TypeError):
            yield from ((f"{where}.{name}", part) for name, part in list(vars(thing).items()))
        for kind in type(thing).__mro__:
            for name in _slots(kind):
                if hasattr(thing, name):
                    yield f"{where}.{name}", getattr(thing, name)

    def _in_array(self, thing, where):
        with contextlib.suppress(Exception):
            numbers = np.asarray(thing)
            if numbers.dtype.kind in "fiub":
                for row in self.rows:
                    if numbers.size == row.size and np.array_equal(numbers.ravel(), row):
                        yield Finding(where, "per-record scores")
                if numbers.dtype.kind == "f":
                    yield from self._in_numbers(numbers.ravel().astype(float), where)

    def _in_numbers(self, numbers, where):
        near = np.searchsorted(self.values, numbers)
        for shift in (-1, 0):
            close = self.values[np.clip(near + shift, 0, self.values.size - 1)]
            if np.any(np.abs(numbers - close) <= 1e-9):
                yield Finding(where, "number")
                return

    def _in_text(self, text, where):
        return [Finding(where, f"digits {part}") for part in sorted(self.texts) if part in text]

    def _in_bytes(self, data, where):
        found = [Finding(where, "bytes") for pack in self.packs if pack in data]
        for part in sorted(self.texts):
            if part.encode() in data or part.encode("utf-16-le") in data:
                found.append(Finding(where, f"digits {part}"))
        return found

    def _in_files(self, path, where):
        files = [path, *path.parent.glob(f"{path.name}*")] if path.name else []
        for file in files:
            if file.is_file():
                yield from self._in_bytes(file.read_bytes(), f"{where} {file.name}")


def _shown(thing):
    """Yield the label and text of each representation of an object."""
    for label, show in (("repr", repr), ("str", str)):
        with contextlib.suppress(Exception):
            yield label, show(thing)
    for label in ("_repr_html_", "_repr_mimebundle_"):
        with contextlib.suppress(Exception):
            yield label, str(getattr(thing, label)())


def _slots(kind):
    names = kind.__dict__.get("__slots__", ())
    return (names,) if isinstance(names, str) else names


def _database(connection):
    """Return the bytes of a database, in memory or in a file."""
    try:
        return connection.serialize()
    except sqlite3.Error:
        return b""
