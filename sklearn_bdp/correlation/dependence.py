"""Do cross-validated scores contradict a declared correlation? A misfit raises nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, sparse
from scipy.spatial import cKDTree

from sklearn_bdp.correlation.components import label_codes
from sklearn_bdp.utils.validation import check_array, check_probability

DRAWS = 199  # permutations that the observed scores are compared with
LONGEST_SERIES = 20_000  # of longer series the first records are tested
#: Fewest scores or groups in a row, groups with a place.
SHORTEST_SERIES, FEWEST_PLACES = 40, 10
NEAREST = 6  # groups around a place that count as its neighbors


@dataclass(frozen=True)
class DependenceReport:
    """Result of testing a declared correlation by cross-validated scores.

    Parameters
    ----------
    misfit : bool
        Whether some test failed.
    message : str
        One sentence per failed test, with a declaration to use instead; empty when none failed.
    p_value : float or None
        The smallest p-value of the tests; None if there was nothing to test.
    note : str
        Line of certificates on a declared strength: the test's result, or why there was no test.
    """

    misfit: bool
    message: str = ""
    p_value: float | None = None
    note: str = ""


_ORDER = (
    "scores of neighboring rows agree more than chance explains (p = {p:.2g}; this happens in one "
    "of {often:,} tables of independent records). Dependence would make intervals under "
    "correlation=None too narrow. In time order: set correlation='time'. Shared patients, users or "
    "sites: pass groups= with correlation='groups'"
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


def _report(level, p_values):
    """Return the report of p-values, which are given by the message to show if they are small."""
    messages = [
        text.format(p=p, often=round(1 / level)) for text, p in p_values.items() if p <= level
    ]
    return DependenceReport(bool(messages), "; ".join(messages), min(p_values.values()))


def independence_test(
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
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
    DependenceReport : The returned report.
    group_independence_test : Test for dependence of neighboring groups.

    Notes
    -----
    Of longer series the first 20,000 records are tested.

    Permutation tests (a fixed seed, 199 permutations): exact for any scores if rows are
    exchangeable; with ``folds`` if the rows of each fold are. The statistic for the order is
    the largest standardized sum of autocorrelations over dyadic windows, so that short and long
    memory both show; the one for groups is the variance between them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import independence_test
    >>> scores = np.random.default_rng(0).random(600)
    >>> independence_test(scores).misfit
    False
    >>> print(independence_test(np.repeat(scores, 5)).message[:63])
    scores of neighboring rows agree more than chance explains (p =
    """
    series = check_array("scores", scores, shape=(None,))
    level = check_probability("level", level)
    codes = _codes("groups", groups, len(series))
    strata = _codes("folds", folds, len(series))
    series = series[:LONGEST_SERIES]
    if strata is not None:
        strata = np.unique(strata[: len(series)], return_inverse=True)[1]
        series = series - (np.bincount(strata, weights=series) / np.bincount(strata))[strata]
    if len(series) < SHORTEST_SERIES or not np.ptp(series) > 0:
        return DependenceReport(False)
    permute = _permuted(len(series), strata)
    p_values = {_ORDER: _p([series], _autocorrelation, permute)}
    if codes is not None and 1 < codes.max() + 1 < len(codes):
        codes = codes[: len(series)]
        member = sparse.csr_array((np.ones(len(codes)), (codes, range(len(codes)))))
        p_values[_GROUPS] = _p([series], partial(_between, member), permute)
    return _report(level, p_values)


def group_independence_test(
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
        Per-record cross-validated scores in row order; NaN for unscored records. Several
        kinds, such as scores and residuals, are tested together at one level.
    groups : array-like of shape (n,)
        Group of each record.
    coordinates : array-like of shape (n, n_dimensions), optional
        Place of each record. Neighbors are then groups near each other, in any order of the rows;
        without places, groups that follow each other in the rows.
    level : float, default=0.005
        Significance of the test (:func:`independence_test`), exact if groups are independent.

    Returns
    -------
    DependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    independence_test : Test for dependence inside groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import group_independence_test
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(200), 3)
    >>> group_independence_test(rng.random(600), groups).misfit
    False
    >>> drifting = np.cumsum(rng.normal(size=200))[groups] + rng.random(600)
    >>> group_independence_test(drifting, groups).misfit
    True
    """
    level = check_probability("level", level)
    series = np.asarray(scores, dtype=float)
    series = series.reshape(len(series), -1)
    scored = np.flatnonzero(~np.isnan(series).any(axis=1))
    columns = [values for values in series[scored].T if values.size and np.ptp(values) > 0]
    codes = np.unique(label_codes(groups)[scored], return_inverse=True)[1]
    sizes = np.bincount(codes)
    statistic = _autocorrelation
    min_groups = SHORTEST_SERIES
    max_groups = LONGEST_SERIES
    if coordinates is not None:
        locations = check_array("coordinates", coordinates, shape=(np.shape(scores)[0], None))
        centers = np.column_stack(
            [np.bincount(codes, weights=axis) / sizes for axis in locations[scored].T]
        )
        statistic = partial(_moran, _neighbor_graph(centers))
        min_groups = FEWEST_PLACES
        max_groups = len(sizes)
    means = [(np.bincount(codes, weights=values) / sizes)[:max_groups] for values in columns]
    means = [group_means for group_means in means if np.ptp(group_means) > 0]
    if not means or len(sizes) < min_groups:
        return DependenceReport(False)
    return _report(level, {_NEAR_GROUPS: _p(means, statistic, _permuted(len(means[0])))})


# -- one permutation test -------------------------------------------------------------------------


def _p(columns, statistic, permute):
    """Return the p-value of columns of values by the largest of their standardized statistics.

    ``permute(values)`` returns the observed values in the first row and permuted values below.
    """
    standardized = []
    for values in columns:
        rows = permute(values - values.mean())
        chunks = np.array_split(rows, 1 + rows.size // 500_000)  # to spare memory
        statistics = np.concatenate([statistic(chunk) for chunk in chunks])
        standardized.append((statistics - statistics.mean()) / (statistics.std() or 1.0))
    largest = np.max(standardized, axis=0)
    # Ties count against the alternative, so the test is exact.
    return float((largest >= largest[0] - 1e-9 * (1.0 + abs(largest[0]))).mean())


def _permuted(n, strata=None):
    """Return a function that gives values as observed and in random orders (within strata)."""
    rng = np.random.default_rng(20170303)
    orders = np.tile(np.arange(n), (DRAWS + 1, 1))
    strata = np.zeros(n, dtype=int) if strata is None else strata
    order = np.argsort(strata, kind="stable")
    for stratum in np.split(order, np.cumsum(np.bincount(strata))[:-1]):
        orders[1:, stratum] = rng.permuted(orders[1:, stratum], axis=1)
    return lambda values: values[orders]


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


def _neighbor_graph(centers):
    """Return the graph that joins each center with its nearest ones."""
    count = len(centers)
    _, neighbors = cKDTree(centers).query(centers, min(NEAREST, count - 1) + 1)
    neighbors = neighbors.reshape(count, -1)
    rows = np.repeat(np.arange(count), neighbors.shape[1])
    graph = sparse.csr_array((np.ones(rows.size), (rows, neighbors.ravel())), shape=(count, count))
    return sparse.csr_array(graph.maximum(graph.T) - sparse.eye_array(count))


def _codes(name, labels, n):
    """Return labels as numbers from 0, or None without labels."""
    if labels is None:
        return None
    codes = label_codes(labels)
    if len(codes) != n:
        raise ValueError(f"{name} must hold one label per score, got {len(codes)} for {n}.")
    return codes
