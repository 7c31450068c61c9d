"""The plan of a final report: its statements and their expected moments, before closing.

Closing is irreversible. Therefore metrics × models × dependence are checked first, and models and
metrics are tried on placeholder records, while the holdout is open and before any model is scored
on it. Expected moments of sampling units may come from training records, by cross-validation or, in
time, from earlier dates: any moments are valid, accurate ones give narrow intervals (theory G28).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import secrets
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.metrics.base import BoundedMetric, as_labels, check_schema
from sklearn_bdp.metrics.error_clips import ErrorClips, has_undeclared_range
from sklearn_bdp.metrics.proofs import (
    CLASS_MEANS,
    CLASSES,
    COUNTS,
    PAST,
    RECALLS,
    UNIT_INTERVALS,
    dependence_of_scheme,
)
from sklearn_bdp.metrics.scoring import get_metric
from sklearn_bdp.release.context import CVData, PastRecords
from sklearn_bdp.release.query_batch import check_cv_score
from sklearn_bdp.report.by_class import AucMoments, scores_by_class
from sklearn_bdp.report.in_time import (
    RefitSchedule,
    align_predictions,
    is_forecast_keyword,
    make_refit_schedule,
    naive_forecast,
    past_horizon,
    past_moments,
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
    named_metrics,
    resolve_measure,
)
from sklearn_bdp.utils.hashing import object_digest, pickle_digest
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.utils.validation import check_boolean, check_option, is_missing

_MAX_SUBGROUPS = 20  # of one column
_MAX_COLUMNS = 20  # columns of X that a message names
_MAX_DRY_RUN_RECORDS = 32  # most training records that every model and metric is tried on
#: Differences of two models are clipped at this quantile of their absolute values on training
#: records, times a factor.
_DIFFERENCE_QUANTILE = 0.999
_DIFFERENCE_FACTOR = 1.1
_BETTING_WIDTH_RATIO = 1.2  # width of a betting interval over that of a normal approximation
_DEFAULT_MOMENTS = UnitMoments(0.5, 0.25, 1.0)  # any moments are valid (theory G28)

#: Suffix of the method of a gap: each of its two subgroups has half of the failure probability.
_GAP_SUFFIX = ", half the level for each subgroup"


def dependence_of(holdout: Any) -> str:
    """Return the dependence of the holdout records, as :mod:`sklearn_bdp.metrics.proofs` names it.

    Names such as "records" or "stratified groups" state which units are independent, if any, and
    whether they are identically distributed.
    """
    dependence = dependence_of_scheme(holdout.dependence.sampling_scheme(holdout.n))
    # A split that reads the targets fixes counts of classes: units are not identically distributed.
    if dependence in ("records", "groups") and holdout.notes(SystemNote.STRATIFIED):
        return "stratified" if dependence == "records" else "stratified groups"
    return dependence


class Quantity(NamedTuple):
    """Name of the quantity that a row estimates, and the ends of its range in score units.

    The ends are meaningless for skill scores and for metrics without a range.
    """

    name: str
    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """Quantity that one row of a report estimates, and the method of its proven interval."""

    models: tuple[str, ...]  # names: of one model, or of a baseline and the model compared with it
    measure: Measure
    #: Names: none for all records, one subgroup, or two for their gap, the second minus the first.
    subgroups: tuple[str, ...] = ()
    proven: str = ""  # method of the proven interval, one of `metrics.proofs`; empty without one
    #: Expected moments, for proven limits: UnitMoments of units or dates, AucMoments of ROC AUC.
    moments: Any = _DEFAULT_MOMENTS
    difference_clip: float = 1.0  # larger differences, in units of [0, 1], are clipped to it
    forecast_horizon: int = 1  # dates from the conditioning date to the score (theory G26)
    skill: bool = False  # whether it is a skill score: 1 - the ratio of losses
    #: Cross-validated score in [0, 1]; of two models half of 1 plus their difference. 0.5 if it is
    #: not known.
    expected: float = 0.5
    #: Of a mean over classes: the recall of each class, if their limits may prove the row.
    recalls: tuple[Statement, ...] = ()

    def in_subgroup(self, name: str) -> Statement:
        """Return this statement and its recalls for the records of the subgroup ``name`` only."""
        recalls = tuple(recall.in_subgroup(name) for recall in self.recalls)
        return dataclasses.replace(self, subgroups=(name,), recalls=recalls)

    @property
    def method(self) -> str:
        """Return the method of the proven interval in words; empty without one."""
        if self.recalls:
            return f"{self.recalls[0].proven} for each class"
        if self.proven == CLASSES and not _is_auc(self.measure.metric):
            return CLASS_MEANS
        return self.proven

    @property
    def quantity(self) -> Quantity:
        """Return the name of the estimated quantity and the ends of its range in score units.

        A skill score has the name and ends of the difference of its models.
        """
        low, high = map(float, self.measure.score_range)
        if len(self.models) == 2 or len(self.subgroups) == 2:
            return Quantity(f"difference of {self.measure.name}", low - high, high - low)
        return Quantity(self.measure.name, low, high)

    def identity(self) -> list[Any]:
        """Return the fields that identify a statement, in JSON."""
        return [
            self.models,
            self.subgroups,
            self.measure.name,
            repr(self.measure.metric),
            repr(self.measure.pos_label),
            self.proven,
            self.forecast_horizon,
            self.skill,
        ]

    def row(self, n_units: int) -> dict[str, Any]:
        """Return the row of a report, in JSON, with its results still empty.

        ``n_units``: number of holdout units.
        """
        separator = " against " if self.skill else " minus "
        metric_name = self.measure.name
        method = self.method
        if self.proven and len(self.subgroups) == 2:
            method += _GAP_SUFFIX
        pos_label = self.measure.pos_label
        return {
            "model": separator.join(self.models[::-1]),
            "metric": f"skill score ({metric_name})" if self.skill else metric_name,
            "subgroup": " minus ".join(self.subgroups[::-1]),
            "value": None,
            "proven": None,
            "approximate": None,
            "parts": [],
            "notes": [],
            "method": method,
            "positive": "" if pos_label is None else str(pos_label),
            "n_units": n_units,
            "n_events": None,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Contents of a report, fixed before any model is scored on the holdout."""

    models: dict[str, Any]  # by name: models, or PrecomputedPredictions such as WalkForward
    statements: list[Statement]
    #: By subgroup, or by the complement of one: 1.0 for its records, 0.0 for others, shape (n,).
    masks: dict[str, Any]
    dependence: str  # as `metrics.proofs` name it
    per: str  # "unit" or "record": what each score is a mean over
    baseline: str | None  # name of the model that others are compared with; None without one
    max_group_records: float  # most records of a group that count with per="record"; else 1
    #: Whether a level of privacy is declared, so that all rows pass through noise. If False, rows
    #: are read from the closed holdout.
    is_private: bool
    joint: bool  # whether the intervals of a family are valid simultaneously (theory G32)
    order_bits: str  # secret hex text in the ledger header, for the secret order of units
    #: Training targets, or an array with their classes or range; None if they are unknown.
    y_train: Any = None
    past_records: PastRecords | None = None  # in time, those before the holdout, if known
    refit: RefitSchedule | None = None  # None: the models are not refitted
    #: In time, the largest errors that count if no range was declared. None if records are not in
    #: time, if no metric has such errors, or if clips could not be computed.
    error_clips: ErrorClips | None = None

    @property
    def classes(self) -> list[Any] | None:
        """Classes of the first model that has some; None if no model has classes."""
        for model in self.models.values():
            classes = classes_of(model, None)
            if classes:
                return classes
        return None

    @property
    def training_mean(self) -> float | None:
        """Mean of the targets before the holdout, about which R² is computed in time.

        None without earlier records, for several outputs, and for targets that are not numbers.
        """
        if self.past_records is None:
            return None
        y = np.asarray(self.past_records.y)
        return float(y.mean()) if y.ndim == 1 and y.dtype.kind in "iuf" else None

    @property
    def event_class(self) -> Any:
        """Class whose records are events, the same for all rows; None without such a class.

        It is the positive class if all metrics with one have the same, else the last class if there
        are two.
        """
        classes = self.classes
        if classes is None and self.y_train is not None:
            y_train = np.asarray(self.y_train)
            classes = np.unique(y_train).tolist() if y_train.dtype.kind in "OUSb" else None
        counted_classes = {statement.measure.pos_label for statement in self.statements} - {None}
        if len(counted_classes) == 1:
            return next(iter(counted_classes))
        return classes[-1] if classes is not None and len(classes) == 2 else None

    @property
    def n_proven(self) -> int:
        """Number of statements with a proven interval."""
        return sum(bool(statement.proven) for statement in self.statements)

    @property
    def caveats(self) -> list[str]:
        """Additional assumptions of the statements, as sorted texts."""
        caveats = {statement.measure.metric.caveat for statement in self.statements}
        if self.dependence in ("records", "groups") and self.n_proven:
            caveats.add(
                f"holdout {self.dependence} were drawn alike, not stratified by their targets"
            )
        return sorted(filter(None, caveats))

    def n_rounds(self) -> int:
        """Return the number of corrected answers that a budget must allow for all proven rows.

        Class proportions that pass through the noise are included.
        """
        if not self.is_private:  # counts of classes are read without noise
            return self.n_proven
        n_proportions = 0
        for statement in self.statements:
            metric = statement.measure.metric
            if statement.proven == CLASSES and metric is not None:
                n_proportions += len(metric.expected_shape(1).classes or (0, 1))
        return self.n_proven + n_proportions

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify a report, in JSON.

        The list ``code`` has digests of the content of all models, then of metrics and scorers that
        the caller defined. An object without readable content gets a random digest. The key
        ``joint`` is present only if it is False.
        """
        model_hashes = []
        code_digests = []
        for name, model in self.models.items():
            content = _content_of_model(model)
            code_digest = _digest_or_random(content)
            code_digests.append(code_digest)
            try:
                model_hashes.append([name, pickle_digest(content, hash_name="md5")])
            except Exception:  # content of a class that pickle cannot name
                model_hashes.append([name, code_digest])
        for statement in self.statements:
            user_code = _user_code(statement.measure.metric)
            if user_code is not None:
                code_digests.append(_digest_or_random(user_code))
        identity: dict[str, Any] = {
            "models": model_hashes,
            "statements": [statement.identity() for statement in self.statements],
            "refit": None if self.refit is None else self.refit.frequency,
            "subgroups": {
                name: pickle_digest(mask, hash_name="md5") for name, mask in self.masks.items()
            },
            "per": self.per,
            "code": code_digests,
        }
        if not self.joint:
            identity["joint"] = False
        return identity


def _digest_or_random(content):
    """Return a digest of an object's content, or random hex text if the content cannot be read."""
    return object_digest(content) or secrets.token_hex(16)


def _user_code(metric):
    """Return the object of a metric that may contain code of the caller; None without one.

    It is the scorer of a :class:`ScorerMetric`, or a metric that the caller defined.
    """
    if isinstance(metric, ScorerMetric):
        return metric.scorer
    return metric if metric.is_of_caller else None


def _content_of_model(model):
    """Return a model itself; for precomputed predictions, their keyword or else their values."""
    if not isinstance(model, PrecomputedPredictions):
        return model
    return model.values if model.keyword is None else model.keyword


def make_report_plan(
    holdout, estimators, cv_scores, *, scoring, compare, by, per, training, joint, refit_every=None
):
    """Return the :class:`Plan` of a report, or raise an error if a row cannot be reported.

    ``estimators``, ``scoring``, ``compare``, ``by``, ``per``, ``joint`` and ``refit_every`` are the
    arguments of ``ReusableHoldout.final_report``. ``cv_scores``: a cross-validated score of the
    first metric in score units for each model, or one for all; None or NaN if unknown.
    ``training``: the training records as ``(X, y)`` or ``(X, y, groups)``, or None.
    """
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    is_private = holdout.account.settings.is_private
    _check_joint(joint, is_private)
    y_train = training_targets_of(holdout, training)
    past_records = _records_before(holdout, training, scheme)
    resolved = _resolve_models(
        estimators, cv_scores, compare, refit_every, holdout, y_train, past_records
    )
    masks, subgroups_per_row = _subgroups(holdout, by)
    measures = _resolve_metrics(scoring, resolved.models, y_train, holdout)
    error_clips = None
    if scheme.calendar is not None:
        error_clips = _error_clips(holdout, resolved.models, measures, training, past_records)
        measures = _with_clips(measures, error_clips)
    dependence = dependence_of(holdout)
    per = _resolve_per(per, measures, dependence, is_private)
    statements = _unproven_statements(measures, subgroups_per_row, resolved.baseline, scheme)
    statements = [
        _with_expected_value(statement, resolved.cv_score_by_model_name, measures[0])
        for statement in statements
    ]
    if scheme.calendar is not None:
        statements = list(map(_without_clip, statements))
    statements = [
        _with_proof(statement, resolved.models, y_train, dependence, per, is_private=is_private)
        for statement in statements
    ]
    max_group_records = 1.0
    if per == "record" and not is_private:
        max_group_records = _max_group_records(holdout, training, dependence)
    plan = Plan(
        models=resolved.models,
        statements=_at_all_horizons(statements, scheme),
        refit=resolved.refit,
        masks=masks,
        per=per,
        baseline=resolved.baseline,
        is_private=is_private,
        joint=joint,
        order_bits=holdout.notes(SystemNote.ORDER)[0],
        y_train=y_train,
        dependence=dependence,
        past_records=past_records,
        error_clips=error_clips,
        max_group_records=max_group_records,
    )
    _check_plan(plan, holdout, training)
    return plan


def _check_joint(joint, is_private):
    """Raise ValueError if ``joint`` is False and rows pass through noise (``is_private``).

    Raise TypeError if ``joint`` is not a Boolean.
    """
    if not check_boolean("joint", joint) and is_private:
        raise ValueError(
            "joint=False is not available with a numeric epsilon or calibration='zhao2017': rows "
            "that pass through the noise hold together. The holdout was not queried."
        )


def _resolve_metrics(scoring, models, y_train, holdout):
    """Return a list with one dict for each metric: its :class:`Measure` by name of the model.

    ``scoring``: one or several metrics, or None for the default one. ``models``: dict by name.
    ``y_train``: training targets; None if unknown.
    """
    n_outputs = len(np.atleast_1d(as_labels(holdout.y)[0]))
    return [
        _resolve_metric(
            metric,
            models,
            y_train,
            n_outputs=n_outputs,
            is_private=holdout.account.settings.is_private,
            name=name,
        )
        for name, metric in named_metrics(scoring)
    ]


def _with_clips(measures, error_clips):
    """Return a list of dicts of measures by model name, with clips of errors without a range.

    ``measures``: such a list without clips, one dict per metric. ``error_clips``: clips, or None to
    leave the measures unchanged.
    """
    return [
        {
            model_name: with_clips(measure, error_clips)
            for model_name, measure in measure_by_model_name.items()
        }
        for measure_by_model_name in measures
    ]


def _resolve_per(per, measures, dependence, is_private):
    """Return ``"unit"`` or ``"record"``: what each score is a mean over.

    ``per``: the caller's choice, ``"record"`` or None. For None the result is ``"unit"``, but
    ``"record"`` if a mean over records of groups passes through noise. ``measures``: for each
    metric, a dict of its measure by model name.
    """
    if per is not None:
        check_option("per", per, ("record",))
        return per
    has_mean = any(
        measure.metric.is_mean
        for measure_by_model_name in measures
        for measure in measure_by_model_name.values()
    )
    if is_private and "groups" in dependence and has_mean:
        return "record"  # noise is added to means over records
    return "unit"


def _records_before(holdout, training, scheme):
    """Return the :class:`PastRecords` that the holdout knows, else make them from ``training``.

    Training records get one date each, -1 for the last of them. None if neither are known, or if
    the holdout is not in time.
    """
    past_records = holdout.context.past_records
    if scheme.calendar is None or training is None or past_records is not None:
        return past_records
    dates = np.arange(-num_samples(training[1]), 0)  # in time order
    return PastRecords(training[0], training[1], dates)


def _unproven_statements(measures, subgroups_per_row, baseline, scheme):
    """Return a list of statements: on models, then on their subgroups, then on comparisons.

    ``measures``: for each metric, a dict of its measure by model name. ``subgroups_per_row``: list
    of tuples of one subgroup, or of two whose scores are compared. ``baseline``: name of the model
    that others are compared with; None without comparisons.
    """
    statements = [
        Statement(models=(model_name,), measure=measure)
        for measure_by_model_name in measures
        for model_name, measure in measure_by_model_name.items()
    ]
    statements += [
        Statement(models=(model_name,), measure=measure, subgroups=subgroups)
        for measure_by_model_name in measures
        for model_name, measure in measure_by_model_name.items()
        for subgroups in subgroups_per_row
    ]
    if baseline is not None:
        for measure_by_model_name in measures:
            statements += _comparisons(
                measure_by_model_name, baseline, is_by_date=scheme.calendar is not None
            )
    return statements


def _comparisons(measure_by_model_name, baseline, *, is_by_date):
    """Return a list of statements on differences from a baseline, and on skill scores.

    ``measure_by_model_name``: measures of one metric. ``baseline``: name of one of the models.
    Skill scores are added for losses if units are dates (``is_by_date``). Raise ValueError if a
    model has another metric than the baseline.
    """
    statements = []
    baseline_metric_name = measure_by_model_name[baseline].name
    for model_name, measure in measure_by_model_name.items():
        if measure.name != baseline_metric_name:
            raise ValueError(
                f"compare needs one metric for all models, got {baseline_metric_name} and "
                f"{measure.name}. Give all models the same scoring."
            )
        if model_name == baseline:
            continue
        models = (baseline, model_name)
        statements.append(Statement(models=models, measure=measure))
        if is_by_date and measure.metric.is_loss:
            statements.append(Statement(models=models, measure=measure, skill=True))
    return statements


def _without_clip(statement):
    """Return a statement without the clip of its errors if it compares models and needs none.

    Other statements stay the same.
    """
    if len(statement.models) == 1:
        return statement
    measure = without_clip(statement.measure, skill=statement.skill)
    return dataclasses.replace(statement, measure=measure)


def _at_all_horizons(statements, scheme):
    """Return each statement for the horizon of 1 date and for the declared horizon, in dates.

    Statements stay the same if the declared horizon is 1, or if records are not in time.
    """
    horizon = past_horizon(scheme)
    if horizon == 1:
        return statements
    return [
        dataclasses.replace(statement, forecast_horizon=forecast_horizon)
        for statement in statements
        for forecast_horizon in (1, horizon)
    ]


def _with_expected_value(statement, cv_score_by_model_name, ranking_measure_by_model_name):
    """Return a statement with its cross-validated score, rescaled to [0, 1], as expected value.

    Statements on subgroups, on another metric than that of ``ranking_measure_by_model_name``, on
    models without a cross-validated score, and on metrics that are neither ratios of sums nor ROC
    AUC stay the same. ``cv_score_by_model_name``: scores in score units.
    """
    ranking_metric_name = ranking_measure_by_model_name[statement.models[-1]].name
    has_cv_scores = (
        statement.measure.name == ranking_metric_name
        and not statement.subgroups
        and cv_score_by_model_name.keys() >= set(statement.models)
    )
    if not has_cv_scores or not (
        statement.measure.is_ratio_of_sums or _is_auc(statement.measure.metric)
    ):
        return statement
    cv_scores = [float(cv_score_by_model_name[name]) for name in statement.models]
    unit_scores = cv_scores  # ratios and ROC AUC are in [0, 1]
    if statement.measure.is_mean:
        metric = statement.measure.metric
        unit_scores = [check_cv_score(metric, cv_score) for cv_score in cv_scores]
    unit_scores = np.clip(unit_scores, 0.0, 1.0).tolist()
    if len(unit_scores) == 1:
        return dataclasses.replace(statement, expected=unit_scores[0])
    baseline_score, model_score = unit_scores
    return dataclasses.replace(statement, expected=0.5 * (model_score - baseline_score + 1.0))


def _with_proof(statement, models, y_train, dependence, per, *, is_private):
    """Return a statement with the method of its proven interval, if there is one.

    A proven mean over classes may also get statements on its recalls. Skill scores stay the same.
    ``models``: dict by name. ``y_train``: training targets or None. ``dependence``: a name that
    :func:`dependence_of` returns. ``per``: ``"unit"`` or ``"record"``, what the score is a mean
    over. ``is_private``: whether rows pass through noise.
    """
    if statement.skill:
        return statement
    proven = statement.measure.metric.proof(
        dependence,
        is_difference=len(statement.models) == 2,
        in_subgroup=bool(statement.subgroups),
        is_private=is_private,
    )
    if proven == CLASSES and per == "record" and "groups" in dependence:
        proven = ""  # G19 is about a random record of a random group
    statement = dataclasses.replace(statement, proven=proven)
    if proven not in (CLASSES, RECALLS) or is_private:
        return statement
    recalls = _recall_statements(statement, models, y_train, dependence)
    return dataclasses.replace(statement, recalls=recalls)


def _is_auc(metric):
    """Return whether a metric is a mean over pairs of a positive and a negative record."""
    return isinstance(metric, BoundedMetric) and metric.expected_shape(1).kind == "pairs"


def _recall_statements(statement, models, y_train, dependence):
    """Return a tuple of statements on the recall of each class.

    Without training targets, classes are those of both models of a difference. The result is empty
    for a mean over pairs of records, and if the classes are not known. ``models``: dict by name.
    ``y_train``: training targets or None. ``dependence``: a name that :func:`dependence_of`
    returns.
    """
    metric = statement.measure.metric
    if metric.expected_shape(1).kind == "pairs":
        return ()
    model_of_class: dict[Any, Any] = {}
    for model_name in statement.models[::-1]:
        model = models[model_name]
        classes = metric.classes if metric.class_counts else classes_of(model, y_train)
        model_of_class = dict.fromkeys(classes or (), model) | model_of_class
    recall_statements = []
    for label, model in model_of_class.items():
        recall_metric = get_metric("recall", estimator=model, y=y_train, pos_label=label)
        proven = recall_metric.proof(dependence, is_difference=len(statement.models) == 2)
        measure = Measure(name=recall_metric.name, metric=recall_metric, pos_label=label)
        recall_statements.append(
            Statement(
                models=statement.models,
                measure=measure,
                subgroups=statement.subgroups,
                proven=proven,
            )
        )
    return tuple(recall_statements)


def _resolve_metric(scoring, models, y_train, *, n_outputs, is_private, name):
    """Return a dict of the :class:`Measure` of one metric by name of the model.

    ``scoring``: one metric, or None for the default one. ``models``: dict by name. ``y_train``:
    training targets or None. ``n_outputs``: number of outputs of the targets. ``is_private``:
    whether rows pass through noise. ``name`` replaces the metric's own name unless it is None.
    """
    # Predictions have no default metric: they get that of the first fitted model, or accuracy.
    fitted_models = [
        model for model in models.values() if not isinstance(model, PrecomputedPredictions)
    ]
    if not scoring:
        scoring = None if fitted_models else "accuracy"
    measure_by_model_name = {}
    for model_name, model in models.items():
        uses_default = scoring is None and isinstance(model, PrecomputedPredictions)
        resolving_model = fitted_models[0] if fitted_models and uses_default else model
        measure = resolve_measure(scoring, resolving_model, y_train, n_outputs=n_outputs)
        if is_private:
            measure = _with_query_metric(measure, model, y_train)
        if name is not None:
            measure = dataclasses.replace(measure, name=name)
        measure_by_model_name[model_name] = measure
    return measure_by_model_name


def _with_query_metric(measure, model, y_train):
    """Return a measure with the metric by which a search queries it, which noise can be added to.

    Measures other than ratios, and ratios that a search cannot query, stay the same. ``y_train``:
    training targets or None.
    """
    metric = measure.metric
    if not (metric.is_ratio and metric.can_rank):
        return measure
    query_metric = get_metric(metric.name, estimator=model, y=y_train, pos_label=measure.pos_label)
    return dataclasses.replace(measure, metric=query_metric)


# -- models, baselines, subgroups -----------------------------------------------------------------


class _ResolvedModels(NamedTuple):
    """Models and baseline of a report by their names in its rows."""

    models: dict[str, Any]  # by name
    baseline: str | None  # name of the model that others are compared with; None without one
    refit: RefitSchedule | None  # None: the models are not refitted
    cv_score_by_model_name: dict[str, float]  # in score units; models without a score are absent


def _resolve_models(estimators, cv_scores, compare, refit_every, holdout, y_train, past_records):
    """Return the checked models and predictions of a report as :class:`_ResolvedModels`.

    ``estimators``: a model, predictions, or several of them in a list or by name. ``cv_scores``:
    one score for all of these or one for each, in score units; None or NaN if unknown. ``compare``
    and ``refit_every``: arguments of ``ReusableHoldout.final_report``. ``y_train``,
    ``past_records``: training targets and :class:`PastRecords`; None if unknown.
    """
    named_models = _models_by_name(estimators)
    names_with_scores = list(named_models)
    baseline, named_models = _with_baseline(named_models, compare, holdout, y_train, past_records)
    aligned_models = {
        name: align_predictions(name, model, holdout) for name, model in named_models.items()
    }
    checked_models = {
        name: checked_model(name, model, holdout.X, holdout.y, y_train)
        for name, model in aligned_models.items()
    }
    cv_score_by_model_name = _cv_scores_by_name(cv_scores, names_with_scores)
    refit = None if refit_every is None else make_refit_schedule(holdout, refit_every, past_records)
    row_name_by_name = {}
    for name, model in checked_models.items():
        is_refitted = refit is not None and not isinstance(model, PrecomputedPredictions)
        row_name_by_name[name] = f"{name}, refitted {refit.frequency}" if is_refitted else name
    return _ResolvedModels(
        models={row_name_by_name[name]: model for name, model in checked_models.items()},
        baseline=row_name_by_name.get(baseline),
        refit=refit,
        cv_score_by_model_name={
            row_name_by_name[name]: cv_score for name, cv_score in cv_score_by_model_name.items()
        },
    )


def _models_by_name(estimators):
    """Return a dict of models and predictions by name.

    ``estimators``: a mapping, a list, a single model or predictions. A list of scalars is the
    predictions of one model. Raise ValueError if there is no model.
    """
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


def _with_baseline(named_models, compare, holdout, y_train, past_records):
    """Return the name of the baseline, or None, and a dict by name of all models including it.

    ``compare``: argument of ``ReusableHoldout.final_report``. ``y_train``, ``past_records``: None
    if unknown. Raise ValueError if ``compare`` names no model or if there is only one model.
    """
    if compare is None or compare is False:
        return None, named_models
    if compare is True:
        baseline = next(iter(named_models))
    elif isinstance(compare, str):
        baseline = compare
        if compare not in named_models and is_forecast_keyword(compare):
            repeated_targets = naive_forecast(
                compare, holdout, past_records, classes_of(None, y_train)
            )
            named_models = {**named_models, compare: repeated_targets}
    else:
        baseline = _default_name(compare, "baseline")
        baseline += " (baseline)" * (baseline in named_models)
        named_models = {**named_models, baseline: compare}
    if baseline not in named_models or len(named_models) < 2:
        raise ValueError(
            "compare needs two models, and must be True, one of their names "
            f"({', '.join(named_models)}), a model, predictions or, in time, 'naive' or "
            f"'seasonal-7' (1 to 9,999 dates), got compare={compare!r:.80}."
        )
    return baseline, named_models


def _cv_scores_by_name(cv_scores, names):
    """Return a dict of the finite cross-validated scores by name of the model.

    ``cv_scores``: a number for all models, or one for each of ``names``; None or not finite without
    a score. Raise ValueError for another shape.
    """
    scores = np.asarray(cv_scores, dtype=float)
    if scores.shape not in ((), (len(names),)):
        raise ValueError(
            f"cv_scores must be a number or one for each of {len(names)} models, got shape "
            f"{scores.shape}."
        )
    score_per_model = np.broadcast_to(scores, len(names)).tolist()
    names_and_scores = zip(names, score_per_model, strict=True)
    return {name: score for name, score in names_and_scores if np.isfinite(score)}


def _error_clips(holdout, models, measures, training, past_records):
    """Return the clips of errors without a declared range, or None (theory G31).

    They are the recorded ones, else computed from out-of-fold errors of the first model that is not
    precomputed predictions. None if no metric has such errors, or if clips cannot be computed.
    ``measures``: for each metric, a dict of its measure by model name. ``training``,
    ``past_records``: may be None.
    """
    metrics = [
        measure.metric
        for measure_by_model_name in measures
        for measure in measure_by_model_name.values()
    ]
    if not any(map(has_undeclared_range, metrics)):
        return None
    recorded_clips = holdout.notes(SystemNote.ERROR_CLIPS)
    if recorded_clips:
        return ErrorClips(*recorded_clips[0])
    fitted_models = [
        model for model in models.values() if not isinstance(model, PrecomputedPredictions)
    ]
    training_data = _training_data(holdout, training, past_records)
    if not fitted_models or training_data is None:
        return None
    errors = out_of_fold_errors(fitted_models[0], training_data)
    return None if errors is None else ErrorClips.from_errors(errors)


def out_of_fold_errors(estimator: Any, training_data: CVData) -> Array | None:
    """Return errors of training records, predicted by clones of a model fitted on other folds.

    Parameters
    ----------
    estimator : estimator
        Estimator that is cloned for each fold.
    training_data : CVData
        Training records, and their folds if a search drew some.

    Returns
    -------
    ndarray of shape (n_tested,) or None
        Targets minus predictions, fold after fold; NaN if the model failed on a record. None if
        targets are not one-dimensional, if the model cannot be fitted again, or if the records are
        too few for folds.
    """
    if np.ndim(training_data.y) != 1:
        return None
    errors = [
        fold.records.y - fold.records.predictions("", "values")
        for fold in _scored_folds({"": estimator}, training_data)
    ]
    return np.concatenate(errors) if errors else None


def _training_data(holdout, training, past_records):
    """Return the :class:`CVData` of ``training``, else of a search, else of ``past_records``.

    None without any of them. ``training``: tuple (X, y) or (X, y, groups) of the caller, or None.
    """
    if training is not None:
        return CVData(*training)
    if holdout.context.cv_data is None and past_records is not None:
        return CVData(past_records.X, past_records.y)
    return holdout.context.cv_data


def _default_name(model_or_predictions, predictions_name):
    """Return the class name of a model, or ``predictions_name`` for predictions."""
    is_model = hasattr(model_or_predictions, "fit") or hasattr(model_or_predictions, "predict")
    return type(model_or_predictions).__name__ if is_model else predictions_name


def _subgroups(holdout, by):
    """Return a dict of record masks by subgroup name, and a list of the subgroup names of each row.

    An entry of the list is a tuple of one name, or of two whose scores are compared: both subgroups
    of a column, or all other records and one of several subgroups. Masks are arrays of 1.0 and 0.0,
    of shape (n,). ``by``: a column of X, a mapping of column names to labels, or None for no rows.
    """
    masks: dict[str, Any] = {}
    subgroups_per_row: list[tuple[str, ...]] = []
    column_by_name = by
    if by is None:
        column_by_name = {}
    elif not isinstance(by, Mapping):
        column_by_name = _column_of_holdout(holdout, by)
    for column_name, column in column_by_name.items():
        if scipy.sparse.issparse(column):
            column = column.toarray()
        labels = np.asarray(column).reshape(-1).astype(object)
        labels[[is_missing(label) for label in labels]] = None
        unique_labels = _subgroup_labels(column_name, labels, holdout.n)
        subgroups = [f"{column_name}={label}" for label in unique_labels]
        for subgroup, label in zip(subgroups, unique_labels, strict=True):
            masks[subgroup] = is_label(labels, label).astype(float)
        subgroups_per_row += [(subgroup,) for subgroup in subgroups]
        if len(subgroups) == 2:
            subgroups_per_row.append((subgroups[0], subgroups[1]))
            continue
        for subgroup in subgroups:
            complement = f"the rest of {column_name} but {subgroup}"
            masks[complement] = 1.0 - masks[subgroup]
            subgroups_per_row.append((complement, subgroup))
    return masks, subgroups_per_row


def _column_of_holdout(holdout, by):
    """Return a dict with one item: the name of a column of the holdout's X, and the column.

    ``by``: name of the column, or its position in an array. Raise ValueError for other values.
    """
    if np.ndim(by) != 0:
        raise ValueError(
            f"by must be one column of X or {{name: labels}}, got {np.size(by)} values. Pass "
            'labels of the holdout records as by={"name": labels}. The holdout was not queried.'
        )
    is_frame = hasattr(holdout.X, "columns")
    try:
        column = holdout.X[by] if is_frame else safe_indexing(holdout.X, by, axis=1)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ValueError(
            f"by must be a column of X or {{name: labels}}, got {by!r}. Pass "
            f"by={{{str(by)!r}: labels}}, one label per holdout record"
            f"{_columns_text(holdout.X)}. The holdout was not queried."
        ) from error
    return {str(by) if is_frame else f"column {by}": column}


def _columns_text(X):
    """Return the end of a sentence that lists the columns of X; "" unless X has two dimensions."""
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return ""
    columns = list(X.columns) if hasattr(X, "columns") else list(range(shape[1]))
    names = [repr(column) for column in columns[:_MAX_COLUMNS]]
    if len(columns) > _MAX_COLUMNS:
        names.append("...")
    return f", or a column of X: {', '.join(names)}"


def _subgroup_labels(column_name, labels, n):
    """Return a list of the unique labels of a column, sorted as text, without None.

    Raise ValueError unless there are ``n`` labels, and 2 to 20 unique ones with different texts.
    """
    unique_labels = set(labels.tolist()) - {None}
    if len(labels) != n:
        raise ValueError(
            f"by={{{column_name!r}: labels}} must have a label for each of the {n} records of "
            f"the holdout, got {len(labels)}. A search has their places in holdout_indices_."
        )
    if not 2 <= len(unique_labels) <= _MAX_SUBGROUPS:
        raise ValueError(
            f"by={column_name!r} must make 2 to {_MAX_SUBGROUPS} subgroups, got "
            f"{len(unique_labels)}. Cut numbers into bins first, as in "
            "{'age': pandas.cut(age, [0, 40, 60, 120])}."
        )
    if len({str(label) for label in unique_labels}) < len(unique_labels):
        raise ValueError(
            f"by={column_name!r} must hold labels of one type, got different labels of the same "
            "text, such as 1 and '1'. Pass labels.astype(str). The holdout was not queried."
        )
    return sorted(unique_labels, key=str)


# -- training targets, and errors that would occur after closing ----------------------------------


def training_targets_of(holdout, training):
    """Return training targets, or an array with their classes or range; None if unknown.

    They are those of the caller, else made from a summary in the ledger: each class as often as in
    training, or both ends of the range. Without a summary, they are those of some training records.
    """
    if training is not None:
        _check_training(training)
        return training[1]
    recorded_summaries = holdout.notes(SystemNote.TRAINING_TARGETS)
    if recorded_summaries:
        summary = recorded_summaries[0]
        if "classes" in summary:
            return np.repeat(np.asarray(summary["classes"]), summary["counts"])
        return np.array([summary["low"], summary["high"]])
    if holdout.context.dry_run_sample is None:
        return None
    _, sample_targets = holdout.context.dry_run_sample
    return sample_targets


def _check_training(training):
    """Raise ValueError unless ``training`` is a tuple (X, y) or (X, y, groups) of equal lengths.

    Groups must not mix numbers and text.
    """
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


def _max_group_records(holdout, training, dependence):
    """Return the largest number of records of one group that a score counts (theory G28).

    It is the size of the largest group of all records that were split, or of the training records
    if the holdout was passed separately; 1 without groups. Raise ValueError if that size is not
    known, and for dates or blocks of several records. ``dependence``: a name that
    :func:`dependence_of` returns; those of groups contain "groups".
    """
    if "groups" not in dependence:
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        if scheme.block_codes is not None and scheme.n_units < holdout.n:
            raise ValueError(
                f"per='record' is not available here: {scheme.unit_name} count "
                "alike, with many records or few. The holdout was not queried."
            )
        return 1.0
    recorded_sizes = holdout.notes(SystemNote.LARGEST_GROUP)
    if recorded_sizes:
        return float(recorded_sizes[0])
    if training is not None and len(training) == 3:
        _, group_sizes = np.unique(training[2], return_counts=True)
        return float(group_sizes.max())
    raise ValueError(
        "per='record' needs the size of the largest training group, fixed before the split. "
        "Pass training=(X, y, groups). The holdout was not queried."
    )


def _check_plan(plan, holdout, training):
    """Raise an error if a statement or a model of the plan fails a check before closing.

    ``training``: the training records as ``(X, y)`` or ``(X, y, groups)``, or None.
    """
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    placeholders = _placeholder_records(holdout, training)
    for statement in plan.statements:
        _check_training_mean(statement, plan, scheme)
        if plan.is_private:
            _check_noise(statement, scheme)
        _check_models(statement, plan, holdout, placeholders)
    for name, model in plan.models.items():
        if isinstance(model, PrecomputedPredictions):
            continue
        if plan.past_records is not None and non_sklearn_components(model):
            # A copy predicts: a model that counts its calls stays the same for a rerun.
            records = ScoredRecords(holdout.X, holdout.y, plan.models)
            copied_model, _ = records.model_and_data(name)
            check_later_rows(copied_model, plan.past_records.X, plan.past_records.dates, name=name)
        holdout.check_model(model)


def _check_models(statement, plan, holdout, placeholders):
    """Raise an error if a model does not support a metric, or fails with it on placeholders.

    ``placeholders``: :class:`_Placeholders`, or None. Only statements about one model and all
    records are computed on them.
    """
    y = as_labels(holdout.y)
    for model_name in statement.models:
        model = plan.models[model_name]
        _check_support(statement.measure, model, holdout.X, y, reads_counts=not plan.is_private)
    is_about_one_model = len(statement.models) == 1 and not statement.subgroups
    if is_about_one_model and placeholders is not None:
        model = plan.models[statement.models[0]]
        has_uneven_weights = _has_uneven_weights(plan, holdout)
        _dry_run(statement.measure, model, placeholders, has_uneven_weights=has_uneven_weights)


def _has_uneven_weights(plan, holdout):
    """Return whether holdout records may have different weights in a score."""
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if scheme.calendar is not None:  # dates of one record each have equal weights
        return scheme.n_units < holdout.n
    return plan.per == "unit" and not scheme.has_independent_records


def _check_training_mean(statement, plan, scheme):
    """Raise ValueError if a score over dates needs the mean of unknown training targets."""
    is_about_training_mean = (
        statement.measure.metric.unit_statistic.dates.left_out_about is not None
    )
    if scheme.calendar is not None and is_about_training_mean and plan.training_mean is None:
        raise ValueError(
            "scoring='r2' under correlation='time' needs the mean of the training targets. "
            "Pass training=(X_train, y_train). The holdout was not queried."
        )


def _check_noise(statement, scheme):
    """Raise UnboundedMetricError unless a row is proven, on all records, and can get noise."""
    metric = statement.measure.metric
    can_be_noisy = isinstance(metric, BoundedMetric) and (
        metric.is_mean or (scheme.exchangeable and len(statement.models) == 1)
    )
    if not (can_be_noisy and statement.proven) or statement.subgroups:
        by_text = "with by= " if statement.subgroups else ""
        raise UnboundedMetricError(
            f"scoring={statement.measure.name!r} {by_text}is read from the holdout without noise, "
            "which ends its privacy. A holdout with a numeric epsilon "
            "or calibration='zhao2017' reports proven rows only, of one target. The holdout "
            "was not queried."
        )


def _check_support(measure, model, X, y, *, reads_counts):
    """Raise an error if a measure does not support a model, or the types of ``X`` and ``y``.

    ``reads_counts``: whether ratios are computed from counts without noise, so that their input is
    not checked further.
    """
    metric = measure.metric
    check_model_supports(measure, model)
    if metric.is_ratio and y.ndim != 1:
        raise ValueError(f"scoring={measure.name!r} needs one label for each record.")
    model_input = X
    if isinstance(model, PrecomputedPredictions):
        model_input = np.arange(len(y))[:, None]  # positions of records
    else:
        check_schema(model, X, y)
    if isinstance(metric, BoundedMetric) and not (metric.is_ratio and reads_counts):
        metric.check_input(model, model_input, y)


class _Placeholders(NamedTuple):
    """Records to try models and metrics on before a holdout is closed."""

    X: Any
    y: Any
    are_training: bool  # whether they are training records; else all rows of X are equal


def _dry_run(measure, model, placeholders, *, has_uneven_weights):
    """Run a model and a metric on placeholder records, and raise ValueError if they fail.

    Failures that blank placeholders may cause are ignored. A ScoreContractError is raised as it is.
    ``has_uneven_weights``: whether holdout records may have different weights.
    """
    X, y, are_training = placeholders
    classes = getattr(model, "classes_", None)
    if not are_training and classes is not None and np.ndim(y) == 1:
        y = np.resize(np.asarray(classes), np.shape(y))
    weights = np.linspace(0.5, 1.0, len(y)) if has_uneven_weights else np.ones(len(y))
    has_predicted = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records = ScoredRecords(X, y, {"": model})
            model_copy, model_input = records.model_and_data("")
            if hasattr(model_copy, "predict"):
                model_copy.predict(model_input)
            has_predicted = True
            if isinstance(measure.metric, BoundedMetric):
                measure.metric.check_training(model_copy, model_input, y)
            score = compute_score(measure, records, "", weights)
        if np.ndim(score) != 0:
            raise TypeError(f"a score must be one number, got shape {np.shape(score)}")
    except ScoreContractError:
        raise
    except Exception as raised:
        error = raised
        if isinstance(raised, UndefinedScore) and raised.__cause__ is not None:
            error = raised.__cause__  # the scorer's own exception: these records are public
        if not are_training and _is_due_to_placeholders(error, has_predicted):
            return
        weights_remedy = ""
        if "sample_weight" in str(error):
            weights_remedy = "Scores of groups need sample_weight, or per='record'. "
        raise ValueError(
            f"{measure.name} of {type(model).__name__} fails on records made to try it: "
            f"{_describe_error(error)}. {weights_remedy}The holdout was not queried."
        ) from error


def _describe_error(error):
    """Return the class name and message of an error without a final period.

    An UndefinedScore is described by its message only.
    """
    text = str(error).rstrip(".")
    return text if isinstance(error, UndefinedScore) else f"{type(error).__name__}: {text}"


def _is_due_to_placeholders(error, has_predicted):
    """Return whether blank placeholder rows may cause an error, not a model or a metric.

    Either the model cannot predict them (``has_predicted`` is False), or they make a matrix
    singular.
    """
    if not has_predicted and isinstance(error, ValueError | KeyError):
        return True
    return isinstance(error, np.linalg.LinAlgError)


def _placeholder_records(holdout, training):
    """Return :class:`_Placeholders`: some training records if any are known, else blank records.

    None if no training records are known and X is of an unknown type.
    """
    training_sample = training or holdout.context.dry_run_sample
    if training_sample is not None:
        X_train, y_train, *_ = training_sample
        n_train = num_samples(y_train)
        # Predictions have as many positions as the holdout has records.
        n_placeholders = min(_MAX_DRY_RUN_RECORDS, n_train, holdout.n)
        positions = np.linspace(0, n_train - 1, n_placeholders).astype(int)
        X = safe_indexing(X_train, positions)
        return _Placeholders(X, safe_indexing(y_train, positions), are_training=True)
    X = blank_rows(holdout.X)
    if X is None:
        return None
    y = np.resize(np.arange(8) % 2, (8, *np.shape(holdout.y)[1:]))
    return _Placeholders(X, y, are_training=False)


# -- moments of training units --------------------------------------------------------------------


def with_estimated_moments(plan: Plan, training: Any, variance: float | None, holdout: Any) -> Plan:
    """Return the plan with the expected moments of its proven rows.

    They come from training folds, from ``variance``, or from earlier dates for rows in time;
    defaults replace moments that cannot be computed. Without ``training``, the records of a search
    are cross-validated again if ``variance`` is not enough.

    Parameters
    ----------
    plan : Plan
        The report.
    training : tuple (X, y) or (X, y, groups), or None
        Training records passed by the caller.
    variance : float or None
        Variance over records of the first row's cross-validated score, for scores in [0, 1].
    holdout : ReusableHoldout
        The holdout; its records are not read.
    """
    betting_statements = [
        statement
        for statement in plan.statements
        if statement.proven in (*UNIT_INTERVALS, CLASSES, RECALLS)
    ]
    training_data = None if training is None else CVData(*training)
    first_statement = plan.statements[0]
    # The variance is NaN unless the score is a mean over records. Placements have other moments.
    is_variance_enough = (
        betting_statements == [first_statement]
        and first_statement.proven in UNIT_INTERVALS
        and variance is not None
        and variance > 0.0
    )
    if training_data is None and not is_variance_enough:
        training_data = holdout.context.cv_data
    out_of_fold = None
    if betting_statements and training_data is not None:
        out_of_fold = _out_of_fold_records(plan, training_data)
    statements = [
        _with_expected_moments(statement, plan, holdout, out_of_fold, variance)
        for statement in plan.statements
    ]
    return dataclasses.replace(plan, statements=statements)


def _with_expected_moments(statement, plan, holdout, out_of_fold, variance):
    """Return a statement with the expected moments that its proven interval uses.

    A mean over classes gets those of its recalls, or loses its recalls. ``out_of_fold``:
    :class:`_OutOfFold` or None. ``variance``: variance over records of the first row's
    cross-validated score, for scores in [0, 1], or None.
    """
    first = plan.statements[0]
    if statement.proven == PAST:
        has_variance = statement.models == first.models and statement.measure is first.measure
        moments = past_moments(statement, plan, holdout, variance if has_variance else None)
        return dataclasses.replace(statement, moments=moments)
    if statement.recalls:
        n_units = holdout.dependence.sampling_scheme(holdout.n).n_units
        alpha = holdout.account.settings.beta
        return _with_recalls(statement, plan, out_of_fold, n_units, alpha)
    if statement.proven == CLASSES:
        return _with_auc_moments(statement, plan, out_of_fold)
    return _with_moments(statement, plan, out_of_fold, variance if statement is first else None)


def _with_moments(statement, plan, out_of_fold, variance=None):
    """Return a statement with the moments of units and the clip of differences for bets.

    Moments are those of training units, else defaults with ``variance`` if it is known. A statement
    stays the same unless its proven interval uses bets on units. ``out_of_fold``:
    :class:`_OutOfFold` or None. ``variance``: variance over records of this row's cross-validated
    score, for scores in [0, 1], or None.
    """
    if statement.proven not in UNIT_INTERVALS:
        return statement
    moments = _default_moments(statement, plan)
    if variance is not None and variance > 0.0:
        moments = moments._replace(variance=max(variance, 1e-4))
    difference_clip = 1.0
    if out_of_fold is not None and not _has_predictions(statement, plan):
        # Default moments are valid, too: folds may have no unit of a row, or no score.
        with contextlib.suppress(ValueError, UndefinedScore):
            moments, difference_clip = _out_of_fold_moments(statement, plan, out_of_fold)
    return dataclasses.replace(statement, moments=moments, difference_clip=difference_clip)


def _with_auc_moments(statement, plan, out_of_fold):
    """Return a statement with :class:`AucMoments`, which only ROC AUC uses.

    ``out_of_fold``: :class:`_OutOfFold` or None.
    """
    # 0.5 is the expected value of statements without a cross-validated score.
    moments = AucMoments.default(None if statement.expected == 0.5 else statement.expected)
    if out_of_fold is not None and not _has_predictions(statement, plan):
        # Default moments are valid, too: folds may lack a class, or have no score.
        with contextlib.suppress(ValueError, UndefinedScore):
            moments = _out_of_fold_auc_moments(statement, out_of_fold.folds)
    return dataclasses.replace(statement, moments=moments)


def _out_of_fold_auc_moments(statement, scored_folds):
    """Return the :class:`AucMoments` of training records, scored by models of other folds.

    Folds with a constant score or without records of both classes are left out. Raise ValueError if
    none are left.
    """
    metric = statement.measure.metric
    scores_by_fold = []
    for fold in scored_folds:
        model, X = fold.records.model_and_data(statement.models[0])
        class_scores = metric.evaluate(model, X, fold.records.y).score_inputs
        if class_scores is not None:  # the score is not constant by construction
            all_positions = np.arange(len(fold.records.y))
            scores_by_fold.append(scores_by_class(class_scores, all_positions))
    return AucMoments.from_folds(scores_by_fold)


def _with_recalls(statement, plan, out_of_fold, n_units, alpha):
    """Return a statement on a mean over classes with moments of its recalls, or without recalls.

    If its method is not RECALLS, it keeps them only if out-of-fold records predict narrower limits
    from recalls than from the mean itself. ``out_of_fold``: :class:`_OutOfFold` or None.
    ``n_units``: number of holdout units. ``alpha``: failure probability of both limits at which
    widths are compared.
    """
    recalls = tuple(_with_moments(recall, plan, out_of_fold) for recall in statement.recalls)
    if statement.proven == RECALLS:
        return dataclasses.replace(statement, recalls=recalls)
    if out_of_fold is None or _has_predictions(statement, plan):
        return dataclasses.replace(statement, recalls=())
    expected_widths = []
    expected_class_counts = []
    expected_recalls = []
    # Folds may lack a class, or have no score: the statement then loses its recalls.
    with contextlib.suppress(ValueError, UndefinedScore):
        for recall in recalls:
            moments, _ = _out_of_fold_moments(recall, plan, out_of_fold)
            expected_class_counts.append(max(1, round(n_units * moments.mean_count)))
            expected_recalls.append(moments.center)
            expected_widths.append(
                _expected_width(recall.proven, moments, n_units, alpha / len(recalls))
            )
        tail = ClassMeansTail(tuple(expected_class_counts))
        expected_mean = float(np.mean(expected_recalls))
        half_width_of_mean = half_width_at(tail, expected_mean, math.log(0.5 * alpha))
        if 0.5 * np.mean(expected_widths) < half_width_of_mean:
            return dataclasses.replace(statement, recalls=recalls)
    return dataclasses.replace(statement, recalls=())


def _expected_width(method, moments, n_units, alpha):
    """Return the expected distance between both limits of a recall on ``n_units`` holdout units.

    ``method``: method of the proven interval. ``moments``: :class:`UnitMoments` of the recall on
    training units. ``alpha``: failure probability of both limits together.
    """
    if method == COUNTS:
        n_positives = max(1, round(n_units * moments.mean_count))
        n_hits = round(n_positives * moments.center)
        lower, upper = clopper_pearson_interval(n_hits, n_positives, min(alpha, 0.5))
        return upper - lower
    standard_error = math.sqrt(moments.variance / n_units) / moments.mean_count
    return 2.0 * _BETTING_WIDTH_RATIO * norm.isf(0.5 * alpha) * standard_error


def _default_moments(statement, plan):
    """Return :class:`UnitMoments` from the row's expected value and the training targets."""
    center = min(max(statement.expected, 0.01), 0.99)
    mean_count = 1.0
    metric: Any = statement.measure.metric
    if metric.is_ratio and plan.y_train is not None:
        y_train = np.ravel(plan.y_train)
        prevalence = float(np.mean(is_label(y_train, statement.measure.pos_label)))
        mean_count = metric.expected_denominator(prevalence)
    mean_count = max(mean_count if mean_count > 0.0 else 0.5, 0.01)
    if statement.subgroups:  # all subgroups are assumed to have the same size
        mean_count /= len(plan.masks)
    variance = center * (1.0 - center) / len(statement.models) ** 2
    return UnitMoments(center, max(variance, 0.0025) * mean_count, mean_count)


def _has_predictions(statement, plan):
    """Return whether a model of a statement is precomputed predictions."""
    return any(isinstance(plan.models[name], PrecomputedPredictions) for name in statement.models)


class _CannotRefitError(Exception):
    """A model of the user cannot be fitted on other records."""


def _refit(model, X, y):
    """Return a clone of a model, fitted on ``X`` and ``y``.

    Raise _CannotRefitError if cloning or fitting fails.
    """
    try:
        return clone(model).fit(X, y)
    except Exception as error:  # of the user's model
        raise _CannotRefitError from error


class TrainingFold(NamedTuple):
    """Positions of the records of one fold; arrays of int."""

    train: Any  # positions in X and y of the CVData
    test: Any  # positions in X and y of the CVData
    test_in_rows: Any  # positions of the test records among the records that the folds divide


def training_folds(training_data: CVData, models: Mapping[str, Any]) -> list[TrainingFold]:
    """Return a list of the positions of the training and test records of each fold.

    Without folds of a search, there are five. The list is empty if records are too few for these.

    Parameters
    ----------
    training_data : CVData
        Training records, and their folds if a search drew some.
    models : mapping of str to estimator
        Models by name. If the first one is a classifier, the five folds may be stratified.
    """
    rows = training_data.rows  # positions of the records that the folds divide
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
    return [TrainingFold(rows[train], rows[test], test) for train, test in folds]


def models_of_fold(
    training_data: CVData, models: Mapping[str, Any], train: Any
) -> dict[str, Any] | None:
    """Return a dict by name of clones of models, fitted on some training records.

    None if a model cannot be fitted. ``train``: positions of the records in the training data.
    """
    X_train = safe_indexing(training_data.X, train)
    y_train = safe_indexing(training_data.y, train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {name: _refit(model, X_train, y_train) for name, model in models.items()}
        except _CannotRefitError:
            return None


class _ScoredFold(NamedTuple):
    """Test records of one fold with the models that were fitted on its training records."""

    records: ScoredRecords
    test_in_rows: Any  # positions of the records among the records that the folds divide


class _OutOfFold(NamedTuple):
    """Training records with models that were fitted on other folds."""

    folds: list[_ScoredFold]
    groups: Any  # group of each record that the folds divide; None without groups


def _out_of_fold_records(plan, training_data):
    """Return :class:`_OutOfFold` records with the models of a plan fitted on other folds.

    None if a model cannot be fitted again, if all models are predictions, or if the records are too
    few for folds.
    """
    models = {
        name: model
        for name, model in plan.models.items()
        if not isinstance(model, PrecomputedPredictions)
    }
    scored_folds = _scored_folds(models, training_data) if models else []
    return _OutOfFold(scored_folds, training_data.groups) if scored_folds else None


def _scored_folds(models, training_data):
    """Return a list of a :class:`_ScoredFold` for each fold.

    The list is empty if a model cannot be fitted again, or if the records are too few for folds.
    """
    scored_folds = []
    for fold in training_folds(training_data, models):
        fitted_models = models_of_fold(training_data, models, fold.train)
        if fitted_models is None:
            return []
        X_test = safe_indexing(training_data.X, fold.test)
        y_test = safe_indexing(training_data.y, fold.test)
        records = ScoredRecords(X_test, y_test, fitted_models)
        scored_folds.append(_ScoredFold(records, fold.test_in_rows))
    return scored_folds


def _out_of_fold_moments(statement, plan, out_of_fold):
    """Return the :class:`UnitMoments` of training units, and the limit of clipped differences.

    Records are scored by models of other folds. The differences of two models are clipped and
    rescaled from [-limit, limit] to [0, 1]. The limit is 1 for a statement about one model.
    """
    # Of each model, an array of shape (2, n_tested): numerators and denominators of the records.
    contributions = [
        np.concatenate(
            [
                fold.records.contributions(statement.measure, model_name)
                for fold in out_of_fold.folds
            ],
            axis=1,
        )
        for model_name in statement.models
    ]
    numerators, denominators = contributions[0]
    difference_clip = 1.0
    if len(contributions) == 2:
        model_numerators, _ = contributions[1]
        differences = model_numerators - numerators
        difference_clip = _difference_limit(differences, statement.measure.metric)
        clipped_differences = np.clip(differences / difference_clip, -1.0, 1.0)
        numerators = 0.5 * (denominators + clipped_differences)
    tested_rows = np.concatenate([fold.test_in_rows for fold in out_of_fold.folds])
    unit_labels = tested_rows
    if out_of_fold.groups is not None:
        unit_labels = np.asarray(out_of_fold.groups)[tested_rows]
    _, unit_of_row = np.unique(unit_labels, return_inverse=True)
    weights = np.ones(len(unit_of_row))
    if plan.per == "unit":
        weights = 1.0 / np.bincount(unit_of_row)[unit_of_row]
    center, variance, mean_count = unit_moments(
        np.bincount(unit_of_row, weights * numerators),
        np.bincount(unit_of_row, weights * denominators),
    )
    # All subgroups are assumed to have the same size.
    subgroup_fraction = 1.0 / len(plan.masks) if statement.subgroups else 1.0
    moments = UnitMoments(center, subgroup_fraction * variance, subgroup_fraction * mean_count)
    return moments, difference_clip


def _difference_limit(differences, metric):
    """Return the absolute value, at most 1, at which differences of two models are clipped.

    It is 1 for binary scores, and if nearly all differences are 0. ``differences``: those of scores
    in [0, 1] on training records.
    """
    if metric.is_binary:
        return 1.0
    high_quantile = float(np.quantile(np.abs(differences), _DIFFERENCE_QUANTILE))
    return min(1.0, _DIFFERENCE_FACTOR * high_quantile) or 1.0
