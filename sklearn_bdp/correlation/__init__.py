"""Correlation of records: models, tails, and how records are cut without cutting dependence.

Every model answers how fast a mean of scores concentrates, how to split records, and what leakage
follows from a level of differential privacy (:mod:`sklearn_bdp.correlation.privacy`, loaded when
asked). In ``__all__`` stands what users call; the other names serve the packages above and tests.
"""

from sklearn_bdp.correlation._base import Bound, CorrelationModel, Split
from sklearn_bdp.correlation._chain import (
    MarkovChain,
    slow_autocorrelation_time,
    stationary_distribution,
)
from sklearn_bdp.correlation._components import (
    ComponentModel,
    Groups,
    Independent,
    check_row_order,
    count_shared_labels,
)
from sklearn_bdp.correlation._declared import WorstOf, check_correlation, check_declared
from sklearn_bdp.correlation._dependence import DependenceReport, check_groups, check_independence
from sklearn_bdp.correlation._graph import DependencyGraph
from sklearn_bdp.correlation._network import (
    BayesianNetwork,
    MarkovNetwork,
    best_block_costs,
    block_costs,
    couplings,
    dobrushin_reach,
    rooted,
)
from sklearn_bdp.correlation._past import (
    GivenPast,
    date_numbers,
    gaps_in_words,
    horizon_in_dates,
    index_dates,
    is_dates,
    step_of,
)
from sklearn_bdp.correlation._tails import (
    binomial_lower_limit,
    bounded_lower_limit,
    chain_lower_limit,
    chernoff_lower_limit,
    weighted_lower_limit,
)

__all__ = [
    "CorrelationModel",
    "Independent",
    "Groups",
    "MarkovChain",
    "GivenPast",
    "DependencyGraph",
    "MarkovNetwork",
    "BayesianNetwork",
    "WorstOf",
    "Split",
    "check_correlation",
    "slow_autocorrelation_time",
    "DependenceReport",
    "check_independence",
    "check_groups",
]
