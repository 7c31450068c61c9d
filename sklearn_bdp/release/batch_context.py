"""State before a batch: its context, its code length, its cell widths, and whether it may run."""

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
    """Context of a batch. Answering the batch changes ``code`` and ``mechanism`` in place."""

    last: LedgerTotals  # before the queries of the batch
    code: PredictiveCode
    mechanism: Thresholdout = dataclasses.field(repr=False)
    settings: Calibration
    model: CorrelationModel
    time: str  # now, ISO 8601, UTC
    seeded: bool  # whether the noise comes from a fixed ``random_state``
    seed: int = dataclasses.field(repr=False)  # of slices, secret
    n_attempts: int = 0  # for a final report: number of earlier ones, none of which finished


def information_spent(last: LedgerTotals, settings: Calibration) -> tuple[float, str]:
    """Return what the answers have revealed, in nats, and the name of the theorem that bounds it.

    Theory G9: with a bound on leakage for the life of the holdout, leakage (G1) and code (G7) are
    both valid, and the shorter length may be used. Only the code is valid once no finite level of
    privacy is.
    """
    lengths = {"code": last.released}
    if settings.information is not None and last.dp_epsilon is not None:
        lengths["leakage"] = leakage_code_length(
            information=settings.information, failure=settings.sampling_failure / 2.0
        )
    theorem = min(lengths, key=lambda name: (lengths[name], name))
    return lengths[theorem], theorem


def next_code_length(
    last: LedgerTotals, settings: Calibration, *, report: bool = False, n_attempts: int = 0
) -> tuple[float, str]:
    """Return the code length of the next batch in nats, without ranks, and its theorem's name.

    ``report``: whether the next batch is a final report, whose rows share the length, after
    ``n_attempts`` reports that did not finish (theory G35).

    The length is the information spent, minus the log of the batch's weight in the failure
    probability. A report also pays for its outcome, that it finishes. If leakage is bounded for the
    life of the holdout, both theorems hold at half the failure probability each (``ln 2`` nats,
    theory G9).
    """
    spent_nats, theorem = information_spent(last, settings)
    spending = settings.spending
    if report:
        length = final_code_length(released=spent_nats, n_batches=last.number, spending=spending)
        length += report_attempt_length(n_earlier=n_attempts, finished=True)
    else:
        length = code_length(released=spent_nats, batch_index=last.number + 1, spending=spending)
    return length + (0.0 if settings.information is None else math.log(2.0)), theorem


def cell_width_policy(
    last: LedgerTotals, settings: Calibration, model: CorrelationModel, length: float
) -> CellWidthPolicy:
    """Return the rule for the cell widths of the batch after the totals ``last``.

    ``model``: dependence of the records. ``length``: code length of that batch without ranks, in
    nats.
    """
    log_failure = math.log(settings.sampling_failure / 2.0) - length
    given_rest = model.sampling_scheme(settings.n).is_conditional
    return make_width_policy(settings.spending, last.number + 1, log_failure, given_rest=given_rest)


def check_open(ledger_state: Any) -> None:
    """Raise HoldoutClosedError after a final report."""
    last = ledger_state.totals
    if last.closed:
        raise HoldoutClosedError(
            f"This holdout was closed by its final report on {last.time[:10]}. Its intervals "
            "assume no later queries. holdout.report_ shows it again (search.holdout_.report_), "
            "and recorded answers remain free. Anything else needs new records. There, pass all "
            "models and metrics to one final_report()."
        )
