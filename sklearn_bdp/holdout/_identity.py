"""How a holdout travels and what can be read of it.

Copies are the holdout itself; pickles find it again, or find its ledger, or can only be read.
"""

import contextlib
import dataclasses
import os
import secrets

from sklearn_bdp.exceptions import ProcessBoundaryError
from sklearn_bdp.holdout import _process
from sklearn_bdp.holdout._batch import next_code_length
from sklearn_bdp.holdout._certificate import holdout_certificate
from sklearn_bdp.holdout._display import gauge_html, gauge_text
from sklearn_bdp.holdout._inputs import check_keys
from sklearn_bdp.holdout._settings import Settings
from sklearn_bdp.ledger import BatchRecord, History, Ledger

__all__ = ["LedgerHandle"]

_TRAVELS = (
    "X", "y", "n", "model", "beta", "ledger", "on_exhausted",
    "_token", "_seed", "_timeout", "_identity",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What an in-memory holdout had released when it was pickled; it can be read, not asked."""

    last: BatchRecord
    records: tuple

    def answers(self):
        """Return the recorded answers, oldest first."""
        return iter(self.records)

    def lookup(self, keys):
        """Return ``{key: AnswerRecord}`` of the keys that were answered."""
        wanted = set(keys)
        return {record.key: record for record in self.records if record.key in wanted}


class LedgerHandle:
    """Base of :class:`ReusableHoldout`: owns the ledger and the rules of identity.

    Subclasses set ``X, y, n, model, beta, ledger, on_exhausted`` and call :meth:`_attach`.
    """

    _learned = None  # (last batch learned from, predictor); public, rebuilt from the ledger

    def _attach(self, header, *, seed, timeout):
        """Make or open the ledger; the numbers in its header are the ones that count."""
        self._seed, self._timeout = seed, timeout
        self._identity = {name: header[name] for name in ("data", "correlation", "parameters")}
        self._token = secrets.token_hex(16)
        self._snapshot = None
        self._records = Ledger(self.ledger, header=header, timeout=timeout)
        self._settings = Settings(**self._records.header["settings"])
        _process.register(self._token, self)

    def _open(self):
        """Return the ledger of this process; a handle that came by pickle opens it here."""
        if self._records is None:
            if self.ledger is None:
                raise ProcessBoundaryError(
                    "this holdout kept its records in the memory of another process, which is "
                    "where it can be asked; here only history() and certificate() can be read. "
                    "Give it a file, ReusableHoldout(..., ledger='holdout.sqlite'), and every "
                    "process shares one budget."
                )
            self._records = Ledger(
                self.ledger,
                header=self._identity,
                create=False,
                timeout=self._timeout,
                head=self._head,
            )
        return self._records

    def _require_home(self):
        """Raise ProcessBoundaryError before anything is computed for a query."""
        self._open().check_process()

    @contextlib.contextmanager
    def _reading(self):
        if self._records is None and self._snapshot is not None:
            yield self._snapshot
            return
        with self._open().transaction() as transaction:
            yield transaction

    def _writing(self):
        return self._open().transaction(write=True)

    def recorded(self, keys):
        """Return what was already answered; looking costs nothing.

        Parameters
        ----------
        keys : list of str
            Keys of queries.

        Returns
        -------
        dict
            :class:`AnswerRecord` of each key that has one.
        """
        wanted = [key for key in check_keys(keys) if key is not None]
        with self._reading() as transaction:
            return transaction.lookup(wanted)

    @property
    def information_spent(self):
        """Code length of the next query, in nats: what adaptivity has cost so far."""
        with self._reading() as transaction:
            return float(next_code_length(transaction.last))

    @property
    def remaining_budget(self):
        """Number of "above" answers left; ``None`` where there is no cap."""
        if self._settings.budget is None:
            return None
        with self._reading() as transaction:
            return self._settings.budget - transaction.last.n_above

    def certificate(self):
        """Return the guarantee as it stands.

        Returns
        -------
        Certificate
            ``tau`` is the largest distance between an answer and an end of its interval: among
            all answers so far, and for the next query if its score is near 1/2.
        """
        with self._reading() as transaction:
            last = transaction.last
        return holdout_certificate(
            last,
            settings=self._settings,
            model=self.model,
            parameters=self._identity["parameters"],
            ledger=self.ledger,
            seeded=self._seed is not None,
        )

    def history(self):
        """Return everything released so far, oldest first.

        Returns
        -------
        History
            A sequence of :class:`AnswerRecord`; ``to_frame()`` makes a table.
        """
        with self._reading() as transaction:
            return History(transaction.answers())

    def __repr__(self):
        return f"<ReusableHoldout: {gauge_text(self)}>"

    def _repr_html_(self):
        return gauge_html(self)

    def key_identity(self):
        """Return what a holdout counts as in the keys of models that hold one.

        Returns
        -------
        str
            The digest of its records; not its account, which changes with every answer.
        """
        return f"holdout {self._identity['data']}"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def __reduce__(self):
        state = {name: getattr(self, name) for name in _TRAVELS}
        state["settings"] = dataclasses.asdict(self._settings)
        if self.ledger is not None:
            # The head goes along: a ledger restored from an older copy is recognised.
            state["head"] = self._records.head if self._records is not None else self._head
        elif self._snapshot is not None:
            state["snapshot"] = self._snapshot
        else:
            with self._reading() as transaction:
                state["snapshot"] = Snapshot(transaction.last, tuple(transaction.answers()))
            _process.keep_memory(self._token, self._records)
        return _restore, (type(self), state)


def _restore(cls, state):
    """Return the holdout of this process, or a handle on its ledger, or a record to read."""
    found = _process.find(state["_token"])
    if found is not None:
        return found
    holdout = cls.__new__(cls)
    for name in _TRAVELS:
        setattr(holdout, name, state[name])
    holdout._settings = Settings(**state["settings"])
    holdout._head = state.get("head")
    holdout._records = _process.memory_of(holdout._token)
    if holdout._records is not None and holdout._records.owner != os.getpid():
        holdout._records = None
    holdout._snapshot = state.get("snapshot")
    _process.register(holdout._token, holdout)
    return holdout
