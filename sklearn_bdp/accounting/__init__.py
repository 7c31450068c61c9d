"""What runs: codes, intervals, noise margins, predictors; nothing about data or files.

In ``__all__`` stands what users may compute with; the other names serve the packages above.
"""

from sklearn_bdp.accounting._asked import (
    Asked,
    BatchQueries,
    FinalPace,
    Outcome,
    Pace,
    Reply,
    fine_half_width,
    paced,
)
from sklearn_bdp.accounting._certificate import Certificate
from sklearn_bdp.accounting._class_tails import (
    ClassMeansTail,
    PairsTail,
    ShareCells,
    class_floors,
    score_tail,
    share_cells,
    shares_needed,
)
from sklearn_bdp.accounting._codes import (
    Spending,
    check_length,
    code_length,
    final_code_length,
    leaked_length,
)
from sklearn_bdp.accounting._jackknife import (
    approximation,
    binomial_interval,
    jackknife_interval,
    mean_of_shares,
)
from sklearn_bdp.accounting._noise_calibration import (
    CONTEST,
    FINAL_NOISE,
    NOISE_PART,
    auto_resolution,
    auto_scales,
    auto_threshold,
    epsilon_scales,
    zhao_scales,
)
from sklearn_bdp.accounting._noise_margins import (
    answer_margin,
    laplace_margin,
    log_noise_tail,
    noise_margin,
    noise_share,
)
from sklearn_bdp.accounting._predictive import Cells, PredictiveCode, place_lengths
from sklearn_bdp.accounting._race import FixedCells, play_batch
from sklearn_bdp.accounting._squares import (
    SquaresPlan,
    Units,
    drawn_variances,
    plan_squares,
    squares_lower_limit,
)
from sklearn_bdp.accounting._tails import (
    ModelTail,
    Tail,
    half_width,
)
from sklearn_bdp.accounting._transfer import (
    adaptive_log_failure,
    log_binomials,
    log_transcripts,
    posterior_excess,
    sampling_half_width,
)
from sklearn_bdp.accounting._zhao import (
    least_accuracy,
    zhao_accuracy,
    zhao_premise,
    zhao_required_n,
)

__all__ = [
    "Certificate",
    "Tail",
    "score_tail",
    "place_lengths",
    "noise_margin",
    "answer_margin",
    "noise_share",
    "zhao_premise",
    "zhao_required_n",
]
