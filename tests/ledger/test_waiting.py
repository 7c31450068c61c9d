"""Time and memory: the order of writers, ledgers with many answers, and logged messages."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from sklearn_bdp.exceptions import LedgerCorruptedError
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.ledger.backend import Row
from sklearn_bdp.ledger.ledger import Chain, Ledger, backend_at
from sklearn_bdp.ledger.records import BatchRecord, canonical, digest
from tests.holdout import workers

X, Y, scores = workers.X, workers.Y, workers.scores


# -- the order of writers -------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no locks of open files")
def test_seven_busy_writers_take_turns(server, path):
    """No writer gets many more turns than another, and none waits for many turns of others."""
    ReusableHoldout(X, Y, ledger=path).close()
    with server.Pool(7) as pool:
        pool.starmap(workers.write_notes, [(path, number, 30) for number in range(7)])
    with Ledger(path).transaction() as book:
        writers = np.array(book.notes("turn"))
    turns = [np.flatnonzero(writers == number) for number in range(7)]
    assert list(map(len, turns)) == [30] * 7
    # While all seven are busy, a writer waits for about six turns of others.
    are_busy = slice(max(own[0] for own in turns), min(own[-1] for own in turns))
    gaps = [
        np.diff(np.flatnonzero(writers[are_busy] == number)).max(initial=0) for number in range(7)
    ]
    assert max(gaps) <= 3 * 7


def test_a_writer_that_was_stopped_in_the_queue_keeps_nobody_out(server, path):
    ReusableHoldout(X, Y, ledger=path).close()
    started = path.with_name("started")
    held = server.Process(target=workers.hold_writing, args=(path, started))
    held.start()
    while not started.exists():
        time.sleep(0.01)
    waiting = server.Process(target=workers.write_notes, args=(path, 1, 1))
    waiting.start()
    time.sleep(0.5)
    os.kill(waiting.pid, 19)  # SIGSTOP, in the queue
    held.kill()
    held.join()
    try:
        assert ReusableHoldout(X, Y, ledger=path).answer([0.5], scores(1, 0)).answered.all()
    finally:
        waiting.kill()
        waiting.join()


# -- many answers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a ledger with so many answers, made from a real one by repeating its last batch."""
    folder = tmp_path_factory.mktemp("large")
    real = folder / "real.sqlite"
    holdout = ReusableHoldout(X, Y, ledger=real)
    for number in range(80):
        holdout.answer([0.5], scores(1, number), keys=[f"real {number}"])
    stored, chain = backend_at(real).read(0), Chain()
    rows = list(stored.rows)
    last = rows[-1]
    record, answers = BatchRecord.from_content(json.loads(last.content)), json.loads(last.answers)
    for number in range(len(rows) + 1, 20_001):
        content = dataclasses.replace(record, number=number, n_answered=number).to_json()
        text = canonical(answers | {"key": [f"key {number}"]})
        link = chain.link(rows[-1].digest, "batch", content, text, last.commitment)
        rows.append(Row(number, "batch", content, text, last.sealed, last.commitment, link))
    path = folder / "large.sqlite"
    assert backend_at(path).create(stored.header, stored.start, rows)
    return path


OPEN = """
import resource, sys, time
from sklearn_bdp.ledger.ledger import Ledger
def kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = kilobytes()
start = time.process_time()
Ledger(sys.argv[1])
print(time.process_time() - start, (kilobytes() - before) / 1024)
"""


def test_opening_many_answers_takes_little_time_and_memory(large):
    """In processor time, which other processes of the machine change least."""
    output = subprocess.run(
        [sys.executable, "-c", OPEN, large], capture_output=True, text=True, check=True
    ).stdout
    seconds, megabytes = map(float, output.split())
    assert seconds < 1.0  # 73,000 answers took 8.5 s and 860 MB
    assert megabytes < 60


def test_old_answers_are_found_and_are_those_that_were_verified(large):
    holdout = ReusableHoldout(X, Y, ledger=large)
    assert set(holdout.find_answers(["real 3", "key 100", "key 19999", "never"])) == {
        "real 3", "key 100", "key 19999",
    }  # fmt: skip
    known = holdout.find_answers(["real 3"])["real 3"]
    again = holdout.answer([known.cv_score], scores(1, 99), keys=["real 3"])
    assert again.values[0] == known.value
    assert len(holdout.history()) == 20_000


def test_an_answer_to_a_large_ledger_costs_what_the_first_one_does(large, path):
    seconds = {}
    for name, where in (("large", large), ("small", path)):
        holdout = ReusableHoldout(X, Y, ledger=where)
        holdout.answer([0.5], scores(1, 0), keys=["warm up"])
        times = []
        for number in range(20):
            start = time.process_time()
            holdout.answer([0.5], scores(1, number), keys=[f"new {number}"])
            times.append(time.process_time() - start)
        seconds[name] = np.median(times)
    assert seconds["large"] < 3 * seconds["small"] + 0.005


def test_notes_after_the_last_batch_do_not_hide_what_was_spent(path, monkeypatch):
    """Counts come from the last batch, however long ago it was."""
    holdout = ReusableHoldout(X, Y, ledger=path, budget=2)
    holdout.answer([0.0], scores(1, 0))
    left = holdout.remaining_budget
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.RECENT", 5)
    for number in range(12):
        holdout.add_note("fold", number)
    again = ReusableHoldout(X, Y, ledger=path, budget=2)
    assert again.remaining_budget == left
    assert again.information_spent == holdout.information_spent
    assert again.history() == holdout.history()
    assert again.notes("fold") == list(range(12))


@pytest.mark.parametrize("recent", [1, 3, 1000])
def test_what_is_read_late_is_what_is_read_at_once(path, monkeypatch, recent):
    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(12):
        keys = [f"a{number}", None]
        holdout.answer([0.1, 0.5], scores(2, number), keys=keys)
        holdout.add_note("fold", number)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.RECENT", recent)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.PAGE", 4)
    monkeypatch.setattr("sklearn_bdp.ledger.book.PAGE", 4)
    monkeypatch.setattr("sklearn_bdp.ledger.book.RECENT", recent)
    again = ReusableHoldout(X, Y, ledger=path)
    assert again.find_answers(["a0", "a11"]) == holdout.find_answers(["a0", "a11"])
    assert again.history() == holdout.history()
    asked = [0.4], scores(1, 50)
    with again.account.reading() as late, holdout.account.reading() as early:
        assert again.account.code(late).state() == holdout.account.code(early).state()
    again.answer(*asked)
    assert again.certificate().tau == holdout.certificate().tau
    assert len(holdout.history()) == 25


def test_an_entry_that_is_damaged_after_it_was_verified_is_not_read(path, monkeypatch):
    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(6):
        holdout.answer([0.1], scores(1, number), keys=[f"a{number}"])
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.RECENT", 1)
    monkeypatch.setattr("sklearn_bdp.ledger.book.RECENT", 1)
    again = ReusableHoldout(X, Y, ledger=path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER log_update")
        connection.execute("UPDATE log SET answers = replace(answers, '0.1', '0.2')")
        connection.commit()
    with pytest.raises(LedgerCorruptedError):
        again.find_answers(["a1"])


def test_a_digest_is_that_of_lengths_and_bytes():
    """With and without texts that are not ASCII, so that older ledgers verify."""
    for texts in (("a", "bc"), ("", "ä", "b"), ("\udcff",)):
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        joined = b"".join(str(len(part)).encode() + b":" + part for part in parts)
        assert digest(*texts) == hashlib.sha256(joined).hexdigest()


# -- logged messages ------------------------------------------------------------------------------


@pytest.fixture
def logged(path, caplog):
    """Return the log of a short-lived holdout, and the released values."""
    with caplog.at_level(logging.DEBUG, logger="sklearn_bdp"):
        holdout = ReusableHoldout(X, Y, ledger=path)
        answers = holdout.answer([0.5, 0.0], scores(2, 0))
        holdout.add_note("mine", 1)
        report = holdout.final_report({"one": DummyClassifier().fit(X, Y)}, scoring="accuracy")
    return caplog.text, [*answers.values, *answers.lower, report.value]


@pytest.mark.parametrize(
    "event", ["opened", "batch 1", "answers: 2", "corrected", "note", "closed"]
)
def test_the_logger_reports_events(logged, event):
    assert event in logged[0]
    assert "WARNING" not in logged[0]


def test_the_logger_reports_no_values(logged, path):
    text = logged[0].replace(str(path), "")
    assert not [value for value in logged[1] if f"{value:.4g}" in text]


def test_without_a_handler_nothing_is_printed(path):
    code = (
        "import sys, numpy as np\n"
        "from sklearn_bdp import ReusableHoldout\n"
        "y = np.arange(2000) % 2\n"
        "holdout = ReusableHoldout(np.zeros((2000, 1)), y, ledger=sys.argv[1])\n"
        "holdout.answer([0.5], np.zeros((1, 2000)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
