"""Influence of single records on scores that are functions of means over records."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import sklearn.metrics
from scipy.special import xlogy
from scipy.stats import rankdata

from sklearn_bdp._typing import Array

#: Loss functions that return the loss of each output with ``multioutput="raw_values"``.
_LOSSES_BY_OUTPUT = {
    *("mean_absolute_error", "mean_absolute_percentage_error", "mean_pinball_loss"),
    "mean_squared_log_error",
}
_SAMPLE_AVERAGES = {"f1_score", "jaccard_score", "precision_score", "recall_score"}


def influence_on_score(
    function_name: str,
    arguments: dict[str, Any],
    y: Array,
    predictions: Array,
    pos_label: Any = None,
) -> Array | None:
    """Return the influence of each record on the value of a score function of scikit-learn.

    Parameters
    ----------
    function_name : str
        Name of the function, such as ``"mean_absolute_error"``.
    arguments : dict
        Its arguments.
    y : ndarray of shape (n,) or (n, n_outputs)
        Targets.
    predictions : ndarray of shape (n,), (n, n_outputs) or (n, n_classes)
        Predictions in the form that the function takes.
    pos_label : object, default=None
        Positive class of one-dimensional predictions. If None, the last class.

    Returns
    -------
    ndarray of shape (n,) or None
        Derivative of the function's value by the record's weight, times the number of records. For
        a mean of losses it is the loss minus their mean. None for unsupported functions and
        arguments, and if the influence is undefined for these records.
    """
    if function_name in _SKILLS and y.ndim == 1 and not arguments:
        return _SKILLS[function_name](y, predictions, pos_label)
    if function_name == "roc_auc_score" and y.ndim == 1:
        return _auc_influence(arguments, y, predictions, pos_label)
    if arguments.get("average") == "samples" and function_name in _SAMPLE_AVERAGES:
        return _centered(_sample_scores(function_name, arguments, y, predictions))
    if y.ndim == 2 and predictions.shape == y.shape:
        return _mean_over_outputs(function_name, arguments, y, predictions)
    if y.ndim != 1 or predictions.ndim != 1:
        return None
    if function_name == "root_mean_squared_log_error" and not arguments:
        return _root_influence(record_losses("mean_squared_log_error", {}, y, predictions))
    return _centered(record_losses(function_name, arguments, y, predictions))


def record_losses(
    function_name: str, arguments: dict[str, Any], y: Array, predictions: Array
) -> Array | None:
    """Return the losses whose mean is the value of a function, None for unsupported functions.

    Parameters
    ----------
    function_name : str
        Name of scikit-learn's function.
    arguments : dict
        Its arguments.
    y, predictions : ndarray of shape (n,)
        Targets and predictions.

    Returns
    -------
    ndarray of shape (n,) or None
        Loss of each record; None also for unsupported arguments and numbers outside of the domain.
    """
    if function_name in _LOSSES_BY_OUTPUT and set(arguments) <= {"alpha"}:
        # Records are passed as outputs of a single record, so that the function returns each loss.
        loss_function = getattr(sklearn.metrics, function_name)
        try:
            losses = loss_function(
                y[None], predictions[None], multioutput="raw_values", **arguments
            )
        except ValueError:  # such as a squared log error of a number of at most -1
            return None
        return np.asarray(losses, dtype=float)
    if arguments or function_name not in ("mean_poisson_deviance", "mean_gamma_deviance"):
        return None
    y = np.asarray(y, dtype=float)
    min_target = 0.0 if function_name == "mean_poisson_deviance" else np.finfo(float).tiny
    if not (y.min() >= min_target and predictions.min() > 0.0):
        return None  # outside of the domain
    if function_name == "mean_poisson_deviance":
        return 2.0 * (xlogy(y, y / predictions) - y + predictions)
    return 2.0 * (np.log(predictions / y) + y / predictions - 1.0)


def _centered(values):
    """Return an array minus its mean, or None for None."""
    return None if values is None else values - values.mean()


def _root_influence(losses):
    """Return each record's influence on the root of the mean loss, None without losses above 0."""
    if losses is None or losses.mean() == 0.0:
        return None
    return _centered(losses) / (2.0 * math.sqrt(losses.mean()))


def _mean_over_outputs(function_name, arguments, y, predictions):
    """Return the influence of each record on the mean over outputs of a loss or root loss.

    Return None for other functions and arguments, and if an influence is undefined.
    """
    is_loss = function_name in _LOSSES_BY_OUTPUT or function_name == "root_mean_squared_log_error"
    options = dict(arguments)
    if not is_loss or options.pop("multioutput", "uniform_average") != "uniform_average":
        return None
    influence_by_output = [
        influence_on_score(function_name, options, output_targets, output_predictions)
        for output_targets, output_predictions in zip(y.T, predictions.T, strict=True)
    ]
    if any(influence is None for influence in influence_by_output):
        return None
    return np.mean(influence_by_output, axis=0)


def _ratio_influence(losses, reference_losses):
    """Return each record's influence on 1 minus the ratio of the mean losses.

    Return None if the mean of ``reference_losses`` is 0. Their constant prediction is held fixed:
    it minimizes their mean, so that its change has no effect of first order.
    """
    mean_reference_loss = float(np.mean(reference_losses))
    if not mean_reference_loss > 0.0:
        return None
    return (
        -(losses - float(np.mean(losses)) / mean_reference_loss * reference_losses)
        / mean_reference_loss
    )


def _absolute_skill_influence(y, predictions, pos_label):
    """Return each record's influence on D² of absolute errors, None if all targets are equal.

    ``pos_label`` is not used.
    """
    return _ratio_influence(np.abs(y - predictions), np.abs(y - np.median(y)))


def _brier_influence(y, predictions, pos_label):
    """Return each record's influence on the Brier skill score, of shape (n,).

    Return None for a single class, and if the number of columns of ``predictions`` is not that of
    the classes in ``y``.
    """
    classes = np.unique(y)
    if predictions.ndim == 1:
        is_positive = (y == (classes[-1] if pos_label is None else pos_label)).astype(float)
        return _ratio_influence(
            (is_positive - predictions) ** 2, (is_positive - is_positive.mean()) ** 2
        )
    if predictions.shape[1] != classes.size:
        return None
    is_class = (y[:, None] == classes).astype(float)
    reference_losses = np.sum((is_class - is_class.mean(axis=0)) ** 2, axis=1)
    return _ratio_influence(np.sum((is_class - predictions) ** 2, axis=1), reference_losses)


#: Influence on skill scores: functions of targets, predictions and positive label.
_SKILLS = {"d2_absolute_error_score": _absolute_skill_influence, "d2_brier_score": _brier_influence}


def _sample_scores(function_name, arguments, y, predictions):
    """Return the score of each record over its labels, 0 if its denominator is 0.

    ``y`` and ``predictions`` are indicators of shape (n, n_labels). Return None for other shapes
    and for unsupported arguments.
    """
    is_supported = set(arguments) <= {"average", "pos_label", "zero_division"}
    if not (is_supported and arguments.get("zero_division", "warn") in ("warn", 0)):
        return None
    if y.ndim != 2 or predictions.shape != y.shape:
        return None
    is_actual = np.asarray(y != 0)
    is_predicted = np.asarray(predictions != 0)
    n_hits = np.sum(is_actual & is_predicted, axis=1)
    denominators = {
        "f1_score": 0.5 * (is_actual.sum(axis=1) + is_predicted.sum(axis=1)),
        "jaccard_score": np.sum(is_actual | is_predicted, axis=1),
        "precision_score": is_predicted.sum(axis=1),
        "recall_score": is_actual.sum(axis=1),
    }
    return n_hits / np.maximum(denominators[function_name], 0.5)


def _auc_influence(arguments, y, predictions, pos_label):
    """Return each record's influence on ROC AUC of two classes, or on an average for several.

    Return None for unsupported arguments and shapes.
    """
    classes = np.unique(y)
    if predictions.ndim == 1 and classes.size == 2 and not arguments:
        is_positive = y == (classes[1] if pos_label is None else pos_label)
        return _pair_influence(predictions, is_positive, ~is_positive)[1]
    average = arguments.get("average", "macro")
    is_supported = set(arguments) <= {"average", "multi_class"} and average in ("macro", "weighted")
    if not is_supported or predictions.shape != (y.size, classes.size):
        return None
    class_masks = [y == label for label in classes]
    if arguments.get("multi_class") == "ovr":
        comparisons = _rest_comparisons(predictions, class_masks)
    elif arguments.get("multi_class") == "ovo":
        comparisons = _class_comparisons(predictions, class_masks)
    else:
        return None
    return _averaged_influence(comparisons, is_weighted=average == "weighted")


def _rest_comparisons(predictions, class_masks):
    """Return for each class its AUC against all others, the influence on it, and the class's mask.

    ``predictions`` has a column for each class.
    """
    comparisons = []
    for k, is_member in enumerate(class_masks):
        auc, influence = _pair_influence(predictions[:, k], is_member, ~is_member)
        comparisons.append((auc, influence, is_member))
    return comparisons


def _class_comparisons(predictions, class_masks):
    """Return for each pair of classes the mean AUC, the influence on it, and the mask of both.

    ``predictions`` has a column for each class. The mean is over the columns of both classes.
    """
    comparisons = []
    for i, j in itertools.combinations(range(len(class_masks)), 2):
        mask_i, mask_j = class_masks[i], class_masks[j]
        auc_of_i, influence_of_i = _pair_influence(predictions[:, i], mask_i, mask_j)
        auc_of_j, influence_of_j = _pair_influence(predictions[:, j], mask_j, mask_i)
        mean_auc = 0.5 * (auc_of_i + auc_of_j)
        mean_influence = 0.5 * (influence_of_i + influence_of_j)
        comparisons.append((mean_auc, mean_influence, mask_i | mask_j))
    return comparisons


def _averaged_influence(comparisons, *, is_weighted):
    """Return each record's influence on a mean of AUCs, of shape (n,).

    ``comparisons`` are tuples of an AUC, the influence on it, and the mask of the class (one
    against the rest) or of both classes (one against one). If ``is_weighted``, an AUC is weighted
    by the proportion of records in its mask.
    """
    if not is_weighted:
        return np.mean([influence for _, influence, _ in comparisons], axis=0)
    total_weight = 0.0
    total_influence = 0.0
    for auc, influence, is_member in comparisons:
        weight = np.mean(is_member)
        total_weight += weight
        # More mass on a record also changes the proportion that weighs the AUC.
        total_influence = total_influence + weight * influence + (is_member - weight) * auc
    return total_influence / total_weight


def _pair_influence(scores, is_positive, is_negative):
    """Return the AUC of two sets of records, and each record's influence on it (0 in neither)."""
    influence = np.zeros(scores.size)
    n_positive = np.count_nonzero(is_positive)
    n_negative = np.count_nonzero(is_negative)
    positive_scores = scores[is_positive]
    negative_scores = scores[is_negative]
    ranks = rankdata(np.concatenate([positive_scores, negative_scores]))
    # For each record, the proportion of the other set with which it is ranked correctly.
    wins_of_positive = (ranks[:n_positive] - rankdata(positive_scores)) / n_negative
    wins_of_negative = 1.0 - (ranks[n_positive:] - rankdata(negative_scores)) / n_positive
    auc = float(np.mean(wins_of_positive))
    influence[is_positive] = (wins_of_positive - auc) * scores.size / n_positive
    influence[is_negative] = (wins_of_negative - auc) * scores.size / n_negative
    return auc, influence
