"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation._candidates import Candidate, Outcome, Setting, fit_candidate
from sklearn_bdp._evaluation._division import Division, check_records, divide, reuse
from sklearn_bdp._evaluation._gains import Gain, PairedGain, paired_gain
from sklearn_bdp._evaluation._opening import (
    CONTEST,
    HOLDOUT_PARAMETERS,
    check_owner,
    divide_for,
    open_holdout,
)
from sklearn_bdp._evaluation._training_side import (
    MetricScorer,
    TrainingSide,
    training_side,
    verified_metric,
)
from sklearn_bdp._evaluation._verifier import Assessment, Verifier

__all__ = [
    "CONTEST",
    "HOLDOUT_PARAMETERS",
    "Assessment",
    "Candidate",
    "Division",
    "Gain",
    "MetricScorer",
    "Outcome",
    "PairedGain",
    "Setting",
    "TrainingSide",
    "Verifier",
    "check_owner",
    "check_records",
    "divide",
    "divide_for",
    "fit_candidate",
    "open_holdout",
    "paired_gain",
    "reuse",
    "training_side",
    "verified_metric",
]
