"""The ledger: an append-only hash chain of entries that many processes share.

A batch is decided, recorded and only then released, inside one write lock of the backend, so
processes take turns and a crash at any moment leaves either the whole batch or nothing.

For searches and reports there are notes, in the same chain as the answers: ``note(name, content)``
adds one, ``notes(name)`` returns those of a name, ``read_notes(place, name)`` looks into a ledger
before a holdout exists; notes given to :class:`Ledger` when it is created are there from its
first moment.
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
    corrupted,
    other_format,
)
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.ledger.book import PAGE, RECENT, Book, Fact, parse_entry
from sklearn_bdp.ledger.postgresql import PostgreSQLBackend, is_url
from sklearn_bdp.ledger.records import canonical, parse_json
from sklearn_bdp.utils.hashing import keyed_digest, text_digest
from sklearn_bdp.utils.process import process_user
from sklearn_bdp.utils.validation import strip_traceback_frames

KEY_VARIABLE = "SKLEARN_BDP_LEDGER_KEY"
_SHORTEST_KEY = 16
_LOGGER = logging.getLogger("sklearn_bdp")  # events, never a value
_LOGGER.addHandler(logging.NullHandler())


class Chain:
    """Digests of links, each over the one before.

    Without a key in the environment anybody can compute them, so an edited ledger whose links were
    computed anew verifies; with one (HMAC-SHA256) only its owner can.
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
        """Return the digest of texts: of a header, or of the link before and all of an entry."""
        text = text_digest(*texts)
        if not self._key:
            return text
        return keyed_digest(self._key, text)


def backend_at(location: Any, *, timeout: float = 60.0) -> Backend:
    """Return the backend of a location: a path, a URL, a backend, ``None`` for memory."""
    if location is None:
        return MemoryBackend()
    if isinstance(location, Backend):
        return location
    if is_url(location):
        return PostgreSQLBackend(location, timeout=timeout)
    return SQLiteBackend(Path(location).absolute(), timeout=timeout)


class Ledger:
    """Records of one holdout, at a ``place``: a path, a URL, a backend, ``None`` for memory.

    Without a ``header`` (fingerprints and parameters of the holdout) it reads an existing ledger
    and creates none. ``head``: number and digest of an entry that it is known to contain;
    ``notes``: facts that a new ledger starts with, names and JSON content. ``older_data``: returns
    the digest of the records that version 0.1 made, for a ledger that was upgraded.
    ``checks_head``: whether the head must be the last entry, as it is unless it is repaired.
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
        self._header = header
        self._older_data = older_data
        self._expected = head  # must be on the chain when it is first walked
        self._chain = Chain()
        self._book = None  # verified state in this process
        self.sealed = None  # the state that was sealed last; never to be shown
        self._is_marking = False  # whether the note of a move is written
        self._is_withheld = False  # whether this user may not read it
        self._lock, self._owner = threading.Lock(), os.getpid()
        if create and header is not None:
            facts = {k.value: v for k, v in (notes or {}).items() if isinstance(k, Fact)}
            user_notes = {k: v for k, v in (notes or {}).items() if not isinstance(k, Fact)}
            first = {
                "chain": self._chain.kind,
                "facts": facts,
                "format": FORMAT,
                "notes": user_notes,
            }
            text = canonical(header | first)
            self.backend.create(text, self._chain.link("header", text))
        with self.transaction() as book:  # walks and checks the whole chain
            self.header = book.header
            if header is not None:  # a holdout: to look at a ledger that was moved is no query
                self._check_not_moved(book)
            n_entries = book.head[0]
        _LOGGER.info("ledger %s: opened, entries: %d", self.backend, n_entries)

    def __repr__(self) -> str:
        return f"Ledger({self.backend})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last entry this process has verified."""
        return self._expected if self._book is None else self._book.head

    def close(self) -> None:
        """Close the connection of this process; the next transaction opens it again."""
        self.backend.close()

    def verify(self) -> Book:
        """Check every entry to the last detail, also entries that an opened ledger reads later.

        Returns
        -------
        Book
            Verified entries.
        """
        with self.transaction() as book:
            last = LedgerTotals()
            for row in book.rows():
                try:
                    entry = parse_entry(row, last=last)
                except Exception:  # its content may be arbitrary
                    entry = None
                if entry is None:
                    raise corrupted(self.backend, f"entry {row.number} cannot be read")
                if entry.record is not None:
                    last = entry.record.totals
            return book

    @contextlib.contextmanager
    def seen(self) -> Iterator[Book]:
        """Yield the state that this process has verified so far, without reading the backend.

        Recorded answers never change, and later entries of others are found when a batch is
        written. This suffices for look-ups before a batch and for texts about it afterwards.
        """
        self.backend.check_process()
        if self._owner != os.getpid():  # forked: the holder of the lock does not exist here
            self._lock, self._owner = threading.Lock(), os.getpid()
        is_locked = False
        try:
            is_locked = self._lock.acquire(timeout=self.timeout)
            if not is_locked:
                raise LedgerBusyError(
                    f"another thread held the ledger for more than {self.timeout:g} s. The holdout "
                    "was not queried. Try again."
                )
            if self._book is None:
                self._catch_up()
            yield self._book
        except BaseException:
            # An interrupt may have left half an entry in the book: the chain is read again.
            if is_locked and self._book is not None:
                self._expected, self._book = self._book.head, None
            raise
        finally:
            if is_locked:
                self._lock.release()

    def mark_moved(self, target: str | None) -> None:
        """Record the new location of the ledger: nothing is answered here; None: it stays here.

        Parameters
        ----------
        target : str or None
            In words.
        """
        self._is_marking = True
        try:
            with self.transaction(write=True) as book:
                book.note(Fact.MOVED, {"to": target})
        finally:
            self._is_marking = False

    def _check_not_moved(self, book):
        target = book.moved_to()
        if target is not None and not self._is_marking:
            raise LedgerUnavailableError(
                f"ledger {self.backend} was moved to {target}. Use it there. If the move "
                "was interrupted, run it again: python -m sklearn_bdp ledger move. The holdout was "
                "not queried."
            )

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Book]:
        """Yield the book as of now; a writing one holds the lock and can add one entry to it."""
        with self.seen():
            if not write:
                self._catch_up()
                yield self._book
                return
            with self.backend.lock(self.timeout):
                self._catch_up()
                self._check_not_moved(self._book)
                if self._is_withheld:  # noise drawn anew would leak more than is charged
                    raise LedgerUnavailableError(
                        f"ledger {self.backend}: this user may not read the sealed noise of the "
                        "threshold in use, and therefore not query the holdout. The holdout was "
                        "not queried."
                    )
                self._book._write = self._write
                try:
                    yield self._book
                finally:
                    del self._book._write

    def _catch_up(self):
        """Verify every entry after those verified earlier, up to the head."""
        book = self._book
        while True:
            stored = self.backend.read(0 if book is None else book.head[0], PAGE)
            if stored is None:
                raise LedgerUnavailableError(
                    f"ledger {self.backend} was not found; it is not created anew, because that "
                    "would reset the budget."
                )
            if book is None:
                book = self._open(stored)
            if stored.known != book.head[1]:
                raise corrupted(self.backend, "entries seen earlier are missing")
            for row in stored.rows:
                is_recent = book.head[0] >= stored.head[0] - RECENT
                self._verify(row, book.head[0] + 1, book.head[1], opens_seal=is_recent)
                self._add(book, row, is_recent=is_recent)
                self._is_withheld = row.sealed is None
                self.sealed = row.sealed or self.sealed
            if len(stored.rows) < PAGE:
                break
        if self._checks_head and book.head != stored.head:
            raise corrupted(self.backend, "its log and its head do not agree")
        self._add(book, None)
        self._book = book
        self._check_expected_head(book)

    def _check_expected_head(self, book):
        """Raise unless the chain still holds the head that this process has seen earlier."""
        if self._expected is not None and self._expected[0] > 0:
            number, link = self._expected
            if number > len(book.digests) or book.digests[number - 1] != link:
                raise corrupted(self.backend, "entries seen earlier are missing")
        self._expected = None

    def _add(self, book, row, **options):
        """Let a book read a row, or all rows that it has not read so far."""
        try:
            if row is None:
                book.read_latest_record()
            else:
                book.add(row, **options)
            return
        except Exception:  # its content may be arbitrary
            number = book.head[0] if row is None else row.number
        raise corrupted(self.backend, f"entry {number} cannot be read")

    def _verify(self, row, number, previous, *, opens_seal=True):
        """Raise unless a row is entry ``number`` of the chain, after the digest ``previous``.

        The sealed state of an earlier entry is not used again, and need not match its digest.
        """
        stored_number, entry_kind, content, answers, sealed, commitment, link = row
        is_whole = (
            stored_number == number
            and type(entry_kind) is type(content) is type(answers) is type(commitment) is str
            and (sealed is None or type(sealed) is str)
            and (sealed is None or not opens_seal or text_digest(sealed) == commitment)
            and self._chain.link(previous, entry_kind, content, answers, commitment) == link
        )
        if not is_whole:
            raise corrupted(self.backend, f"the chain breaks at entry {number}")

    def _load(self, after_number, limit):
        """Return rows that were verified earlier."""
        rows = self.backend.read(after_number, limit).rows[:limit]
        for number, row in enumerate(rows, after_number + 1):
            self._verify(row, number, self._book.link_before(number))
            if row.digest != self._book.digests[number - 1]:
                raise corrupted(self.backend, f"entry {number} was replaced")
        if len(rows) < min(limit, self._book.head[0] - after_number):
            raise corrupted(self.backend, "entries seen earlier are missing")
        return rows

    def _write(self, entry_kind, content, answers, sealed):
        """Write the entry that follows the head."""
        self._book._write = None  # a transaction writes one entry
        user = process_user()
        if entry_kind == "batch":
            record = dataclasses.replace(content, user=user)
            answers = answers.with_user(user) if answers else answers
            text = record.to_json()
        else:
            record = text = content
        number, previous = self._book.head
        answers_text = answers.to_json() if answers else "[]"
        commitment = text_digest(sealed)
        link = self._chain.link(previous, entry_kind, text, answers_text, commitment)
        row = Row(number + 1, entry_kind, text, answers_text, sealed, commitment, link)
        checked_row = row._replace(content=record, answers=answers or answers_text)
        entry = parse_entry(checked_row, last=self._book.last)  # else it is not written
        self.backend.append(self._book.head, row)
        self._book.add_entry(row, entry)
        self.sealed = sealed or self.sealed
        self._log(entry)
        return entry

    def _log(self, entry):
        """Log the recorded entry, without values."""
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

    def _open(self, stored):
        """Return an empty book under the verified header."""
        header = None
        expected_header = self._header
        with contextlib.suppress(Exception):  # its content may be arbitrary
            header = parse_json(stored.header)
        if not isinstance(header, dict):
            raise corrupted(self.backend, "its header is missing")
        # A ledger of an earlier format is only looked at.
        is_older = expected_header is None and header.get("format") in FORMATS
        if header.get("format") != FORMAT and not is_older:
            raise other_format(self.backend, header.get("format"), header.get("made_by"))
        self._check_chain(header, stored)
        problems = [] if expected_header is None else self._differences(expected_header, header)
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.backend} belongs to another holdout: {' and '.join(problems)}. "
                "Pass the arguments of the first call. Put new features in a transformer of the "
                "pipeline. A new path is for other records only: a second ledger of the same "
                "records does not know the answers in the first. The holdout was not queried."
            )
        with contextlib.suppress(KeyError, AttributeError, ValueError):  # of a header that we wrote
            return Book(header, stored.start, self._load)
        raise corrupted(self.backend, "its header cannot be read")

    def _check_chain(self, header, stored):
        """Raise if the chain has a key and this process has none, or the reverse, or another."""
        if header.get("chain") != self._chain.kind:
            keyed = header.get("chain") == "hmac-sha256"
            fix = "set to its key" if keyed else "unset, to trust a ledger that has no key"
            raise LedgerError(
                f"ledger {self.backend}: the environment variable {KEY_VARIABLE} must be {fix}. "
                "The holdout was not queried."
            )
        if self._chain.link("header", stored.header) != stored.start:
            problem = f"its header was edited, or sealed with another {KEY_VARIABLE}"
            raise corrupted(self.backend, problem)

    def _differences(self, expected_header, header):
        """Return the names of settings that differ from those of the ledger, never their values."""
        if not self._has_same_data(expected_header, header):
            return ["other data, order, test_size, random_state or correlation"]
        differences = []
        columns = expected_header.get("columns"), header.get("columns")
        if None not in columns and columns[0] != columns[1]:
            differences.append("other names of columns")
        if expected_header["correlation"] != header.get("correlation"):
            differences.append("another correlation")
        stored_parameters = header.get("parameters")
        if not isinstance(stored_parameters, dict):
            stored_parameters = {}
        parameters = json.loads(json.dumps(expected_header["parameters"]))
        for name, value in parameters.items():
            if value != stored_parameters.get(name):
                differences.append(_describe_difference(name, value, stored_parameters.get(name)))
        return differences

    def _has_same_data(self, expected_header, header):
        """Return whether a header is about the records of a holdout."""
        if expected_header["data"] == header.get("data"):
            return True
        is_upgraded = "upgraded_from" in header and self._older_data is not None
        return is_upgraded and self._older_data() == header.get("data")


def _describe_difference(name, value, ledger_value):
    """Return how a parameter differs from that in the ledger, under its public name."""
    if name == "beta" and isinstance(ledger_value, float):  # a header keeps its complement
        name = "confidence_level"
        value = float(1 - Decimal(str(value)))
        ledger_value = float(1 - Decimal(str(ledger_value)))
    return f"{name}={value!r} here, {ledger_value!r:.80} in the ledger"


@strip_traceback_frames  # the path may be a URL with a password
def read_notes(path: Any, name: Any, *, timeout: float = 60.0) -> list[Any]:
    """Return the notes of a ledger before its holdout exists.

    Parameters
    ----------
    path : str, Path or Backend
        The ledger; it need not exist.
    name : str
        Name of the notes.
    timeout : float, default=60.0
        Longest wait for other processes, in seconds.

    Returns
    -------
    list
        Their contents, oldest first; empty if there is no ledger.

    Raises
    ------
    LedgerError
        One of its subclasses, if there is a file that cannot be used.

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
        with Ledger(backend, timeout=timeout).seen() as book:
            return book.notes(name)
    finally:
        backend.close()
