"""Graphs of known structure and unknown strength: input, and nodes that may be held out.

Components (:class:`DependencyGraph`), nodes with a buffer (``reach="edges"``), or nodes that are
not neighbors, given all others (:class:`UnknownStrengthNetwork`; theory G27).
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

#: Nodes without common edges that a holdout must have (theory G27).
FEWEST = 20


def read_graph(graph, *, reads_weights=False, nodelist=None):
    """Return a symmetric CSR matrix without diagonal, and the names of its rows.

    ``graph``: any form that :func:`~sklearn_bdp.correlation.graph_input.read_edges` takes.
    """
    edges = read_edges(graph)
    names = edges.node_names(nodelist)
    return edges.matrix(names, reads_weights=reads_weights), names


class GraphModel(ComponentModel):
    """Shared part of models tied to a graph whose components are independent."""

    n_records: int
    _nodes: NodeNames | None = None  # names of the records; models may be equal without
    _size_hint = (
        " Rows of X are nodes, in the order of the graph. For several graphs, use "
        "networkx.disjoint_union_all. If only some nodes have a row, use "
        "MarkovNetwork(graph, labeled=X.index). If rows are nodes without an edge, use "
        "from_edges(edges, n_nodes=len(X))."
    )

    def _set_graph(self, matrix, n=None, nodes=None, caveats=()):
        """Set the graph, whose first ``n`` nodes are the records (by default all)."""
        self._indptr, self._indices, self._data = matrix.indptr, matrix.indices, matrix.data
        codes = connected_components(matrix, directed=False)[1]
        self.components_ = np.unique(codes[:n], return_inverse=True)[1].astype(np.int64)
        self._codes = self.components_
        self.n_components_, self.n_records = int(self.components_.max()) + 1, len(self.components_)
        self.caveats, self._nodes = caveats, nodes
        excluded = any("too large to be held out" in line for line in caveats)
        if self.n_components_ < self.n_records:
            self._target = "new components of the graph" + ", not the largest one" * excluded

    def _freeze(self, *more):
        super()._freeze(self.n_records, self._indptr, self._indices, self._data, *more)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(<{self.n_records} records, {len(self._data) // 2} edges, "
            f"{self.n_components_} component{'s' * (self.n_components_ != 1)}>)"
        )

    @property
    def adjacency_(self) -> Any:
        """Symmetric sparse matrix of the graph."""
        n = len(self._indptr) - 1
        return sparse.csr_array((self._data, self._indices, self._indptr), shape=(n, n))

    def names(self, indices):
        """Return the :class:`NodeNames` of some records, None if they are not known."""
        return None if self._nodes is None else self._nodes.take(indices)

    def has_whole_components(self, indices):
        """Return whether the records are whole components."""
        counts = np.bincount(self.components_[indices], minlength=self.n_components_)
        return bool(np.all((counts == 0) | (counts == np.bincount(self.components_))))

    def _excluded(self, indices):
        """Return the caveat of a graph whose largest component could not be held out."""
        sizes = np.bincount(self.components_)
        giant = int(np.argmax(sizes))
        if (self.components_[indices] == giant).any() or sizes[giant] <= len(indices):
            return ()
        return (
            f"Intervals apply to components like those held out: the largest component, "
            f"{100 * sizes[giant] / sizes.sum():.0f}% of all nodes, is too large to be held out.",
        )


class DependencyGraph(GraphModel, Groups):
    """Records that may depend on each other along the edges of a graph, in any way.

    Parameters
    ----------
    graph : scipy.sparse matrix, networkx graph, array or table of shape (n, n), dict or list
        Stored entries of a sparse matrix and nonzero entries of an array are edges; weights and
        directions are ignored. A dict holds the neighbors of each node by name (as objects of
        spatial weights do in ``neighbors``), a list their positions, one list for each node.
    reach : {"components", "edges"}, default="components"
        ``"components"``: records of different components are independent, and no more. Whole
        components are held out. ``"edges"``: any two sets of records without an edge between them
        are independent, as on a map of which places are joined within the range of dependence
        (``radius_neighbors_graph(coordinates, r)``). Records without a common edge are held out,
        and their neighbors are used nowhere: they are a buffer.
    nodelist : array-like of shape (n,), optional
        Node that each row of ``X`` is, for example ``X.index``, if nodes have names. By default
        rows are in graph order: integers must ascend, and other names must be the index of ``X``.

    Attributes
    ----------
    adjacency_ : scipy.sparse.csr_array of shape (n, n)
        The graph.
    components_ : ndarray of int, shape (n,)
        Connected component of each record.
    n_components_ : int
        Number of components.

    Raises
    ------
    ValueError
        If the matrix is not square, empty, negative or NaN somewhere, or if a form can be read in
        two ways.

    See Also
    --------
    DependencyGraph.from_edges : The same from a list of edges.
    MarkovNetwork : Nodes of one graph, given their neighbors.
    Groups : Groups without a graph.

    Notes
    -----
    Components are groups (theory B1): the same components declared as :class:`Groups` give the same
    intervals. ``reach="edges"`` is a dependency graph in the sense of Janson (2004; theory G27).
    It is false if a neighbor is kept for training, and it is not a Markov property.

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
            Number of nodes, if the ends are positions. By default, 1 more than the largest.
        nodelist : array-like of shape (n,), optional
            Node that each row of ``X`` is, for example ``X.index``; also names nodes without an
            edge. Integers are names if it is given.
        reach : {"components", "edges"}, default="components"
            As for the class.

        Returns
        -------
        DependencyGraph
            The graph.

        Raises
        ------
        ValueError
            If an end is not a node, or the array can be read in two ways.

        Examples
        --------
        >>> from sklearn_bdp.correlation import DependencyGraph
        >>> DependencyGraph.from_edges([(0, 1), (1, 2)], n_nodes=5)
        DependencyGraph(<5 records, 2 edges, 3 components>)
        """
        data = edges_between(edges, n_nodes=n_nodes, nodes=nodelist)
        return cls(data, reach=reach, nodelist=nodelist)

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
            self._check_parts(n, n / 2)
            return super().split(n, holdout, random_state=random_state)
        size = holdout_size(n, holdout)
        chosen, train = buffered_set(self.adjacency_, holdout, generator(random_state))
        if len(chosen) < min(FEWEST, size):
            raise ValueError(
                f"reach='edges' must hold out {FEWEST} nodes without neighbors in the training "
                f"set, and finds {len(chosen)}. Declare fewer edges, or bring X_val, y_val."
            )
        return Split(train, chosen)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n = self.check_n(n)
        if self.reach == "components":
            self._check_parts(n, n - 1)
            return super().folds(n, n_splits, random_state=random_state)
        n_splits = check_splits(n_splits, n, "records")
        graph = self.adjacency_
        # Stretches of this order are compact: few of their neighbors are outside and lost.
        order = reverse_cuthill_mckee(graph, symmetric_mode=True)
        pairs = []
        for test in np.array_split(order, n_splits):
            in_training = np.ones(n, dtype=bool)
            in_training[test] = False
            in_training[graph[test].indices] = False
            if not in_training.any():
                raise ValueError(
                    f"n_splits must leave training records, got {n_splits=}: use more folds."
                )
            pairs.append((np.flatnonzero(in_training), np.sort(test)))
        return pairs

    def _check_parts(self, n, max_size):
        """Raise an error with alternatives if a component is too large for a split."""
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
        graph = self.adjacency_[indices]
        buffer = len(np.setdiff1d(graph.indices, indices))
        codes = connected_components(graph[:, indices], directed=False)[1]
        return ConditionallyIndependent(
            codes,
            f"{len(indices)} records without an edge to the training set, in {codes.max() + 1} "
            "independent components",
            target="new records at the places held out",
            caveats=(
                "Sets of records without an edge between them are independent. No prediction uses "
                f"the buffer: {buffer} neighbors of the holdout, which are in no training set.",
            ),
            nodes=self.names(indices),
        )

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        return self.subset(indices)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if self.reach == "components" and not self.has_whole_components(indices):
            return super().subset(indices)
        subgraph = object.__new__(DependencyGraph)
        matrix = sparse.csr_array(self.adjacency_[indices][:, indices])
        matrix.sort_indices()
        subgraph._set_structure(matrix, self.reach, self.names(indices), self._excluded(indices))
        return subgraph


@n_split_components.register
def _n_linked_records(model: DependencyGraph, train: Array, test: Array) -> int:
    if model.reach == "components":
        return n_split_components.dispatch(object)(model, train, test)
    is_linked = np.zeros(model.n_records, dtype=bool)
    is_linked[model.adjacency_[train].indices] = True
    return int(np.count_nonzero(is_linked[test]))


@match_nodes.register
def _match_graph_nodes(model: GraphModel, train: Array, holdout: Array) -> NodeMatching | None:
    scheme = model.sampling_scheme(model.n_records)
    if not scheme.bounds_hold_given_rest or model.has_whole_components(holdout):
        return None
    counts = np.diff(sparse.csr_array(model.adjacency_[holdout][:, train]).indptr)
    train_edges = sparse.csr_array(model.adjacency_[train][:, train])
    train_edges.data = np.ones_like(train_edges.data)
    return NodeMatching(train_edges, counts)


@match_nodes.register
def _match_no_nodes(model: DependencyGraph, train: Array, holdout: Array) -> None:
    return None  # whole components or a buffer: no neighbor is on the other side


GIVEN_NODES = "these nodes, given the training nodes"
GIVEN_CAVEATS = (
    "Intervals refer to the expected score on the holdout nodes, given the training nodes and the "
    "features of all nodes, not to new graphs or new maps. A prediction uses no label of another "
    "holdout node.",
    "Given its neighbors, the label of a node does not depend on other nodes. A hidden common "
    "cause of many nodes is not covered. Features are not computed from labels.",
)


class UnknownStrengthNetwork(GraphModel):
    """A Markov network of which only the graph is known: ``MarkovNetwork(graph)`` (theory G27)."""

    fingerprint_name = "AnyStrength"
    _bounds_hold_given_rest = True

    def __init__(self, graph, nodelist, labeled):
        edges = read_edges(graph)
        rows = None if labeled is None else list(labeled)
        masked = rows is not None and is_mask(rows)
        if rows is None and nodelist is not None and edges.names is not None:
            rows = list(nodelist)  # without an isolated node that has no row, for example
        names = _names_of_rows(edges, rows, nodelist, masked=masked)
        matrix = edges.matrix(names)
        if rows is not None:  # nodes without a row come last
            parameter = "nodelist" if labeled is None else "labeled"
            chosen = _positions_of_rows(parameter, rows, names, masked=masked)
            order = np.r_[chosen, np.setdiff1d(np.arange(edges.n_nodes), chosen)]
            matrix = sparse.csr_array(matrix[order][:, order])
            matrix.sort_indices()
            names = names.take(chosen)
        matrix.data = np.full_like(matrix.data, math.inf)
        self._set_graph(matrix, len(names.values), names)
        self._freeze(False)  # part of fingerprints that ledgers hold

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
        size = holdout_size(self.check_n(n), holdout)
        graph = self.adjacency_[:n]
        if len(self._indptr) - 1 > n:  # a component of the others counts as one neighbor
            count, codes = connected_components(self.adjacency_[n:, n:], directed=False)
            columns = np.r_[np.arange(n), n + codes][graph.indices]
            graph = sparse.csr_array((graph.data, columns, graph.indptr), shape=(n, n + count))
        chosen = independent_set(graph, size, generator(random_state))
        if len(chosen) < FEWEST:
            problem = (
                f"MarkovNetwork(graph) holds out at least {FEWEST} nodes that are not neighbors, "
                f"got {len(chosen)} of {n}"
            )
            if len(chosen) == size:
                raise ValueError(f"{problem} ({holdout=}). Set a larger holdout=.")
            degree = np.diff(graph.indptr)
            raise ValueError(
                f"{problem}: nodes have {degree.mean():.0f} neighbors on average, the largest "
                f"number is {degree.max()}. Declare fewer edges, or influence= a number of nats or "
                "'estimate', or bring another graph's records as X_val, y_val."
            )
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        """Return the components of the holdout given all other records (theory G27).

        Nodes without a record connect the holdout nodes that they touch.
        """
        indices = check_indices(indices, self.n_records)
        nodes = np.r_[indices, np.arange(self.n_records, len(self._indptr) - 1)]
        codes = connected_components(self.adjacency_[nodes][:, nodes], directed=False)[1]
        codes = np.unique(codes[: len(indices)], return_inverse=True)[1]
        return nodes_given_rest(self, indices, codes)

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        """Return nodes without a guarantee: inner folds are random."""
        return unnamed_groups(np.arange(len(check_indices(indices, self.n_records))))


def _names_of_rows(edges, rows, nodelist, *, masked):
    """Return the nodes in record order: that of the graph or of a mask, or as rows name them."""
    if rows is None or masked:
        names = edges.node_names(nodelist)
        # A mask is in the order of the graph, so that the caller knows it.
        return dataclasses.replace(names, is_declared=names.is_declared or masked)
    values = tuple(range(edges.n_nodes)) if edges.names is None else edges.names
    return NodeNames(values, is_declared=True, is_matrix=edges.names is None)


def _positions_of_rows(parameter, rows, names, *, masked):
    """Return the positions of the nodes that are rows of the table, in the order of the rows."""
    n_nodes = len(names.values)
    if masked:
        positions = np.flatnonzero(rows).tolist() if len(rows) == n_nodes else []
    else:
        number = {node: k for k, node in enumerate(names.values)}
        unknown = [row for row in rows if row not in number]
        if unknown:
            raise ValueError(
                f"{parameter} must name nodes of graph, got {unknown[0]!r}, which is none of its "
                f"{n_nodes} nodes. Add nodes without an edge to the graph."
            )
        positions = [number[row] for row in rows]
    if not positions or len(set(positions)) < len(positions):
        raise ValueError(
            f"{parameter} must name nodes of graph, each once, or be a mask of all {n_nodes}. "
            f"{len(set(positions))} nodes were named by {len(rows)} entries."
        )
    return positions


def nodes_given_rest(network, indices, codes):
    """Return the model of nodes whose ``codes`` are their components given all others (G27)."""
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
    """Return rows of which no two are neighbors, and the other rows without their neighbors.

    The first are a ``fraction`` of all returned rows, buffer excluded. Of the free rows the one
    comes next that costs least: the training rows lost to the buffer in relation to ``1 + degree``
    (theory G27). Costs only fall, so a lazy heap holds each of them.
    """
    n = graph.shape[0]
    degree = np.diff(graph.indptr)
    start = graph.indptr.tolist()
    columns = graph.indices.tolist()
    lost = degree.tolist()
    ties = rng.random(n).tolist()
    is_free = [True] * n
    chosen = []
    scale = (1.0 / (1.0 + degree)).tolist()
    heap = [(lost[row] * scale[row], ties[row], row) for row in range(n)]
    heapq.heapify(heap)
    n_free = n
    while heap and len(chosen) < fraction * (len(chosen) + n_free):
        cost, _, row = heapq.heappop(heap)
        if not is_free[row] or cost != lost[row] * scale[row] or lost[row] + 1 >= n_free:
            continue
        n_free -= lost[row] + 1
        is_free[row] = False
        chosen.append(row)
        for buffer in columns[start[row] : start[row + 1]]:
            if not is_free[buffer]:
                continue
            is_free[buffer] = False
            for neighbor in columns[start[buffer] : start[buffer + 1]]:
                lost[neighbor] -= 1
                if is_free[neighbor]:
                    cost = lost[neighbor] * scale[neighbor]
                    heapq.heappush(heap, (cost, ties[neighbor], neighbor))
    return np.sort(chosen), np.flatnonzero(is_free)


def independent_set(graph, size, rng):
    """Return at most ``size`` rows of which no two are neighbors, ascending (theory G27).

    ``graph`` is a CSR array with one row per record. Its first columns are records; each further
    column is a component of nodes without a record, which at most one chosen row may touch. Rows
    come in the order of ``Exp(1) / (1 + degree)``: the weights undo the preference of greedy sets
    for nodes of low degree. Reads the graph and the seed only.
    """
    n, width = graph.shape
    order = np.argsort(rng.exponential(size=n) / (1.0 + np.diff(graph.indptr)), kind="stable")
    start = graph.indptr.tolist()
    columns = graph.indices
    blocked = np.zeros(width, dtype=bool)
    chosen = []
    for row in order.tolist():
        touched = columns[start[row] : start[row + 1]]
        if blocked[row] or (width > n and blocked[touched[touched >= n]].any()):
            continue
        blocked[touched] = True
        chosen.append(row)
        if len(chosen) == size:
            break
    return np.sort(chosen)
