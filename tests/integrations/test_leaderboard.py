"""The leaderboard of the examples: its rules, its memory, and its server."""

import functools
import http.client
import importlib.util
import json
import sys
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    roc_auc_score,
)

from benchmarks.mechanisms import Ladder
from sklearn_bdp.exceptions import HoldoutClosedError
from tests.facts import refused

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
EVIDENCE = ROOT / "doc" / "how_it_works" / "evidence.md"


def load_example(name):
    """Import a module of the examples by name, as a script beside it does."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


leaderboard = load_example("leaderboard")
Board = leaderboard.Board
SubmissionRejectedError = leaderboard.SubmissionRejectedError

N = 1_000
TOKENS = {
    "token of ann": "ann",
    "token of bob": "bob",
    "token of eve": "eve",
    "token of joe": "joe",
}
ORGANIZER = "token of the organizer"


@pytest.fixture
def y():
    return np.random.default_rng(7).integers(0, 2, N)


@pytest.fixture
def board(y):
    return Board(y, classes=[0, 1], random_state=0)


def labels_with(y, n_right, seed=0):
    """Return labels of which exactly ``n_right`` are right."""
    is_wrong = np.random.default_rng(seed).permutation(len(y)) >= n_right
    return np.where(is_wrong, 1 - y, y)


def places(board):
    return {row["account"]: row["place"] for row in board.standings()}


# -- places -----------------------------------------------------------------------------------


def test_coin_flips_that_come_first_do_not_take_the_first_place(y, board):
    for bot in range(5):
        board.submit(f"bot {bot}", "coin flips", labels_with(y, 500, bot), 0.5)
    board.submit("ann", "model", labels_with(y, 800), 0.8)
    assert places(board) == {"ann": 1} | {f"bot {bot}": 2 for bot in range(5)}


def test_accounts_within_a_step_share_a_place(y, board):
    board.submit("ann", "model", labels_with(y, 800, 1), 0.8)
    board.submit("bob", "model", labels_with(y, 830, 2), 0.83)
    board.submit("eve", "model", labels_with(y, 600, 3), 0.6)
    assert places(board) == {"ann": 1, "bob": 1, "eve": 3}
    assert [row["account"] for row in board.standings()] == ["bob", "ann", "eve"]


@pytest.mark.parametrize("expected_score", [0.0, 0.7, 0.76, 0.84, 0.845, 0.9, 1.0])
def test_expected_score_changes_the_score_by_at_most_half_a_step(y, board, expected_score):
    """So that no claim puts an account ahead of another with the same raw score."""
    reply = board.submit("eve", "claim", labels_with(y, 800, 1), expected_score)
    assert abs(reply["score"] - 0.8) < board.step / 2 + 0.005  # noise and rounding
    board.submit("ann", "model", labels_with(y, 800, 2), 0.8)
    assert places(board) == {"eve": 1, "ann": 1}


def test_best_submission_of_an_account_counts(y, board):
    board.submit("ann", "good", labels_with(y, 800, 1), 0.8)
    board.submit("ann", "bad", labels_with(y, 780, 2), 0.78)
    (row,) = board.standings()
    assert row["name"] == "good"


# -- other scores -----------------------------------------------------------------------------

RAW_SCORES = {
    "balanced_accuracy": balanced_accuracy_score,
    "roc_auc": roc_auc_score,
    "average_precision": average_precision_score,
    "f1_macro": functools.partial(f1_score, average="macro"),
    "f1_micro": functools.partial(f1_score, average="micro"),
    "f1_weighted": functools.partial(f1_score, average="weighted"),
}


def predictions_of(y, scoring, noise=0.3):
    """Return predictions in the form that a score takes, and the raw score."""
    rng = np.random.default_rng(1)
    probability = np.clip(0.5 + 0.3 * (2 * y - 1) + noise * rng.normal(size=len(y)), 0.0, 1.0)
    if scoring in ("roc_auc", "average_precision"):
        columns = np.column_stack([1.0 - probability, probability])
        return columns, RAW_SCORES[scoring](y, probability)
    labels = (probability > 0.5).astype(int)
    return labels, RAW_SCORES[scoring](y, labels)


def test_every_score_of_a_board_is_tested():
    assert {"accuracy", *RAW_SCORES} == set(leaderboard.SCORES)


@pytest.mark.parametrize("expected_score", [0.2, 0.6, 1.0, None])
@pytest.mark.parametrize("scoring", RAW_SCORES)
def test_score_is_within_half_a_step_of_the_raw_score(y, scoring, expected_score):
    board = Board(y, classes=[0, 1], scoring=scoring, step=0.2)
    training_y = np.random.default_rng(2).integers(0, 2, 3 * N)
    training_predictions, _ = predictions_of(training_y, scoring)
    predictions, raw_score = predictions_of(y, scoring)
    reply = board.submit(
        "ann", "model", predictions, expected_score, (training_y, training_predictions)
    )
    assert abs(reply["score"] - raw_score) < board.step / 2 + 0.03  # noise


def test_board_of_roc_auc_survives_a_restart_and_reports_the_first_place(y, path, tmp_path):
    folder = tmp_path / "submissions"
    start = functools.partial(
        Board, y, classes=[0, 1], scoring="roc_auc", step=0.1, ledger=path, folder=folder
    )
    board = start()
    best, best_score = predictions_of(y, "roc_auc", noise=0.3)
    board.submit("ann", "model", best, 0.9)
    board.submit("bob", "model", predictions_of(y, "roc_auc", noise=1.5)[0], 0.6)
    assert places(board) == {"ann": 1, "bob": 2}
    restarted = start()
    assert restarted.standings() == board.standings()
    (row,) = restarted.finish(1).rows
    assert (row.model, row.metric) == ("ann", "roc_auc")
    assert row.value == pytest.approx(best_score)


def test_a_restarted_board_keeps_its_score(y, path):
    start = functools.partial(Board, y, classes=[0, 1], step=0.1, ledger=path)
    start().submit("ann", "model", labels_with(y, 800), 0.8)
    with refused(ValueError, "balanced_accuracy"):
        start(scoring="balanced_accuracy")
    assert places(start()) == {"ann": 1}


def test_score_without_proven_bound_needs_training_predictions(y, tmp_path):
    board = Board(y, classes=[0, 1], scoring="f1_macro", step=0.2, folder=tmp_path)
    with refused(ValueError, "training_predictions"):
        board.submit("ann", "model", labels_with(y, 800), 0.8)
    assert list(tmp_path.iterdir()) == []
    assert board.costs() == {}


@pytest.mark.parametrize(
    ("scoring", "step"), [("neg_log_loss", None), ("r2", 0.1), ("roc_auc", None)]
)
def test_board_rejects_scores_without_a_step(y, scoring, step):
    with refused(ValueError, scoring):
        Board(y, classes=[0, 1], scoring=scoring, step=step)


# -- budgets ----------------------------------------------------------------------------------


def test_account_is_rejected_once_its_budget_is_used_up(y, board):
    board.submit("eve", "surprise", labels_with(y, 800, 1), 0.3)
    spent = board.holdout.information_spent
    assert board.costs()["eve"] > board.account_budget
    with pytest.raises(SubmissionRejectedError):
        board.submit("eve", "next", labels_with(y, 800, 2), 0.8)
    assert board.holdout.information_spent == spent
    assert board.submit("ann", "model", labels_with(y, 800, 3), 0.8)["nats_left"] > 0


def test_contest_is_rejected_once_its_budget_is_used_up(y):
    board = Board(y, classes=[0, 1], contest_budget=2.0, random_state=0)
    board.submit("eve", "surprise", labels_with(y, 800, 1), 0.3)
    with pytest.raises(SubmissionRejectedError):
        board.submit("ann", "model", labels_with(y, 800, 2), 0.8)


def test_costs_add_up_to_the_information_spent(y, board):
    for number in range(12):
        expected_score = 0.7 if number % 3 else 0.6
        board.submit(f"account {number}", "model", labels_with(y, 700, number), expected_score)
    costs = board.costs()
    assert len(costs) == 12
    assert min(costs.values()) > 0
    assert sum(costs.values()) == pytest.approx(board.holdout.information_spent)


def test_quota_counts_new_submissions_only(y):
    board = Board(y, classes=[0, 1], quota=2, random_state=0)
    first_reply = board.submit("ann", "model", labels_with(y, 800, 1), 0.8)
    repeated_reply = board.submit("ann", "the same", labels_with(y, 800, 1), 0.8)
    assert repeated_reply == first_reply
    board.submit("ann", "second", labels_with(y, 800, 2), 0.8)
    with pytest.raises(SubmissionRejectedError):
        board.submit("ann", "third", labels_with(y, 800, 3), 0.8)


def test_predictions_of_another_account_take_no_place(y, board):
    board.submit("ann", "model", labels_with(y, 800, 1), 0.8)
    spent = board.holdout.information_spent
    with pytest.raises(SubmissionRejectedError):
        board.submit("eve", "copy", labels_with(y, 800, 1), 0.8)
    assert board.holdout.information_spent == spent
    assert places(board) == {"ann": 1}


def test_removed_account_leaves_the_board_and_its_cost_stays(y, path):
    board = Board(y, classes=[0, 1], random_state=0, ledger=path)
    board.submit("eve", "model", labels_with(y, 950, 1), 0.95)
    board.submit("ann", "model", labels_with(y, 800, 2), 0.8)
    assert places(board) == {"eve": 1, "ann": 2}
    costs = board.costs()
    board.remove("eve")
    board.remove("eve")  # once is enough
    for current in (board, Board(y, classes=[0, 1], random_state=0, ledger=path)):
        assert places(current) == {"ann": 1}
        assert current.costs() == pytest.approx(costs)
        with pytest.raises(SubmissionRejectedError):
            current.submit("eve", "again", labels_with(y, 950, 3), 0.95)
    with refused(ValueError, "nobody"):
        board.remove("nobody")


# -- memory -----------------------------------------------------------------------------------


@pytest.fixture
def start(y, path, tmp_path):
    """Return a function that starts the board of one ledger and one folder."""
    folder = tmp_path / "submissions"
    return lambda: Board(y, classes=[0, 1], quota=3, random_state=0, ledger=path, folder=folder)


@pytest.fixture
def board_before_restart(y, start):
    """Return a board with submissions of three accounts, which is then started again."""
    board = start()
    for account, n_right in zip(
        ["ann", "bob", "ann", "eve", "bob"], [700, 900, 720, 500, 880], strict=True
    ):
        board.submit(account, f"model: {n_right}", labels_with(y, n_right, n_right), n_right / N)
    return board


def test_restarted_board_has_the_same_standings_costs_and_quotas(y, board_before_restart, start):
    restarted = start()
    assert restarted.standings() == board_before_restart.standings()
    assert restarted.costs() == pytest.approx(board_before_restart.costs())
    reply = restarted.submit("ann", "last", labels_with(y, 710, 9), 0.71)
    assert reply["submissions_left"] == 0


def test_restarted_board_reports_on_the_accounts_that_the_rule_ranks(
    y, board_before_restart, start
):
    report = start().finish(2)
    assert [row.model for row in report.rows] == ["bob", "ann"]
    assert [row.value for row in report.rows] == pytest.approx([0.9, 0.72], abs=0.01)


def test_finished_board_keeps_its_costs_and_takes_nothing_new(y, board_before_restart, start):
    board_before_restart.finish(2)
    assert start().costs() == pytest.approx(board_before_restart.costs())
    with pytest.raises(HoldoutClosedError):
        start().submit("eve", "late", labels_with(y, 500, 10), 0.5)


def test_board_without_folder_stays_open_after_a_restart(y, path):
    Board(y, classes=[0, 1], ledger=path).submit("ann", "model", labels_with(y, 800), 0.8)
    restarted = Board(y, classes=[0, 1], ledger=path)
    with refused(ValueError, "folder"):
        restarted.finish(1)
    restarted.submit("bob", "model", labels_with(y, 810, 1), 0.81)


def test_report_is_on_all_accounts_that_share_the_last_place(y, board):
    for account, n_right in (("ann", 800), ("bob", 820), ("eve", 500)):
        labels = labels_with(y, n_right, n_right)
        board.submit(account, "model", labels, n_right / N)
    report = board.finish(1)
    assert [row.model for row in report.rows] == ["bob", "ann"]


def test_empty_board_stays_open(y, board):
    with refused(ValueError, "empty"):
        board.finish(1)
    board.submit("ann", "model", labels_with(y, 800), 0.8)


def test_rejected_labels_are_not_kept(y, tmp_path):
    folder = tmp_path / "submissions"
    board = Board(y, classes=[0, 1], folder=folder)
    spent = board.holdout.information_spent
    for labels in (y[:-1], np.full(N, 7), ["a"] * N, [None] * N, [10**400] * N):
        with pytest.raises((TypeError, ValueError)):
            board.submit("eve", "bad", labels)
    assert list(folder.iterdir()) == []
    assert board.costs() == {}
    assert board.holdout.information_spent == spent


def test_submission_does_not_read_the_history(y, board, monkeypatch):
    def fail():
        raise AssertionError("the history was read")

    monkeypatch.setattr(board.holdout, "history", fail)
    board.submit("ann", "model", labels_with(y, 800), 0.8)
    assert len(board.standings()) == 1


@pytest.mark.slow
def test_time_of_a_submission_does_not_grow_with_their_number():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100)
    limits = dict.fromkeys(("quota", "account_budget", "contest_budget"), 10**9)
    board = Board(y, classes=[0, 1], random_state=0, **limits)
    seconds = []
    for number in range(10_100):
        labels = np.where(rng.random(100) < 0.7, y, 1 - y)
        start = time.perf_counter()
        board.submit(f"account {number % 50}", "model", labels, 0.7)
        seconds.append(time.perf_counter() - start)
    # The fastest of a hundred: other processes only make some of them slower.
    assert min(seconds[10_000:]) < 2.0 * min(seconds[10:110])


# -- over HTTP --------------------------------------------------------------------------------


@pytest.fixture
def serve():
    """Return a function that starts a server on a board; it ends with the test."""
    pytest.importorskip("flask")
    server_module = load_example("leaderboard_server")
    servers = []

    def start(board):
        app = server_module.make_app(board, TOKENS, organizer_token=ORGANIZER)
        servers.append(server_module.start_server(app))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def submit(server, *arguments):
    return load_example("leaderboard_server").submit(server, *arguments)


def send(server, method, path, *, body=b"", headers=None, token="token of ann"):
    """Send a request with exactly these headers; return status and content of the reply."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.putrequest(method, path)
        sent = {"Content-Length": str(len(body)), "Authorization": f"Bearer {token}"}
        for name, value in (sent | (headers or {})).items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


N_RIGHT = {"ann": 600, "bob": 900, "eve": 500}


@pytest.fixture
def contest_over_http(y, serve):
    """Return a board after three participants submitted at the same time, server and replies."""
    board = Board(y, classes=[0, 1], quota=4, random_state=0)
    server = serve(board)

    def submit_models(account):
        token = f"token of {account}"
        n_right = N_RIGHT[account]
        return [
            submit(server, token, f"model {number}", labels_with(y, n_right, number), n_right / N)
            for number in range(4)
        ]

    with ThreadPoolExecutor(3) as executor:
        replies = dict(zip(N_RIGHT, executor.map(submit_models, N_RIGHT), strict=True))
    return board, server, replies


def test_participants_in_threads_are_scored(y, contest_over_http):
    _, server, replies = contest_over_http
    assert [reply["submissions_left"] for reply in replies["bob"]] == [3, 2, 1, 0]
    with pytest.raises(urllib.error.HTTPError) as rejected:
        submit(server, "token of bob", "more", labels_with(y, 900, 9), 0.9)
    assert rejected.value.code == 403


def test_standings_over_http_are_those_of_the_board(contest_over_http):
    board, server, _ = contest_over_http
    assert send(server, "GET", "/") == (200, board.standings())
    assert board.standings()[0]["account"] == "bob"
    assert places(board)["bob"] == 1


def test_finished_contest_gets_status_410(y, contest_over_http):
    board, server, _ = contest_over_http
    row = board.finish(1).rows[0]
    assert row.model == "bob"
    assert row.lower < 0.9 < row.upper
    reply = send(server, "POST", "/", body=submission(y, "late"), token="token of joe")
    assert reply[0] == 410


def submission(y, name="model", **changes):
    content = {"name": name, "predictions": [int(label) for label in labels_with(y, 800)]} | changes
    return json.dumps(content).encode()


BAD_BODIES = {
    "empty": b"",
    "no JSON": b"labels: 1",
    "no text": b"\xff\xfe",
    "nested": b"[" * 200_000,
    "nested predictions": b'{"name": "x", "predictions": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "list": b"[1, 2]",
    "nothing": b"{}",
    "no predictions": b'{"name": "x"}',
    "predictions of another kind": b'{"name": "x", "predictions": [null, {}]}',
    "no values": b'{"name": "x", "predictions": []}',
    "few predictions": b'{"name": "x", "predictions": [0, 1]}',
    "long number": b'{"name": "x", "predictions": [1' + b"0" * 5_000 + b"]}",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_bad_body_gets_status_400_and_a_text(y, board, serve, body):
    status, content = send(serve(board), "POST", "/", body=body)
    assert status == 400
    assert len(content["error"]) > 20
    assert board.costs() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": None},
        {"name": ""},
        {"name": 3},
        {"name": "x" * 101},
        {"expected_score": "high"},
        {"expected_score": 2.0},
        {"expected_score": float("nan")},
        {"predictions": [7] * N},
        {"predictions": [[0, 1], [0]]},
        {"predictions": "0" * N},
        {"training_predictions": [[0, 1]]},
        {"training_predictions": [[0, 1], [0]]},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_bad_field_gets_status_400_and_a_text(y, board, serve, changes):
    status, content = send(serve(board), "POST", "/", body=submission(y, **changes))
    assert status == 400
    assert len(content["error"]) > 20
    assert board.costs() == {}


def test_probabilities_and_training_predictions_are_sent_as_json(y, serve):
    board = Board(y, classes=[0, 1], scoring="average_precision", step=0.2, random_state=0)
    predictions, raw_score = predictions_of(y, "average_precision")
    training_pair = [y.tolist(), predictions.tolist()]
    body = submission(y, predictions=predictions.tolist(), training_predictions=training_pair)
    status, content = send(serve(board), "POST", "/", body=body)
    assert status == 200
    assert content["score"] == pytest.approx(raw_score, abs=0.13)


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "", None])
def test_bad_content_length_gets_status_400_and_a_text(y, board, serve, length):
    headers = {"Content-Length": length}
    status, content = send(serve(board), "POST", "/", body=submission(y), headers=headers)
    assert status == 400
    assert "Content-Length" in content["error"]
    assert board.costs() == {}


def test_too_large_submission_gets_status_413(y, board, serve):
    headers = {"Content-Length": str(10**8)}
    status, _ = send(serve(board), "POST", "/", headers=headers)
    assert status == 413


def test_unknown_token_gets_status_401(y, board, serve):
    server = serve(board)
    for token in ("", "token of nobody", "tökén"):
        assert send(server, "POST", "/", body=submission(y), token=token)[0] == 401


@pytest.fixture
def submitted(y, board, serve):
    """Return the server of a board after one submission of ann."""
    server = serve(board)
    assert send(server, "POST", "/", body=submission(y, expected_score=0.8))[0] == 200
    return server


@pytest.mark.parametrize("token", ["", "token of ann"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/costs"), ("POST", "/remove/ann")])
def test_only_the_organizer_sees_costs_and_removes_accounts(board, submitted, method, path, token):
    assert send(submitted, method, path, token=token)[0] == 401
    assert places(board) == {"ann": 1}
    assert send(submitted, method, path, token=ORGANIZER)[0] == 200


def test_organizer_sees_the_costs_of_removed_accounts(y, board, submitted):
    costs = board.costs()
    assert send(submitted, "GET", "/costs", token=ORGANIZER) == (200, costs)
    assert send(submitted, "POST", "/remove/nobody", token=ORGANIZER)[0] == 400
    assert send(submitted, "POST", "/remove/ann", token=ORGANIZER) == (200, [])
    assert send(submitted, "GET", "/costs", token=ORGANIZER) == (200, costs)
    assert send(submitted, "POST", "/", body=submission(y, "again"))[0] == 403


# -- attacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "n_guesses", "min_raw_score"),
    [
        (0, 150, 0.56),
        *(pytest.param(seed, 500, 0.62, marks=pytest.mark.slow) for seed in range(10)),
    ],
)
def test_the_majority_attack_climbs_a_raw_board_only(seed, n_guesses, min_raw_score):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N)

    def raw(labels):
        return float(np.mean(labels == y))

    ladder = Ladder(0.03)
    # The attack is not stopped by a budget here.
    board = Board(y, classes=[0, 1], quota=501, account_budget=1e9, random_state=seed)
    board.submit("bot", "coin flips", rng.integers(0, 2, N), 0.5)
    boards = {
        "raw": raw,
        "ladder": lambda labels: ladder.answer(0.5, raw(labels)).values,
        "ours": lambda labels: board.submit("eve", "guess", labels, 0.5)["score"],
    }
    final_scores = {}
    for name, score in boards.items():
        labels = leaderboard.majority_attack(score, N, n_guesses, np.random.default_rng(100 + seed))
        final_scores[name] = float(score(labels))
    print(final_scores)
    assert final_scores["raw"] > min_raw_score
    assert final_scores["ladder"] == pytest.approx(0.5, abs=0.05)
    assert final_scores["ours"] == pytest.approx(0.5, abs=0.02)
    assert places(board) == {"bot": 1, "eve": 1}


@functools.cache
def play_contests(n_contests):
    """Return the contests; all tests share them."""
    return [load_example("leaderboard_contests").play_contest(seed) for seed in range(n_contests)]


@pytest.fixture(
    params=[4, pytest.param(120, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids="{} contests".format,
)
def contests(request):
    """Return contests with bots, colluding accounts and ten teams."""
    return play_contests(request.param)


def n_first(contests, account_kind):
    return load_example("leaderboard_contests").count_at_first_place(contests, account_kind)


def test_best_team_is_at_the_first_place_and_no_bot_is(contests):
    best_team = load_example("leaderboard_contests").BEST_TEAM
    assert n_first(contests, best_team) >= 0.99 * len(contests)
    assert n_first(contests, "bot") == 0


def test_gain_of_colluding_accounts_is_below_one_step(contests):
    """Also if they know the number of labels that is best to flip."""
    assert max(contest.best_gain for contest in contests) < 1.0


def test_final_intervals_of_contests_contain_the_accuracies(contests):
    n_missed = sum(not all(contest.is_covered) for contest in contests)
    # At most 5% of the reports may miss an accuracy.
    assert n_missed <= binom.ppf(0.999, len(contests), 0.05)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_evidence_shows_the_summary_of_contests():
    summary = load_example("leaderboard_contests").summary(play_contests(120))
    assert "\n".join(summary) in EVIDENCE.read_text(encoding="utf-8")
