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
import itertools
import math
from collections.abc import Mapping, Sequence
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
from sklearn_bdp.metrics.label_checks import check_not_sum
from sklearn_bdp.metrics.registry import metric_without_range
from sklearn_bdp.metrics.scoring import get_metric, response_methods
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
    """Metric of a scorer or function ``(estimator, X, y)``, without a formula for its values."""

    scorer: Any = dataclasses.field(repr=False)

    def score(self, estimator: Any, X: Any, y: Any, **score_params: Any) -> float:
        """Return the value of the scorer."""
        return float(self.scorer(estimator, X, y, **score_params))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric, its name in the rows of a report, and its positive class."""

    name: str  # as rows name it
    metric: Any  # a Metric
    pos_label: Any = None  # the class that is counted; None without one
    neg_label: Any = None  # the other class of two if the metric is a share of it, else None
    note: str = ""  # sentence on arguments that would give it a proven interval; may be empty
    zero_division: float = math.nan  # score of a ratio if no record is in the denominator

    @property
    def is_mean(self) -> bool:
        """Whether the metric is a mean of record scores, each in [0, 1] after rescaling."""
        return self.metric.is_mean

    @property
    def is_ratio_of_sums(self) -> bool:
        """Whether the metric is a mean over records or a ratio of two sums over records."""
        return self.metric.is_mean or self.metric.is_ratio

    @property
    def is_recomputed(self) -> bool:
        """Whether values of the metric can only be computed by calling a scorer."""
        return self.metric.unit_statistic is GENERIC and not self.is_ratio_of_sums

    @property
    def score_function(self) -> Any:
        """Function ``(y, predictions)`` behind the scorer of its metric; None without one."""
        return getattr(getattr(self.metric, "scorer", None), "_score_func", None)

    @property
    def estimation(self) -> str:
        """Name of the method of its approximate intervals in rows."""
        is_median = self.score_function is median_absolute_error
        return "order statistics" if is_median else "jackknife"

    @property
    def score_range(self) -> tuple[float, float]:
        """Ends of the range in score units if the metric is a mean; (0, 1) otherwise."""
        return (self.metric.lower, self.metric.upper) if self.metric.is_mean else (0.0, 1.0)


def named_metrics(scoring: Any) -> list[tuple[str | None, Any]]:
    """Return a list of pairs of a name, or None, and a metric, in the order of ``scoring``.

    ``scoring``: one metric, a list of metrics or a mapping of names to metrics. Raise ValueError if
    it contains no metric.
    """
    pairs = _pairs_of_name_and_metric(scoring)
    if not pairs:
        raise ValueError("scoring must hold at least one metric, got none.")
    # A NumPy string becomes a plain one: its type would be part of the ledger and of keys.
    return [(name, str(metric) if isinstance(metric, str) else metric) for name, metric in pairs]


def _pairs_of_name_and_metric(scoring: Any) -> list[tuple[str | None, Any]]:
    """Return a list of pairs of a name and a metric of a ``scoring`` argument.

    Names are the keys of a mapping. In a list or alone, a metric has the name None.
    """
    if isinstance(scoring, np.ndarray):
        scoring = scoring.tolist()
    if isinstance(scoring, Mapping):
        return [(str(name), metric) for name, metric in scoring.items()]
    if isinstance(scoring, list | tuple):
        return [(None, metric) for metric in scoring]
    return [(None, scoring)]


def resolve_measure(scoring: Any, model: Any, y: Any, *, n_outputs: int = 1) -> Measure:
    """Return the :class:`Measure` of a ``scoring`` argument.

    For targets of several outputs, metrics other than means over records are computed by calling
    their scorer.

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
        If ``scoring`` is not a metric for this model.
    """
    _check_signature(scoring)
    check_not_sum(scoring)
    if isinstance(scoring, ApproximateMetric):  # of a search
        scoring = scoring.scoring
    classes = classes_of(model, y)
    scorer = _scorer_of(scoring)
    rangeless_metric, pos_label = _metric_without_range(scoring, scorer)
    if rangeless_metric is not None and rangeless_metric.is_ratio and n_outputs == 1:
        _check_class(rangeless_metric.name, pos_label, classes)
        return Measure(
            name=rangeless_metric.name,
            metric=rangeless_metric,
            pos_label=pos_label,
            neg_label=_neg_label(rangeless_metric, pos_label, classes),
            zero_division=_zero_division(scorer),
        )
    metric: Metric | None
    note = ""
    try:
        metric = get_metric(scoring, estimator=model, y=y)
    except ValueError as error:
        if isinstance(error, UnboundedMetricError):  # no range would give it a proven interval
            metric = rangeless_metric
        else:
            metric, note = _without_declared_range(scoring, model, rangeless_metric)
        if metric is None and scorer is None:
            raise
    else:
        if metric.is_mean:
            return Measure(name=metric.display_name, metric=metric)
    if metric is None or _must_call_scorer(metric, scorer, classes, n_outputs):
        return _measure_of_scorer(scoring, scorer)
    if not _reads_one_class(metric):
        return Measure(name=metric.name, metric=metric, note=note)
    return _measure_of_one_class(metric, pos_label, classes)


def _neg_label(metric, pos_label, classes):
    """Return the class that is not ``pos_label`` if a ratio is a share of it, else None.

    ``classes``: list of the classes, or None if they are unknown. Unless there are two, the result
    is None, and every other label than ``pos_label`` is negative.
    """
    if not metric.counts_negatives or classes is None or len(classes) != 2:
        return None
    return classes[1 - classes.index(pos_label)]


def _measure_of_one_class(metric, pos_label, classes):
    """Return the :class:`Measure` of a metric that reads scores of one class.

    The class is ``pos_label`` if this is an option of the metric, else the last of ``classes``, or
    1 if ``classes`` is None. Raise ValueError if ``classes`` does not contain it.
    """
    if "pos_label" not in metric.options:
        pos_label = 1 if classes is None else classes[-1]
    _check_class(metric.name, pos_label, classes)
    return Measure(name=metric.name, metric=metric, pos_label=pos_label)


def _without_declared_range(scoring, model, rangeless_metric):
    """Return the metric for approximate rows, and a note on how to declare a range of targets.

    The metric is ``rangeless_metric``, which may be None. For ``scoring=None`` and a model without
    classes it is the mean absolute error. The note is empty unless the metric reads predicted
    numbers.
    """
    metric = rangeless_metric
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


def _must_call_scorer(metric, scorer, classes, n_outputs):
    """Return whether a score is computed by calling the scorer, not by the metric's statistic.

    It is for several outputs, and for a metric of the scores or probabilities of one class if there
    are ``classes``, but not two. Then raise ValueError if ``scorer`` is None, and for ROC AUC of
    one output.
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


def _measure_of_scorer(scoring, scorer):
    """Return the :class:`Measure` whose values are computed by calling a scorer."""
    function = getattr(scorer, "_score_func", scorer)
    name = getattr(function, "__name__", type(function).__name__)
    name = scoring if isinstance(scoring, str) else name
    metric = ScorerMetric(name=name, lower=-math.inf, upper=math.inf, scorer=scorer)
    return Measure(name=name, metric=metric)


def _metric_without_range(scoring, scorer):
    """Return the metric of ``scoring`` that needs no range of targets, or None, and its class.

    ``scoring`` is None, a name, a metric or a scorer. The metric is None if ``scoring`` is a
    `BoundedMetric` but not a ratio, and if values can only be computed by calling a scorer. The
    class is the ``pos_label`` of ``scoring``, else 1.
    """
    if isinstance(scoring, BoundedMetric):
        pos_label = getattr(scoring, "pos_label", 1)
        return (scoring if scoring.is_ratio else None), pos_label
    metric = metric_without_range(scoring)
    if metric is not None or scorer is None:
        has_no_formula = metric is not None and metric.unit_statistic is GENERIC
        return (None if has_no_formula else metric), 1
    for name in METRICS:
        with contextlib.suppress(ValueError):
            if _scorer_identity(get_scorer(name)) == _scorer_identity(scorer):
                return metric_without_range(name), scorer._kwargs.get("pos_label", 1)
    return None, 1


def _scorer_identity(scorer):
    """Return the function, sign, arguments and response methods that identify a scorer.

    Arguments ``pos_label`` and ``zero_division`` are left out, and so are those equal to "binary".
    """
    arguments = {
        name: value
        for name, value in getattr(scorer, "_kwargs", {}).items()
        if name not in _OWN_SCORER_ARGUMENTS and value != "binary"
    }
    score_function = getattr(scorer, "_score_func", scorer)
    return score_function, getattr(scorer, "_sign", None), arguments, response_methods(scorer)


def _zero_division(scorer):
    """Return the score that a scorer declares for divisions by zero, NaN if it declares none."""
    declared_score = getattr(scorer, "_kwargs", {}).get("zero_division", "warn")
    return math.nan if declared_score == "warn" else float(declared_score)


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

    Targets have classes unless they are floats.
    """
    classes = getattr(model, "classes_", None)
    if classes is None and y is not None and np.asarray(y).dtype.kind != "f":
        classes = np.unique(as_labels(y))
    # A model of several outputs has a list of classes for each, of different lengths.
    return None if classes is None else [np.asarray(label).tolist() for label in classes]


class UndefinedScore(Exception):
    """The score is undefined for these records: a scorer, a model or a formula fails on them."""


class PrecomputedPredictions:
    """Precomputed predictions with the methods of a model that take positions of records as ``X``.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, n_columns)
        Labels or numbers, a column of probabilities for each class, or a column for each output.
    classes : list or None
        Classes of the targets; None for numbers, and for probabilities of the classes 0 and 1.
    keyword : str or None, default=None
        Keyword that creates the predictions (``"naive"``); None if they were passed.
    output_response : str, default=""
        For several outputs, name of the method that returns ``values``. Empty for one output.
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

    def unsupported_error(self, metric_name: str, method_names: Any) -> TypeError:
        """Return the error of a metric that needs another kind of predictions.

        ``method_names``: names of the methods of a model that the metric can use.
        """
        required = " or ".join(_OUTPUT_OF_METHOD[method_name] for method_name in method_names)
        provided = "numbers beyond [0, 1]"
        if hasattr(self, "predict_proba"):
            provided = "probabilities"
        elif hasattr(self, "predict"):
            provided = "labels or numbers"
        elif self.values.ndim == 2:
            provided = "scores of labels"
        fix = _NAME_CLASSES
        if hasattr(self, "classes_"):
            fix = f"Pass {' or '.join(f'model.{method_name}(X)' for method_name in method_names)}"
            fix += ", or set scoring='accuracy'." if provided == "labels or numbers" else "."
        return TypeError(
            f"scoring={metric_name!r} reads {required}, and predictions are {provided}. {fix} The "
            "holdout was not queried."
        )


def _are_numbers_of_two_classes(values, classes):
    """Return whether values are floats other than labels, and there are two classes."""
    if values.dtype.kind != "f" or classes is None or len(classes) != 2:
        return False
    return not set(np.unique(values).tolist()) <= set(classes)


def is_label(values, label):
    """Return a mask of the values of an array that equal a label."""
    return np.array([value == label for value in values.tolist()], dtype=bool)


class ScoredRecords:
    """Records and the models that are scored on them, such as those of the closed holdout.

    A copy of each model predicts, so that the model itself stays unchanged even if predicting
    changes its state. A model that cannot be copied is used directly.
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

    def model_and_data(self, model_name: str) -> tuple[Any, Any]:
        """Return a model and its input: ``X``, or positions for precomputed predictions.

        Positions have the shape (n, 1). Other models are copied if they can be.
        """
        model = self.models[model_name]
        if isinstance(model, PrecomputedPredictions):
            return model, np.arange(len(self.y))[:, None]
        if model_name not in self._model_copies:
            try:
                self._model_copies[model_name] = copy.deepcopy(model)
            except Exception:  # a model that cannot be copied is used directly
                self._model_copies[model_name] = model
        return self._model_copies[model_name], self.X

    def contributions(self, measure: Measure, model_name: str) -> tuple[Any, Any]:
        """Return each record's contribution to the numerator and to the denominator of a score.

        They are arrays of shape (n,). If ``measure`` is a mean, numerators are scores in [0, 1] and
        denominators are 1. Otherwise it must be a ratio.
        """
        key = model_name, repr(measure.metric), repr(measure.pos_label), "contributions"
        if key not in self._cached:
            if measure.metric.is_ratio:
                numerators, denominators = measure.metric.counts(
                    *self._positives(measure, model_name)
                )
                self._cached[key] = numerators.astype(float), denominators.astype(float)
                self._failing_of_result[key] = self.failing[model_name]
            else:
                evaluation = measure.metric.evaluate(*self.model_and_data(model_name), self.y)
                self._cached[key] = evaluation.per_record, np.ones(len(self.y))
                self._failing_of_result[key] = evaluation.failing
        self.failing[model_name] = self._failing_of_result[key]
        return self._cached[key]

    def _positives(self, measure, model_name):
        """Return masks of the actual and of the predicted positives, of shape (n,).

        A record that the model fails on counts as predicted wrongly. If the metric is a share of
        one of two classes, records of a third label are no negatives.
        """
        actual = is_label(self.y, measure.pos_label)
        if measure.neg_label is not None:
            actual = ~is_label(self.y, measure.neg_label)
        predicted = self.predictions(model_name, "is_positive", measure.pos_label)
        return actual, np.where(np.isnan(predicted), ~actual, predicted == 1.0)

    def predictions(self, model_name: str, response: str, pos_label: Any = None) -> Any:
        """Return a predicted number for each record, NaN if the model fails on it.

        Parameters
        ----------
        model_name : str
            Name of the model.
        response : {"is_positive", "scores", "chances", "values"}
            In this order: 1 for records predicted as positive, else 0; the score of the positive
            class; its probability; the predicted value of a regression.
        pos_label : object, default=None
            The positive class. Not used for ``"values"``.
        """
        key = model_name, response, repr(pos_label)
        return self._cached_numbers(
            key, lambda model, X: _predict_response(model, X, response, pos_label)
        )

    def predicted_codes(self, model_name: str, row_models: Sequence[str]) -> Any:
        """Return the code of each predicted label, NaN if the model fails on the record.

        Codes are those of :meth:`label_codes` for the models ``row_models``, -1 for other labels.
        """
        _, code_of_label = self.label_codes(row_models)
        key = model_name, "codes", repr(row_models)
        return self._cached_numbers(key, lambda model, X: _predict_codes(model, X, code_of_label))

    def _cached_numbers(self, key, predict):
        """Return ``predict(model, X)``, a number for each record, computed once for each key.

        Numbers are NaN for records that the model fails on. ``key``: tuple of the name of the model
        and further identifiers.
        """
        model_name = key[0]
        if key not in self._cached:
            model, X = self.model_and_data(model_name)
            self._cached[key] = score_rows(lambda model, X, _: predict(model, X), model, X, self.y)
            self._failing_of_result[key] = np.flatnonzero(np.isnan(self._cached[key]))
        self.failing[model_name] = self._failing_of_result[key]
        return self._cached[key]

    def losses(self, measure: Measure, model_name: str) -> Any:
        """Return the loss of each record by a model, of shape (n,).

        The loss is minus the record's score in score units if the measure is a mean, else a power
        of the absolute error, NaN if the model fails on the record.
        """
        if measure.is_mean:
            low, high = measure.score_range
            unit_scores, _ = self.contributions(measure, model_name)
            return -low - (high - low) * unit_scores
        return np.abs(self.y - self.predictions(model_name, "values")) ** measure.metric.error_power

    def scorer_value(
        self, measure: Measure, model_name: str, positions: Any, weights: Any
    ) -> float:
        """Return a scorer's value, in score units, for the records at ``positions``.

        ``weights``: weights of all records. Those at ``positions`` are passed to the scorer if the
        positive weights of all records differ. Raise UndefinedScore if the scorer or the model
        raises an error.
        """
        model, X = self.model_and_data(model_name)
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

    def absolute_errors(self, model_name: str) -> Any:
        """Return the absolute error of each record by a model.

        Raise UndefinedScore if the model fails on a record.
        """
        predictions = self.predictions(model_name, "values")
        if not np.isfinite(predictions).all():
            raise UndefinedScore("The score is undefined: the model fails on some records.")
        return np.abs(self.y.astype(float) - predictions)

    def label_codes(self, row_models: Sequence[str]) -> tuple[Any, dict[Any, int]]:
        """Return the targets of the records as integer codes, and a dict of the code of each label.

        All models of a row share the codes, so that predictions of one can be compared with those
        of another. Labels are the classes of the models named in ``row_models``, then the other
        targets.
        """
        key = repr(row_models), "label_codes"
        if key not in self._cached:
            labels_per_model = [known_labels(self.models[name]) for name in row_models]
            labels = dict.fromkeys(itertools.chain(*labels_per_model, np.unique(self.y).tolist()))
            code_of_label = {label: code for code, label in enumerate(labels)}
            target_codes = np.array([code_of_label[label] for label in self.y.tolist()])
            self._cached[key] = target_codes, code_of_label
        return self._cached[key]

    def statistic_and_data(
        self, measure: Measure, model_name: str, weights: Any, row_models: Sequence[str]
    ) -> tuple[Any, Any, Any]:
        """Return the statistic of a measure, and the targets and predictions that it reads.

        Targets are the same for every model in ``row_models``, the names of the models of a row.
        For a mean, predictions are scores or losses of records. If a scorer must be called, targets
        are 0, and predictions are a function from positions of records to the scorer's value with
        ``weights``, the weights of all records. Other measures, except ratios, raise UndefinedScore
        if the model fails on a record.
        """
        if measure.is_recomputed:
            value_at = functools.partial(self.scorer_value, measure, model_name, weights=weights)
            return GENERIC, np.zeros(len(self.y)), value_at
        if measure.metric.is_ratio:
            actual, predicted = self._positives(measure, model_name)
            return measure.metric.unit_statistic, actual.astype(int), predicted.astype(int)
        if measure.is_mean:
            return self._statistic_of_mean(measure, model_name, row_models)
        y, predictions = self._targets_and_predictions(measure, model_name, row_models)
        if not np.isfinite(predictions).all():
            raise UndefinedScore("The score is undefined: the model fails on some records.")
        return measure.metric.unit_statistic, y, np.asarray(predictions, dtype=float)

    def _statistic_of_mean(self, measure, model_name, row_models):
        """Return the statistic of a mean over records, its targets, and the scores of records.

        Binary scores stay 0 or 1 and have targets 1. Other scores are in score units, or losses if
        the statistic is negated, and targets are codes of labels, or 0 if these are not needed.
        """
        unit_scores, _ = self.contributions(measure, model_name)
        if measure.metric.is_binary:
            return HIT_SHARE, np.ones(len(unit_scores)), unit_scores
        low, high = measure.score_range
        statistic = measure.metric.unit_statistic._replace(left_out=MEAN_LEFT_OUT)
        scores = low + (high - low) * unit_scores
        has_no_outcomes = self.y.ndim > 1 or statistic.outcome_masks is None
        y = np.zeros(len(unit_scores)) if has_no_outcomes else self.label_codes(row_models)[0]
        return statistic, y, -scores if statistic.is_negated else scores

    def _targets_and_predictions(self, measure, model_name, row_models):
        """Return targets and predictions in the form that the statistic of a metric reads.

        By its response, they are numbers and predicted numbers; 1 for positive records, else 0, and
        scores or probabilities of the positive class; or codes of labels, and predicted codes or
        the probabilities of all labels in the order of their codes.
        """
        response = measure.metric.unit_statistic.response
        if response == "values":
            return self.y.astype(float), self.predictions(model_name, "values")
        if response in ("scores", "chances"):
            y = is_label(self.y, measure.pos_label).astype(int)
            return y, self.predictions(model_name, response, measure.pos_label)
        y, code_of_label = self.label_codes(row_models)
        if response == "labels":
            return y, self.predicted_codes(model_name, row_models)
        model, X = self.model_and_data(model_name)
        # Without classes, columns are those of the targets in sorted order, as in scikit-learn.
        classes = classes_of(model, None) or np.unique(self.y).tolist()
        codes = [code_of_label[label] for label in classes]
        return y, _all_probabilities(model, X, codes, len(code_of_label))


def known_labels(model: Any) -> list[Any]:
    """Return the classes of a model, or the labels of precomputed predictions without classes.

    The list is empty for other models without classes, and for predictions that are floats.
    """
    classes = classes_of(model, None)
    if classes is None and isinstance(model, PrecomputedPredictions):
        classes = classes_of(None, model.values)
    return classes or []


def _all_probabilities(model, X, codes, n_labels):
    """Return the probabilities of all labels, of shape (n, n_labels).

    ``codes``: column of each class of the model. Labels that are none of its classes have
    probability 0. Raise UndefinedScore if the model raises an error or predicts other columns.
    """
    try:
        predicted = np.asarray(model.predict_proba(X), dtype=float)
        probabilities = np.zeros((len(predicted), n_labels))
        probabilities[:, codes] = predicted
        return probabilities
    except Exception as error:  # of the user's model
        raise UndefinedScore(
            f"The score is undefined for these records: the model raised {type(error).__name__}."
        ) from error


def _predict_response(model, X, response, pos_label):
    """Return an array with a number for each record: the ``response`` of a model.

    "values": predicted number. "is_positive": 1 if the predicted label is ``pos_label``, else 0.
    "chances": probability of the class ``pos_label``. "scores": its decision score, or its
    probability if the model has no ``decision_function``.
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
    measure: Measure, records: ScoredRecords, model_name: str, weights: Any = None
) -> float:
    """Return the score of a model in score units; it may be NaN.

    Parameters
    ----------
    measure : Measure
        Metric of the score.
    records : ScoredRecords
        Records that the model is scored on.
    model_name : str
        Name of the model.
    weights : ndarray of shape (n,), default=None
        Weights of the records, 0 to leave a record out; all 1 by default.

    Raises
    ------
    UndefinedScore
        If the scorer fails on the records, if the model fails on a record and the measure is
        neither a mean nor a ratio, or if the statistic cannot be computed from the records.
    """
    weights = np.ones(len(records.y)) if weights is None else weights
    if not np.any(weights > 0.0):
        return math.nan
    if measure.is_ratio_of_sums:
        low, high = measure.score_range
        numerators, denominators = records.contributions(measure, model_name)
        total_denominator = float(weights @ denominators)
        if not total_denominator > 0.0:  # no record counts, as in an empty class
            return math.nan
        return low + (high - low) * float(weights @ numerators) / total_denominator
    if measure.is_recomputed:
        return records.scorer_value(measure, model_name, np.flatnonzero(weights > 0.0), weights)
    statistic, y, predictions = records.statistic_and_data(
        measure, model_name, weights, (model_name,)
    )
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
    method_names = () if metric.is_mean else _METHODS.get(response, ())  # one of them is needed
    try:
        if isinstance(metric, BoundedMetric) and not metric.is_ratio:
            metric.check_estimator(model)
        if method_names and not any(hasattr(model, name) for name in method_names):
            raise TypeError(
                f"scoring={measure.name!r} needs a model with {' or '.join(method_names)}, got "
                f"{type(model).__name__}. The holdout was not queried."
            )
    except TypeError:
        if isinstance(model, PrecomputedPredictions):
            method_names = getattr(metric, "methods", method_names)
            raise model.unsupported_error(measure.name, method_names) from None
        raise


def _unmet_requirement(measure: Measure, model: Any) -> str:
    """Return what a measure needs and a model lacks, as text after "needs" in a message.

    The text is empty if the model lacks nothing.
    """
    metric = measure.metric
    model_type_name = type(model).__name__
    predicts_clusters = _is_sklearn_non_classifier(model) and is_clusterer(model)
    if predicts_clusters and (metric.is_ratio or metric.needs_positive_predictions):
        return f"a model of the targets, got the clusters of {model_type_name}"
    # Precomputed predictions in one column (labels or numbers), else the classes of the model.
    is_label_vector = (
        isinstance(model, PrecomputedPredictions) and np.ndim(getattr(model, "values", 0.0)) == 1
    )
    labels: Any = np.hstack(model.values if is_label_vector else classes_of(model, None) or [None])
    if metric.is_ratio:
        return _unmet_requirement_of_labels(measure, model, labels, is_label_vector)
    if metric.needs_positive_predictions and labels.dtype.kind in "biuf" and (labels <= 0).any():
        source_text = "them" if is_label_vector else model_type_name
        return f"predictions above 0, got {labels.min():g} of {source_text}"
    return ""


def _is_sklearn_non_classifier(model):
    """Return whether a model is an estimator of scikit-learn, but not a classifier."""
    return isinstance(model, BaseEstimator) and not is_classifier(model)


def _unmet_requirement_of_labels(measure, model, labels, is_label_vector):
    """Return the labels that a ratio needs and a model lacks, as text for a message, or "".

    ``labels``: precomputed predictions if ``is_label_vector``, else the classes of the model.
    """
    if labels.dtype.kind == "f" and (labels % 1.0 > 0.0).any():
        return "labels, got predictions that are other numbers"
    if _is_sklearn_non_classifier(model) and is_regressor(model):
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
    """Raise NotFittedError for an estimator that is not fitted, without reading values of ``X``.

    An estimator that predicts placeholder rows counts as fitted, even without fitted attributes.
    Objects that are not estimators of scikit-learn with a method ``fit`` are not checked.
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


def checked_model(
    name: str, model: Any, X: Any, y: Any, y_train: Any, *, class_targets: Any = None
) -> Any:
    """Return a checked model, or checked predictions as a :class:`PrecomputedPredictions`.

    Parameters
    ----------
    name : str
        Name of the predictions in messages.
    model : estimator, PrecomputedPredictions or array-like
        Fitted model, or predictions of the holdout records. PrecomputedPredictions are not checked.
    X, y : array-like
        Holdout records and their targets. Only their types and shapes are read, and whether all
        targets are 0 or 1.
    y_train : array-like or None
        Training targets, if known.
    class_targets : array-like, default=None
        Public targets that determine the classes of probabilities; by default ``y_train``.

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
    return _checked_predictions(name, model, y, y_train, class_targets)


def _checked_predictions(predictions_name, predictions, y, y_train, class_targets):
    """Return checked predictions of all records as a :class:`PrecomputedPredictions`.

    Raise TypeError or ValueError for unsuitable predictions, without quoting any. Arguments are
    those of :func:`checked_model`.
    """
    _check_length(predictions_name, predictions, len(y))
    check_supported_values(predictions_name, predictions)
    values = as_labels(predictions)
    targets = as_labels(y)
    if targets.ndim == 2:
        return _checked_outputs(predictions_name, values, targets.shape[1], targets.dtype.kind)
    if values.dtype.kind in "OU":
        check_targets(predictions_name, predictions)
    elif values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"predictions {predictions_name!r} must be finite, {np.sum(~np.isfinite(values)):,} of "
            f"{values.size:,} are not. Predict these records, too, or fill them, as in "
            "np.where(np.isfinite(y_pred), y_pred, y_train.mean()). The holdout was not queried."
        )
    classes = _classes_of_predictions(predictions_name, values, targets, y_train, class_targets)
    checked_predictions = PrecomputedPredictions(values, classes)
    known_labels = np.asarray(getattr(checked_predictions, "classes_", ())).tolist()
    if values.ndim == 2:
        _check_probabilities(predictions_name, values, len(known_labels))
    elif hasattr(checked_predictions, "predict"):
        _check_labels(predictions_name, values, known_labels)
    return checked_predictions


def _check_labels(predictions_name, values, known_labels):
    """Raise ValueError if a predicted label is not in ``known_labels``, unless this is empty."""
    if known_labels and not all(label in known_labels for label in np.unique(values).tolist()):
        raise ValueError(
            f"{predictions_name} must be labels among {known_labels}, or numbers. The holdout was "
            "not queried."
        )


def _check_length(predictions_name, predictions, n):
    """Raise TypeError unless there is a prediction, or a row of them, for each of n records."""
    try:
        shape = np.shape(predictions)
    except ValueError:  # rows of several lengths
        shape = ()
    if len(shape) not in (1, 2) or shape[0] != n:
        allowed = "predictions" if predictions_name == "y_pred" else "a fitted model or predictions"
        parameter = "compare" if predictions_name == "baseline" else repr(predictions_name)
        raise TypeError(
            f"{parameter} must be {allowed} of the {n} holdout records in their order, got "
            f"{type(predictions).__name__} of shape {shape}. Predict X[search.holdout_indices_] "
            "(.iloc in pandas), or the rows passed to ReusableHoldout. The holdout was not queried."
        )


def _classes_of_predictions(predictions_name, values, targets, y_train, class_targets):
    """Return the classes of predictions, in the order of columns of probabilities.

    None for numbers, and for a table of probabilities of the classes 0 and 1. ``values``: the
    predictions. Other arguments, and errors, are those of :func:`checked_model`.
    """
    if class_targets is None:
        class_targets = y_train
    if values.ndim == 2 and class_targets is not None:
        return _sorted_classes(class_targets)
    if y_train is not None:
        return classes_of(None, y_train)
    if class_targets is not None and targets.dtype.kind in "iub" and _are_fractions(values):
        return _sorted_classes(class_targets)
    return _implied_classes(predictions_name, values, targets)


def _sorted_classes(y):
    """Return the sorted classes of targets, as those of a classifier that is fitted on them.

    Whole numbers are integers.
    """
    classes = np.unique(as_labels(y))
    if classes.dtype.kind == "f" and not (classes % 1.0).any():
        classes = classes.astype(int)
    return classes.tolist()


def _are_fractions(values):
    """Return whether predictions of one column are in [0, 1], and not all of them are 0 or 1."""
    if values.ndim == 2 or values.dtype.kind != "f":
        return False
    is_fraction = (values > 0.0) & (values < 1.0)
    return bool(is_fraction.any() and (is_fraction | np.isin(values, [0.0, 1.0])).all())


def _implied_classes(predictions_name, values, targets):
    """Return ``[0, 1]`` if predictions may be labels or probabilities of these classes, else None.

    ``values``: the predictions. ``targets``: those of the holdout. Raise ValueError unless
    predictions and targets are both numbers, or neither is; and for probabilities, if targets are
    other numbers than 0 and 1.
    """
    target_kind = targets.dtype.kind
    has_number_targets = target_kind in "iubf"
    if (values.dtype.kind in "iubf") != has_number_targets:
        raise ValueError(
            f"{predictions_name} must hold labels like the targets, which are "
            f"{'numbers' if has_number_targets else 'text'}, or chances of known classes. "
            f"{_NAME_CLASSES}"
        )
    has_chances = values.ndim == 2 or (target_kind in "iub" and _are_fractions(values))
    if has_chances and has_number_targets and not np.isin(targets, [0, 1]).all():
        raise ValueError(
            f"predictions {predictions_name!r} are probabilities of unknown classes: labels of the "
            "holdout are numbers other than 0 and 1. Name all classes: from_targets(y, "
            "training_targets=[...]), answer_predictions(training_predictions=(y, y_pred)) or "
            "final_report(training=(X, y)). The holdout was not queried."
        )
    may_be_binary = target_kind in "iub" and values.min() >= 0 and values.max() <= 1
    return [0, 1] if values.ndim == 1 and may_be_binary else None


def _check_probabilities(predictions_name, values, n_classes):
    """Raise ValueError unless a table has one column per class, and rows that sum to 1."""
    if values.shape[1] != n_classes:
        raise ValueError(
            f"predictions {predictions_name!r} must have a column for each of {n_classes} classes, "
            f"got {values.shape[1]}. {_NAME_CLASSES}"
        )
    if not _are_probabilities(values):
        raise ValueError(
            f"{predictions_name} must be probabilities, with a sum of 1 for each record. The "
            "holdout was not queried."
        )


def _checked_outputs(predictions_name, values, n_outputs, target_kind):
    """Return checked predictions of several outputs as a :class:`PrecomputedPredictions`.

    ``values``: the predictions, of shape (n, n_outputs). ``target_kind``: NumPy kind of the
    targets' type. Floats are decision scores of labels if targets are integers or Booleans. Raise
    ValueError for another shape, for text, and for numbers that are not finite.
    """
    if values.ndim != 2 or values.shape[1] != n_outputs or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{predictions_name} must hold numbers, with a column for each of the {n_outputs} "
            f"outputs, got shape {values.shape}. The holdout was not queried."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"predictions {predictions_name!r} must be finite. The holdout was not queried."
        )
    has_scores = values.dtype.kind == "f" and target_kind in "biu"
    response = "decision_function" if has_scores else "predict"
    return PrecomputedPredictions(values, None, output_response=response)


def _are_probabilities(values):
    """Return whether each row of a table holds probabilities of classes, which sum to 1."""
    if values.dtype.kind not in "biuf" or not (values >= 0.0).all():
        return False
    return bool(np.abs(values.sum(axis=1) - 1.0).max() <= _PROBABILITY_ERROR)


def check_predictions(
    y_pred: Any, y: Any, y_train: Any, *, class_targets: Any = None, **texts: str | None
) -> Any:
    """Return checked predictions of the holdout records; errors do not quote any of them.

    Parameters
    ----------
    y_pred : array-like
        Predictions.
    y : array-like
        Holdout targets. Only their type and shape are read, and whether all of them are 0 or 1.
    y_train : array-like or None
        Training targets, or other public targets of the same classes.
    class_targets : array-like, default=None
        Public targets that determine the classes of probabilities; by default ``y_train``.
    **texts : str or None
        Names of the submitter and of the submission, by name of their parameter in messages.

    Returns
    -------
    PrecomputedPredictions
        Predictions whose methods take positions of holdout records.

    Raises
    ------
    TypeError, ValueError
        If a text is neither None nor of 1 to 200 characters, if ``y_pred`` is a model, or if it
        does not contain a suitable prediction of each holdout record.
    """
    for parameter, text in texts.items():
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 200):
            raise TypeError(f"{parameter} must be a text of 1 to 200 characters or None.")
    if any(hasattr(y_pred, method) for method in ("predict", "predict_proba", "fit")):
        raise TypeError("y_pred must be predictions, not a model: score(model, ...) takes models.")
    return checked_model("y_pred", y_pred, None, y, y_train, class_targets=class_targets)
