"""What stands on both sides of a split and should not, and what is not in the order of the records.

One warning for each cause; what is certainly wrong is an error before anything is asked.
"""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import is_classifier

from sklearn_bdp._checks import caller_level, check_order
from sklearn_bdp._digests import count_copies
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.correlation import (
    check_correlation,
    check_order_of_groups,
    count_shared_labels,
)
from sklearn_bdp.exceptions import (
    CopiedRecordsWarning,
    MissingClassesWarning,
    SharedGroupsWarning,
)

#: What copies mean, for the certificate.
COPIED = (
    "{count:,} of {held:,} holdout records are no copies of training records, though they are "
    "equal to some and to nothing else: otherwise intervals speak of records that models have seen"
)
#: What has to be true where labels of groups stand on both sides.
ANEW = (
    "the {count:,} of {total:,} groups of the holdout whose labels the training part has, too, are "
    "other groups (labels given anew on each side)"
)
_PER_RECORD = ("groups", "sample_weight")
#: Chance below which a class of the training part is missing from the holdout for a reason.
_NO_CHANCE = 1e-3


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


def check_sides(estimator, division, groups, *, copies=True):
    """Return the division, having said what stands on both sides; ``copies``: equal records, too.

    Splits made here keep groups whole, and say themselves which classes they lack.
    """
    if division.train is None:
        _check_classes(estimator, division)
        division = _check_groups(division, groups)
    return _check_copies(division) if copies else division


def _check_copies(division):
    """Return the division, having said so where holdout records are copies of training records."""
    count = count_copies(division.X, division.y, division.X_holdout, division.y_holdout)
    if not count:
        return division
    held = num_samples(division.X_holdout)
    warnings.warn(
        f"{count:,} of {held:,} holdout records also stand in the training part, values and "
        "targets alike, and nothing near them does: they look like copies (a table that was "
        "oversampled, or drawn with replacement). Models know these records, so scores and "
        "intervals are too good for new ones. Remove the copies and oversample "
        "inside the pipeline, or hold copies together by correlation='groups' and one label per "
        "original in groups=.",
        CopiedRecordsWarning,
        stacklevel=caller_level(),
    )
    return _assuming(division, COPIED.format(count=count, held=held))


def _check_groups(division, groups):
    """Return the division, having said so where groups of the holdout have training records."""
    train = division.train_model
    if train is None and groups is not None and num_samples(groups) == num_samples(division.X):
        train = check_correlation("groups", groups=groups)
    count, total = count_shared_labels(division.model, train)
    if not count:
        return division
    warnings.warn(
        f"{count:,} of {total:,} groups of the holdout have labels that groups of the training "
        "part have, too. If they are the same groups (patients, users, sites ...), they stand on "
        "both sides: models know them, and scores and intervals are too good for new groups. Then "
        "divide whole groups (ReusableHoldoutSearchCV(..., correlation='groups').fit(X, y, "
        "groups=groups) does). If labels were given anew on each side, nothing is wrong; make them "
        "unique.",
        SharedGroupsWarning,
        stacklevel=caller_level(),
    )
    return _assuming(division, ANEW.format(count=count, total=total))


def _check_classes(estimator, division):
    """Say so where the classes of the two sides differ by more than chance.

    That a class is missing from the holdout is no news where it is rare. Classes that only the
    holdout has are counted, not named.
    """
    if not is_classifier(estimator) or division.y is None:
        return
    labels, held = classes_of(division.y), classes_of(division.y_holdout)
    if labels is None or held is None or _is_text(labels) != _is_text(held):
        return  # of other kinds: an error of its own
    known, counts = np.unique(labels, return_counts=True)
    there = np.unique(held)
    unknown = there.size - np.isin(there, known).sum()
    worth = division.model.effective_n(len(held))
    expected = (1.0 - counts / len(labels)) ** worth < _NO_CHANCE
    absent = known[~np.isin(known, there) & expected]
    if not unknown and not absent.size:
        return
    said = f"the holdout has {unknown} class(es) that the training part lacks" if unknown else ""
    if absent.size:
        shown = ", ".join(map(repr, absent[:3].tolist())) + (", ..." if absent.size > 3 else "")
        said += ", and " if unknown else ""
        said += f"the training part has {absent.size} class(es) that the holdout lacks ({shown})"
    warnings.warn(
        f"{said}. If labels are coded in another way on the two sides (0 and 1 here, 1 and 2 or -1 "
        "and 1 there), no score means anything, and answers are charged all the same: code y as "
        "the holdout's was. If not, no model can be right about classes it has not seen.",
        MissingClassesWarning,
        stacklevel=caller_level(),
    )


def classes_of(y):
    """Return one label per record; None where there is more than one output."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return labels if labels.ndim == 1 else None


def _is_text(labels):
    return labels.dtype.kind in "OUST" and isinstance(labels[0], str)


def _assuming(division, said):
    """Return the division with one more assumption for the certificate."""
    return replace(division, assumption="; ".join(filter(None, (division.assumption, said))))
