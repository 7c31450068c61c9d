"""Independent records, and records that depend inside components only (theory B0, B1)."""

from __future__ import annotations

import numbers
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._typing import Array, Seed
from sklearn_bdp.correlation.base import (
    CorrelationModel,
    Folds,
    Split,
    check_indices,
    check_splits,
    generator,
    holdout_size,
)
from sklearn_bdp.correlation.frozen import cached
from sklearn_bdp.correlation.scheme import ConcentrationBound, SamplingScheme
from sklearn_bdp.correlation.tails import binomial_lower_limit, component_lower_limit
from sklearn_bdp.utils.hashing import text_code
from sklearn_bdp.utils.validation import check_index_alignment


class ComponentModel(CorrelationModel):
    """Base class of models that know only which records may depend on each other.

    Method ``components`` gives these sets of records. Splits keep components whole.
    """

    _target = "new records"  # of intervals
    _exchangeable = True  # whether components are drawn alike
    _bounds_hold_given_rest = False  # given any values of the other records (theory G13, G27)

    #: Identity of the groups (:class:`Labels`), if known; equal models may differ in it.
    _labels: Labels | None = None

    def sampling_scheme(self, n: int) -> SamplingScheme:
        n = self.check_n(n)
        n_components = int(component_sizes(self, n)[1].sum())
        is_independent = n_components == n
        return SamplingScheme(
            n_records=n,
            n_units=n_components,
            unit_name="records" if is_independent else "groups",
            bound=(
                ConcentrationBound.INDEPENDENT if is_independent else ConcentrationBound.COMPONENTS
            ),
            target=self._target,
            exchangeable=self._exchangeable,
            block_codes=self._codes,
            bounds_hold_given_rest=self._bounds_hold_given_rest,
        )

    def _variance_proxy(self, n, statistical):
        sizes, counts = component_sizes(self, n)
        return float(np.sum(counts * sizes.astype(float) ** 2))

    def _lower_limit(self, values, levels, n, binary):
        sizes, counts = component_sizes(self, n)
        if binary and sizes.max() == 1:
            return binomial_lower_limit(values, levels, n)  # theory G8
        return component_lower_limit(values, levels, sizes, counts)

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n = self.check_n(n)
        labels = self.components(n)
        size = holdout_size(n, holdout)
        sizes = np.bincount(labels)
        if len(sizes) < 2:
            raise ValueError(f"holdout needs two or more components, got one component of {n}.")
        total = 0
        chosen = np.zeros(len(sizes), dtype=bool)
        for component in generator(random_state).permutation(len(sizes)):
            if abs(total + sizes[component] - size) < abs(total - size):
                total += sizes[component]
                chosen[component] = True
        if not 0 < total < n:  # one giant component: take it or the others, whichever is nearer
            giant = int(np.argmax(sizes))
            without_giant = abs(n - sizes[giant] - size) < abs(sizes[giant] - size)
            chosen = (np.arange(len(sizes)) == giant) != without_giant
        return Split(np.flatnonzero(~chosen[labels]), np.flatnonzero(chosen[labels]))

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        if self._bounds_hold_given_rest:  # bounds are valid for any training set
            return Independent().folds(n, n_splits, random_state=random_state)
        labels = self.components(self.check_n(n))
        sizes = np.bincount(labels)
        n_splits = check_splits(n_splits, len(sizes), "independent groups to train on")
        ties = np.arange(len(sizes))
        if random_state is not None:
            ties = generator(random_state).permutation(len(sizes))
        load = np.zeros(n_splits, dtype=int)
        fold_of_component = np.empty(len(sizes), dtype=int)
        for component in ties[np.argsort(-sizes[ties], kind="stable")]:  # the largest first
            fold_of_component[component] = np.argmin(load)
            load[fold_of_component[component]] += sizes[component]
        fold = fold_of_component[labels]
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        # A dropped record may still carry dependence between its neighbors.
        indices = check_indices(indices, self.n_records)
        codes = self.components(self.n_records or int(indices.max()) + 1)[indices]
        return unnamed_groups(codes, None if self._labels is None else self._labels.take(codes))


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

    fingerprint_name = "Independent"

    def __init__(self) -> None:
        self._freeze()

    def __repr__(self) -> str:
        return "Independent()"

    def describe(self) -> str:
        return "independent records"

    def components(self, n: int) -> Array:
        return np.arange(self.check_n(n))

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        size = holdout_size(self.check_n(n), holdout)
        order = generator(random_state).permutation(n)
        return Split(np.sort(order[size:]), np.sort(order[:size]))

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n_splits = check_splits(n_splits, self.check_n(n), "records")
        order = np.arange(n) if random_state is None else generator(random_state).permutation(n)
        fold = np.empty(n, dtype=int)
        fold[order] = np.arange(n) * n_splits // n
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        check_indices(indices, None)
        return self


class ConditionallyIndependent(ComponentModel):
    """Holdout records given all known labels: independent components, not alike (theory G27).

    ``codes``: the component of each record; ``words``: the description by :meth:`describe`. Means
    have all bounds of independent components. Bounds for records that are alike are not supported.
    """

    fingerprint_name = "GivenRest"
    _exchangeable = False

    def __init__(self, codes, words, *, target, caveats=(), nodes=None):
        self.codes_ = self._codes = np.unique(codes, return_inverse=True)[1]
        self.n_records = len(self.codes_)
        self._target = target
        self.caveats = caveats
        self._words = words
        self._nodes = nodes
        self._freeze(self.codes_, words, target, *caveats)

    def describe(self) -> str:
        return self._words

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        indices = check_indices(indices, self.n_records)
        return ConditionallyIndependent(
            self.codes_[indices],
            self._words,
            target=self._target,
            caveats=self.caveats,
            nodes=None if self._nodes is None else self._nodes.take(indices),
        )


def component_sizes(model, n):
    """Return the distinct sizes of components of a model, and the number of components of each."""
    if isinstance(model, Independent):
        return np.array([1]), np.array([n])
    return cached(
        model, ("sizes", n), lambda: np.unique(np.bincount(model.components(n)), return_counts=True)
    )


@singledispatch
def largest_component(model: Any, n: int) -> int:
    """Return the size of the largest component of ``n`` records.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    n : int
        Number of records.

    Returns
    -------
    int
        1 for independent records, ``n`` if every record may depend on every other.
    """
    return int(component_sizes(model, model.check_n(n))[0].max())


def check_one_kind_of_labels(name, labels):
    """Raise ValueError if labels mix numbers and text, as in a table that was read in chunks.

    ``1`` and ``"1"`` would be two groups, so that records of one patient could be on both sides of
    a split.
    """
    if getattr(getattr(labels, "dtype", None), "kind", "O") in "iubfSU":
        return
    numbers_by_text, texts = _labels_by_type(labels)
    if not (numbers_by_text and texts):
        return
    shared = next((text for text in texts if text in numbers_by_text), None)
    number = next(iter(numbers_by_text.values())) if shared is None else numbers_by_text[shared]
    text = next(iter(texts.values())) if shared is None else texts[shared]
    raise ValueError(
        f"{name} must hold labels of one type, got the number {number!r} and the text {text!r}, "
        f"which would be two groups. Pass {name}.astype(str). The holdout was not queried."
    )


def _labels_by_type(labels):
    """Return the labels that are numbers, and those that are text, by their text."""
    numbers_by_text = {}
    texts = {}
    for label in labels.tolist() if hasattr(labels, "tolist") else labels:
        if isinstance(label, str):
            texts.setdefault(label.strip(), label)
        elif isinstance(label, numbers.Real) and label == label:
            is_whole = float(label).is_integer()
            numbers_by_text.setdefault(str(int(label) if is_whole else label), label)
    return numbers_by_text, texts


def _label_list(groups):
    """Return labels as a list or an array of objects, one label for each record."""
    if isinstance(groups, str | bytes | dict) or not hasattr(groups, "__len__"):
        raise TypeError(f"groups must be an array, one label per record, got {groups!r:.40}.")
    labels = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    if isinstance(labels, np.ndarray):
        if labels.ndim != 1:
            raise ValueError(f"groups must hold one label per record, got shape {labels.shape}.")
        if labels.dtype.kind in "iubSU":
            labels = labels.tolist()  # the same labels, which hash faster
    if len(labels) == 0:
        raise ValueError("groups must hold at least one label, got none.")
    return labels


def label_codes(groups):
    """Return codes ``0, 1, …`` in order of first appearance for any hashable labels."""
    labels = _label_list(groups)
    check_one_kind_of_labels("groups", labels)
    code_of_label = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for position, label in enumerate(labels):
        try:
            codes[position] = code_of_label.setdefault(label, len(code_of_label))
        except TypeError as error:
            raise TypeError(
                f"groups must hold hashable labels, got {label!r} at position {position}."
            ) from error
        if label != label:  # only NaN differs from itself
            raise ValueError(
                f"groups must not hold NaN, got NaN at position {position}. Drop such "
                "records, or give each of them a group of its own."
            )
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
    group_independence_test : Test whether neighboring groups agree.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Groups
    >>> model = Groups(["ann", "ann", "bob", "eve"])
    >>> model.bdp_epsilon(0.1, 4)
    0.2
    >>> model.effective_n(4)
    2.666...
    """

    fingerprint_name = "Groups"

    def __init__(self, groups: ArrayLike) -> None:
        self.codes_ = self._codes = codes = label_codes(groups)
        self.sizes_ = np.bincount(codes)
        self.n_records = len(codes)
        self._labels = Labels.of(groups, codes)
        if self.sizes_.max() > 1:
            self._target = "records of new groups"
        self._freeze(codes)

    def __repr__(self) -> str:
        return f"Groups(<{len(self.codes_)} records in {len(self.sizes_)} groups>)"

    def describe(self) -> str:
        return (
            f"{len(self.codes_)} records in {len(self.sizes_)} independent groups, the largest "
            f"of {self.sizes_.max()}"
        )


def unnamed_groups(codes, labels=None):
    """Return groups with anonymous numbers; ``labels``: their identity, if known."""
    groups = Groups(codes)
    vars(groups)["_labels"] = labels
    return groups


class Labels:
    """Identities of groups, to be compared with those of other groups, not with models.

    ``digests``: one number per group, in the order of codes, equal for equal labels. ``numbered``:
    the labels are just 0 … k-1 or 1 … k. ``index``: that of the series they came in; not pickled.
    """

    def __init__(self, digests, *, numbered=False, index=None):
        self.digests = digests
        self.numbered = numbered
        self.index = index

    @classmethod
    def of(cls, groups, codes):
        """Return the identities of groups with these codes."""
        labels = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
        values = [labels[first] for first in np.unique(codes, return_index=True)[1]]
        are_integers = all(isinstance(value, int | np.integer) for value in values)
        numbered = (
            are_integers and min(values) in (0, 1) and max(values) - min(values) == len(values) - 1
        )
        digests = np.array([_digest(value) for value in values], dtype=np.uint64)
        return cls(digests, numbered=numbered, index=getattr(groups, "index", None))

    def take(self, codes):
        """Return the identities of the groups with these codes, in order of first appearance."""
        return Labels(self.digests[codes[np.sort(np.unique(codes, return_index=True)[1])]])

    def __getstate__(self):
        return {"digests": self.digests, "numbered": self.numbered, "index": None}


def count_shared_labels(model, other_model):
    """Return how many labels two models of groups have in common, and how many the first has.

    Both counts are 0 if identities are not known, or if both models number their groups from 0 or
    1: the same number may then mean different groups.
    """
    labels = getattr(model, "_labels", None)
    other_labels = getattr(other_model, "_labels", None)
    if labels is None or other_labels is None or (labels.numbered and other_labels.numbered):
        return 0, 0
    return int(np.isin(labels.digests, other_labels.digests).sum()), labels.digests.size


def group_digests(model):
    """Return a number for each group of a model, equal for equal labels; empty without labels."""
    labels = getattr(model, "_labels", None)
    return np.array([], np.uint64) if labels is None else labels.digests


def check_row_order(name, model, *tables):
    """Raise if groups or nodes have names that the index of the records has in another order.

    ``tables``: all records of the model, or training records followed by validation records.
    """
    for part in (model, *getattr(model, "models", ())):
        if len(tables) == 1:
            check_index_alignment(name, getattr(part, "_labels", None), tables[0])
        nodes = getattr(part, "_nodes", None)
        if nodes is not None and all(table is not None for table in tables):
            nodes.check_index(name, tables)


def _digest(label):
    """Return a number for a label: a whole number is the same in any type, and as text."""
    if isinstance(label, numbers.Real) and label == label // 1:
        label = int(label)
    text = label if isinstance(label, str) else repr(label)
    return text_code(text)
