"""How records are cut: what a holdout, folds and subsets of a correlated sample may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_integer, check_real
from sklearn_bdp._typing import Array, Seed


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
    """

    train: np.ndarray
    holdout: np.ndarray
    gap: int = 0


class Divisible(ABC):
    """The part of a model that cuts records without cutting dependence."""

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
                f"n must be {self.n_records}, the number of records {type(self).__name__} "
                f"describes, got n={n}."
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

    def split(
        self,
        n: int,
        holdout: float,
        *,
        y: ArrayLike | None = None,
        random_state: Seed = None,
    ) -> Split:
        """Return a :class:`Split` that cuts no dependence.

        Parameters
        ----------
        n : int
            Number of records to split.
        holdout : float
            Fraction of the records for the holdout, in (0, 1).
        y : array-like of shape (n,), optional
            Class labels to stratify on where records are independent.
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
        return self._split(self.check_n(n), holdout, y, random_state)

    @abstractmethod
    def _split(self, n, holdout, y, random_state):
        """Return the split of so many records, which are checked."""

    def folds(
        self, n: int, n_splits: int, *, y: ArrayLike | None = None, random_state: Seed = None
    ) -> list[tuple[Array, Array]]:
        """Return index arrays of folds that cut no dependence.

        Parameters
        ----------
        n : int
            Number of records.
        n_splits : int
            Number of folds, at least 2.
        y : array-like of shape (n,), optional
            Class labels to stratify on where records are independent.
        random_state : None, int or numpy.random.Generator, default=None
            ``None`` keeps the order of the records; otherwise they (or their groups) are
            shuffled first.

        Returns
        -------
        list of tuple of ndarray
            ``n_splits`` pairs ``(train, test)``; every record is in exactly one test set, except
            that the first block of forward-chaining folds is trained on only.
        """
        return self._folds(self.check_n(n), n_splits, y, random_state)

    @abstractmethod
    def _folds(self, n, n_splits, y, random_state):
        """Return the folds of so many records, which are checked."""
