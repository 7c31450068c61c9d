"""What runs: codes, intervals, noise margins, predictors; nothing about data or files.

``__all__`` lists what users may compute with.
"""

from sklearn_bdp.accounting.certificate import Certificate
from sklearn_bdp.accounting.noise_calibration import (
    answer_margin,
    noise_margin,
    noise_share,
    zhao_premise,
    zhao_required_n,
)
from sklearn_bdp.accounting.spending import code_length, place_lengths

__all__ = [
    "Certificate",
    "code_length",
    "place_lengths",
    "noise_margin",
    "answer_margin",
    "noise_share",
    "zhao_premise",
    "zhao_required_n",
]
