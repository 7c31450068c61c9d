"""What runs: codes, intervals, noise margins, predictors; nothing about data or files.

``__all__`` lists what users may compute with.
"""

from sklearn_bdp.accounting.bounds import past_limits, past_lower_limit
from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.margins import (
    answer_margin,
    noise_margin,
    noise_share,
    zhao_premise,
    zhao_required_n,
)
from sklearn_bdp.accounting.spending import place_lengths
from sklearn_bdp.accounting.tails import Tail, score_tail

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
