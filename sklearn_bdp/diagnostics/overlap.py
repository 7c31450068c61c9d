"""Records recognized by their values, and the check that reads the holdout (theory G21).

A record is the same record in another order, type of number, container or column order, and next
to missing values. Its digest is a sum over columns of a hash of (column, value), so that columns
may come in any order where they have names, and the zeros of sparse data need not be looked at.
Digests of holdout records stay in the process and are never shown. The check reports one of a few
words, which is charged. Rows that are known to be training rows are never compared again, at no
charge. An account in memory knows nothing of others: a new one of records that were asked about
starts from nothing, and its intervals with it. Such records are known by their targets, in their
order, which stay when features are added, chosen or transformed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import multiprocessing
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import hypergeom

from sklearn_bdp.correlation.components import count_shared_labels, group_digests
from sklearn_bdp.diagnostics.diagnostic import Diagnostic
from sklearn_bdp.diagnostics.tables import column_kinds, same_columns
from sklearn_bdp.exceptions import (
    MissingClassesWarning,
    SecondHoldoutWarning,
    SharedGroupsWarning,
    SharedRecordsError,
)
from sklearn_bdp.utils.hashing import as_single_array, bytes_digest, data_digest, text_code
from sklearn_bdp.utils.process import ANSWERED_TARGETS
from sklearn_bdp.utils.sklearn_compat import inside_validation, is_frame, num_samples, safe_indexing

SECOND_HOLDOUT = Diagnostic(
    "another account",
    "arguments",
    "Another holdout of these targets answered queries before in this process. The intervals of "
    "both are not valid together. To search again, pass holdout=search.holdout_ with the training "
    "rows: train = search.train_indices_, X[train] and y[train] (.iloc[train] in pandas). Or give "
    "both holdouts one ledger.",
    SecondHoldoutWarning,
)
#: Possible findings of a check, in the order of the search: it reports at most one.
OVERLAP_FINDINGS = {
    "rows": Diagnostic(
        "shared rows",
        "holdout",
        "X or a fit parameter contains holdout records, more than chance explains. Remove the rows "
        "of the holdout (of X_val) from X. If equal records are different people, set "
        "allow_shared_rows=True in HoldoutConfig or ReusableHoldout. No query was answered, and "
        "the check is charged.",
        SharedRecordsError,
    ),
    "groups": Diagnostic(
        "shared groups",
        "holdout",
        "Groups of the training set and of the holdout have the same labels. Divide whole groups: "
        "intervals are too good for new ones. If labels were given anew, make them unique.",
        SharedGroupsWarning,
    ),
    "labels": Diagnostic(
        "other labels",
        "holdout",
        "y has no label in common with the holdout. Code y as its targets. The check is charged.",
        ValueError,
    ),
    "classes": Diagnostic(
        "missing classes",
        "holdout",
        "A class of one side is missing from the other side. If labels are coded in another way "
        "there, code y as the holdout's targets. The check is charged.",
        MissingClassesWarning,
    ),
}
UNKNOWN_TRAINING_ROWS = Diagnostic(
    "unknown rows",
    "training set",
    "X contains rows that were not among the training rows when the search drew its holdout. Pass "
    "the training rows: train = search.train_indices_, X[train] and y[train] (.iloc[train] in "
    "pandas). For new records, call holdout.check_training_rows(X, y) first, which is charged.",
    SharedRecordsError,
)
HOLDOUT_ROWS_IN_FIT_PARAMETER = Diagnostic(
    "rows in a fit parameter",
    "training set",
    "{source} mixes training rows of this fit with other rows, which may be holdout records. Pass "
    "only rows that are not in X. Or split X yourself: pass one part as X_val and y_val, and "
    "choose {source} from the other part. The split of this fit is in train_indices_ and "
    "holdout_indices_ (the same again with the same int random_state). The holdout was not "
    "queried.",
    SharedRecordsError,
)
HOLDOUT_RECORDS_SCORED = Diagnostic(
    "raw holdout score",
    "arguments",
    "X contains records that fit held out ({count:,}). Their raw score would make later intervals "
    "invalid. Call final_report(), which returns the same report again, or score new records. "
    "The holdout was not queried.",
    SharedRecordsError,
)
#: Assumption if training set and holdout share labels of groups.
RELABELED_GROUPS_ASSUMPTION = (
    "groups of the holdout are others than those of the training set (labels given anew)"
)
#: Targets below which equal ones may well be those of other records.
_FEWEST = 20
#: Part of a holdout's rows that are those of another one where it is a subgroup of it.
_SUBGROUP = 0.9
#: Chance below which a class is missing from one side for a reason.
_NO_CHANCE = 1e-3
#: Fitted attributes of scikit-learn's models that are training rows: of neighbors, of support
#: vector machines, of Gaussian processes.
_KEEPERS = ("_fit_X", "support_vectors_", "X_train_")
_PARTS = 20  # members of an ensemble, or of a list among the fit parameters, that are looked at
_TOGETHER = 64  # columns of numbers that are hashed at a time
_MISSING = np.uint64(0x7FF8DEADBEEF0001)


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """Training records that an analyst brings to a holdout, hashed when they are compared."""

    #: Pairs of records and targets; without targets, features are compared alone.
    tables: tuple
    train_model: Any = None  # the correlation of the training records, which may name groups
    classifier: bool = False  # whether targets are classes
    #: Names of the fit parameters that hold the last tables, one for each of them.
    parameter_names: tuple[str, ...] = ()

    def with_tables_of(self, fit_params: dict[str, Any]) -> TrainingData:
        """Return the training data with all tables among fit parameters."""
        names = []
        tables = []
        for name, value in fit_params.items():
            for table in _tables_in(value, self.tables[0][0]):
                names.append(name)
                tables.append((table, None))
        if not tables:
            return self
        return dataclasses.replace(
            self, tables=(*self.tables, *tables), parameter_names=tuple(names)
        )

    def parameter_of(self, index: int) -> str | None:
        """Return the name of the fit parameter that holds a table, None for X."""
        n_without_name = len(self.tables) - len(self.parameter_names)
        if index < n_without_name:
            return None
        return self.parameter_names[index - n_without_name]

    def remark(self) -> str:
        """Return a sentence that names the fit parameters with tables, for messages."""
        if not self.parameter_names:
            return ""
        names = ", ".join(dict.fromkeys(self.parameter_names))
        return f"Fit parameters that were compared: {names}."

    @functools.cached_property
    def rows(self) -> list[Any]:
        """Digests of each table's rows with and without targets; none for cells without values."""
        digests: list[Any] = []
        for X, y in self.tables:
            try:
                features_only = row_digests(X)
                with_targets = features_only
                if y is not None:
                    with_targets = features_only + _summed(_as_table(y), "target ")
            except (TypeError, ValueError):
                features_only = np.array([], np.uint64)
                with_targets = features_only
            digests.append((with_targets, features_only))
        return digests

    @functools.cached_property
    def groups(self) -> Any:
        """Digests of the labels of groups; empty where there are none."""
        return group_digests(self.train_model)

    @functools.cached_property
    def digest(self) -> str:
        """Return the digest of the training data, the same for records in any order."""

        def sorted_digests():
            yield b"classes" if self.classifier else b""
            for codes in (*self.rows, (self.groups,)):
                yield b"table"
                for digests in codes:
                    yield np.sort(digests).tobytes()

        return bytes_digest(sorted_digests())

    def finding(self, X: Any, y: Any, model: Any, *, rows: bool) -> str | None:
        """Return the key in ``OVERLAP_FINDINGS`` of shared holdout records, or None."""
        if rows:
            for X_train, y_train in self.tables:
                shared, chance = count_shared_rows(X_train, y_train, X, y)
                if shared > chance:
                    return "rows"
        if self.train_model is not None and count_shared_labels(model, self.train_model)[0]:
            return "groups"
        if not self.classifier:
            return None
        return _label_finding(np.asarray(self.tables[0][1]), np.asarray(y), model)


def _check_known_tables(side, shares):
    """Raise if a table of training records is in part known, and in part of unknown records.

    ``shares``: of each table, by index, the share of its records that are known.
    """
    for index, share in shares.items():
        if 0.0 < share < 1.0:
            name = side.parameter_of(index)
            if name is None:
                raise UNKNOWN_TRAINING_ROWS.error()
            raise HOLDOUT_ROWS_IN_FIT_PARAMETER.error(source=name)


def _label_finding(y_train, y_holdout, model):
    """Return "labels" or "classes" if labels of both sides cannot be of one population, or None."""
    sides = y_train, y_holdout
    text = ["text" in column_kinds(side) for side in sides]  # one of them: an error of its own
    if text[0] != text[1] or any(side.size != len(side) or not side.size for side in sides):
        return None
    y_train = y_train.ravel()
    y_holdout = y_holdout.ravel()
    if not np.isin(y_holdout, y_train).any():
        return "labels"
    n_holdout = model.effective_n(len(y_holdout))
    if _misses_expected_class(y_holdout, y_train, len(y_train)):
        return "classes"
    if _misses_expected_class(y_train, y_holdout, n_holdout):
        return "classes"
    return None


def _misses_expected_class(labels, other_labels, other_size):
    """Return whether other labels lack a class of ``labels`` that chance hardly leaves out."""
    classes, counts = np.unique(labels, return_counts=True)
    is_expected = (1.0 - counts / len(labels)) ** other_size < _NO_CHANCE
    return (~np.isin(classes, other_labels) & is_expected).any()


class TrainingRowRegistry:
    """Rows of the training set: drawn by a search, or compared with the holdout before."""

    def __init__(self, *, both_parts_given: bool = False) -> None:
        self.drawn = False  # whether a search drew the holdout and its training rows
        #: Whether one fit was given training and holdout records: X that it split, or X_val.
        self.both_parts_given = both_parts_given
        self._added: list[TrainingData] = []  # to be hashed when another side comes
        self._known = [np.array([], np.uint64), np.array([], np.uint64)]
        self._groups = np.array([], np.uint64)
        self._sides: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        self._take_in()  # a pickle holds no record
        return vars(self)

    def add(self, side: TrainingData, *, drawn: bool = False) -> None:
        """Take in a side that has no holdout records."""
        self.drawn |= drawn
        self._added.append(side)

    def _take_in(self):
        for side in self._added:
            self._sides.add(side.digest)
            self._groups = np.union1d(self._groups, side.groups)
            for codes in side.rows:
                self._known = list(map(np.union1d, self._known, codes))
        self._added = []

    def known_overlap_status(self, side: TrainingData, *, explicit: bool) -> str | None:
        """Return the additional assumption if these training records are already known.

        None if they must be compared with the holdout. ``explicit``: rows beyond those of a drawn
        split are compared instead of rejected.
        """
        if any(side is added for added in self._added):
            return ""
        shares = self._shares(side)
        is_known_group = np.isin(side.groups, self._groups)
        if self.drawn and not explicit:
            _check_known_tables(side, shares)
        if self.drawn and is_known_group.any() and not is_known_group.all():
            OVERLAP_FINDINGS["groups"].warn()
            return RELABELED_GROUPS_ASSUMPTION
        rows_only = side.train_model is None and not side.classifier
        all_known = (self.drawn or rows_only) and min(shares.values(), default=1.0) == 1.0
        return "" if all_known or side.digest in self._sides else None

    def _shares(self, side):
        """Return the part of known rows by the index of each table that can be compared."""
        self._take_in()
        return {
            index: float(np.isin(codes, self._known[y is None]).mean())
            for index, ((codes, _), (_, y)) in enumerate(zip(side.rows, side.tables, strict=True))
            if codes.size
        }

    def stored_training_rows(self, estimator: Any, X: Any) -> TrainingData:
        """Return the rows that a model keeps; beside a drawn split, unknown ones were transformed.

        ``X``: records of the columns that are compared.
        """
        tables = [((rows, None),) for rows in _kept_rows(estimator, X)]
        if self.drawn:
            tables = [table for table in tables if self._are_known(TrainingData(table))]
        return TrainingData(sum(tables, ()))

    def _are_known(self, side):
        """Return whether any row is known, or rows cannot be compared."""
        shares = self._shares(side)
        return not shares or any(shares.values())

    def check_no_holdout_records(self, side: TrainingData, X: Any, y: Any) -> None:
        """Raise if records to be scored are those that a fit held out.

        The caller of that fit passed training and holdout records, so that the error shows nothing
        new. ``X``, ``y``: the holdout's records.
        """
        if not self.both_parts_given:
            return
        self._take_in()
        X_scored, y_scored = side.tables[0]
        known_digests = self._known[y_scored is None]
        new_rows = np.flatnonzero(~np.isin(side.rows[0][0], known_digests))
        if new_rows.size:
            y_new = None if y_scored is None else safe_indexing(y_scored, new_rows)
            shared, chance = count_shared_rows(safe_indexing(X_scored, new_rows), y_new, X, y)
            # Single rows count, too, if none of them equals another record of the fit.
            if shared == new_rows.size:
                holdout_digests = row_digests(X, None if y_new is None else y)
                fit_digests = np.concatenate([holdout_digests, known_digests])
                chance = 0 if np.unique(fit_digests).size == fit_digests.size else chance
            if shared > chance:
                raise HOLDOUT_RECORDS_SCORED.error(count=shared)

    def record_fingerprints(self, X: Any, y: Any) -> Any:
        """Return 16 bits of each record that differs from all others of the fit.

        By them a copy without records recognizes holdout records, without identifying any of them.
        """
        self._take_in()
        digests, counts = np.unique(row_digests(X, y), return_counts=True)
        unique_digests = digests[(counts == 1) & ~np.isin(digests, self._known[y is None])]
        is_unique = np.isin(row_digests(X, y), unique_digests) & self.both_parts_given
        # Columns by position and, in frames, also by name.
        column_names = [None, {*map(str, X.columns)}] if is_frame(X) else [None]
        marks = [
            row_digests(X, y, names=names)[is_unique] >> np.uint64(48) for names in column_names
        ]
        return column_names[-1], np.unique(np.concatenate(marks))


def check_fingerprints(marks: Any, X: Any, y: Any) -> None:
    """Raise if most of the records to be scored have such marks, more than by chance."""
    names, holdout_marks = marks
    names = names if is_frame(X) and names and names <= {*map(str, X.columns)} else None
    is_marked = np.isin(row_digests(X, y, names=names) >> np.uint64(48), holdout_marks)
    chance = is_marked.size * len(holdout_marks) / 2**16
    if is_marked.sum() > max(0.5 * is_marked.size, chance + 4.0 * np.sqrt(chance)):
        raise HOLDOUT_RECORDS_SCORED.error(count=int(is_marked.sum()))


def _kept_rows(estimator, X, depth=4):
    """Yield the training rows that a fitted model, or one inside it, keeps as they are."""
    state = getattr(estimator, "__dict__", None) or {}
    for name in _KEEPERS:
        rows = state.get(name)
        if sp.issparse(rows) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"):
            yield from _tables_in(rows, X)
    if depth and (hasattr(estimator, "get_params") or "estimator" in state):
        for inner in _inner_objects(state):
            yield from _kept_rows(inner, X, depth - 1)


def _inner_objects(state):
    """Yield the objects inside a fitted model: fitted attributes, steps, or its estimator."""
    fitted = [value for name, value in state.items() if name.endswith("_") or name == "steps"]
    for value in fitted or [state.get("estimator")]:  # frozen, or calibrated
        for item in value[:_PARTS] if isinstance(value, (list, tuple)) else [value]:
            yield item[1] if isinstance(item, tuple) and len(item) > 1 else item


def _tables_in(value, X, depth=3):
    """Yield the tables (``eval_set``, references) that may hold records."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and depth:
        for item in value[:_PARTS]:
            yield from _tables_in(item, X, depth - 1)
    elif (is_frame(value) or getattr(value, "ndim", 0) == 2) and same_columns(value, X):
        yield value


def count_shared_rows(X, y, X_holdout, y_holdout):
    """Return how many training records are holdout records, and how many chance explains.

    If ``y`` is None, records are compared without targets. In a population with equal records,
    training records equal one another as well: chance explains the number expected from those,
    four standard deviations and one more record. It explains 0 if the training records as a whole
    are the holdout, or a part of it that chance cannot have picked.
    """
    digests = _digests_of_both(X, y, X_holdout, y_holdout)
    if digests is None:
        return 0, 0
    training, holdout = digests
    values, counts = np.unique(training, return_counts=True)
    n_shared = int(np.isin(training, holdout).sum())
    if n_shared == training.size and values.size > 1 and 2 * n_shared > holdout.size:
        # Rows of the holdout one by one: of a large discrete population a sample as large hardly
        # ever stays within another's counts.
        holdout_values, holdout_counts = np.unique(holdout, return_counts=True)
        if np.all(holdout_counts[np.searchsorted(holdout_values, values)] >= counts):
            return n_shared, 0
    chances = _chances_of_equal_records(counts, holdout.size)
    expected = float((counts * chances).sum())
    # Twice: once for the records that meet, once because the rate itself is estimated.
    variance = 2.0 * float((counts**2 * chances * (1.0 - chances)).sum())
    return n_shared, math.floor(expected + 4.0 * math.sqrt(variance) + 1.0)


def _digests_of_both(X, y, X_holdout, y_holdout):
    """Return digests of training and holdout records, or None if these cannot be compared."""
    shared = None
    if all(hasattr(table, "iloc") and hasattr(table, "columns") for table in (X, X_holdout)):
        shared = {*map(str, X.columns)}.intersection(map(str, X_holdout.columns)) or None
    try:
        if shared is None and len({_as_table(table).shape[1] for table in (X, X_holdout)}) > 1:
            return None
        training = row_digests(X, y, names=shared)
        holdout = row_digests(X_holdout, None if y is None else y_holdout, names=shared)
    except (TypeError, ValueError):  # cells without values, ragged rows: nothing to compare
        return None
    return (training, holdout) if training.size and holdout.size else None


def _chances_of_equal_records(counts, n_holdout):
    """Return the chance that a holdout of so many has an equal of each distinct record.

    ``counts``: how often each distinct record is in the training set.
    """
    # Of the other training records a random set as large as the holdout holds an equal one with a
    # hypergeometric chance, which is free of bias. If there are fewer others than that, the rate
    # of equal pairs gives an upper bound (Jensen).
    n_training = int(counts.sum())
    n_others = n_training - 1
    if n_holdout <= n_others:
        # Nearly all counts are 1: each distinct count is computed once.
        distinct_counts, index = np.unique(counts, return_inverse=True)
        return 1.0 - hypergeom.pmf(0, n_others, distinct_counts - 1, n_holdout)[index]
    pair_rate = float((counts * (counts - 1.0)).sum()) / max(n_training * n_others, 1)
    return np.full(counts.shape, 1.0 - (1.0 - pair_rate) ** n_holdout)


def row_digests(X, y=None, *, names=None):
    """Return a 64-bit digest of each record.

    Equal records have equal digests in any container, among calls with the same ``names``: columns
    of a frame to look at, or None for all columns, identified by position. Numbers are compared in
    single precision.
    """
    if sp.issparse(X):
        cells = X.tocoo()
        total = np.zeros(X.shape[0], np.uint64)
        salts = np.array([_salt(str(column)) for column in range(X.shape[1])], np.uint64)
        np.add.at(total, cells.row, _hashed(cells.data, salts[cells.col]))
    elif names is None:
        total = _summed(_as_table(X), "")
    else:
        X = X.iloc[:, [str(name) in names for name in X.columns]]
        total = _summed(_as_table(X), "name ", map(str, X.columns))
    return total if y is None else total + _summed(_as_table(y), "target ")


def _summed(table, prefix, names=None):
    """Return the sums of the hashes of the cells in each row; columns are known by labels."""
    labels = list(range(table.shape[1]) if names is None else names)
    if not labels:
        raise ValueError("no columns")
    salts = np.array([_salt(f"{prefix}{label}") for label in labels], np.uint64)
    total = np.zeros(len(table), np.uint64)
    is_array = isinstance(table, np.ndarray)
    step = _TOGETHER if is_array and table.dtype.kind in "biuf" else 1
    for start in range(0, len(labels), step):
        columns = slice(start, start + step)
        block = table[:, columns] if is_array else table.iloc[:, start].to_numpy()[:, None]
        total += _hashed(block, salts[columns]).sum(axis=1, dtype=np.uint64)
    return total


def _hashed(cells, salts):
    """Return a hash of each cell under the salt of its column; zeros count nothing."""
    codes = cell_codes(cells)
    return np.where(codes == 0, np.uint64(0), splitmix64(codes, salts))


def _as_table(data):
    """Return a frame or a sparse table, or an array with a column for each cell of a record."""
    data = as_single_array(data)
    if sp.issparse(data) or (hasattr(data, "iloc") and hasattr(data, "columns")):
        return data
    if not hasattr(data, "__array__"):  # the cells of lists keep their types
        data = np.asarray(list(data), dtype=object)
    data = np.asarray(data)
    return data.reshape(len(data), -1)


def cell_codes(cells, *, single=True):
    """Return a 64-bit code of each cell: 0 for zero, one code for all missing values.

    ``single``: numbers count to single precision, so that a copy in it is the same.
    """
    # A type of pandas (categories, strings, masked numbers) has objects in its cells.
    has_numpy_dtype = isinstance(getattr(cells, "dtype", None), np.dtype)
    cells = np.asarray(cells, dtype=None if has_numpy_dtype else object)
    if cells.dtype.kind in "biuf":
        values = cells.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = values.astype(np.float32).astype(np.float64) if single else values
        codes = (rounded + 0.0).view(np.uint64)  # -0.0 is 0.0
        return np.where(np.isnan(values), _MISSING, codes)
    if cells.dtype.kind in "mM":
        return np.where(np.isnat(cells), _MISSING, cells.astype(np.int64).view(np.uint64))
    code_of_cell = {}
    codes = [_cell_code(cell, code_of_cell) for cell in cells.ravel().tolist()]
    return np.array(codes, dtype=np.uint64).reshape(cells.shape)


def _cell_code(cell, code_of_cell):
    """Return the code of a cell of any type; text that reads as a number is that number."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return _MISSING
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "surrogateescape")
    cell = cell if isinstance(cell, str | numbers.Real) else str(cell)
    if cell not in code_of_cell:
        try:
            code_of_cell[cell] = cell_codes(np.array([float(cell)]))[0]
        except (ValueError, OverflowError):
            code_of_cell[cell] = _salt(f"text {cell}")
    return code_of_cell[cell]


@functools.lru_cache(maxsize=1024)
def _salt(text):
    return np.uint64(text_code(text))


def splitmix64(codes, salt):
    """Return a hash of each code under a salt (splitmix64's finaliser)."""
    with np.errstate(over="ignore"):
        bits = (codes ^ salt) * np.uint64(0x9E3779B97F4A7C15) + salt
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def forget_answered_targets() -> None:
    """Forget the targets of answered queries, as a new process would."""
    ANSWERED_TARGETS.clear()


def targets_digest(X: Any, y: Any) -> str | None:
    """Return a digest that identifies targets; None if they are too few.

    Targets that are sorted (or all the same) may be those of any table of that size: then the
    features count, too. Also None inside the fits of a search or cross-validation, which are
    tested from outside, and in workers.
    """
    if num_samples(y) < _FEWEST or multiprocessing.parent_process() or inside_validation():
        return None
    labels = np.asarray(y)
    labels = labels.astype(float) if labels.dtype.kind in "biu" else labels
    labels = labels.ravel() if labels.size == len(labels) else labels
    repeats = labels.ndim == 1 and (labels[1:] == labels[:-1]).any()
    return data_digest(X, labels) if repeats and is_sorted_by_label(labels) else data_digest(labels)


def has_other_holdout(targets: set[str], rows: Callable[[], Any]) -> bool:
    """Return whether an account has answered about these targets, or about nearly all of the rows.

    ``targets`` holds digests of targets. ``rows`` returns digests of rows with targets, so that a
    subgroup of a holdout is found, too.
    """
    if not ANSWERED_TARGETS.keys().isdisjoint(targets):
        return True
    new_rows = rows() if ANSWERED_TARGETS and targets else None
    if not new_rows or len(np.unique(new_rows[0])) < _FEWEST:
        return False
    return any(
        answered_rows and np.isin(new_rows[0], answered_rows[0]).mean() > _SUBGROUP
        for answered_rows in _answered_rows()
    )


def _answered_rows():
    """Yield the rows about which accounts of this process have answered, computed once."""
    for digest, rows in ANSWERED_TARGETS.items():
        if callable(rows):
            rows = rows()
            ANSWERED_TARGETS[digest] = rows
        yield rows


def is_sorted_by_label(labels: Any) -> bool:
    """Return whether equal labels form one run each, as in a table sorted by label."""
    runs = labels[np.r_[True, labels[1:] != labels[:-1]]]
    # The first runs decide most cases without sorting all.
    return all(np.unique(group).size == group.size for group in (runs[:1000], runs))
