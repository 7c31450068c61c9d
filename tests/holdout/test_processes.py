"""Copies, processes and threads: one holdout, one budget, each query charged once."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import threading

import cloudpickle
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.metrics.base import Evaluation
from sklearn_bdp.model_selection import HoldoutScorer
from tests.holdout import planted, workers
from tests.holdout.workers import X, Y, ask_once, scores
from tests.ledger.failing import FailingBackend

# -- ways to get another reference ----------------------------------------------------------------

SAME_PROCESS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "clone": clone,
    "pickle": lambda holdout: pickle.loads(pickle.dumps(holdout)),
    "cloudpickle": lambda holdout: pickle.loads(cloudpickle.dumps(holdout)),
    "inside": lambda holdout: copy.deepcopy({"deep": [holdout]})["deep"][0],
}


@pytest.mark.parametrize("route", SAME_PROCESS)
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "ledger"])
def test_copies_in_one_process_are_the_holdout_itself(route, kept, path):
    holdout = ReusableHoldout(X, Y, ledger=path if kept else None)
    assert SAME_PROCESS[route](holdout) is holdout


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "ledger"])
def test_a_pickle_of_a_collected_holdout_finds_its_records(kept, path):
    holdout = ReusableHoldout(X, Y, ledger=path if kept else None, budget=2)
    data = pickle.dumps(holdout)
    holdout.answer([0.0, 1.0], scores(2, 0))
    history = holdout.history()
    del holdout
    back = pickle.loads(data)
    assert back.history() == history
    assert back.remaining_budget == 0  # an old pickle does not restore an old budget


# -- ways to another process, and entry points ----------------------------------------------------


def entry_answer(holdout):
    return holdout.answer([0.0], scores(1, 3)).answered[0]


def entry_score(holdout):
    return holdout.score(planted.fitted(), 0.1, scoring="accuracy").answered


def entry_evaluations(holdout):
    evaluation = Evaluation(per_record=scores(1, 3)[0], value=0.5, sensitivity=1 / workers.N)
    return holdout.answer_evaluations([0.0], [evaluation]).answered[0]


def entry_scorer(holdout):
    scorer = pickle.loads(pickle.dumps(HoldoutScorer(holdout, scoring="accuracy")))
    scorer(planted.fitted(), planted.X[400:500], planted.Y[400:500])
    return True


ENTRIES = {
    "answer": entry_answer,
    "score": entry_score,
    "evaluations": entry_evaluations,
    "scorer": entry_scorer,
}


def guarded(entry, holdout):
    """Return whether the query was answered, or the name of the error."""
    try:
        return bool(ENTRIES[entry](holdout))
    except Exception as error:
        return type(error).__name__


def over_loky(entry, holdout):
    return joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(guarded)(entry, holdout)])[0]


def over_multiprocessing(entry, holdout):
    backend = joblib.Parallel(n_jobs=2, backend="multiprocessing")
    return backend([joblib.delayed(guarded)(entry, holdout)])[0]


def over_fork(entry, holdout):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(guarded(entry, holdout)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    return {"True": True}.get(said, said)


def over_forkserver(entry, holdout):
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(guarded, entry, holdout).result()


def over_threads(entry, holdout):
    backend = joblib.Parallel(n_jobs=2, backend="threading")
    return backend([joblib.delayed(guarded)(entry, holdout)])[0]


OTHER_PROCESSES = {
    "loky": over_loky,
    "multiprocessing": over_multiprocessing,
    "fork": over_fork,
    "forkserver": over_forkserver,
}
#: New processes that import everything take seconds each.
ROUTES = [
    pytest.param(route, marks=[pytest.mark.slow] * (not route.startswith("fork")))
    for route in OTHER_PROCESSES
]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("route", ROUTES)
def test_a_ledger_moves_exactly_once_whoever_asks(entry, route, path):
    holdout = ReusableHoldout(X, Y, ledger=path, budget=5)
    assert OTHER_PROCESSES[route](entry, holdout) is True
    assert len(holdout.history()) == 1
    assert holdout.remaining_budget == 5 - holdout.history()[0].corrected


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("route", ROUTES)
def test_memory_rejects_other_processes_and_spends_nothing(entry, route):
    holdout = ReusableHoldout(X, Y, budget=5)
    assert OTHER_PROCESSES[route](entry, holdout) == "ProcessBoundaryError"
    assert (len(holdout.history()), holdout.remaining_budget) == (0, 5)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "ledger"])
def test_threads_share_one_holdout(entry, kept, path):
    holdout = ReusableHoldout(X, Y, ledger=path if kept else None, budget=5)
    assert over_threads(entry, holdout) is True
    assert len(holdout.history()) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_dask_workers_share_the_ledger_and_reject_memory(path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for number, entry in enumerate(ENTRIES):
            kept = ReusableHoldout(X, Y, ledger=path.with_name(entry), budget=5)
            memory = ReusableHoldout(X, Y, budget=5)
            asked = [client.submit(guarded, entry, each, pure=False) for each in (kept, memory)]
            assert client.gather(asked) == [True, "ProcessBoundaryError"], number
            assert (len(kept.history()), len(memory.history())) == (1, 0)


def elsewhere(server, data):
    """Load a pickled holdout in a new process and return the results of ``revive``."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=server) as pool:
        return pool.submit(workers.revive, data).result()


def test_records_of_a_memory_holdout_can_be_read_anywhere_but_not_asked(server):
    holdout = ReusableHoldout(X, Y)
    holdout.answer([0.2, 0.5], scores(2, 1))
    seen = elsewhere(server, pickle.dumps(holdout))
    assert seen["history"] == seen["again"] == 2
    assert seen["half_width"] == holdout.certificate().half_width
    assert seen["spent"] == holdout.information_spent
    assert seen["error"] == "ProcessBoundaryError"
    assert "ledger='holdout.sqlite'" in seen["message"]


def test_a_pickle_whose_ledger_is_missing_answers_nothing_and_makes_no_new_one(server, path):
    data = pickle.dumps(ReusableHoldout(X, Y, ledger=path))
    os.rename(path, path.with_name("moved"))
    seen = elsewhere(server, data)
    assert seen["unreadable"] == seen["error"] == "LedgerUnavailableError"
    assert not path.exists()


def test_a_pickle_recognises_a_ledger_restored_from_an_older_copy(server, path):
    holdout = ReusableHoldout(X, Y, ledger=path)
    older = path.read_bytes()
    holdout.answer([0.0], scores(1, 1))
    data = pickle.dumps(holdout)
    path.write_bytes(older)
    assert elsewhere(server, data)["error"] == "LedgerCorruptedError"


# -- many at once ---------------------------------------------------------------------------------


def check_counts(command_line, path, *, asked, batches):
    holdout = ReusableHoldout(X, Y, ledger=path)
    history = holdout.history()
    assert len(history) == asked
    assert len({record.key for record in history}) == asked
    assert history[-1].batch == batches
    assert command_line("ledger", "verify", path) == 0


def run_workers(server, path, *, processes, batches, size, shared):
    ReusableHoldout(X, Y, ledger=path)
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=server) as pool:
        jobs = [
            pool.submit(workers.ask_many, path, number, batches, size, shared)
            for number in range(processes)
        ]
        return [job.result() for job in jobs]


def test_many_processes_lose_and_double_nothing(server, path, capsys, command_line):
    run_workers(server, path, processes=8, batches=6, size=3, shared=True)
    # Each round has one query that all eight ask: answered once.
    check_counts(command_line, path, asked=8 * 6 * 2 + 6, batches=8 * 6)


@pytest.mark.slow
def test_eight_processes_of_five_hundred_batches(server, path, capsys, command_line):
    run_workers(server, path, processes=8, batches=500, size=3, shared=False)
    check_counts(command_line, path, asked=8 * 500 * 3, batches=8 * 500)


def test_processes_that_create_one_ledger_at_once_agree(server, path, command_line):
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=server) as pool:
        jobs = [pool.submit(workers.ask_many, path, number, 2, 2, False) for number in range(4)]
        for job in jobs:
            job.result()
    check_counts(command_line, path, asked=16, batches=8)


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "ledger"])
def test_many_threads_lose_and_double_nothing(kept, path):
    holdout = ReusableHoldout(X, Y, ledger=path if kept else None)

    def ask(number):
        for round_ in range(5):
            holdout.answer([0.5], scores(1, number), keys=[f"{number}/{round_}"])
            holdout.answer([0.5], scores(1, round_), keys=[f"shared {round_}"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = holdout.history()
    assert len(history) == len({record.key for record in history}) == 8 * 5 + 5


def test_a_fork_while_another_thread_holds_the_ledger_does_not_hang(path):
    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=5.0))
    inside, done = threading.Event(), threading.Event()

    def hold():
        with holdout.account.read_transaction():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if ask_once(holdout) is True else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert status == 0
    assert len(holdout.history()) == 1


def test_interrupted_work_resumes_without_spending_again(path):
    """A search stopped half-way asks again under the same keys: only the rest is new."""
    keys = [f"candidate {number}" for number in range(10)]
    values, raw = np.full(10, 0.2), scores(10, 4)
    first = ReusableHoldout(X, Y, ledger=path)
    first.answer(values[:6], raw[:6], keys=keys[:6])
    known = first.history()
    second = ReusableHoldout(X, Y, ledger=path)
    answers = second.answer(values, raw, keys=keys)
    assert answers.answered.all()
    assert second.history()[:6] == known
    assert len(second.history()) == 10
    spent = second.information_spent
    again = second.answer(values, raw, keys=keys)
    assert np.array_equal(again.values, answers.values)
    assert second.information_spent == spent


@pytest.mark.parametrize("recorded", [False, True])
def test_a_search_stopped_at_the_worst_moment_resumes_for_free(path, recorded):
    """Ctrl-C just before the record, or between record and release: nothing is charged twice."""
    X_all, y_all = load_breast_cancer(return_X_y=True)
    division = np.arange(y_all.size) % 3 == 0

    def search(ledger=path):
        holdout = ReusableHoldout(X_all[division], y_all[division], ledger=ledger)
        grid = {"max_depth": [1, 2, 3, 4]}
        tree = DecisionTreeClassifier(random_state=0)
        return ReusableHoldoutSearchCV(tree, grid, holdout=holdout, scoring="accuracy", cv=2)

    class Stopped(FailingBackend):
        def append(self, expected_head, row):
            self.error = KeyboardInterrupt() if len(row.answers) > 2 else None
            super().append(expected_head, row)

    backend = Stopped(path)
    backend.after = recorded
    with pytest.raises(KeyboardInterrupt):
        search(backend).fit(X_all[~division], y_all[~division])
    assert len(search().holdout.history()) == (4 if recorded else 0)
    fitted = search().fit(X_all[~division], y_all[~division])
    history = fitted.holdout_.history()
    assert len(history) == 4
    assert history[-1].batch == 1
    assert np.isfinite(fitted.cv_results_["holdout_score"]).all()
