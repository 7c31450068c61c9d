"""Networks of records with a known strength along each edge.

First networks with a graph, then the strength read off labels (pseudo-likelihood), networks with
parents and conditional tables (moralised), and how far a change of one record reaches: sweeps over
rooted forests, walks on any graph (Dobrushin).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.special import logsumexp
from scipy.stats import norm

from sklearn_bdp._typing import Seed
from sklearn_bdp.correlation.base import (
    CorrelationModel,
    Split,
    check_indices,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation.chain import dobrushin, projective_diameter
from sklearn_bdp.correlation.components import Independent, component_sizes, label_codes
from sklearn_bdp.correlation.frozen import cached
from sklearn_bdp.correlation.graph import (
    GIVEN_CAVEATS,
    GIVEN_NODES,
    GraphModel,
    UnknownStrengthNetwork,
    independent_set,
    nodes_given_rest,
    read_graph,
)
from sklearn_bdp.correlation.graph_input import edges_between, is_mask, is_networkx, read_edges
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.correlation.tails import component_lower_limit
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

LARGEST_COUPLING = 12.0  # beyond it neighbors determine each other
CONFIDENCE = 0.95  # of the upper limit
_NO_GRAPH: Any = object()  # replaces the graph when a pickle makes an object without arguments


class NetworkModel(GraphModel):
    """Shared part of networks: a graph of edge diameters and, if given, the factors.

    Forests are bounded by couplings along edges (theory H5), any graph by walks (Dobrushin).
    """

    _to_estimate = False  # whether the strength is read off training labels after the split
    _kind: str

    def _set_network(
        self, matrix, *, nodes=None, factors=(), given_rest=False, words="", caveats=()
    ):
        """Set all and freeze; ``given_rest``: whether all other records are given (theory G13).

        ``words``, ``caveats``: where the strength comes from, when it was not declared.
        """
        matrix.sort_indices()  # edges are looked up in order, of nodes in any order, too
        self._set_graph(matrix, nodes=nodes, caveats=caveats)
        self._factors = tuple(factors)
        self._words = words
        self._assumed = caveats
        sizes = np.bincount(self.components_)
        edges = np.bincount(self.components_, weights=np.diff(matrix.indptr)) / 2
        self._component_sizes = sizes
        self._is_tree = edges == sizes - 1  # per component
        self._given_rest = given_rest
        if given_rest:
            self._target = GIVEN_NODES
            self.caveats = caveats + GIVEN_CAVEATS
        # Components too large to hold out are split by nodes if no edge is infinite.
        self._is_finite = self._to_estimate or bool(np.isfinite(self._data).all())
        large = given_rest or sizes.max() > self.n_records / 4
        self._bounds_hold_given_rest = bool(large and self._is_finite)
        tables = [part for scope, table in self._factors for part in (scope, table)]
        extra_content = ("given the rest",) if given_rest else ()
        extra_content += (words, *caveats) if words else ()
        self._freeze(*tables, *extra_content)

    @property
    def is_estimated(self) -> bool:
        """Whether strengths are read off training labels."""
        return bool(self._to_estimate or self._words)

    # -- derived structure, computed once ---------------------------------------------------

    def _rooted(self):
        """Order of the records in tree components, positions of parents, diameters to them."""

        def compute():
            matrix = self.adjacency_
            n = self.n_records
            order, parent = rooted(matrix, self._roots(), self._is_tree[self.components_])
            child = np.flatnonzero(parent >= 0)
            diameters = np.zeros(len(parent))
            edge_keys = np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices
            edge_positions = np.searchsorted(edge_keys, order[child] * n + order[parent[child]])
            diameters[child] = matrix.data[edge_positions]
            return order, parent, diameters

        return cached(self, "rooted", compute)

    def _roots(self):
        """Return one record per component, where trees are rooted."""
        return np.unique(self.components_, return_index=True)[1]

    def _contractions(self):
        """Return how much each edge to a parent passes on at most (Dobrushin coefficients)."""
        return np.tanh(self._rooted()[2] / 4.0)

    def _blocks(self, unit, passed):
        """Best block costs per component (infinite for components that are not trees)."""
        order, parent, _ = self._rooted()
        costs = best_block_costs(parent.tolist(), self.components_[order].tolist(), unit, passed)
        costs = np.r_[costs, np.zeros(self.n_components_ - len(costs))]
        return np.where(self._is_tree, costs, math.inf)

    def _reach(self):
        return cached(self, "reach", lambda: dobrushin_reach(self.adjacency_, self.components_))

    # -- concentration ----------------------------------------------------------------------

    def sampling_scheme(self, n: int) -> SamplingScheme:
        # Strengths of edges make single records count.
        return dataclasses.replace(
            super().sampling_scheme(n),
            n_units=self.n_records,
            unit_name="records",
            exchangeable=not self._given_rest,
            block_codes=None,
        )

    def _variance_proxy(self, n, is_mean):
        return cached(self, "spread", self._compute_spread)

    def _compute_spread(self):
        cost = self._component_sizes.astype(float) ** 2
        cost = np.minimum(cost, np.bincount(self.components_, weights=self._reach() ** 2))
        if self._is_tree.any():
            # Theory H5, rooted forest: martingale differences R_v, here also for merged blocks.
            passed = couplings(self._rooted()[1].tolist(), self._contractions().tolist())
            cost = np.minimum(cost, self._blocks(1.0, passed))
        return float(cost.sum())

    def _lower_limit(self, values, log_failures, n, binary):
        # Components are independent (theory G12); inside them the dependence may be weak (H5).
        sizes, counts = component_sizes(self, n)
        return np.maximum(
            CorrelationModel._lower_limit(self, values, log_failures, n, binary),
            component_lower_limit(values, log_failures, sizes, counts),
        )

    # -- the rest ---------------------------------------------------------------------------

    def describe(self) -> str:
        return self._words + (
            f"{self._kind} of {self.n_records} records in {self.n_components_} independent "
            f"components, 1 record in {self.n_records / self.effective_n(self.n_records):.1f} "
            "counts" + (", given all other records" if self._given_rest else "")
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        size = holdout_size(self.check_n(n), holdout)
        if self._component_sizes.max() <= size or not self._is_finite:
            return super().split(n, holdout, random_state=random_state)
        rng = generator(random_state)
        random_split = Independent().split(n, holdout, random_state=rng)
        if self._to_estimate or self._words:  # strengths that are read off labels
            return random_split
        chosen = independent_set(self.adjacency_, size, rng)
        # Graph and seed decide, no record (theory G27): nodes at random if these are worth more.
        if len(chosen) < size:
            n_effective_random = self._induced(random_split.holdout, tables=False).effective_n(size)
            chosen = random_split.holdout if n_effective_random > len(chosen) else chosen
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the network of a holdout given all other records (theory G13, G27).

        Without an edge between them nodes are independent, at any strength. Else edges keep their
        diameters and only fields change, so every bound that is uniform in the fields holds:
        messages, layers and the heat bath, which use diameters alone. Tables are dropped, because
        stationary rows and exact quilts are not uniform.
        """
        indices = check_indices(indices, self.n_records)
        if self._to_estimate:
            raise ValueError(
                "influence='estimate' needs training labels: call with_estimated_strength(labels, "
                "train) first."
            )
        if self.has_whole_components(indices) or not self._is_finite:
            return self.subset(indices)
        if not self.adjacency_[indices][:, indices].nnz:
            return nodes_given_rest(self, indices, np.arange(len(indices)))
        return self._induced(indices, tables=False, given_rest=True)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if not self.has_whole_components(indices):
            return super().subset(indices)
        return self._induced(indices, caveats=self._excluded(indices))

    def _induced(self, indices, *, tables=True, given_rest=False, caveats=()):
        number = np.full(self.n_records, -1)
        number[indices] = np.arange(len(indices))
        factors = [
            (tuple(int(number[v]) for v in scope), table)
            for scope, table in self._factors
            if tables and number[scope[-1]] >= 0
        ]
        model = object.__new__(type(self))
        model._set_network(
            sparse.csr_array(self.adjacency_[indices][:, indices]),
            nodes=self.names(indices),
            factors=factors,
            given_rest=given_rest or self._given_rest,
            words=self._words,
            caveats=(*self._assumed, *caveats),
        )
        return model


def _edges_with_influences(graph, influence):
    """Return the edges with the influences of an edge attribute, or of the entries of a matrix."""
    if not is_networkx(graph) and influence != "data":
        raise ValueError(
            f"influence={influence!r} needs a networkx graph with this edge attribute, got "
            f"{type(graph).__name__}. influence='data' reads the entries of a matrix."
        )
    edges = read_edges(graph, weight=influence if is_networkx(graph) else None)
    if edges.weights is None:
        raise ValueError(
            f"influence={influence!r} reads the entries of a matrix, and graph "
            f"({type(graph).__name__}) has edges without entries. Pass a scipy.sparse matrix "
            "with influences in nats, or a number for all edges."
        )
    return edges


def _check_classes(labels):
    """Raise ValueError if labels are numbers of a regression, or mark unlabeled nodes by -1."""
    if labels.dtype.kind == "f" and (labels % 1 != 0).any():
        raise ValueError(
            "influence='estimate' reads class labels, got those of a regression. Use "
            "MarkovNetwork(graph), which needs no strength."
        )
    if labels.dtype.kind in "if" and labels.min() == -1 and not np.isin(labels, (-1, 1)).all():
        raise ValueError(
            "labels must be classes of known nodes, got -1 beside other classes. Declare "
            "unlabeled nodes by MarkovNetwork(graph, labeled=...)."
        )


def _check_influences(matrix, influence):
    """Raise ValueError if an influence is infinite, or if all look like distances."""
    if np.isinf(matrix.data).any():
        raise ValueError(
            "influence must be finite on every edge; MarkovNetwork(graph) needs no strength."
        )
    if matrix.nnz and _are_distances(matrix):
        raise ValueError(
            f"influence={influence!r} reads strengths in nats, and the edges of graph look "
            "like distances. Use MarkovNetwork(graph), which needs no strength."
        )


class MarkovNetwork(NetworkModel):
    r"""Records on nodes of an undirected graph, each depending on others only through neighbors.

    Parameters
    ----------
    graph : scipy.sparse matrix, networkx graph, array or table of shape (n, n), dict or list
        As for :class:`DependencyGraph`. Directed graphs count in either direction.
    influence : float, str or None, default=None
        ``None``: dependence along edges of any strength. Nodes of which no two are neighbors are
        held out. Given all other nodes, these are independent. A number: the largest projective
        diameter of an edge, in nats, that is, the largest log cross-ratio of its potential
        :math:`\ln\frac{\psi(a,b)\psi(a',b')}{\psi(a,b')\psi(a',b)}`. A random
        holdout is then used instead if its effective size is larger. ``"data"``: the entries of
        the matrix, in nats. The name of an edge attribute: its values, in nats. ``"estimate"``:
        searches read it off the labels of the training nodes, after a random split
        (:meth:`with_estimated_strength`; an assumption).
    nodelist : array-like of shape (n,), optional
        Node that each row of ``X`` is, as for :class:`DependencyGraph`.
    labeled : array-like, optional
        Nodes that have a row in ``X``, in the order of the rows: names, such as ``X.index``, or
        positions in a matrix. A boolean mask over all nodes keeps their order. All
        other nodes have no row or no label, and dependence passes through them. Needs
        ``influence=None``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        Edge diameters in nats, infinite if ``influence`` is None. Nodes without a row come last.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    ValueError
        If an influence is negative, NaN or infinite, or nodes are named that do not exist.

    See Also
    --------
    DependencyGraph : Independence without conditioning on neighbors.

    Notes
    -----
    With ``influence=None`` the labels, given the features, are assumed to be Markov on the graph:
    given its neighbors, a label does not depend on other nodes (theory G27). Nothing is assumed
    about strengths, and nothing is learned. With strengths the distribution is proportional to
    the product of potentials over edges and single records, and diameters suffice for every bound.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_bdp.correlation import MarkovNetwork
    >>> network = MarkovNetwork(nx.path_graph(1000))
    >>> holdout = network.split(1000, 0.25, random_state=0).holdout
    >>> network.conditional_on_rest(holdout).effective_n(250)
    250.0
    >>> path = MarkovNetwork(nx.path_graph(1000), influence=1.0)
    >>> round(path.bdp_epsilon(0.01, 1000), 4)
    0.0165
    """

    fingerprint_name = "MarkovNetwork"
    _kind = "Markov network"

    def __new__(
        cls,
        graph: Any = _NO_GRAPH,
        *,
        influence: float | str | None = None,
        nodelist: ArrayLike | None = None,
        labeled: ArrayLike | None = None,
    ) -> Any:
        """Return a network; an ``UnknownStrengthNetwork`` if ``influence=None`` (theory G27)."""
        if graph is _NO_GRAPH or influence is not None:
            return super().__new__(cls)
        return UnknownStrengthNetwork(graph, nodelist, labeled)

    def __init__(
        self,
        graph: Any,
        *,
        influence: float | str | None = None,
        nodelist: ArrayLike | None = None,
        labeled: ArrayLike | None = None,
    ) -> None:
        if labeled is not None:
            raise ValueError(f"labeled= needs influence=None, any strength, got {influence=}.")
        self._to_estimate = isinstance(influence, str) and influence == "estimate"
        if isinstance(influence, str) and not self._to_estimate:
            edges = _edges_with_influences(graph, influence)
            matrix, nodes = read_graph(edges, reads_weights=True, nodelist=nodelist)
            _check_influences(matrix, influence)
        else:  # influences to be estimated are unrestricted until then
            value = math.inf
            if not self._to_estimate:
                value = check_real("influence", influence, low=0.0)
            edges = read_edges(graph)
            matrix, nodes = read_graph(edges, reads_weights=False, nodelist=nodelist)
            matrix.data = np.full_like(matrix.data, value)
            matrix.eliminate_zeros()
        self._set_network(matrix, nodes=nodes)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        *,
        n_nodes: int | None = None,
        nodelist: ArrayLike | None = None,
        influence: float | str | None = None,
        labeled: ArrayLike | None = None,
    ) -> Any:
        """Return the network of a list of edges.

        Parameters
        ----------
        edges : array-like of shape (n_edges, 2) or (2, n_edges), list of pairs, or table
            As for :meth:`DependencyGraph.from_edges`.
        n_nodes : int, optional
            Number of nodes, if the ends are positions. By default, 1 more than the largest.
        nodelist : array-like of shape (n,), optional
            Node that each row of ``X`` is, for example ``X.index``; also names nodes without an
            edge. Integers are names if it is given.
        influence : float, "estimate" or None, default=None
            As for the class; one for all edges.
        labeled : array-like, optional
            As for the class, in the place of ``nodelist``: names of the nodes that have a row in
            ``X``. Other names in ``edges`` are nodes without a row. With ``n_nodes``: positions,
            or a mask.

        Returns
        -------
        MarkovNetwork
            The network.

        Raises
        ------
        ValueError
            If an end is not a node, or the array can be read in two ways.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_bdp.correlation import MarkovNetwork
        >>> edge_index = np.array([[0, 1, 2], [1, 2, 3]])
        >>> MarkovNetwork.from_edges(edge_index, n_nodes=6)
        MarkovNetwork(<6 records, 3 edges, 3 components>)
        """
        names = nodelist
        if names is None and n_nodes is None and labeled is not None and not is_mask(labeled):
            names = labeled
        data = edges_between(edges, n_nodes=n_nodes, nodes=names)
        return cls(data, influence=influence, nodelist=nodelist, labeled=labeled)

    def with_estimated_strength(self, labels: ArrayLike, train: ArrayLike) -> MarkovNetwork:
        """Return the network with the strength read off training labels: an assumption.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Class of each node; only those of training nodes are read.
        train : array-like of int
            The training nodes.

        Returns
        -------
        MarkovNetwork
            One influence for all edges; its description and every certificate say "assumed". The
            network itself unless it was made with ``influence="estimate"``.

        Raises
        ------
        ValueError
            If labels have one class or no neighbors, or neighbors determine each other.

        Notes
        -----
        A Potts model by pseudo-likelihood (Besag 1975) on edges between labeled nodes, with a
        normal upper limit. Assumed are that form, one coupling for all edges, and that scores
        depend on each other no more than labels do.

        Examples
        --------
        >>> import networkx as nx
        >>> import numpy as np
        >>> from sklearn_bdp.correlation import MarkovNetwork
        >>> labels, train = np.random.default_rng(0).integers(0, 2, 900), np.arange(700)
        >>> model = MarkovNetwork(nx.grid_2d_graph(30, 30), influence="estimate")
        >>> bool(0 < model.with_estimated_strength(labels, train).adjacency_.max() < 0.8)
        True
        """
        if not self._to_estimate:
            return self
        if labels is None:
            raise ValueError("influence='estimate' reads class labels, got y=None.")
        train_nodes = np.asarray(train)
        values = np.asarray(labels)[train_nodes]
        _check_classes(values)
        structure = self.adjacency_
        part = structure[train_nodes][:, train_nodes].astype(bool).astype(float)
        influence = label_coupling(part, label_codes(values))
        structure.data = np.full_like(structure.data, influence)
        model = object.__new__(type(self))
        model._set_network(
            structure,
            nodes=self._nodes,
            words=f"assumed from {len(train_nodes)} training labels (pseudo-likelihood, influence "
            f"of an edge at most {influence:.3g} at confidence {CONFIDENCE:g}): ",
            caveats=(
                "Assumed, not proved: labels follow a Potts model with one coupling for all edges, "
                "and scores depend on each other no more than labels do.",
            ),
        )
        return model


def _are_distances(matrix):
    """Return whether entries that differ obey the triangle inequality in many triangles."""
    if not matrix.data.std() > 0.25 * matrix.data.mean():
        return False
    n_triangles = 0
    start = matrix.indptr
    for node in range(min(1000, matrix.shape[0])):
        of_node = slice(start[node], start[node + 1])
        neighbors = matrix.indices[of_node]
        edge_values = matrix.data[of_node]
        opposite = sparse.coo_array(matrix[neighbors][:, neighbors])
        first_ends, second_ends = opposite.coords
        path_values = edge_values[first_ends] + edge_values[second_ends]
        if (opposite.data > path_values * (1.0 + 1e-9)).any():
            return False
        n_triangles += opposite.nnz // 2
    return n_triangles >= 30


def label_coupling(graph, y):
    """Return an upper limit of the diameter of edges, in nats, by pseudo-likelihood (Potts)."""
    influence, error = fit_potts(graph, y)
    limit = influence + norm.ppf(CONFIDENCE) * error
    if not limit < 2.0 * LARGEST_COUPLING:
        raise ValueError(
            "labels of neighbors determine each other: declare the strength yourself, "
            "MarkovNetwork(graph, influence=...), or use DependencyGraph(graph)."
        )
    return float(limit)


def fit_potts(graph, y):
    r"""Return the diameter of edges, in nats, by pseudo-likelihood (Potts), and its standard error.

    :math:`P[y_i = k \mid \text{rest}] \propto \exp(h_k + J m_{ik})` with :math:`m_{ik}` the number
    of neighbors of ``i`` in class ``k`` (Besag 1975), on the graph of the labeled nodes, whose
    classes ``0, 1, …`` are ``y``. The diameter of an edge is :math:`2|J|`. The standard error is a
    sandwich estimate with the cross terms of neighbors, and never below the naive one.
    """
    if not y.max() > 0:
        raise ValueError("labels must hold at least two classes, got 1.")
    if not graph.nnz:
        raise ValueError("labels must include two neighbors, got labeled nodes without an edge.")
    n = len(y)
    k = int(y.max()) + 1
    fields = np.broadcast_to(np.eye(k)[:, 1:], (n, k, k - 1))
    # Derivatives of every class's log-weight: fields (the first is zero), then the coupling.
    features = np.concatenate([fields, (graph @ np.eye(k)[y])[:, :, None]], axis=2)
    observed_features = features[np.arange(n), y]

    def weighted(theta):
        logits = features @ theta
        total = logsumexp(logits, axis=1)
        weights = np.exp(logits - total[:, None])
        return total, weights, np.einsum("nk,nkp->np", weights, features)

    def loss(theta):
        total, _, mean = weighted(theta)
        slope = (mean - observed_features).sum(axis=0) / n
        return (total - observed_features @ theta).sum() / n, slope

    bounds = [(None, None)] * (k - 1) + [(-LARGEST_COUPLING, LARGEST_COUPLING)]
    theta = minimize(loss, np.zeros(k), jac=True, method="L-BFGS-B", bounds=bounds).x
    _, weights, mean = weighted(theta)
    try:
        second = np.einsum("nk,nkp,nkq->pq", weights, features, features)
        inverse = np.linalg.inv(second - mean.T @ mean)
        scores = observed_features - mean
        middle = scores.T @ scores + scores.T @ (graph @ scores)
        error = np.sqrt(max(inverse[-1, -1], (inverse @ middle @ inverse)[-1, -1]))
    except np.linalg.LinAlgError:
        error = np.inf
    return float(2.0 * abs(theta[-1])), float(2.0 * error)


class BayesianNetwork(NetworkModel):
    """Records on a directed acyclic graph with conditional probability tables.

    The values of the tables are the records. Hidden values that records depend on are only covered
    if whole components are held out: given noisy records of its neighbors, a hidden value still
    depends on others.

    Parameters
    ----------
    parents : list of lists of int, or mapping of int to list of int
        Parents of each record ``0 … n-1``; records missing from a mapping have none.
    tables : list or mapping of array-like
        ``tables[i]`` has one axis per parent of ``i`` (in their order) and a last axis for the
        value of ``i``, along which it sums to one.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        Moral graph (a record, its parents, and parents of a common child joined), with the
        projective diameters of the pairs in nats.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    ValueError
        If there is a directed cycle, a table of the wrong shape, or one that does not sum to
        one.

    See Also
    --------
    MarkovNetwork : An undirected graph.

    Examples
    --------
    >>> from sklearn_bdp.correlation import BayesianNetwork
    >>> tables = [[0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]]
    >>> network = BayesianNetwork([[], [0], [0]], tables)
    >>> round(network.bdp_epsilon(0.01, 3), 4)
    0.0202
    """

    fingerprint_name = "BayesianNetwork"
    _kind = "Bayesian network"

    def __init__(self, parents: Any, tables: Any) -> None:
        n = len(tables)
        if n < 1:
            raise ValueError("tables must hold at least one table, got none.")
        parents = _check_parents(parents, n)
        checked_tables = {}
        factors = []
        for i in range(n):
            table = tables[i]
            if id(table) not in checked_tables:  # shared tables are checked and kept once
                checked_tables[id(table)] = (table, _check_conditional(f"tables[{i}]", table))
            array = checked_tables[id(table)][1]
            if array.ndim != len(parents[i]) + 1:
                raise ValueError(
                    f"tables[{i}] needs an axis for each of {[*parents[i], i]}, got {array.shape}."
                )
            factors.append(((*parents[i], i), array))
        _check_numbers_of_values(factors)
        self._set_network(diameter_graph(factors, n), factors=factors)

    def _roots(self):
        # Records without parents: then the tables of a tree are its kernels from root to leaf.
        root_records = np.array([scope[-1] for scope, _ in self._factors if len(scope) == 1])
        if not len(root_records):  # given the rest, tables are gone
            return super()._roots()
        return root_records[np.unique(self.components_[root_records], return_index=True)[1]]

    def _kernels(self):
        """Return the table of each record given its parent in :meth:`_rooted`, None for roots."""
        table = {scope[-1]: table for scope, table in self._factors if len(scope) == 2}
        return [table.get(record) for record in self._rooted()[0].tolist()]

    def _contractions(self):
        if not self._factors:
            return super()._contractions()
        coefficients: dict[int, float] = {}  # shared tables are measured once
        return np.array(
            [
                0.0 if kernel is None else coefficients.setdefault(id(kernel), dobrushin(kernel))
                for kernel in self._kernels()
            ]
        )


def _check_numbers_of_values(factors):
    """Raise if tables disagree on the number of values of a record."""
    n_values = [table.shape[-1] for _, table in factors]
    for scope, table in factors:
        for record, size in zip(scope, table.shape, strict=True):
            if n_values[record] != size:
                raise ValueError(
                    f"tables must agree on how many values record {record} has, got "
                    f"{n_values[record]} and {size}."
                )


def _check_conditional(name, table):
    """Return a table as a frozen array whose last axis sums to one."""
    array = check_array(name, table, low=0.0).copy()
    if array.ndim < 1 or not array.size:
        raise ValueError(f"{name} must have an axis for the value of the record, got a number.")
    array.setflags(write=False)
    sums = array.sum(axis=-1)
    if not np.all(np.abs(sums - 1.0) <= 1e-8):
        worst = float(sums.flat[np.argmax(np.abs(sums - 1.0))])
        raise ValueError(f"{name} must sum to one along its last axis, got {worst:.12g}.")
    return array


def _check_parents(parents, n):
    """Return each record's parents as a tuple.

    Raises ValueError for unknown or repeated records and for directed cycles.
    """
    if hasattr(parents, "items"):
        records = range(n)
        unknown = [
            key for key in parents if not isinstance(key, int | np.integer) or key not in records
        ]
        if unknown:
            raise ValueError(f"parents must name records 0 … {n - 1}, got {unknown[0]!r}.")
        parents = [parents.get(i, ()) for i in records]
    if len(parents) != n:
        raise ValueError(f"parents must hold {n} entries, one per table, got {len(parents)}.")
    parents_by_record = []
    for i, record_parents in enumerate(parents):
        record_parents = () if record_parents is None else record_parents
        parents_by_record.append(_parents_of_record(i, record_parents, n))
    _check_no_cycle(parents_by_record, n)
    return parents_by_record


def _parents_of_record(record, parents, n):
    """Return the parents of a record as a tuple of distinct other records."""
    name = f"parents[{record}]"
    checked = tuple(check_integer(name, v, low=0, high=n - 1) for v in parents)
    if record in checked or len(set(checked)) < len(checked):
        raise ValueError(f"{name} must be distinct other records, got {list(checked)}.")
    return checked


def _check_no_cycle(parents, n):
    """Raise if a record is its own ancestor."""
    ends = [(i, v) for i, record_parents in enumerate(parents) for v in record_parents]
    rows, columns = np.array(ends, dtype=int).reshape(-1, 2).T
    graph = sparse.coo_array((np.ones(len(ends)), (rows, columns)), shape=(n, n))
    count, label = connected_components(graph, directed=True, connection="strong")
    if count < n:
        record = int(np.flatnonzero(np.bincount(label)[label] > 1)[0])
        raise ValueError(f"parents must have no directed cycle, got one through record {record}.")


def diameter_graph(factors, n):
    """Return the symmetric matrix of edge diameters (sums over the factors of a pair).

    Sums of pairwise diameters bound the diameter between any two sets of records, because a
    mixed second difference of the log-factor telescopes over single records. Records of one
    factor stay joined even if it does not couple them, so that factors never span components.
    """
    axis_diameters = {}
    rows = []
    columns = []
    data = []
    for scope, table in factors:
        for a in range(len(scope)):
            for b in range(a + 1, len(scope)):
                key = (id(table), a, b)  # shared tables are measured once
                if key not in axis_diameters:
                    # The largest log cross-ratio of two axes, the other axes held fixed.
                    moved = np.moveaxis(table, (a, b), (-2, -1))
                    parts = moved.reshape(-1, table.shape[a], table.shape[b])
                    axis_diameters[key] = max(
                        projective_diameter(part) for part in parts if part.max() > 0
                    )
                rows.append(min(scope[a], scope[b]))
                columns.append(max(scope[a], scope[b]))
                data.append(max(axis_diameters[key], 1e-13))
    matrix = sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=(n, n), dtype=float))
    matrix = sparse.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    return matrix


def rooted(matrix, roots, is_included):
    """Return a breadth-first order of the included records, and the position of each one's parent.

    ``roots`` holds one record per component. The sweeps below work on positions in this
    order, so that memory is read in sequence and ``parent[k] < k`` always; ``-1`` marks roots.
    """
    n = matrix.shape[0]
    # One extra node points at every root, so that a single search covers all components.
    indptr = np.r_[matrix.indptr, matrix.indptr[-1] + len(roots)]
    indices = np.r_[matrix.indices, roots]
    graph = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(n + 1, n + 1))
    order, predecessors = breadth_first_order(graph, n, directed=True, return_predecessors=True)
    order = order[1:].astype(np.int64)
    order = order[is_included[order]]
    position = np.full(n + 1, -1)
    position[order] = np.arange(len(order))
    return order, position[predecessors[order]]


def couplings(parent, contractions):
    """Return ``theta_v R_v`` of each node: the cost of its parent's change in its subtree.

    ``R_v = 1 + sum_children theta_c R_c`` are the expected records that feel a change at ``v``;
    ``contractions`` are the Dobrushin coefficients of the kernels given the parents.
    """
    reach = [1.0] * len(parent)
    passed = [0.0] * len(parent)
    for v in range(len(parent) - 1, -1, -1):
        passed[v] = contractions[v] * reach[v]
        if parent[v] >= 0:
            reach[parent[v]] += passed[v]
    return passed


def block_costs(parent, components, unit, passed, target):
    """Return per component the sum over blocks of ``(size * unit + messages from outside)^2``.

    Blocks are connected, at most ``target`` nodes each, grown from the leaves; they are revealed
    roots first, so only the subtrees below a block feel it. Any partition gives a valid bound.
    ``unit`` is the cost of one record of a block by itself, ``passed`` the amount that a node's
    subtree adds to the block of its parent.
    """
    cost = [0.0] * (max(components) + 1)
    size = [1] * len(parent)
    outside = [0.0] * len(parent)
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]
        if p >= 0 and size[p] + size[v] <= target:
            size[p] += size[v]
            outside[p] += outside[v]
            continue
        cost[components[v]] += (size[v] * unit + outside[v]) ** 2
        if p >= 0:
            outside[p] += passed[v]
    return np.array(cost)


def best_block_costs(parent, components, unit, passed):
    """Return the smallest :func:`block_costs` per component over a few block sizes."""
    typical = float(np.mean(passed)) / unit
    targets = sorted({1, *(max(1, math.ceil(typical * f)) for f in (0.5, 1.0, 2.0))})
    return np.min([block_costs(parent, components, unit, passed, t) for t in targets], axis=0)


def dobrushin_reach(matrix, components):
    """Return ``r >= (I - C)^{-1} 1``, expected records that feel a change of each record.

    ``C_ij = tanh(diameter_ij / 4)`` bounds how far record ``j`` moves the distribution of ``i``
    given all others. If the series diverges in a component, its entries are infinite.

    They are the martingale differences of any query, in units of its sensitivity. ``matrix`` holds
    symmetric edge diameters in nats.

    Dobrushin 1970; Kuelske 2003, Concentration inequalities for functions of Gibbs fields,
    Theorem 1 (the past of an order only fixes records, which removes rows of ``C``).
    """
    contraction = sparse.csr_array(
        (np.tanh(matrix.data / 4.0), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    reach = np.ones(matrix.shape[0])
    for _ in range(500):
        new = 1.0 + contraction @ reach
        is_converged = new.max() > 1e6 or float((new - reach).max()) <= 1e-10 * float(new.max())
        reach = new
        if is_converged:
            break
    reach = reach * (1.0 + 1e-6)
    # Only a super-solution bounds the series from above: r >= 1 + C r, component by component.
    fails = reach < 1.0 + contraction @ reach
    bad = np.zeros(int(components.max()) + 1, dtype=bool)
    bad[components[fails]] = True
    return np.where(bad[components], np.inf, reach)
