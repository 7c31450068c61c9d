"""Checks against careless use; what each reads, says and costs (theory G21)."""

from sklearn_bdp.guards._accounts import (
    fitting_a_candidate,
    forget_accounts,
    note_answers,
    open_account,
    targets_digest,
)
from sklearn_bdp.guards._choice import ALL, share_of, warn_clipped, warn_of_choice
from sklearn_bdp.guards._columns import ADDED, check_agreement
from sklearn_bdp.guards._dates import check_future, check_sorted, gap_hints, last_date
from sklearn_bdp.guards._dependence import (
    compare_dependence,
    declaration_hints,
    warn_few_groups,
    warn_of,
)
from sklearn_bdp.guards._row_wise import (
    RowWiseCheck,
    may_read_other_rows,
    reads_other_rows,
)
from sklearn_bdp.guards._shared_rows import kept_rows, refuse_shared_rows
from sklearn_bdp.guards._split import check_orders, check_sides, classes_of

__all__ = ["RowWiseCheck"]
