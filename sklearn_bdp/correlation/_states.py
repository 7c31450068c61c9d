"""Records in regimes of a chain that are seen (theory G11′)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_array
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._cutting import block_folds, check_indices, tail_split
from sklearn_bdp.correlation._tails import (
    binomial_lower_limit,
    bounded_lower_limit,
    weighted_lower_limit,
)


class SeenStates(CorrelationModel):
    r"""Records that are independent given the public states of a chain (theory G11′).

    Made by ``MarkovChain(P, states=states)``. The score of a query is
    :math:`\sum_s \pi_s\,\mathrm{mean}(\text{score} \mid s)` instead of a plain mean: its
    expectation is that of a stationary record for every path of states, so dependence costs
    nothing and no gap is needed.

    Parameters
    ----------
    states : array-like of int, shape (n,)
        State of every record, ``0 … k-1``, in time.
    stationary : array-like of shape (k,)
        Stationary distribution of the states.

    Attributes
    ----------
    weights_ : ndarray of shape (n,)
        Weight of each record in a score: ``stationary[s] / (records in s)``, scaled to sum to 1.
    unseen_ : float
        Stationary probability of the states that no record is in. Their scores count as 0 in
        lower limits and as 1 in upper ones.

    Raises
    ------
    ValueError
        If a state has no stationary probability, or without any states.

    See Also
    --------
    MarkovChain : The chain of the states.

    Notes
    -----
    Three conditions, which no data can prove: the states are known without looking at the
    records' features or labels (not decoded from them); given the states records are independent;
    and a record depends on its *own* state only. If records depend on earlier states as well, the
    score has another expectation. Searches test cross-validated scores for dependence within
    states.

    Examples
    --------
    >>> from sklearn_bdp.correlation import MarkovChain
    >>> seen = MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=[0, 0, 0, 1, 1, 0, 0, 0])
    >>> seen.weights_.round(3).tolist()
    [0.083, 0.083, 0.083, 0.25, 0.25, 0.083, 0.083, 0.083]
    >>> round(seen.effective_n(8), 6)
    6.0
    """

    #: Any record may be held out: bounds hold given the states of all of them.
    holds_given_rest = True

    def __init__(self, states: ArrayLike, stationary: ArrayLike) -> None:
        self.stationary = check_array("stationary", stationary, shape=(None,), low=0.0)
        if not abs(self.stationary.sum() - 1.0) <= 1e-8:
            raise ValueError(f"stationary must sum to one, got {self.stationary.sum():.12g}.")
        self.states = check_states(states, len(self.stationary))
        counts = np.bincount(self.states, minlength=len(self.stationary))
        impossible = (counts > 0) & ~(self.stationary > 0)
        if impossible.any():
            raise ValueError(
                f"states must have a positive stationary probability, got state "
                f"{int(np.argmax(impossible))} with probability 0."
            )
        self.unseen_ = float(self.stationary[counts == 0].sum())
        weights = (self.stationary / np.maximum(counts, 1))[self.states]
        self.weights_ = self._record_weights = weights / weights.sum()
        self._freeze()

    def __repr__(self):
        return f"SeenStates(<{len(self.states)} records in {len(self.stationary)} states>)"

    def _content(self):
        return (self.states, self.stationary)

    def describe(self) -> str:
        n = len(self.states)
        unseen = f", {self.unseen_:.2g} of the time in states never seen" if self.unseen_ else ""
        return (
            f"{n} records independent given their public states ({len(self.stationary)} of a "
            f"stationary chain), scores weighted by state{unseen}"
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        return (
            "The states are public and known without the records (not decoded from them), and each "
            "record depends on its own state only; scores weigh states by how often the chain "
            "visits them in the long run.",
            "A future unlike the past (drift) is not covered.",
        )

    @property
    def n_records(self) -> int:
        return len(self.states)

    # -- concentration of the weighted mean (theory G12) ----------------------------------------

    def _spread(self, n, statistical):
        return n**2 * float(np.sum(self.weights_**2))

    def log_tail(self, alpha: ArrayLike, n: int, *, sensitivity: float | None = None) -> Any:
        alpha = check_array("alpha", alpha, low=0.0)
        if sensitivity is not None:  # only the post-stratified mean has the right expectation
            result = np.zeros(alpha.shape)
            return float(result) if result.ndim == 0 else result
        return super().log_tail(np.maximum(alpha - self.unseen_, 0.0), n)

    def _lower_limit(self, values, levels, n, binary):
        weights, counts = np.unique(self.weights_, return_counts=True)
        if len(weights) > 1:
            limit = weighted_lower_limit(values, levels, weights, counts)
        elif binary:
            limit = binomial_lower_limit(values, levels, n)
        else:
            limit = bounded_lower_limit(values, levels, n)
        return (1.0 - self.unseen_) * limit

    # -- cutting --------------------------------------------------------------------------------

    def _split(self, n, holdout, random_state):
        return tail_split(n, holdout, 0)

    def _folds(self, n, n_splits, random_state):
        return block_folds(n, n_splits, 0)

    def subset(self, indices: ArrayLike) -> SeenStates:
        indices = check_indices(indices, len(self.states))
        return SeenStates(self.states[indices], self.stationary)


class DegreeCells(SeenStates):
    """Independent nodes given the rest, weighted as their degrees occur in the graph (theory G27).

    ``degrees``: of all nodes, ``held``: the nodes of the holdout. Cells of neighboring degrees hold
    at least 20 held-out nodes each.
    """

    _target: str
    _caveats: tuple[str, ...]

    is_given_rest = True

    def __init__(self, degrees, held, *, target, caveats, nodes=None):
        values, counts = np.unique(degrees[held], return_counts=True)
        ends, seen = [], 0
        for value, count in zip(values, counts, strict=True):
            seen += count
            if seen >= 20:
                ends, seen = [*ends, value], 0
        cells = np.searchsorted(ends[:-1], degrees)
        super().__init__(cells[held], np.bincount(cells) / len(degrees))
        vars(self).update(_target=target, _caveats=caveats, _nodes=nodes)

    @property
    def target(self) -> str:
        return self._target

    @property
    def caveats(self) -> tuple[str, ...]:
        return (*self._caveats, "Nodes are weighted so that degrees occur as in the whole graph.")

    def describe(self) -> str:
        return (
            f"{len(self.states)} nodes of a Markov network, independent given all other records at "
            f"any strength, weighted by {len(self.stationary)} cells of degrees"
        )


def check_states(states: ArrayLike, n_states: int) -> Array:
    """Return states as an array of integers in ``0 … n_states - 1``, one for each record."""
    array = np.asarray(states)
    whole = array.ndim == 1 and array.size and array.dtype.kind in "iu"
    if not whole or not (array.min() >= 0 and array.max() < n_states):
        raise ValueError(
            f"states must be integers 0 … {n_states - 1}, the rows of the transition matrix, one "
            f"per record, got {array!r:.60}."
        )
    return array.astype(np.int64)
