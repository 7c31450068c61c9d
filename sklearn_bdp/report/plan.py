"""The plan of a final report: its statements, and all that can be known of them before closing.

A closing cannot be taken back. So metrics × models × dependence, and one run of every model and
metric on blank records come first; what they would raise is raised while the holdout is open, and
nothing was read of it. Moments of training units, out of fold, come from one cross-validation on
training records, on the folds of the search where there was one: any are valid, right ones give
narrow intervals (theory G28).
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import warnings
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv

from sklearn_bdp.correlation.components import check_one_kind_of_labels
from sklearn_bdp.diagnostics.scores import check_later_rows, non_sklearn_components
from sklearn_bdp.exceptions import ScoreContractError, UnboundedMetricError
from sklearn_bdp.intervals.bounds import UnitMoments, unit_moments
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.metrics.base import as_labels, check_schema
from sklearn_bdp.metrics.registry import get_metric
from sklearn_bdp.release.context import CVData, PastRecords
from sklearn_bdp.release.query_batch import check_cv_score
from sklearn_bdp.report.in_time import (
    align_predictions,
    forecast,
    is_forecast,
    past_horizon,
    past_moments,
    refit_blocks,
)
from sklearn_bdp.report.measures import (
    PAIRED,
    Measure,
    Predicted,
    Records,
    UndefinedScore,
    blank_rows,
    checked_model,
    classes_of,
    is_label,
    measure_of,
    named_metrics,
    needs,
    reads,
)
from sklearn_bdp.utils.hashing import object_digest
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_boolean, check_option

_MOST_LEVELS = 20  # of a column that makes subgroups
_TRIED = 32  # most training records that every model and metric is tried on
_UNKNOWN = UnitMoments(0.5, 0.25, 1.0)  # any moments are valid (theory G28)

# How a row is proven, by what it measures and how the records depend on each other.
COUNTS = "Clopper-Pearson"  # G8
BETS = "bets on units in a secret order"  # G28
FREE = "order-free bound"  # G28, from G15 and G18
TAIL = "tail of the declared dependence"  # G5, G8, G11
PAST = "bound given the past"  # G26
CLASSES = "pairs and means within classes"  # G12, G19, G20
#: Two subgroups, each at half the level of their gap.
_GAP = ", half the level for each subgroup"
_INDEPENDENT = {"records": BETS, "groups": BETS, "stratified": FREE, "stratified groups": FREE}
_MEANS = _INDEPENDENT | {"given the rest": FREE}
_IN_TIME = {"dependent": TAIL, "past": PAST}
PROVEN: dict[str, dict[str, str]] = {
    "share": _MEANS | dict.fromkeys(("records", "given the rest", "stratified"), COUNTS) | _IN_TIME,
    "mean": _MEANS | _IN_TIME,
    "difference": _MEANS | _IN_TIME,
    "error difference": {"past": PAST},  # the distance of the forecasts bounds it
    # Inside a subgroup; records outside of it count zero.
    "share inside": _MEANS | dict.fromkeys(("records", "given the rest"), COUNTS),
    "mean inside": _MEANS,
    # Inside a class or among those called so: given features, the target is the observed value.
    "class share": _INDEPENDENT | {"records": COUNTS},
    "class difference": _INDEPENDENT,
    "by class": dict.fromkeys(_INDEPENDENT, CLASSES),
}


def dependence_of(holdout: Any) -> str:
    """Return a column of PROVEN: which units are independent, and whether they are alike."""
    model = holdout.dependence
    if model.is_time_ordered:
        return "past"
    if model.record_weights(holdout.n) is not None:
        return "dependent"
    if model.is_given_rest:
        # Nodes given the rest hang together by declared strengths, inside components, too.
        return "given the rest" if model.is_independent else "dependent"
    if not model.is_componentwise:
        return "dependent"
    kind = "records" if model.is_independent else "groups"
    # A split that reads the targets fixes counts of classes: units are not alike.
    if not holdout.notes(Fact.STRATIFIED):
        return kind
    return "stratified" if kind == "records" else "stratified groups"


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
        if self.skill:
            return ""
        if paired and not inside and measure.statistic == "neg_mean_absolute_error":
            return "error difference"
        if measure.is_mean:
            return ("difference" if paired else "share" if measure.is_share else "mean") + inside
        if measure.share and measure.metric is None:
            known = not paired or measure.share in PAIRED
            return ("class difference" if paired else "class share") if known else ""
        return "by class" if measure.metric is not None and not (paired or inside) else ""

    @property
    def ends(self) -> tuple[str, float, float]:
        """Return what an answer measures, in words, and the ends of its range."""
        low, high = map(float, self.measure.span)
        if len(self.models) == 2 or len(self.inside) == 2:
            return f"difference of {self.measure.name}", low - high, high - low
        return self.measure.name, low, high

    def row(self, n_units: int) -> dict[str, Any]:
        """Return the row of a report, in JSON, before anything is known of it."""
        positive, join = self.measure.positive, " against " if self.skill else " minus "
        metric = self.measure.name
        return {
            "model": join.join(self.models[::-1]),
            "metric": f"skill score ({metric})" if self.skill else metric,
            "subgroup": " minus ".join(self.inside[::-1]), "value": None,
            "proven": None, "approximate": None, "parts": [], "notes": [],
            "method": self.proven + _GAP * (bool(self.proven) and len(self.inside) == 2),
            "positive": "" if positive is None else str(positive),
            "n_units": n_units, "n_events": None,
        }  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be reported; fixed, and recorded, before anything is read."""

    models: dict[str, Any]
    statements: list[Statement]
    masks: dict[str, Any]  # which records a subgroup has
    dependence: str  # a column of PROVEN
    per: str  # "unit" or "record"
    baseline: str | None
    bound: float  # most records of a group that count, per="record"
    approximate: bool  # without a level of privacy: rows are read from the closed holdout
    joint: bool  # whether the rows of a family hold together (theory G32)
    order: str  # from which the secret order of units follows
    y: Any = None  # training targets, if known
    past_records: PastRecords | None = None  # in time, before the holdout
    #: First date of each block that the recipe is refitted before, and how often in words.
    refit: tuple[Any, str] | None = None

    @property
    def classes(self) -> Any:
        """Classes of the targets; None of a regression."""
        return next((c for m in self.models.values() if (c := classes_of(m, None))), None)

    @property
    def training_mean(self) -> float | None:
        """Mean of the targets before the holdout, about which R² is computed in time."""
        if self.past_records is None:
            return None
        y = np.asarray(self.past_records.y)
        return float(y.mean()) if y.ndim == 1 and y.dtype.kind in "iuf" else None

    @property
    def positive(self) -> Any:
        """Class whose records are events, the same for all rows; None where there is none.

        The class that metrics count where they agree, else the last of two classes.
        """
        classes = self.classes
        if classes is None and self.y is not None and np.asarray(self.y).dtype.kind in "OUSb":
            classes = np.unique(self.y).tolist()
        counted = {one.measure.positive for one in self.statements} - {None}
        if len(counted) == 1:
            return next(iter(counted))
        return classes[-1] if classes is not None and len(classes) == 2 else None

    @property
    def n_proven(self) -> int:
        """Statements of the proven family."""
        return sum(bool(one.proven) for one in self.statements)

    @property
    def caveats(self) -> list[str]:
        """What has to be true besides."""
        said = {one.measure.metric.caveat for one in self.statements if one.measure.metric}
        if self.dependence in ("records", "groups") and self.n_proven:
            said.add(f"holdout {self.dependence} were drawn alike, not stratified by their targets")
        return sorted(filter(None, said))

    def n_rounds(self, model: Any) -> int:
        """Return how much of a declared budget is needed, shares of classes included."""
        if self.approximate and model.is_independent:  # counts of classes are read
            return self.n_proven
        by_class = [one.measure.metric for one in self.statements if one.proven == CLASSES]
        shapes = [metric.expected_shape(1) for metric in by_class if metric is not None]
        return self.n_proven + sum(len(shape.classes or (0, 1)) for shape in shapes)

    def identity(self) -> dict[str, Any]:
        """Return what makes two reports the same, in JSON.

        Code of the user may be edited under its name: ``code`` holds what it does as well. What has
        no content that can be read is known by nothing, not even later.
        """
        known, code, statements = [], [], []
        for name, model in self.models.items():
            content = model
            if isinstance(model, Predicted):
                content = model.values if model.known_as is None else model.known_as
            code.append(object_digest(content) or secrets.token_hex(16))
            try:
                known.append([name, joblib.hash(content)])
            except Exception:  # without a name
                known.append([name, code[-1]])
        for one in self.statements:
            own = one.measure
            if own.scorer is not None:
                code.append(object_digest(own.scorer) or secrets.token_hex(16))
            said = own.name, repr(own.metric), own.share, own.statistic, repr(own.positive)
            statements.append([one.models, one.inside, *said, one.proven, one.ahead, one.skill])
        return {
            "models": known,
            "statements": statements,
            "refit": None if self.refit is None else self.refit[1],
            "subgroups": {name: joblib.hash(mask) for name, mask in self.masks.items()},
            "per": self.per,
            "code": code,
        } | ({} if self.joint else {"joint": False})


def planned_report(
    holdout, estimators, cv_scores, *, scoring, compare, by, per, training, joint, refit_every=None
):
    """Return the :class:`Plan` of a report, or raise what is wrong with it."""
    settings, model = holdout.account.settings, holdout.dependence
    private = settings.is_private
    if not check_boolean("joint", joint) and private:
        raise ValueError(
            "joint=False is not available with a numeric epsilon or calibration='zhao2017': rows "
            "that pass through the noise hold together. The holdout was not queried."
        )
    y, dependence = _training_targets(holdout, training), dependence_of(holdout)
    past_records = holdout.context.past_records
    if model.is_time_ordered and training is not None and past_records is None:
        dates = np.arange(-num_samples(training[1]), 0)  # right before it, in time order
        past_records = PastRecords(training[0], training[1], dates)
    models, baseline, refit, expected = _named(
        estimators, cv_scores, compare, refit_every, holdout, y, past_records
    )
    masks, levels = _subgroups(holdout, by)
    measures = [
        _measures(asked, models, y, private=private, name=name)
        for name, asked in named_metrics(scoring)
    ]
    per = "unit" if per is None else check_option("per", per, ("record",))
    asked = [one.metric for own in measures for one in own.values()]
    if private and "groups" in dependence and any(one and one.is_mean for one in asked):
        per = "record"  # noise is added to means over records
    # All models, then their subgroups and gaps, then differences to a baseline.
    rows: list[tuple[Any, ...]] = [(own, (name,), (), False) for own in measures for name in own]
    rows += [(own, (name,), one, False) for own in measures for name in own for one in levels]
    for own in measures if baseline is not None else []:
        for name, measure in own.items():
            if measure.name != own[baseline].name:
                raise ValueError(
                    f"compare needs one metric for all models, got {own[baseline].name} and "
                    f"{measure.name}. Give all models the same scoring."
                )
            if name != baseline:
                rows.append((own, (baseline, name), (), False))
                if model.is_time_ordered and measure.losses:
                    rows.append((own, (baseline, name), (), True))
    statements, horizon = [], past_horizon(model)
    for own, names, inside, skill in rows:
        measure, middle = own[names[-1]], 0.5
        if own is measures[0] and not inside and measure.is_sum and expected.keys() >= set(names):
            known = [float(expected[name]) for name in names]
            if measure.is_mean:
                known = [check_cv_score(measure.metric, value) for value in known]
            known = np.clip(known, 0.0, 1.0).tolist()
            middle = known[0] if len(known) == 1 else 0.5 * (known[1] - known[0] + 1.0)
        one = Statement(models=names, measure=measure, inside=inside, skill=skill, expected=middle)
        proven = PROVEN.get(one.kind, {}).get(dependence, "")
        if proven == CLASSES and per == "record" and "groups" in dependence:
            proven = ""  # G19 is about a random record of a random group
        one = dataclasses.replace(one, proven=proven)
        statements.append(one)
        if model.is_time_ordered and horizon > 1:  # the other of two targets
            statements.append(dataclasses.replace(one, ahead=horizon))
    plan = Plan(
        models=models,
        statements=statements,
        refit=refit,
        masks=masks,
        per=per,
        baseline=baseline,
        approximate=not private,
        joint=joint,
        order=holdout.notes(Fact.ORDER)[0],
        y=y,
        dependence=dependence,
        past_records=past_records,
        bound=1.0 if per == "unit" or private else _most_records(holdout, training, dependence),
    )
    _check_plan(plan, holdout, training)
    return plan


def _measures(scoring, models, y, *, private, name):
    """Return what one metric asks of each model; ``name``: what rows call it, None for its own."""
    # Predictions have no usual metric: that of a model is meant, or accuracy.
    known = [one for one in models.values() if not isinstance(one, Predicted)]
    scoring, found = scoring or ("accuracy" if not known else None), {}
    for model_name, model in models.items():
        like = known[0] if known and scoring is None and isinstance(model, Predicted) else model
        measure = measure_of(scoring, like, y)
        if private and measure.share in PAIRED:  # as the mechanism is asked about it
            metric = get_metric(measure.share, estimator=model, y=y, pos_label=measure.positive)
            measure = dataclasses.replace(measure, metric=metric)
        found[model_name] = measure if name is None else dataclasses.replace(measure, name=name)
    return found


# -- models, baselines, subgroups -----------------------------------------------------------------


def _named(estimators, cv_scores, compare, refit_every, holdout, y, past_records):
    """Return models and predictions by name, the baseline's name, refits, and expected scores."""
    if isinstance(estimators, Mapping):
        found = {str(name): model for name, model in estimators.items()}
    elif isinstance(estimators, list | tuple) and not np.isscalar(next(iter(estimators), None)):
        kinds = [type(model).__name__ for model in estimators]
        found = {
            kind if kinds.count(kind) == 1 else f"{kind} {place}": model
            for place, (kind, model) in enumerate(zip(kinds, estimators, strict=True), 1)
        }
    else:
        found = {_kind(estimators, "predictions"): estimators}
    if not found:
        raise ValueError("estimators must hold at least one model, got none.")
    given, baseline = list(found), compare
    if compare is True:
        baseline = given[0]
    elif compare is None or compare is False:
        baseline = None
    elif not isinstance(compare, str):
        baseline = _kind(compare, "baseline")
        baseline += " (baseline)" * (baseline in found)
        found[baseline] = compare
    elif compare not in found and is_forecast(compare):
        found[compare] = forecast(compare, holdout, past_records, classes_of(None, y))
    if baseline is not None and (baseline not in found or len(found) < 2):
        raise ValueError(
            "compare needs two models, and must be True, one of their names "
            f"({', '.join(found)}), a model, predictions or, in time, 'naive' or 'seasonal-7' "
            f"(1 to 9,999 dates), got compare={compare!r:.80}."
        )
    known = holdout.X, holdout.y, y
    found = {name: align_predictions(name, model, holdout) for name, model in found.items()}
    models = {name: checked_model(name, model, *known) for name, model in found.items()}
    values = np.asarray(cv_scores, dtype=float)
    if values.shape not in ((), (len(given),)):
        raise ValueError(
            f"cv_scores must be a number or one for each of {len(given)} models, got shape "
            f"{values.shape}."
        )
    known = zip(given, np.broadcast_to(values, len(given)).tolist(), strict=True)
    refit = None if refit_every is None else refit_blocks(holdout, refit_every, past_records)
    more = "" if refit is None else f", refitted {refit[1]}"
    names = {
        name: name + more * (not isinstance(model, Predicted)) for name, model in models.items()
    }
    models = {names[name]: model for name, model in models.items()}
    expected = {names[name]: value for name, value in known if np.isfinite(value)}
    return models, names.get(baseline), refit, expected


def _kind(one, otherwise):
    """Return how a model is called that nobody named, and otherwise the word for predictions."""
    is_model = hasattr(one, "fit") or hasattr(one, "predict")
    return type(one).__name__ if is_model else otherwise


def _subgroups(holdout, by):
    """Return the records of each subgroup, and what rows are about: subgroups and gaps."""
    masks: dict[str, Any] = {}
    rows: list[tuple[str, ...]] = []
    if by is not None and not isinstance(by, Mapping):
        framed = hasattr(holdout.X, "columns")
        try:
            column = holdout.X[by] if framed else safe_indexing(holdout.X, by, axis=1)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise ValueError(
                f"by must be a column of X or {{name: labels}}, got {by!r}."
            ) from error
        by = {str(by) if framed else f"column {by}": column}
    for name, given in (by or {}).items():
        labels = np.asarray(given.toarray() if scipy.sparse.issparse(given) else given)
        labels = labels.reshape(-1).astype(object)
        found = sorted({one for one in labels.tolist() if one == one and one is not None}, key=str)
        if len(labels) != holdout.n:
            raise ValueError(
                f"by={{{name!r}: labels}} must have a label for each of the {holdout.n} records of "
                f"the holdout, got {len(labels)}. A search has their places in holdout_indices_."
            )
        if not 2 <= len(found) <= _MOST_LEVELS:
            raise ValueError(
                f"by={name!r} must make 2 to {_MOST_LEVELS} subgroups, got {len(found)}. Cut "
                "numbers into bins first, as in {'age': pandas.cut(age, [0, 40, 60, 120])}."
            )
        own = [f"{name}={label}" for label in found]
        for key, label in zip(own, found, strict=True):
            masks[key] = is_label(labels, label).astype(float)
        rows += [(key,) for key in own]
        if len(own) == 2:
            rows.append((own[0], own[1]))
        for key in own if len(own) > 2 else ():
            rest = f"the rest of {name} but {key}"
            masks[rest] = 1.0 - masks[key]
            rows.append((rest, key))
    return masks, rows


# -- what is known before closing, and what would stumble -----------------------------------------


def _training_targets(holdout, training):
    """Return training targets, or others of the same range and classes; None where unknown."""
    if training is not None:
        known, kind = isinstance(training, tuple), type(training).__name__
        lengths = [num_samples(part) for part in training] if known else []
        if len(lengths) not in (2, 3) or len(set(lengths)) > 1:
            raise ValueError(
                "training must be (X, y) or (X, y, groups) of the same training records, got a "
                f"{kind} of lengths {lengths}."
            )
        if len(training) == 3:
            check_one_kind_of_labels("groups", training[2])
        return training[1]
    for known in holdout.notes(Fact.TRAINING_TARGETS)[:1]:
        if "classes" in known:
            return np.repeat(np.asarray(known["classes"]), known["counts"])
        return np.array([known["low"], known["high"]])
    sample = holdout.context.dry_run_sample
    return None if sample is None else sample[1]


def _most_records(holdout, training, dependence):
    """Return the most records of one group that count, fixed before the split (theory G28)."""
    if "groups" not in dependence:
        n_units, unit_name = holdout.dependence.units(holdout.n)
        if hasattr(holdout.dependence, "codes_") and n_units < holdout.n:
            raise ValueError(
                f"per='record' is not available here: {unit_name} count "
                "alike, with many records or few. The holdout was not queried."
            )
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


def _check_plan(plan, holdout, training):
    """Raise what a report would stumble over."""
    X, y, blank = holdout.X, as_labels(holdout.y), _blank(holdout, training)
    alike = holdout.dependence.is_componentwise and not holdout.dependence.is_given_rest
    for one in plan.statements:
        if (
            holdout.dependence.is_time_ordered
            and one.measure.statistic == "r2"
            and plan.training_mean is None
        ):
            raise ValueError(
                "scoring='r2' under correlation='time' needs the mean of the training targets. "
                "Pass training=(X_train, y_train). The holdout was not queried."
            )
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
            uneven = plan.per == "unit" and not holdout.dependence.is_independent
            if holdout.dependence.is_time_ordered:  # dates of one record each weigh alike
                uneven = holdout.dependence.units(holdout.n)[0] < holdout.n
            _try(one.measure, plan.models[one.models[0]], *blank, uneven=uneven)
    for name, model in plan.models.items():
        if not isinstance(model, Predicted):
            if plan.past_records is not None and non_sklearn_components(model):
                # A copy is asked: a model that counts its calls is the same in the same report.
                asked, _ = Records(X, y, plan.models).asked(name)
                earlier = plan.past_records
                check_later_rows(asked, earlier.X, earlier.dates, name=name)
            holdout.check_model(model)


def _try(measure, model, X, y, known, *, uneven):
    """Run a model and a metric on blank records.

    ``known``: whether they are training records. Others may be none that a model can predict, which
    a :class:`ValueError` says. ``uneven``: whether records will have weights.
    """
    if not known and getattr(model, "classes_", None) is not None and np.ndim(model.classes_) == 1:
        y = np.resize(np.asarray(model.classes_), np.shape(y))
    weights, predicts = np.linspace(0.5, 1.0, len(y)) if uneven else np.ones(len(y)), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records = Records(X, y, {"": model})
            asked, rows = records.asked("")
            if hasattr(asked, "predict"):
                asked.predict(rows)
            predicts = True
            if measure.metric is not None:
                measure.metric.check_training(asked, rows, y)
            found = reads(measure, records, "", weights)
        if np.ndim(found) != 0:
            raise TypeError(f"a score must be one number, got shape {np.shape(found)}")
    except ScoreContractError:
        raise
    except Exception as raised:
        # What the scorer raised itself; these records are public.
        error = raised.__cause__ if isinstance(raised, UndefinedScore) else raised
        if not known and not predicts and isinstance(error, ValueError | KeyError):
            return
        if not known and isinstance(error, np.linalg.LinAlgError):
            return  # blank records are all alike, and no line fits them
        weighted = "sample_weight" in str(error)
        raise ValueError(
            f"{measure.name} of {type(model).__name__} fails on records made to try it: "
            f"{type(error).__name__}: {str(error).rstrip('.')}. "
            + "Scores of groups need sample_weight, or per='record'. " * weighted
            + "The holdout was not queried."
        ) from error


def _blank(holdout, training):
    """Return records to try models on, their targets, and whether they are training records."""
    training = training or holdout.context.dry_run_sample
    if training is not None:
        y = training[1]
        # Predictions have as many positions as the holdout has records.
        n_tried = min(_TRIED, num_samples(y), holdout.n)
        rows = np.linspace(0, num_samples(y) - 1, n_tried).astype(int)
        return safe_indexing(training[0], rows), safe_indexing(y, rows), True
    X, y = blank_rows(holdout.X), holdout.y
    return None if X is None else (X, np.resize(np.arange(8) % 2, (8, *np.shape(y)[1:])), False)


# -- what the training side says ------------------------------------------------------------------


def prepared(plan: Plan, training: Any, variance: float | None, holdout: Any) -> Plan:
    """Return the plan with what bets know in advance: from training folds, else a guess.

    ``training``: what the caller gave. ``variance``: of a record's training-side score in the first
    row, as a search has it. A search's own records are cross-validated where it is not enough: for
    differences, several models, and metrics that the search did not rank by.
    """
    betting = [one for one in plan.statements if one.proven in (BETS, FREE)]
    side = None if training is None else CVData(*training)
    if side is None and not (variance and betting == plan.statements[:1]):
        side = holdout.context.cv_data
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
