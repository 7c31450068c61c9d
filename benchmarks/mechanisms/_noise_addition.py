"""The plain ways to answer every query from the holdout: add noise, or use fresh records."""

import math

import numpy as np

from benchmarks.mechanisms._inputs import check_pair
from sklearn_bdp.mechanisms import Thresholdout
from sklearn_bdp.mechanisms.thresholdout import Answers, to_cell
from sklearn_bdp.utils.validation import check_integer, check_real

__all__ = ["DataSplitting", "NoiseAddition"]


_FAR = -50.0  # a prediction that no value in [0, 1] is near: every query is above


def _always_above(scale, noise, resolution, random_state):
    """Return the Thresholdout that answers every query from the holdout: exact noise on a grid."""
    return Thresholdout(
        0.0, threshold_scale=0.0, query_scale=0.0, answer_scale=scale, noise=noise,
        resolution=resolution, random_state=random_state,
    )  # fmt: skip


class _EveryQuery:
    """Shared part: every query is answered from the holdout until ``n_queries`` are."""

    def __init__(self, n_queries):
        self.n_queries = check_integer("n_queries", n_queries, low=1, high=2**53)
        self.n_answered = 0

    @property
    def n_above(self):
        """Number of answers taken from the holdout: all of them."""
        return self.n_answered

    @property
    def remaining_budget(self):
        """Number of answers left."""
        return self.n_queries - self.n_answered

    def answer(self, training_values, holdout_values):
        """Answer a batch of queries, or a scalar pair.

        Parameters
        ----------
        training_values : array-like of shape (m,) or float
            Not used: they keep the call the same for every mechanism.
        holdout_values : array-like of shape (m,) or float
            Holdout values in [0, 1].

        Returns
        -------
        Answers
            Released values; ``above`` is True wherever there is an answer.

        Raises
        ------
        TypeError, ValueError
            If an input is not a finite array of the right shape and range; no budget is spent.
        """
        _, holdout, scalar = check_pair(training_values, holdout_values)
        count = min(holdout.size, self.remaining_budget)
        self.n_answered += count
        values = np.full(holdout.size, np.nan)
        values[:count] = self._release(holdout[:count])
        answered = np.arange(holdout.size) < count
        answers = Answers(values=values, above=answered.copy(), answered=answered)
        return answers.scalar() if scalar else answers


class NoiseAddition(_EveryQuery):
    r"""Answer every query with the holdout's value plus noise.

    Parameters
    ----------
    scale : float
        Laplace scale, or standard deviation of Gaussian noise, in units of the score in [0, 1].
    n_queries : int
        How many queries are answered.
    noise : {"laplace", "gaussian"}, default="laplace"
        Distribution of the noise; on the grids of `Thresholdout`.
    resolution : float in [0, 1], default=0.0
        Width of the cells of released answers; 0: no cells.
    random_state : None, int or numpy.random.Generator, default=None
        As for `Thresholdout`.

    Attributes
    ----------
    n_answered, n_above, remaining_budget : int
        Answers given, and left.

    References
    ----------
    .. [1] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60 (2017), Thm 2.
    .. [2] C. Jung et al., "A new analysis of differential privacy's generalization guarantees",
       ITCS 2020.
    .. [3] M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016, Prop. 1.6.

    Examples
    --------
    >>> from benchmarks.mechanisms import NoiseAddition
    >>> mechanism = NoiseAddition(0.001, n_queries=2, resolution=0.1, random_state=0)
    >>> mechanism.answer([0.5, 0.5, 0.5], [0.61, 0.33, 0.2])
    Answers(values=array([0.65, 0.35,  nan]), above=array([ True,  True, False]),
            answered=array([ True,  True, False]))
    """

    def __init__(self, scale, *, n_queries, noise="laplace", resolution=0.0, random_state=None):
        super().__init__(n_queries)
        self.scale = check_real("scale", scale, low=0.0, high=2.0**20, closed="right")
        self._rule = _always_above(self.scale, noise, resolution, random_state)
        self.noise = self._rule.noise
        self.resolution = self._rule.resolution
        # The grid that noise lives on: at most this step (Thresholdout, Notes).
        self._step = 2.0**-44 * max(1.0, self.scale / 2.0)

    def _release(self, holdout):
        return self._rule.answer(np.full(holdout.size, _FAR), holdout).values

    def dp_epsilon(self, sensitivity):
        r"""Return the pure DP level of all answers, :math:`m \Delta / \sigma`.

        Parameters
        ----------
        sensitivity : float
            How far one record can move a holdout value.

        Returns
        -------
        float
            Level for replace-one neighbors; infinite for Gaussian noise, see `zcdp_rho`.
        """
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
        if self.noise != "laplace":
            return math.inf
        return self.n_queries * (sensitivity + self._step) / self.scale

    def zcdp_rho(self, sensitivity):
        r"""Return the level of zero-concentrated DP of all answers.

        :math:`m \Delta^2 / (2\sigma^2)` for Gaussian noise (Bun, Steinke 2016, Prop. 1.6), and
        :math:`m\varepsilon^2/2` with :math:`\varepsilon = \Delta/\sigma` per answer for Laplace
        noise (their Prop. 1.4): the same expression.

        Parameters
        ----------
        sensitivity : float
            How far one record can move a holdout value.

        Returns
        -------
        float
            The level; Gaussian noise is taken as continuous.
        """
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, high=1.0, closed="right")
        return self.n_queries * ((sensitivity + self._step) / self.scale) ** 2 / 2.0


class DataSplitting(_EveryQuery):
    """Answer every query from records of its own, exactly.

    The mechanism hands out the parts and counts them; the caller computes the holdout value of
    query ``j`` on the records `part` gives for it.

    Parameters
    ----------
    n_queries : int
        Number of parts, hence of answers.
    resolution : float in [0, 1], default=0.0
        Width of the cells of released answers; 0: the exact values.

    Attributes
    ----------
    n_answered, n_above, remaining_budget : int
        Parts used, and left.

    Examples
    --------
    >>> from benchmarks.mechanisms import DataSplitting
    >>> mechanism = DataSplitting(3)
    >>> mechanism.part(8)
    array([0, 1])
    >>> mechanism.answer(0.5, 0.25).values
    0.25
    >>> mechanism.part(8)
    array([2, 3, 4])
    """

    def __init__(self, n_queries, *, resolution=0.0):
        super().__init__(n_queries)
        self.resolution = check_real("resolution", resolution, low=0.0, high=1.0)

    def part(self, n_records, *, ahead=0):
        """Return the records that belong to the next query.

        Parameters
        ----------
        n_records : int
            Size of the holdout; records are in random order.
        ahead : int, default=0
            How many queries of the same batch come before it.

        Returns
        -------
        ndarray of int
            Indices of a contiguous part; parts of different queries are disjoint, and their sizes
            differ by at most one record.

        Raises
        ------
        ValueError
            If there are fewer records than queries, or no part is left.
        """
        n_records = check_integer("n_records", n_records, low=self.n_queries)
        query = self.n_answered + check_integer("ahead", ahead, low=0)
        if not query < self.n_queries:
            raise ValueError(
                f"ahead must be below remaining_budget={self.remaining_budget}, got ahead={ahead}."
            )
        start, stop = (n_records * (query + end) // self.n_queries for end in (0, 1))
        return np.arange(start, stop)

    def _release(self, holdout):
        if self.resolution == 0.0:
            return holdout
        return np.minimum((to_cell(holdout, self.resolution) + 0.5) * self.resolution, 1.0)
