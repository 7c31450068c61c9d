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
from tests.holdout.workers import X, Y, query_once, scores
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
@pytest.mark.parametrize("has_ledger", [False, True], ids=["memory", "ledger"])
def test_copies_in_one_process_are_the_holdout_itself(route, has_ledger, path):
    holdout = ReusableHoldout(X, Y, ledger=path if has_ledger else None)
    assert SAME_PROCESS[route](holdout) is holdout


@pytest.mark.parametrize("has_ledger", [False, True], ids=["memory", "ledger"])
def test_a_pickle_of_a_collected_holdout_finds_its_records(has_ledger, path):
    holdout = ReusableHoldout(X, Y, ledger=path if has_ledger else None, budget=2)
    data = pickle.dumps(holdout)
    holdout.answer([0.0, 1.0], scores(2, 0))
    history = holdout.history()
    del holdout
    unpickled = pickle.loads(data)
    assert unpickled.history() == history
    assert unpickled.remaining_budget == 0  # an old pickle does not restore an old budget


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


def answer_or_error(entry, holdout):
    """Return whether the query was answered, or the name of the error."""
    try:
        return bool(ENTRIES[entry](holdout))
    except Exception as error:
        return type(error).__name__


def over_loky(entry, holdout):
    return joblib.Parallel(n_jobs=2, backend="loky")(
        [joblib.delayed(answer_or_error)(entry, holdout)]
    )[0]


def over_multiprocessing(entry, holdout):
    backend = joblib.Parallel(n_jobs=2, backend="multiprocessing")
    return backend([joblib.delayed(answer_or_error)(entry, holdout)])[0]


def over_fork(entry, holdout):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(answer_or_error(entry, holdout)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    message = os.read(reader, 100).decode()
    os.close(reader)
    return {"True": True}.get(message, message)


def over_forkserver(entry, holdout):
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(answer_or_error, entry, holdout).result()


def over_threads(entry, holdout):
    backend = joblib.Parallel(n_jobs=2, backend="threading")
    return backend([joblib.delayed(answer_or_error)(entry, holdout)])[0]


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
def test_a_ledger_records_one_query_of_any_process_once(entry, route, path):
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
@pytest.mark.parametrize("has_ledger", [False, True], ids=["memory", "ledger"])
def test_threads_share_one_holdout(entry, has_ledger, path):
    holdout = ReusableHoldout(X, Y, ledger=path if has_ledger else None, budget=5)
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
            ledger_holdout = ReusableHoldout(X, Y, ledger=path.with_name(entry), budget=5)
            memory_holdout = ReusableHoldout(X, Y, budget=5)
            futures = [
                client.submit(answer_or_error, entry, holdout, pure=False)
                for holdout in (ledger_holdout, memory_holdout)
            ]
            assert client.gather(futures) == [True, "ProcessBoundaryError"], number
            assert (len(ledger_holdout.history()), len(memory_holdout.history())) == (1, 0)


def revive_in_new_process(server, data):
    """Load a pickled holdout in a new process and return the results of ``revive``."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=server) as pool:
        return pool.submit(workers.revive, data).result()


def test_a_memory_holdout_can_be_read_but_not_queried_in_other_processes(server):
    holdout = ReusableHoldout(X, Y)
    holdout.answer([0.2, 0.5], scores(2, 1))
    results = revive_in_new_process(server, pickle.dumps(holdout))
    assert results["history"] == results["again"] == 2
    assert results["half_width"] == holdout.certificate().half_width
    assert results["spent"] == holdout.information_spent
    assert results["error"] == "ProcessBoundaryError"
    assert "ledger='holdout.sqlite'" in results["message"]


def test_a_pickle_whose_ledger_is_missing_answers_nothing_and_makes_no_new_one(server, path):
    data = pickle.dumps(ReusableHoldout(X, Y, ledger=path))
    os.rename(path, path.with_name("moved"))
    results = revive_in_new_process(server, data)
    assert results["unreadable"] == results["error"] == "LedgerUnavailableError"
    assert not path.exists()


def test_a_pickle_recognizes_a_ledger_restored_from_an_older_copy(server, path):
    holdout = ReusableHoldout(X, Y, ledger=path)
    older_content = path.read_bytes()
    holdout.answer([0.0], scores(1, 1))
    data = pickle.dumps(holdout)
    path.write_bytes(older_content)
    assert revive_in_new_process(server, data)["error"] == "LedgerCorruptedError"


# -- many at once ---------------------------------------------------------------------------------


def check_counts(command_line, path, *, n_queries, batches):
    holdout = ReusableHoldout(X, Y, ledger=path)
    history = holdout.history()
    assert len(history) == n_queries
    assert len({record.key for record in history}) == n_queries
    assert history[-1].batch == batches
    assert command_line("ledger", "verify", path) == 0


def run_workers(server, path, *, processes, batches, size, shared):
    ReusableHoldout(X, Y, ledger=path)
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=server) as pool:
        jobs = [
            pool.submit(workers.query_many, path, number, batches, size, shared)
            for number in range(processes)
        ]
        return [job.result() for job in jobs]


def test_many_processes_lose_and_double_nothing(server, path, capsys, command_line):
    run_workers(server, path, processes=8, batches=6, size=3, shared=True)
    # Each round has one query that all eight ask: answered once.
    check_counts(command_line, path, n_queries=8 * 6 * 2 + 6, batches=8 * 6)


@pytest.mark.slow
def test_eight_processes_of_five_hundred_batches(server, path, capsys, command_line):
    run_workers(server, path, processes=8, batches=500, size=3, shared=False)
    check_counts(command_line, path, n_queries=8 * 500 * 3, batches=8 * 500)


def test_processes_that_create_one_ledger_at_once_agree(server, path, command_line):
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=server) as pool:
        jobs = [pool.submit(workers.query_many, path, number, 2, 2, False) for number in range(4)]
        for job in jobs:
            job.result()
    check_counts(command_line, path, n_queries=16, batches=8)


@pytest.mark.parametrize("has_ledger", [False, True], ids=["memory", "ledger"])
def test_many_threads_lose_and_double_nothing(has_ledger, path):
    holdout = ReusableHoldout(X, Y, ledger=path if has_ledger else None)

    def run_queries(number):
        for round_ in range(5):
            holdout.answer([0.5], scores(1, number), keys=[f"{number}/{round_}"])
            holdout.answer([0.5], scores(1, round_), keys=[f"shared {round_}"])

    threads = [threading.Thread(target=run_queries, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = holdout.history()
    assert len(history) == len({record.key for record in history}) == 8 * 5 + 5


def test_a_fork_while_another_thread_holds_the_ledger_does_not_hang(path):
    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=5.0))
    has_lock = threading.Event()
    may_finish = threading.Event()

    def hold_lock():
        with holdout.account.read_transaction():
            has_lock.set()
            may_finish.wait(300)

    thread = threading.Thread(target=hold_lock)
    thread.start()
    assert has_lock.wait(300)
    child = os.fork()
    if child == 0:
        os._exit(0 if query_once(holdout) is True else 1)
    _, status = os.waitpid(child, 0)
    may_finish.set()
    thread.join()
    assert status == 0
    assert len(holdout.history()) == 1


def test_interrupted_work_resumes_without_spending_again(path):
    """A search stopped half-way asks again under the same keys: only the rest is new."""
    keys = [f"candidate {number}" for number in range(10)]
    values = np.full(10, 0.2)
    per_record_scores = scores(10, 4)
    first_holdout = ReusableHoldout(X, Y, ledger=path)
    first_holdout.answer(values[:6], per_record_scores[:6], keys=keys[:6])
    first_history = first_holdout.history()
    second_holdout = ReusableHoldout(X, Y, ledger=path)
    answers = second_holdout.answer(values, per_record_scores, keys=keys)
    assert answers.answered.all()
    assert second_holdout.history()[:6] == first_history
    assert len(second_holdout.history()) == 10
    spent = second_holdout.information_spent
    repeated = second_holdout.answer(values, per_record_scores, keys=keys)
    assert np.array_equal(repeated.values, answers.values)
    assert second_holdout.information_spent == spent


@pytest.mark.parametrize("recorded", [False, True])
def test_a_search_stopped_at_the_worst_moment_resumes_for_free(path, recorded):
    """Ctrl-C just before the record, or between record and release: nothing is charged twice."""
    X_all, y_all = load_breast_cancer(return_X_y=True)
    is_holdout = np.arange(y_all.size) % 3 == 0

    def search(ledger=path):
        holdout = ReusableHoldout(X_all[is_holdout], y_all[is_holdout], ledger=ledger)
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
        search(backend).fit(X_all[~is_holdout], y_all[~is_holdout])
    assert len(search().holdout.history()) == (4 if recorded else 0)
    fitted = search().fit(X_all[~is_holdout], y_all[~is_holdout])
    history = fitted.holdout_.history()
    assert len(history) == 4
    assert history[-1].batch == 1
    assert np.isfinite(fitted.cv_results_["holdout_score"]).all()
