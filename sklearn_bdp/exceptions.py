"""Exceptions and warnings of the package.

Bad arguments raise plain :class:`ValueError` or :class:`TypeError`; the classes here are for
what a caller may want to catch by name.
"""

from __future__ import annotations

__all__ = [
    "BudgetExhaustedError",
    "HoldoutClosedError",
    "LedgerBusyError",
    "LedgerCorruptedError",
    "LedgerError",
    "LedgerMismatchError",
    "LedgerUnavailableError",
    "LedgerVersionError",
    "ModelMisfitWarning",
    "NothingSelectedError",
    "ProcessBoundaryError",
    "ScoreContractError",
    "SharedRecordsError",
    "UnboundedMetricError",
    "UnknownFeaturesError",
    "VacuousGuaranteeWarning",
]


class BudgetExhaustedError(RuntimeError):
    """The holdout has answered as many "above" queries as its budget allows.

    Nothing is wrong with the query. The message says what was spent; answers already recorded
    stay free, and only new data buys more.
    """


class HoldoutClosedError(RuntimeError):
    """The holdout has given its final report and answers nothing new.

    The interval of the report rests on nothing being asked afterwards. Recorded answers stay
    free; only new data answers more.
    """


class LedgerError(RuntimeError):
    """A ledger could not be used; no answer was released and nothing was spent."""


class LedgerMismatchError(LedgerError):
    """The ledger belongs to another holdout: other data, correlation or parameters."""


class LedgerCorruptedError(LedgerError):
    """The ledger was truncated or edited: its hash chain does not verify."""


class LedgerVersionError(LedgerError):
    """The ledger was written by a newer version of this package."""


class LedgerUnavailableError(LedgerError):
    """The ledger cannot be written: full disk, read-only folder, missing permissions."""


class LedgerBusyError(LedgerError):
    """Another process held the ledger for longer than the waiting time."""


class ProcessBoundaryError(RuntimeError):
    """An in-memory holdout was asked in a process that does not own it.

    Its budget lives in the process that made it; a copy elsewhere would answer from a duplicate
    budget. Give the holdout a ``ledger`` path and every process shares one budget.
    """


class SharedRecordsError(ValueError):
    """Training records are records of the holdout; nothing was asked and nothing was spent.

    A model that has seen a record scores too well on it, and the training-side value would hand out
    the holdout's own score. Train on other records; where a population holds equal ones,
    ``ReusableHoldout(..., allow_shared_rows=True)`` allows them and the certificate says so.
    ``n_shared`` is their number.

    Parameters
    ----------
    message : str
        What happened.
    n_shared : int
        Training records that are holdout records.
    """

    def __init__(self, message: str, *, n_shared: int = 0) -> None:
        super().__init__(message)
        self.n_shared = n_shared


class ScoreContractError(ValueError):
    """A :class:`~sklearn_bdp.metrics.PerRecordScore` broke its promise on training records.

    It gave other than one number per record, or a number outside its declared range. Raised before
    the holdout is asked, whatever ``error_score`` says.
    """


class UnboundedMetricError(ValueError):
    """The metric has no bounded per-record range or sensitivity, so no guarantee covers it."""


class UnknownFeaturesError(ValueError):
    """The estimator was fitted on columns that cannot be found in the holdout."""


class NothingSelectedError(ValueError):
    """A selector found no feature that helps, so it has nothing to hand on.

    Raised by ``transform`` (in a pipeline: by the pipeline's ``fit``), while the fitted selector
    itself stays readable. ``on_empty="keep_best"`` goes on with the best there is.
    """


class ModelMisfitWarning(UserWarning):
    """The data visibly disagree with the declared correlation model.

    The intervals hold under the declared model only. Declare a model with more dependence, or
    treat the intervals as too narrow.
    """


class VacuousGuaranteeWarning(UserWarning):
    """The holdout is too small for the promise asked: an interval says almost nothing.

    The message says how many records would be needed. Nothing is computed wrongly; ask fewer
    queries, declare fewer of them as adaptive, or bring a larger holdout.
    """
