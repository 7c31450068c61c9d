"""A holdout that can be asked again and again: data, mechanism, ledger and certificate in one."""

from sklearn_bdp._digests.content import query_key
from sklearn_bdp.holdout._batch import Terms, check_overlap, decide, pace_of, route
from sklearn_bdp.holdout._certificate import (
    Preview,
    holdout_certificate,
    preview_batch,
    records_for,
    width_parts,
)
from sklearn_bdp.holdout._final import (
    fix_statements,
    fixed_length,
    report_and_close,
    report_statements,
)
from sklearn_bdp.holdout._in_time import Earlier
from sklearn_bdp.holdout._inputs import Batch, described_targets
from sklearn_bdp.holdout._plan import TrainingFolds
from sklearn_bdp.holdout._report import FinalReport
from sklearn_bdp.holdout._reusable import ReusableHoldout
from sklearn_bdp.holdout._settings import (
    DerivedSettings,
    HoldoutConfig,
    check_path,
    is_splitter,
    margins,
)
from sklearn_bdp.ledger import AnswerRecord, BatchRecord, History, HoldoutAnswers

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
