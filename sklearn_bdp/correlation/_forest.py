"""How far a change of one record reaches: sweeps over rooted forests, walks on any graph."""

import math

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order


def rooted(matrix, roots, wanted):
    """Return a breadth-first order of the wanted records, and the position of each one's parent.

    ``roots`` holds one record per component. The sweeps below work on positions in this
    order, so that memory is read in sequence and ``parent[k] < k`` always; ``-1`` stands for roots.
    """
    n = matrix.shape[0]
    # One extra node points at every root, so that a single search covers all components.
    indptr = np.r_[matrix.indptr, matrix.indptr[-1] + len(roots)]
    indices = np.r_[matrix.indices, roots]
    graph = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(n + 1, n + 1))
    order, before = breadth_first_order(graph, n, directed=True, return_predecessors=True)
    order = order[1:].astype(np.int64)
    order = order[wanted[order]]
    position = np.full(n + 1, -1)
    position[order] = np.arange(len(order))
    return order, position[before[order]]


def couplings(parent, contractions):
    """Return ``theta_v R_v`` of each node: what its parent's change costs below.

    ``R_v = 1 + sum_children theta_c R_c`` are the expected records that feel a change at ``v``;
    ``contractions`` are the Dobrushin coefficients of the kernels given the parents.
    """
    reach, passed = [1.0] * len(parent), [0.0] * len(parent)
    for v in range(len(parent) - 1, -1, -1):
        passed[v] = contractions[v] * reach[v]
        if parent[v] >= 0:
            reach[parent[v]] += passed[v]
    return passed


def block_costs(parent, components, unit, passed, target):
    """Return per component the sum over blocks of ``(size * unit + messages from outside)^2``.

    Blocks are connected, at most ``target`` nodes each, grown from the leaves; they are revealed
    roots first, so only the subtrees below a block feel it. Any partition gives a valid bound.
    ``unit`` is what one record of a block costs by itself, ``passed`` what a node's subtree adds to
    the block of its parent.
    """
    cost = [0.0] * (max(components) + 1)
    size, outside = [1] * len(parent), [0.0] * len(parent)
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
    given all others. Where the series diverges in a component the entries are infinite.

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
        done = new.max() > 1e6 or float((new - reach).max()) <= 1e-10 * float(new.max())
        reach = new
        if done:
            break
    reach = reach * (1.0 + 1e-6)
    # Only a super-solution bounds the series from above: r >= 1 + C r, component by component.
    fails = reach < 1.0 + contraction @ reach
    bad = np.zeros(int(components.max()) + 1, dtype=bool)
    bad[components[fails]] = True
    return np.where(bad[components], np.inf, reach)
