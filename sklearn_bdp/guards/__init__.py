"""Checks against careless use: what each reads, when it runs, what it says (theory G21).

A function of training-side facts is free. What reads the holdout says one of a few words, is
recorded and charged.
"""

from sklearn_bdp.guards._accounts import (
    ANOTHER,
    fitting_a_candidate,
    forget_accounts,
    note_answers,
    open_account,
    targets_digest,
)
from sklearn_bdp.guards._choice import ALL, CLIPPED, WIDE, share_of, warn_clipped, warn_of_choice
from sklearn_bdp.guards._columns import ADDED, FORM, check_agreement, same_columns
from sklearn_bdp.guards._dates import check_future, check_sorted, is_dates
from sklearn_bdp.guards._dependence import (
    CUT,
    FEW,
    MISFIT,
    check_folds,
    compare_dependence,
    declaration_hints,
    warn_few_groups,
    warn_of,
)
from sklearn_bdp.guards._guard import Guard, table
from sklearn_bdp.guards._reading import (
    ANEW,
    GROUPS,
    MIXED,
    WORDS,
    KnownRows,
    TrainingSide,
    kept_rows,
    tables_in,
)
from sklearn_bdp.guards._row_wise import (
    BATCHES,
    FAILS,
    RowWiseCheck,
    may_read_other_rows,
    reads_other_rows,
)
from sklearn_bdp.guards._split import COPIES, check_copies, check_orders

__all__ = ["GUARDS", "Guard", "table"]

#: Every guard, as the page of guards lists them.
GUARDS = (
    *WORDS.values(), MIXED, FORM, ANOTHER, COPIES, MISFIT, FEW, CUT, BATCHES, FAILS, CLIPPED, WIDE,
)  # fmt: skip
