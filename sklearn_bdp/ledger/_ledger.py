"""The ledger: an append-only, hash-chained SQLite file that many processes share.

A batch is decided, recorded and only then released, inside one write transaction
(``BEGIN IMMEDIATE``), so processes take turns and a crash at any moment leaves either the whole
batch or nothing. ``path=None`` keeps the same tables in memory, for one process.
"""

import contextlib
import json
import os
import secrets
import sqlite3
import threading
import time
import weakref
from pathlib import Path

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerMismatchError,
    LedgerUnavailableError,
    ProcessBoundaryError,
)
from sklearn_bdp.ledger._errors import translated
from sklearn_bdp.ledger._schema import check_schema, create_schema
from sklearn_bdp.ledger._transaction import Transaction

__all__ = ["Ledger"]

_LIVE = weakref.WeakSet()
# Connections inherited over a fork. SQLite forbids to use or close them in the child
# (https://www.sqlite.org/howtocorrupt.html, section 2.6), so they are kept out of reach.
_INHERITED = []


class Ledger:
    """Records of one holdout, in a file or in memory.

    Parameters
    ----------
    path : str, Path or None
        The file; ``None`` keeps the records in memory, for this process only.
    header : dict or None
        Fingerprints and parameters of the holdout. ``None``: read whatever the file says (never
        creates a file).
    create : bool
        Whether a missing file may be created.
    timeout : float
        Longest wait for other threads and processes, in seconds.
    read_only : bool
        Open for inspection.
    head : tuple of (int, str) or None
        Batch number and digest that the file is known to contain.

    Raises
    ------
    LedgerError
        One of its subclasses, if the file cannot be used; nothing is written then.
    """

    def __init__(self, path, *, header=None, create=True, timeout=60.0, read_only=False, head=None):
        self.path = None if path is None else Path(path).absolute()
        self.timeout = float(timeout)
        self.read_only = read_only
        self._header = header
        self._connection = None
        self._pid = os.getpid()
        self._file = None
        self._expected = head  # must be on the chain when it is first walked
        self._head = None  # (number, digest) of the last verified batch
        self._lock = threading.Lock()
        _LIVE.add(self)
        if self.path is None:
            self._connection = self._create_in_memory(header)
            weakref.finalize(self, _close_at_home, self._connection, self._pid)
        elif create and header is not None and not read_only:
            self._create_file(header)
        with self.transaction() as transaction:  # walks and checks the whole chain
            self.header = transaction.header

    def __repr__(self):
        return f"Ledger({str(self.path) if self.path else None!r})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self):
        """Number and digest of the last batch this process has verified."""
        return self._head

    @property
    def owner(self):
        """Process that opened the connection."""
        return self._pid

    def check_process(self):
        """Raise ProcessBoundaryError where an in-memory ledger is not at home."""
        if self.path is None and os.getpid() != self._pid:
            raise ProcessBoundaryError(
                "this holdout keeps its records in the memory of the process that made it, and "
                "another process asks: a copy would answer from a duplicate budget. Give it a "
                "file, ReusableHoldout(..., ledger='holdout.sqlite'), and every process shares "
                "one budget."
            )

    @contextlib.contextmanager
    def transaction(self, *, write=False):
        """Yield a :class:`Transaction`; commit on leaving, roll back on errors."""
        self.check_process()
        if not self._lock.acquire(timeout=self.timeout):
            raise LedgerBusyError(
                f"another thread held the ledger for more than {self.timeout:g} s; nothing was "
                "spent, ask again."
            )
        try:
            connection = self._connect()
            try:
                with translated(self.path):
                    self._begin(connection, write=write)
                    self._check_file()
                    transaction = Transaction(connection, self.path, known=self._head)
                    self._check_header(transaction)
                    transaction.catch_up(expected=self._expected)
                    self._head, self._expected = transaction.head, None
                    yield transaction
                    connection.execute("COMMIT")
                    self._head = transaction.head
            finally:
                self._rollback(connection)
        finally:
            self._lock.release()

    def close(self):
        """Close the connection of this process; the next transaction opens another."""
        if self.path is not None and self._connection is not None and self._pid == os.getpid():
            self._connection.close()
            self._connection = None

    def _begin(self, connection, *, write):
        """Start a transaction; writers take turns.

        SQLite's own waiting backs off to 100 ms, which leaves the file idle and starves the
        unlucky. Short pauses of random length share better.
        """
        if not write or self.path is None:
            connection.execute("BEGIN")
            return
        deadline = time.monotonic() + self.timeout
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                    if not busy or time.monotonic() >= deadline:
                        raise
                time.sleep(0.0005 + secrets.randbelow(3000) * 1e-6)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.timeout)}")

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
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        if self._connection is not None:
            _INHERITED.append(self._connection)
            self._connection = None
        if not os.path.isfile(self.path):
            raise LedgerUnavailableError(
                f"ledger {self.path} was not found; it is not created anew, because that would "
                "reset the budget."
            )
        with translated(self.path):
            connection = _open(self.path, timeout=self.timeout, read_only=self.read_only)
            check_schema(connection, self.path)
        self._pid, self._connection = os.getpid(), connection
        weakref.finalize(self, _close_at_home, connection, self._pid)
        self._file = _identity(self.path)
        return connection

    def _check_file(self):
        """Refuse to write to a file that was deleted or replaced under an open connection."""
        if self.path is not None and _identity(self.path) != self._file:
            raise LedgerCorruptedError(
                f"ledger {self.path} was deleted or replaced while in use; nothing was answered."
            )

    def _check_header(self, transaction):
        if self._header is None:
            return
        problems = _differences(json.loads(json.dumps(self._header)), transaction.header)
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.path} belongs to another holdout: {'; '.join(problems)}. Use the "
                "data and parameters it was made with, or another path for a new holdout."
            )

    def _create_in_memory(self, header):
        # Serialised by self._lock, hence safe to share between threads.
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_schema(connection, header)
        return connection

    def _create_file(self, header):
        """Create the file whole or not at all, unless it exists.

        It is built under another name and linked into place. So an existing file is never taken
        for a new one: a ledger truncated to nothing is an error, not a fresh budget.
        """
        if os.path.lexists(self.path):
            return
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            # 0600: the file holds the noise of the current threshold.
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                with translated(self.path), contextlib.closing(_open(draft)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    create_schema(connection, header)
                _put_in_place(draft, self.path)
            finally:
                for end in ("", "-wal", "-shm"):
                    Path(f"{draft}{end}").unlink(missing_ok=True)
        except OSError as error:
            raise LedgerUnavailableError(
                f"ledger {self.path} cannot be created: {error.strerror}; nothing was answered."
            ) from None


def _open(path, *, timeout=60.0, read_only=False):
    """Open an existing file; a commit returns when the data are on the disk."""
    uri = f"{path.as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


def _close_at_home(connection, pid):
    """Close a connection in the process that opened it; a fork must not (see _INHERITED)."""
    if os.getpid() == pid:
        connection.close()


def _put_in_place(draft, path):
    """Give a finished file its name, unless another process was first."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            return
        os.rename(draft, path)
    with contextlib.suppress(OSError):  # not every system can open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _identity(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _differences(wanted, found):
    """Say what differs between the header of a holdout and that of a file."""
    problems = []
    if wanted["data"] != found.get("data"):
        problems.append("other data")
    if wanted["correlation"] != found.get("correlation"):
        problems.append("another correlation")
    theirs = found.get("parameters", {})
    problems.extend(
        f"{name}={value!r} here, {theirs.get(name)!r} in the ledger"
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
