"""Entries in an SQLite file: its tables, made whole or not at all; its failures in words."""

import contextlib
import functools
import os
import secrets
import sqlite3
import time
from typing import ClassVar

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger._writer_turn import WriterTurn, queue_path
from sklearn_bdp.ledger.backend import (
    FORMAT,
    FORMATS,
    Backend,
    Row,
    Stored,
    corrupted,
    last_link,
    other_format,
)
from sklearn_bdp.ledger.records import parse_json

APPLICATION_ID = 0x42445031  # "BDP1", kept in the header of the file

_SCHEMA = """
CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    content TEXT NOT NULL,      -- canonical JSON: fingerprints, parameters, kind of chain
    digest TEXT NOT NULL        -- start of the chain
);
CREATE TABLE log (
    number INTEGER PRIMARY KEY, -- 1, 2, ... without holes
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    answers TEXT NOT NULL,
    sealed TEXT NOT NULL,       -- shown to nobody
    commitment TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    number INTEGER NOT NULL,    -- of the last entry
    digest TEXT NOT NULL
);
""" + "".join(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;"
    for table in ("header", "log")
    for verb in ("UPDATE", "DELETE")
)
_DECLARED = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)"
#: Names of SQLite's primary result codes, https://www.sqlite.org/rescode.html
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNAVAILABLE = (
    "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH",
    "SQLITE_IOERR", "SQLITE_NOMEM",
)  # fmt: skip
_REFUSED = ("SQLITE_CONSTRAINT", "SQLITE_INTERRUPT", "SQLITE_MISUSE")


class Connection(sqlite3.Connection):
    """A connection that a child which inherits it by a fork neither uses nor closes.

    Either could damage the file (https://www.sqlite.org/howtocorrupt.html, section 2.6).
    """

    inherited: ClassVar[list] = []  # of a parent, kept from being closed

    def __init__(self, *args, **options):
        self.owner = os.getpid()
        super().__init__(*args, **options)

    def __del__(self):
        if self.owner != os.getpid():
            self.inherited.append(self)


#: Of a new file, in bytes: an answer takes about two kilobytes, which fit badly on smaller pages.
_PAGE_SIZE = 16384
#: Seconds after which a writer does not wait for those before it, which may have been stopped.
_PATIENCE = 0.3
_POLLING = 0.001  # seconds between two looks at the queue


def _publish(draft, path):
    """Give a finished file its name; return False if another process was first."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            return False
        os.rename(draft, path)
    return True


class SQLiteBackend(Backend):
    """Entries in a file that processes of one machine share.

    A rollback journal, not a write-ahead log: after a crash, damage to a log that was not copied
    back yet would lose batches that had been answered, and nothing would tell.
    """

    def __init__(self, path, *, timeout=60.0):
        self.path, self._timeout = path, timeout
        self._file = None  # its identity
        self._connection = None
        self._owner = None  # the process that opened it

    def __str__(self):
        return str(self.path)

    def create(self, header, start, rows=()):
        """Create the file whole or not at all.

        It is built in memory, written under another name and linked into place. So an existing file
        is never taken for a new one: a ledger truncated to nothing is an error, not a fresh budget.
        """
        if os.path.lexists(self.path):
            return False
        with _empty() as connection:
            connection.execute("INSERT INTO header VALUES (0, ?, ?)", (header, start))
            connection.executemany(_INSERT, rows)
            connection.execute("INSERT INTO head VALUES (0, ?, ?)", last_link(start, rows))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            content = connection.serialize()
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            # 0600: the file holds the noise of the current threshold.
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            return _publish(draft, self.path)
        except OSError as error:
            raise LedgerUnavailableError(
                f"ledger {self.path} cannot be created: {error.strerror}. The holdout was not "
                "queried."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def read(self, after_number, limit=None):
        """Return the content of the file."""
        if self._connection is None and not os.path.isfile(self.path):
            return None
        with self._translated():
            if self._writing():
                return self._stored(after_number, limit)
            try:
                self._begin("BEGIN")
                return self._stored(after_number, limit)
            finally:  # also if an interrupt comes right after it began
                self._roll_back()

    def _stored(self, after_number, limit):
        connection = self._connection
        if _identity(self.path) != self._file:
            raise corrupted(self, "it was deleted or replaced while in use")
        headers = connection.execute("SELECT content, digest FROM header").fetchall()
        heads = connection.execute(
            "SELECT number, digest, (SELECT digest FROM log WHERE number = ?) FROM head",
            (after_number,),
        ).fetchall()
        if len(headers) != 1 or len(heads) != 1:
            raise corrupted(self, "its header or its head is missing")
        # This package writes no number below 1; the reader sees them first. Two ranges of the key:
        # with OR SQLite would walk through the whole log.
        rows = connection.execute("SELECT * FROM log WHERE number < 1").fetchall()
        later = "SELECT * FROM log WHERE number > ? ORDER BY number LIMIT ?"
        rows += connection.execute(later, (after_number, -1 if limit is None else limit)).fetchall()
        (number, digest, entry_digest), (header, start) = heads[0], headers[0]
        entry_digest = start if after_number == 0 else entry_digest
        return Stored(header, start, (number, digest), entry_digest, list(map(Row._make, rows)))

    @contextlib.contextmanager
    def lock(self, timeout):
        """Hold the lock of the database, in the order in which writers asked."""
        turn = None
        try:
            with self._translated():
                turn = WriterTurn(self.path)
                self._begin_writing(turn, timeout)
            yield
        finally:  # also if an interrupt comes right after it began
            self._roll_back()
            if turn is not None:
                turn.close()

    def _begin_writing(self, turn, timeout):
        """Begin a writing transaction when this writer is first, or after ``_PATIENCE`` seconds.

        Raises the error of the database if that has not succeeded after ``timeout`` seconds.
        """
        start = time.monotonic()
        while True:
            waited = time.monotonic() - start
            is_last_try = waited >= timeout
            if is_last_try or waited > _PATIENCE or turn.is_first():
                try:
                    self._begin("BEGIN IMMEDIATE", busy_timeout=0.0)
                    break
                except sqlite3.OperationalError as error:
                    is_busy = (getattr(error, "sqlite_errorname", "") or "").startswith(_BUSY)
                    if is_last_try or not is_busy:
                        raise
            time.sleep(_POLLING)
        remaining = max(1.0, timeout - (time.monotonic() - start))
        # COMMIT waits for readers.
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * remaining)}")

    def set_head(self, head):
        """Move the head, inside :meth:`lock`: a repair."""
        with self._translated():
            self._connection.execute("UPDATE head SET number = ?, digest = ?", head)
            self._connection.execute("COMMIT")

    def delete(self):
        """Remove the file and its queue."""
        try:
            os.unlink(self.path)
            queue_path(self.path).unlink(missing_ok=True)
        except OSError as error:
            raise LedgerUnavailableError(
                f"ledger {self.path} cannot be deleted: {error.strerror}."
            ) from None

    def close(self):
        """Close the connection of this process."""
        connection, self._connection = self._own(), None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _translated(self):
        """Raise the ledger's errors instead of the database's."""
        try:
            yield
            return
        except Exception as error:
            failure = self._failure(error)
        raise failure

    def append(self, expected_head, row):
        """Write the next entry; the commit returns when it is on the disk."""
        with self._translated():
            connection = self._connection
            moved = connection.execute(
                "UPDATE head SET number = ?, digest = ? WHERE number = ? AND digest = ?",
                (row.number, row.digest, *expected_head),
            )
            if moved.rowcount != 1 or not connection.in_transaction:
                raise corrupted(self, "its head was moved")
            connection.execute(_INSERT, row)
            connection.execute("COMMIT")

    def _own(self):
        """Return the connection of this process; an inherited connection belongs to the parent."""
        return self._connection if self._owner == os.getpid() else None

    def _begin(self, statement, *, busy_timeout=None):
        if self._own() is None:
            self._connect()
        seconds = self._timeout if busy_timeout is None else busy_timeout
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
        self._connection.execute(statement)

    def _connect(self):
        """Open an existing ledger file; raise if its tables are not those of a ledger."""
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",  # never creates
            uri=True,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            _check_schema(connection, self.path)
        except BaseException:
            connection.close()
            raise
        self._connection, self._owner = connection, os.getpid()
        self._file = _identity(self.path)

    def _writing(self):
        return self._own() is not None and self._connection.in_transaction

    def _roll_back(self):
        connection = self._connection
        try:
            if self._writing():
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _failure(self, error):
        if isinstance(error, UnicodeDecodeError):
            error = sqlite3.DatabaseError()
        if not isinstance(error, sqlite3.Error):
            return error
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        error_class: type[LedgerError] = LedgerCorruptedError
        problem = (
            "cannot be read: the file is not a ledger, or it was truncated, overwritten or edited. "
            "Pass the path of a new file, or restore a backup"
        )
        if name.startswith(_BUSY):
            error_class = LedgerBusyError
            problem = "is held by another process for longer than ledger_timeout"
        elif name.startswith("SQLITE_READONLY"):
            error_class = LedgerUnavailableError
            problem = (
                f"can be read but not written: {error}. Its file and its folder must be writable "
                "for the user of this process"
            )
        elif name.startswith(_UNAVAILABLE):
            error_class = LedgerUnavailableError
            problem = f"cannot be read or written: {error}"
        elif name.startswith(_REFUSED):
            error_class = LedgerError
            problem = "refused an operation"
        return error_class(f"ledger {self.path} {problem} ({name}). The holdout was not queried.")


def is_ledger_file(path):
    """Return whether a file is a ledger of this package, from its first bytes."""
    try:
        with open(path, "rb") as file:
            start = file.read(100)
    except OSError:  # a folder, or no permission
        return False
    is_database = start.startswith(b"SQLite format 3\x00")
    return is_database and int.from_bytes(start[68:72], "big") == APPLICATION_ID


def _check_schema(connection, path):
    """Raise unless the file is a whole ledger."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise LedgerCorruptedError(f"ledger {path} is not a ledger of this package.")
    file_format = connection.execute("PRAGMA user_version").fetchone()[0]
    if file_format not in FORMATS:
        made_by = "another version"
        with contextlib.suppress(Exception):  # its content may be arbitrary
            text = connection.execute("SELECT content FROM header").fetchone()[0]
            made_by = parse_json(text).get("made_by")
        raise other_format(path, file_format, made_by)
    # No view, trigger or table but ours: a crafted one could answer in their place.
    if set(connection.execute(_DECLARED)) != _expected_objects():
        raise LedgerCorruptedError(
            f"ledger {path} was edited: its tables or triggers are not those of this package."
        )
    if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        raise LedgerCorruptedError(f"ledger {path} is damaged: SQLite's check found a fault.")


@functools.lru_cache(maxsize=1)
def _expected_objects():
    with _empty() as connection:
        return frozenset(connection.execute(_DECLARED))


def _empty():
    """Return an empty ledger in memory, which a block closes."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    connection.executescript(_SCHEMA)
    return contextlib.closing(connection)


def _identity(path):
    """Return the identity of a file, which a later file of the same name lacks, or ``None``."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None
