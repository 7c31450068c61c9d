"""Lists of models: the truth is one of these, so the worst of them counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._components import unnamed_groups
from sklearn_bdp.correlation._cutting import SPLIT_FAILURE


class WorstOf(CorrelationModel):
    """List of models of which one is true (Song, Wang, Chaudhuri 2017: the class Theta).

    Parameters
    ----------
    models : list of CorrelationModel
        At least one; those tied to a number of records must agree on it.

    Raises
    ------
    ValueError
        If the list is empty or the numbers of records differ.

    See Also
    --------
    check_correlation : Makes it from a list.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Groups, Independent, WorstOf
    >>> WorstOf([Independent(), Groups([0, 0, 1])]).bdp_epsilon(0.1, 3)
    0.2
    """

    def __init__(self, models: Sequence[CorrelationModel]) -> None:
        models = tuple(models)
        if not models or not all(isinstance(model, CorrelationModel) for model in models):
            raise ValueError(
                f"models must hold at least one model and nothing else, got {models!r:.60}."
            )
        if any(m.is_given_past or m._record_weights is not None for m in models):
            raise ValueError(
                "models must refer to plain means in the long run, not to weights or to dates "
                "given their past: use correlation='time' alone, or a list of chains."
            )
        sizes = sorted({m.n_records for m in models if m.n_records is not None})
        if len(sizes) > 1:
            raise ValueError(f"models must describe one number of records, got {sizes}.")
        self.models = models
        self._n_records = sizes[0] if sizes else None
        self._freeze()

    def __repr__(self) -> str:
        return f"WorstOf([{', '.join(repr(model) for model in self.models)}])"

    def _content(self):
        return tuple(sorted(model.fingerprint() for model in self.models))

    @property
    def n_records(self) -> int | None:
        return self._n_records

    def describe(self) -> str:
        return "the worst of: " + "; ".join(model.describe() for model in self.models)

    @property
    def caveats(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for model in self.models for line in model.caveats))

    @property
    def is_componentwise(self) -> bool:  # type: ignore[override]  # computed, a constant elsewhere
        return all(model.is_componentwise for model in self.models)

    @property
    def is_sequential(self) -> bool:  # type: ignore[override]  # computed, a constant elsewhere
        return any(model.is_sequential for model in self.models)

    @property
    def is_independent(self) -> bool:
        return all(model.is_independent for model in self.models)

    def components(self, n: int) -> Array:
        # Records are joined by the groups of any of the models.
        labels, offset, links = [model.components(n) for model in self.models], n, []
        for codes in labels:
            links.append([np.arange(n), offset + codes])
            offset += int(codes.max()) + 1
        rows, columns = np.concatenate(links, axis=1)
        graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(offset, offset))
        return connected_components(graph, directed=False)[1][:n]

    def largest_component(self, n: int) -> int:
        return int(np.bincount(self.components(n)).max())

    def _spread(self, n, statistical):
        return max(m._spread(n, statistical) for m in self.models)

    def _lower_limit(self, values, levels, n, binary):
        return np.min([m._lower_limit(values, levels, n, binary) for m in self.models], axis=0)

    def cut_failure(self, gap: int) -> float:
        return max(m.cut_failure(gap) for m in self.models)

    def gap_for(self, failure: float) -> int:
        return max(m.gap_for(failure) for m in self.models)

    def _cutter(self):
        """Return a model whose cuts break no dependence under any of the models, or raise."""
        rest = [m for m in self.models if not m.is_independent]
        if not rest:
            return self.models[0]
        if any(m.holds_given_rest and m.is_componentwise for m in rest):
            raise ValueError(
                "correlation is a list with a network that is split by nodes, and a list cannot "
                "be: it means the worst of its models. Declare one network with the largest "
                "influence of each edge, or join several graphs by networkx.disjoint_union_all."
            )
        if all(m.is_componentwise for m in rest):
            return unnamed_groups(self.components(rest[0].n_records))
        if all(m.is_sequential for m in rest):  # chains: the one that forgets most slowly
            return max(rest, key=lambda m: m.gap_for(SPLIT_FAILURE))
        raise ValueError(
            "a list of chains and graphs does not say where to cut: bring the holdout as data of "
            "its own (X_val, y_val)."
        )

    def _split(self, n, holdout, random_state):
        return self._cutter()._split(n, holdout, random_state)

    def _folds(self, n, n_splits, random_state):
        return self._cutter()._folds(n, n_splits, random_state)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        return WorstOf([m.subset(indices) for m in self.models])
