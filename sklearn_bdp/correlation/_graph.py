"""Graphs of dependent records: conversion from the usual containers, and structure alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import (
    ComponentModel,
    ComponentwiseModel,
    unnamed_groups,
)
from sklearn_bdp.correlation._cutting import check_indices


def is_networkx(graph):
    """Return whether an object looks like a networkx graph (without importing it)."""
    return hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "is_directed")


def node_order(graph, nodelist=None):
    """Return the nodes of a networkx graph in record order: those of ``nodelist``, or as they are.

    Nodes named ``0 … n-1`` must come in this order, or nobody knows which of the two is meant.
    """
    nodes = list(graph.nodes)
    if nodelist is not None:
        order = list(nodelist)
        if len(order) != len(nodes) or set(order) != set(nodes):
            raise ValueError(
                f"nodelist must name every node of graph once, got {len(order)} names for "
                f"{len(nodes)} nodes."
            )
        return order
    numbered = all(isinstance(v, int | np.integer) for v in nodes)
    if numbered and nodes != sorted(nodes):
        raise ValueError(
            f"graph has integer nodes that do not come in ascending order: the first ones are "
            f"{nodes[:4]}. Pass nodelist= with the node of each row of X, for example "
            "nodelist=sorted(graph) if row i is the i-th smallest node, or nodelist=X.index."
        )
    return nodes


def adjacency(graph, *, weight=None, nodelist=None):
    """Return a symmetric CSR matrix without diagonal from any container of a graph.

    A scipy.sparse, networkx or dense graph; nonzero entries are edges. A directed graph counts in
    either direction, with the larger weight. ``weight`` names the edge attribute of a networkx
    graph to read; by default every edge weighs 1. ``nodelist``: its nodes in record order.
    """
    if is_networkx(graph):
        matrix = _from_networkx(graph, weight, node_order(graph, nodelist))
    elif nodelist is not None:
        raise ValueError(f"nodelist= needs a networkx graph, got {type(graph).__name__}.")
    elif sparse.issparse(graph):
        matrix = sparse.csr_array(graph).astype(float)
    else:
        try:
            dense = np.asarray(graph, dtype=float)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                f"graph must be a scipy.sparse matrix, a networkx graph or a square array, got "
                f"{type(graph).__name__}."
            ) from error
        if dense.ndim != 2:
            raise ValueError(f"graph must be a square matrix, got shape {dense.shape}.")
        matrix = sparse.csr_array(dense)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise ValueError(f"graph must be square and not empty, got shape {matrix.shape}.")
    if np.isnan(matrix.data).any():
        raise ValueError("graph must not hold NaN.")
    if matrix.nnz and matrix.data.min() < 0:
        raise ValueError(f"graph must hold nonnegative entries, got {matrix.data.min():g}.")
    matrix = matrix - sparse.diags_array(matrix.diagonal()).tocsr()
    matrix = sparse.csr_array(matrix.maximum(matrix.T))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _from_networkx(graph, weight, nodes):
    number = {node: i for i, node in enumerate(nodes)}
    rows, columns, data = [], [], []
    for a, b, attributes in graph.edges(data=True):
        if weight is not None and weight not in attributes:
            raise ValueError(
                f"graph must have attribute {weight!r} on every edge (or set influence= to a "
                f"number or 'estimate'), edge ({a!r}, {b!r}) has none."
            )
        rows.append(number[a])
        columns.append(number[b])
        data.append(1.0 if weight is None else float(attributes[weight]))
    n = len(nodes)
    # Parallel edges of a multigraph add up, which is safe for influences.
    return sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=(n, n), dtype=float))


class GraphModel(ComponentwiseModel):
    """Shared part of models tied to a graph whose components are independent."""

    _nodes: tuple[Any, ...] | None = (
        None  # names of the records; no part of what makes models equal
    )
    _caveats: tuple[str, ...] = ()

    def _name(self, graph, nodelist):
        self._nodes = tuple(node_order(graph, nodelist)) if is_networkx(graph) else None

    def __getstate__(self):
        return {**super().__getstate__(), "_nodes": None}

    @property
    def target(self) -> str:
        if self.is_independent:
            return super().target
        return "new components of the graph"

    def _part(self, indices):
        """Return what the records stand for where the largest component could not be held out."""
        sizes = np.bincount(self.components_)
        giant = int(np.argmax(sizes))
        if (self.components_[indices] == giant).any() or sizes[giant] <= len(indices):
            return ()
        return (
            f"Intervals apply to components like those held out: the largest component, "
            f"{100 * sizes[giant] / sizes.sum():.0f}% of all nodes, is too large to be held out.",
        )

    def _set_graph(self, matrix):
        self._indptr, self._indices, self._data = matrix.indptr, matrix.indices, matrix.data
        self.n_components_, self.components_ = connected_components(matrix, directed=False)
        self.components_ = self.components_.astype(np.int64)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(<{self.n_records} records, {len(self._data) // 2} edges, "
            f"{self.n_components_} components>)"
        )

    @property
    def adjacency_(self) -> Any:
        """Symmetric sparse matrix of the graph."""
        n = len(self.components_)
        return sparse.csr_array((self._data, self._indices, self._indptr), shape=(n, n))

    @property
    def n_records(self) -> int:
        return len(self.components_)

    @property
    def is_independent(self) -> bool:
        return self.n_components_ == self.n_records

    def components(self, n: int) -> Array:
        self.check_n(n)
        return self.components_

    def _content(self):
        return (
            len(self.components_),
            self._indptr.astype(np.int64),
            self._indices.astype(np.int64),
            self._data,
        )

    def _whole_components(self, indices):
        kept = np.bincount(self.components_[indices], minlength=self.n_components_)
        return bool(np.all((kept == 0) | (kept == np.bincount(self.components_))))


class DependencyGraph(GraphModel, ComponentModel):
    """Records that may depend on each other along the edges of a graph, in any way.

    Parameters
    ----------
    graph : scipy.sparse matrix or array, networkx graph, or dense array of shape (n, n)
        Nonzero entries are edges; weights and directions are ignored.
    nodelist : array-like of shape (n,), optional
        Node of a networkx graph that each row of ``X`` is, for example ``X.index``. By default
        rows are in graph order, which must be ascending where nodes are integers.

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
        If the matrix is not square, empty, negative or NaN somewhere.

    See Also
    --------
    MarkovNetwork : A graph with known strengths.
    Groups : Groups without a graph.

    Notes
    -----
    Structure alone declares that records of different components are independent, and no more
    (theory B1). With known strengths use :class:`MarkovNetwork` or :class:`BayesianNetwork`.

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

    def __init__(self, graph: Any, *, nodelist: ArrayLike | None = None) -> None:
        matrix = adjacency(graph, nodelist=nodelist)
        matrix.data = np.ones_like(matrix.data)
        self._set_graph(matrix)
        self._name(graph, nodelist)
        self._freeze()

    @property
    def caveats(self) -> tuple[str, ...]:
        return self._caveats

    def describe(self) -> str:
        return (
            f"dependency graph of {self.n_records} records in {self.n_components_} independent "
            f"components, the largest of {self._sizes(self.n_records)[0].max()}"
        )

    def _split(self, n, holdout, random_state):
        self._check_parts(n)
        return super()._split(n, holdout, random_state)

    def _folds(self, n, n_splits, random_state):
        self._check_parts(n)
        return super()._folds(n, n_splits, random_state)

    def _check_parts(self, n):
        """Raise what to do instead where structure alone leaves nothing to cut."""
        if self.n_components_ < 2 <= self.check_n(n):
            raise ValueError(
                f"correlation is one connected component of {n} records. A graph without "
                "strengths lets each record determine all others, so nothing can be held out. Set "
                "correlation=MarkovNetwork(graph, influence='estimate') to read the strength off "
                "training labels, or declare it with influence=. Or pass another graph's records "
                "as X_val, y_val."
            )

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        if self._whole_components(indices):
            part = DependencyGraph(self.adjacency_[indices][:, indices])
            vars(part)["_caveats"] = self._part(indices)
            return part
        # A dropped record may still carry dependence between its neighbours.
        return unnamed_groups(self.components_[indices])
