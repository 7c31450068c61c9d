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

#: Functions that take several outputs, and return the loss of each one.
_BY_OUTPUT = {
    *("mean_absolute_error", "mean_absolute_percentage_error", "mean_pinball_loss"),
    "mean_squared_log_error",
}
_SAMPLES = {"f1_score", "jaccard_score", "precision_score", "recall_score"}


def influence_on_score(
    function_name: str, arguments: dict[str, Any], y: Array, response: Array, pos_label: Any = None
) -> Array | None:
    """Return the influence of each record on a score function of scikit-learn.

    Parameters
    ----------
    function_name : str
        Name of the function, such as ``"mean_absolute_error"``.
    arguments : dict
        Its arguments.
    y, response : ndarray of shape (n,) or (n, n_outputs)
        Targets, and responses of the model as the function takes them.
    pos_label : object, default=None
        Class whose probabilities a one-dimensional response holds.

    Returns
    -------
    ndarray of shape (n,) or None
        Change of the function per change of the record's weight, in units of a mean over records.
        None for functions that are not known here.
    """
    if function_name in _SKILLS and y.ndim == 1 and not arguments:
        return _SKILLS[function_name](y, response, pos_label)
    if function_name == "roc_auc_score" and y.ndim == 1:
        return _auc_influence(arguments, y, response, pos_label)
    if arguments.get("average") == "samples" and function_name in _SAMPLES:
        return _centered(_sample_scores(function_name, arguments, y, response))
    if y.ndim == 2 and response.shape == y.shape:
        return _mean_over_outputs(function_name, arguments, y, response)
    if y.ndim != 1 or response.ndim != 1:
        return None
    if function_name == "root_mean_squared_log_error" and not arguments:
        return _root_influence(record_losses("mean_squared_log_error", {}, y, response))
    return _centered(record_losses(function_name, arguments, y, response))


def record_losses(
    function_name: str, arguments: dict[str, Any], y: Array, response: Array
) -> Array | None:
    """Return the losses whose mean is the value of a loss function, or None for other functions.

    Parameters
    ----------
    function_name : str
        Name of scikit-learn's function.
    arguments : dict
        Its arguments.
    y, response : ndarray of shape (n,)
        Targets and predictions.

    Returns
    -------
    ndarray of shape (n,) or None
        Loss of each record.
    """
    if function_name in _BY_OUTPUT and set(arguments) <= {"alpha"}:
        # One record with an output for each of ours: the function returns every loss by itself.
        function = getattr(sklearn.metrics, function_name)
        return np.asarray(
            function(y[None], response[None], multioutput="raw_values", **arguments), dtype=float
        )
    if arguments or function_name not in ("mean_poisson_deviance", "mean_gamma_deviance"):
        return None
    y = np.asarray(y, dtype=float)
    least = 0.0 if function_name == "mean_poisson_deviance" else np.finfo(float).tiny
    if not (y.min() >= least and response.min() > 0.0):
        return None  # scikit-learn raises its error
    if function_name == "mean_poisson_deviance":
        return 2.0 * (xlogy(y, y / response) - y + response)
    return 2.0 * (np.log(response / y) + y / response - 1.0)


def _centered(values):
    """Return values less their mean, or None without values."""
    return None if values is None else values - values.mean()


def _root_influence(losses):
    """Return the influence on the root of a mean loss, None without losses or if all are 0."""
    if losses is None or losses.mean() == 0.0:
        return None
    return _centered(losses) / (2.0 * math.sqrt(losses.mean()))


def _mean_over_outputs(function_name, arguments, y, response):
    """Return the influence on a loss that is the mean of those of several outputs, or None."""
    is_loss = function_name in _BY_OUTPUT or function_name == "root_mean_squared_log_error"
    options = dict(arguments)
    if not is_loss or options.pop("multioutput", "uniform_average") != "uniform_average":
        return None
    by_output = [
        influence_on_score(function_name, options, target, prediction)
        for target, prediction in zip(y.T, response.T, strict=True)
    ]
    if any(influence is None for influence in by_output):
        return None
    return np.mean(by_output, axis=0)


def _ratio_influence(losses, scales):
    """Return the influence on 1 minus a ratio of two means; the reference has no first effect."""
    mean_scale = float(np.mean(scales))
    if not mean_scale > 0.0:
        return None
    return -(losses - float(np.mean(losses)) / mean_scale * scales) / mean_scale


def _absolute_skill_influence(y, response, pos_label):
    """Return the influence on the skill of absolute errors; ``pos_label`` has no meaning here."""
    return _ratio_influence(np.abs(y - response), np.abs(y - np.median(y)))


def _brier_influence(y, response, pos_label):
    """Return the influence on the skill of Brier scores, of two classes or more."""
    classes = np.unique(y)
    if response.ndim == 1:
        is_positive = (y == (classes[-1] if pos_label is None else pos_label)).astype(float)
        return _ratio_influence(
            (is_positive - response) ** 2, (is_positive - is_positive.mean()) ** 2
        )
    if response.shape[1] != classes.size:
        return None
    is_class = (y[:, None] == classes).astype(float)
    scales = np.sum((is_class - is_class.mean(axis=0)) ** 2, axis=1)
    return _ratio_influence(np.sum((is_class - response) ** 2, axis=1), scales)


#: Skill scores with a closed form: functions of targets, response and positive label.
_SKILLS = {"d2_absolute_error_score": _absolute_skill_influence, "d2_brier_score": _brier_influence}


def _sample_scores(function_name, arguments, y, response):
    """Return the score of each record over its labels, 0 where nothing is there to divide by."""
    is_plain = set(arguments) <= {"average", "pos_label", "zero_division"}
    if not (is_plain and arguments.get("zero_division", "warn") in ("warn", 0)):
        return None
    if y.ndim != 2 or response.shape != y.shape:
        return None
    actual = np.asarray(y != 0)
    called = np.asarray(response != 0)
    n_hits = np.sum(actual & called, axis=1)
    denominators = {
        "f1_score": 0.5 * (actual.sum(axis=1) + called.sum(axis=1)),
        "jaccard_score": np.sum(actual | called, axis=1),
        "precision_score": called.sum(axis=1),
        "recall_score": actual.sum(axis=1),
    }
    return n_hits / np.maximum(denominators[function_name], 0.5)


def _auc_influence(arguments, y, response, pos_label):
    """Return the influence on ROC AUC of two classes, or of several as scikit-learn averages it."""
    classes = np.unique(y)
    if response.ndim == 1 and classes.size == 2 and not arguments:
        is_positive = y == (classes[1] if pos_label is None else pos_label)
        return _pair_influence(response, is_positive, ~is_positive)[1]
    average = arguments.get("average", "macro")
    is_plain = set(arguments) <= {"average", "multi_class"} and average in ("macro", "weighted")
    if not is_plain or response.shape != (y.size, classes.size):
        return None
    is_class = [y == label for label in classes]
    if arguments.get("multi_class") == "ovr":
        comparisons = _rest_comparisons(response, is_class)
    elif arguments.get("multi_class") == "ovo":
        comparisons = _class_comparisons(response, is_class)
    else:
        return None
    return _averaged_influence(comparisons, is_weighted=average == "weighted")


def _rest_comparisons(response, is_class):
    """Return the AUC of each class against all others, its influence, and the class."""
    comparisons = []
    for k, members in enumerate(is_class):
        auc, influence = _pair_influence(response[:, k], members, ~members)
        comparisons.append((auc, influence, members))
    return comparisons


def _class_comparisons(response, is_class):
    """Return the AUC of each pair of classes, its influence, and the records of both."""
    comparisons = []
    for first, second in itertools.combinations(range(len(is_class)), 2):
        forward = _pair_influence(response[:, first], is_class[first], is_class[second])
        backward = _pair_influence(response[:, second], is_class[second], is_class[first])
        mean_auc = 0.5 * (forward[0] + backward[0])
        mean_influence = 0.5 * (forward[1] + backward[1])
        comparisons.append((mean_auc, mean_influence, is_class[first] | is_class[second]))
    return comparisons


def _averaged_influence(comparisons, *, is_weighted):
    """Return the influence on a mean of AUCs, weighted by the shares of their records or not."""
    if not is_weighted:
        return np.mean([influence for _, influence, _ in comparisons], axis=0)
    total_weight = 0.0
    total_influence = 0.0
    for auc, influence, members in comparisons:
        weight = np.mean(members)
        total_weight += weight
        # Shares of classes vary, too; their sum does not.
        total_influence = total_influence + weight * influence + (members - weight) * auc
    return total_influence / total_weight


def _pair_influence(scores, is_positive, is_negative):
    """Return the AUC of two sets of records, and the influence of every record on it."""
    influence = np.zeros(scores.size)
    n_positive = np.count_nonzero(is_positive)
    n_negative = np.count_nonzero(is_negative)
    positive_scores = scores[is_positive]
    negative_scores = scores[is_negative]
    ranks = rankdata(np.concatenate([positive_scores, negative_scores]))
    # Share of the other set that a record is ranked on the right side of.
    wins_of_positive = (ranks[:n_positive] - rankdata(positive_scores)) / n_negative
    wins_of_negative = 1.0 - (ranks[n_positive:] - rankdata(negative_scores)) / n_positive
    auc = float(np.mean(wins_of_positive))
    influence[is_positive] = (wins_of_positive - auc) * scores.size / n_positive
    influence[is_negative] = (wins_of_negative - auc) * scores.size / n_negative
    return auc, influence
