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

#: With at least this many sequences whole ones are held out, otherwise the last records of each.
MIN_WHOLE_SEQUENCES = 10


def is_chain(correlation: Any) -> bool:
    """Return whether an argument is a :class:`MarkovChain`, or rows of scalars as in a matrix."""
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

    Searches make this model from ``correlation=chain`` and ``groups=``, the sequence of each
    record. Rows of a sequence are in time order; rows of different sequences may be in any order.
    With at least ten sequences, whole sequences are held out, otherwise the last records of each.

    Parameters
    ----------
    chain : MarkovChain
        Chain that each sequence follows.
    sequences : array-like of shape (n,)
        Label of the sequence of each record, as for :class:`Groups`.

    See Also
    --------
    MarkovChain : One sequence.

    Notes
    -----
    The sum of scores of all sequences has the bounds of one chain of as many records, because
    moment generating functions of independent sums multiply.
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

    # -- splits -----------------------------------------------------------------------------

    def record_positions(self):
        """Return a list with the ascending row numbers of each sequence's records."""
        order = np.argsort(self.codes_, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.codes_))[:-1])

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        # Whole sequences, with a gap of 0; if they are few, the last records of each after a gap.
        if self.n_sequences >= MIN_WHOLE_SEQUENCES:
            return unnamed_groups(self.codes_).split(n, holdout, random_state=random_state)
        self.check_n(n)
        gap = required_gap(self, SPLIT_FAILURE)
        train = []
        held_out = []
        for positions in self.record_positions():
            sequence_split = tail_split(len(positions), holdout, gap)
            train.append(positions[sequence_split.train])
            held_out.append(positions[sequence_split.holdout])
        return Split(np.sort(np.concatenate(train)), np.sort(np.concatenate(held_out)), gap)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n_splits = check_integer("n_splits", n_splits, low=2)
        if self.n_sequences >= n_splits:
            return unnamed_groups(self.codes_).folds(n, n_splits, random_state=random_state)
        # For each fold a list of arrays of row numbers, one array per sequence.
        train_sets: list[list[Array]] = [[] for _ in range(n_splits)]
        test_sets: list[list[Array]] = [[] for _ in range(n_splits)]
        for positions in self.record_positions():
            sequence_folds = self.chain.folds(len(positions), n_splits)
            for fold, (train, test) in enumerate(sequence_folds):
                train_sets[fold].append(positions[train])
                test_sets[fold].append(positions[test])
        return [
            (np.sort(np.concatenate(train)), np.sort(np.concatenate(test)))
            for train, test in zip(train_sets, test_sets, strict=True)
        ]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        step_of_record = np.empty(len(self.codes_), dtype=np.int64)  # position in its sequence
        for positions in self.record_positions():
            step_of_record[positions] = np.arange(len(positions))
        codes = self.codes_[indices]
        by_sequence = np.argsort(codes, kind="stable")
        is_same_sequence = np.diff(codes[by_sequence]) == 0
        if (np.diff(step_of_record[indices][by_sequence])[is_same_sequence] != 1).any():
            raise ValueError(
                "indices must be contiguous inside each sequence, and ascending, got "
                f"{indices[:5]}…"
            )
        return ChainSequences(self.chain, codes)


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
    gaps_before = []
    for positions in model.record_positions():
        holdout_steps = np.flatnonzero(np.isin(positions, holdout))  # in the sequence
        train_steps = np.flatnonzero(np.isin(positions, train))
        if holdout_steps.size and train_steps.size:
            gaps_before.append(int(holdout_steps.min() - train_steps.max() - 1))
    return min(gaps_before, default=None), None


@n_split_components.register
def _n_split_sequences(model: ChainSequences, train: Array, test: Array) -> int:
    n_split = 0
    for positions in model.record_positions():
        test_steps = np.flatnonzero(np.isin(positions, test))  # in the sequence
        train_steps = np.flatnonzero(np.isin(positions, train))
        if test_steps.size and train_steps.size and not train_steps.max() < test_steps.min():
            n_split += 1  # training records that are not all before the test records
    return n_split
