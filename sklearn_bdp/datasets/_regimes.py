"""Records whose hidden state decides how well any classifier can do: chains and groups.

Graphs (``_graph.py``) use the same emission. A record with state ``s`` has a fair label ``y`` and
attributes ``N((2y - 1) * separation[s] * direction, I)``. They differ in how states are shared
between records, which is what a correlation model has to describe.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array, check_integer, check_real
from sklearn_bdp._typing import Seed
from sklearn_bdp.correlation import MarkovChain, stationary_distribution
from sklearn_bdp.datasets._dataset import GaussianMixture, SimulatedDataset, simulate_states


def unit_direction(n_features, n_informative):
    """Return the unit vector with equal weight on the first ``n_informative`` attributes."""
    direction = np.zeros(n_features)
    direction[:n_informative] = 1.0 / np.sqrt(n_informative)
    return direction


def check_separation(separation, n_states):
    """Return one separation per state; by default from 1.5 down to 0."""
    if separation is None:
        return np.linspace(1.5, 0.0, n_states) if n_states > 1 else np.array([1.5])
    return check_array("separation", separation, shape=(n_states,))


def regime_distribution(probabilities, separation, direction):
    """Return the distribution of one record whose state has the given probabilities."""
    centres = separation[:, None] * direction
    return GaussianMixture(
        weights=np.concatenate([probabilities, probabilities]) / 2.0,
        labels=np.repeat([0, 1], len(probabilities)),
        means=np.vstack([-centres, centres]),
        scales=np.ones(len(direction)),
    )


def place(noise, y, states, separation, direction):
    """Return attributes: standard normal noise moved to the centre of each record's class."""
    return noise + ((2 * y - 1) * separation[states])[:, None] * direction


def check_features(n_features, n_informative):
    """Return the two counts, checked against each other."""
    n_features = check_integer("n_features", n_features, low=1)
    return n_features, check_integer("n_informative", n_informative, low=1, high=n_features)


def make_regimes(
    n: int,
    transition: ArrayLike,
    *,
    n_features: int = 20,
    n_informative: int = 5,
    separation: ArrayLike | None = None,
    random_state: Seed = None,
) -> SimulatedDataset:
    r"""Records that pass through regimes following a transition matrix.

    The state :math:`s_t` is a stationary Markov chain. Given the states, records are independent:
    :math:`y_t` is 0 or 1 with probability 1/2, and
    :math:`x_t \sim N((2 y_t - 1)\, c_{s_t} u,\; I)` with ``separation`` :math:`c` and the unit
    vector :math:`u` over the first ``n_informative`` attributes. A classifier is good in regimes of
    large separation and no better than a coin where it is 0, so the accuracy on a holdout depends
    on how much time that holdout happened to spend in each regime. Intervals that pretend
    independence miss the truth by that much.

    Parameters
    ----------
    n : int
        Number of records.
    transition : array-like of shape (n_states, n_states)
        Stochastic, irreducible. ``transition[a, b]`` is the probability of moving from regime
        ``a`` to regime ``b``.
    n_features : int, default=20
        Number of attributes.
    n_informative : int, default=5
        Number of attributes that carry the label.
    separation : array-like of shape (n_states,), default=None
        Distance of each class mean from the origin, in standard deviations; negative values turn
        the rule round. By default evenly spaced from 1.5 to 0.
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        With ``states`` and ``transition``; ``population_accuracy`` is exact.

    Raises
    ------
    ValueError
        If the matrix is not stochastic and irreducible, or a number is out of range.

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_regimes
    >>> data = make_regimes(500, [[0.99, 0.01], [0.01, 0.99]], random_state=0)
    >>> direction = [1, 1, 1, 1, 1] + [0] * 15
    >>> round(data.population_accuracy(direction), 4)  # (Phi(1.5) + Phi(0)) / 2
    0.7166
    """
    n = check_integer("n", n, low=1)
    transition = MarkovChain(transition).transition
    n_features, n_informative = check_features(n_features, n_informative)
    separation = check_separation(separation, len(transition))
    sample = partial(
        _sample_regimes, transition, separation, unit_direction(n_features, n_informative)
    )
    return sample(n, np.random.default_rng(random_state))


def _sample_regimes(transition, separation, direction, n, rng):
    states = simulate_states(transition, n, rng)
    y = rng.integers(0, 2, n)
    noise = rng.standard_normal((n, len(direction)))
    return SimulatedDataset(
        X=place(noise, y, states, separation, direction),
        y=y,
        distribution=regime_distribution(
            stationary_distribution(transition), separation, direction
        ),
        sampler=partial(_sample_regimes, transition, separation, direction),
        states=states,
        transition=transition,
        description=f"{len(transition)} regimes following a transition matrix",
    )


def make_groups(
    n: int,
    *,
    group_size: ArrayLike = 5,
    n_features: int = 20,
    n_informative: int = 5,
    separation: ArrayLike | None = None,
    share: float = 0.5,
    random_state: Seed = None,
) -> SimulatedDataset:
    r"""Several records per group, as with patients who are measured more than once.

    Each group draws a label (fair) and a state (uniform) that all its records share. Records are
    :math:`x \sim N((2y - 1)\, c_s u,\; I)`, and a part ``share`` of the variance of their noise is
    common to the group. Groups are independent of each other.

    Parameters
    ----------
    n : int
        Number of records.
    group_size : int or array-like of int, default=5
        Records per group (the last group may be smaller), or the size of every group, with sum
        ``n``.
    n_features, n_informative, separation : object
        As for :func:`make_regimes`; any number of states, two by default.
    share : float, default=0.5
        Part of the noise variance that records of a group share, in [0, 1].
    random_state : None, int or numpy.random.Generator, default=None
        Source of randomness.

    Returns
    -------
    SimulatedDataset
        With ``groups`` and ``states``; ``population_accuracy`` is exact (for a record of a
        group).

    Raises
    ------
    ValueError
        If the group sizes do not sum to ``n``, or a number is out of range.

    Examples
    --------
    >>> from sklearn_bdp.datasets import make_groups
    >>> data = make_groups(12, group_size=4, random_state=0)
    >>> data.groups.tolist(), data.correlation
    ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], 'groups')
    """
    n = check_integer("n", n, low=1)
    n_features, n_informative = check_features(n_features, n_informative)
    separation = _state_separation(separation)
    share = check_real("share", share, low=0.0, high=1.0)
    sizes = _check_sizes(group_size, n)
    direction = unit_direction(n_features, n_informative)
    sample = partial(_sample_groups, sizes, separation, direction, share)
    return sample(n, np.random.default_rng(random_state))


def _check_sizes(group_size, n):
    """Return the group size, or the array of all sizes checked against ``n``."""
    if np.ndim(group_size) == 0:
        return check_integer("group_size", group_size, low=1)
    sizes = check_array("group_size", group_size, ndim=1, low=1)
    if not (sizes == np.round(sizes)).all() or sizes.sum() != n:
        raise ValueError(
            f"group_size must hold whole numbers with sum n={n}, got sum {float(sizes.sum()):g}."
        )
    return sizes.astype(int)


def _state_separation(separation):
    """Return the separation of any number of states, two by default."""
    n_states = 2 if separation is None else np.size(separation)
    return check_separation(separation, n_states)


def _sample_groups(sizes, separation, direction, share, n, rng):
    given = sizes
    if np.ndim(sizes) == 0:
        groups = np.arange(n) // sizes
    else:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        if len(groups) != n:
            raise ValueError(f"n must be {len(groups)}, the sum of the group sizes, got n={n}.")
    n_groups, n_states = groups[-1] + 1, len(separation)
    states = rng.integers(0, n_states, n_groups)[groups]
    y = rng.integers(0, 2, n_groups)[groups]
    common = rng.standard_normal((n_groups, len(direction)))[groups]
    own = rng.standard_normal((n, len(direction)))
    noise = np.sqrt(1.0 - share) * own + np.sqrt(share) * common
    return SimulatedDataset(
        X=place(noise, y, states, separation, direction),
        y=y,
        distribution=regime_distribution(np.full(n_states, 1.0 / n_states), separation, direction),
        sampler=partial(_sample_groups, given, separation, direction, share),
        states=states,
        groups=groups,
        description=f"{n_groups} groups that share label, state and part of the noise",
    )
