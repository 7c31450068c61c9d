"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation._candidates import Candidate, Experiment, fit_candidate
from sklearn_bdp._evaluation._division import (
    Division,
    FitData,
    check_owner,
    check_records,
    divide,
    divide_for,
    fold_file,
    open_holdout,
    recorded_seed,
)
from sklearn_bdp._evaluation._fits import (
    FoldScores,
    ModelStore,
    Progress,
)
from sklearn_bdp._evaluation._fitted import Savable, clipping_of, report_chosen
from sklearn_bdp._evaluation._scoring import (
    RULES,
    MetricScorer,
    bounded_metric,
    certified,
    check_proved,
    plain_certificate,
    public_scorer,
    secondary_metrics,
    training_scorers,
    verified_metric,
)
from sklearn_bdp._evaluation._training_side import (
    CrossValidation,
    FoldOptions,
    check_dependence,
    inner_folds,
)
from sklearn_bdp._evaluation._verifier import Assessment, Verifier
