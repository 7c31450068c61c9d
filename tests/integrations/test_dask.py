"""A local cluster of two workers, one of which is killed in the middle."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sklearn_bdp import HoldoutConfig, HoldoutScorer, ReusableHoldout, ReusableHoldoutSearchCV
from sklearn_bdp.diagnostics.overlap import forget_answered_targets

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.client("dask", "searches on a cluster, a worker killed in the middle"),
    pytest.mark.slow,
]
sys.path.insert(0, str(Path(__file__).parent))
from logged import LoggingClassifier, completed_fits  # noqa: E402 (workers import it by this name)

N_CANDIDATES = 10


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, N_CANDIDATES))
    return X, (X[:, 0] + rng.normal(size=600) > 0).astype(int)


@pytest.fixture
def client():
    folder = str(Path(__file__).parent)
    previous_path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{previous_path}"
    try:
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
    finally:
        os.environ["PYTHONPATH"] = previous_path


def kill_one_worker(client, path, n_fits):
    """Kill one worker once so many fits are done; return the thread that does it."""
    victim = next(iter(client.run(os.getpid).values()))

    def wait_and_kill():
        while len(completed_fits(path)) < n_fits:
            time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


def search(path, **options):
    grid = {"column": list(range(N_CANDIDATES))}
    # As bytes: a string that names a file is hashed with its content, and logs grow.
    return ReusableHoldoutSearchCV(
        LoggingClassifier(os.fsencode(path), seconds=0.1), grid, cv=2, random_state=0, **options
    )


def n_repeated_fits(path):
    """Return how many finished fits were done more than once."""
    return sum(count - 1 for count in Counter(completed_fits(path)).values())


def test_a_killed_worker_costs_neither_budget_nor_finished_fits(client, data, tmp_path):
    path = tmp_path / "fits.log"
    ledger = tmp_path / "ledger.sqlite"
    killer = kill_one_worker(client, path, n_fits=8)
    with joblib.parallel_config(backend="dask"):
        cluster_search = search(path, holdout=HoldoutConfig(ledger=ledger)).fit(*data)
    killer.join()
    history = cluster_search.holdout_.history()
    assert len(history) == N_CANDIDATES
    assert {record.batch for record in history} == {1}
    # The last finished fit of the victim may not have reached the coordinator yet.
    assert n_repeated_fits(path) <= 1
    forget_answered_targets()  # as in a process of its own
    local_search = search(tmp_path / "alone.log").fit(*data)
    np.testing.assert_array_equal(
        cluster_search.cv_results_["holdout_score"], local_search.cv_results_["holdout_score"]
    )
    repeated_search = search(path, holdout=HoldoutConfig(ledger=ledger)).fit(*data)
    assert repeated_search.holdout_.information_spent == cluster_search.holdout_.information_spent
    assert len(repeated_search.holdout_.history()) == N_CANDIDATES


def test_workers_share_one_budget_through_the_ledger(client, data, tmp_path):
    X, y = data
    path = tmp_path / "fits.log"
    holdout = ReusableHoldout(X[400:], y[400:], random_state=0, ledger=tmp_path / "ledger.sqlite")
    for _ in range(2):  # the second time every query is known
        with joblib.parallel_config(backend="dask"):
            scores = cross_val_score(
                LoggingClassifier(os.fsencode(path)),
                X[:400],
                y[:400],
                scoring=HoldoutScorer(holdout),
                cv=8,
                n_jobs=-1,
            )
        assert np.isfinite(scores).all()
        # Models of users' classes are identified by their predictions on the scored rows.
        assert len(holdout.history()) == 8
    assert len({record.key for record in holdout.history()}) == 8


def test_the_mechanism_stays_with_the_coordinator(client, data, tmp_path):
    with joblib.parallel_config(backend="dask"):
        cluster_search = search(tmp_path / "fits.log").fit(*data)
    forget_answered_targets()  # as in a process of its own
    local_search = search(tmp_path / "alone.log").fit(*data)
    assert (
        len(cluster_search.holdout_.history()) == N_CANDIDATES
    )  # in memory: no worker could have queried it
    for name in ("holdout_score", "holdout_lower", "holdout_upper", "answered_from"):
        np.testing.assert_array_equal(
            cluster_search.cv_results_[name], local_search.cv_results_[name]
        )
