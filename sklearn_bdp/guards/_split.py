"""What stands in a table and should not, or not in the order of the records."""

import numpy as np

from sklearn_bdp._checks import check_order
from sklearn_bdp._digests import count_copies
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.correlation import check_order_of_groups
from sklearn_bdp.exceptions import CopiedRecordsWarning
from sklearn_bdp.guards._guard import Guard

COPIES = Guard(
    "copies",
    "training set",
    "before the holdout is made",
    "Training records stand in X more than once, with equal targets and nothing near them. They "
    "look like copies (a table that was oversampled, or drawn with replacement), and other copies "
    "may be in the holdout. Then models know holdout records, and intervals are too good for new "
    "ones. Remove the copies and oversample inside the pipeline, or pass one label per original "
    "as groups= with correlation='groups'.",
    CopiedRecordsWarning,
)
#: What copies mean, for the certificate.
COPIED = (
    "no holdout record is a copy of a training record, though training records look like copies of "
    "one another: otherwise intervals speak of records that models have seen"
)
_PER_RECORD = ("groups", "sample_weight")


def check_orders(owner, X, y, /, *, X_val=None, y_val=None, **beside):
    """Raise where what comes beside the records (groups, weights …) names them in another order."""
    for name, values in {"y": y, **beside}.items():
        if name in _PER_RECORD and isinstance(values, str):
            raise TypeError(
                f"{name} must hold one value per record, got {name}={values!r}: pass the column "
                f"itself, as {name}=X[{values!r}]."
            )
        check_order(name, values, X)
    check_order("y_val", y_val, X_val, of="X_val")
    for records in (X, X_val):
        check_order_of_groups("correlation", owner.correlation, records)


def check_copies(X, y, model=None):
    """Return what the certificate assumes where training records are copies of one another.

    A table that was oversampled, or drawn with replacement, before it was divided has copies on
    both sides of the split. They are looked for between two halves of the training part, so that
    nothing is said of the holdout. ``model``: that of the training records.
    """
    n = num_samples(X)
    codes = np.arange(n)
    if model is not None and model.n_records == n:
        codes = model.components(n)  # records that are held together are copies of each other
    half = np.random.default_rng(0).permutation(codes.max() + 1)[codes] % 2
    sides = []
    for rows in (np.flatnonzero(half == 0), np.flatnonzero(half == 1)):
        sides += [safe_indexing(X, rows), None if y is None else safe_indexing(y, rows)]
    if not count_copies(*sides):
        return ""
    COPIES.warn()
    return COPIED
