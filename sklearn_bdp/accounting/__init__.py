"""What runs: codes, intervals, noise margins, predictors; nothing about data or files.

In ``__all__`` stands what users may compute with; the other names serve the packages above.
"""

from sklearn_bdp.accounting._bets import (
    UnitMoments,
    order_free_limits,
    share_limits,
    star_limits,
    unit_moments,
)
from sklearn_bdp.accounting._certificate import Certificate
from sklearn_bdp.accounting._given_past import past_limits, past_lower_limit, past_mean_limit
from sklearn_bdp.accounting._jackknife import approximate_row, jackknife_interval, long_memory
from sklearn_bdp.accounting._left_out import GENERIC, SKILL, STATISTICS, Statistic, of_sums
from sklearn_bdp.accounting._noise import (
    FINAL_NOISE,
    NOISE_PART,
    RELAXED_PART,
    answer_margin,
    auto_resolution,
    auto_scales,
    auto_threshold,
    epsilon_scales,
    noise_margin,
    noise_share,
    zhao_scales,
)
from sklearn_bdp.accounting._race import (
    Cells,
    FinalPace,
    Outcome,
    Pace,
    Race,
    fine_half_width,
    paced,
)
from sklearn_bdp.accounting._spending import (
    POLICIES,
    Policy,
    PredictiveCode,
    Spending,
    check_length,
    code_length,
    final_code_length,
    leaked_length,
    place_lengths,
)
from sklearn_bdp.accounting._squares import drawn_variances, plan_squares, squares_lower_limit
from sklearn_bdp.accounting._tails import (
    ClassMeansTail,
    ModelTail,
    PairsTail,
    ShareCells,
    Tail,
    Units,
    half_width,
    least_counts,
    score_tail,
    share_cells,
    shares_needed,
)
from sklearn_bdp.accounting._transfer import (
    least_accuracy,
    log_binomials,
    log_transcripts,
    posterior_excess,
    sampling_half_width,
    zhao_accuracy,
    zhao_premise,
    zhao_required_n,
)

__all__ = [
    "Certificate",
    "Tail",
    "score_tail",
    "past_limits",
    "past_lower_limit",
    "place_lengths",
    "noise_margin",
    "answer_margin",
    "noise_share",
    "zhao_premise",
    "zhao_required_n",
]
