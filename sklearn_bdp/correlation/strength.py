"""Do cross-validated scores contradict a declared strength of dependence? (theory G33)

Nothing is raised or warned here. A test that finds nothing proves nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, norm

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.base import CorrelationModel
from sklearn_bdp.correlation.chain import MarkovChain
from sklearn_bdp.correlation.declaration import WorstOf
from sklearn_bdp.correlation.dependence import DependenceReport
from sklearn_bdp.correlation.network import MarkovNetwork, fit_potts
from sklearn_bdp.correlation.sequences import ChainSequences
from sklearn_bdp.utils.validation import check_array, check_probability, check_real

#: Lengths of blocks, in declared autocorrelation times, and the fewest blocks of a test.
BLOCK_LENGTHS, FEWEST_BLOCKS = (3.0, 10.0), 6
#: Fewest edges between training nodes of a test, and most classes of numbers that are labels.
FEWEST_EDGES, MOST_CLASSES = 30, 20

_STRONGER = (
    "cross-validated scores vary {ratio:.2g} times as much between blocks of {block} records as "
    "the declared autocorrelation time of {time:.3g} records explains (p = {p:.2g}): dependence or "
    "drift. Intervals may be too narrow. Declare "
    "MarkovChain.from_autocorrelation_time({suggested:.3g}) or more, or correlation='time', which "
    "assumes no strength"
)
_CONTRADICTED = (
    "NOT MET: the declared autocorrelation time of {time:.3g} records explains the training scores "
    "(p = {p:.2g}, {n} scores)"
)
_TESTED = (
    "the declared autocorrelation time of {time:.3g} records is long enough, which {n} training "
    "scores do not contradict"
)
_UNTESTED = (
    "the declared autocorrelation time of {time:.3g} records is long enough, which is not testable "
    "with so few records ({n} training scores, at least {least:.0f} are needed)"
)
_STRONGER_INFLUENCE = (
    "labels of neighbors agree as under an influence of {influence:.2g} nats, more than the "
    "declared {declared:.2g} explain (p = {p:.2g}). Intervals may be too narrow. Declare a larger "
    "influence, or MarkovNetwork(graph), which assumes no strength"
)
_CONTRADICTED_INFLUENCE = (
    "NOT MET: the declared influence of {declared:.3g} nats explains the training labels "
    "(p = {p:.2g}, {n} labels)"
)
_TESTED_INFLUENCE = (
    "the declared influence of {declared:.3g} nats is large enough, which {n} training labels do "
    "not contradict"
)
_UNTESTED_INFLUENCE = (
    "the declared influence of {declared:.3g} nats is large enough, which is not testable with so "
    "few records ({n} training labels on {edges} edges)"
)


def declared_strength_test(
    model: CorrelationModel,
    *,
    scores: ArrayLike | None = None,
    folds: ArrayLike | None = None,
    sequences: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> DependenceReport | None:
    """Test the strength that a model of the training records declares.

    Parameters
    ----------
    model : CorrelationModel
        Model of the training records.
    scores, folds, sequences : array-like of shape (n,), optional
        Per-record cross-validated scores in time, the fold and the sequence of each, for chains.
    labels : array-like of shape (n,), optional
        Labels of the training records, for networks of a declared influence.

    Returns
    -------
    DependenceReport or None
        The outcome; None if the model declares no strength that these values could contradict.
    """
    if isinstance(model, MarkovNetwork):
        if labels is None or not declares_influence(model):
            return None
        return influence_test(model, labels)
    if declares_time(model) and scores is not None:
        time = declared_time(model)
        return autocorrelation_time_test(scores, time, folds=folds, sequences=sequences)
    return None


def declares_time(model: CorrelationModel) -> bool:
    """Return whether a model is a chain, or a list of chains."""
    if isinstance(model, WorstOf):
        return all(map(declares_time, model.models))
    return isinstance(model, MarkovChain | ChainSequences)


def declares_influence(model: CorrelationModel) -> bool:
    """Return whether a model is a network whose edges have declared, finite influences."""
    return (
        isinstance(model, MarkovNetwork)
        and not model.is_estimated
        and model.adjacency_.nnz > 0
        and bool(np.isfinite(model.adjacency_.data).all())
    )


def declared_time(model: CorrelationModel) -> float:
    """Return the longest autocorrelation time, in records, that a chain allows for any score."""
    if isinstance(model, WorstOf):
        return max(map(declared_time, model.models))
    if isinstance(model, ChainSequences):
        return declared_time(model.chain)
    contraction: float = getattr(model, "contraction_", 1.0)
    return (1.0 + contraction) / (1.0 - contraction) if contraction < 1.0 else math.inf


def autocorrelation_time_test(
    scores: ArrayLike,
    time: float,
    *,
    folds: ArrayLike | None = None,
    sequences: ArrayLike | None = None,
    level: float = 0.005,
) -> DependenceReport:
    r"""Test whether per-record scores vary more slowly than a declared autocorrelation time.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record cross-validated scores in time; NaN for unscored records.
    time : float
        Declared integrated autocorrelation time, in records; at least 1.
    folds : array-like of shape (n,), optional
        Which model scored a record. Scores are compared within folds: a better model does not show
        dependence.
    sequences : array-like of shape (n,), optional
        Sequence of each record, if there are several. Blocks lie within one sequence.
    level : float, default=0.005
        Significance of the test.

    Returns
    -------
    DependenceReport
        The outcome; ``note`` is the line of certificates.

    See Also
    --------
    independence_test : Test for any dependence, of records that are declared independent.

    Notes
    -----
    Means :math:`m_j` of ``k`` blocks of :math:`b = 3\tau` and :math:`10\tau` records (those with at
    least 6 blocks) are compared with the variance :math:`\sigma^2\tau/b` that the declared time
    :math:`\tau` gives them: :math:`Q = b \sum_j (m_j - \bar m)^2 / (\sigma^2 \tau)`, as
    :math:`\chi^2` with :math:`2(k-1)/(2+\kappa)` degrees of freedom, where
    :math:`\kappa = 2\max(\text{excess kurtosis}, 0)\,\tau/b` (theory G33). A drift is found, too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation import autocorrelation_time_test
    >>> scores = np.repeat(np.random.default_rng(0).random(400), 10)
    >>> autocorrelation_time_test(scores, 2.0).misfit
    True
    >>> autocorrelation_time_test(scores, 10.0).misfit
    False
    """
    series = np.asarray(scores, dtype=float)
    if series.ndim != 1:
        raise ValueError(f"scores must have one dimension, got shape {series.shape}.")
    time = time if time == math.inf else check_real("time", time, low=1.0)
    level = check_probability("level", level)
    scored = ~np.isnan(series)
    positions = [np.flatnonzero(scored)] if sequences is None else _positions(sequences, scored)
    if folds is not None:
        folds = check_array("folds", folds, shape=(len(series),))
        series = _without_fold_means(series, scored, folds)
    values = series[scored]
    n = len(values)
    min_scores = FEWEST_BLOCKS * BLOCK_LENGTHS[0] * time
    if n < min_scores:
        return DependenceReport(False, note=_UNTESTED.format(time=time, n=n, least=min_scores))
    variance = float(values.var())
    if not variance > 1e-24 * max(1.0, float(np.abs(values).max())) ** 2:
        return DependenceReport(False, note=_TESTED.format(time=time, n=n))
    p, ratio, block = _slowest_variation(series, positions, values, variance, time)
    if p > level:
        return DependenceReport(False, p_value=p, note=_TESTED.format(time=time, n=n))
    message = _STRONGER.format(ratio=ratio, block=block, time=time, p=p, suggested=ratio * time)
    return DependenceReport(True, message, p, note=_CONTRADICTED.format(time=time, p=p, n=n))


def _without_fold_means(series, scored, folds):
    """Return scores less the mean of their fold: models of some folds are better."""
    codes = np.unique(folds[scored], return_inverse=True)[1]
    series = series.copy()
    sums = np.bincount(codes, weights=series[scored])
    series[scored] -= (sums / np.bincount(codes))[codes]
    return series


def _slowest_variation(series, positions, values, variance, time):
    """Return the smallest p-value of all lengths of blocks, with its ratio and its length.

    The ratio is that of the variance of block means to the declared one. ``positions``: of the
    scores of each sequence; ``values``: all scores, of this ``variance``.
    """
    excess = float(np.mean((values - values.mean()) ** 4)) / variance**2 - 3.0
    worst = (1.0, 1.0, 0)
    for length in BLOCK_LENGTHS:
        block = math.ceil(length * time)
        means = np.concatenate([_block_means(series[rows], block) for rows in positions])
        if len(means) < FEWEST_BLOCKS:
            continue
        ratio = block * float(means.var(ddof=1)) / (variance * time)
        heaviness = 2.0 * max(excess, 0.0) * time / block
        freedom = 2.0 * (len(means) - 1) / (2.0 + heaviness)
        worst = min(worst, (float(chi2.sf(ratio * freedom, freedom)), ratio, block))
    return worst


def influence_test(
    model: MarkovNetwork, labels: ArrayLike, *, level: float = 0.005
) -> DependenceReport:
    """Test whether labels of neighbors agree more than the declared influence of edges allows.

    Parameters
    ----------
    model : MarkovNetwork
        Network of the training nodes, with finite influences.
    labels : array-like of shape (n,)
        Label of each training node; numbers are cut at their median.
    level : float, default=0.005
        Significance of the test.

    Returns
    -------
    DependenceReport
        The outcome; ``note`` is the line of certificates.

    See Also
    --------
    autocorrelation_time_test : The same of chains.

    Notes
    -----
    The influence of a Potts model with one coupling, by pseudo-likelihood (Besag 1975), less the
    normal quantile of its standard error, is compared with the largest declared influence. Features
    may explain the agreement of labels: then it is a misfit of a model of records, too.
    """
    level = check_probability("level", level)
    declared = float(model.adjacency_.data.max())
    n_edges = model.adjacency_.nnz // 2
    codes = _classes(labels)
    note = {"declared": declared, "n": len(codes), "edges": n_edges}
    if len(np.unique(codes)) < 2 or n_edges < FEWEST_EDGES:
        return DependenceReport(False, note=_UNTESTED_INFLUENCE.format(**note))
    influence, error = fit_potts(model.adjacency_.astype(bool).astype(float), codes)
    if not math.isfinite(error):
        return DependenceReport(False, note=_UNTESTED_INFLUENCE.format(**note))
    p = float(norm.sf((influence - declared) / max(error, 1e-12)))
    if p > level:
        return DependenceReport(False, p_value=p, note=_TESTED_INFLUENCE.format(**note))
    finding = {"p": p, "influence": influence, **note}
    return DependenceReport(
        True,
        _STRONGER_INFLUENCE.format(**finding),
        p,
        note=_CONTRADICTED_INFLUENCE.format(**finding),
    )


def _classes(labels):
    """Return labels as class numbers; numbers with many values are cut at their median."""
    values = np.asarray(labels)
    codes = np.unique(values, return_inverse=True)[1]
    if values.dtype.kind == "f" and codes.max() >= MOST_CLASSES:
        return (values > np.median(values)).astype(int)
    return codes


def _positions(sequences, scored):
    """Return the positions of the scored records of each sequence, in their order."""
    codes = np.unique(np.asarray(sequences), return_inverse=True)[1]
    if len(codes) != len(scored):
        raise ValueError(
            f"sequences must hold one label per score, got {len(codes)} for {len(scored)}."
        )
    return [np.flatnonzero(scored & (codes == code)) for code in range(int(codes.max()) + 1)]


def _block_means(values: Array, block: int) -> Array:
    """Return the means of whole blocks of consecutive values."""
    count = len(values) // block
    return values[: count * block].reshape(count, block).mean(axis=1)
