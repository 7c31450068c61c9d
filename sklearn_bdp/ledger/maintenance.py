"""Maintenance of ledgers: list, copy, move, upgrade, repair and delete.

A move marks its source before the target exists, an upgrade keeps the older ledger, and a copy that
fails is deleted.
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
from sklearn_bdp.ledger.backend import FORMAT, Backend, LedgerContents, Row, head_of
from sklearn_bdp.ledger.ledger import Chain, Ledger, backend_at
from sklearn_bdp.ledger.ledger_state import SystemNote
from sklearn_bdp.ledger.postgresql import LedgerURL, PostgreSQLBackend, is_url
from sklearn_bdp.ledger.records import canonical, parse_json


def list_ledgers(location: Any) -> list[Any]:
    """Return the locations of the ledgers in a folder or in a schema of a database.

    A path that is not a folder and a URL with ``holdout=`` are returned without a check.

    Parameters
    ----------
    location : str or Path
        A folder, a file, or a ``postgresql://`` URL with or without ``holdout=``.

    Returns
    -------
    list of Path or LedgerURL
        Location of each ledger.
    """
    if is_url(location):
        url_text = str(location)
        if "holdout=" in url_text:
            return [LedgerURL(url_text)]
        separator = "&" if "?" in url_text else "?"
        url = LedgerURL(f"{url_text}{separator}holdout=any")
        with PostgreSQLBackend(url) as backend:
            return [url.with_holdout(name) for name in backend.holdouts()]
    path = Path(location)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if is_ledger_file(file))
    return [path]


def copy_ledger(source: Any, target: Any) -> tuple[int, str]:
    """Copy a ledger with its secret state; return number and digest of the last entry.

    Raises LedgerError if the target has a ledger. ``source``, ``target``: locations as for
    :class:`~sklearn_bdp.ledger.ledger.Ledger`.
    """
    source_ledger = Ledger(source)
    target_backend = backend_at(target)
    with source_ledger.backend.lock(source_ledger.timeout):
        head = source_ledger.verify().head
        contents = _read_contents(source_ledger.backend)
    return _create(
        target_backend, contents.header, contents.header_digest, contents.rows, head=head
    )


def move_ledger(source: Any, target: Any) -> tuple[int, str]:
    """Move a ledger; return number and digest of the last entry that was moved.

    The source is marked first, so that both never answer at the same moment. A marked source
    answers no query, and its errors name the target. The same call completes an interrupted move.
    If the target cannot be created, the mark is withdrawn, unless the target may have a ledger of
    the same holdout records. Raises LedgerError if the source was moved elsewhere, or if the target
    has another ledger.
    ``source``, ``target``: locations as for :class:`~sklearn_bdp.ledger.ledger.Ledger`.
    """
    source_ledger = Ledger(source)
    target_backend = backend_at(target)
    with source_ledger.transaction() as ledger_state:
        earlier_target = ledger_state.moved_to()
    if earlier_target is None:
        if target_backend.read(0, 1) is not None:
            raise _exists_error(target_backend)
        source_ledger.verify()
        source_ledger.mark_moved(str(target_backend))
    elif earlier_target != str(target_backend):
        raise LedgerError(f"ledger {source_ledger.backend} was moved to {earlier_target} before.")
    contents = _read_contents(source_ledger.backend)
    rows = contents.rows[:-1]  # all but the note of the move
    head = head_of(contents.header_digest, rows)
    if _has_ledger_up_to(target_backend, contents.header_digest, head):
        Ledger(target_backend)  # verifies the entries
        return head
    try:
        return _create(target_backend, contents.header, contents.header_digest, rows, head=head)
    except BaseException:
        # If the target cannot be read, the source stays marked: it may have been created.
        if not _has_same_holdout_records(target_backend, contents.header):
            source_ledger.mark_moved(None)
        raise


def _has_ledger_up_to(backend, header_digest, head):
    """Return whether a backend has a ledger with a header and an entry; later ones are ignored.

    ``head``: number and digest of the entry.
    """
    number, digest = head
    contents = backend.read(number, 1)
    return (
        contents is not None
        and contents.header_digest == header_digest
        and contents.known_digest == digest
    )


def _has_same_holdout_records(backend, header_text):
    """Return whether a backend has a ledger of the holdout records that a header describes."""
    contents = backend.read(0, 1)
    if contents is None:
        return False
    return parse_json(contents.header).get("data") == parse_json(header_text).get("data")


def upgrade_ledger(location: Any) -> str:
    """Write a ledger in the format of this version; return the location of the older one.

    A file is replaced in one step, and the older one stays beside it. In a database the older
    tables stay as they are, and the result is a text that describes them. Raises LedgerVersionError
    if the ledger has this format already, and LedgerError if it cannot be upgraded.
    """
    older_ledger = Ledger(location)
    older_format = older_ledger.header["format"]
    if older_format == FORMAT:
        raise LedgerVersionError(
            f"ledger {older_ledger.backend} has format {FORMAT} already. Nothing was changed."
        )
    with _without_writers(older_ledger):
        older_ledger.verify()
        contents = _read_contents(older_ledger.backend)
        if _has_uncharged_report(contents):
            raise LedgerError(
                f"ledger {older_ledger.backend} was not upgraded: a final report was begun and did "
                "not finish. The version that began it did not charge for that, so this version "
                "cannot continue the ledger. Finish the report with the version that began it. The "
                "ledger can still be read: python -m sklearn_bdp ledger show|export|verify. "
                "Nothing was changed."
            )
        header, header_digest, rows = _convert(contents)
        head = head_of(header_digest, rows)
        if isinstance(older_ledger.backend, PostgreSQLBackend):
            newer_backend = PostgreSQLBackend(older_ledger.backend.url)
            _create(newer_backend, header, header_digest, rows, head=head)
            return f"the tables of format {older_format} in {older_ledger.backend}"
        path = older_ledger.backend.path
        backup = path.with_name(f"{path.name}.format-{older_format}")
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.upgrade")
        try:
            _create(SQLiteBackend(draft), header, header_digest, rows, head=head)
            os.link(path, backup)  # raises FileExistsError if there is a file
            os.replace(draft, path)
        except OSError as error:
            raise LedgerError(
                f"ledger {path} was not upgraded: {error.strerror} ({error.filename!s})."
            ) from None
        finally:
            draft.unlink(missing_ok=True)
    return str(backup)


def repair_ledger(location: Any) -> tuple[int, str] | None:
    """Set the stored head to the last entry, if it differs and all entries are intact.

    No entry is changed or removed. Returns number and digest of the last entry, or None if the
    stored head was correct.
    """
    ledger = Ledger(location, checks_head=False)
    with ledger.backend.lock(ledger.timeout):
        ledger_state = ledger.verify()
        if _read_contents(ledger.backend).head == ledger_state.head:
            return None
        ledger.backend.set_head(ledger_state.head)
    Ledger(location).verify()
    return ledger_state.head


def delete_ledger(location: Any) -> None:
    """Delete a ledger with its answers and the record of the information spent."""
    ledger = Ledger(location)
    with ledger.backend.lock(ledger.timeout):
        ledger.backend.delete()
    ledger.close()


def _read_contents(backend: Backend) -> LedgerContents:
    """Return all contents of a ledger; raise LedgerError if there is none."""
    contents = backend.read(0)
    if contents is None:
        raise LedgerError(f"ledger {backend} was not found.")
    return contents


def _create(backend, header, header_digest, rows, *, head):
    """Create a ledger, verify it, and return ``head``; delete the ledger if verification fails.

    ``head``: expected number and digest of the head, from ``header_digest`` and ``rows``. Raises
    LedgerError if the backend has a ledger already.
    """
    if not backend.create(header, header_digest, rows):
        raise _exists_error(backend)
    try:
        ledger = Ledger(backend)
        if ledger.verify().head != head:
            raise LedgerError(f"the copy at {backend} differs from its source.")
        ledger.close()
    except BaseException:
        backend.delete()
        raise
    return head


def _exists_error(backend):
    """Return the LedgerError for a target of a copy that has a ledger already."""
    return LedgerError(f"there is a ledger at {backend} already. Nothing was copied.")


def _convert(contents: LedgerContents) -> tuple[str, str, list[Row]]:
    """Return header text, its digest and rows in the format of this version, with new digests.

    ``contents``: contents of a ledger of an earlier format.
    """
    older_header = parse_json(contents.header)
    chain = Chain()
    header_text = canonical(
        older_header | {"format": FORMAT, "columns": None, "upgraded_from": older_header["format"]}
    )
    header_digest = chain.link("header", header_text)
    last_digest = header_digest
    converted_rows = []
    for row in contents.rows:
        content = row.content
        if row.kind == "batch":
            content = _with_finding(content)
        elif row.kind == "fact":
            content = _with_charge(content)
        last_digest = chain.link(last_digest, row.kind, content, row.answers, row.commitment)
        converted_rows.append(row._replace(content=content, digest=last_digest))
    return header_text, header_digest, converted_rows


def _has_uncharged_report(contents):
    """Return whether a ledger has an unfinished final report without a charge (theory G35)."""
    batch_texts = [row.content for row in contents.rows if row.kind == "batch"]
    note_texts = [row.content for row in contents.rows if row.kind == "fact"]
    is_closed = any('"closed":true' in text for text in batch_texts)
    return not is_closed and any(_with_charge(text) != text for text in note_texts)


def _with_charge(note_text):
    """Return the JSON text of a system note, with a charge of 0 if it can have one and lacks it.

    Only notes that a final report was begun have a charge. Other texts are returned unchanged.
    """
    note = parse_json(note_text)
    if note["name"] != SystemNote.CLOSING.value or "charge" in note["content"]:
        return note_text
    note["content"]["charge"] = 0.0
    return canonical(note)


def _with_finding(record_text):
    """Return the JSON text of a batch record, with the result of a check named ``finding``.

    Format 5 named this result ``word``. A text without it is returned unchanged.
    """
    record = parse_json(record_text)
    checks = record.get("checks", {})
    if "word" not in checks:
        return record_text
    checks["finding"] = checks.pop("word")
    return canonical(record)


@contextlib.contextmanager
def _without_writers(ledger: Ledger) -> Iterator[None]:
    """Return a context manager that locks a ledger file; it does nothing for a database."""
    if isinstance(ledger.backend, PostgreSQLBackend):  # version 0.1 has no function for the lock
        yield
        return
    with ledger.backend.lock(ledger.timeout):
        yield
