"""Exact leakage by linear programming, and joint distributions of small models by enumeration.

Written independently of the package: nothing here imports it. A joint distribution is an array
with one
axis per record. The worst ``epsilon``-DP mechanism for an adversary who knows the records ``S``
and distinguishes two values of record ``i`` solves

    maximize  mu . g   subject to   nu . g = 1,   g(x) <= e^epsilon g(x') for Hamming neighbors,

where ``mu`` and ``nu`` are the distributions of the dataset given ``(x_i, x_S)`` and ``(x_i',
x_S)``.
Only the two slices with these values matter: a function on them that satisfies the constraints
extends to all datasets by ``g(x) = min_y g(y) e^{epsilon d(x, y)}``.
"""

import itertools
import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog


def _constraints(shape, epsilon):
    """``A g <= 0`` for two stacked slices over the unknown records."""
    size = math.prod(shape)
    index = np.arange(size).reshape(shape)
    pair_starts = [np.arange(size)]
    pair_ends = [np.arange(size, 2 * size)]
    for axis, k in enumerate(shape):
        for a, b in itertools.combinations(range(k), 2):
            points_a = index.take(a, axis).ravel()
            points_b = index.take(b, axis).ravel()
            for offset in (0, size):
                pair_starts.append(points_a + offset)
                pair_ends.append(points_b + offset)
    pair_starts = np.concatenate(pair_starts)
    pair_ends = np.concatenate(pair_ends)
    # Both directions of every pair: g(bounded) <= e^epsilon g(bounding).
    bounded = np.r_[pair_starts, pair_ends]
    bounding = np.r_[pair_ends, pair_starts]
    rows = np.arange(len(bounded))
    values = np.r_[np.ones(len(bounded)), np.full(len(bounded), -math.exp(epsilon))]
    return sparse.csr_matrix(
        (values, (np.r_[rows, rows], np.r_[bounded, bounding])), shape=(len(bounded), 2 * size)
    )


def distinguish(mu, nu, epsilon):
    """Log of the best ratio that an ``epsilon``-DP mechanism gives between two slices."""
    size = mu.size
    matrix = _constraints(mu.shape, epsilon)
    solution = linprog(
        np.r_[-mu.ravel(), np.zeros(size)],
        A_ub=matrix,
        b_ub=np.zeros(matrix.shape[0]),
        A_eq=np.r_[np.zeros(size), nu.ravel()][None, :],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    if solution.status == 3:  # unbounded: cannot happen while the slices are linked
        return math.inf
    assert solution.status == 0, solution.message
    return math.log(-solution.fun)


def leakage(joint, epsilon, record, known_records):
    """Worst leakage about one record to an adversary with knowledge of the records ``known``."""
    n = joint.ndim
    max_leakage = 0.0
    unknown_records = [j for j in range(n) if j != record and j not in known_records]
    table = joint.transpose([*known_records, record, *unknown_records])
    for values in itertools.product(*(range(joint.shape[j]) for j in known_records)):
        conditional = table[values]
        mass = conditional.reshape(conditional.shape[0], -1).sum(axis=1)
        possible = np.flatnonzero(mass > 1e-300)
        for a, b in itertools.permutations(possible, 2):
            mu = conditional[a] / mass[a]
            nu = conditional[b] / mass[b]
            max_leakage = max(
                max_leakage, distinguish(np.atleast_1d(mu), np.atleast_1d(nu), epsilon)
            )
    return max_leakage


def bdp_leakage(joint, epsilon, *, records=None):
    """Exact BDP level of the worst ``epsilon``-DP mechanism: every record, every adversary."""
    n = joint.ndim
    max_leakage = 0.0
    for record in range(n) if records is None else records:
        other_records = [j for j in range(n) if j != record]
        for size in range(n):
            for known_records in itertools.combinations(other_records, size):
                max_leakage = max(max_leakage, leakage(joint, epsilon, record, list(known_records)))
    return max_leakage


def sequential_leakage(joint, epsilon, *, order=None):
    """Exact sequential level: only the prefixes of one order are known."""
    order = list(range(joint.ndim)) if order is None else list(order)
    return max(leakage(joint, epsilon, order[t], order[:t]) for t in range(joint.ndim))


def block_leakage(joint, epsilon, block, known_records):
    """Leakage about several records at once (the values of the block vary together)."""
    shape = joint.shape
    unknown_records = [j for j in range(joint.ndim) if j not in block and j not in known_records]
    table = joint.transpose([*known_records, *block, *unknown_records])
    max_leakage = 0.0
    for values in itertools.product(*(range(shape[j]) for j in known_records)):
        conditional = table[values]
        block_values = list(itertools.product(*(range(shape[j]) for j in block)))
        for a, b in itertools.permutations(block_values, 2):
            if conditional[a].sum() > 0 and conditional[b].sum() > 0:
                distance = sum(x != y for x, y in zip(a, b, strict=True))
                mu = conditional[a] / conditional[a].sum()
                nu = conditional[b] / conditional[b].sum()
                max_leakage = max(
                    max_leakage, _blocks(np.atleast_1d(mu), np.atleast_1d(nu), epsilon, distance)
                )
    return max_leakage


def _blocks(mu, nu, epsilon, distance):
    """As :func:`distinguish` when the slices are ``distance`` records apart."""
    size = mu.size
    matrix = _constraints(mu.shape, epsilon).tolil()
    for row in range(matrix.shape[0]):
        i, j = matrix.rows[row]
        if abs(i - j) == size:
            matrix[row, i if matrix[row, i] < 0 else j] = -math.exp(distance * epsilon)
    solution = linprog(
        np.r_[-mu.ravel(), np.zeros(size)],
        A_ub=matrix.tocsr(),
        b_ub=np.zeros(matrix.shape[0]),
        A_eq=np.r_[np.zeros(size), nu.ravel()][None, :],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
    )
    assert solution.status == 0, solution.message
    return math.log(-solution.fun)


# -- joint distributions ----------------------------------------------------------------------


def stationary(matrix):
    """Stationary distribution by solving the linear equations."""
    k = len(matrix)
    system = np.vstack([matrix.T - np.eye(k), np.ones(k)])
    return np.linalg.lstsq(system, np.r_[np.zeros(k), 1.0], rcond=None)[0]


def chain_distribution(matrix, n, *, emissions=None):
    """Joint distribution of ``n`` records of a chain, or of emissions of its states if given."""
    matrix = np.asarray(matrix, dtype=float)
    k = len(matrix)
    emissions = [np.eye(k)] * n if emissions is None else emissions
    # forward: axes (records so far, current state)
    table = stationary(matrix)[None, :] * emissions[0].T
    for step in range(1, n):
        next_table = table @ matrix
        table = next_table[..., None, :] * emissions[step].T
    return table.sum(axis=-1)


def field_distribution(n_values, factors):
    """Joint distribution proportional to a product of factors ``{(i, j, …): table}``."""
    n = len(n_values)
    joint = np.ones(n_values)
    for scope, table in factors.items():
        order = np.argsort(scope)
        shape = [1] * n
        for axis in scope:
            shape[axis] = n_values[axis]
        joint = joint * np.transpose(table, order).reshape(shape)
    return joint / joint.sum()


def mean_tail(joint, scores, level):
    """Exact ``P[mean of scores >= level]``; ``scores[i]`` maps the values of record ``i``."""
    n = joint.ndim
    total = np.zeros(joint.shape)
    for axis in range(n):
        shape = [1] * n
        shape[axis] = joint.shape[axis]
        total = total + np.asarray(scores[axis], dtype=float).reshape(shape)
    return float(joint[total / n >= level - 1e-12].sum())


def mean_score(joint, scores):
    """Exact expectation of the mean of scores."""
    n = joint.ndim
    return (
        sum(
            float(np.asarray(scores[i]) @ joint.sum(axis=tuple(j for j in range(n) if j != i)))
            for i in range(n)
        )
        / n
    )


def edge_diameters(tables, n):
    """Return the symmetric matrix of log cross-ratios of pairwise tables, written out in full."""
    matrix = np.zeros((n, n))
    for (i, j), table in tables.items():
        logs = np.log(np.asarray(table, dtype=float))
        rows = logs[:, None, :, None] + logs[None, :, None, :]
        matrix[i, j] = matrix[j, i] = (rows - rows.transpose(1, 0, 2, 3)).max()
    return matrix
