"""Nodes of a graph: a set without neighbors, a random split, blocks, the oracle (theory G27)."""

import math
import time
import warnings

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.correlation import MarkovNetwork

N = 1500
COUPLING = 1.6  # of all neighbors of a node together, in log odds


def graphs():
    """Return the graphs of the table by name."""
    positions = np.random.default_rng(0).random((N, 2))
    return {
        "Watts-Strogatz k=4": nx.watts_strogatz_graph(N, 4, 0.3, seed=0),
        "Barabasi-Albert m=2": nx.barabasi_albert_graph(N, 2, seed=0),
        "Watts-Strogatz k=10": nx.watts_strogatz_graph(N, 10, 0.3, seed=0),
        "map, kNN8": kneighbors_graph(positions, 8),
    }


def gibbs(neighbors, labels, unknown_nodes, coupling, field, rng, sweeps):
    """Return the labels after new draws of those of some nodes given the others, in place.

    A two-class Potts model with fields; ``neighbors`` are arrays of nodes.
    """
    for _ in range(sweeps):
        for draw, v in zip(rng.random(len(unknown_nodes)), unknown_nodes, strict=True):
            odds = coupling * (2 * labels[neighbors[v]].sum() - len(neighbors[v])) + field[v]
            labels[v] = draw < 1.0 / (1.0 + math.exp(-odds))
    return labels


def wilson(mean, n, z=1.96):
    """Return Wilson's interval of a share."""
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def fitted(graph, x, labels, train):
    """Return two features (one own, one vote of training neighbors) and a model fitted on them."""
    is_training = np.zeros(len(x))
    is_training[train] = 1.0
    vote = graph @ (is_training * (2.0 * labels - 1.0)) / np.maximum(graph @ is_training, 1.0)
    features = np.column_stack([x, vote])
    return features, LogisticRegression().fit(features[train], labels[train])


def one_run(graph, neighbors, rng, sweeps):
    """Return the size of the holdout, and half-width and coverage by method, for one draw.

    The target of all methods but the random split is the expected accuracy on the holdout given the
    training nodes.
    """
    n = graph.shape[0]
    x = rng.normal(size=n)
    field = 1.2 * x
    coupling = COUPLING * n / graph.nnz
    labels = gibbs(neighbors, rng.integers(0, 2, n), np.arange(n), coupling, field, rng, 30)

    network = MarkovNetwork(graph)
    holdout = network.split(n, 0.25, random_state=int(rng.integers(2**31))).holdout
    train = np.setdiff1d(np.arange(n), holdout)
    features, _ = fitted(graph, x, labels, train)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(),
        {"C": [0.1, 1.0]},
        correlation=network,
        random_state=0,
        holdout=_FixedSplit(train, holdout),
    )
    report = search.fit(features, labels).final_report()
    predicted = search.best_estimator_.predict(features[holdout])
    # Without neighbors in the holdout, the distribution of its labels has a closed form.
    votes = 2 * (graph @ labels)[holdout] - np.diff(graph.indptr)[holdout]
    chance_of_one = 1.0 / (1.0 + np.exp(-coupling * votes - field[holdout]))
    hit_chance = np.where(predicted == 1, chance_of_one, 1.0 - chance_of_one)
    truth = hit_chance.mean()
    is_covered = report.lower <= truth <= report.upper
    oracle_half_width = 1.96 * math.sqrt((hit_chance * (1.0 - hit_chance)).sum()) / len(holdout)
    score = float((labels[holdout] == predicted).mean())
    results = {
        "set, final report": ((report.upper - report.lower) / 2.0, is_covered),
        "oracle": (oracle_half_width, abs(score - truth) <= oracle_half_width),
    }

    random_nodes = np.sort(rng.permutation(n)[: n // 4])
    features, model = fitted(graph, x, labels, np.setdiff1d(np.arange(n), random_nodes))
    predicted = model.predict(features[random_nodes])
    low, high = wilson(float((labels[random_nodes] == predicted).mean()), len(random_nodes))
    redrawn_scores = []
    redrawn_labels = labels.copy()
    for _ in range(sweeps):
        redrawn_labels = gibbs(neighbors, redrawn_labels, random_nodes, coupling, field, rng, 1)
        redrawn_scores.append(float((redrawn_labels[random_nodes] == predicted).mean()))
    is_covered = low <= np.mean(redrawn_scores) <= high
    results["random split, Wilson"] = (high - low) / 2.0, is_covered

    hits = np.empty(n)
    for block in np.array_split(reverse_cuthill_mckee(graph, symmetric_mode=True), 10):
        features, model = fitted(graph, x, labels, np.setdiff1d(np.arange(n), block))
        hits[block] = model.predict(features[block]) == labels[block]
    half_width = 1.96 * hits.std() / math.sqrt(n)
    results["block cross-validation"] = half_width, abs(hits.mean() - truth) <= half_width
    return len(holdout), results


class _FixedSplit:
    """A splitter with one split, which was drawn before."""

    def __init__(self, train, holdout):
        self.train = train
        self.holdout = holdout

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y=None, groups=None):
        yield self.train, self.holdout


def show_network(replications, rng):
    """Print half-width and coverage of the score given the training nodes, for every graph."""
    print(f"networks: {N} nodes, {replications} replications, half-width / coverage given the rest")
    for name, generated in graphs().items():
        matrix = (
            nx.to_scipy_sparse_array(generated) if isinstance(generated, nx.Graph) else generated
        )
        graph = sparse.csr_array(matrix.maximum(matrix.T).astype(float))
        neighbors = np.split(graph.indices, graph.indptr[1:-1])
        began = time.process_time()
        runs = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(replications):
                size, results = one_run(graph, neighbors, rng, sweeps=40)
                runs.append(results)
        print(f"{name}: {size} held out, {time.process_time() - began:.0f} s")
        for method in runs[0]:
            half_width, coverage = np.mean([run[method] for run in runs], axis=0)
            print(f"  {method:<24} ±{half_width:.3f} / {coverage:.2f}")
