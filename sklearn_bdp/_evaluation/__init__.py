"""One candidate: split, folds, open a holdout, fit, score, digest; for searches and selectors."""

from sklearn_bdp._evaluation._agreement import ADDED, check_agreement
from sklearn_bdp._evaluation._candidates import Candidate, Setting, fit_candidate
from sklearn_bdp._evaluation._dependence import (
    Pilot,
    check_dependence,
    warn_of,
)
from sklearn_bdp._evaluation._division import check_records
from sklearn_bdp._evaluation._failures import all_failed, warn_some_failed
from sklearn_bdp._evaluation._gains import Gain, PairedGain, paired_gain
from sklearn_bdp._evaluation._opening import (
    CONTEST,
    HOLDOUT_PARAMETERS,
    assumed,
    check_owner,
    divide_for,
    open_holdout,
    recorded_seed,
)
from sklearn_bdp._evaluation._progress import Progress
from sklearn_bdp._evaluation._row_wise import RowWiseCheck
from sklearn_bdp._evaluation._saving import Savable
from sklearn_bdp._evaluation._scoring import (
    RULES,
    MetricScorer,
    bounded_metric,
    check_proved,
    further_metrics,
    public_scorer,
    verified_metric,
)
from sklearn_bdp._evaluation._sides import check_orders
from sklearn_bdp._evaluation._telling import (
    certified,
    clipping_of,
    outlook,
    warn_clipped,
    warn_of_choice,
)
from sklearn_bdp._evaluation._training_side import (
    Rounds,
    inner_folds,
    training_side,
)
from sklearn_bdp._evaluation._verifier import Assessment, Verifier
