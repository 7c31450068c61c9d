"""Ledgers on a server: older tables, moves, repairs, deletion."""

import contextlib
import json
import sqlite3

import pytest

from sklearn_bdp.exceptions import (
    LedgerCorruptedError,
    LedgerError,
    LedgerUnavailableError,
    LedgerVersionError,
)
from sklearn_bdp.holdout import ReusableHoldout
from tests.facts import refused
from tests.holdout.workers import X, Y, scores
from tests.ledger.servers import Server, server_programs
from tests.ledger.test_formats import restored

psycopg = pytest.importorskip("psycopg")
if server_programs() is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

#: Tables as version 0.1 made them, in the first schema of the search_path.
OLDER_TABLES = """
CREATE TABLE sklearn_bdp_ledger (
    holdout text PRIMARY KEY, header text NOT NULL, start text NOT NULL,
    number integer NOT NULL, digest text NOT NULL
);
CREATE TABLE sklearn_bdp_log (
    holdout text NOT NULL REFERENCES sklearn_bdp_ledger, number integer NOT NULL,
    kind text NOT NULL, content text NOT NULL, answers text NOT NULL,
    sealed text NOT NULL, commitment text NOT NULL, digest text NOT NULL,
    PRIMARY KEY (holdout, number)
);
"""


@pytest.fixture(scope="module")
def postgresql():
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def url(postgresql, request):
    """Return the URL of a ledger of this test's own."""
    return postgresql.url(request.node.name)


@pytest.fixture
def older_url(postgresql, request, url, path):
    """Return the URL of a ledger in the tables of version 0.1."""
    restored(path, "format-6.sql", 6)
    name = request.node.name
    with contextlib.closing(sqlite3.connect(path)) as file:
        header, start = file.execute("SELECT content, digest FROM header").fetchone()
        head = file.execute("SELECT number, digest FROM head").fetchone()
        rows = file.execute("SELECT * FROM log ORDER BY number").fetchall()
    with postgresql.connect(name) as connection:
        connection.execute(OLDER_TABLES)
        connection.execute(
            "INSERT INTO sklearn_bdp_ledger VALUES (%s, %s, %s, %s, %s)",
            (name, header, start, *head),
        )
        insert = "INSERT INTO sklearn_bdp_log VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        connection.cursor().executemany(insert, [(name, *row) for row in rows])
    return url


def make(url, **options):
    return ReusableHoldout(X, Y, ledger=url, **options)


def url_in_same_database(url, name):
    return url.replace(url.partition("holdout=")[2], name)


def test_older_tables_are_read_and_never_give_a_second_budget(older_url, command_line, capsys):
    with refused(LedgerVersionError, "upgrade"):
        make(older_url)
    for action in ("show", "verify", "export"):
        assert command_line("ledger", action, older_url) == 0
    capsys.readouterr()
    assert command_line("ledger", "list", older_url.partition("?")[0], "--json") == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert line["answers"] == 6


def test_older_tables_are_upgraded_beside(older_url, postgresql, request, command_line):
    assert command_line("ledger", "upgrade", older_url) == 0
    holdout = make(older_url)
    assert len(holdout.history()) == 6
    holdout.answer([0.9], scores(1, 6))
    assert command_line("ledger", "verify", older_url) == 0
    assert command_line("ledger", "upgrade", older_url) == 1
    with postgresql.connect(request.node.name) as connection:
        count = connection.execute("SELECT number FROM public.sklearn_bdp_ledger").fetchone()[0]
    assert count == 5


def move(source, target, command_line):
    """Move a ledger, and check that it answers at its target only."""
    assert command_line("ledger", "move", source, target) == 0
    with refused(LedgerUnavailableError, "move"):
        make(source)
    make(target).answer([0.5], scores(1, 1))
    assert command_line("ledger", "verify", target) == 0


def test_a_ledger_moves_to_a_server_within_it_and_back(url, path, tmp_path, command_line):
    make(path).answer([0.5], scores(1, 0), keys=["a"])
    renamed_url = url_in_same_database(url, "renamed")
    move(path, url, command_line)
    move(url, renamed_url, command_line)
    move(renamed_url, tmp_path / "back.sqlite", command_line)
    assert len(make(tmp_path / "back.sqlite").history()) == 4


def test_a_copy_in_the_same_database_is_rejected(url, command_line, capsys):
    make(url).answer([0.5], scores(1, 0))
    assert command_line("ledger", "copy", url, url_in_same_database(url, "copy")) == 1
    assert "LedgerMismatchError" in capsys.readouterr().err
    assert command_line("ledger", "verify", url_in_same_database(url, "copy")) == 1


def test_a_move_that_fails_leaves_the_source_in_use(url, command_line, postgresql):
    make(url).answer([0.5], scores(1, 0))
    unreachable_url = url.replace(f":{postgresql.port}/", ":1/")
    assert command_line("ledger", "move", url, unreachable_url) == 1
    assert make(url).answer([0.5], scores(1, 1)).answered.all()


@pytest.fixture
def analyst_url(url, postgresql, request):
    """Return the URL of a role that has all rights but those of the owner."""
    make(url).answer([0.5], scores(1, 0))
    with postgresql.connect(request.node.name) as connection:
        connection.execute("DROP ROLE IF EXISTS analyst")
        connection.execute("CREATE ROLE analyst LOGIN")
        connection.execute(
            "GRANT USAGE ON SCHEMA sklearn_bdp TO analyst;"
            "GRANT SELECT ON ALL TABLES IN SCHEMA sklearn_bdp TO analyst;"
            "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sklearn_bdp TO analyst"
        )
    yield url.replace("postgres@", "analyst@")
    with postgresql.connect(request.node.name) as connection:
        connection.execute("DROP OWNED BY analyst")


def test_only_the_owner_repairs(url, analyst_url, postgresql, request, command_line):
    with postgresql.connect(request.node.name) as connection:
        connection.execute("UPDATE sklearn_bdp.sklearn_bdp_ledger SET number = 0")
    with pytest.raises(LedgerCorruptedError):
        make(url)
    assert command_line("ledger", "repair", analyst_url) == 1
    assert command_line("ledger", "repair", url) == 0
    assert len(make(analyst_url).history()) == 1


def test_only_the_owner_deletes(url, analyst_url, command_line):
    assert command_line("ledger", "delete", analyst_url, "--yes") == 1
    assert len(make(url).history()) == 1
    assert command_line("ledger", "delete", url, "--yes") == 0
    assert command_line("ledger", "verify", url) == 1


def test_a_list_names_all_ledgers_of_a_database(url, command_line, capsys):
    make(url)
    ReusableHoldout(X + 1.0, Y, ledger=url_in_same_database(url, "other")).answer(
        [0.5], scores(1, 0)
    )
    url_with_password = url.partition("?")[0].replace("postgres@", "postgres:xyzzy@")
    assert command_line("ledger", "list", url_with_password, "--json") == 0
    output = capsys.readouterr().out
    assert "xyzzy" not in output
    lines = json.loads(output)
    assert sorted(line["answers"] for line in lines) == [0, 1]
    assert any("holdout=other" in line["ledger"] for line in lines)


def test_a_key_seals_a_ledger_on_a_server(url, monkeypatch):
    monkeypatch.setenv("SKLEARN_BDP_LEDGER_KEY", "correct horse battery staple")
    make(url).answer([0.5], scores(1, 0), keys=["a"])
    assert len(make(url).history()) == 1
    monkeypatch.delenv("SKLEARN_BDP_LEDGER_KEY")
    with refused(LedgerError, "SKLEARN_BDP_LEDGER_KEY"):
        make(url)


def test_texts_that_postgresql_cannot_decode_are_kept(url):
    """JSON escapes of NUL and of half a character, in keys, notes and names of classes."""
    escaped_text = "a\0b\udcff"
    holdout = make(url, notes={"source": escaped_text})
    holdout.answer([0.5], scores(1, 0), keys=[escaped_text])
    holdout.add_note(escaped_text, {"x": escaped_text})
    reopened = make(url)
    assert set(reopened.find_answers([escaped_text])) == {escaped_text}
    assert reopened.notes(escaped_text) == [{"x": escaped_text}]
    assert reopened.notes("source") == [escaped_text]
