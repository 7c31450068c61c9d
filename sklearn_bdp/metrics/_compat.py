"""The one place that looks inside scikit-learn's scorer objects."""

import inspect

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics._refusals import COSTS, reason_for, refuse

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
            f"scoring={described} is refused: nothing is known about the range of its values or "
            f"how far one record can move them. {_WRAP_IT} Of costs of errors:{COSTS}"
        ) from None
    if scorer._sign != sign:
        raise UnboundedMetricError(
            f"scoring is made from {described} with the wrong greater_is_better: the search would "
            f"look for the worst model. Use scoring={name!r}."
        )
    if _as_tuple(scorer._response_method) != _as_tuple(response):
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


def _as_tuple(response):
    return (response,) if isinstance(response, str) else tuple(response)
