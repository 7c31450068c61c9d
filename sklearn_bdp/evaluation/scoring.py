"""Metrics and certificate of a search, and classes for its report, saving and detached holdout."""

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
    UNINFORMATIVE_SHARE,
    warn_about_selected_model,
)
from sklearn_bdp.evaluation.candidates import Candidate, cross_validated, targets
from sklearn_bdp.evaluation.open_holdout import config_of
from sklearn_bdp.exceptions import ScoreContractError, UnboundedMetricError
from sklearn_bdp.holdout import History
from sklearn_bdp.holdout.reusable import ReusableHoldout
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.metrics import PerRecordScore
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.metrics.error_clips import CLIP_NOTE, has_undeclared_range
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

#: Replacement for scores by class if only means over records are proven.
MEANS = "scoring='neg_brier_score', which judges probabilities as ROC AUC does, or 'accuracy'"

#: Names that ``refit`` knows besides those of metrics.
RULES = ("one_se", "best_lower")
#: Note on the approximate interval, which is narrower if losses vary little in time.
_APPROXIMATE = (
    "in time a proven interval uses the whole range of {}. The approximate interval of "
    "final_report() uses how much scores vary between blocks of time. It needs a holdout worth 200 "
    "independent records"
)
#: Part of the range up to which a score that moves is called confirmed.
CONFIRMED = 0.01
_GOALS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@dataclasses.dataclass
class Kept:
    """Scores that the scorers of one fit record, by call."""

    memory: object = None  # of transformed records, if only test records are scored
    scores: list = dataclasses.field(default_factory=list)  # per record, by the metric that ranks
    clipping: list = dataclasses.field(default_factory=list)
    #: Responses to the records that test the fit, by metric without a proven bound.
    predictions: dict = dataclasses.field(default_factory=dict)
    #: Error of a PerRecordScore that breaks its contract: scikit-learn would write NaN and go on.
    breach: Exception | None = None


class MetricScorer:
    """A scikit-learn scorer of a bounded metric, in score units.

    ``kept``: :class:`Kept` of each running fit, by the ``id`` of its estimator.
    ``leads``: whether candidates are ranked by it.
    """

    def __init__(self, metric, kept=None, *, leads=False):
        self.metric = metric
        self.kept = {} if kept is None else kept
        self.leads = leads

    def __call__(self, estimator, X, y=None):
        """Return the score of ``estimator`` on ``(X, y)``; each record counts once."""
        fit_record = self.kept.get(id(estimator))
        if fit_record is not None and fit_record.memory is not None:
            estimator = fit_record.memory.sharing(estimator, X, "tested", metric=self.metric)
        y = targets(X, y)
        if isinstance(self.metric, ApproximateMetric):
            return self._approximate_score(fit_record, estimator, X, y)
        try:
            per_record, value = self.metric.training_scores(estimator, X, y)
        except ScoreContractError as breach:
            if fit_record is None:
                raise
            fit_record.breach = breach
            return math.nan
        if fit_record is not None and self.leads and per_record is not None:
            fit_record.clipping.append(self.metric.clipping(estimator, X, y, per_record))
            fit_record.scores.append(per_record)
        return self.metric.from_unit(value)

    def _approximate_score(self, fit_record, estimator, X, y):
        """Return the scorer's value; record the predictions of test records."""
        if not self.metric.uses_predictions_only:
            score = self.metric.scorer(estimator, X, y)
            if isinstance(score, dict):  # scikit-learn would write NaN and go on
                fit_record.breach = ValueError(
                    "scoring returns a dict of scores: set refit='name' to the one that chooses "
                    f"candidates (one of {sorted(score)})."
                )
                return math.nan
            return float(score)
        predictions = self.metric.predictions(estimator, X, y)
        if fit_record is not None:  # test records are scored before training records
            fit_record.predictions.setdefault(self.metric.name, predictions)
        return self.metric.score_predictions(predictions)


@dataclasses.dataclass(frozen=True)
class WithoutTargets:
    """A caller's score per record without targets: its ``y`` is ``None``."""

    function: Callable

    def __call__(self, estimator, X, y):
        """Return one number per record."""
        return self.function(estimator, X, None)


class DictScorer:
    """A caller's scorer of several metrics, with the verified one computed as on the holdout."""

    def __init__(self, scorer, name, verified):
        self.scorer = scorer
        self.name = name
        self.verified = verified

    def __call__(self, estimator, X, y=None):
        """Return a dict of scores."""
        scores = self.scorer(estimator, X, y)
        if not isinstance(scores, dict) or self.name not in scores:
            return scores if isinstance(scores, dict) else {}  # an error here would become NaN
        return {**scores, self.name: self.verified(estimator, X, y)}


def _public_scorer(estimator, scoring, metric):
    """Return the scorer of scikit-learn for one ``scoring``, or a caller's own as it is."""
    is_own_name = isinstance(scoring, str) and scoring not in get_scorer_names()
    is_sklearn = scoring is None or isinstance(scoring, str) or hasattr(scoring, "_score_func")
    if is_sklearn and not is_own_name:
        return check_scoring(estimator, scoring)
    return scoring if metric is None else MetricScorer(metric)


class Metrics:
    """Metrics of a search: the one that is verified and ranks, those verified beside it, scorers.

    ``name``, ``metric``: the metric that ranks. ``secondary``: the others, by name; further scores
    of a callable are known only after a call, and are not verified. ``scorers``: score the folds,
    with verified metrics as on the holdout; ``kept``: their records of running fits.
    """

    def __init__(self, search, division):
        scoring = search.scoring
        refit = search.refit
        self.search = search
        self.asked = {}
        self.secondary = {}
        self.kept = {}
        refit_is_name = isinstance(refit, str) and refit not in RULES
        if isinstance(scoring, list | tuple | set | dict):
            names = _names_of_metrics(scoring, refit, refit_is_name)
            self.asked = scoring if isinstance(scoring, dict) else {name: name for name in names}
            self.name = refit if refit_is_name else names[0]
            self.metric = _informed(search, self.asked[self.name], division)
        elif refit_is_name and callable(scoring):  # a callable that returns a dict
            self.name = refit
            self.metric = _metric_of_callable(search, division)
        elif refit_is_name and refit != scoring:
            raise ValueError(
                f"refit must be a bool, a callable or one of {list(RULES)} with a single metric, "
                f"got refit={refit!r}."
            )
        else:
            self.name = "score"
            self.metric = _informed(search, scoring, division)
        self._set_secondary_metrics(division)
        self.scorers = self._make_scorers()

    def _set_secondary_metrics(self, division):
        """Set the metrics that do not rank and can be verified."""
        for name in self.asked:
            if name == self.name:
                continue
            with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
                warnings.simplefilter("ignore")
                self.secondary[name] = _informed(self.search, self.asked[name], division)

    def _make_scorers(self):
        """Return scorers of folds for scikit-learn, with verified metrics as on the holdout."""
        scoring = self.search.scoring
        verified = MetricScorer(self.metric, self.kept, leads=True)
        if self.name == "score":
            return verified
        if callable(scoring):
            return DictScorer(scoring, self.name, verified)
        scorers = {**self.asked, self.name: verified}
        for name, metric in self.secondary.items():
            scorers[name] = MetricScorer(metric, self.kept)
        probe = copy.copy(self.search)
        probe.scoring = scorers
        probe.refit = False
        return GridSearchCV._get_scorers(probe)[0]  # raises on unknown names

    def public(self):
        """Return ``scorer_``, which defines :meth:`score` as documented by scikit-learn."""
        estimator = self.search.estimator
        metrics = {self.name: self.metric, **self.secondary}
        if self.asked:
            return {
                name: _public_scorer(estimator, scoring, metrics.get(name))
                for name, scoring in self.asked.items()
            }
        scoring = self.search.scoring
        if self.name != "score":
            return scoring
        return _public_scorer(estimator, scoring, self.metric)


def _names_of_metrics(scoring, refit, refit_is_name):
    """Return the names of several metrics after checking that ``refit`` chooses one of them."""
    names = sorted(scoring) if isinstance(scoring, set) else list(scoring)
    if refit is True or (refit_is_name and refit not in names) or not names:
        raise ValueError(
            "For multi-metric scoring, the parameter refit must be set to a scorer key or "
            f"a callable to refit: the key names the metric to verify (one of {names}); "
            f"with a callable, a rule of {list(RULES)} or False it is the first, got "
            f"refit={refit!r}."
        )
    return names


def _metric_of_callable(search, division):
    """Return the metric that ``refit`` names if ``scoring`` is a callable that returns a dict."""
    try:
        return _informed(search, search.refit, division)
    except (TypeError, ValueError) as error:
        raise UnboundedMetricError(
            f"scoring is a callable, and refit={search.refit!r} does not name a bounded "
            f"metric that could be verified on the holdout: {error}"
        ) from None


def _informed(search, scoring, division):
    """Return the bounded metric that knows the training targets."""
    metric = bounded_metric(search, scoring, division)
    return metric.with_training_targets(division.y, division.train_groups())


def bounded_metric(search, scoring, division):
    """Return the metric of a scorer, and warn of a choice on the caller's behalf.

    Raises if a metric without a proven bound may not choose candidates, and if the sensitivity of
    a metric is not proven under the correlation of the holdout.
    """
    model = division.model
    is_judged_by_date = division.scheme.calendar is not None
    if division.y is None:
        scoring = _score_without_targets(search, scoring)
    config = division.config or getattr(search.holdout, "config", None)
    needed = ""
    if config is not None:  # there is a holdout
        needed = config.proof_needed_for(model, num_samples(division.X_holdout))
    if scoring is None and needed and is_regressor(search.estimator) and not is_judged_by_date:
        raise UnboundedMetricError(
            f"scoring=None is {type(search.estimator).__name__}.score, which has no proven bound, "
            f"and {needed} admits metrics with a proven bound only. Declare the range of the "
            'target: scoring=get_metric("neg_mean_absolute_error", bounds=(low, high)).'
        )
    metric = scorer_metric(
        scoring,
        estimator=search.estimator,
        y=division.y,
        proof_needed_for=needed,
        has_class_bounds=division.scheme.exchangeable,
        has_dates=is_judged_by_date,
    )
    if scoring is None and metric.note:
        is_clipped_later = is_judged_by_date and has_undeclared_range(metric)
        DEFAULT_METRIC.warn(note=CLIP_NOTE if is_clipped_later else metric.note)
    is_approximate = isinstance(metric, ApproximateMetric)
    if not (metric.is_mean or is_approximate or division.scheme.exchangeable):
        raise UnboundedMetricError(
            f"scoring={metric.name!r} is not a mean over records, and its sensitivity is proved "
            f"for independent records and groups only, got {model.describe()}. Use {MEANS}."
        )
    return metric


def _score_without_targets(search, scoring):
    """Return a declared score whose function is called without targets; other scores raise."""
    if not isinstance(scoring, PerRecordScore):
        raise ValueError(
            f"{type(search).__name__} requires y to be passed, but the target y is None; only "
            f"a PerRecordScore can do without, got scoring={scoring!r}."
        )
    name = scoring.name or getattr(scoring.function, "__name__", None)
    function = WithoutTargets(scoring.function)
    return dataclasses.replace(scoring, function=function, name=name)


def plain_certificate(holdout, division, book):
    """Return the certificate of a holdout, with the assumptions about its splits."""
    certificate = holdout_certificate(holdout.account, book)
    assumptions = filter(None, [division.assumption, *book.notes(Fact.ASSUMPTION)])
    return dataclasses.replace(
        certificate, assumptions=(*certificate.assumptions, *dict.fromkeys(assumptions))
    )


def certified(
    holdout, division, metric, assessment, *, of, training, clipping, notes=(), assumptions=()
):
    """Return the certificate with the score of the chosen model; warn if that is misleading.

    ``assessment``: of the chosen model, with its verified score; ``of``: description of the model;
    ``training``: its cross-validated score, in score units; ``clipping``: effect of clipping on the
    training scores.
    """
    score, *interval = assessment.in_units(metric)
    has_interval = assessment.answer.interval != "none"
    warn_about_selected_model(
        holdout,
        metric,
        division,
        of=of,
        score=score,
        interval=interval,
        training=training,
        clipping=clipping,
        has_interval=has_interval,
    )
    caveats = [metric.caveat] if metric.caveat else []
    scheme = holdout.dependence.sampling_scheme(holdout.n)
    if caveats and scheme.in_time_order and scheme.calendar is None:
        # The metric is a loss with a declared range.
        caveats.append(_APPROXIMATE.format(metric.name))
    with holdout.account.read_transaction(latest=False) as book:  # with the state of these answers
        certificate = plain_certificate(holdout, division, book)
    certificate = certificate.in_units(metric.display_name, metric.lower, metric.upper)
    components = None
    if has_interval:
        components = half_width_components(
            assessment.answer, holdout.account.settings, holdout.dependence
        )
    lower, upper = interval
    selected = SelectedScore(
        description=f"{metric.display_name} of {of}",
        score=score,
        lower=lower,
        upper=upper,
        interval=assessment.answer.interval,
        verdict=_verdict(score, training, metric),
        baseline=_baseline(metric, division.y),
        half_width_components=components,
    )
    certificate = dataclasses.replace(
        certificate,
        selected=selected,
        assumptions=(*certificate.assumptions, *assumptions),
        notes=(
            *certificate.notes,
            *caveats,
            *notes,
            *_notes_on_approximation(metric, assessment, holdout),
        ),
    )
    with holdout.account.read_transaction(latest=False) as book:
        return with_forecast(
            certificate,
            holdout,
            book,
            metric,
            n_train=num_samples(division.X),
            training_variance=assessment.variance,
        )


def _verdict(score, cv_score, metric):
    """Return the effect of verification on a cross-validated score; empty without one."""
    if abs(score - cv_score) < CONFIRMED * (metric.upper - metric.lower):
        return "the holdout confirms cross-validation"
    if not math.isfinite(cv_score):
        return ""
    change = f"{score - cv_score:+.3g} (cross-validated: {format_score(cv_score)})"
    return f"the holdout corrects cross-validation by {change}"


def _baseline(metric, training_targets):
    """Return the score of a model that does not use its features; None if it is not known."""
    if metric.name == "roc_auc":
        return 0.5
    if metric.name not in ("accuracy", "balanced_accuracy"):
        return None
    class_counts = np.unique(np.asarray(training_targets), return_counts=True)[1]
    if metric.name == "balanced_accuracy":
        return float(1 / class_counts.size)
    return float(class_counts.max() / class_counts.sum())


def _notes_on_approximation(metric, assessment, holdout):
    """Yield notes on the interval of a metric without a proven bound."""
    if not isinstance(metric, ApproximateMetric) or assessment.reference is None:
        return
    reference = assessment.reference
    answer = assessment.answer
    if reference.family == "none":
        yield f"{metric.name} chooses candidates without an interval: {reference.reason}"
        return
    if reference.clips:
        error_clips, deviation_clips, means = (
            ", ".join(f"{number:.3g}" for number in numbers)
            for numbers in zip(*reference.clips, strict=True)
        )
        yield (
            f"squared errors count at most {error_clips} on the holdout, and deviations of targets "
            f"from the training mean {means} at most {deviation_clips} squared: the value and its "
            f"interval are about {metric.name} with these limits"
        )
    if reference.loss_clips:
        loss_clips = ", ".join(f"{number:.3g}" for number in reference.loss_clips)
        yield (
            f"the loss of a record counts at most {loss_clips} on the holdout: the value and its "
            f"interval are about {metric.name} with this limit"
        )
    code_length = getattr(answer, "code_length", math.nan)
    level = holdout.account.settings.sampling_failure / 2.0 * math.exp(-code_length)
    if level < metric.tested_level:
        yield (
            f"the approximate interval has a level of {level:.1g} on each side, beyond the range "
            f"in which the method was simulated (down to {metric.tested_level:g})"
        )


def with_forecast(certificate, holdout, book, metric, *, n_train, training_variance):
    """Return a certificate with forecasts for its metric and the selected score.

    ``training_variance``: of a record's score on the training set; NaN if it is not known.
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
        expected = metric.to_unit(selected.score) if has_score else 0.5
        preview = preview_batch(account, book, score=expected, metric=metric, n_train=n_train)
        next_query = preview.half_width
        forecast = dataclasses.replace(forecast, next_query=next_query, advice="")
        certificate = dataclasses.replace(
            certificate, half_width=max(certificate.half_width, next_query), forecast=forecast
        )
    if not math.isfinite(selected.score):
        return certificate
    score_range = metric.upper - metric.lower
    half_width = 0.5 * (selected.upper - selected.lower) / score_range
    preview = preview_batch(
        account,
        book,
        score=metric.to_unit(selected.score),
        metric=metric,
        n_train=n_train,
        training_variance=training_variance,
    )
    next_query = preview.half_width
    if metric.is_mean and 2.0 * half_width < UNINFORMATIVE_SHARE:
        # The variance of the scores may be known to be small (theory G15).
        next_query = min(next_query, half_width)
    # All parts of a width shrink like 1 / sqrt(n), unless the interval ends where the range does.
    advice = ""
    if shrinks_with_records and 2.0 * next_query < UNINFORMATIVE_SHARE:
        scheme = holdout.dependence.sampling_scheme(holdout.n)
        advice = required_records_text(_GOALS, next_query, scheme, score_range)
    return dataclasses.replace(
        certificate,
        forecast=dataclasses.replace(
            forecast, final_report=min(preview.half_width_final, half_width)
        ),
        selected=dataclasses.replace(selected, next_query=next_query, advice=advice),
    )


# -- released values and copies of a fitted search or selector, without holdout records ----------


def clipping_of(setting, columns):
    """Return the effect of clipping on the folds for a model of some columns; None without one.

    No model is fitted for a metric that does not clip.
    """
    if setting.metric.caveat and columns:
        with (
            warnings.catch_warnings(),
            contextlib.suppress(Exception),
        ):  # warned about when it was scored
            warnings.simplefilter("ignore")
            return cross_validated(setting, Candidate(columns=columns))[1]
    return None


def released(metric, answers, *, end=""):
    """Return the released values of one metric, in score units, and the source of each answer."""
    value, lower, upper = (
        np.array([getattr(answer, name) for answer in answers])
        for name in ("value", "lower", "upper")
    )
    lower, upper = metric.ends_from_unit(lower, upper)
    return {
        f"answered_from{end}": np.array([answer.source for answer in answers]),
        f"holdout_score{end}": metric.from_unit(value),
        f"holdout_lower{end}": lower,
        f"holdout_upper{end}": upper,
        f"holdout_interval{end}": np.array([answer.interval for answer in answers]),
    }


@dataclasses.dataclass(frozen=True)
class DetachedHoldout:
    """Answers that a holdout has released, without its records; it accepts no query.

    Parameters
    ----------
    n : int
        Number of records.
    confidence_level : float
        Minimum probability that all intervals are correct together.
    information_spent : float
        Nats that the answers have revealed.
    next_code_length : float
        Nats that a next query would have paid.
    remaining_budget : int or None
        "Above" answers that were left.
    """

    n: int
    confidence_level: float
    information_spent: float
    next_code_length: float
    remaining_budget: int | None
    _certificate: HoldoutCertificate = dataclasses.field(repr=False)
    _records: History = dataclasses.field(repr=False)
    marks: Any = dataclasses.field(repr=False)  # of the records that it does not hold

    def __getattr__(self, name):
        raise AttributeError(
            f"this copy carries no holdout, so {name} is not available. Use the search that "
            "without_holdout() was called on."
        )

    def certificate(self):
        """Return the guarantee as it stood.

        Returns
        -------
        HoldoutCertificate
            As :meth:`ReusableHoldout.certificate <sklearn_bdp.ReusableHoldout.certificate>`.
        """
        return self._certificate

    def history(self):
        """Return everything that had been released, oldest first.

        Returns
        -------
        History
            A sequence of :class:`~sklearn_bdp.holdout.AnswerRecord`.
        """
        return self._records


class Savable:
    """Mixin of estimators with a parameter ``holdout`` and, once fitted, a ``holdout_``."""

    holdout: Any

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``holdout__<name>`` sets a field of the configuration of the holdout.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator. For fields, ``holdout`` is replaced by a changed copy; a
            fraction becomes a :class:`~sklearn_bdp.HoldoutConfig` first.

        Returns
        -------
        object
            The estimator itself.
        """
        prefix = "holdout__"
        fields = {name: params.pop(name) for name in list(params) if name.startswith(prefix)}
        super().set_params(**params)  # type: ignore[misc] # of BaseEstimator, which is untyped
        if fields:
            config = None if self.holdout is None else config_of(self)
            if config is None:
                raise ValueError(
                    f"{min(fields)} cannot be set: holdout is None or made already, got "
                    f"{type(self.holdout).__name__}. Set it to a fraction or a HoldoutConfig first."
                )
            fields = {name.removeprefix(prefix): value for name, value in fields.items()}
            self.holdout = config.set_params(**fields)
        return self

    def without_holdout(self) -> Any:
        """Return a copy of the fitted object that carries no holdout record.

        A fitted search carries its holdout, so that the next search can go on with it: whoever
        gets the pickle gets the records. The copy predicts and shows everything that was released
        (``cv_results_``, ``certificate_``, ``holdout_.history()``). To recognize holdout records
        that are passed to a later fit, it keeps a truncated digest of each uniquely identified
        holdout record. Fitting it again needs ``set_params(holdout=...)``.

        Returns
        -------
        object
            A copy with a ``holdout_`` that shows past answers but accepts no query.
        """
        if not isinstance(getattr(self, "holdout_", None), ReusableHoldout):
            raise ValueError(
                f"without_holdout needs a fitted {type(self).__name__} with a holdout, got one "
                "that has none."
            )
        twin: Any = copy.copy(self)
        holdout = twin.holdout_
        fingerprints = holdout.account.training_rows.record_fingerprints(holdout.X, holdout.y)
        twin.holdout_ = DetachedHoldout(
            holdout.n,
            holdout.confidence_level,
            holdout.information_spent,
            holdout.next_code_length,
            holdout.remaining_budget,
            holdout.certificate(),
            holdout.history(),
            fingerprints,
        )
        if isinstance(twin.holdout, ReusableHoldout):
            twin.holdout = twin.holdout_
        vars(twin).pop("_unfinished", None)
        return twin

    # A notebook shows score and interval above scikit-learn's diagram.

    def _card(self):
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else certificate._repr_html_()

    def _repr_html_inner(self):
        return self._card() + super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        return {
            mime_type: self._card() + content if mime_type == "text/html" else content
            for mime_type, content in bundle.items()
        }


class Reporting(Savable):
    """Mixin of estimators that choose one verified model: its final report."""

    holdout_: ReusableHoldout
    _has_fit_params: bool  # whether the model was fitted with more than records and targets
    #: Content of a report beside ``compare``: models by name, their cross-validated scores, the
    #: metric that verified them and the variance of a record's score.
    _to_report: Callable[..., tuple]

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
        """Report the final score of the verified model with a narrow interval; close the holdout.

        Parameters
        ----------
        scoring : str, BoundedMetric, scorer, None, a list or a dict of them, default=None
            Metrics; a dict names them. ``None``: the one of the search or selection.
        compare : str, estimator or array-like, default=None
            A baseline whose difference to the model is reported, too: an estimator fitted on
            ``X[train_indices_]``, or predictions of the holdout records. How much the difference
            varies is cross-validated on the folds of the search. In time also ``"naive"`` (the last
            known target) and ``"seasonal-7"`` (that of seven dates before); of a feature selector
            also ``"fixed"``, the model of the fixed features alone.
        by, per, joint : object
            As for :meth:`sklearn_bdp.ReusableHoldout.final_report`.
        refit_every : int or timedelta, default=None
            Under ``correlation="time"``: report the recipe of the model, refitted before every
            block of so many dates on all records known by then.

        Returns
        -------
        FinalReport
            As :meth:`sklearn_bdp.ReusableHoldout.final_report`: a card with the score of
            ``best_estimator_`` of a search, or of ``estimator_`` of a selector on its
            ``support_``, its interval, and the queries before it.

        Raises
        ------
        HoldoutClosedError
            If the holdout gave another final report.
        ValueError
            If there is no holdout, no model was kept, or there is none of fixed features beside the
            selected one.
        """
        models, values, metric, variance = self._to_report(compare)
        if refit_every is not None and self._has_fit_params:
            raise ValueError(
                "refit_every= fits the recipe without other parameters, and fit was passed some. "
                "The holdout was not queried."
            )
        scorings, is_verified_metric = _scorings_of_report(scoring, metric)
        has_values = is_verified_metric and np.isfinite(values).all()
        return report_and_close(
            self.holdout_,
            models,
            values if has_values else None,
            compare=compare,
            by=by,
            per=per,
            refit_every=refit_every,
            joint=joint,
            scoring=scorings,
            variance=variance if is_verified_metric else None,
        )

    def _forecast_report(self, *, scoring, compare, by, per, joint):
        """Return the expected rows of :meth:`final_report`, from training records only."""
        models, values, metric, variance = self._to_report(compare)
        scorings, is_verified_metric = _scorings_of_report(scoring, metric)
        has_values = is_verified_metric and np.isfinite(values).all()
        return forecast_report(
            self.holdout_,
            models,
            values if has_values else None,
            compare=compare,
            by=by,
            per=per,
            joint=joint,
            scoring=scorings,
            variance=variance if is_verified_metric else None,
        )


def _scorings_of_report(scoring, metric):
    """Return the metrics of a report, and whether the first one is the verified metric.

    ``scoring``: as passed by a caller. ``metric``: that of the search, meant by None and its name.
    """
    named = named_metrics(scoring)
    is_approximate = isinstance(metric, ApproximateMetric)
    verified = metric.scoring if is_approximate else metric
    scorings = [
        verified if value is None or (isinstance(value, str) and value == metric.name) else value
        for _, value in named
    ]
    is_verified_metric = scorings[0] is metric and not is_approximate
    if isinstance(scoring, Mapping):
        names = [name for name, _ in named]
        return dict(zip(names, scorings, strict=True)), is_verified_metric
    return scorings, is_verified_metric
