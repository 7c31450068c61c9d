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
    """Logs of the failure probabilities of a row in a report, each of both interval ends together.

    They may be below the log of the smallest floating-point number.
    """

    proven: float  # of a proven row
    approximate: float  # of an approximate row
    without_history: float  # of a proven row if nothing had been queried before


def row_log_alphas(
    plan: Plan, totals: Any, settings: Any, *, code_length: float, n_attempts: int
) -> LogAlphas:
    """Return the logs of the failure probabilities of the rows of a report.

    Proven and approximate intervals are two families with a failure probability each, reduced by
    everything released before (theory G28). The rows of a family share it unless ``plan.joint`` is
    False. The spending policy reduces that of approximate rows only if an earlier answer had an
    approximate interval (theory G34).

    Parameters
    ----------
    plan : Plan
        Contents of the report.
    totals : LedgerTotals
        Totals of the latest record in the ledger, before the report.
    settings : Calibration
        Failure probabilities and spending of the holdout.
    code_length : float
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
        proven=math.log(settings.sampling_failure / n_proven) - code_length,
        approximate=log_approximate,
        without_history=math.log(settings.beta / n_proven),
    )


class RowEstimator:
    """Rows of a plan, computed from the records of a holdout or of an object with its attributes.

    ``seed``: seed of the order of independent sampling units.
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
        self.records.failing.clear()  # positions of the previous row
        row["method"] = row["method"] or f"{statement.measure.estimation} over {units.name}"
        if units.are_dates:
            row["target"] = estimand_text(units.scheme, statement.forecast_horizon)
        is_in_row = np.any(
            [
                self.approximate.weights_in_subgroup(subgroup) > 0.0
                for subgroup in statement.subgroups or ("",)
            ],
            axis=0,
        )
        row["n_units"] = units.count(is_in_row)
        row["n_events"] = self._n_events(is_in_row)
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
        """Return a dict of fields of a proven row: ends, components of the half-width, and counts.

        All but counts are in score units. The ends are None unless both are finite. ``value``:
        score or difference that the row reports.
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
        sampling_half_width = min(half_width, 0.5 * (upper_without_history - lower_without_history))
        history_half_width = half_width - sampling_half_width
        noise_half_width = 0.0
        return {
            "proven": finite_ends((lower, upper)),
            "parts": [sampling_half_width, history_half_width, noise_half_width],
            "counts": self.proven.counts(statement),
        }

    def _approximate_fields(self, statement, log_alpha, proven_ends):
        """Return the ends of the approximate interval in score units, or None, and a list of notes.

        ``proven_ends``: ends of the proven interval in score units, or None.
        """
        if self.units.n_autocorrelation_times == 0.0:
            return None, [NEEDS_CHAIN]
        ends, notes = self.approximate.informative_interval(statement, log_alpha, proven_ends)
        if ends is None and statement.proven and notes:
            notes[0] = NO_APPROXIMATE + notes[0]
        return ends, notes

    def _notes(self, statement, log_alpha_proven):
        """Return notes on clips, on arguments for a proven interval, and on failures of models.

        ``log_alpha_proven``: log of the failure probability of both proven ends together.
        """
        notes = []
        if statement.difference_clip < 1.0:
            low, high = statement.measure.score_range
            clip = statement.difference_clip * (high - low)  # in score units
            n_clipped = self.proven.n_clipped_differences(statement)
            notes.append(
                f"The proven interval counts differences beyond ±{clip:.3g} as that "
                f"({n_clipped} of {len(self.records.y):,} records)."
            )
        if statement.measure.note:
            notes.append(statement.measure.note)
        n_unknown_classes = self.proven.n_unknown_classes(statement)
        if n_unknown_classes:
            notes.append(
                f"The recall of {n_unknown_classes} of the holdout's classes may be any number in "
                "the proven interval: neither the models nor training targets have them. Pass "
                "training=(X, y) with all classes."
            )
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
                positions_text = ", ".join(map(str, failing_positions[:5]))
                positions_text += ", …" * (len(failing_positions) > 5)
                notes.append(
                    f"{model_name} failed on {len(failing_positions)} of {len(self.records.y)} "
                    f"holdout records (positions {positions_text})."
                    + " They count with the worst score."
                    * statement.measure.is_ratio_of_sums
                )
        return notes

    def public_refusal(self, statement: Statement) -> str:
        """Return the reason, known before models are scored, why a row has no interval.

        The text is empty if the statement has a proof, or if no reason is known by then.
        """
        return "" if statement.proven else self.approximate.public_refusal(statement)

    def _n_events(self, is_in_row):
        """Return the number of units with a record of the event class; None without this class.

        ``is_in_row``: mask of the records that count, of shape (n,).
        """
        event_class = self.plan.event_class
        if event_class is None:
            return None
        return self.units.count(is_in_row & is_label(self.records.y, event_class))

    def over_time(self, holdout: Any) -> tuple[Any, Any]:
        """Return the dates, and the scores by date of each model on the first metric.

        Dates are numbers from 0 if they are not known. Scores are a dict of arrays in score units,
        by the position in the report of the model's row on all records, one date ahead.
        """
        first = self.plan.statements[0]
        scores_by_row_index = {}
        for row_index, statement in enumerate(self.plan.statements):
            is_plottable = (
                len(statement.models) == 1
                and not statement.subgroups
                and statement.forecast_horizon == 1
            )
            if is_plottable and statement.measure.name == first.measure.name:
                low, high = statement.measure.score_range
                unit_scores, _ = self.records.contributions(statement.measure, statement.models[0])
                date_means = self.units.date_means(unit_scores)
                scores_by_row_index[row_index] = low + (high - low) * date_means
        dates = unique_dates(holdout)
        return np.arange(self.units.n_units) if dates is None else dates, scores_by_row_index
