"""
Contests on the leaderboard
===========================

Each contest is played on the board of ``leaderboard.py``, with 4,000 records and three kinds of
participants, in the order that suits the first two best:

1. Five bots submit coin flips.
2. Eight colluding accounts submit 100 variants each of one base submission, with random labels
   flipped. They pool all scores they are shown, flip the labels that looked wrong, and submit the
   result under a ninth account. In every second contest their base is a model with an accuracy of
   0.773, otherwise it is coin flips. In half of the contests they state the score they expect, in
   the other half one at which the board confirms about half of their submissions: its answers then
   reveal most.
3. Ten teams submit three models each, with their cross-validated scores. The best model has an
   accuracy of 0.86, and the best one of the other teams has 0.78.

At the end the board reports all accounts with place 1. Run it: ``python
examples/leaderboard_contests.py`` plays 120 contests in about five minutes.
"""

import argparse
import contextlib
import dataclasses
import warnings

import numpy as np
from leaderboard import Board, SubmissionRejectedError

from sklearn_bdp.exceptions import SecondHoldoutWarning

N_RECORDS = 4_000
N_BOTS = 5
N_COLLUDERS = 8
TEAM_ACCURACIES = (*np.linspace(0.60, 0.78, 9), 0.86)
#: Of the colluders' base submission, in turn.
BASE_ACCURACIES = (0.5, 0.773)
BEST_TEAM = f"team {len(TEAM_ACCURACIES)}"


@dataclasses.dataclass(frozen=True)
class Contest:
    """What one contest showed."""

    base_accuracy: float  # of the colluders' base submission, on new records
    places: dict  # of each account on the board
    gain: (
        float  # of the colluders, in steps: raw holdout score of their result less that of its base
    )
    best_gain: float  # the same if an oracle told them how many labels to flip
    colluders_nats: float  # cost of all colluding accounts
    nats: float  # cost of the whole contest
    n_rejected: int  # submissions of teams, because a budget was used up
    is_best_reported: bool  # whether the best team has the largest value of the final report
    is_covered: tuple  # whether each interval of the final report contains the model's accuracy


def guesses_with(accuracy, y, rng):
    """Return labels of which a random part is right."""
    return np.where(rng.random(len(y)) < accuracy, y, 1 - y)


def accuracy_after_flips(base_accuracy, is_flipped):
    """Return the accuracy on new records after a part of a base's labels was flipped."""
    flipped_part = np.mean(is_flipped)
    return (1.0 - flipped_part) * base_accuracy + flipped_part * (1.0 - base_accuracy)


def collude(board, y, base, base_accuracy, *, at_edge, flipped_part, rng):
    """Submit variants of a base from eight accounts until their budgets are used up.

    Returns the labels in the order in which the scores suggest to flip them, the number of labels
    whose flips look worth it, and the accuracies of all submissions on new records.
    """
    expected_score = base_accuracy - flipped_part * (2.0 * base_accuracy - 1.0)
    offset = board.step / 2.0 if at_edge else 0.0
    flips = []
    evidence = []
    accuracies = {}
    for colluder in range(N_COLLUDERS):
        for variant in range(board.quota):
            is_flipped = rng.random(len(y)) < flipped_part
            labels = np.where(is_flipped, 1 - base, base)
            try:
                answer = board.submit(
                    f"colluder {colluder}",
                    f"variant {variant}",
                    labels,
                    min(1.0, max(0.0, expected_score + offset)),
                )
            except SubmissionRejectedError:
                break
            flips.append(is_flipped)
            name = f"colluder {colluder}", f"variant {variant}"
            accuracies[name] = accuracy_after_flips(base_accuracy, is_flipped)
            if at_edge:  # whether the score is above or below the edge, which follows the median
                is_below = answer["score"] < expected_score
                evidence.append(-1.0 if is_below else 1.0)
                offset += board.step * (-0.05 if is_below else 0.05)
            else:
                evidence.append(answer["score"] - expected_score)
    flips = np.array(flips, dtype=float)
    evidence = np.array(evidence) - np.mean(evidence)
    weights = evidence @ (flips - flips.mean(axis=0))
    order = np.argsort(-weights)
    # A vote of variants overcomes the prior odds of the base if it is strong enough.
    deviation = np.sqrt(np.sum(evidence**2) * flipped_part * (1.0 - flipped_part))
    odds = np.log(base_accuracy / (1.0 - base_accuracy))
    n_flips = int(np.count_nonzero(weights > odds * deviation)) if deviation else 0
    return order, n_flips, accuracies


def play_contest(seed, *, n_records=N_RECORDS):
    """Play one contest and return what it showed."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_records)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecondHoldoutWarning)  # contests draw their own targets
        board = Board(y, classes=[0, 1], random_state=seed)
    accuracies = {}  # of each account's submissions on new records, by name
    for bot in range(N_BOTS):
        board.submit(f"bot {bot}", "coin flips", guesses_with(0.5, y, rng), 0.5)
        accuracies[f"bot {bot}", "coin flips"] = 0.5

    base_accuracy = BASE_ACCURACIES[seed % 2]
    base = guesses_with(base_accuracy, y, rng)
    order, n_flips, colluder_accuracies = collude(
        board,
        y,
        base,
        base_accuracy,
        at_edge=seed % 4 >= 2,
        flipped_part=0.5 if base_accuracy == 0.5 else 0.2,
        rng=rng,
    )
    accuracies |= colluder_accuracies
    is_flipped = np.isin(np.arange(n_records), order[:n_flips])
    accuracies["colluder 8", "result"] = accuracy_after_flips(base_accuracy, is_flipped)
    result = np.where(is_flipped, 1 - base, base)
    gain = np.mean(result == y) - np.mean(base == y)
    gains_by_count = np.cumsum(np.where(base[order] == y[order], -1.0, 1.0)) / n_records
    costs = board.costs()
    colluders_nats = sum(nats for name, nats in costs.items() if name.startswith("colluder"))
    # The contest's budget may be used up.
    with contextlib.suppress(SubmissionRejectedError):
        board.submit("colluder 8", "result", result, min(1.0, base_accuracy + board.step))

    n_rejected = 0
    for model in range(3):
        for team, best_accuracy in enumerate(TEAM_ACCURACIES, start=1):
            accuracy = best_accuracy - 0.02 * (2 - model)
            cv_score = accuracy + rng.normal(0.005, 0.01)
            labels = guesses_with(accuracy, y, rng)
            name = f"model {model}"
            accuracies[f"team {team}", name] = accuracy
            try:
                board.submit(f"team {team}", name, labels, cv_score)
            except SubmissionRejectedError:
                n_rejected += 1
    standings = board.standings()
    names = {row["account"]: row["name"] for row in standings}
    report = board.finish(1)
    is_covered = tuple(
        row.lower <= accuracies[row.model, names[row.model]] <= row.upper for row in report.rows
    )
    return Contest(
        base_accuracy=base_accuracy,
        places={row["account"]: row["place"] for row in standings},
        gain=gain / board.step,
        best_gain=max(0.0, float(gains_by_count.max())) / board.step,
        colluders_nats=colluders_nats,
        nats=sum(board.costs().values()),
        n_rejected=n_rejected,
        is_best_reported=max(report.rows, key=lambda row: row.value).model == BEST_TEAM,
        is_covered=is_covered,
    )


def count_at_first_place(contests, account_prefix):
    """Return in how many contests an account of a kind is at place 1."""
    return sum(
        any(
            place == 1 and name.startswith(account_prefix) for name, place in contest.places.items()
        )
        for contest in contests
    )


def summary(contests):
    """Return what contests showed, as lines of text."""
    n_alone = sum(
        [name for name, place in contest.places.items() if place == 1] == [BEST_TEAM]
        for contest in contests
    )
    n_reported = sum(contest.is_best_reported for contest in contests)
    n_submissions = 3 * len(TEAM_ACCURACIES) * len(contests)
    lines = [
        f"{len(contests)} contests",
        f"best team at place 1: {count_at_first_place(contests, BEST_TEAM)}, alone: {n_alone}",
        f"a bot at place 1: {count_at_first_place(contests, 'bot')}",
    ]
    for accuracy in BASE_ACCURACIES:
        chosen = [contest for contest in contests if contest.base_accuracy == accuracy]
        gain = max(contest.gain for contest in chosen)
        best_gain = max(contest.best_gain for contest in chosen)
        nats = max(contest.colluders_nats for contest in chosen)
        n_first = count_at_first_place(chosen, "colluder")
        lines += [
            f"colluders with a base of {accuracy}: at place 1 in {n_first} of {len(chosen)}",
            f"    gain at most {gain:.2f} steps, {best_gain:.2f} with an oracle",
            f"    cost at most {nats:.0f} nats",
        ]
    return [
        *lines,
        f"cost of a contest: at most {max(contest.nats for contest in contests):.0f} nats",
        f"submissions of teams rejected: {sum(c.n_rejected for c in contests)} of {n_submissions}",
        f"best team first in the final report on place 1: {n_reported}",
        f"all final intervals contain the accuracy: {sum(all(c.is_covered) for c in contests)}",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Play contests on the leaderboard.")
    parser.add_argument("--contests", type=int, default=120)
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first contest")
    arguments = parser.parse_args()
    contests = []
    for count in range(1, arguments.contests + 1):
        contests.append(play_contest(arguments.first_seed + count - 1))
        if count % 10 == 0:
            print(f"{count} contests played", flush=True)
    print(*summary(contests), sep="\n")
