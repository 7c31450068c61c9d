"""Bounded metrics for a caller's ``scoring``, or errors with the reason."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics.base import BoundedMetric, as_labels
from sklearn_bdp.metrics.by_class import BalancedAccuracy, ClassMetric, Recall, RocAuc
from sklearn_bdp.metrics.means import (
    Accuracy,
    BrierScore,
    ClippedError,
    HammingScore,
    LogLoss,
    PerRecordScore,
    PinballLoss,
    TopKAccuracy,
)
from sklearn_bdp.utils.metric_names import NAMES
from sklearn_bdp.utils.validation import check_array, check_integer, check_real

_WIDEST = 1e100  # its square is a double


def _cap(name, y, bounds):
    """Return the largest error that counts, of each output, and a note if no bounds were given."""
    targets = None if y is None else as_labels(y)
    if targets is not None and (
        targets.dtype.kind not in "fiub"
        or targets.ndim not in (1, 2)
        or not np.isfinite(targets).all()
    ):
        raise ValueError(
            f"{name} needs finite numbers as targets, one for each record and output, got an array "
            f"of shape {targets.shape} and type {targets.dtype}."
        )
    note = ""
    source = ""
    pair = bounds
    if bounds is None:
        if targets is None:
            raise ValueError(
                f"{name} needs bounds=(low, high) of the target, as in get_metric({name!r}, "
                "bounds=(low, high)), or y= (training targets) to take them from."
            )
        targets = targets.astype(float)
        source = ", the range of the training targets"
        pair = (targets.min(axis=0), targets.max(axis=0))
    is_valid = np.shape(pair)[:1] == (2,) and np.ndim(pair) in (1, 2) and np.size(pair) > 0
    if is_valid:
        low, high = (
            np.clip(np.atleast_1d(check_array("bounds", end)), -_WIDEST, _WIDEST) for end in pair
        )
        is_valid = (low < high).all() and (high - low < _WIDEST).all()
    if not is_valid:
        raise ValueError(
            "bounds must be (low, high), numbers or one sequence for all outputs each, with low < "
            f"high, less than {_WIDEST:g} apart, got bounds={pair!r}{source}."
        )
    width = (high - low).tolist()
    if bounds is None:
        width_text = ", ".join(f"{output_width:g}" for output_width in width)
        note = (
            f"errors are clipped at {width_text}, the range of the training targets; pass "
            "bounds=(low, high) to change it"
        )
        lower, middle, upper = np.quantile(targets, [0.25, 0.5, 0.75])
        # Positive targets reach ten times further above the median than half of them do.
        if targets.min() > 0.0 and targets.max() - middle > 10.0 * max(upper - lower, 1e-12):
            note += ". The target has a heavy tail, so intervals are wide: fit and score log(y)"
    return (width[0] if len(width) == 1 else tuple(width)), note


#: Class of each metric, lower end of its range (None: it follows from targets or options), and the
#: options that it takes.
_METRICS: dict[str, tuple[type[BoundedMetric], float | None, tuple[str, ...]]] = {
    "accuracy": (Accuracy, 0.0, ()),
    "zero_one_loss": (Accuracy, -1.0, ()),
    "neg_zero_one_loss": (Accuracy, -1.0, ()),
    "neg_hamming_loss": (HammingScore, -1.0, ()),
    "top_k_accuracy": (TopKAccuracy, 0.0, ("k",)),
    "neg_brier_score": (BrierScore, None, ("n_classes",)),
    "neg_log_loss": (LogLoss, None, ("clip",)),
    "neg_mean_absolute_error": (ClippedError, None, ("bounds",)),
    "neg_mean_squared_error": (ClippedError, None, ("bounds",)),
    "neg_mean_pinball_loss": (PinballLoss, None, ("alpha", "bounds")),
    "balanced_accuracy": (BalancedAccuracy, 0.0, ()),
    "recall": (Recall, 0.0, ("pos_label",)),
    "specificity": (Recall, 0.0, ("pos_label",)),
    "roc_auc": (RocAuc, 0.0, ()),
}


#: Metrics that compare predicted labels with targets.
_OF_LABELS = (Accuracy, BalancedAccuracy, Recall)


def _is_regressor(estimator):
    try:
        return is_regressor(estimator)
    except AttributeError:  # an object without estimator tags is of no kind
        return False


def _build_metric(name, estimator, y, options):
    """Return the metric of a name; options and targets that do not fit raise."""
    metric_class, lower, _ = _METRICS[name]
    facts: dict[str, Any] = {}
    classes = getattr(estimator, "classes_", None)  # those of a fitted model are public
    if issubclass(metric_class, ClippedError):
        width, facts["note"] = _cap(name, y, options.get("bounds"))
        facts["width"] = width
        largest = np.asarray(width, dtype=float)
        if metric_class is PinballLoss:
            alpha = check_real("alpha", options.get("alpha", 0.5), low=0.0, high=1.0)
            facts["alpha"] = alpha
            lower = -max(alpha, 1.0 - alpha) * float(np.mean(largest))
        else:
            facts["power"] = power = 2 if name == "neg_mean_squared_error" else 1
            lower = -float(np.mean(largest**power))
        return metric_class(name=name, lower=lower, upper=0.0, **facts)
    if issubclass(metric_class, _OF_LABELS) and _is_regressor(estimator):
        raise TypeError(
            f"scoring={name!r} needs predicted labels, got the numbers of "
            f"{type(estimator).__name__}, a regressor. Use a classifier, or "
            "scoring='neg_mean_absolute_error'. The holdout was not queried."
        )
    upper = 0.0 if lower is None else lower + 1.0
    allowed = ["binary", "multiclass"] + ["multilabel-indicator"] * issubclass(
        metric_class, Accuracy
    )
    target = None if y is None else type_of_target(as_labels(y))
    if target is not None and target not in allowed:
        raise ValueError(
            f"{name} needs class labels ({', '.join(allowed)}), got {target} targets. "
            + "For numbers, set scoring='neg_mean_absolute_error'." * (target == "continuous")
            + "Declare what a record counts with a PerRecordScore." * (target != "continuous")
        )
    if issubclass(metric_class, ClassMetric):
        binary = metric_class is RocAuc or name == "specificity"
        if binary and y is not None and len(np.unique(as_labels(y))) != 2:
            raise UnboundedMetricError(
                f"{name} is available for two classes only. Use 'balanced_accuracy' or "
                "'neg_brier_score'."
            )
        if y is None and classes is not None:
            facts["classes"] = tuple(np.asarray(classes).tolist())
        if metric_class is Recall:
            facts["pos_label"] = options.get("pos_label", 1)
            facts["other"] = name == "specificity"
        metric = metric_class(name=name, lower=lower, upper=upper, **facts).informed(y)
        if metric.classes:
            metric.expected_shape(1)  # raises if an option does not fit, before any query
        return metric
    if metric_class in (TopKAccuracy, BrierScore):
        count = options.get("n_classes")
        if count is not None:
            count = check_integer("n_classes", count, low=2)
        elif classes is not None or y is not None:
            count = max(2, len(np.unique(as_labels(y)) if classes is None else classes))
    if metric_class is TopKAccuracy:
        facts["k"] = k = check_integer("k", options.get("k", 2), low=1)
        if count is not None and not k < count:
            raise ValueError(f"k must be below the number of classes, {count}, got k={k}.")
    elif metric_class is BrierScore:
        if count is None:
            raise ValueError(
                f"{name} needs the number of classes for its range: pass y= (training targets), a "
                "fitted estimator=, or n_classes=."
            )
        # scikit-learn halves the score for two classes and not for more.
        lower = -1.0 if count == 2 else -2.0
    elif metric_class is LogLoss:
        clip = options.get("clip")
        if clip is None:
            clip = 0.01
            facts["note"] = "probabilities of the true class below clip=0.01 count as 0.01"
        facts["clip"] = clip = check_real("clip", clip, low=0.0, high=1.0, closed="neither")
        lower = math.log(clip)
    name = "neg_zero_one_loss" if name == "zero_one_loss" else name
    return metric_class(name=name, lower=lower, upper=upper, **facts)


def available_metrics() -> list[str]:
    """Return the names `get_metric` accepts.

    Returns
    -------
    list of str
        Sorted names.

    See Also
    --------
    get_metric : The metric of a name.

    Examples
    --------
    >>> from sklearn_bdp.metrics import available_metrics
    >>> available_metrics()[:3]
    ['accuracy', 'balanced_accuracy', 'neg_brier_score']
    """
    return list(NAMES)


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
        Decides the default, and the number of classes if it is fitted.
    y : array-like of shape (n,), optional
        *Training* targets: they are public. They give the number of classes and the bounds of
        regression errors.
    **options : dict
        ``k`` (top_k_accuracy), ``clip`` (neg_log_loss), ``bounds=(low, high)``
        (regression errors; a pair of sequences for several outputs), ``alpha``
        (neg_mean_pinball_loss), ``n_classes`` (neg_brier_score), ``pos_label`` (recall: the class;
        specificity: the class that is not counted).

    Returns
    -------
    BoundedMetric
        The metric; its ``note`` names a choice that was made for you.

    Raises
    ------
    UnboundedMetricError
        If the metric has no bounded range or sensitivity; the message names an alternative.
    TypeError, ValueError
        If the name or an option is unknown, or the targets do not fit the metric.

    See Also
    --------
    available_metrics : The names.
    PerRecordScore : Your own score.

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
    if scoring is None and not options:
        return default_metric(estimator, y)
    if isinstance(scoring, PerRecordScore):
        scoring = scoring.metric()
    if isinstance(scoring, BoundedMetric):
        if options:
            raise TypeError(f"options must be empty for {scoring.name}, got {sorted(options)}.")
        return scoring.informed(y)
    scoring, scorer_options = parse_scorer(scoring)
    options |= scorer_options
    allowed = _METRICS[scoring][2]
    if unknown := sorted(set(options).difference(allowed)):
        raise TypeError(f"{scoring} takes the options {[*allowed]}, got {', '.join(unknown)}.")
    return _build_metric(scoring, estimator, y, options)


def forecast_metric(scoring: Any) -> BoundedMetric | None:
    """Return a metric that varies like the named one, with any valid range.

    Parameters
    ----------
    scoring : str, BoundedMetric or None
        A name, or a metric as it is.

    Returns
    -------
    BoundedMetric or None
        None for None.
    """
    if not isinstance(scoring, str):
        return scoring
    # A range needs one of these options, and any value will do.
    accepted = _METRICS[scoring][2] if scoring in _METRICS else ()
    if "bounds" in accepted:
        return get_metric(scoring, bounds=(0.0, 1.0))
    if "n_classes" in accepted:
        return get_metric(scoring, n_classes=2)
    return get_metric(scoring)


def default_metric(estimator: Any, y: ArrayLike | None = None) -> BoundedMetric:
    """Return the metric that stands in for the estimator's ``score``.

    Accuracy for classifiers, as in scikit-learn. For regressors the clipped absolute error:
    scikit-learn's R² divides by the variance of the holdout's targets, a ratio without a bounded
    sensitivity. The metric's ``note`` reports it.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.
    y : array-like of shape (n,), optional
        Training targets; needed for regressors.

    Returns
    -------
    BoundedMetric
        The default.

    Raises
    ------
    UnboundedMetricError
        If the estimator is neither a classifier nor a regressor.

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
        classifier = is_classifier(estimator)
        regressor = is_regressor(estimator)
    except AttributeError:  # an object without estimator tags is of no kind
        classifier = regressor = False
    if classifier:
        metric = get_metric("accuracy", estimator=estimator, y=y)
        last_step = estimator
        while getattr(last_step, "steps", None):  # a pipeline scores by its last step
            last_step = last_step.steps[-1][1]
        module = getattr(getattr(type(last_step), "score", None), "__module__", "sklearn.base")
        # Searches and similar estimators use ``scoring``, by default the model's own score.
        scores_accuracy = getattr(last_step, "scoring", None) in (None, "accuracy")
        if module == "sklearn.base" or (
            scores_accuracy and module.split(".")[0] in ("sklearn", "sklearn_bdp")
        ):
            return metric
        note = (
            f"scoring is accuracy on both sides: {type(last_step).__name__} has a score of its "
            "own, about whose range nothing is known"
        )
        return dataclasses.replace(metric, note=note)
    if regressor:
        metric = get_metric("neg_mean_absolute_error", estimator=estimator, y=y)
        note = "scoring is neg_mean_absolute_error, as R² has no bounded sensitivity; "
        return dataclasses.replace(metric, note=note + metric.note)
    raise UnboundedMetricError(
        f"estimator={type(estimator).__name__} is neither a classifier nor a regressor, so nothing "
        "is known about the range of its score. Pass scoring=, for your own score a PerRecordScore."
    )


# -- Refusals: the one place that looks inside scorers --------------------------------------------

_ERRORS = "use 'neg_mean_absolute_error' or 'neg_mean_squared_error' with bounds=(low, high)"
_RANKS = "use 'roc_auc' (two classes), 'neg_brier_score' or 'neg_log_loss'"
#: Names of one family, why they are refused and what to use instead (``doc/metrics.md`` has more).
_FAMILIES = {
    "f1 precision jaccard matthews_corrcoef positive_likelihood_ratio negative_likelihood_ratio": (
        "it divides by a count that one record can change from 0 to 1. Instead, use "
        "'balanced_accuracy', 'accuracy' or 'neg_brier_score', or a PerRecordScore if you know "
        "what each error costs"
    ),
    "average_precision roc_auc_ovr roc_auc_ovo": f"no bound is proved. Instead, {_RANKS}",
    "recall": (  # recall_weighted and the like
        "averages of recalls weigh classes by counts that one record can change. Instead, use "
        "'balanced_accuracy', or get_metric('recall', pos_label=...) for one class"
    ),
    "d2_brier d2_log_loss": f"it divides by a loss on the holdout's targets. Instead, {_RANKS}",
    "r2 explained_variance d2_absolute_error root_mean_squared_error root_mean_squared_log_error "
    "mean_absolute_percentage_error mean_gamma_deviance mean_poisson_deviance "
    "mean_squared_log_error max_error median_absolute_error": (
        f"there is no bound on what one record can change. Instead, {_ERRORS}, or a PerRecordScore"
    ),
    "adjusted_mutual_info adjusted_rand completeness fowlkes_mallows homogeneity mutual_info "
    "normalized_mutual_info rand v_measure": (
        "it compares clusterings of all records at once. Instead, use a PerRecordScore"
    ),
}
_REASONS = {name: reason for names, reason in _FAMILIES.items() for name in names.split()}
#: What a final report gives, read from the closed holdout.
_REPORTED = {"f1", "precision", "average_precision", "r2", "explained_variance"}
_REPORTED.add("root_mean_squared_error")


def _family(name):
    """Return the name under which a metric is refused."""
    name = str(name).removeprefix("neg_").removesuffix("_score")
    for suffix in ("_micro", "_macro", "_weighted", "_samples"):
        name = name.removesuffix(suffix)
    return name


def _refuse(name):
    """Raise the error for a metric that is not available."""
    if (family := _family(name)) in _REASONS:
        message = f"scoring={name!r} has no proven bound: {_REASONS[family]}."
        if family in _REPORTED:
            message += f" A report shows {name} at the end: final_report(scoring={name!r})."
        raise UnboundedMetricError(message)
    similar_names = difflib.get_close_matches(str(name), [*NAMES, *_REASONS], n=1)
    hint = f" Did you mean {similar_names[0]!r}?" if similar_names else ""
    raise ValueError(
        f"scoring={name!r} is not a metric.{hint} Metrics that can be verified: "
        f"{', '.join(NAMES)}. Your own: PerRecordScore(function, lower, upper)."
    )


_WRAP_IT = (
    "Use a metric's name, or declare one bounded number per record with "
    "PerRecordScore(function, lower, upper)."
)
#: Arguments that make no difference: the Brier score of two classes is the same whichever is
#: positive, and the classes of a log loss are the model's.
_IGNORED = {("neg_brier_score", "pos_label"), ("neg_log_loss", "labels")}


def parse_scorer(scorer: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and options of a metric with a proven bound.

    Parameters
    ----------
    scorer : str or callable
        A name, or a scorer that ``make_scorer`` made of such a metric.

    Returns
    -------
    name : str
        One of :func:`available_metrics`.
    options : dict
        As for :func:`get_metric`.

    Raises
    ------
    UnboundedMetricError
        If no bound is proven for the scorer.
    """
    if isinstance(scorer, str):
        if scorer not in _METRICS:
            _refuse(scorer)
        return scorer, {}
    if not callable(scorer):
        raise TypeError(
            "scoring must be one name, scorer, PerRecordScore or None (each metric is a query "
            f"of its own), got {type(scorer).__name__}."
        )
    function = getattr(scorer, "_score_func", None)
    described = getattr(function or scorer, "__name__", type(scorer).__name__)
    base_name = described.removesuffix("_score")
    name = None
    if function is not None and getattr(metrics, described, None) is function:
        candidates = (f"neg_{base_name}", f"neg_{base_name.removesuffix('_loss')}", base_name)
        name = next((candidate for candidate in candidates if candidate in NAMES), None)
        if name is None and _family(base_name) in _REASONS:
            _refuse(base_name)
    if name is None:
        raise UnboundedMetricError(
            f"scoring={described} is not supported: the range of its values, and how far one "
            f"record can move them, are unknown. {_WRAP_IT}"
        )
    metric_class, _, accepted = _METRICS[name]
    defaults = inspect.signature(scorer._score_func).parameters
    options: dict[str, Any] = {}
    wrong = ""
    for key, value in scorer._kwargs.items():
        if key in accepted:  # with the same meaning in scikit-learn
            options[key] = value
        elif (name, key) not in _IGNORED:
            is_default = key in defaults and value is defaults[key].default
            if not is_default:
                wrong = f"{key}={value!r}"
    response = scorer._response_method
    methods = response if isinstance(response, list | tuple) else (response,)
    metadata = getattr(getattr(scorer, "_metadata_request", None), "score", None)
    requests = getattr(metadata, "requests", {}).values()
    if scorer._sign != (-1 if name.startswith("neg_") else 1):
        wrong = "the wrong greater_is_better (it would look for the worst model)"
    elif tuple(methods) != metric_class._methods:
        wrong = f"response_method={response!r}"
    elif any(request not in (None, False) for request in requests):
        wrong = "sample weights or other metadata"
    if wrong:
        raise UnboundedMetricError(
            f"scoring is made from {described} with {wrong}, for which no bound is proved. Use "
            f"scoring={name!r}. {_WRAP_IT}"
        )
    return name, options
