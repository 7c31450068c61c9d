"""Correlation of records: models, calibrations of Bayesian differential privacy, tails.

Every model answers what leakage follows from a level of differential privacy (and the inverse),
how fast a mean of scores concentrates, and how to split records without cutting dependence.
In ``__all__`` stands what users call; the other names serve the packages above.
"""

from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._chains._chain import MarkovChain
from sklearn_bdp.correlation._chains._chain_class import MarkovChainClass
from sklearn_bdp.correlation._chains._recorded import chain_record, recorded_chain
from sklearn_bdp.correlation._chains._seen import SeenStates
from sklearn_bdp.correlation._check import check_correlation, check_declared
from sklearn_bdp.correlation._components import Groups, Independent
from sklearn_bdp.correlation._cutting import Split
from sklearn_bdp.correlation._evidence._drift import DriftReport, check_drift
from sklearn_bdp.correlation._evidence._misfit import (
    MisfitReport,
    check_misfit,
    integrated_autocorrelation,
    running_autocorrelation_time,
)
from sklearn_bdp.correlation._evidence._row_order import IndependenceReport, check_independence
from sklearn_bdp.correlation._evidence._strength import (
    Strength,
    score_strength,
    slow_autocorrelation_time,
)
from sklearn_bdp.correlation._labels import check_order_of_groups, count_shared_labels
from sklearn_bdp.correlation._networks._bayes import BayesianNetwork
from sklearn_bdp.correlation._networks._graph import DependencyGraph
from sklearn_bdp.correlation._networks._markov_network import MarkovNetwork
from sklearn_bdp.correlation._shared._transition import stationary_distribution
from sklearn_bdp.correlation._tails import (
    binomial_lower_limit,
    bounded_log_tail,
    bounded_lower_limit,
    chernoff_lower_limit,
    weighted_lower_limit,
)
from sklearn_bdp.correlation._worst import WorstOf

__all__ = [
    "CorrelationModel",
    "Independent",
    "Groups",
    "MarkovChain",
    "MarkovChainClass",
    "SeenStates",
    "DependencyGraph",
    "MarkovNetwork",
    "BayesianNetwork",
    "WorstOf",
    "Split",
    "check_correlation",
    "MisfitReport",
    "check_misfit",
    "integrated_autocorrelation",
    "slow_autocorrelation_time",
    "IndependenceReport",
    "check_independence",
    "DriftReport",
    "check_drift",
]
