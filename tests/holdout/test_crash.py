"""kill -9 at random times: the ledger has every answer the analyst received and stays usable."""

import contextlib
import os
import random
import signal
import sqlite3
import time

import numpy as np
import pytest

from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.holdout import ReusableHoldout
from tests.holdout import workers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")


def received_answers(log):
    """Return the released numbers that victims wrote, by key; skip an incomplete last line."""
    if not log.exists():
        return {}
    lines = [line.split(" ") for line in log.read_text().split("\n")[:-1]]
    return {key: tuple(map(float, numbers)) for key, *numbers in lines}


def wait_for_an_answer(log, seconds=300):
    """Wait until the first answer has arrived."""
    deadline = time.monotonic() + seconds
    while not received_answers(log):
        assert time.monotonic() < deadline, "no victim has answered anything"
        time.sleep(0.01)


def kill_at_random(server, folder, *, kills, seed):
    """Kill ``kills`` victims on one ledger; return its path and the received answers."""
    path = folder / "holdout.sqlite"
    log = folder / "received"
    rng = random.Random(seed)
    for number in range(kills):
        victim = server.Process(target=workers.query_until_killed, args=(path, log, number))
        victim.start()
        if number == 0:  # life began: on a busy machine all might die before their first query
            wait_for_an_answer(log)
        time.sleep(rng.expovariate(1 / 0.05))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
    return path, received_answers(log)


def check_survival(path, answers):
    """The ledger is whole, holds every received answer, and counts nothing twice."""
    holdout = ReusableHoldout(workers.X, workers.Y, ledger=path)
    history = holdout.history()
    recorded = {record.key: (record.value, record.lower, record.upper) for record in history}
    assert len(recorded) == len(history) == 3 * history[-1].batch
    lost = {key for key, numbers in answers.items() if recorded.get(key) != numbers}
    assert not lost
    # State resumes: recorded queries are free, new ones go on counting, intervals stay ordered.
    recorded_key = next(iter(answers))
    spent = holdout.information_spent
    cv_score = next(record.cv_score for record in history if record.key == recorded_key)
    repeated = holdout.answer([cv_score], workers.scores(1, 5), keys=[recorded_key])
    assert (repeated.values[0], repeated.lower[0], repeated.upper[0]) == answers[recorded_key]
    assert holdout.information_spent == spent
    holdout.answer([0.5], workers.scores(1, 6))
    assert len(holdout.history()) == len(history) + 1
    assert all(record.lower <= record.value <= record.upper for record in history)
    widths = np.array([record.upper - record.lower for record in history])
    assert np.isfinite(widths).all()
    return len(history)


def test_received_answers_survive_kill_9(server, tmp_path):
    path, answers = kill_at_random(server, tmp_path, kills=25, seed=1)
    assert answers
    assert check_survival(path, answers) >= len(answers)


@pytest.mark.slow
def test_received_answers_survive_a_thousand_kills(server, tmp_path):
    n_recorded = 0
    for i in range(20):
        folder = tmp_path / str(i)
        folder.mkdir()
        path, answers = kill_at_random(server, folder, kills=50, seed=100 + i)
        n_recorded += check_survival(path, answers)
    assert n_recorded > 0  # how many depends on the load; each of them was received and kept


@pytest.mark.parametrize("n_batches", [0, 2])
def test_a_process_that_dies_in_a_report_leaves_the_holdout_open_and_is_charged(
    server, tmp_path, n_batches
):
    """Killed after *begun*: every resumption pays the same and computes the same numbers (G35)."""
    path = tmp_path / "holdout.sqlite"
    copy = tmp_path / "copy.sqlite"
    victim = server.Process(target=workers.report_until_killed, args=(path, n_batches))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    with contextlib.closing(sqlite3.connect(path)) as connection:  # includes its journal
        connection.execute("VACUUM INTO ?", (str(copy),))
    unreported_holdout = ReusableHoldout(workers.X, workers.Y)
    for number in range(n_batches):
        unreported_holdout.answer([0.5], workers.scores(1, number))
    reports = []
    for file in (path, copy):
        holdout = ReusableHoldout(workers.X, workers.Y, ledger=file)
        assert len(holdout.history()) == n_batches
        charge = report_attempt_length(n_earlier=0, finished=False)
        if not n_batches:
            assert (
                holdout.information_spent - unreported_holdout.information_spent
                == pytest.approx(charge)
            )
        assert holdout.information_spent >= charge
        reports.append(
            holdout.final_report({"mine": workers.KillsProcess()}, scoring=workers.GRADED)
        )
    assert reports[0].rows == reports[1].rows
    assert reports[0].rows[0].method == "betting interval"
