"""How much a record of a network can say about another one, by their distance (theory B2, B6)."""

from functools import singledispatch

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._chain import MarkovChain
from sklearn_bdp.correlation._components import Groups, Independent
from sklearn_bdp.correlation._graph import DependencyGraph
from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation._transition import max_log_ratio, reversed_kernel

_EXACT = 500  # largest component that is searched from each of its records


@singledispatch
def influence_over_distance(model: CorrelationModel, max_distance: int) -> Array:
    r"""Return bounds on the max-influence between records at distances ``1 … max_distance``.

    The max-influence of :math:`X_j` on :math:`X_i` is the largest
    :math:`\ln P[x_i | x_j] / P[x_i | x_j']` (Song, Wang, Chaudhuri 2017; theory B2), where for
    hidden chains the states stand for the records, which can only say more.

    Parameters
    ----------
    model : CorrelationModel
        A model that has distances.
    max_distance : int
        Largest distance: records in time, edges in a graph.

    Returns
    -------
    ndarray of shape (max_distance,)
        Nats; infinite where nothing limits the influence.

    Raises
    ------
    TypeError
        If the model has no distances.
    """
    raise TypeError(
        "correlation must be independent, groups, a Markov chain or a graph to draw influence over "
        f"distance, got {type(model).__name__}."
    )


@influence_over_distance.register(Independent)
def _(model, max_distance):
    return np.zeros(max_distance)


@influence_over_distance.register(Groups)
def _(model, max_distance):
    # Any two records of a group are neighbours; beyond the group there is nothing.
    result = np.zeros(max_distance)
    result[:1] = 0.0 if model.is_independent else np.inf
    return result


@influence_over_distance.register(DependencyGraph)
def _(model, max_distance):
    result = np.zeros(max_distance)
    result[: longest_path(model.adjacency_)] = np.inf
    return result


@influence_over_distance.register(MarkovChain)
def _(model, max_distance):
    kernels = [model.transition]
    if model.stationary_ is not None:  # both directions of time
        kernels.append(reversed_kernel(model.transition, model.stationary_))
    powers, result = [np.eye(len(model.transition))] * len(kernels), np.empty(max_distance)
    for k in range(max_distance):
        powers = [power @ kernel for power, kernel in zip(powers, kernels, strict=True)]
        result[k] = max(map(max_log_ratio, powers))
    return result


@influence_over_distance.register(NetworkModel)
def _(model, max_distance):
    # Projective diameters of the edges, contracted along paths (theory B6).
    adjacency, tree = model.adjacency_, model._is_tree[model.components_]
    result = path_influence(adjacency[tree][:, tree], max_distance)
    for component in np.unique(model.components_[~tree]):
        members = np.flatnonzero(model.components_ == component)
        result = np.maximum(result, layer_influence(adjacency[members][:, members], max_distance))
    return result


def path_influence(adjacency, max_distance):
    r"""Return the largest influence along a path of each length in a forest.

    A path of edges with diameters :math:`D_1, \dots, D_k` has a diameter of at most
    :math:`4\,\mathrm{artanh} \prod \tanh(D / 4)` (Birkhoff; theory B5), and a log ratio is at most
    the diameter. The best continuation of the directed edge :math:`(i, j)` does not turn back:
    it is the best edge out of :math:`j`, or the second best where the best leads to :math:`i`.
    """
    edges = adjacency.tocoo()
    result = np.zeros(max_distance)
    if edges.nnz == 0:
        return result
    factor = np.tanh(edges.data / 4.0)
    best = factor.copy()  # largest product over paths of the current length that start so
    for k in range(max_distance):
        result[k] = best.max()
        order = np.lexsort((-best, edges.row))
        place = np.searchsorted(edges.row[order], np.arange(adjacency.shape[0]))
        first = order[place[edges.col]]
        turns_back = edges.col[first] == edges.row
        second_place = place[edges.col] + 1
        exists = second_place < len(order)
        second = order[np.where(exists, second_place, 0)]
        usable = exists & (edges.row[second] == edges.col)
        onward = np.where(turns_back, np.where(usable, best[second], 0.0), best[first])
        best = factor * onward
    return _diameter(result)


def layer_influence(adjacency, max_distance):
    """Return a bound for a component with loops: breadth-first layers form a chain of blocks.

    The diameter between two layers is at most the sum over the edges it is made of (theory B6).
    """
    result = np.zeros(max_distance)
    if adjacency.shape[0] > _EXACT:
        result[:] = np.inf
        return result
    edges = adjacency.tocoo()
    for distance in shortest_path(adjacency, directed=False, unweighted=True).astype(int):
        outward = distance[edges.col] == distance[edges.row] + 1
        sums = np.bincount(distance[edges.row][outward], weights=edges.data[outward])
        product = np.cumprod(np.tanh(sums / 4.0))[:max_distance]
        result[: len(product)] = np.maximum(result[: len(product)], product)
    return _diameter(result)


def _diameter(product):
    """Return ``4 artanh(product)``; rounding may not push a product over 1."""
    with np.errstate(divide="ignore"):
        return 4.0 * np.arctanh(np.minimum(product, 1.0))


def longest_path(adjacency):
    """Return the largest distance between connected records (an upper bound when they are many)."""
    _, labels = connected_components(adjacency, directed=False)
    longest = 0
    for component in np.flatnonzero(np.bincount(labels) > longest + 1):
        members = np.flatnonzero(labels == component)
        if len(members) - 1 <= longest:
            continue
        if len(members) > _EXACT:
            longest = len(members) - 1
            continue
        part = adjacency[members][:, members]
        longest = max(longest, int(shortest_path(part, directed=False, unweighted=True).max()))
    return longest
