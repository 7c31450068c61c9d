"""Check that a scorer is not a sum, and is defined for the labels of the training targets."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp.metrics.base import as_labels


def check_not_sum(scoring: Any) -> None:
    """Raise if a scorer of scikit-learn is a sum over records instead of a mean.

    Parameters
    ----------
    scoring : object
        A scorer; anything else passes, and so does a scorer of a caller's own function.

    Raises
    ------
    ValueError
        If the scorer is made from a function of scikit-learn with ``normalize=False``.
    """
    function = getattr(scoring, "_score_func", None)
    function_name = getattr(function, "__name__", "")
    is_sum = not getattr(scoring, "_kwargs", {}).get("normalize", True)
    if is_sum and getattr(sklearn.metrics, function_name, None) is function:
        raise ValueError(
            f"scoring must be a mean over records, got {function_name} with normalize=False, a sum "
            "that grows with their number. Set normalize=True in make_scorer. The holdout was not "
            "queried."
        )


def check_counted_class(scoring: Any, y: ArrayLike | None) -> None:
    """Raise if a scorer of scikit-learn is undefined for the labels of the targets.

    Parameters
    ----------
    scoring : object
        A name or a scorer of scikit-learn; anything else passes.
    y : array-like or None
        *Training* targets; None passes.

    Raises
    ------
    ValueError
        If the positive class is not among two or more labels, or the scorer is for two classes and
        there are more.
    """
    scorer = scoring
    if isinstance(scoring, str):
        scorer = get_scorer(scoring) if scoring in get_scorer_names() else None
    function = getattr(scorer, "_score_func", None)
    function_name = getattr(function, "__name__", "")
    if y is None or function is None:
        return
    if getattr(sklearn.metrics, function_name, None) is not function:
        return
    labels = _labels(y)
    if len(labels) < 2:
        return
    name = scoring if isinstance(scoring, str) else function_name
    if len(labels) > 2 and _is_for_two_classes(scorer, function_name):
        raise ValueError(
            f"scoring={name!r} is for two classes, and y has {len(labels)}. "
            f"{_many_classes_fix(scorer, function_name)} The holdout was not queried."
        )
    pos_label = scorer._get_pos_label()
    if pos_label is None or pos_label in labels:
        return
    raise ValueError(
        f"scoring={name!r} counts the class pos_label={pos_label!r}, and y has the labels "
        f"{_labels_text(labels)}. {_pos_label_fix(scorer, labels)}. The holdout was not queried."
    )


def _labels(y):
    """Return the sorted class labels of one column of targets; an empty list for other targets."""
    y = as_labels(y)
    if np.ndim(y) != 1 or type_of_target(y) not in ("binary", "multiclass"):
        return []
    return np.unique(y).tolist()


def _is_for_two_classes(scorer, function_name):
    """Return whether the arguments of a scorer are for two classes only."""
    if function_name == "roc_auc_score":
        return scorer._kwargs.get("multi_class", "raise") == "raise"
    return scorer._kwargs.get("average", _default(scorer, "average")) == "binary"


def _default(scorer, name):
    """Return the default of an argument of a score function, None without this argument."""
    parameters = inspect.signature(scorer._score_func).parameters
    return parameters[name].default if name in parameters else None


def _many_classes_fix(scorer, function_name):
    """Return the sentence that names a scorer for more than two classes."""
    if function_name == "roc_auc_score":
        return "Set scoring='roc_auc_ovr'."
    macro_name = f"{function_name.removesuffix('_score')}_macro"
    if macro_name in get_scorer_names() and not set(scorer._kwargs) - {"average", "pos_label"}:
        return f"Set scoring={macro_name!r}, the mean over classes."
    return f"Set scoring={_scorer_text(scorer, average='macro', pos_label=None)}."


def _pos_label_fix(scorer, labels):
    """Return the advice if the positive class is not a label, without a period."""
    can_average = _default(scorer, "average") == "binary"
    is_average = can_average and scorer._kwargs.get("average", "binary") != "binary"
    if is_average or (len(labels) > 2 and _default(scorer, "pos_label") is None):
        return f"To count all classes, set scoring={_scorer_text(scorer, pos_label=None)}"
    if len(labels) > 2:  # average precision takes no other positive class than 1
        return f"Pass y as integers from 0 to {len(labels) - 1}"
    fix = f"Name the class to count: scoring={_scorer_text(scorer, pos_label=labels[-1])}"
    if set(labels) == {"0", "1"}:
        fix += ", or pass y as numbers: y.astype(int)"
    return fix


def _scorer_text(scorer, **changes):
    """Return the text of a ``make_scorer`` call, with ``changes`` of a scorer's arguments."""
    arguments = {**scorer._kwargs, **changes}
    if arguments.get("average") == "binary":
        del arguments["average"]
    if scorer._sign < 0:
        arguments["greater_is_better"] = False
    if scorer._response_method != "predict":
        arguments["response_method"] = scorer._response_method
    argument_texts = [f"{name}={value!r}" for name, value in arguments.items()]
    return f"make_scorer({', '.join([scorer._score_func.__name__, *argument_texts])})"


def _labels_text(labels):
    """Return the first four labels as text, and an ellipsis if there are more."""
    label_text = ", ".join(map(repr, labels[:4]))
    return f"{label_text}, ..." if len(labels) > 4 else label_text
