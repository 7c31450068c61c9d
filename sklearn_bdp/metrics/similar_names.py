"""The metric that a user means by an unknown name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

#: Common names of metrics, in lower case and without punctuation, and the names that exist.
SYNONYMS = {
    "acc": "accuracy",
    "ap": "average_precision",
    "auc": "roc_auc",
    "aucpr": "average_precision",
    "auprc": "average_precision",
    "aucroc": "roc_auc",
    "auroc": "roc_auc",
    "bacc": "balanced_accuracy",
    "brier": "neg_brier_score",
    "brierloss": "neg_brier_score",
    "brierscoreloss": "neg_brier_score",
    "cindex": "roc_auc",
    "crossentropy": "neg_log_loss",
    "cstatistic": "roc_auc",
    "dice": "f1",
    "fscore": "f1",
    "hamming": "neg_hamming_loss",
    "iou": "jaccard",
    "logloss": "neg_log_loss",
    "mae": "neg_mean_absolute_error",
    "map": "average_precision",
    "mape": "neg_mean_absolute_percentage_error",
    "mcc": "matthews_corrcoef",
    "medae": "neg_median_absolute_error",
    "mse": "neg_mean_squared_error",
    "msle": "neg_mean_squared_log_error",
    "nll": "neg_log_loss",
    "npv": "negative_predictive_value",
    "pinball": "neg_mean_pinball_loss",
    "ppv": "precision",
    "prauc": "average_precision",
    "quantile": "neg_mean_pinball_loss",
    "rmse": "neg_root_mean_squared_error",
    "rmsle": "neg_root_mean_squared_log_error",
    "rsquared": "r2",
    "sensitivity": "recall",
    "tnr": "specificity",
    "tpr": "recall",
}
#: Arguments of ``make_scorer`` for functions that have no name as a metric, by their common names
#: in lower case and without punctuation.
_FUNCTIONS = {
    **dict.fromkeys(("kappa", "cohenkappa", "cohenskappa"), "cohen_kappa_score"),
    "fbeta": "fbeta_score, beta=2",
    "f2": "fbeta_score, beta=2",
    "hinge": "hinge_loss, greater_is_better=False, response_method='decision_function'",
    "hingeloss": "hinge_loss, greater_is_better=False, response_method='decision_function'",
    "tweedie": "d2_tweedie_score, power=1.5",
}
#: Smallest similarity of a misspelled name, from 0 to 1.
_MIN_SIMILARITY = 0.7


def same_metric(name: str, names: Iterable[str]) -> str:
    """Return the metric that a name means in another notation.

    Parameters
    ----------
    name : str
        Name in another notation, as ``"RMSE"``, ``"roc-auc"`` or ``"mean_squared_error"``.
    names : iterable of str
        Metrics that exist.

    Returns
    -------
    str
        One of ``names``, or of the metrics in `SYNONYMS`; empty if the name means none of them.
    """
    plain_name = _plain(name)
    metric_by_plain_name = {_plain(metric): metric for metric in names}
    stem = plain_name.removesuffix("score").removesuffix("loss").removeprefix("neg")
    for variant in (plain_name, f"neg{plain_name}", f"{plain_name}score", stem, f"neg{stem}"):
        if variant in SYNONYMS or variant in metric_by_plain_name:
            return SYNONYMS.get(variant) or metric_by_plain_name[variant]
    return ""


def similar_metric(name: str, names: Iterable[str]) -> str:
    """Return the metric that a misspelled or incomplete name most likely means.

    Parameters
    ----------
    name : str
        Any text.
    names : iterable of str
        Metrics that exist.

    Returns
    -------
    str
        One of ``names``, or of the metrics in `SYNONYMS`; empty if no name is similar.
    """
    metric_by_plain_name = {_plain(metric): metric for metric in names}
    if metric := same_metric(name, metric_by_plain_name.values()):
        return metric
    plain_name = _plain(name)
    completions = [
        metric
        for plain_metric, metric in metric_by_plain_name.items()
        if plain_metric.startswith(plain_name)
    ]
    close_plain_names = difflib.get_close_matches(
        plain_name, [*metric_by_plain_name, *SYNONYMS], n=1, cutoff=_MIN_SIMILARITY
    )
    matches = [SYNONYMS.get(match) or metric_by_plain_name[match] for match in close_plain_names]
    return next(iter([*completions, *matches] if plain_name else matches), "")


def unknown_metric_error(
    name: str, available: Sequence[str], names: Iterable[str] = ()
) -> ValueError:
    """Return the error for a name of no metric.

    Parameters
    ----------
    name : str
        The name.
    available : sequence of str
        Metrics with a proven interval.
    names : iterable of str, default=()
        Further metrics that exist; empty for a plan, which takes no scorers.

    Returns
    -------
    ValueError
        With the metric, or the call of ``make_scorer``, that the name may mean, or else with the
        available metrics.
    """
    similar_name = similar_metric(name, [*available, *names])
    hint = f" Did you mean {similar_name!r}?" if similar_name else ""
    if similar_name.endswith("_error"):
        hint += " For a classifier, use 'neg_brier_score' or 'neg_log_loss'."
    scorer_arguments = _FUNCTIONS.get(_plain(name).removesuffix("score"))
    if scorer_arguments is not None and names:
        hint = f" Pass scoring=make_scorer({scorer_arguments})."
    hint = hint or (
        f" Metrics with a proven interval: {', '.join(available)}. "
        "Searches and final reports also take the names of sklearn.metrics.get_scorer_names(), "
        "make_scorer(function) and PerRecordScore(function, lower, upper)."
    )
    return ValueError(
        f"scoring={name!r} is not the name of a metric.{hint} The holdout was not queried."
    )


def _plain(name):
    """Return a name in lower case and without punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
