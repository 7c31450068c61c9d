"""Detection of records in both training set and holdout, by digests of their values (theory G21).

The digest of a record is a sum over columns of a hash of (column, value). It does not depend on the
order of records, on the type of numbers, on the container and, for named columns, on the order of
columns. Zeros add nothing, so that sparse data are hashed fast. Digests of
holdout records stay in the process and are never shown. Copies of a search contain 16 bits of some
of them. A comparison of training data with the holdout reports at most one finding, and is charged.

A holdout without a ledger does not know the queries that another holdout of the same records
answered. Other holdouts of the process are therefore recognized by their targets in order and by
their rows.
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
    "Another holdout of these targets answered queries before in this process: the intervals of "
    "both are not valid together. To re-run a cell, set "
    "holdout=HoldoutConfig(ledger='holdout.sqlite'). To search again, keep the first search: "
    "holdout=first.holdout_, and fit(X[train], y[train]) with train = first.train_indices_ "
    "(.iloc[train] in pandas).",
    SecondHoldoutWarning,
)
#: Possible findings of a comparison with the holdout. The first one that is found is reported.
OVERLAP_FINDINGS = {
    "rows": Diagnostic(
        "shared rows",
        "holdout",
        "X or a fit parameter contains holdout records, more than chance explains: scores would be "
        "too high. Remove the rows of the holdout (X_val) from X and y. If equal records are "
        "different people, set allow_shared_rows=True in HoldoutConfig or ReusableHoldout. No "
        "query was answered. The check was recorded like an answer and makes later intervals "
        "wider.",
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
        "y has no label in common with the holdout. Code y as its targets. The check was recorded "
        "like an answer.",
        ValueError,
    ),
    "classes": Diagnostic(
        "missing classes",
        "holdout",
        "The training set or the holdout lacks a class that the other one has. If labels are coded "
        "in another way there, code y as the holdout's targets. The check was recorded like an "
        "answer.",
        MissingClassesWarning,
    ),
}
UNKNOWN_TRAINING_ROWS = Diagnostic(
    "unknown rows",
    "training set",
    "X contains rows that were not among the training rows when the search drew its holdout, and "
    "may be held out. Call fit(X[train], y[train]) with train = first.train_indices_ of that "
    "search (.iloc[train] in pandas). For new records, call holdout.check_training_rows(X, y) "
    "first, which is recorded like an answer and makes later intervals wider.",
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
    "invalid. Read best_score_, or score new records. A first final_report() closes the holdout. "
    "The holdout was not queried.",
    SharedRecordsError,
)
#: Assumption if training set and holdout have group labels in common.
RELABELED_GROUPS_ASSUMPTION = (
    "groups of the holdout are others than those of the training set (labels given anew)"
)
#: Fewest records whose targets identify them. Fewer targets are often those of other records, too.
_MIN_TARGETS = 20
#: A holdout is a subset of another one if more than this fraction of its rows are in that.
_MIN_SHARED_FRACTION = 0.9
#: If a class is missing with a smaller probability than this, chance does not explain it.
_MAX_CHANCE = 1e-3
#: Fitted attributes of scikit-learn's models that contain training rows: of nearest neighbors,
#: support vector machines and Gaussian processes.
_TRAINING_ROW_ATTRIBUTES = ("_fit_X", "support_vectors_", "X_train_")
_MAX_MEMBERS = 20  # largest number of members of an ensemble or a list that are inspected
_COLUMNS_PER_BLOCK = 64  # largest number of numeric columns that are hashed together
_MISSING_CODE = np.uint64(0x7FF8DEADBEEF0001)


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """Tables of training records, to be compared with a holdout by digests of rows and groups."""

    #: Pairs of records and targets. If targets are None, only features are compared.
    tables: tuple
    correlation_model: Any = None  # of the training records; it may have groups
    has_classes: bool = False  # whether targets are classes
    #: Names of the fit parameters that the last tables are from, one for each of these tables.
    parameter_names: tuple[str, ...] = ()

    def with_tables_of(self, fit_params: dict[str, Any]) -> TrainingData:
        """Return the training data with the tables among fit parameters, if any, added.

        These are the tables with the columns of the first table.
        """
        parameter_names = []
        added_tables = []
        for name, value in fit_params.items():
            for table in _tables_in(value, self.tables[0][0]):
                parameter_names.append(name)
                added_tables.append((table, None))
        if not added_tables:
            return self
        return dataclasses.replace(
            self, tables=(*self.tables, *added_tables), parameter_names=tuple(parameter_names)
        )

    def parameter_of(self, table_index: int) -> str | None:
        """Return the name of the fit parameter that contains a table, None for another table."""
        n_unnamed = len(self.tables) - len(self.parameter_names)
        if table_index < n_unnamed:
            return None
        return self.parameter_names[table_index - n_unnamed]

    def remark(self) -> str:
        """Return a sentence that names the fit parameters with tables, or an empty text."""
        if not self.parameter_names:
            return ""
        parameter_names = ", ".join(dict.fromkeys(self.parameter_names))
        return f"Fit parameters that were compared: {parameter_names}."

    @functools.cached_property
    def row_digest_pairs(self) -> list[Any]:
        """Pair of arrays for each table: digests of rows with targets, and without.

        Both arrays are the same for a table without targets, and empty if it cannot be hashed.
        """
        digest_pairs: list[Any] = []
        for X, y in self.tables:
            try:
                features_only = row_digests(X)
                with_targets = features_only
                if y is not None:
                    with_targets = features_only + _sum_cell_hashes(_as_table(y), "target ")
            except (TypeError, ValueError):
                features_only = np.array([], np.uint64)
                with_targets = features_only
            digest_pairs.append((with_targets, features_only))
        return digest_pairs

    @functools.cached_property
    def group_label_digests(self) -> Any:
        """Array with the digests of the group labels; empty without groups."""
        return group_digests(self.correlation_model)

    @functools.cached_property
    def digest(self) -> str:
        """Digest of all rows and group labels, the same for rows in any order."""

        def sorted_digests():
            yield b"classes" if self.has_classes else b""
            for table_digests in (*self.row_digest_pairs, (self.group_label_digests,)):
                yield b"table"
                for digests in table_digests:
                    yield np.sort(digests).tobytes()

        return bytes_digest(sorted_digests())

    def overlap_finding(
        self, X_holdout: Any, y_holdout: Any, holdout_model: Any, *, compare_rows: bool
    ) -> str | None:
        """Return a finding on a holdout, or None.

        "rows" or "groups": these are shared. "labels": no class label is in both. "classes": a
        class is missing from one of them, more than by chance.

        The values are keys of ``OVERLAP_FINDINGS``. ``holdout_model``: correlation model of the
        holdout. ``compare_rows``: whether rows are compared, or only groups and classes.
        """
        if compare_rows:
            for X_train, y_train in self.tables:
                n_shared, max_by_chance = count_shared_rows(X_train, y_train, X_holdout, y_holdout)
                if n_shared > max_by_chance:
                    return "rows"
        train_model = self.correlation_model
        if train_model is not None and count_shared_labels(holdout_model, train_model)[0]:
            return "groups"
        if not self.has_classes:
            return None
        y_train = np.asarray(self.tables[0][1])
        return _label_finding(y_train, np.asarray(y_holdout), holdout_model)


def _check_no_mixed_table(training_data, known_fractions):
    """Raise SharedRecordsError if a table contains both known training rows and other rows.

    ``known_fractions``: fraction of the rows of a table that are known, by position of the table.
    """
    for table_index, known_fraction in known_fractions.items():
        if 0.0 < known_fraction < 1.0:
            parameter_name = training_data.parameter_of(table_index)
            if parameter_name is None:
                raise UNKNOWN_TRAINING_ROWS.error()
            raise HOLDOUT_ROWS_IN_FIT_PARAMETER.error(source=parameter_name)


def _label_finding(y_train, y_holdout, holdout_model):
    """Return "labels" or "classes" if class labels of training set and holdout differ, else None.

    "labels": no label is in both. "classes": chance does not explain that a class is missing from
    one. Also None if one is empty, has several outputs, or is the only one with text.
    ``holdout_model``: correlation model of the holdout.
    """
    targets_of_both = y_train, y_holdout
    # Text in one of them alone has an error of its own.
    is_text = ["text" in column_kinds(targets) for targets in targets_of_both]
    if is_text[0] != is_text[1] or any(
        targets.size != len(targets) or not targets.size for targets in targets_of_both
    ):
        return None
    y_train = y_train.ravel()
    y_holdout = y_holdout.ravel()
    if not np.isin(y_holdout, y_train).any():
        return "labels"
    n_effective_holdout = holdout_model.effective_n(len(y_holdout))
    if _misses_expected_class(y_holdout, y_train, len(y_train)):
        return "classes"
    if _misses_expected_class(y_train, y_holdout, n_effective_holdout):
        return "classes"
    return None


def _misses_expected_class(labels, other_labels, n_effective_others):
    """Return whether ``other_labels`` lack a class of ``labels``, more than chance explains.

    ``n_effective_others``: effective sample size of ``other_labels``.
    """
    classes, counts = np.unique(labels, return_counts=True)
    is_expected = (1.0 - counts / len(labels)) ** n_effective_others < _MAX_CHANCE
    return (~np.isin(classes, other_labels) & is_expected).any()


class TrainingRowRegistry:
    """Digests of the known training rows of a holdout: from its search and from earlier checks."""

    def __init__(self, *, both_parts_given: bool = False) -> None:
        self.drawn = False  # whether a search drew the holdout and its training rows
        #: Whether the same fit had training and holdout records: ``X`` that it split, or ``X_val``.
        self.both_parts_given = both_parts_given
        self._pending: list[TrainingData] = []  # hashed when digests are needed
        #: Digests of known rows with targets, and without targets.
        self._known_digests = [np.array([], np.uint64), np.array([], np.uint64)]
        self._group_digests = np.array([], np.uint64)
        self._data_digests: set[str] = set()  # `TrainingData.digest` of all known data

    def __getstate__(self) -> dict[str, Any]:
        self._hash_pending()  # so that a pickle contains no record
        return vars(self)

    def add(self, training_data: TrainingData, *, drawn: bool = False) -> None:
        """Register training data as known; ``drawn``: whether a search drew the split."""
        self.drawn |= drawn
        self._pending.append(training_data)

    def _hash_pending(self):
        """Replace the training data that were added since the last call by their digests."""
        for training_data in self._pending:
            self._data_digests.add(training_data.digest)
            self._group_digests = np.union1d(self._group_digests, training_data.group_label_digests)
            for table_digests in training_data.row_digest_pairs:
                self._known_digests = list(map(np.union1d, self._known_digests, table_digests))
        self._pending = []

    def _known_digests_for(self, y):
        """Return the digests of known rows with targets, or without targets if ``y`` is None."""
        return self._known_digests[y is None]

    def known_overlap_status(
        self, training_data: TrainingData, *, allows_mixed_tables: bool
    ) -> str | None:
        """Return an empty text or an additional assumption for known training data, else None.

        None: the data must be compared with the holdout. If a search drew the split, a table with
        both known and unknown rows raises SharedRecordsError unless ``allows_mixed_tables``. Both
        known and unknown groups then give a warning, and the assumption is returned.
        """
        if any(training_data is pending for pending in self._pending):
            return ""
        known_fractions = self._known_row_fractions(training_data)
        is_known_group = np.isin(training_data.group_label_digests, self._group_digests)
        if self.drawn and not allows_mixed_tables:
            _check_no_mixed_table(training_data, known_fractions)
        if self.drawn and is_known_group.any() and not is_known_group.all():
            OVERLAP_FINDINGS["groups"].warn()
            return RELABELED_GROUPS_ASSUMPTION
        is_rows_only = training_data.correlation_model is None and not training_data.has_classes
        has_only_known_rows = (self.drawn or is_rows_only) and min(
            known_fractions.values(), default=1.0
        ) == 1.0
        return "" if has_only_known_rows or training_data.digest in self._data_digests else None

    def _known_row_fractions(self, training_data):
        """Return the fraction of known rows of each table that has digests, by table position."""
        self._hash_pending()
        return {
            table_index: float(np.isin(digests_with_targets, self._known_digests_for(y)).mean())
            for table_index, ((digests_with_targets, _), (_, y)) in enumerate(
                zip(training_data.row_digest_pairs, training_data.tables, strict=True)
            )
            if digests_with_targets.size
        }

    def stored_training_rows(self, estimator: Any, X: Any) -> TrainingData:
        """Return the training rows that a fitted model stores, such as support vectors.

        Only tables with the columns of ``X`` count. If a search drew the split, tables without a
        known row are left out: the model may have transformed their rows.
        """
        tables = [(rows, None) for rows in _stored_rows(estimator, X)]
        if self.drawn:
            tables = [table for table in tables if self._has_known_row(TrainingData((table,)))]
        return TrainingData(tuple(tables))

    def _has_known_row(self, training_data):
        """Return whether a row of training data is known; True if no table has digests."""
        known_fractions = self._known_row_fractions(training_data)
        return not known_fractions or any(known_fractions.values())

    def check_no_holdout_records(
        self, scored_data: TrainingData, X_holdout: Any, y_holdout: Any
    ) -> None:
        """Raise SharedRecordsError if more scored records are in the holdout than chance explains.

        ``scored_data``: its first table has the records to be scored. Nothing is checked unless the
        caller passed training and holdout records to the same fit.
        """
        if not self.both_parts_given:  # the error would reveal which records are in the holdout
            return
        self._hash_pending()
        X_scored, y_scored = scored_data.tables[0]
        known_digests = self._known_digests_for(y_scored)
        digests_with_targets, _ = scored_data.row_digest_pairs[0]
        unknown_indices = np.flatnonzero(~np.isin(digests_with_targets, known_digests))
        if unknown_indices.size:
            y_unknown = None if y_scored is None else safe_indexing(y_scored, unknown_indices)
            n_shared, max_by_chance = count_shared_rows(
                safe_indexing(X_scored, unknown_indices), y_unknown, X_holdout, y_holdout
            )
            # If holdout records differ from each other and from all known ones, equality by chance
            # is excluded.
            if n_shared == unknown_indices.size:
                holdout_digests = row_digests(X_holdout, None if y_unknown is None else y_holdout)
                fit_digests = np.concatenate([holdout_digests, known_digests])
                is_distinct = np.unique(fit_digests).size == fit_digests.size
                max_by_chance = 0 if is_distinct else max_by_chance
            if n_shared > max_by_chance:
                raise HOLDOUT_RECORDS_SCORED.error(count=n_shared)

    def record_fingerprints(self, X: Any, y: Any) -> Any:
        """Return fingerprints of the holdout records ``X`` and ``y``, for `check_fingerprints`.

        A fingerprint has 16 bits, so that it does not identify a record. Only records that differ
        from all others of the fit have one. No record has one if the caller did not pass training
        and holdout records to the same fit.

        Returns
        -------
        column_names : set of str or None
            Names of the columns of a frame; None without names.
        fingerprints : ndarray of uint64
            Distinct fingerprints, by position of columns and, for frames, also by name.
        """
        self._hash_pending()
        digests, counts = np.unique(row_digests(X, y), return_counts=True)
        is_known = np.isin(digests, self._known_digests_for(y))
        unique_digests = digests[(counts == 1) & ~is_known]
        has_fingerprint = np.isin(row_digests(X, y), unique_digests) & self.both_parts_given
        # None: columns are identified by position. In frames, they are also identified by name.
        name_sets = [None, {*map(str, X.columns)}] if is_frame(X) else [None]
        fingerprints = [
            row_digests(X, y, names=name_set)[has_fingerprint] >> np.uint64(48)
            for name_set in name_sets
        ]
        return name_sets[-1], np.unique(np.concatenate(fingerprints))


def check_fingerprints(fingerprints: Any, X: Any, y: Any) -> None:
    """Raise SharedRecordsError if most records to be scored have fingerprints of the holdout.

    Most: more than half of the records ``X``, ``y``, and more than chance explains.
    ``fingerprints``: the pair that :meth:`TrainingRowRegistry.record_fingerprints` returned.
    """
    names, holdout_fingerprints = fingerprints
    names = names if is_frame(X) and names and names <= {*map(str, X.columns)} else None
    has_fingerprint = np.isin(row_digests(X, y, names=names) >> np.uint64(48), holdout_fingerprints)
    expected_by_chance = has_fingerprint.size * len(holdout_fingerprints) / 2**16
    if has_fingerprint.sum() > max(
        0.5 * has_fingerprint.size, expected_by_chance + 4.0 * np.sqrt(expected_by_chance)
    ):
        raise HOLDOUT_RECORDS_SCORED.error(count=int(has_fingerprint.sum()))


def _stored_rows(estimator, X, depth=4):
    """Yield tables of training rows that a fitted model, or a model inside it, stores.

    Only tables with the columns of ``X`` count. ``depth``: number of levels of nested models.
    """
    attributes = getattr(estimator, "__dict__", None) or {}
    for name in _TRAINING_ROW_ATTRIBUTES:
        rows = attributes.get(name)
        if sp.issparse(rows) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"):
            yield from _tables_in(rows, X)
    if depth and (hasattr(estimator, "get_params") or "estimator" in attributes):
        for inner_object in _inner_objects(attributes):
            yield from _stored_rows(inner_object, X, depth - 1)


def _inner_objects(attributes):
    """Yield the values of fitted attributes and ``steps`` of a model, or else its ``estimator``.

    Of a list or tuple, at most ``_MAX_MEMBERS`` members are yielded. ``attributes``: values of all
    attributes of the model, by name.
    """
    fitted_values = [
        value for name, value in attributes.items() if name.endswith("_") or name == "steps"
    ]
    for value in fitted_values or [attributes.get("estimator")]:  # of a frozen or calibrated model
        for item in value[:_MAX_MEMBERS] if isinstance(value, (list, tuple)) else [value]:
            yield item[1] if isinstance(item, tuple) and len(item) > 1 else item


def _tables_in(value, X, depth=3):
    """Yield the tables with the columns of ``X`` in a value, such as a fit parameter ``eval_set``.

    ``depth``: number of levels of nested lists that are inspected.
    """
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and depth:
        for item in value[:_MAX_MEMBERS]:
            yield from _tables_in(item, X, depth - 1)
    elif (is_frame(value) or getattr(value, "ndim", 0) == 2) and same_columns(value, X):
        yield value


def count_shared_rows(X, y, X_holdout, y_holdout):
    """Return the number of training records in the holdout, and the most that chance explains.

    If ``y`` is None, records are compared without targets. Chance explains the number of shared
    records that is expected from the equal records in the training set, plus four standard
    deviations, plus one record. It explains none if all training records are in the holdout, each
    at least as often as in the training set, unless they are all equal or at most half as many as
    the holdout records. Both numbers are 0 if the tables cannot be compared.
    """
    digests = _digests_of_both(X, y, X_holdout, y_holdout)
    if digests is None:
        return 0, 0
    training_digests, holdout_digests = digests
    distinct_digests, n_copies = np.unique(training_digests, return_counts=True)
    n_shared = int(np.isin(training_digests, holdout_digests).sum())
    if (
        n_shared == training_digests.size
        and distinct_digests.size > 1
        and 2 * n_shared > holdout_digests.size
    ):
        # A random sample of a discrete population hardly ever has every record at most as often as
        # another sample of this size.
        distinct_holdout_digests, n_holdout_copies = np.unique(holdout_digests, return_counts=True)
        positions = np.searchsorted(distinct_holdout_digests, distinct_digests)
        if np.all(n_holdout_copies[positions] >= n_copies):
            return n_shared, 0
    probabilities = _probabilities_of_equal_records(n_copies, holdout_digests.size)
    expected_n_shared = float((n_copies * probabilities).sum())
    # Twice: for the number of shared records, and for the error of the estimated probabilities.
    variance = 2.0 * float((n_copies**2 * probabilities * (1.0 - probabilities)).sum())
    return n_shared, math.floor(expected_n_shared + 4.0 * math.sqrt(variance) + 1.0)


def _digests_of_both(X, y, X_holdout, y_holdout):
    """Return digests of training and of holdout records, or None if they cannot be compared.

    The columns of two frames are compared by the names that both have, others by position. If ``y``
    is None, targets are left out.
    """
    shared_names = None
    if all(hasattr(table, "iloc") and hasattr(table, "columns") for table in (X, X_holdout)):
        shared_names = {*map(str, X.columns)}.intersection(map(str, X_holdout.columns)) or None
    try:
        if (
            shared_names is None
            and len({_as_table(table).shape[1] for table in (X, X_holdout)}) > 1
        ):
            return None
        training_digests = row_digests(X, y, names=shared_names)
        holdout_digests = row_digests(
            X_holdout, None if y is None else y_holdout, names=shared_names
        )
    except (TypeError, ValueError):  # cells that cannot be hashed, or ragged rows
        return None
    return (
        (training_digests, holdout_digests)
        if training_digests.size and holdout_digests.size
        else None
    )


def _probabilities_of_equal_records(n_copies, n_holdout):
    """Return for each distinct training record the probability that a holdout has an equal one.

    It is an estimate, or an upper bound if the holdout is at least as large as the training set.
    ``n_copies``: how often each distinct record is in the training set.
    """
    # The probability that a random subset of the other training records, as large as the holdout,
    # contains an equal one is hypergeometric, and an unbiased estimate. If there are fewer other
    # training records than that, the rate of equal pairs gives an upper bound (Jensen).
    n_training = int(n_copies.sum())
    n_others = n_training - 1
    if n_holdout <= n_others:
        # The probability is computed once for each distinct number of copies.
        distinct_n_copies, inverse_indices = np.unique(n_copies, return_inverse=True)
        return 1.0 - hypergeom.pmf(0, n_others, distinct_n_copies - 1, n_holdout)[inverse_indices]
    equal_pair_rate = float((n_copies * (n_copies - 1.0)).sum()) / max(n_training * n_others, 1)
    return np.full(n_copies.shape, 1.0 - (1.0 - equal_pair_rate) ** n_holdout)


def row_digests(X, y=None, *, names=None):
    """Return a 64-bit digest of each record, shape (n_records,).

    Records with equal numbers and texts have equal digests in all containers. Numbers that are
    equal in single precision count as equal. ``names``: set of the columns of a frame to hash, by
    name. None: all columns, by position. With ``y``, targets are a part of the record. Raises
    TypeError or ValueError for data that cannot be hashed.
    """
    if sp.issparse(X):
        nonzero_cells = X.tocoo(copy=True)
        nonzero_cells.sum_duplicates()
        digests = np.zeros(X.shape[0], np.uint64)
        column_salts = np.array([_salt(str(column)) for column in range(X.shape[1])], np.uint64)
        hashes = _hash_cells(nonzero_cells.data, column_salts[nonzero_cells.col])
        np.add.at(digests, nonzero_cells.row, hashes)
    elif names is None:
        digests = _sum_cell_hashes(_as_table(X), "")
    else:
        X = X.iloc[:, [str(name) in names for name in X.columns]]
        digests = _sum_cell_hashes(_as_table(X), "name ", map(str, X.columns))
    return digests if y is None else digests + _sum_cell_hashes(_as_table(y), "target ")


def _sum_cell_hashes(table, prefix, names=None):
    """Return for each row the sum of its cells' 64-bit hashes, modulo 2^64.

    The hash of a cell depends on its value, on ``prefix``, and on the name of its column, or on the
    position of its column if ``names`` is None. Raises ValueError for a table without columns.
    """
    column_labels = list(range(table.shape[1]) if names is None else names)
    if not column_labels:
        raise ValueError("no columns")
    column_salts = np.array([_salt(f"{prefix}{label}") for label in column_labels], np.uint64)
    row_sums = np.zeros(len(table), np.uint64)
    is_array = isinstance(table, np.ndarray)
    block_size = _COLUMNS_PER_BLOCK if is_array and table.dtype.kind in "biuf" else 1
    for start in range(0, len(column_labels), block_size):
        block = slice(start, start + block_size)
        cells = table[:, block] if is_array else table.iloc[:, start].to_numpy()[:, None]
        row_sums += _hash_cells(cells, column_salts[block]).sum(axis=1, dtype=np.uint64)
    return row_sums


def _hash_cells(cells, salts):
    """Return a 64-bit hash of each cell with the salt of its column, 0 for zeros."""
    codes = cell_codes(cells)
    return np.where(codes == 0, np.uint64(0), splitmix64(codes, salts))


def _as_table(data):
    """Return data as a table: frames and sparse matrices unchanged, others as a 2-D array.

    The first axis of the array is that of the records.
    """
    data = as_single_array(data)
    if sp.issparse(data) or (hasattr(data, "iloc") and hasattr(data, "columns")):
        return data
    if not hasattr(data, "__array__"):  # cells of lists with several types keep their types
        data = np.asarray(list(data), dtype=object)
    data = np.asarray(data)
    return data.reshape(len(data), -1)


def cell_codes(cells, *, single_precision=True):
    """Return a 64-bit code of each cell: 0 for zero, one code for all missing values.

    ``single_precision``: whether numbers in numeric arrays are rounded to single precision before.
    """
    # Extension types of pandas (categories, strings, masked numbers) become arrays of objects.
    has_numpy_dtype = isinstance(getattr(cells, "dtype", None), np.dtype)
    cells = np.asarray(cells, dtype=None if has_numpy_dtype else object)
    if cells.dtype.kind in "biuf":
        values = cells.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = values.astype(np.float32).astype(np.float64) if single_precision else values
        codes = (rounded + 0.0).view(np.uint64)  # -0.0 is 0.0
        return np.where(np.isnan(values), _MISSING_CODE, codes)
    if cells.dtype.kind in "mM":
        return np.where(np.isnat(cells), _MISSING_CODE, cells.astype(np.int64).view(np.uint64))
    code_of_cell = {}
    codes = [_cell_code(cell, code_of_cell) for cell in cells.ravel().tolist()]
    return np.array(codes, dtype=np.uint64).reshape(cells.shape)


def _cell_code(cell, code_of_cell):
    """Return the 64-bit code of a cell of any type; text such as "1.5" has the code of the number.

    ``code_of_cell``: codes of earlier cells, to which this code is added.
    """
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return _MISSING_CODE
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
    """Return the 64-bit hash of a text."""
    return np.uint64(text_code(text))


def splitmix64(codes, salt):
    """Return a hash of each code with a salt (finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        bits = (codes ^ salt) * np.uint64(0x9E3779B97F4A7C15) + salt
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def forget_answered_targets() -> None:
    """Forget the holdouts that answered queries in this process."""
    ANSWERED_TARGETS.clear()


def targets_digest(X: Any, y: Any) -> str | None:
    """Return a digest that identifies a holdout by its targets in order, or None.

    If some targets are equal, and equal ones are always adjacent, the digest includes the features.
    None for fewer than 20 targets, in worker processes, and inside the fits of a search or
    cross-validation.
    """
    if num_samples(y) < _MIN_TARGETS or multiprocessing.parent_process() or inside_validation():
        return None
    labels = np.asarray(y)
    labels = labels.astype(float) if labels.dtype.kind in "biu" else labels
    labels = labels.ravel() if labels.size == len(labels) else labels
    has_runs = labels.ndim == 1 and (labels[1:] == labels[:-1]).any()
    if has_runs and is_sorted_by_label(labels):  # many tables of that size have the same targets
        return data_digest(X, labels)
    return data_digest(labels)


def has_other_holdout(target_digests: set[str], get_row_digests: Callable[[], Any]) -> bool:
    """Return whether another holdout of this process, of the same data, answered queries.

    ``target_digests``: results of :func:`targets_digest` for the holdout, and for all records
    before a split. ``get_row_digests()``
    returns the pair of row digests with and without targets. A subset of another holdout is also
    detected, if it has at least 20 different rows.
    """
    if not ANSWERED_TARGETS.keys().isdisjoint(target_digests):
        return True
    digest_pair = get_row_digests() if ANSWERED_TARGETS and target_digests else None
    if not digest_pair or len(np.unique(digest_pair[0])) < _MIN_TARGETS:
        return False
    return any(
        answered_pair and np.isin(digest_pair[0], answered_pair[0]).mean() > _MIN_SHARED_FRACTION
        for answered_pair in _answered_digest_pairs()
    )


def _answered_digest_pairs():
    """Yield for each holdout that answered queries its row digests, with and without targets.

    None for a holdout whose records are not known any more.
    """
    for target_digest, digest_pair in ANSWERED_TARGETS.items():
        if callable(digest_pair):  # not computed yet
            digest_pair = digest_pair()
            ANSWERED_TARGETS[target_digest] = digest_pair
        yield digest_pair


def is_sorted_by_label(labels: Any) -> bool:
    """Return whether equal labels are adjacent, as in a table sorted by label."""
    run_labels = labels[np.r_[True, labels[1:] != labels[:-1]]]  # label of each run
    # The first 1,000 runs are checked first, to save time.
    return all(
        np.unique(checked_labels).size == checked_labels.size
        for checked_labels in (run_labels[:1000], run_labels)
    )
