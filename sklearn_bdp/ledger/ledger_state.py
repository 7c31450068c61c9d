"""State of a ledger that a process has verified: totals, notes and digests.

Entries that are not in memory are read from the backend when they are needed.
"""

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

#: Cross-validated scores in [0, 1] that differ by at most this are the same, but for rounding.
SAME_VALUE = 1e-6
#: Largest number of entries that are read from a backend at once.
PAGE_SIZE = 500
#: Number of latest entries that are parsed when a ledger is opened. Of earlier batches only the
#: digest is verified; they are parsed when they are read. Also the largest number of parsed entries
#: that stay in memory.
N_RECENT = 1000


class SystemNote(enum.Enum):
    """Names of the notes that the package writes. Names of users' notes are ``str``."""

    SPLIT = "split"  # the seed that divided the data into training set and holdout
    TARGETS = "targets before the split"  # digest of the targets of all records
    ASSUMPTION = "assumption"  # additional line of the certificate
    SHARED_ROWS = "shared rows"  # training records equal to holdout records were allowed
    ANOTHER_ACCOUNT = "another account"  # another holdout answered about these targets before
    TRAINING_TARGETS = "training targets"  # the classes or the range of the training targets
    LARGEST_GROUP = "largest group"  # number of its records, before the split
    STRATIFIED = "stratified"  # the split was stratified by the targets (theory G28)
    ORDER = "order of units"  # secret hex text that seeds the order of the units (theory G28)
    ERROR_CLIPS = "error clips"  # from out-of-fold training errors, at the first query (G31)
    STATEMENTS = "statements"  # fixed on the training set before they were queried
    CLOSING = "closing"  # a final report was begun, and its cost if it does not finish (G35)
    SEARCH = "search"  # a search that took recorded answers, as `check` needs to know
    MOVED = "moved"  # new location of the ledger, which answers no query here any more


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One verified entry of the log."""

    number: int  # 1, 2, ...
    digest: str  # link of the chain: digest of the entry and of the link before it
    commitment: str  # digest of the secret state
    record: BatchRecord | None  # None for a note
    answers: Any  # Answers of a batch; () for a batch without answers and for a note
    note: tuple[Any, Any] | None  # name and content; None for a batch


#: Patterns of JSON columns with one text in which nothing is escaped, by column.
_SINGLE_VALUE_COLUMNS = {
    name: re.compile(rf'"{name}":\["([^"\\]*)"\]') for name in ("key", "by", "metric")
}


class _Index:
    """Index of answers by query key and by submitter of predictions, and results of checks.

    JSON texts of answers are parsed at the next look-up.
    """

    def __init__(self) -> None:
        #: Entry number and JSON text of the answers of each batch that is not indexed yet.
        self._unparsed_answers: list[tuple[int, str]] = []
        #: By query key: entry number and position in the batch of each answer, oldest first. The
        #: position is None if all answers of a batch have the key.
        self._answer_positions: dict[str, list[tuple[int, int | None]]] = {}
        #: Number of the latest entry by submitter and metric.
        self._latest_entries: dict[tuple[str, str | None], int] = {}
        self._check_texts: list[str] = []  # JSON texts of batch records without answers

    def add(self, row: Row) -> None:
        """Add the row of the next entry; do nothing if it is a note."""
        if row.kind == "batch":
            if row.answers == "[]":
                self._check_texts.append(row.content)
            else:
                self._unparsed_answers.append((row.number, row.answers))

    def find(self, key: str) -> Sequence[tuple[int, int | None]]:
        """Return pairs of entry number and position in the batch of the answers with a query key.

        The position is None if all answers of a batch have the key. Oldest first.
        """
        self._parse_answers()
        return self._answer_positions.get(key, ())

    def latest_entry(self, submitter: str, metric: str | None) -> int | None:
        """Return the number of the latest entry with an answer to a submitter on a metric, or None.

        A submitter is the name of the person or team whose predictions were scored.
        """
        self._parse_answers()
        return self._latest_entries.get((submitter, metric))

    def checks(self) -> list[dict[str, Any]]:
        """Return the field ``checks`` of each :class:`BatchRecord` that has it, oldest first."""
        records = [parse_json(text) for text in self._check_texts]
        return [record["checks"] for record in records if record.get("checks")]

    def _parse_answers(self):
        """Index the answers that were added since the last look-up."""
        for entry_number, answers_json in self._unparsed_answers:
            columns = {}  # columns by name in the ledger; "key", "by" and "metric" are read
            for name, pattern in _SINGLE_VALUE_COLUMNS.items():
                match = pattern.search(answers_json)
                if match is None:
                    columns = parse_json(answers_json)
                    break
                columns[name] = match.groups()
            # A column with one value has this value for all answers of the batch.
            keys = columns.get("key", ())
            for index, key in enumerate(keys):
                if key is not None:
                    key_position = index if len(keys) > 1 else None
                    self._answer_positions.setdefault(key, []).append((entry_number, key_position))
            submitters = columns.get("by", [None])  # who submitted predictions
            metrics = columns.get("metric", [None])
            for position in range(max(len(submitters), len(metrics))):
                submitter = submitters[min(position, len(submitters) - 1)]
                if submitter is not None:
                    metric = metrics[min(position, len(metrics) - 1)]
                    self._latest_entries[submitter, metric] = entry_number
        self._unparsed_answers = []


class LedgerState:
    """State of a ledger that a process has verified.

    The digests of all entries stay in memory. An entry that is read again must have the same
    digest. A pickled state has no secret states. Inside a writing transaction one entry can be
    appended.

    Parameters
    ----------
    header : dict
        Parsed header of the ledger.
    header_digest : str
        Digest of the header.
    load_rows : callable
        ``load_rows(after_number, limit)`` returns the rows of entries with numbers above
        ``after_number``, at most ``limit``.
    """

    #: Method of the :class:`Ledger` that writes an entry; set inside a writing transaction only.
    _write: Any = None

    def __init__(
        self, header: dict[str, Any], header_digest: str, load_rows: Callable[[int, int], list[Row]]
    ) -> None:
        self.header = header
        self.head = (0, header_digest)  # number and digest of the last entry
        self.totals = LedgerTotals()  # after the last entry
        self.latest_record: BatchRecord | None = None  # of the latest batch or check
        self.digests: list[str] = []  # of entries 1, 2, ...
        self._unparsed_batch: Row | None = None  # latest batch, if it was not parsed
        self._header_digest = header_digest
        self._load = load_rows
        #: Entries that were parsed last, by number.
        self._parsed_entries: collections.OrderedDict[int, Entry] = collections.OrderedDict()
        self._index = _Index()
        self._history = History(), 0  # answers of the first entries, and number of these entries
        self._notes: dict[Any, list[Any]] = {
            name: [content] for name, content in header["notes"].items()
        }
        self._notes |= {SystemNote(name): [content] for name, content in header["facts"].items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes by name, with all rows in memory and without secret states."""
        rows = [row._replace(secret_text="") for row in self.rows()]
        return vars(self) | {
            "_load": _LoadedRows(rows),
            "_parsed_entries": collections.OrderedDict(),
        }

    def add(self, row: Row, *, is_recent: bool = True) -> None:
        """Add the row of the next entry, whose digest was verified.

        A batch that is not recent is not parsed: its digest and the JSON text of its answers are
        kept. If it is the latest batch, :meth:`read_latest_record` parses its record. Raises an
        error of any class if a row cannot be parsed.
        """
        if row.kind == "batch" and not is_recent:
            self._unparsed_batch = row
            self.head = (row.number, row.digest)
            self.digests.append(row.digest)
            self._index.add(row)
            return
        if is_recent:
            self.read_latest_record()
        self.add_entry(row, parse_entry(row, previous_totals=self.totals if is_recent else None))

    def read_latest_record(self) -> None:
        """Set the latest record and the totals from the latest batch, if it was not parsed yet."""
        row = self._unparsed_batch
        self._unparsed_batch = None
        if row is not None:
            self._use_record(parse_entry(row, previous_totals=None).record)

    def add_entry(self, row: Row, entry: Entry) -> None:
        """Add the next entry, as it is stored (``row``) and as it was parsed (``entry``).

        The note that a final report was begun adds the code length of the report to the totals.
        """
        self._index.add(row)
        self.head = (entry.number, entry.digest)
        self.digests.append(entry.digest)
        self._cache_entry(entry)
        if entry.note is not None:
            name, content = entry.note  # a user's note has a text as its name
            self._notes.setdefault(name, []).append(content)
            if name is SystemNote.CLOSING:
                self.read_latest_record()
                self.totals = self.totals.with_unfinished_report(self._report_charge(content))
        else:
            self._use_record(entry.record)

    def _use_record(self, record):
        """Set the latest record and the totals from a BatchRecord; None changes nothing."""
        if record is not None:
            self.latest_record = record
            self.totals = record.totals

    def _report_charge(self, closing_content):
        """Return the code length of a final report that was begun, in nats.

        ``closing_content``: content of the note that it was begun. Before format 7, 0 if missing.
        """
        if self.header["format"] < 7:
            return closing_content.get("charge", 0.0)
        return closing_content["charge"]

    def digest_before(self, number: int) -> str:
        """Return the digest of entry ``number - 1``, or of the header for ``number=1``."""
        return self.digests[number - 2] if number > 1 else self._header_digest

    # -- reading -----------------------------------------------------------------------------

    def rows(self, *, after_number: int = 0) -> Iterator[Row]:
        """Yield the stored rows of the entries with numbers above ``after_number``, in order."""
        while after_number < self.head[0]:
            rows = self._load(after_number, min(PAGE_SIZE, self.head[0] - after_number))
            yield from rows
            after_number += len(rows)

    def entry(self, number: int) -> Entry:
        """Return the parsed entry with a number, counted from 1."""
        entry = self._parsed_entries.get(number)
        if entry is None:
            (row,) = self._load(number - 1, 1)
            entry = self._parse(row)
            self._cache_entry(entry)
        return entry

    @property
    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        return self._later_entries(0)

    def _later_entries(self, after_number):
        """Return an iterator over the entries with numbers above ``after_number``, in order."""
        numbers = range(after_number + 1, self.head[0] + 1)
        if all(number in self._parsed_entries for number in numbers):
            return iter([self._parsed_entries[number] for number in numbers])
        return map(self._parse, self.rows(after_number=after_number))

    def _parse(self, row):
        """Return the entry of a verified row; raise LedgerCorruptedError if it cannot be parsed."""
        try:
            return parse_entry(row, previous_totals=None)
        except Exception:  # its content may be arbitrary
            pass
        raise LedgerCorruptedError(
            f"entry {row.number} of the ledger cannot be read. The holdout was not queried."
        )

    def _cache_entry(self, entry):
        """Keep a parsed entry in memory; of more than ``N_RECENT``, drop those parsed first."""
        self._parsed_entries[entry.number] = entry
        while len(self._parsed_entries) > N_RECENT:
            self._parsed_entries.popitem(last=False)

    def history(self) -> History:
        """Return all answers, oldest first, in score units of their metrics."""
        earlier_answers, n_entries = self._history
        if n_entries < self.head[0]:
            later_answers = (
                answer.in_units()
                for entry in self._later_entries(n_entries)
                for answer in entry.answers
            )
            # One assignment, so that an interrupt cannot make answers appear twice.
            self._history = History((*earlier_answers, *later_answers)), self.head[0]
        return self._history[0]

    def latest_records(self) -> Iterator[BatchRecord]:
        """Yield the record of each batch with answers, newest first."""
        end_number = self.head[0]
        while end_number > 0:
            after_number = max(0, end_number - PAGE_SIZE)
            numbers = range(after_number + 1, end_number + 1)
            if all(number in self._parsed_entries for number in numbers):
                entries = [self._parsed_entries[number] for number in numbers]
            else:
                entries = list(map(self._parse, self._load(after_number, len(numbers))))
            for entry in reversed(entries):
                if entry.answers and entry.record is not None:
                    yield entry.record
            end_number = after_number

    def records(self, *, after_number: int = 0) -> Iterator[BatchRecord]:
        """Yield the record of each batch with answers after an entry number, oldest first."""
        for entry in self._later_entries(after_number):
            if entry.answers and entry.record is not None:
                yield entry.record

    def checks(self) -> list[dict[str, Any]]:
        """Return the field ``checks`` of each :class:`BatchRecord` that has it, oldest first."""
        return self._index.checks()

    def find_answers(
        self, queries: Any
    ) -> dict[tuple[str, float | None, str | None], AnswerRecord]:
        """Return the latest recorded answer to each query ``(key, cv_score, metric)``, by query.

        Keys and, unless ``cv_score`` is None, metrics must be equal, and cross-validated scores may
        differ by rounding. Scores are in [0, 1]. Queries without an answer are left out.
        """
        answers = {}
        for key, cv_score, metric in queries:
            for entry_number, position in self._index.find(key):
                batch_answers = self.entry(entry_number).answers
                for answer in batch_answers if position is None else [batch_answers[position]]:
                    if cv_score is None or (
                        answer.metric == metric and abs(answer.cv_score - cv_score) <= SAME_VALUE
                    ):
                        answers[key, cv_score, metric] = answer
        return answers

    def latest_score(self, submitter: str | None, metric: str | None) -> float | None:
        """Return the latest verified score of a submitter's predictions on a metric, or None.

        The score is in [0, 1].
        """
        if submitter is None:
            return None
        number = self._index.latest_entry(submitter, metric)
        if number is None:
            return None
        scores = [
            answer.value
            for answer in self.entry(number).answers
            if (answer.submitter, answer.metric) == (submitter, metric)
        ]
        return scores[-1]

    def notes(self, name: Any) -> list[Any]:
        """Return contents of all notes with a name (:class:`SystemNote` or str), oldest first."""
        return list(self._notes.get(name, ()))

    def moved_to(self) -> str | None:
        """Return the location to which the ledger was moved; None if it was not moved."""
        move_notes = self.notes(SystemNote.MOVED)
        return move_notes[-1]["to"] if move_notes else None

    # -- inside a writing transaction ---------------------------------------------------------

    def append(self, record: BatchRecord, *, secret_text: str = "", answers: Any = ()) -> Any:
        """Write one batch; return its answers, with the name of the user who queried.

        Parameters
        ----------
        record : BatchRecord
            Record of the batch, or of a check of the holdout.
        secret_text : str, default=""
            JSON text of the secret state. Empty if the batch does not change it.
        answers : Answers or tuple, default=()
            Answers of the batch. Empty for a check.

        Returns
        -------
        Answers or tuple
            The same answers with the user.
        """
        return self._write("batch", record, answers, secret_text).answers

    def note(self, name: Any, content: Any, *, secret_text: str = "") -> None:
        """Write a note: a JSON-serializable content under a name.

        Except for released values, nothing in a note may be computed from holdout scores.
        ``name``: a :class:`SystemNote` for a note of the package, a str for a note of a user.
        ``secret_text``: JSON text of the secret state. Empty if the note does not change it.
        """
        entry_kind = "note"
        stored_name = name
        if isinstance(name, SystemNote):
            entry_kind = "fact"
            stored_name = name.value
        note_text = canonical({"name": stored_name, "content": content})
        self._write(entry_kind, note_text, (), secret_text)


class _LoadedRows:
    """Function that returns rows of a pickled state from memory."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, after_number, limit):
        """Return the rows of entries with numbers above ``after_number``, at most ``limit``."""
        return self.rows[after_number : after_number + limit]


def parse_entry(row: Any, *, previous_totals: LedgerTotals | None) -> Entry:
    """Return the :class:`Entry` of a row.

    Parameters
    ----------
    row : Row
        A stored entry. Its ``content`` and ``answers`` may also be the :class:`BatchRecord` and
        the :class:`Answers` of a new batch, which are not checked again.
    previous_totals : LedgerTotals or None
        Totals before the entry, from which its totals must follow. None: no check.

    Raises
    ------
    Exception
        An error of any class, if the row is not an entry.
    """
    number, entry_kind, content, answers, _, commitment, digest = row
    parsed_content: Any = parse_json(content) if isinstance(content, str) else None
    if entry_kind in ("note", "fact"):
        if answers != "[]":
            raise ValueError("a note has no answers")
        note = _parse_note(parsed_content, is_system_note=entry_kind == "fact")
        return Entry(number, digest, commitment, None, (), note)
    if entry_kind != "batch":
        raise ValueError("no kind of entry")
    record = content if parsed_content is None else BatchRecord.from_content(parsed_content)
    if isinstance(answers, str):
        is_without_answers = answers == "[]" and record.size == 0
        answers = () if is_without_answers else Answers.from_stored(parse_json(answers), record)
    if previous_totals is not None:
        _check_continuation(record, answers, previous_totals)
    return Entry(number, digest, commitment, record, answers, None)


def _parse_note(parsed_note, *, is_system_note):
    """Return the name and the content of a note from its parsed JSON.

    The name is a :class:`SystemNote` or a str. Raises an error if the JSON is not a note.
    """
    name = SystemNote(parsed_note["name"]) if is_system_note else parsed_note["name"]
    has_fields = parsed_note.keys() == {"name", "content"}
    if not has_fields or not isinstance(parsed_note["name"], str):
        raise ValueError("no note")
    return name, parsed_note["content"]


def _check_continuation(record, answers, previous_totals):
    """Raise ValueError unless the counts of a batch record follow from the totals before it.

    A record without answers must add the result of a check, or close the holdout.
    """
    totals = record.totals
    n_corrected = 0
    if answers:
        is_next_number = totals.number == previous_totals.number + 1
        is_continuation = is_next_number and len(answers) <= record.size
        n_corrected = int(answers.columns["corrected"].sum())
    else:
        is_continuation = _continues_without_answers(record, previous_totals)
    expected_n_answered = previous_totals.n_answered + len(answers)
    expected_n_above = previous_totals.n_above + n_corrected
    counts_agree = totals.n_answered == expected_n_answered and totals.n_above == expected_n_above
    if not is_continuation or not counts_agree:
        raise ValueError("the counts do not add up")


def _continues_without_answers(record, previous_totals):
    """Return whether a batch record without answers closes the holdout or adds check results.

    Its totals must also follow from ``previous_totals``.
    """
    totals = record.totals
    if totals.closed and not previous_totals.closed:
        is_next_number = totals.number == previous_totals.number + 1
        return is_next_number and totals.n_rounds >= previous_totals.n_rounds
    return (
        bool(record.checks)
        and not totals.closed
        and not previous_totals.closed
        and totals.number == previous_totals.number
        and totals.n_rounds == previous_totals.n_rounds
        and totals.released >= previous_totals.released  # code lengths in nats
    )
