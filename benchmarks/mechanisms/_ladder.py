"""The Ladder: a leaderboard that moves only for improvements that matter."""

import math

import numpy as np

from benchmarks.mechanisms._inputs import check_pair
from sklearn_bdp.mechanisms.thresholdout import Answers
from sklearn_bdp.utils.validation import check_array, check_real

__all__ = ["Ladder", "ParameterFreeLadder"]


class Ladder:
    r"""Release the best score so far, rounded, when a submission beats it by a margin.

    It answers one query only: how good is the best model so far? Scores are greater-is-better;
    the paper's losses are one minus these.

    Parameters
    ----------
    margin : float in (0, 1]
        Step :math:`\eta`: a submission must beat the best released score by more than this, and
        released scores are multiples of it.

    Attributes
    ----------
    best : float
        The released best score; minus infinity before the first submission.
    n_answered, n_above : int
        Submissions, and how many moved the leaderboard.

    References
    ----------
    .. [1] A. Blum, M. Hardt, "The Ladder: a reliable leaderboard for machine learning
       competitions", ICML 2015, arXiv:1502.04585, Fig. 1.

    Examples
    --------
    >>> from benchmarks.mechanisms import Ladder
    >>> Ladder(0.01).answer([0.0, 0.0, 0.0], [0.802, 0.805, 0.834])
    Answers(values=array([0.8 , 0.8 , 0.83]), above=array([ True, False,  True]),
            answered=array([ True,  True,  True]))
    """

    def __init__(self, margin):
        self.margin = check_real("margin", margin, low=0.0, high=1.0, closed="right")
        self.best = -math.inf
        self.n_answered = 0
        self.n_above = 0

    @property
    def remaining_budget(self):
        """No cap: the leaderboard can move about ``1 / margin`` times only."""
        return

    def answer(self, training_values, holdout_values):
        """Submit a batch of models in order, or one.

        Parameters
        ----------
        training_values : array-like of shape (m,) or float
            Not used: they keep the call the same for every mechanism.
        holdout_values : array-like of shape (m,) or float
            Holdout scores in [0, 1].

        Returns
        -------
        Answers
            ``values`` is the leaderboard's best score after each submission, ``above`` whether
            the submission moved it.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range; no budget is spent.
        """
        _, holdout, scalar = check_pair(training_values, holdout_values)
        values = np.empty(holdout.size)
        above = np.zeros(holdout.size, dtype=bool)
        for index, score in enumerate(holdout.tolist()):
            if score > self.best + self.margin:  # Blum, Hardt 2015, Fig. 1
                # A score just above the top multiple of the margin must not be released as > 1.
                self.best = min(round(score / self.margin) * self.margin, 1.0)
                above[index] = True
            values[index] = self.best
        self.n_answered += holdout.size
        self.n_above += int(above.sum())
        answered = np.ones(holdout.size, dtype=bool)
        answers = Answers(values=values, above=above, answered=answered)
        return answers.scalar() if scalar else answers


class ParameterFreeLadder:
    r"""The Ladder whose margin is a paired test against the best submission so far.

    A submission must beat the best one by more than :math:`s/\sqrt n`, ``s`` the standard
    deviation of the per-record difference; released scores are multiples of :math:`1/n`. The
    paper gives no adaptive guarantee for this form. It keeps the best submission's
    per-record scores; treat the object like the holdout.

    Attributes
    ----------
    best : float
        The released best score; minus infinity before the first submission.
    n_answered, n_above : int
        Submissions, and how many moved the leaderboard.

    References
    ----------
    .. [1] A. Blum, M. Hardt, "The Ladder: a reliable leaderboard for machine learning
       competitions", ICML 2015, arXiv:1502.04585, Fig. 2.

    Examples
    --------
    >>> from benchmarks.mechanisms import ParameterFreeLadder
    >>> ParameterFreeLadder().answer([0.0, 0.0], [[1, 0, 0, 1], [1, 1, 1, 1]])
    Answers(values=array([0.5, 1. ]), above=array([ True,  True]),
            answered=array([ True,  True]))
    """

    def __init__(self):
        self.best = -math.inf
        self.n_answered = 0
        self.n_above = 0
        self._best_scores = None

    @property
    def remaining_budget(self):
        """No cap."""
        return

    def answer(self, training_values, per_record_scores):
        """Submit a batch of models in order.

        Parameters
        ----------
        training_values : array-like of shape (m,)
            Not used: they keep the call the same for every mechanism.
        per_record_scores : array-like of shape (m, n)
            Scores in [0, 1] of each model on each holdout record.

        Returns
        -------
        Answers
            As for `Ladder.answer`.

        Raises
        ------
        TypeError, ValueError
            If the scores are no finite array of shape (m, n) in [0, 1], or ``n`` changes.
        """
        n_records = None if self._best_scores is None else self._best_scores.size
        shape = (np.size(training_values), n_records)
        scores = check_array("per_record_scores", per_record_scores, shape=shape, low=0, high=1)
        if not scores.shape[1] >= 2:
            raise ValueError(
                f"per_record_scores must have at least two records, got shape {scores.shape}."
            )
        values = np.empty(len(scores))
        above = np.zeros(len(scores), dtype=bool)
        for index, submission in enumerate(scores):
            above[index] = self._improves(submission)
            if above[index]:
                n = submission.size
                self.best = round(float(submission.mean()) * n) / n
                self._best_scores = submission.copy()
            values[index] = self.best
        self.n_answered += len(scores)
        self.n_above += int(above.sum())
        return Answers(values=values, above=above, answered=np.ones(len(scores), dtype=bool))

    def _improves(self, submission):
        if self._best_scores is None:
            return True
        # Blum, Hardt 2015, Fig. 2: s is the sample standard deviation of the paired difference.
        spread = (submission - self._best_scores).std(ddof=1) / math.sqrt(submission.size)
        return bool(submission.mean() > self.best + spread)
