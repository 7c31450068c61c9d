"""Records on a graph: a hidden state spreads along the edges."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp._typing import Seed
from sklearn_bdp.datasets._dataset import SimulatedDataset
from sklearn_bdp.datasets._regimes import (
    check_features,
    check_separation,
    place,
    regime_distribution,
    unit_direction,
)


def make_graph(
    n: int | None = None,
    *,
    graph: Any = None,
    component_size: int = 10,
    flip: float = 0.1,
    n_features: int = 20,
    n_informative: int = 5,
    separation: ArrayLike | None = None,
    random_state: Seed = None,
) -> SimulatedDataset:
    r"""Records on a graph whose neighbours tend to be in the same state.

    A spanning forest of the graph is walked from one record of each component. That record's
    state is 0 or 1 with probability 1/2, and every edge passes the state on, flipped with
    probability ``flip``. Given the states, records are independent: a fair label and
    :math:`x \sim N((2y - 1)\, c_s u,\; I)`. The states are thus a Markov field on the forest with
    a known influence along each edge (the largest log cross-ratio,
    :math:`2 \ln((1 - f) / f)` nats), and components are independent.

    Parameters
    ----------
    n : int, default=None
        Number of records. Needed unless ``graph`` is given.
    graph : array-like or sparse matrix of shape (n_records, n_records), default=None
        Symmetric adjacency; any non-zero entry is an edge. By default a random tree for every
        ``component_size`` records.
    component_size : int, default=10
        Records per random tree (the last may be smaller); unused if ``graph`` is given.
    flip : float, default=0.1
        Probability, strictly between 0 and 1, that the state changes along an edge. At most 1/2.
    n_features, n_informative, separation : object
        As for :func:`make_regimes`, of two states.
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        With ``graph`` (the forest; stored values are the influence in nats) and ``states``;
        ``population_accuracy`` is exact.

    Raises
    ------
    ValueError
        If neither or conflicting sizes are given, or the graph is not square and symmetric.

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_graph
    >>> data = make_graph(30, component_size=10, random_state=0)
    >>> data.graph.nnz  # three trees of nine edges, both directions
    54
    >>> round(float(data.graph.data[0]), 4)  # 2 ln 9
    4.3944
    """
    if graph is not None:
        graph = check_graph(graph)
        if n is not None and n != graph.shape[0]:
            raise ValueError(f"n must be the size {graph.shape[0]} of graph, got n={n!r}.")
        n = graph.shape[0]
    elif n is None:
        raise ValueError("n must be given when graph is not, got n=None.")
    n = check_integer("n", n, low=1)
    component_size = check_integer("component_size", component_size, low=1)
    flip = check_real("flip", flip, low=0.0, high=0.5, closed="right")
    n_features, n_informative = check_features(n_features, n_informative)
    separation = check_separation(separation, 2)
    direction = unit_direction(n_features, n_informative)
    sample = partial(_sample, graph, component_size, flip, separation, direction)
    return sample(n, np.random.default_rng(random_state))


def check_graph(graph):
    """Return the adjacency as a sparse boolean array without self-loops."""
    try:
        adjacency = scipy.sparse.csr_array(graph)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"graph must be an adjacency matrix, dense or sparse, got {type(graph).__name__}."
        ) from error
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"graph must be a square adjacency matrix, got shape {adjacency.shape}.")
    adjacency = adjacency.astype(bool)
    adjacency.setdiag(False)
    adjacency.eliminate_zeros()
    if (adjacency != adjacency.T).nnz:
        raise ValueError("graph must be symmetric: every edge in both directions.")
    return adjacency


def random_trees(n, size, rng):
    """Return the parent of each record in random trees of ``size`` consecutive records.

    Each record but the first of a tree hangs on a uniformly chosen earlier one; roots have
    parent -1.
    """
    place_in_tree = np.arange(n) % size
    parent = np.arange(n) - place_in_tree + (rng.random(n) * place_in_tree).astype(np.intp)
    return np.where(place_in_tree == 0, -1, parent)


def spanning_forest(adjacency):
    """Return ``(order, parent)``: parents come before children, roots have parent -1."""
    n = adjacency.shape[0]
    _, labels = connected_components(adjacency, directed=False)
    roots = np.unique(labels, return_index=True)[1]
    # One search from a virtual node n that is joined to one record of every component.
    link = (np.ones(len(roots)), (np.full(len(roots), n), roots))
    joined = scipy.sparse.coo_array(link, shape=(n + 1, n + 1)).tocsr()
    edges = adjacency.tocoo()
    joined = joined + scipy.sparse.coo_array(
        (np.ones(edges.nnz), (edges.row, edges.col)), shape=(n + 1, n + 1)
    )
    order, parent = breadth_first_order(joined.tocsr(), n, directed=True)
    parent = np.where(parent[:n] == n, -1, parent[:n])
    return order[1:], parent


def spread_states(order, parent, flip, rng):
    """Return binary states: fair at the roots, flipped along an edge with probability ``flip``."""
    changed = rng.random(len(order)) < np.where(parent < 0, 0.5, flip)
    states = changed.astype(int).tolist()
    for record in order.tolist():
        if parent[record] >= 0:
            states[record] ^= states[parent[record]]
    return np.array(states)


def _sample(adjacency, component_size, flip, separation, direction, n, rng):
    if adjacency is None:
        order, parent = np.arange(n), random_trees(n, component_size, rng)
    elif adjacency.shape[0] == n:
        order, parent = spanning_forest(adjacency)
    else:
        raise ValueError(f"n must be the size {adjacency.shape[0]} of the graph, got n={n}.")
    states = spread_states(order, parent, flip, rng)
    y = rng.integers(0, 2, n)
    noise = rng.standard_normal((n, len(direction)))
    child = np.flatnonzero(parent >= 0)
    ends = np.concatenate([child, parent[child]]), np.concatenate([parent[child], child])
    influence = np.full(2 * len(child), 2.0 * np.log((1.0 - flip) / flip))
    return SimulatedDataset(
        X=place(noise, y, states, separation, direction),
        y=y,
        distribution=regime_distribution(np.array([0.5, 0.5]), separation, direction),
        sampler=partial(_sample, adjacency, component_size, flip, separation, direction),
        states=states,
        graph=scipy.sparse.coo_array((influence, ends), shape=(n, n)).tocsr(),
        description=f"states spreading along a forest of {len(child)} edges",
    )
