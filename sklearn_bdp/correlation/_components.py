"""Independent records, and records that depend inside components only (theory B0, B1)."""

from __future__ import annotations

import hashlib
import numbers

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_order
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._cutting import (
    check_indices,
    component_folds,
    component_split,
    random_folds,
    random_split,
)
from sklearn_bdp.correlation._tails import binomial_lower_limit, component_lower_limit


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

    def _split(self, n, holdout, random_state):
        return component_split(self.components(n), holdout, random_state=random_state)

    def _folds(self, n, n_splits, random_state):
        return component_folds(self.components(n), n_splits, random_state=random_state)


class ComponentModel(ComponentwiseModel):
    """Shared part of models that know only which records may depend on each other."""

    def _spread(self, n, statistical):
        sizes, counts = self._sizes(n)
        return float(np.sum(counts * sizes.astype(float) ** 2))

    def units(self, n: int) -> tuple[int, str]:
        if self.is_independent:
            return super().units(n)
        return int(self._sizes(self.check_n(n))[1].sum()), "groups"

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

    def describe(self) -> str:
        return "independent records"

    def _split(self, n, holdout, random_state):
        return random_split(n, holdout, random_state=random_state)

    def _folds(self, n, n_splits, random_state):
        return random_folds(n, n_splits, random_state=random_state)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        check_indices(indices, None)
        return self


class GivenRest(ComponentModel):
    """Records of a holdout given what is known: independent components, not alike (theory G27).

    ``codes``: the component of each record; ``words``: what :meth:`describe` returns. Means have
    all bounds of independent components; what needs records that are alike is refused.
    """

    is_given_rest = True

    def __init__(self, codes, words, *, target, caveats=(), nodes=None):
        self.codes_ = np.unique(codes, return_inverse=True)[1]
        self._words, self._target, self._caveats, self._nodes = words, target, caveats, nodes
        self._freeze()

    def _content(self):
        return (self.codes_, self._words, self._target, *self._caveats)

    @property
    def n_records(self) -> int:
        return len(self.codes_)

    @property
    def is_independent(self) -> bool:
        return int(self.codes_.max()) + 1 == len(self.codes_)

    def components(self, n: int) -> Array:
        self.check_n(n)
        return self.codes_

    @property
    def target(self) -> str:
        return self._target

    @property
    def caveats(self) -> tuple[str, ...]:
        return self._caveats

    def describe(self) -> str:
        return self._words

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        codes = self.codes_[check_indices(indices, len(self.codes_))]
        return GivenRest(codes, self._words, target=self._target, caveats=self._caveats)


def label_codes(groups):
    """Return codes ``0, 1, …`` in order of first appearance for any hashable labels."""
    if isinstance(groups, str | bytes | dict) or not hasattr(groups, "__len__"):
        raise TypeError(
            f"groups must be an array of labels, one per record, got {groups!r:.40}: pass the "
            "column itself."
        )
    labels = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    array = labels if isinstance(labels, np.ndarray) else None
    if array is not None and array.ndim != 1:
        raise ValueError(f"groups must hold one label per record, got shape {array.shape}.")
    if len(labels) == 0:
        raise ValueError("groups must hold at least one label, got none.")
    if array is not None and array.dtype.kind in "iubSU":
        labels = array.tolist()  # the same labels, which hash faster
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
        If labels are empty or contain NaN.

    See Also
    --------
    DependencyGraph : Components of a graph as groups.
    check_groups : Test whether neighboring groups agree.

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

    @property
    def target(self) -> str:
        return "new records" if self.is_independent else "records of new groups"

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


class Labels:
    """What identifies groups, to be compared with other groups; no part of a model's content.

    ``digests``: one number per group, in the order of codes, equal for equal labels. ``numbered``:
    the labels are just 0 … k-1 or 1 … k. ``index``: that of the series they came in; not pickled.
    """

    def __init__(self, digests, *, numbered=False, index=None):
        self.digests, self.numbered, self.index = digests, numbered, index

    @classmethod
    def of(cls, groups, codes):
        """Return what the labels say that have these codes."""
        held = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
        values = [held[place] for place in np.unique(codes, return_index=True)[1]]
        whole = all(isinstance(one, int | np.integer) for one in values)
        numbered = whole and min(values) in (0, 1) and max(values) - min(values) == len(values) - 1
        digests = np.array([_digest(value) for value in values], dtype=np.uint64)
        return cls(digests, numbered=numbered, index=getattr(groups, "index", None))

    def take(self, codes):
        """Return what is known of those records that have these codes, in their order."""
        return Labels(self.digests[codes[np.sort(np.unique(codes, return_index=True)[1])]])

    def __getstate__(self):
        return {"digests": self.digests, "numbered": self.numbered, "index": None}


def count_shared_labels(one, other):
    """Return how many labels two models of groups have in common, and how many the first has.

    Nothing is in common where it is not known, nor where both number their groups from 0 or 1: then
    each may mean its own.
    """
    ours, theirs = (getattr(model, "_labels", None) for model in (one, other))
    if ours is None or theirs is None or (ours.numbered and theirs.numbered):
        return 0, 0
    return int(np.isin(ours.digests, theirs.digests).sum()), ours.digests.size


def check_order_of_groups(name, model, X):
    """Raise where groups or nodes have names that the index of X holds in another order."""
    labels = getattr(model, "_labels", None)
    if labels is not None:
        check_order(name, labels, X)
    nodes, index = getattr(model, "_nodes", None), getattr(X, "index", None)
    if nodes is None or not hasattr(index, "equals") or len(index) != len(nodes):
        return
    rows = index.tolist()
    if rows == list(range(len(rows))) or rows == list(nodes) or set(rows) != set(nodes):
        return  # an index that only counts rows names no nodes
    raise ValueError(
        f"{name} has its nodes in another order than the index of X. Pass nodelist=X.index to the "
        "network. Nothing was asked."
    )


def _digest(label):
    """Return a number for a label: a whole number is the same in any type, and as text."""
    if isinstance(label, numbers.Real) and label == label // 1:
        label = int(label)
    text = label if isinstance(label, str) else repr(label)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
