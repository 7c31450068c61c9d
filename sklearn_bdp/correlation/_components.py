"""Independent records, and records that depend inside components only (theory B0, B1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._labels import Labels
from sklearn_bdp.correlation._shared._splitting import (
    check_indices,
    component_folds,
    component_split,
    random_folds,
    random_split,
)
from sklearn_bdp.correlation._tails import (
    binomial_lower_limit,
    component_log_tail,
    component_lower_limit,
)


class ComponentwiseModel(CorrelationModel):
    """Shared part of models whose components are independent; they say which with ``components``.

    Whole components are cut.
    """

    is_componentwise = True

    def _sizes(self, n):
        """Return the distinct component sizes, and how often each occurs."""
        return self._remember(
            ("sizes", n), lambda: np.unique(np.bincount(self.components(n)), return_counts=True)
        )

    def largest_component(self, n: int) -> int:
        return int(self._sizes(self.check_n(n))[0].max())

    def _split(self, n, holdout, y, random_state):
        return component_split(self.components(n), holdout, random_state=random_state)

    def _folds(self, n, n_splits, y, random_state):
        return component_folds(self.components(n), n_splits, random_state=random_state)


class ComponentModel(ComponentwiseModel):
    """Shared part of models that know only which records may depend on each other."""

    def _leakage(self, dp_epsilon, n, method):
        # Theory B1 (B2 with the empty quilt): the whole component may follow the record.
        return float(self._sizes(n)[0].max()) * dp_epsilon

    def _check_method(self, n, method):
        super()._check_method(n, method)
        if method == "blanket" and self._sizes(n)[0].max() > 1:
            raise ValueError(
                "method='blanket' needs the strength of the dependence (MarkovNetwork or "
                "BayesianNetwork with influences or tables); "
                f"{type(self).__name__} knows structure only, so the influence of a neighbour may "
                "be infinite. Use method='tight'."
            )

    def _sequential_epsilon(self, dp_epsilon, n):
        return self.bdp_epsilon(dp_epsilon, n)

    def _sequential_information(self, dp_epsilon, n):
        # Theory G1: smaller blocks only add terms, since a part may still decide the rest.
        return self._spread(n, True) * dp_epsilon**2 / 8.0

    def _posterior_bias(self, dp_epsilon, n):
        sizes, counts = self._sizes(n)
        return float(np.sum(counts * sizes * np.tanh(sizes * dp_epsilon / 4.0)) / n)  # theory G6

    def _spread(self, n, statistical):
        sizes, counts = self._sizes(n)
        return float(np.sum(counts * sizes.astype(float) ** 2))

    def _sharper_above(self, mean, value, n):
        sizes, counts = self._sizes(n)
        return component_log_tail(mean, value, sizes, counts)

    def _lower_limit(self, values, levels, n, binary):
        sizes, counts = self._sizes(n)
        if binary and sizes.max() == 1:
            return binomial_lower_limit(values, levels, n)  # theory G8
        return component_lower_limit(values, levels, sizes, counts)


class Independent(ComponentModel):
    """Records that are independent of each other (theory B0).

    See Also
    --------
    Groups : Records that depend on each other inside groups.
    MarkovChain : Records in time.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Independent
    >>> model = Independent()
    >>> model.bdp_epsilon(0.1, 1000)
    0.1
    >>> model.effective_n(1000)
    1000.0
    """

    def __init__(self) -> None:
        self._freeze()

    def __repr__(self) -> str:
        return "Independent()"

    def _content(self):
        return ()

    is_independent = True

    def _spread(self, n, statistical):
        return float(n)

    def _sizes(self, n):
        return np.array([1]), np.array([n])

    def components(self, n: int) -> Array:
        return np.arange(self.check_n(n))

    def influence_over_distance(self, max_distance: int) -> Array:
        return np.zeros(max_distance)

    def describe(self) -> str:
        return "independent records"

    def _split(self, n, holdout, y, random_state):
        return random_split(n, holdout, y=y, random_state=random_state)

    def _folds(self, n, n_splits, y, random_state):
        return random_folds(n, n_splits, y=y, random_state=random_state)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        check_indices(indices, None)
        return self


def label_codes(groups):
    """Return codes ``0, 1, …`` in order of first appearance for any hashable labels."""
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise TypeError(f"groups must be a sequence of labels, got {groups!r}.")
    array = groups if isinstance(groups, np.ndarray) else None
    if array is None and hasattr(groups, "to_numpy"):
        array = groups.to_numpy()
    if array is not None and array.ndim != 1:
        raise ValueError(f"groups must hold one label per record, got shape {array.shape}.")
    labels = groups if array is None else array
    if len(labels) == 0:
        raise ValueError("groups must hold at least one label, got none.")
    if array is not None and array.dtype.kind in "iubSU":
        _, first, codes = np.unique(array, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        return rank[codes]
    seen, codes = {}, np.empty(len(labels), dtype=np.int64)
    for position, label in enumerate(labels):
        try:
            codes[position] = seen.setdefault(label, len(seen))
        except TypeError as error:
            raise TypeError(
                f"groups must hold hashable labels, got {label!r} at position {position}."
            ) from error
        if label != label:  # only NaN differs from itself
            raise ValueError(f"groups must not hold NaN, got NaN at position {position}.")
    return codes


class Groups(ComponentModel):
    """Records that may depend on each other arbitrarily inside groups (theory B1).

    Parameters
    ----------
    groups : array-like of shape (n,)
        One hashable label per record; records of different groups are independent.

    Attributes
    ----------
    codes_ : ndarray of int, shape (n,)
        Groups numbered in order of first appearance.
    sizes_ : ndarray of int
        Records in each group.

    Raises
    ------
    TypeError
        If the labels are not a sequence of hashables.
    ValueError
        If there are no labels, or NaN among them.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Groups
    >>> model = Groups(["ann", "ann", "bob", "eve"])
    >>> model.bdp_epsilon(0.1, 4)
    0.2
    >>> model.effective_n(4)
    2.666...
    """

    #: Who the groups are (:class:`Labels`), where it is known; no part of what makes models equal.
    _labels: Labels | None = None

    def __init__(self, groups: ArrayLike) -> None:
        if isinstance(groups, str | bytes):
            raise TypeError(
                f"groups must be an array of labels, one per record, got {groups!r:.40}: pass the "
                "column itself."
            )
        self.codes_ = label_codes(groups)
        self.sizes_ = np.bincount(self.codes_)
        self._labels = Labels.of(groups, self.codes_)
        self._freeze()

    def __repr__(self) -> str:
        return f"Groups(<{len(self.codes_)} records in {len(self.sizes_)} groups>)"

    def _content(self):
        return (self.codes_.astype(np.int64),)

    @property
    def n_records(self) -> int | None:
        return len(self.codes_)

    @property
    def is_independent(self) -> bool:
        return bool(self.sizes_.max() == 1)

    def components(self, n: int) -> Array:
        self.check_n(n)
        return self.codes_

    def influence_over_distance(self, max_distance: int) -> Array:
        # Any two records of a group are neighbours; beyond the group there is nothing.
        result = np.zeros(max_distance)
        result[:1] = 0.0 if self.is_independent else np.inf
        return result

    def units(self, n: int) -> tuple[int, str]:
        if self.is_independent:
            return super().units(n)
        self.check_n(n)
        return len(self.sizes_), "groups"

    def describe(self) -> str:
        return (
            f"{len(self.codes_)} records in {len(self.sizes_)} independent groups, the largest "
            f"of {self.sizes_.max()}"
        )

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        codes = self.codes_[check_indices(indices, len(self.codes_))]
        return unnamed_groups(codes, None if self._labels is None else self._labels.take(codes))


def unnamed_groups(codes, labels=None):
    """Return groups whose numbers name nobody; ``labels``: who they are, where it is known."""
    groups = Groups(codes)
    vars(groups)["_labels"] = labels
    return groups
