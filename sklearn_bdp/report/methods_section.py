"""Sentences for the methods section of a paper, from the rows of a final report."""

from __future__ import annotations

import math
import re
from typing import Any

from sklearn_bdp.metrics.proofs import BETS, CLASSES, COUNTS, FREE, PAST, RECALLS, TAIL
from sklearn_bdp.utils.html import format_score

#: Names of metrics in prose. Others are their scikit-learn names without underscores.
_PROSE_NAMES = {
    "roc_auc": "area under the ROC curve",
    "f1": "F1 score",
    "jaccard": "Jaccard index",
    "matthews_corrcoef": "Matthews correlation coefficient",
    "r2": "R²",
    "neg_brier_score": "Brier score",
    "neg_log_loss": "log loss",
}
#: Methods of intervals with their sources; ``{s}`` is the ending of the plural.
_SOURCES = {
    COUNTS: "Clopper-Pearson interval{s} (Clopper and Pearson 1934)",
    BETS: "betting interval{s} (Voráček and Orabona 2025)",
    FREE: (
        "bound{s} for records in any order (supermartingale of fixed bets, Waudby-Smith and "
        "Ramdas 2024)"
    ),
    CLASSES: (
        "U-statistic bound{s} given the class counts (Hoeffding 1963, with bets as in Waudby-Smith "
        "and Ramdas 2024)"
    ),
    PAST: "martingale bound{s} (bets over dates, valid for any dependence between them)",
    TAIL: "concentration bound{s} of the declared dependence model",
    RECALLS: "combined interval{s} of the recall of each class",
}
#: Last words of names of metrics that have an article in prose.
_NOUNS = (
    *("score", "curve", "index", "coefficient", "error", "slope", "intercept", "deviance"),
    *("benefit", "value"),
)
#: Metrics of predicted classes, by the start of their names.
_THRESHOLD_METRICS = (
    *("accuracy", "balanced_accuracy", "f1", "jaccard", "matthews_corrcoef", "precision"),
    *("negative_predictive_value", "recall", "specificity", "cohen_kappa"),
)
_NEGATIVE = "neg_"
#: Start of the note on errors that are clipped in the proven interval only.
_CLIPPED_NOTE = "The proven interval is about errors clipped"
_PAIR = re.compile(" minus | against ")  # between the models of a difference or a skill score
_MAX_ESTIMATES = 3  # metrics that are named in one sentence on approximate intervals
#: Parameters of a model that do not describe it, in the code of the model.
_UNNAMED_PARAMETERS = re.compile(
    r"(?<=\()((random_state|n_jobs|verbose)=\w+(, )?)+|, (random_state|n_jobs|verbose)=\w+"
)
_AVERAGES = ("macro", "micro", "weighted", "samples")


def methods_section(report: Any) -> str:
    """Return sentences on the sample, the first estimate, its target, and the coverage of all.

    Parameters
    ----------
    report : FinalReport
        The report that a paper is about.
    """
    sentences = [
        *_sample_sentences(report),
        *_use_sentences(report),
        *_estimate_sentences(report),
        *_target_sentences(report),
    ]
    proven_rows = [row for row in report.rows if row.proven is not None]
    n_approximate = sum(row.approximate is not None for row in report.rows)
    if report.alpha_approximate is None:
        n_approximate = 0
    if proven_rows:
        sentences += _proven_sentences(report, proven_rows, has_approximate=n_approximate > 0)
    if n_approximate:
        sentences.append(_approximate_sentence(report, n_approximate))
    if proven_rows and n_approximate and report.joint:
        confidence_of_both = _percent(2.0 * report.confidence_level - 1.0)
        sentences.append(
            f"The {_percent(report.confidence_level)} holds for each kind of interval separately. "
            f"Both kinds read together have nominal simultaneous coverage of {confidence_of_both}."
        )
    sentences += _clip_sentences(report)
    n_without = sum(not math.isfinite(row.lower) for row in report.rows)
    if n_without:
        estimates = "1 estimate has" if n_without == 1 else f"{n_without} estimates have"
        sentences.append(f"The notes in the report state why {estimates} no interval.")
    if any(row.metric.startswith(_THRESHOLD_METRICS) for row in report.rows):
        sentences.append("Classes were predicted at the default threshold of each model.")
    sentences.append("Intervals were computed with the Python package sklearn_bdp.")
    return " ".join(sentences)


def _sample_sentences(report):
    """Yield sentences on the records and units of the holdout, and on those of subgroups."""
    n_units, _ = report.units
    unit_name = _unit_name(report)
    first = report.rows[0]
    label, n_positive = report.positives or ("", first.n_events)
    label_text = f": {label}" * bool(label)
    n_units_positive = first.n_events if not first.subgroup else None
    details = ""
    if unit_name == "records" or n_units == report.n:
        samples = f"{n_units:,} {unit_name}"
        if n_positive is not None and not first.subgroup:
            details = f"{n_positive:,} positive{label_text}"
    else:
        preposition = "on" if unit_name == "dates" else "from"
        samples = f"{report.n:,} records {preposition} {n_units:,} {unit_name}"
        if n_units_positive is not None:
            details = f"{n_units_positive:,} {unit_name} with a positive record{label_text}"
        if report.positives is not None:
            details = f"{n_positive:,} positive records, {details}"
    samples += f" ({details})" * bool(details)
    weighting_of_groups = {
        "unit": " per group (all groups weigh the same)",
        "record": " per record (all records weigh the same)",
    }
    weighting = weighting_of_groups[report.per] * (unit_name == "groups")
    yield f"Performance{weighting} was estimated on a holdout of {samples}."
    row_of_subgroup = {row.subgroup: row for row in report.rows if row.subgroup}
    subgroup_texts = [
        f"{subgroup} ({_count_text(row, unit_name)})"
        for subgroup, row in row_of_subgroup.items()
        if " minus " not in subgroup
    ]
    if subgroup_texts:
        yield f"The subgroups are {_listed(subgroup_texts)}."


def _unit_name(report):
    """Return the name of the sampling units; of dates the unit of time, such as days."""
    in_target = re.match(r"these [\d,]+ (\w+), each given", report.rows[0].target)
    return in_target[1] if in_target else report.units[1]


def _count_text(row, unit_name):
    """Return the number of units of a row, and of those with a positive record, as text."""
    text = f"{row.n_units:,} {unit_name}"
    if row.n_events is None:
        return text
    positive = "positive" if unit_name == "records" else "with a positive record"
    return f"{text}, {row.n_events:,} {positive}"


def _use_sentences(report):
    """Yield sentences on the use of the holdout before this report."""
    n_rows = len(report.rows)
    estimates = "1 estimate" if n_rows == 1 else f"{n_rows} estimates"
    if report.n_batches:
        rounds = "1 round" if report.n_batches == 1 else f"{report.n_batches:,} rounds"
        scores = f"{report.n_answered:,} scores had been"
        if report.n_answered == 1:
            scores = "1 score had been"
        yield (
            f"Before this evaluation, {scores} verified on the same holdout in {rounds} of model "
            "selection, so that the choice of the final models may depend on them. All intervals "
            f"account for this. The models and metrics of the final evaluation ({estimates}) were "
            "fixed before it."
        )
    else:
        yield (
            "The holdout had not been evaluated before. The models and metrics of the evaluation "
            f"({estimates}) were specified in advance."
        )
    if report.refit:
        yield f"Models were refitted {report.refit} on all records known by then."
    if any(" minus " in row.model for row in report.rows):
        yield (
            "Differences between models are those of the first minus the second model on the same "
            "records."
        )
    if any(row.metric.startswith(_NEGATIVE) for row in report.rows):
        yield (
            "In the table of the report, losses have a negative sign, so that larger values are "
            "better."
        )


def _estimate_sentences(report):
    """Yield a sentence on the first estimate; none without an interval."""
    first = report.rows[0]
    if not math.isfinite(first.lower):
        return
    name, separator, condition = first.metric.partition(" (")
    details = [condition.removesuffix(")")] if separator else []
    if first.positive:
        details.append(f"positive class {first.positive}")
    subject = (
        _prose_name(name)
        + f" ({', '.join(details)})" * bool(details)
        + f" of {_model_name(report, first)}"
    )
    subject += f" for {first.subgroup}" * bool(first.subgroup)
    value, lower, upper = first.value, first.lower, first.upper
    if name.startswith(_NEGATIVE):  # papers state losses
        value, lower, upper = -value, -upper, -lower
    level = _percent(report.confidence_level)
    kind = "approximate " * (first.proven is None)
    if report.joint and len(report.rows) > 1:
        kind = "simultaneous " + kind
    interval = f"{kind}{level} confidence interval {_limits_text(lower, upper)}"
    if first.proven is not None and first.approximate is not None:
        approximate_lower, approximate_upper = first.approximate
        if name.startswith(_NEGATIVE):
            approximate_lower, approximate_upper = -approximate_upper, -approximate_lower
        limits_text = _limits_text(approximate_lower, approximate_upper)
        interval += f", approximate {level} interval {limits_text}"
    yield f"The {subject} was {format_score(value)} ({interval})."


def _model_name(report, row):
    """Return the model of a row without parameters that do not describe it."""
    name = row.model.removesuffix(f", refitted {report.refit}")
    return _UNNAMED_PARAMETERS.sub("", name)


def _target_sentences(report):
    """Yield sentences on the targets of the intervals."""
    targets = list(dict.fromkeys(row.target for row in report.rows))
    models = {row.model for row in report.rows if not _PAIR.search(row.model)}
    article = "each" if len(models) > 1 else "the"
    model = "the refitted models" if report.refit else f"{article} fitted model"
    weighting = ""
    if report.per == "unit" and report.units[1] == "groups":
        weighting = ", where all groups weigh the same"
    if len(targets) == 1:
        yield (
            f"The estimand is the value of the metric that is expected for {model} on "
            f"{targets[0]}{weighting}."
        )
        return
    numbered = [f"({number}) on {target}" for number, target in enumerate(targets, 1)]
    count = "two" if len(targets) == 2 else f"{len(targets)}"
    yield (
        f"There are {count} estimands for each metric: the value of the metric that is expected "
        f"for {model}{weighting} {', and '.join(numbered)}. The estimate above refers to (1)."
    )


def _listed(texts):
    """Return texts as one list in prose, such as "a, b, and c"."""
    if len(texts) < 3:
        return " and ".join(texts)
    return f"{', '.join(texts[:-1])}, and {texts[-1]}"


def _limits_text(lower, upper):
    """Return the limits of an interval as text, rounded outward."""
    return f"{format_score(lower, math.floor)} to {format_score(upper, math.ceil)}"


def _prose_name(metric):
    """Return the name of a metric as papers have it."""
    base, _, average = metric.rpartition("_")
    if average in _AVERAGES:
        return f"{average}-averaged {_prose_name(base)}"
    return _PROSE_NAMES.get(metric, metric.removeprefix(_NEGATIVE).replace("_", " "))


def _proven_sentences(report, rows, *, has_approximate):
    """Yield sentences on the coverage and the methods of proven intervals.

    ``rows``: those with a proven interval. ``has_approximate``: whether the report has approximate
    intervals, too.
    """
    coverage = " with proven coverage" * has_approximate
    level = _percent(1.0 - report.alpha_proven)
    probability = f"with probability at least {_percent(report.confidence_level)}"
    if not report.joint:
        yield (
            f"Each confidence interval{coverage} was computed at level {level}, so that by itself "
            f"it covers its target {probability}, after any earlier evaluations."
        )
    elif len(rows) == 1:
        yield (
            f"The confidence interval{coverage} was computed at level {level}, so that it and all "
            f"intervals released earlier cover their targets simultaneously {probability}."
        )
    else:
        yield (
            f"The {len(rows)} confidence intervals{coverage} were computed at level {level} each, "
            "so that they and all intervals released earlier cover their targets simultaneously "
            f"{probability}."
        )
    yield from _method_sentences(report, rows)
    transformed = ("f1", "jaccard")
    if any(
        row.metric.startswith(transformed) and row.proven is not None and COUNTS in row.method
        for row in report.rows
    ):
        yield "Intervals of F1 are those of the Jaccard index J, a proportion, as 2J/(1 + J)."
    methods = [row.method for row in rows]
    if any("for each class" in method for method in methods):
        yield (
            "Intervals of means over classes combine intervals of all classes, whose error "
            "probabilities add up (Bonferroni)."
        )
    if any("for each subgroup" in method for method in methods):
        yield (
            "Intervals of differences between subgroups combine intervals of both, each at half "
            "the error probability."
        )


def _method_sentences(report, rows):
    """Yield a sentence on each method of proven intervals, with the estimates it was used for."""
    rows_by_method = {}
    for row in rows:
        method = next((name for name in _SOURCES if row.method.startswith(name)), row.method)
        rows_by_method.setdefault(method, []).append(row)
    for method, rows_of_method in rows_by_method.items():
        source = _SOURCES.get(method, method)
        is_single = len(rows_of_method) == 1
        text = f"A {source}".format(s="") if is_single else source.format(s="s")
        purpose = ""
        if len(rows_of_method) < len(report.rows):
            purpose = f" for {_listed(_estimates(rows_of_method))}"
        yield f"{text[0].upper()}{text[1:]} {'was' if is_single else 'were'} used{purpose}."


def _estimates(rows):
    """Return the metrics of rows in prose, followed by those of differences."""
    names_by_difference = {"": [], "between models": [], "between subgroups": []}
    for row in rows:
        difference = "between models" if " minus " in row.model else ""
        difference = "between subgroups" if " minus " in row.subgroup else difference
        names_by_difference[difference].append(_with_article(row))
    phrases = list(dict.fromkeys(names_by_difference.pop("")))
    for difference, names in names_by_difference.items():
        noun = "the difference" if len(names) == 1 else "differences"
        if names:
            phrases.append(f"{noun} {difference} in {_listed([*dict.fromkeys(names)])}")
    return phrases


def _with_article(row):
    """Return the metric of a row in prose, with the article that it needs."""
    if row.metric.startswith("skill score"):
        return "the skill score"
    name = _prose_name(row.metric.partition(" (")[0])
    return f"the {name}" if name.endswith(_NOUNS) else name


def _clip_sentences(report):
    """Yield sentences on losses that are clipped, without the clip of the first estimate."""
    clipped_metrics = [row.metric for row in report.rows if " (clipped at " in row.metric]
    for metric in dict.fromkeys(clipped_metrics):
        name, _, detail = metric.partition(" (")
        if metric != report.rows[0].metric and not name.startswith("skill score"):
            yield f"The {_prose_name(name)} is {detail.removesuffix(')')}."
    if any(note.startswith(_CLIPPED_NOTE) for row in report.rows for note in row.notes):
        yield "Approximate intervals of errors are about errors that are not clipped."


def _approximate_sentence(report, n_intervals):
    """Return a sentence on the coverage and the method of approximate intervals.

    ``n_intervals``: number of these intervals.
    """
    method = f"jackknife over {_unit_name(report)}"
    rows = [row for row in report.rows if row.approximate is not None]
    estimates = _estimates(rows)
    purpose = ""
    if len(rows) < len(report.rows) and len(estimates) <= _MAX_ESTIMATES:
        purpose = f" for {_listed(estimates)}"
    level = _percent(1.0 - report.alpha_approximate)
    details = f"({method}, computed at level {level}"
    coverage = f"coverage of {_percent(report.confidence_level)}"
    basis = ", which relies on a large-sample approximation"
    if not report.joint:
        return (
            f"Each approximate confidence interval{purpose} by itself {details}) "
            f"has nominal {coverage}{basis}."
        )
    if n_intervals == 1:
        reason = " because of the earlier evaluations" * bool(report.n_batches)
        return (
            f"The approximate confidence interval{purpose} ({method}) was computed at level "
            f"{level}{reason}. It has nominal {coverage}{basis}."
        )
    return (
        f"The {n_intervals} approximate confidence intervals{purpose} {details} "
        f"each) have nominal simultaneous {coverage}{basis}."
    )


def _percent(fraction):
    """Return a fraction as the text of a percentage of at most four digits."""
    return f"{100.0 * fraction:.4g}%"
