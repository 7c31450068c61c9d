"""The command line: what it says, what it exits with, what it leaves alone."""

import contextlib
import json
import sqlite3

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.ledger.ledger import Chain
from sklearn_bdp.ledger.records import canonical

N = 300
X, Y = np.zeros((N, 2)), np.zeros(N)


@pytest.fixture
def used(path):
    holdout = ReusableHoldout(X, Y, ledger=path, budget=5)
    rng = np.random.default_rng(0)
    for number in range(3):
        raw = rng.integers(0, 2, size=(2, N))
        holdout.answer([0.5, 0.1 * number], raw, keys=[f"key {number}", None])
    return path


@pytest.fixture
def said(command_line, capsys):
    """Return what prints the output of a command."""

    def output(*arguments):
        assert command_line("ledger", *arguments) == 0
        return capsys.readouterr().out

    return output


def test_show_tells_state_fuel_and_latest_answers(used, said):
    text = said("show", used, "--last", 2)
    holdout = ReusableHoldout(X, Y, ledger=used, budget=5)
    assert "300 records, independent records" in text
    assert "6, batches: 3" in text
    assert f"{holdout.remaining_budget} of 5" in text
    assert f"{holdout.information_spent:.4g} nats" in text
    assert "key 2" in text
    assert "key 1" not in text


def test_show_of_an_empty_ledger(path, said):
    ReusableHoldout(X, Y, ledger=path)
    assert "0, batches: 0" in said("show", path)


def test_verify_passes_a_whole_ledger_and_fails_a_broken_one(used, said, command_line, capsys):
    assert "intact, batches: 3" in said("verify", used)
    data = bytearray(used.read_bytes())
    place = data.index(b"key 1")
    data[place : place + 5] = b"key 9"
    used.write_bytes(data)
    assert command_line("ledger", "verify", used) == 1
    assert "LedgerCorruptedError" in capsys.readouterr().err


def test_the_json_export_carries_the_chain(used, said):
    """Whoever has the export can check it without the file: every link follows from the rest."""
    lines = [json.loads(line) for line in said("export", used).splitlines()]
    assert [line["batch"]["number"] for line in lines[1:]] == [1, 2, 3]
    previous = Chain().link("header", canonical(lines[0]["header"]))
    for line in lines[1:]:
        batch, answers = canonical(line["batch"]), canonical(line["answers"])
        link = Chain().link(previous, "batch", batch, answers, line["commitment"])
        assert link == line["digest"]
        previous = line["digest"]


def test_sealed_noise_is_in_no_output(used, said):
    with contextlib.closing(sqlite3.connect(used)) as connection:
        rows = connection.execute("SELECT sealed FROM log ORDER BY number").fetchall()
    sealed = json.loads(rows[-1][0])
    for action in ("show", "verify", "export"):
        text = said(action, used)
        assert sealed["salt"] not in text
        assert str(sealed["mechanism"]["threshold_noise"]) not in text


def test_a_missing_file_is_an_error_and_stays_missing(path, command_line, capsys):
    assert command_line("ledger", "show", path) == 1
    assert "LedgerUnavailableError" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("arguments", [[], ["ledger"], ["ledger", "burn", "x"], ["ledger", "show"]])
def test_wrong_usage_exits_with_two(arguments, command_line):
    assert command_line(*arguments) == 2


def test_show_names_metric_model_units_and_time(path, said):
    X, y = load_diabetes(return_X_y=True)
    train, held = np.arange(300), np.arange(300, 442)
    holdout = ReusableHoldout(X[held], y[held], ledger=path)
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, scoring="neg_mean_absolute_error", holdout=holdout
    ).fit(X[train], y[train])
    text = said("show", path)
    assert "alpha=0.1" in text
    assert holdout.history()[0].time[:16] in text
    assert "neg_mean_absolute" in text
    assert f"{search.cv_results_['holdout_lower'][1]:.4g}" in text
    assert "closed" not in text
    report = search.final_report()
    text = said("show", path)
    assert f"by the final report of {report.time}" in text
    assert f"{report.value:.4g}" in text
    frame = holdout.history().to_frame()
    assert frame["value"].iloc[-1] == pytest.approx(report.value)
    assert frame["value"].max() < -1.0
