"""Functions that other processes run on a holdout; spawned processes import them from here."""

import contextlib
import io
import os
import pickle
import sys
import time

import numpy as np

from sklearn_bdp.holdout import ExpertSettings
from sklearn_bdp.metrics import PerRecordScore

N = 200
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2


def scores(count, seed):
    """Return per-record scores of ``count`` queries."""
    return np.random.default_rng(seed).integers(0, 2, size=(count, N)).astype(float)


def query_once(holdout, seed=0):
    """Ask one query; return whether it was answered, or the name of the error."""
    try:
        answers = holdout.answer([0.0], scores(1, seed), keys=[f"seed {seed}"])
    except Exception as error:
        return type(error).__name__
    return bool(answers.answered.all())


def query_many(path, worker, batches, size, shared):
    """Ask batches of a ledger; return (queries of its own, seconds)."""
    from sklearn_bdp.holdout import ReusableHoldout

    holdout = ReusableHoldout(X, Y, ledger=path, expert=ExpertSettings(ledger_timeout=1200.0))
    start = time.perf_counter()
    for number in range(batches):
        keys = [f"{worker}/{number}/{position}" for position in range(size)]
        if shared:  # every worker asks this one too: it is answered once
            keys[0] = f"shared/{number}"
        holdout.answer(np.full(size, 0.5), scores(size, 1000 * worker + number), keys=keys)
    return batches, time.perf_counter() - start


def query_as_user(path, group, user):
    """Ask as another user (for good); return how many answers there are, or the error."""
    from sklearn_bdp.exceptions import LedgerUnavailableError
    from sklearn_bdp.holdout import ReusableHoldout

    if os.geteuid() == 0:  # permissions do not bind the superuser
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    try:
        holdout = ReusableHoldout(X, Y, ledger=path)
        holdout.answer([0.5], np.ones((1, N)))
    except LedgerUnavailableError as error:
        return str(error)
    return str(len(holdout.history()))


def run_code(code, *arguments):
    """Run a script in this process, with a command line; return its standard output."""
    sys.argv = ["script", *map(str, arguments)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {"__name__": "__main__"})
    return out.getvalue()


def query_until_killed(path, log, worker):
    """Ask for ever; write every answer that arrived to ``log`` the moment it arrives."""
    from sklearn_bdp.holdout import ReusableHoldout

    holdout = ReusableHoldout(X, Y, ledger=path)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(10**9):
        keys = [f"{worker}/{number}/{position}" for position in range(3)]
        answers = holdout.answer([0.5, 0.0, 1.0], scores(3, number), keys=keys)
        lines = "".join(
            f"{key} {value!r} {lower!r} {upper!r}\n"
            for key, value, lower, upper in zip(
                keys,
                answers.values.tolist(),
                answers.lower.tolist(),
                answers.upper.tolist(),
                strict=True,
            )
        )
        os.write(descriptor, lines.encode())


def revive(data):
    """Load a holdout in this process, read it and query it.

    Returns a dict of the values that are readable without a query, and of the error of a query.
    """
    holdout = pickle.loads(data)
    results = {"repr": repr(holdout)}
    try:
        results["history"] = len(holdout.history())
        results["half_width"] = holdout.certificate().half_width
        results["spent"] = holdout.information_spent
        results["again"] = len(pickle.loads(pickle.dumps(holdout)).history())
    except Exception as error:
        results["unreadable"] = type(error).__name__
    try:
        holdout.answer([0.5], np.ones((1, N)))
    except Exception as error:
        results["error"] = type(error).__name__
        results["message"] = str(error)
    return results


class KillsProcess:
    """A model whose prediction kills its process if ``deadly`` is set."""

    deadly = False

    def predict(self, rows):
        """Return classes of the second column, or nothing ever again."""
        if KillsProcess.deadly and len(rows) == N:  # not on the blank records before the closing
            os.kill(os.getpid(), 9)
        return np.asarray(rows)[:, 1].astype(int) // 6 % 2


def graded(model, rows, y):
    """Return half of a hit's worth for a miss."""
    return 0.5 + 0.5 * (model.predict(rows) == y)


GRADED = PerRecordScore(graded)


def report_until_killed(path, n_batches):
    """Ask so many batches, then close the holdout and die before anything is reported."""
    from sklearn_bdp.holdout import ReusableHoldout

    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(n_batches):
        holdout.answer([0.5], scores(1, number))
    KillsProcess.deadly = True
    holdout.final_report({"mine": KillsProcess()}, scoring=GRADED)


def hold_writing(path, lock_file):
    """Hold the lock of a ledger for ever, and create a file as soon as it is held."""
    from sklearn_bdp.holdout import ReusableHoldout

    expert = ExpertSettings(ledger_timeout=1.0)
    with ReusableHoldout(X, Y, ledger=path, expert=expert).account.write_transaction():
        lock_file.touch()
        time.sleep(1e6)


def report_once(path, constant):
    """Close a holdout with a report on a constant model; return "reported" or the error's name."""
    from sklearn.dummy import DummyClassifier

    from sklearn_bdp.holdout import ReusableHoldout

    holdout = ReusableHoldout(X, Y, ledger=path)
    model = DummyClassifier(strategy="constant", constant=constant % 2).fit(X, Y)
    try:
        holdout.final_report({f"model {constant}": model}, scoring="accuracy")
    except Exception as error:
        return type(error).__name__
    return "reported"


def write_notes(path, worker, count):
    """Write notes one after the other, each with the number of notes before this worker waited."""
    from sklearn_bdp.ledger.ledger import Ledger

    ledger = Ledger(path)
    for _ in range(count):
        with ledger.transaction() as transaction:
            n_before = len(transaction.notes("turn"))
        with ledger.transaction(write=True) as transaction:
            transaction.note("turn", [worker, n_before])
