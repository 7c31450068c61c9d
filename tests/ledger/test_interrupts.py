"""Ctrl-C at any line of the ledger and of the account: nothing is lost, doubled or left open."""

import linecache
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sklearn_bdp
from sklearn_bdp import ReusableHoldout
from sklearn_bdp.holdout import ExpertSettings

ROOT = Path(sklearn_bdp.__file__).parent
LEDGER = str(ROOT / "ledger")
ACCOUNT = str(ROOT / "release" / "accountant.py")
X = np.arange(200.0).reshape(100, 2)
Y = np.arange(100) % 2
HITS = np.random.default_rng(0).random((6, 100)) < 0.7
LOCK_SCRIPT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_bdp.exceptions.UninformativeIntervalWarning"
)


class Interrupt:
    """Raises KeyboardInterrupt at one of the lines that are run."""

    def __init__(self, n_lines):
        self.n_remaining = n_lines
        self.released = False

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        return self.line if name.startswith(LEDGER) or name == ACCOUNT else None

    def line(self, frame, event, arg):
        if event == "line":
            self.n_remaining -= 1
            if self.n_remaining == 0:
                # The two lines that give back the lock of the threads are the last ones there are.
                text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
                self.released = text in ("if is_locked:", "self._lock.release()")
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.line


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_after_an_interrupt_at_any_line_both_processes_agree(tmp_path, step):
    n_lines = 1
    while True:
        path = tmp_path / f"{n_lines}.sqlite"
        first_holdout = ReusableHoldout(
            X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=0.2)
        )
        first_holdout.answer([0.5], HITS[:1], keys=["a"])
        interrupt = Interrupt(n_lines)
        is_completed = True
        sys.settrace(interrupt)
        try:
            first_holdout.answer([0.5, 0.6], HITS[1:3], keys=["b", "c"])
        except KeyboardInterrupt:
            is_completed = False
        finally:
            sys.settrace(None)
        if is_completed:
            break
        n_lines += step
        if interrupt.released:
            continue
        first_holdout.answer([0.5, 0.6], HITS[1:3], keys=["b", "c"])
        first_holdout.answer([0.4], HITS[3:4], keys=["d"])
        second_holdout = ReusableHoldout(X, Y, ledger=path)
        assert sorted(record.key for record in second_holdout.history()) == ["a", "b", "c", "d"]
        assert list(first_holdout.history()) == list(second_holdout.history())
        assert first_holdout.information_spent == second_holdout.information_spent
        second_holdout.answer([0.3], HITS[4:5], keys=["e"])
        first_holdout.answer([0.3], HITS[5:6], keys=["f"])
        assert str(first_holdout.certificate()) == str(
            ReusableHoldout(X, Y, ledger=path).certificate()
        )
    assert n_lines > 200  # lines of the ledger and of the account were interrupted


@pytest.fixture
def interrupts():
    """Let SIGINT interrupt, also in a worker of the tests, which ignores it."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous_handler)


def test_an_interrupt_while_another_process_writes_releases_all_locks(path, interrupts):
    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=20.0))
    holdout.answer([0.5], HITS[:1])
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCK_SCRIPT, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    holder.stdout.readline()

    def interrupt_and_release():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)
        holder.communicate("\n")

    timer = threading.Timer(0.3, interrupt_and_release)

    def answer_while_the_timer_runs():
        timer.start()
        holdout.answer([0.5], HITS[1:2])

    with pytest.raises(KeyboardInterrupt):
        answer_while_the_timer_runs()
    timer.join()
    with sqlite3.connect(path, timeout=5.0, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    holdout.answer([0.5], HITS[2:3])
    assert len(holdout.history()) == 2
