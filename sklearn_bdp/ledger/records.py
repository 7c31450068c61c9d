"""Frozen records: one answer, the answers of a batch, the history of a holdout.

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
#: Content of a JSON text; an error for any other text.
parse_json = json.JSONDecoder(parse_constant=_refused).decode


#: Lists of numbers from this length on are packed: their decimals would take more than their bits.
_PACKED_STATE = 10


def pack_doubles(values):
    """Return the text of doubles, to the last bit."""
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


def unpack_doubles(text):
    """Return the doubles of a text."""
    return np.frombuffer(base64.b64decode(text, validate=True), "<f8")


def is_packed(value):
    """Return whether a value of a code's state is a list of numbers that is packed."""
    return (
        isinstance(value, list)
        and len(value) >= _PACKED_STATE
        and all(type(number) is float for number in value)
    )


LARGEST_NUMBER = 1e300  # finite, and no product of ours overflows


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
        Public facts about the spread of the score; see
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

    #: Columns of tables, in this order.
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
        if not self.answered:
            return "unanswered"
        return "holdout" if self.corrected else "cv"

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


#: Columns of a batch in the ledger, and their content: ``text`` or None, numbers in the ``unit``
#: interval, nonnegative ``length``, ``flag``.
COLUMNS = {
    "key": "text", "metric": "text", "model": "text", "submitter": "text", "code_length": "length",
    "cv_score": "unit", "value": "unit", "lower": "unit", "upper": "unit", "corrected": "flag",
}  # fmt: skip
#: Names of columns in a ledger's text, if they differ: a ledger keeps its names for life.
STORED_NAMES = {"submitter": "by", "cv_score": "training_value", "corrected": "above"}
#: Answers up to which a batch is written in decimals.
MAX_DECIMAL_ANSWERS = 100

_TYPES = {"text": {str, type(None)}}  # of values; other columns hold numbers, at most:
_NUMBERS = [name for name, content in COLUMNS.items() if content != "text"]
_LARGEST = np.array([LARGEST_NUMBER if COLUMNS[name] == "length" else 1.0 for name in _NUMBERS])


def _checked_numbers(columns):
    """Return the columns of numbers as arrays, or raise ValueError for one that cannot be."""
    # -0.0 has no text of its own.
    numbers = np.array([columns[name] for name in _NUMBERS], dtype=float) + 0.0
    if not (numbers.size and (numbers >= 0.0).all() and (numbers.T <= _LARGEST).all()):
        raise ValueError("numbers out of range")
    checked: dict[str, Any] = dict(zip(_NUMBERS, numbers, strict=True))
    checked["corrected"] = numbers[-1].astype(int)
    if (checked["corrected"] != numbers[-1]).any():
        raise ValueError("corrected must be a flag")
    if not (checked["lower"] <= checked["upper"]).all():
        raise ValueError("a lower end is above the upper one")
    return checked


class Answers(Sequence[AnswerRecord]):
    """Answers of one batch in their order, stored and checked as columns.

    Texts are lists, all other columns arrays. Each answer is a view of its row, with facts about
    its metric from the record of the batch: ``scale`` (name, ends of the range and open ends) and
    ``shape`` (fields of a ScoreShape). ``ValueError`` for a column of another kind.
    """

    def __init__(
        self, columns, *, batch=0, time="", user="", scales=None, shapes=(None,), shape_of=0
    ):
        self.batch = batch
        self.time = time
        self.user = user
        self._scales = {name: tuple(scale) for name, scale in (scales or {}).items()}
        for scale in self._scales.values():
            _check_scale(*scale)
        if not columns.keys() <= COLUMNS.keys():
            raise ValueError("other columns")
        count = len(columns["value"])
        #: Values by name: an array, or the list of texts.
        self.columns: dict[str, Any] = {}
        for name, content in COLUMNS.items():
            self.columns[name] = _checked_column(name, content, columns.get(name, [None]), count)
        self.columns |= _checked_numbers(self.columns)
        self._shapes = shapes
        self._shape_of = np.broadcast_to(np.asarray(shape_of, dtype=int), (count,)).tolist()
        if not all(0 <= shape_index < len(shapes) for shape_index in set(self._shape_of)):
            raise ValueError("an answer has no shape")

    @classmethod
    def from_stored(cls, columns, record):
        """Return the answers of a batch in a ledger from its columns and its record."""
        names = {STORED_NAMES.get(name, name): name for name in COLUMNS}
        if not columns.keys() <= names.keys():
            raise ValueError("other columns")
        columns = {names[stored_name]: column for stored_name, column in columns.items()}
        for name, column in columns.items():
            if isinstance(column, str):
                columns[name] = unpack_doubles(column)
        return cls(
            columns,
            batch=record.totals.number,
            time=record.totals.time,
            user=record.user,
            scales=record.scales,
            shapes=record.cells.get("shapes", (None,)),
            shape_of=record.cells.get("shape_of", 0),
        )

    def with_user(self, user):
        """Return the same answers with the name of the user who queried."""
        answers = copy.copy(self)
        answers.user = user
        return answers

    def to_json(self):
        """Return the canonical text of the columns; one whose values are all equal is one value.

        Longer columns of doubles are packed: their decimals would take longer than their limits.
        """
        texts = {}
        for name, column in self.columns.items():
            stored_name = STORED_NAMES.get(name, name)
            values = column if isinstance(column, list) else column.tolist()
            if name != "value" and values.count(values[0]) == len(values):
                texts[stored_name] = values[:1]
            elif len(values) > MAX_DECIMAL_ANSWERS and COLUMNS[name] in ("unit", "length"):
                texts[stored_name] = pack_doubles(column)
            else:
                texts[stored_name] = values
        return canonical(texts)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __getitem__(self, index):
        if isinstance(index, slice):
            return list(self)[index]
        fields = {
            name: column[index] if isinstance(column, list) else column[index].item()
            for name, column in self.columns.items()
        }
        position = range(len(self))[index]
        return AnswerRecord(
            batch=self.batch,
            position=position,
            time=self.time,
            user=self.user,
            shape=self._shapes[self._shape_of[position]],
            scale=self._scales.get(fields["metric"]),
            **(fields | {"corrected": bool(fields["corrected"])}),
        )


def _check_scale(display_name, low, high, *open_ends):
    """Raise ValueError if a scale is not a name, a range and at most one word on open ends."""
    is_range = -LARGEST_NUMBER < low < high < LARGEST_NUMBER
    if not (
        isinstance(display_name, str) and is_range and open_ends in ((), ("lower",), ("both",))
    ):
        raise ValueError("a scale must be a name and a range")


def _checked_column(name, content, values, count):
    """Return a column of ``count`` values of its kind; one value is that of all answers."""
    if len(values) == 1 != count:
        values = [values[0]] * count
    types = {float} if isinstance(values, np.ndarray) else set(map(type, values))
    if len(values) != count or not types <= _TYPES.get(content, {int, float}):
        raise ValueError(f"{name} must hold {count} values of its kind")
    return list(values) if content == "text" else values


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HoldoutAnswers:
    """Answers to one batch of ``m`` queries, as read-only arrays in [0, 1].

    ``answers[i]`` is one of them as an :class:`AnswerRecord`, ``answers[:i]`` the first of them.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Released answers; unanswered queries follow ``on_exhausted``.
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
