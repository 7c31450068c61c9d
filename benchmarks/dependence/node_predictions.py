"""Cross-validated scores of nodes as predictions of the holdout score (theory G4, G27).

A holdout node has all its neighbors in the training set, a training node has not. The mean over
all training nodes is therefore too low for models that use labels of neighbors. ``cv_score`` gives
training nodes the weights of holdout nodes.
"""

import time
import warnings
from typing import NamedTuple

import networkx as nx
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

COUPLING = 1.6  # of all neighbors of a node together, in log odds
SWEEPS = 40
GRID = {"C": [0.03, 0.3, 3.0], "uses_neighbors": [True, False]}


def pedigree(n_nodes, n_per_generation, rng):
    """Return a moral graph of children with two parents of the generation before."""
    graph = nx.empty_graph(n_nodes)
    for child in range(n_per_generation, n_nodes):
        first_parent = (child // n_per_generation - 1) * n_per_generation
        mother, father = rng.choice(n_per_generation, 2, replace=False) + first_parent
        graph.add_edges_from([(child, mother), (child, father), (mother, father)])
    return graph


def graphs():
    """Return graphs of 900 nodes by name."""
    inside = 0.02
    between = 0.002
    blocks = np.full((3, 3), between) + (inside - between) * np.eye(3)
    return {
        "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30)),
        "SBM": nx.stochastic_block_model([300] * 3, blocks, seed=0),
        "pedigree": pedigree(900, 60, np.random.default_rng(0)),
        "bipartite": nx.Graph(nx.bipartite.gnmk_random_graph(600, 300, 1800, seed=0)),
        "Barabasi-Albert": nx.barabasi_albert_graph(900, 2, seed=0),
    }


def graphs_as_matrices():
    """Return the symmetric matrices of the graphs by name."""
    return {
        name: sparse.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))
        for name, graph in graphs().items()
    }


class NeighborVote(ClassifierMixin, BaseEstimator):
    """Logistic regression on a feature and on the labels of neighbors in the training set.

    ``X`` holds the number of the node and the feature.
    """

    def __init__(self, graph, C=1.0, uses_neighbors=True):
        self.graph = graph
        self.C = C
        self.uses_neighbors = uses_neighbors

    def _features(self, X):
        if not self.uses_neighbors:
            return X[:, 1:]
        votes = self.graph[X[:, 0].astype(int)] @ self.signs_
        return np.column_stack([X[:, 1:], votes])

    def fit(self, X, y):
        """Keep the labels of the training nodes, and fit; no node votes for itself."""
        self.signs_ = np.zeros(self.graph.shape[0])
        self.signs_[X[:, 0].astype(int)] = 2 * np.asarray(y) - 1
        self.model_ = LogisticRegression(C=self.C).fit(self._features(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Return the more probable label."""
        return self.model_.predict(self._features(X))

    def predict_proba(self, X):
        """Return probabilities of both labels."""
        return self.model_.predict_proba(self._features(X))


class Field:
    """Two-class Potts model on a graph: labels that neighbors pull along, and a feature."""

    def __init__(self, graph, rng):
        self.graph = graph
        self.rng = rng
        self.degree = np.diff(graph.indptr)
        self.coupling = COUPLING * graph.shape[0] / graph.nnz
        colors = nx.greedy_color(nx.from_scipy_sparse_array(graph))
        color = np.array([colors[node] for node in range(graph.shape[0])])
        self.parts = [np.flatnonzero(color == k) for k in range(color.max() + 1)]

    def draw(self):
        """Return the records: number and feature of each node, and its label."""
        n = self.graph.shape[0]
        feature = self.rng.normal(size=n)
        labels = self.rng.integers(0, 2, n)
        for _ in range(SWEEPS):
            for part in self.parts:
                chance = self.chances(labels, feature, part)
                labels[part] = self.rng.random(len(part)) < chance
        return np.column_stack([np.arange(n), feature]), labels

    def chances(self, labels, feature, nodes):
        """Return the probability of label 1 of some nodes, given all others."""
        votes = 2 * (self.graph[nodes] @ labels) - self.degree[nodes]
        return 1.0 / (1.0 + np.exp(-self.coupling * votes - 1.2 * feature[nodes]))


class NodeSearch(NamedTuple):
    """One search and its report; targets are expected scores given all other nodes."""

    error_of_mean: float  # of the mean over all training nodes, as a prediction of the target
    error_of_cv_score: float
    n_corrected: int  # candidates
    is_missed: bool  # whether the interval of any candidate misses its target
    half_width: float  # of the selected candidate, before the report
    is_missed_by_report: bool
    report_half_width: float


def search_nodes(field, seed):
    """Return a :class:`NodeSearch`: a search and its report, compared with their targets.

    A target is the expected score of a fitted model on the holdout nodes given all other nodes.
    """
    X, y = field.draw()
    search = ReusableHoldoutSearchCV(
        NeighborVote(field.graph), GRID, correlation=MarkovNetwork(field.graph), random_state=seed
    ).fit(X, y)
    results = search.cv_results_
    holdout = search.holdout_indices_
    train = search.train_indices_
    chance = field.chances(y, X[:, 1], holdout)
    targets = np.empty(len(results["params"]))
    for row, params in enumerate(results["params"]):
        model = NeighborVote(field.graph, **params).fit(X[train], y[train])
        targets[row] = np.where(model.predict(X[holdout]) == 1, chance, 1.0 - chance).mean()
    uses_neighbors = np.array([params["uses_neighbors"] for params in results["params"]])
    errors = [
        float(np.mean((results[name] - targets)[uses_neighbors]))
        for name in ("mean_test_score", "cv_score")
    ]
    is_covered = (results["holdout_lower"] <= targets) & (targets <= results["holdout_upper"])
    lower, upper = search.best_interval_
    (report_row,) = search.final_report().rows
    return NodeSearch(
        *errors,
        n_corrected=int((results["answered_from"] == "holdout").sum()),
        is_missed=not is_covered.all(),
        half_width=0.5 * (upper - lower),
        is_missed_by_report=not report_row.lower <= targets[search.best_index_] <= report_row.upper,
        report_half_width=0.5 * (report_row.upper - report_row.lower),
    )


def searches_by_graph(replications, *, names=None):
    """Return searches of some graphs: an array of shape (replications, 7) of each."""
    searches = {}
    for name, matrix in graphs_as_matrices().items():
        if names is not None and name not in names:
            continue
        field = Field(matrix, np.random.default_rng(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [search_nodes(field, seed) for seed in range(replications)]
        searches[name] = np.array(runs, dtype=float)
    return searches


def show_predictions(replications):
    """Print errors of predictions, the numbers of corrections, and misses and half-widths."""
    print(f"searches of nodes: {replications} replications on each graph")
    print("error of the mean over all training nodes, and of cv_score, as a prediction;")
    print("corrections per search; searches in which an interval misses, and half-width: before")
    print("the report, and of the report")
    began = time.process_time()
    for name, runs in searches_by_graph(replications).items():
        means = NodeSearch(*runs.mean(axis=0))
        errors = runs[:, :2].std(axis=0, ddof=1) / np.sqrt(replications)
        print(
            f"  {name:<16} {means.error_of_mean:+.4f} ± {errors[0]:.4f}  "
            f"{means.error_of_cv_score:+.4f} ± {errors[1]:.4f}  {means.n_corrected:.3f}  "
            f"{means.is_missed:.3f} ±{means.half_width:.4f}  "
            f"{means.is_missed_by_report:.3f} ±{means.report_half_width:.4f}",
            flush=True,
        )
    print(f"  {time.process_time() - began:.0f} s")


if __name__ == "__main__":
    show_predictions(200)
