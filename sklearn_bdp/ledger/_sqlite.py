"""Backend that stores the entries of a ledger in an SQLite file."""

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
    LedgerContents,
    Row,
    corrupted_error,
    head_of,
    other_format_error,
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
_SELECT_SCHEMA_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_INSERT_ENTRY = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)"
#: Names of SQLite's primary result codes, https://www.sqlite.org/rescode.html
_BUSY_CODES = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNAVAILABLE_CODES = (
    "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH",
    "SQLITE_IOERR", "SQLITE_NOMEM",
)  # fmt: skip
_REFUSED_CODES = ("SQLITE_CONSTRAINT", "SQLITE_INTERRUPT", "SQLITE_MISUSE")


class Connection(sqlite3.Connection):
    """SQLite connection that is not closed in a child process that inherits it by a fork.

    Closing it there could damage the file (https://www.sqlite.org/howtocorrupt.html, section 2.6).
    """

    #: Connections of a parent process, which a reference keeps from being closed.
    inherited: ClassVar[list] = []

    def __init__(self, *args, **options):
        self.owner_pid = os.getpid()
        super().__init__(*args, **options)

    def __del__(self):
        if self.owner_pid != os.getpid():
            self.inherited.append(self)


#: Page size of a new file, in bytes. Entries of several kB fit badly on small pages.
_PAGE_SIZE = 16384
#: Seconds for which a writer waits for its turn in the queue. Earlier writers may be stopped.
_LONGEST_TURN_WAIT = 0.3
_POLLING_INTERVAL = 0.001  # seconds between two attempts to begin a transaction


def _publish(draft, path):
    """Move the finished file ``draft`` to ``path``, unless that exists; return whether it moved."""
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
    """Ledger entries in an SQLite file that processes of one machine share."""

    def __init__(self, path, *, timeout=60.0):
        self.path = path
        self._timeout = timeout  # seconds
        self._file_identity = None  # of the opened file, see _identity
        self._connection = None
        self._owner_pid = None  # process that opened the connection

    def __str__(self):
        return str(self.path)

    def create(self, header, header_digest, rows=()):
        """Create the file with a header and first entries, unless it exists; return whether it did.

        Raises LedgerUnavailableError if the file cannot be written. ``header``: JSON text.
        ``rows``: the first entries (:class:`Row`).
        """
        if os.path.lexists(self.path):
            return False
        last_number_and_digest = head_of(header_digest, rows)
        with _empty_database() as connection:
            connection.execute("INSERT INTO header VALUES (0, ?, ?)", (header, header_digest))
            connection.executemany(_INSERT_ENTRY, rows)
            connection.execute("INSERT INTO head VALUES (0, ?, ?)", last_number_and_digest)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            file_bytes = connection.serialize()
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            # Mode 0600: the file contains the noise of the current threshold.
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "wb") as file:
                file.write(file_bytes)
                file.flush()
                os.fsync(file.fileno())
            return _publish(draft, self.path)
        except OSError as error:
            fix_text = ""
            if not self.path.parent.is_dir():
                fix_text = f" Create the folder {self.path.parent} first."
            raise LedgerUnavailableError(
                f"ledger {self.path} cannot be created: {error.strerror}.{fix_text} The holdout "
                "was not queried."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def read(self, after_number, limit=None):
        """Return header, head and entries with numbers above ``after_number`` (at most ``limit``).

        None if there is no file and this backend has not opened one before.
        """
        if self._connection is None and not os.path.isfile(self.path):
            return None
        with self._raising_ledger_errors():
            if self._is_in_transaction():
                return self._select_contents(after_number, limit)
            try:
                self._begin("BEGIN")
                return self._select_contents(after_number, limit)
            finally:  # also if an interrupt comes right after it began
                self._roll_back()

    def _select_contents(self, after_number, limit):
        """Return header, head and entries with numbers above ``after_number``, in a transaction.

        ``limit``: largest number of these entries, None for all. Entries with invalid numbers below
        1 are returned as well. Raises LedgerCorruptedError if the file was replaced, or lacks its
        header or its head.
        """
        connection = self._connection
        if _identity(self.path) != self._file_identity:
            raise corrupted_error(self, "it was deleted or replaced while in use")
        headers = connection.execute("SELECT content, digest FROM header").fetchall()
        heads = connection.execute(
            "SELECT number, digest, (SELECT digest FROM log WHERE number = ?) FROM head",
            (after_number,),
        ).fetchall()
        if len(headers) != 1 or len(heads) != 1:
            raise corrupted_error(self, "its header or its head is missing")
        ((header, header_digest),) = headers
        ((last_number, last_digest, known_digest),) = heads
        # The caller rejects numbers below 1, which this package does not write. With OR in one
        # statement, SQLite would scan the whole log.
        rows = connection.execute("SELECT * FROM log WHERE number < 1").fetchall()
        select_later_rows = "SELECT * FROM log WHERE number > ? ORDER BY number LIMIT ?"
        sql_limit = -1 if limit is None else limit
        rows += connection.execute(select_later_rows, (after_number, sql_limit)).fetchall()
        return LedgerContents(
            header=header,
            header_digest=header_digest,
            head=(last_number, last_digest),
            known_digest=header_digest if after_number == 0 else known_digest,
            rows=list(map(Row._make, rows)),
        )

    @contextlib.contextmanager
    def lock(self, timeout):
        """Return a context manager that holds the write lock of the database.

        Writers take turns. After ``_LONGEST_TURN_WAIT`` seconds a writer tries to get the lock out
        of turn. Raises LedgerBusyError if it does not get the lock in ``timeout`` seconds.
        """
        turn = None
        try:
            with self._raising_ledger_errors():
                turn = WriterTurn(self.path)
                self._begin_writing(turn, timeout)
            yield
        finally:  # also if an interrupt comes right after it began
            self._roll_back()
            if turn is not None:
                turn.close()

    def _begin_writing(self, turn, timeout):
        """Begin a writing transaction at the turn of a writer, or after ``_LONGEST_TURN_WAIT`` s.

        Raises sqlite3.OperationalError if the database is still busy after ``timeout`` seconds.
        Other errors are raised at once. ``turn``: :class:`WriterTurn` of this writer.
        """
        start_time = time.monotonic()
        while True:
            waited_seconds = time.monotonic() - start_time
            is_last_try = waited_seconds >= timeout
            if is_last_try or waited_seconds > _LONGEST_TURN_WAIT or turn.is_first():
                try:
                    self._begin("BEGIN IMMEDIATE", busy_timeout=0.0)
                    break
                except sqlite3.OperationalError as error:
                    error_name = getattr(error, "sqlite_errorname", "") or ""
                    if is_last_try or not error_name.startswith(_BUSY_CODES):
                        raise
            time.sleep(_POLLING_INTERVAL)
        remaining_seconds = max(1.0, timeout - (time.monotonic() - start_time))
        # COMMIT waits for readers.
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * remaining_seconds)}")

    def set_head(self, head):
        """Set the stored head, inside :meth:`lock`. Only for repairs."""
        with self._raising_ledger_errors():
            self._connection.execute("UPDATE head SET number = ?, digest = ?", head)
            self._connection.execute("COMMIT")

    def delete(self):
        """Remove the ledger file and its queue file; raise LedgerUnavailableError on failure."""
        try:
            os.unlink(self.path)
            queue_path(self.path).unlink(missing_ok=True)
        except OSError as error:
            raise LedgerUnavailableError(
                f"ledger {self.path} cannot be deleted: {error.strerror}."
            ) from None

    def close(self):
        """Close the connection of this process."""
        connection = self._own_connection()
        self._connection = None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _raising_ledger_errors(self):
        """Return a context manager that raises a LedgerError in place of an error of SQLite."""
        try:
            yield
            return
        except Exception as error:
            ledger_error = self._translate_error(error)
        raise ledger_error

    def append(self, expected_head, row):
        """Write the next entry to the disk, inside :meth:`lock`.

        Raises LedgerCorruptedError unless ``expected_head``, the number and the digest of the
        previous entry, is the stored head.
        """
        with self._raising_ledger_errors():
            connection = self._connection
            head_update = connection.execute(
                "UPDATE head SET number = ?, digest = ? WHERE number = ? AND digest = ?",
                (row.number, row.digest, *expected_head),
            )
            if head_update.rowcount != 1 or not connection.in_transaction:
                raise corrupted_error(self, "its head was moved")
            connection.execute(_INSERT_ENTRY, row)
            connection.execute("COMMIT")

    def _own_connection(self):
        """Return the connection that this process opened, or None."""
        return self._connection if self._owner_pid == os.getpid() else None

    def _begin(self, statement, *, busy_timeout=None):
        """Execute a BEGIN statement, after opening the file if this process has not.

        ``busy_timeout``: longest wait for a lock in seconds. None: the timeout of the backend.
        """
        if self._own_connection() is None:
            self._connect()
        seconds = self._timeout if busy_timeout is None else busy_timeout
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
        self._connection.execute(statement)

    def _connect(self):
        """Open an existing ledger file, check its tables, and keep the connection."""
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",  # does not create a file
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
            # A damaged write-ahead log could lose answered batches without any sign of it.
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            _check_schema(connection, self.path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._owner_pid = os.getpid()
        self._file_identity = _identity(self.path)

    def _is_in_transaction(self):
        """Return whether this process has an open transaction."""
        return self._own_connection() is not None and self._connection.in_transaction

    def _roll_back(self):
        """Roll back the open transaction, if any; close the connection if that fails."""
        connection = self._connection
        try:
            if self._is_in_transaction():
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _translate_error(self, error):
        """Return a LedgerError for an error of SQLite or a UnicodeDecodeError; others unchanged."""
        if isinstance(error, UnicodeDecodeError):  # the file contains bytes that are not UTF-8
            error = sqlite3.DatabaseError()
        if not isinstance(error, sqlite3.Error):
            return error
        error_name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        error_class: type[LedgerError] = LedgerCorruptedError
        problem = (
            "cannot be read: the file is not a ledger, or it was truncated, overwritten or edited. "
            "If this is another file, pass a new path. If it was your ledger, restore a backup: a "
            "new one does not know its answers"
        )
        if error_name.startswith(_BUSY_CODES):
            error_class = LedgerBusyError
            problem = "is held by another process for longer than ledger_timeout"
        elif error_name.startswith("SQLITE_READONLY"):
            error_class = LedgerUnavailableError
            problem = (
                f"can be read but not written: {error}. Its file and its folder must be writable "
                "for the user of this process"
            )
        elif error_name.startswith(_UNAVAILABLE_CODES):
            error_class = LedgerUnavailableError
            problem = f"cannot be read or written: {error}"
        elif error_name.startswith(_REFUSED_CODES):
            error_class = LedgerError
            problem = "refused an operation"
        return error_class(
            f"ledger {self.path} {problem} ({error_name}). The holdout was not queried."
        )


def is_ledger_file(path):
    """Return whether the first bytes of a file are those of a ledger of this package."""
    try:
        with open(path, "rb") as file:
            first_bytes = file.read(100)
    except OSError:  # a folder, or no permission
        return False
    is_database = first_bytes.startswith(b"SQLite format 3\x00")
    return is_database and int.from_bytes(first_bytes[68:72], "big") == APPLICATION_ID


def _check_schema(connection, path):
    """Raise LedgerError or sqlite3.Error unless a file is an undamaged ledger of a known format."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise LedgerCorruptedError(
            f"ledger {path} is not a ledger of this package. Pass a new path. The holdout was not "
            "queried."
        )
    (file_format,) = connection.execute("PRAGMA user_version").fetchone()
    if file_format not in FORMATS:
        made_by = "another version"
        with contextlib.suppress(Exception):  # its content may be arbitrary
            (header_text,) = connection.execute("SELECT content FROM header").fetchone()
            made_by = parse_json(header_text).get("made_by")
        raise other_format_error(path, file_format, made_by)
    # Another view, trigger or table could return other entries than those of the log.
    if set(connection.execute(_SELECT_SCHEMA_OBJECTS)) != _expected_schema_objects():
        raise LedgerCorruptedError(
            f"ledger {path} was edited: its tables or triggers are not those of this package."
        )
    (integrity,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if integrity != "ok":
        raise LedgerCorruptedError(f"ledger {path} is damaged: SQLite's check found a fault.")


@functools.lru_cache(maxsize=1)
def _expected_schema_objects():
    """Return type, name, table and SQL text of each table and trigger of a ledger, as a set."""
    with _empty_database() as connection:
        return frozenset(connection.execute(_SELECT_SCHEMA_OBJECTS))


def _empty_database():
    """Return a context manager of a connection to a database in memory with empty tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    connection.executescript(_SCHEMA)
    return contextlib.closing(connection)


def _identity(path):
    """Return device and inode number of a file, or None if the file cannot be accessed."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None
