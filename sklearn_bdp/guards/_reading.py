"""The check that reads the holdout: it says one of a few words, which is charged (theory G21).

Rows that are known to stand on the training side are never compared again, at no charge.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np

from sklearn_bdp._sklearn_compat import is_frame, safe_indexing
from sklearn_bdp.correlation import count_shared_labels
from sklearn_bdp.exceptions import MissingClassesWarning, SharedGroupsWarning, SharedRecordsError
from sklearn_bdp.guards._guard import Guard
from sklearn_bdp.guards._rows import count_shared_rows, row_digests
from sklearn_bdp.guards._tables import same_columns

_WHEN = "when a training set meets a holdout that the caller split off, once for each set"


def _finding(name, category, says):
    """Return a guard that reads the holdout."""
    return Guard(name, "holdout", _WHEN, says, category)


#: What a check can find, in the order in which it is looked for: one finding at most is reported.
FINDINGS = {
    "rows": _finding(
        "shared rows",
        SharedRecordsError,
        "X contains holdout records, more than chance explains. Pass training rows only. If equal "
        "records are different people or events, make the holdout with allow_shared_rows=True. No "
        "query was answered. The check read the holdout and is charged.",
    ),
    "groups": _finding(
        "shared groups",
        SharedGroupsWarning,
        "Groups of the training set and of the holdout have the same labels. If they are the same "
        "groups (patients, users, sites), intervals are too good for new ones: divide whole "
        "groups, as correlation='groups' does. If labels were given anew, make them unique.",
    ),
    "labels": _finding(
        "other labels",
        ValueError,
        "y has no label in common with the holdout. Code y as the holdout's targets. No query was "
        "answered. The check read the holdout and is charged.",
    ),
    "classes": _finding(
        "missing classes",
        MissingClassesWarning,
        "A class of one side is missing from the other side. If labels are coded in another way "
        "there (0 and 1, 1 and 2, -1 and 1), code y as the holdout's targets. If not, no model can "
        "predict a class that it has not seen. The check read the holdout and is charged.",
    ),
}
MIXED = Guard(
    "unknown rows",
    "training set",
    "when a training set meets a holdout that a search drew",
    "X contains rows that were not among the training rows when the search drew its holdout. Pass "
    "X[search.train_indices_], or call holdout.check_training_rows(X, y) first, which is charged.",
    SharedRecordsError,
)
SCORED = Guard(
    "raw holdout score",
    "arguments",
    "when score is given records that fit held out",
    "X contains {count:,} records that fit held out. Their raw score would make later intervals "
    "invalid, so score does not return it. Call final_report() for the final score of the best "
    "model, or score new records. predict and decision_function take any records. The holdout was "
    "not queried.",
    SharedRecordsError,
)
#: What has to be true where labels of groups stand on both sides.
ANEW = "groups of the holdout are others than those of the training set (labels given anew)"
#: Chance below which a class is missing from one side for a reason.
_NO_CHANCE = 1e-3
#: Fitted attributes of scikit-learn's models that are training rows: of neighbors, of support
#: vector machines, of Gaussian processes.
_KEEPERS = ("_fit_X", "support_vectors_", "X_train_")
_PARTS = 20  # members of an ensemble, or of a list among the fit parameters, that are looked at


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRecords:
    """What an analyst brings to a holdout."""

    #: Pairs of records and targets; without targets, features are compared alone.
    tables: tuple
    train_model: Any = None  # the correlation of the training records, which may name groups
    classifier: bool = False  # whether targets are classes

    @functools.cached_property
    def rows(self) -> list[Any]:
        """Digests of each table's rows, with and without targets; None where there are none."""
        return [_digests(X, y) for X, y in self.tables]

    def beside(self, fit_params: Any) -> TrainingRecords:
        """Return the side with the tables that stand among fit parameters besides."""
        more = tuple((table, None) for table in _tables_in(fit_params, self.tables[0][0]))
        return dataclasses.replace(self, tables=(*self.tables, *more)) if more else self

    @functools.cached_property
    def digest(self) -> str:
        """Return what the side is known by: the same records in any order."""
        state = hashlib.sha256(b"classes" if self.classifier else b"")
        for codes in (*self.rows, (self.groups,)):
            state.update(b"table")
            for part in codes or ():
                state.update(np.sort(part).tobytes())
        return state.hexdigest()

    @property
    def groups(self) -> Any:
        """Digests of the labels of groups; empty where there are none."""
        labels = getattr(self.train_model, "_labels", None)
        return np.array([], np.uint64) if labels is None else labels.digests

    def finding(self, X: Any, y: Any, model: Any, *, rows: bool) -> str | None:
        """Return what the holdout's records say about it: one of ``FINDINGS``, or nothing."""
        if rows:
            for own, targets in self.tables:
                shared, chance = count_shared_rows(own, targets, X, y)
                if shared > chance:
                    return "rows"
        if self.train_model is not None and count_shared_labels(model, self.train_model)[0]:
            return "groups"
        return _finding_of_classes(self.tables[0][1], y, model) if self.classifier else None


def _digests(X, y):
    """Return digests of rows with and without targets, of one width; None for cells without any."""
    try:
        features = row_digests(X)
        if y is None:
            return features, features
        return features + row_digests(np.zeros((features.size, 1)), y), features  # zeros add none
    except (TypeError, ValueError):
        return None


class KnownRows:
    """Rows that stand on the training side: drawn there, or compared with the holdout before."""

    def __init__(self) -> None:
        self.drawn = False  # whether a search drew the holdout and its training rows
        self.divided = False  # whether a fit was given both sides: X that it divided, or X_val
        self._known = [np.array([], np.uint64), np.array([], np.uint64)]
        self._groups = np.array([], np.uint64)
        self._sides: set[str] = set()

    def add(self, side: TrainingRecords, *, drawn: bool = False) -> None:
        """Take in a side that has no holdout records."""
        self.drawn |= drawn
        self._sides.add(side.digest)
        self._groups = np.union1d(self._groups, side.groups)
        for codes in side.rows:
            if codes is not None:
                self._known = list(map(np.union1d, self._known, codes))

    def covers(self, side: TrainingRecords) -> bool:
        """Return whether comparing the side with the holdout would say nothing new."""
        rows_only = side.train_model is None and not side.classifier
        known = (self.drawn or rows_only) and min(self._shares(side)) == 1.0
        return known or side.digest in self._sides

    def kept(self, estimator: Any, X: Any) -> TrainingRecords:
        """Return the rows that a model keeps; beside a drawn split, unknown ones were transformed.

        ``X``: records of the columns that are compared.
        """
        found = (TrainingRecords(((rows, None),)) for rows in _kept_rows(estimator, X))
        met = (one for one in found if not self.drawn or min(self._shares(one)) > 0.0)
        return TrainingRecords(tuple(one.tables[0] for one in met))

    def check_scored(self, side: TrainingRecords, X: Any, y: Any) -> None:
        """Raise where records to be scored are those that a fit held out.

        Whoever called that fit gave it both sides, so that the error tells nothing new. ``X``,
        ``y``: the holdout's records.
        """
        codes, (own, targets) = side.rows[0], side.tables[0]
        if not self.divided or codes is None or not codes[0].size:
            return
        rest = np.flatnonzero(~np.isin(codes[0], self._known[targets is None]))
        if rest.size:
            own = safe_indexing(own, rest)
            targets = None if targets is None else safe_indexing(targets, rest)
            shared, chance = count_shared_rows(own, targets, X, y)
            if shared > chance:
                raise SCORED.error(count=shared)

    def mixes(self, side: TrainingRecords) -> bool:
        """Return whether a table holds rows of the training part and others."""
        return self.drawn and any(0.0 < share < 1.0 for share in self._shares(side))

    def mixes_groups(self, side: TrainingRecords) -> bool:
        """Return whether groups are named that were not among those of the training part."""
        known = np.isin(side.groups, self._groups)
        return self.drawn and bool(known.any() and not known.all())

    def _shares(self, side):
        """Return which part of each table's rows is known; 1 where nothing can be compared."""
        result = [1.0]
        for codes, (_, y) in zip(side.rows, side.tables, strict=True):
            if codes is not None and codes[0].size:
                known = self._known[y is None]  # ascending
                met = np.searchsorted(known, codes[0], "right") > np.searchsorted(known, codes[0])
                result.append(float(met.mean()))
        return result


def _finding_of_classes(y, y_holdout, model):
    """Return what the classes of the two sides say, where chance does not explain it."""
    labels, held = _classes(y), _classes(y_holdout)
    if labels is None or held is None or not labels.size or _is_text(labels) != _is_text(held):
        return None  # of other kinds: an error of its own
    if not np.isin(held, labels).any():
        return "labels"
    sides = ((held, labels, len(labels)), (labels, held, model.effective_n(len(held))))
    return "classes" if any(_lacks(*side) for side in sides) else None


def _lacks(labels, others, size):
    """Return whether others lack a class that chance would not leave out of ``size`` records."""
    known, counts = np.unique(labels, return_counts=True)
    expected = (1.0 - counts / len(labels)) ** size < _NO_CHANCE
    return bool((~np.isin(known, others) & expected).any())


def _classes(y):
    """Return one label per record; None where there is more than one output."""
    labels = np.asarray(y)
    return labels.ravel() if labels.size == len(labels) else None


def _is_text(labels):
    return labels.dtype.kind in "OUST" and isinstance(labels[0], str)


def _kept_rows(estimator, X, depth=3):
    """Yield the training rows that a fitted model, or one inside it, keeps as they are."""
    state = getattr(estimator, "__dict__", None) or {}
    rows = [state[name] for name in _KEEPERS if name in state]
    yield from _tables_in([r for r in rows if isinstance(r, np.ndarray) and r.dtype.kind == "f"], X)
    if not depth or not hasattr(estimator, "get_params"):
        return
    for name, inner in state.items():
        if name.endswith("_") or name == "steps":
            for part in inner[:_PARTS] if isinstance(inner, (list, tuple)) else [inner]:
                one = part[1] if isinstance(part, tuple) and len(part) > 1 else part
                if hasattr(one, "__dict__"):  # numbers, arrays and trees have none
                    yield from _kept_rows(one, X, depth - 1)


def _tables_in(value, X, depth=3):
    """Yield the tables (``eval_set``, references) that may hold records."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and depth:
        for part in value[:_PARTS]:
            yield from _tables_in(part, X, depth - 1)
    elif (is_frame(value) or getattr(value, "ndim", 0) == 2) and same_columns(value, X):
        yield value
