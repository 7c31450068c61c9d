"""PostgreSQL behind the ledger: the same chain and order, and whatever a server does to it."""

import copy
import pickle
import random
import sys
import threading
import time
import traceback
from urllib.parse import urlencode

import pytest

from sklearn_bdp import HoldoutConfig
from sklearn_bdp.exceptions import (
    LedgerBusyError,
    LedgerCorruptedError,
    LedgerMismatchError,
    LedgerUnavailableError,
)
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.ledger import read_notes
from tests.facts import refused
from tests.holdout import workers
from tests.holdout.workers import X, Y, scores
from tests.ledger.servers import Server, kill_at_random, server_programs

psycopg = pytest.importorskip("psycopg")
if server_programs() is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def postgresql():
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def url(postgresql, request):
    """Return the URL of a ledger of this test's own."""
    postgresql.start()
    return postgresql.url(request.node.name)


def make(url, **options):
    return ReusableHoldout(X, Y, ledger=url, **options)


def url_in_same_database(url, name):
    """Return the URL of another ledger in the same database."""
    return f"{url.partition('?')[0]}?{urlencode({'holdout': name})}"


def read_notes_at(url):
    return read_notes(url, "split")


# -- as with a file -------------------------------------------------------------------------------


def test_a_reopened_holdout_continues_its_history(url):
    holdout = make(url)
    answers = holdout.answer([0.1, 0.5], scores(2, 0), keys=["a", "b"])
    reopened = make(url)
    assert reopened.history() == holdout.history()
    repeated = reopened.answer([0.1, 0.5], scores(2, 9), keys=["a", "b"])
    assert (repeated.values == answers.values).all()
    spent = reopened.information_spent
    reopened.answer([0.9], scores(1, 1))
    assert holdout.information_spent > spent
    assert len(holdout.history()) == 3
    with pytest.raises(LedgerMismatchError):
        ReusableHoldout(X, 1 - Y, ledger=url)


def test_answers_are_those_of_a_file(url, path):
    options = {"random_state": 3, "expert": ExpertSettings(resolution=1e-6, threshold=1e-6)}
    for number in range(5):
        query = [number % 2, 0.5], scores(2, number)
        values = [make(location, **options).answer(*query).values for location in (path, url)]
        assert (values[0] == values[1]).all()


def test_holdouts_of_one_database_are_independent(postgresql, url):
    make(url).answer([0.5], scores(1, 0), keys=["a"])
    other_holdout = ReusableHoldout(X + 1.0, Y, ledger=url_in_same_database(url, "another"))
    assert len(other_holdout.history()) == 0
    assert read_notes(url_in_same_database(url, "never made"), "split") == []
    assert read_notes(url, "split") == []


def test_notes_are_in_the_same_chain(url):
    holdout = make(url, notes={"source": "clinic A"})
    holdout.add_note("source", {"ward": 3})
    assert read_notes(url, "source") == ["clinic A", {"ward": 3}]


def test_an_analyst_of_another_holdout_does_not_wait(postgresql, url):
    holdout = make(url, expert=ExpertSettings(ledger_timeout=0.3))
    other_holdout = ReusableHoldout(X + 1.0, Y, ledger=url_in_same_database(url, "another one"))
    with make(url).account.write_transaction():
        assert other_holdout.answer([0.5], scores(1, 0)).answered.all()
        with pytest.raises(LedgerBusyError):
            holdout.answer([0.5], scores(1, 0))
    assert holdout.answer([0.5], scores(1, 0)).answered.all()


def test_a_pickle_reconnects_and_detects_a_restored_backup(postgresql, url, server):
    holdout = make(url)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    database = holdout.ledger.holdout
    backup = postgresql.dump(database)
    pickled_before = pickle.dumps(holdout)
    with server.Pool(1) as pool:
        assert pool.apply(workers.revive, (pickled_before,))["history"] == 1
    holdout.answer([0.5], scores(1, 1), keys=["b"])
    pickled_after = pickle.dumps(holdout)
    postgresql.restore(database, backup)
    with refused(LedgerCorruptedError):
        holdout.answer([0.5], scores(1, 2))
    with server.Pool(1) as pool:
        assert pool.apply(workers.revive, (pickled_after,))["error"] == "LedgerCorruptedError"
    assert len(make(url).history()) == 1  # a stranger sees nothing: documented


# -- actions of a server --------------------------------------------------------------------------


@pytest.mark.parametrize("statement", [
    "UPDATE sklearn_bdp_log SET answers = '[]'", "DELETE FROM sklearn_bdp_log",
    "TRUNCATE sklearn_bdp_log CASCADE", "UPDATE sklearn_bdp_ledger SET header = ''",
    "DELETE FROM sklearn_bdp_ledger",
])  # fmt: skip
def test_ordinary_edits_are_rejected_by_the_database(postgresql, url, statement):
    holdout = make(url)
    holdout.answer([0.5], scores(1, 0))
    database = holdout.ledger.holdout
    with postgresql.connect(database) as connection:
        connection.execute("SET search_path = sklearn_bdp")
        with pytest.raises(psycopg.errors.RaiseException):
            connection.execute(statement)


@pytest.mark.parametrize("statement", [
    "UPDATE sklearn_bdp_log SET answers = replace(answers, '0.5', '0.6') WHERE holdout = %s",
    "UPDATE sklearn_bdp_log SET sealed = '{}' WHERE holdout = %s",
    "DELETE FROM sklearn_bdp_log WHERE holdout = %s AND number = 2",
    "UPDATE sklearn_bdp_ledger SET number = 1 WHERE holdout = %s",
    "UPDATE sklearn_bdp_ledger SET header = replace(header, '0.05', '0.15') WHERE holdout = %s",
])  # fmt: skip
def test_an_edited_ledger_answers_nothing(postgresql, url, statement):
    holdout = make(url)
    for number in range(2):
        holdout.answer([0.5], scores(1, number))
    with postgresql.connect(holdout.ledger.holdout) as connection:
        connection.execute("SET search_path = sklearn_bdp")
        connection.execute("SET session_replication_role = replica")  # triggers sleep
        assert connection.execute(statement, (holdout.ledger.holdout,)).rowcount > 0
    with pytest.raises(LedgerCorruptedError):
        make(url)


def test_a_server_that_restarted_between_two_answers_is_found_again(postgresql, url):
    holdout = make(url)
    holdout.answer([0.5], scores(1, 0))
    postgresql.stop()
    with pytest.raises(LedgerUnavailableError):
        holdout.answer([0.5], scores(1, 1))
    postgresql.start()
    assert holdout.answer([0.5], scores(1, 1)).answered.all()
    assert len(make(url).history()) == 2


def test_a_server_that_is_killed_inside_a_transaction_releases_nothing(postgresql, url):
    holdout = make(url)
    with holdout.account.write_transaction() as transaction:
        postgresql.kill()
        with pytest.raises(LedgerUnavailableError):
            transaction.note("mine", 1)
    postgresql.start()
    assert make(url).notes("mine") == []
    assert holdout.answer([0.5], scores(1, 1)).answered.all()


class LossyConnection:
    """A connection whose acknowledgement of a commit gets lost, before or after it was done."""

    def __init__(self, connection, is_committed):
        self.connection = connection
        self.done = is_committed

    def execute(self, statement, *values):
        if statement == "COMMIT":
            if self.done:
                self.connection.execute(statement)
            self.connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return self.connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_lost_acknowledgement_is_looked_for_at_the_head(url, monkeypatch, is_committed):
    holdout = make(url)
    connect = psycopg.connect
    make(url).answer([0.5], scores(1, 5))  # the head moves meanwhile, too
    pending_losses = [True]

    def lossy(*args, **options):
        connection = connect(*args, **options)
        return (
            LossyConnection(connection, is_committed)
            if pending_losses and pending_losses.pop()
            else connection
        )

    monkeypatch.setattr(psycopg, "connect", lossy)
    holdout.close()  # else its connection is used
    reconnected = make(url)
    if is_committed:
        assert reconnected.answer([0.5], scores(1, 1), keys=["a"]).answered.all()
    else:
        with refused(LedgerUnavailableError):
            reconnected.answer([0.5], scores(1, 1), keys=["a"])
    assert len(holdout.find_answers(["a"])) == is_committed
    reconnected.answer([0.5], scores(1, 1), keys=["a"])
    assert len(holdout.history()) == 2


def test_permission_denied_is_one_clear_error(postgresql, url):
    make(url).answer([0.5], scores(1, 0))
    with postgresql.connect() as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    with refused(LedgerUnavailableError, "stranger"):
        make(url.replace("postgres@", "stranger@"))


@pytest.mark.parametrize("invalid_url", [
    "postgresql://u@h/d", "postgresql://u@h/d?holdout=", "postgresql://u@h/d?holdout=a&holdout=b",
])  # fmt: skip
def test_a_url_names_one_holdout(invalid_url):
    with refused(ValueError, "holdout=name"):
        HoldoutConfig(ledger=invalid_url)


@pytest.mark.parametrize(
    "password", ["se@cret/x", "se/cr@et", "se#cr@et", "se?cr@et", "sec:r/et@x"]
)
def test_a_password_with_reserved_characters_is_not_taken_for_a_host(password):
    with refused(ValueError, "PGPASSWORD") as caught:
        HoldoutConfig(ledger=f"postgresql://u:{password}@h/d?holdout=a")
    assert "cr" not in str(caught.value).replace("character", "")


@pytest.mark.parametrize("schema", ["a;b", "A", "1a", ""])
def test_a_schema_is_a_plain_name(schema):
    with refused(ValueError, "schema"):
        HoldoutConfig(ledger=f"postgresql://u@h/d?holdout=a&schema={schema}")


def test_a_missing_server_is_one_clear_error(tmp_path):
    with pytest.raises(LedgerUnavailableError):
        make(f"postgresql:///d?host={tmp_path}&holdout=a")


# -- the password ---------------------------------------------------------------------------------

SECRET = "xyzzy%20plugh"


def test_messages_pickles_and_representations_omit_the_password(postgresql, url, capsys):
    """Not in messages, pickles, representations, certificates, nor in errors."""
    with postgresql.connect() as connection:
        connection.execute("ALTER ROLE postgres PASSWORD 'xyzzy plugh'")
    url_with_password = url.replace("postgres@", f"postgres:{SECRET}@") + f"&password={SECRET}"
    config = HoldoutConfig(ledger=url_with_password)
    holdout = ReusableHoldout(X, Y, ledger=url_with_password)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    dead = url.replace(f":{postgresql.port}/", ":1/")
    with pytest.raises(LedgerUnavailableError) as caught:
        make(dead.replace("postgres@", f"postgres:{SECRET}@"))
    texts = [repr(config), repr(holdout), holdout._repr_html_(), str(holdout.certificate()),
             holdout.certificate()._repr_html_(), str(caught.value), str(holdout.ledger),
             repr(copy.deepcopy(config)), repr(vars(caught.value))]  # fmt: skip
    packs = [pickle.dumps(value) for value in (config, holdout, caught.value)]
    for text in (*texts, *map(repr, packs)):
        assert "xyzzy" not in text
        assert "plugh" not in text
    config_copy = copy.deepcopy(config)  # in this process the connection keeps it
    assert config_copy.ledger.connection_url == config.ledger.connection_url
    assert SECRET in config_copy.ledger.connection_url.replace("+", "%20")
    assert pickle.loads(packs[0]) == config


def error_texts(error):
    """Yield an error, its causes, and the local variables of their frames outside this file."""
    pending = [error]
    visited_ids = set()
    while pending:
        failure = pending.pop()
        if failure is None or id(failure) in visited_ids:
            continue
        visited_ids.add(id(failure))
        yield repr(failure)
        pending += [failure.__cause__, failure.__context__]
        for frame, _ in traceback.walk_tb(failure.__traceback__):
            if frame.f_code.co_filename != __file__:
                pending += [v for v in frame.f_locals.values() if isinstance(v, BaseException)]
                yield repr(frame.f_locals)


@pytest.mark.parametrize("suffix", ["", "&host=/nowhere", "&unknown=1", "&port=x"])
@pytest.mark.parametrize("open_ledger", [
    make, read_notes_at, lambda url: ReusableHoldout.from_targets(Y, ledger=url),
    lambda url: HoldoutConfig(ledger=url, confidence_level=7.0),
    lambda url: HoldoutConfig().set_params(ledger=url, confidence_level=7.0),
], ids=["class", "notes", "from_targets", "config", "set_params"])  # fmt: skip
def test_no_frame_of_an_error_holds_the_password(postgresql, suffix, open_ledger):
    postgresql.start()  # which knows no such user
    url_with_password = postgresql.url("sealed").replace("postgres@", f"nobody:{SECRET}@") + suffix
    with pytest.raises((LedgerUnavailableError, ValueError)) as caught:
        open_ledger(f"{url_with_password}&password={SECRET}")
    texts = list(error_texts(caught.value))
    assert len(texts) > 1
    assert not [text for text in texts if "xyzzy" in text or "plugh" in text]


# -- many at once ---------------------------------------------------------------------------------


def run_workers(server, url, *, processes, batches):
    make(url)
    with server.Pool(processes) as pool:
        jobs = [(url, number, batches, 3, True) for number in range(processes)]
        pool.starmap(workers.query_many, jobs)
    history = make(url).history()
    keys = [record.key for record in history]
    assert len(keys) == len(set(keys)) == processes * batches * 2 + batches
    assert [key for key in keys if key.startswith("shared")].count("shared/0") == 1
    assert history[-1].batch == processes * batches


def test_two_processes_share_one_budget_and_charge_one_query_once(server, url):
    run_workers(server, url, processes=2, batches=8)


@pytest.mark.slow
def test_eight_processes_with_five_hundred_batches(server, url):
    run_workers(server, url, processes=8, batches=500)


def test_two_analysts_with_one_key_get_one_answer(url):
    values = []

    def ask(seed):
        values.append(make(url).answer([0.0], scores(1, seed), keys=["one"]).values[0])

    make(url)
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values[0] == values[1]
    assert len(make(url).history()) == 1


def check_survival(url, answers):
    history = make(url).history()
    recorded = {record.key: (record.value, record.lower, record.upper) for record in history}
    assert len(recorded) == len(history) == 3 * history[-1].batch
    assert not {key for key, numbers in answers.items() if recorded.get(key) != numbers}
    n_answers = len(history)
    make(url).answer([0.5], scores(1, 6))
    assert len(make(url).history()) == n_answers + 1


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_received_answers_survive_kill_9_of_clients(server, url, tmp_path, kills):
    answers = kill_at_random(server, url, tmp_path, kills=kills, seed=1)
    assert answers
    check_survival(url, answers)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_received_answers_survive_kill_9_of_the_server(postgresql, server, url, tmp_path, kills):
    rng = random.Random(kills)
    answers = {}
    for number in range(kills):
        answers |= kill_at_random(
            server, url, tmp_path, kills=1, seed=number, first_victim=number,
            kill_victim=lambda victim: (postgresql.kill(), victim.join(60)),
        )  # fmt: skip
        postgresql.start()
        time.sleep(rng.random() / 10)
    assert answers
    check_survival(url, answers)


# -- the command line -----------------------------------------------------------------------------


def test_a_ledger_is_copied_to_the_server_and_back(url, path, tmp_path, command_line, capsys):
    holdout = make(path)
    for number in range(3):
        holdout.answer([0.1, 0.9], scores(2, number), keys=[f"a{number}", None])
    copied_path = tmp_path / "back.sqlite"
    assert command_line("ledger", "copy", path, url) == 0
    assert command_line("ledger", "copy", url, copied_path) == 0
    assert "use one of the two" in capsys.readouterr().out.lower()
    assert make(url).history() == make(copied_path).history() == holdout.history()
    exports = []
    for location in (path, url, copied_path):
        assert command_line("ledger", "verify", location) == 0
        assert command_line("ledger", "show", location) == 0
        capsys.readouterr()
        assert command_line("ledger", "export", location) == 0
        exports.append(capsys.readouterr().out)
    assert exports[0] == exports[1] == exports[2]
    make(url).answer([0.5], scores(1, 8))
    assert command_line("ledger", "copy", path, url) == 1  # nothing is overwritten
    assert "already" in capsys.readouterr().err
    assert command_line("ledger", "copy", tmp_path / "none", copied_path) == 1


def test_the_command_line_shows_no_password(url, command_line, capsys):
    make(url)
    url_with_password = url.replace("postgres@", f"postgres:{SECRET}@")
    assert command_line("ledger", "verify", url_with_password) == 0
    assert (
        command_line("ledger", "verify", url_with_password.replace("holdout=", "holdout=no")) == 1
    )
    output = capsys.readouterr()
    assert SECRET not in output.out + output.err


@pytest.mark.parametrize("arguments", [
    ["show", "postgresql://u:secret@h/d"], ["show", "postgresql://u:s/secret@h/d?holdout=a"],
    ["show", "postgresql://u:secret@h/d?holdout=a", "postgresql://u:secret@h/d"],
    ["shw", "postgresql://u:secret@h/d"], ["show", "mysql://u:secret@h/d?holdout=a"],
    ["show", "postgresql://u@h/d?password=secret"], ["show", "postgresql://u:secret@h:x/d?holdout=a"],
    ["show", "--last", "postgresql://u:secret@h/d", "x"],
])  # fmt: skip
def test_no_error_of_the_command_line_shows_a_password(arguments, command_line, capsys):
    assert command_line("ledger", *arguments) in (1, 2)
    output = capsys.readouterr()
    assert "secret" not in output.out + output.err
    assert output.err


def test_without_psycopg_the_extra_is_named(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refused(LedgerUnavailableError, "sklearn-bdp[postgres]"):
        make(url)
