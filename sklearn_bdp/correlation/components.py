"""Independent records, and records that depend within components only (theory B0, B1)."""

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
    """Base class of models whose components of records are independent (:meth:`components`).

    Records of one component may depend on each other in any way, unless a subclass declares more.
    Splits keep components whole, except in subclasses that hold out single nodes or records.
    """

    _target = "new records"  # target of intervals, a noun phrase
    _exchangeable = True  # whether components are independent draws from one distribution
    # Whether bounds are valid given any values of the other records (theory G13, G27).
    _bounds_hold_given_rest = False

    #: Identities of the groups by their labels, None if not known; equal models may differ in them.
    _identities: GroupIdentities | None = None

    def sampling_scheme(self, n: int) -> SamplingScheme:
        n = self.check_n(n)
        _, n_components_per_size = component_sizes(self, n)
        n_components = int(n_components_per_size.sum())
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

    def _variance_proxy(self, n, is_mean):
        sizes, n_components_per_size = component_sizes(self, n)
        return float(np.sum(n_components_per_size * sizes.astype(float) ** 2))

    def _lower_limit(self, values, log_failures, n, binary):
        sizes, n_components_per_size = component_sizes(self, n)
        if binary and sizes.max() == 1:
            return binomial_lower_limit(values, log_failures, n)  # theory G8
        return component_lower_limit(values, log_failures, sizes, n_components_per_size)

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n = self.check_n(n)
        codes = self.components(n)
        target_size = holdout_size(n, holdout)
        sizes = np.bincount(codes)
        if len(sizes) < 2:
            raise ValueError(f"holdout needs two or more components, got one component of {n}.")
        n_held_out = 0  # records
        is_held_out = np.zeros(len(sizes), dtype=bool)  # for each component
        for component in generator(random_state).permutation(len(sizes)):
            if abs(n_held_out + sizes[component] - target_size) < abs(n_held_out - target_size):
                n_held_out += sizes[component]
                is_held_out[component] = True
        if not 0 < n_held_out < n:  # the largest or all others, whichever is nearer in size
            largest = int(np.argmax(sizes))
            n_others = n - sizes[largest]
            is_held_out = np.arange(len(sizes)) == largest
            if abs(n_others - target_size) < abs(sizes[largest] - target_size):
                is_held_out = ~is_held_out
        record_is_held_out = is_held_out[codes]
        return Split(np.flatnonzero(~record_is_held_out), np.flatnonzero(record_is_held_out))

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        if self._bounds_hold_given_rest:  # bounds are valid for any training set
            return Independent().folds(n, n_splits, random_state=random_state)
        codes = self.components(self.check_n(n))
        sizes = np.bincount(codes)
        advice = "Bring records of more groups."
        if isinstance(self, Groups):
            advice = (
                "Check groups=: one label per patient, user or site, not the target. Otherwise, "
                "bring more groups."
            )
        n_splits = check_splits(
            n_splits, len(sizes), "independent groups to train on", advice=advice
        )
        components = np.arange(len(sizes))
        if random_state is not None:  # decides the order of components of one size
            components = generator(random_state).permutation(len(sizes))
        largest_first = components[np.argsort(-sizes[components], kind="stable")]
        n_records_per_fold = np.zeros(n_splits, dtype=int)
        fold_of_component = np.empty(len(sizes), dtype=int)
        for component in largest_first:
            smallest_fold = np.argmin(n_records_per_fold)
            fold_of_component[component] = smallest_fold
            n_records_per_fold[smallest_fold] += sizes[component]
        return _folds_of_codes(fold_of_component[codes], n_splits)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        # A dropped record may still carry dependence between its neighbors.
        indices = check_indices(indices, self.n_records)
        codes = self.components(self.n_records or int(indices.max()) + 1)[indices]
        identities = None if self._identities is None else self._identities.take(codes)
        return unnamed_groups(codes, identities)


class Independent(ComponentModel):
    """Records that are independent of each other (theory B0).

    See Also
    --------
    Groups : Records that depend on each other within groups.
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
        fold_of_record = np.empty(n, dtype=int)
        fold_of_record[order] = np.arange(n) * n_splits // n
        return _folds_of_codes(fold_of_record, n_splits)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        check_indices(indices, None)
        return self


class ConditionallyIndependent(ComponentModel):
    """Holdout records in components that are independent given the training set (theory G27).

    ``codes``: integer code of each record's component. ``description``: text of :meth:`describe`.
    ``target``: noun phrase for the records that intervals refer to. ``caveats``: sentences for
    certificates. ``nodes``: :class:`~sklearn_bdp.correlation.graph_input.NodeNames` of the records,
    or None. Components may have different distributions.
    """

    fingerprint_name = "GivenRest"
    _exchangeable = False

    def __init__(self, codes, description, *, target, caveats=(), nodes=None):
        self.codes_ = self._codes = np.unique(codes, return_inverse=True)[1]
        self.n_records = len(self.codes_)
        self._target = target
        self.caveats = caveats
        self._words = description
        self._nodes = nodes
        self._freeze(self.codes_, description, target, *caveats)

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


def _folds_of_codes(fold_of_record, n_splits):
    """Return index arrays ``(train, test)`` of each fold.

    ``fold_of_record``: for each record, the number of the fold that tests it.
    """
    return [
        (np.flatnonzero(fold_of_record != fold), np.flatnonzero(fold_of_record == fold))
        for fold in range(n_splits)
    ]


def component_sizes(model, n):
    """Return vectors of the distinct component sizes, and of the number of components of each size.

    ``model``: a correlation model of ``n`` records.
    """
    if isinstance(model, Independent):
        return np.array([1]), np.array([n])

    def compute():
        size_of_component = np.bincount(model.components(n))
        return np.unique(size_of_component, return_counts=True)

    return cached(model, ("sizes", n), compute)


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
    sizes, _ = component_sizes(model, model.check_n(n))
    return int(sizes.max())


@singledispatch
def n_independent_units(model: Any, n: int) -> int:
    """Return the number of sampling units of ``n`` records, for forecasts of half-widths.

    Parameters
    ----------
    model : CorrelationModel
        Model of the records.
    n : int
        Number of records.

    Returns
    -------
    int
        For a list of models whose components are independent, the number of components, though its
        sampling scheme counts records. For other models, the number of units of the scheme.
    """
    return int(model.sampling_scheme(n).n_units)


def check_one_kind_of_labels(name, labels):
    """Raise ValueError if labels mix numbers and text: ``1`` and ``"1"`` would be two groups.

    ``name``: the parameter that holds the labels.
    """
    if getattr(getattr(labels, "dtype", None), "kind", "O") in "iubfSU":
        return
    number_by_text, label_by_text = _labels_by_type(labels)
    if not (number_by_text and label_by_text):
        return
    # The example: a number and a text that look the same, else the first of each.
    number = next(iter(number_by_text.values()))
    text = next(iter(label_by_text.values()))
    for stripped_text in label_by_text:
        if stripped_text in number_by_text:
            number = number_by_text[stripped_text]
            text = label_by_text[stripped_text]
            break
    raise ValueError(
        f"{name} must hold labels of one type, got the number {number!r} and the text {text!r}, "
        f"which would be two groups. Pass {name}.astype(str). The holdout was not queried."
    )


def _labels_by_type(labels):
    """Return two dicts: numbers among the labels by their text, and texts by their stripped text.

    The value is the first label with this key. NaN and labels of other types are in neither.
    """
    number_by_text = {}
    label_by_text = {}
    for label in labels.tolist() if hasattr(labels, "tolist") else labels:
        if isinstance(label, str):
            label_by_text.setdefault(label.strip(), label)
        elif isinstance(label, numbers.Real) and label == label:  # not NaN
            is_whole = float(label).is_integer()
            number_by_text.setdefault(str(int(label) if is_whole else label), label)
    return number_by_text, label_by_text


def _label_list(groups):
    """Return ``groups`` as a list, array or other container of one label per record.

    Raises TypeError or ValueError for text, dicts, sets and tables, and if there are no labels.
    """
    if isinstance(groups, str | bytes | dict | set | frozenset) or not hasattr(groups, "__len__"):
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


def _is_missing(label):
    """Return whether a label is NaN, NaT, or NA of pandas."""
    # NaN and NaT differ from themselves. A comparison of NA is not a boolean.
    return type(label).__name__ == "NAType" or label != label


def label_codes(groups):
    """Return the group code of each record: ``0, 1, …`` in order of first appearance of its label.

    ``groups``: one hashable label per record. Raises TypeError or ValueError for other labels, for
    NaN, and if labels mix numbers and text.
    """
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
        if _is_missing(label):
            raise ValueError(
                f"groups must not hold NaN, got NaN at position {position}. Drop such "
                "records, or give each its own group if it is independent of all others."
            )
    return codes


class Groups(ComponentModel):
    """Records that may depend on each other arbitrarily within groups (theory B1).

    Parameters
    ----------
    groups : array-like of shape (n,)
        One hashable label per record; records of different groups are independent.

    Attributes
    ----------
    codes_ : ndarray of int, shape (n,)
        Group of each record; groups are numbered in order of first appearance.
    sizes_ : ndarray of int, shape (n_groups,)
        Number of records in each group.

    Raises
    ------
    TypeError
        If ``groups`` is text, a dict, a set or no sequence, or if a label is not hashable.
    ValueError
        If there are no labels, or several for each record, or if they contain NaN or mix numbers
        and text.

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
        self._identities = GroupIdentities.of(groups, codes)
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


def unnamed_groups(codes, identities=None):
    """Return :class:`Groups` of records with these group codes, without taking codes for labels.

    ``identities``: :class:`GroupIdentities` of the groups, or None if their labels are not known.
    """
    groups = Groups(codes)
    vars(groups)["_identities"] = identities
    return groups


class GroupIdentities:
    """Hashes of group labels, by which groups of two data sets are compared.

    ``digests``: one 64-bit integer per group, in the order of group codes. ``numbered``: whether
    the labels are the integers 0 … k-1 or 1 … k. ``index``: attribute ``index`` of the labels, that
    of a series in pandas, or None; not pickled.
    """

    def __init__(self, digests, *, numbered=False, index=None):
        self.digests = digests
        self.numbered = numbered
        self.index = index

    @classmethod
    def of(cls, groups, codes):
        """Return the identities of groups.

        ``groups``: label of each record. ``codes``: group code of each record.
        """
        record_labels = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
        _, first_records = np.unique(codes, return_index=True)
        labels = [record_labels[record] for record in first_records]  # one per group
        numbered = (
            all(isinstance(label, int | np.integer) for label in labels)
            and min(labels) in (0, 1)
            and max(labels) - min(labels) == len(labels) - 1
        )
        digests = np.array([_digest(label) for label in labels], dtype=np.uint64)
        return cls(digests, numbered=numbered, index=getattr(groups, "index", None))

    def take(self, codes):
        """Return the identities of the groups of some records, in order of first appearance.

        ``codes``: group code of each of these records. The result has ``numbered=False`` and no
        index.
        """
        _, first_records = np.unique(codes, return_index=True)
        distinct_codes = codes[np.sort(first_records)]
        return GroupIdentities(self.digests[distinct_codes])

    def __getstate__(self):
        return {"digests": self.digests, "numbered": self.numbered, "index": None}


def count_shared_labels(model, other_model):
    """Return how many group labels two models have in common, and how many labels ``model`` has.

    Both counts are 0 if the labels of one model are not known, or if the labels of both are just
    the integers from 0 or 1, which may mean different groups.
    """
    identities = getattr(model, "_identities", None)
    other_identities = getattr(other_model, "_identities", None)
    if identities is None or other_identities is None:
        return 0, 0
    if identities.numbered and other_identities.numbered:
        return 0, 0
    is_shared = np.isin(identities.digests, other_identities.digests)
    return int(is_shared.sum()), identities.digests.size


def group_digests(model):
    """Return the 64-bit digest of each group's label; empty if the labels are not known."""
    identities = getattr(model, "_identities", None)
    return np.array([], np.uint64) if identities is None else identities.digests


def check_row_order(name, model, *tables):
    """Raise ValueError, or warn, if records have another order in the tables than in the model.

    The index of the group labels is compared with that of a single table; names of nodes are
    compared with the indices of all tables. ``name``: the parameter that holds the model.
    ``tables``: one table with all records of the model, or the training records and then the
    validation records; None in place of a table is not compared.
    """
    for listed_model in (model, *getattr(model, "models", ())):
        if len(tables) == 1:
            check_index_alignment(name, getattr(listed_model, "_identities", None), tables[0])
        nodes = getattr(listed_model, "_nodes", None)
        if nodes is not None and all(table is not None for table in tables):
            nodes.check_index(name, tables)


def _digest(label):
    """Return a 64-bit hash of a label; those of ``1``, ``1.0`` and ``"1"`` are equal."""
    if isinstance(label, numbers.Real) and label == label // 1:
        label = int(label)
    text = label if isinstance(label, str) else repr(label)
    return text_code(text)
