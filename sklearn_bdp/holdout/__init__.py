"""Reusable holdout and its configuration."""

from sklearn_bdp.holdout.config import ExpertSettings, HoldoutConfig
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers
from sklearn_bdp.release.certificate import HoldoutCertificate
from sklearn_bdp.release.preview import Preview
from sklearn_bdp.report.final_report import FinalReport

__all__ = [
    "AnswerRecord",
    "ExpertSettings",
    "FinalReport",
    "History",
    "HoldoutAnswers",
    "HoldoutCertificate",
    "HoldoutConfig",
    "Preview",
    "ReusableHoldout",
]
