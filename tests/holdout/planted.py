"""A holdout and a model whose raw score on it only the test knows."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

N = 1009  # a prime: the score has digits that nothing else has
HITS = np.random.default_rng(7).random(N) < 0.73
SCORE = float(HITS.mean())

X = np.column_stack([np.arange(N, dtype=float), np.random.default_rng(1).normal(size=N)])
Y = np.random.default_rng(2).integers(0, 2, size=N)


class Planted(ClassifierMixin, BaseEstimator):
    """Right exactly on the records of ``HITS``; knows records by their first column."""

    def __init__(self, fails=False):
        self.fails = fails

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        if self.fails:
            raise RuntimeError("this model always fails")
        rows = np.asarray(X)[:, 0].astype(int)
        return np.where(HITS[rows], Y[rows], 1 - Y[rows])


def fitted(**parameters):
    """Return a fitted model."""
    return Planted(**parameters).fit(X, Y)
