"""Records recognised by their values: training rows that are holdout rows.

A record is the same record in another order, type of number, container or column order, and next
to missing values. Its digest is a sum over columns of a hash of (column, value), so that columns
may come in any order where they have names, and the zeros of sparse data need not be looked at.
Digests of holdout records stay in the process; nobody is shown one.
"""

import functools
import hashlib
import math
import numbers

import numpy as np
import scipy.sparse as sp
from scipy.stats import hypergeom

from sklearn_bdp._digests import as_one_array

_TOGETHER = 64  # columns of numbers that are hashed at a time
_MISSING = np.uint64(0x7FF8DEADBEEF0001)


def count_shared_rows(X, y, X_holdout, y_holdout):
    """Return how many training records are holdout records, and how many chance explains.

    Where ``y`` is None, records are compared without targets. Where a population holds equal
    records, training records equal one another as well: chance explains the number expected from
    those, four standard deviations and one more record; nothing where the training records are, as
    a whole, the holdout or a part of it that chance cannot have picked.
    """
    found = _both_digests(X, y, X_holdout, y_holdout)
    if found is None:
        return 0, 0
    ours, theirs = found
    values, counts = np.unique(ours, return_counts=True)
    if ours.size == 0 or theirs.size == 0:
        return 0, 0
    shared = int(np.isin(ours, theirs).sum())
    if shared == ours.size and values.size > 1 and _is_part(values, counts, theirs):
        return shared, 0
    chances = _chances(counts, ours.size, theirs.size)
    expected = float((counts * chances).sum())
    # Twice: once for the records that meet, once because the rate itself is estimated.
    variance = 2.0 * float((counts**2 * chances * (1.0 - chances)).sum())
    return shared, math.floor(expected + 4.0 * math.sqrt(variance) + 1.0)


def row_digests(X, y=None, *, names=None):
    """Return a 64-bit digest of each record: equal for equal records, whatever they are kept in.

    Numbers count to single precision. ``names``: columns of a frame to look at; ``None``: all
    columns, known by their places.
    """
    if sp.issparse(X):
        cells, total = X.tocoo(), np.zeros(X.shape[0], np.uint64)
        salts = np.array([_salt(str(place)) for place in range(X.shape[1])], np.uint64)
        np.add.at(total, cells.row, column_digest(cells.data, salts[cells.col]))
    else:
        plain = as_one_array(X)
        fast = type(plain) is np.ndarray and plain.ndim == 2 and plain.dtype.kind in "biuf"
        width, column = column_getter(plain if fast else X)
        labels = dict(enumerate(map(str, range(width))))
        if names is not None:
            labels = {p: f"name {n}" for p, n in enumerate(map(str, X.columns)) if n in names}
        if not labels:
            raise ValueError("no columns")
        if not fast:
            total = sum(column_digest(column(p), _salt(label)) for p, label in labels.items())
        else:
            salts = np.array([_salt(label) for label in labels.values()], np.uint64)
            plain = plain if names is None else plain[:, list(labels)]
            total = np.zeros(len(plain), np.uint64)
            for start in range(0, len(labels), _TOGETHER):
                block = slice(start, start + _TOGETHER)
                total += column_digest(plain[:, block], salts[block]).sum(axis=1, dtype=np.uint64)
    if y is not None:
        width, column = column_getter(y)
        for place in range(width):
            total = total + column_digest(column(place), _salt(f"target {place}"))
    return total


def _both_digests(X, y, X_holdout, y_holdout):
    """Return digests of both sets of records over the columns they share, or None."""
    ours, theirs = _names(X), _names(X_holdout)
    names = None if ours is None or theirs is None else set(ours).intersection(theirs) or None
    try:
        if names is None and _width(X) != _width(X_holdout):
            return None
        targets = None if y is None else y_holdout
        return row_digests(X, y, names=names), row_digests(X_holdout, targets, names=names)
    except (TypeError, ValueError):  # cells without values, ragged rows: nothing to compare
        return None


def _chances(counts, n, n_holdout):
    """Return the chance that a fresh sample holds a record equal to one of each kind.

    Of the other training records a random set as large as the holdout holds an equal one with a
    hypergeometric chance, which is free of bias. Where there are fewer others than that, the rate
    of equal pairs gives an upper bound (Jensen).
    """
    others = n - 1
    if n_holdout <= others:
        kinds, kind = np.unique(counts, return_inverse=True)  # nearly all records are alone
        return 1.0 - hypergeom.pmf(0, others, kinds - 1, n_holdout)[kind]
    pairs = float((counts * (counts - 1.0)).sum()) / max(n * others, 1)
    return np.full(counts.shape, 1.0 - (1.0 - pairs) ** n_holdout)


def _is_part(values, counts, theirs):
    """Return whether these rows are rows of the holdout one by one, so many that chance is out."""
    known, times = np.unique(theirs, return_counts=True)
    places = np.searchsorted(known, values)
    inside = bool(np.all(times[places] >= counts))
    # Of a large discrete population a sample as large hardly ever stays within another's counts.
    return inside and int(counts.sum()) * 2 > theirs.size


def _names(X):
    columns = getattr(X, "columns", None)
    return None if columns is None or not hasattr(X, "iloc") else [str(name) for name in columns]


def _width(X):
    return X.shape[1] if sp.issparse(X) else column_getter(X)[0]


def column_getter(data):
    """Return how many columns records have, and what gives one by its place."""
    if hasattr(data, "iloc"):
        if not hasattr(data, "columns"):
            return 1, lambda place: data.to_numpy()
        return data.shape[1], lambda place: data.iloc[:, place].to_numpy()
    data = _as_array(data)
    if data.ndim == 1:
        return 1, lambda place: data
    flat = data.reshape(data.shape[0], -1)
    return flat.shape[1], lambda place: flat[:, place]


def column_digest(column, salt):
    """Return a hash of each cell of a column under a salt; zeros count nothing."""
    codes = cell_codes(column)
    return np.where(codes == 0, np.uint64(0), mixed(codes, salt))


def _as_array(data):
    """Return lists as an array whose cells keep their types."""
    if hasattr(data, "__array__"):
        return np.asarray(data)
    rows = list(data)
    plain = any(isinstance(row, str | bytes) or not hasattr(row, "__len__") for row in rows)
    if not plain and len({len(row) for row in rows}) != 1:
        raise ValueError("rows of one length")
    cells = np.empty(len(rows) if plain else (len(rows), len(rows[0])), dtype=object)
    for place, row in enumerate(rows):
        cells[place] = row if plain else list(row)
    return cells


def cell_codes(column, *, single=True):
    """Return a 64-bit code of each cell: 0 for zero, one code for all that is missing.

    ``single``: numbers count to single precision.
    """
    # A type of pandas (categories, strings, masked numbers) has objects in its cells.
    plain = isinstance(getattr(column, "dtype", None), np.dtype)
    column = np.asarray(column, dtype=None if plain else object)
    if column.dtype.kind in "biuf":
        return _number_codes(column.astype(np.float64), single)
    if column.dtype.kind in "mM":
        codes = column.astype(np.int64).view(np.uint64)
        return np.where(np.isnat(column), _MISSING, codes)
    known = {}
    return np.array([_cell_code(cell, known) for cell in column.tolist()], dtype=np.uint64)


def _number_codes(numbers, single=True):
    """Return the bits of numbers, in single precision so that a copy in it is the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = numbers.astype(np.float32).astype(np.float64) if single else numbers
    codes = (rounded + 0.0).view(np.uint64)  # -0.0 is 0.0
    return np.where(np.isnan(numbers), _MISSING, codes)


def _cell_code(cell, known):
    """Return the code of a cell of any type; text that reads as a number is that number."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return _MISSING
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "surrogateescape")
    cell = cell if isinstance(cell, str | numbers.Real) else str(cell)
    if cell not in known:
        try:
            known[cell] = _number_codes(np.array([float(cell)]))[0]
        except (ValueError, OverflowError):
            known[cell] = _salt(f"text {cell}")
    return known[cell]


@functools.lru_cache(maxsize=1024)
def _salt(text):
    return np.uint64(
        int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    )


def mixed(codes, salt):
    """Return a hash of each code under a salt (splitmix64's finaliser)."""
    with np.errstate(over="ignore"):
        bits = (codes ^ salt) * np.uint64(0x9E3779B97F4A7C15) + salt
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
