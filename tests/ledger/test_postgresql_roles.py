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
from tests.holdout.workers import X, Y, scores
from tests.ledger.servers import Server, kill_at_random, server_programs

#: Without a timeout of its own, the ledger would wait for ever.
MUST_END = pytest.mark.timeout(300, func_only=True)

psycopg = pytest.importorskip("psycopg")
if server_programs() is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

ROLES = ("owner", "ann", "bob", "reader")
PAGE = (Path(__file__).parents[2] / "doc" / "guide" / "teams.md").read_text("utf-8")
#: The grants of the page, to these roles.
GRANTS = re.search(r"```sql\n(.*?)```", PAGE, re.DOTALL)[1].replace("TO analyst", "TO ann, bob")


@pytest.fixture(scope="module")
def postgresql():
    server = Server()
    with server.connect() as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN")
    yield server
    server.remove()


@pytest.fixture
def urls_by_role(postgresql, request):
    """Return the URLs of each role for one ledger, whose owner made it and granted the rights."""
    postgresql.thaw()
    postgresql.start()
    name = request.node.name
    database = postgresql.database(name)
    with postgresql.connect(name) as connection:
        connection.execute(f"ALTER DATABASE {database} OWNER TO owner")
        for role in ROLES:  # a trap: each role has a schema of its own, which comes first
            connection.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
    urls = {role: postgresql.url(name, user=role) for role in ROLES}
    make(urls["owner"]).close()
    with postgresql.connect(name, user="owner") as connection:
        connection.execute(GRANTS)
    return urls


def make(url, *, timeout=60.0, **options):
    expert = ExpertSettings(ledger_timeout=timeout)
    return ReusableHoldout(X, Y, ledger=url, expert=expert, **options)


def execute(postgresql, request, user, statement):
    with postgresql.connect(request.node.name, user=user) as connection:
        connection.execute(statement)


# -- one budget -----------------------------------------------------------------------------------


def test_roles_with_schemas_of_their_own_share_one_ledger(urls_by_role):
    make(urls_by_role["ann"]).answer([0.5], scores(1, 0), keys=["a"])
    make(urls_by_role["bob"]).answer([0.5], scores(1, 1), keys=["b"])
    for role in ROLES:
        assert [record.key for record in make(urls_by_role[role]).history()] == ["a", "b"]


def test_a_second_ledger_of_the_same_records_is_rejected_with_the_name_of_the_first(
    postgresql, urls_by_role, request
):
    name = request.node.name
    for parameters in ({}, {"schema": "ann"}):
        second_url = postgresql.url("again", user="ann", database=name, **parameters)
        with refused(LedgerMismatchError, f"holdout={name}"):
            make(second_url)
    other_holdout = ReusableHoldout(
        X + 1.0, Y, ledger=postgresql.url("other records", user="ann", database=name)
    )
    assert other_holdout.answer([0.5], scores(1, 0)).answered.all()


def test_two_roles_that_make_one_ledger_at_once_get_one(postgresql, urls_by_role, request):
    name = request.node.name
    urls = [postgresql.url("new", user=role, database=name) for role in ("ann", "bob")]
    holdouts = []

    def open_holdout(url):
        holdouts.append(ReusableHoldout(X + 2.0, Y, ledger=url))

    threads = [threading.Thread(target=open_holdout, args=(url,)) for url in urls]
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
def test_no_role_can_change_or_remove_entries(postgresql, urls_by_role, request, role, statement):
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
        execute(postgresql, request, role, statement)
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
        execute(postgresql, request, role, f"SET sklearn_bdp.delete = 'a'; {statement}")
    assert make(urls_by_role["bob"]).answer([0.5], scores(1, 0)).answered.all()


def test_entries_that_do_not_follow_are_rejected_by_the_function(postgresql, urls_by_role, request):
    """An analyst cannot append an entry that stops the holdout for all users."""
    holdout = make(urls_by_role["ann"])
    holdout.answer([0.5], scores(1, 0))
    append_statement = (
        "SELECT sklearn_bdp.sklearn_bdp_append(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    )
    name = request.node.name
    with postgresql.connect(name, user="ann") as connection:
        head = connection.execute(
            "SELECT number, digest FROM sklearn_bdp.sklearn_bdp_ledgers"
        ).fetchone()
        entry = connection.execute(
            "SELECT kind, content, answers, sealed, commitment, digest "
            "FROM sklearn_bdp.sklearn_bdp_log"
        ).fetchone()
        kind, content, answers, sealed, commitment, digest = entry
        for invalid_entry in (
            (head[0] + 1, *entry),  # another link
            (head[0] + 2, *entry),
            (head[0] + 1, "junk", *entry[1:]),
            (head[0] + 1, kind, "{}", answers, sealed, commitment, digest),
            (head[0] + 1, kind, "not JSON", answers, sealed, commitment, digest),
            (head[0] + 1, kind, content, answers, "noise", commitment, digest),
            (None, *entry),
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(append_statement, (name, *head, *invalid_entry))
        is_appended = connection.execute(
            append_statement, (name, 7, head[1], 8, *entry)
        ).fetchone()[0]
        assert is_appended is False
    assert make(urls_by_role["bob"]).answer([0.5], scores(1, 1)).answered.all()


def test_a_reader_reads(urls_by_role):
    make(urls_by_role["ann"]).answer([0.5], scores(1, 0), keys=["a"])
    holdout = make(urls_by_role["reader"])
    assert [record.key for record in holdout.history()] == ["a"]
    assert holdout.certificate().half_width > 0.0


def test_a_reader_cannot_query(urls_by_role):
    holdout = make(urls_by_role["reader"])
    with refused(LedgerUnavailableError, "reader"):
        holdout.answer([0.5], scores(1, 1))
    with refused(LedgerUnavailableError, "reader"):
        holdout.add_note("mine", 1)
    assert len(make(urls_by_role["bob"]).history()) == 0


@pytest.mark.parametrize("relation", ["sklearn_bdp_log", "sklearn_bdp_ledger"])
def test_a_reader_cannot_see_the_tables(postgresql, urls_by_role, request, relation):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(postgresql, request, "reader", f"SELECT * FROM sklearn_bdp.{relation}")


def test_a_reader_does_not_see_the_noise(postgresql, urls_by_role, request):
    make(urls_by_role["ann"]).answer([0.5], scores(1, 0))
    with postgresql.connect(request.node.name, user="reader") as connection:
        sealed = connection.execute("SELECT sealed FROM sklearn_bdp.sklearn_bdp_entries")
        assert sealed.fetchall() == [(None,)]


def test_readers_of_the_views_cannot_query_with_new_noise(postgresql, urls_by_role, request):
    """Rights to append without rights to the noise in use: noise drawn anew would leak more."""
    make(urls_by_role["ann"]).answer([0.5], scores(1, 0))
    execute(postgresql, request, "owner",
            "GRANT EXECUTE ON FUNCTION sklearn_bdp.sklearn_bdp_lock, "
            "sklearn_bdp.sklearn_bdp_append TO reader")  # fmt: skip
    with refused(LedgerUnavailableError, "sealed"):
        make(urls_by_role["reader"]).answer([0.5], scores(1, 1))
    assert len(make(urls_by_role["bob"]).history()) == 1


def test_a_role_without_rights_is_named(postgresql, urls_by_role, request):
    execute(postgresql, request, "owner", "REVOKE USAGE ON SCHEMA sklearn_bdp FROM bob")
    with refused(LedgerUnavailableError, "sklearn_bdp", "bob"):
        make(urls_by_role["bob"])


# -- waiting --------------------------------------------------------------------------------------


@MUST_END
def test_a_frozen_process_is_named_after_the_timeout(urls_by_role, server, tmp_path):
    """A process that was stopped inside a transaction, as a suspended notebook is."""
    lock_file = tmp_path / "held"
    frozen_process = server.Process(
        target=workers.hold_writing, args=(urls_by_role["ann"], lock_file)
    )
    frozen_process.start()
    try:
        while not lock_file.exists():
            time.sleep(0.01)
        os.kill(frozen_process.pid, signal.SIGSTOP)
        holdout = make(urls_by_role["bob"], timeout=1.0)
        with refused(LedgerBusyError, "'ann'", "UTC", "(1 s)") as caught:
            holdout.answer([0.5], scores(1, 0))
        assert isinstance(caught.value, LedgerUnavailableError)
        assert host_name()[:20] in str(caught.value)
        # The server ends the frozen transaction, so that the team goes on.
        waiting_holdout = make(urls_by_role["bob"], timeout=30.0)
        assert waiting_holdout.answer([0.5], scores(1, 0)).answered.all()
    finally:
        os.kill(frozen_process.pid, signal.SIGKILL)
        frozen_process.join()
    assert len(make(urls_by_role["bob"]).history()) == 1


@MUST_END
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
def test_a_server_that_does_not_reply_is_an_error_after_the_timeout(
    postgresql, urls_by_role, is_open
):
    holdout = make(urls_by_role["ann"], timeout=1.0)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    if not is_open:
        holdout.close()
    postgresql.freeze()
    try:
        with pytest.raises(LedgerUnavailableError):
            holdout.answer([0.5], scores(1, 1), keys=["b"])
    finally:
        postgresql.thaw()
    assert holdout.answer([0.5], scores(1, 1), keys=["b"]).answered.all()
    assert [record.key for record in make(urls_by_role["bob"]).history()] == ["a", "b"]


@MUST_END
def test_a_server_that_freezes_inside_a_transaction_releases_nothing(postgresql, urls_by_role):
    holdout = make(urls_by_role["ann"], timeout=1.0)
    with contextlib.suppress(LedgerError), holdout.account.write_transaction() as transaction:
        postgresql.freeze()
        try:
            with pytest.raises(LedgerUnavailableError):
                transaction.note("mine", 1)
        finally:
            postgresql.thaw()
    assert make(urls_by_role["bob"]).answer([0.5], scores(1, 0)).answered.all()


def test_all_holdouts_of_a_process_share_one_connection(postgresql, urls_by_role, request):
    holdouts = [make(urls_by_role["ann"]) for _ in range(5)]
    for seed, holdout in enumerate(holdouts):
        holdout.answer([0.5], scores(1, seed))
    count = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND usename = 'ann'"
    )
    with postgresql.connect(request.node.name) as connection:
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
def test_received_answers_survive_kill_9_of_two_analysts(urls_by_role, server, tmp_path, kills):
    received = {}
    for number, role in enumerate(["ann", "bob"] * (kills // 2)):
        received |= kill_at_random(
            server, urls_by_role[role], tmp_path, kills=1, seed=number, first_victim=number
        )
    history = make(urls_by_role["reader"]).history()
    recorded = {record.key: (record.value, record.lower, record.upper) for record in history}
    assert received
    assert not {key for key, numbers in received.items() if recorded.get(key) != numbers}


def test_of_two_reports_at_once_one_closes_the_holdout(urls_by_role, server):
    with server.Pool(2) as pool:
        outcomes = pool.starmap(
            workers.report_once, [(urls_by_role["ann"], 1), (urls_by_role["bob"], 2)]
        )
    # The other one comes after the closing, or between the beginning of a report and its end,
    # which makes the first attempt fail (theory G35).
    assert sorted(outcomes)[1] == "reported"
    assert sorted(outcomes)[0] in ("HoldoutClosedError", "LedgerBusyError")
    with pytest.raises(HoldoutClosedError):
        make(urls_by_role["ann"]).answer([0.5], scores(1, 1))
    assert sum(record.metric is not None for record in make(urls_by_role["bob"]).history()) == 1


def test_open_holdouts_detect_a_restored_backup(postgresql, urls_by_role, request):
    name = request.node.name
    ann = make(urls_by_role["ann"])
    bob = make(urls_by_role["bob"])
    ann.answer([0.5], scores(1, 0))
    backup = postgresql.dump(name)
    ann.answer([0.5], scores(1, 1))
    assert len(bob.history()) == 2
    postgresql.restore(name, backup)
    for holdout in (ann, bob):
        with pytest.raises(LedgerCorruptedError):
            holdout.answer([0.5], scores(1, 2))
