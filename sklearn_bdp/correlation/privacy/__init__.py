"""Levels of Bayesian differential privacy: what a DP level means for correlated records.

Loaded by ``bdp_epsilon``, ``dp_epsilon`` and what needs them (a numeric ``epsilon``, the
certificate's line on privacy). What computes intervals never imports this package.
"""

from sklearn_bdp.correlation.privacy._calibration import (
    Calibration,
    NetworkCalibration,
    birkhoff_messages,
    calibrate,
    kernel_leakage,
    reach_factor,
)
from sklearn_bdp.correlation.privacy._chains import (
    ChainCalibration,
    block_information,
    bridge_sides,
    chain_influences,
    close_above,
    contract,
    iterate_leakage,
    quilt_leakage,
    spectral_dp_epsilon,
    spectral_smallest_n,
    two_state_leakage,
)
