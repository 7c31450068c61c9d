"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation._candidates import Candidate, Setting, fit_candidate
from sklearn_bdp._evaluation._division import Division, check_records, divide
from sklearn_bdp._evaluation._fits import (
    FoldJob,
    ModelStore,
    Progress,
    all_failed,
    warn_some_failed,
)
from sklearn_bdp._evaluation._fitted import Savable, autologged, certified, clipping_of, outlook
from sklearn_bdp._evaluation._opening import (
    Pilot,
    assumed,
    check_dependence,
    check_owner,
    config_of,
    divide_for,
    open_holdout,
    recorded_seed,
)
from sklearn_bdp._evaluation._scoring import (
    RULES,
    MetricScorer,
    bounded_metric,
    check_proved,
    further_metrics,
    public_scorer,
    verified_metric,
)
from sklearn_bdp._evaluation._training_side import Rounds, inner_folds
from sklearn_bdp._evaluation._verifier import Assessment, Verifier
