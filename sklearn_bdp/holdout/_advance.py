"""Before a closing: what a report would stumble over, and what its bets know in advance.

A closing cannot be taken back. So metrics × models × dependence, and one run of every model and
metric on blank records come first; what they would raise is raised while the holdout is open, and
nothing was read of it. Moments of training units, out of fold, come from one cross-validation on
training records, on the folds of the search where there was one: any are valid, right ones give
narrow intervals (theory G28).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv

from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.accounting import UnitMoments, unit_moments
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.guards import check_later_rows, foreign_parts
from sklearn_bdp.holdout._in_time import past_moments
from sklearn_bdp.holdout._measures import Predicted, Records, is_label, needs, reads
from sklearn_bdp.holdout._plan import BETS, FREE, PAST, Plan
from sklearn_bdp.metrics import as_labels, check_schema

_BLANK = 8  # records that every model and metric is tried on


def check_plan(plan: Plan, holdout: Any, training: Any) -> None:
    """Raise what a report would stumble over."""
    X, y, blank = holdout.X, as_labels(holdout.y), _blank(holdout, training)
    alike = holdout.model.is_componentwise and not holdout.model.is_given_rest
    for one in plan.statements:
        metric, single = one.measure.metric, len(one.models) == 1
        noisy = metric is not None and (metric.is_mean or (alike and single)) and not one.inside
        # Each row through the noise has its part of the failure probability, as proven ones do.
        if not plan.approximate and not (noisy and one.proven):
            raise UnboundedMetricError(
                f"scoring={one.measure.name!r} {'with by= ' * bool(one.inside)}is read from the "
                "holdout without noise, which ends its privacy. A holdout with a numeric epsilon "
                "or calibration='zhao2017' reports proven rows only, of one target. The holdout "
                "was not queried."
            )
        for name in one.models:
            model = plan.models[name]
            needs(one.measure, model)
            if one.measure.share and y.ndim != 1:
                raise ValueError(f"scoring={one.measure.name!r} needs one label for each record.")
            if not isinstance(model, Predicted):
                check_schema(model, X, y)
            if metric is not None:
                rows = np.arange(len(y))[:, None] if isinstance(model, Predicted) else X
                metric._check(model, rows, y)
        if single and not one.inside and blank is not None:
            uneven = plan.per == "unit" and not holdout.model.is_independent
            _try(one.measure, plan.models[one.models[0]], *blank, uneven=uneven)
    for name, model in plan.models.items():
        if not isinstance(model, Predicted):
            if holdout.earlier is not None and foreign_parts(model):
                check_later_rows(model, holdout.earlier.X, holdout.earlier.dates, name=name)
            holdout.check_model(model)


def _try(measure, model, X, y, known, *, uneven):
    """Run a model and a metric on blank records.

    ``known``: whether they are training records. Others may be none that a model can predict, which
    a :class:`ValueError` says. ``uneven``: whether records will have weights.
    """
    if isinstance(model, Predicted):
        X = np.arange(len(y))[:, None]
    with contextlib.suppress(Exception):
        model = copy.deepcopy(model)
    if not known and getattr(model, "classes_", None) is not None and np.ndim(model.classes_) == 1:
        y = np.resize(np.asarray(model.classes_), np.shape(y))
    weights, predicts = np.linspace(0.5, 1.0, len(y)) if uneven else np.ones(len(y)), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if hasattr(model, "predict"):
                model.predict(X)
            predicts = True
            found = reads(measure, Records(X, y, {"": model}), "", weights)
        if np.ndim(found) != 0:
            raise TypeError(f"a score must be one number, got shape {np.shape(found)}")
    except Exception as error:
        if not known and not predicts and isinstance(error, ValueError | KeyError):
            return
        weighted = "sample_weight" in str(error)
        raise ValueError(
            f"{measure.name} of {type(model).__name__} fails on records made to try it: "
            f"{type(error).__name__}: {error}. "
            + "Scores of groups need sample_weight, or per='record'. " * weighted
            + "The holdout was not queried."
        ) from error


def _blank(holdout, training):
    """Return records to try models on, their targets, and whether they are training records."""
    training = training or holdout.training_sample
    if training is not None:
        y = training[1]
        rows = np.linspace(0, num_samples(y) - 1, min(4 * _BLANK, num_samples(y))).astype(int)
        return safe_indexing(training[0], rows), safe_indexing(y, rows), True
    X, y = holdout.X, np.arange(_BLANK) % 2
    if np.ndim(holdout.y) == 2 and np.shape(holdout.y)[1] > 1:
        y = np.resize(y, (_BLANK, np.shape(holdout.y)[1]))
    if hasattr(X, "dtypes") and hasattr(X, "iloc"):
        if not X.columns.is_unique:
            return None
        blank = {}
        for name, kind in X.dtypes.items():
            cell: Any = "" if str(kind) in ("object", "str", "string") else 0
            if hasattr(kind, "categories"):
                cell = kind.categories[0] if len(kind.categories) else None
            blank[name] = [cell] * _BLANK
        return type(X)(blank).astype(dict(X.dtypes)), y, False
    if scipy.sparse.issparse(X):
        return type(X)((_BLANK, X.shape[1]), dtype=X.dtype), y, False
    if isinstance(X, np.ndarray):
        filler = "" if X.dtype.kind in "OUS" else 0
        return np.full((_BLANK, *X.shape[1:]), filler, dtype=X.dtype), y, False
    return None


# -- what the training side says ------------------------------------------------------------------


class TrainingSide(NamedTuple):
    """Training records that models are cross-validated on, as far as this process knows them."""

    X: Any
    y: Any
    groups: Any = None
    folds: Any = None  # pairs of positions, as the search drew them; None: five folds
    rows: Any = None  # of X and y that are training records; None: all


def prepared(plan: Plan, training: Any, variance: float | None, holdout: Any) -> Plan:
    """Return the plan with what bets know in advance: from training folds, else a guess.

    ``training``: what the caller gave. ``variance``: of a record's training-side score in the first
    row, as a search has it. A search's own records are cross-validated where it is not enough: for
    differences, several models, and metrics that the search did not rank by.
    """
    betting = [one for one in plan.statements if one.proven in (BETS, FREE)]
    side = None if training is None else TrainingSide(*training)
    if side is None and not (variance and betting == plan.statements[:1]):
        side = holdout.training_side
    folds = _folded(plan, side) if betting and side is not None else ()
    first, statements = plan.statements[0], []
    for one in plan.statements:
        moments, most = one.moments, 1.0
        if one.proven == PAST:
            same = one.models == first.models and one.measure is first.measure
            moments = past_moments(one, plan, holdout, variance if same else None)
        elif one.proven in (BETS, FREE):
            moments = _guessed(one, plan)
            if one is first and variance is not None and variance > 0.0:
                moments = moments._replace(variance=max(variance, 1e-4))
            with contextlib.suppress(Exception):  # predictions, or what folds cannot be scored by
                moments, most = _measured(one, plan, *folds)
        statements.append(dataclasses.replace(one, moments=moments, most=most))
    return dataclasses.replace(plan, statements=statements)


def _guessed(one, plan):
    """Return moments of bits at the training-side value."""
    center, count = min(max(one.expected, 0.01), 0.99), 1.0
    if one.measure.share and plan.y is not None:
        real = float(np.mean(is_label(np.ravel(plan.y), one.measure.positive)))
        others = dict.fromkeys(("specificity", "negative_predictive_value"), 1.0 - real)
        count = (others | {"f1": 2.0 * real}).get(one.measure.share, real)
    count = max(count if count > 0.0 else 0.5, 0.01) / (len(plan.masks) if one.inside else 1)
    spread = center * (1.0 - center) / len(one.models) ** 2
    return UnitMoments(center, max(spread, 0.0025) * count, count)


def _folded(plan, side):
    """Return the training records as each model's folds score them, and their units."""
    models = {name: one for name, one in plan.models.items() if not isinstance(one, Predicted)}
    parts = []
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        rows = np.arange(len(side.y)) if side.rows is None else np.asarray(side.rows)
        y = safe_indexing(side.y, rows)
        folds = side.folds
        if not folds:
            drawn = check_cv(5, y, classifier=is_classifier(next(iter(models.values()))))
            drawn = drawn if side.groups is None else GroupKFold(5)
            folds = drawn.split(rows, y, side.groups)
        for train, test in folds:
            (X, y), (X_test, y_test) = (
                (safe_indexing(side.X, rows[part]), safe_indexing(side.y, rows[part]))
                for part in (train, test)
            )
            fitted = {name: clone(one).fit(X, y) for name, one in models.items()}
            parts.append((Records(X_test, y_test, fitted), test))
        return parts, side.groups
    return ()  # what cannot be fitted again; a guess will do


def _measured(one, plan, parts, groups):
    """Return moments of training units out of fold and the largest difference that counts."""
    found = [
        np.concatenate([part.contributions(one.measure, name) for part, _ in parts], axis=1)
        for name in one.models
    ]
    (sums, counts), most = found[0], 1.0
    if len(found) == 2:
        gap = found[1][0] - sums
        most = min(1.0, 1.5 * float(np.abs(gap).max())) or 1.0
        sums = 0.5 * (counts + np.clip(gap / most, -1.0, 1.0))
    order = np.concatenate([test for _, test in parts])
    named = order if groups is None else np.asarray(groups)[order]
    units = np.unique(named, return_inverse=True)[1]
    weights = 1.0 / np.bincount(units)[units] if plan.per == "unit" else np.ones(len(units))
    totals = [np.bincount(units, weights * part) for part in (sums, counts)]
    center, variance, count = unit_moments(*totals)
    part = 1.0 / len(plan.masks) if one.inside else 1.0  # a subgroup is taken for an equal part
    return UnitMoments(center, part * variance, part * count), most
