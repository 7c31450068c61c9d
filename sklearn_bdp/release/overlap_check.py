"""Check of training data for holdout records, charged and recorded before it is reported (G21)."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from sklearn_bdp.accounting.spending import outcome_code_length
from sklearn_bdp.diagnostics.overlap import OVERLAP_FINDINGS, RELABELED_GROUPS_ASSUMPTION
from sklearn_bdp.ledger.batch_record import BatchRecord
from sklearn_bdp.utils.validation import strip_traceback_frames


@strip_traceback_frames
def check_overlap(holdout: Any, training_data: Any, *, allows_mixed_tables: bool = False) -> str:
    """Compare training data with a holdout; return an assumption on shared groups, or "".

    Raise SharedRecordsError for more shared rows than chance explains (unless they are allowed),
    and ValueError for training labels of which the holdout has none. Warn of shared groups and of
    missing classes. The outcome of a new comparison is charged and recorded. The same records are
    not compared again, and nothing is compared after a final report, or if the calibration
    ``is_private``.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    training_data : TrainingData
        Training records that a model is fitted on.
    allows_mixed_tables : bool, default=False
        If False and a search drew the split, tables with both known training rows and other rows
        raise SharedRecordsError. If True, such tables are treated as all others.
    """
    training_rows = holdout.account.training_rows
    known_status = training_rows.known_overlap_status(
        training_data, allows_mixed_tables=allows_mixed_tables
    )
    if known_status is not None:
        return known_status
    finding = None
    # An exact finding has no finite level of privacy: no check is made under a declared one.
    if not holdout.account.settings.is_private:
        finding = _recorded_finding(holdout, training_data)
    if finding in ("rows", "labels"):
        # Which table contains the records is not reported: the charge covers one word only.
        raise OVERLAP_FINDINGS[finding].error(
            remark=training_data.remark() if finding == "rows" else ""
        )
    training_rows.add(training_data)
    if finding is not None:
        OVERLAP_FINDINGS[finding].warn()
    return RELABELED_GROUPS_ASSUMPTION if finding == "groups" else ""


@strip_traceback_frames
def _recorded_finding(holdout, training_data):
    """Return the name of the finding on training data, from a recorded or a new check.

    None without a finding, and after a final report. A new check is charged and recorded.
    """
    with holdout.account.write_transaction() as ledger_state:
        totals = ledger_state.totals
        if totals.closed:
            return None
        earlier_checks = ledger_state.checks()
        for check in earlier_checks:
            # Rows that were not allowed before are compared again.
            is_allowed = check["finding"] == "rows" and holdout.allow_shared_rows
            if check["of"] == training_data.digest and not is_allowed:
                return check["finding"]
        finding = training_data.overlap_finding(
            holdout.X, holdout.y, holdout.dependence, compare_rows=not holdout.allow_shared_rows
        )
        outcome_nats = outcome_code_length(
            n_checks=len(earlier_checks),
            n_complaints=sum(check["finding"] is not None for check in earlier_checks),
            complaint=finding is not None,
            n_findings=len(OVERLAP_FINDINGS),
        )
        totals = dataclasses.replace(
            totals,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            released=totals.released + outcome_nats,
            dp_epsilon=None,  # no finite level of privacy is valid from now on
        )
        checks = {"of": training_data.digest, "finding": finding}
        ledger_state.append(BatchRecord(totals=totals, checks=checks))
    return finding
