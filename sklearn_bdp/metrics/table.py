"""Table of all registered metrics, for the documentation."""

from __future__ import annotations

import inspect
import math

from sklearn.metrics import get_scorer_names

from sklearn_bdp.metrics.base import METRICS, Metric
from sklearn_bdp.metrics.registry import metric_without_range

#: Dependences of :mod:`sklearn_bdp.metrics.proofs` that the table lists, and their words in it.
_DEPENDENCES = {
    "records": "records",
    "groups": "groups",
    "past": "dates",
    "dependent": "chains",
    "given the rest": "networks",
}
_HEADER = ("name", "score", "range", "in a search", "proven in a final report for")


def metric_table() -> str:
    """Return the table of all metrics in Markdown.

    Returns
    -------
    str
        A header, and a line for each class of metrics: its names and options, its score, its
        range, the kind of its intervals in a search, and the kinds of dependence for which a final
        report has proven rows about one model.
    """
    names_by_class: dict[type[Metric], list[str]] = {}
    for name, metric_class in METRICS.items():
        names_by_class.setdefault(metric_class, []).append(name)
    rows = [_table_row(names, metric_class) for metric_class, names in names_by_class.items()]
    rows.sort(key=lambda row: (row[3] != "proven", row[0]))  # by "in a search", then by name
    lines = [_HEADER, ("---",) * len(_HEADER), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _table_row(names, metric_class):
    """Return the texts of a row of the table, one for each column.

    ``names`` are those under which the class is registered.
    """
    name = names[0]
    shown_name = f"`{name}`"
    if metric_class.needs_number and not metric_class.can_rank:
        shown_name = f"`{name}_0.2`"
    options_text = ""
    if metric_class.can_rank:  # options of get_metric
        options_text = ", ".join(f"`{option}=`" for option in metric_class.options)
    aliases_text = ", ".join(f"`{alias}`" for alias in names[1:])
    shown_name += "".join(f" ({text})" for text in (options_text, aliases_text) if text)
    score_text = inspect.getdoc(metric_class).splitlines()[0].rstrip(".").replace("``", "`")
    lower, upper = metric_class.score_range
    range_text = metric_class.range_text or (
        f"{_range_end_text(lower, 'lower')}, {_range_end_text(upper, 'upper')}"
    )
    search_text = _search_interval_text(name, metric_class)
    proof_text = _proven_dependences_text(name, metric_class)
    return shown_name, score_text, range_text, search_text, proof_text


def _search_interval_text(name, metric_class):
    """Return the text of the column "in a search"."""
    if metric_class.can_rank:
        return "proven"
    if name not in get_scorer_names():
        return "reports only"
    return "proven for records" if metric_class.is_ratio else "approximate"


def _range_end_text(value, end_name):
    """Return the text of one end of a range, with a bracket, or a parenthesis if it is infinite.

    ``end_name`` is "lower" or "upper".
    """
    bracket, parenthesis, infinity_sign = {"lower": ("[", "(", "−"), "upper": ("]", ")", "")}[
        end_name
    ]
    number = f"{infinity_sign}∞" if math.isinf(value) else f"{value:g}".replace("-", "−")
    delimiter = parenthesis if math.isinf(value) else bracket
    return delimiter + number if end_name == "lower" else number + delimiter


def _proven_dependences_text(name, metric_class):
    """Return the kinds of dependence with a proven row about one model, or a dash."""
    metric = _any_metric(name, metric_class)
    proven_words = [
        table_word for dependence, table_word in _DEPENDENCES.items() if metric.proof(dependence)
    ]
    return ", ".join(proven_words) or "—"


def _any_metric(name, metric_class):
    """Return a metric of the class with arbitrary valid options."""
    if metric_class.can_rank:
        options = metric_class.placeholder_options
        return metric_class.build(name, classes=None, y=None, options=options)
    return metric_without_range(f"{name}_0.2" if metric_class.needs_number else name)
