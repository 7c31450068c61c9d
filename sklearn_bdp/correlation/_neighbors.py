"""Do scores of neighbors agree more than a network or groups allow? (theory G25)"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_probability
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._components import label_codes
from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation._row_order import IndependenceReport, check_independence

#: Configurations that the observed scores are compared with.
DRAWS = 199
#: Sweeps of the heat bath, from independent spins; correlation along edges settles in a few.
SWEEPS = 25
#: Fewest nodes with a score.
FEWEST = 30


def check_neighbors(
    model: NetworkModel, scores: ArrayLike, *, level: float = 0.005
) -> IndependenceReport:
    """Test whether scores along edges agree more than the declared strength allows.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The declared network of the training nodes.
    scores : array-like of shape (n,)
        Per-node cross-validated scores; NaN where a node was not scored.
    level : float, default=0.005
        Significance at which the declaration is reported to be too weak.

    Returns
    -------
    IndependenceReport
        The outcome; nothing is raised or warned here. ``order_p`` is the p-value.

    See Also
    --------
    MarkovNetwork : The model that it tests.

    Notes
    -----
    The statistic is Moran's: the sum over edges of products of centered scores. It is compared
    with the same scores put on nodes by spins of an Ising model with the declared diameters, all
    attracting each other: the largest scores go to spins up, at random among them. Without
    influence this is an exact permutation test.
    """
    level = check_probability("level", level)
    series = np.asarray(scores, dtype=float)
    known = np.flatnonzero(~np.isnan(series))
    edges = model.adjacency_
    values = series[known] - series[known].mean() if len(known) else series
    if len(known) < FEWEST or not edges.nnz or not np.ptp(values) > 0:
        return IndependenceReport(False, "")
    if not np.isfinite(edges.data).all():
        return IndependenceReport(False, "")
    rng = np.random.default_rng(20170303)
    spins = ising_spins(edges, rng)[known]
    part = edges[known][:, known].astype(bool).astype(float)
    # Where spins are up the largest scores stand, at random among them.
    ranks = np.argsort(np.argsort(spins + rng.random(spins.shape), axis=0), axis=0)
    drawn = np.sort(values)[ranks]
    found = np.r_[values @ (part @ values), np.einsum("ij,ij->j", drawn, part @ drawn)]
    p = float((found >= found[0] - 1e-12 * abs(found[0])).mean())
    if p > level:
        return IndependenceReport(False, "", p)
    return IndependenceReport(
        True,
        "cross-validated scores of neighboring nodes agree more than the declared influence of "
        f"edges allows (p = {p:.2g}). Intervals are too narrow if nodes depend on each other that "
        "much. Estimate the strength from training labels with influence='estimate', or declare "
        "more",
        p,
    )


def check_groups(
    scores: ArrayLike, groups: ArrayLike, *, level: float = 0.005
) -> IndependenceReport:
    """Test whether mean scores of neighboring groups agree more than chance explains.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record cross-validated scores in row order; NaN where a record was not scored.
    groups : array-like of shape (n,)
        Group of each record.
    level : float, default=0.005
        Significance of the test (:func:`check_independence`), exact where groups are independent.

    Returns
    -------
    IndependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    check_independence : Test for dependence inside groups.
    """
    series, codes = np.asarray(scores, dtype=float), label_codes(groups)
    known = ~np.isnan(series)
    counts = np.bincount(codes[known], minlength=codes.max() + 1)
    sums = np.bincount(codes[known], weights=series[known], minlength=codes.max() + 1)
    found = check_independence((sums / np.maximum(counts, 1))[counts > 0], level=level)
    if not found.misfit:
        return found
    return IndependenceReport(
        True,
        "cross-validated scores of neighboring groups agree more than chance explains (p = "
        f"{found.order_p:.2g}). Groups are declared independent, and intervals are too narrow if "
        "they are not. Declare larger groups, or a network of the groups",
        found.order_p,
    )


def ising_spins(diameters, rng, *, draws: int = DRAWS) -> Array:
    """Return ``draws`` configurations of ±1 spins whose edges have these diameters (heat bath)."""
    half = diameters * 0.5  # log odds of a spin: sum of diameter / 2 times the neighbors' spins
    spins = rng.choice([-1.0, 1.0], size=(diameters.shape[0], draws))
    classes = _colors(diameters)
    for _ in range(SWEEPS):
        for members in classes:
            odds = half[members] @ spins
            chance = 0.5 * (1.0 + np.tanh(odds / 2.0))
            spins[members] = np.where(rng.random(odds.shape) < chance, 1.0, -1.0)
    return spins


def _colors(graph):
    """Return sets of nodes without edges inside, which may be updated together."""
    color = np.full(graph.shape[0], -1)
    for node in range(graph.shape[0]):
        near = color[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]]
        taken = set(near.tolist())
        color[node] = next(k for k in range(len(taken) + 1) if k not in taken)
    return [np.flatnonzero(color == k) for k in range(color.max() + 1)]
