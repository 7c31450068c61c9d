"""Why a metric is refused and what to use instead; the one place that looks inside scorers."""

import difflib
import inspect

from sklearn_bdp.exceptions import UnboundedMetricError

_RATIO = (
    "it divides by a count of predictions or errors that one record can change from 0 to 1, so "
    "its sensitivity is not bounded by a multiple of 1/n"
)
_CLASSES = "use 'balanced_accuracy', 'accuracy' or 'neg_brier_score'"
#: For whoever knows what an error costs: a mean over records, which has a bound.
COSTS = """

    def cost(estimator, X, y):  # a missed 1 costs 5, a false one 1
        predicted = estimator.predict(X)
        return 5.0 * ((y == 1) & (predicted == 0)) + 1.0 * ((y == 0) & (predicted == 1))

    scoring = PerRecordScore(cost, 0.0, 5.0, greater_is_better=False)
"""
#: For relative errors, whose largest that counts is declared.
RELATIVE = """

    def relative_error(estimator, X, y):  # more than 200% counts as 200%
        return np.minimum(np.abs(estimator.predict(X) - y) / np.abs(y), 2.0)

    scoring = PerRecordScore(relative_error, 0.0, 2.0, greater_is_better=False)
"""
_RANKS = "use 'roc_auc' (two classes), 'neg_brier_score' or 'neg_log_loss'"
_ERRORS = "use 'neg_mean_absolute_error' or 'neg_mean_squared_error' with bounds=(low, high)"
_UNBOUNDED = "one record's contribution has no upper bound"
_CLUSTERS = (
    "it compares clusterings of all records at once and is not a mean over records",
    "use a PerRecordScore",
)
_UNPROVED = "no sensitivity has been proved here for averages over more than two classes"
_CONSTANT = "it divides by the loss of a constant prediction on the holdout's own targets"
_ROOT = "it is the root of a mean, whose sensitivity is unbounded near zero"
_SQUARE = "use 'neg_mean_squared_error' with bounds=(low, high); take the root of its interval"
_SINGLE = "it depends on single records (a maximum or a median), not on a mean"
_VARIANCE = (
    "it divides by the spread of the holdout's own targets, which one record can change without "
    "bound"
)

#: Names of one family, why they are refused, and what to use instead.
_FAMILIES = (
    ("f1 precision jaccard", _RATIO, _CLASSES),
    ("matthews_corrcoef positive_likelihood_ratio", _RATIO, _CLASSES),
    ("neg_negative_likelihood_ratio", _RATIO, _CLASSES),
    (
        "recall",  # its averages: recall_weighted and the like
        "averages of recalls weigh classes by counts that one record can change",
        "use 'balanced_accuracy', the mean recall of all classes, or 'recall' of one class with "
        "get_metric('recall', pos_label=...)",
    ),
    ("average_precision", _RATIO, _RANKS),
    ("roc_auc_ovr roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted", _UNPROVED, _RANKS),
    ("r2 explained_variance d2_absolute_error_score", _VARIANCE, _ERRORS),
    ("d2_brier_score d2_log_loss_score", _CONSTANT, _RANKS),
    ("neg_mean_absolute_percentage_error neg_mean_gamma_deviance", _UNBOUNDED, _ERRORS),
    ("neg_mean_poisson_deviance neg_mean_squared_log_error", _UNBOUNDED, _ERRORS),
    ("neg_root_mean_squared_error neg_root_mean_squared_log_error", _ROOT, _SQUARE),
    ("neg_max_error neg_median_absolute_error", _SINGLE, _ERRORS),
    ("adjusted_mutual_info_score adjusted_rand_score completeness_score", *_CLUSTERS),
    ("fowlkes_mallows_score homogeneity_score mutual_info_score", *_CLUSTERS),
    ("normalized_mutual_info_score rand_score v_measure_score", *_CLUSTERS),
)
_REASONS = {name: reason for names, *reason in _FAMILIES for name in names.split()}


#: What a final report gives, read from the closed holdout.
REPORTED = (
    "f1", "precision", "average_precision", "r2", "explained_variance",
    "neg_root_mean_squared_error",
)  # fmt: skip


def reason_for(function):
    """Return the name under which a function of scikit-learn's metrics is refused, or None."""
    name = getattr(function, "__name__", "")
    if not str(getattr(function, "__module__", "")).startswith("sklearn.metrics"):
        return None
    plain = name.removesuffix("_score")
    return next((one for one in (name, plain, f"neg_{name}") if one in _REASONS), None)


def refuse(name, available):
    """Raise the error for a metric that is not available."""
    family = name
    for suffix in ("_micro", "_macro", "_weighted", "_samples"):
        if name not in _REASONS:
            family = family.removesuffix(suffix)
    if family in _REASONS:
        why, instead = _REASONS[family]
        message = f"scoring={name!r} cannot choose candidates: {why}. Instead, {instead}."
        if family in REPORTED:
            message += f" Report {name} at the end: search.final_report(scoring={name!r})."
        if why == _RATIO and instead == _CLASSES:
            message += f" If you know what each error costs, use a PerRecordScore:{COSTS}"
        if family == "neg_mean_absolute_percentage_error":
            message += f" For relative errors, use a PerRecordScore:{RELATIVE}"
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


def unwrap_scorer(scorer, options, functions, kept):
    """Return (name, options) of a scorer made by ``make_scorer`` from a supported metric.

    ``functions``: metric function to (name here, sign of a scorer made from it, response it is
    computed from). ``kept``: (name, argument of the function) to the option here of the same
    meaning, None where the argument makes no difference. Others raise `UnboundedMetricError`.
    """
    function = getattr(scorer, "_score_func", None)
    described = getattr(function or scorer, "__name__", type(scorer).__name__)
    try:
        name, sign, response = functions[function]
    except (KeyError, TypeError):
        known = reason_for(function)
        if known is not None:
            refuse(known, ())
        raise UnboundedMetricError(
            f"scoring={described} is not supported: the range of its values, and how far one "
            f"record can move them, are unknown. {_WRAP_IT} Of costs of errors:{COSTS}"
        ) from None
    if scorer._sign != sign:
        raise UnboundedMetricError(
            f"scoring is made from {described} with the wrong greater_is_better: the search would "
            f"look for the worst model. Use scoring={name!r}."
        )
    if scorer._response_method not in (response, list(response)):
        raise UnboundedMetricError(
            f"scoring is made from {described} with response_method="
            f"{scorer._response_method!r}, for which no bound is proved. Use scoring={name!r}."
        )
    if _requests(scorer):
        raise UnboundedMetricError(
            f"scoring is made from {described} and asks for sample weights or other metadata, "
            f"with which no bound is proved. Use scoring={name!r}. {_WRAP_IT}"
        )
    return name, {**options, **_translated(name, function, scorer._kwargs, kept)}


def _translated(name, function, arguments, kept):
    """Return our options for the metric function's arguments, but for those at their default."""
    defaults = inspect.signature(function).parameters
    options = {}
    for key, value in arguments.items():
        if (name, key) in kept:
            if kept[name, key]:
                options[kept[name, key]] = value
        elif key not in defaults or value is not defaults[key].default:
            raise UnboundedMetricError(
                f"scoring is made from {function.__name__} with {key}={value!r}, for which no "
                f"bound is proved. Use scoring={name!r} without it. {_WRAP_IT}"
            )
    return options


def _requests(scorer):
    """Return whether a scorer asks for metadata; a request of False says that it does not."""
    request = getattr(getattr(scorer, "_metadata_request", None), "score", None)
    return any(wanted not in (None, False) for wanted in getattr(request, "requests", {}).values())
