"""Reports on records that are judged given their past: pairs, forecasts, refits (theory G26)."""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone

from sklearn_bdp.correlation.dates import (
    as_time_span,
    date_level,
    date_numbers,
    index_dates,
    shift_dates,
)
from sklearn_bdp.intervals.bounds import UnitMoments, past_limits
from sklearn_bdp.metrics import available_metrics
from sklearn_bdp.release.context import PastRecords
from sklearn_bdp.report.measures import Predicted, Records
from sklearn_bdp.utils.sklearn_compat import safe_indexing
from sklearn_bdp.utils.validation import check_integer

_SEASONAL = re.compile(r"seasonal-([1-9]\d{0,3})")
_MOST_CLASSES = 20  # for which all outcomes of a difference are tried
_LENGTHS = 4  # of the holdout, of earlier dates whose differences are looked at


def past_dates(model: Any, n: int) -> Any:
    """Return the number of each holdout record's date."""
    return getattr(model, "codes_", np.arange(n))


def past_horizon(model: Any) -> int:
    """Return how many dates lie between a forecast and its score; 1 for any other records."""
    return model.horizon if model.is_time_ordered else 1


# -- forecasts that need no model -----------------------------------------------------------------


def is_forecast(name: Any) -> bool:
    """Return whether a keyword names a forecast: ``"naive"`` or ``"seasonal-7"``."""
    return isinstance(name, str) and (name == "naive" or bool(_SEASONAL.fullmatch(name)))


def forecast(
    name: str, holdout: Any, past_records: PastRecords | None, classes: list[Any] | None
) -> Predicted:
    """Return a forecast for each record: the last known target, or that of a season before.

    Its values are targets of the holdout: no check of predictions may look at them.
    """
    model, n, earlier = holdout.dependence, holdout.n, past_records
    lag = _lag(name, past_horizon(model))
    alone = model.is_time_ordered and model.units(n)[0] == n
    if (
        earlier is None
        or not alone
        or len(earlier.y) < lag
        or len(np.unique(earlier.dates)) < len(earlier.y)
    ):
        raise ValueError(
            f"compare={name!r} needs correlation='time' with one record per date, and targets "
            f"before the holdout ({lag} at least), which a search knows in the process that made "
            "it. Pass predictions of the holdout's records. The holdout was not queried."
        )
    dates = past_dates(model, n)
    later = np.asarray(holdout.y)[np.argsort(dates)]
    known = np.concatenate([np.asarray(earlier.y), later])
    return Predicted(known[len(earlier.y) + dates - lag], classes, known_as=name)


def _lag(name, horizon):
    """Return how many dates before its own a forecast looks."""
    season = 1 if name == "naive" else int(_SEASONAL.fullmatch(name)[1])
    return season * math.ceil(horizon / season)


# -- a recipe, refitted ---------------------------------------------------------------------------


class WalkForward(Predicted):
    """The recipe of a model, refitted on all records known before each block of dates.

    Asked by position, as predictions are. Nothing is fitted before the first question, which comes
    after the closing.
    """

    def __init__(self, model: Any, holdout: Any, starts: Any, past_records: PastRecords) -> None:
        self.recipe, self._holdout, self._starts = model, holdout, starts
        self.known_as = None
        self._past_records = past_records
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
        for name in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, name):
                setattr(self, name, functools.partial(self._asked, name))

    @functools.cached_property
    def _blocks(self):
        """The rows of each block and the model that knows everything before it."""
        held, earlier = self._holdout, self._past_records
        dates = past_dates(held.dependence, held.n)
        X, y = _joined(earlier.X, held.X), np.concatenate([earlier.y, held.y])
        all_dates = np.concatenate([earlier.dates, dates])
        found = []
        for start, stop in zip(self._starts, [*self._starts[1:], len(dates)], strict=True):
            known = np.flatnonzero(all_dates <= start - past_horizon(held.dependence))
            known = known[np.argsort(all_dates[known], kind="stable")]
            fitted = clone(self.recipe).fit(safe_indexing(X, known), y[known])
            found.append((np.flatnonzero((dates >= start) & (dates < stop)), fitted))
        return found

    def _asked(self, name, positions):
        rows = np.concatenate([rows for rows, _ in self._blocks])
        said = [
            getattr(one, name)(safe_indexing(self._holdout.X, own)) for own, one in self._blocks
        ]
        return np.concatenate(said)[np.argsort(rows)[np.asarray(positions).ravel().astype(int)]]


def _joined(first, second):
    """Return the rows of two tables of one kind, one after the other."""
    if hasattr(first, "iloc"):
        return sys.modules["pandas"].concat([first, second])
    if scipy.sparse.issparse(first):
        return scipy.sparse.vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])


def refit_blocks(holdout: Any, every: Any, past_records: PastRecords | None) -> tuple[Any, str]:
    """Return the first date of each block of a walk-forward report, and how often in words."""
    model, n = holdout.dependence, holdout.n
    if not model.is_time_ordered or past_records is None:
        raise ValueError(
            "refit_every= needs correlation='time', and the records before the holdout, which a "
            "search knows in the process that made it. The holdout was not queried."
        )
    count, step = model.units(n)[0], model.step
    span = as_time_span(every, "refit_every")
    if span is None:
        every = check_integer("refit_every", every, low=1)
        words = f"every {every} {step}s" if every > 1 else f"every {step}"
        return np.arange(0, count, every), words
    dates = calendar(holdout)
    if dates is None or dates.dtype.kind != "M":
        raise ValueError(
            f"refit_every={every!r} is a span of time, but the records have no dates. Pass a "
            "number of dates, or give fit the dates as times=. The holdout was not queried."
        )
    first_dates = [dates[:1]]
    while first_dates[-1][0] <= dates[-1]:
        first_dates.append(shift_dates(first_dates[-1], span))
    starts = np.searchsorted(dates, np.concatenate(first_dates))
    words = f"every {every}" if isinstance(every, str) else f"every {_describe_span(span)}"
    return np.unique(starts[starts < count]), words


def _describe_span(span):
    """Return a span of time in words."""
    if not isinstance(span, np.timedelta64):
        return f"offset {span.freqstr}"
    days = span / np.timedelta64(1, "D")
    return f"{days:g} days" if days >= 1.0 else f"{24.0 * days:g} hours"


def calendar(holdout: Any) -> Any:
    """Return the dates of a holdout, ascending, or None where they are not known."""
    if hasattr(holdout.dependence, "dates_"):
        return holdout.dependence.dates_
    return index_dates(holdout.X)


def record_dates(holdout: Any) -> Any:
    """Return the date of each holdout record as a number, or None if dates are not known."""
    model = holdout.dependence
    if hasattr(model, "dates_"):
        return model.dates_[model.codes_]
    index = date_level(getattr(holdout.X, "index", None))
    return None if index is None else date_numbers(index, "X.index")


def align_predictions(name: str, predictions: Any, holdout: Any) -> Any:
    """Return predictions in the order of the holdout records: a dated series by its dates.

    Anything without dates is taken by position, as everywhere in scikit-learn.
    """
    index: Any = getattr(predictions, "index", None)
    if callable(index) or hasattr(predictions, "predict"):
        return predictions
    dated = date_level(index)
    if dated is None or index.equals(getattr(holdout.X, "index", None)):
        return predictions
    given, wanted = date_numbers(dated, f"the index of {name}"), record_dates(holdout)
    by_position = f"Pass {name}.to_numpy() if its values are in the order of the holdout records."
    if wanted is None or wanted.dtype.kind != given.dtype.kind:
        raise ValueError(
            f"{name} has dates, and the holdout records have none. {by_position} The holdout was "
            "not queried."
        )
    if len(np.unique(given)) < len(given) or len(np.unique(wanted)) < len(wanted):
        raise ValueError(
            f"{name} cannot be aligned by date, because several records share a date. "
            f"{by_position} The holdout was not queried."
        )
    missing = np.setdiff1d(wanted, given)
    if len(missing):
        raise ValueError(
            f"{name} must have a value for each of the {len(wanted)} holdout dates, but has none "
            f"for {len(missing)} of them, such as {missing[0]}. {by_position} The holdout was not "
            "queried."
        )
    order = np.argsort(given)
    return np.asarray(predictions)[order[np.searchsorted(given, wanted, sorter=order)]]


# -- proven rows ----------------------------------------------------------------------------------


def paired_difference(measure: Any, records: Any, models: Any, classes: Any) -> tuple[Any, ...]:
    """Return each record's difference, second minus first, and the ends that it may have.

    The ends are known with the forecasts: minus and plus their distance for absolute errors, ranges
    of their own for squared and pinball errors (theory G31), and for
    classes the least and the largest difference that any outcome would make. In units of the range,
    which comes last: 1 for absolute errors without declared bounds.
    """
    known = measure.metric is None or (
        measure.metric.name in available_metrics() and not hasattr(measure.metric, "function")
    )

    def gained(records):
        scores = [records.contributions(measure, name)[0] for name in models]
        return scores[1] - scores[0]

    span = measure.span[1] - measure.span[0]  # 1 without bounds
    if measure.is_sum:
        gap = gained(records)
    else:
        off = [np.abs(records.y - records.rows(name, "values")) for name in models]
        gap = off[0] - off[1]
    ones = np.ones(len(gap))
    # What a function of the caller's makes of equal predictions nobody knows.
    if not known or (classes is not None and len(classes) > _MOST_CLASSES):
        return gap, -ones, ones, span
    if classes is None:
        first, second = (records.rows(name, "values") for name in models)
        limits = getattr(measure.metric, "difference_limits", None)
        if measure.metric is None:
            most = np.abs(first - second)
            least = -most
        elif limits is not None:
            least, most = limits(first, second)
        else:
            most = np.where(first != second, 1.0, 0.0)
            least = -most
        differs = ~np.isfinite(first - second)  # a model that fails has the worst score
        return gap, np.where(differs, -1.0, least), np.where(differs, 1.0, most), span
    ends = [0.0 * ones]  # a label that no model knows
    for label in classes:
        supposed = np.repeat(np.asarray([label]), len(gap))
        ends.append(gained(Records(records.X, supposed, records.models)))
    return gap, np.min(ends, axis=0), np.max(ends, axis=0), span


def past_row(
    one: Any, records: Any, sampling: Any, classes: Any, log_level: float
) -> tuple[float, float]:
    """Return limits for the expected score or difference over these dates, in score units.

    ``log_level``: log of the failure probability of both limits together.
    """
    by_date, known, low = sampling.means, one.moments, 0.0
    asked = {"expected": known.center, "variance": known.variance, "horizon": one.ahead}
    if len(one.models) == 2:
        scores, least, most, span = paired_difference(one.measure, records, one.models, classes)
        asked |= {"least": by_date(least), "most": by_date(most)}
    else:
        scores = records.contributions(one.measure, one.models[0])[0]
        low, span = one.measure.span[0], one.measure.span[1] - one.measure.span[0]
        if one.measure.is_share and sampling.count == len(records.y):  # bits
            asked |= {"expected": 0.95 * known.center + 0.025, "variance": None}
    ends = past_limits(by_date(scores), log_level - math.log(2.0), **asked)
    return low + span * ends[0], low + span * ends[1]


def past_moments(one: Any, plan: Any, holdout: Any, variance: float | None) -> UnitMoments:
    """Return what stakes are made for: mean and variance of a date's score, before the holdout.

    ``variance``: of the first row, as a search has it out of fold. Else models are asked about
    earlier records. Any numbers are valid, right ones give narrow intervals.
    """
    if variance is not None and variance > 0.0:
        return UnitMoments(one.expected, max(variance, 1e-6), 1.0)
    paired, earlier, model = len(one.models) == 2, plan.past_records, holdout.dependence
    try:
        rows = np.flatnonzero(earlier.dates >= -_LENGTHS * model.units(holdout.n)[0])
        words = {name: getattr(plan.models[name], "known_as", None) for name in one.models}
        horizon = past_horizon(model)
        lags = {name: _lag(said, horizon) for name, said in words.items() if is_forecast(said)}
        rows, y = rows[rows >= max(lags.values(), default=0)], np.asarray(earlier.y)
        models = {name: plan.models[name] for name in one.models}
        models |= {name: Predicted(y[rows - lag], plan.classes) for name, lag in lags.items()}
        if any(isinstance(models[name], Predicted) for name in models.keys() - lags.keys()):
            raise ValueError("predictions of the holdout say nothing of earlier records.")
        records = Records(safe_indexing(earlier.X, rows), y[rows], models)
        if paired:
            values = paired_difference(one.measure, records, one.models, plan.classes)[0]
        else:
            values = records.contributions(one.measure, one.models[0])[0]
        _, codes, counts = np.unique(earlier.dates[rows], return_inverse=True, return_counts=True)
        series = np.bincount(codes, values) / counts
        least = 1e-6 if paired else 1e-4  # of rows that the models may have seen
        return UnitMoments(float(series.mean()), max(float(series.var()), least), 1.0)
    except Exception:  # what is not known is guessed
        center = 2.0 * one.expected - 1.0 if paired else one.expected
        return UnitMoments(center, 0.01, 1.0)
