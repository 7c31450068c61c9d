"""A holdout that can be asked again and again: data, mechanism, ledger and certificate in one."""

from sklearn_bdp._digests.content import query_key
from sklearn_bdp.holdout.certificate import Preview
from sklearn_bdp.holdout.report import FinalReport
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.holdout.settings import HoldoutConfig
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers

__all__ = [
    "AnswerRecord",
    "FinalReport",
    "History",
    "HoldoutAnswers",
    "HoldoutConfig",
    "Preview",
    "ReusableHoldout",
    "query_key",
]
