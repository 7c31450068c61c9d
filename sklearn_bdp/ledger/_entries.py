"""Entries of the log: parsed, checked, and kept in memory by the process that verified them."""

import dataclasses
import itertools
import json
import math

import numpy as np

from sklearn_bdp.ledger._records import AnswerRecord, BatchRecord, History, answer_records

#: Two training-side values closer than this are one: they differ by rounding.
SAME_VALUE = 1e-6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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
        self.last = BatchRecord.empty()
        self.last_number = 0  # of the last entry with answers, which seals a state
        self._keys = {}
        self._notes = {}

    def add(self, entry):
        """Take in the entry that follows the head."""
        self.entries.append(entry)
        self.head = (entry.number, entry.digest)
        if entry.note is not None:
            name, content = entry.note
            self._notes.setdefault(name, []).append(content)
            return
        self.last = entry.record
        if entry.answers:
            self.last_number = entry.number
        for answer in entry.answers:
            if answer.key is not None:
                self._keys.setdefault(answer.key, []).append(answer)

    def add_first_note(self, name, content):
        """Take in a note that the header holds."""
        self._notes.setdefault(name, []).append(content)

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


def parse_entry(number, kind, content, answers, commitment, digest, *, last, given=None):
    """Return the :class:`Entry` that a row says; ``ValueError`` if it cannot be one.

    ``last`` is the account before it, whose counts go on; ``given`` are the answers that were just
    written as this row.
    """
    said = parse_json(content)
    rows = parse_json(answers) if given is None else [answer.row() for answer in given]
    if kind == "note":
        if not (isinstance(said, dict) and set(said) == {"name", "content"} and rows == []):
            raise ValueError("no note")
        if not isinstance(said["name"], str):
            raise ValueError("no name")
        record, given, note = None, (), (said["name"], said["content"])
    elif kind == "batch":
        record = BatchRecord.from_content(said)
        note = None
        if rows == [] and record.size == 0:
            given = ()
            _check_silent(record, last)
        else:
            given = _batch_answers(record, rows, given)
            _check_counts(record, given, last)
    else:
        raise ValueError("no kind of entry")
    return Entry(
        number=number,
        digest=digest,
        commitment=commitment,
        record=record,
        answers=given,
        note=note,
    )


def _batch_answers(record, rows, given):
    """Return the answers of a batch; ``ValueError`` where rows and record do not go together."""
    if not isinstance(rows, list) or not rows:
        raise ValueError("no answers")
    columns, scales = _columns(rows), _scales(record.scales)
    found = _answers(record, columns, scales) if given is None else tuple(given)
    if any(answer.scale != scales.get(answer.metric) for answer in found):
        raise ValueError("a scale of another metric")
    return found


def _check_silent(record, last):
    """Raise ValueError unless an account without answers only adds a check, and what it cost."""
    same = ("number", "n_answered", "n_above", "n_rounds", "closed")
    if not record.checks or not record.released >= last.released:
        raise ValueError("no check")
    if any(getattr(record, name) != getattr(last, name) for name in same):
        raise ValueError("the counts do not add up")


def _check_counts(record, answers, last):
    """Raise ValueError unless the account goes on where the last one stood."""
    whole = (
        record.number == last.number + 1
        and record.n_answered == last.n_answered + len(answers)
        and record.n_above == last.n_above + sum(answer.above for answer in answers)
        and len(answers) <= record.size
    )
    if not whole:
        raise ValueError("the counts do not add up")


def _columns(rows):
    """Return the columns of answers as the ledger stores them; ``ValueError`` if they are none."""
    if not all(isinstance(row, list | tuple) and len(row) == len(AnswerRecord.ROW) for row in rows):
        raise ValueError("no answers")
    position, key, metric, model, *numbers, above = zip(*rows, strict=True)
    texts = set().union(*(map(type, column) for column in (key, metric, model)))
    kinds = set().union(*(map(type, column) for column in numbers))
    if not (
        position == tuple(range(len(rows)))
        and texts <= {str, type(None)}
        and kinds <= {float, int}
        and set(above) <= {0, 1}
    ):
        raise ValueError("no answers")
    length, *shares = np.array(numbers, dtype=float)
    if not (np.all((length >= 0.0) & (length < math.inf)) and np.all(_is_share(np.array(shares)))):
        raise ValueError("no answers")
    _, _, lower, upper = shares
    if not np.all(lower <= upper):
        raise ValueError("no interval")
    return key, metric, model, length, *shares, above


def _scales(recorded):
    """Return the words and the range of each metric; ``ValueError`` where they are none."""
    for words, low, high in recorded.values():
        if not (isinstance(words, str) and -math.inf < low < high < math.inf):
            raise ValueError("no scale")
    return {name: tuple(scale) for name, scale in recorded.items()}


def _is_share(values):
    return (values >= 0.0) & (values <= 1.0)


def _answers(record, columns, scales):
    """Return the answers of a batch from what its rows say."""
    key, metric, model, length, training_value, value, lower, upper, above = columns
    return tuple(
        answer_records(
            len(key),
            batch=itertools.repeat(record.number),
            position=range(len(key)),
            key=key,
            metric=metric,
            model=model,
            scale=map(scales.get, metric),
            time=itertools.repeat(record.time),
            code_length=length.tolist(),
            training_value=training_value.tolist(),
            value=value.tolist(),
            lower=lower.tolist(),
            upper=upper.tolist(),
            above=map(bool, above),
        )
    )
