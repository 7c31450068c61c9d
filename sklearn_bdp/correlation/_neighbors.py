"""Do scores of neighbors agree more than a network or groups allow? (theory G25)"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree

from sklearn_bdp._checks import check_array, check_probability
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._components import label_codes
from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation._row_order import IndependenceReport, p_of_order

#: Configurations that the observed scores are compared with.
DRAWS = 199
#: Sweeps of the heat bath, from independent spins; correlation along edges settles in a few.
SWEEPS = 25
#: Fewest nodes with a score, and fewest groups with a place.
FEWEST, FEWEST_GROUPS = 30, 10
#: Groups or records around a place that count as its neighbors.
NEAREST = 6


def check_neighbors(
    model: NetworkModel, scores: ArrayLike, *, level: float = 0.005
) -> IndependenceReport:
    """Test whether scores along edges agree more than the declared strength allows.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The declared network of the training nodes.
    scores : array-like of shape (n,) or (n, n_kinds)
        Per-node cross-validated scores; NaN where a node was not scored. Several kinds, such as
        scores and residuals, are tested together at one level.
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
    attracting each other: the largest scores go to the spins that lean up most. Without influence
    this is an exact permutation test. Nodes outside the training set are simulated as well,
    because training nodes also agree by way of them. Of several kinds of scores the largest
    standardized statistic counts.

    Examples
    --------
    >>> import networkx as nx
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import MarkovNetwork, check_neighbors
    >>> path = MarkovNetwork(nx.path_graph(300), influence=0.2)
    >>> scores = np.random.default_rng(0).random(300)
    >>> check_neighbors(path, scores).misfit, check_neighbors(path, np.sort(scores)).misfit
    (False, True)
    """
    level = check_probability("level", level)
    whole, places = model._whole or (model, slice(None))
    edges, (kinds, known) = whole.adjacency_, _kinds(scores)
    if len(known) < FEWEST or not kinds or not np.isfinite(edges.data).all():
        return IndependenceReport(False, "")
    rng = np.random.default_rng(20170303)
    leanings = _leanings(edges, rng)[places][known]
    part = model.adjacency_[known][:, known].astype(bool).astype(float)
    ranks = np.argsort(np.argsort(leanings, axis=0), axis=0)
    found = np.max([_moran(values, part, ranks) for values in kinds], axis=0)
    p = float((found >= found[0] - 1e-12 * abs(found[0])).mean())
    return _report(
        p,
        level,
        "cross-validated scores or residuals of neighboring nodes agree more than the declared "
        f"influence of edges allows (p = {p:.2g}). Intervals are too narrow if nodes depend that "
        "much. Estimate the strength from training labels with influence='estimate', or declare "
        "more",
    )


def check_groups(
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    coordinates: ArrayLike | None = None,
    level: float = 0.005,
) -> IndependenceReport:
    """Test whether mean scores of neighboring groups agree more than chance explains.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, n_kinds)
        Per-record cross-validated scores in row order; NaN where a record was not scored. Several
        kinds, such as scores and residuals, are tested together at one level.
    groups : array-like of shape (n,)
        Group of each record.
    coordinates : array-like of shape (n, n_dimensions), optional
        Place of each record. Neighbors are then groups near each other, in any order of the rows;
        without places, groups that follow each other in the rows.
    level : float, default=0.005
        Significance of the test (:func:`check_independence`), exact where groups are independent.

    Returns
    -------
    IndependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    check_independence : Test for dependence inside groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import check_groups
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(200), 3)
    >>> check_groups(rng.random(600), groups).misfit
    False
    >>> drifting = np.cumsum(rng.normal(size=200))[groups] + rng.random(600)
    >>> check_groups(drifting, groups).misfit
    True
    """
    level = check_probability("level", level)
    kinds, known = _kinds(scores)
    codes = np.unique(label_codes(groups)[known], return_inverse=True)[1]
    sizes = np.bincount(codes)
    kinds = [np.bincount(codes, weights=one) / sizes for one in kinds]
    if coordinates is None:
        p = p_of_order(kinds)
    else:
        places = check_array("coordinates", coordinates, shape=(np.shape(scores)[0], None))[known]
        centers = [np.bincount(codes, weights=axis) / sizes for axis in places.T]
        p = _p_of_places(kinds, np.column_stack(centers))
    return _report(
        p,
        level,
        "cross-validated scores or residuals of neighboring groups agree more than chance "
        f"explains (p = {p:.2g}). Groups are declared independent, and intervals are too narrow if "
        "they are not. Declare larger groups or, for other places on this map, "
        "MarkovNetwork(graph)",
    )


def _p_of_places(kinds, places):
    """Return the p-value of "where groups are does not matter": Moran's, by permutation."""
    count = len(places)
    if count < FEWEST_GROUPS or not kinds:
        return 1.0
    near = cKDTree(places).query(places, min(NEAREST, count - 1) + 1)[1]
    rows = np.repeat(np.arange(count), near.shape[1])
    part = sparse.csr_array((np.ones(rows.size), (rows, near.ravel())), shape=(count, count))
    part = sparse.csr_array(part.maximum(part.T) - sparse.eye_array(count))
    rng = np.random.default_rng(20170303)
    ranks = np.argsort(rng.random((count, DRAWS)), axis=0)
    found = np.max([_moran(values, part, ranks) for values in kinds], axis=0)
    return float((found >= found[0] - 1e-12 * abs(found[0])).mean())


def _report(p, level, text):
    """Return the report of a p-value; the text says what it means where it is small."""
    return IndependenceReport(p <= level, text if p <= level else "", p)


def _kinds(scores):
    """Return the kinds of scores that vary, and the records that have them."""
    series = np.asarray(scores, dtype=float).reshape(len(scores), -1)
    known = np.flatnonzero(~np.isnan(series).any(axis=1))
    return [one for one in series[known].T if one.size and np.ptp(one) > 0], known


def _moran(values, part, ranks):
    """Return Moran's statistic of the values, then of draws, in deviations of draws."""
    values = values - values.mean()
    drawn = np.sort(values)[ranks]
    found = np.r_[values @ (part @ values), np.einsum("ij,ij->j", drawn, part @ drawn)]
    return (found - found.mean()) / (found.std() or 1.0)


def ising_spins(diameters, rng, *, draws: int = DRAWS) -> Array:
    """Return ``draws`` configurations of ±1 spins whose edges have these diameters (heat bath)."""
    return np.sign(_leanings(diameters, rng, draws).astype(float))


def _leanings(diameters, rng, draws=DRAWS):
    """Return log odds of spins, plus logistic noise: positive where a spin is up."""
    half = diameters.astype(np.float32) * np.float32(0.5)  # times the neighbors' spins: log odds
    spins = rng.choice(np.array([-1.0, 1.0], np.float32), size=(diameters.shape[0], draws))
    leanings, classes = spins.copy(), [(part, half[part]) for part in _colors(diameters)]
    for _ in range(SWEEPS):
        for members, edges in classes:
            chance = 1e-6 + (1.0 - 2e-6) * rng.random((len(members), draws), dtype=np.float32)
            leanings[members] = edges @ spins + np.log(chance / (1.0 - chance))
            spins[members] = np.sign(leanings[members])
    return leanings


def _colors(graph):
    """Return sets of nodes without edges inside, which may be updated together."""
    color = np.full(graph.shape[0], -1)
    for node in range(graph.shape[0]):
        near = color[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]]
        taken = set(near.tolist())
        color[node] = next(k for k in range(len(taken) + 1) if k not in taken)
    return [np.flatnonzero(color == k) for k in range(color.max() + 1)]
