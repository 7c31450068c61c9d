"""
A leaderboard that cannot be climbed by chance
==============================================

An organizer keeps the targets of a private test set. Participants submit labels over HTTP and are
told a released score and a place. Scores go through a reusable holdout, so that a place is taken
from the leader only by a submission that the holdout tells from the leader's (Blum and Hardt 2015
call this a Ladder). A step is four standard deviations: one of 500 guesses takes a place by luck
with a probability of 1.6%. Each participant has a quota, and a final report gives the finalists
intervals that hold for all of them. Standings are read from the ledger: the server may be
restarted.

Only the standard library serves. Run it: ``python examples/leaderboard.py``.
"""

import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.exceptions import BudgetExhaustedError, HoldoutClosedError
from sklearn_bdp.holdout import ExpertSettings

LARGEST = 10_000_000  # bytes of a submission


class Board:
    """The organizer's side: targets, quotas, standings.

    ``deviations``: from which distance to the leader's score a submission is told from it, in
    standard deviations of the accuracy of a guess.
    """

    def __init__(self, y, *, classes, quota=100, deviations=4.0, **parameters):
        step = deviations * np.sqrt(0.25 / len(y))
        self.holdout = ReusableHoldout.from_targets(
            y,
            training_targets=classes,
            expert=ExpertSettings(threshold=min(step, 1.0)),
            **parameters,
        )
        self.quota = quota
        self._lock = threading.Lock()
        self._labels = {}  # of each participant's best submission, for the final report

    def standings(self):
        """Return ``{participant: best answer}`` and the leader's answer, from the ledger."""
        best, leader = {}, None
        for answer in self.holdout.history():
            told = answer.source == "holdout"  # from what was expected: the leader's score
            if leader is None or (told and answer.value > leader.value):
                leader = answer
            mine = best.get(answer.submitter)
            if mine is None or (told and answer.value > mine.value):
                best[answer.submitter] = answer
        return best, leader

    def table(self):
        """Return the public board: who is told from the leader stands behind."""
        best, leader = self.standings()
        rows = []
        for by, mine in best.items():
            tied = mine is leader or mine.source == "cv"
            ahead = sum(
                other is leader or (other.source == "holdout" and other.value > mine.value)
                for other in best.values()
            )
            rows.append({"by": by, "name": mine.model, "score": round(mine.value, 4),
                         "place": 1 if tied else 1 + ahead})  # fmt: skip
        return sorted(
            rows, key=lambda row: (row["place"], row["by"] != leader.submitter, row["by"])
        )

    def submit(self, by, name, labels):
        """Answer one submission."""
        labels = np.asarray(labels)
        with self._lock:
            used = sum(answer.submitter == by for answer in self.holdout.history())
            if used >= self.quota:
                raise PermissionError(f"{by} has used all {self.quota} submissions.")
            before, leader = self.standings()
            expected = None if leader is None else leader.value
            answer = self.holdout.answer_predictions(
                labels, cv_score=expected, name=name, submitter=by
            )
            told = answer.source == "holdout" and by in before and answer.value > before[by].value
            if by not in before or told:
                self._labels[by] = labels
        place = next((row["place"] for row in self.table() if row["by"] == by), None)
        return {"score": round(answer.value, 4), "told": answer.source == "holdout",
                "place": place, "left": self.quota - used - 1}  # fmt: skip

    def finish(self, count):
        """Close the board; return the report on the participants that stand first."""
        first = [row["by"] for row in self.table() if row["by"] in self._labels][:count]
        labels = {by: self._labels[by] for by in first}
        return self.holdout.final_report(labels, scoring="accuracy")


def serve(board, tokens, port=0):
    """Start a server in a thread; ``tokens``: ``{secret: participant}``."""

    class Handler(BaseHTTPRequestHandler):
        """``GET /`` shows the board, ``POST /`` submits."""

        def do_GET(self):
            self._say(200, board.table())

        def do_POST(self):
            by = tokens.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
            size = int(self.headers.get("Content-Length", 0))
            if by is None or size > LARGEST:
                self._say(403, {"error": "no participant, or a submission that is too large."})
                return
            try:
                sent = json.loads(self.rfile.read(size))
                self._say(200, board.submit(by, sent["name"], sent["labels"]))
            except (PermissionError, BudgetExhaustedError) as error:
                self._say(429, {"error": str(error)})
            except HoldoutClosedError as error:
                self._say(410, {"error": str(error)})
            except (KeyError, TypeError, ValueError) as error:  # their texts quote no target
                self._say(400, {"error": str(error)})

        def _say(self, status, content):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Log nothing: the ledger does."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def submit(server, token, name, labels):
    """Submit labels as a participant; return what the board says."""
    content = json.dumps({"name": name, "labels": np.asarray(labels).tolist()}).encode()
    url = f"http://127.0.0.1:{server.server_port}/"
    request = urllib.request.Request(url, content, {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def majority_attack(score, n, count, rng):
    """Return the labels that a majority of random submissions with a good score gives.

    Nothing is learned but the noise of the board (Blum and Hardt 2015, Section 4).
    """
    tried = rng.integers(0, 2, (count, n))
    scores = np.array([score(labels) for labels in tried])
    good = scores > np.median(scores)
    chosen = tried[good] if good.any() else tried
    return (chosen.mean(axis=0) > 0.5).astype(int)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1_000)
    board = Board(y, classes=[0, 1], quota=20, random_state=0)
    server = serve(board, {"secret of ann": "ann", "secret of bob": "bob"})
    for name, right in (("first", 0.70), ("second", 0.71), ("third", 0.80)):
        for by, more in (("ann", 0.0), ("bob", 0.02)):
            labels = np.where(rng.random(1_000) < right + more, y, 1 - y)
            print(by, name, submit(server, f"secret of {by}", name, labels))
    server.shutdown()
    print(*board.table(), sep="\n")
    print(board.finish(2))
