"""Entries of the log: parsed, checked, and kept in memory by the process that verified them."""

import dataclasses
import json
import math

from sklearn_bdp.ledger._records import AnswerRecord, BatchRecord, History

#: Two training-side values closer than this are one: they differ by rounding.
SAME_VALUE = 1e-6
_TEXTS = ("key", "metric", "model")
_NUMBERS = ("code_length", "training_value", "value", "lower", "upper")


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
        self._notes = {name: [content] for name, content in header["notes"].items()}

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
        record, released, note = BatchRecord.from_content(said), (), None
        if rows == [] and record.size == 0:
            _check_silent(record, last)
        else:
            released = _batch_answers(record, rows)
            _check_counts(record, released, last)
    else:
        raise ValueError("no kind of entry")
    return Entry(
        number=number,
        digest=digest,
        commitment=commitment,
        record=record,
        answers=released,
        note=note,
    )


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


def _check_silent(record, last):
    """Raise ValueError unless an account without answers adds a check and its cost, or closes."""
    same = ("n_answered", "n_above", "n_rounds")
    closes = record.closed and not last.closed
    if not (closes or record.checks) or not record.released >= last.released:
        raise ValueError("no check")
    if record.number != last.number + closes or (record.closed and not closes):
        raise ValueError("the counts do not add up")
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
