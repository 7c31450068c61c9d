"""The ledger: an append-only hash chain of entries that many processes share.

A batch is decided, recorded and only then released, inside one write lock of the backend, so
processes take turns and a crash at any moment leaves either the whole batch or nothing.

For searches and reports there are notes, in the same chain as the answers: ``note(name, content)``
adds one, ``notes(name)`` returns all notes of a name, and ``read_notes(path, name)`` reads them
before a holdout exists. Notes passed to :class:`Ledger` are stored in the header of a new ledger.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger._sqlite import SQLiteBackend
from sklearn_bdp.ledger.backend import (
    FORMAT,
    FORMATS,
    Backend,
    MemoryBackend,
    Row,
    corrupted_error,
    other_format_error,
)
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.ledger.ledger_state import (
    N_RECENT,
    PAGE_SIZE,
    LedgerState,
    SystemNote,
    parse_entry,
)
from sklearn_bdp.ledger.postgresql import PostgreSQLBackend, is_url
from sklearn_bdp.ledger.records import canonical, parse_json
from sklearn_bdp.utils.hashing import keyed_digest, text_digest
from sklearn_bdp.utils.process import process_user
from sklearn_bdp.utils.validation import strip_traceback_frames

KEY_VARIABLE = "SKLEARN_BDP_LEDGER_KEY"
_SHORTEST_KEY = 16
_OTHER_COLUMNS = "other names, or another number, of columns"
_OTHER_CORRELATION = "correlation= gives {!r:.80} here, {!r:.80} in the ledger"
_PASS_FIRST_ARGUMENTS = "Pass the arguments of the first call."
_OTHER_DATA_FIX = (
    f"{_PASS_FIRST_ARGUMENTS} Put new features in a transformer of the pipeline. New records need "
    "their own ledger (a new path), or are added to the training rows. A second ledger of the same "
    "records does not know the answers in the first."
)
#: Parameters of a header that are arguments of ``HoldoutConfig``; beta as ``confidence_level``.
_CONFIG_ARGUMENTS = ("confidence_level", "budget", "epsilon", "spending")
_INDEPENDENT = "independent records"  # description of correlation=None
_LOGGER = logging.getLogger("sklearn_bdp")  # events, never a value
_LOGGER.addHandler(logging.NullHandler())


class Chain:
    """Hash chain: the digest of each entry covers the entry and the digest before it.

    Without a key in the environment variable ``SKLEARN_BDP_LEDGER_KEY`` everybody can compute the
    digests (SHA-256), so an edited ledger with recomputed digests passes verification in a process
    that has not seen the original. With a key (HMAC-SHA256) only owners of the key can compute
    them.
    """

    def __init__(self):
        key = os.environ.get(KEY_VARIABLE, "")
        if key and len(key) < _SHORTEST_KEY:
            raise LedgerError(
                f"{KEY_VARIABLE} must have at least {_SHORTEST_KEY} characters, got {len(key)}. "
                "The holdout was not queried."
            )
        self._key = key.encode("utf-8", "surrogateescape")
        #: Kind of chain in the header of a ledger.
        self.kind = "hmac-sha256" if key else "sha256"

    def link(self, *texts):
        """Return the digest of a link, a hexadecimal text.

        ``texts``: ``"header"`` and the text of a header, or the digest of the previous entry and
        the kind, content, answers and commitment of an entry.
        """
        digest = text_digest(*texts)
        if not self._key:
            return digest
        return keyed_digest(self._key, digest)


def backend_at(location: Any, *, timeout: float = 60.0) -> Backend:
    """Return the backend of a location: a path, a URL, a backend, or None for memory.

    ``timeout``: longest wait of the backend for a lock or a server, in seconds.
    """
    if location is None:
        return MemoryBackend()
    if isinstance(location, Backend):
        return location
    if is_url(location):
        return PostgreSQLBackend(location, timeout=timeout)
    return SQLiteBackend(Path(location).absolute(), timeout=timeout)


class Ledger:
    """Ledger of one holdout, with the state that this process has verified.

    Parameters
    ----------
    location : str, Path, LedgerURL, Backend or None
        A path, a URL or a backend. ``None``: the memory of this process.
    header : dict or None
        Fingerprints and parameters of the holdout, which the header of the ledger must match.
        ``None``: an existing ledger is read, and none is created.
    create : bool
        Whether a missing ledger is created, if there is a ``header``.
    timeout : float
        Longest wait for other threads and processes, in seconds.
    head : tuple of int and str, or None
        Number and digest of an entry that the ledger must contain.
    notes : dict or None
        JSON contents of the notes that a new ledger starts with, by name (:class:`SystemNote` or
        str).
    older_data : callable or None
        Function without arguments that returns the digest of the records as version 0.1 computed
        it. The header of an upgraded ledger has that digest.
    checks_head : bool
        Whether the stored head must be the last entry. False only for repairs.
    """

    def __init__(
        self,
        location,
        *,
        header=None,
        create=True,
        timeout=60.0,
        head=None,
        notes=None,
        older_data=None,
        checks_head=True,
    ):
        self.backend = backend_at(location, timeout=timeout)
        self.timeout = float(timeout)
        self._checks_head = checks_head
        self._expected_header = header
        self._older_data = older_data
        #: Number and digest of an entry that the chain must contain when it is read next, or None.
        self._expected_head = head
        self._chain = Chain()
        self._state: Any = None  # LedgerState that this process has verified, or None
        #: JSON text of the latest secret state (noise of the threshold in use); never shown.
        self.secret_text: str | None = None
        #: Contents of the notes of this package that the holdout passed, by name.
        self._system_notes = {
            name.value: note_content
            for name, note_content in (notes or {}).items()
            if isinstance(name, SystemNote)
        }
        self._is_marking = False  # whether the note of a move is being written
        self._is_secret_withheld = False  # whether this user may not read the secret state
        self._lock, self._owner_pid = threading.Lock(), os.getpid()
        if create and header is not None:
            user_notes = {
                name: note_content
                for name, note_content in (notes or {}).items()
                if not isinstance(name, SystemNote)
            }
            ledger_fields = {
                "chain": self._chain.kind,
                "facts": self._system_notes,
                "format": FORMAT,
                "notes": user_notes,
            }
            header_text = canonical(header | ledger_fields)
            self.backend.create(header_text, self._chain.link("header", header_text))
        with self.transaction() as ledger_state:  # verifies the whole chain
            self.header = ledger_state.header
            if header is not None:  # without one the caller only reads, also a moved ledger
                self._check_not_moved(ledger_state)
            n_entries = ledger_state.head[0]
        _LOGGER.info("ledger %s: opened, entries: %d", self.backend, n_entries)

    def __repr__(self) -> str:
        return f"Ledger({self.backend})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last entry this process has verified.

        After an error, the chain must contain this entry when it is read again.
        """
        return self._expected_head if self._state is None else self._state.head

    def close(self) -> None:
        """Close the connection of this process; the next transaction opens it again."""
        self.backend.close()

    def verify(self) -> LedgerState:
        """Parse and check every entry, also those that opening a ledger does not parse.

        Returns
        -------
        LedgerState
            State of the ledger.

        Raises
        ------
        LedgerCorruptedError
            If an entry cannot be parsed or does not follow from the entries before it.
        """
        with self.transaction() as ledger_state:
            totals = LedgerTotals()
            for row in ledger_state.rows():
                try:
                    entry = parse_entry(row, previous_totals=totals)
                except Exception:  # its content may be arbitrary
                    entry = None
                if entry is None:
                    raise corrupted_error(self.backend, f"entry {row.number} cannot be read")
                if entry.record is not None:
                    totals = entry.record.totals
            return ledger_state

    @contextlib.contextmanager
    def verified_state(self) -> Iterator[LedgerState]:
        """Yield the state that this process has verified so far, under its thread lock.

        The backend is read only if this process has no state yet, or lost it by an error.
        """
        self.backend.check_process()
        if self._owner_pid != os.getpid():  # after a fork: the holder of the lock is not here
            self._lock, self._owner_pid = threading.Lock(), os.getpid()
        is_locked = False
        try:
            is_locked = self._lock.acquire(timeout=self.timeout)
            if not is_locked:
                raise LedgerBusyError(
                    f"another thread held the ledger for more than {self.timeout:g} s. The holdout "
                    "was not queried. Try again."
                )
            if self._state is None:
                self._catch_up()
            yield self._state
        except BaseException:
            # An interrupt may have left half an entry in the state: the chain is read again.
            if is_locked and self._state is not None:
                self._expected_head = self._state.head
                self._state = None
            raise
        finally:
            if is_locked:
                self._lock.release()

    def mark_moved(self, target: str | None) -> None:
        """Record that the ledger was moved: from then on it answers no query.

        Parameters
        ----------
        target : str or None
            New location, as in messages. ``None`` withdraws an earlier mark.
        """
        self._is_marking = True
        try:
            with self.transaction(write=True) as ledger_state:
                ledger_state.note(SystemNote.MOVED, {"to": target})
        finally:
            self._is_marking = False

    def _check_not_moved(self, ledger_state):
        """Raise LedgerUnavailableError if the ledger was moved, unless a move is being recorded."""
        target = ledger_state.moved_to()
        if target is not None and not self._is_marking:
            raise LedgerUnavailableError(
                f"ledger {self.backend} was moved to {target}. Use it there. If the move "
                "was interrupted, run it again: python -m sklearn_bdp ledger move. The holdout was "
                "not queried."
            )

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[LedgerState]:
        """Yield the state of the ledger after all entries of the backend were read and verified.

        With ``write=True`` the transaction holds the lock of the backend, and the state can append
        one entry. Then LedgerUnavailableError is raised if the ledger was moved, or if this user
        may not read the secret state.
        """
        with self.verified_state():
            if not write:
                self._catch_up()
                yield self._state
                return
            with self.backend.lock(self.timeout):
                self._catch_up()
                self._check_not_moved(self._state)
                if self._is_secret_withheld:  # newly drawn noise would leak more than is charged
                    raise LedgerUnavailableError(
                        f"ledger {self.backend}: this user may not read the sealed noise of the "
                        "threshold in use, and therefore not query the holdout. The holdout was "
                        "not queried."
                    )
                self._state._write = self._write
                try:
                    yield self._state
                finally:
                    del self._state._write

    def _catch_up(self):
        """Read and verify the entries that this process has not verified, and set the state.

        Raises LedgerError if the ledger is missing, damaged, of another format or of another
        holdout.
        """
        ledger_state = self._state
        while True:
            contents = self.backend.read(
                0 if ledger_state is None else ledger_state.head[0], PAGE_SIZE
            )
            if contents is None:
                raise LedgerUnavailableError(
                    f"ledger {self.backend} was not found. It is not created anew, because that "
                    "would reset the budget."
                )
            if ledger_state is None:
                ledger_state = self._open(contents)
            if contents.known_digest != ledger_state.head[1]:
                raise corrupted_error(self.backend, "entries seen earlier are missing")
            for row in contents.rows:
                is_recent = ledger_state.head[0] >= contents.head[0] - N_RECENT
                last_number, last_digest = ledger_state.head
                self._verify(row, last_number + 1, last_digest, checks_secret=is_recent)
                self._add(ledger_state, row, is_recent=is_recent)
                self._is_secret_withheld = row.secret_text is None
                self.secret_text = row.secret_text or self.secret_text
            if len(contents.rows) < PAGE_SIZE:
                break
        if self._checks_head and ledger_state.head != contents.head:
            raise corrupted_error(self.backend, "its log and its head do not agree")
        self._read_latest_record(ledger_state)
        self._check_expected_head(ledger_state)  # if this raises, the expected head is kept
        self._state = ledger_state
        self._expected_head = None

    def _check_expected_head(self, ledger_state):
        """Raise LedgerCorruptedError if a state lacks the entry ``self._expected_head``, if any."""
        if self._expected_head is not None and self._expected_head[0] > 0:
            number, digest = self._expected_head
            if number > len(ledger_state.digests) or ledger_state.digests[number - 1] != digest:
                raise corrupted_error(self.backend, "entries seen earlier are missing")

    def _add(self, ledger_state, row, *, is_recent):
        """Add a verified row to a state; raise LedgerCorruptedError if it cannot be parsed.

        ``is_recent``: whether the row is parsed if it is a batch. Notes are always parsed.
        """
        try:
            ledger_state.add(row, is_recent=is_recent)
            return
        except Exception:  # its content may be arbitrary
            number = row.number
        raise corrupted_error(self.backend, f"entry {number} cannot be read")

    def _read_latest_record(self, ledger_state):
        """Set latest record and totals of a state; raise LedgerCorruptedError if that fails."""
        try:
            ledger_state.read_latest_record()
            return
        except Exception:  # its content may be arbitrary
            number = ledger_state.head[0]
        raise corrupted_error(self.backend, f"entry {number} cannot be read")

    def _verify(self, row, number, previous_digest, *, checks_secret=True):
        """Raise LedgerCorruptedError unless a row is entry ``number`` of the chain.

        ``previous_digest``: digest of the entry before, or of the header. ``checks_secret``:
        whether the secret state, unless it is None, must match its commitment.
        """
        stored_number, entry_kind, content, answers, secret_text, commitment, digest = row
        is_intact = (
            stored_number == number
            and type(entry_kind) is type(content) is type(answers) is type(commitment) is str
            and (secret_text is None or type(secret_text) is str)
            and (secret_text is None or not checks_secret or text_digest(secret_text) == commitment)
            and self._chain.link(previous_digest, entry_kind, content, answers, commitment)
            == digest
        )
        if not is_intact:
            raise corrupted_error(self.backend, f"the chain breaks at entry {number}")

    def _load_rows(self, after_number, limit):
        """Return the rows of entries with numbers above ``after_number``, at most ``limit``.

        Raise LedgerCorruptedError unless they are the entries that were verified earlier.
        """
        rows = self.backend.read(after_number, limit).rows[:limit]
        for number, row in enumerate(rows, after_number + 1):
            self._verify(row, number, self._state.digest_before(number))
            if row.digest != self._state.digests[number - 1]:
                raise corrupted_error(self.backend, f"entry {number} was replaced")
        if len(rows) < min(limit, self._state.head[0] - after_number):
            raise corrupted_error(self.backend, "entries seen earlier are missing")
        return rows

    def _write(self, entry_kind, content, answers, secret_text):
        """Write the next entry, and return it as an :class:`Entry`.

        ``entry_kind``: "batch", "note" or "fact". ``content``: the :class:`BatchRecord` of a batch,
        or the JSON text of a note. ``answers``: the :class:`Answers` of a batch, or ().
        ``secret_text``: JSON text of the secret state, empty if the entry does not change it.
        """
        self._state._write = None  # a transaction writes one entry
        if entry_kind == "batch":
            user = process_user()
            content = dataclasses.replace(content, user=user)
            answers = answers.with_user(user) if answers else answers
            content_text = content.to_json()
        else:
            content_text = content
        last_number, last_digest = self._state.head
        number = last_number + 1
        answers_text = answers.to_json() if answers else "[]"
        commitment = text_digest(secret_text)
        digest = self._chain.link(last_digest, entry_kind, content_text, answers_text, commitment)
        row = Row(number, entry_kind, content_text, answers_text, secret_text, commitment, digest)
        # The same row with objects in place of their texts, which are not parsed again.
        row_of_objects = row._replace(content=content, answers=answers or answers_text)
        # Raises before anything is written, if the entry does not follow.
        entry = parse_entry(row_of_objects, previous_totals=self._state.totals)
        self.backend.append(self._state.head, row)
        self._state.add_entry(row, entry)
        self.secret_text = secret_text or self.secret_text
        self._log(entry)
        return entry

    def _log(self, entry):
        """Log that an entry was recorded, with the number of answers and without scores."""
        if entry.record is None:
            _LOGGER.debug("ledger %s: note recorded", self.backend)
            return
        n_answers = len(entry.answers)
        n_corrected = int(entry.answers.columns["corrected"].sum()) if n_answers else 0
        _LOGGER.debug(
            "ledger %s: batch %d of user %s recorded, answers: %d, corrected: %d",
            self.backend, entry.record.totals.number, entry.record.user, n_answers, n_corrected,
        )  # fmt: skip
        if entry.record.totals.closed:
            _LOGGER.info("ledger %s: closed by the final report", self.backend)

    def _open(self, contents):
        """Return a :class:`LedgerState` without entries, after checking the header of the ledger.

        ``contents``: :class:`LedgerContents` of the backend.
        """
        header = None
        expected_header = self._expected_header
        with contextlib.suppress(Exception):  # its content may be arbitrary
            header = parse_json(contents.header)
        if not isinstance(header, dict):
            raise corrupted_error(self.backend, "its header is missing")
        # Ledgers of an earlier format can be read, but not used by a holdout.
        is_readable = expected_header is None and header.get("format") in FORMATS
        if header.get("format") != FORMAT and not is_readable:
            raise other_format_error(self.backend, header.get("format"), header.get("made_by"))
        self._check_chain(header, contents)
        problems = [] if expected_header is None else self._differences(expected_header, header)
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.backend} belongs to another holdout: {' and '.join(problems)}. "
                f"{self._fix_text(expected_header, header)} The holdout was not queried."
            )
        # A header of another version may lack fields.
        with contextlib.suppress(KeyError, AttributeError, ValueError):
            return LedgerState(header, contents.header_digest, self._load_rows)
        raise corrupted_error(self.backend, "its header cannot be read")

    def _check_chain(self, header, contents):
        """Raise LedgerError unless ledger and process have the same key, or both have none."""
        if header.get("chain") != self._chain.kind:
            ledger_has_key = header.get("chain") == "hmac-sha256"
            fix_text = (
                "set to its key" if ledger_has_key else "unset, to trust a ledger that has no key"
            )
            raise LedgerError(
                f"ledger {self.backend}: the environment variable {KEY_VARIABLE} must be "
                f"{fix_text}. The holdout was not queried."
            )
        if self._chain.link("header", contents.header) != contents.header_digest:
            problem = f"its header was edited, or sealed with another {KEY_VARIABLE}"
            raise corrupted_error(self.backend, problem)

    def _differences(self, expected_header, header):
        """Return texts on how the expected header differs from ``header``, that of the ledger.

        The list is empty if the headers agree. If the records differ, it has one text on the
        records. Otherwise it has one text for each difference.
        """
        if not self._has_same_data(expected_header, header):
            return [f"other data ({self._data_difference(expected_header, header)})"]
        differences = []
        if _has_other_columns(expected_header, header):
            differences.append(_OTHER_COLUMNS)
        if expected_header["correlation"] != header.get("correlation"):
            differences.append(_describe_other_correlation(expected_header, header))
        for name, value, ledger_value in _other_parameters(expected_header, header):
            differences.append(f"{name}={value!r} here, {ledger_value!r:.80} in the ledger")
        return differences

    def _fix_text(self, expected_header, header):
        """Return sentences that advise the user how to make ``expected_header`` match ``header``.

        They contain values of ``header``, that of the ledger, only if all differences are in
        arguments of ``HoldoutConfig`` or in ``correlation=None``.
        """
        if not self._has_same_data(expected_header, header):
            return _OTHER_DATA_FIX
        if _has_other_columns(expected_header, header):
            return _PASS_FIRST_ARGUMENTS
        arguments = []
        if expected_header["correlation"] != header.get("correlation"):
            if header.get("described") != _INDEPENDENT:
                return _PASS_FIRST_ARGUMENTS
            arguments.append("correlation=None")
        for name, _, ledger_value in _other_parameters(expected_header, header):
            if name not in _CONFIG_ARGUMENTS:
                return _PASS_FIRST_ARGUMENTS
            arguments.append(f"{name}={ledger_value!r:.80}")
        return f"Set {', '.join(arguments)}, as in the first call."

    def _data_difference(self, expected_header, header):
        """Return a text on how the records differ from those in the ledger, by both headers."""
        n_holdout = _n_holdout_records(expected_header)
        n_in_ledger = _n_holdout_records(header)
        if None not in (n_holdout, n_in_ledger) and n_holdout != n_in_ledger:
            return f"{n_holdout} holdout records here, {n_in_ledger} in the ledger"
        if _has_other_columns(expected_header, header):
            return _OTHER_COLUMNS
        if expected_header["correlation"] != header.get("correlation"):
            return _describe_other_correlation(expected_header, header)
        targets_note_name = SystemNote.TARGETS.value
        targets_digest = self._system_notes.get(targets_note_name)
        targets_digest_in_ledger = (header.get("facts") or {}).get(targets_note_name)
        if None in (targets_digest, targets_digest_in_ledger):
            return "as many records, with other values or in another order, in X or y"
        if targets_digest != targets_digest_in_ledger:
            return "other values or another order of y"
        return "the same y, with other values in X, another test_size or another random_state"

    def _has_same_data(self, expected_header, header):
        """Return whether the header of a ledger has the digest of the expected records."""
        if expected_header["data"] == header.get("data"):
            return True
        is_upgraded = "upgraded_from" in header and self._older_data is not None
        return is_upgraded and self._older_data() == header.get("data")


def _has_other_columns(expected_header, header):
    """Return whether two headers have different digests of column names; False if one has none."""
    names_digest = expected_header.get("columns")
    names_digest_in_ledger = header.get("columns")
    has_both = None not in (names_digest, names_digest_in_ledger)
    return has_both and names_digest != names_digest_in_ledger


def _n_holdout_records(header):
    """Return the number of holdout records that a header states, or None."""
    settings = header.get("settings")
    return settings.get("n") if isinstance(settings, dict) else None


def _describe_other_correlation(expected_header, header):
    """Return a text with the descriptions of ``correlation=`` in two headers."""
    return _OTHER_CORRELATION.format(expected_header.get("described"), header.get("described"))


def _other_parameters(expected_header, header):
    """Return name, expected value and value in the ledger of each parameter that differs.

    The result is a list of tuples. A ``beta`` in both headers is converted to a
    ``confidence_level``. A value that the ledger lacks is None.
    """
    ledger_parameters = header.get("parameters")
    if not isinstance(ledger_parameters, dict):
        ledger_parameters = {}
    other_parameters = []
    # Through JSON, like those of the ledger: tuples become lists.
    expected_parameters = json.loads(json.dumps(expected_header["parameters"]))
    for name, value in expected_parameters.items():
        ledger_value = ledger_parameters.get(name)
        if value == ledger_value:
            continue
        if name == "beta" and isinstance(ledger_value, float):  # beta = 1 - confidence_level
            name = "confidence_level"
            value = float(1 - Decimal(str(value)))
            ledger_value = float(1 - Decimal(str(ledger_value)))
        other_parameters.append((name, value, ledger_value))
    return other_parameters


@strip_traceback_frames  # the path may be a URL with a password
def read_notes(path: Any, name: Any, *, timeout: float = 60.0) -> list[Any]:
    """Return the contents of the notes with a name in a ledger, without a holdout.

    Parameters
    ----------
    path : str, Path, LedgerURL, Backend or None
        The ledger; it need not exist.
    name : str or SystemNote
        Name of notes of a user (str) or of the package (SystemNote).
    timeout : float, default=60.0
        Longest wait for other processes, in seconds.

    Returns
    -------
    list
        Their contents, oldest first; empty if there is no ledger.

    Raises
    ------
    LedgerError
        If there is a ledger that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> from sklearn_bdp.ledger import read_notes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "holdout.sqlite"
    ...     before = read_notes(path, "source")
    ...     X, y = np.zeros((500, 1)), np.arange(500) % 2
    ...     _ = ReusableHoldout(X, y, ledger=path, notes={"source": "clinic A"})
    ...     before, read_notes(path, "source")
    ([], ['clinic A'])
    """
    backend = backend_at(path, timeout=timeout)
    try:
        if backend.read(0, 1) is None:
            return []
        with Ledger(backend, timeout=timeout).verified_state() as ledger_state:
            return ledger_state.notes(name)
    finally:
        backend.close()
