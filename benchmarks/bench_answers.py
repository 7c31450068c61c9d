"""What answers cost: a lone one in memory, and batches with intervals and record.

Time is that of the processor. The peer of a lone answer is one SQLite transaction in memory of the
same record, that of a batch the same scores averaged and written as JSON; the mechanism alone is
measured by ``bench_mechanisms.py``.

    python benchmarks/bench_answers.py [--runs 5] [--batch 100000]
"""

import argparse
import json
import sqlite3
import statistics
import time
import warnings

import numpy as np

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain

N, LONE, RECORDS = 1000, 60, 200


def seconds(function):
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def holdout(n, model):
    """Return a holdout in memory."""
    return ReusableHoldout(np.zeros((n, 1)), np.zeros(n, dtype=int), correlation=model)


def write(answers):
    """Write a batch of numbers as JSON into a table in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE log (answers TEXT)")
    rows = [(place, None, None, value, value, value, value, value, 0) for place, value in answers]
    connection.execute("BEGIN")
    connection.execute("INSERT INTO log VALUES (?)", (json.dumps(rows),))
    connection.execute("COMMIT")


def lone(model, rng):
    """Return the median time of a lone answer, and of writing one, after twenty others."""
    asked = holdout(N, model)
    scores = (rng.random((LONE, 1, N)) < 0.8).astype(float)
    times = [seconds(lambda one=one: asked.answer([0.8], one)) for one in scores]
    peer = [seconds(lambda: write([(0, 0.8)])) for _ in range(LONE)]
    return statistics.median(times[20:]), statistics.median(peer)


def batch(size, rng):
    """Return the time of a batch of 0/1 scores, and of averaging and writing them."""
    scores = rng.random((size, RECORDS)) < 0.8
    values = np.clip(scores.mean(axis=1) + rng.normal(0.0, 0.01, size), 0.0, 1.0)
    asked = holdout(RECORDS, None)
    took = seconds(lambda: asked.answer(values, scores))
    return took, seconds(lambda: write(enumerate(scores.mean(axis=1).tolist())))


def main():
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=100_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    print(f"{'case':52}{'ours':>16}{'ratio to peer':>16}")
    models = {
        "independent": None,
        "groups of two": Groups(np.arange(N) // 2),
        "chain": MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
    }
    for name, model in models.items():
        ours, peer = zip(*(lone(model, rng) for _ in range(options.runs)), strict=True)
        ratio = statistics.median(a / b for a, b in zip(ours, peer, strict=True))
        print(f"{f'a lone answer in memory, {name}':52}{1e3 * min(ours):13.2f} ms{ratio:16.1f}")
    ours, peer = zip(*(batch(options.batch, rng) for _ in range(options.runs)), strict=True)
    ratio = statistics.median(a / b for a, b in zip(ours, peer, strict=True))
    rate = options.batch / min(ours)
    print(f"{f'a batch of {options.batch:,}, intervals and record':52}{rate:14,.0f}/s{ratio:16.1f}")


if __name__ == "__main__":
    main()
