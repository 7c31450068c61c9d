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
_MAX_EARLIER_LENGTHS = 4  # most earlier dates that are scored, in lengths of the holdout


def past_horizon(scheme: SamplingScheme) -> int:
    """Return the number of dates from a forecast to its score; 1 if records are not in time."""
    return 1 if scheme.calendar is None else scheme.calendar.horizon


# -- forecasts that need no model -----------------------------------------------------------------


def is_forecast(name: Any) -> bool:
    """Return whether a keyword names a forecast: ``"naive"``, or one such as ``"seasonal-7"``."""
    return isinstance(name, str) and (name == "naive" or bool(_SEASONAL.fullmatch(name)))


def forecast(
    name: str, holdout: Any, past_records: PastRecords | None, classes: list[Any] | None
) -> PrecomputedPredictions:
    """Return a forecast for each record: the last known target, or that of a season before.

    Its values may be holdout targets: no check of predictions may read them. ``name``: keyword of
    the forecast. ``classes``: of the targets, None of a regression. Raise ValueError without
    enough targets before the holdout, and unless each date has one record.
    """
    n = holdout.n
    scheme = holdout.dependence.sampling_scheme(n)
    lag = _lag(name, past_horizon(scheme))
    has_single_records = scheme.calendar is not None and scheme.n_units == n
    if (
        past_records is None
        or not has_single_records
        or len(past_records.y) < lag
        or len(np.unique(past_records.dates)) < len(past_records.y)
    ):
        raise ValueError(
            f"compare={name!r} needs correlation='time' with one record per date, and targets "
            f"before the holdout ({lag} at least), which a search knows in the process that made "
            "it. Pass predictions of the holdout's records. The holdout was not queried."
        )
    date_of_record = scheme.record_blocks
    holdout_targets = np.asarray(holdout.y)[np.argsort(date_of_record)]
    targets_in_time = np.concatenate([np.asarray(past_records.y), holdout_targets])
    repeated_targets = targets_in_time[len(past_records.y) + date_of_record - lag]
    return PrecomputedPredictions(repeated_targets, classes, keyword=name)


def _lag(name, horizon):
    """Return the number of dates from the target that a forecast repeats to the date it predicts.

    ``name``: keyword of the forecast. ``horizon``: least number of dates before the outcome.
    """
    season = 1 if name == "naive" else int(_SEASONAL.fullmatch(name)[1])
    return season * math.ceil(horizon / season)


# -- a recipe, refitted ---------------------------------------------------------------------------


class WalkForward(PrecomputedPredictions):
    """The recipe of a model, refitted for each block of dates on all records known before it.

    It predicts by position, as :class:`PrecomputedPredictions` does. All models are fitted at the
    first prediction.

    Parameters
    ----------
    model : estimator
        Cloned for each block.
    holdout : ReusableHoldout
        A holdout in time order.
    first_dates : ndarray of int
        Position of the first date of each block.
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
        """Pairs, one for each block: positions of its records, and its model.

        The model is fitted on all records that are known one horizon before the block.
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
        """Return the predictions of a method for the records at the positions in ``X``."""
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
    """Dates before which the recipe of a model is refitted."""

    first_dates: Array  # position of the first date of each block of dates
    frequency: str  # in words, such as "every 7 days"


def refit_blocks(holdout: Any, every: Any, past_records: PastRecords | None) -> RefitSchedule:
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
        If the holdout is not in time order, if ``past_records`` is None, if ``every`` is neither a
        positive number of dates nor a span of time, and for a span of time without dates.
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
    """Return the position of the first date from the start of each span on, without repetition.

    The last position is ``len(dates)``, after all dates. ``dates``: different dates, ascending, or
    None. ``every``: the span as passed, for the error. Raise ValueError unless the type of
    ``dates`` is ``datetime64``.
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
    """Return a span of time in words, such as "7 days"."""
    if not isinstance(time_span, np.timedelta64):
        return f"offset {time_span.freqstr}"
    days = time_span / np.timedelta64(1, "D")
    return f"{days:g} days" if days >= 1.0 else f"{24.0 * days:g} hours"


def unique_dates(holdout: Any) -> Any:
    """Return the dates of a holdout in time, ascending, or None if they are not known.

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
    """Return predictions in the order of the holdout records: a dated series by its dates.

    Models are returned unchanged, and so are predictions without dates or with the index of
    ``holdout.X``, which are in the order of the records. ``name``: of the predictions in messages.
    Raise ValueError if the dates do not match.
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
    """Return the metric by which a holdout of dates is queried (theory G31).

    This is the one rule for errors without a declared range: searches, scorers and single queries
    follow it. The clip is recorded before the first query.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    metric : BoundedMetric
        Any metric.
    find_errors : callable
        Returns out-of-fold errors of training records, or None. It is called if no clip is recorded
        and nothing was answered.

    Returns
    -------
    BoundedMetric
        The metric with its clip. The same metric if it does not clip errors or its range is
        declared, if records are not in time, if earlier answers were given without a clip, and if
        there is no clip below the range of the training targets.
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
    found_clips = None if errors is None else ErrorClips.from_errors(errors)
    clips = record_error_clips(holdout, found_clips)
    return metric if clips is None else clips.apply(metric)


def record_error_clips(
    holdout: Any, clips: ErrorClips | None, *, at_closing: bool = False
) -> ErrorClips | None:
    """Return the clips that apply to a holdout; record ``clips`` if none are recorded yet.

    Clips are fixed at the first query: if queries were answered without them, only the final
    report has clips (``at_closing=True``). The result is None if no clips are recorded, and
    ``clips`` is None or comes too late.
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
    """Return a measure of errors without a declared range with its clip, and any other as it is.

    ``clips``: those of the training set. If it is None, all measures stay the same.
    """
    metric = measure.metric if clips is None else clips.apply(measure.metric)
    if metric is measure.metric:
        return measure
    name = metric.display_name if measure.name == measure.metric.display_name else measure.name
    return dataclasses.replace(measure, name=name, metric=metric)


def without_clip(measure: Measure, *, skill: bool) -> Measure:
    """Return the measure of a comparison of two models whose errors have no declared range.

    Skill scores are approximate and need no range. The distance of two forecasts bounds the
    difference of their absolute errors. Other differences keep the clip. A measure with a declared
    range, or of other scores than errors, is returned as it is.
    """
    metric = measure.metric
    if not has_undeclared_range(metric) or not (skill or metric.name in _BOUNDED_BY_DISTANCE):
        return measure
    name = metric.name if measure.name == metric.display_name else measure.name
    return Measure(name=name, metric=metric_without_range(metric.name))


def clip_notes(statement: Any, records: Any, units: Any, plan: Any, log_alpha: float) -> list[str]:
    """Return sentences on the clip of a row of errors, in time.

    They begin with the clip and end with those of :func:`beyond_clip_notes`. If the clip comes from
    training errors, they state the percentage of these errors beyond it and, if the range of the
    training targets is known, the half-width that the interval would have with it declared.
    ``statement``, ``records``, ``units`` and ``log_alpha`` are those of :func:`past_limits`;
    ``plan``: of the report.
    """
    metric = statement.measure.metric
    clip = float(metric.width)
    notes = [
        f"The proven interval is about errors clipped at {clip:.4g}, the approximate one about "
        "errors as they are."
    ]
    clips = plan.error_clips
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
    for name in statement.models:
        errors = np.abs(records.y - records.predictions(name, "values"))
        n_clipped = int(np.count_nonzero(errors > float(statement.measure.metric.width)))
        if n_clipped:
            notes.append(
                f"{n_clipped} of {len(errors)} holdout errors of {name} are beyond the clip."
            )
    return notes


def _declared_half_width(statement, records, units, plan, log_alpha):
    """Return the half-width that a proven row would have with another clip, in score units.

    That clip is the length of the range of the plan's targets. The result is None if the targets
    are not known or constant. Arguments are those of :func:`clip_notes`.
    """
    metric = statement.measure.metric
    targets = None if plan.y_train is None else np.asarray(plan.y_train, dtype=float)
    if targets is None or not np.ptp(targets) > 0.0:
        return None
    target_range = float(np.ptp(targets))
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

    values: Array  # in units of ``unit``
    lowest: Array  # smallest possible values, known from the forecasts
    highest: Array  # largest possible values
    unit: float  # length of the metric's range in score units; 1 for errors without bounds


def paired_difference(measure: Any, records: Any, models: Any, classes: Any) -> PairedDifference:
    """Return the difference of two models on each record, with its limits.

    The limits follow from the forecasts if these bound the difference (theory G31). For up to 20
    known classes they are the smallest and the largest difference over all outcomes. Limits that
    the forecasts do not give are -1 and 1.

    Parameters
    ----------
    measure : Measure
        Metric of the scores.
    records : ScoredRecords
        Records that the models are scored on.
    models : pair of str
        Names of the first and the second model.
    classes : list or None
        Classes of the targets; None of a regression.

    Raises
    ------
    UndefinedScore
        If a model fails on some records and their errors have no bound.
    """
    metric = measure.metric
    is_bounded_by_forecasts = not metric.is_mean or metric.has_bounded_differences
    low, high = measure.score_range
    if measure.is_ratio_of_sums:
        values = _contribution_differences(measure, records, models)
    else:
        first_errors, second_errors = (
            np.abs(records.y - records.predictions(name, "values")) for name in models
        )
        values = first_errors - second_errors
    if not np.isfinite(values).all():
        raise UndefinedScore("The difference is undefined: a model fails on some records.")
    # A user-defined function may give equal predictions different scores.
    if not is_bounded_by_forecasts or (classes is not None and len(classes) > _MAX_CLASSES):
        ones = np.ones(len(values))
        return PairedDifference(values, -ones, ones, high - low)
    if classes is None:
        first, second = (records.predictions(name, "values") for name in models)
        lowest, highest = _limits_of_difference(metric, first, second)
        return PairedDifference(values, lowest, highest, high - low)
    possible_values = [np.zeros(len(values))]  # for a label that no model knows
    for label in classes:
        possible_targets = np.repeat(np.asarray([label]), len(values))
        possible_records = ScoredRecords(records.X, possible_targets, records.models)
        possible_values.append(_contribution_differences(measure, possible_records, models))
    lowest = np.min(possible_values, axis=0)
    highest = np.max(possible_values, axis=0)
    return PairedDifference(values, lowest, highest, high - low)


def _contribution_differences(measure, records, models):
    """Return each record's contribution to the second model's score minus that to the first's.

    Of a mean, these are differences of scores in [0, 1].
    """
    first, second = (records.contributions(measure, name)[0] for name in models)
    return second - first


def _limits_of_difference(metric, first, second):
    """Return limits of the second model's score minus the first one's, from their forecasts.

    They are arrays of shape (n,), in units of ``PairedDifference.unit``. ``first``, ``second``:
    predicted numbers of the models, NaN if one fails on the record.
    """
    difference_limits = getattr(metric, "difference_limits", None)
    if not metric.is_mean:  # absolute errors without a range differ by at most this distance
        highest = np.abs(first - second)
        lowest = -highest
    elif difference_limits is not None:
        lowest, highest = difference_limits(first, second)
    else:
        highest = np.where(first != second, 1.0, 0.0)
        lowest = -highest
    has_failure = ~np.isfinite(first - second)  # a model that fails has the worst score
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
        Classes of the targets; None of a regression.
    log_alpha : float
        Log of the failure probability of both limits together.
    """
    if len(statement.models) == 2:
        return _past_limits_of_difference(statement, records, units, classes, log_alpha)
    measure = statement.measure
    unit_scores, _ = records.contributions(measure, statement.models[0])
    expected = statement.moments.center
    variance = statement.moments.variance
    has_single_records = units.n_units == len(records.y)
    if measure.metric.is_binary and has_single_records:  # the score of a date is 0 or 1
        # Shrunken toward 1/2: a score of 1 in cross-validation would expect no miss at all.
        expected = 0.95 * expected + 0.025
        variance = None
    lower, upper = martingale_interval(
        units.date_means(unit_scores),
        log_alpha - math.log(2.0),
        expected=expected,
        variance=variance,
        horizon=statement.forecast_horizon,
    )
    low, high = measure.score_range
    return low + (high - low) * lower, low + (high - low) * upper


def _past_limits_of_difference(statement, records, units, classes, log_alpha):
    """Return limits for the expected difference of two models, in score units.

    Arguments are those of :func:`past_limits`.
    """
    expected = statement.moments.center
    # The side is chosen before the holdout is read.
    lower_fraction = 0.5
    if expected > 0.0:
        lower_fraction = _EXPECTED_SIDE_FRACTION
    elif expected < 0.0:
        lower_fraction = 1.0 - _EXPECTED_SIDE_FRACTION
    difference = paired_difference(statement.measure, records, statement.models, classes)
    lower, upper = martingale_interval(
        units.date_means(difference.values),
        log_alpha - math.log(2.0),
        expected=expected,
        variance=statement.moments.variance,
        horizon=statement.forecast_horizon,
        lowest=units.date_means(difference.lowest),
        highest=units.date_means(difference.highest),
        lower_share=lower_fraction,
    )
    return difference.unit * lower, difference.unit * upper


def past_moments(statement: Any, plan: Any, holdout: Any, variance: float | None) -> UnitMoments:
    """Return the expected mean and variance of a date's score, or of its difference.

    A score is in [0, 1], a difference in units of ``PairedDifference.unit``. The stakes of the
    martingale are chosen for these moments: any are valid. ``variance``: of a record's score in
    this row, out of fold, from a search. If it is None, NaN or 0, models are scored on records
    before the holdout. Default moments are returned if that fails, and if there are no such
    records.
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
    """Return the moments of the scores of earlier dates, or of their differences.

    Models may have seen these records: a variance that is too small is raised to a lower bound. The
    result is None for predictions that were passed, which do not cover earlier dates.
    """
    past_records = plan.past_records
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    models = {name: plan.models[name] for name in statement.models}
    lags = _lags_of_forecasts(models, past_horizon(scheme))
    if any(
        isinstance(model, PrecomputedPredictions) and name not in lags
        for name, model in models.items()
    ):
        return None
    rows = np.flatnonzero(past_records.dates >= -_MAX_EARLIER_LENGTHS * scheme.n_units)
    rows = rows[rows >= max(lags.values(), default=0)]
    y = np.asarray(past_records.y)
    for name, lag in lags.items():
        models[name] = PrecomputedPredictions(y[rows - lag], plan.classes)
    records = ScoredRecords(safe_indexing(past_records.X, rows), y[rows], models)
    if len(statement.models) == 2:
        difference = paired_difference(statement.measure, records, statement.models, plan.classes)
        scores = difference.values
        largest_differences = np.maximum(-difference.lowest, difference.highest)
        min_variance = _MIN_VARIANCE_OF_PAIR * float(np.mean(largest_differences**2))
    else:
        scores, _ = records.contributions(statement.measure, statement.models[0])
        min_variance = _MIN_VARIANCE
    _, date_codes, date_sizes = np.unique(
        past_records.dates[rows], return_inverse=True, return_counts=True
    )
    date_means = np.bincount(date_codes, scores) / date_sizes
    variance = max(float(date_means.var()), min_variance)
    return UnitMoments(float(date_means.mean()), variance, 1.0)


def _lags_of_forecasts(models, horizon):
    """Return the lag of each naive forecast among models, in dates, by name of the model."""
    keywords = {name: getattr(model, "keyword", None) for name, model in models.items()}
    return {
        name: _lag(keyword, horizon) for name, keyword in keywords.items() if is_forecast(keyword)
    }


def _default_moments(statement, plan):
    """Return the expected moments of a date's score or difference if no earlier dates were scored.

    The standard deviation is 0.1, but a quarter of the root mean square change of earlier targets
    for a difference of errors without a range, if these targets change.
    """
    variance = 0.01
    if len(statement.models) == 1:
        return UnitMoments(statement.expected, variance, 1.0)
    if plan.past_records is not None and not statement.measure.is_ratio_of_sums:
        changes = np.diff(np.asarray(plan.past_records.y, dtype=float))
        if len(changes) and changes.any():
            variance = 0.0625 * float(np.mean(changes**2))
    return UnitMoments(2.0 * statement.expected - 1.0, variance, 1.0)
