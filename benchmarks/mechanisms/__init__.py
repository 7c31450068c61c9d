"""The other mechanisms of the literature, each with its certificate: peers to compare with.

The library asks a holdout through `Thresholdout` only. These answer numbers, as the papers have it;
they have no ledger and no intervals as used. See ``doc/developers/mechanisms.md``.
"""

from benchmarks.mechanisms._certificates import (
    certify_mechanism,
    ladder_log_transcripts,
    sparse_validate_log_transcripts,
)
from benchmarks.mechanisms._ladder import Ladder, ParameterFreeLadder
from benchmarks.mechanisms._multiplicative_weights import MultiplicativeWeights
from benchmarks.mechanisms._noise_addition import DataSplitting, NoiseAddition
from benchmarks.mechanisms._published import (
    jung_half_width,
    rogers_half_width,
    rogers_thresholdout_half_width,
)
from benchmarks.mechanisms._sparse_validate import SparseValidate

__all__ = [
    "DataSplitting",
    "Ladder",
    "MultiplicativeWeights",
    "NoiseAddition",
    "ParameterFreeLadder",
    "SparseValidate",
    "certify_mechanism",
    "jung_half_width",
    "ladder_log_transcripts",
    "rogers_half_width",
    "rogers_thresholdout_half_width",
    "sparse_validate_log_transcripts",
]
