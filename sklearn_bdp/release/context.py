"""Training records and earlier records that are known beside a holdout."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple


class PastRecords(NamedTuple):
    """Records before a holdout, in time order."""

    X: Any
    y: Any
    dates: Any  # numbers of their dates, ascending and below 0: the first holdout date is 0


class CVData(NamedTuple):
    """Training records and the folds that models are cross-validated on."""

    X: Any
    y: Any
    groups: Any = None  # of the training records alone, or None
    #: Pairs ``(train, test)`` of the folds as the search drew them. They are positions in the table
    #: of the training records alone, ``X[rows]``. None: five folds.
    folds: Any = None
    rows: Any = None  # positions of the training records in X and y, or None: all


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HoldoutContext:
    """Public records that accompany a holdout.

    A pickle of the holdout does not keep ``past_records`` and ``cv_data``.

    Parameters
    ----------
    past_records : PastRecords or None, default=None
        In time order, the records before the holdout.
    cv_data : CVData or None, default=None
        Training records and folds of the latest search.
    dry_run_sample : tuple (X, y) or None, default=None
        Some training records, on which a final report tries models before it queries the holdout.
        Without features, ``X`` has no columns, and ``y`` are public targets.
    both_parts_given : bool, default=False
        Whether one fit was given both the training records and the holdout records.
    node_matching : NodeMatching or None, default=None
        For a holdout of nodes: the graph between the training nodes and the numbers of neighbors of
        the holdout nodes, for folds of later searches.
    """

    past_records: PastRecords | None = None
    cv_data: CVData | None = None
    dry_run_sample: tuple[Any, Any] | None = None
    both_parts_given: bool = False
    node_matching: Any = None

    def for_pickle(self) -> HoldoutContext:
        """Return the context without ``past_records`` and ``cv_data``."""
        return dataclasses.replace(self, past_records=None, cv_data=None)
