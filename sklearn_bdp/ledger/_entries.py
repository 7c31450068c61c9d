"""Entries of a ledger, verified: the chain, what each entry says, and all of them in memory."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
import os
from typing import Any

from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.ledger._records import (
    Answers,
    BatchRecord,
    History,
    canonical,
    digest,
    parse_json,
)

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
    CLOSING = "closing"  # durable before anything of a final report is computed


class Chain:
    """Digests of links, each over the one before.

    Without a key anybody can compute them, so an edited ledger whose links were computed anew
    verifies; with one (HMAC-SHA256) only its owner can.
    """

    def __init__(self, key=None):
        self._key = key

    @classmethod
    def from_environment(cls):
        """Return the chain under the key in the environment, plain where there is none."""
        key = os.environ.get(KEY_VARIABLE, "")
        if key and len(key) < _SHORTEST_KEY:
            raise LedgerError(
                f"{KEY_VARIABLE} must have at least {_SHORTEST_KEY} characters, got {len(key)}. "
                "The holdout was not queried."
            )
        return cls(key.encode("utf-8", "surrogateescape") if key else None)

    @property
    def kind(self):
        """What the header of a ledger says of its chain."""
        return "sha256" if self._key is None else "hmac-sha256"

    def start(self, header):
        """Return the digest that the chain starts with."""
        return self._keyed(digest("header", header))

    def link(self, previous, kind, content, answers, commitment):
        """Return the digest of one entry: the link before, what it says, what it seals."""
        return self._keyed(digest(previous, kind, content, answers, commitment))

    def __repr__(self):
        return f"Chain({self.kind})"  # never the key

    def _keyed(self, text):
        if self._key is None:
            return text
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One verified entry of the log."""

    number: int  # 1, 2, ...
    digest: str  # its link
    commitment: str  # digest of what it seals
    record: BatchRecord | None  # the account, for a batch
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
        self._checks = []
        self._keys = {}
        self._history, self._seen = History(), 0  # of so many entries
        self._notes = {name: [content] for name, content in header["notes"].items()}
        self._notes |= {Fact(name): [content] for name, content in header["facts"].items()}

    def add(self, entry):
        """Take in the entry that follows the head."""
        self.entries.append(entry)
        self.head = (entry.number, entry.digest)
        if entry.note is not None:
            name, content = entry.note
            self._notes.setdefault(name, []).append(content)
            return
        self.last = entry.record
        if not entry.answers:
            self._checks.append(entry.record.checks)
            return
        for place, key in enumerate(entry.answers.column("key")):
            if key is not None:
                self._keys.setdefault(key, []).append((entry.answers, place))

    # -- what can be read ---------------------------------------------------------------------

    def answers(self):
        """Yield every answer, oldest first."""
        for entry in self.entries:
            yield from entry.answers

    def history(self):
        """Return every answer in the units of its metric."""
        later = (
            answer.in_units() for entry in self.entries[self._seen :] for answer in entry.answers
        )
        self._history, self._seen = History((*self._history, *later)), len(self.entries)
        return self._history

    def accounts(self, *, after=0):
        """Yield the account of each batch in later entries, oldest first."""
        for entry in self.entries[after:]:
            if entry.answers:
                yield entry.record

    def checks(self):
        """Return what each check of the holdout said, oldest first."""
        return list(self._checks)

    def match(self, queries):
        """Return ``{query: AnswerRecord}`` of queries ``(key, training_value, metric)``.

        A recorded answer is that of its key *and* of the training-side value and metric it was
        asked with: under others the query is another one. ``None`` for the value: the key alone
        says what was asked.
        """
        found = {}
        for query in queries:
            key, training_value, metric = query
            for answers, place in reversed(self._keys.get(key, ())):
                answer = answers[place]
                if training_value is None or (
                    answer.metric == metric
                    and abs(answer.training_value - training_value) <= SAME_VALUE
                ):
                    found[query] = answer
                    break
        return found

    def last_value(self, by, metric):
        """Return the value in [0, 1] that a submitter was told last for a metric, or ``None``."""
        for entry in reversed(self.entries if by is not None else ()):
            if entry.answers and by in entry.answers.column("by"):
                told = [one for one in entry.answers if (one.by, one.metric) == (by, metric)]
                if told:
                    return told[-1].value
        return None

    def notes(self, name):
        """Return the contents of all notes of that name (a :class:`Fact` or a text), in order."""
        return list(self._notes.get(name, ()))

    # -- inside a writing transaction ---------------------------------------------------------

    def append(self, record, *, sealed="", answers=()):
        """Write one batch; durable on return.

        Without answers: what a check said, which moves the account and seals nothing.
        """
        self._write("batch", record.to_json(), answers, sealed)

    def note(self, name, content, *, sealed=""):
        """Write a note (of the package: under a :class:`Fact`), and what it seals.

        Notes are facts about a holdout that must survive with its answers and in their order: how
        the data were split, that it was closed, which fits are done. Nothing computed from
        holdout scores may be among them, except released values.
        """
        kind, word = ("fact", name.value) if isinstance(name, Fact) else ("note", name)
        self._write(kind, canonical({"name": word, "content": content}), (), sealed)


NOTHING = digest("")  # what commits to no state


def parse_entry(number, kind, content, answers, commitment, link, *, last):
    """Return the :class:`Entry` that a row says; ``ValueError`` if it cannot be one.

    ``answers``: their text, or :class:`Answers` that were just made and need no second check.
    ``last``: the account before it, whose counts go on.
    """
    said = parse_json(content)
    if kind in ("note", "fact"):
        if not (isinstance(said, dict) and set(said) == {"name", "content"} and answers == "[]"):
            raise ValueError("no note")
        if not isinstance(said["name"], str):
            raise ValueError("no name")
        name = Fact(said["name"]) if kind == "fact" else said["name"]
        return Entry(number, link, commitment, None, (), (name, said["content"]))
    if kind != "batch":
        raise ValueError("no kind of entry")
    record = BatchRecord.from_content(said)
    if isinstance(answers, str):
        columns = parse_json(answers)
        silent = columns == [] and record.size == 0
        answers = () if silent else Answers.parsed(columns, record)
    _check_counts(record, answers, last)
    return Entry(number, link, commitment, record, answers, None)


def _check_counts(record, answers, last):
    """Raise ValueError unless the account goes on where the last one stood.

    Without answers it adds a check and its cost, or it closes, after asking for shares of classes.
    """
    n_above = last.n_above
    if answers:
        whole = record.number == last.number + 1 and len(answers) <= record.size
        n_above += int(answers.column("above").sum())
    else:
        closes = record.closed and not last.closed
        whole = (
            (closes or record.checks)
            and record.closed == closes
            and record.number == last.number + closes
            and (record.n_rounds == last.n_rounds or (closes and record.n_rounds > last.n_rounds))
            and record.released >= last.released
        )
    counts = (record.n_answered, record.n_above)
    if not whole or counts != (last.n_answered + len(answers), n_above):
        raise ValueError("the counts do not add up")
