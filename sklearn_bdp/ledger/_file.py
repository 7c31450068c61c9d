"""The file of a ledger: its tables, made whole or not at all, opened; its failures in words."""

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
import sqlite3

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerUnavailableError,
    LedgerVersionError,
)
from sklearn_bdp.ledger._records import canonical, digest

KEY_VARIABLE = "SKLEARN_BDP_LEDGER_KEY"
_SHORTEST_KEY = 16


class Chain:
    """Digests of links, each over the one before.

    Without a key anybody can compute them, so an edited file whose links were computed anew
    verifies; with one (HMAC-SHA256) only its owner can.
    """

    def __init__(self, key=None):
        self._key = key

    @property
    def kind(self):
        """What the header of a ledger says of its chain."""
        return "sha256" if self._key is None else "hmac-sha256"

    def start(self, header):
        """Return the digest that the chain starts with."""
        return self._keyed(digest("header", header))

    def link(self, previous, kind, content, answers, commitment):
        """Return the digest of one entry: the link before, what it says, what it seals."""
        return self._keyed(digest(previous, kind, content, answers, commitment))

    def __repr__(self):
        return f"Chain({self.kind})"  # never the key

    def _keyed(self, text):
        if self._key is None:
            return text
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def chain_from_environment():
    """Return the chain under the key in the environment, plain where there is none."""
    key = os.environ.get(KEY_VARIABLE, "")
    if key and len(key) < _SHORTEST_KEY:
        raise LedgerError(
            f"{KEY_VARIABLE} must have at least {_SHORTEST_KEY} characters, got {len(key)}. The "
            "holdout was not queried."
        )
    return Chain(key.encode("utf-8", "surrogateescape") if key else None)


APPLICATION_ID = 0x42445031  # "BDP1", kept in the header of the file
SCHEMA_VERSION = 4

_TABLES = (
    """CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    content TEXT NOT NULL,      -- canonical JSON: fingerprints, parameters, kind of chain
    digest TEXT NOT NULL        -- start of the chain
)""",
    """CREATE TABLE log (
    number INTEGER PRIMARY KEY, -- 1, 2, ... without holes
    kind TEXT NOT NULL,         -- 'batch' or 'note'
    content TEXT NOT NULL,      -- canonical JSON of a BatchRecord, or of a note's name and content
    answers TEXT NOT NULL,      -- canonical JSON of the rows of the batch
    sealed TEXT NOT NULL,       -- noise of the current threshold, salted, shown to nobody
    commitment TEXT NOT NULL,   -- digest of sealed
    digest TEXT NOT NULL        -- the link: over the one before and all of the above
)""",
    """CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    number INTEGER NOT NULL,    -- of the last entry
    digest TEXT NOT NULL
)""",
)
_TRIGGERS = tuple(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    for table in ("header", "log")
    for verb in ("UPDATE", "DELETE")
)


def create_schema(connection, header, chain):
    """Write an empty ledger with the given header (a dict), append-only by trigger."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (*_TABLES, *_TRIGGERS):
        connection.execute(statement)
    content = canonical({**header, "chain": chain.kind})
    start = chain.start(content)
    connection.execute("INSERT INTO header VALUES (0, ?, ?)", (content, start))
    connection.execute("INSERT INTO head VALUES (0, 0, ?)", (start,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def check_schema(connection, path):
    """Raise unless the file is a whole ledger that this version can read."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise LedgerCorruptedError(f"ledger {path} is not a ledger of this package.")
    if version != SCHEMA_VERSION:
        raise LedgerVersionError(
            f"ledger {path} has schema version {version}, and this package reads "
            f"{SCHEMA_VERSION}. Install the version that wrote it."
        )
    # No view, trigger or table but ours: a crafted one could answer in their place.
    if _objects(connection) != _expected_objects():
        raise LedgerCorruptedError(
            f"ledger {path} was edited: its tables or triggers are not those of this package."
        )
    if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        raise LedgerCorruptedError(f"ledger {path} is damaged: SQLite's check found a fault.")


def _objects(connection):
    """Return everything that a database declares."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@functools.lru_cache(maxsize=1)
def _expected_objects():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*_TABLES, *_TRIGGERS):
            connection.execute(statement)
        return frozenset(_objects(connection))


def create_file(path, header, chain):
    """Create the file whole or not at all, unless it exists.

    It is built in memory, written under another name and linked into place. So an existing file is
    never taken for a new one: a ledger truncated to nothing is an error, not a fresh budget.
    """
    if os.path.lexists(path):
        return
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection, header, chain)
        content = connection.serialize()
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            # 0600: the file holds the noise of the current threshold.
            descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _put_in_place(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise LedgerUnavailableError(
            f"ledger {path} cannot be created: {error.strerror}. The holdout was not queried."
        ) from None


def open_file(path, *, timeout, read_only):
    """Open an existing file; a commit returns when the data are on the disk.

    A rollback journal, not a write-ahead log: after a crash, damage to a log that was not copied
    back yet would lose batches that had been answered, and nothing would tell.
    """
    mode = "ro" if read_only and not os.access(path, os.W_OK) else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
        if read_only:  # what an interrupted process left half written is still rolled back
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def identity(path):
    """Return what tells a file from another one under the same name, or ``None``."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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


#: Names of SQLite's primary result codes, https://www.sqlite.org/rescode.html
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNAVAILABLE = (
    "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH",
    "SQLITE_IOERR", "SQLITE_NOMEM",
)  # fmt: skip
_REFUSED = ("SQLITE_CONSTRAINT", "SQLITE_INTERRUPT", "SQLITE_MISUSE")


def translate(error, path):
    """Return the ledger's own error for an ``sqlite3.Error`` on the file ``path``."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    kind, said = LedgerCorruptedError, "is truncated, overwritten, edited or not a ledger"
    if name.startswith(_BUSY):
        kind, said = LedgerBusyError, "is held by another process for longer than ledger_timeout"
    elif name.startswith(_UNAVAILABLE):
        kind, said = LedgerUnavailableError, f"cannot be read or written: {error}"
    elif name.startswith(_REFUSED):
        kind, said = LedgerError, "refused an operation"
    return kind(f"ledger {path} {said} ({name}). The holdout was not queried.")


def corrupted(path, problem):
    """Return the error about a ledger that is not as this package wrote it."""
    return LedgerCorruptedError(
        f"ledger {path or 'in memory'} was edited, truncated or restored from an older copy: "
        f"{problem}. The holdout was not queried."
    )


@contextlib.contextmanager
def translated(path):
    """Raise the ledger's errors instead of SQLite's."""
    try:
        yield
    except sqlite3.Error as error:
        failure = translate(error, path)
    except UnicodeDecodeError:
        failure = translate(sqlite3.DatabaseError(), path)
    else:
        return
    raise failure
