"""The file of a ledger: made whole or not at all, opened, recognised; its failures in words."""

import contextlib
import os
import secrets
import sqlite3

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger._schema import create_schema


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
            f"ledger {path} cannot be created: {error.strerror}; nothing was answered."
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
