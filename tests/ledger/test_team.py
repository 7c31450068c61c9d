"""A team with one database: roles and their schemas, frozen processes and servers, two reports."""

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from sklearn_bdp.exceptions import (
    HoldoutClosedError,
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.utils.process import host_name
from tests.facts import refused
from tests.holdout import workers
from tests.ledger.servers import Server, kill_at_random, server_programs

psycopg = pytest.importorskip("psycopg")
if server_programs() is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

X, Y, scores = workers.X, workers.Y, workers.scores
ROLES = ("owner", "ann", "bob", "reader")
PAGE = (Path(__file__).parents[2] / "doc" / "guide" / "teams.md").read_text("utf-8")
#: The grants of the page, to these roles.
GRANTS = re.search(r"```sql\n(.*?)```", PAGE, re.DOTALL)[1].replace("TO analyst", "TO ann, bob")


@pytest.fixture(scope="module")
def running():
    server = Server()
    with server.connect() as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN")
    yield server
    server.remove()


@pytest.fixture
def team(running, request):
    """Return the URLs of each role for one ledger, whose owner made it and granted the rights."""
    running.thaw()
    running.start()
    name = request.node.name
    database = running.database(name)
    with running.connect(name) as connection:
        connection.execute(f"ALTER DATABASE {database} OWNER TO owner")
        for role in ROLES:  # a trap: each role has a schema of its own, which comes first
            connection.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
    urls = {role: running.url(name, user=role) for role in ROLES}
    make(urls["owner"]).close()
    with running.connect(name, user="owner") as connection:
        connection.execute(GRANTS)
    return urls


def make(url, *, timeout=60.0, **options):
    expert = ExpertSettings(ledger_timeout=timeout)
    return ReusableHoldout(X, Y, ledger=url, expert=expert, **options)


def execute(running, request, user, statement):
    with running.connect(request.node.name, user=user) as connection:
        connection.execute(statement)


# -- one budget -----------------------------------------------------------------------------------


def test_roles_with_schemas_of_their_own_share_one_ledger(team):
    make(team["ann"]).answer([0.5], scores(1, 0), keys=["a"])
    make(team["bob"]).answer([0.5], scores(1, 1), keys=["b"])
    for role in ROLES:
        assert [record.key for record in make(team[role]).history()] == ["a", "b"]


def test_a_second_ledger_of_the_same_records_is_rejected_with_the_name_of_the_first(
    running, team, request
):
    name = request.node.name
    for parameters in ({}, {"schema": "ann"}):
        again = running.url("again", user="ann", database=name, **parameters)
        with refused(LedgerMismatchError, f"holdout={name}"):
            make(again)
    other = ReusableHoldout(
        X + 1.0, Y, ledger=running.url("other records", user="ann", database=name)
    )
    assert other.answer([0.5], scores(1, 0)).answered.all()


def test_two_roles_that_make_one_ledger_at_once_get_one(running, team, request):
    name = request.node.name
    urls = [running.url("new", user=role, database=name) for role in ("ann", "bob")]
    holdouts = []

    def open_it(url):
        holdouts.append(ReusableHoldout(X + 2.0, Y, ledger=url))

    threads = [threading.Thread(target=open_it, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    holdouts[0].answer([0.5], scores(1, 0))
    assert len(holdouts[1].history()) == 1


# -- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["ann", "reader"])
@pytest.mark.parametrize("statement", [
    "UPDATE sklearn_bdp.sklearn_bdp_ledger SET number = 0",
    "UPDATE sklearn_bdp.sklearn_bdp_ledger SET moved_to = 'x'",
    "DELETE FROM sklearn_bdp.sklearn_bdp_ledger",
    "INSERT INTO sklearn_bdp.sklearn_bdp_log VALUES ('a', 1, 'note', '', '', '', '', '')",
    "DELETE FROM sklearn_bdp.sklearn_bdp_log",
    "TRUNCATE sklearn_bdp.sklearn_bdp_log",
    "DROP TABLE sklearn_bdp.sklearn_bdp_log",
])  # fmt: skip
def test_no_role_can_change_or_remove_what_is_recorded(running, team, request, role, statement):
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
        execute(running, request, role, statement)
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
        execute(running, request, role, f"SET sklearn_bdp.delete = 'a'; {statement}")
    assert make(team["bob"]).answer([0.5], scores(1, 0)).answered.all()


def test_entries_that_do_not_follow_are_rejected_by_the_function(running, team, request):
    """An analyst cannot append an entry that stops the holdout for all users."""
    holdout = make(team["ann"])
    holdout.answer([0.5], scores(1, 0))
    call = "SELECT sklearn_bdp.sklearn_bdp_append(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    name = request.node.name
    with running.connect(name, user="ann") as connection:
        head = connection.execute(
            "SELECT number, digest FROM sklearn_bdp.sklearn_bdp_ledgers"
        ).fetchone()
        entry = connection.execute(
            "SELECT kind, content, answers, sealed, commitment, digest "
            "FROM sklearn_bdp.sklearn_bdp_log"
        ).fetchone()
        kind, content, answers, sealed, commitment, digest = entry
        for wrong in (
            (head[0] + 1, *entry),  # another link
            (head[0] + 2, *entry),
            (head[0] + 1, "junk", *entry[1:]),
            (head[0] + 1, kind, "{}", answers, sealed, commitment, digest),
            (head[0] + 1, kind, "not JSON", answers, sealed, commitment, digest),
            (head[0] + 1, kind, content, answers, "noise", commitment, digest),
            (None, *entry),
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(call, (name, *head, *wrong))
        moved = connection.execute(call, (name, 7, head[1], 8, *entry)).fetchone()[0]
        assert moved is False
    assert make(team["bob"]).answer([0.5], scores(1, 1)).answered.all()


def test_a_reader_reads(team):
    make(team["ann"]).answer([0.5], scores(1, 0), keys=["a"])
    holdout = make(team["reader"])
    assert [record.key for record in holdout.history()] == ["a"]
    assert holdout.certificate().tau > 0.0


def test_a_reader_cannot_query(team):
    holdout = make(team["reader"])
    with refused(LedgerUnavailableError, "reader"):
        holdout.answer([0.5], scores(1, 1))
    with refused(LedgerUnavailableError, "reader"):
        holdout.add_note("mine", 1)
    assert len(make(team["bob"]).history()) == 0


@pytest.mark.parametrize("relation", ["sklearn_bdp_log", "sklearn_bdp_ledger"])
def test_a_reader_cannot_see_the_tables(running, team, request, relation):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(running, request, "reader", f"SELECT * FROM sklearn_bdp.{relation}")


def test_a_reader_does_not_see_the_noise(running, team, request):
    make(team["ann"]).answer([0.5], scores(1, 0))
    with running.connect(request.node.name, user="reader") as connection:
        sealed = connection.execute("SELECT sealed FROM sklearn_bdp.sklearn_bdp_entries")
        assert sealed.fetchall() == [(None,)]


def test_whoever_reads_only_the_views_cannot_query_with_new_noise(running, team, request):
    """Rights to append without rights to the noise in use: noise drawn anew would leak more."""
    make(team["ann"]).answer([0.5], scores(1, 0))
    execute(running, request, "owner",
            "GRANT EXECUTE ON FUNCTION sklearn_bdp.sklearn_bdp_lock, "
            "sklearn_bdp.sklearn_bdp_append TO reader")  # fmt: skip
    with refused(LedgerUnavailableError, "sealed"):
        make(team["reader"]).answer([0.5], scores(1, 1))
    assert len(make(team["bob"]).history()) == 1


def test_a_role_without_rights_is_named(running, team, request):
    execute(running, request, "owner", "REVOKE USAGE ON SCHEMA sklearn_bdp FROM bob")
    with refused(LedgerUnavailableError, "sklearn_bdp", "bob"):
        make(team["bob"])


# -- waiting --------------------------------------------------------------------------------------


def test_a_frozen_colleague_is_named_in_time(team, server, tmp_path):
    """A process that was stopped inside a transaction, as a suspended notebook is."""
    held = tmp_path / "held"
    colleague = server.Process(target=workers.hold_writing, args=(team["ann"], held))
    colleague.start()
    try:
        while not held.exists():
            time.sleep(0.01)
        os.kill(colleague.pid, signal.SIGSTOP)
        holdout = make(team["bob"], timeout=1.0)
        start = time.monotonic()
        with refused(LedgerBusyError, "'ann'", "UTC") as caught:
            holdout.answer([0.5], scores(1, 0))
        assert time.monotonic() - start < 3.0
        assert isinstance(caught.value, LedgerUnavailableError)
        assert host_name()[:20] in str(caught.value)
        # The server ends the frozen transaction, so that the team goes on.
        patient = make(team["bob"], timeout=30.0)
        assert patient.answer([0.5], scores(1, 0)).answered.all()
    finally:
        os.kill(colleague.pid, signal.SIGKILL)
        colleague.join()
    assert len(make(team["bob"]).history()) == 1


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
def test_a_server_that_does_not_reply_is_an_error_in_time(running, team, is_open):
    holdout = make(team["ann"], timeout=1.0)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    if not is_open:
        holdout.close()
    running.freeze()
    try:
        start = time.monotonic()
        with pytest.raises(LedgerUnavailableError):
            holdout.answer([0.5], scores(1, 1), keys=["b"])
        assert time.monotonic() - start < 8.0
    finally:
        running.thaw()
    assert holdout.answer([0.5], scores(1, 1), keys=["b"]).answered.all()
    assert [record.key for record in make(team["bob"]).history()] == ["a", "b"]


def test_a_server_that_freezes_inside_a_transaction_releases_nothing(running, team):
    holdout = make(team["ann"], timeout=1.0)
    with contextlib.suppress(LedgerError), holdout.account.writing() as book:
        running.freeze()
        try:
            start = time.monotonic()
            with pytest.raises(LedgerUnavailableError):
                book.note("mine", 1)
            assert time.monotonic() - start < 12.0
        finally:
            running.thaw()
    assert make(team["bob"]).answer([0.5], scores(1, 0)).answered.all()


def test_all_holdouts_of_a_process_share_one_connection(running, team, request):
    holdouts = [make(team["ann"]) for _ in range(5)]
    for seed, holdout in enumerate(holdouts):
        holdout.answer([0.5], scores(1, seed))
    count = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND usename = 'ann'"
    )
    with running.connect(request.node.name) as connection:
        assert connection.execute(count).fetchone()[0] == 1
        with holdouts[0]:
            pass
        for _ in range(100):  # the server ends its side a moment later
            if connection.execute(count).fetchone()[0] == 0:
                break
            time.sleep(0.05)
        assert connection.execute(count).fetchone()[0] == 0
    assert len(holdouts[1].history()) == 5


# -- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_received_answers_survive_kill_9_of_two_analysts(team, server, tmp_path, kills):
    received = {}
    for number, role in enumerate(["ann", "bob"] * (kills // 2)):
        received |= kill_at_random(server, team[role], tmp_path, kills=1, seed=number, first=number)
    history = make(team["reader"]).history()
    recorded = {record.key: (record.value, record.lower, record.upper) for record in history}
    assert received
    assert not {key for key, numbers in received.items() if recorded.get(key) != numbers}


def test_of_two_reports_at_once_one_closes_the_holdout(team, server):
    with server.Pool(2) as pool:
        outcomes = pool.starmap(workers.report_once, [(team["ann"], 1), (team["bob"], 2)])
    # The other one comes after the closing, or between the beginning of a report and its end,
    # which makes the first attempt fail (theory G35).
    assert sorted(outcomes)[1] == "reported"
    assert sorted(outcomes)[0] in ("HoldoutClosedError", "LedgerBusyError")
    with pytest.raises(HoldoutClosedError):
        make(team["ann"]).answer([0.5], scores(1, 1))
    assert sum(record.metric is not None for record in make(team["bob"]).history()) == 1


def test_a_restored_backup_is_noticed_by_each_analyst_who_saw_more(running, team, request):
    name = request.node.name
    ann, bob = make(team["ann"]), make(team["bob"])
    ann.answer([0.5], scores(1, 0))
    backup = running.dump(name)
    ann.answer([0.5], scores(1, 1))
    assert len(bob.history()) == 2
    running.restore(name, backup)
    for holdout in (ann, bob):
        with pytest.raises(LedgerCorruptedError):
            holdout.answer([0.5], scores(1, 2))
