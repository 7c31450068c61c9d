"""Metrics of the rows in a final report, and the contribution of each record.

Metrics of one class count the class ``pos_label``, as in scikit-learn. A label unknown to the model
does not belong to any of its classes.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, is_classifier, is_clusterer, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, median_absolute_error
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.intervals.jackknife import GENERIC
from sklearn_bdp.metrics.approximate import ApproximateMetric
from sklearn_bdp.metrics.base import METRICS, BoundedMetric, Metric, as_labels, score_rows
from sklearn_bdp.metrics.registry import metric_without_range
from sklearn_bdp.metrics.scoring import get_metric
from sklearn_bdp.metrics.statistics import HIT_SHARE, MEAN_LEFT_OUT
from sklearn_bdp.utils.sklearn_compat import safe_indexing
from sklearn_bdp.utils.validation import check_supported_values, check_targets

_UNBOUNDED = (
    "A proven interval needs the range of the targets: scoring=get_metric({!r}, "
    "bounds=(low, high)), or training=(X, y)."
)
_NAME_CLASSES = "Name all classes: from_targets(y, training_targets=[...]), or training=(X, y)."
#: Output of each method of a model, in words.
_OUTPUT_OF_METHOD = {
    "predict": "labels",
    "predict_proba": "probabilities",
    "decision_function": "scores",
}
#: Largest accepted distance of a record's sum of probabilities from 1.
_PROBABILITY_ERROR = 1e-3
#: Arguments of scorers that this module reads itself.
_OWN_SCORER_ARGUMENTS = {"pos_label", "zero_division"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScorerMetric(Metric):
    """Any scorer or function ``(estimator, X, y)``, of which only the values are known."""

    scorer: Any = dataclasses.field(repr=False)

    def score(self, estimator: Any, X: Any, y: Any, **score_params: Any) -> float:
        """Return the value of the scorer."""
        return float(self.scorer(estimator, X, y, **score_params))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric as the rows of a report show it."""

    name: str  # as rows name it
    metric: Any  # a Metric
    pos_label: Any = None  # the class that is counted; None without one
    note: str = ""  # names the arguments that would give it a proven interval; else empty

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean of scores of records, each in [0, 1] after rescaling."""
        return self.metric.is_mean

    @property
    def is_ratio_of_sums(self) -> bool:
        """Whether it is the ratio of two sums over records."""
        return self.metric.is_mean or self.metric.is_ratio

    @property
    def is_recomputed(self) -> bool:
        """Whether only its values are known, without a statistic of its own."""
        return self.metric.unit_statistic is GENERIC and not self.is_ratio_of_sums

    @property
    def score_function(self) -> Any:
        """Function ``(y, predictions)`` of a scorer of which only its values are known, or None."""
        return getattr(getattr(self.metric, "scorer", None), "_score_func", None)

    @property
    def estimation(self) -> str:
        """Method of its approximate intervals, as rows name it."""
        is_median = self.score_function is median_absolute_error
        return "order statistics" if is_median else "jackknife"

    @property
    def score_range(self) -> tuple[float, float]:
        """Ends of the range of a mean in score units; (0, 1) for any other metric."""
        return (self.metric.lower, self.metric.upper) if self.metric.is_mean else (0.0, 1.0)


def named_metrics(scoring: Any) -> list[tuple[str | None, Any]]:
    """Return pairs of a name, None without one, and a metric, in the order of a report.

    ``scoring``: one metric, a list of metrics or a mapping of names to metrics. Raise ValueError if
    it holds none.
    """
    pairs = _pairs_of_name_and_metric(scoring)
    if not pairs:
        raise ValueError("scoring must hold at least one metric, got none.")
    # A NumPy string becomes a plain one: its type would be part of the ledger and of keys.
    return [(name, str(metric) if isinstance(metric, str) else metric) for name, metric in pairs]


def _pairs_of_name_and_metric(scoring: Any) -> list[tuple[str | None, Any]]:
    """Return pairs of a name and a metric of a ``scoring`` argument.

    Names are those of a mapping; in a list or alone, a metric has the name None.
    """
    if isinstance(scoring, np.ndarray):
        scoring = scoring.tolist()
    if isinstance(scoring, Mapping):
        return [(str(name), metric) for name, metric in scoring.items()]
    if isinstance(scoring, list | tuple):
        return [(None, metric) for metric in scoring]
    return [(None, scoring)]


def measure_of(scoring: Any, model: Any, y: Any, *, n_outputs: int = 1) -> Measure:
    """Return the :class:`Measure` of a ``scoring`` argument.

    Of several outputs, only means of scores of records have a statistic of their own. Other metrics
    are functions of which the values are known.

    Parameters
    ----------
    scoring : str, metric, callable or None
        Metric of a row; None for the default metric of the model.
    model : estimator or PrecomputedPredictions
        Model that is scored.
    y : array-like or None
        Training targets, if known.
    n_outputs : int, default=1
        Number of outputs of the targets.

    Raises
    ------
    ValueError, TypeError
        If it is not a metric for this model.
    """
    _check_signature(scoring)
    if isinstance(scoring, ApproximateMetric):  # of a search
        scoring = scoring.scoring
    classes = classes_of(model, y)
    scorer = _scorer_of(scoring)
    unranged, pos_label = _metric_without_range(scoring, scorer)
    if unranged is not None and unranged.is_ratio and n_outputs == 1:
        _check_class(unranged.name, pos_label, classes)
        return Measure(name=unranged.name, metric=unranged, pos_label=pos_label)
    metric: Metric | None
    note = ""
    try:
        metric = get_metric(scoring, estimator=model, y=y)
    except ValueError as error:
        if isinstance(error, UnboundedMetricError):  # no range would give it a proven interval
            metric = unranged
        else:
            metric, note = _without_declared_range(scoring, model, unranged)
        if metric is None and scorer is None:
            raise
    else:
        if metric.is_mean:
            return Measure(name=metric.display_name, metric=metric)
    if metric is None or _is_scored_by_values(metric, scorer, classes, n_outputs):
        return _measure_by_values(scoring, scorer)
    if not _reads_one_class(metric):
        return Measure(name=metric.name, metric=metric, note=note)
    return _measure_of_one_class(metric, pos_label, classes)


def _measure_of_one_class(metric, pos_label, classes):
    """Return the :class:`Measure` of a metric of one class.

    The class is ``pos_label`` if this is an option of the metric, else the last of ``classes``, or
    1 if they are not known. Raise ValueError if it is none of ``classes``.
    """
    if "pos_label" not in metric.options:
        pos_label = 1 if classes is None else classes[-1]
    _check_class(metric.name, pos_label, classes)
    return Measure(name=metric.name, metric=metric, pos_label=pos_label)


def _without_declared_range(scoring, model, unranged):
    """Return the metric without the range of the targets, and a note on how to declare it.

    ``unranged``: the metric of ``scoring`` for approximate rows, or None. The default metric of a
    regressor is the absolute error. The metric is None if there is none of this kind, and the note
    is empty unless the metric reads predicted numbers.
    """
    metric = unranged
    if scoring is None and not hasattr(model, "classes_"):
        metric = metric_without_range("neg_mean_absolute_error")
    if metric is None or metric.unit_statistic.response != "values":
        return metric, ""
    return metric, _UNBOUNDED.format(metric.name)


def _check_signature(scoring):
    """Raise TypeError if a callable does not take an estimator, records and targets.

    Names, None and scorers of metrics are not checked.
    """
    if not callable(scoring) or hasattr(scoring, "metric"):
        return
    try:
        inspect.signature(scoring).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "scoring must be a name, a metric or a function (estimator, X, y) that returns one "
            f"number, got {scoring!r:.80}."
        ) from error


def _scorer_of(scoring: Any) -> Any:
    """Return the scorer of a name, or a callable itself; None for None, metrics and other names."""
    if isinstance(scoring, str):
        try:
            return get_scorer(scoring)
        except ValueError:
            return None
    return scoring if callable(scoring) else None


def _reads_one_class(metric: Metric) -> bool:
    """Return whether a metric reads the scores or probabilities of the positive class."""
    return metric.unit_statistic.response in ("scores", "chances")


def _is_scored_by_values(metric, scorer, classes, n_outputs):
    """Return whether a row calls the scorer, instead of using the statistic of its metric.

    It does for several outputs, and for a metric of two classes and a model of another number of
    classes. Raise ValueError then for metrics without a scorer, and for ROC AUC of such a model.
    """
    if n_outputs > 1:
        if scorer is None:
            raise ValueError(
                f"scoring={metric.name!r} needs targets of one output, got {n_outputs}. Use a "
                "scorer of scikit-learn, such as 'r2' or 'f1_macro'. The holdout was not queried."
            )
        return True
    if not _reads_one_class(metric) or classes is None or len(classes) == 2:
        return False
    if scorer is None or metric.name == "roc_auc":
        raise ValueError(
            f"scoring={metric.name!r} needs two classes, got a model of {len(classes)}. Use "
            "'roc_auc_ovr', 'accuracy' or 'neg_log_loss'. The holdout was not queried."
        )
    return True


def _measure_by_values(scoring, scorer):
    """Return the :class:`Measure` of a scorer of which only the values are known."""
    function = getattr(scorer, "_score_func", scorer)
    name = getattr(function, "__name__", type(function).__name__)
    name = scoring if isinstance(scoring, str) else name
    metric = ScorerMetric(name=name, lower=-math.inf, upper=math.inf, scorer=scorer)
    return Measure(name=name, metric=metric)


def _metric_without_range(scoring, scorer):
    """Return the metric that ``scoring`` has without a range of targets, and its ``pos_label``.

    ``scoring`` is None, a name, a metric or a scorer. A `BoundedMetric` is returned if it is a
    ratio. The metric is None if there is none without a range, or if only its values are known. The
    class ``pos_label`` is 1 unless ``scoring`` sets it.
    """
    if isinstance(scoring, BoundedMetric):
        pos_label = getattr(scoring, "pos_label", 1)
        return (scoring if scoring.is_ratio else None), pos_label
    metric = metric_without_range(scoring)
    if metric is not None or scorer is None:
        has_values_only = metric is not None and metric.unit_statistic is GENERIC
        return (None if has_values_only else metric), 1
    for name in METRICS:
        with contextlib.suppress(ValueError):
            if _scorer_identity(get_scorer(name)) == _scorer_identity(scorer):
                return metric_without_range(name), scorer._kwargs.get("pos_label", 1)
    return None, 1


def _scorer_identity(scorer):
    """Return the function, sign and arguments that identify a scorer.

    Arguments that this module reads itself are left out, and ``average="binary"``, the default.
    """
    arguments = {
        name: value
        for name, value in getattr(scorer, "_kwargs", {}).items()
        if name not in _OWN_SCORER_ARGUMENTS and value != "binary"
    }
    score_function = getattr(scorer, "_score_func", scorer)
    return score_function, getattr(scorer, "_sign", None), arguments


def _check_class(metric_name, pos_label, classes):
    """Raise ValueError if the class that a metric counts is not one of the model's classes."""
    if classes is None or pos_label in classes:
        return
    raise ValueError(
        f"scoring={metric_name!r} counts the class pos_label={pos_label!r}, which is none of "
        f"{classes}. Name another one, as in make_scorer({metric_name}_score, "
        f"pos_label={classes[-1]!r}). The holdout was not queried."
    )


def classes_of(model: Any, y: Any) -> list[Any] | None:
    """Return the classes of a model, else those of training targets ``y``; None without classes.

    Floats are not classes, other targets are.
    """
    classes = getattr(model, "classes_", None)
    if classes is None and y is not None and np.asarray(y).dtype.kind != "f":
        classes = np.unique(as_labels(y))
    return None if classes is None else np.asarray(classes).tolist()


class UndefinedScore(Exception):
    """The score is undefined for these records: a scorer, a model or a formula fails on them."""


class PrecomputedPredictions:
    """Precomputed predictions with the methods of a model: ``X`` contains positions of records.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, n_columns)
        One column of labels or numbers, or a column of probabilities for each class.
    classes : list or None
        Classes of the targets; None for numbers, and for probabilities of the classes 0 and 1.
    keyword : str or None, default=None
        Keyword that creates the predictions (``"naive"``); None if they were passed.
    output_response : str, default=""
        Of several outputs, a column each: the method that returns them. Empty for one output.
    """

    def __init__(
        self,
        values: Any,
        classes: list[Any] | None,
        *,
        keyword: str | None = None,
        output_response: str = "",
    ) -> None:
        self.values = as_labels(values)
        self.keyword = keyword
        if output_response:
            setattr(self, output_response, self._values_at)
            if output_response != "predict":  # scorers take other responses of classifiers only
                self.classes_ = np.arange(self.values.shape[1])
            return
        if classes is not None or self.values.ndim == 2:
            self.classes_ = np.asarray([0, 1] if classes is None else classes)

        # scikit-learn reads the name of a method.
        def predict_proba(X):
            values = self._values_at(X)
            return values if values.ndim == 2 else np.column_stack([1 - values, values])

        def decision_function(X):
            return self._values_at(X)

        def predict(X):
            values = self._values_at(X)
            return values if values.ndim == 1 else self.classes_[np.argmax(values, axis=1)]

        if self.values.ndim == 2:
            self.predict_proba = predict_proba
            self.predict = predict
        elif not _are_numbers_of_two_classes(self.values, classes):
            self.predict = predict
        else:
            self.decision_function = decision_function
            if np.min(self.values) >= 0.0 and np.max(self.values) <= 1.0:
                self.predict_proba = predict_proba

    def __sklearn_tags__(self):
        # Scorers of scikit-learn read classes of classifiers, and take predictions of others.
        return get_tags(DummyClassifier() if hasattr(self, "classes_") else BaseEstimator())

    def _values_at(self, X):
        """Return the predictions at the positions in ``X``."""
        return self.values[np.asarray(X).ravel().astype(int)]

    def unsupported_error(self, name: str, methods: Any) -> TypeError:
        """Return the error of a metric that needs another kind of predictions.

        ``name``: name of the metric. ``methods``: names of the methods of a model that it can use.
        """
        required = " or ".join(_OUTPUT_OF_METHOD[method] for method in methods)
        provided = "numbers beyond [0, 1]"
        if hasattr(self, "predict_proba"):
            provided = "probabilities"
        elif hasattr(self, "predict"):
            provided = "labels or numbers"
        elif self.values.ndim == 2:
            provided = "scores of labels"
        fix = _NAME_CLASSES
        if hasattr(self, "classes_"):
            fix = f"Pass {' or '.join(f'model.{method}(X)' for method in methods)}"
            fix += ", or set scoring='accuracy'." if provided == "labels or numbers" else "."
        return TypeError(
            f"scoring={name!r} reads {required}, and predictions are {provided}. {fix} The holdout "
            "was not queried."
        )


def _are_numbers_of_two_classes(values, classes):
    """Return whether values rank records by two classes and are not labels themselves."""
    if values.dtype.kind != "f" or classes is None or len(classes) != 2:
        return False
    return not set(np.unique(values).tolist()) <= set(classes)


def is_label(values, label):
    """Return a mask of the values of an array that equal a label."""
    return np.array([value == label for value in values.tolist()], dtype=bool)


class ScoredRecords:
    """Records and the models that are scored on them, such as those of the closed holdout.

    A copy of each model predicts, so that the model itself stays unchanged even if predicting
    changes its state. A model that cannot be copied predicts itself.
    """

    def __init__(self, X: Any, y: Any, models: dict[str, Any]) -> None:
        self.X = X
        self.y = as_labels(y)
        self.models = models
        self._model_copies: dict[str, Any] = {}  # by name of the model
        self._cached: dict[tuple[str, ...], Any] = {}  # results of methods, by model and arguments
        #: For each of these results: positions of the records that the model failed on.
        self._failing_of_result: dict[tuple[str, ...], Any] = {}
        #: By name of the model: the same positions for the result that was returned last.
        self.failing: dict[str, Any] = {}

    def model_and_data(self, name: str) -> tuple[Any, Any]:
        """Return a model and the records in the form of its input."""
        model = self.models[name]
        if isinstance(model, PrecomputedPredictions):
            return model, np.arange(len(self.y))[:, None]
        if name not in self._model_copies:
            try:
                self._model_copies[name] = copy.deepcopy(model)
            except Exception:  # a model that cannot be copied predicts itself
                self._model_copies[name] = model
        return self._model_copies[name], self.X

    def contributions(self, measure: Measure, name: str) -> tuple[Any, Any]:
        """Return each record's contribution to the numerator and to the denominator.

        They are arrays of shape (n,). Of a mean, numerators are scores in [0, 1] and denominators
        are 1. ``measure``: a mean or a ratio. ``name``: of the model.
        """
        key = name, repr(measure.metric), repr(measure.pos_label), "contributions"
        if key not in self._cached:
            if measure.metric.is_ratio:
                hits, denominators = measure.metric.counts(*self._positives(measure, name))
                self._cached[key] = hits.astype(float), denominators.astype(float)
                self._failing_of_result[key] = self.failing[name]
            else:
                evaluation = measure.metric.evaluate(*self.model_and_data(name), self.y)
                self._cached[key] = evaluation.per_record, np.ones(len(self.y))
                self._failing_of_result[key] = evaluation.failing
        self.failing[name] = self._failing_of_result[key]
        return self._cached[key]

    def _positives(self, measure, name):
        """Return masks of the actual and of the predicted positives, of shape (n,).

        A record that the model ``name`` fails on counts as predicted wrongly.
        """
        actual = is_label(self.y, measure.pos_label)
        predicted = self.predictions(name, "is_positive", measure.pos_label)
        return actual, np.where(np.isnan(predicted), ~actual, predicted == 1.0)

    def predictions(self, name: str, response: str, pos_label: Any = None) -> Any:
        """Return a predicted number for each record, NaN if the model fails on it.

        Parameters
        ----------
        name : str
            Name of the model.
        response : {"is_positive", "scores", "chances", "values"}
            1 for records predicted as positive, else 0; the score or the probability of the
            positive class; or the predicted values of a regression.
        pos_label : object, default=None
            The positive class. Not used for ``"values"``.
        """
        key = name, response, repr(pos_label)
        return self._numbers(key, lambda model, X: _predict_response(model, X, response, pos_label))

    def predicted_codes(self, name: str) -> Any:
        """Return the code of each predicted label, NaN if the model fails on the record.

        Codes are those of :meth:`label_codes`; a label without a code has -1.
        """
        _, code_of_label = self.label_codes(name)
        key = name, "codes"
        return self._numbers(key, lambda model, X: _predict_codes(model, X, code_of_label))

    def _numbers(self, key, predict):
        """Return the numbers of ``predict(model, X)``, computed once for each key.

        They are NaN for records that the model fails on. ``key``: name of the model and further
        identifiers.
        """
        name = key[0]
        if key not in self._cached:
            model, X = self.model_and_data(name)
            self._cached[key] = score_rows(lambda model, X, _: predict(model, X), model, X, self.y)
            self._failing_of_result[key] = np.flatnonzero(np.isnan(self._cached[key]))
        self.failing[name] = self._failing_of_result[key]
        return self._cached[key]

    def losses(self, measure: Measure, name: str) -> Any:
        """Return the loss of each record by a model; ``name``: of the model.

        The loss is minus the record's score in score units if the measure is a mean, else a power
        of the absolute error.
        """
        if measure.is_mean:
            low, high = measure.score_range
            unit_scores, _ = self.contributions(measure, name)
            return -low - (high - low) * unit_scores
        return np.abs(self.y - self.predictions(name, "values")) ** measure.metric.error_power

    def scorer_value(self, measure: Measure, name: str, positions: Any, weights: Any) -> float:
        """Return a scorer's value, in score units, for the records at some positions.

        ``weights``: of all records; passed to the scorer if those above 0 differ. Raise
        UndefinedScore if the scorer or the model raises an error.
        """
        model, X = self.model_and_data(name)
        has_uneven_weights = np.ptp(weights[weights > 0.0]) > 0.0
        score_params = {"sample_weight": weights[positions]} if has_uneven_weights else {}
        try:
            X_selected = safe_indexing(X, positions)
            y_selected = self.y[positions]
            return float(measure.metric.score(model, X_selected, y_selected, **score_params))
        except Exception as error:  # of the user's scorer or model
            raise UndefinedScore(
                f"The score is undefined for these records: {measure.name} raised "
                f"{type(error).__name__}."
            ) from error

    def absolute_errors(self, name: str) -> Any:
        """Return the absolute error of each record by the model ``name``.

        Raise UndefinedScore if the model fails on a record.
        """
        predictions = self.predictions(name, "values")
        if not np.isfinite(predictions).all():
            raise UndefinedScore("The score is undefined: the model fails on some records.")
        return np.abs(self.y.astype(float) - predictions)

    def label_codes(self, name: str) -> tuple[Any, dict[Any, int]]:
        """Return the targets of the records as integer codes, and a dict of the code of each label.

        Labels are the classes of the model ``name``, then the other targets.
        """
        key = name, "label_codes"
        if key not in self._cached:
            model, _ = self.model_and_data(name)
            classes = classes_of(model, None) or []
            other_labels = [label for label in np.unique(self.y).tolist() if label not in classes]
            code_of_label = {label: code for code, label in enumerate([*classes, *other_labels])}
            target_codes = np.array([code_of_label[label] for label in self.y.tolist()])
            self._cached[key] = target_codes, code_of_label
        return self._cached[key]

    def statistic_and_data(self, measure: Measure, name: str, weights: Any) -> tuple[Any, Any, Any]:
        """Return the statistic of a measure, and targets and predictions in its form.

        A scorer of which only the values are known has zeros as targets. Its predictions are a
        function that returns its value for the records at some positions. ``weights``: of all
        records, for this function. A record that the model fails on has the worst score in means
        and ratios. Raise UndefinedScore if it has none.
        """
        if measure.is_recomputed:
            value_at = functools.partial(self.scorer_value, measure, name, weights=weights)
            return GENERIC, np.zeros(len(self.y)), value_at
        if measure.metric.is_ratio:
            actual, predicted = self._positives(measure, name)
            return measure.metric.unit_statistic, actual.astype(int), predicted.astype(int)
        if measure.is_mean:
            return self._statistic_of_mean(measure, name)
        y, predictions = self._targets_and_predictions(measure, name)
        if not np.isfinite(predictions).all():
            raise UndefinedScore("The score is undefined: the model fails on some records.")
        return measure.metric.unit_statistic, y, np.asarray(predictions, dtype=float)

    def _statistic_of_mean(self, measure, name):
        """Return the statistic of a mean over records, its targets, and the scores of records.

        Scores of zeros and ones are left as they are, with ones as targets. Other scores are in
        score units, or losses. Their targets are codes of labels, or zeros.
        """
        unit_scores, _ = self.contributions(measure, name)
        if measure.metric.is_binary:
            return HIT_SHARE, np.ones(len(unit_scores)), unit_scores
        low, high = measure.score_range
        statistic = measure.metric.unit_statistic._replace(left_out=MEAN_LEFT_OUT)
        scores = low + (high - low) * unit_scores
        has_no_outcomes = (
            self.y.dtype.kind == "f" or self.y.ndim > 1 or statistic.outcome_masks is None
        )
        y = np.zeros(len(unit_scores)) if has_no_outcomes else self.label_codes(name)[0]
        return statistic, y, -scores if statistic.is_negated else scores

    def _targets_and_predictions(self, measure, name):
        """Return targets and predictions in the form that the statistic of a metric reads.

        They are numbers; zeros and ones with scores or probabilities of the positive class; or
        codes of labels with predicted codes, or with the probabilities of all classes.
        """
        response = measure.metric.unit_statistic.response
        if response == "values":
            return self.y.astype(float), self.predictions(name, "values")
        if response in ("scores", "chances"):
            y = is_label(self.y, measure.pos_label).astype(int)
            return y, self.predictions(name, response, measure.pos_label)
        y, _ = self.label_codes(name)
        if response == "labels":
            return y, self.predicted_codes(name)
        return y, _all_chances(*self.model_and_data(name))


def _all_chances(model, X):
    """Return the probabilities of all classes, of shape (n, n_classes).

    Raise UndefinedScore if the model raises an error.
    """
    try:
        return np.asarray(model.predict_proba(X), dtype=float)
    except Exception as error:  # of the user's model
        raise UndefinedScore(
            f"The score is undefined for these records: the model raised {type(error).__name__}."
        ) from error


def _predict_response(model, X, response, pos_label):
    """Return one number per record from a model's predictions.

    ``response`` and ``pos_label`` are those of :meth:`ScoredRecords.predictions`. Scores of a model
    without ``decision_function`` are its probabilities.
    """
    if response == "values":
        return np.asarray(model.predict(X), dtype=float).reshape(-1)
    if response == "is_positive":
        return is_label(as_labels(model.predict(X)), pos_label).astype(float)
    classes = np.asarray(getattr(model, "classes_", [0, 1])).tolist()
    class_index = classes.index(pos_label)
    if response == "scores" and hasattr(model, "decision_function"):
        decision_scores = np.asarray(model.decision_function(X), dtype=float).reshape(-1)
        return decision_scores if class_index == 1 else -decision_scores
    return np.asarray(model.predict_proba(X), dtype=float)[:, class_index]


def _predict_codes(model, X, code_of_label):
    """Return the code of each predicted label, -1 for labels without a code."""
    predicted_labels = as_labels(model.predict(X)).tolist()
    return np.array([code_of_label.get(label, -1.0) for label in predicted_labels])


def compute_score(
    measure: Measure, records: ScoredRecords, name: str, weights: Any = None
) -> float:
    """Return the score of a model in score units; NaN if no record counts.

    Parameters
    ----------
    measure : Measure
        Metric of the score.
    records : ScoredRecords
        Records that the model is scored on.
    name : str
        Name of the model.
    weights : ndarray of shape (n,), default=None
        Weights of the records, 0 to leave a record out; all 1 by default.

    Raises
    ------
    UndefinedScore
        If the scorer fails on the records, if the model does and the measure is neither a mean nor
        a ratio, and if no statistic fits the records.
    """
    weights = np.ones(len(records.y)) if weights is None else weights
    if not np.any(weights > 0.0):
        return math.nan
    if measure.is_ratio_of_sums:
        low, high = measure.score_range
        numerators, denominators = records.contributions(measure, name)
        total_denominator = float(weights @ denominators)
        if not total_denominator > 0.0:  # no record counts, as in an empty class
            return math.nan
        return low + (high - low) * float(weights @ numerators) / total_denominator
    if measure.is_recomputed:
        return records.scorer_value(measure, name, np.flatnonzero(weights > 0.0), weights)
    statistic, y, predictions = records.statistic_and_data(measure, name, weights)
    unit_codes = np.arange(len(y)) % 2  # arbitrary units: leave-one-out values are not used here
    try:
        value, _ = statistic.left_out(y, predictions, weights, unit_codes, 2)
    except np.linalg.LinAlgError as error:
        raise UndefinedScore(
            f"The score is undefined for these records: no {measure.name} fits them."
        ) from error
    return -value if statistic.is_negated else value


#: Methods of a model that give each kind of response, in order of preference.
_METHODS = {
    **dict.fromkeys(("is_positive", "labels", "values"), ("predict",)),
    **dict.fromkeys(("chances", "all_chances"), ("predict_proba",)),
    "scores": ("decision_function", "predict_proba"),
}


def check_model_supports(measure: Measure, model: Any) -> None:
    """Raise TypeError if a model lacks a method or predictions that a measure needs."""
    requirement = _unmet_requirement(measure, model)
    if requirement:
        raise TypeError(
            f"scoring={measure.name!r} needs {requirement}. The holdout was not queried."
        )
    metric = measure.metric
    response = "is_positive" if metric.is_ratio else metric.unit_statistic.response
    methods = () if metric.is_mean else _METHODS.get(response, ())
    try:
        if isinstance(metric, BoundedMetric) and not metric.is_ratio:
            metric.check_estimator(model)
        if methods and not any(hasattr(model, method) for method in methods):
            raise TypeError(
                f"scoring={measure.name!r} needs a model with {' or '.join(methods)}, got "
                f"{type(model).__name__}. The holdout was not queried."
            )
    except TypeError:
        if isinstance(model, PrecomputedPredictions):
            methods = getattr(metric, "methods", methods)
            raise model.unsupported_error(measure.name, methods) from None
        raise


def _unmet_requirement(measure: Measure, model: Any) -> str:
    """Return the kind of predictions that a measure needs and a model lacks, as words of an error.

    The text is empty if the model lacks none.
    """
    metric = measure.metric
    model_type = type(model).__name__
    has_clusters = _is_estimator_without_classes(model) and is_clusterer(model)
    if has_clusters and (metric.is_ratio or metric.needs_positive_predictions):
        return f"a model of the targets, got the clusters of {model_type}"
    # Predictions in one column are read themselves, of other models the classes.
    is_label_vector = (
        isinstance(model, PrecomputedPredictions) and np.ndim(getattr(model, "values", 0.0)) == 1
    )
    labels: Any = np.ravel(model.values if is_label_vector else np.asarray(classes_of(model, None)))
    if metric.is_ratio:
        return _unmet_requirement_of_labels(measure, model, labels, is_label_vector)
    if metric.needs_positive_predictions and labels.dtype.kind in "biuf" and (labels <= 0).any():
        owner = "them" if is_label_vector else model_type
        return f"predictions above 0, got {labels.min():g} of {owner}"
    return ""


def _is_estimator_without_classes(model):
    """Return whether a model is an estimator of scikit-learn, but not a classifier."""
    return isinstance(model, BaseEstimator) and not is_classifier(model)


def _unmet_requirement_of_labels(measure, model, labels, is_label_vector):
    """Return the labels that a measure of one class needs and a model lacks, or an empty text.

    ``labels``: the predictions if they are a vector (``is_label_vector``), else the classes.
    """
    if labels.dtype.kind == "f" and (labels % 1.0 > 0.0).any():
        return "labels, got predictions that are other numbers"
    if _is_estimator_without_classes(model) and is_regressor(model):
        return f"labels, got the numbers of {type(model).__name__}"
    if is_label_vector and isinstance(labels[0], str) != isinstance(measure.pos_label, str):
        return f"pos_label= of the type of the labels, got pos_label={measure.pos_label!r}"
    return ""


def blank_rows(X: Any, n: int = 8) -> Any:
    """Return ``n`` placeholder rows with the columns and types of ``X``.

    None unless ``X`` is a pandas data frame, a sparse matrix or a NumPy array.
    """
    if hasattr(X, "dtypes") and hasattr(X, "iloc"):
        blank = {name: [_blank_cell(dtype)] * n for name, dtype in X.dtypes.items()}
        return type(X)(blank).astype(dict(X.dtypes))
    if scipy.sparse.issparse(X):
        return type(X)((n, X.shape[1]), dtype=X.dtype)
    if isinstance(X, np.ndarray):
        return np.full((n, *X.shape[1:]), "" if X.dtype.kind in "OUS" else 0, dtype=X.dtype)
    return None


def _blank_cell(dtype):
    """Return a placeholder cell of a column: the first category, an empty text, or 0.

    None for a column of categories that has none.
    """
    if hasattr(dtype, "categories"):
        return dtype.categories[0] if len(dtype.categories) else None
    return "" if str(dtype) in ("object", "str", "string") else 0


def check_fitted(model: Any, X: Any) -> None:
    """Raise NotFittedError for a model that is not fitted, before it sees a row of ``X``.

    scikit-learn reports estimators without learned attributes as not fitted, but they can predict.
    Therefore an estimator that predicts placeholder rows passes, and so does an object that is not
    an estimator of scikit-learn or cannot be fitted.
    """
    if not (isinstance(model, BaseEstimator) and hasattr(model, "fit")):
        return
    message = (
        "%(name)s is not fitted. Fit it on training records, which a search has in train_indices_. "
        "The holdout was not queried."
    )
    try:
        check_is_fitted(model, msg=message)
    except NotFittedError:
        with contextlib.suppress(Exception):
            copy.deepcopy(model).predict(blank_rows(X))  # it may count its calls
            return
        raise


def checked_model(name: str, model: Any, X: Any, y: Any, y_train: Any) -> Any:
    """Return a checked model, or checked predictions as a :class:`PrecomputedPredictions`.

    Parameters
    ----------
    name : str
        Name of the model in messages.
    model : estimator or array-like
        Fitted model, recipe, or predictions of the holdout records.
    X, y : array-like
        Holdout records and their targets. Only their types and their number are read.
    y_train : array-like or None
        Training targets, if known.

    Raises
    ------
    NotFittedError
        If an estimator is not fitted.
    TypeError, ValueError
        For an object that is neither a model nor predictions of all holdout records.
    """
    if callable(getattr(model, "final_report", None)) and not hasattr(model, "predict"):
        raise TypeError(
            f"estimators must be models that predict, got {type(model).__name__}. Call its own "
            "final_report(), as in selector.final_report()."
        )
    if isinstance(model, PrecomputedPredictions):
        return model
    if any(hasattr(model, method) for method in ("predict", "predict_proba", "fit")):
        check_fitted(model, X)
        return model
    return _checked_predictions(name, model, y, y_train)


def _checked_predictions(name, predictions, y, y_train):
    """Return checked predictions of all records as a :class:`PrecomputedPredictions`.

    Errors do not quote any of them. ``name``: of the predictions in messages. ``y``: holdout
    targets, of which only the type and the number are read. ``y_train``: training targets, None if
    not known.
    """
    _check_length(name, predictions, len(y))
    check_supported_values(name, predictions)
    values = as_labels(predictions)
    targets = as_labels(y)
    if targets.ndim == 2:
        return _checked_outputs(name, values, targets.shape[1], targets.dtype.kind)
    if values.dtype.kind in "OU":
        check_targets(name, predictions)
    elif values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"predictions {name!r} must be finite, {np.sum(~np.isfinite(values)):,} of "
            f"{values.size:,} are not. Predict these records, too, or fill them, as in "
            "np.where(np.isfinite(y_pred), y_pred, y_train.mean()). The holdout was not queried."
        )
    classes = classes_of(None, y_train)
    if y_train is None:
        classes = _implied_classes(name, values, target_kind=targets.dtype.kind)
    checked_predictions = PrecomputedPredictions(values, classes)
    known_labels = np.asarray(getattr(checked_predictions, "classes_", ())).tolist()
    if values.ndim == 2:
        _check_probabilities(name, values, len(known_labels))
    elif hasattr(checked_predictions, "predict"):
        _check_labels(name, values, known_labels)
    return checked_predictions


def _check_labels(name, values, known_labels):
    """Raise ValueError if a predicted label is not among known ones; without any, accept all."""
    if known_labels and not all(label in known_labels for label in np.unique(values).tolist()):
        raise ValueError(
            f"{name} must be labels among {known_labels}, or numbers. The holdout was not queried."
        )


def _check_length(name, predictions, n):
    """Raise TypeError unless there is a prediction, or a row of them, for each of n records."""
    try:
        shape = np.shape(predictions)
    except ValueError:  # rows of several lengths
        shape = ()
    if len(shape) not in (1, 2) or shape[0] != n:
        allowed = "predictions" if name == "y_pred" else "a fitted model or predictions"
        parameter = "compare" if name == "baseline" else repr(name)
        raise TypeError(
            f"{parameter} must be {allowed} of the {n} holdout records in their order, got "
            f"{type(predictions).__name__} of shape {shape}. Predict X[search.holdout_indices_] "
            "(.iloc in pandas), or the rows passed to ReusableHoldout. The holdout was not queried."
        )


def _implied_classes(name, values, *, target_kind):
    """Return the classes 0 and 1 if predictions may be their labels or probabilities, else None.

    ``values``: the predictions. ``target_kind``: NumPy kind of the targets' type, such as "i" or
    "f". Raise ValueError unless predictions and targets are both numbers, or both text.
    """
    has_number_targets = target_kind in "iubf"
    if (values.dtype.kind in "iubf") != has_number_targets:
        raise ValueError(
            f"{name} must hold labels like the targets, which are "
            f"{'numbers' if has_number_targets else 'text'}, or chances of known classes. "
            f"{_NAME_CLASSES}"
        )
    is_unit_range = target_kind in "iub" and values.min() >= 0 and values.max() <= 1
    return [0, 1] if values.ndim == 1 and is_unit_range else None


def _check_probabilities(name, values, n_classes):
    """Raise ValueError unless a table has one column per class, and rows that sum to 1."""
    if values.shape[1] != n_classes:
        raise ValueError(
            f"predictions {name!r} must have a column for each of {n_classes} classes, "
            f"got {values.shape[1]}. {_NAME_CLASSES}"
        )
    if not _are_probabilities(values):
        raise ValueError(
            f"{name} must be probabilities, with a sum of 1 for each record. The holdout was not "
            "queried."
        )


def _checked_outputs(name, values, n_outputs, target_kind):
    """Return checked predictions of several outputs: labels, numbers, or scores of labels.

    ``values``: the predictions, of shape (n, n_outputs). ``target_kind``: NumPy kind of the
    targets' type. Floats are scores if targets are integers or Booleans. Raise ValueError for
    another shape, for text, and for numbers that are not finite.
    """
    if values.ndim != 2 or values.shape[1] != n_outputs or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold numbers, with a column for each of the {n_outputs} outputs, got "
            f"shape {values.shape}. The holdout was not queried."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"predictions {name!r} must be finite. The holdout was not queried.")
    has_scores = values.dtype.kind == "f" and target_kind in "biu"
    response = "decision_function" if has_scores else "predict"
    return PrecomputedPredictions(values, None, output_response=response)


def _are_probabilities(values):
    """Return whether each row of a table holds probabilities of classes, which sum to 1."""
    if values.dtype.kind not in "biuf" or not (values >= 0.0).all():
        return False
    return bool(np.abs(values.sum(axis=1) - 1.0).max() <= _PROBABILITY_ERROR)


def check_predictions(y_pred: Any, y: Any, y_train: Any, **texts: str | None) -> Any:
    """Return checked predictions of the holdout records; errors do not quote any of them.

    Parameters
    ----------
    y_pred : array-like
        Predictions.
    y : array-like
        Holdout targets. Only their type and their number are read.
    y_train : array-like or None
        Training targets, or other public targets of the same classes.
    **texts : str or None
        Names of the submitter and the submission, by the parameter that holds each.

    Returns
    -------
    PrecomputedPredictions
        The predictions, by position of the record.

    Raises
    ------
    TypeError, ValueError
        If a text is not one of 1 to 200 characters, if ``y_pred`` is a model, and if it does not
        hold predictions of all holdout records.
    """
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 200):
            raise TypeError(f"{name} must be a text of 1 to 200 characters or None.")
    if any(hasattr(y_pred, method) for method in ("predict", "predict_proba", "fit")):
        raise TypeError("y_pred must be predictions, not a model: score(model, ...) takes models.")
    return checked_model("y_pred", y_pred, None, y, y_train)
