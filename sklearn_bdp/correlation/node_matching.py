"""Cross-validation on training nodes that predicts the score on a holdout of nodes.

A holdout node has all its neighbors in the training set. A training node does not: some neighbors
are in the holdout, others are tested in the same fold, so that its score is lower. Folds spread
neighbors, and weights give the tested nodes as many labeled neighbors as the holdout nodes have.
No interval depends on it (theory G4: any prediction from the training set is valid).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.base import Folds, check_splits

#: Effective number of tested nodes below which no weighted score is compared with the holdout.
MIN_EFFECTIVE_NODES = 30
#: Part of the way from the training nodes' neighbors to those of the holdout nodes. On a grid of
#: degree 4 the whole way leaves 150 of 675 training nodes, and this part 230; a fifth of a bias of
#: 0.02 is far below the standard error of a score.
_MATCHED_PART = 0.8
_MAX_ROUNDS = 10
#: Part of the nodes: if fewer change their fold, more rounds are not worth their time.
_MIN_MOVES = 1e-3
_MAX_STEPS = 200
_TOLERANCE = 1e-9


class NodeMatching:
    """Graph between training nodes, and how many labeled neighbors the holdout nodes have.

    Parameters
    ----------
    adjacency : csr_array of shape (n_train, n_train)
        Edges between training nodes.
    holdout_neighbors : ndarray of int, shape (n_holdout,)
        Number of training nodes that each holdout node has as neighbors.
    """

    def __init__(self, adjacency: sparse.csr_array, holdout_neighbors: Array) -> None:
        self.adjacency = adjacency
        self.holdout_neighbors = holdout_neighbors

    @property
    def n_train(self) -> int:
        """Number of training nodes."""
        return int(self.adjacency.shape[0])

    def folds(self, n_splits: int) -> Folds:
        """Return folds that put few neighbors in the same test set.

        Parameters
        ----------
        n_splits : int
            Number of folds.

        Returns
        -------
        list of tuple of ndarray
            Pairs ``(train, test)``, with test sets of nearly equal size. Every node is in one test
            set.
        """
        n = self.n_train
        n_splits = check_splits(n_splits, n, "records")
        rng = np.random.default_rng(0)
        fold = rng.permutation(np.arange(n) % n_splits)
        nodes = np.arange(n)
        for _ in range(_MAX_ROUNDS):
            indicator = np.zeros((n, n_splits), dtype=np.float32)
            indicator[nodes, fold] = 1.0
            neighbors = self.adjacency @ indicator
            # Ties are broken at random, which keeps the folds balanced.
            best = np.argmin(neighbors + 0.5 * rng.random((n, n_splits)), axis=1)
            moves = neighbors[nodes, fold] > neighbors[nodes, best]
            moves &= rng.random(n) < 0.5  # neighbors that move together would meet again
            if moves.sum() <= _MIN_MOVES * n:
                break
            fold[moves] = best[moves]
        tests = [np.flatnonzero(fold == k) for k in range(n_splits)]
        if min(map(len, tests)) < 1:  # tiny graphs
            tests = [np.arange(k, n, n_splits) for k in range(n_splits)]
        return [(np.setdiff1d(nodes, test), test) for test in tests]

    def weights(self, splits: Folds) -> list[Array] | None:
        """Return weights of the tested nodes of each fold, so that their mean predicts the holdout.

        Parameters
        ----------
        splits : list of tuple of ndarray
            Training and test nodes of each fold.

        Returns
        -------
        list of ndarray or None
            Nonnegative weights with a sum of 1 over all folds. None if the tested nodes cannot be
            given the neighbors of the holdout nodes, or fewer than 30 nodes would count.
        """
        visible = []
        for train, test in splits:
            is_trained_on = np.zeros(self.n_train)
            is_trained_on[train] = 1.0
            visible.append((self.adjacency @ is_trained_on)[test])
        sizes = [len(test) for _, test in splits]
        matched = matching_weights(np.concatenate(visible), self.holdout_neighbors)
        if matched is None or effective_number(matched) < MIN_EFFECTIVE_NODES:
            return None
        return np.split(matched, np.cumsum(sizes)[:-1])


def effective_number(weights: Array) -> float:
    """Return how many equal weights have the same variance of the mean.

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
    r"""Return weights under which some nodes have as many neighbors as others.

    The weights :math:`w_i \propto \exp(b_1 x_i + b_2 x_i^2)` of maximum entropy (Hainmueller 2012,
    Entropy balancing for causal effects, eq. 4-8), with :math:`x = \ln(1 + \text{count})`, match
    the mean and the mean square of the target for the most part; if none do, the mean alone. The
    last fifth of the difference would cost more variance than it takes bias.

    Parameters
    ----------
    counts, target : ndarray of int
        Numbers of neighbors of the nodes to weight, and of those to match.

    Returns
    -------
    ndarray or None
        Positive weights with a sum of 1; None if no weights match.
    """
    values, inverse, sizes = np.unique(counts, return_inverse=True, return_counts=True)
    logs = np.log1p(values)
    center = float(logs @ sizes / sizes.sum())
    scale = math.sqrt(float((logs - center) ** 2 @ sizes / sizes.sum()))
    target_logs = np.log1p(target) - center
    if not scale > 0.0:
        matches = bool(np.abs(target_logs).max() < _TOLERANCE)
        return np.full(len(counts), 1.0 / len(counts)) if matches else None
    standardized = (logs - center) / scale
    for degree in (2, 1):
        powers = np.arange(1, degree + 1)
        features = standardized[:, None] ** powers
        train_moments = features.T @ sizes / sizes.sum()
        moments = ((target_logs / scale)[:, None] ** powers).mean(axis=0)
        moments = train_moments + _MATCHED_PART * (moments - train_moments)
        masses = _exponential_tilt(features, sizes.astype(float), moments)
        if masses is not None:
            return (masses / sizes)[inverse]
    return None


def _exponential_tilt(features, sizes, moments):
    """Return masses ``∝ sizes * exp(features @ b)`` with these moments, by damped Newton steps."""
    slopes = np.zeros(features.shape[1])
    for _ in range(_MAX_STEPS):
        exponents = features @ slopes
        masses = sizes * np.exp(exponents - exponents.max())
        masses /= masses.sum()
        means = masses @ features
        gap = means - moments
        if np.abs(gap).max() < _TOLERANCE:
            return masses
        covariance = (features * masses[:, None]).T @ features - np.outer(means, means)
        step = np.linalg.solve(covariance + 1e-12 * np.eye(len(slopes)), gap)
        slopes -= step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
    return None
