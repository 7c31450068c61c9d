"""
A leaderboard that cannot be climbed by chance
==============================================

An organizer keeps the targets of a private test set. Participants submit predictions and get a
score and a place. The board scores them through a reusable holdout and follows four rules.

- Scores have a step, by default seven standard deviations of the accuracy of a guess. One account
  is ahead of another only if its score is more than one step larger. Neither luck nor a false
  ``expected_score`` is enough.
- Every account and the whole contest have a budget of information (nats). An answer that the
  expected score predicts costs little, a surprise costs several nats. The organizer sees all costs.
- A removed account leaves the board. Its cost remains.
- The final report gives the accounts with the first places intervals that are valid together.

Standings are kept in memory, and a restarted board rebuilds them from the ledger. Submitted
predictions are kept in a folder for the final report. ``leaderboard_server.py`` is this board over
HTTP, and ``leaderboard_contests.py`` plays contests on it. Run it:
``python examples/leaderboard.py``.
"""

import bisect
import dataclasses
import os
import threading
from pathlib import Path

import numpy as np

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.accounting import code_length
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.holdout import ExpertSettings

#: Names of notes in the ledger: a removed account, and the information spent before the report.
REMOVED = "removed account"
SPENT = "information spent before the final report"
#: Scores from 0 to 1 that are released with an error of at most half a step, apart from the noise.
SCORES = (
    "accuracy",
    "balanced_accuracy",
    "roc_auc",
    "average_precision",
    "f1_macro",
    "f1_micro",
    "f1_weighted",
)


class SubmissionRejectedError(Exception):
    """A submission that the rules of the contest do not allow. The holdout was not queried."""


@dataclasses.dataclass
class Account:
    """What the board remembers of a participant."""

    name: str
    n_submissions: int = 0
    nats: float = 0.0  # information that the answers to this account have cost
    best_score: float | None = None
    best_number: int | None = None  # of the submission with the best score
    best_name: str | None = None


class SubmissionFolder:
    """Submitted predictions by number, in the files of a folder, or in memory without a folder."""

    def __init__(self, folder=None):
        self._arrays = {}
        self._folder = None
        if folder is not None:
            self._folder = Path(folder)
            self._folder.mkdir(parents=True, exist_ok=True)

    def last_number(self):
        """Return the largest number in use, 0 if there is none."""
        if self._folder is None:
            return max(self._arrays, default=0)
        return max((int(path.stem) for path in self._folder.glob("*.npy")), default=0)

    def save(self, number, predictions):
        """Store predictions; after a crash there is either the whole file or none."""
        if self._folder is None:
            self._arrays[number] = predictions
            return
        unfinished = self._folder / f"{number:06d}.unfinished"
        with unfinished.open("wb") as file:
            np.save(file, predictions, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / f"{number:06d}.npy")

    def load(self, number):
        """Return stored predictions."""
        if self._folder is None:
            if number not in self._arrays:
                raise ValueError(
                    f"Predictions of submission {number} were in the memory of another process. "
                    "Give Board a folder to finish after a restart. Nothing was reported."
                )
            return self._arrays[number]
        return np.load(self._folder / f"{number:06d}.npy", allow_pickle=False)

    def delete(self, number):
        """Delete predictions that were not scored."""
        if self._folder is None:
            del self._arrays[number]
        else:
            (self._folder / f"{number:06d}.npy").unlink()


class Board:
    """The organizer's side: targets, budgets and standings.

    Parameters
    ----------
    y : array-like of shape (n,)
        Private targets.
    classes : array-like
        All labels of the targets. They are public.
    scoring : str, default="accuracy"
        Score of the board, one of ``SCORES``. ``"roc_auc"`` and ``"average_precision"`` take a
        column of probabilities for each class, the others take labels.
    step : float or None, default=None
        Step of scores. ``None``: seven standard deviations of the accuracy of a guess. Other
        scores need a number.
    quota : int, default=100
        Submissions of an account.
    account_budget, contest_budget : float, default=3.0, 100.0
        Nats. The answer that uses up a budget is the last one, so that one answer (at most about
        10 nats) may exceed it.
    folder : path or None, default=None
        Folder of submitted predictions. With ``None`` they are in memory, and a restarted board
        cannot report on them.
    ledger, random_state : object
        As for :class:`~sklearn_bdp.ReusableHoldout`.
    """

    def __init__(
        self,
        y,
        *,
        classes,
        scoring="accuracy",
        step=None,
        quota=100,
        account_budget=3.0,
        contest_budget=100.0,
        folder=None,
        ledger=None,
        random_state=None,
    ):
        if scoring not in SCORES:
            raise ValueError(f"scoring must be one of {SCORES}, got {scoring!r}.")
        if step is None and scoring != "accuracy":
            raise ValueError(
                f"step must be a number for scoring={scoring!r}. Take about seven standard "
                "deviations of the score of a guess."
            )
        guess_deviation = np.sqrt(0.25 / len(y))
        self.step = min(1.0, 7.0 * guess_deviation if step is None else step)
        self.scoring = scoring
        self.quota = quota
        self.account_budget = account_budget
        self.contest_budget = contest_budget
        # A score is released with an error of half a step, whatever score was expected.
        settings = ExpertSettings(threshold=self.step / 2.0, resolution=self.step)
        self.holdout = ReusableHoldout.from_targets(
            y, training_targets=classes, expert=settings, ledger=ledger, random_state=random_state
        )
        self._submissions = SubmissionFolder(folder)
        self._lock = threading.Lock()
        self._accounts = {}
        self._removed = set(self.holdout.notes(REMOVED))
        self._scores = []  # best scores of accounts on the board, ascending
        self._nats = 0.0  # of all answers
        self._last_number = self._submissions.last_number()
        self._rebuild()

    def _rebuild(self):
        """Restore the standings from the ledger."""
        history = self.holdout.history()
        submissions = [answer for answer in history if answer.submitter is not None]
        other_scores = {answer.metric for answer in submissions} - {self.scoring}
        if other_scores:
            raise ValueError(
                f"scoring must be that of the earlier submissions, {other_scores.pop()!r}, got "
                f"{self.scoring!r}. Scores of two metrics have no common places."
            )
        spent_last = self.holdout.information_spent
        if len(submissions) < len(history):  # a final report followed
            spent_last = self.holdout.notes(SPENT)[-1]
        # The code length of a query contains the weight of its batch, which is nobody's cost.
        spent_before = [
            answer.code_length - code_length(released=0.0, batch_index=answer.batch)
            for answer in submissions
        ]
        for answer, spent in zip(submissions, [*spent_before, spent_last][1:], strict=True):
            self._enter(answer, spent)

    def _enter(self, answer, spent_after):
        """Enter a new answer into the standings, and what it has cost."""
        account = self._accounts.setdefault(answer.submitter, Account(answer.submitter))
        number, _, name = answer.model.partition(": ")
        cost = max(0.0, spent_after - self._nats)
        account.n_submissions += 1
        account.nats += cost
        self._nats += cost
        self._last_number = max(self._last_number, int(number))
        if account.best_score is not None and answer.value <= account.best_score:
            return
        if account.name not in self._removed:
            if account.best_score is not None:
                del self._scores[bisect.bisect_left(self._scores, account.best_score)]
            bisect.insort(self._scores, answer.value)
        account.best_score = answer.value
        account.best_number = int(number)
        account.best_name = name

    def _place(self, score):
        """Return the place of a score: one more than the number of accounts ahead of it."""
        return 1 + len(self._scores) - bisect.bisect_right(self._scores, score + self.step)

    def _ranking(self):
        """Return the accounts on the board, the best score first."""
        ranked = [a for name, a in self._accounts.items() if name not in self._removed]
        return sorted(ranked, key=lambda account: (-account.best_score, account.best_number))

    def standings(self):
        """Return the public board, a row for each account. Accounts within a step share a place."""
        with self._lock:
            return [
                {
                    "place": self._place(account.best_score),
                    "account": account.name,
                    "name": account.best_name,
                    "score": round(account.best_score, 4),
                }
                for account in self._ranking()
            ]

    def costs(self):
        """Return what each account has cost (nats), for the organizer; removed accounts, too."""
        with self._lock:
            return {account.name: account.nats for account in self._accounts.values()}

    def submit(
        self, account_name, name, predictions, expected_score=None, training_predictions=None
    ):
        """Score one submission.

        ``expected_score`` is the participant's own estimate, such as a cross-validated score. It
        changes the score by at most half a step. A good estimate makes the answer inexpensive.
        Without an estimate, the board takes the score of the training predictions, the last score
        of the account, or 0.5.

        ``training_predictions=(y, y_pred)``: training targets and out-of-fold predictions of the
        participant. Scores without a proven bound (``average_precision``, ``f1_*``) need them.
        """
        predictions = np.asarray(predictions)
        if predictions.dtype.kind not in "biufU":
            raise TypeError(
                f"predictions must be numbers or texts, got {predictions.dtype} values."
            )
        with self._lock:
            account = self._accounts.get(account_name, Account(account_name))
            self._check_rules(account)
            number = self._last_number + 1
            numbered_name = f"{number}: {name}"
            self._submissions.save(number, predictions)
            try:
                answer = self.holdout.answer_predictions(
                    predictions,
                    scoring=self.scoring,
                    cv_score=expected_score,
                    training_predictions=training_predictions,
                    name=numbered_name,
                    submitter=account_name,
                )
            except (TypeError, ValueError, HoldoutClosedError):  # nothing was recorded
                self._submissions.delete(number)
                raise
            if answer.model == numbered_name:
                self._enter(answer, self.holdout.information_spent)
                account = self._accounts[account_name]
            else:  # the recorded answer to the same predictions
                self._submissions.delete(number)
                if answer.submitter != account_name:
                    raise SubmissionRejectedError(
                        "Another account has submitted the same predictions before."
                    )
            return {
                "score": round(answer.value, 4),
                "place": self._place(account.best_score),
                "submissions_left": self.quota - account.n_submissions,
                "nats_left": round(max(0.0, self.account_budget - account.nats), 3),
            }

    def _check_rules(self, account):
        """Raise an error if the account or the contest may not submit any more."""
        if account.name in self._removed:
            raise SubmissionRejectedError(f"Account {account.name} was removed from the board.")
        if account.n_submissions >= self.quota:
            raise SubmissionRejectedError(f"{account.name} has used all {self.quota} submissions.")
        if account.nats >= self.account_budget:
            raise SubmissionRejectedError(
                f"{account.name} has used its budget of {self.account_budget:g} nats. Expected "
                "scores near the released ones use less."
            )
        if self._nats >= self.contest_budget:
            raise SubmissionRejectedError(
                f"The contest has used its budget of {self.contest_budget:g} nats."
            )

    def remove(self, account_name):
        """Remove an account from the board for good. Its cost remains."""
        with self._lock:
            if account_name not in self._accounts:
                raise ValueError(f"No account {account_name!r} has submitted anything.")
            if account_name not in self._removed:
                self.holdout.add_note(REMOVED, account_name)
                self._removed.add(account_name)
                best_score = self._accounts[account_name].best_score
                del self._scores[bisect.bisect_left(self._scores, best_score)]

    def finish(self, count):
        """Close the board and return the report on all accounts with a place of at most ``count``.

        An account is reported with its best submission.
        """
        with self._lock:
            predictions = {
                account.name: self._submissions.load(account.best_number)
                for account in self._ranking()
                if self._place(account.best_score) <= count
            }
        if not predictions:
            raise ValueError("The board is empty. Nothing was reported, and the board is open.")
        self.holdout.add_note(SPENT, self.holdout.information_spent)
        return self.holdout.final_report(predictions, scoring=self.scoring)


def majority_attack(score, n, count, rng):
    """Return the labels that a majority of random submissions with a good score gives.

    Nothing is learned but the noise of the board (Blum and Hardt 2015, Section 4).
    """
    guesses = rng.integers(0, 2, (count, n))
    scores = np.array([score(labels) for labels in guesses])
    is_good = scores > np.median(scores)
    chosen = guesses[is_good] if is_good.any() else guesses
    return (chosen.mean(axis=0) > 0.5).astype(int)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1_000)
    board = Board(y, classes=[0, 1], random_state=0)
    for name, accuracy in (("first", 0.70), ("second", 0.71), ("third", 0.80)):
        for account, bonus in (("ann", 0.0), ("bob", 0.05)):
            is_right = rng.random(1_000) < accuracy + bonus
            labels = np.where(is_right, y, 1 - y)
            print(account, name, board.submit(account, name, labels, accuracy + bonus))
    print(*board.standings(), sep="\n")
    print("nats:", {account: round(nats, 2) for account, nats in board.costs().items()})
    print(board.finish(2))
