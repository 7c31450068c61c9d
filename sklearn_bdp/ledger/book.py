"""Verified state of a ledger in a process: counts, notes, digests; entries are read as needed."""

from __future__ import annotations

import collections
import dataclasses
import enum
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sklearn_bdp.exceptions import LedgerCorruptedError
from sklearn_bdp.ledger.backend import Row
from sklearn_bdp.ledger.batch_record import BatchRecord, LedgerTotals
from sklearn_bdp.ledger.records import AnswerRecord, Answers, History, canonical, parse_json

#: Cross-validated scores closer than this are the same: they differ by rounding.
SAME_VALUE = 1e-6
#: Entries that are read from a backend at once.
PAGE = 500
#: Latest entries whose content is checked as soon as a ledger is opened; of earlier ones the
#: digest is, and the content when it is read. Parsed entries that are kept, too.
RECENT = 1000


class Fact(enum.Enum):
    """Names of notes of the package. Names of users' notes are texts and differ from these."""

    SPLIT = "split"  # the seed that records were divided with
    TARGETS = "targets before the split"  # digest of the targets that were divided
    ASSUMPTION = "assumption"  # further line of the certificate
    SHARED_ROWS = "shared rows"  # training records equal to holdout records were allowed
    ANOTHER_ACCOUNT = "another account"  # one had answered about these targets before
    TRAINING_TARGETS = "training targets"  # their classes, or their range
    LARGEST_GROUP = "largest group"  # its records, before the split
    STRATIFIED = "stratified"  # the split read the targets: records are not alike (G28)
    ORDER = "order of units"  # drawn once; the order follows from it and the records (G28)
    ERROR_CLIPS = "error clips"  # from out-of-fold training errors, at the first query (G31)
    STATEMENTS = "statements"  # fixed in the training set before they were asked about
    CLOSING = "closing"  # a final report was begun, and its cost if it does not finish (G35)
    MOVED = "moved"  # where the ledger went on; nothing is answered here any more


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One verified entry of the log."""

    number: int  # 1, 2, ...
    digest: str  # its link
    commitment: str  # digest of its sealed state
    record: BatchRecord | None  # of a batch
    answers: Any  # released answers of the batch: Answers, or nothing
    note: tuple[Any, Any] | None  # name and content, for a note


#: Columns of a batch with one answer, in the form of its text: quotes inside texts are escaped.
_SINGLE = {name: re.compile(rf'"{name}":\["([^"\\]*)"\]') for name in ("key", "by", "metric")}


class _Index:
    """Entries with the answers to keys and to submitters, and results of checks.

    Texts are parsed at the first look-up.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, str]] = []  # numbers and answers of batches
        self._keys: dict[str, list[tuple[int, int]]] = {}  # entries and positions, oldest first
        self._latest: dict[tuple[str, str | None], int] = {}  # entry by submitter and metric
        self._checks: list[str] = []

    def add(self, row: Row) -> None:
        """Take in the next entry."""
        if row.kind == "batch":
            if row.answers == "[]":
                self._checks.append(row.content)
            else:
                self._waiting.append((row.number, row.answers))

    def find(self, key: str) -> Sequence[tuple[int, int]]:
        """Return entries and positions of the answers to a key."""
        self._parse_waiting()
        return self._keys.get(key, ())

    def latest(self, submitter: str, metric: str | None) -> int | None:
        """Return the latest entry with an answer to a submitter about a metric."""
        self._parse_waiting()
        return self._latest.get((submitter, metric))

    def checks(self) -> list[dict[str, Any]]:
        """Return the results of all checks."""
        return [checks for text in self._checks if (checks := parse_json(text).get("checks"))]

    def _parse_waiting(self):
        """Parse the answers that were added since the last look-up."""
        for number, text in self._waiting:
            columns = {}
            for name, pattern in _SINGLE.items():
                match = pattern.search(text)
                if match is None:
                    columns = parse_json(text)
                    break
                columns[name] = match.groups()
            for position, key in enumerate(columns.get("key", ())):
                if key is not None:
                    self._keys.setdefault(key, []).append((number, position))
            # A column of one value has it for all answers.
            submitters, metrics = columns.get("by", [None]), columns.get("metric", [None])
            for position in range(max(len(submitters), len(metrics))):
                submitter = submitters[min(position, len(submitters) - 1)]
                if submitter is not None:
                    metric = metrics[min(position, len(metrics) - 1)]
                    self._latest[submitter, metric] = number
        self._waiting = []


class Book:
    """All that a process has verified of a ledger.

    Digests of all entries are kept, so that an entry which is read later is known to be the one
    that was verified: a damaged page of a file cannot put another answer in its place. Nothing
    sealed is in it: it may be pickled. Inside a writing transaction one entry can be added.

    Parameters
    ----------
    header : dict
        Of the ledger.
    start : str
        Digest of the header.
    load : callable
        Takes the number of an entry and a limit, and returns that many later rows at most.
    """

    #: Of the ledger, inside a writing transaction: adds an entry.
    _write: Any = None

    def __init__(
        self, header: dict[str, Any], start: str, load: Callable[[int, int], list[Row]]
    ) -> None:
        self.header = header
        self.head = (0, start)
        self.last = LedgerTotals()
        self.latest_record: BatchRecord | None = None
        self.digests: list[str] = []
        self._unread_batch: Row | None = None
        self._start = start
        self._load = load
        self._parsed: collections.OrderedDict[int, Entry] = collections.OrderedDict()
        self._index = _Index()
        self._history = History(), 0  # answers of the first so many entries
        self._notes: dict[Any, list[Any]] = {
            name: [content] for name, content in header["notes"].items()
        }
        self._notes |= {Fact(name): [content] for name, content in header["facts"].items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return a state with all entries, without sealed states: the reader has no ledger."""
        rows = [row._replace(sealed="") for row in self.rows()]
        return vars(self) | {"_load": _Rows(rows), "_parsed": collections.OrderedDict()}

    def add(self, row: Row, *, is_recent: bool = True) -> None:
        """Take in the verified entry that follows the head.

        Raises an error of any kind if it cannot be an entry. A batch that is not recent is not
        parsed: its digest and the text of its answers are kept, and :meth:`read_latest_record`
        reads its record if it is the latest.
        """
        if row.kind == "batch" and not is_recent:
            self._unread_batch = row
            self.head = (row.number, row.digest)
            self.digests.append(row.digest)
            self._index.add(row)
            return
        if is_recent:
            self.read_latest_record()
        self.add_entry(row, parse_entry(row, last=self.last if is_recent else None))

    def read_latest_record(self) -> None:
        """Read the record of the latest batch, which has all counts, if it was not read."""
        row, self._unread_batch = self._unread_batch, None
        if row is not None:
            self._use_record(parse_entry(row, last=None).record)

    def add_entry(self, row: Row, entry: Entry) -> None:
        """Take in the entry that follows the head."""
        self._index.add(row)
        self.head = (entry.number, entry.digest)
        self.digests.append(entry.digest)
        self._keep(entry)
        if entry.note is not None:
            name, content = entry.note
            self._notes.setdefault(name, []).append(content)
            if name is Fact.CLOSING:
                self.read_latest_record()
                self.last = self.last.with_unfinished_report(self._charge(content))
        else:
            self._use_record(entry.record)

    def _use_record(self, record):
        """Take in the record of the latest batch or check; None for a note."""
        if record is not None:
            self.latest_record = record
            self.last = record.totals

    def _charge(self, closing):
        """Return the charge of a final report that was begun."""
        if self.header["format"] < 7:  # no charge was noted: nothing is answered from these formats
            return closing.get("charge", 0.0)
        return closing["charge"]

    def link_before(self, number: int) -> str:
        """Return the digest that entry ``number`` follows."""
        return self.digests[number - 2] if number > 1 else self._start

    # -- reading -----------------------------------------------------------------------------

    def rows(self, *, after_number: int = 0) -> Iterator[Row]:
        """Yield later entries as they are stored, oldest first."""
        while after_number < self.head[0]:
            page = self._load(after_number, min(PAGE, self.head[0] - after_number))
            yield from page
            after_number += len(page)

    def entry(self, number: int) -> Entry:
        """Return one entry."""
        entry = self._parsed.get(number)
        if entry is None:
            (row,) = self._load(number - 1, 1)
            entry = self._parse(row)
            self._keep(entry)
        return entry

    @property
    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        return self._later_entries(0)

    def _later_entries(self, after_number):
        parsed = self._parsed
        if all(number in parsed for number in range(after_number + 1, self.head[0] + 1)):
            return iter([parsed[number] for number in range(after_number + 1, self.head[0] + 1)])
        return map(self._parse, self.rows(after_number=after_number))

    def _parse(self, row):
        """Return the entry of a row that was verified, but not read."""
        try:
            return parse_entry(row, last=None)
        except Exception:  # its content may be arbitrary
            pass
        raise LedgerCorruptedError(
            f"entry {row.number} of the ledger cannot be read. The holdout was not queried."
        )

    def _keep(self, entry):
        self._parsed[entry.number] = entry
        while len(self._parsed) > RECENT:
            self._parsed.popitem(last=False)

    def history(self) -> History:
        """Return every answer in the units of its metric."""
        answers, count = self._history
        if count < self.head[0]:
            later = (
                answer.in_units()
                for entry in self._later_entries(count)
                for answer in entry.answers
            )
            self._history = History((*answers, *later)), self.head[0]  # one step: none twice
        return self._history[0]

    def latest_records(self) -> Iterator[BatchRecord]:
        """Yield the record of each batch with answers, newest first."""
        number = self.head[0]
        while number > 0:
            first = max(0, number - PAGE)
            if any(
                entry_number not in self._parsed for entry_number in range(first + 1, number + 1)
            ):
                entries = list(map(self._parse, self._load(first, number - first)))
            else:
                entries = [
                    self._parsed[entry_number] for entry_number in range(first + 1, number + 1)
                ]
            for entry in reversed(entries):
                if entry.answers and entry.record is not None:
                    yield entry.record
            number = first

    def records(self, *, after_number: int = 0) -> Iterator[BatchRecord]:
        """Yield the record of each batch in later entries, oldest first."""
        for entry in self._later_entries(after_number):
            if entry.answers and entry.record is not None:
                yield entry.record

    def checks(self) -> list[dict[str, Any]]:
        """Return the result of each check of the holdout, oldest first."""
        return self._index.checks()

    def match(self, queries: Any) -> dict[tuple[str, float | None, str | None], AnswerRecord]:
        """Return ``{query: AnswerRecord}`` of queries ``(key, cv_score, metric)``.

        A recorded answer is that of its key *and* of the cross-validated score and metric it was
        asked with: under others the query is another one. ``None`` for the score: the key alone
        identifies the query.
        """
        answers = {}
        for key, cv_score, metric in queries:
            for number, position in self._index.find(key):  # the latest is kept
                answer = self.entry(number).answers[position]
                if cv_score is None or (
                    answer.metric == metric and abs(answer.cv_score - cv_score) <= SAME_VALUE
                ):
                    answers[key, cv_score, metric] = answer
        return answers

    def last_value(self, submitter: str | None, metric: str | None) -> float | None:
        """Return the latest value in [0, 1] that a submitter has for a metric, or ``None``."""
        if submitter is None:
            return None
        number = self._index.latest(submitter, metric)
        if number is None:
            return None
        values = [
            answer.value
            for answer in self.entry(number).answers
            if (answer.submitter, answer.metric) == (submitter, metric)
        ]
        return values[-1]

    def notes(self, name: Any) -> list[Any]:
        """Return the contents of all notes of that name (a :class:`Fact` or a text), in order."""
        return list(self._notes.get(name, ()))

    def moved_to(self) -> str | None:
        """Return where the ledger went on, or None if it is here."""
        moves = self.notes(Fact.MOVED)
        return moves[-1]["to"] if moves else None

    # -- inside a writing transaction ---------------------------------------------------------

    def append(self, record: BatchRecord, *, sealed: str = "", answers: Any = ()) -> Any:
        """Write one batch, durable on return; return its answers, with the user who queried.

        Without answers: the result of a check, which is charged and seals nothing.
        """
        return self._write("batch", record, answers, sealed).answers

    def note(self, name: Any, content: Any, *, sealed: str = "") -> None:
        """Write a note (of the package: under a :class:`Fact`), and its sealed state.

        Notes are facts about a holdout that must survive with its answers and in their order: how
        the data were split, that it was closed, which fits are done. Nothing computed from
        holdout scores may be among them, except released values.
        """
        entry_kind, stored_name = ("fact", name.value) if isinstance(name, Fact) else ("note", name)
        self._write(entry_kind, canonical({"name": stored_name, "content": content}), (), sealed)


class _Rows:
    """Entries of a pickled book, in place of its ledger."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, after_number, limit):
        return self.rows[after_number : after_number + limit]


def parse_entry(row: Any, *, last: LedgerTotals | None) -> Entry:
    """Return the :class:`Entry` in a row; raise an error of any kind if it cannot be one.

    Its ``content`` and ``answers`` are texts, or a :class:`BatchRecord` and :class:`Answers` that
    were just made and need no second check.
    ``last``: the totals before it, or None if they were not read.
    """
    number, entry_kind, content, answers, _, commitment, link = row
    fields: Any = parse_json(content) if isinstance(content, str) else None
    if entry_kind in ("note", "fact"):
        if answers != "[]":
            raise ValueError("a note has no answers")
        note = _parse_note(fields, is_fact=entry_kind == "fact")
        return Entry(number, link, commitment, None, (), note)
    if entry_kind != "batch":
        raise ValueError("no kind of entry")
    record = content if fields is None else BatchRecord.from_content(fields)
    if isinstance(answers, str):
        silent = answers == "[]" and record.size == 0
        answers = () if silent else Answers.from_stored(parse_json(answers), record)
    if last is not None:
        _check_continuation(record, answers, last)
    return Entry(number, link, commitment, record, answers, None)


def _parse_note(fields, *, is_fact):
    """Return the name and the content of a note, or of a fact of the system."""
    name = Fact(fields["name"]) if is_fact else fields["name"]
    if fields.keys() != {"name", "content"} or not isinstance(fields["name"], str):
        raise ValueError("no note")
    return name, fields["content"]


def _check_continuation(record, answers, last):
    """Raise ValueError unless a record continues from the totals before it.

    With answers it counts them. Without answers it adds a check and its cost, or it closes the
    holdout with the totals from before the report was begun, after a release of class proportions.
    """
    totals = record.totals
    n_corrected = 0
    if answers:
        is_next = totals.number == last.number + 1 and len(answers) <= record.size
        n_corrected = int(answers.columns["corrected"].sum())
    else:
        is_next = _continues_without_answers(record, last)
    expected_counts = (last.n_answered + len(answers), last.n_above + n_corrected)
    if not is_next or (totals.n_answered, totals.n_above) != expected_counts:
        raise ValueError("the counts do not add up")


def _continues_without_answers(record, last):
    """Return whether a record without answers follows: it closes the holdout, or holds checks."""
    totals = record.totals
    if totals.closed and not last.closed:
        return totals.number == last.number + 1 and totals.n_rounds >= last.n_rounds
    return (
        bool(record.checks)
        and not totals.closed
        and totals.number == last.number
        and totals.n_rounds == last.n_rounds
        and totals.released >= last.released
    )
