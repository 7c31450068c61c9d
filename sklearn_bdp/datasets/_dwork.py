"""The two data sets of Dwork et al.: attributes without and with a little signal."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from sklearn_bdp._checks import check_integer, check_option, check_real
from sklearn_bdp._typing import Seed
from sklearn_bdp.datasets._dataset import GaussianMixture, SimulatedDataset


def make_dwork_noise(
    n: int,
    n_features: int = 10_000,
    *,
    dtype: Literal["float64", "float32"] = "float64",
    random_state: Seed = None,
) -> SimulatedDataset:
    """Attributes that know nothing of the label: no classifier is better than a coin.

    Every attribute is standard normal and the label is 0 or 1 with probability 1/2, all
    independent (Dwork et al. 2017, Section 4.1, first experiment; the paper writes the labels
    as -1 and 1).

    Parameters
    ----------
    n : int
        Number of records.
    n_features : int, default=10_000
        Number of attributes.
    dtype : {"float64", "float32"}, default="float64"
        Type of ``X``; single precision halves memory and time.
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        Independent records; ``population_accuracy`` is 1/2 for every classifier.

    References
    ----------
    Dwork, Feldman, Hardt, Pitassi, Reingold, Roth (2017), *Guilt-Free Data Reuse*, CACM 60(4).

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_dwork_noise
    >>> data = make_dwork_noise(100, 50, random_state=0)
    >>> data.population_accuracy(range(50))
    0.5
    """
    return make_dwork_signal(
        n, n_features, n_shifted=0, shift=0.0, dtype=dtype, random_state=random_state
    )


def make_dwork_signal(
    n: int,
    n_features: int = 10_000,
    *,
    n_shifted: int = 20,
    shift: float = 0.06,
    dtype: Literal["float64", "float32"] = "float64",
    random_state: Seed = None,
) -> SimulatedDataset:
    """A few attributes shifted slightly towards the label, the rest noise.

    The label is 0 or 1 with probability 1/2. The first ``n_shifted`` attributes are
    ``N(shift * (2y - 1), 1)``, the others ``N(0, 1)``, all independent given the label
    (Dwork et al. 2017, Section 4.1, second experiment).

    Parameters
    ----------
    n, n_features : int
        As for :func:`make_dwork_noise`.
    n_shifted : int, default=20
        How many attributes carry the label.
    shift : float, default=0.06
        By how many standard deviations.
    dtype, random_state : object
        As for :func:`make_dwork_noise`.

    Returns
    -------
    SimulatedDataset
        Independent records; ``population_accuracy`` is exact.

    References
    ----------
    Dwork, Feldman, Hardt, Pitassi, Reingold, Roth (2017), *Guilt-Free Data Reuse*, CACM 60(4).

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_dwork_signal
    >>> data = make_dwork_signal(100, 50, random_state=0)
    >>> best = [1] * 20 + [0] * 30
    >>> round(data.population_accuracy(best), 4)  # Phi(0.06 * sqrt(20))
    0.6058
    """
    n = check_integer("n", n, low=1)
    n_features = check_integer("n_features", n_features, low=1)
    n_shifted = check_integer("n_shifted", n_shifted, low=0, high=n_features)
    shift = check_real("shift", shift)
    dtype = np.dtype(check_option("dtype", dtype, ("float64", "float32")))
    shifts = np.zeros(n_features)
    shifts[:n_shifted] = shift
    return _sample(shifts, n_shifted, dtype, n, np.random.default_rng(random_state))


def _sample(shifts, n_shifted, dtype, n, rng):
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, len(shifts)), dtype=dtype)
    X[:, :n_shifted] += ((2 * y - 1)[:, None] * shifts[:n_shifted]).astype(dtype)
    distribution = GaussianMixture(
        weights=np.array([0.5, 0.5]),
        labels=np.array([0, 1]),
        means=np.vstack([-shifts, shifts]),
        scales=np.ones(len(shifts)),
    )
    return SimulatedDataset(
        X=X,
        y=y,
        distribution=distribution,
        sampler=partial(_sample, shifts, n_shifted, dtype),
        description=f"{n_shifted} attributes shifted towards the label, independent records",
    )
