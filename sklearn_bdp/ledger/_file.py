"""The file of a ledger: made whole or not at all, opened, recognised."""

import contextlib
import os
import platform
import secrets
import sqlite3
import zlib
from pathlib import Path

from sklearn_bdp.exceptions import LedgerUnavailableError
from sklearn_bdp.ledger._schema import create_schema


def create_file(path, header, chain):
    """Create the file whole or not at all, unless it exists.

    It is built in memory, written under another name and linked into place. So an existing file is
    never taken for a new one: a ledger truncated to nothing is an error, not a fresh budget.
    """
    _remove_drafts(path)
    if os.path.lexists(path):
        return
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection, header, chain)
        content = connection.serialize()
    draft = path.with_name(f"{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.new")
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


def _host():
    """Return a short mark of this machine."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _remove_drafts(path):
    """Remove unfinished files of processes of this machine that are no more."""
    with contextlib.suppress(OSError):
        for draft in Path(path.parent).iterdir():
            if not (draft.name.startswith(f"{path.name}.") and draft.name.endswith(".new")):
                continue
            host, _, rest = draft.name[len(path.name) + 1 :].partition("-")
            number = rest.partition("-")[0]
            if host == _host() and number.isdigit() and not _is_alive(int(number)):
                draft.unlink(missing_ok=True)


def _is_alive(pid):
    """Return whether a process exists; in doubt it does."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


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
