"""Cross-validation on training nodes that predicts the score on a holdout of nodes.

A tested training node usually has fewer labeled neighbors than a holdout node: some are in the
holdout, others are tested in the same fold. So its score may be lower. Folds spread neighbors, and
weights bring the numbers of labeled neighbors of tested nodes near those of holdout nodes. No
interval depends on these folds and weights (theory G4: any prediction from the training set is
valid).
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
    """Graph between training nodes, and how many labeled neighbors the holdout nodes have.

    Parameters
    ----------
    adjacency : csr_array of shape (n_train, n_train)
        Edges between training nodes.
    n_holdout_neighbors : ndarray of int, shape (n_holdout,)
        Number of training nodes that each holdout node has as neighbors.
    """

    def __init__(self, adjacency: sparse.csr_array, n_holdout_neighbors: Array) -> None:
        self.adjacency = adjacency
        self.n_holdout_neighbors = n_holdout_neighbors

    @property
    def n_train(self) -> int:
        """Number of training nodes."""
        return int(self.adjacency.shape[0])

    def folds(self, n_splits: int) -> Folds:
        """Return folds of nodes that separate neighbors where that is possible.

        Parameters
        ----------
        n_splits : int
            Number of folds.

        Returns
        -------
        list of tuple of ndarray
            Pairs ``(train, test)``. Every node is in one test set.
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
            moves = n_neighbors[nodes, fold_of_node] > n_neighbors[nodes, best_fold]
            moves &= rng.random(n) < 0.5  # neighbors that move together would meet again
            if moves.sum() <= _MIN_MOVED_FRACTION * n:
                break
            fold_of_node[moves] = best_fold[moves]
        test_sets = [np.flatnonzero(fold_of_node == fold) for fold in range(n_splits)]
        if min(map(len, test_sets)) < 1:  # no fold may be empty
            test_sets = [np.arange(fold, n, n_splits) for fold in range(n_splits)]
        return [(np.setdiff1d(nodes, test), test) for test in test_sets]

    def weights(self, splits: Folds) -> list[Array] | None:
        """Return weights of the tested nodes of each fold, so that their mean predicts the holdout.

        Parameters
        ----------
        splits : list of tuple of ndarray
            Training and test nodes of each fold.

        Returns
        -------
        list of ndarray or None
            Nonnegative weights with a sum of 1 over all folds. None if :func:`matching_weights`
            finds none, or if the effective number of nodes would be below 30.
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
    """Return how many values of equal weight have a mean of the same variance.

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


def matching_weights(counts: Array, target: Array) -> Array | None:
    r"""Return weights of nodes under which their numbers of neighbors match those of other nodes.

    The weights :math:`w_i \propto \exp(b_1 x_i + b_2 x_i^2)` of maximum entropy (Hainmueller 2012,
    Entropy balancing for causal effects, eq. 4-8), with :math:`x = \ln(1 + \text{count})`, remove
    four fifths of the difference to the mean and the mean square of the target; if no such weights
    are found, of the difference to the mean alone.

    Parameters
    ----------
    counts : ndarray of shape (n_nodes,)
        Numbers of neighbors of the nodes to weight.
    target : ndarray of shape (n_targets,)
        Numbers of neighbors of the nodes to match.

    Returns
    -------
    ndarray or None
        Nonnegative weights with a sum of 1; None if none are found.
    """
    # All nodes with the same number of neighbors have the same weight.
    distinct_counts, inverse, n_nodes = np.unique(counts, return_inverse=True, return_counts=True)
    logs = np.log1p(distinct_counts)
    mean_log = float(logs @ n_nodes / n_nodes.sum())
    std_log = math.sqrt(float((logs - mean_log) ** 2 @ n_nodes / n_nodes.sum()))
    target_logs = np.log1p(target) - mean_log
    if not std_log > 0.0:
        is_equal = bool(np.abs(target_logs).max() < _TOLERANCE)
        return np.full(len(counts), 1.0 / len(counts)) if is_equal else None
    standardized_logs = (logs - mean_log) / std_log
    for n_moments in (2, 1):
        powers = np.arange(1, n_moments + 1)
        features = standardized_logs[:, None] ** powers
        tested_moments = features.T @ n_nodes / n_nodes.sum()
        target_moments = ((target_logs / std_log)[:, None] ** powers).mean(axis=0)
        moments = tested_moments + _MATCHED_FRACTION * (target_moments - tested_moments)
        masses = _exponential_tilt(features, n_nodes.astype(float), moments)
        if masses is not None:
            return (masses / n_nodes)[inverse]
    return None


def _exponential_tilt(features, n_nodes, moments):
    """Return probabilities ``∝ n_nodes * exp(features @ b)`` with the given means of the features.

    None if damped Newton steps do not find ``b``. ``features`` has one row per entry of
    ``n_nodes``.
    """
    slopes = np.zeros(features.shape[1])
    for _ in range(_MAX_NEWTON_STEPS):
        exponents = features @ slopes
        masses = n_nodes * np.exp(exponents - exponents.max())
        masses /= masses.sum()
        means = masses @ features
        difference = means - moments
        if np.abs(difference).max() < _TOLERANCE:
            return masses
        covariance = (features * masses[:, None]).T @ features - np.outer(means, means)
        step = np.linalg.solve(covariance + 1e-12 * np.eye(len(slopes)), difference)
        slopes -= step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
    return None
