"""Inputs of a batch: its context, code length and cell widths."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from sklearn_bdp.accounting.spending import (
    PredictiveCode,
    code_length,
    final_code_length,
    leakage_code_length,
    report_attempt_length,
)
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.ledger.batch_record import LedgerTotals
from sklearn_bdp.release.graded_release import CellWidthPolicy, make_width_policy

if TYPE_CHECKING:
    from sklearn_bdp.correlation import CorrelationModel
    from sklearn_bdp.mechanisms import Thresholdout
    from sklearn_bdp.release.calibration import Calibration


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BatchContext:
    """Inputs of a batch besides its queries; ``code`` and ``mechanism`` are changed in place."""

    totals_before: LedgerTotals  # of the ledger before the queries of the batch
    code: PredictiveCode
    mechanism: Thresholdout = dataclasses.field(repr=False)
    settings: Calibration
    dependence: CorrelationModel  # of the holdout records
    time: str  # now, ISO 8601, UTC
    seeded: bool  # whether the noise comes from a fixed ``random_state``
    #: Secret seed of the draws of one record per group (theory G19).
    slice_seed: int = dataclasses.field(repr=False)
    n_attempts: int = 0  # for a final report: number of earlier ones, none of which finished


def information_spent(totals: LedgerTotals, settings: Calibration) -> tuple[float, str]:
    """Return the information spent, in nats, and the theorem that bounds it.

    The theorem is "code" (theory G7), or "leakage" (G1) if this is shorter. Leakage needs a finite
    bound for the life of the holdout and a finite DP level of the answers (G9).
    """
    lengths = {"code": totals.released}
    if settings.information is not None and totals.dp_epsilon is not None:
        lengths["leakage"] = leakage_code_length(
            information=settings.information, failure=settings.sampling_failure / 2.0
        )
    theorem = min(lengths, key=lambda name: (lengths[name], name))
    return lengths[theorem], theorem


def next_code_length(
    totals: LedgerTotals, settings: Calibration, *, is_report: bool = False, n_attempts: int = 0
) -> tuple[float, str]:
    """Return the code length of the next batch, without ranks, and the theorem that bounds it.

    It is in nats, and includes the information spent. The theorem is "code" or "leakage" (G9).
    ``is_report``: whether the next batch is a final report. ``n_attempts``: number of earlier
    reports that did not finish (G35).
    """
    spent_nats, theorem = information_spent(totals, settings)
    spending = settings.spending
    if is_report:
        length = final_code_length(released=spent_nats, n_batches=totals.number, spending=spending)
        length += report_attempt_length(n_earlier=n_attempts, finished=True)
    else:
        length = code_length(released=spent_nats, batch_index=totals.number + 1, spending=spending)
    return length + (0.0 if settings.information is None else math.log(2.0)), theorem


def cell_width_policy(
    totals: LedgerTotals, settings: Calibration, model: CorrelationModel, length: float
) -> CellWidthPolicy:
    """Return the rule for the cell widths of the next batch.

    ``totals``: of the ledger before it. ``model``: dependence of the holdout records. ``length``:
    code length of that batch without ranks, in nats.
    """
    log_failure = math.log(settings.sampling_failure / 2.0) - length
    given_rest = model.sampling_scheme(settings.n).is_conditional
    return make_width_policy(
        settings.spending, totals.number + 1, log_failure, given_rest=given_rest
    )


def check_open(ledger_state: Any) -> None:
    """Raise HoldoutClosedError if a final report was made."""
    totals = ledger_state.totals
    if totals.closed:
        raise HoldoutClosedError(
            f"This holdout was closed by its final report on {totals.time[:10]}. Its intervals "
            "assume no later queries. holdout.report_ shows it again (search.holdout_.report_), "
            "and recorded answers remain free. Anything else needs new records. There, pass all "
            "models and metrics to one final_report()."
        )
