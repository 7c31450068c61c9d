"""Bayesian networks of records: parents and conditional tables, moralised."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._checks import check_array, check_integer
from sklearn_bdp.correlation._chain import dobrushin, projective_diameter
from sklearn_bdp.correlation._network import NetworkModel


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

    _kind = "Bayesian network"

    def __init__(self, parents: Any, tables: Any) -> None:
        n = len(tables)
        if n < 1:
            raise ValueError("tables must hold at least one table, got none.")
        parents = _check_parents(parents, n)
        held, factors = {}, []
        for i in range(n):
            table = tables[i]
            if id(table) not in held:  # shared tables are checked and kept once
                held[id(table)] = (table, _check_conditional(f"tables[{i}]", table))
            array = held[id(table)][1]
            if array.ndim != len(parents[i]) + 1:
                raise ValueError(
                    f"tables[{i}] must have {len(parents[i]) + 1} axes (its parents "
                    f"{list(parents[i])}, then record {i}), got shape {array.shape}."
                )
            factors.append(((*parents[i], i), array))
        values = [table.shape[-1] for _, table in factors]
        for scope, table in factors:
            for v, k in zip(scope, table.shape, strict=True):
                if values[v] != k:
                    raise ValueError(
                        f"tables must agree on the number of values of record {v}, got "
                        f"{values[v]} and {k}."
                    )
        self._set_network(diameter_graph(factors, n), factors=factors)
        self._freeze()

    def _roots(self):
        # Records without parents: then the tables of a tree are its kernels from root to leaf.
        places = np.array([scope[-1] for scope, _ in self._factors if len(scope) == 1])
        if not len(places):  # given the rest, tables are gone
            return super()._roots()
        return places[np.unique(self.components_[places], return_index=True)[1]]

    def _kernels(self):
        """Return the table of each record given its parent in :meth:`_rooted`, None for roots."""
        table = {scope[-1]: table for scope, table in self._factors if len(scope) == 2}
        return [table.get(record) for record in self._rooted()[0].tolist()]

    def _contractions(self):
        if not self._factors:
            return super()._contractions()
        known: dict[int, float] = {}  # shared tables are measured once
        return np.array(
            [0.0 if k is None else known.setdefault(id(k), dobrushin(k)) for k in self._kernels()]
        )


def _check_conditional(name, table):
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
    """Return a list of tuples after checking names, repetitions and directed cycles."""
    if hasattr(parents, "items"):
        unknown = [
            key for key in parents if not (isinstance(key, int | np.integer) and 0 <= key < n)
        ]
        if unknown:
            raise ValueError(f"parents must name records 0 … {n - 1}, got {unknown[0]!r}.")
        parents = [parents.get(i, ()) for i in range(n)]
    if len(parents) != n:
        raise ValueError(
            f"parents must have one entry per table, got {len(parents)} entries and {n} tables."
        )
    checked = []
    for i, own in enumerate(parents):
        own = () if own is None else own
        own = tuple(check_integer(f"parents[{i}]", v, low=0, high=n - 1) for v in own)
        if i in own or len(set(own)) < len(own):
            raise ValueError(f"parents[{i}] must be distinct other records, got {list(own)}.")
        checked.append(own)
    ends = [(i, v) for i, own in enumerate(checked) for v in own]
    rows, columns = np.array(ends, dtype=int).reshape(-1, 2).T
    graph = sparse.coo_array((np.ones(len(ends)), (rows, columns)), shape=(n, n))
    count, label = connected_components(graph, directed=True, connection="strong")
    if count < n:
        record = int(np.flatnonzero(np.bincount(label)[label] > 1)[0])
        raise ValueError(
            f"parents must not contain a directed cycle, got one through record {record}."
        )
    return checked


def diameter_graph(factors, n):
    """Return the symmetric matrix of edge diameters (sums over the factors of a pair).

    Sums of pairwise diameters bound the diameter between any two sets of records, because a
    mixed second difference of the log-factor telescopes over single records. Records of one
    factor stay joined even where it does not couple them, so that factors never span components.
    """
    known, rows, columns, data = {}, [], [], []
    for scope, table in factors:
        for a in range(len(scope)):
            for b in range(a + 1, len(scope)):
                key = (id(table), a, b)  # shared tables are measured once
                if key not in known:
                    # The largest log cross-ratio of two axes, the other axes held fixed.
                    moved = np.moveaxis(table, (a, b), (-2, -1))
                    parts = moved.reshape(-1, table.shape[a], table.shape[b])
                    known[key] = max(projective_diameter(part) for part in parts if part.max() > 0)
                rows.append(min(scope[a], scope[b]))
                columns.append(max(scope[a], scope[b]))
                data.append(max(known[key], 1e-13))
    matrix = sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=(n, n), dtype=float))
    matrix = sparse.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    return matrix
