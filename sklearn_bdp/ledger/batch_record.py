"""Record of one batch: the ledger totals after it, and the public inputs of its answers."""

import dataclasses
import functools
from typing import Any, Self

from sklearn_bdp.ledger.records import (
    LARGEST_NUMBER,
    canonical,
    is_packable,
    pack_doubles,
    unpack_doubles,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """Totals of the answers and the information spent in a ledger, up to one of its entries."""

    number: int = 0  # of batches with a new query and of the final report; that of the latest one
    time: str = ""  # of the latest batch, check or report, ISO 8601, UTC
    n_answered: int = 0  # answers
    n_above: int = 0  # corrected answers
    #: Corrected comparisons with the holdout. A corrected answer that was refined counts twice.
    n_rounds: int = 0
    #: Code length of all released values and of reports that did not finish, in nats.
    released: float = 0.0
    #: Largest distance in [0, 1] from an answer to an end of its interval, among intervals that are
    #: not relaxed.
    widest: float = 0.0
    n_relaxed: int = 0  # answers with a relaxed interval
    #: Level of pure differential privacy spent; None if no finite level is valid.
    dp_epsilon: float | None = 0.0
    seeded: bool = False  # whether a fixed ``random_state`` made the noise of any batch
    closed: bool = False  # whether the final report was made: no new query is accepted
    #: Released class proportions (theory G20): by the name of the class and the classes, a list of
    #: the cell and both limits.
    shares: dict = dataclasses.field(default_factory=dict)
    #: Queries of a lower bound on the denominator of a ratio (theory G34), and those of them in
    #: which it was reported below the bound.
    n_floors: int = 0
    n_below_floor: int = 0
    # Types of queried scores for which the certificate reports an assumption:
    has_pairs: bool = False  # scores over pairs of records
    has_ratios: bool = False  # ratios of counts
    has_approximate: bool = False  # scores without a proven bound (theory G34)

    def __post_init__(self) -> None:
        _check_field_types(self)

    def with_unfinished_report(self, charge: Any) -> Self:
        """Return the totals with the cost of a final report that was begun and not finished.

        ``charge``: code length of the report, in nats (theory G35).
        """
        if not (isinstance(charge, float) and charge >= 0.0):
            raise ValueError("the charge of a report must be a number of at least 0.")
        # Whether the report finishes may depend on the holdout records: no privacy level is valid.
        return dataclasses.replace(self, released=self.released + charge, dp_epsilon=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """Record of one batch of queries, of one check that reads the holdout, or of the report."""

    totals: LedgerTotals = dataclasses.field(default_factory=LedgerTotals)
    size: int = 0  # number of new queries in the batch, fixed before any was answered
    #: Code length in nats that all queries of the batch share: of the information spent before the
    #: batch, and of the number of the batch. The rank of a query in the batch adds to it.
    code_length: float = 0.0
    #: Public state of the predictive code after the batch.
    code: dict = dataclasses.field(default_factory=dict)
    #: Released cells (small intervals of scores) and the other public inputs of the batch. With
    #: the answers they determine all predictions. A final report is stored here, too.
    cells: dict = dataclasses.field(default_factory=dict)
    #: Display name and range of each metric in score units, by its name in the answers:
    #: ``{metric: [display_name, range_min, range_max]}``, and open ends, see ``AnswerRecord``.
    scales: dict = dataclasses.field(default_factory=dict)
    #: Result of a check that read the holdout (theory G21). It has a record of its own, without
    #: answers: ``{"of": digest of the compared data, "finding": its name or None}``.
    checks: dict = dataclasses.field(default_factory=dict)
    #: Policy that spends the failure probability, and the probability that the batch spends
    #: (theory G16).
    spending: dict = dataclasses.field(default_factory=dict)
    user: str = ""  # of the process that queried; empty in ledgers of version 0.1

    def __post_init__(self) -> None:
        _check_field_types(self)

    def to_json(self) -> str:
        """Return the canonical JSON text of this record.

        Fields that have their default are left out, except those in ``_ALWAYS_STORED``.
        """
        value_by_field = {}
        for record in (self.totals, self):
            for name in _STORED_FIELDS[type(record)]:
                value = getattr(record, name)
                if value != _DEFAULTS[name] or name in _ALWAYS_STORED:
                    value_by_field[name] = value
        # Whether pairs, ratios and approximate scores were queried, by their keys among the cells.
        score_type_flags = {key: getattr(self.totals, name) for name, key in _KEYS_IN_CELLS.items()}
        if self.cells or any(score_type_flags.values()):
            value_by_field["cells"] = self.cells | score_type_flags
        if self.code:  # state of the predictive code: long lists of floats are packed
            value_by_field["code"] = {
                name: pack_doubles(value) if is_packable(value) else value
                for name, value in self.code.items()
            }
        return canonical(value_by_field)

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """Return the record with a parsed JSON content; raise an error of any class if invalid."""
        if not _ALWAYS_STORED <= content.keys() <= _DEFAULTS.keys():
            raise ValueError("a batch record has other fields.")
        if isinstance(content.get("code"), dict):
            content = {**content, "code": _unpack_code(content["code"])}
        stored_cells = content.get("cells", {})
        if not isinstance(stored_cells, dict):
            raise ValueError("cells of a batch record is of another kind.")
        cells = {
            key: value for key, value in stored_cells.items() if key not in _KEYS_IN_CELLS.values()
        }
        content = {**content, "cells": cells}
        fields_by_class = {
            record_class: {name: content[name] for name in names if name in content}
            for record_class, names in _STORED_FIELDS.items()
        }
        totals = LedgerTotals(
            **fields_by_class[LedgerTotals],
            has_pairs=bool(stored_cells.get("pairs")),
            has_ratios=bool(stored_cells.get("ratios")),
            has_approximate=bool(stored_cells.get("approximate")),
        )
        return cls(totals=totals, **fields_by_class[BatchRecord])


def _unpack_code(code):
    """Return the state of the predictive code, a dict, with packed arrays as lists of numbers."""
    return {
        name: unpack_doubles(value).tolist() if isinstance(value, str) else value
        for name, value in code.items()
    }


@functools.cache
def _field_types(record_class):
    """Return the declared types of the fields of a dataclass, by field name."""
    return {field.name: field.type for field in dataclasses.fields(record_class)}


def _check_field_types(record):
    """Raise ValueError unless each field has its declared type and each number is in range.

    Numbers are at least 0 and less than ``LARGEST_NUMBER``.
    """
    for name, field_type in _field_types(type(record)).items():
        value = getattr(record, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and field_type is not int:
            value = float(value)
        # In Python a bool is an int as well.
        has_type = isinstance(value, field_type) and isinstance(value, bool) == (field_type is bool)
        if not has_type or (is_number and not 0 <= value < LARGEST_NUMBER):
            raise ValueError(f"{name} of a batch record is of another kind.")


#: Totals that the texts of a ledger store among the cells, and their keys there.
_KEYS_IN_CELLS = {"has_pairs": "pairs", "has_ratios": "ratios", "has_approximate": "approximate"}
#: Names of the fields of each class in the texts of a ledger, which store them in one dictionary.
_STORED_FIELDS = {
    LedgerTotals: _field_types(LedgerTotals).keys() - _KEYS_IN_CELLS.keys(),
    BatchRecord: _field_types(BatchRecord).keys() - {"totals"},
}
_DEFAULTS = {
    name: getattr(record_class(), name)
    for record_class, names in _STORED_FIELDS.items()
    for name in names
}
#: Fields that are written even if they have their default: an entry is recognized by them.
_ALWAYS_STORED = {"number", "n_answered", "closed"}
