"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation._candidates import (
    Assessment,
    Candidate,
    Experiment,
    ModelStore,
    NoAnswer,
    PrefixMemory,
    Task,
    Verifier,
    WholeJob,
    fit_candidate,
)
from sklearn_bdp._evaluation._division import (
    Division,
    FitData,
    check_owner,
    check_records,
    divide,
    divide_for,
    inner_folds,
    open_holdout,
)
from sklearn_bdp._evaluation._fits import CrossValidation, FoldScores, Progress, check_dependence
from sklearn_bdp._evaluation._scoring import (
    RULES,
    Metrics,
    MetricScorer,
    Savable,
    bounded_metric,
    certified,
    check_proved,
    clipping_of,
    plain_certificate,
    report_chosen,
)
