"""Tests of a declared strength of dependence by cross-validated scores or labels (theory G33).

A misfit raises no error and no warning. A test without a misfit does not prove the declaration.
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

BLOCK_LENGTHS = (3.0, 10.0)  # in declared autocorrelation times
MIN_BLOCKS = 6  # of one length, for a test
MIN_EDGES = 30  # between training nodes, for a test
#: Labels that are floats are taken for classes if they have at most this many values.
MAX_CLASSES = 20

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
_UNTESTED_SEQUENCES = (
    "the declared autocorrelation time of {time:.3g} records is long enough, which is not testable "
    "with sequences so short ({n} training scores, in fewer than {blocks} blocks of {block} "
    "records)"
)
_STRONGER_INFLUENCE = (
    "labels of neighbors depend on each other as under an influence of {influence:.2g} nats, more "
    "than the declared {declared:.2g} explain (p = {p:.2g}). Intervals may be too narrow. Declare "
    "a larger influence, or MarkovNetwork(graph), which assumes no strength"
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
        Per-record cross-validated scores in time, and the fold and the sequence of each record; for
        models of chains.
    labels : array-like of shape (n,), optional
        Labels of the training records; for networks with a declared influence.

    Returns
    -------
    DependenceReport or None
        The result of the test; None if the model declares no strength that a passed argument could
        contradict.
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
    """Return whether a model is a :class:`MarkovChain`, sequences of one, or a list of these."""
    if isinstance(model, WorstOf):
        return all(map(declares_time, model.models))
    return isinstance(model, MarkovChain | ChainSequences)


def declares_influence(model: CorrelationModel) -> bool:
    """Return whether a model is a MarkovNetwork with edges, all of declared, finite influence."""
    return (
        isinstance(model, MarkovNetwork)
        and not model.is_estimated
        and model.adjacency_.nnz > 0
        and bool(np.isfinite(model.adjacency_.data).all())
    )


def declared_time(model: CorrelationModel) -> float:
    """Return an upper bound on the autocorrelation time of scores under a model, in records.

    ``model``: a chain, sequences of a chain, or a list of these. The time is infinite if a chain
    has ``contraction_=1``.
    """
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
        Number of the test fold of each record. Scores are compared within folds, because models of
        some folds are better.
    sequences : array-like of shape (n,), optional
        Label of the sequence of each record. Blocks lie within one sequence.
    level : float, default=0.005
        Significance level of the test.

    Returns
    -------
    DependenceReport
        The result; its ``note`` is the line of certificates on the declared strength. Its
        ``p_value`` is None if scores are too few, do not vary, or form too few blocks.

    See Also
    --------
    independence_test : Test whether records depend on each other at all.

    Notes
    -----
    Means :math:`m_j` of ``k`` blocks of :math:`b = 3\tau` and :math:`10\tau` records (those with at
    least 6 blocks) are compared with the variance :math:`\sigma^2\tau/b` that the declared time
    :math:`\tau` gives them: :math:`Q = b \sum_j (m_j - \bar m)^2 / (\sigma^2 \tau)`, as
    :math:`\chi^2` with :math:`2(k-1)/(2+\kappa)` degrees of freedom, where :math:`\kappa =
    2\max(\text{excess kurtosis}, 0)\,\tau/b` (theory G33). The smaller p-value counts. A drift may
    be a misfit, too.

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
    is_scored = ~np.isnan(series)
    if sequences is None:
        scored_positions = [np.flatnonzero(is_scored)]  # one array per sequence
    else:
        scored_positions = _scored_positions(sequences, is_scored)
    if folds is not None:
        folds = check_array("folds", folds, shape=(len(series),))
        series = _without_fold_means(series, is_scored, folds)
    values = series[is_scored]
    n = len(values)
    block_lengths = [math.ceil(length * time) for length in BLOCK_LENGTHS if time < math.inf]
    min_scores = MIN_BLOCKS * min(block_lengths, default=math.inf)
    if n < min_scores:
        return DependenceReport(False, note=_UNTESTED.format(time=time, n=n, least=min_scores))
    variance = float(values.var())
    if not variance > 1e-24 * max(1.0, float(np.abs(values).max())) ** 2:
        return DependenceReport(False, note=_TESTED.format(time=time, n=n))
    if sum(len(sequence) // block_lengths[0] for sequence in scored_positions) < MIN_BLOCKS:
        note = _UNTESTED_SEQUENCES.format(time=time, n=n, blocks=MIN_BLOCKS, block=block_lengths[0])
        return DependenceReport(False, note=note)
    p_value, ratio, block_length = _slowest_variation(
        series, scored_positions, values, block_lengths, time
    )
    if p_value > level:
        return DependenceReport(False, p_value=p_value, note=_TESTED.format(time=time, n=n))
    message = _STRONGER.format(
        ratio=ratio, block=block_length, time=time, p=p_value, suggested=ratio * time
    )
    note = _CONTRADICTED.format(time=time, p=p_value, n=n)
    return DependenceReport(True, message, p_value, note=note)


def _without_fold_means(series, is_scored, folds):
    """Return scores minus the mean score of their fold; NaN remains NaN.

    ``series``: score of each record. ``is_scored``: mask of the scores that are not NaN. ``folds``:
    number of the fold of each record.
    """
    codes = np.unique(folds[is_scored], return_inverse=True)[1]
    fold_means = np.bincount(codes, weights=series[is_scored]) / np.bincount(codes)
    residuals = series.copy()
    residuals[is_scored] -= fold_means[codes]
    return residuals


def _slowest_variation(series, scored_positions, values, block_lengths, time):
    """Return ``(p_value, ratio, block_length)`` of the block length with the smallest p-value.

    ``ratio``: variance of block means divided by its expectation under the declared autocorrelation
    ``time`` (in records). Lengths with fewer than 6 blocks are left out; if all are, the result is
    ``(1, 1, 0)``. ``series``: score of each record, or NaN. ``scored_positions``: for each
    sequence, the positions of its scores in ``series``. ``values``: all scores that are not NaN.
    ``block_lengths``: lengths to try, in records.
    """
    variance = float(values.var())
    excess_kurtosis = float(np.mean((values - values.mean()) ** 4)) / variance**2 - 3.0
    most_significant = (1.0, 1.0, 0)
    for block_length in block_lengths:
        block_means = np.concatenate(
            [_block_means(series[sequence], block_length) for sequence in scored_positions]
        )
        if len(block_means) < MIN_BLOCKS:
            continue
        ratio = block_length * float(block_means.var(ddof=1)) / (variance * time)
        kappa = 2.0 * max(excess_kurtosis, 0.0) * time / block_length
        degrees_of_freedom = 2.0 * (len(block_means) - 1) / (2.0 + kappa)
        p_value = float(chi2.sf(ratio * degrees_of_freedom, degrees_of_freedom))
        most_significant = min(most_significant, (p_value, ratio, block_length))
    return most_significant


def influence_test(
    model: MarkovNetwork, labels: ArrayLike, *, level: float = 0.005
) -> DependenceReport:
    """Test whether labels of neighbors depend on each other more than a declared influence allows.

    Parameters
    ----------
    model : MarkovNetwork
        Network of the training nodes, with finite influences.
    labels : array-like of shape (n,)
        Label of each training node. Floats with more than 20 distinct values become two classes,
        split at their median.
    level : float, default=0.005
        Significance level of the test.

    Returns
    -------
    DependenceReport
        The result; its ``note`` is the line of certificates on the declared strength. Its
        ``p_value`` is None with one class or fewer than 30 edges, or if the fit has no standard
        error.

    See Also
    --------
    autocorrelation_time_test : The test of the strength of a chain.

    Notes
    -----
    The influence of a Potts model with one coupling is estimated by pseudo-likelihood (Besag 1975).
    The test is one-sided: the excess over the largest declared influence is compared with a normal
    distribution of the standard error. Labels of neighbors may also agree because their features
    do, which is a misfit, too.
    """
    level = check_probability("level", level)
    declared_influence = float(model.adjacency_.data.max())  # nats
    n_edges = model.adjacency_.nnz // 2
    codes = _classes(labels)
    n = len(codes)
    untested = DependenceReport(
        False, note=_UNTESTED_INFLUENCE.format(declared=declared_influence, n=n, edges=n_edges)
    )
    if len(np.unique(codes)) < 2 or n_edges < MIN_EDGES:
        return untested
    influence, standard_error = fit_potts(model.adjacency_.astype(bool).astype(float), codes)
    if not math.isfinite(standard_error):
        return untested
    excess = influence - declared_influence
    p_value = float(norm.sf(excess / max(standard_error, 1e-12)))
    if p_value > level:
        note = _TESTED_INFLUENCE.format(declared=declared_influence, n=n)
        return DependenceReport(False, p_value=p_value, note=note)
    message = _STRONGER_INFLUENCE.format(
        influence=influence, declared=declared_influence, p=p_value
    )
    note = _CONTRADICTED_INFLUENCE.format(declared=declared_influence, p=p_value, n=n)
    return DependenceReport(True, message, p_value, note=note)


def _classes(labels):
    """Return class codes of labels; floats of over 20 distinct values are split at their median."""
    values = np.asarray(labels)
    codes = np.unique(values, return_inverse=True)[1]
    if values.dtype.kind == "f" and codes.max() >= MAX_CLASSES:
        return (values > np.median(values)).astype(int)
    return codes


def _scored_positions(sequences, is_scored):
    """Return a list with the ascending positions of the scored records of each sequence.

    ``sequences``: label of the sequence of each record. ``is_scored``: mask of the records. Raises
    ValueError if their lengths differ.
    """
    codes = np.unique(np.asarray(sequences), return_inverse=True)[1]
    if len(codes) != len(is_scored):
        raise ValueError(
            f"sequences must hold one label per score, got {len(codes)} for {len(is_scored)}."
        )
    return [np.flatnonzero(is_scored & (codes == code)) for code in range(int(codes.max()) + 1)]


def _block_means(values: Array, block_length: int) -> Array:
    """Return the means of consecutive blocks; an incomplete last block is left out."""
    n_blocks = len(values) // block_length
    return values[: n_blocks * block_length].reshape(n_blocks, block_length).mean(axis=1)
