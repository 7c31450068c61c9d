"""Reports on statements that were fixed before the holdout was queried about them (theory G30)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from sklearn_bdp.ledger.batch_record import BatchRecord
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.ledger.records import canonical
from sklearn_bdp.report.closing import close_holdout, closing_record
from sklearn_bdp.report.final import closed_totals
from sklearn_bdp.utils.validation import strip_traceback_frames

#: Weight of the first list of statements on a holdout. Each later list takes the same part of the
#: weight that remains: 0.9, 0.09, 0.009, ...
_LIST_WEIGHT = 0.9


def preregister(holdout: Any, key: str) -> None:
    """Record in the ledger that statements are fixed now, and the nats released so far.

    ``key``: text computed from the content of all statements. A key is recorded only once.
    """
    with holdout.account.write_transaction() as ledger_state:
        notes = ledger_state.notes(SystemNote.STATEMENTS)
        if all(note["key"] != key for note in notes):
            content = {"key": key, "released": ledger_state.totals.released}
            ledger_state.note(SystemNote.STATEMENTS, content)


def preregistered_code_length(notes: list[dict[str, Any]], key: str) -> float:
    r"""Return the code length of statements that were fixed before, in nats (theory G30).

    .. math:: \ell = -\ln P(\text{everything released before they were fixed}) - \ln w_k,
       \quad w_k = .9 \cdot .1^{k-1}

    for the list that was fixed as number :math:`k` on this holdout: later releases cannot have
    changed it.

    Parameters
    ----------
    notes : list of dict
        Notes of :func:`preregister` in the ledger, oldest first: ``"key"`` and nats ``"released"``.
    key : str
        Key of the statements, in one of the notes.
    """
    n_earlier_lists = [note["key"] for note in notes].index(key)
    log_weight = math.log(_LIST_WEIGHT) + n_earlier_lists * math.log1p(-_LIST_WEIGHT)
    return float(notes[n_earlier_lists]["released"]) - log_weight


@strip_traceback_frames  # the frames hold raw scores
def report_preregistered(holdout: Any, key: str, compute: Callable[[float], Any]) -> Any:
    """Report on preregistered statements, close the holdout, and return the report.

    The report is JSON content. A repeated call returns the recorded one. Raise ValueError if a
    level of privacy is declared, and HoldoutClosedError if another report closed the holdout.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    key : str
        Key of the statements, recorded by :func:`preregister`.
    compute : callable
        Takes the code length of the statements in nats and returns the report as JSON content. It
        reads the raw holdout and is therefore rejected under a level of privacy.
    """
    account = holdout.account
    identity = {"statements": key}
    account.check_process()
    if account.settings.is_private:
        raise ValueError(
            "final_report() of a filter reads the closed holdout without noise, which ends its "
            "privacy. A numeric epsilon and calibration='zhao2017' forbid it. The holdout was "
            "not queried."
        )
    with account.read_transaction() as ledger_state:
        record = closing_record(ledger_state, identity)
        notes = ledger_state.notes(SystemNote.STATEMENTS)
    if record is None:
        # Earlier attempts cannot change statements that were fixed before them (theory G35).
        code_length = preregistered_code_length(notes, key)

        def closing_record_and_answers(context):
            cells = {"statements": json.loads(canonical(compute(code_length)))}
            totals = closed_totals(context)
            return BatchRecord(totals=totals, code_length=code_length, cells=cells), ()

        record = close_holdout(account, identity, closing_record_and_answers)
    return record.cells["statements"]
