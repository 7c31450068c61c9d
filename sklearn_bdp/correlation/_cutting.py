"""How records are cut: what a holdout, folds and subsets of a correlated sample may be."""

from __future__ import annotations

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp._typing import Array, Seed

SPLIT_FAILURE = 1e-3  # what the gap of a chain's `split` may cost
FOLD_FAILURE = 0.05  # inner cross-validation carries no promise; a short gap will do


@dataclass(frozen=True, eq=False)
class Split:
    """Training and holdout records that respect a correlation model.

    Parameters
    ----------
    train : ndarray of int
        Indices of the training records, ascending.
    holdout : ndarray of int
        Indices of the holdout records, ascending.
    gap : int
        Records dropped between the two (chains only, else 0).

    Examples
    --------
    >>> from sklearn_bdp.correlation import MarkovChain
    >>> split = MarkovChain.from_autocorrelation_time(2.0).split(1000, 0.2)
    >>> len(split.train), len(split.holdout), split.gap
    (794, 200, 6)
    """

    train: np.ndarray
    holdout: np.ndarray
    gap: int = 0


class Divisible(ABC):
    """The part of a model that cuts records without cutting dependence."""

    _size_hint = ""  # what to do where the number of records is another one

    @property
    def n_records(self) -> int | None:
        """Number of records the model is tied to, or None for any number."""
        return None

    def check_n(self, n: int) -> int:
        """Return ``n`` as an int after checking that the model describes that many records.

        Parameters
        ----------
        n : int
            Number of records.

        Returns
        -------
        int
            The checked number.

        Raises
        ------
        ValueError
            If ``n`` is not positive or not the number of records the model is tied to.
        """
        n = check_integer("n", n, low=1)
        if self.n_records is not None and n != self.n_records:
            raise ValueError(
                f"n must be {self.n_records}, the number of records that the correlation "
                f"describes, got n={n}.{self._size_hint}"
            )
        return n

    def cut_failure(self, gap: int) -> float:
        """Return the failure probability that cutting next to training data costs.

        Parameters
        ----------
        gap : int
            Records dropped between the training data and the holdout.

        Returns
        -------
        float
            0 unless the records form a chain.
        """
        check_integer("gap", gap, low=0)
        return 0.0

    def gap_for(self, failure: float) -> int:
        """Return the smallest gap that costs at most ``failure``.

        Parameters
        ----------
        failure : float
            Allowed :meth:`cut_failure`, in (0, 1).

        Returns
        -------
        int
            Records to drop; 0 unless the records form a chain.
        """
        check_real("failure", failure, low=0.0, high=1.0, closed="neither")
        return 0

    def gaps(self, train: Array, holdout: Array) -> tuple[int | None, int | None]:
        """Return how much lies between a holdout and the training records on each side.

        Parameters
        ----------
        train, holdout : ndarray of int
            Places of the records.

        Returns
        -------
        tuple of (int or None)
            Records (or dates) dropped before and after the holdout; None on a side
            without training records.
        """
        before, after = train[train < holdout.min()], train[train > holdout.max()]
        return (
            int(holdout.min() - before.max() - 1) if before.size else None,
            int(after.min() - holdout.max() - 1) if after.size else None,
        )

    def split(
        self,
        n: int,
        holdout: float,
        *,
        random_state: Seed = None,
    ) -> Split:
        """Return a :class:`Split` that cuts no dependence.

        Parameters
        ----------
        n : int
            Number of records to split.
        holdout : float
            Fraction of the records for the holdout, in (0, 1).
        random_state : None, int or numpy.random.Generator, default=None
            Source of the random choice, where there is one.

        Returns
        -------
        Split
            Index arrays and the gap between them.

        Raises
        ------
        ValueError
            If a side would be empty.
        """
        return self._split(self.check_n(n), holdout, random_state)

    @abstractmethod
    def _split(self, n, holdout, random_state):
        """Return the split of so many records, which are checked."""

    def folds(
        self, n: int, n_splits: int, *, random_state: Seed = None
    ) -> list[tuple[Array, Array]]:
        """Return index arrays of folds that cut no dependence.

        Parameters
        ----------
        n : int
            Number of records.
        n_splits : int
            Number of folds, at least 2.
        random_state : None, int or numpy.random.Generator, default=None
            ``None`` keeps the order of the records; otherwise they (or their groups) are
            shuffled first.

        Returns
        -------
        list of tuple of ndarray
            ``n_splits`` pairs ``(train, test)``; every record is in exactly one test set, except
            that the first block of forward-chaining folds is trained on only.
        """
        return self._folds(self.check_n(n), n_splits, random_state)

    @abstractmethod
    def _folds(self, n, n_splits, random_state):
        """Return the folds of so many records, which are checked."""


def generator(random_state):
    """Return a numpy Generator for ``None``, an int, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def holdout_size(n, holdout):
    """Return the number of holdout records, after checking that no side is empty."""
    fraction = check_real("holdout", holdout, low=0.0, high=1.0, closed="neither")
    size = math.ceil(n * fraction - 1e-9)
    if not 1 <= size <= n - 1:
        raise ValueError(
            f"holdout must leave records on both sides, got holdout={holdout!r} of n={n} records: "
            f"{size} for the holdout and {n - size} for training."
        )
    return size


def random_split(n, holdout, *, random_state=None):
    """Split independent records at random."""
    size = holdout_size(n, holdout)
    order = generator(random_state).permutation(n)
    return Split(np.sort(order[size:]), np.sort(order[:size]))


def independent_set(near, size, rng):
    """Return at most ``size`` rows of which no two are neighbors, ascending (theory G27).

    ``near`` is a CSR array with one row per record. Its first columns are records; each further
    column is a component of nodes without a record, which at most one chosen row may touch. Rows
    come in the order of ``Exp(1) / (1 + degree)``: the weights undo the preference of greedy sets
    for nodes of low degree. Reads the graph and the seed only.
    """
    n, width = near.shape
    order = np.argsort(rng.exponential(size=n) / (1.0 + np.diff(near.indptr)), kind="stable")
    start, columns = near.indptr.tolist(), near.indices
    blocked, chosen = np.zeros(width, dtype=bool), []
    for row in order.tolist():
        touched = columns[start[row] : start[row + 1]]
        if blocked[row] or (width > n and blocked[touched[touched >= n]].any()):
            continue
        blocked[touched] = True
        chosen.append(row)
        if len(chosen) == size:
            break
    return np.sort(chosen)


def buffered_set(near, fraction, rng):
    """Return rows of which no two are neighbors, and what is left without their neighbors.

    The rows are a ``fraction`` of what is used, buffer excluded. Of the free rows the one comes
    next that costs least: the training rows lost to the buffer in relation to ``1 + degree``
    (theory G27). Costs only fall, so a lazy heap holds each of them.
    """
    n, degree = near.shape[0], np.diff(near.indptr)
    start, columns = near.indptr.tolist(), near.indices.tolist()
    lost, ties, free, chosen = degree.tolist(), rng.random(n).tolist(), [True] * n, []
    scale = (1.0 / (1.0 + degree)).tolist()
    heap = [(lost[row] * scale[row], ties[row], row) for row in range(n)]
    heapq.heapify(heap)
    left = n  # rows that are free
    while heap and len(chosen) < fraction * (len(chosen) + left):
        cost, _, row = heapq.heappop(heap)
        if not free[row] or cost != lost[row] * scale[row] or lost[row] + 1 >= left:
            continue
        left -= lost[row] + 1
        free[row] = False
        chosen.append(row)
        for buffer in columns[start[row] : start[row + 1]]:
            if not free[buffer]:
                continue
            free[buffer] = False
            for other in columns[start[buffer] : start[buffer + 1]]:
                lost[other] -= 1
                if free[other]:
                    heapq.heappush(heap, (lost[other] * scale[other], ties[other], other))
    return np.sort(chosen), np.flatnonzero(free)


def component_split(labels, holdout, *, random_state=None):
    """Split whole components (``labels`` are codes ``0 … c-1``), close to the fraction."""
    n = len(labels)
    size = holdout_size(n, holdout)
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        raise ValueError(
            f"holdout needs at least two independent components to cut between, got one "
            f"component of {n} records: bring a separate holdout or a finer model."
        )
    order = generator(random_state).permutation(len(sizes))
    total, chosen = 0, np.zeros(len(sizes), dtype=bool)
    for component in order:
        if abs(total + sizes[component] - size) < abs(total - size):
            total += sizes[component]
            chosen[component] = True
    if not 0 < total < n:  # one giant component: take it or the others, whichever is nearer
        giant = int(np.argmax(sizes))
        chosen[:] = False
        chosen[giant] = True
        if abs(n - sizes[giant] - size) < abs(sizes[giant] - size):
            chosen = ~chosen
    mask = chosen[labels]
    return Split(np.flatnonzero(~mask), np.flatnonzero(mask))


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


def check_splits(n_splits, available, what):
    """Return ``n_splits`` as an int between 2 and what is available."""
    n_splits = check_integer("n_splits", n_splits, low=2)
    if not n_splits <= available:
        raise ValueError(
            f"n_splits must be at most {available}, the number of {what}, got n_splits={n_splits}."
        )
    return n_splits


def _pairs(fold, n_splits):
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]


def random_folds(n, n_splits, *, random_state=None):
    """Return folds of independent records."""
    n_splits = check_splits(n_splits, n, "records")
    order = np.arange(n) if random_state is None else generator(random_state).permutation(n)
    fold = np.empty(n, dtype=int)
    fold[order] = np.arange(n) * n_splits // n
    return _pairs(fold, n_splits)


def component_folds(labels, n_splits, *, random_state=None):
    """Return folds of whole components, the largest placed first into the emptiest fold."""
    sizes = np.bincount(labels)
    n_splits = check_splits(n_splits, len(sizes), "independent components")
    ties = np.arange(len(sizes))
    if random_state is not None:
        ties = generator(random_state).permutation(len(sizes))
    load, place = np.zeros(n_splits, dtype=int), np.empty(len(sizes), dtype=int)
    for component in ties[np.argsort(-sizes[ties], kind="stable")]:
        place[component] = np.argmin(load)
        load[place[component]] += sizes[component]
    return _pairs(place[labels], n_splits)


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


def check_indices(indices, n) -> Array:
    """Return ``indices`` as an array of distinct record numbers (below ``n`` if given)."""
    array = np.asarray(indices)
    if array.ndim == 1 and array.dtype == bool and n is not None and len(array) == n:
        return np.flatnonzero(array)
    if array.ndim != 1 or not len(array) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"indices must be a non-empty one-dimensional array of record numbers, "
            f"got shape {array.shape} of {array.dtype}."
        )
    high = math.inf if n is None else n
    if not (array.min() >= 0 and array.max() < high and len(np.unique(array)) == len(array)):
        raise ValueError(f"indices must be distinct and in [0, {high}), got {array[:5]}…")
    return array
