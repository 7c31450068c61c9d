"""Private multiplicative weights: learn the holdout's histogram on an explicit universe."""

import warnings

import numpy as np

from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import Answers
from sklearn_bdp.utils.validation import caller_level, check_array, check_real

__all__ = ["MultiplicativeWeights"]

_LARGE = 4096
_TOO_LARGE = 2**22


class MultiplicativeWeights:
    r"""Answer linear queries from a learned histogram, corrected when the holdout disagrees.

    `Thresholdout` whose training-side value is the answer of a public hypothesis (a histogram
    over all possible records); every "above" answer moves the hypothesis by multiplicative
    weights. Time and memory per query are linear in the size of the universe, which is
    exponential in the number of attributes: for a handful of discrete attributes only.

    Parameters
    ----------
    histogram : array-like of shape (universe,)
        Share of holdout records of each possible kind; non-negative, summing to 1.
    mechanism : Thresholdout
        Compares and answers; its budget is the number of updates.
    learning_rate : float in (0, 1], default=0.1
        Step of an update: weights are multiplied by ``exp(±learning_rate * query)``. For accuracy
        :math:`\alpha` the analysis takes :math:`\alpha/2` (and :math:`4\ln|U|/\alpha^2` updates).

    Attributes
    ----------
    hypothesis : ndarray of shape (universe,)
        The public histogram; uniform before the first update.

    Warns
    -----
    UserWarning
        For a universe of more than 4096 kinds of records.

    References
    ----------
    .. [1] M. Hardt, G. Rothblum, "A multiplicative weights mechanism for privacy-preserving data
       analysis", FOCS 2010.

    Examples
    --------
    >>> from benchmarks.mechanisms import MultiplicativeWeights
    >>> from sklearn_bdp.mechanisms import Thresholdout
    >>> rule = Thresholdout(
    ...     0.1, threshold_scale=1e-3, query_scale=1e-3, answer_scale=1e-3,
    ...     resolution=0.02, random_state=0,
    ... )
    >>> mechanism = MultiplicativeWeights([0.7, 0.2, 0.1], rule, learning_rate=0.5)
    >>> answers = mechanism.answer([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> answers.values.round(2), answers.above
    (array([0.71, 0.71, 0.69, 0.15]), array([ True,  True,  True, False]))
    >>> mechanism.hypothesis.round(2)
    array([0.69, 0.15, 0.15])
    """

    def __init__(self, histogram, mechanism, *, learning_rate=0.1):
        self._histogram = check_array("histogram", histogram, shape=(None,), low=0.0, high=1.0)
        size = self._histogram.size
        if not abs(self._histogram.sum() - 1.0) <= 1e-9 * max(1, size):
            raise ValueError(f"histogram must sum to 1, got {self._histogram.sum():.9g}.")
        if not 2 <= size <= _TOO_LARGE:
            raise ValueError(
                f"histogram must have 2 to {_TOO_LARGE} entries (the universe is held in memory "
                f"and every query costs as much), got {size}."
            )
        if size > _LARGE:
            warnings.warn(
                f"Multiplicative weights on {size} kinds of records: each query costs {size} "
                "operations, and the number of kinds doubles with every binary attribute.",
                UserWarning,
                stacklevel=caller_level(),
            )
        if not isinstance(mechanism, Thresholdout):
            raise TypeError(f"mechanism must be a Thresholdout, got {type(mechanism).__name__}.")
        self.mechanism = mechanism
        self.learning_rate = check_real(
            "learning_rate", learning_rate, low=0.0, high=1.0, closed="right"
        )
        self.hypothesis = np.full(size, 1.0 / size)

    @property
    def remaining_budget(self):
        """Number of updates left; None without a maximum."""
        return self.mechanism.remaining_budget

    @property
    def n_answered(self):
        """Number of queries answered."""
        return self.mechanism.n_answered

    @property
    def n_above(self):
        """Number of updates."""
        return self.mechanism.n_above

    def answer(self, queries):
        """Answer linear queries in order.

        Parameters
        ----------
        queries : array-like of shape (m, universe)
            Score in [0, 1] that each query gives to each kind of record.

        Returns
        -------
        Answers
            Values from the hypothesis, or from the holdout where ``above``.

        Raises
        ------
        TypeError, ValueError
            If the queries are no finite array of that shape in [0, 1]; nothing is spent then.
        """
        shape = (None, self._histogram.size)
        queries = check_array("queries", queries, shape=shape, low=0.0, high=1.0)
        truth = np.clip(queries @ self._histogram, 0.0, 1.0)
        runs = []
        start = 0
        while start < len(queries):
            predicted = queries[start:] @ self.hypothesis
            run = self.mechanism.answer_run(predicted, truth[start:])
            runs.append(run)
            start += len(run)
            if run.above[-1]:
                # Hardt, Rothblum 2010, Fig. 1: towards kinds the query favors if the holdout's
                # value is higher, away from them if it is lower.
                direction = np.sign(run.values[-1] - predicted[len(run) - 1])
                weights = self.hypothesis * np.exp(
                    self.learning_rate * direction * queries[start - 1]
                )
                self.hypothesis = weights / weights.sum()
        return Answers(
            values=np.concatenate([run.values for run in runs] or [np.empty(0)]),
            above=np.concatenate([run.above for run in runs] or [np.empty(0, dtype=bool)]),
            answered=np.concatenate([run.answered for run in runs] or [np.empty(0, dtype=bool)]),
        )
