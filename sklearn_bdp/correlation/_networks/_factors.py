"""Factors of a joint distribution: their checks, edge diameters and rooted conditional kernels."""

import numpy as np
from scipy import sparse

from sklearn_bdp._checks import check_array
from sklearn_bdp.correlation._shared._transition import projective_diameter


def check_table(name, table, ndim):
    """Return a nonnegative table with some positive entry as a read-only float array."""
    array = check_array(name, table, ndim=ndim, low=0.0)
    if not array.size or not array.max() > 0:
        raise ValueError(f"{name} must have a positive entry, got only zeros.")
    array = array.copy()
    array.setflags(write=False)
    return array


def collect_values(factors, n):
    """Return the number of values of each record, after checking that tables agree."""
    values = np.zeros(n, dtype=np.int64)
    for scope, table in factors:
        for v, k in zip(scope, table.shape, strict=True):
            if values[v] not in (0, k):
                raise ValueError(
                    f"tables must agree on the number of values of record {v}, got "
                    f"{values[v]} and {k}."
                )
            values[v] = k
    return np.maximum(values, 1)


def pair_diameter(table, a, b):
    """Return the largest log cross-ratio of two axes of a table, the other axes held fixed."""
    moved = np.moveaxis(table, (a, b), (-2, -1)).reshape(-1, table.shape[a], table.shape[b])
    return max(projective_diameter(part) for part in moved if part.max() > 0)


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
                    known[key] = pair_diameter(table, a, b)
                rows.append(min(scope[a], scope[b]))
                columns.append(max(scope[a], scope[b]))
                data.append(max(known[key], 1e-13))
    matrix = sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=(n, n), dtype=float))
    matrix = sparse.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    return matrix


def rooted_kernels(factors, order, parent):
    """Return the kernel of each record given its parent, by position in ``order``; None for roots.

    ``order`` and ``parent`` come from :func:`rooted`; factors are over one record or a parent and
    its child. Rows of a kernel are the parent's values that can occur.
    """
    position = np.full(int(order.max()) + 1, -1)
    position[order] = np.arange(len(order))
    position, parent = position.tolist(), parent.tolist()
    below, edge = [None] * len(parent), [None] * len(parent)
    for scope, table in factors:
        if len(scope) == 1:
            v = position[scope[0]]
            below[v] = table if below[v] is None else below[v] * table
        else:
            u, v = position[scope[0]], position[scope[1]]
            child, piece = (v, table) if parent[v] == u else (u, table.T)
            edge[child] = piece if edge[child] is None else edge[child] * piece
    kernels, cache = [None] * len(parent), {}
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]
        if p < 0:
            continue
        # Shared tables without evidence below give shared kernels.
        key = id(edge[v]) if below[v] is None else None
        if key in cache:
            kernels[v], scaled = cache[key]
        else:
            weighted = edge[v] if below[v] is None else edge[v] * below[v][None, :]
            totals = weighted.sum(axis=1)
            kernels[v] = weighted[totals > 0] / totals[totals > 0, None]
            flat = np.ptp(totals) <= 1e-13 * totals.max()
            scaled = None if flat else totals / totals.max()
            if key is not None:
                cache[key] = kernels[v], scaled
        if scaled is not None:
            below[p] = scaled if below[p] is None else below[p] * scaled
    return kernels


def component_factors(factors, components):
    """Return the factors of each component, by its number."""
    result = {}
    for scope, table in factors:
        result.setdefault(int(components[scope[0]]), []).append((scope, table))
    return result
