"""Frozen records: what a batch did, what an answer was, what the analyst receives.

Everything here is public. The one secret of a holdout, the noise of the current threshold, travels
as a sealed string that only the ledger and the mechanism handle.
"""

import base64
import copy
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_bdp.utils.score_units import open_ends_from_unit


def _refused(constant):
    raise ValueError("no finite number")


#: The one JSON text of a content: sorted, compact, floats to the last bit.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
#: What a JSON text says; an error for anything that is none.
parse_json = json.JSONDecoder(parse_constant=_refused).decode


#: Lists of numbers from this length on are packed: their decimals would take more than their bits.
_PACKED_STATE = 10


def _pack_doubles(values):
    """Return the text of doubles, to the last bit."""
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


def _unpack_doubles(text):
    """Return the doubles of a text."""
    return np.frombuffer(base64.b64decode(text, validate=True), "<f8")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One batch of queries, and what has been spent after it."""

    number: int = 0  # 1 for the first batch that held a new query, then 2, 3, ...
    time: str = ""  # when it was decided, ISO 8601, UTC
    size: int = 0  # new queries in the batch, fixed before any was answered
    #: Code length of a query before its place in the batch is coded, in nats: the information spent
    #: before the batch, and its number.
    code_length: float = 0.0
    n_answered: int = 0  # answers, and corrected answers, up to and including this batch
    n_above: int = 0
    #: Times the holdout was looked at so far: a corrected answer that was refined counts twice.
    n_rounds: int = 0
    released: float = 0.0  # code length of everything released so far, in nats
    #: Public state of the predictive code after the batch.
    code: dict = dataclasses.field(default_factory=dict)
    #: What was released, cell by cell, and what it was asked with: with the answers enough to work
    #: out every prediction again.
    cells: dict = dataclasses.field(default_factory=dict)
    #: Largest distance from an answer to an end of its interval so far, but for relaxed ones.
    widest: float = 0.0
    n_relaxed: int = 0  # answers so far whose interval was left wider on purpose (``relaxed_to``)
    #: Pure-DP level spent so far; ``None`` where no finite level holds.
    dp_epsilon: float | None = 0.0
    seeded: bool = False  # whether a fixed ``random_state`` made the noise of any batch so far
    closed: bool = False  # whether this batch was the final report: nothing new is answered after
    #: What each metric of the batch is in words, and its range in score units, by the name that the
    #: answers have it under: ``{metric: [words, low, high]}``.
    scales: dict = dataclasses.field(default_factory=dict)
    #: What a check that read the holdout said (theory G21); it has a record of its own, without
    #: answers: ``{"of": what was compared, "finding": its name or None}``.
    checks: dict = dataclasses.field(default_factory=dict)
    #: Shares of the holdout's classes that were asked with this batch (theory G20), as released.
    shares: dict = dataclasses.field(default_factory=dict)
    #: How the failure probability is spent, and the batch's part of it (theory G16).
    spending: dict = dataclasses.field(default_factory=dict)
    #: Who asked: the user of the process; empty in ledgers of version 0.1.
    user: str = ""

    def to_json(self) -> str:
        """Return the canonical text of this record, without fields that have their default."""
        content = {
            name: value
            for name in self.__slots__
            if (value := getattr(self, name)) != _DEFAULTS[name] or name in _ALWAYS
        }
        if self.code:
            content["code"] = {
                name: _pack_doubles(value) if _is_packed(value) else value
                for name, value in self.code.items()
            }
        return canonical(content)

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """Rebuild a record from parsed JSON; ``ValueError`` where a field is none of its kind."""
        if not _ALWAYS <= content.keys() <= _KINDS.keys():
            raise ValueError("a batch record has other fields.")
        code = content.get("code", {})
        if isinstance(code, dict) and any(isinstance(value, str) for value in code.values()):
            unpacked = {
                name: _unpack_doubles(value).tolist() if isinstance(value, str) else value
                for name, value in code.items()
            }
            content = {**content, "code": unpacked}
        return cls(**content)

    def with_unfinished_report(self, charge: Any) -> Self:
        """Return what has been spent if a final report that was begun does not finish (theory G35).

        ``charge``: nats. How it ended has no level of privacy.
        """
        if not (isinstance(charge, float) and charge >= 0.0):
            raise ValueError("the charge of a report must be a number of at least 0.")
        return dataclasses.replace(self, released=self.released + charge, dp_epsilon=None)

    def __post_init__(self):
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and kind is not int:
                value = float(value)
            sound = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not sound or (number and not 0 <= value < _MOST):
                raise ValueError(f"{name} of a batch record is of another kind.")


def _is_packed(value):
    """Return whether a value of a code's state is a list of numbers that is packed."""
    return (
        isinstance(value, list)
        and len(value) >= _PACKED_STATE
        and all(type(number) is float for number in value)
    )


_KINDS: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(BatchRecord)}
_MOST = 1e300  # finite, and no product of ours overflows
#: Values of fields that a text does not state. (``BatchRecord()`` needs what stands above.)
_DEFAULTS: dict[str, Any] = {name: getattr(BatchRecord(), name) for name in _KINDS}
_ALWAYS = {"number", "n_answered", "closed"}  # in each text: what kind of entry it is


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One answered query, as released.

    Parameters
    ----------
    batch : int
        Number of its batch, from 1.
    position : int
        Place in the batch, from 0.
    key : str or None
        The key the query was asked under.
    time : str
        When its batch was decided, ISO 8601, UTC.
    code_length : float
        Code length its interval pays for, in nats.
    cv_score : float
        Training-side value, in [0, 1].
    value : float
        The released answer, in [0, 1].
    lower, upper : float
        Ends of its interval, in [0, 1].
    corrected : bool
        Whether the answer came from the holdout.
    metric : str or None, default=None
        Metric of the query, if it named one; a key is known together with it.
    model : str or None, default=None
        Whose score it is, in words.
    scale : tuple or None, default=None
        The metric in words, its range in score units, and the ends beyond which scores may lie
        (``"lower"``, ``"both"``) where there are any; ``None`` if values are in these units
        already, or unknown.
    shape : dict or None, default=None
        What is public about how the score varies; see
        :func:`sklearn_bdp.intervals.score_tail`.
    answered : bool, default=True
        Whether the holdout answered. If not, the value follows ``on_exhausted``, and the answer is
        in no ledger.
    submitter : str or None, default=None
        Who submitted the predictions; see :meth:`ReusableHoldout.answer_predictions`.
    user : str, default=""
        Who ran the process that asked: the login name, or ``SKLEARN_BDP_USER`` if it is set.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> rng = np.random.default_rng(1)
    >>> X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    >>> holdout = ReusableHoldout(X, y, random_state=0)
    >>> hits = rng.random((2, 500)) < 0.8
    >>> _ = holdout.answer([0.8, 0.6], hits, keys=["tree", "stump"])
    >>> record = holdout.history()[1]
    >>> record.key, record.cv_score, record.source, record.lower < 0.8 < record.upper
    ('stump', 0.6, 'holdout', True)
    """

    batch: int
    position: int
    key: str | None
    time: str
    code_length: float
    cv_score: float
    value: float
    lower: float
    upper: float
    corrected: bool
    metric: str | None = None
    model: str | None = None
    scale: tuple[Any, ...] | None = None
    shape: dict[str, Any] | None = dataclasses.field(default=None, hash=False, repr=False)
    answered: bool = True
    submitter: str | None = None
    user: str = ""

    #: What tables show, in this order.
    SHOWN: ClassVar[tuple] = (
        "batch", "position", "time", "metric", "model", "submitter", "value", "lower", "upper",
        "interval",
        "cv_score", "corrected", "code_length", "key", "user",
    )  # fmt: skip

    def __float__(self) -> float:
        return self.value

    @property
    def source(self) -> str:
        """Where the answer came from: "cv", "holdout" or "unanswered"."""
        given = "holdout" if self.corrected else "cv"
        return given if self.answered else "unanswered"

    def in_units(self) -> Self:
        """Return the answer in the units of its metric, as far as they were recorded.

        Returns
        -------
        AnswerRecord
            The same answer, its values and interval in score units.
        """
        if self.scale is None:
            return self
        words, low, high, *open_ends = self.scale
        lower, upper = open_ends_from_unit(low, high, "".join(open_ends), self.lower, self.upper)
        return dataclasses.replace(
            self,
            metric=words,
            scale=None,
            cv_score=low + (high - low) * self.cv_score,
            value=low + (high - low) * self.value,
            lower=lower,
            upper=upper,
        )

    @property
    def interval(self) -> str:
        """Kind of the interval: ``"proven"``, ``"approximate"`` or ``"none"``.

        ``"none"`` also of queries that the holdout did not answer.
        """
        if not self.answered:
            return "none"
        if self.shape is None or self.shape["kind"] != "approximate":
            return "proven"
        return "none" if self.shape["family"] == "none" else "approximate"


#: Columns of a batch as they are kept and hashed, and what stands in them: ``text`` or nothing,
#: numbers in the ``unit`` interval, nonnegative ``lengths``, ``flags``.
COLUMNS = {
    "key": "text", "metric": "text", "model": "text", "submitter": "text", "code_length": "length",
    "cv_score": "unit", "value": "unit", "lower": "unit", "upper": "unit", "corrected": "flag",
}  # fmt: skip
#: Names of columns in a ledger's text, if they differ: a ledger keeps its names for life.
STORED_NAMES = {"submitter": "by", "cv_score": "training_value", "corrected": "above"}
_TYPES = {"text": {str, type(None)}}  # of values; other columns hold numbers, at most:
_NUMBERS = [name for name, kind in COLUMNS.items() if kind != "text"]
_LARGEST = np.array([_MOST if COLUMNS[name] == "length" else 1.0 for name in _NUMBERS])


class Answers(Sequence[AnswerRecord]):
    """The answers of one batch in their order, kept as columns and checked as columns.

    Texts are lists, everything else arrays. Each answer is a view of its row and of what the
    record of the batch says of its metric: scale and shape. ``ValueError`` where a column is none.
    """

    def __init__(
        self, columns, *, batch=0, time="", user="", scales=None, shapes=(None,), shape_of=0
    ):
        self.batch, self.time, self.user = batch, time, user
        self._scales = {name: tuple(scale) for name, scale in (scales or {}).items()}
        for words, low, high, *open_ends in self._scales.values():
            is_known = open_ends in ([], ["lower"], ["both"])
            if not (isinstance(words, str) and -_MOST < low < high < _MOST and is_known):
                raise ValueError("no scale")
        if not columns.keys() <= COLUMNS.keys():
            raise ValueError("other columns")
        count = len(columns["value"])
        #: Values by name: an array, or the list of texts.
        self.columns: dict[str, Any] = {}
        for name, kind in COLUMNS.items():
            values = columns.get(name, [None])
            if len(values) == 1 != count:
                values = [values[0]] * count  # one value is that of all
            kinds = {float} if isinstance(values, np.ndarray) else set(map(type, values))
            if len(values) != count or not kinds <= _TYPES.get(kind, {int, float}):
                raise ValueError(f"{name} must hold {count} values of its kind")
            self.columns[name] = list(values) if kind == "text" else values
        # -0.0 has no text of its own.
        numbers = np.array([self.columns[name] for name in _NUMBERS], dtype=float) + 0.0
        if not (count and (numbers >= 0.0).all() and (numbers.T <= _LARGEST).all()):
            raise ValueError("numbers out of range")
        self.columns |= zip(_NUMBERS, numbers, strict=True)
        self.columns["corrected"] = numbers[-1].astype(int)
        if (self.columns["corrected"] != numbers[-1]).any():
            raise ValueError("no flags")
        self._shapes = shapes
        self._shape_of = np.broadcast_to(np.asarray(shape_of, dtype=int), (count,)).tolist()
        if not all(0 <= of < len(shapes) for of in set(self._shape_of)):
            raise ValueError("no shape")
        if not (self.columns["lower"] <= self.columns["upper"]).all():
            raise ValueError("no answers")

    @classmethod
    def parsed(cls, columns, record):
        """Return what the columns of a batch in a ledger say."""
        names = {STORED_NAMES.get(name, name): name for name in COLUMNS}
        if not columns.keys() <= names.keys():
            raise ValueError("other columns")
        columns = {names[stored_name]: column for stored_name, column in columns.items()}
        for name, column in columns.items():
            if isinstance(column, str):
                columns[name] = _unpack_doubles(column)
        asked = {name: record.cells[name] for name in {"shapes", "shape_of"} & record.cells.keys()}
        return cls(
            columns,
            batch=record.number,
            time=record.time,
            user=record.user,
            scales=record.scales,
            **asked,
        )

    def asked_by(self, user):
        """Return the same answers with the name of who asked."""
        named = copy.copy(self)
        named.user = user
        return named

    def to_json(self):
        """Return the canonical text of the columns; one whose values are all equal is one value.

        Longer columns of doubles are packed: their decimals would take longer than their limits.
        """
        texts = {}
        for name, column in self.columns.items():
            stored_name = STORED_NAMES.get(name, name)
            listed = column if isinstance(column, list) else column.tolist()
            if name != "value" and listed.count(listed[0]) == len(listed):
                texts[stored_name] = listed[:1]
            elif len(listed) > PACKED and COLUMNS[name] in ("unit", "length"):
                texts[stored_name] = _pack_doubles(column)
            else:
                texts[stored_name] = listed
        return canonical(texts)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __getitem__(self, place):
        if isinstance(place, slice):
            return list(self)[place]
        said = {
            name: column[place] if isinstance(column, list) else column[place].item()
            for name, column in self.columns.items()
        }
        said["corrected"] = bool(said["corrected"])
        place = range(len(self))[place]
        said["shape"] = self._shapes[self._shape_of[place]]
        said["scale"] = self._scales.get(said["metric"])
        return AnswerRecord(
            batch=self.batch, position=place, time=self.time, user=self.user, **said
        )


#: Answers up to which a batch is written in decimals.
PACKED = 100


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HoldoutAnswers:
    """Answers to one batch of ``m`` queries, as read-only arrays in [0, 1].

    ``answers[i]`` is one of them as an :class:`AnswerRecord`, ``answers[:i]`` the first of them.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Released answers; what was not answered follows ``on_exhausted``.
    lower, upper : ndarray of shape (m,)
        Ends of intervals that hold for all answers of the holdout at once.
    corrected : ndarray of bool, shape (m,)
        Whether the answer came from the holdout, because the prediction was too far off.
    answered : ndarray of bool, shape (m,)
        Whether the holdout answered. ``False`` once the budget has run out.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.answer : Returns this.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> rng = np.random.default_rng(3)
    >>> X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    >>> holdout = ReusableHoldout(X, y, random_state=0)
    >>> hits = rng.random((2, 500)) < 0.8
    >>> answers = holdout.answer([0.8, 0.6], hits)
    >>> len(answers), answers.corrected.tolist(), answers[1].source
    (2, [False, True], 'holdout')
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    corrected: np.ndarray
    answered: np.ndarray
    _records: Sequence[AnswerRecord] = dataclasses.field(default=(), repr=False)

    def __post_init__(self):
        for field in dataclasses.fields(self)[:-1]:
            getattr(self, field.name).setflags(write=False)

    def __len__(self) -> int:
        return self.values.size

    def __getitem__(self, place: int | slice) -> Any:
        """Return one answer, or several of them."""
        if isinstance(place, slice):
            parts = [getattr(self, field.name)[place] for field in dataclasses.fields(self)]
            return type(self)(*parts)
        return self._records[place]


class History(tuple[AnswerRecord, ...]):
    """All released answers of a holdout, oldest first.

    Parameters
    ----------
    iterable : iterable of AnswerRecord
        The answers in the order they were given.

    See Also
    --------
    sklearn_bdp.ReusableHoldout.history : Returns this.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp import ReusableHoldout
    >>> rng = np.random.default_rng(2)
    >>> X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    >>> holdout = ReusableHoldout(X, y, random_state=0)
    >>> hits = rng.random((2, 500)) < 0.8
    >>> _ = holdout.answer([0.8, 0.6], hits)
    >>> holdout.history()
    <History: 2 answers, 1 corrected>
    >>> holdout.history().to_frame()[["batch", "cv_score", "corrected"]]
       batch  cv_score  corrected
    0      1             0.8  False
    1      1             0.6   True
    """

    def __getitem__(self, index: int | slice) -> Any:  # type: ignore[override]
        """Return one record, or a shorter history for a slice."""
        if isinstance(index, slice):
            return History(super().__getitem__(index))
        return super().__getitem__(index)

    def __repr__(self) -> str:
        corrected = sum(record.corrected for record in self)
        return f"<History: {len(self)} answers, {corrected} corrected>"

    def to_frame(self) -> Any:
        """Return the history as a table (needs pandas).

        Returns
        -------
        pandas.DataFrame
            One row for each answer, one column for each of ``AnswerRecord.SHOWN``.
        """
        import pandas as pd  # optional: only for this view

        columns = AnswerRecord.SHOWN
        rows = [[getattr(record, name) for name in columns] for record in self]
        return pd.DataFrame(rows, columns=columns)
