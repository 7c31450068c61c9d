"""Metrics that cut off what one record can cost, and what the cut changes on public records."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp.metrics._base import MeanMetric
from sklearn_bdp.metrics._silence import silenced

#: A cut that moves the training-side score by less than this part of it is not worth a warning.
_BITES = 0.05


@dataclasses.dataclass(frozen=True)
class Clipping:
    """What clipping changes on some training-side records; sums are in score units."""

    n: int  # records
    n_clipped: int
    clipped: float  # sum of scores as they are measured
    plain: float  # the same without clipping
    worst: float = math.inf  # the lowest score without clipping

    def __add__(self, other):
        """Return what it changes on both sets of records."""
        if other is None:
            return self
        return Clipping(
            self.n + other.n,
            self.n_clipped + other.n_clipped,
            self.clipped + other.clipped,
            self.plain + other.plain,
            min(self.worst, other.worst),
        )

    @property
    def bites(self) -> bool:
        """Whether the score without clipping is another one."""
        return self.clipped - self.plain > _BITES * abs(self.plain)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedMetric(MeanMetric):
    """A mean of scores without a bound of their own: no record counts more than a limit."""

    @property
    @abc.abstractmethod
    def limit(self) -> str:
        """Return where it is clipped, in words."""

    @property
    @abc.abstractmethod
    def remedy(self) -> str:
        """Return what to do where clipping changes the score, in words."""

    @property
    def measured(self) -> str:
        return f"{self.name} (clipped at {self.limit})"

    @property
    def caveat(self) -> str:
        return (
            f"what is measured is {self.measured}; the plain {self.name} counts records beyond "
            "that limit in full and is worse, by how much nobody promises"
        )

    @abc.abstractmethod
    def _raw(self, estimator, X, y):
        """Return what the scores are made of, a row for each record."""

    @abc.abstractmethod
    def _unit(self, raw, clipped):
        """Return scores in units of [0, 1]; without clipping they may be below 0."""

    def _rows(self, estimator, X, y):
        return self._unit(self._raw(estimator, X, y), True)

    def clipping(self, estimator: Any, X: Any, y: ArrayLike, per_record: Any) -> Clipping | None:
        n, total = len(per_record), float(self.from_unit(per_record).sum())
        if self._cut(per_record):
            try:
                with silenced():
                    raw = self._raw(estimator, X, self._check(estimator, X, y))
            except Exception:  # a model that fails on some records is told of elsewhere
                return None
            plain = self._unit(raw, False)
            plain[np.isnan(plain)] = per_record[np.isnan(plain)]
            count = int(np.count_nonzero(plain < self._unit(raw, True)))
            scores = self.from_unit(plain)
            return Clipping(n, count, total, float(scores.sum()), float(scores.min()))
        return Clipping(n, 0, total, total)

    def _cut(self, per_record):
        """Return whether a record may have been clipped: only then the model is asked again."""
        return bool((per_record <= 0.0).any())
