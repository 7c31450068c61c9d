"""A slow classifier that writes down each of its fits; worker processes import it."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class LoggingClassifier(ClassifierMixin, BaseEstimator):
    """Predict by the sign of one column; append a line to a file before and after each fit."""

    def __init__(self, path="", column=0, seconds=0.0):
        self.path = path
        self.column = column
        self.seconds = seconds

    def fit(self, X, y):
        self._write("begin", X)
        time.sleep(self.seconds)
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self._write("end", X)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, self.column] > 0).astype(int)]

    def _write(self, word, X):
        line = f"{word} {self.column} {len(X)} {float(np.sum(X)):.6f} {os.getpid()}\n"
        with Path(os.fsdecode(self.path)).open("a") as file:  # one short append is atomic
            file.write(line)


class DiesOnce(LoggingClassifier):
    """Kills its process in the fit of one column on so many records, the first time."""

    def __init__(self, path="", column=0, seconds=0.0, fatal_fit=None, flag=""):
        super().__init__(path, column, seconds)
        self.fatal_fit = fatal_fit
        self.flag = flag

    def fit(self, X, y):
        if self.fatal_fit == (self.column, len(X)) and not Path(os.fsdecode(self.flag)).exists():
            Path(os.fsdecode(self.flag)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def completed_fits(path):
    """Return the completed fits, in order, as (column, records, digest of the data)."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return [tuple(line.split()[1:4]) for line in lines if line.startswith("end")]
