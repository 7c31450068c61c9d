"""Records in time of which some are held out between their neighbors (theory G27)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import ComponentModel, GivenRest, unnamed_groups
from sklearn_bdp.correlation._cutting import (
    Split,
    check_indices,
    generator,
    holdout_size,
    random_folds,
)


class Interpolation(ComponentModel):
    """An observed chain for interpolation: ``MarkovChain(P, observed=True, interpolation=True)``.

    Of every two records at most one is held out. Given its two neighbors in time, a record is
    independent of all others, at any strength.
    """

    holds_given_rest = True

    def __init__(self) -> None:
        self._freeze()

    def _content(self):
        return ()

    def describe(self) -> str:
        return "an observed Markov chain, whose records are held out between their neighbors"

    def _sizes(self, n):
        return np.array([n]), np.array([1])

    def _split(self, n, holdout, random_state):
        rng, size = generator(random_state), holdout_size(n, holdout)
        every_other = np.arange(rng.integers(2), n, 2)
        chosen = np.sort(rng.permutation(every_other)[:size])
        return Split(np.setdiff1d(np.arange(n), chosen), chosen)

    def _folds(self, n, n_splits, random_state):
        return random_folds(n, n_splits, random_state=random_state)

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
