"""Rows of a final report: values, intervals and notes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_bdp.accounting.spending import report_attempt_length
from sklearn_bdp.metrics.means import ClippedError
from sklearn_bdp.metrics.proofs import PAST
from sklearn_bdp.release.guarantee import estimand_text
from sklearn_bdp.report.approximate_rows import NEEDS_CHAIN, ApproximateRows, finite_ends
from sklearn_bdp.report.final_report import NO_APPROXIMATE
from sklearn_bdp.report.in_time import beyond_clip_notes, clip_notes, unique_dates
from sklearn_bdp.report.measures import ScoredRecords, UndefinedScore, is_label
from sklearn_bdp.report.plan import Plan, Statement
from sklearn_bdp.report.proven_rows import ProvenRows
from sklearn_bdp.report.sampling_units import SamplingUnits


class LogAlphas(NamedTuple):
    """Logs of the failure probabilities of the rows in a report, each of both ends of a row.

    They may be below the log of the smallest floating-point number.
    """

    proven: float
    approximate: float
    #: Of a proven row if nothing had been queried before.
    without_history: float


def row_log_alphas(
    plan: Plan, totals: Any, settings: Any, *, length: float, n_attempts: int
) -> LogAlphas:
    """Return the logs of the failure probabilities of the rows of a report.

    Each family of intervals has its own failure probability (theory G28), reduced by everything
    released before. The rows of a family share it, unless each row holds by itself
    (``joint=False``). Of the approximate family, spending takes no part if no interim answer had an
    approximate interval (theory G34).

    Parameters
    ----------
    plan : Plan
        Contents of the report.
    totals : LedgerTotals
        Totals of the latest record in the ledger, before the report.
    settings : Calibration
        Failure probabilities and spending of the holdout.
    length : float
        Code length of the report in nats.
    n_attempts : int
        Number of earlier final reports that did not finish.
    """
    # With joint=False, each row has the failure probability of its whole family (theory G32).
    n_proven = max(1, plan.n_proven) if plan.joint else 1
    n_rows = len(plan.statements) if plan.joint else 1
    log_approximate = math.log(settings.beta / n_rows) - totals.released
    log_approximate -= report_attempt_length(n_earlier=n_attempts, finished=True)
    if totals.has_approximate:
        log_approximate += math.log(settings.spending.report_weight(totals.number))
    return LogAlphas(
        proven=math.log(settings.sampling_failure / n_proven) - length,
        approximate=log_approximate,
        without_history=math.log(settings.beta / n_proven),
    )


class RowEstimator:
    """Rows of a plan, computed from holdout records or from records in their place.

    The order of independent sampling units follows from ``seed``; see :class:`SamplingUnits`.
    """

    def __init__(self, plan: Plan, holdout: Any, seed: int) -> None:
        self.plan = plan
        self.records = ScoredRecords(holdout.X, holdout.y, plan.models)
        self.units = SamplingUnits.of_plan(plan, holdout, seed)
        self.proven = ProvenRows(plan, self.records, self.units, holdout.dependence)
        self.approximate = ApproximateRows(plan, self.records, self.units)

    def row(self, statement: Statement, log_alphas: LogAlphas) -> dict[str, Any]:
        """Return the row of a statement in JSON.

        Its value is None if it is undefined, and so is an interval that it does not have.
        """
        units = self.units
        row = statement.row(units.n_units)
        notes = []
        self.records.failing.clear()  # of the row before; a scorer's value does not replace it
        row["method"] = row["method"] or f"{statement.measure.estimation} over {units.name}"
        if units.are_dates:
            row["target"] = estimand_text(units.scheme, statement.forecast_horizon)
        in_any_subgroup = np.any(
            [
                self.approximate.weights_in_subgroup(subgroup) > 0.0
                for subgroup in statement.subgroups or ("",)
            ],
            axis=0,
        )
        row["n_units"] = units.count(in_any_subgroup)
        row["n_events"] = self._n_events(in_any_subgroup)
        try:
            with np.errstate(all="ignore"):
                row["value"] = self.approximate.value(statement)
                if statement.proven:
                    row |= self._proven_fields(statement, row["value"], log_alphas)
                row["approximate"], approximate_notes = self._approximate_fields(
                    statement, log_alphas.approximate, row["proven"]
                )
                notes += approximate_notes
        except UndefinedScore as error:
            notes.append(str(error))
        notes += self._notes(statement, log_alphas.proven)
        if row["value"] is None or not math.isfinite(row["value"]):
            row["value"] = None
            notes = notes or ["The score is undefined for these records."]
        row["notes"] = notes
        return row

    def _proven_fields(self, statement, value, log_alphas):
        """Return the fields of a proven row: ends, components of the half-width, and counts.

        ``value``: of the row. The ends are None unless both are finite.
        """
        lower, upper = self.proven.limits(statement, log_alphas.proven)
        # An interval contains the value. Limits by class are computed from one record of each unit,
        # the value from all records. A limit of another method may be off by its last digit.
        lower = min(lower, value)
        upper = max(upper, value)
        lower_without_history, upper_without_history = self.proven.limits(
            statement, log_alphas.without_history
        )
        half_width = 0.5 * (upper - lower)
        # Another method may be chosen at another failure probability: no component is negative.
        sampling = min(half_width, 0.5 * (upper_without_history - lower_without_history))
        noise = 0.0
        return {
            "proven": finite_ends((lower, upper)),
            "parts": [sampling, half_width - sampling, noise],
            "counts": self.proven.counts(statement),
        }

    def _approximate_fields(self, statement, log_alpha, proven_ends):
        """Return the ends of the approximate interval, None without one, and notes.

        ``proven_ends``: those of the proven interval, or None.
        """
        if self.units.n_autocorrelation_times == 0.0:
            return None, [NEEDS_CHAIN]
        ends, notes = self.approximate.informative_interval(statement, log_alpha, proven_ends)
        if ends is None and statement.proven and notes:
            notes[0] = NO_APPROXIMATE + notes[0]
        return ends, notes

    def _notes(self, statement, log_alpha_proven):
        """Return notes on a row: clips, arguments for a proof, records that a model failed on."""
        notes = []
        if statement.max_difference < 1.0:
            low, high = statement.measure.score_range
            max_difference = statement.max_difference * (high - low)
            n_beyond = self.proven.n_truncated(statement)
            notes.append(
                f"The proven interval counts differences beyond ±{max_difference:.3g} as that "
                f"({n_beyond} of {len(self.records.y):,} records)."
            )
        if statement.measure.note:
            notes.append(statement.measure.note)
        is_about_one_model = len(statement.models) == 1 and not statement.subgroups
        clips_one_output = (
            isinstance(statement.measure.metric, ClippedError) and self.records.y.ndim == 1
        )
        if clips_one_output and is_about_one_model and statement.proven not in ("", PAST):
            notes += beyond_clip_notes(statement, self.records)
        if statement.proven == PAST and self.approximate.uses_unclipped_errors(statement):
            notes += clip_notes(statement, self.records, self.units, self.plan, log_alpha_proven)
            unclipped_score = self.approximate.unclipped_value(statement)
            notes.append(f"Without the clip, the score is {unclipped_score:.4g}.")
        for model_name in statement.models:
            failing_positions = self.records.failing.get(model_name, ())
            if len(failing_positions):
                positions = ", ".join(map(str, failing_positions[:5]))
                positions += ", …" * (len(failing_positions) > 5)
                notes.append(
                    f"{model_name} failed on {len(failing_positions)} of {len(self.records.y)} "
                    f"holdout records (positions {positions})."
                    + " They count with the worst score."
                    * statement.measure.is_ratio_of_sums
                )
        return notes

    def public_refusal(self, statement: Statement) -> str:
        """Return the public reason why a row cannot have an interval, or an empty text.

        A statement with a proof has none.
        """
        return "" if statement.proven else self.approximate.public_refusal(statement)

    def _n_events(self, in_any_subgroup):
        """Return the number of a row's units with a record of the event class of the plan, or None.

        ``in_any_subgroup``: mask of the records of the row.
        """
        positive = self.plan.event_class
        if positive is None:
            return None
        return self.units.count(in_any_subgroup & is_label(self.records.y, positive))

    def over_time(self, holdout: Any) -> tuple[Any, Any]:
        """Return the dates, and the scores by date of each model on the first metric.

        Dates are numbers from 0 if they are not known. Scores are a dict of arrays in score units,
        by the position of the model's row in the report.
        """
        first = self.plan.statements[0]
        scores = {}
        for row_index, statement in enumerate(self.plan.statements):
            is_about_one_model = (
                len(statement.models) == 1
                and not statement.subgroups
                and statement.forecast_horizon == 1
            )
            if is_about_one_model and statement.measure.name == first.measure.name:
                low, high = statement.measure.score_range
                unit_scores, _ = self.records.contributions(statement.measure, statement.models[0])
                scores[row_index] = low + (high - low) * self.units.date_means(unit_scores)
        dates = unique_dates(holdout)
        return np.arange(self.units.n_units) if dates is None else dates, scores
