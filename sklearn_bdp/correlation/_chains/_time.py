"""Cutting records in time: gaps, contiguous holdouts, contiguous folds."""

from __future__ import annotations

from numpy.typing import ArrayLike

from sklearn_bdp._bisection import doubled, last_whole
from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._chains._blocks import block_spread
from sklearn_bdp.correlation._chains._seen import SeenStates
from sklearn_bdp.correlation._shared._splitting import (
    FOLD_FAILURE,
    SPLIT_FAILURE,
    block_folds,
    check_indices,
    tail_split,
)
from sklearn_bdp.correlation._shared._transition import (
    is_irreducible,
    mixing_after,
    mixing_sum,
    stationary_distribution,
)


class TimeModel(CorrelationModel):
    """Shared part of chains: everything that follows from how fast the past is forgotten.

    Subclasses provide ``_profile()``: bounds on ``theta(P^k)`` for ``k = 1, 2, …``.
    """

    is_sequential = True
    transition: Array  # of each subclass
    confidence = 1.0  # level at which the model holds the truth

    @property
    def caveats(self) -> tuple[str, ...]:
        return ("A future unlike the past (drift) is not covered.",)

    @property
    def misspecification(self) -> float:
        return 1.0 - self.confidence

    @property
    def n_states(self) -> int | None:
        return len(self.transition)

    def _profile(self):
        raise NotImplementedError

    def _spread(self, n, statistical):
        return self._remember(
            ("spread", n), lambda: block_spread(mixing_sum(self._profile(), n - 1), n)
        )

    def given_states(self, states: ArrayLike) -> SeenStates:
        """Return the model of records whose states are public (theory G11′).

        Parameters
        ----------
        states : array-like of int, shape (n,)
            State of every record, ``0 … k-1``, known without looking at the records.

        Returns
        -------
        SeenStates
            Scores are post-stratified by state; dependence costs nothing. Limits pay the error of
            an estimated stationary distribution.

        Raises
        ------
        ValueError
            If the chain has no stationary distribution, or a state is none of its own.
        """
        if not is_irreducible(self.transition):
            raise ValueError(
                "states need an irreducible transition matrix: scores weigh states by the "
                "stationary distribution, and here it is not unique."
            )
        return SeenStates(
            states,
            stationary_distribution(self.transition),
            error=self._stationary_error(),
            confidence=self.confidence,
        )

    def _stationary_error(self):
        """Return how far, in total variation, the true stationary distribution may be."""
        return 0.0

    def cut_failure(self, gap: int) -> float:
        # Theory H6: total variation between cut and uncut distribution of the first holdout state.
        return min(1.0, mixing_after(self._profile(), check_integer("gap", gap, low=0) + 1))

    def gap_for(self, failure: float) -> int:
        failure = check_real("failure", failure, low=0.0, high=1.0, closed="neither")
        if not self.cut_failure(2**40) <= failure:
            raise ValueError(
                f"failure={failure:g} cannot be reached by any gap: the chain never forgets its "
                "past (it is periodic or not irreducible)."
            )
        if self.cut_failure(0) <= failure:
            return 0
        enough = lambda gap: self.cut_failure(gap) <= failure  # noqa: E731
        return last_whole(enough, *doubled(enough, 1))

    def _split(self, n, holdout, y, random_state):
        return tail_split(n, holdout, self.gap_for(SPLIT_FAILURE))

    def _folds(self, n, n_splits, y, random_state):
        return block_folds(n, n_splits, self.gap_for(FOLD_FAILURE))

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        places = check_indices(indices, None)
        if not (places[1:] - places[:-1] == 1).all():
            raise ValueError(
                "indices must be contiguous and ascending for a chain: dropping records in "
                f"between changes its transition matrix, got {places[:5]}…"
            )
        return self._from_record(int(places[0]))

    def _from_record(self, first):
        """Return the model of the records from ``first`` on."""
        return self
