"""Tests of a declared correlation by cross-validated scores; a misfit raises no error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, sparse
from scipy.spatial import cKDTree

from sklearn_bdp.correlation.components import label_codes
from sklearn_bdp.utils.validation import check_array, check_probability

N_PERMUTATIONS = 199  # that the observed scores are compared with
MAX_SERIES = 20_000  # of longer series the first values are tested
MIN_SERIES = 40  # fewest scores, or groups in row order, of a test
MIN_LOCATED_GROUPS = 10  # fewest groups with coordinates of a test
N_NEAREST = 6  # nearest groups that count as the neighbors of a group with coordinates


@dataclass(frozen=True)
class DependenceReport:
    """Result of testing a declared correlation by cross-validated scores.

    Parameters
    ----------
    misfit : bool
        Whether at least one test rejected the declared correlation.
    message : str
        One sentence per failed test, with a declaration to use instead; empty if none failed.
    p_value : float or None
        The smallest p-value of the tests; None if there was nothing to test.
    note : str
        Line that a certificate shows for a declared strength: the result of the test, or the reason
        why there was no test; empty for other declarations.
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
    """Return the report of tests at one significance level.

    ``p_values``: p-value of each test by the template of its message, which the report has if the
    p-value is at most ``level``.
    """
    messages = [
        template.format(p=p_value, often=round(1 / level))
        for template, p_value in p_values.items()
        if p_value <= level
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
        Per-record cross-validated scores in row order. Without ``folds``, models must have been
        fitted on rows drawn without regard to the order (shuffled folds).
    groups : array-like of shape (n,), optional
        A label per record. Groups are not tested if there is only one, or one per record.
    folds : array-like of shape (n,), optional
        Label of the model that scored a record, such as the number of its test fold. Scores are
        compared within folds only, because models of some folds are better.
    level : float, default=0.005
        Significance level of each test. By default, a test rejects in at most one of 200 tables of
        independent records.

    Returns
    -------
    DependenceReport
        The result. A misfit raises no error and no warning. The ``p_value`` is None if there are
        fewer than 40 scores, or if they do not vary within folds.

    See Also
    --------
    DependenceReport : The returned report.
    group_independence_test : Test for dependence of neighboring groups.

    Notes
    -----
    Of longer series the first 20,000 records are tested.

    Permutation tests (a fixed seed, 199 permutations) are exact for any scores if rows are
    exchangeable, or with ``folds`` if the rows of each fold are. The statistic for the order is
    the largest standardized sum of autocorrelations over lags up to 1, 2, 4, …. The statistic for
    groups is the sum of squares between groups.

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
    group_codes = _codes("groups", groups, len(series))
    strata = _codes("folds", folds, len(series))  # records that are compared with each other
    series = series[:MAX_SERIES]
    if strata is not None:
        strata = np.unique(strata[: len(series)], return_inverse=True)[1]
        stratum_means = np.bincount(strata, weights=series) / np.bincount(strata)
        series = series - stratum_means[strata]
    if len(series) < MIN_SERIES or not np.ptp(series) > 0:
        return DependenceReport(False)
    permute = _permutation_function(len(series), strata)
    p_values = {_ORDER: _permutation_p_value([series], _autocorrelation_statistic, permute)}
    if group_codes is not None and 1 < group_codes.max() + 1 < len(group_codes):
        group_codes = group_codes[: len(series)]
        membership = sparse.csr_array((np.ones(len(series)), (group_codes, range(len(series)))))
        statistic = partial(_group_statistic, membership)
        p_values[_GROUPS] = _permutation_p_value([series], statistic, permute)
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
    scores : array-like of shape (n,) or (n, n_columns)
        Per-record cross-validated scores in row order; NaN for unscored records. Several columns,
        such as scores and residuals, are tested together at one level. Records with NaN in any of
        them are left out.
    groups : array-like of shape (n,)
        Label of the group of each record.
    coordinates : array-like of shape (n, n_dimensions), optional
        Location of each record. Neighbors are then groups near each other, in any order of the
        rows. By default, neighbors are groups that follow each other in the rows, and the first
        20,000 groups are tested.
    level : float, default=0.005
        Significance level of the test, which is exact if the mean scores of groups are
        exchangeable.

    Returns
    -------
    DependenceReport
        The result. A misfit raises no error and no warning. The ``p_value`` is None with fewer than
        40 scored groups (10 with ``coordinates``), or if their means do not vary.

    See Also
    --------
    independence_test : Test for dependence within groups.

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
    scored_records = np.flatnonzero(~np.isnan(series).any(axis=1))
    columns = [values for values in series[scored_records].T if values.size and np.ptp(values) > 0]
    codes = np.unique(label_codes(groups)[scored_records], return_inverse=True)[1]
    sizes = np.bincount(codes)
    statistic = _autocorrelation_statistic
    min_groups = MIN_SERIES
    max_groups = MAX_SERIES
    if coordinates is not None:
        locations = check_array("coordinates", coordinates, shape=(len(series), None))
        centers = np.column_stack(
            [np.bincount(codes, weights=axis) / sizes for axis in locations[scored_records].T]
        )
        statistic = partial(_moran_statistic, _neighbor_graph(centers))
        min_groups = MIN_LOCATED_GROUPS
        max_groups = len(sizes)
    mean_columns = []  # vectors of group means that vary
    for values in columns:
        group_means = (np.bincount(codes, weights=values) / sizes)[:max_groups]
        if np.ptp(group_means) > 0:
            mean_columns.append(group_means)
    if not mean_columns or len(sizes) < min_groups:
        return DependenceReport(False)
    permute = _permutation_function(len(mean_columns[0]))
    p_value = _permutation_p_value(mean_columns, statistic, permute)
    return _report(level, {_NEAR_GROUPS: p_value})


# -- one permutation test -------------------------------------------------------------------------


def _permutation_p_value(columns, statistic, permute):
    """Return the permutation p-value of the largest, over columns, of a standardized statistic.

    ``columns``: vectors of one length. ``permute(values)`` returns a matrix with the observed
    values in the first row and permuted values in the other rows. ``statistic(matrix)`` returns
    one number for each row.
    """
    standardized_per_column = []
    for values in columns:
        permuted_values = permute(values - values.mean())
        chunks = np.array_split(permuted_values, 1 + permuted_values.size // 500_000)  # of rows
        statistics = np.concatenate([statistic(chunk) for chunk in chunks])
        standardized = (statistics - statistics.mean()) / (statistics.std() or 1.0)
        standardized_per_column.append(standardized)
    max_statistics = np.max(standardized_per_column, axis=0)  # one per permutation
    observed = max_statistics[0]
    # Ties count against the alternative, so the test keeps its level.
    is_as_large = max_statistics >= observed - 1e-9 * (1.0 + abs(observed))
    return float(is_as_large.mean())


def _permutation_function(n, strata=None):
    """Return a function that maps ``n`` values to a matrix of their permutations, one per row.

    The first row has the values as they are. The other rows are random permutations within strata.
    ``strata``: number of the stratum of each value, None for one stratum.
    """
    rng = np.random.default_rng(20170303)
    orders = np.tile(np.arange(n), (N_PERMUTATIONS + 1, 1))
    strata = np.zeros(n, dtype=int) if strata is None else strata
    positions_by_stratum = np.argsort(strata, kind="stable")
    for positions in np.split(positions_by_stratum, np.cumsum(np.bincount(strata))[:-1]):
        orders[1:, positions] = rng.permuted(orders[1:, positions], axis=1)
    return lambda values: values[orders]


def _autocorrelation_statistic(permuted_values):
    """Return the largest standardized sum of autocorrelations of each row.

    The sums are over lags up to 1, 2, 4, …, at most a tenth of the row length (but at least 1).
    Rows have mean 0.
    """
    n = permuted_values.shape[1]
    max_lags = 2 ** np.arange(int(np.log2(max(1, n // 10))) + 1)
    # Longer lags than the largest may wrap around.
    size = fft.next_fast_len(n + int(max_lags[-1]), real=True)
    spectrum = np.abs(fft.rfft(permuted_values, size, axis=1)) ** 2
    autocovariance = fft.irfft(spectrum, size, axis=1)
    sums = np.cumsum(autocovariance[:, 1 : max_lags[-1] + 1], axis=1)[:, max_lags - 1]
    standardized = sums / autocovariance[:, :1] * np.sqrt(n / max_lags)
    return standardized.max(axis=1)


def _group_statistic(membership, permuted_values):
    """Return the sum of squares between groups for each row of values, which has mean 0.

    ``membership``: matrix with one row per group, and with 1 in the columns of its records.
    """
    sizes = np.maximum(membership.sum(axis=1), 1.0)
    group_sums = membership @ permuted_values.T
    return (group_sums**2 / sizes[:, None]).sum(axis=0)


def _moran_statistic(adjacency, permuted_values):
    """Return Moran's statistic of each row: the sum over edges of the product of both ends' values.

    Every edge counts twice, once for each entry of the symmetric ``adjacency``.
    """
    return np.einsum("ij,ji->i", permuted_values, adjacency @ permuted_values.T)


def _neighbor_graph(centers):
    """Return the adjacency matrix of a graph that joins each center with its nearest, usually 6.

    ``centers``: array of shape (n_centers, n_dimensions).
    """
    n_centers = len(centers)
    n_nearest = min(N_NEAREST, n_centers - 1)
    # Includes the center itself, unless many others are at the same location.
    _, nearest = cKDTree(centers).query(centers, n_nearest + 1)
    nearest = nearest.reshape(n_centers, -1)
    sources = np.repeat(np.arange(n_centers), nearest.shape[1])
    targets = nearest.ravel()
    is_edge = sources != targets
    ends = sources[is_edge], targets[is_edge]
    links = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n_centers, n_centers))
    return sparse.csr_array(links.maximum(links.T))


def _codes(name, labels, n):
    """Return the labels of ``n`` scores as codes 0, 1, …; None if ``labels`` is None.

    Raises ValueError for another number of labels. ``name``: the parameter, for the error.
    """
    if labels is None:
        return None
    codes = label_codes(labels)
    if len(codes) != n:
        raise ValueError(f"{name} must hold one label per score, got {len(codes)} for {n}.")
    return codes
