"""How a holdout travels and what can be read of it.

A holdout is known by a token. Copies in its process are the holdout itself; a pickle finds it
again, or finds its ledger, or can only be read.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
import secrets
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sklearn_bdp._card import card, table
from sklearn_bdp.exceptions import (
    LedgerCorruptedError,
    LedgerError,
    ProcessBoundaryError,
)
from sklearn_bdp.guards import (
    KnownRows,
    TrainingSide,
    open_account,
    targets_digest,
)
from sklearn_bdp.holdout._around import compare
from sklearn_bdp.holdout._batch import next_code_length
from sklearn_bdp.holdout._certificate import holdout_certificate
from sklearn_bdp.holdout._inputs import check_keys
from sklearn_bdp.holdout._settings import Settings
from sklearn_bdp.ledger import History, Ledger

if TYPE_CHECKING:
    from sklearn_bdp.accounting import Certificate

_TRAVELS = (
    "X", "y", "n", "model", "beta", "ledger", "on_exhausted",
    "_token", "_seed", "_timeout", "_identity", "_is_small", "allow_shared_rows", "_known",
)  # fmt: skip
_SHARED = "shared rows"  # the note that training records equal to holdout records were allowed
_ANOTHER = "another account"  # the note that one had answered about these targets before
TARGETS = "targets before the split"  # the note of the digest of targets that were divided
_HANDLES: Any = weakref.WeakValueDictionary()  # token: the holdout that copies resolve to
# Ledgers in memory outlive their handle once it was pickled: the pickle may come back.
_MEMORY: dict[str, Any] = {}


_KNOWN_STATE: contextvars.ContextVar[bool] = contextvars.ContextVar("known state", default=False)


@contextlib.contextmanager
def as_last_seen() -> Iterator[None]:
    """Read accounts in this block as this process knows them; files are not looked at again.

    Recorded answers never change. What others have recorded since is found when a batch is written.
    """
    token = _KNOWN_STATE.set(True)
    try:
        yield
    finally:
        _KNOWN_STATE.reset(token)


class LedgerHandle:
    """Base of :class:`ReusableHoldout`: owns the ledger and the rules of identity.

    Subclasses set ``X, y, n, model, beta, ledger, on_exhausted`` and call :meth:`_attach`.
    """

    X: Any
    y: Any
    n: int
    model: Any
    beta: float
    ledger: Any
    on_exhausted: str
    allow_shared_rows: bool
    _known: KnownRows  # rows that stand on the training side
    _about: Any = ()  # digests of the targets that this account speaks of
    _code: Any  # method of the subclass: the predictive code after every recorded batch
    _learned: Any = None  # (last entry learned from, predictor); public, rebuilt from the ledger

    def _attach(self, header, *, seed, timeout, notes=None):
        """Make or open the ledger; the numbers in its header are the ones that count."""
        self._seed, self._timeout = seed, timeout
        self._identity = {name: header[name] for name in ("data", "correlation", "parameters")}
        self._token, self._known = secrets.token_hex(16), KnownRows()
        self._snapshot = None
        self._about = [(notes or {}).get(TARGETS), targets_digest(self.X, self.y)]
        if self.ledger is None and open_account(self._about):
            notes = {**(notes or {}), _ANOTHER: True}
        if self.allow_shared_rows:
            notes = {**(notes or {}), _SHARED: True}
        self._records = Ledger(self.ledger, header=header, timeout=timeout, notes=notes)
        self._settings = _recorded_settings(self._records.header, header, self.ledger)
        _HANDLES[self._token] = self

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
        if _KNOWN_STATE.get():
            with self._open().seen() as book:
                yield book
            return
        with self._open().transaction() as transaction:
            yield transaction

    def _writing(self):
        return self._open().transaction(write=True)

    def recorded(self, keys: list[str]) -> dict[str, Any]:
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

    def check_training_rows(self, X: Any, y: Any | None = None) -> None:
        """Refuse training records that are records of this holdout.

        They are compared by value: another order, type of number or container does not hide them,
        nor do permuted columns where both sides have names. What is equal by chance, judged by how
        often training records equal one another, passes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training records, or those behind a training-side value.
        y : array-like of shape (n_samples,), default=None
            Their targets; without them records are compared by their features alone.

        Raises
        ------
        SharedRecordsError
            If more records are equal than chance explains and the holdout was not made with
            ``allow_shared_rows=True``. Where it was, the certificate says so.

        Notes
        -----
        The check reads the holdout, so that its word, or its silence, is recorded and charged
        (theory G21). Rows that are known to be training rows cost nothing, and the same rows are
        compared once. Under a numeric ``epsilon`` or ``calibration="zhao2017"`` nothing is
        compared, because an exact word has no finite level of privacy.
        """
        side = TrainingSide(((X, y),))
        if not self.allow_shared_rows:
            compare(self, side, known=self._known, explicit=True)

    def compare_with(self, side: TrainingSide) -> str:
        """Compare a training side with the holdout, as :meth:`check_training_rows` does.

        Parameters
        ----------
        side : TrainingSide
            Records, targets, groups.

        Returns
        -------
        str
            What has to be true besides, for the certificate; empty if nothing has.
        """
        return compare(self, side, known=self._known)

    def drawn_beside(self, side: TrainingSide) -> None:
        """Take note of the training part that was drawn together with this holdout.

        Parameters
        ----------
        side : TrainingSide
            It has no holdout records.
        """
        self._known.add(side, drawn=True)

    def check_model(self, estimator: Any) -> None:
        """Refuse a model that keeps records of this holdout among those it was fitted on.

        Neighbours, support vector machines and Gaussian processes keep their training rows as they
        are; what other models were fitted on cannot be seen.

        Parameters
        ----------
        estimator : object
            Fitted; steps of pipelines and wrapped estimators are looked at, too.

        Raises
        ------
        SharedRecordsError
            As :meth:`check_training_rows`.
        """
        kept = self._known.kept(estimator, self.X)
        if kept.tables and not self.allow_shared_rows:
            compare(self, kept, known=self._known, explicit=True)

    def note(self, name: str, content: Any) -> None:
        """Record a fact with the holdout, as durably as its answers and in their order.

        Parameters
        ----------
        name : str
            What :meth:`notes` finds it by.
        content : object
            Anything that JSON can say; nothing computed from holdout scores, except released
            values.
        """
        with self._writing() as transaction:
            transaction.note(name, content)

    def notes(self, name: str) -> list[Any]:
        """Return the facts recorded under a name.

        Parameters
        ----------
        name : str
            As given to :meth:`note`.

        Returns
        -------
        list
            Their contents, oldest first.
        """
        with self._reading() as transaction:
            return transaction.notes(name)

    @property
    def information_spent(self) -> float:
        """Code length of the next query, in nats: what adaptivity has cost so far."""
        with self._reading() as transaction:
            return float(next_code_length(transaction.last, self._settings))

    @property
    def remaining_budget(self) -> int | None:
        """Number of "above" answers left; ``None`` where there is no cap."""
        if self._settings.budget is None:
            return None
        with self._reading() as transaction:
            return self._settings.budget - transaction.last.n_rounds

    def certificate(self) -> Certificate:
        """Return the guarantee as it stands.

        Returns
        -------
        Certificate
            ``tau`` is the largest distance between an answer and an end of its interval: among
            all answers so far, and for the next query if its score is near 1/2.
        """
        with self._reading() as transaction:
            last = transaction.last
            shared = transaction.notes(_SHARED)
            another = transaction.notes(_ANOTHER)
            code = self._code(transaction)
        return holdout_certificate(
            last,
            code=code,
            settings=self._settings,
            model=self.model,
            ledger=self.ledger,
            seeded=self._seed is not None,
            shared=self.allow_shared_rows or bool(shared),
            another=bool(another),
        )

    def history(self) -> History:
        """Return everything released so far, oldest first.

        Returns
        -------
        History
            A sequence of :class:`AnswerRecord`, in the units of their metrics; ``to_frame()`` makes
            a table.
        """
        with self._reading() as transaction:
            return transaction.history()

    def _content_for_keys(self):
        """Return what a key holds of a holdout inside a model: never its answers."""
        return self._identity

    def _facts(self):
        """Return ``{label: text}``: shape, promise and information spent; never a score."""
        facts = {
            "records": f"{self.n:,} (in pickles, too)",
            "correlation": self.model.describe(),
            "confidence": f"{100 * (1 - self.beta):g}%",
            "ledger": str(self.ledger) if self.ledger else "in memory",
        }
        try:
            with self._reading() as transaction:
                last = transaction.last
            facts["answered"] = f"{last.n_answered:,}"
            facts["of these from the holdout"] = f"{last.n_above:,}"
            facts["information spent"] = f"{self.information_spent:.3g} nats"
            if self.remaining_budget is not None:
                facts["budget left"] = f"{self.remaining_budget}"
        except (LedgerError, ProcessBoundaryError) as error:
            facts["unavailable"] = type(error).__name__
        return facts

    def __repr__(self) -> str:
        facts = ", ".join(f"{label}: {text}" for label, text in self._facts().items())
        return f"<ReusableHoldout: {facts}>"

    def _repr_html_(self):
        return card(type(self).__name__, (), picture=table(self._facts().items()))

    def key_identity(self) -> str:
        """Return what this holdout is known by: the digest of its records, not its account.

        Returns
        -------
        str
            The same for every holdout of these records.
        """
        return f"holdout {self._identity['data']}"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        raise TypeError(
            "a ReusableHoldout can be written by pickle and joblib, which find its account again; "
            "any other copy of its state would duplicate the budget. To give a fitted search away, "
            "write search.without_holdout()."
        )

    def __reduce__(self):
        state = {name: getattr(self, name) for name in _TRAVELS}
        state["settings"] = self._settings.header()
        if self.ledger is not None:
            # The head goes along: a ledger restored from an older copy is recognised.
            state["head"] = self._records.head if self._records is not None else self._head
        elif self._snapshot is not None:
            state["snapshot"] = self._snapshot
        else:
            with self._reading() as transaction:
                state["snapshot"] = transaction.book
            _MEMORY[self._token] = self._records
        return _restore, (type(self), state)


def _restore(cls, state):
    """Return the holdout of this process, or a handle on its ledger, or a record to read."""
    found = _HANDLES.get(state["_token"])
    if found is not None:
        return found
    holdout = cls.__new__(cls)
    for name in _TRAVELS:
        setattr(holdout, name, state[name])
    holdout._settings = Settings.recorded(state["settings"])
    holdout._head = state.get("head")
    holdout._records = _MEMORY.get(holdout._token)
    if holdout._records is not None and holdout._records.owner != os.getpid():
        holdout._records = None
    holdout._snapshot = state.get("snapshot")
    _HANDLES[holdout._token] = holdout
    return holdout


def _recorded_settings(found, made, path):
    """Return the settings in a ledger's header; those that its parameters do not lead to fail."""
    if _agree(found.get("settings"), made["settings"]):
        return Settings.recorded(found)
    raise LedgerCorruptedError(
        f"ledger {path} has numbers in its header that its parameters do not lead to (made by "
        f"{found.get('made_by')!r:.60}, this is {made['made_by']!r}): it was edited, or made by a "
        "version that derives others; nothing was answered."
    )


def _agree(found, derived):
    """Return whether two sets of settings are equal but for rounding."""
    if isinstance(derived, dict):
        names = isinstance(found, dict) and set(found) == set(derived)
        return names and all(_agree(found[name], derived[name]) for name in derived)
    if isinstance(derived, float):
        return isinstance(found, float | int) and math.isclose(found, derived, rel_tol=1e-6)
    return found == derived
