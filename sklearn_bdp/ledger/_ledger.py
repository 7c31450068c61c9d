"""The ledger: an append-only, hash-chained SQLite file that many processes share.

A batch is decided, recorded and only then released, inside one write transaction
(``BEGIN IMMEDIATE``), so processes take turns and a crash at any moment leaves either the whole
batch or nothing. ``path=None`` keeps the same tables in memory, for one process.

For searches and reports there are notes, in the same chain as the answers: ``note(name, content)``
adds one, ``notes(name)`` returns those of a name, ``read_notes(path, name)`` looks into a file
before a holdout exists; notes given to :class:`Ledger` when it is created are in the file from
its first moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
    ProcessBoundaryError,
)
from sklearn_bdp.ledger._entries import Book, Transaction, parse_json
from sklearn_bdp.ledger._file import (
    KEY_VARIABLE,
    chain_from_environment,
    check_schema,
    corrupted,
    create_file,
    create_schema,
    identity,
    open_file,
    translated,
)

_LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
# Connections inherited over a fork. SQLite forbids to use or close them in the child
# (https://www.sqlite.org/howtocorrupt.html, section 2.6), so they are kept out of reach.
_INHERITED: list[Any] = []


#: What is meant if two sets of records agree in this, in the order in which it is asked.
_LIKE = {
    "values": "other types or names (float32 for float64, numbers for integers)",
    "rows": "the same rows in another order",
    "columns": "the same columns in another order",
    "features": "the same X with other targets y",
    "size": "other values in X",
    "names": "other rows",
    "length": "other columns",
}


class Ledger:
    """Records of one holdout, in a file or in memory (``path=None``: for this process only).

    Without a ``header`` (fingerprints and parameters of the holdout) it reads whatever the file
    says and creates none. ``head``: number and digest of an entry that the file is known to
    contain; ``notes``: facts that a new ledger starts with, names and JSON content.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        header: dict[str, Any] | None = None,
        create: bool = True,
        timeout: float = 60.0,
        read_only: bool = False,
        head: tuple[int, str] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        self.path = None if path is None else Path(path).absolute()
        self.timeout = float(timeout)
        self.read_only = read_only
        self._header = header
        self._connection = None
        self.owner = os.getpid()
        self._file = None
        self._expected = head  # must be on the chain when it is first walked
        self._chain = chain_from_environment()
        self._book: Any = None  # what this process has verified
        self._lock = threading.Lock()
        _LIVE.add(self)
        first = None if header is None else {**header, "notes": notes or {}}
        if self.path is None:
            # Serialised by the lock, hence safe to share between threads.
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            create_schema(self._connection, first, self._chain)
            weakref.finalize(self, _close_at_home, self._connection, self.owner)
        elif create and header is not None and not read_only:
            create_file(self.path, first, self._chain)
        with self.transaction() as transaction:  # walks and checks the whole chain
            self.header = transaction.header

    def __repr__(self) -> str:
        return f"Ledger({str(self.path) if self.path else None!r})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last entry this process has verified."""
        return self._book.head

    def check_process(self) -> None:
        """Raise ProcessBoundaryError where an in-memory ledger is not at home."""
        if self.path is None and os.getpid() != self.owner:
            raise ProcessBoundaryError(
                "this holdout keeps its records in the memory of the process that made it, and "
                "another process asks: a copy would answer from a duplicate budget. Give it a "
                "file, ReusableHoldout(..., ledger='holdout.sqlite'), and every process shares "
                "one budget."
            )

    @contextlib.contextmanager
    def seen(self) -> Iterator[Book]:
        """Yield what this process has verified so far, without a look at the file.

        Recorded answers never change, and what others have recorded since is found when a batch is
        written: enough for look-ups on the way to it, and for what is told of it afterwards.
        """
        with self._alone():
            yield self._book

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Transaction]:
        """Yield a :class:`Transaction`; commit on leaving, roll back on errors.

        A reading one has caught up with the file and holds no lock on it.
        """
        with self._alone():
            connection = self._connect()
            try:
                with translated(self.path):
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    transaction = self._catch_up(connection)
                    if not write:
                        connection.execute("COMMIT")
                    yield transaction
                    if write:
                        connection.execute("COMMIT")
                        transaction.commit()
            finally:
                self._rollback(connection)

    @contextlib.contextmanager
    def _alone(self):
        """Hold the lock of this process's threads."""
        self.check_process()
        if not self._lock.acquire(timeout=self.timeout):
            raise LedgerBusyError(
                f"another thread held the ledger for more than {self.timeout:g} s. The holdout was "
                "not queried. Try again."
            )
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection of this process; the next transaction opens another."""
        if self.path is not None and self._connection is not None and self.owner == os.getpid():
            self._connection.close()
            self._connection = None

    def _catch_up(self, connection):
        """Return a transaction that has verified the file up to its head."""
        self._check_file()
        if self._book is None:
            self._book = self._read_header(connection)
        transaction = Transaction(connection, self.path, book=self._book, chain=self._chain)
        transaction.catch_up(expected=self._expected)
        self._expected = None
        return transaction

    def _rollback(self, connection):
        """End a transaction that was not committed; drop the connection if even that fails."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            if self.path is not None:
                self._connection = None
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    def _connect(self):
        if self._connection is not None:
            return self._connection
        if not os.path.isfile(self.path):
            raise LedgerUnavailableError(
                f"ledger {self.path} was not found; it is not created anew, because that would "
                "reset the budget."
            )
        with translated(self.path):
            connection = open_file(self.path, timeout=self.timeout, read_only=self.read_only)
            try:
                check_schema(connection, self.path)
            except BaseException:
                connection.close()
                raise
        self.owner, self._connection = os.getpid(), connection
        weakref.finalize(self, _close_at_home, connection, self.owner)
        self._file = identity(self.path)
        return connection

    def _check_file(self):
        """Refuse to write to a file that was deleted or replaced under an open connection."""
        if self.path is not None and identity(self.path) != self._file:
            raise corrupted(self.path, "it was deleted or replaced while in use")

    def _read_header(self, connection):
        """Return an empty book under the verified header of the file."""
        rows = connection.execute("SELECT content, digest FROM header").fetchall()
        header = None
        if len(rows) == 1:
            with contextlib.suppress(ValueError):
                header = parse_json(rows[0][0])
        if not isinstance(header, dict):
            raise corrupted(self.path, "its header is missing")
        if header.get("chain") != self._chain.kind:
            self._refuse_key(header)
        if self._chain.start(rows[0][0]) != rows[0][1]:
            raise corrupted(
                self.path, f"its header was edited or sealed with another {KEY_VARIABLE}"
            )
        if not isinstance(header.get("notes"), dict):
            raise corrupted(self.path, "its header cannot be read")
        self._check_header(header)
        return Book(header, rows[0][1])

    def _refuse_key(self, header):
        """Raise for a keyed ledger without a key, and for a plain one where a key is set."""
        keyed = header.get("chain") == "hmac-sha256"
        said = "is sealed with a key" if keyed else "is not sealed with a key, and one is set"
        fix = "Set it to the key" if keyed else "Unset it to trust the file all the same"
        raise LedgerError(
            f"ledger {self.path} {said} (environment variable {KEY_VARIABLE}). {fix}. The holdout "
            "was not queried."
        )

    def _check_header(self, header):
        if self._header is None:
            return
        problems = _differences(json.loads(json.dumps(self._header)), header)
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.path} belongs to another holdout: {'; '.join(problems)}. Pass the "
                "data and parameters that it was made with. Put new features into a transformer of "
                "the pipeline. Use a new path for other records only: a second ledger of the same "
                "records does not know the answers in the first. The holdout was not queried."
            )


def read_notes(path: str | Path, name: str, *, timeout: float = 60.0) -> list[Any]:
    """Return the notes of a ledger file before its holdout exists.

    Parameters
    ----------
    path : str or Path
        The file; it need not exist.
    name : str
        What the notes are called.
    timeout : float, default=60.0
        Longest wait for other processes, in seconds.

    Returns
    -------
    list
        Their contents, oldest first; empty if the file does not exist.

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
    if not os.path.lexists(path):
        return []
    ledger = Ledger(path, read_only=True, timeout=timeout)
    try:
        with ledger.transaction() as transaction:
            return transaction.notes(name)
    finally:
        ledger.close()


def _close_at_home(connection, pid):
    """Close a connection in the process that opened it; a fork must not (see _INHERITED)."""
    if os.getpid() == pid:
        connection.close()


def _differences(wanted, found):
    """Say what differs between the header of a holdout and that of a file, never by how much.

    What was declared in consequence of the records (a gap) is named with them only if they agree.
    """
    if wanted["data"] != found.get("data"):
        ours, theirs = wanted.get("likeness") or {}, found.get("likeness")
        theirs = theirs if isinstance(theirs, dict) else {}
        like = (said for name, said in _LIKE.items() if ours.get(name, 0) == theirs.get(name))
        return [f"other data ({next(like, 'other rows and columns')})" if theirs else "other data"]
    problems = []
    if wanted["correlation"] != found.get("correlation"):
        problems.append("another correlation")
    theirs = found.get("parameters")
    theirs = theirs if isinstance(theirs, dict) else {}
    problems.extend(
        f"{name}={value!r} here, {theirs.get(name)!r:.80} in the ledger"
        for name, value in wanted["parameters"].items()
        if value != theirs.get(name)
    )
    return problems


def _after_fork_in_child():
    """Drop locks whose owners do not exist here, and connections that belong to the parent."""
    for ledger in list(_LIVE):
        ledger._lock = threading.Lock()
        if ledger.path is not None and ledger._connection is not None:
            _INHERITED.append(ledger._connection)
            ledger._connection = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
