"""Record of one batch: its totals, and the content from which its answers can be recomputed."""

import dataclasses
import functools
from typing import Any, Self

from sklearn_bdp.ledger.records import (
    LARGEST_NUMBER,
    canonical,
    is_packed,
    pack_doubles,
    unpack_doubles,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """Everything that has been answered and spent, up to and including the latest batch."""

    number: int = 0  # of the batch: 1 for the first one with a new query, then 2, 3, ...
    time: str = ""  # of the batch, ISO 8601, UTC
    n_answered: int = 0
    n_above: int = 0  # corrected answers
    #: Comparisons that read the holdout: a corrected answer that was refined counts twice.
    n_rounds: int = 0
    released: float = 0.0  # code length of all released values, in nats
    #: Largest distance from an answer to an end of its interval, relaxed intervals apart.
    widest: float = 0.0
    n_relaxed: int = 0  # answers whose interval is relaxed
    #: Level of pure differential privacy spent; None if no finite level is valid.
    dp_epsilon: float | None = 0.0
    seeded: bool = False  # whether a fixed ``random_state`` made the noise of any batch
    closed: bool = False  # whether the batch was the final report: it accepts no new query
    #: Released class proportions (theory G20): cell and limits by class and classes.
    shares: dict = dataclasses.field(default_factory=dict)
    #: Queried floors under the denominators of ratios, and denominators below them (theory G34).
    n_floors: int = 0
    n_below_floor: int = 0
    # Kinds of scores that were queried, of which the certificate reports an assumption:
    has_pairs: bool = False  # scores over pairs of records
    has_ratios: bool = False  # ratios of counts
    has_approximate: bool = False  # scores without a proven bound (theory G34)

    def __post_init__(self) -> None:
        _check_kinds(self)

    def with_unfinished_report(self, charge: Any) -> Self:
        """Return the totals if a final report that was begun does not finish (theory G35).

        ``charge``: nats. How it ended has no level of privacy.
        """
        if not (isinstance(charge, float) and charge >= 0.0):
            raise ValueError("the charge of a report must be a number of at least 0.")
        return dataclasses.replace(self, released=self.released + charge, dp_epsilon=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One batch of queries, a check of the holdout, or the final report."""

    totals: LedgerTotals = dataclasses.field(default_factory=LedgerTotals)
    size: int = 0  # new queries in the batch, fixed before any was answered
    #: Code length of a query before its rank in the batch is coded, in nats: the information spent
    #: before the batch, and the number of the batch.
    code_length: float = 0.0
    #: Public state of the predictive code after the batch.
    code: dict = dataclasses.field(default_factory=dict)
    #: Released cells and the public inputs of the batch: with the answers they determine all
    #: predictions. Of a final report: its rows.
    cells: dict = dataclasses.field(default_factory=dict)
    #: Display name and range of each metric, in score units, by its name in the answers:
    #: ``{metric: [display_name, low, high]}``.
    scales: dict = dataclasses.field(default_factory=dict)
    #: Result of a check that read the holdout (theory G21). It has a record of its own, without
    #: answers: ``{"of": digest of the compared data, "finding": its name or None}``.
    checks: dict = dataclasses.field(default_factory=dict)
    #: Policy that spends the failure probability, and the part spent on the batch (theory G16).
    spending: dict = dataclasses.field(default_factory=dict)
    user: str = ""  # of the process that queried; empty in ledgers of version 0.1

    def __post_init__(self) -> None:
        _check_kinds(self)

    def to_json(self) -> str:
        """Return the canonical text of this record, without fields that have their default."""
        content = {
            name: value
            for part in (self.totals, self)
            for name in _STORED_FIELDS[type(part)]
            if (value := getattr(part, name)) != _DEFAULTS[name] or name in _ALWAYS_STORED
        }
        score_kinds = {key: getattr(self.totals, name) for name, key in _STORED_IN_CELLS.items()}
        if self.cells or any(score_kinds.values()):
            content["cells"] = self.cells | score_kinds
        if self.code:
            content["code"] = {
                name: pack_doubles(value) if is_packed(value) else value
                for name, value in self.code.items()
            }
        return canonical(content)

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """Return a record from parsed JSON; ``ValueError`` for a field of another kind."""
        if not _ALWAYS_STORED <= content.keys() <= _DEFAULTS.keys():
            raise ValueError("a batch record has other fields.")
        if isinstance(content.get("code"), dict):
            content = {**content, "code": _unpack_code(content["code"])}
        cells = content.get("cells", {})
        if not isinstance(cells, dict):
            raise ValueError("cells of a batch record is of another kind.")
        content = {
            **content,
            "cells": {
                key: value for key, value in cells.items() if key not in _STORED_IN_CELLS.values()
            },
        }
        fields = {
            part: {name: content[name] for name in names if name in content}
            for part, names in _STORED_FIELDS.items()
        }
        totals = LedgerTotals(
            **fields[LedgerTotals],
            has_pairs=bool(cells.get("pairs")),
            has_ratios=bool(cells.get("ratios")),
            has_approximate=bool(cells.get("approximate")),
        )
        return cls(totals=totals, **fields[BatchRecord])


def _unpack_code(code):
    """Return the fields of a code with packed arrays as lists of numbers."""
    return {
        name: unpack_doubles(value).tolist() if isinstance(value, str) else value
        for name, value in code.items()
    }


@functools.cache
def _kinds(record_class):
    """Return the types of the fields of a record by name."""
    return {field.name: field.type for field in dataclasses.fields(record_class)}


def _check_kinds(record):
    """Raise ValueError if a field of a record is of another kind, or a number out of range."""
    for name, field_type in _kinds(type(record)).items():
        value = getattr(record, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and field_type is not int:
            value = float(value)
        is_of_kind = isinstance(value, field_type) and isinstance(value, bool) == (
            field_type is bool
        )
        if not is_of_kind or (is_number and not 0 <= value < LARGEST_NUMBER):
            raise ValueError(f"{name} of a batch record is of another kind.")


#: Keys of cells in a ledger's text that hold totals: a ledger keeps its form for life.
_STORED_IN_CELLS = {"has_pairs": "pairs", "has_ratios": "ratios", "has_approximate": "approximate"}
#: Fields in a ledger's text, where totals and the other fields stand beside each other.
_STORED_FIELDS = {
    LedgerTotals: _kinds(LedgerTotals).keys() - _STORED_IN_CELLS.keys(),
    BatchRecord: _kinds(BatchRecord).keys() - {"totals"},
}
_DEFAULTS = {
    name: getattr(record_class(), name)
    for record_class, names in _STORED_FIELDS.items()
    for name in names
}
_ALWAYS_STORED = {"number", "n_answered", "closed"}  # they tell the kind of entry
