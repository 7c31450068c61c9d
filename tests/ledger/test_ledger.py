"""The ledger: durable, append-only, chained, and closed where anything is wrong."""

import concurrent.futures
import contextlib
import json
import os
import pickle
import resource
import shutil
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

from sklearn_bdp import __version__
from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
    LedgerVersionError,
)
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.ledger import read_notes
from sklearn_bdp.ledger.batch_record import BatchRecord, LedgerTotals
from sklearn_bdp.ledger.ledger import Chain, Ledger, SystemNote
from sklearn_bdp.ledger.records import Answers
from tests.facts import refused
from tests.holdout import workers
from tests.ledger.failing import FailingBackend

N = 200
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2


def scores(count=1, seed=0):
    return np.random.default_rng(seed).integers(0, 2, size=(count, N)).astype(float)


def make(path, **options):
    return ReusableHoldout(X, Y, ledger=path, **options)


@pytest.fixture
def used_path(path):
    """A ledger with three batches, closed."""
    holdout = make(path)
    for number in range(3):
        holdout.answer([0.1, 0.5], scores(2, number), keys=[f"a{number}", f"b{number}"])
    return path


def edit(path, *statements):
    """Change a ledger without its triggers, then restore the triggers."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        with contextlib.suppress(sqlite3.OperationalError):  # the table may be gone
            for _, statement in triggers:
                connection.execute(statement)
        connection.commit()


# -- durability and reopening ---------------------------------------------------------------------


def test_a_reopened_holdout_continues_its_history(used_path):
    holdout = make(used_path)
    assert len(holdout.history()) == 6
    assert set(holdout.find_answers(["a0", "b2", "never"])) == {"a0", "b2"}
    spent = holdout.information_spent
    holdout.answer([0.9], scores(seed=9))
    assert make(used_path).information_spent > spent


def test_a_reopened_holdout_spends_one_budget(path):
    first = make(path, budget=2)
    first.answer([0.0], scores())
    second = make(path, budget=2)
    second.answer([1.0], scores(seed=1))
    assert (first.remaining_budget, second.remaining_budget) == (0, 0)


def test_the_noisy_threshold_survives_reopening(path):
    holdout = make(path)
    holdout.answer([0.5], scores())

    def threshold_noise(handle):
        with handle.account.read_transaction() as transaction:
            return handle.account.batch_context(transaction).mechanism.state()["threshold_noise"]

    assert threshold_noise(make(path)) == threshold_noise(holdout) != 0.0


def test_fixed_seeds_do_not_replay_noise_after_reopening(path, tmp_path):
    """Batches of a holdout reopened each time are those of one in memory, no two the same."""
    options = {"random_state": 3, "expert": ExpertSettings(resolution=1e-6, threshold=1e-6)}
    in_memory = ReusableHoldout(X, Y, **options)
    values = []
    expected = []
    corrected_values = []
    for number in range(16):
        expected.append(in_memory.answer([number % 2], scores()).values[0])
        answers = make(path, **options).answer([number % 2], scores())
        values.append(answers.values[0])
        if answers.corrected[0]:  # else it is a prediction, learned from the answers before
            corrected_values.append(answers.values[0])
    assert values == expected
    assert len(set(corrected_values)) == len(corrected_values) >= 6


def test_a_new_ledger_is_one_private_file(path):
    make(path)
    assert os.listdir(path.parent) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_inside_a_batch_leaves_the_ledger_as_it_was(path):
    backend = FailingBackend(path)
    holdout = make(backend)
    backend.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        holdout.answer([0.5], scores())
    backend.error = None
    assert len(holdout.history()) == 0
    assert holdout.answer([0.5], scores()).answered.all()


@pytest.mark.parametrize("written", [False, True])
def test_an_answer_is_not_released_when_its_commit_fails(path, written):
    """Also where the entry is there and the backend does not say so: it is found by its key."""
    backend = FailingBackend(path)
    holdout = make(backend)
    backend.error = LedgerUnavailableError("gone")
    backend.after = written
    with pytest.raises(LedgerUnavailableError):
        holdout.answer([0.5], scores(), keys=["a"])
    backend.error = None
    assert len(make(path).history()) == len(holdout.history()) == written
    assert holdout.answer([0.5], scores(), keys=["a"]).answered.all()
    assert len(make(path).history()) == 1


# -- mismatch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"X": X + 1}, ["data"]),
        ({"X": X[:-1], "y": Y[:-1]}, ["data"]),
        ({"X": X[:-1], "y": Y[:-1], "gap": 3}, ["data"]),
        ({"y": 1 - Y}, ["data"]),
        ({"X": X[::-1], "y": Y[::-1]}, ["data"]),
        ({"correlation": [[0.9, 0.1], [0.2, 0.8]]}, ["correlation"]),
        ({"confidence_level": 0.9}, ["confidence_level=0.9", 0.95]),
        ({"budget": 5}, ["budget=5", None]),
        ({"expert": ExpertSettings(threshold=0.2)}, ["threshold=0.2"]),
        ({"expert": ExpertSettings(resolution=0.1)}, ["resolution=0.1"]),
        ({"epsilon": 100.0}, ["epsilon=100.0"]),
        ({"gap": 3}, ["gap"]),
    ],
)
def test_a_ledger_of_another_holdout_is_rejected(used_path, change, facts):
    arguments = {"X": X, "y": Y, **change}
    with refused(LedgerMismatchError, *facts):
        ReusableHoldout(arguments.pop("X"), arguments.pop("y"), ledger=used_path, **arguments)


@pytest.mark.parametrize("equal_data", [
    {"X": X.astype(np.float32)}, {"X": X.astype(np.int32)}, {"X": X.tolist()},
    {"X": pd.DataFrame(X).add_prefix("c")}, {"X": pd.DataFrame(X.astype(np.int16))},
    {"X": X.astype(object)}, {"y": Y.astype(float)}, {"y": Y.tolist()}, {"y": pd.Series(Y)},
    {"y": Y.astype(bool)}, {"y": pd.Series(Y, index=Y).astype("int8")},
])  # fmt: skip
def test_equal_values_are_the_same_records(used_path, equal_data):
    arguments = {"X": X, "y": Y, **equal_data}
    assert len(ReusableHoldout(arguments["X"], arguments["y"], ledger=used_path).history()) == 6


def test_texts_and_mixed_frames_are_the_same_records_by_value(path):
    labels = np.array(["yes", "no"])[Y]
    frame = pd.DataFrame({"a": X[:, 0], "b": labels})
    ReusableHoldout(frame, labels, ledger=path).answer([0.5], scores())
    equal_frame = frame.assign(b=frame["b"].astype("category"), a=frame["a"].astype("int32"))
    assert len(ReusableHoldout(equal_frame, labels.tolist(), ledger=path).history()) == 1
    with refused(LedgerMismatchError, "columns"):
        ReusableHoldout(frame.rename(columns={"a": "c"}), labels, ledger=path)
    with refused(LedgerMismatchError, "data"):
        ReusableHoldout(frame.assign(b=labels[::-1]), labels, ledger=path)


def test_the_user_is_recorded_and_can_be_set(path, monkeypatch):
    monkeypatch.setenv("SKLEARN_BDP_USER", "ann")
    holdout = make(path)
    holdout.answer([0.5], scores(1, 0))
    monkeypatch.setenv("SKLEARN_BDP_USER", "bob\n\x1b[31m")
    answers = make(path).answer([0.5], scores(1, 1))
    assert answers[0].user == "bob[31m"
    monkeypatch.delenv("SKLEARN_BDP_USER")
    monkeypatch.setenv("LOGNAME", "carol")
    make(path).answer([0.5], scores(1, 2))
    assert [record.user for record in holdout.history()] == ["ann", "bob[31m", "carol"]
    assert holdout.history().to_frame()["user"].iloc[0] == "ann"


def test_settings_outside_the_guarantee_may_change(used_path):
    make(used_path, on_exhausted="nan", random_state=0, expert=ExpertSettings(ledger_timeout=5.0))


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET answers = replace(answers, '0.1', '0.2') WHERE number = 2",
        "UPDATE log SET answers = replace(answers, 'a0', 'other') WHERE number = 1",
        "UPDATE log SET answers = '[]' WHERE number = 3",
        "UPDATE log SET content = replace(content, 'above\":', 'above\":1') WHERE number = 3",
        "UPDATE log SET sealed = '{}' WHERE number = 3",
        "UPDATE log SET kind = 'note' WHERE number = 2",
        "UPDATE log SET answers = CAST(answers AS BLOB) WHERE number = 2",
        "UPDATE log SET content = 7 WHERE number = 2",
        "DELETE FROM log WHERE number = 2",
        "DELETE FROM log WHERE number = 1",
        "DELETE FROM log WHERE number = 3",
        "UPDATE log SET digest = commitment WHERE number = 2",
        "UPDATE log SET number = 0 WHERE number = 1",
        "INSERT INTO log SELECT 4, kind, content, answers, sealed, commitment, digest FROM log "
        "WHERE number = 3",
        "INSERT INTO log SELECT -1, kind, content, answers, sealed, commitment, digest FROM log "
        "WHERE number = 3",
        "UPDATE head SET number = 2",
        "DELETE FROM head",
        "UPDATE header SET content = replace(content, '0.05', '0.15')",
        "DELETE FROM header",
        "DROP TABLE log",
        "CREATE VIEW more AS SELECT * FROM log",
        "CREATE TABLE more (x)",
        "CREATE TRIGGER more AFTER INSERT ON log BEGIN SELECT 1; END",
        "PRAGMA application_id = 0",
    ],
)
def test_an_edited_ledger_answers_nothing(used_path, statement):
    edit(used_path, statement)
    with pytest.raises(LedgerCorruptedError):
        make(used_path)


def test_ordinary_edits_are_rejected_by_triggers(used_path):
    with contextlib.closing(sqlite3.connect(used_path)) as connection:
        for statement in (
            "UPDATE log SET answers = '[]'",
            "DELETE FROM log",
            "UPDATE header SET content = ''",
        ):
            with refused(sqlite3.IntegrityError, "append-only"):
                connection.execute(statement)


@pytest.mark.parametrize("size", [0, 10, 100, 4096, 5000])
def test_a_truncated_ledger_answers_nothing(used_path, size):
    with open(used_path, "r+b") as file:
        file.truncate(size)
    with pytest.raises(LedgerCorruptedError):
        make(used_path)


def test_a_foreign_file_is_not_modified(path):
    path.write_text("not a ledger")
    with pytest.raises(LedgerCorruptedError):
        make(path)
    assert path.read_text() == "not a ledger"
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with refused(LedgerCorruptedError, path.name):
        make(path)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_changes_nothing(ledger_bytes, position, bit):
    data, history = ledger_bytes
    damaged = bytearray(data)
    damaged[int(position * len(damaged))] ^= 1 << bit
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdout.sqlite"
        path.write_bytes(damaged)
        with contextlib.suppress(LedgerError):
            assert make(path).history() == history


@pytest.fixture(scope="module")
def ledger_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "holdout.sqlite"
    holdout = make(path)
    for number in range(3):
        holdout.answer([0.1, 0.5], scores(2, number), keys=[f"a{number}", None])
    return path.read_bytes(), holdout.history()


@pytest.mark.parametrize("keys", [["a", "a", "a"], ["a", "b", "a"]])
def test_answers_of_one_batch_with_one_key_are_free(path, keys):
    """Their cross-validated scores tell them apart, also if all of the batch have the key."""
    cv_scores = [0.1, 0.5, 0.9]
    first = make(path).answer(cv_scores, scores(3), keys=keys)
    repeated = make(path).answer(cv_scores, scores(3, seed=1), keys=keys)
    assert repeated.values.tolist() == first.values.tolist()
    assert len(make(path).history()) == 3


def test_an_open_holdout_detects_an_older_copy(path, tmp_path):
    holdout = make(path)
    holdout.answer([0.1], scores())
    older = tmp_path / "older"
    shutil.copy(path, older)
    holdout.answer([0.1], scores(seed=1))
    shutil.copy(older, path)
    for _ in range(4):
        with refused(LedgerCorruptedError, path.name):
            holdout.answer([0.1], scores(seed=2))


def test_a_deleted_or_replaced_file_is_detected(path, tmp_path):
    holdout = make(path)
    holdout.answer([0.1], scores())
    shutil.copy(path, tmp_path / "copy")
    path.unlink()
    with pytest.raises(LedgerError):
        holdout.answer([0.1], scores(seed=1))
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(LedgerError):
        holdout.answer([0.1], scores(seed=1))


@pytest.mark.parametrize("version", [4, 99])
def test_another_format_is_named_with_the_version_that_wrote_it(used_path, version):
    writer = f"UPDATE header SET content = replace(content, '{__version__}', '7.1.0')"
    edit(used_path, f"PRAGMA user_version = {version}", "DROP TABLE head", writer)
    with refused(LedgerVersionError, version, "7.1.0"):
        make(used_path)


def test_a_mechanism_of_another_version_is_named_without_its_noise(used_path, monkeypatch):
    holdout = make(used_path)

    def unknown(state, **options):
        raise ValueError(f"state must be of version 0, got {state}")

    monkeypatch.setattr("sklearn_bdp.mechanisms.Thresholdout.from_state", unknown)
    with refused(LedgerVersionError) as caught:
        holdout.answer([0.5], scores())
    assert "noise" not in str(caught.value)
    assert len(holdout.history()) == 6


def rewrite(path, change):
    """Edit the entries of a ledger and recompute the links between them."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT * FROM log ORDER BY number").fetchall()
        (previous,) = connection.execute("SELECT digest FROM header").fetchone()
    statements = ["DELETE FROM log"]
    for number, kind, content, answers, sealed, commitment, _ in rows:
        content = change(number, content)
        answers = change(number, answers)
        previous = Chain().link(previous, kind, content, answers, commitment)
        row = (number, kind, content, answers, sealed, commitment, previous)
        values = ", ".join(str(value) if isinstance(value, int) else f"'{value}'" for value in row)
        statements.append(f"INSERT INTO log VALUES ({values})")
    edit(path, *statements, f"UPDATE head SET digest = '{previous}'")


def test_open_and_pickled_holdouts_detect_an_edit_with_recomputed_digests(used_path, server):
    """A chain alone cannot show the edit, but processes and pickles that saw a link notice it."""
    open_holdout = make(used_path)
    pickled_holdout = pickle.dumps(make(used_path))
    rewrite(used_path, lambda number, text: text.replace('"a1"', '"x1"'))
    assert "x1" in make(used_path).find_answers(["x1"])  # a stranger sees nothing: documented
    with refused(LedgerCorruptedError, used_path.name):
        open_holdout.answer([0.5], scores())
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=server) as pool:
        assert (
            pool.submit(workers.revive, pickled_holdout).result()["error"] == "LedgerCorruptedError"
        )


def test_an_open_holdout_detects_dropped_batches(used_path):
    open_holdout = make(used_path)
    with contextlib.closing(sqlite3.connect(used_path)) as connection:
        (link,) = connection.execute("SELECT digest FROM log WHERE number = 2").fetchone()
    edit(
        used_path,
        "DELETE FROM log WHERE number = 3",
        f"UPDATE head SET number = 2, digest = '{link}'",
    )
    assert len(make(used_path).history()) == 4  # documented, too
    for _ in range(4):  # an error does not make the holdout forget the entries
        with refused(LedgerCorruptedError, used_path.name):
            open_holdout.answer([0.5], scores())


def test_a_ledger_key_reveals_edits_to_new_holdouts(path, monkeypatch):
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "correct horse battery staple")
    make(path).answer([0.1, 0.5], scores(2), keys=["a1", "b1"])
    assert len(make(path).history()) == 2
    with monkeypatch.context() as patch:
        patch.delenv("SKLEARN_BDP_LEDGER_KEY")
        rewrite(path, lambda number, text: text.replace('"a1"', '"x1"'))
    with refused(LedgerCorruptedError, "entry 1"):
        make(path)


def test_a_ledger_key_is_required_exactly_if_one_was_used(path, tmp_path, monkeypatch):
    unkeyed_path = tmp_path / "plain"
    make(unkeyed_path)
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "correct horse battery staple")
    make(path)
    with refused(LedgerError, "SKLEARN_BDP_LEDGER_KEY"):
        make(unkeyed_path)
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "another key of enough length")
    with refused(LedgerCorruptedError, "SKLEARN_BDP_LEDGER_KEY"):
        make(path)
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "short")
    with refused(LedgerError, "SKLEARN_BDP_LEDGER_KEY", 16, 5):
        make(path)
    monkeypatch.delenv("SKLEARN_BDP_LEDGER_KEY")
    with refused(LedgerError, "SKLEARN_BDP_LEDGER_KEY"):
        make(path)


CRAFTED = {
    "deep": "[" * 100_000,
    "a list": "[]",
    "a number": "7",
    "no number": "1e999",
    "not finite": {"value": [0.5, float("nan")]},
    "out of range": {"value": [0.5, 7.5]},
    "a number that is true": {"value": [True, 0.5]},
    "a text for a number": {"code_length": ["1"]},
    "no text": {"key": [1]},
    "a longer column": {"key": ["a", "b", "c"]},
    "no values": {"value": []},
    "another column": {"score": [0.5]},
    "negative": {"code_length": [-1.0]},
    "half corrected": {"above": [0.5, 1]},
    "too large": {"code_length": [10**400]},
    "empty interval": {"lower": [0.6], "upper": [0.5]},
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_entry_is_one_clear_error(used_path, name):
    crafted = CRAFTED[name]

    def change(number, text):
        is_content = "n_answered" in text
        if number != 2 or is_content != isinstance(crafted, str):
            return text
        return crafted if is_content else json.dumps(json.loads(text) | crafted)

    rewrite(used_path, change)
    with refused(LedgerCorruptedError, "entry 2"):
        make(used_path)


def answer_columns(n_repetitions=1):
    """Return the columns of three answers, or of three answers that repeat."""
    return {
        "key": ["a", None, "b\u20ac"] * n_repetitions,
        "metric": ["m", "m", "m"] * n_repetitions,
        "model": [None, "x", None] * n_repetitions,
        "code_length": np.tile([0.0, 1e-300, 5.0], n_repetitions),
        "cv_score": np.tile([0.1, 0.2, -0.0], n_repetitions),
        "value": np.tile([0.1, 0.3, 1.0], n_repetitions),
        "lower": np.zeros(3 * n_repetitions),
        "upper": np.ones(3 * n_repetitions),
        "corrected": np.tile([False, True, False], n_repetitions),
    }


ANSWER_SHAPES = [{"kind": "mean"}, {"kind": "pairs", "classes": ["0", "1"]}]


def make_answers(columns, **shapes):
    return Answers(columns, batch=4, time="now", scales={"m": ("accuracy", 0.0, 1.0)}, **shapes)


def batch_record(**cells):
    """Return the record of the batch of :func:`make_answers`."""
    totals = LedgerTotals(number=4, time="now")
    return BatchRecord(totals=totals, scales={"m": ["accuracy", 0.0, 1.0]}, **cells)


@pytest.mark.parametrize("shape_of", [1, [0, 0, 1]])
def test_columns_are_read_back_as_they_were_written(shape_of):
    answers = make_answers(answer_columns(), shapes=ANSWER_SHAPES, shape_of=shape_of)
    record = batch_record(cells={"shapes": ANSWER_SHAPES, "shape_of": shape_of})
    parsed = Answers.from_stored(json.loads(answers.to_json()), record)
    assert list(parsed) == list(answers) == [answers[0], answers[1], answers[-1]]
    assert parsed.to_json() == answers.to_json()
    assert answers[1].corrected is True
    assert answers[1].scale == ("accuracy", 0.0, 1.0)
    assert answers[-1].shape == {"kind": "pairs", "classes": ["0", "1"]}


def test_long_columns_are_read_back_as_they_were_written():
    """Long columns are stored in binary form."""
    long_json = make_answers(answer_columns(n_repetitions=60)).to_json()
    parsed = Answers.from_stored(json.loads(long_json), batch_record())
    assert list(parsed)[:3] == list(make_answers(answer_columns()))
    assert len(parsed) == 180


@pytest.mark.parametrize("text", ["AAAA", "?", ""])
def test_a_damaged_binary_column_raises(text):
    long_json = make_answers(answer_columns(n_repetitions=60)).to_json()
    with refused(ValueError):
        Answers.from_stored(json.loads(long_json) | {"value": text}, batch_record())


@pytest.mark.parametrize("shape_of", [2, -1, [0, 1], "x"])
def test_an_answer_without_a_shape_raises(shape_of):
    with refused(ValueError):
        make_answers(answer_columns(), shapes=ANSWER_SHAPES, shape_of=shape_of)


@pytest.mark.parametrize(
    "change",
    [
        {"threshold_scale": 0.0, "query_scale": 0.0, "answer_scale": 0.0},
        {"threshold_scale": 1e-9},
        {"answer_scale": None},
        {"n": 10**9},
        {"extra": 1},
    ],
    ids=str,
)
def test_a_crafted_header_cannot_change_the_noise(path, change):
    make(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        header = json.loads(connection.execute("SELECT content FROM header").fetchone()[0])
    header["settings"] = {**header["settings"], **change}
    path.unlink()
    Ledger(path, header=header).close()
    with refused(LedgerCorruptedError, "header"):
        make(path)


@pytest.mark.parametrize("header", ["[" * 100_000, "[]", "7", "{}", '{"chain": "sha256"}'])
def test_a_crafted_header_is_one_clear_error(command_line, path, header, capsys):
    make(path)
    digest = Chain().link("header", header)
    edit(path, f"UPDATE header SET content = '{header}', digest = '{digest}'",
         f"UPDATE head SET digest = '{digest}'")  # fmt: skip
    with pytest.raises(LedgerError):
        make(path)
    assert command_line("ledger", "show", path) == 1
    assert "Traceback" not in capsys.readouterr().err


# -- notes ----------------------------------------------------------------------------------------


def test_notes_survive_in_their_order(path):
    assert read_notes(path, "split") == []
    holdout = ReusableHoldout(X, Y, ledger=path)
    holdout.add_note("split", {"seed": 7})
    holdout.answer([0.5], scores(), keys=["a"])
    holdout.add_note("split", [1.5, None, "x"])
    holdout.add_note("closed", True)
    assert read_notes(path, "split") == [{"seed": 7}, [1.5, None, "x"]]
    reopened = make(path)
    assert reopened.notes("closed") == [True]
    assert reopened.notes("never") == []
    assert len(reopened.history()) == 1
    reopened.answer([0.1], scores(seed=1))
    assert len(holdout.history()) == 2


def test_notes_of_users_are_separate_from_notes_of_the_package(path):
    """``note("closing")`` closed the holdout once."""
    holdout = make(path, notes={fact.value: "mine" for fact in SystemNote})
    for fact in SystemNote:
        holdout.add_note(fact.value, {"statements": []})
    holdout.answer([0.5], scores())
    assert holdout.notes(SystemNote.CLOSING) == []
    assert holdout.notes("closing") == ["mine", {"statements": []}]
    assert read_notes(path, "closing") == ["mine", {"statements": []}]
    assert "another account" not in str(holdout.certificate())
    reopened = make(path)
    reopened.final_report({"one": DummyClassifier().fit(X, Y)}, scoring="accuracy")
    assert len(reopened.notes(SystemNote.CLOSING)) == 1
    assert len(reopened.notes("closing")) == 2


def test_notes_in_memory_travel_with_the_snapshot(server):
    holdout = make(None)
    holdout.add_note("closed", True)
    assert holdout.notes("closed") == [True]


def test_an_edited_note_is_detected(path):
    make(path).add_note("closed", False)
    edit(path, "UPDATE log SET content = replace(content, 'false', 'true')")
    with refused(LedgerCorruptedError, "entry 1"):
        make(path)


def test_initial_notes_are_recorded_on_creation(path):
    make(path, notes={"split": [3, 1, 2]})
    assert read_notes(path, "split") == [[3, 1, 2]]
    assert make(path, notes={"split": "another"}).notes("split") == [[3, 1, 2]]


@pytest.mark.parametrize("content", [float("nan"), object(), {1, 2}])
def test_a_note_that_json_cannot_encode_is_rejected_and_not_written(path, content):
    holdout = make(path)
    with pytest.raises((TypeError, ValueError)):
        holdout.add_note("x", content)
    assert make(path).notes("x") == []


# -- places that cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["missing/holdout.sqlite", ""])
def test_locations_that_are_not_files_are_named(tmp_path, name):
    with refused(LedgerUnavailableError, tmp_path):
        make(tmp_path / name)


@pytest.mark.parametrize("name", [":memory:", "file:holdout.sqlite?mode=memory"])
def test_names_of_databases_are_not_taken_for_files(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused(ValueError, "ledger=None"):
        make(name)
    assert os.listdir(tmp_path) == []


def test_a_tilde_is_the_home_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    holdout = make("~/holdout.sqlite")
    assert holdout.ledger == tmp_path / "holdout.sqlite"
    assert (tmp_path / "holdout.sqlite").exists()


def test_a_folder_is_not_a_ledger(tmp_path):
    with refused(LedgerUnavailableError, tmp_path):
        make(tmp_path)


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs two users")
def test_a_read_only_file_is_read_and_not_written(server):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdout.sqlite"
        make(path).answer([0.5], np.ones((1, N)))
        os.chmod(folder, 0o755)
        path.chmod(0o444)
        message = ask_as(server, path, 65534, 65534)
    assert "writable" in message
    assert "SQLITE_READONLY" in message


def test_a_full_disk_is_named_and_nothing_is_released(path):
    holdout = make(path)
    holdout.answer([0.1], scores())
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4096, limit[1]))
    try:
        with refused(LedgerUnavailableError, "SQLITE_IOERR_WRITE"):
            holdout.answer(np.full(2000, 0.1), scores(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert len(holdout.history()) == len(make(path).history()) == 1


def ask_as(server, path, group, user):
    """Return the result of ``workers.ask_as`` in a process of another user."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=server) as pool:
        return pool.submit(workers.query_as_user, path, group, user).result()


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_folder_is_named(server, existing):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdout.sqlite"
        if existing:
            make(path).answer([0.5], np.ones((1, N)))
            path.chmod(0o444)
        os.chmod(folder, 0o555)
        message = ask_as(server, path, 65534, 65534)
        os.chmod(folder, 0o755)
    assert "readonly" in message or "Permission denied" in message


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs two users")
def test_a_group_shares_a_file_as_documented(server):
    """Mode 660 in a folder of the group: its members answer in turn, others are refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdout.sqlite"
        make(path).answer([0.5], np.ones((1, N)))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        os.chmod(folder, 0o2770)
        os.chown(folder, -1, 4242)
        assert "cannot be" in ask_as(server, path, 4242, 65533)  # the file is its owner's alone
        path.chmod(0o660)
        os.chown(path, -1, 4242)
        assert [ask_as(server, path, 4242, user) for user in (65533, 65532)] == ["2", "3"]
        message = ask_as(server, path, 4243, 65531)
        assert "cannot be" in message or "not found" in message
        assert make(path).answer([0.5], scores()).answered.all()
        assert len(make(path).history()) == 4


# -- waiting --------------------------------------------------------------------------------------


def test_waiting_for_another_process_is_bounded(path):
    holdout = make(path, expert=ExpertSettings(ledger_timeout=0.2))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with refused(LedgerBusyError, "ledger_timeout"):
            holdout.answer([0.5], scores())
        connection.execute("ROLLBACK")
    assert holdout.answer([0.5], scores()).answered.all()


def test_waiting_for_another_thread_is_bounded(path):
    holdout = make(path, expert=ExpertSettings(ledger_timeout=0.2))
    has_lock = threading.Event()
    may_finish = threading.Event()

    def hold_lock():
        with holdout.account.write_transaction():
            has_lock.set()
            may_finish.wait(300)

    thread = threading.Thread(target=hold_lock)
    thread.start()
    assert has_lock.wait(300)
    with refused(LedgerBusyError, "thread"):
        holdout.answer([0.5], scores())
    may_finish.set()
    thread.join()
    assert holdout.answer([0.5], scores()).answered.all()


def test_a_ledger_is_not_pickled_on_its_own(used_path):
    with refused(TypeError, "ReusableHoldout"):
        pickle.dumps(Ledger(used_path))


def test_inspection_creates_and_writes_nothing(used_path):
    content = used_path.read_bytes()
    with Ledger(used_path).transaction() as transaction:
        assert transaction.head[0] == 3
    assert used_path.read_bytes() == content
    with pytest.raises(LedgerUnavailableError):
        Ledger(used_path.with_name("none"))
    assert not used_path.with_name("none").exists()


# -- looking without a transaction ----------------------------------------------------------------


def test_a_snapshot_needs_no_file(used_path, monkeypatch):
    ledger = Ledger(used_path)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "transaction", lambda *a, **k: 1 / 0)
        with ledger.verified_state() as state:
            queries = ("a0", None, None), ("never", None, None)
            assert set(state.find_answers(queries)) == {queries[0]}
            assert state.totals.n_answered == 6
    make(used_path).answer([0.5], scores())  # another handle: transactions find its records
    with ledger.verified_state() as state:
        assert state.totals.n_answered == 6
    with ledger.transaction() as state:
        assert state.totals.n_answered == 7
    with ledger.verified_state() as state:
        assert state.totals.n_answered == 7
