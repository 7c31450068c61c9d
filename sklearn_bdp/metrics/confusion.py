"""Scores of many confusion matrices at once, as scikit-learn defines them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_bdp._typing import Array

#: Arguments of scikit-learn's functions that the formulas support.
_SUPPORTED_ARGUMENTS = {"average", "pos_label", "beta", "zero_division"}


def confusion_scores(
    tables: Array, function_name: str, arguments: dict[str, Any], labels: Array
) -> Array | None:
    """Return the score of each confusion matrix, or None for a score without a formula here.

    Parameters
    ----------
    tables : ndarray of shape (n_tables, n_labels, n_labels)
        Sums of record weights; rows are targets, columns predictions. Sums of each row and of each
        column are positive.
    function_name : str
        Name of scikit-learn's function, such as ``"f1_score"``.
    arguments : dict
        Arguments of the function.
    labels : ndarray of shape (n_labels,)
        Labels in the order of rows and columns.

    Returns
    -------
    ndarray of shape (n_tables,) or None
        Values of the function.
    """
    if set(arguments) - _SUPPORTED_ARGUMENTS:
        return None
    total = tables.sum(axis=(1, 2))
    hits = np.einsum("tii->ti", tables)
    actual = tables.sum(axis=2)
    predicted = tables.sum(axis=1)
    if function_name == "accuracy_score":
        return hits.sum(axis=1) / total
    if function_name == "balanced_accuracy_score":
        return np.mean(hits / actual, axis=1)
    if function_name in ("matthews_corrcoef", "cohen_kappa_score"):
        # Both are multiplied by the squared total weight.
        accuracy = hits.sum(axis=1) * total
        chance_accuracy = np.sum(actual * predicted, axis=1)
        if function_name == "cohen_kappa_score":
            return (accuracy - chance_accuracy) / (total**2 - chance_accuracy)
        variance_product = (total**2 - np.sum(predicted**2, axis=1)) * (
            total**2 - np.sum(actual**2, axis=1)
        )
        return (accuracy - chance_accuracy) / np.sqrt(variance_product)
    beta_squared = _beta_squared(function_name, arguments)
    return _score_of_counts(hits, actual, predicted, beta_squared, function_name, arguments, labels)


def _beta_squared(function_name, arguments):
    """Return the squared beta of ``fbeta_score``, 1 for other functions."""
    return float(arguments.get("beta", 1.0)) ** 2 if function_name == "fbeta_score" else 1.0


def _score_of_counts(hits, actual, predicted, beta_squared, function_name, arguments, labels):
    """Return F scores, precision, recall or Jaccard of one class, or averaged over classes.

    ``hits``, ``actual`` and ``predicted`` have the shape (n_tables, n_labels): the weight of the
    records of each class that are predicted correctly, that are in the class, and that are
    predicted as it. Return one score for each table. Return None for other functions and averages,
    and for one class that is not one of two labels.
    """
    average = arguments.get("average", "binary")
    if average == "micro":
        hits = hits.sum(axis=1, keepdims=True)
        actual = actual.sum(axis=1, keepdims=True)
        predicted = predicted.sum(axis=1, keepdims=True)
    denominators = {
        "f1_score": (beta_squared * actual + predicted) / (1.0 + beta_squared),
        "fbeta_score": (beta_squared * actual + predicted) / (1.0 + beta_squared),
        "precision_score": predicted,
        "recall_score": actual,
        "jaccard_score": actual + predicted - hits,
    }
    if function_name not in denominators:
        return None
    class_scores = hits / denominators[function_name]
    if average in ("micro", "macro"):
        return class_scores.mean(axis=1)
    if average == "weighted":
        return np.sum(class_scores * actual, axis=1) / actual.sum(axis=1)
    positive_positions = np.flatnonzero(labels == arguments.get("pos_label", 1))
    if average != "binary" or positive_positions.size != 1 or labels.size > 2:
        return None
    return class_scores[:, positive_positions[0]]
