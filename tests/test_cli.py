"""The command line: its output, its exit codes, and the files that it leaves alone."""

import contextlib
import csv
import html.parser
import io
import json
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import HoldoutConfig, ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import LedgerUnavailableError
from sklearn_bdp.holdout import ReusableHoldout
from sklearn_bdp.ledger.ledger import Chain, Ledger
from sklearn_bdp.ledger.records import canonical
from tests.facts import refused

N = 300
X = np.zeros((N, 2))
Y = np.zeros(N)


@pytest.fixture
def used_ledger(path):
    holdout = ReusableHoldout(X, Y, ledger=path, budget=5)
    rng = np.random.default_rng(0)
    for number in range(3):
        per_record_scores = rng.integers(0, 2, size=(2, N))
        holdout.answer([0.5, 0.1 * number], per_record_scores, keys=[f"key {number}", None])
    return path


@pytest.fixture
def run_command(command_line, capsys):
    """Return a function that returns the output of a command."""

    def output(*arguments):
        assert command_line("ledger", *arguments) == 0
        return capsys.readouterr().out

    return output


def test_show_reports_state_information_spent_and_latest_answers(used_ledger, run_command):
    text = run_command("show", used_ledger, "--last", 2)
    holdout = ReusableHoldout(X, Y, ledger=used_ledger, budget=5)
    assert "300 records, independent records" in text
    assert "6, batches: 3" in text
    assert f"{holdout.remaining_budget} of 5" in text
    assert f"{holdout.information_spent:.4g} nats, revealed by the answers" in text
    assert f"{holdout.next_code_length:.4g} nats" in text
    assert "key 2" in text
    assert "key 1" not in text


def test_show_of_an_empty_ledger(path, run_command):
    ReusableHoldout(X, Y, ledger=path)
    assert "0, batches: 0" in run_command("show", path)


def test_verify_passes_a_whole_ledger_and_fails_a_broken_one(
    used_ledger, run_command, command_line, capsys
):
    assert "intact, batches: 3" in run_command("verify", used_ledger)
    data = bytearray(used_ledger.read_bytes())
    position = data.index(b"key 1")
    data[position : position + 5] = b"key 9"
    used_ledger.write_bytes(data)
    assert command_line("ledger", "verify", used_ledger) == 1
    assert "LedgerCorruptedError" in capsys.readouterr().err


def test_the_json_export_carries_the_chain(used_ledger, run_command):
    """Whoever has the export can check it without the file: every link follows from the rest."""
    lines = [json.loads(line) for line in run_command("export", used_ledger).splitlines()]
    assert [line["batch"]["number"] for line in lines[1:]] == [1, 2, 3]
    previous = Chain().link("header", canonical(lines[0]["header"]))
    for line in lines[1:]:
        batch = canonical(line["batch"])
        answers = canonical(line["answers"])
        link = Chain().link(previous, "batch", batch, answers, line["commitment"])
        assert link == line["digest"]
        previous = line["digest"]


def test_sealed_noise_is_in_no_output(used_ledger, run_command):
    with contextlib.closing(sqlite3.connect(used_ledger)) as connection:
        rows = connection.execute("SELECT sealed FROM log ORDER BY number").fetchall()
    sealed = json.loads(rows[-1][0])
    for action in ("show", "verify", "export"):
        text = run_command(action, used_ledger)
        assert sealed["salt"] not in text
        assert str(sealed["mechanism"]["threshold_noise"]) not in text


def test_a_missing_file_is_an_error_and_stays_missing(path, command_line, capsys):
    assert command_line("ledger", "show", path) == 1
    assert "LedgerUnavailableError" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("arguments", [[], ["ledger"], ["ledger", "burn", "x"], ["ledger", "show"]])
def test_wrong_usage_exits_with_two(arguments, command_line):
    assert command_line(*arguments) == 2


def test_show_names_metric_model_units_and_time(path, run_command):
    X, y = load_diabetes(return_X_y=True)
    training_rows = np.arange(300)
    holdout_rows = np.arange(300, 442)
    holdout = ReusableHoldout(X[holdout_rows], y[holdout_rows], ledger=path)
    search = ReusableHoldoutSearchCV(
        Ridge(), {"alpha": [0.1, 1.0]}, scoring="neg_mean_absolute_error", holdout=holdout
    ).fit(X[training_rows], y[training_rows])
    text = run_command("show", path)
    assert "alpha=0.1" in text
    assert holdout.history()[0].time[:16] in text
    assert "neg_mean_absolute" in text
    assert f"{search.cv_results_['holdout_lower'][1]:.4g}" in text
    assert "closed" not in text
    report = search.final_report()
    text = run_command("show", path)
    assert f"by the final report of {report.time}" in text
    assert f"{report.value:.4g}" in text
    frame = holdout.history().to_frame()
    assert frame["value"].iloc[-1] == pytest.approx(report.value)
    assert frame["value"].max() < -1.0


# -- machine-readable output ----------------------------------------------------------------------


def test_json_of_show_list_and_verify(used_ledger, run_command, tmp_path):
    facts = json.loads(run_command("show", used_ledger, "--json", "--last", 1))
    assert (facts["records"], facts["answers"], facts["batches"]) == (N, 6, 3)
    assert facts["budget"] == 5
    assert len(facts["latest"]) == 1
    assert sum(facts["users"].values()) == 3
    (line,) = json.loads(run_command("list", tmp_path, "--json"))
    assert (line["ledger"], line["answers"], line["closed"]) == (str(used_ledger), 6, False)
    assert json.loads(run_command("verify", used_ledger, "--json"))["intact"] is True


def test_errors_are_json_too(path, command_line, capsys):
    assert command_line("ledger", "show", path, "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"] == "LedgerUnavailableError"


def test_list_shows_only_ledgers(used_ledger, run_command, tmp_path):
    (tmp_path / "other.sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    (tmp_path / "notes.txt").write_text("x")
    assert [line.partition(": ")[0] for line in run_command("list", tmp_path).splitlines()] == [
        str(used_ledger)
    ]


def test_csv_has_a_row_for_each_answer_and_no_formulas(path, run_command):
    holdout = ReusableHoldout(X, Y, ledger=path)
    holdout.answer([0.5, 0.4], np.zeros((2, N)), keys=["=1+1", "b"])
    rows = list(csv.DictReader(io.StringIO(run_command("export", path, "--format", "csv"))))
    assert [row["key"] for row in rows] == ["'=1+1", "b"]
    assert float(rows[1]["cv_score"]) == 0.4
    assert rows[0]["source"] in ("cv", "holdout")


class Tags(html.parser.HTMLParser):
    """The elements of a page that are open, and those that were seen."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in ("meta", "polyline", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)


def test_a_page_of_html_is_complete_and_escapes_user_text(path, run_command, monkeypatch):
    monkeypatch.setenv("SKLEARN_BDP_USER", "<script>alert(1)</script>")
    holdout = ReusableHoldout(X, Y, ledger=path)
    for number in range(3):
        holdout.answer([0.5], np.zeros((1, N)), keys=[f"<b>{number}"])
    page = run_command("show", path, "--html")
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen
    assert {"svg", "table"} <= set(tags.seen)
    assert "&lt;script&gt;" in page
    assert "a final report now" in page


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser is installed")
def test_a_browser_shows_the_page(used_ledger, run_command, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(run_command("show", used_ledger, "--html"), "utf-8")
    browser = shutil.which(BROWSERS[0]) or shutil.which(BROWSERS[1]) or shutil.which(BROWSERS[2])
    dom = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert dom.count("<tr>") > 6
    assert "polyline" in dom


# -- copies, moves, repairs -----------------------------------------------------------------------


def test_a_moved_ledger_answers_at_its_target_only(
    used_ledger, tmp_path, run_command, command_line, capsys
):
    running = ReusableHoldout(X, Y, ledger=used_ledger, budget=5)
    target = tmp_path / "there.sqlite"
    run_command("move", used_ledger, target)
    for open_it in (lambda: running, lambda: ReusableHoldout(X, Y, ledger=used_ledger, budget=5)):
        with refused(LedgerUnavailableError, "there.sqlite"):
            open_it().answer([0.5], np.zeros((1, N)))
    assert "there.sqlite" in run_command("show", used_ledger)
    moved = ReusableHoldout(X, Y, ledger=target, budget=5)
    assert len(moved.history()) == 6
    moved.answer([0.5], np.zeros((1, N)))
    back = tmp_path / "back.sqlite"
    run_command("move", target, back)  # and once more
    assert len(ReusableHoldout(X, Y, ledger=back, budget=5).history()) == 7
    assert command_line("ledger", "move", used_ledger, tmp_path / "elsewhere.sqlite") == 1
    assert not (tmp_path / "elsewhere.sqlite").exists()


def test_a_move_that_fails_leaves_the_source_in_use_and_no_target(
    used_ledger, tmp_path, command_line
):
    assert command_line("ledger", "move", used_ledger, tmp_path / "missing" / "there.sqlite") == 1
    assert (
        ReusableHoldout(X, Y, ledger=used_ledger, budget=5).answer([0.5], np.zeros((1, N)))
        is not None
    )
    occupied = tmp_path / "occupied.sqlite"
    ReusableHoldout(X + 1.0, Y, ledger=occupied)
    assert command_line("ledger", "move", used_ledger, occupied) == 1
    assert len(ReusableHoldout(X + 1.0, Y, ledger=occupied).history()) == 0
    assert command_line("ledger", "verify", used_ledger) == 0


def test_a_move_that_was_killed_is_completed_by_the_same_command(
    used_ledger, tmp_path, run_command
):
    """Killed after the source was marked: neither answers until the move is run again."""
    target = tmp_path / "there.sqlite"
    Ledger(used_ledger).mark_moved(str(target))
    with refused(LedgerUnavailableError, "there.sqlite"):
        ReusableHoldout(X, Y, ledger=used_ledger, budget=5)
    run_command("move", used_ledger, target)
    run_command("move", used_ledger, target)  # it is complete: nothing changes
    assert len(ReusableHoldout(X, Y, ledger=target, budget=5).history()) == 6


def test_a_move_that_is_run_again_leaves_the_source_closed(used_ledger, tmp_path, run_command):
    """Its target has gone on meanwhile: a source in use would be a second budget."""
    target = tmp_path / "there.sqlite"
    run_command("move", used_ledger, target)
    ReusableHoldout(X, Y, ledger=target, budget=5).answer([0.5], np.zeros((1, N)))
    run_command("move", used_ledger, target)
    with refused(LedgerUnavailableError, "there.sqlite"):
        ReusableHoldout(X, Y, ledger=used_ledger, budget=5)
    assert len(ReusableHoldout(X, Y, ledger=target, budget=5).history()) == 7


def test_a_move_onto_another_ledger_of_the_same_records_leaves_the_source_closed(
    used_ledger, tmp_path, command_line
):
    """It may be the moved ledger in another form, such as an upgraded one."""
    target = tmp_path / "there.sqlite"
    Ledger(used_ledger).mark_moved(str(target))
    ReusableHoldout(X, Y, ledger=target, budget=5)
    assert command_line("ledger", "move", used_ledger, target) == 1
    with refused(LedgerUnavailableError, "there.sqlite"):
        ReusableHoldout(X, Y, ledger=used_ledger, budget=5)


def test_a_copy_of_a_damaged_ledger_is_not_made(used_ledger, tmp_path, command_line):
    with contextlib.closing(sqlite3.connect(used_ledger)) as connection:
        connection.execute("DROP TRIGGER log_update")
        connection.execute("UPDATE log SET answers = replace(answers, 'key 1', 'key 9')")
        connection.commit()
    for action in ("copy", "move"):
        assert command_line("ledger", action, used_ledger, tmp_path / "copy.sqlite") == 1
    assert not (tmp_path / "copy.sqlite").exists()


def test_a_head_that_was_moved_is_repaired_and_no_answer_is_lost(
    used_ledger, run_command, command_line
):
    with contextlib.closing(sqlite3.connect(used_ledger)) as connection:
        connection.execute("UPDATE head SET number = 0")
        connection.commit()
    assert command_line("ledger", "verify", used_ledger) == 1
    run_command("repair", used_ledger)
    assert len(ReusableHoldout(X, Y, ledger=used_ledger, budget=5).history()) == 6
    assert "nothing" in run_command("repair", used_ledger)


def test_a_ledger_with_a_missing_entry_is_not_repaired(used_ledger, command_line):
    """The answers in that entry were given, so the ledger must not continue without them."""
    with contextlib.closing(sqlite3.connect(used_ledger)) as connection:
        connection.execute("DROP TRIGGER log_delete")
        connection.execute("DELETE FROM log WHERE number = 2")
        connection.commit()
    assert command_line("ledger", "repair", used_ledger) == 1
    assert command_line("ledger", "verify", used_ledger) == 1


def test_a_ledger_is_deleted_only_on_request(used_ledger, command_line, capsys):
    assert command_line("ledger", "delete", used_ledger) == 2
    assert "--yes" in capsys.readouterr().err
    assert used_ledger.exists()
    assert command_line("ledger", "delete", used_ledger, "--yes") == 0
    assert list(used_ledger.parent.iterdir()) == []


def test_delete_leaves_other_files_alone(path, command_line):
    path.write_text("mine")
    assert command_line("ledger", "delete", path, "--yes") == 1
    assert path.read_text() == "mine"


@pytest.fixture
def nightly(path):
    """Return a ledger whose second batch has a confirmed and a corrected score."""
    holdout = ReusableHoldout(X, Y, ledger=path, random_state=0)
    hits = np.stack([np.arange(N) < 0.8 * N, np.arange(N) < 0.6 * N])
    holdout.answer([0.8], hits[:1], keys=["first night"])
    holdout.answer([0.97, 0.3], hits, keys=["tree", "stump"])
    return path


@pytest.mark.parametrize(
    ("arguments", "exit_code", "passed"),
    [
        (("--min", 0.5), 0, True),
        (("--min", 0.9), 3, False),
        (("--against", "cv"), 3, False),
        (("--against", "cv", "--model", "stump"), 0, True),
        (("--against", "cv", "--model", "first night", "--min", 0.5), 0, True),
        (("--min", 0.5, "--metric", "r2"), 3, False),
    ],
)
def test_check_compares_the_best_score_of_the_latest_batch(
    nightly, command_line, capsys, arguments, exit_code, passed
):
    n_answers = len(ReusableHoldout(X, Y, ledger=nightly, random_state=0).history())
    assert command_line("check", nightly, "--json", *arguments) == exit_code
    assert json.loads(capsys.readouterr().out)["passed"] is passed
    holdout = ReusableHoldout(X, Y, ledger=nightly, random_state=0)
    assert len(holdout.history()) == n_answers


def test_check_reads_the_ledger_that_the_environment_names(
    nightly, command_line, monkeypatch, capsys
):
    monkeypatch.setenv("SKLEARN_BDP_LEDGER", str(nightly))
    assert command_line("check", "--min", 0.5) == 0
    assert capsys.readouterr().out.startswith("passed")


def test_check_judges_a_search_that_took_recorded_answers(path, command_line, capsys):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(400, 2))
    labels = (data[:, 0] > 0).astype(int)

    def passes():
        capsys.readouterr()
        passed = command_line("check", path, "--min", 0.9, "--max-age", 1.0) == 0
        return passed, "recorded answer" in capsys.readouterr().out

    pipelines = {
        name: make_pipeline(
            make_column_transformer(("passthrough", [column])),
            DecisionTreeClassifier(max_depth=1, random_state=0),
        )
        for column, name in enumerate(("good", "bad"))
    }
    for name, is_repeated in (
        ("bad", False),
        ("good", False),
        ("good", False),  # the latest answers again
        ("bad", True),
        ("good", True),
        ("good", True),
    ):
        search = ReusableHoldoutSearchCV(
            pipelines[name],
            {"decisiontreeclassifier__max_depth": [1]},
            holdout=HoldoutConfig(ledger=path),
        ).fit(data, labels)
        assert passes() == (name == "good", is_repeated)
        assert (search.best_score_ > 0.9) == (name == "good")
    assert command_line("check", path, "--min", 0.5, "--max-age", 1e-9) == 3
    assert "older than" in capsys.readouterr().out
    assert command_line("check", path, "--min", 0.5, "--max-age", -1.0) == 2


def test_check_of_an_empty_ledger_fails(path, command_line):
    ReusableHoldout(X, Y, ledger=path)
    assert command_line("check", path, "--min", 0.5) == 3


@pytest.mark.parametrize("arguments", [(), ("--min", "nan"), ("--min", "high")])
def test_check_without_a_condition_is_wrong_usage(nightly, command_line, arguments):
    try:
        exit_code = command_line("check", nightly, *arguments)
    except SystemExit as error:
        exit_code = error.code
    assert exit_code == 2


def test_check_of_a_missing_ledger_is_an_error_and_creates_no_file(path, command_line, capsys):
    assert command_line("check", path, "--min", 0.5) == 1
    assert "LedgerUnavailableError" in capsys.readouterr().err
    assert not path.exists()
