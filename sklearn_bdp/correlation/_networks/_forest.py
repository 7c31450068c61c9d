"""Sweeps over rooted forests: messages, blocks and couplings in time linear in the records."""

import math

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order


def rooted(matrix, components, wanted):
    """Return a breadth-first order of the wanted records, and the position of each one's parent.

    The first record of each component is its root. The sweeps below work on positions in this
    order, so that memory is read in sequence and ``parent[k] < k`` always; ``-1`` stands for roots.
    """
    n = matrix.shape[0]
    roots = np.unique(components, return_index=True)[1]
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


def birkhoff_messages(parent, diameters, dp_epsilon):
    """Return messages ``(upward, below, total)`` on a rooted forest (theory B6).

    ``upward`` goes from each node to its parent, ``below`` sums what comes from the children,
    ``total`` from all neighbours. ``diameters`` are those of the edges to the parents.
    """
    n = len(parent)
    gain, small = (-np.expm1(-diameters / 2)).tolist(), np.exp(-diameters / 2).tolist()
    log1p, expm1 = math.log1p, math.expm1
    below, upward, above = [0.0] * n, [0.0] * n, [0.0] * n
    # 4 artanh(tanh(D/4) tanh(w/4)) = 2 ln(1 + (1-a)(1-b)/(a+b)), a = e^{-D/2}, b = e^{-w/2}
    for v in range(len(parent) - 1, -1, -1):
        p = parent[v]
        if p >= 0:
            weight = dp_epsilon + below[v]
            x = expm1(-weight / 2)
            rest = small[v] + 1.0 + x
            message = 2.0 * log1p(-gain[v] * x / rest) if rest > 1e-15 else weight
            upward[v] = message if message < weight else weight
            below[p] += upward[v]
    for v in range(n):
        p = parent[v]
        if p >= 0:
            weight = dp_epsilon + below[p] + above[p] - upward[v]
            x = expm1(-weight / 2)
            rest = small[v] + 1.0 + x
            message = 2.0 * log1p(-gain[v] * x / rest) if rest > 1e-15 else weight
            above[v] = message if message < weight else weight
    below = np.array(below)
    # The subtraction above may round the wrong way; a part in 10^12 covers a million children.
    return upward, below, (below + np.array(above)) * (1.0 + 1e-12)


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
