"""What bets know in advance of a final report: moments of training units, out of fold (G28).

Any moments are valid, right ones give narrow intervals. They come from one cross-validation on
training records, on the folds of the search where there was one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv

from sklearn_bdp._sklearn_compat import safe_indexing
from sklearn_bdp.accounting import UnitMoments, unit_moments
from sklearn_bdp.holdout._in_time import past_moments
from sklearn_bdp.holdout._measures import Predicted, Records, is_label
from sklearn_bdp.holdout._plan import BETS, FREE, PAST, Plan


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
    folds = _folded(plan, side) if betting and side is not None else None
    first, statements = plan.statements[0], []
    for one in plan.statements:
        moments, most = one.moments, 1.0
        if one.proven == PAST:
            same = one.models == first.models and one.measure is first.measure
            moments = past_moments(one, plan, holdout, variance if same else None)
        elif one.proven in (BETS, FREE):
            measured, most = (None, 1.0) if folds is None else _measured(one, plan, *folds)
            moments = measured or _guessed(one, plan)
            if measured is None and one is first and variance is not None and variance > 0.0:
                moments = moments._replace(variance=max(variance, 1e-4))
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
    return None  # what cannot be fitted again; a guess will do


def _measured(one, plan, parts, groups):
    """Return moments of training units out of fold and the largest difference that counts."""
    if any(isinstance(plan.models[name], Predicted) for name in one.models):
        return None, 1.0
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
    with contextlib.suppress(ValueError):
        center, variance, count = unit_moments(*totals)
        part = 1.0 / len(plan.masks) if one.inside else 1.0  # a subgroup is taken for an equal part
        return UnitMoments(center, part * variance, part * count), most
    return None, most
