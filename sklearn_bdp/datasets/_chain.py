"""Stationary Markov chains: check a transition matrix, find its distribution, simulate states."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._checks import check_array


def check_transition(transition):
    """Return an irreducible stochastic matrix as floats, or raise an error that says why not.

    Parameters
    ----------
    transition : array-like of shape (n_states, n_states)
        ``transition[a, b]`` is the probability of moving from state ``a`` to state ``b``.

    Returns
    -------
    ndarray of shape (n_states, n_states)
        The matrix, rows scaled to sum to 1 exactly.

    Raises
    ------
    ValueError
        If it is not square, not stochastic, or has more than one closed class of states (it has
        no unique stationary distribution then).
    """
    matrix = check_array("transition", transition, ndim=2, low=0.0, high=1.0)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"transition must be a square matrix, got shape {matrix.shape}.")
    sums = matrix.sum(axis=1)
    if not (np.abs(sums - 1.0) <= 1e-8).all():
        row = int(np.argmax(np.abs(sums - 1.0)))
        raise ValueError(
            f"Rows of transition must sum to 1, got row {row} with sum {float(sums[row])!r}."
        )
    parts, _ = connected_components(matrix > 0, directed=True, connection="strong")
    if parts != 1:
        raise ValueError(
            "transition must be irreducible (every state reachable from every other), "
            f"got {parts} classes of states."
        )
    return matrix / sums[:, None]


def stationary_distribution(transition):
    """Return the stationary probabilities of an irreducible stochastic matrix.

    Parameters
    ----------
    transition : ndarray of shape (n_states, n_states)
        As returned by :func:`check_transition`.

    Returns
    -------
    ndarray of shape (n_states,)
        The only probability vector ``p`` with ``p @ transition == p``.
    """
    n_states = len(transition)
    system = np.vstack([transition.T - np.eye(n_states), np.ones(n_states)])
    target = np.zeros(n_states + 1)
    target[-1] = 1.0
    distribution = np.linalg.lstsq(system, target, rcond=None)[0]
    distribution = np.clip(distribution, 0.0, None)
    return distribution / distribution.sum()


def simulate_states(transition, n, rng):
    """Draw ``n`` consecutive states of the stationary chain.

    The path is cut into about ``sqrt(n)`` blocks. All blocks are walked at once, from every state
    they might start in, and then joined: the cost is ``n * n_states`` in about ``2 sqrt(n)``
    vectorised steps instead of ``n`` interpreted ones, and the distribution is exactly that of the
    chain.

    Parameters
    ----------
    transition : ndarray of shape (n_states, n_states)
        As returned by :func:`check_transition`.
    n : int
        Number of records.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n,), of integers
        States from 0 to ``n_states - 1``.
    """
    n_states = len(transition)
    # The last column is left out: what no threshold exceeds is the last state, whatever rounding
    # does to the cumulative sum.
    steps = np.cumsum(transition, axis=1)[:, :-1]
    length = int(np.ceil(np.sqrt(n)))
    n_blocks = -(-n // length)
    uniform = rng.random((length, n_blocks))
    paths = np.empty((length, n_blocks, n_states), dtype=np.intp)
    current = np.broadcast_to(np.arange(n_states), (n_blocks, n_states))
    for t in range(length):
        current = (uniform[t][:, None, None] >= steps[current]).sum(axis=-1)
        paths[t] = current
    entry = np.empty(n_blocks, dtype=np.intp)
    # One step from a stationary state is a stationary state.
    state = int((rng.random() >= np.cumsum(stationary_distribution(transition))[:-1]).sum())
    for block in range(n_blocks):
        entry[block] = state
        state = paths[-1, block, state]
    return paths[:, np.arange(n_blocks), entry].T.ravel()[:n]
