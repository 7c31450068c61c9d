"""Storage of ledger entries: the base class of backends, and a backend in memory.

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
        "batch", "note" (a note that a user wrote) or "fact" (one that this package wrote).
    content : str
        Canonical JSON of a batch record, or of the name and the content of a note.
    answers : str
        Canonical JSON of the answers of a batch, by column; ``[]`` for an entry without answers.
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
        Digest of the entry with the number ``after_number`` that was passed to
        :meth:`Backend.read`. ``header_digest`` for the number 0. If the entry is missing, ``None``
        or another text.
    rows : sequence of Row
        Entries with larger numbers, in order. At most ``limit``, if that was passed.
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
        """Return header, head and later entries of the ledger at one moment.

        Parameters
        ----------
        after_number : int
            Number of the last entry that the caller knows; 0 for none.
        limit : int or None, default=None
            Largest number of later entries to return. ``None``: all.

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
            Number and digest of the previous entry. If the stored head has another number, raises
            LedgerCorruptedError.
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
        """Raise ProcessBoundaryError if this process cannot use the ledger. Default: never."""

    def close(self) -> None:  # noqa: B027  (some hold nothing open)
        """Close the connection of this process, if any. A later call opens it again."""

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
        """Store a header and first entries, unless a header is stored; return whether it did."""
        if self._header is None:
            self._header = (header, header_digest)
            self._rows = list(rows)
            return True
        return False

    def read(self, after_number, limit=None):
        """Return header, head and entries with numbers above ``after_number`` (at most ``limit``).

        None before :meth:`create`.
        """
        if self._header is None:
            return None
        header, header_digest = self._header
        # The entry ``after_number`` alone. Without it, head_of returns the digest of the header.
        known_rows = self._rows[after_number - 1 : after_number]
        _, known_digest = head_of(header_digest, known_rows)
        end_index = None if limit is None else after_number + limit
        return LedgerContents(
            header=header,
            header_digest=header_digest,
            head=head_of(header_digest, self._rows),
            known_digest=known_digest,
            rows=self._rows[after_number:end_index],
        )

    @contextlib.contextmanager
    def lock(self, timeout):
        """Return a context manager that keeps other threads from writing.

        Raises LedgerBusyError if it does not get the lock in ``timeout`` seconds.
        """
        if not self._lock.acquire(timeout=timeout):
            raise LedgerBusyError(f"the ledger was held for more than {timeout:g} s.")
        try:
            yield
        finally:
            self._lock.release()

    def append(self, expected_head, row):
        """Store the next entry; raise LedgerCorruptedError unless its predecessor is the last one.

        ``expected_head``: number and digest of the predecessor. The digest is not compared.
        """
        if expected_head[0] != len(self._rows):
            raise LedgerCorruptedError("the ledger in memory has another head.")
        self._rows.append(row)

    def check_process(self):
        """Raise ProcessBoundaryError in any process but the one that created this backend."""
        if os.getpid() != self.owner_pid:
            raise ProcessBoundaryError(
                "This holdout keeps its records in the memory of another process. Here it would "
                "answer from a duplicate budget. Give it a file that all processes share: "
                "ReusableHoldout(..., ledger='holdout.sqlite')."
            )


def corrupted_error(ledger, problem):
    """Return the LedgerCorruptedError for a ledger that is not as this package wrote it.

    ``ledger``: a location or backend, for the message. ``problem``: a clause with the damage.
    """
    return LedgerCorruptedError(
        f"ledger {ledger} was edited, truncated or restored from an older copy: {problem}. The "
        "holdout was not queried."
    )


def other_format_error(ledger, ledger_format, made_by):
    """Return the LedgerVersionError for a ledger with another format than this version writes.

    ``ledger``: a location or backend, for the message. ``ledger_format``: number of its format.
    ``made_by``: name and version of the package that wrote it.
    """
    if ledger_format in FORMATS:
        fix_text = (
            "It can be read: python -m sklearn_bdp ledger show|export|verify. To go on with it, "
            "run: python -m sklearn_bdp ledger upgrade"
        )
    else:
        fix_text = "Install a version of sklearn_bdp that reads this format"
    return LedgerVersionError(
        f"ledger {ledger} has format {ledger_format!r:.20}, written by {made_by!s:.60}. This "
        f"version writes format {FORMAT}. {fix_text}. The holdout was not queried."
    )
