"""SQLite's failures, said in the words of the ledger."""

import contextlib
import sqlite3

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerUnavailableError,
)

# Primary result codes, https://www.sqlite.org/rescode.html
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DENIED = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_AUTH,
}


def translate(error, path):
    """Return the ledger's own error for an ``sqlite3.Error`` on the file ``path``."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if primary in _BUSY:
        return LedgerBusyError(
            f"ledger {path} is held by another process for longer than the waiting time "
            "(ledger_timeout); nothing was spent, ask again."
        )
    if primary == sqlite3.SQLITE_FULL:
        return LedgerUnavailableError(
            f"ledger {path} cannot grow: the disk is full; nothing was answered."
        )
    if primary in _DENIED:
        return LedgerUnavailableError(
            f"ledger {path} cannot be written: the file or its folder is read-only, missing or "
            f"not permitted ({name}); nothing was answered."
        )
    if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        return LedgerUnavailableError(
            f"ledger {path} cannot be read or written: {name}; nothing was answered."
        )
    if primary in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_MISUSE):
        return LedgerError(f"ledger {path} refused an operation: {name}; nothing was answered.")
    return LedgerCorruptedError(
        f"ledger {path} is not a whole ledger of this package: truncated, overwritten or "
        f"edited ({name}); nothing was answered."
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
