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
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger._backend import (
    FORMAT,
    Backend,
    MemoryBackend,
    Row,
    corrupted,
    other_format,
)
from sklearn_bdp.ledger._entries import KEY_VARIABLE, NOTHING, Book, Chain, Fact, parse_entry
from sklearn_bdp.ledger._postgresql import SCHEMES, PostgreSQLBackend
from sklearn_bdp.ledger._records import canonical, digest, parse_json
from sklearn_bdp.ledger._sqlite import SQLiteBackend


def backend_at(place: Any, *, timeout: float = 60.0) -> Backend:
    """Return what keeps the entries at a place: a path, a URL, a backend, ``None`` for memory."""
    if place is None:
        return MemoryBackend()
    if isinstance(place, Backend):
        return place
    if isinstance(place, str) and place.partition("://")[0] in SCHEMES:
        return PostgreSQLBackend(place, timeout=timeout)
    return SQLiteBackend(Path(place).absolute(), timeout=timeout)


class Ledger:
    """Records of one holdout, at a ``place``: a path, a URL, a backend, ``None`` for memory.

    Without a ``header`` (fingerprints and parameters of the holdout) it reads whatever it finds
    and creates none. ``head``: number and digest of an entry that it is known to contain;
    ``notes``: facts that a new ledger starts with, names and JSON content.
    """

    def __init__(
        self,
        place: Any,
        *,
        header: dict[str, Any] | None = None,
        create: bool = True,
        timeout: float = 60.0,
        head: tuple[int, str] | None = None,
        notes: dict[Any, Any] | None = None,
    ) -> None:
        self.backend = backend_at(place, timeout=timeout)
        self.timeout = float(timeout)
        self._header = header
        self._expected = head  # must be on the chain when it is first walked
        self._chain = Chain.from_environment()
        self._book: Any = None  # what this process has verified
        self._sealed: str | None = None  # what was sealed last, shown to nobody
        self._lock, self._owner = threading.Lock(), os.getpid()
        if create and header is not None:
            facts = {k.value: v for k, v in (notes or {}).items() if isinstance(k, Fact)}
            mine = {k: v for k, v in (notes or {}).items() if not isinstance(k, Fact)}
            first = {"chain": self._chain.kind, "facts": facts, "format": FORMAT, "notes": mine}
            text = canonical(header | first)
            self.backend.create(text, self._chain.start(text))
        with self.transaction() as book:  # walks and checks the whole chain
            self.header = book.header

    def __repr__(self) -> str:
        return f"Ledger({self.backend})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last entry this process has verified."""
        return self._book.head

    def close(self) -> None:
        """Close what this process holds open; the next transaction opens it again."""
        self.backend.close()

    @contextlib.contextmanager
    def seen(self) -> Iterator[Book]:
        """Yield what this process has verified so far, without a look at the backend.

        Recorded answers never change, and what others have recorded since is found when a batch is
        written: enough for look-ups on the way to it, and for what is told of it afterwards.
        """
        with self._alone():
            yield self._book

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Book]:
        """Yield the book as of now; a writing one holds the lock and can add one entry to it."""
        with self._alone():
            if not write:
                self._catch_up()
                yield self._book
                return
            with self.backend.lock(self.timeout):
                self._catch_up()
                self._book._write = self._write
                try:
                    yield self._book
                finally:
                    del self._book._write

    def sealed(self) -> str | None:
        """Return the state that was sealed last, or ``None``; never to be shown."""
        return self._sealed

    @contextlib.contextmanager
    def _alone(self):
        """Hold the lock of this process's threads."""
        self.backend.check_process()
        if self._owner != os.getpid():  # forked: whoever held the lock does not exist here
            self._lock, self._owner = threading.Lock(), os.getpid()
        if not self._lock.acquire(timeout=self.timeout):
            raise LedgerBusyError(
                f"another thread held the ledger for more than {self.timeout:g} s. The holdout was "
                "not queried. Try again."
            )
        try:
            yield
        finally:
            self._lock.release()

    def _catch_up(self):
        """Verify every entry after those verified earlier, up to the head."""
        stored = self.backend.read(0 if self._book is None else self._book.head[0])
        if stored is None:
            raise LedgerUnavailableError(
                f"ledger {self.backend} was not found; it is not created anew, because that would "
                "reset the budget."
            )
        book = self._open(stored) if self._book is None else self._book
        if stored.known != book.head[1]:
            raise corrupted(self.backend, "entries seen earlier are missing: it was rolled back")
        for row in stored.rows:
            book.add(self._verified(book, *row))
            if row[5] != NOTHING:
                self._sealed = row[4]
        if book.head != stored.head:
            raise corrupted(self.backend, "its log and its head do not agree")
        self._book = book
        if self._expected is not None and self._expected[0] > 0:
            number, link = self._expected
            if number > len(book.entries) or book.entries[number - 1].digest != link:
                raise corrupted(
                    self.backend, "entries seen earlier are missing: it was rolled back"
                )
        self._expected = None

    def _write(self, kind, content, answers, sealed):
        """Write the entry that follows the head."""
        self._book._write = _once
        (number, previous), text = self._book.head, answers.to_json() if answers else "[]"
        commitment = digest(sealed)
        link = self._chain.link(previous, kind, content, text, commitment)
        # What could not be read back is never written.
        entry = parse_entry(
            number + 1, kind, content, answers or text, commitment, link, last=self._book.last
        )
        row = Row(number + 1, kind, content, text, sealed, commitment, link)
        self.backend.append(self._book.head, row)
        self._book.add(entry)
        self._sealed = sealed or self._sealed

    def _verified(self, book, number, kind, content, answers, sealed, commitment, link):
        """Return the entry that follows the head of the book, or raise."""
        expected, previous = book.head[0] + 1, book.head[1]
        texts = (kind, content, answers, sealed, commitment, link)
        whole = (
            number == expected
            and all(isinstance(text, str) for text in texts)
            and digest(sealed) == commitment
            and self._chain.link(previous, kind, content, answers, commitment) == link
        )
        if not whole:
            raise corrupted(self.backend, f"the chain breaks at entry {expected}")
        try:
            return parse_entry(number, kind, content, answers, commitment, link, last=book.last)
        except (ValueError, TypeError, OverflowError):
            pass  # what it says could be anything
        raise corrupted(self.backend, f"entry {expected} cannot be read")

    def _open(self, stored):
        """Return an empty book under the verified header."""
        header = None
        with contextlib.suppress(ValueError):
            header = parse_json(stored.header)
        if not isinstance(header, dict):
            raise corrupted(self.backend, "its header is missing")
        if header.get("format") != FORMAT:
            raise other_format(self.backend, header.get("format"), header.get("made_by"))
        if header.get("chain") != self._chain.kind:
            self._refuse_key(header)
        if self._chain.start(stored.header) != stored.start:
            raise corrupted(
                self.backend, f"its header was edited or sealed with another {KEY_VARIABLE}"
            )
        self._check_header(header)
        try:
            return Book(header, stored.start)
        except (KeyError, AttributeError, ValueError):
            pass  # a header that we did not write
        raise corrupted(self.backend, "its header cannot be read")

    def _refuse_key(self, header):
        """Raise for a keyed ledger without a key, and for a plain one where a key is set."""
        keyed = header.get("chain") == "hmac-sha256"
        said = "is sealed with a key" if keyed else "is not sealed with a key, and one is set"
        fix = "Set it to the key" if keyed else "Unset it to trust the ledger all the same"
        raise LedgerError(
            f"ledger {self.backend} {said} (environment variable {KEY_VARIABLE}). {fix}. The "
            "holdout was not queried."
        )

    def _check_header(self, header):
        if self._header is None:
            return
        problems = _differences(json.loads(json.dumps(self._header)), header)
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.backend} belongs to another holdout: {'; '.join(problems)}. Pass "
                "the data and parameters that it was made with. Put new features into a "
                "transformer of the pipeline. Use a new path for other records only: a second "
                "ledger of the same records does not know the answers in the first. The holdout "
                "was not queried."
            )


def _once(*entry):
    raise LedgerError("a transaction writes one entry.")


@sealed_errors  # the path may be a URL with a password
def read_notes(path: Any, name: Any, *, timeout: float = 60.0) -> list[Any]:
    """Return the notes of a ledger before its holdout exists.

    Parameters
    ----------
    path : str, Path or Backend
        The ledger; it need not exist.
    name : str
        What the notes are called.
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
        if backend.read(0) is None:
            return []
        with Ledger(backend, timeout=timeout).seen() as book:
            return book.notes(name)
    finally:
        backend.close()


def _differences(wanted, found):
    """Say what differs between the header of a holdout and that of a file, never by how much."""
    if wanted["data"] != found.get("data"):
        return ["other data (values, types, names, or their order, in X or y)"]
    problems = ["another correlation"] if wanted["correlation"] != found.get("correlation") else []
    theirs = found.get("parameters")
    theirs = theirs if isinstance(theirs, dict) else {}
    problems.extend(
        f"{name}={value!r} here, {theirs.get(name)!r:.80} in the ledger"
        for name, value in wanted["parameters"].items()
        if value != theirs.get(name)
    )
    return problems
