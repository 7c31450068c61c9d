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
from sklearn_bdp.ledger.ledger import Chain, Fact, Ledger
from sklearn_bdp.ledger.records import Answers, BatchRecord
from tests.facts import refused
from tests.holdout import workers
from tests.ledger.failing import Failing

N = 200
X, Y = np.arange(2.0 * N).reshape(N, 2), np.arange(N) % 2


def scores(count=1, seed=0):
    return np.random.default_rng(seed).integers(0, 2, size=(count, N)).astype(float)


def make(path, **options):
    return ReusableHoldout(X, Y, ledger=path, **options)


@pytest.fixture
def used(path):
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


def test_a_reopened_holdout_goes_on_where_it_was(used):
    holdout = make(used)
    assert len(holdout.history()) == 6
    assert set(holdout.find_answers(["a0", "b2", "never"])) == {"a0", "b2"}
    before = holdout.information_spent
    holdout.answer([0.9], scores(seed=9))
    assert make(used).information_spent > before


def test_a_reopened_holdout_spends_one_budget(path):
    first = make(path, budget=2)
    first.answer([0.0], scores())
    second = make(path, budget=2)
    second.answer([1.0], scores(seed=1))
    assert (first.remaining_budget, second.remaining_budget) == (0, 0)


def test_the_noisy_threshold_survives_reopening(path):
    holdout = make(path)
    holdout.answer([0.5], scores())

    def noise(some):
        with some.account.reading() as transaction:
            return some.account.terms(transaction).mechanism.state()["threshold_noise"]

    assert noise(make(path)) == noise(holdout) != 0.0


def test_fixed_seeds_do_not_replay_noise_after_reopening(path, tmp_path):
    """Batches of a holdout reopened each time are those of one in memory, no two the same."""
    options = {"random_state": 3, "expert": ExpertSettings(resolution=1e-6, threshold=1e-6)}
    alone = ReusableHoldout(X, Y, **options)
    values, expected, looked = [], [], []
    for number in range(16):
        expected.append(alone.answer([number % 2], scores()).values[0])
        answers = make(path, **options).answer([number % 2], scores())
        values.append(answers.values[0])
        if answers.corrected[0]:  # else it is a prediction, learned from the answers before
            looked.append(answers.values[0])
    assert values == expected
    assert len(set(looked)) == len(looked) >= 6


def test_a_new_ledger_is_one_private_file(path):
    make(path)
    assert os.listdir(path.parent) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_inside_a_batch_leaves_the_ledger_as_it_was(path):
    backend = Failing(path)
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
    backend = Failing(path)
    holdout = make(backend)
    backend.error, backend.after = LedgerUnavailableError("gone"), written
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
def test_another_holdout_is_refused(used, change, facts):
    arguments = {"X": X, "y": Y, **change}
    with refused(LedgerMismatchError, *facts):
        ReusableHoldout(arguments.pop("X"), arguments.pop("y"), ledger=used, **arguments)


@pytest.mark.parametrize("same", [
    {"X": X.astype(np.float32)}, {"X": X.astype(np.int32)}, {"X": X.tolist()},
    {"X": pd.DataFrame(X).add_prefix("c")}, {"X": pd.DataFrame(X.astype(np.int16))},
    {"X": X.astype(object)}, {"y": Y.astype(float)}, {"y": Y.tolist()}, {"y": pd.Series(Y)},
    {"y": Y.astype(bool)}, {"y": pd.Series(Y, index=Y).astype("int8")},
])  # fmt: skip
def test_equal_values_are_the_same_records(used, same):
    arguments = {"X": X, "y": Y, **same}
    assert len(ReusableHoldout(arguments["X"], arguments["y"], ledger=used).history()) == 6


def test_texts_and_mixed_frames_are_the_same_records_by_value(path):
    names = np.array(["yes", "no"])[Y]
    frame = pd.DataFrame({"a": X[:, 0], "b": names})
    ReusableHoldout(frame, names, ledger=path).answer([0.5], scores())
    again = frame.assign(b=frame["b"].astype("category"), a=frame["a"].astype("int32"))
    assert len(ReusableHoldout(again, names.tolist(), ledger=path).history()) == 1
    with refused(LedgerMismatchError, "columns"):
        ReusableHoldout(frame.rename(columns={"a": "c"}), names, ledger=path)
    with refused(LedgerMismatchError, "data"):
        ReusableHoldout(frame.assign(b=names[::-1]), names, ledger=path)


def test_who_asked_is_recorded_and_can_be_set(path, monkeypatch):
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


def test_what_does_not_change_the_promise_may_change(used):
    make(used, on_exhausted="nan", random_state=0, expert=ExpertSettings(ledger_timeout=5.0))


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
def test_an_edited_ledger_answers_nothing(used, statement):
    edit(used, statement)
    with pytest.raises(LedgerCorruptedError):
        make(used)


def test_ordinary_edits_are_refused_by_the_file_itself(used):
    with contextlib.closing(sqlite3.connect(used)) as connection:
        for statement in (
            "UPDATE log SET answers = '[]'",
            "DELETE FROM log",
            "UPDATE header SET content = ''",
        ):
            with refused(sqlite3.IntegrityError, "append-only"):
                connection.execute(statement)


@pytest.mark.parametrize("size", [0, 10, 100, 4096, 5000])
def test_a_truncated_ledger_answers_nothing(used, size):
    with open(used, "r+b") as file:
        file.truncate(size)
    with pytest.raises(LedgerCorruptedError):
        make(used)


def test_a_file_of_something_else_is_left_alone(path):
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
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_changes_nothing(ledger_bytes, place, bit):
    data, history = ledger_bytes
    damaged = bytearray(data)
    damaged[int(place * len(damaged))] ^= 1 << bit
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


def test_going_back_to_an_older_copy_is_noticed_by_a_running_holdout(path, tmp_path):
    holdout = make(path)
    holdout.answer([0.1], scores())
    older = tmp_path / "older"
    shutil.copy(path, older)
    holdout.answer([0.1], scores(seed=1))
    shutil.copy(older, path)
    with refused(LedgerCorruptedError, path.name):
        holdout.answer([0.1], scores(seed=2))


def test_a_deleted_or_replaced_file_is_noticed(path, tmp_path):
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
def test_another_format_is_named_with_the_version_that_wrote_it(used, version):
    writer = f"UPDATE header SET content = replace(content, '{__version__}', '7.1.0')"
    edit(used, f"PRAGMA user_version = {version}", "DROP TABLE head", writer)
    with refused(LedgerVersionError, version, "7.1.0"):
        make(used)


def test_a_mechanism_of_another_version_is_named_without_its_noise(used, monkeypatch):
    holdout = make(used)

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
        content, answers = change(number, content), change(number, answers)
        previous = Chain().link(previous, kind, content, answers, commitment)
        row = (number, kind, content, answers, sealed, commitment, previous)
        values = ", ".join(str(v) if isinstance(v, int) else f"'{v}'" for v in row)
        statements.append(f"INSERT INTO log VALUES ({values})")
    edit(path, *statements, f"UPDATE head SET digest = '{previous}'")


def test_an_edit_with_links_computed_anew_is_noticed_by_whoever_saw_more(used, server):
    """A chain alone cannot show the edit, but processes and pickles that saw a link notice it."""
    running, asleep = make(used), pickle.dumps(make(used))
    rewrite(used, lambda number, text: text.replace('"a1"', '"x1"'))
    assert "x1" in make(used).find_answers(["x1"])  # a stranger sees nothing: documented
    with refused(LedgerCorruptedError, used.name):
        running.answer([0.5], scores())
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=server) as pool:
        assert pool.submit(workers.revive, asleep).result()["error"] == "LedgerCorruptedError"


def test_dropped_batches_are_noticed_by_whoever_saw_more(used):
    running = make(used)
    with contextlib.closing(sqlite3.connect(used)) as connection:
        (link,) = connection.execute("SELECT digest FROM log WHERE number = 2").fetchone()
    edit(used, "DELETE FROM log WHERE number = 3", f"UPDATE head SET number = 2, digest = '{link}'")
    assert len(make(used).history()) == 4  # documented, too
    with refused(LedgerCorruptedError, used.name):
        running.answer([0.5], scores())


def test_a_key_shows_edits_to_strangers(path, monkeypatch):
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "correct horse battery staple")
    make(path).answer([0.1, 0.5], scores(2), keys=["a1", "b1"])
    assert len(make(path).history()) == 2
    with monkeypatch.context() as stranger:
        stranger.delenv("SKLEARN_BDP_LEDGER_KEY")
        rewrite(path, lambda number, text: text.replace('"a1"', '"x1"'))
    with refused(LedgerCorruptedError, "entry 1"):
        make(path)


def test_a_key_is_needed_where_one_was_used_and_only_there(path, tmp_path, monkeypatch):
    plain = tmp_path / "plain"
    make(plain)
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "correct horse battery staple")
    make(path)
    with refused(LedgerError, "SKLEARN_BDP_LEDGER_KEY"):
        make(plain)
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
def test_a_crafted_entry_is_one_clear_error(used, name):
    crafted = CRAFTED[name]

    def change(number, old):
        about_content = "n_answered" in old
        if number != 2 or about_content != isinstance(crafted, str):
            return old
        return crafted if about_content else json.dumps(json.loads(old) | crafted)

    rewrite(used, change)
    with refused(LedgerCorruptedError, "entry 2"):
        make(used)


def test_columns_are_read_back_as_they_were_written():
    columns = {
        "key": ["a", None, "b\u20ac"], "metric": ["m", "m", "m"], "model": [None, "x", None],
        "code_length": np.array([0.0, 1e-300, 5.0]), "cv_score": np.array([0.1, 0.2, -0.0]),
        "value": np.array([0.1, 0.3, 1.0]), "lower": np.zeros(3), "upper": np.ones(3),
        "corrected": np.array([False, True, False]),
    }  # fmt: skip
    about = {"batch": 4, "time": "now", "scales": {"m": ("accuracy", 0.0, 1.0)}}
    about |= {"shapes": [{"kind": "mean"}, {"kind": "pairs", "classes": ["0", "1"]}]}
    for shape_of in (1, [0, 0, 1]):
        made = Answers(columns, shape_of=shape_of, **about)
        cells = {"shapes": about["shapes"], "shape_of": shape_of}
        scales = {"m": ["accuracy", 0.0, 1.0]}
        record = BatchRecord(number=4, time="now", scales=scales, cells=cells)
        again = Answers.parsed(json.loads(made.to_json()), record)
        assert list(again) == list(made) == [made[0], made[1], made[-1]]
        assert again.to_json() == made.to_json()
        assert made[1].corrected is True
        assert made[1].scale == ("accuracy", 0.0, 1.0)
        assert made[-1].shape == {"kind": "pairs", "classes": ["0", "1"]}
    many = {name: np.tile(column, 60) for name, column in columns.items()}
    many |= {name: columns[name] * 60 for name in ("key", "metric", "model")}
    packed = Answers(many, batch=4, time="now", scales=about["scales"]).to_json()
    record = BatchRecord(number=4, time="now", scales={"m": ["accuracy", 0.0, 1.0]})
    again = Answers.parsed(json.loads(packed), record)
    assert list(again)[:3] == list(Answers(columns, **about | {"shapes": (None,)}))
    assert len(again) == 180
    for text in ("AAAA", "?", ""):
        with refused(ValueError):
            Answers.parsed(json.loads(packed) | {"value": text}, record)
    for wrong in (2, -1, [0, 1], "x"):
        with refused(ValueError):
            Answers(columns, shape_of=wrong, **about)


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
    again = make(path)
    assert again.notes("closed") == [True]
    assert again.notes("never") == []
    assert len(again.history()) == 1
    again.answer([0.1], scores(seed=1))
    assert len(holdout.history()) == 2


def test_a_note_of_a_user_is_never_one_of_the_package(path):
    """``note("closing")`` closed the holdout once."""
    holdout = make(path, notes={fact.value: "mine" for fact in Fact})
    for fact in Fact:
        holdout.add_note(fact.value, {"statements": []})
    holdout.answer([0.5], scores())
    assert holdout.notes(Fact.CLOSING) == []
    assert holdout.notes("closing") == ["mine", {"statements": []}]
    assert read_notes(path, "closing") == ["mine", {"statements": []}]
    assert "another account" not in str(holdout.certificate())
    again = make(path)
    again.final_report({"one": DummyClassifier().fit(X, Y)}, scoring="accuracy")
    assert len(again.notes(Fact.CLOSING)) == 1
    assert len(again.notes("closing")) == 2


def test_notes_in_memory_travel_with_the_snapshot(server):
    holdout = make(None)
    holdout.add_note("closed", True)
    assert holdout.notes("closed") == [True]


def test_an_edited_note_is_noticed(path):
    make(path).add_note("closed", False)
    edit(path, "UPDATE log SET content = replace(content, 'false', 'true')")
    with refused(LedgerCorruptedError, "entry 1"):
        make(path)


def test_the_first_notes_are_there_from_the_first_moment(path):
    make(path, notes={"split": [3, 1, 2]})
    assert read_notes(path, "split") == [[3, 1, 2]]
    assert make(path, notes={"split": "another"}).notes("split") == [[3, 1, 2]]


@pytest.mark.parametrize("content", [float("nan"), object(), {1, 2}])
def test_a_note_that_json_cannot_say_is_refused_and_writes_nothing(path, content):
    holdout = make(path)
    with pytest.raises((TypeError, ValueError)):
        holdout.add_note("x", content)
    assert make(path).notes("x") == []


# -- places that cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["missing/holdout.sqlite", ""])
def test_places_that_are_no_files_are_named(tmp_path, name):
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
        told = ask_as(server, path, 65534, 65534)
    assert "writable" in told
    assert "SQLITE_READONLY" in told


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
        return pool.submit(workers.ask_as, path, group, user).result()


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_folder_is_named(server, existing):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdout.sqlite"
        if existing:
            make(path).answer([0.5], np.ones((1, N)))
            path.chmod(0o444)
        os.chmod(folder, 0o555)
        told = ask_as(server, path, 65534, 65534)
        os.chmod(folder, 0o755)
    assert "readonly" in told or "Permission denied" in told


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
        stranger = ask_as(server, path, 4243, 65531)
        assert "cannot be" in stranger or "not found" in stranger
        assert make(path).answer([0.5], scores()).answered.all()
        assert len(make(path).history()) == 4


# -- waiting --------------------------------------------------------------------------------------


def test_waiting_for_another_process_is_bounded(path):
    holdout = make(path, expert=ExpertSettings(ledger_timeout=0.2))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with refused(LedgerBusyError, "ledger_timeout"):
            holdout.answer([0.5], scores())
        other.execute("ROLLBACK")
    assert holdout.answer([0.5], scores()).answered.all()


def test_waiting_for_another_thread_is_bounded(path):
    holdout = make(path, expert=ExpertSettings(ledger_timeout=0.2))
    inside, done = threading.Event(), threading.Event()

    def hold():
        with holdout.account.writing():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with refused(LedgerBusyError, "thread"):
        holdout.answer([0.5], scores())
    done.set()
    thread.join()
    assert holdout.answer([0.5], scores()).answered.all()


def test_a_ledger_is_not_pickled_on_its_own(used):
    with refused(TypeError, "ReusableHoldout"):
        pickle.dumps(Ledger(used))


def test_inspection_creates_and_writes_nothing(used):
    before = used.read_bytes()
    with Ledger(used).transaction() as transaction:
        assert transaction.head[0] == 3
    assert used.read_bytes() == before
    with pytest.raises(LedgerUnavailableError):
        Ledger(used.with_name("none"))
    assert not used.with_name("none").exists()


# -- looking without a transaction ----------------------------------------------------------------


def test_what_was_seen_needs_no_file(used, monkeypatch):
    ledger = Ledger(used)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "transaction", lambda *a, **k: 1 / 0)
        with ledger.seen() as book:
            asked = ("a0", None, None), ("never", None, None)
            assert set(book.match(asked)) == {asked[0]}
            assert book.last.n_answered == 6
    make(used).answer([0.5], scores())  # another handle: transactions find its records
    with ledger.seen() as book:
        assert book.last.n_answered == 6
    with ledger.transaction() as book:
        assert book.last.n_answered == 7
    with ledger.seen() as book:
        assert book.last.n_answered == 7
