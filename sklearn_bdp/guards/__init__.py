"""Checks against careless use: what each reads, when it runs, what it reports (theory G21).

Guards that read the training set are free. Guards that read the holdout report one of a few
words, which is recorded and charged.
"""

from sklearn_bdp.guards._answers import (
    ALL,
    ANOTHER,
    DEFAULT_METRIC,
    forget_accounts,
    share_of,
    targets_digest,
    warn_clipped,
    warn_of_choice,
)
from sklearn_bdp.guards._dependence import (
    check_folds,
    compare_dependence,
    warn_few_groups,
    warn_of,
)
from sklearn_bdp.guards._guard import GUARDS, Guard
from sklearn_bdp.guards._row_wise import (
    RowWiseCheck,
    check_later_rows,
    foreign_parts,
    reads_other_rows,
)
from sklearn_bdp.guards._rows import (
    ANEW,
    FINDINGS,
    KnownRows,
    TrainingRecords,
    cell_codes,
    count_shared_rows,
    mixed,
    row_digests,
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
