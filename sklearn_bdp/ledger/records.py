"""Records of one answer, of the answers of a batch, and of the history of a holdout.

They contain no secret state, and may be shown to users.
"""

import base64
import copy
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_bdp.utils.score_units import open_ends_from_unit


def _reject_constant(constant):
    """Raise ValueError: NaN and infinities are not JSON."""
    raise ValueError("no finite number")


#: Return the canonical JSON text of a content: sorted keys, no spaces, floats to the last bit.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
#: Return the content of a JSON text; raise ValueError for a text that is not JSON.
parse_json = json.JSONDecoder(parse_constant=_reject_constant).decode


#: Shortest list of numbers that is packed.
_MIN_PACKED_LENGTH = 10


def pack_doubles(values):
    """Return numbers as the base64 text of their float64 bytes."""
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


def unpack_doubles(text):
    """Return the array of float64 that :func:`pack_doubles` wrote to a text."""
    return np.frombuffer(base64.b64decode(text, validate=True), "<f8")


def is_packable(value):
    """Return whether a value is a list of at least ``_MIN_PACKED_LENGTH`` floats."""
    return (
        isinstance(value, list)
        and len(value) >= _MIN_PACKED_LENGTH
        and all(type(number) is float for number in value)
    )


LARGEST_NUMBER = 1e300  # bound of stored numbers: their sums and differences are finite, too


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One answered query, as released.

    Parameters
    ----------
    batch : int
        Number of the batch, from 1.
    position : int
        Position in the batch, from 0.
    key : str or None
        Key of the query: the same key with the same metric and cross-validated score is free.
    time : str
        Time of the batch, ISO 8601, UTC.
    code_length : float
        Code length of the released value, in nats. A longer one widens the interval.
    cv_score : float
        Cross-validated score, in [0, 1] or in score units (see ``scale``).
    value : float
        Verified score, in the same units.
    lower, upper : float
        Ends of the confidence interval, in the same units.
    corrected : bool
        Whether the cross-validated score was replaced by a noisy holdout score.
    metric : str or None, default=None
        Name of the metric, if the query had one.
    model : str or None, default=None
        Description of the model.
    scale : tuple or None, default=None
        Display name of the metric, lower and upper end of its range in score units, and, for scores
        that may lie beyond this range, ``"lower"`` or ``"both"``. The scores above are in [0, 1]
        and this tuple converts them, see :meth:`in_units`. ``None``: they are in score units.
    shape : dict or None, default=None
        Public facts about the distribution of the score; see
        :func:`sklearn_bdp.intervals.concentration.score_tail`.
    answered : bool, default=True
        Whether the holdout answered. If not, the value follows ``on_exhausted``, and the answer is
        not in the ledger.
    submitter : str or None, default=None
        Name of the person or team who submitted the predictions; see
        :meth:`ReusableHoldout.answer_predictions`.
    user : str, default=""
        User of the process that queried: the login name, or ``SKLEARN_BDP_USER`` if it is set.

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
        """Source of the value: "cv", "holdout" or "unanswered"."""
        if not self.answered:
            return "unanswered"
        return "holdout" if self.corrected else "cv"

    def in_units(self) -> Self:
        """Return the answer in score units of its metric.

        Returns
        -------
        AnswerRecord
            The same answer with scores and interval in score units, and the display name of the
            metric. Unchanged if ``scale`` is None.
        """
        if self.scale is None:
            return self
        display_name, range_min, range_max, *open_ends = self.scale
        lower, upper = open_ends_from_unit(
            range_min, range_max, "".join(open_ends), self.lower, self.upper
        )
        return dataclasses.replace(
            self,
            metric=display_name,
            scale=None,
            cv_score=range_min + (range_max - range_min) * self.cv_score,
            value=range_min + (range_max - range_min) * self.value,
            lower=lower,
            upper=upper,
        )

    @property
    def interval(self) -> str:
        """Kind of the interval: ``"proven"``, ``"approximate"`` or ``"none"``.

        Queries that the holdout did not answer have ``"none"``.
        """
        if not self.answered:
            return "none"
        if self.shape is None or self.shape["kind"] != "approximate":
            return "proven"
        return "none" if self.shape["family"] == "none" else "approximate"


#: Columns of a batch in the ledger, and the type of their values: ``text`` or None, ``unit``
#: (number in [0, 1]), ``length`` (nonnegative number), ``flag`` (0 or 1).
COLUMNS = {
    "key": "text", "metric": "text", "model": "text", "submitter": "text", "code_length": "length",
    "cv_score": "unit", "value": "unit", "lower": "unit", "upper": "unit", "corrected": "flag",
}  # fmt: skip
#: Names of columns in the texts of a ledger, if they differ. They must not change.
STORED_NAMES = {"submitter": "by", "cv_score": "training_value", "corrected": "above"}
#: Names of the facts of a score's shape in ledgers, if they differ. They must not change.
STORED_SHAPE_NAMES = {
    "counted_classes": "counted",
    "constant_score": "known",
    "within_group_fractions": "inside",
}
#: Largest number of answers in a batch whose numbers are written in decimals.
MAX_DECIMAL_ANSWERS = 100

_NUMBER_COLUMNS = [name for name, value_type in COLUMNS.items() if value_type != "text"]
#: Largest value in each of ``_NUMBER_COLUMNS``.
_MAX_NUMBERS = np.array(
    [LARGEST_NUMBER if COLUMNS[name] == "length" else 1.0 for name in _NUMBER_COLUMNS]
)


def _check_numbers(columns):
    """Return the columns of numbers as arrays, by name; raise ValueError if one is invalid.

    ``columns``: values of each answer of a batch, by column name.
    """
    # Adding 0.0 turns -0.0 into 0.0, so that equal numbers have the same text.
    numbers = np.array([columns[name] for name in _NUMBER_COLUMNS], dtype=float) + 0.0
    if not (numbers.size and (numbers >= 0.0).all() and (numbers.T <= _MAX_NUMBERS).all()):
        raise ValueError("numbers out of range")
    arrays: dict[str, Any] = dict(zip(_NUMBER_COLUMNS, numbers, strict=True))
    flags = arrays["corrected"].astype(int)
    if (flags != arrays["corrected"]).any():
        raise ValueError("corrected must be a flag")
    arrays["corrected"] = flags
    if not (arrays["lower"] <= arrays["upper"]).all():
        raise ValueError("a lower end is above the upper one")
    return arrays


def stored_shape(shape: dict[str, Any]) -> dict[str, Any]:
    """Return facts about the distribution of a score, by their names in a ledger."""
    return {STORED_SHAPE_NAMES.get(name, name): value for name, value in shape.items()}


def _read_shapes(stored_shapes):
    """Return the values of ``AnswerRecord.shape`` in a batch; (None,) for a batch without any.

    ``stored_shapes``: list of these dicts, with the names of a ledger.
    """
    if stored_shapes is None:
        return (None,)
    name_by_stored_name = {stored_name: name for name, stored_name in STORED_SHAPE_NAMES.items()}
    return [
        {
            name_by_stored_name.get(stored_name, stored_name): value
            for stored_name, value in shape.items()
        }
        for shape in stored_shapes
    ]


class Answers(Sequence[AnswerRecord]):
    """Answers of one batch in order, stored as columns.

    An item is the :class:`AnswerRecord` of one answer.

    Parameters
    ----------
    columns : dict
        Sequences of values by name, see ``COLUMNS``. ``"value"`` has one for each answer. Another
        sequence of length 1 is the value of all answers. Missing columns of texts are None.
    batch : int
        Number of the batch.
    time : str
        Time of the batch.
    user : str
        User of the process that queried.
    scales : dict or None
        Field ``scale`` of the answers, by metric.
    shapes : sequence of dict or None
        Different values of the field ``shape`` of the answers.
    shape_of : int or sequence of int
        Index into ``shapes`` for each answer, or for all answers.

    Raises
    ------
    ValueError
        If a column is not as ``COLUMNS`` describes, or if a scale or an index is invalid.
    """

    def __init__(
        self, columns, *, batch=0, time="", user="", scales=None, shapes=(None,), shape_of=0
    ):
        self.batch = batch
        self.time = time
        self.user = user
        self._scales = {metric: tuple(scale) for metric, scale in (scales or {}).items()}
        for scale in self._scales.values():
            _check_scale(*scale)
        if not columns.keys() <= COLUMNS.keys():
            raise ValueError("other columns")
        n_answers = len(columns["value"])
        #: Values by name: a list of texts, or an array of numbers.
        self.columns: dict[str, Any] = {}
        for name in COLUMNS:
            self.columns[name] = _check_column(name, columns.get(name, [None]), n_answers)
        self.columns |= _check_numbers(self.columns)
        self._shapes = shapes  # different values of AnswerRecord.shape
        shape_index_per_answer = np.broadcast_to(np.asarray(shape_of, int), (n_answers,))
        self._shape_indices = shape_index_per_answer.tolist()
        if not all(0 <= shape_index < len(shapes) for shape_index in set(self._shape_indices)):
            raise ValueError("an answer has no shape")

    @classmethod
    def from_stored(cls, stored_columns, record):
        """Return the answers of a batch from its parsed columns in a ledger and its BatchRecord.

        ``stored_columns``: lists of values, or texts of packed numbers, by name in the ledger.
        Raises an error if a column or ``record.cells`` is invalid.
        """
        name_by_stored_name = {STORED_NAMES.get(name, name): name for name in COLUMNS}
        if not stored_columns.keys() <= name_by_stored_name.keys():
            raise ValueError("other columns")
        columns = {}
        for stored_name, values in stored_columns.items():
            name = name_by_stored_name[stored_name]
            columns[name] = unpack_doubles(values) if isinstance(values, str) else values
        return cls(
            columns,
            batch=record.totals.number,
            time=record.totals.time,
            user=record.user,
            scales=record.scales,
            shapes=_read_shapes(record.cells.get("shapes")),
            shape_of=record.cells.get("shape_of", 0),
        )

    def with_user(self, user):
        """Return a copy of the answers with ``user`` as the user of the process that queried."""
        answers = copy.copy(self)
        answers.user = user
        return answers

    def to_json(self):
        """Return the canonical JSON text of the columns.

        A column other than ``"value"`` whose values are all equal is written as one value. With
        more than ``MAX_DECIMAL_ANSWERS`` answers, columns of other numbers than flags are packed.
        """
        stored_columns = {}
        for name, column in self.columns.items():
            stored_name = STORED_NAMES.get(name, name)
            values = column if isinstance(column, list) else column.tolist()
            if name != "value" and values.count(values[0]) == len(values):
                stored_columns[stored_name] = values[:1]
            elif len(values) > MAX_DECIMAL_ANSWERS and COLUMNS[name] in ("unit", "length"):
                stored_columns[stored_name] = pack_doubles(column)
            else:
                stored_columns[stored_name] = values
        return canonical(stored_columns)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __getitem__(self, index):
        if isinstance(index, slice):
            return list(self)[index]
        value_by_field = {
            name: column[index] if isinstance(column, list) else column[index].item()
            for name, column in self.columns.items()
        }
        position = range(len(self))[index]
        return AnswerRecord(
            batch=self.batch,
            position=position,
            time=self.time,
            user=self.user,
            shape=self._shapes[self._shape_indices[position]],
            scale=self._scales.get(value_by_field["metric"]),
            **(value_by_field | {"corrected": bool(value_by_field["corrected"])}),
        )


def _check_scale(display_name, range_min, range_max, *open_ends):
    """Raise ValueError unless the items are a name, an increasing range and valid open ends.

    ``open_ends``: nothing, "lower" or "both".
    """
    is_range = -LARGEST_NUMBER < range_min < range_max < LARGEST_NUMBER
    is_open_end = open_ends in ((), ("lower",), ("both",))
    if not (isinstance(display_name, str) and is_range and is_open_end):
        raise ValueError("a scale must be a name and a range")


def _check_column(name, values, n_answers):
    """Return the ``n_answers`` values of a column; a single value is repeated.

    Raises ValueError for another number or type of values.
    """
    if len(values) == 1 != n_answers:
        values = [values[0]] * n_answers
    is_text = COLUMNS[name] == "text"
    value_types = {float} if isinstance(values, np.ndarray) else set(map(type, values))
    valid_types = {str, type(None)} if is_text else {int, float}
    if len(values) != n_answers or not value_types <= valid_types:
        raise ValueError(f"{name} must hold {n_answers} values of its kind")
    return list(values) if is_text else values


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HoldoutAnswers:
    """Answers to one batch of queries, as read-only arrays with values in [0, 1].

    ``answers[i]`` is answer ``i`` as an :class:`AnswerRecord`. A slice returns HoldoutAnswers.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
        Verified scores. Values of unanswered queries follow ``on_exhausted``.
    lower, upper : ndarray of shape (n_queries,)
        Ends of the confidence intervals. With a probability of at least the confidence level of the
        holdout, all of its proven intervals contain their expected scores.
    corrected : ndarray of bool, shape (n_queries,)
        Whether the cross-validated score was replaced by a noisy holdout score.
    answered : ndarray of bool, shape (n_queries,)
        Whether the holdout answered. ``False`` after the budget has run out.

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

    def __getitem__(self, index: int | slice) -> Any:
        """Return the record of one answer, or the answers of a slice."""
        if isinstance(index, slice):
            sliced_fields = [getattr(self, field.name)[index] for field in dataclasses.fields(self)]
            return type(self)(*sliced_fields)
        return self._records[index]


class History(tuple[AnswerRecord, ...]):
    """All released answers of a holdout, oldest first.

    Parameters
    ----------
    iterable : iterable of AnswerRecord
        The answers in the order of their release.

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
        """Return the :class:`AnswerRecord` at an index, or a History for a slice."""
        if isinstance(index, slice):
            return History(super().__getitem__(index))
        return super().__getitem__(index)

    def __repr__(self) -> str:
        n_corrected = sum(record.corrected for record in self)
        return f"<History: {len(self)} answers, {n_corrected} corrected>"

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
