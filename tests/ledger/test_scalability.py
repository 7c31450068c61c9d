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
from sklearn_bdp.ledger.batch_record import BatchRecord
from sklearn_bdp.ledger.ledger import Chain, Ledger, backend_at
from sklearn_bdp.ledger.records import canonical
from sklearn_bdp.utils.hashing import text_digest
from tests.facts import count_calls
from tests.holdout import workers
from tests.holdout.workers import X, Y, scores

# -- the order of writers -------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no locks of open files")
def test_seven_busy_writers_take_turns(server, path):
    """A writer waits for about six turns of others, however long the machine lets it sleep before.

    The limit leaves room for turns of others between the count of the notes and the wait.
    """
    ReusableHoldout(X, Y, ledger=path).close()
    with server.Pool(7) as pool:
        pool.starmap(workers.write_notes, [(path, number, 30) for number in range(7)], chunksize=1)
    with Ledger(path).transaction() as transaction:
        writers, counts_before = np.transpose(transaction.notes("turn"))
    assert np.bincount(writers).tolist() == [30] * 7
    turns_of_others = np.arange(7 * 30) - counts_before
    assert turns_of_others.max() <= 3 * 7


def test_a_writer_that_was_stopped_in_the_queue_blocks_no_other(server, path):
    ReusableHoldout(X, Y, ledger=path).close()
    started = path.with_name("started")
    holder = server.Process(target=workers.hold_writing, args=(path, started))
    holder.start()
    while not started.exists():
        time.sleep(0.01)
    stopped_writer = server.Process(target=workers.write_notes, args=(path, 1, 1))
    stopped_writer.start()
    time.sleep(0.5)
    os.kill(stopped_writer.pid, 19)  # SIGSTOP, in the queue
    holder.kill()
    holder.join()
    try:
        assert ReusableHoldout(X, Y, ledger=path).answer([0.5], scores(1, 0)).answered.all()
    finally:
        stopped_writer.kill()
        stopped_writer.join()


# -- many answers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_ledger(tmp_path_factory):
    """Return a ledger with so many answers, made from a real one by repeating its last batch."""
    folder = tmp_path_factory.mktemp("large")
    small_ledger = folder / "real.sqlite"
    holdout = ReusableHoldout(X, Y, ledger=small_ledger)
    for number in range(80):
        holdout.answer([0.5], scores(1, number), keys=[f"real {number}"])
    stored = backend_at(small_ledger).read(0)
    chain = Chain()
    rows = list(stored.rows)
    last_row = rows[-1]
    last_record = BatchRecord.from_content(json.loads(last_row.content))
    last_answers = json.loads(last_row.answers)
    for number in range(len(rows) + 1, 20_001):
        totals = dataclasses.replace(last_record.totals, number=number, n_answered=number)
        content = dataclasses.replace(last_record, totals=totals).to_json()
        text = canonical(last_answers | {"key": [f"key {number}"]})
        link = chain.link(rows[-1].digest, "batch", content, text, last_row.commitment)
        rows.append(
            Row(number, "batch", content, text, last_row.secret_text, last_row.commitment, link)
        )
    path = folder / "large.sqlite"
    assert backend_at(path).create(stored.header, stored.header_digest, rows)
    return path


MEASURE_OPENING = """
import resource, sys
from sklearn_bdp.ledger.ledger import Ledger
def kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = kilobytes()
Ledger(sys.argv[1])
print((kilobytes() - before) / 1024)
"""


def test_opening_many_answers_takes_little_work(large_ledger):
    assert count_calls(lambda: Ledger(large_ledger)) < 100 * 20_000


def test_opening_many_answers_takes_little_memory(large_ledger):
    output = subprocess.run(
        [sys.executable, "-c", MEASURE_OPENING, large_ledger],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert float(output) < 60  # MB; 73,000 answers took 860 MB


def test_old_answers_are_found_unchanged(large_ledger):
    holdout = ReusableHoldout(X, Y, ledger=large_ledger)
    assert set(holdout.find_answers(["real 3", "key 100", "key 19999", "never"])) == {
        "real 3", "key 100", "key 19999",
    }  # fmt: skip
    recorded = holdout.find_answers(["real 3"])["real 3"]
    repeated = holdout.answer([recorded.cv_score], scores(1, 99), keys=["real 3"])
    assert repeated.values[0] == recorded.value
    assert len(holdout.history()) == 20_000


def test_the_work_of_an_answer_does_not_grow_with_the_ledger(large_ledger, path):
    n_calls = {}
    for name, location in (("large", large_ledger), ("small", path)):
        holdout = ReusableHoldout(X, Y, ledger=location)
        holdout.answer([0.5], scores(1, 0), keys=["warm up"])
        n_calls[name] = min(
            count_calls(
                lambda number=number, holdout=holdout: holdout.answer(
                    [0.5], scores(1, number), keys=[f"new {number}"]
                )
            )
            for number in range(5)
        )
    assert n_calls["large"] < 1.1 * n_calls["small"]


def test_notes_after_the_last_batch_do_not_hide_the_spent_budget(path, monkeypatch):
    """Counts come from the last batch, however long ago it was."""
    holdout = ReusableHoldout(X, Y, ledger=path, budget=2)
    holdout.answer([0.0], scores(1, 0))
    remaining_budget = holdout.remaining_budget
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.N_RECENT", 5)
    for number in range(12):
        holdout.add_note("fold", number)
    reopened = ReusableHoldout(X, Y, ledger=path, budget=2)
    assert reopened.remaining_budget == remaining_budget
    assert reopened.information_spent == holdout.information_spent
    assert reopened.history() == holdout.history()
    assert reopened.notes("fold") == list(range(12))


@pytest.mark.parametrize("recent", [1, 3, 1000])
def test_entries_read_on_demand_equal_entries_read_at_once(path, monkeypatch, recent):
    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(12):
        keys = [f"a{number}", None]
        holdout.answer([0.1, 0.5], scores(2, number), keys=keys)
        holdout.add_note("fold", number)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.N_RECENT", recent)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.PAGE_SIZE", 4)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger_state.PAGE_SIZE", 4)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger_state.N_RECENT", recent)
    reopened = ReusableHoldout(X, Y, ledger=path)
    assert reopened.find_answers(["a0", "a11"]) == holdout.find_answers(["a0", "a11"])
    assert reopened.history() == holdout.history()
    query = [0.4], scores(1, 50)
    with (
        reopened.account.read_transaction() as late_transaction,
        holdout.account.read_transaction() as early_transaction,
    ):
        assert (
            reopened.account.code(late_transaction).state()
            == holdout.account.code(early_transaction).state()
        )
    reopened.answer(*query)
    assert reopened.certificate().half_width == holdout.certificate().half_width
    assert len(holdout.history()) == 25


def test_an_entry_that_is_damaged_after_it_was_verified_is_not_read(path, monkeypatch):
    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(6):
        holdout.answer([0.1], scores(1, number), keys=[f"a{number}"])
    monkeypatch.setattr("sklearn_bdp.ledger.ledger.N_RECENT", 1)
    monkeypatch.setattr("sklearn_bdp.ledger.ledger_state.N_RECENT", 1)
    reopened = ReusableHoldout(X, Y, ledger=path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER log_update")
        connection.execute("UPDATE log SET answers = replace(answers, '0.1', '0.2')")
        connection.commit()
    with pytest.raises(LedgerCorruptedError):
        reopened.find_answers(["a1"])


def test_a_digest_is_that_of_lengths_and_bytes():
    """With and without texts that are not ASCII, so that older ledgers verify."""
    for texts in (("a", "bc"), ("", "ä", "b"), ("\udcff",)):
        encoded_texts = [text.encode("utf-8", "surrogatepass") for text in texts]
        joined = b"".join(str(len(part)).encode() + b":" + part for part in encoded_texts)
        assert text_digest(*texts) == hashlib.sha256(joined).hexdigest()


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
    process = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert (process.stdout, process.stderr) == (b"", b"")
