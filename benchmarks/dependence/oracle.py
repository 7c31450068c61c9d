"""How often too weak a strength of a network can be noticed at all (theory G25)::

    python -m benchmarks.dependence.oracle --draws 400

The oracle compares the pseudo-likelihoods of the declared strength and of the true one on the
labels of the training nodes. It knows the graph, the fields and both strengths; its threshold is
the quantile of draws under the declared strength. Searches know neither fields nor strength;
their check is run on the same labels, also with the right declaration.
"""

import argparse

import numpy as np

from benchmarks.dependence.studies import blocks_of_friends, coloring, drawn_again, lattice
from sklearn_bdp.correlation import MarkovNetwork, check_neighbors

LEVEL, DECLARED, SLOPE = 0.005, 0.1, 0.1


def table(graph, colors, influence, rng):
    """Return a random half of the nodes, their spins and the fields of all nodes."""
    n = graph.shape[0]
    fields = SLOPE * rng.normal(size=n)
    start = rng.integers(0, 2, (n, 1)).astype(float)
    free = np.ones(n, dtype=bool)
    labels = drawn_again(graph, colors, start, free, influence, fields, rng, sweeps=60)[:, 0]
    train = rng.permutation(n)[: n // 2]
    return train, 2.0 * labels[train] - 1.0, fields


def evidence(graph, colors, influence, stronger, rng):
    """Return the log pseudo-likelihood ratio of one table."""
    train, spins, fields = table(graph, colors, influence, rng)
    near = graph[train][:, train] @ spins
    at = [
        -np.logaddexp(0.0, -spins * (strength / 2.0 * near + fields[train])).sum()
        for strength in (stronger, DECLARED)
    ]
    return at[0] - at[1]


def checked(graph, colors, influence, declared, rng):
    """Return whether the check of the package warns, where scores are the labels themselves."""
    train, spins, _ = table(graph, colors, influence, rng)
    network = MarkovNetwork(graph, influence=declared).given_rest(train)
    return check_neighbors(network, spins, level=LEVEL).misfit


def main():
    """Print the power for each network of the studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    draws = parser.parse_args().draws
    print(f"share noticed at level {LEVEL}, {DECLARED} declared")
    for what, graph, true in (
        ("map", lattice(32)[0], 1.2),
        ("1,200 friends", blocks_of_friends(1200), 0.8),
        ("2,400 friends", blocks_of_friends(2400), 0.8),
    ):
        rng, colors = np.random.default_rng(0), coloring(graph)
        chance, found = (
            np.array([evidence(graph, colors, strength, true, rng) for _ in range(draws)])
            for strength in (DECLARED, true)
        )
        limit = np.quantile(chance, 1.0 - LEVEL)
        ours, false = (
            np.mean([checked(graph, colors, true, said, rng) for _ in range(draws)])
            for said in (DECLARED, true)
        )
        print(
            f"{what:14} influence {true}   oracle {np.mean(found > limit):.2f}   "
            f"check {ours:.2f}   check where {true} is declared {false:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
