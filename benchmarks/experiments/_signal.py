"""Dwork's variable-selection data: independent records, a few attributes shifted by the label."""

from __future__ import annotations

from functools import partial

import numpy as np

from examples.simulated import GaussianMixture, SimulatedDataset


def make_dwork_signal(
    n: int,
    n_features: int = 10_000,
    *,
    n_shifted: int = 20,
    shift: float = 0.06,
    dtype="float64",
    random_state=None,
):
    """Return data with a few attributes that are shifted slightly towards the label.

    The label is 0 or 1 with probability 1/2. The first ``n_shifted`` attributes are
    ``N(shift * (2y - 1), 1)``, the others ``N(0, 1)``, all independent given the label
    (Dwork et al. 2017, Section 4.1, second experiment).

    Parameters
    ----------
    n : int
        Number of records.
    n_features : int, default=10_000
        Number of attributes.
    n_shifted : int, default=20
        Number of attributes that depend on the label.
    shift : float, default=0.06
        Shift of an attribute, in standard deviations.
    dtype : {"float64", "float32"}, default="float64"
        Type of ``X``; single precision halves memory and time.
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        Independent records; ``population_accuracy`` is exact.

    References
    ----------
    Dwork, Feldman, Hardt, Pitassi, Reingold, Roth (2017), *Guilt-Free Data Reuse*, CACM 60(4).

    Examples
    --------
    >>> from benchmarks.experiments._signal import make_dwork_signal
    >>> data = make_dwork_signal(100, 50, random_state=0)
    >>> best = [1] * 20 + [0] * 30
    >>> round(data.population_accuracy(best), 4)  # Phi(0.06 * sqrt(20))
    0.6058
    """
    shifts = np.zeros(n_features)
    shifts[:n_shifted] = shift
    sample = partial(_sample_signal, shifts, n_shifted, np.dtype(dtype))
    return sample(n, np.random.default_rng(random_state))


def _sample_signal(shifts, n_shifted, dtype, n, rng):
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
        sampler=partial(_sample_signal, shifts, n_shifted, dtype),
        description=f"{n_shifted} attributes shifted towards the label, independent records",
    )
