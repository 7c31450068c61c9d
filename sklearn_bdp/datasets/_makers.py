"""Simulators of records that share regimes or a graph; the truth is exact.

A record with state ``s`` has a fair label ``y`` and attributes
``N((2y - 1) * separation[s] * direction, I)``. They differ in how states are shared between
records, which is what a correlation model has to describe.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_integer, check_real
from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation import DependencyGraph, MarkovChain, rooted, stationary_distribution
from sklearn_bdp.datasets._dataset import GaussianMixture, SimulatedDataset, simulate_states

INFORMATIVE = 5  # attributes that carry the label, at most


@dataclass(frozen=True)
class Emission:
    """How a state shows: the separation of the classes in each state, and along which direction."""

    separation: Array
    direction: Array

    @classmethod
    def of(cls, separation, n_states, n_features):
        """Return the emission after checking its numbers; by default separations from 1.5 to 0."""
        n_features = check_integer("n_features", n_features, low=1)
        if separation is None:
            separation = np.linspace(1.5, 0.0, n_states)
        separation = check_array("separation", separation, shape=(n_states,))
        used = np.arange(n_features) < INFORMATIVE
        return cls(separation, used / np.sqrt(used.sum()))

    def place(self, noise, y, states):
        """Return attributes: standard normal noise moved to the center of each record's class."""
        return noise + ((2 * y - 1) * self.separation[states])[:, None] * self.direction

    def mixture(self, probabilities):
        """Return the distribution of one record whose state has the given probabilities."""
        centers = self.separation[:, None] * self.direction
        return GaussianMixture(
            weights=np.concatenate([probabilities, probabilities]) / 2.0,
            labels=np.repeat([0, 1], len(probabilities)),
            means=np.vstack([-centers, centers]),
            scales=np.ones(len(self.direction)),
        )


def make_regimes(
    n: int,
    transition: ArrayLike,
    *,
    n_features: int = 20,
    separation: ArrayLike | None = None,
    random_state: Seed = None,
) -> SimulatedDataset:
    r"""Records that pass through regimes following a transition matrix.

    The state :math:`s_t` is a stationary Markov chain. Given the states, records are independent:
    :math:`y_t` is 0 or 1 with probability 1/2, and
    :math:`x_t \sim N((2 y_t - 1)\, c_{s_t} u,\; I)` with ``separation`` :math:`c` and the unit
    vector :math:`u` over the first five attributes. A classifier is good in regimes of
    large separation and no better than a coin where it is 0, so the accuracy on a holdout depends
    on how much time that holdout happened to spend in each regime. Intervals that pretend
    independence miss the truth by that much.

    Parameters
    ----------
    n : int
        Number of records.
    transition : array-like of shape (n_states, n_states)
        Stochastic, irreducible. ``transition[a, b]`` is the probability of moving from regime
        ``a`` to regime ``b``.
    n_features : int, default=20
        Number of attributes; the first five carry the label.
    separation : array-like of shape (n_states,), default=None
        Distance of each class mean from the origin, in standard deviations; negative values turn
        the rule round. By default evenly spaced from 1.5 to 0.
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        With ``states`` and ``transition``; ``population_accuracy`` is exact.

    Raises
    ------
    ValueError
        If the matrix is not stochastic and irreducible, or a number is out of range.

    See Also
    --------
    make_graph : Records on a graph.

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_regimes
    >>> data = make_regimes(500, [[0.99, 0.01], [0.01, 0.99]], random_state=0)
    >>> direction = [1, 1, 1, 1, 1] + [0] * 15
    >>> round(data.population_accuracy(direction), 4)  # (Phi(1.5) + Phi(0)) / 2
    0.7166
    """
    n = check_integer("n", n, low=1)
    matrix = MarkovChain(transition).transition
    emission = Emission.of(separation, len(matrix), n_features)
    return _sample_regimes(matrix, emission, n, np.random.default_rng(random_state))


def _sample_regimes(transition, emission, n, rng):
    states, y = simulate_states(transition, n, rng), rng.integers(0, 2, n)
    return SimulatedDataset(
        X=emission.place(rng.standard_normal((n, len(emission.direction))), y, states),
        y=y,
        distribution=emission.mixture(stationary_distribution(transition)),
        sampler=partial(_sample_regimes, transition, emission),
        states=states,
        transition=transition,
        description=f"{len(transition)} regimes following a transition matrix",
    )


def make_graph(
    n: int | None = None,
    *,
    graph: Any = None,
    component_size: int = 10,
    flip: float = 0.1,
    n_features: int = 20,
    separation: ArrayLike | None = None,
    random_state: Seed = None,
) -> SimulatedDataset:
    r"""Records on a graph whose neighbors tend to be in the same state.

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
    graph : networkx graph, array-like or sparse matrix of shape (n_records, n_records), optional
        Any nonzero entry is an edge, as for :class:`~sklearn_bdp.correlation.DependencyGraph`. By
        default a random tree for every ``component_size`` records.
    component_size : int, default=10
        Records per random tree (the last may be smaller); unused if ``graph`` is given.
    flip : float, default=0.1
        Probability, strictly between 0 and 1, that the state changes along an edge. At most 1/2.
    n_features, separation : object
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
        If neither or conflicting sizes are given, or the graph is not square.

    See Also
    --------
    make_regimes : Records in time.

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
        graph = DependencyGraph(graph)
        n = graph.n_records if n is None else n
    elif n is None:
        raise ValueError("n must be given when graph is not, got n=None.")
    n = check_integer("n", n, low=1)
    component_size = check_integer("component_size", component_size, low=1)
    flip = check_real("flip", flip, low=0.0, high=0.5, closed="right")
    emission = Emission.of(separation, 2, n_features)
    rng = np.random.default_rng(random_state)
    return _sample_graph(graph, component_size, flip, emission, n, rng)


def _forest(graph, component_size, n, rng):
    """Return records in an order in which parents come first, and each record's parent or -1."""
    if graph is None:  # each record but the first of a tree hangs on a uniformly chosen earlier one
        place = np.arange(n) % component_size
        parent = np.arange(n) - place + (rng.random(n) * place).astype(np.intp)
        return np.arange(n), np.where(place == 0, -1, parent)
    if graph.n_records != n:
        raise ValueError(f"n must be the size {graph.n_records} of graph, got n={n}.")
    roots = np.unique(graph.components_, return_index=True)[1]
    order, above = rooted(graph.adjacency_, roots, np.ones(n, dtype=bool))
    parent = np.empty(n, dtype=np.intp)
    parent[order] = np.where(above < 0, -1, order[above])
    return order, parent


def _sample_graph(graph, component_size, flip, emission, n, rng):
    order, parent = _forest(graph, component_size, n, rng)
    # Fair at the roots, flipped along an edge with probability flip.
    states = (rng.random(n) < np.where(parent < 0, 0.5, flip)).astype(int).tolist()
    for record in order.tolist():
        if parent[record] >= 0:
            states[record] ^= states[parent[record]]
    states, y = np.array(states), rng.integers(0, 2, n)
    child = np.flatnonzero(parent >= 0)
    ends = np.concatenate([child, parent[child]]), np.concatenate([parent[child], child])
    influence = np.full(2 * len(child), 2.0 * np.log((1.0 - flip) / flip))
    return SimulatedDataset(
        X=emission.place(rng.standard_normal((n, len(emission.direction))), y, states),
        y=y,
        distribution=emission.mixture(np.array([0.5, 0.5])),
        sampler=partial(_sample_graph, graph, component_size, flip, emission),
        states=states,
        graph=scipy.sparse.coo_array((influence, ends), shape=(n, n)).tocsr(),
        description=f"states spreading along a forest of {len(child)} edges",
    )
