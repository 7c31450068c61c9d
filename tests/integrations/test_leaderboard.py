"""The leaderboard of the examples, played by participants who submit over HTTP."""

import importlib.util
import threading
import urllib.error
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mechanisms import Ladder
from sklearn_bdp.exceptions import HoldoutClosedError

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "leaderboard.py"
spec = importlib.util.spec_from_file_location("leaderboard", SCRIPT)
leaderboard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(leaderboard)

N = 1_000
TOKENS = {"token of ann": "ann", "token of bob": "bob", "token of eve": "eve"}


@pytest.fixture
def y():
    return np.random.default_rng(7).integers(0, 2, N)


def said(y, right, seed):
    return np.where(np.random.default_rng(seed).random(len(y)) < right, y, 1 - y)


def test_participants_in_threads_are_scored_and_ranked(y, path):
    board = leaderboard.Board(y, classes=[0, 1], quota=4, random_state=0, ledger=path)
    server = leaderboard.serve(board, TOKENS)
    told, right = {}, {"ann": 0.6, "bob": 0.9, "eve": 0.5}

    def play(by):
        told[by] = [
            leaderboard.submit(server, f"token of {by}", f"{by} {i}", said(y, right[by], i))
            for i in range(4)
        ]

    threads = [threading.Thread(target=play, args=(by,)) for by in right]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["left"] for row in told["bob"]] == [3, 2, 1, 0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        leaderboard.submit(server, "token of bob", "more", said(y, 0.9, 9))
    assert refused.value.code == 429
    for token, labels, code in (
        ("token of nobody", y, 403), ("token of eve", y[:-1], 429), ("token of ann", [], 429)
    ):  # fmt: skip
        with pytest.raises(urllib.error.HTTPError) as refused:
            leaderboard.submit(server, token, "x", labels)
        assert refused.value.code == code
    server.shutdown()
    table = board.table()
    assert table[0]["by"] == "bob"
    assert table[0]["place"] == 1
    assert table[0]["score"] == pytest.approx(0.9, abs=0.06)
    again = leaderboard.Board(y, classes=[0, 1], quota=4, random_state=0, ledger=path)
    assert again.table() == table  # a restarted server reads the ledger
    report = board.finish(2)
    assert report.rows[0].model == "bob"
    assert report.rows[0].lower < 0.9 < report.rows[0].upper
    with pytest.raises(HoldoutClosedError):
        leaderboard.Board(y, classes=[0, 1], ledger=path).submit("eve", "late", y)


def test_a_bad_submission_costs_nothing(y):
    board = leaderboard.Board(y, classes=[0, 1], quota=3)
    server = leaderboard.serve(board, TOKENS)
    for labels in (y[:-1], np.full(N, 7), ["a"] * N):
        with pytest.raises(urllib.error.HTTPError) as refused:
            leaderboard.submit(server, "token of eve", "x", labels)
        assert refused.value.code == 400
    assert board.table() == []
    assert leaderboard.submit(server, "token of eve", "x", y)["left"] == 2
    server.shutdown()


def test_a_place_moves_only_when_it_is_told_from_the_leaders(y):
    board = leaderboard.Board(y, classes=[0, 1], random_state=0)
    first = board.submit("ann", "one", said(y, 0.8, 1))
    same = board.submit("bob", "almost", said(y, 0.8, 2))
    assert (first["place"], same["place"], same["told"]) == (1, 1, False)
    assert board.standings()[1].submitter == "ann"
    better = board.submit("bob", "better", said(y, 0.97, 3))
    assert (better["place"], better["told"]) == (1, True)
    assert board.standings()[1].submitter == "bob"


@pytest.mark.parametrize(
    ("seed", "guesses", "raw_says"),
    [
        (0, 150, 0.56),
        *(pytest.param(seed, 500, 0.62, marks=pytest.mark.slow) for seed in range(10)),
    ],
)
def test_the_majority_attack_climbs_a_raw_board_only(seed, guesses, raw_says):
    """A step of 4 deviations: one of 500 guesses takes a place with a probability of 1.6%."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N)

    def raw(labels):
        return float(np.mean(labels == y))

    ladder = Ladder(0.03)
    board = leaderboard.Board(y, classes=[0, 1], quota=501, random_state=seed)
    boards = {
        "raw": raw,
        "ladder": lambda labels: ladder.answer(0.5, raw(labels)).values,
        "ours": lambda labels: board.submit("eve", None, labels)["score"],
    }
    shown = {}
    for name, score in boards.items():
        labels = leaderboard.majority_attack(score, N, guesses, np.random.default_rng(100 + seed))
        shown[name] = float(score(labels))
    print(shown)
    assert shown["raw"] > raw_says
    assert shown["ladder"] == pytest.approx(0.5, abs=0.05)
    assert shown["ours"] == pytest.approx(0.5, abs=0.02)
