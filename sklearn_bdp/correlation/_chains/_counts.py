"""Transition counts of observed states, and what they rule out."""

import math

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from sklearn_bdp._bisection import last_accepted
from sklearn_bdp._checks import check_integer

_TINY, _NEAR = 1e-300, 1.0 - 1e-16  # next to impossible, next to certain


def state_sequences(states):
    """Return one or several sequences of states as a list of arrays, after checking them."""
    if np.ndim(states if isinstance(states, np.ndarray) else 0) == 0 and not (
        hasattr(states, "__len__") and not isinstance(states, str | bytes | dict | np.ndarray)
    ):
        raise TypeError(f"states must be an array of integers, got {type(states).__name__}.")
    if isinstance(states, np.ndarray) or not any(np.ndim(s) for s in states):
        states = [states]
    sequences = [np.asarray(sequence) for sequence in states]
    for sequence in sequences:
        if sequence.ndim != 1 or not np.issubdtype(sequence.dtype, np.integer):
            raise ValueError(
                "states must be one-dimensional arrays of integers, got shape "
                f"{sequence.shape} of {sequence.dtype}."
            )
        if len(sequence) and sequence.min() < 0:
            raise ValueError(f"states must be at least 0, got {sequence.min()}.")
    return sequences


def transition_counts(states, *, n_states=None):
    """Return the matrix of transition counts of one or several sequences of states."""
    sequences = state_sequences(states)
    if not any(len(sequence) >= 2 for sequence in sequences):
        raise ValueError("states must hold at least one transition (two states in a row).")
    largest = max(int(sequence.max()) for sequence in sequences if len(sequence))
    if n_states is None:
        n_states = largest + 1
    n_states = check_integer("n_states", n_states, low=largest + 1)
    counts = np.zeros(n_states * n_states)
    for sequence in sequences:
        if len(sequence) >= 2:
            pairs = sequence[:-1].astype(np.int64) * n_states + sequence[1:]
            counts += np.bincount(pairs, minlength=n_states * n_states)
    return counts.reshape(n_states, n_states)


def confidence_intervals(counts, failure):
    """Return ``lower, upper``, entrywise intervals that hold the true transition matrix.

    Some entry lies outside with probability at most ``failure``. The transitions out of a state are
    independent draws in the order of its visits, but the number of visits is random; so the
    intervals invert the Krichevsky-Trofimov mixture martingale, which holds at all times at once
    (Robbins 1970; Ville 1939), and not a binomial test. Entries are united by Bonferroni; rows of
    two states need one interval each.
    """
    k = len(counts)
    misses = counts.sum(axis=1, keepdims=True) - counts
    level = betaln(counts + 0.5, misses + 0.5) - betaln(0.5, 0.5)
    level += math.log(failure / (k if k == 2 else k * k))

    def refused(p):
        # ln KT(hits, misses) - ln likelihood(p) >= ln(1 / failure)
        return xlogy(counts, p) + xlog1py(misses, -p) <= level

    # The likelihood rises up to the share of hits and falls from there. Both ends are searched
    # from a point that is refused, so none is returned that is not.
    mode = np.clip((counts + 1e-12) / (counts + misses + 2e-12), _TINY, _NEAR)
    lower = last_accepted(refused, np.full((k, k), _TINY), mode, steps=60)
    lower = np.where((counts > 0) & refused(lower), lower, 0.0)
    upper = last_accepted(refused, np.full((k, k), _NEAR), mode, steps=60)
    upper = np.where((misses > 0) & refused(upper), upper, 1.0)
    if k == 2:
        lower[:, 1], upper[:, 1] = 1.0 - upper[:, 0], 1.0 - lower[:, 0]
    if k == 1:
        lower[:] = 1.0
    return lower, upper
