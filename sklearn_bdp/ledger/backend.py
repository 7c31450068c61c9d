"""Where entries are kept: a protocol of four methods, and the one that keeps them in memory.

A backend stores texts and does not interpret them: the chain, sealed states and statistics
are above it (:class:`~sklearn_bdp.ledger.Ledger`). So it can be wrong in one way only, to lose or
to change what it was given, and that is found out when it is read.
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

#: Formats of headers and entries, and the first version of the package that wrote them. A new
#: format comes with a new version only.
FORMATS = {5: "0.1.0", 6: "0.1.0", 7: "0.2.0"}
FORMAT = max(FORMATS)  # the others can be read, and upgraded


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
        Canonical JSON of the columns of a batch.
    sealed : str or None
        Noise of the current threshold, salted; secret. ``None`` if this user has no right to it,
        and may not query therefore.
    commitment : str
        Digest of the sealed state.
    digest : str
        The link: over the one before and all of the above.
    """

    number: int
    kind: str
    content: str
    answers: str
    sealed: str | None
    commitment: str
    digest: str


class Stored(NamedTuple):
    """Content of a backend at one moment.

    Parameters
    ----------
    header : str
        As it was created.
    start : str
        Digest of the header.
    head : tuple of int and str
        Number and digest of the last entry; 0 and ``start`` before the first.
    known : str or None
        Digest of the entry that the reader knows as the last, ``None`` if it is missing;
        ``start`` for 0.
    rows : sequence of Row
        Later entries, in order: all, or as many as were asked for.
    """

    header: str
    start: str
    head: tuple[int, str]
    known: str | None
    rows: Sequence[Row]


class Backend(abc.ABC):
    """Where the entries of one ledger are kept.

    ``str(backend)`` names it in messages; it holds no password. One that is pickled must find the
    same entries in every process, or raise.

    See Also
    --------
    sklearn_bdp.ReusableHoldout : Takes one as ``ledger``.
    """

    @abc.abstractmethod
    def create(self, header: str, start: str, rows: Sequence[Row] = ()) -> bool:
        """Store a header and the first rows, durably and as a whole, unless there is a ledger.

        Parameters
        ----------
        header, start : str
            A text and its digest.
        rows : sequence of Row, default=()
            Of a ledger that is copied.

        Returns
        -------
        bool
            Whether there was none.
        """

    @abc.abstractmethod
    def read(self, after_number: int, limit: int | None = None) -> Stored | None:
        """Return the stored content at one moment.

        Parameters
        ----------
        after_number : int
            Number of the last entry that the reader knows; 0 for none.
        limit : int or None, default=None
            Largest number of entries to return. ``None``: all.

        Returns
        -------
        Stored or None
            ``None`` without a ledger.
        """

    @abc.abstractmethod
    def lock(self, timeout: float) -> contextlib.AbstractContextManager[None]:
        """Keep every other writer out, in this process and others, for a block.

        :meth:`append` continues the content that :meth:`read` returns inside.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds.

        Returns
        -------
        context manager
            Of the block.

        Raises
        ------
        LedgerBusyError
            After the longest wait.
        """

    @abc.abstractmethod
    def append(self, expected_head: tuple[int, str], row: Row) -> None:
        """Store the next entry, at most once in a block of :meth:`lock`; durable on return.

        After an error the entry is stored as a whole or not at all.

        Parameters
        ----------
        expected_head : tuple of int and str
            Number and digest of the entry before; another head is an error.
        row : Row
            The entry.
        """

    def set_head(self, head: tuple[int, str]) -> None:
        """Move the head, inside :meth:`lock`; for repairs only.

        Parameters
        ----------
        head : tuple of int and str
            Number and digest of the last entry.
        """
        raise NotImplementedError(f"the head of {self} cannot be moved by a command.")

    def delete(self) -> None:
        """Delete the ledger."""
        raise NotImplementedError(f"{self} cannot be deleted by a command.")

    def check_process(self) -> None:  # noqa: B027  (most can write everywhere)
        """Raise where this process cannot write."""

    def close(self) -> None:  # noqa: B027  (some hold nothing open)
        """Close the connection of this process; the next call opens it again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def last_link(start, rows):
    """Return number and digest of the last entry."""
    return (rows[-1].number, rows[-1].digest) if rows else (0, start)


class MemoryBackend(Backend):
    """Entries in the memory of the process that made them."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._header: tuple[str, str] | None = None
        self._rows: list[Row] = []
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "in memory"

    def create(self, header, start, rows=()):
        """Store a header."""
        if self._header is None:
            self._header, self._rows = (header, start), list(rows)
            return True
        return False

    def read(self, after_number, limit=None):
        """Return the stored content."""
        if self._header is None:
            return None
        rows = self._rows
        _, start = self._header
        _, entry_digest = last_link(start, rows[after_number - 1 : after_number])  # start, for 0
        end = None if limit is None else after_number + limit
        later_rows = rows[after_number:end]
        return Stored(*self._header, last_link(start, rows), entry_digest, later_rows)

    @contextlib.contextmanager
    def lock(self, timeout):
        """Keep other threads out."""
        if not self._lock.acquire(timeout=timeout):
            raise LedgerBusyError(f"the ledger was held for more than {timeout:g} s.")
        try:
            yield
        finally:
            self._lock.release()

    def append(self, expected_head, row):
        """Store the next entry."""
        if expected_head[0] != len(self._rows):
            raise LedgerCorruptedError("the ledger in memory has another head.")
        self._rows.append(row)

    def check_process(self):
        """Raise in any process but its own: a copy would answer from a duplicate budget."""
        if os.getpid() != self.owner:
            raise ProcessBoundaryError(
                "this holdout keeps its records in the memory of another process; here it would "
                "answer from a duplicate budget. Give it a file that all processes share: "
                "ReusableHoldout(..., ledger='holdout.sqlite')."
            )


def corrupted(ledger, problem):
    """Return the error about a ledger that is not as this package wrote it."""
    return LedgerCorruptedError(
        f"ledger {ledger} was edited, truncated or restored from an older copy: {problem}. The "
        "holdout was not queried."
    )


def other_format(ledger, ledger_format, made_by):
    """Return the error about a ledger of a format that holdouts do not use."""
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
