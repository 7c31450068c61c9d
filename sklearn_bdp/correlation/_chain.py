"""Records in time: a Markov chain, visible or hidden behind the records."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation._base import (
    CorrelationModel,
    Split,
    check_indices,
    check_splits,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation._components import (
    ComponentModel,
    GivenRest,
    Independent,
    unnamed_groups,
)
from sklearn_bdp.correlation._strength import (
    ENOUGH,
    FEWEST,
    SAFETY,
    slow_autocorrelation_time,
)
from sklearn_bdp.correlation._tails import chain_lower_limit
from sklearn_bdp.correlation._transition import (
    block_spread,
    check_transition,
    dobrushin,
    is_irreducible,
    mixing_after,
    mixing_profile,
    mixing_sum,
    operator_norm,
    projective_diameter,
    spectral_gap,
    stationary_distribution,
)

SPLIT_FAILURE = 1e-3  # what the gap of a chain's `split` may cost
FOLD_FAILURE = 0.05  # inner cross-validation carries no promise; a short gap will do
_DRIFT = "A future unlike the past (drift) is not covered."


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
        score is that of interpolation, never of forecasts. What is made is another model.

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
    GivenPast : Records in time of which nothing is assumed.

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

    is_sequential = True
    target = "later records of the same process"
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
        self.transition = check_transition(transition)
        if not isinstance(observed, bool | np.bool_):
            raise TypeError(f"observed must be True or False, got observed={observed!r}.")
        self.observed = bool(observed)
        if not is_irreducible(self.transition):
            raise ValueError(
                "transition must be irreducible: some states never reach others, so the stationary "
                "distribution is not unique. Model the parts as separate Groups."
            )
        self.stationary_ = stationary_distribution(self.transition)
        self.diameter_ = projective_diameter(self.transition)
        self.dobrushin_ = dobrushin(self.transition)
        self.spectral_gap_ = spectral_gap(self.transition, self.stationary_)
        self.contraction_ = operator_norm(self.transition, self.stationary_)
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
            If the states are not integers of at least 0, or without any transition.
        """
        if isinstance(states, str | bytes | dict) or not hasattr(states, "__len__"):
            raise TypeError(f"states must be an array of integers, got {type(states).__name__}.")
        nested = not isinstance(states, np.ndarray) and any(np.ndim(part) for part in states)
        sequences = [np.asarray(part) for part in (states if nested else [states])]
        for sequence in sequences:
            whole = sequence.ndim == 1 and sequence.dtype.kind in "iu"
            if not whole or (len(sequence) and sequence.min() < 0):
                raise ValueError(
                    "states must be one-dimensional arrays of integers of at least 0, got shape "
                    f"{sequence.shape} of {sequence.dtype}."
                )
        if not any(len(sequence) >= 2 for sequence in sequences):
            raise ValueError("states must hold at least one transition (two states in a row).")
        largest = max(int(sequence.max()) for sequence in sequences if len(sequence))
        n_states = largest + 1 if n_states is None else n_states
        weights = np.zeros((check_integer("n_states", n_states, low=largest + 1),) * 2)
        for sequence in sequences:
            np.add.at(weights, (sequence[:-1], sequence[1:]), 1.0)
        weights += check_real("smoothing", smoothing, low=0.0)
        totals = weights.sum(axis=1)
        if not (totals > 0).all():
            state = int(np.argmin(totals))
            raise ValueError(
                f"smoothing must be positive when a state is never left, got smoothing="
                f"{smoothing:g} and no transition out of state {state}."
            )
        return cls(weights / totals[:, None], observed=observed)

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
            several candidates the slowest counts. NaN where a candidate was not scored.

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
        scores (:func:`slow_autocorrelation_time`). What is assumed: every query's scores
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
        kept = [row[~np.isnan(row)] for row in rows] if rows.ndim == 2 else []
        kept = [row for row in kept if len(row) >= FEWEST]
        if not kept:
            raise ValueError(
                f"scores must be a series or an array of shape (n_candidates, n) and hold at least "
                f"{FEWEST} records of some candidate, got shape {rows.shape}."
            )
        seen, shown = max(slow_autocorrelation_time(row) for row in kept), min(map(len, kept))
        time = max(1.0, SAFETY * seen)
        scale = 10.0 ** (math.floor(math.log10(time)) - 2)
        time = math.ceil(time / scale - 1e-9) * scale  # three digits: the printed value suffices
        caveats: tuple[str, ...] = (
            "Assumed, not proved: the scores of every query concentrate no worse than those of "
            "this chain. Regimes that are rare in the training set (less than about a fifth of the "
            "records) cannot be detected there: declare them.",
        )
        if shown < ENOUGH * seen:
            caveats += (
                f"{shown} cross-validated scores are fewer than {ENOUGH} autocorrelation times "
                f"({seen:.3g} records each): the strength may be underestimated; bring a longer "
                "history or declare more.",
            )
        return cls._of_time(
            time,
            f"assumed chain: scores have an autocorrelation time of at most {time:.3g} records "
            f"({SAFETY:g} times the {seen:.3g} of {shown} cross-validated scores, candidates: "
            f"{len(kept)})",
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
        rows = " ".join(rows.split())
        extra = ", observed=True" if self.observed else ""
        return f"MarkovChain({rows}{extra})"

    def describe(self) -> str:
        if self._words:
            return self._words
        states = {2: "two", 3: "three"}.get(len(self.transition), len(self.transition))
        many = 10_000_000
        return (
            f"stationary {states}-state Markov chain, spectral gap {self.spectral_gap_:.2f}, "
            f"1 record in {many / self.effective_n(many):.1f} counts"
        )

    # -- concentration ----------------------------------------------------------------------

    def _profile(self):
        return self._remember("profile", lambda: mixing_profile(self.transition))

    def _spread(self, n, statistical):
        spread = self._remember(
            ("spread", n), lambda: block_spread(mixing_sum(self._profile(), n - 1), n)
        )
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

    def cut_failure(self, gap: int) -> float:
        # Theory H6: total variation between cut and uncut distribution of the first holdout state.
        return min(1.0, mixing_after(self._profile(), check_integer("gap", gap, low=0) + 1))

    def gap_for(self, failure: float) -> int:
        failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
        if not self.cut_failure(2**40) <= failure:
            raise ValueError(
                f"failure={failure:g} cannot be reached by any gap: the chain has an unlimited "
                "memory (it is periodic)."
            )
        if self.cut_failure(0) <= failure:
            return 0
        enough = lambda gap: self.cut_failure(gap) <= failure  # noqa: E731
        return last_whole(enough, *doubled(enough, 1))

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        return tail_split(self.check_n(n), holdout, self.gap_for(SPLIT_FAILURE))

    def folds(
        self, n: int, n_splits: int, *, random_state: Seed = None
    ) -> list[tuple[Array, Array]]:
        # Declared by how slowly scores forget: records in time, so the past predicts the future.
        gap = self.gap_for(FOLD_FAILURE)
        return block_folds(self.check_n(n), n_splits, gap, forward=bool(self._words))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        places = check_indices(indices, None)
        if not (places[1:] - places[:-1] == 1).all():
            raise ValueError(
                "indices must be contiguous and ascending for a chain: dropping records in "
                f"between changes its transition matrix, got {places[:5]}…"
            )
        return self


def tail_split(n, holdout, gap):
    """Cut a contiguous tail for the holdout and drop ``gap`` records before it."""
    size = holdout_size(n, holdout)
    if not n - size - gap >= 1:
        raise ValueError(
            f"holdout must leave training records, got holdout={holdout!r} of n={n} records with a "
            f"gap of {gap} (the chain has so long a memory): {n - size - gap} records are left for "
            "training."
        )
    return Split(np.arange(n - size - gap), np.arange(n - size, n), gap)


def block_folds(n, n_splits, gap, *, forward=False):
    """Return contiguous test blocks; training drops ``gap`` records on both sides of a block.

    ``forward``: each trains on what came before only, and the first block on nothing.
    """
    if forward:
        n_splits = check_splits(n_splits, n - 1, "records less one")
        edges = np.arange(1, n_splits + 2) * n // (n_splits + 1)
    else:
        n_splits = check_splits(n_splits, n, "records")
        edges = np.arange(n_splits + 1) * n // n_splits
    place, pairs = np.arange(n), []
    for low, high in itertools.pairwise(edges):
        train = place[(place < low - gap) | ((place >= high + gap) & (not forward))]
        if not len(train):
            raise ValueError(
                f"n_splits must leave training records, got n_splits={n_splits} with n={n} "
                f"and a gap of {gap} records next to every block. Use more records, fewer folds or "
                "a smaller holdout."
            )
        pairs.append((train, place[low:high]))
    return pairs


class Interpolation(ComponentModel):
    """An observed chain for interpolation: ``MarkovChain(P, observed=True, interpolation=True)``.

    Of every two records at most one is held out. Given its two neighbors in time, a record is
    independent of all others, at any strength.
    """

    holds_given_rest = True

    def __init__(self) -> None:
        self._freeze()

    def describe(self) -> str:
        return "an observed Markov chain, whose records are held out between their neighbors"

    def _sizes(self, n):
        return np.array([n]), np.array([1])

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        rng, size = generator(random_state), holdout_size(self.check_n(n), holdout)
        every_other = np.arange(rng.integers(2), n, 2)
        chosen = np.sort(rng.permutation(every_other)[:size])
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def folds(
        self, n: int, n_splits: int, *, random_state: Seed = None
    ) -> list[tuple[Array, Array]]:
        return Independent().folds(n, n_splits, random_state=random_state)

    def given_rest(self, indices: ArrayLike) -> CorrelationModel:
        order = np.argsort(indices := check_indices(indices, None))
        runs: Array = np.empty(len(order), dtype=np.int64)  # neighbors in time stay together
        runs[order] = np.cumsum(np.diff(indices[order], prepend=indices[order[0]]) > 1)
        return GivenRest(
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

    def training_part(self, indices: ArrayLike) -> CorrelationModel:
        return unnamed_groups(np.arange(len(check_indices(indices, None))))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        return unnamed_groups(np.zeros(len(check_indices(indices, None)), dtype=np.int64))
