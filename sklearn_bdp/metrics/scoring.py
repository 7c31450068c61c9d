"""From ``scoring`` to a metric with a proven bound, or to an error that states the reason."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from numpy.typing import ArrayLike
from sklearn import metrics
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics.base import METRICS, BoundedMetric, as_labels
from sklearn_bdp.metrics.label_checks import check_not_sum
from sklearn_bdp.metrics.per_record import PerRecordScore
from sklearn_bdp.metrics.registry import available_metrics, check_forecast
from sklearn_bdp.metrics.score_functions import SCORE_FUNCTIONS, rejected_name
from sklearn_bdp.metrics.similar_names import same_metric, unknown_metric_error


def _is_regressor(estimator):
    """Return whether an object has estimator tags of a regressor."""
    try:
        return is_regressor(estimator)
    except AttributeError:  # an object without estimator tags
        return False


def _build_metric(name, estimator, y, options):
    """Return the metric of a name in `METRICS`.

    Raise TypeError or ValueError if the estimator, the targets or the options do not fit it.
    """
    metric_class = METRICS[name]
    if metric_class.reads_labels and _is_regressor(estimator):
        raise TypeError(
            f"scoring={name!r} needs predicted labels, got the numbers of "
            f"{type(estimator).__name__}, a regressor. Use a classifier, or "
            "scoring='neg_mean_absolute_error'. The holdout was not queried."
        )
    allowed_types = metric_class.target_types
    target_type = None if y is None or not allowed_types else type_of_target(as_labels(y))
    if target_type is not None and target_type not in allowed_types:
        raise ValueError(
            f"{name} needs class labels ({', '.join(allowed_types)}), got {target_type} targets. "
            + (
                "For numbers, use a regressor and scoring='neg_mean_absolute_error'. For classes, "
                "pass labels."
            )
            * (target_type == "continuous")
            + "Declare what a record counts with a PerRecordScore." * (target_type != "continuous")
        )
    classes = getattr(estimator, "classes_", None)  # those of a fitted model are public
    return metric_class.build(name, classes=classes, y=y, options=options)


def get_metric(
    scoring: Any, *, estimator: Any = None, y: ArrayLike | None = None, **options: Any
) -> BoundedMetric:
    """Return the bounded metric for a ``scoring`` argument.

    Parameters
    ----------
    scoring : str, scorer, PerRecordScore, BoundedMetric or None
        A name from `available_metrics`, a scikit-learn scorer made from one of these metrics,
        a declared per-record function, or None for `default_metric`.
    estimator : estimator, optional
        Determines the metric for None. A fitted one can give the classes.
    y : array-like of shape (n,) or (n, n_outputs), optional
        *Training* targets: they are public. They can give the classes and the bounds of regression
        errors.
    **options : dict
        ``k`` (top_k_accuracy), ``clip`` (neg_log_loss), ``bounds=(low, high)``
        (regression errors; a pair of sequences for several outputs), ``alpha``
        (neg_mean_pinball_loss), ``n_classes`` (neg_brier_score), ``pos_label`` (the positive
        class of recall and specificity).

    Returns
    -------
    BoundedMetric
        The metric. Its ``note`` can state a setting that the caller did not choose, such as a clip.

    Raises
    ------
    UnboundedMetricError
        If no bound is proven for the metric, or for these targets; the message names an
        alternative.
    TypeError, ValueError
        If the name or an option is unknown, or if the options, the targets or the estimator do not
        fit the metric.

    See Also
    --------
    available_metrics : The names.
    PerRecordScore : Metric of your own scoring function.

    Examples
    --------
    >>> from sklearn_bdp.metrics import get_metric
    >>> metric = get_metric("neg_mean_absolute_error", bounds=(0, 50))
    >>> metric.lower, metric.upper, metric.to_unit(-5.0), metric.from_unit(0.5)
    (-50.0, 0.0, 0.9, -25.0)
    >>> get_metric("f1")
    Traceback (most recent call last):
    ...
    sklearn_bdp.exceptions.UnboundedMetricError: scoring='f1' has no proven bound: ...
    """
    if scoring is None:
        if options:
            raise TypeError(
                f"scoring must be named if options are passed, got {sorted(options)}. Set "
                "scoring= to the name of their metric."
            )
        return default_metric(estimator, y)
    if isinstance(scoring, PerRecordScore):
        scoring = scoring.metric()
    if isinstance(scoring, BoundedMetric):
        if options:
            raise TypeError(f"options must be empty for {scoring.name}, got {sorted(options)}.")
        return scoring.with_training_targets(y)
    scoring, scorer_options = parse_scorer(scoring)
    options |= scorer_options
    allowed_options = METRICS[scoring].options
    if unknown_options := sorted(set(options).difference(allowed_options)):
        raise TypeError(
            f"{scoring} takes the options {[*allowed_options]}, got {', '.join(unknown_options)}."
        )
    return _build_metric(scoring, estimator, y, options)


def forecast_metric(scoring: Any) -> BoundedMetric | None:
    """Return a metric for forecasts of widths, with an arbitrary valid range.

    Parameters
    ----------
    scoring : str, PerRecordScore, BoundedMetric or None
        A name, a declared score or a metric.

    Returns
    -------
    BoundedMetric or None
        The metric of a name or a declared score. A metric and None are returned unchanged.

    Raises
    ------
    UnboundedMetricError
        If ``scoring`` is callable, or a name of scikit-learn without a proven bound.
    ValueError
        If no metric with a proven bound has that name.
    TypeError
        If ``scoring`` is another object.
    """
    check_forecast(scoring)
    if scoring is None:
        return None
    is_name = isinstance(scoring, str) and scoring in available_metrics()
    placeholders = METRICS[scoring].placeholder_options if is_name else {}
    return get_metric(scoring, **placeholders)


def default_metric(estimator: Any, y: ArrayLike | None = None) -> BoundedMetric:
    """Return the default metric of an estimator.

    It is accuracy for classifiers, as in scikit-learn, and the clipped absolute error for
    regressors. scikit-learn's R² divides by the variance of the holdout targets, so that its
    sensitivity has no bound. The metric's ``note`` states if it differs from the estimator's score.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.
    y : array-like of shape (n,) or (n, n_outputs), optional
        Training targets; needed for regressors.

    Returns
    -------
    BoundedMetric
        The default.

    Raises
    ------
    UnboundedMetricError
        If the estimator is neither a classifier nor a regressor.
    ValueError
        If the targets do not fit the metric, or are missing for a regressor.

    See Also
    --------
    get_metric : The metric of a name.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression, Ridge
    >>> from sklearn_bdp.metrics import default_metric
    >>> default_metric(LogisticRegression()).name, default_metric(Ridge(), y=[0.0, 1.0, 2.0]).name
    ('accuracy', 'neg_mean_absolute_error')
    """
    try:
        has_classifier_tags = is_classifier(estimator)
        has_regressor_tags = is_regressor(estimator)
    except AttributeError:  # an object without estimator tags
        has_classifier_tags = has_regressor_tags = False
    if has_classifier_tags:
        metric = get_metric("accuracy", estimator=estimator, y=y)
        last_step = final_step(estimator)
        if _scores_by_accuracy(last_step):
            return metric
        note = (
            "scoring=None is accuracy on the training set and on the holdout: nothing is known "
            f"about the range of {type(last_step).__name__}.score. Set scoring='accuracy', or "
            "declare that score with PerRecordScore"
        )
        return dataclasses.replace(metric, note=note)
    if has_regressor_tags:
        metric = get_metric("neg_mean_absolute_error", estimator=estimator, y=y)
        note = "scoring is neg_mean_absolute_error, as R² has no bounded sensitivity; "
        return dataclasses.replace(metric, note=note + metric.note)
    raise UnboundedMetricError(
        f"estimator={type(estimator).__name__} is neither a classifier nor a regressor, so nothing "
        "is known about the range of its score. Set scoring=PerRecordScore(function, lower, "
        "upper), where function(estimator, X, y) returns one number per record."
    )


def final_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, also of nested ones, whose ``score`` the pipeline uses.

    Parameters
    ----------
    estimator : estimator
        A pipeline or any other estimator.

    Returns
    -------
    estimator
        The estimator itself if it is not a pipeline.
    """
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[-1][1]
    return estimator


def _scores_by_accuracy(classifier):
    """Return whether a classifier's ``score`` method counts as scikit-learn's accuracy.

    It does without such a method, if the method is that of all classifiers, and for other classes
    of scikit-learn and this package without another ``scoring``.
    """
    score_module = getattr(getattr(type(classifier), "score", None), "__module__", "sklearn.base")
    if score_module == "sklearn.base":
        return True
    # Searches and similar estimators use ``scoring``, by default the model's own score.
    is_of_sklearn = score_module.split(".")[0] in ("sklearn", "sklearn_bdp")
    return is_of_sklearn and getattr(classifier, "scoring", None) in (None, "accuracy")


# -- scorers of scikit-learn -----------------------------------------------------------------------


def _raise_not_available(name):
    """Raise the error for a name that is not among `available_metrics`, with alternatives."""
    if rejected_entry := rejected_name(name):
        facts = SCORE_FUNCTIONS[rejected_entry]
        message = f"scoring={name!r} has no proven bound: {facts.rejection}."
        if facts.is_reported:
            message += f" A report shows {name} at the end: final_report(scoring={name!r})."
        raise UnboundedMetricError(message)
    if name in METRICS:  # metrics with a proven bound do not get here
        raise ValueError(
            f"scoring={name!r} is a metric of final reports: final_report(scoring={name!r}). "
            "Choose candidates by another one, such as 'neg_log_loss' or 'neg_brier_score'. The "
            "holdout was not queried."
        )
    raise unknown_metric_error(name, available_metrics(), _all_names())


def _all_names():
    """Return the names of the metrics of this package and of scikit-learn."""
    return [*METRICS, *metrics.get_scorer_names()]


_WRAP_IT = (
    "Use a metric's name, or declare one bounded number per record with "
    "PerRecordScore(function, lower, upper)."
)


def parse_scorer(scorer: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and options of a metric with a proven bound.

    Parameters
    ----------
    scorer : str or callable
        A name, or a scorer that ``make_scorer`` made from a function of scikit-learn.

    Returns
    -------
    name : str
        One of :func:`available_metrics`.
    options : dict
        Options of the metric by name, from the scorer's arguments; empty for a name.

    Raises
    ------
    UnboundedMetricError
        If no bound is proven for the scorer.
    TypeError, ValueError
        If ``scorer`` is neither a string nor callable, if it is a sum over records, or if the name
        is not that of a metric that ranks candidates.
    """
    if isinstance(scorer, str):
        if scorer not in available_metrics():
            if same_metric(scorer, _all_names()) not in ("", scorer):  # another notation
                raise unknown_metric_error(scorer, available_metrics(), _all_names())
            _raise_not_available(scorer)
        return scorer, {}
    if not callable(scorer):
        raise TypeError(
            "scoring must be one name, scorer, PerRecordScore or None (each metric is a query "
            f"of its own), got {type(scorer).__name__}."
        )
    check_not_sum(scorer)
    score_function = getattr(scorer, "_score_func", None)
    function_name = getattr(score_function or scorer, "__name__", type(scorer).__name__)
    name = None
    if score_function is not None and getattr(metrics, function_name, None) is score_function:
        name = _metric_of_function(function_name)
    if name is None:
        raise UnboundedMetricError(
            f"scoring={function_name} is not supported: the range of its values, and how far one "
            f"record can move them, are unknown. {_WRAP_IT}"
        )
    options, argument_text = _scorer_options(scorer, METRICS[name])
    unsupported_text = _unsupported_setting(scorer, name) or argument_text
    if unsupported_text:
        raise UnboundedMetricError(
            f"scoring is made from {function_name} with {unsupported_text}, for which no bound is "
            f"proved. Use scoring={name!r}. {_WRAP_IT}"
        )
    return name, options


def _metric_of_function(function_name):
    """Return the name of the metric of a score function of scikit-learn, None for an unknown one.

    Raise UnboundedMetricError for a function that `SCORE_FUNCTIONS` rejects.
    """
    base_name = function_name.removesuffix("_score")
    for name in (f"neg_{base_name}", f"neg_{base_name.removesuffix('_loss')}", base_name):
        if name in available_metrics():
            return name
    if rejected_name(base_name):
        _raise_not_available(base_name)
    return None


def _scorer_options(scorer, metric_class):
    """Return the metric's options by name, and the text of an argument that is not supported.

    They are from the scorer's arguments. The text is empty if each of these is an option, is
    ignored or has its default value.
    """
    parameters = inspect.signature(scorer._score_func).parameters
    options: dict[str, Any] = {}
    unsupported_text = ""
    for key, value in scorer._kwargs.items():
        if key in metric_class.options:  # with the same meaning in scikit-learn
            options[key] = value
        elif key not in metric_class.ignored_arguments:
            is_default = key in parameters and value is parameters[key].default
            if not is_default:
                unsupported_text = f"{key}={value!r}"
    return options, unsupported_text


def _unsupported_setting(scorer, metric_name):
    """Return a text of the sign, response or metadata that differs from those of the metric.

    The text is empty if nothing differs.
    """
    metric_class: Any = METRICS[metric_name]
    if scorer._sign != (-1 if metric_name.startswith("neg_") else 1):
        return "the wrong greater_is_better (it would look for the worst model)"
    if response_methods(scorer) != metric_class.methods:
        return f"response_method={scorer._response_method!r}"
    if requests_metadata(scorer):
        return "sample weights or other metadata"
    return ""


def response_methods(scorer: Any) -> tuple[str, ...]:
    """Return the names of the methods of a model that a scorer may call, in order of preference.

    Parameters
    ----------
    scorer : object
        A scorer, or another function ``(estimator, X, y)``.

    Returns
    -------
    tuple of str
        Empty for functions other than scorers of scikit-learn.
    """
    methods = getattr(scorer, "_response_method", ())
    return (methods,) if isinstance(methods, str) else tuple(methods)


def requests_metadata(scorer: Any) -> bool:
    """Return whether a scorer requests metadata, such as sample weights.

    Parameters
    ----------
    scorer : object
        Any ``scoring``.

    Returns
    -------
    bool
        False for an object without metadata routing.
    """
    score_request = getattr(getattr(scorer, "_metadata_request", None), "score", None)
    requested_values = getattr(score_request, "requests", {}).values()
    return any(value not in (None, False) for value in requested_values)
