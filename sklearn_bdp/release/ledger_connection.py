"""Connection of a holdout in this process to its ledger."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from sklearn_bdp.exceptions import ProcessBoundaryError
from sklearn_bdp.ledger.ledger import Ledger
from sklearn_bdp.ledger.ledger_state import LedgerState
from sklearn_bdp.utils.process import PICKLED_LEDGERS


class LedgerConnection:
    """Connection to the ledger of one holdout, opened again after unpickling.

    A ledger in the memory of another process can only be read, in the state that was pickled.

    Parameters
    ----------
    path : Path, LedgerURL, Backend or None
        Location of the ledger; None: in the memory of this process.
    header : dict
        Header of a new ledger. An existing one must agree with it.
    timeout : float
        Longest wait for other threads and processes, in seconds.
    notes : dict
        Contents of the notes that a new ledger starts with, by name.
    older_data : callable or None
        Returns the digest of the records in ledgers of version 0.1.
    """

    def __init__(
        self,
        path: Any,
        header: dict[str, Any],
        *,
        timeout: float,
        notes: dict[Any, Any],
        older_data: Callable[[], str] | None = None,
    ) -> None:
        self.path = path
        self.token = secrets.token_hex(16)
        self.timeout = timeout
        # Set in a pickle: number and digest of the latest entry, to detect a ledger restored from
        # an older copy, and the state of a ledger in memory.
        self._head: tuple[int, str] | None = None
        self._snapshot: LedgerState | None = None
        self._ledger: Ledger | None = Ledger(
            path, header=header, timeout=timeout, notes=notes, older_data=older_data
        )
        self.header = self._ledger.header
        identity_keys = ("data", "columns", "correlation", "parameters")
        self.identity = {key: header.get(key) for key in identity_keys}
        # An upgraded ledger identifies its records by the digest of the version that made it.
        self.identity["data"] = self.header["data"]

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self) | {"_ledger": None}
        if self.path is not None:
            state["_head"] = self._head if self._ledger is None else self._ledger.head
        elif self._snapshot is None:
            with self.read_transaction() as ledger_state:
                state["_snapshot"] = ledger_state
            PICKLED_LEDGERS[self.token] = self._ledger
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        ledger = PICKLED_LEDGERS.get(self.token)
        if ledger is not None and ledger.backend.owner_pid == os.getpid():
            self._ledger = ledger

    def check_process(self) -> None:
        """Raise ProcessBoundaryError for a ledger in the memory of another process."""
        self._open().backend.check_process()

    @property
    def secret_text(self) -> str | None:
        """JSON text of the latest secret state in the ledger; None if it has none."""
        return self._open().secret_text

    @contextlib.contextmanager
    def read_transaction(self, *, latest: bool = True) -> Iterator[LedgerState]:
        """Yield the ledger's state; ``latest=False``: the state last read by this process.

        The state of a ledger in the memory of another process is the one that was pickled.
        """
        if self._ledger is None and self._snapshot is not None:
            yield self._snapshot
            return
        ledger = self._open()
        with ledger.transaction() if latest else ledger.verified_state() as ledger_state:
            yield ledger_state

    def write_transaction(self) -> contextlib.AbstractContextManager[LedgerState]:
        """Return a context manager of the ledger's state, which can append one entry."""
        return self._open().transaction(write=True)

    def close(self) -> None:
        """Close the file or connection of this process; the next access opens it again."""
        if self._ledger is not None:
            self._ledger.close()

    def _open(self) -> Ledger:
        """Return the opened ledger.

        Raise ProcessBoundaryError if this object was unpickled without its ledger in memory.
        """
        if self._ledger is None:
            if self.path is None:
                raise ProcessBoundaryError(
                    "This holdout keeps its records in the memory of the process that made it, and "
                    "cannot be queried from another one. Set n_jobs=1, or give it a file that all "
                    "processes share: ReusableHoldout(..., ledger='holdout.sqlite'). history() and "
                    "certificate() can be read here. The holdout was not queried."
                )
            self._ledger = Ledger(
                self.path, header=self.identity, create=False, timeout=self.timeout, head=self._head
            )
        return self._ledger
