"""What was done to data since a model was last scored on them, and the same done to a holdout.

Permutation importance and its relatives score one fitted model on altered copies of its data. What
was altered is recognised by comparing with the first data, and carried over to the holdout records.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from sklearn_bdp._digests import data_digest
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.guards import cell_codes, mixed
from sklearn_bdp.holdout import query_key

_SALT = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class Alteration:
    """Columns whose values were shuffled among rows, or set to one value."""

    shuffled: tuple = ()  # place of a column, digest of its values in their order
    constant: tuple = ()  # place of a column, code of its only value

    def __bool__(self):
        return bool(self.shuffled or self.constant)

    def key(self, model):
        """Return the key of the query about a model with these columns altered."""
        return model and query_key("altered", model, self.shuffled, self.constant)


def column_codes(X, *, single=False):
    """Return a 64-bit code of each cell, shape (n, n_features); equal values have equal codes.

    ``None`` for data without columns (lists of texts) and for sparse data. With ``single``, numbers
    are rounded to single precision, so that a copy in single precision is recognised.
    """
    shape = getattr(X, "shape", None)
    if hasattr(X, "tocsr") or len(np.shape(X) if shape is None else shape) != 2:
        return None
    X = X if hasattr(X, "iloc") else np.asarray(X)
    plain = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
    columns = [X]
    if not plain:
        at = X.iloc if hasattr(X, "iloc") else X
        columns = [np.asarray(at[:, place]) for place in range(X.shape[1])]
    codes = [cell_codes(column, single=single) for column in columns]
    return mixed(np.column_stack(codes), _SALT) if X.shape[1] else None


def recognise(reference, reference_y, X, y):
    """Return what was altered in ``X`` since the reference, ``None`` for other rows.

    Of some of the rows it is only known that none was altered. Raises ValueError where some columns
    are the same and others are not, in a way that cannot be carried over to other records.
    """
    # In the precision of the less precise one.
    single = _is_single(X) != _is_single(reference)
    same_targets = np.array_equal(np.asarray(reference_y), np.asarray(y))
    places = _unequal(reference, X) if same_targets else None
    tables = (reference, X) if places is None else (reference[:, places], X[:, places])
    before, after = (column_codes(table, single=single) for table in tables)
    if before is None or after is None or before.shape[1] != after.shape[1]:
        same = before is None and after is None and data_digest(reference) == data_digest(X)
        return Alteration() if same else None
    if len(before) == len(after) and same_targets:
        shuffled, constant, unexplained = [], [], []
        for at in np.flatnonzero((before != after).any(axis=0)).tolist():
            place, column = at if places is None else int(places[at]), after[:, at]
            if np.array_equal(np.sort(before[:, at]), np.sort(column)):
                shuffled.append((place, int(ordered(column[:, None])[0])))
            elif (column == column[0]).all():
                constant.append((place, int(column[0])))
            else:
                unexplained.append(place)
        if not unexplained:
            return Alteration(tuple(shuffled), tuple(constant))
        if len(unexplained) == X.shape[1]:
            return None
        raise ValueError(
            "X must be the data that this model was scored on before, other rows, or the same rows "
            "with columns shuffled or set to one value, got other values in the columns "
            f"{unexplained} (counted from 0), which cannot be carried over to the holdout. Columns "
            "need unique names in permutation_importance. Nothing was spent."
        )
    if not len(after) < len(before):
        return None
    places = np.arange(1, before.shape[1] + 1, dtype=np.uint64) * _SALT
    known, rows = (mixed(codes, places).sum(axis=1) for codes in (before, after))
    return Alteration() if np.isin(rows, known).all() else None


def _unequal(reference, X):
    """Return the places of columns whose numbers differ; None where all cells must be coded."""
    plain = type(reference) is type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "biuf"
    if not plain or (reference.dtype, reference.shape) != (X.dtype, X.shape):
        return None
    places = np.flatnonzero((reference != X).any(axis=0))
    return places if 0 < places.size < X.shape[1] else None


def find_columns(seen, X):
    """Return the places of the columns of ``X`` among those of data with the same rows, or None.

    Selectors pass arrays without names; a column is found by its values, unless several have the
    same.
    """
    codes = column_codes(X)
    if codes is None or len(codes) != seen[0]:
        return None
    order = {}
    for place, digest in enumerate(seen[1].tolist()):
        order.setdefault(digest, []).append(place)
    found = [order.get(digest, []) for digest in ordered(codes).tolist()]
    if any(len(places) != 1 for places in found):
        return None
    return [places[0] for places in found]


def altered_records(records, X, alteration):
    """Return holdout records with columns altered as those of ``X`` were.

    Shuffled columns are replaced by draws from the training columns, which are public: one row of
    ``X`` is drawn for each record and gives all of them, seeded by the shuffled data, so that the
    same query always has the same answer.
    """
    digest = hashlib.sha256(repr(alteration.shuffled).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    rows = rng.integers(num_samples(X), size=num_samples(records))
    first = np.zeros(num_samples(records), dtype=int)
    changes = [(place, rows) for place, _ in alteration.shuffled]
    changes += [(place, first) for place, _ in alteration.constant]
    X = X if hasattr(X, "iloc") else np.asarray(X)
    replaced = records.copy() if hasattr(records, "iloc") else np.array(records)
    if not hasattr(replaced, "iloc") and not hasattr(X, "iloc"):
        replaced = replaced.astype(np.result_type(replaced, X), copy=False)
    for place, drawn in changes:
        column = X.iloc[drawn, place] if hasattr(X, "iloc") else X[drawn, place]
        if not hasattr(replaced, "iloc"):
            replaced[:, place] = column
        else:
            named = hasattr(column, "set_axis")
            replaced.isetitem(place, column.set_axis(replaced.index) if named else column)
    return replaced


def _is_single(X):
    """Return whether numbers are kept in single precision or less."""
    kinds = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", np.dtype(float))]
    return any(getattr(k, "kind", "O") == "f" and k.itemsize < 8 for k in kinds)


def ordered(codes):
    """Return a digest of each column: its values and their order."""
    places = np.arange(1, len(codes) + 1, dtype=np.uint64) * _SALT
    return mixed(codes, places[:, None]).sum(axis=0)
