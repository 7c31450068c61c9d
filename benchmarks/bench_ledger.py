"""Throughput of a ledger: one process, then eight on the same file; counts checked exactly.

python benchmarks/bench_ledger.py [--processes 8] [--batches 500] [--size 3]
"""

import argparse
import contextlib
import io
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_bdp._cli import main as command_line
from sklearn_bdp.holdout import ReusableHoldout

N = 1000
X, Y = np.arange(2.0 * N).reshape(N, 2), np.arange(N) % 2


def ask(path, worker, batches, size, barrier):
    """Ask ``batches`` batches of ``size`` new queries; every tenth has one far-off guess."""
    holdout = ReusableHoldout(X, Y, ledger=path, ledger_timeout=600.0)
    raw = np.random.default_rng(worker).integers(0, 2, size=(size, N)).astype(float)
    guesses = np.full(size, 0.5)
    barrier.wait()
    for number in range(batches):
        guesses[0] = 0.2 if number % 10 == 0 else 0.5
        keys = [f"{worker}/{number}/{position}" for position in range(size)]
        holdout.answer(guesses, raw, keys=keys)


def run(path, *, processes, batches, size):
    """Return the seconds that all processes together take, without their start."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    jobs = [
        context.Process(target=ask, args=(path, worker, batches, size, barrier))
        for worker in range(processes)
    ]
    for job in jobs:
        job.start()
    barrier.wait()
    start = time.perf_counter()
    for job in jobs:
        job.join()
    took = time.perf_counter() - start
    assert not any(job.exitcode for job in jobs), "a worker failed"
    return took


def check(path, *, batches, size):
    """Count what is in the ledger and verify its chain."""
    history = ReusableHoldout(X, Y, ledger=path).history()
    assert history[-1].batch == batches, (history[-1].batch, batches)
    assert len(history) == len({answer.key for answer in history}) == batches * size
    with contextlib.redirect_stdout(io.StringIO()):
        assert command_line(["ledger", "verify", str(path)]) == 0


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--batches", type=int, default=500, help="for each process")
    parser.add_argument("--size", type=int, default=3, help="queries in a batch")
    options = parser.parse_args()
    print(f"{'processes':>9} {'batches':>8} {'seconds':>8} {'batches/s':>10} {'answers/s':>10}")
    for processes in sorted({1, options.processes}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "holdout.sqlite"
            took = run(path, processes=processes, batches=options.batches, size=options.size)
            batches = processes * options.batches
            check(path, batches=batches, size=options.size)
            size = path.stat().st_size / 1e6
            print(
                f"{processes:>9} {batches:>8} {took:>8.2f} {batches / took:>10.0f} "
                f"{batches * options.size / took:>10.0f}   counts exact, chain intact, "
                f"{size:.1f} MB"
            )


if __name__ == "__main__":
    main()
