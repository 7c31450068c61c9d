"""Models of a graph without a declared strength of dependence along its edges.

:class:`DependencyGraph` holds out whole components, or nodes without their neighbors
(``reach="edges"``). :class:`UnknownStrengthNetwork` holds out nodes that are not neighbors, given
all other nodes (theory G27).
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import (
    CorrelationModel,
    Folds,
    Split,
    check_indices,
    check_splits,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation.components import (
    ComponentModel,
    ConditionallyIndependent,
    Groups,
    unnamed_groups,
)
from sklearn_bdp.correlation.cutting import match_nodes, n_split_components
from sklearn_bdp.correlation.graph_input import NodeNames, edges_between, is_mask, read_edges
from sklearn_bdp.correlation.node_matching import NodeMatching
from sklearn_bdp.utils.validation import check_option

#: Fewest holdout nodes of which no two are neighbors (theory G27).
MIN_HOLDOUT_NODES = 20


def read_graph(graph, *, reads_weights=False, nodelist=None):
    """Return a symmetric CSR matrix without diagonal, and the :class:`NodeNames` of its rows.

    ``graph``: argument of :func:`~sklearn_bdp.correlation.graph_input.read_edges`.
    ``reads_weights``: whether entries are the weights of edges that have some; otherwise all are 1.
    ``nodelist``: name of the node of each row, None for the order of the graph.
    """
    edges = read_edges(graph)
    names = edges.node_names(nodelist)
    return edges.matrix(names, reads_weights=reads_weights), names


class GraphModel(ComponentModel):
    """Base class of models tied to a graph whose components are independent."""

    n_records: int
    _nodes: NodeNames | None = None  # names of the records; equal models may differ in them
    _size_hint = (
        " Rows of X are nodes, in the order of the graph. If X holds several graphs, pass "
        "networkx.disjoint_union_all(graphs). If only some nodes have a row, pass "
        "MarkovNetwork(graph, labeled=X.index). If rows are nodes without an edge, pass "
        "MarkovNetwork.from_edges(edges, n_nodes=len(X))."
    )

    def _set_graph(self, matrix, n=None, nodes=None, caveats=()):
        """Set the attributes that depend on the graph; its first ``n`` nodes are the records.

        ``matrix``: symmetric CSR matrix of all nodes. ``n``: None if all nodes are records.
        ``nodes``: :class:`NodeNames` of the records, or None. ``caveats``: sentences for
        certificates.
        """
        self._indptr = matrix.indptr
        self._indices = matrix.indices
        self._data = matrix.data
        component_of_node = connected_components(matrix, directed=False)[1]
        codes = np.unique(component_of_node[:n], return_inverse=True)[1]
        self.components_ = codes.astype(np.int64)
        self._codes = self.components_
        self.n_components_ = int(self.components_.max()) + 1
        self.n_records = len(self.components_)
        self.caveats = caveats
        self._nodes = nodes
        largest_is_excluded = any("too large to be held out" in line for line in caveats)
        if self.n_components_ < self.n_records:
            self._target = "new components of the graph"
            if largest_is_excluded:
                self._target += ", not the largest one"

    def _freeze(self, *extra_content):
        super()._freeze(self.n_records, self._indptr, self._indices, self._data, *extra_content)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(<{self.n_records} records, {len(self._data) // 2} edges, "
            f"{self.n_components_} component{'s' * (self.n_components_ != 1)}>)"
        )

    @property
    def adjacency_(self) -> Any:
        """Symmetric sparse matrix of the graph, with one row per node.

        An edge has the entry 1 in a ``DependencyGraph``, its diameter in nats in a network, and
        infinity in a network whose strengths are not known or not estimated yet.
        """
        n = len(self._indptr) - 1
        return sparse.csr_array((self._data, self._indices, self._indptr), shape=(n, n))

    def names(self, indices):
        """Return the :class:`NodeNames` of the records with these indices, None if not known."""
        return None if self._nodes is None else self._nodes.take(indices)

    def has_whole_components(self, indices):
        """Return whether the records with these indices make up whole components."""
        sizes = np.bincount(self.components_)
        counts = np.bincount(self.components_[indices], minlength=self.n_components_)
        return bool(np.all((counts == 0) | (counts == sizes)))

    def _excluded_caveats(self, indices):
        """Return a tuple with the caveat that the largest component is too large to be held out.

        ``indices``: holdout records. The tuple is empty if they include records of the largest
        component, or are at least as many as it has.
        """
        sizes = np.bincount(self.components_)
        largest = int(np.argmax(sizes))
        if (self.components_[indices] == largest).any() or sizes[largest] <= len(indices):
            return ()
        return (
            f"Intervals apply to components like those held out: the largest component, "
            f"{100 * sizes[largest] / sizes.sum():.0f}% of all nodes, is too large to be held out.",
        )


class DependencyGraph(GraphModel, Groups):
    """Records that may depend on each other along the edges of a graph, in any way.

    Parameters
    ----------
    graph : scipy.sparse matrix, networkx graph, array or table of shape (n, n), dict or list
        Stored entries of a sparse matrix and nonzero entries of an array are edges; weights and
        directions are ignored. A dict maps the name of each node to the names of its neighbors (as
        ``neighbors`` of spatial weights does). A list has one entry per node, the positions of its
        neighbors.
    reach : {"components", "edges"}, default="components"
        ``"components"``: records of different components are independent, and nothing else is
        assumed. Whole components are held out. ``"edges"``: any two sets of records without an edge
        between them are independent. An example is a graph of places that joins all within the
        range of dependence (``radius_neighbors_graph(coordinates, r)``). No two holdout records
        are neighbors, and their neighbors are neither held out nor used for training.
    nodelist : array-like of shape (n,), optional
        Name of the node in each row of ``X``, for example ``X.index``, if nodes have names. By
        default rows are in graph order: integers must ascend, and other names must be the index of
        ``X``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        The graph.
    components_ : ndarray of int, shape (n,)
        Connected component of each record.
    n_components_ : int
        Number of components.
    codes_, sizes_ : ndarray of int
        Component of each record as in ``components_``, and number of records of each component.

    Raises
    ------
    TypeError
        If the object is not a graph.
    ValueError
        If a matrix is not square, is empty, or has a negative or NaN entry, if ``graph`` can be
        read in two ways, or if ``nodelist`` does not name every node once.

    See Also
    --------
    DependencyGraph.from_edges : The same from a list of edges.
    MarkovNetwork : Dependence between the nodes of one graph, given their neighbors.
    Groups : Dependence within groups, without a graph.

    Notes
    -----
    Components are groups (theory B1): the same components declared as :class:`Groups` give the same
    intervals. ``reach="edges"`` declares a dependency graph in the sense of Janson (2004; theory
    G27), which is not a Markov property.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from sklearn_bdp.correlation import DependencyGraph
    >>> pairs = sparse.coo_array((np.ones(2), ([0, 2], [1, 3])), shape=(5, 5))
    >>> model = DependencyGraph(pairs)
    >>> model.n_components_
    3
    >>> model.bdp_epsilon(0.1, 5)
    0.2
    """

    fingerprint_name = "DependencyGraph"

    def __init__(
        self, graph: Any, *, reach: str = "components", nodelist: ArrayLike | None = None
    ) -> None:
        reach = check_option("reach", reach, ("components", "edges"))
        matrix, nodes = read_graph(graph, nodelist=nodelist)
        self._set_structure(matrix, reach, nodes)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        *,
        n_nodes: int | None = None,
        nodelist: ArrayLike | None = None,
        reach: str = "components",
    ) -> DependencyGraph:
        """Return the graph of a list of edges.

        Parameters
        ----------
        edges : array-like of shape (n_edges, 2) or (2, n_edges), list of pairs, or table
            Both ends of each edge: positions ``0 … n_nodes - 1`` of rows of ``X``, or names. A
            table has two columns.
        n_nodes : int, optional
            Number of nodes, if the ends are positions. By default, 1 more than the largest
            position.
        nodelist : array-like of shape (n,), optional
            Name of the node in each row of ``X``, for example ``X.index``; includes nodes without
            an edge. If given, integers in ``edges`` are names.
        reach : {"components", "edges"}, default="components"
            As for the class.

        Returns
        -------
        DependencyGraph
            The graph.

        Raises
        ------
        TypeError
            If ``edges`` is a graph, a dict, a text or not iterable.
        ValueError
            If an end is not a node or is a missing value, if ``edges`` have another shape or can be
            read in two ways, or if one of them is a text.

        Examples
        --------
        >>> from sklearn_bdp.correlation import DependencyGraph
        >>> DependencyGraph.from_edges([(0, 1), (1, 2)], n_nodes=5)
        DependencyGraph(<5 records, 2 edges, 3 components>)
        """
        edge_data = edges_between(edges, n_nodes=n_nodes, nodes=nodelist)
        return cls(edge_data, reach=reach, nodelist=nodelist)

    def _set_structure(self, matrix, reach, nodes, caveats=()):
        self.reach = reach
        self._bounds_hold_given_rest = reach == "edges"
        matrix.data = np.ones_like(matrix.data)
        self._set_graph(matrix, nodes=nodes, caveats=caveats)
        self.codes_ = self.components_
        self.sizes_ = np.bincount(self.components_)
        self._freeze(reach)

    def describe(self) -> str:
        return (
            f"dependency graph of {self.n_records} records in {self.n_components_} independent "
            f"components, the largest of {self.sizes_.max()}"
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n = self.check_n(n)
        if self.reach == "components":
            self._check_component_sizes(n, n / 2)
            return super().split(n, holdout, random_state=random_state)
        n_holdout = holdout_size(n, holdout)
        held_out, train = buffered_set(self.adjacency_, holdout, generator(random_state))
        if len(held_out) < min(MIN_HOLDOUT_NODES, n_holdout):
            raise ValueError(
                f"reach='edges' must hold out {MIN_HOLDOUT_NODES} nodes without neighbors in the "
                f"training set, and finds {len(held_out)}. Remove only edges that carry "
                "no dependence, or bring X_val, y_val."
            )
        return Split(train, held_out)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n = self.check_n(n)
        if self.reach == "components":
            self._check_component_sizes(n, n - 1)
            return super().folds(n, n_splits, random_state=random_state)
        n_splits = check_splits(n_splits, n, "records")
        graph = self.adjacency_  # the folds depend on it alone, not on random_state
        # Consecutive nodes of this order tend to be close in the graph, so that fewer of their
        # neighbors are outside a fold and lost to training.
        order = reverse_cuthill_mckee(graph, symmetric_mode=True)
        folds = []
        for test in np.array_split(order, n_splits):
            in_training = np.ones(n, dtype=bool)
            in_training[test] = False
            in_training[graph[test].indices] = False  # neighbors of test nodes
            if not in_training.any():
                raise ValueError(
                    f"n_splits must leave training records, got {n_splits=}: use more folds."
                )
            folds.append((np.flatnonzero(in_training), np.sort(test)))
        return folds

    def _check_component_sizes(self, n, max_size):
        """Raise ValueError if a component has more than ``max_size`` records, unless ``n`` is 1."""
        if self.sizes_.max() > max_size and n > 1:
            raise ValueError(
                f"correlation has one connected component with {self.sizes_.max()} of {n} records. "
                "A component is held out as a whole. Set correlation=MarkovNetwork(graph) to hold "
                "out single nodes, given their neighbors, or MarkovNetwork(graph, "
                "influence='estimate') if these are too few. Set DependencyGraph(graph, "
                "reach='edges') if nodes without a common edge are independent. Or pass another "
                "graph's records as X_val, y_val."
            )

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        if self.reach == "components":
            return self.subset(indices)
        indices = check_indices(indices, self.n_records)
        holdout_edges = self.adjacency_[indices]  # one row per holdout record
        n_buffer = len(np.setdiff1d(holdout_edges.indices, indices))
        codes = connected_components(holdout_edges[:, indices], directed=False)[1]
        return ConditionallyIndependent(
            codes,
            f"{len(indices)} records without an edge to the training set, in {codes.max() + 1} "
            "independent components",
            target="new records at the places held out",
            caveats=(
                "Sets of records without an edge between them are independent. No prediction uses "
                f"the buffer: {n_buffer} neighbors of the holdout, which are in no training set.",
            ),
            nodes=self.names(indices),
        )

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        return self.subset(indices)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if self.reach == "components" and not self.has_whole_components(indices):
            return super().subset(indices)
        matrix = sparse.csr_array(self.adjacency_[indices][:, indices])
        matrix.sort_indices()
        subgraph = object.__new__(DependencyGraph)
        subgraph._set_structure(
            matrix, self.reach, self.names(indices), self._excluded_caveats(indices)
        )
        return subgraph


@n_split_components.register
def _n_linked_records(model: DependencyGraph, train: Array, test: Array) -> int:
    if model.reach == "components":
        return n_split_components.dispatch(object)(model, train, test)
    has_training_neighbor = np.zeros(model.n_records, dtype=bool)
    has_training_neighbor[model.adjacency_[train].indices] = True
    return int(np.count_nonzero(has_training_neighbor[test]))


@match_nodes.register
def _match_graph_nodes(model: GraphModel, train: Array, holdout: Array) -> NodeMatching | None:
    scheme = model.sampling_scheme(model.n_records)
    if not scheme.bounds_hold_given_rest or model.has_whole_components(holdout):
        return None
    cross_edges = sparse.csr_array(model.adjacency_[holdout][:, train])
    n_training_neighbors = np.diff(cross_edges.indptr)  # of each holdout node
    train_edges = sparse.csr_array(model.adjacency_[train][:, train])
    train_edges.data = np.ones_like(train_edges.data)
    return NodeMatching(train_edges, n_training_neighbors)


@match_nodes.register
def _match_no_nodes(model: DependencyGraph, train: Array, holdout: Array) -> None:
    return None  # this model holds out whole components, or nodes with a buffer


GIVEN_NODES = "these nodes, given the training nodes"
GIVEN_CAVEATS = (
    "Intervals refer to the expected score on the holdout nodes, given the training nodes and the "
    "features of all nodes, not to new graphs or new maps. A prediction uses no label of another "
    "holdout node.",
    "Given its neighbors, the label of a node does not depend on other nodes. A hidden common "
    "cause of many nodes is not covered. Features are not computed from labels.",
)


class UnknownStrengthNetwork(GraphModel):
    """Markov network with unknown strengths of dependence: ``MarkovNetwork(graph)`` (theory G27).

    ``graph``, ``nodelist`` and ``labeled`` are those of ``MarkovNetwork``.
    """

    fingerprint_name = "AnyStrength"
    _bounds_hold_given_rest = True

    def __init__(self, graph, nodelist, labeled):
        edges = read_edges(graph)
        # Nodes that have a row in X, in row order, or a mask of the nodes; None if all nodes have.
        labeled_nodes = None if labeled is None else list(labeled)
        labels_are_mask = labeled_nodes is not None and is_mask(labeled_nodes)
        if labeled_nodes is None and nodelist is not None and edges.names is not None:
            labeled_nodes = list(nodelist)  # without an isolated node that has no row, for example
        names = _names_of_nodes(edges, labeled_nodes, nodelist, labels_are_mask=labels_are_mask)
        matrix = edges.matrix(names)
        if labeled_nodes is not None:  # nodes without a row come last
            parameter = "nodelist" if labeled is None else "labeled"
            positions = _labeled_positions(
                parameter, labeled_nodes, names, labels_are_mask=labels_are_mask
            )
            order = np.r_[positions, np.setdiff1d(np.arange(edges.n_nodes), positions)]
            matrix = sparse.csr_array(matrix[order][:, order])
            matrix.sort_indices()
            names = names.take(positions)
        matrix.data = np.full_like(matrix.data, math.inf)
        self._set_graph(matrix, len(names.values), names)
        self._freeze(False)  # this value is in the fingerprints that ledgers hold

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, "MarkovNetwork", 1)

    def describe(self) -> str:
        n_without_record = len(self._indptr) - 1 - self.n_records
        other_nodes = f" and {n_without_record} other nodes" if n_without_record else ""
        return (
            f"Markov network of {self.n_records} records{other_nodes} in "
            f"{self.n_components_} independent components, of any strength"
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n_holdout = holdout_size(self.check_n(n), holdout)
        graph = self.adjacency_[:n]  # one row per record, one column per node
        n_nodes = len(self._indptr) - 1
        if n_nodes > n:
            # Each component of nodes without a record becomes one column.
            other_edges = self.adjacency_[n:, n:]
            n_components, component_of_other = connected_components(other_edges, directed=False)
            column_of_node = np.r_[np.arange(n), n + component_of_other]
            graph = sparse.csr_array(
                (graph.data, column_of_node[graph.indices], graph.indptr),
                shape=(n, n + n_components),
            )
        held_out = independent_set(graph, n_holdout, generator(random_state))
        if len(held_out) < MIN_HOLDOUT_NODES:
            problem = (
                f"MarkovNetwork(graph) holds out at least {MIN_HOLDOUT_NODES} nodes that are not "
                f"neighbors, got {len(held_out)} of {n}"
            )
            if len(held_out) == n_holdout:
                fraction = math.ceil(100 * MIN_HOLDOUT_NODES / n) / 100
                fix = f"Set holdout={fraction:g} or more." if fraction < 1 else "Bring more nodes."
                raise ValueError(f"{problem} ({holdout=}). {fix}")
            degree = np.diff(graph.indptr)
            raise ValueError(
                f"{problem}: nodes have {degree.mean():.0f} neighbors on average, the largest "
                f"number is {degree.max()}. Remove only edges that carry no dependence, or set "
                "influence='estimate', or bring another graph's records as X_val, y_val."
            )
        return Split(np.setdiff1d(np.arange(n), held_out), held_out)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the model of holdout nodes given all other records (theory G27).

        Holdout nodes that are joined by edges, or by paths through nodes without a record, are one
        component. Components are independent.
        """
        indices = check_indices(indices, self.n_records)
        nodes_without_record = np.arange(self.n_records, len(self._indptr) - 1)
        nodes = np.r_[indices, nodes_without_record]
        component_of_node = connected_components(self.adjacency_[nodes][:, nodes], directed=False)[
            1
        ]
        codes = np.unique(component_of_node[: len(indices)], return_inverse=True)[1]
        return nodes_given_rest(self, indices, codes)

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        """Return groups of one record each, so that folds ignore the graph."""
        return unnamed_groups(np.arange(len(check_indices(indices, self.n_records))))


def _names_of_nodes(edges, labeled_nodes, nodelist, *, labels_are_mask):
    """Return the :class:`NodeNames` of all nodes, in ``nodelist`` order or in graph order.

    ``edges``: :class:`EdgeData` of the graph. ``labeled_nodes``: names of the nodes with a row in
    ``X``, or a mask of all nodes (``labels_are_mask``), or None if all have a row. ``nodelist``:
    name of the node in each row, or None; not read if ``labeled_nodes`` are names.
    """
    if labeled_nodes is None or labels_are_mask:
        names = edges.node_names(nodelist)
        # A mask is in the order of the graph, so the caller has declared it.
        return dataclasses.replace(names, is_declared=names.is_declared or labels_are_mask)
    values = tuple(range(edges.n_nodes)) if edges.names is None else edges.names
    return NodeNames(values, is_declared=True, is_matrix=edges.names is None)


def _labeled_positions(parameter, labeled_nodes, names, *, labels_are_mask):
    """Return the positions in ``names`` of the nodes with a row in ``X``, in row order.

    ``labeled_nodes``: names of these nodes, or a mask of all nodes (``labels_are_mask``).
    ``names``: :class:`NodeNames` of all nodes. ``parameter``: the argument that named the nodes,
    for errors. Raises ValueError unless they are distinct nodes of the graph, at least one.
    """
    n_nodes = len(names.values)
    if labels_are_mask:
        is_complete = len(labeled_nodes) == n_nodes
        positions = np.flatnonzero(labeled_nodes).tolist() if is_complete else []
    else:
        position_of_node = {node: k for k, node in enumerate(names.values)}
        unknown_nodes = [node for node in labeled_nodes if node not in position_of_node]
        if unknown_nodes:
            raise ValueError(
                f"{parameter} must name nodes of graph, got {unknown_nodes[0]!r}, which is none of "
                f"its {n_nodes} nodes. Add nodes without an edge to the graph."
            )
        positions = [position_of_node[node] for node in labeled_nodes]
    n_distinct = len(set(positions))
    if not positions or n_distinct < len(positions):
        raise ValueError(
            f"{parameter} must name nodes of graph, each once, or be a mask of all {n_nodes}. "
            f"{n_distinct} nodes were named by {len(labeled_nodes)} entries."
        )
    return positions


def nodes_given_rest(network, indices, codes):
    """Return the ``ConditionallyIndependent`` model of holdout nodes given all others (theory G27).

    ``network``: a :class:`GraphModel`. ``indices``: the holdout nodes. ``codes``: code of the
    component of each holdout node.
    """
    degree = np.diff(network._indptr)[: network.n_records]
    caveats = GIVEN_CAVEATS
    n_components = int(codes.max()) + 1
    if n_components == len(indices):
        caveats += (
            "Every held-out node has all its labeled neighbors in the training set. The mean "
            f"degree is {degree[indices].mean():.2f} of held-out nodes and "
            f"{degree.mean():.2f} of all.",
        )
    return ConditionallyIndependent(
        codes,
        f"{len(indices)} nodes of a Markov network in {n_components} components that are "
        "independent given all other records, at any strength",
        target=GIVEN_NODES,
        caveats=caveats,
        nodes=network.names(indices),
    )


def buffered_set(graph, fraction, rng):
    """Return holdout rows of which no two are neighbors, and training rows without edges to them.

    ``graph``: symmetric CSR array. Both results are ascending. The neighbors of holdout rows, a
    buffer, are in neither result. The holdout is about a ``fraction`` of all returned rows, or less
    if no further row can be held out. A greedy search holds out the free row of least cost: the
    number of its free neighbors divided by ``1 + degree`` (theory G27). ``rng``: Generator for
    ties.
    """
    n = graph.shape[0]
    degree = np.diff(graph.indptr)
    # Neighbors of a row: columns[start[row] : start[row + 1]].
    start = graph.indptr.tolist()
    columns = graph.indices.tolist()
    n_free_neighbors = degree.tolist()
    tie_breakers = rng.random(n).tolist()
    is_free = [True] * n  # neither held out nor in the buffer
    held_out = []
    weights = (1.0 / (1.0 + degree)).tolist()
    heap = [(n_free_neighbors[row] * weights[row], tie_breakers[row], row) for row in range(n)]
    heapq.heapify(heap)
    n_free = n
    # A row is pushed again when its cost falls; its older entries are outdated.
    while heap and len(held_out) < fraction * (len(held_out) + n_free):
        cost, _, row = heapq.heappop(heap)
        is_outdated = not is_free[row] or cost != n_free_neighbors[row] * weights[row]
        n_taken = n_free_neighbors[row] + 1
        if is_outdated or n_taken >= n_free:
            continue
        n_free -= n_taken
        is_free[row] = False
        held_out.append(row)
        for buffer_row in columns[start[row] : start[row + 1]]:
            if not is_free[buffer_row]:
                continue
            is_free[buffer_row] = False
            for neighbor in columns[start[buffer_row] : start[buffer_row + 1]]:
                n_free_neighbors[neighbor] -= 1
                if is_free[neighbor]:
                    cost = n_free_neighbors[neighbor] * weights[neighbor]
                    heapq.heappush(heap, (cost, tie_breakers[neighbor], neighbor))
    return np.sort(held_out), np.flatnonzero(is_free)


def independent_set(graph, max_rows, rng):
    """Return at most ``max_rows`` ascending rows of which no two are neighbors (theory G27).

    ``graph``: CSR array with one row per record. Its first columns are records; each further column
    is a component of nodes without a record, which at most one returned row has as a neighbor. A
    greedy search tries rows in ascending order of random values ``Exp(1) / (1 + degree)``.
    """
    n, n_columns = graph.shape
    order = np.argsort(rng.exponential(size=n) / (1.0 + np.diff(graph.indptr)), kind="stable")
    # Neighbors of a row: columns[start[row] : start[row + 1]].
    start = graph.indptr.tolist()
    columns = graph.indices
    is_blocked = np.zeros(n_columns, dtype=bool)
    chosen_rows = []
    for row in order.tolist():
        neighbors = columns[start[row] : start[row + 1]]
        if is_blocked[row]:
            continue
        if n_columns > n and is_blocked[neighbors[neighbors >= n]].any():
            continue
        is_blocked[neighbors] = True
        chosen_rows.append(row)
        if len(chosen_rows) == max_rows:
            break
    return np.sort(chosen_rows)
