"""Two ways to draw the statistics of a data set that the variable-selection analyst uses.

The analyst queries the correlation of every attribute with the label, and later the accuracy of a
few sign-vote classifiers. :class:`RecordSample` draws all records and computes both.
:class:`StatisticSample` draws the statistics themselves from their exact joint distribution,
without the records: at 10,000 records by 10,000 attributes that is a thousand times cheaper.

Why it is exact. Let the label be u = -1 or 1 and z_ij = u_i x_ij. In every distribution used here
z_ij = shift_j + loading_j m_i + scale_j g_ij, where m_i is the sign "label times mood" (absent for
Dwork's data), and the rows g_i are independent normal vectors with covariance R, independent of
m (u_i is a sign, so u_i g_i has the distribution of g_i). A correlation is the mean of a column of
z, so it
needs m and the mean g_bar ~ N(0, R / n) only. A classifier with weights w is right about record i
when z_i @ w > 0. Given g_bar, the rest g_i - g_bar is independent of it and of m, so for the rows
of weights W the votes (g_i - g_bar) @ (W * scale).T are normal with covariance
(W * scale) R (W * scale).T across classifiers, centered over the records. The analyst uses no other
statistic.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from benchmarks.experiments._markov import apply_neighbors, make_markov, neighbor_noise
from benchmarks.experiments._signal import make_dwork_signal
from examples.simulated import simulate_states


@dataclass(frozen=True)
class Population:
    """A simulator and the numbers that describe its distribution.

    Parameters
    ----------
    make : callable
        ``make(n, random_state=rng)`` returns a data set.
    stay : float or None
        Probability that a sign (label, mood) keeps its value from record to record; None for
        independent records.
    """

    make: object
    stay: float | None = None

    @cached_property
    def distribution(self):
        """Distribution of one record."""
        return self.make(1, random_state=0).distribution

    @cached_property
    def statistics(self):
        """Shifts, loadings and scales of the attributes, and the neighbor correlation."""
        distribution = self.distribution
        of_label_one = distribution.means[distribution.labels == 1]
        shifts = of_label_one.mean(axis=0)
        loadings = of_label_one[-1] - shifts  # the last component has mood +1
        correlation = getattr(distribution, "neighbor_correlation", 0.0)
        return shifts, loadings, distribution.scales, correlation


def dwork_population(n_features, n_shifted, shift):
    """Return the population of Dwork et al.'s data; ``n_shifted=0`` gives no signal."""
    make = partial(
        make_dwork_signal, n_features=n_features, n_shifted=n_shifted, shift=shift, dtype="float32"
    )
    return Population(make)


def markov_population(n_features, n_shifted, shift, stay, loading):
    """Return the population of the same data along a Markov chain."""
    make = partial(
        make_markov,
        n_features=n_features,
        n_shifted=n_shifted,
        shift=shift,
        stay=stay,
        loading=loading,
        dtype="float32",
    )
    return Population(make, stay)


class RecordSample:
    """A sample of records; statistics are computed from them."""

    def __init__(self, population, n, rng):
        data = population.make(n, random_state=rng)
        self._X = data.X
        self._sign = (2 * data.y - 1).astype(data.X.dtype)

    def correlations(self):
        """Return the mean of label times attribute, for each attribute."""
        return (self._sign @ self._X).astype(float) / len(self._X)

    def accuracies(self, weights):
        """Return the share of records that each row of ``weights`` classifies correctly."""
        return self.hits(weights).mean(axis=1)

    def products(self):
        """Return label times attribute, shape (n_features, n)."""
        return (self._sign[:, None] * self._X).T

    def hits(self, weights):
        """Return whether each row of ``weights`` is right about each record."""
        used = np.flatnonzero(weights.any(axis=0))
        votes = self._X[:, used] @ weights[:, used].T.astype(self._X.dtype)
        return (votes * self._sign[:, None] > 0).T.astype(float)


class StatisticSample:
    """A sample of the same statistics from their exact joint distribution, without records."""

    def __init__(self, population, n, rng):
        self._n = n
        self._rng = rng
        self._shifts, self._loadings, self._scales, self._r = population.statistics
        self._sign = self._draw_signs(population.stay)
        noise = neighbor_noise(rng.standard_normal(len(self._shifts)), self._r)
        self._noise_mean = noise / np.sqrt(n)

    def _draw_signs(self, stay):
        """Return label times mood; a product of two independent sign chains is a sign chain."""
        if stay is None:
            return np.zeros(self._n)
        keep = stay**2 + (1.0 - stay) ** 2
        states = simulate_states(
            np.array([[keep, 1.0 - keep], [1.0 - keep, keep]]), self._n, self._rng
        )
        return 2.0 * states - 1.0

    def correlations(self):
        """Return the mean of label times attribute, for each attribute."""
        return self._shifts + self._loadings * self._sign.mean() + self._scales * self._noise_mean

    def accuracies(self, weights):
        """Return the share of records that each row of ``weights`` classifies correctly.

        May be called once: a second call would draw the same records' noise anew.
        """
        scaled = weights * self._scales
        covariance = scaled @ apply_neighbors(scaled, self._r).T
        values, vectors = np.linalg.eigh(covariance)  # singular where two classifiers agree
        root = vectors * np.sqrt(np.clip(values, 0.0, None))
        noise = self._rng.standard_normal((self._n, len(weights)))
        noise -= noise.mean(axis=0)
        votes = noise @ root.T
        votes += np.outer(self._sign, weights @ self._loadings)
        votes += weights @ self._shifts + scaled @ self._noise_mean
        return (votes > 0).mean(axis=0)


SAMPLES = {"statistics": StatisticSample, "records": RecordSample}
