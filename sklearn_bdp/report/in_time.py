"""Reports on dates given their past: paired differences, naive forecasts, refits (theory G26)."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import clone

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.dates import (
    as_time_span,
    date_level,
    date_numbers,
    date_text,
    index_dates,
    shift_dates,
)
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.intervals.bounds import UnitMoments, martingale_interval
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.metrics.base import BoundedMetric
from sklearn_bdp.metrics.error_clips import ErrorClips, has_undeclared_range
from sklearn_bdp.metrics.registry import metric_without_range
from sklearn_bdp.release.context import PastRecords
from sklearn_bdp.report.measures import (
    Measure,
    PrecomputedPredictions,
    ScoredRecords,
    UndefinedScore,
    known_labels,
)
from sklearn_bdp.utils.sklearn_compat import safe_indexing
from sklearn_bdp.utils.validation import check_integer

_SEASONAL = re.compile(r"seasonal-([1-9]\d{0,3})")
_MAX_CLASSES = 20  # most classes for which all outcomes of a difference are tried
#: Metrics whose differences of two models need no clip: the distance of the forecasts bounds them.
_BOUNDED_BY_DISTANCE = ("neg_mean_absolute_error",)
#: Part of the failure probability of a difference that the limit on the expected side takes: the
#: lower one if the second model is expected to be better.
_EXPECTED_SIDE_FRACTION = 0.8
#: Smallest variance of the scores of earlier dates, as a fraction of the squared range.
_MIN_VARIANCE = 1e-4
#: Smallest variance of differences, as a fraction of the mean square of the largest possible one.
_MIN_VARIANCE_OF_PAIR = 1e-3
_MAX_EARLIER_LENGTHS = 4  # most earlier dates that are scored, per holdout date


def past_horizon(scheme: SamplingScheme) -> int:
    """Return the number of dates from a forecast to its score; 1 if records are not in time."""
    return 1 if scheme.calendar is None else scheme.calendar.horizon


# -- forecasts that need no model -----------------------------------------------------------------


def is_forecast_keyword(value: Any) -> bool:
    """Return whether a value is ``"naive"``, or ``"seasonal-"`` and a number of dates."""
    return isinstance(value, str) and (value == "naive" or bool(_SEASONAL.fullmatch(value)))


def naive_forecast(
    keyword: str, holdout: Any, past_records: PastRecords | None, classes: list[Any] | None
) -> PrecomputedPredictions:
    """Return, for each holdout record, the last known target or that of a season before.

    The predictions contain holdout targets. ``keyword``: ``"naive"``, or one such as
    ``"seasonal-7"``. ``classes``: classes of the targets, None in regression. Raise ValueError
    unless each date has one record and enough targets before the holdout are known.
    """
    n = holdout.n
    scheme = holdout.dependence.sampling_scheme(n)
    lag = _lag_in_dates(keyword, past_horizon(scheme))
    has_one_record_per_date = scheme.calendar is not None and scheme.n_units == n
    if (
        past_records is None
        or not has_one_record_per_date
        or len(past_records.y) < lag
        or len(np.unique(past_records.dates)) < len(past_records.y)
    ):
        raise ValueError(
            f"compare={keyword!r} needs correlation='time' with one record per date, and targets "
            f"before the holdout ({lag} at least), which a search knows in the process that made "
            "it. Pass predictions of the holdout's records. The holdout was not queried."
        )
    date_of_record = scheme.record_blocks
    holdout_targets = np.asarray(holdout.y)[np.argsort(date_of_record)]
    targets_in_time = np.concatenate([np.asarray(past_records.y), holdout_targets])
    repeated_targets = targets_in_time[len(past_records.y) + date_of_record - lag]
    return PrecomputedPredictions(repeated_targets, classes, keyword=keyword)


def _lag_in_dates(keyword, horizon):
    """Return the number of dates from the target that a forecast repeats to the date it predicts.

    ``keyword``: ``"naive"``, or one such as ``"seasonal-7"``. ``horizon``: number of dates from a
    forecast to its score.
    """
    season = 1 if keyword == "naive" else int(_SEASONAL.fullmatch(keyword)[1])
    return season * math.ceil(horizon / season)


# -- a recipe, refitted ---------------------------------------------------------------------------


class WalkForward(PrecomputedPredictions):
    """Estimator that is refitted for each block of holdout dates on all records known before it.

    Its methods take positions of holdout records as ``X``. All blocks are fitted at the first
    prediction.

    Parameters
    ----------
    model : estimator
        Estimator that is cloned and fitted for each block.
    holdout : ReusableHoldout
        A holdout in time order.
    first_dates : ndarray of int
        Number of the first date of each block; holdout dates are numbered from 0.
    past_records : PastRecords
        Records before the holdout.
    """

    def __init__(
        self, model: Any, holdout: Any, first_dates: Array, past_records: PastRecords
    ) -> None:
        self.recipe = model
        self._holdout = holdout
        self._first_dates = first_dates
        self.keyword = None
        self._past_records = past_records
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
        for method in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, method):
                setattr(self, method, functools.partial(self._predict, method))

    @functools.cached_property
    def _blocks(self):
        """List of pairs, one per block of dates: positions of its holdout records, fitted model.

        A model is fitted on the records of all dates up to one horizon before the block.
        """
        holdout = self._holdout
        past_records = self._past_records
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        holdout_dates = scheme.record_blocks
        X = _concatenate_tables(past_records.X, holdout.X)
        y = np.concatenate([past_records.y, holdout.y])
        all_dates = np.concatenate([past_records.dates, holdout_dates])
        next_first_dates = [*self._first_dates[1:], len(holdout_dates)]
        blocks = []
        for first_date, next_first_date in zip(self._first_dates, next_first_dates, strict=True):
            earlier_rows = np.flatnonzero(all_dates <= first_date - past_horizon(scheme))
            earlier_rows = earlier_rows[np.argsort(all_dates[earlier_rows], kind="stable")]
            X_earlier = safe_indexing(X, earlier_rows)
            fitted_model = clone(self.recipe).fit(X_earlier, y[earlier_rows])
            is_in_block = (holdout_dates >= first_date) & (holdout_dates < next_first_date)
            blocks.append((np.flatnonzero(is_in_block), fitted_model))
        return blocks

    def _predict(self, method, X):
        """Return the results of a method of the models, such as "predict", for holdout records.

        ``X`` has the positions of the records in the holdout.
        """
        positions_by_block = np.concatenate([positions for positions, _ in self._blocks])
        predictions_by_block = np.concatenate(
            [
                getattr(model, method)(safe_indexing(self._holdout.X, positions))
                for positions, model in self._blocks
            ]
        )
        predictions = predictions_by_block[np.argsort(positions_by_block)]
        return predictions[np.asarray(X).ravel().astype(int)]


def _concatenate_tables(earlier, later):
    """Return the rows of two tables of one type, one below the other."""
    if hasattr(earlier, "iloc"):
        return sys.modules["pandas"].concat([earlier, later])
    if scipy.sparse.issparse(earlier):
        return scipy.sparse.vstack([earlier, later], format="csr")
    return np.concatenate([np.asarray(earlier), np.asarray(later)])


class RefitSchedule(NamedTuple):
    """Dates before which an estimator is refitted."""

    first_dates: Array  # number of the first date of each block; holdout dates count from 0
    frequency: str  # in words, such as "every 7 days"


def make_refit_schedule(
    holdout: Any, every: Any, past_records: PastRecords | None
) -> RefitSchedule:
    """Return the :class:`RefitSchedule` of a walk-forward report.

    Parameters
    ----------
    holdout : ReusableHoldout
        A holdout.
    every : int, str, timedelta or offset
        Number of dates, or span of time, from one refit to the next.
    past_records : PastRecords or None
        Records before the holdout.

    Raises
    ------
    TypeError, ValueError
        If the holdout does not have ``correlation="time"``, if ``past_records`` is None, if
        ``every`` is neither a positive number of dates nor a span of time, or if it is a span of
        time and the records have no dates of type ``datetime64``.
    """
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is None or past_records is None:
        raise ValueError(
            "refit_every= needs correlation='time', and the records before the holdout, which a "
            "search knows in the process that made it. The holdout was not queried."
        )
    date_name = scheme.calendar.step  # such as "day"
    time_span = as_time_span(every, "refit_every")
    if time_span is None:
        n_dates = check_integer("refit_every", every, low=1)
        frequency = f"every {n_dates} {date_name}s" if n_dates > 1 else f"every {date_name}"
        return RefitSchedule(np.arange(0, scheme.n_units, n_dates), frequency)
    span_text = every if isinstance(every, str) else _describe_time_span(time_span)
    first_dates = _first_dates_of_spans(unique_dates(holdout), time_span, every)
    return RefitSchedule(first_dates[first_dates < scheme.n_units], f"every {span_text}")


def _first_dates_of_spans(dates, time_span, every):
    """Return the positions of the first date at or after the start of each span of time.

    Positions ascend without repetition and end with ``len(dates)``. ``dates``: unique dates,
    ascending, or None. ``every``: the span as the user passed it, for the message. Raise ValueError
    unless ``dates`` is of type ``datetime64``.
    """
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"refit_every={every!r} is a span of time, but the records have no dates. Pass a "
            "number of dates, or give fit the dates as times=. The holdout was not queried."
        )
    span_starts = [dates[:1]]
    while span_starts[-1][0] <= dates[-1]:
        span_starts.append(shift_dates(span_starts[-1], time_span))
    return np.unique(np.searchsorted(dates, np.concatenate(span_starts)))


def _describe_time_span(time_span):
    """Return a time span, a ``timedelta64`` or a pandas offset, in words, such as "7 days"."""
    if not isinstance(time_span, np.timedelta64):
        return f"offset {time_span.freqstr}"
    days = time_span / np.timedelta64(1, "D")
    return f"{days:g} days" if days >= 1.0 else f"{24.0 * days:g} hours"


def unique_dates(holdout: Any) -> Any:
    """Return the different dates of a holdout in time, ascending, or None if they are not known.

    Dates are of type ``datetime64``, or numbers.
    """
    calendar = holdout.dependence.sampling_scheme(holdout.n).calendar
    if calendar is not None and calendar.dates is not None:
        return calendar.dates
    return index_dates(holdout.X)


def record_dates(holdout: Any) -> Any:
    """Return the date of each holdout record, or None if dates are not known.

    Dates are of type ``datetime64``, or numbers.
    """
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is not None and scheme.calendar.dates is not None:
        return scheme.calendar.dates[scheme.record_blocks]
    index = date_level(getattr(holdout.X, "index", None))
    return None if index is None else date_numbers(index, "X.index")


def align_predictions(name: str, predictions: Any, holdout: Any) -> Any:
    """Return predictions in the order of the holdout records, aligned by date if they have dates.

    Models are returned unchanged, and so are predictions without dates, with several levels of
    dates, or with the index of ``holdout.X``. ``name``: name of the predictions in messages. Raise
    ValueError if the dates do not match.
    """
    index: Any = getattr(predictions, "index", None)
    if callable(index) or hasattr(predictions, "predict"):
        return predictions
    index_of_dates = date_level(index)
    if index_of_dates is None or index.equals(getattr(holdout.X, "index", None)):
        return predictions
    prediction_dates = date_numbers(index_of_dates, f"the index of {name}")
    holdout_dates = record_dates(holdout)
    _check_alignment(name, prediction_dates, holdout_dates)
    order = np.argsort(prediction_dates)
    positions_in_order = np.searchsorted(prediction_dates, holdout_dates, sorter=order)
    return np.asarray(predictions)[order[positions_in_order]]


def _check_alignment(name, prediction_dates, holdout_dates):
    """Raise ValueError if predictions cannot be aligned with the holdout records by date.

    ``prediction_dates``: date of each prediction. ``holdout_dates``: date of each record, None if
    dates are not known. Both are of type ``datetime64``, or numbers.
    """
    remedy = f"Pass {name}.to_numpy() if its values are in the order of the holdout records."
    if holdout_dates is None or holdout_dates.dtype.kind != prediction_dates.dtype.kind:
        raise ValueError(
            f"{name} has dates, and the holdout records have none. {remedy} The holdout was "
            "not queried."
        )
    if any(np.unique(dates).size < dates.size for dates in (prediction_dates, holdout_dates)):
        raise ValueError(
            f"{name} cannot be aligned by date, because several records share a date. "
            f"{remedy} The holdout was not queried."
        )
    missing_dates = np.setdiff1d(holdout_dates, prediction_dates)
    if len(missing_dates):
        raise ValueError(
            f"{name} has no value for {len(missing_dates)} of the {len(holdout_dates)} holdout "
            f"dates, such as {date_text(missing_dates[0])}. Forecast the dates of the holdout "
            f"rows. Pass {name}.to_numpy() only if the dates alone are wrong. The holdout was not "
            "queried."
        )


# -- clips of errors without a declared range -----------------------------------------------------


def clip_errors_in_time(
    holdout: Any, metric: BoundedMetric, find_errors: Callable[[], Array | None]
) -> BoundedMetric:
    """Return the metric by which a holdout in time is queried, with its clip (theory G31).

    A new clip is recorded in the ledger.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    metric : BoundedMetric
        Any metric.
    find_errors : callable
        Returns out-of-fold errors of training records, in units of the targets, or None. It is
        called only if no clip is recorded and no query was answered.

    Returns
    -------
    BoundedMetric
        The metric with its clip. The same metric if it does not clip errors or its range is
        declared, if records are not in time, if earlier queries were answered without a clip, if
        errors give no clip, and if the clip is not below that of the metric.
    """
    is_judged_by_date = holdout.dependence.sampling_scheme(holdout.n).calendar is not None
    if not (is_judged_by_date and has_undeclared_range(metric)):
        return metric
    with holdout.account.read_transaction() as ledger_state:
        notes = ledger_state.notes(SystemNote.ERROR_CLIPS)
        n_answered = ledger_state.totals.n_answered
    if notes:
        return ErrorClips(*notes[0]).apply(metric)
    if n_answered:
        return metric
    errors = find_errors()
    proposed_clips = None if errors is None else ErrorClips.from_errors(errors)
    recorded_clips = record_error_clips(holdout, proposed_clips)
    return metric if recorded_clips is None else recorded_clips.apply(metric)


def record_error_clips(
    holdout: Any, clips: ErrorClips | None, *, at_closing: bool = False
) -> ErrorClips | None:
    """Return the error clips in a holdout's ledger; record ``clips`` there if it has none.

    After a query was answered, ``clips`` are recorded only if ``at_closing`` is True. The result is
    None if no clips are recorded in the end.
    """
    with holdout.account.write_transaction() as ledger_state:
        notes = ledger_state.notes(SystemNote.ERROR_CLIPS)
        if notes:
            return ErrorClips(*notes[0])
        if clips is None or (ledger_state.totals.n_answered and not at_closing):
            return None
        ledger_state.note(SystemNote.ERROR_CLIPS, list(clips))
    return clips


def with_clips(measure: Measure, clips: ErrorClips | None) -> Measure:
    """Return the measure, its errors clipped if they have no declared range or smaller clip.

    ``clips``: error clips from training errors. If they are None, the measure is unchanged.
    """
    metric = measure.metric if clips is None else clips.apply(measure.metric)
    if metric is measure.metric:
        return measure
    name = metric.display_name if measure.name == measure.metric.display_name else measure.name
    return dataclasses.replace(measure, name=name, metric=metric)


def without_clip(measure: Measure, *, skill: bool) -> Measure:
    """Return the measure by which two models are compared, without the clip if it needs none.

    Skill scores, and differences of absolute errors, need no clip if the errors have no declared
    range. All other measures are returned unchanged. ``skill``: whether it is for a skill score.
    """
    metric = measure.metric
    if not has_undeclared_range(metric) or not (skill or metric.name in _BOUNDED_BY_DISTANCE):
        return measure
    name = metric.name if measure.name == metric.display_name else measure.name
    return Measure(name=name, metric=metric_without_range(metric.name))


def clip_notes(statement: Any, records: Any, units: Any, plan: Any, log_alpha: float) -> list[str]:
    """Return sentences on the clip of the errors of a row over dates, and on errors beyond it.

    ``statement``: a row whose metric clips errors of one output. ``records``: the holdout's
    :class:`ScoredRecords`. ``units``: its :class:`SamplingUnits`, dates. ``plan``: the
    :class:`Plan`. ``log_alpha``: log of the failure probability of both limits together.
    """
    metric = statement.measure.metric
    clip = float(metric.width)
    notes = [
        f"The proven interval is about errors clipped at {clip:.4g}, the approximate one about "
        "errors as they are."
    ]
    clips = plan.error_clips
    # Whether the metric is clipped at the limit from training errors.
    if clips is not None and clips.apply(dataclasses.replace(metric, width=math.inf)) == metric:
        clipped_percent = 100 * clips.clipped_fraction(metric)
        notes.append(
            f"{clipped_percent:.2g}% of {clips.n_errors:,} out-of-fold training errors are beyond "
            "the clip."
        )
        half_width = _declared_half_width(statement, records, units, plan, log_alpha)
        if half_width is not None:
            notes.append(
                "If the range of the training targets were declared as bounds=(low, high), the "
                f"proven interval would be ±{half_width:.3g}."
            )
    return notes + beyond_clip_notes(statement, records)


def beyond_clip_notes(statement: Any, records: Any) -> list[str]:
    """Return a sentence for each model of a row with holdout errors beyond the clip.

    Parameters
    ----------
    statement : Statement
        The row. Its metric clips errors, of one output.
    records : ScoredRecords
        Holdout records and predictions.
    """
    notes = []
    for model_name in statement.models:
        errors = np.abs(records.y - records.predictions(model_name, "values"))
        n_clipped = int(np.count_nonzero(errors > float(statement.measure.metric.width)))
        if n_clipped:
            notes.append(
                f"{n_clipped} of {len(errors)} holdout errors of {model_name} are beyond the clip."
            )
    return notes


def _declared_half_width(statement, records, units, plan, log_alpha):
    """Return the half-width, in score units, of a row if training targets declared its range.

    Errors are then clipped at the largest minus the smallest training target. The result is None if
    the targets are unknown or constant. ``log_alpha``: log of the failure probability of both
    limits together.
    """
    metric = statement.measure.metric
    y_train = None if plan.y_train is None else np.asarray(plan.y_train, dtype=float)
    if y_train is None or not np.ptp(y_train) > 0.0:
        return None
    target_range = float(np.ptp(y_train))
    # Length of the metric's range, as a fraction of its length with errors up to ``target_range``.
    range_ratio = (metric.width / target_range) ** metric.power
    declared_metric = dataclasses.replace(
        metric, width=target_range, lower=metric.lower / range_ratio, note=""
    )
    moments = statement.moments
    center = range_ratio * moments.center
    if len(statement.models) == 1:
        center = 1.0 - range_ratio * (1.0 - moments.center)
    variance = range_ratio**2 * moments.variance
    declared_statement = dataclasses.replace(
        statement,
        measure=dataclasses.replace(statement.measure, metric=declared_metric),
        moments=moments._replace(center=center, variance=variance),
    )
    lower, upper = past_limits(declared_statement, records, units, plan.classes, log_alpha)
    return 0.5 * (upper - lower)


# -- proven rows ----------------------------------------------------------------------------------


class PairedDifference(NamedTuple):
    """Difference of two models' scores on each record, second minus first; arrays of shape (n,)."""

    values: Array  # multiples of ``unit``
    lowest: Array  # multiples of ``unit``: smallest differences that the predictions allow
    highest: Array  # multiples of ``unit``: largest differences that the predictions allow
    unit: float  # length of the metric's range in score units; 1 for errors without bounds


def paired_difference(measure: Any, records: Any, models: Any, classes: Any) -> PairedDifference:
    """Return the difference of two models' scores on each record, with its limits (theory G31).

    The limits are the smallest and the largest difference over ``classes`` and those of both
    models, or follow from the predicted numbers. They are -1 and 1 if predictions do not bound the
    difference, and for more than 20 classes.

    Parameters
    ----------
    measure : Measure
        Metric of the scores.
    records : ScoredRecords
        Records that the models are scored on.
    models : pair of str
        Names of the first and the second model.
    classes : list or None
        Classes of the targets; None in regression.

    Raises
    ------
    UndefinedScore
        If a model fails on some records and their errors have no bound.
    """
    metric = measure.metric
    is_bounded_by_predictions = not metric.is_mean or metric.has_bounded_differences
    low, high = measure.score_range
    if measure.is_ratio_of_sums:
        differences = _contribution_differences(measure, records, models)
    else:
        first_errors, second_errors = (
            np.abs(records.y - records.predictions(name, "values")) for name in models
        )
        differences = first_errors - second_errors
    if not np.isfinite(differences).all():
        raise UndefinedScore("The difference is undefined: a model fails on some records.")
    possible_labels = dict.fromkeys(classes or ())
    for name in models:
        possible_labels |= dict.fromkeys(known_labels(records.models[name]))
    # A user-defined function may give equal predictions different scores.
    if not is_bounded_by_predictions or (
        classes is not None and len(possible_labels) > _MAX_CLASSES
    ):
        ones = np.ones(len(differences))
        return PairedDifference(differences, -ones, ones, high - low)
    if classes is None:
        first_predictions, second_predictions = (
            records.predictions(name, "values") for name in models
        )
        lowest, highest = _limits_of_difference(metric, first_predictions, second_predictions)
        return PairedDifference(differences, lowest, highest, high - low)
    possible_differences = [np.zeros(len(differences))]  # for a label that no model knows
    for label in possible_labels:
        possible_targets = np.repeat(np.asarray([label]), len(differences))
        possible_records = ScoredRecords(records.X, possible_targets, records.models)
        possible_differences.append(_contribution_differences(measure, possible_records, models))
    lowest = np.min(possible_differences, axis=0)
    highest = np.max(possible_differences, axis=0)
    return PairedDifference(differences, lowest, highest, high - low)


def _contribution_differences(measure, records, models):
    """Return the second model's numerator of a score minus the first's, for each record.

    If the measure is a mean, numerators are scores in [0, 1].
    """
    first_numerators, second_numerators = (
        records.contributions(measure, name)[0] for name in models
    )
    return second_numerators - first_numerators


def _limits_of_difference(metric, first_predictions, second_predictions):
    """Return limits of the second model's score minus the first's on each record.

    They are two arrays of shape (n,), for scores in [0, 1], or in units of the target for errors
    without a range. Predictions are numbers, NaN if a model fails on the record.
    """
    difference_limits = getattr(metric, "difference_limits", None)
    if not metric.is_mean:  # absolute errors without a range differ by at most this distance
        highest = np.abs(first_predictions - second_predictions)
        lowest = -highest
    elif difference_limits is not None:
        lowest, highest = difference_limits(first_predictions, second_predictions)
    else:
        highest = np.where(first_predictions != second_predictions, 1.0, 0.0)
        lowest = -highest
    # A model that fails has the worst score.
    has_failure = ~np.isfinite(first_predictions - second_predictions)
    return np.where(has_failure, -1.0, lowest), np.where(has_failure, 1.0, highest)


def past_limits(
    statement: Any, records: Any, units: Any, classes: Any, log_alpha: float
) -> tuple[float, float]:
    """Return limits for the expected score or difference over these dates, in score units.

    Parameters
    ----------
    statement : Statement
        The row, with its expected moments.
    records : ScoredRecords
        Holdout records.
    units : SamplingUnits
        Dates of the holdout records.
    classes : list or None
        Classes of the targets; None in regression.
    log_alpha : float
        Log of the failure probability of both limits together.
    """
    if len(statement.models) == 2:
        return _past_limits_of_difference(statement, records, units, classes, log_alpha)
    measure = statement.measure
    unit_scores, _ = records.contributions(measure, statement.models[0])
    expected_unit_score = statement.moments.center
    variance = statement.moments.variance
    has_one_record_per_date = units.n_units == len(records.y)
    if measure.metric.is_binary and has_one_record_per_date:  # the score of a date is 0 or 1
        # Shrunken toward 1/2: a score of 1 in cross-validation would expect no miss at all.
        expected_unit_score = 0.95 * expected_unit_score + 0.025
        variance = None
    lower, upper = martingale_interval(
        units.date_means(unit_scores),
        log_alpha - math.log(2.0),
        expected=expected_unit_score,
        variance=variance,
        horizon=statement.forecast_horizon,
    )
    low, high = measure.score_range
    return low + (high - low) * lower, low + (high - low) * upper


def _past_limits_of_difference(statement, records, units, classes, log_alpha):
    """Return limits for the expected difference of two models over dates, in score units.

    The difference is the second model's score minus the first's. ``log_alpha``: log of the failure
    probability of both limits together.
    """
    expected_difference = statement.moments.center
    # Fraction of the failure probability that the lower limit takes, fixed before the holdout is
    # read.
    lower_fraction = 0.5
    if expected_difference > 0.0:
        lower_fraction = _EXPECTED_SIDE_FRACTION
    elif expected_difference < 0.0:
        lower_fraction = 1.0 - _EXPECTED_SIDE_FRACTION
    difference = paired_difference(statement.measure, records, statement.models, classes)
    lower, upper = martingale_interval(
        units.date_means(difference.values),
        log_alpha - math.log(2.0),
        expected=expected_difference,
        variance=statement.moments.variance,
        horizon=statement.forecast_horizon,
        lowest=units.date_means(difference.lowest),
        highest=units.date_means(difference.highest),
        lower_share=lower_fraction,
    )
    return difference.unit * lower, difference.unit * upper


def past_moments(statement: Any, plan: Any, holdout: Any, variance: float | None) -> UnitMoments:
    """Return the expected mean and variance of a date's score, or of the difference of two models.

    A score is in [0, 1], a difference in units of ``PairedDifference.unit``. ``variance``: variance
    over records of this row's cross-validated score, for scores in [0, 1]. If it is None, NaN or 0,
    models are scored on records before the holdout, or default moments are returned.
    """
    if variance is not None and variance > 0.0:
        return UnitMoments(statement.expected, max(variance, 1e-6), 1.0)
    moments = None
    if plan.past_records is not None:
        try:
            moments = _moments_of_earlier_dates(statement, plan, holdout)
        except Exception:  # of the user's model, on earlier records
            moments = None
    return moments or _default_moments(statement, plan)


def _moments_of_earlier_dates(statement, plan, holdout):
    """Return the mean and variance of a row's scores or differences on dates before the holdout.

    A variance that is too small is raised to a lower bound. The result is None if predictions of a
    model were passed, because these do not cover earlier dates.
    """
    past_records = plan.past_records
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    models = {name: plan.models[name] for name in statement.models}
    lag_by_model_name = _lag_by_model_name(models, past_horizon(scheme))
    if any(
        isinstance(model, PrecomputedPredictions) and name not in lag_by_model_name
        for name, model in models.items()
    ):
        return None
    past_rows = np.flatnonzero(past_records.dates >= -_MAX_EARLIER_LENGTHS * scheme.n_units)
    past_rows = past_rows[past_rows >= max(lag_by_model_name.values(), default=0)]
    y_past = np.asarray(past_records.y)
    for name, lag in lag_by_model_name.items():
        models[name] = PrecomputedPredictions(y_past[past_rows - lag], plan.classes)
    records = ScoredRecords(safe_indexing(past_records.X, past_rows), y_past[past_rows], models)
    if len(statement.models) == 2:
        difference = paired_difference(statement.measure, records, statement.models, plan.classes)
        scores = difference.values
        largest_differences = np.maximum(-difference.lowest, difference.highest)
        min_variance = _MIN_VARIANCE_OF_PAIR * float(np.mean(largest_differences**2))
    else:
        scores, _ = records.contributions(statement.measure, statement.models[0])
        min_variance = _MIN_VARIANCE
    _, date_codes, date_sizes = np.unique(
        past_records.dates[past_rows], return_inverse=True, return_counts=True
    )
    date_means = np.bincount(date_codes, scores) / date_sizes
    variance = max(float(date_means.var()), min_variance)
    return UnitMoments(float(date_means.mean()), variance, 1.0)


def _lag_by_model_name(models, horizon):
    """Return the lag in dates of each naive forecast among models, by name of the model.

    ``models``: dict of models by name. ``horizon``: number of dates from a forecast to its score.
    """
    keyword_by_name = {name: getattr(model, "keyword", None) for name, model in models.items()}
    return {
        name: _lag_in_dates(keyword, horizon)
        for name, keyword in keyword_by_name.items()
        if is_forecast_keyword(keyword)
    }


def _default_moments(statement, plan):
    """Return default expected moments of a date's score, or of the difference of two models.

    The standard deviation is 0.1. For a difference of errors without a range, it is a quarter of
    the root mean square change between successive earlier targets, if known and not 0.
    """
    variance = 0.01
    if len(statement.models) == 1:
        return UnitMoments(statement.expected, variance, 1.0)
    if plan.past_records is not None and not statement.measure.is_ratio_of_sums:
        changes = np.diff(np.asarray(plan.past_records.y, dtype=float))
        if len(changes) and changes.any():
            variance = 0.0625 * float(np.mean(changes**2))
    return UnitMoments(2.0 * statement.expected - 1.0, variance, 1.0)
