"""The ledger: durable records of what was answered, in transactions; it knows no statistics."""

from sklearn_bdp.ledger._file import Chain
from sklearn_bdp.ledger._ledger import Ledger, read_notes
from sklearn_bdp.ledger._records import (
    AnswerRecord,
    BatchRecord,
    History,
    HoldoutAnswers,
    HoldoutScore,
    answer_records,
    canonical,
)

__all__ = [
    "AnswerRecord",
    "History",
    "HoldoutAnswers",
    "HoldoutScore",
    "read_notes",
]
