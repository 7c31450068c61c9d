"""The ledger: an append-only hash chain of entries that many processes share.

A batch is decided, recorded and only then released, inside one write lock of the backend, so
processes take turns and a crash at any moment leaves either the whole batch or nothing.

For searches and reports there are notes, in the same chain as the answers: ``note(name, content)``
adds one, ``notes(name)`` returns those of a name, ``read_notes(place, name)`` looks into a ledger
before a holdout exists; notes given to :class:`Ledger` when it is created are there from its
first moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.ledger._sqlite import SQLiteBackend
from sklearn_bdp.ledger.backend import FORMAT, Backend, MemoryBackend, Row, corrupted, other_format
from sklearn_bdp.ledger.postgresql import PostgreSQLBackend, is_url
from sklearn_bdp.ledger.records import Answers, BatchRecord, History, canonical, digest, parse_json
from sklearn_bdp.utils.validation import strip_traceback_frames

KEY_VARIABLE = "SKLEARN_BDP_LEDGER_KEY"
_SHORTEST_KEY = 16
#: Two training-side values closer than this are one: they differ by rounding.
SAME_VALUE = 1e-6


class Fact(enum.Enum):
    """Names of what the package itself notes. Those of users are texts and never meet these."""

    SPLIT = "split"  # the seed that records were divided with
    TARGETS = "targets before the split"  # digest of the targets that were divided
    ASSUMPTION = "assumption"  # what the certificate says besides
    SHARED_ROWS = "shared rows"  # training records equal to holdout records were allowed
    ANOTHER_ACCOUNT = "another account"  # one had answered about these targets before
    TRAINING_TARGETS = "training targets"  # their classes, or their range
    LARGEST_GROUP = "largest group"  # its records, before the split
    STRATIFIED = "stratified"  # the split read the targets: records are not alike (G28)
    ORDER = "order of units"  # drawn once; the order follows from it and the records (G28)
    STATEMENTS = "statements"  # fixed in the training set before they were asked about
    CLOSING = "closing"  # a final report was begun, and what it costs if it does not finish (G35)


class Chain:
    """Digests of links, each over the one before.

    Without a key in the environment anybody can compute them, so an edited ledger whose links were
    computed anew verifies; with one (HMAC-SHA256) only its owner can.
    """

    def __init__(self):
        key = os.environ.get(KEY_VARIABLE, "")
        if key and len(key) < _SHORTEST_KEY:
            raise LedgerError(
                f"{KEY_VARIABLE} must have at least {_SHORTEST_KEY} characters, got {len(key)}. "
                "The holdout was not queried."
            )
        self._key = key.encode("utf-8", "surrogateescape")
        #: What the header of a ledger says of its chain.
        self.kind = "hmac-sha256" if key else "sha256"

    def link(self, *texts):
        """Return the digest of texts: of a header, or of the link before and all of an entry."""
        text = digest(*texts)
        if not self._key:
            return text
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One verified entry of the log."""

    number: int  # 1, 2, ...
    digest: str  # its link
    commitment: str  # digest of what it seals
    record: BatchRecord | None  # of a batch
    answers: Any  # what the batch released: Answers, or nothing
    note: tuple | None  # name and content, for a note


class Book:
    """All that a process has verified of a ledger, in memory.

    Looked-up answers come from here: a damaged page or index of a file cannot put another answer
    in their place. Nothing sealed is in it: it may be pickled. Inside a writing transaction one
    entry can be added.
    """

    #: Of the ledger, inside a writing transaction: adds an entry.
    _write = None

    def __init__(self, header, start):
        self.header = header
        self.entries = []
        self.head = (0, start)
        self.last = BatchRecord()
        self._keys = {}
        self._told = History(), 0  # the answers of so many entries
        self._notes = {name: [content] for name, content in header["notes"].items()}
        self._notes |= {Fact(name): [content] for name, content in header["facts"].items()}

    def add(self, entry):
        """Take in the entry that follows the head."""
        self.entries.append(entry)
        self.head = (entry.number, entry.digest)
        if entry.note is not None:
            name, content = entry.note
            self._notes.setdefault(name, []).append(content)
            if name is Fact.CLOSING:
                self.last = self.last.with_unfinished_report(content["charge"])
            return
        self.last = entry.record
        for place, key in enumerate(entry.answers.columns["key"] if entry.answers else ()):
            if key is not None:
                self._keys.setdefault(key, []).append((entry.answers, place))

    # -- what can be read ---------------------------------------------------------------------

    def history(self):
        """Return every answer in the units of its metric."""
        known, count = self._told
        later = (answer.in_units() for entry in self.entries[count:] for answer in entry.answers)
        self._told = History((*known, *later)), len(self.entries)  # one step: nothing is told twice
        return self._told[0]

    def records(self, *, after=0):
        """Yield the record of each batch in later entries, oldest first."""
        for entry in self.entries[after:]:
            if entry.answers:
                yield entry.record

    def checks(self):
        """Return what each check of the holdout said, oldest first."""
        return [
            entry.record.checks
            for entry in self.entries
            if entry.record and entry.record.checks and not entry.answers
        ]

    def match(self, queries):
        """Return ``{query: AnswerRecord}`` of queries ``(key, cv_score, metric)``.

        A recorded answer is that of its key *and* of the training-side value and metric it was
        asked with: under others the query is another one. ``None`` for the value: the key alone
        says what was asked.
        """
        found = {}
        for key, cv_score, metric in queries:
            for answers, place in self._keys.get(key, ()):  # the latest is kept
                answer = answers[place]
                if cv_score is None or (
                    answer.metric == metric and abs(answer.cv_score - cv_score) <= SAME_VALUE
                ):
                    found[key, cv_score, metric] = answer
        return found

    def last_value(self, submitter, metric):
        """Return the value in [0, 1] that a submitter was told last for a metric, or ``None``."""
        for entry in reversed(self.entries if submitter is not None else ()):
            if entry.answers and submitter in entry.answers.columns["submitter"]:
                own = [
                    one
                    for one in entry.answers
                    if (one.submitter, one.metric) == (submitter, metric)
                ]
                if own:
                    return own[-1].value
        return None

    def notes(self, name):
        """Return the contents of all notes of that name (a :class:`Fact` or a text), in order."""
        return list(self._notes.get(name, ()))

    # -- inside a writing transaction ---------------------------------------------------------

    def append(self, record, *, sealed="", answers=()):
        """Write one batch; durable on return.

        Without answers: what a check said, which is charged and seals nothing.
        """
        self._write("batch", record, answers, sealed)

    def note(self, name, content, *, sealed=""):
        """Write a note (of the package: under a :class:`Fact`), and what it seals.

        Notes are facts about a holdout that must survive with its answers and in their order: how
        the data were split, that it was closed, which fits are done. Nothing computed from
        holdout scores may be among them, except released values.
        """
        kind, known_as = ("fact", name.value) if isinstance(name, Fact) else ("note", name)
        self._write(kind, canonical({"name": known_as, "content": content}), (), sealed)


def parse_entry(row, *, last):
    """Return the :class:`Entry` that a row says; an error of any kind if it cannot be one.

    Its ``content`` and ``answers`` are texts, or a :class:`BatchRecord` and :class:`Answers` that
    were just made and need no second check.
    ``last``: the record before it. With answers it goes on where the last one stood. Without them
    it adds a check and its cost, or it closes, after asking for shares of classes: at what was
    spent before the report was begun.
    """
    number, kind, content, answers, _, commitment, link = row
    said = parse_json(content) if isinstance(content, str) else None
    if kind in ("note", "fact"):
        name = Fact(said["name"]) if kind == "fact" else said["name"]
        if said.keys() != {"name", "content"} or not isinstance(said["name"], str):
            raise ValueError("no note")
        if answers != "[]":
            raise ValueError("a note has no answers")
        if name is Fact.CLOSING:
            last.with_unfinished_report(said["content"]["charge"])  # or it is no charge
        return Entry(number, link, commitment, None, (), (name, said["content"]))
    if kind != "batch":
        raise ValueError("no kind of entry")
    record, n_above = content if said is None else BatchRecord.from_content(said), last.n_above
    if isinstance(answers, str):
        silent = answers == "[]" and record.size == 0
        answers = () if silent else Answers.parsed(parse_json(answers), record)
    if answers:
        whole = record.number == last.number + 1 and len(answers) <= record.size
        n_above += int(answers.columns["corrected"].sum())
    else:
        closes = record.closed and not last.closed
        whole = (
            (closes or record.checks)
            and record.closed == closes
            and record.number == last.number + closes
            and (record.n_rounds == last.n_rounds or (closes and record.n_rounds > last.n_rounds))
            and (closes or record.released >= last.released)
        )
    counts = (record.n_answered, record.n_above)
    if not whole or counts != (last.n_answered + len(answers), n_above):
        raise ValueError("the counts do not add up")
    return Entry(number, link, commitment, record, answers, None)


def backend_at(place: Any, *, timeout: float = 60.0) -> Backend:
    """Return what keeps the entries at a place: a path, a URL, a backend, ``None`` for memory."""
    if place is None:
        return MemoryBackend()
    if isinstance(place, Backend):
        return place
    if is_url(place):
        return PostgreSQLBackend(place, timeout=timeout)
    return SQLiteBackend(Path(place).absolute(), timeout=timeout)


class Ledger:
    """Records of one holdout, at a ``place``: a path, a URL, a backend, ``None`` for memory.

    Without a ``header`` (fingerprints and parameters of the holdout) it reads whatever it finds
    and creates none. ``head``: number and digest of an entry that it is known to contain;
    ``notes``: facts that a new ledger starts with, names and JSON content.
    """

    def __init__(self, place, *, header=None, create=True, timeout=60.0, head=None, notes=None):
        self.backend = backend_at(place, timeout=timeout)
        self.timeout = float(timeout)
        self._header = header
        self._expected = head  # must be on the chain when it is first walked
        self._chain = Chain()
        self._book = None  # what this process has verified
        self.sealed = None  # the state that was sealed last; never to be shown
        self._is_withheld = False  # whether this user may not read it
        self._lock, self._owner = threading.Lock(), os.getpid()
        if create and header is not None:
            facts = {k.value: v for k, v in (notes or {}).items() if isinstance(k, Fact)}
            mine = {k: v for k, v in (notes or {}).items() if not isinstance(k, Fact)}
            first = {"chain": self._chain.kind, "facts": facts, "format": FORMAT, "notes": mine}
            text = canonical(header | first)
            self.backend.create(text, self._chain.link("header", text))
        with self.transaction() as book:  # walks and checks the whole chain
            self.header = book.header

    def __repr__(self) -> str:
        return f"Ledger({self.backend})"

    def __reduce__(self):
        raise TypeError("a Ledger cannot be pickled; pickle the ReusableHoldout that uses it.")

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last entry this process has verified."""
        return self._expected if self._book is None else self._book.head

    def close(self) -> None:
        """Close what this process holds open; the next transaction opens it again."""
        self.backend.close()

    @contextlib.contextmanager
    def seen(self) -> Iterator[Book]:
        """Yield what this process has verified so far, without a look at the backend.

        Recorded answers never change, and what others have recorded since is found when a batch is
        written: enough for look-ups on the way to it, and for what is told of it afterwards.
        """
        self.backend.check_process()
        if self._owner != os.getpid():  # forked: whoever held the lock does not exist here
            self._lock, self._owner = threading.Lock(), os.getpid()
        held = False
        try:
            held = self._lock.acquire(timeout=self.timeout)
            if not held:
                raise LedgerBusyError(
                    f"another thread held the ledger for more than {self.timeout:g} s. The holdout "
                    "was not queried. Try again."
                )
            if self._book is None:
                self._catch_up()
            yield self._book
        except BaseException:
            # An interrupt may have left half an entry in the book: the chain is read again.
            if held and self._book is not None:
                self._expected, self._book = self._book.head, None
            raise
        finally:
            if held:
                self._lock.release()

    @contextlib.contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Book]:
        """Yield the book as of now; a writing one holds the lock and can add one entry to it."""
        with self.seen():
            if not write:
                self._catch_up()
                yield self._book
                return
            with self.backend.lock(self.timeout):
                self._catch_up()
                if self._is_withheld:  # noise drawn anew would leak more than is charged
                    raise LedgerUnavailableError(
                        f"ledger {self.backend}: this user may not read the sealed noise of the "
                        "threshold in use, and therefore not query the holdout. The holdout was "
                        "not queried."
                    )
                self._book._write = self._write
                try:
                    yield self._book
                finally:
                    del self._book._write

    def _catch_up(self):
        """Verify every entry after those verified earlier, up to the head."""
        stored = self.backend.read(0 if self._book is None else self._book.head[0])
        if stored is None:
            raise LedgerUnavailableError(
                f"ledger {self.backend} was not found; it is not created anew, because that would "
                "reset the budget."
            )
        book = self._open(stored) if self._book is None else self._book
        if stored.known != book.head[1]:
            raise corrupted(self.backend, "entries seen earlier are missing")
        for row in stored.rows:
            expected = book.head[0] + 1
            whole = (
                row.number == expected
                and all(isinstance(text, str) for text in row._replace(sealed="")[1:])
                and (row.sealed is None or digest(row.sealed) == row.commitment)
                and self._chain.link(book.head[1], *row[1:4], row.commitment) == row.digest
            )
            if not whole:
                raise corrupted(self.backend, f"the chain breaks at entry {expected}")
            entry = None
            with contextlib.suppress(Exception):  # what it says could be anything
                entry = parse_entry(row, last=book.last)
            if entry is None:
                raise corrupted(self.backend, f"entry {expected} cannot be read")
            book.add(entry)
            self._is_withheld = row.sealed is None
            self.sealed = row.sealed or self.sealed
        if book.head != stored.head:
            raise corrupted(self.backend, "its log and its head do not agree")
        self._book = book
        if self._expected is not None and self._expected[0] > 0:
            number, link = self._expected
            if number > len(book.entries) or book.entries[number - 1].digest != link:
                raise corrupted(self.backend, "entries seen earlier are missing")
        self._expected = None

    def _write(self, kind, content, answers, sealed):
        """Write the entry that follows the head."""
        self._book._write = None  # a transaction writes one entry
        (number, previous), text = self._book.head, answers.to_json() if answers else "[]"
        said = content if isinstance(content, str) else content.to_json()
        commitment = digest(sealed)
        link = self._chain.link(previous, kind, said, text, commitment)
        row = Row(number + 1, kind, said, text, sealed, commitment, link)
        made = row._replace(content=content, answers=answers or text)
        entry = parse_entry(made, last=self._book.last)  # else it is not written
        self.backend.append(self._book.head, row)
        self._book.add(entry)
        self.sealed = sealed or self.sealed

    def _open(self, stored):
        """Return an empty book under the verified header."""
        header, wanted = None, self._header
        with contextlib.suppress(Exception):  # what it says could be anything
            header = parse_json(stored.header)
        if not isinstance(header, dict):
            raise corrupted(self.backend, "its header is missing")
        if header.get("format") != FORMAT:
            raise other_format(self.backend, header.get("format"), header.get("made_by"))
        if header.get("chain") != self._chain.kind:
            keyed = header.get("chain") == "hmac-sha256"
            fix = "set to its key" if keyed else "unset, to trust a ledger that has no key"
            raise LedgerError(
                f"ledger {self.backend}: the environment variable {KEY_VARIABLE} must be {fix}. "
                "The holdout was not queried."
            )
        if self._chain.link("header", stored.header) != stored.start:
            said = f"its header was edited, or sealed with another {KEY_VARIABLE}"
            raise corrupted(self.backend, said)
        problems = []  # what differs, never by how much
        if wanted is not None and wanted["data"] != header.get("data"):
            problems = ["other data, order, names, types, test_size, random_state or correlation"]
        elif wanted is not None:
            if wanted["correlation"] != header.get("correlation"):
                problems.append("another correlation")
            theirs = header.get("parameters")
            theirs = theirs if isinstance(theirs, dict) else {}
            problems += [
                _describe_difference(name, value, theirs.get(name))
                for name, value in json.loads(json.dumps(wanted["parameters"])).items()
                if value != theirs.get(name)
            ]
        if problems:
            raise LedgerMismatchError(
                f"ledger {self.backend} belongs to another holdout: {' and '.join(problems)}. "
                "Pass what it was made with. Put new features in a transformer of the pipeline. A "
                "new path is for other records only: a second ledger of the same records does not "
                "know the answers in the first. The holdout was not queried."
            )
        with contextlib.suppress(KeyError, AttributeError, ValueError):  # of a header that we wrote
            return Book(header, stored.start)
        raise corrupted(self.backend, "its header cannot be read")


def _describe_difference(name, value, ledger_value):
    """Return how a parameter differs from that in the ledger, under its public name."""
    if name == "beta" and isinstance(ledger_value, float):  # a header keeps its complement
        name = "confidence_level"
        value = float(1 - Decimal(str(value)))
        ledger_value = float(1 - Decimal(str(ledger_value)))
    return f"{name}={value!r} here, {ledger_value!r:.80} in the ledger"


@strip_traceback_frames  # the path may be a URL with a password
def read_notes(path: Any, name: Any, *, timeout: float = 60.0) -> list[Any]:
    """Return the notes of a ledger before its holdout exists.

    Parameters
    ----------
    path : str, Path or Backend
        The ledger; it need not exist.
    name : str
        What the notes are called.
    timeout : float, default=60.0
        Longest wait for other processes, in seconds.

    Returns
    -------
    list
        Their contents, oldest first; empty if there is no ledger.

    Raises
    ------
    LedgerError
        One of its subclasses, if there is a file that cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> from sklearn_bdp.ledger import read_notes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "holdout.sqlite"
    ...     before = read_notes(path, "source")
    ...     X, y = np.zeros((500, 1)), np.arange(500) % 2
    ...     _ = ReusableHoldout(X, y, ledger=path, notes={"source": "clinic A"})
    ...     before, read_notes(path, "source")
    ([], ['clinic A'])
    """
    backend = backend_at(path, timeout=timeout)
    try:
        if backend.read(0) is None:
            return []
        with Ledger(backend, timeout=timeout).seen() as book:
            return book.notes(name)
    finally:
        backend.close()
