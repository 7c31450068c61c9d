"""Entries of a ledger, verified, and one consistent view of them to which more is added."""

import dataclasses
import json
import math

from sklearn_bdp.ledger._file import corrupted
from sklearn_bdp.ledger._records import AnswerRecord, BatchRecord, History, canonical, digest

#: Two training-side values closer than this are one: they differ by rounding.
SAME_VALUE = 1e-6
_TEXTS = ("key", "metric", "model")
_NUMBERS = ("code_length", "training_value", "value", "lower", "upper")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One verified entry of the log."""

    number: int  # 1, 2, ...
    digest: str  # its link
    commitment: str  # digest of what it seals
    record: BatchRecord | None  # the account, for a batch
    answers: tuple  # what the batch released
    note: tuple | None  # name and content, for a note


class Book:
    """All that a process has verified of a ledger, in memory; it can be read, not asked.

    Looked-up answers come from here: a damaged page or index of the file cannot put another
    answer in their place.
    """

    def __init__(self, header, start):
        self.header = header
        self.entries = []
        self.head = (0, start)
        self.last = BatchRecord()
        self.last_number = 0  # of the last entry that seals a state
        self._keys = {}
        self._notes = {name: [content] for name, content in header["notes"].items()}

    def add(self, entry):
        """Take in the entry that follows the head."""
        self.entries.append(entry)
        self.head = (entry.number, entry.digest)
        if entry.note is not None:
            name, content = entry.note
            self._notes.setdefault(name, []).append(content)
        else:
            self.last = entry.record
        if entry.commitment != _NOTHING:
            self.last_number = entry.number
        for answer in entry.answers:
            if answer.key is not None:
                self._keys.setdefault(answer.key, []).append(answer)

    def answers(self):
        """Yield every answer, oldest first."""
        for entry in self.entries:
            yield from entry.answers

    def history(self):
        """Return every answer in the units of its metric."""
        return History(answer.in_units() for answer in self.answers())

    def accounts(self, *, after=0):
        """Yield the account of each batch in later entries, oldest first."""
        for entry in self.entries[after:]:
            if entry.answers:
                yield entry.record

    def checks(self):
        """Return what each check of the holdout said, oldest first."""
        records = (entry.record for entry in self.entries if not entry.answers)
        return [record.checks for record in records if record is not None]

    def lookup(self, keys):
        """Return ``{key: AnswerRecord}`` of the keys that were answered, the latest of each."""
        return {key: self._keys[key][-1] for key in keys if key in self._keys}

    def match(self, queries):
        """Return ``{query: AnswerRecord}`` of queries ``(key, training_value, metric)``.

        A recorded answer is that of its key *and* of the training-side value and metric it was
        asked with: under others the query is another one. ``None`` for the value: the key alone
        says what was asked.
        """
        found = {}
        for query in queries:
            key, training_value, metric = query
            for answer in reversed(self._keys.get(key, ())):
                same = training_value is None or (
                    answer.metric == metric
                    and math.isclose(
                        answer.training_value, training_value, rel_tol=0.0, abs_tol=SAME_VALUE
                    )
                )
                if same:
                    found[query] = answer
                    break
        return found

    def notes(self, name):
        """Return the contents of all notes of that name, oldest first."""
        return list(self._notes.get(name, ()))


_NOTHING = digest("")  # what commits to no state


def _refused(constant):
    raise ValueError("no finite number")


_DECODER = json.JSONDecoder(parse_constant=_refused)


def parse_json(text):
    """Return what a JSON text says; ``ValueError`` for anything that is none."""
    if not isinstance(text, str):
        raise ValueError("text expected")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        pass  # nested deeper than anything that this package writes
    raise ValueError("nested too deep")


def parse_entry(number, kind, content, answers, commitment, digest, *, last):
    """Return the :class:`Entry` that a row says; ``ValueError`` if it cannot be one.

    ``last`` is the account before it, whose counts go on.
    """
    said, rows = parse_json(content), parse_json(answers)
    if kind == "note":
        if not (isinstance(said, dict) and set(said) == {"name", "content"} and rows == []):
            raise ValueError("no note")
        if not isinstance(said["name"], str):
            raise ValueError("no name")
        record, released, note = None, (), (said["name"], said["content"])
    elif kind == "batch":
        record, note = BatchRecord.from_content(said), None
        silent = rows == [] and record.size == 0
        released = () if silent else _batch_answers(record, rows)
        _check_counts(record, released, last)
    else:
        raise ValueError("no kind of entry")
    return Entry(number, digest, commitment, record, released, note)


def _batch_answers(record, rows):
    """Return the answers of a batch; ``ValueError`` where rows and record do not go together."""
    if not isinstance(rows, list) or not rows:
        raise ValueError("no answers")
    scales = {name: tuple(scale) for name, scale in record.scales.items()}
    for words, low, high in scales.values():
        if not (isinstance(words, str) and -math.inf < low < high < math.inf):
            raise ValueError("no scale")
    return tuple(_answer(row, place, record, scales) for place, row in enumerate(rows))


def _answer(row, place, record, scales):
    """Return the answer that a row says; ``ValueError`` if it is none."""
    said = dict(zip(AnswerRecord.ROW, row, strict=True))
    numbers = [said[name] for name in _NUMBERS]
    whole = (
        said["position"] == place
        and all(isinstance(said[name], str | None) for name in _TEXTS)
        and all(type(number) in (float, int) for number in numbers)
        and 0.0 <= said["code_length"] < math.inf
        and all(0.0 <= number <= 1.0 for number in numbers[1:])
        and said["lower"] <= said["upper"]
        and said["above"] in (0, 1)
    )
    if not whole:
        raise ValueError("no answer")
    said.update({name: float(said[name]) for name in _NUMBERS}, above=bool(said["above"]))
    scale = scales.get(said["metric"])
    return AnswerRecord(batch=record.number, time=record.time, scale=scale, **said)


def _check_counts(record, answers, last):
    """Raise ValueError unless the account goes on where the last one stood.

    Without answers it adds a check and its cost, or it closes.
    """
    if answers:
        whole = record.number == last.number + 1 and len(answers) <= record.size
    else:
        closes = record.closed and not last.closed
        whole = (
            (closes or record.checks)
            and record.closed == closes
            and record.number == last.number + closes
            and record.n_rounds == last.n_rounds
            and record.released >= last.released
        )
    n_above = last.n_above + sum(answer.above for answer in answers)
    counts = (record.n_answered, record.n_above)
    if not whole or counts != (last.n_answered + len(answers), n_above):
        raise ValueError("the counts do not add up")


class Transaction:
    """A ledger, verified up to this moment; a writing one may add entries."""

    def __init__(self, connection, path, *, book, chain):
        self._connection = connection
        self._path = path
        self.book = book  # what this process has verified; nothing sealed, it may be pickled
        # What can be read is read there.
        self.header, self.answers, self.accounts = book.header, book.answers, book.accounts
        self.history, self.checks = book.history, book.checks
        self.lookup, self.match, self.notes = book.lookup, book.match, book.notes
        self.entries = book.entries
        self.head, self.last = book.head, book.last  # of these and of what is added
        self._chain = chain
        self._added = []

    def sealed(self):
        """The state that was sealed last, or ``None``; never to be shown."""
        number = self.book.last_number
        if number == 0:
            return None
        row = self._connection.execute(
            "SELECT sealed FROM log WHERE number = ?", (number,)
        ).fetchone()
        commitment = self.book.entries[number - 1].commitment
        if row is None or not isinstance(row[0], str) or digest(row[0]) != commitment:
            raise corrupted(self._path, "its sealed state was replaced")
        return row[0]

    def catch_up(self, *, expected=None):
        """Verify every entry after those verified earlier, up to the head of the file.

        ``expected``: number and digest that a pickle has seen; they must be on the chain.
        """
        number, start = self.book.head
        rows = self._connection.execute(
            "SELECT number, digest, (SELECT min(number) FROM log), (SELECT max(number) FROM log), "
            "(SELECT digest FROM log WHERE number = ?) FROM head",
            (number,),
        ).fetchall()
        if len(rows) != 1 or rows[0][0] != (rows[0][3] or 0) or rows[0][2] not in (None, 1):
            raise corrupted(self._path, "its log and its head do not agree")
        if number > 0 and rows[0][4] != start:
            raise corrupted(self._path, "entries seen earlier are missing: it was rolled back")
        for row in self._connection.execute(
            "SELECT number, kind, content, answers, sealed, commitment, digest FROM log "
            "WHERE number > ? ORDER BY number",
            (number,),
        ):
            self.book.add(self._verified(*row))
        if self.book.head != rows[0][:2]:
            raise corrupted(self._path, "its log and its head do not agree")
        if expected is not None and expected[0] > 0 and not self._has(*expected):
            raise corrupted(self._path, "entries seen earlier are missing: it was rolled back")
        self.head, self.last = self.book.head, self.book.last

    def append(self, record, *, sealed="", answers=()):
        """Write one batch; it is durable once the transaction has committed.

        Without answers: what a check said, which moves the account and seals nothing.
        """
        rows = canonical([answer.row() for answer in answers])
        self._add("batch", record.to_json(), rows, sealed)

    def note(self, name, content, *, sealed=""):
        """Write a note, and what it seals; it is durable once the transaction has committed.

        Notes are facts about a holdout that must survive with its answers and in their order: how
        the data were split, that it was closed, which fits are done. Nothing computed from
        holdout scores may be among them, except released values.
        """
        self._add("note", canonical({"name": name, "content": content}), "[]", sealed)

    def commit(self):
        """Take over what was written; called when it is durable."""
        for entry in self._added:
            self.book.add(entry)
        self._added = []

    def _add(self, kind, content, answers, sealed):
        """Write one entry and the head that it makes."""
        number, previous = self.head
        commitment = digest(sealed)
        link = self._chain.link(previous, kind, content, answers, commitment)
        # What could not be read back is never written.
        entry = parse_entry(number + 1, kind, content, answers, commitment, link, last=self.last)
        self._connection.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number + 1, kind, content, answers, sealed, commitment, link),
        )
        self._connection.execute("UPDATE head SET number = ?, digest = ?", (number + 1, link))
        self._added.append(entry)
        self.head = number + 1, link
        self.last = self.last if entry.record is None else entry.record

    def _verified(self, number, kind, content, answers, sealed, commitment, link):
        """Return the entry that follows the head of the book, or raise."""
        expected, previous = self.book.head[0] + 1, self.book.head[1]
        texts = (kind, content, answers, sealed, commitment, link)
        whole = (
            number == expected
            and all(isinstance(text, str) for text in texts)
            and digest(sealed) == commitment
            and self._chain.link(previous, kind, content, answers, commitment) == link
        )
        if not whole:
            raise corrupted(self._path, f"the chain breaks at entry {expected}")
        try:
            return parse_entry(
                number, kind, content, answers, commitment, link, last=self.book.last
            )
        except (ValueError, TypeError, OverflowError):
            pass  # what it says could be anything
        raise corrupted(self._path, f"entry {expected} cannot be read")

    def _has(self, number, link):
        entries = self.book.entries
        return number <= len(entries) and entries[number - 1].digest == link
