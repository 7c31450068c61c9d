"""Exceptions and warnings of the package.

Bad arguments raise plain :class:`ValueError` or :class:`TypeError`. The classes here are for
failures that programs catch by name and for warnings that they filter.
"""


class BudgetExhaustedError(RuntimeError):
    """The holdout has given as many corrected answers as its budget allows.

    The query is valid. The message reports the amount spent. Recorded answers remain free, and only
    new records add budget.
    """


class HoldoutClosedError(RuntimeError):
    """The holdout has given its final report and accepts no new query.

    The interval of the report rests on nothing being asked afterwards. Recorded answers stay
    free; only new data answers more.
    """


class UnfinishedReportError(RuntimeError):
    """A final report was begun and did not finish. The holdout stays open.

    Something raised while the report was computed: a scorer, a model, or an error of this package.
    Which one is not shown, because it could depend on holdout records. That the report did not
    finish is charged in later intervals. Try the model and the scorer on training records, then
    call ``final_report`` again.
    """


class LedgerError(RuntimeError):
    """A ledger could not be used. No answer was released, and the holdout was not queried."""


class LedgerMismatchError(LedgerError):
    """The ledger belongs to another holdout: other data, correlation or parameters."""


class LedgerCorruptedError(LedgerError):
    """The ledger was truncated or edited: its hash chain does not verify."""


class LedgerVersionError(LedgerError):
    """The ledger was written by a newer version of this package."""


class LedgerUnavailableError(LedgerError):
    """The ledger cannot be read or written: full disk, no permission, no reply of a server."""


class LedgerBusyError(LedgerUnavailableError):
    """Another process held the ledger for longer than the waiting time."""


class ProcessBoundaryError(RuntimeError):
    """An in-memory holdout was queried in a process that does not own it.

    Its budget lives in the process that made it; a copy elsewhere would answer from a duplicate
    budget. Give the holdout a ``ledger`` path and every process shares one budget.
    """


class SharedRecordsError(ValueError):
    """Training records are holdout records, or not those of the split that a search drew.

    A model that has seen a record scores too well on it, and the training value would hand out
    the holdout's own score. Train on other records; if a population holds equal ones,
    ``ReusableHoldout(..., allow_shared_rows=True)`` allows them and the certificate reports it.
    """


class ScoreContractError(ValueError):
    """A :class:`~sklearn_bdp.metrics.PerRecordScore` broke its contract on training records.

    It did not return one number per record, or a number was outside its declared range. Raised
    before the holdout is queried, for every ``error_score``.
    """


class UnboundedMetricError(ValueError):
    """The metric has no bounded per-record range or sensitivity, so no guarantee covers it."""


class UnknownFeaturesError(ValueError):
    """The estimator was fitted on columns that cannot be found in the holdout."""


class NothingSelectedError(ValueError):
    """A selector found no useful feature and selects none.

    Raised by ``transform`` (in a pipeline: by the pipeline's ``fit``), while the fitted selector
    itself stays readable. ``on_empty="keep_best"`` goes on with the best there is.
    """


class SklearnBdpWarning(UserWarning):
    """Base of all warnings of this package; silence one kind by its own class."""


class DependenceWarning(SklearnBdpWarning):
    """The data visibly disagree with the declared correlation model.

    The intervals hold under the declared model only. Declare a model with more dependence, or
    treat the intervals as too narrow.
    """


class BatchPredictionWarning(DependenceWarning):
    """Predictions of a model depend on the other rows of the batch.

    The model is at fault: its score is not a mean over records, so its interval does not hold.
    Make features of neighboring rows before the search, and learn scales in ``fit``.
    """


class UninformativeIntervalWarning(SklearnBdpWarning):
    """The holdout is too small for a useful interval.

    The computation is correct. The message reports how many records are needed: verify fewer
    candidates or use a larger holdout.
    """


class SecondHoldoutWarning(SklearnBdpWarning):
    """Another account answered queries about the same targets in this process.

    The two accounts do not know each other, so their intervals are not valid together. Pass
    ``search.holdout_`` on, or give both the same ``ledger``.
    """


class ClippedScoreWarning(SklearnBdpWarning):
    """Clipping changes the score of the chosen model on training records.

    Nothing is wrong: answers and intervals are about the clipped score. Give the metric wider
    ``bounds`` if the plain score matters.
    """


class DefaultMetricWarning(SklearnBdpWarning):
    """The estimator's own score has no interval, and another metric takes its place.

    Nothing is wrong. Name the metric in ``scoring`` to choose it yourself.
    """


class OptimisticScoreWarning(SklearnBdpWarning):
    """The cross-validated score of the selected candidate is well above its verified interval.

    Cross-validation is too good: folds may share patients, places or time with each other, or
    features may know the target. Trust the verified score, and look for the leak.
    """


class InnerFoldsWarning(SklearnBdpWarning):
    """The inner folds are drawn as if the training records were independent.

    Their scores are too good if the records are not. Declare ``correlation``, pass ``groups``,
    or give ``cv`` a splitter.
    """


class MissingClassesWarning(SklearnBdpWarning):
    """A class is missing from one side of the split.

    No model can predict a class that it has not seen. Bring more records, or code ``y`` alike on
    both sides.
    """


class NothingConfirmedWarning(SklearnBdpWarning):
    """A selector kept no feature, because none helps on both sides.

    Nothing is wrong with the data. Bring more records, or go without selection.
    """


class RowOrderWarning(SklearnBdpWarning):
    """Two tables have the same records in another order, and only one has an index.

    Rows are matched by their places. Put both in the same order, or drop an index without
    meaning.
    """


class SharedGroupsWarning(SklearnBdpWarning):
    """Groups of the training set and of the holdout have the same labels.

    If they are the same groups, models know them, and intervals are too good for new groups:
    divide whole groups. If labels were given anew on each side, make them unique.
    """


class UnverifiedWarning(SklearnBdpWarning):
    """A metric, or every candidate, was not verified on the holdout.

    Its numbers come from the training set alone. ``get_metric(name)`` explains why a metric has no
    proven bound, and which one has.
    """


class UnweightedScoreWarning(SklearnBdpWarning):
    """``sample_weight`` goes to ``fit``, and scores count each record once.

    Nothing is wrong. Weighted scores have no proven sensitivity.
    """


#: Classes that programs catch or filter. The others are caught by their bases: errors by
#: `LedgerError`, `ValueError` or `RuntimeError`, warnings by `SklearnBdpWarning`.
__all__ = [
    "BudgetExhaustedError",
    "DependenceWarning",
    "HoldoutClosedError",
    "LedgerBusyError",
    "LedgerError",
    "OptimisticScoreWarning",
    "ProcessBoundaryError",
    "ScoreContractError",
    "SecondHoldoutWarning",
    "SharedRecordsError",
    "SklearnBdpWarning",
    "UnboundedMetricError",
    "UninformativeIntervalWarning",
]
