"""Exceptions and warnings of the package.

Invalid arguments raise :class:`ValueError` or :class:`TypeError`. The classes here are for errors
that programs catch and for warnings that they filter.
"""


class BudgetExhaustedError(RuntimeError):
    """The budget of corrected answers does not suffice for the queries or the final report.

    The queries are valid. The message states the numbers of answers. Recorded answers remain free.
    Use new records for other queries.
    """


class HoldoutClosedError(RuntimeError):
    """The holdout was closed by its final report and accepts no new query.

    The intervals of the report assume no later queries. Recorded answers remain free. Use new
    records for other queries.
    """


class UnfinishedReportError(RuntimeError):
    """A final report did not finish. The holdout stays open.

    A scorer, a model or this package raised an error while the report was computed. The error is
    not shown, because it could depend on holdout records. The failure is charged, which widens
    later intervals. Test the model and the scorer on training records, then call ``final_report``
    again.
    """


class LedgerError(RuntimeError):
    """The ledger could not be used. No new answer was released."""


class LedgerMismatchError(LedgerError):
    """The ledger is that of a holdout with other data, correlation or parameters."""


class LedgerCorruptedError(LedgerError):
    """The ledger was truncated or edited, or cannot be parsed."""


class LedgerVersionError(LedgerError):
    """The ledger has a format or settings of another version of this package."""


class LedgerUnavailableError(LedgerError):
    """The ledger cannot be read or written, for example because a disk is full."""


class LedgerBusyError(LedgerUnavailableError):
    """Another process or thread used the ledger, usually for longer than the timeout."""


class ProcessBoundaryError(RuntimeError):
    """An in-memory holdout was queried in a process that does not own it.

    The budget is in the memory of the process that made the holdout. A copy in another process
    would have a budget of its own. Set ``ledger`` to a path, so that all processes use the same
    budget.
    """


class SharedRecordsError(ValueError):
    """Records that were passed include holdout records, or are not those of the split of a search.

    The score of a model on a record that it was fitted on is too high, and the training score would
    reveal the raw holdout score. Fit on other records. If different records may be equal, set
    ``ReusableHoldout(..., allow_shared_rows=True)``; the certificate then states this assumption.
    """


class ScoreContractError(ValueError):
    """A :class:`~sklearn_bdp.metrics.PerRecordScore` broke its contract on training records.

    The function did not return one number per record, a number was outside its declared range, or
    numbers depend on other records. The error is raised before the holdout is queried, for every
    ``error_score``.
    """


class UnboundedMetricError(ValueError):
    """The metric has no proven bound of its range or sensitivity, and the call needs one."""


class UnknownFeaturesError(ValueError):
    """The estimator was fitted on columns that the holdout does not have."""


class NothingSelectedError(ValueError):
    """A feature selector selected no feature.

    It is raised by ``transform``, in a pipeline by the pipeline's ``fit``. The attributes of the
    fitted selector remain available. Set ``on_empty="keep_best"`` to keep the best features
    although they were not confirmed.
    """


class SklearnBdpWarning(UserWarning):
    """Base class of the warnings of this package. To filter one kind, use its subclass."""


class DependenceWarning(SklearnBdpWarning):
    """Training records, or arguments, suggest more dependence than is declared.

    Intervals are valid under the declared model only. Declare a model with more dependence.
    Otherwise intervals may be too narrow.
    """


class BatchPredictionWarning(DependenceWarning):
    """Predictions of a model depend on the other rows of the batch.

    The score is then not a mean over records, so that its interval is not valid. Compute features
    from neighboring rows before the search, and estimate means and scales in ``fit``.
    """


class UninformativeIntervalWarning(SklearnBdpWarning):
    """The holdout may be too small for useful intervals.

    The computation is correct. Verify fewer candidates, or use a larger holdout.
    """


class SecondHoldoutWarning(SklearnBdpWarning):
    """Another holdout with the same targets, or some of the same records, answered queries before.

    Both are in this process. Neither of them counts the queries of the other, so that their
    intervals are not valid together. Pass ``holdout=search.holdout_`` to the next search, or set
    the same ``ledger`` for both.
    """


class ClippedScoreWarning(SklearnBdpWarning):
    """Clipping changes the score of a model on training records noticeably.

    Answers and intervals are valid for the clipped score. If the score without clipping matters,
    set the argument that the message names, such as ``bounds`` or ``clip``.
    """


class DefaultMetricWarning(SklearnBdpWarning):
    """The estimator's own score has no interval, and another metric is used instead.

    Results are valid for this metric. To choose the metric, set ``scoring``.
    """


class OptimisticScoreWarning(SklearnBdpWarning):
    """The cross-validated score of the selected candidate is well above its verified interval.

    The cross-validated score is too high: folds may share patients, sites or dates, or features may
    contain the target. Use the verified score, and look for the leak.
    """


class InnerFoldsWarning(SklearnBdpWarning):
    """The inner folds are drawn as if the training records were independent.

    Cross-validated scores are too high if they are not. Set ``correlation``, pass ``groups``, or
    pass a splitter as ``cv``.
    """


class MissingClassesWarning(SklearnBdpWarning):
    """A class is missing from the training set or from the holdout.

    A model cannot predict a class that it was not fitted on. Use more records, or code ``y`` in the
    same way in both.
    """


class NothingConfirmedWarning(SklearnBdpWarning):
    """A feature selector confirmed no feature: none is distinguished from chance.

    Use more records, or fit without selection.
    """


class RowOrderWarning(SklearnBdpWarning):
    """Two tables may have the same records in another order, and one has the default index.

    Rows are matched by position. Put both in the same order, or reset an index that has no meaning.
    """


class SharedGroupsWarning(SklearnBdpWarning):
    """Groups of the training set and of the holdout have the same labels.

    If they are the same groups, models were fitted on them, and scores are too high for new groups.
    Split whole groups. If different groups have the same labels, make the labels unique.
    """


class UnverifiedWarning(SklearnBdpWarning):
    """A metric, or all candidates, were not verified on the holdout.

    Their scores come from the training set alone. ``get_metric(name)`` raises an error that states
    why a metric has no proven bound, and names alternatives.
    """


class UnweightedScoreWarning(SklearnBdpWarning):
    """``sample_weight`` is passed to ``fit``, but scores weigh all records equally.

    Weighted scores have no proven sensitivity.
    """


#: Classes that are documented. Programs catch the other errors by `LedgerError`, `ValueError` or
#: `RuntimeError`, and filter the other warnings by `SklearnBdpWarning`.
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
