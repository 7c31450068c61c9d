"""The plan of a final report: its statements, and all that can be known of them before closing.

A closing cannot be taken back. So arguments, metrics × models × dependence, and one run of every
model and metric on blank records come first; what they would raise is raised while the holdout is
open, and nothing was read of it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import secrets
import warnings
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp._checks import check_option
from sklearn_bdp._digests import object_digest
from sklearn_bdp._sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.accounting import UnitMoments, unit_moments
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.guards import check_later_rows, foreign_parts
from sklearn_bdp.holdout._in_time import (
    Earlier,
    forecast,
    is_forecast,
    past_horizon,
    past_moments,
    refit_blocks,
)
from sklearn_bdp.holdout._inputs import check_training_value
from sklearn_bdp.holdout._measures import (
    PAIRED,
    Measure,
    Predicted,
    Records,
    check_scorer,
    classes_of,
    is_label,
    measure_of,
    needs,
    reads,
)
from sklearn_bdp.ledger import Fact
from sklearn_bdp.metrics import as_labels, check_schema, get_metric

_MOST_CLASSES = 1000  # integers with more values are numbers
_MOST_LEVELS = 20  # of a column that makes subgroups
_UNKNOWN = UnitMoments(0.5, 0.25, 1.0)  # any moments are valid (theory G28)
_BLANK = 8  # records that every model and metric is tried on

# How a row is proven, by what it measures and how the records depend on each other.
COUNTS = "Clopper-Pearson"  # G8
BETS = "bets on units in a secret order"  # G28
FREE = "order-free bound"  # G28, from G15 and G18
TAIL = "tail of the declared dependence"  # G5, G8, G11
PAST = "bound given the past"  # G26
CLASSES = "pairs and means within classes"  # G12, G19, G20
_INDEPENDENT = {"records": BETS, "groups": BETS}
_MEANS = _INDEPENDENT | {"unlike records": FREE}
_IN_TIME = {"dependent": TAIL, "past": PAST}
PROVEN: dict[str, dict[str, str]] = {
    "share": _MEANS | {"records": COUNTS, "unlike records": COUNTS} | _IN_TIME,
    "mean": _MEANS | _IN_TIME,
    "difference": _MEANS | _IN_TIME,
    "error difference": {"past": PAST},  # the distance of the forecasts bounds it
    # Inside a subgroup; records outside of it count zero.
    "share inside": _MEANS | {"records": COUNTS, "unlike records": COUNTS},
    "mean inside": _MEANS,
    "difference inside": _MEANS,
    # Inside a class or among those called so: given features, the target is the observed value.
    "class share": _INDEPENDENT | {"records": COUNTS},
    "class difference": _INDEPENDENT,
    "by class": {"records": CLASSES, "groups": CLASSES},
}


def dependence_of(model: Any, n: int) -> str:
    """Return a column of PROVEN: which units are independent, and whether they are alike."""
    if model.is_given_past:
        return "past"
    if model.record_weights(n) is not None:
        return "dependent"
    if model.is_independent:
        return "unlike records" if model.is_given_rest else "records"
    # Nodes given the rest hang together by declared strengths, inside components, too.
    return "groups" if model.is_componentwise and not model.is_given_rest else "dependent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """One row before it is computed."""

    models: tuple[str, ...]  # one, or a baseline and what is compared with it
    measure: Measure
    inside: tuple[str, ...] = ()  # nothing for all records, a subgroup, or two and their gap
    proven: str = ""  # how, one of PROVEN's; empty where it is not
    moments: UnitMoments = _UNKNOWN  # what bets know in advance
    most: float = 1.0  # differences beyond it, in units of [0, 1], count as it
    ahead: int = 1  # dates from what expectations are given to the score (theory G26)
    skill: bool = False  # 1 - the ratio of losses
    expected: float = 0.5  # training-side value in [0, 1]

    @property
    def kind(self) -> str:
        """Return a row of PROVEN; empty for what has no proof."""
        measure, paired = self.measure, len(self.models) == 2
        inside = " inside" if self.inside else ""
        if len(self.inside) == 2 or self.skill:
            return ""
        if paired and not inside and measure.statistic == "neg_mean_absolute_error":
            return "error difference"
        if measure.is_mean:
            return ("difference" if paired else "share" if measure.is_share else "mean") + inside
        if measure.share:
            known = not paired or measure.share in PAIRED
            return ("class difference" if paired else "class share") if known else ""
        return "by class" if measure.metric is not None and not (paired or inside) else ""

    @property
    def words(self) -> tuple[str, str]:
        """Return model and subgroup, as rows name them."""
        model, *others = reversed(self.models)
        part, *rest = reversed(self.inside) if self.inside else ("",)
        return " minus ".join([model, *others]), " minus ".join([part, *rest])

    @property
    def ends(self) -> tuple[str, float, float]:
        """Return what an answer measures, in words, and the ends of its range."""
        low, high = map(float, self.measure.span)
        if len(self.models) == 2:
            return f"difference of {self.measure.name}", low - high, high - low
        return self.measure.name, low, high

    def row(self, n_units: int) -> dict[str, Any]:
        """Return the row of a report, in JSON, before anything is known of it."""
        model, subgroup = self.words
        positive = self.measure.positive
        row: dict[str, Any] = {
            "model": model, "metric": self.measure.name, "subgroup": subgroup, "value": None,
            "proven": None, "approximate": None, "method": self.proven, "parts": [], "notes": [],
            "positive": "" if positive is None else str(positive),
            "n_units": n_units, "n_events": None,
        }  # fmt: skip
        if self.skill:
            row["metric"] = f"skill score ({self.measure.name})"
            row["model"] = " against ".join(self.models[::-1])
        return row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be reported; fixed, and recorded, before anything is read."""

    models: dict[str, Any]
    statements: list[Statement]
    masks: dict[str, Any]  # which records a subgroup has
    per: str  # "unit" or "record"
    baseline: str | None
    bound: float  # most records of a group that count, per="record"
    approximate: bool  # without a level of privacy: rows are read from the closed holdout
    y: Any = None  # training targets, if known
    #: First date of each block that the recipe is refitted before, and how often in words.
    refit: tuple[Any, str] | None = None

    @property
    def classes(self) -> Any:
        """Classes of the targets; None of a regression."""
        return next((c for m in self.models.values() if (c := classes_of(m, None))), None)

    @property
    def n_proven(self) -> int:
        """Statements of the proven family."""
        return sum(bool(one.proven) for one in self.statements)

    @property
    def caveats(self) -> list[str]:
        """What has to be said of the metrics."""
        metrics = [one.measure.metric for one in self.statements if one.measure.metric is not None]
        return sorted({metric.caveat for metric in metrics if metric.caveat})

    def n_rounds(self, last: Any, model: Any) -> int:
        """Return how much of a declared budget is needed, shares of classes included."""
        if self.approximate and model.is_independent:  # counts of classes are read
            return self.n_proven
        by_class = [one.measure.metric for one in self.statements if one.proven == CLASSES]
        shapes = [metric.expected_shape(1) for metric in by_class if metric is not None]
        return self.n_proven + sum(len(shape.classes or (0, 1)) for shape in shapes)

    def identity(self) -> dict[str, Any]:
        """Return what makes two reports the same, in JSON."""
        return {
            "models": [[name, _content(model)] for name, model in self.models.items()],
            "statements": [
                [one.models, one.inside, *one.measure.content(), one.proven, one.ahead, one.skill]
                for one in self.statements
            ],
            "refit": None if self.refit is None else self.refit[1],
            "subgroups": {name: joblib.hash(mask) for name, mask in self.masks.items()},
            "per": self.per,
        }

    def prepared(self, training: Any, variance: float | None, holdout: Any) -> Plan:
        """Return the plan with what bets know in advance: from training folds, else a guess.

        ``variance``: of a record's training-side score in the first row, as a search has it.
        """
        first, statements = self.statements[0], []
        needed = any(one.proven in (BETS, FREE) for one in self.statements)
        folds = _folded(self, training) if training is not None and needed else None
        for one in self.statements:
            moments, most = one.moments, 1.0
            if one.proven == PAST:
                same = one.models == first.models and one.measure is first.measure
                moments = past_moments(one, self, holdout, variance if same else None)
            if one.proven in (BETS, FREE):
                measured, most = (None, 1.0) if folds is None else _measured(one, self, *folds)
                moments = measured or _guessed(one, self.y, len(self.masks) or 1)
                if measured is None and one is first and variance is not None and variance > 0.0:
                    moments = moments._replace(variance=max(variance, 1e-4))
            statements.append(dataclasses.replace(one, moments=moments, most=most))
        return dataclasses.replace(self, statements=statements)

    def informed(self, advance: list[Any]) -> Plan:
        """Return the plan with what was known when it was first recorded."""
        return dataclasses.replace(self, statements=[
            dataclasses.replace(one, moments=UnitMoments(*known), most=most, expected=expected)
            for one, (known, most, expected) in zip(self.statements, advance, strict=True)
        ])  # fmt: skip


def planned_report(
    holdout: Any,
    estimators: Any,
    training_values: Any,
    *,
    scoring: Any,
    compare: Any,
    by: Any,
    per: Any,
    training: Any,
    refit_every: Any = None,
) -> Plan:
    """Return the :class:`Plan` of a report, or raise what is wrong with it."""
    settings, model, n = holdout.account.settings, holdout.model, holdout.n
    private = settings.information is not None or settings.tau is not None
    per = "unit" if per is None else check_option("per", per, ("record", "unit"))
    y = _training_targets(holdout, training)
    if model.is_given_past and training is not None and holdout.earlier is None:
        dates = np.arange(-num_samples(training[1]), 0)  # right before it, in time order
        holdout.earlier = Earlier(training[0], training[1], dates)
    models = _named(estimators, n, y)
    refit = None if refit_every is None else refit_blocks(holdout, refit_every)
    if refit is not None:
        models = {
            name if isinstance(one, Predicted) else f"{name}, refitted {refit[1]}": one
            for name, one in models.items()
        }
    expected = _expected_of(models, training_values)
    baseline = _add_baseline(models, compare, holdout, y)
    masks, levels = _subgroups(holdout, by)
    wanted = list(scoring) if isinstance(scoring, list | tuple) else [scoring]
    if not wanted:
        raise ValueError("scoring must hold at least one metric, got none.")
    measures = []
    for asked in wanted:
        if callable(asked) and not hasattr(asked, "metric"):
            check_scorer(asked)
        # Predictions have no usual metric: that of a model is meant.
        known = [one for one in models.values() if not isinstance(one, Predicted)]
        like = {name: (known or [one])[0] if isinstance(one, Predicted) and asked is None else one
                for name, one in models.items()}  # fmt: skip
        measures.append({name: measure_of(asked, one, y) for name, one in like.items()})
    dependence = dependence_of(model, n)
    statements, horizon = [], past_horizon(model)
    for one in _statements(measures, expected, levels, baseline, skill=model.is_given_past):
        proven = PROVEN.get(one.kind, {}).get(dependence, "")
        if proven == CLASSES and per == "record" and dependence == "groups":
            proven = ""  # G19 is about a random record of a random group
        one = dataclasses.replace(one, proven=proven)
        statements.append(one)
        if one.proven == PAST and horizon > 1:  # the other of two targets
            statements.append(dataclasses.replace(one, ahead=horizon))
    plan = Plan(
        models=models, statements=statements, refit=refit,
        masks=masks, per=per, baseline=baseline, approximate=not private, y=y,
        bound=_most_records(holdout, training, dependence) if per == "record" else 1.0,
    )  # fmt: skip
    _check(plan, holdout, training, private=private)
    return plan


def _expected_of(models, training_values):
    """Return the training-side score of each model that has one."""
    if training_values is None:
        return {}
    given = np.asarray(training_values, dtype=float)
    if given.shape not in ((), (len(models),)):
        raise ValueError(
            f"training_values must be a number or one for each of {len(models)} models, got shape "
            f"{given.shape}."
        )
    values = np.broadcast_to(given, (len(models),)).tolist()
    return {name: v for name, v in zip(models, values, strict=True) if np.isfinite(v)}


def _statements(measures, expected, levels, baseline, *, skill):
    """Yield all models, then their subgroups and gaps, then differences to a baseline."""
    for own in measures:
        for name, measure in own.items():
            known = own is measures[0] and name in expected and measure.is_sum
            middle = _expected(measure, expected[name]) if known else 0.5
            yield Statement(models=(name,), measure=measure, expected=middle)
    for own in measures:
        for name, measure in own.items():
            for inside in levels:
                yield Statement(models=(name,), measure=measure, inside=inside)
    for own in measures if baseline is not None else []:
        for name, measure in own.items():
            if measure.name != own[baseline].name:
                raise ValueError(
                    f"compare needs one metric for all models, got {own[baseline].name} and "
                    f"{measure.name}. Give all models the same scoring."
                )
            middle, both = 0.5, (baseline, name)
            if measure.is_sum and own is measures[0] and expected.keys() >= set(both):
                first, second = (_expected(measure, expected[one]) for one in both)
                middle = 0.5 * (second - first + 1.0)
            if name == baseline:
                continue
            yield Statement(models=both, measure=measure, expected=middle)
            if skill and measure.losses:
                yield Statement(models=both, measure=measure, skill=True)


def _expected(measure, value):
    """Return a training-side score in [0, 1]."""
    if measure.is_mean:
        return check_training_value(measure.metric, float(value))
    return float(np.clip(value, 0.0, 1.0))


# -- models, baselines, subgroups -----------------------------------------------------------------


def _named(estimators, n, y):
    """Return models by name; predictions are asked as models are."""
    if isinstance(estimators, Mapping):
        found = {str(name): model for name, model in estimators.items()}
    elif isinstance(estimators, list | tuple) and not np.isscalar(next(iter(estimators), None)):
        kind_of = [type(model).__name__ for model in estimators]
        found = {
            kind if kind_of.count(kind) == 1 else f"{kind} {place}": model
            for place, (kind, model) in enumerate(zip(kind_of, estimators, strict=True), 1)
        }
    else:
        model = hasattr(estimators, "fit") or hasattr(estimators, "predict")
        found = {type(estimators).__name__ if model else "predictions": estimators}
    if not found:
        raise ValueError("estimators must hold at least one model, got none.")
    return {name: _model(name, model, n, y) for name, model in found.items()}


def _model(name, model, n, y):
    """Return a checked model."""
    if callable(getattr(model, "final_report", None)) and not hasattr(model, "predict"):
        raise TypeError(
            f"estimators must be models that predict, got {type(model).__name__}. Call its own "
            "final_report(), as in selector.final_report()."
        )
    if any(hasattr(model, one) for one in ("predict", "predict_proba", "fit")):
        if isinstance(model, BaseEstimator):
            check_is_fitted(model)
        return model
    shape = np.shape(model)
    if len(shape) not in (1, 2) or shape[0] != n:
        raise TypeError(
            f"estimators must be fitted models, or predictions of the {n} holdout records in "
            f"their order; {name!r} is {type(model).__name__} of shape {shape}."
        )
    classes = classes_of(None, y)
    found = Predicted(model, classes)
    if found.values.ndim == 2 and found.values.shape[1] != len(found.classes_):
        raise ValueError(
            f"predictions {name!r} must have a column for each of {len(found.classes_)} classes, "
            f"got {found.values.shape[1]}. Pass training=(X, y), which has all classes."
        )
    return found


def check_predictions(y_pred, n, public, **texts):
    """Return checked predictions of ``n`` records, asked as a model is; none is quoted.

    ``public``: targets that are known, or None; ``texts``: who submits what.
    """
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 200):
            raise TypeError(f"{name} must be a text of 1 to 200 characters or None.")
    if any(hasattr(y_pred, one) for one in ("predict", "predict_proba", "fit")):
        raise TypeError("y_pred must be predictions, not a model: score(model, ...) takes models.")
    model = _model("y_pred", y_pred, n, public)
    values, classes = model.values, getattr(model, "classes_", None)
    problem = ""
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        problem = "finite"
    elif values.ndim == 2 and not (
        (values >= 0.0).all() and np.abs(values.sum(axis=1) - 1.0).max() <= 1e-3
    ):
        problem = "probabilities, with a sum of 1 for each record"
    elif hasattr(model, "predict") and values.ndim == 1 and classes is not None:
        known = classes.tolist()
        if not all(value in known for value in np.unique(values).tolist()):
            problem = f"labels among {known}, or numbers"
    if problem:
        raise ValueError(f"y_pred must be {problem}. Nothing was spent.")
    return model


def _add_baseline(models, compare, holdout, y):
    """Return the name of what the others are compared with; what is no model yet becomes one."""
    if compare is None or compare is False:
        return None
    if compare is True:
        if len(models) < 2:
            raise ValueError("compare=True needs at least two models, got 1.")
        return next(iter(models))
    if isinstance(compare, str):
        if compare not in models and is_forecast(compare):
            models[compare] = _model(compare, forecast(compare, holdout), holdout.n, y)
            models[compare].known_as = compare
        if compare not in models or len(models) < 2:
            raise ValueError(
                f"compare must name one of several models, {', '.join(models)}"
                f" or in time 'naive' or 'seasonal-7', got compare={compare!r}."
            )
        return compare
    name = type(compare).__name__ if hasattr(compare, "predict") else "baseline"
    name = f"{name} (baseline)" if name in models else name
    models[name] = _model(name, compare, holdout.n, y)
    return name


def _subgroups(holdout, by):
    """Return the records of each subgroup, and what rows are about: subgroups and gaps."""
    if by is None:
        return {}, []
    if not isinstance(by, Mapping):
        framed = hasattr(holdout.X, "columns")
        try:
            column = holdout.X[by] if framed else safe_indexing(holdout.X, by, axis=1)
            by = {str(by) if framed else f"column {by}": column}
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise ValueError(
                f"by must be a column of X or {{name: labels}}, got {by!r}."
            ) from error
    masks: dict[str, Any] = {}
    rows: list[tuple[str, ...]] = []
    for name, given in by.items():
        labels = np.asarray(given.toarray() if scipy.sparse.issparse(given) else given)
        labels = labels.reshape(-1).astype(object)
        if len(labels) != holdout.n:
            raise ValueError(
                f"by={{{name!r}: labels}} must have a label for each of {holdout.n} records, got "
                f"{len(labels)}."
            )
        found = sorted({one for one in labels.tolist() if one == one and one is not None}, key=str)
        if not 2 <= len(found) <= _MOST_LEVELS:
            raise ValueError(
                f"by={name!r} must have 2 to {_MOST_LEVELS} different labels. Cut numbers into "
                "bins first, as in {'age': pandas.cut(age, [0, 40, 60, 120])}."
            )
        own = [f"{name}={label}" for label in found]
        for key, label in zip(own, found, strict=True):
            masks[key] = is_label(labels, label).astype(float)
        rows += [(key,) for key in own]
        if len(own) == 2:
            rows.append((own[0], own[1]))
        for key in own if len(own) > 2 else ():
            masks[f"the rest of {name} but {key}"] = 1.0 - masks[key]
            rows.append((f"the rest of {name} but {key}", key))
    return masks, rows


# -- what the training side says ------------------------------------------------------------------


def _training_targets(holdout, training):
    """Return training targets, or others of the same range and classes; None where unknown."""
    if training is not None:
        if not isinstance(training, tuple) or len(training) not in (2, 3):
            raise ValueError(
                "training must be (X, y) or (X, y, groups) of training records, got "
                f"{type(training).__name__}."
            )
        lengths = {num_samples(part) for part in training}
        if len(lengths) != 1:
            raise ValueError(f"training must hold parts of one length, got {sorted(lengths)}.")
        return training[1]
    for known in holdout.notes(Fact.TRAINING_TARGETS)[:1]:
        if "classes" in known:
            return np.repeat(np.asarray(known["classes"]), known["counts"])
        return np.array([known["low"], known["high"]])
    return None


def described_targets(y: Any) -> dict[str, Any] | None:
    """Return what a ledger may say of *training* targets: their classes, or their range."""
    y = as_labels(y)
    if y.ndim != 1 or not len(y):
        return None
    if y.dtype.kind in "fc":
        finite = y[np.isfinite(y)].astype(float)
        return {"low": finite.min(), "high": finite.max()} if finite.size else None
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) > _MOST_CLASSES:
        numbers = y.dtype.kind in "iu"
        return {"low": float(y.min()), "high": float(y.max())} if numbers else None
    return {"classes": classes.tolist(), "counts": counts.tolist()}


def _most_records(holdout, training, dependence):
    """Return the most records of one group that count, fixed before the split (theory G28)."""
    if dependence in ("records", "unlike records", "dependent"):
        return 1.0
    sizes = holdout.notes(Fact.LARGEST_GROUP)[:1]
    if training is not None and len(training) == 3:
        sizes = sizes or [np.unique(training[2], return_counts=True)[1].max()]
    if not sizes:
        raise ValueError(
            "per='record' needs the size of the largest training group, fixed before the split. "
            "Pass training=(X, y, groups). The holdout was not queried."
        )
    return float(sizes[0])


def _guessed(one, y, n_levels):
    """Return moments of bits at the training-side value: any are valid."""
    center, count = min(max(one.expected, 0.01), 0.99), 1.0
    if one.measure.share and y is not None:
        real = float(np.mean(is_label(np.ravel(y), one.measure.positive)))
        others = dict.fromkeys(("specificity", "negative_predictive_value"), 1.0 - real)
        count = (others | {"f1": 2.0 * real}).get(one.measure.share, real)
    count = max(count if count > 0.0 else 0.5, 0.01) / (n_levels if one.inside else 1)
    spread = center * (1.0 - center) / len(one.models) ** 2
    return UnitMoments(center, max(spread, 0.0025) * count, count)


def _folded(plan, training):
    """Return the training records as each model's folds score them, and their units."""
    X, y, *groups = training
    groups = np.asarray(groups[0]) if groups else None
    models = {name: one for name, one in plan.models.items() if not isinstance(one, Predicted)}
    parts = []
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        first = next(iter(models.values()))
        folds = check_cv(5, y, classifier=is_classifier(first))
        folds = folds if groups is None else GroupKFold(5)
        for train, test in folds.split(X, y, groups):
            fitted = {
                name: clone(one).fit(safe_indexing(X, train), safe_indexing(y, train))
                for name, one in models.items()
            }
            parts.append((Records(safe_indexing(X, test), safe_indexing(y, test), fitted), test))
        return parts, groups
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
    order = np.concatenate([rows for _, rows in parts])
    units = np.unique(order if groups is None else groups[order], return_inverse=True)[1]
    weights = 1.0 / np.bincount(units)[units] if plan.per == "unit" else np.ones(len(units))
    totals = [np.bincount(units, weights * part) for part in (sums, counts)]
    with contextlib.suppress(ValueError):
        center, variance, count = unit_moments(*totals)
        part = 1.0 / len(plan.masks) if one.inside else 1.0  # a subgroup is taken for an equal part
        return UnitMoments(center, part * variance, part * count), most
    return None, most


# -- checks ---------------------------------------------------------------------------------------


def _check(plan, holdout, training, *, private):
    """Raise what a report would stumble over: while the holdout is open."""
    X, y, blank = holdout.X, as_labels(holdout.y), _blank(holdout, training)
    alike = holdout.model.is_componentwise and not holdout.model.is_given_rest
    for one in plan.statements:
        metric, single = one.measure.metric, len(one.models) == 1
        if private:
            metric = private_metric(one.measure, plan.models[one.models[0]], plan.y)
        noisy = metric is not None and (metric.is_mean or alike) and not one.inside
        # Each row through the noise has its part of the failure probability, as proven ones do.
        if private and not (noisy and one.proven and (single or one.measure.is_mean)):
            raise UnboundedMetricError(
                f"scoring={one.measure.name!r} {'with by= ' * bool(one.inside)}is read from the "
                "holdout without noise, which ends its privacy. A holdout with a numeric epsilon "
                "or calibration='zhao2017' reports proven rows only. The holdout was not queried."
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


def private_metric(measure: Measure, model: Any, y: Any) -> Any:
    """Return the metric that the mechanism is asked about; None where there is none."""
    if measure.share in PAIRED:
        return get_metric(measure.share, estimator=model, y=y, pos_label=measure.positive)
    return measure.metric


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
        blank = {name: _cells(kind) for name, kind in X.dtypes.items()}
        return type(X)(blank).astype(dict(X.dtypes)), y, False
    if scipy.sparse.issparse(X):
        return type(X)((_BLANK, X.shape[1]), dtype=X.dtype), y, False
    if isinstance(X, np.ndarray):
        filler = "" if X.dtype.kind in "OUS" else 0
        return np.full((_BLANK, *X.shape[1:]), filler, dtype=X.dtype), y, False
    return None


def _cells(kind):
    """Return blank cells of a column."""
    if hasattr(kind, "categories"):
        return [kind.categories[0] if len(kind.categories) else None] * _BLANK
    return ["" if str(kind) in ("object", "str", "string") else 0] * _BLANK


def _content(model):
    """Return what a model is known by; what has no content is known by nothing, not even later."""
    if isinstance(model, Predicted):
        model = getattr(model, "known_as", model.values)
    try:
        return joblib.hash(model)
    except Exception:  # what cannot be pickled
        return object_digest(model) or secrets.token_hex(16)
