"""A verified search against GridSearchCV: time, memory and what travels to workers, as ratios.

Time is that of the processor (this machine may have other work), runs alternate, and the median of
the ratios is printed. At equal numbers of fits GridSearchCV has one fold more and does not refit,
so that every second of ours beyond fitting and scoring counts against us.

    python benchmarks/bench_search.py [cheap] [slow] [memory] [bytes] [rows]
"""

import argparse
import pickle
import statistics
import tempfile
import time
import tracemalloc
import warnings
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV


class SlowScaler(TransformerMixin, BaseEstimator):
    """A transformer that takes a tenth of a second of the processor to learn."""

    def fit(self, X, y=None):
        """Learn the means, slowly."""
        end = time.process_time() + 0.1
        while time.process_time() < end:
            self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        """Subtract the means."""
        return X - self.mean_


def predict(models, X):
    """Let each model predict."""
    for model in models:
        model.predict(X)


def seconds(function):
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def line(name, theirs, ours, unit):
    """Print one comparison; the ratio is the median over pairs of runs."""
    ratio = statistics.median(b / a for a, b in zip(theirs, ours, strict=True))
    theirs = statistics.median(theirs)
    ours = statistics.median(ours)
    print(f"{name:58}{theirs:>10.3g} {unit:3}{ours:>10.3g} {unit:3}{ratio:>8.3f}", flush=True)


def sides(X, y):
    """Return training part and validation set."""
    X, X_val, y, y_val = train_test_split(X, y, random_state=0)
    return X, y, {"X_val": X_val, "y_val": y_val}


def cheap(runs):
    """Compare at equal numbers of fits."""
    small = make_classification(800, 20, random_state=0)
    cases = (
        (
            "tree, 600 records, 200 candidates x 4 fits",
            DecisionTreeClassifier(random_state=0),
            {"max_depth": list(range(1, 21)), "min_samples_leaf": list(range(1, 11))},
            small,
        ),
        (
            "logistic regression, 600 records, 200 candidates x 4 fits",
            LogisticRegression(),
            {"C": np.logspace(-3, 1, 200)},
            small,
        ),
        (
            "SVC, digits, 24 candidates x 4 fits",
            SVC(),
            {"C": np.logspace(-1, 2, 4), "gamma": np.logspace(-4, -2, 6)},
            load_digits(return_X_y=True),
        ),
    )
    for name, estimator, grid, data in cases:
        X, y, validation = sides(*data)
        models = [
            clone(estimator).set_params(**params).fit(X, y)
            for params in (ParameterGrid(grid) if "SVC" in name else ())
        ]
        theirs = []
        predicting = []
        ours = []
        for _ in range(runs):
            peer = GridSearchCV(estimator, grid, cv=4, refit=False)
            search = ReusableHoldoutSearchCV(estimator, grid, cv=3)
            theirs.append(seconds(partial(peer.fit, X, y)))
            ours.append(seconds(partial(search.fit, X, y, **validation)))
            predicting.append(seconds(partial(predict, models, validation["X_val"])))
        line(name, theirs, ours, "s")
        if models:  # predicting takes long, and GridSearchCV has no holdout to predict
            sums = [sum(pair) for pair in zip(theirs, predicting, strict=True)]
            line("  the same, the peer's models predicting the holdout, too", sums, ours, "s")


def slow(runs):
    """Compare behind a transformer that takes .1 s, cv=3: ten candidates."""
    X, y, validation = sides(*make_classification(400, 10, random_state=0))
    grid = {"logisticregression__C": np.logspace(-2, 2, 10)}
    uncached = []
    cached = []
    dask = []
    ours = []
    dask_search = _dask_ml()
    for _ in range(runs):
        pipeline = make_pipeline(SlowScaler(), LogisticRegression())
        search = ReusableHoldoutSearchCV(pipeline, grid, cv=3)
        peer = GridSearchCV(pipeline, grid, cv=3)
        uncached.append(seconds(partial(peer.fit, X, y)))
        with tempfile.TemporaryDirectory() as folder:
            remembers = make_pipeline(SlowScaler(), LogisticRegression(), memory=folder)
            peer = GridSearchCV(remembers, grid, cv=3)
            cached.append(seconds(partial(peer.fit, X, y)))
        if dask_search is not None:
            peer = dask_search(pipeline, grid, cv=3, n_jobs=1)
            dask.append(seconds(partial(peer.fit, X, y)))
        own_fit = seconds(partial(search.fit, X, y, **validation))
        ours.append(own_fit)
    line("slow transformer, against GridSearchCV", uncached, ours, "s")
    line("slow transformer, against Pipeline(memory=)", cached, ours, "s")
    if dask:
        line("slow transformer, against dask-ml", dask, ours, "s")


def _dask_ml():
    """Return dask-ml's search, which shares prefixes, too; None where it cannot be imported."""
    try:
        from dask_ml.model_selection import GridSearchCV as DaskSearch
    except ModuleNotFoundError as error:
        print(f"(dask-ml: not installed, {error.name} is missing)")
        return None
    except Exception as error:  # it lags behind versions of scikit-learn
        print(f"(dask-ml cannot be imported here: {type(error).__name__})")
        return None
    return DaskSearch


def peak(function):
    """Return the peak of allocated memory during a call, in MB."""
    tracemalloc.start()
    function()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size / 1e6


def memory(runs):
    """Compare peaks; one model may be added, that of the leader."""
    X, y, validation = sides(*make_classification(400, 200, random_state=0))
    network = MLPClassifier((1000,), max_iter=2, random_state=0)
    grid = {"alpha": list(np.logspace(-6, -1, 8))}
    theirs = []
    ours = []
    model = len(pickle.dumps(network.fit(X, y))) / 1e6
    for _ in range(max(1, runs // 2)):
        theirs.append(model + peak(lambda: GridSearchCV(network, grid, cv=3).fit(X, y)))
        search = ReusableHoldoutSearchCV(network, grid, cv=3)
        ours.append(peak(partial(search.fit, X, y, **validation)))
    line(f"peak memory, against GridSearchCV + one model ({model:.1f} MB)", theirs, ours, "MB")


def shipped(search, *args, **validation):
    """Return the bytes of what joblib is given to send to two workers, in MB."""
    from joblib import Parallel

    size = 0
    original_call = Parallel.__call__

    def weighed(self, iterable):
        nonlocal size
        calls = list(iterable)
        size += sum(len(pickle.dumps(call[1:])) for call in calls)
        return original_call(self, calls)

    Parallel.__call__ = weighed
    try:
        search.fit(*args, **validation)
    finally:
        Parallel.__call__ = original_call
    return size / 1e6


def bytes_sent(runs):
    """Compare what travels to two workers: training part, holdout, parameters, folds."""
    X, y, validation = sides(*make_classification(800, 20, random_state=0))
    grid = {"max_depth": list(range(1, 21))}
    tree = DecisionTreeClassifier(random_state=0)
    theirs = [shipped(GridSearchCV(tree, grid, cv=4, n_jobs=2, refit=False), X, y)]
    ours = [shipped(ReusableHoldoutSearchCV(tree, grid, cv=3, n_jobs=2), X, y, **validation)]
    line("bytes sent to two workers, 20 trees x 4 fits", theirs, ours, "MB")


def rows(runs):
    """Compare on a million rows, ours with the holdout in them, GridSearchCV on the other rows."""
    X, y = make_classification(1_000_000, 10, random_state=0)
    X_train, _, y_train, _ = train_test_split(X, y, random_state=0)
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [3, 6]}
    for scoring in ("accuracy", "roc_auc"):
        theirs = []
        ours = []
        for _ in range(max(1, runs // 4)):
            peer = GridSearchCV(tree, grid, scoring=scoring)
            theirs.append(seconds(partial(peer.fit, X_train, y_train)))
            search = ReusableHoldoutSearchCV(tree, grid, scoring=scoring, random_state=0)
            ours.append(seconds(partial(search.fit, X, y)))
        line(f"a million rows, two trees, {scoring}", theirs, ours, "s")


PARTS = {"cheap": cheap, "slow": slow, "memory": memory, "bytes": bytes_sent, "rows": rows}


def main():
    """Print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'case':58}{'peer':>14}{'ours':>14}{'ratio':>8}")
    for part in options.parts or PARTS:
        PARTS[part](options.runs)


if __name__ == "__main__":
    main()
