"""A social graph split by nodes: width and coverage on fresh draws (theory G13)."""

import math

import numpy as np
from scipy import sparse

from benchmarks.dependence.processes import interval
from sklearn_bdp.correlation import MarkovNetwork


def block_model(n, rng, *, degree=6.0):
    """Return the adjacency of two blocks, four times as many edges inside as across."""
    block = np.arange(n) % 2
    inside = 1.6 * degree / n
    rates = np.where(block[:, None] == block[None, :], inside, inside / 4.0)
    upper = np.triu(rng.random((n, n)) < rates, 1)
    return sparse.csr_array((upper + upper.T).astype(float))


def gibbs(neighbours, labels, free, coupling, field, rng, sweeps):
    """Redraw the labels of some nodes given the others (two-class Potts model with fields)."""
    for _ in range(sweeps):
        draws = rng.random(len(free))
        for draw, v in zip(draws, free, strict=True):
            near = neighbours[v]
            odds = coupling * (2 * labels[near].sum() - len(near)) + field[v]
            labels[v] = draw < 1.0 / (1.0 + math.exp(-odds))
    return labels


def show_network(replications, rng, *, n=500, influence=0.1):
    """Print width and coverage of a block model that is split by nodes."""
    graph = block_model(n, rng)
    neighbours = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in range(n)]
    network = MarkovNetwork(graph, influence=influence)
    split = network.split(n, 0.5, random_state=0)
    model, held = network.given_rest(split.holdout), split.holdout
    field = np.where(np.arange(n) % 2, 1.0, -1.0) + rng.normal(0, 0.5, n)
    coupling = influence / 2.0
    labels = gibbs(neighbours, rng.integers(0, 2, n), np.arange(n), coupling, field, rng, sweeps=30)
    guess = (field[held] > 0).astype(int)
    means = []
    for _ in range(5 * replications):
        labels = gibbs(neighbours, labels, held, coupling, field, rng, sweeps=2)
        means.append(float((labels[held] == guess).mean()))
    truth, covered, widths = np.mean(means), 0, []
    for mean in means[::5]:
        low, high = interval(model, np.r_[mean, np.full(len(held) - 1, mean)])
        covered += low <= truth <= high
        widths.append((high - low) / 2.0)
    print(
        f"network: {n} nodes, {graph.nnz // 2} edges, influence {influence}, {len(held)} held out: "
        f"±{np.mean(widths):.3f}, coverage {covered}/{len(widths)} on fresh draws, "
        f"effective {model.effective_n(len(held)):.0f}"
    )
