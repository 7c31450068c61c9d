"""Records with known dependence whose columns all have the expectation 1/2, and an analyst."""

import numpy as np
from scipy.sparse import coo_array

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, MarkovChain
from sklearn_bdp.mechanisms import Thresholdout

BETA = 0.05
STAY = 0.9
WORLDS = ("independent", "groups", "chain", "tree")


# -- Worlds: states with known dependence, columns that follow them; every truth is 1/2 -----------


def _tree_edges(n):
    """Binary trees of seven records."""
    child = np.array([i for i in range(n) if i % 7])
    return child, child - child % 7 + (child % 7 - 1) // 2


def sample_states(world, n, rng):
    if world == "independent":
        return rng.integers(0, 2, n)
    if world == "groups":
        return np.repeat(rng.integers(0, 2, n // 4), 4)
    moves = rng.random(n) > STAY
    if world == "chain":
        moves[0] = rng.random() < 0.5
        return np.cumsum(moves) % 2
    states = rng.integers(0, 2, n)
    child, parent = _tree_edges(n)
    for i, j in zip(child.tolist(), parent.tolist(), strict=True):
        states[i] = states[j] ^ moves[i]
    return states


def make_model(world, n):
    if world == "independent":
        return Independent()
    if world == "groups":
        return Groups(np.repeat(np.arange(n // 4), 4))
    if world == "chain":
        return MarkovChain([[STAY, 1 - STAY], [1 - STAY, STAY]])
    child, parent = _tree_edges(n)
    return DependencyGraph(coo_array((np.ones(child.size), (child, parent)), shape=(n, n)).tocsr())


def sample_columns(world, n, columns, rng):
    """Bits of shape (n, columns): each column leans towards or away from the record's state."""
    lean = 0.0 if world == "independent" else 0.4
    lean = lean * (2 * sample_states(world, n, rng)[:, None] - 1) * rng.choice([-1, 1], columns)
    return (rng.random((n, columns)) < 0.5 + lean).astype(float)


def majority_vote(bits, signs):
    """Vote of an odd number of signed columns: expectation 1/2 by symmetry."""
    chosen = np.flatnonzero(signs)
    if chosen.size % 2 == 0:
        chosen = chosen[:-1]
    if chosen.size == 0:
        return bits[:, 0]
    return (((2 * bits[:, chosen] - 1) * signs[chosen]).sum(axis=1) > 0).astype(float)


def count_failures(certificate, world, replications, *, columns):
    """Return in how many replications an answer about ``columns`` is off by more than tau."""
    n = certificate.n
    rng = np.random.default_rng([WORLDS.index(world), n, replications])
    certified = certificate.mechanism
    n_failures = 0
    for _ in range(replications):
        mechanism = Thresholdout(
            certified.threshold,
            threshold_scale=certified.threshold_scale,
            query_scale=certified.query_scale,
            answer_scale=certified.answer_scale,
            budget=certified.budget,
            refresh=certified.refresh,
            resolution=certified.resolution,
            random_state=rng,
        )
        bits = sample_columns(world, n, columns, rng)
        # The training value is such that an answer tells on which side of 1/2 the score lies. After
        # the budget the analyst learns nothing more.
        screening = mechanism.answer(np.full(columns, 0.5 - certified.threshold), bits.mean(axis=0))
        signs = np.where(screening.above, 1.0, np.where(screening.answered, -1.0, 0.0))
        final = mechanism.answer(0.5, majority_vote(bits, signs).mean())
        errors = np.abs(screening.values[screening.above] - 0.5).tolist()
        if final.answered:
            errors.append(abs(float(final.values) - 0.5))
        n_failures += any(error > certificate.tau for error in errors)
    return n_failures
