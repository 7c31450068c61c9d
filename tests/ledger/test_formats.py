"""Ledgers of older formats: read, verified, exported, upgraded; never taken for new ones."""

import contextlib
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from sklearn_bdp import __version__
from sklearn_bdp.correlation import Groups
from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    LedgerCorruptedError,
    LedgerMismatchError,
    LedgerVersionError,
)
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.ledger.backend import FORMAT, FORMATS, Row
from sklearn_bdp.ledger.ledger import Chain, backend_at
from sklearn_bdp.report.final import load_report
from tests.facts import refused
from tests.holdout.workers import X, Y, scores

FOLDER = Path(__file__).parent / "formats"
#: Made by the package when it wrote these formats, from the records of ``tests.holdout.workers``.
OLDER = {5: "format-5.sql", 6: "format-6.sql"}


@pytest.fixture(params=sorted(OLDER))
def older_path(request, path):
    """Return the path of a ledger of an older format."""
    return restored(path, OLDER[request.param], request.param)


def test_format_and_version_move_together():
    """A version that was released writes one format; another format needs another version."""
    release = re.match(r"\d+\.\d+\.\d+", __version__)[0]
    assert FORMATS[FORMAT] == release
    assert list(FORMATS) == sorted(FORMATS)
    assert set(OLDER) == set(FORMATS) - {FORMAT}


def test_older_formats_are_shown_and_verified(older_path, command_line, capsys):
    assert command_line("ledger", "verify", older_path) == 0
    assert command_line("ledger", "show", older_path) == 0
    assert "200 records" in capsys.readouterr().out


def test_older_formats_are_exported(older_path, command_line, capsys):
    assert command_line("ledger", "export", older_path) == 0
    assert capsys.readouterr().out.count('"batch":{') == 4


def test_inspection_of_an_older_format_creates_no_file(older_path, command_line):
    assert command_line("ledger", "verify", older_path) == 0
    assert is_alone_in_folder(older_path)


def is_alone_in_folder(path):
    """Return whether nothing is beside a ledger."""
    return [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_holdout_rejects_an_older_format_and_names_the_command(older_path):
    with refused(LedgerVersionError, "upgrade") as caught:
        ReusableHoldout(X, Y, ledger=older_path)
    assert "install" not in str(caught.value).lower()


@pytest.fixture
def upgraded_path(older_path, command_line):
    """Return the path of a ledger that was upgraded."""
    assert command_line("ledger", "upgrade", older_path) == 0
    return older_path


def test_an_upgrade_keeps_the_older_file(older_path, command_line):
    content = older_path.read_bytes()
    assert command_line("ledger", "upgrade", older_path) == 0
    assert [backup.read_bytes() for backup in older_path.parent.glob("*.format-*")] == [content]


def test_an_upgraded_ledger_has_all_answers_and_notes(upgraded_path):
    holdout = ReusableHoldout(X.astype(np.float64), Y, ledger=upgraded_path)
    assert [record.key for record in holdout.history()] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert holdout.notes("source") + holdout.notes("ward") == ["clinic A", 3]


def test_an_upgraded_ledger_answers_new_queries(upgraded_path, command_line):
    holdout = ReusableHoldout(X, Y, ledger=upgraded_path)
    spent = holdout.information_spent
    recorded = holdout.find_answers(["a1"])["a1"]
    assert (
        holdout.answer([recorded.cv_score], scores(1, 5), keys=["a1"]).values[0] == recorded.value
    )
    holdout.answer([0.9], scores(1, 6))
    assert holdout.information_spent > spent
    assert command_line("ledger", "verify", upgraded_path) == 0


def test_an_upgraded_ledger_belongs_to_its_records(upgraded_path):
    with pytest.raises(LedgerMismatchError):
        ReusableHoldout(X + 1.0, Y, ledger=upgraded_path)


def test_a_ledger_is_upgraded_once(upgraded_path, command_line, capsys):
    assert command_line("ledger", "upgrade", upgraded_path) == 1
    assert str(FORMAT) in capsys.readouterr().err


def restored(path, name, version):
    """Restore a ledger from a dump."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / name).read_text("utf-8"))
        connection.execute("PRAGMA application_id = 1111773233")
        connection.execute(f"PRAGMA user_version = {version}")
    return path


def test_a_ledger_that_earlier_code_wrote_in_this_format_is_continued(path, command_line):
    """Names of stored facts do not follow names in the code."""
    restored(path, "format-7.sql", FORMAT)
    assert command_line("ledger", "verify", path) == 0
    groups = Groups(np.arange(len(Y)) // 2)
    holdout = ReusableHoldout(X, Y, correlation=groups, ledger=path)
    values = [record.value for record in holdout.history()]
    assert values == pytest.approx([0.717015, 0.636034, -0.607806], abs=1e-6)
    assert 0.0 < holdout.certificate().half_width < 0.5
    for scoring in ("balanced_accuracy", "accuracy"):
        holdout.answer_predictions(Y, scoring=scoring, cv_score=0.9, name="right", submitter="bob")
    reopened = ReusableHoldout(X, Y, correlation=groups, ledger=path)
    assert len(reopened.history()) == 5
    assert str(reopened.certificate()) == str(holdout.certificate())
    report = reopened.final_report({"right": Y}, scoring=["accuracy", "balanced_accuracy"])
    assert all(row.proven for row in report.rows)


def test_a_closed_ledger_stays_closed(path, command_line):
    restored(path, "format-6-closed.sql", 6)
    for action in ("verify", "show", "upgrade", "verify"):
        assert command_line("ledger", action, path) == 0
    holdout = ReusableHoldout(X, Y, ledger=path)
    assert len(holdout.history()) == 7
    with pytest.raises(HoldoutClosedError):
        holdout.answer([0.5], scores(1, 0))
    with holdout.account.read_transaction() as ledger_state:
        record = ledger_state.latest_record
    report = load_report(holdout, record)
    assert report.code_length == record.cells["report"]["information_spent"]
    assert report.rows[0].lower < report.value < report.rows[0].upper


@pytest.fixture(params=sorted(OLDER))
def unfinished_path(request, path):
    """Return the path of an older ledger with an unfinished report, which was not charged."""
    closed_path = restored(path.with_name("closed.sqlite"), "format-6-closed.sql", 6)
    with backend_at(closed_path) as backend:
        stored = backend.read(0)
    closed_path.unlink()
    header = stored.header.replace('"format":6', f'"format":{request.param}')
    chain = Chain()
    start = previous = chain.link("header", header)
    rows = []
    for row in stored.rows[:-1]:  # without the record that closes
        previous = chain.link(previous, row.kind, row.content, row.answers, row.commitment)
        rows.append(Row(*row[:-1], digest=previous))
    assert '"name":"closing"' in rows[-1].content
    assert '"charge"' not in rows[-1].content
    with backend_at(path) as backend:
        assert backend.create(header, start, rows)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {request.param}")
    return path


def test_an_uncharged_unfinished_report_can_be_read(unfinished_path, command_line):
    """G35: older formats did not charge for a report that did not finish."""
    for action in ("verify", "show", "export"):
        assert command_line("ledger", action, unfinished_path) == 0


def test_an_uncharged_unfinished_report_is_not_upgraded(unfinished_path, command_line, capsys):
    content = unfinished_path.read_bytes()
    assert command_line("ledger", "upgrade", unfinished_path) == 1
    message = capsys.readouterr().err
    assert message.startswith("LedgerError")
    assert str(unfinished_path) in message
    assert unfinished_path.read_bytes() == content
    for pattern in ("*.format-*", "*.upgrade"):
        assert not list(unfinished_path.parent.glob(pattern))
    with refused(LedgerVersionError, "upgrade"):
        ReusableHoldout(X, Y, ledger=unfinished_path)


def test_an_edited_ledger_is_not_upgraded(older_path, command_line, capsys):
    with contextlib.closing(sqlite3.connect(older_path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = triggers.fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE log SET answers = replace(answers, 'a1', 'x1')")
        for _, statement in triggers:
            connection.execute(statement)
        connection.commit()
    assert command_line("ledger", "upgrade", older_path) == 1
    assert LedgerCorruptedError.__name__ in capsys.readouterr().err
    assert is_alone_in_folder(older_path)


def test_a_format_of_the_future_names_no_installed_version(path, command_line, capsys):
    ReusableHoldout(X, Y, ledger=path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with refused(LedgerVersionError, 99):
        ReusableHoldout(X, Y, ledger=path)
    for action in ("show", "verify", "export", "upgrade"):
        assert command_line("ledger", action, path) == 1
