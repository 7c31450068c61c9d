"""A holdout that can be asked again and again: data, mechanism, ledger and certificate in one."""

from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers
from sklearn_bdp.release.calibration import HoldoutConfig
from sklearn_bdp.release.certificate import Preview
from sklearn_bdp.report.final_report import FinalReport
from sklearn_bdp.utils.hashing import query_key

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
