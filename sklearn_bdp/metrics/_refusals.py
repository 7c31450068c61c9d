"""Why a metric is refused and what to use instead; the one place that looks inside scorers."""

import difflib
import inspect

from sklearn import metrics

from sklearn_bdp.exceptions import UnboundedMetricError

_RATIO = "it divides by a count of predictions or errors that one record can change from 0 to 1"
_SPREAD = "it divides by the spread of the holdout's own targets, which one record can change"
_WEIGHTS = "averages of recalls weigh classes by counts that one record can change"
_ROOT = "it is the root of a mean, whose sensitivity is unbounded near zero"
_ERRORS = "use 'neg_mean_absolute_error' or 'neg_mean_squared_error' with bounds=(low, high)"
_RANKS = "use 'roc_auc' (two classes), 'neg_brier_score' or 'neg_log_loss'"
_RECALLS = "use 'balanced_accuracy', or get_metric('recall', pos_label=...) for one class"
_CLASSES = (
    "use 'balanced_accuracy', 'accuracy' or 'neg_brier_score', or a PerRecordScore if you know "
    "what each error costs (its examples declare such costs)"
)
_RELATIVE = (
    "mean_absolute_percentage_error mean_gamma_deviance mean_poisson_deviance "
    "mean_squared_log_error"
)
_OF_CLUSTERS = "adjusted_mutual_info adjusted_rand completeness fowlkes_mallows homogeneity"
_OF_CLUSTERS += " mutual_info normalized_mutual_info rand v_measure"

#: Names of one family, why they are refused, and what to use instead.
_FAMILIES = (
    ("f1 precision jaccard matthews_corrcoef", _RATIO, _CLASSES),
    ("positive_likelihood_ratio negative_likelihood_ratio", _RATIO, _CLASSES),
    ("average_precision", _RATIO, _RANKS),
    ("recall", _WEIGHTS, _RECALLS),  # recall_weighted and the like
    ("roc_auc_ovr roc_auc_ovo", "no bound is proved beyond two classes", _RANKS),
    ("r2 explained_variance d2_absolute_error", _SPREAD, _ERRORS),
    ("d2_brier d2_log_loss", "it divides by a loss on the holdout's own targets", _RANKS),
    ("root_mean_squared_error root_mean_squared_log_error", _ROOT, f"{_ERRORS}, and take its root"),
    (_RELATIVE, "one record's contribution has no upper bound", f"{_ERRORS} or a PerRecordScore"),
    ("max_error median_absolute_error", "it depends on single records, not on a mean", _ERRORS),
    (_OF_CLUSTERS, "it compares clusterings of all records at once", "use a PerRecordScore"),
)
_REASONS = {name: reason for names, *reason in _FAMILIES for name in names.split()}


def _family(name):
    """Return the family's name under which a metric is refused, or None."""
    name = str(name).removeprefix("neg_").removesuffix("_score")
    for suffix in ("_micro", "_macro", "_weighted", "_samples"):
        name = name.removesuffix(suffix)
    return name if name in _REASONS else None


#: What a final report gives, read from the closed holdout.
_REPORTED = [
    "f1",
    "precision",
    "average_precision",
    "r2",
    "explained_variance",
    "root_mean_squared_error",
]


def refuse(name, available):
    """Raise the error for a metric that is not available."""
    family = _family(name)
    if family is not None:
        why, instead = _REASONS[family]
        message = f"scoring={name!r} cannot choose candidates: {why}. Instead, {instead}."
        if family in _REPORTED:
            message += f" Report {name} at the end: search.final_report(scoring={name!r})."
        raise UnboundedMetricError(message)
    near = difflib.get_close_matches(str(name), [*available, *_REASONS], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"scoring={name!r} is not a metric.{hint} Metrics that can be verified: "
        f"{', '.join(available)}. Your own: PerRecordScore(function, lower, upper)."
    )


_WRAP_IT = (
    "Use a metric's name, or declare one bounded number per record with "
    "PerRecordScore(function, lower, upper)."
)
_RANKING = ("decision_function", "predict_proba")
#: What a scorer of that name asks a model for; all others: ``predict``.
_RESPONSES = {
    "top_k_accuracy": _RANKING,
    "roc_auc": _RANKING,
    "neg_brier_score": "predict_proba",
    "neg_log_loss": "predict_proba",
}
#: Arguments that mean here what they mean there, and those that make no difference: the Brier score
#: of two classes is the same whichever is positive, the classes of a log loss are the model's.
_KEPT = {("top_k_accuracy", "k"), ("recall", "pos_label"), ("neg_mean_pinball_loss", "alpha")}
_IGNORED = {("neg_brier_score", "pos_label"), ("neg_log_loss", "labels")}


def unwrap_scorer(scorer, available):
    """Return (name, options) of a scorer made by ``make_scorer`` from a supported metric.

    Others raise `UnboundedMetricError`.
    """
    function = getattr(scorer, "_score_func", None)
    described = getattr(function or scorer, "__name__", type(scorer).__name__)
    plain, name = described.removesuffix("_score"), None
    if function is not None and getattr(metrics, described, None) is function:
        names = (f"neg_{plain}", f"neg_{plain.removesuffix('_loss')}", plain)
        name = next((one for one in names if one in available), None)
        if name is None and _family(plain) is not None:
            refuse(plain, available)
    if name is None:
        raise UnboundedMetricError(
            f"scoring={described} is not supported: the range of its values, and how far one "
            f"record can move them, are unknown. {_WRAP_IT}"
        )
    defaults, options, wrong = inspect.signature(function).parameters, {}, ""
    for key, value in scorer._kwargs.items():
        if (name, key) in _KEPT:
            options[key] = value
        elif (name, key) not in _IGNORED:
            same = key in defaults and value is defaults[key].default
            wrong = wrong if same else f"{key}={value!r}"
    response = _RESPONSES.get(name, "predict")
    if scorer._sign != (-1 if name.startswith("neg_") else 1):
        wrong = "the wrong greater_is_better (it would look for the worst model)"
    elif scorer._response_method not in (response, list(response)):
        wrong = f"response_method={scorer._response_method!r}"
    elif _requests(scorer):
        wrong = "sample weights or other metadata"
    if wrong:
        raise UnboundedMetricError(
            f"scoring is made from {described} with {wrong}, for which no bound is proved. Use "
            f"scoring={name!r}. {_WRAP_IT}"
        )
    return name, options


def _requests(scorer):
    """Return whether a scorer asks for metadata; a request of False says that it does not."""
    request = getattr(getattr(scorer, "_metadata_request", None), "score", None)
    return any(wanted not in (None, False) for wanted in getattr(request, "requests", {}).values())
