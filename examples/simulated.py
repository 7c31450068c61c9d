"""Simulated records with known truth, for the examples, tests and benchmarks of this repository.

A record with state ``s`` has a fair label ``y`` and attributes
``N((2y - 1) * separation[s] * direction, I)``, where ``direction`` is a unit vector over the first
five attributes. Records share states along a Markov chain (:func:`make_regimes`) or along the edges
of a forest (:func:`make_graph`), which is what a correlation model has to describe. A classifier
is good where the separation is large and no better than a coin where it is 0, so its score on a
holdout depends on the states that the holdout happens to contain.

Within a component of the mixture a linear classifier's decision is normal, so its accuracy on the
population is a weighted sum of normal distribution functions: exact, however records depend on each
other.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.special import ndtr

from sklearn_bdp.correlation import DependencyGraph, MarkovChain
from sklearn_bdp.correlation.chain import stationary_distribution


def simulate_states(transition, n, rng):
    """Draw ``n`` consecutive states, numbers from 0, of a stationary irreducible chain."""
    # The last column is left out: what no threshold exceeds is the last state, whatever rounding
    # does to the cumulative sum.
    steps = np.cumsum(transition, axis=1)[:, :-1].tolist()
    length = math.ceil(math.sqrt(n))
    uniform = rng.random((length, -(-n // length)))  # by columns, which fixes what a seed means
    # One step from a stationary state is a stationary state.
    first = np.cumsum(stationary_distribution(transition))[:-1].tolist()
    state, states = bisect_right(first, rng.random()), []
    for draw in uniform.T.ravel()[:n].tolist():
        state = bisect_right(steps[state], draw)
        states.append(state)
    return np.array(states, dtype=np.intp)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture:
    """Distribution of one record: a mixture of labeled Gaussians with one covariance.

    ``weights``, ``labels`` (0 and 1) and ``means`` have one row for each component; ``scales``
    holds the standard deviation of each attribute within a component.
    """

    weights: np.ndarray
    labels: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    def accuracy(self, coef, intercept):
        """Return P[(x @ coef + intercept > 0) == y] for each row of ``coef``, exactly.

        A decision of exactly zero predicts label 0, as in scikit-learn.
        """
        center = coef @ self.means.T + intercept[:, None]
        spread = np.sqrt(self.variances(coef * self.scales))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            positive = np.where(spread > 0, ndtr(center / spread), center > 0)
        return np.where(self.labels == 1, positive, 1.0 - positive) @ self.weights

    def variances(self, weighted):
        """Return the variance within a component of each row of weights, scales included."""
        return (weighted**2).sum(axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedDataset:
    """Records, and the distribution they were drawn from.

    ``correlation`` is what to pass as ``correlation=``: the transition matrix, the graph, or None.
    """

    X: np.ndarray
    y: np.ndarray
    distribution: GaussianMixture = field(repr=False)
    #: ``sampler(n, rng)`` returns a further data set drawn from the same distribution.
    sampler: Callable = field(repr=False)
    states: np.ndarray | None = None
    transition: np.ndarray | None = None
    #: Symmetric; stored values are the influence along each edge (largest log cross-ratio, nats).
    graph: scipy.sparse.csr_array | None = None
    description: str = ""

    @property
    def correlation(self):
        """Object to pass as ``correlation=``."""
        return self.graph if self.transition is None else self.transition

    def population_accuracy(self, coef, intercept=0.0):
        """Return the population accuracy of linear classifiers, rows of ``coef``, exactly."""
        coef = np.atleast_2d(np.asarray(coef, dtype=float))
        intercept = np.broadcast_to(np.ravel(intercept), len(coef))
        value = self.distribution.accuracy(coef, intercept)
        return float(value[0]) if len(coef) == 1 else value

    def fresh(self, n=None, *, random_state=None):
        """Return ``n`` new, independent records (as many as here by default)."""
        n = len(self.X) if n is None else n
        return self.sampler(n, np.random.default_rng(random_state))

    def __repr__(self):
        n, d = self.X.shape
        return f"<{type(self).__name__}: {self.description}; {n} records, {d} attributes>"


@dataclass(frozen=True)
class _Emission:
    """How a state shows: the separation of the classes in each state, and the direction."""

    separation: np.ndarray
    direction: np.ndarray

    @classmethod
    def of(cls, separation, n_states, n_features):
        if separation is None:
            separation = np.linspace(1.5, 0.0, n_states)
        used = np.arange(n_features) < 5
        return cls(np.asarray(separation, dtype=float), used / np.sqrt(used.sum()))

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


def make_regimes(n, transition, *, n_features=20, separation=None, random_state=None):
    """Return records that pass through regimes following a transition matrix.

    ``separation`` is the distance of each class mean from the origin in each regime, by default
    evenly spaced from 1.5 to 0; negative values turn the rule round.

    >>> data = make_regimes(500, [[0.99, 0.01], [0.01, 0.99]], random_state=0)
    >>> direction = [1, 1, 1, 1, 1] + [0] * 15
    >>> round(data.population_accuracy(direction), 4)  # (Phi(1.5) + Phi(0)) / 2
    0.7166
    """
    matrix = MarkovChain(transition).transition
    emission = _Emission.of(separation, len(matrix), n_features)
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
    n=None, *, graph=None, component_size=10, flip=0.1, n_features=20, separation=None,
    random_state=None,
):  # fmt: skip
    """Return records on a forest whose neighbors tend to be in the same state.

    A spanning forest of ``graph`` (by default a random tree for every ``component_size`` records)
    is walked from one record of each component, whose state is fair; every edge passes the state
    on, flipped with probability ``flip``. The states are a Markov field on the forest with a known
    influence along each edge, ``2 ln((1 - flip) / flip)`` nats, and components are independent.

    >>> data = make_graph(30, component_size=10, random_state=0)
    >>> data.graph.nnz  # three trees of nine edges, both directions
    54
    >>> round(float(data.graph.data[0]), 4)  # 2 ln 9
    4.3944
    """
    if graph is not None:
        graph = DependencyGraph(graph)
        n = graph.n_records
    emission = _Emission.of(separation, 2, n_features)
    rng = np.random.default_rng(random_state)
    return _sample_graph(graph, component_size, flip, emission, n, rng)


def _forest(graph, component_size, n, rng):
    """Return records in an order in which parents come first, and each record's parent or -1."""
    if graph is None:  # each record but the first of a tree hangs on a uniformly chosen earlier one
        position_in_tree = np.arange(n) % component_size
        parent = (
            np.arange(n) - position_in_tree + (rng.random(n) * position_in_tree).astype(np.intp)
        )
        return np.arange(n), np.where(position_in_tree == 0, -1, parent)
    roots = np.unique(graph.components_, return_index=True)[1]
    walks = [breadth_first_order(graph.adjacency_, root, directed=False) for root in roots]
    parent = np.full(n, -1)
    for visited, predecessors in walks:
        parent[visited[1:]] = predecessors[visited[1:]]
    return np.concatenate([visited for visited, _ in walks]), parent


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
