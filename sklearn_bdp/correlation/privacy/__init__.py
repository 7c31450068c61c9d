"""Levels of Bayesian differential privacy: what a DP level means for correlated records.

Loaded by ``bdp_epsilon``, ``dp_epsilon`` and what needs them (a numeric ``epsilon``, the
certificate's line on privacy). What computes intervals never imports this package.
"""

from sklearn_bdp.correlation.privacy._calibration import Calibration, calibrate
from sklearn_bdp.correlation.privacy._chains import (
    ChainCalibration,
    block_information,
    bridge_sides,
    chain_influences,
    close_above,
    contract,
    iterate_leakage,
    kernel_leakage,
    quilt_leakage,
    spectral_dp_epsilon,
    spectral_smallest_n,
    two_state_leakage,
)
from sklearn_bdp.correlation.privacy._networks import (
    NetworkCalibration,
    birkhoff_messages,
    reach_factor,
)
