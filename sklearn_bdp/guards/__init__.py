"""Checks against careless use: what each reads, what it reports (theory G21).

Guards that read the training set are free. Guards that read the holdout report one of a few
words, which is recorded and charged.
"""

from sklearn_bdp.guards._guard import GUARDS, Guard
from sklearn_bdp.guards._rows import (
    ANEW,
    ANOTHER,
    FINDINGS,
    KnownRows,
    TrainingRecords,
    answered_before,
    cell_codes,
    count_shared_rows,
    forget_accounts,
    mixed,
    row_digests,
    targets_digest,
)
from sklearn_bdp.guards._scores import (
    ALL,
    CUT,
    DEFAULT_METRIC,
    RowWiseCheck,
    check_later_rows,
    compare_dependence,
    foreign_parts,
    reads_other_rows,
    warn_clipped,
    warn_few_groups,
    warn_of,
    warn_of_choice,
)
from sklearn_bdp.guards._tables import (
    ADDED,
    check_agreement,
    check_future,
    check_orders,
    check_sorted,
    declaration_hints,
)

__all__ = ["GUARDS", "Guard"]
