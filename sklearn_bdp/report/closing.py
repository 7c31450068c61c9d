"""Closing a holdout: a report is begun, computed in memory, and recorded with the closing.

The start is recorded before any model is scored on the holdout, and it is charged as a report that
does not finish. One record then closes the holdout and contains the report. Without that record the
holdout stays open, nothing of the attempt is shown, and the charge remains (theory G35).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.exceptions import LedgerBusyError, LedgerError, UnfinishedReportError
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.metrics.base import suppress_output
from sklearn_bdp.release.batch_context import BatchContext, check_open

_CHARGE = (
    "that the attempt did not finish is charged, because an analyst could make it depend on the "
    "holdout: {nats:.2g} nats, which widen later intervals."
)
_OPEN = (
    "The final report did not finish. Nothing of it is shown, and the holdout stays open, but "
    + _CHARGE
    + " Call final_report() again."
)
_NOT_RECORDED = (
    "The final report did not finish. Nothing of it is shown. Call final_report() again with the "
    "same arguments: if the report was recorded all the same, it is returned. Otherwise the "
    "holdout is open, but " + _CHARGE
)


def closing_record(ledger_state: Any, identity: dict[str, Any]) -> Any:
    """Return the ledger record that closed the holdout; None while the holdout is open.

    ``identity``: dict that identifies a report, in JSON.

    Raises
    ------
    HoldoutClosedError
        If a report of another identity closed the holdout.
    """
    if (
        ledger_state.totals.closed
        and ledger_state.notes(SystemNote.CLOSING)[-1]["asked"] == identity
    ):
        return ledger_state.latest_record
    check_open(ledger_state)
    return None


def close_holdout(
    account: Any,
    identity: dict[str, Any],
    compute: Callable[[BatchContext], tuple[Any, Any]],
    *,
    fixed: Any = None,
    check: Callable[[Any], None] | None = None,
) -> Any:
    """Compute a report, close the holdout with the record that contains it, and return the record.

    Parameters
    ----------
    account : HoldoutAccountant
        Accountant of the holdout.
    identity : dict
        Identity of the report, in JSON: equal for two calls of the same report.
    compute : callable
        Takes the :class:`BatchContext` of the report. Returns the closing record and the answers
        that the ledger keeps.
    fixed : object, default=None
        Further values that the ledger records before the holdout is read, in JSON.
    check : callable, default=None
        Takes the :class:`LedgerTotals` and raises an error if they do not allow a report.

    Raises
    ------
    HoldoutClosedError
        If the holdout is closed.
    UnfinishedReportError, KeyboardInterrupt
        If the report could not be computed; the holdout is open. The original error is not
        repeated: it could depend on holdout records.
    LedgerError
        If the ledger cannot be read or written, or another process used the holdout meanwhile. The
        holdout is open unless the closing record was written all the same.
    """
    start = _note_start(account, identity, fixed, check)
    try:
        with account.write_transaction() as ledger_state:
            if ledger_state.head != start.head:
                raise LedgerBusyError(
                    "Another process used the holdout when this report was about to be computed. "
                    "The holdout was not queried."
                )
            context = dataclasses.replace(
                account.batch_context(ledger_state, is_report=True),
                totals_before=start.totals,
                n_attempts=start.n_earlier_attempts,
            )
            record, answers = _compute_silently(compute, context, start.charge_nats)
            account.record(ledger_state, record, context, answers)
    except LedgerError as error:
        reason = str(error).removesuffix("The holdout was not queried.").rstrip()
        raise type(error)(f"{reason} {_NOT_RECORDED.format(nats=start.charge_nats)}") from None
    return record


class _ReportStart(NamedTuple):
    """State of the ledger when the start of a report is noted."""

    totals: Any  # LedgerTotals before the note
    n_earlier_attempts: int  # earlier reports that did not finish
    charge_nats: float  # code length that is charged if this report does not finish
    head: Any  # head of the ledger's hash chain after the note


def _note_start(account, identity, fixed, check):
    """Record the start of a report in the ledger and return its :class:`_ReportStart`.

    ``identity`` and ``fixed`` are recorded, in JSON. ``check``: None, or a function that raises an
    error if the :class:`LedgerTotals` do not allow a report. Raise HoldoutClosedError if the
    holdout is closed.
    """
    with account.write_transaction() as ledger_state:
        check_open(ledger_state)
        totals = ledger_state.totals
        n_earlier_attempts = len(ledger_state.notes(SystemNote.CLOSING))
        if check is not None:
            check(totals)
        charge_nats = report_attempt_length(n_earlier=n_earlier_attempts, finished=False)
        account.note_closing(
            ledger_state, {"asked": identity, "fixed": fixed, "charge": charge_nats}
        )
        return _ReportStart(totals, n_earlier_attempts, charge_nats, ledger_state.head)


def _compute_silently(compute, context, charge_nats):
    """Return ``compute(context)``; raise KeyboardInterrupt or UnfinishedReportError if it fails.

    The message does not depend on the original error. ``charge_nats``: code length in nats that a
    report is charged if it does not finish, for the message.
    """
    try:
        with suppress_output():  # warnings, prints and logs of a model or a scorer
            return compute(context)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_OPEN.format(nats=charge_nats)) from None
    except BaseException:
        raise UnfinishedReportError(_OPEN.format(nats=charge_nats)) from None
