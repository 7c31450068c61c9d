"""From what callers pass as ``scoring`` to a bounded metric, or to an error that says why not."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._checks import check_array, check_integer, check_real
from sklearn_bdp._metric_names import NAMES
from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics._base import BoundedMetric, as_labels
from sklearn_bdp.metrics._by_class import BalancedAccuracy, Recall, RocAuc
from sklearn_bdp.metrics._means import (
    Accuracy,
    BrierScore,
    ClippedError,
    HammingScore,
    LogLoss,
    PinballLoss,
    TopKAccuracy,
)
from sklearn_bdp.metrics._refusals import refuse, unwrap_scorer
from sklearn_bdp.metrics._wrapper import PerRecordScore

_WIDEST = 1e100  # its square is a double


def _n_classes(name, estimator, y, n_classes):
    """Number of classes from the option, the fitted estimator or the training targets."""
    if n_classes is not None:
        return check_integer("n_classes", n_classes, low=2)
    if hasattr(estimator, "classes_"):
        return max(2, len(estimator.classes_))
    if y is not None:
        return max(2, len(np.unique(as_labels(y))))
    raise ValueError(
        f"{name} needs the number of classes for its range: pass y= (training targets), a fitted "
        "estimator=, or n_classes=."
    )


def _check_classes(name, y, *, multilabel=False):
    if y is None:
        return
    allowed = ("binary", "multiclass") + (("multilabel-indicator",) if multilabel else ())
    target = type_of_target(as_labels(y))
    if target == "multiclass-multioutput":
        raise ValueError(
            f"{name} does not take several outputs of several classes, as in scikit-learn; declare "
            "what one record counts with a PerRecordScore, for instance "
            "lambda e, X, y: (e.predict(X) == y).mean(axis=1)."
        )
    if target not in allowed:
        raise ValueError(f"{name} needs class labels ({', '.join(allowed)}), got {target} targets.")


def _share(kind, lower, upper, shown=None):
    def make(name, estimator, y):
        _check_classes(name, y, multilabel=True)
        return kind(name=shown or name, lower=lower, upper=upper)

    return make


def _top_k(name, estimator, y, k=2):
    _check_classes(name, y)
    k = check_integer("k", k, low=1)
    if (y is not None or hasattr(estimator, "classes_")) and not k < (
        n_classes := _n_classes(name, estimator, y, None)
    ):
        raise ValueError(f"k must be below the number of classes, {n_classes}, got k={k}.")
    return TopKAccuracy(name=name, lower=0.0, upper=1.0, k=k)


def _brier(name, estimator, y, n_classes=None):
    _check_classes(name, y)
    # scikit-learn halves the score for two classes and not for more.
    lower = -1.0 if _n_classes(name, estimator, y, n_classes) == 2 else -2.0
    return BrierScore(name="neg_brier_score", lower=lower, upper=0.0)


def _log_loss(name, estimator, y, clip=None):
    _check_classes(name, y)
    note = ""
    if clip is None:
        clip = 0.01
        note = "probabilities of the true class below clip=0.01 count as 0.01"
    clip = check_real("clip", clip, low=0.0, high=1.0, closed="neither")
    return LogLoss(name="neg_log_loss", lower=math.log(clip), upper=0.0, clip=clip, note=note)


def _error(power):
    def make(name, estimator, y, bounds=None):
        width, note = _cap(name, y, bounds)
        lower = -float(np.mean(np.asarray(width, dtype=float) ** power))
        return ClippedError(name=name, lower=lower, upper=0.0, power=power, width=width, note=note)

    return make


def _pinball(name, estimator, y, alpha=0.5, bounds=None):
    alpha = check_real("alpha", alpha, low=0.0, high=1.0)
    width, note = _cap(name, y, bounds)
    lower = -max(alpha, 1.0 - alpha) * float(np.mean(width))
    return PinballLoss(name=name, lower=lower, upper=0.0, width=width, alpha=alpha, note=note)


def _cap(name, y, bounds):
    """Return the largest error that counts, of each output, and a note where nobody gave it."""
    targets, given = None if y is None else as_labels(y), bounds is not None
    if targets is not None and (
        targets.dtype.kind not in "fiub"
        or targets.ndim not in (1, 2)
        or not np.isfinite(targets).all()
    ):
        raise ValueError(
            f"{name} needs finite numbers as targets, one for each record and output, got an array "
            f"of shape {targets.shape} and type {targets.dtype}."
        )
    if not given and targets is None:
        raise ValueError(
            f"{name} needs bounds=(low, high) of the target, as in get_metric({name!r}, "
            "bounds=(low, high)), or y= (training targets) to take them from."
        )
    if not given:
        targets = targets.astype(float)
        bounds = targets.min(axis=0), targets.max(axis=0)
    if np.shape(bounds)[:1] != (2,) or len(np.shape(bounds)) > 2:
        raise ValueError(
            f"bounds must be a pair (low, high), of numbers or of one sequence for all outputs, "
            f"got bounds={bounds!r}."
        )
    low, high = (
        np.clip(np.atleast_1d(check_array("bounds", bound)), -_WIDEST, _WIDEST) for bound in bounds
    )
    same = low.shape == high.shape and low.size
    if not same or not (low < high).all() or not (high - low < _WIDEST).all():
        source = "" if given else ", the range of the training targets"
        raise ValueError(
            f"bounds must be (low, high) with low < high, less than {_WIDEST:g} apart, got "
            f"bounds={bounds!r}{source}."
        )
    width, note = (high - low).tolist(), ""
    if not given:
        shown = ", ".join(f"{part:g}" for part in width)
        note = (
            f"errors are clipped at {shown}, the range of the training targets; pass "
            "bounds=(low, high) to change it" + _HEAVY * _heavy_tailed(targets)
        )
    return (width[0] if len(width) == 1 else tuple(width)), note


_HEAVY = ". The target has a heavy tail, so that intervals are wide: fit and score log(y)"


def _heavy_tailed(targets):
    """Return whether positive targets reach ten times further above the median than half do."""
    if not targets.min() > 0.0:
        return False
    low, middle, high = np.quantile(targets, [0.25, 0.5, 0.75])
    return bool(targets.max() - middle > 10.0 * max(high - low, 1e-12))


def _by_class(kind, *, binary=False, **fixed):
    def make(name, estimator, y):
        _check_classes(name, y)
        if binary and y is not None and len(np.unique(as_labels(y))) != 2:
            raise UnboundedMetricError(
                f"{name} is available for two classes only. Use 'balanced_accuracy' or "
                "'neg_brier_score'."
            )
        classes = None  # those of a fitted model are public
        if y is None and hasattr(estimator, "classes_"):
            classes = tuple(np.asarray(estimator.classes_).tolist())
        metric = kind(name=name, lower=0.0, upper=1.0, classes=classes, **fixed).informed(y)
        if metric.classes:
            metric.expected_shape(1)  # an option that does not fit is told before anything is asked
        return metric

    return make


def _recall(*, other):
    def make(name, estimator, y, pos_label=1):
        return _by_class(Recall, binary=other, other=other, pos_label=pos_label)(name, estimator, y)

    return make


_MAKERS = {
    "accuracy": _share(Accuracy, 0.0, 1.0),
    "zero_one_loss": _share(Accuracy, -1.0, 0.0, "neg_zero_one_loss"),
    "neg_zero_one_loss": _share(Accuracy, -1.0, 0.0),
    "neg_hamming_loss": _share(HammingScore, -1.0, 0.0),
    "top_k_accuracy": _top_k,
    "neg_brier_score": _brier,
    "neg_log_loss": _log_loss,
    "neg_mean_absolute_error": _error(1),
    "neg_mean_squared_error": _error(2),
    "neg_mean_pinball_loss": _pinball,
    "balanced_accuracy": _by_class(BalancedAccuracy),
    "recall": _recall(other=False),
    "specificity": _recall(other=True),
    "roc_auc": _by_class(RocAuc, binary=True),
}


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
    sklearn_bdp.exceptions.UnboundedMetricError: scoring='f1' cannot choose candidates: ...
    """
    if scoring is None and not options:
        return default_metric(estimator, y)
    if isinstance(scoring, PerRecordScore):
        scoring = scoring.metric()
    if isinstance(scoring, BoundedMetric):
        if options:
            raise TypeError(f"options must be empty for {scoring.name}, got {sorted(options)}.")
        return scoring.informed(y)
    if not isinstance(scoring, str) and callable(scoring):
        scoring, found = unwrap_scorer(scoring, NAMES)
        options |= found
    if not isinstance(scoring, str):
        raise TypeError(
            "scoring must be one name, scorer, PerRecordScore or None (each metric is a query "
            f"of its own), got {type(scoring).__name__}."
        )
    if scoring not in _MAKERS:
        refuse(scoring, NAMES)
    _check_options(scoring, options)
    return _MAKERS[scoring](scoring, estimator, y, **options)


def forecast_metric(scoring: Any) -> BoundedMetric | None:
    """Return a metric that varies like the one that is meant, whatever its range is.

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
    # A range needs one of these, and any will do.
    known: dict[str, Any] = {"bounds": (0.0, 1.0), "n_classes": 2}
    taken = inspect.signature(_MAKERS[scoring]).parameters if scoring in _MAKERS else ()
    return get_metric(scoring, **{name: known[name] for name in known if name in taken})


def check_scoring(scoring: Any) -> None:
    """Raise what `get_metric` raises of a ``scoring`` that no model and no data make sound.

    Parameters
    ----------
    scoring : object
        As for `get_metric`.
    """
    if isinstance(scoring, str):
        if scoring not in _MAKERS:
            refuse(scoring, NAMES)
    elif callable(scoring):
        unwrap_scorer(scoring, NAMES)
    elif not isinstance(scoring, BoundedMetric | PerRecordScore | None):
        get_metric(scoring)


def _check_options(name, options):
    allowed = [*inspect.signature(_MAKERS[name]).parameters][3:]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise TypeError(f"{name} takes the options {allowed}, got {', '.join(unknown)}.")


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
    if _is_kind(is_classifier, estimator):
        metric = get_metric("accuracy", estimator=estimator, y=y)
        return dataclasses.replace(metric, note=_own_score(estimator))
    if _is_kind(is_regressor, estimator):
        metric = get_metric("neg_mean_absolute_error", estimator=estimator, y=y)
        note = (
            f"scoring is neg_mean_absolute_error, as R² has no bounded sensitivity; {metric.note}"
        )
        return dataclasses.replace(metric, note=note)
    raise UnboundedMetricError(
        f"estimator={type(estimator).__name__} is neither a classifier nor a regressor, so nothing "
        "is known about the range of its score. Pass scoring=, for your own score a PerRecordScore."
    )


def _own_score(estimator):
    """Say so where the estimator's ``score`` may be anything but accuracy."""
    part = estimator
    while getattr(part, "steps", None):  # a pipeline scores by its last step
        part = part.steps[-1][1]
    module = getattr(getattr(type(part), "score", None), "__module__", "sklearn.base")
    # Searches and their kin score by ``scoring``, whose default is the model's own score.
    plain = getattr(part, "scoring", None) in (None, "accuracy")
    if module == "sklearn.base" or (plain and module.split(".")[0] in ("sklearn", "sklearn_bdp")):
        return ""
    return (
        f"scoring is accuracy on both sides: {type(part).__name__} has a score of its own, about "
        "whose range nothing is known"
    )


def _is_kind(check, estimator):
    """Ask scikit-learn; an object without estimator tags is of no kind."""
    try:
        return check(estimator)
    except AttributeError:
        return False
