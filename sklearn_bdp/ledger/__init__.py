"""The ledger: durable records of what was answered, in transactions; it knows no statistics."""

from sklearn_bdp.ledger._backend import Backend, Row, Stored
from sklearn_bdp.ledger._ledger import Chain, Fact, Ledger, backend_at, read_notes
from sklearn_bdp.ledger._postgresql import SCHEMES, LedgerURL
from sklearn_bdp.ledger._records import (
    AnswerRecord,
    Answers,
    BatchRecord,
    History,
    HoldoutAnswers,
    canonical,
)

__all__ = ["AnswerRecord", "Backend", "History", "HoldoutAnswers", "Row", "Stored", "read_notes"]
