"""Do training-side scores contradict a declared correlation? Nothing is raised or warned here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, sparse
from scipy.spatial import cKDTree

from sklearn_bdp._checks import check_array, check_probability
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import label_codes
from sklearn_bdp.correlation._network import NetworkModel
from sklearn_bdp.correlation._strength import least_autocorrelation_time

DRAWS = 199  # what the observed scores are compared with
LONGEST_SERIES = 20_000  # longer series are looked at in their first records
#: Fewest scores or groups in a row, groups with a place, nodes with a score, scores in time.
SHORTEST_SERIES, FEWEST_PLACES, FEWEST_NODES, SHORTEST_TIME = 40, 10, 30, 160
NEAREST = 6  # groups around a place that count as its neighbors
SWEEPS = 25  # of the heat bath, from independent spins; it settles in a few


@dataclass(frozen=True)
class DependenceReport:
    """What cross-validated scores show about a declared correlation.

    Parameters
    ----------
    misfit : bool
        Whether some test failed.
    message : str
        One sentence per failed test, with what to declare; empty when none failed.
    p_value : float or None
        The smallest p-value of the tests; None where there was nothing to test.
    """

    misfit: bool
    message: str = ""
    p_value: float | None = None


_ORDER = (
    "scores of neighboring rows agree more than chance explains (p = {p:.2g}; this happens in one "
    "of {often:,} tables of independent records). Dependence would make intervals under "
    "correlation=None too narrow. In time order: set correlation='time'. Shared patients, users or "
    "sites: pass groups= with correlation='groups'"
)
_WITHIN_STATES = (
    "within the public states, scores of neighboring rows agree more than chance explains "
    "(p = {p:.2g}). If records depend on more than their own state, scores weighted by state have "
    "another expectation: leave states= out, or add states that carry the memory"
)
_GROUPS = (
    "cross-validated scores differ between groups by more than chance explains (p = {p:.2g}): "
    "declare correlation='groups' and pass groups= to fit"
)
_NEAR_GROUPS = (
    "cross-validated scores or residuals of neighboring groups agree more than chance explains "
    "(p = {p:.2g}). Groups are declared independent, and intervals are too narrow if they are not. "
    "Declare larger groups or, for other places on this map, MarkovNetwork(graph)"
)
_EDGES = (
    "cross-validated scores or residuals of neighboring nodes agree more than the declared "
    "influence of edges allows (p = {p:.2g}). Intervals are too narrow if nodes depend that much. "
    "Estimate the strength from training labels with influence='estimate', or declare more"
)


def _report(level, found):
    """Return the report of p-values by what they say where they are small."""
    said = [text.format(p=p, often=round(1 / level)) for text, p in found.items() if p <= level]
    return DependenceReport(bool(said), "; ".join(said), min(found.values()))


def check_independence(
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    states: ArrayLike | None = None,
    folds: ArrayLike | None = None,
    level: float = 0.005,
) -> DependenceReport:
    """Test whether per-record scores depend on the order of the rows, or on groups.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record cross-validated scores in row order, of models that were fitted on rows drawn
        without regard to the order (shuffled folds); with ``folds``, on any others.
    groups : array-like of shape (n,), optional
        A label per record.
    states : array-like of shape (n,), optional
        Public state of each record: only the order *within* states is tested, which is what
        ``MarkovChain(P, states=...)`` needs (theory G11′).
    folds : array-like of shape (n,), optional
        Which model scored a record, for instance the number of its test fold. Scores are
        compared within folds only: a better model does not show dependence.
    level : float, default=0.005
        Each test fails at this significance: in one of 200 tables of independent records.

    Returns
    -------
    DependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    DependenceReport : What it returns.
    check_groups : Test for dependence of neighboring groups.

    Notes
    -----
    Permutation tests (a fixed seed, 199 permutations): exact for any scores if rows are
    exchangeable; with ``folds`` if the rows of each fold are. The statistic for the order is
    the largest standardized sum of autocorrelations over dyadic windows, so that short and long
    memory both show; the one for groups is the variance between them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import check_independence
    >>> scores = np.random.default_rng(0).random(600)
    >>> check_independence(scores).misfit
    False
    >>> print(check_independence(np.repeat(scores, 5)).message[:63])
    scores of neighboring rows agree more than chance explains (p =
    """
    series = check_array("scores", scores, shape=(None,))
    level, strata = check_probability("level", level), None
    codes, *within = (
        _codes(name, labels, len(series))
        for name, labels in (("groups", groups), ("states", states), ("folds", folds))
    )
    series = series[:LONGEST_SERIES]
    if any(part is not None for part in within):
        kept = np.column_stack([part[: len(series)] for part in within if part is not None])
        strata = np.unique(kept, axis=0, return_inverse=True)[1].ravel()
        series = series - (np.bincount(strata, weights=series) / np.bincount(strata))[strata]
    if len(series) < SHORTEST_SERIES or not np.ptp(series) > 0:
        return DependenceReport(False)
    placed = _permuted(len(series), strata)
    found = {_ORDER if states is None else _WITHIN_STATES: _p([series], _autocorrelation, placed)}
    if codes is not None and 1 < codes.max() + 1 < len(codes):
        member = sparse.csr_array(
            (np.ones(len(series)), (codes[: len(series)], range(len(series))))
        )
        found[_GROUPS] = _p([series], partial(_between, member), placed)
    return _report(level, found)


def check_groups(
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    coordinates: ArrayLike | None = None,
    level: float = 0.005,
) -> DependenceReport:
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
    DependenceReport
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
    statistic, fewest, most = _autocorrelation, SHORTEST_SERIES, LONGEST_SERIES
    if coordinates is not None:
        places = check_array("coordinates", coordinates, shape=(np.shape(scores)[0], None))[known]
        centers = np.column_stack([np.bincount(codes, weights=axis) / sizes for axis in places.T])
        statistic, fewest, most = partial(_moran, _near(centers)), FEWEST_PLACES, len(sizes)
    means = [(np.bincount(codes, weights=one) / sizes)[:most] for one in kinds]
    means = [one for one in means if np.ptp(one) > 0]
    if not means or len(sizes) < fewest:
        return DependenceReport(False)
    return _report(level, {_NEAR_GROUPS: _p(means, statistic, _permuted(len(means[0])))})


def check_neighbors(
    model: NetworkModel, scores: ArrayLike, *, level: float = 0.005
) -> DependenceReport:
    """Test whether scores along edges agree more than the declared strength allows (theory G25).

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
    DependenceReport
        The outcome; nothing is raised or warned here.

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
    if len(known) < FEWEST_NODES or not kinds or not np.isfinite(edges.data).all():
        return DependenceReport(False)
    leanings = _leanings(edges, np.random.default_rng(20170303), DRAWS)[places][known]
    ranks = np.argsort(np.argsort(leanings, axis=0), axis=0).T
    part = model.adjacency_[known][:, known].astype(bool).astype(float)
    p = _p(kinds, partial(_moran, part), lambda one: np.vstack([one, np.sort(one)[ranks]]))
    return _report(level, {_EDGES: p})


def check_misfit(
    model: CorrelationModel, *, scores: ArrayLike, level: float = 0.001
) -> DependenceReport:
    """Test whether scores in time depend on each other longer than a declared chain allows.

    Parameters
    ----------
    model : CorrelationModel
        The declared chain, a list of chains, or independent records.
    scores : array-like of shape (n,)
        Per-record scores of the training set in time, for example cross-validation errors; at least
        160, or nothing is tested.
    level : float, default=0.001
        Significance of the test.

    Returns
    -------
    DependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    check_independence : The test without a declared chain.
    check_neighbors : The test of a network.

    Notes
    -----
    The autocorrelation time of *any* per-record score is at most what the model guarantees, and so
    is the spectrum at any frequency. A lower limit of the time by the slow swings of the scores
    that is larger shows too little dependence in the model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import Independent, check_misfit
    >>> scores = np.repeat(np.random.default_rng(0).random(300), 10)
    >>> print(check_misfit(Independent(), scores=scores).message)
    by the model 1 record in 1.0 counts, by the scores at least 1 in ...: declare more
    dependence, or set correlation='time', which assumes nothing about it
    """
    level = check_probability("level", level)
    series = check_array("scores", scores, shape=(None,))
    if not (model.is_sequential or model.is_independent):
        raise ValueError(f"model must be a chain of records in time, got {model!r}.")
    if len(series) < SHORTEST_TIME:
        return DependenceReport(False)
    n = model.n_records if model.n_records is not None else max(len(series), 100_000)
    promised, shown = n / model.effective_n(n), least_autocorrelation_time(series, level)
    if not shown > promised:
        return DependenceReport(False)
    return DependenceReport(
        True,
        f"by the model 1 record in {promised:.1f} counts, by the scores at least 1 in {shown:.1f}: "
        "declare more dependence, or set correlation='time', which assumes nothing about it",
    )


# -- one permutation test -------------------------------------------------------------------------


def _p(kinds, statistic, placed):
    """Return the p-value of some kinds of values: of their statistics the largest standardized.

    ``placed(values)`` returns the values as they are and as they could have been, in rows.
    """
    found = []
    for values in kinds:
        rows = placed(values - values.mean())
        parts = np.array_split(rows, 1 + rows.size // 500_000)  # to spare memory
        drawn = np.concatenate([statistic(part) for part in parts])
        found.append((drawn - drawn.mean()) / (drawn.std() or 1.0))
    largest = np.max(found, axis=0)
    # Ties count against the alternative, so the test is exact.
    return float((largest >= largest[0] - 1e-9 * (1.0 + abs(largest[0]))).mean())


def _permuted(n, strata=None):
    """Return a function that places values as they are and in random orders (within strata)."""
    rng = np.random.default_rng(20170303)
    orders = np.tile(np.arange(n), (DRAWS + 1, 1))
    for places in [np.arange(n)] if strata is None else _places(strata):
        orders[1:, places] = rng.permuted(orders[1:, places], axis=1)
    return lambda values: values[orders]


def _places(strata):
    """Return the positions of each stratum."""
    order = np.argsort(strata, kind="stable")
    return np.split(order, np.cumsum(np.bincount(strata))[:-1])


def _autocorrelation(rows):
    """Return the largest standardized sum of autocorrelations over windows 1, 2, 4, … n / 10."""
    n = rows.shape[1]
    windows = 2 ** np.arange(int(np.log2(max(1, n // 10))) + 1)
    size = fft.next_fast_len(n + int(windows[-1]), real=True)  # longer lags may wrap around
    covariance = fft.irfft(np.abs(fft.rfft(rows, size, axis=1)) ** 2, size, axis=1)
    sums = np.cumsum(covariance[:, 1 : windows[-1] + 1], axis=1)[:, windows - 1]
    return (sums / covariance[:, :1] * np.sqrt(n / windows)).max(axis=1)


def _between(member, rows):
    """Return the variance between groups; ``member`` has one row per group."""
    return ((member @ rows.T) ** 2 / np.maximum(member.sum(axis=1), 1.0)[:, None]).sum(axis=0)


def _moran(edges, rows):
    """Return the sum over edges of products (Moran's statistic)."""
    return np.einsum("ij,ji->i", rows, edges @ rows.T)


def _near(places):
    """Return the graph that joins each place with those nearest to it."""
    count = len(places)
    near = cKDTree(places).query(places, min(NEAREST, count - 1) + 1)[1].reshape(count, -1)
    rows = np.repeat(np.arange(count), near.shape[1])
    graph = sparse.csr_array((np.ones(rows.size), (rows, near.ravel())), shape=(count, count))
    return sparse.csr_array(graph.maximum(graph.T) - sparse.eye_array(count))


def _codes(name, labels, n):
    """Return labels as numbers from 0, or None where there are none."""
    if labels is None:
        return None
    codes = label_codes(labels)
    if len(codes) != n:
        raise ValueError(f"{name} must hold one label per score, got {len(codes)} for {n}.")
    return codes


def _kinds(scores):
    """Return the kinds of scores that vary, and the records that have them."""
    series = np.asarray(scores, dtype=float).reshape(len(scores), -1)
    known = np.flatnonzero(~np.isnan(series).any(axis=1))
    return [one for one in series[known].T if one.size and np.ptp(one) > 0], known


# -- an Ising model -------------------------------------------------------------------------------


def ising_spins(diameters, rng, *, draws: int = DRAWS) -> Array:
    """Return ``draws`` configurations of ±1 spins whose edges have these diameters (heat bath)."""
    return np.sign(_leanings(diameters, rng, draws).astype(float))


def _leanings(diameters, rng, draws):
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
