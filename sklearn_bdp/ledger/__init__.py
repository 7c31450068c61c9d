"""The ledger: records of answers, in transactions, without any statistics."""

from sklearn_bdp.ledger.backend import Backend
from sklearn_bdp.ledger.ledger import read_notes
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers

__all__ = ["AnswerRecord", "Backend", "History", "HoldoutAnswers", "read_notes"]
