"""Several sequences that are independent of each other, each a Markov chain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import CorrelationModel, Folds, Split, check_indices
from sklearn_bdp.correlation.chain import SPLIT_FAILURE, MarkovChain, tail_split
from sklearn_bdp.correlation.components import label_codes, unnamed_groups
from sklearn_bdp.correlation.cutting import (
    gap_failure_probability,
    gaps_to_training,
    n_split_components,
    required_gap,
)
from sklearn_bdp.correlation.scheme import ConcentrationBound, SamplingScheme
from sklearn_bdp.utils.validation import check_integer

#: Fewer sequences are not held out as a whole: the last records of each are.
FEWEST_SEQUENCES = 10


def is_chain(correlation: Any) -> bool:
    """Return whether an argument declares one Markov chain: a model, or a dense matrix."""
    if isinstance(correlation, CorrelationModel):
        return isinstance(correlation, MarkovChain)
    if not isinstance(correlation, np.ndarray | list | tuple):
        return False
    rows = list(correlation)
    return bool(rows) and all(
        isinstance(row, np.ndarray | list | tuple) and len(row) > 0 and all(map(np.isscalar, row))
        for row in rows
    )


class ChainSequences(CorrelationModel):
    """Sequences of records that are independent of each other, each a Markov chain.

    Made by ``correlation=chain`` with ``groups=``, the sequence of each record. Rows of a sequence
    are in time order; rows of different sequences may be in any order. With at least ten
    sequences whole ones are held out, otherwise the last records of each.

    Parameters
    ----------
    chain : MarkovChain
        Chain that each sequence follows.
    sequences : array-like of shape (n,)
        Sequence of each record.

    See Also
    --------
    MarkovChain : One sequence.

    Notes
    -----
    The sum of scores of all sequences concentrates at least as well as that of one chain of as many
    records: moment generating functions of independent sums multiply, and a bound for a chain is
    a product over its records.
    """

    fingerprint_name = "ChainSequences"

    def __init__(self, chain: MarkovChain, sequences: ArrayLike) -> None:
        self.chain = chain
        self.codes_ = self._codes = label_codes(sequences)
        self.n_records = len(self.codes_)
        self.caveats = ("Sequences are independent of each other.", *chain.caveats)
        self._freeze(chain.fingerprint(), self.codes_)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return int(self.codes_.max()) + 1

    def describe(self) -> str:
        return f"{self.n_sequences} independent sequences, each: {self.chain.describe()}"

    def sampling_scheme(self, n: int) -> SamplingScheme:
        n = self.check_n(n)
        return SamplingScheme(
            n_records=n,
            n_units=n,
            unit_name="records",
            bound=ConcentrationBound.CHAIN,
            target="new records of the same process",
            exchangeable=False,
            block_codes=self.codes_,
        )

    def _variance_proxy(self, n, is_mean):
        return self.chain._variance_proxy(n, is_mean)

    def _lower_limit(self, values, log_failures, n, binary):
        return self.chain._lower_limit(values, log_failures, n, binary)

    # -- cutting ----------------------------------------------------------------------------

    def record_positions(self):
        """Return the positions of each sequence's records, in their order."""
        order = np.argsort(self.codes_, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.codes_))[:-1])

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        if self.n_sequences >= FEWEST_SEQUENCES:
            return unnamed_groups(self.codes_).split(n, holdout, random_state=random_state)
        self.check_n(n)
        gap = required_gap(self, SPLIT_FAILURE)
        splits = [
            (positions, tail_split(len(positions), holdout, gap))
            for positions in self.record_positions()
        ]
        train = np.concatenate([positions[split.train] for positions, split in splits])
        held_out = np.concatenate([positions[split.holdout] for positions, split in splits])
        return Split(np.sort(train), np.sort(held_out), gap)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n_splits = check_integer("n_splits", n_splits, low=2)
        if self.n_sequences >= n_splits:
            return unnamed_groups(self.codes_).folds(n, n_splits, random_state=random_state)
        chain_folds = [
            (positions, self.chain.folds(len(positions), n_splits))
            for positions in self.record_positions()
        ]
        folds = []
        for k in range(n_splits):
            train = np.concatenate([positions[pairs[k][0]] for positions, pairs in chain_folds])
            test = np.concatenate([positions[pairs[k][1]] for positions, pairs in chain_folds])
            folds.append((np.sort(train), np.sort(test)))
        return folds

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        for positions in self.record_positions():
            chosen = np.flatnonzero(np.isin(positions, indices))
            if chosen.size and chosen.size != chosen[-1] - chosen[0] + 1:
                raise ValueError(
                    "indices must be contiguous inside each sequence, and ascending, got "
                    f"{indices[:5]}…"
                )
        return ChainSequences(self.chain, self.codes_[indices])


@gap_failure_probability.register
def _gap_failure_of_sequences(model: ChainSequences, gap: int) -> float:
    # Each sequence of the holdout may have been cut (theory H6).
    gap = check_integer("gap", gap, low=0)
    return min(1.0, model.n_sequences * model.chain.gap_failure_probability(gap))


@required_gap.register
def _required_gap_of_sequences(model: ChainSequences, failure: float) -> int:
    return model.chain.required_gap(failure / model.n_sequences)


@gaps_to_training.register
def _gaps_of_sequences(
    model: ChainSequences, train: Array, holdout: Array
) -> tuple[int | None, int | None]:
    gaps = []
    for positions in model.record_positions():
        tested = np.flatnonzero(np.isin(positions, holdout))
        trained = np.flatnonzero(np.isin(positions, train))
        if tested.size and trained.size:
            gaps.append(int(tested.min() - trained.max() - 1))
    return min(gaps, default=None), None


@n_split_components.register
def _n_split_sequences(model: ChainSequences, train: Array, test: Array) -> int:
    count = 0
    for positions in model.record_positions():
        tested = np.flatnonzero(np.isin(positions, test))
        trained = np.flatnonzero(np.isin(positions, train))
        count += bool(tested.size and trained.size and not trained.max() < tested.min())
    return count
