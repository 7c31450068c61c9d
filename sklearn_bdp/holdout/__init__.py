"""A holdout that can be asked again and again: data, mechanism, ledger and certificate in one."""

from sklearn_bdp._digests import query_key
from sklearn_bdp.holdout._batch import next_code_length
from sklearn_bdp.holdout._identity import TARGETS, as_last_seen
from sklearn_bdp.holdout._report import FinalReport, Preview
from sklearn_bdp.holdout._reusable import ReusableHoldout
from sklearn_bdp.holdout._settings import (
    ON_EXHAUSTED,
    HoldoutConfig,
    Settings,
    check_parameters,
    is_splitter,
)
from sklearn_bdp.ledger import (
    AnswerRecord,
    BatchRecord,
    History,
    HoldoutAnswers,
    HoldoutScore,
)

__all__ = [
    "AnswerRecord",
    "FinalReport",
    "History",
    "HoldoutAnswers",
    "HoldoutConfig",
    "HoldoutScore",
    "Preview",
    "ReusableHoldout",
    "query_key",
]
