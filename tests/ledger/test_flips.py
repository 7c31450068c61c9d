"""Flipped bytes in the file and in the journal a killed process left: refused or harmless."""

import os
import random
import signal
import sqlite3

import numpy as np
import pytest

from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout

N = 200
X, Y = np.arange(2.0 * N).reshape(N, 2), np.arange(N) % 2


def scores(count, seed):
    return np.random.default_rng(seed).integers(0, 2, size=(count, N)).astype(float)


def make(path):
    return ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=2.0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the bytes of a ledger with eight batches, and the history of its answers."""
    path = tmp_path_factory.mktemp("whole") / "holdout.sqlite"
    holdout = make(path)
    for number in range(8):
        keys = [f"{number}/{place}" for place in range(3)]
        holdout.answer([0.5, 0.1, 0.9], scores(3, number), keys=keys)
    return path.read_bytes(), holdout.history()


@pytest.fixture(scope="module")
def interrupted(whole, tmp_path_factory):
    """Return file and journal of a process that was killed between its writes and its commit."""
    data, history = whole
    path = tmp_path_factory.mktemp("killed") / "holdout.sqlite"
    path.write_bytes(data)
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the commit
        connection.execute("BEGIN IMMEDIATE")
        for number in range(9, 30):
            connection.execute(
                "INSERT INTO log VALUES (?, 'batch', ?, '[]', '', '', '')", (number, "x" * 3000)
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
        found = holdout.history()
        kept = {record.key: record for record in found}
        again = holdout.find_answers([record.key for record in history])
        holdout.answer([0.5], scores(1, 99), keys=["new"])
    except LedgerError:
        return "refused"
    lost = [record for record in history if kept.get(record.key) != record]
    other = [key for key, record in again.items() if record != kept[key]]
    spent = holdout.history()[-1].batch == history[-1].batch + 1
    return "harmless" if not lost and not other and spent else "silent"


def flipped(data, chance):
    """Return data with one byte changed."""
    damaged = bytearray(data)
    damaged[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    return bytes(damaged)


def tell(name, found):
    kinds = {kind: found.count(kind) for kind in ("refused", "harmless", "silent")}
    print(f"{name:<10} {len(found):>5} flips  " + "  ".join(f"{k} {n}" for k, n in kinds.items()))
    assert kinds["silent"] == 0
    return kinds


def flip_main(whole, folder, *, flips):
    data, history = whole
    chance, found = random.Random(1), []
    for number in range(flips):
        path = folder / f"{number}.sqlite"
        path.write_bytes(flipped(data, chance))
        found.append(verdict(path, history))
        path.unlink()
    return tell("main file", found)


def flip_journal(interrupted, folder, *, flips):
    data, journal, history = interrupted
    chance, found = random.Random(2), []
    for number in range(flips):
        path = folder / f"{number}.sqlite"
        path.write_bytes(data)
        path.with_name(path.name + "-journal").write_bytes(flipped(journal, chance))
        found.append(verdict(path, history))
    return tell("journal", found)


def test_an_interrupted_file_is_rolled_back(interrupted, path):
    data, journal, history = interrupted
    path.write_bytes(data)
    path.with_name(path.name + "-journal").write_bytes(journal)
    assert verdict(path, history) == "harmless"


def test_an_interrupted_file_without_its_journal_is_refused(interrupted, path):
    data, _, history = interrupted
    path.write_bytes(data)
    assert verdict(path, history) == "refused"


def test_flips_are_refused_or_harmless(whole, interrupted, tmp_path):
    flip_main(whole, tmp_path, flips=30)
    flip_journal(interrupted, tmp_path, flips=20)


@pytest.mark.slow
def test_many_flips_are_refused_or_harmless(whole, interrupted, tmp_path):
    flip_main(whole, tmp_path, flips=1500)
    flip_journal(interrupted, tmp_path, flips=400)
