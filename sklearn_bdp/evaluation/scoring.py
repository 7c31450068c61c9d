"""Metrics, certificate and final report of a search or selector, and its copy without holdout."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import GridSearchCV

from sklearn_bdp.diagnostics.scores import (
    DEFAULT_METRIC,
    MIN_UNINFORMATIVE_FRACTION,
    warn_about_selected_model,
)
from sklearn_bdp.evaluation.candidates import Candidate, cross_validate_candidate, targets
from sklearn_bdp.evaluation.open_holdout import config_of
from sklearn_bdp.exceptions import ScoreContractError, UnboundedMetricError
from sklearn_bdp.holdout import History
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.metrics import PerRecordScore
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.metrics.error_clips import CLIP_NOTE, has_undeclared_range
from sklearn_bdp.metrics.label_checks import check_counted_class, check_not_sum
from sklearn_bdp.metrics.scorers import scorer_metric
from sklearn_bdp.release.certificate import HoldoutCertificate, SelectedScore
from sklearn_bdp.release.guarantee import (
    half_width_components,
    holdout_certificate,
    required_records_text,
)
from sklearn_bdp.release.preview import preview_batch
from sklearn_bdp.report.final import report_and_close
from sklearn_bdp.report.final_report import FinalReport
from sklearn_bdp.report.forecast import forecast_report
from sklearn_bdp.report.measures import named_metrics
from sklearn_bdp.utils.html import format_score
from sklearn_bdp.utils.sklearn_compat import num_samples

#: Suggested metrics if only means over records have a proven interval.
_SUGGESTED_MEANS = (
    "scoring='neg_brier_score', which judges probabilities as ROC AUC does, or 'accuracy'"
)

#: Values of ``refit`` that are rules, not names of metrics.
SELECTION_RULES = ("one_se", "best_lower")
#: Note on the approximate interval of a loss in time, which may be narrower than the proven one.
_NOTE_IN_TIME = (
    "in time a proven interval uses the whole range of {}. The approximate interval of "
    "final_report() uses how much scores vary between blocks of time. It needs a holdout worth 200 "
    "independent records"
)
#: Difference between verified and cross-validated score, in ranges of the metric, below which it is
#: called a confirmation.
_CONFIRMED_DIFFERENCE = 0.01
#: Half-widths in units of [0, 1] for which the certificate states the number of records.
_TARGET_HALF_WIDTHS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@dataclasses.dataclass
class ScorerRecord:
    """Per-record scores and predictions that the scorers of one fit record.

    scikit-learn calls a scorer for the test records of the fit, and then for its training records
    if their scores are requested.
    """

    memory: object = None  # PrefixMemory, if only test records are scored
    #: Arrays of record scores in [0, 1] on the metric that ranks, one for each call of its scorer
    #: that has such scores.
    scores: list = dataclasses.field(default_factory=list)
    #: Clipping or None for each of these arrays.
    clipping: list = dataclasses.field(default_factory=list)
    #: Predictions of the test records, by name of a metric without a proven bound.
    predictions: dict = dataclasses.field(default_factory=dict)
    #: Error that the search raises after the fit. scikit-learn would replace it by NaN.
    contract_error: Exception | None = None


class MetricScorer:
    """A scikit-learn scorer of a metric, in score units.

    Parameters
    ----------
    metric : BoundedMetric
        Metric that scores an estimator.
    scorer_records : dict or None
        :class:`ScorerRecord` of each running fit, by the ``id`` of its estimator. None: nothing is
        recorded.
    ranks : bool
        Whether the metric ranks candidates, so that its scores of records are recorded.
    """

    def __init__(self, metric, scorer_records=None, *, ranks=False):
        self.metric = metric
        self.scorer_records = {} if scorer_records is None else scorer_records
        self.ranks = ranks

    def __call__(self, estimator, X, y=None):
        """Return the unweighted score of ``estimator`` on ``X`` and ``y``, in score units.

        A ScoreContractError of a metric with a proven bound is recorded in the
        :class:`ScorerRecord` of the fit, and the score is NaN. If there is no ScorerRecord, the
        error is raised.
        """
        scorer_record = self.scorer_records.get(id(estimator))
        if scorer_record is not None and scorer_record.memory is not None:
            estimator = scorer_record.memory.cached_predictor(
                estimator, X, "tested", metric=self.metric
            )
        y = targets(X, y)
        if isinstance(self.metric, ApproximateMetric):
            return self._approximate_score(scorer_record, estimator, X, y)
        try:
            # In [0, 1]: scores of the records, or None, and the score of the estimator.
            per_record, unit_score = self.metric.training_scores(estimator, X, y)
        except ScoreContractError as error:
            if scorer_record is None:
                raise
            scorer_record.contract_error = error
            return math.nan
        if scorer_record is not None and self.ranks and per_record is not None:
            scorer_record.clipping.append(self.metric.clipping(estimator, X, y, per_record))
            scorer_record.scores.append(per_record)
        return self.metric.from_unit(unit_score)

    def _approximate_score(self, scorer_record, estimator, X, y):
        """Return the score of a metric without a proven bound, in score units.

        ``scorer_record``: ScorerRecord of the running fit, or None. It records the predictions of
        the first call for a fit, if the metric uses predictions only. If the user's scorer returns
        a dict, it records an error, and the score is NaN. Without it this error is raised.
        """
        if not self.metric.uses_predictions_only:
            score = self.metric.scorer(estimator, X, y)
            if isinstance(score, dict):
                error = ValueError(
                    "scoring returns a dict of scores: set refit='name' to the one that chooses "
                    f"candidates (one of {sorted(score)})."
                )
                if scorer_record is None:
                    raise error
                scorer_record.contract_error = error  # scikit-learn would replace it by NaN
                return math.nan
            return float(score)
        predictions = self.metric.predictions(estimator, X, y)
        if scorer_record is not None:  # the result of the first call stays
            scorer_record.predictions.setdefault(self.metric.name, predictions)
        return self.metric.score_predictions(predictions)


@dataclasses.dataclass(frozen=True)
class WithoutTargets:
    """Score function of a user that is called with ``y=None``, for data without targets."""

    function: Callable

    def __call__(self, estimator, X, y):
        """Return one number per record."""
        return self.function(estimator, X, None)


class DictScorer:
    """A user's scorer of several metrics, with the verified one scored by a MetricScorer.

    Parameters
    ----------
    scorer : callable
        The user's scorer, which should return a dict of scores.
    name : str
        Name of the verified metric in this dict.
    metric_scorer : MetricScorer
        Scorer of the verified metric.
    """

    def __init__(self, scorer, name, metric_scorer):
        self.scorer = scorer
        self.name = name
        self.metric_scorer = metric_scorer

    def __call__(self, estimator, X, y=None):
        """Return the dict of scores of the user's scorer.

        The score of the verified metric is replaced by that of ``metric_scorer``. A dict without
        the verified metric is returned unchanged. If the scorer returns another object, the dict is
        empty.
        """
        scores = self.scorer(estimator, X, y)
        if not isinstance(scores, dict):
            return {}  # the search raises later; scikit-learn would replace an error here by NaN
        if self.name not in scores:
            return scores
        return {**scores, self.name: self.metric_scorer(estimator, X, y)}


def _public_scorer(estimator, scoring, metric):
    """Return the scorer for one value of ``scoring``, for the attribute ``scorer_``.

    It is scikit-learn's scorer for None and for names and scorers of scikit-learn. Otherwise it is
    a scorer of ``metric``, or ``scoring`` itself if ``metric`` is None.
    """
    is_package_name = isinstance(scoring, str) and scoring not in get_scorer_names()
    is_sklearn_scoring = (
        scoring is None or isinstance(scoring, str) or hasattr(scoring, "_score_func")
    )
    if is_sklearn_scoring and not is_package_name:
        return check_scoring(estimator, scoring)
    return scoring if metric is None else MetricScorer(metric)


class SearchMetrics:
    """Metrics of a search: one that ranks the candidates, and secondary metrics.

    Attributes
    ----------
    name : str
        Name of the metric that ranks; "score" if metrics have no names.
    metric : BoundedMetric
        Metric that ranks.
    secondary : dict
        Other metrics that can be verified, by name. Scores that a callable returns besides the one
        that ranks are unknown before a call, and are not verified.
    scorers : callable
        Scorer of the folds for scikit-learn, which returns a dict if metrics have names. Verified
        metrics are scored by a :class:`MetricScorer`.
    scorer_records : dict
        :class:`ScorerRecord` of each running fit, by the ``id`` of its estimator.
    """

    def __init__(self, search, holdout_split):
        scoring = search.scoring
        refit = search.refit
        self.search = search
        #: Value of ``scoring`` for each metric; empty if ``scoring`` is a single metric or a
        #: callable.
        self.scoring_by_name = {}
        self.secondary = {}
        self.scorer_records = {}  # ScorerRecord of each running fit, by id of its estimator
        refit_is_name = isinstance(refit, str) and refit not in SELECTION_RULES
        if isinstance(scoring, list | tuple | set | dict):
            names = _check_metric_names(scoring, refit, refit_is_name)
            self.scoring_by_name = {name: name for name in names}
            if isinstance(scoring, dict):
                self.scoring_by_name = scoring
            self.name = refit if refit_is_name else names[0]
            self.metric = _make_metric(search, self.scoring_by_name[self.name], holdout_split)
        elif refit_is_name and callable(scoring):  # a callable that returns a dict
            self.name = refit
            self.metric = _metric_named_by_refit(search, holdout_split)
        elif refit_is_name and refit != scoring:
            raise ValueError(
                f"refit must be True, False, a callable or one of {list(SELECTION_RULES)} with a "
                f"single metric, got refit={refit!r}. Set refit=True to keep the best verified "
                "model. The holdout was not queried."
            )
        else:
            self.name = "score"
            self.metric = _make_metric(search, scoring, holdout_split)
        self._set_secondary_metrics(holdout_split)
        self.scorers = self._make_scorers()

    def _set_secondary_metrics(self, holdout_split):
        """Set ``secondary``: the metrics that do not rank and can be verified.

        Raises ValueError for a metric that cannot be verified because it is a sum over records, or
        undefined for the training labels.
        """
        for name, scoring in self.scoring_by_name.items():
            if name == self.name:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.secondary[name] = _make_metric(self.search, scoring, holdout_split)
            except (TypeError, ValueError):  # it cannot be verified
                check_not_sum(scoring)
                check_counted_class(scoring, holdout_split.y)

    def _make_scorers(self):
        """Return the scorer of the folds for scikit-learn, a callable.

        It returns one score, or a dict of scores if metrics have names. Raises ValueError if
        scikit-learn does not know the name of a metric that is not verified.
        """
        scoring = self.search.scoring
        ranking_scorer = MetricScorer(self.metric, self.scorer_records, ranks=True)
        if self.name == "score" and not self.scoring_by_name:
            return ranking_scorer
        if callable(scoring):
            return DictScorer(scoring, self.name, ranking_scorer)
        scorers = {**self.scoring_by_name, self.name: ranking_scorer}
        for name, metric in self.secondary.items():
            scorers[name] = MetricScorer(metric, self.scorer_records)
        search_copy = copy.copy(self.search)
        search_copy.scoring = scorers
        search_copy.refit = False
        multi_metric_scorer, _ = GridSearchCV._get_scorers(search_copy)
        return multi_metric_scorer

    def public_scorer(self):
        """Return ``scorer_`` of the search: a scorer, or a dict of scorers for several metrics."""
        estimator = self.search.estimator
        metrics = {self.name: self.metric, **self.secondary}
        if self.scoring_by_name:
            return {
                name: _public_scorer(estimator, scoring, metrics.get(name))
                for name, scoring in self.scoring_by_name.items()
            }
        scoring = self.search.scoring
        if self.name != "score":
            return scoring
        return _public_scorer(estimator, scoring, self.metric)


def _check_metric_names(scoring, refit, refit_is_name):
    """Return the names of several metrics as a list, or raise ValueError.

    An error is raised without a name, for ``refit=True``, or if ``refit`` is a string that is
    neither one of the names nor a selection rule. ``scoring``: list, tuple, set or dict;
    ``refit_is_name``: whether ``refit`` is a string other than a selection rule.
    """
    names = sorted(scoring) if isinstance(scoring, set) else list(scoring)
    if refit is True or (refit_is_name and refit not in names) or not names:
        raise ValueError(
            "For multi-metric scoring, the parameter refit must be set to a scorer key or a "
            f"callable to refit, got refit={refit!r}. Set it to the metric that chooses candidates"
            f"{_refit_example(names)}. With refit=False, a callable or a rule "
            f"({', '.join(map(repr, SELECTION_RULES))}), the first metric ranks the candidates. "
            "The holdout was not queried."
        )
    return names


def _refit_example(names):
    """Return the end of a message: ``refit=`` with each of the names; "" without names."""
    return ": " + " or ".join(f"refit={name!r}" for name in names) if names else ""


def _metric_named_by_refit(search, holdout_split):
    """Return the metric with the name ``refit`` of a search whose ``scoring`` is a callable.

    Raises UnboundedMetricError if no metric with this name can be verified.
    """
    try:
        return _make_metric(search, search.refit, holdout_split)
    except (TypeError, ValueError) as error:
        raise UnboundedMetricError(
            f"scoring is a callable, and refit={search.refit!r} does not name a bounded "
            f"metric that could be verified on the holdout: {error}"
        ) from None


def _make_metric(search, scoring, holdout_split):
    """Return the metric for one value of ``scoring``, adapted to the training targets."""
    metric = bounded_metric(search, scoring, holdout_split)
    return metric.with_training_targets(holdout_split.y, holdout_split.train_groups())


def bounded_metric(meta_estimator, scoring, holdout_split):
    """Return the metric for one value of ``scoring``; may warn if this is None.

    Parameters
    ----------
    meta_estimator : estimator
        Search or selector.
    scoring : str, callable, BoundedMetric or None
        The metric.
    holdout_split : HoldoutSplit
        Training set and holdout.

    Returns
    -------
    BoundedMetric
        An ApproximateMetric if no bound is proven.

    Raises
    ------
    UnboundedMetricError
        If the metric has no proven bound and the holdout needs one, or if its sensitivity is not
        proved under the correlation of the holdout.
    TypeError, ValueError
        If ``scoring`` is unknown or does not fit the targets, or if there are no targets and it is
        not a PerRecordScore.
    """
    model = holdout_split.model
    has_dates = holdout_split.scheme.calendar is not None
    if holdout_split.y is None:
        scoring = _score_without_targets(meta_estimator, scoring)
    config = holdout_split.config or getattr(meta_estimator.holdout, "config", None)
    proof_reason = ""  # text of the argument that requires a proven bound; empty: none does
    if config is not None:  # there is a holdout
        proof_reason = config.proof_needed_for(model, num_samples(holdout_split.X_holdout))
    is_default_regression = scoring is None and is_regressor(meta_estimator.estimator)
    if is_default_regression and proof_reason and not has_dates:
        raise UnboundedMetricError(
            f"scoring=None is {type(meta_estimator.estimator).__name__}.score, which has no proven "
            f"bound, and {proof_reason} admits metrics with a proven bound only. Declare the range "
            'of the target: scoring=get_metric("neg_mean_absolute_error", bounds=(low, high)).'
        )
    metric = scorer_metric(
        scoring,
        estimator=meta_estimator.estimator,
        y=holdout_split.y,
        proof_needed_for=proof_reason,
        has_class_bounds=holdout_split.scheme.exchangeable,
        has_dates=has_dates,
    )
    if scoring is None and metric.note:
        is_clipped_later = has_dates and has_undeclared_range(metric)
        DEFAULT_METRIC.warn(note=CLIP_NOTE if is_clipped_later else metric.note)
    is_approximate = isinstance(metric, ApproximateMetric)
    if not (metric.is_mean or is_approximate or holdout_split.scheme.exchangeable):
        raise UnboundedMetricError(
            f"scoring={metric.name!r} is not a mean over records, and its sensitivity is proved "
            f"for independent records and groups only, got {model.describe()}. Use "
            f"{_SUGGESTED_MEANS}."
        )
    return metric


def _score_without_targets(search, scoring):
    """Return a copy of a PerRecordScore that calls its function with ``y=None``.

    Raises ValueError if ``scoring`` is not a PerRecordScore.
    """
    if not isinstance(scoring, PerRecordScore):
        raise ValueError(
            f"{type(search).__name__} requires y to be passed, but the target y is None. "
            f"Pass fit(X, y). Only a PerRecordScore can do without, got scoring={scoring!r}."
        )
    name = scoring.name or getattr(scoring.function, "__name__", None)
    function = WithoutTargets(scoring.function)
    return dataclasses.replace(scoring, function=function, name=name)


def certificate_with_assumptions(holdout, holdout_split, ledger_state):
    """Return the certificate of a holdout, with the assumptions of the split and of the ledger.

    ``ledger_state``: :class:`~sklearn_bdp.ledger.ledger_state.LedgerState` of the holdout.
    """
    certificate = holdout_certificate(holdout.account, ledger_state)
    assumptions = [holdout_split.assumption, *ledger_state.notes(SystemNote.ASSUMPTION)]
    distinct_assumptions = dict.fromkeys(text for text in assumptions if text)
    return dataclasses.replace(
        certificate, assumptions=(*certificate.assumptions, *distinct_assumptions)
    )


def make_certificate(
    holdout,
    holdout_split,
    metric,
    query,
    *,
    model_description,
    cv_score,
    clipping,
    notes=(),
    assumptions=(),
):
    """Return the certificate with the score of the selected model; may warn about this score.

    Parameters
    ----------
    holdout : ReusableHoldout
        The holdout.
    holdout_split : HoldoutSplit
        Training set and holdout.
    metric : BoundedMetric
        Metric that ranks candidates.
    query : CandidateQuery
        Query about the selected model, with its answer.
    model_description : str
        Text about the selected model.
    cv_score : float
        Cross-validated score of this model, in score units.
    clipping : Clipping or None
        Effect of clipping on out-of-fold scores of this model.
    notes, assumptions : sequence of str
        Additional lines of the certificate.
    """
    selected = _selected_score(
        holdout,
        holdout_split,
        metric,
        query,
        model_description=model_description,
        cv_score=cv_score,
    )
    warn_about_selected_model(
        holdout,
        metric,
        holdout_split,
        model_description=model_description,
        score=selected.score,
        interval=[selected.lower, selected.upper],
        cv_score=cv_score,
        clipping=clipping,
        has_interval=selected.interval != "none",
    )
    # The ledger as this process last read or wrote it, without answers that others added since.
    with holdout.account.read_transaction(latest=False) as ledger_state:
        certificate = certificate_with_assumptions(holdout, holdout_split, ledger_state)
    certificate = certificate.in_units(metric.display_name, metric.lower, metric.upper)
    certificate = dataclasses.replace(
        certificate,
        selected=selected,
        assumptions=(*certificate.assumptions, *assumptions),
        notes=(
            *certificate.notes,
            *_caveats(holdout, metric),
            *notes,
            *_notes_on_approximation(metric, query, holdout),
        ),
    )
    with holdout.account.read_transaction(latest=False) as ledger_state:
        return with_forecast(
            certificate,
            holdout,
            ledger_state,
            metric,
            n_train=num_samples(holdout_split.X),
            training_variance=query.variance,
        )


def _caveats(holdout, metric):
    """Return a list of notes on how clipping may change a score, empty without ``caveat``."""
    caveats = [metric.caveat] if metric.caveat else []
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if caveats and scheme.in_time_order and scheme.calendar is None:
        caveats.append(_NOTE_IN_TIME.format(metric.name))
    return caveats


def _selected_score(holdout, holdout_split, metric, query, *, model_description, cv_score):
    """Return the SelectedScore of the model that a CandidateQuery is about.

    Score and interval are in score units, and NaN if the holdout did not answer the query.
    Components of the half-width are fractions of the range. ``cv_score``: cross-validated score of
    the model, in score units.
    """
    score, lower, upper = query.in_units(metric)
    if query.answer.source == "unanswered":  # the value may be the cross-validated score
        score, lower, upper = math.nan, math.nan, math.nan
    components = None
    if query.answer.interval != "none":
        components = half_width_components(
            query.answer, holdout.account.settings, holdout.dependence
        )
    return SelectedScore(
        description=f"{metric.display_name} of {model_description}",
        score=score,
        lower=lower,
        upper=upper,
        interval=query.answer.interval,
        verdict=_verdict(score, cv_score, metric),
        baseline=_baseline(metric, holdout_split.y),
        half_width_components=components,
    )


def _verdict(score, cv_score, metric):
    """Return the text of a comparison of verified and cross-validated score.

    "" unless both are finite. ``score``, ``cv_score``: in score units.
    """
    if not math.isfinite(score - cv_score):
        return ""
    if abs(score - cv_score) < _CONFIRMED_DIFFERENCE * (metric.upper - metric.lower):
        return "the holdout confirms cross-validation"
    change = f"{score - cv_score:+.3g} (cross-validated: {format_score(cv_score)})"
    return f"the holdout corrects cross-validation by {change}"


def _baseline(metric, training_targets):
    """Return the score of a constant prediction on three metrics, None for others.

    For accuracy it is the proportion of the largest class in the training set, for balanced
    accuracy 1 / n_classes, and for ROC AUC 1/2.
    """
    if metric.name == "roc_auc":
        return 0.5
    if metric.name not in ("accuracy", "balanced_accuracy"):
        return None
    _, class_counts = np.unique(np.asarray(training_targets), return_counts=True)
    if metric.name == "balanced_accuracy":
        return float(1 / class_counts.size)
    return float(class_counts.max() / class_counts.sum())


def _notes_on_approximation(metric, query, holdout):
    """Yield notes on the interval of a metric without a proven bound, if there are any.

    ``query``: :class:`CandidateQuery` of the selected model.
    """
    if not isinstance(metric, ApproximateMetric) or query.reference is None:
        return
    reference = query.reference
    if reference.family == "none":
        yield f"{metric.name} chooses candidates without an interval: {reference.reason}"
        return
    if reference.clips:
        # Each of the four texts lists one number per output.
        error_clips, deviation_clips, means, mean_errors = (
            ", ".join(f"{number:.3g}" for number in numbers)
            for numbers in zip(*reference.clips, strict=True)
        )
        errors_text = "squared errors"
        if any(clip.mean_error for clip in reference.clips):
            errors_text = f"squared errors about the mean training error {mean_errors}"
        yield (
            f"{errors_text} count at most {error_clips} on the holdout, and deviations of targets "
            f"from the training mean {means} at most {deviation_clips} squared: the value and its "
            f"interval are about {metric.name} with these limits"
        )
    if reference.loss_clips:
        loss_clips = ", ".join(f"{number:.3g}" for number in reference.loss_clips)
        yield (
            f"the loss of a record counts at most {loss_clips} on the holdout: the value and its "
            f"interval are about {metric.name} with this limit"
        )
    code_length = getattr(query.answer, "code_length", math.nan)
    # Failure probability of each side of the interval.
    alpha = holdout.account.settings.sampling_failure / 2.0 * math.exp(-code_length)
    if alpha < metric.min_tested_alpha:
        yield (
            f"the approximate interval has a level of {alpha:.1g} on each side, beyond the range "
            f"in which the method was simulated (down to {metric.min_tested_alpha:g})"
        )


def with_forecast(certificate, holdout, ledger_state, metric, *, n_train, training_variance):
    """Return a certificate with forecast half-widths for a metric and the selected score.

    It is returned unchanged if no query can follow. Without a verified score, only ``half_width``
    and ``forecast`` may change. All half-widths are those of scores in [0, 1]. ``n_train``:
    number of training records that a cross-validated score averages; ``training_variance``:
    variance in [0, 1] of the selected model's scores of training records, or of dates, NaN if it is
    unknown.
    """
    forecast = certificate.forecast
    selected = certificate.selected
    if forecast.next_query is None:
        return certificate
    shrinks_with_records = bool(forecast.advice)
    account = holdout.account
    if not metric.is_mean:
        # The forecast of the holdout is for means over records, with narrower intervals than scores
        # by class.
        has_score = isinstance(metric, ApproximateMetric) and math.isfinite(selected.score)
        expected_score = metric.to_unit(selected.score) if has_score else 0.5
        preview = preview_batch(
            account, ledger_state, score=expected_score, metric=metric, n_train=n_train
        )
        next_half_width = preview.half_width
        forecast = dataclasses.replace(forecast, next_query=next_half_width, advice="")
        certificate = dataclasses.replace(
            certificate, half_width=max(certificate.half_width, next_half_width), forecast=forecast
        )
    if not math.isfinite(selected.score):
        return certificate
    score_range = metric.upper - metric.lower
    selected_half_width = 0.5 * (selected.upper - selected.lower) / score_range
    preview = preview_batch(
        account,
        ledger_state,
        score=metric.to_unit(selected.score),
        metric=metric,
        n_train=n_train,
        training_variance=training_variance,
    )
    next_half_width = preview.half_width
    if metric.is_mean and 2.0 * selected_half_width < MIN_UNINFORMATIVE_FRACTION:
        # The scores of the holdout may be known to vary little (theory G15).
        next_half_width = min(next_half_width, selected_half_width)
    # The components of a half-width shrink about like 1 / sqrt(n), unless the interval ends at an
    # end of the range.
    advice = ""
    if shrinks_with_records and 2.0 * next_half_width < MIN_UNINFORMATIVE_FRACTION:
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        advice = required_records_text(_TARGET_HALF_WIDTHS, next_half_width, scheme, score_range)
    final_half_width = min(preview.half_width_final, selected_half_width)
    return dataclasses.replace(
        certificate,
        forecast=dataclasses.replace(forecast, final_report=final_half_width),
        selected=dataclasses.replace(selected, next_query=next_half_width, advice=advice),
    )


# -- released values and copies of a fitted search or selector, without holdout records ----------


def clipping_of_columns(setup, columns):
    """Return the Clipping of the out-of-fold scores of a candidate, or None.

    ``columns``: tuple of the positions of the candidate's columns. None if it is empty, if the
    metric has no caveat, if no score can be clipped, or after an error.
    """
    if setup.metric.caveat and columns:
        # Warnings and errors of these fits were reported when the columns were scored.
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            _, clipping = cross_validate_candidate(setup, Candidate(columns=columns))
            return clipping
    return None


def answers_to_columns(metric, answers, *, suffix=""):
    """Return columns of ``cv_results_`` by name, from the answers to queries on one metric.

    Scores and ends of intervals are in score units. ``answers``: AnswerRecord or MissingAnswer of
    each row, with scores in [0, 1]; ``suffix``: end of the names of the columns.
    """
    unit_values = np.array([answer.value for answer in answers])
    unit_lower = np.array([answer.lower for answer in answers])
    unit_upper = np.array([answer.upper for answer in answers])
    lower, upper = metric.ends_from_unit(unit_lower, unit_upper)
    return {
        f"answered_from{suffix}": np.array([answer.source for answer in answers]),
        f"holdout_score{suffix}": metric.from_unit(unit_values),
        f"holdout_lower{suffix}": lower,
        f"holdout_upper{suffix}": upper,
        f"holdout_interval{suffix}": np.array([answer.interval for answer in answers]),
    }


@dataclasses.dataclass(frozen=True)
class DetachedHoldout:
    """Holdout without its records: it shows the released answers and accepts no query.

    Parameters
    ----------
    n : int
        Number of holdout records.
    confidence_level : float
        Minimum probability that all intervals contain their expected scores at the same time.
    information_spent : float
        Information that the answers have revealed, in nats.
    next_code_length : float
        Code length of the next query at the time of the copy, in nats.
    remaining_budget : int or None
        Number of answers that could still be corrected; None without a budget.
    record_fingerprints : object
        Truncated digests of holdout records, to recognize them.
    """

    n: int
    confidence_level: float
    information_spent: float
    next_code_length: float
    remaining_budget: int | None
    _certificate: HoldoutCertificate = dataclasses.field(repr=False)
    _records: History = dataclasses.field(repr=False)
    #: Result of ``record_fingerprints``.
    record_fingerprints: Any = dataclasses.field(repr=False)

    def __getattr__(self, name):
        raise AttributeError(
            f"this copy carries no holdout, so {name} is not available. Use the search that "
            "without_holdout() was called on."
        )

    def certificate(self):
        """Return the guarantee at the time of the copy.

        Returns
        -------
        HoldoutCertificate
            As :meth:`ReusableHoldout.certificate <sklearn_bdp.ReusableHoldout.certificate>`.
        """
        return self._certificate

    def history(self):
        """Return all answers that were released before the copy, oldest first.

        Returns
        -------
        History
            A sequence of :class:`~sklearn_bdp.holdout.AnswerRecord`.
        """
        return self._records


class HoldoutEstimatorMixin:
    """Mixin of estimators with a parameter ``holdout`` and a fitted attribute ``holdout_``."""

    holdout: Any

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``holdout__<name>`` sets a field of the configuration of the holdout.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator. For fields, ``holdout`` is replaced by a changed copy; a
            fraction or splitter becomes a :class:`~sklearn_bdp.HoldoutConfig` first.

        Returns
        -------
        object
            The estimator itself.

        Raises
        ------
        ValueError
            If a field is passed and ``holdout`` is None or an existing holdout.
        """
        prefix = "holdout__"
        field_params = {name: params.pop(name) for name in list(params) if name.startswith(prefix)}
        super().set_params(**params)  # type: ignore[misc] # of BaseEstimator, which is untyped
        if field_params:
            config = None if self.holdout is None else config_of(self)
            if config is None:
                raise ValueError(
                    f"{min(field_params)} cannot be set: holdout is None or made already, got "
                    f"{type(self.holdout).__name__}. Set it to a fraction or a HoldoutConfig first."
                )
            fields = {name.removeprefix(prefix): value for name, value in field_params.items()}
            self.holdout = config.set_params(**fields)
        return self

    def without_holdout(self) -> Any:
        """Return a copy of the fitted object that contains no holdout record.

        A fitted search contains its holdout, so that the next search can continue with it. Its
        pickle therefore contains the holdout records. The copy predicts and shows everything that
        was released (``cv_results_``, ``certificate_``, ``holdout_.history()``). To recognize
        holdout records that are passed to it later, it keeps a truncated digest of each holdout
        record that differs from all other records, if training and holdout records were passed to
        the same fit. Fitting it again needs ``set_params(holdout=...)``.

        Returns
        -------
        object
            A copy with a ``holdout_`` that shows past answers but accepts no query.

        Raises
        ------
        ValueError
            If the object is not fitted, was fitted without a holdout, or is such a copy.
        """
        if not isinstance(getattr(self, "holdout_", None), ReusableHoldout):
            raise ValueError(
                f"without_holdout needs a fitted {type(self).__name__} with a holdout, got one "
                "that has none."
            )
        detached: Any = copy.copy(self)
        holdout = detached.holdout_
        fingerprints = holdout.account.training_rows.record_fingerprints(holdout.X, holdout.y)
        detached.holdout_ = DetachedHoldout(
            holdout.n,
            holdout.confidence_level,
            holdout.information_spent,
            holdout.next_code_length,
            holdout.remaining_budget,
            holdout.certificate(),
            holdout.history(),
            fingerprints,
        )
        if isinstance(detached.holdout, ReusableHoldout):
            detached.holdout = detached.holdout_
        vars(detached).pop("_interrupted_fit", None)
        return detached

    # A notebook shows score and interval above scikit-learn's diagram.

    def _certificate_html(self):
        """Return the certificate as HTML, empty without one."""
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else certificate._repr_html_()

    def _repr_html_inner(self):
        return self._certificate_html() + super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs):
        contents = super()._repr_mimebundle_(**kwargs)  # by MIME type
        if "text/html" in contents:
            contents["text/html"] = self._certificate_html() + contents["text/html"]
        return contents


class FinalReportMixin(HoldoutEstimatorMixin):
    """Mixin of estimators that select one verified model, for the final report of this model."""

    holdout_: ReusableHoldout
    _has_fit_params: bool  # whether the model was fitted with more than records and targets
    #: Takes ``compare`` and returns the models by name, their cross-validated scores in score
    #: units, the metric that verified them and the variance of the selected model's scores of
    #: training records (or dates) in [0, 1], None or NaN if it is unknown.
    _models_for_report: Callable[..., tuple]

    def final_report(
        self,
        *,
        scoring: Any = None,
        compare: Any = None,
        by: Any = None,
        per: Any = None,
        refit_every: Any = None,
        joint: bool = True,
    ) -> FinalReport:
        """Report the final score of the selected model with a narrow interval; close the holdout.

        Parameters
        ----------
        scoring : str, BoundedMetric, scorer, None, a list or a dict of them, default=None
            Metrics; a dict names them. ``None``: the metric of the search or selection.
        compare : str, estimator or array-like, default=None
            A baseline whose difference to the model is reported, too: an estimator fitted on
            ``X[train_indices_]``, or predictions of the holdout records. The variance of the
            difference to an estimator is estimated by cross-validation, on the folds of a search.
            Under ``correlation="time"`` also ``"naive"`` (the last known target) and
            ``"seasonal-7"`` (the last known target a multiple of seven dates before). For a feature
            selector also ``"fixed"``, the model of the fixed features alone.
        by, per, joint : object
            As for :meth:`sklearn_bdp.ReusableHoldout.final_report`.
        refit_every : int or timedelta, default=None
            Under ``correlation="time"``: report the estimator with its parameters, refitted before
            every block of so many dates on all records known by then.

        Returns
        -------
        FinalReport
            As :meth:`sklearn_bdp.ReusableHoldout.final_report`: the score of ``best_estimator_``
            of a search, or of ``estimator_`` of a selector on its ``support_``, its interval, and
            the number of queries before it.

        Raises
        ------
        HoldoutClosedError
            If the holdout gave another final report.
        ValueError
            If there is no holdout, if no model was kept, or if ``compare="fixed"`` and there is no
            model of fixed features beside the selected one. Also if ``refit_every`` is passed and
            ``fit`` was passed other parameters.
        """
        models, cv_scores, metric, selected_variance = self._models_for_report(compare)
        if refit_every is not None and self._has_fit_params:
            raise ValueError(
                "refit_every= fits the recipe without other parameters, and fit was passed some. "
                "The holdout was not queried."
            )
        scorings, is_verified_metric = _report_scorings(scoring, metric)
        has_cv_scores = is_verified_metric and np.isfinite(cv_scores).all()
        return report_and_close(
            self.holdout_,
            models,
            cv_scores if has_cv_scores else None,
            compare=compare,
            by=by,
            per=per,
            refit_every=refit_every,
            joint=joint,
            scoring=scorings,
            variance=selected_variance if is_verified_metric else None,
        )

    def _forecast_report(self, *, scoring, compare, by, per, joint):
        """Return a RowForecast for each row of :meth:`final_report`, from training records only.

        The arguments are those of :meth:`final_report`.
        """
        models, cv_scores, metric, selected_variance = self._models_for_report(compare)
        scorings, is_verified_metric = _report_scorings(scoring, metric)
        has_cv_scores = is_verified_metric and np.isfinite(cv_scores).all()
        return forecast_report(
            self.holdout_,
            models,
            cv_scores if has_cv_scores else None,
            compare=compare,
            by=by,
            per=per,
            joint=joint,
            scoring=scorings,
            variance=selected_variance if is_verified_metric else None,
        )


def _report_scorings(scoring, metric):
    """Return the metrics of a report, and whether the first one is ``metric`` with a proven bound.

    ``metric``: the verified metric of a search. The metrics are a list, or a dict if ``scoring`` is
    one. In them, None and the name of ``metric`` are replaced by ``metric``, or by its ``scoring``
    if it has no proven bound.
    """
    is_approximate = isinstance(metric, ApproximateMetric)
    search_scoring = metric.scoring if is_approximate else metric
    names = []
    scorings = []
    for name, value in named_metrics(scoring):
        is_search_metric = value is None or (isinstance(value, str) and value == metric.name)
        names.append(name)
        scorings.append(search_scoring if is_search_metric else value)
    is_verified_metric = scorings[0] is metric and not is_approximate
    if isinstance(scoring, Mapping):
        return dict(zip(names, scorings, strict=True)), is_verified_metric
    return scorings, is_verified_metric
