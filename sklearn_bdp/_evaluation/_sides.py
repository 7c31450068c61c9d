"""What stands on both sides of a split and should not: one warning for each cause."""

import warnings
from dataclasses import replace

from sklearn_bdp._checks import caller_level
from sklearn_bdp._digests import count_copies
from sklearn_bdp._sklearn_compat import num_samples

#: What copies mean, for the certificate.
COPIED = (
    "{count:,} of {held:,} holdout records are no copies of training records, though they are "
    "equal to some and to nothing else: otherwise intervals speak of records that models have seen"
)


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
    said = COPIED.format(count=count, held=held)
    return replace(division, assumption="; ".join(filter(None, (division.assumption, said))))
