"""Simulated states of a stationary Markov chain."""

import numpy as np

from sklearn_bdp.correlation import stationary_distribution


def simulate_states(transition, n, rng):
    """Draw ``n`` consecutive states, numbers from 0, of a stationary irreducible chain.

    The path is cut into about ``sqrt(n)`` blocks. All blocks are walked at once, from every state
    they might start in, and then joined: the cost is ``n * n_states`` in about ``2 sqrt(n)``
    vectorised steps instead of ``n`` interpreted ones, and the distribution is exactly that of the
    chain.
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
