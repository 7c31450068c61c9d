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
    """Redraw the labels of some nodes given the others: a two-class Potts model with fields."""
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
    """Return predictions of a model of a feature and of a vote of neighbors in training."""
    is_training = np.zeros(len(x))
    is_training[train] = 1.0
    vote = graph @ (is_training * (2.0 * labels - 1.0)) / np.maximum(graph @ is_training, 1.0)
    features = np.column_stack([x, vote])
    return features, LogisticRegression().fit(features[train], labels[train])


def one_run(graph, neighbors, rng, sweeps):
    """Return (half-width, covered) of every way of judging on one draw of all labels."""
    n = graph.shape[0]
    z = 1.96
    results = {}
    x = rng.normal(size=n)
    field = 1.2 * x
    coupling = COUPLING * n / graph.nnz
    labels = gibbs(neighbors, rng.integers(0, 2, n), np.arange(n), coupling, field, rng, 30)

    network = MarkovNetwork(graph)
    holdout = network.split(n, 0.25, random_state=int(rng.integers(2**31))).holdout
    train = np.setdiff1d(np.arange(n), holdout)
    features, _ = fitted(graph, x, labels, train)
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, correlation=network, random_state=0,
        holdout=_Fixed(train, holdout),
    )  # fmt: skip
    report = search.fit(features, labels).final_report()
    guess = search.best_estimator_.predict(features[holdout])
    # Without neighbors in H the law of every held-out node is known in closed form.
    odds = (
        coupling * (2 * (graph @ labels)[holdout] - np.diff(graph.indptr)[holdout]) + field[holdout]
    )
    chance = 1.0 / (1.0 + np.exp(-odds))
    right = np.where(guess == 1, chance, 1.0 - chance)
    truth = right.mean()
    results["set, final report"] = (
        (report.upper - report.lower) / 2.0,
        report.lower <= truth <= report.upper,
    )
    half = z * math.sqrt((right * (1.0 - right)).sum()) / len(holdout)
    score = float((labels[holdout] == guess).mean())
    results["oracle"] = half, abs(score - truth) <= half

    random_nodes = np.sort(rng.permutation(n)[: n // 4])
    other_nodes = np.setdiff1d(np.arange(n), random_nodes)
    features, model = fitted(graph, x, labels, other_nodes)
    guess = model.predict(features[random_nodes])
    low, high = wilson(float((labels[random_nodes] == guess).mean()), len(random_nodes))
    means = []
    state = labels.copy()
    for _ in range(sweeps):
        state = gibbs(neighbors, state, random_nodes, coupling, field, rng, 1)
        means.append(float((state[random_nodes] == guess).mean()))
    results["random split, Wilson"] = (high - low) / 2.0, low <= np.mean(means) <= high

    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    scores = np.empty(n)
    for block in np.array_split(order, 10):
        features, model = fitted(graph, x, labels, np.setdiff1d(np.arange(n), block))
        scores[block] = model.predict(features[block]) == labels[block]
    half = z * scores.std() / math.sqrt(n)
    results["block cross-validation"] = half, abs(scores.mean() - truth) <= half
    return len(holdout), results


class _Fixed:
    """A splitter with one split, which was drawn before."""

    def __init__(self, train, holdout):
        self.parts = train, holdout

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y=None, groups=None):
        yield self.parts


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
            half, covered = np.mean([run[method] for run in runs], axis=0)
            print(f"  {method:<24} ±{half:.3f} / {covered:.2f}")
