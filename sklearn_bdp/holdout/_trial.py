"""What a final report would stumble over, raised while the holdout is open.

A closing cannot be taken back. So metrics × models × dependence, and one run of every model and
metric on blank records come first, and nothing is read of the holdout.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import Any

import numpy as np
import scipy.sparse

from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.guards import check_later_rows, foreign_parts
from sklearn_bdp.holdout._measures import Predicted, Records, needs, reads
from sklearn_bdp.holdout._plan import Plan
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
            try:
                needs(one.measure, model)
            except TypeError as error:
                if not isinstance(model, Predicted):
                    raise
                raise TypeError(
                    f"scoring={one.measure.name!r} needs probabilities or scores, and the "
                    f"predictions {name!r} have none. The holdout was not queried."
                ) from error
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
    if np.ndim(found) != 0:
        raise ValueError(
            f"{measure.name} must be one number, got shape {np.shape(found)}. The holdout was not "
            "queried."
        )


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
        blank = {name: [_cell(kind)] * _BLANK for name, kind in X.dtypes.items()}
        return type(X)(blank).astype(dict(X.dtypes)), y, False
    if scipy.sparse.issparse(X):
        return type(X)((_BLANK, X.shape[1]), dtype=X.dtype), y, False
    if isinstance(X, np.ndarray):
        filler = "" if X.dtype.kind in "OUS" else 0
        return np.full((_BLANK, *X.shape[1:]), filler, dtype=X.dtype), y, False
    return None


def _cell(kind):
    """Return a blank cell of a column."""
    if hasattr(kind, "categories"):
        return kind.categories[0] if len(kind.categories) else None
    return "" if str(kind) in ("object", "str", "string") else 0
