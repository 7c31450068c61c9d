"""Searches on large grids: processor time, interim and final half-widths (theory G27).

python -m benchmarks.dependence.node_sizes 100000 1000000
"""

import argparse
import math
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

GRID = {"C": [0.01, 0.1, 1.0]}


class LargeSearch(NamedTuple):
    """A search on one grid and its report; times in seconds, half-widths of accuracy."""

    seconds: float
    half_width: float
    report_half_width: float
    n_corrected: int


def grid(n_nodes):
    """Return a square grid of about so many nodes."""
    side = round(math.sqrt(n_nodes))
    line = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    same = sparse.eye_array(side)
    return sparse.csr_array(sparse.kron(line, same) + sparse.kron(same, line))


def search_grid(graph, seed):
    """Return a :class:`LargeSearch` on labels that follow one of three features."""
    n = graph.shape[0]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 0]))).astype(int)
    began = time.process_time()
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), GRID, correlation=MarkovNetwork(graph), random_state=seed
    ).fit(X, y)
    lower, upper = search.best_interval_
    (row,) = search.final_report().rows
    return LargeSearch(
        seconds=time.process_time() - began,
        half_width=0.5 * (upper - lower),
        report_half_width=0.5 * (row.upper - row.lower),
        n_corrected=int((search.cv_results_["answered_from"] == "holdout").sum()),
    )


def show_sizes(sizes, replications):
    """Print means by number of nodes."""
    print("searches of three candidates and their report on grids of nodes")
    for n_nodes in sizes:
        graph = grid(n_nodes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [search_grid(graph, seed) for seed in range(replications)]
        means = LargeSearch(*np.mean(runs, axis=0))
        print(
            f"  {graph.shape[0]:9,} nodes: {means.seconds:5.1f} s, "
            f"interim ±{means.half_width:.5f}, final ±{means.report_half_width:.5f}, "
            f"{means.n_corrected:.2f} corrected",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="+", help="numbers of nodes")
    parser.add_argument("--replications", type=int, default=1, help="searches of each size")
    arguments = parser.parse_args()
    show_sizes(arguments.sizes, arguments.replications)
