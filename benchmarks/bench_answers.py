"""What answers cost: a lone one in memory or with a ledger, and batches with their records.

Time is that of the processor. The peer is the raw mechanism, ``Thresholdout.answer`` on the means
of the same scores, in the same run.

    python benchmarks/bench_answers.py [--runs 5] [--batch 50000]
"""

import argparse
import statistics
import tempfile
import time
import warnings

import numpy as np

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import Groups, MarkovChain
from sklearn_bdp.mechanisms import Thresholdout

N = 1000
LONE = 60
RECORDS = 200


def seconds(function):
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def holdout(n, model):
    """Return a holdout in memory."""
    return ReusableHoldout(np.zeros((n, 1)), np.zeros(n, dtype=int), correlation=model)


def mechanism():
    """Return a raw mechanism."""
    return Thresholdout(0.2, threshold_scale=0.001, query_scale=0.002, answer_scale=0.001)


def lone(model, rng):
    """Return the median time of a lone answer, and of the mechanism's, after twenty others."""
    reusable = holdout(N, model)
    peer = mechanism()
    scores = (rng.random((LONE, 1, N)) < 0.8).astype(float)
    times = [
        seconds(lambda query_scores=query_scores: reusable.answer([0.8], query_scores))
        for query_scores in scores
    ]
    raw = [
        seconds(lambda query_scores=query_scores: peer.answer([0.8], query_scores.mean(axis=1)))
        for query_scores in scores
    ]
    return statistics.median(times[20:]), statistics.median(raw[20:])


def batch(size, rng):
    """Return the time of a batch of 0/1 scores, and of the mechanism on their means."""
    scores = rng.random((size, RECORDS)) < 0.8
    values = np.clip(scores.mean(axis=1) + rng.normal(0.0, 0.01, size), 0.0, 1.0)
    reusable = holdout(RECORDS, None)
    peer = mechanism()
    took = seconds(lambda: reusable.answer(values, scores))
    return took, seconds(lambda: peer.answer(values, scores.mean(axis=1)))


def long_life(rng, length=1500):
    """Return the times of the last and of the first answers of a holdout with a ledger."""
    with tempfile.TemporaryDirectory() as folder:
        records = np.zeros((N, 1)), np.zeros(N, dtype=int)
        reusable = ReusableHoldout(*records, ledger=f"{folder}/holdout.sqlite")
        scores = (rng.random((length, 1, N)) < 0.8).astype(float)
        times = [
            seconds(lambda query_scores=query_scores: reusable.answer([0.8], query_scores))
            for query_scores in scores
        ]
    return statistics.median(times[-50:]), statistics.median(times[20:70])


def main():
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=50_000)
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
    cases = {
        f"a batch of {options.batch:,}, intervals and record": lambda: batch(options.batch, rng),
        "with a ledger: the 1,500th answer to the first": lambda: long_life(rng),
    }
    for name, measure in cases.items():
        ours, peer = zip(*(measure() for _ in range(options.runs)), strict=True)
        ratio = statistics.median(a / b for a, b in zip(ours, peer, strict=True))
        print(f"{name:52}{1e3 * min(ours):13.2f} ms{ratio:16.1f}")


if __name__ == "__main__":
    main()
