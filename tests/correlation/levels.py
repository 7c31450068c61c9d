"""The worst sequential leakage of one record (theory B7), from the parts that ``K`` is made of."""

import numpy as np

from sklearn_bdp.correlation.leakage import ChainLeakageBound, NetworkLeakageBound, leakage_bound
from sklearn_bdp.correlation.network import breadth_first_forest


def sequential_epsilon(model, dp_epsilon, n):
    """Return the leakage when records are revealed in the order that suits the model best."""
    if hasattr(model, "models"):
        return max(
            sequential_epsilon(component_model, dp_epsilon, n) for component_model in model.models
        )
    bounds = leakage_bound(model)
    if isinstance(bounds, ChainLeakageBound):
        return dp_epsilon + bounds.later_leakage(dp_epsilon, n)
    if not isinstance(bounds, NetworkLeakageBound):
        return model.bdp_epsilon(dp_epsilon, n)
    levels = bounds.record_levels(dp_epsilon)
    trees = records_of_trees(model)
    levels[trees] = np.minimum(levels[trees], dp_epsilon + bounds.upward_messages(dp_epsilon)[1])
    return float(levels.max())


def records_of_trees(model):
    """Return the records of a network's components without a loop, each after its parent."""
    labels = model.components_
    matrix = model.adjacency_
    edges = np.bincount(labels, weights=np.diff(matrix.indptr)) / 2
    is_tree = edges == np.bincount(labels) - 1
    return breadth_first_forest(matrix, np.unique(labels, return_index=True)[1], is_tree[labels])[0]
