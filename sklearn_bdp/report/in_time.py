"""Reports on dates given their past: paired differences, naive forecasts, refits (theory G26)."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.dates import (
    as_time_span,
    date_level,
    date_numbers,
    index_dates,
    shift_dates,
)
from sklearn_bdp.correlation.scheme import SamplingScheme
from sklearn_bdp.intervals.bounds import UnitMoments, martingale_interval
from sklearn_bdp.ledger.ledger import Fact
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
_MOST_CLASSES = 20  # for which all outcomes of a difference are tried
_BOUNDED_BY_DISTANCE = ("neg_mean_absolute_error",)  # metrics of pairs that need no clip
#: Part of the level of a difference that the limit takes which would show the expected direction.
_BETTER_SHARE = 0.8
#: Least variance of scores of earlier dates: in units of the range, and of the squared largest
#: differences.
_MIN_VARIANCE, _MIN_VARIANCE_OF_PAIR = 1e-4, 1e-3
_LENGTHS = 4  # of the holdout, of earlier dates whose differences are looked at


def past_horizon(scheme: SamplingScheme) -> int:
    """Return the number of dates between a forecast and its score; 1 for any other records."""
    return 1 if scheme.calendar is None else scheme.calendar.horizon


# -- forecasts that need no model -----------------------------------------------------------------


def is_forecast(name: Any) -> bool:
    """Return whether a keyword names a forecast: ``"naive"`` or ``"seasonal-7"``."""
    return isinstance(name, str) and (name == "naive" or bool(_SEASONAL.fullmatch(name)))


def forecast(
    name: str, holdout: Any, past_records: PastRecords | None, classes: list[Any] | None
) -> PrecomputedPredictions:
    """Return a forecast for each record: the last known target, or that of a season before.

    Its values are holdout targets: no check of predictions may read them.
    """
    n = holdout.n
    scheme = holdout.dependence.sampling_scheme(n)
    earlier = past_records
    lag = _lag(name, past_horizon(scheme))
    has_single_records = scheme.calendar is not None and scheme.n_units == n
    if (
        earlier is None
        or not has_single_records
        or len(earlier.y) < lag
        or len(np.unique(earlier.dates)) < len(earlier.y)
    ):
        raise ValueError(
            f"compare={name!r} needs correlation='time' with one record per date, and targets "
            f"before the holdout ({lag} at least), which a search knows in the process that made "
            "it. Pass predictions of the holdout's records. The holdout was not queried."
        )
    dates = scheme.record_blocks
    later = np.asarray(holdout.y)[np.argsort(dates)]
    targets = np.concatenate([np.asarray(earlier.y), later])
    return PrecomputedPredictions(targets[len(earlier.y) + dates - lag], classes, known_as=name)


def _lag(name, horizon):
    """Return the number of dates between a forecast's own date and the target that it repeats."""
    season = 1 if name == "naive" else int(_SEASONAL.fullmatch(name)[1])
    return season * math.ceil(horizon / season)


# -- a recipe, refitted ---------------------------------------------------------------------------


class WalkForward(PrecomputedPredictions):
    """The recipe of a model, refitted on all records known before each block of dates.

    It predicts by position, as :class:`PrecomputedPredictions` does. Models are fitted at the first
    prediction, which follows the closing.
    """

    def __init__(self, model: Any, holdout: Any, starts: Any, past_records: PastRecords) -> None:
        self.recipe = model
        self._holdout = holdout
        self._starts = starts
        self.known_as = None
        self._past_records = past_records
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
        for name in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, name):
                setattr(self, name, functools.partial(self._predict, name))

    @functools.cached_property
    def _blocks(self):
        """The rows of each block and the model fitted on all earlier records."""
        holdout = self._holdout
        earlier = self._past_records
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        dates = scheme.record_blocks
        X = _joined(earlier.X, holdout.X)
        y = np.concatenate([earlier.y, holdout.y])
        all_dates = np.concatenate([earlier.dates, dates])
        fitted_blocks = []
        for start, stop in zip(self._starts, [*self._starts[1:], len(dates)], strict=True):
            earlier_rows = np.flatnonzero(all_dates <= start - past_horizon(scheme))
            earlier_rows = earlier_rows[np.argsort(all_dates[earlier_rows], kind="stable")]
            fitted = clone(self.recipe).fit(safe_indexing(X, earlier_rows), y[earlier_rows])
            fitted_blocks.append((np.flatnonzero((dates >= start) & (dates < stop)), fitted))
        return fitted_blocks

    def _predict(self, name, positions):
        rows = np.concatenate([rows for rows, _ in self._blocks])
        block_predictions = [
            getattr(model, name)(safe_indexing(self._holdout.X, block_rows))
            for block_rows, model in self._blocks
        ]
        return np.concatenate(block_predictions)[
            np.argsort(rows)[np.asarray(positions).ravel().astype(int)]
        ]


def _joined(first, second):
    """Return the concatenated rows of two tables of one type."""
    if hasattr(first, "iloc"):
        return sys.modules["pandas"].concat([first, second])
    if scipy.sparse.issparse(first):
        return scipy.sparse.vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])


def refit_blocks(holdout: Any, every: Any, past_records: PastRecords | None) -> tuple[Any, str]:
    """Return the first date of each block of a walk-forward report, and the frequency as text."""
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is None or past_records is None:
        raise ValueError(
            "refit_every= needs correlation='time', and the records before the holdout, which a "
            "search knows in the process that made it. The holdout was not queried."
        )
    step = scheme.calendar.step
    span = as_time_span(every, "refit_every")
    if span is None:
        every = check_integer("refit_every", every, low=1)
        frequency = f"every {every} {step}s" if every > 1 else f"every {step}"
        return np.arange(0, scheme.n_units, every), frequency
    frequency = f"every {every}" if isinstance(every, str) else f"every {_describe_span(span)}"
    starts = _block_starts(calendar(holdout), span, every)
    return starts[starts < scheme.n_units], frequency


def _block_starts(dates, span, every):
    """Return the position of the first date of each span of time; ``every``: the span as passed."""
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"refit_every={every!r} is a span of time, but the records have no dates. Pass a "
            "number of dates, or give fit the dates as times=. The holdout was not queried."
        )
    first_dates = [dates[:1]]
    while first_dates[-1][0] <= dates[-1]:
        first_dates.append(shift_dates(first_dates[-1], span))
    return np.unique(np.searchsorted(dates, np.concatenate(first_dates)))


def _describe_span(span):
    """Return a span of time in words."""
    if not isinstance(span, np.timedelta64):
        return f"offset {span.freqstr}"
    days = span / np.timedelta64(1, "D")
    return f"{days:g} days" if days >= 1.0 else f"{24.0 * days:g} hours"


def calendar(holdout: Any) -> Any:
    """Return the dates of a holdout, ascending, or None if they are not known."""
    dates = holdout.dependence.sampling_scheme(holdout.n).calendar
    if dates is not None and dates.dates is not None:
        return dates.dates
    return index_dates(holdout.X)


def record_dates(holdout: Any) -> Any:
    """Return the date of each holdout record as a number, or None if dates are not known."""
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is not None and scheme.calendar.dates is not None:
        return scheme.calendar.dates[scheme.record_blocks]
    index = date_level(getattr(holdout.X, "index", None))
    return None if index is None else date_numbers(index, "X.index")


def align_predictions(name: str, predictions: Any, holdout: Any) -> Any:
    """Return predictions in the order of the holdout records: a dated series by its dates.

    Anything without dates is taken by position, as everywhere in scikit-learn.
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
    return np.asarray(predictions)[
        order[np.searchsorted(prediction_dates, holdout_dates, sorter=order)]
    ]


def _check_alignment(name, prediction_dates, holdout_dates):
    """Raise ValueError unless there is one prediction for each holdout date, and one record."""
    by_position = f"Pass {name}.to_numpy() if its values are in the order of the holdout records."
    if holdout_dates is None or holdout_dates.dtype.kind != prediction_dates.dtype.kind:
        raise ValueError(
            f"{name} has dates, and the holdout records have none. {by_position} The holdout was "
            "not queried."
        )
    if any(np.unique(dates).size < dates.size for dates in (prediction_dates, holdout_dates)):
        raise ValueError(
            f"{name} cannot be aligned by date, because several records share a date. "
            f"{by_position} The holdout was not queried."
        )
    missing = np.setdiff1d(holdout_dates, prediction_dates)
    if len(missing):
        raise ValueError(
            f"{name} must have a value for each of the {len(holdout_dates)} holdout dates, but has "
            f"none for {len(missing)} of them, such as {missing[0]}. {by_position} The holdout "
            "was not queried."
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
        The same metric if its range is declared, if records are no dates, or if earlier answers
        were given without a clip.
    """
    is_judged_by_date = holdout.dependence.sampling_scheme(holdout.n).calendar is not None
    if not (is_judged_by_date and has_undeclared_range(metric)):
        return metric
    with holdout.account.read_transaction() as book:
        notes = book.notes(Fact.ERROR_CLIPS)
        n_answered = book.last.n_answered
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
    """Return the clips that apply to a holdout; record them if none are recorded yet.

    Clips are fixed at the first query: if queries were answered without them, only the final
    report has clips (``at_closing``).
    """
    with holdout.account.write_transaction() as book:
        notes = book.notes(Fact.ERROR_CLIPS)
        if notes:
            return ErrorClips(*notes[0])
        if clips is None or (book.last.n_answered and not at_closing):
            return None
        book.note(Fact.ERROR_CLIPS, list(clips))
    return clips


def with_clips(measure: Measure, clips: ErrorClips | None) -> Measure:
    """Return a measure of errors with the clips of the training set, and any other as it is."""
    metric = measure.metric if clips is None else clips.apply(measure.metric)
    if metric is measure.metric:
        return measure
    name = metric.display_name if measure.name == measure.metric.display_name else measure.name
    return dataclasses.replace(measure, name=name, metric=metric)


def without_clip(measure: Measure, *, skill: bool) -> Measure:
    """Return the measure of a comparison of two models whose errors have no declared range.

    Skill scores are approximate and need no range. The distance of two forecasts bounds the
    difference of their absolute errors. Other differences keep the clip.
    """
    metric = measure.metric
    if not has_undeclared_range(metric) or not (skill or metric.name in _BOUNDED_BY_DISTANCE):
        return measure
    name = metric.name if measure.name == metric.display_name else measure.name
    return Measure(name=name, metric=metric_without_range(metric.name))


def clip_notes(
    statement: Any, records: Any, units: Any, plan: Any, log_failure: float
) -> list[str]:
    """Return sentences on the clip of a row of errors, in time.

    They state the share that the clip cuts off in training, the number of holdout errors beyond it,
    and the width of the interval if the range of the training targets were declared.
    """
    metric = statement.measure.metric
    largest = float(metric.width)
    notes = [
        f"The proven interval is about errors clipped at {largest:.4g}, the approximate one about "
        "errors as they are."
    ]
    clips = plan.error_clips
    if clips is not None and clips.apply(dataclasses.replace(metric, width=math.inf)) == metric:
        clipped_percent = 100 * clips.clipped_fraction(metric)
        notes.append(
            f"{clipped_percent:.2g}% of {clips.n_errors:,} out-of-fold training errors are beyond "
            "the clip."
        )
        half_width = _declared_half_width(statement, records, units, plan, log_failure)
        if half_width is not None:
            notes.append(
                "If the range of the training targets were declared as bounds=(low, high), the "
                f"proven interval would be ±{half_width:.3g}."
            )
    for name in statement.models:
        errors = np.abs(records.y - records.rows(name, "values"))
        n_beyond = int(np.count_nonzero(errors > largest))
        if n_beyond:
            notes.append(
                f"{n_beyond} of {len(errors)} holdout errors of {name} are beyond the clip."
            )
    return notes


def _declared_half_width(statement, records, units, plan, log_failure):
    """Return the half-width with the range of the training targets as clip; None if not known."""
    metric = statement.measure.metric
    targets = None if plan.y is None else np.asarray(plan.y, dtype=float)
    if targets is None or not np.ptp(targets) > 0.0:
        return None
    width = float(np.ptp(targets))
    ratio = (metric.width / width) ** metric.power
    declared = dataclasses.replace(metric, width=width, lower=metric.lower / ratio, note="")
    moments = statement.moments
    center = ratio * moments.center
    if len(statement.models) == 1:
        center = 1.0 - ratio * (1.0 - moments.center)
    variance = ratio**2 * moments.variance
    declared_statement = dataclasses.replace(
        statement,
        measure=dataclasses.replace(statement.measure, metric=declared),
        moments=moments._replace(center=center, variance=variance),
    )
    lower, upper = past_row(declared_statement, records, units, plan.classes, log_failure)
    return 0.5 * (upper - lower)


# -- proven rows ----------------------------------------------------------------------------------


def paired_difference(measure: Any, records: Any, models: Any, classes: Any) -> tuple[Any, ...]:
    """Return each record's difference, second minus first, its limits, and the metric's range.

    The limits follow from the forecasts: minus and plus their distance for absolute errors, other
    ranges for squared and pinball errors (theory G31), and for classes the smallest and the largest
    difference over all outcomes. Differences and limits are in units of the range, which is 1 for
    absolute errors without declared bounds.
    """
    metric = measure.metric
    is_bounded_loss = not metric.is_mean or metric.has_bounded_differences
    span = measure.span[1] - measure.span[0]  # 1 without bounds
    if measure.is_sum:
        gap = _gain(measure, records, models)
    else:
        errors = [np.abs(records.y - records.rows(name, "values")) for name in models]
        gap = errors[0] - errors[1]
    if not np.isfinite(gap).all():
        raise UndefinedScore("The difference is undefined: a model fails on some records.")
    ones = np.ones(len(gap))
    # A user-defined function may give equal predictions different scores.
    if not is_bounded_loss or (classes is not None and len(classes) > _MOST_CLASSES):
        return gap, -ones, ones, span
    if classes is None:
        predictions = [records.rows(name, "values") for name in models]
        return gap, *_limits_of_difference(metric, *predictions), span
    gains = [0.0 * ones]  # a label that no model knows
    for label in classes:
        supposed = np.repeat(np.asarray([label]), len(gap))
        supposed_records = ScoredRecords(records.X, supposed, records.models)
        gains.append(_gain(measure, supposed_records, models))
    return gap, np.min(gains, axis=0), np.max(gains, axis=0), span


def _gain(measure, records, models):
    """Return the contribution of each record to the second model's score minus the first's."""
    first, second = (records.contributions(measure, name)[0] for name in models)
    return second - first


def _limits_of_difference(metric, first, second):
    """Return limits of the difference of two models' scores, from their forecasts."""
    limits = getattr(metric, "difference_limits", None)
    if not metric.is_mean:
        upper = np.abs(first - second)
        lower = -upper
    elif limits is not None:
        lower, upper = limits(first, second)
    else:
        upper = np.where(first != second, 1.0, 0.0)
        lower = -upper
    has_failure = ~np.isfinite(first - second)  # a model that fails has the worst score
    return np.where(has_failure, -1.0, lower), np.where(has_failure, 1.0, upper)


def past_row(
    statement: Any, records: Any, units: Any, classes: Any, log_failure: float
) -> tuple[float, float]:
    """Return limits for the expected score or difference over these dates, in score units.

    ``log_failure``: log of the failure probability of both limits together.
    """
    by_date = units.date_means
    moments = statement.moments
    expected = moments.center
    variance = moments.variance
    low = 0.0
    smallest, largest = 0.0, 1.0
    lower_share = 0.5
    if len(statement.models) == 2:
        if expected != 0.0:  # by earlier dates, so it is fixed before the holdout is read
            lower_share = _BETTER_SHARE if expected > 0.0 else 1.0 - _BETTER_SHARE
        scores, lower, upper, span = paired_difference(
            statement.measure, records, statement.models, classes
        )
        smallest = by_date(lower)
        largest = by_date(upper)
    else:
        scores = records.contributions(statement.measure, statement.models[0])[0]
        low, high = statement.measure.span
        span = high - low
        has_single_records = units.n_units == len(records.y)
        if statement.measure.metric.is_binary and has_single_records:  # one 0 or 1 per date
            expected = 0.95 * moments.center + 0.025
            variance = None
    ends = martingale_interval(
        by_date(scores),
        log_failure - math.log(2.0),
        expected=expected,
        variance=variance,
        horizon=statement.forecast_horizon,
        lowest=smallest,
        highest=largest,
        lower_share=lower_share,
    )
    return low + span * ends[0], low + span * ends[1]


def past_moments(statement: Any, plan: Any, holdout: Any, variance: float | None) -> UnitMoments:
    """Return the expected mean and variance of a date's score, from dates before the holdout.

    The stakes of the martingale are chosen for them. ``variance``: of the first row, out of fold,
    from a search. Otherwise models are scored on earlier records. Any moments are valid, accurate
    ones give narrow intervals.
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
    """Return the moments of the scores of earlier dates; None if predictions are known only later.

    Models may have seen these records, so that the variance is at least a small part of the range.
    """
    earlier = plan.past_records
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    models = {name: plan.models[name] for name in statement.models}
    lags = _lags_of_forecasts(models, past_horizon(scheme))
    if any(
        isinstance(model, PrecomputedPredictions) and name not in lags
        for name, model in models.items()
    ):
        return None
    rows = np.flatnonzero(earlier.dates >= -_LENGTHS * scheme.n_units)
    rows = rows[rows >= max(lags.values(), default=0)]
    y = np.asarray(earlier.y)
    for name, lag in lags.items():
        models[name] = PrecomputedPredictions(y[rows - lag], plan.classes)
    records = ScoredRecords(safe_indexing(earlier.X, rows), y[rows], models)
    if len(statement.models) == 2:
        scores, lowest, highest, _ = paired_difference(
            statement.measure, records, statement.models, plan.classes
        )
        min_variance = _MIN_VARIANCE_OF_PAIR * float(np.mean(np.maximum(-lowest, highest) ** 2))
    else:
        scores = records.contributions(statement.measure, statement.models[0])[0]
        min_variance = _MIN_VARIANCE
    _, codes, counts = np.unique(earlier.dates[rows], return_inverse=True, return_counts=True)
    by_date = np.bincount(codes, scores) / counts
    return UnitMoments(float(by_date.mean()), max(float(by_date.var()), min_variance), 1.0)


def _lags_of_forecasts(models, horizon):
    """Return the lag of each naive forecast among models, by name."""
    keywords = {name: getattr(model, "known_as", None) for name, model in models.items()}
    return {
        name: _lag(keyword, horizon) for name, keyword in keywords.items() if is_forecast(keyword)
    }


def _default_moments(statement, plan):
    """Return moments without scores of earlier dates.

    A difference of errors without a range is taken to vary by a quarter of the changes of earlier
    targets, other scores by a tenth of their range.
    """
    variance = 0.01
    if len(statement.models) == 1:
        return UnitMoments(statement.expected, variance, 1.0)
    if plan.past_records is not None and not statement.measure.is_sum:
        changes = np.diff(np.asarray(plan.past_records.y, dtype=float))
        if len(changes) and changes.any():
            variance = 0.0625 * float(np.mean(changes**2))
    return UnitMoments(2.0 * statement.expected - 1.0, variance, 1.0)
