"""
The leaderboard over HTTP
=========================

``GET /`` shows the board. ``POST /`` submits ``{"name": ..., "predictions": [...],
"expected_score": ..., "training_predictions": [[targets], [predictions]]}`` (the last two are
optional) with the header ``Authorization: Bearer <token>``. With the organizer's token,
``GET /costs`` shows what each account has cost, and ``POST /remove/<account>`` removes an account
from the board.

It needs Flask (``pip install '.[leaderboard]'``). For a real contest, serve ``make_app(...)`` with
a WSGI server such as gunicorn, with one process: the standings are in its memory. Run it:
``python examples/leaderboard_server.py``.
"""

import hmac
import json
import threading
import urllib.request

import flask
import numpy as np
from leaderboard import Board, SubmissionRejectedError
from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.serving import make_server

from sklearn_bdp.exceptions import HoldoutClosedError

#: Largest submission in bytes.
MAX_CONTENT_LENGTH = 10_000_000


def read_submission(request):
    """Return the arguments of ``Board.submit`` that a request holds, or raise BadRequest."""
    if not request.content_length:
        raise BadRequest("Content-Length must be the number of bytes of the JSON text.")
    try:
        content = json.loads(request.get_data())
    except RecursionError:
        raise BadRequest("The JSON text is nested too deeply. Predictions are a list.") from None
    except ValueError as error:
        raise BadRequest(f"The body is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise BadRequest('The body must be a JSON object with "name" and "predictions".')
    name = content.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        raise BadRequest('"name" is missing or not a text of 1 to 100 characters.')
    expected_score = content.get("expected_score")
    is_number = isinstance(expected_score, int | float) and not isinstance(expected_score, bool)
    if expected_score is not None and not (is_number and 0.0 <= expected_score <= 1.0):
        raise BadRequest('"expected_score" must be a number from 0 to 1.')
    training_predictions = content.get("training_predictions")
    if training_predictions is not None:
        training_predictions = read_training_predictions(training_predictions)
    return {
        "name": name,
        "predictions": read_predictions(content.get("predictions"), "predictions"),
        "expected_score": expected_score,
        "training_predictions": training_predictions,
    }


def read_predictions(values, field):
    """Return a list of labels, or of a list of probabilities for each record, as an array."""
    if isinstance(values, list):
        rows = [row if isinstance(row, list) else [row] for row in values]
        if all(isinstance(value, int | float | str) for row in rows for value in row):
            try:
                return np.array(values)
            except (OverflowError, ValueError):  # rows of different lengths, or a huge number
                pass
    raise BadRequest(f'"{field}" is missing or not a list of labels or of lists of probabilities.')


def read_training_predictions(pair):
    """Return training targets and their out-of-fold predictions as arrays."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise BadRequest('"training_predictions" must be a list of targets and of predictions.')
    return tuple(read_predictions(values, "training_predictions") for values in pair)


def make_app(board, accounts, organizer_token=None):
    """Return the Flask application of a board; ``accounts``: ``{token: account}``."""
    app = flask.Flask("leaderboard")
    app.config["MAX_CONTENT_LENGTH"] = MAX_CONTENT_LENGTH
    app.json.sort_keys = False

    def sent_token():
        return flask.request.headers.get("Authorization", "").removeprefix("Bearer ")

    def check_organizer():
        expected_token = organizer_token or ""
        if not expected_token or not _is_same(sent_token(), expected_token):
            flask.abort(401, "The organizer's token is missing or wrong.")

    @app.get("/")
    def show_standings():
        return board.standings()

    @app.post("/")
    def submit_labels():
        account = next((accounts[token] for token in accounts if _is_same(sent_token(), token)), "")
        if not account:
            flask.abort(401, "No account has this token.")
        return board.submit(account, **read_submission(flask.request))

    @app.get("/costs")
    def show_costs():
        check_organizer()
        return board.costs()

    @app.post("/remove/<account>")
    def remove_account(account):
        check_organizer()
        board.remove(account)
        return board.standings()

    @app.errorhandler(HTTPException)
    def show_http_error(error):
        return {"error": error.description}, error.code

    @app.errorhandler(SubmissionRejectedError)
    def show_rejection(error):
        return {"error": str(error)}, 403

    @app.errorhandler(HoldoutClosedError)
    def show_closed(error):
        return {"error": "The contest has ended."}, 410

    @app.errorhandler(ValueError)
    @app.errorhandler(TypeError)
    def show_invalid_predictions(error):
        return {"error": str(error)}, 400  # these messages quote no target

    return app


def _is_same(token, expected_token):
    """Compare tokens in a time that does not depend on their content."""
    return hmac.compare_digest(token.encode(), expected_token.encode())


def start_server(app, port=0):
    """Start Werkzeug's server in a thread and return it; ``port=0``: any free port."""
    server = make_server("127.0.0.1", port, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def submit(server, token, name, predictions, expected_score=None):
    """Submit predictions as a participant and return the answer of the board."""
    submission = {"name": name, "predictions": np.asarray(predictions).tolist()}
    content = json.dumps(submission | {"expected_score": expected_score}).encode()
    url = f"http://127.0.0.1:{server.server_port}/"
    request = urllib.request.Request(url, content, {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1_000)
    board = Board(y, classes=[0, 1], random_state=0)
    tokens = {"token of ann": "ann", "token of bob": "bob"}
    server = start_server(make_app(board, tokens, organizer_token="token of the organizer"))
    for name, accuracy in (("first", 0.70), ("second", 0.71), ("third", 0.80)):
        for account, bonus in (("ann", 0.0), ("bob", 0.05)):
            is_right = rng.random(1_000) < accuracy + bonus
            labels = np.where(is_right, y, 1 - y)
            reply = submit(server, f"token of {account}", name, labels, accuracy + bonus)
            print(account, name, reply)
    server.shutdown()
    print(*board.standings(), sep="\n")
    print(board.finish(2))
