"""Copies: equal records on both sides of a split that no discrete population explains.

A table that was oversampled or drawn with replacement holds records several times, and so does
each part of it: that training records equal one another is then no sign of a population with equal
records. What tells them apart is what is nearly equal. Where chance makes equal records (binary
columns, few categories, counts), it makes more that differ in one column only; copies of records
that stand by themselves have no neighbours.
"""

import numpy as np
import scipy.sparse as sp

from sklearn_bdp._digests._rows import cell_codes, column_digest, column_getter

#: Copies below which nothing is said: so many records, and this share of the holdout.
FEWEST, SMALLEST_SHARE = 5, 0.02
#: Columns in which whatever is near a record must differ from it (one category may be coded in
#: two): all, where there are fewer.
_APART = 3
#: Columns compared, at each stage: nearly all pairs of records differ in the first few already.
_STAGES = (8, 64, 4096)
#: Equal records whose neighbours are looked for, among so many others, in so many columns.
_LOOKED_AT, _OTHERS, _COLUMNS = 30, (500, 20_000), 64


def count_copies(X, y, X_holdout, y_holdout):
    """Return how many holdout records stand in the training part, too; 0 where chance may do it.

    Sparse data, texts and single columns are not looked at; copies that are too few to move a
    score count as none.
    """
    if sp.issparse(X) or sp.issparse(X_holdout):
        return 0
    try:
        width, column = _stacked(X, X_holdout)
        if width < 2:
            return 0
        targets = []
        if y is not None:
            outputs, target = _stacked(y, y_holdout)
            targets = [target(place) for place in range(outputs)]
        n, held = len(column_getter(X)[1](0)), len(column_getter(X_holdout)[1](0))
        side = np.repeat([False, True], [n, held])
        least = max(FEWEST, SMALLEST_SHARE * held)
        if not n or not held:
            return 0
        rows, digests = _on_both_sides(width, column, targets, side, least)
        if not rows.size:
            return 0
        alone = _stand_alone(width, column, targets, rows, digests)
    except (TypeError, ValueError):  # cells without values, ragged rows: nothing to compare
        return 0
    # Of the equal records that were looked at, most.
    sure = np.count_nonzero(alone) >= FEWEST and 2 * np.count_nonzero(alone) > alone.size
    return int(np.count_nonzero(side[rows])) if sure else 0


def _stacked(first, second):
    """Return how many columns two tables have, and what gives one of both by its place."""
    width, column = column_getter(first)
    other, below = column_getter(second)
    if width != other:
        raise ValueError("tables of one width")
    return width, lambda place: _joined(column(place), below(place))


def _joined(above, below):
    """Return two columns as one; numbers and text next to each other stay what they are."""
    if above.dtype.kind not in "biuf" or below.dtype.kind not in "biuf":
        above, below = above.astype(object), below.astype(object)
    return np.concatenate([above, below])


def _on_both_sides(width, column, targets, side, least):
    """Return the records whose values stand on both sides, with a digest of each."""
    rows, total = np.arange(side.size), np.zeros(side.size, np.uint64)
    for place, target in enumerate(targets):
        total = total + column_digest(target, f"target {place}")
    done = np.array([], dtype=int)
    # Records that differ in a few columns are done with; only the others are looked at again.
    for count in _STAGES:
        places = np.setdiff1d(_spread(width, count), done)
        for place in places:
            total = total + column_digest(column(place)[rows], str(place))
        both = np.intersect1d(total[side[rows]], total[~side[rows]])
        stay = np.isin(total, both)
        rows, total, done = rows[stay], total[stay], np.concatenate([done, places])
        if np.count_nonzero(side[rows]) < least:
            return rows[:0], total[:0]
    return rows, total


def _stand_alone(width, column, targets, rows, digests):
    """Return whether some of the equal records have no others near them, one entry for each."""
    first = np.unique(digests, return_index=True)[1]
    chosen = rows[first[_spread(first.size, _LOOKED_AT)]]
    places = _spread(width, _COLUMNS)
    codes = [cell_codes(values) for values in (*targets, *map(column, places))]
    alone = np.ones(chosen.size, dtype=bool)
    for count in _OTHERS:  # the first few have a neighbour already, where chance is at work
        others, apart = _spread(codes[0].size, count), 0
        for each in codes:
            apart = apart + (each[chosen[alone], np.newaxis] != each[others]).astype(np.uint8)
        alone[alone] = ~((apart > 0) & (apart < min(_APART, places.size))).any(axis=1)
    return alone


def _spread(width, count):
    """Return the places of so many columns (or rows), evenly spread."""
    return np.unique(np.linspace(0, width - 1, min(count, width)).round().astype(int))
