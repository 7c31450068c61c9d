"""Storage of ledger entries: a protocol of four methods, and a backend in memory.

A backend stores texts and need not interpret them. The hash chain and the secret state are handled
by :class:`~sklearn_bdp.ledger.ledger.Ledger`. The chain detects lost or changed entries when the
ledger is read, unless the last entries and the head are lost together and the reader has not seen
them.
"""

from __future__ import annotations

import abc
import contextlib
import os
import threading
from collections.abc import Sequence
from typing import NamedTuple, Self

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerVersionError,
    ProcessBoundaryError,
)

#: First version of the package that wrote each format of headers and entries.
FORMATS = {5: "0.1.0", 6: "0.1.0", 7: "0.2.0"}
FORMAT = max(FORMATS)  # format of new ledgers; earlier formats can be read and upgraded


class Row(NamedTuple):
    """One entry as it is stored.

    Parameters
    ----------
    number : int
        1, 2, ... without holes.
    kind : str
        "batch", "note" (of a user) or "fact" (of this package).
    content : str
        Canonical JSON of a batch, or of a note's name and content.
    answers : str
        Canonical JSON of the columns of a batch; ``[]`` for an entry without answers.
    secret_text : str or None
        Canonical JSON of the secret state: noise of the threshold in use, and a salt. Empty if the
        entry does not change it. ``None`` if the user of this process may not read it; this user
        cannot query the holdout.
    commitment : str
        Digest of the secret text.
    digest : str
        Link of the chain: digest of the previous link, and of kind, content, answers and
        commitment.
    """

    number: int
    kind: str
    content: str
    answers: str
    secret_text: str | None
    commitment: str
    digest: str


class LedgerContents(NamedTuple):
    """Contents of a ledger at one moment, as :meth:`Backend.read` returns them.

    Parameters
    ----------
    header : str
        Header as it was created.
    header_digest : str
        Digest of the header.
    head : tuple of int and str
        Number and digest of the last entry; 0 and ``header_digest`` before the first entry.
    known_digest : str or None
        Digest of the last entry that the reader knows, with the number that was passed to
        :meth:`Backend.read`. ``header_digest`` for the number 0. If the entry is missing, ``None``
        or another text.
    rows : sequence of Row
        Entries after that number, in order: all of them, or at most ``limit``.
    """

    header: str
    header_digest: str
    head: tuple[int, str]
    known_digest: str | None
    rows: Sequence[Row]


class Backend(abc.ABC):
    """Storage of the entries of one ledger.

    ``str(backend)`` names it in messages and must not contain a password. After pickling, a
    backend must find the same entries in every process, or raise.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : Accepts a backend as ``ledger``.
    """

    @abc.abstractmethod
    def create(self, header: str, header_digest: str, rows: Sequence[Row] = ()) -> bool:
        """Create a ledger durably and as a whole, unless it exists.

        Parameters
        ----------
        header, header_digest : str
            Header of the ledger and its digest.
        rows : sequence of Row, default=()
            Entries of the ledger, if it is a copy.

        Returns
        -------
        bool
            True if the ledger was created, False if it existed.
        """

    @abc.abstractmethod
    def read(self, after_number: int, limit: int | None = None) -> LedgerContents | None:
        """Return the contents of the ledger at one moment.

        Parameters
        ----------
        after_number : int
            Number of the last entry that the reader knows; 0 for none.
        limit : int or None, default=None
            Largest number of entries to return. ``None``: all.

        Returns
        -------
        LedgerContents or None
            ``None`` if there is no ledger.
        """

    @abc.abstractmethod
    def lock(self, timeout: float) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that keeps out all other writers, also of other processes.

        Inside it, :meth:`read` returns the contents that :meth:`append` continues.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds.

        Returns
        -------
        context manager
            It holds the lock.

        Raises
        ------
        LedgerBusyError
            If another writer holds the lock for longer than ``timeout``.
        """

    @abc.abstractmethod
    def append(self, expected_head: tuple[int, str], row: Row) -> None:
        """Store the next entry durably, at most once in a block of :meth:`lock`.

        After an error the entry is stored as a whole or not at all.

        Parameters
        ----------
        expected_head : tuple of int and str
            Number and digest of the previous entry. If the head is another one, this raises.
        row : Row
            The entry.
        """

    def set_head(self, head: tuple[int, str]) -> None:
        """Set the stored head, inside :meth:`lock`. Only for repairs.

        Parameters
        ----------
        head : tuple of int and str
            Number and digest of the last entry.

        Raises
        ------
        NotImplementedError
            If the backend does not support repairs.
        """
        raise NotImplementedError(f"the head of {self} cannot be moved by a command.")

    def delete(self) -> None:
        """Delete the ledger.

        Raises
        ------
        NotImplementedError
            If the backend does not support deletion.
        """
        raise NotImplementedError(f"{self} cannot be deleted by a command.")

    def check_process(self) -> None:  # noqa: B027  (most can write everywhere)
        """Raise ProcessBoundaryError if this process cannot write."""

    def close(self) -> None:  # noqa: B027  (some hold nothing open)
        """Close the connection of this process; the next call opens it again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def head_of(header_digest, rows):
    """Return number and digest of the last row, or 0 and the header's digest without rows."""
    return (rows[-1].number, rows[-1].digest) if rows else (0, header_digest)


class MemoryBackend(Backend):
    """Entries in the memory of the process that created the ledger."""

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        self._header: tuple[str, str] | None = None  # text of the header and its digest
        self._rows: list[Row] = []
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "in memory"

    def create(self, header, header_digest, rows=()):
        """Store a header and the first entries, unless there is a header; return whether it did."""
        if self._header is None:
            self._header = (header, header_digest)
            self._rows = list(rows)
            return True
        return False

    def read(self, after_number, limit=None):
        """Return the contents of the ledger, None before :meth:`create`."""
        if self._header is None:
            return None
        header, header_digest = self._header
        # Without rows, for the number 0, this is the digest of the header.
        known_rows = self._rows[after_number - 1 : after_number]
        _, known_digest = head_of(header_digest, known_rows)
        end = None if limit is None else after_number + limit
        return LedgerContents(
            header=header,
            header_digest=header_digest,
            head=head_of(header_digest, self._rows),
            known_digest=known_digest,
            rows=self._rows[after_number:end],
        )

    @contextlib.contextmanager
    def lock(self, timeout):
        """Return a context manager that keeps out other threads.

        Raises LedgerBusyError if one holds the lock for longer than ``timeout`` seconds.
        """
        if not self._lock.acquire(timeout=timeout):
            raise LedgerBusyError(f"the ledger was held for more than {timeout:g} s.")
        try:
            yield
        finally:
            self._lock.release()

    def append(self, expected_head, row):
        """Store the next entry; raise LedgerCorruptedError if the head has another number."""
        if expected_head[0] != len(self._rows):
            raise LedgerCorruptedError("the ledger in memory has another head.")
        self._rows.append(row)

    def check_process(self):
        """Raise in other processes: a copy would answer from a duplicate budget."""
        if os.getpid() != self.owner_pid:
            raise ProcessBoundaryError(
                "This holdout keeps its records in the memory of another process. Here it would "
                "answer from a duplicate budget. Give it a file that all processes share: "
                "ReusableHoldout(..., ledger='holdout.sqlite')."
            )


def corrupted_error(ledger, problem):
    """Return the error for a ledger that is not as this package wrote it.

    ``ledger``: a location or backend, for the message. ``problem``: a clause.
    """
    return LedgerCorruptedError(
        f"ledger {ledger} was edited, truncated or restored from an older copy: {problem}. The "
        "holdout was not queried."
    )


def other_format_error(ledger, ledger_format, made_by):
    """Return the error for a ledger with a format other than that of this version.

    ``ledger``: a location or backend, for the message. ``ledger_format``: its format. ``made_by``:
    package and version in its header.
    """
    if ledger_format in FORMATS:
        fix = (
            "It can be read: python -m sklearn_bdp ledger show|export|verify. To go on with it, "
            "run: python -m sklearn_bdp ledger upgrade"
        )
    else:
        fix = "Install a version of sklearn_bdp that reads this format"
    return LedgerVersionError(
        f"ledger {ledger} has format {ledger_format!r:.20}, written by {made_by!s:.60}. This "
        f"version writes format {FORMAT}. {fix}. The holdout was not queried."
    )
