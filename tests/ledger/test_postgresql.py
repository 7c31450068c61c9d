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
from tests.ledger.servers import Server, kill_at_random, server_programs

psycopg = pytest.importorskip("psycopg")
if server_programs() is None:
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

X, Y, scores = workers.X, workers.Y, workers.scores


@pytest.fixture(scope="module")
def running():
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def place(running, request):
    """Return the URL of a ledger of this test's own."""
    running.start()
    return running.url(request.node.name)


def make(place, **options):
    return ReusableHoldout(X, Y, ledger=place, **options)


def beside(place, name):
    """Return the URL of another ledger in the same database."""
    return f"{place.partition('?')[0]}?{urlencode({'holdout': name})}"


def read_notes_at(place):
    return read_notes(place, "split")


# -- as with a file -------------------------------------------------------------------------------


def test_a_reopened_holdout_goes_on_where_it_was(place):
    holdout = make(place)
    given = holdout.answer([0.1, 0.5], scores(2, 0), keys=["a", "b"])
    again = make(place)
    assert again.history() == holdout.history()
    known = again.answer([0.1, 0.5], scores(2, 9), keys=["a", "b"])
    assert (known.values == given.values).all()
    before = again.information_spent
    again.answer([0.9], scores(1, 1))
    assert holdout.information_spent > before
    assert len(holdout.history()) == 3
    with pytest.raises(LedgerMismatchError):
        ReusableHoldout(X, 1 - Y, ledger=place)


def test_answers_are_those_of_a_file(place, path):
    options = {"random_state": 3, "expert": ExpertSettings(resolution=1e-6, threshold=1e-6)}
    for number in range(5):
        asked = [number % 2, 0.5], scores(2, number)
        found = [make(where, **options).answer(*asked).values for where in (path, place)]
        assert (found[0] == found[1]).all()


def test_holdouts_of_one_database_know_nothing_of_one_another(running, place):
    make(place).answer([0.5], scores(1, 0), keys=["a"])
    other = ReusableHoldout(X + 1.0, Y, ledger=beside(place, "another"))
    assert len(other.history()) == 0
    assert read_notes(beside(place, "never made"), "split") == []
    assert read_notes(place, "split") == []


def test_notes_are_in_the_same_chain(place):
    holdout = make(place, notes={"source": "clinic A"})
    holdout.add_note("source", {"ward": 3})
    assert read_notes(place, "source") == ["clinic A", {"ward": 3}]


def test_an_analyst_of_another_holdout_does_not_wait(running, place):
    mine = make(place, expert=ExpertSettings(ledger_timeout=0.3))
    other = ReusableHoldout(X + 1.0, Y, ledger=beside(place, "another one"))
    with make(place).account.writing():
        assert other.answer([0.5], scores(1, 0)).answered.all()
        with pytest.raises(LedgerBusyError):
            mine.answer([0.5], scores(1, 0))
    assert mine.answer([0.5], scores(1, 0)).answered.all()


def test_a_pickle_opens_the_server_again_and_knows_a_restored_backup(running, place, server):
    holdout = make(place)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    database = holdout.ledger.holdout
    backup = running.dump(database)
    asleep = pickle.dumps(holdout)
    with server.Pool(1) as pool:
        assert pool.apply(workers.revive, (asleep,))["history"] == 1
    holdout.answer([0.5], scores(1, 1), keys=["b"])
    later = pickle.dumps(holdout)
    running.restore(database, backup)
    with refused(LedgerCorruptedError):
        holdout.answer([0.5], scores(1, 2))
    with server.Pool(1) as pool:
        assert pool.apply(workers.revive, (later,))["error"] == "LedgerCorruptedError"
    assert len(make(place).history()) == 1  # a stranger sees nothing: documented


# -- actions of a server --------------------------------------------------------------------------


@pytest.mark.parametrize("statement", [
    "UPDATE sklearn_bdp_log SET answers = '[]'", "DELETE FROM sklearn_bdp_log",
    "TRUNCATE sklearn_bdp_log CASCADE", "UPDATE sklearn_bdp_ledger SET header = ''",
    "DELETE FROM sklearn_bdp_ledger",
])  # fmt: skip
def test_ordinary_edits_are_refused_by_the_database(running, place, statement):
    holdout = make(place)
    holdout.answer([0.5], scores(1, 0))
    database = holdout.ledger.holdout
    with running.connect(database) as connection:
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
def test_an_edited_ledger_answers_nothing(running, place, statement):
    holdout = make(place)
    for number in range(2):
        holdout.answer([0.5], scores(1, number))
    with running.connect(holdout.ledger.holdout) as connection:
        connection.execute("SET search_path = sklearn_bdp")
        connection.execute("SET session_replication_role = replica")  # triggers sleep
        assert connection.execute(statement, (holdout.ledger.holdout,)).rowcount > 0
    with pytest.raises(LedgerCorruptedError):
        make(place)


def test_a_server_that_restarted_between_two_answers_is_found_again(running, place):
    holdout = make(place)
    holdout.answer([0.5], scores(1, 0))
    running.stop()
    with pytest.raises(LedgerUnavailableError):
        holdout.answer([0.5], scores(1, 1))
    running.start()
    assert holdout.answer([0.5], scores(1, 1)).answered.all()
    assert len(make(place).history()) == 2


def test_a_server_that_goes_away_in_the_middle_answers_nothing(running, place):
    holdout = make(place)
    with holdout.account.writing() as book:
        running.kill()
        with pytest.raises(LedgerUnavailableError):
            book.note("mine", 1)
    running.start()
    assert make(place).notes("mine") == []
    assert holdout.answer([0.5], scores(1, 1)).answered.all()


class Losing:
    """A connection whose acknowledgement of a commit gets lost, before or after it was done."""

    def __init__(self, connection, done):
        self.connection, self.done = connection, done

    def execute(self, statement, *values):
        if statement == "COMMIT":
            if self.done:
                self.connection.execute(statement)
            self.connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return self.connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_acknowledgement_is_looked_for_at_the_head(place, monkeypatch, done):
    holdout, connect = make(place), psycopg.connect
    make(place).answer([0.5], scores(1, 5))  # the head moves meanwhile, too
    losing = [True]

    def lossy(*args, **options):
        found = connect(*args, **options)
        return Losing(found, done) if losing and losing.pop() else found

    monkeypatch.setattr(psycopg, "connect", lossy)
    holdout.close()  # else its connection is used
    copied = make(place)
    if done:
        assert copied.answer([0.5], scores(1, 1), keys=["a"]).answered.all()
    else:
        with refused(LedgerUnavailableError):
            copied.answer([0.5], scores(1, 1), keys=["a"])
    assert len(holdout.find_answers(["a"])) == done
    copied.answer([0.5], scores(1, 1), keys=["a"])
    assert len(holdout.history()) == 2


def test_permission_denied_is_one_clear_error(running, place):
    make(place).answer([0.5], scores(1, 0))
    with running.connect() as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    with refused(LedgerUnavailableError, "stranger"):
        make(place.replace("postgres@", "stranger@"))


@pytest.mark.parametrize("wrong", [
    "postgresql://u@h/d", "postgresql://u@h/d?holdout=", "postgresql://u@h/d?holdout=a&holdout=b",
])  # fmt: skip
def test_a_url_names_one_holdout(wrong):
    with refused(ValueError, "holdout=name"):
        HoldoutConfig(ledger=wrong)


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


def test_nobody_home_is_one_clear_error(tmp_path):
    with pytest.raises(LedgerUnavailableError):
        make(f"postgresql:///d?host={tmp_path}&holdout=a")


# -- the password ---------------------------------------------------------------------------------

SECRET = "xyzzy%20plugh"


def test_the_password_is_nowhere(running, place, capsys):
    """Not in messages, pickles, representations, certificates, nor in errors."""
    with running.connect() as connection:
        connection.execute("ALTER ROLE postgres PASSWORD 'xyzzy plugh'")
    asked = place.replace("postgres@", f"postgres:{SECRET}@") + f"&password={SECRET}"
    config = HoldoutConfig(ledger=asked)
    holdout = ReusableHoldout(X, Y, ledger=asked)
    holdout.answer([0.5], scores(1, 0), keys=["a"])
    dead = place.replace(f":{running.port}/", ":1/")
    with pytest.raises(LedgerUnavailableError) as caught:
        make(dead.replace("postgres@", f"postgres:{SECRET}@"))
    shown = [repr(config), repr(holdout), holdout._repr_html_(), str(holdout.certificate()),
             holdout.certificate()._repr_html_(), str(caught.value), str(holdout.ledger),
             repr(copy.deepcopy(config)), repr(vars(caught.value))]  # fmt: skip
    packs = [pickle.dumps(thing) for thing in (config, holdout, caught.value)]
    for text in (*shown, *map(repr, packs)):
        assert "xyzzy" not in text
        assert "plugh" not in text
    same = copy.deepcopy(config)  # in this process the connection keeps it
    assert same.ledger.connection == config.ledger.connection
    assert SECRET in same.ledger.connection.replace("+", "%20")
    assert pickle.loads(packs[0]) == config


def reached(error):
    """Yield an error, its causes, and the local variables of their frames outside this file."""
    waiting, seen = [error], set()
    while waiting:
        failure = waiting.pop()
        if failure is None or id(failure) in seen:
            continue
        seen.add(id(failure))
        yield repr(failure)
        waiting += [failure.__cause__, failure.__context__]
        for frame, _ in traceback.walk_tb(failure.__traceback__):
            if frame.f_code.co_filename != __file__:
                waiting += [v for v in frame.f_locals.values() if isinstance(v, BaseException)]
                yield repr(frame.f_locals)


@pytest.mark.parametrize("wrong", ["", "&host=/nowhere", "&unknown=1", "&port=x"])
@pytest.mark.parametrize("open_it", [
    make, read_notes_at, lambda place: ReusableHoldout.from_targets(Y, ledger=place),
    lambda place: HoldoutConfig(ledger=place, confidence_level=7.0),
    lambda place: HoldoutConfig().set_params(ledger=place, confidence_level=7.0),
], ids=["class", "notes", "from_targets", "config", "set_params"])  # fmt: skip
def test_no_frame_of_an_error_holds_the_password(running, wrong, open_it):
    running.start()  # which knows no such user
    asked = running.url("sealed").replace("postgres@", f"nobody:{SECRET}@") + wrong
    with pytest.raises((LedgerUnavailableError, ValueError)) as caught:
        open_it(f"{asked}&password={SECRET}")
    held = list(reached(caught.value))
    assert len(held) > 1
    assert not [text for text in held if "xyzzy" in text or "plugh" in text]


# -- many at once ---------------------------------------------------------------------------------


def run_workers(server, place, *, processes, batches):
    make(place)
    with server.Pool(processes) as pool:
        jobs = [(place, number, batches, 3, True) for number in range(processes)]
        pool.starmap(workers.ask_many, jobs)
    history = make(place).history()
    keys = [record.key for record in history]
    assert len(keys) == len(set(keys)) == processes * batches * 2 + batches
    assert [key for key in keys if key.startswith("shared")].count("shared/0") == 1
    assert history[-1].batch == processes * batches


def test_two_processes_share_one_budget_and_ask_one_query_once(server, place):
    run_workers(server, place, processes=2, batches=8)


@pytest.mark.slow
def test_eight_processes_with_five_hundred_batches(server, place):
    run_workers(server, place, processes=8, batches=500)


def test_two_analysts_with_one_key_get_one_answer(place):
    found = []

    def ask(seed):
        found.append(make(place).answer([0.0], scores(1, seed), keys=["one"]).values[0])

    make(place)
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(make(place).history()) == 1


def check_survival(place, answers):
    history = make(place).history()
    kept = {record.key: (record.value, record.lower, record.upper) for record in history}
    assert len(kept) == len(history) == 3 * history[-1].batch
    assert not {key for key, numbers in answers.items() if kept.get(key) != numbers}
    before = len(history)
    make(place).answer([0.5], scores(1, 6))
    assert len(make(place).history()) == before + 1


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_received_answers_survive_kill_9_of_clients(server, place, tmp_path, kills):
    answers = kill_at_random(server, place, tmp_path, kills=kills, seed=1)
    assert answers
    check_survival(place, answers)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_received_answers_survive_kill_9_of_the_server(running, server, place, tmp_path, kills):
    moments, answers = random.Random(kills), {}
    for number in range(kills):
        answers |= kill_at_random(
            server, place, tmp_path, kills=1, seed=number, first=number,
            kill=lambda victim: (running.kill(), victim.join(60)),
        )  # fmt: skip
        running.start()
        time.sleep(moments.random() / 10)
    assert answers
    check_survival(place, answers)


# -- the command line -----------------------------------------------------------------------------


def test_a_ledger_is_copied_to_the_server_and_back(place, path, tmp_path, command_line, capsys):
    holdout = make(path)
    for number in range(3):
        holdout.answer([0.1, 0.9], scores(2, number), keys=[f"a{number}", None])
    back = tmp_path / "back.sqlite"
    assert command_line("ledger", "copy", path, place) == 0
    assert command_line("ledger", "copy", place, back) == 0
    assert "use one of the two" in capsys.readouterr().out.lower()
    assert make(place).history() == make(back).history() == holdout.history()
    exports = []
    for where in (path, place, back):
        assert command_line("ledger", "verify", where) == 0
        assert command_line("ledger", "show", where) == 0
        capsys.readouterr()
        assert command_line("ledger", "export", where) == 0
        exports.append(capsys.readouterr().out)
    assert exports[0] == exports[1] == exports[2]
    make(place).answer([0.5], scores(1, 8))
    assert command_line("ledger", "copy", path, place) == 1  # nothing is overwritten
    assert "already" in capsys.readouterr().err
    assert command_line("ledger", "copy", tmp_path / "none", back) == 1


def test_the_command_line_shows_no_password(place, command_line, capsys):
    make(place)
    asked = place.replace("postgres@", f"postgres:{SECRET}@")
    assert command_line("ledger", "verify", asked) == 0
    assert command_line("ledger", "verify", asked.replace("holdout=", "holdout=no")) == 1
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize("arguments", [
    ["show", "postgresql://u:secret@h/d"], ["show", "postgresql://u:s/secret@h/d?holdout=a"],
    ["show", "postgresql://u:secret@h/d?holdout=a", "postgresql://u:secret@h/d"],
    ["shw", "postgresql://u:secret@h/d"], ["show", "mysql://u:secret@h/d?holdout=a"],
    ["show", "postgresql://u@h/d?password=secret"], ["show", "postgresql://u:secret@h:x/d?holdout=a"],
    ["show", "--last", "postgresql://u:secret@h/d", "x"],
])  # fmt: skip
def test_no_error_of_the_command_line_shows_a_password(arguments, command_line, capsys):
    assert command_line("ledger", *arguments) in (1, 2)
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err
    assert shown.err


def test_without_psycopg_the_extra_is_named(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refused(LedgerUnavailableError, "sklearn-bdp[postgres]"):
        make(place)
