"""Values of the rows in a final report and their approximate intervals (theory G28, G31, G34)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, max_error, median_absolute_error

from sklearn_bdp.intervals.dates import about_training_mean, date_row, median_row, too_few_dates
from sklearn_bdp.intervals.jackknife import SKILL, ApproximateRow, approximate_row, public_refusal
from sklearn_bdp.intervals.medians import median_error_row
from sklearn_bdp.metrics.approximate import unchecked_metric
from sklearn_bdp.metrics.base import BoundedMetric
from sklearn_bdp.metrics.means import ClippedError
from sklearn_bdp.report.final_report import FEW_ERRORS
from sklearn_bdp.report.measures import ScoredRecords, compute_score
from sklearn_bdp.report.plan import Plan, Statement
from sklearn_bdp.report.sampling_units import SamplingUnits

#: Score functions of errors that the jackknife does not apply to. Medians have another interval.
_MEDIAN, _LARGEST = median_absolute_error, max_error
_NO_TARGET = "The largest error of new records depends on their number. It has no interval."
_SEVERAL_MEDIANS = "The median error of several outputs has no interval."
_MEDIAN_OF_CHAIN = "The median error of dependent records has no interval."
NEEDS_CHAIN = "An approximate row needs a declared chain (a long run)."
#: Approximate intervals that cover this part of a bounded range, or more, are left out.
_MAX_RANGE_SHARE = 0.95
#: Approximate intervals that are this many times as wide as the proven one are left out.
_MAX_PROVEN_RATIO = 1.5
#: Metrics of calibration, which is perfect at a slope of 1 and an intercept of 0, and the largest
#: width of their intervals, in score units. Wider intervals are left out.
_CALIBRATION, _MAX_CALIBRATION_WIDTH = ("calibration_slope", "calibration_intercept"), 4.0


class ApproximateRows:
    """Values of the statements of a plan and their approximate intervals, in score units.

    A difference of two models or two subgroups is the second minus the first.
    """

    def __init__(self, plan: Plan, records: ScoredRecords, units: SamplingUnits) -> None:
        self.plan = plan
        self.records = records
        self.units = units

    def value(self, statement: Statement) -> float:
        """Return the reported value in score units: a score, a difference or a skill score.

        A value that cannot be computed is not finite, or UndefinedScore is raised.
        """
        if statement.skill:
            total_baseline_loss, total_model_loss = (
                self.units.record_weights @ self.records.losses(statement.measure, model_name)
                for model_name in statement.models
            )
            return 1.0 - float(total_model_loss / total_baseline_loss)
        is_about_training_mean = (
            statement.measure.metric.unit_statistic.dates.left_out_about is not None
        )
        if self.units.are_dates and is_about_training_mean:
            return self._date_row(statement, 0.5).value  # the value needs no failure probability
        scores = [
            compute_score(
                statement.measure, self.records, model_name, self.weights_in_subgroup(subgroup)
            )
            for model_name in statement.models
            for subgroup in statement.subgroups or ("",)
        ]
        if len(scores) == 1:
            score = float(scores[0])
            return statement.measure.zero_division if math.isnan(score) else score
        first_score, second_score = scores
        return float(second_score - first_score)

    def weights_in_subgroup(self, subgroup: str) -> Any:
        """Return the weight of each record in a score, 0 outside of ``subgroup``.

        The subgroup ``""`` contains all records.
        """
        in_subgroup = self.plan.masks[subgroup] if subgroup else 1.0
        return self.units.record_weights * in_subgroup

    def public_refusal(self, statement: Statement) -> str:
        """Return the reason, known before models are scored, why a row has no approximate interval.

        The text is empty if no reason is known by then.
        """
        if self.units.n_autocorrelation_times == 0.0:
            return NEEDS_CHAIN
        reason = self._lack_of_order_statistics(statement)
        if reason:
            return reason
        if self.units.are_dates:
            return too_few_dates(self.units.n_units)
        return public_refusal(
            self.units.n_units, n_autocorrelation_times=self.units.n_autocorrelation_times
        )

    def informative_interval(
        self, statement: Statement, log_alpha: float, proven_ends: list[float] | None
    ) -> tuple[list[float] | None, list[str]]:
        """Return the ends of an approximate interval in score units, and notes for its row.

        The ends are None without an informative interval. A first note may then state the reason.

        Parameters
        ----------
        statement : Statement
            The row.
        log_alpha : float
            Log of the failure probability of both ends together.
        proven_ends : list of float or None
            Lower and upper end of the proven interval of the row, in score units; None without one.
        """
        row = self._interval(statement, math.exp(log_alpha))
        ends = finite_ends((row.lower, row.upper))
        if ends is None:
            return None, list(row.notes)
        # A skill score has no lowest value.
        is_bounded = isinstance(statement.measure.metric, BoundedMetric) and not statement.skill
        if self.units.are_dates and is_bounded:
            is_bounded = not self.uses_unclipped_errors(statement)
        if is_bounded:
            _, low, high = statement.quantity
            ends = [max(ends[0], low), min(ends[1], high)]
        reason = _lack_of_information(statement, ends, proven_ends, is_bounded=is_bounded)
        if reason:
            return None, [reason]
        return ends, list(row.notes)

    def uses_unclipped_errors(self, statement: Statement) -> bool:
        """Return whether the metric clips errors of one output and no prediction fails."""
        return self._unclipped_statistic_and_data(statement) is not None

    def unclipped_value(self, statement: Statement) -> float:
        """Return the value of a row from unclipped errors over dates, in score units.

        Only for a row for which :meth:`uses_unclipped_errors` returns True.
        """
        return float(self._in_score_units(self._date_row(statement, 0.5), statement).value)

    def _interval(self, statement, alpha):
        """Return the :class:`ApproximateRow` of a statement, in score units.

        ``alpha`` is the failure probability of both limits together.
        """
        if statement.measure.score_function in (_MEDIAN, _LARGEST):
            return self._row_without_jackknife(statement, alpha)
        if self.units.are_dates:
            return self._in_score_units(self._date_row(statement, alpha), statement)
        statistic, y, predictions_and_masks = self._statistic_and_data(statement)
        row = approximate_row(
            statistic,
            y,
            predictions_and_masks,
            unit_codes=self.units.unit_of_record,
            alpha=alpha,
            per_record=self.plan.per == "record",
            n_autocorrelation_times=self.units.n_autocorrelation_times,
            unit_name=self.units.name,
        )
        return self._within_range(self._in_score_units(row, statement), statement, alpha)

    def _row_without_jackknife(self, statement, alpha):
        """Return the :class:`ApproximateRow` of a median or largest error, in score units.

        Its limits are NaN if it has no interval. ``alpha``: failure probability of both limits
        together.
        """
        is_one_score = len(statement.models) == 1 and not statement.subgroups
        value = self.value(statement)
        reason = self._lack_of_order_statistics(statement)
        if not reason and self.units.are_dates and not is_one_score:
            reason = f"{statement.measure.name} has no approximate interval over these dates."
        if reason:
            return ApproximateRow(value, math.nan, math.nan, self.units.n_units, (reason,))
        # The second model or subgroup comes first: `median_error_row` subtracts the second pair.
        errors_per_model = [
            self.records.absolute_errors(model_name) for model_name in statement.models[::-1]
        ]
        if self.units.are_dates:
            row = median_row(
                errors_per_model[0],
                alpha,
                dates=self.units.unit_of_record,
                horizon=statement.forecast_horizon,
            )
        else:
            errors_and_weights = [
                (errors, self.weights_in_subgroup(subgroup))
                for errors in errors_per_model
                for subgroup in statement.subgroups[::-1] or ("",)
            ]
            row = median_error_row(
                value,
                errors_and_weights,
                self.units.unit_of_record,
                alpha,
                unit_name=self.units.name,
            )
        if statement.measure.metric.scorer._sign > 0:  # the score is the error, not minus the error
            row = row._replace(value=value, lower=-row.upper, upper=-row.lower)
        return row

    def _lack_of_order_statistics(self, statement):
        """Return the reason, known before scoring, why a median or largest error has no interval.

        The text is empty if it may have one, and for other metrics.
        """
        score_function = statement.measure.score_function
        if score_function is _LARGEST:
            return _NO_TARGET
        if score_function is _MEDIAN and self.records.y.ndim > 1:
            return _SEVERAL_MEDIANS
        if score_function is _MEDIAN and self.units.n_autocorrelation_times is not None:
            return _MEDIAN_OF_CHAIN
        return ""

    def _in_score_units(self, row, statement):
        """Return an :class:`ApproximateRow` in score units.

        Only the mean of one model's binary scores is converted, from [0, 1].
        """
        metric = statement.measure.metric
        is_one_score = len(statement.models) == 1 and len(statement.subgroups) < 2
        if not (metric.is_mean and metric.is_binary and is_one_score):
            return row  # other statistics are in score units, and so are differences
        low, high = statement.measure.score_range
        value, lower, upper = (
            low + (high - low) * unit_score for unit_score in (row.value, row.lower, row.upper)
        )
        return row._replace(value=value, lower=lower, upper=upper)

    def _within_range(self, row, statement, alpha):
        """Return an :class:`ApproximateRow` with limits inside the range of its scorer, if known.

        Limits of one score of all records that are NaN or beyond the range are replaced by those of
        theory G34 if these apply, else clipped (NaN stays). Other rows stay the same. ``alpha``:
        failure probability of both limits together.
        """
        scorer = _scorer_with_range(statement.measure.metric)
        is_one_score = len(statement.models) == 1 and not (statement.subgroups or statement.skill)
        if scorer is None or not is_one_score or not hasattr(scorer, "_score_func"):
            return row
        metric = unchecked_metric(scorer, scorer, self.records.y)
        has_limits = math.isfinite(row.lower) and math.isfinite(row.upper)
        is_in_range = has_limits and metric.lower <= row.lower <= row.upper <= metric.upper
        if metric.is_open or is_in_range:  # open: scores may lie outside of the public range
            return row
        unit_of_record = self.units.unit_of_record
        has_one_record_per_unit = np.unique(unit_of_record).size == unit_of_record.size
        if self.units.n_autocorrelation_times is None and has_one_record_per_unit:
            label_limits = self._limits_of_labels(metric, statement.models[0], alpha)
            if label_limits is not None:
                lower, upper = label_limits
                return row._replace(lower=lower, upper=upper, notes=(FEW_ERRORS,))
        if not has_limits:
            return row
        lower, upper = np.clip([row.lower, row.upper], metric.lower, metric.upper).tolist()
        return row._replace(lower=lower, upper=upper)

    def _limits_of_labels(self, metric, model_name, alpha):
        """Return limits of a score of predicted labels in score units, or None (theory G34).

        None unless the :class:`ApproximateMetric` is computed from a confusion matrix and the model
        predicts a known label for every record. ``alpha``: failure probability of both limits.
        """
        if self.records.y.ndim != 1 or self.records.y.dtype.kind == "f":
            return None
        _, code_of_label = self.records.label_codes((model_name,))
        labels = np.array(list(code_of_label))
        predicted_codes = self.records.predicted_codes(model_name, (model_name,))
        if not (np.isfinite(predicted_codes) & (predicted_codes >= 0.0)).all():
            return None
        predicted_labels = labels[predicted_codes.astype(int)]
        return metric.limits_of_labels(self.records.y, predicted_labels, alpha)

    def _date_row(self, statement, alpha):
        """Return the :class:`ApproximateRow` over dates, each date given its past (theory G31).

        The mean of one model's binary scores is in [0, 1], other values are in score units.
        ``alpha``: failure probability of both limits together.
        """
        unclipped = None if statement.skill else self._unclipped_statistic_and_data(statement)
        if unclipped is not None:
            statistic, predictions_and_masks = unclipped
            y = self.records.y.astype(float)
        else:
            statistic, y, predictions_and_masks = self._statistic_and_data(statement)
        return date_row(
            about_training_mean(statistic, self.plan.training_mean),
            y,
            predictions_and_masks,
            dates=self.units.unit_of_record,
            alpha=alpha,
            horizon=statement.forecast_horizon,
        )

    def _unclipped_statistic_and_data(self, statement):
        """Return the statistic of unclipped errors, and a list of (predictions, record mask).

        Of two models or subgroups, the pair of the second comes first. The result is None unless
        the metric clips errors, the targets have one output, and no prediction fails.
        """
        metric = statement.measure.metric
        if not isinstance(metric, ClippedError) or self.records.y.ndim != 1:
            return None
        predictions_per_model = [
            self.records.predictions(model_name, "values") for model_name in statement.models[::-1]
        ]
        if not np.isfinite(predictions_per_model).all():
            return None
        predictions_and_masks = [
            (predictions, self.weights_in_subgroup(subgroup) > 0.0)
            for predictions in predictions_per_model
            for subgroup in statement.subgroups[::-1] or ("",)
        ]
        return metric.unclipped_statistic, predictions_and_masks

    def _statistic_and_data(self, statement):
        """Return the statistic of a row, its targets, and a list of (predictions, record mask).

        Of two models or subgroups, the pair of the second comes first. A skill score has targets 0,
        and one pair with losses of shape (2, n) for predictions, those of the baseline first. Masks
        are False for records of weight 0.
        """
        if statement.skill:
            losses = np.vstack(
                [self.records.losses(statement.measure, name) for name in statement.models]
            )
            return SKILL, np.zeros(losses.shape[1]), [(losses, self.weights_in_subgroup("") > 0.0)]
        predictions_and_masks = []
        for model_name in statement.models[::-1]:
            statistic, y, predictions = self.records.statistic_and_data(
                statement.measure, model_name, self.units.record_weights, statement.models
            )
            predictions_and_masks += [
                (predictions, self.weights_in_subgroup(subgroup) > 0.0)
                for subgroup in statement.subgroups[::-1] or ("",)
            ]
        return statistic, y, predictions_and_masks


def _lack_of_information(statement, ends, proven_ends, *, is_bounded):
    """Return the reason why an approximate interval is too wide to be informative, or "".

    ``ends``, ``proven_ends``: pairs of the lower and upper end of the approximate and the proven
    interval, in score units; None without a proven one. ``is_bounded``: whether values are limited
    to the range of the statement's quantity.
    """
    width = ends[1] - ends[0]
    _, low, high = statement.quantity
    if is_bounded and width >= _MAX_RANGE_SHARE * (high - low):
        return "The interval would cover nearly every possible value."
    if proven_ends is not None and width >= _MAX_PROVEN_RATIO * (proven_ends[1] - proven_ends[0]):
        return "The interval would be much wider than the proven one."
    if statement.measure.name in _CALIBRATION and width > _MAX_CALIBRATION_WIDTH:
        return (
            f"The interval would be wider than {_MAX_CALIBRATION_WIDTH:g}: so few records do not "
            "determine the calibration."
        )
    return ""


def _scorer_with_range(metric):
    """Return the scorer whose range contains the values of a metric, None without one."""
    statistic = metric.unit_statistic
    if statistic.scale == "signed" and statistic.response == "labels":
        return get_scorer(metric.name)
    return getattr(metric, "scorer", None)


def finite_ends(ends: Any) -> list[float] | None:
    """Return the ends of an interval as floats, None unless both are finite."""
    return [float(end) for end in ends] if all(map(math.isfinite, ends)) else None
