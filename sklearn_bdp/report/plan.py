"""The plan of a final report: its statements, and all facts about them available before closing.

Closing is irreversible. Therefore metrics × models × dependence are checked first, and every model
and metric runs once on placeholder records: their errors are raised while the holdout is open and
before any holdout record is read. Out-of-fold moments of training units come from one
cross-validation on training records, on the folds of the search if there was one: any moments are
valid, accurate ones give narrow intervals (theory G28).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import secrets
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from scipy.stats import norm
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv

from sklearn_bdp._typing import Array
from sklearn_bdp.correlation.components import check_one_kind_of_labels
from sklearn_bdp.diagnostics.scores import check_later_rows, non_sklearn_components
from sklearn_bdp.exceptions import ScoreContractError, UnboundedMetricError
from sklearn_bdp.intervals.bounds import UnitMoments, clopper_pearson_interval, unit_moments
from sklearn_bdp.intervals.concentration import ClassMeansTail, half_width_at
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.metrics.base import BoundedMetric, as_labels, check_schema
from sklearn_bdp.metrics.error_clips import ErrorClips, has_undeclared_range
from sklearn_bdp.metrics.proofs import CLASSES, COUNTS, PAST, RECALLS, UNIT_INTERVALS
from sklearn_bdp.metrics.scoring import get_metric
from sklearn_bdp.release.context import CVData, PastRecords
from sklearn_bdp.release.query_batch import check_cv_score
from sklearn_bdp.report.by_class import AucMoments, scores_by_class
from sklearn_bdp.report.in_time import (
    align_predictions,
    forecast,
    is_forecast,
    past_horizon,
    past_moments,
    refit_blocks,
    with_clips,
    without_clip,
)
from sklearn_bdp.report.measures import (
    Measure,
    PrecomputedPredictions,
    ScoredRecords,
    ScorerMetric,
    UndefinedScore,
    blank_rows,
    check_model_supports,
    checked_model,
    classes_of,
    compute_score,
    is_label,
    measure_of,
    named_metrics,
)
from sklearn_bdp.utils.hashing import object_digest, pickle_digest
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_boolean, check_option

_MAX_SUBGROUPS = 20  # of one column
_TRIED = 32  # most training records that every model and metric is tried on
#: Differences beyond this quantile of the training records, times a factor, count as that.
_GAP_QUANTILE, _GAP_EXCESS = 0.999, 1.1
_BET_EXCESS = 1.2  # width of a betting interval over that of a normal approximation
_UNKNOWN = UnitMoments(0.5, 0.25, 1.0)  # any moments are valid (theory G28)

#: Two subgroups, each at half the level of their gap.
_GAP = ", half the level for each subgroup"


def dependence_of(holdout: Any) -> str:
    """Return which units are independent, and whether they are alike, as proofs name it."""
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is not None:
        return "past"
    if scheme.is_conditional:
        # Nodes given all others are related by declared strengths, inside components, too.
        return "given the rest" if scheme.has_independent_records else "dependent"
    if scheme.weights is not None or not scheme.exchangeable:
        return "dependent"
    unit_type = "records" if scheme.has_independent_records else "groups"
    # A split that reads the targets fixes counts of classes: units are not alike.
    if not holdout.notes(Fact.STRATIFIED):
        return unit_type
    return "stratified" if unit_type == "records" else "stratified groups"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """One row before it is computed."""

    models: tuple[str, ...]  # one model, or a baseline and the model compared with it
    measure: Measure
    subgroups: tuple[str, ...] = ()  # empty for all records, a subgroup, or two for their gap
    proven: str = ""  # the method, one of `metrics.proofs`; empty without a proof
    moments: Any = _UNKNOWN  # expected moments that bets use: UnitMoments, of AUC AucMoments
    max_difference: float = 1.0  # larger differences, in units of [0, 1], are clipped to it
    forecast_horizon: int = 1  # dates from the conditioning date to the score (theory G26)
    skill: bool = False  # 1 - the ratio of losses
    expected: float = 0.5  # cross-validated value in [0, 1]
    #: Of a mean over classes: the recall of each class, if their limits prove the row.
    recalls: tuple[Statement, ...] = ()

    def in_subgroup(self, name: str) -> Statement:
        """Return the statement of one subgroup."""
        recalls = tuple(recall.in_subgroup(name) for recall in self.recalls)
        return dataclasses.replace(self, subgroups=(name,), recalls=recalls)

    @property
    def method(self) -> str:
        """Return the method of the proof; empty without one."""
        if self.recalls:
            return f"{self.recalls[0].proven} for each class"
        return self.proven

    @property
    def ends(self) -> tuple[str, float, float]:
        """Return the name of the measured quantity and the ends of its range."""
        low, high = map(float, self.measure.span)
        if len(self.models) == 2 or len(self.subgroups) == 2:
            return f"difference of {self.measure.name}", low - high, high - low
        return self.measure.name, low, high

    def identity(self) -> list[Any]:
        """Return the fields that identify a statement, in JSON."""
        return [
            self.models,
            self.subgroups,
            self.measure.name,
            repr(self.measure.metric),
            repr(self.measure.positive),
            self.proven,
            self.forecast_horizon,
            self.skill,
        ]

    def row(self, n_units: int) -> dict[str, Any]:
        """Return the row of a report, in JSON, with its results still empty."""
        positive = self.measure.positive
        join = " against " if self.skill else " minus "
        metric = self.measure.name
        return {
            "model": join.join(self.models[::-1]),
            "metric": f"skill score ({metric})" if self.skill else metric,
            "subgroup": " minus ".join(self.subgroups[::-1]), "value": None,
            "proven": None, "approximate": None, "parts": [], "notes": [],
            "method": self.method + _GAP * (bool(self.proven) and len(self.subgroups) == 2),
            "positive": "" if positive is None else str(positive),
            "n_units": n_units, "n_events": None,
        }  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Contents of a report, fixed and recorded before any holdout record is read."""

    models: dict[str, Any]
    statements: list[Statement]
    masks: dict[str, Any]  # which records a subgroup has
    dependence: str  # as `metrics.proofs` name it
    per: str  # "unit" or "record"
    baseline: str | None
    bound: float  # largest number of records of a group that count, per="record"
    approximate: bool  # without a level of privacy: rows are read from the closed holdout
    joint: bool  # whether the intervals of a family are valid simultaneously (theory G32)
    order: str  # random bits in the ledger header that fix the secret order of units
    y: Any = None  # training targets, if known
    past_records: PastRecords | None = None  # in time, before the holdout
    #: First date of each block that the recipe is refitted before, and the frequency as text.
    refit: tuple[Any, str] | None = None
    #: In time, the largest errors that count where no range was declared; None if not known.
    error_clips: ErrorClips | None = None

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
        """Class whose records are events, the same for all rows; None without such a class.

        If metrics agree on a class, that class; else the last of two classes.
        """
        classes = self.classes
        if classes is None and self.y is not None and np.asarray(self.y).dtype.kind in "OUSb":
            classes = np.unique(self.y).tolist()
        counted = {statement.measure.positive for statement in self.statements} - {None}
        if len(counted) == 1:
            return next(iter(counted))
        return classes[-1] if classes is not None and len(classes) == 2 else None

    @property
    def n_proven(self) -> int:
        """Number of statements in the proven family."""
        return sum(bool(statement.proven) for statement in self.statements)

    @property
    def caveats(self) -> list[str]:
        """Additional assumptions of the statements."""
        caveats = {statement.measure.metric.caveat for statement in self.statements}
        if self.dependence in ("records", "groups") and self.n_proven:
            caveats.add(
                f"holdout {self.dependence} were drawn alike, not stratified by their targets"
            )
        return sorted(filter(None, caveats))

    def n_rounds(self) -> int:
        """Return how much of a declared budget is needed, shares of classes included."""
        if self.approximate:  # counts of classes are read
            return self.n_proven
        metrics_by_class = [
            statement.measure.metric for statement in self.statements if statement.proven == CLASSES
        ]
        shapes = [metric.expected_shape(1) for metric in metrics_by_class if metric is not None]
        return self.n_proven + sum(len(shape.classes or (0, 1)) for shape in shapes)

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify a report, in JSON.

        User code may be edited without a new name: ``code`` also holds digests of its content. An
        object without readable content gets a random digest, so it never equals a later one.
        """
        model_hashes = []
        code = []
        for name, model in self.models.items():
            content = _content_of_model(model)
            code.append(_digest_or_random(content))
            try:
                model_hashes.append([name, pickle_digest(content, hash_name="md5")])
            except Exception:  # without a name
                model_hashes.append([name, code[-1]])
        for statement in self.statements:
            user_code = _user_code(statement.measure.metric)
            if user_code is not None:
                code.append(_digest_or_random(user_code))
        identity: dict[str, Any] = {
            "models": model_hashes,
            "statements": [statement.identity() for statement in self.statements],
            "refit": None if self.refit is None else self.refit[1],
            "subgroups": {
                name: pickle_digest(mask, hash_name="md5") for name, mask in self.masks.items()
            },
            "per": self.per,
            "code": code,
        }
        if not self.joint:
            identity["joint"] = False
        return identity


def _digest_or_random(content):
    """Return a digest of an object, and a random one if its content cannot be read."""
    return object_digest(content) or secrets.token_hex(16)


def _user_code(metric):
    """Return the object of a metric that contains code of the user, None without one."""
    if isinstance(metric, ScorerMetric):
        return metric.scorer
    return metric if metric.is_of_caller else None


def _content_of_model(model):
    """Return the content that identifies a model: itself, its predictions or their keyword."""
    if not isinstance(model, PrecomputedPredictions):
        return model
    return model.values if model.known_as is None else model.known_as


def make_report_plan(
    holdout, estimators, cv_scores, *, scoring, compare, by, per, training, joint, refit_every=None
):
    """Return the :class:`Plan` of a report, or raise an error that names its defect."""
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    private = holdout.account.settings.is_private
    if not check_boolean("joint", joint) and private:
        raise ValueError(
            "joint=False is not available with a numeric epsilon or calibration='zhao2017': rows "
            "that pass through the noise hold together. The holdout was not queried."
        )
    y = _training_targets(holdout, training)
    dependence = dependence_of(holdout)
    past_records = _records_before(holdout, training, scheme)
    models, baseline, refit, expected = _resolve_models(
        estimators, cv_scores, compare, refit_every, holdout, y, past_records
    )
    masks, levels = _subgroups(holdout, by)
    n_outputs = len(np.atleast_1d(as_labels(holdout.y)[0]))
    measures = [
        _resolve_metric(
            scoring_of_metric, models, y, n_outputs=n_outputs, private=private, name=name
        )
        for name, scoring_of_metric in named_metrics(scoring)
    ]
    metrics = [measure.metric for by_model in measures for measure in by_model.values()]
    is_by_date = scheme.calendar is not None
    error_clips = None
    if is_by_date and any(map(has_undeclared_range, metrics)):
        error_clips = _error_clips(holdout, models, training, past_records)
        measures = [
            {name: with_clips(measure, error_clips) for name, measure in by_model.items()}
            for by_model in measures
        ]
    per = "unit" if per is None else check_option("per", per, ("record",))
    if private and "groups" in dependence and any(metric.is_mean for metric in metrics):
        per = "record"  # noise is added to means over records
    statements = []
    for statement in _unproven_statements(measures, levels, baseline, is_by_date=is_by_date):
        ranking_metric = measures[0][statement.models[-1]].name
        statement = _with_expected_value(statement, expected, ranking_metric)
        if is_by_date:
            statement = _without_clip(statement)
        statement = _with_proof(statement, models, y, dependence, per, private=private)
        statements += _at_each_horizon(statement, past_horizon(scheme))
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
        error_clips=error_clips,
        bound=1.0 if per == "unit" or private else _most_records(holdout, training, dependence),
    )
    _check_plan(plan, holdout, training)
    return plan


def _records_before(holdout, training, scheme):
    """Return the records before a holdout in time; None without them."""
    past_records = holdout.context.past_records
    if scheme.calendar is None or training is None or past_records is not None:
        return past_records
    dates = np.arange(-num_samples(training[1]), 0)  # right before it, in time order
    return PastRecords(training[0], training[1], dates)


def _unproven_statements(measures, levels, baseline, *, is_by_date):
    """Return the statements of all rows: models, their subgroups and gaps, then differences."""
    statements = [
        Statement(models=(name,), measure=measure)
        for by_model in measures
        for name, measure in by_model.items()
    ]
    statements += [
        Statement(models=(name,), measure=measure, subgroups=subgroups)
        for by_model in measures
        for name, measure in by_model.items()
        for subgroups in levels
    ]
    for by_model in measures if baseline is not None else []:
        statements += _comparisons(by_model, baseline, is_by_date=is_by_date)
    return statements


def _comparisons(by_model, baseline, *, is_by_date):
    """Return the statements that compare models with a baseline: differences, skill scores."""
    statements = []
    for name, measure in by_model.items():
        if measure.name != by_model[baseline].name:
            raise ValueError(
                f"compare needs one metric for all models, got {by_model[baseline].name} and "
                f"{measure.name}. Give all models the same scoring."
            )
        if name == baseline:
            continue
        statements.append(Statement(models=(baseline, name), measure=measure))
        if is_by_date and measure.metric.is_loss:
            statements.append(Statement(models=(baseline, name), measure=measure, skill=True))
    return statements


def _without_clip(statement):
    """Return a comparison of two models without the clip that it does not need, or a statement."""
    if len(statement.models) == 1:
        return statement
    measure = without_clip(statement.measure, skill=statement.skill)
    return dataclasses.replace(statement, measure=measure)


def _at_each_horizon(statement, horizon):
    """Return a statement about the next date and, for later forecasts, about their date."""
    if horizon == 1:
        return [statement]
    return [statement, dataclasses.replace(statement, forecast_horizon=horizon)]


def _with_expected_value(statement, cv_score_of_model, ranking_metric):
    """Return a statement with the value to be expected after cross-validation, in [0, 1].

    Cross-validated scores are about all records and the metric that ranks candidates.
    """
    is_scored = (
        statement.measure.name == ranking_metric
        and not statement.subgroups
        and cv_score_of_model.keys() >= set(statement.models)
    )
    if not is_scored or not statement.measure.is_sum:
        return statement
    cv_values = [float(cv_score_of_model[name]) for name in statement.models]
    if statement.measure.is_mean:
        metric = statement.measure.metric
        cv_values = [check_cv_score(metric, value) for value in cv_values]
    values = np.clip(cv_values, 0.0, 1.0).tolist()
    expected = values[0] if len(values) == 1 else 0.5 * (values[1] - values[0] + 1.0)
    return dataclasses.replace(statement, expected=expected)


def _with_proof(statement, models, y, dependence, per, *, private):
    """Return a statement with the method that proves it."""
    if statement.skill:
        return statement
    proven = statement.measure.metric.proof(
        dependence,
        is_difference=len(statement.models) == 2,
        in_subgroup=bool(statement.subgroups),
        is_private=private,
    )
    if proven == CLASSES and per == "record" and "groups" in dependence:
        proven = ""  # G19 is about a random record of a random group
    statement = dataclasses.replace(statement, proven=proven)
    if proven not in (CLASSES, RECALLS) or private:
        return statement
    recalls = _recall_statements(statement, models[statement.models[-1]], y, dependence)
    return dataclasses.replace(statement, recalls=recalls)


def _recall_statements(statement, model, y, dependence):
    """Return the statements on the recall of each class; none for a metric of pairs."""
    metric = statement.measure.metric
    classes = metric.classes or classes_of(model, y)
    if metric.expected_shape(1).kind == "pairs" or classes is None:
        return ()
    recalls = []
    for label in classes:
        recall = get_metric("recall", estimator=model, y=y, pos_label=label)
        proven = recall.proof(dependence, is_difference=len(statement.models) == 2)
        measure = Measure(name=recall.name, metric=recall, positive=label)
        recalls.append(
            Statement(
                models=statement.models,
                measure=measure,
                subgroups=statement.subgroups,
                proven=proven,
            )
        )
    return tuple(recalls)


def _resolve_metric(scoring, models, y, *, n_outputs, private, name):
    """Return the :class:`Measure` of one metric for each model.

    ``name`` replaces the metric's own name in the rows unless it is None.
    """
    # Predictions have no default metric: that of a model is meant, or accuracy.
    fitted_models = [
        model for model in models.values() if not isinstance(model, PrecomputedPredictions)
    ]
    scoring = scoring or ("accuracy" if not fitted_models else None)
    measures = {}
    for model_name, model in models.items():
        uses_default = scoring is None and isinstance(model, PrecomputedPredictions)
        reference_model = fitted_models[0] if fitted_models and uses_default else model
        measure = measure_of(scoring, reference_model, y, n_outputs=n_outputs)
        if private:
            measure = _through_mechanism(measure, model, y)
        measures[model_name] = measure if name is None else dataclasses.replace(measure, name=name)
    return measures


def _through_mechanism(measure, model, y):
    """Return a measure whose metric is a query: ratios that rank candidates have another one."""
    metric = measure.metric
    if not (metric.is_ratio and metric.can_rank):
        return measure
    query_metric = get_metric(metric.name, estimator=model, y=y, pos_label=measure.positive)
    return dataclasses.replace(measure, metric=query_metric)


# -- models, baselines, subgroups -----------------------------------------------------------------


def _resolve_models(estimators, cv_scores, compare, refit_every, holdout, y, past_records):
    """Return models and predictions by name, the baseline's name, refits, and expected scores."""
    models_by_name = _models_by_name(estimators)
    estimator_names = list(models_by_name)
    baseline, models_by_name = _with_baseline(models_by_name, compare, holdout, y, past_records)
    aligned = {
        name: align_predictions(name, model, holdout) for name, model in models_by_name.items()
    }
    models = {
        name: checked_model(name, model, holdout.X, holdout.y, y) for name, model in aligned.items()
    }
    cv_score_of_model = _cv_scores_by_name(cv_scores, estimator_names)
    refit = None if refit_every is None else refit_blocks(holdout, refit_every, past_records)
    refit_suffix = "" if refit is None else f", refitted {refit[1]}"
    names = {
        name: name + refit_suffix * (not isinstance(model, PrecomputedPredictions))
        for name, model in models.items()
    }
    models = {names[name]: model for name, model in models.items()}
    expected = {names[name]: value for name, value in cv_score_of_model.items()}
    return models, names.get(baseline), refit, expected


def _models_by_name(estimators):
    """Return models and predictions by name: a mapping, a list or a single one."""
    if isinstance(estimators, Mapping):
        models_by_name = {str(name): model for name, model in estimators.items()}
    elif isinstance(estimators, list | tuple) and not np.isscalar(next(iter(estimators), None)):
        type_names = [type(model).__name__ for model in estimators]
        models_by_name = {
            type_name if type_names.count(type_name) == 1 else f"{type_name} {number}": model
            for number, (type_name, model) in enumerate(zip(type_names, estimators, strict=True), 1)
        }
    else:
        models_by_name = {_default_name(estimators, "predictions"): estimators}
    if not models_by_name:
        raise ValueError("estimators must hold at least one model, got none.")
    return models_by_name


def _with_baseline(models_by_name, compare, holdout, y, past_records):
    """Return the name of the baseline, None without one, and all models with the baseline."""
    if compare is None or compare is False:
        return None, models_by_name
    if compare is True:
        baseline = next(iter(models_by_name))
    elif isinstance(compare, str):
        baseline = compare
        if compare not in models_by_name and is_forecast(compare):
            repeated = forecast(compare, holdout, past_records, classes_of(None, y))
            models_by_name = {**models_by_name, compare: repeated}
    else:
        baseline = _default_name(compare, "baseline")
        baseline += " (baseline)" * (baseline in models_by_name)
        models_by_name = {**models_by_name, baseline: compare}
    if baseline not in models_by_name or len(models_by_name) < 2:
        raise ValueError(
            "compare needs two models, and must be True, one of their names "
            f"({', '.join(models_by_name)}), a model, predictions or, in time, 'naive' or "
            f"'seasonal-7' (1 to 9,999 dates), got compare={compare!r:.80}."
        )
    return baseline, models_by_name


def _cv_scores_by_name(cv_scores, names):
    """Return the cross-validated scores of models by name; models without a score are absent."""
    values = np.asarray(cv_scores, dtype=float)
    if values.shape not in ((), (len(names),)):
        raise ValueError(
            f"cv_scores must be a number or one for each of {len(names)} models, got shape "
            f"{values.shape}."
        )
    by_name = zip(names, np.broadcast_to(values, len(names)).tolist(), strict=True)
    return {name: value for name, value in by_name if np.isfinite(value)}


def _error_clips(holdout, models, training, past_records):
    """Return the recorded clips of errors, or those of the first model; None without a model.

    The model is cross-validated on the training set (theory G31).
    """
    recorded = holdout.notes(Fact.ERROR_CLIPS)
    if recorded:
        return ErrorClips(*recorded[0])
    fitted_models = (
        model for model in models.values() if not isinstance(model, PrecomputedPredictions)
    )
    estimator = next(fitted_models, None)
    training_data = _training_data(holdout, training, past_records)
    if estimator is None or training_data is None:
        return None
    errors = out_of_fold_errors(estimator, training_data)
    return None if errors is None else ErrorClips.from_errors(errors)


def out_of_fold_errors(estimator: Any, training_data: CVData) -> Array | None:
    """Return errors of training records by clones of a model that were fitted on other folds.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fold.
    training_data : CVData
        Training records, and their folds if a search drew some.

    Returns
    -------
    ndarray of shape (n_tested,) or None
        Targets minus predictions. None for several outputs, and if the model cannot be fitted
        again.
    """
    if np.ndim(training_data.y) != 1:
        return None
    errors = [
        records.y - records.rows("", "values")
        for records, _ in _scored_folds({"": estimator}, training_data)
    ]
    return np.concatenate(errors) if errors else None


def _training_data(holdout, training, past_records):
    """Return the training records of the caller, of a search or before the holdout, or None."""
    if training is not None:
        return CVData(*training)
    if holdout.context.cv_data is None and past_records is not None:
        return CVData(past_records.X, past_records.y)
    return holdout.context.cv_data


def _default_name(estimator, otherwise):
    """Return the class name of a model, or ``otherwise`` for precomputed predictions."""
    is_model = hasattr(estimator, "fit") or hasattr(estimator, "predict")
    return type(estimator).__name__ if is_model else otherwise


def _subgroups(holdout, by):
    """Return the records of each subgroup, and the subgroups and gaps that get rows."""
    masks: dict[str, Any] = {}
    rows: list[tuple[str, ...]] = []
    if by is not None and not isinstance(by, Mapping):
        by = _column_of_holdout(holdout, by)
    for name, column in (by or {}).items():
        if scipy.sparse.issparse(column):
            column = column.toarray()
        labels = np.asarray(column).reshape(-1).astype(object)
        unique_labels = _subgroup_labels(name, labels, holdout.n)
        subgroups = [f"{name}={label}" for label in unique_labels]
        for subgroup, label in zip(subgroups, unique_labels, strict=True):
            masks[subgroup] = is_label(labels, label).astype(float)
        rows += [(subgroup,) for subgroup in subgroups]
        if len(subgroups) == 2:
            rows.append((subgroups[0], subgroups[1]))
            continue
        for subgroup in subgroups:
            complement = f"the rest of {name} but {subgroup}"
            masks[complement] = 1.0 - masks[subgroup]
            rows.append((complement, subgroup))
    return masks, rows


def _column_of_holdout(holdout, by):
    """Return a column of the holdout's records by its name."""
    if np.ndim(by) != 0:
        raise ValueError(
            f"by must be one column of X or {{name: labels}}, got {np.size(by)} values. Pass "
            'labels of the holdout records as by={"name": labels}. The holdout was not queried.'
        )
    is_frame = hasattr(holdout.X, "columns")
    try:
        column = holdout.X[by] if is_frame else safe_indexing(holdout.X, by, axis=1)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ValueError(f"by must be a column of X or {{name: labels}}, got {by!r}.") from error
    return {str(by) if is_frame else f"column {by}": column}


def _subgroup_labels(name, labels, n):
    """Return the labels that make subgroups, sorted; missing ones make none."""
    observed = {label for label in labels.tolist() if label == label and label is not None}
    if len(labels) != n:
        raise ValueError(
            f"by={{{name!r}: labels}} must have a label for each of the {n} records of "
            f"the holdout, got {len(labels)}. A search has their places in holdout_indices_."
        )
    if not 2 <= len(observed) <= _MAX_SUBGROUPS:
        raise ValueError(
            f"by={name!r} must make 2 to {_MAX_SUBGROUPS} subgroups, got {len(observed)}. "
            "Cut numbers into bins first, as in {'age': pandas.cut(age, [0, 40, 60, 120])}."
        )
    if len({str(label) for label in observed}) < len(observed):
        raise ValueError(
            f"by={name!r} must hold labels of one type, got different labels of the same text, "
            "such as 1 and '1'. Pass labels.astype(str). The holdout was not queried."
        )
    return sorted(observed, key=str)


# -- training targets, and errors that would occur after closing ----------------------------------


def _training_targets(holdout, training):
    """Return training targets, or others of the same range and classes; None if unknown."""
    if training is not None:
        _check_training(training)
        return training[1]
    for summary in holdout.notes(Fact.TRAINING_TARGETS)[:1]:
        if "classes" in summary:
            return np.repeat(np.asarray(summary["classes"]), summary["counts"])
        return np.array([summary["low"], summary["high"]])
    sample = holdout.context.dry_run_sample
    return None if sample is None else sample[1]


def _check_training(training):
    """Raise ValueError unless ``training`` is (X, y) or (X, y, groups) of the same records."""
    lengths = []
    if isinstance(training, tuple):
        lengths = [num_samples(array) for array in training]
    if len(lengths) not in (2, 3) or len(set(lengths)) > 1:
        raise ValueError(
            "training must be (X, y) or (X, y, groups) of the same training records, got a "
            f"{type(training).__name__} of lengths {lengths}."
        )
    if len(training) == 3:
        check_one_kind_of_labels("groups", training[2])


def _most_records(holdout, training, dependence):
    """Return the largest number of records of one group that count (theory G28).

    It is fixed before the split.
    """
    if "groups" not in dependence:
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        if scheme.block_codes is not None and scheme.n_units < holdout.n:
            raise ValueError(
                f"per='record' is not available here: {scheme.unit_name} count "
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
    """Raise the errors that a report would meet after closing."""
    X = holdout.X
    y = as_labels(holdout.y)
    blank = _placeholder_records(holdout, training)
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    has_uneven_weights = plan.per == "unit" and not scheme.has_independent_records
    if scheme.calendar is not None:  # dates of one record each weigh alike
        has_uneven_weights = scheme.n_units < holdout.n
    for statement in plan.statements:
        _check_training_mean(statement, plan, scheme)
        if not plan.approximate:
            _check_noise(statement, scheme)
        for name in statement.models:
            _check_support(statement.measure, plan.models[name], X, y, counts=plan.approximate)
        if len(statement.models) == 1 and not statement.subgroups and blank is not None:
            model = plan.models[statement.models[0]]
            _dry_run(statement.measure, model, *blank, uneven=has_uneven_weights)
    for name, model in plan.models.items():
        if isinstance(model, PrecomputedPredictions):
            continue
        if plan.past_records is not None and non_sklearn_components(model):
            # A copy predicts: a model that counts its calls stays the same for a rerun.
            copied_model, _ = ScoredRecords(X, y, plan.models).model_and_data(name)
            earlier = plan.past_records
            check_later_rows(copied_model, earlier.X, earlier.dates, name=name)
        holdout.check_model(model)


def _check_training_mean(statement, plan, scheme):
    """Raise ValueError if a row in time is about an unknown mean of the training targets."""
    is_about_mean = statement.measure.metric.unit_statistic.dates.left_out_about is not None
    if scheme.calendar is not None and is_about_mean and plan.training_mean is None:
        raise ValueError(
            "scoring='r2' under correlation='time' needs the mean of the training targets. "
            "Pass training=(X_train, y_train). The holdout was not queried."
        )


def _check_noise(statement, scheme):
    """Raise UnboundedMetricError unless a row is proven and passes through the noise.

    Each row through the noise has its part of the failure probability, as proven ones do.
    """
    metric = statement.measure.metric
    is_noisy = isinstance(metric, BoundedMetric) and (
        metric.is_mean or (scheme.exchangeable and len(statement.models) == 1)
    )
    if not (is_noisy and statement.proven) or statement.subgroups:
        raise UnboundedMetricError(
            f"scoring={statement.measure.name!r} "
            f"{'with by= ' * bool(statement.subgroups)}is read from the holdout without noise, "
            "which ends its privacy. A holdout with a numeric epsilon "
            "or calibration='zhao2017' reports proven rows only, of one target. The holdout "
            "was not queried."
        )


def _check_support(measure, model, X, y, *, counts):
    """Raise an error if a measure does not support a model and the holdout's types.

    ``counts``: whether counts of the closed holdout are read, which need no classes.
    """
    metric = measure.metric
    check_model_supports(measure, model)
    if metric.is_ratio and y.ndim != 1:
        raise ValueError(f"scoring={measure.name!r} needs one label for each record.")
    rows = X
    if isinstance(model, PrecomputedPredictions):
        rows = np.arange(len(y))[:, None]
    else:
        check_schema(model, X, y)
    if isinstance(metric, BoundedMetric) and not (metric.is_ratio and counts):
        metric.check_input(model, rows, y)


def _dry_run(measure, model, X, y, is_training, *, uneven):
    """Run a model and a metric on placeholder records.

    ``is_training``: whether they are training records. A model may be unable to predict other
    records and raise :class:`ValueError`. ``uneven``: whether records will have weights.
    """
    classes = getattr(model, "classes_", None)
    if not is_training and classes is not None and np.ndim(classes) == 1:
        y = np.resize(np.asarray(classes), np.shape(y))
    weights = np.linspace(0.5, 1.0, len(y)) if uneven else np.ones(len(y))
    predicts = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records = ScoredRecords(X, y, {"": model})
            model_copy, rows = records.model_and_data("")
            if hasattr(model_copy, "predict"):
                model_copy.predict(rows)
            predicts = True
            if isinstance(measure.metric, BoundedMetric):
                measure.metric.check_training(model_copy, rows, y)
            score = compute_score(measure, records, "", weights)
        if np.ndim(score) != 0:
            raise TypeError(f"a score must be one number, got shape {np.shape(score)}")
    except ScoreContractError:
        raise
    except Exception as raised:
        # The scorer's own exception; these records are public.
        error = raised.__cause__ if isinstance(raised, UndefinedScore) else raised
        if not is_training and _is_due_to_placeholders(error, predicts):
            return
        weighted = "sample_weight" in str(error)
        raise ValueError(
            f"{measure.name} of {type(model).__name__} fails on records made to try it: "
            f"{type(error).__name__}: {str(error).rstrip('.')}. "
            + "Scores of groups need sample_weight, or per='record'. " * weighted
            + "The holdout was not queried."
        ) from error


def _is_due_to_placeholders(error, predicts):
    """Return whether an error is about placeholder records and not about a model or a metric.

    A model may be unable to predict them. They are all equal, and no line fits them.
    """
    if not predicts and isinstance(error, ValueError | KeyError):
        return True
    return isinstance(error, np.linalg.LinAlgError)


def _placeholder_records(holdout, training):
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


# -- moments of training units --------------------------------------------------------------------


def with_estimated_moments(plan: Plan, training: Any, variance: float | None, holdout: Any) -> Plan:
    """Return the plan with the moments that bets use: from training folds, else a default.

    ``training``: training records passed by the caller. ``variance``: of a record's
    cross-validated score in the first row, from a search. A search's own records are
    cross-validated again if that is not enough: for differences, several models, and metrics that
    the search did not rank by.
    """
    betting = [
        statement
        for statement in plan.statements
        if statement.proven in (*UNIT_INTERVALS, CLASSES, RECALLS)
    ]
    training_data = None if training is None else CVData(*training)
    if training_data is None and not (variance and betting == plan.statements[:1]):
        training_data = holdout.context.cv_data
    scored_folds = None
    if betting and training_data is not None:
        scored_folds = _out_of_fold_records(plan, training_data)
    statements = [
        _with_expected_moments(statement, plan, holdout, scored_folds, variance)
        for statement in plan.statements
    ]
    return dataclasses.replace(plan, statements=statements)


def _with_expected_moments(statement, plan, holdout, scored_folds, variance):
    """Return a statement with the moments that its proof uses; ``variance``: of the first row."""
    first = plan.statements[0]
    if statement.proven == PAST:
        is_scored = statement.models == first.models and statement.measure is first.measure
        moments = past_moments(statement, plan, holdout, variance if is_scored else None)
        return dataclasses.replace(statement, moments=moments)
    if statement.recalls:
        n_units = holdout.dependence.sampling_scheme(holdout.n).n_units
        beta = holdout.account.settings.beta
        return _with_recalls(statement, plan, scored_folds, n_units, beta)
    if statement.proven == CLASSES:
        return _with_auc_moments(statement, plan, scored_folds)
    return _with_moments(statement, plan, scored_folds, variance if statement is first else None)


def _with_moments(statement, plan, scored_folds, variance=None):
    """Return a statement with the moments of training units, if bets use them."""
    if statement.proven not in UNIT_INTERVALS:
        return statement
    moments = _default_moments(statement, plan)
    if variance is not None and variance > 0.0:
        moments = moments._replace(variance=max(variance, 1e-4))
    max_difference = 1.0
    if scored_folds is not None and not _has_predictions(statement, plan):
        # Default moments are valid, too: folds may have no unit of a row, or no score.
        with contextlib.suppress(ValueError, UndefinedScore):
            moments, max_difference = _out_of_fold_moments(statement, plan, *scored_folds)
    return dataclasses.replace(statement, moments=moments, max_difference=max_difference)


def _with_auc_moments(statement, plan, scored_folds):
    """Return a statement on ROC AUC with the moments of placements."""
    moments = AucMoments.default(None if statement.expected == 0.5 else statement.expected)
    if scored_folds is not None and not _has_predictions(statement, plan):
        # Default moments are valid, too: folds may lack a class, or have no score.
        with contextlib.suppress(ValueError, UndefinedScore):
            moments = _out_of_fold_auc_moments(statement, scored_folds[0])
    return dataclasses.replace(statement, moments=moments)


def _out_of_fold_auc_moments(statement, folds):
    """Return the moments of placements of training records out of fold."""
    metric = statement.measure.metric
    scores_by_fold = []
    for records, _ in folds:
        model, X = records.model_and_data(statement.models[0])
        by_class = metric.evaluate(model, X, records.y).by_class
        if by_class is not None:  # not constant by construction
            scores_by_fold.append(scores_by_class(by_class, np.arange(len(records.y))))
    return AucMoments.from_folds(scores_by_fold)


def _with_recalls(statement, plan, scored_folds, n_units, alpha):
    """Return a statement on a mean over classes with the moments of its recalls.

    Without its recalls if the training records expect narrower limits of the mean itself.
    """
    recalls = tuple(_with_moments(recall, plan, scored_folds) for recall in statement.recalls)
    if statement.proven == RECALLS:
        return dataclasses.replace(statement, recalls=recalls)
    if scored_folds is None or _has_predictions(statement, plan):
        return dataclasses.replace(statement, recalls=())
    expected_widths = []
    floors = []
    values = []
    # Folds may lack a class, or have no score: the mean itself then.
    with contextlib.suppress(ValueError, UndefinedScore):
        for recall in recalls:
            moments, _ = _out_of_fold_moments(recall, plan, *scored_folds)
            floors.append(max(1, round(n_units * moments.mean_count)))
            values.append(moments.center)
            expected_widths.append(
                _expected_width(recall.proven, moments, n_units, alpha / len(recalls))
            )
        tail = ClassMeansTail(tuple(floors))
        mean_half_width = half_width_at(tail, float(np.mean(values)), math.log(0.5 * alpha))
        if 0.5 * np.mean(expected_widths) < mean_half_width:
            return dataclasses.replace(statement, recalls=recalls)
    return dataclasses.replace(statement, recalls=())


def _expected_width(method, moments, n_units, alpha):
    """Return the width of the limits of a recall if the holdout is like the training records."""
    if method == COUNTS:
        count = max(1, round(n_units * moments.mean_count))
        lower, upper = clopper_pearson_interval(
            round(count * moments.center), count, min(alpha, 0.5)
        )
        return upper - lower
    error = math.sqrt(moments.variance / n_units) / moments.mean_count
    return 2.0 * _BET_EXCESS * norm.isf(0.5 * alpha) * error


def _default_moments(statement, plan):
    """Return the moments of binary scores with the cross-validated value as their mean."""
    center = min(max(statement.expected, 0.01), 0.99)
    count = 1.0
    metric: Any = statement.measure.metric
    if metric.is_ratio and plan.y is not None:
        prevalence = float(np.mean(is_label(np.ravel(plan.y), statement.measure.positive)))
        count = metric.expected_denominator(prevalence)
    count = max(count if count > 0.0 else 0.5, 0.01) / (
        len(plan.masks) if statement.subgroups else 1
    )
    spread = center * (1.0 - center) / len(statement.models) ** 2
    return UnitMoments(center, max(spread, 0.0025) * count, count)


def _has_predictions(statement, plan):
    """Return whether a statement is about precomputed predictions, which have no folds."""
    return any(isinstance(plan.models[name], PrecomputedPredictions) for name in statement.models)


class _CannotRefitError(Exception):
    """A model of the user cannot be fitted on other records."""


def _refit(model, X, y):
    """Return a clone of a model that is fitted on other records."""
    try:
        return clone(model).fit(X, y)
    except Exception as error:  # of the user's model
        raise _CannotRefitError from error


def training_folds(training_data: CVData, models: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return training and test records of each fold, as positions in the training data.

    The third element holds the positions of the test records among the rows of the folds. Without
    folds of a search there are five. Empty if the records are too few for them.
    """
    rows = training_data.rows
    rows = np.arange(num_samples(training_data.y)) if rows is None else np.asarray(rows)
    folds = training_data.folds
    if not folds:
        y = safe_indexing(training_data.y, rows)
        splitter = check_cv(5, y, classifier=is_classifier(next(iter(models.values()))))
        splitter = splitter if training_data.groups is None else GroupKFold(5)
        try:
            folds = list(splitter.split(rows, y, training_data.groups))
        except ValueError:  # fewer records, groups or members of a class than folds
            return []
    return [(rows[train], rows[test], test) for train, test in folds]


def models_of_fold(
    training_data: CVData, models: Mapping[str, Any], train: Any
) -> dict[str, Any] | None:
    """Return clones of models fitted on some training records; None if one cannot be fitted."""
    X_train = safe_indexing(training_data.X, train)
    y_train = safe_indexing(training_data.y, train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {name: _refit(model, X_train, y_train) for name, model in models.items()}
        except _CannotRefitError:
            return None


def _out_of_fold_records(plan, training_data):
    """Return the test records of each fold with models fitted on its training records, and groups.

    None if a model cannot be fitted again: default moments are valid, too.
    """
    models = {
        name: model
        for name, model in plan.models.items()
        if not isinstance(model, PrecomputedPredictions)
    }
    scored_folds = _scored_folds(models, training_data) if models else []
    return (scored_folds, training_data.groups) if scored_folds else None


def _scored_folds(models, training_data):
    """Return the test records of each fold with its models, and the positions of the records.

    Empty if a model cannot be fitted again.
    """
    scored_folds = []
    for train, test, test_in_rows in training_folds(training_data, models):
        fitted = models_of_fold(training_data, models, train)
        if fitted is None:
            return []
        X_test = safe_indexing(training_data.X, test)
        y_test = safe_indexing(training_data.y, test)
        scored_folds.append((ScoredRecords(X_test, y_test, fitted), test_in_rows))
    return scored_folds


def _out_of_fold_moments(statement, plan, scored_folds, groups):
    """Return moments of training units out of fold and the largest difference that counts."""
    sums_and_counts = [
        np.concatenate(
            [records.contributions(statement.measure, name) for records, _ in scored_folds], axis=1
        )
        for name in statement.models
    ]
    sums, counts = sums_and_counts[0]
    max_difference = 1.0
    if len(sums_and_counts) == 2:
        gap = sums_and_counts[1][0] - sums
        max_difference = _largest_difference(gap, statement.measure.metric)
        sums = 0.5 * (counts + np.clip(gap / max_difference, -1.0, 1.0))
    order = np.concatenate([test for _, test in scored_folds])
    unit_labels = order if groups is None else np.asarray(groups)[order]
    units = np.unique(unit_labels, return_inverse=True)[1]
    weights = 1.0 / np.bincount(units)[units] if plan.per == "unit" else np.ones(len(units))
    center, variance, count = unit_moments(
        np.bincount(units, weights * sums), np.bincount(units, weights * counts)
    )
    # All subgroups are assumed to have the same size.
    fraction = 1.0 / len(plan.masks) if statement.subgroups else 1.0
    return UnitMoments(center, fraction * variance, fraction * count), max_difference


def _largest_difference(differences, metric):
    """Return the largest difference that counts, by those of training records: at most 1."""
    if metric.is_binary:
        return 1.0
    largest = float(np.quantile(np.abs(differences), _GAP_QUANTILE))
    return min(1.0, _GAP_EXCESS * largest) or 1.0
