"""Simulated data together with the distribution it was drawn from."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sklearn_bdp._checks import check_array, check_integer
from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation import stationary_distribution


def simulate_states(transition, n, rng):
    """Draw ``n`` consecutive states, numbers from 0, of a stationary irreducible chain."""
    # The last column is left out: what no threshold exceeds is the last state, whatever rounding
    # does to the cumulative sum.
    steps = np.cumsum(transition, axis=1)[:, :-1].tolist()
    length = math.ceil(math.sqrt(n))
    uniform = rng.random((length, -(-n // length)))  # by columns, which fixes what a seed means
    # One step from a stationary state is a stationary state.
    first = np.cumsum(stationary_distribution(transition))[:-1].tolist()
    state, states = bisect_right(first, rng.random()), []
    for draw in uniform.T.ravel()[:n].tolist():
        state = bisect_right(steps[state], draw)
        states.append(state)
    return np.array(states, dtype=np.intp)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture:
    """Distribution of one record: a mixture of labeled Gaussians with one covariance.

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
        Probabilities, summing to 1.
    labels : ndarray of shape (n_components,), of 0 and 1
        The label that each component carries.
    means : ndarray of shape (n_components, n_features)
        Mean of the attributes in each component.
    scales : ndarray of shape (n_features,)
        Standard deviation of each attribute within a component.
    """

    weights: np.ndarray
    labels: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    def accuracy(self, coef: Array, intercept: Array) -> Array:
        """Return P[(x @ coef + intercept > 0) == y] for each row of ``coef``, exactly.

        Within a component the decision is normal, so the accuracy is a weighted sum of normal
        distribution functions. A decision of exactly zero predicts label 0, as in scikit-learn.

        Parameters
        ----------
        coef : ndarray of shape (n_classifiers, n_features)
            One linear classifier per row.
        intercept : ndarray of shape (n_classifiers,)
            Their intercepts.

        Returns
        -------
        ndarray of shape (n_classifiers,)
            Population accuracies.
        """
        centre = coef @ self.means.T + intercept[:, None]
        spread = np.sqrt(self.variances(coef * self.scales))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            positive = np.where(spread > 0, ndtr(centre / spread), centre > 0)
        return np.where(self.labels == 1, positive, 1.0 - positive) @ self.weights

    def variances(self, weighted: Array) -> Array:
        """Return the variance within a component of each row of weights, scales included.

        Parameters
        ----------
        weighted : ndarray of shape (n_classifiers, n_features)
            Weights times scales.

        Returns
        -------
        ndarray of shape (n_classifiers,)
            Variances.
        """
        return (weighted**2).sum(axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedDataset:
    """Simulated dataset with known truth.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
        Attributes.
    y : ndarray of shape (n_records,), of 0 and 1
        Labels.
    distribution : GaussianMixture
        Distribution of a single record (all records share it).
    sampler : callable
        ``sampler(n, rng)`` returns a further data set drawn from the same distribution.
    states : ndarray of shape (n_records,) or None
        Hidden states the records were drawn from.
    transition : ndarray of shape (n_states, n_states) or None
        Transition matrix of ``states`` when the records follow a Markov chain.
    graph : scipy.sparse.csr_array of shape (n_records, n_records) or None
        Symmetric adjacency of the records; connected components are independent. The stored
        values are the influence along each edge (largest log cross-ratio, nats).
    description : str
        One plain line.

    Attributes
    ----------
    correlation : object
        What to pass as ``correlation=``: the transition matrix, the graph or ``None``.

    See Also
    --------
    make_graph : Makes one.
    make_regimes : Makes one.

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_regimes
    >>> data = make_regimes(1000, [[0.95, 0.05], [0.1, 0.9]], random_state=0)
    >>> data.X.shape, data.y.shape, data.correlation.shape
    ((1000, 20), (1000,), (2, 2))
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit(data.X, data.y)
    >>> truth = data.population_accuracy(model.coef_, model.intercept_)
    >>> fresh = data.fresh(200_000, random_state=1)
    >>> bool(abs(model.score(fresh.X, fresh.y) - truth) < 0.01)
    True
    """

    X: np.ndarray
    y: np.ndarray
    distribution: GaussianMixture = field(repr=False)
    sampler: Callable = field(repr=False)
    states: np.ndarray | None = None
    transition: np.ndarray | None = None
    graph: scipy.sparse.csr_array | None = None
    description: str = ""

    @property
    def correlation(self) -> Any:
        """Object to pass as ``correlation=``."""
        return self.graph if self.transition is None else self.transition

    def population_accuracy(self, coef: ArrayLike, intercept: ArrayLike = 0.0) -> Any:
        """Return the accuracy of linear classifiers on the population, exactly.

        Parameters
        ----------
        coef : array-like of shape (n_features,) or (n_classifiers, n_features)
            Label 1 is predicted where ``x @ coef + intercept > 0``. The ``coef_`` of a
            scikit-learn classifier fits.
        intercept : float or array-like of shape (n_classifiers,), default=0.0
            Intercepts.

        Returns
        -------
        float or ndarray of shape (n_classifiers,)
            Probability that a record is classified correctly; a float for a single classifier.

        Raises
        ------
        ValueError
            If shapes do not match or values are not finite.
        """
        coef = np.atleast_2d(check_array("coef", coef))
        if coef.ndim != 2 or coef.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"coef must have {self.X.shape[1]} values per classifier, got shape {coef.shape}."
            )
        intercept = check_array("intercept", intercept)
        if intercept.size not in (1, len(coef)):
            raise ValueError(f"intercept must have {len(coef)} values, got {intercept.size}.")
        value = self.distribution.accuracy(coef, np.broadcast_to(intercept.ravel(), len(coef)))
        return float(value[0]) if len(coef) == 1 else value

    def fresh(self, n: int | None = None, *, random_state: Seed = None) -> SimulatedDataset:
        """Return a new, independent data set from the same distribution.

        Parameters
        ----------
        n : int, default=None
            Number of records; as many as here by default.
        random_state : None, int or numpy.random.Generator, default=None
            Source of randomness.

        Returns
        -------
        SimulatedDataset
            New records from the same distribution.
        """
        n = len(self.X) if n is None else check_integer("n", n, low=1)
        return self.sampler(n, np.random.default_rng(random_state))

    def __repr__(self) -> str:
        """Return the description and the shape, not the data."""
        n, d = self.X.shape
        return f"<{type(self).__name__}: {self.description}; {n} records, {d} attributes>"
