"""Time of answers: of single ones in memory or with a ledger, and of batches.

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

#: Records of a holdout that answers single queries, and number of these queries.
N_RECORDS = 1000
N_SINGLE = 60
#: Records of a holdout that answers a batch.
N_BATCH_RECORDS = 200


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


def single(model, rng):
    """Return the median seconds of a single answer by the holdout and by the raw mechanism.

    The first twenty answers do not count.
    """
    reusable = holdout(N_RECORDS, model)
    peer = mechanism()
    scores = (rng.random((N_SINGLE, 1, N_RECORDS)) < 0.8).astype(float)
    holdout_times = [
        seconds(lambda query_scores=query_scores: reusable.answer([0.8], query_scores))
        for query_scores in scores
    ]
    peer_times = [
        seconds(lambda query_scores=query_scores: peer.answer([0.8], query_scores.mean(axis=1)))
        for query_scores in scores
    ]
    return statistics.median(holdout_times[20:]), statistics.median(peer_times[20:])


def batch(size, rng):
    """Return the seconds of a batch of 0/1 scores, and of the mechanism on their means."""
    scores = rng.random((size, N_BATCH_RECORDS)) < 0.8
    cv_scores = np.clip(scores.mean(axis=1) + rng.normal(0.0, 0.01, size), 0.0, 1.0)
    reusable = holdout(N_BATCH_RECORDS, None)
    peer = mechanism()
    holdout_time = seconds(lambda: reusable.answer(cv_scores, scores))
    peer_time = seconds(lambda: peer.answer(cv_scores, scores.mean(axis=1)))
    return holdout_time, peer_time


def long_life(rng, n_answers=1500):
    """Return the median seconds of the last and of the first answers, with a ledger."""
    with tempfile.TemporaryDirectory() as folder:
        X = np.zeros((N_RECORDS, 1))
        y = np.zeros(N_RECORDS, dtype=int)
        reusable = ReusableHoldout(X, y, ledger=f"{folder}/holdout.sqlite")
        scores = (rng.random((n_answers, 1, N_RECORDS)) < 0.8).astype(float)
        times = [
            seconds(lambda query_scores=query_scores: reusable.answer([0.8], query_scores))
            for query_scores in scores
        ]
    return statistics.median(times[-50:]), statistics.median(times[20:70])


def print_line(label, measurements):
    """Print the best of our times and the median ratio to the peer's."""
    holdout_times, peer_times = zip(*measurements, strict=True)
    ratio = statistics.median(
        holdout_time / peer_time
        for holdout_time, peer_time in zip(holdout_times, peer_times, strict=True)
    )
    print(f"{label:52}{1e3 * min(holdout_times):13.2f} ms{ratio:16.1f}")


def main():
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="repetitions of each measurement")
    parser.add_argument("--batch", type=int, default=50_000, help="queries in the batch")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    print(f"{'case':52}{'ours':>16}{'ratio to peer':>16}")
    models = {
        "independent": None,
        "groups of two": Groups(np.arange(N_RECORDS) // 2),
        "chain": MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
    }
    for name, model in models.items():
        measurements = [single(model, rng) for _ in range(options.runs)]
        print_line(f"a lone answer in memory, {name}", measurements)
    cases = {
        f"a batch of {options.batch:,}, intervals and record": lambda: batch(options.batch, rng),
        "with a ledger: the 1,500th answer to the first": lambda: long_life(rng),
    }
    for label, measure in cases.items():
        print_line(label, [measure() for _ in range(options.runs)])


if __name__ == "__main__":
    main()
