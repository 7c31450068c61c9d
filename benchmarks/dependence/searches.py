"""Searches under every declaration of dependence: how often any of their intervals is wrong."""

import math
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.dependence.processes import BETA, TIMES, autoregression, regimes
from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork
from sklearn_bdp.exceptions import DependenceWarning

ANGLES = (0.0, 0.2, 0.6, 1.2)


class Direction(ClassifierMixin, BaseEstimator):
    """Predict 1 on one side of a line through the origin; fits learn nothing."""

    def __init__(self, angle=0.0):
        self.angle = angle

    def fit(self, X, y):
        """Return itself."""
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        """Return the side of each record."""
        return (np.cos(self.angle) * X[:, 0] + np.sin(self.angle) * X[:, 1] > 0).astype(int)


def agreement(angle):
    """Return the probability that two directions at this angle agree on isotropic features."""
    return 1.0 - abs(angle) / math.pi


def labeled(hits, rng):
    """Return features, and labels that the direction 0 gets right where ``hits`` is 1."""
    X = rng.normal(size=(len(hits), 2))
    return X, np.where(hits > 0, X[:, 0] > 0, X[:, 0] <= 0).astype(int)


def accuracy(mean):
    """Return the true accuracy as a function of the angle; ``mean`` is that of direction 0."""
    return lambda angle: agreement(angle) * mean + (1.0 - agreement(angle)) * (1.0 - mean)


def play(X, y, correlation, truth, *, groups=None):
    """Return the outcome of two searches on one holdout, the second one around the best.

    The outcome is whether any interval missed its truth, the half-width of the one selected last,
    and whether a warning rejected the declaration.
    """
    options = {"cv": 3, "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = ReusableHoldoutSearchCV(
            Direction(), {"angle": list(ANGLES)}, correlation=correlation, **options
        ).fit(X, y, groups=groups)
        train = first.train_indices_
        angles = [abs(first.best_params_["angle"] + step) for step in (-0.1, 0.05, 0.1)]
        second = ReusableHoldoutSearchCV(
            Direction(), {"angle": angles}, holdout=first.holdout_, **options
        ).fit(X[train], y[train], groups=None if groups is None else groups[train])
    missed = False
    for search in (first, second):
        results = search.cv_results_
        expected = np.array([truth(first, params["angle"]) for params in results["params"]])
        low = results["holdout_lower"]
        high = results["holdout_upper"]
        missed |= bool(np.any((low > expected) | (high < expected)))
    warned = any(issubclass(w.category, DependenceWarning) for w in caught)
    low, high = second.best_interval_
    return missed, (high - low) / 2.0, warned


# -- a simulation: X, y, correlation, truth(search, angle), groups --------------------------


def independent(n, rng, time):
    """Return independent records, declared so."""
    X, y = labeled((rng.random(n) < 0.7).astype(float), rng)
    return X, y, None, lambda _, angle: accuracy(0.7)(angle), None


def in_time(maker, declared):
    """Return a maker of series that are declared as ``None`` or by the true chain."""

    def make(n, rng, time):
        sample, mean, chain = maker(time)
        X, y = labeled(sample(n, rng), rng)
        correlation = chain if declared == "chain" else declared
        return X, y, correlation, lambda _, angle: accuracy(mean)(angle), None

    return make


def patients(n, rng, time):
    """Return patients of one to nine rows; all rows of a patient are easy or all are hard."""
    groups = np.repeat(np.arange(n), rng.integers(1, 10, n))[:n]
    hard = rng.random(n) < 0.4
    X, y = labeled((rng.random(n) < np.where(hard[groups], 0.3, 0.95)).astype(float), rng)
    mean = 0.6 * 0.95 + 0.4 * 0.3
    return X, y, "groups", lambda _, angle: accuracy(mean)(angle), groups


def nodes(n, rng, time, *, influence=0.4):
    """Return the nodes of a path of spins; the truth is exact given the training labels."""
    n = n // 8
    X = rng.normal(size=(n, 2))
    coupling = influence / 4.0
    fields = 0.8 * X[:, 0]
    spins = np.empty(n)
    for i, chance in enumerate(_forward(fields, coupling)):  # backward sampling, read forward
        odds = chance if i == 0 else chance + 2.0 * coupling * spins[i - 1]
        spins[i] = 1.0 if rng.random() < 1.0 / (1.0 + math.exp(-odds)) else -1.0
    y = (spins > 0).astype(int)
    edges = np.arange(n - 1)
    half = sparse.coo_array((np.full(n - 1, influence), (edges, edges + 1)), shape=(n, n))
    network = MarkovNetwork(sparse.csr_array(half + half.T), influence="data")

    def truth(search, angle):
        holdout = search.holdout_indices_
        clamped = np.full(n, np.nan)
        clamped[search.train_indices_] = spins[search.train_indices_]
        positive = 1.0 / (1.0 + np.exp(-_marginals(fields, coupling, clamped)))
        right = Direction(angle).predict(X[holdout]) == 1
        return float(np.where(right, positive[holdout], 1.0 - positive[holdout]).mean())

    return X, y, network, truth, None


def _message(odds, coupling):
    """Return the log odds that a neighbor of these log odds sends over an edge."""
    return 2.0 * math.atanh(math.tanh(coupling) * math.tanh(odds / 2.0))


def _forward(fields, coupling):
    """Return log odds of each spin given the one before, less that one's direct effect."""
    result = np.empty(len(fields))
    message = 0.0
    for i in range(len(fields) - 1, -1, -1):
        result[i] = 2.0 * fields[i] + message
        message = _message(result[i], coupling)
    return result


def _marginals(fields, coupling, clamped):
    """Return log odds of every spin given the clamped ones: belief propagation on a path."""

    def sweep(order):
        incoming = np.zeros(len(fields))
        message = 0.0
        for i in order:
            incoming[i] = message
            odds = 2.0 * fields[i] + message
            message = _message(odds, coupling)
            if not math.isnan(clamped[i]):
                message = 2.0 * coupling * clamped[i]
        return incoming

    n = len(fields)
    return 2.0 * fields + sweep(range(n)) + sweep(range(n - 1, -1, -1))


def easy(time):
    """Return an autoregression whose scores are 1 four times in five."""
    return autoregression(time, 0.8)


MODES = {
    "independent, None": independent,
    "regimes, None": in_time(regimes, None),
    "regimes, true chain": in_time(regimes, "chain"),
    "autoregression, None": in_time(easy, None),
    "autoregression, chain": in_time(easy, "chain"),
    "groups": patients,
    "graph": nodes,
}


def show_searches(replications, n, rng):
    """Print misses, widths and warnings of searches under every declaration."""
    print(f"searches: {replications} replications, two rounds of 4 and 3 candidates, beta {BETA}")
    print(f"{'data, declared':24} {'miss':>6} {'half-width':>11} {'warns':>6}   (IACT 2 to 50)")
    for name, make in MODES.items():
        results = []
        for replication in range(replications):
            X, y, correlation, truth, groups = make(n, rng, TIMES[replication % len(TIMES)])
            results.append(play(X, y, correlation, truth, groups=groups))
        miss, width, warned = np.mean(results, axis=0)
        print(f"{name:24} {miss:6.3f} {width:11.3f} {warned:6.2f}", flush=True)
