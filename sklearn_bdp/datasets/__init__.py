"""Simulated data with known truth: the population value of any linear classifier is exact."""

from sklearn_bdp.datasets._dataset import GaussianMixture, SimulatedDataset, simulate_states
from sklearn_bdp.datasets._makers import make_graph, make_regimes

__all__ = [
    "GaussianMixture",
    "SimulatedDataset",
    "make_graph",
    "make_regimes",
]
