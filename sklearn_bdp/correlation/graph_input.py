"""Conversion of matrices, networkx graphs, neighbor lists and edges to :class:`EdgeData`.

:class:`EdgeData` returns a symmetric matrix with one row per node, and the :class:`NodeNames`.
Ambiguous input is rejected.
"""

from __future__ import annotations

import dataclasses
import itertools
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_bdp._typing import Array
from sklearn_bdp.utils.validation import check_integer, is_missing

_FORMS = (
    "graph must be a scipy.sparse matrix, a networkx graph, a square array or table, or the "
    "neighbors of each node as a dict or a list of lists (for edges: from_edges)"
)
#: Numbers in edges are taken for names if the largest is at least this many times the number of
#: distinct ones. Fewer distinct numbers than this count as so many.
_MAX_NUMBERS_PER_NODE = 50
#: Names that a message shows.
_MAX_EXAMPLES = 4


@dataclasses.dataclass(frozen=True, eq=False)
class NodeNames:
    """Names of nodes in the order of the records.

    Parameters
    ----------
    values : tuple
        Names of the nodes, or their positions if the graph has no names.
    is_declared : bool
        Whether the caller gave the order (``nodelist=``, ``labeled=``). Otherwise it is that of the
        graph.
    is_matrix : bool
        Whether nodes are positions in a matrix or list, or rows of a table.
    """

    values: tuple[Any, ...]
    is_declared: bool = False
    is_matrix: bool = False

    @property
    def are_integers(self) -> bool:
        """Whether every name is an integer."""
        return all(isinstance(name, int | np.integer) for name in self.values)

    def take(self, positions: Iterable[int]) -> NodeNames:
        """Return the names at some positions.

        Parameters
        ----------
        positions : iterable of int
            Positions in ``values``.

        Returns
        -------
        NodeNames
            Names in the order of ``positions``.
        """
        values = tuple(self.values[position] for position in positions)
        return dataclasses.replace(self, values=values)

    def check_index(self, name: str, tables: Sequence[Any]) -> None:
        """Raise ValueError if records and nodes are in different orders, or in an unknown order.

        Nothing is checked if the numbers of records and nodes differ.

        Parameters
        ----------
        name : str
            Parameter that holds the graph.
        tables : sequence of array-like
            One table of records, or the training records and then the validation records.

        Raises
        ------
        ValueError
            If the index of the tables has the names of the nodes in another order, except for an
            index 0, 1, … when the caller gave the order. Also if names are not integers, the caller
            gave no order, and the index does not have the names of the nodes.
        """
        index_values = _index_values(tables)
        if sum(map(_n_rows, tables)) != len(self.values) or index_values == self.values:
            return
        # Whether there is no index, or it is 0, 1, …, which may be positions instead of names.
        has_no_names = index_values is None or index_values == tuple(range(len(index_values)))
        has_same_names = index_values is not None and set(index_values) == set(self.values)
        if has_same_names and not (has_no_names and self.is_declared):
            raise ValueError(self._permutation_text(name, index_values))
        if not (self.is_declared or self.are_integers):
            raise ValueError(self._unknown_order_text(name, None if has_no_names else index_values))

    def _unknown_order_text(self, name, index_values):
        """Return the message for named nodes whose rows in ``X`` are unknown.

        ``name``: the parameter that holds the graph. ``index_values``: tuple of the index of all
        records, or None if it names no nodes.
        """
        if index_values is None:
            problem = "X has no index that names them"
        else:
            node_names = set(self.values)
            unknown_values = [value for value in index_values if value not in node_names]
            problem = "the index of X repeats names"
            if unknown_values:
                problem = f"the index of X holds {unknown_values[0]!r}, which is not one of them"
        return (
            f"{name} has nodes with names ({_examples(self.values)}), and {problem}, so that it is "
            "unknown which row is which node. Pass nodelist= with the node of each row of X, such "
            "as nodelist=X['name'], or nodelist=list(graph) if the rows are in graph order."
        )

    def _permutation_text(self, name, index_values):
        """Return the message for an index that has the names of the nodes in another order.

        ``name``: the parameter that holds the graph. ``index_values``: tuple of the index.
        """
        position = next(k for k, value in enumerate(index_values) if value != self.values[k])
        problem = (
            f"{name} has its nodes in another order than the index of X: row {position} of X is "
            f"named {index_values[position]!r}, and node {position} of the graph is named "
            f"{self.values[position]!r}."
        )
        if not self.is_matrix:
            return f"{problem} Pass nodelist=X.index, as in MarkovNetwork(graph, nodelist=X.index)."
        return (
            f"{problem} If the index names rows of the graph, pass "
            "scipy.sparse.csr_array(graph)[X.index][:, X.index]. If row k of X is row k of the "
            "graph, pass X.reset_index(drop=True)."
        )


def _n_rows(table):
    """Return the number of rows of an array, a frame or a list."""
    return table.shape[0] if hasattr(table, "shape") else len(table)


def _index_values(tables):
    """Return the index entries of all tables as one tuple, None if a table has no pandas index."""
    indices = [getattr(table, "index", None) for table in tables]
    if not all(hasattr(index, "equals") for index in indices):
        return None
    return tuple(itertools.chain.from_iterable(index.tolist() for index in indices))


def _examples(names):
    """Return the first 4 names as text."""
    texts = [repr(name) for name in names[:_MAX_EXAMPLES]]
    return ", ".join(texts) + ", …" * (len(names) > _MAX_EXAMPLES)


@dataclasses.dataclass(frozen=True, eq=False)
class EdgeData:
    """Edges of a graph between numbered nodes.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    source, target : ndarray of int, shape (n_edges,)
        Numbers of the nodes at both ends of each edge.
    weights : ndarray of float, shape (n_edges,), or None
        Entries of a matrix or values of an edge attribute; None if there are none, or none is read.
    names : tuple or None
        Names of the nodes; None if they are positions.
    is_table : bool
        Whether the names are those of the rows and columns of a table.
    form : str
        Name of the type of the caller's graph, for messages.
    """

    n_nodes: int
    source: Array
    target: Array
    weights: Array | None = None
    names: tuple[Any, ...] | None = None
    is_table: bool = False
    form: str = "edges"

    def node_names(self, nodelist: Any = None) -> NodeNames:
        """Return the names of all nodes, in the order of the records.

        Parameters
        ----------
        nodelist : array-like, optional
            Name of the node of each record. By default, records are in the order of the graph.

        Returns
        -------
        NodeNames
            Names of the nodes, or their positions if they have no names.

        Raises
        ------
        ValueError
            If ``nodelist`` does not name every node once, or is passed for nodes without names.
            Also if it is not passed and integer names are not in ascending order, except for names
            of a table.
        """
        if self.names is None:
            if nodelist is not None:
                raise ValueError(
                    "nodelist= needs a graph whose nodes have names, such as a networkx graph, got "
                    f"positions ({self.form}). Reorder a matrix: "
                    "scipy.sparse.csr_array(graph)[nodelist][:, nodelist]."
                )
            return NodeNames(tuple(range(self.n_nodes)), is_matrix=True)
        if nodelist is not None:
            order = tuple(nodelist)
            if len(order) != self.n_nodes or set(order) != set(self.names):
                raise ValueError(
                    f"nodelist must name every node of graph once, got {len(order)} of "
                    f"{self.n_nodes}. If only some nodes have a row, pass MarkovNetwork(graph, "
                    "labeled=X.index)."
                )
            return NodeNames(order, is_declared=True)
        names = NodeNames(self.names, is_matrix=self.is_table)
        if names.are_integers and not self.is_table:
            _check_ascending(names.values)
        return names

    def matrix(self, names: NodeNames, *, reads_weights: bool = False) -> sparse.csr_array:
        """Return the symmetric matrix of the edges, without diagonal.

        Parameters
        ----------
        names : NodeNames
            Names of all nodes, in the order of the rows.
        reads_weights : bool, default=False
            Whether entries are the weights, if there are any; edges of weight zero are dropped.
            Otherwise the entry of every edge is 1, even if its weight is zero.

        Returns
        -------
        csr_array of shape (n_nodes, n_nodes)
            Directed edges become undirected; of two opposite edges, the larger weight is used. The
            weights of parallel edges add up.

        Raises
        ------
        ValueError
            If a weight is negative or NaN.
        """
        source = self.source
        target = self.target
        weights = self.weights
        if weights is not None and not (weights >= 0).all():
            raise ValueError(f"graph must hold nonnegative entries, no NaN, got {weights.min():g}.")
        if names.is_declared and self.names is not None:
            position_of_name = {name: k for k, name in enumerate(names.values)}
            row_of_node = np.array([position_of_name[name] for name in self.names], dtype=np.int64)
            source = row_of_node[source]
            target = row_of_node[target]
        if weights is None or not reads_weights:
            weights = np.ones(len(source))
        is_edge = source != target
        coordinates = source[is_edge], target[is_edge]
        # Parallel edges of a multigraph add up, which is safe for influences.
        shape = (self.n_nodes, self.n_nodes)
        directed = sparse.coo_array((weights[is_edge], coordinates), shape=shape).tocsr()
        symmetric = sparse.csr_array(directed.maximum(directed.T))
        symmetric.eliminate_zeros()
        symmetric.sort_indices()
        if not reads_weights:
            symmetric.data = np.ones_like(symmetric.data)
        return symmetric


def is_networkx(graph: Any) -> bool:
    """Return whether an object has the attributes of a networkx graph.

    Parameters
    ----------
    graph : object
        Anything.

    Returns
    -------
    bool
        True for networkx graphs.
    """
    return hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "is_directed")


def is_mask(labeled: Any) -> bool:
    """Return whether all entries of ``labeled`` are booleans, as in a mask of nodes.

    Parameters
    ----------
    labeled : array-like
        Names, positions or booleans.

    Returns
    -------
    bool
        True if every entry is a boolean, or if there is no entry.
    """
    return all(isinstance(entry, bool | np.bool_) for entry in list(labeled))


def _check_ascending(nodes):
    """Raise ValueError unless nodes, which must be integers, are in ascending order."""
    for position, (previous_node, node) in enumerate(itertools.pairwise(nodes)):
        if node < previous_node:
            examples = list(nodes[position : position + _MAX_EXAMPLES])
            raise ValueError(
                f"graph must have integer nodes in ascending order, got {examples} from position "
                f"{position} on: {node} follows {previous_node}. Pass nodelist= with the "
                "node of each row of X, such as sorted(graph) or X.index."
            )


def read_edges(graph: Any, *, weight: str | None = None) -> EdgeData:
    """Return the edges of a graph in any form.

    Parameters
    ----------
    graph : EdgeData, networkx graph, mapping, scipy.sparse, table, list or array
        See :class:`~sklearn_bdp.correlation.DependencyGraph`.
    weight : str, optional
        Edge attribute of a networkx graph to read; by default its edges have no weight. Other
        forms ignore it: the entries of matrices, arrays and tables are their weights.

    Returns
    -------
    EdgeData
        The edges.

    Raises
    ------
    TypeError
        If the object is not a graph.
    ValueError
        If it is not square, is empty or can be read in two ways, if an edge lacks the attribute
        ``weight``, if a neighbor is not a node, or if the name of a node is missing.
    """
    if isinstance(graph, EdgeData):
        return graph
    if is_networkx(graph):
        edges = _networkx_edges(graph, weight)
    elif sparse.issparse(graph):
        entries = graph.tocoo()
        _check_square(entries.shape)
        source, target = entries.coords
        edges = EdgeData(entries.shape[0], source, target, np.asarray(entries.data, dtype=float))
    elif hasattr(graph, "columns") and hasattr(graph, "index"):
        edges = _table_edges(graph)
    elif (neighbors := _neighbor_mapping(graph)) is not None:
        edges = _mapping_edges(neighbors)
    elif _is_list(graph):
        edges = _list_edges(list(graph))
    else:
        edges = _array_edges(graph)
    if edges.n_nodes < 1:
        raise ValueError("graph must be square and not empty, got shape (0, 0).")
    _check_no_missing_name("graph", edges.names or ())
    return dataclasses.replace(edges, form=type(graph).__name__)


def _check_no_missing_name(parameter, names):
    """Raise ValueError if a name of a node is missing; ``parameter``: the argument with them."""
    position = next((k for k, name in enumerate(names) if is_missing(name)), None)
    if position is None:
        return
    raise ValueError(
        f"{parameter} must not have a missing value as the name of a node, got "
        f"{names[position]!r}. Drop edges without both names, in a table by edges.dropna(), and "
        "name nodes without an edge in nodelist=."
    )


def _check_square(shape):
    """Raise ValueError unless the shape is that of a square matrix with at least one row."""
    if len(shape) == 2 and shape[0] == shape[1] > 0:
        return
    fix = ""
    if len(shape) == 2 and 2 in shape:
        fix = " Pass an edge index or a list of edges to from_edges(edges, n_nodes=len(X))."
    raise ValueError(f"graph must be square and not empty, got shape {tuple(shape)}.{fix}")


def _networkx_edges(graph, weight):
    """Return the edges of a networkx graph; ``weight``: the edge attribute to read, or None.

    Raises ValueError if an edge does not have the attribute.
    """
    nodes = tuple(graph.nodes)
    edges = list(graph.edges(data=weight or True))
    number_of_node = {node: k for k, node in enumerate(nodes)}
    weights = None
    if weight is not None:
        values = [value for *_, value in edges]
        if None in values:
            raise ValueError(
                f"graph must have attribute {weight!r} on every edge (or set influence= to a "
                f"number or 'estimate'), edge {edges[values.index(None)][:2]} has none."
            )
        weights = np.array(values, dtype=float)
    pairs = [(number_of_node[source], number_of_node[target]) for source, target, _ in edges]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return EdgeData(len(nodes), ends[:, 0], ends[:, 1], weights, nodes)


def _table_edges(table):
    """Return the edges of a square table whose index and columns name the nodes.

    Nodes have no names if the index is 0, 1, …. Raises ValueError if index and columns differ.
    """
    columns = list(table.columns)
    index = list(table.index)
    if len(columns) != len(index):
        fix = ""
        if len(columns) in (2, 3):
            fix = " Pass a table of edges to from_edges(table[[source, target]], n_nodes=len(X))."
        raise ValueError(f"graph must be square and not empty, got shape {table.shape}.{fix}")
    if columns != index:
        position = next(k for k, name in enumerate(index) if columns[k] != name)
        raise ValueError(
            "graph must name its columns as its index, in one order, got column "
            f"{columns[position]!r} and row {index[position]!r} at position {position}. Pass "
            "graph.loc[X.index, X.index]."
        )
    edges = _array_edges(table.to_numpy())
    if index == list(range(len(index))):
        return edges
    return dataclasses.replace(edges, names=tuple(index), is_table=True)


def _neighbor_mapping(graph):
    """Return the graph, or its attribute ``neighbors``, if it is a mapping; otherwise None."""
    if isinstance(graph, Mapping):
        return graph
    neighbors = getattr(graph, "neighbors", None)
    return neighbors if isinstance(neighbors, Mapping) else None


def _mapping_edges(neighbors):
    """Return the edges of a mapping from each node's name to the names of its neighbors.

    Raises ValueError if a neighbor is not a key, TypeError if a value is not a list of names.
    """
    names = tuple(neighbors)
    number_of_node = {name: k for k, name in enumerate(names)}
    source: list[int] = []
    target: list[int] = []
    for name, neighbor_names in neighbors.items():
        for neighbor in _neighbor_list(name, neighbor_names):
            if neighbor not in number_of_node:
                raise ValueError(
                    f"graph must have a key for every node, got neighbor {neighbor!r} of {name!r}, "
                    "which is none. Give a node without neighbors an empty list."
                )
            source.append(number_of_node[name])
            target.append(number_of_node[neighbor])
    ends = np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)
    return EdgeData(len(names), *ends, names=names)


def _neighbor_list(name, neighbors):
    """Return the neighbors of a node as an iterable of names.

    Raises TypeError if they are not iterable, or text. ``name``: the name of the node.
    """
    if isinstance(neighbors, str | bytes) or not np.iterable(neighbors):
        raise TypeError(
            f"graph must hold a list of neighbors for each node, got {neighbors!r:.40} for "
            f"{name!r}."
        )
    return neighbors.tolist() if isinstance(neighbors, np.ndarray) else neighbors


def _is_list(graph):
    """Return whether a graph is a list, a tuple or a one-dimensional array of objects."""
    is_object_array = isinstance(graph, np.ndarray) and graph.dtype == object and graph.ndim == 1
    return isinstance(graph, list | tuple) or is_object_array


def _list_edges(rows):
    """Return the edges of a list of matrix rows, or of a list of the neighbors of each node.

    Raises TypeError or ValueError for other lists, and for one or for three or more pairs, which
    may be edges.
    """
    if not rows:
        raise ValueError("graph must be square and not empty, got an empty list.")
    if not all(np.iterable(row) and not isinstance(row, str | bytes) for row in rows):
        raise TypeError(f"{_FORMS}, got a list of {type(rows[0]).__name__}.")
    lengths = {len(row) for row in rows}
    if lengths == {len(rows)}:
        return _array_edges(rows)
    if lengths == {2}:
        raise ValueError(
            "graph is a list of entries of length 2, which may be edges or the neighbors of each "
            "node. Pass edges to from_edges(edges, n_nodes=len(X)), and neighbors as "
            "dict(enumerate(graph))."
        )
    return _neighbor_list_edges(rows)


def _neighbor_list_edges(neighbor_lists):
    """Return the edges of a list that has, for each node, the positions of its neighbors.

    Raises TypeError or ValueError if an entry is not a position.
    """
    n_nodes = len(neighbor_lists)
    n_neighbors = [len(neighbors) for neighbors in neighbor_lists]
    target = np.array([neighbor for neighbors in neighbor_lists for neighbor in neighbors])
    if not target.size:
        target = target.astype(np.int64)
    if target.dtype.kind not in "iu":
        raise TypeError(f"{_FORMS}, got a list of lists of {target.dtype}.")
    source = np.repeat(np.arange(n_nodes), n_neighbors)
    invalid_edges = np.flatnonzero((target < 0) | (target >= n_nodes))  # edges to no node
    if invalid_edges.size:
        edge = invalid_edges[0]
        raise ValueError(
            f"graph holds the neighbors of {n_nodes} nodes by their positions 0 … "
            f"{n_nodes - 1}, got {target[edge]} among those of node {source[edge]}."
        )
    return EdgeData(n_nodes, source, target.astype(np.int64))


def _array_edges(graph):
    """Return the edges of a square array: its nonzero entries, with their values as weights.

    Raises TypeError or ValueError for other objects and shapes.
    """
    try:
        dense = None if graph is None else np.asarray(graph, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{_FORMS}, got {type(graph).__name__}.") from error
    if dense is None or (dense.ndim == 0 and not isinstance(graph, np.ndarray)):
        raise TypeError(
            f"{_FORMS}, got {graph!r:.40}. Pass pairs of rows to from_edges of this class, as in "
            "MarkovNetwork.from_edges([(0, 1), (1, 2)], n_nodes=len(X))."
        )
    _check_square(dense.shape)
    source, target = np.nonzero(dense)
    return EdgeData(len(dense), source, target, dense[source, target])


# -- edges ----------------------------------------------------------------------------------------


def edges_between(edges: Any, *, n_nodes: int | None = None, nodes: Any = None) -> EdgeData:
    """Return the edges of an edge index, a list of pairs or a table of two columns.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2) or (2, n_edges), list of pairs, or table
        Both ends of each edge: positions ``0 … n_nodes - 1``, or names.
    n_nodes : int, optional
        Number of nodes, for positions. By default, 1 more than the largest position.
    nodes : array-like, optional
        Names of the nodes that are records. Further nodes in ``edges`` follow them.

    Returns
    -------
    EdgeData
        The edges; with names if ``nodes`` are given or the ends are not integers.

    Raises
    ------
    TypeError
        If ``edges`` is a graph, a dict, a text or not iterable.
    ValueError
        If ``edges`` can be read in two ways, has another shape, or holds neither positions nor
        names, if a name is missing, or if ``n_nodes`` does not match.
    """
    source, target = _edge_ends(edges)
    both_ends = np.concatenate([source, target])
    if both_ends.dtype.kind in "fcb" and both_ends.size:
        raise ValueError(
            f"edges must hold positions (integers) or names of nodes, got {both_ends.dtype}. Drop "
            "missing values and convert with astype(int)."
        )
    if nodes is None and (both_ends.dtype.kind in "iu" or not both_ends.size):
        return _numbered_edges(both_ends.astype(np.int64), n_nodes)
    return _named_edges(both_ends.tolist(), n_nodes, [] if nodes is None else list(nodes))


def _named_edges(both_ends, n_nodes, nodes):
    """Return the edges of named nodes, first those in ``nodes``, then others that have an edge.

    ``both_ends``: names of the sources of all edges, then of their targets. ``n_nodes``: number of
    nodes, or None if it is not declared. Raises ValueError if it is not the number of these nodes,
    or if a name is missing.
    """
    _check_no_missing_name("edges", both_ends)
    _check_no_missing_name("nodelist", nodes)
    names = list(dict.fromkeys([*nodes, *both_ends]))
    if n_nodes is not None and check_integer("n_nodes", n_nodes, low=1) != len(names):
        raise ValueError(
            f"n_nodes must be the number of named nodes, {len(names)}, got {n_nodes=}. Pass "
            "nodelist=X.index instead, which also names nodes without an edge."
        )
    number_of_node = {name: k for k, name in enumerate(names)}
    ends = np.array([number_of_node[name] for name in both_ends], dtype=np.int64)
    source, target = ends.reshape(2, -1)
    return EdgeData(len(names), source, target, names=tuple(names))


def _numbered_edges(both_ends, n_nodes):
    """Return the edges of nodes that are positions.

    ``both_ends``: positions of the sources of all edges, then of their targets. ``n_nodes``: number
    of nodes, None for 1 more than the largest position. Raises ValueError for numbers below 0, not
    below ``n_nodes``, or, if it is None, so large that they look like names.
    """
    largest = int(both_ends.max(initial=-1))
    if both_ends.size and both_ends.min() < 0:
        raise ValueError(f"edges must hold positions of at least 0, got {both_ends.min()}.")
    if n_nodes is None:
        n_distinct = len(np.unique(both_ends))
        if largest >= _MAX_NUMBERS_PER_NODE * max(n_distinct, _MAX_NUMBERS_PER_NODE):
            raise ValueError(
                f"edges join {n_distinct} nodes with numbers up to {largest}, which look like "
                "names. Pass nodelist=X.index with the node of each row of X, or n_nodes= if they "
                "are positions."
            )
        n_nodes = largest + 1
    n_nodes = check_integer("n_nodes", n_nodes, low=1)
    if largest >= n_nodes:
        raise ValueError(
            f"edges must hold positions 0 … {n_nodes - 1} (n_nodes={n_nodes}), got {largest}. If "
            "these are names, pass nodelist=X.index."
        )
    source, target = both_ends.reshape(2, -1)
    return EdgeData(n_nodes, source, target)


def _edge_ends(edges):
    """Return the sources and the targets of all edges as two vectors of positions or names.

    ``edges``: argument of :func:`edges_between`. Raises TypeError or ValueError for other objects.
    """
    if hasattr(edges, "columns"):
        columns = list(edges.columns)
        if len(columns) != 2:
            raise ValueError(
                f"edges must have two columns, got {len(columns)}: pass edges[[source, target]]."
            )
        return _as_ends(edges[columns[0]]), _as_ends(edges[columns[1]])
    if isinstance(edges, str | bytes | dict) or not np.iterable(edges):
        raise TypeError(
            "edges must be an edge index, a list of pairs or a table of two columns, got "
            f"{type(edges).__name__}."
        )
    if sparse.issparse(edges) or is_networkx(edges):
        raise TypeError(
            f"edges must be a list of edges, got the graph {type(edges).__name__}. Pass it as "
            "MarkovNetwork(graph) or DependencyGraph(graph)."
        )
    items = edges if hasattr(edges, "shape") else list(edges)
    if not len(items):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return _ends_of_array(np.asarray(items)) if hasattr(items, "shape") else _ends_of_list(items)


def _ends_of_list(items):
    """Return the sources and the targets of a list of pairs, or of a list of both vectors.

    Raises ValueError for texts, for lists of other lengths, and for a list of two lists that may be
    either.
    """
    text = next((item for item in items if isinstance(item, str | bytes)), None)
    if text is not None:
        raise ValueError(
            f"edges must be pairs of nodes, got the text {text!r:.40}. Pass a list of tuples, such "
            "as [('a', 'b'), ('b', 'c')]."
        )
    lengths = {len(item) if np.iterable(item) else 0 for item in items}
    if len(items) == 2 and len(lengths) == 1 and lengths != {2}:
        return _as_ends(items[0]), _as_ends(items[1])
    if lengths != {2}:
        raise ValueError(
            "edges must be pairs of nodes, or two lists of equal length, got entries of lengths "
            f"{sorted(lengths)[:_MAX_EXAMPLES]}."
        )
    sources = _as_ends([item[0] for item in items])
    targets = _as_ends([item[1] for item in items])
    if len(items) == 2 and not all(isinstance(item, tuple) for item in items):
        _check_unambiguous(sources, targets)
    return sources, targets


def _ends_of_array(array):
    """Return the sources and the targets of an array of shape (n_edges, 2) or (2, n_edges).

    Raises ValueError for other shapes, and for shape (2, 2) if both readings differ.
    """
    if array.ndim != 2 or 2 not in array.shape:
        raise ValueError(f"edges must have shape (n_edges, 2) or (2, n_edges), got {array.shape}.")
    if array.shape == (2, 2):
        _check_unambiguous(array[:, 0], array[:, 1])
    if array.shape[1] == 2:
        return array[:, 0], array[:, 1]
    return array[0], array[1]


def _check_unambiguous(sources, targets):
    """Raise ValueError if two pairs would be other edges when read as shape (2, n_edges)."""
    edges_as_pairs = {
        frozenset(pair) for pair in zip(sources.tolist(), targets.tolist(), strict=True)
    }
    edges_as_index = {frozenset(sources.tolist()), frozenset(targets.tolist())}
    if edges_as_pairs != edges_as_index:
        raise ValueError(
            "edges of shape (2, 2) may be two pairs or an edge index of two edges. Pass a list of "
            "tuples: [(source, target), (source, target)]."
        )


def _as_ends(values):
    """Return one end of each edge as a vector: of numbers if all are numbers, else of objects.

    Arrays and columns of tables keep their dtype.
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "shape"):
        return np.asarray(values)
    if all(isinstance(value, numbers.Real) for value in values):
        return np.asarray(values)
    vector = np.empty(len(values), dtype=object)
    vector[:] = values
    return vector
