"""Records in time that follow a Markov chain, or that depend on the states of a hidden one.

The module has the models, splits in time order, functions of a transition matrix, and the
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

SPLIT_FAILURE = 1e-3  # largest failure probability of the gap of a chain's `split`
# Largest failure probability of the gap of a chain's `folds`, on which no guarantee depends.
FOLD_FAILURE = 0.05
ROW_SUM_TOLERANCE = 1e-8
_DRIFT_CAVEAT = "A future unlike the past (drift) is not covered."

#: Fewest transitions that a chain is estimated from.
MIN_TRANSITIONS = 3
#: Transitions for each state below which an estimated chain has a caveat.
MIN_TRANSITIONS_PER_STATE = 20

#: Largest number of lowest frequencies that an estimated autocorrelation time averages: more are
#: less noisy, fewer show slower dependence.
N_LOW_FREQUENCIES = 10

#: Number of pairs of the frequencies above these, whose median corrects an estimate that is small.
N_FREQUENCY_PAIRS = 7

#: Fewest scores that an autocorrelation time is estimated from.
MIN_SCORES = 16

#: Factor by which estimates are multiplied (theory G11), because they may well fall short.
SAFETY_FACTOR = 1.5

#: Scores per autocorrelation time below which a caveat says that the estimate may fall short.
MIN_SCORES_PER_TIME = 100


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
        score is that of interpolation, never of forecasts. The constructor returns a model of
        another class, without the attributes below.

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
        Second singular value of :math:`D_\pi^{1/2} P D_\pi^{-1/2}`, 0 for one state.

    Raises
    ------
    TypeError
        If the matrix does not hold real numbers, or a flag is not a boolean.
    ValueError
        If the matrix is not stochastic or not irreducible, or if ``interpolation=True`` is set
        without ``observed=True``.

    See Also
    --------
    TimeOrdered : Records in time of which nothing is assumed.

    Notes
    -----
    A periodic chain has ``spectral_gap_ = 0``: it keeps its phase, so no gap makes later records
    independent of earlier ones. Its effective number of records may be one, and
    ``method="spectral"`` does not apply.

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
    caveats = (_DRIFT_CAVEAT,)
    # Description of a chain that was made from an autocorrelation time; empty for other chains.
    _words = ""

    def __new__(
        cls, transition: ArrayLike = (), *, observed: bool = False, interpolation: bool = False
    ) -> Any:
        """Return a chain, or an :class:`Interpolation` if ``interpolation=True``."""
        if not check_boolean("interpolation", interpolation):
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
        row_sums = matrix.sum(axis=1)
        worst_row = int(np.argmax(np.abs(row_sums - 1.0)))
        if not abs(row_sums[worst_row] - 1.0) <= ROW_SUM_TOLERANCE:
            raise ValueError(
                f"transition must have rows that sum to one, got {row_sums[worst_row]:.12g} in row "
                f"{worst_row}. Divide counts by their row sums: P = np.asarray(P), then "
                "P / P.sum(axis=1, keepdims=True). "
                "Pass a graph as a scipy.sparse matrix or a networkx graph."
            )
        self.transition = matrix = matrix / row_sums[:, None]
        self.observed = check_boolean("observed", observed)
        n_components, _ = connected_components(matrix > 0, directed=True, connection="strong")
        if n_components > 1:
            raise ValueError(
                "transition must be irreducible, and some states never reach others: use Groups."
            )
        self.stationary_ = stationary_distribution(matrix)
        self.diameter_ = projective_diameter(matrix)
        self.dobrushin_ = dobrushin(matrix)
        sqrt_stationary = np.sqrt(self.stationary_)
        scaled_matrix = sqrt_stationary[:, None] * matrix / sqrt_stationary[None, :]
        if is_reversible(matrix, self.stationary_):  # the symmetric form has real eigenvalues
            eigenvalues = np.linalg.eigvalsh((scaled_matrix + scaled_matrix.T) / 2)
        else:
            eigenvalues = np.linalg.eigvals(matrix)
        second_modulus = np.sort(np.r_[0.0, np.abs(eigenvalues)])[-2]
        self.spectral_gap_ = float(min(1.0, max(0.0, 1.0 - second_modulus)))
        self.contraction_ = 0.0
        if len(matrix) > 1:  # plus a margin for rounding errors
            singular_values = np.linalg.svd(scaled_matrix, compute_uv=False)
            second_singular_value = singular_values[1] + 1e-14 * len(matrix)
            self.contraction_ = float(min(1.0, max(0.0, second_singular_value)))
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
            States ``0 … k-1`` of training records in time; a list holds separate stretches.
        n_states : int, optional
            Number of states; by default one more than the largest state seen.
        smoothing : float, default=1.0
            Added to every transition count. If positive, a transition that was not seen has a
            positive probability.
        observed : bool, default=False
            As for the class.

        Returns
        -------
        MarkovChain
            The estimated chain. No bound accounts for its estimation error, which a caveat states
            if there are fewer than 20 transitions per state on average.

        Raises
        ------
        TypeError
            If ``states`` is not a sequence, or another argument is of a wrong type.
        ValueError
            If the states are not integers of at least 0, have fewer than 3 transitions, or are all
            the same. Also if ``n_states`` is too small, or if ``smoothing`` is negative, or 0 and
            some states never reach others.
        """
        sequences = _state_sequences(states)
        largest_state = max(
            (int(sequence.max()) for sequence in sequences if len(sequence)), default=0
        )
        n_states = largest_state + 1 if n_states is None else n_states
        n_states = check_integer("n_states", n_states, low=largest_state + 1)
        n_transitions = sum(max(0, len(sequence) - 1) for sequence in sequences)
        _check_transitions(sequences, n_transitions)
        smoothed_counts = np.zeros((n_states, n_states))
        for sequence in sequences:
            np.add.at(smoothed_counts, (sequence[:-1], sequence[1:]), 1.0)
        smoothed_counts += check_real("smoothing", smoothing, low=0.0)
        row_totals = smoothed_counts.sum(axis=1)
        if not row_totals.min() > 0:
            raise ValueError(
                f"smoothing must be positive where a state is never left, got smoothing="
                f"{smoothing:g} and no transition out of state {np.argmin(row_totals)}."
            )
        chain = cls(smoothed_counts / row_totals[:, None], observed=observed)
        if n_transitions < MIN_TRANSITIONS_PER_STATE * n_states:
            estimation_caveat = (
                f"The chain was estimated from {n_transitions} transitions between {n_states} "
                "states, and its estimation error is not accounted for: bring a longer history."
            )
            vars(chain).update(caveats=(estimation_caveat, *chain.caveats))
            chain._freeze(chain.transition, chain.observed, estimation_caveat)
        return chain

    @classmethod
    def from_autocorrelation_time(cls, time: float) -> MarkovChain:
        """Return a chain of two states with a given autocorrelation time.

        Parameters
        ----------
        time : float
            Integrated autocorrelation time of the slowest per-record score, in records, at least 1:
            so many consecutive records count as one independent record.

        Returns
        -------
        MarkovChain
            Two hidden states whose chain has this autocorrelation time.

        See Also
        --------
        MarkovChain.from_scores : Estimate the time from cross-validated scores.

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
        r"""Estimate a chain from cross-validated scores: an assumption, not a proof (theory G11).

        Parameters
        ----------
        scores : array-like of shape (n,) or (n_candidates, n)
            Per-record cross-validated scores in time; NaN for unscored records. Of several
            candidates, the one with the longest autocorrelation time counts. Candidates with fewer
            than 16 scores are ignored.

        Returns
        -------
        MarkovChain
            Two hidden states; its description and every certificate say "assumed".

        Raises
        ------
        ValueError
            If ``scores`` has another shape or an infinite value, or no candidate has at least 16
            scores.

        Notes
        -----
        The contraction :math:`\lambda` of the chain solves
        :math:`(1+\lambda)/(1-\lambda) = 1.5\,\tau`, with :math:`1.5\,\tau` rounded up to three
        digits, where :math:`\tau` is the longest :func:`slow_autocorrelation_time` of the
        candidates. Assumption: every query's scores concentrate no worse than those of this chain.
        Regimes that are rare in the training set cannot be detected there: those of less than about
        a fifth of the records must be declared. A steady drift is not taken for dependence, and not
        covered. The assumption is about means of per-record scores, not about other queries.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_bdp.correlation import MarkovChain
        >>> scores = np.repeat(np.random.default_rng(0).random(2000), 3)
        >>> MarkovChain.from_scores(scores).describe()
        'assumed chain: scores have an autocorrelation time of at most ... records ...'
        """
        score_matrix = np.atleast_2d(np.asarray(scores, dtype=float))
        candidate_series = []
        if score_matrix.ndim == 2:
            candidate_series = [row[~np.isnan(row)] for row in score_matrix]
        candidate_series = [series for series in candidate_series if len(series) >= MIN_SCORES]
        if not candidate_series:
            raise ValueError(
                "scores must have shape (n,) or (n_candidates, n), with one candidate of at least "
                f"{MIN_SCORES} numbers, got shape {score_matrix.shape}."
            )
        longest_time = max(slow_autocorrelation_time(series) for series in candidate_series)
        n_scores = min(map(len, candidate_series))  # of the candidate with the fewest
        safe_time = max(1.0, SAFETY_FACTOR * longest_time)
        # Rounded up to three digits, so that the printed time is the one in use.
        rounding_step = 10.0 ** (math.floor(math.log10(safe_time)) - 2)
        safe_time = math.ceil(safe_time / rounding_step - 1e-9) * rounding_step
        caveats: tuple[str, ...] = (
            "Assumed, not proved: the scores of every query concentrate no worse than those of "
            "this chain. Regimes that are rare in the training set (less than about a fifth of the "
            "records) cannot be detected there: declare them.",
        )
        if n_scores < MIN_SCORES_PER_TIME * longest_time:
            caveats += (
                f"{n_scores} cross-validated scores are fewer than {MIN_SCORES_PER_TIME} "
                f"autocorrelation times ({longest_time:.3g} records each): the strength may be "
                "underestimated; bring a longer history or declare more.",
            )
        return cls._of_time(
            safe_time,
            f"assumed chain: scores have an autocorrelation time of at most {safe_time:.3g} "
            f"records ({SAFETY_FACTOR:g} times the {longest_time:.3g} of {n_scores} "
            f"cross-validated scores, candidates: {len(candidate_series)})",
            caveats,
        )

    @classmethod
    def _of_time(cls, time, description, caveats=()):
        """Return a chain of two hidden states with this autocorrelation time, in records.

        ``description``: text of :meth:`describe`. ``caveats``: sentences for certificates; the
        caveat on drift is added to them.
        """
        contraction = (time - 1.0) / (time + 1.0)
        stay_probability = (1.0 + contraction) / 2.0
        leave_probability = 1.0 - stay_probability
        model = cls([[stay_probability, leave_probability], [leave_probability, stay_probability]])
        vars(model).update(_words=description, caveats=(*caveats, _DRIFT_CAVEAT))
        model._freeze(model.transition, model.observed, description, *caveats)
        return model

    def __repr__(self) -> str:
        if self._words:
            time = (1.0 + self.contraction_) / (1.0 - self.contraction_)
            return f"MarkovChain.from_autocorrelation_time({time:.6g})"
        matrix_text = np.array2string(self.transition, threshold=16, precision=4, separator=", ")
        return f"MarkovChain({' '.join(matrix_text.split())}{', observed=True' * self.observed})"

    def describe(self) -> str:
        if self._words:
            return self._words
        count_text = {2: "two", 3: "three"}.get(len(self.transition), len(self.transition))
        large_n = 10_000_000
        return (
            f"stationary {count_text}-state Markov chain, spectral gap {self.spectral_gap_:.2f}, "
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

    def _power_coefficients(self):
        """Return the Dobrushin coefficients of the powers ``P, P^2, …`` of the transition matrix.

        They do not increase. The vector ends at the first coefficient of at most 1e-16, after 2,000
        powers, or after 200 if all of them are 1.
        """

        def compute():
            coefficients = []
            power = np.eye(len(self.transition))
            for _ in range(2000):
                power = power @ self.transition
                previous_coefficient = coefficients[-1] if coefficients else 1.0
                coefficients.append(min(dobrushin(power), previous_coefficient))
                is_constant = len(coefficients) >= 200 and coefficients[-1] >= 1.0 - 1e-15
                if is_constant or not coefficients[-1] > 1e-16:
                    break
            return np.array(coefficients)

        return cached(self, "power coefficients", compute)

    def _variance_proxy(self, n, is_mean):
        # For any query: the best block length (theory H4). For means, the smaller of this and a
        # bound by the second singular value. `n_affected`: bound on the expected number of later
        # records that change with one record.
        coefficients = self._power_coefficients()
        n_later = n - 1  # records after the first one
        n_affected = float(coefficients[:n_later].sum())
        last_coefficient = float(coefficients[-1])
        if n_later > len(coefficients):
            # Submultiplicativity: the coefficients of each further stretch of powers of the same
            # length are at most `last_coefficient` times those of the stretch before.
            n_stretches = math.ceil(n_later / len(coefficients))
            geometric_sum = math.inf  # of the powers 0, 1, … of `last_coefficient`
            if last_coefficient < 1.0:
                geometric_sum = (1.0 - last_coefficient**n_stretches) / (1.0 - last_coefficient)
            n_affected = min(float(n_later), n_affected * geometric_sum)
        variance_proxy = cached(
            self, ("variance proxy", n), lambda: block_variance_proxy(n_affected, n)
        )
        if is_mean and self.contraction_ < 1.0:
            # Fan, Jiang, Sun 2021, Theorem 1 (absolute spectral gap; functions may differ).
            contraction = self.contraction_
            variance_proxy = min(variance_proxy, n * (1.0 + contraction) / (1.0 - contraction))
        return variance_proxy

    def _lower_limit(self, values, log_failures, n, binary):
        limits = super()._lower_limit(values, log_failures, n, binary)
        if self.contraction_ >= 1.0:
            return limits
        return np.maximum(limits, chain_lower_limit(values, -log_failures / n, self.contraction_))

    # -- splits -----------------------------------------------------------------------------

    def gap_failure_probability(self, gap: int) -> float:
        """Return an upper bound on the dependence across a gap, as total variation (theory H6).

        Parameters
        ----------
        gap : int
            Records dropped between the training records and the holdout.

        Returns
        -------
        float
            Failure probability to add to that of intervals: the Dobrushin coefficient of the power
            ``gap + 1`` of the transition matrix, or for long gaps an upper bound on it.
        """
        # Total variation between the distribution of the first holdout state and that of an
        # independent one; beyond the computed powers by submultiplicativity.
        coefficients = self._power_coefficients()
        n_steps = check_integer("gap", gap, low=0) + 1
        if n_steps <= len(coefficients):
            return float(coefficients[n_steps - 1])
        n_stretches, n_steps_left = divmod(n_steps, len(coefficients))
        if not coefficients[-1] > 0.0:
            return 0.0
        failure = math.exp(n_stretches * math.log(coefficients[-1]))
        if n_steps_left:
            failure *= float(coefficients[n_steps_left - 1])
        return failure

    def required_gap(self, failure: float) -> int:
        """Return the smallest gap whose :meth:`gap_failure_probability` is at most ``failure``.

        Parameters
        ----------
        failure : float
            Allowed :meth:`gap_failure_probability`, in (0, 1).

        Returns
        -------
        int
            Number of records to drop before the holdout.

        Raises
        ------
        ValueError
            If no gap of up to 2**40 records suffices, as for periodic chains.
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
        sufficient_gap, insufficient_gap = doubled(suffices, 1)
        return last_whole(suffices, sufficient_gap, insufficient_gap)

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        return tail_split(self.check_n(n), holdout, self.required_gap(SPLIT_FAILURE))

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        gap = self.required_gap(FOLD_FAILURE)
        # Chains that were made from an autocorrelation time train on earlier records only, as
        # forecasts do. Other chains train on both sides of a test block.
        has_autocorrelation_time = bool(self._words)
        return block_folds(self.check_n(n), n_splits, gap, forward=has_autocorrelation_time)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        positions = check_indices(indices, None)
        if not (np.diff(positions) == 1).all():
            raise ValueError(
                f"indices must be contiguous and ascending for a chain, got {positions[:5]}…"
            )
        return self


def _state_sequences(states):
    """Return one or several sequences of states as a list of integer arrays.

    ``states``: one sequence, or a list of sequences, of integers of at least 0. Raises TypeError or
    ValueError for other values.
    """
    if isinstance(states, str | bytes | dict) or not hasattr(states, "__len__"):
        raise TypeError(f"states must be an array of integers, got {type(states).__name__}.")
    is_list_of_sequences = not isinstance(states, np.ndarray) and any(map(np.ndim, states))
    sequences = [
        np.asarray(sequence) for sequence in (states if is_list_of_sequences else [states])
    ]
    for sequence in sequences:
        if sequence.ndim != 1 or sequence.dtype.kind not in "iu" or (sequence < 0).any():
            raise ValueError(
                "states must be one-dimensional, integers of at least 0, got shape "
                f"{sequence.shape} of {sequence.dtype}."
            )
    return sequences


def _check_transitions(sequences, n_transitions):
    """Raise ValueError if there are too few transitions, or if all states are the same.

    ``sequences``: list of integer arrays of states. ``n_transitions``: their transitions in total.
    """
    if n_transitions < MIN_TRANSITIONS:
        raise ValueError(
            f"states must hold at least {MIN_TRANSITIONS} transitions, got {n_transitions}, which "
            "do not show how strong the dependence is. Pass a longer history, or declare "
            "MarkovChain.from_autocorrelation_time(records)."
        )
    distinct_states = {int(state) for sequence in sequences for state in np.unique(sequence)}
    if len(distinct_states) == 1:
        raise ValueError(
            f"states must hold at least 2 different states, got {n_transitions} transitions "
            f"that never leave state {distinct_states.pop()} and do not show how strong the "
            "dependence is. Pass a longer history, or declare "
            "MarkovChain.from_autocorrelation_time(records)."
        )


gap_failure_probability.register(MarkovChain, MarkovChain.gap_failure_probability)
required_gap.register(MarkovChain, MarkovChain.required_gap)


def tail_split(n, holdout, gap):
    """Return the split that holds out the last records and drops ``gap`` records before them.

    ``holdout``: fraction of the ``n`` records (or dates) to hold out, in (0, 1). Raises ValueError
    if no training record or no holdout record would be left.
    """
    n_holdout = holdout_size(n, holdout)
    n_train = n - n_holdout - gap
    if not n_train >= 1:
        raise ValueError(
            f"holdout={holdout} of {n} records and a gap of {gap} records before it (horizon=, or "
            f"what the chain needs) leave no training records: the gap must be at most "
            f"{max(n - n_holdout - 1, 0)}. Set a smaller horizon or holdout, or bring more records."
        )
    return Split(np.arange(n_train), np.arange(n - n_holdout, n), gap)


def block_folds(n, n_splits, gap, *, forward=False):
    """Return ``n_splits`` folds ``(train, test)`` of ``n`` records; test sets are contiguous.

    Training sets drop ``gap`` records on both sides of the test set. ``forward``: whether they have
    earlier records only; then the first of ``n_splits + 1`` blocks is not a test set. Raises
    ValueError if a training set would be empty, or if there are too few records.
    """
    n_untested_blocks = int(forward)
    n_splits = check_splits(
        n_splits, n - n_untested_blocks, "records less one" if forward else "records"
    )
    n_blocks = n_splits + n_untested_blocks
    block_bounds = np.arange(n_untested_blocks, n_blocks + 1) * n // n_blocks
    positions = np.arange(n)
    folds = []
    for start, stop in itertools.pairwise(block_bounds):
        is_training = positions < start - gap
        if not forward:
            is_training |= positions >= stop + gap
        if not is_training.any():
            raise ValueError(
                f"n_splits must leave training records, got {n_splits=}, {n=}, {gap=}."
            )
        folds.append((positions[is_training], positions[start:stop]))
    return folds


class Interpolation(ComponentModel):
    """An observed chain for interpolation: ``MarkovChain(P, observed=True, interpolation=True)``.

    Splits never hold out two consecutive records. Given its neighbors in time, a record is
    independent of all other records.
    """

    fingerprint_name = "Interpolation"
    _bounds_hold_given_rest = True

    def __init__(self) -> None:
        self._freeze()

    def describe(self) -> str:
        return "an observed Markov chain, whose records are held out between their neighbors"

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        rng = generator(random_state)
        max_holdout = holdout_size(self.check_n(n), holdout)
        every_second_record = np.arange(rng.integers(2), n, 2)
        held_out = np.sort(rng.permutation(every_second_record)[:max_holdout])
        return Split(np.setdiff1d(np.arange(n), held_out), held_out)

    def conditional_on_rest(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, None)
        time_order = np.argsort(indices)
        sorted_indices = indices[time_order]
        follows_gap = np.diff(sorted_indices, prepend=sorted_indices[0]) > 1
        # Number of the stretch of consecutive records, for each holdout record.
        stretch_codes: Array = np.empty(len(indices), dtype=np.int64)
        stretch_codes[time_order] = np.cumsum(follows_gap)
        return ConditionallyIndependent(
            stretch_codes,
            f"{len(indices)} records of an observed Markov chain in {stretch_codes.max() + 1} "
            "stretches that are independent given all other records",
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
    """Return the stationary distribution of an irreducible transition matrix."""
    # Grassmann, Taksar and Heyman 1985: elimination without subtractions, so that every entry
    # is found to relative precision, however nearly the chain decomposes.
    reduced = matrix.copy()  # first rows and columns: chain of the states not yet eliminated
    n_states = len(reduced)
    for state in range(n_states - 1, 0, -1):
        reduced[:state, state] /= reduced[state, :state].sum()
        reduced[:state, :state] += np.outer(reduced[:state, state], reduced[state, :state])
    distribution = np.ones(n_states)
    for state in range(1, n_states):
        distribution[state] = distribution[:state] @ reduced[:state, state]
    return distribution / distribution.sum()


def is_reversible(matrix, distribution):
    """Return whether a transition matrix is in detailed balance with a stationary distribution."""
    flow = distribution[:, None] * matrix
    return bool(np.all(np.abs(flow - flow.T) <= 1e-9 * np.maximum(flow, flow.T).max()))


def dobrushin(matrix):
    """Return the Dobrushin coefficient, the largest total variation distance between two rows."""
    largest_distance = 0.0  # sum of absolute differences, twice the total variation
    for row in range(len(matrix) - 1):
        distances = np.abs(matrix[row + 1 :] - matrix[row]).sum(axis=1)
        largest_distance = max(largest_distance, float(distances.max()))
    return min(1.0, largest_distance / 2.0)


def projective_diameter(matrix):
    """Return the largest log cross-ratio of a nonnegative matrix, in nats (Birkhoff, Hilbert).

    This is ``max ln[P(u,y) P(v,z) / (P(u,z) P(v,y))]`` over rows ``u, v`` and columns ``y, z``.
    Rows and columns of zeros are ignored. If another entry is zero, the result is infinite.
    """
    matrix = matrix[:, matrix.max(axis=0) > 0]
    matrix = matrix[matrix.max(axis=1) > 0]
    if matrix.size and not matrix.min() > 0:
        return math.inf
    log_matrix = np.log(matrix)
    diameter = 0.0
    for u in range(len(log_matrix) - 1):
        log_ratios = log_matrix[u + 1 :] - log_matrix[u]
        log_cross_ratios = log_ratios.max(axis=1) - log_ratios.min(axis=1)
        diameter = max(diameter, float(log_cross_ratios.max()))
    return diameter


def block_variance_proxy(n_affected, n):
    """Return the smallest sum of squared martingale ranges over several block lengths (theory H4).

    ``n``: number of records, which are divided into blocks of one length. ``n_affected``: effect of
    a block on all later records, in units of the effect of one record; for a chain the expected
    number of later records that differ (Griffeath 1975). The result is in units of the squared
    effect of one record.
    """
    block_lengths = np.unique(np.clip(np.ceil(n_affected * np.linspace(0.25, 4.0, 200)), 1, n))
    block_lengths = np.union1d(block_lengths, [1.0, float(n)])
    n_blocks = np.ceil(n / block_lengths)  # for each length
    last_lengths = n - (n_blocks - 1) * block_lengths  # of the last blocks, which affect no others
    sums_of_squares = (n_blocks - 1) * (block_lengths + n_affected) ** 2 + last_lengths**2
    return float(sums_of_squares.min())


def slow_autocorrelation_time(scores: ArrayLike) -> float:
    """Return the autocorrelation time of a series, in records, by its lowest frequencies.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Per-record scores in time, at least 16 of them.

    Returns
    -------
    float
        Estimate of ``1 + 2 * sum of autocorrelations``, at least 1; 1 for a constant series.

    Raises
    ------
    TypeError, ValueError
        If ``scores`` is not a vector of at least 16 finite numbers.

    See Also
    --------
    MarkovChain.from_autocorrelation_time : Declare such a time.

    Notes
    -----
    The estimate is the mean of the squared cosine coefficients of the ten lowest frequencies (of
    fewer than 40 scores: a quarter as many frequencies), in units of the variance. Each of these
    squares estimates the autocorrelation time. The first one is large if there is a steady drift,
    so it counts no more than the largest of the others. Of 100 or more scores, the next 14
    frequencies give a second estimate, by a median, which one seasonal frequency hardly changes. If
    the second estimate is larger than the mean, half of the difference is added.

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
    if not len(series) >= MIN_SCORES:
        raise ValueError(f"scores must hold at least {MIN_SCORES} records, got {len(series)}.")
    residuals = series - series.mean()
    variance = float(np.mean(residuals**2))
    # Squared cosine coefficients, the lowest frequency first, in units of the variance: about
    # independent. The mean of the first ones estimates the autocorrelation time.
    power = np.zeros(len(series) - 1)
    if variance > 1e-24 * max(1.0, float(np.abs(series).max())) ** 2:  # not a constant series
        power = dct(residuals, norm="ortho")[1:] ** 2 / variance
    n_low = min(N_LOW_FREQUENCIES, len(series) // 4)
    time_by_next_frequencies = 0.0
    if n_low + 1 + 2 * N_FREQUENCY_PAIRS <= len(series) // 4:
        next_power = power[n_low : n_low + 2 * N_FREQUENCY_PAIRS]
        pair_means = next_power.reshape(N_FREQUENCY_PAIRS, 2).mean(axis=1)
        # The expected median of exponential variables of mean 1 (Renyi 1953).
        expected_median = sum(
            1.0 / k for k in range(N_FREQUENCY_PAIRS // 2 + 1, N_FREQUENCY_PAIRS + 1)
        )
        time_by_next_frequencies = float(np.median(pair_means)) / expected_median
    power[0] = min(power[0], power[1:n_low].max())
    time = float(power[:n_low].mean())
    return max(1.0, time, 0.5 * (time + time_by_next_frequencies))
