"""What stands on both sides of a split and should not, and what is not in the order of the records.

One warning for each cause; what is certainly wrong is an error before anything is asked.
"""

import warnings
from dataclasses import replace

from sklearn_bdp._checks import caller_level, check_order
from sklearn_bdp._digests import count_copies
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.correlation import (
    check_correlation,
    check_order_of_groups,
    count_shared_labels,
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


def check_orders(owner, X, y, /, *, X_val=None, y_val=None, **beside):
    """Raise where what comes beside the records (groups, weights …) names them in another order."""
    for name, values in {"y": y, **beside}.items():
        check_order(name, values, X)
    check_order("y_val", y_val, X_val, of="X_val")
    for records in (X, X_val):
        check_order_of_groups("correlation", owner.correlation, records)


def check_copies(division):
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
        UserWarning,
        stacklevel=caller_level(),
    )
    return _assuming(division, COPIED.format(count=count, held=held))


def check_groups(division, groups):
    """Return the division, having said so where groups of the holdout have training records.

    Of records that the caller divided; splits made here keep groups whole.
    """
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
        UserWarning,
        stacklevel=caller_level(),
    )
    return _assuming(division, ANEW.format(count=count, total=total))


def _assuming(division, said):
    """Return the division with one more assumption for the certificate."""
    return replace(division, assumption="; ".join(filter(None, (division.assumption, said))))
