"""What group labels say besides which records belong together: who is meant, in which order."""

from __future__ import annotations

import hashlib
import numbers

import numpy as np

from sklearn_bdp._checks import check_order


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
        first = np.unique(codes, return_index=True)[1]
        if hasattr(groups, "to_numpy"):
            values = groups.to_numpy()[first].tolist()
        elif isinstance(groups, np.ndarray):
            values = groups[first].tolist()
        else:
            values = [groups[place] for place in first]
        index = getattr(groups, "index", None)
        return cls(
            np.array([_digest(value) for value in values], dtype=np.uint64),
            numbered=_just_numbered(values),
            index=index if hasattr(index, "equals") else None,
        )

    def take(self, codes):
        """Return what is known of those records that have these codes, in their order."""
        first = np.unique(codes, return_index=True)[1]
        return Labels(self.digests[codes[np.sort(first)]])

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
    """Raise where groups came in a series that names the records of X in another order."""
    labels = getattr(model, "_labels", None)
    if labels is not None:
        check_order(name, labels, X)


def _just_numbered(values):
    """Return whether labels are the integers 0 … k-1 or 1 … k."""
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return False
    return min(values) in (0, 1) and max(values) - min(values) == len(values) - 1


def _digest(label):
    """Return a number for a label: a whole number is the same in any type, and as text."""
    if isinstance(label, numbers.Real) and label == label // 1:
        label = int(label)
    text = label if isinstance(label, str) else repr(label)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
