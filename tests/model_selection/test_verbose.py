"""Printed progress of a search: a bar in a terminal, lines in a log file, nothing by default."""

import os
import subprocess
import sys

import pytest
from sklearn.model_selection import GridSearchCV

SEARCH = """
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier
from sklearn_bdp import ReusableHoldoutSearchCV

X, y = make_classification(200, random_state=0)
search = ReusableHoldoutSearchCV(
    DecisionTreeClassifier(random_state=0),
    {{"max_depth": [1, 2, 3]}},
    holdout={holdout},
    verbose={verbose},
    cv=2,
    random_state=0,
)
search.fit(X, y)
"""


def environment():
    """Return the environment without variables that force rich to draw."""
    forced = {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"}
    inherited = {name: value for name, value in os.environ.items() if name not in forced}
    return inherited | {"TERM": "xterm", "PYTHONWARNINGS": "ignore"}


def printed_to_file(**parameters):
    """Return what a search prints if its output is no terminal."""
    command = [sys.executable, "-c", SEARCH.format(**parameters)]
    completed = subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=True, timeout=300
    )
    return completed.stdout + completed.stderr


def printed_to_terminal(**parameters):
    """Return what a search prints in a terminal."""
    pty = pytest.importorskip("pty")  # POSIX only
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH.format(**parameters)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(),
    )
    os.close(terminal)
    chunks = []
    while True:
        try:
            chunk = os.read(controller, 4096)
        except OSError:  # the process has ended
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(controller)
    assert process.wait(timeout=300) == 0
    return b"".join(chunks).decode("utf-8", errors="replace")


@pytest.mark.parametrize("holdout", [None, 0.25])
def test_a_log_file_has_lines_without_a_bar(holdout):
    lines = printed_to_file(holdout=holdout, verbose=1).splitlines()
    assert len(lines) == (1 if holdout is None else 2)
    assert not any("%" in line for line in lines)


def test_a_search_is_silent_by_default():
    assert printed_to_file(holdout=0.25, verbose=0) == ""
    assert printed_to_terminal(holdout=0.25, verbose=0) == ""


@pytest.mark.skipif(not hasattr(GridSearchCV, "set_callbacks"), reason="callbacks came with 1.9")
@pytest.mark.parametrize("holdout", [None, 0.25])
def test_a_terminal_shows_a_bar(holdout):
    pytest.importorskip("rich")
    printed = printed_to_terminal(holdout=holdout, verbose=1)
    assert "100%" in printed
    assert ("verification" in printed) == (holdout is not None)
