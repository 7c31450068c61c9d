"""Records in time: a Markov chain, visible or hidden behind the records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._cutting import (
    FOLD_FAILURE,
    SPLIT_FAILURE,
    block_folds,
    check_indices,
    tail_split,
)
from sklearn_bdp.correlation._interpolation import Interpolation
from sklearn_bdp.correlation._strength import (
    ENOUGH,
    FEWEST,
    SAFETY,
    rounded_up,
    slow_autocorrelation_time,
    two_states,
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
    transition_counts,
)


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
    _words = ""  # where the strength comes from, when no transition matrix was given
    _caveats: tuple[str, ...] = ()

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
        self._freeze()

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
        counts = transition_counts(states, n_states=n_states)
        smoothing = check_real("smoothing", smoothing, low=0.0)
        weights = counts + smoothing
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
        return cls(two_states(time))._declared(
            f"scores have an autocorrelation time of {time:.3g} records: {time:.3g} records count "
            "as one"
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
        time = rounded_up(max(1.0, SAFETY * seen))
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
        return cls(two_states(time))._declared(
            f"assumed chain: scores have an autocorrelation time of at most {time:.3g} records "
            f"({SAFETY:g} times the {seen:.3g} of {shown} cross-validated scores, candidates: "
            f"{len(kept)})",
            caveats,
        )

    def _declared(self, words, caveats=()):
        """Return the same chain with the words that say where its strength comes from."""
        model = object.__new__(type(self))
        model.__dict__.update(self.__getstate__(), _words=words, _caveats=tuple(caveats))
        model._freeze()
        return model

    def _folds(self, n, n_splits, random_state):
        # Declared by how slowly scores forget: records in time, so the past predicts the future.
        return block_folds(n, n_splits, self.gap_for(FOLD_FAILURE), forward=bool(self._words))

    @property
    def caveats(self) -> tuple[str, ...]:
        return (*self._caveats, "A future unlike the past (drift) is not covered.")

    def __repr__(self) -> str:
        if self._words:
            time = (1.0 + self.contraction_) / (1.0 - self.contraction_)
            return f"MarkovChain.from_autocorrelation_time({time:.6g})"
        rows = np.array2string(self.transition, threshold=16, precision=4, separator=", ")
        rows = " ".join(rows.split())
        extra = ", observed=True" if self.observed else ""
        return f"MarkovChain({rows}{extra})"

    def _content(self):
        words = (self._words, *self._caveats) if self._words else ()
        return (self.transition, self.observed, *words)

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

    def _split(self, n, holdout, random_state):
        return tail_split(n, holdout, self.gap_for(SPLIT_FAILURE))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        places = check_indices(indices, None)
        if not (places[1:] - places[:-1] == 1).all():
            raise ValueError(
                "indices must be contiguous and ascending for a chain: dropping records in "
                f"between changes its transition matrix, got {places[:5]}…"
            )
        return self
