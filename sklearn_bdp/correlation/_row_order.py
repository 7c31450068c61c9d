"""Do records that were declared independent look it? Tests that are exact for shuffled records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft

from sklearn_bdp._checks import check_array, check_probability
from sklearn_bdp.correlation._components import label_codes

PERMUTATIONS = 199
LONGEST_SERIES = 20_000  # longer series are looked at in their first records
SHORTEST_SERIES = 40


@dataclass(frozen=True)
class IndependenceReport:
    """What cross-validated scores show about records that were declared independent.

    Parameters
    ----------
    misfit : bool
        Whether some check failed.
    message : str
        One sentence per failed check, with what to declare; empty when none failed.
    order_p : float or None
        p-value of "the order of the rows does not matter".
    group_p : float or None
        p-value of "the groups do not matter"; None without groups.
    """

    misfit: bool
    message: str
    order_p: float | None = None
    group_p: float | None = None


def check_independence(
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    states: ArrayLike | None = None,
    folds: ArrayLike | None = None,
    level: float = 0.005,
) -> IndependenceReport:
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
    IndependenceReport
        The outcome; nothing is raised or warned here.

    See Also
    --------
    IndependenceReport : What it returns.
    check_groups : Test for dependence of neighboring groups.

    Notes
    -----
    Permutation tests (a fixed seed, 199 permutations): exact for any scores if rows are
    exchangeable; with ``folds`` if the rows of each fold are. The statistic for the order is
    the largest standardised sum of autocorrelations over dyadic windows, so that short and long
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
    level = check_probability("level", level)
    codes, strata, parts = (
        _codes(name, labels, len(series))
        for name, labels in (("groups", groups), ("states", states), ("folds", folds))
    )
    if parts is not None:
        series = series - _means(series, parts)
        strata = parts if strata is None else label_codes(strata * (parts.max() + 1) + parts)
    if len(series) < SHORTEST_SERIES or not np.ptp(series) > 0:
        return IndependenceReport(False, "")
    order_p = p_of_order([series], strata)
    messages = [_order_message(order_p, level, states)] if order_p <= level else []
    group_p = None
    if codes is not None and 1 < codes.max() + 1 < len(series):
        group_p = _permutation_p(series, lambda rows: _group_statistic(rows, codes), parts)
        if group_p <= level:
            messages.append(
                "cross-validated scores differ between groups by more than chance explains (p = "
                f"{group_p:.2g}{_how_often(level)}): declare correlation='groups' and pass groups= "
                "to fit"
            )
    return IndependenceReport(bool(messages), "; ".join(messages), order_p, group_p)


def _codes(name, labels, n):
    """Return labels as numbers from 0, or None where there are none."""
    if labels is None:
        return None
    codes = label_codes(labels)
    if len(codes) != n:
        raise ValueError(f"{name} must hold one label per score, got {len(codes)} for {n}.")
    return codes


def _means(series, parts):
    """Return the mean of its part for each entry."""
    return (np.bincount(parts, weights=series) / np.maximum(np.bincount(parts), 1))[parts]


def p_of_order(kinds, strata=None):
    """Return the p-value of "the order does not matter" to any series (within strata, if any)."""
    kinds = [one[:LONGEST_SERIES] for one in kinds]
    if strata is not None:
        strata = strata[:LONGEST_SERIES]
        kinds = [one - _means(one, strata) for one in kinds]
    kinds = [one for one in kinds if len(one) >= SHORTEST_SERIES and np.ptp(one) > 0]
    if not kinds:
        return 1.0

    def statistic(rows):
        return np.max([_order_statistic(one[rows]) for one in kinds], axis=0)

    return _permutation_p(np.arange(len(kinds[0])), statistic, strata)


def _how_often(level):
    """Return how often independent records look like that, in words."""
    return f"; this happens in one of {round(1 / level):,} tables of independent records"


def _order_message(p, level, states):
    if states is not None:
        return (
            "within the public states, scores of neighboring rows agree more than chance explains "
            f"(p = {p:.2g}{_how_often(level)}). If records depend on more than their own state, "
            "scores weighted by state have another expectation: leave states= out, or add states "
            "that carry the memory"
        )
    return (
        "scores of neighboring rows agree more than chance explains (p = "
        f"{p:.2g}{_how_often(level)}). Dependence would make intervals under correlation=None too "
        "narrow. In time order: set correlation='time'. Shared patients, users or sites: pass "
        "groups= with correlation='groups'"
    )


def _permutation_p(series, statistic, strata=None):
    rng = np.random.default_rng(20170303)
    rows = np.tile(series, (PERMUTATIONS + 1, 1))
    parts = [slice(None)] if strata is None else _places(strata)
    for places in parts:
        rows[1:, places] = rng.permuted(rows[1:, places], axis=1)
    values = np.concatenate([statistic(part) for part in np.array_split(rows, 20)])
    # Ties count against the alternative, so the test is exact.
    return float((values >= values[0] - 1e-12 * abs(values[0])).mean())


def _places(strata):
    """Return the positions of each stratum."""
    order = np.argsort(strata, kind="stable")
    return np.split(order, np.cumsum(np.bincount(strata))[:-1])


def _order_statistic(rows):
    """Return the largest standardised sum of autocorrelations over windows 1, 2, 4, … n / 10."""
    n = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    windows = 2 ** np.arange(int(np.log2(max(1, n // 10))) + 1)
    size = fft.next_fast_len(n + int(windows[-1]), real=True)  # longer lags may wrap around
    spectrum = np.abs(fft.rfft(centred, size, axis=1)) ** 2
    covariance = fft.irfft(spectrum, size, axis=1)
    sums = np.cumsum(covariance[:, 1 : windows[-1] + 1], axis=1)[:, windows - 1]
    return (sums / covariance[:, :1] * np.sqrt(n / windows)).max(axis=1)


def _group_statistic(rows, codes):
    """Return the variance between groups."""
    sizes = np.bincount(codes)
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.stack([np.bincount(codes, weights=row) for row in centred])
    return (sums**2 / sizes).sum(axis=1)
