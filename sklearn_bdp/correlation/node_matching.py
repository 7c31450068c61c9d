"""Folds and weights of training nodes that make cross-validated scores resemble holdout scores.

A tested training node usually has fewer neighbors in its training set than a holdout node, because
some are in the holdout and others in the same fold. So its score may be lower. Folds separate
neighbors, and weights bring the numbers of training neighbors of tested nodes near those of holdout
nodes. No interval depends on these folds and weights (theory G4).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.base import Folds, check_splits

#: Effective number of tested nodes below which no weighted score is compared with the holdout.
MIN_EFFECTIVE_NODES = 30
#: Fraction of the difference between moments of tested nodes and of holdout nodes that weights
#: remove. On a grid of degree 4, removing all of it leaves an effective number of 150 of 675
#: training nodes, and this fraction 230. The remaining fifth of a bias of 0.02 is far below the
#: standard error of a score.
_MATCHED_FRACTION = 0.8
_MAX_ROUNDS = 10  # of moves of nodes between folds
#: Rounds end if at most this fraction of nodes would change their fold.
_MIN_MOVED_FRACTION = 1e-3
_MAX_NEWTON_STEPS = 200
_TOLERANCE = 1e-9  # of moments


class NodeMatching:
    """Edges between training nodes, and numbers of training neighbors of holdout nodes.

    Parameters
    ----------
    adjacency : csr_array of shape (n_train, n_train)
        Symmetric adjacency matrix of the training nodes, with entries of 1.
    n_holdout_neighbors : ndarray of int, shape (n_holdout,)
        Number of training nodes among the neighbors of each holdout node.
    """

    def __init__(self, adjacency: sparse.csr_array, n_holdout_neighbors: Array) -> None:
        self.adjacency = adjacency
        self.n_holdout_neighbors = n_holdout_neighbors

    @property
    def n_train(self) -> int:
        """Number of training nodes."""
        return int(self.adjacency.shape[0])

    def folds(self, n_splits: int) -> Folds:
        """Return folds of the training nodes with few edges within test sets.

        Parameters
        ----------
        n_splits : int
            Number of folds.

        Returns
        -------
        list of tuple of ndarray
            Pairs ``(train, test)`` of positions among the training nodes. Every training node is in
            one test set.
        """
        n = self.n_train
        n_splits = check_splits(n_splits, n, "records")
        rng = np.random.default_rng(0)
        fold_of_node = rng.permutation(np.arange(n) % n_splits)
        nodes = np.arange(n)
        for _ in range(_MAX_ROUNDS):
            is_in_fold = np.zeros((n, n_splits), dtype=np.float32)
            is_in_fold[nodes, fold_of_node] = 1.0
            n_neighbors = self.adjacency @ is_in_fold  # of each node, in each fold
            # Ties are broken at random.
            best_fold = np.argmin(n_neighbors + 0.5 * rng.random((n, n_splits)), axis=1)
            is_moved = n_neighbors[nodes, fold_of_node] > n_neighbors[nodes, best_fold]
            # Half of them, because neighbors may otherwise move to the same fold again.
            is_moved &= rng.random(n) < 0.5
            if is_moved.sum() <= _MIN_MOVED_FRACTION * n:
                break
            fold_of_node[is_moved] = best_fold[is_moved]
        test_sets = [np.flatnonzero(fold_of_node == fold) for fold in range(n_splits)]
        if min(map(len, test_sets)) < 1:  # no fold may be empty
            test_sets = [np.arange(fold, n, n_splits) for fold in range(n_splits)]
        return [(np.setdiff1d(nodes, test), test) for test in test_sets]

    def weights(self, splits: Folds) -> list[Array] | None:
        """Return weights of tested nodes, for a mean score that predicts the holdout score.

        Parameters
        ----------
        splits : list of tuple of ndarray
            Pairs ``(train, test)`` of positions among the training nodes.

        Returns
        -------
        list of ndarray or None
            One vector per fold of nonnegative weights, with a sum of 1 over all folds. None if
            :func:`matching_weights` returns None, or if the effective number of nodes is below 30.
        """
        n_training_neighbors = []  # of the tested nodes, one vector per fold
        for train, test in splits:
            is_in_training = np.zeros(self.n_train)
            is_in_training[train] = 1.0
            n_training_neighbors.append((self.adjacency @ is_in_training)[test])
        test_sizes = [len(test) for _, test in splits]
        weights = matching_weights(np.concatenate(n_training_neighbors), self.n_holdout_neighbors)
        if weights is None or effective_number(weights) < MIN_EFFECTIVE_NODES:
            return None
        return np.split(weights, np.cumsum(test_sizes)[:-1])


def effective_number(weights: Array) -> float:
    """Return how many independent values have a plain mean as variable as the weighted mean.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Nonnegative weights.

    Returns
    -------
    float
        ``sum(weights)**2 / sum(weights**2)``.
    """
    return float(weights.sum() ** 2 / (weights @ weights))


def matching_weights(n_neighbors: Array, target_n_neighbors: Array) -> Array | None:
    r"""Return weights of nodes that bring their numbers of neighbors near those of other nodes.

    The weights are :math:`w_i \propto \exp(b_1 x_i + b_2 x_i^2)` with
    :math:`x = \ln(1 + \text{number of neighbors})` (Hainmueller 2012, Entropy balancing for causal
    effects, eq. 4-8). They remove four fifths of the difference in mean and mean square of
    :math:`x` between both sets of nodes, or of the difference in mean alone.

    Parameters
    ----------
    n_neighbors : ndarray of shape (n_nodes,)
        Numbers of neighbors of the nodes to weight.
    target_n_neighbors : ndarray of shape (n_target_nodes,)
        Numbers of neighbors of the other nodes.

    Returns
    -------
    ndarray or None
        Nonnegative weights with a sum of 1; None if none are found.
    """
    # All nodes with the same number of neighbors have the same weight.
    distinct_numbers, inverse, n_nodes = np.unique(
        n_neighbors, return_inverse=True, return_counts=True
    )
    logs = np.log1p(distinct_numbers)
    mean_log = float(logs @ n_nodes / n_nodes.sum())
    std_log = math.sqrt(float((logs - mean_log) ** 2 @ n_nodes / n_nodes.sum()))
    centered_target_logs = np.log1p(target_n_neighbors) - mean_log
    if not std_log > 0.0:
        is_equal = bool(np.abs(centered_target_logs).max() < _TOLERANCE)
        return np.full(len(n_neighbors), 1.0 / len(n_neighbors)) if is_equal else None
    standardized_logs = (logs - mean_log) / std_log
    for n_moments in (2, 1):
        powers = np.arange(1, n_moments + 1)
        features = standardized_logs[:, None] ** powers
        tested_moments = features.T @ n_nodes / n_nodes.sum()
        target_moments = ((centered_target_logs / std_log)[:, None] ** powers).mean(axis=0)
        moments = tested_moments + _MATCHED_FRACTION * (target_moments - tested_moments)
        probabilities = _exponential_tilt(features, n_nodes.astype(float), moments)
        if probabilities is not None:
            return (probabilities / n_nodes)[inverse]
    return None


def _exponential_tilt(features, n_nodes, moments):
    """Return probabilities ``p ~ n_nodes * exp(features @ b)`` with ``p @ features == moments``.

    ``n_nodes``: vector of positive base weights. ``features``: matrix with one row per entry of
    ``n_nodes``. None if Newton's method does not find such a vector ``b``.
    """
    slopes = np.zeros(features.shape[1])
    for _ in range(_MAX_NEWTON_STEPS):
        exponents = features @ slopes
        probabilities = n_nodes * np.exp(exponents - exponents.max())
        probabilities /= probabilities.sum()
        means = probabilities @ features
        difference = means - moments
        if np.abs(difference).max() < _TOLERANCE:
            return probabilities
        covariance = (features * probabilities[:, None]).T @ features - np.outer(means, means)
        step = np.linalg.solve(covariance + 1e-12 * np.eye(len(slopes)), difference)
        slopes -= step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
    return None
