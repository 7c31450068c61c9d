"""Networks of records with a known or estimated strength of dependence along each edge.

The module has Markov networks, Bayesian networks, and bounds on the number of records that a change
of one record affects.
"""

from __future__ import annotations

import dataclasses
import itertools
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

MAX_COUPLING = 12.0  # of a Potts model; beyond it neighbors determine each other
CONFIDENCE = 0.95  # of the upper limit of an estimated influence
_NO_GRAPH: Any = object()  # replaces the graph when a pickle makes an object without arguments


class NetworkModel(GraphModel):
    """Base class of networks: graphs whose edges have projective diameters, in nats."""

    _to_estimate = False  # whether the strength is estimated from training labels after the split
    _kind: str  # name of the class in descriptions

    def _set_network(
        self, matrix, *, nodes=None, factors=(), given_rest=False, prefix="", caveats=()
    ):
        """Set all attributes but ``_to_estimate``, which must be set before, and freeze.

        ``matrix``: CSR matrix of edge diameters in nats. ``nodes``: :class:`NodeNames` of the
        records, or None. ``factors``: pairs ``(scope, table)`` of a Bayesian network; ``scope`` is
        the record of each axis of ``table``. ``given_rest``: whether the model is conditional on
        all other records (theory G13). ``prefix``: start of the description if the strength was
        estimated, else empty. ``caveats``: sentences for certificates.
        """
        matrix.sort_indices()  # for the bisection of edges in `_rooted_forest`
        self._set_graph(matrix, nodes=nodes, caveats=caveats)
        self._factors = tuple(factors)
        self._words = prefix
        self._own_caveats = caveats  # without GIVEN_CAVEATS
        sizes = np.bincount(self.components_)
        degree = np.diff(matrix.indptr)
        n_edges = np.bincount(self.components_, weights=degree) / 2  # per component
        self._component_sizes = sizes
        self._is_tree = n_edges == sizes - 1  # per component
        self._given_rest = given_rest
        if given_rest:
            self._target = GIVEN_NODES
            self.caveats = caveats + GIVEN_CAVEATS
        # If all diameters are finite, folds and splitters may separate records of a component, once
        # the largest component exceeds a quarter of the records. `split` does if it exceeds the
        # holdout.
        self._is_finite = self._to_estimate or bool(np.isfinite(self._data).all())
        may_be_split = given_rest or sizes.max() > self.n_records / 4
        self._bounds_hold_given_rest = bool(may_be_split and self._is_finite)
        content = [item for factor in self._factors for item in factor]  # scopes and tables
        if given_rest:
            content.append("given the rest")
        if prefix:
            content += [prefix, *caveats]
        self._freeze(*content)

    @property
    def is_estimated(self) -> bool:
        """Whether the strength was, or will be, estimated from training labels."""
        return bool(self._to_estimate or self._words)

    # -- derived structure, computed once ---------------------------------------------------

    def _rooted_forest(self):
        """Return ``(order, parent, diameters)`` of the records in components that are trees.

        ``order``: these records, parents before children. ``parent``: the position in ``order`` of
        the parent of each, -1 for roots. ``diameters``: projective diameter of the edge to the
        parent in nats, 0 for roots.
        """

        def compute():
            matrix = self.adjacency_
            n = self.n_records
            order, parent = breadth_first_forest(
                matrix, self._roots(), self._is_tree[self.components_]
            )
            has_parent = np.flatnonzero(parent >= 0)
            # An edge (i, j) is looked up by the number i n + j, ascending in a CSR matrix.
            sources = np.repeat(np.arange(n), np.diff(matrix.indptr))
            edge_numbers = sources * n + matrix.indices
            parent_edge_numbers = order[has_parent] * n + order[parent[has_parent]]
            diameters = np.zeros(len(parent))
            diameters[has_parent] = matrix.data[np.searchsorted(edge_numbers, parent_edge_numbers)]
            return order, parent, diameters

        return cached(self, "rooted", compute)

    def _roots(self):
        """Return one record per component: its root if the component is a tree."""
        return np.unique(self.components_, return_index=True)[1]

    def _contractions(self):
        """Return bounds on the Dobrushin coefficient of each record given its parent, 0 for roots.

        The vector is in the order of :meth:`_rooted_forest`.
        """
        _, _, diameters = self._rooted_forest()
        return np.tanh(diameters / 4.0)

    def _block_costs(self, record_cost, subtree_costs):
        """Return :func:`best_block_costs` of each component, infinite if it is not a tree.

        ``record_cost``: cost of one record. ``subtree_costs``: cost of the subtree of each record,
        in the order of :meth:`_rooted_forest`.
        """
        order, parent, _ = self._rooted_forest()
        component_of_node = self.components_[order].tolist()
        costs = best_block_costs(parent.tolist(), component_of_node, record_cost, subtree_costs)
        costs = np.r_[costs, np.zeros(self.n_components_ - len(costs))]
        return np.where(self._is_tree, costs, math.inf)

    def _n_affected(self):
        """Return a bound on the expected number of records that a change of each record affects.

        It is infinite if :func:`dobrushin_n_affected` finds no bound.
        """
        return cached(
            self,
            "number of affected records",
            lambda: dobrushin_n_affected(self.adjacency_, self.components_),
        )

    # -- concentration ----------------------------------------------------------------------

    def sampling_scheme(self, n: int) -> SamplingScheme:
        # Edges have a known strength, so single records count, not whole components.
        return dataclasses.replace(
            super().sampling_scheme(n),
            n_units=self.n_records,
            unit_name="records",
            exchangeable=not self._given_rest,
            block_codes=None,
        )

    def _variance_proxy(self, n, is_mean):
        return cached(self, "variance proxy", self._compute_variance_proxy)

    def _compute_variance_proxy(self):
        """Return the variance proxy ``C`` of theory H1-H5, by the smallest bound per component."""
        # Per component: sums of squared martingale differences.
        bounds = self._component_sizes.astype(float) ** 2
        walk_bounds = np.bincount(self.components_, weights=self._n_affected() ** 2)
        bounds = np.minimum(bounds, walk_bounds)
        if self._is_tree.any():
            # Theory H5, rooted forest: martingale differences R_v, here also for merged blocks.
            _, parent, _ = self._rooted_forest()
            n_affected = affected_in_subtrees(parent.tolist(), self._contractions().tolist())
            bounds = np.minimum(bounds, self._block_costs(1.0, n_affected))
        return float(bounds.sum())

    def _lower_limit(self, values, log_failures, n, binary):
        # Components are independent (theory G12); within them the dependence may be weak (H5).
        sizes, n_components_per_size = component_sizes(self, n)
        return np.maximum(
            CorrelationModel._lower_limit(self, values, log_failures, n, binary),
            component_lower_limit(values, log_failures, sizes, n_components_per_size),
        )

    # -- description, splits and subsets ------------------------------------------------------

    def describe(self) -> str:
        condition = ", given all other records" if self._given_rest else ""
        return (
            f"{self._words}{self._kind} of {self.n_records} records in {self.n_components_} "
            "independent components, 1 record in "
            f"{self.n_records / self.effective_n(self.n_records):.1f} counts{condition}"
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n_holdout = holdout_size(self.check_n(n), holdout)
        if self._component_sizes.max() <= n_holdout or not self._is_finite:
            return super().split(n, holdout, random_state=random_state)
        rng = generator(random_state)
        random_split = Independent().split(n, holdout, random_state=rng)
        if self.is_estimated:
            return random_split
        held_out = independent_set(self.adjacency_, n_holdout, rng)
        if len(held_out) < n_holdout:
            # Random nodes if their effective number is larger. The choice depends on the graph and
            # the seed only (theory G27).
            random_model = self._induced(random_split.holdout, tables=False)
            if random_model.effective_n(n_holdout) > len(held_out):
                return random_split
        return Split(np.setdiff1d(np.arange(n), held_out), held_out)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of a holdout given all other records (theory G13, G27).

        Whole components have the model of :meth:`subset`, and so has any holdout if a diameter is
        infinite. Nodes without an edge between them have a ``ConditionallyIndependent`` model.
        Other holdouts have a network with the same diameters and without the tables of a Bayesian
        network. Raises ValueError if the strength has yet to be estimated.
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
        return self._induced(indices, caveats=self._excluded_caveats(indices))

    def _induced(self, indices, *, tables=True, given_rest=False, caveats=()):
        """Return the network of some records and the edges between them.

        ``tables``: whether to keep the tables, which needs whole components. ``given_rest``:
        whether it is conditional on all other records. ``caveats``: sentences to add to those of
        this network.
        """
        new_number = np.full(self.n_records, -1)  # of each record; -1 if it is dropped
        new_number[indices] = np.arange(len(indices))
        factors = []
        for scope, table in self._factors if tables else ():
            if new_number[scope[-1]] >= 0:
                factors.append((tuple(int(new_number[record]) for record in scope), table))
        model = object.__new__(type(self))
        model._set_network(
            sparse.csr_array(self.adjacency_[indices][:, indices]),
            nodes=self.names(indices),
            factors=factors,
            given_rest=given_rest or self._given_rest,
            prefix=self._words,
            caveats=(*self._own_caveats, *caveats),
        )
        return model


def _edges_with_influences(graph, influence):
    """Return the :class:`EdgeData` of a graph whose weights are influences in nats.

    ``influence``: the edge attribute of a networkx graph to read, or ``"data"`` for the entries of
    a matrix. Raises ValueError if ``graph`` has no such values.
    """
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
    """Raise ValueError if a label is a fraction or NaN, or if -1 occurs beside others than 1."""
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
    """Raise ValueError if an influence is infinite, or if influences look like distances.

    ``matrix``: CSR matrix of influences in nats. ``influence``: name of the edge attribute, or
    ``"data"``, for the error.
    """
    if np.isinf(matrix.data).any():
        raise ValueError(
            "influence must be finite on every edge. MarkovNetwork(graph) needs no strength."
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
        As for :class:`DependencyGraph`. Directions of edges are ignored.
    influence : float, str or None, default=None
        ``None``: dependence along edges of any strength; the constructor returns an
        ``UnknownStrengthNetwork``. Nodes of which no two are neighbors are held out. Given all
        other nodes, these are independent. A number: the largest projective diameter of an edge, in
        nats, that is, the largest log cross-ratio of its potential
        :math:`\ln\frac{\psi(a,b)\psi(a',b')}{\psi(a,b')\psi(a',b)}`. Whole components are then
        held out if none is larger than the holdout. Otherwise, nodes of which no two are neighbors
        are held out, or random nodes if these have a larger effective number.
        ``"data"``: the entries of the matrix, in nats. The name of an edge attribute: its values,
        in nats. ``"estimate"``: searches estimate it from the labels of the training nodes, after
        the split (:meth:`with_estimated_strength`; an assumption).
    nodelist : array-like of shape (n,), optional
        Name of the node in each row of ``X``, as for :class:`DependencyGraph`.
    labeled : array-like, optional
        Nodes that have a row in ``X``, in the order of the rows: names, such as ``X.index``, or
        positions in a matrix. A boolean mask over all nodes keeps their order. All other nodes have
        no row or no label, and dependence passes through them. Needs ``influence=None``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n_nodes, n_nodes)
        Edge diameters in nats, infinite if ``influence`` is None or not estimated yet. Nodes
        without a row come last.
    components_, n_components_ : ndarray of int, int
        As for :class:`DependencyGraph`.

    Raises
    ------
    TypeError
        If ``graph`` is not a graph, or ``influence`` is neither a number nor text.
    ValueError
        If an influence is negative, NaN or infinite, if entries read as influences look like
        distances, if nodes are named that do not exist, or if ``labeled`` is passed with an
        influence. Also for the reasons of :class:`DependencyGraph`.

    See Also
    --------
    DependencyGraph : Independence without conditioning on neighbors.

    Notes
    -----
    With ``influence=None`` the labels, given the features, are assumed to be Markov on the graph:
    given its neighbors, a label does not depend on other nodes (theory G27). Nothing is assumed
    about strengths. With strengths the distribution is proportional to the product of potentials
    over edges and single records, and diameters suffice for every bound.

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
        """Return a network, or an ``UnknownStrengthNetwork`` if ``influence=None`` (theory G27)."""
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
        # With influence=None, ``__new__`` returns another class, and this method is not called.
        if labeled is not None:
            raise ValueError(f"labeled= needs influence=None, any strength, got {influence=}.")
        self._to_estimate = isinstance(influence, str) and influence == "estimate"
        if isinstance(influence, str) and not self._to_estimate:
            edges = _edges_with_influences(graph, influence)
            matrix, nodes = read_graph(edges, reads_weights=True, nodelist=nodelist)
            _check_influences(matrix, influence)
        else:
            diameter = math.inf  # until it is estimated
            if not self._to_estimate:
                diameter = check_real("influence", influence, low=0.0)
            edges = read_edges(graph)
            matrix, nodes = read_graph(edges, reads_weights=False, nodelist=nodelist)
            matrix.data = np.full_like(matrix.data, diameter)
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
            Number of nodes, if the ends are positions. By default, 1 more than the largest
            position.
        nodelist : array-like of shape (n,), optional
            Name of the node in each row of ``X``, for example ``X.index``; includes nodes without
            an edge. If given, integers in ``edges`` are names. Other names in ``edges`` are nodes
            without a row if ``influence=None``, else an error.
        influence : float, "estimate" or None, default=None
            As for the class, one value for all edges.
        labeled : array-like, optional
            As for the class, instead of ``nodelist``: names of the nodes that have a row in ``X``.
            Other names in ``edges`` are nodes without a row. With ``n_nodes``: positions, or a
            mask.

        Returns
        -------
        MarkovNetwork or UnknownStrengthNetwork
            The network; an ``UnknownStrengthNetwork`` if ``influence=None``.

        Raises
        ------
        TypeError
            If ``edges`` is a graph, a mapping or no sequence, or if ``influence`` is neither a
            number nor text.
        ValueError
            If a position is not below ``n_nodes``, if ``influence`` is given and ``nodelist`` lacks
            an end, or if ``edges`` have another shape or can be read in two ways. Also if
            ``influence`` is negative, infinite, or text other than ``"estimate"``.

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
        edge_data = edges_between(edges, n_nodes=n_nodes, nodes=names)
        return cls(edge_data, influence=influence, nodelist=nodelist, labeled=labeled)

    def with_estimated_strength(self, labels: ArrayLike, train: ArrayLike) -> MarkovNetwork:
        """Return the network with a strength estimated from training labels: an assumption.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Class of each node; only those of training nodes are read.
        train : array-like of int
            Indices of the training nodes.

        Returns
        -------
        MarkovNetwork
            Network with one influence for all edges, whose description starts with "assumed". The
            network itself unless it was made with ``influence="estimate"``.

        Raises
        ------
        ValueError
            If labels are None, not classes, of one class or without neighbors, or if neighbors
            determine each other.

        Notes
        -----
        The influence is the upper confidence limit (95%, normal approximation) of a Potts model
        that is fitted by pseudo-likelihood (Besag 1975) to the edges between training nodes. It
        assumes this model, one coupling for all edges, and that scores depend on each other no more
        than labels do.

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
        training_labels = np.asarray(labels)[train_nodes]
        _check_classes(training_labels)
        structure = self.adjacency_
        training_graph = structure[train_nodes][:, train_nodes].astype(bool).astype(float)
        influence = influence_upper_limit(training_graph, label_codes(training_labels))
        structure.data = np.full_like(structure.data, influence)
        model = object.__new__(type(self))
        model._set_network(
            structure,
            nodes=self._nodes,
            prefix=f"assumed from {len(train_nodes)} training labels (pseudo-likelihood, influence "
            f"of an edge at most {influence:.3g} at confidence {CONFIDENCE:g}): ",
            caveats=(
                "Assumed, not proved: labels follow a Potts model with one coupling for all edges, "
                "and scores depend on each other no more than labels do.",
            ),
        )
        return model


def _are_distances(matrix):
    """Return whether edges look like distances: unequal, and obeying the triangle inequality.

    ``matrix``: symmetric CSR matrix. Triangles with a corner at one of the first 1,000 nodes are
    tested: the edge opposite to this corner must not be longer than the path through it. False if
    there are fewer than 30 such corners, or if the standard deviation of the entries is at most a
    quarter of their mean.
    """
    if not matrix.data.std() > 0.25 * matrix.data.mean():
        return False
    n_corners = 0  # tested, up to three of each triangle
    start = matrix.indptr
    for node in range(min(1000, matrix.shape[0])):
        node_entries = slice(start[node], start[node + 1])
        neighbors = matrix.indices[node_entries]
        entries = matrix.data[node_entries]
        # Edges between two neighbors of the node, each in both directions: each closes a triangle.
        opposite_edges = sparse.coo_array(matrix[neighbors][:, neighbors])
        first_ends, second_ends = opposite_edges.coords
        path_lengths = entries[first_ends] + entries[second_ends]
        if (opposite_edges.data > path_lengths * (1.0 + 1e-9)).any():
            return False
        n_corners += opposite_edges.nnz // 2
    return n_corners >= 30


def influence_upper_limit(graph, y):
    """Return the upper 95% confidence limit of the influence of edges, in nats.

    Arguments are those of :func:`fit_potts`. Raises ValueError if the limit is not below 24 nats.
    """
    influence, standard_error = fit_potts(graph, y)
    limit = influence + norm.ppf(CONFIDENCE) * standard_error
    if not limit < 2.0 * MAX_COUPLING:
        raise ValueError(
            "labels of neighbors determine each other: declare the strength yourself, "
            "MarkovNetwork(graph, influence=...), or use DependencyGraph(graph)."
        )
    return float(limit)


def fit_potts(graph, y):
    r"""Return the influence of edges under a Potts model, in nats, and its standard error.

    The fit maximizes the pseudo-likelihood of
    :math:`P[y_i = k \mid \text{rest}] \propto \exp(h_k + J m_{ik})` with :math:`m_{ik}` the number
    of neighbors of ``i`` in class ``k`` (Besag 1975). The influence, the projective diameter of an
    edge, is :math:`2|J|`. The standard error is a sandwich estimate with the cross terms of
    neighbors, and at least that for independent nodes. It is infinite if the information matrix has
    no inverse. ``graph``: sparse adjacency matrix of the labeled nodes. ``y``: their class codes
    ``0, 1, …``. Raises ValueError if there is one class or no edge.
    """
    if not y.max() > 0:
        raise ValueError("labels must hold at least two classes, got 1.")
    if not graph.nnz:
        raise ValueError("labels must include two neighbors, got labeled nodes without an edge.")
    n = len(y)
    n_classes = int(y.max()) + 1
    # Derivatives of the log-weight of each class at each node: by the fields of all classes but
    # the first, which is zero, then by the coupling. Shape (n, n_classes, n_classes).
    field_features = np.broadcast_to(np.eye(n_classes)[:, 1:], (n, n_classes, n_classes - 1))
    n_neighbors_by_class = graph @ np.eye(n_classes)[y]
    features = np.concatenate([field_features, n_neighbors_by_class[:, :, None]], axis=2)
    observed_features = features[np.arange(n), y]

    def predict(parameters):
        """Return log-normalizers, class probabilities and expected features, a row per node."""
        log_weights = features @ parameters
        log_normalizers = logsumexp(log_weights, axis=1)
        probabilities = np.exp(log_weights - log_normalizers[:, None])
        return log_normalizers, probabilities, np.einsum("nk,nkp->np", probabilities, features)

    def loss_and_gradient(parameters):
        log_normalizers, _, expected_features = predict(parameters)
        gradient = (expected_features - observed_features).sum(axis=0) / n
        return (log_normalizers - observed_features @ parameters).sum() / n, gradient

    bounds = [(None, None)] * (n_classes - 1) + [(-MAX_COUPLING, MAX_COUPLING)]
    parameters = minimize(
        loss_and_gradient, np.zeros(n_classes), jac=True, method="L-BFGS-B", bounds=bounds
    ).x
    _, probabilities, expected_features = predict(parameters)
    try:
        second_moments = np.einsum("nk,nkp,nkq->pq", probabilities, features, features)
        information = second_moments - expected_features.T @ expected_features
        covariance = np.linalg.inv(information)  # of the parameters, if nodes are independent
        residuals = observed_features - expected_features
        score_covariance = residuals.T @ residuals + residuals.T @ (graph @ residuals)
        sandwich = covariance @ score_covariance @ covariance
        standard_error = np.sqrt(max(covariance[-1, -1], sandwich[-1, -1]))  # of the coupling
    except np.linalg.LinAlgError:
        standard_error = np.inf
    coupling = parameters[-1]
    return float(2.0 * abs(coupling)), float(2.0 * standard_error)


class BayesianNetwork(NetworkModel):
    """Records on a directed acyclic graph with conditional probability tables.

    Axes of the tables are the values of the records themselves. If they are hidden values that
    records depend on, bounds are valid only for holdouts of whole components.

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
    TypeError
        If a parent is not an integer, or a table does not hold real numbers.
    ValueError
        If there is a directed cycle, a parent that is not a record, a record without a table, a
        table of the wrong shape, or one that does not sum to one, or if tables disagree on the
        number of values of a record.

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
        tables = _tables_in_order(tables)
        checked_tables = {}  # pairs (table, checked table) by the id of the table; some are shared
        factors = []
        for i in range(n):
            table = tables[i]
            if id(table) not in checked_tables:
                # Holding the table keeps its id from being reused.
                checked_tables[id(table)] = (table, _check_conditional_table(f"tables[{i}]", table))
            _, checked_table = checked_tables[id(table)]
            scope = (*parents[i], i)  # record of each axis
            if checked_table.ndim != len(scope):
                raise ValueError(
                    f"tables[{i}] needs an axis for each of {list(scope)}, got "
                    f"{checked_table.shape}."
                )
            factors.append((scope, checked_table))
        _check_numbers_of_values(factors)
        self._set_network(diameter_graph(factors, n), factors=factors)

    def _roots(self):
        # Records without parents, so that the table of each other record is given its tree parent.
        parentless = np.array([scope[-1] for scope, _ in self._factors if len(scope) == 1])
        if not len(parentless):  # a network given all other records has no tables
            return super()._roots()
        _, first_positions = np.unique(self.components_[parentless], return_index=True)
        return parentless[first_positions]

    def _kernels(self):
        """Return the table of each record given its one parent, None for roots.

        The list is in the order of :meth:`_rooted_forest`.
        """
        table_of_record = {scope[-1]: table for scope, table in self._factors if len(scope) == 2}
        order, _, _ = self._rooted_forest()
        return [table_of_record.get(record) for record in order.tolist()]

    def _contractions(self):
        if not self._factors:
            return super()._contractions()
        coefficient_of_table: dict[int, float] = {}  # by id, for shared tables
        contractions = []
        for kernel in self._kernels():
            if kernel is None:
                contractions.append(0.0)
                continue
            if id(kernel) not in coefficient_of_table:
                coefficient_of_table[id(kernel)] = dobrushin(kernel)
            contractions.append(coefficient_of_table[id(kernel)])
        return np.array(contractions)


def _tables_in_order(tables):
    """Return the tables of records 0, 1, … as a sequence; a mapping must have one for each."""
    if not hasattr(tables, "items"):
        return tables
    records = range(len(tables))
    missing_records = [record for record in records if record not in tables]
    if missing_records:
        raise ValueError(
            f"tables must hold a table for each record 0 … {len(tables) - 1}, got none for record "
            f"{missing_records[0]}."
        )
    return [tables[record] for record in records]


def _check_numbers_of_values(factors):
    """Raise ValueError if tables disagree on the number of values of a record.

    ``factors``: pairs ``(scope, table)``; ``scope`` is the record of each axis of ``table``.
    """
    n_values = [table.shape[-1] for _, table in factors]
    for scope, table in factors:
        for record, size in zip(scope, table.shape, strict=True):
            if n_values[record] != size:
                raise ValueError(
                    f"tables must agree on how many values record {record} has, got "
                    f"{n_values[record]} and {size}."
                )


def _check_conditional_table(name, table):
    """Return a table of conditional probabilities as a read-only array, after checking it.

    Raises ValueError if it is empty or negative, or does not sum to one along its last axis.
    ``name``: name of the table in errors, such as ``"tables[0]"``.
    """
    array = check_array(name, table, low=0.0).copy()
    if array.ndim < 1 or not array.size:
        raise ValueError(
            f"{name} must have an axis for the value of the record, and no empty axis, got shape "
            f"{array.shape}."
        )
    array.setflags(write=False)
    sums = array.sum(axis=-1)
    errors = np.abs(sums - 1.0)
    if not np.all(errors <= 1e-8):
        worst_sum = float(sums.flat[np.argmax(errors)])
        raise ValueError(f"{name} must sum to one along its last axis, got {worst_sum:.12g}.")
    return array


def _check_parents(parents, n):
    """Return a list with the tuple of parents of each of ``n`` records, after checking them.

    ``parents``: argument of :class:`BayesianNetwork`.
    """
    if hasattr(parents, "items"):
        records = range(n)
        unknown_keys = [
            key for key in parents if not isinstance(key, int | np.integer) or key not in records
        ]
        if unknown_keys:
            raise ValueError(f"parents must name records 0 … {n - 1}, got {unknown_keys[0]!r}.")
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
    """Return the parents of a record as a tuple, checked to be distinct other records."""
    name = f"parents[{record}]"
    numbers = tuple(check_integer(name, parent, low=0, high=n - 1) for parent in parents)
    if record in numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"{name} must be distinct other records, got {list(numbers)}.")
    return numbers


def _check_no_cycle(parents, n):
    """Raise ValueError if one of ``n`` records is its own ancestor.

    ``parents``: tuple of parents of each record.
    """
    edges = [
        (record, parent)
        for record, record_parents in enumerate(parents)
        for parent in record_parents
    ]
    rows, columns = np.array(edges, dtype=int).reshape(-1, 2).T
    graph = sparse.coo_array((np.ones(len(edges)), (rows, columns)), shape=(n, n))
    n_components, codes = connected_components(graph, directed=True, connection="strong")
    if n_components < n:  # a cycle is a strong component of more than one record
        in_cycle = np.bincount(codes)[codes] > 1
        record = int(np.flatnonzero(in_cycle)[0])
        raise ValueError(f"parents must have no directed cycle, got one through record {record}.")


def diameter_graph(factors, n):
    """Return the symmetric CSR matrix of projective diameters between ``n`` records, in nats.

    The diameters of all factors of two records are added. Records of one factor have an entry of at
    least 1e-13. ``factors``: pairs ``(scope, table)``; ``scope`` is the record of each axis of
    ``table``.
    """
    # Sums of pairwise diameters bound the diameter between any two sets of records, because a mixed
    # second difference of the log-factor telescopes over single records.
    diameter_by_axes = {}  # by id of the table, which may be shared, and pair of axes
    rows = []
    columns = []
    diameters = []
    for scope, table in factors:
        for first_axis, second_axis in itertools.combinations(range(len(scope)), 2):
            key = (id(table), first_axis, second_axis)
            if key not in diameter_by_axes:
                # The largest log cross-ratio of two axes, the other axes held fixed.
                axes_last = np.moveaxis(table, (first_axis, second_axis), (-2, -1))
                slices = axes_last.reshape(-1, *axes_last.shape[-2:])
                diameter_by_axes[key] = max(
                    projective_diameter(table_slice)
                    for table_slice in slices
                    if table_slice.max() > 0
                )
            ends = scope[first_axis], scope[second_axis]
            rows.append(min(ends))
            columns.append(max(ends))
            # Records of one factor stay in one component even if it does not couple them.
            diameters.append(max(diameter_by_axes[key], 1e-13))
    upper = sparse.coo_array((diameters, (rows, columns)), shape=(n, n), dtype=float)
    upper = sparse.csr_array(upper)
    matrix = sparse.csr_array(upper + upper.T)
    matrix.sort_indices()
    return matrix


def breadth_first_forest(matrix, roots, is_included):
    """Return ``(order, parent)`` of some records of a forest.

    ``order``: records in breadth-first order from the roots. ``parent``: position in ``order`` of
    the parent of each, less than its own position; -1 for roots. ``matrix``: CSR adjacency matrix.
    ``roots``: one record per component. ``is_included``: mask of the records to return, which are
    whole components.
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


def affected_in_subtrees(parent, contractions):
    """Return bounds on the effect of each record's parent on the subtree of the record.

    The effect is the expected number of records of the subtree that change with the parent. The
    bound of record ``v`` is ``theta_v R_v`` with ``R_v = 1 + sum over children theta_c R_c``
    (theory H5), 0 for roots. ``contractions``: (upper bound on) the Dobrushin coefficient
    ``theta_v`` of each record given its parent, 0 for roots. ``parent[v]``: parent of ``v``, less
    than ``v``, or -1 for roots.
    """
    n_affected = [1.0] * len(parent)
    n_affected_by_parent = [0.0] * len(parent)
    for v in range(len(parent) - 1, -1, -1):
        n_affected_by_parent[v] = contractions[v] * n_affected[v]
        if parent[v] >= 0:
            n_affected[parent[v]] += n_affected_by_parent[v]
    return n_affected_by_parent


def block_costs(parent, components, record_cost, subtree_costs, max_size):
    """Return, for each component of a forest, a sum of squared costs of blocks of nodes.

    Blocks are connected sets of at most ``max_size`` nodes, grown from the leaves. The cost of a
    block is its size times ``record_cost``, plus ``subtree_costs[v]`` for each node ``v`` whose
    parent is in the block but which is not. ``parent[v]``: parent of ``v``, less than ``v``, or -1
    for roots. ``components[v]``: component of ``v``.
    """
    costs = [0.0] * (max(components) + 1)  # of components
    # Of the block that grows at each node: its size, and the costs of the subtrees below it.
    sizes = [1] * len(parent)
    costs_below = [0.0] * len(parent)
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]  # -1 for roots
        if p >= 0 and sizes[p] + sizes[v] <= max_size:
            sizes[p] += sizes[v]
            costs_below[p] += costs_below[v]
            continue
        costs[components[v]] += (sizes[v] * record_cost + costs_below[v]) ** 2
        if p >= 0:
            costs_below[p] += subtree_costs[v]
    return np.array(costs)


def best_block_costs(parent, components, record_cost, subtree_costs):
    """Return the smallest :func:`block_costs` of each component over up to four maximum sizes.

    Arguments are those of :func:`block_costs`.
    """
    typical_size = float(np.mean(subtree_costs)) / record_cost
    max_sizes = {1}
    for factor in (0.5, 1.0, 2.0):
        max_sizes.add(max(1, math.ceil(typical_size * factor)))
    costs = [
        block_costs(parent, components, record_cost, subtree_costs, max_size)
        for max_size in sorted(max_sizes)
    ]
    return np.min(costs, axis=0)


def dobrushin_n_affected(matrix, components):
    """Return a bound on the expected number of records that a change of each record affects.

    The record itself counts. The vector is at least ``(I - C)^{-1} 1`` with
    ``C_ij = tanh(diameter_ij / 4)``, and infinite in components for which no bound is found.
    ``matrix``: symmetric CSR matrix of edge diameters in nats. ``components``: component of each
    record.

    Dobrushin 1970; Kuelske 2003, Concentration inequalities for functions of Gibbs fields,
    Theorem 1.
    """
    contraction = sparse.csr_array(
        (np.tanh(matrix.data / 4.0), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    n_affected = np.ones(matrix.shape[0])
    for _ in range(500):
        next_n_affected = 1.0 + contraction @ n_affected
        largest = float(next_n_affected.max())
        largest_step = float((next_n_affected - n_affected).max())
        n_affected = next_n_affected
        if largest > 1e6 or largest_step <= 1e-10 * largest:
            break
    n_affected = n_affected * (1.0 + 1e-6)
    # Only a super-solution bounds the series from above: r >= 1 + C r, component by component.
    is_below_next = n_affected < 1.0 + contraction @ n_affected
    diverges = np.zeros(int(components.max()) + 1, dtype=bool)
    diverges[components[is_below_next]] = True
    return np.where(diverges[components], np.inf, n_affected)
