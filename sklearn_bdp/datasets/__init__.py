"""Simulated data with known truth: the population value of any linear classifier is exact."""

from sklearn_bdp.datasets._dataset import GaussianMixture, SimulatedDataset
from sklearn_bdp.datasets._dwork import make_dwork_noise, make_dwork_signal
from sklearn_bdp.datasets._graph import make_graph
from sklearn_bdp.datasets._markov import make_markov
from sklearn_bdp.datasets._regimes import make_groups, make_regimes

__all__ = [
    "GaussianMixture",
    "SimulatedDataset",
    "make_dwork_noise",
    "make_dwork_signal",
    "make_graph",
    "make_groups",
    "make_markov",
    "make_regimes",
]
