"""Shared by all tests."""

import multiprocessing
import random
import runpy
import secrets
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_bdp.diagnostics.overlap import forget_answered_targets

# Processes are forked from a server that has imported everything: milliseconds instead of seconds.
multiprocessing.set_forkserver_preload(["tests.holdout.workers", "sklearn_bdp.holdout"])


def pytest_collection_modifyitems(items):
    """Let a warning of the package fail the test that did not expect it."""
    quiet = pytest.mark.filterwarnings("error::sklearn_bdp.exceptions.SklearnBdpWarning")
    for item in items:
        if Path(__file__).parent in item.path.parents:  # not those of scikit-learn
            item.add_marker(quiet, append=False)  # filters of a test or its module go first


@pytest.fixture(scope="session")
def server():
    """Return the context that forks from the warm server."""
    return multiprocessing.get_context("forkserver")


@pytest.fixture(autouse=True)
def _no_accounts():
    """Every test is a process of its own: no account has answered before it."""
    forget_answered_targets()


@pytest.fixture(autouse=True)
def _same_draws(request, monkeypatch):
    """Let a test divide its records in the same way each time, also without ``random_state``.

    One division in 200 shows a spurious dependence, and one in some hundreds cuts no group:
    average properties are tested by counted failures, not by the day on which a test fails. Only
    divisions are drawn so; noise, salts and tokens stay those of the operating system.
    """
    draws = random.Random(request.node.nodeid)
    monkeypatch.setattr(secrets, "randbits", draws.getrandbits)
    np.random.seed(draws.getrandbits(32))  # noqa: NPY002 (of estimators without a seed)


@pytest.fixture
def command_line(monkeypatch):
    """Return a function that runs ``python -m sklearn_bdp`` here and returns its exit code."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sklearn_bdp", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("sklearn_bdp", run_name="__main__")
        return end.value.code

    return run


@pytest.fixture
def path(tmp_path):
    """Return a path for a ledger."""
    return tmp_path / "holdout.sqlite"


# They swap scikit-learn's classes when they are imported, which `make conformance` does.
collect_ignore = ["conformance"]
