"""SparseValidate: say whether the holdout agrees, and nothing else."""

import numpy as np

from benchmarks.mechanisms._inputs import check_pair, check_thresholds
from sklearn_bdp.mechanisms.thresholdout import Answers
from sklearn_bdp.utils.validation import check_integer, check_real

__all__ = ["SparseValidate"]


class SparseValidate:
    r"""Confirm training-side values, or reject them, without noise and without other values.

    Its guarantee is one of description length: the answers to ``m`` queries with at most ``B``
    rejections form one of :math:`\sum_{b \le B} \binom{m}{b}` transcripts.

    Parameters
    ----------
    threshold : float
        A value is confirmed if the holdout's differs by at most this much.
    budget : int
        Number of rejections.

    Attributes
    ----------
    n_answered, n_above, remaining_budget : int
        Answers given, rejections among them, rejections left.

    References
    ----------
    .. [1] C. Dwork et al., "Generalization in adaptive data analysis and holdout reuse", NIPS
       2015, arXiv:1506.02629 (SparseValidate).

    Examples
    --------
    >>> from benchmarks.mechanisms import SparseValidate
    >>> mechanism = SparseValidate(0.05, budget=1)
    >>> mechanism.answer([0.9, 0.9, 0.9], [0.88, 0.7, 0.88])
    Answers(values=array([0.9, nan, nan]), above=array([False,  True, False]),
            answered=array([ True,  True, False]))
    """

    def __init__(self, threshold, *, budget):
        self.threshold = check_real("threshold", threshold, low=0.0, high=1.0)
        self.budget = check_integer("budget", budget, low=1)
        self.n_answered = 0
        self.n_above = 0

    @property
    def remaining_budget(self):
        """Number of rejections left."""
        return self.budget - self.n_above

    def answer(self, training_values, holdout_values, *, thresholds=None):
        """Confirm or reject a batch of training-side values, or a scalar one.

        Parameters
        ----------
        training_values : array-like of shape (m,) or float
            Belief of the analyst.
        holdout_values : array-like of shape (m,) or float
            Holdout values in [0, 1].
        thresholds : array-like of shape (m,) or float, optional
            Thresholds that override the scalar one, not negative, chosen from public quantities.

        Returns
        -------
        Answers
            ``values`` is the training-side value where confirmed and NaN where rejected
            (``above``) or not answered.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range; no budget is spent.
        """
        training, holdout, scalar = check_pair(training_values, holdout_values)
        thresholds = check_thresholds(thresholds, self.threshold, training.shape)
        rejected = np.abs(holdout - training) > thresholds
        # Queries before the one that finds no budget: all that precede the last allowed
        # rejection, and that one. Nothing is left to say once the budget is used.
        last = np.flatnonzero(rejected)[: self.remaining_budget]
        if self.remaining_budget == 0:
            n_done = 0
        elif last.size == self.remaining_budget:
            n_done = int(last[-1]) + 1
        else:
            n_done = training.size
        answered = np.arange(training.size) < n_done
        above = rejected & answered
        self.n_answered += n_done
        self.n_above += int(above.sum())
        values = np.where(answered & ~above, training, np.nan)
        answers = Answers(values=values, above=above, answered=answered)
        return answers.scalar() if scalar else answers
