"""What runs: codes, intervals, noise margins, predictors; nothing about data or files.

In ``__all__`` stands what users may compute with; the other names serve the packages above.
"""

from sklearn_bdp.accounting._bounds import (
    UnitMoments,
    Units,
    drawn_variances,
    order_free_limits,
    past_limits,
    past_lower_limit,
    past_mean_limit,
    plan_squares,
    share_limits,
    squares_lower_limit,
    star_limits,
    unit_moments,
)
from sklearn_bdp.accounting._certificate import Certificate
from sklearn_bdp.accounting._jackknife import (
    GENERIC,
    SKILL,
    STATISTICS,
    Statistic,
    approximate_row,
    jackknife_interval,
    long_memory,
    of_sums,
)
from sklearn_bdp.accounting._margins import (
    FINAL_NOISE,
    NOISE_PART,
    RELAXED_PART,
    answer_margin,
    auto_resolution,
    auto_scales,
    auto_threshold,
    epsilon_scales,
    least_accuracy,
    log_binomials,
    log_transcripts,
    noise_margin,
    noise_share,
    posterior_excess,
    sampling_half_width,
    zhao_accuracy,
    zhao_premise,
    zhao_required_n,
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
from sklearn_bdp.accounting._tails import (
    ClassMeansTail,
    ModelTail,
    PairsTail,
    ShareCells,
    Tail,
    half_width,
    least_counts,
    score_tail,
    share_cells,
    shares_needed,
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
