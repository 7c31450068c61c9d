"""Pure functions of a transition matrix: stationary distribution, gaps, contraction, counts."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._checks import check_array
from sklearn_bdp._typing import Array

ROW_SUM_TOLERANCE = 1e-8


def check_transition(transition):
    """Return a copy of a transition matrix after checking it, rows scaled to sum to one exactly.

    Row ``u`` holds the distribution of the next state after state ``u``.
    """
    matrix = check_array("transition", transition, low=0.0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise ValueError(
            f"transition must be a square matrix (states by states), got shape {matrix.shape}."
        )
    sums = matrix.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if not abs(sums[worst] - 1.0) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"transition must have rows that sum to one, got {sums[worst]:.12g} in row {worst}. "
            "(A graph of dependent records is passed as a scipy.sparse matrix or networkx graph.)"
        )
    return matrix / sums[:, None]


def is_irreducible(matrix):
    """Return whether every state can be reached from every other."""
    return connected_components(matrix > 0, directed=True, connection="strong")[0] == 1


def stationary_distribution(matrix: Array) -> Array:
    """Return the stationary distribution of an irreducible chain: positive, sums to one."""
    # Grassmann, Taksar and Heyman 1985: elimination without subtractions, so that every entry
    # is found to relative precision, however nearly the chain decomposes.
    work = matrix.copy()
    k = len(work)
    for last in range(k - 1, 0, -1):
        work[:last, last] /= work[last, :last].sum()
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    distribution = np.ones(k)
    for state in range(1, k):
        distribution[state] = distribution[:state] @ work[:state, state]
    return distribution / distribution.sum()


def reversed_kernel(matrix, distribution):
    """Return the kernel of the stationary chain run backwards."""
    reverse = matrix.T * distribution[None, :] / distribution[:, None]
    return reverse / reverse.sum(axis=1, keepdims=True)


def is_reversible(matrix, distribution, *, tolerance=1e-9):
    """Return whether detailed balance holds."""
    flow = distribution[:, None] * matrix
    return bool(np.all(np.abs(flow - flow.T) <= tolerance * np.maximum(flow, flow.T).max()))


def spectral_gap(matrix, distribution):
    """Return ``1 - max_{j>=2} |lambda_j|`` of a transition matrix."""
    if len(matrix) == 1:
        return 1.0
    if is_reversible(matrix, distribution):  # symmetric form: real eigenvalues, found stably
        root = np.sqrt(distribution)
        symmetric = root[:, None] * matrix / root[None, :]
        values = np.abs(np.linalg.eigvalsh((symmetric + symmetric.T) / 2))
    else:
        values = np.abs(np.linalg.eigvals(matrix))
    return float(min(1.0, max(0.0, 1.0 - np.sort(values)[-2])))


def operator_norm(matrix, distribution):
    r"""Return the second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`."""
    if len(matrix) == 1:
        return 0.0
    root = np.sqrt(distribution)
    values = np.linalg.svd(root[:, None] * matrix / root[None, :], compute_uv=False)
    # Rounding errors of the decomposition must not make the chain look faster.
    return float(min(1.0, max(0.0, values[1] + 1e-14 * len(matrix))))


def dobrushin(matrix):
    """Return the Dobrushin coefficient, the largest total variation between two rows."""
    if len(matrix) == 1:
        return 0.0
    worst = max(
        float(np.abs(matrix[u + 1 :] - matrix[u]).sum(axis=1).max()) for u in range(len(matrix) - 1)
    )
    return min(1.0, worst / 2.0)


def projective_diameter(matrix):
    """Return the largest log cross-ratio of a nonnegative matrix, in nats (Birkhoff, Hilbert).

    ``max ln[P(u,y) P(v,z) / (P(u,z) P(v,y))]``, infinite if an entry is zero; columns of zeros
    (values that never occur) are ignored.
    """
    matrix = matrix[:, matrix.max(axis=0) > 0]
    matrix = matrix[matrix.max(axis=1) > 0]
    if matrix.size and not matrix.min() > 0:
        return math.inf
    logs, worst = np.log(matrix), 0.0
    for u in range(len(logs) - 1):
        difference = logs[u + 1 :] - logs[u]
        worst = max(worst, float((difference.max(axis=1) - difference.min(axis=1)).max()))
    return worst


def mixing_profile(matrix, *, length=2000, tolerance=1e-16):
    """Return ``theta(P^k)``, non-increasing, for ``k = 1, 2, …`` until it is negligible."""
    profile, power = [], np.eye(len(matrix))
    for _ in range(length):
        power = power @ matrix
        profile.append(min(dobrushin(power), profile[-1] if profile else 1.0))
        stuck = len(profile) >= 200 and profile[-1] >= 1.0 - 1e-15
        if stuck or not profile[-1] > tolerance:
            break
    return np.array(profile)


def mixing_after(profile, steps):
    """Return a bound on ``theta(P^steps)`` from the known powers (submultiplicativity)."""
    if steps <= 0:
        return 1.0
    known = len(profile)
    if steps <= known:
        return float(profile[steps - 1])
    if profile[-1] <= 0.0:
        return 0.0
    rest = steps % known
    log = (steps // known) * math.log(profile[-1])
    return math.exp(log) * (float(profile[rest - 1]) if rest else 1.0)


def mixing_sum(profile, terms):
    """Return a bound on the sum of ``theta(P^k)`` over ``k = 1 … terms``."""
    known = len(profile)
    if terms <= known:
        return float(profile[: max(terms, 0)].sum())
    head, factor = float(profile.sum()), float(profile[-1])
    # Blocks of `known` powers: each block is at most `factor` times the one before.
    blocks = math.ceil(terms / known)
    if factor >= 1.0:
        return float(terms)
    return min(float(terms), head * (1.0 - factor**blocks) / (1.0 - factor))


def block_spread(reach, n):
    """Return the least sum of squared martingale ranges over block lengths (theory H4).

    ``reach`` is what follows a block, in units of one record: the sum of the Dobrushin coefficients
    of the powers, that is expected records that still differ after two chains were started apart
    and coupled maximally (Griffeath 1975). The result is in units of the squared sensitivity.
    """
    sizes = np.unique(np.clip(np.ceil(reach * np.linspace(0.25, 4.0, 200)), 1, n))
    sizes = np.union1d(sizes, [1.0, float(n)])
    blocks = np.ceil(n / sizes)
    last = n - (blocks - 1) * sizes  # nothing follows the last block
    return float(((blocks - 1) * (sizes + reach) ** 2 + last**2).min())
