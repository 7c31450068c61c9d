"""Flipped bytes in the ledger file and in a stale journal raise an error or change nothing."""

import os
import random
import signal
import sqlite3

import numpy as np
import pytest

from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout

N = 200
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2


def scores(count, seed):
    return np.random.default_rng(seed).integers(0, 2, size=(count, N)).astype(float)


def make(path):
    return ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=2.0))


@pytest.fixture(scope="module")
def complete_ledger(tmp_path_factory):
    """Return the bytes of a ledger with eight batches, and the history of its answers."""
    path = tmp_path_factory.mktemp("whole") / "holdout.sqlite"
    holdout = make(path)
    for batch_number in range(8):
        keys = [f"{batch_number}/{i}" for i in range(3)]
        holdout.answer([0.5, 0.1, 0.9], scores(3, batch_number), keys=keys)
    return path.read_bytes(), holdout.history()


@pytest.fixture(scope="module")
def interrupted_ledger(complete_ledger, tmp_path_factory):
    """Return file and journal of a process that was killed between its writes and its commit."""
    data, history = complete_ledger
    path = tmp_path_factory.mktemp("killed") / "holdout.sqlite"
    path.write_bytes(data)
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the commit
        connection.execute("BEGIN IMMEDIATE")
        for entry_number in range(9, 30):
            connection.execute(
                "INSERT INTO log VALUES (?, 'batch', ?, '[]', '', '', '')",
                (entry_number, "x" * 3000),
            )
        connection.execute("UPDATE head SET number = 29")
        connection.execute("SELECT count(*) FROM log").fetchone()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size > 512
    return path.read_bytes(), journal.read_bytes(), history


def verdict(path, history):
    """Return "refused", "harmless" if all answers are unchanged, or "silent" for a damaged file."""
    try:
        holdout = make(path)
        current_history = holdout.history()
        current_records = {record.key: record for record in current_history}
        records_by_key = holdout.find_answers([record.key for record in history])
        holdout.answer([0.5], scores(1, 99), keys=["new"])
    except LedgerError:
        return "refused"
    lost = [record for record in history if current_records.get(record.key) != record]
    changed_keys = [key for key, record in records_by_key.items() if record != current_records[key]]
    is_charged = holdout.history()[-1].batch == history[-1].batch + 1
    return "harmless" if not lost and not changed_keys and is_charged else "silent"


def flipped(data, rng):
    """Return data with one byte changed."""
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    return bytes(damaged)


def report_counts(name, verdicts):
    counts = {outcome: verdicts.count(outcome) for outcome in ("refused", "harmless", "silent")}
    print(
        f"{name:<10} {len(verdicts):>5} flips  "
        + "  ".join(f"{outcome} {count}" for outcome, count in counts.items())
    )
    assert counts["silent"] == 0
    return counts


def flip_main(complete_ledger, folder, *, flips):
    data, history = complete_ledger
    rng = random.Random(1)
    verdicts = []
    for i in range(flips):
        path = folder / f"{i}.sqlite"
        path.write_bytes(flipped(data, rng))
        verdicts.append(verdict(path, history))
        path.unlink()
    return report_counts("main file", verdicts)


def flip_journal(interrupted_ledger, folder, *, flips):
    data, journal, history = interrupted_ledger
    rng = random.Random(2)
    verdicts = []
    for i in range(flips):
        path = folder / f"{i}.sqlite"
        path.write_bytes(data)
        path.with_name(path.name + "-journal").write_bytes(flipped(journal, rng))
        verdicts.append(verdict(path, history))
    return report_counts("journal", verdicts)


def test_an_interrupted_file_is_rolled_back(interrupted_ledger, path):
    data, journal, history = interrupted_ledger
    path.write_bytes(data)
    path.with_name(path.name + "-journal").write_bytes(journal)
    assert verdict(path, history) == "harmless"


def test_an_interrupted_file_without_its_journal_is_rejected(interrupted_ledger, path):
    data, _, history = interrupted_ledger
    path.write_bytes(data)
    assert verdict(path, history) == "refused"


def test_flips_are_rejected_or_harmless(complete_ledger, interrupted_ledger, tmp_path):
    flip_main(complete_ledger, tmp_path, flips=30)
    flip_journal(interrupted_ledger, tmp_path, flips=20)


@pytest.mark.slow
def test_many_flips_are_rejected_or_harmless(complete_ledger, interrupted_ledger, tmp_path):
    flip_main(complete_ledger, tmp_path, flips=1500)
    flip_journal(interrupted_ledger, tmp_path, flips=400)
