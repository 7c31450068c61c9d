"""Approximate rows of a final report: any statistic, read from the closed holdout (theory G22)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit
from sklearn import metrics as scores
from sklearn.linear_model import LogisticRegression

from sklearn_bdp.accounting import approximation as limits
from sklearn_bdp.accounting import binomial_interval, jackknife_interval, mean_of_shares

_MOST_UNITS = 1000  # independent records are left out in blocks beyond: time, not precision


class Statistic(NamedTuple):
    """A statistic of targets and responses, greater is better unless it is raw."""

    function: Callable[[Any, Any], float]
    response: str  # "labels", "scores" of the positive class, "chances" of it, or "values"
    scale: str  # where its distribution is nearest to a normal one
    counted: Callable[[Any, Any], tuple[int, int]] | None = None  # (hits, count) of a share
    back: Callable[[float], float] = float  # from the share


def _slope(y, chance):
    """Return the slope of the log odds of the targets on those of the predictions."""
    model = LogisticRegression(C=1e6).fit(logit(chance)[:, None], y)
    return float(model.coef_[0, 0])


def _found(y, said):
    """Return hits among all records that are positive or called so: Jaccard's share."""
    return int(np.sum((y == 1) & (said == 1))), int(np.sum((y == 1) | (said == 1)))


def _table():
    """Return the statistics by name."""
    called = lambda y, p: (int(np.sum((y == 1) & (p == 1))), int(np.sum(p == 1)))  # noqa: E731
    real = lambda y, p: (int(np.sum((y == 1) & (p == 1))), int(np.sum(y == 1)))  # noqa: E731
    table = {
        "accuracy": Statistic(
            scores.accuracy_score, "labels", "unit", lambda y, p: (int(np.sum(y == p)), len(y))
        ),
        "balanced_accuracy": Statistic(scores.balanced_accuracy_score, "labels", "unit"),
        "f1": Statistic(scores.f1_score, "labels", "unit", _found, lambda q: 2 * q / (1 + q)),
        "jaccard": Statistic(scores.jaccard_score, "labels", "unit", _found),
        "precision": Statistic(scores.precision_score, "labels", "unit", called),
        "recall": Statistic(scores.recall_score, "labels", "unit", real),
        "roc_auc": Statistic(scores.roc_auc_score, "scores", "unit"),
        "average_precision": Statistic(scores.average_precision_score, "scores", "unit"),
        "neg_brier_score": Statistic(
            lambda y, p: -scores.brier_score_loss(y, p), "chances", "loss"
        ),
        "neg_log_loss": Statistic(lambda y, p: -scores.log_loss(y, p), "chances", "loss"),
        "calibration_slope": Statistic(_slope, "chances", "raw"),
        "calibration_in_the_large": Statistic(
            lambda y, p: float(np.mean(y) - np.mean(p)), "chances", "raw"
        ),
        "r2": Statistic(scores.r2_score, "values", "explained"),
        "explained_variance": Statistic(scores.explained_variance_score, "values", "explained"),
    }
    for name, loss in (
        ("neg_mean_absolute_error", scores.mean_absolute_error),
        ("neg_mean_squared_error", scores.mean_squared_error),
        ("neg_root_mean_squared_error", scores.root_mean_squared_error),
    ):
        table[name] = Statistic(lambda y, p, loss=loss: -loss(y, p), "values", "loss")
    families = scores.f1_score, scores.precision_score, scores.recall_score, scores.jaccard_score
    for family in families:
        for average in ("macro", "micro", "weighted"):
            name = f"{family.__name__.removesuffix('_score')}_{average}"
            averaged = functools.partial(family, average=average, zero_division=0.0)
            table[name] = Statistic(averaged, "labels", "unit")
    return table


STATISTICS = _table()


class Approximation(NamedTuple):
    """One approximate row; ``lower`` and ``upper`` are NaN where it is refused."""

    value: float
    lower: float
    upper: float
    notes: tuple[str, ...]
    exact: bool = False  # Clopper-Pearson: no approximation, though read without noise


def approximate(name: str, estimator: Any, X: Any, y: Any, *, model: Any, level: float) -> Any:
    """Return the :class:`Approximation` of a statistic at a failure probability.

    What cannot be computed is refused in the row: after closing nothing may raise.
    """
    statistic = STATISTICS[name]
    try:
        y, said = _responses(statistic, estimator, X, np.asarray(y))
        value = float(statistic.function(y, said))
    except Exception:  # the words of the error could be about records
        return Approximation(math.nan, math.nan, math.nan, ("It could not be computed.",))
    if model.is_independent and statistic.counted is not None:
        hits, count = statistic.counted(y, said)
        if count:
            lower, upper = map(statistic.back, binomial_interval(hits, count, level))
            return Approximation(value, lower, upper, (), exact=True)
    units, problem, notes = _units(model, y, level)
    events = _events(statistic, y, units)
    problem = problem or _refused(name, statistic, y, said, units, events, model)
    if problem:
        return Approximation(value, math.nan, math.nan, (problem,))
    notes += _warned(name, statistic, events, units)
    if name == "balanced_accuracy" and model.is_independent:
        hits, counts = np.array([(np.sum(said[y == c] == c), np.sum(y == c)) for c in set(y)]).T
        return Approximation(value, *mean_of_shares(hits, counts, level), notes)
    lower, upper = _jackknifed(statistic, y, said, units, value, level, events)
    if not lower <= upper:
        return Approximation(value, math.nan, math.nan, ("The units show no spread.",))
    return Approximation(value, lower, upper, notes)


def _responses(statistic, estimator, X, y):
    """Return targets and what the model says of them; classes of two as 0 and 1."""
    if statistic.response == "values":
        return y.astype(float), np.asarray(estimator.predict(X), dtype=float)
    classes = getattr(estimator, "classes_", np.unique(y))
    two = len(classes) == 2
    if statistic.response == "labels":
        said = np.asarray(estimator.predict(X))
        return ((y == classes[1]) * 1, (said == classes[1]) * 1) if two else (y, said)
    if not two:
        raise ValueError("two classes are needed.")
    if statistic.response == "scores" and hasattr(estimator, "decision_function"):
        return (y == classes[1]) * 1, np.asarray(estimator.decision_function(X))
    return (y == classes[1]) * 1, np.asarray(estimator.predict_proba(X))[:, 1]


def _units(model, y, level):
    """Return the unit of each record, why there are too few or None, and warnings."""
    n, notes = len(y), ()
    if model.is_independent:
        return np.arange(n) * min(n, _MOST_UNITS) // n, None, notes
    if model.is_componentwise:
        units = np.unique(model.components(n), return_inverse=True)[1]
        if units.max() + 1 < limits.FEW_UNITS:
            notes += (f"There are only {units.max() + 1} groups.",)
        if level < limits.SMALL_LEVEL and units.max() + 1 < limits.MANY_UNITS:
            notes += (
                f"At this level, fewer than {limits.MANY_UNITS} groups give little information.",
            )
        return units, None, notes
    if model.is_given_past:
        return np.zeros(n, int), "A statistic of the long run needs a declared chain.", notes
    times = model.effective_n(n)
    if not times >= limits.LEAST_TIMES:
        return np.zeros(n, int), f"{times:.0f} independent stretches of time are too few.", notes
    if times < limits.FEW_TIMES or level < limits.SMALL_LEVEL:
        notes += ("At this level, ten blocks of time give little information.",)
    places = getattr(model, "codes_", np.arange(n))  # of a panel: the dates, in any order of rows
    return places * limits.BLOCKS // (places.max() + 1), None, notes


def _events(statistic, y, units):
    """Return how many units have an event, the rarest class; None for a regression."""
    if statistic.response == "values":
        return None
    classes, counts = np.unique(y, return_counts=True)
    return len(np.unique(units[y == classes[np.argmin(counts)]])) if len(classes) > 1 else 0


def _refused(name, statistic, y, said, units, events, model):
    """Return why an interval is not given, or None (G22)."""
    count = len(np.unique(units))
    blocks = not (model.is_independent or model.is_componentwise)
    if count < limits.LEAST_UNITS and not blocks:
        return f"{count} units are too few for an interval."
    if events is not None and events < limits.LEAST_EVENTS:
        return f"{events} units with an event are too few for an interval."
    if name == "neg_log_loss" and not (said.min() > 0.0 and said.max() < 1.0):
        return "Predictions of exactly 0 or 1 make the log loss infinite."
    if name == "balanced_accuracy" and not model.is_independent:
        cells = [
            len(np.unique(units[(y == c) & ((said == c) == hit)]))
            for c in np.unique(y)
            for hit in (True, False)
        ]
        if min(cells) < limits.LEAST_CELL:
            return f"A cell of the confusion matrix has {min(cells)} units, too few."
    return None


def _warned(name, statistic, events, units):
    """Return what makes an interval less trustworthy, in sentences."""
    notes = ()
    few = limits.FEW_RANKED if name == "average_precision" else limits.FEW_EVENTS
    if events is not None and events < few:
        notes += (f"There are only {events} units with an event.",)
    if name in ("r2", "neg_root_mean_squared_error", "explained_variance"):
        notes += ("Rare large errors, which no sample shows, would make it too narrow.",)
    return notes


def _jackknifed(statistic, y, said, units, value, level, events):
    """Return the ends of the jackknife's interval in score units."""
    sign = -1.0 if statistic.scale == "loss" else 1.0
    left_out = []
    for unit in np.unique(units):
        kept = units != unit
        try:
            left_out.append(sign * float(statistic.function(y[kept], said[kept])))
        except Exception:
            return math.nan, math.nan
    lower, upper = jackknife_interval(
        sign * value, np.array(left_out), level, scale=statistic.scale, events=events,
        skewed=statistic.response == "values",
    )  # fmt: skip
    return (lower, upper) if sign > 0 else (-upper, -lower)
