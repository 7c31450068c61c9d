"""Records in time: a Markov chain, visible or hidden behind the records.

First the models, then splits of a series, quantities derived from a transition matrix, and the
autocorrelation time of cross-validated scores (theory G11).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import (
    CorrelationModel,
    Folds,
    Split,
    check_indices,
    check_splits,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation.components import (
    ComponentModel,
    ConditionallyIndependent,
    unnamed_groups,
)
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.frozen import cached
from sklearn_bdp.correlation.scheme import ConcentrationBound, SamplingScheme
from sklearn_bdp.correlation.tails import chain_lower_limit
from sklearn_bdp.utils.root_finding import doubled, last_whole
from sklearn_bdp.utils.validation import check_array, check_boolean, check_integer, check_real

SPLIT_FAILURE = 1e-3  # failure probability of the gap of a chain's `split`
FOLD_FAILURE = 0.05  # inner cross-validation is not guaranteed; a short gap suffices
ROW_SUM_TOLERANCE = 1e-8
_DRIFT = "A future unlike the past (drift) is not covered."

#: Fewest transitions of an estimated chain, and so many for each state that it needs no caveat.
FEWEST_TRANSITIONS, ENOUGH_TRANSITIONS = 3, 20

#: Swings an estimate averages: more are less noisy, fewer see slower dependence.
SWINGS = 10

#: Pairs of somewhat faster swings whose median corrects an estimate that came out small.
PAIRS = 7

#: Fewest scores of an estimate.
FEWEST = 16

#: Factor by which estimates are multiplied (theory G11), because they may well fall short.
SAFETY = 1.5

#: Scores per autocorrelation time below which the estimate itself falls short.
ENOUGH = 100


class MarkovChain(CorrelationModel):
    r"""Records that follow a time-homogeneous Markov chain.

    Parameters
    ----------
    transition : array-like of shape (k, k)
        Transition matrix; row ``u`` is the distribution of the next state after state ``u``.
    observed : bool, default=False
        ``False``: record ``i`` depends on state ``i`` of the chain only, in any way (a hidden
        Markov model; the states may also be visible). Always safe. ``True``: the states *are*
        the records, which allows sharper bounds.
    interpolation : bool, default=False
        With ``observed=True``: hold out single records between their neighbors, instead of the
        last ones. Given its neighbors a record is independent of all others (theory G27). The
        score is that of interpolation, never of forecasts. The result is another model.

    Attributes
    ----------
    stationary_ : ndarray of shape (k,)
        Stationary distribution, that of the first state.
    spectral_gap_ : float
        ``1 - max_{j>=2} |lambda_j|``; 0 for periodic chains.
    diameter_ : float
        Projective diameter in nats; infinite when a transition is impossible.
    dobrushin_ : float
        Dobrushin coefficient, the largest total variation between two rows.
    contraction_ : float
        Second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`.

    Raises
    ------
    ValueError
        If the matrix is not stochastic or not irreducible.

    See Also
    --------
    TimeOrdered : Records in time of which nothing is assumed.

    Notes
    -----
    A periodic chain keeps ``spectral_gap_ = 0``: it keeps its phase, so no gap cuts it,
    its effective number of records may be one, and ``method="spectral"`` does not apply.

    Examples
    --------
    >>> from sklearn_bdp.correlation import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> round(chain.spectral_gap_, 3)
    0.3
    >>> round(chain.bdp_epsilon(1e-4, 10_000) / 1e-4, 2)
    6.0
    >>> round(chain.effective_n(1000), 1)
    176.5
    """

    fingerprint_name = "MarkovChain"
    caveats = (_DRIFT,)
    _words = ""  # where the strength comes from, when no transition matrix was given

    def __new__(
        cls, transition: ArrayLike = (), *, observed: bool = False, interpolation: bool = False
    ) -> Any:
        """Return a chain, or the model of records held out between their neighbors."""
        if not interpolation:
            return super().__new__(cls)
        if not cls(transition, observed=observed).observed:
            raise ValueError("interpolation=True needs observed=True.")
        return Interpolation()

    def __init__(
        self, transition: ArrayLike, *, observed: bool = False, interpolation: bool = False
    ) -> None:
        matrix = check_array("transition", transition, low=0.0)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
            raise ValueError(f"transition must be a square matrix, got shape {matrix.shape}.")
        sums = matrix.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1.0)))
        if not abs(sums[worst] - 1.0) <= ROW_SUM_TOLERANCE:
            raise ValueError(
                f"transition must have rows that sum to one, got {sums[worst]:.12g} in row {worst}."
                " (A graph is passed as a scipy.sparse matrix or networkx graph.)"
            )
        self.transition = matrix = matrix / sums[:, None]
        self.observed = check_boolean("observed", observed)
        if connected_components(matrix > 0, directed=True, connection="strong")[0] > 1:
            raise ValueError(
                "transition must be irreducible, and some states never reach others: use Groups."
            )
        self.stationary_ = stationary_distribution(matrix)
        self.diameter_ = projective_diameter(matrix)
        self.dobrushin_ = dobrushin(matrix)
        root = np.sqrt(self.stationary_)
        scaled = root[:, None] * matrix / root[None, :]
        if is_reversible(matrix, self.stationary_):  # symmetric form: real, found stably
            eigenvalues = np.linalg.eigvalsh((scaled + scaled.T) / 2)
        else:
            eigenvalues = np.linalg.eigvals(matrix)
        second = np.sort(np.r_[0.0, np.abs(eigenvalues)])[-2]
        self.spectral_gap_ = float(min(1.0, max(0.0, 1.0 - second)))
        self.contraction_ = 0.0
        if len(matrix) > 1:  # rounding errors must not make the chain look faster
            second = np.linalg.svd(scaled, compute_uv=False)[1] + 1e-14 * len(matrix)
            self.contraction_ = float(min(1.0, max(0.0, second)))
        self._freeze(self.transition, self.observed)

    @classmethod
    def from_states(
        cls,
        states: Any,
        *,
        n_states: int | None = None,
        smoothing: float = 1.0,
        observed: bool = False,
    ) -> MarkovChain:
        """Estimate a chain from sequences of states.

        Parameters
        ----------
        states : array-like of int, or list of such arrays
            Training-side states ``0 … k-1`` in time; a list holds separate stretches.
        n_states : int, optional
            Number of states; by default one more than the largest seen.
        smoothing : float, default=1.0
            Added to every transition count, so that no transition is called impossible merely
            because it was not seen.
        observed : bool, default=False
            As for the class.

        Returns
        -------
        MarkovChain
            The estimated chain; its estimation error is not paid for.

        Raises
        ------
        ValueError
            If the states are not integers of at least 0, have fewer than 3 transitions, or never
            change.
        """
        sequences = _state_sequences(states)
        largest = max((int(sequence.max()) for sequence in sequences if len(sequence)), default=0)
        n_states = largest + 1 if n_states is None else n_states
        n_states = check_integer("n_states", n_states, low=largest + 1)
        n_transitions = sum(max(0, len(sequence) - 1) for sequence in sequences)
        _check_transitions(sequences, n_transitions)
        weights = np.zeros((n_states, n_states))
        for sequence in sequences:
            np.add.at(weights, (sequence[:-1], sequence[1:]), 1.0)
        weights += check_real("smoothing", smoothing, low=0.0)
        totals = weights.sum(axis=1)
        if not totals.min() > 0:
            raise ValueError(
                f"smoothing must be positive where a state is never left, got smoothing="
                f"{smoothing:g} and no transition out of state {np.argmin(totals)}."
            )
        chain = cls(weights / totals[:, None], observed=observed)
        if n_transitions < ENOUGH_TRANSITIONS * n_states:
            estimated = (
                f"The chain was estimated from {n_transitions} transitions between {n_states} "
                "states, and its estimation error is not accounted for: bring a longer history."
            )
            vars(chain).update(caveats=(estimated, *chain.caveats))
            chain._freeze(chain.transition, chain.observed, estimated)
        return chain

    @classmethod
    def from_autocorrelation_time(cls, time: float) -> MarkovChain:
        """Return a chain of two states with a given autocorrelation time.

        Parameters
        ----------
        time : float
            Records that count as one, at least 1: the integrated autocorrelation time of the
            slowest per-record score.

        Returns
        -------
        MarkovChain
            Two hidden states whose chain has exactly this autocorrelation time.

        See Also
        --------
        MarkovChain.from_scores : Read it off cross-validated scores.

        Examples
        --------
        >>> from sklearn_bdp.correlation import MarkovChain
        >>> round(MarkovChain.from_autocorrelation_time(5.0).effective_n(1000), 6)
        200.0
        """
        time = check_real("time", time, low=1.0)
        return cls._of_time(
            time,
            f"scores have an autocorrelation time of {time:.3g} records: {time:.3g} records count "
            "as one",
        )

    @classmethod
    def from_scores(cls, scores: ArrayLike) -> MarkovChain:
        r"""Read the strength of dependence off cross-validated scores: an assumption (theory G11).

        Parameters
        ----------
        scores : array-like of shape (n,) or (n_candidates, n)
            Per-record cross-validated scores in time, for example those of cross-validation; with
            several candidates the slowest counts. NaN for unscored records.

        Returns
        -------
        MarkovChain
            Two hidden states; its description and every certificate say "assumed".

        Raises
        ------
        ValueError
            If there are too few scores.

        Notes
        -----
        The contraction :math:`\lambda` of the chain solves
        :math:`(1+\lambda)/(1-\lambda) = 1.5\,\tau`, with :math:`\tau` by the slow swings of the
        scores (:func:`slow_autocorrelation_time`). Assumption: every query's scores
        concentrate no worse than those of this chain. Nothing that is rare on the training set
        can be read off it: regimes that hold less than about a fifth of the records must be
        declared. A steady drift is not taken for dependence, and not covered. For means over
        records only.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_bdp.correlation import MarkovChain
        >>> scores = np.repeat(np.random.default_rng(0).random(2000), 3)
        >>> MarkovChain.from_scores(scores).describe()
        'assumed chain: scores have an autocorrelation time of at most ... records ...'
        """
        rows = np.atleast_2d(np.asarray(scores, dtype=float))
        series = [row[~np.isnan(row)] for row in rows] if rows.ndim == 2 else []
        series = [row for row in series if len(row) >= FEWEST]
        if not series:
            raise ValueError(
                "scores must have shape (n,) or (n_candidates, n), with one candidate of at least "
                f"{FEWEST} numbers, got shape {rows.shape}."
            )
        longest_time = max(slow_autocorrelation_time(row) for row in series)
        n_scores = min(map(len, series))
        time = max(1.0, SAFETY * longest_time)
        scale = 10.0 ** (math.floor(math.log10(time)) - 2)
        time = math.ceil(time / scale - 1e-9) * scale  # three digits: the printed value suffices
        caveats: tuple[str, ...] = (
            "Assumed, not proved: the scores of every query concentrate no worse than those of "
            "this chain. Regimes that are rare in the training set (less than about a fifth of the "
            "records) cannot be detected there: declare them.",
        )
        if n_scores < ENOUGH * longest_time:
            caveats += (
                f"{n_scores} cross-validated scores are fewer than {ENOUGH} autocorrelation times "
                f"({longest_time:.3g} records each): the strength may be underestimated; bring a "
                "longer history or declare more.",
            )
        return cls._of_time(
            time,
            f"assumed chain: scores have an autocorrelation time of at most {time:.3g} records "
            f"({SAFETY:g} times the {longest_time:.3g} of {n_scores} cross-validated scores, "
            f"candidates: {len(series)})",
            caveats,
        )

    @classmethod
    def _of_time(cls, time, words, caveats=()):
        """Return two hidden states of this autocorrelation time; ``words``: where it is from."""
        stay = (1.0 + (time - 1.0) / (time + 1.0)) / 2.0
        model = cls([[stay, 1.0 - stay], [1.0 - stay, stay]])
        vars(model).update(_words=words, caveats=(*caveats, _DRIFT))
        model._freeze(model.transition, model.observed, words, *caveats)
        return model

    def __repr__(self) -> str:
        if self._words:
            time = (1.0 + self.contraction_) / (1.0 - self.contraction_)
            return f"MarkovChain.from_autocorrelation_time({time:.6g})"
        rows = np.array2string(self.transition, threshold=16, precision=4, separator=", ")
        return f"MarkovChain({' '.join(rows.split())}{', observed=True' * self.observed})"

    def describe(self) -> str:
        if self._words:
            return self._words
        states = {2: "two", 3: "three"}.get(len(self.transition), len(self.transition))
        large_n = 10_000_000
        return (
            f"stationary {states}-state Markov chain, spectral gap {self.spectral_gap_:.2f}, "
            f"1 record in {large_n / self.effective_n(large_n):.1f} counts"
        )

    def sampling_scheme(self, n: int) -> SamplingScheme:
        n = self.check_n(n)
        return SamplingScheme(
            n_records=n,
            n_units=n,
            unit_name="records",
            bound=ConcentrationBound.CHAIN,
            target="later records of the same process",
            exchangeable=False,
            in_time_order=True,
        )

    # -- concentration ----------------------------------------------------------------------

    def _profile(self):
        """Return ``theta(P^k)``, non-increasing, for ``k = 1, 2, …`` until it is negligible."""

        def compute():
            profile, power = [], np.eye(len(self.transition))
            for _ in range(2000):
                power = power @ self.transition
                profile.append(min(dobrushin(power), profile[-1] if profile else 1.0))
                stuck = len(profile) >= 200 and profile[-1] >= 1.0 - 1e-15
                if stuck or not profile[-1] > 1e-16:
                    break
            return np.array(profile)

        return cached(self, "profile", compute)

    def _variance_proxy(self, n, statistical):
        profile = self._profile()
        terms = n - 1
        reach = float(profile[:terms].sum())
        factor = float(profile[-1])
        if terms > len(profile):  # each block of so many powers is at most `factor` times the last
            blocks = math.ceil(terms / len(profile))
            n_blocks_reached = (1.0 - factor**blocks) / (1.0 - factor) if factor < 1.0 else math.inf
            reach = min(float(terms), reach * n_blocks_reached)
        spread = cached(self, ("spread", n), lambda: block_spread(reach, n))
        if statistical and self.contraction_ < 1.0:
            # Fan, Jiang, Sun 2021, Theorem 1 (absolute spectral gap; functions may differ).
            contraction = self.contraction_
            spread = min(spread, n * (1.0 + contraction) / (1.0 - contraction))
        return spread

    def _lower_limit(self, values, levels, n, binary):
        limits = super()._lower_limit(values, levels, n, binary)
        if self.contraction_ >= 1.0:
            return limits
        return np.maximum(limits, chain_lower_limit(values, -levels / n, self.contraction_))

    # -- cutting ----------------------------------------------------------------------------

    def gap_failure_probability(self, gap: int) -> float:
        """Return the failure probability that cutting next to training data costs (theory H6).

        Parameters
        ----------
        gap : int
            Records dropped between the training data and the holdout.

        Returns
        -------
        float
            The Dobrushin coefficient of the power ``gap + 1`` of the transition matrix; for long
            gaps, an upper bound on it.
        """
        # Theory H6: total variation between cut and uncut distribution of the first holdout state;
        # beyond the computed powers by submultiplicativity.
        profile = self._profile()
        steps = check_integer("gap", gap, low=0) + 1
        if steps <= len(profile):
            return float(profile[steps - 1])
        blocks, n_steps_left = divmod(steps, len(profile))
        block_failure = math.exp(blocks * math.log(profile[-1])) if profile[-1] > 0.0 else 0.0
        return block_failure * (float(profile[n_steps_left - 1]) if n_steps_left else 1.0)

    def required_gap(self, failure: float) -> int:
        """Return the smallest gap that costs at most ``failure``.

        Parameters
        ----------
        failure : float
            Allowed :meth:`gap_failure_probability`, in (0, 1).

        Returns
        -------
        int
            Records to drop.

        Raises
        ------
        ValueError
            If the chain is periodic, so that no gap suffices.
        """
        failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
        if not self.gap_failure_probability(2**40) <= failure:
            raise ValueError(
                "transition must be aperiodic for a split: states of this chain recur at fixed "
                "intervals, so that no gap makes the holdout independent of the training records "
                f"(to a failure probability of {failure:g}). Set correlation='time', which needs "
                "no gap, or bring independent records as X_val, y_val."
            )
        if self.gap_failure_probability(0) <= failure:
            return 0
        suffices = lambda gap: self.gap_failure_probability(gap) <= failure  # noqa: E731
        return last_whole(suffices, *doubled(suffices, 1))

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        return tail_split(self.check_n(n), holdout, self.required_gap(SPLIT_FAILURE))

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        # Declared by how slowly scores forget: records in time, so the past predicts the future.
        gap = self.required_gap(FOLD_FAILURE)
        return block_folds(self.check_n(n), n_splits, gap, forward=bool(self._words))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        positions = check_indices(indices, None)
        if not (np.diff(positions) == 1).all():
            raise ValueError(
                f"indices must be contiguous and ascending for a chain, got {positions[:5]}…"
            )
        return self


def _state_sequences(states):
    """Return separate sequences of states as arrays of integers of at least 0."""
    if isinstance(states, str | bytes | dict) or not hasattr(states, "__len__"):
        raise TypeError(f"states must be an array of integers, got {type(states).__name__}.")
    is_nested = not isinstance(states, np.ndarray) and any(np.ndim(part) for part in states)
    sequences = [np.asarray(part) for part in (states if is_nested else [states])]
    for sequence in sequences:
        if sequence.ndim != 1 or sequence.dtype.kind not in "iu" or (sequence < 0).any():
            raise ValueError(
                "states must be one-dimensional, integers of at least 0, got shape "
                f"{sequence.shape} of {sequence.dtype}."
            )
    return sequences


def _check_transitions(sequences, n_transitions):
    """Raise if sequences are too short, or never change, so that smoothing would decide."""
    if n_transitions < FEWEST_TRANSITIONS:
        raise ValueError(
            f"states must hold at least {FEWEST_TRANSITIONS} transitions, got {n_transitions}: "
            "smoothing would make the chain an independent one. Pass a longer history, or "
            "declare MarkovChain.from_autocorrelation_time(records)."
        )
    distinct_states = {int(state) for sequence in sequences for state in np.unique(sequence)}
    if len(distinct_states) == 1:
        raise ValueError(
            f"states must hold at least 2 different states, got {n_transitions} transitions "
            f"that never leave state {distinct_states.pop()}: smoothing would make the chain "
            "an independent one. Pass a longer history, or declare "
            "MarkovChain.from_autocorrelation_time(records)."
        )


gap_failure_probability.register(MarkovChain, MarkovChain.gap_failure_probability)
required_gap.register(MarkovChain, MarkovChain.required_gap)


def tail_split(n, holdout, gap):
    """Cut a contiguous tail for the holdout and drop ``gap`` records before it."""
    size = holdout_size(n, holdout)
    if not n - size - gap >= 1:
        raise ValueError(
            f"holdout={holdout} of {n} records and a gap of {gap} records before it (horizon=, or "
            "what the chain needs) leave no training records. Set a smaller horizon or holdout, "
            "or bring more records."
        )
    return Split(np.arange(n - size - gap), np.arange(n - size, n), gap)


def block_folds(n, n_splits, gap, *, forward=False):
    """Return contiguous test blocks; training drops ``gap`` records on both sides of a block.

    ``forward``: each split trains on earlier records only; the first block is not a test set.
    """
    first = int(forward)  # blocks that are not a test set
    n_splits = check_splits(n_splits, n - first, "records less one" if forward else "records")
    edges = np.arange(first, n_splits + first + 1) * n // (n_splits + first)
    positions = np.arange(n)
    pairs = []
    for low, high in itertools.pairwise(edges):
        train = positions[(positions < low - gap) | ((positions >= high + gap) & (not forward))]
        if not len(train):
            raise ValueError(
                f"n_splits must leave training records, got {n_splits=}, {n=}, {gap=}."
            )
        pairs.append((train, positions[low:high]))
    return pairs


class Interpolation(ComponentModel):
    """An observed chain for interpolation: ``MarkovChain(P, observed=True, interpolation=True)``.

    Of every two records at most one is held out. Given its two neighbors in time, a record is
    independent of all others, at any strength.
    """

    fingerprint_name = "Interpolation"
    _bounds_hold_given_rest = True

    def __init__(self) -> None:
        self._freeze()

    def describe(self) -> str:
        return "an observed Markov chain, whose records are held out between their neighbors"

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        rng, size = generator(random_state), holdout_size(self.check_n(n), holdout)
        every_other = np.arange(rng.integers(2), n, 2)
        chosen = np.sort(rng.permutation(every_other)[:size])
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        order = np.argsort(indices := check_indices(indices, None))
        runs: Array = np.empty(len(order), dtype=np.int64)  # neighbors in time stay together
        runs[order] = np.cumsum(np.diff(indices[order], prepend=indices[order[0]]) > 1)
        return ConditionallyIndependent(
            runs,
            f"{len(runs)} records of an observed Markov chain in {runs.max() + 1} stretches that "
            "are independent given all other records",
            target="these records, given those before and after them",
            caveats=(
                "Interpolation: a record is predicted with its neighbors in time in the training "
                "set. Intervals do not refer to forecasts. Given these neighbors, a record does "
                "not depend on others.",
            ),
        )

    def training_model(self, indices: ArrayLike) -> CorrelationModel:
        return unnamed_groups(np.arange(len(check_indices(indices, None))))


def stationary_distribution(matrix: Array) -> Array:
    """Return the stationary distribution of an irreducible chain: positive, sums to one."""
    # Grassmann, Taksar and Heyman 1985: elimination without subtractions, so that every entry
    # is found to relative precision, however nearly the chain decomposes.
    work = matrix.copy()
    k = len(work)
    for last in range(k - 1, 0, -1):
        work[:last, last] /= work[last, :last].sum()
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    distribution = np.ones(k)
    for state in range(1, k):
        distribution[state] = distribution[:state] @ work[:state, state]
    return distribution / distribution.sum()


def is_reversible(matrix, distribution):
    """Return whether detailed balance holds."""
    flow = distribution[:, None] * matrix
    return bool(np.all(np.abs(flow - flow.T) <= 1e-9 * np.maximum(flow, flow.T).max()))


def dobrushin(matrix):
    """Return the Dobrushin coefficient, the largest total variation between two rows."""
    worst = 0.0
    for u in range(len(matrix) - 1):
        worst = max(worst, float(np.abs(matrix[u + 1 :] - matrix[u]).sum(axis=1).max()))
    return min(1.0, worst / 2.0)


def projective_diameter(matrix):
    """Return the largest log cross-ratio of a nonnegative matrix, in nats (Birkhoff, Hilbert).

    ``max ln[P(u,y) P(v,z) / (P(u,z) P(v,y))]``, infinite if an entry is zero; columns of zeros
    (values that never occur) are ignored.
    """
    matrix = matrix[:, matrix.max(axis=0) > 0]
    matrix = matrix[matrix.max(axis=1) > 0]
    if matrix.size and not matrix.min() > 0:
        return math.inf
    logs, worst = np.log(matrix), 0.0
    for u in range(len(logs) - 1):
        difference = logs[u + 1 :] - logs[u]
        worst = max(worst, float((difference.max(axis=1) - difference.min(axis=1)).max()))
    return worst


def block_spread(reach, n):
    """Return the least sum of squared martingale ranges over block lengths (theory H4).

    ``reach`` is the effect on the records after a block, in units of one record. It is the sum of
    the Dobrushin coefficients of the powers, that is, the expected number of records that still
    differ after two chains were started apart and coupled maximally (Griffeath 1975). The result
    is in units of the squared sensitivity.
    """
    sizes = np.unique(np.clip(np.ceil(reach * np.linspace(0.25, 4.0, 200)), 1, n))
    sizes = np.union1d(sizes, [1.0, float(n)])
    blocks = np.ceil(n / sizes)
    last = n - (blocks - 1) * sizes  # nothing follows the last block
    return float(((blocks - 1) * (sizes + reach) ** 2 + last**2).min())


def slow_autocorrelation_time(scores: ArrayLike) -> float:
    """Return the autocorrelation time of a series by its slow swings.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time, at least 16 of them.

    Returns
    -------
    float
        ``1 + 2 * sum of autocorrelations``, at least 1; 1 for a constant series.

    See Also
    --------
    MarkovChain.from_autocorrelation_time : Declare such a time.

    Notes
    -----
    The mean of the squared cosine coefficients of the ten lowest frequencies, in units of the
    variance: each of them estimates the variance of a long mean. The first one, which a steady
    drift fills, weighs no more than the largest of the others. If the next frequencies show
    more (by their median, which a season does not move), half of the difference is added. A
    windowed sum of autocorrelations stops where they drown in noise and misses hidden regimes
    altogether (it reads 1.3 for 11.6).

    References
    ----------
    Theory G11; Lazarus, Lewis, Stock and Watson 2018 (equal-weighted cosine estimator).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.correlation.chain import slow_autocorrelation_time
    >>> rng = np.random.default_rng(0)
    >>> bool(3 < slow_autocorrelation_time(np.repeat(rng.random(9000), 5)) < 8)
    True
    """
    series = check_array("scores", scores, shape=(None,))
    if not len(series) >= FEWEST:
        raise ValueError(f"scores must hold at least {FEWEST} records, got {len(series)}.")
    # Squared cosine coefficients, the slowest first, in units of the variance: about independent,
    # with the autocorrelation time as the mean of the slow ones; zeros for a constant series.
    centred, squares, faster = series - series.mean(), np.zeros(len(series) - 1), 0.0
    variance = float(np.mean(centred**2))
    if variance > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2:
        squares = dct(centred, norm="ortho")[1:] ** 2 / variance
    count = min(SWINGS, len(series) // 4)
    if count + 1 + 2 * PAIRS <= len(series) // 4:
        pairs = squares[count : count + 2 * PAIRS].reshape(PAIRS, 2).mean(axis=1)
        # The expected median of exponential variables (Renyi 1953).
        expected = sum(1.0 / k for k in range(PAIRS // 2 + 1, PAIRS + 1))
        faster = float(np.median(pairs)) / expected
    squares[0] = min(squares[0], squares[1:count].max())
    time = float(squares[:count].mean())
    return max(1.0, time, 0.5 * (time + faster))
