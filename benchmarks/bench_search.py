"""A verified search against GridSearchCV: time, memory and bytes sent to workers, as ratios.

Time is that of the processor (this machine may have other work), runs alternate, and the median of
the ratios is printed. At equal numbers of fits GridSearchCV has one fold more and does not refit,
so that the ratio shows all time of ours beyond fitting and scoring.

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


def print_line(name, peer_values, our_values, unit):
    """Print the medians of one comparison and the median ratio over pairs of runs."""
    ratio = statistics.median(
        our_value / peer_value
        for peer_value, our_value in zip(peer_values, our_values, strict=True)
    )
    peer_median = statistics.median(peer_values)
    our_median = statistics.median(our_values)
    print(
        f"{name:58}{peer_median:>10.3g} {unit:3}{our_median:>10.3g} {unit:3}{ratio:>8.3f}",
        flush=True,
    )


def split_validation(X, y):
    """Return training records, their targets, and the arguments ``X_val`` and ``y_val``."""
    X_train, X_val, y_train, y_val = train_test_split(X, y, random_state=0)
    return X_train, y_train, {"X_val": X_val, "y_val": y_val}


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
        X, y, validation = split_validation(*data)
        models = [
            clone(estimator).set_params(**params).fit(X, y)
            for params in (ParameterGrid(grid) if "SVC" in name else ())
        ]
        peer_times = []
        prediction_times = []
        our_times = []
        for _ in range(runs):
            peer = GridSearchCV(estimator, grid, cv=4, refit=False)
            search = ReusableHoldoutSearchCV(estimator, grid, cv=3)
            peer_times.append(seconds(partial(peer.fit, X, y)))
            our_times.append(seconds(partial(search.fit, X, y, **validation)))
            prediction_times.append(seconds(partial(predict, models, validation["X_val"])))
        print_line(name, peer_times, our_times, "s")
        if models:  # predicting takes long, and GridSearchCV has no holdout to predict
            sums = [sum(pair) for pair in zip(peer_times, prediction_times, strict=True)]
            label = "  the same, the peer's models predicting the holdout, too"
            print_line(label, sums, our_times, "s")


def slow(runs):
    """Compare behind a transformer that takes .1 s, cv=3: ten candidates."""
    X, y, validation = split_validation(*make_classification(400, 10, random_state=0))
    grid = {"logisticregression__C": np.logspace(-2, 2, 10)}
    grid_search_times = []
    memory_times = []
    dask_times = []
    our_times = []
    dask_search = _dask_ml()
    for _ in range(runs):
        pipeline = make_pipeline(SlowScaler(), LogisticRegression())
        search = ReusableHoldoutSearchCV(pipeline, grid, cv=3)
        peer = GridSearchCV(pipeline, grid, cv=3)
        grid_search_times.append(seconds(partial(peer.fit, X, y)))
        with tempfile.TemporaryDirectory() as folder:
            cached_pipeline = make_pipeline(SlowScaler(), LogisticRegression(), memory=folder)
            peer = GridSearchCV(cached_pipeline, grid, cv=3)
            memory_times.append(seconds(partial(peer.fit, X, y)))
        if dask_search is not None:
            peer = dask_search(pipeline, grid, cv=3, n_jobs=1)
            dask_times.append(seconds(partial(peer.fit, X, y)))
        our_times.append(seconds(partial(search.fit, X, y, **validation)))
    print_line("slow transformer, against GridSearchCV", grid_search_times, our_times, "s")
    print_line("slow transformer, against Pipeline(memory=)", memory_times, our_times, "s")
    if dask_times:
        print_line("slow transformer, against dask-ml", dask_times, our_times, "s")


def _dask_ml():
    """Return dask-ml's search, which fits shared steps once, or None if it cannot be imported."""
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
    """Compare peaks of memory; ours keeps one model more, the best one so far."""
    X, y, validation = split_validation(*make_classification(400, 200, random_state=0))
    network = MLPClassifier((1000,), max_iter=2, random_state=0)
    grid = {"alpha": list(np.logspace(-6, -1, 8))}
    peer_peaks = []
    our_peaks = []
    model_size = len(pickle.dumps(network.fit(X, y))) / 1e6
    for _ in range(max(1, runs // 2)):
        peer_peak = peak(lambda: GridSearchCV(network, grid, cv=3).fit(X, y))
        peer_peaks.append(model_size + peer_peak)
        search = ReusableHoldoutSearchCV(network, grid, cv=3)
        our_peaks.append(peak(partial(search.fit, X, y, **validation)))
    label = f"peak memory, against GridSearchCV + one model ({model_size:.1f} MB)"
    print_line(label, peer_peaks, our_peaks, "MB")


def megabytes_sent(search, *args, **validation):
    """Return the megabytes that a fit passes to joblib for two workers."""
    from joblib import Parallel

    n_bytes = 0
    original_call = Parallel.__call__

    def counting_call(self, iterable):
        nonlocal n_bytes
        tasks = list(iterable)
        n_bytes += sum(len(pickle.dumps(task[1:])) for task in tasks)
        return original_call(self, tasks)

    Parallel.__call__ = counting_call
    try:
        search.fit(*args, **validation)
    finally:
        Parallel.__call__ = original_call
    return n_bytes / 1e6


def bytes_sent(runs):
    """Compare bytes sent to two workers: training set, holdout, parameters and folds."""
    X, y, validation = split_validation(*make_classification(800, 20, random_state=0))
    grid = {"max_depth": list(range(1, 21))}
    tree = DecisionTreeClassifier(random_state=0)
    peer = GridSearchCV(tree, grid, cv=4, n_jobs=2, refit=False)
    search = ReusableHoldoutSearchCV(tree, grid, cv=3, n_jobs=2)
    peer_size = megabytes_sent(peer, X, y)
    our_size = megabytes_sent(search, X, y, **validation)
    print_line("bytes sent to two workers, 20 trees x 4 fits", [peer_size], [our_size], "MB")


def rows(runs):
    """Compare on a million rows, ours with the holdout in them, GridSearchCV on the other rows."""
    X, y = make_classification(1_000_000, 10, random_state=0)
    X_train, _, y_train, _ = train_test_split(X, y, random_state=0)
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [3, 6]}
    for scoring in ("accuracy", "roc_auc"):
        peer_times = []
        our_times = []
        for _ in range(max(1, runs // 4)):
            peer = GridSearchCV(tree, grid, scoring=scoring)
            peer_times.append(seconds(partial(peer.fit, X_train, y_train)))
            search = ReusableHoldoutSearchCV(tree, grid, scoring=scoring, random_state=0)
            our_times.append(seconds(partial(search.fit, X, y)))
        print_line(f"a million rows, two trees, {scoring}", peer_times, our_times, "s")


COMPARISONS = {"cheap": cheap, "slow": slow, "memory": memory, "bytes": bytes_sent, "rows": rows}


def main():
    """Print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names",
        nargs="*",
        choices=[[], *COMPARISONS],
        default=[],
        help="comparisons; by default all",
    )
    parser.add_argument("--runs", type=int, default=5, help="repetitions of each measurement")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'case':58}{'peer':>14}{'ours':>14}{'ratio':>8}")
    for name in options.names or COMPARISONS:
        COMPARISONS[name](options.runs)


if __name__ == "__main__":
    main()
