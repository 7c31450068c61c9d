"""The life of a ledger: listed, copied, moved, upgraded, repaired, deleted.

Nothing here gives a holdout a second budget by accident: a move marks its source before the target
exists, an upgrade keeps the older ledger under another name, and a failure leaves no target.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn_bdp.exceptions import LedgerError, LedgerVersionError
from sklearn_bdp.ledger._sqlite import SQLiteBackend, is_ledger_file
from sklearn_bdp.ledger.backend import FORMAT, Backend, Row
from sklearn_bdp.ledger.book import Fact
from sklearn_bdp.ledger.ledger import Chain, Ledger, backend_at
from sklearn_bdp.ledger.postgresql import LedgerURL, PostgreSQLBackend, is_url
from sklearn_bdp.ledger.records import canonical, parse_json


def list_ledgers(location: Any) -> list[Any]:
    """Return the ledgers of a folder or a database, or the one at a path or URL.

    Parameters
    ----------
    location : str or Path
        A folder, a file, or a ``postgresql://`` URL with or without ``holdout=``.

    Returns
    -------
    list of Path or LedgerURL
        Where they are.
    """
    if is_url(location):
        text = str(location)
        if "holdout=" in text:
            return [LedgerURL(text)]
        separator = "&" if "?" in text else "?"
        url = LedgerURL(f"{text}{separator}holdout=any")
        with PostgreSQLBackend(url) as backend:
            return [url.with_holdout(name) for name in backend.holdouts()]
    path = Path(location)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if is_ledger_file(file))
    return [path]


def copy_ledger(source: Any, target: Any) -> tuple[int, str]:
    """Copy a ledger with all that is sealed in it; return number and digest of the last entry."""
    ledger = Ledger(source)
    backend = backend_at(target)
    with ledger.backend.lock(ledger.timeout):
        head = ledger.verify().head
        stored = _stored(ledger.backend)
    return _create(backend, stored.header, stored.start, stored.rows, head=head)


def move_ledger(source: Any, target: Any) -> tuple[int, str]:
    """Move a ledger: from then on the source answers nothing and names the target.

    The source is marked first, so that both never answer at the same moment. A move that was
    interrupted is completed by the same call.
    """
    ledger = Ledger(source)
    backend = backend_at(target)
    with ledger.transaction() as book:
        destination = book.moved_to()
    if destination is None:
        if backend.read(0, 1) is not None:
            raise _exists(backend)
        ledger.verify()
        ledger.mark_moved(str(backend))
    elif destination != str(backend):
        raise LedgerError(f"ledger {ledger.backend} was moved to {destination} before.")
    stored = _stored(ledger.backend)
    rows = stored.rows[:-1]  # all but the mark
    head = (rows[-1].number, rows[-1].digest) if rows else (0, stored.start)
    if backend.read(0, 1) is not None and Ledger(backend).head == head:
        return head
    try:
        return _create(backend, stored.header, stored.start, rows, head=head)
    except BaseException:
        ledger.mark_moved(None)
        raise


def upgrade_ledger(location: Any) -> str:
    """Write a ledger in the format of this version; return where the older one is kept.

    A file is replaced in one step, and the older one stays beside it. In a database the tables of
    the older version stay as they are.
    """
    older = Ledger(location)
    older_format = older.header["format"]
    if older_format == FORMAT:
        raise LedgerVersionError(
            f"ledger {older.backend} has format {FORMAT} already. Nothing was changed."
        )
    with _kept_apart(older):
        older.verify()
        stored = _stored(older.backend)
        if _has_uncharged_report(stored):
            raise LedgerError(
                f"ledger {older.backend} was not upgraded: a final report was begun and did not "
                "finish. The version that began it did not charge for that, so this version cannot "
                "continue the ledger. Finish the report with the version that began it. The ledger "
                "can still be read: python -m sklearn_bdp ledger show|export|verify. Nothing was "
                "changed."
            )
        header, start, rows = _converted(stored)
        head = (rows[-1].number, rows[-1].digest) if rows else (0, start)
        if isinstance(older.backend, PostgreSQLBackend):
            _create(PostgreSQLBackend(older.backend.url), header, start, rows, head=head)
            return f"the tables of format {older_format} in {older.backend}"
        path = older.backend.path
        backup = path.with_name(f"{path.name}.format-{older_format}")
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.upgrade")
        try:
            _create(SQLiteBackend(draft), header, start, rows, head=head)
            os.link(path, backup)  # an existing file is an error
            os.replace(draft, path)
        except OSError as error:
            raise LedgerError(
                f"ledger {path} was not upgraded: {error.strerror} ({error.filename!s})."
            ) from None
        finally:
            draft.unlink(missing_ok=True)
    return str(backup)


def repair_ledger(location: Any) -> tuple[int, str] | None:
    """Move the head to the last entry if it is elsewhere and all entries are intact.

    No entry is changed or removed: recorded answers stay charged. Returns the head, or None if
    nothing was wrong.
    """
    ledger = Ledger(location, checks_head=False)
    with ledger.backend.lock(ledger.timeout):
        book = ledger.verify()
        if _stored(ledger.backend).head == book.head:
            return None
        ledger.backend.set_head(book.head)
    Ledger(location).verify()
    return book.head


def delete_ledger(location: Any) -> None:
    """Delete a ledger, its answers and their cost."""
    ledger = Ledger(location)
    with ledger.backend.lock(ledger.timeout):
        ledger.backend.delete()
    ledger.close()


def _stored(backend: Backend) -> Any:
    stored = backend.read(0)
    if stored is None:
        raise LedgerError(f"ledger {backend} was not found.")
    return stored


def _create(backend, header, start, rows, *, head):
    """Create a ledger and verify it; leave none if that fails."""
    if not backend.create(header, start, rows):
        raise _exists(backend)
    try:
        copy = Ledger(backend)
        if copy.verify().head != head:
            raise LedgerError(f"the copy at {backend} differs from its source.")
        copy.close()
    except BaseException:
        backend.delete()
        raise
    return head


def _exists(backend):
    return LedgerError(f"there is a ledger at {backend} already. Nothing was copied.")


def _converted(stored: Any) -> tuple[str, str, list[Row]]:
    """Return header, its digest and entries in the format of this version, linked anew."""
    facts = parse_json(stored.header)
    chain = Chain()
    header = canonical(
        facts | {"format": FORMAT, "columns": None, "upgraded_from": facts["format"]}
    )
    start = previous = chain.link("header", header)
    rows = []
    for row in stored.rows:
        content = row.content
        if row.kind == "batch":
            content = _with_finding(content)
        elif row.kind == "fact":
            content = _with_charge(content)
        previous = chain.link(previous, row.kind, content, row.answers, row.commitment)
        rows.append(row._replace(content=content, digest=previous))
    return header, start, rows


def _has_uncharged_report(stored):
    """Return whether a final report was begun without a charge and did not finish (theory G35)."""
    is_closed = any('"closed":true' in row.content for row in stored.rows if row.kind == "batch")
    return not is_closed and any(
        row.kind == "fact" and _with_charge(row.content) != row.content for row in stored.rows
    )


def _with_charge(content):
    """Return a system note; the note of a final report that finished has a charge of 0."""
    note = parse_json(content)
    if note["name"] != Fact.CLOSING.value or "charge" in note["content"]:
        return content
    note["content"]["charge"] = 0.0
    return canonical(note)


def _with_finding(content):
    """Return a batch with the result of its check under the name that came with format 6."""
    record = parse_json(content)
    checks = record.get("checks", {})
    if "word" not in checks:
        return content
    checks["finding"] = checks.pop("word")
    return canonical(record)


@contextlib.contextmanager
def _kept_apart(ledger: Ledger) -> Iterator[None]:
    """Keep writers of an older version out of a file; the tables of a database have no function."""
    if isinstance(ledger.backend, PostgreSQLBackend):
        yield
        return
    with ledger.backend.lock(ledger.timeout):
        yield
