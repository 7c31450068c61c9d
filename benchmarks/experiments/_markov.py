"""Dwork's variable-selection data for records along a Markov chain (after Zhao 2017, Section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.signal import lfilter

from examples.simulated import GaussianMixture, SimulatedDataset, simulate_states


def apply_neighbors(rows, correlation):
    """Return each row times the matrix of entries ``correlation ** |j - k|``, in linear time.

    A sum over earlier and a sum over later attributes; each is a first-order recursion.
    """
    if correlation == 0.0:
        return rows
    filtered = partial(lfilter, [1.0], [1.0, -correlation], axis=-1)
    return filtered(rows) + filtered(rows[..., ::-1])[..., ::-1] - rows


def neighbor_noise(normals, correlation):
    """Return rows with correlations ``correlation ** |j - k|`` from independent standard normals.

    A stationary first-order autoregression over the attributes, in linear time, without a dense
    factor of the covariance. It changes ``normals``.
    """
    if correlation == 0.0:
        return normals
    normals[..., 1:] *= np.sqrt(1.0 - correlation**2)
    return lfilter(np.ones(1, normals.dtype), np.array([1.0, -correlation], normals.dtype), normals)


@dataclass(frozen=True, eq=False, repr=False)
class NeighborMixture(GaussianMixture):
    """Within a component, attributes ``j`` and ``k`` are correlated by ``r ** |j - k|``."""

    neighbor_correlation: float = 0.0

    def variances(self, weighted):
        """Return the variance of each row of weights within a component."""
        return (weighted * apply_neighbors(weighted, self.neighbor_correlation)).sum(axis=1)


def make_markov(
    n: int,
    n_features: int = 10_000,
    *,
    n_shifted: int = 20,
    shift: float = 0.06,
    stay: float = 0.95,
    loading: float = 0.1,
    neighbor_correlation: float = 0.5,
    dtype="float64",
    random_state=None,
):
    r"""Return records along a Markov chain, with correlated attributes that depend on the label.

    Two signs follow independent stationary two-state chains that keep their value with
    probability ``stay``: the label :math:`u_t` and a mood :math:`v_t`. Given both, records are
    independent, and attribute :math:`j` of record :math:`t` is

    .. math:: x_{tj} = s_j u_t + \ell_j v_t + \sqrt{1 - \ell_j^2}\; g_{tj},

    with :math:`s_j` = ``shift`` for ``n_shifted`` attributes spread evenly and 0 for the others,
    :math:`\ell_j = (-1)^j` ``loading``, and :math:`g_t` standard normal with correlation
    :math:`r^{|j - k|}` between attributes :math:`j` and :math:`k`. With ``n_shifted=0`` no
    classifier is better than a coin; yet label and mood agree by chance for long stretches, and
    attributes that follow the mood then look informative, all together.

    Zhao's experiment is the analogue of Dwork's for correlated records. The paper leaves the
    generator open; this one is a choice that makes both the correlation model and the population
    value of every linear classifier exact. The correlation model is the chain of the pair
    :math:`(u_t, v_t)`, four states.

    Parameters
    ----------
    n, n_features : int
        As for ``make_dwork_signal``.
    n_shifted : int, default=20
        How many attributes carry the label; 0 for no signal.
    shift : float, default=0.06
        By how much, in standard deviations.
    stay : float, default=0.95
        Probability, strictly between 0 and 1, that a sign keeps its value from one record to the
        next; 1/2 makes the records independent.
    loading : float, default=0.1
        Correlation of each attribute with the mood, between -1 and 1 (exclusive).
    neighbor_correlation : float, default=0.5
        Correlation :math:`r` of the noise of neighboring attributes, in [0, 1).
    dtype, random_state : object
        As for ``make_dwork_signal``.

    Returns
    -------
    SimulatedDataset
        With ``transition`` (4 states), ``states`` (label + 2 * mood) and exact
        ``population_accuracy``.

    References
    ----------
    Zhao (2017), *Adaptive Statistical Learning with Bayesian Differential Privacy*, WPES'17,
    Section 4.
    """
    sample = partial(
        _sample,
        spread_shifts(n_features, n_shifted, shift),
        alternating_loadings(n_features, loading),
        stay,
        neighbor_correlation,
        np.dtype(dtype),
    )
    return sample(n, np.random.default_rng(random_state))


def spread_shifts(n_features, n_shifted, shift):
    """Return the shift of each attribute: ``n_shifted`` of them, evenly spaced."""
    shifts = np.zeros(n_features)
    if n_shifted:
        shifts[np.arange(n_shifted) * n_features // n_shifted] = shift
    return shifts


def alternating_loadings(n_features, loading):
    """Return the loading of each attribute on the mood: equal sizes, alternating signs."""
    return loading * (1.0 - 2.0 * (np.arange(n_features) % 2))


def two_state_transition(stay):
    """Return the symmetric transition matrix that keeps its state with probability ``stay``."""
    return np.array([[stay, 1.0 - stay], [1.0 - stay, stay]])


def mood_distribution(shifts, loadings, neighbor_correlation):
    """Return the distribution of one record: label and mood are independent fair signs."""
    return NeighborMixture(
        weights=np.full(4, 0.25),
        labels=np.array([0, 1, 0, 1]),
        means=np.array([u * shifts + v * loadings for v in (-1, 1) for u in (-1, 1)]),
        scales=np.sqrt(1.0 - loadings**2),
        neighbor_correlation=neighbor_correlation,
    )


def _sample(shifts, loadings, stay, correlation, dtype, n, rng):
    step = two_state_transition(stay)
    label = simulate_states(step, n, rng)
    mood = simulate_states(step, n, rng)
    X = neighbor_noise(rng.standard_normal((n, len(shifts)), dtype=dtype), correlation)
    X *= np.sqrt(1.0 - loadings**2).astype(dtype)
    X += (2 * mood - 1).astype(dtype)[:, None] * loadings.astype(dtype)
    carriers = np.flatnonzero(shifts)
    X[:, carriers] += (2 * label - 1).astype(dtype)[:, None] * shifts[carriers].astype(dtype)
    return SimulatedDataset(
        X=X,
        y=label,
        distribution=mood_distribution(shifts, loadings, correlation),
        sampler=partial(_sample, shifts, loadings, stay, correlation, dtype),
        states=label + 2 * mood,
        transition=np.kron(step, step),
        description=f"{len(carriers)} attributes shifted, label and mood along two-state chains",
    )
