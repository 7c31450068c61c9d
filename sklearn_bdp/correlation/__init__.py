"""Models of dependence between records, with splits and concentration bounds for each model.

Bounds on the leakage under differential privacy are in :mod:`sklearn_bdp.correlation.leakage`,
which is imported on demand.
"""

from sklearn_bdp.correlation.base import CorrelationModel
from sklearn_bdp.correlation.chain import MarkovChain
from sklearn_bdp.correlation.components import Groups, Independent
from sklearn_bdp.correlation.declaration import check_correlation
from sklearn_bdp.correlation.dependence import (
    DependenceReport,
    group_independence_test,
    independence_test,
)
from sklearn_bdp.correlation.graph import DependencyGraph
from sklearn_bdp.correlation.network import BayesianNetwork, MarkovNetwork
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.correlation.strength import autocorrelation_time_test
from sklearn_bdp.correlation.time_order import TimeOrdered

__all__ = [
    "CorrelationModel",
    "SamplingScheme",
    "Independent",
    "Groups",
    "MarkovChain",
    "TimeOrdered",
    "DependencyGraph",
    "MarkovNetwork",
    "BayesianNetwork",
    "check_correlation",
    "DependenceReport",
    "independence_test",
    "group_independence_test",
    "autocorrelation_time_test",
]
